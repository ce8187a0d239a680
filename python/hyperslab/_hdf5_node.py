"""What arrays and groups of files have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hyperslab._hdf5_attrs import FileAttributes
from hyperslab._store import Store
from hyperslab.errors import ReadOnlyError

if TYPE_CHECKING:
    from hyperslab._hdf5_group import FileGroup

__all__ = ["FileNode"]


class FileNode:
    """A node of an HDF5 or NetCDF file: the one before `Array` or `Group` among the bases of a class."""

    _store: Store
    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...

    @property
    def attrs(self) -> FileAttributes:
        """The attributes."""
        found: FileAttributes | None = self.__dict__.get("_read_attributes")
        if found is None:
            # Only what is an array or a group has attributes to read.
            node: Any = self
            found = self.__dict__["_read_attributes"] = FileAttributes(node)
        return found

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        raise ReadOnlyError("files of HDF5 and NetCDF are read only so far")

    @property
    def file(self) -> FileGroup:
        """The root group of the file."""
        from hyperslab._hdf5_group import root_of

        return root_of(self._store)

    @property
    def parent(self) -> Any:
        """The group that it is in."""
        return self.file[self.name.rpartition("/")[0] or "/"]
