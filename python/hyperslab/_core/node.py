"""The methods that arrays and groups share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from hyperslab._core.attrs import Attributes
from hyperslab._core.cache import Cache
from hyperslab._stores.store import Store, StorePath

if TYPE_CHECKING:
    from hyperslab import _native

__all__ = ["Named", "Node", "ZarrNode"]


class Named:
    """Something with a path."""

    __slots__ = ()

    @property
    def path(self) -> str:
        """The path in the store."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """``/`` and the path in the store."""
        return f"/{self.path}"

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Node(Named):
    """An array or a group of any format."""

    _store: Store
    _cache: Cache | None = None
    if TYPE_CHECKING:

        @property
        def attrs(self) -> Any: ...
        @property
        def read_only(self) -> bool: ...
        def _refresh(self) -> None: ...

    @classmethod
    def _of_id(cls, low_id: Any) -> Self:
        """Return the node of a low-level object, for formats that have these."""
        raise TypeError(f"{cls.__name__}: expected a store, found only {low_id!r}")

    @property
    def store(self) -> Store:
        """The store that holds the node."""
        return self._store

    @property
    def cache(self) -> Cache | None:
        """The cache of decoded chunks (for a group, of the arrays below); ``None`` without one."""
        return self._cache

    def update_attributes(self, new_attributes: Mapping[str, Any]) -> Self:
        """Add or replace attributes in one change. Returns the array or group."""
        self.attrs.update(new_attributes)
        return self

    def refresh(self) -> Self:
        """Read the metadata again, to see changes by others (a shape, attributes).

        Returns the array or group.
        """
        self._refresh()
        vars(self).pop("_opening", None)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class ZarrNode(Node):
    """A Zarr array or group."""

    _attrs: Attributes | None = None
    if TYPE_CHECKING:

        @property
        def _zarr_format(self) -> int: ...
        @property
        def _stored_attributes(self) -> _native.StoredAttributes: ...

    @property
    def zarr_format(self) -> Literal[2, 3]:
        """The Zarr format: 2 or 3."""
        return cast(Literal[2, 3], self._zarr_format)

    @property
    def store_path(self) -> StorePath:
        """The store that holds the node, and its path there."""
        return StorePath(self._store, self.path)

    @property
    def attrs(self) -> Attributes:
        """The user's attributes: a stored dictionary."""
        if self._attrs is None:
            self._attrs = Attributes(self._stored_attributes)
        return self._attrs

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        self.attrs.put(attributes)
