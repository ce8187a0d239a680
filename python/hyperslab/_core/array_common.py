"""What arrays of all formats have."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._core.arguments import ShapeLike, normalize_shape
from hyperslab._core.array_config import NO_CONFIG, ArrayConfig
from hyperslab._core.cache import Cache
from hyperslab._core.iteration import rows, vlen_rows
from hyperslab._core.node import Node
from hyperslab._elements.arrow import ArrowValues
from hyperslab._elements.masked import unmasked
from hyperslab._elements.optional import is_optional, packed, shown, to_array
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import OBJECTS, kind_of, objects_array
from hyperslab._index.explain import Explain
from hyperslab._index.indexing import Indexed
from hyperslab._index.structure import pop_fields
from hyperslab._index.view import View
from hyperslab._native import Stream, Writer
from hyperslab._stores.store import Store
from hyperslab.errors import ArrayShapeError, InvalidArgumentError

__all__ = ["AnyArray"]


class AnyArray(Indexed, Node):
    """An array of any format: reading, writing where the format is written, and what follows from that."""

    # Its own settings, and all of them as they hold: `None` where `hyperslab.config` says it.
    _config: ArrayConfig
    _settled: ArrayConfig

    # NumPy arrays defer to nothing here: `array + z` reads `z` and adds.
    __hash__ = None  # type: ignore[assignment]

    def __new__(
        cls,
        handle: _native.ArrayHandle,
        store: Store,
        config: ArrayConfig | None = None,
        cache: Cache | None = None,
        settled: ArrayConfig | None = None,
    ) -> Self:
        config = config or NO_CONFIG
        settled = settled or config
        self = super().__new__(
            cls,
            handle,
            store.read_only,
            settled.write_empty_chunks,
            cache,
            config.fortran,
            settled.read_missing_chunks,
            settled.order == "F",
        )
        self._store = store
        self._config = config
        self._settled = settled
        if cache is not None:
            self._cache = cache
        return self

    # ---- what it is

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def nchunks(self) -> int:
        """Number of chunks, stored or not."""
        return math.prod(self.cdata_shape)

    # ---- reading and writing

    @property
    def lazy(self) -> View:
        """The whole array as a `View`: indexing it selects without reading, selections of selections too.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
        >>> view = z.lazy[:, 1:][1]
        >>> view.shape
        (2,)
        >>> view.read()
        array([5, 6], dtype=int32)
        """
        return View(self)

    def _read_view(self, selection: Any) -> npt.NDArray[Any]:
        """``array[selection]`` where it has new axes."""
        return self.lazy[selection].read()

    def _write_view(self, selection: Any, value: Any) -> None:
        """``array[selection] = value`` where it has new axes."""
        self.lazy[selection].write(value)

    async def read_async(self, selection: Any = None, out: Any = None, **options: Any) -> Any:
        """`read`, awaited: many at once are done by a bounded number of threads. Cancelling stops it.

        Examples
        --------
        >>> import asyncio, hyperslab as hs
        >>> z = hs.array([1, 2, 3], dtype="i4")
        >>> asyncio.run(z.read_async(slice(1, None)))
        array([2, 3], dtype=int32)
        """
        from hyperslab._base.awaiting import awaited_of

        return await awaited_of(self, lambda: self.read(selection, out, **options))

    async def write_async(self, selection: Any, value: Any, **options: Any) -> None:
        """`write`, awaited. Cancelling stops it: chunks that were written stay.

        Examples
        --------
        >>> import asyncio, hyperslab as hs
        >>> z = hs.zeros((3,), dtype="i4")
        >>> asyncio.run(z.write_async(slice(1, None), 7))
        >>> z[...]
        array([0, 7, 7], dtype=int32)
        """
        from hyperslab._base.awaiting import awaited_of

        await awaited_of(self, lambda: self.write(selection, value, **options))

    def read_arrow(
        self, selection: Any = None, *, threads: int | None = None, verify: bool | None = None
    ) -> ArrowValues | Ragged:
        """Read elements for libraries that take arrays of Arrow's (``__arrow_c_array__``): elements that are
        missing are null.

        Parameters
        ----------
        selection : index, optional
            As in ``array[selection]``; by default everything.
        threads, verify
            As in `read`.

        Returns
        -------
        ArrowValues or Ragged
            Of elements of variable length a `Ragged`. Each axis but the first is a ``fixed_size_list``.

        Raises
        ------
        TypeError
            When it is used, where Arrow has no such type: structures, complex numbers, text of fixed length.

        Examples
        --------
        >>> import hyperslab as hs, pyarrow
        >>> z = hs.array([1, None, 3], dtype=hs.optional_dtype("i4"))
        >>> pyarrow.array(z.read_arrow()).to_pylist()
        [1, None, 3]
        """
        if self._is_vlen:
            return self.read_ragged(selection, threads=threads, verify=verify)
        return ArrowValues(self.read(selection, threads=threads, verify=verify))

    def explain(self, selection: Any = ..., *, write: bool = False, tasks: int = 20) -> Explain:
        """What reading (or writing) a selection would do, without doing it.

        Parameters
        ----------
        selection : index, default ...
            As in ``array[selection]``. Of a field, the last axis that is told of counts parts of elements.
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
        fields, selection = pop_fields(selection)
        if isinstance(fields, str):
            return Explain._from(_native.explain_field(self, fields, selection, write, tasks))
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
        stream = Stream(self._handle, axis, start, stop, size, dtype=self._memory_dtype)
        return ((index, shown(row)) for index, row in stream) if is_optional(self.dtype) else stream

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
        self._check_writable()
        size = None if buffer is None else parse_size(buffer)
        return Writer(self._handle, size, None, self._settled.write_empty_chunks)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        values = self.read()
        if is_optional(self.dtype):
            return to_array(values, dtype, self.name)
        return values if dtype is None else values.astype(dtype, copy=False)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.dtype.names or ())

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
        values: Any
        if is_optional(self.dtype):
            values = packed(data, self._memory_dtype)
        elif kind_of(self.dtype)[0] in OBJECTS:
            values = objects_array(data, self.ndim)
        else:
            data = unmasked(self, data)
            values = Ragged.of(data, self.dtype) if vlen else np.asarray(data, dtype=self.dtype)
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

    # ---- what Python asks

    @property
    def _shown_dtype(self) -> Any:
        """Its data type, for people."""
        return f"optional {self.dtype}" if is_optional(self.dtype) else self.dtype

    def __repr__(self) -> str:
        place = f"{self._store.url}/{self.path}" if self.path else self._store.url
        return f"<Array {place} shape={self.shape} dtype={self._shown_dtype}>"
