"""Validation, comparison and hashes beside reads; the check of the structure beside a listing.

    python benches/whole_rows.py [--megabytes 2000] [--rounds 3] [--row NAME] [--folder FOLDER]

Each row is measured in turns with one read of the same data by the same engine, with files in the page
cache, and medians are printed. Rows of the structure are beside a listing of all keys, and beside `find`,
which also gets sizes. A hash cannot be faster than the read and BLAKE3 of the same bytes, which
`benches/limit` (`cargo build --release -p hyperslab-limit`) computes on as many threads.
`benches/diff_rows.py` compares with other programs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
from diff_rows import _SIDE, _fields

Program = Callable[[], object]


def _zarr(path: Path, megabytes: int, compressors: Any) -> None:
    steps = max(megabytes * 2**20 // 4 // _SIDE**2, 2)
    group = hs.create_group(path)
    z = group.create_array(
        "sst", shape=(steps, _SIDE, _SIDE), dtype="f4", chunks=(1, _SIDE, _SIDE), compressors=compressors
    )
    for step, field in enumerate(_fields(megabytes)):
        z[step] = field


def _hdf5(path: Path, megabytes: int, _: Any) -> None:
    steps = max(megabytes * 2**20 // 4 // _SIDE**2, 2)
    with hs.File(path, "w") as file:
        d = file.create_dataset(
            "sst",
            shape=(steps, _SIDE, _SIDE),
            dtype="f4",
            chunks=(1, _SIDE, _SIDE),
            compression="gzip",
            compression_opts=4,
            shuffle=True,
        )
        for step, field in enumerate(_fields(megabytes)):
            d[step] = field


def _read(*paths: Path) -> None:
    for path in paths:
        array: Any = hs.open_group(path, mode="r")["sst"]
        for _ in array.stream():
            pass


def _small(path: Path, arrays: int, chunks: int) -> None:
    """Many arrays of tiny chunks. Their bytes are copied: writing a million chunks takes minutes."""
    group = hs.create_group(path)
    rng = np.random.default_rng(0)
    for number in range(arrays):
        z = group.create_array(
            f"g{number // 100}/a{number}", shape=(chunks * 4,), chunks=4, dtype="f4", compressors=None
        )
        z[...] = rng.normal(size=chunks * 4).astype("f4")


def _listing(path: Path) -> int:
    return len(hs.storage.LocalStore(path)._native.list(""))


def _times(programs: dict[str, Program], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds + 1):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def _blake3(megabytes: int) -> float | None:
    """Seconds for BLAKE3 of bytes in the caches, in pieces of a leaf of the content hash."""
    import limits
    from contenders import Cannot

    try:
        library = limits.library()
    except Cannot:
        return None
    data = np.random.default_rng(0).integers(0, 255, 2**20, "u1")
    threads = hs.config.threads or len(os.sched_getaffinity(0))
    start = time.perf_counter()
    library.limit_hash(data.ctypes.data, megabytes, threads)
    return time.perf_counter() - start


def _print(row: str, times: dict[str, float]) -> None:
    base = next(iter(times.values()))
    for name, seconds in times.items():
        print(f"| {row} | {name} | {seconds:.3f} | {seconds / base:.2f} × |", flush=True)


def _validate(path: Path, decode: bool) -> None:
    report = hs.validate(path, decode=decode)
    assert report, report.findings[:3]


def _hash(path: Path) -> None:
    hs.content_hash(hs.open_group(path, mode="r"))


def _compare(one: Path, other: Path) -> None:
    difference = hs.diff(one, other)
    assert not difference, str(difference)


def _data(folder: Path, megabytes: int, rounds: int, wanted: str) -> None:
    rows: dict[str, tuple[Callable[[Path, int, Any], None], str, Any]] = {
        "Zarr, zstd": (_zarr, ".zarr", "auto"),
        "HDF5, gzip": (_hdf5, ".h5", None),
        "Zarr, uncompressed": (_zarr, ".zarr", None),
    }
    for row, (write, suffix, compressors) in rows.items():
        if wanted not in row:
            continue
        one, other = folder / f"one{suffix}", folder / f"other{suffix}"
        write(one, megabytes, compressors)
        write(other, megabytes, compressors)
        programs: dict[str, Program] = {
            "one read": partial(_read, one),
            "validate(decode=True)": partial(_validate, one, True),
            "content_hash": partial(_hash, one),
        }
        times = _times(programs, rounds)
        _print(row, times)
        if (blake3 := _blake3(megabytes)) is not None:
            least = times["one read"] + blake3
            print(f"| {row} | one read, and BLAKE3 in memory | {least:.3f} | 1.00 × |")
            hashed = times["content_hash"]
            print(f"| {row} | content_hash beside it | {hashed:.3f} | {hashed / least:.2f} × |", flush=True)
        programs = {"two reads": partial(_read, one, other), "diff, equal": partial(_compare, one, other)}
        _print(row, _times(programs, rounds))
        for path in (one, other):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _structure(folder: Path, rounds: int, wanted: str) -> None:
    rows = {"structure, 10⁶ chunks": (100, 10_000), "structure, 10⁴ arrays": (10_000, 1)}
    for row, (arrays, chunks) in rows.items():
        if wanted not in row:
            continue
        path = folder / "small.zarr"
        _small(path, arrays, chunks)
        find = ["find", str(path), "-type", "f", "-printf", "%s %p\n"]
        programs: dict[str, Program] = {
            "listing": partial(_listing, path),
            "find -printf": partial(subprocess.run, find, stdout=subprocess.DEVNULL, check=True),
            "validate": partial(_validate, path, False),
        }
        _print(row, _times(programs, rounds))
        shutil.rmtree(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", default="")
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    print("| data | work | s | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        _data(Path(folder), options.megabytes, options.rounds, options.row)
        _structure(Path(folder), options.rounds, options.row)


if __name__ == "__main__":
    main()
