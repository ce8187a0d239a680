"""`make bench`: the same work done by hyperslab, by other libraries, and by plain file I/O.

Within each round the contenders take turns (A B C, B A C, ...), so that whatever else the machine does hits
all of them alike. The first round warms the caches, checks every value, and is not counted. Medians are
reported.

    python benches/run.py                       everything
    python benches/run.py --row scan-zstd --quick
    python benches/run.py --list

To add a row, add an entry to ROWS: how to make the data, and what each contender then does with it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import Array, Contender, Spec, Timing, bytes_text, same_bits, seconds_text
from numcodecs import Zstd

# Where in the array, and which values.
Part = tuple[Any, Array]


@dataclass
class Row:
    """One piece of work on one array."""

    about: str
    spec: Spec
    # The values of the whole array, or of each part that is written.
    parts: Callable[[Spec], list[Part]]
    # What is read, one selection after the other; nothing means that writing `parts` is what is measured.
    reads: list[Any]
    # Repeats within one sample, for work that is too short for the clock.
    repeat: int = 1
    # Whether plain I/O can do the same: every chunk is one whole time step of a 4-D field.
    plain: bool = False


def ocean_parts(spec: Spec) -> list[Part]:
    """An ocean field, one time step after the other."""
    return list(enumerate(common.ocean_steps(spec.shape)))


def random_parts(spec: Spec) -> list[Part]:
    """A smooth random field in one piece."""
    rng = np.random.default_rng(1)
    values = rng.integers(-1000, 1000, spec.shape).astype(spec.dtype)
    return [(Ellipsis, np.cumsum(values, axis=-1, dtype=spec.dtype))]


def sparse_parts(spec: Spec) -> list[Part]:
    """One chunk in sixteen; the others stay absent."""
    size = spec.chunks[0]
    ones = np.ones(spec.chunks, spec.dtype)
    starts = range(0, spec.shape[0], size)
    return [
        ((slice(i, i + size), slice(j, j + size)), ones)
        for n, i in enumerate(starts)
        for m, j in enumerate(starts)
        if (n * len(starts) + m) % 16 == 0
    ]


def rows(quick: bool) -> dict[str, Row]:
    """All rows; the quick ones are small, and say whether things work rather than how fast they are."""
    steps, side = (8, 64) if quick else (50, 256)
    field = partial(Spec, (steps, 32, side, side), (1, 32, side, side))
    scan = list(range(steps))
    n = 8 if quick else 32
    whole = [Ellipsis]
    strides = (slice(None, None, 5), slice(None, None, 4), slice(None, None, 8), slice(None, None, 8))
    return {
        "append-plain": Row("write step by step, v3 plain", field(), ocean_parts, [], plain=True),
        "append-plain-v2": Row(
            "write step by step, v2 plain", field(zarr_format=2), ocean_parts, [], plain=True
        ),
        "append-zstd": Row("write step by step, v3 zstd", field(codec="zstd"), ocean_parts, [], plain=True),
        "scan-plain": Row("read step by step, v3 plain", field(), ocean_parts, scan, plain=True),
        "scan-zstd": Row("read step by step, v3 zstd", field(codec="zstd"), ocean_parts, scan, plain=True),
        "whole-zstd": Row("read all at once, v3 zstd", field(codec="zstd"), ocean_parts, whole, plain=True),
        "whole-blosc": Row("read all at once, v3 blosc lz4", field(codec="blosc"), ocean_parts, whole),
        "strided": Row("read [::5, ::4, ::8, ::8], v3 plain", field(), ocean_parts, [strides]),
        "multi-2d": Row(
            "read 400 × 400 of 100 × 100 gzip chunks",
            Spec((400, 400), (100, 100), "f8", codec="gzip"),
            random_parts,
            whole,
            repeat=10,
        ),
        "sparse": Row(
            "read all, 15 of 16 chunks absent, v3 zstd",
            Spec((n * 128, n * 128), (128, 128), "f8", codec="zstd"),
            sparse_parts,
            whole,
        ),
        "latency": Row(
            "read one row of 256 values, 200 times",
            Spec((200, 256), (1, 256), "f4"),
            random_parts,
            list(range(200)),
        ),
    }


ALL = list(common.CONTENDERS)


# ------------------------------------------------------------------------------------------ measuring


def measure(row: Row, directory: Path, contenders: list[Contender], rounds: int) -> dict[str, Timing]:
    """Times one row for all contenders, in turn, after checking what each has read or written."""
    parts = row.parts(row.spec)
    expected = np.full(row.spec.shape, row.spec.fill_value, row.spec.dtype)
    for where, values in parts:
        expected[where] = values
    scratch = directory / "scratch"
    common.remove(scratch)
    work = (
        reading(row, scratch, parts, expected, contenders)
        if row.reads
        else writing(row, scratch, parts, contenders)
    )

    timings = {name: Timing() for name in work}
    for number, name in common.turns(work, rounds):
        if not row.reads:
            common.remove(scratch / name)
        timing = Timing()
        with common.timed(timing):
            for _ in range(row.repeat):
                work[name]()
        if number >= 0:
            timings[name].samples.append(timing.samples[0] / row.repeat)
        elif not row.reads and name != "plain":
            zarr = common.contenders(["zarr"])[0]
            check(name, row, zarr.read(zarr.open(scratch / name), Ellipsis), expected)
    common.remove(scratch)
    return timings


def check(name: str, row: Row, found: Array, expected: Array) -> None:
    """Stops everything at a wrong value: fast and wrong is not fast."""
    if not same_bits(found, expected):
        sys.exit(f"wrong values: {name}, {row.about}")


def reading(
    row: Row, scratch: Path, parts: list[Part], expected: Array, contenders: list[Contender]
) -> dict[str, Callable[[], None]]:
    """What each contender does to read the row, from one array that zarr-python has written."""
    source = scratch / "source"
    write(common.contenders(["zarr"])[0], source, row.spec, parts)

    def reader(contender: Contender, array: Any) -> Callable[[], None]:
        def run() -> None:
            # Each result is dropped before the next is read, as a loop over time steps does.
            for where in row.reads:
                contender.read(array, where)

        return run

    work: dict[str, Callable[[], None]] = {}
    for contender in contenders:
        array = contender.open(source)
        try:
            contender.read(array, row.reads[0])
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"    left out: {contender.name}: {reason[:80]}", file=sys.stderr)
            continue
        for where in row.reads:
            check(contender.name, row, contender.read(array, where), expected[where])
        work[contender.name] = reader(contender, array)
    if row.plain:
        work["plain"] = plain_reader(source, row, expected)
    return work


def writing(
    row: Row, scratch: Path, parts: list[Part], contenders: list[Contender]
) -> dict[str, Callable[[], None]]:
    """What each contender does to write the row, from the creation of the array on."""

    def writer(contender: Contender) -> Callable[[], None]:
        return lambda: write(contender, scratch / contender.name, row.spec, parts)

    work = {contender.name: writer(contender) for contender in contenders}
    if row.plain:
        work["plain"] = plain_writer(scratch / "plain", row.spec, parts)
    return work


def write(contender: Contender, path: Path, spec: Spec, parts: list[Part]) -> None:
    """Makes the array and writes its parts."""
    array = contender.create(path, spec)
    for where, values in parts:
        contender.write(array, where, values)


def plain_reader(source: Path, row: Row, expected: Array) -> Callable[[], None]:
    """Chunk files read into memory that is there already, and zstd decoded by numcodecs.

    Step by step that is one after the other into one buffer; all at once it is on every core, each to its
    place.
    """
    files = [source / f"c/{step}/0/0/0" for step in range(row.spec.shape[0])]
    by_step = len(row.reads) > 1
    out = np.ones_like(expected[:1] if by_step else expected)
    pool = ThreadPoolExecutor()

    def read_one(step: int) -> None:
        place = out[0 if by_step else step]
        if row.spec.codec is None:
            common.plain_read(files[step], place)
        else:
            Zstd(3).decode(files[step].read_bytes(), place)

    def run() -> None:
        steps = range(len(files))
        for _ in map(read_one, steps) if by_step else pool.map(read_one, steps):
            pass

    run()
    check("plain", row, out, expected[-1:] if by_step else expected)
    return run


def plain_writer(path: Path, spec: Spec, parts: list[Part]) -> Callable[[], None]:
    """Chunk files written one after the other, after numcodecs' zstd where the row has it."""

    def run() -> None:
        path.mkdir(parents=True)
        for name, values in parts:
            if spec.codec is None:
                common.plain_write(path / str(name), values)
            else:
                (path / str(name)).write_bytes(Zstd(3).encode(values))

    return run


# ------------------------------------------------------------------------------------------- reporting


def report(results: dict[str, dict[str, Any]], names: list[str]) -> str:
    """A Markdown table: hyperslab's time and rate, and how many times as long everybody else takes."""
    others = [name for name in [*names, "plain"] if name != "hyperslab"]
    lines = []
    for name, result in results.items():
        seconds = result["seconds"]
        ours = seconds["hyperslab"]
        line = [name, bytes_text(result["bytes"]), seconds_text(ours), f"{result['bytes'] / ours / 1e9:.2f}"]
        line += [f"{seconds[other] / ours:.2f}×" if other in seconds else "–" for other in others]
        lines.append(line)
    return common.table(["row", "size", "hyperslab", "GB/s", *others], lines, markdown=True)


def main() -> None:
    """Measures the rows named on the command line, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="append", help="measure only this row (may be given again)")
    parser.add_argument("--quick", action="store_true", help="small data, few rounds: does it work?")
    parser.add_argument("--rounds", type=int, help="how often each contender is timed (default 7, quick 3)")
    parser.add_argument(
        "--contender", action="append", choices=ALL, help="measure only hyperslab and this one"
    )
    parser.add_argument("--dir", type=Path, default=Path("build/bench"), help="where data goes (%(default)s)")
    parser.add_argument("--json", type=Path, help="also write all samples to this file")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    arguments = parser.parse_args()

    chosen = rows(arguments.quick)
    if arguments.list:
        print(common.table(("row", "what"), [(name, row.about) for name, row in chosen.items()]))
        return
    if unknown := set(arguments.row or ()) - set(chosen):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(chosen)}")
    if arguments.row:
        chosen = {name: chosen[name] for name in arguments.row}
    names = ["hyperslab", *(name for name in arguments.contender or ALL if name != "hyperslab")]
    contenders = common.contenders(names)
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    arguments.dir.mkdir(parents=True, exist_ok=True)

    print(common.machine())
    results: dict[str, dict[str, Any]] = {}
    for name, row in chosen.items():
        print(f"  {name}: {row.about}", flush=True)
        timings = measure(row, arguments.dir, contenders, rounds)
        itemsize = np.dtype(row.spec.dtype).itemsize
        probe = np.broadcast_to(np.empty((), row.spec.dtype), row.spec.shape)
        size = (
            sum(probe[where].size for where in row.reads) * itemsize if row.reads else probe.size * itemsize
        )
        results[name] = {
            "about": row.about,
            "bytes": size,
            "seconds": {who: timing.median for who, timing in timings.items()},
            "samples": {who: timing.samples for who, timing in timings.items()},
        }
    print("\nTimes others take, as multiples of hyperslab's (above 1: hyperslab is faster)\n")
    print(report(results, [contender.name for contender in contenders]))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"machine": common.machine(), "rows": results}, indent=2) + "\n")
        print(f"\nAll samples: {arguments.json}")


if __name__ == "__main__":
    main()
