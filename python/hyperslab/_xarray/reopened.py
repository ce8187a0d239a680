"""Files of unpickled datasets: opened on first use, once for all variables.

A process may get many datasets from others, as with ``open_mfdataset(parallel=True)`` on a cluster,
and read few of their variables.
"""

from __future__ import annotations

import os
import pickle
import threading
from typing import Any

from hyperslab import _native
from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.file import file_of
from hyperslab._hdf5.group import FileGroup
from hyperslab._stores.store import FileStore, Store

__all__ = ["ReopenedArray", "ReopenedFile"]


class ReopenedFile:
    """A file that other processes open again on first use.

    Parameters
    ----------
    pickled : bytes
        The pickled store of the file.
    """

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._store: FileStore | None = None
        # By process: a lock that another thread held at a fork is never released in the child.
        self._turns: dict[int, threading.Lock] = {}

    @classmethod
    def of(cls, store: Store) -> ReopenedFile:
        """Return the file in a store: the same object for each of its arrays."""
        if "_reopened" not in store.__dict__:
            store.__dict__.setdefault("_reopened", cls(pickle.dumps(store)))
        made: ReopenedFile = store.__dict__["_reopened"]
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ReopenedFile, (self._pickled,)

    @property
    def store(self) -> FileStore:
        """The store of the file. It is opened now if it was not before."""
        with self._turns.setdefault(os.getpid(), threading.Lock()):
            found = self._store
            if found is None:
                opened: FileStore = pickle.loads(self._pickled)
                self._store = found = opened
            return found

    @property
    def root(self) -> FileGroup:
        """The root group."""
        return file_of(self.store)

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._store is not None:
            self._store.close()


class ReopenedArray:
    """An array of a file that is opened on first use."""

    def __init__(self, file: ReopenedFile, path: str, cache: Any) -> None:
        self._file, self._path, self._cache = file, path, cache

    def __reduce__(self) -> tuple[Any, ...]:
        return ReopenedArray, (self._file, self._path, self._cache)

    def open(self) -> FileArray:
        """Return the array."""
        store = self._file.store
        handle = _native.ArrayHandle.deferred(store._native, self._path, None)
        return FileArray(handle, store, None, self._cache)
