"""Cuts an array into blocks, and runs work on several blocks at a time.

While one block is computed, others are read and written.

1. A block owns whole objects of the target (shards, or chunks if there are no shards), so no two
   blocks write one object.
2. It is lengthened to whole chunks of the sources as far as memory allows: two blocks that share a
   chunk both decode it.
3. Small blocks are lengthened to `SENSIBLE_BYTES`, along the last axis first, so that the cost per
   block is spread over many elements.
4. At most one block more than threads is in flight, and fewer if memory is short.
"""

from __future__ import annotations

import contextvars
import itertools
import math
import os
import queue
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hyperslab._base.config import config
from hyperslab._native import Stopper
from hyperslab.errors import InvalidArgumentError

__all__ = ["Blocks", "Input", "Region", "plan_blocks", "run_blocks", "shown_region"]

Region = tuple[slice, ...]

# Small blocks are lengthened to about this many bytes of the target. Measured with np.sqrt on zstd
# chunks of 1 MiB: 1 MiB costs 8 % more, 16 MiB 5 % more (results no longer fit the caches).
SENSIBLE_BYTES = 4 << 20
# Use fewer workers only if that cuts the decoded bytes to less than this share.
_WORTH_A_WORKER = 0.8


@dataclass(frozen=True)
class Input:
    """How blocks read one source."""

    itemsize: int
    chunk: tuple[int, ...] | None
    """Elements of a chunk per axis of the target; ``None``: the source has no chunks.

    0: all blocks read the same elements along the axis.
    """
    reach: tuple[int, ...]
    """Elements read beyond the block on each side, per axis."""
    scale: tuple[int, ...]
    """Source elements per target element, per axis; 0: all blocks read the same single element."""

    def bytes(self, lengths: Sequence[int]) -> int:
        """Return the bytes read for a block of these lengths."""
        axes = zip(lengths, self.scale, self.reach, strict=True)
        return self.itemsize * math.prod(n * scale + 2 * reach if scale else 1 for n, scale, reach in axes)


@dataclass(frozen=True)
class Blocks:
    """The blocks of a region of an array, given by the cuts along each axis."""

    cuts: tuple[Sequence[int], ...]
    """The ends of the blocks along each axis, preceded by the start of the first block."""
    lengths: tuple[int, ...]
    """Elements of the largest block along each axis."""
    workers: int
    """Maximum number of blocks in flight."""
    block_bytes: int
    """Bytes of one block: its inputs and twice its result (one more copy while it is written)."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks per axis."""
        return tuple(max(len(cuts) - 1, 0) for cuts in self.cuts)

    def __len__(self) -> int:
        return math.prod(self.counts)

    def index(self, number: int) -> tuple[int, ...]:
        """Return the index per axis of a block, given its number in C order."""
        found = []
        for count in reversed(self.counts):
            number, at = divmod(number, count)
            found.append(at)
        return tuple(reversed(found))

    def region(self, number: int) -> Region:
        """Return the region of a block."""
        at = zip(self.cuts, self.index(number), strict=True)
        return tuple(slice(cuts[n], cuts[n + 1]) for cuts, n in at)


def plan_blocks(
    region: Region,
    units: Sequence[int | Sequence[int]],
    itemsize: int,
    inputs: Sequence[Input],
    max_memory: int,
    workers: int | None = None,
) -> Blocks:
    """Cut a region of an array into blocks.

    ``units``: per axis the length of the target's objects. If lengths differ along the axis: 0,
    then the end of each object. ``workers``: the most blocks at a time; by default one more than
    threads.

    Raises
    ------
    InvalidArgumentError
        If one block needs more than ``max_memory``.
    """
    spans = [max(axis.stop - axis.start, 0) for axis in region]
    least = [unit if isinstance(unit, int) else max(_longest_span(unit), 1) for unit in units]

    def inside(lengths: Sequence[int]) -> list[int]:
        return [min(n, span) for n, span in zip(lengths, spans, strict=True)]

    def needed(lengths: Sequence[int]) -> int:
        lengths = inside(lengths)
        return sum(each.bytes(lengths) for each in inputs) + 2 * itemsize * math.prod(lengths)

    if needed(least) > max_memory:
        raise InvalidArgumentError(
            f"max_memory: expected at least {needed(least)} bytes for one block (an object of the target, "
            f"of shape {tuple(inside(least))}, and the elements read for it), found {max_memory} bytes"
        )
    most = workers or (config.threads or os.cpu_count() or 1) + 1
    lengths, workers = _aligned_lengths(least, spans, inputs, lambda n: max_memory // n, needed, most)
    room = max_memory // workers
    # Cap the size so that each worker gets at least two blocks, if possible.
    enough = max(math.prod(spans) * itemsize // (2 * workers), 1)
    for axis in reversed(range(len(lengths))):
        wanted = min(SENSIBLE_BYTES, enough) // max(itemsize * math.prod(inside(lengths)), 1)
        for times in range(min(wanted, -(-spans[axis] // lengths[axis])), 1, -1):
            longer = [*lengths[:axis], lengths[axis] * times, *lengths[axis + 1 :]]
            if needed(longer) <= room:
                lengths = longer
                break
    cuts = tuple(_cuts(axis, unit, n) for axis, unit, n in zip(region, units, lengths, strict=True))
    largest = tuple(_longest_span(ends) for ends in cuts)
    return Blocks(cuts, largest, workers, needed(largest))


def _aligned_lengths(
    least: Sequence[int],
    spans: Sequence[int],
    inputs: Sequence[Input],
    room: Callable[[int], int],
    needed: Callable[[Sequence[int]], int],
    most: int,
) -> tuple[list[int], int]:
    """Return the block lengths that decode the fewest source bytes, and how many workers fit."""
    choices = []
    for axis, (unit, span) in enumerate(zip(least, spans, strict=True)):
        lengths = {unit}
        for each in inputs:
            chunk = each.chunk[axis] if each.chunk else 0
            if chunk:
                lengths |= {
                    min(math.lcm(unit, chunk), -(-max(span, 1) // unit) * unit),
                    -(-chunk // unit) * unit,
                }
        choices.append(sorted(lengths))
    best: tuple[list[int], int] | None = None
    best_cost = math.inf
    for workers in range(most, 0, -1):
        fitting = [one for one in itertools.product(*choices) if needed(one) <= room(workers)]
        if not fitting:
            continue
        found = min(fitting, key=lambda one: (_decoded_bytes(one, spans, inputs), math.prod(one)))
        cost = _decoded_bytes(found, spans, inputs)
        if best is None or cost < best_cost * _WORTH_A_WORKER:
            best, best_cost = (list(found), workers), cost
    assert best is not None, "one block fits"
    return best


def _decoded_bytes(lengths: Sequence[int], spans: Sequence[int], inputs: Sequence[Input]) -> float:
    """Return the total source bytes that blocks of these lengths decode."""
    total = 0.0
    for each in inputs:
        if each.chunk is None:
            continue
        times = 1.0
        for n, span, chunk, reach in zip(lengths, spans, each.chunk, each.reach, strict=True):
            if chunk and span:
                shared = math.lcm(n, chunk)
                cuts = (span - 1) // n + (span - 1) // chunk - (span - 1) // shared + 1
                # The elements read beyond a block touch one more chunk on each side.
                cuts += 2 * -(-reach // chunk) * ((span - 1) // n)
                times *= cuts * min(chunk, span) / span
        total += times * each.itemsize * math.prod(spans)
    return total


def _cuts(axis: slice, unit: int | Sequence[int], length: int) -> Sequence[int]:
    """Return where blocks begin along an axis, and the end of the last."""
    start, stop = axis.start, axis.stop
    if stop <= start:
        return (start,)
    if isinstance(unit, int):
        first = (start // length + 1) * length
        return (start, *range(first, stop, length), stop)
    found = [start]
    while found[-1] < stop:
        # Take the last end within the length. A longer object is a block of its own.
        at = bisect_left(unit, found[-1] + length + 1) - 1
        end = unit[at] if at >= 0 and unit[at] > found[-1] else unit[bisect_left(unit, found[-1] + 1)]
        found.append(min(end, stop))
    return found


def _longest_span(ends: Sequence[int]) -> int:
    return max((b - a for a, b in itertools.pairwise(ends)), default=0)


def shown_region(region: Region) -> str:
    """Return a region as text, like ``[0:2, 5:9]``."""
    return "[" + ", ".join(f"{axis.start}:{axis.stop}" for axis in region) + "]"


def run_blocks(
    blocks: Blocks,
    work: Callable[[int], int],
    name: str,
    progress: Callable[[int], object] | None = None,
    numbers: range | None = None,
) -> None:
    """Call ``work(number)`` for each block, on the number of threads that the plan gives.

    ``progress`` is called on this thread with the result of each call. The first error stops the
    other blocks and is raised with a note that names its block. Ctrl-C stops them too.
    """
    numbers = range(len(blocks)) if numbers is None else numbers
    workers = min(blocks.workers, len(numbers))
    if workers <= 1:
        for number in numbers:
            with _naming(blocks, number, name):
                done = work(number)
            if progress is not None:
                progress(done)
        return
    left = iter(numbers)
    turn = threading.Lock()
    finished: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
    stopper = Stopper()

    def each() -> Iterator[int]:
        while not stopper.is_stopped:
            with turn:
                number = next(left, None)
            if number is None:
                return
            yield number

    def worker() -> None:
        try:
            for number in each():
                with _naming(blocks, number, name):
                    done = stopper.run(work, number)
                finished.put(done)
        except BaseException as error:
            finished.put(error)
        finally:
            finished.put(None)

    # Threads run in a copy of the caller's context: it holds NumPy's error state, for example.
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(worker,), name=f"hyperslab-{name}-{n}", daemon=True
        )
        for n in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        running = workers
        while running:
            found = finished.get()
            if found is None:
                running -= 1
            elif isinstance(found, BaseException):
                raise found
            elif progress is not None:
                progress(found)
    finally:
        stopper.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


class _naming:
    """Adds a note to an error that names its block."""

    def __init__(self, blocks: Blocks, number: int, name: str) -> None:
        self.blocks, self.number, self.name = blocks, number, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, Exception):
            region = shown_region(self.blocks.region(self.number))
            error.add_note(f"in {self.name}, block {self.blocks.index(self.number)}: {region} of the target")
