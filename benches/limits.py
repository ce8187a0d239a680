"""The machine's limit: the plain loops of `benches/limit`, a small Rust library.

They are called through ctypes, which releases the GIL. Only one call for all chunks is timed. The
tables that describe the chunks are built before.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hdf5
import numpy as np
from common import Array
from contenders import Cannot, Spec

# `Chunk` of benches/limit/src/chunk.rs.
CHUNK = np.dtype(
    [
        ("path", "u8"),
        ("memory", "u8"),
        ("start", "u8"),
        ("counts", "u8", 3),
        ("memory_strides", "i8", 3),
        ("chunk_strides", "i8", 3),
        ("offset", "u8"),
        ("length", "u8"),
    ]
)
# `Shard` of benches/limit/src/shard.rs.
SHARD = np.dtype([("path", "u8"), ("first", "u8"), ("count", "u8")])
ABSENT = 2**64 - 1
CODEC_NUMBERS = {None: (0, 0), "zstd": (1, 3), "gzip": (2, 5), "gzip-4 + shuffle": (3, 4)}


class Job(ctypes.Structure):
    """`Job` of benches/limit/src/lib.rs."""

    _fields_ = (
        ("chunks", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("chunk_bytes", ctypes.c_size_t),
        ("item", ctypes.c_size_t),
        ("codec", ctypes.c_uint32),
        ("level", ctypes.c_int32),
        ("threads", ctypes.c_size_t),
    )


@cache
def library() -> ctypes.CDLL:
    """Loads the compiled library."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parent.parent / "target"))
    for name in ("libhyperslab_limit.so", "libhyperslab_limit.dylib"):
        path = target / "release" / name
        if path.exists():
            found = ctypes.CDLL(str(path))
            pointer, size = ctypes.c_void_p, ctypes.c_size_t
            found.limit_read.argtypes = found.limit_write.argtypes = [ctypes.POINTER(Job)]
            found.limit_write_shards.argtypes = [ctypes.POINTER(Job), pointer, size]
            found.limit_rewrite.argtypes = [ctypes.POINTER(Job), size]
            found.limit_pread.argtypes = [ctypes.c_char_p, ctypes.c_uint64, pointer, size, size]
            found.limit_copy.argtypes = [pointer, pointer, size]
            found.limit_hash.argtypes = [pointer, size, size]
            return found
    raise Cannot("not built: cargo build --release -p hyperslab-limit")


# ---------------------------------------------------------------------------------- parts of chunks


@dataclass(frozen=True)
class Piece:
    """The selected part of one chunk, and its place in the result. Strides are in bytes.

    `key` names the object. `inner` is the chunk's number in the index of a shard or an HDF5 file.
    """

    key: str
    inner: int
    start: int
    offset: int
    counts: tuple[int, ...]
    memory_strides: tuple[int, ...]
    chunk_strides: tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """The indices of a selection in one chunk, along one axis."""

    chunk: int
    first: int
    step: int
    count: int
    position: int
    direction: int


def spans(indices: range, chunk: int) -> Iterator[Span]:
    """Yields the indices along one axis, chunk by chunk. Within a chunk they ascend."""
    for number, group in itertools.groupby(enumerate(indices), lambda pair: pair[1] // chunk):
        pairs = list(group)
        if indices.step < 0:
            pairs.reverse()
        position, index = pairs[0]
        direction = 1 if indices.step > 0 else -1
        yield Span(number, index - number * chunk, abs(indices.step), len(pairs), position, direction)


def normal(spec: Spec, selection: Any) -> tuple[list[range], list[bool]]:
    """Returns the indices per axis, and whether each axis is dropped."""
    parts = list(selection) if isinstance(selection, tuple) else [selection]
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(spec.shape) - len(parts) + 1)
    parts += [slice(None)] * (len(spec.shape) - len(parts))
    indices = [
        range(part, part + 1) if isinstance(part, int) else range(length)[part]
        for part, length in zip(parts, spec.shape, strict=True)
    ]
    return indices, [isinstance(part, int) for part in parts]


def result_shape(spec: Spec, selection: Any) -> tuple[int, ...]:
    """Returns the shape of a selection's result."""
    indices, dropped = normal(spec, selection)
    return tuple(len(axis) for axis, drop in zip(indices, dropped, strict=True) if not drop)


def selected_bytes(spec: Spec, selection: Any) -> int:
    """Returns the size of a selection's result in bytes."""
    return math.prod(result_shape(spec, selection)) * spec.itemsize


def c_strides(shape: Iterable[int], item: int) -> tuple[int, ...]:
    """Returns the strides in bytes of a C-contiguous array."""
    lengths = list(shape)
    return tuple(item * math.prod(lengths[axis + 1 :]) for axis in range(len(lengths)))


def inner_counts(spec: Spec) -> tuple[int, ...]:
    """Returns the number of inner chunks of a shard along each axis."""
    return tuple(shard // chunk for shard, chunk in zip(spec.shards or spec.chunks, spec.chunks, strict=True))


def grid(spec: Spec) -> tuple[int, ...]:
    """Returns the number of chunks along each axis."""
    return tuple(-(-length // chunk) for length, chunk in zip(spec.shape, spec.chunks, strict=True))


def shard_index(spec: Spec, path: Path) -> Array:
    """Returns offsets and lengths of a shard's inner chunks, from the index at its end."""
    count = math.prod(inner_counts(spec))
    with path.open("rb") as file:
        file.seek(-(16 * count + 4), os.SEEK_END)
        return np.frombuffer(file.read(16 * count), "<u8").reshape(count, 2)


def pieces(spec: Spec, selection: Any) -> list[Piece]:
    """Returns the selected part of each chunk that the selection touches."""
    indices, _ = normal(spec, selection)
    chunk_strides = c_strides(spec.chunks, spec.itemsize)
    strides = c_strides(map(len, indices), spec.itemsize)
    found = []
    axes = [list(spans(axis, chunk)) for axis, chunk in zip(indices, spec.chunks, strict=True)]
    for parts in itertools.product(*axes):
        at = [part.chunk for part in parts]
        inner = 0
        if spec.shards is not None:
            counts = inner_counts(spec)
            inner = int(
                np.ravel_multi_index([n % count for n, count in zip(at, counts, strict=True)], counts)
            )
            at = [n // count for n, count in zip(at, counts, strict=True)]
        if spec.hdf5 is not None:
            inner = int(np.ravel_multi_index(at, grid(spec)))
        numbers = [str(number) for number in at]
        key = ".".join(numbers) if spec.zarr_format == 2 else "/".join(["c", *numbers])
        found.append(
            Piece(
                key=key if spec.hdf5 is None else hdf5.FILE,
                inner=inner,
                start=sum(part.first * stride for part, stride in zip(parts, chunk_strides, strict=True)),
                offset=sum(part.position * stride for part, stride in zip(parts, strides, strict=True)),
                counts=tuple(part.count for part in parts),
                memory_strides=tuple(p.direction * stride for p, stride in zip(parts, strides, strict=True)),
                chunk_strides=tuple(p.step * stride for p, stride in zip(parts, chunk_strides, strict=True)),
            )
        )
    return found


# ---------------------------------------------------------------------------------------- the loops


class ChunkLoop:
    """A loop over the chunks of one or more selections. Each selection has its place in memory."""

    def __init__(
        self, function: str, spec: Spec, root: Path, places: list[tuple[Any, Array]], threads: int = 1
    ) -> None:
        if spec.codec not in CODEC_NUMBERS:
            raise Cannot(f"no plain loop for {spec.codec}")
        self.call: Callable[[Any], int] = getattr(library(), function)
        found = [(piece, memory) for selection, memory in places for piece in pieces(spec, selection)]
        if spec.shards is not None:
            # The inner chunks of one shard follow each other.
            found.sort(key=lambda pair: pair[0].key)
        self.pieces = [piece for piece, _ in found]
        self.table = np.zeros(len(found), CHUNK)
        self.offsets = np.array([piece.offset for piece in self.pieces], "u8")
        self.keep: list[Any] = [memory for _, memory in places]
        # One address per object: the loop compares addresses to find chunks of the same object.
        self.paths = {
            key: ctypes.create_string_buffer(os.fsencode(root / key))
            for key in dict.fromkeys(piece.key for piece in self.pieces)
        }
        for row, (piece, memory) in zip(self.table, found, strict=True):
            row["path"] = ctypes.addressof(self.paths[piece.key])
            row["memory"] = memory.ctypes.data + piece.offset
            row["start"] = piece.start
            # Missing axes come first.
            missing = 3 - len(piece.counts)
            row["counts"] = (1,) * missing + piece.counts
            row["memory_strides"] = (0,) * missing + piece.memory_strides
            row["chunk_strides"] = (0,) * missing + piece.chunk_strides
        if (spec.shards is not None or spec.hdf5 is not None) and function == "limit_read":
            if spec.hdf5 is None:
                indexes = {key: shard_index(spec, root / key) for key in self.paths}
            else:
                indexes = {hdf5.FILE: hdf5.chunk_table(root, grid(spec), spec.chunks)}
            for row, piece in zip(self.table, self.pieces, strict=True):
                row["offset"], row["length"] = indexes[piece.key][piece.inner]
        self.job = Job(
            self.table.ctypes.data,
            len(found),
            spec.chunk_bytes,
            spec.itemsize,
            *CODEC_NUMBERS[spec.codec],
            threads,
        )

    def __call__(self) -> None:
        """Runs the loop once."""
        if self.call(ctypes.byref(self.job)):
            raise OSError("the plain loop failed")

    def into(self, memory: Array) -> None:
        """Runs the loop once into other memory."""
        self.table["memory"] = self.offsets + np.uint64(memory.ctypes.data)
        self()


class ShardLoop(ChunkLoop):
    """A loop that writes whole shards."""

    def __init__(self, spec: Spec, root: Path, places: list[tuple[Any, Array]], threads: int = 1) -> None:
        super().__init__("limit_write_shards", spec, root, places, threads)
        # In the order of the index within each shard.
        order = sorted(range(len(self.pieces)), key=lambda n: (self.pieces[n].key, self.pieces[n].inner))
        self.table[:] = self.table[order]
        count = math.prod(inner_counts(spec))
        self.shards = np.zeros(len(self.paths), SHARD)
        for number, (row, path) in enumerate(zip(self.shards, self.paths.values(), strict=True)):
            row["path"], row["first"], row["count"] = ctypes.addressof(path), number * count, count

    def __call__(self) -> None:
        """Writes all shards once."""
        if library().limit_write_shards(ctypes.byref(self.job), self.shards.ctypes.data, len(self.shards)):
            raise OSError("the plain loop failed")


class Rewrite(ChunkLoop):
    """Replaces one inner chunk of a shard."""

    def __init__(self, spec: Spec, root: Path, selection: Any, values: Array) -> None:
        super().__init__("limit_rewrite", spec, root, [(selection, values)])
        (piece,) = self.pieces
        self.table["start"] = piece.inner
        self.count = math.prod(inner_counts(spec))

    def __call__(self) -> None:
        """Replaces the chunk once."""
        if library().limit_rewrite(ctypes.byref(self.job), self.count):
            raise OSError("the plain loop failed")


def read_into(spec: Spec, root: Path, selection: Any, memory: Array, threads: int = 1) -> ChunkLoop:
    """Returns the loop that reads one selection."""
    return ChunkLoop("limit_read", spec, root, [(selection, memory)], threads)


def pread(path: Path, offset: int, length: int) -> Callable[[int], None]:
    """Returns a function that opens a file, reads a range and closes it `times` times."""
    out = np.ones(length, "u1")
    call = library().limit_pread

    def many(times: int) -> None:
        if call(os.fsencode(path), offset, out.ctypes.data, length, times):
            raise OSError(f"{path} could not be read")

    return many


def copy_speed(count: int = 256 << 20) -> float:
    """Returns bytes per second of `memcpy` between mapped buffers that fit in no cache."""
    source, out = np.ones(count, "u1"), np.ones(count, "u1")
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        library().limit_copy(out.ctypes.data, source.ctypes.data, count)
        best = min(best, time.perf_counter() - start)
    return count / best
