"""Datasets of xarray written to NetCDF classic files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from xarray import Dataset, Variable
from xarray.backends.common import WritableCFDataStore
from xarray.backends.netcdf3 import encode_nc3_attr_value, encode_nc3_variable, is_valid_nc3_name
from xarray.backends.netCDF4_ import _force_native_endianness, _get_datatype

from hyperslab._hdf5.changing import is_far
from hyperslab._hdf5.classic import FORMATS, Netcdf3Writer
from hyperslab._hdf5.file import file_of
from hyperslab._stores.store import FileStore
from hyperslab._xarray.files import FileReader, FileTree
from hyperslab._xarray.netcdf_encoding import storage_of
from hyperslab._xarray.netcdf_file import Gate, LocalTarget, blocks_of, gather
from hyperslab._xarray.netcdf_store import MEANINGS, NetcdfWriter, Target
from hyperslab.errors import InvalidArgumentError

__all__ = ["ClassicOutput", "ClassicStore"]


class ClassicTarget(Target):
    """A variable that becomes an array when the header is complete."""

    def __init__(self, writer: Netcdf3Writer, name: str) -> None:
        self._writer, self._name, self.region = writer, name, None

    @property
    def array(self) -> Any:  # type: ignore[override]
        """The array of the variable."""
        return self._writer[self._name]


class ClassicOutput:
    """A classic file that is being written. It has the methods of `NetcdfFile`."""

    undo = None

    def __init__(self, place: Any, mode: str, format: str, shared: bool, storage_options: Any) -> None:
        if mode not in ("w", "w-", "a"):
            raise InvalidArgumentError(
                f"format={format!r}, mode={mode!r}: expected mode 'w', 'w-' or 'a'; rows and regions are "
                "written to NetCDF-4 files (format='NETCDF4')"
            )
        assert format in FORMATS
        self._shared, self._gate = shared, Gate()
        self._object = place if hasattr(place, "write") else None
        path: Any = None if self._object is not None else place
        if isinstance(path, str) and not is_far(path):
            path = os.fspath(Path(path.removeprefix("file://")).expanduser())
        self.stored: dict[str, Variable] = {}
        self.mode = "w"
        if mode == "a" and isinstance(path, str) and not is_far(path) and Path(path).exists():
            self.mode = "a"
            tree = FileTree(file_of(FileStore(path)), path)
            self.stored = FileReader(tree, "/", ()).get_variables()
            tree.close()
        kind: Any = {"w": "w", "w-": "x", "a": "a"}[mode]
        self._place = path
        self.header = Netcdf3Writer(path, format, mode=kind, storage_options=storage_options)
        self.writer = NetcdfWriter()
        self.records: int | None = None

    def write(self, compute: bool) -> None:
        """Make the file, and write the values that are no blocks of dask."""
        self.header.begin(self.records)
        self.writer.write(load_first=self.mode != "w")

    def blocks(self, compute: bool) -> Any:
        """Return the object that writes the blocks of dask; ``None`` if there are none."""
        if self._shared:
            for source, target in self.writer.lazy:
                gather(source, target)
            return None
        return blocks_of(
            self.writer.lazy, [LocalTarget(target.array, self._gate) for _, target in self.writer.lazy]
        )

    def complete(self) -> Any:
        """Make the file visible, and return its bytes if there is no place."""
        image = self.header.close()
        if image is None:
            return None
        if self._object is None:
            return memoryview(image)
        self._object.write(image)
        return None

    def fail(self) -> None:
        """Drop all changes, after an error."""
        self._gate.close()
        self.header.abandon()


class ClassicStore(WritableCFDataStore):
    """xarray's store of a classic file that is being written."""

    def __init__(self, output: ClassicOutput, format: str) -> None:
        self._output, self.format = output, format

    def dump(self, ds: Dataset, writer: NetcdfWriter, encoding: Any, unlimited_dims: Any) -> None:
        """Describe a dataset's variables, and collect the values to write."""
        from xarray.backends.writers import dump_to_store

        dump_to_store(ds, self, writer, encoding=encoding, unlimited_dims=unlimited_dims)  # type: ignore[no-untyped-call]

    def get_dimensions(self) -> dict[str, int]:
        """Return the dimensions of the file, with their lengths."""
        found = dict(self._output.header.dimensions)
        unlimited = self._output.header.unlimited
        if unlimited is not None and self._output.records is not None:
            found[unlimited] = self._output.records
        return found

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
        dtype = _get_datatype(variable, self.format, raise_on_invalid_encoding=check_encoding)
        storage = storage_of(variable, check_encoding, unlimited_dims, fill)
        header = self._output.header
        stored = self._output.stored.get(name)
        if stored is None:
            header.variable(name, dtype, [str(dim) for dim in variable.dims], fill)
        elif (stored.dims, stored.shape, stored.dtype) != (variable.dims, variable.shape, dtype):
            raise InvalidArgumentError(
                f"variable {name!r} exists with data type {stored.dtype} and dimensions "
                f"{dict(stored.sizes)}, the dataset has {dtype} and {dict(variable.sizes)}: "
                "rename the variable, or write all anew"
            )
        elif unlike := sorted(
            key for key in MEANINGS if not _are_equal(variable.attrs.get(key), stored.attrs.get(key))
        ):
            raise InvalidArgumentError(
                f"variable {name!r} exists with another {', '.join(unlike)}: give it the same (encoding), or "
                "write all anew"
            )
        for key, value in {**storage.attributes, **attributes}.items():
            self._set(name, key, value)
        return ClassicTarget(header, name), storage.rounded(variable.data)


def _are_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    # Not-a-number equals itself here.
    return np.asarray(one).tobytes() == np.asarray(other).astype(np.asarray(one).dtype).tobytes()
