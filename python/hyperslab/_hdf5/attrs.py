"""HDF5 attributes: a mapping."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Protocol

import numpy as np

from hyperslab import _native
from hyperslab._hdf5 import netcdf_types
from hyperslab._hdf5.attrs_writing import create_attribute, modify_attribute
from hyperslab._hdf5.ids import AttrID
from hyperslab._hdf5.mapping_views import Items, Keys, Values
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.values import attribute_value
from hyperslab.errors import InvalidArgumentError, NameExistsError, ReadOnlyError, UnsupportedError

__all__ = ["FileAttributes"]


class _Node(Protocol):
    @property
    def _store(self) -> Any: ...
    @property
    def _address(self) -> Any: ...
    def _file_attributes(self) -> list[_native.AttributeHandle]: ...
    def _file_attribute(self, name: str) -> _native.AttributeHandle | None: ...
    def _has_file_attribute(self, name: str) -> bool: ...


class _Read(dict[str, _native.AttributeHandle]):
    """The attributes of a node that have been read."""

    is_complete = False


def _is_text(name: str) -> bool:
    # Bytes that are not UTF-8 become lone surrogates, which no stored name has.
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


class FileAttributes(MutableMapping[str, Any]):
    """The attributes of a group, array or committed datatype of an HDF5 or NetCDF file.

    Values are as in h5py: NumPy scalars and arrays, `str` for text, arrays of `str` for arrays of
    variable-length text, and `Empty` for attributes without a value. If the file was opened for
    writing, attributes are set (`create`, `modify`), renamed and deleted as in h5py.
    """

    def __init__(self, node: Any, file: _native.StoreHandle | None = None, cached: Any = None) -> None:
        # As in h5py, `AttributeManager(node)` are the attributes of an object.
        found: _native.StoreHandle = node._store._native if file is None else file
        cached = vars(node) if cached is None else cached
        # The node keeps the attributes read so far in `cached`, its own dictionary. It does not keep
        # this object, which refers to the node: a cycle would keep the file open until the garbage
        # collector runs.
        self._node: _Node = node
        self._file, self._cached = found, cached

    @property
    def _id(self) -> Any:
        """h5py's low-level object, which h5netcdf uses."""
        return self._node.id  # type: ignore[attr-defined]

    @property
    def _editor(self) -> _native.Editor:
        """The changes of the file. Fails if the file was opened for reading."""
        editor = self._file.editor()
        if editor is None:
            raise ReadOnlyError(
                f"attributes: {self._file.url} was opened for reading (no write intent on file): open HDF5 "
                "files with hyperslab.File(path, 'r+')"
            )
        return editor

    def _read(self) -> _Read:
        """Return the attributes that were read. They change if the file is being changed."""
        return _Read() if self._file.is_edited else self._cached.setdefault("_read_attributes", _Read())

    def _all(self) -> dict[str, _native.AttributeHandle]:
        self._file.check_open()
        found = self._read()
        if not found.is_complete:
            found = _Read({attribute.name: attribute for attribute in self._node._file_attributes()})
            found.is_complete = True
            if not self._file.is_edited:
                self._cached["_read_attributes"] = found
        return found

    def _one(self, name: str) -> _native.AttributeHandle | None:
        # An object may have many attributes. One is looked up without the others.
        self._file.check_open()
        read = self._read()
        found: _native.AttributeHandle | None = read.get(name)
        if found is None and not read.is_complete and _is_text(name):
            found = self._node._file_attribute(name)
            if found is not None:
                read[name] = found
        return found

    def _found(self, name: str | bytes) -> _native.AttributeHandle:
        if isinstance(name, bytes):
            name = name.decode("utf-8", "surrogateescape")
        elif not isinstance(name, str):
            raise TypeError(f"A name should be string or bytes, not {type(name)}")
        found = self._one(name)
        if found is None:
            raise KeyError(f"Unable to open attribute (can't locate attribute: {name!r})")
        return found

    def __getitem__(self, name: str | bytes) -> Any:
        return attribute_value(self._found(name))

    def get_id(self, name: str | bytes) -> AttrID:
        """Return the element type and extent of an attribute: ``dtype``, ``shape``."""
        found = self._found(name)
        element = found.element
        if element is None:
            dtype = np.dtype(f"S{len(found.text)}") if found.text else np.dtype(found.dtype)
        else:
            dtype = element.dtype
        return AttrID(found.name, dtype, found.shape, self, found.stored_type)

    def keys(self) -> Keys:
        """Return the names."""
        return Keys(self)

    def values(self) -> Values:
        """Return the values."""
        return Values(self)

    def items(self) -> Items:
        """Return pairs of name and value."""
        return Items(self)

    def _each(self) -> Iterator[tuple[str, Any]]:
        return ((name, self[name]) for name in self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        if isinstance(name, bytes):
            name = name.decode("utf-8", "surrogateescape")
        self._file.check_open()
        read = self._read()
        if read.is_complete or name in read or not isinstance(name, str) or not _is_text(name):
            return name in read
        return self._node._has_file_attribute(name)

    # ---- changing

    def __setitem__(self, name: str | bytes, value: Any) -> None:
        if getattr(self._node._store, "_writes_netcdf", False):
            netcdf_types.set_attribute(self, text_of(name), value)
        elif not _native.set_plain_attribute(self._node, name, value):
            self.create(name, value)

    def __delitem__(self, name: str | bytes) -> None:
        editor, name = self._editor, text_of(name)
        if name not in self:
            raise KeyError(f"Unable to delete attribute (can't locate attribute: {name!r})")
        editor.delete_attribute(self._node._address, name)

    def create(self, name: str | bytes, data: Any, shape: Any = None, dtype: Any = None) -> None:
        """Set an attribute, which may exist.

        Parameters
        ----------
        name : str
        data : array-like
            The value; `Empty`: none.
        shape : int or tuple of int, optional
            Default: the shape of ``data``.
        dtype : data-type or Datatype, optional
            Default: the type of ``data``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> file = hs.File.in_memory()
        >>> file.attrs["title"] = "an ocean"
        >>> file.attrs.create("depth", 4, dtype="i2")
        >>> file.attrs["title"], file.attrs["depth"]
        ('an ocean', np.int16(4))
        """
        name = text_of(name)
        if not name:
            raise InvalidArgumentError("Unable to create attribute (no attribute name)")
        create_attribute(self, name, data, shape, dtype)

    def modify(self, name: str | bytes, value: Any) -> None:
        """Change the value of an attribute, but not its type and shape. Creates it if there is none."""
        modify_attribute(self, text_of(name), value)

    def rename(self, name: str, new: str) -> None:
        """Give an attribute another name."""
        editor, name, new = self._editor, text_of(name), text_of(new)
        if name not in self:
            raise KeyError(f"Unable to rename attribute (can't locate attribute: {name!r})")
        if new in self:
            raise NameExistsError(f"Unable to rename attribute {name!r} (there is an attribute {new!r})")
        editor.rename_attribute(self._node._address, name, new)

    def put(self, attributes: Any) -> None:
        """Replace all attributes."""
        new = dict(attributes)
        for name in list(self):
            if name not in new:
                del self[name]
        self.update(new)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def asdict(self) -> dict[str, Any]:
        """Return all attributes as a dictionary."""
        return dict(self)

    def shown(self) -> dict[str, Any]:
        """Return all attributes, with ``{"unsupported": why}`` for unreadable ones."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except UnsupportedError as error:
                found[name] = {"unsupported": str(error)}
        return found

    def __repr__(self) -> str:
        return f"FileAttributes({list(self)!r})" if self._file.is_open else "FileAttributes(of a closed file)"
