"""A codec pipeline for zarr-python that reads and writes its arrays with the engine."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import zarr
from zarr.abc.codec import CodecPipeline as BasePipeline
from zarr.abc.store import Store as ZarrStore
from zarr.codecs import BytesCodec, ShardingCodec, TransposeCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.array_spec import ArrayConfig as ZarrArrayConfig
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import cpu
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from hyperslab import _native
from hyperslab._core.array import Array
from hyperslab._core.array_config import ArrayConfig
from hyperslab._zarr.batches import Batch, Edges, Grid, Planned, Steps, Unplanned, plan_batch
from hyperslab._zarr.stores import EngineStore, engine_store
from hyperslab.errors import HyperslabError, StoreError, UnsupportedError

__all__ = ["CodecPipeline", "Fallback", "fallbacks"]

T = TypeVar("T")

# Calls of up to this much work (in bytes to copy) run on the event loop itself, which takes up to a
# quarter of a millisecond. A hand-off to a thread and back takes as long, and half of that is work
# of the loop. (x86-64, two cores, files in memory.)
INLINE_WORK = 2 << 20
# The same limit if no other call of the loop waits, so that none is delayed: a millisecond. A call
# of 16 small Zstandard chunks takes 0.7 ms with a hand-off, and 0.5 ms without.
INLINE_WORK_ALONE = 8 << 20
# Results from this size on are read into pages that the engine recycles. zarr-python's newly
# allocated pages would cost more on first touch than the read. NumPy recycles the memory of smaller
# results.
RECYCLED = 64 << 10
# The cost of opening an object and of decoding a byte, in bytes that could be copied instead.
OBJECT_WORK, CODEC_FACTOR = 16 << 10, 4
# A call on the event loop that takes longer than this many seconds had to wait for a disk or a
# network. The next `AFTER_LATE` calls of this array are then handed over.
LATE, AFTER_LATE = 0.004, 32

# Maximum number of remembered fallbacks.
MOST_FALLBACKS = 1000


@dataclasses.dataclass(frozen=True)
class Fallback:
    """A reason why zarr-python's own pipeline read or wrote an array."""

    #: The store and the path of the array.
    array: str
    #: The feature that the engine lacks.
    reason: str
    #: Number of reads and writes that fell back.
    count: int


_fallbacks: dict[tuple[str, str], int] = {}

# Calls of the engine that are about to begin or in progress.
_calls: set[Callable[[], Any]] = set()


def fallbacks(*, clear: bool = False) -> list[Fallback]:
    """Return the calls that fell back to zarr-python's own pipeline.

    The list begins when the program starts or when it was last cleared.

    With ``zarr.config.set({"codec_pipeline.strict": True})`` these reads and writes raise
    `hyperslab.errors.UnsupportedError`.

    Parameters
    ----------
    clear : bool, default False
        Whether to start a new list.

    Returns
    -------
    list of Fallback
        One per array and reason, at most 1000.

    Examples
    --------
    >>> import hyperslab.zarr
    >>> hyperslab.zarr.fallbacks(clear=True)
    []
    """
    found = [Fallback(array, reason, count) for (array, reason), count in _fallbacks.items()]
    if clear:
        _fallbacks.clear()
    return found


class CodecPipeline(BasePipeline):  # type: ignore[misc]
    """The engine as a codec pipeline of zarr-python, from version 3.1.

    A read or write of any selection is one call of the engine, including shards. Requests that the
    engine does not support (an unknown codec, buffers on a GPU) go to zarr-python's default
    pipeline: see `fallbacks`. Instances are made by zarr-python.

    Examples
    --------
    >>> import hyperslab.zarr, zarr
    >>> with zarr.config.set({"codec_pipeline.path": "hyperslab.zarr.CodecPipeline"}):
    ...     z = zarr.create_array(zarr.storage.MemoryStore(), shape=(4,), dtype="i4")
    ...     z[:] = [1, 2, 3, 4]
    ...     z[1:3]
    array([2, 3], dtype=int32)
    """

    def __init__(self, default: BatchedCodecPipeline, metadata: Any = None) -> None:
        self._default = default
        # The array's metadata. `None` for codecs without an array, such as those inside a shard.
        self._metadata = metadata
        self._grid: Grid | None = None
        self._refusal: str | None = None
        # The path of the array, followed by a slash.
        self._prefix: str | None = None
        self._arrays: dict[Any, _Engine] = {}
        # Number of calls to hand over because an earlier one was late.
        self._late = 0

    # ---- construction by zarr-python

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any]) -> Self:
        """Return zarr-python's default pipeline of codecs, without an array."""
        return cls(BatchedCodecPipeline.from_codecs(codecs))

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> Self:
        """Return the pipeline of an array."""
        return cls(_default_pipeline(array_metadata), array_metadata)

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        """Return the pipeline for arrays like this."""
        return type(self)(self._default.evolve_from_array_spec(array_spec), self._metadata)

    def __getstate__(self) -> tuple[Any, Any]:
        return self._default, self._metadata

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodecPipeline) and self._default == other._default

    def __hash__(self) -> int:
        return hash(self._default)

    # ---- methods of the default pipeline

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._default, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._default)

    @property
    def supports_partial_decode(self) -> bool:
        """True if parts of a chunk can be decoded separately."""
        return bool(self._default.supports_partial_decode)

    @property
    def supports_partial_encode(self) -> bool:
        """True if parts of a chunk can be encoded separately."""
        return bool(self._default.supports_partial_encode)

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Check that the codecs fit an array."""
        self._default.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        """Return the size of an encoded chunk in bytes."""
        return int(self._default.compute_encoded_size(byte_length, array_spec))

    async def decode(self, chunk_bytes_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Decode chunks."""
        return list(await self._default.decode(chunk_bytes_and_specs))

    async def encode(self, chunk_arrays_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Encode chunks."""
        return list(await self._default.encode(chunk_arrays_and_specs))

    # ---- reading and writing

    async def read(
        self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        """Read parts of chunks into a result."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return ()
        is_ours = _is_alone(out)
        try:
            values = _memory(batch, out)
            selected, engine = self._prepare(batch, drop_axes, write=False)
            if selected.shape != values.shape:
                raise Unplanned(_mismatch(engine.dtype, values))
            fields = [] if _are_alike(engine.dtype, values.dtype) else _fields(engine.dtype, values)
        except Unplanned as why:
            self._fall_back(batch, str(why))
            # Before zarr-python 3.2, the pipeline returns no results for the chunks.
            return await self._default.read(batch, out, drop_axes) or ()
        meaning, selection, threads = selected.meaning, selected.selection, _threads()
        work = self._work(engine, batch, selected)
        # zarr-python keeps the byte order of its data type. The engine reads in the machine's
        # order.
        is_same = engine.dtype == values.dtype
        is_large = values.ndim > 0 and values.nbytes >= RECYCLED and not engine.array._is_vlen
        if is_same and is_ours and is_large and threads is None:
            found = await self._run(lambda: engine.array._get(meaning, selection), work, INLINE_WORK_ALONE)
            # `values` counts as one more reference here. Another reference may have been added
            # meanwhile.
            if found.strides == values.strides and _holders(out) == _ONE_HOLDER + 1:
                out._data = found
            else:
                np.copyto(values, found)
            return await _results(batch)
        native = values if is_same else np.empty(values.shape, engine.dtype)
        await self._run(
            lambda: engine.array._get(meaning, selection, native, threads), work, INLINE_WORK_ALONE
        )
        for name, place in fields:
            np.copyto(place, native[name])
        if not (is_same or fields):
            np.copyto(values, native)
        return await _results(batch)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        """Write parts of chunks."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return
        try:
            values = _memory(batch, value)
            selected, engine = self._prepare(batch, drop_axes, write=True)
            if values.shape not in ((), selected.shape) or engine.dtype.kind != values.dtype.kind:
                raise Unplanned(_mismatch(engine.dtype, values))
        except Unplanned as why:
            self._fall_back(batch, str(why))
            await self._default.write(batch, value, drop_axes)
            return
        threads = _threads()
        # Writers of parts of a chunk may wait for each other, also across processes.
        is_whole = all(item[4] for item in batch) and selected.array_shape == tuple(self._metadata.shape)
        await self._run(
            lambda: engine.array._set(selected.meaning, selected.selection, values, threads),
            self._work(engine, batch, selected) if is_whole else math.inf,
            INLINE_WORK,
        )

    def _work(self, engine: _Engine, batch: Batch, selected: Planned) -> float:
        """Return the duration of a call of the engine, in bytes that could be copied meanwhile."""
        if not engine.is_near:
            return math.inf
        work = math.prod(selected.shape) * engine.dtype.itemsize
        if work <= INLINE_WORK_ALONE and engine.decoded is not None:
            shape, size = engine.decoded
            work = selected.count(shape) * size * CODEC_FACTOR
        return work + len(batch) * OBJECT_WORK

    async def _run(self, call: Callable[[], T], work: float, most: int) -> T:
        """Make a call of the engine, on the event loop or on a thread.

        It runs on the loop if it takes no longer than a hand-off to a thread, or if no other call
        waits and its work is at most ``most``.
        """
        is_quick = work <= most
        if is_quick and self._late:
            self._late -= 1
            is_quick = False
        _calls.add(call)
        try:
            if is_quick and work > INLINE_WORK:
                # Let other ready calls begin, so that they are counted.
                await asyncio.sleep(0)
                is_quick = len(_calls) == 1
            if not is_quick:
                return await asyncio.to_thread(call)
            start = time.perf_counter()
            found = call()
            if time.perf_counter() - start > LATE:
                self._late = AFTER_LATE
            return found
        except StoreError as error:
            if not isinstance(error.__cause__, Exception):
                raise
            # Raise the exception of a zarr-python store unchanged.
            error.__cause__.add_note(str(error))
            raise error.__cause__ from None
        finally:
            _calls.discard(call)

    def _prepare(self, batch: Batch, drop_axes: tuple[int, ...], *, write: bool) -> tuple[Planned, _Engine]:
        """Return the batch as a selection, and its array."""
        if self._grid is None:
            if self._refusal is None:
                self._grid, self._refusal = _known_grid(self._metadata)
            if self._grid is None:
                raise Unplanned(self._refusal)
        grid = self._grid
        getter, spec = batch[0][:2]
        if type(getter) is not StorePath:
            raise Unplanned(f"chunks from a {type(getter).__name__}")
        store = getter.store
        # Check the real type, not an object that pretends to be a store.
        if not issubclass(type(store), ZarrStore):
            raise Unplanned(f"a store of class {type(store).__name__}")
        if spec.prototype is not cpu.buffer_prototype and spec.prototype != cpu.buffer_prototype:
            raise Unplanned(f"buffers of class {spec.prototype.buffer.__name__}")
        if write and store.read_only:
            # zarr-python raises its own error.
            raise Unplanned("the store is read only")
        if self._prefix is None:
            above = getter.path.rsplit("/", grid.key_parts)
            self._prefix = f"{above[0]}/" if len(above) > grid.key_parts else ""
        selected = plan_batch(batch, grid, self._prefix, drop_axes, write=write)
        found = engine_store(store, asyncio.get_running_loop())
        config = spec.config
        key = (id(found), selected.array_shape, selected.axes, config.write_empty_chunks, config.order)
        engine = self._arrays.get(key)
        if engine is None:
            try:
                engine = _open_array(self._metadata, found, self._prefix, selected, config)
            except (HyperslabError, ValueError, TypeError) as error:
                self._grid, self._refusal = None, str(error)
                raise Unplanned(str(error)) from None
            if len(self._arrays) >= 8:
                self._arrays.clear()
            self._arrays[key] = engine
        return selected, engine

    def _fall_back(self, batch: Batch, reason: str) -> None:
        """Record a fallback to zarr-python, or refuse it."""
        getter = batch[0][0]
        path = getattr(getter, "path", "") if self._prefix is None else self._prefix.rstrip("/")
        where = f"{getattr(getter, 'store', '')}/{path}"
        if zarr.config.get("codec_pipeline.strict", False) and reason != "the store is read only":
            raise UnsupportedError(
                f"{where}: the engine does not support this request: {reason}. To let zarr-python do it, "
                "set codec_pipeline.strict to False"
            )
        if (where, reason) in _fallbacks or len(_fallbacks) < MOST_FALLBACKS:
            _fallbacks[where, reason] = _fallbacks.get((where, reason), 0) + 1


# Shown under its public name.
CodecPipeline.__module__ = "hyperslab.zarr"
register_pipeline(CodecPipeline)


def _default_pipeline(metadata: Any) -> BatchedCodecPipeline:
    """Return zarr-python's pipeline for metadata if no other pipeline is chosen."""
    if metadata.zarr_format == 2:
        codecs: Any = [V2Codec(filters=metadata.filters, compressor=metadata.compressor)]
        chunk, settings = metadata.chunks, ZarrArrayConfig.from_dict({"order": metadata.order})
    else:
        codecs = metadata.codecs
        chunk = getattr(metadata.chunk_grid, "chunk_shape", (1,) * len(metadata.shape))
        settings = ZarrArrayConfig.from_dict({})
    prototype = cpu.buffer_prototype
    spec = ArraySpec(chunk, metadata.dtype, metadata.fill_value, settings, prototype)
    evolved = []
    for codec in codecs:
        evolved.append(codec.evolve_from_array_spec(spec))
        spec = evolved[-1].resolve_metadata(spec)
    return BatchedCodecPipeline.from_codecs(evolved)


def _known_grid(metadata: Any) -> tuple[Grid | None, str | None]:
    """Return the grid of an array that the engine can read, or the reason why it cannot."""
    if metadata is None:
        return None, "codecs without an array"
    foreign = next((name for codec in _codecs(metadata) if (name := _foreign_codec(codec))), None)
    if foreign is not None:
        return None, f"codec {foreign}"
    if isinstance(metadata, ArrayV2Metadata):
        axes: tuple[Steps | Edges, ...] = tuple(map(Steps, metadata.chunks))
        return Grid(metadata.shape, axes, metadata.dimension_separator, False), None
    if not isinstance(metadata, ArrayV3Metadata):
        return None, f"metadata of class {type(metadata).__name__}"
    chunk_grid: Any = metadata.chunk_grid
    # A rectilinear grid has one length per axis, or the lengths of all chunks.
    lengths = getattr(chunk_grid, "chunk_shapes" if _is_rectilinear(metadata) else "chunk_shape", None)
    if lengths is None:
        return None, f"chunk grid {type(chunk_grid).__name__}"
    axes = tuple(Steps(n) if isinstance(n, int) else Edges(tuple(itertools.accumulate(n))) for n in lengths)
    keys: Any = metadata.chunk_key_encoding
    if keys.name not in ("default", "v2"):
        return None, f"chunk key encoding {keys.name!r}"
    return Grid(metadata.shape, axes, keys.separator, keys.name == "default"), None


def _is_rectilinear(metadata: Any) -> bool:
    """Return True if chunks may differ in shape. These grids exist from zarr-python 3.4 on."""
    return metadata.zarr_format == 3 and hasattr(metadata.chunk_grid, "chunk_shapes")


def _codecs(metadata: Any) -> Iterator[Any]:
    """Yield all codecs of an array, including those inside shards."""
    if isinstance(metadata, ArrayV2Metadata):
        yield from metadata.filters or ()
        if metadata.compressor is not None:
            yield metadata.compressor
        return
    remaining = list(metadata.codecs)
    while remaining:
        codec = remaining.pop()
        yield codec
        if type(codec) is ShardingCodec:
            remaining += [*codec.codecs, *codec.index_codecs]


def _foreign_codec(codec: Any) -> str | None:
    """Return the class of a codec that is neither zarr-python's nor numcodecs'.

    Its name in the metadata says nothing about what the class does.
    """
    kind = type(codec)
    if kind.__module__.split(".")[0] in ("zarr", "numcodecs"):
        return None
    return f"{kind.__module__}.{kind.__qualname__}"


class _Engine(NamedTuple):
    """An array opened by the engine."""

    array: Array
    # The type of the elements that the engine reads and writes.
    dtype: np.dtype[Any]
    # The array's store. This reference keeps it alive.
    found: EngineStore
    # The unit of decoding: shape and bytes of a chunk. `None` if decoding takes no time.
    decoded: tuple[tuple[int, ...], int] | None

    @property
    def is_near(self) -> bool:
        return self.found.is_near


def _open_array(metadata: Any, found: EngineStore, prefix: str, selected: Planned, config: Any) -> _Engine:
    """Open the array of the metadata, with the shape and chunks of a selection."""
    store = found.store
    path = f"{found.path}{prefix}".rstrip("/")
    document = _document(metadata, selected)
    handle = _native.array_of_document(store._native, path, metadata.zarr_format, document)
    array = Array(handle, store, ArrayConfig(config.write_empty_chunks, config.order, True))
    dtype = array.dtype if array._is_vlen else array._memory_dtype
    decoded = None
    if _takes_time(metadata):
        # Inner chunks have one shape.
        is_sharded = any(isinstance(codec, ShardingCodec) for codec in _codecs(metadata))
        differ = _is_rectilinear(metadata) and not is_sharded
        chunk = tuple(axis.longest for axis in selected.axes) if differ else array.chunks
        decoded = (chunk, math.prod(chunk) * dtype.itemsize)
    return _Engine(array, dtype, found, decoded)


def _document(metadata: Any, selected: Planned) -> bytes:
    """Return the stored form of the metadata, with the shape and chunks of a selection."""
    if _is_rectilinear(metadata):
        # `to_buffer_dict` can refuse such grids, depending on a setting, even for open arrays.
        shapes = [
            axis.longest if isinstance(axis, Steps) else list(map(axis.length, range(len(axis.ends))))
            for axis in selected.axes
        ]
        grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
        changed = {"shape": selected.array_shape, "chunk_grid": grid}
        return json.dumps({**metadata.to_dict(), **changed}).encode()
    name = ".zarray" if metadata.zarr_format == 2 else "zarr.json"
    document: bytes = metadata.to_buffer_dict(cpu.buffer_prototype)[name].to_bytes()
    if selected.array_shape == tuple(metadata.shape):
        return document
    return json.dumps({**json.loads(document), "shape": selected.array_shape}).encode()


def _takes_time(metadata: Any) -> bool:
    """Return True if decoding a chunk is more than copying or reordering its elements."""
    return not all(
        isinstance(codec, BytesCodec | TransposeCodec | ShardingCodec) for codec in _codecs(metadata)
    )


def _holders(buffer: Any) -> int:
    """Return the number of references to the array of a buffer."""
    return sys.getrefcount(buffer._data)


# The reference count of a buffer's array that nothing else holds.
try:
    _ONE_HOLDER = _holders(cpu.NDBuffer.from_numpy_array(np.empty(1)))
except AttributeError:
    _ONE_HOLDER = -1


def _is_alone(buffer: Any) -> bool:
    """Return True if only the buffer refers to its array, like results made by zarr-python.

    Then nobody notices if the array is replaced.
    """
    if type(buffer) is not cpu.NDBuffer or _holders(buffer) != _ONE_HOLDER:
        return False
    values: Any = buffer._data
    return values.base is None


def _memory(batch: Batch, buffer: Any) -> Any:
    """Return the NumPy array of a buffer."""
    values = buffer.as_ndarray_like()
    if not isinstance(values, np.ndarray):
        raise Unplanned(f"memory of a {type(values).__name__}")
    return values


def _are_alike(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return True if types are equal except for byte order."""
    return one == other or one.newbyteorder("=") == other.newbyteorder("=")


def _fields(dtype: np.dtype[Any], values: Any) -> list[tuple[str, Any]]:
    """Return the requested fields of structures, each with its destination.

    zarr-python tells a pipeline only the type of the result. A single field is identified if no
    other field has its type.
    """
    wanted: np.dtype[Any] = values.dtype
    alike = [name for name in dtype.names or () if _are_alike(dtype[name], wanted)]
    several = wanted.names or ()
    if not all(name in (dtype.names or ()) and _are_alike(dtype[name], wanted[name]) for name in several):
        several = ()
    if len(alike) == 1 and not several:
        return [(alike[0], values)]
    if alike or not several:
        raise Unplanned(_mismatch(dtype, values))
    return [(name, values[name]) for name in several]


def _mismatch(dtype: np.dtype[Any], values: Any) -> str:
    if dtype != values.dtype:
        return f"elements of {values.dtype} for an array of {dtype}"
    return f"values of shape {values.shape}"


def _threads() -> int | None:
    """Return the number of threads that zarr-python's settings allow."""
    most: int | None = zarr.config.get("threading.max_workers", None)
    return most


_PRESENT = {"status": "present"}


async def _results(batch: Batch) -> tuple[Any, ...]:
    """Return the results for zarr-python. Only arrays that must not miss chunks need real ones."""
    if getattr(batch[0][1].config, "read_missing_chunks", True):
        return (_PRESENT,) * len(batch)
    found = await asyncio.gather(*(getter.store.exists(getter.path) for getter, *_ in batch))
    return tuple({"status": "present" if present else "missing"} for present in found)
