"""Other ways to index than ``array[...]``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._explain import Explain
from hyperslab._ragged import Ragged
from hyperslab._vlen import kind_of
from hyperslab.errors import UnsupportedError

if TYPE_CHECKING:
    from hyperslab._array import Array

__all__ = ["BlockIndex", "Indexed", "OIndex", "VIndex"]


class Indexed(_native.ArrayBase):
    """What an array selects by other kinds of index than that of ``array[...]``, and zarr-python's names of
    all kinds.
    """

    def get_basic_selection(self, selection: Any = ..., *, out: Any = None, fields: None = None) -> Any:
        """``array[selection]``, or with ``out``, ``array.read(selection, out=out)``."""
        _no_fields(fields)
        return self[selection] if out is None else self.read(selection, out=_memory(out))

    def set_basic_selection(self, selection: Any, value: Any, *, fields: None = None) -> None:
        """``array[selection] = value``"""
        _no_fields(fields)
        self[selection] = value

    @property
    def oindex(self) -> OIndex:
        """Index each axis by itself: integers, slices, lists and masks of one axis.

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
        """Pick points by their coordinates (integers or integer arrays, one for each axis, broadcast), or by
        a mask of the array's shape.

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
        """Index chunks by their numbers: integers and slices of step 1. Where there are shards, shards.

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

    def get_orthogonal_selection(self, selection: Any, *, out: Any = None, fields: None = None) -> Any:
        """``array.oindex[selection]``, also into memory of the caller (as in `Array.read`)."""
        _no_fields(fields)
        return self._get("orthogonal", selection, _memory(out))

    def set_orthogonal_selection(self, selection: Any, value: Any, *, fields: None = None) -> None:
        """``array.oindex[selection] = value``"""
        _no_fields(fields)
        self._set("orthogonal", selection, value)

    def get_coordinate_selection(self, selection: Any, *, out: Any = None, fields: None = None) -> Any:
        """``array.vindex[selection]`` for coordinates, also into memory of the caller."""
        _no_fields(fields)
        return self._get("coordinates", selection, _memory(out))

    def set_coordinate_selection(self, selection: Any, value: Any, *, fields: None = None) -> None:
        """``array.vindex[selection] = value`` for coordinates. Of points that are named more than once, the
        last value stays.
        """
        _no_fields(fields)
        self._set("coordinates", selection, flat_values(selection, value, self.dtype))

    def get_mask_selection(self, mask: npt.ArrayLike, *, out: Any = None, fields: None = None) -> Any:
        """The elements where a mask of the array's shape is true, in C order; also into memory of the
        caller.
        """
        _no_fields(fields)
        return self._get("mask", np.asarray(mask), _memory(out))

    def set_mask_selection(self, mask: npt.ArrayLike, value: Any, *, fields: None = None) -> None:
        """Assigns to the elements where a mask of the array's shape is true."""
        _no_fields(fields)
        self._set("mask", np.asarray(mask), value)

    def get_block_selection(self, selection: Any, *, out: Any = None, fields: None = None) -> Any:
        """``array.blocks[selection]``, also into memory of the caller."""
        _no_fields(fields)
        return self._get("blocks", selection, _memory(out))

    def set_block_selection(self, selection: Any, value: Any, *, fields: None = None) -> None:
        """``array.blocks[selection] = value``"""
        _no_fields(fields)
        self._set("blocks", selection, value)


class _Index:
    """An array, indexed in another way."""

    _meaning: ClassVar[_native._Meaning]

    def __init__(self, array: Indexed) -> None:
        self.array = cast("Array", array)

    def explain(self, selection: Any, *, write: bool = False, tasks: int = 20) -> Explain:
        """What reading (or writing) what such an index selects would do; see `hyperslab.Array.explain`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4", compressors=None)
        >>> told = z.oindex.explain(([0, 3], [1, 2]))
        >>> told.shape, told.chunks
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
        return self.array._get("points", selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array._set("points", selection, flat_values(selection, value, self.array.dtype))


class BlockIndex(_Index):
    """``array.blocks[...]``: see `hyperslab.Array.blocks`."""

    _meaning = "blocks"

    def __getitem__(self, selection: Any) -> Any:
        return self.array.get_block_selection(selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array.set_block_selection(selection, value)


def _memory(out: Any) -> Any:
    """The memory of a buffer of zarr-python; anything else as it is."""
    return out.as_ndarray_like() if hasattr(out, "as_ndarray_like") else out


def _no_fields(fields: object) -> None:
    if fields is not None:
        raise UnsupportedError("fields: structured types are not supported yet")


def flat_values(selection: Any, value: Any, dtype: np.dtype[Any]) -> Any:
    """Values for coordinates, which zarr-python also takes one behind the other where the coordinates have
    several axes.
    """
    lists = [np.asarray(item) for item in (selection if isinstance(selection, tuple) else (selection,))]
    masked = any(item.dtype == bool for item in lists)
    if masked or max((item.ndim for item in lists), default=0) < 2:
        return value
    values = np.asarray(value) if kind_of(dtype)[0] is None else Ragged.of(value, dtype)
    if values.ndim != 1:
        return value
    shape = np.broadcast_shapes(*(item.shape for item in lists))
    return values.reshape(shape) if values.size == math.prod(shape) else value
