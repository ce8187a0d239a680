"""Overwriting with data: the old array stays until the new one holds all of its data."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

OLD = np.arange(100, dtype="i4")
NEW = np.arange(1000, 1090, dtype="i4")


def _create(store: Any, data: Any, **arguments: Any) -> Any:
    return hs.create_array(store, name="a", data=data, overwrite=True, **{"chunks": (7,), **arguments})


#: All ways to create an array ``a`` in the place of another, with data.
WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "create_array": _create,
    "shards": lambda store, data: _create(store, data, chunks=(5,), shards=(20,)),
    "from_array": lambda store, data: hs.from_array(store, name="a", data=data, overwrite=True),
    "array": lambda store, data: hs.array(data, store=store, path="a", overwrite=True),
    "create": lambda store, data: hs.create(
        data.shape, dtype="i4", chunks=(7,), data=data, store=store, path="a", overwrite=True
    ),
    "open_array": lambda store, data: hs.open_array(
        store, path="a", mode="w", shape=data.shape, dtype="i4", data=data
    ),
    "open": lambda store, data: hs.open(store, path="a", mode="w", shape=data.shape, dtype="i4", data=data),
    "save_array": lambda store, data: hs.save_array(store, data, path="a", mode="w"),
    "save_group": lambda store, data: hs.save_group(store, a=data),
    "group.create_array": lambda store, data: hs.open_group(store, mode="r+").create_array(
        "a", data=data, chunks=(7,), overwrite=True
    ),
    "group[name]": lambda store, data: hs.open_group(store, mode="r+").__setitem__("a", data),
}

EVERY_WAY = pytest.mark.parametrize("way", list(WAYS))
STORES = pytest.mark.parametrize("kind", ["local", "memory"])


class Blocks:
    """Data that is read block by block. Calls `midway` before the last block."""

    def __init__(self, values: Any, midway: Callable[[], object]) -> None:
        self.values, self.midway, self.asked = values, midway, 0
        self.shape, self.dtype = values.shape, values.dtype

    def __getitem__(self, selection: slice) -> Any:
        if selection.stop >= len(self.values):
            self.asked += 1
            self.midway()
        return self.values[selection]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab._create.new._BLOCK_BYTES", 100)


def begun(kind: str, tmp_path: Path, zarr_format: Any = 3) -> Any:
    """Returns a store with a group of two arrays."""
    store = tmp_path / "s" if kind == "local" else hs.MemoryStore()
    group = hs.create_group(store, zarr_format=zarr_format)
    group.create_array("other", data=[5])
    group.create_array("a", data=OLD, chunks=(7,), attributes={"old": True})
    return store


def assert_old(store: Any, tmp_path: Path) -> None:
    group = hs.open_group(store, mode="r")
    assert sorted(group) == ["a", "other"]
    assert np.array_equal(group["a"][...], OLD) and group["a"].attrs == {"old": True}
    assert group["other"][...].tolist() == [5]
    if isinstance(store, Path):
        assert sorted(name for name, _ in zarr.open_group(store, mode="r").members()) == ["a", "other"]
    assert tmp_path.joinpath("s").exists() == isinstance(store, Path)


def assert_new(store: Any, tmp_path: Path, values: Any = NEW) -> None:
    assert np.array_equal(hs.open_array(store, path="a", mode="r")[...], values)
    if isinstance(store, Path):
        assert np.array_equal(zarr.open_array(str(store), path="a", mode="r")[...], values)
        assert [entry.name for entry in tmp_path.iterdir()] == ["s"]


@EVERY_WAY
@STORES
def test_the_old_array_is_there_until_the_new_one_is(way: str, kind: str, tmp_path: Path) -> None:
    store = begun(kind, tmp_path)
    data = Blocks(NEW, lambda: assert_old(store, tmp_path))
    WAYS[way](store, data)
    assert data.asked > 0
    assert_new(store, tmp_path)


@EVERY_WAY
@STORES
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_in_the_middle_keeps_the_old(
    way: str, kind: str, error: type[BaseException], tmp_path: Path
) -> None:
    store = begun(kind, tmp_path)

    def fail() -> None:
        if error is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise error("no more data")

    with pytest.raises(error):
        WAYS[way](store, Blocks(NEW, fail))
    assert_old(store, tmp_path)
    if kind == "local":
        assert [entry.name for entry in tmp_path.iterdir()] == ["s"]
    WAYS[way](store, NEW)
    assert_new(store, tmp_path)


@EVERY_WAY
@STORES
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_is_overwritten_with_itself(way: str, kind: str, zarr_format: Any, tmp_path: Path) -> None:
    if way in ("create_array", "shards") and zarr_format == 2:
        pytest.skip("makes Zarr v3 unless told otherwise")
    store = begun(kind, tmp_path, zarr_format)
    with hs.config.set(default_zarr_format=zarr_format):
        WAYS[way](store, hs.open_array(store, path="a"))
    assert_new(store, tmp_path, OLD)
    assert hs.open_array(store, path="a").zarr_format == zarr_format


@STORES
def test_what_holds_the_source_is_overwritten(kind: str, tmp_path: Path) -> None:
    """The source is in the group that the new array replaces."""
    store = begun(kind, tmp_path)
    hs.create_array(store, data=hs.open_array(store, path="a"), overwrite=True)
    z = hs.open_array(store)
    assert np.array_equal(z[...], OLD) and z.attrs == {"old": True}
    if kind == "local":
        assert np.array_equal(zarr.open_array(str(store))[...], OLD)
        assert sorted(entry.name for entry in (tmp_path / "s").iterdir()) == ["c", "zarr.json"]


@STORES
def test_what_is_returned_is_the_array_in_its_place(kind: str, tmp_path: Path) -> None:
    store = begun(kind, tmp_path)
    group = hs.open_group(store, mode="r+").consolidate()
    z = group.create_array("a", data=NEW, chunks=(7,), overwrite=True, config={"cache": "1 MiB"})
    assert z.path == "a" and z.name == "/a" and z == group["a"] and z.store == group.store
    z[0] = -1
    z.append([7])
    z.attrs["new"] = 1
    with z.writer() as writer:
        writer[1] = -2
    assert z[:3].tolist() == [-1, -2, 1002] and z[-1] == 7 and z.cache is not None
    assert group["a"].attrs == {"new": 1} and group["a"].shape == (91,)
    again = hs.open_array(store, path="a")
    assert np.array_equal(again[...], z[...]) and again.attrs == {"new": 1}


def test_caches_do_not_keep_the_old(tmp_path: Path) -> None:
    store = begun("local", tmp_path)
    cache = hs.Cache("1 MiB")
    assert hs.open_array(store, path="a", cache=cache)[:3].tolist() == [0, 1, 2]
    for start in range(0, 500, 100):
        _create(store, OLD + start)
        assert np.array_equal(hs.open_array(store, path="a", cache=cache)[...], OLD + start)


@STORES
@pytest.mark.parametrize("change", ["data", "empty", "group", "delete"])
def test_what_a_writer_has_queued_is_not_stored_in_the_next_array(
    kind: str, change: str, tmp_path: Path
) -> None:
    store = tmp_path / "s" if kind == "local" else hs.MemoryStore()
    group = hs.create_group(store)
    values = np.random.default_rng(1).integers(0, 99, (200, 5000)).astype("i4")
    z = group.create_array("g/a", shape=values.shape, dtype="i4", chunks=(1, 5000))
    with hs.config.set(threads=2):
        writer = z.writer()
        for row in range(200):
            writer[row] = values[row]
        if change == "data":
            group["g/a"] = np.full(values.shape, -1, "i4")
        elif change == "group":
            hs.save_group(store, path="g", a=np.full(values.shape, -1, "i4"))
        elif change == "empty":
            group.create_array(
                "g/a", shape=values.shape, dtype="i4", fill_value=-1, chunks=(1, 5000), overwrite=True
            )
        else:
            del group["g"]
        writer.close()
    if change == "delete":
        assert hs.open_group(store).store.list("g") == []
    else:
        assert (hs.open_array(store, path="g/a")[...] == -1).all()


def test_several_at_once(tmp_path: Path) -> None:
    """One overwrite runs in the middle of another.

    Both succeed, and the one that ends last stays.
    """
    store = begun("local", tmp_path)
    inner = OLD + 5
    _create(store, Blocks(NEW, lambda: _create(store, inner)))
    assert_new(store, tmp_path)
    # Also in a signal handler: the interrupted overwrite holds no lock.
    before = signal.signal(signal.SIGUSR1, lambda *_: _create(store, inner))
    try:
        _create(store, Blocks(NEW + 1, lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert_new(store, tmp_path, NEW + 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("ending", ["raises", "goes on"])
def test_a_child_forked_in_the_middle_leaves_the_array_to_its_parent(ending: str, tmp_path: Path) -> None:
    store, parent = begun("local", tmp_path), os.getpid()

    def fork() -> None:
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        elif ending == "raises":
            raise OSError("in the child")

    try:
        _create(store, Blocks(NEW, fork))
    except OSError:
        if os.getpid() != parent:
            os._exit(7)
        raise
    if os.getpid() != parent:
        os._exit(0)
    assert_new(store, tmp_path)


def test_nothing_is_made_where_the_array_cannot_be(tmp_path: Path) -> None:
    store = begun("local", tmp_path)

    def never() -> None:
        raise AssertionError("data was read")

    with pytest.raises(hs.errors.HyperslabError):
        hs.create_array(store, name="a/below", data=Blocks(NEW, never), overwrite=True)
    with pytest.raises(OSError, match="no more"):
        hs.create_array(store, name="new/below", data=Blocks(NEW, _fail), overwrite=True)
    assert_old(store, tmp_path)
    assert sorted(entry.name for entry in (tmp_path / "s").iterdir()) == ["a", "other", "zarr.json"]


def _fail() -> None:
    raise OSError("no more data")


class Labelled:
    """Like a pandas Series: a slice of numbers selects labels."""

    def __init__(self, values: Any) -> None:
        self.values, self.shape, self.dtype, self.iloc = values, values.shape, values.dtype, values

    def __getitem__(self, selection: Any) -> Any:
        return self.values[:0]

    def __array__(self, *arguments: Any, **more: Any) -> Any:
        return np.asarray(self.values, *arguments, **more)


def test_labels_are_not_positions() -> None:
    assert np.array_equal(hs.array(Labelled(NEW))[...], NEW)


def test_create_broadcasts() -> None:
    assert hs.create((2, 3), dtype="i4", data=5)[...].tolist() == [[5] * 3] * 2
    assert hs.create((2, 3), dtype="i4", data=np.array([1, 2, 3]))[...].tolist() == [[1, 2, 3]] * 2
    assert hs.create((2, 3), dtype="i4", data=hs.array([1, 2, 3]))[...].tolist() == [[1, 2, 3]] * 2


def objects(store: Any) -> dict[str, Any]:
    found = hs.open_group(store, mode="r").store
    return {key: found.get(key) for key in found.list()}


@STORES
def test_hierarchies_are_checked_before_anything_is_replaced(kind: str, tmp_path: Path) -> None:
    store = begun(kind, tmp_path)
    before = objects(store)
    like = hs.zeros((4,), chunks=(2,), dtype="i4").metadata
    older = hs.zeros((4,), chunks=(2,), dtype="i4", zarr_format=2).metadata
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"other": like, "a/b": like}, hs.errors.ContainsArrayError, "cannot hold other nodes"),
        ({"other": older}, hs.errors.ContainsGroupError, "Zarr v2"),
        ({"a": like, "zarr.json/b": like}, ValueError, "metadata object"),
        ({"a": like, "b/../c": like}, ValueError, "component"),
        ({"a": like, "b": {**like.to_dict(), "data_type": "nonsense"}}, ValueError, "nonsense"),
    ]
    for nodes, error, words in wrong:
        with pytest.raises(error, match=words):
            hs.create_hierarchy(store=store, nodes=nodes, overwrite=True)
        assert objects(store) == before
    below = hs.storage.StorePath(hs.open_group(store, mode="r+").store, "a/b")
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.create_hierarchy(store=below, nodes={"c": like}, overwrite=True)
    assert objects(store) == before
    made = dict(hs.create_hierarchy(store=store, nodes={"a": like}, overwrite=True))
    assert made["a"][...].tolist() == [0] * 4
    assert sorted(objects(store)) == ["a/zarr.json", "other/c/0", "other/zarr.json", "zarr.json"]


@STORES
def test_hierarchies_of_version_2_are_replaced(kind: str, tmp_path: Path) -> None:
    store = begun(kind, tmp_path, 2)
    like = hs.zeros((4,), chunks=(2,), dtype="i4", zarr_format=2, attributes={"new": 1}).metadata
    made = dict(hs.create_hierarchy(store=store, nodes={"a": like}, overwrite=True))
    assert made["a"][...].tolist() == [0] * 4 and made["a"].attrs == {"new": 1}
    assert sorted(key for key in objects(store) if key.startswith("a/")) == ["a/.zarray", "a/.zattrs"]


@STORES
def test_a_node_is_not_moved_to_a_name_that_none_can_have(kind: str, tmp_path: Path) -> None:
    store = begun(kind, tmp_path)
    before = objects(store)
    for wrong in ("zarr.json", "b/zarr.json", "..", "b/../c"):
        with pytest.raises(ValueError, match="invalid path"):
            hs.open_group(store, mode="r+").move("a", wrong)
        assert objects(store) == before


def test_what_a_server_would_lose_is_not_read_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server keeps only a limited amount of old data until the new data are complete."""
    da = pytest.importorskip("dask.array")
    from object_server_client import Server

    with Server() as server:
        url, options = "s3://bucket/a.zarr", server.s3_options
        hs.create_group(url, storage_options=options).create_array("a", data=OLD, chunks=(7,))
        z = hs.open_array(url, path="a", storage_options=options)
        ways: list[Callable[[], object]] = [
            lambda: hs.create_array(url, name="a", data=z, overwrite=True, storage_options=options),
            lambda: hs.create_array(
                url, name="a", data=da.from_array(z) + 1, overwrite=True, storage_options=options
            ),
            lambda: hs.create_array(url, data=z, overwrite=True, storage_options=options),
            lambda: hs.save_group(url, a=z, b=OLD, storage_options=options),
        ]
        monkeypatch.setattr("hyperslab._dask.reads.KEPT_BYTES", 399)
        for way in ways:
            with pytest.raises(ValueError, match="read them first"):
                way()
            assert z[...].tolist() == OLD.tolist()
        # Data from elsewhere may be of any size. Old data may be read if they are small.
        hs.create_array(url, name="b", data=z, overwrite=True, storage_options=options)
        monkeypatch.setattr("hyperslab._dask.reads.KEPT_BYTES", 400)
        ways[1]()
        found = hs.open_group(url, mode="r", storage_options=options)
        assert found["a"][...].tolist() == (OLD + 1).tolist() and found["b"][...].tolist() == OLD.tolist()
