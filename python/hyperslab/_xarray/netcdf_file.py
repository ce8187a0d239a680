"""The file that `to_netcdf` writes: opened, filled by one or several processes, completed.

A new file replaces the old one when it is complete. Changes of an existing file are flushed together.
After an error nothing was flushed, and the file is as it was.
"""

from __future__ import annotations

import io
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab import _native
from hyperslab._hdf5.changing import is_far
from hyperslab._hdf5.file import File
from hyperslab._xarray.files import FileTree
from hyperslab._xarray.netcdf_blocks import PATIENCE, LocalBlocks, SharedBlocks, gather, settle_reads, writing
from hyperslab._xarray.netcdf_workers import Gate, drop, drop_blocks
from hyperslab._xarray.netcdf_writer import NetcdfWriter

__all__ = ["NetcdfFile"]


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
        # The graph of blocks that other processes write.
        self.token, self._is_handed_out = uuid.uuid4().hex, False

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
        real = os.path.realpath(self._place)
        _native.remove_parts(real)
        self._temporary = os.fspath(_native.part_beside(real))
        self._file = File(self._temporary, "w-", **self._options)
        self.tree = FileTree(self._file, self._place)

    # ---- the end

    def discard(self) -> None:
        """Drop all changes that are not flushed, and remove a new file."""
        # Threads of dask may still write blocks after one of them has failed.
        self._gate.close()
        drop(self._file)
        if self._is_handed_out:
            drop_blocks(self.token)
            _wait_for_workers(self._place if self._temporary is None else self._temporary)
        if self._temporary is not None:
            with suppress(FileNotFoundError):
                Path(self._temporary).unlink()

    def write(self, compute: bool) -> None:
        """Write the values that are no blocks of dask."""
        if self.writer.lazy:
            settle_reads(self.writer, self._file._store, self.mode == "w", compute, self.source)
        self.writer.write(load_first=self.mode != "w")

    def blocks(self, compute: bool) -> list[Any]:
        """Return the dask arrays that write the blocks of others.

        With ``compute=False``, or if other processes write, the file is complete but for the blocks.
        """
        lazy = self.writer.lazy
        targets: list[Any]
        if not compute or (self._shared and lazy):
            paths = [target.array.path for _, target in lazy]
            place = os.path.realpath(self._place if self._temporary is None else self._temporary)
            targets = [SharedBlocks(place, path, self.token) for path in paths]
            tasks = writing(lazy, targets)
            if compute:
                # While the file is open here, too, no worker takes space that another one has replaced.
                # And nobody takes it for a file that a killed program has left.
                self._file.flush()
                self._is_handed_out = True
            else:
                self._file.close()
            return tasks
        if self._gathers:
            for source, target in lazy:
                gather(source, target)
            return []
        targets = [LocalBlocks(target.array, self._gate) for _, target in lazy]
        return writing(lazy, targets)

    def complete(self) -> Any:
        """Make the file visible, and return its bytes if there is no place."""
        if self._file:
            self._file.close()
        if self._temporary is not None:
            real = os.path.realpath(self._place)
            with suppress(FileNotFoundError):
                Path(self._temporary).chmod(Path(real).stat().st_mode & 0o7777)
            Path(self._temporary).replace(real)
            self._temporary = None
        return None if self._buffer is None else memoryview(self._buffer.getvalue())

    def fail(self) -> None:
        """Undo the changes, after an error."""
        self.discard()
        if self._is_handed_out and self._temporary is None and self.undo is not None:
            # Other processes have written to a file that is flushed.
            with suppress(OSError), File(self._place, "r+", netcdf=True) as file:
                self.undo(file)


def _opened(place: Any, mode: Any, options: dict[str, Any], waits: bool) -> File:
    """Open a file. ``waits``: whether workers may still write a block, after another block has failed."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return File(place, mode, **options)
        except BlockingIOError:
            if not waits or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _wait_for_workers(path: str) -> None:
    """Wait until no worker writes a block, after another block has failed."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            # Refused while others have the file open for writing. It is changed by a flush only.
            drop(File(path, "w"))
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:
            return
        else:
            return
