"""Writing HDF5: hyperslab and h5py in turns, on the same data, with the same filters and chunks.

    python benches/hdf5_writing.py [--quick] [--row NAME] [--rounds 5] [--cpu]

Each row runs once without being timed. Then both libraries write in turns, without waiting for the
disk, and medians are printed. After the last round, h5py reads the files, and the values are compared.

With `--cpu`, the time of the processor counts, of all threads. On a machine that does other work, it is the
better measure for rows that one thread writes.

Rows without filter also have the time that `write()` takes for the elements alone, in the same turns: no
program is faster.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab.h5 as ours
import numpy as np

_RANDOM = np.random.default_rng(0)


def _field(megabytes: int) -> np.ndarray[Any, Any]:
    """A smooth field with noise, which compresses as model output does."""
    rows = megabytes * 2**20 // 4 // 1024
    smooth = np.sin(np.arange(rows)[:, None] / 50) + np.cos(np.arange(1024)[None] / 30)
    return (smooth + _RANDOM.integers(0, 50, (rows, 1024)) / 1000).astype("f4")


def _whole(field: np.ndarray[Any, Any], **options: Any) -> Callable[[Any, Path], None]:
    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            file.create_dataset("a", data=field, **options)

    return write


def _parts(field: np.ndarray[Any, Any], count: int) -> Callable[[Any, Path], None]:
    places = (
        np.random.default_rng(1).integers(0, (field.shape[0] - 9, field.shape[1] - 9), (count, 2)).tolist()
    )

    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            a = file.create_dataset("a", field.shape, "f4", chunks=(128, 128), compression="gzip")
            for row, column in places:
                a[row : row + 9, column : column + 9] = field[:9, :9]

    return write


def _append(count: int) -> Callable[[Any, Path], None]:
    row = np.arange(16, dtype="f8")

    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            names = ("a", "b", "c")
            all_of_them = [
                file.create_dataset(
                    n, (0, 16), "f8", maxshape=(None, 16), chunks=(256, 16), compression="gzip"
                )
                for n in names
            ]
            for number in range(count):
                for dataset in all_of_them:
                    dataset.resize(number + 1, 0)
                    dataset[number] = row
                if number % 1000 == 999:
                    file.flush()

    return write


def _texts(count: int) -> Callable[[Any, Path], None]:
    values = np.array([f"name {number}" for number in range(count)], dtype=object)

    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            file.create_dataset("a", data=values, dtype=library.string_dtype(), chunks=(10_000,))

    return write


def _sequences(count: int) -> Callable[[Any, Path], None]:
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    values = np.empty(count, object)
    for number in range(count):
        # Sequences of one length would be an array of two axes for h5py.
        values[number] = np.zeros(150 + number % 100, kind)

    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            a = file.create_dataset("a", (count,), library.vlen_dtype(kind))
            a[...] = values

    return write


def _many(count: int) -> Callable[[Any, Path], None]:
    def write(library: Any, path: Path) -> None:
        with library.File(path, "w") as file:
            for number in range(count):
                a = file.create_dataset(f"d{number}", data=np.arange(10))
                for attribute in range(5):
                    a.attrs[f"a{attribute}"] = attribute
        with library.File(path, "r+") as file:
            for number in range(count):
                file[f"d{number}"].attrs["late"] = number

    return write


def _plain(field: np.ndarray[Any, Any]) -> Callable[[Any, Path], None]:
    memory = memoryview(field).cast("B")

    def write(_: Any, path: Path) -> None:
        with path.open("wb", buffering=0) as file:
            for start in range(0, len(memory), 8 << 20):
                file.write(memory[start : start + (8 << 20)])

    return write


_UNFILTERED = ("chunks without filter", "contiguous")


def _rows(quick: bool, field: np.ndarray[Any, Any]) -> dict[str, Callable[[Any, Path], None]]:
    chunks = {"chunks": (256, 1024)}
    share = 20 if quick else 1
    return {
        "gzip 4 + shuffle": _whole(field, **chunks, compression="gzip", shuffle=True),
        "zstd": _whole(field, **chunks, **hdf5plugin.Zstd()),
        "lz4": _whole(field, **chunks, **hdf5plugin.LZ4()),
        "chunks without filter": _whole(field, **chunks),
        "contiguous": _whole(field),
        "parts of gzip chunks": _parts(field[:2048], 20_000 // share),
        "append rows to three": _append(100_000 // share),
        "short texts": _texts(1_000_000 // share),
        "sequences of structures": _sequences(600),
        "small datasets": _many(10_000 // share),
    }


def _timed(clock: Callable[[], float], write: Callable[[Any, Path], None], library: Any, path: Path) -> float:
    path.unlink(missing_ok=True)
    start = clock()
    write(library, path)
    return clock() - start


def _compare(path: Path, other: Path) -> None:
    with h5py.File(path, "r") as found, h5py.File(other, "r") as expected:
        assert list(found) == list(expected)
        for name in list(found)[:100]:
            a, b = found[name][...], expected[name][...]
            if a.dtype == object and a.size and isinstance(a[0], np.ndarray):
                assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)), name
            else:
                assert np.array_equal(a, b), name
            assert dict(found[name].attrs) == dict(expected[name].attrs)


def main() -> None:
    """Measure the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--row", action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    print("| row | h5py, s | hyperslab, s | ratio | bytes, ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        theirs, mine = Path(folder) / "h5py.h5", Path(folder) / "hyperslab.h5"
        field = _field(40 if arguments.quick else 400)
        for name, write in _rows(arguments.quick, field).items():
            if arguments.row and name not in arguments.row:
                continue
            times: tuple[list[float], list[float]] = ([], [])
            alone: list[float] = []
            for turn in range(arguments.rounds + 1):
                pair = [(h5py, theirs), (ours, mine)]
                for index in (0, 1) if turn % 2 else (1, 0):
                    taken = _timed(clock, write, *pair[index])
                    if turn:
                        times[index].append(taken)
                if name in _UNFILTERED:
                    alone.append(_timed(clock, _plain(field), None, Path(folder) / "alone"))
            _compare(mine, theirs)
            slow, fast = (statistics.median(one) for one in times)
            size = mine.stat().st_size / theirs.stat().st_size
            print(f"| {name} | {slow:.4g} | {fast:.4g} | {slow / fast:.1f} × | {size:.2f} |", flush=True)
            if alone:
                print(f"| the same by `write()` | | {statistics.median(alone[1:]):.4g} | | |", flush=True)


if __name__ == "__main__":
    main()
