"""Masked arrays: elements that equal the fill value are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab._elements.optional import is_optional
from hyperslab._elements.vlen import OBJECTS, kind_of, objects_array
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array_common import AnyArray

__all__ = ["filled", "masked", "unmasked", "unmasked_field"]


def masked(array: AnyArray, values: Any, mask: npt.NDArray[np.bool_] | None) -> Any:
    """Return a masked array of the read elements. ``mask``: the missing elements, if known."""
    values = np.asarray(values)
    fill = fill_of(array)
    if fill is None:
        return np.ma.MaskedArray(values)
    if mask is not None:
        return np.ma.MaskedArray(values, mask=mask, fill_value=fill)
    # Not-a-number and not-a-time are not equal to anything.
    same = (values == fill) | (values != values) & np.asarray(fill != fill)
    return np.ma.MaskedArray(values, mask=same, fill_value=fill)


def fill_of(array: AnyArray) -> Any:
    """Return the fill value as a 0-d array, or ``None``."""
    if array._is_vlen:
        raise ArgumentTypeError(f"array '{array.name}': elements of variable length cannot be masked")
    bytes_ = array._fill
    return None if bytes_ is None else np.frombuffer(bytes_, array.dtype)[0]


def unmasked(array: Any, values: Any) -> Any:
    """Return values to write. Masked elements of a masked array become the fill value."""
    # Elements that may be missing are written with their mask.
    if not isinstance(values, np.ma.MaskedArray) or is_optional(array.dtype):
        return values
    return filled(values, array.dtype, array._fill, array.name)


def unmasked_field(array: Any, field: str, values: Any) -> Any:
    """Do the same as `unmasked` for the values of one field."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    dtype = array.dtype[field]
    fill = None if array._fill is None else np.frombuffer(array._fill, array.dtype)[0][field]
    if dtype.shape:
        # The field is an array, and its fill value has axes too.
        _check_fill(fill, values, array.name)
        return np.where(np.ma.getmaskarray(values), fill, np.asarray(values.data, dtype.base))
    return filled(values, dtype, None if fill is None else np.asarray(fill, dtype).tobytes(), array.name)


def filled(values: Any, dtype: np.dtype[Any], fill: bytes | None, name: str) -> npt.NDArray[Any]:
    """Return the data of a masked array, with the fill value in masked elements."""
    if kind_of(dtype)[0] in OBJECTS:
        return objects_array(values, values.ndim)
    if kind_of(dtype)[0] is not None:
        # Elements of variable length: missing ones are stored as empty.
        objects = np.array(values.data, object)
        objects[np.ma.getmaskarray(values)] = None
        return objects
    _check_fill(fill, values, name)
    if fill is None:
        return np.asarray(values.data)
    if dtype.names is not None:
        # Each field has its own mask.
        return np.asarray(values.astype(dtype).filled(np.frombuffer(fill, dtype)[0]))
    data = np.array(values.data, dtype)
    data[np.ma.getmaskarray(values)] = np.frombuffer(fill, dtype)
    return data


def _check_fill(fill: Any, values: Any, name: str) -> None:
    if fill is None and np.ma.is_masked(values):
        raise InvalidArgumentError(
            f"array '{name}' has no fill value (null in Zarr v2): masked elements would become zeros; "
            "fill them before: values.filled(…)"
        )
