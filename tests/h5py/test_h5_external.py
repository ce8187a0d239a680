"""Datasets whose elements are in other files, made by us and by h5py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import h5

MODULES = pytest.mark.parametrize("m", [h5, h5py], ids=["hyperslab", "h5py"])
LIBVERS = pytest.mark.parametrize("libver", ["earliest", "v110"])
UNLIMITED = 2**64 - 1


@LIBVERS
@MODULES
def test_elements_are_in_files(tmp_path: Path, m: Any, libver: str) -> None:
    raw, more = tmp_path / "raw.bin", tmp_path / "more.bin"
    raw.write_bytes(b"head" + b"\xff" * 8)
    values = np.arange(30, dtype=">i2").reshape(10, 3)
    with m.File(tmp_path / "a.h5", "w", libver=libver) as file:
        files = [(str(raw), 4, 14), (str(more), 1, UNLIMITED)]
        data = file.create_dataset("g/a", data=values, external=files)
        assert data.external == files and data.chunks is None
        data[3] = 100
        data[4:9:2, 1] = [7, 8, 9]
        data[0, 0] = -1
        data.attrs["unit"] = "m"
    values[3], values[4:9:2, 1], values[0, 0] = 100, [7, 8, 9], -1
    assert raw.read_bytes() == b"head" + values.tobytes()[:14]
    assert more.read_bytes() == b"\0" + values.tobytes()[14:]
    for n in (h5, h5py):
        with n.File(tmp_path / "a.h5", "r+") as file:
            data = file["g/a"]
            assert np.array_equal(data[...], values) and data.dtype == values.dtype
            data[9] = values[9] = [1, 2, 3]
            assert np.array_equal(data[8:], values[8:])
    hs.compact(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["g/a"][...], values)


@MODULES
def test_other_elements(tmp_path: Path, m: Any) -> None:
    structure = np.dtype([("a", "<i4"), ("b", "S3")])
    rows = np.array([(1, b"x"), (2, b"yz"), (3, b"")], structure)
    with m.File(tmp_path / "a.h5", "w") as file:
        table = file.create_dataset("table", data=rows, external=tmp_path / "table.bin", maxshape=(None,))
        table["a", 1:] = [20, 30]
        table[0] = (10, b"abc")
        flags = file.create_dataset("flags", (4,), bool, external=str(tmp_path / "flags.bin"))
        flags[[0, 3]] = True
        flags[np.array([False, True, False, True])] = False
        file.create_dataset("one", data=5.5, external=str(tmp_path / "one.bin"))
        assert table.maxshape == (None,)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["table"][:].tolist() == [(10, b"abc"), (20, b"yz"), (30, b"")]
        assert file["flags"][:].tolist() == [True, False, False, False]
        assert file["one"][()] == 5.5


@MODULES
def test_relative_names(tmp_path: Path, m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with m.File("a.h5", "w") as file:
        data = file.create_dataset("a", data=[1, 2], dtype="i4", external="a.bin", efile_prefix="${ORIGIN}")
        assert data.id.get_access_plist().get_efile_prefix().rstrip(b"/") == os.fsencode(tmp_path)
        file.create_dataset("b", data=[3, 4], dtype="i4", external=b"b.bin")
    assert (tmp_path / "a.bin").read_bytes() == np.array([1, 2], "i4").tobytes()
    with h5py.File("a.h5") as file:
        assert file["a"][:].tolist() == [1, 2] and file["b"][:].tolist() == [3, 4]


def test_what_is_refused(tmp_path: Path) -> None:
    path, raw = tmp_path / "d" / "a.h5", str(tmp_path / "d" / "a.bin")
    path.parent.mkdir()
    with h5.File(path, "w") as file:
        for keywords, error, words in (
            ({"external": [raw]}, TypeError, "tuple of"),
            ({"external": [(raw, 0)]}, ValueError, "3"),
            ({"external": [(raw, 0, 8)]}, ValueError, "room for 8 bytes, but elements have 20"),
            ({"external": [(raw, 0, UNLIMITED), (raw, 0, 8)]}, ValueError, "only the last"),
            ({"external": raw, "chunks": (2,)}, ValueError, "neither chunks nor filters"),
            ({"external": raw, "dtype": h5.string_dtype()}, ValueError, "cannot be in other files"),
            ({"external": str(tmp_path / "out.bin")}, hs.errors.ExternalFileError, "not in the directory"),
            ({"external": "a.bin", "efile_prefix": tmp_path}, ValueError, "absolute name"),
        ):
            with pytest.raises(error, match=words):
                file.create_dataset("a", **{"shape": (5,), "dtype": "i4", **keywords})
            assert list(file) == []
    assert not (tmp_path / "out.bin").exists()
    with h5.File.in_memory() as file, pytest.raises(hs.errors.UnsupportedError, match="on the disk"):
        file.create_dataset("a", (5,), "i4", external=raw)
