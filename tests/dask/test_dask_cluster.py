"""`hyperslab.dask` on a cluster of several processes, with some of them killed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import hyperslab as hs
import hyperslab.dask as hd
import numpy as np
import pytest
from killing import killing
from support import assert_same, dask_cluster

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        dask_cluster(
            workers=3, threads=2, settings={"distributed.scheduler.allowed-failures": 20}
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def data(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


@pytest.mark.parametrize("align", ["rechunk", "serialize"])
def test_misaligned_blocks(client: Any, tmp_path: Path, align: Any) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(60, 50), shards=(16, 12), chunks=(4, 4), dtype="i4", fill_value=-1
    )
    x = da.from_array(data((41, 33)), chunks=(7, 5))
    hd.store(x, z, (slice(3, 44), slice(9, 42)), align=align)
    expected = np.full(z.shape, -1, "i4")
    expected[3:44, 9:42] = data((41, 33))
    assert_same(z[...], expected)


def test_regions_that_share_shards(client: Any, tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(64,), shards=(16,), chunks=(2,), dtype="i4")
    x = da.from_array(data((64,)), chunks=5)
    edges = [0, 7, 9, 13, 30, 31, 50, 64]
    parts = [
        hd.store(x[a:b], z, slice(a, b), compute=False) for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    for future in client.compute(parts):
        future.result()
    assert_same(z[...], data((64,)))


def test_reading(client: Any, tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(60, 50), shards=(16, 12), chunks=(4, 4), dtype="i4")
    z[...] = data(z.shape)
    for x in (
        da.from_array(z),
        hd.from_array(z, "shards"),
        hd.from_array(z, "shards", inline_array=False, threads=1),
    ):
        assert_same((x.T + 1)[::3].compute(), (data(z.shape).T + 1)[::3])


def test_errors_arrive(client: Any, tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(60,), chunks=(6,), dtype="i4")
    z[...] = 1
    (tmp_path / "a" / "c" / "3").write_bytes(b"damaged")
    with pytest.raises(hs.errors.ChunkError, match="c/3"):
        hd.from_array(z, "shards").sum().compute()


def test_memory_is_not_shared(client: Any) -> None:
    with pytest.raises(Exception, match="serialize|MemoryStore"):
        hd.store(da.zeros(4), hs.zeros((4,)))


@pytest.mark.parametrize("align", ["rechunk", "serialize"])
def test_a_worker_is_killed_in_mid_write(client: Any, tmp_path: Path, seed: int, align: Any) -> None:
    """Shards of 2 MB that share blocks, and workers killed as soon as any chunk file exists."""
    shape = (1200, 1000)
    z = hs.create_array(tmp_path / "a", shape=shape, shards=(600, 250), chunks=(50, 50), dtype="i4")
    expected = np.random.default_rng(seed).integers(0, 1 << 30, shape, dtype="i4")
    x = da.from_array(expected, chunks=(170, 130)).map_blocks(slowly, dtype="i4")

    def writing() -> bool:
        return any(path.is_file() for path in (tmp_path / "a").rglob("*") if path.name != "zarr.json")

    def workers() -> list[int]:
        found = client.run(os.getpid, on_error="ignore").values()
        return [pid for pid in found if pid is not None]

    with killing(workers, random.Random(seed), every=0.05, most=2, when=writing) as killed:
        hd.store(x, z, align=align)
    assert killed, f"seed {seed}"
    assert_same(z[...], expected, f"seed {seed}")
    assert_same(hs.open_array(tmp_path / "a")[...], expected, f"seed {seed}")


def slowly(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    time.sleep(0.05)
    return block
