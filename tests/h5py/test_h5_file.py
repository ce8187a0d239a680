"""`hyperslab.File` accepts the arguments of `h5py.File` for reading, and raises the same errors."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
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
        assert (file.driver, file.libver, file.swmr_mode) == ("core", ("v200", "v200"), True)
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
    with pytest.raises(hs.errors.UnsupportedError, match="on local disks and on servers"):
        hs.File("memory://bucket/file.h5", "w")


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


class Counting(io.RawIOBase):
    """A file that counts the bytes read and returns at most 100 000 bytes at once."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.count = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, *where: int) -> int:
        return self.file.seek(*where)

    def tell(self) -> int:
        return self.file.tell()

    def readinto(self, into: Any) -> int:
        found = self.file.readinto(memoryview(into)[:100_000])
        self.count += found
        return found


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Writes a file with 16 MB of data. 8 MB of it are compressed to 4 MB."""
    path = tmp_path / "large.h5"
    values = np.random.default_rng(1).integers(0, 1 << 16, (32, 256, 256)).astype("i4")
    with h5py.File(path, "w") as file:
        file.create_dataset("z", data=values, chunks=(1, 256, 256), compression="gzip", compression_opts=1)
        file["plain"] = np.arange(1_000_000.0)
        file["names"] = ["a", "été"] * 50
    return path


def test_file_objects_are_read_as_far_as_needed(large: Path) -> None:
    made = Counting(large)
    with hs.File(made) as file, h5py.File(large) as theirs:
        assert file.driver == "fileobj"
        assert file["z"][5].tolist() == theirs["z"][5].tolist()
        assert file["plain"][1000:1010].tolist() == theirs["plain"][1000:1010].tolist()
        assert made.count < 500_000 < large.stat().st_size / 20
        np.testing.assert_array_equal(file["z"][...], theirs["z"][...])
        np.testing.assert_array_equal(file["plain"][...], theirs["plain"][...])
        assert same_file(file, theirs) == 4
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(file["z"])
    assert not made.closed
    made.count = 0
    assert hs.open(made, mode="r")["names"].asstr()[1] == "été"
    assert 0 < made.count < 500_000


def test_threads_take_turns_at_a_file_object(large: Path) -> None:
    with h5py.File(large) as theirs:
        values = theirs["z"][...]
    array, rows = hs.File(Counting(large))["z"], np.random.default_rng(0).permutation(96) % 32
    with ThreadPoolExecutor(8) as pool:
        for row, found in zip(rows, pool.map(lambda row: array[row], rows), strict=True):
            np.testing.assert_array_equal(found, values[row])


def test_file_objects_of_other_kinds(path: Path, tmp_path: Path) -> None:
    """Any object that can seek and read: members of archives, compressed files, nameless files."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(path, "file.h5")
    with gzip.open(tmp_path / "x.gz", "wb") as compressed:
        compressed.write(path.read_bytes())
    nameless = tempfile.TemporaryFile()
    nameless.write(path.read_bytes())
    buffered = io.BufferedReader(Counting(path))
    for made in (zipfile.ZipFile(tmp_path / "x.zip").open("file.h5"), gzip.open(tmp_path / "x.gz"), nameless):
        with made, hs.File(made) as ours, h5py.File(path) as theirs:
            assert same_file(ours, theirs) == 4
    assert hs.open(buffered)["b"][1] == 2.5 and buffered.raw.count > 0  # type: ignore[attr-defined]
    classic = tmp_path / "classic.nc"
    with netCDF4.Dataset(classic, "w", format="NETCDF3_CLASSIC") as dataset:
        dataset.createDimension("x", 3)
        dataset.createVariable("a", "i4", ("x",))[:] = [1, 2, 3]
    assert hs.open(Counting(classic))["a"][:].tolist() == [1, 2, 3]
    with pytest.raises(OSError, match=r"NetCDF-3: use hyperslab\.open"):
        hs.File(Counting(classic))


def test_file_objects_that_cannot_be_read(large: Path) -> None:
    with large.open(encoding="latin-1") as text, pytest.raises(TypeError, match="mode 'rb'"):
        hs.open(text)  # type: ignore[arg-type]
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe, pytest.raises(io.UnsupportedOperation, match="BytesIO"):
        hs.open(pipe)
    os.close(write_end)
    with pytest.raises(hs.errors.UnsupportedError, match="use hyperslab.File"):
        hs.open(Counting(large), mode="w")
    made = Counting(large)
    array = hs.File(made)["z"]
    made.close()
    with pytest.raises(ValueError, match="closed: keep it open while") as closed:
        array[3]
    assert isinstance(closed.value, hs.errors.ClosedError)
    cut = Counting(large)
    array = hs.File(cut)["z"]
    os.truncate(large, 100_000)
    with pytest.raises(hs.errors.HyperslabError):
        array[31]


def test_a_signal_handler_that_reads_what_it_interrupted(large: Path) -> None:
    made, found = Counting(large), list[BaseException]()
    array = hs.File(made)["z"]

    def handler(*_: Any) -> None:
        try:
            array[3]
        except BaseException as error:
            found.append(error)

    class Interrupted(Counting):
        def readinto(self, into: Any) -> int:
            if not found:
                signal.raise_signal(signal.SIGUSR1)
            return super().readinto(into)

    made.__class__ = Interrupted
    former = signal.signal(signal.SIGUSR1, handler)
    try:
        values = array[2]
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert len(found) == 1 and "a signal handler reads" in str(found[0])
    with h5py.File(large) as theirs:
        np.testing.assert_array_equal(values, theirs["z"][2])


def test_a_forked_child_does_not_move_the_position_of_its_parent(large: Path) -> None:
    code = """
import io, os, sys, hyperslab as hs
sys.path[:0] = sys.argv[2:]
from test_h5_file import Counting
from pathlib import Path
array = hs.File(Counting(Path(sys.argv[1])))["z"]
child = os.fork()
if child == 0:
    try:
        array[3]
    except hs.errors.StoreError as error:
        os._exit(0 if "forked" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
print(int(array[3].sum()))
"""
    here = str(Path(__file__).parent)
    found = subprocess.run(
        [sys.executable, "-c", code, str(large), here, f"{here}/../lib"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    with h5py.File(large) as theirs:
        assert found.stdout.split() == [str(int(theirs["z"][3].sum()))], found.stderr


def test_file_objects_of_fsspec(path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open(str(path), "rb") as made:
        assert hs.File(made)["b"][1] == 2.5
    with fsspec.open("memory://file.h5", "wb") as made:
        made.write(path.read_bytes())
    with fsspec.open("memory://file.h5", "rb") as made:
        assert hs.File(made)["b"][1] == 2.5
    assert hs.open(fsspec.open("memory://file.h5", "rb"))["b"][1] == 2.5
    with gzip.open(path.with_suffix(".gz"), "wb") as compressed:
        compressed.write(path.read_bytes())
    assert hs.open(fsspec.open(str(path.with_suffix(".gz")), "rb", compression="gzip"))["b"][1] == 2.5


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


def test_what_cannot_be_opened_is_an_oserror(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    for length in (0, 4, 8, 100, len(whole) - 1):
        cut = tmp_path / f"{length}.h5"
        cut.write_bytes(whole[:length])
        for given in (cut, io.BytesIO(whole[:length])):
            for file in (hs.File, h5py.File):
                with pytest.raises(OSError):
                    file(given)
    for file in (hs.File, h5py.File):
        with pytest.raises(OSError):
            file("")


def test_names_as_h5py_takes_them(path: Path) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        for name in (b"g", "g", b"g/a", "none", "", b""):
            for getclass in (False, True):
                kind = type(ours.get(name, getclass=getclass, getlink=True)).__name__
                assert kind == type(theirs.get(name, getclass=getclass, getlink=True)).__name__, name
            assert (ours.get(name, 5) == 5) == (theirs.get(name, 5) == 5), name
        for each in (ours, theirs):
            with pytest.raises(KeyError):
                each[""]
            with pytest.raises(TypeError):
                each.get(5, getlink=True)
        for change in (
            lambda: ours.attrs.update({"n": 1}, m=2),
            lambda: ours.attrs.setdefault("n", 1),
        ):
            with pytest.raises(hs.errors.ReadOnlyError):
                change()


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
