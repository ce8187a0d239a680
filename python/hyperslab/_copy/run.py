"""Executes copy plans: the engine says which tasks come next, executors run them.

The engine keeps the journal, and resumes after a kill (``copy/tasks`` in the Rust crate).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._base.tasks import run_tasks, workers
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.worker import (
    Job,
    Source,
    check_range,
    compare_made,
    compare_range,
    drop_range,
    kept,
    run_range,
)
from hyperslab._stores.remote import flat_options
from hyperslab.errors import DestinationError

__all__ = ["CopyRun", "discard", "run", "threads_per_task"]

Progress: TypeAlias = Callable[[Literal["copy", "verify"], int, int], object]

# Concurrent requests for verifying stored objects in this process.
_AT_ONCE: Final = 16

# The maximum number of ranges of a stage, and the seconds that a run waits for another one that has the
# lock. None: as the engine chooses. Tests set them.
_MOST_RANGES: int | None = None
_WAIT: float | None = None


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
    how = (resume, contents, verify, executor is None)
    storage = flat_options(plan.storage_options)
    going = _native.TaskRun(plan._native, how, _MOST_RANGES, storage, config.fsync, _WAIT)
    source, each, keys = Source.of(plan), threads_per_task(executor, threads), set[str]()
    functions: dict[str, Callable[..., Any]] = {
        "copy": run_range,
        "check": check_range,
        "drop": drop_range,
        "compare": compare_range,
        "compare made": compare_made,
    }

    def tell() -> None:
        for step in going.told():
            if progress is not None:
                progress(*step)

    def run_step(step: _native.TaskStep) -> None:
        job = Job(
            plan.id,
            plan.destination,
            plan.storage_options,
            config.fsync,
            plan.is_into,
            each,
            step.run,
            threads,
            step.is_fresh,
            source,
            step.ends,
            step.work == "compare made",
        )
        if not job.is_made:
            kept.put(job, going.place)
        keys.add(job.key)
        arguments = (job, contents) if step.work == "check" else (job,)
        function = partial(functions[step.work], *arguments)
        with contextlib.ExitStack() as stack:
            pool = executor
            if executor is None and step.work == "check":
                pool = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
            ranges = map(step.range, range(len(step)))
            results: Any = run_tasks(
                function, ranges, pool, retries=retries, in_flight=in_flight, name=step.name
            )
            stack.enter_context(contextlib.closing(results))
            for index, result in results:
                if isinstance(result, bool):
                    goes_on = going.ended(index, None, result)
                else:
                    if not isinstance(result, tuple) or result[:4] != (
                        plan.id,
                        step.stage,
                        *step.bounds(index),
                    ):
                        raise RuntimeError(f"the executor returned the result of another task: {result}")
                    goes_on = going.ended(index, list(result[4:]))
                tell()
                if not goes_on:
                    break

    try:
        while (step := going.next()) is not None:
            tell()
            run_step(step)
    except DestinationError:
        going.take_back()
        raise
    tasks, skipped, seconds, seconds_verified = going.report()
    for key in keys:
        kept.drop(key)
    return CopyRun(tasks, skipped, plan.groups, len(plan.arrays), plan.bytes, seconds, seconds_verified)


def threads_per_task(executor: Any, threads: int | None) -> int | None:
    """Return the number of threads per task; ``None``: as planned."""
    if threads is not None or executor is None:
        return threads
    # A worker of dask or Ray has one thread for each task that it runs at a time.
    is_pool = isinstance(executor, Executor) and hasattr(executor, "_max_workers")
    return max((os.cpu_count() or 1) // workers(executor), 1) if is_pool else 1


def discard(plan: CopyPlan) -> bool:
    """Implement `CopyPlan.discard`."""
    storage = flat_options(plan.storage_options)
    place = _native.CopyPlace(plan.id, plan.destination, plan.is_into, None, storage, config.fsync, _WAIT)
    return place.discard(plan._native)
