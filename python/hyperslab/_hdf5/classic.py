"""NetCDF classic files: made in two steps, first the header, then the elements."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

import numpy as np

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._hdf5.array import FileArray
from hyperslab._stores.classic_file import ClassicFile
from hyperslab._stores.remote import flat_options
from hyperslab._stores.store import location_of
from hyperslab.errors import InvalidArgumentError, NodeNotFoundError, StoreLockedError, UnsupportedError

__all__ = ["FORMATS", "Netcdf3Writer"]

FORMATS = ("NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")

_Attribute = tuple[str, str, bytes]

# Bytes that are copied at once from an old file to a new one.
_PIECE = 64 << 20


class ClassicArray(FileArray):
    """A variable of a classic file that is being changed."""

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.write(selection, value)


def _array(store: ClassicFile, name: str) -> ClassicArray:
    return ClassicArray(cast(_native.ArrayHandle, _native.open_node(store._native, name)), store, None, None)


class Netcdf3Writer:
    """Make or change a NetCDF classic file.

    First describe dimensions, attributes and variables. `begin` makes the header: then every variable is
    an array that is written like others, also by several threads at once. `close` writes the fill value
    to elements that nobody wrote, and gives the file its name: another program sees the old file, or
    none, until then.

    Parameters
    ----------
    path : str or os.PathLike, optional
        A path, or the URL of an object on a server. ``None``: `close` returns the bytes of the file.
    format : str, default "NETCDF3_64BIT_OFFSET"
        ``NETCDF3_CLASSIC``, ``NETCDF3_64BIT_OFFSET`` or ``NETCDF3_64BIT_DATA``.
    mode : {"w", "x", "a"}, default "w"
        ``w`` replaces a file, ``x`` refuses to. ``a`` changes a file, or makes it. Records are added in
        place. With new variables or attributes the file is written again, beside itself.
    storage_options : mapping, optional
        Credentials and settings of the server.

    Examples
    --------
    >>> from hyperslab._hdf5.classic import Netcdf3Writer
    >>> writer = Netcdf3Writer(None)
    >>> writer.dimension("time", None)
    >>> writer.variable("t", "f4", ("time",), attributes={"units": "K"})
    >>> writer.begin(records=3)
    >>> writer["t"][...] = [280, 281, 282]
    >>> image = writer.close()
    >>> image[:4]
    b'CDF\\x02'
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str = "NETCDF3_64BIT_OFFSET",
        *,
        mode: Literal["w", "x", "a"] = "w",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if format not in FORMATS:
            raise InvalidArgumentError(f"unexpected {format=}: expected one of {', '.join(FORMATS)}")
        if mode not in ("w", "x", "a"):
            raise InvalidArgumentError(f"unexpected {mode=}: expected 'w', 'x' or 'a'")
        self._path = None if path is None else location_of(path).removeprefix("file://")
        self._format, self._mode = format, mode
        self._options = flat_options(storage_options)
        self._dimensions: dict[str, tuple[int, bool]] = {}
        self._attributes: dict[str, _Attribute] = {}
        self._variables: dict[str, tuple[str, list[str], dict[str, _Attribute]]] = {}
        self._store: ClassicFile | None = None
        self._arrays: dict[str, ClassicArray] = {}
        # The file that is changed, its state, and whether it gets another header.
        self._old: _native.StoreHandle | None = None
        self._old_state: tuple[int, ...] = ()
        self._is_new = True
        if mode == "a" and self._path is not None:
            self._open_old()

    def _open_old(self) -> None:
        path = cast(str, self._path)
        if _native.takes_storage_options(path):
            raise UnsupportedError(f"{_native.shown(path)}, mode 'a': files on servers are not changed")
        try:
            self._old_state = _state(path)
        except FileNotFoundError:
            return
        try:
            old = _native.find_place(path)[0]
        except NodeNotFoundError:
            return
        self._format, dimensions, attributes, variables = _native.netcdf3_header(old)
        names = [name for name, _, _ in dimensions]
        self._dimensions = {name: (size, unlimited) for name, size, unlimited in dimensions}
        self._attributes = {one[0]: one for one in attributes}
        self._variables = {
            name: (dtype, [names[number] for number in axes], {one[0]: one for one in own})
            for name, dtype, axes, own in variables
        }
        self._old, self._is_new = old, False

    @property
    def format(self) -> str:
        """The format of the file."""
        return self._format

    @property
    def dimensions(self) -> dict[str, int]:
        """The lengths of the dimensions. The unlimited one has as many as there are records."""
        return {name: size for name, (size, _) in self._dimensions.items()}

    @property
    def unlimited(self) -> str | None:
        """The name of the unlimited dimension."""
        return next((name for name, (_, unlimited) in self._dimensions.items() if unlimited), None)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return (*self._variables,)

    def dimension(self, name: str, size: int | None) -> None:
        """Describe a dimension. ``None``: the unlimited one, along which records are added."""
        self._check_describing()
        if name in self._dimensions:
            raise InvalidArgumentError(f"dimension {name!r}: another dimension has this name")
        self._dimensions[name] = (0, True) if size is None else (int(size), False)
        self._is_new = True

    def attribute(self, variable: str | None, name: str, value: Any) -> None:
        """Describe an attribute of a variable; ``None``: of the file."""
        self._check_describing()
        made = _attribute(name, value, self._format)
        own = self._attributes if variable is None else self._variables[variable][2]
        if own.get(name) != made:
            own[name] = made
            self._is_new = True

    def drop_attribute(self, variable: str, name: str) -> None:
        """Remove an attribute of a variable."""
        self._check_describing()
        if self._variables[variable][2].pop(name, None) is not None:
            self._is_new = True

    def attributes(self, variable: str) -> tuple[str, ...]:
        """The names of the attributes of a variable."""
        return (*self._variables[variable][2],)

    def fill(self, variable: str, value: Any) -> None:
        """Describe the value of missing elements of a variable."""
        self._check_describing()
        dtype, _, own = self._variables[variable]
        made = _fill(dtype, value)
        if own.get(made[0]) != made:
            own[made[0]] = made
            self._is_new = True

    def rewrite(self) -> None:
        """Write the file again, beside itself: other programs see all changes at once, when it is closed."""
        self._check_describing()
        self._is_new = True

    @property
    def changes_in_place(self) -> bool:
        """True if elements are written to the file that other programs see."""
        return not self._is_new

    def variable(
        self,
        name: str,
        dtype: Any,
        dims: Sequence[str] = (),
        fill: Any = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe a variable. ``fill``: the value of elements that nobody writes, as ``_FillValue``."""
        self._check_describing()
        if name in self._variables:
            raise InvalidArgumentError(f"variable {name!r}: another variable has this name")
        for dim in dims:
            if dim not in self._dimensions:
                raise InvalidArgumentError(f"variable {name!r}: there is no dimension {dim!r}")
        found = np.dtype(dtype)
        stored = found.newbyteorder(">")
        own = {}
        if fill is not None:
            own["_FillValue"] = _fill(stored.str, fill)
        own |= {key: _attribute(key, value, self._format) for key, value in (attributes or {}).items()}
        self._variables[name] = (stored.str, [*dims], own)
        self._is_new = True

    def begin(self, records: int | None = None) -> None:
        """End the description: make the file. ``records``: how many there are at first."""
        self._check_describing()
        unlimited = self.unlimited
        if records is not None and unlimited is not None:
            before = self._dimensions[unlimited][0]
            if self._is_new:
                self._dimensions[unlimited] = (max(before, int(records)), True)
        if not self._is_new:
            handle = _native.edit_netcdf3(cast(str, self._path), config.fsync)
            if handle is None:
                raise NodeNotFoundError(f"there is no file {self._path}")
            self._store = ClassicFile(handle)
            self._check_old()
            if records is not None and unlimited is not None:
                self.resize(max(records, self._dimensions[unlimited][0]))
            return
        names = [*self._dimensions]
        far = None
        if self._path is not None and _native.takes_storage_options(self._path):
            far = (self._path, self._options)
        handle = _native.create_netcdf3(
            None if far else self._path,
            far,
            self._mode == "w" or self._old is not None,
            config.fsync,
            self._format,
            [(name, size, unlimited) for name, (size, unlimited) in self._dimensions.items()],
            [*self._attributes.values()],
            [
                (name, dtype, [names.index(dim) for dim in dims], [*own.values()])
                for name, (dtype, dims, own) in self._variables.items()
            ],
        )
        self._store = ClassicFile(handle)
        if self._old is not None:
            # From here on, no other writer that looks for locks can open the old file.
            self._check_old()
            self._copy_old(self._old)

    def _check_old(self) -> None:
        """Fail if somebody has changed the file since its header was read."""
        path = cast(str, self._path)
        if _state(path) != self._old_state:
            self.abandon()
            raise StoreLockedError(
                f"{path} was changed by another program after it was opened here: nothing was written; "
                "try again"
            )

    def _copy_old(self, old: _native.StoreHandle) -> None:
        """Copy the elements of the file that is replaced."""
        for name, _, _, _ in _native.netcdf3_header(old)[3]:
            source = _array(ClassicFile(old), name)
            target = self[name]
            if not source.ndim:
                target[...] = source[...]
                continue
            row = max(1, source.dtype.itemsize * math.prod(source.shape[1:]))
            step = max(1, _PIECE // row)
            for start in range(0, source.shape[0], step):
                stop = min(start + step, source.shape[0])
                target[start:stop] = source[start:stop]

    def __getitem__(self, name: str) -> ClassicArray:
        """Return the array of a variable."""
        store = self._check_begun()
        if name not in self._arrays:
            self._arrays[name] = _array(store, name)
        return self._arrays[name]

    @property
    def store(self) -> ClassicFile:
        """The store of the arrays, after `begin`."""
        return self._check_begun()

    def resize(self, records: int) -> None:
        """Add records. Arrays that were taken before keep their shapes."""
        store = self._check_begun()
        unlimited = self.unlimited
        if unlimited is None:
            raise InvalidArgumentError("the file has no unlimited dimension, so no records can be added")
        self._store = ClassicFile(_native.netcdf3_with_records(store._native, int(records)))
        self._dimensions[unlimited] = (int(records), True)
        self._arrays.clear()

    def flush(self) -> None:
        """Make all changes permanent, and visible to other programs."""
        self._check_begun().flush()

    def close(self) -> bytes | None:
        """Make all changes permanent and close the file. Return its bytes if it has no path."""
        if self._store is None:
            self.begin()
        store = self._check_begun()
        image = None
        if store._native.is_open:
            if self._path is None:
                store.flush()
                image = store._native.part("file", 0, None)
            store.close()
        self._arrays.clear()
        return image

    def abandon(self) -> None:
        """Close the file without the changes since the last flush. A new file disappears."""
        if self._store is not None:
            self._store.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _check_describing(self) -> None:
        if self._store is not None:
            raise InvalidArgumentError("the file has been begun: describe everything before begin()")

    def _check_begun(self) -> ClassicFile:
        if self._store is None:
            raise InvalidArgumentError("the file has not been begun: call begin() after the description")
        return self._store


def _state(path: str) -> tuple[int, ...]:
    """Return numbers of a file that differ after it was changed or replaced."""
    found = Path(path).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _fill(dtype: str, value: Any) -> _Attribute:
    """Return the attribute with the value of missing elements: one element, also if it is NUL."""
    return "_FillValue", dtype, np.asarray(value).astype(dtype).tobytes()


def _attribute(name: str, value: Any, format: str) -> _Attribute:
    """Return an attribute as it is stored: its name, the type of its elements, and their bytes."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return name, "|S1", value
    found = np.atleast_1d(np.asarray(value))
    if found.ndim > 1:
        raise InvalidArgumentError(f"attribute {name!r}: expected one axis at most, found {found.ndim}")
    if found.dtype.kind in "SU":
        texts = [text.encode() if isinstance(text, str) else bytes(text) for text in found.tolist()]
        if len(texts) != 1:
            raise InvalidArgumentError(
                f"attribute {name!r}: NetCDF classic files have no lists of text; join them"
            )
        return name, "|S1", texts[0]
    stored = _native.netcdf3_type(found.dtype.str, format)
    if stored is None:
        raise InvalidArgumentError(
            f"attribute {name!r}: NetCDF classic files have no values of type {found.dtype}; use text or "
            "numbers"
        )
    with np.errstate(invalid="ignore"):
        cast_to = found.astype(stored)
    if found.dtype.kind in "iu" and not (cast_to == found).all():
        raise InvalidArgumentError(
            f"attribute {name!r}: {value!r} has no equal of type {cast_to.dtype.name}, which integers have "
            f"in {format}; use NETCDF3_64BIT_DATA or NETCDF4"
        )
    return name, stored, cast_to.tobytes()
