"""A codec pipeline for zarr-python: its arrays, read and written by the engine."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np
import zarr
from zarr.abc.codec import CodecPipeline as BasePipeline
from zarr.abc.store import Store as ZarrStore
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.array_spec import ArrayConfig as ZarrArrayConfig
from zarr.core.array_spec import ArraySpec
from zarr.core.buffer import cpu
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from hyperslab import _native
from hyperslab._array import Array
from hyperslab._array_config import ArrayConfig
from hyperslab._zarr_batches import Batch, Grid, Planned, Unplanned, planned
from hyperslab._zarr_stores import engine_store
from hyperslab.errors import HyperslabError, UnsupportedError

__all__ = ["CodecPipeline", "Fallback", "fallbacks"]

# Results up to this size are read on the event loop itself where the store answers at once: a hand-off to
# another thread takes 60 µs, and as much for every other user of the loop.
INLINE_BYTES = 64 << 10

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
    know (a codec of somebody else's, buffers on a GPU, a field of a structure) goes to zarr-python's default
    pipeline: see `fallbacks`. Made by zarr-python.

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
        self._arrays: dict[Any, Array] = {}

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
        try:
            values = _memory(batch, out)
            selected, array = self._prepared(batch, values, drop_axes, write=False)
            if selected.shape != values.shape or _dtype(array) != values.dtype:
                raise Unplanned(_mismatch(array, values))
        except Unplanned as why:
            self._fall_back(batch, str(why))
            # Before version 3.2 it tells nothing of the chunks.
            return await self._default.read(batch, out, drop_axes) or ()
        threads = _threads()
        await _run(
            array, values.nbytes, lambda: array._get(selected.meaning, selected.selection, values, threads)
        )
        return await _results(batch, array, selected)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        """Writes parts of chunks."""
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return
        try:
            values = _memory(batch, value)
            selected, array = self._prepared(batch, values, drop_axes, write=True)
            if values.shape not in ((), selected.shape) or _dtype(array).kind != values.dtype.kind:
                raise Unplanned(_mismatch(array, values))
        except Unplanned as why:
            self._fall_back(batch, str(why))
            await self._default.write(batch, value, drop_axes)
            return
        threads = _threads()
        # Writers may wait for each other.
        await asyncio.to_thread(array._set, selected.meaning, selected.selection, values, threads)

    def _prepared(
        self, batch: Batch, values: Any, drop_axes: tuple[int, ...], *, write: bool
    ) -> tuple[Planned, Array]:
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
        if spec.prototype != cpu.buffer_prototype:
            raise Unplanned(f"buffers of class {spec.prototype.buffer.__name__}")
        if write and store.read_only:
            # It says so in its own words.
            raise Unplanned("the store is read only")
        if self._prefix is None:
            above = getter.path.rsplit("/", grid.key_parts)
            self._prefix = f"{above[0]}/" if len(above) > grid.key_parts else ""
        selected = planned(batch, grid, self._prefix, drop_axes, write=write)
        ours = engine_store(store, asyncio.get_running_loop())
        key = (id(ours), selected.array_shape, spec.config.write_empty_chunks)
        array = self._arrays.get(key)
        if array is None:
            try:
                array = _opened(self._metadata, ours, self._prefix, key[1], key[2])
            except (HyperslabError, ValueError, TypeError) as error:
                self._grid, self._refusal = None, str(error)
                raise Unplanned(str(error)) from None
            if len(self._arrays) >= 8:
                self._arrays.clear()
            self._arrays[key] = array
        return selected, array

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
        return Grid(metadata.shape, metadata.chunks, metadata.dimension_separator, False), None
    if not isinstance(metadata, ArrayV3Metadata):
        return None, f"metadata of class {type(metadata).__name__}"
    chunk = getattr(metadata.chunk_grid, "chunk_shape", None)
    if chunk is None:
        return None, "chunks of different shapes"
    keys: Any = metadata.chunk_key_encoding
    if keys.name not in ("default", "v2"):
        return None, f"chunk key encoding {keys.name!r}"
    return Grid(metadata.shape, tuple(chunk), keys.separator, keys.name == "default"), None


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


def _opened(
    metadata: Any, store: Any, prefix: str, shape: tuple[int, ...], write_empty_chunks: bool
) -> Array:
    """The array that the metadata describe, in this shape."""
    name = ".zarray" if metadata.zarr_format == 2 else "zarr.json"
    document = metadata.to_buffer_dict(cpu.buffer_prototype)[name].to_bytes()
    if shape != tuple(metadata.shape):
        document = json.dumps({**json.loads(document), "shape": shape}).encode()
    handle = _native.array_of_document(store._native, prefix.rstrip("/"), metadata.zarr_format, document)
    return Array(handle, store, ArrayConfig(write_empty_chunks=write_empty_chunks, read_missing_chunks=True))


def _memory(batch: Batch, buffer: Any) -> Any:
    """The NumPy array of a buffer."""
    values = buffer.as_ndarray_like()
    if not isinstance(values, np.ndarray):
        raise Unplanned(f"memory of a {type(values).__name__}")
    return values


def _dtype(array: Array) -> np.dtype[Any]:
    """Of what the engine reads and writes."""
    return array.dtype if array._is_vlen else array._memory_dtype


def _mismatch(array: Array, values: Any) -> str:
    if _dtype(array) != values.dtype:
        return f"elements of {values.dtype} of an array of {_dtype(array)}"
    return f"values of shape {values.shape}"


def _threads() -> int | None:
    """How many threads zarr-python's settings allow."""
    most: int | None = zarr.config.get("threading.max_workers", None)
    return most


async def _run(array: Array, size: int, call: Callable[[], Any]) -> None:
    """Makes a call of the engine, elsewhere than on the event loop if it may take long."""
    if size <= INLINE_BYTES and array._store._native.is_local:
        call()
    else:
        await asyncio.to_thread(call)


_PRESENT = {"status": "present"}


async def _results(batch: Batch, array: Array, selected: Planned) -> tuple[Any, ...]:
    """What zarr-python is told of each chunk. Only arrays whose chunks must not be missing want to know."""
    if getattr(batch[0][1].config, "read_missing_chunks", True):
        return (_PRESENT,) * len(batch)
    found = await asyncio.gather(*(getter.store.exists(getter.path) for getter, *_ in batch))
    return tuple({"status": "present" if present else "missing"} for present in found)
