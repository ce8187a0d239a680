"""HDF5: the file of a measurement, and the libraries that read it.

h5py writes the files. h5py, netCDF4-python, pyfive and h5py in several processes read them.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from common import Array

if TYPE_CHECKING:
    from contenders import Contender, Spec

FILE, DATASET = "file.h5", "d"
PROCESSES = 2


def filters(codec: str | None) -> dict[str, Any]:
    """Returns the arguments of `create_dataset` for a codec of this table."""
    import hdf5plugin

    known: dict[str | None, dict[str, Any]] = {
        None: {},
        "gzip-4 + shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
        "lzf": {"compression": "lzf"},
        "zstd": dict(hdf5plugin.Zstd(clevel=3)),
        "blosc": dict(hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE)),
        "bitshuffle-lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    }
    return known[codec]


def create(path: Path, spec: Spec) -> Any:
    """Creates the dataset in a new file. Both close with their last reference."""
    import h5py

    path.mkdir(parents=True, exist_ok=True)
    file = h5py.File(path / FILE, "w", libver=spec.hdf5)
    chunks = None if spec.chunks == spec.shape else spec.chunks
    more = {"maxshape": (None,) * len(spec.shape)} if spec.hdf5 == "latest" else {}
    return file.create_dataset(DATASET, spec.shape, spec.dtype, chunks=chunks, **more, **filters(spec.codec))


def chunk_table(path: Path, counts: tuple[int, ...], chunks: tuple[int, ...]) -> Array:
    """Returns offset and length of each chunk in C order, for the plain loops."""
    import h5py

    with h5py.File(path / FILE) as file:
        dataset = file[DATASET]
        if dataset.chunks is None:
            return np.array([[dataset.id.get_offset(), dataset.nbytes]], "u8")
        table = np.zeros((*counts, 2), "u8")

        def note(chunk: Any) -> None:
            at = tuple(offset // length for offset, length in zip(chunk.chunk_offset, chunks, strict=True))
            table[at] = chunk.byte_offset, chunk.size

        dataset.id.chunk_iter(note)
        return table.reshape(-1, 2)


def contender(name: str, open_: Callable[[Path], Any], **more: Any) -> Contender:
    """Returns a contender that reads HDF5."""
    from contenders import Contender

    return Contender(name, open_, create, formats=("hdf5",), **more)


def h5py() -> Contender:
    """h5py: the HDF5 library in one thread. Like all contenders here, without its chunk cache."""
    import h5py as library
    import hdf5plugin

    del hdf5plugin  # importing it registers its filters
    return contender("h5py", lambda path: library.File(path / FILE, rdcc_nbytes=0)[DATASET])


def netcdf4() -> Contender:
    """netCDF4-python: the netCDF library on the HDF5 library, without masking and scaling."""
    import netCDF4

    def open_(path: Path) -> Any:
        file = netCDF4.Dataset(path / FILE)
        variable = file.variables[DATASET]
        variable.set_auto_maskandscale(False)
        variable.set_var_chunk_cache(0, 0, 0.75)
        return variable

    return contender("netcdf4", open_)


def pyfive() -> Contender:
    """pyfive: pure Python."""
    import pyfive as library

    return contender("pyfive", lambda path: library.File(path / FILE)[DATASET])


# ------------------------------------------------------------------------ h5py in several processes


class Shared:
    """A dataset read by several processes into shared memory, each a part along the first axis."""

    def __init__(self, path: Path) -> None:
        import h5py as library

        with library.File(path / FILE) as file:
            dataset = file[DATASET]
            self.shape, self.dtype = dataset.shape, dataset.dtype
        self.memory = shared_memory.SharedMemory(
            create=True, size=int(np.prod(self.shape)) * self.dtype.itemsize
        )
        arguments = (path, self.memory.name)
        # `fork` could leave the child a library lock that no thread will ever release.
        self.pool = multiprocessing.get_context("spawn").Pool(PROCESSES, attach, arguments)

    def __getitem__(self, selection: Any) -> Array:
        if selection is not Ellipsis:
            from contenders import Cannot

            raise Cannot("too short for several processes")
        bounds = np.linspace(0, self.shape[0], PROCESSES + 1).astype(int)
        self.pool.starmap(read_part, list(itertools.pairwise(bounds)))
        return np.ndarray(self.shape, self.dtype, self.memory.buf)

    def __del__(self) -> None:
        self.pool.terminate()
        self.memory.close()
        self.memory.unlink()


_attached: list[Any] = []


def attach(path: Path, name: str) -> None:
    """Opens the file in this process and maps the shared memory."""
    import h5py as library
    import hdf5plugin

    del hdf5plugin
    memory = shared_memory.SharedMemory(name)
    dataset = library.File(path / FILE)[DATASET]
    _attached[:] = [dataset, np.ndarray(dataset.shape, dataset.dtype, memory.buf), memory]


def read_part(start: int, stop: int) -> None:
    """Reads rows `start` to `stop`."""
    dataset, values, _ = _attached
    if start < stop:
        dataset.read_direct(values, np.s_[start:stop], np.s_[start:stop])


def processes() -> Contender:
    """h5py in several processes (`PROCESSES`), with the results in shared memory."""
    h5py()
    return contender("processes", Shared)
