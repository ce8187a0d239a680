"""`map_chunks` and `statistics` compared with dask.array, on the same data.

    python benches/maps.py                  small data: 256 MiB
    python benches/maps.py --full           4 GiB
    python benches/maps.py --mib 1024 --rounds 5

Contenders take turns, and the best round of each counts. dask.array reads and writes with
zarr-python in six ways, and the best counts. The ways are three codec pipelines (zarr-python's two
and the one of zarrs), each with blocks of one chunk and with blocks that dask chooses. Values are
compared. A ratio is dask's best time divided by ours. For statistics, the time of only reading
(with read-ahead) divided by ours is shown too. `plain` is one thread per core around libzstd and
files: the best this machine can do.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import common
import dask
import dask.array as da
import hyperslab as hs
import numpy as np
import zarr
from numcodecs import Zstd

SIDE = 1024
PIPELINES = {
    "zarr-python": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
}


def make(path: Path, mib: int) -> hs.Array:
    """Writes ocean-like fields of 4 MiB in chunks of 1 MiB."""
    steps = max(mib // 4, 1)
    shape = (steps, SIDE, SIDE)
    array = hs.create_array(path, shape=shape, chunks=(1, SIDE // 2, SIDE // 2), dtype="f4")
    with array.writer() as writer:
        for n, field in enumerate(common.ocean_steps(shape)):
            writer[n] = np.abs(field)
    return hs.open_array(path, mode="r")


def best(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the best time of each in seconds. They take turns."""
    times = dict.fromkeys(work, math.inf)
    for _ in range(rounds):
        for name, each in work.items():
            start = time.perf_counter()
            each()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def of_dask(source: Path, work: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """Returns one piece of work with each pipeline and block size."""
    found: dict[str, Callable[[], Any]] = {}
    for name, pipeline in PIPELINES.items():
        if importlib.util.find_spec(pipeline.split(".")[0]) is None:
            continue
        for blocks in ("chunk", "auto"):

            def run(pipeline: str = pipeline, blocks: str = blocks) -> Any:
                with zarr.config.set({"codec_pipeline.path": pipeline}):
                    array = zarr.open_array(source, mode="r")
                    return work(da.from_array(array, array.chunks if blocks == "chunk" else "auto"))

            found[f"dask, {name}, blocks: {blocks}"] = run
    return found


def plain(source: Path, target: Path, shape: tuple[int, ...]) -> None:
    """Takes the square root of each chunk, in threads that know the layout and replace no files."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    local = threading.local()

    def one(chunk: Path) -> None:
        if not hasattr(local, "codec"):
            local.codec, local.values = Zstd(), np.empty(shape, "f4")
        local.codec.decode(chunk.read_bytes(), local.values)
        np.sqrt(local.values, out=local.values)
        (target / chunk.relative_to(source).as_posix().replace("/", ".")).write_bytes(
            local.codec.encode(local.values)
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(one, (source / "c").rglob("*/*/*")):
            del done


def told(row: str, times: dict[str, float], nbytes: int, ours: str = "hyperslab") -> None:
    print(f"\n{row}")
    for name, seconds in sorted(times.items(), key=lambda each: each[1]):
        print(f"  {name:<36} {seconds:8.3f} s  {nbytes / seconds / 1e6:8.0f} MB/s")
    peers = [seconds for name, seconds in times.items() if name.startswith("dask")]
    print(f"  best of dask / ours: {min(peers) / times[ours]:.2f}", end="")
    print(
        *(f"; {name} / ours: {times[name] / times[ours]:.2f}" for name in ("read", "plain") if name in times)
    )


def maps(source: Path, array: hs.Array, folder: Path, rounds: int) -> None:
    targets = {"hyperslab": folder / "ours", "dask": folder / "theirs"}

    def ours() -> None:
        shutil.rmtree(targets["hyperslab"], ignore_errors=True)
        hs.map_chunks(np.sqrt, array, targets["hyperslab"])

    def theirs(x: Any) -> None:
        shutil.rmtree(targets["dask"], ignore_errors=True)
        target = zarr.create_array(targets["dask"], shape=array.shape, chunks=array.chunks, dtype="f4")
        da.store(da.sqrt(x), target, lock=False)

    loop = {"plain": lambda: plain(source, folder / "plain", array.chunks)}
    times = best({"hyperslab": ours, **loop, **of_dask(source, theirs)}, rounds)
    for step in range(0, len(array), max(len(array) // 8, 1)):
        made = [hs.open_array(target, mode="r")[step] for target in targets.values()]
        if not np.array_equal(made[0], made[1]):
            sys.exit(f"map_chunks: step {step} differs")
    told("map_chunks(np.sqrt)", times, array.nbytes)


def statistics(source: Path, array: hs.Array, rounds: int) -> None:
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = hs.statistics(array)

    def theirs(x: Any) -> None:
        wide = x.astype("f8")
        found["dask"] = dask.compute(x.min(), x.max(), wide.mean(), wide.std())

    def read() -> None:
        for _ in array.stream():
            pass

    times = best({"hyperslab": ours, "read": read, **of_dask(source, theirs)}, rounds)
    mine = found["ours"]
    if not np.allclose([mine.min, mine.max, mine.mean, mine.std], found["dask"], rtol=1e-9):
        sys.exit(f"statistics differ: {mine}, {found['dask']}")
    told("statistics", times, array.nbytes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="4 GiB")
    parser.add_argument("--mib", type=int, help="so many MiB")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    mib = given.mib or (4096 if given.full else 256)
    with tempfile.TemporaryDirectory(prefix="hyperslab-maps-") as place:
        folder = Path(place)
        array = make(folder / "source", mib)
        ratio = array.nbytes / array.nbytes_stored()
        print(f"{mib} MiB of float32, zstd {ratio:.2f}, chunks {array.chunks}, {os.cpu_count()} cores")
        maps(folder / "source", array, folder, given.rounds)
        statistics(folder / "source", array, given.rounds)


if __name__ == "__main__":
    main()
