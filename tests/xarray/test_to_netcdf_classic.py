"""`to_netcdf` to NetCDF classic files that exist: rows, regions, other values, blocks that come later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.errors import DataTypeError, InvalidArgumentError
from support import dask_cluster, examples

xr = pytest.importorskip("xarray")
netCDF4: Any = pytest.importorskip("netCDF4")
pytest.importorskip("dask.array")

from hyperslab.xarray import BackendEntrypoint, to_netcdf  # noqa: E402

FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load(path: Path, engine: Any = BackendEntrypoint) -> Any:
    with xr.open_dataset(path, engine=engine) as found:
        return found.load()


def dataset(start: int, count: int) -> Any:
    """Rows of packed numbers, floats, dates, text and a variable along another axis."""
    random = np.random.default_rng(start)
    ds = xr.Dataset(
        {
            "packed": (("t", "x"), random.integers(0, 100, (count, 5)) / 4),
            "plain": (("t", "x"), random.random((count, 5)).astype("f4")),
            "name": ("t", np.array([f"row {n % 7}é" for n in range(start, start + count)])),
            "flag": ("t", random.random(count) < 0.5),
            "fixed": ("x", np.arange(5, dtype="i2")),
        },
        {"t": np.datetime64("2001-01-01", "ns") + np.arange(start, start + count) * np.timedelta64(1, "D")},
        attrs={"title": "rows"},
    )
    if count:
        ds["packed"][0, 0] = np.nan
    ds.packed.encoding.update(dtype="i2", scale_factor=0.25, _FillValue=np.int16(-1))
    ds.t.encoding.update(units="days since 2000-01-01", dtype="i4")
    return ds


def joined(*parts: Any) -> Any:
    return xr.concat(parts, "t", data_vars="minimal", coords="minimal", compat="override")


@pytest.mark.parametrize("number", range(examples(6)))
@pytest.mark.parametrize("format_", [*FORMATS, "NETCDF4_CLASSIC"])
def test_rows_are_appended(format_: Any, number: int, seed: int, tmp_path: Path) -> None:
    """Files that netCDF-C or hyperslab made get rows in place, and netCDF-C reads them."""
    path, random = tmp_path / "a.nc", np.random.default_rng(seed + number)
    expected = dataset(0, int(random.integers(1, 4)))
    if random.random() < 0.5:
        expected.to_netcdf(path, format=format_, engine="netcdf4", unlimited_dims=["t"])
    else:
        to_netcdf(expected, path, format=format_, unlimited_dims="t")
    inode = path.stat().st_ino
    for _ in range(3):
        rows = dataset(expected.sizes["t"], int(random.integers(1, 5)))
        given = rows.chunk(t=2, x=3) if random.random() < 0.5 else rows
        to_netcdf(given, path, append_dim="t", format=format_)
        expected = joined(expected, rows)
    assert path.stat().st_ino == inode
    for engine in (BackendEntrypoint, "netcdf4"):
        xr.testing.assert_identical(load(path, engine), expected)
    with netCDF4.Dataset(path) as file:
        assert file.data_model == format_.replace("64BIT", "64BIT_OFFSET").replace("OFFSET_DATA", "DATA")
        assert file.dimensions["t"].isunlimited()
        assert file["packed"].dtype == "i2"


@pytest.mark.parametrize("chunked", [False, True])
def test_regions_are_written_in_place(chunked: bool, tmp_path: Path) -> None:
    path, expected = tmp_path / "a.nc", dataset(0, 9)
    to_netcdf(expected, path, format="NETCDF3_64BIT", unlimited_dims="t")
    inode = path.stat().st_ino
    part = dataset(50, 4)[["packed", "name"]].drop_vars("t")
    to_netcdf(part.chunk(t=3) if chunked else part, path, region={"t": slice(2, 6)})
    expected["packed"][2:6], expected["name"][2:6] = part["packed"], part["name"]
    xr.testing.assert_identical(load(path, "netcdf4"), expected)
    found = expected.isel(t=slice(7, 9))[["plain"]] + 1
    to_netcdf(found.chunk(t=1) if chunked else found, path, region="auto")
    expected["plain"][7:9] = found["plain"]
    xr.testing.assert_identical(load(path, "netcdf4"), expected)
    assert path.stat().st_ino == inode
    with pytest.raises(ValueError, match="region"):
        to_netcdf(part, path, region={"t": slice(20, 24)})
    xr.testing.assert_identical(load(path), expected)


@pytest.mark.parametrize("format_", FORMATS)
def test_other_values_and_new_variables(format_: Any, tmp_path: Path) -> None:
    path, expected = tmp_path / "a.nc", dataset(0, 4)
    to_netcdf(expected, path, format=format_, unlimited_dims="t")
    changed = xr.Dataset({"packed": expected["packed"] * 0 + 3, "new": ("t", np.arange(4.0))})
    changed["packed"].encoding = {"dtype": "i2", "_FillValue": np.int16(-9)}
    changed["packed"].attrs = {"long_name": "whole numbers"}
    with xr.open_dataset(path, engine=BackendEntrypoint, chunks={"t": 3}) as lazy:
        # A variable that is read from the file that is written.
        to_netcdf(changed.assign(plain=lazy["plain"] * 2), path, mode="a")
    with netCDF4.Dataset(path) as file:
        assert file["packed"].__dict__ == {"_FillValue": -9, "long_name": "whole numbers"}
        assert file["packed"].dtype == "i2"
    expected["packed"], expected["new"] = changed["packed"], changed["new"]
    expected["plain"] = expected["plain"] * 2
    for engine in (BackendEntrypoint, "netcdf4"):
        xr.testing.assert_identical(load(path, engine), expected)
    before = path.read_bytes()
    with pytest.raises(DataTypeError, match="70000"):
        to_netcdf(xr.Dataset({"fixed": ("x", np.full(5, 70_000))}), path, mode="a")
    with pytest.raises(InvalidArgumentError, match="exists with dimensions"):
        to_netcdf(xr.Dataset({"fixed": ("y", np.arange(5))}), path, mode="a")
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    # Rows of all variables, one of them new.
    rows = dataset(4, 2).assign(new=("t", np.full(2, 7.0)), more=("x", np.arange(5.0)))
    rows["packed"] = rows["packed"].fillna(0).round()
    to_netcdf(rows, path, append_dim="t")
    found = load(path, "netcdf4")
    assert found.sizes["t"] == 6
    np.testing.assert_array_equal(found["new"], [0, 1, 2, 3, 7, 7])
    np.testing.assert_array_equal(found["packed"][4:], rows["packed"])
    np.testing.assert_array_equal(found["more"], rows["more"])


def test_integers_that_only_the_last_version_has(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        file.createDimension("t", None)
        file.createVariable("u1", "u1", "t")[:] = [1, 254]
        file.createVariable("i8", "i8", "t")[:] = [1, 2**60]
    rows = xr.Dataset({"u1": ("t", np.array([200], "u1")), "i8": ("t", np.array([-(2**50)]))})
    to_netcdf(rows, path, append_dim="t")
    with netCDF4.Dataset(path) as file:
        assert file["u1"][:].tolist() == [1, 254, 200]
        assert file["i8"][:].tolist() == [1, 2**60, -(2**50)]
    with pytest.raises(DataTypeError, match="256"):
        to_netcdf(xr.Dataset({"u1": ("t", [256]), "i8": ("t", [1])}), path, append_dim="t")


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_blocks_that_come_later(scheduler: str, tmp_path: Path) -> None:
    import dask

    path, ds = tmp_path / "a.nc", dataset(0, 8)
    with dask.config.set(scheduler=scheduler):
        later: Any = to_netcdf(ds.chunk(t=3), path, format="NETCDF3_64BIT", unlimited_dims="t", compute=False)
        begun = load(path)
        assert begun.sizes["t"] == 8 and bool(begun["packed"].isnull().all())
        later.compute()
        xr.testing.assert_identical(load(path, "netcdf4"), ds)
        rows = dataset(8, 5)
        later = to_netcdf(rows.chunk(t=2), path, append_dim="t", compute=False)
        later.compute()
        expected = joined(ds, rows)
        xr.testing.assert_identical(load(path, "netcdf4"), expected)
        part = dataset(50, 4)[["plain"]].drop_vars("t")
        later = to_netcdf(part.chunk(t=1), path, region={"t": slice(1, 5)}, compute=False)
        later.compute()
        expected["plain"][1:5] = part["plain"]
        xr.testing.assert_identical(load(path, "netcdf4"), expected)
    with (
        xr.open_dataset(path, engine=BackendEntrypoint, chunks={"t": 2}) as lazy,
        pytest.raises(InvalidArgumentError, match="which compute=False replaces"),
    ):
        to_netcdf(lazy, path, format="NETCDF3_64BIT", compute=False)


def test_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    path, ds = tmp_path / "a.nc", dataset(0, 8)
    with dask_cluster(workers=2, threads=2) as cluster, distributed.Client(cluster):
        to_netcdf(ds.chunk(t=3), path, format="NETCDF3_64BIT", unlimited_dims="t")
        xr.testing.assert_identical(load(path, "netcdf4"), ds)
        to_netcdf(dataset(8, 6).chunk(t=1), path, append_dim="t")
        expected = joined(ds, dataset(8, 6))
        xr.testing.assert_identical(load(path, "netcdf4"), expected)
        # Workers write one after the other.
        part = dataset(50, 8)[["plain", "packed"]].drop_vars("t")
        later: Any = to_netcdf(part.chunk(t=1, x=2), path, region={"t": slice(3, 11)}, compute=False)
        later.compute()
        expected["plain"][3:11], expected["packed"][3:11] = part["plain"], part["packed"]
        xr.testing.assert_identical(load(path, "netcdf4"), expected)


def test_what_is_refused(tmp_path: Path) -> None:
    path, ds = tmp_path / "a.nc", dataset(0, 4)
    to_netcdf(ds, path, format="NETCDF3_64BIT", unlimited_dims="t")
    before = path.read_bytes()
    rows = dataset(4, 2)
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (ds, {"append_dim": "x"}, "the dimension is fixed to 5 elements .* unlimited_dims"),
        (rows, {"append_dim": "none"}, "does not match any existing"),
        (rows.drop_vars("plain"), {"append_dim": "t"}, "'plain' is stored, has dimension 't'"),
        (rows.assign(fixed=rows.fixed + 1), {"append_dim": "t"}, "differs from what is stored"),
        (rows.assign(packed=rows.packed * 1e9), {"append_dim": "t"}, "does not fit the data type"),
        (rows.assign(name=rows.name + " and more"), {"append_dim": "t"}, "has room for"),
        (rows.assign(t=rows.t + np.timedelta64(1, "h")), {"append_dim": "t"}, "needs units"),
        (rows, {"append_dim": "t", "group": "a"}, "have no groups"),
        (rows, {"mode": "r+", "append_dim": "t"}, "cannot set append_dim"),
        (rows[["fixed"]].rename(fixed="new"), {"mode": "r+"}, "non-pre-existing"),
        (xr.DataTree(rows), {"mode": "a"}, "have no groups"),
    ]
    for given, arguments, why in refused:
        with pytest.raises((ValueError, hs.HyperslabError), match=why):
            to_netcdf(given, path, **arguments)
        assert path.read_bytes() == before, why
    with pytest.raises(FileNotFoundError, match="there is no file"):
        to_netcdf(rows, tmp_path / "b.nc", format="NETCDF3_64BIT", region={"t": slice(0, 2)})
    with path.open("r+b") as file, pytest.raises(InvalidArgumentError, match="on the disk only"):
        to_netcdf(rows, file, format="NETCDF3_64BIT", append_dim="t")
    assert [*tmp_path.iterdir()] == [path]


def test_an_error_leaves_the_rows_that_were_there(tmp_path: Path) -> None:
    path, ds = tmp_path / "a.nc", dataset(0, 4)
    to_netcdf(ds, path, format="NETCDF3_64BIT", unlimited_dims="t")
    before = path.read_bytes()

    def fail(block: Any) -> Any:
        if block.size and block.shape[0] == 1:
            raise RuntimeError("this block fails")
        return block

    rows = dataset(4, 5).chunk(t=2)
    broken = rows.plain.data.map_blocks(fail, dtype="f4", meta=np.empty((0, 0), "f4"))
    with pytest.raises(RuntimeError, match="this block fails"):
        to_netcdf(rows.assign(plain=rows.plain.copy(data=broken)), path, append_dim="t")
    assert path.read_bytes() == before
    to_netcdf(rows, path, append_dim="t")
    xr.testing.assert_identical(load(path, "netcdf4"), joined(ds, rows.compute()))


_ENDLESS = """
import sys
import dask.array as da, numpy as np, xarray as xr
from hyperslab.xarray import to_netcdf

def slow(block):
    __import__("os").write(1, b"block\\n")
    __import__("time").sleep(0.05)
    return block

x = da.zeros((100, 1000), chunks=(1, 1000)).map_blocks(slow, dtype="f8", meta=np.empty((0, 0)))
to_netcdf(xr.Dataset({"a": (("t", "x"), x)}), sys.argv[1], append_dim="t")
"""


def test_a_killed_writer_leaves_the_old_number_of_records(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    old = xr.Dataset({"a": (("t", "x"), np.ones((3, 1000)))})
    to_netcdf(old, path, format="NETCDF3_64BIT", unlimited_dims="t")
    command = [sys.executable, "-c", textwrap.dedent(_ENDLESS), str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(10):
        assert child.stdout.readline() == "block\n"
    # The file is being changed: another writer waits for its turn.
    with pytest.raises(BlockingIOError, match="another program is changing it|open for writing"):
        to_netcdf(old, path, append_dim="t")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    xr.testing.assert_identical(load(path, "netcdf4"), old)
    assert [*tmp_path.iterdir()] == [path]
    to_netcdf(old + 1, path, append_dim="t")
    xr.testing.assert_identical(load(path, "netcdf4"), joined(old, old + 1))
