"""The contenders: one way each to create, open, read and write an array.

hdf5.py has the contenders for HDF5.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import hdf5
import numpy as np
from common import Array


class Cannot(Exception):
    """The reason why a contender cannot do a row."""


@dataclass(frozen=True)
class Spec:
    """The array that a measurement creates."""

    shape: tuple[int, ...]
    # Inner chunks if there are shards.
    chunks: tuple[int, ...]
    dtype: str = "f4"
    zarr_format: int = 3
    # None (no compression) or a key of CODECS.
    codec: str | None = None
    fill_value: float = 0
    # Store chunks in Fortran order: a metadata field in v2, a codec in v3.
    fortran: bool = False
    # Store elements with their most significant byte first.
    big_endian: bool = False
    # The shape of a shard. None: each chunk is a file.
    shards: tuple[int, ...] | None = None
    # "earliest" or "latest": a dataset of an HDF5 file of that format version. With "latest" all
    # axes are unlimited. If a chunk is as large as the array, the dataset is contiguous.
    hdf5: str | None = None

    @property
    def format(self) -> str:
        """The format, which decides who can read the array."""
        return "zarr" if self.hdf5 is None else "hdf5"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk."""
        return int(np.prod(self.chunks)) * self.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(np.prod(self.shape)) * self.itemsize

    def compressors(self) -> list[dict[str, Any]]:
        """Returns the compressors as the metadata of the array's format writes them."""
        if self.codec is None:
            return []
        v2, v3 = CODECS[self.codec]
        if self.zarr_format == 2:
            return [v2]
        if self.codec == "blosc":
            v3 = v3 | {"configuration": v3["configuration"] | {"typesize": self.itemsize}}
        return [v3]

    def transpose(self) -> list[dict[str, Any]]:
        """Returns the first codec of a v3 array in Fortran order."""
        if not (self.fortran and self.zarr_format == 3):
            return []
        return [{"name": "transpose", "configuration": {"order": list(range(len(self.shape)))[::-1]}}]

    def serializer(self) -> dict[str, Any]:
        """Returns the array→bytes codec of a v3 array."""
        if self.itemsize == 1:
            return {"name": "bytes"}
        return {"name": "bytes", "configuration": {"endian": "big" if self.big_endian else "little"}}

    def chain(self) -> list[dict[str, Any]]:
        """Returns all codecs of a v3 array."""
        chain = [*self.transpose(), self.serializer(), *self.compressors()]
        if self.shards is None:
            return chain
        # zarr-python's defaults.
        index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        configuration = {
            "chunk_shape": self.chunks,
            "codecs": chain,
            "index_codecs": index,
            "index_location": "end",
        }
        return [{"name": "sharding_indexed", "configuration": configuration}]

    def stored_dtype(self) -> str:
        """Returns the element type with its byte order, as v2 metadata writes it."""
        return np.dtype(self.dtype).newbyteorder(">" if self.big_endian else "<").str

    def create_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `create_array` for zarr-python and hyperslab alike."""
        arguments: dict[str, Any] = {
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.stored_dtype() if self.zarr_format == 2 else self.dtype,
            "zarr_format": self.zarr_format,
            "compressors": self.compressors() or None,
            "filters": self.transpose() or None,
            "fill_value": self.fill_value,
        }
        if self.shards is not None:
            arguments |= {"shards": self.shards}
        if self.zarr_format == 2:
            return arguments | {"order": "F" if self.fortran else "C"}
        return arguments | {"serializer": self.serializer()}


# By name: the codec in Zarr v2 metadata and in Zarr v3 metadata.
CODECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "zstd": (
        {"id": "zstd", "level": 3},
        {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
    ),
    "gzip": ({"id": "gzip", "level": 5}, {"name": "gzip", "configuration": {"level": 5}}),
    "blosc": (
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
        },
    ),
}


def item(array: Any, selection: Any) -> Array:
    """Returns `array[selection]` as a NumPy array."""
    return np.asarray(array[selection])


def set_item(array: Any, selection: Any, values: Array) -> None:
    """Runs `array[selection] = values`."""
    array[selection] = values


def get_item(array: Any, selection: Any) -> Callable[[], Any]:
    """Returns a call that runs only `array[selection]`, for measuring latency."""
    return partial(operator.getitem, array, selection)


def loop(contender: Contender, array: Any, count: int) -> Iterator[Array]:
    """Reads time steps in a plain loop."""
    for step in range(count):
        yield contender.read(array, step)


def loop_write(contender: Contender, array: Any, steps: Iterable[tuple[int, Array]]) -> None:
    """Writes time steps in a plain loop."""
    for step, values in steps:
        contender.write(array, step, values)


@dataclass(frozen=True)
class Contender:
    """One way to read and write an array."""

    name: str
    open: Callable[[Path], Any]
    create: Callable[[Path, Spec], Any]
    read: Callable[[Any, Any], Array] = item
    write: Callable[[Any, Any, Array], None] = set_item
    # `read` with its arguments bound. The result need not be a NumPy array.
    reader: Callable[[Any, Any], Callable[[], Any]] = get_item
    # The fastest way to open an array for reading.
    open_quickly: Callable[[Path], Any] | None = None
    # Read and write the time steps in order.
    steps: Callable[[Contender, Any, int], Iterable[Array]] = loop
    write_steps: Callable[[Contender, Any, Iterable[tuple[int, Array]]], None] = loop_write
    # The formats it reads.
    formats: tuple[str, ...] = ("zarr",)


# ---------------------------------------------------------------------------------------- hyperslab


def hyperslab() -> Contender:
    """This library."""
    import hyperslab as hs

    def open_(path: Path) -> Any:
        file = path / hdf5.FILE
        return hs.open(file)[hdf5.DATASET] if file.exists() else hs.open_array(path, mode="r+")

    return Contender(
        "hyperslab",
        open=open_,
        create=lambda path, spec: hs.create_array(path, **spec.create_arguments()),
        open_quickly=hs.open_array,
        formats=("zarr", "hdf5"),
    )


def hyperslab_streaming(contender: Contender) -> Contender:
    """hyperslab with read-ahead and write-behind."""
    import hyperslab as hs

    def steps(_: Contender, array: Any, count: int) -> Iterable[Array]:
        del count
        return (values for _, values in array.stream(axis=0))

    def write_steps(_: Contender, array: Any, steps: Iterable[tuple[int, Array]]) -> None:
        with array.writer() as writer:
            for step, values in steps:
                writer[step] = values

    if not (hasattr(hs.Array, "stream") and hasattr(hs.Array, "writer")):
        raise Cannot("not built yet")
    return replace(contender, steps=steps, write_steps=write_steps)


def hyperslab_cached(contender: Contender, *, shared: bool) -> Contender:
    """hyperslab with a cache of decoded chunks: the array's own or a shared one."""
    import hyperslab as hs

    def open_(path: Path) -> Any:
        return hs.open_array(path, cache=hs.Cache("64 MiB") if shared else "64 MiB")

    return replace(contender, open=open_)


# -------------------------------------------------------------------------------------------- peers


def zarr_python(name: str, pipeline: str) -> Contender:
    """zarr-python with one of its codec pipelines (default or fused) or the pipeline of zarrs.

    zarrs is a Rust crate. An array keeps the pipeline that it was opened with. Other pipeline
    settings stay at their defaults: one thread per core.
    """
    import zarr

    setting = {"codec_pipeline.path": pipeline}
    module, _, attribute = pipeline.rpartition(".")
    getattr(importlib.import_module(module), attribute)

    def open_(path: Path) -> Any:
        with zarr.config.set(setting):
            return zarr.open_array(path, mode="r+")

    def create(path: Path, spec: Spec) -> Any:
        with zarr.config.set(setting):
            return zarr.create_array(path, **spec.create_arguments())

    # The other pipelines open in the same way and are not measured.
    quick = partial(zarr.open_array, mode="r") if pipeline == BATCHED else None
    return Contender(name, open_, create, open_quickly=quick)


def tensorstore() -> Contender:
    """TensorStore without a cache and without fsync after each write, like all other contenders.

    Writes may refer to the caller's memory, which saves a copy.
    """
    import tensorstore as ts

    context = ts.Context({"file_io_sync": False, "cache_pool": {"total_bytes_limit": 0}})

    def kvstore(path: Path, zarr_format: int) -> dict[str, Any]:
        driver = "zarr" if zarr_format == 2 else "zarr3"
        return {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}

    def create(path: Path, spec: Spec) -> Any:
        metadata: dict[str, Any] = {"shape": spec.shape, "fill_value": spec.fill_value}
        if spec.zarr_format == 2:
            metadata |= {
                "chunks": spec.chunks,
                "dtype": spec.stored_dtype(),
                "compressor": next(iter(spec.compressors()), None),
                "order": "F" if spec.fortran else "C",
            }
        else:
            metadata |= {
                "data_type": np.dtype(spec.dtype).name,
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": spec.shards or spec.chunks},
                },
                "codecs": spec.chain(),
            }
        described = kvstore(path, spec.zarr_format) | {"metadata": metadata}
        return ts.open(described, context=context, create=True).result()

    def open_(path: Path) -> Any:
        zarr_format = 3 if (path / "zarr.json").exists() else 2
        return ts.open(kvstore(path, zarr_format), context=context, open=True).result()

    def open_v3(path: Path) -> Any:
        return ts.open(kvstore(path, 3), context=context, open=True, read=True).result()

    def read(array: Any, selection: Any) -> Array:
        return np.asarray(array[selection].read().result())

    def write(array: Any, selection: Any, values: Array) -> None:
        array[selection].write(values, can_reference_source_data_indefinitely=True).result()

    def reader(array: Any, selection: Any) -> Callable[[], Any]:
        return lambda: array[selection].read().result()

    return Contender("tensorstore", open_, create, read, write, reader, open_v3)


def zarrista() -> Contender:
    """zarrista: a binding of the Rust crate zarrs. Its slices have no steps."""
    import zarrista
    from zarrista.store import FilesystemStore

    def create(path: Path, spec: Spec) -> Any:
        # zarr-python creates the array. Only the measured calls use zarrista.
        zarr_python("", BATCHED).create(path, spec)
        return open_(path)

    def open_(path: Path) -> Any:
        return zarrista.Array.open(FilesystemStore(path))

    def write(array: Any, selection: Any, values: Array) -> None:
        # In zarrista an integer does not drop its axis.
        if isinstance(selection, int):
            selection, values = slice(selection, selection + 1), values.reshape(1, *values.shape)
        array[selection] = values

    def reader(array: Any, selection: Any) -> Callable[[], Any]:
        # zarrista's own array type, as a user gets it. NumPy arrays are views of it.
        return partial(operator.getitem, array, selection)

    return Contender("zarrista", open_, create, item, write, reader, open_)


BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"

CONTENDERS: dict[str, Callable[[], Contender]] = {
    "hyperslab": hyperslab,
    "zarr": lambda: zarr_python("zarr", BATCHED),
    "fused": lambda: zarr_python("fused", FUSED),
    "zarrs": lambda: zarr_python("zarrs", "zarrs.ZarrsCodecPipeline"),
    "zarrista": zarrista,
    "tensorstore": tensorstore,
    "h5py": hdf5.h5py,
    "netcdf4": hdf5.netcdf4,
    "pyfive": hdf5.pyfive,
    "processes": hdf5.processes,
}

# The peers of hyperslab, by format.
PEERS = {
    "zarr": ("zarr", "fused", "zarrs", "zarrista", "tensorstore"),
    "hdf5": ("h5py", "netcdf4", "pyfive", "processes"),
}


def contenders(names: Iterable[str]) -> list[Contender]:
    """Returns the named contenders that are installed."""
    found = []
    for name in names:
        try:
            found.append(CONTENDERS[name]())
        except (ImportError, AttributeError):
            # The fused pipeline needs a zarr-python that needs Python 3.12. Not every Python
            # has it.
            if name == "hyperslab":
                raise
    return found
