"""h5py's low-level objects for element types, as far as programs use them."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab._hdf5.dtypes import check_string_dtype, string_dtype
from hyperslab._hdf5.names import text_of
from hyperslab._native import StoredType
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, NameExistsError

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
    "type_id",
]

(
    _INTEGER,
    _FLOAT,
    _TIME,
    _STRING,
    _BITFIELD,
    _OPAQUE,
    _COMPOUND,
    _REFERENCE,
    _ENUM,
    _VLEN,
    _ARRAY,
    _COMPLEX,
) = range(12)
_LITTLE, _BIG = range(2)
_UNLIMITED = 2**64 - 1


class TypeID:
    """An element type."""

    _is_committed = False

    def __init__(self, dtype: np.dtype[Any], stored: StoredType | None = None) -> None:
        self.dtype = dtype
        self._stored = stored

    @property
    def _stored_type(self) -> StoredType:
        """The type in files."""
        return StoredType(self.dtype) if self._stored is None else self._stored

    def py_dtype(self) -> np.dtype[Any]:
        """Return the NumPy type."""
        return self.dtype

    def get_class(self) -> int:
        """Return the type class.

        0 integer, 1 float, 3 string, 4 bits, 5 opaque, 6 compound, 7 reference, 8 enumeration, 9
        variable-length sequence, 10 array, 11 complex.
        """
        return self._stored_type.class_number

    def detect_class(self, tclass: int) -> bool:
        """Return True if the type, or a part of it, is of a class."""
        parts = _parts(self.dtype)
        return self.get_class() == tclass or any(type_id(part).detect_class(tclass) for part in parts)

    def get_size(self) -> int:
        """Return bytes per element; for references and sequences, as in h5py's memory."""
        return self.dtype.itemsize

    def get_order(self) -> int:
        """Return the byte order: 0 least significant byte first, 1 most significant byte first."""
        big = np.dtype(self.dtype.str).newbyteorder(">")
        return _BIG if big == self.dtype and big.itemsize > 1 else _LITTLE

    def get_precision(self) -> int:
        """Return the number of significant bits."""
        return 8 * self.dtype.itemsize

    def is_variable_str(self) -> bool:
        """Return True if elements are text of variable length."""
        found = check_string_dtype(self.dtype)
        return found is not None and found.length is None

    def get_cset(self) -> int:
        """Return the character set of text: 0 ASCII, 1 UTF-8."""
        found = check_string_dtype(self.dtype)
        if found is None:
            raise ArgumentTypeError(f"elements of type {self.dtype} are not text")
        return int(found.encoding == "utf-8")

    def copy(self) -> Self:
        """Return a copy."""
        made = copy.copy(self)
        made._is_committed = False
        if made._stored is not None:
            made._stored = made._stored.transient()
        return made

    def committed(self) -> bool:
        """Return True if the type is an object of a file."""
        return self._is_committed or (self._stored is not None and self._stored.is_committed)

    def commit(self, group: Any, name: bytes, lcpl: Any = None) -> None:
        """Give the type a name in a group."""
        try:
            group._node._commit(name, self._stored_type)
        except NameExistsError as error:
            raise ArgumentTypeError(str(error)) from None

    def lock(self) -> None:
        """Do nothing: types are not shared."""

    close = lock

    def equal(self, other: TypeID) -> bool:
        """Return True if both types are stored in the same way."""
        return self._stored_type == other._stored_type

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeID):
            return NotImplemented
        return self.dtype == other.dtype and self.dtype.metadata == other.dtype.metadata

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.dtype}>"


def _parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """Return the types that a type is made of."""
    if dtype.subdtype is not None:
        return [dtype.base]
    if dtype.names is not None:
        return [dtype[name] for name in dtype.names]
    item = metadata_entry(dtype, "vlen")
    return [] if item in (None, str, bytes) else [np.dtype(item)]


class TypeIntegerID(TypeID):
    """Integers."""

    def get_sign(self) -> int:
        """Return 1 for integers with a sign, 0 for others."""
        return int(self.dtype.kind == "i")


class TypeFloatID(TypeID):
    """Floats."""


class TypeBitfieldID(TypeID):
    """Bits, which are unsigned integers in NumPy."""


class TypeComplexID(TypeID):
    """HDF5's own complex numbers."""

    def get_size(self) -> int:
        """Return bytes per element."""
        return self._stored_type.size

    def get_super(self) -> TypeID:
        """Return the type of both parts."""
        return type_id(_part_of(self.dtype))  # type: ignore[no-any-return]


class TypeOpaqueID(TypeID):
    """Opaque bytes."""


class TypeReferenceID(TypeID):
    """References."""


class TypeVlenID(TypeID):
    """Sequences of variable length."""

    def get_super(self) -> TypeID:
        """Return the type of items."""
        return type_id(np.dtype(metadata_entry(self.dtype, "vlen")))  # type: ignore[no-any-return]


class TypeArrayID(TypeID):
    """Small arrays."""

    def get_super(self) -> TypeID:
        """Return the type of items."""
        return type_id(self.dtype.base)  # type: ignore[no-any-return]

    def get_array_ndims(self) -> int:
        """Return the number of axes."""
        return len(self.dtype.shape)

    def get_array_dims(self) -> tuple[int, ...]:
        """Return the shape."""
        return self.dtype.shape


class TypeEnumID(TypeID):
    """Enumerations."""

    def _members(self) -> dict[str, int]:
        if self.dtype.kind == "b":
            return {"FALSE": 0, "TRUE": 1}
        return metadata_entry(self.dtype, "enum") or {}

    def get_super(self) -> TypeID:
        """Return the type of integers."""
        base = "i1" if self.dtype.kind == "b" else self.dtype.str
        return type_id(np.dtype(base))  # type: ignore[no-any-return]

    def enum_insert(self, name: bytes, value: int) -> None:
        """Add a member."""
        members = {**self._members(), text_of(name): value}
        # NumPy keeps old metadata if a type has some.
        self.dtype = np.dtype(self.dtype.str, metadata={"enum": members})
        self._stored = StoredType.enumeration(self.dtype)

    def get_nmembers(self) -> int:
        """Return the number of members."""
        return len(self._members())

    def get_member_name(self, index: int) -> bytes:
        """Return the name of a member."""
        return _encoded(list(self._members())[index])

    def get_member_value(self, index: int) -> int:
        """Return the value of a member."""
        return int(list(self._members().values())[index])

    def enum_nameof(self, value: int) -> bytes:
        """Return the name of a value."""
        for name, found in self._members().items():
            if found == value:
                return _encoded(name)
        raise InvalidArgumentError(f"Unable to get name (value {value} is not in {self._members()})")

    def enum_valueof(self, name: bytes) -> int:
        """Return the value of a name."""
        return int(self._members()[text_of(name)])


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the parts of complex numbers."""
    return np.dtype(f"f{dtype.itemsize // 2}").newbyteorder(dtype.byteorder)


class TypeCompoundID(TypeID):
    """Structures. Complex numbers are structures of ``r`` and ``i``."""

    def insert(self, name: bytes, offset: int, field: TypeID) -> None:
        """Add a member."""
        dtype = self.dtype
        fields = {} if dtype.fields is None else dict(dtype.fields)
        names = [*(dtype.names or ()), text_of(name)]
        self.dtype = np.dtype(
            {
                "names": names,
                "formats": [*(fields[one][0] for one in names[:-1]), field.dtype],
                "offsets": [*(fields[one][1] for one in names[:-1]), offset],
                "itemsize": dtype.itemsize,
            }
        )
        self._stored = None

    def _members(self) -> list[tuple[str, np.dtype[Any], int]]:
        """Return names, types and offsets."""
        dtype = self.dtype
        if dtype.kind == "c":
            part = _part_of(dtype)
            return [("r", part, 0), ("i", part, part.itemsize)]
        fields: Any = dtype.fields
        return [(name, fields[name][0], fields[name][1]) for name in dtype.names or ()]

    def get_nmembers(self) -> int:
        """Return the number of members."""
        return len(self._members())

    def get_member_name(self, member: int) -> bytes:
        """Return the name of a member."""
        return _encoded(self._members()[member][0])

    def get_member_index(self, name: bytes) -> int:
        """Return the number of a member."""
        return [one for one, *_ in self._members()].index(text_of(name))

    def get_member_type(self, member: int) -> TypeID:
        """Return the type of a member."""
        return type_id(self._members()[member][1])  # type: ignore[no-any-return]

    def get_member_class(self, member: int) -> int:
        """Return the type class of a member."""
        return self.get_member_type(member).get_class()

    def get_member_offset(self, member: int) -> int:
        """Return the bytes before a member, in NumPy's structure."""
        return self._members()[member][2]


class TypeStringID(TypeID):
    """Text of fixed or variable length."""

    def __init__(self, dtype: np.dtype[Any], padding: int | None = None, stored: Any = None) -> None:
        super().__init__(dtype, stored)
        self._padding = padding

    @property
    def _stored_type(self) -> StoredType:
        if self._stored is not None:
            return self._stored
        if self._padding is None:
            return StoredType(self.dtype)
        found = check_string_dtype(self.dtype)
        length = None if found is None else found.length
        return StoredType.text(length, self._padding, self.get_cset() == 1)

    def set_size(self, size: int) -> None:
        """Set the bytes of each text; ``VARIABLE``: variable length."""
        encoding = "utf-8" if self.get_cset() else "ascii"
        self.dtype = string_dtype(encoding, None if size >= _UNLIMITED else int(size))
        self._stored = None

    def set_cset(self, cset: int) -> None:
        """Set the character set: 0 ASCII, 1 UTF-8."""
        found = check_string_dtype(self.dtype)
        self.dtype = string_dtype("utf-8" if cset else "ascii", None if found is None else found.length)
        self._stored = None

    def set_strpad(self, pad: int) -> None:
        """Set the end of text: 0 a NUL, 1 padded with NULs, 2 padded with spaces."""
        self._padding, self._stored = int(pad), None

    def get_strpad(self) -> int:
        """Return the end of text."""
        if self._padding is None:
            return 0 if self.is_variable_str() else 1
        return self._padding


_CLASSES: dict[int, type[TypeID]] = {
    _INTEGER: TypeIntegerID,
    _FLOAT: TypeFloatID,
    _STRING: TypeStringID,
    _BITFIELD: TypeBitfieldID,
    _OPAQUE: TypeOpaqueID,
    _COMPOUND: TypeCompoundID,
    _REFERENCE: TypeReferenceID,
    _ENUM: TypeEnumID,
    _VLEN: TypeVlenID,
    _ARRAY: TypeArrayID,
    _COMPLEX: TypeComplexID,
}


def type_id(dtype: np.dtype[Any], stored: StoredType | None = None) -> Any:
    """Return the low-level object of a type."""
    kind = _CLASSES.get((StoredType(dtype) if stored is None else stored).class_number, TypeID)
    return TypeStringID(dtype, None, stored) if kind is TypeStringID else kind(dtype, stored)
