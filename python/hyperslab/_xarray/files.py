"""HDF5 and NetCDF files as data stores of xarray."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from xarray import Variable
from xarray.backends.common import AbstractDataStore
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from hyperslab import _native
from hyperslab._elements.hdf5_types import is_text
from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.group import NOWHERE, Datatype, FileGroup
from hyperslab._hdf5.values import attribute_value
from hyperslab._xarray.array import FileArrayAdapter
from hyperslab._xarray.reopened import ReopenedFile
from hyperslab.errors import UnsupportedError

__all__ = ["BLOSC", "COMPRESSORS", "FileReader", "FileTree"]

# Numbers of HDF5 filters, by their names in netCDF4-python.
COMPRESSORS = {"zlib": 1, "szip": 4, "zstd": 32015, "bzip2": 307, "blosc": 32001}
BLOSC = ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_snappy", "blosc_zlib", "blosc_zstd")
_SHUFFLE, _FLETCHER32 = 2, 3


@dataclass
class _Members:
    """The direct members of a group."""

    variables: list[_FileVariable] = field(default_factory=list)
    """Variables, without datasets that only stand for a dimension."""
    groups: dict[str, FileGroup] = field(default_factory=dict)
    types: dict[str, Datatype] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    """Errors of variables that cannot be opened, by name."""


class _FileVariable(NamedTuple):
    """An array of a file as a variable."""

    name: str
    array: FileArray
    facts: dict[str, Any]
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    attributes: list[_native.AttributeHandle]
    encoding: list[_native.AttributeHandle]
    """Attributes that describe how the variable is stored."""


class FileTree:
    """A file, and the members found in its groups so far."""

    def __init__(self, root: FileGroup, source: str | None) -> None:
        self.root = root
        self.source = root._store.url if source is None else source
        self.is_classic = root._store._native.file_format == "NetCDF-3"
        self.meaning = _native.FileMeaning(root, True)
        self.known: dict[str, _Members] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _ReopenedTree, (ReopenedFile.of(self.root._store), self.source)

    def close(self) -> None:
        """Close the file."""
        self.root.close()

    def members(self, path: str) -> _Members:
        """Return the members of the group at a path like ``/a/b``; the root is ``/``."""
        found = self.known.get(path)
        if found is not None:
            return found
        found, group = _Members(), self.root if path == "/" else self.group(path)
        for name, (kind, address, _, _) in group._file_links():
            # As in `FileGroup._each`, with fewer calls for each array: a hard link stays in the file.
            node: Any
            try:
                if kind != "hard":
                    node = group[name]
                elif isinstance(handle := group._file_object(address, name), _native.ArrayHandle):
                    node = FileArray(handle, group._store, None, group._cache)
                else:
                    node = group._node(handle)
            except NOWHERE:
                continue
            # Most nodes are arrays. To ask a node for another class runs Python: see `Kin`.
            if isinstance(node, FileArray):
                name = self.meaning.variable_name(name)
                try:
                    variable = self.meaning.variable(node)
                    facts = None if variable is None else node._file_facts()
                except Exception as error:
                    found.failed[name] = error
                else:
                    if variable is not None and facts is not None and not facts["null"]:
                        found.variables.append(_FileVariable(name, node, facts, *variable))
            elif isinstance(node, FileGroup):
                found.groups[name] = node
            elif isinstance(node, Datatype):
                found.types[name] = node
        self.known[path] = found
        return found

    def group(self, path: str) -> FileGroup:
        """Return the group at a path."""
        group = self.root
        for name in filter(None, path.split("/")):
            below = group.get(name)
            if not isinstance(below, FileGroup):
                # This is the error that xarray's own engines for files raise.
                raise OSError(f"group not found: {name!r} of {path!r} in {self.source}")
            group = below
        return group

    def groups(self, path: str) -> Iterator[str]:
        """Yield the path of a group and of all groups below it."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            yield path
            inner = [f"{path.rstrip('/')}/{name}" for name in self.members(path).groups]
            waiting.extend(reversed(inner))

    def type_name(self, path: str, enum: dict[str, int]) -> str | None:
        """Return the name of an enumeration in a group or in one above it."""
        while True:
            for name, datatype in self.members(path).types.items():
                if _enum_of(datatype.dtype) == enum:
                    return name
            if path == "/":
                return None
            path = path.rpartition("/")[0] or "/"


class _ReopenedTree(FileTree):
    """A file of another process, which is opened on first use."""

    def __init__(self, file: ReopenedFile, source: str) -> None:
        self._file, self.source = file, source

    def __getattr__(self, name: str) -> Any:
        # Called for what `FileTree` sets, before it has.
        if name not in ("root", "is_classic", "meaning", "known"):
            raise AttributeError(name)
        super().__init__(self._file.root, self.source)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return _ReopenedTree, (self._file, self.source)

    def close(self) -> None:
        """Close the file, if it was opened."""
        self._file.close()


class FileReader(AbstractDataStore):
    """One group's arrays as variables, with attributes and encodings as in the engine "netcdf4"."""

    def __init__(self, tree: FileTree, path: str, dropped: Collection[str]) -> None:
        self._tree, self._path, self._dropped = tree, path, dropped

    def get_attrs(self) -> dict[str, Any]:
        tree, path = self._tree, self._path
        handles = tree.meaning.group_attributes(tree.root if path == "/" else tree.group(path))
        return _attributes(handles, f"group {path!r} of {tree.source}") if handles else {}

    def get_encoding(self) -> dict[str, Any]:
        """Return the unlimited dimensions of the group, including dimensions without a scale."""
        tree, path = self._tree, self._path
        found = set(tree.meaning.unlimited(path))
        # xarray gets the variables first.
        members = tree.known.get(path) or tree.members(path)
        for variable in members.variables:
            most = variable.facts["maxshape"] or ()
            # Dimensions with a scale were found already.
            if None in most and variable.array.dimension_names is None:
                found |= {name for name, top in zip(variable.dimensions, most, strict=True) if top is None}
        return {"unlimited_dims": found}

    def get_variables(self) -> dict[str, Variable]:
        members = self._tree.members(self._path)
        for name, error in members.failed.items():
            if name not in self._dropped:
                raise error
        found = {}
        for variable in members.variables:
            try:
                found[variable.name] = self._variable(variable)
            except Exception:
                # xarray drops variables itself, but only after looking at their dimensions.
                if variable.name not in self._dropped:
                    raise
        return found

    def close(self) -> None:
        self._tree.close()

    def _variable(self, variable: _FileVariable) -> Variable:
        _, array, facts, dimensions, shape, handles, stored = variable
        dtype = array.dtype
        owner = f"variable {f'/{array.path}'!r} of {self._tree.source}"
        attributes = _attributes(handles, owner) if handles else {}
        text = dtype.metadata is not None and is_text(dtype)
        encoding: dict[str, Any] = {}
        if text:
            encoding["dtype"], dtype = str, create_vlen_dtype(str)  # type: ignore[no-untyped-call]
        elif self._tree.is_classic:
            encoding["dtype"] = dtype = dtype.newbyteorder("=")
        else:
            if dtype.kind == "S":
                # Leave out h5py's note of the encoding.
                dtype = np.dtype(dtype.str)
            encoding["dtype"] = dtype
            enum = None if dtype.metadata is None else _enum_of(dtype)
            if enum is not None:
                name = self._tree.type_name(self._path, enum)
                if name is not None:
                    named = {"enum": enum, "enum_name": name}
                    encoding["dtype"] = np.dtype(dtype, metadata=named)
        if dtype.kind == "S" and "_FillValue" in attributes:
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"])
        if not self._tree.is_classic:
            encoding.update(_filters(facts["filters"]) if facts["filters"] else _NO_FILTERS)
            chunks = facts["chunks"]
            encoding["contiguous"] = chunks is None
            encoding["chunksizes"] = chunks
            if chunks is not None:
                encoding["preferred_chunks"] = dict(zip(dimensions, chunks, strict=True))
        if stored:
            encoding.update(_attributes(stored, owner))
        encoding["source"] = self._tree.source
        encoding["original_shape"] = shape
        rest = self._tree.meaning.rest(array) if shape != array._stored_shape else None
        data = indexing.LazilyIndexedArray(FileArrayAdapter(array, dtype, shape, text, rest))
        return Variable(dimensions, data, attributes, encoding, fastpath=True)


def _filters(filters: list[tuple[int, str | None, list[int]]]) -> dict[str, Any]:
    """Return the filters as netCDF4-python does. It leaves out unknown filters."""
    parameters = {number: values for number, _, values in filters}
    found: dict[str, Any] = dict.fromkeys(COMPRESSORS, False)
    found["shuffle"], found["complevel"] = _SHUFFLE in parameters, 0
    found["fletcher32"] = _FLETCHER32 in parameters
    for name, number in COMPRESSORS.items():
        values = parameters.get(number)
        if values is None:
            continue
        found[name] = True
        if name == "szip":
            coding = "ec" if values and values[0] & 4 else "nn"
            found[name] = {"coding": coding, "pixels_per_block": values[1] if len(values) > 1 else 0}
        elif name == "blosc":
            level, shuffle, compressor = (*values[4:7], 0, 0, 0)[:3]
            name_of = BLOSC[compressor] if compressor < len(BLOSC) else "blosc"
            found[name] = {"compressor": name_of, "shuffle": shuffle}
            found["complevel"] = level
        elif values:
            found["complevel"] = values[0]
    return found


_NO_FILTERS = _filters([])


def _enum_of(dtype: np.dtype[Any]) -> dict[str, int] | None:
    """Return names and values of an enumeration."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    return metadata.get("enum")


def _attributes(handles: list[_native.AttributeHandle], owner: str) -> dict[str, Any]:
    """Return attributes by name, as in netCDF4-python: text is `str`, a single element is a scalar.

    Types that NumPy lacks are left out with a warning.
    """
    found: dict[str, Any] = {}
    for handle in handles:
        name = handle.name
        try:
            element = handle.element
            if element is None or element.dtype.kind not in "biufc" or handle.shape is None:
                found[name] = _attribute(name, handle)
                continue
            # Numbers are the most frequent values.
            dtype, shape = element.dtype, handle.shape
            numbers = handle.data().view(dtype)
            if not dtype.isnative:
                numbers = numbers.astype(dtype.newbyteorder("="))
            found[name] = numbers[0] if math.prod(shape) == 1 else numbers.reshape(shape)
        except UnsupportedError as error:
            warnings.warn(f"attribute {name!r} of {owner} is left out: {error}", stacklevel=2)
    return found


def _attribute(name: str, handle: _native.AttributeHandle) -> Any:
    """Return an attribute that is no number, or one of NetCDF-3."""
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
    if dtype.kind == "O" and is_text(dtype):
        found = np.ravel(attribute_value(handle)).tolist()
        texts = [_text(text.encode("utf-8", "surrogateescape")) for text in found]
        return texts[0] if count == 1 else texts
    value = attribute_value(handle)
    return value.ravel()[0] if dtype.names and count == 1 and isinstance(value, np.ndarray) else value


def _bytes_of(handle: _native.AttributeHandle) -> bytes:
    return handle.data().tobytes()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\0", "")
