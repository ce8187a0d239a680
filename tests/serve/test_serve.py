"""The server: programs that read Zarr read every format through it, with equal values."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import zarr
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

xr = pytest.importorskip("xarray")

LEVEL = np.arange(60.0, dtype="f4").reshape(10, 6)
LEVEL[4, 2] = np.nan
COUNT = np.arange(10, dtype=">i2")


def _zarr(path: Path, zarr_format: int, **arguments: Any) -> None:
    group = hs.create_group(str(path), attributes={"title": "tides"}, zarr_format=zarr_format)
    level = group.create_array(
        "level", shape=LEVEL.shape, dtype="f4", chunks=(4, 3), fill_value=-1, **arguments
    )
    level[:] = LEVEL
    if zarr_format == 2:
        level.attrs["_ARRAY_DIMENSIONS"] = ["t", "x"]
    level.attrs["units"] = "m"
    count = group.create_array("deep/count", shape=(10,), dtype=">i2", chunks=(3,))
    count[:6] = COUNT[:6]
    count[9:] = COUNT[9:]


def _v2(path: Path) -> None:
    _zarr(path, zarr_format=2, compressors={"id": "zstd", "level": 1})


def _v2_bz2(path: Path) -> None:
    _zarr(path, zarr_format=2, compressors={"id": "bz2", "level": 1})


def _v3(path: Path) -> None:
    _zarr(path, zarr_format=3, dimension_names=("t", "x"))


def _shards(path: Path) -> None:
    _zarr(path, zarr_format=3, shards=(8, 6), dimension_names=("t", "x"))


def _zip(path: Path) -> None:
    _v3(path.with_suffix(".dir"))
    shutil.make_archive(str(path.with_suffix("")), "zip", path.with_suffix(".dir"))
    shutil.rmtree(path.with_suffix(".dir"))


def _hdf5(path: Path, **filters: Any) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "tides"
        level = file.create_dataset("level", data=LEVEL, chunks=(4, 3), **filters)
        level.attrs["units"] = "m"
        level.dims[0].label = "t"
        count = file.create_dataset("deep/count", shape=(10,), dtype=">i2", chunks=(3,), maxshape=(None,))
        count[:6] = COUNT[:6]
        count[9:] = COUNT[9:]


def _hdf5_filters(path: Path) -> None:
    _hdf5(path, compression="gzip", shuffle=True)


def _netcdf(path: Path, **arguments: Any) -> None:
    with netCDF4.Dataset(path, "w", **arguments) as file:
        file.title = "tides"
        file.createDimension("t", None)
        file.createDimension("x", 6)
        level = file.createVariable("level", "f4", ("t", "x"))
        level.units = "m"
        level[:] = LEVEL


def _netcdf3(path: Path) -> None:
    _netcdf(path, format="NETCDF3_64BIT_OFFSET")


def _references(path: Path) -> None:
    _hdf5_filters(path.with_name("referred.h5"))
    run = subprocess.run(
        [sys.executable, "-m", "hyperslab", "index", str(path.with_name("referred.h5"))],
        capture_output=True,
        check=True,
    )
    path.write_bytes(run.stdout)


FORMATS: dict[str, Callable[[Path], None]] = {
    "v2.zarr": _v2,
    "bz2.zarr": _v2_bz2,
    "v3.zarr": _v3,
    "shards.zarr": _shards,
    "archive.zip": _zip,
    "plain.h5": _hdf5,
    "filters.h5": _hdf5_filters,
    "four.nc": _netcdf,
    "three.nc": _netcdf3,
    "refs.json": _references,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    for name, make in FORMATS.items():
        make(folder / name)
    return folder


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[hs.Server]:
    with hs.serve(data) as running:
        yield running


def _url(server: hs.Server, data: Path, name: str) -> str:
    return f"{server.url}/zarr/{data.name}/{name}"


def _ask(server: hs.Server, path: str, **headers: str) -> Any:
    request = urllib.request.Request(f"{server.url}{path}", headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return answer.read()


def _status(server: hs.Server, path: str, **headers: str) -> int:
    try:
        _ask(server, path, **headers)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def _has_count(name: str) -> bool:
    return not name.endswith(".nc")


def _expected_count() -> np.ndarray[Any, Any]:
    expected = COUNT.copy()
    expected[6:9] = 0
    return expected


@pytest.mark.parametrize("name", FORMATS)
def test_zarr_python_reads_equal_values(server: hs.Server, data: Path, name: str) -> None:
    group = zarr.open_group(_url(server, data, name), mode="r")
    assert group.attrs["title"] == "tides"
    assert group.metadata.consolidated_metadata is not None
    level = group["level"]
    assert level.metadata.zarr_format == 3
    assert level.attrs["units"] == "m"
    np.testing.assert_array_equal(level[:], LEVEL)
    np.testing.assert_array_equal(level[3:9, 1::2], LEVEL[3:9, 1::2])
    if _has_count(name):
        np.testing.assert_array_equal(group["deep/count"][:], _expected_count())


@pytest.mark.parametrize("name", FORMATS)
def test_own_store_reads_equal_values(server: hs.Server, data: Path, name: str) -> None:
    level = hs.open(f"{_url(server, data, name)}/level")
    np.testing.assert_array_equal(level[:], LEVEL)
    np.testing.assert_array_equal(level[[7, 1]], LEVEL[[7, 1]])
    if _has_count(name):
        count = hs.open_group(_url(server, data, name))["deep/count"]
        np.testing.assert_array_equal(count[:], _expected_count())


@pytest.mark.parametrize("name", FORMATS)
def test_tensorstore_reads_equal_values(server: hs.Server, data: Path, name: str) -> None:
    ts = pytest.importorskip("tensorstore")
    store = {"driver": "http", "base_url": f"{_url(server, data, name)}/level/"}
    level = ts.open({"driver": "zarr3", "kvstore": store}, open=True, read=True).result()
    np.testing.assert_array_equal(level.read().result(), LEVEL)


@pytest.mark.parametrize(
    "name", [name for name in FORMATS if name not in {"plain.h5", "filters.h5", "refs.json"}]
)
def test_xarray_reads_equal_values(server: hs.Server, data: Path, name: str) -> None:
    with xr.open_zarr(_url(server, data, name), chunks=None) as dataset:
        np.testing.assert_array_equal(dataset["level"].values, LEVEL)
        assert dataset["level"].dims == ("t", "x")
        assert dataset["level"].attrs["units"] == "m"


@pytest.mark.parametrize("name", FORMATS)
def test_values_in_all_forms(server: hs.Server, data: Path, name: str) -> None:
    at = f"/api/data/{data.name}/{name}/level?select=1:4,::2"
    expected = LEVEL[1:4, ::2]
    assert json.loads(_ask(server, at)) == expected.tolist()
    np.testing.assert_array_equal(np.load(BytesIO(_ask(server, f"{at}&format=npy"))), expected)
    raw = np.frombuffer(_ask(server, f"{at}&format=raw"), "<f4").reshape(expected.shape)
    np.testing.assert_array_equal(raw, expected)
    lines = _ask(server, f"{at}&format=csv").decode()
    np.testing.assert_array_equal(np.loadtxt(lines.splitlines(), delimiter=","), expected)
    found = json.loads(_ask(server, f"/api/stats/{data.name}/{name}/level"))
    assert (found["count"], found["missing"], found["max"]) == (59, 1, 59.0)
    assert found["mean"] == pytest.approx(np.nanmean(LEVEL.astype("f8")))


def test_points_and_series_have_coordinates_and_dates(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "ocean.nc", "w") as file:
        file.createDimension("time", 3)
        time = file.createVariable("time", "i4", ("time",))
        time.units = "days since 2000-01-30"
        time[:] = [0, 1, 2]
        sst = file.createVariable("sst", "i2", ("time",), fill_value=-999)
        sst.scale_factor = 0.5
        sst.set_auto_scale(False)
        sst[:] = np.ma.masked_equal([3, -999, 5], -999)
    with hs.serve(tmp_path / "ocean.nc") as server:
        point = json.loads(_ask(server, "/api/point/ocean.nc/sst?at=2"))
        assert point == {"stored": 5, "value": 2.5, "coordinates": {"time": "2000-02-01"}}
        series = json.loads(_ask(server, "/api/series/ocean.nc/sst?select=:"))
        assert series["values"] == [1.5, None, 2.5]
        assert series["coordinate"] == ["2000-01-30", "2000-01-31", "2000-02-01"]


def test_an_hdf5_file_cannot_lead_elsewhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    with h5py.File(outside / "secret.h5", "w") as file:
        file["secret"] = np.arange(42, 47)
    (outside / "raw").write_bytes(np.arange(42, 47).tobytes())
    with h5py.File(inside / "file.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(outside / "secret.h5"), "/secret")
        file.create_dataset("raw", shape=(5,), dtype="i8", external=[(str(outside / "raw"), 0, 40)])
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(str(outside / "secret.h5"), "secret", (5,))
        file.create_virtual_dataset("virtual", layout)
    for served in (inside, inside / "file.h5"):
        with hs.serve(served) as server:
            at = "inside/file.h5" if served == inside else "file.h5"
            for name in ("link", "raw", "virtual"):
                for path in (f"/api/data/{at}/{name}", f"/zarr/{at}/{name}/c/0"):
                    try:
                        found = _ask(server, path)
                    except urllib.error.HTTPError as error:
                        found = error.read()
                    assert b"42" not in found and np.arange(42, 47).tobytes() not in found, path


def test_references_cannot_lead_elsewhere(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"secret!!")
    document = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "compressor": None}
    document |= {"fill_value": 0, "order": "C", "filters": None}
    for number, target in enumerate((str(tmp_path / "secret"), "../secret", f"file://{tmp_path}/secret")):
        refs = {"version": 1, "refs": {".zarray": json.dumps(document), "0": [target, 0, 8]}}
        (inside / f"{number}.json").write_text(json.dumps(refs))
    with hs.serve(inside) as server:
        for number in range(3):
            for path in (f"/zarr/inside/{number}.json/c/0", f"/api/data/inside/{number}.json?format=raw"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    _ask(server, path)
                assert refused.value.code >= 400 and b"secret!!" not in refused.value.read()


def test_servers_have_a_life(data: Path) -> None:
    server = hs.serve(data / "v3.zarr", data / "plain.h5", prefix="a/b", token="t0ken")  # noqa: S106
    assert server.names == ["v3.zarr", "plain.h5"]
    assert server.token == "t0ken"  # noqa: S105
    assert server.zarr_url("plain.h5") == f"{server.url}/zarr/plain.h5"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/a/b", server.url)
    assert _status(server, "/") == 401
    assert _status(server, "/zarr/v3.zarr/zarr.json", Authorization="Bearer t0ken") == 200
    assert server.is_running and "stopped" not in repr(server)
    server.stop()
    server.stop()
    assert not server.is_running and "stopped" in repr(server)
    with pytest.raises(urllib.error.URLError):
        _ask(server, "/")


def test_wrong_arguments_are_errors(data: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="expected paths and URLs"):
        hs.serve(5)  # type: ignore[arg-type]
    for arguments, message in (
        ({"host": "localhost"}, "host: expected an address"),
        ({"read_timeout": -1}, "read_timeout: expected seconds"),
        ({"prefix": "../x"}, "prefix"),
        ({"token": ""}, "the token is empty"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            hs.serve(data, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="nothing to serve"):
        hs.serve()


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_a_signal(data: Path, name: signal.Signals) -> None:
    command = [sys.executable, "-m", "hyperslab", "serve", str(data / "v3.zarr"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().strip()
        np.testing.assert_array_equal(hs.open(f"{url}/level")[:], LEVEL)
        host, port = url.removeprefix("http://").split("/")[0].split(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(b"GET /zarr/v3.zarr/zarr.json HT")
            os.kill(process.pid, name)
            log = process.stderr.read()
    assert process.returncode == 0
    assert re.search(
        r"^127\.0\.0\.1:\d+ GET /zarr/v3.zarr/level/zarr.json 20[06] \d+ \d+\.\d ms$", log, re.MULTILINE
    )
    assert "Traceback" not in log


def test_a_forked_child_ends_without_the_server(tmp_path: Path) -> None:
    _v3(tmp_path / "a.zarr")
    program = """
import os, sys, urllib.request
import hyperslab as hs
server = hs.serve(sys.argv[1])
child = os.fork()
if child == 0:
    del server
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
urllib.request.urlopen(server.zarr_url() + "/zarr.json").read()
server.stop()
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "a.zarr"], check=True, timeout=60)
