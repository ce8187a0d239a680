"""Groups of HDF5 and NetCDF files: `Group` with additions from h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hyperslab import _native
from hyperslab._base.kin import Kin
from hyperslab._core.array import Array
from hyperslab._core.cache import Cache
from hyperslab._core.group import Group
from hyperslab._core.group_common import AnyGroup
from hyperslab._core.identity import content_of
from hyperslab._core.info import Info
from hyperslab._core.metadata import Metadata
from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.attrs import FileAttributes
from hyperslab._hdf5.group_writing import GroupWriting
from hyperslab._hdf5.ids import GroupID, node_of
from hyperslab._hdf5.links import ExternalLink, HardLink, SoftLink, UserLink, link_of
from hyperslab._hdf5.mapping_views import Items, Keys, Values
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.netcdf import NetcdfGroup
from hyperslab._hdf5.node import FileNode
from hyperslab._hdf5.type_ids import TypeID, type_id
from hyperslab._native import Reference
from hyperslab._stores.store import FileStore, Store
from hyperslab.errors import (
    ExternalFileError,
    InvalidArgumentError,
    MetadataValidationError,
    NodeNotFoundError,
    UnclosedFileError,
    UnsupportedError,
)

__all__ = ["NOWHERE", "Datatype", "FileGroup"]


if TYPE_CHECKING:
    # For type checkers: to `isinstance`, this class is a `Group`.
    _Base = Group
else:
    _Base = AnyGroup

# Errors of links that are broken, out of bounds, or lead to objects that cannot be opened.
NOWHERE = (KeyError, ExternalFileError, UnsupportedError, MetadataValidationError, UnclosedFileError)


class Datatype(Kin):
    """A committed datatype: a named element type with its own attributes in an HDF5 file.

    ``Datatype(id)`` of a low-level type is a type without a name, for new datasets and attributes.
    """

    _free: TypeID | None = None

    def __init__(self, handle: Any, store: Store | None = None) -> None:
        if isinstance(handle, _native.DatatypeHandle):
            self._handle = handle
            self._store = FileStore._of(handle.file) if store is None else store
        elif isinstance(handle, TypeID):
            self._free = handle
        else:
            raise InvalidArgumentError(f"expected a low-level type (h5t), found {handle!r}")

    @property
    def _stored_type(self) -> _native.StoredType:
        return self._handle.stored_type if self._free is None else self._free._stored_type

    @property
    def _address(self) -> int:
        return self._handle.address

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self._handle.element.dtype if self._free is None else self._free.dtype

    @property
    def name(self) -> str | None:
        """``/`` and the path in the file; ``None`` for a type without a name."""
        if self._free is not None:
            return None
        # Types that only datasets and attributes use have no name.
        return f"/{self._handle.path}" if self._handle.path else None

    @property
    def attrs(self) -> FileAttributes:
        """Attributes of the datatype."""
        return FileAttributes(self, self._store._native, self.__dict__)

    def _file_attributes(self) -> list[_native.AttributeHandle]:
        return self._handle._file_attributes()

    def _file_attribute(self, name: str) -> _native.AttributeHandle | None:
        return self._handle._file_attribute(name)

    def _has_file_attribute(self, name: str) -> bool:
        return self._handle._has_file_attribute(name)

    @property
    def file(self) -> FileGroup:
        """The root group of the file."""
        from hyperslab._hdf5.file import file_of

        return file_of(self._store)

    @property
    def parent(self) -> Any:
        """The group that contains the datatype."""
        return self.file[(self.name or "").rpartition("/")[0] or "/"]

    @property
    def id(self) -> TypeID:
        """h5py's low-level object for the element type."""
        if self._free is not None:
            return self._free
        found: TypeID = type_id(self.dtype, self._stored_type)
        found._is_committed = True
        return found

    @property
    def ref(self) -> Reference:
        """A reference to the datatype."""
        found: Reference = self._handle._reference()
        return found

    def __bool__(self) -> bool:
        """Return True if the file is open."""
        return self._free is None and self._handle.file.is_open

    def _place(self) -> tuple[str, int]:
        return self._handle.file.url, self._handle.address

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Datatype):
            return NotImplemented
        if self._free is not None or other._free is not None:
            return self._free is other._free
        return self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place() if self._free is None else self._free)

    def __repr__(self) -> str:
        return f"<Datatype {self.name or '(no name)'} {self.dtype}>"


Link = HardLink | SoftLink | ExternalLink | UserLink
# Kind, address, path and file.
_Link = tuple[str, int, str, str]


class FileGroup(GroupWriting, NetcdfGroup, FileNode, _Base):  # type: ignore[misc]
    """A group of an HDF5 or NetCDF file.

    Made by `hyperslab.open` and groups. A mapping from names to arrays, groups and committed
    datatypes. It follows links: ``group["ocean/sst"]``. It also contains the names of broken links:
    `get`, `items` and `values` return ``None`` for them, ``group[name]`` raises `KeyError`.
    ``group[reference]`` returns the object that a `Reference` refers to.

    Examples
    --------
    >>> import h5py, hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["ocean/sst"] = [1.5, 2.5]
    ...     file["ocean"].attrs["title"] = "an ocean"
    ...     file["same"] = h5py.SoftLink("/ocean/sst")
    >>> file = hs.open(path)
    >>> list(file), file["same"].shape, file["ocean"].attrs["title"]
    (['ocean', 'same'], (2,), 'an ocean')
    >>> file.get("same", getlink=True)
    <SoftLink to "/ocean/sst">
    """

    @classmethod
    def _of_id(cls, low_id: Any) -> Self:
        # As in h5py, `Group(id)` is the group of a low-level object.
        found: Self = node_of(low_id, GroupID)
        return found

    def _node(self, handle: Any) -> Any:
        store = self._store
        if isinstance(handle, _native.DatatypeHandle):
            same = store._native.is_same_file(handle.file)
            return Datatype(handle, store if same else None)._as_kin()
        # An external link leads to another file.
        if not store._native.is_file_of(handle):
            store = FileStore._of(handle.file)
        if isinstance(handle, _native.ArrayHandle):
            array = FileArray(handle, store, None, self._cache)
            return array if FileArray._kin is None else array._as_kin()
        return FileGroup(handle, store, self._cache)

    def _array(self, handle: _native.ArrayHandle) -> FileArray:
        """Return the array of a handle in the file of this group."""
        array = FileArray(handle, self._store, None, self._cache)
        return array if FileArray._kin is None else array._as_kin()

    # ---- what it is

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """Kind and attributes."""
        return Metadata({"node_type": "group", "attributes": self.attrs.shown()})

    @property
    def info(self) -> Info:
        """A description of the group, one fact per line."""
        return Info(
            {
                "Name": self.name,
                "Type": "Group",
                "Format": self._store._native.file_format,
                "Read-only": self.read_only,
                "Store type": type(self._store).__name__,
            }
        )

    def phony_dimensions(self) -> dict[str, tuple[str, ...]]:
        """Return names for unnamed axes, as netCDF makes them for HDF5 files: ``phony_dim_0``, …

        The names depend on the whole file, so `Array.dimension_names` does not use them.

        Returns
        -------
        dict[str, tuple[str, ...]]
            The `name` of each array without dimensions, with the names of its axes. Axes of the
            same length in one group share a name, except within one array.

        Examples
        --------
        >>> import h5py, hyperslab as hs, tempfile
        >>> path = tempfile.mkdtemp() + "/example.h5"
        >>> with h5py.File(path, "w") as file:
        ...     file["a"], file["b"] = [1, 2, 3], [[1, 2, 3], [4, 5, 6]]
        >>> hs.open(path).phony_dimensions()
        {'/a': ('phony_dim_0',), '/b': ('phony_dim_1', 'phony_dim_0')}
        """
        return {f"/{path}": tuple(names) for path, names in self._phony_dimensions().items()}

    # ---- nodes in it

    def __getitem__(self, path: str | bytes | Reference) -> Any:
        if isinstance(path, Reference):
            found = self._node(path._open())
            if isinstance(found, FileNode) and not found.path and found._address != self.file._address:
                # No link leads to the object.
                vars(found)["_is_anonymous"] = True
            return found
        if not isinstance(path, str):
            path = _named(path)
        if not path:
            raise KeyError("Unable to open object (no name specified)")
        try:
            return self._node(self._child(path))
        except NodeNotFoundError as error:
            raise KeyError(f"{path}: {error}") from None

    def get(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, name: Any, default: Any = None, getclass: bool = False, getlink: bool = False, **elink: Any
    ) -> Any:
        """Return the object of this name, or ``default`` if there is none.

        Parameters
        ----------
        name : str
            A name or path.
        default : any object, optional
        getclass : bool, default False
            Whether to return the class instead: `FileArray`, `FileGroup`, `Datatype`.
        getlink : bool, default False
            Whether to return the link instead: `HardLink`, `SoftLink` (with ``path``),
            `ExternalLink` (with ``filename`` and ``path``); with ``getclass``, the link's class.
        **elink
            h5py's options for opening other files (``elink_mode``, …). They have no effect.
        """
        if getlink:
            link = self._link(name)
            if link is None:
                return default
            return type(link) if getclass else link
        try:
            found = self[name]
        except NOWHERE:
            return default
        return type(found) if getclass else found

    def _link(self, name: str | bytes) -> Link | None:
        """Return the link at a name or path."""
        name = _named(name)
        if not name:
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]
        above, last = "/".join(parts[:-1]), parts[-1] if parts else ""
        if name.startswith("/"):
            above = f"/{above}"
        group = self
        if above:
            found = self.get(above)
            if not isinstance(found, FileGroup):
                return None
            group = found
        link = group._file_link(last) if last else None
        if link is None:
            return HardLink() if not last else None
        return link_of(link)

    def keys(self) -> Keys:
        """Return the names."""
        return Keys(self)

    def values(self) -> Values:
        """Return the objects that names lead to; see `get`."""
        return Values(self)

    def items(self) -> Items:
        """Return pairs of name and object; see `get`."""
        return Items(self)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._file_links()])

    def __reversed__(self) -> Iterator[str]:
        return reversed([name for name, _ in self._file_links()])

    def __len__(self) -> int:
        return len(self._file_links())

    def __contains__(self, path: object) -> bool:
        if isinstance(path, Reference):
            return bool(path)
        if isinstance(path, bytes):
            path = path.decode("utf-8", "surrogateescape")
        if not isinstance(path, str) or not path or not self:
            return False
        # As in h5py, a soft or external link counts even if it is broken. Only the groups on the
        # way to it must exist.
        return self._link(path) is not None

    def _each(self) -> Iterator[tuple[str, Any]]:
        """Yield names and objects; ``None`` for a link without an object that can be opened."""
        for name, (kind, address, _, _) in self._file_links():
            try:
                found = self._node(self._file_object(address, name)) if kind == "hard" else self[name]
            except NOWHERE:
                found = None
            yield name, found

    def _linked(self) -> Iterator[tuple[str, Any]]:
        """Yield names and objects, without broken links."""
        return ((name, found) for name, found in self._each() if found is not None)

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Any], ...]:
        """Return the arrays and groups below, with their paths relative to this group.

        Parameters
        ----------
        max_depth : int or None, default 0
            0: direct members, also behind links; ``None``: all nodes, without following links.
        use_consolidated_for_children : bool, default True
            Only for Zarr.
        """
        if max_depth == 0:
            return tuple(found for found in self._linked() if isinstance(found[1], (Array, Group)))
        depth = None if max_depth is None else max_depth + 1
        # Look each node up in its parent. By its whole path, a node 2000 levels deep would take
        # 2000 lookups.
        inside: dict[str, Any] = {"": self}
        found: list[tuple[str, Any]] = []
        for path, kind in self._walk(depth):
            if kind not in ("array", "group"):
                continue
            above, _, name = path.rpartition("/")
            group = inside.get(above)
            node = self.get(path) if group is None else group.get(name)
            if node is not None:
                found.append((path, node))
            if isinstance(node, Group):
                inside[path] = node
        return tuple(found)

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of arrays and groups below; ``max_depth`` is as in `members`."""
        return len(self.members(max_depth))

    def array_keys(self) -> Iterator[str]:
        """Yield the names of arrays directly below."""
        return iter([name for name, node in self._linked() if isinstance(node, Array)])

    def group_keys(self) -> Iterator[str]:
        """Yield the names of groups directly below."""
        return iter([name for name, node in self._linked() if isinstance(node, Group)])

    def visit(self, function: Callable[[str], Any]) -> Any:
        """Call a function with the path of each object below.

        Each object is visited once, in the order of names. Soft and external links are not
        followed. The first result other than ``None`` ends the visit and is returned.
        """
        return self.visititems(lambda path, _: function(path))

    def visititems(self, function: Callable[[str, Any], Any]) -> Any:
        """Call a function with the path and object of each object below; see `visit`."""
        seen: set[Any] = {self._hdf5_address()}

        def each(path: str, link: _Link, node: Any) -> Any:
            if link[0] != "hard" or link[1] in seen:
                return None
            seen.add(link[1])
            return function(path, node())

        return self._visit(each)

    def visit_links(self, function: Callable[[str], Any]) -> Any:
        """Call a function with the path of each link below.

        Links are visited in the order of names. Soft and external links are not followed. The first
        result other than ``None`` ends the visit and is returned.
        """
        return self._visit(lambda path, link, node: function(path))

    def visititems_links(self, function: Callable[[str, Any], Any]) -> Any:
        """Call a function with the path and link of each link below; see `visit_links`."""
        return self._visit(lambda path, link, node: function(path, link_of(link)))

    def _visit(self, function: Callable[[str, _Link, Callable[[], Any]], Any]) -> Any:
        """Call a function with path, link and object of each link below. Enters each group once."""
        entered: set[Any] = {self._hdf5_address()}
        # Groups being visited, innermost last. A list, because they may nest deeper than Python's
        # stack.
        inside: list[tuple[FileGroup, str, Iterator[tuple[str, _Link]]]] = [(self, "", self._sorted_links())]
        while inside:
            group, base, links = inside[-1]
            name, link = next(links, ("", None))
            if link is None:
                inside.pop()
                continue
            path, (kind, address, _, _) = f"{base}{name}", link
            opened = partial(group._linked_node, address, name)
            answer = function(path, link, opened)
            if answer is not None:
                return answer
            if kind == "hard" and address not in entered:
                entered.add(address)
                node = opened()
                if isinstance(node, FileGroup):
                    inside.append((node, f"{path}/", node._sorted_links()))
        return None

    def _sorted_links(self) -> Iterator[tuple[str, _Link]]:
        return iter(sorted(self._file_links(), key=lambda link: link[0].encode("utf-8", "surrogateescape")))

    def _linked_node(self, address: int, name: str) -> Any:
        return self._node(self._file_object(address, name))

    @property
    def _address(self) -> int:
        return self._hdf5_address()

    @property
    def id(self) -> GroupID:
        """h5py's low-level object."""
        return GroupID(self)

    def _tracks_order(self) -> bool:
        """Return True if the group keeps the order of its links."""
        return self._tracks_links()

    # ---- Python protocols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileGroup):
            return NotImplemented
        return self._store == other._store and self._hdf5_address() == other._hdf5_address()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self._store.url, self._hdf5_address()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_group, (self._store, self.path, self._cache)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "hyperslab.Group", self._store.url, self.path, *content_of(self)


# To users it is a group like any other. It lacks the members that only Zarr has.
Group.register(FileGroup)


def _named(name: Any) -> str:
    """Return a name or path as text."""
    if not isinstance(name, (str, bytes)):
        raise TypeError(f"Accessing a group is done with bytes or str, not {type(name)}")
    return text_of(name)


def _reopen_group(store: Store, path: str, cache: Cache | None) -> FileGroup:
    """Unpickle a group."""
    return FileGroup(_native.GroupHandle.deferred(store._native, path, None), store, cache)
