"""Executes copy plans: runs tasks, keeps the journal, and resumes after a kill.

**Places.** For a destination on disk, everything is made in a directory beside it,
``.NAME.hyperslab-copy``: the copy in ``new-…``, temporary arrays in ``temporary``, the journal in
``journal``. At the end, ``new-…`` is renamed in one step. On a server nothing can be renamed.
Chunks go to their final places, the journal to ``.hyperslab-copy`` among them, and metadata comes
last. Either way, nothing half-written can be opened.

**Steps.**

1. Write the plan to the journal, then its number.
2. Hand out the tasks of a stage, in ranges that carry the descriptions of their arrays.
3. A worker copies the objects that its tasks own. Then it writes a record: an object whose name
   holds the range of tasks and two hashes. The first covers names, sizes and times (or tags) of the
   tasks' objects, the second the checksums of what the tasks wrote. If the worker is killed before
   that, the tasks are repeated and write the same again. (On a server, the last seconds of a copy
   in one process have no record: it would be deleted at once.)
4. When all tasks of a stage are done, the next stage begins. Temporary arrays that no task needs any
   more are deleted: on disk by a rename, on a server by tasks.
5. For verification, compare source and copy by tasks.
6. Write metadata, move the copy to its place, delete the journal.

**Existing arrays.** Chunks go to their final places in the array, and the journal is beside it.
There is no metadata to write, and nothing to move.

**Resuming.** A run that resumes takes over the journal (see `hyperslab._copy.place`), and an
earlier run that is still alive stops. The journal's plan is used. A range of tasks is done if one
of its records has the hash of the objects stored now. If contents are checked, the record must also
have the hash of the checksums that the tasks made of the values they read. Workers do these checks.
The last stage is checked first: if all of it is done, the earlier stages are not needed.

**Finished copies** have no journal. A run that resumes one compares the metadata, then all elements
with the source.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from hyperslab._base.config import config
from hyperslab._base.tasks import run_tasks, workers
from hyperslab._copy.place import Place
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.ranges import Descriptions, Spans, TaskRanges
from hyperslab._copy.stages import CopyStage
from hyperslab._copy.worker import (
    Copying,
    Job,
    Source,
    check_range,
    compare_made,
    compare_range,
    drop_range,
    kept,
    run_range,
)
from hyperslab.errors import DestinationError, VerificationError

__all__ = ["CopyRun", "Told", "discard", "run", "threads_per_task"]

Progress: TypeAlias = Callable[[Literal["copy", "verify"], int, int], object]


# Concurrent requests for verifying stored objects in this process.
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
    place = Place(plan.id, plan.destination, plan.storage_options, config.fsync, plan.is_into)
    with place.taking_back():
        begun = time.monotonic()
        tasks = partial(run_tasks, executor=executor, retries=retries, in_flight=in_flight)
        each = threads_per_task(executor, threads)
        goes_on = resume and not plan.overwrite and place.plan(plan) is not None
        if resume and not plan.overwrite and not goes_on and place.holds_documents(plan):
            looked = time.monotonic()
            if _is_made(plan, place, each, tasks, progress):
                place.remove_leftovers()
                took = time.monotonic() - looked
                return CopyRun(0, plan.tasks, plan.groups, len(plan.arrays), plan.bytes, looked - begun, took)
        going = _begin(plan, place, resume, goes_on)
        if going is None:
            return CopyRun(0, plan.tasks, plan.groups, len(plan.arrays), plan.bytes, time.monotonic() - begun)
        plan, resumes = going
        # On disk a record costs nothing.
        is_end_here = executor is None and not verify and place.is_remote and plan.depth > 0
        job = Job(
            plan.id,
            plan.destination,
            plan.storage_options,
            config.fsync,
            plan.is_into,
            each,
            place.run,
            threads,
            not resumes and not plan.is_into,
            Source.of(plan),
            ends=(plan.depth - 1, len(plan.stages[-1])) if is_end_here else None,
        )
        kept.put(job.key, Copying(Source.of(plan), place))
        descriptions = Descriptions(plan, place)

        def run_stage(function: Any, stage: CopyStage, done: Spans, told: Told | None, name: str) -> int:
            ranges = TaskRanges(stage, done, descriptions)
            results = tasks(partial(function, job), ranges, name=f"hyperslab-{name}")
            with contextlib.closing(results):  # type: ignore[type-var]
                for index, result in results:
                    bounds = ranges.bounds(index)
                    if not isinstance(result, tuple) or result[:4] != (plan.id, stage.number, *bounds):
                        raise RuntimeError(f"the executor returned the result of another task: {result}")
                    place.noted.update(result[4:])
                    if told is not None:
                        told.advance(stage, *bounds)
            return ranges.tasks

        # If no run began before, nothing is done, whatever a listing shows that lags.
        done = (
            _done(plan, place, job, descriptions, contents, tasks)
            if resumes
            else [Spans() for _ in plan.stages]
        )
        told = Told(plan, "copy", progress)
        ran = skipped = 0
        for stage, finished in zip(plan.stages, done, strict=True):
            skipped += len(finished)
            for span in finished:
                told.advance(stage, *span)
            ran += run_stage(run_range, stage, finished, told, "copy")
            if stage.number > 0 and place.is_remote:
                run_stage(drop_range, plan.stages[stage.number - 1], Spans(), None, "drop")
            place.drop_temporary(stage.number - 1)
        copied = time.monotonic()
        if verify:
            run_stage(compare_range, plan.verification, Spans(), Told(plan, "verify", progress), "verify")
            if plan.differs:
                raise VerificationError(f"{plan.destination}: the copy differs: {plan.differs[0]}")
        verified = time.monotonic() - copied if verify else None
        place.finish(plan, is_noted=executor is None and not resumes and plan.depth <= 1)
        if verify and not plan.is_into and not place.holds_documents(plan):
            raise VerificationError(f"{plan.destination}: the metadata there is not what was written")
        kept.drop(job.key)
        return CopyRun(ran, skipped, plan.groups, len(plan.arrays), plan.bytes, copied - begun, verified)


class Told:
    """Reports progress to the caller."""

    def __init__(self, plan: CopyPlan, phase: Literal["copy", "verify"], progress: Progress | None) -> None:
        self.phase: Literal["copy", "verify"] = phase
        self._plan, self._progress, self._done = plan, progress, 0.0
        self.advance(None)

    def advance(self, stage: CopyStage | None, first: int = 0, end: int = 0) -> None:
        """Count a range of tasks as done."""
        if stage is not None and first < end:
            self._done += stage.elements(first, end)
        if self._progress is not None:
            self._progress(self.phase, min(round(self._done), self._plan.bytes), self._plan.bytes)


def threads_per_task(executor: Any, threads: int | None) -> int | None:
    """Return the number of threads per task; ``None``: as planned."""
    if threads is not None or executor is None:
        return threads
    # A worker of dask or Ray has one thread for each task that it runs at a time.
    is_pool = isinstance(executor, Executor) and hasattr(executor, "_max_workers")
    return max((os.cpu_count() or 1) // workers(executor), 1) if is_pool else 1


def _begin(plan: CopyPlan, place: Place, resume: bool, goes_on: bool) -> tuple[CopyPlan, bool] | None:
    """Return the plan to execute, and whether an earlier run began; ``None`` if everything is done.

    ``goes_on``: a moment ago there was a journal of this copy.
    """
    there: list[str] | None = None
    if resume:
        found = place.plan(plan)
    else:
        # Two looks that do not depend on each other.
        with ThreadPoolExecutor(1) as pool:
            listing = pool.submit(place.list_destination)
            found = place.plan(plan)
            there = listing.result()
    if found is not None and not resume:
        raise DestinationError(
            f"{plan.destination}: a copy to it was not finished. Go on with it: run(resume=True), or "
            "hyperslab copy --resume. Or give it up: plan.discard()"
        )
    if found is None:
        try:
            place.check(plan, False, there)
        except DestinationError:
            if goes_on:
                raise _ended(plan) from None
            if place.plan(plan) is not None:
                # It has deleted the documents of the old node meanwhile.
                raise DestinationError(
                    f"{plan.destination}: another run has just begun a copy to it"
                ) from None
            raise
        place.begin(plan, there is not None and not any(map(place.is_journal, there)))
    else:
        with place.lock_out_others():
            # The other run may have ended while this run waited.
            found = place.plan(plan)
            if found is None:
                raise _ended(plan)
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


def _ended(plan: CopyPlan) -> DestinationError:
    return DestinationError(
        f"{plan.destination}: another run has just finished the copy to it, or given it up"
    )


def _is_made(
    plan: CopyPlan, place: Place, threads: int | None, tasks: Any, progress: Progress | None
) -> bool:
    """Return True if all elements at the destination equal the source's. The metadata must match.

    This serves clients that were killed at the end of a copy, when the journal was already deleted.
    """
    stage, told = plan.verification, Told(plan, "verify", progress)
    # Listings that workers keep hold for this comparison only.
    job = Job(
        plan.id,
        plan.destination,
        plan.storage_options,
        False,
        plan.is_into,
        threads,
        f"made {secrets.token_hex(8)}",
        source=Source.of(plan),
        is_made=True,
    )
    ranges = TaskRanges(stage, Spans(), Descriptions(plan, place.at_destination()))
    results = tasks(partial(compare_made, job), ranges, name="hyperslab-verify")
    try:
        with contextlib.closing(results):
            for index, is_equal in results:
                if not is_equal:
                    return False
                told.advance(stage, *ranges.bounds(index))
    finally:
        kept.drop(job.key)
    return True


def _done(
    plan: CopyPlan, place: Place, job: Job, descriptions: Descriptions, contents: bool, tasks: Any
) -> list[Spans]:
    """Return for each stage the tasks that are done and whose objects are unchanged."""
    done = [Spans([(0, len(stage))]) for stage in plan.stages]
    for stage in reversed(plan.stages):
        done[stage.number] = _done_in_stage(stage, place, job, descriptions, contents, tasks)
        if len(done[stage.number]) == len(stage):
            break
    return done


def _done_in_stage(
    stage: CopyStage, place: Place, job: Job, descriptions: Descriptions, contents: bool, tasks: Any
) -> Spans:
    records = place.records(stage.number)
    recorded = sorted(span for span in records if span[1] <= len(stage))
    ranges = (descriptions.range(stage, *span, records[span]) for span in recorded)
    function = partial(check_range, job, contents)
    with contextlib.ExitStack() as stack:
        if tasks.keywords["executor"] is None:
            tasks = partial(run_tasks, executor=stack.enter_context(ThreadPoolExecutor(_AT_ONCE)))
        results = tasks(function, ranges, name="hyperslab-check")
        return Spans([recorded[index] for index, is_done in results if is_done])


def discard(plan: CopyPlan) -> bool:
    """Implement `CopyPlan.discard`."""
    place = Place(plan.id, plan.destination, plan.storage_options, config.fsync, plan.is_into)
    if place.plan(plan) is None:
        return place.remove_remains(plan)
    with place.lock_out_others():
        place.take_over()
        place.discard(plan)
    return True
