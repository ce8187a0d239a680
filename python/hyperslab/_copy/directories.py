"""Directories of copies on a disk: locked, told apart, and made permanent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from hyperslab.errors import DestinationError

__all__ = ["flush", "inode", "lock"]


def lock(journal: Path, make: bool, wait: float, named: Callable[[], str]) -> int | None:
    """Lock a journal's directory. Returns ``None`` if it is absent or cannot be locked.

    ``make``: make the directory. ``wait``: seconds until this fails if another run has the lock.
    ``named``: the place of the copy, for the error.
    """
    until = time.monotonic() + wait
    while True:
        if make:
            # If this fails, writing the journal fails too, with an error that says why.
            with contextlib.suppress(OSError):
                journal.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(journal, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder of the lock may have deleted the directory.
            if inode(journal) == _identity(os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise DestinationError(
                    f"{named()}: another run has been moving the copy to its place for "
                    f"{wait:.0f} s. Wait until it has finished, or end its process; then run again"
                ) from None
            time.sleep(0.05)
        except OSError:
            # A shared file system that cannot lock directories.
            os.close(descriptor)
            return None
        os.close(descriptor)


def inode(directory: Path) -> bytes | None:
    """Return an identity of a directory that does not depend on its name."""
    try:
        return _identity(directory.stat())
    except OSError:
        return None


def _identity(found: os.stat_result) -> bytes:
    return f"{found.st_dev}:{found.st_ino}".encode()


def flush(directory: Path) -> None:
    """Make the names in a directory permanent."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
