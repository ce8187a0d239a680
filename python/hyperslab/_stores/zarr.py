"""Stores of zarr-python."""

from __future__ import annotations

import builtins
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from hyperslab import _native
from hyperslab._stores.store import Store

if TYPE_CHECKING:
    import asyncio

__all__ = ["ZarrStore", "is_zarr_store"]

# An answer of the engine, the name of a method of `_Requests`, and its arguments.
Request: TypeAlias = tuple[Any, str, tuple[Any, ...]]


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

    Each request goes through zarr-python and its event loop, as many at a time as its setting
    ``async.concurrency`` says. There are about as many requests as zarr-python itself would make.
    Locks only work within this process: if several processes write parts of one chunk, they can
    undo each other's changes.

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
        self._requests = _Requests(store)
        # Identified by its name, so that all handles to the store share locks.
        self._native = _native.StoreHandle.zarr(
            self._requests,
            str(store).partition("\n")[0],
            bool(store.supports_listing),
            self.supports_consolidated_metadata,
            _checks_chunks(store),
            self._requests.at_once,
        )
        self._read_only = bool(store.read_only)

    @property
    def zarr_store(self) -> Any:
        """The store of zarr-python."""
        return self._requests.store

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


def _is_no_key(error: Exception) -> bool:
    """Return True if a session of Icechunk has no such keys: it has keys of Zarr only."""
    return type(error).__name__ == "InvalidInputError" and "invalid zarr key" in str(error)


class _Requests:
    """Starts requests of the engine on zarr-python's event loop.

    The methods that are coroutines are requests. The engine names them.
    """

    def __init__(self, store: Any) -> None:
        from asyncio import _get_running_loop

        from zarr.abc.store import RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.config import config as zarr_config
        from zarr.core.sync import _get_loop, sync

        self.store = store
        self._find_loop, self._running_loop = _get_loop, _get_running_loop
        self._prototype = default_buffer_prototype()
        self._range, self._end = RangeByteRequest, SuffixByteRequest
        self.at_once = int(zarr_config.get("async.concurrency") or 64)
        # Only nodes have listings.
        self._lists_nodes = _checks_chunks(store)
        # Both belong to a loop: a forked child has a new one.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = 0
        self._queue: deque[Request] = deque()
        # The loop itself only keeps weak references.
        self._tasks: set[asyncio.Task[None]] = set()
        # zarr-python does the same with a store that a user passes.
        sync(store._ensure_open())
        self._sync = sync

    def run(self, name: str, *arguments: Any) -> Any:
        """Run a request of this thread, and return its result."""
        return self._sync(getattr(self, name)(*arguments))

    def start(self, requests: list[Request]) -> None:
        """Start requests, and give each result to its answer."""
        loop = self._find_loop()
        if self._running_loop() is loop:
            raise RuntimeError(
                "zarr-python's event loop cannot wait for itself: call hyperslab from another thread"
            )
        loop.call_soon_threadsafe(self._begin, loop, requests)

    def _begin(self, loop: asyncio.AbstractEventLoop, requests: list[Request]) -> None:
        if loop is not self._loop:
            self._loop, self._free = loop, self.at_once
            self._queue, self._tasks = deque(), set()
        self._queue.extend(requests)
        # A worker takes requests until there are none: few tasks for many requests.
        for _ in range(min(self._free, len(self._queue))):
            self._free -= 1
            task = loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        queue = self._queue
        try:
            while queue:
                answer, name, arguments = queue.popleft()
                if answer.is_unwanted:
                    continue
                try:
                    answer.give(await getattr(self, name)(*arguments))
                except BaseException as raised:
                    answer.fail(raised)
                    if not isinstance(raised, Exception):
                        raise
        finally:
            self._free += 1

    async def get(self, key: str) -> Any:
        """Return the bytes of an object."""
        try:
            return await self.store.get(key, self._prototype)
        except Exception as error:
            if _is_no_key(error):
                return None
            raise

    async def range(self, key: str, start: int, stop: int) -> Any:
        """Return bytes of an object."""
        return await self.store.get(key, self._prototype, self._range(start, stop))

    async def end(self, key: str, length: int) -> Any:
        """Return the last bytes of an object."""
        return await self.store.get(key, self._prototype, self._end(length))

    async def set(self, key: str, value: bytes) -> None:
        """Create or replace an object."""
        await self.store.set(key, self._prototype.buffer.from_bytes(value))

    async def exists(self, key: str) -> bool:
        """Return True if there is an object."""
        try:
            found: bool = await self.store.exists(key)
        except Exception as error:
            if _is_no_key(error):
                return False
            raise
        return found

    async def size(self, key: str) -> int | None:
        """Return the size of an object."""
        try:
            size: int = await self.store.getsize(key)
        except FileNotFoundError:
            return None
        except Exception as error:
            if _is_no_key(error):
                return None
            raise
        return size

    async def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        await self.store.delete(key)

    async def remove(self, key: str) -> bool:
        """Delete an object. Returns True if there was one."""
        found: bool = await self.store.exists(key)
        if found:
            await self.store.delete(key)
        return found

    async def delete_dir(self, path: str) -> None:
        """Delete all objects below a path."""
        await self.store.delete_dir(path)

    async def list(self, prefix: str) -> builtins.list[str]:
        """Return the keys that start with a prefix."""
        if self._lists_nodes and (prefix == "c/" or prefix.endswith("/c/")):
            # The chunks of an array. The engine drops other keys.
            prefix = prefix.removesuffix("c/")
        keys = self.store.list_prefix(prefix) if prefix else self.store.list()
        return [key async for key in keys]

    async def list_dir(self, path: str) -> builtins.list[str]:
        """Return the names directly below a path."""
        return [name async for name in self.store.list_dir(path)]
