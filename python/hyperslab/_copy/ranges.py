"""Ranges of tasks: executors get them, the journal records them, and clients look for gaps.

A stage may have 10⁷ tasks. Executors get ranges of them, and the journal has one record for a range.
This bounds the memory of the client, the number of calls, and the size of the journal. A range
carries the descriptions of its arrays: workers never read the plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hyperslab._copy.stages import CopyStage, TaskParts
from hyperslab._core.arguments import CopyPart

if TYPE_CHECKING:
    from hyperslab._copy.plan import CopyPlan

__all__ = ["ArrayPass", "Descriptions", "Spans", "TaskRange", "TaskRanges", "ranges_of"]

# A stage has at most this many ranges. Handing out one takes about 0.2 ms, and its record in the
# journal takes 100 bytes.
_MOST_RANGES: Final = 50_000


class ArrayPass(NamedTuple):
    """One pass over an array, as workers need to know it."""

    path: str
    """Path of the array relative to the source."""
    part: CopyPart
    """The pass as the engine takes it, without units."""


@dataclass(frozen=True, slots=True)
class TaskRange:
    """A range of tasks of one stage, as sent to a worker."""

    stage: int
    first: int
    end: int
    parts: TaskParts
    """The parts of the tasks."""
    arrays: Mapping[tuple[int, int], ArrayPass]
    """By number of the array, and of the pass."""
    records: frozenset[str] = frozenset()
    """Records in the journal, if the worker checks whether the range is done."""


class Descriptions:
    """Describes the arrays of a plan for workers. ``place``: where the copy is made."""

    def __init__(self, plan: CopyPlan, place: Any) -> None:
        self._plan, self._place = plan, place
        self._documents = dict(plan.documents)

    def range(self, stage: CopyStage, first: int, end: int, records: Iterable[str] = ()) -> TaskRange:
        parts = stage.parts.of(first, end)
        arrays = {key: self._array_pass(*key) for key in parts.arrays()}
        return TaskRange(stage.number, first, end, parts, arrays, frozenset(records))

    def _array_pass(self, index: int, number: int) -> ArrayPass:
        array = self._plan.arrays[index]
        one = array.one(number)
        prefix = f"{array.path}/" if array.path else ""
        v3 = self._documents.get(f"{prefix}zarr.json")
        part: CopyPart = {
            "path": self._place.data(array.path),
            "zarr_format": 2 if v3 is None else 3,
            "document": v3 or self._documents[f"{prefix}.zarray"],
            "from": self._temporary_array(index, number - 1) if number >= 0 else None,
            "to": self._temporary_array(index, number),
            "from_start": array.from_start,
            "to_start": array.to_start,
            "shape": array.shape,
            "is_new": not self._plan.is_into,
            "is_fresh": False,
            "block": one.block,
            "parts": one.parts,
            "units": (0, 0),
            "threads": one.threads,
            "requests": one.requests,
        }
        return ArrayPass(array.path, part)

    def _temporary_array(self, index: int, number: int) -> tuple[str, tuple[int, ...]] | None:
        """Return the temporary array that a pass writes, or ``None`` if it writes none."""
        array = self._plan.arrays[index]
        if not 0 <= number < len(array.passes) - 1:
            return None
        stage = self._plan.depth - len(array.passes) + number
        return self._place.temporary(f"{stage}/{index}"), array.passes[number].target_chunk


def _tasks_of_range(stage: CopyStage) -> int:
    return max(-(-len(stage) // _MOST_RANGES), 1)


def ranges_of(stage: CopyStage) -> int:
    """Return the number of ranges of a stage, and of their records in the journal."""
    return -(-len(stage) // _tasks_of_range(stage))


class TaskRanges(Sequence[TaskRange]):
    """The ranges of a stage that are left to do. Each is made on access."""

    def __init__(self, stage: CopyStage, done: Spans, descriptions: Descriptions) -> None:
        self._stage, self._descriptions = stage, descriptions
        self._each = _tasks_of_range(stage)
        self._gaps = list(done.gaps(len(stage)))
        # The number of the first range in each gap.
        self._numbers, self._len = list[int](), 0
        for first, end in self._gaps:
            self._numbers.append(self._len)
            self._len += -(-(end - first) // self._each)

    @property
    def tasks(self) -> int:
        """Number of tasks in all ranges."""
        return sum(end - first for first, end in self._gaps)

    def bounds(self, index: int) -> tuple[int, int]:
        gap = bisect_right(self._numbers, index) - 1
        first, end = self._gaps[gap]
        start = first + (index - self._numbers[gap]) * self._each
        return start, min(start + self._each, end)

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, index: Any) -> Any:
        return self._descriptions.range(self._stage, *self.bounds(index))

    def __iter__(self) -> Iterator[TaskRange]:
        return (self[index] for index in range(self._len))


class Spans:
    """A set of numbers, kept as ranges that do not touch."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._spans = list[tuple[int, int]]()
        for first, end in sorted(spans):
            if self._spans and first <= self._spans[-1][1]:
                self._spans[-1] = self._spans[-1][0], max(end, self._spans[-1][1])
            else:
                self._spans.append((first, end))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._spans)

    def __len__(self) -> int:
        """Return how many numbers are in the set."""
        return sum(end - first for first, end in self._spans)

    def gaps(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges below ``end`` that are not in the set."""
        at = 0
        for first, last in self._spans:
            if at < first:
                yield at, first
            at = last
        if at < end:
            yield at, end
