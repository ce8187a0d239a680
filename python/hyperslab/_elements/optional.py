"""Elements that may be missing: masked arrays, as which they are read and written, and structures of a value
and a Boolean, as which the engine moves them.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import noted
from hyperslab.errors import ArgumentTypeError, ArrayShapeError, DataTypeError

__all__ = ["is_optional", "optional_dtype"]

_VALUE, _VALID = "value", "valid"


def optional_dtype(base: npt.DTypeLike) -> np.dtype[Any]:
    """The data type of arrays whose elements may be missing: ``base``, with a note in its metadata. To NumPy
    it is the same as ``base``.

    Parameters
    ----------
    base : data type
        Of the elements that are there: numbers, bool, dates, text and bytes of fixed length.

    Raises
    ------
    DataTypeError
        For structures, and where elements have no one size.

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
    """Whether elements of this type may be missing."""
    return bool(noted(dtype, "optional"))


def value_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the elements that are there: without the note."""
    # NumPy has no type strings for numbers of ml_dtypes.
    return np.dtype(dtype.str if dtype.kind != "V" or dtype.type is np.void else dtype.type)


def memory_dtype(value: np.dtype[Any]) -> np.dtype[Any]:
    """What the engine moves, by the type of the values."""
    return np.dtype([(_VALUE, value), (_VALID, "?")])


# ---- reading


def shown(found: npt.NDArray[Any]) -> Any:
    """What was read, as a masked array of the same order in memory."""
    return np.ma.MaskedArray(found[_VALUE].copy("K"), mask=~found[_VALID])


def shown_one(found: npt.NDArray[Any]) -> Any:
    """The scalar of what was read, which has no axes."""
    return found[_VALUE].copy()[()] if found[_VALID] else np.ma.masked


def check_out(out: Any, memory: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuses what elements cannot be read into."""
    if not isinstance(out, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"out: elements may be missing: expected a numpy.ma.MaskedArray, found {type(out).__name__}"
        )
    if out.dtype != memory[_VALUE]:
        raise ArrayShapeError(f"out has elements of type {out.dtype.str}, the array has {memory[_VALUE].str}")
    if out.shape != shape:
        raise ArrayShapeError(f"out has shape {out.shape}, the selection {shape}")
    if not out.flags.writeable or out.hardmask:
        raise ArrayShapeError("out is read-only, or its mask is hard")


def fill_out(out: Any, found: npt.NDArray[Any]) -> None:
    """Puts what was read into a masked array."""
    out.data[...] = found[_VALUE]
    out.mask = ~found[_VALID]


def to_array(values: Any, dtype: npt.DTypeLike | None, name: str) -> npt.NDArray[Any]:
    """For NumPy's functions, which would forget what is missing."""
    if np.ma.is_masked(values):
        raise ArgumentTypeError(
            f"array '{name}': elements are missing, which an array of NumPy has no word for: array[...] is a "
            "masked array; array[...].filled(…) puts values in their place"
        )
    return np.asarray(values.data, dtype)


# ---- writing


def packed(given: Any, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values that are to be written, as the engine moves them. Missing are those that are masked, and of
    objects ``None`` and pandas' ``NA``.
    """
    if isinstance(given, np.ndarray) and given.dtype == memory:
        return given
    if isinstance(given, np.ndarray) and given.dtype == memory_dtype(memory[_VALUE].newbyteorder()):
        # The same in the other byte order.
        return given.astype(memory)
    values, valid = _parts(given, memory[_VALUE])
    found = np.zeros(np.shape(values), memory)
    np.copyto(found[_VALUE], values, where=valid, casting="unsafe")
    found[_VALID] = valid
    return found


def _parts(given: Any, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Values, and which of them are there."""
    if given is None or given is np.ma.masked:
        return np.zeros((), dtype), False
    if isinstance(given, (list, tuple)):
        return _of_list(cast("list[Any]", given), dtype)
    of_numpy = isinstance(getattr(given, "dtype", None), np.dtype)
    if of_numpy and hasattr(given, "read") and is_optional(given.dtype):
        # An array that is stored, or a view of one.
        given = given.read()
    if isinstance(given, np.ma.MaskedArray):
        return _of_objects(given.data, ~np.ma.getmaskarray(given), dtype)
    if hasattr(given, "isna") and not of_numpy:
        # Of pandas, of a type with missing values.
        zero = np.zeros((), dtype)[()]
        return given.to_numpy(dtype=dtype, na_value=zero), ~np.asarray(given.isna())
    is_arrow = hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__")
    if is_arrow and not hasattr(given, "iloc"):
        return _native.arrow_values(given)
    if hasattr(given, "__array__") and not isinstance(given, (np.ndarray, np.generic)):
        # It may be masked. NumPy's `asarray` would forget that, and dask's `__array__` does.
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
    # One by one: NumPy would forget the masks of masked arrays.
    parts = [_parts(one, dtype) for one in given]
    return np.stack([values for values, _ in parts]), np.stack(
        [np.broadcast_to(valid, values.shape) for values, valid in parts]
    )


def _has_missing(given: Any) -> bool:
    """Whether lists of lists hold something that may be missing."""
    if isinstance(given, (list, tuple)):
        return any(map(_has_missing, cast("list[Any]", given)))
    return _is_missing(given) or (hasattr(given, "__array__") and not isinstance(given, np.generic))


def _is_missing(one: Any) -> bool:
    # pandas need not be there.
    return one is None or one is np.ma.masked or type(one).__name__ == "NAType"


def _of_objects(values: Any, valid: Any, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Objects as what they are, and which of them are there."""
    if values.dtype != object:
        return values, valid
    there = np.fromiter((not _is_missing(one) for one in values.flat), bool, values.size)
    valid = there.reshape(values.shape) & valid
    found = np.full(values.shape, np.zeros((), dtype)[()], object)
    np.copyto(found, values, where=valid)
    return found.astype(dtype), valid
