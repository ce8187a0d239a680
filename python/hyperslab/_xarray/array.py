"""Lazy arrays for xarray, as `BackendArray`."""

from __future__ import annotations

import asyncio
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from hyperslab._elements.vlen import kind_of
from hyperslab._hdf5.values import decoded
from hyperslab._xarray.reopened import ReopenedArray, ReopenedFile
from hyperslab.errors import ClosedError

if TYPE_CHECKING:
    from hyperslab import _native
    from hyperslab._core.array_common import AnyArray
    from hyperslab._hdf5.array import FileArray

__all__ = ["FileArrayAdapter", "StoredArray"]

_MEANINGS: dict[type, _native._Meaning | None] = {
    indexing.BasicIndexer: None,
    indexing.OuterIndexer: "orthogonal",
    indexing.VectorizedIndexer: "points",
}


class StoredArray(BackendArray):
    """An array for xarray. It needs no lock: the engine is thread safe."""

    __slots__ = ("_array", "dtype", "shape")

    def __init__(self, array: AnyArray, dtype: np.dtype[Any]) -> None:
        self._array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype = dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        meaning = _MEANINGS[type(key)]
        return indexing.explicit_indexing_adapter(
            key,
            self.shape,
            indexing.IndexingSupport.VECTORIZED,
            partial(self._read, meaning),
        )

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, meaning: _native._Meaning | None, selection: tuple[Any, ...]) -> Any:
        found = self._array[selection] if meaning is None else self._array._get(meaning, selection)
        if self.dtype.kind == "O" and meaning is None and not any(isinstance(at, slice) for at in selection):
            # A single element may itself be an array.
            made = np.empty((), object)
            made[()] = found
            return made
        # A single text element is `str`, not an array.
        return np.asarray(found, self.dtype) if isinstance(found, str) else found


class FileArrayAdapter(StoredArray):
    """A variable of an HDF5 or NetCDF file.

    A variable may be shorter than its unlimited dimension. The missing part reads as one value
    (``rest``). After the dataset is closed, reading opens the file again, as in xarray's own
    engines.
    """

    __slots__ = ("_is_text", "_rest")

    def __init__(
        self,
        array: AnyArray | ReopenedArray,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        is_text: bool,
        rest: bytes | None,
    ) -> None:
        # A `FileArray` after the first read.
        self._array: Any = array
        self.shape, self.dtype = shape, dtype
        self._is_text = is_text
        self._rest = rest

    def __reduce__(self) -> tuple[Any, ...]:
        array = self._array
        if not isinstance(array, ReopenedArray):
            array = ReopenedArray(ReopenedFile.of(array._store), array.path, array._cache)
        return FileArrayAdapter, (array, self.dtype, self.shape, self._is_text, self._rest)

    def _read(self, meaning: _native._Meaning | None, selection: tuple[Any, ...]) -> Any:
        if isinstance(self._array, ReopenedArray):
            self._array = self._array.open()
        try:
            return self._values(meaning, selection)
        except ClosedError:
            self._array = pickle.loads(pickle.dumps(self._array))
            return self._values(meaning, selection)

    def _values(self, meaning: _native._Meaning | None, selection: tuple[Any, ...]) -> Any:
        if self.shape != cast("FileArray", self._array)._stored_shape:
            return self._padded(meaning, selection)
        found = super()._read(meaning, selection)
        return self._converted(found) if self._is_text or found.dtype != self.dtype else found

    def _converted(self, found: Any) -> Any:
        if self._is_text:
            texts = decoded(found, "utf-8", "surrogateescape")
            return np.asarray(texts, object)
        if found.dtype != self.dtype:
            found = found.astype(self.dtype)
        return found

    def _padded(self, meaning: _native._Meaning | None, selection: tuple[Any, ...]) -> Any:
        array = cast("FileArray", self._array)
        stored = array.shape
        if meaning == "points":
            points = np.broadcast_arrays(*selection)
            inside = np.all([at < length for at, length in zip(points, stored, strict=True)], axis=0)
            made = self._filled(inside.shape)
            made[inside] = self._converted(array._get("points", tuple(at[inside] for at in points)))
            return made
        axes = [
            np.atleast_1d(np.arange(length)[part]) for length, part in zip(self.shape, selection, strict=True)
        ]
        made = self._filled(tuple(len(axis) for axis in axes))
        stored_parts = [axis < length for axis, length in zip(axes, stored, strict=True)]
        wanted = tuple(axis[inside] for axis, inside in zip(axes, stored_parts, strict=True))
        made[np.ix_(*stored_parts)] = self._converted(array._get("orthogonal", wanted))
        dropped = [axis for axis, part in enumerate(selection) if isinstance(part, (int, np.integer))]
        # Use reshape: an index could turn an array into an element.
        return made.reshape([n for axis, n in enumerate(made.shape) if axis not in dropped])

    def _filled(self, shape: tuple[int, ...]) -> Any:
        """Return an array of the rest's value; for variable-length rows, of empty rows."""
        kind, item = kind_of(self._array.dtype)
        if kind == "items":
            made = np.empty(shape, object)
            for at in np.ndindex(shape):
                made[at] = np.empty(0, item)
            return made
        rest = self._rest or b""
        if self._is_text:
            return np.full(shape, rest.decode("utf-8", "surrogateescape"), object)
        dtype = self._array.dtype
        is_plain = dtype.subdtype is None and not dtype.hasobject
        fill = np.frombuffer(rest, dtype)[0] if is_plain else cast("FileArray", self._array).fill_value
        return np.full(shape, fill, self.dtype)
