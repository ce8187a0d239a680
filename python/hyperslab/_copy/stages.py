"""Stages of a copy plan: passes over arrays, and the tasks into which they are cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from hyperslab._copy.plan import CopyPlan

__all__ = ["CopyArray", "CopyPass", "CopyStage", "CopyTask"]

# Maximum number of arrays that share a task: opening one takes about a millisecond.
_MOST_ARRAYS: Final = 256


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


@dataclass(frozen=True, slots=True)
class _Run:
    """Several tasks of one array, or one task for several arrays."""

    first: int
    parts: tuple[tuple[int, int, int], ...]
    """Per array: its number, the pass, and the number of units."""
    each: int = 0
    """Units of a task; 0: all units of all arrays are one task."""

    @property
    def end(self) -> int:
        return self.first + (-(-self.parts[0][2] // self.each) if self.each else 1)


class TaskParts:
    """The parts of some tasks, computed from the tasks' numbers."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._runs = runs

    def __getitem__(self, number: int) -> tuple[tuple[int, int, int, int], ...]:
        run = self._runs[self._find(number)]
        if not run.each:
            return tuple((index, of, 0, units) for index, of, units in run.parts)
        ((index, of, units),) = run.parts
        first = (number - run.first) * run.each
        return ((index, of, first, min(first + run.each, units)),)

    def _find(self, number: int) -> int:
        return bisect_right(self._runs, number, key=lambda run: run.first) - 1

    def of(self, first: int, end: int) -> TaskParts:
        """Return the parts of a range of tasks only."""
        return TaskParts(self._runs[self._find(first) : self._find(end - 1) + 1])

    def arrays(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of all arrays and their passes."""
        return (part[:2] for run in self._runs for part in run.parts)

    def units(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield array, pass and number of units of a range of tasks, without a step for each task."""
        for run in self._runs[self._find(first) : self._find(end - 1) + 1]:
            if not run.each:
                yield from run.parts
                continue
            ((index, of, units),) = run.parts
            start, stop = max(first, run.first) - run.first, min(end, run.end) - run.first
            yield index, of, min(stop * run.each, units) - start * run.each


class CopyStage(Sequence[CopyTask]):
    """Tasks that may run concurrently and in any order. Each is computed on access."""

    def __init__(self, plan: CopyPlan, number: int) -> None:
        self._plan, self._number = plan, number
        runs = self._cut()
        self._len = runs[-1].end if runs else 0
        self.parts = TaskParts(runs)

    def _cut(self) -> list[_Run]:
        plan, runs, count = self._plan, list[_Run](), 0
        group: list[tuple[int, int, int]] = []
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
                runs.append(_Run(count, ((index, number, units),), each))
                count = runs[-1].end
                continue
            if array.bytes > room or len(group) == _MOST_ARRAYS:
                close()
                room = plan.task_bytes
            group.append((index, number, units))
            room -= array.bytes
        close()
        return runs

    @property
    def number(self) -> int:
        """Number of the stage."""
        return self._number

    def elements(self, first: int, end: int) -> float:
        """Return the bytes of elements that a range of tasks copies, as a share of all passes."""
        done = 0.0
        for index, number, units in self.parts.units(first, end):
            array = self._plan.arrays[index]
            share = 1 if number < 0 else len(array.passes)
            done += array.bytes / share * units / array.one(number).units
        return done

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
        return CopyTask(self._number, number, self.parts[number])

    def __iter__(self) -> Iterator[CopyTask]:
        return (self[number] for number in range(self._len))

    def __repr__(self) -> str:
        return f"<CopyStage {self._number}: {self._len} tasks>"
