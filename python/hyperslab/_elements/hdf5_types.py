"""HDF5 element types as NumPy types, described as in h5py.

If NumPy lacks a type, the metadata of the data type describes it under h5py's names:

- ``vlen``: `str`, `bytes` or the item type of sequences.
- ``enum``: names and values.
- ``ref``: `Reference` or `RegionReference`.
- ``h5py_encoding``: the encoding of fixed-length text.
- ``h5py_opaque``: true for dates.

The functions of h5py, such as ``h5py.check_string_dtype``, understand these types.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

import numpy as np

from hyperslab._base.kin import Kin
from hyperslab._native import Reference, RegionReference
from hyperslab.errors import DataTypeError

__all__ = ["Empty", "dtype_of", "is_text", "metadata_entry"]


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


def dtype_of(text: str) -> np.dtype[Any]:
    """Return the NumPy type for an element type (`_native.ElementHandle.json`)."""
    # Enumerations are not cached: the caller may change their dictionary.
    return _dtype(json.loads(text)) if '"enum"' in text else _cached_dtype(text)


@lru_cache(maxsize=4096)
def _cached_dtype(text: str) -> np.dtype[Any]:
    """Return a cached data type. It must be one that callers cannot change."""
    return _dtype(json.loads(text))


def _dtype(element: Any) -> np.dtype[Any]:
    if isinstance(element, str):
        kind = np.dtype(element)
        # Opaque bytes that stand for dates or text.
        return _with_metadata(element, {"h5py_opaque": True}) if kind.kind in "mMSU" else kind
    if "string" in element:
        encoding = "utf-8" if element["utf8"] else "ascii"
        return _with_metadata(f"S{element['string']}", {"h5py_encoding": encoding})
    if "enum" in element:
        return _with_metadata(element["enum"], {"enum": element["members"]})
    if "fields" in element:
        return _structure(element)
    if "array" in element:
        return np.dtype((_dtype(element["array"]), tuple(element["shape"])))
    if "vlen_string" in element:
        return _with_metadata("O", {"vlen": str if element["vlen_string"] else bytes})
    if "vlen" in element:
        return _with_metadata("O", {"vlen": _dtype(element["vlen"])})
    if "unsupported" in element:
        raise DataTypeError(f"{element['unsupported']} is not supported: NumPy has no such elements")
    return _with_metadata("O", {"ref": RegionReference if element["reference"] == "region" else Reference})


def _with_metadata(kind: str, metadata: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(kind, metadata=metadata)


def _structure(element: Any) -> np.dtype[Any]:
    """Return a structure type with the member offsets of h5py.

    These are the offsets in the file, except that variable-length text takes 8 bytes instead of 16.
    If Python's objects do not fit there, members follow each other.
    """
    names = [name for name, _, _ in element["fields"]]
    formats = [_dtype(kind) for _, kind, _ in element["fields"]]
    in_order = sorted(range(len(names)), key=lambda index: element["fields"][index][2])
    offsets, saved, end, fits = [0] * len(names), 0, 0, True
    for index in in_order:
        _, kind, offset = element["fields"][index]
        offsets[index] = offset - saved
        fits = fits and offsets[index] >= end
        end = offsets[index] + formats[index].itemsize
        saved += 8 * _texts(kind)
    size = element["itemsize"] - saved
    if not fits or end > size:
        return np.dtype(list(zip(names, formats, strict=True)))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _texts(element: Any) -> int:
    """Return the number of variable-length texts in an element."""
    if isinstance(element, str):
        return 0
    if "fields" in element:
        return sum(_texts(kind) for _, kind, _ in element["fields"])
    if "array" in element:
        return int(math.prod(element["shape"])) * _texts(element["array"])
    return int("vlen_string" in element)
