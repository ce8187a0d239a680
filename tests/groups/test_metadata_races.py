"""Several threads, processes and objects change metadata at once. Nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import metadata_writers
import numpy as np
import pytest
import zarr

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


def run_together(*programs: tuple[Any, ...]) -> list[str]:
    """Runs programs of `metadata_writers` side by side. Returns their output."""
    started = [
        subprocess.Popen(
            [sys.executable, metadata_writers.__file__, *map(str, program)], stdout=subprocess.PIPE, text=True
        )
        for program in programs
    ]
    answers = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started)
    return answers


def in_threads(*work: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


@FORMATS
def test_appends_of_processes(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "a"
    hs.create_array(path, shape=(0,), chunks=(4,), dtype="i4", zarr_format=zarr_format)
    run_together(*[("append", path, who, 25) for who in range(4)])
    expected = sorted(who * 1000 + n + 1 for who in range(4) for n in range(25))
    for library in (hs, zarr):
        found = library.open_array(path, mode="r")[...].tolist()
        assert sorted(found) == expected
        for who in range(4):
            own = [value for value in found if value // 1000 == who]
            assert own == sorted(own)


@FORMATS
@pytest.mark.parametrize("handles", ["one", "many", "consolidated"])
def test_appends_of_threads(tmp_path: Path, zarr_format: Any, handles: str) -> None:
    group = hs.create_group(tmp_path / "g", zarr_format=zarr_format)
    shared = group.create_array("a", shape=(0, 2), chunks=(4, 2), dtype="i4")
    group.consolidate()

    def append(who: int) -> None:
        for n in range(15):
            match handles:
                case "one":
                    z = shared
                case "many":
                    z = hs.open_array(tmp_path / "g", path="a", mode="r+")
                case _:
                    z = group.get_array("a")
            z.append([[who * 100 + n + 1] * 2])

    in_threads(*[lambda who=who: append(who) for who in range(3)])  # type: ignore[misc]
    found = hs.open_array(tmp_path / "g", path="a")[...]
    assert np.array_equal(found[:, 0], found[:, 1])
    assert sorted(found[:, 0]) == sorted(who * 100 + n + 1 for who in range(3) for n in range(15))
    if handles != "many":
        assert (shared if handles == "one" else group["a"]).shape == (45, 2)


def test_a_stale_object_appends_behind_what_others_have(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", shape=(0,), chunks=(2,), dtype="i4")
    one, other = hs.open_array(tmp_path / "a"), hs.open_array(tmp_path / "a")
    assert one.append([1, 2, 3, 4, 5]) == (5,)
    assert other.append([6]) == (6,)
    assert other[...].tolist() == [1, 2, 3, 4, 5, 6]
    text = hs.create_array(tmp_path / "t", shape=(0,), chunks=(2,), dtype="string")
    stale = hs.open_array(tmp_path / "t", mode="r+")
    text.append(["a", "b", "c"])
    assert stale.append(["d"]) == (4,)
    assert stale[...].tolist() == ["a", "b", "c", "d"]


def test_an_append_that_fails_changes_nothing(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=np.arange(3), chunks=(2,))
    with pytest.raises(hs.errors.ArrayShapeError):
        z.append([[1]])
    with pytest.raises(ValueError):
        z.append(["no number"])
    assert z.shape == (3,) and hs.open_array(tmp_path / "a")[...].tolist() == [0, 1, 2]


@FORMATS
@pytest.mark.parametrize("kind", ["array", "group", "consolidated"])
def test_attributes_of_processes(tmp_path: Path, zarr_format: Any, kind: str) -> None:
    path = tmp_path / "n"
    if kind == "array":
        hs.create_array(path, shape=(3,), dtype="i4", zarr_format=zarr_format)
    else:
        group = hs.create_group(path, zarr_format=zarr_format)
        group.create_array("a", shape=(3,), dtype="i4")
        if kind == "consolidated":
            group.consolidate()
    run_together(*[("attributes", path, who, 60) for who in range(4)])
    expected = {f"{who}-{n}": n for who in range(4) for n in range(60) if n % 3 != 1}
    assert hs.open(path, mode="r").attrs.asdict() == expected
    assert dict(zarr.open(path, mode="r").attrs) == expected


@FORMATS
def test_attributes_against_resizes(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "a"
    hs.create_array(path, shape=(0,), chunks=(2,), dtype="i4", zarr_format=zarr_format)
    one, other = hs.open_array(path, mode="r+"), hs.open_array(path, mode="r+")

    def grow() -> None:
        for _ in range(40):
            one.append([1, 2, 3])

    def describe() -> None:
        for n in range(40):
            other.attrs[f"n{n}"] = n

    in_threads(grow, describe)
    z = hs.open_array(path, mode="r")
    assert z.shape == (120,) and len(z.attrs) == 40
    assert z[...].tolist() == [1, 2, 3] * 40


@FORMATS
def test_changes_of_attributes_touch_their_own_keys(tmp_path: Path, zarr_format: Any) -> None:
    hs.create_group(tmp_path / "g", zarr_format=zarr_format, attributes={"a": 1, "b": 2})
    one, other = (hs.open_group(tmp_path / "g", mode="r+") for _ in range(2))
    other.attrs["c"] = 3
    del one.attrs["a"]
    assert one.attrs.asdict() == {"b": 2, "c": 3}
    del one.attrs["b"]
    with pytest.raises(KeyError):
        del other.attrs["b"]
    one.attrs["d"] = 4
    assert other.attrs.setdefault("d", 5) == 4
    assert other.attrs.setdefault("e", 6) == 6
    one.attrs.update(f=7)
    other.attrs.put({"only": 1})
    assert one.refresh().attrs.asdict() == {"only": 1}


@FORMATS
def test_of_several_creators_one_wins(tmp_path: Path, zarr_format: Any) -> None:
    hs.create_group(tmp_path / "g", zarr_format=zarr_format)
    answers = run_together(*[("create", tmp_path / "g", who, 30) for who in range(3)])
    for who, answer in enumerate(answers):
        for n in answer.split():
            assert hs.open_array(tmp_path / "g", path=f"g{n}/a").attrs["by"] == who
    assert sorted(int(n) for answer in answers for n in answer.split()) == list(range(30))


@FORMATS
def test_what_a_consolidated_group_shows(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "g"
    made = hs.create_group(path, zarr_format=zarr_format)
    made.create_array("a", shape=(3,), dtype="i4")
    made.create_group("x")
    made.consolidate()
    group = hs.open_group(path, mode="r+")
    assert group._is_consolidated
    # The group shows changes made through its nodes.
    group["a"].attrs["v"] = 1
    group["a"].attrs["w"] = 2
    assert group["a"].attrs.asdict() == {"v": 1, "w": 2}
    assert dict(zarr.open_array(path, path="a").attrs) == {"v": 1, "w": 2}
    group.get_array("a").append([7])
    assert group.get_array("a").shape == (4,)
    group["x"].attrs["k"] = 1
    assert group["x"].attrs.asdict() == {"k": 1}
    # It shows new nodes, too.
    z = group.create_array("x/y/new", shape=(2,), dtype="i4")
    z.attrs["u"] = 1
    assert group["x/y/new"].attrs.asdict() == {"u": 1}
    assert list(group) == ["a", "x"] and "x/y" in group
    assert [name for name, _ in group.members(None)] == ["a", "x", "x/y", "x/y/new"]
    group.get_group("x").create_group("z", attributes={"q": 1})
    assert group["x/z"].attrs.asdict() == {"q": 1}
    # Nodes created elsewhere are neither listed nor found.
    hs.create_array(path, name="other", shape=(1,), dtype="i4", zarr_format=zarr_format)
    assert "other" not in group and "other" not in list(group)
    with pytest.raises(KeyError):
        group["other"]
    assert "other" in hs.open_group(path, use_consolidated=False)
    group.consolidate()
    assert "other" in group and "other" in list(group)
    del group["x"]
    assert "x" not in group and "x/y/new" not in group
    assert "x" not in hs.open_group(path, mode="r", use_consolidated=True)
    # The group's own attributes.
    group.attrs["title"] = "t"
    assert hs.open_group(path, mode="r", use_consolidated=True).attrs.asdict() == {"title": "t"}
    assert dict(zarr.open_group(path, mode="r", use_consolidated=True).attrs) == {"title": "t"}


def test_a_handler_that_changes_the_node_that_is_being_changed(tmp_path: Path) -> None:
    """Refused, because otherwise the thread would wait for itself forever."""
    z = hs.create_array(tmp_path / "a", shape=(0,), chunks=(1,), dtype="i4")
    other = hs.open_array(tmp_path / "a", mode="r+")
    seen: list[str] = []

    def handle(*_: Any) -> None:
        try:
            other.attrs["n"] = len(seen)
            seen.append("stored")
        except hs.errors.BusyError as error:
            assert "being changed by this thread" in str(error)
            seen.append("refused")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        end = time.monotonic() + 30
        rows = 0
        while len(seen) < 20 and time.monotonic() < end:
            z.append(np.arange(1, 400))
            rows += 399
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
    assert hs.open_array(tmp_path / "a").shape == (rows,)


def test_waiting_for_a_node_can_be_stopped(tmp_path: Path) -> None:
    """Another process holds the lock of the array's directory."""
    import fcntl

    z = hs.create_array(tmp_path / "a", shape=(0,), chunks=(1,), dtype="i4")
    holder = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for change in (lambda: z.append([1]), lambda: z.resize((3,)), lambda: z.attrs.update(a=1)):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                change()
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(holder)
    z.append([1])
    assert hs.open_array(tmp_path / "a")[...].tolist() == [1]


def test_forks_in_the_middle_of_changes(tmp_path: Path) -> None:
    """A child finds no held lock, even for the object that another thread is changing."""
    z = hs.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="i4")
    group = hs.create_group(tmp_path / "g")
    stop = threading.Event()

    def work() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            z.attrs["k"] = n
            z.append([n])
            group.attrs["k"] = n
            list(z.stream())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(40):
            child = os.fork()
            if child == 0:
                try:
                    z.attrs["child"] = 1
                    group.attrs["child"] = 1
                    z.append([0])
                    os._exit(0)
                finally:
                    os._exit(2)
            end = time.monotonic() + 60
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
                if time.monotonic() > end:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    pytest.fail("the child hangs")
                time.sleep(0.002)
            assert os.waitstatus_to_exitcode(done[1]) == 0
    finally:
        stop.set()
        thread.join()
    found = hs.open_array(tmp_path / "a")
    assert found.attrs["child"] == 1
    assert int((found[4:] == 0).sum()) == 40
