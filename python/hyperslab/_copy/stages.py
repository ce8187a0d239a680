"""Stages of a copy plan: passes over arrays, and the tasks into which they are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from hyperslab import _native

__all__ = ["CopyArray", "CopyPass", "CopyStage", "CopyTask"]


@dataclass(frozen=True, slots=True)
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
    gets: int = 0
    """Estimated number of requests that read from a server."""
    puts: int = 0
    """Estimated number of requests that write to a server."""
    dollars: float = 0.0
    """Estimated price of these requests, and of temporary arrays while the pass runs."""


@dataclass(frozen=True, slots=True)
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
    advice: str = ""
    """A change that would make the copy ten times cheaper, if there is one."""


@dataclass(frozen=True)
class CopyTask:
    """A set of units of one or several arrays."""

    stage: int
    """Number of the stage."""
    number: int
    """Number of the task in the stage."""
    parts: tuple[tuple[int, int, int, int], ...]
    """Per array: its number, the pass (-1: `CopyArray.compare`), and the start and end of units."""


class CopyStage(Sequence[CopyTask]):
    """Tasks that may run concurrently and in any order. Each is computed on access."""

    def __init__(self, plan: _native.TaskPlan, number: int) -> None:
        self._plan, self._number = plan, number
        self._len = plan.stage_len(number)

    @property
    def number(self) -> int:
        """Number of the stage."""
        return self._number

    def elements(self, first: int, end: int) -> float:
        """Return the bytes of elements that a range of tasks copies, as a share of all passes."""
        return self._plan.elements(self._number, first, end)

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
        return CopyTask(self._number, number, tuple(self._plan.task(self._number, number)))

    def __iter__(self) -> Iterator[CopyTask]:
        return (self[number] for number in range(self._len))

    def __repr__(self) -> str:
        return f"<CopyStage {self._number}: {self._len} tasks>"
