"""The methods that arrays and groups of files share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hyperslab import _native
from hyperslab._base.kin import Kin
from hyperslab._core.node import Node
from hyperslab._hdf5.attrs import FileAttributes
from hyperslab._hdf5.ids import NodeID
from hyperslab._native import Reference
from hyperslab.errors import InvalidArgumentError, ReadOnlyError

if TYPE_CHECKING:
    from typing import Self

    from hyperslab._hdf5.group import FileGroup

__all__ = ["FileNode"]


class FileNode(Kin, Node):
    """An array or a group of an HDF5 or NetCDF file."""

    if TYPE_CHECKING:

        def _reference(self) -> Any: ...

        @property
        def _address(self) -> int: ...

    @property
    def name(self) -> str:
        """``/`` and the path in the file; ``None`` for an object without a name."""
        if "_is_anonymous" in self.__dict__:
            return self.ref.name  # type: ignore[return-value]
        return f"/{self.path}"

    @property
    def _editor(self) -> _native.Editor:
        """The changes of the file. Fails if the file was opened for reading."""
        editor = self._store._native.editor()
        if editor is None:
            raise ReadOnlyError(
                f"'{self.name}': {self._store.url} was opened for reading (no write intent on file): open "
                "HDF5 files with hyperslab.File(path, 'r+')"
            )
        return editor

    @property
    def attrs(self) -> FileAttributes:
        """The attributes."""
        # Subclasses are arrays and groups, which have `_file_attributes`.
        node: Any = self
        return FileAttributes(node, self._store._native, self.__dict__)

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        self.attrs.put(attributes)

    @property
    def file(self) -> FileGroup:
        """The root group of the file."""
        from hyperslab._hdf5.file import file_of

        return file_of(self._store)

    @property
    def id(self) -> NodeID:
        """h5py's low-level object, as far as programs use it for reading."""
        return NodeID(self)

    @property
    def _id(self) -> Any:
        return self.id

    @property
    def ref(self) -> Reference:
        """A reference to the node."""
        found: Reference = self._reference()
        return found

    def close(self) -> None:
        """Close the file at once.

        Using its arrays, groups and attributes, including this one, then raises `ValueError`
        (`errors.ClosedError`). Without this call, the file is closed when the last of these objects
        is dropped.

        Examples
        --------
        >>> import h5py, hyperslab as hs, tempfile
        >>> path = tempfile.mkdtemp() + "/example.h5"
        >>> with h5py.File(path, "w") as file:
        ...     file["a"] = [1, 2, 3]
        >>> with hs.open(path) as file:
        ...     a = file["a"]
        ...     values = a[:]
        >>> bool(a), values
        (False, array([1, 2, 3]))
        """
        # A file that is only read needs nothing else, and costs no other call.
        if self._store._native.is_open and self._store._native.editor() is not None:
            self._store.close()
        else:
            self._store._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        """Return True if the file is open."""
        return self._store._native.is_open

    def __repr__(self) -> str:
        if self._store._native.is_open:
            return super().__repr__()
        return f"<Closed {self._store.url}{self.name}>"

    def refresh(self) -> Self:
        """Open the file again to see what its writer added. Returns the array or group."""
        super().refresh()
        for name in ("_kept_facts", "_of_objects", "_read_attributes"):
            self.__dict__.pop(name, None)
        return self

    @property
    def parent(self) -> Any:
        """The group that contains the node."""
        name: str | None = self.name
        if name is None:
            raise InvalidArgumentError("Parent of an anonymous object is undefined")
        return self.file[name.rpartition("/")[0] or "/"]
