"""Copies into other chunks, compared with dask.array, TensorStore and zarr-python.

    python benches/copies.py                  small data: 512 MiB
    python benches/copies.py --full           4 GiB
    python benches/copies.py --row rechunk --mib 1024
    python benches/copies.py --row rechunk --rechunker VENV/bin/python --cubed VENV/bin/python

Each contender runs in its own process, which also reports its peak memory. The contenders take
turns. The first round compares values. A contender that cannot limit its memory shows the memory it
used. The last line is the time of libzstd alone for the same chunks in memory: no copy with this
codec can be faster.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import common
import hyperslab as hs
import numpy as np
from numcodecs import Zstd

SIDE = 1024
SPACE = 64
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"


# ------------------------------------------------------------------------------------ contenders


def ours(source: str, target: str, memory: str) -> None:
    """Copies in one process."""
    steps = hs.open_array(source, mode="r").shape[0]
    hs.copy(source, target, chunks=(steps, SPACE, SPACE), max_memory=memory)


def ours_cluster(source: str, target: str, memory: str) -> None:
    """Copies on two dask workers."""
    steps = hs.open_array(source, mode="r").shape[0]
    plan = hs.plan_copy(source, target, chunks=(steps, SPACE, SPACE), max_memory=memory, workers=2)
    with_cluster(plan.run)


def dask_(source: str, target: str, memory: str) -> None:
    """dask.array on threads, with zarr-python's fast pipeline."""
    del memory
    rechunk_with_dask(source, target)


def dask_cluster(source: str, target: str, memory: str) -> None:
    """dask.array on two workers."""
    del memory
    with_cluster(lambda _: rechunk_with_dask(source, target))


def tensorstore(source: str, target: str, memory: str) -> None:
    """Copies in blocks of half of `memory`, because TensorStore's own copy takes all memory."""
    import tensorstore as ts

    found = ts.open({"driver": "zarr3", "kvstore": f"file://{source}/"}, read=True).result()
    shape = list(found.shape)
    zstd = {"name": "zstd", "configuration": {"level": 1}}
    metadata = {
        "shape": shape,
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [shape[0], SPACE, SPACE]}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, zstd],
    }
    spec = {"driver": "zarr3", "kvstore": f"file://{target}/", "metadata": metadata}
    new = ts.open(spec, create=True).result()
    row = SPACE * shape[2] * shape[0] * 4
    rows = max(1, hs_size(memory) // 2 // row) * SPACE
    for start in range(0, shape[1], rows):
        part = (slice(None), slice(start, min(start + rows, shape[1])))
        new[part].write(found[part].read().result()).result()


def hs_size(text: str) -> int:
    """Returns the bytes of `512 MiB`."""
    return int(text.removesuffix(" MiB")) << 20


def rechunk_with_dask(source: str, target: str) -> None:
    """Rechunks as dask's guide shows it."""
    import dask
    import dask.array as da
    import zarr

    zarr.config.set({"codec_pipeline.path": FUSED})
    array = da.from_zarr(source)
    with dask.config.set({"array.rechunk.method": "tasks"}):
        array.rechunk((-1, SPACE, SPACE)).to_zarr(target)


def with_cluster(work: Callable[[Any], Any]) -> None:
    """Calls `work` with a client of two worker processes. The clock starts once they run."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        START[0] = time.perf_counter()
        work(client)
        END[0] = time.perf_counter()


START, END = [0.0], [0.0]


def many_ours(source: str, target: str, memory: str) -> None:
    """Copies a store of many arrays with one call."""
    del memory
    hs.copy(source, target)


def many_zarr(source: str, target: str, memory: str) -> None:
    """Copies the arrays in a loop."""
    del memory
    import zarr

    zarr.config.set({"codec_pipeline.path": FUSED})
    group, new = zarr.open_group(source, mode="r"), zarr.open_group(target, mode="w")
    for name, array in group.arrays():
        zarr.from_array(new.store_path / name, data=array)


CONTENDERS: dict[str, Callable[[str, str, str], None]] = {
    "hyperslab": ours,
    "hyperslab, cluster": ours_cluster,
    "dask": dask_,
    "dask, cluster": dask_cluster,
    "tensorstore": tensorstore,
    "hyperslab, many": many_ours,
    "zarr-python, many": many_zarr,
}


# Contenders with their own environment: name and Python interpreter.
PEERS: dict[str, str] = {}
PEERS_FILE = Path(__file__).with_name("rechunk_peers.py")


# ------------------------------------------------------------------------------------ measuring


def peak_bytes() -> int:
    """Returns the peak memory of this process or of its largest child.

    Reads /proc for this process, because `getrusage` may report the memory of the parent.
    """
    status = Path("/proc/self/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024


def one(name: str, source: str, target: str, memory: str) -> None:
    """Runs a contender. Prints its seconds and the peak memory of this process or a child."""
    warnings.simplefilter("ignore")
    START[0] = time.perf_counter()
    CONTENDERS[name](source, target, memory)
    seconds = (END[0] or time.perf_counter()) - START[0]
    print(json.dumps([seconds, peak_bytes()]))


def measure(names: tuple[str, ...], source: Path, folder: Path, memory: str, rounds: int) -> list[str]:
    """Returns a cell for each contender: median seconds and peak memory."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    for number, name in common.turns(names, rounds):
        if name in failed:
            continue
        target = folder / "target"
        common.remove(target)
        command = [sys.executable, __file__, "--one", name, str(source), str(target), memory]
        if name in PEERS:
            old = source.with_name(f"{source.name}.v2") if name == "rechunker" else source
            command = [PEERS[name], str(PEERS_FILE), name, str(old), str(target), memory]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        if done.returncode:
            failed[name] = done.stderr.strip().splitlines()[-1][:60]
            continue
        if number < 0:
            check(source, target)
        else:
            found[name].append(tuple(json.loads(done.stdout.splitlines()[-1])))
    common.remove(folder / "target")
    cells = []
    for name in names:
        if name in failed:
            cells.append(failed[name])
            continue
        seconds = statistics.median(seconds for seconds, _ in found[name])
        peak = max(peak for _, peak in found[name])
        cells.append(f"{common.seconds_text(seconds)}, {common.bytes_text(peak)}")
    return cells


def check(source: Path, target: Path) -> None:
    """Checks that a sample of the values is the same."""
    old: Any = hs.open(source, mode="r")
    new: Any = hs.open(target, mode="r")
    if isinstance(old, hs.Array):
        pairs = [(old[:, 100:132], new[:, 100:132])]
    else:
        pairs = [(old[name][...], new[name][...]) for name in ("a00000", "a00050")]
    if not all(np.array_equal(left, right) for left, right in pairs):
        sys.exit(f"{target} has other values")


def make_maps(path: Path, mib: int) -> None:
    """Writes maps of 4 MiB, one chunk each."""
    shape = (mib // 4, SIDE, SIDE)
    array = hs.create_array(
        path, shape=shape, chunks=(1, SIDE, SIDE), dtype="f4", compressors=hs.codecs.Zstd(level=1)
    )
    with array.writer() as writer:
        for n, field in enumerate(common.ocean_steps(shape)):
            writer[n] = field


def make_many(path: Path, count: int) -> None:
    """Writes small arrays."""
    root = hs.create_group(path)
    for number in range(count):
        root.create_array(f"a{number:05}", data=np.arange(10, dtype="f4"), attributes={"number": number})


def codec_alone(maps: Path) -> tuple[float, float]:
    """Returns libzstd's seconds to decode all maps and encode all series, one thread per core."""
    array, local = hs.open_array(maps, mode="r"), threading.local()
    stored = [chunk.read_bytes() for chunk in (maps / "c").rglob("*/0/0")]
    corners = [(y, x) for y in range(0, SIDE, SPACE) for x in range(0, SIDE, SPACE)]
    # A sample of the series is enough: each is encoded on its own.
    some = [np.ascontiguousarray(array[:, y : y + SPACE, x : x + SPACE]) for y, x in corners[::16]]

    def own() -> Any:
        if not hasattr(local, "codec"):
            local.codec, local.map = Zstd(1), np.empty((SIDE, SIDE), "f4")
        return local

    def seconds(work: Callable[[Any], Any], items: list[Any]) -> float:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            start = time.perf_counter()
            for done in pool.map(work, items):
                del done
            return time.perf_counter() - start

    def decode(chunk: bytes) -> None:
        own().codec.decode(chunk, own().map)

    decoding = min(seconds(decode, stored) for _ in range(3))
    encoding = min(seconds(lambda series: own().codec.encode(series), some) for _ in range(3))
    return decoding, encoding * len(corners) / len(some)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="4 GiB, 10 000 arrays")
    parser.add_argument("--mib", type=int, help="MiB of maps")
    parser.add_argument("--row", choices=("rechunk", "many", "plan"), help="measure only this")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each contender (%(default)s)")
    for peer in ("rechunker", "cubed"):
        parser.add_argument(f"--{peer}", metavar="PYTHON", help=f"of an environment that has {peer}")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    mib = arguments.mib or (4096 if arguments.full else 512)
    count = 10_000 if arguments.full else 500
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        if arguments.row in (None, "rechunk"):
            make_maps(folder / "maps", mib)
            for peer in ("rechunker", "cubed"):
                if python := getattr(arguments, peer):
                    PEERS[peer] = python
            if "rechunker" in PEERS:
                hs.copy(folder / "maps", folder / "maps.v2", zarr_format=2)
            names = ("hyperslab", "hyperslab, cluster", "dask", "dask, cluster", "tensorstore", *PEERS)
            rows = []
            for memory in ("512 MiB", "64 MiB"):
                cells = measure(names, folder / "maps", folder, memory, arguments.rounds)
                rows.append([f"{mib} MiB, maps to series, {memory}", *cells])
            print(common.table(("seconds, peak memory", *names), rows))
            decoding, encoding = codec_alone(folder / "maps")
            print(f"libzstd alone: {decoding:.2f} s to decode, {encoding:.2f} s to encode")
        if arguments.row in (None, "many"):
            make_many(folder / "many", count)
            pair = ("hyperslab, many", "zarr-python, many")
            cells = measure(pair, folder / "many", folder, "", arguments.rounds)
            print(common.table(("seconds, peak memory", *pair), [[f"{count} small arrays", *cells]]))
        if arguments.row in (None, "plan"):
            shape = (100_000, SIDE, SIDE)
            hs.create_array(folder / "large", shape=shape, chunks=(1, SIDE, SIDE), dtype="f4")
            start = time.perf_counter()
            plan = hs.plan_copy(folder / "large", folder / "copy", chunks=(1, 512, 512), task_size="4 MiB")
            seconds = time.perf_counter() - start
            print(f"{plan.tasks} tasks planned in {common.seconds_text(seconds)}")


if __name__ == "__main__":
    main()
