"""Element types of HDF5 as NumPy's, described as h5py describes them.

What NumPy has no types for is in the metadata of a data type, under h5py's names: ``vlen`` (`str`, `bytes` or
the type of a sequence's elements), ``enum`` (names and values), ``ref`` (`Reference` or `RegionReference`),
``h5py_encoding`` of text of fixed length, and ``h5py_opaque`` of dates. So ``h5py.check_string_dtype`` and
the like understand them.
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

__all__ = ["Empty", "dtype_of", "is_text", "noted"]


def noted(dtype: np.dtype[Any], key: str) -> Any:
    """What the metadata of a data type says; ``None``: nothing."""
    return None if dtype.metadata is None else dict(dtype.metadata).get(key)


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether elements are text of variable length."""
    return noted(dtype, "vlen") in (str, bytes)


class Empty(Kin):
    """The value of an attribute or array that has an element type, but no shape and no elements."""

    shape = None
    size = None

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        # Also h5py's own.
        if type(other).__name__ != "Empty":
            return NotImplemented
        return bool(self.dtype == getattr(other, "dtype", None))

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"


def dtype_of(text: str) -> np.dtype[Any]:
    """The data type that an element type (`_native.ElementHandle.json`) is in NumPy."""
    # The dictionary of an enumeration belongs to the caller, who may change it: it is made anew.
    return _dtype(json.loads(text)) if '"enum"' in text else _shared(text)


@lru_cache(maxsize=4096)
def _shared(text: str) -> np.dtype[Any]:
    """A data type that nobody can change."""
    return _dtype(json.loads(text))


def _dtype(element: Any) -> np.dtype[Any]:
    if isinstance(element, str):
        kind = np.dtype(element)
        # Opaque bytes that say that they are dates or text.
        return _with(element, {"h5py_opaque": True}) if kind.kind in "mMSU" else kind
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
    if "unsupported" in element:
        raise DataTypeError(f"{element['unsupported']} is not supported: NumPy has no such elements")
    return _with("O", {"ref": RegionReference if element["reference"] == "region" else Reference})


def _with(kind: str, metadata: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(kind, metadata=metadata)


def _structure(element: Any) -> np.dtype[Any]:
    """Members are where h5py has them: where they are in the file, but for text of variable length, which
    takes 8 bytes in place of 16. Where Python's objects do not fit in there, they follow each other.
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
    """How many texts of variable length an element holds."""
    if isinstance(element, str):
        return 0
    if "fields" in element:
        return sum(_texts(kind) for _, kind, _ in element["fields"])
    if "array" in element:
        return int(math.prod(element["shape"])) * _texts(element["array"])
    return int("vlen_string" in element)
