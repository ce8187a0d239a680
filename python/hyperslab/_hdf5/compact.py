"""Gives back the unused space of HDF5 files: `compact`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from hyperslab import _native
from hyperslab._base.progress import show_progress

__all__ = ["CompactReport", "compact"]


@dataclass(frozen=True)
class CompactReport:
    """What `compact` has given back."""

    before: int
    """Bytes of the file before."""
    after: int
    """Bytes of the file now; after a dry run, the bytes that it would have."""
    lost_references: int
    """References to deleted objects. They are empty now."""


def compact(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    progress: Callable[[str, int, int], object] | bool | None = None,
) -> CompactReport:
    """Replace an HDF5 or NetCDF-4 file by a copy without the space of deleted and replaced data.

    The copy has everything that the file has: all objects, attributes and links, their order, raw
    chunks as they are stored, times, the user block. It takes the place of the file in one step.
    After an error or a kill, the file is as it was. Programs that have the file open for reading
    keep the old one. A file that would not become smaller is not changed.

    Parameters
    ----------
    path : str or path
        The file. Its permissions and its owner stay.
    dry_run : bool, default False
        Only report what there is to gain.
    progress : callable, or True, optional
        Called as ``progress("copy", bytes_done, bytes_in_all)``. ``True`` shows a bar.

    Returns
    -------
    CompactReport
        The size before and after.

    Raises
    ------
    BlockingIOError
        Another program, or this one, has the file open for writing.
    UnsupportedError
        The file has something that the copy could not keep. The message names it.

    Examples
    --------
    >>> with hs.File("runs.h5", "w") as file:
    ...     file["old"] = np.arange(100_000.0)
    ...     file["new"] = np.arange(10.0)
    >>> with hs.File("runs.h5", "r+") as file:
    ...     del file["old"]
    >>> report = hs.compact("runs.h5")
    >>> report.before > 800_000, report.after < 4_000
    (True, True)
    """
    with show_progress(progress) as callback:
        before, after, lost = _native.compact_file(os.fspath(path), bool(dry_run), callback)
    return CompactReport(before, after, lost)
