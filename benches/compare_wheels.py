"""Compares two wheels of hyperslab: the effect of another compiler or other flags.

    python benches/compare_wheels.py BASE.whl OTHER.whl

Each wheel runs in its own process. The processes take turns, on one thread, with arrays in memory.
The least processor time of many calls counts, so that other work on the machine matters little.
Both wheels must store the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np

CHUNK = (1, 512, 512)
"""Shape of a chunk: 1 MiB of float32."""
STEPS = 4
SHUFFLE = {"id": "shuffle", "elementsize": 4}
CODECS: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "shuffle": [SHUFFLE],
    "zstd-1": [{"id": "zstd", "level": 1}],
    "zstd-3": [{"id": "zstd", "level": 3}],
    "zstd-3, shuffled": [SHUFFLE, {"id": "zstd", "level": 3}],
    "gzip-5": [{"id": "gzip", "level": 5}],
    "gzip-5, shuffled": [SHUFFLE, {"id": "gzip", "level": 5}],
    "lz4, shuffled": [SHUFFLE, {"id": "lz4", "acceleration": 1}],
    "blosc-lz4": [{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}],
    "blosc-zstd, bits": [{"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2}],
    "lzma-1": [{"id": "lzma", "preset": 1}],
}
"""Row names, with the codecs of their chunks as Zarr v2 writes them."""


def split(chain: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns arguments of `create_array`: SHUFFLE as a filter, all other codecs as compressors."""
    filters = [codec for codec in chain if codec is SHUFFLE]
    return {
        "filters": filters or None,
        "compressors": [codec for codec in chain if codec is not SHUFFLE] or None,
    }


def elements(array: Any) -> None:
    """Reads 100 elements with one call each."""
    for i in range(100):
        array[1, 2, i]


def prepare() -> tuple[dict[str, Callable[[], Any]], str]:
    """Returns the timed calls by row name, and a hash of all stored bytes."""
    import hyperslab as hs

    hs.config.set(threads=1)
    field = np.stack(list(common.ocean_steps((STEPS, *CHUNK[1:]))))
    out = np.empty_like(field)
    stored = hashlib.sha256()
    calls: dict[str, Callable[[], Any]] = {}
    for name, chain in CODECS.items():
        how: dict[str, Any] = {"data": field, "chunks": CHUNK, "zarr_format": 2} | split(chain)
        kept: dict[str, bytes] = {}
        hs.create_array(kept, **how)
        for key in sorted(kept):
            stored.update(key.encode() + kept[key])
        array = hs.create_array(hs.MemoryStore(), **how)
        assert np.array_equal(array[:], field)
        calls[f"{name}: read"] = partial(array.read, out=out)
        calls[f"{name}: write"] = partial(array.__setitem__, ..., field)
        if not chain:
            calls["plain: every other element"] = partial(array.__getitem__, np.s_[:, ::2, ::2])
            calls["plain: 100 elements"] = partial(elements, array)
    return calls, stored.hexdigest()


def work() -> None:
    """Runs in the process of one wheel. Reads row names from stdin, prints seconds of one call."""
    calls, stored = prepare()
    print("\t".join([stored, *calls]), flush=True)
    for line in sys.stdin:
        call = calls[line.rstrip("\n")]
        start = time.process_time()
        call()
        print(time.process_time() - start, flush=True)


class Worker:
    """A process that unpacks one wheel and imports it."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            env=os.environ | {"PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stored, *self.rows = self._line().split("\t")

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a wheel does not work here: see above")
        return line.rstrip("\n")

    def seconds(self, row: str) -> float:
        """Returns the processor time of one call."""
        assert self.process.stdin is not None
        print(row, file=self.process.stdin, flush=True)
        return float(self._line())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", type=Path, help="the wheel that is 1.00")
    parser.add_argument("other", type=Path, help="the wheel that is compared with it")
    parser.add_argument("--rounds", type=int, default=30, help="calls of each row and wheel")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Worker(arguments.base, Path(folder, "base"))
        other = Worker(arguments.other, Path(folder, "other"))
        if base.stored != other.stored:
            sys.exit("the wheels store different bytes: they cannot be compared")
        rows = []
        for row in base.rows:
            times: list[tuple[float, float]] = []
            for number in range(arguments.rounds):
                if number % 2:
                    times.append((base.seconds(row), other.seconds(row)))
                else:
                    second = other.seconds(row)
                    times.append((base.seconds(row), second))
            best, second = (min(each) for each in zip(*times, strict=True))
            rows.append((row, *map(common.seconds_text, (best, second)), f"{second / best:.2f}"))
    print(common.table(("", "base", "other", "other / base"), rows, left=1))


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        main()
