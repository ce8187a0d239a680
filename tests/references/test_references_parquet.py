"""References in folders of Parquet files, as kerchunk and VirtualiZarr write them.

The results are compared with fsspec's reference file system under zarr-python.
"""

from __future__ import annotations

import base64
import json
import math
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import _native
from object_server_client import Server
from test_references import judge, same

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

VALUES = np.arange(1200, dtype="f4").reshape(40, 30)


def raw(text: str) -> bytes:
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


def written(folder: Path, document: Path, rows: int, *, typed: bool = False, **how: Any) -> Path:
    """Writes the references of a document as kerchunk's `refs_to_dataframe` does."""
    refs = json.loads(document.read_text())["refs"]
    metadata = {
        key: json.loads(value) for key, value in refs.items() if key.rsplit("/", 1)[-1].startswith(".z")
    }
    folder.mkdir()
    (folder / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": rows}))
    for key, array in metadata.items():
        if not key.endswith(".zarray"):
            continue
        name = key.removesuffix(".zarray").rstrip("/")
        shape = zip(array["shape"], array["chunks"], strict=True)
        counts = [math.ceil(extent / chunk) for extent, chunk in shape] or [1]
        chunks: list[Any] = [None] * math.prod(counts)
        for number, index in enumerate(np.ndindex(*counts)):
            chunks[number] = refs.get(f"{name}/{'.'.join(map(str, index))}".lstrip("/"))
        for start in range(0, len(chunks), rows):
            part = chunks[start : start + rows]
            part += [None] * (rows - len(part))
            ranges = [each if isinstance(each, list) else [None, 0, 0] for each in part]
            table = pyarrow.table(
                {
                    "path": pyarrow.array([each[0] for each in ranges], pyarrow.string()),
                    "offset": pyarrow.array([(each + [0, 0])[1] for each in ranges], pyarrow.int64()),
                    "size": pyarrow.array([(each + [0, 0, 0])[2] for each in ranges], pyarrow.int64()),
                    # pandas leaves the type open if all values are null.
                    "raw": pyarrow.array(
                        [raw(each) if isinstance(each, str) else None for each in part],
                        pyarrow.binary()
                        if typed or any(isinstance(each, str) for each in part)
                        else pyarrow.null(),
                    ),
                }
            )
            (folder / name).mkdir(parents=True, exist_ok=True)
            file = folder / name / f"refs.{start // rows}.parq"
            if any(each is not None for each in part):
                parquet.write_table(table, file, **({"compression": "zstd"} | how))
    return folder


@pytest.fixture
def document(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "ocean.h5", "w") as file:
        file.attrs["title"] = "an ocean"
        sst = file.create_dataset("deep/sst", data=VALUES, chunks=(16, 16), compression=5, shuffle=True)
        sst.attrs["units"] = "K"
        file["plain"] = VALUES.astype(">f8")
        file["scalar"] = 7
        sparse = file.create_dataset("sparse", (40, 30), "i4", chunks=(8, 8), fillvalue=4)
        sparse[9, 9] = 1
    path = tmp_path / "refs.json"
    assert _native.run_cli(["hyperslab", "index", str(tmp_path / "ocean.h5"), "-o", str(path)]) == 0
    found = json.loads(path.read_text())
    assert any(key.endswith(".zarray") for key in found["refs"])
    return path


@pytest.mark.parametrize("rows", [1, 4, 10_000])
@pytest.mark.parametrize(
    "how", [{}, {"compression": "snappy"}, {"compression": "none", "use_dictionary": False}]
)
def test_folders(document: Path, rows: int, how: Any) -> None:
    folder = written(document.with_name("refs.parq"), document, rows, **how)
    group: Any = hs.open_group(folder, mode="r")
    assert group.attrs["title"] == "an ocean" and group["deep/sst"].attrs["units"] == "K"
    expected: Any = hs.open_group(document, mode="r")
    for name in ("deep/sst", "plain", "scalar", "sparse"):
        array = hs.open_array(f"{folder}/{name}", mode="r")
        np.testing.assert_array_equal(array[...], expected[name][...])
    np.testing.assert_array_equal(
        hs.open_array(str(folder), path="deep/sst")[3:30:5, ::7], VALUES[3:30:5, ::7]
    )
    assert sorted(name for name, _ in group.members(max_depth=None)) == sorted(
        name for name, _ in expected.members(max_depth=None)
    )
    # All keys of the document have the same bytes.
    ours, theirs = group.store._native, expected.store._native
    keys = [key for key in theirs.list("")]
    assert sorted(ours.list("")) == sorted(keys)
    for key in keys:
        if not key.rsplit("/", 1)[-1].startswith(".z"):
            assert ours.get(key) == theirs.get(key), key
    again = pickle.loads(pickle.dumps(hs.open_array(f"{folder}/deep/sst", mode="r")))
    np.testing.assert_array_equal(again[...], VALUES)
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open_array(f"{folder}/plain", mode="r+")[...] = 0


def test_the_judge(document: Path) -> None:
    pytest.importorskip("pandas")
    folder = written(document.with_name("refs.parq"), document, 4, typed=True)
    assert same(hs.open(folder), judge(folder)) == 4


def test_kerchunk(document: Path) -> None:
    dataframe = pytest.importorskip("kerchunk.df")
    hdf = pytest.importorskip("kerchunk.hdf")
    ocean = document.with_name("ocean.h5")
    refs = hdf.SingleHdf5ToZarr(str(ocean), inline_threshold=50).translate()
    folder = document.with_name("kerchunk.parq")
    dataframe.refs_to_dataframe(refs, str(folder), record_size=3)
    ours: Any = hs.open_group(folder, mode="r")
    theirs: Any = judge(folder)
    document_group: Any = hs.open_group(document, mode="r")
    for name in ("deep/sst", "plain", "scalar"):
        np.testing.assert_array_equal(ours[name][...], theirs[name][...])
    # For an absent chunk pandas 3 returns NaN, which fsspec takes for a URL.
    np.testing.assert_array_equal(ours["sparse"][...], document_group["sparse"][...])


def test_virtualizarr(document: Path) -> None:
    virtualizarr = pytest.importorskip("virtualizarr")
    registry = pytest.importorskip("obspec_utils.registry")
    obstore = pytest.importorskip("obstore")
    found = registry.ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    parser = virtualizarr.parsers.HDFParser(group="deep")
    ocean = document.with_name("ocean.h5")
    dataset = virtualizarr.open_virtual_dataset(f"file://{ocean}", registry=found, parser=parser)
    folder = document.with_name("virtual.parquet")
    dataset.vz.to_kerchunk(str(folder), format="parquet")
    assert same(hs.open(folder), judge(folder)) == 1
    np.testing.assert_array_equal(hs.open_array(f"{folder}/sst")[...], VALUES)


def test_on_a_server(document: Path, tmp_path: Path) -> None:
    folder = written(tmp_path / "refs.parq", document, 3)
    with Server() as server:
        server.put("bucket", "a/ocean.h5", (tmp_path / "ocean.h5").read_bytes())
        for file in folder.rglob("*"):
            if file.name == ".zmetadata":
                server.put("bucket", "a/refs.parq/.zmetadata", file.read_bytes())
            elif file.is_file():
                table = parquet.read_table(file)
                paths = ["s3://bucket/a/ocean.h5" if path else None for path in table["path"].to_pylist()]
                table = table.set_column(0, "path", pyarrow.array(paths, pyarrow.string()))
                parquet.write_table(table, tmp_path / "one")
                server.put(
                    "bucket", f"a/refs.parq/{file.relative_to(folder)}", (tmp_path / "one").read_bytes()
                )
        server.reset()
        options = server.s3_options
        array = hs.open_array("s3://bucket/a/refs.parq/deep/sst", mode="r", storage_options=options)
        np.testing.assert_array_equal(array[...], VALUES)
        asked = server.requests()
        # The metadata takes one request, and the two files at most three.
        assert len([key for _, key in asked if key.endswith(".zmetadata")]) == 1
        assert len([key for _, key in asked if key.endswith(".parq")]) <= 3


def test_what_goes_wrong(document: Path) -> None:
    folder = written(document.with_name("refs.parq"), document, 4)
    file = folder / "deep" / "sst" / "refs.0.parq"
    good = file.read_bytes()
    generator = np.random.default_rng(seed := int.from_bytes(os.urandom(4), "little"))

    def read() -> Any:
        return hs.open_array(f"{folder}/deep/sst", mode="r")[...]

    for bad in (
        b"",
        b"PAR1",
        b"no parquet at all",
        good[: len(good) // 2],
        good[:-9] + b"\xff\xff\xff\x7fPAR1",
    ):
        file.write_bytes(bad)
        with pytest.raises(hs.errors.HyperslabError, match=r"refs\.0\.parq.*no Parquet file of references"):
            read()
    # Random damage leads to an error, to other references, or to values without a checksum.
    for _ in range(200):
        bad_bytes = bytearray(good)
        for _ in range(generator.integers(1, 4)):
            bad_bytes[generator.integers(len(bad_bytes))] = generator.integers(256)
        file.write_bytes(bad_bytes)
        try:
            assert read().shape == VALUES.shape, seed
        except (hs.errors.HyperslabError, ValueError, OSError):
            pass
    file.unlink()
    # If the file is missing, its chunks are absent.
    assert not hs.open_array(f"{folder}/deep/sst", mode="r")[:16, :].any()
    many = pyarrow.table({"path": ["x"] * 5, "offset": [0] * 5, "size": [0] * 5})
    nested = pyarrow.table({"path": [["x"]] * 4, "offset": [0] * 4, "size": [0] * 4})
    numbers = pyarrow.table({"path": [1] * 4})
    negative = pyarrow.table({"path": ["x"] * 4, "offset": [-1] * 4, "size": [1] * 4})
    for table, why in [(many, "more than the 4 rows"), (numbers, "holds numbers"), (negative, "negative")]:
        parquet.write_table(table, file)
        with pytest.raises(hs.errors.HyperslabError, match=why):
            read()
    parquet.write_table(nested, file)
    assert not read()[:16].any()
    outside = pyarrow.table({"path": ["/etc/passwd"] * 4, "offset": [0] * 4, "size": [4] * 4})
    parquet.write_table(outside, file)
    with pytest.raises(hs.errors.HyperslabError, match="not in the directory of the references"):
        read()
    for text, why in [
        ('{"metadata": {}, "record_size": 0}', "record_size: expected a number"),
        # An array without chunks in its metadata is an error when it is opened.
        ('{"metadata": {"a/.zarray": {"shape": [3]}}, "record_size": 5}', "there is no array or group"),
        ('{"metadata": ', "invalid JSON"),
    ]:
        (folder / ".zmetadata").write_text(text)
        with pytest.raises(hs.errors.HyperslabError, match=why):
            hs.open(folder, mode="r")
