"""Several processes that write one HDF5 file: hyperslab, beside one process of h5py, in turns.

    python benches/hdf5_writers.py [--quick] [--rounds 3]

Four processes of hyperslab append rows, each to a dataset of its own, and then all to one dataset. One
process of h5py appends as many rows in all. Blocks of 64 rows have gzip, and each process flushes after
20 blocks. The clock runs from the moment in which all processes are ready until the last has closed
the file. Medians are printed, and the rows are compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

WRITERS = 4
ROWS = 64
FLUSHED = 20

_WRITER = """
import sys
import numpy as np

path, library, writer, blocks, names = sys.argv[1:]
writer, blocks = int(writer), int(blocks)
if library == "h5py":
    import h5py as package
else:
    import hyperslab as package
generator = np.random.default_rng(writer)
smooth = np.sin(np.arange(64 * 256) / 30).reshape(64, 256)
block = (smooth + generator.integers(0, 50, (64, 256)) / 1000).astype("f4")
file = package.File(path, "r+")
print("ready", flush=True)
sys.stdin.readline()
for number in range(blocks):
    for name in names.split(","):
        array = file[name]
        block[:, 0] = 1000 * writer + number
        if library == "h5py":
            array.resize(len(array) + 64, axis=0)
            array[-64:] = block
        else:
            array.append(block)
    if number % 20 == 19:
        file.flush()
file.close()
"""


def _run(path: Path, library: str, jobs: list[tuple[int, int, str]]) -> float:
    """Run one process for each job, and return the seconds that all need."""
    command = [sys.executable, "-c", _WRITER, str(path), library]
    children = [
        subprocess.Popen(
            [*command, str(writer), str(blocks), names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer, blocks, names in jobs
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    begun = time.perf_counter()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert all(child.wait() == 0 for child in children)
    return time.perf_counter() - begun


def _create(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name in ["all", *(f"d{writer}" for writer in range(WRITERS))]:
            file.create_dataset(
                name, (0, 256), "f4", maxshape=(None, 256), chunks=(64, 256), compression="gzip"
            )


def _check(path: Path, names: list[str], blocks: int) -> None:
    """Check that each block of each process is there once."""
    with h5py.File(path, "r") as file:
        found = np.concatenate([file[name][::ROWS, 0] for name in names])
        counts = sorted(int(number) % 1000 for number in found)
        assert counts == sorted([*range(blocks)] * WRITERS), (len(found), blocks)


def main() -> None:
    """Measure both cases, and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    blocks = 20 if arguments.quick else 400
    own = [f"d{writer}" for writer in range(WRITERS)]
    one_process = [(0, blocks, ",".join(own))]
    cases = {
        "datasets of their own": ([(writer, blocks, own[writer]) for writer in range(WRITERS)], own),
        "one dataset": ([(writer, blocks, "all") for writer in range(WRITERS)], ["all"]),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        times: dict[str, list[float]] = {}
        for _ in range(arguments.rounds):
            _create(path)
            times.setdefault("one process of h5py", []).append(_run(path, "h5py", one_process))
            for name, (jobs, names) in cases.items():
                _create(path)
                times.setdefault(name, []).append(_run(path, "hyperslab", jobs))
                _check(path, names, blocks)
    rows = WRITERS * blocks * ROWS
    slow = statistics.median(times["one process of h5py"])
    for name, found in times.items():
        seconds = statistics.median(found)
        print(f"{name:24}{seconds:8.2f} s {rows / seconds:12,.0f} rows/s {slow / seconds:6.2f} ×")


if __name__ == "__main__":
    main()
