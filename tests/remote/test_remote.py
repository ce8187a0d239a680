"""Stores on servers, from Python: locations, options, pickles, Ctrl-C."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.storage import FileStore, RemoteStore


class Quiet(SimpleHTTPRequestHandler):
    """Python's own web server, which supports neither ranges nor entity tags."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Returns the URL of a directory."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_and_groups_on_a_web_server(tmp_path: Path, served: str, zarr_format: Any) -> None:
    values = np.arange(60_000, dtype="f4").reshape(200, 300)
    group = hs.create_group(tmp_path / "a b.zarr", zarr_format=zarr_format, attributes={"title": "x"})
    group.create_array("v", data=values, chunks=(64, 64))
    if zarr_format == 3:
        group.create_array("s", data=values, chunks=(10, 10), shards=(100, 100))
    hs.consolidate_metadata(tmp_path / "a b.zarr")
    found = hs.open_group(f"{served}/a%20b.zarr", mode="r")
    assert found.attrs["title"] == "x"
    assert "v" in dict(found.arrays())
    for _, member in found.arrays():
        assert np.array_equal(member[:], values)
        assert np.array_equal(member[5:150:7, ::-3], values[5:150:7, ::-3])
    array = hs.open_array(f"{served}/a%20b.zarr/v")
    assert isinstance(array.store, RemoteStore)
    assert np.array_equal(pickle.loads(pickle.dumps(array))[3], values[3])
    with pytest.raises(hs.errors.NodeNotFoundError, match=r"a%20b\.zarr/none"):
        hs.open(f"{served}/a%20b.zarr/none", mode="r")


def test_files_on_a_web_server(tmp_path: Path, served: str) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(100_000).reshape(100, 1000)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("g/v", data=values, chunks=(10, 100), compression="gzip")
        file["g"].attrs["units"] = "K"
    group = hs.open_group(f"{served}/x.h5/g", mode="r")
    assert group.attrs["units"] == "K"
    assert np.array_equal(np.asarray(group["v"]), values)
    array = hs.open(f"{served}/x.h5/g/v", mode="r")
    assert isinstance(array.store, FileStore) and array.store.url == f"{served}/x.h5"
    assert np.array_equal(pickle.loads(pickle.dumps(array))[5, ::7], values[5, ::7])
    with pytest.raises(hs.errors.NodeNotFoundError):
        hs.open(f"{served}/y.h5", mode="r")


def test_options() -> None:
    with pytest.raises(NotImplementedError, match="unknown storage option 'ky'; the nearest are key"):
        hs.open("s3://bucket/a", storage_options={"ky": "CANARY"})
    with pytest.raises(TypeError, match="'storage_options' was provided but unused"):
        hs.open("memory://x", storage_options={"anon": True})
    with pytest.raises(TypeError, match="expected a mapping"):
        hs.open("s3://bucket/a", storage_options=[("anon", True)])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'key': expected text"):
        hs.open("s3://bucket/a", storage_options={"key": object()})
    with pytest.raises(NotImplementedError, match="is on a server"):
        RemoteStore("/tmp/x")
    nested = {
        "anon": True,
        "client_kwargs": {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:9"},
    }
    store = RemoteStore("s3://bucket/a", storage_options=nested)
    assert repr(store) == "RemoteStore('s3://bucket/a')"
    assert store == RemoteStore("s3://bucket/a", storage_options=nested)
    assert store != RemoteStore("s3://bucket/a", storage_options={"anon": True, "region": "eu-west-1"})


def test_secrets_are_not_pickled() -> None:
    secret = {"key": "CANARYKEY", "secret": "CANARYSECRET", "endpoint_url": "http://127.0.0.1:9"}
    store = RemoteStore("s3://bucket/a", storage_options=secret)
    assert "CANARY" not in repr(store) + str(store)
    with pytest.raises(TypeError, match="key, secret") as raised:
        pickle.dumps(store)
    assert "CANARY" not in str(raised.value)
    with hs.config.set(pickle_credentials=True):
        copy = pickle.loads(pickle.dumps(store))
    assert copy == store and copy._options == store._options
    public = RemoteStore("s3://bucket/a", storage_options={"anon": True, "region": "eu-west-1"})
    assert pickle.loads(pickle.dumps(public))._options == public._options
    signed = RemoteStore("https://user:CANARY@host/a?sig=CANARY")
    assert signed.url == "https://host/a"
    with pytest.raises(TypeError, match="its URL"):
        pickle.dumps(signed)
    with hs.config.set(pickle_credentials=True):
        assert b"CANARY" in pickle.dumps(signed)


def test_ctrl_c_stops_a_wait() -> None:
    """Ctrl-C stops a wait for a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.zarr"
        pressed = []

        def press() -> None:
            time.sleep(0.3)
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            hs.open(url, mode="r")
        stopped = time.monotonic()
        thread.join()
        assert stopped - pressed[0] < 0.3, "100 ms, and a busy machine"


def test_what_nobody_answers_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a.zarr"
        with pytest.raises(hs.errors.StoreError, match="did not answer in time"):
            hs.open(url, mode="r", storage_options={"timeout": 0.3, "max_retries": 0})
