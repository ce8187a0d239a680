"""Plans of copies: skipped tasks, checks, replaced destinations, and progress."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from copy_steps import once
from object_server_client import Server
from support import assert_same
from test_plan_copy import Stopped, data, files, planned, stop, stop_after, undisturbed


def flip(path: Path) -> None:
    """Changes one byte. The file's size and times stay the same."""
    before, bytes = path.stat(), bytearray(path.read_bytes())
    bytes[len(bytes) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(bytes)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def all_but_finished(root: Path) -> tuple[hs.CopyPlan, Path]:
    """Returns a plan with one stage whose tasks are all done, and the folder of its chunks."""
    plan = planned(root, max_memory="1 GiB", chunks=(8, 128, 128), workers=1)
    assert plan.depth == 1 and plan.tasks > 3
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(plan.tasks))
    return plan, next((root / ".b.hyperslab-copy").glob("new-*"))


# ---- contents


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_a_byte_that_was_flipped_is_written_anew(tmp_path: Path, where: str) -> None:
    plan, new = all_but_finished(tmp_path)
    chunk = next(path for path in sorted(new.rglob("*")) if path.is_file())
    before = chunk.read_bytes()
    flip(chunk)
    if where == "here":
        run = plan.run(resume=True, check="contents")
    elif where == "threads":
        with ThreadPoolExecutor(2) as pool:
            run = plan.run(pool, resume=True, check="contents")
    else:
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            run = plan.run(pool, resume=True, check="contents")
    assert (run.tasks, run.skipped) == (1, plan.tasks - 1)
    assert (tmp_path / "b" / chunk.relative_to(new)).read_bytes() == before
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((256, 128, 128)))


def test_contents_of_all_that_tasks_write(tmp_path: Path) -> None:
    """Whole shards, shards in parts, temporary arrays, fill values, variable-length values."""
    group = hs.create_group(tmp_path / "a")
    group.create_array("deep", data=data((64, 32, 32)), chunks=(1, 32, 32))
    group.create_array("sparse", shape=(64, 32, 32), chunks=(8, 32, 32), dtype="i4")[:3] = 1
    group.create_array(
        "text", data=np.array([f"{n}" for n in range(100)], np.dtypes.StringDType()), chunks=(7,)
    )
    for wanted in (
        {"chunks": (64, 4, 4), "max_memory": "16 KiB"},
        {"chunks": (64, 4, 4), "shards": (64, 32, 32), "max_memory": "100 KiB"},
        {"chunks": (64, 4, 4), "shards": (64, 8, 8), "max_memory": "10 MiB"},
    ):
        plan = hs.plan_copy(tmp_path / "a", tmp_path / "b", task_size=4000, **wanted)
        with pytest.raises(Stopped):
            plan.run(progress=stop_after(plan.tasks))
        run = plan.run(resume=True, check="contents")
        # All tasks were done before the stop, and each object has the checksum that its task noted.
        assert run.tasks == 0, wanted
        hs.copy(tmp_path / "a", tmp_path / "c", **wanted)
        assert files(tmp_path / "b") == files(tmp_path / "c"), wanted
        for name in ("b", "c"):
            shutil.rmtree(tmp_path / name)


def test_checksums_are_those_of_the_bytes(tmp_path: Path) -> None:
    """The checksums that a task notes while writing match the stored bytes."""
    plan, new = all_but_finished(tmp_path)
    records = sorted((new.parent / "journal/done/0").iterdir())
    assert len(records) == plan.tasks and all(path.name.count("-") == 3 for path in records)
    with pytest.raises(hs.errors.InvalidArgumentError, match="check: expected 'stamps' or 'contents'"):
        plan.run(resume=True, check="all")  # type: ignore[arg-type]
    assert plan.run(resume=True, check="contents").tasks == 0


def test_contents_on_a_server(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64, 32)), chunks=(1, 32))
    with Server() as server:
        options = server.s3_options
        plan = hs.plan_copy(z, "s3://bucket/b", chunks=(8, 32), task_size=1000, storage_options=options)
        with pytest.raises(Stopped):
            plan.run(progress=stop_after(plan.tasks))
        key = next(key for key in sorted(server.list("bucket")) if "/c/" in key and ".hyper" not in key)
        before = server.get("bucket", key)
        server.put("bucket", key, bytes([before[0] ^ 1]) + before[1:])
        run = plan.run(resume=True, check="contents")
        # The last task has no record: the copy was about to end.
        assert run.tasks == 2 and server.get("bucket", key) == before


# ---- verification


def test_copies_are_compared_by_tasks(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert len(plan.verification) > 1
    told: list[tuple[Any, ...]] = []
    with ThreadPoolExecutor(2) as pool:
        run = plan.run(pool, verify=True, progress=lambda *args: told.append(args))
    assert run.seconds_verified is not None and run.tasks == plan.tasks
    assert [one[0] for one in told if one[1] == plan.bytes] == ["copy", "verify"]
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    compared = plan.arrays[0].compare
    assert compared.memory <= 512 << 10


def test_a_value_that_differs(tmp_path: Path) -> None:
    plan = planned(tmp_path, compressors="none", max_memory="1 GiB", chunks=(8, 128, 128), workers=1)

    def harm(phase: str, done: int, total: int) -> None:
        if phase == "copy" and done == total:
            flip(next((tmp_path / ".b.hyperslab-copy").glob("new-*/c/0/0/0")))

    with pytest.raises(hs.errors.VerificationError, match=r"\[.*\]") as caught:
        plan.run(verify=True, progress=harm)
    assert "/" in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == [".b.hyperslab-copy", "a"]
    # Sizes and times do not reveal the change. Checksums do.
    with pytest.raises(hs.errors.VerificationError):
        plan.run(resume=True, verify=True)
    run = plan.run(resume=True, check="contents", verify=True)
    assert run.tasks == 1
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((256, 128, 128)))


# ---- overwrite


def test_what_is_there_is_replaced_when_all_is_done(tmp_path: Path) -> None:
    old = hs.create_array(tmp_path / "b", data=data((9,)))
    (tmp_path / "b").chmod(0o750)
    plan = planned(tmp_path)
    with pytest.raises(hs.errors.DestinationError, match="exists already; set overwrite"):
        plan.run()
    plan = planned(tmp_path, overwrite=True)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(3))
    assert_same(old[:], data((9,)))
    # Killed before the names are exchanged, and after.
    with once("move", stop), pytest.raises(Stopped):
        plan.run(resume=True)
    assert_same(hs.open_array(tmp_path / "b", mode="r")[:], data((9,)))
    with once("moved", stop), pytest.raises(Stopped):
        plan.run(resume=True)
    assert hs.open_array(tmp_path / "b", mode="r").shape == (256, 128, 128)
    run = plan.run(resume=True)
    assert run.tasks == 0 and run.skipped == plan.tasks
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]
    # It is no error if there is nothing to overwrite.
    hs.plan_copy(tmp_path / "a", tmp_path / "d", overwrite=True).run()
    assert_same(hs.open_array(tmp_path / "d", mode="r")[...], data((256, 128, 128)))


def test_other_peoples_files_are_not_replaced(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((9,)))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("home", "link"):
        with pytest.raises(hs.errors.DestinationError, match="no array or group|one inside the other"):
            hs.plan_copy(z, tmp_path / name, overwrite=True).run()
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"
    assert (tmp_path / "link").is_symlink()


def test_what_is_on_a_server_is_replaced(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64, 32)), chunks=(1, 32))
    with Server() as server:
        options = server.s3_options
        place = "s3://bucket/b"
        hs.copy(hs.array(data((900,)), chunks=9), place, storage_options=options)
        server.put("bucket", "junk/x", b"x")
        plan = hs.plan_copy(
            z, place, chunks=(64, 4), task_size=1000, max_memory=3000, storage_options=options, overwrite=True
        )
        with pytest.raises(Stopped):
            plan.run(progress=stop_after(3))
        with pytest.raises(FileNotFoundError):
            hs.open(place, mode="r", storage_options=options)
        run = plan.run(resume=True)
        assert run.skipped == 3
        hs.copy(z, tmp_path / "c", chunks=(64, 4))
        stored = {key.removeprefix("b/"): server.get("bucket", key) for key in server.list("bucket", "b/")}
        assert stored == files(tmp_path / "c")
        with pytest.raises(hs.errors.DestinationError, match="no array or group"):
            hs.plan_copy(z, "s3://bucket/junk", storage_options=options, overwrite=True).run()
        assert server.get("bucket", "junk/x") == b"x"


# ---- progress


def test_a_bar_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        plan.run(pool, verify=True, progress=True)
    said = capsys.readouterr().err
    lines = [line.rpartition("\r\033[K")[2] for line in said.split("\n")]
    assert [line.partition(" [")[0] for line in lines if line] == ["copy", "verify"]
    assert all("] 100%, 16.0 MiB of 16.0 MiB, " in line for line in lines if line)
    hs.copy(tmp_path / "a", tmp_path / "c", progress=True)
    assert "copy [########################] 100%" in capsys.readouterr().err
    hs.copy(tmp_path / "a", tmp_path / "d", progress=False)
    assert capsys.readouterr().err == ""


def test_a_bar_is_drawn_some_times_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    from hyperslab._base.progress import show_progress

    begun = time.monotonic()
    with show_progress(True) as progress:
        for done in range(10_000):
            progress("copy", done, 10_000)
    drawn = capsys.readouterr().err.count("\r")
    assert drawn <= 3 + (time.monotonic() - begun) / 0.1
    with pytest.raises(Stopped), show_progress(True) as progress:
        progress("copy", 1, 2)
        raise Stopped
    said = capsys.readouterr().err
    assert "] 50%, 1 bytes of 2 bytes, " in said and said.endswith("/s\n")
