"""Changes of dimension scales and labels, with the attributes of the HDF5 library's H5DS.

* A scale has ``CLASS`` and ``NAME``, and in ``REFERENCE_LIST`` the axes that use it.
* An array has in ``DIMENSION_LIST`` the scales of each axis, and in ``DIMENSION_LABELS`` a text for
  each axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._hdf5.dtypes import ref_dtype, string_dtype, vlen_dtype
from hyperslab._hdf5.encode import encoded
from hyperslab._hdf5.names import text_of
from hyperslab._native import Reference, StoredType

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray

__all__ = ["attach", "detach", "is_attached", "make_scale", "set_label"]

_SCALE = "DIMENSION_SCALE"
# An axis that uses a scale: the array, and the number of the axis.
_USER = np.dtype(
    {"names": ["dataset", "dimension"], "formats": [ref_dtype, "<u4"], "offsets": [0, 8], "itemsize": 16}
)


def _set(array: FileArray, name: str, stored: StoredType, value: np.ndarray[Any, Any]) -> None:
    editor = array._editor
    values = editor.values()
    raw = encoded(editor.element(stored), value, values)
    flat = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    editor.set_attribute(array._address, name, stored, list(value.shape), flat)


def _set_text(array: FileArray, name: str, text: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    _set(array, name, StoredType.fixed_text(len(raw) + 1), np.array(raw, f"S{len(raw) + 1}"))


def make_scale(array: FileArray, name: str | bytes) -> None:
    """Make an array a scale."""
    if "DIMENSION_LIST" in array.attrs:
        raise RuntimeError(f"array '{array.name}' has scales, so it cannot be a scale itself")
    _set_text(array, "CLASS", _SCALE)
    _set_text(array, "NAME", text_of(name))


def _references(array: FileArray) -> list[list[Reference]]:
    """Return the scales of each axis."""
    found = array.attrs.get("DIMENSION_LIST")
    if found is None or len(found) != array.ndim:
        return [[] for _ in range(array.ndim)]
    return [list(axis) for axis in found]


def _store_references(array: FileArray, axes: list[list[Reference]]) -> None:
    if not any(axes):
        del array.attrs["DIMENSION_LIST"]
        return
    value = np.empty(len(axes), object)
    for number, axis in enumerate(axes):
        row = np.empty(len(axis), ref_dtype)
        row[:] = axis
        value[number] = row
    _set(array, "DIMENSION_LIST", StoredType(vlen_dtype(ref_dtype)), value)


def _users(scale: FileArray) -> list[tuple[Reference, int]]:
    """Return the axes that use a scale."""
    found = scale.attrs.get("REFERENCE_LIST")
    return [] if found is None else [(row[0], int(row[1])) for row in np.atleast_1d(found)]


def _store_users(scale: FileArray, users: list[tuple[Reference, int]]) -> None:
    if not users:
        scale.attrs.pop("REFERENCE_LIST", None)
        return
    value = np.empty(len(users), _USER)
    for number, user in enumerate(users):
        value[number] = user
    _set(scale, "REFERENCE_LIST", StoredType(_USER), value)


def _checked(array: FileArray, scale: FileArray) -> None:
    from hyperslab._hdf5.array import FileArray

    if not isinstance(scale, FileArray):
        raise TypeError(f"expected a dataset as scale, found {type(scale).__name__}")
    if scale == array:
        raise RuntimeError(f"array '{array.name}' cannot be a scale of itself")
    if not scale._store._native.is_same_file(array._store._native):
        raise RuntimeError(f"scale '{scale.name}' is in another file")


def attach(array: FileArray, axis: int, scale: FileArray) -> None:
    """Attach a scale to an axis."""
    _checked(array, scale)
    if array.is_scale:
        raise RuntimeError(f"array '{array.name}' is a scale, so it cannot have scales")
    if "DIMENSION_LIST" in scale.attrs:
        raise RuntimeError(f"array '{scale.name}' has scales, so it cannot be a scale itself")
    if not scale.is_scale:
        _set_text(scale, "CLASS", _SCALE)
    axes, mine, its = _references(array), array.ref, scale.ref
    if its not in axes[axis]:
        axes[axis].append(its)
        _store_references(array, axes)
    users = _users(scale)
    if (mine, axis) not in users:
        _store_users(scale, [*users, (mine, axis)])


def detach(array: FileArray, axis: int, scale: FileArray) -> None:
    """Detach a scale from an axis."""
    _checked(array, scale)
    axes, mine, its = _references(array), array.ref, scale.ref
    if its not in axes[axis]:
        raise RuntimeError(f"'{scale.name}' is not a scale of axis {axis} of '{array.name}'")
    axes[axis].remove(its)
    _store_references(array, axes)
    _store_users(scale, [user for user in _users(scale) if user != (mine, axis)])


def is_attached(array: FileArray, axis: int, scale: FileArray) -> bool:
    """Return True if a scale is attached to an axis."""
    return scale.ref in _references(array)[axis]


def set_label(array: FileArray, axis: int, label: str | bytes) -> None:
    """Set the label of an axis."""
    found = array.attrs.get("DIMENSION_LABELS")
    labels = [""] * array.ndim if found is None else [text_of(text) for text in found]
    labels[axis] = text_of(label)
    value = np.array([text.encode("utf-8", "surrogateescape") for text in labels], object)
    _set(array, "DIMENSION_LABELS", StoredType(string_dtype("ascii")), value)
