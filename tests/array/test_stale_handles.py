"""Handles that were opened before others made the array longer do not destroy the others' rows."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

# Chunks and shards that divide no shape of the tests evenly.
CUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (5, 3)},
    "no codec": {"chunks": (5, 3), "compressors": None},
    "v2": {"chunks": (5, 3), "zarr_format": 2},
    "shards": {"chunks": (5, 3), "shards": (15, 6)},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=["memory", "local", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> tuple[Any, dict[str, Any]]:
    if request.param == "memory":
        return hs.storage.MemoryStore(), {}
    if request.param == "local":
        return tmp_path / "a.zarr", {}
    server.clear()
    return "s3://bucket/a.zarr", {"storage_options": server.s3_options}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("value", [7, -1])
def test_rows_appended_by_others_stay(place: tuple[Any, dict[str, Any]], cut: str, value: int) -> None:
    where, options = place
    rows = np.arange(28, dtype="i4").reshape(7, 4)
    stale = hs.create_array(where, data=rows, fill_value=-1, **CUTS[cut], **options)
    other = hs.open_array(where, mode="r+", **options)
    other.append(rows[:2] + 100)
    # Write up to the end that the stale handle knows. -1 is the fill value.
    stale[:] = value
    assert np.array_equal(
        hs.open_array(where, mode="r", **options)[:], np.r_[np.full((7, 4), value), rows[:2] + 100]
    )
    other.resize((9, 5))
    other[:, 4] = np.arange(9)
    stale[5:7] = value + 1
    stale[np.array([6, 5]), 1:4] = value + 2
    now = hs.open_array(where, mode="r", **options)[:]
    expected = np.full((9, 5), value)
    expected[7:, :4], expected[:, 4] = rows[:2] + 100, np.arange(9)
    expected[5:7, :4] = value + 1
    expected[5:7, 1:4] = value + 2
    assert np.array_equal(now, expected)
    # Elements that were cut off do not come back.
    other.resize((6, 4))
    stale.refresh()
    stale[:] = value
    stale.resize((9, 5))
    expected = np.full((9, 5), -1)
    expected[:6, :4] = value
    assert np.array_equal(hs.open_array(where, mode="r", **options)[:], expected)


def test_text_appended_by_others_stays(place: tuple[Any, dict[str, Any]]) -> None:
    where, options = place
    words = np.array(["a", "bc", "", "def"], dtype=object)
    stale = hs.create_array(where, shape=(4,), chunks=(3,), dtype="string", **options)
    stale[:] = words
    hs.open_array(where, mode="r+", **options).append(np.array(["ghij", "k"], dtype=object))
    stale[:] = np.array(["x"] * 4, dtype=object)
    assert list(hs.open_array(where, mode="r", **options)[:]) == ["x"] * 4 + ["ghij", "k"]


def _append(where: str, options: dict[str, Any], writer: int, times: int, seed: int) -> None:
    rng = np.random.default_rng([seed, writer])
    array = hs.open_array(where, mode="r+", **options)
    for n in range(times):
        array.append(np.full((int(rng.integers(1, 5)), 4), 1000 * (writer + 1) + n, "i4"))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", ["local", "server"])
def test_many_writers_lose_nothing(server: Server, tmp_path: Path, kind: str, cut: str) -> None:
    seed = time.time_ns()
    print("seed", seed)
    where = str(tmp_path / "a.zarr")
    options: dict[str, Any] = {}
    if kind == "server":
        server.clear()
        where, options = "s3://bucket/a.zarr", {"storage_options": server.s3_options}
    first = np.zeros((7, 4), "i4")
    stale = hs.create_array(where, data=first, fill_value=-1, **CUTS[cut], **options)
    writers, times = 3, 8
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_append, args=(where, options, n, times, seed)) for n in range(writers)
    ]
    for process in processes:
        process.start()
    n = 0
    while any(process.is_alive() for process in processes):
        # Write all elements that the handle knows, in turn with a stored value and the fill value.
        stale[:] = n if n % 2 else -1
        n += 1
    for process in processes:
        process.join()
        assert process.exitcode == 0
    found = hs.open_array(where, mode="r", **options)[:]
    assert (found[:7] == (n - 1 if (n - 1) % 2 else -1)).all()
    rows = found[7:]
    assert (rows == rows[:, :1]).all()
    expected: list[int] = []
    for writer in range(writers):
        rng = np.random.default_rng([seed, writer])
        for turn in range(times):
            expected += [1000 * (writer + 1) + turn] * int(rng.integers(1, 5))
    assert sorted(rows[:, 0].tolist()) == expected, seed


@pytest.mark.parametrize("cut", ["chunks", "shards"])
def test_rounds_at_the_edge(server: Server, cut: str) -> None:
    url, options = "s3://bucket/a.zarr", server.s3_options

    def rounds(array: hs.Array, value: int) -> int:
        server.control(latency=0.15)
        server.reset()
        array[:] = value
        server.control(latency=0)
        counted: int = server.rounds()
        return counted

    best = [9, 9, 9]
    for _ in range(5):  # on a busy machine concurrent requests may follow one another
        server.clear()
        array = hs.create_array(url, shape=(18, 7), dtype="i4", **CUTS[cut], storage_options=options)
        assert array[0, 0] == 0  # also opens a connection
        best = [min(pair) for pair in zip(best, [rounds(array, value) for value in (3, 4, 0)], strict=True)]
        assert (array[:] == 0).all()
    # New chunks are written on condition that none exist. Existing chunks are read first, in shards
    # after the index. Elements past the end are kept.
    assert best[0] == 1 and best[1] <= 3 + (cut == "shards") and best[2] <= 3, best
