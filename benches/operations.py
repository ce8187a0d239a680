"""The operations that the rows measure: reading, writing and opening.

An operation defines the work of each contender (`work`). It also defines additional measurements
(`extras`, such as the work without some feature) and the machine's limit (`limits`; the best one
counts).
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import common
import contenders as c
import limits
import numpy as np
from common import Array, same_bits
from contenders import Cannot, Contender, Spec

# A selection of the array, and its values.
Part = tuple[Any, Array]


class WrongValues(Exception):
    """A contender read or wrote wrong values. Stops the measurement: fast and wrong is not fast."""


def nothing() -> None:
    """Does nothing, in place of a preparation or a check."""


@dataclass
class Work:
    """One sample of a contender: `once` is timed and gets what `prepare` made."""

    once: Callable[[Any], Any]
    # Called after the first run. A wrong value stops everything.
    check: Callable[[], None]
    prepare: Callable[[], Any] = nothing
    # Runs `once` a given number of times in one sample, if one run is too short for the clock.
    many: Callable[[int], Any] | None = None
    # Not timed. Removes output, which may be gigabytes and would reach the disk while others work.
    clean_up: Callable[[], Any] = nothing


def times(call: Callable[[], Any]) -> Callable[[int], None]:
    """Returns a loop that costs almost nothing itself."""

    def many(count: int) -> None:
        for _ in itertools.repeat(None, count):
            call()

    return many


@dataclass
class Place:
    """The array of one case: description, place, values, and a place for more arrays."""

    spec: Spec
    source: Path
    scratch: Path
    parts: list[Part] = field(default_factory=list)

    @cached_property
    def whole(self) -> Array:
        """Returns all values."""
        values: Array = np.full(self.spec.shape, self.spec.fill_value, self.spec.dtype)
        for where, part in self.parts:
            values[where] = part
        return values

    def expected(self, selection: Any) -> Array:
        """Returns the expected result of a selection.

        Whole time steps are not joined into one array first, since that may take gigabytes.
        """
        if isinstance(selection, int) and len(self.parts) > 1 and self.parts[selection][0] == selection:
            return self.parts[selection][1]
        return np.asarray(self.whole[selection])

    def check(self, who: str, selection: Any, found: Array) -> None:
        """Stops everything if a selection was read wrongly."""
        expected = self.expected(selection)
        found = np.asarray(found)
        # Zarr v2 arrays may keep their stored byte order. zarrista keeps the axes of integers.
        found = found.astype(found.dtype.newbyteorder("="), copy=False)
        if found.size == expected.size:
            found = found.reshape(expected.shape)
        if not same_bits(found, expected):
            raise WrongValues(f"{who} reads {selection} of {self.spec} wrongly")

    def check_stored(self, who: str, path: Path, parts: Iterable[Part]) -> None:
        """Stops everything if zarr-python reads other values than those written."""
        zarr = c.CONTENDERS["zarr"]()
        array = zarr.open(path)
        for where, values in parts:
            if not same_bits(zarr.read(array, where), values):
                raise WrongValues(f"{who} writes {where} of {self.spec} wrongly")


@dataclass(frozen=True)
class Operation:
    """The kind of work that the cases of a row share."""

    def size(self, spec: Spec) -> int:
        """Returns the bytes of the values that one sample moves."""
        raise NotImplementedError

    def calls(self, spec: Spec) -> int:
        """Returns the number of calls in one sample. Times are reported per call."""
        return 1

    def work(self, place: Place, contender: Contender) -> Work:
        """Returns the work of one contender."""
        raise NotImplementedError

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        """Returns additional measurements."""
        return {}

    def limits(self, place: Place) -> dict[str, Work]:
        """Returns the least work on this machine, in one or several ways."""
        return {}

    def writes_parts(self) -> bool:
        """Returns true if the work writes the array's values, so that there is nothing to read."""
        return False


# ------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True)
class Reads(Operation):
    """Reads selections of an open array in turn. Each result is dropped before the next read."""

    selections: tuple[Any, ...] = (Ellipsis,)
    # Let the limit allocate memory for each result, too. Needed if almost nothing is stored.
    fresh: bool = False

    def size(self, spec: Spec) -> int:
        return sum(limits.selected_bytes(spec, selection) for selection in self.selections)

    def calls(self, spec: Spec) -> int:
        return len(self.selections)

    def work(self, place: Place, contender: Contender) -> Work:
        array = contender.open(place.source)

        def once(_: Any) -> None:
            for selection in self.selections:
                contender.read(array, selection)

        def check() -> None:
            for selection in self.selections:
                place.check(contender.name, selection, contender.read(array, selection))

        return Work(once, check, many=times(lambda: once(None)))

    def limits(self, place: Place) -> dict[str, Work]:
        spec = place.spec
        memory: Array = np.full(limits.result_shape(spec, self.selections[0]), spec.fill_value, spec.dtype)
        memory = np.atleast_1d(memory)
        if self.fresh:
            return {"limit": self.fresh_limit(place, memory)}

        def loop(threads: int) -> Work:
            places = [(selection, memory) for selection in self.selections]
            run = limits.ChunkLoop("limit_read", spec, place.source, places, threads)

            def check() -> None:
                # The limit does not transpose or swap bytes.
                if not (spec.fortran or spec.big_endian):
                    place.check("the limit", self.selections[-1], memory)

            return Work(lambda _: run(), check, many=times(run))

        found = {"limit": loop(1)}
        # Several selections share one buffer. They run one at a time, like a caller's reads.
        if len(self.selections) == 1 and len(limits.pieces(spec, self.selections[0])) > 1:
            found["limit 2 threads"] = loop(2)
        return found

    def fresh_limit(self, place: Place, memory: Array) -> Work:
        """Returns the limit with new zeroed memory for each run."""
        run = limits.read_into(place.spec, place.source, self.selections[0], memory)

        def once(_: Any) -> None:
            run.into(np.zeros(memory.shape, memory.dtype))

        def check() -> None:
            run.into(memory)
            place.check("the limit", self.selections[0], memory)

        return Work(once, check, many=times(lambda: once(None)))


@dataclass(frozen=True)
class SwappedReads(Reads):
    """Reads an array in foreign byte order, and with hyperslab also a native one ("native")."""

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        native = replace(place, spec=replace(place.spec, big_endian=False), source=place.scratch / "native")
        make_source(native)
        return {"native": self.work(native, ours)}


@dataclass(frozen=True)
class CachedReads(Reads):
    """Reads with hyperslab's cache of decoded chunks, and also without the cache ("without")."""

    shared: bool = False

    def work(self, place: Place, contender: Contender) -> Work:
        if contender.name == "hyperslab":
            # hyperslab does not cache files written just now: they might change unnoticed.
            time.sleep(2.5)
            contender = c.hyperslab_cached(contender, shared=self.shared)
        return super().work(place, contender)

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        return {"without": super().work(place, ours)}

    def limits(self, place: Place) -> dict[str, Work]:
        return {}


@dataclass(frozen=True)
class ThreadedReads(Reads):
    """Several Python threads do the same reads at once."""

    threads: int = 1

    def size(self, spec: Spec) -> int:
        return super().size(spec) * self.threads

    def calls(self, spec: Spec) -> int:
        return super().calls(spec) * self.threads

    def work(self, place: Place, contender: Contender) -> Work:
        alone = super().work(place, contender)
        pool = ThreadPoolExecutor(self.threads)

        def many(count: int) -> None:
            for done in [pool.submit(alone.many or alone.once, count) for _ in range(self.threads)]:
                done.result()

        return Work(lambda _: many(1), alone.check, many=many)

    def limits(self, place: Place) -> dict[str, Work]:
        def repeated(work: Work) -> Work:
            return Work(
                work.once, work.check, many=lambda count: work.many and work.many(count * self.threads)
            )

        # One caller does the work of all threads.
        return {name: repeated(work) for name, work in super().limits(place).items()}


@dataclass(frozen=True)
class Latency(Operation):
    """One short read in a bare loop."""

    selection: Any

    def size(self, spec: Spec) -> int:
        return limits.selected_bytes(spec, self.selection)

    def work(self, place: Place, contender: Contender) -> Work:
        array = contender.open(place.source)
        call = contender.reader(array, self.selection)

        def check() -> None:
            place.check(contender.name, self.selection, np.asarray(call()))

        return Work(lambda _: call(), check, many=times(call))

    def limits(self, place: Place) -> dict[str, Work]:
        (piece,) = limits.pieces(place.spec, self.selection)
        last = sum((n - 1) * stride for n, stride in zip(piece.counts, piece.chunk_strides, strict=True))
        many = limits.pread(place.source / piece.key, piece.start, last + place.spec.itemsize)
        return {"limit": Work(lambda _: many(1), nothing, many=many)}


@dataclass(frozen=True)
class Opens(Operation):
    """Opens an array."""

    def size(self, spec: Spec) -> int:
        return 0

    def work(self, place: Place, contender: Contender) -> Work:
        if contender.open_quickly is None:
            raise Cannot("opens as zarr does")
        open_quickly = contender.open_quickly

        def call() -> Any:
            return open_quickly(place.source)

        def check() -> None:
            if tuple(call().shape) != place.spec.shape:
                raise WrongValues(f"{contender.name} opens an array of another shape")

        return Work(lambda _: call(), check, many=times(call))

    def limits(self, place: Place) -> dict[str, Work]:
        metadata = place.source / "zarr.json"
        many = limits.pread(metadata, 0, metadata.stat().st_size)
        return {"limit": Work(lambda _: many(1), nothing, many=many)}


@dataclass(frozen=True)
class StreamReads(Operation):
    """Reads one time step after the other: hyperslab's stream, and everybody's plain loop.

    hyperslab's plain loop is the row "without". The loop has an empty body: the measurement is how
    fast steps arrive.
    """

    def size(self, spec: Spec) -> int:
        return spec.nbytes

    def calls(self, spec: Spec) -> int:
        return spec.shape[0]

    def work(self, place: Place, contender: Contender) -> Work:
        if contender.name == "hyperslab":
            contender = c.hyperslab_streaming(contender)
        return self.looping(place, contender)

    def looping(self, place: Place, contender: Contender) -> Work:
        """Returns the contender's own loop."""
        array = contender.open(place.source)
        count = place.spec.shape[0]

        def once(_: Any) -> None:
            for _ in contender.steps(contender, array, count):
                pass

        def check() -> None:
            steps = -1
            for steps, values in enumerate(contender.steps(contender, array, count)):
                place.check(contender.name, steps, values)
            if steps + 1 != count:
                raise WrongValues(f"{contender.name} gives {steps + 1} steps, not {count}")

        return Work(once, check, many=times(lambda: once(None)))

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        return {"without": self.looping(place, ours)}

    def limits(self, place: Place) -> dict[str, Work]:
        memory: Array = np.ones(place.spec.shape, place.spec.dtype)

        def loop(threads: int) -> Work:
            run = limits.read_into(place.spec, place.source, Ellipsis, memory, threads)
            return Work(lambda _: run(), lambda: place.check("the limit", 1, memory[1]), many=times(run))

        return {"limit": loop(1), "limit 2 threads": loop(2)}


# ------------------------------------------------------------------------------------------ writing


@dataclass(frozen=True)
class Writes(Operation):
    """Writes one time step after the other into a new, empty array, created before each sample."""

    limit_threads: tuple[int, ...] = (1,)

    def size(self, spec: Spec) -> int:
        return spec.nbytes

    def calls(self, spec: Spec) -> int:
        return spec.shape[0]

    def writes_parts(self) -> bool:
        return True

    def work(self, place: Place, contender: Contender) -> Work:
        return self.looping(place, contender)

    def looping(self, place: Place, contender: Contender, name: str = "") -> Work:
        """Returns the contender's own loop."""
        path = place.scratch / (name or contender.name)

        def once(array: Any) -> None:
            contender.write_steps(contender, array, place.parts)

        return Work(
            once,
            lambda: place.check_stored(contender.name, path, place.parts),
            lambda: contender.create(path, place.spec),
            clean_up=lambda: common.remove(path),
        )

    def limits(self, place: Place) -> dict[str, Work]:
        def loop(name: str, threads: int) -> Work:
            path = place.scratch / name
            parts = [(where, np.ascontiguousarray(values)) for where, values in place.parts]
            run = limits.ChunkLoop("limit_write", place.spec, path, parts, threads)
            ours = c.CONTENDERS["hyperslab"]()

            return Work(
                lambda _: run(),
                lambda: place.check_stored(name, path, place.parts),
                # The metadata makes the result an array that `check_stored` can open.
                lambda: ours.create(path, place.spec),
                clean_up=lambda: common.remove(path),
            )

        names = {1: "limit", 2: "limit 2 threads"}
        return {names[threads]: loop(names[threads], threads) for threads in self.limit_threads}


@dataclass(frozen=True)
class StreamWrites(Writes):
    """Writes with hyperslab's write-behind, and also in its plain loop ("without")."""

    limit_threads: tuple[int, ...] = (1, 2)

    def work(self, place: Place, contender: Contender) -> Work:
        if contender.name == "hyperslab":
            contender = c.hyperslab_streaming(contender)
        return self.looping(place, contender)

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        return {"without": self.looping(place, ours, "without")}


@dataclass(frozen=True)
class Overwrites(Operation):
    """Overwrites a region of a full array repeatedly. Each contender has its own copy."""

    selection: Any

    def size(self, spec: Spec) -> int:
        return limits.selected_bytes(spec, self.selection)

    def values(self, spec: Spec) -> Array:
        """Returns the values to write."""
        rng = np.random.default_rng(2)
        return rng.integers(0, 1000, limits.result_shape(spec, self.selection)).astype(spec.dtype)

    def check(self, place: Place, name: str) -> None:
        """Stops everything unless exactly the region has changed."""
        expected = place.whole.copy()
        expected[self.selection] = self.values(place.spec)
        place.check_stored(name, place.scratch / name, [(Ellipsis, expected)])

    def work(self, place: Place, contender: Contender) -> Work:
        path = place.scratch / contender.name
        shutil.copytree(place.source, path)
        array, values = contender.open(path), self.values(place.spec)

        def call() -> None:
            contender.write(array, self.selection, values)

        return Work(lambda _: call(), lambda: self.check(place, contender.name), many=times(call))

    def limits(self, place: Place) -> dict[str, Work]:
        def loop(name: str, threads: int) -> Work:
            path = place.scratch / name
            shutil.copytree(place.source, path)
            region = [(self.selection, self.values(place.spec))]
            run = limits.ChunkLoop("limit_write", place.spec, path, region, threads)
            return Work(lambda _: run(), lambda: self.check(place, name), many=times(run))

        return {"limit": loop("limit", 1), "limit 2 threads": loop("limit 2 threads", 2)}


@dataclass(frozen=True)
class WritesAll(Writes):
    """Writes a whole array in one call. The array is created, empty, before each sample."""

    limit_threads: tuple[int, ...] = (1, 2)

    def calls(self, spec: Spec) -> int:
        return 1

    def limits(self, place: Place) -> dict[str, Work]:
        def loop(name: str, threads: int) -> Work:
            path = place.scratch / name
            parts = [(where, np.ascontiguousarray(values)) for where, values in place.parts]
            run = limits.ShardLoop(place.spec, path, parts, threads)
            zarr = c.CONTENDERS["zarr"]()
            return Work(
                lambda _: run(),
                lambda: place.check_stored(name, path, place.parts),
                lambda: zarr.create(path, place.spec),
                clean_up=lambda: common.remove(path),
            )

        names = {1: "limit", 2: "limit 2 threads"}
        return {names[threads]: loop(names[threads], threads) for threads in self.limit_threads}


@dataclass(frozen=True)
class Rewrites(Operation):
    """Replaces inner chunks in turn, each once per cycle. Each contender has its own copy."""

    selections: tuple[Any, ...]

    def size(self, spec: Spec) -> int:
        return limits.selected_bytes(spec, self.selections[0])

    def values(self, place: Place) -> list[Array]:
        """Returns the values to write: the present ones reversed, which compress equally well."""
        return [np.ascontiguousarray(place.whole[selection][::-1]) for selection in self.selections]

    def rewriting(self, place: Place, name: str, replace_one: Callable[[int], None]) -> Work:
        """Returns work that replaces inner chunks by their number in the list."""
        turn, written = itertools.cycle(range(len(self.selections))), set[int]()

        def call() -> None:
            number = next(turn)
            written.add(number)
            replace_one(number)

        def check() -> None:
            expected, values = place.whole.copy(), self.values(place)
            for number in written:
                expected[self.selections[number]] = values[number]
            place.check_stored(name, place.scratch / name, [(Ellipsis, expected)])

        return Work(lambda _: call(), check, many=times(call))

    def work(self, place: Place, contender: Contender) -> Work:
        path = place.scratch / contender.name
        shutil.copytree(place.source, path)
        array, values = contender.open(path), self.values(place)

        def replace_one(number: int) -> None:
            contender.write(array, self.selections[number], values[number])

        return self.rewriting(place, contender.name, replace_one)

    def limits(self, place: Place) -> dict[str, Work]:
        path = place.scratch / "limit"
        shutil.copytree(place.source, path)
        runs = [
            limits.Rewrite(place.spec, path, selection, values)
            for selection, values in zip(self.selections, self.values(place), strict=True)
        ]
        return {"limit": self.rewriting(place, "limit", lambda number: runs[number]())}


def make_source(place: Place) -> None:
    """Creates the array to read with zarr-python or h5py. All others must agree with it."""
    maker = c.CONTENDERS["zarr" if place.spec.hdf5 is None else "h5py"]()
    array = maker.create(place.source, place.spec)
    for where, values in place.parts:
        maker.write(array, where, values)
    if place.spec.hdf5 is not None:
        array.file.close()


def random_chunks(spec: Spec, count: int) -> tuple[Any, ...]:
    """Returns some chunks, each at most once."""
    grid = [length // chunk for length, chunk in zip(spec.shape, spec.chunks, strict=True)]
    numbers = np.random.default_rng(4).permutation(int(np.prod(grid)))[:count]
    corners = np.stack(np.unravel_index(numbers, grid), axis=1).tolist()
    return tuple(
        tuple(slice(at * chunk, (at + 1) * chunk) for at, chunk in zip(corner, spec.chunks, strict=True))
        for corner in corners
    )


def random_blocks(spec: Spec, block: int, count: int) -> tuple[Any, ...]:
    """Returns random square blocks of a two-dimensional array."""
    rng = np.random.default_rng(3)
    corners = [rng.integers(0, length - block + 1, count).tolist() for length in spec.shape]
    return tuple(
        (slice(i, i + block), slice(j, j + block)) for i, j in zip(corners[0], corners[1], strict=True)
    )


def chunks_of(numbers: int, dimensions: int, chunk: int) -> tuple[slice, ...]:
    """Returns the first `numbers` chunks along each axis."""
    return (slice(0, numbers * chunk),) * dimensions
