"""Stores of zarr-python, used by hyperslab: each package reads what the other wrote."""

from __future__ import annotations

import asyncio
import pickle
import threading
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore, LocalStore, LoggingStore, MemoryStore, ZipStore

KINDS = ["memory", "zip", "fsspec", "logging", "own"]
REF = np.arange(60, dtype="i4").reshape(6, 10)


class Counting(MemoryStore):
    """A user's own store class."""

    reads = 0

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        type(self).reads += 1
        return await super().get(key, prototype, byte_range)


class Changing(MemoryStore):
    """Lends its memory as a read-only view, and changes it a moment later."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        found = await super().get(key, prototype, byte_range)
        if found is None or "c/" not in key:
            return found
        memory = found.as_numpy_array().copy()
        view = memory.view()
        view.flags.writeable = False
        asyncio.get_running_loop().call_soon(memory.fill, 255)
        return type(found).from_array_like(view)


def store_of(kind: str, path: Path) -> Any:
    if kind == "memory":
        return MemoryStore()
    if kind == "zip":
        return ZipStore(path / "a.zip", mode="w")
    if kind == "fsspec":
        return FsspecStore.from_url(f"memory://{path.name}")
    if kind == "logging":
        return LoggingStore(LocalStore(path / "logged"))
    return Counting()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return store_of(request.param, tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_both_read_what_the_other_wrote(store: Any, zarr_format: Any) -> None:
    root = hs.create_group(store, zarr_format=zarr_format)
    ours = root.create_array("a/b", data=REF, chunks=(2, 3), attributes={"units": "K"})
    theirs = zarr.open_group(store, mode="r+")
    assert np.array_equal(theirs["a/b"][:], REF) and theirs["a/b"].attrs["units"] == "K"
    theirs.create_array("c", shape=REF.shape, chunks=(4, 4), dtype="i4")[:] = REF + 1
    again = hs.open_group(store, mode="r")
    assert sorted(again) == ["a", "c"] and np.array_equal(again["c"][::-1, 3], REF[::-1, 3] + 1)
    if not isinstance(store, ZipStore):
        ours[1:3, 2:5] = -1
        expected = REF.copy()
        expected[1:3, 2:5] = -1
        assert np.array_equal(theirs["a/b"][:], expected)
        del root["a"]
        assert sorted(hs.open_group(store, mode="r")) == ["c"]


def test_shards(store: Any) -> None:
    z = hs.create_array(store, name="s", data=REF, chunks=(1, 5), shards=(4, 10))
    assert np.array_equal(zarr.open_array(store, path="s")[:], REF)
    assert np.array_equal(z[3:5, ::2], REF[3:5, ::2])


def test_paths_in_stores(store: Any) -> None:
    place = zarr.storage.StorePath(store, "x/y")
    hs.create_array(place, data=REF)
    assert np.array_equal(hs.open_array(place)[:], REF)
    assert isinstance(hs.open_array(place).store, hs.storage.ZarrStore)


def test_read_only(tmp_path: Path) -> None:
    store = MemoryStore()
    hs.create_array(store, data=REF)
    only = hs.open_array(store.with_read_only(True))
    assert only.read_only
    with pytest.raises(hs.errors.ReadOnlyError):
        only[0] = 1


def test_a_wrapper_is_not_passed_by() -> None:
    store = Counting()
    z = hs.create_array(store, data=REF, chunks=(2, 10))
    Counting.reads = 0
    assert np.array_equal(z[:], REF)
    assert Counting.reads == 3, "one for each chunk"


def test_memory_that_a_store_lends_may_change() -> None:
    z = hs.create_array(Changing(), shape=4 << 20, chunks=4 << 20, dtype="u1", compressors=None)
    z[...] = 7
    assert np.array_equal(z[...], np.full(4 << 20, 7, "u1"))


def test_pickles(tmp_path: Path) -> None:
    store = LoggingStore(LocalStore(tmp_path / "a"))
    z = hs.create_array(hs.storage.ZarrStore(LocalStore(tmp_path / "b")), data=REF)
    assert np.array_equal(pickle.loads(pickle.dumps(z))[:], REF)
    assert hs.storage.ZarrStore(store) == hs.storage.ZarrStore(store)
    assert hs.storage.ZarrStore(store) != hs.storage.ZarrStore(LocalStore(tmp_path / "b"))
    assert "logging" in hs.storage.ZarrStore(store).url


def test_errors_of_the_store_are_told() -> None:
    class Broken(MemoryStore):
        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            if key.startswith("c/"):
                raise PermissionError("no entry")
            return await super().get(key, prototype, byte_range)

    z = hs.create_array(Broken(), data=REF)
    with pytest.raises(OSError, match="c/0/0") as caught:
        z[:]
    assert isinstance(caught.value.__cause__, PermissionError)


def test_many_threads(store: Any) -> None:
    if isinstance(store, ZipStore):
        pytest.skip("a zip file has one writer")
    z = hs.create_array(store, shape=(8, 40), chunks=(4, 8), dtype="i4")

    def write(row: int) -> None:
        z[row] = row
        assert (z[row] == row).all()

    threads = [threading.Thread(target=write, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(z[:], np.repeat(np.arange(8), 40).reshape(8, 40))


def test_handles_of_one_store_take_turns() -> None:
    """No write to a part of a chunk is lost, even if each thread opens the store."""
    store = MemoryStore()
    hs.create_array(store, shape=(64,), chunks=(64,), dtype="i4", compressors=None)
    start = threading.Barrier(4)

    def write(first: int) -> None:
        z = hs.open_array(store, mode="r+")
        start.wait()
        for at in range(first, 64, 4):
            z[at] = at + 1

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hs.open_array(store)[:].tolist() == list(range(1, 65))
