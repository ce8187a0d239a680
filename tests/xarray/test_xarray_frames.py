"""Opening a dataset runs few Python functions of hyperslab, for each format. xarray's own do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from frames import frames


@pytest.mark.parametrize("kind", ["zarr2", "zarr3", "netcdf3", "netcdf4"])
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_open_dataset_of_three_variables(tmp_path: Path, kind: str) -> None:
    """Two variables with fill values, and a coordinate, which xarray reads for its index."""
    grid: Any = (("y", "x"), np.arange(12.0).reshape(3, 4))
    made = xr.Dataset({"t": grid, "u": grid, "x": ("x", np.arange(4.0))})
    path = str(tmp_path / ("a.zarr" if kind.startswith("zarr") else "a.nc"))
    if kind.startswith("zarr"):
        made.to_zarr(path, zarr_format=int(kind[-1]))  # type: ignore[call-overload]
    else:
        classic = kind == "netcdf3"
        made.to_netcdf(path, engine="netcdf4", format="NETCDF3_CLASSIC" if classic else "NETCDF4")

    def work() -> None:
        xr.open_dataset(path, engine="hyperslab")

    # Attributes of NetCDF-3 have no element type: one more function for each.
    assert len(frames(work)) <= (38 if kind == "netcdf3" else 35)
    with xr.open_dataset(path, engine="hyperslab") as opened:
        xr.testing.assert_identical(opened.load(), made)


def test_each_variable_adds_few_functions(tmp_path: Path) -> None:
    def count(variables: int, kind: str) -> int:
        made = xr.Dataset({f"v{each}": ("x", np.arange(4)) for each in range(variables)})
        path = str(tmp_path / f"{variables}.{kind}")
        if kind == "zarr":
            made.to_zarr(path, consolidated=False)
        else:
            made.to_netcdf(path, engine="netcdf4")
        return len(frames(lambda: xr.open_dataset(path, engine="hyperslab")))

    assert count(13, "zarr") - count(3, "zarr") <= 60
    assert count(13, "nc") - count(3, "nc") <= 30
