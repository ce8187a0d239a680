"""Elements of variable length: ragged rows and text, in HDF5 and Zarr.

h5py and zarr-python write the files. If a contender lacks a result type, its nearest one is
measured instead: for h5py NumPy's `StringDType` replaces Arrow. The descriptions of the rows say
so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import Array
from contenders import CONTENDERS, Cannot, Contender, Spec
from operations import Operation, Place, Work, WrongValues, nothing, times

STRUCT = np.dtype([("a", "<i4"), ("b", "<f4"), ("c", "<i4")])
CELLS, ROWS = 600, 200
WINDOW = 60
# Number of strings written at once.
BLOCK = 1_000_000


def cells(spec: Spec) -> list[Array]:
    """Returns rows of structures, all of one length."""
    count = spec.shape[0] * ROWS
    values = np.zeros(count, STRUCT)
    values["a"] = np.arange(count)
    values["b"] = np.arange(count) / 7
    values["c"] = -values["a"]
    return list(values.reshape(spec.shape[0], ROWS))


def rows(spec: Spec) -> list[Array]:
    """Returns rows of 0 to 30 integers."""
    rng = np.random.default_rng(11)
    lengths = rng.integers(0, 31, spec.shape[0])
    values = np.arange(lengths.sum(), dtype="i4")
    return np.split(values, np.cumsum(lengths)[:-1])


def texts(start: int, stop: int) -> list[str]:
    """Returns distinct names of about 12 bytes, and some longer ones."""
    return [f"station {n:x}" if n % 50 else f"station {n:x} on the river Rhône" for n in range(start, stop)]


def objects(values: list[Any]) -> Array:
    """Returns an array of objects, even if all rows have the same length."""
    made = np.empty(len(values), object)
    made[:] = values if isinstance(values[0], str) else [np.asarray(value) for value in values]
    return made


@dataclass(frozen=True)
class Ragged(Operation):
    """Reads elements of variable length. `way` selects the elements and the type of the result."""

    way: str

    def writes_parts(self) -> bool:
        # `file` creates the files.
        return True

    def calls(self, spec: Spec) -> int:
        return 1

    def file(self, place: Place) -> Path:
        """Returns the file, and creates it on the first call."""
        path = place.source / "ragged.h5"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.make(path, place.spec)
        return path

    def make(self, path: Path, spec: Spec) -> None:
        raise NotImplementedError

    def expected(self, spec: Spec) -> Any:
        """Returns the values that every contender must read."""
        raise NotImplementedError

    def ways(self, place: Place) -> dict[str, Callable[[], Any]]:
        """Returns the fastest call of each contender."""
        raise NotImplementedError

    def work(self, place: Place, contender: Contender) -> Work:
        ways = self.ways(place)
        if contender.name not in ways:
            raise Cannot("cannot do this, or is not measured")
        call = ways[contender.name]

        def check() -> None:
            found = call()
            if not same(found, self.expected(place.spec)):
                raise WrongValues(f"{contender.name} reads other values")

        return Work(lambda _: call(), check, many=times(call))


def same(found: Any, expected: list[Any]) -> bool:
    """Compares rows or texts with the expected ones."""
    found = list(found)
    if len(found) != len(expected):
        return False
    if isinstance(expected[0], str):
        return [text.decode() if isinstance(text, bytes) else str(text) for text in found] == expected
    return all(
        np.array_equal(np.asarray(one), np.asarray(other)) for one, other in zip(found, expected, strict=True)
    )


def dataset_of(library: str, path: Path) -> Any:
    """Opens the dataset of a file. It stays open as long as it is used."""
    if library == "hyperslab":
        import hyperslab as hs

        return hs.open(path)["d"]
    if library == "h5py":
        import h5py

        return h5py.File(path)["d"]
    import pyfive

    return pyfive.File(path)["d"]


@dataclass(frozen=True)
class Rows(Ragged):
    """Reads rows of an HDF5 file: `whole`, `windows`, `single`, `open` or `objects`.

    The rows are numbers or structures.
    """

    content: Callable[[Spec], list[Array]] = cells

    def size(self, spec: Spec) -> int:
        return sum(row.nbytes for row in self.content(spec))

    def make(self, path: Path, spec: Spec) -> None:
        import h5py

        values = self.content(spec)
        chunks = {} if spec.chunks == spec.shape else {"chunks": spec.chunks, "compression": "gzip"}
        with h5py.File(path, "w") as file:
            dtype = h5py.vlen_dtype(values[0].dtype)
            dataset = file.create_dataset("d", spec.shape, dtype, **chunks)
            # One at a time: h5py would take rows of equal length for another axis.
            if self.content is cells:
                for number, row in enumerate(values):
                    dataset[number] = row
            else:
                dataset[...] = objects(values)

    def expected(self, spec: Spec) -> Any:
        return self.content(spec)

    def ways(self, place: Place) -> dict[str, Callable[[], Any]]:
        path, count = self.file(place), place.spec.shape[0]
        ours, h5py = dataset_of("hyperslab", path), dataset_of("h5py", path)
        windows = [slice(at, at + WINDOW) for at in range(0, count, WINDOW)]
        match self.way:
            case "whole":
                return {
                    "hyperslab": ours.read_ragged,
                    "h5py": lambda: h5py[:],
                    "pyfive": lambda: dataset_of("pyfive", path)[:],
                }
            case "objects":
                return {"hyperslab": lambda: ours[:], "h5py": lambda: h5py[:]}
            case "windows":
                return {
                    "hyperslab": lambda: Joined([ours.read_ragged(window) for window in windows]),
                    "h5py": lambda: Joined([h5py[window] for window in windows]),
                }
            case "single":
                return {
                    "hyperslab": lambda: [ours[n] for n in range(count)],
                    "h5py": lambda: [h5py[n] for n in range(count)],
                }
            case "open":
                return {
                    "hyperslab": lambda: dataset_of("hyperslab", path).read_ragged(),
                    "h5py": lambda: opened_by_h5py(path),
                    "pyfive": lambda: dataset_of("pyfive", path)[:],
                }
        raise ValueError(self.way)

    def limits(self, place: Place) -> dict[str, Work]:
        payload = np.concatenate(self.content(place.spec)).view("u1")
        out = np.zeros_like(payload)
        call = partial(np.copyto, out, payload)
        return {"limit": Work(lambda _: call(), nothing, many=times(call))}


class Joined:
    """Iterates over the rows of several windows."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __iter__(self) -> Any:
        return (row for part in self.parts for row in part)


def opened_by_h5py(path: Path) -> Any:
    import h5py

    with h5py.File(path) as file:
        return file["d"][:]


@dataclass(frozen=True)
class Texts(Ragged):
    """Texts of HDF5 or Zarr: `arrow`, `anew` (opens the file, too), `StringDType` or `objects`."""

    random: bool = False

    def size(self, spec: Spec) -> int:
        count = spec.shape[0]
        digits = sum(count - 16**power for power in range(1, 16) if 16**power < count) + count
        longer = -(-count // 50) * len(" on the river Rhône".encode())
        total: int = len("station ") * count + digits + longer + 8 * (count + 1)
        return total

    def file(self, place: Place) -> Path:
        if place.spec.hdf5 is not None:
            return super().file(place)
        path = place.source / "ragged.zarr"
        if not path.exists():
            import zarr

            count = place.spec.shape[0]
            array = zarr.create_array(path, shape=(count,), chunks=place.spec.chunks, dtype=str)
            array[:] = np.array(texts(0, count), np.dtypes.StringDType())
        return path

    def make(self, path: Path, spec: Spec) -> None:
        import h5py

        count = spec.shape[0]
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("d", (count,), h5py.string_dtype())
            if self.random:
                values = texts(0, count)
                for number in np.random.default_rng(3).permutation(count):
                    dataset[number] = values[number]
                # The same texts, stored in order.
                file.create_dataset("sorted", data=np.array(values, object), dtype=h5py.string_dtype())
                return
            for start in range(0, count, BLOCK):
                stop = min(start + BLOCK, count)
                dataset[start:stop] = np.array(texts(start, stop), np.dtypes.StringDType())

    def expected(self, spec: Spec) -> Any:
        return texts(0, spec.shape[0])

    def ways(self, place: Place) -> dict[str, Callable[[], Any]]:
        path, count = self.file(place), place.spec.shape[0]
        if place.spec.hdf5 is None:
            return self.zarr_ways(path)
        ours = dataset_of("hyperslab", path)
        ways: dict[str, Callable[[], Any]] = {}
        if self.way == "anew":
            ways["hyperslab"] = lambda: Exported(dataset_of("hyperslab", path).read_ragged())
            # Above this count h5py needs minutes.
            if count <= 4 * BLOCK:
                ways["h5py"] = lambda: dataset_of("h5py", path).astype("T")[:]
            return ways
        theirs = dataset_of("h5py", path)
        wide = theirs.astype("T")
        ways["h5py"] = (lambda: theirs[:]) if self.way == "objects" else (lambda: wide[:])
        if self.way == "objects":
            ways["pyfive"] = lambda: dataset_of("pyfive", path)[:]
        match self.way:
            case "arrow":
                ways["hyperslab"] = lambda: Exported(ours.read_ragged())
            case "StringDType":
                text = ours.astype("T")
                ways["hyperslab"] = lambda: text[:]
            case "objects":
                ways["hyperslab"] = lambda: ours[:]
        return ways

    def zarr_ways(self, path: Path) -> dict[str, Callable[[], Any]]:
        import hyperslab as hs

        ours = hs.open_array(path)
        ways: dict[str, Callable[[], Any]] = {}
        for name in ("zarr", "fused", "zarrs"):
            with suppress(ImportError, AttributeError):
                theirs = CONTENDERS[name]().open(path)
                ways[name] = partial(theirs.__getitem__, Ellipsis)
        if self.way == "arrow":
            ways["hyperslab"] = lambda: Exported(ours.read_ragged())
        else:
            ways["hyperslab"] = lambda: ours[:]
        return ways

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        if not self.random:
            return {}
        import hyperslab as hs

        array = hs.open_array(self.file(place), path="sorted")

        def call() -> Any:
            return Exported(array.read_ragged())

        return {"without": Work(lambda _: call(), nothing, many=times(call))}

    def limits(self, place: Place) -> dict[str, Work]:
        count = place.spec.shape[0]
        if count > BLOCK:
            return {}
        payload = np.frombuffer("".join(texts(0, count)).encode(), "u1")
        out = np.zeros_like(payload)
        call = partial(np.copyto, out, payload)
        return {"limit": Work(lambda _: call(), nothing, many=times(call))}


class Exported:
    """A result exported in Arrow's form."""

    def __init__(self, ragged: Any) -> None:
        self.ragged, self.capsules = ragged, ragged.__arrow_c_array__()

    def __iter__(self) -> Any:
        return iter(self.ragged)
