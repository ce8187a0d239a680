"""zarr-python with our codec pipeline and with others: plain files, many chunks, shards.

    python benches/zarr_pipeline_rows.py [--row shards] [--about write] [--rounds 15] [--place /dev/shm]

Pipelines that are not installed are left out.

*alone* is zarr-python with a pipeline that does nothing: the cost that all pipelines share. For
writes, *files* is the same bytes written to new files that are renamed over the old ones. It uses
one thread, or two if these are faster and a single call writes several files.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline

PIPELINES = {
    "hyperslab": "hyperslab.zarr.CodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "batched": "zarr.core.codec_pipeline.BatchedCodecPipeline",
}
ALONE, FILES = "alone", "files"
CODECS: dict[str, list[Any]] = {
    "none": [],
    "gzip": [GzipCodec(level=5)],
    "zstd": [ZstdCodec(level=3)],
    "blosc": [BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")],
}
# Shorter calls are repeated until a sample takes this many seconds. After a pause, a virtual
# machine may keep two threads on one core for some 10 ms, which shorter samples would measure.
SAMPLE = 0.1


@dataclass(frozen=True)
class Row:
    """One measurement."""

    name: str
    about: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codec: str
    # The selections that one call reads or writes in turn.
    selections: tuple[Any, ...]
    shards: tuple[int, ...] | None = None
    write: bool = False


def rows() -> Iterator[Row]:
    """Yields all rows."""
    for size, side in (("256 KiB", (256, 256)), ("1 MiB", (512, 512)), ("8 MiB", (1024, 2048))):
        steps = tuple((k, ...) for k in range(20))
        for write in (False, True):
            about = f"{'write' if write else 'read'} 20 chunks of {size} one by one, no codec"
            yield Row("plain", about, (20, *side), (1, *side), "none", steps, write=write)
    for codec in CODECS:
        for n in (1, 4, 16):
            block = (slice(0, n * 100), slice(0, n * 100))
            about = f"read {n}×{n} chunks of 100² f4, {codec}"
            yield Row("multi", about, (1600, 1600), (100, 100), codec, (block,))
        about = f"write 16×16 chunks of 100² f4, {codec}"
        yield Row("multi", about, (1600, 1600), (100, 100), codec, (...,), write=True)
    cube, inner, outer = (64, 512, 512), (1, 64, 64), (16, 512, 512)
    rng = np.random.default_rng(0)
    points = tuple(
        tuple(slice(int(k) * n, int(k) * n + n) for k, n in zip(at, inner, strict=True))
        for at in zip(*(rng.integers(0, m // n, 32) for m, n in zip(cube, inner, strict=True)), strict=True)
    )
    for codec in ("none", "zstd", "blosc"):
        for about, selections, write in (
            ("read all of 4 shards", (...,), False),
            ("read a plane of a shard", ((5, ...),), False),
            ("read 32 random chunks", points, False),
            ("read a column through shards", ((slice(None), 100, 100),), False),
            ("write 4 shards", (...,), True),
            ("write a plane of a shard", ((5, ...),), True),
        ):
            yield Row("shards", f"{about}, {codec}", cube, inner, codec, selections, outer, write)


class Nothing(BatchedCodecPipeline):  # type: ignore[misc]
    """A pipeline that does nothing."""

    async def read(self, batch_info: Any, out: Any, drop_axes: Any = ()) -> Any:
        return ({"status": "present"},) * len(batch_info)

    async def write(self, batch_info: Any, value: Any, drop_axes: Any = ()) -> None:
        pass


register_pipeline(Nothing)


def files_of(place: Path, write: Callable[[], Any], calls: int) -> dict[str, Callable[[], Any]]:
    """Returns calls that write the same files as ``write``, in one thread and in two.

    ``calls`` is the number of calls that write them.
    """

    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in place.rglob("*") if path.is_file()}

    before = times()
    write()
    stored = {path: path.read_bytes() for path, time in times().items() if before.get(path) != time}
    paths, pool = list(stored), ThreadPoolExecutor(2)

    def replace(some: list[Path]) -> None:
        for path in some:
            new = path.with_name(f"{path.name}.new")
            file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            os.write(file, stored[path])
            os.close(file)
            new.replace(path)

    works: dict[str, Callable[[], Any]] = {"one": lambda: replace(paths)}
    if calls == 1 and len(paths) > 1:
        works["two"] = lambda: list(pool.map(replace, (paths[::2], paths[1::2])))
    return works


def made(place: Path, row: Row) -> Any:
    """Creates the array and fills it. Returns the values."""
    step = np.concatenate(list(common.ocean_steps((2, *row.shape[-2:]))))
    values = np.resize(step, row.shape).astype("f4")
    array = zarr.create_array(
        place,
        shape=row.shape,
        chunks=row.chunks,
        shards=row.shards,
        dtype="f4",
        compressors=CODECS[row.codec],
        filters=None,
    )
    array[...] = values
    return values


def work_of(place: Path, row: Row, pipeline: str, values: Any) -> Callable[[], Any]:
    """Returns the call to time."""
    path = f"{__name__}.Nothing" if pipeline == ALONE else PIPELINES[pipeline]
    with zarr.config.set({"codec_pipeline.path": path}):
        array = zarr.open_array(place, mode="r+")
    if not row.write:
        return lambda: [array[selection] for selection in row.selections]
    parts = [(selection, np.ascontiguousarray(values[selection])) for selection in row.selections]

    def write() -> None:
        for selection, part in parts:
            array[selection] = part

    return write


def measured(row: Row, place: Path, names: list[str], rounds: int) -> dict[str, float]:
    """Returns seconds per call: the median of all samples."""
    values = made(place, row)
    works = {name: work_of(place, row, name, values) for name in (*names, ALONE)}
    loops = {}
    if row.write:
        works.update(files_of(place, works[names[0]], len(row.selections)))
    for name, work in works.items():
        found = work()
        if not row.write and name != ALONE:
            for part, selection in zip(found, row.selections, strict=True):
                np.testing.assert_array_equal(part, values[selection], name)
        start = time.perf_counter()
        work()
        loops[name] = max(1, int(SAMPLE / (time.perf_counter() - start)))
    samples: dict[str, list[float]] = {name: [] for name in works}
    for number, name in common.turns(list(works), rounds):
        start = time.perf_counter()
        for _ in range(loops[name]):
            works[name]()
        if number >= 0:
            samples[name].append((time.perf_counter() - start) / loops[name])
    best = {name: statistics.median(times) for name, times in samples.items()}
    if row.write:
        best[FILES] = min(best.pop("one"), best.pop("two", math.inf))
    return best


def installed() -> list[str]:
    """Returns the pipelines that are installed."""
    import importlib

    found = []
    for name, path in PIPELINES.items():
        module, kind = path.rsplit(".", 1)
        try:
            getattr(importlib.import_module(module), kind)
        except (ImportError, AttributeError):
            print(f"not installed: {path}")
        else:
            found.append(name)
    return found


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", action="append", choices=["plain", "multi", "shards"])
    parser.add_argument("--about", default="", help="only rows with this text")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--place", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    names = installed()
    others = [name for name in names if name != "hyperslab"]
    shown = [*names, ALONE, FILES]
    print(f"| row | what | {' | '.join(shown)} | {' | '.join(f'÷ {name}' for name in others)} |")
    print(f"|---{'|---' * (1 + len(shown) + len(others))}|")
    for row in rows():
        if (asked.row and row.name not in asked.row) or asked.about not in row.about:
            continue
        with tempfile.TemporaryDirectory(dir=asked.place) as place:
            found = measured(row, Path(place) / "x", names, asked.rounds)
        times = [common.seconds_text(found[name]) if name in found else "" for name in shown]
        ratios = [f"{found['hyperslab'] / found[name]:.2f}" for name in others]
        print(f"| {row.name} | {row.about} | {' | '.join(times + ratios)} |", flush=True)


if __name__ == "__main__":
    main()
