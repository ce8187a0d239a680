"""A store of zarr-python that counts requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import zarr
from zarr.abc.store import Store

__all__ = ["CountingStore"]


class CountingStore(zarr.storage.WrapperStore):  # type: ignore[type-arg]
    """Counts the calls of another store, and the bytes that move.

    Each call is a request, except that ranges and keys of the calls for many of them count one by
    one, as the base class of stores requests them.
    """

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.calls: Counter[str] = Counter()
        self.log: list[str] = []
        self.bytes: Counter[str] = Counter()

    def count(self, name: str, key: str) -> None:
        """Note a request."""
        self.calls[name] += 1
        self.log.append(f"{name} {key}")

    def clear_counts(self) -> None:
        """Forget all requests so far."""
        self.calls.clear()
        self.log.clear()
        self.bytes.clear()

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(self.calls.values())

    def _with_store(self, store: Any) -> Any:
        # Views of this store with another `read_only` count here.
        other = type(self)(store)
        other.calls, other.log, other.bytes = self.calls, self.log, self.bytes
        return other

    def _got(self, found: Any) -> Any:
        self.bytes["got"] += 0 if found is None else len(found)
        return found

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self.count("get", f"{key} {byte_range or ''}")
        return self._got(await super().get(key, prototype, byte_range))

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self.count("get", f"{key} {byte_range or ''}")
        return self._got(super().get_sync(key, prototype=prototype, byte_range=byte_range))

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    def get_ranges(self, *args: Any, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        return Store.get_ranges(self, *args, **kwargs)

    def _get_many(self, requests: Any) -> Any:
        return Store._get_many(self, requests)

    async def exists(self, key: str) -> bool:
        self.count("exists", key)
        return await super().exists(key)

    async def is_empty(self, prefix: str) -> bool:
        self.count("is_empty", prefix)
        return await super().is_empty(prefix)

    async def getsize(self, key: str) -> int:
        self.count("getsize", key)
        return await self._store.getsize(key)

    async def set(self, key: str, value: Any) -> None:
        self.count("set", key)
        self.bytes["set"] += len(value)
        await super().set(key, value)

    def set_sync(self, key: str, value: Any) -> None:
        self.count("set", key)
        self.bytes["set"] += len(value)
        super().set_sync(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        self.count("set_if_not_exists", key)
        self.bytes["set"] += len(value)
        await super().set_if_not_exists(key, value)

    async def _set_many(self, values: Any) -> None:
        await Store._set_many(self, values)

    async def delete(self, key: str) -> None:
        self.count("delete", key)
        await super().delete(key)

    def delete_sync(self, key: str) -> None:
        self.count("delete", key)
        super().delete_sync(key)

    async def delete_dir(self, prefix: str) -> None:
        self.count("delete_dir", prefix)
        await super().delete_dir(prefix)

    async def clear(self) -> None:
        self.count("clear", "")
        await super().clear()

    def list(self) -> AsyncIterator[str]:
        self.count("list", "")
        return super().list()

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        self.count("list_prefix", prefix)
        return super().list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.count("list_dir", prefix)
        return super().list_dir(prefix)
