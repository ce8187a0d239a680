"""Zarr arrays."""

from __future__ import annotations

import json
import math
import warnings
from abc import ABCMeta
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hyperslab import _native
from hyperslab._codecs import user as user_codecs
from hyperslab._core.array_common import AnyArray
from hyperslab._core.array_config import NO_CONFIG, ArrayConfig, clear_named, parse_cache, parse_config
from hyperslab._core.cache import Cache
from hyperslab._core.identity import content_of
from hyperslab._core.info import (
    Info,
    array_facts,
    chunks_per_object,
    human_size,
    shown_chunks,
    shown_shards,
)
from hyperslab._core.metadata import ArrayV2Metadata, ArrayV3Metadata, codecs_of
from hyperslab._core.node import ZarrNode
from hyperslab._elements.optional import is_optional, value_dtype
from hyperslab._elements.vlen import OBJECTS, kind_of
from hyperslab._stores.store import Store, StoreLike
from hyperslab.codecs import Codec
from hyperslab.errors import ZarrDeprecationWarning

if TYPE_CHECKING:
    from hyperslab._aio.nodes import AsyncArray

__all__ = ["Array"]


class Array(ZarrNode, AnyArray, metaclass=ABCMeta):
    """A chunked N-dimensional array in a store.

    Made by `hyperslab.open`, `hyperslab.create_array` and groups.

    ``array[...]`` reads and ``array[...] = values`` writes, as in NumPy: with integers, slices with
    any step (also negative), ``...``, lists, integer arrays and masks. Reading returns a new NumPy
    array, or a NumPy scalar if integers select every axis. Assignment converts and broadcasts as
    NumPy does. Other Python threads keep running during both, and Ctrl-C interrupts them.

    Elements that may be missing (`hyperslab.optional_dtype`) are read as masked arrays. Masked
    elements and ``None`` are written as missing.

    Elements of variable length are read as an array of ``StringDType`` (text) or of objects
    (`bytes`, arrays). `read_ragged` reads them without one object per element. To write them, pass
    anything that `Ragged.of` takes; ``None`` is stored as an empty element.

    - One list (or 1-D integer array or mask) picks along its own axis, whatever the other indices
      are.
    - Several lists are coordinates of points and broadcast against each other, also beside slices.
      To apply each list to its own axis, use `oindex`.
    - A mask over several axes picks elements in C order.
    - ``np.newaxis`` adds an axis of length 1.
    - A mask beside another list is not supported: libraries disagree on its meaning.
    - `lazy` selects without reading.

    Each chunk is read and decoded once, however many of its elements are picked and in any order.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4")
    >>> z[1:3, ::-2] = [1, 2, 3]
    >>> z[1]
    array([0., 3., 0., 2., 0., 1.], dtype=float32)
    >>> z[1, 1]
    np.float32(3.0)
    >>> z[1, [5, 1, 1]]
    array([1., 3., 3.], dtype=float32)
    """

    # The arrays of zarr-python are generic, and annotations such as `Array[Any]` are evaluated
    # there.
    __class_getitem__: Any = classmethod(GenericAlias)

    _reads_fields = True

    # ---- opening

    @classmethod
    def open(cls, store: StoreLike, *, config: Mapping[str, Any] | None = None) -> Array:
        """Open an existing array, as `hyperslab.open_array` does."""
        from hyperslab._create.open import open_array

        return open_array(store, config=config)

    # ---- what it is

    @property
    def config(self) -> ArrayConfig:
        """Settings of this array object, as `with_config` takes them.

        A setting that nobody gave has the value that `hyperslab.config` had when the array was
        opened.
        """
        return self._settled

    @property
    def async_array(self) -> AsyncArray:
        """The same array with awaitable calls."""
        from hyperslab._aio.nodes import AsyncArray

        return AsyncArray(self)

    @property
    def read_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of all chunks along each axis, as in dask.

        The last chunk may be shorter. In a sharded array these are the inner chunks.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(7,), chunks=(2,), shards=(4,), dtype="u1")
        >>> z.read_chunk_sizes, z.write_chunk_sizes
        (((2, 2, 2, 1),), ((4, 3),))
        """
        several = self._chunk_lengths()
        return _sizes(self.shape, self._largest_chunk) if several is None else tuple(map(tuple, several))

    @property
    def write_chunk_sizes(self) -> tuple[tuple[int, ...], ...]:
        """Lengths along each axis of all shards, or of all chunks if there are no shards."""
        several = self._object_lengths()
        objects = self._largest_shard or self._largest_chunk
        return _sizes(self.shape, objects) if several is None else tuple(map(tuple, several))

    @property
    def order(self) -> Literal["C", "F"]:
        """Order of elements within stored chunks: ``"C"`` (last axis fastest) or ``"F"``.

        Results of a Zarr v2 array have this order in memory too. For a Zarr v3 array stored in C
        order, this is the order of results in memory, as in zarr-python: from `with_config`,
        otherwise from `hyperslab.config` when the array was opened.
        """
        if self._fortran_order:
            return "F"
        return "C" if self.zarr_format == 2 else self._settled.order or "C"

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written.

        A NumPy scalar, or `str`, `bytes`, an array or an object if the elements are.
        ``numpy.ma.masked`` is possible if elements may be missing. ``None`` if Zarr v2 metadata
        gives no fill value; such elements read as zero, empty or None.
        """
        fill, dtype = self._fill, self.dtype
        if fill is None:
            return None
        if dtype.kind in "biufc" and dtype.metadata is None:
            return np.frombuffer(fill, dtype)[0]
        kind, item = kind_of(dtype)
        if is_optional(self.dtype):
            return np.frombuffer(fill, value_dtype(self.dtype), 1)[0] if fill[-1] else np.ma.masked
        if kind in OBJECTS:
            return self._fill_object
        if kind is not None:
            return fill.decode() if kind == "text" else fill if item is None else np.frombuffer(fill, item)
        return np.frombuffer(fill, dtype=self.dtype)[0]

    @property
    def fields(self) -> tuple[str, ...] | None:
        """Field names of the elements, or ``None`` if they have no fields.

        ``array["a"]`` and ``array["a", selection]`` read one field; ``array["a", "b"]`` reads
        several. ``array["a"] = values`` writes one field and keeps the others.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.zeros((3,), dtype=[("id", "i4"), ("level", "f8")])
        >>> z["id"] = [7, 8, 9]
        >>> z.fields, z["id", 1:], z[2].item()
        (('id', 'level'), array([8, 9], dtype=int32), (9, 0.0))
        """
        return self.dtype.names

    @property
    def metadata(self) -> ArrayV2Metadata | ArrayV3Metadata:
        """The stored metadata, with the attributes.

        A dictionary. As in zarr-python, its members are also attributes:
        ``metadata.chunk_grid.chunk_shape``.
        """
        document = {**json.loads(self._document), "attributes": self.attrs.asdict()}
        kind = ArrayV2Metadata if self.zarr_format == 2 else ArrayV3Metadata
        return kind(document, self.dtype, self.fill_value)

    @property
    def filters(self) -> tuple[Codec | dict[str, Any], ...]:
        """Array-to-array codecs (Zarr v2: filters)."""
        return codecs_of(json.loads(self._codecs[0]))

    @property
    def serializer(self) -> Codec | dict[str, Any] | None:
        """The array-to-bytes codec; ``None`` in Zarr v2."""
        text = self._codecs[1]
        return None if text is None else codecs_of([json.loads(text)])[0]

    @property
    def compressors(self) -> tuple[Codec | dict[str, Any], ...]:
        """Bytes-to-bytes codecs: compressors and checksums."""
        return codecs_of(json.loads(self._codecs[2]))

    @property
    def compressor(self) -> Codec | dict[str, Any] | None:
        """The compressor of a Zarr v2 array.

        Deprecated: use `compressors`, which works for both formats.
        """
        if self.zarr_format != 2:
            raise TypeError("compressor is not available for Zarr v3 arrays: use compressors")
        message = "compressor is deprecated: use compressors"
        warnings.warn(message, ZarrDeprecationWarning, stacklevel=2)
        return next(iter(self.compressors), None)

    @property
    def nchunks_initialized(self) -> int:
        """Number of stored chunks. Lists the store.

        As in zarr-python, a stored shard counts with all its chunks.
        """
        return self._chunks_stored()

    def nbytes_stored(self) -> int:
        """Bytes of all stored objects of the array, metadata included. Lists the store."""
        documents = [".zarray", ".zattrs"] if self.zarr_format == 2 else ["zarr.json"]
        prefix = f"{self.path}/" if self.path else ""
        found = (self._store.get(prefix + name) for name in documents)
        return self._stored()[1] + sum(len(document) for document in found if document is not None)

    @property
    def info(self) -> Info:
        """A description of the array, one fact per line."""
        return Info(array_facts(self))

    def info_complete(self) -> Info:
        """Return `info` plus facts about the stored objects. Lists the store."""
        objects, stored = self._stored()[0], self.nbytes_stored()
        facts = array_facts(self)
        facts["No. bytes stored"] = f"{stored} ({human_size(stored)})"
        facts["Storage ratio"] = f"{self.nbytes / stored:.1f}" if stored else "-"
        what = "Chunks" if self._largest_shard is None else "Shards"
        facts[f"{what} Initialized"] = f"{objects} of {math.prod(self._object_counts)}"
        return Info(facts)

    # ---- changing

    def with_config(self, config: Mapping[str, Any]) -> Array:
        """Return the same array with its own settings.

        Parameters
        ----------
        config : mapping
            Settings not named here keep their values. ``None`` means the current value in
            `hyperslab.config`.

            - ``order``: the memory order of results, ``"C"`` or ``"F"``.
            - ``write_empty_chunks``: whether to store chunks that hold only the fill value.
            - ``read_missing_chunks``: whether absent chunks read as fill values. If false, reading
              an absent chunk raises `ChunkNotFoundError`. (Chunks left out of a stored shard do not
              count as absent.)
            - ``cache``: a `Cache`, or the size of a new one; ``None``: no cache.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4,), dtype="i4")
        >>> z.with_config({"cache": "1 MiB"}).cache
        Cache(1048576, nbytes=0, hits=0, misses=0)
        """
        own = parse_config(config, self._config)
        before = replace(self._settled, **clear_named(config))
        return Array(self._handle, self._store, own, parse_cache(config, self._cache), before)

    # ---- Python protocols

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        return (
            self._store == other._store
            and self.path == other.path
            and self._document == other._document
            and self.attrs.text() == other.attrs.text()
        )

    def _repr_html_(self) -> str:
        facts = {
            "Shape": self.shape,
            "Chunks": f"{shown_chunks(self)}, {self.nchunks} in all",
            **(
                {}
                if self._largest_shard is None
                else {"Shards": f"{shown_shards(self)}, {chunks_per_object(self)} chunks each"}
            ),
            "Data type": self._shown_dtype,
            "Bytes": human_size(self.nbytes),
            "Bytes per chunk": human_size(math.prod(self._largest_chunk) * self.dtype.itemsize),
            "Codecs": ", ".join(map(str, (*self.filters, *self.compressors))) or "none",
            "Fill value": self.fill_value,
            "Format": f"Zarr v{self.zarr_format}" + (", order F" if self.order == "F" else ""),
        }
        if self.dimension_names is not None:
            facts["Dimensions"] = ", ".join(str(name) for name in self.dimension_names)
        title = f"Array {self._store.url}{self.name}"
        from hyperslab._display.html import array_html

        return array_html(title, facts, self.shape, self._largest_chunk, self._largest_shard)

    def __reduce__(self) -> tuple[Any, ...]:
        brought = user_codecs.brought_by(self)
        own, before = self._config, self._settled
        return _reopen, (self._store, self.path, self.zarr_format, own, self._cache, brought, before)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        import hashlib

        state = hashlib.sha256(f"{self._document}\0{self.attrs.text()}".encode()).hexdigest()
        return "hyperslab.Array", self._store.url, self.path, state, *content_of(self)


def _reopen(
    store: Store,
    path: str,
    zarr_format: int,
    config: ArrayConfig,
    cache: Cache | None,
    codecs: Iterable[tuple[str, type]] = (),
    before: ArrayConfig = NO_CONFIG,
) -> Array:
    """Unpickle an array: it is opened on first use."""
    user_codecs.take(codecs)
    handle = _native.ArrayHandle.deferred(store._native, path, zarr_format)
    return Array(handle, store, config, cache, before)


def _sizes(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of the chunks along each axis."""
    return tuple(
        tuple(min(chunk, length - start) for start in range(0, length, chunk))
        for length, chunk in zip(shape, chunks, strict=True)
    )
