"""Writing NetCDF from xarray: `to_netcdf` beside xarray's engines, and appends beside netCDF4-python.

    python benches/netcdf_rows.py [--megabytes 2000] [--steps 1000] [--rounds 3] [--row NAME]

Programs run in turns, without waiting for the disk, and medians are printed. Values are compared after the
last round. The rows of appends also count the bytes that each program hands to the kernel
(``/proc/self/io``).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import hyperslab as hs
import hyperslab.xarray as ours
import netCDF4
import numpy as np
import xarray as xr

_ENCODING = {"zlib": True, "complevel": 4, "shuffle": True}
_VARIABLES = 20
_WIDTH = 1000

Program = Callable[[Path], Any]


def _ocean(megabytes: int) -> xr.Dataset:
    """Two fields that compress as model output does."""
    rows = max(megabytes * 2**20 // 8 // 512 // 512, 1)
    random = np.random.default_rng(0)
    wave = np.sin(np.arange(512)[:, None] / 50) + np.cos(np.arange(512)[None] / 30)
    noise = random.integers(0, 50, (8, 512, 512), "i4") / 1000
    fields = {
        name: (
            ("time", "y", "x"),
            np.stack([wave + step + noise[row % 8] for row in range(rows)]).astype("f4"),
        )
        for step, name in enumerate(("sst", "salt"))
    }
    ds = xr.Dataset(fields, {"time": np.arange(rows)})
    for name in fields:
        ds[name].encoding.update(_ENCODING, chunksizes=(1, 512, 512))
    return ds


def _writers(ds: xr.Dataset) -> dict[str, Program]:
    def theirs(engine: Any) -> Program:
        return lambda path: ds.to_netcdf(path, engine=engine)

    return {
        "hyperslab": lambda path: ours.to_netcdf(ds, path),
        "netcdf4": theirs("netcdf4"),
        "h5netcdf": theirs("h5netcdf"),
    }


def _step(number: int) -> np.ndarray[Any, Any]:
    return np.arange(_WIDTH, dtype="f4") + number


def _append_ours(steps: int) -> Program:
    def write(path: Path) -> None:
        with hs.File(path, "w", netcdf=True) as file:
            file.create_dimension("time", None)
            file.create_dimension("x", _WIDTH)
            arrays = [
                file.create_variable(
                    f"v{n}", ("time", "x"), "f4", chunks=(16, _WIDTH), compression="gzip", shuffle=True
                )
                for n in range(_VARIABLES)
            ]
            for number in range(steps):
                for array in arrays:
                    array.append(_step(number)[None])

    return write


def _append_theirs(steps: int) -> Program:
    def write(path: Path) -> None:
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", _WIDTH)
            arrays = [
                file.createVariable(
                    f"v{n}", "f4", ("time", "x"), zlib=True, chunksizes=(16, _WIDTH), fill_value=False
                )
                for n in range(_VARIABLES)
            ]
            for number in range(steps):
                for array in arrays:
                    array[number] = _step(number)

    return write


def _part(first: int, count: int) -> xr.Dataset:
    values = np.stack([_step(number) for number in range(first, first + count)])
    ds = xr.Dataset({f"v{n}": (("time", "x"), values) for n in range(_VARIABLES)})
    return ds.assign_coords(time=np.arange(first, first + count))


def _append_datasets(steps: int) -> Program:
    def write(path: Path) -> None:
        encoding = {f"v{n}": {"zlib": True, "chunksizes": (16, _WIDTH)} for n in range(_VARIABLES)}
        ours.to_netcdf(_part(0, 1), path, unlimited_dims="time", encoding=encoding)
        for number in range(1, steps):
            ours.to_netcdf(_part(number, 1), path, append_dim="time")

    return write


def _append_reopened_ours(steps: int) -> Program:
    def write(path: Path) -> None:
        _append_ours(1)(path)
        for number in range(1, steps):
            with hs.File(path, "a") as file:
                for n in range(_VARIABLES):
                    file[f"v{n}"].append(_step(number)[None])

    return write


def _append_reopened(steps: int) -> Program:
    def write(path: Path) -> None:
        _append_theirs(1)(path)
        for number in range(1, steps):
            with netCDF4.Dataset(path, "a") as file:
                for n in range(_VARIABLES):
                    file[f"v{n}"][number] = _step(number)

    return write


def _written() -> int:
    """Bytes that this process has written so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def _measured(programs: dict[str, Program], rounds: int, folder: Path) -> dict[str, tuple[float, int]]:
    """Returns seconds and written bytes of each program: the medians of all rounds but the first."""
    taken: dict[str, list[tuple[float, int]]] = {name: [] for name in programs}
    for _ in range(rounds + 1):
        for name, program in programs.items():
            before, start = _written(), time.perf_counter()
            program(folder / f"{name}.nc")
            taken[name].append((time.perf_counter() - start, _written() - before))
    return {
        name: (statistics.median(t for t, _ in found[1:]), int(statistics.median(n for _, n in found[1:])))
        for name, found in taken.items()
    }


def _compare(programs: dict[str, Program], folder: Path) -> None:
    first, *others = (xr.open_dataset(folder / f"{name}.nc", engine="netcdf4") for name in programs)
    for other in others:
        for name in first.data_vars:
            np.testing.assert_array_equal(first[name], other[name])


def _rows(megabytes: int, steps: int) -> dict[str, Callable[[], dict[str, Program]]]:
    return {
        f"to_netcdf, {megabytes} MB in memory": lambda: _writers(_ocean(megabytes)),
        f"to_netcdf, {megabytes} MB from threads of dask": lambda: _writers(_ocean(megabytes).chunk(time=4)),
        f"append {steps} steps to {_VARIABLES} variables, one handle": lambda: {
            "hyperslab": _append_ours(steps),
            "netCDF4-python": _append_theirs(steps),
        },
        f"append {steps} steps to {_VARIABLES} variables, opened for each step": lambda: {
            "hyperslab": _append_reopened_ours(steps),
            "hyperslab to_netcdf": _append_datasets(steps),
            "netCDF4-python": _append_reopened(steps),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", default="")
    options = parser.parse_args()
    dask.config.set(scheduler="threads")
    print("| written | program | s | MB written | ratio |\n|---|---|---|---|---|")
    for row, make in _rows(options.megabytes, options.steps).items():
        if options.row not in row:
            continue
        programs = make()
        with tempfile.TemporaryDirectory() as folder:
            found = _measured(programs, options.rounds, Path(folder))
            _compare(programs, Path(folder))
        fastest = next(iter(found.values()))[0]
        for name, (seconds, count) in found.items():
            ratio = f"{seconds / fastest:.1f} ×"
            print(f"| {row} | {name} | {seconds:.3f} | {count / 1e6:.1f} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
