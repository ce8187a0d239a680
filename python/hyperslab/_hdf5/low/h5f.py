"""Files."""

from __future__ import annotations

import io
from typing import Any

from hyperslab._hdf5.file import File
from hyperslab._hdf5.ids import FileID
from hyperslab._hdf5.names import text_of

__all__ = ["FileID", "create", "flush", "is_hdf5", "open", "open_file_image"]

ACC_RDONLY, ACC_RDWR, ACC_TRUNC, ACC_EXCL = 0, 1, 2, 4
ACC_SWMR_WRITE, ACC_SWMR_READ = 32, 64
FILE_IMAGE_OPEN_RW = 1
UNLIMITED = 2**64 - 1
LIBVER_EARLIEST, LIBVER_V18, LIBVER_V110, LIBVER_V112, LIBVER_V114, LIBVER_V200 = range(6)
LIBVER_LATEST = LIBVER_V200
SCOPE_LOCAL, SCOPE_GLOBAL = range(2)
FSPACE_STRATEGY_FSM_AGGR, FSPACE_STRATEGY_PAGE, FSPACE_STRATEGY_AGGR, FSPACE_STRATEGY_NONE = range(4)


def open(name: bytes, flags: int = ACC_RDWR, fapl: Any = None) -> FileID:
    """Open a file. ``fapl.set_file_image(bytes)``: these bytes, instead of the file's."""
    mode = "r+" if flags & (ACC_RDWR | ACC_SWMR_WRITE) else "r"
    image = None if fapl is None else fapl.get_file_image()
    return File(text_of(name) if image is None else io.BytesIO(image), mode).id


def open_file_image(image: Any, flags: int = 0) -> FileID:
    """Open a file in memory from its bytes."""
    return File(io.BytesIO(image), "r+" if flags & FILE_IMAGE_OPEN_RW else "r").id


def create(name: bytes, flags: int = ACC_TRUNC, fcpl: Any = None, fapl: Any = None) -> FileID:
    """Create a file."""
    return File(text_of(name), "x" if flags & ACC_EXCL else "w").id


def flush(obj: Any, scope: int = SCOPE_LOCAL) -> None:
    """Make all changes permanent, and visible to other programs."""
    obj._node.file.flush()


def is_hdf5(name: bytes) -> bool:
    """Return True if there is an HDF5 file of this name."""
    from hyperslab._hdf5.file import is_hdf5

    return is_hdf5(name)
