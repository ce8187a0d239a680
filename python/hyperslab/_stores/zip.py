"""Zip archives."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._stores.store import Store, location_of
from hyperslab.errors import ReadOnlyError, UnsupportedError

__all__ = ["ZipStore"]

_MODES = ("r", "w", "a", "x")


class ZipStore(Store):
    """Objects as members of a zip archive.

    Paths to a zip archive, and paths that end in ``.zip``, open as this store:
    ``hs.open("x.zip/ocean")``.

    Members are read by range directly from the file. Deflated members are decoded. New members are
    not compressed, because chunks already are.

    Changes show at once in this process. Elsewhere they show after `flush`, `close`, or the end of
    a ``with`` block or of the program. Until then, other programs see the old archive, and a killed
    program leaves it unchanged. This requires copying the archive before the first change, unless
    the file system can share bytes between files. Replaced and deleted members keep their space; a
    copy into another archive leaves them out.

    Parameters
    ----------
    path : str or os.PathLike
        The archive, as a path or URL. Archives that are not on the local disk are read only.
    mode : {"r", "w", "a", "x"}, default "r"
        ``"r"``: read. ``"w"``: replace the archive. ``"a"``: append, creating it if missing.
        ``"x"``: create it, must not exist.
    read_only : bool, optional
        Whether nodes opened through this store refuse changes. Default: true if the mode is
        ``"r"``.
    compression : int, default zipfile.ZIP_STORED
        Compression of new members. Only the default is supported.
    allowZip64 : bool, default True
        Allow archives of more than 4 GiB or more than 65535 members. Must be true.
    overwrite : bool, default False
        With mode ``"x"``: replace an existing archive, like mode ``"w"``.
    storage_options : mapping, optional
        Credentials and settings of the archive's server, as in `RemoteStore`.

    Raises
    ------
    StoreError
        If the archive is damaged, missing (also `FileNotFoundError`), exists already (also
        `FileExistsError`), or is being written by another process.

    Examples
    --------
    >>> import hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/x.zip"
    >>> with hs.storage.ZipStore(path, mode="w") as store:
    ...     z = hs.create_array(store, name="a", data=[1, 2, 3])
    >>> hs.open_array(path, path="a")[:]
    array([1, 2, 3])
    """

    _options: list[tuple[str, str]]

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Literal["r", "w", "a", "x"] = "r",
        read_only: bool | None = None,
        compression: int = zipfile.ZIP_STORED,
        allowZip64: bool = True,
        overwrite: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode: expected one of {', '.join(map(repr, _MODES))}, found {mode!r}")
        if compression != zipfile.ZIP_STORED:
            raise UnsupportedError(
                "compression: members are written with zipfile.ZIP_STORED only; chunks have their own codecs"
            )
        if not allowZip64:
            raise UnsupportedError("allowZip64=False: archives are written with zip64 where they need it")
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: expected a path or URL, found {type(path).__name__}")
        if overwrite and mode == "x":
            mode = "w"
        from hyperslab._stores.remote import flat_options

        self._options = flat_options(storage_options)
        self._native = _native.StoreHandle.zip(location_of(path), mode, config.fsync, self._options)
        self._read_only = mode == "r" if read_only is None else bool(read_only)

    @classmethod
    def _of(
        cls, handle: _native.StoreHandle, read_only: bool, options: list[tuple[str, str]] | None = None
    ) -> ZipStore:
        self = object.__new__(cls)
        self._native, self._read_only, self._options = handle, read_only, options or []
        return self

    @property
    def path(self) -> Path | None:
        """The archive's path. ``None`` if it is not on the local disk."""
        path = self._native.archive_path
        return None if path is None else Path(path)

    def flush(self) -> None:
        """Make all changes visible to other processes."""
        self._native.flush()

    def close(self) -> None:
        """Make all changes visible to other processes, and close the store.

        The store and nodes opened through it can no longer be used.
        """
        self._native.close()

    def with_read_only(self, read_only: bool = True) -> Store:
        """Return the same store with another `read_only`."""
        if not read_only and self._read_only and not self._native.is_writable:
            raise UnsupportedError(f"{self.url} was opened with mode='r'; open it with mode='a' to write")
        return super().with_read_only(read_only)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._read_only:
            raise ReadOnlyError(
                f"{self.url} can be pickled only if it is read only: an archive has one writer. Open it with "
                "mode='r'"
            )
        from hyperslab._stores.remote import pickled_options, pickled_url

        return _unpickled, (pickled_url(self._native), pickled_options(self._options))


def _unpickled(url: str, options: list[tuple[str, str]]) -> ZipStore:
    return ZipStore(url, storage_options=dict(options))
