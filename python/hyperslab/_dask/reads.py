"""Finds the arrays that a lazy value will read, among the objects that it refers to."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from hyperslab._core.array_common import AnyArray
from hyperslab._stores.store import FileStore, Store, resolve_store
from hyperslab.errors import HyperslabError, InvalidArgumentError

__all__ = ["KEPT_BYTES", "arrays_in", "is_at", "is_zarr_array", "reading_from", "refuse_early_loss"]

# New data that replace old data on a server are held in memory while the old data stay. At least
# this many bytes fit: four parts of a multipart upload, of at least 5 MiB each.
KEPT_BYTES = 16 << 20

# Maximum number of objects to examine. A graph of 100 000 tasks has about a million objects, which
# take half a second.
_MOST = 4_000_000

# Types whose objects do not refer to arrays.
_LEAVES = (str, bytes, int, float, complex, type(None), np.dtype, np.generic, type, ModuleType)


def reading_from(values: Iterable[Any], store: Store, path: str) -> str | None:
    """Return the address of an array at or below a path that lazy values will read.

    Lazy values are dask arrays. Returns ``None`` if there is no such array.
    """
    for array in arrays_in(values):
        found = _found_below(array, store, path)
        if found is not None:
            return found
    return None


def is_at(array: Any, store: Store, path: str) -> bool:
    """Return True if an array of hyperslab or zarr-python is at this path of this store."""
    return _found_below(array, store, path) == _address(store, path)


def _found_below(array: Any, store: Store, path: str) -> str | None:
    """Return the address of an array if it is at or below a path of a store."""
    try:
        other, inside = (
            (array._store, array.path) if isinstance(array, AnyArray) else resolve_store(array.store_path)
        )
    except (HyperslabError, TypeError, OSError):
        return None
    place, found = _address(store, path), _address(other, inside)
    if found != place and not found.startswith(f"{place}/"):
        return None
    if isinstance(store, FileStore) and store._native.file_path is not None:
        # A file that is being changed, and the same file open for reading.
        return found
    # Buckets on different servers may have the same URL.
    return found if other.url != store.url or store._native.same(other._native) else None


def refuse_early_loss(store: Store, path: str, nbytes: int, fill: Any) -> None:
    """Refuse to replace data on a server with data that are read from there.

    Applies if ``fill`` reads from the path and writes more than `KEPT_BYTES`: the old data would be
    deleted first.
    """
    # The module is loaded only if there is a remote store.
    remote = sys.modules.get("hyperslab._stores.remote")
    if remote is None or not isinstance(store, remote.RemoteStore) or nbytes <= KEPT_BYTES:
        return
    found = reading_from([fill], store, path)
    if found is not None:
        raise InvalidArgumentError(
            f"the data are read from {found}, which is to be replaced, and a server does not keep more than "
            f"{KEPT_BYTES >> 20} MiB of old data until the new are complete: read them first, or write "
            "to another place"
        )


def arrays_in(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the arrays of hyperslab and zarr-python among all objects that values refer to."""
    waiting = list(values)
    # Keep the objects themselves, because Python reuses the id of a freed object.
    seen: dict[int, Any] = {}
    while waiting and len(seen) < _MOST:
        each = waiting.pop()
        if isinstance(each, _LEAVES) or id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, AnyArray) or is_zarr_array(each):
            yield each
        elif isinstance(each, np.ndarray):
            if each.dtype == object:
                waiting.extend(each.flat)
        elif isinstance(each, FunctionType):
            # Skip the globals, which hold the whole module.
            waiting += [each.__defaults__, each.__kwdefaults__, each.__closure__]
        else:
            waiting += gc.get_referents(each)


def is_zarr_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "zarr" and kind.__name__ in ("Array", "AsyncArray")


def _address(store: Store, path: str) -> str:
    """Return the address of a node, independent of the kind of store."""
    native = store._native
    root = native.file_path if isinstance(store, FileStore) else native.root
    start = store.url if root is None else os.path.realpath(os.fspath(root))
    return "/".join([start.rstrip("/"), *(part for part in path.split("/") if part)])
