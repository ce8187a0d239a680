"""Opening files that a user names. None of them may keep the caller waiting."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

__all__ = ["open_regular"]


def open_regular(path: Path) -> io.FileIO:
    """Opens a regular file to read it. A pipe, a device and the like is an ``OSError``.

    The file is opened without waiting. Reads of some files of the system give ``None`` then, where they would
    wait for more.
    """
    file = io.FileIO(path, opener=_open_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
