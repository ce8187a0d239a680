"""Plans of copies that a cluster executes: stages of idempotent tasks.

A plan is numbers and the documents of the copy. The tasks of a stage are not listed: each is computed
from its number.

1. For each array the engine says in which passes it is copied, and how a pass is cut into units: blocks that
   own whole shards (or chunks) of what the pass writes.
2. A task is a range of units. There are as many in a task as make it worth its overhead. Arrays that are
   smaller than a task share one.
3. The last passes of all arrays are one stage, those before them (which write temporary arrays) the stage
   before it, and so on.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._base.progress import shown
from hyperslab._copy.copy import RegionLike, check_into, copy_region, existing, wanted_copy
from hyperslab._copy.text import lines
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create.open import open
from hyperslab._stores.store import FileStore, LocalStore, Store, StoreLike, resolve_store
from hyperslab.codecs import CodecsLike
from hyperslab.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from hyperslab._copy.run import CopyRun, Progress

__all__ = [
    "CopyArray",
    "CopyPass",
    "CopyPlan",
    "CopyStage",
    "CopyTask",
    "plan_copy",
]

VERSION: Final = 2

# A plan has about this many tasks at most: with more, those who hand them out become the bottleneck.
_MOST_TASKS: Final = 100_000

# Arrays that share a task: opening one takes about a millisecond.
_MOST_ARRAYS: Final = 256


@dataclass(frozen=True)
class CopyPass:
    """One walk over an array, from the source or a temporary array to a temporary array or the copy."""

    source_chunk: tuple[int, ...]
    """Elements per axis of a chunk that is read."""
    target_chunk: tuple[int, ...]
    """Elements per axis of a chunk that is written."""
    target_object: tuple[int, ...]
    """Elements per axis of what one object holds: a shard, or a chunk."""
    block: tuple[int, ...]
    """Elements per axis of a block: what is in memory at a time."""
    parts: tuple[int, ...]
    """Blocks per axis of a unit: more than one where a block is a part of a shard."""
    units: int
    """Number of units. Each owns whole objects."""
    independent: bool
    """Whether units share no object. Otherwise one task does all."""
    chunks: int
    """Number of source chunks."""
    decoded: int
    """How many source chunks are decoded in all."""
    objects: int
    """Number of objects that are written."""
    read: int
    """Bytes that are read, at most."""
    written: int
    """Bytes that are written, at most."""
    memory: int
    """The most bytes in memory of a task."""
    threads: int
    """The most threads of a task."""
    seconds: float
    """About how long it takes in one process, by the costs that plans are chosen by."""


@dataclass(frozen=True)
class CopyArray:
    """How an array is copied."""

    path: str
    """Relative to the source."""
    bytes: int
    """Bytes of all elements in memory."""
    why: str
    """Why there are temporary arrays, or none."""
    passes: tuple[CopyPass, ...]
    """One, or with temporary arrays in between more."""
    compare: CopyPass = field(repr=False)
    """The walk that compares source and copy, where that is asked for."""
    from_start: tuple[int, ...]
    """The first element of the source that is copied."""
    to_start: tuple[int, ...]
    """The first element of the copy that is written."""
    shape: tuple[int, ...]
    """Elements per axis that are copied."""

    def one(self, number: int) -> CopyPass:
        """A pass by its number; -1: `compare`."""
        return self.compare if number < 0 else self.passes[number]


@dataclass(frozen=True)
class CopyTask:
    """Some units of one or several arrays."""

    stage: int
    """Which stage."""
    number: int
    """Which task of it."""
    parts: tuple[tuple[int, int, int, int], ...]
    """Number of an array, number of its pass (-1: `CopyArray.compare`), first unit, and the one after the
    last.
    """


@dataclass(frozen=True)
class _Run:
    """Tasks of one array, or one task of several."""

    first: int
    parts: tuple[tuple[int, int], ...]
    units: int = 0
    each: int = 0


class CopyStage(Sequence[CopyTask]):
    """Tasks that may run in any order, and at the same time. They are computed when they are asked for."""

    def __init__(self, plan: CopyPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self._runs, self._len = self._cut()

    def _cut(self) -> tuple[list[_Run], int]:
        plan, runs, count = self._plan, list[_Run](), 0
        group: list[tuple[int, int]] = []
        room = 0

        def close() -> None:
            nonlocal group, count
            if group:
                runs.append(_Run(count, tuple(group)))
                group, count = [], count + 1

        for index, array in enumerate(plan.arrays):
            number = self._number - (plan.depth - len(array.passes))
            if self._number >= plan.depth:
                number = -1
            elif number < 0:
                continue
            one = array.one(number)
            units = one.units
            if units == 0:
                continue
            each = -(-plan.task_bytes * units // max(array.bytes, 1))
            if not one.independent:
                each = units
            if each < units:
                runs.append(_Run(count, ((index, number),), units, each))
                count += -(-units // each)
                continue
            if array.bytes > room or len(group) == _MOST_ARRAYS:
                close()
                room = plan.task_bytes
            group.append((index, number))
            room -= array.bytes
        close()
        return runs, count

    @property
    def number(self) -> int:
        """Which stage it is."""
        return self._number

    def __len__(self) -> int:
        return self._len

    @overload
    def __getitem__(self, number: int) -> CopyTask: ...
    @overload
    def __getitem__(self, number: slice) -> list[CopyTask]: ...

    def __getitem__(self, number: int | slice) -> CopyTask | list[CopyTask]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(self._len))]
        if not -self._len <= number < self._len:
            raise IndexError(f"task {number} of a stage of {self._len}")
        number %= self._len
        run = self._runs[bisect_right(self._runs, number, key=lambda run: run.first) - 1]
        if run.each:
            ((index, pass_number),) = run.parts
            first = (number - run.first) * run.each
            end = min(first + run.each, run.units)
            return CopyTask(self._number, number, ((index, pass_number, first, end),))
        ends = [self._plan.arrays[index].one(of).units for index, of in run.parts]
        parts = ((index, of, 0, end) for (index, of), end in zip(run.parts, ends, strict=True))
        return CopyTask(self._number, number, tuple(parts))

    def __iter__(self) -> Iterator[CopyTask]:
        return (self[number] for number in range(self._len))

    def __repr__(self) -> str:
        return f"<CopyStage {self._number}: {self._len} tasks>"


@dataclass(frozen=True)
class CopyPlan:
    """How a copy is made by many processes. Made by `plan_copy`.

    Small, picklable, and as text (`to_json`). ``print(plan)`` shows what is read, decoded and written.
    """

    source: str
    """Path or URL."""
    destination: str
    """Path or URL."""
    arrays: tuple[CopyArray, ...]
    """How each array is copied."""
    groups: int
    """Number of groups."""
    documents: tuple[tuple[str, str], ...] = field(repr=False)
    """The metadata of the copy: keys and texts."""
    task_bytes: int
    """Bytes of elements that a task copies, at least."""
    options: str
    """What was asked for, as JSON."""
    notes: tuple[str, ...] = ()
    """What differs from the source without having been asked for."""
    skipped: tuple[tuple[str, str], ...] = ()
    """What is left out because it cannot be copied: paths, and why."""
    differs: tuple[str, ...] = ()
    """How the metadata of the copy means something else than the source: verification fails where it does."""
    overwrite: bool = False
    """Whether what is at the destination is replaced."""
    is_into: bool = False
    """Whether the copy goes into a region of an array that exists."""
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Options of the server. They may be secret: they are pickled, and not in `to_json`."""

    @cached_property
    def id(self) -> str:
        """What tells this copy from another: of source, destination, metadata and options."""
        said = [VERSION, self.source, self.destination, self.documents, self.task_bytes, self.options]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    @cached_property
    def depth(self) -> int:
        """The most passes of an array."""
        return max((len(array.passes) for array in self.arrays), default=0)

    @cached_property
    def stages(self) -> tuple[CopyStage, ...]:
        """What is done one after the other. Each begins when all tasks of the one before are done.

        When the last one is done, metadata is written, and the copy is moved to its place.
        """
        return tuple(CopyStage(self, number) for number in range(self.depth))

    @cached_property
    def verification(self) -> CopyStage:
        """The tasks that compare copy and source, where `run` is asked to verify."""
        return CopyStage(self, self.depth)

    @property
    def tasks(self) -> int:
        """Number of tasks in all stages."""
        return sum(len(stage) for stage in self.stages)

    @property
    def bytes(self) -> int:
        """Bytes of all elements in memory."""
        return sum(array.bytes for array in self.arrays)

    def _sum(self, name: str) -> int:
        return sum(int(getattr(each, name)) for array in self.arrays for each in array.passes)

    @property
    def bytes_read(self) -> int:
        """Bytes that are read, at most."""
        return self._sum("read")

    @property
    def bytes_written(self) -> int:
        """Bytes that are written, at most; with temporary arrays."""
        return self._sum("written")

    @property
    def chunks(self) -> int:
        """Number of chunks of the source."""
        return sum(array.passes[0].chunks for array in self.arrays)

    @property
    def chunks_decoded(self) -> int:
        """How many chunks of the source are decoded in all, each as often as tasks share it."""
        return sum(array.passes[0].decoded for array in self.arrays)

    @property
    def memory(self) -> int:
        """The most bytes in memory of a task."""
        return max((each.memory for array in self.arrays for each in array.passes), default=0)

    @property
    def temporary_bytes(self) -> int:
        """Bytes of temporary arrays, beside the destination."""
        return sum(array.bytes * (len(array.passes) - 1) for array in self.arrays)

    def to_json(self) -> str:
        """The plan as text, for `from_json`. Without `storage_options`."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        del facts["storage_options"]
        facts["arrays"] = [asdict(array) for array in self.arrays]
        return json.dumps({"hyperslab copy plan": VERSION, **facts})

    @classmethod
    def from_json(cls, text: str, *, storage_options: Mapping[str, Any] | None = None) -> CopyPlan:
        """A plan from the text of `to_json`.

        Examples
        --------
        >>> import hyperslab as hs, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> z = hs.create_array(f"{folder}/a.zarr", data=[1, 2, 3])
        >>> plan = hs.plan_copy(z, f"{folder}/b.zarr")
        >>> hs.CopyPlan.from_json(plan.to_json()) == plan
        True
        """
        try:
            facts = json.loads(text)
            version = facts.pop("hyperslab copy plan", None)
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidArgumentError(f"no plan of a copy: {error}") from error
        if version != VERSION:
            raise InvalidArgumentError(
                f"no plan of a copy that this version knows: expected version {VERSION}, found {version}"
            )
        try:
            facts["arrays"] = tuple(_array(array) for array in facts["arrays"])
            for name in ("documents", "skipped"):
                facts[name] = tuple(tuple(pair) for pair in facts[name])
            for name in ("notes", "differs"):
                facts[name] = tuple(facts.get(name, ()))
            return cls(**{**facts, "storage_options": storage_options})
        except (TypeError, KeyError, AttributeError) as error:
            raise InvalidArgumentError(f"no plan of a copy: {error!r}") from error

    def run(
        self,
        executor: Any = None,
        *,
        resume: bool = False,
        check: Literal["stamps", "contents"] = "stamps",
        verify: bool = False,
        retries: int = 2,
        threads: int | None = None,
        in_flight: int | None = None,
        progress: Progress | bool | None = None,
    ) -> CopyRun:
        """Execute the plan.

        Until everything is copied nothing is at the destination that can be opened. What is done is noted in
        a journal beside it, by the processes that do it: after an error, Ctrl-C, or a kill of any process,
        call it again with ``resume``.

        Parameters
        ----------
        executor : executor, optional
            Where tasks run. ``None``: in this process. An executor of `concurrent.futures` (its tasks run in
            threads or processes), a `distributed.Client`, the module ``ray``. All processes must reach source
            and destination by the same paths or URLs.
        resume : bool, default False
            Whether to go on with a copy that was not finished. Tasks are skipped if what they have written is
            as they left it (see ``check``). Without a journal everything is copied. If the destination has
            the metadata of the copy, and ``overwrite`` is not set, all elements are compared with the
            source, and nothing is copied if all are equal. A journal of another plan is refused. A run that
            still lives stops when another one resumes its copy.
        check : {"stamps", "contents"}, default "stamps"
            How ``resume`` tells that. ``"stamps"``: by sizes, and times of modification or tags of objects,
            some microseconds for each. ``"contents"``: also by checksums, which tasks have made of what they
            wrote: all of that is read again, by tasks. For disks that you do not trust, and after a power
            failure.
        verify : bool, default False
            Whether to read the copy back and compare every bit with the source, by tasks, before the copy
            takes its place.
        retries : int, default 2
            How many times a task that fails is run again.
        threads : int, optional
            Threads of a task. Default: as planned in this process; elsewhere the processors of a machine
            divided by the workers of a pool, and one in tasks of dask and Ray.
        in_flight : int, optional
            The most tasks that are handed over at a time. Default: twice the workers.
        progress : callable, or True, optional
            Called as ``progress("copy" or "verify", bytes_done, bytes_in_all)``. ``True``: a bar on standard
            error.

        Returns
        -------
        CopyRun

        Raises
        ------
        DestinationError
            Where something is at the destination already, or a copy that was not finished; in a run that
            wakes up late, when another one has resumed the copy or finished it.
        VerificationError
            Where verification finds another value. What is copied stays beside the destination: find out why,
            then ``run(resume=True, check="contents", verify=True)``, or `discard`.

        Examples
        --------
        >>> import hyperslab as hs, tempfile
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> folder = tempfile.mkdtemp()
        >>> z = hs.create_array(f"{folder}/a.zarr", data=list(range(100)), chunks=10)
        >>> plan = hs.plan_copy(z, f"{folder}/b.zarr", chunks=(25,), task_size="200 B")
        >>> with ThreadPoolExecutor() as executor:
        ...     plan.run(executor).tasks
        4
        >>> hs.open_array(f"{folder}/b.zarr")[-3:]
        array([97, 98, 99])
        """
        from hyperslab._copy.run import run

        if check not in ("stamps", "contents"):
            raise InvalidArgumentError(f"check: expected 'stamps' or 'contents', found {check!r}")
        with shown(progress) as told:
            return run(self, executor, resume, check == "contents", verify, retries, threads, in_flight, told)

    def discard(self) -> bool:
        """Delete what an unfinished run has left: journal, temporary arrays, chunks that were copied.

        Returns whether there was anything. What is finished stays. A journal of another plan is refused.
        """
        from hyperslab._copy.run import discard

        return discard(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is computed.
        return CopyPlan, tuple(getattr(self, each.name) for each in fields(self))

    def __str__(self) -> str:
        return "\n".join(lines(self))


def _array(facts: dict[str, Any]) -> CopyArray:
    def one(facts: dict[str, Any]) -> CopyPass:
        lists: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
        return CopyPass(**lists)

    starts = {name: tuple(facts[name]) for name in ("from_start", "to_start", "shape")}
    passes = tuple(one(each) for each in facts["passes"])
    return CopyArray(**{**facts, **starts, "passes": passes, "compare": one(facts["compare"])})


def plan_copy(
    source: Array | Group | StoreLike,
    dest: Array | StoreLike,
    *,
    region: RegionLike | None = None,
    target_region: RegionLike | None = None,
    chunks: Iterable[int | None] | None = None,
    shards: Iterable[int | None] | Literal["keep", "auto"] | None = "keep",
    compressors: CodecsLike | str = "keep",
    order: Literal["C", "F"] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    threads: int | None = None,
    max_memory: int | str = "2 GiB",
    workers: int = 8,
    task_size: int | str = "128 MiB",
    skip_unsupported: bool = False,
    consolidated: bool = True,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> CopyPlan:
    """Plan a copy that many processes make: of an array or a group with all below it.

    Reads metadata, and writes nothing. The plan says which tasks there are, what they read, decode and write,
    and within how much memory. `CopyPlan.run` executes it: in this process, on an executor, on a cluster.

    Parameters
    ----------
    source : Array, Group, or store
        What to copy: a node, a path, a URL. All processes must reach it by that path or URL.
    dest : store, or Array
        Where to: a path, a URL of a server. Nothing may be there, without ``overwrite``. With
        ``target_region`` an array that exists.
    region, target_region
        As in `copy`: what is copied of an array or of all arrays with such dimensions, and where in an array
        that exists it goes. There are so many plans of one array at a time as you like: as regions begin and
        end at chunks, they share none.
    chunks, shards, compressors, order, zarr_format, skip_unsupported, consolidated
        As in `copy`.
    threads : int, optional
        The most threads of a task. Default: ``config.threads``.
    max_memory : int or str, default "2 GiB"
        About how much memory a task may use. A worker that runs several tasks at a time uses it several
        times.
    workers : int, default 8
        How many tasks run at a time. Of a small array, blocks are made smaller than memory allows, so that
        each worker has one, where that is faster even if chunks are decoded more often.
    task_size : int or str, default "128 MiB"
        Bytes of elements that a task copies, at least: small tasks cost more overhead, large ones are more
        work to do again when a worker dies. Of more than 12 TiB, tasks are larger, so that there are about
        100 000 at most.
    overwrite : bool, default False
        Whether an array or group at the destination is replaced. On disk the finished copy takes its place in
        one step. On a server the old one is deleted when the run begins: metadata first.
    storage_options : mapping, optional
        Options of the server, for ``source`` and ``dest`` where they are URLs of one (see `open`). They are
        sent to workers, and not written to the journal.

    Returns
    -------
    CopyPlan

    Examples
    --------
    >>> import hyperslab as hs, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> shape = (100_000, 1000, 1000)
    >>> z = hs.create_array(f"{folder}/a.zarr", shape=shape, chunks=(1, 1000, 1000), dtype="f4")
    >>> plan = hs.plan_copy(z, f"{folder}/b.zarr", chunks=(100, 100, 100), compressors="zstd")
    >>> plan.tasks, plan.chunks_decoded / plan.chunks
    (1000, 1.0)
    """
    location = _location_of_node(source) if isinstance(source, (Array, Group)) else _location(source)
    node = (
        source
        if isinstance(source, (Array, Group))
        else open(location, mode="r", storage_options=storage_options if _is_remote(location) else None)
    )
    target = None
    if target_region is not None:
        check_into(chunks, shards, compressors, order, overwrite, zarr_format)
        target = existing(dest, storage_options)
        destination = _location_of_node(target)
    elif isinstance(dest, Array):
        raise InvalidArgumentError("dest: to copy into an array that exists, say where: target_region")
    else:
        destination = _location(dest)
    wanted = wanted_copy(chunks, shards, compressors, order, zarr_format, threads, max_memory, region)
    wanted["overwrite"] = bool(overwrite)
    wanted["skip_unsupported"] = bool(skip_unsupported)
    wanted["consolidated"] = bool(consolidated)
    directory = None
    if not _is_remote(destination):
        store, path = resolve_store(destination)
        if not isinstance(store, LocalStore):
            raise UnsupportedError(
                f"dest: a cluster writes to a directory or a server, found {store.url}; use hyperslab.copy"
            )
        destination = directory = str(store.root / path) if path else str(store.root)
    least = parse_size(task_size)
    if least < 1:
        raise InvalidArgumentError(f"task_size: expected at least 1 byte, found {task_size!r}")
    if workers < 1:
        raise InvalidArgumentError(f"workers: expected at least 1, found {workers}")
    crew = (workers, least)
    options: dict[str, Any] = {**wanted, "threads": None, "fsync": False}
    if target is None:
        found = _native.outline_copy(node._handle, directory, crew, wanted)
    elif not isinstance(node, Array):
        raise InvalidArgumentError("source: with target_region it has to be an array, found a group")
    else:
        place = options["target_region"] = copy_region(target_region, "target_region") or []
        found = _native.outline_copy_into(node._handle, target._handle, place, directory, crew, wanted)
    arrays = tuple(_array(array) for array in found["arrays"])
    return CopyPlan(
        source=location,
        destination=destination,
        arrays=arrays,
        groups=found["groups"],
        documents=tuple(found["documents"]),
        task_bytes=max(least, -(-sum(array.bytes for array in arrays) // _MOST_TASKS)),
        options=json.dumps(options),
        notes=tuple(found["notes"]),
        skipped=tuple(found["skipped"]),
        differs=tuple(found["differs"]),
        overwrite=bool(overwrite),
        is_into=target is not None,
        storage_options=storage_options,
    )


def _is_remote(place: str) -> bool:
    return _native.takes_storage_options(place)


def _location(place: StoreLike) -> str:
    """A path or URL that means the same in another process of any directory."""
    if isinstance(place, LocalStore):
        return str(place.root)
    if isinstance(place, Store):
        return _url(place)
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
    if not isinstance(place, str):
        raise UnsupportedError(
            f"other processes cannot reach a {type(place).__name__}: give a path, or the URL of a server"
        )
    return place if "://" in place or place.startswith("zip:") else os.path.abspath(place)  # noqa: PTH100


def _location_of_node(node: Array | Group) -> str:
    store = node.store
    base = str(store.path) if isinstance(store, FileStore) else _location(store)
    return f"{base.rstrip('/')}/{node.path}" if node.path else base


def _url(store: Store) -> str:
    if store.url.startswith("memory:"):
        raise UnsupportedError(
            "other processes cannot reach what is in the memory of this one: use hyperslab.copy"
        )
    if store._native.has_secret_url:
        raise UnsupportedError("the URL has a secret in it: pass the URL without it, and storage_options")
    return store.url
