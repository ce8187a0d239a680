"""Elements that may be missing.

They are read and written as masked arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab.errors import ArgumentTypeError, DataTypeError

__all__ = ["is_optional", "optional_dtype"]


def optional_dtype(base: npt.DTypeLike) -> np.dtype[Any]:
    """Return the data type of arrays whose elements may be missing.

    It is ``base`` with a note in its metadata. To NumPy it equals ``base``.

    Parameters
    ----------
    base : data type
        Type of the elements: numbers, bool, dates, fixed-length text and bytes.

    Raises
    ------
    DataTypeError
        For structures, and for types without a fixed size.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype=hs.optional_dtype("i4"))
    >>> z[:2] = [7, None]
    >>> z[:].tolist(), z.dtype == "i4"
    ([7, None, None], True)
    """
    value = np.dtype(base)
    if value.names is not None or value.kind in "OT":
        raise DataTypeError(f"dtype {value}: only elements of one size, without fields, may be missing")
    return _native.optional_type(value)


def is_optional(dtype: np.dtype[Any]) -> bool:
    """Return True if elements of this type may be missing."""
    return bool(metadata_entry(dtype, "optional"))


def value_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the values, without the note in its metadata."""
    # NumPy has no type strings for the numbers of ml_dtypes.
    return np.dtype(dtype.str if dtype.kind != "V" or dtype.type is np.void else dtype.type)


def check_out(out: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse memory that elements of this type cannot be read into."""
    _native.optional_check_out(out, value_dtype(dtype), shape)


def to_array(values: Any, dtype: npt.DTypeLike | None, name: str) -> npt.NDArray[Any]:
    """Return values for NumPy functions. Fails if any is missing: NumPy would lose that."""
    if np.ma.is_masked(values):
        raise ArgumentTypeError(
            f"array '{name}': elements are missing, which a plain NumPy array cannot express: use "
            "array[...], a masked array, or array[...].filled(…)"
        )
    return np.asarray(values.data, dtype)


def pack_optional(given: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values to write as the engine moves them: structures of a value and a Boolean.

    Masked elements are missing. Among objects, ``None`` and pandas' ``NA`` are missing too.
    """
    return _native.pack_optional(given, value_dtype(dtype))
