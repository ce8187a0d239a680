"""Notes in the metadata of NumPy types, which describe types that NumPy lacks; `Empty`.

Types of HDF5 files have h5py's notes: ``vlen``, ``enum``, ``ref``, ``h5py_encoding``,
``h5py_opaque``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab._base.kin import Kin

__all__ = ["Empty", "is_text", "metadata_entry"]


def metadata_entry(dtype: np.dtype[Any], key: str) -> Any:
    """Return an entry of a data type's metadata, or ``None``."""
    return None if dtype.metadata is None else dict(dtype.metadata).get(key)


def is_text(dtype: np.dtype[Any]) -> bool:
    """Return True if elements are text of variable length."""
    return metadata_entry(dtype, "vlen") in (str, bytes)


class Empty(Kin):
    """The value of an attribute or array with an element type but no shape and no elements."""

    shape = None
    size = None

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        # Equality includes h5py's own `Empty`.
        if type(other).__name__ != "Empty":
            return NotImplemented
        return bool(self.dtype == getattr(other, "dtype", None))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"
