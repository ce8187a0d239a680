"""1000 concurrent, awaited reads of one chunk each, compared with zarr-python's async arrays.

    python benches/async_rows.py [--repeat 5]

Reads local files and the test server with 30 ms of latency. zarr-python reads the server through
obstore.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

COUNT, SIDE = 1000, 64


async def seconds(reads: Callable[[], list[Awaitable[Any]]]) -> float:
    """Returns the seconds until all reads, started at once, are done."""
    begin = time.perf_counter()
    found = await asyncio.gather(*reads())
    spent = time.perf_counter() - begin
    assert [int(chunk[0, 0]) for chunk in found] == list(range(COUNT))
    return spent


def place(number: int) -> tuple[slice, slice]:
    return slice(number * SIDE, (number + 1) * SIDE), slice(None)


async def measure(name: str, ours: hs.Array, theirs: Any, repeat: int) -> None:
    """Prints the best time of each contender. The contenders take turns."""
    array = hs.AsyncArray(ours)
    times: dict[str, list[float]] = {"read_async": [], "AsyncArray": [], "zarr-python": []}
    for _ in range(repeat):
        times["read_async"].append(await seconds(lambda: [ours.read_async(place(n)) for n in range(COUNT)]))
        times["AsyncArray"].append(await seconds(lambda: [array.getitem(place(n)) for n in range(COUNT)]))
        times["zarr-python"].append(await seconds(lambda: [theirs.getitem(place(n)) for n in range(COUNT)]))
    best = {who: min(spent) for who, spent in times.items()}
    for who, spent in best.items():
        print(f"{name:<8} {who:<12} {spent * 1e3:8.1f} ms   {best['zarr-python'] / spent:5.1f} x")


async def run(repeat: int) -> None:
    """Prints both rows."""
    from object_server_client import Server
    from obstore.store import S3Store
    from zarr.api import asynchronous
    from zarr.storage import ObjectStore

    values = np.repeat(np.arange(COUNT, dtype="i4"), SIDE * SIDE).reshape(COUNT * SIDE, SIDE)
    with tempfile.TemporaryDirectory() as directory, Server() as server:
        ours = hs.create_array(f"{directory}/a", data=values, chunks=(SIDE, SIDE))
        theirs = await asynchronous.open_array(store=f"{directory}/a", mode="r")
        await measure("local", ours, theirs, repeat)
        store = hs.storage.RemoteStore("s3://bucket/a", storage_options=server.s3_options)
        ours = hs.create_array(store, data=values, chunks=(SIDE, SIDE))
        options = {**server.s3_options, "allow_http": True, "virtual_hosted_style_request": False}
        remote = ObjectStore(S3Store("bucket", prefix="a", config=options), read_only=True)
        theirs = await asynchronous.open_array(store=remote, mode="r")
        server.control(latency=0.03)
        await measure("30 ms", ours, theirs, repeat)
        more = {**server.s3_options, "concurrency": 256}
        store = hs.storage.RemoteStore("s3://bucket/a", storage_options=more)
        await measure("256 each", hs.open_array(store, mode="r"), theirs, repeat)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    asyncio.run(run(parser.parse_args().repeat))
