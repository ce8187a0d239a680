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
    """Elements that were read as a masked array. ``mask``: what is missing, where that is known."""
    values = np.asarray(values)
    fill = fill_of(array)
    if fill is None:
        return np.ma.MaskedArray(values)
    if mask is not None:
        return np.ma.MaskedArray(values, mask=mask, fill_value=fill)
    # What is not a number, or not a time, equals nothing.
    same = (values == fill) | (values != values) & np.asarray(fill != fill)
    return np.ma.MaskedArray(values, mask=same, fill_value=fill)


def fill_of(array: AnyArray) -> Any:
    """The fill value, as an array without axes; ``None``: there is none."""
    if array._is_vlen:
        raise ArgumentTypeError(f"array '{array.name}': elements of variable length are not masked")
    bytes_ = array._fill
    return None if bytes_ is None else np.frombuffer(bytes_, array.dtype)[0]


def unmasked(array: Any, values: Any) -> Any:
    """Values to be written: of a masked array its data, with the fill value where it is masked."""
    # Elements that may be missing are written with their mask.
    if not isinstance(values, np.ma.MaskedArray) or is_optional(array.dtype):
        return values
    return filled(values, array.dtype, array._fill, array.name)


def unmasked_field(array: Any, field: str, values: Any) -> Any:
    """The same for values of one field."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    dtype = array.dtype[field]
    fill = None if array._fill is None else np.frombuffer(array._fill, array.dtype)[0][field]
    if dtype.shape:
        # A field that is an array: its fill value has axes of its own.
        _check_fill(fill, values, array.name)
        return np.where(np.ma.getmaskarray(values), fill, np.asarray(values.data, dtype.base))
    return filled(values, dtype, None if fill is None else np.asarray(fill, dtype).tobytes(), array.name)


def filled(values: Any, dtype: np.dtype[Any], fill: bytes | None, name: str) -> npt.NDArray[Any]:
    """The data of a masked array, with the fill value where they are masked."""
    if kind_of(dtype)[0] in OBJECTS:
        return objects_array(values, values.ndim)
    if kind_of(dtype)[0] is not None:
        # Of variable length: what is missing is stored as empty.
        objects = np.array(values.data, object)
        objects[np.ma.getmaskarray(values)] = None
        return objects
    _check_fill(fill, values, name)
    if fill is None:
        return np.asarray(values.data)
    if dtype.names is not None:
        # Each field has a mask of its own.
        return np.asarray(values.astype(dtype).filled(np.frombuffer(fill, dtype)[0]))
    data = np.array(values.data, dtype)
    data[np.ma.getmaskarray(values)] = np.frombuffer(fill, dtype)
    return data


def _check_fill(fill: Any, values: Any, name: str) -> None:
    if fill is None and np.ma.is_masked(values):
        raise InvalidArgumentError(
            f"array '{name}' has no fill value (null in Zarr v2): masked elements would become zeros; "
            "fill them: values.filled(…)"
        )
