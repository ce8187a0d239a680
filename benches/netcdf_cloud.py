"""NetCDF-4 straight to S3: hyperslab beside the encoder alone and the line alone.

    python benches/netcdf_cloud.py [--megabytes 2000] [--rounds 3] [--row NAME] [--per-connection 100e6]

The server (tests/lib/object_server.py) takes 30 ms to the first byte, and 1 GB/s in total.

| program | what it does |
|---|---|
| hyperslab | writes the file to the server |
| encoder | the same call, to a file in memory or on the disk |
| line | sends the bytes of the same file, in objects of 8 MiB, from 16 threads of another process |
| both | encoder and line at the same time |

No program can be faster than the slower of encoder and line. The server takes processor time beside the
encoder on the same machine, as does the line's program, so `both` is what can be reached here. `share` is
the part of the speed of `both` that hyperslab has; `share of one`, the part of the speed of the slower of
encoder and line, each alone. The last round's file is read back and compared.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import common
import hyperslab as hs
import hyperslab.xarray as ours
import numpy as np
import xarray as xr
from cloud_plain import answer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
import object_server_client

LATENCY, IN_ALL = 0.03, 1e9
PART, CONNECTIONS = 8 << 20, 16

Program = Callable[[Any], Any]


def _ocean(megabytes: int) -> xr.Dataset:
    shape = (max(megabytes * 10**6 // 8 // 512 // 512, 1), 512, 512)
    fields = {
        name: (("time", "y", "x"), np.stack(list(common.ocean_steps(shape, seed=seed))))
        for seed, name in enumerate(("sst", "salt"))
    }
    ds = xr.Dataset(fields, {"time": np.arange(shape[0])})
    for name in fields:
        ds[name].encoding.update(zlib=True, complevel=4, shuffle=True, chunksizes=(1, 512, 512))
    return ds


def _rows(folder: Path, ds: xr.Dataset, options: dict[str, str]) -> dict[str, Program]:
    """Returns programs that write a file to a path or to a URL."""
    source = folder / "source.zarr"
    encoding = {str(name): {"chunks": (1, 512, 512)} for name in ds.data_vars}
    ours.to_zarr(ds, source, mode="w", encoding=encoding)

    def written(ds: xr.Dataset) -> Program:
        def write(place: Any) -> None:
            ours.to_netcdf(ds, place, storage_options=options if "://" in str(place) else None)

        return write

    def copied(**how: Any) -> Program:
        def copy(place: Any) -> None:
            storage = options if "://" in str(place) else None
            hs.copy(source, place, overwrite=True, storage_options=storage, **how)

        return copy

    return {
        "copy, zlib 4": copied(compressors="zlib:4"),
        "copy, zstd": copied(compressors="zstd"),
        "to_netcdf, zlib 4, in memory": written(ds),
        "to_netcdf, zlib 4, blocks of dask": written(ds.chunk(time=8)),
    }


def _send(url: str, path: Path) -> None:
    """Sends the bytes of a file in parts, from many threads."""
    netloc, local = urlsplit(url).netloc, threading.local()
    image = path.read_bytes()
    view = memoryview(image)

    def one(start: int) -> None:
        answer(local, netloc, "PUT", f"/bucket/line/{start}", view[start : start + PART])

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(one, range(0, len(image), PART)))


def _measure(
    server: object_server_client.Server,
    line: Executor,
    folder: Path,
    write: Program,
    rounds: int,
    options: dict[str, str],
) -> tuple[dict[str, common.Timing], int]:
    here, sent, url = folder / "here.nc", folder / "sent.nc", "s3://bucket/there.nc"
    write(sent)

    def send() -> None:
        line.submit(_send, server.url, sent).result()

    def both() -> None:
        sending = line.submit(_send, server.url, sent)
        write(here)
        sending.result()

    work: dict[str, Callable[[], Any]] = {
        "hyperslab": lambda: write(url),
        "encoder": lambda: write(here),
        "line": send,
        "both": both,
    }
    found = {name: common.Timing() for name in work}
    for number, name in common.turns(found, rounds):
        server.control(drop=["bucket"], buckets=["bucket"])
        with common.timed(common.Timing() if number < 0 else found[name]):
            work[name]()
        if number == rounds - 1 and name == "hyperslab":
            with (
                hs.open_group(url, mode="r", storage_options=options) as one,
                hs.open_group(here, mode="r") as other,
            ):
                for variable in ("sst", "salt"):
                    found_values: Any = one[variable]
                    expected: Any = other[variable]
                    np.testing.assert_array_equal(found_values[...], expected[...])
    return found, sent.stat().st_size


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", default="")
    parser.add_argument("--per-connection", type=float, default=100e6, help="bytes per second")
    arguments = parser.parse_args()
    lines = []
    with (
        tempfile.TemporaryDirectory() as directory,
        object_server_client.Server() as server,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as line,
    ):
        server.control(latency=LATENCY, per_connection=arguments.per_connection, in_all=IN_ALL)
        folder, options = Path(directory), server.s3_options
        for row, write in _rows(folder, _ocean(arguments.megabytes), options).items():
            if arguments.row not in row:
                continue
            found, size = _measure(server, line, folder, write, arguments.rounds, options)
            times = {name: timing.median for name, timing in found.items()}
            limits = times["both"], max(times["encoder"], times["line"])
            shares = [f"{limit / times['hyperslab']:.2f}" for limit in limits]
            cells = [common.seconds_text(seconds) for seconds in times.values()]
            lines.append([row, f"{size / 1e6:.0f} MB", *cells, *shares])
            print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    columns = ("hyperslab", "encoder", "line", "both", "share", "share of one")
    header = (f"{arguments.megabytes} MB to S3", "file", *columns)
    print(common.table(header, lines, markdown=True))


if __name__ == "__main__":
    main()
