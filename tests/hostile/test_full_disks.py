"""Files are limited to some bytes, so that a write fails half way, as on a full disk."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab.storage import ZipStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of files")

LIMITED = """
import resource, signal, sys
import numpy as np
import hyperslab as hs
from hyperslab.storage import ZipStore
path, limit = sys.argv[1], int(sys.argv[2])
noise = np.random.default_rng(1).normal(size=(1, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill_disk():
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
{body}
except OSError as error:
    print(type(error).__name__, error.errno)
else:
    print("not refused")
"""


def run(path: Path, limit: int, body: str) -> str:
    """Runs lines of a program on a full disk. Returns the error that they got."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    command = [sys.executable, "-c", LIMITED.replace("{body}", lines), str(path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TRANSACTION = """
group = hs.open_consolidated(path, mode="r+")
fill_disk()
with hs.transaction(group) as t:
    t["time"].append([1])
    t["sst"].append(noise)
"""


# The chunk of `sst` has 8000 bytes, and the consolidated metadata more than 1000. The chunk of `time`
# has 40.
@pytest.mark.parametrize("limit", [20, 300, 5000])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_transactions(tmp_path: Path, zarr_format: int, limit: int) -> None:
    path = tmp_path / "g.zarr"
    group = hs.create_group(path, zarr_format=zarr_format)
    group.create_array("time", shape=(0,), chunks=(5,), dtype="i8", compressors=None)
    group.create_array("sst", shape=(0, 1000), chunks=(1, 1000), dtype="f8", compressors=None)
    group = hs.consolidate_metadata(path)
    with hs.transaction(group) as t:
        t["time"].append([0])
        t["sst"].append(np.ones((1, 1000)))
    assert run(path, limit, TRANSACTION) == "StoreError 27"
    for group in (hs.open_consolidated(path), hs.open_group(path, use_consolidated=False)):
        assert group["time"][:].tolist() == [0]
        assert group["sst"][:].tolist() == [[1.0] * 1000]
    # The next transaction works.
    with hs.transaction(hs.open_consolidated(path, mode="r+")) as t:
        t["time"].append([7])
        t["sst"].append(np.full((1, 1000), 7.0))
    group = hs.open_consolidated(path)
    assert group["time"][:].tolist() == [0, 7]
    assert group["sst"][1].tolist() == [7.0] * 1000


ARCHIVE = """
with ZipStore(path, mode="a") as store:
    fill_disk()
    store.set("new", noise.tobytes())
"""


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as store:
        store.set("old", b"x" * 500)
        hs.create_array(store, name="array", data=np.arange(100))
    size = path.stat().st_size
    assert run(path, size + 2000, ARCHIVE) == "StoreError 27"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("old") == b"x" * 500 and "new" not in archive.namelist()
    with ZipStore(path, mode="a") as store:
        assert store.get("old") == b"x" * 500 and store.get("new") is None
        assert hs.open_array(store, path="array")[:].tolist() == list(range(100))
        store.set("new", b"y" * 5000)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("new") == b"y" * 5000


FILE = """
file = hs.File(path, "r+")
fill_disk()
file.attrs["flush"] = 2
file["rows"].resize((2, 1000))
file["rows"][1] = noise[0]
file.flush()
"""


@pytest.mark.parametrize("more", [0, 100, 5000])
@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_changes_of_hdf5(tmp_path: Path, libver: str, more: int) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w", libver=libver) as file:
        file.create_dataset("rows", data=np.ones((1, 1000)), chunks=(1, 1000), maxshape=(None, 1000))
        file.attrs["flush"] = 1
    assert run(path, path.stat().st_size + more, FILE).endswith(" 27")
    for opened in (h5py.File(path, "r"), hs.File(path, "r")):
        with opened as file:
            assert file.attrs["flush"] == 1
            assert file["rows"].shape == (1, 1000)
            assert (file["rows"][:] == 1).all()
    # The file can be changed when there is room.
    with hs.File(path, "r+") as file:
        file["rows"].resize((2, 1000))
        file["rows"][1] = 2.0
    with h5py.File(path) as file:
        assert file["rows"][:, 0].tolist() == [1.0, 2.0]
