"""The rows of the table as data: the array, the work, and hyperslab's targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import common
import hdf5_rows
import numpy as np
import ragged_rows
from common import MIB, Array
from contenders import Spec
from operations import (
    CachedReads,
    Latency,
    Opens,
    Operation,
    Overwrites,
    Part,
    Reads,
    Rewrites,
    StreamReads,
    StreamWrites,
    SwappedReads,
    ThreadedReads,
    Writes,
    WritesAll,
    chunks_of,
    random_blocks,
    random_chunks,
)


@dataclass(frozen=True)
class Target:
    """A target of hyperslab.

    `value` is the required speed as a multiple of the limit, of the best peer, of one contender, or
    of hyperslab without some feature. With `seconds` it is the longest time of a call. With
    `memory` it is the most bytes beyond the result.
    """

    against: str
    value: float


@dataclass(frozen=True)
class Case:
    """One measurement."""

    row: str
    variant: str
    about: str
    spec: Spec
    fill: Callable[[Spec], list[Part]]
    operation: Operation
    targets: tuple[Target, ...] = ()
    # Drop the files from the page cache before each sample.
    cold: bool = False
    # Also measure the peak memory of each contender.
    memory: bool = False
    # Cases of one series are compared. Time per call and unit of work must not grow from one case
    # to the next.
    series: tuple[str, int] | None = None
    # The time in seconds for all samples of this case, and the fewest samples.
    budget: float = 4.0
    rounds: int = 5

    @property
    def key(self) -> str:
        """Returns the name of the case."""
        return f"{self.row}/{self.variant}"


# --------------------------------------------------------------------------------------------- data


@lru_cache(maxsize=2)
def ocean_fields(shape: tuple[int, ...], distinct: int) -> list[Array]:
    """Returns the first time steps of an ocean."""
    steps = common.ocean_steps((distinct, *shape))
    return [np.ascontiguousarray(values) for values in steps]


def steps(spec: Spec) -> list[Part]:
    """Returns an ocean as time steps.

    A few steps repeat, because making gigabytes takes longer than measuring. The repeated steps are
    larger than a cache.
    """
    count = spec.shape[0]
    distinct = min(count, max(4, 128 * MIB // spec.chunk_bytes))
    fields = ocean_fields(spec.shape[1:], distinct)
    return [(step, fields[step % distinct].astype(spec.dtype, copy=False)) for step in range(count)]


def ocean(spec: Spec) -> list[Part]:
    """Returns an ocean of any type, in one piece."""
    shape = spec.shape if len(spec.shape) > 2 else (1,) * (3 - len(spec.shape)) + spec.shape
    values = np.concatenate(list(common.ocean_steps(shape))).reshape(spec.shape)
    if spec.dtype == "u1":
        values = np.clip(values * 16 + 128, 0, 255)
    return [(Ellipsis, values.astype(spec.dtype))]


def one_chunk(spec: Spec) -> list[Part]:
    """Returns one chunk in the middle. All others are absent."""
    corner = [length // chunk // 2 * chunk for length, chunk in zip(spec.shape, spec.chunks, strict=True)]
    where = tuple(slice(at, at + chunk) for at, chunk in zip(corner, spec.chunks, strict=True))
    return [(where, np.arange(np.prod(spec.chunks), dtype=spec.dtype).reshape(spec.chunks))]


# --------------------------------------------------------------------------------------------- rows

# Chunks of float32, one time step each.
STEP_SHAPES = {
    "40 KB": (100, 100),
    "256 KiB": (256, 256),
    "1 MiB": (512, 512),
    "8 MiB": (1024, 2048),
    "32 MiB": (2048, 4096),
}


CODEC_NAMES = {None: "none", "gzip": "gzip-5", "zstd": "zstd-3", "blosc": "blosc-lz4"}


def step_spec(size: str, count: int, **more: Any) -> Spec:
    """Returns an array of time steps with one chunk each."""
    shape = STEP_SHAPES[size]
    return Spec((count, *shape), (1, *shape), **more)


def plain_steps(quick: bool) -> Iterator[Case]:
    """Yields append-plain and scan-plain."""
    for size in STEP_SHAPES:
        if size == "40 KB" or (quick and size not in ("256 KiB", "1 MiB")):
            continue
        for zarr_format in (2, 3):
            small = size == "256 KiB"
            spec = step_spec(size, 6 if quick else 50, zarr_format=zarr_format)
            variant, memory = (
                f"v{zarr_format} {size}",
                (zarr_format, size) == (3, "1 MiB" if quick else "8 MiB"),
            )
            about = f"{spec.shape[0]} calls, a chunk of {size} each, no codec, Zarr v{zarr_format}"
            # A sample is 1.6 GB.
            rounds = 3 if size == "32 MiB" else 5
            targets = (Target("limit", 0.75 if small else 0.9), Target("peer", 1.3))
            yield Case(
                "append-plain",
                variant,
                f"write: {about}",
                spec,
                steps,
                Writes(),
                targets,
                memory=memory,
                rounds=rounds,
            )
            peer = {"1 MiB": 1.5, "8 MiB": 1.5, "32 MiB": 3.0}
            scan = () if small else (Target("limit", 0.85), Target("peer", peer[size]))
            scan_case = Case(
                "scan-plain",
                variant,
                f"read: {about}",
                spec,
                steps,
                Reads(tuple(range(spec.shape[0]))),
                scan,
                memory=memory,
                rounds=rounds,
            )
            yield scan_case
            if zarr_format == 3 and size in ("1 MiB", "8 MiB"):
                yield replace(scan_case, variant=f"{variant} cold", targets=(), cold=True, memory=False)


def zstd_steps(quick: bool) -> Iterator[Case]:
    """Yields append-zstd and scan-zstd. Compressing takes seconds, so there are fewer calls."""
    counts = {"256 KiB": 50, "1 MiB": 50, "8 MiB": 12, "32 MiB": 4}
    for zarr_format, size, count in [(2, "1 MiB", 50), *((3, size, n) for size, n in counts.items())]:
        if quick and size not in ("256 KiB", "1 MiB"):
            continue
        spec = step_spec(size, 3 if quick else count, zarr_format=zarr_format, codec="zstd")
        variant, memory = f"v{zarr_format} {size}", (zarr_format, size) == (3, "1 MiB" if quick else "8 MiB")
        about = f"{spec.shape[0]} calls, a chunk of {size} each, zstd-3, Zarr v{zarr_format}"
        target = (Target("limit", 0.95),)
        yield Case("append-zstd", variant, f"write: {about}", spec, steps, Writes(), target, memory=memory)
        reads = Reads(tuple(range(spec.shape[0])))
        yield Case("scan-zstd", variant, f"read: {about}", spec, steps, reads, target, memory=memory)


def streams(quick: bool) -> Iterator[Case]:
    """Yields stream-read and stream-write."""
    for size, count in {"40 KB": 250, "1 MiB": 50, "8 MiB": 12}.items():
        if quick and size == "8 MiB":
            continue
        spec = step_spec(size, 6 if quick else count, codec="zstd")
        about = f"{spec.shape[0]} time steps, a chunk of {size} each, zstd-3"
        target, memory = (Target("without", 1.7),), size == "1 MiB"
        for row, operation in (("stream-read", StreamReads()), ("stream-write", StreamWrites())):
            yield Case(row, size, f"{row}: {about}", spec, steps, operation, target, memory=memory)


def multi_chunk(quick: bool) -> Iterator[Case]:
    """Yields multi-2d, multi-3d and threads."""
    square = Spec((1600, 1600), (100, 100))
    for codec, name in CODEC_NAMES.items():
        spec = replace(square, codec=codec)
        target = (Target("peer", 1 / 0.8 if codec is None else 1 / 0.6),)
        for n in (1, 4, 16) if quick else (1, 2, 4, 8, 16):
            case = Case(
                "multi-2d",
                f"{name} {n}×{n}",
                f"read {n}×{n} chunks of 100² f4, {name}",
                spec,
                ocean,
                Reads((chunks_of(n, 2, 100),)),
                target,
                memory=n == 16 and codec == "zstd",
                series=(f"multi-2d, {name}: per chunk", n * n),
                budget=2.0,
            )
            yield case
            if n == 16 and codec in (None, "zstd"):
                yield replace(
                    case, variant=f"{case.variant} cold", cold=True, targets=(), memory=False, series=None
                )
    cube = Spec((80, 80, 80), (10, 10, 10), codec="zstd")
    for n in (1, 2, 4, 8):
        yield Case(
            "multi-3d",
            f"zstd-3 {n}×{n}×{n}",
            f"read {n}×{n}×{n} chunks of 10³ f4, zstd-3",
            cube,
            ocean,
            Reads((chunks_of(n, 3, 10),)),
            (Target("peer", 1 / 0.6),),
            memory=n == 8,
            series=("multi-3d, zstd-3: per chunk", n**3),
            budget=2.0,
        )
    for codec in (None, "zstd"):
        for n in (16,) if quick else (4, 16):
            for threads in (1, 2, 4):
                who = "1 thread reads" if threads == 1 else f"{threads} threads at once, each reads"
                yield Case(
                    "threads",
                    f"{CODEC_NAMES[codec]} {n}×{n}, {threads}",
                    f"{who} {n}×{n} chunks of 100² f4, {CODEC_NAMES[codec]}",
                    replace(square, codec=codec),
                    ocean,
                    ThreadedReads((chunks_of(n, 2, 100),), threads=threads),
                    memory=(codec, n, threads) == ("zstd", 16, 4),
                    series=(f"threads, {CODEC_NAMES[codec]} {n}×{n}: per read", threads),
                    budget=2.0,
                )


def short(quick: bool) -> Iterator[Case]:
    """Yields latency."""
    spec = Spec((100, 100), (100, 100))
    target = (Target("zarrista", 1.0),)
    block = (slice(0, 10), slice(0, 10))
    about = "a 100² f4 chunk without codec"
    yield Case("latency", "scalar", f"z[5, 7] of {about}", spec, ocean, Latency((5, 7)), target, memory=True)
    yield Case("latency", "block", f"z[0:10, 0:10] of {about}", spec, ocean, Latency(block), target)
    yield Case("latency", "open", "open an array", spec, ocean, Opens(), target)


def odd_shapes(quick: bool) -> Iterator[Case]:
    """Yields sparse, strided, layout and byte-order."""
    side = 4096 if quick else 16384
    sparse = Spec((side, side), (512, 512))
    about = f"read {side}² f4 of which one 512² chunk is present"
    target = () if quick else (Target("seconds", 0.003),)
    yield Case("sparse", "one chunk", about, sparse, one_chunk, Reads(fresh=True), target, memory=True)

    square, half = Spec((1600, 1600), (100, 100)), (Target("peer", 2.0),)
    rows = Spec((1000, 5000), (1, 5000))
    line = Spec((1_000_000,), (1000,))
    steps_of = (slice(None, None, 2), slice(None, None, 3))
    for variant, read, spec, selection in (
        ("[::2, ::3]", "[::2, ::3]", square, steps_of),
        ("[::2, ::3] zstd", "[::2, ::3]", replace(square, codec="zstd"), steps_of),
        ("[::-1]", "[::-1]", square, (slice(None, None, -1),)),
        ("column", "[:, 17]", rows, (slice(None), 17)),
        ("1 of 1000", "[500::1000]", line, (slice(500, None, 1000),)),
    ):
        described = "×".join(map(str, spec.shape)) + " f4, chunks " + "×".join(map(str, spec.chunks))
        yield Case(
            "strided",
            variant,
            f"read {read} of {described}, {CODEC_NAMES[spec.codec]}",
            spec,
            ocean,
            Reads((selection,)),
            half,
            memory=variant == "[::2, ::3]",
        )

    n = 64 if quick else 256
    for dtype in ("f4", "f8", "u1"):
        for zarr_format in (2, 3):
            how = "order F" if zarr_format == 2 else "transpose"
            yield Case(
                "layout",
                f"v{zarr_format} {how} {dtype}",
                f"read {n}³ {dtype} stored in Fortran order, chunks {n // 4}³, no codec",
                Spec((n,) * 3, (n // 4,) * 3, dtype, zarr_format, fortran=True),
                ocean,
                Reads(),
                half,
                memory=(dtype, zarr_format) == ("f8", 3),
            )

    native = (Target("native", 1 / 1.1),)
    big = Spec((4 if quick else 16, 1024, 1024), (1, 1024, 1024), "f8", big_endian=True)
    about = "big-endian f8, no codec"
    scan = SwappedReads(tuple(range(big.shape[0])))
    yield Case("byte-order", "8 MiB", f"read by step, {about}", big, ocean_steps, scan, native, memory=True)
    squares = replace(square, dtype="f8", big_endian=True)
    yield Case(
        "byte-order", "16×16", f"read 16×16 chunks of 100², {about}", squares, ocean, SwappedReads(), native
    )


def ocean_steps(spec: Spec) -> list[Part]:
    """Returns an ocean of any type as time steps."""
    return [
        (step, values.astype(spec.dtype))
        for step, values in enumerate(ocean_fields(spec.shape[1:], spec.shape[0]))
    ]


def changes_and_repeats(quick: bool) -> Iterator[Case]:
    """Yields partial-write and repeat."""
    square = Spec((1600, 1600), (100, 100))
    region = (slice(250, 950), slice(330, 1170))
    for codec, name in ((None, "none"), ("zstd", "zstd-3")):
        yield Case(
            "partial-write",
            name,
            f"write [250:950, 330:1170] of 1600² f4, chunks 100², {name}",
            replace(square, codec=codec),
            ocean,
            Overwrites(region),
            (Target("peer", 1 / 0.6),),
            memory=codec == "zstd",
        )
    zstd = replace(square, codec="zstd")
    blocks = random_blocks(zstd, 10, 100 if quick else 1000)
    about = f"{len(blocks)} random blocks 10×10 of 1600² f4, chunks 100², zstd-3"
    fast = (Target("seconds", 5e-6),)
    yield Case("repeat", "cache", f"{about}, cached", zstd, ocean, CachedReads(blocks), fast, memory=True)
    shared = CachedReads(blocks, shared=True)
    yield Case("repeat", "shared cache", f"{about}, shared cache", zstd, ocean, shared, fast)
    yield Case("repeat", "no cache", about, zstd, ocean, Reads(blocks), (Target("peer", 1 / 0.7),))


def seconds_of_days(spec: Spec) -> list[Part]:
    """Returns thermometers' readings: one row each, one per second, rounded to 0.001 degrees.

    Days are warmer than nights, the weather wanders, and the noise is 0.01 degrees. zstd at level 3
    shrinks the values by 4.4.
    """
    rng = np.random.default_rng(6)
    length, day = spec.shape[1], spec.chunks[1]
    values = np.empty(spec.shape, spec.dtype)
    for row in values:
        row[:] = 15 + rng.normal() + 5 * np.sin(2 * np.pi * np.arange(length) / day)
        row += np.cumsum(rng.normal(0, 0.002, length)) + rng.normal(0, 0.01, length)
    return [(Ellipsis, np.round(values, 3))]


def shards(quick: bool) -> Iterator[Case]:
    """Yields shard-time, shard-front, shard-cube, shard-write and shard-rewrite."""
    day, days, most = (3600, 16, 8) if quick else (86400, 128, 64)
    time = Spec((4, days * day), (1, day), "f8", codec="zstd", shards=(1, most * day))
    about = f"f8 4×{days}·{day}, inner chunks 1×{day}, {most} in a shard, zstd-3"
    half = day // 2
    target = (Target("limit", 1 / 1.2), Target("tensorstore", 1 / 0.75))
    selections: dict[str, Any] = {
        "one inner chunk": (1, slice(5 * day, 6 * day)),
        "across two": (1, slice(5 * day + half, 6 * day + half)),
        # Starts within a chunk and crosses the end of a shard: eight inner chunks of two shards.
        "a week": (2, slice((most - 4) * day + half, (most + 3) * day + half)),
        "a row": (3, slice(None)),
        "a column": (slice(None), 9 * day + half),
    }
    for variant, selection in selections.items():
        yield Case(
            "shard-time",
            variant,
            f"read {variant} of {about}",
            time,
            seconds_of_days,
            Reads((selection,)),
            target,
            memory=variant == "a row",
        )
    front = (1, slice(7 * day + 1000, 7 * day + 1100))
    yield Case(
        "shard-front",
        "100 elements",
        f"read 100 elements near the front of an inner chunk of {about}; the limit decodes all of it",
        time,
        seconds_of_days,
        Reads((front,)),
        (Target("peer", 1 / 0.3),),
    )
    side, inner = (64, 16) if quick else (256, 32)
    shape = (side, 2 * side, 2 * side)
    cube = Spec(shape, (inner,) * 3, codec="zstd", shards=(side,) * 3)
    about = f"f4 {'×'.join(map(str, shape))}, inner chunks {inner}³, shards {side}³, zstd-3"
    plane = int(0.4 * side)
    selections = {
        "all": Ellipsis,
        "[i]": plane,
        "[:, :, i]": (slice(None), slice(None), plane),
        "one inner chunk": chunks_of(1, 3, inner),
    }
    for variant, selection in selections.items():
        yield Case(
            "shard-cube",
            variant,
            f"read {variant} of {about}",
            cube,
            ocean,
            Reads((selection,)),
            (Target("peer", 1 / 0.6),),
            memory=variant == "all",
        )
    yield Case(
        "shard-rewrite",
        "one inner chunk",
        f"write one inner chunk, another each time, of {about}, which is full",
        cube,
        ocean,
        Rewrites(random_chunks(cube, 8 if quick else 200)),
        (Target("peer", 1 / 0.2),),
    )
    yield Case(
        "shard-write",
        "all",
        f"write all of {about}, in one call",
        cube,
        ocean,
        WritesAll(),
        (Target("peer", 1 / 0.8),),
        memory=True,
        rounds=3,
    )


def large(quick: bool) -> Iterator[Case]:
    """Yields memory."""
    for codec, name in ((None, "none"), ("zstd", "zstd-3")):
        spec = step_spec("8 MiB", 8 if quick else 128, codec=codec)
        about = f"read {spec.nbytes // MIB} MiB in one call, chunks of 8 MiB, {name}"
        target = (Target("memory", 64 * MIB),)
        yield Case("memory", name, about, spec, steps, Reads(), target, memory=True, rounds=3)


def cases(quick: bool) -> list[Case]:
    """Returns all rows. The quick ones are small: they show that things work, not how fast."""
    found: list[Case] = []
    for make in (
        plain_steps,
        zstd_steps,
        streams,
        multi_chunk,
        short,
        odd_shapes,
        changes_and_repeats,
        shards,
        hdf5_rows.files,
        ragged_rows.ragged,
        large,
    ):
        found += make(quick)
    # Sorted by row, in the order above.
    order = list(dict.fromkeys(case.row for case in found))
    return sorted(found, key=lambda case: order.index(case.row))


def rows_of(found: list[Case]) -> dict[str, list[Case]]:
    """Groups the cases by row."""
    rows: dict[str, list[Case]] = {}
    for case in found:
        rows.setdefault(case.row, []).append(case)
    return rows
