"""Attributes of HDF5: a mapping that is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from hyperslab import _native
from hyperslab._hdf5_values import attribute_value
from hyperslab.errors import ReadOnlyError, UnsupportedError

__all__ = ["FileAttributes"]


class _Node(Protocol):
    def _file_attributes(self) -> list[_native.AttributeHandle]: ...


class FileAttributes(Mapping[str, Any]):
    """The attributes of a group, array or committed datatype of an HDF5 or NetCDF file.

    Values are as in h5py: NumPy scalars and arrays, `str` for text, arrays of `str` for arrays of text of
    variable length, `Empty` for what has no value.
    """

    def __init__(self, node: _Node, file: _native.StoreHandle, kept: dict[str, Any]) -> None:
        # A node does not keep its attributes, which refer to it, but what was read: ``kept`` is the
        # node's own dictionary. In a circle the file would stay open until the collector runs.
        self._node, self._file, self._kept = node, file, kept

    def _all(self) -> dict[str, _native.AttributeHandle]:
        self._file.check_open()
        found: dict[str, _native.AttributeHandle] | None = self._kept.get("_read_attributes")
        if found is None:
            found = {attribute.name: attribute for attribute in self._node._file_attributes()}
            self._kept["_read_attributes"] = found
        return found

    def __getitem__(self, name: str) -> Any:
        return attribute_value(self._all()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __setitem__(self, name: str, value: Any) -> None:
        raise ReadOnlyError(f"attribute {name!r}: files of HDF5 and NetCDF are read only so far")

    __delitem__ = put = update = __setitem__

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def asdict(self) -> dict[str, Any]:
        """All attributes, as a dictionary."""
        return dict(self)

    def shown(self) -> dict[str, Any]:
        """All attributes; of those that cannot be read ``{"unsupported": why}``."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except UnsupportedError as error:
                found[name] = {"unsupported": str(error)}
        return found

    def __repr__(self) -> str:
        return f"FileAttributes({list(self)!r})" if self._file.is_open else "FileAttributes(of a closed file)"
