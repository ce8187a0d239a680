"""Reads and writes with await."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from support import assert_same


def data(shape: tuple[int, ...] = (60, 50)) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


@pytest.fixture
def z(tmp_path: Path) -> hs.Array:
    return hs.create_array(tmp_path / "a", data=data(), shards=(24, 20), chunks=(6, 5))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def remote(server: Server, key: str) -> hs.storage.RemoteStore:
    return hs.storage.RemoteStore(f"s3://bucket/{key}", storage_options=server.s3_options)


# ---- the same results


def test_reads(z: hs.Array) -> None:
    expected = data()
    array = hs.AsyncArray(z)
    mask = expected % 7 == 0
    out = np.empty((10, 50), "i4")

    async def run() -> None:
        assert_same(await z.read_async(), expected)
        assert_same(await z.read_async((slice(None, None, -3), 4)), expected[::-3, 4])
        assert await z.read_async(slice(10), out) is out
        assert_same(out, expected[:10])
        assert_same(await z.read_async(slice(5), threads=1, verify=False), expected[:5])
        assert isinstance(await array.getitem((3, 4)), np.int32)
        assert_same(await array.getitem(([1, 1, 7], slice(3))), expected[[1, 1, 7], :3])
        assert_same(await array.oindex.getitem(([3, 1], [2, 2])), expected[[3, 1]][:, [2, 2]])
        assert_same(await array.get_orthogonal_selection(([3, 1], [2])), expected[[3, 1]][:, [2]])
        assert_same(await array.vindex.getitem(([3, 1], [2, 5])), expected[[3, 1], [2, 5]])
        assert_same(await array.get_coordinate_selection(([3, 1], [2, 5])), expected[[3, 1], [2, 5]])
        assert_same(await array.get_mask_selection(mask), expected[mask])
        assert_same(await array.blocks.getitem((1, 0)), expected[24:48, :20])
        assert_same(await array.get_block_selection((1, 0)), expected[24:48, :20])
        assert_same(await array.get_basic_selection(5), expected[5])
        assert (array.shape, array.chunks, array.shards, array.name) == (z.shape, z.chunks, z.shards, z.name)
        assert await array.nbytes_stored() == z.nbytes_stored()
        assert await array.nchunks_initialized() == z.nchunks_initialized
        assert "Storage ratio" in repr(await array.info_complete())

    asyncio.run(run())


def test_writes(z: hs.Array) -> None:
    expected, array = data(), hs.AsyncArray(z)

    async def run() -> None:
        await z.write_async(slice(0, 7), -1)
        await array.setitem((slice(None), 3), 5)
        await array.oindex.setitem(([20, 30], [1, 2]), [[1, 2], [3, 4]])
        await asyncio.gather(*(array.setitem(row, row) for row in range(40, 60)))
        assert await array.append(np.ones((2, 50), "i4")) == (62, 50)
        await array.resize((61, 50))
        await array.update_attributes({"a": 1})
        assert z.async_array == array
        group = hs.create_group(hs.MemoryStore())
        assert (await group.update_attributes_async({"b": 2})).attrs["b"] == 2

    asyncio.run(run())
    expected[:7], expected[:, 3] = -1, 5
    expected[np.ix_([20, 30], [1, 2])] = [[1, 2], [3, 4]]
    expected[40:] = np.arange(40, 60)[:, None]
    assert_same(z[...], np.concatenate([expected, np.ones((1, 50), "i4")]))
    assert z.attrs["a"] == 1


def test_errors_come_back(z: hs.Array) -> None:
    async def run() -> None:
        with pytest.raises(hs.errors.BoundsCheckError):
            await z.read_async(100)
        with pytest.raises(hs.errors.ReadOnlyError):
            await hs.open_array(z.store, mode="r").write_async(0, 1)
        with pytest.raises(hs.errors.NodeNotFoundError):
            await hs.open_async(z.store, path="nothing", mode="r")
        found = await asyncio.gather(z.read_async(99), z.read_async(1), return_exceptions=True)
        assert isinstance(found[0], IndexError)
        assert_same(found[1], data()[1])

    asyncio.run(run())


def test_groups(tmp_path: Path) -> None:
    async def run() -> None:
        group = await hs.AsyncGroup.open(hs.create_group(tmp_path / "g").store)
        array = await group.create_array("a", shape=(3,), dtype="i4")
        below = await group.create_group("b", attributes={"x": 1})
        await below.create_array("c/d", shape=(2,), dtype="u1")
        await array.setitem(..., 7)
        assert isinstance(array, hs.AsyncArray)
        assert isinstance(below, hs.AsyncGroup)
        assert (await group.getitem("a")) == array
        assert (await group.get("b")) == below
        assert await group.get("c", 5) == 5
        assert await group.contains("b/c/d")
        assert not await group.contains("d")
        assert sorted([name async for name in group.keys()]) == ["a", "b"]
        assert [name async for name in group.array_keys()] == ["a"]
        assert [name async for name in group.group_keys()] == ["b"]
        assert [(name, type(node)) async for name, node in group.arrays()] == [("a", hs.AsyncArray)]
        assert [(name, type(node)) async for name, node in group.groups()] == [("b", hs.AsyncGroup)]
        assert sorted([path async for path, _ in group.members(max_depth=None)]) == ["a", "b", "b/c", "b/c/d"]
        assert await group.nmembers() == 2
        assert (await group.get_array("a")).shape == (3,)
        assert (await group.get_group("b")).attrs["x"] == 1
        assert "c" in repr(await group.tree())
        await group.move("b", "e")
        await group.delitem("a")
        await group.setitem("f", np.arange(3))
        assert sorted([name async for name in group.keys()]) == ["e", "f"]
        opened = await hs.open_async(tmp_path / "g", mode="r")
        assert isinstance(opened, hs.AsyncGroup)
        assert opened.read_only
        assert pickle.loads(pickle.dumps(opened)) == opened
        assert "AsyncGroup" in repr(opened)

    asyncio.run(run())


def test_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/z"] = data()

    async def run() -> None:
        group = await hs.open_async(tmp_path / "a.h5")
        assert isinstance(group, hs.AsyncGroup)
        array = await group.get_array("g/z")
        assert_same(await array.getitem(slice(3, 5)), data()[3:5])

    asyncio.run(run())


# ---- many at once


def test_a_thousand_reads_of_a_server_are_one_pool_of_requests(server: Server) -> None:
    z = hs.create_array(remote(server, "many"), data=data((1000, 8)), chunks=(1, 8))
    server.reset()
    server.control(latency=0.03)
    # Other tests in this process may have threads that are still there.
    before = threading.active_count()

    async def run() -> list[Any]:
        return await asyncio.gather(*(z.read_async(row) for row in range(1000)))

    try:
        begin = time.perf_counter()
        rows = asyncio.run(run())
        seconds = time.perf_counter() - begin
    finally:
        server.control(latency=0)
    assert_same(np.stack(rows), data((1000, 8)))
    assert len(server.requests()) == 1000
    # One after the other they would take 30 s.
    assert seconds < 10
    assert threading.active_count() <= before + 340


def test_many_loops(z: hs.Array) -> None:
    async def run() -> list[Any]:
        return await asyncio.gather(*(z.read_async(row) for row in range(60)))

    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(run()))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in (*found, asyncio.run(run())):
        assert_same(np.stack(rows), data())
    assert len(found) == 5


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(z: hs.Array) -> None:
    async def run() -> int:
        return int(sum(row.sum() for row in await asyncio.gather(*(z.read_async(k) for k in range(60)))))

    total = asyncio.run(run())
    child = os.fork()
    if child == 0:
        os._exit(0 if asyncio.run(run()) == total else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- cancelling


def test_cancelling_stops_a_wait_for_a_server(server: Server) -> None:
    z = hs.create_array(remote(server, "slow"), data=data(), chunks=(60, 50))
    server.control(latency=20)

    async def run() -> float:
        tasks = [asyncio.create_task(z.read_async()) for _ in range(100)]
        await asyncio.sleep(0.5)
        begin = time.perf_counter()
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in found)
        return time.perf_counter() - begin

    try:
        assert asyncio.run(run()) < 3
    finally:
        server.control(latency=0)
    assert_same(asyncio.run(z.read_async()), data())


def test_a_timeout_stops_a_write_between_chunks(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(100_000,), chunks=(4,), dtype="i4", fill_value=-1)

    async def run() -> None:
        async with asyncio.timeout(0.1):
            await z.write_async(..., 5)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    written = z.nchunks_initialized
    assert written < z.nchunks
    time.sleep(0.3)
    # Nothing continues in the background. Every chunk is completely old or new.
    assert z.nchunks_initialized == written
    assert int((z[...] == 5).sum()) == 4 * written


def test_what_is_cancelled_before_it_begins_is_not_done(z: hs.Array) -> None:
    async def run() -> None:
        task = asyncio.create_task(z.write_async(..., 0))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = asyncio.create_task(z.write_async(..., 0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert z[-1, -1] == data()[-1, -1] or z[-1, -1] == 0


def test_memory_is_left_alone_after_a_cancel(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(4000, 1000), chunks=(1, 1000), dtype="i4")
    z[...] = 1
    out = np.zeros(z.shape, "i4")

    async def run() -> None:
        task = asyncio.create_task(z.read_async(None, out))
        await asyncio.sleep(0.003)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = out.copy()
        await asyncio.sleep(0.2)
        assert (out == before).all()

    asyncio.run(run())


def test_only_who_asks_for_it_imports_it() -> None:
    late = "{'hyperslab._aio.nodes', 'hyperslab._base.awaiting', 'dask'}"
    code = f"import sys, hyperslab; print({late} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
