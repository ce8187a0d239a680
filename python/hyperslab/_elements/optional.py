"""Elements that may be missing.

They are read and written as masked arrays. The engine moves them as structures of a value and a
Boolean.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab.errors import ArgumentTypeError, ArrayShapeError, DataTypeError

__all__ = ["is_optional", "optional_dtype"]

_VALUE, _VALID = "value", "valid"


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
    return np.dtype(value, metadata={"optional": True})


def is_optional(dtype: np.dtype[Any]) -> bool:
    """Return True if elements of this type may be missing."""
    return bool(metadata_entry(dtype, "optional"))


def value_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the values, without the note in its metadata."""
    # NumPy has no type strings for the numbers of ml_dtypes.
    return np.dtype(dtype.str if dtype.kind != "V" or dtype.type is np.void else dtype.type)


def memory_dtype(value: np.dtype[Any]) -> np.dtype[Any]:
    """Return the structure that the engine moves for values of a type."""
    return np.dtype([(_VALUE, value), (_VALID, "?")])


# ---- reading


def to_masked_array(found: npt.NDArray[Any]) -> Any:
    """Return the read elements as a masked array with the same memory order."""
    return np.ma.MaskedArray(found[_VALUE].copy("K"), mask=~found[_VALID])


def to_masked_element(found: npt.NDArray[Any]) -> Any:
    """Return the scalar for a read 0-d array."""
    return found[_VALUE].copy()[()] if found[_VALID] else np.ma.masked


def check_out(out: Any, memory: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse memory that elements cannot be read into."""
    if not isinstance(out, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"out: elements may be missing: expected a numpy.ma.MaskedArray, found {type(out).__name__}"
        )
    if out.dtype != memory[_VALUE]:
        raise ArrayShapeError(f"out has elements of type {out.dtype.str}, the array has {memory[_VALUE].str}")
    if out.shape != shape:
        raise ArrayShapeError(f"out has shape {out.shape}, the selection {shape}")
    if not out.flags.writeable or out.hardmask:
        raise ArrayShapeError(
            "out: expected a writable array with a soft mask, found a read-only array or a hard mask"
        )


def fill_out(out: Any, found: npt.NDArray[Any]) -> None:
    """Put the read elements into a masked array."""
    out.data[...] = found[_VALUE]
    out.mask = ~found[_VALID]


def to_array(values: Any, dtype: npt.DTypeLike | None, name: str) -> npt.NDArray[Any]:
    """Return values for NumPy functions. Fails if any is missing: NumPy would lose that."""
    if np.ma.is_masked(values):
        raise ArgumentTypeError(
            f"array '{name}': elements are missing, which a plain NumPy array cannot express: use "
            "array[...], a masked array, or array[...].filled(…)"
        )
    return np.asarray(values.data, dtype)


# ---- writing


def pack_optional(given: Any, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return values to write as the engine moves them.

    Masked elements are missing. Among objects, ``None`` and pandas' ``NA`` are missing too.
    """
    if isinstance(given, np.ndarray) and given.dtype == memory:
        return given
    if isinstance(given, np.ndarray) and given.dtype == memory_dtype(memory[_VALUE].newbyteorder()):
        # The same type in the other byte order.
        return given.astype(memory)
    values, valid = _parts(given, memory[_VALUE])
    found = np.zeros(np.shape(values), memory)
    np.copyto(found[_VALUE], values, where=valid, casting="unsafe")
    found[_VALID] = valid
    return found


def _parts(given: Any, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Return the values, and which of them are present."""
    if given is None or given is np.ma.masked:
        return np.zeros((), dtype), False
    if isinstance(given, (list, tuple)):
        return _of_list(cast("list[Any]", given), dtype)
    of_numpy = isinstance(getattr(given, "dtype", None), np.dtype)
    if of_numpy and hasattr(given, "read") and is_optional(given.dtype):
        # A stored array or a view of one.
        given = given.read()
    if isinstance(given, np.ma.MaskedArray):
        return _of_objects(given.data, ~np.ma.getmaskarray(given), dtype)
    if hasattr(given, "isna") and not of_numpy:
        # A pandas object whose type has missing values.
        zero = np.zeros((), dtype)[()]
        return given.to_numpy(dtype=dtype, na_value=zero), ~np.asarray(given.isna())
    is_arrow = hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")
    if is_arrow and not hasattr(given, "iloc"):
        return _native.arrow_values(given)
    if hasattr(given, "__array__") and not isinstance(given, (np.ndarray, np.generic)):
        # It may be masked. NumPy's `asarray` would lose the mask, and dask's `__array__` does.
        graph = getattr(given, "__dask_graph__", None)
        of_dask = graph is not None and graph() is not None
        return _parts(given.compute() if of_dask else given.__array__(), dtype)
    if isinstance(given, np.ndarray) and given.dtype == object:
        return _of_objects(given, True, dtype)
    return np.asarray(given, dtype), True


def _of_list(given: list[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Any]:
    if not _has_missing(given):
        return np.asarray(given, dtype), True
    if not any(np.ndim(one) for one in given if not _is_missing(one)):
        return _of_objects(np.array(given, dtype=object), True, dtype)
    # Convert one by one: NumPy would lose the masks of masked arrays.
    parts = [_parts(one, dtype) for one in given]
    return np.stack([values for values, _ in parts]), np.stack(
        [np.broadcast_to(valid, values.shape) for values, valid in parts]
    )


def _has_missing(given: Any) -> bool:
    """Return True if nested lists contain elements that may be missing."""
    if isinstance(given, (list, tuple)):
        return any(map(_has_missing, cast("list[Any]", given)))
    return _is_missing(given) or (hasattr(given, "__array__") and not isinstance(given, np.generic))


def _is_missing(one: Any) -> bool:
    # Compare the name: pandas may not be installed.
    return one is None or one is np.ma.masked or type(one).__name__ == "NAType"


def _of_objects(values: Any, valid: Any, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Convert objects to the type, and return which of them are present."""
    if values.dtype != object:
        return values, valid
    there = np.fromiter((not _is_missing(one) for one in values.flat), bool, values.size)
    valid = there.reshape(values.shape) & valid
    found = np.full(values.shape, np.zeros((), dtype)[()], object)
    np.copyto(found, values, where=valid)
    return found.astype(dtype), valid
