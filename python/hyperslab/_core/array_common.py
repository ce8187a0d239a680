"""The methods that arrays of all formats share."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._core.arguments import ShapeLike, normalize_shape
from hyperslab._core.array_config import NO_CONFIG, ArrayConfig, resolve_config
from hyperslab._core.cache import Cache
from hyperslab._core.iteration import rows, vlen_rows
from hyperslab._core.node import Node
from hyperslab._elements.arrow import ArrowValues
from hyperslab._elements.optional import is_optional, pack_optional, to_array
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import OBJECTS, kind_of
from hyperslab._index.explain import Explain
from hyperslab._index.indexing import Indexed
from hyperslab._index.view import View
from hyperslab._native import Stream, Writer, pop_fields
from hyperslab._stores.store import Store
from hyperslab.errors import ArrayShapeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._index.cf import CF

__all__ = ["AnyArray"]


class AnyArray(Indexed, Node):
    """An array of any format: reading, writing (if the format can be written), and the rest."""

    # `_config`: the array's own settings; `None` where `hyperslab.config` decides. `_settled`: the
    # settings in effect.
    _config: ArrayConfig
    _settled: ArrayConfig
    # True if `hyperslab.config` sets the settings that the array was not given.
    _settles = True

    # NumPy arrays do not defer to this class: `array + z` reads `z` and adds.
    __hash__ = None  # type: ignore[assignment]

    def __new__(
        cls,
        handle: Any,
        store: Store | None = None,
        config: ArrayConfig | None = None,
        cache: Cache | None = None,
        before: ArrayConfig = NO_CONFIG,
        *,
        readonly: bool = False,
    ) -> Self:
        if store is None:
            return cls._of_id(handle)
        own = config or NO_CONFIG
        now = resolve_config(own, before) if cls._settles else own
        self = super().__new__(
            cls,
            handle,
            store._read_only,
            now.write_empty_chunks,
            cache,
            None if own is NO_CONFIG else own.fortran,
            now.read_missing_chunks,
            now.order == "F",
        )
        self._store = store
        self._config = own
        self._settled = now
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
        """The whole array as a `View`.

        Indexing a view selects without reading, and can be repeated.

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

    @property
    def cf(self) -> CF:
        """The values as the CF conventions mean them, without xarray; see `CF`.

        ``array.cf[...]`` reads unpacked numbers with NaN for missing ones, and dates.
        ``array.cf[...] = values`` packs. ``array.cf.masked[...]`` reads masked arrays.

        Examples
        --------
        >>> import hyperslab as hs
        >>> attributes = {"_FillValue": -1, "scale_factor": 0.5}
        >>> z = hs.array([3, -1, 4], dtype="i2", attributes=attributes)
        >>> z.cf[...]
        array([1.5, nan, 2. ])
        >>> z.cf[0] = 10
        >>> z[...]
        array([20, -1,  4], dtype=int16)
        """
        from hyperslab._index.cf import CF

        return CF(self, self)

    def _read_view(self, selection: Any) -> npt.NDArray[Any]:
        """Read ``array[selection]`` if the selection adds axes."""
        return self.lazy[selection].read()

    def _write_view(self, selection: Any, value: Any) -> None:
        """Write ``array[selection] = value`` if the selection adds axes."""
        self.lazy[selection].write(value)

    async def read_async(self, selection: Any = None, out: Any = None, **options: Any) -> Any:
        """Awaitable `read`. Cancelling stops it.

        Concurrent calls share a bounded number of threads.

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
        """Awaitable `write`. Cancelling stops the write; chunks already written stay.

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
        """Read elements for libraries that take Arrow arrays (``__arrow_c_array__``).

        Missing elements are null.

        Parameters
        ----------
        selection : index, optional
            As in ``array[selection]``. Default: everything.
        threads, verify
            As in `read`.

        Returns
        -------
        ArrowValues or Ragged
            A `Ragged` for elements of variable length. Each axis but the first is a
            ``fixed_size_list``.

        Raises
        ------
        TypeError
            When the result is used, if Arrow has no such type: structures, complex numbers,
            fixed-length text.

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
        """Explain what reading (or writing) a selection would do, without doing it.

        Parameters
        ----------
        selection : index, default ...
            As in ``array[selection]``. With a field name, the last axis counts parts of elements.
        write : bool, default False
            Whether to explain a write.
        tasks : int, default 20
            Number of chunks to list individually.

        Returns
        -------
        Explain
            Chunks, objects, byte ranges, the strategy for each chunk, and bytes read and decoded.
            Prints as a table.

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
        """Iterate over one axis while other threads read ahead.

        Yields pairs ``(index, array[index])`` (for other axes: ``array[:, index]``, …). Each value
        is a new NumPy array that you may keep or change. Each chunk is decoded once, however many
        rows it holds.

        Parameters
        ----------
        axis : int, default 0
            Negative values count from the last axis.
        start, stop : int, optional
            As in ``range(len(array))[start:stop]``.
        ahead : int or str, optional
            Maximum bytes to read ahead, for example ``"64 MiB"``. All rows of one chunk along the
            axis are always read together. Default: enough to keep all threads busy, between 64 and
            512 MiB.

        Returns
        -------
        Stream
            An iterator. `Stream.close` ends it early; so does dropping it.

        Raises
        ------
        InvalidArgumentError
            If there is no such axis.
        ChunkError, StoreError
            While iterating, in place of the row that cannot be read, after all rows before it.

        Notes
        -----
        The shape is fixed when the stream starts. ``config.threads`` sets the number of threads;
        with 1, nothing is read ahead. Only one thread at a time can iterate.

        Rows are in C order, whatever ``order`` is.

        Elements of variable length are not read ahead, and ``ahead`` has no effect. When the first
        row of a group of chunks is asked for, all threads read the rows of that group.

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
        return (
            ((index, _native.optional_masked(row)) for index, row in stream)
            if is_optional(self.dtype)
            else stream
        )

    def writer(self, *, buffer: int | str | None = None) -> Writer:
        """Write while other threads encode and store earlier writes.

        ``writer[selection] = values`` copies the values and returns; you may then change them.
        `Writer.flush`, or leaving the ``with`` block, waits until everything is stored.

        Parameters
        ----------
        buffer : int or str, optional
            Maximum bytes that wait to be stored, for example ``"64 MiB"``. At this limit, an
            assignment helps to store them. Default: enough to keep all threads busy, between 64 and
            512 MiB.

        Returns
        -------
        Writer
            A context manager. Several threads may share it.

        Raises
        ------
        ReadOnlyError
            If the array was opened for reading.

        Notes
        -----
        - Writes to one chunk take effect in order. Reads of the array see them after
          `Writer.flush`.
        - An error of the store is raised once: by the next assignment, by `Writer.flush`, or at the
          end of the ``with`` block. The assignment that raises it is not done; all other writes
          are. If the block itself raised, the error becomes a note on that exception.
        - A writer that is dropped finishes its writes. It prints errors, which nobody can catch
          then.
        - ``config.threads`` sets the number of threads. With 1, assignments store before they
          return. At any setting, the threads share the work of an assignment to many chunks, which
          also stores before it returns.

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
        """Change the shape. No data moves; chunks outside the new shape are deleted.

        Cut-off elements do not come back. If the array grows again, they read as the fill value.
        This also holds for a chunk at the former edge (where zarr-python keeps and shows the old
        elements), and if the resize that cut them off was killed.

        Parameters
        ----------
        new_shape : int or sequence of int
            The new lengths, with the same number of axes.

        Raises
        ------
        InvalidArgumentError
            If the number of axes differs.

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
        """Reclaim the bytes that rewritten chunks left behind in shards.

        When chunks of a shard are rewritten, the old ones may stay in its file until they take more
        space than the chunks in use. Every shard stays complete at all times. Ctrl-C stops between
        shards. An array without shards has nothing to reclaim.

        Parameters
        ----------
        dry_run : bool, default False
            Whether to only count.

        Returns
        -------
        int
            Bytes reclaimed, or reclaimable with ``dry_run``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="i4")
        >>> z.compact()
        0
        """
        return self._compact(dry_run)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Append data along one axis.

        Several appends may run at once, through one or many array objects, threads or processes.
        The data of each append stay together, behind the earlier ones. The shape grows after the
        data are stored, so an append that is killed leaves the array unchanged.

        Parameters
        ----------
        data : array-like
            Has as many axes as the array, with the same lengths along all axes but ``axis``.
        axis : int, default 0

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        ArrayShapeError
            If ``data`` does not fit.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(0, 2), dtype="i4", chunks=(4, 2))
        >>> z.append([[1, 2], [3, 4]])
        (2, 2)
        """
        values, axis = self._rows(data, axis)
        return self._append(values, list(values.shape), axis)

    def _rows(self, data: Any, axis: int) -> tuple[Any, int]:
        """Return data to append in the array's type, and the axis counted from the first."""
        vlen = self._is_vlen
        values: Any
        if is_optional(self.dtype):
            values = pack_optional(data, self.dtype)
        elif kind_of(self.dtype)[0] in OBJECTS:
            values = _native.objects_array(data, self.ndim)
        else:
            data = self._unmasked(data)
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
        return values, axis

    # ---- Python protocols

    @property
    def _shown_dtype(self) -> Any:
        """The data type as shown to people."""
        return f"optional {self.dtype}" if is_optional(self.dtype) else self.dtype

    def __repr__(self) -> str:
        place = f"{self._store.url}/{self.path}" if self.path else self._store.url
        return f"<Array {place} shape={self.shape} dtype={self._shown_dtype}>"
