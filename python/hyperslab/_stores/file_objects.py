"""Python's file objects as files of HDF5 and NetCDF: read by range, as far as it is needed."""

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

# The only key of the store that a file object becomes.
_KEY = "file"
_numbers = itertools.count(1)


def is_file_object(given: Any) -> bool:
    """Whether it is read with ``seek`` and ``read``, or is what fsspec opens later."""
    return (hasattr(given, "read") and hasattr(given, "seek")) or _is_open_file(given)


def store_of_object(file: Any) -> FileStore:
    """The file of HDF5 or NetCDF that a file object reads."""
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
        # Two of them may be equal, and one may get the address of another that is gone.
        handle = _native.StoreHandle.mapping(_FileObject(file), f"file-object://{next(_numbers)}")
    found = handle.file_at(_KEY)
    if found is None:
        raise UnknownFormatError(f"{file!r} is neither HDF5 nor NetCDF (file signature not found)")
    store = FileStore._of(found[0])
    store._is_object = True
    return store


class _FileObject:
    """A file object as a mapping with one key, whose value is read in parts: see ``mapping.rs``.

    Threads of the engine take turns. The position of the file object moves.
    """

    def __init__(self, file: Any) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError(f"{file!r} reads text: open it with mode 'rb'")
        if not getattr(file, "seekable", lambda: True)():
            raise io.UnsupportedOperation(f"{file!r} cannot seek: read it into an io.BytesIO")
        self._file = file
        self._process = os.getpid()
        # A signal handler may find it held by the thread that it interrupted.
        self._turn = threading.RLock()
        self._is_reading = False

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the file: offsets and lengths."""
        return self._in_turn(key, lambda file: [_part(file, *each) for each in ranges])

    def size_of(self, key: str) -> int:
        """Bytes of the file."""
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
    """Bytes from one place on: fewer only where the file ends."""
    file.seek(start)
    found: bytes = _read(file, length)
    if len(found) == length:
        return found
    # Objects without a buffer may return less than they have.
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
    """Whether it is an ``OpenFile`` of fsspec, which is to be opened."""
    return type(given).__module__ == "fsspec.core" and type(given).__name__ == "OpenFile"


def _place_of_object(file: Any) -> tuple[str | Path | None, Mapping[str, Any] | None]:
    """The path or URL of what a file object reads, where the engine can read it itself."""
    system, path = getattr(file, "fs", None), getattr(file, "path", None)
    is_plain = getattr(file, "compression", None) is None
    if isinstance(path, str) and hasattr(system, "protocol") and is_plain:
        # Of fsspec, on a server.
        from hyperslab._stores.foreign import url_of_fsspec

        url, options = url_of_fsspec(system, path) or (None, None)
        if url is not None and _native.takes_storage_options(url):
            return url, options
    if type(file).__module__ == "fsspec.implementations.local" and is_plain:
        file = getattr(file, "f", file)
    # Exactly these: what is derived from them may read something else.
    raw = file.raw if type(file) is io.BufferedReader else file
    if type(raw) is not io.FileIO or not isinstance(raw.name, str):
        return None, None
    try:
        same = os.path.samestat(os.fstat(raw.fileno()), Path(raw.name).stat())
    except (OSError, ValueError):
        return None, None
    return (Path(raw.name).absolute() if same else None), None
