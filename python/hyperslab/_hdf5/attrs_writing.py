"""Changes of attributes in HDF5 files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab import _native
from hyperslab._elements.hdf5_types import Empty, is_text
from hyperslab._hdf5.create import resolved_type
from hyperslab._hdf5.encode import encoded
from hyperslab._hdf5.new_arrays import array_of, is_empty, numpy_type
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from hyperslab._hdf5.attrs import FileAttributes

__all__ = ["create_attribute", "modify_attribute"]


def create_attribute(
    attributes: FileAttributes, name: str, data: Any, shape: Any = None, dtype: Any = None
) -> None:
    """Set an attribute. Its type and shape come from the value unless they are given."""
    editor, address = attributes._editor, attributes._node._address
    wanted = None if dtype is None else numpy_type(dtype)
    if is_empty(data):
        data = Empty(data.dtype if wanted is None else wanted)
        _, stored = resolved_type(data.dtype if dtype is None else dtype)
        editor.set_attribute(address, name, stored, None, np.empty(0, np.uint8))
        return
    small = None if wanted is None else np.dtype(wanted).subdtype
    if small is not None:
        # Elements that are small arrays have the last axes of the values.
        base, inner = small
        made = array_of(data, base)
    else:
        inner = ()
        made = array_of(data, wanted)
    extent = made.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if inner:
        if extent[-len(inner) :] != inner:
            raise InvalidArgumentError(f"Array dtype shape {inner} is incompatible with data shape {extent}")
        extent = extent[: len(extent) - len(inner)]
    if math.prod(extent) * math.prod(inner) != made.size:
        raise InvalidArgumentError(
            f"Shape of new attribute conflicts with shape of data: {extent} and {made.shape}"
        )
    _, stored = resolved_type(made.dtype if dtype is None else dtype)
    values = editor.values()
    raw = encoded(editor.element(stored), made.reshape((*extent, *inner)), values)
    raw_bytes = np.ascontiguousarray(raw).reshape(-1).view(np.uint8) if raw.size else np.empty(0, np.uint8)
    editor.set_attribute(address, name, stored, list(extent), raw_bytes)


def modify_attribute(attributes: FileAttributes, name: str, value: Any) -> None:
    """Change the value of an attribute. Its type and shape stay as they are."""
    if name not in attributes:
        create_attribute(attributes, name, value)
        return
    editor = attributes._editor
    found: _native.AttributeHandle = attributes._found(name)
    element, shape = found.element, found.shape
    stored = found.stored_type
    if shape is None:
        raise OSError("Empty attributes can't be modified")
    if element is None or stored is None:
        raise UnsupportedError(f"attribute {name!r}: only attributes of HDF5 files can be modified")
    dtype = element.dtype
    inner = dtype.shape
    # Values that are not an array yet are of the attribute's type; elements of arrays are converted.
    base = dtype.base if inner else dtype
    if isinstance(value, np.ndarray):
        made = array_of(value)
    elif base.kind == "S" or is_text(base):
        made = array_of(value, base)
    else:
        made = np.asarray(value, base, order="C")
    whole = (*shape, *inner)
    if made.shape != whole and not (made.size == 1 and math.prod(whole) == 1):
        raise ArgumentTypeError(
            f"Shape of data is incompatible with existing attribute: expected {whole}, found {made.shape}"
        )
    values = editor.values()
    raw = encoded(element, made.reshape(whole), values)
    raw_bytes = np.ascontiguousarray(raw).reshape(-1).view(np.uint8) if raw.size else np.empty(0, np.uint8)
    editor.set_attribute(attributes._node._address, name, stored, list(shape), raw_bytes)
