"""The rows of an array one after the other, read some chunks at a time, so that no chunk is decoded for each
of its rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array_common import AnyArray

__all__ = ["rows", "vlen_rows"]

# About so many bytes are read at a time.
_BYTES = 16 << 20
# Of an element of variable length, where its values are.
_CELL_BYTES = 16


def chunk_hint(array: AnyArray) -> tuple[int, ...] | None:
    """Elements of a chunk per axis, of the longest where they differ; ``None``: there are no chunks."""
    return array._largest_chunk if hasattr(type(array), "read_chunk_sizes") else array.chunks


def rows(array: AnyArray) -> Iterator[Any]:
    """What ``array[0]``, ``array[1]`` … are."""
    row = max(array.nbytes // max(len(array), 1), 1)
    # Arrays of files need not have chunks.
    step = max(min((chunk_hint(array) or array.shape)[0], _BYTES // row), 1)
    for start in range(0, len(array), step):
        block = array.read(slice(start, start + step))
        # Copies: a row that is kept must not keep its block.
        for row in block:
            yield row.copy() if isinstance(row, np.ndarray) else row


def vlen_rows(array: AnyArray, axis: int, start: int | None, stop: int | None) -> Generator[tuple[int, Any]]:
    """Pairs of an index of one axis, and what is there."""
    if not -array.ndim <= axis < array.ndim:
        raise InvalidArgumentError(f"axis {axis} is out of bounds for an array of {array.ndim} axes")
    axis %= array.ndim
    wanted = range(array.shape[axis])[start:stop]
    before = (slice(None),) * axis
    # What is not cut into chunks (in a file) is read some rows at a time.
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
