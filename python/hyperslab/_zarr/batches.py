"""Combines zarr-python's requests to a codec pipeline, chunk by chunk, into one array selection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

__all__ = ["Batch", "Grid", "Unplanned", "plan_batch"]

# (byte getter, array spec, selection in the chunk, selection in the result, whether the chunk is
# complete)
Batch = Sequence[tuple[Any, Any, Any, Any, bool]]


class Unplanned(Exception):
    """The reason why a batch is not one selection of one array."""


class Steps(NamedTuple):
    """Chunks of equal length along an axis."""

    longest: int

    def start(self, at: int) -> int:
        """Return where a chunk begins."""
        return at * self.longest

    def length(self, at: int) -> int:
        """Return the length of a chunk."""
        return self.longest

    def end(self, extent: int, at: int) -> int:
        """Return the end of the last chunk, for ``extent`` elements and at least chunk ``at``."""
        return max(-(-extent // self.longest), at + 1) * self.longest


class Edges(NamedTuple):
    """Chunks along an axis, each with its own length."""

    ends: tuple[int, ...]

    @property
    def longest(self) -> int:
        return max(self.length(at) for at in range(len(self.ends)))

    def start(self, at: int) -> int:
        return self.ends[at - 1] if at else 0

    def length(self, at: int) -> int:
        return self.ends[at] - self.start(at)

    def end(self, extent: int, at: int) -> int:
        return self.ends[-1]

    def longer(self, lengths: dict[int, int]) -> Edges:
        """Return the axis with more chunks. Unknown lengths are assumed equal to the last one."""
        known = len(self.ends)
        more = (lengths.get(at, self.length(known - 1)) for at in range(known, max(lengths) + 1))
        return Edges((*self.ends[:-1], *itertools.accumulate(more, initial=self.ends[-1])))


class Grid(NamedTuple):
    """The naming of chunks by keys, and the lengths of chunks."""

    shape: tuple[int, ...]
    axes: tuple[Steps | Edges, ...]
    separator: str
    # True if keys begin with "c".
    has_c: bool

    @property
    def is_regular(self) -> bool:
        """True if all chunks have one shape."""
        return all(type(axis) is Steps for axis in self.axes)

    @property
    def key_parts(self) -> int:
        """Number of components that a key has after the path of the array."""
        if self.separator == "/":
            return max(len(self.axes) + self.has_c, 1)
        return 1

    def coordinates(self, key: str) -> tuple[int, ...]:
        """Return the coordinates of the chunk with this key."""
        if not self.axes:
            return ()
        parts = key.split(self.separator)
        return tuple(map(int, parts[1:] if self.has_c else parts))


@dataclass(slots=True)
class Planned:
    """A selection of the array that was planned for a batch."""

    meaning: Literal["orthogonal", "coordinates"]
    selection: tuple[Any, ...]
    # Shape of the selection.
    shape: tuple[int, ...]
    # The shape that the array needs for this selection: chunks at its edge must end where
    # zarr-python assumes.
    array_shape: tuple[int, ...]
    axes: tuple[Steps | Edges, ...]

    def count(self, chunk: tuple[int, ...]) -> int:
        """Return the maximum number of chunks of this shape that are touched."""
        counts = (_count_touched(*of_axis) for of_axis in zip(self.selection, chunk, strict=True))
        return max(counts, default=1) if self.meaning == "coordinates" else math.prod(counts)


def _count_touched(selected: Any, length: int) -> int:
    """Return the number of touched chunks along an axis. For a list, this is an upper bound."""
    if isinstance(selected, slice):
        if selected.step > length:
            return len(range(selected.start, selected.stop, selected.step))
        return int((selected.stop - 1) // length - selected.start // length + 1)
    return 1 if isinstance(selected, int) else len(selected)


def plan_batch(
    batch: Batch, grid: Grid, prefix: str, drop_axes: tuple[int, ...], *, write: bool = False
) -> Planned:
    """Return the batch as one selection of the array, with exactly the batch's elements.

    Raises `Unplanned` if there is none, or if the batch has an unexpected form.
    """
    if not grid.is_regular:
        grid = _grow_grid(batch, grid, prefix)
    found = None
    if not drop_axes and len(batch) == 1:
        found = _plan_one_chunk(batch[0], grid, prefix, write)
    elif not drop_axes and len(batch) > 4:
        found = _block(batch, grid, prefix, write)
    if found is not None:
        return found
    rank = len(grid.axes)
    items = []
    for getter, _, chunk, out, is_complete in batch:
        where = _coordinates(getter.path, grid, prefix)
        if type(chunk) is not tuple:
            chunk = (chunk,)
        if type(out) is not tuple:
            out = (out,)
        if len(chunk) != rank:
            raise Unplanned("a selection with another number of axes")
        items.append((where, chunk, out, is_complete))
    if rank > 1 and all(isinstance(axis, np.ndarray) and axis.ndim == 1 for axis in items[0][1]):
        return _points(items, grid)
    return _ranges(items, grid, drop_axes, write)


def _coordinates(path: str, grid: Grid, prefix: str) -> tuple[int, ...]:
    """Return the coordinates of the chunk at this path."""
    if not path.startswith(prefix):
        raise Unplanned("chunks of several arrays")
    try:
        where = grid.coordinates(path[len(prefix) :])
    except ValueError:
        raise Unplanned(f"the key {path!r}") from None
    if len(where) != len(grid.axes):
        raise Unplanned("a selection with another number of axes")
    return where


def _grow_grid(batch: Batch, grid: Grid, prefix: str) -> Grid:
    """Return the grid with the chunks that a resize added.

    zarr-python does not tell a pipeline about them, only the lengths of the chunks in a batch. The
    lengths of other chunks in between do not matter.
    """
    beyond: list[dict[int, int]] = [{} for _ in grid.axes]
    for getter, spec, *_ in batch:
        where = _coordinates(getter.path, grid, prefix)
        for axis, at, length, found in zip(grid.axes, where, spec.shape, beyond, strict=True):
            if isinstance(axis, Edges) and at >= len(axis.ends):
                found[at] = length
    if not any(beyond):
        return grid
    axes = (
        axis.longer(found) if isinstance(axis, Edges) and found else axis
        for axis, found in zip(grid.axes, beyond, strict=True)
    )
    return grid._replace(axes=tuple(axes))


def _plan_one_chunk(item: Any, grid: Grid, prefix: str, write: bool) -> Planned | None:
    """Plan a batch of one chunk, selected by numbers and ranges; ``None`` for other batches.

    For small requests planning is the slowest part, and this function halves the time.
    """
    getter, _, chunk, out, _ = item
    where = _coordinates(getter.path, grid, prefix)
    if type(chunk) is not tuple or type(out) is not tuple or len(chunk) != len(where):
        return None
    selection: list[Any] = []
    shape: list[int] = []
    is_inside = True
    for at, axis, picked, extent in zip(where, grid.axes, chunk, grid.shape, strict=True):
        first, length = axis.start(at), axis.length(at)
        is_inside = is_inside and first + length <= extent
        if type(picked) is int:
            selection.append(first + picked)
            continue
        if type(picked) is not slice or len(shape) == len(out):
            return None
        start, stop, step = picked.indices(length)
        count, target = len(range(start, stop, step)), out[len(shape)]
        if step < 1 or count == 0 or target != slice(0, count):
            return None
        first += start
        selection.append(slice(first, first + (count - 1) * step + 1, step))
        shape.append(count)
    if len(shape) != len(out) or (write and not is_inside):
        return None
    array_shape = grid.shape if is_inside else _whole_chunks(grid, where)
    return Planned("orthogonal", tuple(selection), tuple(shape), array_shape, grid.axes)


def _block(batch: Batch, grid: Grid, prefix: str, write: bool) -> Planned | None:
    """Plan a batch of a block of chunks in C order, selected by numbers and ranges.

    Most batches are like this. Returns ``None`` for others. For hundreds of chunks, this function
    takes a fifth of the time of the general way.
    """
    try:
        skip = len(prefix)
        first = grid.coordinates(batch[0][0].path[skip:])
        last = grid.coordinates(batch[-1][0].path[skip:])
    except ValueError:
        return None
    if not len(first) == len(last) == len(grid.axes) > 0:
        return None
    counts = [b - a + 1 for a, b in zip(first, last, strict=True)]
    if min(counts) < 1 or math.prod(counts) != len(batch) or (write and not _is_inside(last, grid)):
        return None
    names: list[list[str]] = []
    chunks: list[list[Any]] = []
    outs: list[list[Any]] = []
    selection: list[Any] = []
    shape: list[int] = []
    stride = len(batch)
    for number, (at, count, axis) in enumerate(zip(first, counts, grid.axes, strict=True)):
        stride //= count
        some = batch[: stride * count : stride]
        try:
            picked = [item[2][number] for item in some]
            places = [item[3][len(outs)] for item in some] if type(picked[0]) is slice else []
        except (TypeError, IndexError):
            return None
        if type(picked[0]) is slice:
            if not all(type(part) is slice for part in (*picked, *places)):
                return None
            spans = dict(zip(range(at, at + count), zip(picked, places, strict=True), strict=True))
            found = _range(spans, axis)
            if found is None:
                return None
            selection.append(found[0])
            shape.append(found[1])
            outs.append(places)
        elif type(picked[0]) is int and count == 1:
            selection.append(axis.start(at) + picked[0])
        else:
            return None
        chunks.append(picked)
        names.append(list(map(str, range(at, at + count))))
    names[0] = [f"{prefix}{'c' + grid.separator if grid.has_c else ''}{name}" for name in names[0]]
    keys = map(grid.separator.join, itertools.product(*names))
    try:
        if (
            [item[0].path for item in batch] != list(keys)
            or [item[2] for item in batch] != list(itertools.product(*chunks))
            or [item[3] for item in batch] != list(itertools.product(*outs))
        ):
            return None
    except ValueError:
        # Comparing lists of indices is ambiguous: the batch is of another kind.
        return None
    array_shape = grid.shape if _is_inside(last, grid) else _whole_chunks(grid, last)
    return Planned("orthogonal", tuple(selection), tuple(shape), array_shape, grid.axes)


def _points(items: list[Any], grid: Grid) -> Planned:
    """Plan coordinates of points, some of them in each chunk."""
    count = sum(len(chunk[0]) for _, chunk, _, _ in items)
    lists = [np.empty(count, np.intp) for _ in grid.axes]
    filled = np.zeros(count, bool)
    highest = [0] * len(grid.axes)
    for where, chunk, out, _ in items:
        if len(out) != 1 or not isinstance(out[0], slice | np.ndarray):
            raise Unplanned("points with a result of another kind")
        filled[out[0]] = True
        for number, (at, axis) in enumerate(zip(where, grid.axes, strict=True)):
            lists[number][out[0]] = chunk[number] + axis.start(at)
            highest[number] = max(highest[number], at)
    if not filled.all():
        raise Unplanned("points that leave elements out")
    return Planned("coordinates", tuple(lists), (count,), _whole_chunks(grid, highest), grid.axes)


def _ranges(items: list[Any], grid: Grid, drop_axes: tuple[int, ...], write: bool) -> Planned:
    """Plan independent selections along each axis."""
    rank = len(grid.axes)
    axes: list[dict[int, tuple[Any, Any]]] = [{} for _ in range(rank)]
    for where, chunk, out, _ in items:
        place = 0
        for axis in range(rank):
            selected = chunk[axis]
            if axis in drop_axes or isinstance(selected, int | np.integer):
                target = None
            elif place < len(out):
                target = out[place]
                place += 1
            else:
                raise Unplanned("a result of fewer axes")
            known = axes[axis].setdefault(where[axis], (selected, target))
            if (known[0] is not selected and not _same_selection(known[0], selected)) or (
                known[1] is not target and not _same_selection(known[1], target)
            ):
                raise Unplanned("chunks whose selections differ")
        if place != len(out):
            raise Unplanned("a result of more axes")
    distinct = len(items) if len(items) == 1 else len({item[0] for item in items})
    if not math.prod(len(spans) for spans in axes) == len(items) == distinct:
        raise Unplanned("chunks that do not form a block")
    selection, shape = [], []
    for spans, lengths in zip(axes, grid.axes, strict=True):
        picked, count = _combine_axis(spans, lengths)
        selection.append(picked)
        if count is not None:
            shape.append(count)
    highest = [max(spans) for spans in axes]
    agrees = _is_inside(highest, grid) or (write and _agrees(items, axes, grid))
    array_shape = grid.shape if agrees else _whole_chunks(grid, highest)
    return Planned("orthogonal", tuple(selection), tuple(shape), array_shape, grid.axes)


def _same_selection(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _combine_axis(spans: dict[int, tuple[Any, Any]], axis: Steps | Edges) -> tuple[Any, int | None]:
    """Return the combined selection along an axis and its length; ``None``: the axis is dropped."""
    ((at, (selected, target)), *more) = spans.items()
    if target is None:
        if more:
            raise Unplanned("several chunks along a dropped axis")
        return axis.start(at) + _number(selected), None
    found = _range(spans, axis)
    if found is not None:
        return found
    parts = {at: _indices(selected, axis.length(at)) for at, (selected, _) in spans.items()}
    count = sum(map(len, parts.values()))
    whole, filled = np.empty(count, np.intp), np.zeros(count, bool)
    for at, (_, target) in spans.items():
        target = target.ravel() if isinstance(target, np.ndarray) else target
        if not isinstance(target, slice | np.ndarray):
            raise Unplanned("a result of another kind")
        whole[target] = parts[at] + axis.start(at)
        filled[target] = True
    if not filled.all():
        raise Unplanned("a selection that leaves elements out")
    return whole, count


def _range(spans: dict[int, tuple[Any, Any]], axis: Steps | Edges) -> tuple[slice, int] | None:
    """Return the spans as one strided range, if they form one."""
    first = step = None
    count = 0
    for at, (selected, target) in spans.items():
        if not (isinstance(selected, slice) and isinstance(target, slice)):
            return None
        start, stop, stride = selected.indices(axis.length(at))
        here, start = len(range(start, stop, stride)), axis.start(at) + start
        if first is None or step is None:
            first, step = start, stride
        if stride != step or stride < 1 or start != first + count * step:
            return None
        if (target.start or 0) != count or target.stop != count + here or target.step not in (None, 1):
            return None
        count += here
    if first is None or step is None or count == 0:
        return None
    return slice(first, first + (count - 1) * step + 1, step), count


def _indices(selected: Any, chunk: int) -> Any:
    """Return the selection in a chunk along an axis as a list of indices."""
    if isinstance(selected, slice):
        return np.arange(*selected.indices(chunk), dtype=np.intp)
    if isinstance(selected, np.ndarray):
        flat = selected.ravel()
        return np.flatnonzero(flat) if flat.dtype == bool else flat.astype(np.intp, copy=False)
    raise Unplanned(f"a selection by {type(selected).__name__}")


def _number(selected: Any) -> int:
    if isinstance(selected, np.ndarray):
        if selected.size != 1:
            raise Unplanned("several elements of a dropped axis")
        return int(selected.ravel()[0])
    if isinstance(selected, slice):
        raise Unplanned("a range of a dropped axis")
    return int(selected)


def _whole_chunks(grid: Grid, highest: Sequence[int]) -> tuple[int, ...]:
    """Return the shape lengthened to whole chunks that include ``highest``.

    A chunk that a write fills up to the edge of the array then counts as partly written, and keeps
    the elements past the edge.
    """
    return tuple(
        axis.end(extent, at) for extent, axis, at in zip(grid.shape, grid.axes, highest, strict=True)
    )


def _is_inside(highest: Sequence[int], grid: Grid) -> bool:
    """Return True if all chunks up to this one are inside the array."""
    known = zip(highest, grid.axes, grid.shape, strict=True)
    return all(axis.start(at) + axis.length(at) <= extent for at, axis, extent in known)


def _agrees(items: list[Any], axes: list[dict[int, tuple[Any, Any]]], grid: Grid) -> bool:
    """Return True if zarr-python's complete chunks are complete by the shape that we know.

    zarr-python does not tell a pipeline that its array was resized. At the edge, the batch's flags
    reveal it.
    """
    covered = [
        {
            at: _covers(selected, min(axis.length(at), extent - axis.start(at)))
            for at, (selected, _) in spans.items()
        }
        for spans, axis, extent in zip(axes, grid.axes, grid.shape, strict=True)
    ]
    for where, _, _, is_complete in items:
        known = [found[at] for found, at in zip(covered, where, strict=True)]
        if None in known or is_complete != all(known):
            return False
    return True


def _covers(selected: Any, length: int) -> bool | None:
    """Return True if all ``length`` elements of a chunk along an axis are selected.

    ``None``: unknown for a list, or more elements are selected than expected.
    """
    if isinstance(selected, slice):
        if selected.stop > length:
            return None
        return (selected.start or 0) == 0 and selected.step in (None, 1) and selected.stop == length > 0
    if isinstance(selected, np.ndarray) or selected >= length:
        return None
    return length == 1
