"""The journal of a plan on a server: what killed and late runs leave of it, and listings that lag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
from copy_steps import once
from object_server_client import Server
from support import assert_same
from test_plan_copy import Stopped, data, stop_after

FOR_EVER = 1e9


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def planned(server: Server, root: Path, **options: Any) -> hs.CopyPlan:
    """Returns a plan of 8 chunks and 8 tasks."""
    values = data((8, 6))
    # Blank chunks are not stored.
    values[5] = 0
    source = hs.create_array(root / "a", data=values, chunks=(1, 6), overwrite=True)
    return hs.plan_copy(source, "s3://bucket/b", task_size=1, storage_options=server.s3_options, **options)


def check(server: Server, root: Path, notes: int = 0) -> None:
    """Checks that the whole copy is there, and nothing else but notes of tasks."""
    found = hs.open_array("s3://bucket/b", mode="r", storage_options=server.s3_options)
    assert_same(found[...], hs.open_array(root / "a")[...])
    chunks = [f"b/c/{n}/0" for n in (0, 1, 2, 3, 4, 6, 7)]
    keys = server.list("bucket")
    assert [key for key in keys if "/journal/done/" not in key] == [*chunks, "b/zarr.json"]
    assert len(keys) == len(chunks) + 1 + notes


def put_journal(server: Server, **objects: bytes) -> None:
    for name, value in objects.items():
        server.put("bucket", f"b/.hyperslab-copy/journal/{name}", value)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_a_run_was_killed_when_it_had_claimed_the_place(
    server: Server, tmp_path: Path, resume: bool, own: bool
) -> None:
    """Its journal has no plan yet, so it is not in the way."""
    plan = planned(server, tmp_path)
    put_journal(server, id=f"{plan.id if own else 'another'} killed".encode())
    assert plan.run(resume=resume).tasks == 8
    check(server, tmp_path)


def test_a_run_was_killed_while_it_deleted_its_journal(server: Server, tmp_path: Path) -> None:
    plan = planned(server, tmp_path)
    plan.run()
    put_journal(server, id=f"{plan.id} killed".encode(), finished=b"finished", cleared=b"cleared")
    assert plan.run(resume=True).tasks == 0
    check(server, tmp_path)


def test_a_mark_of_a_killed_run_that_is_not_listed(server: Server, tmp_path: Path) -> None:
    """An unfinished run would be taken for a finished one."""
    plan = planned(server, tmp_path)
    server.control(listing_lag=FOR_EVER)
    put_journal(server, id=f"{plan.id} killed".encode(), finished=b"finished")
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(2))
    assert plan.run(resume=True).tasks == 8
    # Nothing says the names of the first run's notes.
    check(server, tmp_path, notes=2)


def test_a_late_task_leaves_no_note(server: Server, tmp_path: Path) -> None:
    """Another client finishes the copy between the task's look at the journal and its note."""
    plan = planned(server, tmp_path)

    def finish() -> None:
        server.control(drop=["bucket"], buckets=["bucket"])

    with once("record", finish), pytest.raises(hs.errors.SupersededError, match="no journal"):
        plan.run()
    assert server.list("bucket") == []


@pytest.mark.parametrize("check_contents", [False, True])
def test_listings_that_lag(server: Server, tmp_path: Path, check_contents: bool) -> None:
    """A listing shows neither the objects of the copy nor its journal."""
    server.control(listing_lag=FOR_EVER)
    plan = planned(server, tmp_path)
    plan.run(verify=True)
    check(server, tmp_path)
    assert plan.run(resume=True).tasks == 0
    server.control(drop=["bucket"], buckets=["bucket"])
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(3))
    run = plan.run(resume=True, check="contents" if check_contents else "stamps", verify=True)
    assert run.tasks == 8
    # Nothing says the names of the first run's notes. The next copy deletes them.
    check(server, tmp_path, notes=3)
    server.control(clear=True, buckets=["bucket"])
    put_journal(server, **{"done/0/0-x": b"done"})
    plan.run()
    check(server, tmp_path)


def test_a_copy_that_is_replaced_is_not_taken_for_the_new_one(server: Server, tmp_path: Path) -> None:
    """A listing still shows the first copy and its journal, which are deleted."""
    plan = planned(server, tmp_path, overwrite=True)

    def lag(phase: str, done: int, total: int) -> None:
        if done == total:
            server.control(listing_lag=FOR_EVER)

    plan.run(progress=lag)
    check(server, tmp_path)
    assert plan.run(resume=True).tasks == 8
    check(server, tmp_path)


def test_a_value_that_differs_is_found_while_listings_lag(server: Server, tmp_path: Path) -> None:
    server.control(listing_lag=FOR_EVER)
    plan = planned(server, tmp_path)

    def harm(phase: str, done: int, total: int) -> None:
        if phase == "copy" and done == total:
            server.put("bucket", "b/c/3/0", server.get("bucket", "b/c/4/0"))

    with pytest.raises(hs.errors.VerificationError, match=r"element \[3, 0\]"):
        plan.run(verify=True, progress=harm)
