"""Measurements of HDF5 besides plain reads: points, listing a file, listing chunks, threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hdf5
import numpy as np
from common import Array, same_bits
from contenders import Cannot, Contender, Spec
from operations import Operation, Place, Reads, Work, WrongValues, nothing, times


@dataclass(frozen=True)
class Points(Operation):
    """Elements given by coordinates: one array per axis, in ascending order of the elements."""

    coordinates: Callable[[Spec], tuple[Array, ...]]
    # How a user writes it: "list" (of one axis), "points" or "mask".
    kind: str

    def size(self, spec: Spec) -> int:
        return len(self.coordinates(spec)[0]) * spec.itemsize

    def work(self, place: Place, contender: Contender) -> Work:
        array = contender.open(place.source)
        coordinates = self.coordinates(place.spec)
        mask = np.zeros(place.spec.shape, bool)
        mask[coordinates] = True
        call = self.call(contender.name, array, coordinates, mask)

        def check() -> None:
            if not same_bits(np.asarray(call()), place.whole[coordinates]):
                raise WrongValues(f"{contender.name} reads other points")

        return Work(lambda _: call(), check, many=times(call))

    def call(self, name: str, array: Any, coordinates: tuple[Array, ...], mask: Array) -> Callable[[], Any]:
        """Returns the fastest call of each contender."""
        if name == "processes":
            raise Cannot("too short for several processes")
        if self.kind == "list":
            (indices,) = coordinates
            return lambda: array[indices]
        if name == "hyperslab":
            return (lambda: array[mask]) if self.kind == "mask" else (lambda: array.vindex[coordinates])
        if name == "h5py":
            return (lambda: array[mask]) if self.kind == "mask" else h5py_points(array, coordinates)
        if name == "pyfive":
            # pyfive has no points. It reads everything, and NumPy picks the elements.
            return lambda: array[...][coordinates]
        raise Cannot("cannot select points")


def h5py_points(dataset: Any, coordinates: tuple[Array, ...]) -> Callable[[], Array]:
    """Reads points with the HDF5 library's selection, because h5py's indexing has no points."""
    import h5py

    table = np.stack(coordinates, axis=1).astype("u8")

    def call() -> Array:
        space = dataset.id.get_space()
        space.select_elements(table)
        values: Array = np.empty(len(table), dataset.dtype)
        dataset.id.read(h5py.h5s.create_simple((len(table),)), space, values)
        return values

    return call


@dataclass(frozen=True)
class Lists(Operation):
    """Opens a file and reads shape, type and attributes of each dataset."""

    datasets: int
    libver: str

    def size(self, spec: Spec) -> int:
        return 0

    def writes_parts(self) -> bool:
        return True

    def work(self, place: Place, contender: Contender) -> Work:
        path = place.source / f"many-{self.libver}.h5"
        if not path.exists():
            self.make(path)
        opened: dict[str, Callable[[], int]] = {
            "hyperslab": lambda: ask_hyperslab(path),
            "h5py": lambda: ask_h5py(path),
            "netcdf4": lambda: ask_netcdf4(path),
            "pyfive": lambda: ask_pyfive(path),
        }
        if contender.name not in opened:
            raise Cannot("the same as h5py")
        call = opened[contender.name]

        def check() -> None:
            if call() != sum(range(self.datasets)):
                raise WrongValues(f"{contender.name} lists other datasets")

        return Work(lambda _: call(), check)

    def make(self, path: Path) -> None:
        """Writes datasets of one element with two attributes each."""
        import h5py

        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w", libver=self.libver) as file:
            for number in range(self.datasets):
                dataset = file.create_dataset(f"d{number:05}", data=np.arange(3, dtype="f4"))
                dataset.attrs["number"] = number
                dataset.attrs["units"] = "K"


def total(items: Any, attributes: Callable[[Any], dict[str, Any]]) -> int:
    """Returns the sum of the attribute `number`, and reads everything else on the way."""
    found = 0
    for _, dataset in items:
        shape, dtype, attrs = dataset.shape, dataset.dtype, attributes(dataset)
        if shape == (3,) and dtype == np.float32 and attrs["units"] in ("K", b"K"):
            found += int(attrs["number"])
    return found


def ask_hyperslab(path: Path) -> int:
    import hyperslab as hs

    return total(hs.open_group(path).items(), lambda dataset: dict(dataset.attrs))


def ask_h5py(path: Path) -> int:
    import h5py

    with h5py.File(path) as file:
        return total(file.items(), lambda dataset: dict(dataset.attrs))


def ask_netcdf4(path: Path) -> int:
    import netCDF4

    with netCDF4.Dataset(path) as file:
        return total(file.variables.items(), lambda variable: variable.__dict__)


def ask_pyfive(path: Path) -> int:
    import pyfive

    with pyfive.File(path) as file:
        return total(((name, file[name]) for name in file), lambda dataset: dict(dataset.attrs))


@dataclass(frozen=True)
class ChunkIndexes(Operation):
    """Opens a file and lists a dataset's chunks: place in the array, offset and length."""

    def size(self, spec: Spec) -> int:
        return 0

    def work(self, place: Place, contender: Contender) -> Work:
        path, spec = place.source / hdf5.FILE, place.spec
        count = int(np.prod([-(-n // chunk) for n, chunk in zip(spec.shape, spec.chunks, strict=True)]))

        def by_hyperslab() -> Any:
            import hyperslab as hs

            array: Any = hs.open_array(path, path=hdf5.DATASET)
            index = array.chunk_index()
            return len(index), int(index["offset"].sum())

        def by_h5py() -> Any:
            import h5py

            with h5py.File(path) as file:
                found: list[Any] = []
                file[hdf5.DATASET].id.chunk_iter(found.append)
                return len(found), sum(chunk.byte_offset for chunk in found)

        def by_pyfive() -> Any:
            import pyfive

            with pyfive.File(path) as file:
                dataset = file[hdf5.DATASET].id
                found = [dataset.get_chunk_info(n) for n in range(dataset.get_num_chunks())]
                return len(found), sum(chunk.byte_offset for chunk in found)

        ways = {"hyperslab": by_hyperslab, "h5py": by_h5py, "pyfive": by_pyfive}
        if contender.name not in ways:
            raise Cannot("cannot list chunks")
        call = ways[contender.name]

        def check() -> None:
            if call() != by_h5py() or call()[0] != count:
                raise WrongValues(f"{contender.name} lists other chunks")

        return Work(lambda _: call(), check)


@dataclass(frozen=True)
class AtOnce(Reads):
    """Several Python threads each read a share of the selections. "without" is one thread."""

    threads: int = 4

    def work(self, place: Place, contender: Contender) -> Work:
        if contender.name == "netcdf4":
            raise Cannot("crashes: the netCDF library is not thread-safe")
        if contender.name == "processes":
            raise Cannot("uses no threads")
        array, pool = contender.open(place.source), ThreadPoolExecutor(self.threads)
        shares = [self.selections[n :: self.threads] for n in range(self.threads)]

        def read(share: tuple[Any, ...]) -> None:
            for selection in share:
                contender.read(array, selection)

        def once(_: Any) -> None:
            for _ in pool.map(read, shares):
                pass

        return Work(once, super().work(place, contender).check, many=times(lambda: once(None)))

    def extras(self, place: Place, ours: Contender) -> dict[str, Work]:
        alone = super().work(place, ours)
        return {"without": Work(alone.once, nothing, many=alone.many)}

    def limits(self, place: Place) -> dict[str, Work]:
        return {}
