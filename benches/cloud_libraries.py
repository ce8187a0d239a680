"""How each contender of cloud.py opens, reads and writes arrays in an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import Array

# Requests that zarr-python and TensorStore keep in flight: as many as hyperslab. zarr-python's
# default is 10.
CONCURRENCY = 64


class Cannot(Exception):
    """The reason why a library cannot do a row."""


@dataclass(frozen=True)
class Server:
    """The address of the objects."""

    url: str
    bucket: str = "bench"

    def s3(self) -> dict[str, str]:
        """Returns the settings under the names of the `object_store` crate."""
        return {
            "endpoint": self.url,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": "true",
        }

    def obstore(self, path: str) -> Any:
        """A new client of obstore."""
        from obstore.store import S3Store

        config = self.s3()
        # zarrista builds its own client from this one and fails if `allow_http` is in `config`.
        client: Any = {"allow_http": config.pop("allow_http") == "true"}
        return S3Store(self.bucket, prefix=path, config=config, client_options=client)

    def fsspec(self, **how: Any) -> Any:
        """A new client of s3fs."""
        import s3fs

        return s3fs.S3FileSystem(
            key="key", secret="secret", endpoint_url=self.url, skip_instance_cache=True, **how
        )


class Library:
    """One library. A method that is not overridden is something the library cannot do."""

    def open(self, server: Server, path: str) -> Any:
        """Opens an array."""
        raise Cannot("does not read arrays here")

    def read(self, array: Any, selection: tuple[int | slice, ...]) -> Array:
        """Reads a selection of integers and slices."""
        return np.asarray(array[selection])

    def points(self, array: Any, points: tuple[Array, ...]) -> Array:
        """Reads elements by their coordinates along each axis."""
        raise Cannot("does not read points")

    def names(self, server: Server, path: str) -> list[str]:
        """Opens a group with consolidated metadata. Returns its arrays' names and attributes."""
        raise Cannot("has no groups")

    def write(self, server: Server, path: str, values: Array, chunks: tuple[int, ...]) -> None:
        """Creates an array (zstd at level 1) and writes it."""
        raise Cannot("does not write here")

    def plane(self, server: Server, path: str, name: str) -> tuple[int, Array]:
        """Opens an HDF5 file. Returns how many variables have a unit, and one variable's plane."""
        raise Cannot("does not read HDF5 here")


class Hyperslab(Library):
    """This library."""

    def _open(self, server: Server, path: str) -> Any:
        import hyperslab as hs

        open_: Callable[..., Any] = hs.open
        return open_(f"s3://{server.bucket}/{path}", storage_options=server.s3())

    def open(self, server: Server, path: str) -> Any:
        return self._open(server, path)

    def points(self, array: Any, points: tuple[Array, ...]) -> Array:
        return np.asarray(array.vindex[points])

    def names(self, server: Server, path: str) -> list[str]:
        return [name + array.attrs["unit"] for name, array in self._open(server, path).arrays()]

    def write(self, server: Server, path: str, values: Array, chunks: tuple[int, ...]) -> None:
        import hyperslab as hs

        create: Callable[..., Any] = hs.create_array
        url = f"s3://{server.bucket}/{path}"
        how: dict[str, Any] = {"chunks": chunks, "compressors": hs.codecs.Zstd(level=1)}
        create(url, data=values, storage_options=server.s3(), **how)

    def plane(self, server: Server, path: str, name: str) -> tuple[int, Array]:
        file = self._open(server, path)
        return sum("unit" in array.attrs for _, array in file.arrays()), np.asarray(file[name][0])


@dataclass(frozen=True)
class ZarrPython(Library):
    """zarr-python, through obstore or fsspec."""

    pipeline: str
    through_fsspec: bool = False

    def _store(self, server: Server, path: str, *, read_only: bool = True) -> Any:
        import zarr

        zarr.config.set({"codec_pipeline.path": self.pipeline, "async.concurrency": CONCURRENCY})
        if self.through_fsspec:
            files = server.fsspec(asynchronous=True)
            return zarr.storage.FsspecStore(files, path=f"{server.bucket}/{path}", read_only=read_only)
        return zarr.storage.ObjectStore(server.obstore(path), read_only=read_only)

    def open(self, server: Server, path: str) -> Any:
        import zarr

        return zarr.open_array(self._store(server, path), mode="r", zarr_format=3)

    def points(self, array: Any, points: tuple[Array, ...]) -> Array:
        return np.asarray(array.vindex[points])

    def names(self, server: Server, path: str) -> list[str]:
        import zarr

        group = zarr.open_consolidated(self._store(server, path), mode="r", zarr_format=3)
        return [name + array.attrs["unit"] for name, array in group.arrays()]

    def write(self, server: Server, path: str, values: Array, chunks: tuple[int, ...]) -> None:
        import zarr

        store = self._store(server, path, read_only=False)
        how: dict[str, Any] = {"chunks": chunks, "compressors": zarr.codecs.ZstdCodec(level=1)}
        zarr.create_array(store, data=values, **how)


class Zarrista(Library):
    """zarrista. Only its asynchronous arrays accept obstore's stores."""

    def open(self, server: Server, path: str) -> Any:
        import zarrista

        async def open_() -> Any:
            return await zarrista.AsyncArray.open(server.obstore(path))

        return asyncio.run(open_())

    def read(self, array: Any, selection: tuple[int | slice, ...]) -> Array:
        # zarrista keeps the axes of integers.
        slices = tuple(slice(at, at + 1) if isinstance(at, int) else at for at in selection)
        dropped = tuple(axis for axis, at in enumerate(selection) if isinstance(at, int))

        async def read() -> Any:
            return await array.retrieve_array_subset(slices)

        return np.asarray(asyncio.run(read())).squeeze(dropped)


class TensorStore(Library):
    """TensorStore's own S3 client. It takes credentials from the environment."""

    def _spec(self, server: Server, path: str) -> dict[str, Any]:
        place: dict[str, Any] = {"driver": "s3", "bucket": server.bucket, "path": path + "/"}
        place |= {"endpoint": server.url, "aws_region": "us-east-1"}
        return {"driver": "zarr3", "kvstore": {**place, "aws_credentials": {"type": "environment"}}}

    def _context(self) -> Any:
        import tensorstore

        # A new context has its own client and none of the cached reads of earlier contexts.
        return tensorstore.Context({"s3_request_concurrency": {"limit": CONCURRENCY}})

    def open(self, server: Server, path: str) -> Any:
        import tensorstore

        return tensorstore.open(self._spec(server, path), read=True, context=self._context()).result()

    def read(self, array: Any, selection: tuple[int | slice, ...]) -> Array:
        return np.asarray(array[selection].read().result())

    def points(self, array: Any, points: tuple[Array, ...]) -> Array:
        return np.asarray(array.vindex[points].read().result())

    def write(self, server: Server, path: str, values: Array, chunks: tuple[int, ...]) -> None:
        import tensorstore

        zstd = {"name": "zstd", "configuration": {"level": 1}}
        metadata = {
            "shape": list(values.shape),
            "data_type": values.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, zstd],
        }
        spec = {**self._spec(server, path), "metadata": metadata}
        tensorstore.open(spec, create=True, context=self._context()).result()[...].write(values).result()


class H5py(Library):
    """h5py on a file of fsspec, with fsspec's default block cache."""

    def plane(self, server: Server, path: str, name: str) -> tuple[int, Array]:
        import h5py

        with server.fsspec().open(f"{server.bucket}/{path}") as file, h5py.File(file) as found:
            return sum("unit" in each.attrs for each in found.values()), found[name][0]


class H5netcdf(Library):
    """h5netcdf (with h5py) on a file of fsspec."""

    def plane(self, server: Server, path: str, name: str) -> tuple[int, Array]:
        import h5netcdf

        with server.fsspec().open(f"{server.bucket}/{path}") as file, h5netcdf.File(file) as found:
            return sum("unit" in each.attrs for each in found.variables.values()), found[name][0]


BATCHED = "zarr.core.codec_pipeline.BatchedCodecPipeline"
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"

LIBRARIES: dict[str, Library] = {
    "hyperslab": Hyperslab(),
    "zarr, obstore": ZarrPython(BATCHED),
    "zarr, fsspec": ZarrPython(BATCHED, through_fsspec=True),
    "fused, obstore": ZarrPython(FUSED),
    "zarrista": Zarrista(),
    "tensorstore": TensorStore(),
    "h5py, fsspec": H5py(),
    "h5netcdf": H5netcdf(),
}
