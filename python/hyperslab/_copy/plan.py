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

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from hyperslab._base.progress import show_progress
from hyperslab._copy.locations import (
    is_remote,
)
from hyperslab._copy.ranges import ranges_of
from hyperslab._copy.stages import CopyArray, CopyPass, CopyStage
from hyperslab._copy.text import lines
from hyperslab._stores.store import StorePath
from hyperslab.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from hyperslab._copy.run import CopyRun, Progress

__all__ = ["CopyPlan", "CopyPrices", "difference", "made_arrays"]

T = TypeVar("T")

VERSION: Final = 3

# Maximum bytes of the documents of a plan that is text: enough for ten million arrays.
_MOST_TEXT: Final = 1 << 33


@dataclass(frozen=True)
class CopyPrices:
    """Prices of a copy between servers, in dollars. By default the prices of S3 Standard.

    `plan_copy` chooses the cheapest plan by these prices, and prints what it costs.

    Examples
    --------
    >>> import hyperslab as hs, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> z = hs.create_array(f"{folder}/a.zarr", data=[1, 2, 3])
    >>> hs.plan_copy(z, f"{folder}/b.zarr", prices=hs.CopyPrices(storage=0.023)).dollars
    0.0
    """

    put: float = 0.005
    """1000 requests that write or list."""
    get: float = 0.0004
    """1000 requests that read."""
    storage: float = 0.0
    """1 GB in temporary arrays for a month. S3 Standard: 0.023."""
    egress: float = 0.0
    """1 GB that is read from a server. Out of a region of S3: 0.09."""
    worker: float = 0.05
    """One worker for an hour."""

    def __post_init__(self) -> None:
        for each in fields(self):
            price = getattr(self, each.name)
            if not isinstance(price, (int, float)) or not 0 <= price < 1e9:
                raise InvalidArgumentError(f"prices: {each.name}: expected dollars, found {price!r}")


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
    source_format: Literal[2, 3] | None = None
    """The Zarr format of the source; ``None``: it is no Zarr."""
    workers: int = 8
    """Number of tasks that run at a time."""
    prices: CopyPrices = field(default=CopyPrices(), repr=False)
    """Prices of requests and workers."""
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """Server options. They may be secret: they are pickled, but not in `to_json`."""
    source_store: Any = field(default=None, repr=False, compare=False)
    """The source, if it is in a session of Icechunk. Not in `to_json`."""
    session: StorePath | None = field(default=None, repr=False, compare=False)
    """The destination, if it is in a session of Icechunk. Such a plan stays in this process."""
    sources: tuple[str, ...] = field(default=(), repr=False)
    """The paths or URLs of sources that are joined, in their order."""
    concat: str | None = None
    """The dimension along which they are joined."""
    lengths: tuple[int, ...] = field(default=(), repr=False)
    """Their lengths along it."""

    @cached_property
    def id(self) -> str:
        """An identifier of the copy, from source, destination, metadata and options."""
        said = [VERSION, self.source, self.destination, self.task_bytes, self.options]
        if self.concat is not None:
            said += [self.concat, *self.sources, *self.lengths]
        found = hashlib.sha256(json.dumps(said).encode())
        for document in self.documents:
            found.update(json.dumps(document).encode())
        return found.hexdigest()

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
    def gets(self) -> int:
        """Estimated number of requests that read from a server."""
        return self._sum("gets") + self._looks

    @property
    def puts(self) -> int:
        """Estimated number of requests that write to a server, also to the journal."""
        return self._sum("puts") + self._records

    @property
    def _records(self) -> int:
        """Number of records in a journal on a server."""
        return sum(map(ranges_of, self.stages)) if is_remote(self.destination) else 0

    @property
    def _looks(self) -> int:
        """Number of looks at a journal on a server: before and after each record."""
        return 2 * self._records

    @property
    def dollars(self) -> float:
        """Estimated price of the requests and of temporary arrays on a server, by `prices`."""
        passes = sum(each.dollars for array in self.arrays for each in array.passes)
        return passes + (self._records * self.prices.put + self._looks * self.prices.get) / 1000

    @property
    def hours(self) -> float:
        """Estimated hours until all workers have finished, by the costs that the planner uses."""
        total = 0.0
        for stage in self.stages:
            seconds = sum(self.arrays[index].one(number).seconds for index, number in stage.parts.arrays())
            rounds = -(-len(stage) // self.workers)
            total += seconds * rounds / max(len(stage), 1)
        return total / 3600

    @property
    def temporary_bytes(self) -> int:
        """Bytes of temporary arrays, beside the destination or on its server."""
        return sum(array.bytes * (len(array.passes) - 1) for array in self.arrays)

    def to_json(self) -> str:
        """Return the plan as text for `from_json`, without `storage_options`."""
        if self.session is not None:
            raise UnsupportedError("a plan into a session has no text: the session is in this process")
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        del facts["storage_options"], facts["source_store"], facts["session"]
        # Equal passes and reasons are said once, and documents are compressed.
        passes, reasons = _Numbers[CopyPass](), _Numbers[str]()
        facts["arrays"] = [
            {
                **{
                    name: getattr(array, name)
                    for name in ("path", "bytes", "from_start", "to_start", "shape")
                },
                "why": reasons.number(array.why),
                "advice": reasons.number(array.advice),
                "passes": [passes.number(each) for each in array.passes],
                "compare": passes.number(array.compare),
            }
            for array in self.arrays
        ]
        facts["passes"] = [{name.name: getattr(each, name.name) for name in fields(each)} for each in passes]
        facts["reasons"] = list(reasons)
        facts["prices"] = {each.name: getattr(self.prices, each.name) for each in fields(self.prices)}
        documents = zlib.compress(json.dumps(self.documents).encode())
        facts["documents"] = base64.b64encode(documents).decode()
        return json.dumps({"hyperslab copy plan": VERSION, **facts}, separators=(",", ":"))

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
            facts["arrays"] = made_arrays(facts.pop("arrays"), facts.pop("passes"), facts.pop("reasons"))
            facts["documents"] = _documents(facts["documents"])
            facts["skipped"] = tuple(tuple(pair) for pair in facts["skipped"])
            facts["prices"] = CopyPrices(**facts["prices"])
            for name in ("notes", "differs", "sources", "lengths"):
                facts[name] = tuple(facts.get(name, ()))
            return cls(**{**facts, "storage_options": storage_options})
        except (TypeError, KeyError, IndexError, ValueError, AttributeError, zlib.error) as error:
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


class _Numbers(dict[T, int]):
    """Numbers values in the order in which they come; equal values have one number."""

    def number(self, value: T) -> int:
        return self.setdefault(value, len(self))


def made_arrays(
    arrays: Iterable[dict[str, Any]], passes: Iterable[dict[str, Any]], reasons: Sequence[str]
) -> tuple[CopyArray, ...]:
    """Make the arrays from facts that refer to passes and reasons by number."""

    def one_pass(facts: dict[str, Any]) -> CopyPass:
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
        return CopyPass(**values)

    made = [one_pass(facts) for facts in passes]
    # Most arrays of a group have equal shapes: keep each once.
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}

    def one(facts: dict[str, Any]) -> CopyArray:
        tuples = {name: tuple(facts[name]) for name in ("from_start", "to_start", "shape")}
        return CopyArray(
            **{
                **facts,
                **{name: shapes.setdefault(each, each) for name, each in tuples.items()},
                "why": reasons[facts["why"]],
                "advice": reasons[facts["advice"]],
                "passes": tuple(made[number] for number in facts["passes"]),
                "compare": made[facts["compare"]],
            }
        )

    return tuple(one(facts) for facts in arrays)


def _documents(text: str) -> tuple[tuple[str, str], ...]:
    unpack = zlib.decompressobj()
    found = unpack.decompress(base64.b64decode(text), _MOST_TEXT)
    if unpack.unconsumed_tail:
        raise ValueError(f"the documents have more than {_MOST_TEXT} bytes")
    return tuple((str(key), str(document)) for key, document in json.loads(found))


def difference(wanted: CopyPlan, text: bytes) -> str:
    """Describe the difference between two plans."""
    try:
        found = CopyPlan.from_json(text.decode())
    except ValueError as error:
        return str(error)
    if found.source != wanted.source:
        return f"of {found.source}, not of {wanted.source}"
    if found.options != wanted.options or found.task_bytes != wanted.task_bytes:
        ours, theirs = json.loads(wanted.options), json.loads(found.options)
        names = [f"{name}: {theirs.get(name)!r}" for name in ours if ours[name] != theirs.get(name)]
        return "with other options: " + (", ".join(names) or f"task_size: {found.task_bytes}")
    return "its source had other metadata"
