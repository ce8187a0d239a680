"""Element types with fields, as the engine takes them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.errors import DataTypeError, ZarrUserWarning

__all__ = ["pack_structure", "structure_text"]


def pack_structure(dtype: np.dtype[Any], check: Callable[[np.dtype[Any]], np.dtype[Any]]) -> np.dtype[Any]:
    """Return a structure type without gaps between fields. ``check`` must accept their types.

    Warns if there were gaps, as zarr-python does. Raises `DataTypeError` for titles, and for fields
    without a fixed size.
    """
    _check_fields(dtype, dtype, check)
    found = _without_gaps(dtype)
    if found != dtype:
        warnings.warn(
            f"dtype {dtype}: fields are stored without gaps. Their values are kept, their offsets change.",
            ZarrUserWarning,
            stacklevel=4,
        )
    return found


def _without_gaps(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Remove gaps, also from structures in array fields, unlike NumPy's ``repack_fields``."""
    if dtype.names is None:
        return dtype
    return np.dtype([(name, _without_gaps(dtype[name].base), dtype[name].shape) for name in dtype.names])


def _check_fields(
    dtype: np.dtype[Any], whole: np.dtype[Any], check: Callable[[np.dtype[Any]], np.dtype[Any]]
) -> None:
    known: Any = dtype.fields or {}
    for name in dtype.names or ():
        field, _, *title = known[name]
        if title:
            raise DataTypeError(
                f"dtype {whole}: field {name!r} has the title {title[0]!r}: Zarr cannot store titles"
            )
        base = field.base
        if base.kind in "OT":
            raise DataTypeError(
                f"dtype {whole}: expected fields of one size, found field {name!r} of type {base}"
            )
        if base.names is not None:
            _check_fields(base, whole, check)
        else:
            check(base)


def structure_text(dtype: np.dtype[Any], small: Callable[[np.dtype[Any]], str | None]) -> str | None:
    """Return the fields in the form of Zarr v2 metadata, as JSON text; ``None`` without fields.

    ``small`` returns Zarr's name of types that are not NumPy's own.
    """

    def fields(dtype: np.dtype[Any]) -> list[list[Any]]:
        found: list[list[Any]] = []
        for name in dtype.names or ():
            field = dtype[name]
            base = field.base
            kind = fields(base) if base.names is not None else small(base) or base.str
            found.append([name, kind, list(field.shape)] if field.shape else [name, kind])
        return found

    return None if dtype.names is None else json.dumps(fields(dtype))
