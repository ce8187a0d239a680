"""Plans of very many tasks, and of very many arrays: bytes and calls, not seconds."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import tracemalloc
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab import _native
from hyperslab._copy import run as copy_run
from hyperslab._copy import worker
from support import assert_same
from test_plan_copy import Stopped, data, files


class Simulated:
    """An executor whose tasks only record themselves in the journal."""

    _max_workers = 1000

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.longest = 0
        self.tasks = 0

    def submit(self, function: Any, tasks: _native.TaskRange) -> Future[Any]:
        name = function.func.__name__
        self.calls[name] += 1
        if self.calls[name] % 1000 == 1:
            self.longest = max(self.longest, len(pickle.dumps((function, tasks))))
        future: Future[Any] = Future()
        if name == "check_range":
            future.set_result(bool(tasks.records))
            return future
        job = function.args[0]
        self.tasks += tasks.end - tasks.first
        if name == "run_range":
            place = worker.kept.get(job).place
            place.writing.set(place.journal(f"done/{tasks.stage}/{tasks.first}-{tasks.end}-a-b"), b"done")
        future.set_result((job.id, tasks.stage, tasks.first, tasks.end))
        return future


def test_ten_million_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client hands out ranges, and the journal has as many records."""
    shape = (10_000_000, 4096, 8192)
    z = hs.create_array(tmp_path / "a", shape=shape, chunks=(1, 4096, 8192), dtype="f4")
    plan = hs.plan_copy(z, tmp_path / "b", task_size="128 MiB")
    assert plan.tasks == 10_000_000 and len(pickle.dumps(plan)) < 5000
    assert len(plan._native.step(0, "")) == 50_000
    # Fewer ranges, so that the test is short.
    monkeypatch.setattr(copy_run, "_MOST_RANGES", 5000)
    executor = Simulated()
    half = plan.bytes / 2

    def stop(phase: str, done: int, total: int) -> None:
        if done >= half:
            raise Stopped

    tracemalloc.start()
    try:
        with pytest.raises(Stopped):
            plan.run(executor, progress=stop)
        first = executor.calls["run_range"]
        assert 2500 <= first <= 4500
        # Work in flight, and nothing for each task.
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        records = os.listdir(tmp_path / ".b.hyperslab-copy" / "journal" / "done" / "0")
        assert len(records) == first and sum(map(len, records)) < 40 * first
        tracemalloc.reset_peak()
        run = plan.run(executor, resume=True)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert executor.calls["check_range"] == first
    assert executor.calls["run_range"] == 5000 and executor.tasks == 10_000_000
    assert run.skipped == first * 2000 and run.tasks == 10_000_000 - run.skipped
    assert executor.longest < 4000
    assert hs.open_array(tmp_path / "b", mode="r").shape == shape


def test_a_range_is_recorded_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is killed loses less than a range. A failed range keeps what it has done."""
    monkeypatch.setattr(copy_run, "_MOST_RANGES", 2)
    z = hs.create_array(tmp_path / "a", data=data((80, 10)), chunks=(1, 10))
    plan = hs.plan_copy(z, tmp_path / "b", task_size=80, workers=1)
    assert plan.tasks == 40
    done = tmp_path / ".b.hyperslab-copy" / "journal" / "done" / "0"
    (tmp_path / "a" / "c" / "33").mkdir(exist_ok=True)
    chunk = tmp_path / "a" / "c" / "27" / "0"
    before = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    with pytest.raises(hs.errors.ChunkError, match="c/27/0"):
        plan.run(retries=0)
    assert [name.rpartition("-")[0].rpartition("-")[0] for name in os.listdir(done)] == ["0-13"]
    chunk.write_bytes(before)
    monkeypatch.setattr(worker, "_RECORDED", -1.0)
    seen: list[set[str]] = []

    def look(*_: Any) -> None:
        if done.exists():
            seen.append({name.rpartition("-")[0].rpartition("-")[0] for name in os.listdir(done)})

    run = plan.run(resume=True, progress=look)
    # Tasks 13 to 40 are left: a range of 20 tasks in four records, and one of 7 tasks.
    singles = {f"{n}-{n + 1}" for n in range(33, 40)}
    assert seen[-1] == {"0-13", "13-18", "18-23", "23-28", "28-33"} | singles
    assert (run.skipped, run.tasks) == (13, 27)
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((80, 10)))


def test_any_ranges_together_are_all_elements(seed: int, tmp_path: Path) -> None:
    """Progress is right, whatever ranges of tasks are done."""
    chance = np.random.default_rng(seed)
    group = hs.create_group(tmp_path / "a")
    for n in range(40):
        group.create_array(f"{n}", shape=(int(chance.integers(0, 60)), 4), chunks=(3, 4), dtype="i2")
    plan = hs.plan_copy(group, tmp_path / "b", task_size=100)
    (stage,) = plan.stages
    cuts = [0, *sorted(int(at) for at in chance.integers(0, len(stage), 7)), len(stage)]
    total = sum(stage.elements(*span) for span in itertools.pairwise(cuts))
    assert total == pytest.approx(plan.bytes)
    step = plan._native.step(0, "")
    assert [step.bounds(index) for index in range(len(step))] == [(n, n + 1) for n in range(len(stage))]


ARRAYS = 2000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a group of many small arrays."""
    place = tmp_path_factory.mktemp("many") / "a"
    group = hs.create_group(place)
    for n in range(ARRAYS):
        attributes = {"units": "m", "long_name": "a quantity", "number": n % 7}
        group.create_array(f"{n}", shape=(100, 20), chunks=(50, 20), dtype="f4", attributes=attributes)
    group["7"][...] = 7
    return place


def test_many_arrays_are_little_text(many: Path, tmp_path: Path) -> None:
    """Equal passes are said once, and documents are compressed."""
    plan = hs.plan_copy(many, tmp_path / "b")
    assert len(plan.arrays) == ARRAYS
    facts = json.loads(plan.to_json())
    # The one array with chunks is expected to compress.
    assert len(facts["passes"]) <= 4 and len(facts["reasons"]) == 2
    assert len(plan.to_json()) < 250 * ARRAYS
    assert sum(len(text) for _, text in plan.documents) > 1000 * ARRAYS
    assert hs.CopyPlan.from_json(plan.to_json()) == plan
    assert len({id(array.passes[0]) for array in plan.arrays}) <= 2
    text = plan.to_json()
    for harm in (
        text.replace('"documents":"', '"documents":"AAAA'),
        text.replace('"compare":0', '"compare":99').replace('"compare":1', '"compare":99'),
        text.replace('"put":0.005', '"put":-1'),
    ):
        with pytest.raises(hs.errors.InvalidArgumentError):
            hs.CopyPlan.from_json(harm)


def test_workers_get_only_what_they_need(many: Path, tmp_path: Path) -> None:
    plan = hs.plan_copy(many, tmp_path / "b", task_size="1 MiB")
    step = plan._native.step(0, "")
    found = [step.range(index) for index in range(len(step))]
    assert len(found) > 10
    # A task has the documents of its own arrays: at most 256.
    assert max(each.arrays for each in found) <= 256
    most = max(len(pickle.dumps(each)) / each.arrays for each in found)
    assert most < 2000
    with ThreadPoolExecutor(2) as pool:
        plan.run(pool)
    copied = hs.open_group(tmp_path / "b", mode="r")
    assert len(copied) == ARRAYS and copied["7"][0, 0] == 7 and copied["8"][0, 0] == 0


def test_a_worker_reads_no_plan(tmp_path: Path) -> None:
    """A plan in the journal may be large. Only clients that resume read it."""
    z = hs.create_array(tmp_path / "a", data=data((40, 10)), chunks=(1, 10))
    plan = hs.plan_copy(z, tmp_path / "b", task_size=100)
    journal = tmp_path / ".b.hyperslab-copy" / "journal"

    class Without:
        """Runs each task in a process of its own, as it seems: nothing is kept."""

        _max_workers = 1

        def submit(self, function: Any, item: Any) -> Future[Any]:
            (journal / "plan.json").write_text("damaged")
            worker.kept.drop(function.args[0].key)
            future: Future[Any] = Future()
            future.set_result(function(pickle.loads(pickle.dumps(item))))
            return future

    plan.run(Without())
    hs.copy(z, tmp_path / "c")
    assert files(tmp_path / "b") == files(tmp_path / "c")
