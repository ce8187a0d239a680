"""Changes of datasets in HDF5 files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.hdf5_types import is_text, metadata_entry
from hyperslab._hdf5 import scales
from hyperslab._hdf5.convert import converted
from hyperslab._hdf5.dtypes import check_string_dtype
from hyperslab._hdf5.encode import encoded
from hyperslab._hdf5.external import write_external
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.netcdf import filled, grown
from hyperslab._hdf5.new_arrays import array_of, item_type
from hyperslab._hdf5.node import FileNode
from hyperslab._hdf5.selections import MultiBlockSlice, has_blocks, without_blocks
from hyperslab._native import RegionReference
from hyperslab.errors import (
    ArgumentTypeError,
    ArrayShapeError,
    InvalidArgumentError,
    UnsupportedSelectionError,
)

__all__ = ["ArrayWriting"]

_Array = npt.NDArray[Any]


class ArrayWriting(FileNode):
    """Changes of a dataset, with h5py's rules for conversion and broadcasting."""

    if TYPE_CHECKING:

        @property
        def dtype(self) -> np.dtype[Any]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def _element(self) -> _native.ElementHandle: ...
        @property
        def _is_null(self) -> bool: ...
        def _set_raw(self, selection: Any, raw: _Array, meaning: Any = None) -> None: ...

    # ---- elements

    def __setitem__(self: Any, selection: Any, value: Any) -> None:
        self._editor  # noqa: B018
        parts = selection if isinstance(selection, tuple) else (selection,)
        if self._is_null:
            raise ArgumentTypeError(
                f"array '{self.name}' has no elements and no shape: nothing can be written"
            )
        if getattr(self._store, "_writes_netcdf", False):
            with grown(self, parts, value):
                self._assign(selection, parts, filled(self, value))
        else:
            self._assign(selection, parts, value)

    def _assign(self: Any, selection: Any, parts: tuple[Any, ...], value: Any) -> None:
        names = [part for part in parts if part is None or isinstance(part, str)]
        if names:
            if None in names:
                raise UnsupportedSelectionError(
                    "Indexing with None (np.newaxis) is not supported in assignments"
                )
            rest = tuple(part for part in parts if not isinstance(part, str))
            self._write_members(names, rest or ..., value)
            return
        values = self._prepared(value)
        if isinstance(selection, RegionReference):
            self._write_region(selection, values)
        else:
            self._write_values(selection, values)

    def _prepared(self, value: Any) -> _Array:
        """Return values as an array. Elements of an array are converted later."""
        dtype = self.dtype
        if dtype.kind in "iuf" and dtype.metadata is None:
            # Numbers need none of the questions below.
            return np.asarray(value, None if isinstance(value, np.ndarray) else dtype, order="C")
        item = metadata_entry(dtype, "vlen")
        if item is not None and item not in (str, bytes):
            return _sequences(value, np.dtype(item), dtype)
        if (
            dtype.kind == "O"
            and is_text(dtype)
            and isinstance(value, np.ndarray)
            and value.dtype.kind in "ST"
        ):
            return value
        is_structure = isinstance(value, np.ndarray) and value.dtype.kind == "V"
        if dtype.kind == "O" or (dtype.kind == "V" and dtype.subdtype is None and not is_structure):
            return np.asarray(value, dtype.base, order="C")
        text = check_string_dtype(dtype)
        if text is not None and text.encoding == "utf-8" and item_type(value) is str:
            return array_of(value, dtype)
        return np.asarray(value, None if isinstance(value, np.ndarray) else dtype.base, order="C")

    def _write_new(self: Any, data: _Array) -> None:
        """Write the elements of a new dataset."""
        inner = self.dtype.shape
        values = data.reshape((*self.shape, *inner))
        if values.size:
            self._write_values(..., values)

    def _write_values(self: Any, selection: Any, values: _Array, meaning: Any = None) -> None:
        """Write ``array[selection] = values``."""
        dtype = self.dtype
        if has_blocks(selection):
            parts = selection if isinstance(selection, tuple) else (selection,)
            selection, meaning = without_blocks(parts, self.shape), "orthogonal"
        inner = dtype.shape
        if inner and values.shape[-len(inner) :] != inner:
            raise ArgumentTypeError(
                "When writing to array types, last N dimensions have to match "
                f"(got {values.shape[-len(inner) :]}, but should be {inner})"
            )
        if self._facts["external"]:
            write_external(self, selection, values, meaning, raw=False)
            return
        is_object = self._of_objects is not None or self._is_vlen
        try:
            if not is_object and not inner:
                values = values if values.dtype == dtype else converted(values, dtype)
                if meaning is None:
                    self.write(selection, values)
                else:
                    self._set(meaning, selection, values)
                return
            raw = encoded(self._element, values, self._editor.values())
            self._set_raw(selection, raw, meaning)
        except ArrayShapeError as error:
            raise ArgumentTypeError(f"Can't broadcast: {error}") from None

    def _write_members(self: Any, names: Sequence[str], selection: Any, value: Any) -> None:
        """Write members of structures. The other members stay as they are."""
        dtype = self.dtype
        if dtype.names is None:
            raise ArgumentTypeError("Illegal slicing argument (not a compound dataset)")
        missing = [name for name in names if name not in dtype.names]
        if missing:
            raise InvalidArgumentError(
                f"Illegal slicing argument (fields {', '.join(missing)} not in dataset type): they are "
                f"{', '.join(dtype.names)}"
            )
        given = getattr(value, "dtype", None)
        has_names = isinstance(given, np.dtype) and given.names is not None
        if len(names) > 1 and not has_names:
            value = np.asarray(value, np.dtype([(name, dtype[name]) for name in names]))
            has_names = True
        raw = np.ascontiguousarray(self._raw(selection))
        element = self._element
        cells = np.frombuffer(bytearray(raw.tobytes()), np.uint8)
        new = self._editor.values()
        count = raw.size
        for name, at, field in element.fields():
            if name not in names:
                continue
            kind = dtype[name]
            if has_names:
                if name not in value.dtype.names:
                    continue
                values = np.asarray(value[name])
            else:
                values = value if isinstance(value, np.ndarray) else np.asarray(value, kind.base)
            try:
                spread = np.broadcast_to(values, (*raw.shape, *kind.shape))
            except ValueError:
                raise ArgumentTypeError(f"Can't broadcast {values.shape} -> {raw.shape}") from None
            member = encoded(field, spread, new).reshape(-1)
            place = np.ndarray((count,), f"V{field.size}", cells, at, (element.size,))
            place[...] = member
        cells = cells.view(f"V{element.size}").reshape(raw.shape)
        if self._facts["external"]:
            write_external(self, selection, cells, None, raw=True)
        else:
            self._set_raw(selection, cells, None)

    def _write_region(self: Any, region: RegionReference, values: _Array) -> None:
        """Write the elements of a region."""
        if self.file[region] != self:
            raise InvalidArgumentError("Region reference must point to this dataset")
        kind, *rest = region._selection()
        if kind == "none":
            return
        if kind == "all":
            self._write_values(..., values)
        elif kind == "slabs":
            slabs = [
                MultiBlockSlice(start, max(stride, block or 1), count, block or 1)
                for start, stride, count, block in rest[0]
            ]
            self._write_values(tuple(slabs), values)
        elif kind == "points":
            points = np.asarray(rest[0])
            self._write_values(tuple(points.T), values, "coordinates")
        else:
            places = sorted(
                {
                    tuple(int(low + k) for low, k in zip(first, at, strict=True))
                    for first, last in rest[0]
                    for at in np.ndindex(*(high - low + 1 for low, high in zip(first, last, strict=True)))
                }
            )
            self._write_values(tuple(np.asarray(places).T), values, "coordinates")

    def write_direct(
        self: Any, source: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None
    ) -> None:
        """Write from an array or a part of it, converting elements.

        Parameters
        ----------
        source : numpy.ndarray
        source_sel, dest_sel : index, optional
            What to write, and where to put it. Default: everything.
        """
        if self._is_null:
            raise ArgumentTypeError("Empty datasets cannot be written to")
        values = np.asarray(source)[... if source_sel is None else source_sel]
        selection = ... if dest_sel is None else dest_sel
        target = self.lazy[selection].shape if not has_blocks(selection) else None
        values = np.asarray(values)
        if target is not None and values.shape != target and values.size == math.prod(target):
            values = values.reshape(target)
        self[selection] = values

    # ---- shape

    def resize(self: Any, size: Any, axis: int | None = None) -> None:
        """Change the shape, or the length of one axis, up to `maxshape`. Elements keep their places.

        Raises
        ------
        TypeError
            If the dataset has no chunks.
        """
        self._editor  # noqa: B018
        facts = self._facts
        version: int = vars(self)["_kept_facts"][0]
        if facts["chunks"] is None:
            raise ArgumentTypeError("Only chunked datasets can be resized")
        known = self.shape
        if axis is not None:
            if not 0 <= axis < len(known):
                raise InvalidArgumentError(f"Invalid axis (0 to {len(known) - 1} allowed)")
            try:
                length = int(size)
            except TypeError:
                raise ArgumentTypeError("Argument must be a single int if axis is specified") from None
            size = [*known]
            size[axis] = length
        shape = [int(n) for n in size]
        if len(shape) != len(known):
            raise ArgumentTypeError(f"New shape length ({len(shape)}) must match dataset rank ({len(known)})")
        if shape and min(shape) < 0:
            raise OverflowError(f"can't convert negative value to hsize_t: shape {tuple(shape)}")
        for n, most in zip(shape, facts["maxshape"], strict=True):
            if most is not None and n > most:
                raise RuntimeError(
                    f"Unable to change the dimensions of '{self.name}' (dimension cannot exceed the existing "
                    f"maximal size (new: {n} max: {most}))"
                )
        self._resize(shape)
        if self._version == version + 1:
            # This change only: the other facts are the same.
            vars(self)["_kept_facts"] = version + 1, facts

    # ---- scales

    def make_scale(self: Any, name: str | bytes = "") -> None:
        """Make the dataset a dimension scale, with a name."""
        scales.make_scale(self, text_of(name))

    def flush(self) -> None:
        """Make all changes of the file permanent, and visible to other programs."""
        self._store._native.check_open()
        if not self._store.read_only:
            self._store.flush()  # type: ignore[attr-defined]


def _sequences(value: Any, item: np.dtype[Any], dtype: np.dtype[Any]) -> _Array:
    """Return values for elements that are sequences: an array of objects, each an array of items."""
    is_array = isinstance(value, np.ndarray) and value.dtype.kind == "O"
    # Items that are text are objects, too: an array of texts is one sequence for each row.
    if is_array and not (item.kind == "O" and all(isinstance(one, (str, bytes)) for one in value.flat)):
        return np.asarray(value)
    try:
        whole = np.asarray(value, item)
        if item.kind == "O" and any(isinstance(one, (list, tuple, np.ndarray)) for one in whole.flat):
            raise ValueError("sequences of different lengths")
    except (ValueError, TypeError):
        # Sequences of different lengths.
        found = np.empty(len(value), dtype)
        for number, one in enumerate(value):
            found[number] = np.asarray(one, item)
        return found
    axes = whole.ndim - len(item.shape)
    if axes <= 1:
        single = np.empty((), dtype)
        single[()] = np.atleast_1d(whole)
        return single
    shape = whole.shape[: axes - 1]
    found = np.empty(shape, dtype)
    for place in np.ndindex(*shape):
        found[place] = whole[place]
    return found
