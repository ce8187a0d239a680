"""Answers of the server to viewers, beside NumPy and xarray."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest

xr = pytest.importorskip("xarray")

SHAPE = (6, 40, 60)
LAT = np.linspace(-78.0, 78.0, SHAPE[1])
LON = np.linspace(0.0, 354.0, SHAPE[2])


def _ocean() -> Any:
    rng = np.random.default_rng(3)
    heat = (rng.random(SHAPE) * 30).astype("f4")
    heat[:, 10:20, 30:50] = np.nan
    days = np.array("2001-02-03", "M8[ns]") + np.arange(SHAPE[0]) * np.timedelta64(36, "h")
    dims = ("time", "lat", "lon")
    ocean = xr.Dataset(
        {
            "sst": (dims, heat, {"units": "degC", "long_name": "heat of the sea"}),
            "ice": (dims[1:], rng.integers(0, 100, SHAPE[1:]).astype("i4")),
            "packed": (dims, heat.astype("f8")),
            "bytes": (dims[1:], rng.integers(0, 256, SHAPE[1:]).astype("u1")),
            "seen": (dims[:1], days[::-1].copy()),
        },
        {
            "time": days,
            "lat": ("lat", LAT, {"units": "degrees_north"}),
            "lon": ("lon", LON, {"standard_name": "longitude"}),
        },
    )
    ocean["packed"].encoding = {
        "dtype": "i2",
        "scale_factor": np.float32(0.01),
        "add_offset": np.float64(5.0),
        "_FillValue": -9999,
    }
    ocean["time"].encoding = {"units": "hours since 2001-01-01", "dtype": "i4"}
    ocean["seen"].encoding = {"units": "hours since 2001-01-01", "dtype": "i4"}
    return ocean


def _classic(ocean: Any) -> Any:
    """NetCDF-3 has no unsigned bytes: the attribute says so."""
    ocean = ocean.copy()
    signed = ocean["bytes"].values.view("i1")
    ocean["bytes"] = (("lat", "lon"), signed, {"_Unsigned": "true"})
    return ocean


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    ocean = _ocean()
    chunked = {"sst": {"chunksizes": (1, 20, 30), "zlib": True}}
    ocean.to_netcdf(folder / "four.nc", engine="netcdf4", encoding=chunked, unlimited_dims=["time"])
    _classic(ocean).to_netcdf(folder / "three.nc", format="NETCDF3_64BIT")
    ocean.chunk({"time": 1, "lat": 20, "lon": 30}).to_zarr(folder / "two.zarr", zarr_format=2)
    ocean.chunk({"time": 1, "lat": 20, "lon": 30}).to_zarr(folder / "v3.zarr", zarr_format=3)
    shards = {"sst": {"chunks": (1, 10, 30), "shards": (2, 40, 60)}}
    ocean.to_zarr(folder / "shards.zarr", zarr_format=3, encoding=shards)
    index = [sys.executable, "-m", "hyperslab", "index", str(folder / "four.nc")]
    (folder / "refs.json").write_bytes(subprocess.run(index, capture_output=True, check=True).stdout)
    picture = np.arange(3 * 200 * 300, dtype="u2").reshape(3, 200, 300)
    image = hs.create_group(str(folder / "image.zarr"))
    base = image.create_array("0", data=picture, chunks=(1, 50, 50), dimension_names=("c", "y", "x"))
    hs.pyramid(base, image, levels=3, method="nearest", axes=["c", "y", "x"])
    ome = image.attrs["ome"]
    colors = ("FF0000", "00FF00", "0000FF")
    image.attrs["ome"] = {**ome, "omero": {"channels": [{"color": color} for color in colors]}}
    with h5py.File(folder / "kinds.h5", "w") as file:
        file["wave"] = np.array([[3 + 4j, -1j], [1, np.nan]], "c8")
        file["flag"] = np.array([True, False, True])
        file["names"] = np.array(["Ada", "", "Čapek"], object)
        file["fixed"] = np.array([b"ab", b"c"])
        file["people"] = np.array(
            [(1, 2.5, b"x"), (2, np.inf, b"y")], [("id", "i4"), ("w", "f8"), ("s", "S1")]
        )
        file["one"] = 7
        file["empty"] = np.zeros((0, 3))
        odd = file.create_dataset("odd", data=[1.0, np.nan, -np.inf])
        odd.attrs["limit"] = np.inf
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[hs.Server]:
    with hs.serve(folder) as running:
        yield running


class Client:
    def __init__(self, server: hs.Server, name: str) -> None:
        self.server, self.name = server, name

    def raw(self, what: str, path: str, **query: Any) -> tuple[bytes, dict[str, str]]:
        query = {name: value for name, value in query.items() if value is not None}
        url = f"{self.server.url}/api/{what}/{self.name}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310
            return answer.read(), {name.lower(): value for name, value in answer.headers.items()}

    def ask(self, what: str, path: str, **query: Any) -> Any:
        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.raw(what, path, **query)[0], parse_constant=refuse)

    def plane(self, path: str, **query: Any) -> tuple[np.ndarray, dict[str, str]]:
        body, headers = self.raw("plane", path, **query)
        shape = [int(n) for n in headers["x-shape"].split(",") if n]
        values = np.frombuffer(body, "<f4").reshape(shape)
        assert int(headers["x-missing"]) == np.isnan(values).sum()
        return values, headers

    def status(self, what: str, path: str, **query: Any) -> tuple[int, Any]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.raw(what, path, **query)
        return caught.value.code, json.loads(caught.value.read())


@pytest.fixture
def client(server: hs.Server, folder: Path) -> Client:
    return Client(server, folder.name)


OCEANS = ("two.zarr", "v3.zarr", "shards.zarr", "four.nc", "three.nc", "refs.json")


def _index(selection: str) -> Any:
    return eval(f"np.s_[{selection}]", {"np": np})  # noqa: S307


@pytest.mark.parametrize("name", OCEANS)
def test_an_ocean(client: Client, folder: Path, name: str) -> None:
    ocean = _ocean()
    found = client.ask("describe", f"{name}/sst")
    assert found["name"] == f"{folder.name}/{name}/sst"
    dtype = ">f4" if name == "three.nc" else "float32"
    assert (found["shape"], found["dtype"], found["kind"]) == (list(SHAPE), dtype, "number")
    assert (found["units"], found["long_name"], found["plane"]) == ("degC", "heat of the sea", [1, 2])
    axes = found["axes"]
    assert [axis["name"] for axis in axes] == ["time", "lat", "lon"]
    assert [axis["kind"] for axis in axes] == ["time", "latitude", "longitude"]
    assert [axis["coordinate"] for axis in axes] == [
        f"{folder.name}/{name}/{axis}" for axis in ("time", "lat", "lon")
    ]
    assert axes[0]["units"].startswith("hours since 2001-01-01")
    assert (found["rgb"], found["levels"]) == (None, [])
    if name in ("two.zarr", "v3.zarr", "four.nc"):
        assert found["chunks"] == [axis["chunk"] for axis in axes] == [1, 20, 30]
    assert found["shards"] == ([2, 40, 60] if name == "shards.zarr" else None)

    # As xarray opens the file itself, rounded to 32 bits.
    for path in ("sst", "packed"):
        for selection, size in (
            ("0", {}),
            ("2,3:30,::2", {}),
            (":,3,4", {}),
            ("1", {"width": 7, "height": 9}),
        ):
            values, headers = client.plane(f"{name}/{path}", select=selection, **size)
            expected = ocean[path].values[_index(headers["x-select"])]
            if path == "packed":
                np.testing.assert_allclose(values, expected, atol=0.0051)
                stored = _opened(folder / name)[path].values[_index(headers["x-select"])]
                np.testing.assert_array_equal(values, stored.astype("f4"))
            else:
                np.testing.assert_array_equal(values, expected)
            if not size:
                assert values.shape == ocean[path].values[_index(selection)].shape
            else:
                assert headers["x-select"] == "1,0:40:5,0:60:9"
            assert "x-level" not in headers
    values, _ = client.plane(f"{name}/bytes")
    np.testing.assert_array_equal(values, ocean["bytes"].values.astype("f4"))
    hours, _ = client.plane(f"{name}/seen")
    np.testing.assert_array_equal(
        hours, (ocean["seen"].values - np.datetime64("2001-01-01")) / np.timedelta64(1, "h")
    )
    assert client.ask("describe", f"{name}/seen")["kind"] == "time"

    dates = client.ask("coordinates", f"{name}/sst", axis=0, select="::2")
    assert (dates["name"], dates["kind"]) == ("time", "time")
    assert dates["values"] == ["2001-02-03", "2001-02-06", "2001-02-09"]
    lats = client.ask("coordinates", f"{name}/sst", axis=1, select="38:")
    np.testing.assert_array_equal(lats["values"], LAT[38:])
    assert (lats["units"], lats["kind"]) == ("degrees_north", "latitude")


def _opened(path: Path) -> Any:
    if path.suffix == ".zarr":
        return xr.open_zarr(path)
    return xr.open_dataset(path, engine="netcdf4" if path.suffix == ".nc" else "hyperslab")


@pytest.mark.parametrize("name", ["v3.zarr", "four.nc"])
def test_histograms(client: Client, folder: Path, name: str) -> None:
    heat = _ocean()["sst"].values[1]
    numbers = heat[~np.isnan(heat)].astype("f8")
    found = client.ask("histogram", f"{name}/sst", select="1", bins=10)
    assert (found["count"], found["missing"], found["sampled"]) == (numbers.size, 200, False)
    assert (found["min"], found["max"]) == (numbers.min(), numbers.max()) == (found["low"], found["high"])
    np.testing.assert_allclose([found["mean"], found["std"]], [numbers.mean(), numbers.std()], rtol=1e-12)
    np.testing.assert_array_equal(found["counts"], np.histogram(numbers, 10)[0])
    for percent, value in found["percentiles"].items():
        np.testing.assert_allclose(value, np.percentile(numbers, int(percent)), rtol=1e-12)
    part = client.ask("histogram", f"{name}/sst", select="1", bins=4, low=10, high=20)
    np.testing.assert_array_equal(part["counts"], np.histogram(numbers, 4, (10, 20))[0])
    for query in ({"bins": 0}, {"bins": "many"}, {"low": 3, "high": 2}):
        assert client.status("histogram", f"{name}/sst", select="1", **query)[0] == 400


def test_large_arrays_are_sampled(client: Client, folder: Path) -> None:
    large = hs.create_array(
        str(folder / "large.zarr"), shape=(3000, 4000), dtype="f4", chunks=(1000, 1000), fill_value=2
    )
    large[:] = np.arange(3000)[:, None]
    found = client.ask("histogram", "large.zarr", bins=3)
    assert found["sampled"]
    assert found["count"] <= 4 << 20
    assert found["percentiles"]["50"] == pytest.approx(1499.5, abs=5)
    huge = hs.create_array(
        str(folder / "huge.zarr"), shape=(1 << 20, 1 << 19), dtype="u2", chunks=(1024, 1024), fill_value=9
    )
    huge[: 1 << 10, : 1 << 10] = 5
    values, headers = client.plane("huge.zarr", width=1000, height=800)
    assert values[0, 0] == 5
    assert (values.ravel()[1:] == 9).all()
    assert values.size > 1000
    steps = [int(part.rsplit(":", 1)[1]) for part in headers["x-select"].split(",")]
    assert all(step % 1024 == 0 for step in steps)


def test_levels_of_a_pyramid(client: Client, folder: Path) -> None:
    picture = np.arange(3 * 200 * 300, dtype="u2").reshape(3, 200, 300)
    found = client.ask("describe", "image.zarr/0")
    assert [axis["kind"] for axis in found["axes"]] == ["channel", "y", "x"]
    assert (found["plane"], found["rgb"]) == ([1, 2], 0)
    assert found["levels"] == [
        {"path": f"{folder.name}/image.zarr/{level}", "shape": [3, 200 >> level, 300 >> level]}
        for level in range(3)
    ]
    values, headers = client.plane("image.zarr/0", select="2", width=100, height=100)
    assert headers["x-level"] == f"{folder.name}/image.zarr/1"
    assert headers["x-select"] == "2,0:200:2,0:300:4"
    np.testing.assert_array_equal(values, hs.open_array(str(folder / "image.zarr/1"))[2, :, ::2])
    # The nearest of two elements is the first.
    np.testing.assert_array_equal(values, picture[2, ::2, ::4])
    small, headers = client.plane("image.zarr/0", select="0,20:120,40:", width=65, height=25)
    assert headers["x-level"] == f"{folder.name}/image.zarr/2"
    assert headers["x-select"] == "0,20:120:4,40:300:4"
    np.testing.assert_array_equal(small, hs.open_array(str(folder / "image.zarr/2"))[0, 5:30, 10:])
    whole, headers = client.plane("image.zarr/0", select="0")
    assert "x-level" not in headers
    np.testing.assert_array_equal(whole, picture[0])


def test_elements_of_other_kinds(client: Client) -> None:
    wave = np.array([[3 + 4j, -1j], [1, np.nan]], "c8")
    for part, expected in (
        ("abs", abs(wave)),
        ("phase", np.angle(wave)),
        ("real", wave.real),
        ("imag", wave.imag),
    ):
        values, _ = client.plane("kinds.h5/wave", part=part)
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert client.plane("kinds.h5/flag")[0].tolist() == [1.0, 0.0, 1.0]
    assert client.plane("kinds.h5/one")[0].tolist() == 7.0
    assert client.plane("kinds.h5/empty", width=3, height=2)[0].shape == (0, 3)
    kinds = {
        "wave": "complex",
        "flag": "bool",
        "names": "text",
        "fixed": "text",
        "people": "compound",
        "one": "number",
    }
    for path, kind in kinds.items():
        assert client.ask("describe", f"kinds.h5/{path}")["kind"] == kind
    assert client.ask("describe", "kinds.h5/one")["plane"] == []
    assert client.ask("table", "kinds.h5/names", select="::2") == {
        "columns": ["value"],
        "index": [0, 2],
        "rows": [["Ada"], ["Čapek"]],
    }
    people = client.ask("table", "kinds.h5/people")
    assert people["columns"] == ["id", "w", "s"]
    assert people["rows"] == [[1, 2.5, "x"], [2, "Infinity", "y"]]
    # Numbers that JSON does not have are text everywhere.
    assert client.ask("attributes", "kinds.h5/odd") == {"limit": "Infinity"}
    assert client.ask("point", "kinds.h5/odd", at=2)["value"] == "-Infinity"
    status, body = client.status("plane", "kinds.h5/names")
    assert (status, "no numbers" in body["found"]) == (400, True)


def test_wrong_requests(client: Client) -> None:
    for what, path, query, found in (
        ("plane", "v3.zarr/sst", {}, "give integers"),
        ("plane", "v3.zarr/sst", {"select": "99"}, "out of bounds"),
        ("plane", "v3.zarr/sst", {"select": "0", "width": "-3"}, "width"),
        ("plane", "v3.zarr/sst", {"select": "0", "part": "half"}, "part"),
        ("coordinates", "v3.zarr/sst", {}, "axis"),
        ("coordinates", "v3.zarr/sst", {"axis": 3}, "axis 3"),
        ("table", "v3.zarr/sst", {}, "give integers"),
        ("describe", "v3.zarr", {}, "group"),
    ):
        status, body = client.status(what, path, **query)
        assert status == 400, (what, path, query)
        assert found in body["found"], body


def test_versions_follow_changes(client: Client, folder: Path) -> None:
    path = folder / "grows.zarr"
    array = hs.create_array(str(path), shape=(2, 3), dtype="i4", chunks=(1, 3))
    first = client.ask("version", "grows.zarr")
    assert first["shape"] == [2, 3]
    assert client.ask("version", "grows.zarr") == first
    assert client.ask("describe", "grows.zarr")["version"] == first["version"]
    array.resize((4, 3))
    grown = client.ask("version", "grows.zarr")
    assert grown["shape"] == [4, 3]
    assert grown["version"] != first["version"]
    with h5py.File(folder / "grows.h5", "w") as file:
        file.create_dataset("a", data=[1, 2], maxshape=(None,))
    first = client.ask("version", "grows.h5/a")
    time.sleep(0.01)
    with h5py.File(folder / "grows.h5", "a") as file:
        file["a"].resize((5,))
    grown = client.ask("version", "grows.h5/a")
    assert (first["shape"], grown["shape"]) == ([2], [5])
    assert grown["version"] != first["version"]


def test_advice(client: Client, folder: Path) -> None:
    found = client.ask("advise", "v3.zarr/sst", select=":,3,4")
    assert set(found) >= {"now", "chunks", "shards"}
    assert found["now"]["access"][0]["chunks"] == SHAPE[0]
    assert found["chunks"]["copy"].startswith(
        f"hyperslab copy {folder.name}/v3.zarr/sst NEW.zarr --chunks time="
    )
    both = client.ask("advise", "v3.zarr/sst", access="map; time series")
    assert [access["access"] for access in both["now"]["access"]] == ["map", "time series"]


@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_bad_chunks(client: Client, folder: Path, shards: tuple[int, int] | None) -> None:
    name = f"bad-{shards is None}.zarr"
    array = hs.create_array(str(folder / name), shape=(8, 12), dtype="f4", chunks=(2, 3), shards=shards)
    array[:] = 1
    assert client.ask("bad", name) == {"checked": 16 if shards is None else 4, "bad": []}
    broken = folder / name / "c" / "1" / "1"
    data = bytearray(broken.read_bytes())
    data[2] ^= 255
    data[9] ^= 255
    broken.write_bytes(data)
    found = client.ask("bad", name)["bad"]
    assert {one["at"] for one in found} == {5 if shards is None else 3}
    assert all(one["message"] and str(folder) not in one["message"] for one in found)


@pytest.mark.parametrize("name", ["two.zarr", "shards.zarr", "four.nc", "three.nc", "refs.json"])
def test_downloads(client: Client, folder: Path, tmp_path: Path, name: str) -> None:
    ocean = _ocean()
    part = {"time": slice(1, 3), "lat": slice(5, 6), "lon": slice(None)}
    for ending in ("nc", "zarr.zip"):
        data, headers = client.raw("download", f"{name}/packed", select="1:3,5", format=ending)
        assert headers["content-disposition"] == f'attachment; filename="packed.{ending}"'
        path = tmp_path / f"a.{ending}"
        path.write_bytes(data)
        with xr.open_dataset(path, engine="hyperslab") as copy:
            np.testing.assert_allclose(copy["packed"].values, ocean["packed"].isel(part).values, atol=0.0051)
            np.testing.assert_array_equal(copy["time"].values, ocean["time"].values[1:3])
            np.testing.assert_array_equal(copy["lat"].values, LAT[5:6])
            assert set(copy.data_vars) == {"packed"}
    npy, _ = client.raw("download", f"{name}/sst", select="1,::2", format="npy")
    np.testing.assert_array_equal(np.load(BytesIO(npy)), ocean["sst"].values[1, ::2])
    csv, headers = client.raw("download", f"{name}/ice", select=":2,3", format="csv")
    lines = csv.decode().split()
    assert lines[0] == "lat,ice"
    values = [float(line.split(",")[1]) for line in lines[1:]]
    np.testing.assert_array_equal(values, ocean["ice"].values[:2, 3])
    png, headers = client.raw("download", f"{name}/sst", select="0", format="png", map="cividis", width=300)
    assert (png[:8], headers["content-type"]) == (b"\x89PNG\r\n\x1a\n", "image/png")
    assert client.status("download", f"{name}/sst", select="::2", format="nc")[0] == 400
    assert client.status("download", f"{name}/sst", format="tiff")[0] == 400


def test_downloads_of_plain_arrays(client: Client, tmp_path: Path) -> None:
    data, _ = client.raw("download", "image.zarr/0", select="1:,:5", format="zarr.zip")
    (tmp_path / "a.zarr.zip").write_bytes(data)
    picture = np.arange(3 * 200 * 300, dtype="u2").reshape(3, 200, 300)
    found = hs.open_group(str(tmp_path / "a.zarr.zip"), mode="r")["0"]
    assert isinstance(found, hs.Array)
    np.testing.assert_array_equal(found[...], picture[1:, :5])
    data, _ = client.raw("download", "kinds.h5/odd", format="zarr.zip")
    (tmp_path / "b.zarr.zip").write_bytes(data)
    np.testing.assert_array_equal(hs.open_array(str(tmp_path / "b.zarr.zip"))[...], [1.0, np.nan, -np.inf])


def test_bad_chunks_of_files(client: Client, folder: Path) -> None:
    path = folder / "bad.h5"
    with h5py.File(path, "w") as file:
        for name in ("a", "deep/b"):
            file.create_dataset(name, data=np.arange(64.0).reshape(8, 8), chunks=(2, 4), compression="gzip")
        place = file["deep/b"].id.get_chunk_info(5).byte_offset
    data = bytearray(path.read_bytes())
    data[place] ^= 255
    path.write_bytes(data)
    assert client.ask("bad", "bad.h5/a") == {"checked": 8, "bad": []}
    found = client.ask("bad", "bad.h5/deep/b")
    assert found["checked"] == 8
    assert [one["at"] for one in found["bad"]] == [5]
