"""Differences between two arrays, groups or files, as shown by `hyperslab diff`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.progress import show_progress
from hyperslab._core.array_common import AnyArray
from hyperslab._core.group_common import AnyGroup
from hyperslab._create.convenience import array as array_of
from hyperslab._create.open import open
from hyperslab._index.view import View

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._core.group import Group
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup
    from hyperslab._stores.store import StoreLike

__all__ = [
    "ArrayDifference",
    "Comparable",
    "Difference",
    "ElementDifference",
    "MetadataDifference",
    "compare",
    "diff",
]

Comparable: TypeAlias = "Array | FileArray | Group | FileGroup | StoreLike | npt.NDArray[Any]"
Progress: TypeAlias = Callable[[Literal["compare"], int, int], object]
Aspect: TypeAlias = Literal[
    "member", "kind", "attribute", "dtype", "shape", "dimensions", "fill_value", "layout"
]


@dataclass(frozen=True)
class ElementDifference:
    """An element that differs."""

    index: tuple[int, ...]
    """The index."""
    coordinates: Mapping[str, Any]
    """Coordinates by dimension, for dimensions that have them. Dates are text."""
    a: Any
    """The element of the first array: a number, text, or ``None`` if it is missing. Dates are text."""
    b: Any
    """The element of the second array."""


@dataclass(frozen=True)
class MetadataDifference:
    """A difference of members or metadata."""

    path: str
    """The path below the compared nodes; ``""``: the nodes themselves."""
    what: Aspect
    """What differs."""
    name: str | None = None
    """The name of the attribute, or of the part of the layout."""
    a: Any = None
    """The value of the first. ``None``: nothing, or null."""
    b: Any = None
    """The value of the second."""


@dataclass(frozen=True)
class ArrayDifference:
    """The differing elements of an array."""

    path: str
    """The path below the compared nodes; ``""``: the nodes themselves."""
    compared: int
    """Number of compared elements: the common part, if shapes differ."""
    different: int
    """Number of elements that differ."""
    missing: tuple[int, int]
    """Different elements that are missing in the first array only, and in the second only."""
    largest_absolute: float | None
    """The largest absolute difference, for times in `unit`. ``None``: elements are no numbers."""
    largest_absolute_at: ElementDifference | None
    """The element with it."""
    largest_relative: float | None
    """The largest difference divided by the size of the number in the second array."""
    largest_relative_at: ElementDifference | None
    """The element with it."""
    rms: float | None
    """The root of the mean squared difference of the elements that differ."""
    unit: str | None
    """The unit of differences, if numbers are times."""
    first: tuple[ElementDifference, ...]
    """The first elements that differ, in C order."""


@dataclass(frozen=True)
class Difference:
    """The differences between two arrays or groups; made by `hyperslab.diff`.

    A difference is true if something differs. Its text is the output of ``hyperslab diff``.
    """

    metadata: tuple[MetadataDifference, ...]
    """Differences of members and metadata, in the order of paths."""
    arrays: tuple[ArrayDifference, ...]
    """Arrays with differing elements, in the order of paths."""
    failures: tuple[tuple[str, str], ...]
    """Path and reason of what could not be compared."""
    compared: int
    """Number of arrays whose elements were compared, at least in part."""
    chunks_skipped: int
    """Number of chunks that were not decoded, because both arrays store the same bytes."""
    chunks_decoded: int
    """Number of chunks that were decoded, counted in the first array."""
    stopped: bool
    """True if the comparison stopped at the first difference."""
    lines: tuple[str, ...] = field(repr=False, compare=False)
    """The report for people, line by line."""
    png: bytes | None = field(default=None, repr=False, compare=False)
    """A picture of the first slice that differs, if asked for and if numbers differ."""

    def __bool__(self) -> bool:
        return bool(self.metadata or self.arrays or self.failures)

    def __str__(self) -> str:
        return "\n".join(self.lines) if self else "no differences"

    def _repr_png_(self) -> bytes | None:
        return self.png


def diff(
    a: Comparable,
    b: Comparable,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = 0,
    equal_nan: bool = True,
    raw: bool = False,
    layout: bool = False,
    values: bool = True,
    brief: bool = False,
    first: int = 5,
    png: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Difference:
    """Find what differs between two arrays, groups or files, of any formats.

    Members, attributes (in any order), data types, shapes, names of dimensions and fill values are
    compared, then all elements. CF attributes are applied as in xarray: ``_FillValue`` and
    ``missing_value`` mark missing elements, and packed numbers and times are compared as the
    numbers and dates that they stand for. If shapes differ, the common part is compared.

    Each chunk of both is read once, by all threads, with little memory. Chunks whose stored bytes
    are equal under equal codecs are not decoded.

    Parameters
    ----------
    a, b : Array, Group, store, or NumPy array
        What to compare: also paths, URLs and stores.
    rtol, atol : float, default 0
        Numbers are equal if ``|a - b| <= atol + rtol * |b|``, as in NumPy. For times, ``atol`` is
        in the unit of `a`.
    ulp : int, default 0
        Numbers are also equal if they are at most this number of units in the last place apart.
    equal_nan : bool, default True
        Whether not-a-number equals itself, and a missing element.
    raw : bool, default False
        Whether to compare stored numbers, ignoring the attributes.
    layout : bool, default False
        Whether to compare also how elements are stored: format, chunks, shards, codecs.
    values : bool, default True
        Whether to compare elements.
    brief : bool, default False
        Whether to stop at the first difference.
    first : int, default 5
        How many differing elements to list for each array.
    png : bool, default False
        Whether to make a picture of the first slice that differs: both arrays and their difference.
    threads : int, optional
        Default: ``config.threads``.
    progress : callable, or True, optional
        Called as ``progress("compare", bytes_done, bytes_in_all)``. ``True`` shows a bar on standard
        error.
    storage_options : mapping, optional
        Options for the stores of URLs. A local side is opened without them.

    Returns
    -------
    Difference
        Its truth value says whether something differs.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> a = hs.array(np.arange(6.0).reshape(2, 3))
    >>> b = hs.array(np.arange(6.0).reshape(2, 3))
    >>> bool(hs.diff(a, b))
    False
    >>> b[1, 0] = 3.5
    >>> found = hs.diff(a, b)
    >>> found.arrays[0].different, found.arrays[0].first[0].index
    (1, (1, 0))
    >>> print(found)
    /: 1 of 6 elements differs (16.67 %)
      largest difference  0.5 at (1, 0): 3.0 | 3.5
      largest relative    0.142857 at (1, 0): 3.0 | 3.5
      RMS                 0.5
    """
    given = {
        "rtol": float(rtol), "atol": float(atol), "ulp": ulp, "equal_nan": equal_nan, "raw": raw,
        "layout": layout, "values": values, "brief": brief, "first": first, "threads": threads, "png": png,
    }  # fmt: skip
    return compare(a, b, given, progress, storage_options, ("a", "b"))


def compare(
    a: Comparable,
    b: Comparable,
    given: dict[str, Any],
    progress: Progress | bool | None,
    storage_options: Mapping[str, Any] | None,
    names: tuple[str, str],
) -> Difference:
    """Compare two nodes. `names`: what the report calls them, unless they are paths."""
    sides = (a, b)
    takes = [isinstance(side, str) and _native.takes_storage_options(side) for side in sides]
    # The options are for one side at least. If neither takes them, both refuse them.
    one, other = (
        _node(side, storage_options if far or not any(takes) else None)
        for side, far in zip(sides, takes, strict=True)
    )
    named = tuple(_name(side, name) for side, name in zip((a, b), names, strict=True))
    with show_progress(progress) as callback:
        text, lines, png = _native.diff(one._handle, other._handle, {**given, "names": named}, callback)
    return _report(json.loads(text), lines, png)


def _node(side: Any, storage_options: Mapping[str, Any] | None) -> Any:
    if isinstance(side, (AnyArray, AnyGroup)):
        return side
    if isinstance(side, View):
        return array_of(np.asarray(side))
    if isinstance(side, (np.ndarray, np.generic, list, tuple, bool, int, float, complex)):
        return array_of(np.asarray(side))
    return open(side, mode="r", storage_options=storage_options)


def _name(side: Any, name: str) -> str:
    return os.fspath(side) if isinstance(side, (str, os.PathLike)) else name


def _element(found: dict[str, Any]) -> ElementDifference:
    return ElementDifference(tuple(found["index"]), found["coordinates"], found["a"], found["b"])


def _array(found: dict[str, Any]) -> ArrayDifference:
    absolute, relative = found["largest_absolute"], found["largest_relative"]
    return ArrayDifference(
        path=found["path"],
        compared=found["compared"],
        different=found["different"],
        missing=tuple(found["missing"]),
        largest_absolute=absolute and absolute["value"],
        largest_absolute_at=absolute and _element(absolute["at"]),
        largest_relative=relative and relative["value"],
        largest_relative_at=relative and _element(relative["at"]),
        rms=found["rms"],
        unit=found["unit"],
        first=tuple(_element(each) for each in found["first"]),
    )


def _report(found: dict[str, Any], lines: list[str], png: bytes | None) -> Difference:
    return Difference(
        metadata=tuple(MetadataDifference(**each) for each in found["findings"]),
        arrays=tuple(_array(each) for each in found["arrays"]),
        failures=tuple((each["path"], each["error"]) for each in found["failures"]),
        compared=found["compared"],
        chunks_skipped=found["chunks_skipped"],
        chunks_decoded=found["chunks_decoded"],
        stopped=found["stopped"],
        lines=tuple(lines),
        png=png,
    )
