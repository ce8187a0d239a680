"""Stores of zarr-python."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from hyperslab import _native
from hyperslab._stores.store import Store

__all__ = ["ZarrStore", "is_zarr_store"]


def is_zarr_store(store: Any) -> bool:
    """Return True for an object of a class derived from ``zarr.abc.store.Store``."""
    return any(
        base.__name__ == "Store" and base.__module__ == "zarr.abc.store" for base in type(store).__mro__
    )


class ZarrStore(Store):
    """A store of zarr-python, as a store of hyperslab.

    For ``zarr.storage.ZipStore``, ``FsspecStore``, ``ObjectStore``, ``MemoryStore``, and all other
    classes derived from ``zarr.abc.store.Store``. Functions that take a store convert such objects
    themselves.

    Each request goes through zarr-python and its event loop. It reads whole objects (of a shard,
    all of it), and lists all keys to list some. Locks only work within this process: if several
    processes write parts of one chunk, they can undo each other's changes.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store to use. Its ``read_only`` is kept.

    Examples
    --------
    >>> import hyperslab as hs, zarr
    >>> store = zarr.storage.MemoryStore()
    >>> z = hs.create_array(store, name="a", data=[1, 2, 3])
    >>> zarr.open_array(store, path="a")[:]
    array([1, 2, 3])
    """

    def __init__(self, store: Any) -> None:
        self._objects = _Objects(store)
        # Identified by its name, so that all handles to the store share locks.
        self._native = _native.StoreHandle.mapping(
            self._objects,
            str(store).partition("\n")[0],
            self.supports_consolidated_metadata,
            _checks_chunks(store),
        )
        self._read_only = bool(store.read_only)

    @property
    def zarr_store(self) -> Any:
        """The store of zarr-python."""
        return self._objects.store

    @property
    def supports_consolidated_metadata(self) -> bool:
        """True if groups may have consolidated metadata, according to the zarr-python store."""
        return bool(getattr(self.zarr_store, "supports_consolidated_metadata", True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ZarrStore)
            and self.zarr_store == other.zarr_store
            and self._read_only == other._read_only
        )

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.zarr_store, self._read_only)


def _checks_chunks(store: Any) -> bool:
    """Return True if a store refuses chunks that its metadata lacks, as Icechunk sessions do."""
    kinds = type(store).__mro__
    if any(kind.__module__.partition(".")[0] == "icechunk" for kind in kinds):
        return True
    wraps = any(kind.__name__ == "WrapperStore" and kind.__module__.startswith("zarr.") for kind in kinds)
    return wraps and _checks_chunks(store._store)


def _unpickled(store: Any, read_only: bool) -> Store:
    return ZarrStore(store).with_read_only(read_only)


class _Objects(MutableMapping[str, bytes]):
    """The objects of a store, accessed one at a time."""

    def __init__(self, store: Any) -> None:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        self.store = store
        self._sync, self._prototype = sync, default_buffer_prototype()
        # zarr-python does the same with a store that a user passes.
        sync(store._ensure_open())

    def __getitem__(self, key: str) -> bytes:
        found = self._sync(self.store.get(key, self._prototype))
        if found is None:
            raise KeyError(key)
        value: bytes = found.to_bytes()
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        self._sync(self.store.set(key, self._prototype.buffer.from_bytes(value)))

    def __delitem__(self, key: str) -> None:
        if not self._sync(self.store.exists(key)):
            raise KeyError(key)
        self._sync(self.store.delete(key))

    def __iter__(self) -> Iterator[str]:
        async def keys() -> list[str]:
            return [key async for key in self.store.list()]

        return iter(self._sync(keys()))

    def __len__(self) -> int:
        return sum(1 for _ in self)
