"""A store for zarr-python: the objects of any store of hyperslab, or a file as Zarr v3."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as _ZarrStore
from zarr.core.buffer import Buffer, default_buffer_prototype

from hyperslab import _native
from hyperslab._base.awaiting import FAR, awaited
from hyperslab._create.open import open_group
from hyperslab._create.place import place_of
from hyperslab._hdf5.group import FileGroup
from hyperslab._stores.store import FileStore, LocalStore, MemoryStore, store_beside
from hyperslab._stores.store import Store as OurStore
from hyperslab.errors import UnsupportedError

__all__ = ["Store"]


class _Stored:
    """The objects of a store below a path. `PresentedFile` has the same methods for reading."""

    def __init__(self, store: OurStore, path: str) -> None:
        self.store, self.path = store, path

    def _full(self, key: str) -> str:
        return "/".join(part for part in (self.path, key) if part)

    def part(self, key: str, start: int, stop: int | None) -> bytes | None:
        """Return bytes of an object from ``start`` to ``stop`` (``None``: to the end).

        A negative start counts from the end. Returns ``None`` if there is no such object.
        """
        native = self.store._native
        full = self._full(key)
        return native.get(full) if (start, stop) == (0, None) else native.part(full, start, stop)

    def size(self, key: str) -> int | None:
        return self.store._native.size(self._full(key))

    def keys(self, prefix: str) -> list[str]:
        before = len(self.path) + 1 if self.path else 0
        return [key[before:] for key in self.store._native.list(self._full(prefix))]

    def names(self, prefix: str) -> list[str]:
        # An object and a folder may have the same name.
        return list(dict.fromkeys(name for name, _ in self.store._native.list_dir(self._full(prefix))))

    def set(self, key: str, value: bytes) -> None:
        self.store._native.set(self._full(key), value)

    def set_new(self, key: str, value: bytes) -> None:
        self.store._native.set_new(self._full(key), value)

    def delete(self, key: str) -> None:
        self.store._native.delete(self._full(key))


class Store(_ZarrStore):  # type: ignore[misc]
    """Any store of hyperslab as a store of zarr-python.

    It also works for users of such stores, like xarray's engine "zarr". An HDF5 or NetCDF file is a
    read-only Zarr v3 hierarchy with groups, arrays, attributes and dimension names. Chunks keep
    their bytes if Zarr has the codecs (none, shuffle, deflate, Zstandard). Other chunks are decoded
    and returned uncompressed.

    Parameters
    ----------
    store : str, os.PathLike, hyperslab.Store or hyperslab.FileGroup
        Anything that `hyperslab.open` takes.
    read_only : bool, default False
        Whether to refuse changes. Files are always read only.
    storage_options : mapping, optional
        As in `hyperslab.open`.

    Examples
    --------
    >>> import h5py, hyperslab.zarr, tempfile, zarr
    >>> path = tempfile.mkdtemp() + "/x.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["a/b"] = [1, 2, 3]
    >>> zarr.open_group(hyperslab.zarr.Store(path), mode="r")["a/b"][1:]
    array([2, 3])
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | OurStore | FileGroup,
        *,
        read_only: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._given = store
        self._storage_options = None if storage_options is None else dict(storage_options)
        if isinstance(store, FileGroup):
            self._place, self._path = store.store, store.path
            root: Any = store
        else:
            self._place, self._path = place_of(store, None, None, storage_options)
            root = None
            if isinstance(self._place, FileStore):
                root = open_group(store, mode="r", storage_options=storage_options)
        self._is_file = root is not None
        stored = _Stored(self._place, self._path)
        self._objects: Any = _native.PresentedFile(root) if self._is_file else stored
        super().__init__(read_only=read_only or self._is_file or self._place.read_only)
        self._requests = FAR if self._place._native.is_far() else 0

    def with_read_only(self, read_only: bool = False) -> Store:
        """Return the same store with another `read_only`."""
        if self._is_file and not read_only:
            raise UnsupportedError(f"{self}: a store of an HDF5 or NetCDF file is read only")
        return type(self)(self._given, read_only=read_only, storage_options=self._storage_options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self._given, self.read_only, self._storage_options)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Store)
            and (self._path, self.read_only) == (other._path, other.read_only)
            and self._place._native.same(other._place._native)
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "/".join(part for part in (self._place.url.rstrip("/"), self._path) if part)

    def __repr__(self) -> str:
        return f"Store({str(self)!r})"

    @property
    def supports_writes(self) -> bool:
        """True if objects can be written: not in files."""
        return not self._is_file

    @property
    def supports_deletes(self) -> bool:
        """True if objects can be deleted: not in files."""
        return not self._is_file

    @property
    def supports_listing(self) -> bool:
        """Always true."""
        return True

    def _engine_place(self) -> tuple[OurStore, str, bool]:
        """Return the store of the objects, their path in it, and whether it is near, for the pipeline.

        The path ends with a slash.
        """
        if self._is_file:
            return store_beside(self._objects.store), "", not self._requests
        is_near = isinstance(self._place, LocalStore | MemoryStore)
        return self._place, f"{self._path}/" if self._path else "", is_near

    # ---- synchronous

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """Return bytes of an object, or ``None``."""
        start, stop = _bounds(byte_range)
        found = self._objects.part(key, start, stop)
        if found is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Create or replace an object."""
        self._check_writable()
        self._objects.set(key, _bytes(value))

    def delete_sync(self, key: str) -> None:
        """Delete an object, if there is one."""
        self._check_writable()
        self._objects.delete(key)

    # ---- awaitable

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Buffer | None:
        """Return bytes of an object, or ``None``."""
        await self._ensure_open()
        _bounds(byte_range)
        return await self._awaited(lambda: self.get_sync(key, prototype=prototype, byte_range=byte_range))

    async def get_partial_values(
        self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]
    ) -> list[Buffer | None]:
        """Return parts of objects."""
        parts = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return list(await asyncio.gather(*parts))

    async def exists(self, key: str) -> bool:
        """Return True if there is such an object."""
        return await self._awaited(lambda: self._objects.size(key)) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of an object in bytes."""
        size: int | None = await self._awaited(lambda: self._objects.size(key))
        if size is None:
            raise FileNotFoundError(f"{self}: no object {key!r}")
        return size

    async def set(self, key: str, value: Buffer) -> None:
        """Create or replace an object."""
        self._check_writable()
        await self._ensure_open()
        data = _bytes(value)
        await self._awaited(lambda: self._objects.set(key, data))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Create an object, unless there is one."""
        self._check_writable()
        await self._ensure_open()
        data = _bytes(value)
        await self._awaited(lambda: self._objects.set_new(key, data))

    async def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        self._check_writable()
        await self._ensure_open()
        await self._awaited(lambda: self._objects.delete(key))

    def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys with this prefix."""
        folder = prefix.rpartition("/")[0]
        for key in await self._awaited(lambda: self._objects.keys(folder)):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below a prefix."""
        for name in await self._awaited(lambda: self._objects.names(prefix.strip("/"))):
            yield name

    async def _awaited(self, call: Any) -> Any:
        return await awaited(call, requests=self._requests)


def _made(kind: type[Store], given: Any, read_only: bool, storage_options: Any) -> Store:
    """Unpickle a store."""
    return kind(given, read_only=read_only, storage_options=storage_options)


def _bounds(byte_range: Any) -> tuple[int, int | None]:
    """Return start and stop of a zarr-python byte request."""
    if byte_range is None:
        return 0, None
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, byte_range.end
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, None
    if isinstance(byte_range, SuffixByteRequest):
        return (-byte_range.suffix, None) if byte_range.suffix else (0, 0)
    raise ValueError(f"Unexpected byte_range, got {byte_range!r}")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, Buffer):
        raise TypeError(
            f"Store.set(): `value` must be a Buffer instance. Got an instance of {type(value)} instead."
        )
    return bytes(value.to_bytes())
