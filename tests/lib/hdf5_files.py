"""HDF5 files for tests, written by h5py: dataset properties, and generators of many datasets.

A file holds the cases of one format version ("libver"), each as a dataset with its own name.
Thousands are written and read within seconds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np

LIBVERS = ["earliest", "v108", "v110", "v112", "v114", "latest"]

Shape = tuple[int, ...]


def plain(names: str) -> dict[str, np.dtype[Any]]:
    return {name: np.dtype(name) for name in names.split()}


#: Types that numeric filters accept.
NUMBERS = plain("|i1 |u1 <i2 >i2 <u2 >u2 <i4 >i4 <u4 >u4 <i8 >i8 <u8 >u8 <f4 >f4 <f8 >f8")

#: Types whose elements are stored in place.
FIXED = (
    NUMBERS
    | plain("<f2 >f2 <c8 >c8 <c16 >c16 |S1 |S5 |V7")
    | {
        "bool": np.dtype(bool),
        "utf-8 of 6": h5py.string_dtype("utf-8", 6),
        "ascii of 3": h5py.string_dtype("ascii", 3),
        "enum i1": h5py.enum_dtype({"red": -1, "green": 5, "blue": 127}, "i1"),
        "enum >u2": h5py.enum_dtype({"none": 0, "all": 65535}, ">u2"),
        "date": h5py.opaque_dtype(np.dtype("<M8[us]")),
        "time": h5py.opaque_dtype(np.dtype(">m8[10s]")),
        "compound": np.dtype([("a", "<i2"), ("b", ">f8"), ("c", "S3")]),
        "aligned": np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True),
        "nested": np.dtype(
            [("x", [("y", "<f4", (2,)), ("z", "?")], (2,)), ("w", h5py.enum_dtype({"on": 1}, "u1"))]
        ),
        "array": np.dtype(("<f4", (3, 2))),
    }
)

#: Types whose elements are stored elsewhere in the file.
ELSEWHERE = {
    "text": h5py.string_dtype(),
    "bytes": h5py.string_dtype("ascii"),
    "ragged i4": h5py.vlen_dtype(np.dtype("<i4")),
    "ragged >f8": h5py.vlen_dtype(np.dtype(">f8")),
    "ragged compound": h5py.vlen_dtype(np.dtype([("a", "<i2"), ("b", "<f4")])),
    "with text": np.dtype([("id", "<i4"), ("name", h5py.string_dtype()), ("list", h5py.vlen_dtype("<u2"))]),
    "reference": h5py.ref_dtype,
    "region": h5py.regionref_dtype,
}

#: Types that NumPy cannot represent as stored. The expected value is HDF5's conversion.
ODD: dict[str, Callable[[], h5py.h5t.TypeID]] = {}


def odd(make: Callable[[], h5py.h5t.TypeID]) -> Callable[[], h5py.h5t.TypeID]:
    ODD[make.__name__.replace("_", " ")] = make
    return make


def integer(base: h5py.h5t.TypeID, size: int, precision: int, offset: int = 0) -> h5py.h5t.TypeID:
    made = base.copy()
    made.set_size(size)
    made.set_precision(precision)
    made.set_offset(offset)
    return made


@odd
def int_of_17_bits_in_4() -> h5py.h5t.TypeID:
    return integer(h5py.h5t.STD_I32LE, 4, 17, 3)


@odd
def big_endian_uint_of_12_bits_in_2() -> h5py.h5t.TypeID:
    return integer(h5py.h5t.STD_U16BE, 2, 12, 2)


@odd
def int_of_3_bytes() -> h5py.h5t.TypeID:
    return integer(h5py.h5t.STD_I32LE, 3, 24)


@odd
def uint_of_6_bytes() -> h5py.h5t.TypeID:
    return integer(h5py.h5t.STD_U64BE, 6, 48)


@odd
def float_of_24_bits() -> h5py.h5t.TypeID:
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(23, 15, 8, 0, 15)
    made.set_precision(24)
    made.set_size(3)
    made.set_ebias(127)
    return made


@odd
def float_of_bfloat16() -> h5py.h5t.TypeID:
    made = h5py.h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_precision(16)
    made.set_size(2)
    made.set_ebias(127)
    return made


@odd
def bits_of_1_byte() -> h5py.h5t.TypeID:
    return h5py.h5t.STD_B8LE


@odd
def bits_of_4_bytes_big_endian() -> h5py.h5t.TypeID:
    return h5py.h5t.STD_B32BE


#: Filters by name: arguments of ``create_dataset``, or a function of the creation properties.
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "deflate": {"compression": "gzip", "compression_opts": 4},
    "shuffle+deflate": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle+deflate+fletcher32": {"compression": 9, "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "shuffle+lzf+fletcher32": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "szip-nn": {"compression": "szip", "compression_opts": ("nn", 8)},
    "szip-ec": {"compression": "szip", "compression_opts": ("ec", 16)},
    "nbit": {"nbit": True},
    "nbit+deflate": {"nbit": True, "compression": "gzip"},
    "scaleoffset": {"scaleoffset": 0},
    "blosc-lz4": dict(hdf5plugin.Blosc("lz4", 5, hdf5plugin.Blosc.SHUFFLE)),
    "blosc-zstd-bits": dict(hdf5plugin.Blosc("zstd", 3, hdf5plugin.Blosc.BITSHUFFLE)),
    "blosc-blosclz": dict(hdf5plugin.Blosc("blosclz", 9, hdf5plugin.Blosc.NOSHUFFLE)),
    "blosc-zlib": dict(hdf5plugin.Blosc("zlib", 1, hdf5plugin.Blosc.SHUFFLE)),
    "blosc2-lz4": dict(hdf5plugin.Blosc2("lz4", 5, hdf5plugin.Blosc2.SHUFFLE)),
    "blosc2-zstd-bits": dict(hdf5plugin.Blosc2("zstd", 3, hdf5plugin.Blosc2.BITSHUFFLE)),
    "blosc2-delta": dict(hdf5plugin.Blosc2("blosclz", 5, hdf5plugin.Blosc2.DELTA)),
    "zstd": dict(hdf5plugin.Zstd(3)),
    "lz4": dict(hdf5plugin.LZ4(0)),
    "lz4-blocks": dict(hdf5plugin.LZ4(64)),
    "bitshuffle": dict(hdf5plugin.Bitshuffle(0, "none")),
    "bitshuffle-lz4": dict(hdf5plugin.Bitshuffle(0, "lz4")),
    "bitshuffle-zstd": dict(hdf5plugin.Bitshuffle(8, "zstd")),
    "bzip2": dict(hdf5plugin.BZip2(5)),
    "fletcher32+zstd": {"fletcher32": True, **hdf5plugin.Zstd(1)},
}

#: Filters that accept only some types.
ONLY_NUMBERS = {"szip-nn", "szip-ec", "scaleoffset", "nbit", "nbit+deflate"}

EXTENTS = ["fixed", "unlimited", "two unlimited", "limited"]
CHUNKING = ["partial", "one", "many", "larger", "pages", "wide"]
WRITTEN = ["all", "some", "nothing", "grown", "shrunk"]


@dataclass(frozen=True)
class Case:
    """One dataset: everything that determines how it is stored."""

    rank: int
    extent: str
    chunking: str | None
    filter: str
    dtype: str
    written: str
    fill: bool
    early: bool
    seed: int

    @property
    def type(self) -> np.dtype[Any]:
        return {**FIXED, **ELSEWHERE}[self.dtype]

    def shape_and_chunks(self, rng: random.Random) -> tuple[Shape, Shape | None]:
        ranges = {1: (1, 40), 2: (1, 12), 3: (1, 7), 4: (1, 5)}
        shape = tuple(rng.randint(*ranges[self.rank]) for _ in range(self.rank)) if self.rank else ()
        match self.chunking:
            case None:
                return shape, None
            case "one":
                return shape, shape
            case "larger":
                return shape, tuple(n + rng.randint(0, 3) for n in shape)
            case "partial":
                return shape, tuple(rng.randint(1, max(1, n)) for n in shape)
            case "many":
                # The first block of an index holds about 20.
                return (rng.randint(60, 130), *shape[1:]), (rng.randint(1, 2), *shape[1:])
            case "pages":
                # A fixed array has pages of 1024 chunks.
                return (rng.randint(1030, 2100), *(1 for _ in shape[1:])), (1,) * self.rank
            case "wide":
                # A chunk dimension that needs more than two bytes.
                return (rng.randint(66_000, 70_000), *(1 for _ in shape[1:])), (
                    66_000,
                    *(1 for _ in shape[1:]),
                )
        raise AssertionError(self.chunking)

    def max_shape(
        self, shape: Shape, chunks: Shape | None, rng: random.Random
    ) -> tuple[int | None, ...] | None:
        # No chunk may be larger than the dataset's maximum shape.
        least = [max(sizes) for sizes in zip(shape, chunks or shape)]
        match self.extent:
            case "fixed":
                return None
            case "limited":
                return tuple(n + rng.randint(0, 9) for n in least)
            case "unlimited":
                free = {rng.randrange(self.rank)}
            case _:
                free = set(rng.sample(range(self.rank), 2))
        return tuple(None if axis in free else n for axis, n in enumerate(least))

    def write(self, group: h5py.Group, name: str) -> h5py.Dataset:
        rng = random.Random(self.seed)
        shape, chunks = self.shape_and_chunks(rng)
        arguments = dict(FILTERS[self.filter])
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if arguments.pop("nbit", False):
            dcpl.set_chunk(chunks)
            dcpl.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
        if self.early:
            dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        values = Values(self.type, self.seed)
        if self.fill:
            arguments["fillvalue"] = values.fill()
        max_shape = self.max_shape(shape, chunks, rng)
        dataset = group.create_dataset(
            name, shape, self.type, chunks=chunks, maxshape=max_shape, dcpl=dcpl, **arguments
        )
        if self.written in ("all", "grown", "shrunk"):
            put(dataset, tuple(slice(0, n) for n in shape), values.some(shape, group))
        elif self.written == "some":
            for _ in range(rng.randint(1, 3)):
                box = tuple(slice(start := rng.randrange(n), rng.randint(start + 1, n)) for n in shape)
                put(dataset, box, values.some(tuple(s.stop - s.start for s in box), group))
        if self.written in ("grown", "shrunk") and max_shape is not None:
            grow = self.written == "grown"
            dataset.resize(
                tuple(
                    n
                    if most == n
                    else min(most or n + 20, n + rng.randint(0, 15))
                    if grow
                    else rng.randint(0, n)
                    for n, most in zip(shape, max_shape)
                )
            )
        return dataset


def put(dataset: h5py.Dataset, box: tuple[slice, ...], values: np.ndarray[Any, Any]) -> None:
    """Writes values. Writes rows of variable length one at a time.

    h5py would make a matrix of rows with equal lengths.
    """
    if h5py.check_vlen_dtype(dataset.dtype) is None:
        dataset[box or ...] = values
        return
    for index in np.ndindex(values.shape):
        dataset[tuple(part.start + i for part, i in zip(box, index))] = values[index]


class Values:
    """Generates values of a type."""

    def __init__(self, dtype: np.dtype[Any], seed: int) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.random = random.Random(seed)

    def fill(self) -> Any:
        match self.dtype.kind:
            case "O" if h5py.check_string_dtype(self.dtype):
                return "nothing here"
            case "O":
                return None
            case _:
                return self.bits((1,), self.dtype)[0]

    def bits(self, shape: Shape, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Returns compressible and incompressible numbers in turn."""
        if dtype.subdtype is not None:
            base, inner = dtype.subdtype
            return self.bits((*shape, *inner), base)
        if dtype.names is not None:
            found = np.zeros(shape, dtype)
            for field in dtype.names:
                found[field] = self.some_of(found[field].shape, dtype[field].base)
            return found
        count = int(np.prod(shape, dtype=int))
        kind = dtype.kind
        if values := h5py.check_enum_dtype(dtype):
            return self.rng.choice(np.array(list(values.values())), count).astype(dtype).reshape(shape)
        if kind in "iu":
            steps = self.rng.integers(0, 5, count).cumsum() if self.random.random() < 0.6 else None
            if steps is None:
                return np.frombuffer(self.rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()
            return steps.astype(dtype).reshape(shape)
        if kind in "fc":
            found = self.rng.normal(280, 10, count).round(self.random.choice([1, 9])).astype(dtype)
            if count:
                found[self.random.randrange(count)] = self.random.choice([np.nan, -0.0, np.inf, -np.inf])
            return found.reshape(shape)
        if kind == "b":
            return (self.rng.random(count) < 0.3).reshape(shape)
        if kind in "mM":
            return (
                self.rng.integers(0, 1 << 40, count)
                .astype("i8")
                .view(dtype.newbyteorder("="))
                .astype(dtype)
                .reshape(shape)
            )
        if kind == "S":
            words = np.array([b"", b"a", b"\xc3\xa9t\xc3\xa9", b"ab c", b"x" * 40])
            return self.rng.choice(words, count).astype(dtype).reshape(shape)
        return np.frombuffer(self.rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()

    def some_of(self, shape: Shape, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        if dtype.subdtype is not None:
            base, inner = dtype.subdtype
            return self.some_of((*shape, *inner), base)
        if dtype.kind != "O":
            return self.bits(shape, dtype)
        found = np.empty(shape, dtype)
        flat = found.reshape(-1)
        for i in range(flat.size):
            flat[i] = self.one(dtype)
        return found

    def one(self, dtype: np.dtype[Any]) -> Any:
        if text := h5py.check_string_dtype(dtype):
            other = "été" if text.encoding == "utf-8" else "~"
            return self.random.choice(["", "a", other, "longer than the others " * self.random.randint(1, 4)])
        base = h5py.check_vlen_dtype(dtype)
        assert base is not None, dtype
        return self.bits((self.random.choice([0, 1, 2, 9]),), np.dtype(base))

    def some(self, shape: Shape, group: h5py.Group) -> np.ndarray[Any, Any]:
        ref = h5py.check_ref_dtype(self.dtype)
        if ref is None:
            return self.some_of(shape, self.dtype)
        target = group.require_dataset("target", (5,), "i4")
        found = np.empty(shape, self.dtype)
        flat = found.reshape(-1)
        for i in range(flat.size):
            if ref is h5py.RegionReference:
                flat[i] = target.regionref[1 : self.random.randint(2, 5)]
            else:
                flat[i] = self.random.choice([group.ref, target.ref, h5py.Reference()])
        return found


def is_possible(case: Case) -> bool:
    """Returns true if the HDF5 library can write such a dataset quickly."""
    if case.fill and (case.type.subdtype or case.type.kind in "mM" or case.type.hasobject):
        # Among these types only text supports a fill value.
        if not h5py.check_string_dtype(case.type):
            return False
    if case.chunking == "pages" and FILTERS[case.filter].get("compression", "gzip") != "gzip":
        return False
    if case.rank == 0:
        plain = case.chunking is None and case.extent == "fixed" and case.filter == "none"
        # h5py 3.16 crashes on a scalar of these elements.
        return plain and case.written in ("all", "nothing") and case.dtype != "ragged compound"
    if case.extent == "two unlimited" and case.rank < 2:
        return False
    if case.chunking is None:
        return case.extent == "fixed" and case.filter == "none"
    if case.chunking == "larger" and case.extent == "fixed":
        return False
    if case.filter in ONLY_NUMBERS and case.dtype not in NUMBERS:
        return False
    if case.filter == "scaleoffset" and np.dtype(case.type).kind == "f":
        return False
    if case.filter.startswith("szip"):
        _, chunks = case.shape_and_chunks(random.Random(case.seed))
        if np.prod(chunks or 0) < 16:
            return False
    if case.dtype in ELSEWHERE and (case.filter.startswith(("blosc", "bitshuffle", "lz4"))):
        return False
    if case.chunking in ("pages", "wide") and np.dtype(case.type).itemsize > 2:
        return False
    if case.written in ("grown", "shrunk") and case.extent == "fixed":
        return False
    return True


def cases(seed: int, times: int = 1) -> Iterator[Case]:
    """Yields every filter with every extent and chunking, and every type with every extent.

    All other properties are random.
    """
    rng = random.Random(seed)
    small = [name for name, dtype in FIXED.items() if dtype.itemsize <= 2]
    every: list[tuple[str | None, str | None, str | None, str | None]] = []
    every += [(f, e, c, None) for f, e, c in itertools.product(FILTERS, EXTENTS, CHUNKING)]
    every += [(None, e, None, d) for e, d in itertools.product(EXTENTS, [*FIXED, *ELSEWHERE])]
    every += [("none", "fixed", "none", d) for d in [*FIXED, *ELSEWHERE]] * 2
    every += [(w, e, "partial", None) for w, e in itertools.product(["none", "deflate"], EXTENTS)] * 10
    for filter_, extent, chunking, dtype in every * times:
        for _ in range(20):
            drawn = chunking or rng.choice(CHUNKING[:4])
            types = [*NUMBERS] if filter_ in ONLY_NUMBERS else [*FIXED]
            if drawn in ("pages", "wide"):
                types = [name for name in types if name in small]
            case = Case(
                rank=rng.randint(0, 4) if drawn == "none" else rng.randint(1, 4),
                extent=extent or rng.choice(EXTENTS),
                chunking=None if drawn == "none" else drawn,
                filter=filter_ or rng.choice(["none", "deflate", "shuffle+deflate", "lzf"]),
                dtype=dtype or rng.choice(types),
                written=rng.choices(WRITTEN, [6, 3, 1, 1, 1])[0],
                fill=rng.random() < 0.5,
                early=rng.random() < 0.3,
                seed=rng.randrange(1 << 30),
            )
            if is_possible(case):
                yield case
                break


def new_file(path: Path, libver: str, offsets: int) -> h5py.File:
    """Creates a file whose addresses have `offsets` bytes."""
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(offsets, 8)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    bounds = {"earliest": h5py.h5f.LIBVER_EARLIEST, "latest": h5py.h5f.LIBVER_LATEST}
    access.set_libver_bounds(bounds[libver], h5py.h5f.LIBVER_LATEST)
    return h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, plist, access))


def write_cases(path: Path, libver: str, seed: int, times: int = 1) -> dict[str, Case]:
    """Writes a file with one dataset per case. Returns the cases by dataset name."""
    found = {}
    with h5py.File(path, "w", libver=(libver, "latest") if libver != "latest" else "latest") as file:
        for number, case in enumerate(cases(seed, times)):
            # Groups of 100: one large group would test a single kind of group.
            name = f"g{number // 100}/d{number}"
            group = file.require_group(name.split("/")[0])
            case.write(group, name.split("/")[1])
            found[name] = case
    return found


def write_odd(file: h5py.File) -> None:
    """Writes datasets of types that NumPy lacks."""
    values = np.array([0, 1, 2, 3, 5, 100, 1000, -1, -7, 2047, 77777, -5], "<i8")
    for name, make in ODD.items():
        stored = make()
        for suffix, chunks, filters in [
            ("", None, []),
            (" chunked", (5,), []),
            (" nbit", (5,), [h5py.h5z.FILTER_NBIT]),
        ]:
            dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if chunks:
                dcpl.set_chunk(chunks)
            if "bits" in name and filters and name.startswith("bits"):
                continue
            for number in filters:
                dcpl.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
            space = h5py.h5s.create_simple(values.shape)
            dataset = h5py.h5d.create(file.id, (name + suffix).encode(), stored, space, dcpl)
            if name.startswith("bits"):
                data = values.astype("u1" if stored.get_size() == 1 else ">u4")
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=stored)
            elif name.startswith("float"):
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values.astype("<f8") / 3)
            else:
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
