"""Runs of `hyperslab.plan_copy` that wake up late: another run has resumed or finished the copy."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
from copy_steps import once
from hyperslab._copy import run as copy_run
from hyperslab._copy import worker
from object_server_client import Server
from support import assert_same
from test_plan_copy import Stopped, data, files, first_range, planned, stop_after, undisturbed


def at_the_end(other: Callable[[], object]) -> Any:
    """Returns a progress function that calls `other` once all tasks of this run are done."""
    begun = False

    def progress(_: str, done: int, total: int) -> None:
        nonlocal begun
        if done == total and not begun:
            begun = True
            other()

    return progress


@pytest.mark.parametrize("overwrite", [False, True])
def test_another_run_has_finished(tmp_path: Path, overwrite: bool) -> None:
    if overwrite:
        hs.create_array(tmp_path / "b", data=data((9,)))
    plan = planned(tmp_path, overwrite=overwrite)
    with pytest.raises(hs.errors.DestinationError, match="no journal of this copy.*finished or given up"):
        plan.run(progress=at_the_end(lambda: plan.run(resume=True)))
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_another_run_has_resumed(tmp_path: Path) -> None:
    """The late run does not remove the temporary arrays of the run that resumed the copy.

    If it did, their missing chunks would read as fill values.
    """
    plan = planned(tmp_path)
    assert plan.depth > 1
    kept: list[str] = []

    def resume() -> None:
        work = tmp_path / ".b.hyperslab-copy"
        next(path for path in sorted(work.glob("new-*/c/**/*")) if path.is_file()).unlink()
        with pytest.raises(Stopped):
            plan.run(resume=True, progress=stop_after(0))
        kept.extend(files(work / "temporary"))

    with pytest.raises(hs.errors.DestinationError, match="another run has resumed this copy"):
        plan.run(progress=at_the_end(resume))
    assert kept and sorted(files(tmp_path / ".b.hyperslab-copy" / "temporary")) == sorted(kept)
    run = plan.run(resume=True)
    assert run.tasks == 1 and run.skipped == plan.tasks - 1
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_a_task_ends_late(tmp_path: Path) -> None:
    """The late task notes nothing in the journal and leaves nothing beside the finished copy."""
    plan = planned(tmp_path)
    with (
        once("part", lambda: plan.run(resume=True)),
        pytest.raises(hs.errors.SupersededError, match="cannot write 'temporary/.*was superseded"),
    ):
        plan.run()
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_tasks_of_a_run_before_do_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(2))
    work = tmp_path / ".b.hyperslab-copy"
    before = (work / "journal" / "id").read_text().partition(" ")[2]
    with pytest.raises(Stopped):
        plan.run(resume=True, progress=stop_after(2))
    found = files(work)
    job = worker.Job(
        plan.id, plan.destination, None, False, False, None, before, source=worker.Source.of(plan)
    )
    with pytest.raises(hs.errors.DestinationError, match="another run has resumed this copy"):
        worker.run_range(job, first_range(plan))
    assert files(work) == found


def test_a_run_is_stopped_while_it_moves_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other run can resume or discard the copy: a half-written copy would then be moved."""
    hs.create_array(tmp_path / "b", data=data((9,)))
    plan = planned(tmp_path, overwrite=True)
    monkeypatch.setattr(copy_run, "_WAIT", 0.2)
    said: list[str] = []

    def replace() -> None:
        def others() -> None:
            for other in (lambda: plan.run(resume=True), plan.discard):
                try:
                    other()
                except hs.errors.DestinationError as error:
                    said.append(str(error))

        thread = threading.Thread(target=others)
        thread.start()
        thread.join()

    with once("move", replace):
        plan.run()
    assert len(said) == 2 and all("another run has been moving the copy" in text for text in said)
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("keeps", [False, True])
def test_on_a_server(tmp_path: Path, keeps: bool) -> None:
    """Options that cache objects do not matter: the journal is always requested."""
    z = hs.create_array(tmp_path / "a", data=data((64, 32)), chunks=(1, 32))
    hs.copy(z, tmp_path / "c", chunks=(64, 4))
    with Server() as server:
        options = dict(server.s3_options)
        if keeps:
            options |= {"cache": str(tmp_path / "kept"), "cache_check": "never"}
        plan = hs.plan_copy(
            z, "s3://bucket/b", chunks=(64, 4), task_size=1000, max_memory=3000, storage_options=options
        )
        with pytest.raises(hs.errors.DestinationError, match="no journal of this copy"):
            plan.run(progress=at_the_end(lambda: plan.run(resume=True)))
        stored = {key.removeprefix("b/"): server.get("bucket", key) for key in server.list("bucket", "b/")}
        assert stored == files(tmp_path / "c")
        # A resumed run that has not finished also stops the late run before it writes metadata.
        plan = hs.plan_copy(
            z, "s3://bucket/d", chunks=(64, 4), task_size=1000, max_memory=3000, storage_options=options
        )

        def resume() -> None:
            with pytest.raises(Stopped):
                plan.run(resume=True, progress=stop_after(0))

        with pytest.raises(hs.errors.DestinationError, match="another run has resumed"):
            plan.run(progress=at_the_end(resume))
        assert server.list("bucket", "d/zarr.json") == []
        # The last seconds of the late run have no record.
        assert plan.run(resume=True).skipped == plan.tasks - 1


def test_into_a_region(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((6, 4)), chunks=(1, 4))
    into = hs.create_array(tmp_path / "b", shape=(12, 4), chunks=(1, 4), dtype="i4")
    plan = hs.plan_copy(z, into, target_region=slice(6, 12), task_size=1)
    assert plan.tasks > 1
    with pytest.raises(hs.errors.DestinationError, match="no journal of this copy"):
        plan.run(progress=at_the_end(lambda: plan.run(resume=True)))
    assert_same(into[6:], data((6, 4)))
    assert not into[:6].any()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


# ---- a finished copy


@pytest.mark.parametrize("where", ["here", "processes"])
def test_a_finished_copy_is_resumed(tmp_path: Path, where: str) -> None:
    """A client that was killed after the end can be started again with the same command."""
    group = hs.create_group(tmp_path / "a", attributes={"x": 1})
    group.create_array("v", data=data((64, 32)), chunks=(1, 32))
    group.create_array("w", data=data((5,)), chunks=(2,))
    plan = hs.plan_copy(group, tmp_path / "b", chunks=(64, 4), task_size=1000, max_memory=3000)
    plan.run(resume=True)
    before = files(tmp_path / "b")
    told: list[tuple[str, int, int]] = []
    if where == "here":
        run = plan.run(resume=True, progress=lambda *args: told.append(args))
    else:
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            run = plan.run(pool, resume=True, progress=lambda *args: told.append(args))
    assert run.tasks == 0 and run.skipped == plan.tasks and run.seconds_verified is not None
    assert told[-1] == ("verify", plan.bytes, plan.bytes)
    assert files(tmp_path / "b") == before
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    # Without `resume`, the destination exists already.
    with pytest.raises(hs.errors.DestinationError, match="exists already"):
        plan.run()


@pytest.mark.parametrize("where", ["here", "server"])
def test_a_copy_is_finished_between_two_looks(tmp_path: Path, where: str) -> None:
    """The error does not say that the finished copy is in the way."""
    z = hs.create_array(tmp_path / "a", data=data((64,)), chunks=(8,))
    with Server() as server:
        options = server.s3_options if where == "server" else None
        place: Any = "s3://bucket/b" if options else tmp_path / "b"
        plan = hs.plan_copy(z, place, storage_options=options, task_size=64)
        with pytest.raises(Stopped):
            plan.run(progress=stop_after(1))
        with (
            once("planned", lambda: plan.run(resume=True)),
            pytest.raises(hs.errors.DestinationError, match="another run has just finished the copy"),
        ):
            plan.run(resume=True)
        assert plan.run(resume=True).tasks == 0


def test_a_copy_is_begun_between_two_looks(tmp_path: Path) -> None:
    """The other run has deleted the documents of the old node, but not yet its chunks."""
    z = hs.create_array(tmp_path / "a", data=data((64,)), chunks=(8,))
    with Server() as server:
        options = server.s3_options
        hs.create_array("s3://bucket/b", data=data((9,)), chunks=(3,), storage_options=options)
        plan = hs.plan_copy(z, "s3://bucket/b", storage_options=options, overwrite=True)

        def begin() -> None:
            with pytest.raises(Stopped):
                plan.run(resume=True, progress=stop_after(1))

        with (
            once("planned", begin),
            pytest.raises(hs.errors.DestinationError, match="another run has just begun a copy"),
        ):
            plan.run(resume=True)
        plan.run(resume=True)
        copied = hs.open_array("s3://bucket/b", mode="r", storage_options=options)
        assert_same(copied[...], data((64,)))


@pytest.mark.parametrize("wrote", ["chunk", "document"])
def test_two_runs_begin_at_once(tmp_path: Path, wrote: str) -> None:
    """The first one has only claimed the journal when the second one looks. Then it writes a chunk.

    If there is a document, somebody else has made an array, which is in the way.
    """
    z = hs.create_array(tmp_path / "a", data=data((64,)), chunks=(8,))
    with Server() as server:
        options = server.s3_options
        plan = hs.plan_copy(z, "s3://bucket/b", storage_options=options, task_size=64)
        server.put("bucket", "b/.hyperslab-copy/journal/id", f"{plan.id} 0123456789abcdef".encode())

        def write() -> None:
            server.put("bucket", "b/c/0" if wrote == "chunk" else "b/zarr.json", b"first")

        if wrote == "chunk":
            with once("take_over", write):
                plan.run(resume=True)
            copied = hs.open_array("s3://bucket/b", mode="r", storage_options=options)
            assert_same(copied[...], data((64,)))
        else:
            with (
                once("take_over", write),
                pytest.raises(hs.errors.DestinationError, match="objects are there already"),
            ):
                plan.run(resume=True)
            assert server.get("bucket", "b/zarr.json") == b"first"
        assert not any(".hyperslab-copy" in key for key in server.list("bucket", "b/"))


@pytest.mark.parametrize("harm", ["value", "missing", "attributes"])
def test_what_is_there_is_another_copy(tmp_path: Path, harm: str) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64,)), chunks=(8,))
    plan = hs.plan_copy(z, tmp_path / "b", task_size=64)
    plan.run()
    if harm == "value":
        hs.open_array(tmp_path / "b")[63] = 5
    elif harm == "missing":
        (tmp_path / "b" / "c" / "7").unlink()
    else:
        hs.open_array(tmp_path / "b").attrs["x"] = 1
    before = files(tmp_path / "b")
    with pytest.raises(hs.errors.DestinationError, match="exists already"):
        plan.run(resume=True)
    assert files(tmp_path / "b") == before
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_finished_copy_on_a_server(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64, 32)), chunks=(1, 32))
    with Server() as server:
        options = server.s3_options
        plan = hs.plan_copy(z, "s3://bucket/b", chunks=(64, 4), task_size=1000, storage_options=options)
        plan.run()
        run = plan.run(resume=True)
        assert run.tasks == 0 and run.skipped == plan.tasks
        hs.open_array("s3://bucket/b", storage_options=options)[0, 0] = 77
        with pytest.raises(hs.errors.DestinationError, match="are there already"):
            plan.run(resume=True)
