"""HDF5 files opened as in h5py: `File`."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from hyperslab import _native
from hyperslab._base.regular_file import open_regular
from hyperslab._core.cache import CacheLike, resolve_cache
from hyperslab._hdf5.changing import (
    ROS3,
    STRATEGIES,
    New,
    in_memory,
    is_far,
    open_to_change,
    ros3_options,
    space_of,
)
from hyperslab._hdf5.group import FileGroup
from hyperslab._hdf5.ids import CHUNK_CACHE, FileID, GroupID
from hyperslab._hdf5.netcdf import begin_netcdf
from hyperslab._stores.edited_file import image_of
from hyperslab._stores.file_objects import is_file_object, store_of_object
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import (
    DamagedFileError,
    InvalidArgumentError,
    MetadataValidationError,
    NodeNotFoundError,
    UnknownFormatError,
)

__all__ = ["File", "file_of", "is_hdf5"]

_numbers = itertools.count()

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MODES = ("r", "r+", "w", "w-", "x", "a")
# h5py's versions of HDF5, oldest first.
_VERSIONS = ("earliest", "v108", "v110", "v112", "v114", "v200")
# Drivers for a single file. The engine reads it the same way for each of them.
_PLAIN = (None, "sec2", "stdio", "core", "direct", "windows")
_DRIVERS = (*_PLAIN, "family", "split", "fileobj", "ros3")
_DRIVER_KEYWORDS = {
    "core": ("block_size", "backing_store"),
    "direct": ("alignment", "block_size", "cbuf_size"),
    "family": ("memb_size",),
    "split": ("meta_ext", "raw_ext", "meta_plist", "raw_plist"),
    "fileobj": ("fileobj",),
    "ros3": tuple(ROS3),
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
    """An HDF5 file, like ``h5py.File``. It is the root group.

    Changes are seen by this process at once. They become permanent, and visible to other programs,
    by `flush`, by `close`, at the end of a ``with`` block, and when the process ends.

    Parameters
    ----------
    name : str, os.PathLike, bytes or file object
        A path; a URL (``s3://``, ``https://``, …); or an object with ``read`` and ``seek``.
        To read, it is read on demand (``BytesIO`` is copied). To write, its bytes are changed in
        memory, and written back by `flush` and `close`. The object stays open. New files can also be
        made in an object that only has ``write``, such as a pipe; it gets all bytes when the file is
        closed. On a server, only new files are written: the object appears when the file is closed.
    mode : str, default "r"
        ``"r"``: read. ``"r+"``: change a file that exists. ``"w"``: create a file; it may replace
        another one. ``"w-"``, ``"x"``: create a file, and fail if there is one. ``"a"``: change a
        file, or create it.
    driver : str, optional
        ``"family"``: ``name`` has a ``%d`` for the number of a member file. ``"split"``: metadata
        are in the file ``name`` + ``meta_ext`` (``"-m.h5"``), elements in ``name`` + ``raw_ext``.
        ``"ros3"``: ``name`` is a URL. These are only read. ``"core"`` with ``backing_store=False``:
        a file in memory. The other drivers stand for a single file.
    libver : str or pair of str, optional
        The oldest version of HDF5 that reads new objects: ``"earliest"`` (default), ``"v110"``, ….
        ``"latest"``: structures of HDF5 1.10. The second of a pair is not looked at.
    userblock_size : int, optional
        Bytes in front of a new file: 0, 512, 1024, ….
    swmr : bool, default False
        Accepted as in h5py. Files being written can always be read.
    fs_strategy, fs_page_size
        Only for new files, as in h5py. ``fs_strategy="page"``: when the file is closed, it is written
        anew with all metadata in front, in pages of ``fs_page_size`` bytes (4096; more if one index
        needs more). Other strategies are recorded for programs of the HDF5 library.
    **keywords
        ``track_order``: whether the root group of a new file keeps the order of its links and
        attributes. ``locking``: whether other programs are kept from changing the file meanwhile;
        by default as ``hyperslab.config.file_locks``. Keywords of drivers. Others of h5py are
        accepted and do not affect the file: ``rdcc_nbytes``, ``alignment_interval``,
        ``page_buf_size``, ``fs_persist``, ``track_times`` and the like.
    flush_every : float, optional
        Seconds. The first change that comes so long after the last flush of this kind flushes the
        file. By default it is flushed only by `flush` and `close`.
    netcdf : bool, default False
        Whether a new file is a NetCDF-4 file: as netCDF writes it, for `create_dimension` and
        `create_variable`. Attributes are then written in netCDF's types. An existing file must be
        NetCDF-4. (Without ``netcdf``, these methods work with existing NetCDF-4 files, too.)
    cache, storage_options
        As in `hyperslab.open`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileExistsError
        In the modes ``w-`` and ``x``, if there is one.
    OSError
        If it is not an HDF5 file. (`hyperslab.open` opens other files.)

    Examples
    --------
    >>> import hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with hs.File(path, "w") as file:
    ...     file["ocean/sst"] = [1.5, 2.5]
    ...     file["ocean"].attrs["title"] = "an ocean"
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
        flush_every: float | None = None,
        netcdf: bool = False,
        **keywords: Any,
    ) -> Self:
        if isinstance(name, GroupID):
            # As in h5py, `File(id)` is the file of a low-level object.
            opened: Self = name._node.file  # type: ignore[assignment]
            return opened
        if mode not in _MODES:
            raise InvalidArgumentError("Invalid mode; must be one of r, r+, w, w-, x, a")
        if userblock_size is not None and mode in ("r", "r+"):
            raise InvalidArgumentError("User block may only be specified when creating a file")
        if (fs_strategy is not None or fs_page_size is not None) and mode in ("r", "r+", "a"):
            raise InvalidArgumentError("Unable to set file space strategy of an existing file")
        if fs_strategy is not None and fs_strategy not in STRATEGIES:
            raise InvalidArgumentError("Invalid file space strategy type")
        if flush_every is not None and not (mode != "r" and 0 <= flush_every < 1e9):
            raise InvalidArgumentError(
                f"flush_every: expected a number of seconds, and a mode that changes the file; found "
                f"{flush_every!r} and mode {mode!r}"
            )
        low, high = ("earliest", _VERSIONS[-1]) if libver is None else _versions(libver)
        given = {key: value for key, value in keywords.items() if key not in _WITHOUT_EFFECT}
        if not isinstance(name, (str, Path)) and (
            is_file_object(name) or (mode in ("w", "w-", "x") and hasattr(name, "write"))
        ):
            if driver not in (None, "fileobj"):
                raise InvalidArgumentError("Driver must be 'fileobj' for file-like object if specified.")
            if given.pop("fileobj", name) is not name:
                raise InvalidArgumentError(
                    "fileobj: expected the file object that is passed as name, found another one"
                )
            driver = "fileobj"
        if flush_every is not None and (driver == "fileobj" or is_far(name)):
            raise InvalidArgumentError("flush_every: expected a file on the disk, found another place")
        if given or driver is not None:
            _check_keywords(driver, given)
        if mode != "r":
            new = New(
                mode,
                low,
                userblock_size,
                True if netcdf else keywords.get("track_order"),
                keywords.get("locking"),
                *space_of(fs_strategy, fs_page_size, keywords.get("fs_threshold")),
            )
            changed = open_to_change(name, driver, given, new, storage_options)
            changed._opened_as = {
                "filename": repr(name) if driver == "fileobj" else os.fsdecode(name),
                "driver": driver or ("ros3" if is_far(name) else "sec2"),
                "libver": (low, high),
                "swmr": False,
                "chunk_cache": _chunk_cache(keywords) if keywords else CHUNK_CACHE,
            }
            if flush_every is not None:
                changed.set_flush_every(flush_every)
            return cls._of(changed, cache, netcdf)
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
        store._opened_as = {
            "filename": filename,
            "driver": driver or ("ros3" if store._native.is_far() else "sec2"),
            "libver": (low, high),
            "swmr": bool(swmr),
            "chunk_cache": _chunk_cache(keywords) if keywords else CHUNK_CACHE,
        }
        return cls._of(store, cache)

    @classmethod
    def _of(cls, store: Store, cache: CacheLike | None = None, netcdf: bool = False) -> Self:
        """Return the file in a store. ``netcdf``: it is written as NetCDF-4."""
        handle = _native.open_node(store._native, "")
        assert isinstance(handle, _native.GroupHandle)
        made = super().__new__(cls, handle, store, None if cache is None else resolve_cache(cache))
        if netcdf:
            begin_netcdf(made)
        return made

    @classmethod
    def in_memory(cls, file_image: Any = None, **keywords: Any) -> Self:
        """Make a new file in memory, or open one from bytes. It can be changed.

        ``bytes(file.image())`` is the file. Keywords are those of `File`.
        """
        for key in ("driver", "locking", "backing_store"):
            if key in keywords:
                raise TypeError(f"File.in_memory() got an unexpected keyword argument {key!r}")
        keywords.pop("block_size", None)
        image = None if file_image is None else bytes(file_image)
        if image:
            for key in ("track_order", "track_times", "fs_strategy", "fs_page_size", "userblock_size"):
                if key in keywords:
                    raise TypeError(f"{key} parameters cannot be used with file_image")
        cache, libver = keywords.pop("cache", None), keywords.pop("libver", None)
        netcdf = bool(keywords.pop("netcdf", False))
        strategy, page_size = keywords.pop("fs_strategy", None), keywords.pop("fs_page_size", None)
        if strategy is not None and strategy not in STRATEGIES:
            raise InvalidArgumentError("Invalid file space strategy type")
        low, high = ("earliest", _VERSIONS[-1]) if libver is None else _versions(libver)
        new = New(
            "r+" if image else "w",
            low,
            keywords.pop("userblock_size", None),
            keywords.pop("track_order", None) or netcdf or None,
            None,
            *space_of(strategy, page_size, keywords.get("fs_threshold")),
        )
        _check_keywords(None, {key: value for key, value in keywords.items() if key not in _WITHOUT_EFFECT})
        store = in_memory(image or b"", new, None)
        store._opened_as = {
            "filename": f"in_memory_{next(_numbers)}",
            "driver": "core",
            "libver": (low, high),
            "swmr": False,
        }
        return cls._of(store, cache, netcdf)

    def image(self) -> bytes:
        """Return the bytes of a file that is being changed, after a `flush`."""
        self.flush()
        return image_of(self._editor, self._store._pages)  # type: ignore[attr-defined]

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
        """``"r"``, or ``"r+"`` if the file can be changed."""
        self._store._native.check_open()
        return "r" if self._store.read_only else "r+"

    @property
    def driver(self) -> str:
        """h5py's name for the way the file is read."""
        found: str = self._as_opened("driver", "ros3" if self._store._native.is_far() else "sec2")
        return found

    @property
    def libver(self) -> tuple[str, str]:
        """The requested HDF5 versions, of new objects. All versions are read."""
        found: tuple[str, str] = self._as_opened("libver", ("earliest", _VERSIONS[-1]))
        return found

    @property
    def userblock_size(self) -> int:
        """Bytes of the user block, in front of the HDF5 data."""
        return self._user_block()

    @property
    def id(self) -> FileID:
        """h5py's low-level object."""
        return FileID(self)

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
        if not value:
            raise InvalidArgumentError("It is not possible to forcibly switch SWMR mode off.")
        self._editor  # noqa: B018
        # Other programs can read the file at any time. They see what is flushed.
        self.flush()
        self._store._opened_as = {**self._store._opened_as, "swmr": True}  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Make all changes permanent, and visible to other programs."""
        self._store._native.check_open()
        if not self._store.read_only:
            self._store.flush()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        if not self:
            return "<Closed HDF5 file>"
        return f'<HDF5 file "{Path(self.filename).name}" (mode {self.mode})>'

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


def _chunk_cache(keywords: Mapping[str, Any]) -> tuple[int, int, float]:
    """Return the settings of HDF5's cache of chunks, as they were asked for."""
    given = (keywords.get(name) for name in ("rdcc_nslots", "rdcc_nbytes", "rdcc_w0"))
    slots: Any
    size: Any
    weight: Any
    slots, size, weight = (
        one if one is not None else usual for one, usual in zip(given, CHUNK_CACHE, strict=True)
    )
    return slots, size, weight


def _versions(libver: Any) -> tuple[str, str]:
    """Return the versions of HDF5 of a ``libver`` argument."""
    low, high = (
        ("earliest", "latest")
        if libver is None
        else libver
        if isinstance(libver, tuple)
        else (libver, "latest")
    )
    low, high = (_VERSIONS[-1] if version == "latest" else version for version in (low, high))
    for version in (low, high):
        if version not in _VERSIONS:
            raise InvalidArgumentError(
                f"libver: expected one of {', '.join(_VERSIONS)}, latest, or a pair of these, "
                f"found {libver!r}"
            )
    if _VERSIONS.index(low) > _VERSIONS.index(high):
        raise InvalidArgumentError(
            f"libver: Invalid (low,high) combination of library version bound: {low!r} is newer than {high!r}"
        )
    return low, high


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
        options = {**ros3_options(given), **(options or {})}
    return _opened(first if isinstance(name, str) else Path(first), options), shown


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
