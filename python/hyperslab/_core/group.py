"""Zarr groups."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from typing import Any, Literal

from hyperslab import _native
from hyperslab._core.array import Array
from hyperslab._core.array_config import ArrayConfig
from hyperslab._core.cache import Cache
from hyperslab._core.group_common import AnyGroup
from hyperslab._core.identity import content_of
from hyperslab._core.info import Info
from hyperslab._core.metadata import ConsolidatedMetadata, GroupMetadata, Metadata
from hyperslab._core.node import ZarrNode
from hyperslab._core.unreadable import UnreadableArray
from hyperslab._stores.store import Store, StoreLike

__all__ = ["Group", "node_of"]


def node_of(
    handle: _native.ArrayHandle | _native.GroupHandle,
    store: Store,
    cache: Cache | None = None,
    config: ArrayConfig | None = None,
) -> Array | Group:
    """Return the node for a handle."""
    if store._native.is_file:
        from hyperslab._hdf5.array import FileArray
        from hyperslab._hdf5.group import FileGroup

        if isinstance(handle, _native.ArrayHandle):
            return FileArray(handle, store, None, cache)
        return FileGroup(handle, store, cache)
    if isinstance(handle, _native.ArrayHandle):
        return Array(handle, store, config, cache)
    return Group(handle, store, cache)


class Group(ZarrNode, AnyGroup, metaclass=ABCMeta):
    """A group: arrays and other groups by name.

    Made by `hyperslab.open_group`, `hyperslab.create_group` and groups. A group is a mapping from
    names to nodes. Nodes further down have paths as names (``group["ocean/sst"]``).

    A member that cannot be opened (unknown codec, damaged metadata) is still listed. `get`,
    `items`, `values`, `members`, `arrays` and `tree` return an `UnreadableArray` for it, which
    raises the reason when it is used. ``group[name]`` raises the reason at once.

    A group opened with consolidated metadata shows that metadata without reading the store:
    iteration, ``in`` and ``[]`` agree. Changes made through this object, or through nodes reached
    from it, show at once. Other changes (by another object or process) show after consolidating
    again and refreshing this object, or with ``use_consolidated=False``. The stored consolidated
    metadata changes when `consolidate` is called and when nodes are deleted.

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

    # ---- opening and creating

    @classmethod
    def open(cls, store: StoreLike, zarr_format: Literal[2, 3] | None = 3) -> Group:
        """Open an existing group, as `hyperslab.open_group` does."""
        from hyperslab._create.open import open_group

        return open_group(store, zarr_format=zarr_format)

    @classmethod
    def from_store(
        cls,
        store: StoreLike,
        *,
        attributes: Mapping[str, Any] | None = None,
        zarr_format: Literal[2, 3] = 3,
        overwrite: bool = False,
    ) -> Group:
        """Same as `hyperslab.create_group`."""
        from hyperslab._create.new import create_group

        return create_group(store, attributes=attributes, zarr_format=zarr_format, overwrite=overwrite)

    # ---- what it is

    @property
    def metadata(self) -> GroupMetadata:
        """Format, kind and attributes; with consolidated metadata also the nodes below."""
        if not self._is_consolidated:
            return GroupMetadata(self._document())
        nodes: dict[str, Metadata] = {}
        for path, node in self.members(max_depth=None):
            if isinstance(node, UnreadableArray):
                nodes[path] = Metadata({"attributes": node.attrs, "unreadable": str(node.error)})
            else:
                # Leave out the members of groups: the list has them itself.
                nodes[path] = GroupMetadata(node._document()) if isinstance(node, Group) else node.metadata
        return GroupMetadata(self._document(), ConsolidatedMetadata(nodes))

    def _document(self) -> dict[str, Any]:
        """Return the group's own metadata, without the nodes below."""
        attributes = self.attrs.asdict()
        return {"attributes": attributes, "zarr_format": self.zarr_format, "node_type": "group"}

    @property
    def info(self) -> Info:
        """A description of the group, one fact per line."""
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

    # ---- changing

    async def update_attributes_async(self, new_attributes: Mapping[str, Any]) -> Group:
        """Awaitable `update_attributes`."""
        from hyperslab._base.awaiting import awaited_of

        await awaited_of(self, self.update_attributes, new_attributes)
        return self

    def _node(self, handle: Any) -> Array | Group:
        if isinstance(handle, _native.ArrayHandle):
            return Array(handle, self._store, None, self._cache)
        return Group(handle, self._store, self._cache)

    # ---- Python protocols

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
        return "hyperslab.Group", self._store.url, self.path, self.attrs.text(), *content_of(self)


def _reopen(store: Store, path: str, zarr_format: int, cache: Cache | None) -> Group:
    """Unpickle a group: it is opened on first use."""
    return Group(_native.GroupHandle.deferred(store._native, path, zarr_format), store, cache)
