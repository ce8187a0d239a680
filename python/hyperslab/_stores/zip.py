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
    """Objects as members of a zip archive. A path that leads to a zip archive, or ends in ``.zip``, is such a
    store by itself: ``hs.open("x.zip/ocean")``.

    Members are read by range straight from the file, deflated ones are decoded. New members are not
    compressed: chunks are already. What is written shows in this process at once, and elsewhere after
    `flush`, `close`, the end of a ``with`` block or of the program. Until then other programs, and a program
    that is killed, leave the old archive as it was. For that an archive is copied before the first change,
    where the file system cannot share the bytes of two files. What is replaced or deleted keeps its space;
    a copy into another archive leaves it out.

    Parameters
    ----------
    path : str or os.PathLike
        The archive, as a path or URL. Archives in other places than the local disk are read only.
    mode : {"r", "w", "a", "x"}, default "r"
        To read; to replace the archive; to append to it, or to create it; to create it where there is none.
    read_only : bool, optional
        Whether nodes opened through it refuse changes. Default: whether the mode is ``"r"``.
    compression : int, default zipfile.ZIP_STORED
        How new members are stored. Nothing else is supported.
    allowZip64 : bool, default True
        Archives of more than 4 GiB, and of more than 65535 members, need it.
    overwrite : bool, default False
        With mode ``"x"``: replace an archive that is there. The same as mode ``"w"``.
    storage_options : mapping, optional
        Credentials and settings of the server that has the archive, as `RemoteStore` takes them.

    Raises
    ------
    StoreError
        Where the archive is damaged, missing (also `FileNotFoundError`) or there already (also
        `FileExistsError`), or another process writes it.

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
        """The archive. ``None`` where it is not on the local disk."""
        path = self._native.archive_path
        return None if path is None else Path(path)

    def flush(self) -> None:
        """Show other processes all that was written."""
        self._native.flush()

    def close(self) -> None:
        """Show other processes all that was written. The store cannot be used any more, nor what was opened
        through it."""
        self._native.close()

    def with_read_only(self, read_only: bool = True) -> Store:
        """The same store with another `read_only`."""
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
