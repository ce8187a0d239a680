"""Files that `hyperslab.h5` writes, compared with the files that h5py makes by the same calls."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from h5_writing import Calls, Kind, cases, described, kinds
from hyperslab import _native, h5
from hypothesis import given, settings


def stored(dtype: np.dtype[Any]) -> bytes:
    """Return the type message that h5py writes for a dataset."""
    with h5py.File.in_memory() as file:
        file.create_dataset("x", (1,), dtype)
        file.flush()
        image = file.id.get_file_image()
    return hs.File(io.BytesIO(image))["x"]._stored_type.message()


@settings(max_examples=150)
@given(kinds)
def test_types(kind: Kind) -> None:
    assert _native.StoredType(kind.dtype(h5)).message() == stored(kind.dtype(h5py))


@pytest.mark.parametrize("libver", ["earliest", "v110"])
@settings(max_examples=60)
@given(case=cases)
def test_hierarchies(tmp_path_factory: Any, libver: str, case: Calls) -> None:
    folder = tmp_path_factory.mktemp("files")
    for name, m in (("ours", h5), ("theirs", h5py)):
        with m.File(folder / name, "w", libver=libver) as file:
            case.run(m, file)
    with h5py.File(folder / "ours") as ours, h5py.File(folder / "theirs") as theirs:
        assert described(ours) == described(theirs)


@settings(max_examples=40)
@given(case=cases, later=cases)
def test_changes_of_a_file(tmp_path_factory: Any, case: Calls, later: Calls) -> None:
    """A file of h5py is changed by us, and ours by h5py."""
    folder = tmp_path_factory.mktemp("files")
    for name, first, second in (("a", h5, h5py), ("b", h5py, h5), ("c", h5, h5), ("d", h5py, h5py)):
        with first.File(folder / name, "w") as file:
            case.run(first, file)
        with second.File(folder / name, "r+") as file:
            later.run(second, file)
    with h5py.File(folder / "d") as file:
        expected = described(file)
    for name in "abc":
        with h5py.File(folder / name) as file:
            assert described(file) == expected


# ---- how files are opened


def test_modes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(FileNotFoundError):
        h5.File(path, "r+")
    with h5.File(path, "x") as file:
        assert file.mode == "r+" and file.filename == str(path)
        file["one"] = 1
    for mode in ("x", "w-"):
        with pytest.raises(FileExistsError):
            h5.File(path, mode)
    with h5.File(path, "a") as file:
        assert list(file) == ["one"]
        file["two"] = 2
    with h5py.File(path) as file:
        assert file["one"][()] == 1 and file["two"][()] == 2
    with h5.File(path, "w") as file:
        assert list(file) == []
    with h5.File(path) as file, pytest.raises(ValueError, match="no write intent"):
        file.create_group("g")
    with pytest.raises(ValueError, match="Invalid mode"):
        h5.File(path, "q")


def test_an_existing_file_stays_until_the_first_flush(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5.File(path, "w") as file:
        file["old"] = 1
    new = h5.File(path, "w")
    new["new"] = 2
    with h5py.File(path) as file:
        assert list(file) == ["old"]
    new.flush()
    with h5py.File(path) as file:
        assert list(file) == ["new"]
    new.close()


def test_files_close_with_their_last_object(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    group = h5.File(path, "w").create_group("g")
    group.attrs["n"] = 5
    del group
    with h5py.File(path) as file:
        assert file["g"].attrs["n"] == 5


def test_file_objects(tmp_path: Path) -> None:
    image = io.BytesIO()
    with h5.File(image, "w") as file:
        file["a"] = np.arange(5)
        file.flush()
        with h5py.File(io.BytesIO(image.getvalue())) as found:
            assert found["a"][:].tolist() == [0, 1, 2, 3, 4]
        file["b"] = "text"
    with h5.File(image, "r+") as file:
        del file["a"]
    with h5py.File(image) as found:
        assert list(found) == ["b"] and found["b"][()] == b"text"
    with (tmp_path / "x").open("w+b") as stream:
        with h5.File(stream, "w") as file:
            file.attrs["x"] = [1, 2]
        with h5py.File(stream) as found:
            assert found.attrs["x"].tolist() == [1, 2]


def test_files_in_memory(tmp_path: Path) -> None:
    with h5.File.in_memory() as file:
        file["a"] = [1.5, 2.5]
        assert file.driver == "core" and file.mode == "r+"
        image = file.image()
    with h5.File.in_memory(image) as file:
        assert file["a"][:].tolist() == [1.5, 2.5]
    path = tmp_path / "core.h5"
    with h5.File(path, "w", driver="core", backing_store=False) as file:
        file["a"] = 1
    assert not path.exists()
    with h5.File(path, "w", driver="core") as file:
        file["a"] = 1
    with h5py.File(path) as file:
        assert file["a"][()] == 1


def test_options_of_files(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5.File(path, "w", userblock_size=1024, libver=("earliest", "v110"), track_order=True) as file:
        assert file.userblock_size == 1024 and file.libver == ("earliest", "v110")
        for name in "zab":
            file[name] = name
    with h5py.File(path) as file:
        assert file.userblock_size == 1024 and list(file) == ["z", "a", "b"]
    with pytest.raises(ValueError, match="does not match"):
        h5.File(path, "a", userblock_size=512)
    with pytest.raises(ValueError, match="creating"):
        h5.File(path, "r+", userblock_size=512)
    with h5.File(path, "r+", rdcc_nbytes=1, locking=False, alignment_interval=4, page_buf_size=4096) as file:
        assert file["z"][()] == b"z"
    with pytest.raises(ValueError):
        h5.File(path, "w", libver="v999")
    with h5.File(path, "w", fs_strategy="page", fs_page_size=4096, meta_block_size=4096) as file:
        file.swmr_mode = True
        assert file.swmr_mode


# ---- handles


def test_handles_see_changes(tmp_path: Path) -> None:
    with h5.File(tmp_path / "a.h5", "w") as file:
        first = file.create_dataset("a", (4,), "i4", maxshape=(None,), chunks=(2,))
        again = file["a"]
        first[...] = [1, 2, 3, 4]
        assert again[:].tolist() == [1, 2, 3, 4]
        first.resize((6,))
        assert again.shape == (6,) and again[:].tolist() == [1, 2, 3, 4, 0, 0]
        again.attrs["x"] = 1
        assert first.attrs["x"] == 1
        group, other = file.create_group("g"), file["g"]
        group["x"] = 1
        assert list(other) == ["x"]
