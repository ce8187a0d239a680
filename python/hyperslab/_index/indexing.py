"""Indexing methods other than ``array[...]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.optional import is_optional, pack_optional
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import OBJECTS, kind_of
from hyperslab._index.explain import Explain
from hyperslab._native import pop_fields
from hyperslab.errors import ArrayShapeError, UnsupportedSelectionError

if TYPE_CHECKING:
    from hyperslab._core.array import Array

__all__ = ["BlockIndex", "Indexed", "OIndex", "VIndex"]


Names: TypeAlias = str | Sequence[str] | None
"""Fields of elements: one, several, or whole elements."""


class Indexed(_native.ArrayBase):
    """Indexing of an array other than ``array[...]``, and zarr-python's methods for all kinds."""

    # True if the engine reads single fields.
    _reads_fields: ClassVar[bool] = False

    def _read_fields(self, fields: str | list[str], selection: Any) -> Any:
        """Read ``array[fields, selection]``."""
        return _get_fields(self, fields, selection, None)

    def _write_fields(self, fields: str | list[str], selection: Any, value: Any) -> None:
        """Write ``array[fields, selection] = value``."""
        _set_field(self, fields, selection, value, None)

    def get_basic_selection(self, selection: Any = ..., *, out: Any = None, fields: Names = None) -> Any:
        """Read ``array[selection]``, or with ``out``, ``array.read(selection, out=out)``.

        ``fields`` selects fields of structured elements, here and in the methods below. One name
        selects that field, a list a structure of these fields. Writing a field keeps the other
        fields.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.zeros((3,), dtype=[("id", "i4"), ("level", "f8")])
        >>> z.set_basic_selection(slice(1, None), 2.5, fields="level")
        >>> z.get_basic_selection(fields="level")
        array([0. , 2.5, 2.5])
        """
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _get_fields(self, fields, selection, None, _memory(out))
        return self[selection] if out is None else self.read(selection, out=_memory(out))

    def set_basic_selection(self, selection: Any, value: Any, *, fields: Names = None) -> None:
        """Write ``array[selection] = value``."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _set_field(self, fields, selection, value, None)
        self[selection] = value
        return None

    @property
    def oindex(self) -> OIndex:
        """Index each axis independently, by integers, slices, 1-D lists and 1-D masks.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
        >>> z.oindex[[1, 0], [2, 0]]
        array([[6, 4],
               [3, 1]], dtype=int32)
        >>> z.oindex[:, [True, False, True]] = 0
        >>> z[...]
        array([[0, 2, 0],
               [0, 5, 0]], dtype=int32)
        """
        return OIndex(self)

    @property
    def vindex(self) -> VIndex:
        """Pick points by their coordinates or by a mask.

        Coordinates are integers or integer arrays, one per axis, and broadcast. A mask has the
        array's shape.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
        >>> z.vindex[[1, 0, 1], [2, 0, 0]]
        array([6, 1, 4], dtype=int32)
        >>> z.vindex[z[...] > 4] = 0
        >>> z[...]
        array([[1, 2, 3],
               [4, 0, 0]], dtype=int32)
        """
        return VIndex(self)

    @property
    def blocks(self) -> BlockIndex:
        """Index chunks (or shards, if there are any) by number, with integers and slices of step 1.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([1, 2, 3, 4, 5], chunks=(2,), dtype="i4")
        >>> z.blocks[1]
        array([3, 4], dtype=int32)
        >>> z.blocks[1:]
        array([3, 4, 5], dtype=int32)
        """
        return BlockIndex(self)

    def get_orthogonal_selection(self, selection: Any, *, out: Any = None, fields: Names = None) -> Any:
        """Read ``array.oindex[selection]``, optionally into ``out`` (as in `Array.read`)."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _get_fields(self, fields, selection, "orthogonal", _memory(out))
        return self._get("orthogonal", selection, _memory(out))

    def set_orthogonal_selection(self, selection: Any, value: Any, *, fields: Names = None) -> None:
        """Write ``array.oindex[selection] = value``."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _set_field(self, fields, selection, value, "orthogonal")
        self._set("orthogonal", selection, value)
        return None

    def get_coordinate_selection(self, selection: Any, *, out: Any = None, fields: Names = None) -> Any:
        """Read ``array.vindex[selection]`` for coordinates, optionally into ``out``."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _get_fields(self, fields, selection, "coordinates", _memory(out))
        return self._get("coordinates", selection, _memory(out))

    def set_coordinate_selection(self, selection: Any, value: Any, *, fields: Names = None) -> None:
        """Write ``array.vindex[selection] = value`` for coordinates.

        If a point occurs more than once, its last value stays.
        """
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _set_field(self, fields, selection, value, "coordinates")
        self._set("coordinates", selection, flat_values(selection, self._unmasked(value), self.dtype))
        return None

    def get_mask_selection(self, mask: npt.ArrayLike, *, out: Any = None, fields: Names = None) -> Any:
        """Read the elements where a mask of the array's shape is true, in C order.

        ``out``: memory to read into.
        """
        if fields is not None:
            return _get_fields(self, fields, np.asarray(mask), "mask", _memory(out))
        return self._get("mask", np.asarray(mask), _memory(out))

    def set_mask_selection(self, mask: npt.ArrayLike, value: Any, *, fields: Names = None) -> None:
        """Write the elements where a mask of the array's shape is true."""
        if fields is not None:
            return _set_field(self, fields, np.asarray(mask), value, "mask")
        self._set("mask", np.asarray(mask), value)
        return None

    def get_block_selection(self, selection: Any, *, out: Any = None, fields: Names = None) -> Any:
        """Read ``array.blocks[selection]``, optionally into ``out``."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _get_fields(self, fields, selection, "blocks", _memory(out))
        return self._get("blocks", selection, _memory(out))

    def set_block_selection(self, selection: Any, value: Any, *, fields: Names = None) -> None:
        """Write ``array.blocks[selection] = value``."""
        fields, selection = _fields_in(selection, fields)
        if fields is not None:
            return _set_field(self, fields, selection, value, "blocks")
        self._set("blocks", selection, value)
        return None


class _Index:
    """Another way to index an array."""

    _meaning: ClassVar[_native._Meaning]

    def __init__(self, array: Indexed) -> None:
        self.array = cast("Array", array)

    def explain(self, selection: Any, *, write: bool = False, tasks: int = 20) -> Explain:
        """Explain a read (or write) with this kind of index; see `hyperslab.Array.explain`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4", compressors=None)
        >>> costs = z.oindex.explain(([0, 3], [1, 2]))
        >>> costs.shape, costs.chunks
        ((2, 2), 2)
        >>> z.vindex.explain(([0, 3], [1, 2])).shape, z.blocks.explain((1, 0)).shape
        ((2,), (2, 3))
        """
        return Explain._from(self.array._explain(selection, write, tasks, self._meaning))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.array!r}>"


class OIndex(_Index):
    """``array.oindex[...]``: see `hyperslab.Array.oindex`."""

    _meaning = "orthogonal"

    def __getitem__(self, selection: Any) -> Any:
        return self.array.get_orthogonal_selection(selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array.set_orthogonal_selection(selection, value)


class VIndex(_Index):
    """``array.vindex[...]``: see `hyperslab.Array.vindex`."""

    _meaning = "points"

    def __getitem__(self, selection: Any) -> Any:
        fields, selection = pop_fields(selection)
        if fields is not None:
            return _get_fields(self.array, fields, selection, "points")
        return self.array._get("points", selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        fields, selection = pop_fields(selection)
        if fields is not None:
            return _set_field(self.array, fields, selection, value, "points")
        self.array._set(
            "points", selection, flat_values(selection, self.array._unmasked(value), self.array.dtype)
        )
        return None


class BlockIndex(_Index):
    """``array.blocks[...]``: see `hyperslab.Array.blocks`."""

    _meaning = "blocks"

    def __getitem__(self, selection: Any) -> Any:
        return self.array.get_block_selection(selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array.set_block_selection(selection, value)


def _memory(out: Any) -> Any:
    """Return the memory of a zarr-python buffer; anything else as it is."""
    return out.as_ndarray_like() if hasattr(out, "as_ndarray_like") else out


def _fields_in(selection: Any, fields: Any) -> tuple[Any, Any]:
    """Separate the field names from a selection.

    Returns the names (``None``: whole elements), given as ``fields`` or in the index, and the index
    without them.
    """
    if fields is None:
        return pop_fields(selection)
    if not isinstance(fields, (str, list, tuple)):
        raise UnsupportedSelectionError(f"fields: expected a name or a list of names, found {fields!r}")
    return (fields if isinstance(fields, str) else list(fields)) or None, selection


def _check_names(array: Indexed, names: Any) -> None:
    known = array.dtype.names
    if known is None:
        raise UnsupportedSelectionError(
            f"fields: elements of type {array.dtype} have no fields, found {names!r}"
        )
    for name in [names] if isinstance(names, str) else names:
        if name not in known:
            raise UnsupportedSelectionError(
                f"fields: there is no field {name!r} (fields: {', '.join(known)})"
            )


def _get_fields(
    array: Indexed, names: Any, selection: Any, meaning: _native._Meaning | None, out: Any = None
) -> Any:
    _check_names(array, names)
    if isinstance(names, str) and array._reads_fields:
        found = _native.read_field(array, names, selection, meaning)
    else:
        whole = array[selection] if meaning is None else array._get(meaning, selection)
        if isinstance(names, str):
            found = whole[names]
        else:
            parts = np.empty(np.shape(whole), [(name, array.dtype[name]) for name in names])
            for name in names:
                parts[name] = whole[name]
            found = parts if isinstance(whole, np.ndarray) else parts[()]
    if out is None:
        return found
    target = np.asarray(out)
    if target.shape != np.shape(found):
        raise ArrayShapeError(f"out has shape {target.shape}, the selection {np.shape(found)}")
    target[...] = found
    return out


def _set_field(
    array: Indexed, names: Any, selection: Any, value: Any, meaning: _native._Meaning | None
) -> None:
    _check_names(array, names)
    if not isinstance(names, str):
        if len(names) != 1:
            raise UnsupportedSelectionError(
                f"fields: only one field can be written at a time, found {names!r}"
            )
        names = names[0]
    if meaning in ("points", "coordinates"):
        value = flat_values(selection, value, array.dtype[names].base)
    _native.write_field(array, names, selection, value, meaning)


def flat_values(selection: Any, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return values in the shape of the coordinates.

    As in zarr-python, values for coordinates with several axes may also be 1-D.
    """
    lists = [np.asarray(item) for item in (selection if isinstance(selection, tuple) else (selection,))]
    masked = any(item.dtype == bool for item in lists)
    if masked or max((item.ndim for item in lists), default=0) < 2:
        return value
    kind = kind_of(dtype)[0]
    values: Any
    if kind in OBJECTS:
        values = _native.objects_array(value, 1)
    else:
        if is_optional(dtype):
            value = pack_optional(value, dtype)
        as_array = np.asanyarray if isinstance(value, np.ma.MaskedArray) else np.asarray
        values = as_array(value) if kind is None else Ragged.of(value, dtype)
    if values.ndim != 1:
        return value
    shape = np.broadcast_shapes(*(item.shape for item in lists))
    return values.reshape(shape) if values.size == math.prod(shape) else value
