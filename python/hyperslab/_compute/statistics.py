"""Statistics of arrays, as shown by `hyperslab stats`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.progress import show_progress
from hyperslab._base.tasks import run_tasks
from hyperslab._compute.map import parse_region
from hyperslab._core.array_common import AnyArray
from hyperslab._elements.optional import is_optional, value_dtype
from hyperslab._index.cf import as_times
from hyperslab.errors import ArgumentTypeError, DataTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._hdf5.array import FileArray

__all__ = ["Statistics", "statistics"]

Progress: TypeAlias = Callable[[Literal["read"], int, int], object]

# Maximum number of tasks for an executor. With more blocks, each task does several.
_MOST_TASKS = 1000


@dataclass(frozen=True)
class Statistics:
    """Statistics of the elements of an array; made by `hyperslab.statistics`."""

    count: int
    """Number of elements that are not missing."""
    missing: int
    """Number of missing elements."""
    min: Any
    """The smallest element; ``None`` if all are missing.

    It has the array's data type, or is a ``float64`` for packed numbers. For numbers that stand for
    dates or time differences, it is one of these, as in `hyperslab.Array.cf`.
    """
    max: Any
    """The largest element; see `min`."""
    sum: Any
    """The sum; ``None`` for dates.

    An `int` for integers and bools, a `float` for floats. A ``timedelta64`` for time differences,
    or ``None`` if it is too large for that.
    """
    mean: Any
    """The mean; ``None`` if all elements are missing.

    A `float`. For dates and time differences one of these, rounded to their unit.
    """
    std: Any
    """The standard deviation of all elements; ``None`` if all are missing.

    NumPy's with ``ddof=0``. A `float`. For dates and time differences a ``timedelta64``.
    """
    histogram: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    """Number of elements in each bin, if bins were requested."""
    bin_edges: npt.NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """Start of each bin and end of the last.

    Dates and times count in their unit, from 1970. Numbers that stand for dates stay numbers.
    """


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
    """Compute count, minimum, maximum, sum, mean, standard deviation and histogram of an array.

    CF attributes are applied as in xarray. Elements equal to ``_FillValue`` or ``missing_value``
    are missing. Others are multiplied by ``scale_factor``, then ``add_offset`` is added.
    ``_Unsigned`` sets the sign of integers. The fill value of a Zarr v2 array with dimension names
    counts as ``_FillValue``. Numbers of units like ``"days since 1970-01-01"`` are dates.

    Each chunk is read once and processed while it is in the CPU caches, by all threads. This takes
    little longer than reading, and little memory.

    Parameters
    ----------
    array : Array
        Bools, integers, floats, dates or time differences. Elements may be missing.
    region : slice or tuple of slices, optional
        The part to use, as slices of step 1. ``None``: everything.
    missing : scalar, sequence of scalars, or "fill", default ()
        More stored values that count as missing. ``"fill"`` is the fill value, which unwritten
        elements have. Not-a-number, not-a-time, and missing elements of `hyperslab.optional_dtype`
        always count as missing.
    raw : bool, default False
        Whether to use stored numbers as they are, ignoring the attributes.
    bins : int or sequence of float, optional
        Bins of a histogram: the number of equally wide bins, or their edges, as in
        `numpy.histogram`.
    range : (float, float), optional
        Start and end of equally wide bins. Default: the smallest and the largest element, for which
        the array is read twice.
    executor : executor, optional
        Reads the blocks instead of threads of this process; as in `map_chunks`.
    threads : int, optional
        Default: ``config.threads``.
    progress : callable, or True, optional
        Called as ``progress("read", bytes_done, bytes_in_all)``. ``True`` shows a bar on standard
        error.

    Returns
    -------
    Statistics

    Raises
    ------
    DataTypeError
        For other element types: complex numbers have no order, text has no mean.
    InvalidArgumentError
        If ``scale_factor`` or ``add_offset`` is not a number. (They are ignored with ``raw``.)

    Notes
    -----
    Counts, minimum, maximum, and sums of integers are exact. Floats are added in pieces of 16384
    elements: within a piece in 64 bits, pieces together in about 106 bits. Deviations are taken
    from the mean of their piece, and combined as by Chan, Golub and LeVeque. Pieces follow from the
    array's chunks, so the result is the same with any number of threads and with an executor.

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
    work = _Work(array, place, _missing_bytes(missing, dtype, array), raw, None)
    if scaled:
        dtype = np.dtype("f8")
    edges = _edges(bins, range)
    if isinstance(edges, int):
        with show_progress(progress) as progress_bar:
            found = _run(work, executor, threads, progress_bar)
        ends = _ends(found, dtype)
        edges = [float(edge) for edge in np.linspace(*ends, edges + 1)]
    if edges is not None:
        work = _Work(array, place, work.missing, raw, edges)
    with show_progress(progress) as progress_bar:
        found = _run(work, executor, threads, progress_bar)
    result = _result(found, dtype, edges)
    return result if raw else _as_times(result, found, array, dtype)


@dataclass(frozen=True)
class _Work:
    """The work on blocks."""

    array: Any
    region: list[tuple[int, int]]
    missing: list[bytes]
    raw: bool
    edges: list[float] | None

    def __call__(self, blocks: tuple[int, int]) -> dict[str, Any]:
        return self.run(blocks)

    def run(
        self, blocks: tuple[int, int] | None, threads: int | None = None, progress_bar: Any = None
    ) -> dict[str, Any]:
        return _native.statistics_part(
            self.array._handle, self.region, self.missing, self.raw, self.edges, blocks, threads, progress_bar
        )


def _run(work: _Work, executor: Any, threads: int | None, progress: Progress | None) -> dict[str, Any]:
    """Return the facts about all elements."""
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
        # Blocks have about the same size.
        advance(
            total * (items[index][1] - items[index][0]) // count if len(parts) < len(items) else total - done
        )
    return _native.statistics_joined([part for _, part in sorted(parts, key=lambda each: each[0])])


def _missing_bytes(given: Any, dtype: np.dtype[Any], array: AnyArray) -> list[bytes]:
    """Return the bytes of values that count as missing. Leaves out values the type cannot hold."""
    if isinstance(given, str):
        if given != "fill":
            raise InvalidArgumentError(f"missing: expected values or 'fill', found {given!r}")
        fill = array._fill
        # Missing elements are marked by a byte of their own, so their fill value does not count.
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
        # For floats, use the nearest value.
        if dtype.kind == "f" or element == value or bool(element != element):
            found.append(element.tobytes())
    return found


def _edges(bins: Any, between: Any) -> list[float] | int | None:
    """Return the edges of bins, or the number of bins if the elements determine the edges."""
    if bins is None:
        if between is not None:
            raise InvalidArgumentError("range: expected bins for the range, found bins=None")
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
        raise InvalidArgumentError("range: expected no range, since bins gives the edges")
    edges = np.asarray(bins)
    if edges.ndim != 1 or edges.dtype.kind not in "biufmM":
        raise InvalidArgumentError(f"bins: expected a number of bins, or their edges, found {bins!r}")
    return [float(edge) for edge in edges.astype("i8" if edges.dtype.kind in "mM" else "f8")]


def _ends(found: dict[str, Any], dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the start and end of equally wide bins, as in NumPy."""
    if not found["count"]:
        return 0.0, 1.0
    low, high = (found["min"], found["max"]) if dtype.kind == "f" else (found["min_int"], found["max_int"])
    if not np.isfinite([float(low), float(high)]).all():
        raise InvalidArgumentError(
            f"range: expected finite elements, found elements from {low} to {high}: pass range or the edges"
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


def _as_times(result: Statistics, found: dict[str, Any], array: AnyArray, dtype: np.dtype[Any]) -> Statistics:
    """Return the statistics of numbers that stand for times as statistics of times."""
    try:
        how = _native.Decoding(array)
    except InvalidArgumentError:
        # The units mean nothing. The statistics of the numbers are still right.
        return result
    if how.unit is None:
        return result
    if not result.count:
        return replace(result, sum=None)
    if dtype.kind == "f":
        mean: Any = float(found["mean"])
        numbers = [float(found["min"]), float(found["max"]), mean]
        total: Any = result.sum
    else:
        exact = Fraction(found["sum_int"], result.count)
        # Floats do not hold large numbers exactly, but fractions.
        mean = round(exact) if abs(exact) > 2**53 else float(exact)
        numbers = [found["min_int"], found["max_int"], mean]
        total = found["sum_int"]
    is_date = how.kind == "dates"
    low, high, middle = as_times(array, how, numbers)
    std = float(found["std"]) * how.unit
    return replace(
        result,
        min=low,
        max=high,
        mean=middle,
        sum=None if is_date else as_times(array, how, [total])[0],
        std=np.timedelta64(round(std), "ns") if std < 2**63 else np.timedelta64(round(std / 1000), "us"),
    )


def _scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "mM":
        # Without elements, minimum and maximum are not valid times.
        return np.array(value, "i8").view(dtype)[()] if -(2**63) <= value < 2**63 else None
    if dtype.kind == "f":
        return dtype.type(value)
    return dtype.type(value) if -(2**63) <= value < 2**64 else None
