"""Arrays that tasks in other processes use: written to a file once, instead of sent with each task.

Worker processes of one machine map the file, so they also share its memory. Workers that do not
see the file get the elements with the task.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["NotHereError", "SharedArray", "is_shareable"]

# Smaller arrays go with each task. Opening a file takes as long as sending some 64 KiB.
_SMALLEST = 64 << 10


def is_shareable(array: Any) -> bool:
    """Return True for an array that is worth a file, and whose bytes are all there is to it."""
    if type(array) is not np.ndarray or array.nbytes < _SMALLEST:
        return False
    # Elements that are references mean nothing in a file.
    return not array.dtype.hasobject and array.dtype.kind != "T"


class NotHereError(Exception):
    """A worker does not see the file of an array."""


class SharedArray:
    """An array for tasks. Unpickled in another process, it is read from a file.

    The file is written when the array is first pickled: threads of this process need none.
    """

    def __init__(self, array: Any) -> None:
        self._array: Any = array
        self._path: str | None = None
        self._sends = False

    def get(self) -> Any:
        """Return the array. Raises `NotHereError` if it is in a file that cannot be opened."""
        return self._array

    def send(self) -> None:
        """From now on, send the elements with each task."""
        self._sends = True

    def close(self) -> None:
        """Delete the file. Workers that have opened it keep it."""
        self.send()
        path, self._path = self._path, None
        if path is not None:
            with contextlib.suppress(OSError):
                Path(path).unlink()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._sends and self._path is None:
            try:
                self._path = _write(self._array)
            except OSError:
                # No room for temporary files.
                self.send()
        if self._path is None or self._sends:
            return SharedArray, (self._array,)
        return _ArrayInFile, (self._path, self._array.dtype, self._array.shape)


class _ArrayInFile:
    """A shared array in a worker process."""

    def __init__(self, path: str, dtype: Any, shape: tuple[int, ...]) -> None:
        self._path, self._dtype, self._shape = path, dtype, shape

    def get(self) -> Any:
        try:
            return np.memmap(self._path, self._dtype, "r", shape=self._shape).view(np.ndarray)
        except (OSError, ValueError) as error:
            raise NotHereError(f"{self._path}: {error}") from None


def _write(array: Any) -> str:
    number, path = tempfile.mkstemp(prefix="hyperslab-", suffix=".array")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
    except BaseException:
        Path(path).unlink()
        raise
    return path
