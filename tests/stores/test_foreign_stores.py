"""Stores of obstore, fsspec and zarr-python become stores of hyperslab where possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import obstore.store
import pytest
import zarr
from object_server_client import Server

s3fs = pytest.importorskip("s3fs")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def obstore_of(server: Server, **more: Any) -> Any:
    config = {name: value for name, value in server.s3_options.items() if name != "allow_http"}
    return obstore.store.S3Store(
        "bucket", prefix="a/b", config=config, client_options={"allow_http": True}, **more
    )


def file_system(server: Server, **more: Any) -> Any:
    return s3fs.S3FileSystem(
        key="key",
        secret="secret",
        endpoint_url=server.url,
        client_kwargs={"region_name": "us-east-1"},
        **more,
    )


def stores(server: Server) -> list[Any]:
    return [
        obstore_of(server),
        zarr.storage.ObjectStore(obstore_of(server)),
        zarr.storage.FsspecStore(file_system(server, asynchronous=True), path="bucket/a/b"),
        file_system(server).get_mapper("bucket/a/b"),
    ]


def test_remote_stores_are_made_anew(server: Server) -> None:
    values = np.arange(100).reshape(10, 10)
    for number, store in enumerate(stores(server)):
        array = hs.create_array(store, name=f"x{number}", data=values, chunks=(5, 5))
        assert isinstance(array.store, hs.storage.RemoteStore)
        assert array.store.url == "s3://bucket/a/b"
        # zarr-python reads through its own store, then the others read.
        theirs = zarr.open_array(zarr.storage.ObjectStore(obstore_of(server)), path=f"x{number}", mode="r")
        assert np.array_equal(theirs[:], values)
        for other in stores(server):
            assert np.array_equal(hs.open(other)[f"x{number}"][2:4], values[2:4])
    read_only = zarr.storage.ObjectStore(obstore_of(server), read_only=True)
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open_array(read_only, path="x0", mode="r+")


def test_what_python_must_do_stays_python(server: Server) -> None:
    values = np.arange(6)
    memory = obstore.store.MemoryStore()
    timed = obstore.store.S3Store(
        "bucket",
        config={name: value for name, value in server.s3_options.items() if name != "allow_http"},
        client_options={"allow_http": True, "timeout": "20s"},
    )
    for store in (memory, zarr.storage.ObjectStore(memory), timed):
        hs.create_array(store, name="a", data=values, overwrite=True)
        array = hs.open_array(store, path="a")
        assert not isinstance(array.store, hs.storage.RemoteStore)
        assert array[:].tolist() == values.tolist()


def test_local_ones(tmp_path: Path) -> None:
    import fsspec

    local = fsspec.filesystem("file")
    for number, store in enumerate(
        [
            obstore.store.LocalStore(tmp_path),
            local.get_mapper(str(tmp_path)),
            zarr.storage.ObjectStore(obstore.store.LocalStore(tmp_path)),
        ]
    ):
        array = hs.create_array(store, name=f"a{number}", data=[1, 2, 3])
        assert isinstance(array.store, hs.storage.LocalStore)
        assert zarr.open_array(tmp_path / f"a{number}", mode="r")[:].tolist() == [1, 2, 3]
