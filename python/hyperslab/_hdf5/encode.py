"""Values as the bytes of elements in a file: the mirror of `hyperslab._hdf5.values`.

`encoded` takes the type of the elements apart and converts each member of all values at once. Text
and sequences of variable length, and references, go through `_native.NewValues`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import is_text, metadata_entry
from hyperslab._hdf5.convert import converted
from hyperslab._native import RegionReference
from hyperslab.errors import ConversionError

__all__ = ["encoded"]

_Array = npt.NDArray[Any]


def encoded(element: _native.ElementHandle, values: _Array, new: _native.NewValues) -> _Array:
    """Return the raw elements of values: an array of ``V`` of the same shape.

    If elements are small arrays, the last axes of ``values`` are theirs.
    """
    dtype = element.dtype
    inner = dtype.shape
    shape = values.shape[: values.ndim - len(inner)]
    count = math.prod(shape)
    if count and not inner and dtype.names is None and element.is_made_of_objects:
        # The elements are the whole result: they need no other place.
        return _objects(element, dtype, values.reshape(-1), new).view(f"V{element.size}").reshape(shape)
    memory = np.zeros(count * element.size, np.uint8)
    _put(element, memory, 0, element.size, count, values, new)
    return memory.view(f"V{element.size}").reshape(shape)


def _cells(memory: _Array, kind: Any, offset: int, stride: int, count: int) -> _Array:
    """Return elements in memory, ``stride`` bytes apart."""
    return np.ndarray((count,), kind, memory, offset, (stride,))


def _put(
    element: _native.ElementHandle,
    memory: _Array,
    offset: int,
    stride: int,
    count: int,
    values: _Array,
    new: _native.NewValues,
) -> None:
    """Put ``count`` values at ``offset``, ``offset + stride``, and so on."""
    if count == 0:
        return
    dtype = element.dtype
    base = element.base()
    if dtype.subdtype is not None and base is not None:
        each = math.prod(dtype.subdtype[1])
        together = np.zeros(count * element.size, np.uint8)
        _put(base, together, 0, base.size, count * each, values, new)
        cell = f"V{element.size}"
        _cells(memory, cell, offset, stride, count)[...] = together.view(cell)
        return
    # Small arrays inside of the elements of an array in memory are axes of this array.
    flat = values.reshape(-1) if values.size == count else values.reshape(count, -1)
    if not element.is_made_of_objects:
        _cells(memory, dtype, offset, stride, count)[...] = converted(flat, dtype)
        return
    fields = element.fields()
    if fields:
        names = flat.dtype.names
        if names is None:
            raise ConversionError(f"there is no conversion from elements of type {flat.dtype} to {dtype}")
        for name, at, field in fields:
            if name in names:
                _put(field, memory, offset + at, stride, count, flat[name], new)
        return
    raw = _objects(element, dtype, flat, new)
    cell = f"V{element.size}"
    _cells(memory, cell, offset, stride, count)[...] = raw.view(cell)


def _objects(
    element: _native.ElementHandle, dtype: np.dtype[Any], values: _Array, new: _native.NewValues
) -> _Array:
    """Return the raw elements of text, sequences or references, as bytes."""
    base = element.base()
    if base is not None:
        return _sequences(base, values, new)
    if is_text(dtype):
        return _texts(dtype, values, new)
    return new.references(values.tolist(), metadata_entry(dtype, "ref") is RegionReference)


def _texts(dtype: np.dtype[Any], values: _Array, new: _native.NewValues) -> _Array:
    """Return the raw elements of text."""
    if values.dtype.kind not in "OSTU":
        raise ConversionError(f"there is no conversion from elements of type {values.dtype} to text")
    # An array of text of fixed length gives texts without the NULs at their ends.
    texts = values if values.dtype.kind == "O" else values.tolist()
    return new.text(texts, metadata_entry(dtype, "vlen") is bytes)


def _sequences(base: _native.ElementHandle, values: _Array, new: _native.NewValues) -> _Array:
    """Return the raw elements of sequences."""
    inner = base.dtype
    kind = inner.base if inner.subdtype is not None else inner
    if values.dtype.kind == "O":
        if not inner.shape and not base.is_made_of_objects:
            raw = new.arrays(values, inner)
            if raw is not None:
                return raw
    else:
        # Each row is a sequence.
        values = values.reshape(len(values), -1)
    items = [_items(value, kind) for value in values]
    axes = len(inner.shape)
    lengths = [len(item) if item.ndim > axes else int(item.size > 0) for item in items]
    starts = np.zeros(len(items) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    filled = [item.reshape(-1) for item in items if item.size]
    if len({item.dtype for item in filled}) > 1:
        filled = [converted(item, kind) for item in filled]
    # With a type, NumPy does not look for a common one array by array.
    together = np.concatenate(filled, dtype=filled[0].dtype) if filled else np.empty(0, kind)
    raw = encoded(base, together.reshape(-1, *inner.shape), new)
    return new.sequences(starts, raw.view(np.uint8), base.size)


def _items(value: Any, kind: np.dtype[Any]) -> _Array:
    """Return the items of one sequence."""
    if value is None:
        return np.empty(0, kind)
    if isinstance(value, np.ndarray):
        return value if value.ndim else value.reshape(1)
    return np.atleast_1d(np.asarray(value, kind))
