"""Assertions for tests of programs that make arrays.

`assert_equal` compares arrays and whole hierarchies of any formats, and its message says what
differs, how much and where. It works in pytest, unittest, and alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab._compute.diff import Comparable, compare
from hyperslab._core.array_common import AnyArray
from hyperslab._core.group_common import AnyGroup

__all__ = ["assert_equal"]

# Without metadata, only these must be equal.
_OF_VALUES = ("member", "kind", "shape")


def assert_equal(
    actual: Comparable,
    desired: Comparable,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ulp: int = 0,
    equal_nan: bool = True,
    raw: bool = False,
    layout: bool = False,
    metadata: bool | None = None,
    first: int = 5,
    err_msg: str = "",
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Raise an `AssertionError` if two arrays, groups or files differ.

    Parameters
    ----------
    actual, desired : Array, Group, store, or NumPy array
        What to compare: also paths and URLs. The formats may differ.
    rtol, atol, ulp, equal_nan, raw, layout
        As in `hyperslab.diff`.
    metadata : bool, optional
        Whether attributes, data types, names of dimensions and fill values must be equal, too.
        Default: yes, unless one of the two is a NumPy array or a number.
    first : int, default 5
        How many differing elements the message lists for each array.
    err_msg : str, optional
        The beginning of the message.
    storage_options : mapping, optional
        Options for the stores of URLs.

    Raises
    ------
    AssertionError
        Something differs, or could not be compared.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> from hyperslab.testing import assert_equal
    >>> z = hs.array(np.arange(4.0), chunks=2)
    >>> assert_equal(z, np.arange(4.0))
    >>> assert_equal(z, [0, 1, 2.5, 3])
    Traceback (most recent call last):
    AssertionError: actual and desired differ
    /: 1 of 4 elements differs (25.00 %)
      largest difference  0.5 at (2,): 2.0 | 2.5
      largest relative    0.2 at (2,): 2.0 | 2.5
      RMS                 0.5
    """
    __tracebackhide__ = True  # pytest shows the caller.
    if metadata is None:
        metadata = all(_has_metadata(side) for side in (actual, desired))
    given = {
        "rtol": float(rtol), "atol": float(atol), "ulp": ulp, "equal_nan": equal_nan, "raw": raw,
        "layout": layout, "values": True, "brief": False, "first": first, "threads": None, "png": False,
    }  # fmt: skip
    found = compare(actual, desired, given, None, storage_options, ("actual", "desired"))
    lines = list(found.lines)
    if not metadata:
        others = [each for each in found.metadata if each.what not in _OF_VALUES]
        if len(others) == len(found.metadata) and not found.arrays and not found.failures:
            return
        ignored = {_start(each.path, each.what, each.name) for each in others}
        lines = [line for line in lines if not any(line.startswith(start) for start in ignored)]
    elif not found:
        return
    raise AssertionError("\n".join([err_msg or "actual and desired differ", *lines]))


def _has_metadata(side: Any) -> bool:
    if isinstance(side, (AnyArray, AnyGroup)):
        return True
    # Paths and stores.
    return not hasattr(side, "__array__") and not isinstance(side, (list, tuple, bool, int, float, complex))


def _start(path: str, what: str, name: str | None) -> str:
    """Return how the line of a difference of metadata starts."""
    words = {"attribute": f"attribute {name}", "dtype": "data type", "fill_value": "fill value"}
    return f"{path or '/'}: {words.get(what, name or what)}: "
