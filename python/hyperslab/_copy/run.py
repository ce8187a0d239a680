"""Executes copy plans: runs tasks, keeps the journal, and resumes after a kill.

**Places.** For a destination on disk, everything is made in a directory beside it,
``.NAME.hyperslab-copy``: the copy in ``new-…``, temporary arrays in ``temporary``, the journal in
``journal``. At the end, ``new-…`` is renamed in one step. On a server nothing can be renamed.
Chunks go to their final places, the journal to ``.hyperslab-copy`` among them, and metadata comes
last. Either way, nothing half-written can be opened.

**Steps.**

1. Write the plan to the journal, then its number.
2. Hand out the tasks of a stage. A worker reads the plan from the journal once.
3. A worker copies the objects that its task owns. Then it writes a record: an object whose name
   holds the task's number and two hashes. The first covers names, sizes and times (or tags) of the
   task's objects, the second the checksums of what the task wrote. If the worker is killed before
   that, the task is repeated and writes the same again.
4. When all tasks of a stage are done, the next stage begins.
5. For verification, compare source and copy by tasks.
6. Write metadata, move the copy to its place, delete the journal.

**Existing arrays.** Chunks go to their final places in the array, and the journal is beside it.
There is no metadata to write, and nothing to move.

**Resuming.** A run that resumes takes over the journal (see `hyperslab._copy.place`), and an
earlier run that is still alive stops. The journal's plan is used. A task is done if one of its
records has the hash of the objects stored now. If contents are checked, the record must also have
the hash of the checksums that the task made of the values it read. The last stage is checked first:
if all of it is done, the earlier stages are not needed.

**Finished copies** have no journal. A run that resumes one compares the metadata, then all elements
with the source.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._base.tasks import run_tasks, workers
from hyperslab._copy.locations import is_remote
from hyperslab._copy.place import Place
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.stages import CopyArray, CopyStage, CopyTask
from hyperslab._core.arguments import CopyPart
from hyperslab._core.array import Array
from hyperslab._create.open import open
from hyperslab.errors import DestinationError, StoreError, SupersededError, VerificationError

__all__ = ["CopyRun", "Copying", "Items", "Told", "discard", "run", "threads_per_task"]

Progress: TypeAlias = Callable[[Literal["copy", "verify"], int, int], object]


# Concurrent requests for writing metadata and for verifying stored objects.
_AT_ONCE: Final = 16


@dataclass(frozen=True)
class CopyRun:
    """The result of running a plan."""

    tasks: int
    """Number of tasks run."""
    skipped: int
    """Number of tasks done by an earlier run."""
    groups: int
    """Number of groups."""
    arrays: int
    """Number of arrays."""
    bytes: int
    """Bytes of all elements in memory."""
    seconds: float
    """Time taken, without verification."""
    seconds_verified: float | None = None
    """Time taken by verification; ``None`` if the copy was not verified."""


def run(
    plan: CopyPlan,
    executor: Any,
    resume: bool,
    contents: bool,
    verify: bool,
    retries: int,
    threads: int | None,
    in_flight: int | None,
    progress: Progress | None,
) -> CopyRun:
    """Implement `CopyPlan.run`."""
    begun = time.monotonic()
    place = Place(plan.id, plan.destination, plan.storage_options, config.fsync, plan.is_into)
    tasks = partial(run_tasks, executor=executor, retries=retries, in_flight=in_flight)
    if resume and not plan.overwrite and place.plan(plan) is None and place.holds_documents(plan):
        looked = time.monotonic()
        if _is_made(plan, threads_per_task(executor, threads), tasks, progress):
            place.remove_leftovers()
            took = time.monotonic() - looked
            return CopyRun(0, plan.tasks, plan.groups, len(plan.arrays), plan.bytes, looked - begun, took)
    going = _begin(plan, place, resume)
    if going is None:
        return CopyRun(0, plan.tasks, plan.groups, len(plan.arrays), plan.bytes, time.monotonic() - begun)
    plan, resumes = going
    job = _Job(
        plan.id,
        plan.destination,
        plan.storage_options,
        config.fsync,
        plan.is_into,
        threads_per_task(executor, threads),
        place.run,
        threads,
        not resumes and not plan.is_into,
        plan.source_store,
    )
    copying = Copying(plan, place)
    _kept.put(job.key, copying)
    check = _Check(copying, job, tasks if contents and executor is not None else None, contents)
    # If no run began before, nothing is done, whatever a listing shows that lags.
    done = check.done() if resumes else [set[int]() for _ in plan.stages]

    def run_stage(function: Any, stage: CopyStage, left: list[int] | None, told: Told) -> int:
        items = Items(stage, left)
        results = tasks(partial(function, job), items, name=f"hyperslab-{told.phase}")
        with contextlib.closing(results):  # type: ignore[type-var]
            for index, result in results:
                task = stage[items[index][1]]
                id, number, index, *noted = result
                if (id, number, index) != (plan.id, task.stage, task.number):
                    raise RuntimeError(f"the executor returned the result of another task: {result}")
                place.noted.update(noted)
                told.advance(task)
        return len(items)

    told = Told(plan, "copy", progress)
    ran = skipped = 0
    for stage, finished in zip(plan.stages, done, strict=True):
        skipped += len(finished)
        for number in finished:
            told.advance(stage[number])
        left = [number for number in range(len(stage)) if number not in finished] if finished else None
        ran += run_stage(_run_task, stage, left, told)
        place.drop_temporary(stage.number - 1)
    copied = time.monotonic()
    if verify:
        run_stage(_compare_task, plan.verification, None, Told(plan, "verify", progress))
        if plan.differs:
            raise VerificationError(f"{plan.destination}: the copy differs: {plan.differs[0]}")
    verified = time.monotonic() - copied if verify else None
    place.finish(plan)
    if verify and not plan.is_into and not place.holds_documents(plan):
        raise VerificationError(f"{plan.destination}: the metadata there is not what was written")
    _kept.drop(job.key)
    return CopyRun(ran, skipped, plan.groups, len(plan.arrays), plan.bytes, copied - begun, verified)


class Items:
    """The remaining tasks of a stage, as sent to workers. Computed: there may be 10⁸."""

    def __init__(self, stage: CopyStage, left: list[int] | None) -> None:
        self.stage, self._left, self._len = stage.number, left, len(stage) if left is None else len(left)

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self.stage, index if self._left is None else self._left[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self[index] for index in range(self._len))


class Told:
    """Reports progress to the caller."""

    def __init__(self, plan: CopyPlan, phase: Literal["copy", "verify"], progress: Progress | None) -> None:
        self.phase: Literal["copy", "verify"] = phase
        self._plan, self._progress, self._done = plan, progress, 0.0
        self.advance(None)

    def advance(self, task: CopyTask | None) -> None:
        for index, number, first, end in task.parts if task is not None else ():
            array = self._plan.arrays[index]
            share = 1 if number < 0 else len(array.passes)
            self._done += array.bytes / share * (end - first) / array.one(number).units
        if self._progress is not None:
            self._progress(self.phase, min(round(self._done), self._plan.bytes), self._plan.bytes)


def threads_per_task(executor: Any, threads: int | None) -> int | None:
    """Return the number of threads per task; ``None``: as planned."""
    if threads is not None or executor is None:
        return threads
    # A worker of dask or Ray has one thread for each task that it runs at a time.
    is_pool = isinstance(executor, Executor) and hasattr(executor, "_max_workers")
    return max((os.cpu_count() or 1) // workers(executor), 1) if is_pool else 1


def _begin(plan: CopyPlan, place: Place, resume: bool) -> tuple[CopyPlan, bool] | None:
    """Return the plan to execute, and whether an earlier run began; ``None`` if everything is done."""
    found = place.plan(plan)
    if found is not None and not resume:
        raise DestinationError(
            f"{plan.destination}: a copy to it was not finished. Go on with it: run(resume=True), or "
            "hyperslab copy --resume. Or give it up: plan.discard()"
        )
    if found is None:
        place.check(plan, False)
        place.begin(plan)
    else:
        with place.lock_out_others():
            # The other run may have ended while this run waited.
            found = place.plan(plan)
            if found is None:
                raise DestinationError(
                    f"{plan.destination}: another run has just finished the copy to it, or given it up"
                )
            if place.is_finished():
                place.take_over()
                if not plan.is_into:
                    place.enclosing_groups(plan).renew()
                place.remove_journal()
                return None
            place.check(plan, True)
            place.take_over()
    place.clear(found or plan)
    return found or plan, found is not None


def _is_made(plan: CopyPlan, threads: int | None, tasks: Any, progress: Progress | None) -> bool:
    """Return True if all elements at the destination equal the source's. The metadata must match.

    This serves clients that were killed at the end of a copy, when the journal was already deleted.
    """
    stage, told = plan.verification, Told(plan, "verify", progress)
    # Listings that workers keep hold for this comparison only.
    key = f"{plan.id} made {secrets.token_hex(8)}"
    results = tasks(partial(_compare_made, plan, key, threads), range(len(stage)), name="hyperslab-verify")
    try:
        with contextlib.closing(results):
            for number, is_equal in results:
                if not is_equal:
                    return False
                told.advance(stage[number])
    finally:
        _kept.drop(key)
    return True


def discard(plan: CopyPlan) -> bool:
    """Implement `CopyPlan.discard`."""
    place = Place(plan.id, plan.destination, plan.storage_options, config.fsync, plan.is_into)
    if place.plan(plan) is None:
        return False
    with place.lock_out_others():
        place.take_over()
        place.discard(plan)
    return True


# ---- code that workers run


@dataclass(frozen=True)
class _Job:
    """Everything that a task needs to know, in some hundred bytes."""

    id: str
    destination: str
    storage_options: Mapping[str, Any] | None
    fsync: bool
    is_into: bool
    threads: int | None
    run: str
    requests: int | None = None
    """The maximum of requests at a time, if the caller set the number of threads."""
    is_fresh: bool = False
    """True if nothing existed at the destination when the run began."""
    source_store: Any = None
    """The source, if it is no path or URL."""

    @property
    def key(self) -> str:
        return f"{self.id} {self.run}"


def _run_task(job: _Job, item: tuple[int, int]) -> tuple[str, int, int, str]:
    """Run one task and record it in the journal. Runs on a worker. Returns the key of the record."""
    copying = _kept.get(job)
    place = copying.place
    place.check_journal()
    stage, number = item
    task = copying.plan.stages[stage][number]
    try:
        record = _record([copying.copy(part, job.threads, job.requests, job.is_fresh) for part in task.parts])
        noted = place.note_done(stage, f"{number}-{record}")
    except SupersededError:
        place.sweep()
        raise
    return job.id, stage, number, noted


def _compare_task(job: _Job, item: tuple[int, int]) -> tuple[str, int, int]:
    """Compare the elements of one verification task with the source. Runs on a worker."""
    copying = _kept.get(job)
    copying.place.check_journal()
    stage, number = item
    for part in copying.plan.verification[number].parts:
        copying.compare(part, job.threads)
    return job.id, stage, number


def _compare_made(plan: CopyPlan, key: str, threads: int | None, number: int) -> bool:
    """Return True if the elements of one verification task equal the source. Runs on a worker.

    There is no journal: the plan comes with the task. ``key``: of this comparison among the kept
    plans.
    """
    copying = _kept.find(key)
    if copying is None:
        place = Place(plan.id, plan.destination, plan.storage_options, False, plan.is_into, "")
        copying = Copying(plan, place.at_destination())
        _kept.put(key, copying)
    try:
        for part in plan.verification[number].parts:
            copying.compare(part, threads)
    except VerificationError:
        return False
    return True


def _check_task(job: _Job, item: tuple[int, int, frozenset[str]]) -> tuple[int, bool]:
    """Return True if a task's objects, read again, match one of its records. Runs on a worker."""
    stage, number, records = item
    return number, _kept.get(job).is_done(stage, number, records, contents=True)


def _record(stamps: list[tuple[int, int, int]]) -> str:
    """Return a name that identifies the state of a task's objects and their contents."""

    def digest(numbers: Any) -> str:
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:24]

    found = digest([stamp[:2] for stamp in stamps])
    return f"{found}-{digest([stamp[2] for stamp in stamps])}"


class Copying:
    """A plan and its source arrays, which are opened on demand."""

    def __init__(self, plan: CopyPlan, place: Place) -> None:
        self.plan, self.place = plan, place
        self._documents = dict(plan.documents)
        self._handles: dict[int, _native.ArrayHandle] = {}
        # By array. They hold for one run.
        self._listings: defaultdict[int, _native.CopyListings] = defaultdict(_native.CopyListings)
        self._source: Any = None

    def at(self, place: Any) -> Copying:
        """Return the same copy to another place, with the sources that are open."""
        other = copy.copy(self)
        other.place = place
        return other

    def copy(
        self,
        part: tuple[int, int, int, int],
        threads: int | None,
        requests: int | None = None,
        is_fresh: bool = False,
    ) -> tuple[int, int, int]:
        handle, listings = self._handle(part[0]), self._listings[part[0]]
        place = self._part(part, threads, requests, is_fresh)
        return _native.copy_part(handle, self.place.writing, place, listings)

    def compare(self, part: tuple[int, int, int, int], threads: int | None) -> None:
        handle, listings = self._handle(part[0]), self._listings[part[0]]
        _native.compare_part(handle, self.place.store._native, self._part(part, threads), listings)

    def is_done(self, stage: int, number: int, records: Iterable[str], contents: bool) -> bool:
        """Return True if a task's objects match one of its records."""
        if number >= len(self.plan.stages[stage]):
            return False

        def stamp(part: tuple[int, int, int, int]) -> tuple[int, int, int]:
            handle, listings, place = self._handle(part[0]), self._listings[part[0]], self._part(part, None)
            return _native.stamp_part(handle, self.place.store._native, place, listings, contents)

        try:
            found = _record([stamp(part) for part in self.plan.stages[stage][number].parts])
        except StoreError:
            # Objects that cannot be checked are made again, or fail with the task's own error.
            return False
        if contents:
            return found in records
        return found.partition("-")[0] in {record.partition("-")[0] for record in records}

    def _handle(self, index: int) -> _native.ArrayHandle:
        handle = self._handles.get(index)
        if handle is None:
            if self._source is None and self.plan.source_store is not None:
                self._source = open(self.plan.source_store, mode="r")
            elif self._source is None:
                options = self.plan.storage_options if is_remote(self.plan.source) else None
                self._source = open(self.plan.source, mode="r", storage_options=options)
            path = self.plan.arrays[index].path
            array: Array = self._source[path] if path else self._source
            handle = self._handles[index] = array._handle
        return handle

    def _part(
        self,
        part: tuple[int, int, int, int],
        threads: int | None,
        requests: int | None = None,
        is_fresh: bool = False,
    ) -> CopyPart:
        index, number, first, end = part
        array = self.plan.arrays[index]
        one = array.one(number)
        prefix = f"{array.path}/" if array.path else ""
        v3 = self._documents.get(f"{prefix}zarr.json")
        return {
            "path": self.place.data(array.path),
            "zarr_format": 2 if v3 is None else 3,
            "document": v3 or self._documents[f"{prefix}.zarray"],
            "from": self._temporary_array(index, array, number - 1) if number >= 0 else None,
            "to": self._temporary_array(index, array, number),
            "from_start": array.from_start,
            "to_start": array.to_start,
            "shape": array.shape,
            "is_new": not self.plan.is_into,
            "is_fresh": is_fresh,
            "block": one.block,
            "parts": one.parts,
            "units": (first, end),
            "threads": one.threads if threads is None else min(one.threads, threads),
            "requests": one.requests if requests is None else min(one.requests, requests),
        }

    def _temporary_array(
        self, index: int, array: CopyArray, number: int
    ) -> tuple[str, tuple[int, ...]] | None:
        """Return the temporary array that a pass writes, or ``None`` if it writes none."""
        if not 0 <= number < len(array.passes) - 1:
            return None
        stage = self.plan.depth - len(array.passes) + number
        return self.place.temporary(f"{stage}/{index}"), array.passes[number].target_chunk


class _Kept:
    """The plans that this process worked on last.

    There is no lock, because a forked child could inherit it locked. Each step is a single
    dictionary operation.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Copying] = {}

    def get(self, job: _Job) -> Copying:
        found = self._kept.get(job.key)
        if found is None:
            place = Place(job.id, job.destination, job.storage_options, job.fsync, job.is_into, job.run)
            text = place.store.get(place.journal("plan.json"))
            if text is None:
                raise DestinationError(f"{job.destination}: there is no journal of this copy")
            plan = CopyPlan.from_json(text.decode(), storage_options=job.storage_options)
            plan = replace(plan, source_store=job.source_store)
            found = Copying(plan, place)
            self.put(job.key, found)
        return found

    def find(self, key: str) -> Copying | None:
        return self._kept.get(key)

    def put(self, key: str, copying: Copying) -> None:
        self._kept[key] = copying
        for old in list(self._kept)[:-4]:
            self._kept.pop(old, None)

    def drop(self, key: str) -> None:
        self._kept.pop(key, None)


_kept = _Kept()


class _Check:
    """Finds the tasks that are done. ``tasks`` runs the checks of contents; if None, threads do."""

    def __init__(self, copying: Copying, job: _Job, tasks: Any, contents: bool) -> None:
        self._copying, self._job, self._tasks, self._contents = copying, job, tasks, contents

    def done(self) -> list[set[int]]:
        """Return for each stage the tasks that are done and whose objects are unchanged."""
        stages = self._copying.plan.stages
        done = [set(range(len(stage))) for stage in stages]
        for number in reversed(range(len(stages))):
            done[number] = self._done_tasks(number)
            if len(done[number]) == len(stages[number]):
                break
        return done

    def _done_tasks(self, stage: int) -> set[int]:
        records = self._copying.place.records(stage)
        if self._tasks is not None:
            items = [(stage, number, frozenset(found)) for number, found in records.items()]
            results = self._tasks(partial(_check_task, self._job), items, name="hyperslab-check")
            return {number for _, (number, ok) in results if ok}

        def is_done(number: int) -> bool:
            return self._copying.is_done(stage, number, records[number], self._contents)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return {number for number, ok in zip(records, pool.map(is_done, records), strict=True) if ok}
