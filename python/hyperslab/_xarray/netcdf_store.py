"""xarray's store of one group of a NetCDF-4 file that is being written.

xarray encodes variables and decides which dimensions a group has. The file is changed in memory
only: see `netcdf_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xarray import Variable
from xarray.backends.netcdf3 import encode_nc3_attr_value, encode_nc3_variable
from xarray.backends.netCDF4_ import (
    _encode_nc4_variable,
    _ensure_no_forward_slash_in_name,
    _force_native_endianness,
    _get_datatype,
)

from hyperslab import _native
from hyperslab._hdf5.dtypes import string_dtype
from hyperslab._hdf5.group import Datatype, FileGroup
from hyperslab._xarray.files import FileReader, FileTree
from hyperslab._xarray.fits import numbers_that_fit, text_that_fits
from hyperslab._xarray.netcdf_encoding import storage_of
from hyperslab._xarray.netcdf_rows import RowsStore
from hyperslab._xarray.netcdf_writer import Target
from hyperslab._xarray.stored_variable import StoredVariable
from hyperslab.errors import InvalidArgumentError

__all__ = ["MEANINGS", "NetcdfStore"]

# Attributes that turn stored numbers into values.
MEANINGS = frozenset(_native.number_attributes(False))

_COMPLEX = {8: "_PFNC_FLOAT_COMPLEX_TYPE", 16: "_PFNC_DOUBLE_COMPLEX_TYPE"}


class NetcdfStore(RowsStore):
    """One group of a NetCDF-4 file.

    ``is_invalid``: whether attributes may be Boolean, which NetCDF does not have.
    """

    def __init__(
        self,
        tree: FileTree,
        path: str,
        mode: Any,
        *,
        format: str = "NETCDF4",
        keeps: bool = False,
        append_dim: Any = None,
        region: Any = None,
        has_complex: bool = True,
        is_invalid: bool = False,
    ) -> None:
        super().__init__(tree.source, mode, keeps=keeps, append_dim=append_dim, region=region)
        self._tree, self.format, self._path = tree, format, path
        self._has_complex, self._is_invalid = has_complex, is_invalid
        self._start: int | None = None
        group: Any = tree.root
        if path != "/":
            is_new = mode == "w" or path.strip("/") not in tree.root
            if is_new and format == "NETCDF4_CLASSIC":
                raise InvalidArgumentError("Cannot create sub-groups in `NETCDF4_CLASSIC` format.")
            if is_new and mode == "r+":
                raise InvalidArgumentError(f"group {path!r} does not exist in {tree.source}: use mode='a'")
            group = tree.root.require_group(path)
        self._group: Any = group
        if mode == "w" and path == "/" and format == "NETCDF4_CLASSIC":
            # netCDF-C's note that the file has only what classic files have.
            group.attrs.create("_nc3_strict", np.int32(1))
        if mode != "w":
            self._stored = FileReader(tree, path, ()).get_variables()

    def child(self, path: str) -> NetcdfStore:
        """Return the store of another group of the file."""
        return type(self)(
            self._tree,
            path,
            self._mode,
            format=self.format,
            keeps=self._keeps,
            append_dim=self._append_dim,
            region=self._write_region,
            has_complex=self._has_complex,
            is_invalid=self._is_invalid,
        )

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions of the group, with their lengths."""
        return {name: size for name, size, _ in self._group.dimensions._found()}

    def get_parent_dimensions(self) -> dict[str, int]:
        """Return the dimensions of the groups above."""
        found: dict[str, int] = {}
        path = self._path
        while path != "/":
            path = path.rpartition("/")[0] or "/"
            group: Any = self._tree.root if path == "/" else self._tree.group(path)
            for name, size, _ in group.dimensions._found():
                found.setdefault(name, size)
        return found

    def _keeps_type(self, name: str) -> bool:
        return self.format == "NETCDF4_CLASSIC" and self._keeps and name in self._stored

    def _existing(self, name: str) -> StoredVariable:
        return StoredVariable(self._group[name], self._stored[name])

    def _target(self, name: str) -> Target:
        return Target(self._group[name])

    def _is_fixed(self, name: str, axis: int) -> bool:
        return self._group[name].maxshape[axis] is not None

    def _resize(self, dimension: Any, old: int, new: int) -> None:
        self._owner(dimension).resize_dimension(dimension, new)
        self._start = old

    def _owner(self, dimension: str, file: Any = None) -> Any:
        """Return the group that has a dimension: this one, or one above it."""
        root = self._tree.root if file is None else file
        path = self._path
        while True:
            group: Any = root if path == "/" else root[path]
            if path == "/" or dimension in group.dimensions:
                return group
            path = path.rpartition("/")[0] or "/"

    def undo(self, file: Any) -> None:
        """Give a file its old length again."""
        if self._start is not None:
            self._owner(self._append_dim, file).resize_dimension(self._append_dim, self._start)

    def set_dimension(self, dim: Any, length: int, is_unlimited: bool = False) -> None:
        """Make a dimension."""
        _ensure_no_forward_slash_in_name(dim)  # type: ignore[no-untyped-call]
        self._group.create_dimension(dim, None if is_unlimited else length)
        if is_unlimited and length:
            self._group.resize_dimension(dim, length)

    def set_attribute(self, k: Any, v: Any) -> None:
        """Set an attribute of the group."""
        self._set(self._group, k, v)

    def _set(self, node: Any, name: str, value: Any) -> None:
        if self.format == "NETCDF4_CLASSIC":
            value = encode_nc3_attr_value(value)  # type: ignore[no-untyped-call]
        if self._is_invalid and np.asarray(value).dtype.kind == "b":
            node.attrs.create(name, value)
        else:
            node.attrs[name] = value

    def encode_variable(self, v: Any, name: Any = None) -> Any:
        """Encode one variable."""
        v = _force_native_endianness(v)  # type: ignore[no-untyped-call]
        if self.format == "NETCDF4_CLASSIC":
            return encode_nc3_variable(v, name=name)  # type: ignore[no-untyped-call]
        return _encode_nc4_variable(v, name=name)  # type: ignore[no-untyped-call]

    def prepare_variable(
        self, name: str, variable: Variable, check_encoding: bool = False, unlimited_dims: Any = None
    ) -> Any:
        """Make a variable, or find it, and return the target and the values to write."""
        _ensure_no_forward_slash_in_name(name)  # type: ignore[no-untyped-call]
        attributes = dict(variable.attrs)
        fill = attributes.pop("_FillValue", None)
        if isinstance(fill, np.ndarray) and fill.size == 1:
            # The values of attributes of the classic model have an axis.
            fill = fill.ravel()[0]
        dtype: Any = _get_datatype(variable, self.format, raise_on_invalid_encoding=check_encoding)
        storage = storage_of(variable, check_encoding, unlimited_dims, fill)
        data = variable.data
        if name in self._stored:
            array, data = self._replaced(name, variable, fill)
        else:
            if name in self._group and isinstance(self._group[name], FileGroup):
                raise InvalidArgumentError(
                    f"variable {name!r}: there is a group of this name in {self._group.name!r}"
                )
            array = self._group.create_variable(
                name,
                variable.dims,
                self._type(name, dtype),
                fillvalue=fill,
                **storage.keywords,
            )
            if 0 in variable.shape and array.shape != variable.shape:
                # No other variable may have the lengths of its other axes.
                array.resize(variable.shape)
        for key, value in {**storage.attributes, **attributes}.items():
            self._set(array, key, value)
        return Target(array), storage.rounded(data)

    def _type(self, name: str, dtype: Any) -> Any:
        """Return the type of a new variable. Enumerations are types of the group."""
        if dtype is str:
            return string_dtype()
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            return self._complex_type(name, dtype)
        metadata: Mapping[str, Any] = dtype.metadata or {}
        enum, label = metadata.get("enum"), metadata.get("enum_name")
        if not enum or not label:
            return dtype
        if label not in self._group:
            self._group[label] = np.dtype(dtype.str, metadata={"enum": dict(enum)})
        found = self._group[label]
        known: Mapping[str, Any] = getattr(found.dtype, "metadata", None) or {}
        if not isinstance(found, Datatype) or dict(known.get("enum", {})) != dict(enum):
            raise InvalidArgumentError(
                f"Cannot save variable `{name}` because an enum `{label}` already exists in the Dataset "
                "but has a different definition. To fix this error, make sure all variables have a "
                "uniquely named enum in their `encoding['dtype'].metadata` or, if they should share the "
                "same enum type, make sure the enums are identical."
            )
        return found

    def _complex_type(self, name: str, dtype: np.dtype[Any]) -> Any:
        """Return the type of pairs of numbers, as netCDF4-python and h5netcdf name it."""
        label = _COMPLEX.get(dtype.itemsize)
        if label is None or not self._has_complex:
            raise InvalidArgumentError(
                f"variable {name!r} has data type {dtype}: expected "
                + (
                    "complex64 or complex128"
                    if label is None
                    else "numbers that NetCDF has: store .real and .imag, or leave out auto_complex=False"
                )
            )
        if label not in self._group:
            self._group[label] = dtype
        return self._group[label]

    def _replaced(self, name: str, variable: Variable, fill: Any) -> tuple[Any, Any]:
        """Return an existing variable that gets new values and attributes, and the values."""
        stored = self._stored[name]
        if stored.dims != variable.dims or stored.shape != variable.shape:
            raise InvalidArgumentError(
                f"variable {name!r} exists with dimensions {dict(stored.sizes)}, the dataset has "
                f"{dict(variable.sizes)}: rename the variable, or use append_dim or region"
            )
        array = self._group[name]
        given = variable.copy(deep=False)
        given.encoding = {}
        target: Any = self._existing(name)
        given = text_that_fits(name, numbers_that_fit(name, given, target), target)
        # The old attributes would give the new numbers another meaning.
        kept = array.attrs.keys() & MEANINGS
        for key in kept - variable.attrs.keys():
            if key != "units" or " since " in str(array.attrs[key]):
                del array.attrs[key]
        if fill is not None:
            array.attrs["_FillValue"] = fill if array.dtype.kind == "O" else np.asarray(fill, array.dtype)
        return array, given.data
