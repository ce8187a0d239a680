"""Dask arrays: made from arrays of hyperslab, and written to them.

``dask.array.from_array(array)`` works without this module. `from_array` here never splits a shard,
and also takes arrays of text and chunks of different lengths. `store` writes each shard in one
task.

dask must be installed separately.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
from dask.array.core import normalize_chunks
from dask.base import compute as compute_all
from dask.base import tokenize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.utils import ensure_dict

from hyperslab._dask.blocks import UnsettledReads, Written, refusal, settle
from hyperslab.errors import ArgumentTypeError, ArrayShapeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._core.array_common import AnyArray

__all__ = ["from_array", "store"]

Lengths: TypeAlias = tuple[tuple[int, ...], ...]


# ---- reading


def from_array(
    array: AnyArray,
    chunks: Any = "auto",
    *,
    name: str | bool | None = None,
    inline_array: bool = True,
    threads: int | None = None,
) -> da.Array:
    """Make a dask array from the metadata alone. Nothing is read until it is computed.

    Parameters
    ----------
    array : Array
    chunks : int, str, tuple or mapping, default "auto"
        The blocks:

        - ``"auto"``: as many whole shards (or chunks) as fit dask's setting ``array.chunk-size``,
          at least one.
        - ``"shards"``: one block per shard (or chunk).
        - ``"chunks"``: one block per chunk, including inner chunks.
        - Anything else: as in dask.
    name : str or bool, optional
        As in `dask.array.from_array`.
    inline_array : bool, default True
        Whether each task holds the array (some hundred bytes) instead of depending on a task that
        holds it. Dask orders tasks better this way.
    threads : int, optional
        Maximum threads of the engine per block. Default: ``config.threads`` of the process that
        computes it.

    Examples
    --------
    >>> import hyperslab as hs, hyperslab.dask
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), shape=(8, 6), shards=(4, 6), chunks=(2, 3), dtype="f4", fill_value=1
    ... )
    >>> x = hyperslab.dask.from_array(z, chunks="shards")
    >>> x.chunks
    ((4, 4), (6,))
    >>> float(x.sum().compute())
    48.0
    """
    return da.from_array(
        array,
        _blocks(array, chunks),
        name=name,
        getitem=None if threads is None else _Read(threads),
        inline_array=inline_array,
    )


class _Read:
    """Reads a block with a given number of threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, array: AnyArray, selection: Any) -> Any:
        return array.read(selection, threads=self.threads)

    def __dask_tokenize__(self) -> tuple[str, int]:
        return "hyperslab.dask.Read", self.threads


def _lengths(array: AnyArray, *, objects: bool) -> Lengths:
    """Return the lengths along each axis of objects (shards or unsharded chunks) or of chunks."""
    several = array._object_lengths() if objects else array._chunk_lengths()
    if several is None:
        shape = (objects and array._largest_shard) or array._largest_chunk
        cut = zip(array.shape, shape, strict=True)
        several = [[min(step, n - at) for at in range(0, n, step)] for n, step in cut]
    return tuple(tuple(axis) or (0,) for axis in several)


def _blocks(array: AnyArray, chunks: Any) -> Any:
    """Return the chunks of the dask array."""
    if isinstance(chunks, str) and chunks in ("shards", "chunks"):
        return _lengths(array, objects=chunks == "shards")
    if not (isinstance(chunks, str) and chunks == "auto"):
        return chunks
    objects = _lengths(array, objects=True)
    # dask refuses to count the bytes of objects and strings, so pass a type of the same size.
    counted = np.dtype(f"V{max(array.dtype.itemsize, 1)}")
    found = normalize_chunks("auto", array.shape, dtype=counted, previous_chunks=objects)
    # dask splits objects that are larger than its limit. Keep them whole.
    return tuple(a if _ends(a) <= _ends(b) else b for a, b in zip(found, objects, strict=True))


def _ends(lengths: Sequence[int]) -> set[int]:
    """Return where blocks end along an axis."""
    return set(itertools.accumulate(lengths))


# ---- writing


def store(
    x: da.Array,
    target: Array,
    region: Any = None,
    *,
    compute: bool = True,
    align: Literal["rechunk", "serialize"] = "rechunk",
    threads: int | None = None,
    **options: Any,
) -> Any:
    """Write a dask array, each shard in one task.

    No two tasks then read, change and write the same object at the same time.

    Parameters
    ----------
    x : dask.array.Array
    target : Array
        The array to write, in a store that all workers can reach: a directory or a server.
    region : slice or tuple of slices, optional
        Where to write, as in ``target[region] = x``, with slices of step 1. ``None``: everything.
        Shards at its edges may be written in part.
    compute : bool, default True
        Whether to write now. If false, the returned object writes when it is computed.
    align : {"rechunk", "serialize"}, default "rechunk"
        How to handle blocks that share a shard (or a chunk, without shards).

        - ``"rechunk"``: move their edges to the edges of shards. Workers exchange some elements.
        - ``"serialize"``: write them one after the other. Nothing is exchanged, and shared shards
          are written several times.
    threads : int, optional
        Maximum threads of the engine per block. Default: ``config.threads`` of the process that
        writes it.
    **options
        Options for ``compute``, such as ``scheduler``.

    Returns
    -------
    None, or an object to compute

    Raises
    ------
    ArrayShapeError
        If ``x`` does not have the shape of the region.
    ReadOnlyError
        If the target was opened for reading.
    InvalidArgumentError
        If blocks read elements of the target that other tasks write, and these are more than 32 MiB
        (or ``compute=False``).

    Notes
    -----
    ``x`` may be derived from the target. A block that reads only the elements that it replaces
    (``x + 1``) is computed and written normally. Other blocks are computed before the first write,
    up to 32 MiB in total.

    A task that is repeated because its worker died writes the same elements again. If it reads the
    elements that it replaces, it may read its own output. A shard is old or new at any time, never
    torn, also at the edges of regions, where two calls of `store` share it.

    Examples
    --------
    >>> import dask.array as da, hyperslab as hs, hyperslab.dask
    >>> z = hs.create_array(hs.MemoryStore(), shape=(8,), shards=(4,), chunks=(2,), dtype="i4")
    >>> hyperslab.dask.store(da.arange(6, chunks=2), z, region=slice(2, 8))
    >>> z[...]
    array([0, 0, 0, 1, 2, 3, 4, 5], dtype=int32)
    """
    if not isinstance(x, da.Array):
        raise ArgumentTypeError(f"x: expected an array of dask, found {type(x).__name__}")
    if align not in ("rechunk", "serialize"):
        raise InvalidArgumentError(f"align: expected 'rechunk' or 'serialize', found {align!r}")
    placed = _placed(x, target, region, align)
    box = tuple((start, start + n) for start, n in zip(placed.first, placed.x.shape, strict=True))
    try:
        loaded = settle(
            [Written(placed.x, target, box)], partial(compute_all, **options) if compute else None
        )
    except UnsettledReads as error:
        raise InvalidArgumentError(refusal(error, "x", "x.persist()")) from None
    for values in loaded.values():
        placed = placed._replace(x=da.from_array(values, placed.x.chunks))
    writing = _writing([placed], threads)
    return writing.compute(**options) if compute else writing


class _Placed(NamedTuple):
    """A dask array and its destination."""

    x: Any
    target: Array
    # Start of the region.
    first: tuple[int, ...]
    # Ends of objects along each axis, relative to the region.
    ends: list[list[int]]


def _store_all(
    stored: Iterable[tuple[da.Array, Array, Any]],
) -> Delayed:
    """Return an object that writes several arrays, each to a target and a region, when computed.

    Shared inputs are computed once.
    """
    return _writing([_placed(x, target, region, "rechunk") for x, target, region in stored], None)


def _placed(x: da.Array, target: Array, region: Any, align: Literal["rechunk", "serialize"]) -> _Placed:
    """Return a dask array, chunked for writing, with its place in a target."""
    target._check_writable()
    blocks: Any = x
    first = _first(x, target, region)
    ends = _object_ends(target, first, blocks.shape)
    if align == "rechunk":
        blocks = blocks.rechunk(_aligned(blocks.chunks, ends))
    return _Placed(blocks, target, first, ends)


def _first(x: da.Array, target: Array, region: Any) -> tuple[int, ...]:
    """Return the start of the region."""
    if any(np.isnan(n) for n in x.shape):
        raise InvalidArgumentError("x has blocks of unknown lengths: call x.compute_chunk_sizes() before")
    given = () if region is None else region if isinstance(region, tuple) else (region,)
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given = (*given[:at], *[slice(None)] * (target.ndim - len(given) + 1), *given[at + 1 :])
    given += (slice(None),) * (target.ndim - len(given))
    if len(given) != target.ndim or not all(isinstance(each, slice) for each in given):
        raise InvalidArgumentError(f"region: expected {target.ndim} slices at most, found {region!r}")
    bounds = [each.indices(n) for each, n in zip(given, target.shape, strict=True)]
    if any(step != 1 for _, _, step in bounds):
        raise InvalidArgumentError(f"region: expected slices of step 1, found {region!r}")
    shape = tuple(max(stop - start, 0) for start, stop, _ in bounds)
    if shape != x.shape:
        raise ArrayShapeError(f"x has shape {x.shape}, the region of the target {shape}")
    return tuple(start for start, _, _ in bounds)


def _object_ends(target: Array, first: Sequence[int], shape: Sequence[int]) -> list[list[int]]:
    """Return the ends of objects along each axis relative to x; the last end is the end of x."""
    ends = []
    for lengths, start, n in zip(_lengths(target, objects=True), first, shape, strict=True):
        inside = (end - start for end in itertools.accumulate(lengths))
        ends.append([*(end for end in inside if 0 < end < n), n])
    return ends


def _aligned(chunks: Lengths, ends: Sequence[Sequence[int]]) -> Lengths:
    """Return blocks that end where objects end, by moving each end of x to the next one."""
    result = []
    for lengths, allowed in zip(chunks, ends, strict=True):
        moved = {allowed[bisect_left(allowed, end)] for end in itertools.accumulate(lengths)}
        cuts = [0, *sorted(moved - {0})]
        result.append(tuple(b - a for a, b in itertools.pairwise(cuts)) or (0,))
    return tuple(result)


def _writing(placed: Sequence[_Placed], threads: int | None) -> Delayed:
    """Make one task per block. It waits for earlier tasks that share an object with it."""
    tasks: dict[Any, Any] = {}
    names = []
    for x, target, first, ends in placed:
        name = f"hyperslab-store-{tokenize(x, target, first, threads)}"
        names.append(name)
        holder = f"{name}-target"
        tasks[holder] = target
        last: dict[tuple[int, ...], Any] = {}
        starts = [[0, *itertools.accumulate(lengths)] for lengths in x.chunks]
        for number in np.ndindex(*x.numblocks):
            spans = [(at[n], at[n + 1]) for at, n in zip(starts, number, strict=True)]
            if any(a == b for a, b in spans):
                continue
            key = (name, *number)
            shared = _shared_objects(spans, ends)
            before = sorted({last[each] for each in shared if each in last})
            last.update(dict.fromkeys(shared, key))
            place = tuple(slice(at + a, at + b) for at, (a, b) in zip(first, spans, strict=True))
            tasks[key] = (_write, holder, place, (x.name, *number), threads, before)
    name = names[0] if len(names) == 1 else f"hyperslab-store-all-{tokenize(*names)}"
    tasks[name] = (_done, [key for key in tasks if isinstance(key, tuple)])
    # Fuse the tasks of arrays here: dask does not fuse the tasks of a `Delayed`. Do it for all
    # arrays at once, so that shared inputs are not fused into each of them.
    blocks = ensure_dict(
        da.Array.__dask_optimize__(
            HighLevelGraph.merge(*(each.x.__dask_graph__() for each in placed)),
            [each.x.__dask_keys__() for each in placed],
        )
    )
    source = f"{name}-blocks"
    layers = {source: blocks, name: tasks}
    return Delayed(name, HighLevelGraph(layers, {source: set(), name: {source}}))


def _shared_objects(spans: Sequence[tuple[int, int]], ends: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the numbers of the objects that a block shares; none if it covers whole objects."""
    edges = [[0, *allowed] for allowed in ends]
    if all(_is_in(a, edge) and _is_in(b, edge) for (a, b), edge in zip(spans, edges, strict=True)):
        return []
    touched = (
        range(bisect_left(allowed, a + 1), bisect_left(allowed, b) + 1)
        for (a, b), allowed in zip(spans, ends, strict=True)
    )
    return list(itertools.product(*touched))


def _is_in(value: int, ascending: Sequence[int]) -> bool:
    """Return True if a value is in a sorted list that contains a value at least as large."""
    return ascending[bisect_left(ascending, value)] == value


def _write(target: Array, place: tuple[slice, ...], block: Any, threads: int | None, _before: object) -> None:
    target.write(place, block, threads)


def _done(_blocks: object) -> None:
    """Return None when everything is written."""


def __dir__() -> list[str]:
    return sorted(__all__)
