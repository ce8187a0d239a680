"""Element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab._hdf5.dtypes import (
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    complex_compat_dtype,
    enum_dtype,
    opaque_dtype,
    ref_dtype,
    regionref_dtype,
    special_dtype,
    string_dtype,
    vlen_dtype,
)
from hyperslab._hdf5.type_ids import (
    TypeArrayID,
    TypeBitfieldID,
    TypeComplexID,
    TypeCompoundID,
    TypeEnumID,
    TypeFloatID,
    TypeID,
    TypeIntegerID,
    TypeOpaqueID,
    TypeReferenceID,
    TypeStringID,
    TypeVlenID,
    type_id,
)
from hyperslab._native import StoredType
from hyperslab.errors import InvalidArgumentError

__all__ = [
    "TypeArrayID",
    "TypeBitfieldID",
    "TypeComplexID",
    "TypeCompoundID",
    "TypeEnumID",
    "TypeFloatID",
    "TypeID",
    "TypeIntegerID",
    "TypeOpaqueID",
    "TypeReferenceID",
    "TypeStringID",
    "TypeVlenID",
    "array_create",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "create",
    "enum_create",
    "enum_dtype",
    "opaque_dtype",
    "py_create",
    "ref_dtype",
    "regionref_dtype",
    "special_dtype",
    "string_dtype",
    "vlen_create",
    "vlen_dtype",
]

INTEGER, FLOAT, TIME, STRING, BITFIELD, OPAQUE, COMPOUND, REFERENCE, ENUM, VLEN, ARRAY, COMPLEX = range(12)
NO_CLASS = -1
STR_NULLTERM, STR_NULLPAD, STR_SPACEPAD = range(3)
CSET_ASCII, CSET_UTF8 = range(2)
ORDER_LE, ORDER_BE = range(2)
VARIABLE = 2**64 - 1

C_S1 = TypeStringID(np.dtype("S1"), STR_NULLTERM)
FORTRAN_S1 = TypeStringID(np.dtype("S1"), STR_SPACEPAD)
STD_REF_OBJ = type_id(ref_dtype)
STD_REF_DSETREG = type_id(regionref_dtype)


def _number(text: str) -> TypeID:
    found: TypeID = type_id(np.dtype(text))
    return found


STD_I8LE, STD_I16LE, STD_I32LE, STD_I64LE = map(_number, ("i1", "<i2", "<i4", "<i8"))
STD_I8BE, STD_I16BE, STD_I32BE, STD_I64BE = map(_number, ("i1", ">i2", ">i4", ">i8"))
STD_U8LE, STD_U16LE, STD_U32LE, STD_U64LE = map(_number, ("u1", "<u2", "<u4", "<u8"))
STD_U8BE, STD_U16BE, STD_U32BE, STD_U64BE = map(_number, ("u1", ">u2", ">u4", ">u8"))
NATIVE_INT8, NATIVE_INT16, NATIVE_INT32, NATIVE_INT64 = map(_number, ("i1", "=i2", "=i4", "=i8"))
NATIVE_UINT8, NATIVE_UINT16, NATIVE_UINT32, NATIVE_UINT64 = map(_number, ("u1", "=u2", "=u4", "=u8"))
IEEE_F16LE, IEEE_F32LE, IEEE_F64LE = map(_number, ("<f2", "<f4", "<f8"))
IEEE_F16BE, IEEE_F32BE, IEEE_F64BE = map(_number, (">f2", ">f4", ">f8"))
IEEE_F128LE, IEEE_F128BE = map(_number, ("<g", ">g"))
NATIVE_FLOAT16 = _number("=f2")
NATIVE_FLOAT, NATIVE_DOUBLE, NATIVE_LDOUBLE = map(_number, ("=f4", "=f8", "=g"))


def _bits(size: int, order: str) -> TypeID:
    dtype = np.dtype(f"{order}u{size}")
    return TypeBitfieldID(dtype, StoredType.bitfield(size, order == ">"))


STD_B8LE, STD_B16LE, STD_B32LE, STD_B64LE = (_bits(size, "<") for size in (1, 2, 4, 8))
STD_B8BE, STD_B16BE, STD_B32BE, STD_B64BE = (_bits(size, ">") for size in (1, 2, 4, 8))
NATIVE_B8, NATIVE_B16, NATIVE_B32, NATIVE_B64 = STD_B8LE, STD_B16LE, STD_B32LE, STD_B64LE


def _complex(part: TypeID) -> TypeID:
    stored = StoredType.complex(part._stored_type)
    # NumPy has no complex numbers of half-precision floats.
    dtype = part.dtype
    size = {2: 8}.get(dtype.itemsize, 2 * dtype.itemsize)
    return TypeComplexID(np.dtype(f"c{size}").newbyteorder(dtype.byteorder), stored)


COMPLEX_IEEE_F16LE, COMPLEX_IEEE_F16BE = map(_complex, (IEEE_F16LE, IEEE_F16BE))
COMPLEX_IEEE_F32LE, COMPLEX_IEEE_F32BE = map(_complex, (IEEE_F32LE, IEEE_F32BE))
COMPLEX_IEEE_F64LE, COMPLEX_IEEE_F64BE = map(_complex, (IEEE_F64LE, IEEE_F64BE))
NATIVE_FLOAT_COMPLEX, NATIVE_DOUBLE_COMPLEX, NATIVE_LDOUBLE_COMPLEX = map(
    _complex, (NATIVE_FLOAT, NATIVE_DOUBLE, NATIVE_LDOUBLE)
)


def py_create(dtype_in: Any, logical: bool = False, aligned: bool = False) -> TypeID:
    """Return the type of NumPy's elements."""
    found: TypeID = type_id(np.dtype(dtype_in))
    return found


def create(classtype: int, size: int) -> TypeCompoundID:
    """Return a new structure type of ``size`` bytes without members."""
    if classtype != COMPOUND:
        raise InvalidArgumentError("create: only structures (COMPOUND) are made so; use py_create")
    return TypeCompoundID(np.dtype({"names": [], "formats": [], "offsets": [], "itemsize": size}))


def enum_create(base: TypeID) -> TypeEnumID:
    """Return a new enumeration without members."""
    return TypeEnumID(np.dtype(base.dtype, metadata={"enum": {}}))


def vlen_create(base: TypeID) -> TypeVlenID:
    """Return the type of sequences of variable length."""
    return TypeVlenID(vlen_dtype(base.dtype))


def array_create(base: TypeID, dims_tpl: Sequence[int]) -> TypeID:
    """Return the type of small arrays."""
    found: TypeID = type_id(np.dtype((base.dtype, tuple(dims_tpl))))
    return found


def py_get_enum(dt: np.dtype[Any]) -> Mapping[str, int] | None:
    """The older form of `check_enum_dtype`."""
    return check_enum_dtype(dt)
