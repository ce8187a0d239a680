"""Copies by a plan from and to sessions of Icechunk.

**From a session**, workers read through a pickle of its store. A session with changes is forked.

**Into a session**, the client forks the session and writes the metadata to the fork. Each task
writes to a fork of this fork, and returns it. The client merges it. When all is copied, the client
merges its own fork into the session, so a failed run changes nothing there. Nothing is visible to
others before the user commits. A session has no journal: uncommitted changes do not survive its
process.

**Uncommitted changes** at the destination are an exception: for example, the session has made the
array that the copy replaces. A merge cannot undo changes of the session. The client then writes to
the session itself, and after an error it deletes the copy.
"""

from __future__ import annotations

import contextlib
import pickle
import time
import uuid
from functools import partial
from typing import Any, Literal

import numpy as np

from hyperslab import _native
from hyperslab._base.tasks import run_tasks
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.run import CopyRun, Progress, threads_per_task
from hyperslab._copy.stages import CopyStage
from hyperslab._copy.worker import Source
from hyperslab._create.open import open, open_group
from hyperslab._stores.store import StorePath
from hyperslab._stores.zarr import ZarrStore
from hyperslab.errors import (
    DestinationError,
    InvalidArgumentError,
    NodeNotFoundError,
    ReadOnlyError,
    UnsupportedError,
    VerificationError,
)

__all__ = ["run_in_session"]


def run_in_session(
    plan: CopyPlan,
    executor: Any,
    resume: bool,
    verify: bool,
    retries: int,
    threads: int | None,
    in_flight: int | None,
    progress: Progress | None,
) -> CopyRun:
    """Implement `CopyPlan.run` for a copy into a session."""
    begun = time.monotonic()
    if resume:
        raise InvalidArgumentError("resume: a session keeps no journal; run the plan in a new session")
    if plan.depth > 1:
        raise UnsupportedError(
            "the copy needs temporary arrays, which a session cannot hold: plan it with more max_memory"
        )
    place = plan.session
    assert place is not None
    if place.store.read_only:
        raise ReadOnlyError("the session is read-only: use a writable session of the repository")
    path, session = place.path, place.store.zarr_store.session  # type: ignore[attr-defined]
    replaces = _is_occupied(plan, place)
    fork = None if _has_changes(session, path) else session.fork()
    store: Any = place.store if fork is None else ZarrStore(fork.store)
    place = StorePath(store, path)
    run = partial(_run_stage, plan, place, executor, retries, in_flight, threads_per_task(executor, threads))
    try:
        if replaces:
            store._requests.run("delete_dir", path)
        if path:
            open_group(StorePath(store, path.rpartition("/")[0]), mode="a", zarr_format=3)
        for key, text in sorted(plan.documents, key=lambda one: one[0].count("/")):
            store.set(_join(path, key), text.encode())
        for stage in plan.stages:
            run(stage, ProgressCount(plan, "copy", progress))
        copied = time.monotonic()
        if verify:
            run(plan.verification, ProgressCount(plan, "verify", progress))
            if plan.differs:
                raise VerificationError(f"{plan.destination}: the copy differs: {plan.differs[0]}")
    except BaseException:
        # Report the first error, not one of the cleanup.
        with contextlib.suppress(Exception):
            if fork is None:
                store._requests.run("delete_dir", path)
        raise
    if fork is not None:
        session.merge(fork)
    verified = time.monotonic() - copied if verify else None
    return CopyRun(plan.tasks, 0, plan.groups, len(plan.arrays), plan.bytes, copied - begun, verified)


def _is_occupied(plan: CopyPlan, place: StorePath) -> bool:
    """Return True if the copy replaces a node. Fails if a node is in the way."""
    try:
        open(place, mode="r")
    except NodeNotFoundError:
        return False
    if not plan.overwrite:
        raise DestinationError(
            f"{plan.destination}: an array or group is there; replace it with overwrite=True"
        )
    return True


def _has_changes(session: Any, path: str) -> bool:
    """Return True if a session has changes that a merge of a new node at ``path`` contradicts.

    They are any changes at or below the path, and deleted groups above it.
    """
    status, path = session.status(), f"/{path}"
    deleted = {*status.deleted_groups, *status.deleted_arrays}
    changed = {*deleted, *status.new_groups, *status.new_arrays}
    changed |= {*status.updated_groups, *status.updated_arrays, *status.updated_chunks}
    below = path.rstrip("/") + "/"
    return any(f"{each}/".startswith(below) for each in changed) or any(
        below.startswith(f"{each}/") for each in deleted
    )


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


class ProgressCount:
    """Reports progress to the caller."""

    def __init__(self, plan: CopyPlan, phase: Literal["copy", "verify"], progress: Progress | None) -> None:
        self.phase: Literal["copy", "verify"] = phase
        self._plan, self._progress, self._done = plan, progress, 0.0
        self._report()

    def advance(self, stage: CopyStage, first: int, end: int) -> None:
        """Count a range of tasks as done."""
        self._done += stage.elements(first, end)
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self.phase, min(round(self._done), self._plan.bytes), self._plan.bytes)


def _run_stage(
    plan: CopyPlan,
    place: StorePath,
    executor: Any,
    retries: int,
    in_flight: int | None,
    threads: int | None,
    stage: CopyStage,
    progress_count: ProgressCount,
) -> None:
    step = plan._native.step(stage.number, place.path)
    ranges = map(step.range, range(len(step)))
    copies = progress_count.phase == "copy"
    zarr_store = place.store.zarr_store  # type: ignore[attr-defined]
    source = Source.of(plan)
    if executor is None:
        worker = source.worker()
        for tasks in ranges:
            _run_range(worker, place.store, tasks, threads, copies)
            progress_count.advance(stage, tasks.first, tasks.end)
        return
    session = zarr_store.session
    # The same for all tasks: each worker gets it once.
    common = pickle.dumps((source, session.fork().store))
    blob = np.frombuffer(common, np.uint8)
    results = run_tasks(
        partial(_task, uuid.uuid4().hex, threads, copies),
        ranges,
        executor,
        shared=[blob],
        retries=retries,
        in_flight=in_flight,
        name=f"hyperslab-{progress_count.phase}",
    )
    with contextlib.closing(results):  # type: ignore[type-var]
        for index, fork in results:
            if copies:
                session.merge(pickle.loads(fork))
            progress_count.advance(stage, *step.bounds(index))


# ---- code that workers run

# The stage that this process worked on last: its key, the open sources, and a fork of the session.
_kept: list[tuple[str, _native.CopyWorker, bytes]] = []


def _task(key: str, threads: int | None, copies: bool, tasks: _native.TaskRange, blob: Any) -> bytes:
    """Run a range of tasks. Returns the pickle of their fork of the session."""
    known = next((each for each in list(_kept) if each[0] == key), None)
    if known is None:
        source, fork = pickle.loads(blob.tobytes())
        known = (key, source.worker(), pickle.dumps(fork))
        _kept.append(known)
        del _kept[:-2]
    # A fork for these tasks alone: others may run in this process at the same time.
    store = pickle.loads(known[2])
    _run_range(known[1], ZarrStore(store), tasks, threads, copies)
    return pickle.dumps(store.session) if copies else b""


def _run_range(
    worker: _native.CopyWorker, store: Any, tasks: _native.TaskRange, threads: int | None, copies: bool
) -> None:
    worker.work_in(store._native, tasks, threads, copies)
