"""Plans of copies that a cluster executes: stages of idempotent tasks.

The engine makes plans, and cuts them into tasks. `CopyPlan` shows the engine's plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hyperslab import _native
from hyperslab._base.progress import show_progress
from hyperslab._copy.stages import CopyArray, CopyPass, CopyStage
from hyperslab._stores.store import StorePath
from hyperslab.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from hyperslab._copy.run import CopyRun, Progress

__all__ = ["CopyPlan", "CopyPrices", "plan_of"]


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

    _native: _native.TaskPlan = field(kw_only=True, repr=False, compare=False)
    """The same plan, as the engine takes it."""

    @property
    def id(self) -> str:
        """An identifier of the copy, from source, destination, metadata and options."""
        return self._native.id

    @cached_property
    def _sums(self) -> dict[str, Any]:
        return self._native.sums()

    @property
    def depth(self) -> int:
        """The number of passes of the array with the most passes."""
        return int(self._sums["depth"])

    @cached_property
    def stages(self) -> tuple[CopyStage, ...]:
        """The stages in order. Each begins when all tasks of the previous stage are done.

        After the last stage, the metadata is written and the copy is moved to its place.
        """
        return tuple(CopyStage(self._native, number) for number in range(self.depth))

    @cached_property
    def verification(self) -> CopyStage:
        """The tasks that compare copy and source if `run` verifies."""
        return CopyStage(self._native, self.depth)

    @property
    def tasks(self) -> int:
        """Number of tasks in all stages."""
        return int(self._sums["tasks"])

    @property
    def bytes(self) -> int:
        """Bytes of all elements in memory."""
        return int(self._sums["bytes"])

    @property
    def bytes_read(self) -> int:
        """Maximum bytes to read."""
        return int(self._sums["bytes_read"])

    @property
    def bytes_written(self) -> int:
        """Maximum bytes to write, including temporary arrays."""
        return int(self._sums["bytes_written"])

    @property
    def chunks(self) -> int:
        """Number of chunks of the source."""
        return int(self._sums["chunks"])

    @property
    def chunks_decoded(self) -> int:
        """Number of source chunks to decode; a chunk shared by tasks counts once per task."""
        return int(self._sums["chunks_decoded"])

    @property
    def memory(self) -> int:
        """Maximum memory of a task in bytes."""
        return int(self._sums["memory"])

    @property
    def gets(self) -> int:
        """Estimated number of requests that read from a server."""
        return int(self._sums["gets"])

    @property
    def puts(self) -> int:
        """Estimated number of requests that write to a server, also to the journal."""
        return int(self._sums["puts"])

    @property
    def dollars(self) -> float:
        """Estimated price of the requests and of temporary arrays on a server, by `prices`."""
        return float(self._sums["dollars"])

    @property
    def hours(self) -> float:
        """Estimated hours until all workers have finished, by the costs that the planner uses."""
        return float(self._sums["hours"])

    @property
    def temporary_bytes(self) -> int:
        """Bytes of temporary arrays, beside the destination or on its server."""
        return int(self._sums["temporary_bytes"])

    def to_json(self) -> str:
        """Return the plan as text for `from_json`, without `storage_options`."""
        if self.session is not None:
            raise UnsupportedError("a plan into a session has no text: the session is in this process")
        return self._native.to_json()

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
        return plan_of(_native.TaskPlan(text), storage_options)

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
        with show_progress(progress) as callback:
            if self.session is not None:
                from hyperslab._copy.sessions import run_in_session

                return run_in_session(self, executor, resume, verify, retries, threads, in_flight, callback)
            return run(
                self, executor, resume, check == "contents", verify, retries, threads, in_flight, callback
            )

    def discard(self) -> bool:
        """Delete what an unfinished run left: journal, temporary arrays and copied chunks.

        Returns True if there was anything to delete. A finished copy stays. A journal of another
        plan is refused.
        """
        from hyperslab._copy.run import discard

        return discard(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._native.to_json(), self.storage_options, self.source_store, self.session)

    def __str__(self) -> str:
        return str(self._native)


def plan_of(
    plan: _native.TaskPlan,
    storage_options: Mapping[str, Any] | None = None,
    source_store: Any = None,
    session: StorePath | None = None,
) -> CopyPlan:
    """Show a plan of the engine."""
    facts = json.loads(plan.to_json())
    for name in ("hyperslab copy plan", "documents_bytes", "documents"):
        del facts[name]

    def values(facts: dict[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}

    passes, reasons = [CopyPass(**values(each)) for each in facts.pop("passes")], facts.pop("reasons")
    # Most arrays of a group have equal shapes: keep each once.
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}

    def array(facts: dict[str, Any]) -> CopyArray:
        given = values(facts)
        for name in ("from_start", "to_start", "shape"):
            given[name] = shapes.setdefault(given[name], given[name])
        given["passes"] = tuple(passes[number] for number in given["passes"])
        given["compare"] = passes[given["compare"]]
        for name in ("why", "advice"):
            given[name] = reasons[given[name]]
        return CopyArray(**given)

    arrays, prices = tuple(map(array, facts.pop("arrays"))), CopyPrices(**facts.pop("prices"))
    skipped = tuple(map(tuple, facts.pop("skipped")))
    return CopyPlan(
        **values(facts),
        arrays=arrays,
        documents=tuple(plan.documents),
        prices=prices,
        skipped=skipped,
        storage_options=storage_options,
        source_store=source_store,
        session=session,
        _native=plan,
    )


def _unpickled(text: str, *others: Any) -> CopyPlan:
    return plan_of(_native.TaskPlan(text), *others)
