"""The file that `to_netcdf` writes: opened, filled by one or several processes, completed.

A new file replaces the old one when it is complete. Changes of an existing file are flushed together.
After an error nothing was flushed, and the file is as it was.
"""

from __future__ import annotations

import io
import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._hdf5.changing import is_far
from hyperslab._hdf5.file import File
from hyperslab._stores.edited_file import EditedFile
from hyperslab._xarray.files import FileTree
from hyperslab._xarray.netcdf_store import NetcdfWriter, Target
from hyperslab.errors import ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["Gate", "LocalTarget", "NetcdfFile", "blocks_of", "check_delayed", "computed", "gather"]

# Blocks of dask that are computed by other processes and written by this one, at a time.
_AT_ONCE = 64

# Seconds to wait for workers that still write a block when another block has failed.
_PATIENCE = 10.0


class NetcdfFile:
    """A file that is being written.

    ``place``: a path, a URL, a file object with ``write``, or ``None`` for bytes. ``shared``: whether
    other processes write the blocks of dask.
    """

    def __init__(self, place: Any, mode: str, shared: bool, storage_options: Any) -> None:
        self._buffer = io.BytesIO() if place is None else None
        self.is_path = isinstance(place, str) and not is_far(place)
        self._shared = shared and self.is_path
        self._gathers = shared and not self.is_path
        self._temporary: str | None = None
        # Undoes changes that are flushed before other processes write their blocks.
        self.undo: Callable[[Any], None] | None = None
        opened: Any = self._buffer if place is None else place
        if isinstance(place, str) and self.is_path:
            opened = str(Path(place.removeprefix("file://")).expanduser())
        is_new = mode in ("w", "w-") or (mode == "a" and not self._exists(opened))
        self.mode = "w" if is_new else mode
        options: dict[str, Any] = {"storage_options": storage_options, "netcdf": True}
        how = "r+"
        if is_new:
            far = isinstance(opened, str) and is_far(opened)
            # On a server, `File` says why it does not change what exists.
            how = mode if far else "w-" if mode in ("w-", "a") and place is not None else "w"
        self._file = _opened(opened, how, options, self._shared)
        self._place = opened
        self._options = options
        self.tree = FileTree(self._file, place if isinstance(place, str) else None)
        self.writer = NetcdfWriter()
        self._gate = Gate()
        self._holder: File | None = None

    def _exists(self, place: Any) -> bool:
        if self.is_path:
            return Path(place).exists()
        if hasattr(place, "seek") and hasattr(place, "read"):
            return bool(place.seek(0, os.SEEK_END))
        return False

    @property
    def source(self) -> str:
        """The place, for messages."""
        return self.tree.source

    def share(self) -> None:
        """Let other processes write, from now on.

        A new file is written beside the old one. Call it before anything is written.
        """
        if not self._shared or self.mode != "w":
            return
        # The file was opened to see that nobody else writes it.
        self.discard()
        self._gate = Gate()
        real = Path(os.path.realpath(self._place))
        self._temporary = str(real.with_name(f".{real.name}.{uuid.uuid4().hex[:8]}.part"))
        self._file = File(self._temporary, "w-", **self._options)
        self.tree = FileTree(self._file, self._place)

    # ---- the end

    def discard(self) -> None:
        """Drop all changes that are not flushed, and remove a new file."""
        # Threads of dask may still write blocks after one of them has failed.
        self._gate.close()
        _drop(self._file)
        if self._temporary is not None:
            with suppress(FileNotFoundError):
                Path(self._temporary).unlink()

    def write(self, compute: bool) -> None:
        """Write the values that are no blocks of dask."""
        if self.writer.lazy:
            self._check_reads(compute)
        self.writer.write(load_first=self.mode != "w")

    def _check_reads(self, compute: bool) -> None:
        """Load blocks of dask that read what this call writes, or refuse them."""
        from dask.base import compute as compute_all

        from hyperslab._dask.blocks import UnsettledReads, Written, refusal, settle
        from hyperslab._dask.reads import reading_from

        lazy, in_memory = self.writer.lazy, self.writer.in_memory
        if self.mode == "w":
            store = self._file._store
            if not compute and reading_from((source for source, _ in lazy), store, "") is not None:
                raise InvalidArgumentError(
                    f"ds is read lazily from {self.source}, which compute=False replaces at once: load it "
                    "first (ds.load()), or write it to another place"
                )
            return
        written = [Written(source, target.array, _box(target)) for source, target in [*lazy, *in_memory]]
        try:
            loaded = settle(written, compute_all if compute else None)
        except UnsettledReads as error:
            name = written[error.number].target.path
            raise InvalidArgumentError(refusal(error, f"variable {name!r}", "ds.load()")) from None
        in_memory += [(values, lazy[number][1]) for number, values in loaded.items()]
        self.writer.lazy = [each for number, each in enumerate(lazy) if number not in loaded]

    def blocks(self, compute: bool) -> Any:
        """Return the object that writes the blocks of dask; ``None`` if there are none.

        With ``compute=False``, or if other processes write, the file is complete but for the blocks.
        """
        lazy = self.writer.lazy
        targets: list[Any]
        if not compute or (self._shared and lazy):
            paths = [target.array.path for _, target in lazy]
            self._file.close()
            place = self._place if self._temporary is None else self._temporary
            targets = [SharedTarget(os.path.realpath(place), path) for path in paths]
            if compute:
                # Workers open and close the file often. While it is open here, too, none of them takes
                # space that another one has replaced.
                self._holder = File(place, "r+")
        elif self._gathers:
            for source, target in lazy:
                gather(source, target)
            return None
        else:
            targets = [LocalTarget(target.array, self._gate) for _, target in lazy]
        return blocks_of(lazy, targets)

    def complete(self) -> Any:
        """Make the file visible, and return its bytes if there is no place."""
        self._release()
        if self._temporary is not None:
            if self._file:
                self._file.close()
            real = os.path.realpath(self._place)
            with suppress(FileNotFoundError):
                Path(self._temporary).chmod(Path(real).stat().st_mode & 0o7777)
            Path(self._temporary).replace(real)
            self._temporary = None
        elif self._file:
            self._file.close()
        return None if self._buffer is None else memoryview(self._buffer.getvalue())

    def _release(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def fail(self) -> None:
        """Undo the changes, after an error."""
        self._release()
        if self._shared and not self._file:
            _wait_for_workers(self._place if self._temporary is None else self._temporary)
        if self._file or self._temporary is not None or self.mode == "w":
            self.discard()
        elif self.undo is not None:
            # Other processes have written to a file that is flushed.
            with suppress(OSError), File(self._place, "r+", netcdf=True) as file:
                self.undo(file)


def _opened(place: Any, mode: Any, options: dict[str, Any], waits: bool) -> File:
    """Open a file. ``waits``: whether workers may still write a block, after another block has failed."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return File(place, mode, **options)
        except BlockingIOError:
            if not waits or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _drop(file: File) -> None:
    """Close a file without its changes since the last flush."""
    store = file._store
    if isinstance(store, EditedFile) and store._native.is_open:
        store._finisher.detach()
        store._native.close()


def _wait_for_workers(path: str) -> None:
    """Wait until no worker writes a block, after another block has failed."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            # Refused while others have the file open for writing. It is changed by a flush only.
            _drop(File(path, "w"))
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            return
        else:
            return


def blocks_of(lazy: Sequence[tuple[Any, Target]], targets: Sequence[Any]) -> Any:
    """Return the object that writes blocks of dask; ``None`` if there are none."""
    if not lazy:
        return None
    from dask.array import store

    regions = [
        tuple(slice(None) for _ in source.shape) if target.region is None else target.region
        for source, target in lazy
    ]
    sources = [source for source, _ in lazy]
    return store(sources, targets, lock=False, compute=False, regions=regions)


def _box(target: Target) -> tuple[tuple[int, int], ...]:
    """Return start and end of the part to write, along each axis."""
    shape = target.array.shape
    region = target.region or (slice(None),) * len(shape)
    return tuple(each.indices(n)[:2] for each, n in zip(region, shape, strict=True))


def computed(files: Sequence[Any], compute: bool) -> Delayed | None:
    """Write the blocks of several files at the same time, and complete the files."""
    waiting = [blocks for file in files if (blocks := file.blocks(compute)) is not None]
    if not compute:
        from dask.delayed import delayed

        later: Delayed = delayed(_done)(waiting)
        return later
    if waiting:
        from dask.base import compute as compute_all

        compute_all(*waiting)
    return None


def _done(_blocks: object) -> None:
    """Return None when everything is written."""


def gather(source: Any, target: Target) -> None:
    """Compute blocks elsewhere, some at a time, and write them here."""
    from dask.base import compute as compute_all

    first = [start for start, _ in _box(target)]
    starts = [[0, *itertools.accumulate(lengths)] for lengths in source.chunks]
    numbers = list(np.ndindex(*source.numblocks))
    for begin in range(0, len(numbers), _AT_ONCE):
        part = numbers[begin : begin + _AT_ONCE]
        for number, block in zip(part, compute_all(*(source.blocks[n] for n in part)), strict=True):
            place = zip(first, starts, number, strict=True)
            target.array[tuple(slice(at + ends[n], at + ends[n + 1]) for at, ends, n in place)] = block


# ---- blocks of dask


class Gate:
    """Lets threads write until it is closed. `close` waits for threads inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing, self._is_closed = 0, False

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            if self._is_closed:
                raise ClosedError("the file was dropped, because another block could not be written")
            self._writing += 1
        try:
            yield
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._writing)


class LocalTarget:
    """A variable of a file that this process is changing."""

    def __init__(self, array: Any, gate: Gate) -> None:
        self.array, self._gate = array, gate
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self._token = uuid.uuid4().hex

    def __setitem__(self, region: Any, block: Any) -> None:
        with self._gate.writing():
            self.array[region] = block

    def __dask_tokenize__(self) -> str:
        return self._token


class SharedTarget:
    """A variable of a file that several processes write. Each block is flushed."""

    def __init__(self, file: str, path: str) -> None:
        self.file, self.path = file, path

    def __setitem__(self, region: Any, block: Any) -> None:
        with _shared(self.file) as file:
            file[self.path][region] = block

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return "hyperslab.SharedTarget", self.file, self.path


# One block at a time in each process: its chunks are encoded on all cores. A forked child has a lock of
# its own.
_turns: dict[int, threading.Lock] = {}


@contextmanager
def _shared(path: str) -> Iterator[File]:
    """Open the file for one block, which is flushed when the file is closed."""
    with _turns.setdefault(os.getpid(), threading.Lock()), File(path, "r+") as file:
        yield file


def check_delayed(place: Any) -> None:
    """Refuse to write later what can only be written at once."""
    if place is None:
        raise NotImplementedError(
            "to_netcdf() with compute=False is not yet implemented when returning a memoryview"
        )
    if not isinstance(place, str) or is_far(place):
        raise InvalidArgumentError(
            f"compute=False: expected a path, found {place!r}: only files on the disk can be written later"
        )
