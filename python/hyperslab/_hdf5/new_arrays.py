"""Values for new datasets and attributes, as arrays with a type that HDF5 stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab._elements.hdf5_types import Empty, is_text
from hyperslab._hdf5.dtypes import ref_dtype, regionref_dtype, string_dtype
from hyperslab._native import Reference, RegionReference

__all__ = ["array_of", "is_empty", "item_type", "numpy_type"]


def numpy_type(dtype: Any) -> Any:
    """Return the NumPy type of a committed or low-level type. Other types stay as they are."""
    # The classes of NumPy's scalars have a `dtype` too, which is no type.
    return dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype)


def is_empty(data: Any) -> bool:
    """Return True for `Empty`, ours or h5py's."""
    return isinstance(data, Empty) or type(data).__name__ == "Empty"


def item_type(data: Any) -> type | None:
    """Return the type that all items of nested lists or of an array of objects have.

    ``None`` if they differ, if there are none, or if NumPy knows the type already.
    """
    if isinstance(data, np.ndarray):
        if data.dtype.kind != "O" or data.dtype.metadata:
            return None
        kinds: set[type | None] = {*map(type, data.flat)}
    elif isinstance(data, (list, tuple)):
        kinds = {item_type(item) for item in data}
    else:
        return type(data)
    return kinds.pop() if len(kinds) == 1 else None


def _guessed(data: Any) -> np.dtype[Any] | None:
    """Return the type of values that NumPy has only as objects. ``None``: NumPy chooses."""
    kind = item_type(data)
    if kind is RegionReference:
        return regionref_dtype
    if kind is Reference:
        return ref_dtype
    if kind is bytes:
        return string_dtype("ascii")
    if kind is str:
        return string_dtype()
    return None


def array_of(data: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Return values as an array in C order.

    ``dtype``: the type in the file. Values that are not an array yet get this type at once, so that
    NumPy does not guess one. Elements of arrays are converted when they are written.
    """
    wanted = None if dtype is None else np.dtype(dtype)
    is_array = isinstance(data, np.ndarray)
    if wanted is not None and (not is_array or (wanted.kind == "f" and wanted.itemsize == 2)):
        kind: np.dtype[Any] | None = wanted
    elif wanted is not None and is_text(wanted):
        # The type is known, and each element is looked at when it is written.
        kind = None
    else:
        kind = _guessed(data)
    if kind is not None and kind.kind == "S" and not is_array and item_type(data) is str:
        # NumPy encodes only ASCII.
        texts = np.asarray(data, object)
        encoded = np.array([text.encode() for text in texts.flat], kind)
        return encoded.reshape(texts.shape)
    made = np.asarray(data, kind, order="C")
    if kind is not None and kind.subdtype is None and made.dtype == kind:
        # NumPy keeps the type of an array if an equal type with other metadata is wanted.
        made = made.view(kind)
    return made
