"""Masked arrays: elements that equal the fill value are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._array_common import AnyArray

__all__ = ["filled", "masked"]


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


def filled(values: Any, dtype: np.dtype[Any], fill: bytes | None, name: str) -> npt.NDArray[Any]:
    """The data of a masked array, with the fill value where they are masked."""
    if fill is None:
        if not np.ma.is_masked(values):
            return np.asarray(values.data)
        raise InvalidArgumentError(
            f"array '{name}' has no fill value (null in Zarr v2): masked elements would become zeros; "
            "fill them: values.filled(…)"
        )
    data = np.array(values.data, dtype)
    data[np.ma.getmaskarray(values)] = np.frombuffer(fill, dtype)
    return data
