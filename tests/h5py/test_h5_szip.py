"""The filter szip: h5py reads our chunks, and its parameters are h5py's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hyperslab import h5
from hyperslab.xarray import to_netcdf
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch

DTYPES = ["i1", "u1", "<i2", ">u2", "<f2", "<i4", ">i4", "<u4", "<f4", ">f4", "<i8", ">i8", "<f8", ">f8"]


@st.composite
def datasets(draw: Any) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Smooth numbers, noise and runs of one number; chunks that the shape cuts; all settings."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 300 if rank == 1 else 40), min_size=rank, max_size=rank)))
    chunks = tuple(draw(st.integers(1, length)) for length in shape)
    pixels = 2 * draw(st.integers(1, 16))
    if np.prod(chunks) < pixels:
        chunks = shape
    pixels = min(pixels, int(np.prod(chunks)) // 2 * 2)
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = int(np.prod(shape))
    match draw(st.sampled_from(["smooth", "noise", "runs", "constant"])):
        case "smooth":
            values = 50 * np.sin(np.arange(count) / 30) + 60
        case "noise":
            values = np.frombuffer(random.bytes(count * dtype.itemsize), dtype)
        case "runs":
            values = np.where(random.random(count) < 0.01, random.integers(0, 100, count), 0)
        case _:
            values = np.full(count, 7)
    options: dict[str, Any] = {"chunks": chunks, "compression": "szip"}
    options["shuffle"] = draw(st.booleans())
    options["fletcher32"] = draw(st.booleans())
    if pixels:
        options["compression_opts"] = (draw(st.sampled_from(["nn", "ec"])), pixels)
    else:
        options["compression"] = None
    return values.astype(dtype).reshape(shape), options


@settings(max_examples=examples(150))
@given(datasets())
def test_h5py_reads_our_chunks(case: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, options = case
    with scratch() as folder:
        for package in (h5, h5py):
            with package.File(folder / f"{package.__name__}.h5", "w") as file:
                file.create_dataset("a", data=values, **options)
        with h5py.File(folder / "hyperslab.h5.h5") as ours, h5py.File(folder / "h5py.h5") as theirs:
            one, two = ours["a"], theirs["a"]
            assert one[...].tobytes() == two[...].tobytes() == values.tobytes()
            plists = [dataset.id.get_create_plist() for dataset in (one, two)]
            filters = [[plist.get_filter(n) for n in range(plist.get_nfilters())] for plist in plists]
            assert filters[0] == filters[1]
        # Chunks that h5py wrote are changed here.
        with hs.File(folder / "h5py.h5", "r+") as file:
            file["a"][..., :1] = 3
        values[..., :1] = 3
        with h5py.File(folder / "h5py.h5") as file:
            assert file["a"][...].tobytes() == values.tobytes()


def test_smooth_numbers_take_less_room(tmp_path: Path) -> None:
    """The encoder needs no more bytes than h5py's, within one percent."""
    values = (1000 * np.sin(np.arange(100_000) / 100)).astype("i2")
    sizes = []
    for package in (h5, h5py):
        with package.File(tmp_path / f"{package.__name__}.h5", "w") as file:
            made = file.create_dataset("a", data=values, chunks=(10_000,), compression="szip")
            file.flush()
            sizes.append(made.id.get_storage_size())
    assert sizes[0] <= 1.01 * sizes[1] < values.nbytes


@pytest.mark.parametrize("dtype", ["c8", "S4", "V8", "i4,f4", "S3"])
def test_only_numbers(dtype: str) -> None:
    for package in (h5, h5py):
        with package.File.in_memory() as file:
            with pytest.raises(ValueError):
                file.create_dataset("a", (100,), dtype, chunks=(50,), compression="szip")
            assert list(file) == []


def test_copies(tmp_path: Path) -> None:
    """A copy with other chunks keeps the filter."""
    values = np.arange(1000, dtype="i4").reshape(20, 50)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(20, 50), compression="szip")
    hs.copy(tmp_path / "a.h5", tmp_path / "b.h5", chunks=(5, 7), verify=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["a"].compression == "szip" and file["a"].chunks == (5, 7)
        np.testing.assert_array_equal(file["a"][...], values)


def test_to_netcdf(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": (("x", "y"), np.arange(600.0).reshape(20, 30))})
    to_netcdf(ds, tmp_path / "a.nc", encoding={"a": {"compression": "szip", "chunksizes": (10, 30)}})
    xr.testing.assert_identical(xr.load_dataset(tmp_path / "a.nc", engine="h5netcdf"), ds)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        np.testing.assert_array_equal(file["a"][...], ds["a"])
        assert file["a"].filters()["szip"]
