"""A codec pipeline for zarr-python: its arrays, read and written by the engine."""

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
from hyperslab._zarr.batches import Batch, Edges, Grid, Planned, Steps, Unplanned, planned
from hyperslab._zarr.stores import EngineStore, engine_store
from hyperslab.errors import HyperslabError, StoreError, UnsupportedError

__all__ = ["CodecPipeline", "Fallback", "fallbacks"]

T = TypeVar("T")

# Calls of up to this much work, in bytes to copy, are made on the event loop itself: that takes up to a
# quarter of a millisecond. A hand-off to a thread and back takes as long, and half of that is work of the
# loop. (x86-64, two cores, files in memory.)
INLINE_WORK = 2 << 20
# The same where no other call of the loop waits, so that nobody is held up: a millisecond. A call of 16 small
# chunks of Zstandard takes 0.7 ms with a hand-off, and 0.5 without.
INLINE_WORK_ALONE = 8 << 20
# Results of so many bytes are read into pages that the engine recycles, not into those that zarr-python
# allocated: these are fresh, and the first touch of each costs more than the read. Smaller ones are in memory
# that NumPy recycles.
RECYCLED = 64 << 10
# What opening an object and what decoding a byte cost, in bytes that could be copied instead.
OBJECT_WORK, CODEC_FACTOR = 16 << 10, 4
# A call on the event loop that takes longer than so many seconds had to wait, for a disk or a network: so
# many more of this array are handed over.
LATE, AFTER_LATE = 0.004, 32

# Fallbacks that are remembered.
MOST_FALLBACKS = 1000


@dataclasses.dataclass(frozen=True)
class Fallback:
    """Why an array was read or written by zarr-python's own pipeline."""

    #: The store and the path of the array.
    array: str
    #: What the engine does not do.
    reason: str
    #: How many reads and writes went that way.
    count: int


_fallbacks: dict[tuple[str, str], int] = {}

# Calls of the engine that are about to begin, or on their way.
_calls: set[Callable[[], Any]] = set()


def fallbacks(*, clear: bool = False) -> list[Fallback]:
    """What zarr-python's own pipeline did since the program started, or since the list was cleared.

    With ``zarr.config.set({"codec_pipeline.strict": True})`` these reads and writes raise
    `hyperslab.errors.UnsupportedError`.

    Parameters
    ----------
    clear : bool, default False
        Whether to begin a new list.

    Returns
    -------
    list of Fallback
        One for each array and reason, of the first 1000.

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

    Reads and writes of any selection are one call of the engine, shards included. What the engine does not
    know (a codec of somebody else's, buffers on a GPU) goes to zarr-python's default pipeline: see
    `fallbacks`. Made by zarr-python.

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
        # What the array is; `None`: codecs without an array, such as those inside a shard.
        self._metadata = metadata
        self._grid: Grid | None = None
        self._refusal: str | None = None
        # The path of the array, with a slash behind.
        self._prefix: str | None = None
        self._arrays: dict[Any, _Engine] = {}
        # How many calls are still to be handed over because one was late.
        self._late = 0

    # ---- how zarr-python makes it

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any]) -> Self:
        """A pipeline of codecs without an array: zarr-python's default one."""
        return cls(BatchedCodecPipeline.from_codecs(codecs))

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> Self:
        """The pipeline of an array."""
        return cls(_default_pipeline(array_metadata), array_metadata)

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        """The pipeline for arrays like that."""
        return type(self)(self._default.evolve_from_array_spec(array_spec), self._metadata)

    def __getstate__(self) -> tuple[Any, Any]:
        return self._default, self._metadata

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodecPipeline) and self._default == other._default

    def __hash__(self) -> int:
        return hash(self._default)

    # ---- what the default pipeline answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._default, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._default)

    @property
    def supports_partial_decode(self) -> bool:
        """Whether parts of a chunk are decoded by themselves."""
        return bool(self._default.supports_partial_decode)

    @property
    def supports_partial_encode(self) -> bool:
        """Whether parts of a chunk are encoded by themselves."""
        return bool(self._default.supports_partial_encode)

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Checks that the codecs fit an array."""
        self._default.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        """Bytes of an encoded chunk."""
        return int(self._default.compute_encoded_size(byte_length, array_spec))

    async def decode(self, chunk_bytes_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Decodes chunks."""
        return list(await self._default.decode(chunk_bytes_and_specs))

    async def encode(self, chunk_arrays_and_specs: Iterable[Any]) -> Iterable[Any]:
        """Encodes chunks."""
        return list(await self._default.encode(chunk_arrays_and_specs))

    # ---- reading and writing

    async def read(
        self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        """Reads parts of chunks into a result."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return ()
        is_ours = _is_alone(out)
        try:
            values = _memory(batch, out)
            selected, engine = self._prepared(batch, drop_axes, write=False)
            if selected.shape != values.shape:
                raise Unplanned(_mismatch(engine.dtype, values))
            fields = [] if _are_alike(engine.dtype, values.dtype) else _fields(engine.dtype, values)
        except Unplanned as why:
            self._fall_back(batch, str(why))
            # Before version 3.2 it tells nothing of the chunks.
            return await self._default.read(batch, out, drop_axes) or ()
        meaning, selection, threads = selected.meaning, selected.selection, _threads()
        work = self._work(engine, batch, selected)
        # zarr-python keeps the order of bytes of its data type; the engine reads in the machine's.
        is_same = engine.dtype == values.dtype
        is_large = values.ndim > 0 and values.nbytes >= RECYCLED and not engine.array._is_vlen
        if is_same and is_ours and is_large and threads is None:
            found = await self._run(lambda: engine.array._get(meaning, selection), work, INLINE_WORK_ALONE)
            # `values` here is one more that holds it. Another one may have come meanwhile.
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
        """Writes parts of chunks."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return
        try:
            values = _memory(batch, value)
            selected, engine = self._prepared(batch, drop_axes, write=True)
            if values.shape not in ((), selected.shape) or engine.dtype.kind != values.dtype.kind:
                raise Unplanned(_mismatch(engine.dtype, values))
        except Unplanned as why:
            self._fall_back(batch, str(why))
            await self._default.write(batch, value, drop_axes)
            return
        threads = _threads()
        # Writers of parts of a chunk may wait for each other, and for other processes.
        is_whole = all(item[4] for item in batch) and selected.array_shape == tuple(self._metadata.shape)
        await self._run(
            lambda: engine.array._set(selected.meaning, selected.selection, values, threads),
            self._work(engine, batch, selected) if is_whole else math.inf,
            INLINE_WORK,
        )

    def _work(self, engine: _Engine, batch: Batch, selected: Planned) -> float:
        """How long a call of the engine takes, in bytes that could be copied meanwhile."""
        if not engine.is_near:
            return math.inf
        work = math.prod(selected.shape) * engine.dtype.itemsize
        if work <= INLINE_WORK_ALONE and engine.decoded is not None:
            shape, size = engine.decoded
            work = selected.count(shape) * size * CODEC_FACTOR
        return work + len(batch) * OBJECT_WORK

    async def _run(self, call: Callable[[], T], work: float, most: int) -> T:
        """Makes a call of the engine: on the event loop where it takes no longer than a hand-off to a thread,
        or up to ``most`` where no other call waits; else on a thread.
        """
        is_quick = work <= most
        if is_quick and self._late:
            self._late -= 1
            is_quick = False
        _calls.add(call)
        try:
            if is_quick and work > INLINE_WORK:
                # Others that are ready begin, and are counted.
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
            # What a store of zarr-python raised comes out as it is.
            error.__cause__.add_note(str(error))
            raise error.__cause__ from None
        finally:
            _calls.discard(call)

    def _prepared(self, batch: Batch, drop_axes: tuple[int, ...], *, write: bool) -> tuple[Planned, _Engine]:
        """The batch as a selection, and the array that it is of."""
        if self._grid is None:
            if self._refusal is None:
                self._grid, self._refusal = _known(self._metadata)
            if self._grid is None:
                raise Unplanned(self._refusal)
        grid = self._grid
        getter, spec = batch[0][:2]
        if type(getter) is not StorePath:
            raise Unplanned(f"chunks from a {type(getter).__name__}")
        store = getter.store
        # Not what pretends to be one.
        if not issubclass(type(store), ZarrStore):
            raise Unplanned(f"a store of class {type(store).__name__}")
        if spec.prototype is not cpu.buffer_prototype and spec.prototype != cpu.buffer_prototype:
            raise Unplanned(f"buffers of class {spec.prototype.buffer.__name__}")
        if write and store.read_only:
            # It says so in its own words.
            raise Unplanned("the store is read only")
        if self._prefix is None:
            above = getter.path.rsplit("/", grid.key_parts)
            self._prefix = f"{above[0]}/" if len(above) > grid.key_parts else ""
        selected = planned(batch, grid, self._prefix, drop_axes, write=write)
        found = engine_store(store, asyncio.get_running_loop())
        config = spec.config
        key = (id(found), selected.array_shape, selected.axes, config.write_empty_chunks, config.order)
        engine = self._arrays.get(key)
        if engine is None:
            try:
                engine = _opened(self._metadata, found, self._prefix, selected, config)
            except (HyperslabError, ValueError, TypeError) as error:
                self._grid, self._refusal = None, str(error)
                raise Unplanned(str(error)) from None
            if len(self._arrays) >= 8:
                self._arrays.clear()
            self._arrays[key] = engine
        return selected, engine

    def _fall_back(self, batch: Batch, reason: str) -> None:
        """Remembers that zarr-python does it, or refuses."""
        getter = batch[0][0]
        path = getattr(getter, "path", "") if self._prefix is None else self._prefix.rstrip("/")
        where = f"{getattr(getter, 'store', '')}/{path}"
        if zarr.config.get("codec_pipeline.strict", False) and reason != "the store is read only":
            raise UnsupportedError(f"{where}: {reason} (codec_pipeline.strict)")
        if (where, reason) in _fallbacks or len(_fallbacks) < MOST_FALLBACKS:
            _fallbacks[where, reason] = _fallbacks.get((where, reason), 0) + 1


# By the name that it has for users.
CodecPipeline.__module__ = "hyperslab.zarr"
register_pipeline(CodecPipeline)


def _default_pipeline(metadata: Any) -> BatchedCodecPipeline:
    """What zarr-python makes of metadata when no other pipeline is chosen."""
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


def _known(metadata: Any) -> tuple[Grid | None, str | None]:
    """The grid of an array that the engine may read, or what speaks against it."""
    if metadata is None:
        return None, "codecs without an array"
    foreign = next((name for codec in _codecs(metadata) if (name := _foreign(codec))), None)
    if foreign is not None:
        return None, f"codec {foreign}"
    if isinstance(metadata, ArrayV2Metadata):
        axes: tuple[Steps | Edges, ...] = tuple(map(Steps, metadata.chunks))
        return Grid(metadata.shape, axes, metadata.dimension_separator, False), None
    if not isinstance(metadata, ArrayV3Metadata):
        return None, f"metadata of class {type(metadata).__name__}"
    chunk_grid: Any = metadata.chunk_grid
    # Of a rectilinear grid: for each axis one length, or those of all chunks.
    lengths = getattr(chunk_grid, "chunk_shapes" if _is_rectilinear(metadata) else "chunk_shape", None)
    if lengths is None:
        return None, f"chunk grid {type(chunk_grid).__name__}"
    axes = tuple(Steps(n) if isinstance(n, int) else Edges(tuple(itertools.accumulate(n))) for n in lengths)
    keys: Any = metadata.chunk_key_encoding
    if keys.name not in ("default", "v2"):
        return None, f"chunk key encoding {keys.name!r}"
    return Grid(metadata.shape, axes, keys.separator, keys.name == "default"), None


def _is_rectilinear(metadata: Any) -> bool:
    """Whether chunks may have different shapes. Before version 3.4 there is no such grid."""
    return metadata.zarr_format == 3 and hasattr(metadata.chunk_grid, "chunk_shapes")


def _codecs(metadata: Any) -> Iterator[Any]:
    """All codecs of an array, those inside shards too."""
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


def _foreign(codec: Any) -> str | None:
    """The class of a codec that is neither zarr-python's nor numcodecs' own: it is what its author wrote, not
    what its name says.
    """
    kind = type(codec)
    if kind.__module__.split(".")[0] in ("zarr", "numcodecs"):
        return None
    return f"{kind.__module__}.{kind.__qualname__}"


class _Engine(NamedTuple):
    """An array as the engine has it."""

    array: Array
    # Of what the engine reads and writes.
    dtype: np.dtype[Any]
    # Its store, which this holds.
    found: EngineStore
    # What codecs decode at a time: shape and bytes of a chunk. `None`: there are none that take time.
    decoded: tuple[tuple[int, ...], int] | None

    @property
    def is_near(self) -> bool:
        return self.found.is_near


def _opened(metadata: Any, found: EngineStore, prefix: str, selected: Planned, config: Any) -> _Engine:
    """The array that the metadata describe, with the shape and the chunks of a selection."""
    store = found.store
    path = f"{found.path}{prefix}".rstrip("/")
    document = _document(metadata, selected)
    handle = _native.array_of_document(store._native, path, metadata.zarr_format, document)
    array = Array(handle, store, ArrayConfig(config.write_empty_chunks, config.order, True))
    dtype = array.dtype if array._is_vlen else array._memory_dtype
    decoded = None
    if _takes_time(metadata):
        # Chunks in shards have one shape.
        is_sharded = any(isinstance(codec, ShardingCodec) for codec in _codecs(metadata))
        differ = _is_rectilinear(metadata) and not is_sharded
        chunk = tuple(axis.longest for axis in selected.axes) if differ else array.chunks
        decoded = (chunk, math.prod(chunk) * dtype.itemsize)
    return _Engine(array, dtype, found, decoded)


def _document(metadata: Any, selected: Planned) -> bytes:
    """The metadata as they are stored, with the shape and the chunks of a selection."""
    if _is_rectilinear(metadata):
        # Not by `to_buffer_dict`: with a setting off, that refuses such grids, also of arrays that are open.
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
    """Whether chunks are more than their elements, perhaps in another order."""
    return not all(
        isinstance(codec, BytesCodec | TransposeCodec | ShardingCodec) for codec in _codecs(metadata)
    )


def _holders(buffer: Any) -> int:
    """How many hold the array of a buffer."""
    return sys.getrefcount(buffer._data)


# The array of a buffer that nothing else holds.
try:
    _ONE_HOLDER = _holders(cpu.NDBuffer.from_numpy_array(np.empty(1)))
except AttributeError:
    _ONE_HOLDER = -1


def _is_alone(buffer: Any) -> bool:
    """Whether nobody but a buffer has its array, so that nobody sees that it becomes another one: such are
    those that zarr-python makes for a result.
    """
    if type(buffer) is not cpu.NDBuffer or _holders(buffer) != _ONE_HOLDER:
        return False
    values: Any = buffer._data
    return values.base is None


def _memory(batch: Batch, buffer: Any) -> Any:
    """The NumPy array of a buffer."""
    values = buffer.as_ndarray_like()
    if not isinstance(values, np.ndarray):
        raise Unplanned(f"memory of a {type(values).__name__}")
    return values


def _are_alike(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether types are the same but for the order of bytes."""
    return one == other or one.newbyteorder("=") == other.newbyteorder("=")


def _fields(dtype: np.dtype[Any], values: Any) -> list[tuple[str, Any]]:
    """Which fields of structures are asked for, and where they go.

    zarr-python tells a pipeline only the type of the result. One field is known if no other has its type.
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
        return f"elements of {values.dtype} of an array of {dtype}"
    return f"values of shape {values.shape}"


def _threads() -> int | None:
    """How many threads zarr-python's settings allow."""
    most: int | None = zarr.config.get("threading.max_workers", None)
    return most


_PRESENT = {"status": "present"}


async def _results(batch: Batch) -> tuple[Any, ...]:
    """What zarr-python is told of each chunk. Only arrays whose chunks must not be missing want to know."""
    if getattr(batch[0][1].config, "read_missing_chunks", True):
        return (_PRESENT,) * len(batch)
    found = await asyncio.gather(*(getter.store.exists(getter.path) for getter, *_ in batch))
    return tuple({"status": "present" if present else "missing"} for present in found)
