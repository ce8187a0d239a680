"""Sources and destinations of plans, as other processes can reach them."""

from __future__ import annotations

import os
from typing import Any

from hyperslab import _native
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._stores.store import FileStore, LocalStore, Store, StoreLike, StorePath
from hyperslab._stores.zarr import ZarrStore, is_zarr_store
from hyperslab.errors import UnsupportedError

__all__ = [
    "is_remote",
    "location",
    "location_of_node",
    "readable",
    "session_location",
    "session_place",
]


def session_place(place: Any) -> StorePath | None:
    """Return the place of something in a session of Icechunk; ``None`` for everything else."""
    path = ""
    if isinstance(place, (Array, Group, StorePath)):
        place, path = place.store, place.path
    if is_zarr_store(place):
        place = ZarrStore(place)
    if not isinstance(place, ZarrStore) or not hasattr(place.zarr_store, "session"):
        return None
    return StorePath(place, path)


def readable(place: StorePath) -> StorePath:
    """Return the same place through a store that can be pickled, with the changes made so far."""
    session = place.store.zarr_store.session  # type: ignore[attr-defined]
    store = session.store if session.read_only else session.fork().store
    return StorePath(ZarrStore(store).with_read_only(), place.path)


def session_location(place: StorePath) -> str:
    snapshot = place.store.zarr_store.session.snapshot_id  # type: ignore[attr-defined]
    return f"icechunk snapshot {snapshot}" + (f", /{place.path}" if place.path else "")


def is_remote(place: str) -> bool:
    return _native.takes_storage_options(place)


def location(place: StoreLike) -> str:
    """Return a path or URL that is valid in processes with other working directories."""
    if isinstance(place, LocalStore):
        return str(place.root)
    if isinstance(place, Store):
        return _url(place)
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str):
        raise UnsupportedError(
            f"other processes cannot reach a {type(place).__name__}: give a path, or the URL of a server"
        )
    return place if "://" in place or place.startswith("zip:") else os.path.abspath(place)  # noqa: PTH100


def location_of_node(node: Array | Group) -> str:
    store = node.store
    base = str(store.path) if isinstance(store, FileStore) else location(store)
    return f"{base.rstrip('/')}/{node.path}" if node.path else base


def _url(store: Store) -> str:
    if store.url.startswith("memory:"):
        raise UnsupportedError(
            "other processes cannot reach what is in the memory of this one: use hyperslab.copy"
        )
    if store._native.has_secret_url:
        raise UnsupportedError("the URL has a secret in it: pass the URL without it, and storage_options")
    return store.url
