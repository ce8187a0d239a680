"""Conversion between data types as in HDF5."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import is_text
from hyperslab._hdf5.dtypes import check_string_dtype
from hyperslab.errors import ConversionError

__all__ = ["converted"]

_Array = npt.NDArray[Any]

# Pairs of kinds that NumPy converts without loss and HDF5 does not convert or does not know.
_BY_NUMPY = frozenset(
    ["SU", "SO", "iO", "uO", "fO", "bO", "cO", "VO", "ic", "uc", "fc", "bc", "OO", "mm", "MM"]
)


def converted(values: Any, wanted: np.dtype[Any], source: np.dtype[Any] | None = None) -> _Array:
    """Return values converted to ``wanted``.

    ``source``: their data type, if it has more metadata than the array's.

    * Numbers that do not fit become the nearest number that fits; fractions are cut off.
    * Members of structures are matched by name; missing members are zero.
    * Texts of fixed length are cut, or padded with NULs.

    Raises `ConversionError` if neither HDF5 nor a lossless conversion by NumPy applies.
    """
    values = np.asarray(values)
    given: np.dtype[Any] = values.dtype if source is None else source
    if wanted.subdtype is not None:
        # Elements that are arrays convert only to arrays of the same shape.
        base, inner = wanted.subdtype
        if given.subdtype is None or given.subdtype[1] != inner:
            raise _refused(given, wanted)
        wanted = base
    base = values.dtype
    if base == wanted:
        # Equal data types may have different metadata.
        same: np.ndarray[Any, Any] = values.astype(wanted) if wanted.hasobject else values.view(wanted)
        return same
    if wanted.names is not None:
        return _members(values, wanted)
    if base.kind in "biufcS" and wanted.kind in "biufcS":
        made = _elements(values, wanted)
        if made is not None:
            return made
    pair = base.kind + wanted.kind
    made_by_numpy: np.ndarray[Any, Any]
    if pair == "TS" or (pair == "OS" and is_text(given)):
        # NumPy encodes only ASCII.
        text = check_string_dtype(wanted)
        encoding = "ascii" if text is None else text.encoding
        texts = [one.encode(encoding) if isinstance(one, str) else one for one in values.flat]
        return np.array(texts, wanted).reshape(values.shape)
    if pair in ("OU", "OT") and is_text(given):
        made_by_numpy = values.astype(wanted)
        return made_by_numpy
    if pair not in _BY_NUMPY:
        raise _refused(given, wanted)
    made_by_numpy = values.astype(wanted, casting="same_kind" if pair in ("mm", "MM") else "unsafe")
    return made_by_numpy


def _refused(source: np.dtype[Any], wanted: np.dtype[Any]) -> ConversionError:
    return ConversionError(f"there is no conversion from elements of type {source} to {wanted}")


def _elements(values: _Array, wanted: np.dtype[Any]) -> _Array | None:
    """Convert numbers and fixed-length text by the engine. ``None`` if the engine cannot."""
    if values.dtype.kind == wanted.kind == "f" and 16 in (values.itemsize, wanted.itemsize):
        with np.errstate(over="ignore"):
            return values.astype(wanted)
    if values.dtype.kind == "f" and values.itemsize > 8:
        values = values.astype("f8")
    if wanted.kind == "f" and wanted.itemsize > 8:
        return values.astype(wanted)
    made = np.empty(values.shape, wanted)
    if not made.size or not made.itemsize or not values.itemsize:
        made[...] = np.zeros((), wanted)
        return made
    flat = np.ascontiguousarray(values).reshape(-1)
    done = _native.convert_elements(
        flat.view(np.uint8), flat.dtype.str, made.reshape(-1).view(np.uint8), made.dtype.str
    )
    return made if done else None


def _members(values: _Array, wanted: np.dtype[Any]) -> _Array:
    """Convert structures. (A complex number is a structure of ``r`` and ``i``.)"""
    if values.dtype.kind == "c":
        parts = {"r": np.real(values), "i": np.imag(values)}
    elif values.dtype.names is not None:
        parts = {name: values[name] for name in values.dtype.names}
    else:
        raise _refused(values.dtype, wanted)
    made = np.zeros(values.shape, wanted)
    for name in wanted.names or ():
        if name in parts:
            source = None if values.dtype.names is None else values.dtype[name]
            made[name] = converted(parts[name], wanted[name], source)
    return made
