"""The work of a planned copy on workers: ranges of tasks, checks, and comparisons.

A worker gets a job, which is the same for all tasks of a run, and ranges of tasks with the
descriptions of their arrays. It reads nothing of the plan.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hyperslab import _native
from hyperslab._copy.joined import join
from hyperslab._copy.locations import copy_options, is_remote
from hyperslab._copy.place import Place
from hyperslab._copy.ranges import ArrayPass, TaskRange
from hyperslab._core.arguments import CopyPart
from hyperslab._core.array import Array
from hyperslab._create.open import open
from hyperslab.errors import DestinationError, StoreError, SupersededError, VerificationError

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
    "parts_of",
    "run_range",
]

# A worker records a part of its range after this many seconds. A kill then loses less work.
_RECORDED: Final = 30.0

# At most this many records for a range, so that the journal stays small.
_MOST_RECORDS: Final = 4

# Arrays that a worker keeps open.
_OPEN: Final = 1024

# Objects that are deleted together.
_DELETED_AT_ONCE: Final = 1000


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

    def open(self) -> Any:
        if self.store is not None:
            return open(self.store, mode="r")
        if self.concat is not None:
            options = copy_options(self.storage_options) if any(map(is_remote, self.sources)) else None
            names = None if self.variables is None else list(self.variables)
            return join(list(self.sources), self.concat, False, names, options, None, self.lengths)
        options = copy_options(self.storage_options) if is_remote(self.location) else None
        return open(self.location, mode="r", zarr_format=self.zarr_format, storage_options=options)


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


def run_range(job: Job, tasks: TaskRange) -> tuple[str | int, ...]:
    """Run a range of tasks and record it in the journal. Returns the range and the keys of records."""
    copying = kept.get(job)
    place = copying.place
    place.check_journal(recent=True)
    # A killed worker loses only what it has not recorded.
    recorded, first, end = time.monotonic(), tasks.first, tasks.first
    stamps, noted = list[tuple[int, int, int]](), list[str]()
    least = max((tasks.end - tasks.first) // _MOST_RECORDS, 1)

    def record() -> None:
        nonlocal recorded, first, stamps
        noted.append(place.note_done(tasks.stage, f"{first}-{end}-{_record(stamps)}"))
        recorded, first, stamps = time.monotonic(), end, []

    try:
        for number in range(tasks.first, tasks.end):
            found = [copying.copy(part, job) for part in parts_of(tasks, number)]
            stamps, end = stamps + found, number + 1
            if end - first >= least and time.monotonic() - recorded > _RECORDED:
                record()
        # A record of short work, after which the copy ends in this process, would only be deleted.
        is_end = job.ends == (tasks.stage, end) and time.monotonic() - recorded <= _RECORDED
        if first < end and not is_end:
            record()
    except SupersededError:
        place.take_back()
        # A process that has the lock may be suspended. It deletes the files itself when it wakes up.
        with contextlib.suppress(DestinationError):
            place.sweep(wait=0.0)
        raise
    except Exception:
        # The error of the task is the one to report.
        with contextlib.suppress(Exception):
            if first < end:
                record()
        place.take_back()
        raise
    return job.id, tasks.stage, tasks.first, tasks.end, *noted


def compare_range(job: Job, tasks: TaskRange) -> tuple[str, int, int, int]:
    """Compare the elements of a range of verification tasks with the source."""
    copying = kept.get(job)
    copying.place.check_journal()
    for number in range(tasks.first, tasks.end):
        for part in parts_of(tasks, number):
            copying.compare(part, job.threads)
    return job.id, tasks.stage, tasks.first, tasks.end


def compare_made(job: Job, tasks: TaskRange) -> bool:
    """Return True if the elements of a range of verification tasks equal the source."""
    copying = kept.get(job)
    try:
        for number in range(tasks.first, tasks.end):
            for part in parts_of(tasks, number):
                copying.compare(part, job.threads)
    except VerificationError:
        return False
    return True


def check_range(job: Job, contents: bool, tasks: TaskRange) -> bool:
    """Return True if the objects of a range match one of its records."""
    copying = kept.get(job)
    try:
        found = _record(
            [
                copying.stamp(part, contents)
                for number in range(tasks.first, tasks.end)
                for part in parts_of(tasks, number)
            ]
        )
    except StoreError:
        # Objects that cannot be checked are made again, or fail with the task's own error.
        return False
    if contents:
        return found in tasks.records
    return found.partition("-")[0] in {record.partition("-")[0] for record in tasks.records}


def drop_range(job: Job, tasks: TaskRange) -> tuple[str, int, int, int]:
    """Delete the objects that a range of tasks wrote to temporary arrays on a server."""
    copying = kept.get(job)
    keys = list[str]()
    for number in range(tasks.first, tasks.end):
        for part in parts_of(tasks, number):
            if part[1].part["to"] is not None:
                keys += copying.keys(part)
        if len(keys) >= _DELETED_AT_ONCE:
            copying.place.delete(keys)
            keys = []
    copying.place.delete(keys)
    return job.id, tasks.stage, tasks.first, tasks.end


# The numbers of an array and a pass, the description of the pass, and a range of units.
Part = tuple[tuple[int, int], ArrayPass, tuple[int, int]]


def parts_of(tasks: TaskRange, number: int) -> Iterator[Part]:
    """Yield the parts of one task of a range."""
    for index, of, first, end in tasks.parts[number]:
        yield (index, of), tasks.arrays[index, of], (first, end)


def _record(stamps: list[tuple[int, int, int]]) -> str:
    """Return a name that identifies the state of some tasks' objects and their contents."""

    def digest(numbers: Any) -> str:
        return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()[:24]

    found = digest([stamp[:2] for stamp in stamps])
    return f"{found}-{digest([stamp[2] for stamp in stamps])}"


class Copying:
    """A source and a destination, with the arrays that are open. One for each run and process."""

    def __init__(self, source: Source, place: Any) -> None:
        self.place, self._source = place, source
        self._opened: Any = None
        # By path. Kept up to a bound.
        self._handles: dict[str, _native.ArrayHandle] = {}
        # By array and pass. They hold for one run.
        self._listings: dict[tuple[int, int], _native.CopyListings] = {}

    def at(self, place: Any) -> Copying:
        """Return the same copy to another place, with the sources that are open."""
        other = copy.copy(self)
        other.place = place
        return other

    def copy(self, part: Part, job: Job) -> tuple[int, int, int]:
        how = self._part(part, job.threads, job.requests, job.is_fresh)
        return _native.copy_part(self._handle(part), self.place.writing, how, self._listing(part))

    def compare(self, part: Part, threads: int | None) -> None:
        store, how = self.place.store._native, self._part(part, threads)
        _native.compare_part(self._handle(part), store, how, self._listing(part))

    def stamp(self, part: Part, contents: bool) -> tuple[int, int, int]:
        store, how = self.place.store._native, self._part(part, None)
        return _native.stamp_part(self._handle(part), store, how, self._listing(part), contents)

    def keys(self, part: Part) -> list[str]:
        return _native.part_keys(self._handle(part), self.place.store._native, self._part(part, None))

    def _handle(self, part: Part) -> _native.ArrayHandle:
        path = part[1].path
        handle = self._handles.get(path)
        if handle is None:
            if self._opened is None:
                self._opened = self._source.open()
            array: Array = self._opened[path] if path else self._opened
            handle = _keep(self._handles, path, array._handle)
        return handle

    def _listing(self, part: Part) -> _native.CopyListings:
        index, number = part[0]
        # The first pass and the comparison read the same source.
        key = index, max(number, 0)
        found = self._listings.get(key)
        return _keep(self._listings, key, _native.CopyListings()) if found is None else found

    @staticmethod
    def _part(
        part: Part, threads: int | None, requests: int | None = None, is_fresh: bool = False
    ) -> CopyPart:
        how = part[1].part
        return {
            **how,
            "units": part[2],
            "is_fresh": is_fresh,
            "threads": how["threads"] if threads is None else min(how["threads"], threads),
            "requests": how["requests"] if requests is None else min(how["requests"], requests),
        }


def _keep(all: dict[Any, Any], key: Any, made: Any) -> Any:
    """Keep a value under a key, and return the one that is kept. Threads may do this at once."""
    found = all.setdefault(key, made)
    if len(all) > _OPEN:
        for old in list(all)[: _OPEN // 2]:
            if old != key:
                all.pop(old, None)
    return found


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
            place = Place(job.id, job.destination, job.storage_options, job.fsync, job.is_into, job.run)
            if job.is_made:
                place = place.at_destination()
            assert job.source is not None
            found = Copying(job.source, place)
            self.put(job.key, found)
        return found

    def put(self, key: str, copying: Copying) -> None:
        self._kept[key] = copying
        for old in list(self._kept)[:-4]:
            self._kept.pop(old, None)

    def drop(self, key: str) -> None:
        self._kept.pop(key, None)


kept = _Kept()
