"""The rows of HDF5, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from common import Array
from contenders import Spec
from hdf5_operations import AtOnce, ChunkIndexes, Lists, Points
from operations import Part, Reads

# Fields of 512² elements, stored 8 together in chunks of 128².
SHAPE, CHUNKS = (64, 512, 512), (8, 128, 128)


def counting(spec: Spec) -> list[Part]:
    """Returns distinct values that take no time to make."""
    return [(Ellipsis, np.arange(np.prod(spec.shape)).astype(spec.dtype).reshape(spec.shape))]


def some_points(count: int) -> Any:
    """Returns random elements in ascending order, without duplicates."""

    def coordinates(spec: Spec) -> tuple[Array, ...]:
        rng = np.random.default_rng(5)
        numbers = np.sort(rng.choice(int(np.prod(spec.shape)), count, replace=False))
        return np.unravel_index(numbers, spec.shape)

    return coordinates


def one_of_each(spec: Spec) -> tuple[Array, ...]:
    """Returns one element of each chunk of a one-dimensional array."""
    starts = np.arange(0, spec.shape[0], spec.chunks[0])
    return (starts + np.random.default_rng(6).integers(0, spec.chunks[0], len(starts)),)


def files(quick: bool) -> Iterator[Any]:
    """Yields hdf5-read, hdf5-codec, hdf5-points, hdf5-list, hdf5-index and hdf5-threads."""
    # Imported here because rows.py imports this file.
    from rows import Case, Target, ocean

    shape = (16, 256, 256) if quick else SHAPE
    spec = Spec(shape, CHUNKS, codec="gzip-4 + shuffle", hdf5="earliest")
    about = f"f4 {'×'.join(map(str, shape))}, chunks {'×'.join(map(str, CHUNKS))}"
    selections: dict[str, Any] = {"all": Ellipsis, "[i]": 13, "[:, i, j]": (slice(None), 100, 200)}
    both = (Target("h5py", 4.0), Target("limit", 0.9))
    for variant, selection in selections.items():
        read = Reads((selection,))
        what = f"read {variant} of {about}, gzip-4 + shuffle"
        yield Case("hdf5-read", f"gzip {variant}", what, spec, ocean, read, both, memory=variant == "all")
    target = (Target("h5py", 1.5),)
    for name, chunks in (("chunks", CHUNKS), ("contiguous", shape)):
        plain = replace(spec, codec=None, chunks=chunks)
        targets = target if name == "chunks" else (*target, Target("limit", 1.0))
        for variant, selection in selections.items():
            what = f"read {variant} of f4 {'×'.join(map(str, shape))}, {name}, no filter"
            yield Case("hdf5-read", f"{name} {variant}", what, plain, ocean, Reads((selection,)), targets)
    for codec in ("lzf", "zstd", "blosc", "bitshuffle-lz4"):
        what = f"read all of {about}, {codec}"
        yield Case(
            "hdf5-codec", codec, what, replace(spec, codec=codec), ocean, Reads(), (Target("h5py", 2.0),)
        )

    tenfold = (Target("h5py", 10.0),)
    count = 1000 if quick else 10_000
    filtered: tuple[tuple[str, str | None], ...] = (("", "gzip-4 + shuffle"), ("plain ", None))
    for prefix, filters in filtered:
        line = Spec((1_000_000,), (1000,), codec=filters, hdf5="earliest")
        field, by = replace(spec, codec=filters), filters or "no filter"
        what = f"one element of each of 1000 chunks of 1000 f4, {by}"
        operation = Points(one_of_each, "list")
        yield Case("hdf5-points", f"{prefix}1 of 1000", what, line, counting, operation, tenfold)
        for kind in ("mask", "points"):
            what = f"{count} elements anywhere in f4 {'×'.join(map(str, shape))}, {by}, by {kind}"
            operation = Points(some_points(count), kind)
            yield Case("hdf5-points", f"{prefix}{kind}", what, field, ocean, operation, tenfold)

    count = 500 if quick else 10_000
    for libver in ("earliest", "latest"):
        what = (
            f"open a file of {count} datasets, look at shape, type and attributes of each, format '{libver}'"
        )
        case = Case(
            "hdf5-list", libver, what, spec, counting, Lists(count, libver), (Target("h5py", 3.0),), rounds=3
        )
        # The operation lists a file of its own, so nothing is filled.
        yield replace(case, fill=lambda spec: [])

    many = 2000 if quick else 100_000
    for name, libver in (("B-tree 1", "earliest"), ("B-tree 2", "latest")):
        table = Spec((many // 100, 4 * 100), (1, 4), "u1", hdf5=libver)
        what = f"open a file and list {many} chunks, {name}"
        yield Case(
            "hdf5-index", name, what, table, counting, ChunkIndexes(), (Target("h5py", 5.0),), rounds=3
        )

    planes = tuple(
        (slice(t, t + 8), slice(y, y + 128), slice(x, x + 128))
        for t in range(0, shape[0], 8)
        for y in range(0, shape[1], 128)
        for x in range(0, shape[2], 128)
    )
    what = f"4 threads at once read one chunk after the other of {about}, gzip-4 + shuffle"
    yield Case("hdf5-threads", "4", what, spec, ocean, AtOnce(planes), (Target("without", 1.8),))
