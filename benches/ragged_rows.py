"""The rows of elements of variable length, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from contenders import Spec
from operations import Part
from ragged import CELLS, ROWS, Rows, Texts, rows


def nothing_in(spec: Spec) -> list[Part]:
    """The operations create their files themselves."""
    import numpy as np

    return [(Ellipsis, np.zeros(1))]


def ragged(quick: bool) -> Iterator[Any]:
    """Yields ragged-cells, ragged-gzip, ragged-text, ragged-zarr, ragged-order and ragged-many."""
    # Imported here because rows.py imports this file.
    from rows import Case, Target

    spec = Spec((CELLS,), (CELLS,), codec=None, hdf5="earliest")
    about = f"{CELLS} cells of {ROWS} structures of 12 bytes"
    for way, what, seconds in (
        ("whole", f"all of {about}", 100e-6),
        ("windows", f"{about}, in windows of 60", 150e-6),
        ("single", f"{about}, one by one", 1.2e-3),
        ("open", f"open a file, and all of {about}", 300e-6),
        ("objects", f"all of {about}, as an array of objects", None),
    ):
        goal = Target("h5py", 2.0) if seconds is None else Target("seconds", seconds)
        yield Case("ragged-cells", way, what, spec, nothing_in, Rows(way), (goal,))

    count = 2000 if quick else 100_000
    chunked = replace(spec, shape=(count,), chunks=(count // 100,), codec="gzip")
    what = f"{count} rows of 0 to 30 i4, in 100 gzip chunks"
    yield Case(
        "ragged-gzip", "all", what, chunked, nothing_in, Rows("whole", rows), (Target("h5py", 5.0),), rounds=3
    )

    count = 5000 if quick else 200_000
    text = Spec((count,), (count,), codec=None, hdf5="earliest")
    stored = Spec((count,), (count // 20,), codec="zstd")
    for name, of, peer in (("ragged-text", text, "h5py"), ("ragged-zarr", stored, "zarr")):
        for way, target in (
            ("arrow", Target("seconds", count * 20e-9)),
            ("StringDType", Target(peer, 4.0)),
            ("objects", Target(peer, 2.0)),
        ):
            if name == "ragged-zarr" and way == "objects":
                continue
            nearest = "; others as StringDType" if way == "arrow" else ""
            kind = "HDF5" if of.hdf5 else "Zarr"
            what = f"{count} texts of about 14 bytes, {kind}, as {way}{nearest}"
            yield Case(name, way, what, of, nothing_in, Texts(way), (target,), rounds=3)

    count = 1000 if quick else 50_000
    random = replace(text, shape=(count,), chunks=(count,))
    what = f"{count} texts in random order of the heap; without: in order"
    yield Case(
        "ragged-order",
        "random",
        what,
        random,
        nothing_in,
        Texts("arrow", random=True),
        (Target("without", 1 / 1.5),),
        rounds=3,
    )

    for count in (2000, 20_000) if quick else (200_000, 2_000_000, 20_000_000):
        many = replace(text, shape=(count,), chunks=(count,))
        yield Case(
            "ragged-many",
            f"{count:,}".replace(",", " "),
            f"open a file, and {count} texts as Arrow (others as StringDType)",
            many,
            nothing_in,
            Texts("anew"),
            (Target("memory", 64 << 20),),
            memory=True,
            series=("texts", count),
            rounds=2,
        )
