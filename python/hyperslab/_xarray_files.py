"""HDF5 and NetCDF files as xarray's data stores."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xarray import Variable
from xarray.backends.common import AbstractDataStore
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from hyperslab import _native
from hyperslab._hdf5_array import FileArray
from hyperslab._hdf5_group import Datatype, FileGroup
from hyperslab._hdf5_types import is_text
from hyperslab._hdf5_values import attribute_value
from hyperslab._xarray_array import FileArrayAdapter

__all__ = ["FileReader", "FileTree"]

# Attributes that belong to the format: no user has written them.
_RESERVED = frozenset(
    {
        "CLASS",
        "NAME",
        "DIMENSION_LIST",
        "REFERENCE_LIST",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        "_NCProperties",
    }
)
# How netCDF stores a variable that has the name of a dimension but is not its coordinate variable.
_NOT_COORDINATES = "_nc4_non_coord_"
_WITHOUT_VARIABLE = b"This is a netCDF dimension but not a netCDF variable."
# Numbers of HDF5's filters by netCDF4-python's names of them.
_COMPRESSORS = {"zlib": 1, "szip": 4, "zstd": 32015, "bzip2": 307, "blosc": 32001}
_BLOSC = ("blosc_blosclz", "blosc_lz4", "blosc_lz4hc", "blosc_snappy", "blosc_zlib", "blosc_zstd")
_SHUFFLE, _FLETCHER32 = 2, 3


@dataclass
class _Members:
    """What is directly in a group."""

    arrays: list[tuple[str, FileArray, list[_native.AttributeHandle]]] = field(default_factory=list)
    """Names, arrays and their attributes; those that only stand for a dimension are left out."""
    dimensions: dict[str, bool] = field(default_factory=dict)
    """The dimensions that the group defines, and whether they are unlimited."""
    groups: dict[str, FileGroup] = field(default_factory=dict)
    types: dict[str, Datatype] = field(default_factory=dict)


class FileTree:
    """A file, and what was found in its groups so far."""

    def __init__(self, root: FileGroup, source: str | None) -> None:
        self.root = root
        self.source = root._store.url if source is None else source
        self.is_classic = root._store._native.file_format == "NetCDF-3"
        self._members: dict[str, _Members] = {}
        self._phony: dict[str, tuple[str, ...]] | None = None
        self._lengths: dict[tuple[str, str], int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return FileTree, (self.root, self.source)

    def members(self, path: str) -> _Members:
        """What is in the group at a path, ``/a/b``; the root's is ``/``."""
        found = self._members.get(path)
        if found is None:
            found = self._members[path] = self._found(self.group(path))
        return found

    def group(self, path: str) -> FileGroup:
        """The group at a path."""
        group = self.root
        for name in filter(None, path.split("/")):
            below = group.get(name)
            if not isinstance(below, FileGroup):
                # The error of xarray's own engines for files.
                raise OSError(f"group not found: {name!r} of {path!r} in {self.source}")
            group = below
        return group

    def _found(self, group: FileGroup) -> _Members:
        found = _Members()
        for name, node in group._each():
            if isinstance(node, FileGroup):
                found.groups[name] = node
            elif isinstance(node, Datatype):
                found.types[name] = node
            elif isinstance(node, FileArray):
                attributes = node._file_attributes()
                says = {each.name: each for each in attributes if each.name in ("CLASS", "NAME")}
                if "CLASS" in says and _bytes_of(says["CLASS"]).startswith(b"DIMENSION_SCALE"):
                    longest = node.maxshape
                    found.dimensions[name] = bool(longest) and longest[0] is None  # type: ignore[index]
                    if "NAME" in says and _bytes_of(says["NAME"]).startswith(_WITHOUT_VARIABLE):
                        continue
                found.arrays.append((name.removeprefix(_NOT_COORDINATES), node, attributes))
        return found

    def names_of_axes(self, array: FileArray) -> tuple[str, ...]:
        """The dimensions of an array: axes without one are called as netCDF calls them."""
        names = array.dimension_names
        if array.ndim == 0:
            return ()
        if names is None or None in names:
            if self._phony is None:
                self._phony = self.root.phony_dimensions()
            phony = self._phony.get(array.name)
            if phony is None:
                # Of elements that netCDF does not have.
                phony = _by_length(array.shape)
            names = tuple(a or b for a, b in zip(names or phony, phony, strict=True))
        return names  # type: ignore[return-value]

    def length(self, path: str, dimension: str, known: int) -> int:
        """The length of an unlimited dimension that a variable in a group has: the most that any variable has
        along it. ``known``: the length of this one.
        """
        while dimension not in self.members(path).dimensions:
            if path == "/":
                return known
            path = path.rpartition("/")[0] or "/"
        key = path, dimension
        if key not in self._lengths:
            self._lengths[key] = self._longest(path, dimension)
        return max(known, self._lengths[key])

    def _longest(self, path: str, dimension: str) -> int:
        members, longest = self.members(path), 0
        for _, array, _ in members.arrays:
            for name, length, most in zip(
                self.names_of_axes(array), array.shape or (), array.maxshape or (), strict=True
            ):
                if most is None and name == dimension:
                    longest = max(longest, length)
        for name in members.groups:
            below = f"{path.rstrip('/')}/{name}"
            if dimension not in self.members(below).dimensions:
                longest = max(longest, self._longest(below, dimension))
        return longest

    def groups(self, path: str) -> Iterator[str]:
        """The path of a group and those of all groups in it."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            yield path
            inner = [f"{path.rstrip('/')}/{name}" for name in self.members(path).groups]
            waiting.extend(reversed(inner))

    def type_name(self, path: str, enum: dict[str, int]) -> str | None:
        """What a group, or one above it, calls an enumeration."""
        while True:
            for name, datatype in self.members(path).types.items():
                if _enum_of(datatype.dtype) == enum:
                    return name
            if path == "/":
                return None
            path = path.rpartition("/")[0] or "/"


def _by_length(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names for axes: axes of the same length share one, but not within one array."""
    before = [shape[:axis].count(length) for axis, length in enumerate(shape)]
    return tuple(
        f"phony_dim_of_{length}" + (f"_{count}" if count else "")
        for length, count in zip(shape, before, strict=True)
    )


class FileReader(AbstractDataStore):
    """The arrays of one group as variables, with attributes and encodings of xarray's engine "netcdf4"."""

    def __init__(self, tree: FileTree, path: str, dropped: Collection[str]) -> None:
        self._tree, self._path, self._dropped = tree, path, dropped

    def get_attrs(self) -> dict[str, Any]:
        return _attributes(self._tree.group(self._path)._file_attributes())

    def get_encoding(self) -> dict[str, Any]:
        members = self._tree.members(self._path)
        unlimited = {name for name, grows in members.dimensions.items() if grows}
        for _, array, _ in members.arrays:
            most = array.maxshape or ()
            # Dimensions that have a scale are known already.
            if None in most and (self._tree.is_classic or array.dimension_names is None):
                names = self._tree.names_of_axes(array)
                unlimited |= {name for name, top in zip(names, most, strict=True) if top is None}
        return {"unlimited_dims": unlimited}

    def get_variables(self) -> dict[str, Variable]:
        found = {}
        for name, array, attributes in self._tree.members(self._path).arrays:
            if array.shape is None:
                continue
            try:
                found[name] = self._variable(array, attributes)
            except Exception:
                # xarray drops the others after it has looked at their dimensions.
                if name not in self._dropped:
                    raise
        return found

    def close(self) -> None:
        self._tree.root.close()

    def _variable(self, array: FileArray, handles: list[_native.AttributeHandle]) -> Variable:
        facts, shape, dtype = array._facts, array.shape, array.dtype
        attributes = _attributes(handles)
        dimensions = self._tree.names_of_axes(array)
        if None in facts["maxshape"] and not self._tree.is_classic:
            shape = tuple(
                self._tree.length(self._path, name, length) if most is None else length
                for name, length, most in zip(dimensions, shape, facts["maxshape"], strict=True)
            )
        text = is_text(dtype)
        encoding: dict[str, Any] = {}
        if text:
            encoding["dtype"], dtype = str, create_vlen_dtype(str)  # type: ignore[no-untyped-call]
        elif self._tree.is_classic:
            encoding["dtype"] = dtype = dtype.newbyteorder("=")
        else:
            if dtype.kind == "S":
                # Without h5py's note of the encoding.
                dtype = np.dtype(dtype.str)
            encoding["dtype"] = dtype
            enum = _enum_of(dtype)
            if enum is not None:
                name = self._tree.type_name(self._path, enum)
                if name is not None:
                    named = {"enum": enum, "enum_name": name}
                    encoding["dtype"] = np.dtype(dtype, metadata=named)
        if dtype.kind == "S" and "_FillValue" in attributes:
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        if not self._tree.is_classic:
            encoding.update(_filters(facts["filters"]))
            chunks = facts["chunks"]
            encoding["contiguous"] = chunks is None
            encoding["chunksizes"] = chunks
            if chunks is not None:
                encoding["preferred_chunks"] = dict(zip(dimensions, chunks, strict=True))
        if "least_significant_digit" in attributes:
            encoding["least_significant_digit"] = attributes.pop("least_significant_digit")
        encoding["source"] = self._tree.source
        encoding["original_shape"] = shape
        data = indexing.LazilyIndexedArray(FileArrayAdapter(array, dtype, shape, text))
        return Variable(dimensions, data, attributes, encoding, fastpath=True)


def _filters(filters: list[tuple[int, str | None, list[int]]]) -> dict[str, Any]:
    """The filters as netCDF4-python tells them, which leaves out those that it does not know."""
    parameters = {number: values for number, _, values in filters}
    found: dict[str, Any] = dict.fromkeys(_COMPRESSORS, False)
    found["shuffle"], found["complevel"] = _SHUFFLE in parameters, 0
    found["fletcher32"] = _FLETCHER32 in parameters
    for name, number in _COMPRESSORS.items():
        values = parameters.get(number)
        if values is None:
            continue
        found[name] = True
        if name == "szip":
            coding = "ec" if values and values[0] & 4 else "nn"
            found[name] = {"coding": coding, "pixels_per_block": values[1] if len(values) > 1 else 0}
        elif name == "blosc":
            level, shuffle, compressor = (*values[4:7], 0, 0, 0)[:3]
            name_of = _BLOSC[compressor] if compressor < len(_BLOSC) else "blosc"
            found[name] = {"compressor": name_of, "shuffle": shuffle}
            found["complevel"] = level
        elif values:
            found["complevel"] = values[0]
    return found


def _enum_of(dtype: np.dtype[Any]) -> dict[str, int] | None:
    """Names and values of an enumeration."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    return metadata.get("enum")


def _attributes(handles: list[_native.AttributeHandle]) -> dict[str, Any]:
    return {name: _attribute(name, handle) for handle in handles if (name := handle.name) not in _RESERVED}


def _attribute(name: str, handle: _native.AttributeHandle) -> Any:
    """An attribute as netCDF4-python has it: text is `str`, what has one element is a scalar."""
    element = handle.element
    if element is None:
        text, shape = handle.text, handle.shape
        if text is not None:
            return text
        numbers = handle.data().view(np.dtype(handle.dtype))
        found = numbers.astype(numbers.dtype.newbyteorder("="))
        return found[0] if len(found) == 1 and shape is not None else found
    dtype, shape = element.dtype, handle.shape
    if shape is None:
        return "" if dtype.kind in "SO" else np.empty(0, dtype)
    count = math.prod(shape)
    if dtype.kind == "S":
        raw = _bytes_of(handle)
        if name == "_FillValue":
            return raw
        if shape == ():
            return _text(raw)
        texts = [_text(raw[at : at + dtype.itemsize]) for at in range(0, len(raw), dtype.itemsize)]
        return texts[0] if count == 1 else texts
    if is_text(dtype):
        texts = np.ravel(attribute_value(handle)).tolist()
        return texts[0] if count == 1 else texts
    if dtype.kind not in "biufc":
        return attribute_value(handle)
    found = handle.data().view(dtype)
    if not dtype.isnative:
        found = found.astype(dtype.newbyteorder("="))
    return found[0] if count == 1 else found.reshape(shape)


def _bytes_of(handle: _native.AttributeHandle) -> bytes:
    return handle.data().tobytes()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\0", "")
