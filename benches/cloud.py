"""Object stores: hyperslab and its peers, on a server as slow as S3.

    python benches/cloud.py                  small data: does it work?
    python benches/cloud.py --full           2 GB
    python benches/cloud.py --row "whole array" --rounds 5

The server (tests/lib/object_server.py) takes 30 ms to the first byte. It gives 100 MB/s to each
connection and 1 GB/s in total. It also counts: each cell shows the time, the requests and the
rounds (requests that waited for one another). `limit` is the larger of fewest rounds × latency and
bytes ÷ bandwidth: no client can be faster. `plain` is a loop around libzstd in threads
(cloud_plain.py). It shows the best this machine can do while the server shares its cores. A cell is
empty if the library cannot do the row; the reason is printed below the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
import zarr
from cloud_libraries import LIBRARIES, Cannot, Library, Server
from cloud_plain import Plain
from common import MIB, Array

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
import object_server_client

LATENCY, PER_CONNECTION, IN_ALL = 0.03, 100e6, 1e9
ARRAYS = ("hyperslab", "zarr, obstore", "zarr, fsspec", "fused, obstore", "zarrista", "tensorstore")
GROUPS = ("hyperslab", "zarr, obstore", "zarr, fsspec")
CHUNKS = (*ARRAYS, "plain")
CONTENDERS: dict[str, Library] = {**LIBRARIES, "plain": Plain()}
FILES = ("hyperslab", "h5py, fsspec", "h5netcdf")


@dataclass
class Work:
    """The measured work of one library: `run` gets what `prepare` made for this run."""

    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None


@dataclass
class Row:
    """A row of the table."""

    name: str
    libraries: Iterable[str]
    work: Callable[[Library], Work]
    # The fewest rounds, and the bytes that must be moved.
    rounds: int
    size: int

    @property
    def limit(self) -> float:
        """The least time, in seconds."""
        return max(self.rounds * LATENCY, self.size / IN_ALL)


@dataclass
class Found:
    """The measurements of one library."""

    timing: common.Timing = field(default_factory=common.Timing)
    requests: int = 0
    rounds: int = 0
    why_not: str = ""

    @property
    def text(self) -> str:
        """The cell of the table."""
        if self.why_not:
            return ""
        return f"{common.seconds_text(self.timing.median)} ({self.requests}, {self.rounds})"


# ------------------------------------------------------------------------------------------ data


def make_zarr(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], **how: Any) -> int:
    """Writes an array of compressed noise and waves. Returns the size of its chunks in bytes."""
    array = zarr.create_array(
        path, shape=shape, chunks=chunks, dtype="f4", compressors=zarr.codecs.ZstdCodec(level=1), **how
    )
    outer = how.get("shards", chunks)[0]
    for start in range(0, shape[0], outer):
        stop = min(start + outer, shape[0])
        # Every chunk differs from the others, and none consists of the fill value.
        array[start:stop] = np.stack(list(common.ocean_steps((stop - start, *shape[1:]), seed=start)))
    return common.disk_usage(path)


def make_group(path: Path, count: int) -> int:
    """Writes many small arrays with consolidated metadata."""
    root = zarr.create_group(path)
    for number in range(count):
        root.create_array(f"a{number:04}", shape=(10,), dtype="f4", attributes={"unit": "K"})
    zarr.consolidate_metadata(path)
    return (path / "zarr.json").stat().st_size


def make_hdf5(path: Path, variables: int, planes: int) -> None:
    """Writes a file of 100 variables, chunked by plane (1 MiB)."""
    import h5netcdf

    rng = np.random.default_rng(0)
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"t": planes, "y": 512, "x": 512}
        for number in range(variables):
            chunks = (1, 512, 512)
            variable = file.create_variable(f"v{number:03}", ("t", "y", "x"), "f4", chunks=chunks)
            variable[:] = rng.standard_normal((planes, 512, 512), "f4")
            variable.attrs["unit"], variable.attrs["long_name"] = "K", f"variable {number}"


# ------------------------------------------------------------------------------------------ rows


def rows(folder: Path, server: Server, full: bool) -> list[Row]:
    """Makes the data of all rows and returns the rows."""
    series, whole, arrays = (1000, 256, 1000) if full else (50, 8, 100)
    make_zarr(folder / "series", (series, 512, 512), (1, 512, 512))
    size = make_zarr(folder / "whole", (whole, 1024, 2048), (1, 1024, 2048))
    make_zarr(folder / "shards", (20, 1024, 1024), (1, 64, 64), shards=(1, 1024, 1024))
    metadata = make_group(folder / "group", arrays)
    make_hdf5(folder / "file.h5", 100, 10 if full else 1)

    rng = np.random.default_rng(1)
    # 10 of the 256 inner chunks of each shard.
    points = np.array(
        [(shard, *(64 * int(n) for n in divmod(inner, 16)))
         for shard in range(20) for inner in rng.choice(256, 10, replace=False)]
    )  # fmt: skip
    coordinates = tuple(points.T)
    values = np.concatenate([step[None] for step in common.ocean_steps((whole, 1024, 2048))])

    def opens(path: str, library: Library) -> Work:
        return Work(lambda _: np.asarray(library.open(server, path).shape))

    def reads(path: str, selection: tuple[int | slice, ...], library: Library) -> Work:
        return Work(lambda array: library.read(array, selection), partial(library.open, server, path))

    def reads_points(library: Library) -> Work:
        return Work(lambda array: library.points(array, coordinates), partial(library.open, server, "shards"))

    def writes(library: Library) -> Work:
        target = Server(server.url, "out")
        return Work(lambda _: library.write(target, "out", values, (1, 1024, 2048)))

    return [
        Row("open an array", ARRAYS, partial(opens, "series"), 1, 0),
        Row(
            f"open a consolidated group of {arrays}",
            GROUPS,
            lambda library: Work(lambda _: np.array(library.names(server, "group"))),
            1,
            metadata,
        ),
        Row("scalar of an open array", ARRAYS, partial(reads, "series", (3, 4, 5)), 1, MIB),
        Row("scalar of a shard, cold index", ARRAYS, partial(reads, "shards", (3, 4, 5)), 2, 0),
        Row(
            f"time series through {series} chunks of 1 MB",
            CHUNKS,
            partial(reads, "series", (slice(None), 100, 100)),
            1,
            common.disk_usage(folder / "series"),
        ),
        Row(
            f"whole array, {common.bytes_text(values.nbytes)}",
            CHUNKS,
            partial(reads, "whole", (slice(None),) * 3),
            1,
            size,
        ),
        Row("200 random inner chunks of 20 shards", ARRAYS, reads_points, 2, 0),
        Row(
            "HDF5, 100 variables: attributes, a plane",
            FILES,
            lambda library: Work(lambda _: flat(library.plane(server, "file.h5", "v050"))),
            2,
            MIB,
        ),
        Row(f"write {common.bytes_text(values.nbytes)}", CHUNKS, writes, 2, size),
    ]


def flat(found: tuple[int, Array]) -> Array:
    """Returns a count and values as one array, for comparison."""
    return np.concatenate([[found[0]], found[1].ravel()])


# --------------------------------------------------------------------------------------- measuring


def measure(row: Row, rounds: int, server: Any) -> dict[str, Found]:
    """Runs all libraries in turn. The first round only compares values and is not timed."""
    found = {name: Found() for name in row.libraries}
    works = {name: row.work(CONTENDERS[name]) for name in row.libraries}
    expected: Array | None = None
    for number, name in common.turns(found, rounds):
        mine = found[name]
        if mine.why_not:
            continue
        server.control(drop=["out"], buckets=["out"])
        try:
            prepared = works[name].prepare()
            server.reset()
            with common.timed(common.Timing() if number < 0 else mine.timing):
                result = works[name].run(prepared)
        except Exception as error:
            # In the first round any error is a reason: the library may not know the kind of
            # address.
            if number >= 0 and not isinstance(error, Cannot):
                raise
            mine.why_not = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            continue
        log = server.log()
        mine.requests, mine.rounds = len(log), server.rounds()
        if number < 0 and result is not None:
            if expected is None:
                expected = result
            elif not np.array_equal(np.sort(result.ravel()), np.sort(expected.ravel())):
                sys.exit(f"{row.name}: {name} has other values")
    return found


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="data of 2 GB")
    parser.add_argument("--row", action="append", help="measure only rows with this in their name")
    parser.add_argument("--rounds", type=int, default=3, help="samples of each library (%(default)s)")
    return parser.parse_args()


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    arguments = parse_arguments()
    # TensorStore takes credentials only from the environment.
    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    lines, reasons = [], []
    with tempfile.TemporaryDirectory() as directory, object_server_client.Server() as server:
        chosen = rows(Path(directory), Server(server.url), arguments.full)
        server.control(
            serve={"bench": directory}, latency=LATENCY, per_connection=PER_CONNECTION, in_all=IN_ALL
        )
        for row in chosen:
            if arguments.row and not any(part in row.name for part in arguments.row):
                continue
            found = measure(row, arguments.rounds, server)
            cells = [found[name].text if name in found else "" for name in CONTENDERS]
            lines.append([row.name, common.seconds_text(row.limit), *cells])
            # Progress on stderr, in case the measurement is stopped.
            print(*filter(None, lines[-1]), sep=" | ", file=sys.stderr, flush=True)
            reasons += [f"{row.name}: {name}: {each.why_not}" for name, each in found.items() if each.why_not]
    print(common.table(("time (requests, rounds)", "limit", *CONTENDERS), lines))
    print("\n" + "\n".join(reasons))


if __name__ == "__main__":
    main()
