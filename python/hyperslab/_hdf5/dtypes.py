"""h5py's data types that NumPy lacks.

These are text and sequences of variable length, enumerations, and references. The metadata of the
NumPy type holds the details, under h5py's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab._native import Reference, RegionReference
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = [
    "StringInfo",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "enum_dtype",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "vlen_dtype",
]

_Dtype = np.dtype[Any]


class StringInfo(NamedTuple):
    """The result of `check_string_dtype`."""

    encoding: str
    """``"utf-8"`` or ``"ascii"``."""
    length: int | None
    """Bytes of each text; ``None``: variable length."""


def _note(dtype: Any, name: str) -> Any:
    # As in h5py, a Python type such as `str` has no notes.
    return metadata_entry(dtype, name) if isinstance(dtype, np.dtype) else None


def _noting(kind: npt.DTypeLike, **metadata: Any) -> _Dtype:
    return np.dtype(kind, metadata=metadata)


ref_dtype: _Dtype = _noting("O", ref=Reference)
"""References to objects."""
regionref_dtype: _Dtype = _noting("O", ref=RegionReference)
"""References to elements of datasets."""


def string_dtype(encoding: str = "utf-8", length: int | None = None) -> _Dtype:
    """Return the type of text of ``length`` bytes, or of variable length."""
    encoding = encoding.lower().replace("_", "-")
    encoding = "utf-8" if encoding == "utf8" else encoding
    if encoding not in ("ascii", "utf-8"):
        raise InvalidArgumentError(f"Invalid encoding ({encoding!r}); 'utf-8' or 'ascii' allowed")
    if length is None:
        return _noting("O", vlen=str if encoding == "utf-8" else bytes)
    if isinstance(length, (int, np.integer)):
        return _noting(f"S{length}", h5py_encoding=encoding)
    raise ArgumentTypeError(f"length must be integer or None (got {length!r})")


def vlen_dtype(basetype: npt.DTypeLike) -> _Dtype:
    """Return the type of sequences of variable length."""
    return _noting("O", vlen=basetype)


def enum_dtype(values_dict: Mapping[str, int], basetype: npt.DTypeLike = np.uint8) -> _Dtype:
    """Return the type of integers that have names."""
    kind = np.dtype(basetype)
    if kind.kind not in "iu":
        raise ArgumentTypeError("Only integers can be used as enums")
    return _noting(kind, enum=dict(values_dict))


def opaque_dtype(np_dtype: npt.DTypeLike) -> _Dtype:
    """Return the type of elements stored as opaque bytes, such as dates."""
    kind = np.dtype(np_dtype)
    if kind.kind == "O" or kind.names is not None or kind.subdtype is not None:
        raise ArgumentTypeError(f"elements of type {kind} cannot be opaque")
    return _noting(kind, h5py_opaque=True)


def complex_compat_dtype(dt: npt.DTypeLike) -> _Dtype:
    """Return the structure of ``r`` and ``i`` that stores complex numbers."""
    kind = np.dtype(dt)
    if kind.kind != "c":
        raise ArgumentTypeError(f"expected a complex type, found {kind}")
    part = np.dtype(f"f{kind.itemsize // 2}").newbyteorder(kind.byteorder)
    return np.dtype([("r", part), ("i", part)])


def check_complex_dtype(dt: _Dtype) -> _Dtype | None:
    """Return the complex type of a complex type or its structure; ``None`` for other types."""
    if dt.kind == "c":
        return dt
    if dt.names != ("r", "i") or dt["r"] != dt["i"] or dt["r"].kind != "f":
        return None
    part = dt["r"]
    whole = np.dtype(f"c{2 * part.itemsize}") if part.itemsize in (4, 8, np.dtype("g").itemsize) else None
    return None if whole is None or dt.itemsize != whole.itemsize else whole.newbyteorder(part.byteorder)


def check_string_dtype(dt: _Dtype) -> StringInfo | None:
    """Return encoding and length of text; ``None`` if the type is not text."""
    kind = _note(dt, "vlen")
    if kind is str:
        return StringInfo("utf-8", None)
    if kind is bytes:
        return StringInfo("ascii", None)
    if isinstance(dt, np.dtype) and dt.kind == "S":
        return StringInfo(_note(dt, "h5py_encoding") or "ascii", dt.itemsize)
    return None


def check_vlen_dtype(dt: _Dtype) -> Any:
    """Return the item type of sequences of variable length; ``None`` for other types."""
    return _note(dt, "vlen")


def check_enum_dtype(dt: _Dtype) -> dict[str, int] | None:
    """Return names and values of an enumeration; ``None`` for other types."""
    found: dict[str, int] | None = _note(dt, "enum")
    return found


def check_ref_dtype(dt: _Dtype) -> type | None:
    """Return `Reference` or `RegionReference`; ``None`` for other types."""
    found: type | None = _note(dt, "ref")
    return found


def check_opaque_dtype(dt: _Dtype) -> bool:
    """Return True if elements are stored as opaque bytes."""
    return bool(_note(dt, "h5py_opaque"))


def special_dtype(**kwds: Any) -> _Dtype:
    """The older form of `vlen_dtype`, `enum_dtype`, `ref_dtype`: ``vlen=``, ``enum=``, ``ref=``."""
    if len(kwds) != 1:
        raise ArgumentTypeError("Exactly one keyword may be provided")
    name, value = kwds.popitem()
    if name == "vlen":
        return (
            string_dtype("utf-8" if value is str else "ascii") if value in (str, bytes) else vlen_dtype(value)
        )
    if name == "enum":
        try:
            basetype, values = value
        except (TypeError, ValueError):
            raise ArgumentTypeError("Enums must be created from a 2-tuple (basetype, values_dict)") from None
        return enum_dtype(values, basetype)
    if name == "ref":
        if value not in (Reference, RegionReference):
            raise InvalidArgumentError("Ref class must be Reference or RegionReference")
        return ref_dtype if value is Reference else regionref_dtype
    raise ArgumentTypeError(f'Unknown special type "{name}"')


def check_dtype(**kwds: Any) -> Any:
    """The older form of `check_vlen_dtype`, `check_enum_dtype` and `check_ref_dtype`."""
    if len(kwds) != 1:
        raise ArgumentTypeError("Exactly one keyword may be provided")
    name, dt = kwds.popitem()
    if name not in ("vlen", "enum", "ref"):
        return None
    return _note(dt, name)
