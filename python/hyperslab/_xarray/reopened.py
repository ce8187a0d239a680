"""Files of unpickled datasets: opened on first use, once for all variables.

A process may get many datasets from others, as with ``open_mfdataset(parallel=True)`` on a cluster,
and read few of their variables.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from hyperslab._hdf5.array import FileArray, reopen_array
from hyperslab._hdf5.file import file_of
from hyperslab._hdf5.group import FileGroup
from hyperslab._stores.remote import check_pickled_secrets
from hyperslab._stores.store import FileStore, Store

__all__ = ["ReopenedArray", "ReopenedFile"]


class ReopenedFile:
    """A file that other processes open again on first use.

    Parameters
    ----------
    url : str
        The path or URL of the file.
    options : list of tuple
        Storage options.
    has_secrets : bool
        Whether URL or options have secrets. They are pickled only with ``pickle_credentials``.
    """

    def __init__(self, url: str, options: list[tuple[str, str]], has_secrets: bool) -> None:
        self._place = url, options, has_secrets
        self._store: FileStore | None = None
        # By process: a lock that another thread held at a fork is never released in the child.
        self._turns: dict[int, threading.Lock] = {}

    @classmethod
    def of(cls, store: Store) -> ReopenedFile:
        """Return the file in a store: the same object for all of its arrays in one pickle."""
        assert isinstance(store, FileStore)
        place = store.reopening()
        made: ReopenedFile | None = store.__dict__.get("_reopened")
        if made is None or made._place != place:
            made = store.__dict__["_reopened"] = cls(*place)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self._place[2]:
            check_pickled_secrets()
        return ReopenedFile, self._place

    @property
    def store(self) -> FileStore:
        """The store of the file. It is opened now if it was not before."""
        with self._turns.setdefault(os.getpid(), threading.Lock()):
            found = self._store
            if found is None:
                self._store = found = FileStore.reopened(*self._place[:2])
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
        return reopen_array(self._file.store, self._path, self._cache)
