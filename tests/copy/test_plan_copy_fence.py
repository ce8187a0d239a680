"""Tasks of `hyperslab.plan_copy` that are suspended and wake up late overwrite nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from copy_steps import once
from numcodecs.abc import Codec
from object_server_client import Server
from support import assert_same
from test_plan_copy import Stopped, data, files, stop_after


class Pausing(Codec):  # type: ignore[misc]
    """Leaves bytes unchanged. Runs a function before it decodes a given chunk."""

    codec_id = "t-pausing"
    left, then = 0, staticmethod(lambda: None)

    def encode(self, buf: Any) -> bytes:
        return bytes(memoryview(buf).cast("B"))

    def decode(self, buf: Any, out: Any = None) -> Any:
        Pausing.left -= 1
        if Pausing.left == 0:
            thread = threading.Thread(target=Pausing.then)
            thread.start()
            thread.join()
        return buf

    @staticmethod
    def at(chunk: int, then: Callable[[], object]) -> None:
        Pausing.left, Pausing.then = chunk, then  # type: ignore[assignment]


@pytest.fixture
def source(tmp_path: Path) -> hs.Array:
    hs.codecs.register_codec(Pausing)
    Pausing.at(0, lambda: None)
    z = hs.create_array(
        tmp_path / "a", shape=(8, 6), chunks=(1, 6), dtype="i4", zarr_format=2, compressors=Pausing()
    )
    z[...] = values()
    return z


def values() -> np.ndarray[Any, Any]:
    """Returns the source.

    Its last row is the fill value, so the copy deletes chunks that exist there.
    """
    found = data((8, 6))
    found[7] = 0
    return found


# Chunks and shards of the copy. Chunks at the edge of an array, and shards that exist, are read,
# changed and written back.
KINDS: dict[str, dict[str, Any]] = {
    "chunks": {"shape": (8, 6), "chunks": (1, 6)},
    "edges": {"shape": (8, 6), "chunks": (1, 4)},
    "shards": {"shape": (8, 6), "chunks": (1, 3), "shards": (2, 6)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["into", "whole", "server", "server into"])
def test_a_task_is_suspended(tmp_path: Path, source: hs.Array, where: str, kind: str) -> None:
    """Suspends a task midway.

    Another run repeats it and finishes, a user writes, and the task wakes up.
    """
    with Server() as server:
        options = server.s3_options if "server" in where else None
        place: Any = "s3://bucket/b" if options else tmp_path / "b"
        into = {}
        how = {name: value for name, value in KINDS[kind].items() if name != "shape"}
        if "into" in where:
            hs.create_array(place, dtype="i4", storage_options=options, **KINDS[kind])[...] = 7
            into, how = {"target_region": np.s_[0:8]}, {}
        plan = hs.plan_copy(source, place, storage_options=options, task_size="1 MiB", **into, **how)
        assert plan.tasks == 1
        wanted = -np.ones((8, 6), "i4")

        def others() -> None:
            assert plan.run(resume=True).tasks == 1
            copied = hs.open_array(place, mode="r+", storage_options=options)
            assert_same(copied[...], values())
            copied[...] = wanted

        Pausing.at(5, others)
        with pytest.raises(hs.errors.SupersededError, match="superseded|no journal"):
            plan.run(threads=1)
        assert Pausing.left < 0
        assert_same(hs.open_array(place, mode="r", storage_options=options)[...], wanted)
        if options is None:
            assert sorted(os.listdir(tmp_path)) == ["a", "b"]


@pytest.mark.parametrize("where", ["into", "whole", "server"])
def test_a_task_is_suspended_while_another_run_goes_on(tmp_path: Path, source: hs.Array, where: str) -> None:
    """The other run has not finished. The late task's writes are refused all the same."""
    with Server() as server:
        options = server.s3_options if where == "server" else None
        place: Any = "s3://bucket/b" if options else tmp_path / "b"
        into = {}
        if where == "into":
            hs.create_array(place, shape=(8, 6), chunks=(1, 6), dtype="i4")
            into = {"target_region": np.s_[0:8]}
        plan = hs.plan_copy(source, place, storage_options=options, task_size=48, **into)
        assert plan.tasks > 2

        def others() -> None:
            with pytest.raises(Stopped):
                plan.run(resume=True, progress=stop_after(1))

        Pausing.at(5, others)
        with pytest.raises(hs.errors.SupersededError):
            plan.run(threads=1)
        assert plan.run(resume=True).tasks > 0
        assert_same(hs.open_array(place, mode="r", storage_options=options)[...], values())


@pytest.mark.parametrize("after", ["finish", "discard"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_object_of_a_late_task_is_taken_back(
    tmp_path: Path, source: hs.Array, kind: str, after: str
) -> None:
    """No condition stops the request for an object that is absent, right after a look."""
    how = {name: value for name, value in KINDS[kind].items() if name != "shape"}
    with Server() as server:
        options = server.s3_options
        plan = hs.plan_copy(source, "s3://bucket/b", storage_options=options, task_size="1 MiB", **how)
        assert plan.tasks == 1
        found: dict[str, bytes] = {}

        def others() -> None:
            if after == "finish":
                plan.run(resume=True)
                # The user replaces the copy.
                hs.create_array(
                    "s3://bucket/b", shape=(9,), dtype="i2", overwrite=True, storage_options=options
                )
            else:
                assert plan.discard()
            found.update(stored(server))
            server.reset()

        Pausing.at(5, others)
        with pytest.raises(hs.errors.SupersededError):
            plan.run(threads=1)
        assert stored(server) == found and not any("/c/" in key for key in found)
        # On a slow machine the look was too long ago, and there is no such request.
        late = [each for each in server.log() if each["method"] == "PUT" and "/c/" in each["key"]]
        deletions = [each for each in server.log() if each["method"] in ("DELETE", "POST")]
        assert len(deletions) == bool(late)


@pytest.mark.parametrize("where", ["into", "whole"])
def test_a_process_is_stopped(tmp_path: Path, where: str) -> None:
    z = hs.create_array(tmp_path / "a", shape=(64, 128, 128), chunks=(1, 128, 128), dtype="f4")
    z[...] = np.random.default_rng(1).random(z.shape, dtype="f4")
    if where == "into":
        hs.create_array(tmp_path / "b", shape=z.shape, chunks=(1, 128, 128), dtype="f4")
    program = f"""
import hyperslab as hs, numpy as np, time
from hyperslab import _native
into = {{"target_region": np.s_[0:64]}} if {where!r} == "into" else {{}}
plan = hs.plan_copy("a", "b", task_size="64 MiB", compressors="zstd:9", **into) if not into else hs.plan_copy(
    "a", "b", task_size="64 MiB", **into)
plan.run(threads=1, resume=True)
"""
    late = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        chunks = tmp_path / "b" if where == "into" else tmp_path / ".b.hyperslab-copy"
        until = time.monotonic() + 60
        while len([path for path in chunks.glob("**/c/*/*/*") if path.is_file()]) < 4:
            assert late.poll() is None and time.monotonic() < until
            time.sleep(0.0005)
        late.send_signal(signal.SIGSTOP)
        stopped = len([path for path in chunks.glob("**/c/*/*/*") if path.is_file()])
        into: dict[str, Any] = (
            {"target_region": np.s_[0:64]} if where == "into" else {"compressors": "zstd:9"}
        )
        cwd = Path.cwd()
        os.chdir(tmp_path)
        try:
            plan = hs.plan_copy("a", "b", task_size="64 MiB", **into)
        finally:
            os.chdir(cwd)
        if stopped == 64:
            pytest.skip("the machine was too slow to stop the process in the middle")
        plan.run(resume=True)
        copied = hs.open_array(tmp_path / "b")
        assert_same(copied[...], z[...])
        copied[...] = -1
        late.send_signal(signal.SIGCONT)
        _, error = late.communicate(timeout=60)
        assert late.returncode == 1 and "SupersededError" in error, error
        assert (copied[...] == -1).all()
        # The write that was under way when the process was stopped may end up beside the copy.
        late_files = [path for path in (tmp_path / ".b.hyperslab-copy").glob("**/*") if path.is_file()]
        assert len(late_files) <= 1
        assert {"a", "b"} <= set(os.listdir(tmp_path)) <= {"a", "b", ".b.hyperslab-copy"}
    finally:
        late.kill()
        late.communicate()


# ---- steps other than tasks


def stored(server: Server) -> dict[str, bytes]:
    return {key: server.get("bucket", key) for key in server.list("bucket", "b/")}


@pytest.mark.parametrize("step", ["delete", "finish", "remove_journal"])
def test_a_run_on_a_server_is_suspended(tmp_path: Path, source: hs.Array, step: str) -> None:
    """Suspends a run before it deletes replaced data, writes metadata, or deletes the journal."""
    with Server() as server:
        options = server.s3_options
        hs.create_array("s3://bucket/b", data=data((9, 2)), chunks=(1, 2), storage_options=options)
        plan = hs.plan_copy(source, "s3://bucket/b", storage_options=options, overwrite=True)
        found: dict[str, bytes] = {}

        def others() -> None:
            plan.run(resume=True)
            copied = hs.open_array("s3://bucket/b", storage_options=options)
            assert_same(copied[...], values())
            copied[...] = 5
            copied.attrs["by"] = "a user"
            found.update(stored(server))

        with once(step, others):
            if step == "remove_journal":
                # The other run has already deleted the journal.
                plan.run()
            else:
                with pytest.raises(hs.errors.SupersededError):
                    plan.run()
        assert found and stored(server) == found


def test_metadata_that_another_run_relies_on_stays(tmp_path: Path, source: hs.Array) -> None:
    """A run is suspended after it has written that all is done. It created the metadata in time."""
    with Server() as server:
        plan = hs.plan_copy(source, "s3://bucket/b", storage_options=server.s3_options)
        found: dict[str, bytes] = {}

        def others() -> None:
            assert plan.run(resume=True).tasks == 0
            found.update(stored(server))

        with once("remove_journal", others):
            plan.run()
        assert "b/zarr.json" in found and stored(server) == found


@pytest.mark.parametrize("where", ["here", "server"])
@pytest.mark.parametrize("step", ["begin", "take_over"])
def test_a_run_is_suspended_before_it_begins(tmp_path: Path, source: hs.Array, where: str, step: str) -> None:
    """The run has already seen an empty destination, or an unfinished copy."""
    with Server() as server:
        options = server.s3_options if where == "server" else None
        place: Any = "s3://bucket/b" if options else tmp_path / "b"
        plan = hs.plan_copy(source, place, storage_options=options, task_size=48)
        if step == "take_over":
            with pytest.raises(Stopped):
                plan.run(progress=stop_after(1))
            # On disk, a lock excludes other runs right before `take_over`, so intervene at `plan`.
            step = "plan" if where == "here" else step

        def others() -> None:
            plan.run(resume=True)
            hs.open_array(place, storage_options=options)[...] = 5

        with once(step, others), pytest.raises(hs.errors.DestinationError):
            plan.run(resume=True)
        assert (hs.open_array(place, mode="r", storage_options=options)[...] == 5).all()
        if options is None:
            assert sorted(os.listdir(tmp_path)) == ["a", "b"]
        else:
            assert not any(".hyperslab-copy" in key for key in stored(server))


# ---- costs


def test_requests(tmp_path: Path) -> None:
    """A new copy writes each object once. A copy that replaces objects also looks at each one."""
    z = hs.create_array(tmp_path / "a", data=data((50, 4)), chunks=(1, 4))
    with Server() as server:
        options = server.s3_options
        plan = hs.plan_copy(z, "s3://bucket/b", storage_options=options)
        assert plan.tasks == 1

        def counted() -> dict[str, int]:
            chunks = [each["method"] for each in server.log() if "/c/" in each["key"]]
            looks = [each for each in server.log() if each["key"].endswith("/journal/id")]
            return {method: chunks.count(method) for method in ("PUT", "HEAD", "GET")} | {"looks": len(looks)}

        server.reset()
        plan.run()
        new = counted()
        assert (new["PUT"], new["GET"], new["HEAD"]) == (50, 0, 0)
        assert new["looks"] < 30
        # The look that proves that the chunks were in time comes before the record of the task, or before
        # the metadata: a task that ends the copy has no record.
        look = ("GET", "b/.hyperslab-copy/journal/id")

        def put(part: str) -> list[int]:
            return [n for n, (method, key) in enumerate(steps()) if method == "PUT" and part in key]

        def steps() -> list[tuple[str, str]]:
            return [(each["method"], each["key"]) for each in server.log()]

        assert not put("/done/") and look in steps()[max(put("/c/")) : min(put("b/zarr.json"))]
        server.reset()
        again = hs.plan_copy(z, "s3://bucket/b", storage_options=options, overwrite=True)
        with ThreadPoolExecutor(1) as pool:
            again.run(pool)
        (record,) = put("/done/")
        assert look in steps()[max(put("/c/")) : record]
        server.reset()
        hs.plan_copy(z, "s3://bucket/b", storage_options=options, target_region=np.s_[0:50]).run()
        old = counted()
        assert (old["PUT"], old["HEAD"]) == (50, 50)
        assert old["looks"] < 80


@pytest.mark.parametrize("knows", ["no", "ignored"])
@pytest.mark.filterwarnings("ignore:.*under the condition")
def test_a_server_without_conditions(tmp_path: Path, source: hs.Array, knows: str) -> None:
    """A late task looks at the journal before it writes."""
    with Server(conditional_puts=knows) as server:
        options = server.s3_options
        plan = hs.plan_copy(source, "s3://bucket/b", storage_options=options)

        def others() -> None:
            plan.run(resume=True)
            copied = hs.open_array("s3://bucket/b", storage_options=options)
            assert_same(copied[...], values())
            copied[...] = -1
            # Longer than the result of a look is trusted.
            time.sleep(1.1)

        Pausing.at(5, others)
        with pytest.raises(hs.errors.SupersededError):
            plan.run()
        assert (hs.open_array("s3://bucket/b", storage_options=options)[...] == -1).all()
        plan = hs.plan_copy(source, "s3://bucket/c", storage_options=options | {"unconditional": "refuse"})
        plan.run()
        assert_same(hs.open_array("s3://bucket/c", storage_options=options)[...], values())


def test_a_folder_of_a_killed_run_goes(tmp_path: Path, source: hs.Array) -> None:
    plan = hs.plan_copy(source, tmp_path / "b", task_size=48)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(1))
    work = tmp_path / ".b.hyperslab-copy"
    (first,) = work.glob("writing-*")
    (first / "left").write_bytes(b"x")
    with pytest.raises(Stopped):
        plan.run(resume=True, progress=stop_after(1))
    (second,) = work.glob("writing-*")
    assert first != second and not list(work.glob("ended-*"))
    plan.run(resume=True)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert len(files(tmp_path / "b")) == 8
