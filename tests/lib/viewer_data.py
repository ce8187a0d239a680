"""Files that look like real ones, for tests of the viewer: an ocean, a microscope, a gauge, and others."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import xarray as xr
import zarr

__all__ = ["ocean", "write_all"]


def ocean() -> xr.Dataset:
    """Surface temperatures of a small world, with continents that are missing."""
    time = np.arange(24)
    latitude = np.linspace(-87.5, 87.5, 72)
    longitude = np.arange(0.0, 360.0, 2.5)
    lat, lon = np.meshgrid(np.radians(latitude), np.radians(longitude), indexing="ij")
    season = np.cos(2 * np.pi * time / 12)[:, None, None]
    eddies = np.sin(5 * lon + time[:, None, None] / 3) * np.cos(4 * lat)
    sst = 28 * np.cos(lat) ** 2 - 1.5 - 5 * season * np.sin(lat) + 1.2 * eddies
    land = np.sin(2 * lon + 0.5) * np.cos(lat) + 0.5 * np.sin(3 * lat) > 0.75
    sst = np.where(land, np.nan, sst)
    data = xr.Dataset(
        {"sst": (("time", "lat", "lon"), sst.astype("f4"))},
        coords={
            "time": ("time", time * 30, {"units": "days since 2001-01-01", "standard_name": "time"}),
            "lat": ("lat", latitude, {"units": "degrees_north", "standard_name": "latitude"}),
            "lon": ("lon", longitude, {"units": "degrees_east", "standard_name": "longitude"}),
        },
        attrs={"title": "A small ocean"},
    )
    data["sst"].attrs = {"units": "degC", "long_name": "sea surface temperature"}
    return data


def write_all(folder: Path) -> None:
    """Write all files of the tests into a folder."""
    packed = {
        "dtype": "i2",
        "scale_factor": 0.01,
        "_FillValue": -32768,
        "zlib": True,
        "chunksizes": (4, 36, 72),
    }
    ocean().to_netcdf(folder / "ocean.nc", engine="h5netcdf", encoding={"sst": packed})
    microscope(folder / "cells.zarr")
    sparse(folder / "huge.zarr")
    with h5py.File(folder / "station.h5", "w") as file:
        others(file)


def microscope(place: Path) -> None:
    """OME-Zarr in colours, with three levels."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:512, :768]
    image = np.zeros((3, 512, 768), "u1")
    for channel, radius in enumerate((40, 25, 14)):
        for top, left in rng.integers(0, 768, (30, 2)):
            near = (y - top) ** 2 + (x - left) ** 2 < radius**2
            image[channel][near] = np.maximum(image[channel][near], rng.integers(90, 255))
    root = zarr.open_group(str(place), mode="w", zarr_format=3)
    datasets = []
    for level in range(3):
        step = 2**level
        part = image[:, ::step, ::step]
        array = root.create_array(
            str(level), shape=part.shape, dtype="u1", chunks=(1, 128, 128), dimension_names=("c", "y", "x")
        )
        array[:] = part
        scale = [{"type": "scale", "scale": [1.0, 0.5 * step, 0.5 * step]}]
        datasets.append({"path": str(level), "coordinateTransformations": scale})
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    multiscales = [{"name": "cells", "axes": axes, "datasets": datasets}]
    colors = [
        {
            "color": color,
            "label": color,
            "active": True,
            "window": {"min": 0, "max": 255, "start": 0, "end": 255},
        }
        for color in ("FF0000", "00FF00", "0000FF")
    ]
    root.attrs["ome"] = {
        "version": "0.5",
        "multiscales": multiscales,
        "omero": {"channels": colors, "rdefs": {"model": "color"}},
    }


def sparse(place: Path) -> None:
    """One terabyte, of which a few chunks are stored."""
    array = zarr.create_array(
        str(place), shape=(500_000, 500_000), dtype="f4", chunks=(500, 500), fill_value=float("nan")
    )
    for at in range(4):
        array[at * 500 : at * 500 + 500, at * 1000 : at * 1000 + 500] = np.linspace(0, 1, 250_000).reshape(
            500, 500
        )


def others(file: h5py.File) -> None:
    """Series, text, compounds, a scalar, complex numbers, a damaged array."""
    n = np.arange(200_000)
    level = np.sin(n / 3000) + 0.1 * np.sin(n / 7)
    level[123_456] = 9.0
    file.create_dataset("level", data=level.astype("f4"), chunks=(20_000,), compression="gzip")
    file["level"].attrs["units"] = "m"
    file["names"] = [f"gauge {number}" for number in range(120)]
    kind = np.dtype([("name", "S8"), ("height", "f8"), ("count", "i4")])
    file["gauges"] = np.array([(f"g{n}".encode(), n / 7, n * n) for n in range(80)], kind)
    file["height"] = 12.25
    file["height"].attrs["units"] = "m"
    y, x = np.mgrid[-1:1:64j, -1:1:96j]
    file.create_dataset("wave", data=(x + 1j * y) ** 3, chunks=(16, 32), compression="gzip")
    file.create_dataset("empty", shape=(0, 5), maxshape=(None, 5), chunks=(4, 5), dtype="f4")
    grid = file.create_dataset(
        "damaged", data=np.arange(64.0).reshape(8, 8), chunks=(4, 4), compression="gzip", fletcher32=True
    )
    place = grid.id.get_chunk_info(2).byte_offset
    name = file.filename
    file.flush()
    with Path(name).open("r+b") as raw:
        raw.seek(place + 8)
        raw.write(b"\xff\xff\xff")
