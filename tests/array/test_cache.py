"""Caches of decoded chunks: right values after any change of the objects, exact counts, a bound."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

# A chunk counts these bytes besides its own.
OVERHEAD = 512
# Chunks of files changed less than 2.1 seconds ago are not cached.
SETTLED = 2.2


def make(
    store: Any, rows: int = 8, *, chunk: int = 100, compressors: Any = "auto", **more: Any
) -> tuple[hs.Array, np.ndarray[Any, np.dtype[np.int32]]]:
    """Returns an array with one chunk per row, and its values."""
    values = np.arange(rows * chunk, dtype="i4").reshape(rows, chunk)
    array = hs.create_array(store, data=values, chunks=(1, chunk), compressors=compressors, **more)
    return array, values


def encoded(value: int, chunk: int = 100, compressors: Any = "auto") -> bytes:
    """Returns a stored chunk of one value."""
    store = hs.MemoryStore()
    hs.create_array(store, data=np.full((1, chunk), value, "i4"), chunks=(1, chunk), compressors=compressors)
    found = store.get("c/0/0")
    assert found is not None
    return found


def test_counts_are_exact() -> None:
    cache = hs.Cache("1 MiB")
    z, values = make(hs.MemoryStore())
    z = z.with_config({"cache": cache})
    assert z.cache is cache and cache.limit == 1 << 20
    assert np.array_equal(z[2:5, 7], values[2:5, 7])
    assert (cache.hits, cache.misses, cache.nbytes) == (0, 3, 3 * (400 + OVERHEAD))
    assert z[3, 9] == values[3, 9] and np.array_equal(z[4], values[4])
    assert (cache.hits, cache.misses) == (2, 3)
    into = np.empty((8, 100), "i4")
    assert np.array_equal(z.read(out=into), values)
    assert (cache.hits, cache.misses) == (5, 8)
    z[3, 9] = -1
    assert z[3, 9] == -1 and z[3, 8] == values[3, 8]
    assert (cache.hits, cache.misses) == (6, 9)
    cache.clear()
    assert (cache.hits, cache.misses, cache.nbytes) == (6, 9, 0)
    assert z[3, 9] == -1 and cache.misses == 10
    assert repr(cache) == f"Cache(1048576, nbytes={400 + OVERHEAD}, hits=6, misses=10)"


def test_the_bound() -> None:
    room = 5 * (400 + OVERHEAD)
    z, values = make(hs.MemoryStore(), rows=50)
    z = z.with_config({"cache": room})
    assert z.cache is not None
    choice = random.Random(0)
    for _ in range(500):
        row = min(choice.randrange(50), choice.randrange(50))
        assert z[row, 3] == values[row, 3]
        assert z.cache.nbytes <= room
    assert z.cache.nbytes == room and 50 < z.cache.hits and z.cache.hits + z.cache.misses == 500
    # A read larger than the cache is not kept.
    z.cache.clear()
    assert np.array_equal(z[:6], values[:6]) and z.cache.nbytes == 0
    assert np.array_equal(z[:5], values[:5]) and z.cache.nbytes == room


def test_what_is_never_kept() -> None:
    cache = hs.Cache("1 MiB")
    z, values = make(hs.MemoryStore(), compressors=None)
    assert np.array_equal(z.with_config({"cache": cache})[:, 3], values[:, 3])
    assert (cache.hits, cache.misses, cache.nbytes) == (0, 0, 0)
    absent = hs.create_array(
        hs.MemoryStore(), shape=(8, 100), chunks=(1, 100), dtype="i4", fill_value=7, config={"cache": cache}
    )
    for _ in range(2):
        assert (absent[:, 3] == 7).all()
    assert (cache.hits, cache.misses, cache.nbytes) == (0, 16, 0)
    none, values = make(hs.MemoryStore())
    none = none.with_config({"cache": 0})
    for _ in range(2):
        assert none[3, 3] == values[3, 3]
    assert none.cache is not None and (none.cache.hits, none.cache.misses) == (0, 2)


def test_shared_by_stores_and_arrays() -> None:
    cache = hs.Cache("1 MiB")
    arrays = []
    for number in range(4):
        z, values = make(hs.MemoryStore())
        z[...] = values * (number + 1)
        arrays.append((z.with_config({"cache": cache}), values * (number + 1)))
    for _ in range(3):
        for z, values in arrays:
            assert np.array_equal(z[:, 1::7], values[:, 1::7])
    assert (cache.hits, cache.misses) == (64, 32)
    # The same chunks through another handle.
    z, values = arrays[0]
    again = hs.open_array(z.store, cache=cache)
    assert np.array_equal(again[:, 5], values[:, 5])
    assert (cache.hits, cache.misses) == (72, 32)


def test_other_metadata_for_the_same_chunks(tmp_path: Path) -> None:
    cache = hs.Cache("1 MiB")
    z, values = make(tmp_path / "a")
    time.sleep(SETTLED)
    document = (tmp_path / "a" / "zarr.json").read_text()
    for name, old, new in [
        ("b", '"int32"', '"uint32"'), ("c", '"little"', '"big"'), ("d", '"int32"', '"float32"')
    ]:  # fmt: skip
        assert old in document
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(document.replace(old, new))
        (tmp_path / name / "c").symlink_to(tmp_path / "a" / "c")
    for _ in range(3):
        for name, dtype in [("a", "<i4"), ("b", "<u4"), ("c", ">i4"), ("d", "<f4")]:
            found = hs.open_array(tmp_path / name, mode="r", cache=cache)[2:6, ::3]
            expected = values.view(dtype)[2:6, ::3]
            assert found.dtype == expected.dtype.newbyteorder("=")
            assert found.tobytes() == expected.astype(found.dtype).tobytes()
    # The roots differ, so the chunks have different keys.
    assert (cache.hits, cache.misses) == (2 * 4 * 4, 4 * 4)


def test_the_functions_that_open() -> None:
    store = hs.MemoryStore()
    root = hs.open_group(store, mode="a", cache="1 MiB")
    made = root.create_array("x/y", data=np.arange(10, dtype="i4"), chunks=(5,))
    assert root.cache is not None and made.cache is root.cache
    assert root["x/y"].cache is root["x"].cache is root.cache
    assert root.get_group("x").get_array("y").cache is root.cache
    assert [node.cache for _, node in root.members(max_depth=None)] == [root.cache, root.cache]
    assert root.create_group("z").cache is root.cache
    own = root.create_array("own", shape=(3,), dtype="i4", config={"cache": 5})
    assert own.cache is not None and own.cache.limit == 5
    for opened in (
        hs.open(store, cache="2 KiB"),
        hs.open(store, path="x/y", cache=2048),
        hs.open_array(store, path="x/y", cache="2 KiB"),
        hs.open_array(store, path="x/y", config={"cache": "2 KiB"}),
        hs.open(store, path="x/y", config={"cache": "2 KiB"}),
        hs.open_array(store, path="new", mode="w", shape=(3,), dtype="i4", cache="2 KiB"),
        hs.open(store, path="newer", mode="a", shape=(3,), dtype="i4", cache="2 KiB"),
        hs.open_group(store, path="newest", mode="a", cache="2 KiB"),
    ):
        assert opened.cache is not None and opened.cache.limit == 2048
    plain = hs.open_array(store, path="x/y")
    assert plain.cache is None
    kept = plain.with_config({"cache": root.cache})
    assert kept.with_config({"write_empty_chunks": True}).cache is root.cache
    assert kept.with_config({"cache": None}).cache is None


@pytest.mark.parametrize("value", ["64 apples", -1, 1.5, True, b"1", {}])
def test_nonsense(value: Any) -> None:
    z, _ = make(hs.MemoryStore())
    for use in (hs.Cache, lambda cache: z.with_config({"cache": cache}), lambda c: hs.open(z.store, cache=c)):
        with pytest.raises((ValueError, TypeError), match="bytes|integer"):
            use(value)


def test_explain() -> None:
    z, _ = make(hs.MemoryStore())
    z = z.with_config({"cache": "1 MiB"})
    z[2:4, 5]
    told = z.explain(np.s_[1:5, :50])
    assert told.strategies == {"cached": 2, "decode-scatter": 2} and told.bytes_decoded == 2 * 400
    assert [task.strategy for task in told.tasks] == ["decode-scatter", "cached", "cached", "decode-scatter"]


def test_pickle(tmp_path: Path) -> None:
    root = hs.open_group(tmp_path, mode="a", cache="1 MiB")
    values = np.arange(800, dtype="i4").reshape(8, 100)
    z = root.create_array("a", data=values, chunks=(1, 100))
    z[:, 3]
    loaded, group = pickle.loads(pickle.dumps((z, root)))
    assert loaded.cache.limit == 1 << 20 and (loaded.cache.nbytes, loaded.cache.misses) == (0, 0)
    assert group.cache is loaded.cache is not z.cache
    assert loaded[2, 3] == group["a"][2, 3] == values[2, 3] and loaded.cache.misses == 2


# ---- changes of files


def test_every_kind_of_change_shows(tmp_path: Path) -> None:
    z, expected = make(tmp_path, rows=12)
    cache = hs.Cache("1 MiB")
    cached = hs.open_array(tmp_path, mode="r", cache=cache)
    assert np.array_equal(cached[:, 5], expected[:, 5]) and cache.nbytes == 0, "too young to be kept"
    time.sleep(SETTLED)
    for _ in range(2):
        assert np.array_equal(cached[:, 5], expected[:, 5])
    assert (cache.hits, cache.misses) == (12, 24)

    file = [tmp_path / "c" / str(row) / "0" for row in range(12)]
    ones, twos = encoded(1001), encoded(1002)
    assert len(ones) == len(twos)

    z[0] = 1001  # by this process
    zarr.open_array(tmp_path, mode="r+")[1] = 1001  # by other software
    new = tmp_path / "new"  # by rename
    new.write_bytes(ones)
    os.replace(new, file[2])
    file[3].write_bytes(ones)  # cut off and written again
    file[4].write_bytes(ones)  # written in place, the same size, twice between two ticks of a clock
    assert cached[4, 5] == 1001
    with file[4].open("r+b") as stream:
        stream.write(twos)
    file[5].unlink()  # deleted: fill value
    with file[6].open("r+b") as stream:  # truncated
        stream.truncate(len(ones) // 2)
    before = file[7].stat()
    file[7].write_bytes(ones)  # with the old times
    os.utime(file[7], ns=(before.st_atime_ns, before.st_mtime_ns))
    file[8].unlink()  # replaced by a link to an older file
    file[8].symlink_to(file[11])
    (tmp_path / "c" / "9").rename(tmp_path / "c" / "away")  # its directory replaced by another
    (tmp_path / "c" / "9").mkdir()
    file[9].write_bytes(ones)
    file[10].unlink()  # replaced by a directory
    file[10].mkdir()

    now = expected[:, 5].copy()
    now[[0, 1, 2, 3, 7, 9]] = 1001
    now[4], now[5], now[8], now[10] = 1002, 0, expected[11, 5], 0
    for row in range(12):
        if row == 6:
            with pytest.raises(hs.errors.ChunkError):
                cached[row, 5]
        else:
            assert cached[row, 5] == now[row], row
    # And back again.
    (tmp_path / "c" / "9").rename(tmp_path / "c" / "gone")
    (tmp_path / "c" / "away").rename(tmp_path / "c" / "9")
    assert cached[9, 5] == expected[9, 5]
    time.sleep(SETTLED)
    rows = [row for row in range(12) if row not in (6, 9)]
    for _ in range(2):
        assert all(cached[row, 5] == now[row] for row in rows)


def test_resize(tmp_path: Path) -> None:
    z, values = make(tmp_path)
    time.sleep(SETTLED)
    z = z.with_config({"cache": "1 MiB"})
    assert np.array_equal(z[:, 3], values[:, 3])
    z.resize((4, 100))
    assert np.array_equal(z[:, 3], values[:4, 3]) and z.cache is not None and z.cache.hits == 4
    z.resize((8, 50))
    assert np.array_equal(z[:, 3], [*values[:4, 3], 0, 0, 0, 0])
    z[5] = 9
    assert z[5, 3] == 9


def test_threads_and_recycled_memory() -> None:
    """Chunks are large enough for recycled pages, and are evicted while being read."""
    z, values = make(hs.MemoryStore(), rows=12, chunk=30_000)
    z = z.with_config({"cache": 4 * (120_000 + OVERHEAD)})
    wrong: list[int] = []

    def read(seed: int) -> None:
        choice = random.Random(seed)
        for _ in range(300):
            row = choice.randrange(12)
            if not np.array_equal(z[row, 10:29_000], values[row, 10:29_000]):
                wrong.append(row)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and z.cache is not None
    assert z.cache.hits + z.cache.misses == 1200 and z.cache.hits > 100 and z.cache.nbytes <= z.cache.limit


WRITER = """
import os, random, sys, time
import numpy as np
import hyperslab as hs

root, rows, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
z = hs.open_array(root + "/a")
maker = hs.MemoryStore()
one = hs.create_array(maker, shape=(1, 100), chunks=(1, 100), dtype="i4", compressors=z.compressors)
done = np.memmap(root + "/done", "i8", "r+")  # the last value of each row; the row that was last written
choice = random.Random(0)
value, end = 1_000_000, time.monotonic() + seconds
while time.monotonic() < end:
    row = choice.randrange(rows)
    for _ in range(4):
        value += 1
        path, way = f"{root}/a/c/{row}/0", choice.randrange(4)
        if way == 0:
            z[row] = value
        else:
            one[0] = value
            data = maker.get("c/0/0")
            if way == 1:
                with open(root + "/new", "wb") as file:
                    file.write(data)
                os.replace(root + "/new", path)
            else:
                with open(path, "r+b") as file:
                    if way == 2:
                        file.write(data)
                    else:
                        os.pwrite(file.fileno(), data, 0)
        done[row] = value
        done[rows] = row
    time.sleep(0.005)
done[rows] = -1
"""


def test_a_reader_is_never_behind_another_process(tmp_path: Path) -> None:
    rows = 300
    # Only a checksum: all chunks have one size and can be overwritten in place. Mixtures are
    # refused.
    _, values = make(tmp_path / "a", rows=rows, compressors=hs.codecs.Crc32c())
    done = np.memmap(tmp_path / "done", "i8", "w+", shape=rows + 1)
    done[:rows] = values[:, 7]
    time.sleep(SETTLED)
    cache = hs.Cache("64 MiB")
    z = hs.open_array(tmp_path / "a", mode="r", cache=cache)
    assert np.array_equal(z[:, 7], values[:, 7]) and cache.nbytes == rows * (400 + OVERHEAD)
    (tmp_path / "writer.py").write_text(WRITER)
    writer = subprocess.Popen([sys.executable, tmp_path / "writer.py", tmp_path, str(rows), "3"])
    behind: list[tuple[int, int, int]] = []
    reads = [0] * 3

    def read(thread: int) -> None:
        choice = random.Random(thread)
        while (last := int(done[rows])) >= 0:
            row = last if choice.random() < 0.5 else choice.randrange(rows)
            least = int(done[row])
            try:
                found = int(z[row, 7])
            except hs.errors.ChunkError:
                continue  # during an overwrite
            if found < least:
                behind.append((row, found, least))
            reads[thread] += 1

    threads = [threading.Thread(target=read, args=(thread,)) for thread in range(len(reads))]
    for thread in threads:
        thread.start()
    assert writer.wait() == 0
    for thread in threads:
        thread.join()
    assert not behind, f"{len(behind)} of {sum(reads)}: {behind[:3]}"
    assert (done[:rows] > values[:, 7]).sum() > rows / 10 and cache.hits > 100
    assert np.array_equal(z[:, 7], done[:rows])


def in_child(work: Callable[[], bool]) -> None:
    """Runs `work` in a forked child, which must succeed within a minute."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forks_while_threads_use_the_cache() -> None:
    z, values = make(hs.MemoryStore())
    cache = hs.Cache(4 * (400 + OVERHEAD))
    z = z.with_config({"cache": cache})
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for row in (0, 1, 2, 0, 1, 5):
                z[row, 3]

    def child() -> bool:
        empty = (cache.nbytes, cache.hits, cache.misses) == (0, 0, 0)
        right = all(z[row, 3] == values[row, 3] for row in (0, 1, 0, 1))
        counted = (cache.hits, cache.misses) == (2, 2)
        in_child(lambda: bool(z[1, 3] == values[1, 3]) and cache.misses == 1)
        cache.clear()
        return empty and right and counted

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            in_child(child)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert cache.hits > 0 and cache.nbytes <= cache.limit


TRACED = """
import os, sys
import hyperslab as hs
z = hs.open_array(sys.argv[1], mode="r", cache="64 MiB")
for _ in range(2):
    z[3, 5], z[2:6, 5]
os.path.exists("/hyperslab-mark-begin")
for _ in range(10):
    z[3, 5]
z[2:6, 5]
os.path.exists("/hyperslab-mark-end")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_a_cached_chunk_takes_one_system_call(tmp_path: Path) -> None:
    make(tmp_path / "a")
    time.sleep(SETTLED)
    trace = tmp_path / "trace"
    options = ["-f", "-qq", "-e", "trace=file,desc", "-e", "signal=none", "-o", str(trace)]
    command = ["strace", *options, sys.executable, "-c", TRACED, str(tmp_path / "a")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    calls = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    begin, end = (
        next(n for n, call in enumerate(calls) if f"hyperslab-mark-{mark}" in call)
        for mark in ("begin", "end")
    )
    counted = calls[begin + 1 : end]
    # One call per chunk, and one to check that the four chunks of a request belong to one array.
    assert len(counted) == 10 + 4 + 1 and all("stat" in call.split("(")[0] for call in counted), counted
