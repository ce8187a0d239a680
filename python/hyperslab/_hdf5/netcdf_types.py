"""Types of NetCDF-4's variables, and values of its attributes, in the types that netCDF-C writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import is_text, metadata_entry
from hyperslab._hdf5.dtypes import string_dtype
from hyperslab._hdf5.new_arrays import array_of, numpy_type
from hyperslab.errors import ArgumentTypeError, DataTypeError

if TYPE_CHECKING:
    from hyperslab._hdf5.attrs import FileAttributes
    from hyperslab._hdf5.group import FileGroup

__all__ = ["default_fill", "element_bytes", "set_attribute", "set_fill_attribute", "variable_type"]


_FILL = "_FillValue"


class _Char:
    """The type of one byte of text, which ends at a NUL."""

    def __init__(self) -> None:
        self.dtype, self._stored_type = np.dtype("S1"), _native.StoredType.text(1, 0, False)


# Bytes of a pointer to text, and of a length with a pointer: netCDF-C's elements of variable length.
_TEXT, _SEQUENCE = 8, 16


def variable_type(group: FileGroup, name: str, dtype: Any, data: Any) -> Any:
    """Return the type of a new variable: a NumPy type, or a committed one."""
    if dtype is None:
        if data is None:
            raise ArgumentTypeError(f"variable {name!r}: one of dtype and data must be given")
        dtype = array_of(data).dtype
    if getattr(dtype, "_stored_type", None) is not None:
        return dtype
    kind = np.dtype(numpy_type(dtype))
    if kind.kind in "UT" or (kind == np.dtype(object) and not kind.metadata):
        return string_dtype()
    if kind == np.dtype("S1"):
        return _Char()
    if kind.kind == "S":
        raise DataTypeError(
            f"variable {name!r}: NetCDF has no text of {kind.itemsize} bytes; pass dtype=str, or 'S1' and "
            "one more dimension"
        )
    item = metadata_entry(kind, "vlen")
    is_user_type = (
        kind.kind == "V"
        or metadata_entry(kind, "enum") is not None
        or (item is not None and not is_text(kind))
    )
    if is_user_type:
        return _committed(group, name, kind)
    if kind.kind not in "Oiuf" or (kind.kind == "f" and kind.itemsize not in (4, 8)):
        raise DataTypeError(
            f"variable {name!r}: NetCDF has no elements of type {kind}; convert the data to another type"
        )
    return kind


def _committed(group: FileGroup, name: str, kind: np.dtype[Any]) -> Any:
    """Return the committed type that is equal to a user type, of a group or of a group above."""
    from hyperslab._hdf5.group import Datatype

    at: Any = group
    while True:
        for _, found in at._linked():
            if isinstance(found, Datatype) and _same(found.dtype, kind):
                return found
        if not at.path:
            raise DataTypeError(
                f"variable {name!r}: NetCDF wants a name for the type {kind}; commit it first: "
                "group['name'] = dtype"
            )
        at = at.parent


def _same(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    def described(dtype: np.dtype[Any]) -> Any:
        if dtype.names is not None:
            fields: Any = dtype.fields
            return [(name, described(fields[name][0]), fields[name][1]) for name in dtype.names]
        notes = {key: metadata_entry(dtype, key) for key in ("vlen", "enum")}
        item = None if notes["vlen"] is None else np.dtype(notes["vlen"]).str
        return dtype.str, dtype.shape, item, notes["enum"]

    return bool(described(one) == described(other))


def element_bytes(kind: Any) -> int:
    """Return the bytes of an element in netCDF-C's memory."""
    dtype = np.dtype(numpy_type(kind))
    if dtype.kind != "O":
        return int(dtype.itemsize)
    return _TEXT if is_text(dtype) else _SEQUENCE


def default_fill(kind: Any) -> Any:
    """Return netCDF's fill value for elements of a type. ``None``: netCDF has no value for the type."""
    dtype = np.dtype(numpy_type(kind))
    raw = None if dtype.kind == "O" else _native.netcdf_fill(np.dtype(dtype.str))
    return None if raw is None else np.frombuffer(raw, np.dtype(dtype.str))[0]


def set_fill_attribute(attributes: FileAttributes, value: Any, kind: Any) -> None:
    """Set ``_FillValue``: one element of the variable's own type."""
    if isinstance(kind, _Char):
        set_attribute(attributes, _FILL, bytes(np.array(value, "S1").item()))
        return
    made = np.empty(1, numpy_type(kind))
    made[0] = value
    attributes.create(_FILL, made, (1,), kind)


def set_attribute(attributes: FileAttributes, name: str, value: Any) -> None:
    """Set an attribute as netCDF-C writes the value: text, or numbers in one dimension."""
    editor, address = attributes._editor, attributes._node._address
    made: npt.NDArray[Any] = array_of(value)
    if is_text(made.dtype) or made.dtype.kind in "SUT":
        texts = [
            one if isinstance(one, bytes) else str(one).encode("utf-8", "surrogateescape")
            for one in made.flat
        ]
        if len(texts) == 1 and (texts[0].isascii() or isinstance(value, (bytes, np.bytes_))):
            raw = texts[0].rstrip(b"\0") or b"\0"
            stored = _native.StoredType.fixed_text(len(raw))
            editor.set_attribute(address, name, stored, [], np.frombuffer(raw, np.uint8))
            return
        attributes.create(
            name, [text.decode("utf-8", "surrogateescape") for text in texts], None, string_dtype()
        )
        return
    if made.dtype.kind == "b":
        raise DataTypeError(
            f"attribute {name!r}: NetCDF has no Boolean values; pass an integer: "
            f"numpy.int8({int(made.flat[0])})"
        )
    if not made.size:
        from hyperslab._elements.hdf5_types import Empty

        attributes.create(name, Empty(made.dtype))
        return
    attributes.create(name, made.reshape(-1))
