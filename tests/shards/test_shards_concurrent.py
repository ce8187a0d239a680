"""Threads and processes write to one shard at the same time: no write is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from shards import Level, ShardCase, check_shard, shard_files, shares_blocks
from support import assert_same
from test_threads import ZSTD, together

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX")

# Two shards of 4 × 4 inner chunks.
SHAPE, SHARDS, CHUNKS = (8, 800), (4, 800), (1, 200)


def create(place: Any, compressors: Any = ZSTD) -> hs.Array:
    return hs.create_array(
        place, shape=SHAPE, shards=SHARDS, chunks=CHUNKS, dtype="i4", compressors=compressors
    )


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return hs.MemoryStore() if request.param == "memory" else tmp_path / "a"


@pytest.mark.parametrize("compressors", [None, ZSTD], ids=["plain", "zstd"])
@pytest.mark.parametrize("width", [200, 100, 70])
def test_threads_lose_nothing(store: Any, compressors: Any, width: int) -> None:
    """Writes whole inner chunks, halves of them, and parts that cross their borders."""
    z = create(store, compressors)
    expected = np.arange(1, 6401, dtype="i4").reshape(SHAPE)

    def write(row: int, start: int) -> Callable[[], None]:
        part = slice(start, start + width)
        return lambda: z.__setitem__((row, part), expected[row, part])

    tasks = [write(row, start) for row in range(8) for start in range(0, 800, width)]
    order = np.random.default_rng(width).permutation(len(tasks))
    together([tasks[number] for number in order])
    assert_same(z[...], expected)


def test_handles_and_threads_with_inner_chunks_of_their_own(tmp_path: Path) -> None:
    """Each writer reads back what it has just written, whatever the others do to the shard."""
    create(tmp_path)

    def work(row: int) -> Callable[[], None]:
        def run() -> None:
            z = hs.open_array(tmp_path, mode="r+")
            for number in range(1, 30):
                # In every fifth round the inner chunk is dropped.
                value = 0 if number % 5 == 0 else 100 * row + number
                z[row, 200:400] = value
                assert (z[row, 200:400] == value).all()

        return run

    together([work(row) for row in range(8)])
    expected = np.zeros(SHAPE, "i4")
    expected[:, 200:400] = 100 * np.arange(8)[:, None] + 29
    assert_same(hs.open_array(tmp_path)[...], expected)
    assert_same(zarr.open_array(tmp_path, mode="r")[...], expected)


WORKER = """
import sys
import numpy as np
import hyperslab as hs
path, kind, worker, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
z = hs.open_array(path, mode="r+")
print("ready", flush=True)
sys.stdin.readline()
if kind == "whole":
    regions = [(row, slice(200 * worker, 200 * worker + 200)) for row in range(8)]
elif kind == "parts":
    # Another part in every round: the inner chunk is put together.
    places = [(row, 200 * worker + at) for row in range(8) for at in range(0, 200, 50)]
    regions = [(row, slice(at, at + 50)) for row, at in places]
elif kind == "rows":
    regions = [(slice(0, 8), slice(200 * worker, 200 * worker + 200))]
else:
    # One inner chunk for each, of one shard: it comes and goes, and the shard with the last of
    # them.
    regions = [(0, slice(200 * worker, 200 * worker + 200))]
for number in range(rounds):
    for region in regions:
        value = 1000 * worker + number + 1
        z[region] = value
        assert (z[region] == value).all(), "what was written is not there"
        if kind == "comes and goes":
            z[region] = 0
            assert not z[region].any(), "what was deleted is there"
print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("kind", "rounds"), [("whole", 8), ("parts", 2), ("rows", 40), ("comes and goes", 60)]
)
def test_processes_lose_nothing(tmp_path: Path, kind: str, rounds: int) -> None:
    path = tmp_path / "a"
    create(path)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), kind, str(worker), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for worker in range(4)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        for worker in workers:
            told, complaints = worker.communicate(timeout=120)
            assert (worker.returncode, told) == (0, "done\n"), complaints
    finally:
        for worker in workers:
            worker.kill()
    expected = np.zeros(SHAPE, "i4")
    if kind != "comes and goes":
        expected[...] = np.repeat(1000 * np.arange(4) + rounds, 200)
    assert_same(hs.open_array(path)[...], expected)
    assert_same(zarr.open_array(path, mode="r")[...], expected)
    zstd = ({"name": "bytes", "configuration": {"endian": "little"}}, ZSTD)
    case = ShardCase(SHAPE, SHARDS, (Level(CHUNKS),), np.dtype("i4"), 0, expected, zstd)
    stored = [file.read_bytes() for file in shard_files(path)]
    assert len(stored) == (0 if kind == "comes and goes" else 2)
    for shard in stored:
        assert check_shard(case, shard, dead=None if shares_blocks() else 0) == 16


def test_compacting_while_others_write(tmp_path: Path) -> None:
    z = create(tmp_path)
    z[...] = 1

    def write(row: int) -> Callable[[], None]:
        def run() -> None:
            for number in range(20):
                z[row, 400:600] = 10 * row + number

        return run

    def compact() -> None:
        for _ in range(20):
            z.compact()

    together([*map(write, range(6)), compact, compact])
    expected = np.ones(SHAPE, "i4")
    expected[:6, 400:600] = 10 * np.arange(6)[:, None] + 19
    assert_same(z[...], expected)
    z.compact()
    for file in shard_files(tmp_path):
        case = ShardCase(SHAPE, SHARDS, (Level(CHUNKS),), np.dtype("i4"), 0, expected)
        assert check_shard(case, file.read_bytes(), dead=0) == 16
    assert_same(zarr.open_array(tmp_path, mode="r")[...], expected)
