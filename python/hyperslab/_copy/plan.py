"""Plans of copies that a cluster executes: stages of idempotent tasks.

A plan consists of numbers and the metadata documents of the copy. Tasks are not listed: each is
computed from its number.

1. For each array, the engine decides the passes and cuts each pass into units: blocks that own
   whole shards (or chunks) of the pass's target.
2. A task is a range of units, long enough to be worth its overhead. Arrays smaller than a task
   share one.
3. The last passes of all arrays form the last stage. The passes before them, which write temporary
   arrays, form the stage before it, and so on.
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
from hyperslab._base.progress import show_progress
from hyperslab._copy.copy import RegionLike, check_into, copy_region, existing_target, wanted_copy
from hyperslab._copy.text import lines
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create.open import open
from hyperslab._stores.store import FileStore, LocalStore, Store, StoreLike, StorePath, resolve_store
from hyperslab._stores.zarr import ZarrStore, is_zarr_store
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

# A plan has at most about this many tasks. With more, handing them out becomes the bottleneck.
_MOST_TASKS: Final = 100_000

# Maximum number of arrays that share a task: opening one takes about a millisecond.
_MOST_ARRAYS: Final = 256


@dataclass(frozen=True)
class CopyPass:
    """One walk over an array: source or temporary array to temporary array or copy."""

    source_chunk: tuple[int, ...]
    """Chunk shape of the array that is read."""
    target_chunk: tuple[int, ...]
    """Chunk shape of the array that is written."""
    target_object: tuple[int, ...]
    """Shape of the elements in one written object: a shard or a chunk."""
    block: tuple[int, ...]
    """Shape of a block: the elements in memory at a time."""
    parts: tuple[int, ...]
    """Blocks per axis of a unit: more than one if a block is a part of a shard."""
    units: int
    """Number of units. Each unit owns whole objects."""
    independent: bool
    """True if units share no object. If False, one task does all of them."""
    chunks: int
    """Number of source chunks."""
    decoded: int
    """Number of source chunks to decode, counting repetitions."""
    objects: int
    """Number of objects to write."""
    read: int
    """Maximum bytes to read."""
    written: int
    """Maximum bytes to write."""
    memory: int
    """Maximum memory of a task in bytes."""
    threads: int
    """Maximum threads of a task."""
    seconds: float
    """Estimated seconds in one process, by the costs that the planner uses."""
    requests: int = 1
    """Maximum requests of a task to a destination on a server at a time."""


@dataclass(frozen=True)
class CopyArray:
    """How an array is copied."""

    path: str
    """Path relative to the source."""
    bytes: int
    """Bytes of all elements in memory."""
    why: str
    """The reason for using temporary arrays, or none."""
    passes: tuple[CopyPass, ...]
    """The passes: one, or more with temporary arrays in between."""
    compare: CopyPass = field(repr=False)
    """The walk that compares source and copy during verification."""
    from_start: tuple[int, ...]
    """Index of the first source element to copy."""
    to_start: tuple[int, ...]
    """Index of the first element to write in the copy."""
    shape: tuple[int, ...]
    """Shape of the copied elements."""

    def one(self, number: int) -> CopyPass:
        """Return a pass by its number; -1: `compare`."""
        return self.compare if number < 0 else self.passes[number]


@dataclass(frozen=True)
class CopyTask:
    """A set of units of one or several arrays."""

    stage: int
    """Number of the stage."""
    number: int
    """Number of the task in the stage."""
    parts: tuple[tuple[int, int, int, int], ...]
    """Per array: its number, the pass (-1: `CopyArray.compare`), and the start and end of units."""


@dataclass(frozen=True)
class _Run:
    """Several tasks of one array, or one task for several arrays."""

    first: int
    parts: tuple[tuple[int, int], ...]
    units: int = 0
    each: int = 0


class CopyStage(Sequence[CopyTask]):
    """Tasks that may run concurrently and in any order. Each is computed on access."""

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
        """Number of the stage."""
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
    """A plan for a copy by many processes. Made by `plan_copy`.

    Plans are small and picklable, and can be text (`to_json`). ``print(plan)`` shows the reads,
    decodes and writes.
    """

    source: str
    """Path or URL of the source."""
    destination: str
    """Path or URL of the destination."""
    arrays: tuple[CopyArray, ...]
    """The plan for each array."""
    groups: int
    """Number of groups."""
    documents: tuple[tuple[str, str], ...] = field(repr=False)
    """Metadata documents of the copy: keys and texts."""
    task_bytes: int
    """Minimum bytes of elements that a task copies."""
    options: str
    """The requested options, as JSON."""
    notes: tuple[str, ...] = ()
    """Differences from the source that the caller did not ask for."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Paths of nodes that cannot be copied, each with the reason."""
    differs: tuple[str, ...] = ()
    """Differences in meaning from the source's metadata. Verification fails if there are any."""
    overwrite: bool = False
    """True if an existing node at the destination is replaced."""
    is_into: bool = False
    """True if the copy goes into a region of an existing array."""
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Server options. They may be secret: they are pickled, but not in `to_json`."""
    source_store: Any = field(default=None, repr=False, compare=False)
    """The source, if it is in a session of Icechunk. Not in `to_json`."""
    session: StorePath | None = field(default=None, repr=False, compare=False)
    """The destination, if it is in a session of Icechunk. Such a plan stays in this process."""

    @cached_property
    def id(self) -> str:
        """An identifier of the copy, from source, destination, metadata and options."""
        said = [VERSION, self.source, self.destination, self.documents, self.task_bytes, self.options]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    @cached_property
    def depth(self) -> int:
        """The number of passes of the array with the most passes."""
        return max((len(array.passes) for array in self.arrays), default=0)

    @cached_property
    def stages(self) -> tuple[CopyStage, ...]:
        """The stages in order. Each begins when all tasks of the previous stage are done.

        After the last stage, the metadata is written and the copy is moved to its place.
        """
        return tuple(CopyStage(self, number) for number in range(self.depth))

    @cached_property
    def verification(self) -> CopyStage:
        """The tasks that compare copy and source if `run` verifies."""
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
        """Maximum bytes to read."""
        return self._sum("read")

    @property
    def bytes_written(self) -> int:
        """Maximum bytes to write, including temporary arrays."""
        return self._sum("written")

    @property
    def chunks(self) -> int:
        """Number of chunks of the source."""
        return sum(array.passes[0].chunks for array in self.arrays)

    @property
    def chunks_decoded(self) -> int:
        """Number of source chunks to decode; a chunk shared by tasks counts once per task."""
        return sum(array.passes[0].decoded for array in self.arrays)

    @property
    def memory(self) -> int:
        """Maximum memory of a task in bytes."""
        return max((each.memory for array in self.arrays for each in array.passes), default=0)

    @property
    def temporary_bytes(self) -> int:
        """Bytes of temporary arrays beside the destination."""
        return sum(array.bytes * (len(array.passes) - 1) for array in self.arrays)

    def to_json(self) -> str:
        """Return the plan as text for `from_json`, without `storage_options`."""
        if self.session is not None:
            raise UnsupportedError("a plan into a session has no text: the session is in this process")
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        del facts["storage_options"], facts["source_store"], facts["session"]
        facts["arrays"] = [asdict(array) for array in self.arrays]
        return json.dumps({"hyperslab copy plan": VERSION, **facts})

    @classmethod
    def from_json(cls, text: str, *, storage_options: Mapping[str, Any] | None = None) -> CopyPlan:
        """Make a plan from the text of `to_json`.

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

        Until everything is copied, there is nothing to open at the destination. The processes that
        run tasks record finished work in a journal beside it. After an error, Ctrl-C, or a kill of
        any process, call this again with ``resume``.

        Parameters
        ----------
        executor : executor, optional
            Runs the tasks. ``None``: this process. Otherwise an executor of `concurrent.futures`
            (threads or processes), a `distributed.Client`, or the module ``ray``. All processes
            must reach source and destination by the same paths or URLs.
        resume : bool, default False
            Whether to continue an unfinished copy. A task is skipped if the objects it wrote are
            unchanged (see ``check``). Without a journal, everything is copied, with one exception.
            If the destination has the metadata of the copy and ``overwrite`` is not set, all
            elements are first compared with the source. If they are equal, nothing is copied. A
            journal of another plan is refused. If another run of this copy is still alive, it
            stops.
        check : {"stamps", "contents"}, default "stamps"
            How ``resume`` detects changed objects. ``"stamps"``: by size, and by modification time
            or object tag, some microseconds each. ``"contents"``: also by the checksums that tasks
            made of what they wrote. Tasks read all of it again. Use this for disks that you do not
            trust, and after a power failure.
        verify : bool, default False
            Whether to read the copy back and compare every bit with the source, by tasks, before
            the copy takes its place.
        retries : int, default 2
            How many times to rerun a failed task.
        threads : int, optional
            Threads per task. Default: as planned in this process. In a pool of workers: the
            processors of the machine divided by the workers. In tasks of dask and Ray: one.
        in_flight : int, optional
            Maximum number of tasks handed over at a time. Default: twice the workers.
        progress : callable, or True, optional
            Called as ``progress("copy" or "verify", bytes_done, bytes_in_all)``. ``True`` shows a
            bar on standard error.

        Returns
        -------
        CopyRun

        Raises
        ------
        DestinationError
            If something exists at the destination, or an unfinished copy is there. Also in a run
            that wakes up late, after another run has resumed or finished the copy.
        VerificationError
            If verification finds a different value. The copied data stay beside the destination.
            Find the cause, then call ``run(resume=True, check="contents", verify=True)`` or
            `discard`.

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
        with show_progress(progress) as told:
            if self.session is not None:
                from hyperslab._copy.sessions import run_in_session

                return run_in_session(self, executor, resume, verify, retries, threads, in_flight, told)
            return run(self, executor, resume, check == "contents", verify, retries, threads, in_flight, told)

    def discard(self) -> bool:
        """Delete what an unfinished run left: journal, temporary arrays and copied chunks.

        Returns True if there was anything to delete. A finished copy stays. A journal of another
        plan is refused.
        """
        from hyperslab._copy.run import discard

        return discard(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Leave out the cached properties.
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
    """Plan a copy by many processes, of an array or of a group with everything below it.

    Reads only metadata and writes nothing. The plan lists the tasks, what they read, decode and
    write, and their memory. `CopyPlan.run` executes it in this process, on an executor or on a
    cluster.

    Parameters
    ----------
    source : Array, Group, or store
        The node to copy, or a path or URL. All processes must reach it by that path or URL. Or a
        node in a session of Icechunk, with the session's changes so far.
    dest : store, or Array
        The destination: a path, or the URL of a server. Nothing may exist there, unless
        ``overwrite`` is set. With ``target_region``, an existing array. Or the store of a writable
        session of Icechunk, or a `StorePath` in it: commit the session yourself after the run.
    region, target_region
        As in `copy`. Any number of plans may work on one array at a time: regions begin and end at
        chunk boundaries, so they share no chunk.
    chunks, shards, compressors, order, zarr_format, skip_unsupported, consolidated
        As in `copy`.
    threads : int, optional
        Maximum threads per task. Default: ``config.threads``.
    max_memory : int or str, default "2 GiB"
        Approximate memory per task. A worker that runs several tasks at a time uses it several
        times.
    workers : int, default 8
        Number of tasks that run at a time. Blocks of a small array are made smaller than memory
        allows, so that each worker has one. This is done if it is faster, even though chunks are
        decoded more often.
    task_size : int or str, default "128 MiB"
        Minimum bytes of elements per task. Small tasks have more overhead; large tasks mean more
        work to redo when a worker dies. Above 12 TiB in total, tasks become larger, to keep their
        number below about 100 000.
    overwrite : bool, default False
        Whether to replace an array or group at the destination. On disk, the finished copy replaces
        it in one step. On a server, it is deleted when the run begins, metadata first.
    storage_options : mapping, optional
        Server options for ``source`` and ``dest`` if they are URLs of a server (see `open`). They
        are sent to workers, but not written to the journal.

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
    source_place, session = _session_place(source), _session_place(dest)
    if source_place is not None:
        source_place = _readable(source_place)
        location = _session_location(source_place)
        node = source if isinstance(source, (Array, Group)) else open(source_place, mode="r")
    else:
        location = _location_of_node(source) if isinstance(source, (Array, Group)) else _location(source)
        node = (
            source
            if isinstance(source, (Array, Group))
            else open(location, mode="r", storage_options=storage_options if _is_remote(location) else None)
        )
    target = None
    if target_region is not None:
        check_into(chunks, shards, compressors, order, overwrite, zarr_format)
        target = existing_target(dest, storage_options)
        destination = _location_of_node(target)
    elif isinstance(dest, Array):
        raise InvalidArgumentError("dest: to copy into an array that exists, say where: target_region")
    elif session is not None:
        destination = _session_location(session)
        if zarr_format == 2:
            raise UnsupportedError("zarr_format: sessions of Icechunk hold Zarr v3")
        zarr_format, consolidated = 3, False
    else:
        destination = _location(dest)
    wanted = wanted_copy(chunks, shards, compressors, order, zarr_format, threads, max_memory, region)
    wanted["overwrite"] = bool(overwrite)
    wanted["skip_unsupported"] = bool(skip_unsupported)
    wanted["consolidated"] = bool(consolidated)
    directory = None
    if session is None and not _is_remote(destination):
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
        source_store=source_place,
        session=session,
    )


def _session_place(place: Any) -> StorePath | None:
    """Return the place of something in a session of Icechunk; ``None`` for everything else."""
    path = ""
    if isinstance(place, (Array, Group, StorePath)):
        place, path = place.store, place.path
    if is_zarr_store(place):
        place = ZarrStore(place)
    if not isinstance(place, ZarrStore) or not hasattr(place.zarr_store, "session"):
        return None
    return StorePath(place, path)


def _readable(place: StorePath) -> StorePath:
    """Return the same place through a store that can be pickled, with the changes made so far."""
    session = place.store.zarr_store.session  # type: ignore[attr-defined]
    store = session.store if session.read_only else session.fork().store
    return StorePath(ZarrStore(store).with_read_only(), place.path)


def _session_location(place: StorePath) -> str:
    snapshot = place.store.zarr_store.session.snapshot_id  # type: ignore[attr-defined]
    return f"icechunk snapshot {snapshot}" + (f", /{place.path}" if place.path else "")


def _is_remote(place: str) -> bool:
    return _native.takes_storage_options(place)


def _location(place: StoreLike) -> str:
    """Return a path or URL that is valid in processes with other working directories."""
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
