"""Sharded arrays of every kind for generated tests, and a shard parser independent of hyperslab.

A `ShardCase` is a metadata document that hyperslab, zarr-python and TensorStore can open. The
parser judges hyperslab's stored shards by the specification alone.
"""

from __future__ import annotations

import fcntl
import json
import math
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import crc32c
import hyperslab as hs
import numcodecs
import numpy as np
import tensorstore as ts
import zarr
from hypothesis import strategies as st
from strategies import NUMBERS, contents, dtypes, scalars, selections, v3_compressors

ABSENT = 2**64 - 1
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC32C = {"name": "crc32c"}


def zstd(level: int = 3) -> dict[str, Any]:
    return {"name": "zstd", "configuration": {"level": level, "checksum": False}}


# ------------------------------------------------------------------------------------- descriptions


@dataclass(frozen=True)
class Level:
    """Shards of one level. Shapes have the axis order after `before`."""

    inner: tuple[int, ...]
    # A transposition before the chunk is cut into inner chunks.
    before: tuple[int, ...] | None = None
    location: str = "end"
    index_order: tuple[int, ...] | None = None
    index_endian: str = "little"
    # The number of checksums of the index, one after the other.
    index_checksums: int = 1
    # Codecs of the whole shard.
    after: tuple[dict[str, Any], ...] = ()

    def index_codecs(self) -> list[dict[str, Any]]:
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": self.index_endian}}]
        if self.index_order is not None:
            codecs.insert(0, {"name": "transpose", "configuration": {"order": list(self.index_order)}})
        return codecs + [CRC32C] * self.index_checksums

    def codecs(self, inner: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns this level's chain of codecs around the chain of its inner chunks."""
        configuration = {
            "chunk_shape": list(self.inner),
            "codecs": inner,
            "index_codecs": self.index_codecs(),
            "index_location": self.location,
        }
        chain: list[dict[str, Any]] = [{"name": "sharding_indexed", "configuration": configuration}]
        if self.before is not None:
            chain.insert(0, {"name": "transpose", "configuration": {"order": list(self.before)}})
        return chain + list(self.after)


@dataclass(frozen=True)
class ShardCase:
    """A sharded array and its contents."""

    shape: tuple[int, ...]
    shards: tuple[int, ...]
    levels: tuple[Level, ...]
    dtype: np.dtype[Any]
    fill: Any
    data: np.ndarray[Any, Any] = field(repr=False)
    # The codecs of an inner chunk, including the serializer.
    codecs: tuple[dict[str, Any], ...] = (BYTES,)
    seed: int = 0

    @property
    def inner_chunks(self) -> tuple[int, ...]:
        """Returns the shape of the innermost chunks in the array's axis order."""
        order = list(range(len(self.shape)))
        for level in self.levels:
            if level.before is not None:
                order = [order[axis] for axis in level.before]
        found = [0] * len(order)
        for size, axis in zip(self.levels[-1].inner, order, strict=True):
            found[axis] = size
        return tuple(found)

    def document(self) -> dict[str, Any]:
        """Returns the array's metadata."""
        chain = list(self.codecs)
        for level in reversed(self.levels):
            chain = level.codecs(chain)
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.described("data_type"),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.shards)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": self.described("fill_value"),
            "codecs": chain,
            "attributes": {},
        }

    def described(self, name: str) -> Any:
        """Returns element type or fill value as zarr-python writes them in metadata."""
        key = (self.dtype.str, np.asarray(self.fill, self.dtype).tobytes())
        return spelled(*key)[name]

    def create(self, path: Path) -> None:
        """Creates the array: only its metadata."""
        path.mkdir(parents=True)
        (path / "zarr.json").write_text(json.dumps(self.document()))

    @property
    def empty(self) -> np.ndarray[Any, Any]:
        """Returns the values of an array without stored chunks."""
        return np.full(self.shape, self.fill, self.dtype)


@cache
def spelled(dtype: str, fill: bytes) -> dict[str, Any]:
    """Returns element type and fill value in Zarr v3 metadata."""
    value = np.frombuffer(fill, dtype)[0]
    z = zarr.create_array(zarr.storage.MemoryStore(), shape=(1,), dtype=np.dtype(dtype), fill_value=value)
    return dict(z.metadata.to_dict())


# --------------------------------------------------------------------------------------- generation

MOST_INNER_CHUNKS = 80
MOST_STORED = 6000


@st.composite
def shard_cases(
    draw: st.DrawFn,
    names: list[str] | None = None,
    *,
    levels: Sequence[int] = (1, 1, 1, 2, 2, 3),
    after: bool = True,
) -> ShardCase:
    """Returns arrays of 0 to 4 axes with whole and edge shards of one to three levels.

    With `after`, shards may have codecs of their own.
    """
    rank = draw(st.integers(0, 4))
    depth = draw(st.sampled_from(levels))
    shape: list[int] = []
    sizes: list[list[int]] = [[] for _ in range(depth + 1)]
    chunks, stored = 1, 1
    for _ in range(rank):
        size = draw(st.sampled_from([1, 1, 2, 3, 4, 5, 7]))
        if stored * size > MOST_STORED:
            size = 1
        sizes[depth].append(size)
        # From the inside out: each size is a multiple of the next smaller one.
        for level in reversed(range(depth)):
            ratio = draw(st.sampled_from([1, 2, 2, 3, 4]))
            if chunks * ratio > MOST_INNER_CHUNKS or stored * size * ratio > MOST_STORED:
                ratio = 1
            chunks *= ratio
            size *= ratio
            sizes[level].append(size)
        kind = draw(st.sampled_from(["any", "one", "whole", "several", "less", "empty"]))
        if kind == "empty" and draw(st.booleans()):
            n = 0
        elif kind == "one" or kind == "empty":
            n = 1
        elif kind == "whole":
            n = size
        elif kind == "less":
            n = draw(st.integers(1, size))
        else:
            most = max(1, min(3, MOST_INNER_CHUNKS // chunks, MOST_STORED // (stored * size)))
            n = most * size if kind == "several" else draw(st.integers(1, most * size))
        shards = max(1, math.ceil(n / size))
        chunks *= shards
        stored *= shards * size
        shape.append(n)
    dtype = draw(dtypes(names)).newbyteorder("=")
    fill = draw(scalars(dtype))
    made: list[Level] = []
    order = tuple(range(rank))
    for level in range(depth):
        before = None
        if rank > 1 and draw(st.integers(0, 4)) == 0:
            before = tuple(draw(st.permutations(range(rank))))
            order = tuple(order[axis] for axis in before)
        inner = tuple(sizes[level + 1][axis] for axis in order)
        made.append(draw(shard_levels(inner, before, after)))
    codecs: list[dict[str, Any]] = []
    if rank and draw(st.integers(0, 3)) == 0:
        codecs.append(
            {"name": "transpose", "configuration": {"order": draw(st.permutations(range(rank)))}},
        )
    if dtype.kind in "SVb" or (dtype.itemsize == 1 and dtype.kind != "U"):
        codecs.append({"name": "bytes"})
    else:
        codecs.append(
            {"name": "bytes", "configuration": {"endian": draw(st.sampled_from(["little", "big"]))}}
        )
    codecs += draw(st.lists(v3_compressors(dtype.itemsize), max_size=2))
    return ShardCase(
        shape=tuple(shape),
        shards=tuple(sizes[0]),
        levels=tuple(made),
        dtype=dtype,
        fill=fill,
        data=draw(contents(tuple(shape), dtype, fill)),
        codecs=tuple(codecs),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


@st.composite
def shard_levels(
    draw: st.DrawFn, inner: tuple[int, ...], before: tuple[int, ...] | None, may_follow: bool
) -> Level:
    usual = draw(st.booleans())
    order = None
    if not usual and draw(st.integers(0, 2)) == 0:
        order = tuple(draw(st.permutations(range(len(inner) + 1))))
    after: list[dict[str, Any]] = []
    if may_follow and not usual and draw(st.integers(0, 2)) == 0:
        after.append(draw(st.sampled_from([CRC32C, zstd(), {"name": "gzip", "configuration": {"level": 1}}])))
    return Level(
        inner=inner,
        before=before,
        location=draw(st.sampled_from(["end", "end", "start"])),
        index_order=order,
        index_endian="little" if usual else draw(st.sampled_from(["little", "big"])),
        index_checksums=1 if usual else draw(st.sampled_from([0, 1, 1, 2])),
        after=tuple(after),
    )


# -------------------------------------------------------------------------- other people's software


# Python 3.11 has an older zarr-python, which does not support some shards.
OLD_ZARR = tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 2)


def zarr_can(case: ShardCase) -> bool:
    """zarr-python requires that inner chunks divide shards even before axes are transposed."""
    if OLD_ZARR and (not case.shape or case.dtype.kind == "V"):
        return False
    return all(size % inner == 0 for size, inner in zip(case.shards, case.levels[0].inner, strict=True))


def tensorstore_can(case: ShardCase) -> bool:
    """TensorStore supports no codecs of whole shards, no text and no dates."""
    if any(level.after for level in case.levels):
        return False
    return case.dtype.kind == "b" or case.dtype.newbyteorder("=").str[1:] in NUMBERS


CONTEXT = ts.Context(
    {"file_io_sync": False, "data_copy_concurrency": {"limit": 1}, "file_io_concurrency": {"limit": 1}}
)


NUMERIC = ["b1", *NUMBERS]


class Zarr:
    """An array opened by zarr-python."""

    def __init__(self, path: Path, *, stored: bool = True) -> None:
        # False: zarr-python omits chunks that equal the fill value. It takes -0.0 for 0.0.
        with zarr.config.set({"array.write_empty_chunks": stored}):
            self.array = zarr.open_array(str(path), mode="r+")

    def read(self, selection: Any = ...) -> Any:
        return self.array[selection]

    def write(self, selection: Any, value: Any) -> None:
        self.array[selection] = value


class TensorStore:
    """An array opened by TensorStore. Slices work like NumPy's for positive steps without gaps."""

    def __init__(self, path: Path, *, stored: bool = True) -> None:
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{path}/"},
            "store_data_equal_to_fill_value": stored,
            "recheck_cached_data": True,
            "recheck_cached_metadata": True,
        }
        self.array = ts.open(spec, context=CONTEXT).result()

    def read(self, selection: Any = ...) -> Any:
        return np.asarray(self.array[plain(selection, self.array.shape)].read().result())

    def write(self, selection: Any, value: Any) -> None:
        self.array[plain(selection, self.array.shape)].write(value).result()


JUDGES: dict[str, tuple[type[Zarr | TensorStore], st.SearchStrategy[ShardCase]]] = {
    "zarr-python": (Zarr, shard_cases().filter(zarr_can)),
    "TensorStore": (TensorStore, shard_cases(names=NUMERIC, after=False)),
}


def judges(case: ShardCase) -> list[type[Zarr | TensorStore]]:
    """Returns the libraries that can read and write an array. There may be none."""
    found: list[type[Zarr | TensorStore]] = []
    if zarr_can(case):
        found.append(Zarr)
    if tensorstore_can(case):
        found.append(TensorStore)
    return found


def plain(selection: Any, shape: tuple[int, ...]) -> Any:
    """Turns empty slices that begin after their end into slices that end at their beginning."""
    if not isinstance(selection, tuple) or ... in selection:
        return selection
    found = []
    for item, n in zip(selection, shape, strict=False):
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            item = slice(start, max(start, stop), step)
        found.append(item)
    return tuple(found)


@st.composite
def regions(draw: st.DrawFn, case: ShardCase) -> tuple[Any, ...]:
    """Draws a region to write: any selection, whole inner chunks or shards, or an edge shard."""
    kind = draw(st.sampled_from(["any", "any", "inner", "inner", "shard", "edge"]))
    if kind == "any" or 0 in case.shape:
        return draw(selections(case.shape, negative=False, extra=False))
    found = []
    for n, size in zip(case.shape, case.inner_chunks if kind == "inner" else case.shards, strict=True):
        last = (n - 1) // size
        first = last if kind == "edge" else draw(st.integers(0, last))
        behind = draw(st.integers(first, min(last, first + 1)))
        found.append(slice(first * size, min(n, (behind + 1) * size)))
    return tuple(found)


def open_ours(path: Path) -> hs.Array:
    return hs.open_array(path, mode="r+")


# ------------------------------------------------------------------------------ contents of a shard


class BadShard(Exception):
    """A shard that violates the specification, and the reason."""


@dataclass(frozen=True)
class Entry:
    """A stored inner chunk: its place in the shard's grid, and its bytes."""

    at: tuple[int, ...]
    offset: int
    length: int


def split_index(level: Level, counts: tuple[int, ...], shard: bytes) -> tuple[int, int]:
    """Returns begin and end of the index."""
    size = 16 * math.prod(counts) + 4 * level.index_checksums
    if len(shard) < size:
        raise BadShard(f"{len(shard)} bytes, but the index alone has {size}")
    return (0, size) if level.location == "start" else (len(shard) - size, len(shard))


def index_numbers(level: Level, counts: tuple[int, ...], index: bytes) -> np.ndarray[Any, Any]:
    """Returns the index as in the specification: shape (*counts, 2), offsets and lengths."""
    for _ in range(level.index_checksums):
        index, told = index[:-4], struct.unpack("<I", index[-4:])[0]
        if crc32c.crc32c(index) != told:
            raise BadShard(f"the index's checksum is {told:08x}, not {crc32c.crc32c(index):08x}")
    numbers = np.frombuffer(index, ">u8" if level.index_endian == "big" else "<u8").astype("u8")
    order = level.index_order or tuple(range(len(counts) + 1))
    stored = numbers.reshape([(*counts, 2)[axis] for axis in order])
    return stored.transpose(np.argsort(order))


def stored_index(level: Level, numbers: np.ndarray[Any, Any]) -> bytes:
    """Returns the bytes of an index: the inverse of `index_numbers`."""
    order = level.index_order or tuple(range(numbers.ndim))
    kind = ">u8" if level.index_endian == "big" else "<u8"
    index = np.ascontiguousarray(numbers.transpose(order)).astype(kind).tobytes()
    for _ in range(level.index_checksums):
        index += struct.pack("<I", crc32c.crc32c(index))
    return index


def entries(level: Level, counts: tuple[int, ...], shard: bytes, *, dead: int | None = 0) -> list[Entry]:
    """Returns the inner chunks of a shard. They must not overlap each other or the index.

    `dead` is the largest number of unused bytes. `None` allows any number.
    """
    first, behind = split_index(level, counts, shard)
    numbers = index_numbers(level, counts, shard[first:behind])
    found = []
    for at in product(*map(range, counts)):
        offset, length = (int(number) for number in numbers[at])
        if (offset, length) != (ABSENT, ABSENT):
            found.append(Entry(at, offset, length))
    taken = sorted([(first, behind), *((e.offset, e.offset + e.length) for e in found)])
    for (_, end), (start, _) in zip(taken, taken[1:], strict=False):
        if start < end:
            raise BadShard(f"ranges overlap: one ends at {end}, the next begins at {start}")
    if taken[-1][1] > len(shard):
        raise BadShard(f"a range ends at {taken[-1][1]}, the shard has {len(shard)} bytes")
    unused = len(shard) - (behind - first) - sum(entry.length for entry in found)
    if dead is not None and unused > dead:
        raise BadShard(f"{unused} of {len(shard)} bytes belong to nothing")
    return found


def undo(codecs: Sequence[dict[str, Any]], stored: bytes) -> bytes:
    """Undoes bytes→bytes codecs."""
    for codec in reversed(codecs):
        if codec["name"] == "crc32c":
            stored, told = stored[:-4], struct.unpack("<I", stored[-4:])[0]
            if crc32c.crc32c(stored) != told:
                raise BadShard("the checksum of a whole shard is wrong")
        else:
            stored = bytes(numcodecs.get_codec({"id": codec["name"]}).decode(stored))
    return stored


def transposed(order: tuple[int, ...] | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if order is None else tuple(shape[axis] for axis in order)


def check_shard(case: ShardCase, stored: bytes, *, dead: int | None = 0) -> int:
    """Checks a stored shard and the shards in it. Returns the number of its innermost chunks."""

    def check(depth: int, shape: tuple[int, ...], stored: bytes) -> int:
        if depth == len(case.levels):
            return 1
        level = case.levels[depth]
        counts = tuple(
            size // inner for size, inner in zip(transposed(level.before, shape), level.inner, strict=True)
        )
        stored = undo(level.after, stored)
        found = entries(level, counts, stored, dead=dead)
        if not found:
            raise BadShard("a shard of nothing is stored")
        return sum(check(depth + 1, level.inner, stored[e.offset : e.offset + e.length]) for e in found)

    return check(0, case.shards, stored)


def shard_files(path: Path) -> Iterator[Path]:
    """Yields the stored shards of an array."""
    chunks = path / "c"
    if chunks.is_file():
        yield chunks
    elif chunks.is_dir():
        yield from sorted(file for file in chunks.rglob("*") if file.is_file())


def present_in_grid(case: ShardCase, values: np.ndarray[Any, Any]) -> int:
    """Returns the number of innermost chunks with any bit that differs from the fill value."""
    width = f"V{case.dtype.itemsize}"
    found, empty = (np.frombuffer(part.tobytes(), width).reshape(case.shape) for part in (values, case.empty))
    differs = np.asarray(found != empty)
    inner = case.inner_chunks
    return len({tuple(int(i) // c for i, c in zip(at, inner, strict=True)) for at in np.argwhere(differs)})


@cache
def shares_blocks() -> bool:
    """Returns true if files on the temporary file system can share blocks."""
    ficlone = 0x40049409
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
        one.write(bytes(1 << 16))
        one.flush()
        try:
            fcntl.ioctl(other.fileno(), ficlone, one.fileno())
        except OSError:
            return False
        return True
