"""Comparing two files or stores: `hyperslab diff` beside h5diff and cdo, and beside two reads.

    python benches/diff_rows.py [--megabytes 2000] [--rounds 3] [--row NAME]

Programs run in turns, with files in the page cache, and medians are printed. h5diff and cdo come from
``make test-servers``, or from the path. All programs must find the same verdict.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np

_TOOLS = Path(__file__).resolve().parent.parent / "build" / "servers" / "bin"
_SIDE = 512

# Returns whether a difference was found.
Program = Callable[[Path, Path], bool]


def _fields(megabytes: int) -> Iterator[Any]:
    """Fields that compress as model output does."""
    random = np.random.default_rng(0)
    wave = np.sin(np.arange(_SIDE)[:, None] / 50) + np.cos(np.arange(_SIDE)[None] / 30)
    noise = random.integers(0, 50, (8, _SIDE, _SIDE), "i4") / 1000
    for step in range(max(megabytes * 2**20 // 4 // _SIDE**2, 2)):
        yield (wave + step + noise[step % 8]).astype("f4")


def _netcdf(path: Path, megabytes: int, change: float) -> None:
    with hs.File(path, "w", netcdf=True) as file:
        steps = max(megabytes * 2**20 // 4 // _SIDE**2, 2)
        for name, length in (("time", steps), ("y", _SIDE), ("x", _SIDE)):
            file.create_dimension(name, length)
        sst = file.create_variable(
            "sst",
            ("time", "y", "x"),
            "f4",
            chunks=(1, _SIDE, _SIDE),
            compression="gzip",
            compression_opts=4,
            shuffle=True,
        )
        for step, field in enumerate(_fields(megabytes)):
            sst[step] = field + np.float32(change)


def _zarr(path: Path, megabytes: int, change: float) -> None:
    steps = max(megabytes * 2**20 // 4 // _SIDE**2, 2)
    z = hs.create_array(path, shape=(steps, _SIDE, _SIDE), dtype="f4", chunks=(1, _SIDE, _SIDE))
    for step, field in enumerate(_fields(megabytes)):
        z[step] = field + np.float32(change)


def _ours(one: Path, other: Path) -> bool:
    command = [sys.executable, "-m", "hyperslab", "diff", "--quiet", str(one), str(other)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 1


def _reads(one: Path, other: Path) -> bool:
    for path in (one, other):
        node: Any = hs.open(path)
        array = node["sst"] if path.suffix == ".nc" else node
        for _ in array.stream():
            pass
    return False


def _tool(name: str, *arguments: str) -> Program | None:
    found = _TOOLS / name if (_TOOLS / name).exists() else shutil.which(name)
    if found is None:
        return None

    def program(one: Path, other: Path) -> bool:
        command = [str(found), *arguments, str(one), str(other)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 1 or "differ" in done.stdout

    return program


def _rows() -> dict[str, tuple[Callable[[Path, int, float], None], str, float, dict[str, Program | None]]]:
    tools = {"h5diff -q": _tool("h5diff", "-q"), "cdo diffn": _tool("cdo", "-s", "diffn")}
    return {
        "NetCDF-4, gzip, equal": (_netcdf, ".nc", 0.0, tools),
        "NetCDF-4, gzip, all elements differ": (_netcdf, ".nc", 1.0, tools),
        "Zarr, zstd, equal": (_zarr, ".zarr", 0.0, {}),
        "Zarr, zstd, all elements differ": (_zarr, ".zarr", 1.0, {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", default="")
    options = parser.parse_args()
    print("| compared | program | s | ratio |\n|---|---|---|---|")
    for row, (write, suffix, change, tools) in _rows().items():
        if options.row not in row:
            continue
        programs = {"hyperslab diff": _ours, "hyperslab, two reads": _reads, **tools}
        taken: dict[str, list[float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            one, other = Path(folder, f"one{suffix}"), Path(folder, f"other{suffix}")
            write(one, options.megabytes, 0.0)
            write(other, options.megabytes, change)
            for _ in range(options.rounds + 1):
                for name, program in programs.items():
                    if program is None:
                        continue
                    start = time.perf_counter()
                    differs = program(one, other)
                    taken.setdefault(name, []).append(time.perf_counter() - start)
                    assert program is _reads or differs == (change != 0), name
        medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
        fastest = medians["hyperslab diff"]
        for name, seconds in medians.items():
            print(f"| {row} | {name} | {seconds:.3f} | {seconds / fastest:.1f} × |", flush=True)


if __name__ == "__main__":
    main()
