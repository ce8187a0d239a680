"""All HDF5 files of other projects, read side by side with h5py.

Compares structure, links, attributes, types and values. EXPECTED lists the allowed differences with
their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  (the filters of the plug-ins' files)
import hyperslab as hs
import numpy as np
import pytest

# Properties that must equal h5py's.
PROPERTIES = (
    *("shape", "maxshape", "chunks", "size", "ndim", "nbytes", "is_virtual", "is_scale"),
    *("compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset"),
)

# Parts of a difference's message, and the reason why it is allowed.
EXPECTED = {
    ("ours is refused", "the filter mafisc"): "no public specification",
    ("ours is refused", "the filter sz "): "no specification but its code",
    (
        "theirs is refused",
        "can't open directory",
    ): "a filter that hdf5plugin lacks, and that reading does nothing for",
    (
        "theirs is refused",
        "global heap size is too small",
    ): "the library wants 4 KiB; smaller heaps can be read",
    (
        "attr_datatypes",
        "vlen_uint64",
        "dtype='>u8'",
    ): "h5py takes the bytes of big-endian rows for native ones",
}


def same_dtype(ours: np.dtype[Any], theirs: np.dtype[Any]) -> bool:
    """Compares data types and h5py's metadata. Each library has its own reference classes."""
    mine, other = dict(ours.metadata or {}), dict(theirs.metadata or {})
    if {*mine} != {*other}:
        return False
    for key, value in other.items():
        match key, value:
            case "ref", _:
                same = mine[key].__name__ == value.__name__
            case "vlen", np.dtype():
                same = same_dtype(mine[key], value)
            case _:
                same = mine[key] == value
        if not same:
            return False
    if theirs.subdtype or ours.subdtype:
        return bool(ours.subdtype and theirs.subdtype) and (
            ours.subdtype[1] == theirs.subdtype[1] and same_dtype(ours.subdtype[0], theirs.subdtype[0])
        )
    if theirs.names:
        return (
            ours.names == theirs.names
            and ours.itemsize == theirs.itemsize
            and all(ours.fields[name][1] == theirs.fields[name][1] for name in theirs.names)
            and all(same_dtype(ours[name], theirs[name]) for name in theirs.names)
        )
    return ours.str == theirs.str


def same(ours: Any, theirs: Any) -> bool:
    """Compares Python type, data type, shape and bits, also within structures and objects."""
    match theirs:
        case h5py.Empty():
            return isinstance(ours, hs.Empty) and same_dtype(ours.dtype, theirs.dtype)
        case h5py.Reference() | h5py.RegionReference():
            return isinstance(ours, hs.Reference) and bool(ours) == bool(theirs)
        case np.ndarray() if not isinstance(ours, np.ndarray) or ours.shape != theirs.shape:
            return False
        case np.ndarray() if theirs.dtype == object:
            return all(same(mine, other) for mine, other in zip(ours.flat, theirs.flat, strict=True))
        case np.ndarray() | np.void() if theirs.dtype.names:
            return type(ours) is type(theirs) and all(
                same(ours[name], theirs[name]) for name in theirs.dtype.names
            )
        case np.ndarray() | np.generic():
            return (
                type(ours) is type(theirs)
                and ours.dtype == theirs.dtype
                and ours.tobytes() == theirs.tobytes()
            )
    return type(ours) is type(theirs) and bool(ours == theirs)


def attempt(read: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return read(), None
    except Exception as error:
        return None, error


class Walk:
    """Both libraries' view of a file."""

    def __init__(self) -> None:
        self.differences: list[str] = []
        self.datasets = self.attributes = 0
        self.seen: set[tuple[str, int]] = set()

    def differs(self, place: str, what: str) -> None:
        self.differences.append(f"{place}: {what}")

    def both(
        self, place: str, ours: Callable[[], Any], theirs: Callable[[], Any]
    ) -> Iterator[tuple[Any, Any]]:
        """Yields both results if both libraries can read. Records a difference if only one can."""
        (mine, failed), (other, refused) = attempt(ours), attempt(theirs)
        if failed and not refused:
            self.differs(place, f"ours is refused: {failed}")
        elif refused and not failed:
            self.differs(place, f"theirs is refused: {refused}")
        elif not failed:
            yield mine, other

    def node(self, place: str, ours: Any, theirs: Any) -> None:
        names = list(theirs.attrs)
        if list(ours.attrs) != names:
            self.differs(place, f"attributes {list(ours.attrs)}, expected {names}")
            return
        for name in names:
            self.attributes += 1
            where = f"{place}, attribute {name!r}"
            for mine, other in self.both(where, lambda: ours.attrs[name], lambda: theirs.attrs[name]):
                if not same(mine, other):
                    self.differs(where, f"{mine!r}, expected {other!r}")
        match theirs:
            case h5py.Group():
                self.group(place, ours, theirs)
            case h5py.Dataset():
                self.dataset(place, ours, theirs)
            case h5py.Datatype():
                if not (isinstance(ours, hs.Datatype) and same_dtype(ours.dtype, theirs.dtype)):
                    self.differs(place, f"{ours}, expected {theirs}")

    def group(self, place: str, ours: hs.FileGroup, theirs: h5py.Group) -> None:
        key = (theirs.file.filename, h5py.h5o.get_info(theirs.id).addr)
        if key in self.seen:
            return
        self.seen.add(key)
        if list(ours) != list(theirs):
            self.differs(place, f"names {list(ours)}, expected {list(theirs)}")
            return
        for name in theirs:
            where = f"{place}/{name}"
            mine, other = ours.get(name, getlink=True), theirs.get(name, getlink=True)
            if (type(mine).__name__, getattr(mine, "path", None)) != (
                type(other).__name__,
                getattr(other, "path", None),
            ):
                self.differs(where, f"{mine}, expected {other}")
            for found, expected in self.both(where, lambda: ours[name], lambda: theirs[name]):
                self.node(where, found, expected)

    def dataset(self, place: str, ours: hs.FileArray, theirs: h5py.Dataset) -> None:
        dtype, unknown = attempt(lambda: theirs.dtype)
        if unknown:
            return
        self.datasets += 1
        if not same_dtype(ours.dtype, dtype):
            self.differs(place, f"{ours.dtype} {ours.dtype.metadata}, expected {dtype} {dtype.metadata}")
        for name in PROPERTIES:
            if getattr(ours, name) != getattr(theirs, name):
                self.differs(place, f"{name} {getattr(ours, name)}, expected {getattr(theirs, name)}")
        fill, undefined = attempt(lambda: theirs.fillvalue)
        if not undefined and not same(ours.fillvalue, fill):
            self.differs(place, f"fillvalue {ours.fillvalue!r}, expected {fill!r}")
        if theirs.nbytes > 200 << 20:
            return
        for mine, other in self.both(place, lambda: ours[()], lambda: theirs[()]):
            if not same(mine, other):
                self.differs(place, f"values {mine!r}, expected {other!r}")


def expected(difference: str) -> bool:
    return any(all(part in difference for part in parts) for parts in EXPECTED)


def test_every_file(corpora: Path) -> None:
    walk, files = Walk(), 0
    for path in sorted((corpora / "hdf5").rglob("*")):
        theirs, refused = attempt(lambda: h5py.File(path, "r")) if path.is_file() else (None, OSError())
        if refused:
            continue  # no HDF5, or not closed by its writer
        files += 1
        with theirs:
            walk.node(f"{path.relative_to(corpora)}:", hs.open(path), theirs)
    assert files > 100 and walk.datasets > 4000 and walk.attributes > 3000
    wrong = [difference for difference in walk.differences if not expected(difference)]
    assert not wrong, "\n".join(wrong[:50])


def test_what_is_refused(corpora: Path) -> None:
    """Refuses a file that its writer did not close."""
    path = corpora / "hdf5/jhdf/test_byteshuffle_compressed_datasets_latest.hdf5"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with pytest.raises(hs.errors.UnclosedFileError, match="open for writing, or its writer was killed"):
        hs.open(path)
