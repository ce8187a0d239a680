"""`hyperslab.File`: what `h5py.File` takes for reading, and what it raises."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from h5_compare import same_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("g/a", data=np.arange(12).reshape(3, 4), chunks=(2, 3), compression="gzip")
        file["b"] = [1.5, 2.5]
        file.attrs["title"] = "a file"
    return path


def test_open_and_close(path: Path) -> None:
    with hs.File(path, "r") as file:
        assert isinstance(file, hs.h5.Group) and isinstance(file, hs.Group)
        with h5py.File(path, "r") as theirs:
            for name in ("filename", "mode", "driver", "userblock_size", "swmr_mode", "name"):
                assert getattr(file, name) == getattr(theirs, name), name
            assert repr(file) == repr(theirs)
            assert repr(file.keys()) == repr(theirs.keys()) == "<KeysViewHDF5 ['b', 'g']>"
        array = file["g/a"]
        assert type(array.file) is type(file["g"].file) is hs.File
        assert array.file == file == file["/"] and array.file.filename == file.filename
        assert pickle.loads(pickle.dumps(file)) == file
    assert not file and not array and repr(file) == "<Closed HDF5 file>"
    for use in (lambda: file["b"], lambda: list(file), lambda: file.attrs["title"], lambda: file.mode):
        with pytest.raises(ValueError, match="closed"):
            use()
    file.close()


@pytest.mark.parametrize("given", [str, Path, lambda path: str(path).encode(), Path.as_uri])
def test_names(path: Path, given: Any) -> None:
    with hs.File(given(path)) as file:
        assert file["b"][:].tolist() == [1.5, 2.5]


def test_keywords(path: Path) -> None:
    keywords = {
        "libver": "latest",
        "swmr": True,
        "rdcc_nslots": 100,
        "rdcc_nbytes": 2**20,
        "rdcc_w0": 0.5,
        "track_order": True,
        "page_buf_size": 0,
        "locking": False,
        "alignment_threshold": 1,
    }
    with hs.File(path, "r", "core", backing_store=False, **keywords) as file:
        assert (file.driver, file.libver, file.swmr_mode) == ("core", ("latest", "latest"), True)
        assert file["b"].file.driver == "core" and file["b"][0] == 1.5
    with hs.File(path, cache="1 MiB") as file:
        assert file["g/a"].cache is file.cache is not None


def test_refusals(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no HDF5" * 100)
    (tmp_path / "classic.nc").write_bytes(b"CDF\x01" + bytes(28))
    calls: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((tmp_path / "none.h5",), {}, "none.h5"),
        ((tmp_path,), {}, "directory"),
        ((tmp_path / "text",), {}, "neither HDF5"),
        ((tmp_path / "classic.nc",), {}, "hyperslab.open"),
        ((io.BytesIO(b"no HDF5"),), {}, "signature"),
        ((path, "q"), {}, "Invalid mode"),
        ((path,), {"driver": "unheard of"}, "Unknown driver"),
        ((path,), {"unheard_of": 1}, "unheard_of"),
        ((path,), {"userblock_size": 512}, "User block"),
        ((path,), {"fs_strategy": "page"}, "file space"),
        ((io.BytesIO(path.read_bytes()),), {"driver": "core"}, "fileobj"),
    ]
    for arguments, keywords, message in calls:
        with pytest.raises(Exception) as theirs:
            h5py.File(*arguments, **keywords)
        with pytest.raises(Exception, match=message) as ours:
            hs.File(*arguments, **keywords)
        assert isinstance(ours.value, theirs.type), (arguments, ours.value)
        assert getattr(ours.value, "errno", None) == getattr(theirs.value, "errno", None), arguments
    for mode in ("r+", "a", "w", "w-", "x"):
        with pytest.raises(hs.errors.UnsupportedError, match="read only so far"):
            hs.File(path, mode)
    with pytest.raises(hs.errors.UnsupportedError, match="in memory"):
        hs.File.in_memory()


def test_file_objects(path: Path) -> None:
    image = path.read_bytes()
    with path.open("rb") as local:
        for made in (io.BytesIO(image), local, io.FileIO(path)):
            with hs.File(made, "r") as file:
                assert file.driver == "fileobj" and file.filename == repr(made)
                assert file["g/a"][2].tolist() == [8, 9, 10, 11] and file["b"].file == file
    made = io.BytesIO(image)
    made.seek(5)
    with hs.File(made) as ours, h5py.File(path) as theirs:
        assert same_file(ours, theirs) == 4 and made.tell() == 5
    assert hs.File.in_memory(image)["b"][1] == 2.5


def test_file_objects_of_fsspec(path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open(str(path), "rb") as made:
        assert hs.File(made)["b"][1] == 2.5
    with fsspec.open("memory://file.h5", "wb") as made:
        made.write(path.read_bytes())
    with fsspec.open("memory://file.h5", "rb") as made:
        assert hs.File(made)["b"][1] == 2.5


def test_a_family(tmp_path: Path) -> None:
    name = str(tmp_path / "family-%04d.h5")
    with h5py.File(name, "w", driver="family", memb_size=4096) as file:
        file["a"] = np.arange(5000)
    assert len(list(tmp_path.glob("family-*"))) > 5
    with hs.File(name, "r", driver="family", memb_size=4096) as file:
        assert file["a"][4321] == 4321 and file["a"][:].sum() == np.arange(5000).sum()
        assert (file.driver, file.filename) == ("family", name)
    with pytest.raises(ValueError, match="%d"):
        hs.File(tmp_path / "family.h5", driver="family")


@pytest.mark.parametrize("ends", [{}, {"meta_ext": "-m.h5", "raw_ext": "-r.h5"}])
def test_a_split_file(tmp_path: Path, ends: dict[str, str]) -> None:
    name = str(tmp_path / "split")
    given = {key: value.encode() for key, value in ends.items()}
    with h5py.File(name, "w", driver="split", **given) as file:
        file["a"] = np.arange(5000)
        file["text"] = ["a", "été"]
    assert len(list(tmp_path.glob("split*"))) == 2
    with hs.File(name, driver="split", **given) as ours:
        with h5py.File(name, driver="split", **given) as theirs:
            assert ours["a"][:].tolist() == theirs["a"][:].tolist()
            assert ours["text"][:].tolist() == theirs["text"][:].tolist()
        assert ours.driver == "split"


def test_on_a_server(path: Path) -> None:
    from object_server_client import Server

    with Server() as server:
        server.put("bucket", "file.h5", path.read_bytes())
        keywords = {"aws_region": b"us-east-1", "secret_id": b"key", "secret_key": b"secret"}
        options = {"endpoint_url": server.url, "allow_http": "true"}
        with hs.File("s3://bucket/file.h5", "r", driver="ros3", storage_options=options, **keywords) as file:
            assert file["b"][:].tolist() == [1.5, 2.5] and file.driver == "ros3"


def test_is_hdf5(path: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=1024) as file:
        file["a"] = 1
    (tmp_path / "text").write_text("text")
    (tmp_path / "empty").write_text("")
    for name in (
        path,
        tmp_path / "block.h5",
        tmp_path / "text",
        tmp_path / "empty",
        tmp_path / "none",
        tmp_path,
    ):
        assert hs.h5.is_hdf5(name) == h5py.is_hdf5(name), name
        assert hs.h5.is_hdf5(str(name)) == h5py.is_hdf5(name)
    with hs.File(tmp_path / "block.h5") as file:
        assert file.userblock_size == 1024


def test_h5py_is_not_needed(path: Path) -> None:
    code = f"""
import sys
import hyperslab.h5 as h5
with h5.File({str(path)!r}) as file:
    assert file["b"].ref and file["g/a"].id.get_num_chunks() == 4
    assert h5.check_string_dtype(h5.string_dtype())
assert not {{"h5py", "anndata", "xarray", "dask"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
