"""Stores opened by URL, and HDF5 and NetCDF files as objects of any store."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest

VALUES = np.arange(24).reshape(4, 6)


def hdf5() -> bytes:
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file.create_dataset("g/x", data=VALUES, chunks=(2, 3), compression="gzip")
        file["g"].attrs["title"] = "ocean"
        file["named"] = np.dtype("f4")
    return made.getvalue()


@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_file_is_an_object_of_any_store(tmp_path: Path, kind: str) -> None:
    store = hs.MemoryStore() if kind == "memory" else hs.LocalStore(tmp_path)
    store.set("files/a.h5", hdf5())
    attempts: list[Any] = [
        lambda: hs.open(store, path="files/a.h5"),
        lambda: hs.open_group(store, path="files/a.h5"),
        lambda: hs.open(f"{store.url}/files/a.h5"),
        lambda: hs.open(store, path="files/a.h5/g", mode="r").file,
    ]
    for attempt in attempts:
        file = attempt()
        assert isinstance(file, hs.FileGroup) and isinstance(file, hs.Group)
        assert list(file) == ["g", "named"] and isinstance(file["named"], hs.Datatype)
        array = file["g/x"]
        assert isinstance(array, hs.FileArray) and isinstance(array, hs.Array)
        assert np.array_equal(array[1:, ::2], VALUES[1:, ::2]) and array.parent.attrs["title"] == "ocean"
        assert array.store.url == f"{store.url}/files/a.h5"
    assert np.array_equal(hs.open_array(store, path="files/a.h5/g/x")[:], VALUES)
    assert hs.copy(hs.open(store, path="files/a.h5/g"), hs.MemoryStore(), "copy").arrays == 1
    # The file is not part of a Zarr hierarchy, and is read-only.
    with pytest.raises(FileNotFoundError):
        hs.open(store, path="files/a.h5", zarr_format=3)
    with pytest.raises(FileNotFoundError):
        hs.open(store, path="files")
    for change in (
        lambda: file.create_group("new"),
        lambda: file.create_array("new", shape=(1,), dtype="i4"),
    ):
        with pytest.raises(hs.errors.ReadOnlyError, match="opened for reading"):
            change()
    assert store.list() == ["files/a.h5"]


def test_memory_stores_by_url() -> None:
    store = hs.MemoryStore()
    z = hs.create_array(store, name="g/z", data=VALUES)
    again = hs.open(f"{store.url}/g/z")
    assert again == z and type(again.store) is hs.MemoryStore and again.store == store
    hs.create_array(f"{store.url}/g/new", shape=(2,), dtype="i4")
    assert list(hs.open_group(store, path="g")) == ["new", "z"]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(again)
    with pytest.raises(hs.errors.UnsupportedError, match="directory"):
        hs.LocalStore(store.url)
    url = store.url
    del store, z, again
    with pytest.raises(hs.errors.UnsupportedError, match="no memory store"):
        hs.open(url)


def test_schemes_that_are_not_there() -> None:
    with pytest.raises(hs.errors.UnsupportedError, match="the schemes are file, memory"):
        hs.open("gopher://a/b")


def test_only_what_all_formats_have_is_inherited() -> None:
    file, zarr = set(dir(hs.FileArray)), set(dir(hs.Array))
    assert "zarr_format" not in file and "zarr_format" in zarr
    assert "zarr_format" not in dir(hs.FileGroup) and issubclass(hs.FileGroup, hs.Group)
    assert issubclass(hs.FileArray, hs.Array)
