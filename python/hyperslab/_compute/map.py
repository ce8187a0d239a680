"""Applies a NumPy function to the blocks of arrays, and writes the results to an array."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from hyperslab._base.config import parse_size
from hyperslab._base.progress import show_progress
from hyperslab._base.shared import is_shareable
from hyperslab._base.tasks import run_tasks
from hyperslab._compute.blocks import Blocks, Input, Region, plan_blocks, run_blocks
from hyperslab._core.arguments import normalize_shape
from hyperslab._core.array import Array
from hyperslab._core.array_common import AnyArray
from hyperslab._core.iteration import chunk_hint
from hyperslab._create.new import create_array, create_filled
from hyperslab._index.view import View
from hyperslab._stores.store import StoreLike
from hyperslab.errors import ArgumentTypeError, ArrayShapeError, InvalidArgumentError

__all__ = ["BlockInfo", "map_chunks", "object_units", "parse_region", "run_elsewhere"]

Boundary: TypeAlias = Literal["clip", "nearest", "reflect", "symmetric", "wrap"] | float
Progress: TypeAlias = Callable[[Literal["map"], int, int], object]

# Maximum number of tasks for an executor. With more blocks, each task does several.
_MOST_TASKS = 10_000

# NumPy's names for the padding modes at the edges of an array.
_PADDED = {"nearest": "edge", "reflect": "reflect", "symmetric": "symmetric"}


@dataclass(frozen=True)
class BlockInfo:
    """The position of a block."""

    index: tuple[int, ...]
    """Index of the block along each axis."""
    counts: tuple[int, ...]
    """Number of blocks per axis."""
    region: Region
    """The target elements that the block becomes."""
    shape: tuple[int, ...]
    """Shape of the target."""
    halo: tuple[tuple[int, int], ...]
    """Halo elements that the function gets before and after the region, per axis."""


def map_chunks(
    function: Callable[..., Any],
    sources: Any,
    target: Array | StoreLike,
    *,
    region: Any = None,
    halo: int | Sequence[int] | Mapping[int, int] | None = None,
    boundary: Boundary | Mapping[int, Boundary] = "clip",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "same_kind",
    max_memory: int | str = "256 MiB",
    executor: Any = None,
    progress: Progress | bool | None = None,
    **create: Any,
) -> Array:
    """Apply a NumPy function to the blocks of one or several arrays, and write the results.

    Blocks are whole shards (or chunks) of the target. As far as memory allows, they are lengthened
    to whole chunks of the sources. Several blocks are in flight: while one is computed, others are
    read and written. Memory is bounded, whatever the size of the arrays.

    Parameters
    ----------
    function : callable
        Called as ``function(*blocks)`` with a NumPy array for each source, which it may change. It
        returns an array of the block's shape. If it has a parameter named ``block_info``, it gets a
        `BlockInfo` there. Several threads call it at a time.
    sources : array, or sequence of arrays
        Arrays of hyperslab or NumPy, views, and anything with a shape that slices can index. Their
        shapes are broadcast to the target's, as in NumPy.
    target : Array, or store
        An array to write, every element of it (or of ``region``). Or where to create an array, with
        the arguments of `create_array` in ``create``. A new array has the shape and data type of
        the broadcast sources, and the chunks and shards of the first source with its shape.
    region : slice or tuple of slices, optional
        The part of the target to compute, as slices of step 1, from the same part of the sources.
        ``None``: everything. Shards at its edges may be written in part.
    halo : int, sequence of int, or mapping, optional
        Number of elements beyond the block that the function gets on each side: for all axes, for
        each axis, or by axis. If the function returns them too, they are cut off.
    boundary : str, number, or mapping, default "clip"
        The content of a halo beyond the edges of the array, for all axes or by axis.

        - ``"clip"``: nothing. Blocks at the edges are shorter.
        - ``"nearest"``: the last element. ``"reflect"``: the elements in reverse, without the last.
          ``"symmetric"``: the same with the last. ``"wrap"``: the elements of the other end.
        - A number: this number.
    casting : str, default "same_kind"
        Conversions to the target's data type to allow, as in `numpy.can_cast`.
    max_memory : int or str, default "256 MiB"
        Maximum bytes of blocks: inputs, plus results twice (once more while they are written).
        Memory that the function allocates itself is not counted. With an ``executor``, this is per
        task.
    executor : executor, optional
        Runs the blocks instead of threads of this process: an executor of `concurrent.futures`, a
        ``distributed.Client``, or the module ``ray``. Function, sources and target are pickled for
        other processes: arrays of hyperslab as their location, NumPy arrays with all elements.
        Large NumPy arrays go to each worker once. A block is repeated if its task fails or its
        worker is lost.
    progress : callable, or True, optional
        Called as ``progress("map", bytes_done, bytes_in_all)``, in bytes of the target. ``True``
        shows a bar on standard error.
    **create
        Arguments of `create_array`, if ``target`` is not an array.

    Returns
    -------
    Array
        The target.

    Raises
    ------
    ArrayShapeError
        If sources do not broadcast to the target, or the function returns another shape or a data
        type that cannot be cast. This error, and all errors of the function, of chunks and of
        stores, have a note that names the block.
    InvalidArgumentError
        If one block needs more than ``max_memory``, or a source with a halo is the target.

    Notes
    -----
    After an error, some blocks of the target are new and the others are unchanged. Every chunk is
    complete. With ``overwrite=True``, a new array replaces the old one when it is complete, except
    with an ``executor``.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> z = hs.array([[1, 4, 9], [16, 25, 36]], chunks=(1, 3), dtype="f4")
    >>> root = hs.map_chunks(np.sqrt, z, hs.MemoryStore())
    >>> root[...]
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    >>> def step(a):
    ...     return a - np.roll(a, 1, axis=1)
    >>> hs.map_chunks(step, root, hs.MemoryStore(), halo=(0, 1), boundary="nearest")[...]
    array([[0., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    inputs = _sources(sources)
    budget = parse_size(max_memory)
    if not callable(function):
        raise ArgumentTypeError(f"function: expected a function, found {type(function).__name__}")

    def fill(array: Array) -> None:
        with show_progress(progress) as progress_bar:
            _map(array, function, inputs, region, halo, boundary, casting, budget, executor, progress_bar)

    if isinstance(target, Array):
        if create:
            raise ArgumentTypeError(
                f"{', '.join(create)}: expected no arguments for a new array, since the target exists"
            )
        target._check_writable()
        fill(target)
        return target
    arguments = _arguments_like(inputs, create)
    if arguments.get("overwrite") and executor is None:
        return create_filled(target, fill, **arguments)
    made = create_array(target, **arguments)
    fill(made)
    return made


def _map(
    target: Array,
    function: Callable[..., Any],
    sources: Sequence[Any],
    region: Any,
    halo: Any,
    boundary: Any,
    casting: Any,
    budget: int,
    executor: Any,
    progress: Progress | None,
) -> None:
    depths = _per_axis("halo", halo, target.ndim, 0)
    for depth in depths:
        if isinstance(depth, bool) or not isinstance(depth, (int, np.integer)) or depth < 0:
            raise InvalidArgumentError(f"halo: expected numbers of elements, found {halo!r}")
    edges = _per_axis("boundary", boundary, target.ndim, "clip")
    for edge in edges:
        if edge not in ("clip", "wrap", *_PADDED) and not isinstance(edge, (int, float, np.number)):
            known = ", ".join(map(repr, ("clip", *_PADDED, "wrap")))
            raise InvalidArgumentError(f"boundary: expected {known} or a number, found {edge!r}")
    for number, source in enumerate(sources):
        _check_source(target, number, source, has_halo=any(depths), again=executor is not None)
    place = parse_region(region, target.shape)
    inputs = [_input(source, target.ndim, depths) for source in sources]
    blocks = plan_blocks(
        place, object_units(target), target.dtype.itemsize, inputs, budget, None if executor is None else 1
    )
    named = "block_info" in _parameters(function)
    shared: list[Any] = []
    given: list[Any] = []
    for source in sources:
        if executor is not None and is_shareable(source):
            given.append(_Shared(len(shared)))
            shared.append(source)
        else:
            given.append(source)
    work = _Mapping(function, tuple(given), target, blocks, tuple(map(int, depths)), edges, casting, named)
    total = target.dtype.itemsize * math.prod(axis.stop - axis.start for axis in place)
    done = 0

    def advance(bytes_: int) -> None:
        nonlocal done
        done += bytes_
        if progress is not None:
            progress("map", done, total)

    if executor is None:
        run_blocks(blocks, work, "map_chunks", advance)
    else:
        run_elsewhere(blocks, work, "map_chunks", executor, advance, shared)


def run_elsewhere(
    blocks: Blocks,
    work: Callable[[int], int],
    name: str,
    executor: Any,
    advance: Callable[[int], None],
    shared: Sequence[Any] = (),
) -> None:
    """Run blocks like `run_blocks`, on an executor.

    ``shared`` are the arrays for the places in ``work`` (`_Mapping`). Each worker gets them once.
    """
    count = len(blocks)
    step = max(-(-count // _MOST_TASKS), 1)
    items = [range(at, min(at + step, count)) for at in range(0, count, step)]
    task = _Task(blocks, work, name)
    for _, done in run_tasks(task, items, executor, shared=shared, name=f"hyperslab-{name}"):
        advance(done)


@dataclass(frozen=True)
class _Task:
    """Runs some blocks in sequence and returns their bytes."""

    blocks: Blocks
    work: Callable[[int], int]
    name: str

    def __call__(self, numbers: range, *shared: Any) -> int:
        work = cast("_Mapping", self.work).with_shared(shared) if shared else self.work
        done = 0

        def advance(bytes_: int) -> None:
            nonlocal done
            done += bytes_

        run_blocks(self.blocks, work, self.name, advance, numbers)
        return done


@dataclass(frozen=True)
class _Shared:
    """The place of a source that workers get apart from the task."""

    number: int


@dataclass(frozen=True)
class _Mapping:
    """The work on one block."""

    function: Callable[..., Any]
    sources: tuple[Any, ...]
    target: Array
    blocks: Blocks
    depths: tuple[int, ...]
    edges: tuple[Any, ...]
    casting: Any
    named: bool

    def with_shared(self, shared: Sequence[Any]) -> _Mapping:
        """Return the same work with arrays in their places."""
        sources = (shared[each.number] if isinstance(each, _Shared) else each for each in self.sources)
        return replace(self, sources=tuple(sources))

    def __call__(self, number: int) -> int:
        """Run one block; return its bytes in the target."""
        region = self.blocks.region(number)
        shape = self.target.shape
        found = [_read(source, shape, region, self.depths, self.edges) for source in self.sources]
        axes = zip(region, shape, self.depths, self.edges, strict=True)
        beyond = tuple(
            (min(depth, axis.start), min(depth, n - axis.stop)) if edge == "clip" else (depth, depth)
            for axis, n, depth, edge in axes
        )
        more: dict[str, Any] = {}
        if self.named:
            more["block_info"] = BlockInfo(
                self.blocks.index(number), self.blocks.counts, region, shape, beyond
            )
        result = _trim_halo(self._call(found, more), region, beyond)
        dtype = self.target.dtype
        if result.dtype != dtype and not np.can_cast(result.dtype, dtype, self.casting):
            raise ArrayShapeError(
                f"the function returned {result.dtype}, which casting={self.casting!r} does not cast to the "
                f"target's {dtype}: pass dtype for a new array, or casting='unsafe'"
            )
        self.target.write(region, result)
        return int(dtype.itemsize * math.prod(axis.stop - axis.start for axis in region))

    def _call(self, blocks: list[Any], more: dict[str, Any]) -> Any:
        if (
            isinstance(self.function, np.ufunc)
            and len(blocks) == self.function.nin == self.function.nout == 1
        ):
            block = blocks[0]
            # Write the result over the block, which is in the CPU caches.
            if (
                type(block) is np.ndarray
                and self.function.resolve_dtypes((block.dtype, None))[1] == block.dtype
            ):
                return self.function(block, out=block)
        return self.function(*blocks, **more)


def _trim_halo(result: Any, region: Region, beyond: Sequence[tuple[int, int]]) -> Any:
    """Return the part of the function's result to write, without the halo."""
    if not isinstance(result, np.ndarray):
        result = np.asarray(result)
    wanted = tuple(axis.stop - axis.start for axis in region)
    if result.shape == wanted:
        return result
    longer = tuple(n + before + behind for n, (before, behind) in zip(wanted, beyond, strict=True))
    if result.shape != longer:
        also = f", or {longer} with the halo" if longer != wanted else ""
        raise ArrayShapeError(f"the function returned shape {result.shape}, expected {wanted}{also}")
    return result[tuple(slice(before, before + n) for (before, _), n in zip(beyond, wanted, strict=True))]


# ---- reading blocks


def _read(
    source: Any, shape: Sequence[int], region: Region, depths: Sequence[int], edges: Sequence[Any]
) -> Any:
    """Read the input of a block from a source."""
    own = tuple(source.shape)
    skipped = len(shape) - len(own)
    parts: list[list[slice]] = []
    padding: list[tuple[int, int]] = []
    modes: list[Any] = []
    for axis, n in enumerate(own, skipped):
        depth, edge = depths[axis], edges[axis]
        if n == 1 and shape[axis] != 1:
            # Broadcast axis: all blocks read the same element.
            parts.append([slice(0, 1)])
            padding.append((0, 0))
            modes.append("clip")
            continue
        start, stop = region[axis].start - depth, region[axis].stop + depth
        inner = slice(max(start, 0), min(stop, n))
        if edge == "wrap":
            parts.append(_wrap_slices(start, stop, n))
            padding.append((0, 0))
        else:
            parts.append([inner])
            padding.append((0, 0) if edge == "clip" else (inner.start - start, stop - inner.stop))
        modes.append(edge)
    values = _read_joined(source, parts, ())
    for axis, (pad, mode) in enumerate(zip(padding, modes, strict=True)):
        if pad != (0, 0):
            widths = [(0, 0)] * len(own)
            widths[axis] = pad
            if isinstance(mode, str):
                values = np.pad(values, widths, cast(Any, _PADDED[mode]))
            else:
                values = np.pad(values, widths, "constant", constant_values=mode)
    return values


def _wrap_slices(start: int, stop: int, n: int) -> list[slice]:
    """Return the slices for ``start`` to ``stop`` of an axis that wraps around."""
    found = []
    while start < stop:
        at = start % n
        length = min(stop - start, n - at)
        found.append(slice(at, at + length))
        start += length
    return found


def _read_joined(source: Any, parts: Sequence[Sequence[slice]], chosen: Region) -> Any:
    """Read a selection that has several parts along some axes."""
    axis = len(chosen)
    if axis == len(parts):
        if isinstance(source, AnyArray):
            return source.read(chosen)
        if isinstance(source, View):
            return source[chosen].read()
        # Copy sources in memory: the function may change its input.
        return np.array(source[chosen])
    pieces = [_read_joined(source, parts, (*chosen, part)) for part in parts[axis]]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)


# ---- arguments


def _sources(sources: Any) -> list[Any]:
    given = list(sources) if isinstance(sources, (list, tuple)) else [sources]
    if not given:
        raise InvalidArgumentError("sources: expected an array, or several; found none")
    found = [
        each if hasattr(each, "shape") and hasattr(each, "dtype") else np.asarray(each) for each in given
    ]
    for number, each in enumerate(found):
        if isinstance(each, np.ndarray) and each.dtype == object:
            raise ArgumentTypeError(
                f"sources[{number}]: expected an array, found {type(given[number]).__name__}"
            )
    return found


def _arguments_like(sources: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new array. Missing arguments are taken from the sources."""
    arguments = dict(given)
    if "data" in arguments:
        raise ArgumentTypeError("data: expected no data, since the function makes it")
    try:
        broadcast = np.broadcast_shapes(*(tuple(source.shape) for source in sources))
    except ValueError:
        shapes = ", ".join(str(tuple(source.shape)) for source in sources)
        raise ArrayShapeError(f"sources of shapes {shapes} cannot be broadcast together") from None
    shape = normalize_shape(arguments.setdefault("shape", broadcast))
    if arguments.get("dtype") is None:
        arguments["dtype"] = functools.reduce(np.promote_types, (source.dtype for source in sources))
    like = next((each for each in sources if isinstance(each, AnyArray) and each.shape == shape), None)
    if like is not None and chunk_hint(like) and not {"chunks", "shards"} & set(arguments):
        arguments["chunks"] = _grid(like, shards=False)
        if like._largest_shard is not None:
            arguments["shards"] = _grid(like, shards=True)
    if like is not None and like.dimension_names is not None:
        arguments.setdefault("dimension_names", like.dimension_names)
    return arguments


def _grid(array: AnyArray, *, shards: bool) -> Any:
    """Return chunks or shards as `create_array` takes them."""
    lengths = array._object_lengths() if shards or array._largest_shard is None else None
    if lengths is not None and all(lengths):
        return lengths
    return array._largest_shard if shards else array._largest_chunk


def parse_region(region: Any, shape: Sequence[int]) -> Region:
    """Return a region of an array as slices with bounds."""
    given = () if region is None else region if isinstance(region, tuple) else (region,)
    if any(each is Ellipsis for each in given):
        at = next(n for n, each in enumerate(given) if each is Ellipsis)
        given = (*given[:at], *[slice(None)] * (len(shape) - len(given) + 1), *given[at + 1 :])
    given += (slice(None),) * (len(shape) - len(given))
    if len(given) != len(shape) or not all(isinstance(each, slice) for each in given):
        raise InvalidArgumentError(f"region: expected {len(shape)} slices at most, found {region!r}")
    bounds = [each.indices(n) for each, n in zip(given, shape, strict=True)]
    if any(step != 1 for _, _, step in bounds):
        raise InvalidArgumentError(f"region: expected slices of step 1, found {region!r}")
    return tuple(slice(start, max(stop, start)) for start, stop, _ in bounds)


def _per_axis(what: str, given: Any, rank: int, usual: Any) -> tuple[Any, ...]:
    """Return a value per axis, from one value for all axes, a sequence, or a mapping by axis."""
    if given is None:
        return (usual,) * rank
    if isinstance(given, Mapping):
        found = [usual] * rank
        for axis, value in given.items():
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise InvalidArgumentError(f"{what}: there is no axis {axis!r}, the array has {rank} axes")
            found[axis] = value
        return tuple(found)
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,) * rank
    listed = tuple(given)
    if len(listed) != rank:
        raise InvalidArgumentError(f"{what}: expected one for each of {rank} axes, found {len(listed)}")
    return listed


def _parameters(function: Callable[..., Any]) -> Iterable[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        # C functions may have no signature.
        return ()


def _check_source(target: Array, number: int, source: Any, *, has_halo: bool, again: bool) -> None:
    """Refuse sources that do not fit, or that change while they are read."""
    shape = tuple(source.shape)
    try:
        fits = np.broadcast_shapes(shape, target.shape) == target.shape
    except ValueError:
        fits = False
    if not fits:
        raise ArrayShapeError(
            f"sources[{number}] of shape {shape} cannot be broadcast to the target's shape {target.shape}"
        )
    array = source.array if isinstance(source, View) else source
    if not isinstance(array, Array) or array.store != target.store or array.path != target.path:
        return
    if isinstance(source, View) or has_halo or shape != target.shape or again:
        why = (
            "with an executor a block may run twice"
            if again
            else "blocks would read what others have written"
        )
        raise InvalidArgumentError(f"sources[{number}] is the target: {why}. Write to another array.")


def _input(source: Any, rank: int, depths: Sequence[int]) -> Input:
    shape = (1,) * (rank - len(source.shape)) + tuple(source.shape)
    scale = tuple(0 if n == 1 else 1 for n in shape)
    # Views and files may have no chunks.
    chunks = chunk_hint(source) if isinstance(source, AnyArray) else getattr(source, "chunks", None)
    chunk: tuple[int, ...] | None = None
    if (
        isinstance(chunks, tuple)
        and len(chunks) == len(source.shape)
        and all(isinstance(n, int) for n in chunks)
    ):
        full = (1,) * (rank - len(chunks)) + chunks
        chunk = tuple(n if each else 0 for n, each in zip(full, scale, strict=True))
    itemsize = max(getattr(source.dtype, "itemsize", 1), 1)
    return Input(itemsize, chunk, tuple(map(int, depths)), scale)


def object_units(target: Array) -> list[int | Sequence[int]]:
    """Return per axis the length of the target's objects, or their ends."""
    several = target._object_lengths()
    if several is None:
        return list(target._largest_shard or target._largest_chunk)
    return [list(itertools.accumulate(lengths, initial=0)) for lengths in several]
