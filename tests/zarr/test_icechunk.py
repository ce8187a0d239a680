"""Icechunk sessions, if installed: their stores can be read and written like others."""

from __future__ import annotations

import contextlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import hyperslab as hs
import hyperslab.zarr
import numpy as np
import pytest
import zarr
from hyperslab.errors import ReadOnlyError

icechunk = pytest.importorskip("icechunk")


@pytest.fixture
def on_disk(tmp_path: Path) -> Any:
    """A repository that other processes can reach."""
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repository")))


@pytest.fixture
def repository() -> Any:
    return icechunk.Repository.create(icechunk.in_memory_storage())


def test_a_hierarchy_is_copied_into_a_session(repository: Any, tmp_path: Path) -> None:
    source = hs.create_group(tmp_path / "x.zarr")
    source.attrs["title"] = "ocean"
    values = np.random.default_rng(0).random((10, 21))
    source.create_array("a/sharded", data=values, chunks=(2, 7), shards=(4, 21))
    source.create_array("plain", data=np.arange(5), attributes={"units": "m"})
    session = repository.writable_session("main")
    hs.copy_all(source, hs.open_group(session.store, mode="w"))
    session.commit("all")
    store = repository.readonly_session("main").store
    found = hs.open(store)
    assert sorted(found) == ["a", "plain"]
    assert found["plain"].attrs["units"] == "m"
    np.testing.assert_array_equal(found["a/sharded"][3:9, 5], values[3:9, 5])
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["a/sharded"][...], values)
    with pytest.raises(ReadOnlyError):
        found["plain"][0] = 1


def test_parts_of_shards_are_written_and_seen_when_they_are_committed(repository: Any) -> None:
    session = repository.writable_session("main")
    array = hs.create_array(session.store, shape=(8, 8), chunks=(2, 2), shards=(8, 8), dtype="i4")
    array[...] = 1
    session.commit("one")
    session = repository.writable_session("main")
    array = hs.open_array(session.store, mode="r+")
    array[3, 2:5] = 2
    before = hs.open_array(repository.readonly_session("main").store)
    assert (before[...] == 1).all()
    assert array[3].tolist() == [1, 1, 2, 2, 2, 1, 1, 1]
    session.commit("two")
    assert hs.open_array(repository.readonly_session("main").store)[3, 2:5].tolist() == [2, 2, 2]


def test_the_pipeline_in_a_session(repository: Any) -> None:
    hyperslab.zarr.fallbacks(clear=True)
    session = repository.writable_session("main")
    settings = {"codec_pipeline.path": "hyperslab.zarr.CodecPipeline", "codec_pipeline.strict": True}
    with zarr.config.set(settings):
        array = zarr.create_array(session.store, name="a", shape=(9, 9), chunks=(3, 3), dtype="f4")
        array[2:7, 1:8] = 5
        assert array[2].tolist() == [0, 5, 5, 5, 5, 5, 5, 5, 0]
        session.commit("one")
        again = zarr.open_array(repository.readonly_session("main").store, path="a", mode="r")
        assert (again[2:7, 1:8] == 5).all()
    assert hyperslab.zarr.fallbacks() == []


@pytest.mark.parametrize("shards", [None, (2, 8)])
def test_appending(repository: Any, shards: Any) -> None:
    """The session refuses chunks beyond the stored shape, so the shape is stored first."""
    session = repository.writable_session("main")
    made = {"shape": (4, 8), "chunks": (1, 4), "shards": shards, "dtype": "i4"}
    array = hs.create_array(session.store, name="a", **made)
    array[...] = 3
    assert array.append(np.ones((3, 8), "i4")) == (7, 8)
    assert hs.open_array(session.store, path="a").append(np.full((7, 2), 2), axis=1) == (7, 10)
    theirs: Any = zarr.open_group(session.store, mode="r")["a"]
    assert theirs.shape == (7, 10)
    expected = np.full((7, 10), 2)
    expected[:4, :8], expected[4:, :8] = 3, 1
    np.testing.assert_array_equal(theirs[...], expected)
    session.commit("all")
    store = repository.readonly_session("main").store
    np.testing.assert_array_equal(hs.open_array(store, path="a")[...], expected)


def test_an_append_that_fails(repository: Any) -> None:
    session = repository.writable_session("main")
    array = hs.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="string")
    array[...] = "old"
    with pytest.raises(Exception):  # noqa: B017
        array.append([[1, 2], [3]])
    assert hs.open_array(session.store, path="a").shape == (4,)

    class Failing(zarr.storage.WrapperStore):  # type: ignore[type-arg]
        async def set(self, key: str, value: Any) -> None:
            if "/c/3" in key:
                raise OSError("no room")
            await super().set(key, value)

    array = hs.open_array(Failing(session.store), path="a", mode="r+")
    with pytest.raises(OSError, match="no room"):
        array.append(["new"] * 4)
    again = hs.open_array(session.store, path="a", mode="r+")
    assert again.shape == (4,) and again[...].tolist() == ["old"] * 4
    # Later appends do not reveal elements of the failed one.
    assert again.append(["one"]) == (5,)
    again.resize((8,))
    assert again[...].tolist() == ["old"] * 4 + ["one"] + [""] * 3


def test_resizing(repository: Any) -> None:
    session = repository.writable_session("main")
    array = hs.create_array(session.store, name="a", shape=(8, 8), chunks=(2, 2), dtype="i4")
    array[...] = 5
    array.resize((3, 4))
    assert zarr.open_group(session.store, mode="r")["a"].shape == (3, 4)
    array.resize((8, 6))
    expected = np.zeros((8, 6), "i4")
    expected[:3, :4] = 5
    np.testing.assert_array_equal(array[...], expected)
    np.testing.assert_array_equal(zarr.open_group(session.store, mode="r")["a"][...], expected)
    session.commit("all")
    store = repository.readonly_session("main").store
    np.testing.assert_array_equal(hs.open_array(store, path="a")[...], expected)


def test_there_is_no_consolidated_metadata(repository: Any) -> None:
    session = repository.writable_session("main")
    group = hs.create_group(session.store)
    group.create_array("a", data=np.arange(3))
    with pytest.raises(TypeError, match="no consolidated metadata"):
        hs.consolidate_metadata(session.store)
    with pytest.raises(TypeError, match="no consolidated metadata"):
        group.consolidate()
    zarr.open_group(session.store, mode="r+").create_array("b", data=np.arange(3))
    assert sorted(hs.open(session.store)) == sorted(group) == ["a", "b"]


def hierarchy(path: Path) -> tuple[Any, Any]:
    """A hierarchy on disk, and its values."""
    source = hs.create_group(path)
    values = np.random.default_rng(0).random((64, 64))
    source.create_array("a", data=values, chunks=(8, 8))
    source.create_array("g/b", data=values + 1, chunks=(16, 16), shards=(32, 32), attributes={"u": 1})
    return source, values


def executor_of(kind: str) -> Any:
    if kind == "processes":
        return ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    return ThreadPoolExecutor(3) if kind == "threads" else contextlib.nullcontext()


@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_a_plan_into_a_session(on_disk: Any, kind: str, tmp_path: Path) -> None:
    source, values = hierarchy(tmp_path / "x.zarr")
    session = on_disk.writable_session("main")
    place = hs.storage.StorePath(hs.storage.ZarrStore(session.store), "x/y")
    plan = hs.plan_copy(source, place, task_size="4 KiB", chunks=(16, 16))
    with executor_of(kind) as executor:
        assert plan.run(executor, verify=True).tasks == plan.tasks > 5
    # The user commits.
    with pytest.raises(hs.errors.NodeNotFoundError):
        hs.open(on_disk.readonly_session("main").store, mode="r")
    session.commit("copy")
    found: Any = zarr.open_group(on_disk.readonly_session("main").store, mode="r")["x/y"]
    np.testing.assert_array_equal(found["a"][...], values)
    np.testing.assert_array_equal(found["g/b"][...], values + 1)
    assert dict(found["g/b"].attrs) == {"u": 1}


@pytest.mark.parametrize("kind", ["none", "processes"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_plan_from_a_session(on_disk: Any, kind: str, committed: bool, tmp_path: Path) -> None:
    source, values = hierarchy(tmp_path / "x.zarr")
    session = on_disk.writable_session("main")
    hs.copy_all(source, hs.open_group(session.store, mode="w"))
    if committed:
        session.commit("all")
    store = on_disk.readonly_session("main").store if committed else session.store
    plan = hs.plan_copy(store, tmp_path / "y.zarr", task_size="4 KiB")
    with executor_of(kind) as executor:
        plan.run(executor, verify=True)
    np.testing.assert_array_equal(hs.open(tmp_path / "y.zarr")["g/b"][...], values + 1)
    # A node of it, and a plan as text.
    plan = hs.plan_copy(hs.open(store)["a"], tmp_path / "z.zarr")
    assert "source_store" not in plan.to_json()
    plan.run()
    np.testing.assert_array_equal(hs.open(tmp_path / "z.zarr")[...], values)


def test_what_a_plan_into_a_session_refuses(on_disk: Any, tmp_path: Path) -> None:
    source, values = hierarchy(tmp_path / "x.zarr")
    session = on_disk.writable_session("main")
    plan = hs.plan_copy(source["a"], session.store)
    with pytest.raises(hs.errors.InvalidArgumentError, match="no journal"):
        plan.run(resume=True)
    with pytest.raises(hs.errors.UnsupportedError, match="no text"):
        plan.to_json()
    plan.run()
    with pytest.raises(hs.errors.DestinationError, match="is there"):
        hs.plan_copy(source["a"], session.store).run()
    hs.plan_copy(source["a"], session.store, overwrite=True).run()
    np.testing.assert_array_equal(hs.open(session.store)[...], values)
    with pytest.raises(hs.errors.UnsupportedError, match="v3"):
        hs.plan_copy(source["a"], session.store, zarr_format=2)
    session.commit("a")
    with pytest.raises(ReadOnlyError):
        hs.plan_copy(source["a"], on_disk.readonly_session("main").store).run()


@pytest.mark.parametrize("kind", ["none", "threads"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failed_run_changes_nothing_in_the_session(
    on_disk: Any, tmp_path: Path, kind: str, overwrite: bool
) -> None:
    """The copy is new, or replaces a group."""
    source, _ = hierarchy(tmp_path / "x.zarr")
    session = on_disk.writable_session("main")
    hs.create_group(session.store)
    if overwrite:
        hs.create_array(session.store, name="y/old", data=np.arange(9), chunks=(2,))
    session.commit("old")
    session = on_disk.writable_session("main")
    # A change that is not committed stays.
    hs.open_group(session.store, mode="r+").attrs["kept"] = True
    place = hs.storage.StorePath(hs.storage.ZarrStore(session.store), "y")
    plan = hs.plan_copy(source, place, task_size="4 KiB", overwrite=overwrite)
    (tmp_path / "x.zarr/a/c/3/3").write_bytes(b"damaged")
    with executor_of(kind) as executor, pytest.raises(hs.errors.ChunkError):
        plan.run(executor, retries=0)
    session.commit("as it was")
    group = hs.open_group(on_disk.readonly_session("main").store)
    assert group.attrs["kept"]
    assert [path for path, _ in group.members(max_depth=None)] == (["y", "y/old"] if overwrite else [])
    if overwrite:
        assert group["y/old"][...].tolist() == list(range(9))


def changed_nowhere(session: Any) -> None:
    pass


def changed_in_an_array(session: Any) -> None:
    hs.open_array(session.store, path="y/a", mode="r+")[3] = 30


def changed_beside(session: Any) -> None:
    hs.create_array(session.store, name="y/new", data=np.arange(4))


def deleted(session: Any) -> None:
    del hs.open_group(session.store, mode="r+")["y"]


def all_new(session: Any) -> None:
    pass


CHANGES = [changed_nowhere, changed_in_an_array, changed_beside, deleted, all_new]


@pytest.mark.parametrize("kind", ["none", "processes"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_replaces_a_group(on_disk: Any, tmp_path: Path, kind: str, change: Any) -> None:
    """Nothing of the old group is left, whatever the session has changed there before."""
    source, values = hierarchy(tmp_path / "x.zarr")
    session = on_disk.writable_session("main")
    hs.create_array(session.store, name="y/old", data=np.arange(9), chunks=(2,))
    hs.create_array(session.store, name="y/a", data=np.arange(9), chunks=(2,), attributes={"old": 1})
    hs.create_array(session.store, name="z", data=np.arange(5))
    if change is not all_new:
        session.commit("old")
        session = on_disk.writable_session("main")
    change(session)
    place = hs.storage.StorePath(hs.storage.ZarrStore(session.store), "y")
    plan = hs.plan_copy(source, place, task_size="4 KiB", overwrite=True)
    with executor_of(kind) as executor:
        plan.run(executor, verify=True)
    session.commit("new")
    found: Any = zarr.open_group(on_disk.readonly_session("main").store, mode="r")
    assert sorted(found["y"]) == ["a", "g"] and dict(found["y/a"].attrs) == {}
    np.testing.assert_array_equal(found["y/a"][...], values)
    np.testing.assert_array_equal(found["y/g/b"][...], values + 1)
    assert found["z"][...].tolist() == list(range(5))


def test_a_name_that_is_no_key_of_a_session(repository: Any) -> None:
    hs.create_group(repository.writable_session("main").store)
    with pytest.raises(hs.errors.NodeNotFoundError):
        hs.open(repository.writable_session("main").store, path="x/y", mode="r")
