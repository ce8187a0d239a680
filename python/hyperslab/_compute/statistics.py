"""Statistics of arrays: what `hyperslab stats` shows, for programs."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.progress import shown
from hyperslab._base.tasks import run_tasks
from hyperslab._compute.map import parse_region
from hyperslab._core.array_common import AnyArray
from hyperslab._elements.optional import is_optional, value_dtype
from hyperslab.errors import ArgumentTypeError, DataTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._hdf5.array import FileArray

__all__ = ["Statistics", "statistics"]

Progress: TypeAlias = Callable[[Literal["read"], int, int], object]

# Tasks for an executor, at most; with more blocks, each does several.
_MOST_TASKS = 1000


@dataclass(frozen=True)
class Statistics:
    """What there is to know of the elements of an array; made by `hyperslab.statistics`."""

    count: int
    """Elements that are not missing."""
    missing: int
    """Elements that are missing."""
    min: Any
    """The smallest, of the array's data type, or a ``float64`` of packed numbers; ``None`` where all are
    missing."""
    max: Any
    """The largest."""
    sum: Any
    """The sum: an `int` of integers and bools, a `float` of floats, a ``timedelta64`` of time differences (or
    ``None`` where it is too large for that); ``None`` of dates."""
    mean: Any
    """The mean: a `float`; of dates and time differences one of these, rounded to their unit. ``None`` where
    all are missing."""
    std: Any
    """The standard deviation of all elements (NumPy's with ``ddof=0``): a `float`; of dates and time
    differences a ``timedelta64``. ``None`` where all are missing."""
    histogram: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    """Elements in each bin, where bins were asked for."""
    bin_edges: npt.NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """Where bins begin, and where the last ends. Dates and times count in their unit, from 1970."""


def statistics(
    array: Array | FileArray,
    *,
    region: Any = None,
    missing: Any = (),
    raw: bool = False,
    bins: int | Sequence[float] | npt.NDArray[Any] | None = None,
    range: tuple[float, float] | None = None,
    executor: Any = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Statistics:
    """Count, smallest, largest, sum, mean, standard deviation and histogram of an array.

    Attributes of CF are followed, as xarray does. Elements equal to ``_FillValue`` or ``missing_value`` are
    missing. Others are multiplied by ``scale_factor``, then ``add_offset`` is added. ``_Unsigned`` tells the
    sign of integers. The fill value of a Zarr v2 array that has dimension names counts as ``_FillValue``.

    Chunks are read once, by all threads, and looked at while they are in the processor's caches: it takes
    little longer than reading, and little memory.

    Parameters
    ----------
    array : Array
        Of bools, integers, floats, dates or time differences; also with elements that may be missing.
    region : slice or tuple of slices, optional
        Of which part, with slices of step 1. ``None``: of everything.
    missing : scalar, sequence of scalars, or "fill", default ()
        Stored values that count as missing, too. ``"fill"`` is the fill value, which unwritten elements have.
        Not-a-number and not-a-time are missing whatever is given. Elements of `hyperslab.optional_dtype` that
        are missing count as missing, too.
    raw : bool, default False
        Whether stored numbers are told, whatever the attributes say of them.
    bins : int or sequence of float, optional
        Bins of a histogram: how many equally wide ones, or their edges, as in `numpy.histogram`.
    range : (float, float), optional
        Where equally wide bins begin and end. Without, that is the smallest and the largest element, and the
        array is read twice.
    executor : executor, optional
        What reads the blocks, in place of threads of this process; as in `map_chunks`.
    threads : int, optional
        Default: ``config.threads``.
    progress : callable, or True, optional
        Called as ``progress("read", bytes_done, bytes_in_all)``. ``True``: a bar on standard error.

    Returns
    -------
    Statistics

    Raises
    ------
    DataTypeError
        Of other elements: complex numbers have no order, text has no mean.
    InvalidArgumentError
        Where ``scale_factor`` or ``add_offset`` is no number; with ``raw`` they are not looked at.

    Notes
    -----
    Counts, smallest and largest, and sums of integers are exact. Of floats, pieces of 16384 elements are
    added with 64 bits, and pieces with about 106 bits; deviations are those from the mean of their piece,
    joined as Chan, Golub and LeVeque do. Pieces follow from the array's chunks: the result is the same with
    any number of threads and with an executor.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> z = hs.array([[1, 2, 3], [4, -999, np.nan]], dtype="f4")
    >>> hs.statistics(z, missing=-999).mean
    2.5
    >>> found = hs.statistics(z, missing=-999, bins=3)
    >>> found.count, found.missing, found.min, found.max, found.histogram
    (4, 2, np.float32(1.0), np.float32(4.0), array([1, 1, 2]))
    >>> packed = hs.array([-99, 2, 4], dtype="i2", attributes={"_FillValue": -99, "scale_factor": 0.5})
    >>> hs.statistics(packed).min, hs.statistics(packed, raw=True).min
    (np.float64(1.0), np.int16(-99))
    """
    if not isinstance(array, AnyArray):
        raise ArgumentTypeError(f"array: expected an array of hyperslab, found {type(array).__name__}")
    dtype = value_dtype(array.dtype) if is_optional(array.dtype) else array.dtype
    if dtype.kind not in "biufmM" or array._is_vlen:
        raise DataTypeError(
            f"array '{array.name}' has elements of type {array.dtype}: statistics are of bools, integers, "
            "floats, dates and time differences"
        )
    types = _native.statistics_types(array._handle, raw)
    scaled = False
    if types is not None:
        dtype, scaled = np.dtype(types[0]), types[1]
    given = parse_region(region, array.shape)
    place = [(int(axis.start), int(axis.stop)) for axis in given]
    work = _Work(array, place, _missing(missing, dtype, array), raw, None)
    if scaled:
        dtype = np.dtype("f8")
    edges = _edges(bins, range)
    if isinstance(edges, int):
        with shown(progress) as told:
            found = _run(work, executor, threads, told)
        ends = _ends(found, dtype)
        edges = [float(edge) for edge in np.linspace(*ends, edges + 1)]
    if edges is not None:
        work = _Work(array, place, work.missing, raw, edges)
    with shown(progress) as told:
        found = _run(work, executor, threads, told)
    return _result(found, dtype, edges)


@dataclass(frozen=True)
class _Work:
    """What is done with blocks."""

    array: Any
    region: list[tuple[int, int]]
    missing: list[bytes]
    raw: bool
    edges: list[float] | None

    def __call__(self, blocks: tuple[int, int]) -> dict[str, Any]:
        return self.run(blocks)

    def run(
        self, blocks: tuple[int, int] | None, threads: int | None = None, told: Any = None
    ) -> dict[str, Any]:
        return _native.statistics_part(
            self.array._handle, self.region, self.missing, self.raw, self.edges, blocks, threads, told
        )


def _run(work: _Work, executor: Any, threads: int | None, progress: Progress | None) -> dict[str, Any]:
    """What is known of all elements."""
    total = (
        int(np.prod([stop - start for start, stop in work.region], dtype=object)) * work.array.dtype.itemsize
    )
    done = 0

    def advance(bytes_: int) -> None:
        nonlocal done
        done += bytes_
        if progress is not None:
            progress("read", done, total)

    if executor is None:
        return work.run(None, threads, None if progress is None else advance)
    count = _native.statistics_blocks(work.array._handle, work.region)
    step = max(-(-count // _MOST_TASKS), 1)
    items = [(at, min(at + step, count)) for at in builtins.range(0, count, step)]
    parts = []
    for index, part in run_tasks(work, items, executor, name="hyperslab-statistics"):
        parts.append((index, part))
        # Blocks are about equally large.
        advance(
            total * (items[index][1] - items[index][0]) // count if len(parts) < len(items) else total - done
        )
    return _native.statistics_joined([part for _, part in sorted(parts, key=lambda each: each[0])])


def _missing(given: Any, dtype: np.dtype[Any], array: AnyArray) -> list[bytes]:
    """The bytes of values that count as missing. What no element can be is left out."""
    if isinstance(given, str):
        if given != "fill":
            raise InvalidArgumentError(f"missing: expected values or 'fill', found {given!r}")
        fill = array._fill
        # Missing elements have a byte of their own for that.
        if fill is None or is_optional(array.dtype):
            return []
        values: Iterable[Any] = [np.frombuffer(fill, array.dtype)[0]]
    else:
        values = given if isinstance(given, Iterable) else [given]
    native = dtype.newbyteorder("=")
    found = []
    for value in values:
        try:
            with np.errstate(all="ignore"):
                element = np.asarray(value).astype(native)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"missing: {value!r} is not of type {dtype}: {error}") from None
        if element.ndim:
            raise InvalidArgumentError(f"missing: expected scalars, found {value!r}")
        # Of floats, the nearest there is.
        if dtype.kind == "f" or element == value or bool(element != element):
            found.append(element.tobytes())
    return found


def _edges(bins: Any, between: Any) -> list[float] | int | None:
    """Edges of bins; how many, where the elements say where they are."""
    if bins is None:
        if between is not None:
            raise InvalidArgumentError("range: there are no bins")
        return None
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        if bins < 1:
            raise InvalidArgumentError(f"bins: expected one or more, found {bins}")
        if between is None:
            return int(bins)
        low, high = (float(edge) for edge in between)
        if not low < high or not np.isfinite([low, high]).all():
            raise InvalidArgumentError(f"range: expected two finite numbers that ascend, found {between!r}")
        return [float(edge) for edge in np.linspace(low, high, int(bins) + 1)]
    if between is not None:
        raise InvalidArgumentError("range: the bins have edges of their own")
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.dtype.kind not in "biufmM":
        raise InvalidArgumentError(f"bins: expected a number of bins, or their edges, found {bins!r}")
    return [float(edge) for edge in edges.astype("i8" if edges.dtype.kind in "mM" else "f8")]


def _ends(found: dict[str, Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Where equally wide bins begin and end, as in NumPy."""
    if not found["count"]:
        return 0.0, 1.0
    low, high = (found["min"], found["max"]) if dtype.kind == "f" else (found["min_int"], found["max_int"])
    if not np.isfinite([float(low), float(high)]).all():
        raise InvalidArgumentError(
            f"range: elements reach from {low} to {high}: say where bins begin and end"
        )
    return (float(low), float(high)) if float(low) < float(high) else (low - 0.5, high + 0.5)


def _result(found: dict[str, Any], dtype: np.dtype[Any], edges: list[float] | None) -> Statistics:
    native = dtype.newbyteorder("=")
    count, kind = found["count"], dtype.kind
    scalar = functools.partial(_scalar, dtype=native)
    step = None if kind not in "mM" else np.dtype(native.str.replace("M8", "m8"))
    if kind == "f":
        low, high, total = scalar(found["min"] + 0.0), scalar(found["max"] + 0.0), sum(found["sum"])
    else:
        low, high, total = scalar(found["min_int"]), scalar(found["max_int"]), found["sum_int"]
    if not count:
        low = high = None
    mean, std = found["mean"], found["std"]
    if step is not None:
        exact = found["sum_int"]
        total = _scalar(exact, native) if kind == "m" and abs(exact) < 2**63 else None
        if count:
            mean, std = _scalar(round(Fraction(exact, count)), native), _scalar(round(std), step)
    return Statistics(
        count,
        found["missing"],
        low,
        high,
        total,
        mean,
        std,
        None if edges is None else np.array(found["bins"], np.int64),
        None if edges is None else np.array(edges),
    )


def _scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "mM":
        # Of no elements the ends are no times.
        return np.array(value, "i8").view(dtype)[()] if -(2**63) <= value < 2**63 else None
    if dtype.kind == "f":
        return dtype.type(value)
    return dtype.type(value) if -(2**63) <= value < 2**64 else None
