"""Peak memory of writing 4 GB to an HDF5 file in slabs, beside h5py: `python benches/hdf5_memory.py`.

Each case runs in a process of its own. It makes the slab, and notes the peak of its resident memory
from then on. `--quick` writes 1 GB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

SLAB = (64, 512, 512)
# Rows of a slab. 40 rows do not end at chunks.
CASES = {"whole chunks": 64, "parts of chunks": 40}
LAYOUTS = ("contiguous", "chunks", "zstd")


def resident(field: str) -> int:
    """Returns a field of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def write(package: str, layout: str, rows: int, total: int, path: str) -> None:
    """Writes slabs, and prints how many bytes of memory that took."""
    import hdf5plugin

    module: Any = __import__("h5py" if package == "h5py" else "hyperslab.h5", fromlist=["File"])
    options: dict[str, Any] = {} if layout == "contiguous" else {"chunks": (16, 128, 128)}
    if layout == "zstd":
        options |= hdf5plugin.Zstd()
    slab = np.random.default_rng(0).integers(0, 1000, (rows, *SLAB[1:])).astype("f4")
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmHWM")
    with module.File(path, "w") as file:
        array = file.create_dataset("a", (total, *SLAB[1:]), "f4", **options)
        for first in range(0, total, rows):
            count = min(rows, total - first)
            array[first : first + count] = slab[:count]
    print(resident("VmHWM") - before)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    if arguments.case:
        package, layout, rows, total, path = arguments.case
        write(package, layout, int(rows), int(total), path)
        return
    total = 1024 if arguments.quick else 4096
    print("| written | h5py, MiB | hyperslab, MiB |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for layout in LAYOUTS:
            for name, rows in CASES.items():
                cells = []
                for package in ("h5py", "hyperslab"):
                    path = Path(folder) / "a.h5"
                    command = [sys.executable, __file__, package, layout, str(rows), str(total), str(path)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    cells.append(f"{int(done.stdout) / 2**20:.0f}")
                    path.unlink()
                print(f"| {layout}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
