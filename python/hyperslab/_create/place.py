"""Resolves the store, path and mode in the arguments of functions that open and create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._stores.store import FileStore, Store, StoreLike, reach, refuse_file_name, resolve_store
from hyperslab.errors import (
    FileInTheWayError,
    InvalidArgumentError,
    NodeNotFoundError,
    ReadOnlyError,
    StoreExistsError,
    UnknownFormatError,
    UnsupportedError,
)

__all__ = [
    "CREATING",
    "KEEPING",
    "Mode",
    "ZarrFormat",
    "check_empty",
    "find",
    "join_path",
    "missing",
    "must_be_empty",
    "place_of",
]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
ZarrFormat: TypeAlias = Literal[2, 3]

_MODES = ("r", "r+", "a", "w", "w-")
# Modes that open an existing node.
KEEPING = (None, "r", "r+", "a")
# Modes that create a missing node.
CREATING = ("a", "w", "w-")


def place_of(
    store: Any, path: str | None, mode: Mode | None, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str, Mode | None]:
    """Return store, path and mode from the arguments of an ``open…`` function."""
    if mode is not None and mode not in _MODES:
        raise InvalidArgumentError(f"Invalid mode: {mode}, expected one of {_MODES}")
    try:
        if isinstance(store, str):
            found, base = reach(store, storage_options)
        else:
            found, base = resolve_store(store, storage_options)
    except UnknownFormatError as error:
        if mode not in CREATING:
            raise
        raise FileInTheWayError(f"cannot create a directory: {error}") from error
    if mode in CREATING:
        refuse_file_name(store, found)
    if isinstance(found, FileStore) and mode not in (None, "r"):
        raise UnsupportedError(
            f"{found.url}: {found._native.file_format} files are read only so far; "
            f"mode is {mode!r} instead of 'r'"
        )
    if found._read_only:
        if mode not in (None, "r"):
            raise ReadOnlyError(
                f"Store is read-only but mode is {mode!r}. Create a writable store or use 'r' mode."
            )
        mode = "r"
    elif mode == "r":
        found = found.with_read_only(True)
    if not base and not path:
        return found, "", mode
    parts = [part for part in f"{base}/{path or ''}".split("/") if part]
    return found, "/".join(parts), mode


def find(
    place: Store,
    path: str,
    mode: Mode | None,
    zarr_format: ZarrFormat | None,
    use_consolidated: bool | None = None,
) -> tuple[_native.ArrayHandle | _native.GroupHandle, Store]:
    """Return the node at a path, and its store.

    For a node inside an HDF5 or NetCDF file, the store is that file.
    """
    try:
        return _native.open_node(place._native, path, zarr_format, use_consolidated), place
    except (NodeNotFoundError, InvalidArgumentError):
        # A path inside a file may contain names that Zarr refuses.
        inside = place._native.file_at(path) if mode in (None, "r") and zarr_format is None else None
        if inside is None or use_consolidated:
            raise
    return _native.open_node(inside[0], inside[1]), FileStore._of(inside[0], getattr(place, "_options", None))


def must_be_empty(store: StoreLike | None, path: str | None) -> None:
    """Refuse a place that is not empty."""
    place, full, _ = place_of(store, path, "a")
    check_empty(place, full)


def check_empty(store: Store, path: str) -> None:
    if not store._native.is_empty(path):
        raise StoreExistsError(
            f"Cannot create '{path}' in {store.url} with mode 'w-' because it already contains data. "
            "Use mode 'w' to overwrite or 'a' to append."
        )


def missing(found: NodeNotFoundError, store: Store, path: str, mode: Mode | None, what: str) -> str:
    """Return the message for a missing node: the node looked for, and how to create it."""
    kinds = {"array": "no array", "group": "no group", "node": "no array or group"}
    where = f"'{path}' in {store.url}" if path else store.url
    message = f"there is {kinds[what]} at {where}"
    if isinstance(store, FileStore):
        return str(found)
    below = [] if mode in CREATING else store._native.nodes_below(path)
    if below:
        return f"{message}; try {' or '.join(map(repr, below))}"
    if mode == "r" or store.read_only:
        return message
    create = "create_array or create_group" if what == "node" else f"create_{what}"
    return f"{message}; to create one, pass mode='a' (or 'w-', 'w'), or use {create}"


def join_path(base: str, path: str) -> str:
    """The path of a node below another one; either may be empty."""
    return "/".join(part for part in (base, path) if part)
