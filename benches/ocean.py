"""`make run`: the whole way from one library to the other, on realistic data.

1. zarr-python writes an ocean data set: Zarr v2, uncompressed. 2. The command `hyperslab copy`
makes a compressed Zarr v3 copy. 3. Every value and attribute is compared with zarr-python's
reading, bit for bit. 4. hyperslab, zarr-python and plain file I/O write and read slabs in turn, and
are timed.

Exits with status 1 if one value differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import struct
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import common
import hyperslab as hs
import machine
import numpy as np
import zarr
from common import Array, Timing, bytes_text, same_bits, seconds_text
from contenders import Contender, Spec
from contenders import contenders as contenders_named
from numcodecs import Zstd

ROOT = Path(__file__).parent.parent
COPY_OPTIONS = ["--zarr-format", "3", "--codec", "zstd:3", "--verify"]


def main() -> None:
    """Runs all four parts."""
    arguments = parse_arguments()
    directory: Path = arguments.dir
    shape = (10, 8, 128, 128) if arguments.quick else (50, 32, 256, 256)
    source, copy = directory / "ocean-v2.zarr", directory / "ocean-v3.zarr"
    for path in (source, copy):
        common.remove(path)
    directory.mkdir(parents=True, exist_ok=True)

    print(f"hyperslab {hs.__version__}, zarr-python {zarr.__version__}, Python {platform.python_version()}")
    print(machine.one_line())
    need = 4 * int(np.prod(shape)) * 4
    print(f"Data: {directory} (up to {bytes_text(need)} of disk; remove it when you like)")

    heading("1. zarr-python writes an ocean: Zarr v2, uncompressed")
    steps = list(common.ocean_steps(shape))
    write_ocean(source, steps)
    describe(source)

    heading("2. hyperslab copies it to compressed Zarr v3")
    copy_with_command(source, copy)
    before, after = common.disk_usage(source), common.disk_usage(copy)
    print(f"  {bytes_text(before)} → {bytes_text(after)} on disk, ratio {before / after:.2f}")

    heading("3. Every value and attribute, compared with zarr-python bit for bit")
    differences = compare_hierarchies(source, copy) + compare_slabs(source, copy)
    if differences:
        print(f"\n{differences} differences", file=sys.stderr)
        sys.exit(1)

    heading("4. How fast (median; warm; in turn)")
    measure(directory, source, copy, steps, arguments.rounds)
    print(f"\nEverything agrees. The data stays in {directory}.")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small data set (5 MB instead of 500 MB)")
    parser.add_argument(
        "--dir", type=Path, default=Path("build/run"), help="where the data goes (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each thing is timed (%(default)s)")
    return parser.parse_args()


def heading(text: str) -> None:
    """Prints a heading."""
    print(f"\n{text}\n{'─' * len(text)}", flush=True)


# ---------------------------------------------------------------------------------- 1. the data set


def write_ocean(path: Path, steps: list[Array]) -> None:
    """Writes a small model's output: fields in groups, coordinates, attributes.

    One chunk holds one time step.
    """
    _, depth, lat, lon = shape = (len(steps), *steps[0].shape)
    root = zarr.create_group(
        path, zarr_format=2, attributes={"title": "synthetic ocean", "Conventions": "CF-1.11"}
    )

    def create(
        name: str, dims: str, dtype: str, chunks: tuple[int, ...] | None = None, **attributes: Any
    ) -> Any:
        names = dims.split()
        size = tuple(dict(zip(["time", "depth", "lat", "lon"], shape, strict=True))[dim] for dim in names)
        return root.create_array(
            name,
            shape=size,
            chunks=chunks or size,
            dtype=dtype,
            compressors=None,
            filters=None,
            attributes={"_ARRAY_DIMENSIONS": names, **attributes},
        )

    create("time", "time", "<f8", units="days since 2000-01-01", calendar="gregorian")[:] = np.arange(
        len(steps)
    )
    create("depth", "depth", "<f4", units="m", positive="down")[:] = np.geomspace(1, 5000, depth)
    create("lat", "lat", "<f8", units="degrees_north")[:] = np.linspace(-60, 60, lat)
    create("lon", "lon", "<f8", units="degrees_east")[:] = np.linspace(0, 360, lon, endpoint=False)

    whole = (1, depth, lat, lon)
    temperature = create(
        "ocean/temperature", "time depth lat lon", "<f4", whole, units="degC", fill_value=None
    )
    for step, values in enumerate(steps):
        temperature[step] = values
    # A second field is cut the other way: reading a time step crosses many chunks.
    salinity = create(
        "ocean/salinity", "time depth lat lon", ">f4", (shape[0], 1, lat // 2, lon // 2), units="1e-3"
    )
    salinity[:, : depth // 4] = np.stack([values[: depth // 4] for values in steps]) * np.float32(
        0.25
    ) + np.float32(35)
    height = create("surface/height", "time lat lon", "<i2", (10, lat, lon), scale_factor=0.001, units="m")
    height[:] = np.stack([values[0] * 100 for values in steps]).astype("i2")


def arrays_below(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields names and arrays of a hierarchy, as zarr-python reads it."""
    for name, node in sorted(zarr.open_group(path, mode="r").members(max_depth=None)):
        if isinstance(node, zarr.Array):
            yield name, node


def describe(path: Path) -> None:
    """Prints the arrays of a hierarchy."""
    rows = [
        (name, str(array.dtype), str(array.shape), str(array.chunks), bytes_text(array.nbytes))
        for name, array in arrays_below(path)
    ]
    print(common.table(("array", "dtype", "shape", "chunks", "size"), rows))


# -------------------------------------------------------------------------------------- 2. the copy


def hyperslab_command(*arguments: str | Path) -> list[str]:
    """Returns the command that the wheel installed beside this Python."""
    return [str(Path(sys.executable).parent / "hyperslab"), *map(str, arguments)]


def copy_with_command(source: Path, copy: Path) -> None:
    """Runs the copy as a user would, with its progress on the terminal."""
    command = hyperslab_command("copy", source, copy, *COPY_OPTIONS)
    print("  $ hyperslab " + " ".join(command[1:]), flush=True)
    start = time.perf_counter()
    status = subprocess.run(command).returncode
    if status:
        sys.exit(f"hyperslab copy failed with exit status {status}")
    print(f"  took {seconds_text(time.perf_counter() - start)}, verification included")


# -------------------------------------------------------------------------------- 3. the comparison


def attributes(array: Any) -> dict[str, Any]:
    """Returns the attributes of an array with the names of its axes.

    Zarr v2 stores the names among the attributes, v3 apart from them.
    """
    names = getattr(array.metadata, "dimension_names", None)
    return dict(array.attrs) | ({"_ARRAY_DIMENSIONS": list(names)} if names else {})


def attributes_of_copy(array: Any, zarr_format: int) -> dict[str, Any]:
    """Returns the attributes of a copy of a Zarr v2 array as xarray expects them.

    Elements that equal the fill value are missing. In Zarr v3 the attribute ``_FillValue`` has this
    value: a float is its eight bytes in base 64.
    """
    fill = array.fill_value
    if zarr_format == 2 or fill is None:
        return attributes(array)
    is_float = array.dtype.kind == "f"
    return attributes(array) | {
        "_FillValue": b64encode(struct.pack("<d", fill)).decode() if is_float else int(fill)
    }


def compare_hierarchies(source: Path, copy: Path) -> int:
    """Returns the number of nodes that differ between source and copy, read by both libraries."""
    wrong = 0
    readers = {
        "the source read by hyperslab": hs.open_group(source, mode="r"),
        "the copy read by hyperslab": hs.open_group(copy, mode="r"),
        "the copy read by zarr-python": zarr.open_group(copy, mode="r"),
    }
    compared = 0
    for what, root in readers.items():
        for name, expected in arrays_below(source):
            found: Any = root[name]
            wanted = attributes_of_copy(expected, found.metadata.zarr_format)
            same = found.shape == expected.shape and attributes(found) == wanted
            # One row of chunks at a time keeps memory small.
            for start in range(0, expected.shape[0], expected.chunks[0]):
                rows = slice(start, start + expected.chunks[0])
                values = expected[rows]
                # Compare values only: byte order is a property of the storage.
                same = same and same_bits(np.asarray(found[rows]).astype(values.dtype), values)
                compared += values.size
            if not same:
                print(f"  {name} differs: {what}")
                wrong += 1
        for group in ("", "ocean", "surface"):
            expected_attributes = dict(zarr.open_group(source, path=group, mode="r").attrs)
            if dict((root[group] if group else root).attrs) != expected_attributes:
                print(f"  attributes of group /{group} differ: {what}")
                wrong += 1
    count = sum(1 for _ in arrays_below(source))
    print(f"  {compared:,} values of {count} arrays compared, {wrong} arrays or groups differ")
    return wrong


def slabs(shape: tuple[int, ...]) -> dict[str, Any]:
    """Returns the common ways to cut such a field."""
    steps, depth, lat, lon = shape
    every = slice(None)
    return {
        "whole": (every, every, every, every),
        "time step": (steps // 2,),
        "column": (every, every, lat // 2, lon // 3),
        "plane": (every, depth // 3),
        "strided": (slice(None, None, 5), slice(None, None, 4), slice(3, None, 8), slice(None, None, 8)),
        "tile": (
            slice(steps // 5, 2 * steps // 5),
            every,
            slice(lat // 4, 3 * lat // 4),
            slice(lon // 4, 3 * lon // 4),
        ),
    }


def compare_slabs(source: Path, copy: Path) -> int:
    """Returns the number of slabs that hyperslab and zarr-python read differently.

    Some slabs are reversed.
    """
    wrong = compared = 0
    for name in ("ocean/temperature", "ocean/salinity"):
        for path in (source, copy):
            theirs, ours = zarr.open_group(path, mode="r")[name], hs.open_group(path, mode="r")[name]
            assert isinstance(theirs, zarr.Array) and isinstance(ours, hs.Array)
            for slab, selection in slabs(theirs.shape).items():
                expected = np.asarray(theirs[selection])
                backwards = tuple(slice(None, None, -1) if s == slice(None) else s for s in selection)
                flip = tuple(
                    slice(None, None, -1 if s == slice(None) else 1)
                    for s in selection
                    if isinstance(s, slice)
                )
                for found, wanted in ((ours[selection], expected), (ours[backwards], expected[flip])):
                    compared += 1
                    if not same_bits(np.asarray(found).astype(wanted.dtype), wanted):
                        print(f"  {name}, {slab} differs in {path.name}")
                        wrong += 1
    print(f"  {compared} slabs compared, {wrong} differ")
    return wrong


# ------------------------------------------------------------------------------- 4. the measurement


@dataclass
class Work:
    """One row of the table. Each contender has a `prepare`, not timed, and a `run`, timed."""

    name: str
    size: int
    run: dict[str, Callable[[], Any]]
    prepare: Callable[[], None] = lambda: None
    timings: dict[str, Timing] = field(default_factory=dict)


def measure(directory: Path, source: Path, copy: Path, steps: list[Array], rounds: int) -> None:
    """Times reading and writing and prints the table. Contenders take turns in each round."""
    ours, theirs, *fused = contenders_named(["hyperslab", "zarr", "fused"])
    contenders = [ours, theirs, *fused]
    shape = (len(steps), *steps[0].shape)
    pool = ThreadPoolExecutor(os.cpu_count())
    works = [
        *(write_work(directory / "scratch", codec, steps, contenders) for codec in (None, "zstd")),
        copy_work(directory / "scratch", source, contenders),
    ]
    for title, root, codec in (("v2 plain", source, None), ("v3 zstd", copy, Zstd(3))):
        for slab, selection in slabs(shape).items():
            works.append(
                read_work(
                    f"read {title}: {slab}", root / "ocean/temperature", selection, contenders, codec, pool
                )
            )

    for work in works:
        # Three rounds are enough for writing: it takes long and varies little.
        for number, name in common.turns(
            work.run, rounds if work.name.startswith("read") else min(rounds, 3)
        ):
            work.prepare()
            timing = Timing()
            with common.timed(timing):
                result = work.run[name]()
            del result
            if number >= 0:
                work.timings.setdefault(name, Timing()).samples += timing.samples
        if sys.stdout.isatty():
            print(f"  measured: {work.name}".ljust(60), end="\r", flush=True)
    common.remove(directory / "scratch")
    print(results_table(works, contenders))
    print(NOTE)


NOTE = """
size: bytes of the values. ×: time as a multiple of hyperslab's.
plain: whole files with read() and write(), into memory that is already mapped; parts with mmap;
compressed chunks with numcodecs' zstd, many at once on all cores.
column: [:, :, y, x]. plane: [:, z]. strided: [::5, ::4, 3::8, ::8]. tile: 1/5 of time, 1/4 of area."""


def results_table(works: list[Work], contenders: list[Contender]) -> str:
    """Returns hyperslab's time and rate, then the others' times and their ratios to it."""
    others = [contender.name for contender in contenders[1:]] + ["plain"]
    rows = []
    for work in works:
        time_taken = work.timings["hyperslab"].median
        rate = f"{work.size / time_taken / 1e9:.2f}" if work.size >= 100_000 else "–"
        row = [work.name, bytes_text(work.size), seconds_text(time_taken), rate]
        for name in others:
            if name in work.timings:
                other = work.timings[name].median
                row += [seconds_text(other), f"{other / time_taken:.2f}"]
            else:
                row += ["–", "–"]
        rows.append(row)
    header = ["", "size", "hyperslab", "GB/s"]
    for name in others:
        header += [name, "×"]
    return common.table(header, rows)


def write_work(
    scratch: Path,
    codec: str | None,
    steps: list[Array],
    contenders: list[Contender],
) -> Work:
    """Writes the field one time step after the other, like a model."""
    spec = Spec(
        shape=(len(steps), *steps[0].shape),
        chunks=(1, *steps[0].shape),
        zarr_format=2 if codec is None else 3,
        codec=codec,
    )

    def write(contender: Contender) -> None:
        array = contender.create(scratch, spec)
        for step, values in enumerate(steps):
            contender.write(array, step, values)

    def write_plain() -> None:
        scratch.mkdir(parents=True)
        for step, values in enumerate(steps):
            if codec is None:
                common.plain_write(scratch / str(step), values)
            else:
                (scratch / str(step)).write_bytes(Zstd(3).encode(values))

    run: dict[str, Callable[[], Any]] = {c.name: partial(write, c) for c in contenders}
    run["plain"] = write_plain
    title = "v2 plain" if codec is None else f"v3 {codec}"
    return Work(f"write {title}, by step", sum(v.nbytes for v in steps), run, lambda: common.remove(scratch))


def copy_work(scratch: Path, source: Path, contenders: list[Contender]) -> Work:
    """The copy of part 2 without verification, compared with the obvious loop in zarr-python."""

    def copy_ours() -> None:
        options = [option for option in COPY_OPTIONS if option != "--verify"]
        subprocess.run(hyperslab_command("copy", source, scratch, *options), check=True, capture_output=True)

    def copy_theirs(contender: Contender) -> None:
        for name, _ in arrays_below(source):
            reading = contender.open(source / name)
            spec = Spec(reading.shape, reading.chunks, reading.dtype.str, codec="zstd")
            writing = contender.create(scratch / name, spec)
            for start in range(0, reading.shape[0], reading.chunks[0]):
                rows = slice(start, start + reading.chunks[0])
                writing[rows] = reading[rows]

    run: dict[str, Callable[[], Any]] = {"hyperslab": copy_ours}
    run |= {c.name: partial(copy_theirs, c) for c in contenders[1:]}
    size = sum(array.nbytes for _, array in arrays_below(source))
    return Work("copy to v3 zstd, command", size, run, lambda: common.remove(scratch))


def read_work(
    name: str,
    path: Path,
    selection: Any,
    contenders: list[Contender],
    codec: Zstd | None,
    pool: ThreadPoolExecutor,
) -> Work:
    """Reads one slab of an open array."""
    opened = {contender.name: contender.open(path) for contender in contenders}
    array = opened["zarr"]
    expected = np.asarray(array[selection])
    run: dict[str, Callable[[], Any]] = {
        c.name: partial(c.read, opened[c.name], selection) for c in contenders
    }

    steps, chunk_shape = array.shape[0], array.shape[1:]
    one_step = isinstance(selection[0], int)
    touched_steps = range(steps)[selection[0]] if not one_step else [selection[0]]
    files = [path / (f"c/{t}/0/0/0" if codec else f"{t}.0.0.0") for t in touched_steps]
    if not files[0].exists():
        files = [path / f"{t}/0/0/0" for t in touched_steps]
    out: Array = np.ones(expected.shape, expected.dtype)
    views: list[Array] = [out] if one_step else list(out)
    within = selection[1:]
    contiguous = within in ((), (slice(None),) * 3)

    def read_part(index: int) -> None:
        if codec:
            chunk = np.frombuffer(codec.decode(files[index].read_bytes()), "<f4").reshape(chunk_shape)
            views[index][...] = chunk[within]
        elif contiguous:
            common.plain_read(files[index], views[index])
        else:
            views[index][...] = np.memmap(files[index], "<f4", "r", shape=chunk_shape)[within]

    def read_plain() -> None:
        for _ in pool.map(read_part, range(len(files))) if codec else map(read_part, range(len(files))):
            pass

    read_plain()
    assert same_bits(out, expected), f"the plain way reads {name} wrongly"
    run["plain"] = read_plain
    return Work(name, expected.nbytes, run)


if __name__ == "__main__":
    main()
