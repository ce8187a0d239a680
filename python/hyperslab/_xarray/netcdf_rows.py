"""xarray's store of variables that keep their encoding and attributes: rows are appended, regions written.

The steps are as in xarray's `to_zarr`. Subclasses know the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from xarray import Dataset, Variable, conventions
from xarray.backends.common import AbstractWritableDataStore, WritableCFDataStore, ensure_dtype_not_object
from xarray.backends.common import _encode_variable_name as _untyped_name
from xarray.backends.netcdf3 import _maybe_prepare_times
from xarray.backends.netCDF4_ import _force_native_endianness
from xarray.backends.zarr import (
    ZarrStore,
    _validate_and_transpose_existing_dims,
    _validate_datatypes_for_zarr_append,
)
from xarray.coding.strings import CharacterArrayCoder, EncodedStringCoder, check_vlen_dtype
from xarray.conventions import cf_encoder
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._xarray import checks
from hyperslab._xarray.fits import numbers_that_fit, text_that_fits
from hyperslab._xarray.netcdf_writer import NetcdfWriter, Target
from hyperslab._xarray.stored_variable import StoredVariable
from hyperslab.errors import InvalidArgumentError

__all__ = ["RowsStore", "encoded_as_stored", "stored_name"]


class RowsStore(WritableCFDataStore):
    """One group of a file.

    ``mode``: ``w`` for a new file; ``a``, ``a-``, ``r+`` as in `to_zarr`. ``keeps``: whether existing
    variables keep their encoding and their attributes, as in `to_zarr`. Otherwise they get the encoding and
    the attributes of the dataset, as in ``Dataset.to_netcdf(mode="a")``.
    """

    def __init__(
        self, source: str, mode: Any, *, keeps: bool = False, append_dim: Any = None, region: Any = None
    ) -> None:
        self._source, self._mode, self._keeps = source, mode, keeps
        self._append_dim, self._write_region = append_dim, region
        self._coordinates: set[Any] = set()
        self._stored: dict[str, Variable] = {}

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

    # ---- what formats know

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions, with their lengths."""
        raise NotImplementedError

    def set_dimension(self, dim: Any, length: int, is_unlimited: bool = False) -> None:
        """Make a dimension."""
        raise NotImplementedError

    def prepare_variable(
        self, name: str, variable: Variable, check_encoding: bool = False, unlimited_dims: Any = None
    ) -> Any:
        """Make a variable, or find it, and return the target and the values to write."""
        raise NotImplementedError

    def encode_variable(self, v: Any, name: Any = None) -> Any:
        """Encode one variable."""
        raise NotImplementedError

    def get_parent_dimensions(self) -> dict[str, int]:
        """Return the dimensions of the groups above."""
        return {}

    def _keeps_type(self, name: str) -> bool:
        """Return True for an existing variable whose values are encoded in another way than a new one's."""
        return False

    def _existing(self, name: str) -> StoredVariable:
        """Return an existing variable."""
        raise NotImplementedError

    def _target(self, name: str) -> Target:
        """Return an existing variable, to write to it."""
        raise NotImplementedError

    def _is_fixed(self, name: str, axis: int) -> bool:
        """Return True if an axis of an existing variable cannot be lengthened."""
        raise NotImplementedError

    def _resize(self, dimension: Any, old: int, new: int) -> None:
        """Lengthen a dimension."""
        raise NotImplementedError

    # ---- the existing group

    def array_keys(self) -> tuple[str, ...]:
        """Return the names of the existing variables."""
        return tuple(self._stored)

    def open_store_variable(self, name: str) -> Variable:
        """Return an existing variable, before it is decoded."""
        return self._stored[name].copy(deep=False)

    # ---- xarray's steps

    def store(
        self,
        variables: Any,
        attributes: Any,
        check_encoding_set: Any = frozenset(),
        writer: Any = None,
        unlimited_dims: Any = None,
    ) -> None:
        """Encode variables, make new ones, and collect the values to write."""
        if not self._keeps:
            super().store(variables, attributes, check_encoding_set, writer, unlimited_dims)  # type: ignore[no-untyped-call]
            return
        stored = [name for name in variables if stored_name(name) in self._stored]
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
        made, attributes = self.encode({name: variables[name] for name in new}, attributes)
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
                    stored_name(name), variable, name in check_encoding_set, unlimited_dims
                )
            elif name in static:
                continue
            else:
                if self._append_dim in variable.dims:
                    region[self._append_dim] = slice(start, start + variable.sizes[self._append_dim])
                target, source = self._target(stored_name(name)), variable.data
            target.region = tuple(region[name] for name in variable.dims)
            writer.add(source, target)

    def encode(self, variables: Any, attributes: Any) -> Any:
        """Encode variables and attributes. Existing variables keep their types."""
        variables, attributes = cf_encoder(variables, attributes)
        encoded = {}
        for name, variable in variables.items():
            try:
                plain = ensure_dtype_not_object(variable, name=name)
                keeps = self._keeps_type(stored_name(name))
                encoded[name] = encoded_as_stored(plain, name) if keeps else self.encode_variable(plain)
            except Exception as error:
                error.add_note(f"Raised while encoding variable {name!r} with value {variable!r}")
                raise
        _, attributes = AbstractWritableDataStore.encode(self, {}, attributes)  # type: ignore[no-untyped-call]
        return encoded, attributes

    def _encode_stored(self, variables: Mapping[Any, Variable]) -> dict[Any, Variable]:
        """Return variables in the encoding of the stored ones."""
        decoded, _, _ = conventions.decode_cf_variables(
            {name: self.open_store_variable(stored_name(name)) for name in variables}, {}
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
        encoded: dict[Any, Variable]
        encoded, _ = self.encode(prepared, {})
        for name, variable in encoded.items():
            raw = self._stored[stored_name(name)]
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
            is_stored = name in self._stored and dimension in variable.dims
            if is_stored and self._is_fixed(name, variable.dims.index(dimension)):
                raise self._fixed(start)
        self._resize(dimension, start, start + max(added))
        return start

    def _fixed(self, length: int) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"append_dim={self._append_dim!r}: the dimension is fixed to {length} elements in "
            f"{self._source}: write all of the dataset anew, with unlimited_dims=[{self._append_dim!r}]"
        )

    def _set_new_dimensions(
        self, variables: Mapping[Any, Variable], dimensions: Mapping[str, int], unlimited_dims: Any
    ) -> None:
        known = dict(dimensions)
        for variable in variables.values():
            for name, length in variable.sizes.items():
                if name not in known:
                    known[str(name)] = length
                    self.set_dimension(name, length, name in (unlimited_dims or ()))


def encoded_as_stored(variable: Variable, name: Any) -> Variable:
    """Encode a variable for an existing one without text: text becomes characters.

    xarray would also replace types that most classic files lack, and the types of attributes.
    """
    variable = _force_native_endianness(variable)  # type: ignore[no-untyped-call]
    for coder in (EncodedStringCoder(allows_unicode=False), CharacterArrayCoder()):  # type: ignore[no-untyped-call]
        variable = coder.encode(variable, name=name)
    data = _maybe_prepare_times(variable)  # type: ignore[no-untyped-call]
    return Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)


def stored_name(name: Any) -> str:
    """Return the name in the file."""
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
