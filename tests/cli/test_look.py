"""`hyperslab show` prints as NumPy does, and `hyperslab dump` as ncdump does."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import xarray as xr
from servers import tool


@pytest.fixture(scope="module")
def command() -> str:
    """Returns the command that the wheel installed beside the interpreter."""
    found = shutil.which("hyperslab", path=sysconfig.get_path("scripts"))
    assert found is not None, "the command is not installed"
    return found


def run(*arguments: object) -> bytes:
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(
        list(map(str, arguments)), capture_output=True, check=True, timeout=120, env=environment
    ).stdout


def classic(path: Path, kind: Any) -> Path:
    """Write variables and attributes of all types of classic NetCDF."""
    with netCDF4.Dataset(path, "w", format=kind) as nc:
        nc.title = "an example"
        nc.number, nc.many, nc.big = np.float32(1.5), np.arange(3, dtype="i2"), 1e30
        nc.list = np.linspace(0, 1, 4)
        for name, length in (("time", None), ("y", 4), ("x", 6)):
            nc.createDimension(name, length)
        time = nc.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(5)
        sst = nc.createVariable("sst", "i2", ("time", "y", "x"), fill_value=-999)
        sst.set_auto_maskandscale(False)
        sst.scale_factor, sst.valid_range = 0.01, np.array([-5, 5], "i2")
        values = np.arange(120)
        sst[:] = np.where(values % 7 == 0, -999, values).reshape(5, 4, 6)
        thirds = nc.createVariable("thirds", "f4", ("y", "x"))
        thirds[:] = np.arange(24).reshape(4, 6) / 3
        thirds[1, 1], thirds[2, 2] = np.nan, netCDF4.default_fillvals["f4"]
        thirds.missing_value = np.float32(1e20)
        nc.createVariable("large", "f8", ("x",))[:] = np.arange(6) / 7 * 1e10
        letters = np.array(list('abcdefghijklmnopqrst"vwx'), "S1").reshape(4, 6)
        nc.createVariable("letters", "S1", ("y", "x"))[:] = letters
        nc.createVariable("scalar", "i4")[...] = 5
        nc.createVariable("small", "i1", ("x",))[:] = np.arange(6) - 3
    return path


def netcdf4(path: Path) -> Path:
    """Add what only NetCDF-4 has: groups, unsigned numbers, strings, names with spaces."""
    classic(path, "NETCDF4")
    with netCDF4.Dataset(path, "a") as nc:
        text = nc.createVariable("text", str, ("y",))
        text[0], text[1], text[2] = "a", 'say "hi"', "Čapek"
        for kind in ("u1", "u2", "u4", "i8", "u8"):
            variable = nc.createVariable(f"v{kind}", kind, ("x",))
            variable[:] = np.arange(6)
            variable.setncattr("pair", np.array([1, 2], kind))
        nc.setncattr_string("names", ["a", "b"])
        nc.history = 'line one\nline "two" \\ tab\t.'
        forcing = nc.createGroup("forcing")
        forcing.createDimension("z", 2)
        forcing.note = "hi"
        forcing.createVariable("wind", "f4", ("time", "x"))[:] = np.arange(30).reshape(5, 6)
        forcing.createVariable("deep name", "f4", ("z", "x"))
        forcing.createGroup("inner").createVariable("q", "i4", ("z",))[:] = [1, 2]
    return path


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4"])
def test_dumps_are_those_of_ncdump(command: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.nc"
    path = netcdf4(path) if kind == "NETCDF4" else classic(path, kind)
    assert run(command, "dump", path).decode() == run(tool("ncdump"), "-h", path).decode()
    assert run(command, "dump", path, "--all", "--raw").decode() == run(tool("ncdump"), path).decode()
    ours, theirs = run(command, "dump", path, "-v", "sst", "--raw"), run(tool("ncdump"), "-v", "sst", path)
    assert ours.decode() == theirs.decode()
    assert b' time = "2000-01-01", "2000-01-02",' in run(command, "dump", path, "-v", "time")


def test_links_in_a_circle_are_dumped_once(command: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("g")
        group["x"] = np.arange(3)
        group["up"] = file["/"]
    shown = run(command, "dump", tmp_path / "a.h5").decode()
    assert shown.count("group: g {") == 1 and "group: up" not in shown and "x(" in shown


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy printed floats otherwise")
def test_values_are_printed_as_by_numpy(command: str, tmp_path: Path, rng: np.random.Generator) -> None:
    arrays = [
        rng.normal(size=(3, 4)),
        rng.normal(size=(7, 9, 40)).astype("f4"),
        10.0 ** rng.integers(-9, 12, size=(5, 5)),
        rng.integers(-1000, 1000, size=(60, 60)),
        np.array([np.nan, np.inf, -np.inf, 1.5]),
        rng.normal(size=(4, 5)) + 1j * rng.normal(size=(4, 5)),
        rng.random((3, 3)) > 0.5,
        np.array(2.5),
        np.array(["a'b", "c\n", "Čapek"]),
        np.zeros((0, 3)),
        np.arange(2002, dtype="f2"),
        np.arange(30, dtype="u8") + 2**63,
    ]
    for number, array in enumerate(arrays):
        path = tmp_path / f"{number}.zarr"
        hs.create_array(path, data=array, chunks=tuple(max(length, 1) for length in array.shape))
        assert run(command, "show", path).decode() == f"{array}\n", array.dtype


def test_npy_and_csv_hold_what_xarray_reads(command: str, tmp_path: Path) -> None:
    path = classic(tmp_path / "a.nc", "NETCDF4")
    with xr.open_dataset(path) as dataset:
        for name in ("sst", "time", "thirds", "large", "small", "scalar"):
            expected = dataset[name].to_numpy()
            found = np.load(io.BytesIO(run(command, "show", path / name, "--npy", "-")))
            assert found.dtype == expected.dtype, name
            np.testing.assert_array_equal(found, expected)
        part = dataset["sst"].isel(time=slice(1, 4, 2), y=-1)
        text = run(command, "show", path / "sst", "time=1:4:2,y=-1", "--csv").decode()
    rows = [line.split(",") for line in text.splitlines()]
    assert rows[0] == ["time", "x", "sst"]
    assert [row[0] for row in rows[1:]] == ["2000-01-02"] * 6 + ["2000-01-04"] * 6
    found = np.array([float(row[2] or "nan") for row in rows[1:]])
    np.testing.assert_array_equal(found, part.to_numpy().ravel())
    raw = np.load(io.BytesIO(run(command, "show", path / "sst", "0", "--raw", "--npy", "-")))
    assert raw.dtype == np.dtype("i2")
    assert raw[0, 0] == -999


def test_pictures_have_the_colours_of_the_numbers(command: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import colormaps
    from matplotlib.image import imread

    ramp = np.arange(100, dtype="f4").reshape(10, 10)
    hs.create_array(tmp_path / "a.zarr", data=ramp)
    run(command, "show", tmp_path / "a.zarr", "--png", tmp_path / "a.png")
    pixels = np.rint(imread(tmp_path / "a.png")[..., :3] * 255)
    # 600 pixels of height have 60 for each row; margin 12, title 16. Colours lie between 11 of viridis.
    found = pixels[12 + 16 + 30 : 12 + 16 + 600 : 60, 12 + 30 : 12 + 600 : 60]
    expected = np.rint(colormaps["viridis"](ramp / 99)[..., :3] * 255)
    assert np.abs(found - expected).max() <= 16


def test_a_terabyte_is_quick(command: str, tmp_path: Path) -> None:
    shape, chunks = (500_000, 500_000), (1000, 1000)
    z = hs.create_array(tmp_path / "a.zarr", shape=shape, chunks=chunks, dtype="f4", fill_value=1)
    z[:3, :3] = 0
    text = run(command, "show", tmp_path / "a.zarr").decode()
    assert text.splitlines()[0] == "[[0. 0. 0. ... 1. 1. 1.]"
    shown = run(command, "show", tmp_path / "a.zarr", "--picture").decode()
    assert "every" in shown
