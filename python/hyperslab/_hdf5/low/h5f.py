"""Files."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.file import File
from hyperslab._hdf5.ids import GroupID
from hyperslab._hdf5.names import text_of

__all__ = ["create", "flush", "is_hdf5", "open"]

ACC_RDONLY, ACC_RDWR, ACC_TRUNC, ACC_EXCL = 0, 1, 2, 4
ACC_SWMR_WRITE, ACC_SWMR_READ = 32, 64
UNLIMITED = 2**64 - 1
LIBVER_EARLIEST, LIBVER_V18, LIBVER_V110, LIBVER_V112, LIBVER_V114, LIBVER_V200 = range(6)
LIBVER_LATEST = LIBVER_V200
SCOPE_LOCAL, SCOPE_GLOBAL = range(2)
FSPACE_STRATEGY_FSM_AGGR, FSPACE_STRATEGY_PAGE, FSPACE_STRATEGY_AGGR, FSPACE_STRATEGY_NONE = range(4)


def open(name: bytes, flags: int = ACC_RDWR, fapl: Any = None) -> GroupID:
    """Open a file."""
    return File(text_of(name), "r+" if flags & (ACC_RDWR | ACC_SWMR_WRITE) else "r").id


def create(name: bytes, flags: int = ACC_TRUNC, fcpl: Any = None, fapl: Any = None) -> GroupID:
    """Create a file."""
    return File(text_of(name), "x" if flags & ACC_EXCL else "w").id


def flush(obj: Any, scope: int = SCOPE_LOCAL) -> None:
    """Make all changes permanent, and visible to other programs."""
    obj._node.file.flush()


def is_hdf5(name: bytes) -> bool:
    """Return True if there is an HDF5 file of this name."""
    from hyperslab._hdf5.file import is_hdf5

    return is_hdf5(name)
