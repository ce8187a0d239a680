"""Kinds of elements and nodes, compared with zarr-python and with each other.

Covers fields, masks, text, small numbers and large groups.

    python benches/kinds.py

The ratio is the other's time divided by hyperslab's: 2 × means twice as fast.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import hyperslab as hs
import ml_dtypes
import numpy as np
import zarr

ROUNDS = 9
Work = Callable[[], Any]


def compare(name: str, other: str, ours: Work, theirs: Work, rounds: int = ROUNDS) -> tuple[str, ...]:
    """Returns a row of two works that take turns."""
    works = {"ours": ours, "theirs": theirs}
    timings = {who: common.Timing() for who in works}
    for number, who in common.turns(works, rounds):
        with common.timed(common.Timing() if number < 0 else timings[who]):
            found = works[who]()
        del found
    mine, peer = timings["ours"].median, timings["theirs"].median
    return name, common.seconds_text(mine), other, common.seconds_text(peer), f"{peer / mine:.2f} ×"


def fields(path: Path) -> tuple[str, ...]:
    """Measures one field of a structured array without codecs."""
    dtype = np.dtype([("a", "i4"), ("b", "f8"), ("c", "f4")])
    values = np.zeros(6_000_000, dtype)
    values["b"] = np.arange(len(values))
    z = hs.create_array(path / "s", data=values, chunks=(250_000,), zarr_format=2, compressors=None)
    peer = zarr.open_array(path / "s", mode="r")
    assert np.array_equal(z["b"], peer[:]["b"])
    return compare(
        "one field of 96 MB", "zarr-python", lambda: z["b"], lambda: np.ascontiguousarray(peer[:]["b"])
    )


def masks(path: Path, codec: Any) -> tuple[str, ...]:
    """Compares a masked read with a plain one."""
    values = np.random.default_rng(0).integers(0, 50, 25_000_000).astype("f4")
    z = hs.create_array(
        path / "m", data=values, chunks=(250_000,), fill_value=7, compressors=codec, overwrite=True
    )
    name = "masked read of 100 MB" + (", zstd" if codec else "")
    return compare(name, "plain read", lambda: z.read(masked=True), z.read)


def text(path: Path) -> tuple[str, ...]:
    """Measures the writing of short strings."""
    rng = np.random.default_rng(0)
    words = np.array(
        [f"station {number}" for number in rng.integers(0, 100_000, 1_000_000)], np.dtypes.StringDType()
    )
    how: dict[str, Any] = {"shape": words.shape, "chunks": (100_000,)}
    z = hs.create_array(path / "t", dtype="string", compressors=hs.codecs.Zstd(level=3), **how)
    peer = zarr.create_array(path / "u", dtype=str, compressors=zarr.codecs.ZstdCodec(level=3), **how)

    def ours() -> None:
        z[:] = words

    def theirs() -> None:
        peer[:] = words

    return compare("1 M short strings, zstd: write", "zarr-python", ours, theirs)


def small(path: Path, dtype: Any, like: str) -> tuple[str, ...]:
    """Compares a small number type with a NumPy type of the same size and bytes."""
    dtype = np.dtype(dtype)
    values = np.random.default_rng(0).integers(-8, 8, 100_000_000 // dtype.itemsize, dtype="i1").astype(dtype)
    how: dict[str, Any] = {"chunks": (1 << 20,), "compressors": hs.codecs.Zstd(level=1)}
    z = hs.create_array(path / "n", data=values, overwrite=True, **how)
    same = hs.create_array(path / "o", data=values.view(like), overwrite=True, **how)
    return compare(f"{dtype.name}, 100 MB, zstd", like, z.read, same.read)


def group(path: Path, consolidated: bool) -> tuple[str, ...]:
    """Measures opening a group of 10 000 arrays, listing it and reading all attributes."""
    if not (path / "g").exists():
        root = hs.create_group(path / "g")
        for number in range(10_000):
            root.create_array(f"a{number:05}", shape=(10,), dtype="f4", attributes={"number": number})
    if consolidated:
        hs.consolidate_metadata(path / "g")

    def walk(library: Any) -> int:
        return sum(array.attrs["number"] for _, array in library.open_group(path / "g", mode="r").members())

    name = "10 000 arrays: open, list, attributes" + (", consolidated" if consolidated else "")
    return compare(name, "zarr-python", lambda: walk(hs), lambda: walk(zarr), rounds=2)


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        rows = [
            fields(path),
            masks(path, None),
            masks(path, hs.codecs.Zstd(level=1)),
            text(path),
            small(path, ml_dtypes.int4, "i1"),
            small(path, ml_dtypes.bfloat16, "i2"),
            group(path, False),
            group(path, True),
        ]
    print(common.table(("work", "ours", "beside", "", "as fast"), rows, left=1))


if __name__ == "__main__":
    main()
