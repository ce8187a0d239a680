"""Dimensions and variables of NetCDF-4 files: how groups make and change them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab import _native
from hyperslab._hdf5.create import new_dataset
from hyperslab._hdf5.netcdf_types import default_fill, element_bytes, set_fill_attribute, variable_type
from hyperslab._hdf5.new_arrays import array_of, is_empty, numpy_type
from hyperslab._hdf5.node import FileNode
from hyperslab.errors import ArrayShapeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup

__all__ = [
    "NetcdfDimension",
    "NetcdfDimensions",
    "NetcdfGroup",
    "begin_netcdf",
    "filled",
    "grown",
    "is_netcdf",
]

# The attribute of the root group of files that netCDF, h5netcdf or hyperslab have written.
_PROPERTIES = "_NCProperties"
_FILTERS = ("compression", "shuffle", "fletcher32", "scaleoffset")


class _State:
    """The dimensions of an open file."""

    def __init__(self, definitions: _native.NetcdfDefinitions) -> None:
        self.definitions, self.fills = definitions, True


def begin_netcdf(root: FileGroup) -> None:
    """Make a new file a NetCDF-4 file; an existing one must be NetCDF-4."""
    store: Any = root._store
    is_new = not len(root) and not len(root.attrs)
    if not is_new and not _native.is_netcdf4(root._handle):
        raise InvalidArgumentError(
            f"netcdf: {root.filename} is an HDF5 file without NetCDF's dimensions; copy it with "  # type: ignore[attr-defined]
            "hyperslab.copy(path, new, file_format='netcdf4'), or open it without netcdf=True"
        )
    store._netcdf = _State(_native.NetcdfDefinitions(root._editor, is_new))
    store._writes_netcdf = True


def is_netcdf(node: FileNode) -> bool:
    """Return True if new groups of a file keep the order of their members, as netCDF wants."""
    store: Any = node._store
    found: bool | None = getattr(store, "_is_netcdf", None)
    if found is None:
        found = getattr(store, "_netcdf", None) is not None or _PROPERTIES in node.file.attrs
        store._is_netcdf = found
    return found


class NetcdfDimension:
    """A dimension of a group: its `name` and `size`."""

    def __init__(self, group: FileGroup, name: str, size: int, unlimited: bool) -> None:
        self._group, self._name, self._size, self._unlimited = group, name, size, unlimited

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def size(self) -> int:
        """Its length. For an unlimited dimension, of the longest variable along it."""
        return self._size

    def isunlimited(self) -> bool:
        """Return True if it may grow."""
        return self._unlimited

    def group(self) -> FileGroup:
        """Return the group that has the dimension."""
        return self._group

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        kind = ", unlimited" if self._unlimited else ""
        return f"<NetCDF dimension {self._name!r}: size {self._size}{kind}>"


class NetcdfDimensions(Mapping[str, NetcdfDimension]):
    """The dimensions that a group has itself, by name, in the order in which they were made."""

    def __init__(self, group: FileGroup) -> None:
        self._group = group

    def _found(self) -> list[tuple[str, int, bool]]:
        return _native.netcdf_dimensions(self._group._handle)

    def __getitem__(self, name: str) -> NetcdfDimension:
        store: Any = self._group._store
        state = getattr(store, "_netcdf", None)
        if state is not None:
            # One dimension of many, without a look at the others.
            one = state.definitions.find(self._group._handle, name)
            if one is None or one[0] != self._group.path:
                raise KeyError(name)
            if not one[4]:
                return NetcdfDimension(self._group, name, one[3], False)
        for found, size, unlimited in self._found():
            if found == name:
                return NetcdfDimension(self._group, name, size, unlimited)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _, _ in self._found())

    def __len__(self) -> int:
        return len(self._found())

    def __repr__(self) -> str:
        return f"<NetCDF dimensions {dict((name, size) for name, size, _ in self._found())!r}>"


class NetcdfGroup(FileNode):
    """Methods of groups in NetCDF-4 files."""

    if TYPE_CHECKING:
        _handle: Any

        def _enter(self, group: Any, names: list[str], make: bool) -> FileGroup: ...
        def _start(self, path: str) -> FileGroup: ...
        def _path_to(self, name: str) -> str: ...
        def _node(self, handle: Any) -> Any: ...

    def _netcdf(self) -> _State:
        store: Any = self._store
        state: _State | None = getattr(store, "_netcdf", None)
        if state is None:
            editor, root = self._editor, self.file
            if not _native.is_netcdf4(root._handle):
                raise InvalidArgumentError(
                    f"{self._store.url} is an HDF5 file without NetCDF's dimensions: make a NetCDF file with "
                    "hyperslab.File(path, 'w', netcdf=True)"
                )
            state = store._netcdf = _State(_native.NetcdfDefinitions(editor, False))
        return state

    @property
    def dimensions(self: Any) -> NetcdfDimensions:
        """The dimensions of a NetCDF group by name. Groups above have their own."""
        return NetcdfDimensions(self)

    def create_dimension(self: Any, name: str, size: int | None = None) -> NetcdfDimension:
        """Create a dimension of a NetCDF-4 group.

        Parameters
        ----------
        name : str
            Its name.
        size : int, optional
            Its length. ``None``, and as in netCDF also 0: it is unlimited.

        Raises
        ------
        ValueError
            If the group has a dimension of this name.

        Examples
        --------
        >>> import hyperslab as hs
        >>> file = hs.File.in_memory(netcdf=True)
        >>> file.create_dimension("time"), file.create_dimension("x", 3)
        (<NetCDF dimension 'time': size 0, unlimited>, <NetCDF dimension 'x': size 3>)
        """
        length = None if size is None else int(size)
        if length is not None and length < 0:
            raise InvalidArgumentError(f"size: expected a number of at least 0, found {size}")
        self._netcdf().definitions.create_dimension(self._handle, str(name), length or None)
        return NetcdfDimension(self, str(name), length or 0, not length)

    def resize_dimension(self: Any, name: str, size: int) -> None:
        """Change the length of an unlimited dimension of this group, and of all variables along it.

        Examples
        --------
        >>> import hyperslab as hs
        >>> file = hs.File.in_memory(netcdf=True)
        >>> _ = file.create_dimension("time")
        >>> t = file.create_variable("t", ("time",), "i4", [1, 2])
        >>> file.resize_dimension("time", 3)
        >>> t[:]
        array([          1,           2, -2147483647], dtype=int32)
        """
        definitions, length = self._netcdf().definitions, int(size)
        found = definitions.find(self._handle, name)
        if found is None or found[0] != self.path:
            raise InvalidArgumentError(f"resize_dimension: group '{self.name}' has no dimension {name!r}")
        if not found[4]:
            raise InvalidArgumentError(
                f"resize_dimension: dimension {name!r} is not unlimited, so its size stays {found[3]}"
            )
        if length < 0:
            raise InvalidArgumentError(f"size: expected a number of at least 0, found {size}")
        users = definitions.users(self._handle, name)
        if found[5]:
            users = [(found[2], 0), *users]
        for address, axis in users:
            array = self._node(self._editor.open(address, ""))
            if array.shape[axis] != length:
                _resize(definitions, array, {axis: length}, may_shorten=True)
        definitions.note_length(self._handle, name, length)

    def set_fill(self: Any, fills: bool = True) -> bool:
        """Choose whether elements of new variables that are never written get a fill value.

        Returns the old choice.
        """
        state: _State = self._netcdf()
        old, state.fills = state.fills, bool(fills)
        return old

    def create_variable(
        self: Any,
        name: str,
        dimensions: str | Iterable[str] = (),
        dtype: Any = None,
        data: Any = None,
        *,
        fillvalue: Any = None,
        chunks: Any = None,
        **keywords: Any,
    ) -> FileArray:
        """Create a variable of a NetCDF-4 group, and groups above that are missing.

        A variable with the name of its first dimension has the coordinates of the dimension.

        Parameters
        ----------
        name : str
            A name or path.
        dimensions : str or sequence of str, default ()
            The names of its dimensions, of this group or of groups above.
        dtype : data-type, optional
            As in `create_dataset`; ``str``: text. Default: the type of ``data``. User types
            (enumerations, structures, sequences) must be committed before: ``group["name"] = dtype``.
        data : array-like, optional
            The elements. An unlimited dimension grows if there are more along it.
        fillvalue : scalar, False, optional
            The value of elements that are never written, which becomes the attribute ``_FillValue``.
            Default: netCDF's value of the type, without attribute. ``False``: such elements get no value.
        chunks : tuple of int, optional
            The shape of chunks. Default: netCDF's choice along unlimited dimensions and for compressed
            variables, otherwise none.
        **keywords
            Others of `create_dataset`: ``compression``, ``shuffle``, ….

        Examples
        --------
        >>> import hyperslab as hs
        >>> file = hs.File.in_memory(netcdf=True)
        >>> _ = file.create_dimension("time"), file.create_dimension("x", 2)
        >>> t = file.create_variable("t", ("time", "x"), "f4", [[1, 2], [3, 4], [5, 6]])
        >>> t.shape, file.dimensions["time"].size, t.chunks
        ((3, 2), 3, (1, 2))
        """
        self._netcdf()
        names = [part for part in str(name).split("/") if part]
        if not names:
            raise InvalidArgumentError("name: a variable has a name of at least one character")
        start = self._start(str(name))
        # Groups above are removed again if the variable cannot be made.
        missing = _first_missing(start, names[:-1])
        try:
            return _new_variable(
                self._enter(start, names[:-1], True),
                names[-1],
                dimensions,
                dtype,
                data,
                fillvalue,
                chunks,
                keywords,
            )
        except BaseException:
            if missing is not None:
                del start[missing]
            raise


_Dimension = tuple[str, str, int, int, bool, bool]


def _first_missing(group: Any, names: list[str]) -> str | None:
    """Return the path of the first group on the way that does not exist."""
    at = group
    for number, name in enumerate(names):
        if not hasattr(at, "_file_link"):
            # Something else has the name of a group.
            return None
        if at._file_link(name) is None:
            return "/".join(names[: number + 1])
        at = at[name]
    return None


def _new_variable(
    group: Any,
    last: str,
    dimensions: str | Iterable[str],
    dtype: Any,
    data: Any,
    fillvalue: Any,
    chunks: Any,
    keywords: dict[str, Any],
) -> FileArray:
    state = group._netcdf()
    along = [dimensions] if isinstance(dimensions, str) else [str(one) for one in dimensions]
    kind = variable_type(group, last, dtype, data)
    if np.ma.isMaskedArray(data):
        data = data.filled(default_fill(kind) if fillvalue in (None, False) else fillvalue)
    values = None if data is None or is_empty(data) else array_of(data, numpy_type(kind))
    axes = [_found(state, group, last, one) for one in along]
    shape = _shape(last, axes, along, None if values is None else values.shape)
    limits = [None if axis[4] else axis[3] for axis in axes]
    is_filtered = any(keywords.get(key) not in (None, False) for key in _FILTERS)
    if axes and (chunks is True or (chunks is None and (None in limits or is_filtered))):
        chunks = tuple(_native.netcdf_chunks(limits, element_bytes(kind)))
    fill, filled = _fill(state, kind, fillvalue, keywords)
    made = new_dataset(
        group,
        group._path_to(last),
        shape,
        kind,
        values,
        chunks=chunks or None,
        maxshape=tuple(limits) if None in limits else None,
        fillvalue=fill,
        track_order=True,
        **keywords,
    )
    linked = state.definitions.define(group._handle, last, made._address, along)
    if linked != last:
        made = group[linked]
    if filled:
        set_fill_attribute(made.attrs, fill, kind)
    for axis, dimension in enumerate(axes):
        if dimension[4] and shape[axis] > dimension[3]:
            _lengthen(state, group, along[axis], shape[axis], made)
    if limits.count(None) > 1:
        _resize(state.definitions, made, {})
    return made


def _found(state: _State, group: FileGroup, variable: str, name: str) -> _Dimension:
    found = state.definitions.find(group._handle, name)
    if found is None:
        raise InvalidArgumentError(
            f"variable {variable!r}: there is no dimension {name!r} in group '{group.name}' or above it; "
            "make it with create_dimension"
        )
    return found


def _shape(
    variable: str, axes: list[_Dimension], names: list[str], given: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Return the shape of a new variable."""
    if given is None:
        unlimited = [number for number, axis in enumerate(axes) if axis[4]]
        return tuple(_whole_or_empty([axis[3] for axis in axes], unlimited))
    if len(given) != len(axes):
        raise ArrayShapeError(
            f"variable {variable!r}: it has {len(axes)} dimensions {tuple(names)}, and its data "
            f"have {len(given)}"
        )
    for axis, name, length in zip(axes, names, given, strict=True):
        if not axis[4] and axis[3] != length:
            raise ArrayShapeError(
                f"variable {variable!r}: dimension {name!r} has {axis[3]} elements, and the data "
                f"have {length}"
            )
    return given


def _fill(state: _State, kind: Any, fillvalue: Any, keywords: dict[str, Any]) -> tuple[Any, bool]:
    """Return the stored fill value, and whether it becomes an attribute."""
    if fillvalue is False or (fillvalue is None and not state.fills):
        keywords.setdefault("fill_time", "never")
        return None, False
    if fillvalue is None:
        return default_fill(kind), False
    return fillvalue, True


def filled(array: FileArray, value: Any) -> Any:
    """Return values for a variable: missing elements of a masked array are the variable's fill value."""
    if not np.ma.isMaskedArray(value):
        return value
    given = array.attrs.get("_FillValue")
    return value.filled(default_fill(array.dtype) if given is None else np.asarray(given).reshape(-1)[0])


@contextmanager
def grown(array: FileArray, parts: tuple[Any, ...], value: Any) -> Iterator[None]:
    """Make a variable long enough for an assignment behind its end, along unlimited dimensions.

    If the assignment fails, the variable is as short as before.
    """
    before = array.shape
    longer = _longer(array, parts, value)
    group: Any = array.parent if longer else None
    try:
        if longer:
            _resize(group._netcdf().definitions, array, longer)
        yield
    except BaseException:
        if array.shape != before:
            array.resize(before)
        raise
    names = (array.dimension_names if longer else None) or ()
    for axis, length in longer.items():
        name = names[axis] if names else None
        if name is not None:
            _lengthen(group._netcdf(), group, name, length, array)


def _resize(
    definitions: _native.NetcdfDefinitions,
    array: FileArray,
    lengths: dict[int, int],
    *,
    may_shorten: bool = False,
) -> None:
    """Change the lengths of a variable along some of its unlimited dimensions.

    A variable along several unlimited dimensions is as long as all of them, or has no elements.
    netCDF-C reads wrong values behind the end of a variable that is shorter than two dimensions.
    """
    limits = array.maxshape or ()
    unlimited = [axis for axis, limit in enumerate(limits) if limit is None]
    shape = [lengths.get(axis, length) for axis, length in enumerate(array.shape)]
    is_unwritten = not lengths and all(array.shape[axis] == 0 for axis in unlimited)
    if len(unlimited) > 1 and not is_unwritten:
        known = definitions.lengths(array._address)
        for axis in unlimited[: len(known)]:
            if axis not in lengths or not may_shorten:
                shape[axis] = max(shape[axis], known[axis] or 0)
    if tuple(shape) != array.shape:
        array.resize(tuple(shape))


def _whole_or_empty(shape: list[int], unlimited: list[int]) -> list[int]:
    """Return the shape, with length 0 along all unlimited dimensions if one of them has length 0."""
    is_empty = any(shape[axis] == 0 for axis in unlimited)
    return [0 if is_empty and axis in unlimited else length for axis, length in enumerate(shape)]


def _longer(array: FileArray, parts: tuple[Any, ...], value: Any) -> dict[int, int]:
    """Return the lengths that an assignment needs, along axes that are too short."""
    limits, longer = array.maxshape, dict[int, int]()
    if limits is None or None not in limits:
        return longer
    if any(part is Ellipsis for part in parts):
        at = next(number for number, part in enumerate(parts) if part is Ellipsis)
        between = len(limits) - len(parts) + 1
        parts = (*parts[:at], *[slice(None)] * between, *parts[at + 1 :])
    given = np.shape(value)
    along = [number for number, part in enumerate(parts) if not isinstance(part, (int, np.integer))]
    for axis, part in enumerate(parts[: len(limits)]):
        if limits[axis] is not None:
            continue
        length = array.shape[axis]
        if isinstance(part, (int, np.integer)):
            length = int(part) + 1
        elif isinstance(part, slice) and part.step in (None, 1) and (part.start or 0) >= 0:
            if part.stop is not None:
                length = int(part.stop)
            elif axis in along and len(given) == len(along) + len(limits) - len(parts):
                length = (part.start or 0) + given[along.index(axis)]
        if length > array.shape[axis]:
            longer[axis] = length
    return longer


def _lengthen(state: _State, group: FileGroup, name: str, length: int, variable: FileArray) -> None:
    """Make a dimension as long as a variable."""
    found = state.definitions.find(group._handle, name)
    if found is None or found[3] >= length:
        return
    if found[5] and found[2] != variable._address:
        coordinates: Any = group._node(variable._editor.open(found[2], ""))
        if coordinates.shape[0] < length:
            coordinates.resize(length, 0)
    state.definitions.note_length(group._handle, name, length)
