"""References that kerchunk, VirtualiZarr and `hyperslab index` write, read as Zarr.

The results are compared with fsspec's reference file system under zarr-python.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import zarr
from hyperslab import _native
from object_server_client import Server
from zarr.storage import FsspecStore

VALUES = np.arange(1200, dtype="f4").reshape(40, 30)


def cli(*args: Any) -> int:
    return _native.run_cli(["hyperslab", *map(str, args)])


@pytest.fixture(autouse=True)
def policy() -> Any:
    before = hs.config.external_files
    yield
    hs.config.external_files = before


@pytest.fixture
def ocean(tmp_path: Path) -> Path:
    """Writes an HDF5 file with groups, filters, absent chunks and text."""
    with h5py.File(tmp_path / "ocean.h5", "w") as file:
        file.attrs["title"] = "an ocean"
        sst = file.create_dataset("deep/sst", data=VALUES, chunks=(16, 16), compression=5, shuffle=True)
        sst.attrs["units"] = "K"
        file["plain"] = VALUES.astype(">f8")
        file["scalar"] = 7
        sparse = file.create_dataset("sparse", (40, 30), "i4", chunks=(8, 8), fillvalue=4)
        sparse[9, 9] = 1
    return tmp_path / "ocean.h5"


@pytest.fixture
def refs(ocean: Path) -> Path:
    """Writes references to the file with `hyperslab index`."""
    assert cli("index", ocean, "-o", ocean.with_name("refs.json")) == 0
    return ocean.with_name("refs.json")


def judge(path: Path, *, expressions: bool = False) -> zarr.Group:
    """Opens references with zarr-python and fsspec. Expressions in templates need Jinja."""
    options: dict[str, Any] = {
        "fo": str(path),
        "remote_protocol": "file",
        "remote_options": {"asynchronous": True},
    }
    store = FsspecStore.from_url(
        "reference://", storage_options=options | {"simple_templates": not expressions}
    )
    return zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=False)


def same(ours: Any, theirs: zarr.Group) -> int:
    """Compares all arrays. Returns their number."""
    # Older zarr-python does not list groups in references, but opens their members.
    assert {*theirs.array_keys(), *theirs.group_keys()} <= {*ours}
    assert dict(ours.attrs) == dict(theirs.attrs)
    count = 0
    for name in ours:
        node = theirs[name]
        if isinstance(node, zarr.Group):
            count += same(ours[name], node)
            continue
        assert ours[name].dtype == node.dtype and ours[name].chunks == node.chunks, name
        assert dict(ours[name].attrs) == dict(node.attrs), name
        np.testing.assert_array_equal(ours[name][...], node[...], err_msg=name)
        count += 1
    return count


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def array_of(shape: list[int], chunks: list[int], dtype: str = "|u1", fill: Any = 255) -> str:
    meta = {"shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill}
    return json.dumps(meta | {"zarr_format": 2, "compressor": None, "filters": None, "order": "C"})


GROUP = '{"zarr_format": 2}'


def test_our_own_index(refs: Path, ocean: Path) -> None:
    ours = hs.open(refs)
    assert isinstance(ours, hs.Group) and same(ours, judge(refs)) == 4
    with h5py.File(ocean) as file:
        for path in ("deep/sst", "plain", "scalar", "sparse"):
            np.testing.assert_array_equal(ours[path][()], file[path][()])
            np.testing.assert_array_equal(hs.open(f"{refs}/{path}")[()], file[path][()])
    assert hs.open_group(refs)["deep/sst"].attrs["units"] == "K"
    assert hs.open_array(refs, path="deep/sst", mode="r")[17, 3] == VALUES[17, 3]
    assert hs.open(f"file://{refs}")["plain"][39, 29] == 1199
    assert "refs.json" in repr(ours) or "refs.json" in ours.store.url
    copied = pickle.loads(pickle.dumps(ours["deep/sst"]))
    np.testing.assert_array_equal(copied[...], VALUES)
    for change in (lambda: ours["plain"].__setitem__((0, 0), 1), lambda: ours.create_group("new")):
        with pytest.raises((hs.errors.ReadOnlyError, PermissionError)):
            change()


def test_the_command_line(refs: Path, tmp_path: Path, capfd: Any) -> None:
    assert cli("tree", refs) == 0 and "sst" in capfd.readouterr().out
    assert cli("info", f"{refs}/deep/sst") == 0 and "(40, 30)" in capfd.readouterr().out.replace(
        "40 × 30", "(40, 30)"
    )
    assert cli("copy", refs, tmp_path / "copy.zarr", "--verify") == 0
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "copy.zarr", mode="r")["deep/sst"][...], VALUES)
    hs.copy(refs, tmp_path / "second.zarr", verify=True)


@pytest.mark.parametrize("version", [0, 1])
def test_values_of_every_kind(tmp_path: Path, version: int) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(100)))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "whole.bin").write_bytes(b"wxyz")
    data, whole = str(tmp_path / "data.bin"), str(tmp_path / "below" / "whole.bin")
    document: dict[str, Any] = {
        ".zgroup": GROUP,
        ".zattrs": {"given": "as an object", "n": [1, 2.5, None]},
        "a/.zarray": array_of([24], [4]),
        "a/0": [data, 10, 4],
        "a/1": [whole],
        "a/2": "text",
        "a/3": "base64:" + base64.b64encode(b"\xff\x00\x01\x02").decode(),
        "a/5": [f"file://{data}", 96, 4],
    }
    path = written(tmp_path / "r.json", {"version": 1, "refs": document} if version else document)
    group = hs.open(path)
    wanted = [10, 11, 12, 13, *b"wxyz", *b"text", 255, 0, 1, 2, *[255] * 4, 96, 97, 98, 99]
    assert group["a"][:].tolist() == wanted and same(group, judge(path)) == 1
    assert dict(group.attrs) == {"given": "as an object", "n": [1, 2.5, None]}
    # Relative locations start at the folder of the document.
    document["a/0"][0], document["a/1"][0], document["a/5"][0] = (
        "data.bin",
        "below/whole.bin",
        "./below/../data.bin",
    )
    assert hs.open(written(path, document))["a"][:].tolist() == wanted


def test_templates_and_generated_references(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"f_{name}").write_bytes(bytes(range(100, 160) if name == "x" else range(60)))
    document = {
        "version": 1,
        "templates": {"d": str(tmp_path), "f": "{{base}}/f_{{c}}"},
        "gen": [
            {
                "key": "{{name}}/{{i}}.{{j}}",
                "url": "{{f(base=d, c=name)}}",
                "offset": "{{(i * 4 + j) * 5}}",
                "length": "5",
                "dimensions": {"name": ["x", "y"], "i": {"stop": 3}, "j": {"start": 0, "stop": 4, "step": 3}},
            }
        ],
        "refs": {
            ".zgroup": GROUP,
            "x/.zarray": array_of([3, 20], [1, 5]),
            "y/.zarray": array_of([3, 20], [1, 5]),
            "x/1.1": ["{{d}}/f_y", 0, 5],
            "x/1.2": ["{{f(base=d, c='y')}}", 5, 5],
        },
    }
    path = written(tmp_path / "refs.json", document)
    group = hs.open(path)
    assert group["x"][1].tolist() == [*range(120, 125), *range(10), *range(135, 140)]
    assert group["y"][2].tolist() == [*range(40, 45), *[255] * 10, *range(55, 60)]
    pytest.importorskip("jinja2")
    assert same(group, judge(path, expressions=True)) == 2


def test_zarr_3_and_shards(tmp_path: Path) -> None:
    """A shard may be a range of an object. Its inner chunks are ranges of that range."""
    values = np.arange(10_000, dtype="i4").reshape(100, 100)
    zarr.create_array(
        tmp_path / "a.zarr", data=values, chunks=(10, 10), shards=(50, 100), dimension_names=["y", "x"]
    )
    refs: dict[str, Any] = {}
    with open(tmp_path / "all.bin", "wb") as all_bytes:
        all_bytes.write(b"in front")
        for file in sorted(p for p in (tmp_path / "a.zarr").rglob("*") if p.is_file()):
            key, data = str(file.relative_to(tmp_path / "a.zarr")), file.read_bytes()
            refs[key] = data.decode() if key == "zarr.json" else ["all.bin", all_bytes.tell(), len(data)]
            all_bytes.write(data)
    array = hs.open(written(tmp_path / "refs.json", {"version": 1, "refs": refs}))
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array[::7, 3:90:11], values[::7, 3:90:11])
    for _ in range(2):
        assert array[77, 42] == values[77, 42]


def test_policy(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (there / "secret").write_bytes(b"secret")
    (here / "link").symlink_to(there / "secret")
    for url in (
        str(there / "secret"),
        "../there/secret",
        f"file://{there}/secret",
        "link",
        "here/../../there/secret",
    ):
        path = written(here / "r.json", {".zarray": array_of([6], [6]), "0": [url, 0, 6]})
        array = hs.open(path)
        assert array.shape == (6,), "what is in the document is told"
        with pytest.raises(hs.errors.ExternalFileError, match="external_files = .same-directory.*anywhere"):
            array[:]
    with hs.config.set(external_files="anywhere"):
        for url in (str(there / "secret"), "../there/secret", f"file://{there}/secret", "link"):
            path = written(here / "r.json", {".zarray": array_of([6], [6]), "0": [url, 0, 6]})
            assert bytes(hs.open(path)[:]) == b"secret"
    for url in ("/etc/passwd", "s3://bucket/x", "https://host/x", "memory://name/x"):
        path = written(here / "r.json", {".zarray": array_of([6], [6]), "0": [url, 0, 6]})
        with pytest.raises(hs.errors.HyperslabError, match="0"):
            hs.open(path)[:]
    (here / "own").write_bytes(b"secret")
    path = written(here / "r.json", {".zarray": array_of([6], [6]), "0": ["own", 0, 6]})
    with hs.config.set(external_files="refuse"):
        with pytest.raises(hs.errors.ExternalFileError, match="are not opened"):
            hs.open(path)[:]
    assert bytes(hs.open(path)[:]) == b"secret"


def test_targets_that_are_not_what_they_were(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        ".zarray": array_of([8], [4], fill=9),
        "0": ["data.bin", 2, 4],
        "1": ["data.bin", 6, 4],
    }
    path = written(tmp_path / "r.json", document)
    with pytest.raises(
        hs.errors.StoreNotFoundError, match="bytes 2..6 of 'data.bin': there is no such object"
    ):
        hs.open(path)[:]
    (tmp_path / "data.bin").write_bytes(bytes(7))
    array = hs.open(path)
    with pytest.raises(
        hs.errors.ChunkError, match="'1' in .*r.json is bytes 6..10 of 'data.bin': it has only 7 bytes"
    ):
        array[:]
    assert array[:4].tolist() == [0] * 4
    os.replace(written(tmp_path / "other", "x"), tmp_path / "data.bin")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(hs.errors.StoreError, match="named pipe"):
        hs.open(written(path, document | {"0": ["fifo", 0, 4]}))[:]
    # A chunk with a length that does not fit the array.
    with pytest.raises(hs.errors.ChunkError, match="3 bytes"):
        hs.open(written(path, document | {"0": "abc"}))[:4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no document of references: EOF"),
        ('{"version": 2, "refs": {}}', "version 2"),
        (
            '{"version": 1, "gen": [{"key": "{{i}}", "url": "x", "dimensions": {"i": {"stop": 99999999}}}]}',
            "not generated",
        ),
    ],
)
def test_bad_documents(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(hs.errors.MetadataValidationError, match=message):
        hs.open(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('["{{x|upper}}", 0, 1]', "cannot evaluate"),
        ("[" * 100_000 + "]" * 100_000, "expected|recursion"),
    ],
)
def test_bad_members(tmp_path: Path, value: str, message: str) -> None:
    """Bad members are an error only when they are read."""
    good = json.dumps(array_of([1], [1]))
    text = f'{{"version": 1, "templates": {{"x": "y"}}, "refs": {{".zarray": {good}, "0": {value}}}}}'
    (tmp_path / "r.json").write_text(text)
    array = hs.open_array(tmp_path / "r.json", mode="r")
    with pytest.raises(hs.errors.MetadataValidationError, match=message):
        array[...]


def test_what_is_no_document(tmp_path: Path) -> None:
    for text in ("[]", '{"features": []}', "", "1"):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(hs.errors.UnknownFormatError):
            hs.open(tmp_path / "r.json")
    hs.create_group(tmp_path / "g.zarr")
    with pytest.raises(hs.errors.UnknownFormatError):
        hs.open(tmp_path / "g.zarr" / "zarr.json")
    with pytest.raises(hs.errors.InvalidArgumentError, match="no such file"):
        hs.create_group(tmp_path / "typo.json")


def test_a_million_references(tmp_path: Path) -> None:
    """A million references open in seconds and need little memory."""
    n = 1_000_000
    with open(tmp_path / "refs.json", "w") as file:
        file.write('{"version": 1, "refs": {".zgroup": ' + json.dumps(GROUP))
        file.write(', "a/.zarray": ' + json.dumps(array_of([1000, 1000], [1, 1])))
        for at in range(n):
            file.write(f',"a/{at // 1000}.{at % 1000}":["file-{at // 1000:04}.bin",{at % 1000},1]')
        file.write("}}")
    (tmp_path / "file-0500.bin").write_bytes(bytes(at % 251 for at in range(1000)))
    code = (
        "import hyperslab as hs, resource, sys\n"
        "group = hs.open(sys.argv[1])\n"
        "assert group['a'][500, 100:110].tolist() == [*range(100, 110)]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "refs.json"], capture_output=True, text=True, check=True
    )
    size = (tmp_path / "refs.json").stat().st_size
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert int(found.stdout) * 1024 < base * 1024 + 5 * size, (found.stdout, size, base)


def test_a_forked_child_reads(refs: Path) -> None:
    array = hs.open(refs)["deep/sst"]
    assert array[0, 0] == 0
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(array[...], VALUES) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_references_on_a_server(ocean: Path, tmp_path: Path) -> None:
    """A document and the files beside it share storage options.

    Reading one chunk takes one request.
    """
    assert cli("index", ocean, "--url", "ocean.h5", "--inline", "0", "-o", tmp_path / "refs.json") == 0
    with Server(latency=0.02) as server:
        server.put("bucket", "a/refs.json", (tmp_path / "refs.json").read_bytes())
        server.put("bucket", "a/ocean.h5", ocean.read_bytes())
        server.put("bucket", "b/secret", b"secret")
        url, options = "s3://bucket/a/refs.json", server.s3_options
        array = hs.open(f"{url}/deep/sst", mode="r", storage_options=options)
        np.testing.assert_array_equal(array[...], VALUES)
        server.reset()
        assert array[20, 20] == VALUES[20, 20]
        assert [key for _, key in server.requests()] == ["a/ocean.h5"]
        # Reading the whole array takes no more rounds than reading chunks that are objects.
        plain = hs.create_array(
            "s3://bucket/plain.zarr", data=VALUES, chunks=(16, 16), storage_options=options
        )
        rounds = []
        for each in (plain, array):
            server.reset()
            np.testing.assert_array_equal(each[...], VALUES)
            rounds.append(server.rounds())
        assert rounds[1] <= rounds[0], rounds
        web = hs.open(f"{server.url}/bucket/a/refs.json")
        np.testing.assert_array_equal(web["plain"][...], VALUES)
        with pytest.raises(TypeError, match="secrets"):
            pickle.dumps(array)
        with hs.config.set(pickle_credentials=True):
            np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], VALUES)
        secret = {".zarray": array_of([6], [6]), "0": ["s3://bucket/b/secret"]}
        server.put("bucket", "a/other.json", json.dumps(secret).encode())
        with pytest.raises(hs.errors.ExternalFileError, match="same-directory"):
            hs.open("s3://bucket/a/other.json", mode="r", storage_options=options)[:]
        with hs.config.set(external_files="anywhere"):
            found = hs.open("s3://bucket/a/other.json", mode="r", storage_options=options)
            assert bytes(found[:]) == b"secret"
        server.put("bucket", "a/ocean.h5", b"short")
        with pytest.raises(hs.errors.HyperslabError, match="ocean.h5"):
            hs.open(f"{url}/deep/sst", mode="r", storage_options=options)[...]


def test_kerchunk(ocean: Path) -> None:
    kerchunk_hdf = pytest.importorskip("kerchunk.hdf")
    netcdf3 = pytest.importorskip("kerchunk.netCDF3", exc_type=ImportError)
    with netCDF4.Dataset(ocean.with_name("old.nc"), "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("x", 30)
        file.createVariable("a", "i2", ("x",))[:] = np.arange(30)
    made = {
        "hdf": kerchunk_hdf.SingleHdf5ToZarr(str(ocean), inline_threshold=50).translate(),
        "classic": netcdf3.NetCDF3ToZarr(str(ocean.with_name("old.nc"))).translate(),
    }
    for name, document in made.items():
        path = written(ocean.with_name(f"{name}.json"), document)
        assert same(hs.open(path), judge(path)) >= 1
    np.testing.assert_array_equal(hs.open(ocean.with_name("hdf.json"))["deep/sst"][...], VALUES)


def test_virtualizarr(ocean: Path) -> None:
    virtualizarr = pytest.importorskip("virtualizarr")
    registry = pytest.importorskip("obspec_utils.registry")
    obstore = pytest.importorskip("obstore")
    found = registry.ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    parser = virtualizarr.parsers.HDFParser(group="deep")
    dataset = virtualizarr.open_virtual_dataset(f"file://{ocean}", registry=found, parser=parser)
    path = ocean.with_name("virtual.json")
    dataset.vz.to_kerchunk(str(path), format="json")
    assert same(hs.open(path), judge(path)) == 1
    np.testing.assert_array_equal(hs.open(path)["sst"][...], VALUES)


def test_icechunk() -> None:
    icechunk = pytest.importorskip("icechunk")
    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    group = zarr.create_group(session.store)
    group.create_array("a", data=VALUES, chunks=(16, 16))
    session.commit("first")
    ours = hs.open(session.store)
    np.testing.assert_array_equal(ours["a"][...], VALUES)
    assert ours["a"][39, 29] == 1199


def test_fsspec_is_the_judge(refs: Path) -> None:
    """Each key has the bytes that fsspec's file system returns."""
    files = fsspec.filesystem("reference", fo=str(refs), remote_protocol="file")
    document = json.loads(refs.read_text())["refs"]
    store = hs.open(refs).store
    assert sorted(store._native.list("")) == sorted(document)
    for key in document:
        assert store._native.get(key) == files.cat(key), key


@pytest.mark.parametrize("where", ["local", "server"])
def test_as_fsspec_spells_it(ocean: Path, tmp_path: Path, where: str) -> None:
    """hyperslab and zarr-python take the same storage options.

    The targets are on another server than the document, and their locations have no scheme.
    """
    pytest.importorskip("s3fs")
    assert cli("index", ocean, "--url", "bucket/ocean.h5", "--inline", "0", "-o", tmp_path / "refs.json") == 0
    with Server() as documents, Server() as data:
        data.put("bucket", "ocean.h5", ocean.read_bytes())
        documents.put("bucket", "docs/refs.json", (tmp_path / "refs.json").read_bytes())

        def of(server: Any) -> dict[str, Any]:
            return {"key": "key", "secret": "SECRET", "client_kwargs": {"endpoint_url": server.url}}

        options: dict[str, Any] = {
            "remote_protocol": "s3",
            "remote_options": of(data) | {"asynchronous": True},
        }
        if where == "local":
            options["fo"] = str(tmp_path / "refs.json")
        else:
            options |= {
                "fo": "bucket/docs/refs.json",
                "target_protocol": "s3",
                "target_options": of(documents),
            }
        judge = zarr.open_group(
            FsspecStore.from_url("reference://", storage_options=dict(options)),
            mode="r",
            zarr_format=2,
            use_consolidated=False,
        )
        with pytest.raises(hs.errors.ExternalFileError, match="not in the directory of the references"):
            hs.open("reference://", mode="r", storage_options=options)["plain"][...]
        with hs.config.set(external_files="anywhere"):
            ours = hs.open("reference://", mode="r", storage_options=options)
            assert same(ours, judge) == 4
            array = hs.open("reference://deep/sst", mode="r", storage_options=options)
            np.testing.assert_array_equal(array[...], VALUES)
            assert "SECRET" not in f"{array!r} {array.store!r} {array.explain()}"
            with pytest.raises(TypeError, match=r"remote_options\.key"):
                pickle.dumps(array)
            with hs.config.set(pickle_credentials=True):
                np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], VALUES)


def test_what_fsspec_spells_otherwise(refs: Path) -> None:
    """An option that would have no effect is an error."""
    np.testing.assert_array_equal(
        hs.open(
            "reference://deep/sst", storage_options={"fo": refs, "lazy": True, "remote_protocol": "file"}
        ),
        VALUES,
    )
    for options, why in [
        ({}, "where the references are"),
        ({"fo": str(refs), "remote_protocol": "ftp"}, "unknown remote_protocol 'ftp'"),
        ({"fo": str(refs), "remote_options": {"anon": True}}, "without remote_protocol"),
        ({"fo": str(refs), "target_options": {"anon": True}}, "takes no storage options"),
        ({"fo": str(refs), "template_overrides": {"u": "x"}}, "unknown storage option 'template_overrides'"),
        ({"fo": {"version": 1, "refs": {}}}, "write it to a file"),
        ({"fo": str(refs.with_name("none.json"))}, "no references at"),
        ({"fo": str(refs.with_name("ocean.h5"))}, "no references at"),
    ]:
        with pytest.raises(hs.errors.HyperslabError, match=why):
            hs.open("reference://", mode="r", storage_options=options)
