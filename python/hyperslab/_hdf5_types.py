"""Element types of HDF5 as NumPy's, described as h5py describes them.

What NumPy has no types for is in the metadata of a data type, under h5py's names: ``vlen`` (`str`, `bytes` or
the type of a sequence's elements), ``enum`` (names and values), ``ref`` (`Reference` or `RegionReference`), and
``h5py_encoding`` of text of fixed length. So ``h5py.check_string_dtype`` and the like understand them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np

from hyperslab._native import Reference, RegionReference

__all__ = ["Empty", "dtype_of"]


class Empty:
    """The value of an attribute or array that has an element type, but no shape and no elements."""

    shape = None
    size = None

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Empty) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"


@lru_cache(maxsize=4096)
def dtype_of(text: str) -> np.dtype[Any]:
    """The data type that an element type (`_native.ElementHandle.json`) is in NumPy."""
    return _dtype(json.loads(text))


def _dtype(element: Any) -> np.dtype[Any]:
    if isinstance(element, str):
        return np.dtype(element)
    if "string" in element:
        encoding = "utf-8" if element["utf8"] else "ascii"
        return _with(f"S{element['string']}", {"h5py_encoding": encoding})
    if "enum" in element:
        return _with(element["enum"], {"enum": element["members"]})
    if "fields" in element:
        return _structure(element)
    if "array" in element:
        return np.dtype((_dtype(element["array"]), tuple(element["shape"])))
    if "vlen_string" in element:
        return _with("O", {"vlen": str if element["vlen_string"] else bytes})
    if "vlen" in element:
        return _with("O", {"vlen": _dtype(element["vlen"])})
    return _with("O", {"ref": RegionReference if element["reference"] == "region" else Reference})


def _with(kind: str, metadata: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(kind, metadata=metadata)  # type: ignore[call-overload,no-any-return]


def _structure(element: Any) -> np.dtype[Any]:
    """Members stay where they are in the file, as far as what Python has in their place fits there."""
    names = [name for name, _, _ in element["fields"]]
    formats = [_dtype(kind) for _, kind, _ in element["fields"]]
    offsets = [offset for _, _, offset in element["fields"]]
    ends = sorted(zip(offsets, formats, strict=True), key=lambda member: member[0])
    limits = [*(offset for offset, _ in ends[1:]), element["itemsize"]]
    if any(offset + kind.itemsize > limit for (offset, kind), limit in zip(ends, limits, strict=True)):
        return np.dtype(list(zip(names, formats, strict=True)))
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": element["itemsize"]}
    )
