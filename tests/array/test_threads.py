"""Several threads at once, and forks of processes that have threads."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import assert_same, chunk_files

ZSTD = {"name": "zstd", "configuration": {"level": 1}}


def together(tasks: list[Callable[[], Any]], threads: int = 8) -> list[Any]:
    """Runs tasks on threads that start at the same moment."""
    barrier = threading.Barrier(threads)

    def ready() -> None:
        barrier.wait(30)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(ready) for _ in range(threads)]:
            future.result()
        return [future.result() for future in [pool.submit(task) for task in tasks]]


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return hs.MemoryStore() if request.param == "memory" else tmp_path / "store"


@pytest.mark.parametrize("compressors", [None, ZSTD], ids=["plain", "zstd"])
def test_threads_that_write_parts_of_the_same_chunks_lose_nothing(store: Any, compressors: Any) -> None:
    z = hs.create_array(store, shape=(64, 90), chunks=(16, 45), dtype="i4", compressors=compressors)
    expected = np.arange(1, 64 * 90 + 1, dtype="i4").reshape(64, 90)

    # Each task writes a part of one row of a chunk, so all threads modify every chunk.
    def write(row: int, start: int) -> Callable[[], None]:
        return lambda: z.__setitem__((row, slice(start, start + 30)), expected[row, start : start + 30])

    order = np.random.default_rng(3).permutation(64)
    together([write(int(row), start) for start in (0, 30, 60) for row in order])
    assert_same(z[...], expected)


def test_two_handles_of_one_array_share_locks(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", shape=(400,), chunks=(400,), dtype="i4", compressors=ZSTD)
    handles = [hs.open_array(tmp_path / "a", mode="r+") for _ in range(8)]

    def write(worker: int) -> None:
        for i in range(worker, 400, 8):
            handles[worker][i] = i + 1

    together([lambda worker=worker: write(worker) for worker in range(8)])
    assert_same(hs.open_array(tmp_path / "a")[...], np.arange(1, 401, dtype="i4"))


def test_readers_see_whole_chunks(store: Any) -> None:
    """A reader of a chunk that is replaced again and again sees one version, never a mixture."""
    z = hs.create_array(store, shape=(4, 5000), chunks=(1, 5000), dtype="i8", compressors=None, fill_value=-1)
    z[...] = 0
    done = threading.Event()

    def write() -> None:
        for value in range(150):
            z[value % 4] = value
        done.set()

    def read() -> int:
        count = 0
        while not done.is_set() or count == 0:
            found = z[...]
            assert (found == found[:, :1]).all()
            count += 1
        return count

    counts = together([write, read, read, read], threads=4)
    assert all(count > 0 for count in counts[1:])


def test_threads_with_chunks_of_their_own(store: Any, rng: np.random.Generator) -> None:
    data = rng.normal(size=(48, 1000))
    z = hs.create_array(store, shape=data.shape, chunks=(1, 1000), dtype="f8", compressors=ZSTD)

    def work(row: int) -> None:
        z[row] = data[row]
        assert_same(z[row], data[row])
        assert_same(z.read(row, out=np.empty(1000)), data[row])

    together([lambda row=row: work(row) for row in range(48)])
    assert_same(z[...], data)


def test_large_reads_of_many_threads(rng: np.random.Generator) -> None:
    """The pool serves several requests at a time, and no request waits for another."""
    data = rng.normal(size=(40, 50_000)).astype("f4")
    z = hs.create_array(hs.MemoryStore(), data=data, chunks=(1, 50_000), compressors=ZSTD)
    selections = [np.s_[:], np.s_[::-1], np.s_[:, ::7], np.s_[3:30, 100:40_000], np.s_[::3, 5]] * 6
    for selection, found in zip(selections, together([lambda s=s: z[s] for s in selections])):
        assert_same(found, data[selection], repr(selection))


def test_threads_create_groups_and_arrays(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "g")
    together([lambda i=i: group.create_array(f"deep/er/a{i}", data=np.full(3, i)) for i in range(24)])
    assert len(list(group["deep/er"])) == 24
    for i in range(24):
        assert group[f"deep/er/a{i}"][...].tolist() == [i] * 3


def test_settings_change_while_reading(rng: np.random.Generator) -> None:
    data = rng.normal(size=(30, 20_000))
    z = hs.create_array(hs.MemoryStore(), data=data, chunks=(1, 20_000), compressors=ZSTD)
    done = threading.Event()

    def change() -> None:
        for i in range(200):
            hs.config.set(threads=1 + i % 4, recycler_bytes=(0, 1 << 20, 64 << 20)[i % 3])
        done.set()

    def read() -> None:
        while not done.is_set():
            assert_same(z[...], data)

    together([change, read, read], threads=3)


def test_each_call_may_have_its_own_number_of_threads(rng: np.random.Generator) -> None:
    data = rng.normal(size=(20, 30_000))
    z = hs.create_array(hs.MemoryStore(), shape=data.shape, chunks=(1, 30_000), dtype="f8", compressors=ZSTD)
    for threads in (1, 2, 7):
        z.write(..., data * threads, threads=threads)
        assert_same(z.read(threads=threads), data * threads)


def child_reads(path: str, expected: np.ndarray[Any, Any], result: Any) -> None:
    try:
        z = hs.open_array(path, mode="r+")
        assert_same(z[...], expected)
        z[0] = 5.0
        result.put("ok")
    except BaseException as error:
        result.put(repr(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.timeout(120)
def test_fork_of_a_process_with_threads(tmp_path: Path, rng: np.random.Generator) -> None:
    data = rng.normal(size=(50, 20_000))
    z = hs.create_array(tmp_path / "a", data=data, chunks=(1, 20_000), compressors=ZSTD)
    assert_same(z[...], data)
    done = threading.Event()

    def busy() -> None:
        while not done.is_set():
            z[...]

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(5):
            result = context.Queue()
            child = context.Process(target=child_reads, args=(str(tmp_path / "a"), data, result))
            child.start()
            assert result.get(timeout=60) == "ok"
            child.join(30)
            assert child.exitcode == 0
            z[0] = data[0]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert_same(z[...], data)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
def test_no_temporary_files_are_left(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(40,), chunks=(10,), dtype="i4")
    together([lambda i=i: z.__setitem__(i, i + 1) for i in range(40)])
    assert set(chunk_files(tmp_path)) == {f"a/c/{i}" for i in range(4)}


def test_large_chunks_are_never_torn(tmp_path: Path) -> None:
    """Threads read a large chunk in parts while it is replaced.

    The result is all old or all new.
    """
    side = 1024
    z = hs.create_array(tmp_path, shape=(side, side), chunks=(side, side), dtype="i4", compressors=None)
    z[:] = 1
    done = threading.Event()

    def replace() -> None:
        for value in range(2, 202):
            z[:] = value
        done.set()

    writer = threading.Thread(target=replace)
    writer.start()
    last = 1
    while not done.is_set():
        found = z.read(threads=4)
        value = int(found[0, 0])
        assert last <= value
        last = value
        np.testing.assert_array_equal(found, np.full((side, side), value, "i4"))
    writer.join()
    assert int(z[5, 5]) == 201
