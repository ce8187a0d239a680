"""Groups of Zarr."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from hyperslab import _native
from hyperslab._array import Array
from hyperslab._array_config import ArrayConfig
from hyperslab._cache import Cache
from hyperslab._group_common import AnyGroup
from hyperslab._info import Info
from hyperslab._metadata import Metadata
from hyperslab._node import ZarrNode
from hyperslab._store import Store
from hyperslab._unreadable import UnreadableArray

__all__ = ["Group", "node_of"]


def node_of(
    handle: _native.ArrayHandle | _native.GroupHandle,
    store: Store,
    cache: Cache | None = None,
    config: ArrayConfig | None = None,
) -> Array | Group:
    """The node that a handle is for."""
    if store._native.is_file:
        from hyperslab._hdf5_array import FileArray
        from hyperslab._hdf5_group import FileGroup

        if isinstance(handle, _native.ArrayHandle):
            return FileArray(handle, store, None, cache)
        return FileGroup(handle, store, cache)
    if isinstance(handle, _native.ArrayHandle):
        return Array(handle, store, config, cache)
    return Group(handle, store, cache)


class Group(ZarrNode, AnyGroup, metaclass=ABCMeta):
    """A group: arrays and other groups by name. Made by `hyperslab.open_group`, `hyperslab.create_group` and
    groups.

    A mapping from names to nodes; names of nodes further down are paths (``group["ocean/sst"]``).

    A member that cannot be opened (its codec is not known, its metadata is damaged) is listed, marked, and
    refused when it is read: `get`, `items`, `values`, `members`, `arrays` and `tree` have an
    `UnreadableArray` for it, which raises the reason when it is used; ``group[name]`` raises it at once.

    A group opened with consolidated metadata shows what that says, without a look at the store: iteration,
    ``in`` and ``[]`` agree. What is changed through this object, and through nodes reached from it, shows at
    once. What is changed otherwise (by another object, another process) shows when it has been consolidated
    again and this object was refreshed, or with ``use_consolidated=False``. The consolidated metadata that is
    stored changes by `consolidate`, and where nodes are deleted.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.create_group(hs.MemoryStore())
    >>> z = g.create_array("ocean/sst", shape=(2, 3), dtype="f4")
    >>> g["ocean"] == g["ocean/sst"].store, list(g), "ocean/sst" in g
    (False, ['ocean'], True)
    >>> g.tree()
    /
    └── ocean
        └── sst (2, 3) float32
    <BLANKLINE>
    """

    # ---- what it is

    @property
    def metadata(self) -> Metadata:
        """Format, kind and attributes; the nodes below where they come from consolidated metadata."""
        facts: dict[str, Any] = {"zarr_format": self.zarr_format, "node_type": "group"}
        facts["attributes"] = self.attrs.asdict()
        facts["consolidated_metadata"] = self._consolidated_document()
        return Metadata(facts)

    def _consolidated_document(self) -> dict[str, Any] | None:
        if not self._is_consolidated:
            return None
        members = self.members(max_depth=None)
        return {
            path: {"attributes": node.attrs, "unreadable": str(node.error)}
            if isinstance(node, UnreadableArray)
            else node.metadata.to_dict()
            for path, node in members
        }

    @property
    def info(self) -> Info:
        """What it is, one fact per line."""
        return Info(
            {
                "Name": self.name,
                "Type": "Group",
                "Zarr format": self.zarr_format,
                "Read-only": self.read_only,
                "Store type": type(self._store).__name__,
                "Consolidated": self._is_consolidated,
            }
        )

    def _node(self, handle: Any) -> Array | Group:
        return node_of(handle, self._store, self._cache)

    # ---- what Python asks

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return (
            self._store == other._store
            and self.path == other.path
            and self.zarr_format == other.zarr_format
            and self.attrs == other.attrs
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._store, self.path, self.zarr_format, self._cache)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "hyperslab.Group", self._store.url, self.path, self.attrs.text()


def _reopen(store: Store, path: str, zarr_format: int, cache: Cache | None) -> Group:
    """An unpickled group: opened when it is first used."""
    return Group(_native.GroupHandle.deferred(store._native, path, zarr_format), store, cache)
