"""Transactions: readers of consolidated metadata see all appended rows or none."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from seeds import SEED
from support import killed, kills

FORMATS = [2, 3]


def made(store: Any, form: int) -> Any:
    """Creates a group with consolidated metadata and two arrays without rows."""
    group = hs.create_group(store, zarr_format=form, attributes={"title": "t"})
    group.create_array("time", shape=(0,), chunks=(5,), dtype="i8", fill_value=-1)
    group.create_array("below/sst", shape=(0, 3), chunks=(4, 2), dtype="f8", fill_value=-1)
    return hs.consolidate_metadata(store)


def add(group: Any, start: int, count: int = 2) -> None:
    """Appends equal rows to both arrays."""
    rows = np.arange(start, start + count)
    with hs.transaction(group) as t:
        t["below/sst"].append(np.repeat(rows, 3).reshape(-1, 3))
        t["time"].append(rows)


def seen(store: Any) -> int:
    """Returns the number of rows that readers see. Their values belong together."""
    group = hs.open_consolidated(store)
    when, sst = group["time"][:], group["below/sst"][:]
    assert when.shape[0] == sst.shape[0]
    assert np.array_equal(np.repeat(when, 3).reshape(-1, 3), sst)
    assert (when >= 0).all()
    return int(when.shape[0])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("where", ["memory", "local"])
def test_rows_become_visible_together(tmp_path: Path, form: int, where: str) -> None:
    store: Any = hs.MemoryStore() if where == "memory" else tmp_path / "g.zarr"
    group = made(store, form)
    with hs.transaction(group) as t:
        t["time"].append([0, 1])
        assert group["time"].shape == (0,)
        t["below/sst"].append([[0, 0, 0]])
        t["/below/sst/"].append([[1, 1, 1]])
        assert seen(store) == 0
    assert seen(store) == 2
    # This group shows them, too, and so do readers without consolidated metadata.
    assert (group["time"].shape, group["below/sst"].shape) == ((2,), (2, 3))
    plain = hs.open_group(store, mode="r", use_consolidated=False)
    assert plain["below/sst"].shape == (2, 3)
    for start in range(2, 20, 3):
        add(group, start, 3)
    assert seen(store) == 20
    assert hs.open_consolidated(store).attrs["title"] == "t"


@pytest.mark.parametrize("form", FORMATS)
def test_errors_leave_nothing(tmp_path: Path, form: int) -> None:
    group = made(tmp_path / "g.zarr", form)
    add(group, 0)
    with pytest.raises(RuntimeError, match="mine"), hs.transaction(group) as t:
        t["time"].append([9])
        raise RuntimeError("mine")
    with pytest.raises(hs.errors.ArrayShapeError), hs.transaction(group) as t:
        t["time"].append([9])
        t["below/sst"].append([[1, 2]])
    # A folder is in the place of a chunk: an error, after the rows of the other array were stored.
    chunk = tmp_path / "g.zarr" / "time" / ("c/1" if form == 3 else "1")
    chunk.mkdir()
    with pytest.raises(OSError, match="time"):
        add(group, 2, 9)
    chunk.rmdir()
    assert seen(tmp_path / "g.zarr") == 2
    plain = hs.open_group(tmp_path / "g.zarr", mode="r", use_consolidated=False)
    assert (plain["time"].shape, plain["below/sst"].shape) == ((2,), (2, 3))
    add(group, 2)
    assert seen(tmp_path / "g.zarr") == 4


def test_overwritten_elements_come_before_the_rows(tmp_path: Path) -> None:
    group = made(tmp_path / "g.zarr", 3)
    add(group, 0, 4)
    with hs.transaction(group) as t:
        t["time"][1:3] = [7, 8]
        t["time"].append([4])
        t["below/sst"].append([[4, 4, 4]])
        assert group["time"][:].tolist() == [0, 1, 2, 3]
    assert hs.open_consolidated(tmp_path / "g.zarr")["time"][:].tolist() == [0, 7, 8, 3, 4]


def test_other_changes_of_the_metadata_stay(tmp_path: Path) -> None:
    group = made(tmp_path / "g.zarr", 3)
    other = hs.open_group(tmp_path / "g.zarr", mode="r+")
    with hs.transaction(group) as t:
        t["time"].append([0])
        t["below/sst"].append([[0, 0, 0]])
        other.attrs["n"] = 5
        other["time"].attrs["units"] = "days"
    reader = hs.open_consolidated(tmp_path / "g.zarr")
    assert (reader.attrs["n"], reader["time"].attrs["units"]) == (5, "days")
    # A plain append before the block shows with it.
    other["time"].append([1])
    other["below/sst"].append([[1, 1, 1]])
    assert seen(tmp_path / "g.zarr") == 1
    add(group, 2)
    assert seen(tmp_path / "g.zarr") == 4


def test_without_consolidated_metadata() -> None:
    group = hs.create_group(hs.MemoryStore())
    group.create_array("a", data=[1])
    group.create_array("b", data=[1.5])
    with hs.transaction(group) as t:
        t["a"].append([2])
        t["b"].append([2.5])
    assert (group["a"][:].tolist(), group["b"][:].tolist()) == ([1, 2], [1.5, 2.5])


def test_a_file_is_flushed_once(tmp_path: Path) -> None:
    with hs.File(tmp_path / "a.h5", "w") as file:
        for name, shape in [("a", (0,)), ("g/b", (0, 2))]:
            file.create_dataset(name, shape, "i4", maxshape=(None, *shape[1:]), chunks=True)
        file.flush()
        with hs.transaction(file) as t:
            t["a"].append([1])
            t["g/b"].append([[1, 2]])
            assert file["a"].shape == (0,)
        with hs.File(tmp_path / "a.h5", "r") as reader:
            assert (reader["a"][:].tolist(), reader["g/b"][:].tolist()) == ([1], [[1, 2]])
        with pytest.raises(TypeError), hs.transaction(file) as t:
            t["a"].append([2])
            t["g/b"][0] = object()
        assert file["a"].shape == (1,)


def test_wrong_arguments(tmp_path: Path) -> None:
    group = made(tmp_path / "g.zarr", 3)
    with pytest.raises(TypeError, match="group: expected a group"):
        hs.transaction(group["time"])
    with pytest.raises(hs.HyperslabError):
        hs.transaction(hs.open_group(tmp_path / "g.zarr", mode="r"))
    with hs.transaction(group) as t:
        with pytest.raises(KeyError):
            t["none"].append([1])
        with pytest.raises(ValueError, match="expected the path of an array"):
            t["below"].append([1])
    group.create_array("new", shape=(0,), dtype="i4")
    with pytest.raises(hs.HyperslabError, match=r"no array 'new'\. Call consolidate_metadata"):
        with hs.transaction(group) as t:
            t["new"].append([1])


def _write(path: Path, count: int) -> None:
    group = hs.open_group(path, mode="r+")
    for n in range(count):
        add(group, 100 * n, 1 + n % 3)


def test_processes_append_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "g.zarr"
    made(path, 3)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, 20)) for _ in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen(path)
        time.sleep(0.01)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen(path) == 3 * sum(1 + n % 3 for n in range(20))


def test_writers_that_are_killed(tmp_path: Path) -> None:
    path = tmp_path / "g.zarr"
    group = made(path, 3)
    rows = 0
    for _ in killed(lambda: add(group, 7, 3), kills(30), SEED, 0.02):
        now = seen(path)
        assert now >= rows
        assert now % 3 == 0
        rows = now
    add(group, 7, 3)
    assert seen(path) == rows + 3


def test_a_server() -> None:
    with Server() as server:
        store = hs.storage.RemoteStore("s3://bucket/g.zarr", storage_options=server.s3_options)
        group = made(store, 3)
        add(group, 0, 4)
        assert seen(store) == 4
        # Rows that somebody has reserved and not published come first.
        plain = hs.open_group(store, mode="r+", use_consolidated=False)
        plain["time"].append([4])
        with pytest.raises(TimeoutError, match="appended to 'time'"):
            with hs.transaction(group, wait=0.1) as t:
                t["time"].append([5])
                t["below/sst"].append([[5, 5, 5]])
        assert seen(store) == 4
        plain["below/sst"].append([[4, 4, 4]])
        hs.consolidate_metadata(store)
        add(group, 5)
        assert seen(store) == 7


def _write_remote(url: str, options: dict[str, Any], count: int) -> None:
    store = hs.storage.RemoteStore(url, storage_options=options)
    group = hs.open_group(store, mode="r+")
    for n in range(count):
        add(group, 100 * n, 1 + n % 3)


def test_several_writers_of_a_server() -> None:
    with Server() as server:
        store = hs.storage.RemoteStore("s3://bucket/g.zarr", storage_options=server.s3_options)
        made(store, 3)
        context = multiprocessing.get_context("spawn")
        args = ("s3://bucket/g.zarr", server.s3_options, 6)
        writers = [context.Process(target=_write_remote, args=args) for _ in range(2)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            seen(store)
            time.sleep(0.02)
        for writer in writers:
            writer.join()
            assert writer.exitcode == 0
        assert seen(store) == 2 * sum(1 + n % 3 for n in range(6))
