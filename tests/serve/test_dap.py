"""OPeNDAP: the NetCDF library and pydap read every format through the server, with equal values."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from servers import tool

SST = (np.arange(48) - 20).astype("i2").reshape(4, 3, 4)
WIND = np.linspace(-1, 1, 12).reshape(4, 3)
BYTES = np.arange(5, dtype="u1") * 50


def _zarr(path: Path) -> None:
    root = hs.create_group(str(path), attributes={"title": 'the "ocean"'})
    names = ("time", "y", "x")
    sst = root.create_array("sst", shape=SST.shape, dtype="i2", chunks=(1, 3, 4), dimension_names=names)
    sst[:] = SST
    sst.attrs.update({"scale_factor": 0.5, "units": "degC", "_FillValue": -999, "valid_range": [-50, 50]})
    wind = root.create_array("forcing/wind", shape=WIND.shape, dtype="f8", dimension_names=names[:2])
    wind[:] = WIND
    root.create_array("b", shape=(5,), dtype="u1", dimension_names=("n",))[:] = BYTES
    root.create_array("one", shape=(), dtype="u1")[...] = 200
    root.create_array("text", shape=(2,), dtype=str, dimension_names=("m",))[:] = ["Ada", "Čapek"]
    root.create_array("complex", shape=(2,), dtype="c8", dimension_names=("m",))


def _hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["title"] = 'the "ocean"'
        sst = file.create_dataset("sst", data=SST.astype(">i2"), chunks=(1, 3, 4), compression="gzip")
        sst.attrs["units"] = "degC"
        file["forcing/wind"] = WIND
        file["b"] = BYTES


def _netcdf(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.title = 'the "ocean"'
        for name, length in (("time", None), ("y", 3), ("x", 4), ("n", 5)):
            file.createDimension(name, length)
        sst = file.createVariable("sst", "i2", ("time", "y", "x"), fill_value=-999)
        sst.units = "degC"
        sst[:] = SST
        file.createVariable("forcing/wind", "f8", ("time", "y"))[:] = WIND
        file.createVariable("b", "u1", ("n",))[:] = BYTES
        # Shorter than its dimension.
        file.createVariable("short", "i4", ("time",), fill_value=-1)[:2] = [7, 8]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hs.Server]:
    folder = tmp_path_factory.mktemp("served")
    _zarr(folder / "o.zarr")
    _hdf5(folder / "o.h5")
    _netcdf(folder / "o.nc")
    with hs.serve(folder / "o.zarr", folder / "o.h5", folder / "o.nc") as running:
        yield running


def _ask(server: hs.Server, path: str) -> bytes:
    with urllib.request.urlopen(f"{server.url}/dap/{path}", timeout=60) as answer:  # noqa: S310
        body: bytes = answer.read()
        return body


def _netcdf_reads(server: hs.Server, name: str) -> netCDF4.Dataset:
    try:
        return netCDF4.Dataset(f"{server.url}/dap/{name}")
    except OSError as error:
        if error.errno in {-128, -51}:
            pytest.skip("this NetCDF library has no OPeNDAP")
        raise


@pytest.mark.parametrize("name", ["o.zarr", "o.h5", "o.nc"])
def test_the_netcdf_library_reads_equal_values(server: hs.Server, name: str) -> None:
    with _netcdf_reads(server, name) as file:
        file.set_auto_maskandscale(False)
        assert file.title == 'the "ocean"'
        sst = file["sst"]
        assert sst.dtype == "i2" and sst.units == "degC"
        np.testing.assert_array_equal(sst[:], SST)
        np.testing.assert_array_equal(sst[1:4:2, 2, ::3], SST[1:4:2, 2, ::3])
        (wind,) = (variable for path, variable in file.variables.items() if path.endswith("wind"))
        np.testing.assert_array_equal(wind[:], WIND)
        np.testing.assert_array_equal(file["b"][:].astype("u1"), BYTES)
        if name != "o.h5":
            assert sst.dimensions == ("time", "y", "x")
            assert sst.getncattr("_FillValue") == -999
        if name == "o.zarr":
            assert file["one"][...].astype("u1") == 200
            rows = np.ma.filled(file["text"][:], b"")
            assert [b"".join(row).decode() for row in rows] == ["Ada", "Čapek"]
        if name == "o.nc":
            np.testing.assert_array_equal(file["short"][:], [7, 8, -1, -1])
        # The library's bytes have a sign. `_Unsigned` takes it away.
        file.set_auto_maskandscale(True)
        np.testing.assert_array_equal(file["b"][:], BYTES)
        if name == "o.zarr":
            assert file["one"][...] == 200


def test_text_of_any_length(tmp_path: Path) -> None:
    """Texts are filled up to units of four bytes. The document before them has any length."""
    words = ["", "a", "bc", "def", "Čapek", "x" * 63]
    for name in ("t", "te", "tex", "text"):
        array = hs.create_array(tmp_path / name, shape=(6,), dtype=str, dimension_names=("m",))
        array[:] = words
        with hs.serve(tmp_path / name) as server:
            with _netcdf_reads(server, name) as file:
                rows = np.ma.filled(file[name][:], b"")
                assert [b"".join(row).decode() for row in rows] == words
            body = _ask(server, f"{name}.dods").partition(b"Data:\n")[2]
            padded = [word.encode() + b"\0" * (-len(word.encode()) % 4) for word in words]
            counted = [len(word.encode()).to_bytes(4, "big") for word in words]
            texts = b"".join(count + word for count, word in zip(counted, padded, strict=True))
            assert body == b"\0\0\0\x06" + texts


def test_bytes_of_the_other_sign(tmp_path: Path) -> None:
    signed = hs.create_array(tmp_path / "signed", shape=(2,), dtype="i1", dimension_names=("k",))
    signed[:] = [-56, 7]
    signed.attrs["_Unsigned"] = "true"
    with hs.serve(tmp_path / "signed") as server, _netcdf_reads(server, "signed") as file:
        np.testing.assert_array_equal(file["signed"][:], [200, 7])
        file.set_auto_maskandscale(False)
        np.testing.assert_array_equal(file["signed"][:], [-56, 7])


@pytest.mark.parametrize("name", ["o.zarr", "o.h5", "o.nc"])
def test_pydap_reads_equal_values(server: hs.Server, name: str) -> None:
    # pydap for the oldest Python would change what xarray does there: it needs SciPy.
    client = pytest.importorskip("pydap.client")
    dataset = client.open_url(f"{server.url}/dap/{name}", protocol="dap2")
    np.testing.assert_array_equal(np.asarray(dataset["sst"][:].data), SST)
    np.testing.assert_array_equal(np.asarray(dataset["sst"][1:3, 2, ::3].data).squeeze(), SST[1:3, 2, ::3])
    np.testing.assert_array_equal(np.asarray(dataset["b"][:].data), BYTES)


def test_documents(server: hs.Server) -> None:
    dds = _ask(server, "o.zarr.dds").decode()
    assert "Int16 sst[time = 4][y = 3][x = 4];" in dds
    assert "Float64 forcing/wind[time = 4][y = 3];" in dds
    assert "complex" not in dds
    das = _ask(server, "o.zarr.das").decode()
    assert "Int16 _FillValue -999;" in das and "Int32 valid_range -50, 50;" in das
    assert 'String hyperslab_variables_without_a_dap2_type "complex";' in das
    part = _ask(server, "o.zarr.dods?sst%5B0%5D%5B1%5D%5B0:2:3%5D")
    head, _, data = part.partition(b"\nData:\n")
    assert b"Int16 sst[time = 1][y = 1][x = 2];" in head
    assert np.frombuffer(data, ">i4").tolist() == [2, 2, *SST[0, 1, 0:4:2].tolist()]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("o.zarr.dods?no", 400, "no variable"),
        ("o.zarr.dods?sst%5B9%5D%5B0%5D%5B0%5D", 400, "not inside"),
        ("o.zarr.dods?sst&sst%3E3", 400, "only variables"),
        ("o.zarr.html", 404, "ask for PATH.dds"),
        ("no.dds", 404, "no array or group"),
        ("o.zarr/../o.nc.dds", 404, ""),
    ],
)
def test_wrong_requests_are_errors(server: hs.Server, path: str, status: int, message: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        _ask(server, path)
    text = refused.value.read().decode()
    assert refused.value.code in {status, 400} and message in text
    assert text.startswith(("Error {", "{"))


def test_xarray_reads_through_the_netcdf_library(server: hs.Server) -> None:
    xr: Any = pytest.importorskip("xarray")
    _netcdf_reads(server, "o.zarr").close()
    with xr.open_dataset(f"{server.url}/dap/o.zarr", engine="netcdf4") as dataset:
        assert dataset["sst"].dims == ("time", "y", "x")
        np.testing.assert_array_equal(dataset["sst"].values, SST * 0.5)


def test_ncdump_reads_the_header(server: hs.Server) -> None:
    run = subprocess.run(
        [tool("ncdump"), "-h", f"{server.url}/dap/o.zarr"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0 and "short sst(time, y, x)" in run.stdout, run.stderr
