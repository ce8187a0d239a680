"""Programs of `test_shards_kill.py`: one whose children write and are killed, and one that reads meanwhile.

    python killed_writers.py kill PATH KILLS SEED THREADS
    python killed_writers.py read PATH

What an inner chunk holds follows from its first element, which counts up: half of one and half of another
show.
"""

from __future__ import annotations

import mmap
import random
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import support

# Two shards of 4 × 4 inner chunks.
ROWS, COLUMNS, LENGTH = 8, 4, 1500
SHAPE, SHARDS, CHUNKS = (ROWS, COLUMNS * LENGTH), (ROWS // 2, COLUMNS * LENGTH), (1, LENGTH)

STEPS = np.arange(LENGTH, dtype="i8") * 2654435761


def contents(value: int) -> np.ndarray[Any, Any]:
    """An inner chunk, whose compressed length is as chance has it."""
    values = (STEPS * (value | 1)) >> (value % 29)
    values[0] = value
    return values


def value_of(found: np.ndarray[Any, Any]) -> int:
    """The value that an inner chunk was made of; fails if it was made of several."""
    value = int(found[0])
    if value == 0:
        assert not found.any(), "half of nothing"
    else:
        assert np.array_equal(found, contents(value)), f"torn: {value}"
    return value


def columns(first: int, behind: int) -> slice:
    """The elements of inner chunks side by side."""
    return slice(first * LENGTH, behind * LENGTH)


def write(z: hs.Array, count: np.ndarray[Any, Any], seed: int) -> None:
    """Replaces inner chunks, one or several at a time, until it is killed."""
    mine = random.Random(f"{seed} {count[0]}")
    while True:
        count[0] += 1
        value = int(count[0])
        row, column, kind = mine.randrange(ROWS), mine.randrange(COLUMNS), mine.randrange(10)
        if kind == 0:
            z[row, columns(column, column + 1)] = 0
        elif kind == 1:
            z[row] = np.tile(contents(value), COLUMNS)
        elif kind == 2:
            z[:, columns(column, column + 1)] = contents(value)
        else:
            z[row, columns(column, column + 1)] = contents(value)


def kill(path: Path, kills: int, seed: int, threads: int) -> None:
    """Forks writers, and kills each in the middle of something."""
    hs.config.threads = threads
    z = hs.open_array(path, mode="r+")
    z[...]
    # How many writes have begun: shared with the children, so that values never repeat.
    count = np.frombuffer(mmap.mmap(-1, 8), "i8")
    for _ in support.killed(lambda: write(z, count, seed), kills, seed, 0.008):
        pass
    print(int(count[0]))


def watch(path: Path, seed: int, go_on: Callable[[], bool]) -> int:
    """Reads whole arrays, rows and inner chunks; what it finds never gets older. How often it has read."""
    z = hs.open_array(path)
    rng = np.random.default_rng(seed)
    last = np.zeros((ROWS, COLUMNS), "i8")
    rounds = 0
    while go_on() or rounds == 0:
        kind = int(rng.integers(3))
        rows = range(ROWS) if kind == 0 else range(row := int(rng.integers(ROWS)), row + 1)
        across = range(COLUMNS) if kind < 2 else range(column := int(rng.integers(COLUMNS)), column + 1)
        found = z[rows.start : rows.stop, columns(across.start, across.stop)]
        for i in rows:
            for j in across:
                part = columns(j - across.start, j - across.start + 1)
                value = value_of(found[i - rows.start, part])
                # Nothing has no age.
                assert value == 0 or value >= last[i, j], f"[{i}, {j}]: {value} after {last[i, j]}"
                last[i, j] = max(last[i, j], value)
        rounds += 1
    return rounds


def main() -> None:
    what, path, *numbers = sys.argv[1:]
    if what == "kill":
        kill(Path(path), *map(int, numbers))
    else:
        print("ready", flush=True)
        print(watch(Path(path), 99, lambda: not select.select([sys.stdin], [], [], 0)[0]))


if __name__ == "__main__":
    main()
