"""h5py's selections: blocks at equal distances, the chunks of a region, regions of references."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab._native import RegionReference
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedSelectionError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray

__all__ = ["MultiBlockSlice", "Regions", "axes_of", "chunks_of", "has_blocks", "without_blocks"]


class MultiBlockSlice:
    """An index of equally spaced blocks.

    Selects ``count`` blocks of ``block`` elements. The first begins at ``start``, and each next
    block ``stride`` elements later. Without ``count``, there are as many blocks as fit.

    Examples
    --------
    >>> import h5py, hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["a"] = range(10)
    >>> hs.File(path)["a"][hs.h5.MultiBlockSlice(start=1, stride=4, block=2)]
    array([1, 2, 5, 6])
    """

    def __init__(self, start: int = 0, stride: int = 1, count: int | None = None, block: int = 1) -> None:
        if start < 0:
            raise InvalidArgumentError("Start can't be negative")
        if stride < 1 or (count is not None and count < 1) or block < 1:
            raise InvalidArgumentError("Stride, count and block can't be 0 or negative")
        if block > stride:
            raise InvalidArgumentError("Blocks will overlap if block > stride")
        self.start, self.stride, self.count, self.block = start, stride, count, block

    def indices(self, length: int) -> tuple[int, int, int, int]:
        """Return ``start``, ``stride``, ``count`` and ``block`` for an axis of this length."""
        count = self.count
        if count is None:
            count = max(0, (length - self.start - self.block) // self.stride + 1)
        end = self.start + (count - 1) * self.stride + self.block - 1
        if count < 1 or end >= length:
            raise InvalidArgumentError(
                f"{self!r} range ({self.start} - {end}) extends beyond maximum index ({length - 1})"
            )
        return self.start, self.stride, count, self.block

    def places(self, length: int) -> npt.NDArray[np.int64]:
        """Return the indices of all elements."""
        start, stride, count, block = self.indices(length)
        return (start + np.arange(count)[:, None] * stride + np.arange(block)).reshape(-1)

    def __repr__(self) -> str:
        return (
            f"MultiBlockSlice(start={self.start}, stride={self.stride}, "
            f"count={self.count}, block={self.block})"
        )


def _blocks(part: Any) -> MultiBlockSlice | None:
    """Return a part of an index as `MultiBlockSlice`, if it is ours or h5py's; otherwise ``None``.

    h5py's class is recognized by its name, as in `_native`, so that h5py need not be imported.
    """
    if isinstance(part, MultiBlockSlice):
        return part
    if type(part).__name__ != "MultiBlockSlice":
        return None
    try:
        return MultiBlockSlice(part.start, part.stride, part.count, part.block)
    except AttributeError as error:
        raise UnsupportedSelectionError(
            f"{type(part).__module__}.MultiBlockSlice is not understood ({error}): "
            "pass hyperslab.h5.MultiBlockSlice or h5py.MultiBlockSlice"
        ) from error


def has_blocks(selection: Any) -> bool:
    """Return True if an index is or contains a `MultiBlockSlice`, ours or h5py's."""
    if not isinstance(selection, tuple):
        return _blocks(selection) is not None
    return any(_blocks(part) is not None for part in selection)


def without_blocks(parts: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an orthogonal index with lists in place of blocks."""
    return tuple(
        part if (blocks := _blocks(part)) is None else blocks.places(length)
        for part, length in zip(_whole(parts, len(shape)), shape, strict=True)
    )


def _whole(parts: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return an index with one part for each axis."""
    at = [index for index, part in enumerate(parts) if part is Ellipsis]
    if len(at) > 1:
        raise ArgumentTypeError("Only one ellipsis may be used.")
    given = len(parts) - len(at)
    if given > rank:
        raise ArgumentTypeError(f"{given} indexing arguments for {rank} dimensions")
    place = at[0] if at else len(parts)
    return (*parts[:place], *[slice(None)] * (rank - given), *parts[place + 1 :])


def chunks_of(array: FileArray, region: Any = None) -> Iterator[tuple[slice, ...]]:
    """Yield the selection of each chunk in a region, cut at the region's edges."""
    shape, chunks = array.shape, array.chunks
    if chunks is None:
        raise TypeError("Chunked dataset required")
    sides = [(0, n) for n in shape]
    if region is not None:
        parts: Sequence[Any] = [region] if isinstance(region, (slice, int)) else list(region)
        if len(parts) != len(shape):
            raise InvalidArgumentError("Invalid selection - selection region must have same rank as dataset")
        sides = [
            (part, part + 1) if isinstance(part, int) else (part.start or 0, part.stop or n)
            for part, n in zip(parts, shape, strict=True)
        ]
        if any(start < 0 or stop > n or stop <= start for (start, stop), n in zip(sides, shape, strict=True)):
            raise InvalidArgumentError("Invalid selection - selection region must be within dataset space")
    axes = [
        [slice(max(at, start), min(at + chunk, stop), 1) for at in range(start - start % chunk, stop, chunk)]
        for (start, stop), chunk in zip(sides, chunks, strict=True)
    ]
    return itertools.product(*axes)


class Regions:
    """An object that makes references to elements: ``array.regionref[selection]``."""

    def __init__(self, array: FileArray) -> None:
        self._array = array

    def __getitem__(self, selection: Any) -> RegionReference:
        array = self._array
        parts = selection if isinstance(selection, tuple) else (selection,)
        if len(parts) == 1 and getattr(parts[0], "dtype", None) == np.bool_ and np.ndim(parts[0]) > 0:
            mask = np.asarray(parts[0])
            if mask.shape != array.shape:
                raise ArgumentTypeError("Boolean indexing array has incompatible shape")
            return array._region([], np.argwhere(mask).tolist(), [])
        axes = [_slabs(part, n) for part, n in zip(_whole(parts, array.ndim), array.shape, strict=True)]
        if not all(axes):
            return array._region([], [], [])
        if all(len(axis) == 1 for axis in axes):
            return array._region([axis[0] for axis in axes], [], [])
        ranges = [
            [
                (start + k * stride, start + k * stride + block - 1)
                for start, stride, count, block in axis
                for k in range(count)
            ]
            for axis in axes
        ]
        blocks = [
            ([low for low, _ in corner], [high for _, high in corner])
            for corner in itertools.product(*ranges)
        ]
        return array._region([], [], blocks)

    def shape(self, reference: RegionReference) -> tuple[int, ...]:
        """Return the shape of the dataset that a reference points to."""
        shape: tuple[int, ...] = self._array.file[reference].shape
        return shape

    def selection(self, reference: RegionReference) -> tuple[int, ...]:
        """Return the shape of the elements that a reference points to."""
        shape: tuple[int, ...] = np.shape(self._array.file[reference][reference])
        return shape


def axes_of(
    key: tuple[Any, ...], shape: tuple[int, ...]
) -> list[tuple[Any, int, list[tuple[int, int, int, int]]]]:
    """Return the parts of an index: for each axis the part, the length and the selected slabs."""
    parts = _whole(key, len(shape))
    return [(part, n, _slabs(part, n)) for part, n in zip(parts, shape, strict=True)]


_Slab = tuple[int, int, int, int]


def _slabs(part: Any, length: int) -> list[_Slab]:
    """Return the slabs that a part of an index selects: start, stride, count, block of each."""
    blocks = _blocks(part)
    if blocks is not None:
        return [blocks.indices(length)]
    if isinstance(part, slice):
        start, stop, step = part.indices(length)
        if step < 1:
            raise InvalidArgumentError(f"Step must be >= 1 (got {step})")
        count = len(range(start, stop, step))
        return [(start, step, count, 1)] if count else []
    if np.ndim(part) == 0:
        at = int(part)
        if not -length <= at < length:
            raise IndexError(f"Index ({at}) out of range for (0-{length - 1})")
        return [(at % length, 1, 1, 1)]
    listed = np.asarray(part)
    places = np.flatnonzero(listed) if listed.dtype == np.bool_ else listed
    return [(int(at) % length, 1, 1, 1) for at in places]
