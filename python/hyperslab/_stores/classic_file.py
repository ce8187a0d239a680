"""NetCDF classic files that are being changed."""

from __future__ import annotations

from typing import NoReturn

from hyperslab import _native
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import UnsupportedError

__all__ = ["ClassicFile"]


class ClassicFile(FileStore):
    """A NetCDF classic file that is being changed: the store of its arrays.

    Changes become permanent by `flush` and `close`. A new file that is never closed is never seen.
    """

    def __init__(self, handle: _native.StoreHandle) -> None:
        self._native, self._read_only, self._options = handle, False, []

    def flush(self) -> None:
        """Make all changes permanent, and visible to other programs."""
        _native.flush_netcdf3(self._native, False)

    def close(self) -> None:
        """Make all changes permanent and close the file."""
        if self._native.is_open:
            _native.flush_netcdf3(self._native, True)

    def abandon(self) -> None:
        """Close the file. A new file disappears, and an old one keeps its number of records."""
        if self._native.is_open:
            try:
                _native.abandon_netcdf3(self._native)
            finally:
                self._native.close()

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the store itself: its file is being changed."""
        if read_only:
            raise UnsupportedError(f"{self.url} is being changed: open it again with mode 'r'")
        return self

    def reopening(self) -> NoReturn:
        """Fail: other processes cannot continue the changes of this one."""
        raise TypeError(
            f"{self.url} is being changed, so it cannot be pickled: close it, and open it with 'r'"
        )
