"""Programs of `test_shards_kill.py`: one forks writers and kills them, one reads meanwhile.

    python killed_writers.py kill PATH KILLS SEED THREADS
    python killed_writers.py read PATH

The first element of an inner chunk is a counter that determines all others. A mix of two writes is
therefore detected.
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
    """Returns the elements of an inner chunk. Its compressed length varies randomly."""
    values = (STEPS * (value | 1)) >> (value % 29)
    values[0] = value
    return values


def value_of(found: np.ndarray[Any, Any]) -> int:
    """Returns the counter of an inner chunk. Fails if the chunk mixes several writes."""
    value = int(found[0])
    if value == 0:
        assert not found.any(), "half of nothing"
    else:
        assert np.array_equal(found, contents(value)), f"torn: {value}"
    return value


def columns(first: int, behind: int) -> slice:
    """Returns the elements of adjacent inner chunks."""
    return slice(first * LENGTH, behind * LENGTH)


def write(z: hs.Array, count: np.ndarray[Any, Any], seed: int) -> None:
    """Replaces one or several inner chunks at a time, until killed."""
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
    """Forks writers and kills each in the middle of its work."""
    hs.config.threads = threads
    z = hs.open_array(path, mode="r+")
    z[...]
    # Number of started writes. Shared with the children, so that values never repeat.
    count = np.frombuffer(mmap.mmap(-1, 8), "i8")
    for _ in support.killed(lambda: write(z, count, seed), kills, seed, 0.008):
        pass
    print(int(count[0]))


def watch(path: Path, seed: int, go_on: Callable[[], bool]) -> int:
    """Reads whole arrays, rows and inner chunks and checks that no value gets older.

    Returns the number of reads.
    """
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
                # Zeros have no age.
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
