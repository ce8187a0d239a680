"""Mappings as stores: stored objects arrive in the caller's own mapping, whatever its type."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import fsspec
import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given
from strategies import Case, cases

REF = np.arange(60 * 70, dtype="i4").reshape(60, 70)


class Counting(MutableMapping[str, bytes]):
    """A mapping that is not a dictionary and counts its calls."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.gets = self.sets = 0

    def __getitem__(self, key: str) -> bytes:
        self.gets += 1
        return self.objects[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        self.sets += 1
        self.objects[key] = value

    def __delitem__(self, key: str) -> None:
        del self.objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.objects)

    def __len__(self) -> int:
        return len(self.objects)


@pytest.mark.parametrize("make", [dict, Counting])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_stored_is_in_the_mapping(make: Any, zarr_format: Any, tmp_path: Path) -> None:
    objects = make()
    root = hs.create_group(objects, zarr_format=zarr_format, attributes={"a": 1})
    z = root.create_array("x/y", shape=REF.shape, dtype="i4", chunks=(7, 9))
    z[:] = REF
    z[3, 5:9] = -1
    expected = REF.copy()
    expected[3, 5:9] = -1
    assert np.array_equal(z[2:5], expected[2:5])
    # Written to disk, the same keys and bytes are readable for zarr-python.
    for key, value in objects.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    theirs = zarr.open_group(tmp_path, mode="r")
    assert np.array_equal(theirs["x/y"][:], z[:]) and dict(theirs.attrs) == {"a": 1}
    assert sorted(hs.LocalStore(tmp_path).list()) == sorted(objects) == root.store.list()
    del root["x"]
    assert not [key for key in objects if key.startswith("x/")]


def test_sharded_arrays_and_several_threads() -> None:
    objects = Counting()
    z = hs.create_array(objects, shape=(64, 64), dtype="f8", chunks=(4, 4), shards=(16, 16))
    values = np.random.default_rng(1).random((64, 64))

    def write(start: int) -> None:
        z[start : start + 16] = values[start : start + 16]

    threads = [threading.Thread(target=write, args=(start,)) for start in range(0, 64, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(z[...], values) and len(objects) == 17
    assert np.array_equal(np.stack([row for _, row in z.stream()]), values)
    with z.writer() as writer:
        writer[:, 3] = 0
    assert (z[:, 3] == 0).all()


@given(cases())
def test_any_array_is_stored_as_in_memory_of_the_engine(case: Case) -> None:
    objects, store = Counting(), hs.MemoryStore()
    for place in (objects, store):
        z = hs.create_array(place, **case.arguments())
        z[...] = case.values
        found = np.empty(case.shape, case.opened_dtype)
        z.read(out=found)
        assert found.tobytes() == case.values.tobytes()
    assert objects.objects == {key: store.get(key) for key in store.list()}


def test_values_need_not_be_bytes() -> None:
    objects: dict[str, Any] = {}
    hs.create_array(objects, data=REF, chunks=(30, 70))
    for kind in (bytearray, memoryview, lambda value: np.frombuffer(value, "u1")):
        other = {key: kind(value) for key, value in objects.items()}
        assert np.array_equal(hs.open_array(other, mode="r")[...], REF)
    other = {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in objects.items()}
    assert np.array_equal(hs.open_array(other, mode="r")[...], REF)
    objects["c/0/0"] = "text"
    with pytest.raises(hs.errors.StoreError, match="c/0/0"):
        hs.open_array(objects)[...]
    # Other keys do not belong to hyperslab.
    objects["c/0/0"], objects["/odd//key"], objects[3] = b"", 5, 7  # type: ignore[index]
    assert sorted(hs.MemoryStore(objects).list()) == ["c/0/0", "c/1/0", "zarr.json"]
    with pytest.raises(hs.errors.ChunkError):
        hs.open_array(objects)[...]


class Failing(dict[str, bytes]):
    error: BaseException | None = None

    def __getitem__(self, key: str) -> bytes:
        if self.error is not None and key.startswith("c/"):
            raise self.error
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: bytes) -> None:
        if self.error is not None:
            raise self.error
        super().__setitem__(key, value)


def test_what_a_mapping_raises_is_the_cause() -> None:
    objects = Failing()
    z = hs.create_array(objects, data=REF, chunks=(20, 70))
    objects.error = RuntimeError("the line is down")
    for attempt in (lambda: z[...], lambda: z.__setitem__(0, 1), lambda: z.attrs.update(a=1)):
        with pytest.raises(hs.errors.StoreError, match="the line is down") as raised:
            attempt()
        assert raised.value.__cause__ is objects.error
    hs.config.threads = 1
    objects.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        z[...]
    objects.error = None
    assert np.array_equal(z[...], REF)


def test_fsspec_mappers() -> None:
    mapper = fsspec.filesystem("memory").get_mapper("/hyperslab-test")
    hs.create_group(mapper)["a/b"] = REF
    assert np.array_equal(zarr.open_group("memory://hyperslab-test", mode="r")["a/b"][:], REF)
    hs.open_group(mapper).store.delete("a/b/zarr.json")
    assert "a/b" not in hs.open_group(mapper)


def test_threads_keep_their_state() -> None:
    """An engine thread keeps one Python thread state for its whole life.

    Creating and deleting states takes a lock. A forked child of Python 3.11 might wait for it
    forever.
    """
    states: dict[int, set[int]] = {}
    api = ctypes.pythonapi
    api.PyThreadState_Get.restype = ctypes.c_void_p
    api.PyThreadState_GetID.argtypes, api.PyThreadState_GetID.restype = [ctypes.c_void_p], ctypes.c_uint64

    class Noting(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            state = api.PyThreadState_GetID(api.PyThreadState_Get())
            states.setdefault(threading.get_ident(), set()).add(state)
            # Lets other threads have the GIL, so that several threads read chunks.
            time.sleep(0.001)
            return super().__getitem__(key)

    z = hs.create_array(Noting(), data=REF[:40, :40], chunks=(2, 2))
    with hs.config.set({"threads": 4}):
        for _ in range(5):
            assert (z[...] == REF[:40, :40]).all()
    assert len(states) > 1
    assert {len(found) for found in states.values()} == {1}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_while_other_threads_read() -> None:
    """A child reads at once, whatever other threads were doing with Python objects."""
    objects: dict[str, bytes] = {}
    data = REF[:20, :20]
    z = hs.create_array(objects, data=data, chunks=(2, 2))
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            z[...]

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(100):
            child = os.fork()
            if child == 0:
                found = hs.open_array(objects, mode="r")[...]
                os._exit(0 if (found == data).all() else 3)
            end = time.monotonic() + 30
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                if time.monotonic() > end:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    pytest.fail("a forked child hangs")
                time.sleep(0.001)
            assert ended[1] == 0
    finally:
        done.set()
        for reader in readers:
            reader.join()


def test_memory_urls() -> None:
    z = hs.open_array("memory://surface-test/a/b", mode="w", shape=(3,), dtype="i4")
    z[:] = 7
    assert hs.open_array("memory://surface-test/a/b", mode="r")[:].tolist() == [7, 7, 7]
    assert list(hs.open_group("memory://surface-test", mode="r")) == ["a"]
    # A store's own URL leads to it, too.
    assert hs.open_array(f"{z.store.url}/a/b", mode="r")[0] == 7
    only_read = hs.open_array("memory://surface-test/a/b", mode="r")
    del z
    gc.collect()
    assert hs.open_array("memory://surface-test/a/b").read_only is False
    del only_read
    gc.collect()
    with pytest.raises(FileNotFoundError):
        hs.open_array("memory://surface-test/a/b")
    with pytest.raises(NotImplementedError, match="memory store"):
        hs.open("memory://7f0000000000")


def test_store_paths() -> None:
    store = hs.storage.MemoryStore()
    place = hs.storage.StorePath(store) / "a" / "/b//"
    assert (place.path, str(place), place.read_only) == ("a/b", f"{store.url}/a/b", False)
    z = hs.create_array(place / "c", data=[1, 2])
    assert z.path == "a/b/c" and z.store_path == hs.storage.StorePath(store, "a/b/c")
    assert hs.open_group(place)["c"] == z and hs.open_group(store).store_path.path == ""
    with pytest.raises(TypeError):
        hs.storage.StorePath({}, "a")  # type: ignore[arg-type]


def test_what_is_no_mapping() -> None:
    group = hs.create_group({})
    for store in ([], 5, {1, 2}, group, group.attrs):
        with pytest.raises(TypeError, match="mapping"):
            hs.open(store)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mutable mapping"):
        hs.MemoryStore([])  # type: ignore[arg-type]
