"""dask arrays from hyperslab arrays and into them, with dask's own schedulers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import hyperslab as hs
import hyperslab.dask as hd
import numpy as np
import pytest
from object_server_client import Server
from support import assert_same, examples


def sharded(place: Any, **changes: Any) -> hs.Array:
    what: dict[str, Any] = {"shape": (90, 70), "shards": (32, 24), "chunks": (8, 8), "dtype": "i4"} | changes
    return hs.create_array(place, **what)


def data(shape: tuple[int, ...] = (90, 70)) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


def of_whole(x: da.Array, lengths: tuple[tuple[int, ...], ...]) -> bool:
    """Returns true if all blocks consist of whole objects with these lengths."""
    return all(
        set(np.cumsum(blocks)) <= set(np.cumsum(objects))
        for blocks, objects in zip(x.chunks, lengths, strict=True)
    )


# ---- reading


@pytest.mark.parametrize("limit", ["300 B", "4 kiB", "30 kiB", "1 MiB"])
@pytest.mark.parametrize("inline", [False, True])
def test_from_array(tmp_path: Path, limit: str, inline: bool) -> None:
    z = sharded(tmp_path / "a")
    z[...] = data()
    with dask.config.set({"array.chunk-size": limit}):
        plain = da.from_array(z, inline_array=inline)
        ours = hd.from_array(z, inline_array=inline)
    assert of_whole(ours, z.write_chunk_sizes)
    # dask's own choice divides shards that are larger than its limit.
    assert limit == "300 B" or of_whole(plain, z.write_chunk_sizes)
    for x in (plain, ours):
        assert_same((x + 1)[3:77, ::-3].compute(), (data() + 1)[3:77, ::-3])


def test_named_blocks(tmp_path: Path) -> None:
    z = sharded(tmp_path / "a")
    assert hd.from_array(z, "shards").chunks == z.write_chunk_sizes
    assert hd.from_array(z, "chunks").chunks == z.read_chunk_sizes
    assert hd.from_array(z, (50, -1)).chunks == ((50, 40), (70,))
    assert hd.from_array(z, "shards", name="a").name == "a"
    plain = hs.create_array(tmp_path / "b", shape=(10, 0), chunks=(4, 4), dtype="f8")
    assert hd.from_array(plain, "shards").chunks == ((4, 4, 2), (0,))
    assert hd.from_array(hs.array(5), "shards").compute() == 5


def test_chunks_of_different_lengths(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(10, 6), chunks=[[1, 4, 5], [2, 4]], dtype="i4")
    z[...] = data((10, 6))
    for chunks in ("auto", "shards", "chunks"):
        x = hd.from_array(z, chunks)
        assert of_whole(x, ((1, 4, 5), (2, 4)))
        assert_same(x.compute(), data((10, 6)))


def test_text(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype="string")
    z[...] = ["a", "", "ccc", "d", "é"]
    assert hd.from_array(z, "shards")[1:].compute().tolist() == ["", "ccc", "d", "é"]
    assert hd.from_array(z).chunks == ((4, 1),) or of_whole(hd.from_array(z), z.write_chunk_sizes)


def test_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("z", data=data(), chunks=(20, 30))
        file.create_dataset("whole", data=data())
    with hs.open(tmp_path / "a.h5") as file:
        x = hd.from_array(file["z"], "shards")
        assert x.chunks == ((20, 20, 20, 20, 10), (30, 30, 10))
        assert_same(x.compute(), data())
        assert_same(da.from_array(file["z"]).compute(), data())
        assert_same(hd.from_array(file["whole"]).compute(), data())


def test_from_metadata_alone() -> None:
    with Server() as server:
        store = hs.storage.RemoteStore("s3://bucket/a", storage_options=server.s3_options)
        sharded(store)[...] = data()
        z = hs.open_array(store, mode="r")
        server.reset()
        made = [da.from_array(z), hd.from_array(z), hd.from_array(z, "shards")]
        assert server.requests() == []
        assert_same(made[1].compute(), data())
        assert server.requests()


def test_pickles_are_small(tmp_path: Path) -> None:
    z = sharded(tmp_path / "a", shape=(3200, 2400))
    z[:40] = 1
    for made in (da.from_array(z), hd.from_array(z, "shards")):
        assert len(pickle.dumps(made)) < 4000
        assert pickle.loads(pickle.dumps(made))[:50].sum().compute() == 40 * 2400


def test_threads(tmp_path: Path) -> None:
    z = sharded(tmp_path / "a")
    z[...] = data()
    x = hd.from_array(z, "shards", threads=1)
    assert_same(x[5:].compute(), data()[5:])


# ---- what tells contents apart


def test_what_may_be_written_is_not_the_same_again(tmp_path: Path) -> None:
    z = sharded(tmp_path / "a")
    z[...] = 1
    before = da.from_array(z)
    z[...] = 2
    after = da.from_array(z)
    assert before.name != after.name
    assert [float(each) for each in dask.compute(after.min(), da.from_array(z).max())] == [2.0, 2.0]


def test_what_is_only_read_is_the_same_until_it_is_opened_again(tmp_path: Path) -> None:
    writer = sharded(tmp_path / "a")
    reader = hs.open_array(tmp_path / "a", mode="r")
    first = da.from_array(reader).name
    assert da.from_array(reader).name == first
    writer[...] = 1
    assert da.from_array(hs.open_array(tmp_path / "a", mode="r")).name != first
    assert da.from_array(reader.refresh()).name != first


def test_files_are_told_by_what_the_system_says(tmp_path: Path) -> None:
    def write(value: int) -> None:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["z"] = np.full(5, value)

    def name() -> str:
        with hs.open(tmp_path / "a.h5") as file:
            return da.from_array(file["z"]).name

    write(1)
    first = name()
    assert name() == first
    (tmp_path / "a.h5").rename(tmp_path / "old.h5")
    write(2)
    assert name() != first


# ---- writing


def cuts(chance: np.random.Generator, length: int) -> tuple[int, ...]:
    """Returns blocks of random lengths."""
    ends = sorted({*chance.integers(1, length + 1, chance.integers(0, 5)).tolist(), length})
    return tuple(np.diff([0, *ends]).tolist())


@pytest.mark.parametrize("align", ["rechunk", "serialize"])
def test_store_anywhere(tmp_path: Path, seed: int, align: Any) -> None:
    chance = np.random.default_rng(seed)
    for case in range(examples(20)):
        with_shards = (
            {"shards": (16, 12), "chunks": (4, 4)} if case % 2 else {"shards": None, "chunks": (7, 9)}
        )
        z = sharded(tmp_path / str(case), shape=(50, 40), fill_value=-1, **with_shards)
        starts = [int(chance.integers(0, n)) for n in z.shape]
        region = tuple(
            slice(a, int(chance.integers(a + 1, n + 1))) for a, n in zip(starts, z.shape, strict=True)
        )
        shape = tuple(each.stop - each.start for each in region)
        x = da.from_array(data(shape), chunks=tuple(cuts(chance, n) for n in shape))
        expected = np.full(z.shape, -1, "i4")
        expected[region] = data(shape)
        assert hd.store(x, z, region, align=align) is None
        assert_same(z[...], expected, f"seed {seed}, case {case}, {x.chunks}, {region}")


def test_store_all_of_it(tmp_path: Path) -> None:
    z, source = sharded(tmp_path / "a"), da.from_array(data(), chunks=(17, 13))
    lazy = hd.store(source * 2, z, compute=False)
    assert z[...].max() == 0
    assert lazy.compute() is None
    assert_same(z[...], data() * 2)
    hd.store(source, z, scheduler="sync", threads=1)
    assert_same(z[...], data())
    hd.store(source[:0], z, slice(5, 5))
    hd.store(da.from_array(np.int32(7)), scalar := hs.zeros((), dtype="i4"))
    assert scalar[()] == 7


def test_each_shard_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    z = sharded(tmp_path / "a")
    places: list[tuple[slice, ...]] = []
    write = hd._write
    monkeypatch.setattr(hd, "_write", lambda *args: (places.append(args[1]), write(*args))[1])
    hd.store(da.from_array(data(), chunks=(10, 10)), z, scheduler="sync")
    assert all(place.start % step == 0 for each in places for place, step in zip(each, (32, 24), strict=True))
    assert len(places) == 9
    # Aligned blocks stay unchanged.
    places.clear()
    hd.store(hd.from_array(z, (64, 24)), z, scheduler="sync")
    assert len(places) == 6


def test_tasks_that_share_a_shard_follow_each_other(tmp_path: Path) -> None:
    import threading
    import time

    z, inside, met = sharded(tmp_path / "a"), dict[tuple[int, int], int](), list[bool]()
    guard = threading.Lock()
    write = hd._write

    def watched(target: hs.Array, place: tuple[slice, ...], *rest: Any) -> None:
        rows, columns = (
            range(s.start // step, -(-s.stop // step)) for s, step in zip(place, (32, 24), strict=True)
        )
        mine = [(row, column) for row in rows for column in columns]
        with guard:
            met.append(any(inside.get(each) for each in mine))
            inside.update({each: inside.get(each, 0) + 1 for each in mine})
        time.sleep(0.002)
        write(target, place, *rest)
        with guard:
            inside.update({each: inside[each] - 1 for each in mine})

    hd._write, former = watched, hd._write
    try:
        hd.store(da.from_array(data(), chunks=(9, 11)), z, align="serialize", num_workers=8)
    finally:
        hd._write = former
    assert_same(z[...], data())
    assert met and not any(met)


def test_store_of_what_does_not_fit(tmp_path: Path) -> None:
    z, x = sharded(tmp_path / "a"), da.zeros((5, 5), chunks=5)
    with pytest.raises(hs.errors.ArrayShapeError, match=r"x has shape \(5, 5\), the region of the target"):
        hd.store(x, z)
    with pytest.raises(hs.errors.InvalidArgumentError, match="region"):
        hd.store(x, z, (slice(0, 10, 2), slice(0, 5)))
    with pytest.raises(hs.errors.InvalidArgumentError, match="region"):
        hd.store(x, z, 3)
    with pytest.raises(hs.errors.InvalidArgumentError, match="align"):
        hd.store(x, z, align="none")  # type: ignore[arg-type]
    with pytest.raises(hs.errors.ArgumentTypeError, match="x: expected an array of dask, found ndarray"):
        hd.store(data(), z)  # type: ignore[arg-type]
    with pytest.raises(hs.errors.InvalidArgumentError, match="unknown lengths"):
        hd.store(x[x > 0][:, None], z)
    with pytest.raises(hs.errors.ReadOnlyError):
        hd.store(x, hs.open_array(tmp_path / "a", mode="r"), (slice(5), slice(5)))


def test_threads_of_dask_and_of_the_engine_do_not_multiply(tmp_path: Path) -> None:
    """Runs in its own process: each call from each dask thread could otherwise create threads."""
    code = """
import os, sys, threading
import dask.array as da, hyperslab as hs, hyperslab.dask as hd, numpy as np

z = hs.create_array(sys.argv[1], shape=(64, 256, 256), shards=(4, 256, 256), chunks=(1, 64, 64), dtype="f4")
z[...] = np.random.default_rng(0).normal(size=z.shape).round(2)
copy = hs.create_array(sys.argv[2], shape=z.shape, shards=z.shards, chunks=z.chunks, dtype="f4")
most, over = 0, threading.Event()

def watch():
    global most
    while not over.wait(0.0005):
        most = max(most, len(os.listdir("/proc/self/task")))

before = len(os.listdir("/proc/self/task"))
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(3):
    x = hd.from_array(z, "shards")
    total = float(x.sum().compute(scheduler="threads", num_workers=8))
    hd.store(x + 1, copy, scheduler="threads", num_workers=8)
over.set()
watcher.join()
assert np.array_equal(copy[...], z[...] + np.float32(1))
print(before, most)
"""
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a"), str(tmp_path / "b")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "HYPERSLAB_THREADS": "4"},
    )
    assert found.returncode == 0, found.stderr
    before, most = map(int, found.stdout.split())
    # The watcher, dask's threads and the threads of one engine pool.
    assert before < most <= before + 1 + 8 + 4
