"""Extents, and selections of elements."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab._hdf5.ids import SpaceID
from hyperslab.errors import InvalidArgumentError

__all__ = ["ALL", "NULL", "SCALAR", "SIMPLE", "UNLIMITED", "SpaceID", "create", "create_simple"]

UNLIMITED = 2**64 - 1
SCALAR, SIMPLE, NULL = range(3)
SELECT_SET, SELECT_OR = range(2)
SEL_NONE, SEL_POINTS, SEL_HYPERSLABS, SEL_ALL = range(4)
ALL = 0
"""All elements of a dataset."""


def create(class_code: int) -> SpaceID:
    """Return an extent of one element without axes (``SCALAR``), or of no elements (``NULL``)."""
    if class_code not in (SCALAR, NULL):
        raise InvalidArgumentError("create: use create_simple for extents with axes")
    return SpaceID(() if class_code == SCALAR else None)


def create_simple(dims_tpl: Sequence[int], max_dims_tpl: Sequence[int | None] | None = None) -> SpaceID:
    """Return an extent with axes."""
    most = None
    if max_dims_tpl is not None:
        most = tuple(None if n is None or n >= UNLIMITED else int(n) for n in max_dims_tpl)
    return SpaceID(tuple(int(n) for n in dims_tpl), most)
