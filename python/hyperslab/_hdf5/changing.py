"""How HDF5 files are opened to be changed: local ones, new ones on servers, and file objects."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._hdf5.defaults import get_config
from hyperslab._stores.edited_file import EditedFile, is_stream
from hyperslab._stores.remote import flat_options
from hyperslab._stores.store import location_of
from hyperslab.errors import (
    ArgumentTypeError,
    DamagedFileError,
    InvalidArgumentError,
    MetadataValidationError,
    NodeNotFoundError,
    StoreExistsError,
    UnsupportedError,
)

__all__ = ["ROS3", "STRATEGIES", "New", "in_memory", "is_far", "open_to_change", "ros3_options", "space_of"]

STRATEGIES = ("fsm", "page", "aggregate", "none")
# Drivers for a single file on the disk, or in memory.
_WRITABLE = (None, "sec2", "stdio", "core", "direct", "windows", "fileobj")
# Keywords of the driver ros3, and their names in `storage_options`.
ROS3 = {
    "aws_region": "region",
    "secret_id": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
}


class New(NamedTuple):
    """How a file is opened to change it."""

    mode: str
    libver: str
    user_block: int | None
    track_order: bool | None
    locking: Any = None
    pages: int | None = None
    space: tuple[int, int] | None = None

    def locks(self) -> bool | None:
        """Return whether the file is locked; ``None``: as in the settings."""
        if self.locking is None:
            return None
        if self.locking in (False, "false"):
            return False
        if self.locking in (True, "true", "best-effort"):
            return True
        raise InvalidArgumentError(f"Unsupported locking value: {self.locking}")

    def open(
        self,
        path: Path | None,
        image: bytes | None,
        mode: str,
        far: tuple[str, list[tuple[str, str]]] | None = None,
    ) -> _native.StoreHandle | None:
        """Open or create a file; ``None``: there is none to open.

        ``far``: the URL of a new file and the options of its server; an empty URL: a temporary file.
        """
        size = 0
        if self.user_block is not None:
            try:
                size = int(self.user_block)
            except (TypeError, ValueError):
                raise InvalidArgumentError("User block size must be an integer") from None
            if size and (size < 512 or size & (size - 1)):
                raise InvalidArgumentError(
                    f"userblock_size: expected 0, 512, 1024, 2048 or another power of two, found {size}"
                )
        tracks = get_config().track_order if self.track_order is None else self.track_order
        # HDF5 1.8 and older versions have the same structures, and so have all from 1.10 on.
        libver = "earliest" if self.libver in ("earliest", "v108") else "v110"
        found = _native.edit_file(
            path,
            image,
            mode,
            libver,
            size,
            bool(tracks),
            self.locks(),
            config.fsync,
            far,
            self.pages is not None,
            self.space,
        )
        if found is not None and mode == "r+" and self.user_block is not None and found.user_block != size:
            existing = found.user_block
            found.close()
            raise InvalidArgumentError(
                f"Requested userblock size ({size}) does not match that of existing file ({existing})"
            )
        return found


def space_of(
    strategy: str | None, page_size: Any, threshold: Any
) -> tuple[int | None, tuple[int, int] | None]:
    """Return the size of pages, and the strategy for free space to record."""
    if strategy == "page":
        size = 4096 if not page_size else int(page_size)
        if not 512 <= size <= 1 << 30:
            raise InvalidArgumentError(
                "Unable to set file space page size: cannot set file space page size to less than 512 or "
                f"more than 1 GiB, found {size}"
            )
        return size, None
    # The library has no use for it with other strategies.
    least = 1 if threshold is None or strategy != "fsm" else int(threshold)
    if strategy is None or (strategy == "fsm" and least == 1):
        return None, None
    return None, (STRATEGIES.index(strategy), least)


def is_far(name: Any) -> bool:
    return isinstance(name, str) and "://" in name and not name.startswith("file://")


def _new_far(url: str, new: New, options: Mapping[str, Any] | None) -> EditedFile:
    """Make a new file on a server."""
    shown = _native.shown(url)
    if not _native.takes_storage_options(url):
        raise UnsupportedError(
            f"{shown}: new files are made on local disks and on servers (s3://, gs://, az://, https://)"
        )
    advice = (
        "files on servers are not changed: copy the file to a local disk, change it there and copy it "
        "back, or use Zarr, whose arrays change on servers (hyperslab.copy)"
    )
    if new.mode == "r+":
        raise UnsupportedError(f"{shown}, mode 'r+': {advice}")
    try:
        handle = new.open(None, None, "w" if new.mode == "w" else "x", (url, flat_options(options)))
    except StoreExistsError as error:
        if new.mode == "a":
            raise UnsupportedError(f"{shown}, mode 'a': there is a file; {advice}") from None
        error.errno = error.errno or errno.EEXIST
        raise
    assert handle is not None
    return EditedFile(handle, None, new.pages)


def open_to_change(
    name: Any, driver: str | None, given: Mapping[str, Any], new: New, options: Mapping[str, Any] | None
) -> EditedFile:
    """Open a file to change it."""
    if driver == "ros3" and is_far(name):
        return _new_far(name, new, {**ros3_options(given), **(options or {})})
    if driver not in _WRITABLE:
        raise UnsupportedError(f"driver {driver!r}: such files are only read, with mode 'r'")
    if driver == "fileobj":
        return _in_object(name, new)
    if is_far(name):
        return _new_far(name, new, options)
    place = location_of(
        name[7:] if isinstance(name, str) and name.startswith("file://") else os.fsdecode(name)
    )
    path = Path(place)
    if not str(name):
        raise NodeNotFoundError("the name of a file is missing")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, f"{path} is a directory", str(path))
    if driver == "core" and not given.get("backing_store", True):
        image = path.read_bytes() if new.mode in ("r+", "a") and path.exists() else None
        if image is None and new.mode == "r+":
            raise _missing(path)
        if new.mode in ("w-", "x") and path.exists():
            raise FileExistsError(errno.EEXIST, f"there is a file {path}", str(path))
        return in_memory(image or b"", new._replace(mode="r+" if image else "w"), None)
    try:
        handle = None
        if new.mode in ("r+", "a"):
            handle = new.open(path, None, "r+")
            if handle is None and new.mode == "r+":
                raise _missing(path)
        if handle is None:
            handle = new.open(path, None, "w" if new.mode == "w" else "x")
    except MetadataValidationError as error:
        raise DamagedFileError(str(error)) from None
    assert handle is not None
    return EditedFile(handle, None, new.pages, os.fspath(path))


def _missing(path: Path) -> Exception:
    error = NodeNotFoundError(f"there is no HDF5 file '{path}'")
    error.errno, error.strerror, error.filename = errno.ENOENT, str(error), str(path)
    return error


def in_memory(image: bytes, new: New, sink: Any) -> EditedFile:
    try:
        handle = new.open(None, image, "r+" if new.mode == "r+" else "w")
    except MetadataValidationError as error:
        raise DamagedFileError(str(error)) from None
    assert handle is not None
    return EditedFile(handle, sink, new.pages)


def _in_object(file: Any, new: New) -> EditedFile:
    """Change the bytes of a Python file object."""
    if new.mode in ("w", "w-", "x") and hasattr(file, "write") and is_stream(file):
        if isinstance(file, io.TextIOBase):
            raise TypeError(f"{file!r} is open for text: open it with mode 'wb', or use its buffer")
        handle = new.open(None, None, "w", ("", []))
        assert handle is not None
        return EditedFile(handle, file, new.pages)
    for method in ("read", "write", "seek", "truncate"):
        if not hasattr(file, method):
            raise ArgumentTypeError(f"{file!r} has no method {method!r}, which is needed to write to it")
    if isinstance(file, io.TextIOBase):
        raise TypeError(f"{file!r} is open for text: open it with mode 'w+b' or 'r+b'")
    image = b""
    if new.mode in ("r+", "a"):
        file.seek(0)
        image = file.read()
        if not image and new.mode == "r+":
            raise DamagedFileError(f"{file!r} is empty, so it is not an HDF5 file (file signature not found)")
    return in_memory(image, new._replace(mode="r+" if image else "w"), file)


def ros3_options(given: Mapping[str, Any]) -> dict[str, str]:
    found = {
        ours: value.decode() if isinstance(value, bytes) else value
        for theirs, ours in ROS3.items()
        if (value := given.get(theirs))
    }
    return found if "access_key_id" in found else {**found, "anon": "true"}
