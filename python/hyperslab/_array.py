"""Arrays."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._array_config import ArrayConfig, parse_cache, parse_config
from hyperslab._attrs import Attributes
from hyperslab._cache import Cache
from hyperslab._config import config as settings
from hyperslab._config import parse_size
from hyperslab._create import ShapeLike, normalize_shape
from hyperslab._explain import Explain
from hyperslab._html import array_html
from hyperslab._indexing import Indexed
from hyperslab._info import Info, array_facts, chunks_per_object, human_size
from hyperslab._iteration import rows, vlen_rows
from hyperslab._metadata import Metadata
from hyperslab._named import Named
from hyperslab._native import Stream, Writer
from hyperslab._ragged import Ragged
from hyperslab._store import Store
from hyperslab._vlen import kind_of
from hyperslab.codecs import Codec, parse_codec
from hyperslab.errors import ArrayShapeError, InvalidArgumentError, ReadOnlyError

__all__ = ["Array"]

_NO_CONFIG = ArrayConfig()


class Array(Indexed, Named):
    """A chunked N-dimensional array in a store. Made by `hyperslab.open`, `hyperslab.create_array` and
    groups.

    ``array[...]`` reads, ``array[...] = values`` writes, with NumPy's meaning: integers, slices with any step
    (also negative), ``...``, lists and integer arrays, masks. Reading gives a NumPy array of its own, or a
    NumPy scalar where every axis is selected by an integer. Assignment converts and broadcasts as NumPy does.
    Python's other threads run meanwhile, and Ctrl-C stops it.

    Elements of variable length are read as an array of ``StringDType`` (text) or of objects (`bytes`,
    arrays), and without an object for each by `read_ragged`. They are written from all that `Ragged.of`
    takes; ``None`` is stored as what is empty.

    - One list (integer array of one axis, mask of one axis) picks along its axis, whatever the others are.
    - Several lists are the coordinates of points, broadcast against each other, also beside slices. For each
      axis by itself there is `oindex`.
    - A mask of several axes picks elements, in C order.
    - Not known: ``np.newaxis``; and a mask beside another list, which libraries understand differently.

    Each chunk is read and decoded once, however many elements of it are picked, and in whatever order.

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

    _store: Store
    _config: ArrayConfig
    _cache: Cache | None = None
    _attrs: Attributes | None = None

    # NumPy arrays defer to nothing here: `array + z` reads `z` and adds.
    __hash__ = None  # type: ignore[assignment]

    def __new__(
        cls,
        handle: _native.ArrayHandle,
        store: Store,
        config: ArrayConfig | None = None,
        cache: Cache | None = None,
    ) -> Self:
        config = config or _NO_CONFIG
        self = super().__new__(
            cls,
            handle,
            store.read_only,
            config.write_empty_chunks,
            cache,
            config.fortran,
            config.read_missing_chunks,
        )
        self._store = store
        self._config = config
        if cache is not None:
            self._cache = cache
        return self

    # ---- what it is

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def zarr_format(self) -> Literal[2, 3]:
        """2 or 3."""
        return cast(Literal[2, 3], self._zarr_format)

    @property
    def order(self) -> Literal["C", "F"]:
        """Order of elements within stored chunks: ``"C"``, last axis fastest, or ``"F"``. Results of a Zarr
        v2 array have the same order in memory. Those of a Zarr v3 array that is stored in C order have the
        order that `with_config` or `hyperslab.config` says, and as in zarr-python that is what is told here.
        """
        if self._fortran_order:
            return "F"
        return "C" if self.zarr_format == 2 else self._config.order or settings.order

    @property
    def fill_value(self) -> Any:
        """What elements never written hold, a NumPy scalar (`str`, `bytes` or an array where elements are of
        variable length); ``None`` where Zarr v2 metadata leaves it open (they read as zero, or empty).
        """
        fill, (kind, item) = self._fill, kind_of(self.dtype)
        if fill is None:
            return None
        if kind is not None:
            return fill.decode() if kind == "text" else fill if item is None else np.frombuffer(fill, item)
        return np.frombuffer(fill, dtype=self.dtype)[0]

    @property
    def store(self) -> Store:
        """The store that it lies in."""
        return self._store

    @property
    def cache(self) -> Cache | None:
        """Where decoded chunks are kept; ``None``: nowhere."""
        return self._cache

    @property
    def attrs(self) -> Attributes:
        """The user's attributes: a dictionary that is stored."""
        # Made on first use: it refers to the array, which in a cycle would wait for the collector.
        if self._attrs is None:
            self._attrs = Attributes(self)
        return self._attrs

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        self.attrs.put(attributes)

    @property
    def metadata(self) -> Metadata:
        """The metadata as it is stored, with the attributes."""
        return Metadata({**json.loads(self._document), "attributes": self.attrs.asdict()})

    @property
    def filters(self) -> tuple[Codec | dict[str, Any], ...]:
        """Codecs from array to array (Zarr v2: filters)."""
        return _codecs(json.loads(self._codecs[0]))

    @property
    def serializer(self) -> Codec | dict[str, Any] | None:
        """The codec from array to bytes; ``None`` in Zarr v2."""
        text = self._codecs[1]
        return None if text is None else _codecs([json.loads(text)])[0]

    @property
    def compressors(self) -> tuple[Codec | dict[str, Any], ...]:
        """Codecs from bytes to bytes: compressors and checksums."""
        return _codecs(json.loads(self._codecs[2]))

    @property
    def nchunks(self) -> int:
        """Number of chunks, stored or not."""
        return math.prod(self.cdata_shape)

    @property
    def nchunks_initialized(self) -> int:
        """Number of chunks that are stored (as in zarr-python: of stored shards, all). Lists the store."""
        return self._stored()[0] * chunks_per_object(self)

    def nbytes_stored(self) -> int:
        """Bytes of all stored objects of the array, metadata included. Lists the store."""
        documents = [".zarray", ".zattrs"] if self.zarr_format == 2 else ["zarr.json"]
        prefix = f"{self.path}/" if self.path else ""
        found = (self._store.get(prefix + name) for name in documents)
        return self._stored()[1] + sum(len(document) for document in found if document is not None)

    @property
    def info(self) -> Info:
        """What it is, one fact per line."""
        return Info(array_facts(self))

    def info_complete(self) -> Info:
        """`info`, and what is stored. Lists the store."""
        objects, stored = self._stored()[0], self.nbytes_stored()
        facts = array_facts(self)
        facts["No. bytes stored"] = f"{stored} ({human_size(stored)})"
        facts["Storage ratio"] = f"{self.nbytes / stored:.1f}" if stored else "-"
        if self.shards is None:
            facts["Chunks Initialized"] = f"{objects} of {self.nchunks}"
        else:
            total = math.prod(-(-n // shard) for n, shard in zip(self.shape, self.shards, strict=True))
            facts["Shards Initialized"] = f"{objects} of {total}"
        return Info(facts)

    # ---- reading and writing

    def explain(self, selection: Any = ..., *, write: bool = False, tasks: int = 20) -> Explain:
        """What reading (or writing) a selection would do, without doing it.

        Parameters
        ----------
        selection : index, default ...
            As in ``array[selection]``.
        write : bool, default False
            Whether to explain a write.
        tasks : int, default 20
            How many chunks to list one by one.

        Returns
        -------
        Explain
            Chunks, objects, byte ranges, how each chunk is executed, bytes read and decoded. Prints as a
            table.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4", compressors=None)
        >>> z[:2, :3] = 1
        >>> z.explain((0, slice(None))).strategies
        {'fill': 1, 'read-into': 1}
        """
        return Explain._from(self._explain(selection, write, tasks))

    def stream(
        self,
        axis: int = 0,
        *,
        start: int | None = None,
        stop: int | None = None,
        ahead: int | str | None = None,
    ) -> Stream | Generator[tuple[int, Any]]:
        """Iterate over one axis while other threads read what comes next.

        Gives pairs of an index and what ``array[index]`` is there (for another axis: ``array[:, index]``, …):
        a NumPy array of its own, to keep or to change. Chunks are decoded once, however many rows they hold.

        Parameters
        ----------
        axis : int, default 0
            Negative ones count from the last.
        start, stop : int, optional
            As in ``range(len(array))[start:stop]``.
        ahead : int or str, optional
            The most bytes that are read ahead, ``"64 MiB"`` for example. Whatever it is, the rows of one
            chunk along the axis are read together. Default: enough to keep all threads busy, 64 to 512 MiB.

        Returns
        -------
        Stream
            An iterator. `Stream.close` ends it early; so does forgetting it.

        Raises
        ------
        InvalidArgumentError
            Where there is no such axis.
        ChunkError, StoreError
            While iterating, in the place of the row that cannot be read: those before it came.

        Notes
        -----
        The array is streamed in the shape that it has now. ``config.threads`` says how many threads work;
        with 1, nothing is read ahead. One thread at a time can iterate.

        Rows are in C order, whatever ``order`` says.

        Elements of variable length are not read ahead: the rows of some chunks are read by all threads when
        the first of them is asked for. ``ahead`` is of no meaning there.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([[1, 2, 3], [4, 5, 6]], chunks=(1, 3), dtype="i4")
        >>> for index, row in z.stream():
        ...     print(index, row)
        0 [1 2 3]
        1 [4 5 6]
        >>> [int(column.sum()) for _, column in z.stream(axis=1, start=1)]
        [7, 9]
        """
        size = None if ahead is None else parse_size(ahead)
        if self._is_vlen:
            return vlen_rows(self, axis, start, stop)
        if -self.ndim <= axis < self.ndim:
            self._check_stored((slice(None),) * (axis % self.ndim) + (slice(start, stop),))
        return Stream(self._handle, axis, start, stop, size, dtype=self._memory_dtype)

    def writer(self, *, buffer: int | str | None = None) -> Writer:
        """Write while other threads encode and store what was written before.

        ``writer[selection] = values`` copies the values and returns; they may then be changed. Leaving the
        ``with`` block, or `Writer.flush`, waits until everything is stored.

        Parameters
        ----------
        buffer : int or str, optional
            The most bytes that wait to be stored, ``"64 MiB"`` for example; when there are as many, an
            assignment helps to store them. Default: enough to keep all threads busy, 64 to 512 MiB.

        Returns
        -------
        Writer
            A context manager. Several threads may use one.

        Raises
        ------
        ReadOnlyError
            Where the array was opened for reading.

        Notes
        -----
        - Writes to the same chunk take effect in order. Reading the array shows them after `Writer.flush`.
        - An error of the store is raised once, by the next assignment, `Writer.flush`, or at the end of the
          ``with`` block. The assignment that raises it is not done; all other writes are. Where the block
          itself raised, the error becomes a note on that exception.
        - A writer that is forgotten finishes its writes; an error is then printed, and nobody can catch it.
        - ``config.threads`` says how many threads work; with 1, assignments store before they return. So they
          do for selections of many chunks, which the threads share.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(3, 4), chunks=(1, 4), dtype="i4")
        >>> with z.writer() as w:
        ...     for step in range(3):
        ...         w[step] = step
        >>> z[:, 0]
        array([0, 1, 2], dtype=int32)
        """
        if self.read_only:
            raise ReadOnlyError(
                f"array '{self.name}': store was opened in read-only mode and does not support writing"
            )
        size = None if buffer is None else parse_size(buffer)
        return Writer(self._handle, size, None, self._config.write_empty_chunks)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over an array without axes")
        return rows(self)

    # ---- changing

    def resize(self, new_shape: ShapeLike) -> None:
        """Change the extent. No data moves; chunks that are then outside are deleted.

        What is cut off does not come back: elements that come into view when the array grows are fill value,
        also in a chunk at the former edge (where zarr-python keeps and shows what was there), and also if the
        resize that cut them off was killed.

        Parameters
        ----------
        new_shape : int or sequence of int
            As many axes as before.

        Raises
        ------
        InvalidArgumentError
            For another number of axes.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", fill_value=7)
        >>> z.resize((5,))
        >>> z[:]
        array([7, 7, 7, 7, 7], dtype=int32)
        """
        self._resize(list(normalize_shape(new_shape)))

    def compact(self, *, dry_run: bool = False) -> int:
        """Give back the bytes of shards that rewriting chunks has left behind. Ctrl-C stops it between
        shards.

        Where some chunks of a shard are written anew, the old ones may stay in its file until they are more
        than what is in use. Each shard is complete at every instant. An array without shards has nothing to
        give back.

        Parameters
        ----------
        dry_run : bool, default False
            Whether only to count.

        Returns
        -------
        int
            Bytes given back, or to be.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="i4")
        >>> z.compact()
        0
        """
        return self._compact(dry_run)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Extend the array along one axis by some data.

        Several may append at once, through one object or many, in threads or processes: the data of each come
        together, behind those of others. The shape grows when the data are stored: whoever is killed midway
        leaves the array as it was.

        Parameters
        ----------
        data : array-like
            As many axes as the array, and as long along all but ``axis``.
        axis : int, default 0

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        ArrayShapeError
            Where ``data`` does not fit.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(0, 2), dtype="i4", chunks=(4, 2))
        >>> z.append([[1, 2], [3, 4]])
        (2, 2)
        """
        vlen = self._is_vlen
        values: Any = Ragged.of(data, self.dtype) if vlen else np.asarray(data, dtype=self.dtype)
        old = self.shape
        if not -len(old) <= axis < len(old):
            raise InvalidArgumentError(f"axis {axis} is out of bounds for an array of {len(old)} axes")
        axis %= len(old)
        if values.ndim != len(old) or any(values.shape[k] != old[k] for k in range(len(old)) if k != axis):
            raise ArrayShapeError(
                f"shape of data to append is not compatible with the array: "
                f"{values.shape} cannot be appended to {old} along axis {axis}"
            )
        return self._append(values, list(values.shape), axis)

    def update_attributes(self, new_attributes: Mapping[str, Any]) -> Array:
        """Add or replace attributes in one change; returns the array."""
        self.attrs.update(new_attributes)
        return self

    def with_config(self, config: Mapping[str, Any]) -> Array:
        """The same array with settings of its own.

        Parameters
        ----------
        config : mapping
            What is not named stays; ``None`` means what `hyperslab.config` says.

            - ``order``: the order in memory of results, ``"C"`` or ``"F"``.
            - ``write_empty_chunks``: whether chunks of nothing but fill value are stored.
            - ``read_missing_chunks``: whether chunks that are not stored are read as fill values. If not,
              reading one is a `ChunkNotFoundError`. (Chunks that a stored shard leaves out are not missing.)
            - ``cache``: a `Cache`, or the size of a new one; ``None``: no cache.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4,), dtype="i4")
        >>> z.with_config({"cache": "1 MiB"}).cache
        Cache(1048576, nbytes=0, hits=0, misses=0)
        """
        own = parse_config(config, self._config)
        return Array(self._handle, self._store, own, parse_cache(config, self._cache))

    def refresh(self) -> Array:
        """Read the metadata again: what others changed (a shape, attributes) becomes visible. Returns the
        array.
        """
        self._refresh()
        return self

    # ---- what Python asks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        return (
            self._store == other._store
            and self.path == other.path
            and self._document == other._document
            and self._attributes == other._attributes
        )

    @property
    def _shown_dtype(self) -> Any:
        """Its data type, for people."""
        return self.dtype

    def __repr__(self) -> str:
        place = f"{self._store.url}/{self.path}" if self.path else self._store.url
        return f"<Array {place} shape={self.shape} dtype={self._shown_dtype}>"

    def _repr_html_(self) -> str:
        facts = {
            "Shape": self.shape,
            "Chunks": f"{self.chunks}, {self.nchunks} in all",
            **(
                {}
                if self.shards is None
                else {"Shards": f"{self.shards}, {chunks_per_object(self)} chunks each"}
            ),
            "Data type": self.dtype,
            "Bytes": human_size(self.nbytes),
            "Bytes per chunk": human_size(math.prod(self.chunks) * self.dtype.itemsize),
            "Codecs": ", ".join(map(str, (*self.filters, *self.compressors))) or "none",
            "Fill value": self.fill_value,
            "Format": f"Zarr v{self.zarr_format}" + (", order F" if self.order == "F" else ""),
        }
        if self.dimension_names is not None:
            facts["Dimensions"] = ", ".join(str(name) for name in self.dimension_names)
        return array_html(f"Array {self._store.url}{self.name}", facts, self.shape, self.chunks)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._store, self.path, self.zarr_format, self._config, self._cache)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        state = hashlib.sha256(f"{self._document}\0{self._attributes}".encode()).hexdigest()
        return "hyperslab.Array", self._store.url, self.path, state

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _reopen(store: Store, path: str, zarr_format: int, config: ArrayConfig, cache: Cache | None) -> Array:
    """An unpickled array: opened when it is first used."""
    handle = _native.ArrayHandle.deferred(store._native, path, zarr_format)
    return Array(handle, store, config, cache)


def _codecs(metadata: list[dict[str, Any]]) -> tuple[Codec | dict[str, Any], ...]:
    return tuple(parse_codec(codec) or codec for codec in metadata)
