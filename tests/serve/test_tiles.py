"""Tiles in Web Mercator, pixel by pixel beside NumPy."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

GRAY = np.array([0, 26, 51, 77, 102, 128, 153, 179, 204, 230, 255], float)
HALF = np.pi / 2

# Latitudes and longitudes of each array.
GRIDS: dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {
    "plain": (np.linspace(-89, 89, 90), np.linspace(-179, 179, 180)),
    "north_first": (np.linspace(89, -89, 90), np.arange(0, 360, 2.0)),
    "gauss": (np.degrees(np.arcsin(np.linspace(-0.999, 0.999, 64))), np.arange(0.5, 360, 1.5)),
    "pacific": (
        np.linspace(-40, 50, 46),
        np.concatenate([np.arange(120, 180, 2.0), np.arange(-180, -80, 2.0)]),
    ),
    "europe": (np.linspace(72, 33, 40), np.linspace(-12, 45, 58)),
}


def _values(name: str) -> np.ndarray[Any, Any]:
    latitudes, longitudes = GRIDS[name]
    north, east = np.meshgrid(np.radians(latitudes), np.radians(longitudes), indexing="ij")
    values = (np.sin(3 * east) * np.cos(north) + np.sin(5 * north)).astype("f4")
    values[len(latitudes) // 3 : len(latitudes) // 3 + 4, 10:20] = np.nan
    return values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiles")
    for name, (latitudes, longitudes) in GRIDS.items():
        group = hs.create_group(folder / f"{name}.zarr")
        for axis, degrees, units in [
            ("lat", latitudes, "degrees_north"),
            ("lon", longitudes, "degrees_east"),
        ]:
            made = group.create_array(
                axis, shape=degrees.shape, dtype="f8", dimension_names=(axis,), attributes={"units": units}
            )
            made[:] = degrees
        sst = group.create_array(
            "sst",
            shape=(2, *_values(name).shape),
            dtype="f4",
            chunks=(1, 16, 16),
            dimension_names=("time", "lat", "lon"),
        )
        sst[0], sst[1] = _values(name), _values(name) * 2
    latitudes, longitudes = GRIDS["plain"]
    with netCDF4.Dataset(folder / "packed.nc", "w") as file:
        for name, degrees in [("longitude", longitudes), ("latitude", latitudes)]:
            file.createDimension(name, len(degrees))
            variable = file.createVariable(name, "f4", (name,))
            variable.standard_name, variable[:] = name, degrees
        # The axes are turned, and the numbers packed.
        packed = file.createVariable("sst", "i2", ("longitude", "latitude"), fill_value=-999)
        packed.scale_factor, packed.add_offset = 0.01, 1.0
        packed[:] = np.ma.masked_invalid(_values("plain").T)
    with h5py.File(folder / "flat.h5", "w") as file:
        file["flat"] = np.zeros((3, 4))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[hs.Server]:
    with hs.serve(folder, token="secret", prefix="/maps") as running:
        yield running


def _ask(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _tile(server: hs.Server, folder: Path, path: str, query: str) -> np.ndarray[Any, Any]:
    status, body = _ask(f"{server.url}/tiles/{folder.name}/{path}?token=secret&map=gray&range=-2,2&{query}")
    assert status == 200, body
    return np.asarray(Image.open(BytesIO(body)))


def _degrees(z: int, x: int, y: int, size: int = 256) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the latitudes and longitudes of the centres of pixels."""
    along = (np.arange(size) + 0.5) / size
    north = np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * (y + along) / 2**z))))
    return north, (x + along) / 2**z * 360 - 180


def _circle(degrees: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return longitudes that ascend."""
    return np.where(np.arange(len(degrees)) >= _wrap(degrees), degrees + 360, degrees)


def _wrap(degrees: np.ndarray[Any, Any]) -> int:
    falls = np.flatnonzero(np.diff(degrees) < -180)
    return int(falls[0]) + 1 if len(falls) else len(degrees)


def _expected(
    latitudes: np.ndarray[Any, Any],
    longitudes: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    tile: tuple[int, int, int],
    method: str = "nearest",
    size: int = 256,
) -> np.ndarray[Any, Any]:
    """Return the values of the pixels."""
    north, east = _degrees(*tile, size)
    if latitudes[0] > latitudes[-1]:
        latitudes, values = latitudes[::-1], values[::-1]
    longitudes = _circle(longitudes)
    step = longitudes[-1] - longitudes[-2]
    low = longitudes[0] - (longitudes[1] - longitudes[0]) / 2
    is_circle = longitudes[-1] + step / 2 - low > 360 - step / 2
    east = low + (east - low) % 360
    if is_circle:
        # One element on both sides of the circle.
        longitudes = np.concatenate([longitudes[-1:] - 360, longitudes, longitudes[:1] + 360])
        values = np.concatenate([values[:, -1:], values, values[:, :1]], axis=1)
    outside = []
    shares = []
    for degrees, centres in [(north, latitudes), (east, longitudes)]:
        edges = np.concatenate(
            [
                [1.5 * centres[0] - centres[1] / 2],
                (centres[1:] + centres[:-1]) / 2,
                [1.5 * centres[-1] - centres[-2] / 2],
            ]
        )
        outside.append((degrees < edges[0]) | (degrees > edges[-1]))
        if method == "nearest":
            shares.append(
                np.clip(np.searchsorted(edges, degrees, side="right") - 1, 0, len(centres) - 1).astype(float)
            )
        else:
            shares.append(np.interp(degrees, centres, np.arange(len(centres))))
    result = np.zeros((size, size))
    for row, down in [(np.floor(shares[0]), 1 - shares[0] % 1), (np.ceil(shares[0]), shares[0] % 1)]:
        for column, along in [(np.floor(shares[1]), 1 - shares[1] % 1), (np.ceil(shares[1]), shares[1] % 1)]:
            part = values[row.astype(int)[:, None], column.astype(int)[None]].astype(float)
            weight = down[:, None] * along[None]
            result += np.where(weight > 0, part * weight, 0)
    result[outside[0]] = np.nan
    result[:, outside[1]] = np.nan
    return result


def _same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: float = 0) -> None:
    assert found.shape == (*expected.shape, 4)
    np.testing.assert_array_equal(found[..., 3] == 0, np.isnan(expected))
    share = np.clip((expected + 2) / 4, 0, 1) * 10
    gray = np.floor(np.interp(share, np.arange(11), GRAY) + 0.5)
    seen = ~np.isnan(expected)
    for part in range(3):
        difference = np.abs(found[..., part][seen] - gray[seen])
        assert difference.max(initial=0) <= tolerance


@pytest.mark.parametrize("tile", [(0, 0, 0), (1, 1, 0), (2, 3, 1), (3, 0, 2), (5, 16, 10)])
@pytest.mark.parametrize("name", GRIDS)
def test_pixels(server: hs.Server, folder: Path, name: str, tile: tuple[int, int, int]) -> None:
    path = f"{name}.zarr/sst/{tile[0]}/{tile[1]}/{tile[2]}.png"
    expected = _expected(*GRIDS[name], _values(name), tile)
    _same(_tile(server, folder, path, "select=0"), expected)
    _same(_tile(server, folder, path, "select=time=1"), expected * 2)
    expected = _expected(*GRIDS[name], _values(name), tile, "linear")
    _same(_tile(server, folder, path, "method=linear"), expected, tolerance=1)


def test_turned_axes_and_packed_numbers(server: hs.Server, folder: Path) -> None:
    latitudes, longitudes = GRIDS["plain"]
    values = np.round((_values("plain") - 1) / 0.01) * 0.01 + 1
    expected = _expected(latitudes.astype("f4"), longitudes.astype("f4"), values, (1, 0, 1), size=512)
    _same(_tile(server, folder, "packed.nc/sst/1/0/1@2x.png", ""), expected, tolerance=1)


def test_a_part_of_the_map(server: hs.Server, folder: Path) -> None:
    latitudes, longitudes = GRIDS["europe"]
    found = _tile(server, folder, "europe.zarr/sst/3/4/2.png", "select=0,5:20,::-2")
    _same(
        found,
        _expected(latitudes[5:20], longitudes[::-2][::-1], _values("europe")[5:20, ::-2][:, ::-1], (3, 4, 2)),
    )


def test_a_point_and_back(server: hs.Server, folder: Path) -> None:
    """The pixel at a known place has the colour of the element there."""
    z, latitude, longitude = 4, 47.0, 8.5
    latitudes, longitudes = GRIDS["europe"]
    world = 2**z * 256
    across = (longitude + 180) / 360 * world
    down = (1 - np.arcsinh(np.tan(np.radians(latitude))) / np.pi) / 2 * world
    tile = int(across // 256), int(down // 256)
    found = _tile(server, folder, f"europe.zarr/sst/{z}/{tile[0]}/{tile[1]}.png", "")
    value = _values("europe")[np.abs(latitudes - latitude).argmin(), np.abs(longitudes - longitude).argmin()]
    gray = int(np.interp((value + 2) / 4 * 10, np.arange(11), GRAY) + 0.5)
    assert found[int(down % 256), int(across % 256)].tolist() == [gray, gray, gray, 255]


def test_tile_json(server: hs.Server, folder: Path) -> None:
    status, body = _ask(
        f"{server.url}/tiles/{folder.name}/europe.zarr/sst/tile.json?token=secret&select=1&map=magma"
    )
    assert status == 200, body
    found = json.loads(body)
    assert found["tilejson"] == "3.0.0"
    west, south, east, north = found["bounds"]
    assert (west, south, east, north) == pytest.approx((-12.5, 32.5, 45.5, 72.5))
    assert (found["minzoom"], found["maxzoom"]) == (0, 1)
    values = _values("europe") * 2
    low, high = found["range"]
    assert np.nanmin(values) <= low < high <= np.nanmax(values)
    (url,) = found["tiles"]
    assert url.startswith(f"{server.url}/tiles/{folder.name}/europe.zarr/sst/{{z}}/{{x}}/{{y}}.png?")
    status, body = _ask(url.format(z=1, x=1, y=0))
    assert (status, body[:4]) == (200, b"\x89PNG")
    for name in ("plain", "pacific"):
        _, body = _ask(f"{server.url}/tiles/{folder.name}/{name}.zarr/sst/tile.json?token=secret")
        assert json.loads(body)["bounds"][::2] == [-180, 180]
    request = urllib.request.Request(  # noqa: S310
        f"{server.url}/tiles/{folder.name}/plain.zarr/sst/tile.json",
        headers={"Authorization": "Bearer secret", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "a.org"},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        (url,) = json.load(answer)["tiles"]
    assert url.startswith("https://a.org/maps/tiles/")
    assert "token=secret" in url


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("flat.h5/flat/0/0/0.png", 400, "latitudes"),
        ("plain.zarr/lat/0/0/0.png", 400, "longitudes"),
        ("plain.zarr/sst/0/1/0.png", 404, "no such tile"),
        ("plain.zarr/sst/x/0/0.png", 404, "no such tile"),
        ("plain.zarr/none/0/0/0.png", 404, "no array"),
        ("plain.zarr/sst/0/0/0.png?map=jet", 400, "there are viridis"),
        ("plain.zarr/sst/0/0/0.png?range=1", 400, "LOW,HIGH"),
        ("plain.zarr/sst/0/0/0.png?method=cubic", 400, "nearest or linear"),
        ("plain.zarr/sst/0/0/0.png?select=0,3", 400, "slices"),
        ("plain.zarr/sst/0/0/0.png?select=9", 400, "select"),
    ],
)
def test_errors(server: hs.Server, folder: Path, path: str, status: int, words: str) -> None:
    joined = "&" if "?" in path else "?"
    found = _ask(f"{server.url}/tiles/{folder.name}/{path}{joined}token=secret")
    assert found[0] == status, found
    assert words in json.loads(found[1])["found"]
