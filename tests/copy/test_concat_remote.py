"""Joins files on a server, into a directory and into the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest
import xarray as xr
from object_server_client import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def urls(server: Server, tmp_path: Path) -> list[str]:
    """Returns the URLs of three NetCDF-4 files and a Zarr group, of two steps each."""
    server.clear()
    made = []
    for number in range(4):
        found = xr.Dataset(
            {"v": (("time", "x"), np.arange(10.0).reshape(2, 5) + 10 * number), "mask": ("x", np.arange(5))},
            {"time": [2.0 * number, 2.0 * number + 1]},
        )
        local, name = tmp_path / f"{number}.nc", f"s3://bucket/in/{number}.{'h5' if number < 3 else 'zarr'}"
        found.to_netcdf(local)
        hs.copy(local, name, storage_options=server.s3_options)
        made.append(name)
    return made


@pytest.mark.filterwarnings("ignore")
def test_files_on_a_server(server: Server, urls: list[str], tmp_path: Path) -> None:
    options = server.s3_options
    expected = np.arange(40.0).reshape(8, 5)
    hs.copy(urls, tmp_path / "out.zarr", concat="time", verify=True, storage_options=options)
    np.testing.assert_array_equal(hs.open(tmp_path / "out.zarr")["v"][:], expected)
    hs.copy(urls[::-1], "s3://bucket/out.zarr", concat="time", sort=True, storage_options=options)
    found = hs.open("s3://bucket/out.zarr", mode="r", storage_options=options)
    np.testing.assert_array_equal(found["v"][:], expected)
    assert found["time"][:].tolist() == list(range(8))
    plan = hs.plan_copy(urls, "s3://bucket/plan.zarr", concat="time", storage_options=options)
    hs.CopyPlan.from_json(plan.to_json(), storage_options=options).run()
    found = hs.open("s3://bucket/plan.zarr", mode="r", storage_options=options)
    np.testing.assert_array_equal(found["v"][:], expected)
    with pytest.raises(ValueError, match="is a pattern of a URL; give the list"):
        hs.copy("s3://bucket/in/*.h5", tmp_path / "no.zarr", concat="time", storage_options=options)


@pytest.mark.filterwarnings("ignore")
def test_parts_on_a_server(server: Server, urls: list[str]) -> None:
    options = server.s3_options
    hs.copy(urls[3], "s3://bucket/part-{}.zarr", split={"time": 1}, storage_options=options)
    for number in range(2):
        found = hs.open(f"s3://bucket/part-{number}.zarr", mode="r", storage_options=options)
        assert found["time"][:].tolist() == [6 + number]
    with pytest.raises(FileExistsError, match="exists already"):
        hs.copy(urls[3], "s3://bucket/part-{}.zarr", split={"time": 1}, storage_options=options)


@pytest.mark.filterwarnings("ignore")
def test_no_part_is_written_if_one_exists(server: Server, urls: list[str]) -> None:
    options = server.s3_options
    hs.copy(urls[0], "s3://bucket/whole-1.h5", storage_options=options)
    with pytest.raises(OSError, match="whole-1.h5"):
        hs.copy(urls[0], "s3://bucket/whole-{}.h5", split={"time": 1}, storage_options=options)
    with pytest.raises(FileNotFoundError):
        hs.open("s3://bucket/whole-0.h5", mode="r", storage_options=options)
