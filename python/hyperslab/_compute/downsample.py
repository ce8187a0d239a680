"""Downsampling: each window of an array becomes one element.

Windows at the upper edges of an array may have fewer elements. Only existing elements count. A
window is walked by strided slices, one for each position in it, to process all windows at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab.errors import DataTypeError

__all__ = ["METHODS", "Downsampling", "Method", "check_method", "downsample"]

Method: TypeAlias = Literal["mean", "nearest", "min", "max", "mode"]
METHODS = ("mean", "nearest", "min", "max", "mode")

# Element types that a method takes, as NumPy's kinds.
_KINDS = {"mean": "iufc", "min": "biufmM", "max": "biufmM", "mode": "biufmM"}
# Bytes of windows that `mode` processes together. It compares all elements with each other, which
# takes memory.
_MODE_BYTES = 4 << 20


def check_method(method: Method, dtype: np.dtype[Any]) -> None:
    """Refuse element types that a method does not take."""
    if method != "nearest" and dtype.kind not in _KINDS[method]:
        raise DataTypeError(f"method {method!r} does not support elements of type {dtype}: use 'nearest'")


@dataclass(frozen=True)
class Downsampling:
    """The downsampling of blocks of stored elements."""

    steps: tuple[int, ...]
    method: Method
    stored: np.dtype[Any]
    """The type to read stored elements as. It has the same size as their own type."""
    missing: tuple[Any, ...]
    """Elements that do not count. A window with only such elements becomes the first of them."""

    def __call__(self, block: Any) -> Any:
        dtype = block.dtype
        if dtype.kind in "iu" and self.stored.kind != dtype.kind:
            block = block.astype(dtype.newbyteorder("=")).view(self.stored)
        first, *others = self.missing or (None,)
        for other in others:
            block = np.where(block == other, first, block)
        found = downsample(block, self.steps, self.method, None if first is None else np.asarray(first))
        if dtype.kind in "iu" and self.stored.kind != dtype.kind:
            found = found.view(dtype.newbyteorder("="))
        return found


def downsample(
    values: Any, factors: Sequence[int], method: Method, missing: npt.NDArray[Any] | None = None
) -> Any:
    """Return one element for each window of ``factors`` elements per axis.

    ``missing``: a value (as a 0-d array) that does not count, like not-a-number, not-a-time and
    masked elements. A window in which nothing counts becomes this value.
    """
    if method == "nearest":
        return _middle_elements(values, factors)
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    data = np.asarray(values)
    valid = _valid_mask(data, mask, missing)
    if method == "mean":
        result, count = _mean(data, valid, factors)
    elif method == "mode":
        result, count = _mode(data, valid, factors)
    else:
        result, count = _min_or_max(data, valid, factors, np.minimum if method == "min" else np.maximum)
    empty = None if count is None else count == 0
    if mask is not None:
        return np.ma.MaskedArray(result, mask=np.False_ if empty is None else empty)
    if empty is not None and empty.any():
        result[empty] = _empty_result(data.dtype) if missing is None else missing
    return result


def _empty_result(dtype: np.dtype[Any]) -> Any:
    """Return the result for a window in which no element counts."""
    return np.array("NaT", dtype) if dtype.kind in "mM" else np.nan


def _valid_mask(
    data: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None, missing: npt.NDArray[Any] | None
) -> npt.NDArray[np.bool_] | None:
    """Return which elements count; ``None``: all."""
    valid = None
    if data.dtype.kind in "fcmM":
        valid = data == data
        if valid.all():
            valid = None
    if missing is not None:
        there = data != missing
        valid = there if valid is None else valid & there
    if mask is not None:
        valid = ~mask if valid is None else valid & ~mask
    return valid


def _shape(shape: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-n // factor) for n, factor in zip(shape, factors, strict=True))


def _places(
    shape: Sequence[int], factors: Sequence[int]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Yield for each position in a window its slices, and the windows that reach that position."""
    for place in itertools.product(*map(range, factors)):
        source = tuple(slice(at, None, factor) for at, factor in zip(place, factors, strict=True))
        axes = zip(shape, place, factors, strict=True)
        yield source, tuple(slice(0, max(-(-(n - at) // factor), 0)) for n, at, factor in axes)


def _middle_elements(values: Any, factors: Sequence[int]) -> Any:
    """Return the middle element of each window, the lower one if there are two."""
    chosen = (
        np.minimum(np.arange(-(-n // factor)) * factor + (factor - 1) // 2, n - 1)
        for n, factor in zip(values.shape, factors, strict=True)
    )
    return values[np.ix_(*chosen)] if values.ndim else values


def _count(
    shape: Sequence[int], valid: npt.NDArray[np.bool_] | None, factors: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return how many elements of each window count."""
    count = np.zeros(_shape(shape, factors), np.int64)
    for source, windows in _places(shape, factors):
        count[windows] += 1 if valid is None else valid[source]
    return count


def _mean(
    data: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, factors: Sequence[int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return the mean. For integers it is exact, rounded to nearest, ties to even."""
    count = _count(data.shape, valid, factors)
    least = np.maximum(count, 1)
    if data.dtype.kind in "fc":
        wide = np.complex128 if data.dtype.kind == "c" else np.float64
        total = np.zeros(count.shape, wide)
        for source, windows in _places(data.shape, factors):
            part = data[source]
            total[windows] += part if valid is None else np.where(valid[source], part, 0)
        return (total / least).astype(data.dtype), count
    # Sum 64-bit integers as 32-bit halves, whose sums fit 64 bits.
    low = np.zeros(count.shape, np.int64)
    high = np.zeros(count.shape, np.int64) if data.dtype.itemsize == 8 else None
    for source, windows in _places(data.shape, factors):
        part = data[source]
        if valid is not None:
            part = np.where(valid[source], part, 0).astype(data.dtype)
        if high is None:
            low[windows] += part
        else:
            low[windows] += (part & np.array(0xFFFFFFFF, part.dtype)).astype(np.int64)
            high[windows] += (part >> np.array(32, part.dtype)).astype(np.int64)
    above: Any = 0
    if high is not None:
        above, rest = np.divmod(high, least)
        low += rest << 32
        above = above << 32
    whole, rest = np.divmod(low, least)
    whole += (2 * rest > least) | ((2 * rest == least) & (whole % 2 == 1))
    # The cast keeps the bits of unsigned numbers.
    return (whole + above).astype(data.dtype), count


def _min_or_max(
    data: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, factors: Sequence[int], choose: np.ufunc
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    shape = _shape(data.shape, factors)
    if valid is None:
        # Every window reaches its first position.
        result = data[tuple(slice(0, None, factor) for factor in factors)].copy()
        for source, windows in _places(data.shape, factors):
            choose(result[windows], data[source], out=result[windows])
        return result, None
    result = np.zeros(shape, data.dtype)
    known = np.zeros(shape, bool)
    for source, windows in _places(data.shape, factors):
        part, there = data[source], valid[source]
        better = there & (~known[windows] | (choose(result[windows], part) == part))
        np.copyto(result[windows], part, where=better)
        known[windows] |= there
    return result, known.astype(np.int64)


def _mode(
    data: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, factors: Sequence[int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the most frequent value, the smallest if there are several."""
    shape = _shape(data.shape, factors)
    result = np.zeros(shape, data.dtype)
    most = np.zeros(shape, np.int64)
    if 0 in shape:
        return result, most
    row = math.prod(shape[1:]) * math.prod(factors) * data.dtype.itemsize
    step = max(_MODE_BYTES // row, 1)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        inside = slice(start * factors[0], (start + step) * factors[0])
        result[rows], most[rows] = _mode_of(data[inside], None if valid is None else valid[inside], factors)
    return result, most


def _mode_of(
    data: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, factors: Sequence[int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    shape = _shape(data.shape, factors)
    size = math.prod(factors)
    values = np.zeros((size, *shape), data.dtype)
    there = np.zeros((size, *shape), bool)
    for n, (source, windows) in enumerate(_places(data.shape, factors)):
        values[n][windows] = data[source]
        there[n][windows] = True if valid is None else valid[source]
    result, most = np.zeros(shape, data.dtype), np.zeros(shape, np.int64)
    for n in range(size):
        same = ((values == values[n]) & there).sum(axis=0) * there[n]
        better = (same > most) | ((same == most) & (same > 0) & (values[n] < result))
        np.copyto(result, values[n], where=better)
        np.copyto(most, same, where=better)
    return result, most
