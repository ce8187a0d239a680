"""Zip archives on servers: names that lead into them, and the number of requests."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.storage import FileStore, ZipStore
from object_server_client import Server

LATENCY = 0.15
VALUES = np.arange(60_000, dtype="i4").reshape(60, 1000)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def archive(server: Server, tmp_path: Path) -> str:
    """Stores an archive on the server. Returns its name."""
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        root = hs.create_group(store)
        root.create_array("a", data=VALUES, chunks=(1, 1000), compressors=None)
        root.create_array("g/s", data=VALUES, chunks=(1, 100), shards=(10, 1000))
    server.put("bucket", "d/x.zip", path.read_bytes())
    return "s3://bucket/d/x.zip"


def asked(server: Server, work: Callable[[], Any]) -> tuple[int, int, int, Any]:
    """Returns the rounds, requests and bytes, and the result of the work."""
    server.control(latency=LATENCY)
    server.reset()
    made = work()
    log = server.log()
    found = server.rounds(), len(log), sum(each["sent"] for each in log), made
    server.control(latency=0)
    return found


def test_rounds(server: Server, archive: str) -> None:
    options = server.s3_options
    rounds, requests, sent, array = asked(
        server, lambda: hs.open_array(f"{archive}/a", mode="r", storage_options=options)
    )
    # The archive's directory is at its end. The metadata come with it or in their own round.
    assert rounds == requests and rounds <= 2 and sent <= 400_000
    rounds, _, sent, found = asked(server, lambda: array[:, 7])
    assert np.array_equal(found, VALUES[:, 7])
    assert rounds <= 4 and sent < 2 * VALUES.nbytes
    shards = hs.open_array(f"{archive}/g/s", mode="r", storage_options=options)
    rounds, _, _, found = asked(server, lambda: shards[::10, 5])
    assert np.array_equal(found, VALUES[::10, 5])
    assert rounds <= 6


def zipped(tree: Path, path: Path, method: int, extra: bytes) -> bytes:
    """Returns an archive of a directory. Only its local headers have extra fields."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(tree.rglob("*")):
            if file.is_file():
                info = zipfile.ZipInfo(file.relative_to(tree).as_posix())
                info.compress_type, info.extra = method, extra
                archive.writestr(info, file.read_bytes())
        for info in archive.infolist():
            info.extra = b""
    return path.read_bytes()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("extra", [b"", b"\xfe\xca\x1c\x00" + bytes(28)], ids=["plain", "extra"])
@pytest.mark.parametrize("kind", ["coded", "plain", "shards"])
def test_many_members(server: Server, tmp_path: Path, method: int, extra: bytes, kind: str) -> None:
    """Members are ranges of one object. A read requests them together, with their headers."""
    values = np.random.default_rng(0).integers(0, 1 << 30, (40, 50_000), "i4")
    layouts: dict[str, dict[str, Any]] = {
        "coded": {"chunks": (1, 50_000)},
        "plain": {"chunks": (1, 50_000), "compressors": None},
        "shards": {"chunks": (1, 5000), "shards": (1, 50_000)},
    }
    root = hs.create_group(tmp_path / "tree")
    root.create_array("a", data=values, **layouts[kind])
    server.put("bucket", "m.zip", zipped(tmp_path / "tree", tmp_path / "m.zip", method, extra))
    url, options = "s3://bucket/m.zip/a", server.s3_options

    def read() -> list[Any]:
        # Open the array again, so that no headers are known.
        array = hs.open_array(url, mode="r", storage_options=options)
        rounds = server.rounds()
        found = array[:]
        return [found, rounds]

    # The indexes of shards take one more round, unless whole shards are compressed.
    most = 2 + 1 + (kind == "shards" and method == zipfile.ZIP_STORED)
    rounds, requests, (found, opening) = server.asked(read, most)
    assert np.array_equal(found, values)
    assert opening <= 2
    assert rounds <= most and requests <= 2 + 80, (rounds, requests)
    assert sum(each["sent"] for each in server.log()) < 1.1 * values.nbytes + 600_000

    rounds, _, column = server.asked(
        lambda: hs.open_array(url, mode="r", storage_options=options)[:, 4321], most
    )
    assert np.array_equal(column, values[:, 4321])
    assert rounds <= most
    if kind == "plain" and method == zipfile.ZIP_STORED:
        assert sum(each["sent"] for each in server.log()) < values.nbytes / 2


def test_names(server: Server, archive: str, tmp_path: Path) -> None:
    options = server.s3_options
    web = f"{server.url}/bucket/d/x.zip"
    nested = {f"s3.{name}": value for name, value in options.items()}
    for location, given in [
        (f"{archive}/g/s", options),
        (f"zip://g/s::{archive}", options),
        (f"zip:///g/s/::{archive}", nested),
        (f"zip://g::{archive}/s", {"s3": options}),
        (f"zip://::{archive}/g/s", options),
        (f"{web}/g/s", None),
        (f"zip://g/s::{web}", None),
    ]:
        array = hs.open_array(location, mode="r", storage_options=given)
        assert np.array_equal(array[3], VALUES[3]), location
        assert isinstance(array.store, ZipStore) and array.store.path is None
    # After `zip://`, an archive may have any name.
    server.put("bucket", "archive", server.get("bucket", "d/x.zip"))
    root = hs.open_group("zip://::s3://bucket/archive", mode="r", storage_options=options)
    assert np.array_equal(np.asarray(root["a"])[5], VALUES[5])
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open_array(f"{archive}/a", mode="r+", storage_options=options)[0] = 1
    store = ZipStore(archive, storage_options=options)
    assert np.array_equal(hs.open_array(store, path="a")[5], VALUES[5])
    with hs.config.set(pickle_credentials=True):
        again = pickle.loads(pickle.dumps(hs.open_array(store, path="a", mode="r")))
    assert np.array_equal(again[5], VALUES[5])
    with pytest.raises(TypeError, match="secret_access_key"):
        pickle.dumps(store)
    # A directory may have any name, too.
    hs.create_array("s3://bucket/dir/x", data=VALUES[0], storage_options=options)
    for key in server.list("bucket", "dir/x/"):
        server.put("bucket", key.replace("dir/x/", "dir/y.zip/"), server.get("bucket", key))
    assert np.array_equal(hs.open_array("s3://bucket/dir/y.zip", storage_options=options)[:], VALUES[0])


def test_what_goes_wrong(server: Server, archive: str, tmp_path: Path) -> None:
    options = server.s3_options
    server.put("bucket", "bad.zip", b"no archive")
    for location, error, why in [
        ("s3://bucket/bad.zip/a", hs.errors.StoreError, "is no zip archive"),
        ("zip://::s3://bucket/none", FileNotFoundError, "none"),
        (f"{archive}/none", hs.errors.NodeNotFoundError, "none"),
        (f"zip://::{tmp_path / 'x.zip'}", NotImplementedError, "no storage options"),
    ]:
        with pytest.raises(error, match=why):
            hs.open(location, mode="r", storage_options=options)
    wrong = {**options, "secret_access_key": "CANARY", "ky": "CANARY"}
    with pytest.raises(NotImplementedError, match="'ky'") as caught:
        hs.open(f"zip://::{archive}", storage_options=wrong)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("where", ["local", "remote"])
def test_files_in_archives(server: Server, tmp_path: Path, where: str) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "run.nc", "w") as file:
        file.create_dataset("g/v", data=VALUES, chunks=(10, 100), compression="gzip")
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.write(tmp_path / "run.nc", "2026/run.nc")
        archive.write(tmp_path / "run.nc", "packed.h5", zipfile.ZIP_DEFLATED)
    server.put("bucket", "f.zip", (tmp_path / "f.zip").read_bytes())
    options = server.s3_options if where == "remote" else None
    base = "s3://bucket/f.zip" if where == "remote" else str(tmp_path / "f.zip")
    for location in (f"{base}/2026/run.nc/g/v", f"zip://2026/run.nc::{base}/g/v"):
        array = hs.open_array(location, mode="r", storage_options=options)
        assert np.array_equal(array[::7, 5:900], VALUES[::7, 5:900])
        assert isinstance(array.store, FileStore) and array.store.url.endswith("f.zip/2026/run.nc")
    if options is None:
        assert np.array_equal(pickle.loads(pickle.dumps(array))[3], VALUES[3])
    with pytest.raises(NotImplementedError, match=r"packed\.h5.*compressed in its archive"):
        hs.open(f"{base}/packed.h5", storage_options=options)
