"""Python file objects as HDF5 and NetCDF files, read by range on demand."""

from __future__ import annotations

import io
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hyperslab import _native
from hyperslab._stores.store import FileStore, MemoryStore
from hyperslab.errors import ClosedError, UnknownFormatError

__all__ = ["is_file_object", "store_of_object"]

T = TypeVar("T")

# The only key in the store of a file object.
_KEY = "file"
_numbers = itertools.count(1)


def is_file_object(given: Any) -> bool:
    """Return True for an object with ``seek`` and ``read``, or a file that fsspec opens later."""
    return (hasattr(given, "read") and hasattr(given, "seek")) or _is_open_file(given)


def store_of_object(file: Any) -> FileStore:
    """Return the HDF5 or NetCDF file that a file object reads."""
    place, options = _place_of_object(file)
    if place is not None:
        return FileStore(place, storage_options=options)
    if _is_open_file(file):
        file = file.open()
    if isinstance(file, io.BytesIO) and type(file).read is io.BytesIO.read:
        memory = MemoryStore()
        memory.set(_KEY, bytes(file.getbuffer()))
        handle = memory._native
    else:
        # Number the URLs: two objects may be equal, and a new one may get a freed object's address.
        handle = _native.StoreHandle.mapping(_FileObject(file), f"file-object://{next(_numbers)}")
    found = handle.file_at(_KEY)
    if found is None:
        raise UnknownFormatError(f"{file!r} is neither HDF5 nor NetCDF (file signature not found)")
    store = FileStore._of(found[0])
    store._is_object = True
    return store


class _FileObject:
    """A file object as a mapping with one key, whose value is read in parts. See ``mapping.rs``.

    Threads of the engine take turns. Reading moves the position of the file object.
    """

    def __init__(self, file: Any) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError(f"{file!r} reads text: open it with mode 'rb'")
        if not getattr(file, "seekable", lambda: True)():
            raise io.UnsupportedOperation(f"{file!r} cannot seek: read it into an io.BytesIO")
        self._file = file
        self._process = os.getpid()
        # Reentrant: a signal handler may interrupt the thread that holds the lock.
        self._turn = threading.RLock()
        self._is_reading = False

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return parts of the file, given offsets and lengths."""
        return self._in_turn(key, lambda file: [_part(file, *each) for each in ranges])

    def size_of(self, key: str) -> int:
        """Return the file's size in bytes."""
        return self._in_turn(key, _size)

    def __getitem__(self, key: str) -> bytes:
        return self._in_turn(key, lambda file: _part(file, 0, _size(file)))

    def __iter__(self) -> Iterator[str]:
        return iter([_KEY])

    def _in_turn(self, key: str, work: Callable[[Any], T]) -> T:
        if key != _KEY:
            raise KeyError(key)
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self._file!r} was opened before the process forked, and may share its position with the "
                "parent: open it in the child"
            )
        with self._turn:
            if self._is_reading:
                raise RuntimeError(
                    f"a signal handler reads {self._file!r}, whose read it interrupted: read it elsewhere"
                )
            if getattr(self._file, "closed", False):
                raise ClosedError(f"{self._file!r} was closed: keep it open while the file is read")
            self._is_reading = True
            try:
                return work(self._file)
            finally:
                self._is_reading = False


def _size(file: Any) -> int:
    file.seek(0, os.SEEK_END)
    size: int = file.tell()
    return size


def _part(file: Any, start: int, length: int) -> bytes:
    """Return bytes from an offset on; fewer than asked for only at the end of the file."""
    file.seek(start)
    found: bytes = _read(file, length)
    if len(found) == length:
        return found
    # Unbuffered objects may return less than they have.
    parts, missing = [found], length - len(found)
    while missing > 0 and parts[-1]:
        parts.append(_read(file, missing))
        missing -= len(parts[-1])
    return b"".join(parts)


def _read(file: Any, length: int) -> bytes:
    found = file.read(length)
    if found is None:
        raise BlockingIOError(f"{file!r} has no bytes yet: files are read from objects that wait for them")
    if isinstance(found, str):
        raise TypeError(f"{file!r} reads text: open it with mode 'rb'")
    return found  # type: ignore[no-any-return]


def _is_open_file(given: Any) -> bool:
    """Return True for an ``OpenFile`` of fsspec that is not open yet."""
    return type(given).__module__ == "fsspec.core" and type(given).__name__ == "OpenFile"


def _place_of_object(file: Any) -> tuple[str | Path | None, Mapping[str, Any] | None]:
    """Return the path or URL behind a file object, if the engine can read it itself."""
    system, path = getattr(file, "fs", None), getattr(file, "path", None)
    is_plain = getattr(file, "compression", None) is None
    if isinstance(path, str) and hasattr(system, "protocol") and is_plain:
        # An fsspec file on a server.
        from hyperslab._stores.foreign import url_of_fsspec

        url, options = url_of_fsspec(system, path) or (None, None)
        if url is not None and _native.takes_storage_options(url):
            return url, options
    if type(file).__module__ == "fsspec.implementations.local" and is_plain:
        file = getattr(file, "f", file)
    # Only these exact classes: subclasses may read something else.
    raw = file.raw if type(file) is io.BufferedReader else file
    if type(raw) is not io.FileIO or not isinstance(raw.name, str):
        return None, None
    try:
        same = os.path.samestat(os.fstat(raw.fileno()), Path(raw.name).stat())
    except (OSError, ValueError):
        return None, None
    return (Path(raw.name).absolute() if same else None), None
