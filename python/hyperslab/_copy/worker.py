"""The work of a planned copy on workers: calls of the engine, with what a process keeps open.

A worker gets a job, which is the same for all tasks of a run, and ranges of tasks with the
descriptions of their arrays. It reads nothing of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hyperslab import _native
from hyperslab._create.open import open
from hyperslab._stores.remote import flat_options

if TYPE_CHECKING:
    from hyperslab._copy.plan import CopyPlan

__all__ = [
    "Copying",
    "Job",
    "Source",
    "check_range",
    "compare_made",
    "compare_range",
    "drop_range",
    "kept",
    "run_range",
]

# A worker records a part of its range after this many seconds. None: as the engine chooses. Tests set it.
_RECORDED: float | None = None


@dataclass(frozen=True)
class Source:
    """The source of a copy, as workers open it."""

    location: str
    """Path or URL."""
    zarr_format: Literal[2, 3] | None
    """The Zarr format, if known: it saves looking for documents of others."""
    storage_options: Mapping[str, Any] | None
    store: Any = None
    """The source, if it is no path or URL."""
    sources: tuple[str, ...] = ()
    """The sources, if there are several."""
    concat: str | None = None
    """The dimension along which they are joined."""
    lengths: tuple[int, ...] = ()
    """Their lengths along it."""
    variables: tuple[str, ...] | None = None
    """The variables to copy; ``None``: all."""

    @classmethod
    def of(cls, plan: CopyPlan) -> Source:
        names = json.loads(plan.options).get("variables") if plan.concat is not None else None
        return cls(
            plan.source,
            plan.source_format,
            plan.storage_options,
            plan.source_store,
            plan.sources,
            plan.concat,
            plan.lengths,
            None if names is None else tuple(names),
        )

    def worker(self) -> _native.CopyWorker:
        """Return a worker that opens the source when it is needed."""
        if self.store is not None:
            return _native.CopyWorker(open(self.store, mode="r")._handle, [])
        storage = flat_options(self.storage_options)
        if self.concat is not None:
            return _native.CopyWorker((self.sources, self.concat, self.lengths, self.variables), storage)
        return _native.CopyWorker((self.location, self.zarr_format), storage)


@dataclass(frozen=True)
class Job:
    """Everything that the tasks of a run have in common, in some hundred bytes."""

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
    source: Source | None = None
    ends: tuple[int, int] | None = None
    """The last stage and its number of tasks, if nothing but the end of the copy follows it here."""
    is_made: bool = False
    """True if the copy is at its place, and there is no journal."""

    @property
    def key(self) -> str:
        return f"{self.id} {self.run}"


def _work(job: Job, work: str, tasks: _native.TaskRange, contents: bool = False) -> Any:
    worker, place = kept.get(job)
    facts = {
        "threads": job.threads,
        "requests": job.requests,
        "is_fresh": job.is_fresh,
        "ends": job.ends,
        "recorded": _RECORDED,
        "contents": contents,
    }
    result = worker.work(work, place, tasks, facts)
    return result if isinstance(result, bool) else (job.id, tasks.stage, tasks.first, tasks.end, *result)


def run_range(job: Job, tasks: _native.TaskRange) -> tuple[str | int, ...]:
    """Run a range of tasks and record it in the journal. Returns the range and the keys of records."""
    result: tuple[str | int, ...] = _work(job, "copy", tasks)
    return result


def compare_range(job: Job, tasks: _native.TaskRange) -> tuple[str | int, ...]:
    """Compare the elements of a range of verification tasks with the source. Returns the range."""
    result: tuple[str | int, ...] = _work(job, "compare", tasks)
    return result


def compare_made(job: Job, tasks: _native.TaskRange) -> bool:
    """Return True if the elements of a range of verification tasks equal the source."""
    result: bool = _work(job, "compare made", tasks)
    return result


def check_range(job: Job, contents: bool, tasks: _native.TaskRange) -> bool:
    """Return True if the objects of a range match one of its records."""
    result: bool = _work(job, "check", tasks, contents)
    return result


def drop_range(job: Job, tasks: _native.TaskRange) -> tuple[str | int, ...]:
    """Delete the objects that a range of tasks wrote to temporary arrays on a server."""
    result: tuple[str | int, ...] = _work(job, "drop", tasks)
    return result


class Copying(NamedTuple):
    """A source with the arrays that are open, and a destination. One for each run and process."""

    worker: _native.CopyWorker
    place: _native.CopyPlace


class _Kept:
    """The copies that this process worked on last.

    There is no lock, because a forked child could inherit it locked. Each step is a single
    dictionary operation.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Copying] = {}

    def get(self, job: Job) -> Copying:
        found = self._kept.get(job.key)
        if found is None:
            place = _native.CopyPlace(
                job.id,
                job.destination,
                job.is_into,
                job.run,
                flat_options(job.storage_options),
                job.fsync,
                None,
            )
            if job.is_made:
                place = place.at_destination()
            assert job.source is not None
            found = self._kept.setdefault(job.key, Copying(job.source.worker(), place))
            self._drop_old()
        return found

    def put(self, job: Job, place: _native.CopyPlace) -> None:
        """Keep the place of a run in the process that began it."""
        assert job.source is not None
        if job.key not in self._kept:
            self._kept[job.key] = Copying(job.source.worker(), place)
            self._drop_old()

    def _drop_old(self) -> None:
        for old in list(self._kept)[:-4]:
            self._kept.pop(old, None)

    def drop(self, key: str) -> None:
        self._kept.pop(key, None)


kept = _Kept()
