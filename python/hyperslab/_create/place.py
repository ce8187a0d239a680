"""Divides the places in arguments into stores and paths, and opens nodes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._stores.store import FileStore, Store, StoreLike, location_in, resolve_store, store_of

__all__ = [
    "CREATING",
    "KEEPING",
    "Mode",
    "ZarrFormat",
    "check_empty",
    "join_path",
    "must_be_empty",
    "open_place",
    "place_of",
]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
ZarrFormat: TypeAlias = Literal[2, 3]

# Modes that open an existing node.
KEEPING = (None, "r", "r+", "a")
# Modes that create a missing node.
CREATING = ("a", "w", "w-")


def place_of(
    store: Any, path: str | None, mode: Mode | None, storage_options: Mapping[str, Any] | None = None
) -> tuple[Store, str]:
    """Return store and path from the arguments of a function."""
    location = location_in(store, storage_options)
    if location is None:
        given, base = resolve_store(store)
        _, full, read_only = _native.find_place(given._native, base, given._read_only, path or "", mode)
        return _as(given, read_only), full
    fsync, options = config._values["fsync"], location[1]
    handle, full, read_only = _native.find_place(
        location[0], "", False, path or "", mode, fsync, options or []
    )
    return store_of(handle, fsync, read_only, options), full


def open_place(
    store: Any,
    path: str | None,
    mode: Mode | None,
    storage_options: Mapping[str, Any] | None,
    zarr_format: ZarrFormat | None,
    kind: Literal["array", "group"] | None = None,
    use_consolidated: bool | None = None,
) -> tuple[Store, str, _native.ArrayHandle | _native.GroupHandle | None]:
    """Return store and path, and the node there. ``None``: it is missing, and the mode creates it.

    For a node inside an HDF5 or NetCDF file, the store is that file.
    """
    # The usual case runs one function less.
    is_plain = type(store) is str and "://" not in store and storage_options is None
    location = (store, None) if is_plain else location_in(store, storage_options)
    fsync = config._values["fsync"]
    if location is None:
        given, base = resolve_store(store)
        handle, full, read_only, node = _native.open_place(
            given._native,
            base,
            given._read_only,
            path or "",
            mode,
            fsync,
            [],
            zarr_format,
            kind,
            use_consolidated,
        )
        if handle is not None:
            return FileStore._of(handle, getattr(given, "_options", None)), full, node
        return _as(given, read_only), full, node
    text, options = location
    handle, full, read_only, node = _native.open_place(
        text, "", False, path or "", mode, fsync, options or [], zarr_format, kind, use_consolidated
    )
    return store_of(handle, fsync, read_only, options), full, node


def _as(store: Store, read_only: bool) -> Store:
    return store.with_read_only(True) if read_only and not store._read_only else store


def must_be_empty(store: StoreLike | None, path: str | None) -> None:
    """Refuse a place that is not empty."""
    check_empty(*place_of(store, path, "a"))


def check_empty(store: Store, path: str) -> None:
    store._native.check_empty(path)


def join_path(base: str, path: str) -> str:
    """The path of a node below another one; either may be empty."""
    return "/".join(part for part in (base, path) if part)
