"""Finds dask blocks that read elements which other tasks of the same call write.

A task may read the region that it writes itself, but no other written elements: tasks run in any
order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from hyperslab._core.array_common import AnyArray
from hyperslab._dask.reads import arrays_in, is_at, is_zarr_array

__all__ = ["LOADED_BYTES", "UnsettledReads", "Written", "refusal", "settle"]

# Sources that read elements of other writes are loaded before the first write, up to this many
# bytes in total.
LOADED_BYTES = 32 << 20

# Start and end along each axis.
Box: TypeAlias = tuple[tuple[int, int], ...]

# Task functions that read a part of an array. Their arguments are the array and the selection.
_GETTERS = frozenset({"getter", "getter_nofancy", "getter_inline", "getitem", "_Read"})

# Wrappers of xarray that keep the positions of elements in the wrapped array.
_SAME_PLACES = frozenset(
    {
        "BoolTypeArray",
        "CopyOnWriteArray",
        "ImplicitToExplicitIndexingAdapter",
        "MemoryCachedArray",
        "NativeEndiannessArray",
        "StoredArray",
        "ZarrArrayWrapper",
        "_ElementwiseFunctionArray",
    }
)


class Written(NamedTuple):
    """Values to write to a box of an array."""

    source: Any
    """A dask array, chunked as its tasks write it, or values in memory."""
    target: Any
    box: Box
    grows: bool = False
    """True if the array is lengthened first. The edges of tasks are then unknown."""
    given: Any = None
    """The dask array from which the source was encoded."""


def settle(writes: Sequence[Written], load: Callable[..., Any] | None) -> dict[int, Any]:
    """Load the values of writes that read elements of other writes. Return them by write number.

    An empty result means that there are no such writes. ``load`` computes dask arrays. Without it,
    or for more than `LOADED_BYTES`, raises `UnsettledReads`.
    """
    found = _foreign_reads(writes)
    if not found:
        return {}
    sources = [writes[number].source for number in found]
    nbytes = sum(source.nbytes for source in sources)
    if load is None or not nbytes <= LOADED_BYTES:
        number, address = next(iter(found.items()))
        raise UnsettledReads(number, address, None if load is None else nbytes)
    return dict(zip(found, load(*sources), strict=True))


class UnsettledReads(Exception):
    """A write reads elements that other writes change, and is not loaded first."""

    def __init__(self, number: int, address: str, nbytes: int | None) -> None:
        super().__init__(address)
        self.number, self.address, self.nbytes = number, address, nbytes


def refusal(error: UnsettledReads, what: str, load: str) -> str:
    """Return the error message: ``what`` is read, and ``load`` would read it first."""
    why = (
        "with compute=False nothing is read first"
        if error.nbytes is None
        else f"at most {LOADED_BYTES >> 20} MiB are read first, these are {error.nbytes} bytes"
    )
    return (
        f"{what} is read lazily from {error.address}: elements that other tasks of this call write, and may "
        f"have written already. {why[0].upper()}{why[1:]}. Load it ({load}), write it to another place, "
        "or let each block read only the elements that it replaces"
    )


def _foreign_reads(writes: Sequence[Written]) -> dict[int, str]:
    """Return the writes that read elements of other writes, each with the address it reads from."""
    lazy = [n for n, each in enumerate(writes) if is_dask_collection(each.source) and each.source.size]
    targets = _Targets(writes)
    if not any(targets.of(array) for array in arrays_in(writes[n].source for n in lazy)):
        return {}
    reads = _Reads([writes[n].source for n in lazy], targets)
    unchanged: dict[int, bool] = {}
    found: dict[int, str] = {}
    for number in lazy:
        for key, own in _blocks(writes[number]):
            for other, box in reads.of(key).items():
                if other == number and own is not None and _contains(own, box):
                    continue
                if other not in unchanged:
                    unchanged[other] = _is_unchanged(writes[other], other, targets)
                if not unchanged[other]:
                    found[number] = targets.addresses[other]
                    break
            if number in found:
                break
    return found


def _blocks(write: Written, source: Any = None) -> Iterator[tuple[Any, Box | None]]:
    """Yield the key of each block and the target box that it goes to."""
    source = write.source if source is None else source
    edges = [
        [first + at for at in (0, *itertools.accumulate(lengths))]
        for (first, _), lengths in zip(write.box, source.chunks, strict=True)
    ]
    for number in np.ndindex(*source.numblocks):
        own = tuple((at[n], at[n + 1]) for at, n in zip(edges, number, strict=True))
        yield (source.name, *number), None if write.grows else own


def _is_unchanged(write: Written, number: int, targets: _Targets) -> bool:
    """Return True if a write only stores again what it reads. Others may then read it anytime."""
    given = write.given
    if given is None or not is_dask_collection(given) or given.shape != tuple(b - a for a, b in write.box):
        return False
    reads = _Reads([given], targets)
    return all(reads.exact(key, number) == own for key, own in _blocks(write._replace(grows=False), given))


class _Targets:
    """The arrays to write to."""

    def __init__(self, writes: Sequence[Written]) -> None:
        self.writes = writes
        self.addresses = [f"{each.target.store.url} ({each.target.path!r})" for each in writes]
        # Holds the arrays, because Python reuses the id of a freed object.
        self._known: dict[int, tuple[Any, list[int]]] = {}

    def of(self, array: Any) -> list[int]:
        """Return the numbers of the writes to an array."""
        if id(array) not in self._known:
            numbers = [
                n for n, each in enumerate(self.writes) if is_at(array, each.target.store, each.target.path)
            ]
            self._known[id(array)] = (array, numbers)
        return self._known[id(array)][1]

    def common(self, array: Any, box: Box | None) -> dict[int, Box]:
        """Return the written elements in a box of an array; without a box, in the whole array."""
        box = tuple((0, n) for n in array.shape) if box is None else box
        found = {}
        for number in self.of(array):
            part = tuple(
                (max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, self.writes[number].box, strict=True)
            )
            if all(a < b for a, b in part):
                found[number] = part
        return found


class _Reads:
    """The target elements that tasks of a graph read, directly or through their dependencies."""

    def __init__(self, sources: Sequence[Any], targets: _Targets) -> None:
        graph = ensure_dict(HighLevelGraph.merge(*(each.__dask_graph__() for each in sources)))
        self._nodes = _nodes(graph)
        self._targets = targets
        self._held: dict[int, tuple[Any, list[Any]]] = {}
        self._done: dict[Any, Mapping[int, Box]] = {}

    def of(self, key: Any) -> Mapping[int, Box]:
        """Return the part of each write's box that a task reads."""
        waiting = [key]
        while waiting:
            each = waiting[-1]
            if each in self._done:
                waiting.pop()
                continue
            before = [k for k in self._dependencies(each) if k not in self._done]
            if before:
                waiting += before
                continue
            found: dict[int, Box] = {}
            for other in self._dependencies(each):
                _merge_boxes(found, self._done[other])
            _merge_boxes(found, self._own_boxes(each))
            self._done[each] = found
            waiting.pop()
        return self._done[key]

    def exact(self, key: Any, number: int) -> Box | None:
        """Return the part of one write's box that a task reads, if the task does nothing else."""
        part = self._part(key)
        return None if part is None else self._targets.common(*part).get(number)

    def _dependencies(self, key: Any) -> list[Any]:
        return [k for k in self._nodes[key].dependencies if k in self._nodes and not self._is_source(k)]

    def _is_source(self, key: Any) -> bool:
        """Return True if a key stands for an array. The tasks that take it read the array."""
        node = self._nodes[key]
        return not node.dependencies and hasattr(node, "value") and bool(self._arrays(node.value))

    def _own_boxes(self, key: Any) -> dict[int, Box]:
        part = self._part(key)
        if part is not None:
            return self._targets.common(*part)
        node = self._nodes[key]
        held = [getattr(node, "value", None), *_arguments(node), getattr(node, "func", None)]
        held += [self._nodes[k].value for k in node.dependencies if k in self._nodes and self._is_source(k)]
        found: dict[int, Box] = {}
        for value in held:
            for array in self._arrays(value):
                _merge_boxes(found, self._targets.common(array, None))
        return found

    def _part(self, key: Any) -> tuple[Any, Box] | None:
        """Return the array and box that a task reads; ``None`` if unknown or not just a read."""
        node = self._nodes[key]
        func = getattr(node, "func", None)
        arguments = _arguments(node)
        if getattr(func, "__name__", type(func).__name__) not in _GETTERS or len(arguments) < 2:
            return None
        source, selection = (self._value(each) for each in arguments[:2])
        if source is None or not isinstance(selection, tuple) or not self._arrays(source):
            return None
        return _box_in(source, selection)

    def _value(self, argument: Any) -> Any:
        key = getattr(argument, "key", None)
        if type(argument).__name__ == "TaskRef":
            return self._nodes[key].value if key in self._nodes and self._is_source(key) else None
        return getattr(argument, "value", argument)

    def _arrays(self, value: Any) -> list[Any]:
        if id(value) not in self._held:
            self._held[id(value)] = (value, [a for a in arrays_in([value]) if self._targets.of(a)])
        return self._held[id(value)][1]


def _nodes(graph: Mapping[Any, Any]) -> Mapping[Any, Any]:
    from dask._task_spec import convert_legacy_graph

    return convert_legacy_graph(graph)  # type: ignore[no-any-return]


def _arguments(node: Any) -> list[Any]:
    return [*getattr(node, "args", ()), *getattr(node, "kwargs", {}).values()]


def _box_in(source: Any, selection: Sequence[Any]) -> tuple[Any, Box] | None:
    """Return the array inside wrappers of xarray, and the box of it that a selection reads."""
    box = _box_of(selection, source.shape)
    while box is not None and not isinstance(source, AnyArray) and not is_zarr_array(source):
        kind = type(source).__name__
        inner = getattr(source, "array", getattr(source, "_array", None))
        if inner is None:
            return None
        if kind == "LazilyIndexedArray":
            box = _box_in_array(box, source.key.tuple, inner.shape)
        elif kind not in _SAME_PLACES or tuple(inner.shape) != tuple(source.shape):
            return None
        source = inner
    return None if box is None else (source, box)


def _box_of(selection: Sequence[Any], shape: Sequence[int]) -> Box | None:
    if len(selection) != len(shape) or not all(isinstance(each, slice) for each in selection):
        return None
    bounds = [each.indices(n) for each, n in zip(selection, shape, strict=True)]
    return None if any(step != 1 for *_, step in bounds) else tuple((a, b) for a, b, _ in bounds)


def _box_in_array(box: Box, key: Sequence[Any], shape: Sequence[int]) -> Box | None:
    """Return a box of a key's selection as a box of the whole array."""
    left = iter(box)
    found = []
    for each, n in zip(key, shape, strict=True):
        if isinstance(each, (int, np.integer)):
            at = int(each) % n
            found.append((at, at + 1))
        elif isinstance(each, slice) and each.step in (None, 1):
            first = each.indices(n)[0]
            a, b = next(left)
            found.append((first + a, first + b))
        else:
            return None
    return tuple(found)


def _merge_boxes(found: dict[int, Box], more: Mapping[int, Box]) -> None:
    """Add boxes, merging two into their hull. A box that contains both also contains their hull."""
    for number, box in more.items():
        known = found.get(number, box)
        found[number] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, box, strict=True))


def _contains(outer: Box, inner: Box) -> bool:
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))
