"""Arrays and datasets that dask writes on a cluster whose workers are killed: all values are right.

Through `hyperslab.dask`, dask's own `store`, xarray's `to_zarr` and ours, on disk and on a server.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import hyperslab as hs
import hyperslab.dask as hd
import hyperslab.xarray
import hyperslab.zarr
import numpy as np
import pytest
from killing import killing
from object_server_client import Server
from support import assert_same, dask_cluster, kills

distributed = pytest.importorskip("distributed")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore")


SHAPE = (240, 100)
# Blocks of dask share shards and chunks, except where xarray refuses that.
CHUNKS: dict[str, Any] = {"chunks": (10, 10), "shards": (60, 50)}
PIPELINE = {"codec_pipeline.path": "hyperslab.zarr.CodecPipeline", "codec_pipeline.strict": True}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    """Connects to three workers, which know the server's secrets from their environment."""
    settings = {
        "distributed.scheduler.allowed-failures": 10_000,
        # A worker that is killed twice within this time is not replaced.
        "distributed.deploy.lost-worker-timeout": "1 day",
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        # zarr-python's settings of the workers.
        environment.setenv("ZARR_CODEC_PIPELINE__PATH", PIPELINE["codec_pipeline.path"])
        environment.setenv("ZARR_CODEC_PIPELINE__STRICT", "True")
        with (
            dask_cluster(workers=3, threads=2, settings=settings) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


class Places:
    """Places for one write after the other, on disk or on a server."""

    def __init__(self, where: str, root: Path, server: Server) -> None:
        self._where, self._root, self._server, self._count = where, root, server, 0

    def next(self) -> tuple[str, dict[str, Any]]:
        """Returns a place where nothing is, and the options to reach it."""
        self._count += 1
        if self._where == "disk":
            return str(self._root / f"a{self._count}.zarr"), {}
        self._server.control(drop=["bucket"], buckets=["bucket"])
        options = {"endpoint_url": self._server.url, "region": "us-east-1"}
        return f"s3://bucket/a{self._count}.zarr", {"storage_options": options}

    def is_written(self, place: str) -> bool:
        """Returns true if a chunk is stored."""
        if self._where == "server":
            keys = self._server.list("bucket")
        else:
            keys = [path.name for path in self._root.rglob("*") if path.is_file()]
        return any(not key.endswith("zarr.json") for key in keys)


@pytest.fixture(params=["disk", "server"])
def places(request: Any, tmp_path: Path, server: Server) -> Places:
    return Places(request.param, tmp_path, server)


def slowly(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.03)
    return block


def values(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.integers(0, 1 << 30, SHAPE, dtype="i4")


def blocks(values: np.ndarray[Any, Any], chunks: tuple[int, int]) -> Any:
    return da.from_array(values, chunks=chunks).map_blocks(slowly, dtype=values.dtype)


def under_kills(
    client: Any, seed: int, places: Places, write: Callable[[np.ndarray[Any, Any], str, Any], Any]
) -> None:
    """Writes values to places, with killed workers, and compares what zarr-python reads."""
    chance, rng, killed = random.Random(seed), np.random.default_rng(seed), 0
    wanted = kills(2)
    while killed < wanted:
        place, options = places.next()
        expected = values(rng)

        def find() -> list[int]:
            found = client.run(os.getpid, on_error="ignore").values()
            return [pid for pid in found if pid is not None]

        with killing(
            find, chance, every=0.15, most=2, when=lambda place=place: places.is_written(place)
        ) as pids:
            path = write(expected, place, options)
        killed += len(pids)
        store = hyperslab.zarr.Store(place, **options, read_only=True)
        found = zarr.open_group(store, mode="r")[path] if path else zarr.open_array(store, mode="r")
        assert_same(found[...], expected, f"seed {seed}, {place}")


@pytest.mark.parametrize("how", ["rechunk", "serialize", "theirs"])
def test_store(client: Any, seed: int, places: Places, how: Any) -> None:
    def write(expected: np.ndarray[Any, Any], place: str, options: Any) -> str:
        z = hs.create_array(place, shape=SHAPE, dtype="i4", **CHUNKS, **options)
        if how == "theirs":
            da.store(blocks(expected, (35, 30)), z, lock=False)
        else:
            hd.store(blocks(expected, (35, 30)), z, align=how)
        return ""

    under_kills(client, seed, places, write)


@pytest.mark.parametrize("how", ["ours", "our store"])
def test_to_zarr(client: Any, seed: int, places: Places, how: Any) -> None:
    def write(expected: np.ndarray[Any, Any], place: str, options: Any) -> str:
        ds = xr.Dataset({"v": (("y", "x"), blocks(expected, (60, 50)))})
        if how == "ours":
            hyperslab.xarray.to_zarr(ds, place, encoding={"v": CHUNKS}, **options)
        else:
            with zarr.config.set(PIPELINE):
                store = hyperslab.zarr.Store(place, **options)
                ds.to_zarr(store, encoding={"v": CHUNKS}, zarr_format=3)
        return "v"

    under_kills(client, seed, places, write)


def test_to_zarr_with_our_pipeline(client: Any, seed: int, tmp_path: Path, server: Server) -> None:
    """In zarr-python's own store."""

    def write(expected: np.ndarray[Any, Any], place: str, options: Any) -> str:
        ds = xr.Dataset({"v": (("y", "x"), blocks(expected, (60, 50)))})
        with zarr.config.set(PIPELINE):
            ds.to_zarr(place, encoding={"v": CHUNKS}, zarr_format=3)
        return "v"

    under_kills(client, seed, Places("disk", tmp_path, server), write)
