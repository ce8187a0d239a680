"""xarray's engine "hyperslab" compared with xarray's own engines, on the same data.

    python benches/xarray_rows.py                  small data: 34 MB
    python benches/xarray_rows.py --full           2 GB
    python benches/xarray_rows.py --row series --rounds 5
    python benches/xarray_rows.py --row to_zarr --write-steps 128

Every row includes opening. The engines take turns in one process, and their values are compared. A
ratio is the time of "hyperslab" divided by the time of the fastest other engine. The largest
allowed ratio is beside it.

The second table is about writing: `hyperslab.xarray.to_zarr` and `Dataset.to_zarr` with several
codec pipelines of zarr-python. Its ratio is the time of `Dataset.to_zarr` with the default
pipeline, divided by ours.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import hyperslab as hs
import hyperslab.zarr  # the pipeline
import netCDF4
import numpy as np
import xarray as xr
import zarr
from hyperslab.xarray import BackendEntrypoint, to_zarr
from zarr.codecs import ZstdCodec

OURS = "hyperslab"
ENGINES: dict[str, Any] = {
    OURS: BackendEntrypoint,
    "zarr": "zarr",
    "netcdf4": "netcdf4",
    "h5netcdf": "h5netcdf",
}
ZARR, NETCDF = (OURS, "zarr"), (OURS, "netcdf4", "h5netcdf")
# The row that opens many variables leaves out engines that need more than a minute for it.
OPENING = (OURS, "netcdf4")
VARIABLES = 1000

# Writers of datasets, by their zarr-python codec pipeline.
WRITERS: dict[str, str | None] = {
    OURS: None,
    "xarray": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "with fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "with zarrs": "zarrs.ZarrsCodecPipeline",
    "with our pipeline": "hyperslab.zarr.CodecPipeline",
}

Read = Callable[[xr.Dataset], Any]


@dataclass
class Row:
    """A measurement: opens something and reads from it."""

    name: str
    place: Path
    engines: tuple[str, ...]
    target: float
    read: Read | None = None


def sharded(place: Path, shape: tuple[int, ...]) -> None:
    """Writes a variable in shards of many chunks."""
    time, height, width = shape
    chunks, shards = (8, height // 4, width // 4), (min(64, time), height // 2, width // 2)
    group = hs.create_group(place, zarr_format=3)
    names = ["time", "y", "x"]
    array = group.create_array(
        "sst",
        shape=shape,
        dtype="f4",
        chunks=chunks,
        shards=shards,
        dimension_names=names,
        compressors="auto",
    )
    for start, values in blocks(shape, shards[0]):
        array[start : start + len(values)] = values
    group.consolidate()


def netcdf(place: Path, shape: tuple[int, ...]) -> None:
    """Writes a variable in chunks, shuffled and compressed with zlib."""
    with netCDF4.Dataset(place, "w") as file:
        for name, length in zip(("time", "y", "x"), shape, strict=True):
            file.createDimension(name, length)
        chunks = (8, shape[1] // 4, shape[2] // 4)
        variable = file.createVariable(
            "sst", "f4", ("time", "y", "x"), zlib=True, complevel=1, shuffle=True, chunksizes=chunks
        )
        for start, values in blocks(shape, 8):
            variable[start : start + len(values)] = values


def blocks(shape: tuple[int, ...], count: int) -> Iterator[tuple[int, common.Array]]:
    """Yields time steps, ``count`` at once. After 64 steps they repeat."""
    fields = list(common.ocean_steps((min(64, shape[0]), *shape[1:])))
    for start in range(0, shape[0], count):
        yield start, np.stack([fields[n % len(fields)] for n in range(start, min(start + count, shape[0]))])


def many_variables(directory: Path) -> list[Row]:
    """Returns rows that open datasets of many small variables."""
    made = xr.Dataset(
        {
            f"v{number:04}": xr.Variable(
                ("time", "y", "x"),
                np.zeros((2, 4, 5), "f4"),
                {"units": "K", "long_name": f"variable {number}"},
                {"_FillValue": np.float32(-9)},
            )
            for number in range(VARIABLES)
        },
        {"time": ("time", np.arange(2), {"units": "days since 2000-01-01"}), "x": np.arange(5.0)},
    )
    rows = []
    for zarr_format in (2, 3):
        place = directory / f"many{zarr_format}.zarr"
        made.to_zarr(place, zarr_format=zarr_format, consolidated=True)
        name = f"open {VARIABLES} variables, Zarr v{zarr_format}, consolidated"
        rows.append(Row(name, place, ZARR, 0.7))
    encoding = {name: {"zlib": True, "chunksizes": (1, 4, 5)} for name in made.data_vars}
    made.to_netcdf(directory / "many.nc", engine="netcdf4", encoding=encoding)
    rows.append(Row(f"open {VARIABLES} variables, NetCDF-4", directory / "many.nc", OPENING, 0.7))
    return rows


def reads(place: Path, what: str, engines: tuple[str, ...], shape: tuple[int, ...]) -> list[Row]:
    """Returns rows that read a large variable, in parts and whole."""
    time, height, width = shape
    rng = np.random.default_rng(0)
    stations = {name: ("station", rng.integers(0, n, 20)) for name, n in (("y", height), ("x", width))}
    parts: dict[str, Read] = {
        "a series at a point": lambda opened: opened["sst"][:, height // 3, width // 3].values,
        "a map at a time": lambda opened: opened["sst"][time // 2].values,
        "series at 20 stations": lambda opened: opened["sst"].isel(stations).values,
        "every third map, a list of rows": lambda opened: (
            opened["sst"].isel(time=slice(0, 48, 3), y=[5, 1, 9]).values
        ),
        "all": lambda opened: opened["sst"].values,
    }
    return [Row(f"{name}, {what}", place, engines, 0.5, read) for name, read in parts.items()]


def rows(directory: Path, full: bool) -> list[Row]:
    """Makes the data of all rows and returns the rows."""
    shape = (1000, 512, 1024) if full else (64, 256, 512)
    sharded(directory / "sharded.zarr", shape)
    netcdf(directory / "plain.nc", shape)
    return [
        *many_variables(directory),
        *reads(directory / "sharded.zarr", "Zarr v3 sharded", ZARR, shape),
        *reads(directory / "plain.nc", "NetCDF-4", NETCDF, shape),
    ]


def run(row: Row, engine: str) -> Any:
    """Opens, reads and closes a dataset."""
    with xr.open_dataset(row.place, engine=ENGINES[engine], cache=False) as opened:
        return None if row.read is None else row.read(opened)


def measure(row: Row, rounds: int) -> dict[str, common.Timing]:
    """Returns the times of all engines and compares their values."""
    found = {engine: common.Timing() for engine in row.engines}
    expected: Any = None
    for number, engine in common.turns(row.engines, rounds):
        if number < 0:
            values = run(row, engine)
            if expected is not None and not common.same_bits(values, expected):
                sys.exit(f"{row.name}: {engine} has other values")
            expected = values
            continue
        with common.timed(found[engine]):
            run(row, engine)
    return found


@dataclass
class WriteRow:
    """A dataset to write."""

    name: str
    dataset: xr.Dataset
    encoding: dict[str, Any]


def write_rows(steps: int) -> list[WriteRow]:
    """Returns a Zstandard-compressed variable: chunks and shards, in memory and in dask blocks."""
    shape = (steps, 512, 1024)
    values = np.concatenate([part for _, part in blocks(shape, min(steps, 64))])
    dataset = xr.Dataset({"sst": (("time", "y", "x"), values)}, {"time": np.arange(steps)})
    plain = {"chunks": (8, 128, 256), "compressors": [ZstdCodec(level=3)]}
    layouts = {"chunks": (plain, 8), "shards": (plain | {"shards": (32, 256, 512)}, 32)}
    rows = []
    for what, (encoding, length) in layouts.items():
        name = f"to_zarr of {common.bytes_text(values.nbytes)}, zstd, {what}"
        rows.append(WriteRow(name, dataset, {"sst": encoding}))
        rows.append(WriteRow(f"{name}, dask threads", dataset.chunk(time=length), {"sst": encoding}))
    return rows


def write(row: WriteRow, writer: str, place: Path) -> None:
    """Writes a dataset with one writer."""
    pipeline = WRITERS[writer]
    if pipeline is None:
        to_zarr(row.dataset, place, encoding=row.encoding, consolidated=True, zarr_format=3)
        return
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        row.dataset.to_zarr(place, encoding=row.encoding, consolidated=True, zarr_format=3)


def measure_writing(row: WriteRow, rounds: int, directory: Path) -> dict[str, common.Timing]:
    """Returns the times of all installed writers. Compares their output with the values."""
    missing = {"with zarrs"} if importlib.util.find_spec("zarrs") is None else set()
    found = {writer: common.Timing() for writer in WRITERS if writer not in missing}
    place = directory / "written.zarr"
    for number, writer in common.turns(found, rounds):
        shutil.rmtree(place, ignore_errors=True)
        if number >= 0:
            with common.timed(found[writer]):
                write(row, writer, place)
            continue
        write(row, writer, place)
        stored = xr.open_dataset(place, engine=BackendEntrypoint)
        if not common.same_bits(stored["sst"].values, row.dataset["sst"].values):
            sys.exit(f"{row.name}: {writer} wrote other values")
    shutil.rmtree(place, ignore_errors=True)
    return found


def report_writing(arguments: argparse.Namespace, directory: Path) -> None:
    """Prints the table of writing."""
    steps = arguments.write_steps or (1000 if arguments.full else 16)
    lines = []
    for row in write_rows(steps):
        if arguments.row and not any(part in row.name for part in arguments.row):
            continue
        # The best time: other work on the machine only adds.
        best = {
            writer: min(timing.samples)
            for writer, timing in measure_writing(row, arguments.rounds, directory).items()
        }
        cells = [common.seconds_text(best[name]) if name in best else "" for name in WRITERS]
        ratio = f"{best['xarray'] / best[OURS]:.2f}"
        lines.append([row.name, *cells, ratio, "≥ 1.5"])
        print(f"{row.name}: {ratio}", file=sys.stderr)
    if lines:
        print(common.table(("time, best", *WRITERS, "ratio", "target"), lines))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="data of 2 GB")
    parser.add_argument("--row", action="append", help="measure only rows with this in their name")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each engine (%(default)s)")
    parser.add_argument("--write-steps", type=int, help="time steps of 2 MB that the rows of writing write")
    return parser.parse_args()


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    arguments = parse_arguments()
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        report_writing(arguments, Path(directory))
        # Create no data for reading if no such row is selected.
        reading = not arguments.row or any("to_zarr" not in part for part in arguments.row)
        for row in rows(Path(directory), arguments.full) if reading else ():
            if arguments.row and not any(part in row.name for part in arguments.row):
                continue
            found = measure(row, arguments.rounds)
            medians = {engine: timing.median for engine, timing in found.items()}
            best = min(median for engine, median in medians.items() if engine != OURS)
            cells = [common.seconds_text(medians[name]) if name in medians else "" for name in ENGINES]
            lines.append([row.name, *cells, f"{medians[OURS] / best:.2f}", f"≤ {row.target}"])
            print(f"{row.name}: {medians[OURS] / best:.2f}", file=sys.stderr)
    if lines:
        print(common.table(("time", *ENGINES, "ratio", "target"), lines))


if __name__ == "__main__":
    main()
