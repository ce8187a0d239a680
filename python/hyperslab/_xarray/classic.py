"""Datasets of xarray written to NetCDF classic files.

Records are added in place, and regions are written in place. Everything else that changes a file writes
it again, beside itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xarray import Variable
from xarray.backends.netcdf3 import encode_nc3_attr_value, encode_nc3_variable, is_valid_nc3_name
from xarray.backends.netCDF4_ import _force_native_endianness, _get_datatype

from hyperslab._hdf5.changing import is_far
from hyperslab._hdf5.classic import FORMATS, Netcdf3Writer
from hyperslab._hdf5.file import file_of
from hyperslab._stores.store import FileStore
from hyperslab._xarray.files import FileReader, FileTree
from hyperslab._xarray.fits import numbers_that_fit, text_that_fits
from hyperslab._xarray.netcdf_blocks import (
    ClassicBlocks,
    Gate,
    LocalBlocks,
    gather,
    settle_reads,
    writing,
)
from hyperslab._xarray.netcdf_encoding import storage_of
from hyperslab._xarray.netcdf_rows import RowsStore
from hyperslab._xarray.netcdf_store import MEANINGS
from hyperslab._xarray.netcdf_writer import NetcdfWriter, Target
from hyperslab._xarray.stored_variable import StoredVariable
from hyperslab.errors import InvalidArgumentError, NodeNotFoundError

__all__ = ["ClassicOutput", "ClassicStore"]


class ClassicTarget(Target):
    """A variable that becomes an array when the header is complete."""

    def __init__(self, writer: Netcdf3Writer, name: str) -> None:
        self._writer, self._name, self.region = writer, name, None

    @property
    def array(self) -> Any:  # type: ignore[override]
        """The array of the variable."""
        return self._writer[self._name]


def _path(place: Any) -> tuple[Any, bool]:
    """Return the path or URL of a place, and whether it is a local path. ``None``: a file object."""
    if hasattr(place, "write"):
        return None, False
    if not isinstance(place, str) or is_far(place):
        return place, False
    return os.fspath(Path(place.removeprefix("file://")).expanduser()), True


class ClassicOutput:
    """A classic file that is being written. It has the methods of `NetcdfFile`.

    ``keeps``: whether existing variables keep their encoding, so that there must be a file.
    """

    undo = None

    def __init__(
        self, place: Any, mode: str, format: str, keeps: bool, shared: bool, storage_options: Any
    ) -> None:
        assert format in FORMATS
        self._shared, self._gate = shared, Gate()
        self._object = place if hasattr(place, "write") else None
        path, is_local = _path(place)
        self.mode = "w"
        if mode in ("a", "a-", "r+"):
            if self._object is not None and (keeps or self._has_bytes()):
                raise InvalidArgumentError(
                    f"format={format!r}, mode={mode!r}: expected a path, found {place!r}: NetCDF classic "
                    "files are changed on the disk only"
                )
            if is_local and Path(path).exists():
                self.mode = mode
            elif is_local and mode != "a":
                raise NodeNotFoundError(f"mode={mode!r}: there is no file {path}: make it with mode='w'")
        self._tree: FileTree | None = None
        self.stored: dict[str, Variable] = {}
        if self.mode != "w":
            self._tree = FileTree(file_of(FileStore(path)), path)
            self.stored = FileReader(self._tree, "/", ()).get_variables()
        self._place: Any = path
        self.source = str(place)
        try:
            kind: Any = {"w": "w", "w-": "x"}.get(mode, "a")
            self.header = Netcdf3Writer(path, format, mode=kind, storage_options=storage_options)
        except BaseException:
            self._release()
            raise
        self.writer = NetcdfWriter()
        self.records: int | None = None

    def _has_bytes(self) -> bool:
        place: Any = self._object
        return hasattr(place, "seek") and hasattr(place, "read") and bool(place.seek(0, os.SEEK_END))

    def existing(self, name: str) -> StoredVariable:
        """Return a variable that the file had before."""
        assert self._tree is not None
        array: Any = self._tree.root[name]
        return StoredVariable(array, self.stored[name])

    def write(self, compute: bool) -> None:
        """Make the file, and write the values that are no blocks of dask."""
        in_place = self.header.changes_in_place
        self.header.begin(self.records)
        if self.writer.lazy and (in_place or not compute):
            store: Any = self.header.store
            settle_reads(self.writer, store, not in_place, compute, self.source)
        self.writer.write(load_first=self.mode != "w")

    def blocks(self, compute: bool) -> list[Any]:
        """Return the dask arrays that write the blocks of others."""
        lazy = self.writer.lazy
        if not compute:
            place, names = os.path.realpath(str(self._place)), [target.array.path for _, target in lazy]
            tasks = writing(lazy, [ClassicBlocks(place, name) for name in names])
            self.complete()
            return tasks
        if self._shared:
            for source, target in lazy:
                gather(source, target)
            return []
        return writing(lazy, [LocalBlocks(target.array, self._gate) for _, target in lazy])

    def complete(self) -> Any:
        """Make the file visible, and return its bytes if there is no place."""
        self._release()
        image = self.header.close()
        if image is None:
            return None
        if self._object is None:
            return memoryview(image)
        self._object.write(image)
        return None

    def fail(self) -> None:
        """Drop all changes, after an error. Elements that were written in place stay."""
        self._gate.close()
        self._release()
        self.header.abandon()

    def _release(self) -> None:
        if self._tree is not None:
            self._tree.close()
            self._tree = None


class ClassicStore(RowsStore):
    """xarray's store of a classic file that is being written."""

    def __init__(
        self,
        output: ClassicOutput,
        format: str,
        *,
        keeps: bool = False,
        append_dim: Any = None,
        region: Any = None,
    ) -> None:
        keeps = keeps and output.mode != "w"
        super().__init__(output.source, output.mode, keeps=keeps, append_dim=append_dim, region=region)
        self._output, self.format, self._stored = output, format, output.stored

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions of the file, with their lengths."""
        found = dict(self._output.header.dimensions)
        unlimited = self._output.header.unlimited
        if unlimited is not None and self._output.records is not None:
            found[unlimited] = self._output.records
        return found

    def _keeps_type(self, name: str) -> bool:
        return name in self._stored

    def _existing(self, name: str) -> StoredVariable:
        return self._output.existing(name)

    def _target(self, name: str) -> Target:
        if self._append_dim is None and self._write_region is None:
            self._output.header.rewrite()
        return ClassicTarget(self._output.header, name)

    def _is_fixed(self, name: str, axis: int) -> bool:
        return self._stored[name].dims[axis] != self._output.header.unlimited

    def _resize(self, dimension: Any, old: int, new: int) -> None:
        if dimension != self._output.header.unlimited:
            raise self._fixed(old)
        self._output.records = new

    def set_dimension(self, dim: Any, length: int, is_unlimited: bool = False) -> None:
        """Describe a dimension. As in netCDF, one of length 0 is unlimited."""
        header = self._output.header
        if is_unlimited or not length:
            if header.unlimited is not None:
                raise InvalidArgumentError(
                    f"dimension {dim!r}: NetCDF classic files have one unlimited dimension, which is "
                    f"{header.unlimited!r} here: use format='NETCDF4'"
                )
            self._output.records = length
        header.dimension(dim, None if is_unlimited or not length else length)

    def set_attribute(self, k: Any, v: Any) -> None:
        """Describe an attribute of the file."""
        self._set(None, k, v)

    def _set(self, variable: str | None, name: str, value: Any) -> None:
        if not is_valid_nc3_name(name):  # type: ignore[no-untyped-call]
            raise InvalidArgumentError(f"Not a valid attribute name: {name!r}")
        self._output.header.attribute(variable, name, encode_nc3_attr_value(value))  # type: ignore[no-untyped-call]

    def encode_variable(self, v: Any, name: Any = None) -> Any:
        """Encode one variable."""
        return encode_nc3_variable(_force_native_endianness(v), name=name)  # type: ignore[no-untyped-call]

    def prepare_variable(
        self, name: str, variable: Variable, check_encoding: bool = False, unlimited_dims: Any = None
    ) -> Any:
        """Describe a variable, and return the target and the values to write."""
        if not is_valid_nc3_name(name):  # type: ignore[no-untyped-call]
            raise InvalidArgumentError(f"Not a valid variable name: {name!r}")
        attributes = dict(variable.attrs)
        fill = attributes.pop("_FillValue", None)
        storage = storage_of(variable, check_encoding, unlimited_dims, fill)
        header, data = self._output.header, variable.data
        if name in self._stored:
            data = self._replaced(name, variable, fill)
        else:
            dtype = _get_datatype(variable, self.format, raise_on_invalid_encoding=check_encoding)
            header.variable(name, dtype, [str(dim) for dim in variable.dims], fill)
        for key, value in {**storage.attributes, **attributes}.items():
            self._set(name, key, value)
        return ClassicTarget(header, name), storage.rounded(data)

    def _replaced(self, name: str, variable: Variable, fill: Any) -> Any:
        """Give an existing variable other attributes, and return its new values."""
        stored, header = self._stored[name], self._output.header
        if stored.dims != variable.dims or stored.shape != variable.shape:
            raise InvalidArgumentError(
                f"variable {name!r} exists with dimensions {dict(stored.sizes)}, the dataset has "
                f"{dict(variable.sizes)}: rename the variable, or use append_dim or region"
            )
        given = variable.copy(deep=False)
        given.encoding = {}
        target: Any = self._existing(name)
        given = text_that_fits(name, numbers_that_fit(name, given, target), target)
        header.rewrite()
        # The old attributes would give the new numbers another meaning.
        for key in ({*header.attributes(name)} & MEANINGS) - variable.attrs.keys():
            if key != "units" or " since " in str(stored.attrs.get(key)):
                header.drop_attribute(name, key)
        if fill is not None:
            header.fill(name, fill)
        return given.data
