"""Copies of NetCDF-4 files: hyperslab beside h5repack, nccopy, and xarray with dask.

    python benches/netcdf_copies.py [--megabytes 256] [--files 100] [--rounds 3] [--row NAME]

| row | the others |
|---|---|
| repack | one file to other chunks and zstd: h5repack (zstd through hdf5plugin), nccopy (zlib) |
| concat | many files of 4 MB to one Zarr with shards: `open_mfdataset(parallel=True).to_zarr()` |

All run in turns, and medians are printed. Tools that are not installed are named and left out. After the
last round the values are compared.
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
from pathlib import Path
from typing import Any

import hdf5plugin
import hyperslab as hs
import netCDF4
import numpy as np
import xarray as xr

_RANDOM = np.random.default_rng(0)


def _file(path: Path, steps: int, start: int, side: int, chunk: tuple[int, ...]) -> None:
    """Writes a smooth field with noise, which compresses as model output does."""
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("lat", side), ("lon", side)):
            file.createDimension(name, length)
        coordinate = file.createVariable("time", "f8", ("time",))
        coordinate.units = "hours since 2000-01-01"
        coordinate[:] = np.arange(start, start + steps)
        for name in ("lat", "lon"):
            file.createVariable(name, "f4", (name,))[:] = np.arange(side)
        field = file.createVariable(
            "t", "f4", ("time", "lat", "lon"), zlib=True, complevel=1, shuffle=True, chunksizes=chunk
        )
        smooth = np.sin(np.arange(side)[:, None] / 50) + np.cos(np.arange(side)[None] / 30)
        for step in range(steps):
            field[step] = smooth + start + step + _RANDOM.integers(0, 50, (side, side)) / 1000


def _median(work: dict[str, Callable[[Path], Any]], folder: Path, rounds: int) -> dict[str, float]:
    """Returns the median seconds of each contender. They run in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, run in work.items():
            target = folder / f"{name.replace(' ', '-')}.out"
            shutil.rmtree(target, ignore_errors=True)
            target.unlink(missing_ok=True)
            begin = time.perf_counter()
            run(target)
            if number:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _tell(row: str, megabytes: float, found: dict[str, float]) -> None:
    own = found["hyperslab"]
    for name, seconds in found.items():
        print(f"{row:8} {name:14} {seconds:7.2f} s {megabytes / seconds:8.0f} MB/s  {seconds / own:5.2f} x")


def _repack(folder: Path, megabytes: int, rounds: int) -> None:
    side = 512
    steps = max(megabytes * 2**20 // (4 * side * side), 8)
    source = folder / "source.nc"
    _file(source, steps, 0, side, (1, side, side))
    chunk = (min(steps, 64), 64, 64)

    def ours(target: Path) -> None:
        lens = dict(zip(("time", "lat", "lon"), chunk, strict=True))
        made = target.with_suffix(".h5")
        made.unlink(missing_ok=True)
        hs.copy(source, made, chunks=lens, compressors="zstd:1")
        made.rename(target)

    work: dict[str, Callable[[Path], Any]] = {"hyperslab": ours}
    tools = {
        "h5repack": lambda target: [
            "h5repack", "-l", "t:CHUNK={}x{}x{}".format(*chunk), "-f", "t:UD=32015,0,1,1", source, target,
        ],
        "nccopy": lambda target: [
            "nccopy", "-d", "1", "-c", "time/{},lat/{},lon/{}".format(*chunk),
            source, target,
        ],
    }  # fmt: skip
    environment = {**os.environ, "HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH}
    for name, command in tools.items():
        if shutil.which(name) is None:
            print(f"repack   {name} is not installed")
            continue
        work[name] = _running(command, environment)
    _tell("repack", steps * side * side * 4 / 1e6, _median(work, folder, rounds))
    for name in work:
        with (
            xr.open_dataset(source) as one,
            xr.open_dataset(folder / f"{name}.out", engine="h5netcdf") as two,
        ):
            np.testing.assert_array_equal(one["t"].values, two["t"].values)


def _running(command: Callable[[Path], Any], environment: dict[str, str]) -> Callable[[Path], Any]:
    return lambda target: subprocess.run(command(target), check=True, env=environment)


def _concat(folder: Path, files: int, rounds: int) -> None:
    side, steps = 512, 4
    paths = [folder / f"part-{number:04}.nc" for number in range(files)]
    for number, path in enumerate(paths):
        _file(path, steps, number * steps, side, (1, side, side))
    total = files * steps
    chunk, shard = (1, side, side), (min(total, 40), side, side)

    def ours(target: Path) -> None:
        hs.copy(paths, target, concat="time", chunks=chunk, shards=shard, compressors="zstd:1")

    def theirs(target: Path) -> None:
        from zarr.codecs import ZstdCodec

        arguments: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
        with xr.open_mfdataset(
            paths, combine="nested", concat_dim="time", parallel=True, join="exact", **arguments
        ) as found:
            encoding = {"t": {"chunks": chunk, "shards": shard, "compressors": [ZstdCodec(level=1)]}}
            cut = found.chunk(time=shard[0])
            for variable in cut.variables.values():
                variable.encoding.clear()
            cut.to_zarr(target, zarr_format=3, encoding=encoding, consolidated=False)

    work: dict[str, Callable[[Path], Any]] = {"hyperslab": ours, "xarray and dask": theirs}
    _tell("concat", total * side * side * 4 / 1e6, _median(work, folder, rounds))
    one = xr.open_zarr(folder / "hyperslab.out", consolidated=False)
    two = xr.open_zarr(folder / "xarray-and-dask.out", consolidated=False)
    np.testing.assert_array_equal(one["t"].values, two["t"].values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", choices=["repack", "concat"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="netcdf-copies-") as name:
        folder = Path(name)
        if given.row in (None, "repack"):
            _repack(folder, given.megabytes, given.rounds)
        if given.row in (None, "concat"):
            _concat(folder, given.files, given.rounds)


if __name__ == "__main__":
    main()
