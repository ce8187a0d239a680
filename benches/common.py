"""Shared by the measurements: data, plain file I/O, the clock and the tables."""

from __future__ import annotations

import gc
import random
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MIB = 1 << 20

Array = npt.NDArray[Any]


# --------------------------------------------------------------------------------------------- data


def ocean_steps(shape: tuple[int, ...], *, seed: int = 0) -> Iterator[Array]:
    """Yields ocean-like float32 fields, one time step each, for `shape` = (time, ...space).

    Each value is the sum of five cosines plus 5 % noise, rounded to 10 mantissa bits. Model output
    is often rounded this way before it is archived. zstd at level 3 shrinks such a field by about
    1.85.
    """
    rng = np.random.default_rng(seed)
    steps, *space = shape
    axes = [np.linspace(0, 2 * np.pi, n, endpoint=False, dtype="f4") for n in space]
    waves = []
    for _ in range(5):
        amplitude = np.float32(rng.uniform(0.5, 2.0))
        frequency = rng.uniform(0.5, 4.0)
        phase: Array = np.full((), rng.uniform(0, 2 * np.pi), "f4")
        for axis, coordinate in enumerate(axes):
            wave = np.float32(rng.integers(1, 5)) * coordinate
            phase = phase + wave.reshape([-1 if i == axis else 1 for i in range(len(axes))])
        waves.append((frequency, amplitude * np.cos(phase), amplitude * np.sin(phase)))
    for step in range(steps):
        values = rng.standard_normal(space, dtype="f4")
        values *= np.float32(0.05 * 2.0)
        for frequency, cosine, sine in waves:
            angle = frequency * 2 * np.pi * step / steps
            values += np.float32(np.cos(angle)) * cosine
            values -= np.float32(np.sin(angle)) * sine
        yield round_mantissa(values, 10)


def round_mantissa(values: Array, bits: int) -> Array:
    """Rounds float32 `values` to the nearest number with `bits` bits of mantissa."""
    dropped = 23 - bits
    pattern = values.view("u4")
    return ((pattern + np.uint32(1 << (dropped - 1))) & ~np.uint32((1 << dropped) - 1)).view("f4")


def same_bits(left: Any, right: Any) -> bool:
    """Compares shape, dtype and bytes of two arrays: NaN equals NaN, -0.0 differs from 0.0."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.size == 0:
        return True
    if left.dtype.kind in "fcmM":
        whole = f"V{left.dtype.itemsize}" if left.dtype.itemsize > 8 else f"u{left.dtype.itemsize}"
        left, right = np.ascontiguousarray(left).view(whole), np.ascontiguousarray(right).view(whole)
    return bool(np.array_equal(left, right))


# ---------------------------------------------------------------------------------------- plain I/O


def plain_write(path: Path, values: Array) -> None:
    """Writes a contiguous array to a new file with plain `write` calls."""
    with path.open("wb", buffering=0) as file:
        view = values.data.cast("B")
        while view:
            view = view[file.write(view) :]


def plain_read(path: Path, out: Array) -> None:
    """Reads a whole file into a contiguous array.

    If the pages of `out` are already mapped, only the copy is measured, without page faults.
    """
    total = 0
    with path.open("rb", buffering=0) as file:
        view = out.data.cast("B")
        while count := file.readinto(view[total:]):
            total += count


# --------------------------------------------------------------------------------- clock and tables


@dataclass
class Timing:
    """The repeated times of one contender on one piece of work, in seconds."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median, which a hiccup of the machine does not move."""
        return statistics.median(self.samples)


@contextmanager
def timed(timing: Timing) -> Iterator[None]:
    """Adds the time of the block to a timing. Garbage collection waits until the block is done."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    try:
        yield
    finally:
        timing.samples.append(time.perf_counter() - start)
        gc.enable()


def turns(names: Iterable[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yields the contenders round by round. Round -1 warms the caches and does not count.

    The order changes with each round and is the same in every run. In a fixed order, one
    contender's leftovers (freed pages that the system takes back, a full cache) would always hit
    the same successor.
    """
    order = list(names)
    chance = random.Random(0)
    for number in range(-1, rounds):
        for name in order:
            yield number, name
        chance.shuffle(order)


def remove(path: Path) -> None:
    """Deletes the results of an earlier round, if any."""
    shutil.rmtree(path, ignore_errors=True)


def disk_usage(path: Path) -> int:
    """Returns the bytes of all files below a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def bytes_text(count: float) -> str:
    """Formats a size for people: `419 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.3g} {unit}" if count < 99.5 else f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def seconds_text(seconds: float) -> str:
    """Formats a time for people: `1.23 s`, `45.6 ms`, `7.89 µs`."""
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, markdown: bool = False, left: int = 1
) -> str:
    """Returns the table as aligned text: the first columns left, the others right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    separator, edge = (" | ", "|") if markdown else ("  ", "")

    def format_line(cells: Sequence[str]) -> str:
        cells = [
            cell.ljust(w) if i < left else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"{edge} {separator.join(cells)} {edge}".rstrip()

    text = [format_line(line) for line in lines]
    if markdown:
        rule = "|" + "|".join("-" * (w + 1) + ("-" if i < left else ":") for i, w in enumerate(widths)) + "|"
    else:
        rule = " " + "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([text[0], rule, *text[1:]])
