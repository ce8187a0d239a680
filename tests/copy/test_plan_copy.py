"""`hyperslab.plan_copy`: the contents of plans, and the copies that they make."""

from __future__ import annotations

import heapq
import json
import multiprocessing
import os
import pickle
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from copy_steps import once
from hyperslab import _native
from hyperslab._copy import worker
from numcodecs.abc import Codec
from object_server_client import Server
from support import assert_same, examples, scratch


class Counting(Codec):  # type: ignore[misc]
    """Leaves bytes unchanged and counts how often it decodes."""

    codec_id = "t-counting"
    lock, decoded = threading.Lock(), 0

    def encode(self, buf: Any) -> bytes:
        return bytes(memoryview(buf).cast("B"))

    def decode(self, buf: Any, out: Any = None) -> Any:
        with Counting.lock:
            Counting.decoded += 1
        return buf


def files(root: Path) -> dict[str, bytes]:
    """Returns all files below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def data(shape: tuple[int, ...], dtype: str = "i4") -> np.ndarray[Any, Any]:
    return np.arange(1, np.prod(shape) + 1, dtype=dtype).reshape(shape)


# ---- the copy


def generated(chance: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Returns a shape, the chunks of the source, and the arguments of the copy."""
    rank = chance.choice([1, 2, 2, 3])
    shape = tuple(chance.randint(1, 40 if rank < 3 else 16) for _ in range(rank))
    source, chunks = (tuple(chance.randint(1, n + 1) for n in shape) for _ in range(2))
    shards = tuple(n * chance.randint(1, 5) for n in chunks) if chance.random() < 0.5 else None
    memory = chance.choice([200, 1000, 5000, 20_000, 1 << 20])
    wanted = {"chunks": chunks, "shards": shards, "max_memory": memory, "threads": chance.choice([1, 2])}
    wanted["task_size"] = chance.choice([1, 100, 1000, 1 << 20])
    wanted["workers"] = 1
    return shape, source, wanted


def test_values_and_counts_as_planned(seed: int) -> None:
    hs.codecs.register_codec(Counting)
    chance = random.Random(seed)
    several = 0
    for case in range(examples(150)):
        shape, chunks, wanted = generated(chance)
        what = f"seed {seed}, case {case}: {shape} {chunks} {wanted}"
        with scratch() as root:
            z = hs.create_array(
                root / "a", shape=shape, chunks=chunks, dtype="i4", zarr_format=2, compressors=Counting()
            )
            z[...] = data(shape)
            plan = hs.plan_copy(root / "a", root / "b", compressors="zstd:1", **wanted)
            Counting.decoded = 0
            done = plan.run()
            assert Counting.decoded == plan.chunks_decoded, what
            assert done.tasks == plan.tasks == sum(len(stage) for stage in plan.stages), what
            assert_same(hs.open_array(root / "b", mode="r")[...], data(shape), what)
            assert sorted(os.listdir(root)) == ["a", "b"], what
            # A copy without tasks has the same bytes.
            del wanted["task_size"], wanted["workers"]
            hs.copy(root / "a", root / "c", compressors="zstd:1", **wanted)
            assert files(root / "b") == files(root / "c"), what
            several += plan.tasks > 1
    assert several


def test_small_tasks_do_not_cut_shards_otherwise(tmp_path: Path) -> None:
    """Shards that are larger than memory are written in parts: the same ones with tasks of any size."""
    z = hs.create_array(tmp_path / "a", data=data((6, 16, 13)), chunks=(2, 17, 2))
    how: dict[str, Any] = {"chunks": (4, 16, 1), "shards": (8, 80, 4), "max_memory": 5000, "threads": 2}
    for size in (100, 1000, "1 GiB"):
        hs.plan_copy(z, tmp_path / f"{size}", task_size=size, **how).run()
    hs.copy(z, tmp_path / "c", **how)
    for size in (100, 1000, "1 GiB"):
        assert files(tmp_path / f"{size}") == files(tmp_path / "c")


def owned(plan: hs.CopyPlan) -> Iterator[tuple[int, int, int]]:
    """Yields array, pass and unit for all tasks."""
    for stage in plan.stages:
        for task in stage:
            for array, number, first, end in task.parts:
                yield from ((array, number, unit) for unit in range(first, end))


def test_tasks_cover_each_unit_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    group = hs.create_group(tmp_path / "a")
    for n in range(300):
        shape = tuple(chance.choice([0, 1, 3, 50, 200]) for _ in range(chance.choice([0, 1, 2])))
        group.create_array(
            f"{n}", shape=shape, chunks=tuple(chance.randint(1, 40) for _ in shape), dtype="i2"
        )
    for task_size in (1, 500, 10_000, 1 << 30):
        plan = hs.plan_copy(tmp_path / "a", tmp_path / "b", task_size=task_size)
        found = list(owned(plan))
        assert len(set(found)) == len(found)
        expected = {
            (index, number, unit)
            for index, array in enumerate(plan.arrays)
            for number, each in enumerate(array.passes)
            for unit in range(each.units)
        }
        assert set(found) == expected
        for stage in plan.stages:
            assert [task.number for task in stage] == list(range(len(stage)))
            assert stage[-1] == list(stage)[-1] == stage[len(stage) - 1]
            with pytest.raises(IndexError):
                stage[len(stage)]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_hierarchies(tmp_path: Path, zarr_format: Any) -> None:
    group = hs.create_group(tmp_path / "a", attributes={"title": "x"}, zarr_format=zarr_format)
    inner = group.create_group("x/y", attributes={"n": 1})
    inner.create_array("z", data=data((30, 20)), chunks=(7, 6), attributes={"units": "m"})
    group.create_array("scalar", data=np.float32(3))
    group.create_array("empty", shape=(0, 4), dtype="i2")
    group.create_array("big endian", data=data((9,), ">i4"))
    group.create_array("text", data=np.array(["a", "", "ccc"], np.dtypes.StringDType()))
    group.create_array("absent", shape=(100, 100), chunks=(10, 10), dtype="f8", fill_value=7)
    hs.consolidate_metadata(tmp_path / "a")
    with ThreadPoolExecutor(2) as pool:
        hs.plan_copy(tmp_path / "a", tmp_path / "b", zarr_format=zarr_format, task_size=500).run(pool)
    hs.copy(tmp_path / "a", tmp_path / "c", zarr_format=zarr_format)
    assert files(tmp_path / "b") == files(tmp_path / "c")
    found = hs.open_group(tmp_path / "b", mode="r")
    assert found["text"][:].tolist() == ["a", "", "ccc"]
    assert found["absent"][0, 0] == 7 and found["absent"].nchunks_initialized == 0


def test_hdf5_to_zarr(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("g/x", data=data((60, 50)), chunks=(7, 50), compression="gzip")
        file.create_dataset("whole", data=data((100,)))
        file["g"].attrs["a"] = "b"
    plan = hs.plan_copy(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(30, 5), shards="auto", task_size=1000)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        plan.run(pool)
    found = hs.open_group(tmp_path / "b.zarr", mode="r")
    assert_same(found["g/x"][...], data((60, 50)))
    assert_same(found["whole"][...], data((100,)))
    assert found["g"].attrs["a"] == "b"
    # Copy one array of the file.
    hs.plan_copy(tmp_path / "a.h5/g/x", tmp_path / "x.zarr").run()
    assert_same(hs.open_array(tmp_path / "x.zarr", mode="r")[...], data((60, 50)))
    hs.plan_copy(hs.open(tmp_path / "a.h5")["g/x"], tmp_path / "y.zarr").run()
    assert_same(hs.open_array(tmp_path / "y.zarr", mode="r")[...], data((60, 50)))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes(tmp_path: Path, method: str) -> None:
    z = hs.create_array(tmp_path / "a", data=data((80, 60)), chunks=(1, 60))
    plan = hs.plan_copy(z, tmp_path / "b", chunks=(80, 4), shards=(80, 12), max_memory=20_000, task_size=1)
    told: list[tuple[str, int, int]] = []
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        done = plan.run(pool, progress=lambda *args: told.append(args))
    assert done.tasks == plan.tasks > 1 and done.skipped == 0
    assert told[0] == ("copy", 0, 19200) and told[-1] == ("copy", 19200, 19200)
    assert [one[1] for one in told] == sorted(one[1] for one in told)
    hs.copy(z, tmp_path / "c", chunks=(80, 4), shards=(80, 12), max_memory=20_000)
    assert files(tmp_path / "b") == files(tmp_path / "c")


def test_chunks_of_different_lengths(tmp_path: Path) -> None:
    """Blocks may share chunks of the copy. One task then does everything."""
    z = hs.create_array(tmp_path / "a", data=data((30, 30)), chunks=[[7, 3, 20], [30]])
    plan = hs.plan_copy(z, tmp_path / "b", task_size=1, max_memory=100)
    assert plan.tasks == 1 and not plan.arrays[0].passes[0].independent
    plan.run()
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((30, 30)))


# ---- the plan


def big(tmp_path: Path, shape: tuple[int, ...], chunks: tuple[int, ...]) -> hs.Array:
    """Returns an array without stored chunks."""
    return hs.create_array(tmp_path / "a", shape=shape, chunks=chunks, dtype="f4")


def test_one_petabyte_on_paper(tmp_path: Path) -> None:
    z = big(tmp_path, (100_000_000, 1600, 1600), (1, 1600, 1600))
    plan = hs.plan_copy(z, tmp_path / "b", chunks=(400, 40, 40), shards=(400, 1600, 1600), max_memory="8 GiB")
    total = 100_000_000 * 1600 * 1600 * 4
    assert plan.bytes == total == 1_024_000_000_000_000
    assert plan.chunks == plan.chunks_decoded == 100_000_000
    (only,) = plan.arrays
    assert only.passes[0].objects == 250_000
    assert only.passes[0].block == (400, 1600, 1600)
    # A task has one shard: 4 GB.
    (stage,) = plan.stages
    assert len(stage) == 250_000
    assert stage[249_999].parts == ((0, 0, 249_999, 250_000),)
    assert plan.memory <= 8 << 30
    assert "each of 100,000,000 once" in str(plan)
    assert len(pickle.dumps(plan)) < 4000
    assert len(plan.to_json()) < 4000


def simulated(plan: hs.CopyPlan, workers: int) -> tuple[float, float]:
    """Returns the time that workers take, and the time if all of them were always busy.

    Times are the planner's costs. A worker takes the next task when it has finished one.
    """
    ends = all_work = 0.0
    for stage in plan.stages:
        free = [ends] * workers
        for task in stage:
            cost = 0.0
            for index, number, first, end in task.parts:
                one = plan.arrays[index].passes[number]
                cost += one.seconds * (end - first) / one.units
            all_work += cost
            heapq.heapreplace(free, free[0] + cost)
        ends = max(free)
    return ends, all_work / workers


@pytest.mark.parametrize(
    ("chunks", "shards", "times"),
    [
        # Each source chunk fits whole into a shard.
        ((400, 40, 40), (400, 1600, 1600), 1),
        # Time series of 100 000 maps: memory holds series for 128 x 128 places.
        ((100_000, 32, 32), None, None),
    ],
)
def test_one_petabyte_on_a_thousand_workers(
    tmp_path: Path, chunks: tuple[int, ...], shards: tuple[int, ...] | None, times: int | None
) -> None:
    shape, maps = (100_000_000, 1600, 1600), (1, 1600, 1600)
    z = big(tmp_path, shape, maps)
    tracemalloc.start()
    try:
        plan = hs.plan_copy(
            z,
            tmp_path / "b",
            chunks=chunks,
            shards=shards,
            max_memory="8 GiB",
            workers=1000,
            task_size="1 GiB",
        )
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert plan.chunks == 100_000_000
    assert plan.memory <= 8 << 30
    # Each task fits in memory and owns whole objects. Together the tasks own each object once.
    (array,) = plan.arrays
    for number, stage in enumerate(plan.stages):
        one = array.passes[number]
        assert 1000 <= len(stage) <= 1_000_000
        ends = [task.parts[0][2:] for task in (stage[0], stage[len(stage) // 2], stage[-1])]
        assert ends[0][0] == 0 and ends[-1][1] == one.units
        assert sum(task.parts[0][3] - task.parts[0][2] for task in stage) == one.units
        objects = [min(n, each) for n, each in zip(shape, one.target_object, strict=True)]
        counts = [-(-n // each) for n, each in zip(shape, objects, strict=True)]
        assert one.objects == np.prod(counts, dtype=object)
        # A source chunk is decoded once for each block that shares it.
        shared = [
            len({at // block for at in (*range(0, n, chunk), *range(0, n, block)) if at < chunk})
            for n, chunk, block in zip((1, *shape[1:]), maps, (1, *one.block[1:]), strict=True)
        ]
        assert one.decoded == 100_000_000 * np.prod(shared) or number > 0
    if times is not None:
        assert plan.chunks_decoded == times * plan.chunks
    # All bytes are written once, also to temporary arrays. Source bytes are read once per decode.
    assert plan.bytes_written == plan.bytes + plan.temporary_bytes
    assert plan.bytes_read >= plan.bytes
    took, ideal = simulated(plan, 1000)
    assert ideal * (1 - 1e-9) <= took < 1.05 * ideal
    assert ideal * 1000 == pytest.approx(sum(one.seconds for one in array.passes))


def test_one_hundred_thousand_tasks_are_planned_in_little_memory(tmp_path: Path) -> None:
    z = big(tmp_path, (100_000, 1000, 1000), (1, 1000, 1000))
    tracemalloc.start()
    try:
        plan = hs.plan_copy(z, tmp_path / "b", task_size="1 MiB")
        assert plan.tasks == 100_000
        counted = sum(1 for stage in plan.stages for _ in stage)
        assert counted == 100_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_two_passes_are_two_stages(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a")
    z = group.create_array("deep", shape=(4000, 1000, 1000), chunks=(1, 1000, 1000), dtype="f4")
    group.create_array("flat", shape=(4000,), chunks=(1000,), dtype="f8")
    plan = hs.plan_copy(group, tmp_path / "b", chunks=(4000, 10, 10), max_memory="256 MiB")
    if plan.depth == 1:
        pytest.skip("no room on the disk for a temporary array of 16 GB")
    passes = {array.path: len(array.passes) for array in plan.arrays}
    assert passes["deep"] == plan.depth and passes["flat"] == 1
    assert plan.temporary_bytes == (plan.depth - 1) * z.nbytes
    assert plan.chunks_decoded == plan.chunks
    # Passes that write temporary arrays come first. Everything else comes last.
    for number, stage in enumerate(plan.stages):
        assert {part[:2] for task in stage for part in task.parts} <= {
            (0, number),
            (0, 1),
            (1, 0),
            (1, number),
        }
    flat = next(index for index, array in enumerate(plan.arrays) if array.path == "flat")
    assert all(part[0] != flat for task in plan.stages[0] for part in task.parts)
    assert "temporary arrays of 14.9 GiB" in str(plan)


def test_pickles_and_text(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((50, 40)), chunks=(7, 6))
    plan = hs.plan_copy(z, tmp_path / "b", chunks=(10, 40), task_size=300, max_memory=4000)
    assert len(plan.stages[0]) > 1
    for again in (pickle.loads(pickle.dumps(plan)), hs.CopyPlan.from_json(plan.to_json())):
        assert again == plan and again.id == plan.id
        assert list(again.stages[0]) == list(plan.stages[0])
    again.run()
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((50, 40)))
    for text in ("", "[]", "{}", "nonsense", '{"hyperslab copy plan": 99}', '{"hyperslab copy plan": 1}'):
        with pytest.raises(hs.errors.InvalidArgumentError, match="no plan of a copy"):
            hs.CopyPlan.from_json(text)


def test_each_worker_has_a_task(tmp_path: Path) -> None:
    """With one block each chunk would be decoded only once, but by one worker."""
    z = big(tmp_path, (1000, 1000, 1000), (1, 1000, 1000))
    tasks = {}
    for workers in (1, 4, 32):
        plan = hs.plan_copy(z, tmp_path / "b", chunks=(1000, 10, 10), max_memory="8 GiB", workers=workers)
        tasks[workers] = min(len(stage) for stage in plan.stages)
        assert tasks[workers] >= min(workers, 16)
    assert tasks[1] == 1
    with pytest.raises(ValueError, match="workers"):
        hs.plan_copy(z, tmp_path / "b", workers=0)


def test_what_it_prints(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64, 64)), chunks=(1, 64))
    text = str(hs.plan_copy(z, tmp_path / "b", chunks=(64, 8), task_size=4096, workers=1))
    assert "arrays   1 in 0 groups, 16.0 KiB in memory" in text
    assert "each of 64 once" in text and "memory   at most" in text and "why      /: " in text


# ---- journal and resume


def first_range(plan: hs.CopyPlan) -> _native.TaskRange:
    """Returns the first range of tasks, as a worker gets it."""
    return plan._native.step(0, "").range(0)


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


def stop_after(count: int) -> Any:
    """Returns a progress function that stops a copy after `count` tasks."""
    calls = iter(range(count))

    def progress(*_: Any) -> None:
        if next(calls, None) is None:
            raise Stopped

    return progress


def planned(root: Path, **wanted: Any) -> hs.CopyPlan:
    """Returns a plan of at least two passes, each with several tasks."""
    if not (root / "a").exists():
        hs.create_array(root / "a", data=data((256, 128, 128)), chunks=(1, 128, 128))
    given: dict[str, Any] = {"chunks": (256, 4, 4), "task_size": "2 MiB", "max_memory": "512 KiB", **wanted}
    return hs.plan_copy(root / "a", root / "b", **given)


def undisturbed(root: Path) -> dict[str, bytes]:
    hs.copy(root / "a", root / "c", chunks=(256, 4, 4))
    return files(root / "c")


def test_going_on(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert plan.depth > 1 and all(len(stage) > 1 for stage in plan.stages)
    done = 0
    for again in range(plan.tasks + 1):
        try:
            run = plan.run(resume=True, progress=stop_after(done + 3))
        except Stopped:
            assert sorted(os.listdir(tmp_path)) == [".b.hyperslab-copy", "a"]
            done += 3
            continue
        break
    assert again > 1
    assert run.skipped > 0 and run.skipped + run.tasks == plan.tasks
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("harm", ["delete", "truncate", "rewrite"])
def test_what_was_changed_is_done_again(tmp_path: Path, harm: str) -> None:
    plan = planned(tmp_path, max_memory="1 GiB", chunks=(8, 128, 128))
    assert plan.depth == 1
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(plan.tasks))
    new = next((tmp_path / ".b.hyperslab-copy").glob("new-*"))
    chunk = next(path for path in sorted(new.rglob("*")) if path.is_file())
    bytes = chunk.read_bytes()
    if harm == "delete":
        chunk.unlink()
    elif harm == "truncate":
        os.truncate(chunk, 3)
    else:
        time.sleep(0.02)
        chunk.write_bytes(b"x" * len(bytes))
    run = plan.run(resume=True)
    assert run.tasks == 1 and run.skipped == plan.tasks - 1
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], data((256, 128, 128)))


def test_an_unfinished_copy_is_not_started_anew(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(2))
    with pytest.raises(hs.errors.DestinationError, match="was not finished.*resume=True"):
        plan.run()
    assert plan.discard()
    assert os.listdir(tmp_path) == ["a"]
    assert not plan.discard()
    plan.run()
    assert files(tmp_path / "b") == undisturbed(tmp_path)


@pytest.mark.parametrize("left", [["plan.json", "finished"], ["finished"], [], ["id"]], ids="+".join)
def test_the_remains_of_a_journal(tmp_path: Path, left: list[str]) -> None:
    """A run was killed while it deleted its journal, or before it had written the plan."""
    plan = planned(tmp_path)
    with pytest.raises(Stopped):
        plan.run(progress=stop_after(2))
    journal = tmp_path / ".b.hyperslab-copy" / "journal"
    (journal / "finished").touch()
    texts = {name: (journal / name).read_bytes() for name in left}
    assert plan.discard()
    plan.run()
    journal.mkdir(parents=True)
    for name, text in texts.items():
        (journal / name).write_bytes(text)
    assert plan.discard()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert not plan.discard()


def test_the_journal_of_another_plan(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        planned(tmp_path).run(progress=stop_after(2))
    for wanted, why in (
        ({"chunks": (256, 2, 2)}, "chunks: \\[256, 4, 4\\]"),
        ({"max_memory": 50_000}, "max_memory: 524288"),
        ({"task_size": 10}, "task_size: 2097152"),
    ):
        with pytest.raises(hs.errors.DestinationError, match=f"another copy.*{why}"):
            planned(tmp_path, **wanted).run(resume=True)
        with pytest.raises(hs.errors.DestinationError, match="another copy"):
            planned(tmp_path, **wanted).discard()
    hs.create_array(tmp_path / "x", data=data((3,)))
    with pytest.raises(hs.errors.DestinationError, match="another copy.*/x, not|another copy.*of .*/a, not"):
        hs.plan_copy(tmp_path / "x", tmp_path / "b").run(resume=True)
    # The same copy resumes as it was begun, even if planned with another number of workers.
    plan = planned(tmp_path, workers=1, threads=1)
    assert plan.run(resume=True).skipped == 2
    assert files(tmp_path / "b") == undisturbed(tmp_path)


def test_killed_between_the_last_steps(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    with once("remove_journal", stop), pytest.raises(Stopped):
        plan.run()
    assert sorted(os.listdir(tmp_path)) == [".b.hyperslab-copy", "a", "b"]
    run = plan.run(resume=True)
    assert run.tasks == 0 and run.skipped == plan.tasks
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]
    # Stop after all tasks, before the rename.
    plan = hs.plan_copy(tmp_path / "a", tmp_path / "d", chunks=(256, 4, 4))
    with once("move", stop), pytest.raises(Stopped):
        plan.run()
    assert not (tmp_path / "d").exists()
    assert plan.run(resume=True).tasks == 0
    assert files(tmp_path / "d") == files(tmp_path / "c")


def test_a_worker_that_comes_back_does_nothing(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    plan.run()
    job = worker.Job(plan.id, plan.destination, None, False, False, None, "", source=worker.Source.of(plan))
    with pytest.raises(hs.errors.DestinationError, match="no journal"):
        worker.run_range(job, first_range(plan))
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_what_a_late_worker_left_does_not_come_into_the_next_copy(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(9,), chunks=(3,), dtype="i4")
    plan = hs.plan_copy(z, tmp_path / "b")
    left = tmp_path / ".b.hyperslab-copy" / f"new-{plan.id[:16]}" / "c" / "1"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"a chunk of a copy of long ago")
    plan.run()
    assert list(files(tmp_path / "b")) == ["zarr.json"]
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_errors_of_tasks(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    chunk = tmp_path / "a" / "c" / "5" / "0" / "0"
    bytes = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    with pytest.raises(hs.errors.ChunkError, match="c/5/0/0") as caught:
        plan.run(retries=1)
    assert "failed 2 times" in caught.value.__notes__[-1]
    assert sorted(os.listdir(tmp_path)) == [".b.hyperslab-copy", "a"]
    chunk.write_bytes(bytes)
    plan.run(resume=True)
    assert files(tmp_path / "b") == undisturbed(tmp_path)


# ---- destinations


def test_destinations_that_cannot_be(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((9,)))
    (tmp_path / "there").mkdir()
    for place, why in (
        ("there", "exists already"),
        ("a/b", "one inside the other"),
    ):
        with pytest.raises(hs.errors.DestinationError, match=why):
            hs.plan_copy(z, tmp_path / place).run()
    assert sorted(os.listdir(tmp_path)) == ["a", "there"]
    with pytest.raises(hs.errors.UnsupportedError, match="hyperslab.copy"):
        hs.plan_copy(z, hs.MemoryStore())
    with pytest.raises(hs.errors.UnsupportedError, match="hyperslab.copy"):
        hs.plan_copy(hs.array([1]), tmp_path / "b")
    with pytest.raises(hs.errors.UnsupportedError, match="hyperslab.copy"):
        hs.plan_copy(z, tmp_path / "b.zip")
    with pytest.raises(hs.errors.InvalidArgumentError, match="task_size"):
        hs.plan_copy(z, tmp_path / "b", task_size=0)


def test_to_a_server(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a", attributes={"x": 1})
    group.create_array("v", data=data((64, 32)), chunks=(1, 32))
    with Server() as server:
        options = server.s3_options
        place = "s3://bucket/some/b"
        plan = hs.plan_copy(
            group, place, chunks=(64, 4), task_size=1000, max_memory=3000, storage_options=options
        )
        assert "secret" not in plan.to_json()
        assert plan.tasks > 3
        with pytest.raises(Stopped):
            plan.run(progress=stop_after(3))
        # The destination has chunks, but cannot be opened yet.
        with pytest.raises(FileNotFoundError):
            hs.open(place, mode="r", storage_options=options)
        assert any("/c/" in key for key in server.list("bucket"))
        with pytest.raises(hs.errors.DestinationError, match="not finished"):
            plan.run()
        with ThreadPoolExecutor(2) as pool:
            run = plan.run(pool, resume=True)
        assert run.skipped == 3 and run.tasks == plan.tasks - 3
        found = hs.open_group(place, mode="r", storage_options=options)
        assert found.attrs["x"] == 1
        assert_same(found["v"][...], data((64, 32)))
        hs.copy(group, tmp_path / "c", chunks=(64, 4))
        stored = {key.removeprefix("some/b/"): server.get("bucket", key) for key in server.list("bucket")}
        assert stored == files(tmp_path / "c")
        with pytest.raises(hs.errors.DestinationError, match="are there already"):
            plan.run()
        # Copy back from the server.
        hs.plan_copy(place, tmp_path / "d", storage_options=options).run()
        assert_same(hs.open_group(tmp_path / "d", mode="r")["v"][...], data((64, 32)))
        # Discard an unfinished copy.
        again = hs.plan_copy(
            group, "s3://bucket/other", task_size=1000, max_memory=3000, storage_options=options
        )
        with pytest.raises(Stopped):
            again.run(progress=stop_after(3))
        assert again.discard()
        assert server.list("bucket", "other") == []


def test_json_says_what_was_asked(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    facts = json.loads(plan.to_json())
    assert facts["source"] == str(tmp_path / "a") and facts["destination"] == str(tmp_path / "b")
    assert json.loads(facts["options"])["chunks"] == [256, 4, 4]
