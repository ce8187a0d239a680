"""Iterates over the rows of an array.

Some chunks are read at a time, so that no chunk is decoded once per row.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array_common import AnyArray

__all__ = ["rows", "vlen_rows"]

# Approximate bytes to read at a time.
_BYTES = 16 << 20
# Bytes that locate the values of one element of variable length.
_CELL_BYTES = 16


def chunk_hint(array: AnyArray) -> tuple[int, ...] | None:
    """Return the chunk shape, the longest lengths if they differ; ``None`` without chunks."""
    return array._largest_chunk if hasattr(type(array), "read_chunk_sizes") else array.chunks


def rows(array: AnyArray) -> Iterator[Any]:
    """Yield ``array[0]``, ``array[1]``, …"""
    row = max(array.nbytes // max(len(array), 1), 1)
    # Arrays of files may have no chunks.
    step = max(min((chunk_hint(array) or array.shape)[0], _BYTES // row), 1)
    for start in range(0, len(array), step):
        block = array.read(slice(start, start + step))
        # Copy, so that a kept row does not keep its whole block.
        for row in block:
            yield row.copy() if isinstance(row, np.ndarray) else row


def vlen_rows(array: AnyArray, axis: int, start: int | None, stop: int | None) -> Generator[tuple[int, Any]]:
    """Yield pairs of an index along one axis and the elements there."""
    if not -array.ndim <= axis < array.ndim:
        raise InvalidArgumentError(f"axis {axis} is out of bounds for an array of {array.ndim} axes")
    axis %= array.ndim
    wanted = range(array.shape[axis])[start:stop]
    before = (slice(None),) * axis
    # Without chunks (in a file), read several rows at a time.
    row = max(array.size // max(array.shape[axis], 1), 1)
    chunk = chunk_hint(array)
    step = chunk[axis] if chunk else max(_BYTES // (row * _CELL_BYTES), 1)
    return _blocks(array, wanted, before, step)


def _blocks(
    array: AnyArray, wanted: range, before: tuple[slice, ...], step: int
) -> Generator[tuple[int, Any]]:
    at = wanted.start
    while at < wanted.stop:
        end = min((at // step + 1) * step, wanted.stop)
        block: Any = array.read((*before, slice(at, end)))
        for index in range(at, end):
            row = block[(*before, index - at)]
            yield index, row.copy() if isinstance(row, np.ndarray) else row
        at = end
