"""Ranges of objects on a distant server: one that is late delays no other. Counts and order only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

h5py = pytest.importorskip("h5py")

# Seconds. All other requests take much less, even on a busy machine.
LATE = 4.0
# Elements of a chunk: far more bytes between chunks than are worth reading.
CHUNK = 10_000
COUNT = 120


def options(server: Server) -> dict[str, str]:
    """Returns options with which no gap is read, however slow the server seems."""
    return {**server.s3_options, "coalesce": "100"}


def random(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 1 << 30, shape, "i4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranges")
    with h5py.File(folder / "a.h5", "w") as file:
        values = random((2 * COUNT, CHUNK))
        file.create_dataset("zip", data=values, chunks=(1, CHUNK), compression="gzip", compression_opts=1)
        file.create_dataset("plain", data=values, chunks=(1, CHUNK))
        file.create_dataset("whole", data=random((600, CHUNK)))
    hs.create_array(
        folder / "a.zarr", data=random((COUNT, 2, CHUNK)), chunks=(1, 1, CHUNK), shards=(1, 2, CHUNK)
    )
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server() as server:
        server.control(serve={"files": str(folder)})
        yield server


def with_a_late_request(server: Server, number: int, work: Callable[[], Any]) -> tuple[Any, int]:
    """Returns the result of some work, and the number of requests.

    Request `number` is late. Fails unless all others have ended before it.
    """
    server.reset()
    server.fault("stall", at=number, seconds=LATE)
    found = work()
    log = server.log()
    (late,) = [each for each in log if each["fault"]]
    others = [each for each in log if each is not late]
    assert max(each["end"] for each in others) < late["end"]
    return found, len(log)


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_of_a_file(server: Server, folder: Path, threads: int) -> None:
    """Two lots of chunks: the second one is requested although the first is incomplete."""
    array = hs.open_group("s3://files/a.h5", mode="r", storage_options=options(server))["zip"]
    with h5py.File(folder / "a.h5") as file:
        expected = file["zip"][::2]
    # The index of the chunks.
    assert np.array_equal(array[0], expected[0])
    with hs.config.set(threads=threads):
        found, requests = with_a_late_request(server, 5, lambda: array[::2])
    assert np.array_equal(found, expected)
    # Opening has read the first MiB of the file.
    assert COUNT - 20 <= requests <= COUNT


@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_in_shards(server: Server, folder: Path, threads: int) -> None:
    """The indexes of the second lot of shards are requested although a chunk of the first is late.

    The first lot has 64 shards. Before them, a few requests find out whether most chunks exist.
    """
    array = hs.open_array("s3://files/a.zarr", mode="r", storage_options=server.s3_options)
    expected = hs.open_array(folder / "a.zarr", mode="r")[:, 0]
    with hs.config.set(threads=threads):
        found, requests = with_a_late_request(server, 100, lambda: array[:, 0])
    assert np.array_equal(found, expected)
    # An index and a chunk of each shard.
    assert requests <= 2 * COUNT + 10


def test_wanted_bytes_of_plain_chunks(server: Server, folder: Path) -> None:
    array = hs.open_group("s3://files/a.h5", mode="r", storage_options=options(server))["plain"]
    with h5py.File(folder / "a.h5") as file:
        expected = file["plain"][::2, 5:9]
    assert np.array_equal(array[0, 5:9], expected[0])
    server.reset()
    assert np.array_equal(array[::2, 5:9], expected)
    log = server.log()
    # Opening has read the first MiB of the file.
    assert COUNT - 20 <= len(log) <= COUNT and sum(each["sent"] for each in log) == len(log) * 16


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_one_large_chunk_takes_few_requests(server: Server, folder: Path, threads: int) -> None:
    """Threads share a dataset without chunks. Their parts are requested together."""
    array = hs.open_group("s3://files/a.h5", mode="r", storage_options=server.s3_options)["whole"]
    with h5py.File(folder / "a.h5") as file:
        expected = file["whole"][:]
    server.reset()
    with hs.config.set(threads=threads):
        assert np.array_equal(array[:], expected)
    log = server.log()
    # 24 MB, 8 MiB in a request.
    assert len(log) <= 4 and sum(each["sent"] for each in log) == expected.nbytes


def test_small_gaps_cost_no_request(server: Server, folder: Path) -> None:
    """Each request has its price: with the usual options, bytes between near parts are read."""
    array = hs.open_group("s3://files/a.h5", mode="r", storage_options=server.s3_options)["plain"]
    with h5py.File(folder / "a.h5") as file:
        expected = file["plain"][:, 5:9]
    assert np.array_equal(array[0, 5:9], expected[0])
    server.reset()
    assert np.array_equal(array[:, 5:9], expected)
    assert len(server.log()) <= COUNT / 4
