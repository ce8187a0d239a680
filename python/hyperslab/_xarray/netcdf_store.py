"""xarray's store of one group of a NetCDF-4 file that is being written.

xarray encodes variables and decides which dimensions a group has. The file is changed in memory
only: see `netcdf_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from xarray import Dataset, Variable, conventions
from xarray.backends.common import ArrayWriter, WritableCFDataStore
from xarray.backends.common import _encode_variable_name as _untyped_name
from xarray.backends.netcdf3 import encode_nc3_attr_value, encode_nc3_variable
from xarray.backends.netCDF4_ import (
    _encode_nc4_variable,
    _ensure_no_forward_slash_in_name,
    _force_native_endianness,
    _get_datatype,
)
from xarray.backends.zarr import (
    ZarrStore,
    _validate_and_transpose_existing_dims,
    _validate_datatypes_for_zarr_append,
)
from xarray.coding.strings import check_vlen_dtype
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.dtypes import string_dtype
from hyperslab._hdf5.group import Datatype, FileGroup
from hyperslab._xarray import checks
from hyperslab._xarray.files import FileReader, FileTree
from hyperslab._xarray.fits import numbers_that_fit, text_that_fits
from hyperslab._xarray.netcdf_encoding import storage_of
from hyperslab._xarray.stored_variable import StoredVariable
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["MEANINGS", "NetcdfStore", "NetcdfWriter", "Target"]

# Attributes that turn stored numbers into values.
MEANINGS = frozenset(
    {
        "_FillValue",
        "_Unsigned",
        "add_offset",
        "calendar",
        "dtype",
        "missing_value",
        "scale_factor",
        "units",
    }
)

_COMPLEX = {8: "_PFNC_FLOAT_COMPLEX_TYPE", 16: "_PFNC_DOUBLE_COMPLEX_TYPE"}


class Target:
    """A variable of a file, and the part of it to write."""

    def __init__(self, array: FileArray, region: tuple[slice, ...] | None = None) -> None:
        self.array, self.region = array, region


class NetcdfWriter(ArrayWriter):
    """Collects the values to write. xarray uses it as its writer of arrays."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.in_memory: list[tuple[Any, Target]] = []
        self.lazy: list[tuple[Any, Target]] = []

    def add(self, source: Any, target: Any, region: Any = None) -> None:
        """Keep values for `write`."""
        if is_chunked_array(source):
            if type(source).__module__.partition(".")[0] != "dask":
                raise ArgumentTypeError(f"expected chunked arrays of dask, found {type(source)!r}")
            self.lazy.append((source, target))
        else:
            self.in_memory.append((source, target))

    def write(self, load_first: bool) -> None:
        """Write the values that are no blocks of dask.

        ``load_first``: whether to load lazy values before the first write, because they may be read
        from the file that is written.
        """
        if load_first:
            self.in_memory = [(np.asarray(source), target) for source, target in self.in_memory]
        for source, target in self.in_memory:
            target.array[target.region or ...] = np.asarray(source)


class NetcdfStore(WritableCFDataStore):
    """One group of a file.

    ``mode``: ``w`` for a new file; ``a``, ``a-``, ``r+`` as in `to_zarr`. ``keeps``: whether existing
    variables keep their encoding and their attributes, as in `to_zarr`. Otherwise they get those of
    the dataset, as in ``Dataset.to_netcdf(mode="a")``. ``is_invalid``: whether attributes may be
    Boolean, which NetCDF does not have.
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
        self._tree, self._mode, self.format, self._keeps = tree, mode, format, keeps
        self._append_dim, self._write_region = append_dim, region
        self._has_complex, self._is_invalid = has_complex, is_invalid
        self._start: int | None = None
        self._coordinates: set[Any] = set()
        self._path = path
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
        self._stored: dict[str, Variable] = {}
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

    def dump(
        self, ds: Dataset, writer: NetcdfWriter, encoding: Mapping[str, Any] | None, unlimited_dims: Any
    ) -> None:
        """Make a dataset's variables, and collect the values to write."""
        from xarray.backends.writers import dump_to_store

        try:
            if self._write_region is not None:
                ds = cast(Any, ZarrStore)._validate_and_autodetect_region(self, ds)
            if self._keeps and encoding:
                cast(Any, ZarrStore)._validate_encoding(self, encoding)
            self._coordinates = set(ds.coords)
            dump_to_store(ds, self, writer, encoding=encoding, unlimited_dims=unlimited_dims)  # type: ignore[no-untyped-call]
        except (ValueError, KeyError) as error:
            if error.args and isinstance(error.args[0], str):
                # These are the checks of xarray's `to_zarr`.
                text = error.args[0].replace("to_zarr()", "to_netcdf()").replace("Zarr store", "file")
                error.args = (text, *error.args[1:])
            raise

    _auto_detect_regions = cast(Any, ZarrStore)._auto_detect_regions

    # ---- the existing group

    def array_keys(self) -> tuple[str, ...]:
        """Return the names of the existing variables."""
        return tuple(self._stored)

    def open_store_variable(self, name: str) -> Variable:
        """Return an existing variable, before it is decoded."""
        return self._stored[name].copy(deep=False)

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

    def _existing(self, name: str) -> StoredVariable:
        return StoredVariable(self._group[name], self._stored[name])

    # ---- xarray's steps

    def store(
        self,
        variables: Any,
        attributes: Any,
        check_encoding_set: Any = frozenset(),
        writer: Any = None,
        unlimited_dims: Any = None,
    ) -> None:
        """Encode variables, make those that are new, and collect the values to write."""
        if not self._keeps:
            super().store(variables, attributes, check_encoding_set, writer, unlimited_dims)  # type: ignore[no-untyped-call]
            return
        stored = [name for name in variables if _stored_name(name) in self._stored]
        new = [name for name in variables if name not in stored]
        if self._mode == "r+" and new:
            raise InvalidArgumentError(
                f"dataset contains non-pre-existing variables {new!r}, which is not allowed in "
                "to_netcdf() with mode='r+'. To allow writing new variables, set mode='a'."
            )
        dimensions = self.get_parent_dimensions() | self.get_dimensions()
        if self._append_dim is not None and self._append_dim not in dimensions:
            raise InvalidArgumentError(
                f"append_dim={self._append_dim!r} does not match any existing dataset dimensions {dimensions}"
            )
        made, attributes = self.encode({name: variables[name] for name in new}, attributes)  # type: ignore[no-untyped-call]
        kept = self._encode_stored({name: variables[name] for name in stored})
        encoded = {name: {**made, **kept}[name] for name in variables}
        if self._append_dim is not None or new:
            sizes = {name: variable.sizes for name, variable in self._stored.items()}
            checks.check_dimensions(encoded, sizes, self._append_dim)
        static = {name for name in stored if self._is_static(name, encoded[name])}
        start = self._lengthen(encoded, dimensions)
        if self._mode != "r+":
            self.set_attributes(attributes)  # type: ignore[no-untyped-call]
            self._set_new_dimensions({name: encoded[name] for name in new}, dimensions, unlimited_dims)
        for name, variable in encoded.items():
            region = dict.fromkeys(variable.dims, slice(None)) | dict(self._write_region or {})
            if name in new:
                target, source = self.prepare_variable(
                    _stored_name(name), variable, name in check_encoding_set, unlimited_dims
                )
            elif name in static:
                continue
            else:
                if self._append_dim in variable.dims:
                    region[self._append_dim] = slice(start, start + variable.sizes[self._append_dim])
                target, source = Target(self._group[_stored_name(name)]), variable.data
            target.region = tuple(region[name] for name in variable.dims)
            writer.add(source, target)

    def _encode_stored(self, variables: Mapping[Any, Variable]) -> dict[Any, Variable]:
        """Return variables in the encoding of the stored ones."""
        decoded, _, _ = conventions.decode_cf_variables(
            {name: self.open_store_variable(_stored_name(name)) for name in variables}, {}
        )
        prepared, encodings = {}, {}
        for name, variable in variables.items():
            stored = decoded[name]
            array: Any = self._existing(name)
            # Text of any length fits text of variable length, and characters are padded.
            is_text = check_vlen_dtype(array.dtype) is str and variable.dtype.kind in "UOT"  # type: ignore[no-untyped-call]
            are_characters = array.ndim > stored.ndim and variable.dtype.kind == "S"
            if not (is_text or are_characters):
                _validate_datatypes_for_zarr_append(name, stored, variable)  # type: ignore[no-untyped-call]
            given = variable.copy(deep=False)
            given.encoding = dict(stored.encoding)
            encodings[name] = dict(stored.encoding)
            checks.check_raw(name, given, array)
            if array.ndim > stored.ndim:
                # Text as an array of characters.
                array.dtype = np.dtype(f"S{max(array.shape[-1], 1)}")
            prepared[name] = text_that_fits(name, numbers_that_fit(name, given, array), array)
        encoded, _ = self.encode(prepared, {})  # type: ignore[no-untyped-call]
        for name, variable in encoded.items():
            raw = self._stored[_stored_name(name)]
            variable = _padded(variable, raw) if raw.ndim > decoded[name].ndim else variable
            encoded[name] = _validate_and_transpose_existing_dims(  # type: ignore[no-untyped-call]
                name, variable, raw, self._write_region, self._append_dim
            )
            checks.check_meaning(
                name, variables[name], variable, encodings[name], cast(Any, self._existing(name))
            )
        return dict(encoded)

    def _is_static(self, name: Any, variable: Variable) -> bool:
        """Return True if a stored variable is kept. Raises an error if it differs."""
        if self._append_dim is None or self._append_dim in variable.dims:
            return False
        is_coordinate = name in self._coordinates
        if self._mode != "a-" or (is_coordinate and variable.ndim > 0):
            array: Any = self._existing(name)
            checks.check_same(name, variable, array, self._append_dim, is_coordinate)
        return True

    def _lengthen(self, variables: Mapping[Any, Variable], dimensions: Mapping[str, int]) -> int:
        """Lengthen the dimension to append to, and return the old length."""
        dimension = self._append_dim
        if dimension is None:
            return 0
        start = dimensions[dimension]
        added = {v.sizes[dimension] for v in variables.values() if dimension in v.dims}
        if not added:
            return start
        for name, variable in variables.items():
            if name in self._stored and dimension in variable.dims:
                array = self._group[name]
                if array.maxshape[variable.dims.index(dimension)] is not None:
                    raise InvalidArgumentError(
                        f"append_dim={dimension!r}: the dimension is fixed to {start} elements in "
                        f"{self._tree.source}: write all of the dataset anew, with "
                        f"unlimited_dims=[{dimension!r}]"
                    )
        self._owner(dimension).resize_dimension(dimension, start + max(added))
        self._start = start
        return start

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

    def _set_new_dimensions(
        self, variables: Mapping[Any, Variable], dimensions: Mapping[str, int], unlimited_dims: Any
    ) -> None:
        known = dict(dimensions)
        for variable in variables.values():
            for name, length in variable.sizes.items():
                if name not in known:
                    known[str(name)] = length
                    self.set_dimension(name, length, name in (unlimited_dims or ()))

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


def _stored_name(name: Any) -> str:
    found: str = _untyped_name(name)  # type: ignore[no-untyped-call]
    return found


def _padded(variable: Variable, stored: Variable) -> Variable:
    """Return characters with the length of the stored ones."""
    missing = stored.shape[-1] - variable.shape[-1]
    # The dimension of characters may be named by their number.
    variable = Variable(
        (*variable.dims[:-1], stored.dims[-1]),
        variable.data,
        variable.attrs,
        variable.encoding,
        fastpath=True,
    )
    if missing <= 0:
        return variable
    data: Any = variable.data
    shape = (*data.shape[:-1], missing)
    if is_chunked_array(data):
        import dask.array as da

        rest = da.zeros(shape, data.dtype, chunks=(*data.chunks[:-1], (missing,)))
        data = da.concatenate([data, rest], axis=-1)
    else:
        data = np.concatenate([data, np.zeros(shape, data.dtype)], axis=-1)
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)
