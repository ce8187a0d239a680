"""zarr-python's stores for the pipeline: as native stores if possible, otherwise through Python."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import zarr
from zarr.abc.store import RangeByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.common import concurrent_map
from zarr.storage import LocalStore as ZarrLocalStore
from zarr.storage import MemoryStore as ZarrMemoryStore
from zarr.storage import ZipStore as ZarrZipStore

from hyperslab import _native
from hyperslab._stores.foreign import native_store
from hyperslab._stores.store import LocalStore, Store, store_beside
from hyperslab._stores.zip import ZipStore
from hyperslab._zarr.front import Store as FrontStore
from hyperslab.errors import HyperslabError

__all__ = ["EngineStore", "engine_store"]


class EngineStore(NamedTuple):
    """The store that the engine reads from and writes to."""

    store: Store
    # Path of the zarr-python store's root in `store`; ends with a slash, unless it is empty.
    path: str
    # True if requests take no longer than a system call, and never need the event loop.
    is_near: bool


# Keyed by the ids of store and event loop. An entry is removed with its store.
_known: dict[tuple[int, int], tuple[weakref.ref[Any], EngineStore]] = {}


def engine_store(store: Any, loop: asyncio.AbstractEventLoop) -> EngineStore:
    """Return the store that the engine uses for a store of zarr-python.

    ``loop`` runs requests that only the zarr-python store itself can do.
    """
    for key in ((id(store), 0), (id(store), id(loop))):
        found = _known.get(key)
        if found is not None and found[0]() is store:
            return found[1]
    made = _native_store(store)
    key = (id(store), 0)
    if made is None:
        key = (id(store), id(loop))
        # If getting a size reads the whole object, this costs more than reading parts saves.
        knows_sizes = type(store).getsize is not ZarrStore.getsize
        objects = (_RangedObjects if knows_sizes else _Objects)(store, loop)
        made = EngineStore(store_beside(_native.StoreHandle.mapping(objects, str(store))), "", False)
    _known[key] = (weakref.ref(store, lambda _: _known.pop(key, None)), made)
    return made


def _native_store(store: Any) -> EngineStore | None:
    """Return a native store for the same objects.

    Only for the exact classes of zarr-python and hyperslab. A subclass may behave differently, so
    it must be called itself.
    """
    if type(store) is ZarrMemoryStore:
        url = f"memory://{id(store._store_dict)}"
        handle = _native.StoreHandle.mapping(_Buffers(store._store_dict), url)
        return EngineStore(store_beside(handle), "", True)
    if type(store) is FrontStore:
        return EngineStore(*store._engine_place())
    try:
        found = _same_place(store)
    except HyperslabError:
        return None
    return None if found is None else EngineStore(found, "", isinstance(found, LocalStore | ZipStore))


def _same_place(store: Any) -> Store | None:
    if type(store) is ZarrLocalStore:
        return LocalStore(store.root)
    if type(store) is ZarrZipStore:
        path = getattr(store, "path", None)
        # A zip that is being written is partly in the memory of its writer.
        return ZipStore(path) if path is not None and getattr(store, "_zmode", "") == "r" else None
    return native_store(store)


class _Buffers(MutableMapping[str, Any]):
    """The objects of a zarr-python memory store."""

    def __init__(self, buffers: MutableMapping[str, Any]) -> None:
        self._buffers = buffers
        self._from_bytes = cpu.Buffer.from_bytes

    def __getitem__(self, key: str) -> Any:
        values = self._buffers[key].as_numpy_array()
        base = values.base
        # Values made from bytes are returned as these bytes, without a copy.
        return base if type(base) is bytes and len(base) == values.nbytes else values.tobytes()

    def __setitem__(self, key: str, value: bytes) -> None:
        self._buffers[key] = self._from_bytes(value)

    def __delitem__(self, key: str) -> None:
        del self._buffers[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffers)

    def __len__(self) -> int:
        return len(self._buffers)


class _Objects(MutableMapping[str, bytes]):
    """The objects of any store, read and written on the event loop that waits for the pipeline.

    Called by threads of the engine, never by the loop itself.
    """

    def __init__(self, store: Any, loop: asyncio.AbstractEventLoop) -> None:
        # A weak reference, because the native store lives as long as this store: no cycle.
        self._store, self._loop = weakref.ref(store), loop

    @property
    def _prototype(self) -> Any:
        # Use the buffer class from the settings: a store may require it.
        return default_buffer_prototype()

    @property
    def store(self) -> Any:
        store = self._store()
        if store is None:
            raise RuntimeError("the store of zarr-python was deleted: keep a reference to it")
        return store

    def _ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()

    def __getitem__(self, key: str) -> bytes:
        found = self._ask(self.store.get(key, self._prototype))
        if found is None:
            raise KeyError(key)
        value: bytes = found.to_bytes()
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        self._ask(self.store.set(key, self._prototype.buffer.from_bytes(value)))

    def __delitem__(self, key: str) -> None:
        self._ask(self.store.delete(key))

    def __iter__(self) -> Iterator[str]:
        async def keys() -> list[str]:
            return [key async for key in self.store.list()]

        return iter(self._ask(keys()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _RangedObjects(_Objects):
    """The same for a store that knows sizes. Parts of objects are read separately."""

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return parts of an object, given offsets and lengths."""
        requests = [(key, RangeByteRequest(start, start + length)) for start, length in ranges]
        store, prototype = self.store, self._prototype

        async def get(key: str, request: RangeByteRequest) -> Any:
            return await store.get(key, prototype, byte_range=request)

        found = self._ask(concurrent_map(requests, get, zarr.config.get("async.concurrency")))
        if any(part is None for part in found):
            raise KeyError(key)
        return [part.to_bytes() for part in found]

    def size_of(self, key: str) -> int:
        """Return the size of an object in bytes."""
        try:
            size: int = self._ask(self.store.getsize(key))
        except FileNotFoundError:
            raise KeyError(key) from None
        return size
