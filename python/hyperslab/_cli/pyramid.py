"""Implements ``hyperslab pyramid``."""

from __future__ import annotations

import math
import sys
from typing import Any

from hyperslab._base.progress import bytes_text, show_progress
from hyperslab._cli.guard import guarded
from hyperslab._compute.pyramid import level_shapes, pyramid
from hyperslab._core.group import Group
from hyperslab._create.open import open_array, open_group
from hyperslab._stores.store import FileStore
from hyperslab.errors import InvalidArgumentError, NodeNotFoundError

__all__ = ["make_pyramid"]


def make_pyramid(wanted: dict[str, Any]) -> int:
    """Make the pyramid, print the messages for the user, and return the exit code."""
    return guarded(lambda: _make(wanted), "the new levels are deleted")


def _make(wanted: dict[str, Any]) -> None:
    storage = dict(wanted["storage"]) or None
    array = open_array(wanted["source"], mode="r", storage_options=storage)
    named, listed = dict(wanted["named_factors"]), wanted["factors"]
    factors: Any = named or (listed[0] if len(listed) == 1 else listed)
    # Everything that may refuse comes before a group is made.
    shapes = level_shapes(array, factors, wanted["levels"], strict="ome" in wanted["metadata"])
    target: Any = wanted["target"]
    if target is None:
        target = _own_group(wanted["source"], array, storage)
        array = target[wanted["source"].rstrip("/").rpartition("/")[2]]
    if wanted["dry_run"]:
        place = wanted["target"] or "the array's group"
        for number, shape in enumerate(shapes):
            if number or wanted["target"]:
                size = bytes_text(math.prod(shape) * array.dtype.itemsize)
                print(f"would write level {number} to {place}: {shape}, {size} decoded")
        if len(shapes) == 1:
            print("nothing to write: the array is as small as its chunks; pass --levels")
        return
    if wanted["target"] is not None:
        target = open_group(target, mode="a", storage_options=storage)
    with show_progress(sys.stderr.isatty() and not wanted["quiet"], stays=False) as progress:
        made = pyramid(
            array,
            target,
            factors,
            method=wanted["method"],
            levels=wanted["levels"],
            metadata=wanted["metadata"],
            max_memory=wanted["max_memory"],
            progress=progress,
        )
    if not wanted["quiet"]:
        count = len(shapes) - (wanted["target"] is None)
        place = f"{made.store.url}/{made.path}".rstrip("/")
        print(f"wrote {count} levels to {place}")


def _own_group(source: str, array: Any, storage: dict[str, str] | None) -> Group:
    """Return the group that has the array."""
    above = source.rstrip("/").rpartition("/")[0]
    wrong = "DST: expected a group of Zarr, because the array is in none: hyperslab pyramid ARRAY DST"
    if isinstance(array.store, FileStore) or not above:
        raise InvalidArgumentError(wrong)
    try:
        return open_group(above, mode="r+", storage_options=storage)
    except NodeNotFoundError as error:
        raise InvalidArgumentError(wrong) from error
