"""Reading of region references."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._elements.hdf5_types import Empty
from hyperslab._native import RegionReference

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray

__all__ = ["read_region"]


def read_region(array: FileArray, region: RegionReference) -> Any:
    """Read the elements of a region: with its shape if it is a grid, otherwise as one axis."""
    if array.file[region] != array:
        raise ValueError("Region reference must point to this dataset")
    kind, *rest = region._selection()
    if kind == "none":
        return np.empty((0,) * array.ndim, array.dtype) if array.shape else Empty(array.dtype)
    if kind == "all":
        return array[...]
    if kind == "slabs":
        return _slabs(array, rest[0])
    if kind == "points":
        return _collected(array, [array[tuple(point)] for point in rest[0]])
    return _blocks(array, rest[0])


def _slabs(array: FileArray, slabs: list[tuple[int, int, int | None, int | None]]) -> Any:
    """Read the box around the slabs, then select their elements from it."""
    box, wanted = [], []
    for (start, stride, count, block), n in zip(slabs, array.shape, strict=True):
        count = 1 if count is None else count
        block = n - start if block is None else block
        # Blocks that touch are merged.
        if block == stride or count == 1:
            box.append(slice(start, start + (count - 1) * stride + block))
            wanted.append(np.arange(box[-1].stop - start))
        elif block == 1:
            box.append(slice(start, start + (count - 1) * stride + 1, stride))
            wanted.append(np.arange(count))
        else:
            box.append(slice(start, start + (count - 1) * stride + block))
            wanted.append((np.arange(count)[:, None] * stride + np.arange(block)).reshape(-1))
    return np.asarray(array[tuple(box)])[np.ix_(*wanted)]


def _blocks(array: FileArray, blocks: list[tuple[list[int], list[int]]]) -> Any:
    """Read the elements of all blocks, each element once, in C order."""
    places: dict[tuple[int, ...], Any] = {}
    for first, last in blocks:
        box = tuple(slice(low, high + 1) for low, high in zip(first, last, strict=True))
        found = np.asarray(array[box])
        for at in np.ndindex(*(high - low + 1 for low, high in zip(first, last, strict=True))):
            places[tuple(low + k for low, k in zip(first, at, strict=True))] = found[at]
    shape = [len(set(axis)) for axis in zip(*places, strict=True)]
    found = _collected(array, [places[place] for place in sorted(places)])
    return found.reshape(shape) if math.prod(shape) == len(places) else found


def _collected(array: FileArray, elements: list[Any]) -> Any:
    made = np.empty(len(elements), array.dtype)
    for index, element in enumerate(elements):
        made[index] = element
    return made
