"""Arrays, groups and files on real servers.

The servers are moto (S3), azurite (Azure), fake-gcs-server (GCS) and nginx (HTTP). zarr-python with
obstore reads what hyperslab writes there, and the reverse. crates/remote/tests/real_servers.rs
tests the promises of a store.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import obstore
import pytest
import zarr
from hyperslab.storage import RemoteStore
from servers import KINDS, Running, obstore_of, started
from zarr.storage import ObjectStore

SCHEMES = {"moto": "s3", "azurite": "az", "fake-gcs-server": "gs"}


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[str], Running]]:
    with started() as start:
        yield start


@dataclass
class Place:
    """A part of a server that belongs to one test."""

    kind: str
    server: Running
    name: str

    @property
    def url(self) -> str:
        start = f"{SCHEMES[self.kind]}://bucket" if self.kind in SCHEMES else self.server.url
        return f"{start}/{self.name}"

    @property
    def options(self) -> dict[str, str]:
        return self.server.options

    def store(self, path: str, **more: Any) -> RemoteStore:
        return RemoteStore(f"{self.url}/{path}", storage_options={**self.options, **more})

    def obstore(self) -> Any:
        return obstore_of(self.kind, self.server)

    def zarr(self, path: str) -> Any:
        """Returns the same store for zarr-python."""
        store = obstore_of(self.kind, self.server, f"{self.name}/{path}")
        return ObjectStore(store, read_only=self.kind == "nginx")

    def put(self, path: str, data: bytes) -> None:
        if self.kind == "nginx":
            file = self.server.folder / self.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        else:
            obstore.put(self.obstore(), f"{self.name}/{path}", data)

    def keys(self, path: str) -> list[str]:
        prefix = f"{self.name}/{path}"
        found = (each["path"] for each in obstore.list(self.obstore(), prefix).collect())
        return sorted(key.removeprefix(f"{prefix}/") for key in found)


def place(kind: str, request: pytest.FixtureRequest, start: Callable[[str], Running]) -> Place:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return Place(kind, start(kind), name)


@pytest.fixture(params=SCHEMES)
def there(request: pytest.FixtureRequest, start: Callable[[str], Running]) -> Place:
    """Returns a place on each server that accepts changes."""
    return place(request.param, request, start)


@pytest.fixture(params=KINDS)
def anywhere(request: pytest.FixtureRequest, start: Callable[[str], Running]) -> Place:
    return place(request.param, request, start)


VALUES = np.arange(60_000, dtype="i4").reshape(200, 300)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_and_groups(there: Place, zarr_format: Any) -> None:
    url, options = f"{there.url}/g.zarr", there.options
    values = VALUES.copy()
    root = hs.create_group(url, zarr_format=zarr_format, storage_options=options, attributes={"title": "x"})
    arrays = [root.create_array("v", shape=values.shape, dtype="i4", chunks=(64, 64))]
    if zarr_format == 3:
        sharded = root.create_group("sub")
        arrays.append(
            sharded.create_array("s", shape=values.shape, dtype="i4", chunks=(10, 20), shards=(100, 100))
        )
    for array in arrays:
        array[:] = VALUES
        array[3, 7] = -1
        array[60:150, 5:250:7] = -2
    values[3, 7], values[60:150, 5:250:7] = -1, -2
    found = hs.open_group(url, mode="r", storage_options=options)
    assert dict(found.attrs) == {"title": "x"}
    names = ["v", "sub", "sub/s"] if zarr_format == 3 else ["v"]
    assert sorted(name for name, _ in found.members(max_depth=None)) == sorted(names)
    for name in {"v", "sub/s"} & set(names):
        array = hs.open_array(f"{url}/{name}", mode="r", storage_options=options)
        assert np.array_equal(array[:], values)
        assert np.array_equal(array[5:190:7, ::-3], values[5:190:7, ::-3])
        assert np.array_equal(array.oindex[[3, 199, 60], [7, 299]], values[np.ix_([3, 199, 60], [7, 299])])
        assert array[3, 7] == -1 and array[199, 299] == 59_999

    # Attributes, shape, deletion, and an array that replaces another.
    root.attrs["title"] = "y"
    array = root["v"]
    array.attrs.update(units="K", n=1)
    array.resize((250, 300))
    array.append(np.full((5, 300), 7, "i4"))
    again = hs.open_array(f"{url}/v", mode="r", storage_options=options)
    assert again.shape == (255, 300) and dict(again.attrs) == {"units": "K", "n": 1}
    assert np.array_equal(again[200:], np.repeat([0, 7], [50, 5])[:, None] * np.ones(300, "i4"))
    array.resize((100, 300))
    assert np.array_equal(array[:], values[:100])
    root.consolidate()
    assert [name for name, _ in hs.open_group(url, mode="r", storage_options=options).arrays()] == ["v"]
    new = hs.create_array(f"{url}/v", data=np.arange(3), storage_options=options, overwrite=True)
    assert new[:].tolist() == [0, 1, 2] and len(there.keys("g.zarr/v")) <= 3
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.create_array(f"{url}/v", data=np.arange(3), storage_options=options)
    del root["v"]
    assert "v" not in root and there.keys("g.zarr/v") == []
    hs.create_group(url, storage_options=options, overwrite=True)
    assert there.keys("g.zarr") == ["zarr.json"]


def test_names(there: Place) -> None:
    """Names that URLs and XML escape."""
    url, options = f"{there.url}/ä b.zarr", there.options
    root = hs.create_group(url, storage_options=options)
    names = ["ü c+d", "a&b<c", "100%", "%20", "a=b;c,d", "~'()!"]
    for n, name in enumerate(names):
        root.create_array(name, data=np.arange(n + 1), chunks=(2,))
    found = hs.open_group(url, mode="r", storage_options=options)
    assert sorted(found) == sorted(names)
    for n, name in enumerate(names):
        assert hs.open_array(f"{url}/{name}", mode="r", storage_options=options)[:].tolist() == [
            *range(n + 1)
        ]
        del root[name]
    assert sorted(root) == [] and there.keys("ä b.zarr") == ["zarr.json"]


def test_sparse_arrays(there: Place) -> None:
    """A listing tells which chunks are absent."""
    url, options = f"{there.url}/n.zarr", there.options
    array = hs.create_array(url, shape=(300,), chunks=(1,), dtype="i2", storage_options=options)
    wanted = np.zeros(300, "i2")
    wanted[::4] = np.arange(1, 76)
    array[::4] = wanted[::4]
    assert np.array_equal(hs.open_array(url, mode="r", storage_options=options)[:], wanted)
    array[:] = 0
    assert there.keys("n.zarr") == ["zarr.json"]


def test_long_objects(there: Place) -> None:
    """Long objects are written in parts and read with several requests."""
    options = {**there.options, "part_size": "5242880", "max_request_size": "1000000"}
    values = np.random.default_rng(1).integers(0, 255, 12_000_000, dtype="u1")
    array = hs.create_array(f"{there.url}/long", data=values, chunks=values.shape, storage_options=options)
    assert np.array_equal(array[:], values)
    assert np.array_equal(array[5_000_000:5_000_100], values[5_000_000:5_000_100])
    array[6_000_000] = 1
    values[6_000_000] = 1
    assert np.array_equal(hs.open_array(f"{there.url}/long", mode="r", storage_options=options)[:], values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_what_we_write(anywhere: Place, tmp_path: Path, zarr_format: Any) -> None:
    shards = (100, 100) if zarr_format == 3 else None
    if anywhere.kind == "nginx":
        url: Any = anywhere.server.folder / anywhere.name / "g.zarr"
        root = hs.create_group(url, zarr_format=zarr_format, attributes={"a": [1, "ü"]})
    else:
        root = hs.create_group(
            f"{anywhere.url}/g.zarr",
            zarr_format=zarr_format,
            storage_options=anywhere.options,
            attributes={"a": [1, "ü"]},
        )
    array = root.create_array("v", shape=VALUES.shape, dtype="i4", chunks=(20, 50), shards=shards)
    array[:] = VALUES
    array[7, 5:100] = 0
    root.consolidate()
    found = zarr.open_group(anywhere.zarr("g.zarr"), mode="r", zarr_format=zarr_format)
    assert dict(found.attrs) == {"a": [1, "ü"]} and list(found) == ["v"]
    assert np.array_equal(found["v"][:], array[:]) and found["v"][7, 99] == 0


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_we_read_what_zarr_python_writes(anywhere: Place, zarr_format: Any) -> None:
    shards = (100, 100) if zarr_format == 3 else None
    if anywhere.kind == "nginx":
        target: Any = anywhere.server.folder / anywhere.name / "g.zarr"
    else:
        target = anywhere.zarr("g.zarr")
    theirs = zarr.create_group(target, zarr_format=zarr_format, attributes={"a": [1, "ü"]})
    theirs.create_array("v", shape=VALUES.shape, dtype="i4", chunks=(20, 50), shards=shards)[:] = VALUES
    theirs["v"][7, 5:100] = 0
    if anywhere.kind == "nginx":
        zarr.consolidate_metadata(target)
    ours = hs.open_group(f"{anywhere.url}/g.zarr", mode="r", storage_options=anywhere.options)
    assert dict(ours.attrs) == {"a": [1, "ü"]}
    assert [name for name, _ in ours.arrays()] == ["v"]
    assert np.array_equal(ours["v"][:], theirs["v"][:])
    assert np.array_equal(ours["v"][::-9, 3], theirs["v"][:][::-9, 3]) and ours["v"][7, 100] == 2200


def test_files(anywhere: Place, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("g/v", data=VALUES, chunks=(20, 50), compression="gzip")
        file["g/w"] = VALUES
        file["g"].attrs["units"] = "K"
    anywhere.put("x.h5", (tmp_path / "x.h5").read_bytes())
    url, options = f"{anywhere.url}/x.h5", anywhere.options
    group = hs.open_group(f"{url}/g", mode="r", storage_options=options)
    assert group.attrs["units"] == "K" and sorted(group) == ["v", "w"]
    for name in ("v", "w"):
        assert np.array_equal(group[name][:], VALUES)
        assert np.array_equal(group[name][100, ::-7], VALUES[100, ::-7])
    with pytest.raises(hs.errors.NodeNotFoundError):
        hs.open(f"{anywhere.url}/y.h5", mode="r", storage_options=options)


NEXT = dict(zip(SCHEMES, [*list(SCHEMES)[1:], "moto"], strict=True)) | {"nginx": "moto"}


def test_copies(
    anywhere: Place, request: pytest.FixtureRequest, start: Callable[[str], Running], tmp_path: Path
) -> None:
    """Copies from a directory to a server, from there to another server, and back."""
    other = place(NEXT[anywhere.kind], request, start)
    here = hs.create_group(tmp_path / "g.zarr", attributes={"a": 1})
    here.create_array("v", data=VALUES, chunks=(64, 64))
    here.create_array("sub/s", data=VALUES, chunks=(10, 10), shards=(100, 100), attributes={"b": 2})
    if anywhere.kind == "nginx":
        here.consolidate()
        for file in (tmp_path / "g.zarr").rglob("*"):
            if file.is_file():
                anywhere.put(f"g.zarr/{file.relative_to(tmp_path / 'g.zarr')}", file.read_bytes())
    else:
        hs.copy(here, anywhere.store("g.zarr"), verify=True)
    source = hs.open_group(f"{anywhere.url}/g.zarr", mode="r", storage_options=anywhere.options)
    report = hs.copy(source, other.store("copy.zarr"), verify=True)
    assert report.arrays == 2
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.copy(source, other.store("copy.zarr"))
    # Copy to the other format, in the place of the existing copy.
    wanted: Any = {"chunks": (50, 60), "shards": None, "zarr_format": 2}
    hs.copy(source, f"{other.url}/copy.zarr", overwrite=True, storage_options=other.options, **wanted)
    assert not [key for key in other.keys("copy.zarr") if key.endswith("zarr.json")]
    hs.copy(other.store("copy.zarr"), tmp_path / "back.zarr", verify=True)
    found = hs.open_group(tmp_path / "back.zarr", mode="r")
    assert found.attrs["a"] == 1 and found["sub/s"].attrs["b"] == 2
    for name in ("v", "sub/s"):
        assert np.array_equal(found[name][:], VALUES) and found[name].chunks == (50, 60)


def test_commands_on_a_web_server(start: Callable[[str], Running], tmp_path: Path) -> None:
    """The web server lists nothing, so consolidated metadata tells which nodes exist."""
    server = start("nginx")
    made = hs.create_group(server.folder / "commands.zarr")
    made.create_array("v", data=VALUES, chunks=(64, 64))
    made.create_group("sub").create_array("text", data=np.array(["a", "ü"], "T"))
    made.consolidate()

    def run(*arguments: Any) -> str:
        command = [sys.executable, "-m", "hyperslab", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    url = f"{server.url}/commands.zarr"
    assert "(200, 300)" in run("tree", url)
    run("copy", url, tmp_path / "copy.zarr")
    found = hs.open_group(tmp_path / "copy.zarr", mode="r")
    assert np.array_equal(found["v"][:], VALUES) and list(found["sub/text"][:]) == ["a", "ü"]


def _add(url: str, options: dict[str, str], writer: int) -> None:
    array = hs.open_array(url, mode="r+", storage_options=options)
    for n in range(writer, 30, 2):
        array[n] = n + 1


def test_processes_that_write_to_one_shard_lose_nothing(there: Place) -> None:
    url, options = f"{there.url}/n.zarr", there.options
    hs.create_array(url, shape=(30,), dtype="i4", chunks=(10,), shards=(30,), storage_options=options)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add, args=(url, options, n)) for n in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert np.array_equal(hs.open_array(url, mode="r", storage_options=options)[:], np.arange(1, 31))


def test_what_is_not_there(anywhere: Place) -> None:
    """A missing object and a refused request give different errors."""
    options = {**anywhere.options, "max_retries": "0"}
    with pytest.raises(hs.errors.NodeNotFoundError, match=anywhere.name):
        hs.open(f"{anywhere.url}/none", mode="r", storage_options=options)
    if anywhere.kind == "nginx":
        # nginx does not list directories.
        anywhere.put("secret/zarr.json/x", b"")
        with pytest.raises(hs.errors.StoreError, match="HTTP status 403"):
            hs.open(f"{anywhere.url}/secret", mode="r", storage_options=options)
        return
    scheme = SCHEMES[anywhere.kind]
    with pytest.raises(hs.errors.StoreError) as raised:
        hs.open(f"{scheme}://nowhere/a", mode="r", storage_options=options)
    text = str(raised.value)
    assert f"{scheme}://nowhere/a" in text and "HTTP status 404" in text, text
    assert "There is no such bucket: check its name" in text, text
    with pytest.raises(hs.errors.StoreError, match=f"{scheme}://nowhere/a: there is no such bucket"):
        hs.create_array(f"{scheme}://nowhere/a", data=[1], storage_options=options)


def test_wrong_credentials(start: Callable[[str], Running]) -> None:
    """Only azurite checks signatures. The other servers do not."""
    options = {**start("azurite").options, "max_retries": "0"}
    wrong = {**options, "account_key": "QUFB" * 22}
    anonymous = {name: value for name, value in options.items() if name != "account_key"} | {"anon": "true"}
    for refused, advice in ((wrong, "Check the "), (anonymous, "The request was anonymous")):
        with pytest.raises(hs.errors.StorePermissionError) as raised:
            hs.create_array("az://bucket/refused", data=[1], storage_options=refused)
        text = str(raised.value)
        assert "az://bucket/refused" in text and "HTTP status 403" in text and advice in text, text
        assert "QUFB" not in text
