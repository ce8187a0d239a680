"""Opens files that a user names, without ever blocking the caller."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

__all__ = ["open_regular"]


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file for reading. Pipes, devices and other files raise ``OSError``.

    The file is opened without blocking. Reads of some system files then return ``None`` instead of
    waiting for data.
    """
    file = io.FileIO(path, opener=_open_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
