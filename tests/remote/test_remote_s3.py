"""Arrays on an S3 server: the requests that they make, and writers on several machines."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize("shards", [None, (100, 100)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays(server: Server, zarr_format: Any, shards: tuple[int, int] | None) -> None:
    if zarr_format == 2 and shards:
        pytest.skip("Zarr v2 has no shards")
    values = np.arange(40_000, dtype="i4").reshape(200, 200)
    url, options = "s3://bucket/a.zarr", server.s3_options
    group = hs.create_group(url, zarr_format=zarr_format, storage_options=options, attributes={"a": 1})
    array = group.create_array("v", shape=(200, 200), dtype="i4", chunks=(50, 50), shards=shards)
    array[:] = values
    array[3, 7] = -1
    array[60:120, 5] = np.arange(60)
    values[3, 7], values[60:120, 5] = -1, np.arange(60)
    found = hs.open_array(f"{url}/v", mode="r", storage_options=options)
    assert np.array_equal(found[:], values)
    assert np.array_equal(found[::7, 13], values[::7, 13])
    assert dict(hs.open_group(url, mode="r", storage_options=options).attrs) == {"a": 1}
    assert [name for name, _ in hs.open_group(url, storage_options=options).arrays()] == ["v"]
    # A partial write leaves only the fill value. It must not undo other writers.
    array[:] = 0
    array[3, 7] = 5
    array[3, 7] = 0
    assert not np.any(found[:])
    del group["v"]
    assert not [key for key in server.list("bucket") if "/v/" in key]


def _write(url: str, options: dict[str, str], writer: int) -> None:
    array = hs.open_array(url, mode="r+", storage_options=options)
    for n in range(writer, 60, 3):
        array[n] = n + 1


@pytest.mark.parametrize("shards", [None, (60,)])
def test_processes_that_write_to_one_chunk_lose_nothing(server: Server, shards: Any) -> None:
    url, options = "s3://bucket/n.zarr", server.s3_options
    hs.create_array(url, shape=(60,), dtype="i4", chunks=(20,), shards=shards, storage_options=options)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(url, options, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = hs.open_array(url, mode="r", storage_options=options)
    assert np.array_equal(found[:], np.arange(1, 61))


def test_shards_come_in_few_rounds(server: Server) -> None:
    values = np.arange(160_000, dtype="i4").reshape(400, 400)
    url, options = "s3://bucket/s.zarr", server.s3_options
    hs.create_array(url, data=values, chunks=(10, 10), shards=(100, 100), storage_options=options)
    rounds, requests, found = server.asked(
        lambda: hs.open_array(url, mode="r", storage_options=options)[:, 5], 3
    )
    assert np.array_equal(found, values[:, 5])
    # Metadata, indexes, chunks.
    assert rounds == 3 and requests <= 5 + 4 + 4


def test_files_of_hdf5_take_few_requests(server: Server, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for n in range(20):
            file[f"g{n}/v"] = np.arange(n + 10)
    server.put("bucket", "x.h5", (tmp_path / "x.h5").read_bytes())
    server.reset()
    file = hs.open_group("s3://bucket/x.h5", mode="r", storage_options=server.s3_options)
    for n in range(20):
        assert np.array_equal(np.asarray(file[f"g{n}/v"]), np.arange(n + 10))
    assert len(server.log()) <= 4, server.requests()


def test_a_forked_child_reads(server: Server) -> None:
    url, options = "s3://bucket/f.zarr", server.s3_options
    array = hs.create_array(url, data=np.arange(100), chunks=(10,), storage_options=options)
    assert array[7] == 7
    pid = os.fork()
    if pid == 0:
        right = False
        try:
            right = bool(np.array_equal(array[:], np.arange(100)))
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert array[8] == 8


def test_servers_without_conditions_warn(server: Server) -> None:
    server.control(conditional_puts="no")
    url, options = "s3://bucket/w.zarr", server.s3_options
    with pytest.warns(RuntimeWarning, match="under the condition"):
        array = hs.create_array(url, shape=(10,), dtype="i4", chunks=(10,), storage_options=options)
        array[:] = 1
        array[3] = 4
    assert array[:].tolist() == [1, 1, 1, 4, 1, 1, 1, 1, 1, 1]
    strict = hs.open_array(url, mode="r+", storage_options={**options, "unconditional": "refuse"})
    with pytest.raises(hs.errors.StoreError, match="under the condition"):
        strict[4] = 5
