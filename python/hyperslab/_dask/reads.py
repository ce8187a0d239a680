"""Which arrays a lazy value will read: found in the objects that it refers to, without computing it."""

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

# Data that replace others on a server are kept in memory while the old ones stay. At least this many bytes
# fit: four parts of an upload in parts, of 5 MiB at least.
KEPT_BYTES = 16 << 20

# Objects that are looked at. A graph of 100000 tasks has about a million, which takes half a second.
_MOST = 4_000_000

# Types whose objects refer to no arrays.
_LEAVES = (str, bytes, int, float, complex, type(None), np.dtype, np.generic, type, ModuleType)


def reading_from(values: Iterable[Any], store: Store, path: str) -> str | None:
    """The address of an array at a path of a store, or below that path, which lazy values (arrays of dask)
    will read. ``None``: none was found.
    """
    for array in arrays_in(values):
        found = _found_below(array, store, path)
        if found is not None:
            return found
    return None


def is_at(array: Any, store: Store, path: str) -> bool:
    """Tells if an array of hyperslab or of zarr-python is the one at a path of a store."""
    return _found_below(array, store, path) == _address(store, path)


def _found_below(array: Any, store: Store, path: str) -> str | None:
    """The address of an array, if it is at a path of a store, or below that path."""
    try:
        other, inside = (
            (array._store, array.path) if isinstance(array, AnyArray) else resolve_store(array.store_path)
        )
    except (HyperslabError, TypeError, OSError):
        return None
    place, found = _address(store, path), _address(other, inside)
    if found != place and not found.startswith(f"{place}/"):
        return None
    # Buckets of different servers may have one URL.
    return found if other.url != store.url or store._native.same(other._native) else None


def refuse_early_loss(store: Store, path: str, nbytes: int, fill: Any) -> None:
    """Refuses to replace data at a path of a server by the data that ``fill`` writes, if ``fill`` reads from
    there and writes more than `KEPT_BYTES`. The old data would be deleted first.
    """
    # Loaded only where there is one.
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
    """Arrays of hyperslab and of zarr-python among all objects that values refer to."""
    waiting = list(values)
    # The objects themselves: the number of one that is gone is given to another.
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
            # Not all that its module has.
            waiting += [each.__defaults__, each.__kwdefaults__, each.__closure__]
        else:
            waiting += gc.get_referents(each)


def is_zarr_array(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "zarr" and kind.__name__ in ("Array", "AsyncArray")


def _address(store: Store, path: str) -> str:
    """The address of a node, whatever store leads there."""
    native = store._native
    root = native.file_path if isinstance(store, FileStore) else native.root
    start = store.url if root is None else os.path.realpath(os.fspath(root))
    return "/".join([start.rstrip("/"), *(part for part in path.split("/") if part)])
