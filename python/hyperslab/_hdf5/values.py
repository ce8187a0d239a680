"""Values that NumPy has only as Python objects: variable-length text and sequences, references.

The engine reads them as raw bytes: heap ids and addresses. `values` takes the type apart once and
resolves each member of all elements in one call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import Empty, is_text
from hyperslab._elements.ragged import Ragged

__all__ = ["attribute_array", "attribute_value", "decoded", "ragged", "values"]

_Array = npt.NDArray[Any]
# Start offsets of the elements at each level.
_Outer = tuple[npt.NDArray[np.int64], ...]


def values(element: _native.ElementHandle, raw: _Array, encoding: tuple[str, str] | None = None) -> Any:
    """Return the values of raw elements, as an array of the same shape.

    ``encoding``: encoding and error handling to decode text of variable length.
    """
    shape = raw.shape
    flat = np.ascontiguousarray(raw).reshape(-1)
    count = flat.size
    memory = flat.view(np.uint8) if count and element.size else np.empty(0, np.uint8)
    made = _column(element, memory, 0, element.size, count, encoding)
    # An element may itself be a small array.
    return made.reshape(shape + made.shape[1:])


def _column(
    element: _native.ElementHandle,
    memory: _Array,
    offset: int,
    stride: int,
    count: int,
    encoding: tuple[str, str] | None,
    outer: _Outer = (),
) -> _Array:
    """Return elements at ``offset``, ``offset + stride``, and so on.

    ``outer``: if the elements are items of sequences, the start offsets of these, level by level.
    """
    dtype = element.dtype
    if count == 0:
        return np.empty(0, dtype)
    if not element.is_made_of_objects:
        kind = np.dtype((np.void, dtype.itemsize)) if dtype.subdtype or dtype.names else dtype
        found: _Array = np.ndarray((count,), kind, memory, offset, (stride,))
        # Copy, so that the result does not keep all raw bytes alive.
        return np.ascontiguousarray(found).view(dtype) if kind is not dtype else found.copy()
    fields = element.fields()
    if fields:
        made = np.empty(count, dtype)
        for name, at, field in fields:
            made[name] = _column(field, memory, offset + at, stride, count, encoding, outer)
        return made
    base = element.base()
    if dtype.subdtype is not None and base is not None:
        inner = dtype.subdtype[1]
        cells: _Array = np.ndarray((count,), np.dtype((np.void, element.size)), memory, offset, (stride,))
        together = np.ascontiguousarray(cells).view(np.uint8)
        each = math.prod(inner)
        starts = np.arange(count + 1) * each
        flat = _column(base, together, 0, base.size, count * each, encoding, (*outer, starts))
        return flat.reshape(count, *inner, *flat.shape[1:])
    made = np.empty(count, dtype)
    if base is not None:
        starts, items, _ = element.sequences(memory, offset, stride, count, outer)
        number = len(items) // base.size if base.size else 0
        all_of_them = _column(base, items, 0, base.size, number, encoding, (*outer, starts))
        bounds = starts.tolist()
        for index in range(count):
            made[index] = all_of_them[bounds[index] : bounds[index + 1]]
    elif is_text(dtype):
        made[:] = element.strings(memory, offset, stride, count, outer, *(encoding or ()))
    else:
        made[:] = element.references(memory, offset, stride, count)
    return made


def ragged(element: _native.ElementHandle, raw: _Array, offset: int = 0, stride: int | None = None) -> Ragged:
    """Return elements of variable length in memory, level by level.

    Takes the element at ``offset`` in each record of ``stride`` bytes; by default the whole record.
    """
    flat = np.ascontiguousarray(raw).reshape(-1)
    memory = flat.view(np.uint8) if flat.size and flat.dtype.itemsize else np.empty(0, np.uint8)
    found = _level(element, memory, offset, stride or element.size, flat.size)
    return found.reshape(raw.shape)


def _level(
    element: _native.ElementHandle,
    memory: _Array,
    offset: int,
    stride: int,
    count: int,
    outer: _Outer = (),
) -> Ragged:
    base = element.base()
    if element.dtype.kind != "O" or (base is None and not is_text(element.dtype)):
        raise TypeError("elements have one size: read_ragged reads those of variable length")
    starts, items, validity = element.sequences(memory, offset, stride, count, outer)
    outer = (*outer, starts)
    shape = (count,)
    if base is None:
        return Ragged._made("text", shape, starts, items, validity)
    # The HDF5 library stores empty sequences like nulls.
    validity = None
    number = len(items) // base.size if base.size else 0
    if base.dtype.kind == "O" and (base.base() is not None or is_text(base.dtype)):
        inner = _level(base, items, 0, base.size, number, outer)
        return Ragged._made("items", shape, starts, inner, validity)
    values = _column(base, items, 0, base.size, number, None, outer)
    return Ragged._made("items", shape, starts, values, validity)


def decoded(found: Any, encoding: str, errors: str) -> Any:
    """Decode fixed-length text to `str`."""
    if not isinstance(found, np.ndarray):
        return bytes(found).decode(encoding, errors)
    texts = np.empty(found.size, object)
    texts[:] = [text.decode(encoding, errors) for text in found.reshape(-1).tolist()]
    return texts.reshape(found.shape)


def attribute_value(attribute: _native.AttributeHandle) -> Any:
    """Return the value of an attribute.

    As in h5py: a NumPy scalar or array, `str` for variable-length text, `Empty` for no value. In
    NetCDF-3: `str`, a number or an array.
    """
    element, shape = attribute.element, attribute.shape
    if element is None:
        text, numbers = attribute.text, np.dtype(attribute.dtype)
        return attribute.data().view(numbers).reshape(shape or ())[()] if text is None else text
    dtype = element.dtype
    if shape is None:
        return Empty(dtype)
    made = attribute_array(attribute, ("utf-8", "surrogateescape") if is_text(dtype) else None)
    return made[()] if made.ndim == 0 else made


def attribute_array(attribute: _native.AttributeHandle, encoding: tuple[str, str] | None = None) -> _Array:
    """Return the value of an attribute of HDF5 as an array. ``encoding``: as in `values`."""
    element, shape = attribute.element, attribute.shape
    if element is None or shape is None:
        raise TypeError(f"attribute {attribute.name!r} has no elements of HDF5")
    made = _column(element, attribute.data(), 0, element.size, math.prod(shape), encoding)
    return made.reshape(shape + made.shape[1:])
