"""HDF5 files opened as in h5py: `File`."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from hyperslab import _native
from hyperslab._base.regular_file import open_regular
from hyperslab._core.cache import CacheLike, resolve_cache
from hyperslab._hdf5.group import FileGroup
from hyperslab._stores.file_objects import is_file_object, store_of_object
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import (
    DamagedFileError,
    InvalidArgumentError,
    MetadataValidationError,
    NodeNotFoundError,
    ReadOnlyError,
    UnknownFormatError,
    UnsupportedError,
)

__all__ = ["File", "file_of", "is_hdf5"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_WRITING = ("r+", "a", "w", "w-", "x")
# Drivers for a single file. The engine reads it the same way for each of them.
_PLAIN = (None, "sec2", "stdio", "core", "direct", "windows")
_DRIVERS = (*_PLAIN, "family", "split", "fileobj", "ros3")
# Keywords of the driver ros3, and their names in `storage_options`.
_ROS3 = {
    "aws_region": "region",
    "secret_id": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
}
_DRIVER_KEYWORDS = {
    "core": ("block_size", "backing_store"),
    "direct": ("alignment", "block_size", "cbuf_size"),
    "family": ("memb_size",),
    "split": ("meta_ext", "raw_ext", "meta_plist", "raw_plist"),
    "fileobj": ("fileobj",),
    "ros3": tuple(_ROS3),
}
# Keywords of h5py for creating files or for tuning reads.
_WITHOUT_EFFECT = (
    "rdcc_nslots",
    "rdcc_nbytes",
    "rdcc_w0",
    "track_order",
    "track_times",
    "fs_persist",
    "fs_threshold",
    "page_buf_size",
    "min_meta_keep",
    "min_raw_keep",
    "locking",
    "alignment_threshold",
    "alignment_interval",
    "meta_block_size",
)


class File(FileGroup):
    """An HDF5 file opened for reading, like ``h5py.File``. It is the root group.

    Parameters
    ----------
    name : str, os.PathLike, bytes or file object
        A path; a URL (``s3://``, ``https://``, …); or an object with ``read`` and ``seek``. The
        object is read on demand (``BytesIO`` is copied) and stays open.
    mode : str, default "r"
        ``"r"``. HDF5 cannot be written: other modes (``r+``, ``a``, ``w``, ``w-``, ``x``) are
        refused.
    driver : str, optional
        ``"family"``: ``name`` has a ``%d`` for the number of a member file. ``"split"``: metadata
        are in the file ``name`` + ``meta_ext`` (``"-m.h5"``), elements in ``name`` + ``raw_ext``.
        ``"ros3"``: ``name`` is a URL. The other drivers stand for a single file.
    userblock_size, fs_strategy, fs_page_size
        Only for new files: refused.
    libver, swmr, **keywords
        Accepted as in h5py, for example ``rdcc_nbytes``, ``locking``, ``track_order``. They do not
        affect reading: there is no lock, and files being written with SWMR can always be read.
    cache, storage_options
        As in `hyperslab.open`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If it is not an HDF5 file. (`hyperslab.open` opens other files.)
    UnsupportedError
        For a mode that writes. It is a ``ValueError``.

    Examples
    --------
    >>> import h5py, hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["ocean/sst"] = [1.5, 2.5]
    >>> with hs.File(path, "r") as file:
    ...     print(file.keys(), file["ocean/sst"][:])
    <KeysViewHDF5 ['ocean']> [1.5 2.5]
    """

    _swmr = False

    def __new__(
        cls,
        name: Any,
        mode: str = "r",
        driver: str | None = None,
        libver: str | tuple[str, str] | None = None,
        userblock_size: int | None = None,
        swmr: bool = False,
        *,
        fs_strategy: str | None = None,
        fs_page_size: int | None = None,
        cache: CacheLike | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Self:
        if mode != "r":
            raise _refused_mode(name, mode)
        if userblock_size is not None:
            raise InvalidArgumentError("User block may only be specified when creating a file")
        if fs_strategy is not None or fs_page_size is not None:
            raise InvalidArgumentError("Unable to set file space strategy of an existing file")
        given = {key: value for key, value in keywords.items() if key not in _WITHOUT_EFFECT}
        if not isinstance(name, (str, Path)) and is_file_object(name):
            if driver not in (None, "fileobj"):
                raise InvalidArgumentError("Driver must be 'fileobj' for file-like object if specified.")
            if given.pop("fileobj", name) is not name:
                raise InvalidArgumentError(
                    "fileobj: expected the file object that is passed as name, found another one"
                )
            driver = "fileobj"
        if given or driver is not None:
            _check_keywords(driver, given)
        try:
            store, filename = _store_of(name, driver, given, storage_options)
        except MetadataValidationError as error:
            # As in h5py, the error of a damaged file is an `OSError`.
            raise DamagedFileError(str(error)) from None
        format_ = store._native.file_format
        if format_ != "HDF5":
            raise UnknownFormatError(
                f"{store.url} is not an HDF5 file (file signature not found), but {format_}: "
                "use hyperslab.open"
            )
        low = "earliest" if libver is None else libver
        store._opened_as = {
            "filename": filename,
            "driver": driver or ("ros3" if store._native.is_far() else "sec2"),
            "libver": low if isinstance(low, tuple) else (low, "latest"),
            "swmr": bool(swmr),
        }
        return cls._of(store, cache)

    @classmethod
    def _of(cls, store: Store, cache: CacheLike | None = None) -> Self:
        """Return the file in a store."""
        handle = _native.open_node(store._native, "")
        assert isinstance(handle, _native.GroupHandle)
        return super().__new__(cls, handle, store, None if cache is None else resolve_cache(cache))

    @classmethod
    def in_memory(cls, file_image: Any = None, **keywords: Any) -> Self:
        """Open a file from bytes in memory."""
        if file_image is None:
            raise UnsupportedError("a new file in memory cannot be created: HDF5 files are read only so far")
        return cls(io.BytesIO(file_image), "r", **keywords)

    # ---- what it is

    def _as_opened(self, key: str, default: Any) -> Any:
        self._store._native.check_open()
        found: Any = getattr(self._store, "_opened_as", {}).get(key, default)
        return found

    @property
    def filename(self) -> str:
        """The path or URL used to open the file."""
        path = self._store._native.file_path
        default = self._store.url if path is None else os.fspath(path)
        found: str = self._as_opened("filename", default)
        return found

    @property
    def mode(self) -> str:
        """Always ``"r"``."""
        self._store._native.check_open()
        return "r"

    @property
    def driver(self) -> str:
        """h5py's name for the way the file is read."""
        found: str = self._as_opened("driver", "ros3" if self._store._native.is_far() else "sec2")
        return found

    @property
    def libver(self) -> tuple[str, str]:
        """The requested HDF5 versions. All versions are read."""
        found: tuple[str, str] = self._as_opened("libver", ("earliest", "latest"))
        return found

    @property
    def userblock_size(self) -> int:
        """Bytes of the user block, in front of the HDF5 data."""
        return self._user_block()

    @property
    def meta_block_size(self) -> int:
        """HDF5's default. It only affects writing."""
        return 2048

    @property
    def swmr_mode(self) -> bool:
        """True if the file was opened with ``swmr=True``."""
        found: bool = self._as_opened("swmr", False)
        return found

    @swmr_mode.setter
    def swmr_mode(self, value: bool) -> None:
        raise ReadOnlyError("swmr_mode: HDF5 files are read only so far; pass swmr=True to File")

    def flush(self) -> None:
        """Do nothing: the file is read only."""
        self._store._native.check_open()

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{Path(self.filename).name}" (mode r)>'

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_file, (self._store, self._cache)


def _reopen_file(store: Store, cache: Any) -> File:
    return File._of(store, cache)


def file_of(store: Store) -> FileGroup:
    """Return the root group of a file."""
    return File._of(store)


def is_hdf5(fname: Any) -> bool:
    """Return True if a path leads to an HDF5 file; ``False`` also if there is no file."""
    try:
        with open_regular(Path(os.fsdecode(fname))) as file:
            end, at = file.seek(0, os.SEEK_END), 0
            while at + len(_SIGNATURE) <= end:
                file.seek(at)
                if file.read(len(_SIGNATURE)) == _SIGNATURE:
                    return True
                at = 2 * at or 512
    except OSError:
        return False
    return False


def _refused_mode(name: Any, mode: str) -> Exception:
    if mode not in _WRITING:
        return InvalidArgumentError("Invalid mode; must be one of r, r+, w, w-, x, a")
    return UnsupportedError(
        f"{name}: HDF5 files are read only so far; mode is {mode!r} instead of 'r'. Write with h5py, or in "
        "Zarr: hyperslab.open_group(path, mode='w')"
    )


def _check_keywords(driver: str | None, given: Mapping[str, Any]) -> None:
    if driver == "mpio":
        raise InvalidArgumentError(
            "driver 'mpio' is not supported: let every process open the file without a driver"
        )
    if driver not in _DRIVERS:
        raise InvalidArgumentError(f"Unknown driver type {driver!r}")
    for key in given:
        if key not in _DRIVER_KEYWORDS.get(driver or "", ()):
            raise TypeError(f"'{key}' is an invalid keyword argument for this function")


def _store_of(
    name: Any, driver: str | None, given: dict[str, Any], options: Mapping[str, Any] | None
) -> tuple[FileStore, str]:
    """Return the file, and the value of `File.filename`."""
    if driver == "fileobj":
        return store_of_object(name), repr(name)
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    shown = first = name if isinstance(name, str) else os.fspath(name)
    if driver == "family":
        try:
            first = first % 0
        except TypeError:
            raise InvalidArgumentError(
                f"driver 'family': expected a name with a number, such as %d, found {first!r}"
            ) from None
    elif driver == "split":
        extension = given.get("meta_ext", "-m.h5")
        extension = os.fsdecode(extension)
        first = extension.replace("%s", first) if "%s" in extension else first + extension
    elif driver == "ros3":
        options = {**_ros3_options(given), **(options or {})}
    return _opened(first if isinstance(name, str) else Path(first), options), shown


def _ros3_options(given: Mapping[str, Any]) -> dict[str, str]:
    found = {
        ours: value.decode() if isinstance(value, bytes) else value
        for theirs, ours in _ROS3.items()
        if (value := given.get(theirs))
    }
    return found if "access_key_id" in found else {**found, "anon": "true"}


def _opened(place: str | Path, options: Mapping[str, Any] | None) -> FileStore:
    if not str(place):
        raise NodeNotFoundError("the name of a file is missing")
    try:
        return FileStore(place, storage_options=options)
    except NodeNotFoundError as error:
        if Path(place).is_dir():
            raise IsADirectoryError(
                errno.EISDIR, f"{error}: it is a directory (hyperslab.open opens Zarr)", str(place)
            ) from None
        error.strerror = str(error)
        error.errno, error.filename = errno.ENOENT, str(place)
        raise
