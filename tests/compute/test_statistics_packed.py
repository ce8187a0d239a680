"""`statistics` and `hyperslab stats` of packed numbers, compared with xarray."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch

xr = pytest.importorskip("xarray")

FORMATS = {
    "v2": ("a.zarr", lambda ds, path: ds.to_zarr(path, zarr_format=2, consolidated=False)),
    "v3": ("a.zarr", lambda ds, path: ds.to_zarr(path, zarr_format=3, consolidated=False)),
    "hdf5": ("a.nc", lambda ds, path: ds.to_netcdf(path, engine="netcdf4")),
    "netcdf3": ("a.nc", lambda ds, path: ds.to_netcdf(path, engine="netcdf4", format="NETCDF3_CLASSIC")),
}


def write(form: str, folder: Path, values: np.ndarray[Any, Any], attributes: dict[str, Any]) -> Path:
    """Writes a dataset whose variable ``v`` has these stored values and attributes."""
    name, to = FORMATS[form]
    # xarray stores attributes with these names unchanged, and the values, too.
    ds = xr.Dataset({"v": (("y", "x"), values, attributes)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        to(ds, folder / name)
    return folder / name


def decoded(path: Path) -> np.ndarray[Any, Any]:
    engine = "zarr" if path.suffix == ".zarr" else "netcdf4"
    options = {"consolidated": False} if engine == "zarr" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(path, engine=engine, decode_times=False, **options) as ds:
            return np.asarray(ds["v"].values)


def check(path: Path, found: hs.Statistics) -> None:
    """Checks that the statistics describe the values that xarray reads."""
    values = decoded(path)
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values.ravel()
    assert (found.count, found.missing) == (known.size, values.size - known.size)
    if not known.size:
        assert (found.min, found.max, found.mean, found.std) == (None,) * 4
        return
    # xarray computes with 32 bits if they can hold the stored numbers.
    wide = known.astype("f8")
    digits = 1e-6 if values.dtype == "f4" else 1e-13
    near = digits * max(1.0, float(np.abs(wide).max()))
    for name, wanted in (
        ("min", wide.min()),
        ("max", wide.max()),
        ("mean", wide.mean()),
        ("std", wide.std()),
    ):
        assert float(getattr(found, name)) == pytest.approx(float(wanted), rel=digits * 10, abs=near * 10), (
            name
        )
    assert float(found.sum) == pytest.approx(float(wide.sum()), rel=digits * 10, abs=near * known.size)


@given(data=st.data())
@settings(max_examples=examples(120), deadline=None)
def test_packed_numbers_are_those_of_xarray(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(list(FORMATS)))
    types = (
        ["i1", "i2", "i4", "f4", "f8"]
        if form == "netcdf3"
        else ["i1", "u1", "i2", ">i2", "u2", "i4", "f4", ">f8"]
    )
    dtype = np.dtype(data.draw(st.sampled_from(types)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    values = rng.integers(0 if dtype.kind == "u" else -100, 100, (7, 11)).astype(dtype)
    native = dtype.newbyteorder("=").type
    attributes: dict[str, Any] = {}
    if data.draw(st.booleans()):
        attributes["_FillValue"] = native(data.draw(st.sampled_from([0, 7, 99])))
    if data.draw(st.booleans()):
        missing = data.draw(st.sampled_from([5, 7, [5, 6], 1000]))
        attributes["missing_value"] = np.array(
            missing, "i4" if form == "netcdf3" or missing == 1000 else dtype
        )
        if form in ("v2", "v3"):
            attributes["missing_value"] = attributes["missing_value"].tolist()
    if data.draw(st.booleans()):
        attributes["scale_factor"] = data.draw(st.sampled_from([0.01, -2.5, 1e4]))
    if data.draw(st.booleans()):
        attributes["add_offset"] = data.draw(st.sampled_from([273.15, -1.0]))
    sign = data.draw(st.sampled_from([None, "true", "false"]))
    # xarray does not convert `missing_value` to the other sign, and swaps the bytes of `_FillValue`.
    if sign is not None and "missing_value" not in attributes and dtype.kind in "iu" and dtype.isnative:
        attributes["_Unsigned"] = sign
    with scratch() as folder:
        path = write(form, folder, values, attributes)
        v = hs.open_group(path, mode="r")["v"]
        check(path, hs.statistics(v))
        raw = hs.statistics(v, raw=True)
        assert (raw.count, raw.min, raw.max) == (values.size, values.min(), values.max())


def test_the_fill_value_of_v2_counts_where_axes_have_names(tmp_path: Path) -> None:
    values = np.array([[0, 1, 2]], "i2")
    group: Any = hs.create_group(tmp_path / "a", zarr_format=2)
    group.create_array("v", data=values, fill_value=0, attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    group.create_array("w", data=values, fill_value=0)
    assert (hs.statistics(group["v"]).missing, hs.statistics(group["w"]).missing) == (1, 0)
    assert hs.statistics(group["v"], raw=True).missing == 0


def test_dates_of_v2_that_are_the_fill_value_are_missing(tmp_path: Path) -> None:
    days = np.array(["1970-01-01", "1970-01-05", "NaT"], "M8[D]")
    group: Any = hs.create_group(tmp_path / "a.zarr", zarr_format=2)
    v = group.create_array("v", data=days, fill_value=days[0], attributes={"_ARRAY_DIMENSIONS": ["x"]})
    assert (hs.statistics(v).count, hs.statistics(v).missing) == (1, 2)


def test_large_fill_values_are_exact(tmp_path: Path) -> None:
    """64-bit floats could not tell the fill value from its neighbours."""
    values = np.array([[2**62, 2**62 + 1, 2**62 + 2]], "i8")
    v = hs.open_group(write("hdf5", tmp_path, values, {"_FillValue": np.int64(2**62 + 1)}), mode="r")["v"]
    found = hs.statistics(v)
    assert (found.missing, found.min, found.max) == (1, 2**62, 2**62 + 2)


def test_histograms_executors_and_missing_values() -> None:
    packing = {"_FillValue": -99, "scale_factor": 0.5, "add_offset": 10.0}
    stored = np.array([-99, 1, 2, 3, 4, 50], "i2")
    z = hs.create_array(hs.MemoryStore(), data=stored, chunks=(2,), attributes=packing)
    values = stored[1:] * 0.5 + 10
    counts, edges = np.histogram(values, 4)
    for executor in (None, ThreadPoolExecutor(2)):
        found = hs.statistics(z, bins=4, executor=executor)
        assert found.histogram is not None and found.histogram.tolist() == counts.tolist()
        assert found.bin_edges is not None and found.bin_edges.tolist() == edges.tolist()
        assert (found.mean, found.sum) == (values.mean(), values.sum())
    # Callers give stored numbers, not unpacked ones.
    found = hs.statistics(z, missing=50)
    assert (found.missing, found.max) == (2, 12.0)
    assert isinstance(found.min, np.float64)
    assert hs.statistics(z, bins=[0, 100], raw=True).histogram.tolist() == [5]  # type: ignore[union-attr]


@pytest.mark.parametrize("attributes", [{"scale_factor": "0.1"}, {"add_offset": [1, 2]}])
def test_attributes_that_are_no_numbers(attributes: dict[str, Any]) -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.array([1, 2], "i2"), attributes=attributes)
    with pytest.raises(hs.errors.InvalidArgumentError, match=f"its attribute {next(iter(attributes))} is"):
        hs.statistics(z)
    assert hs.statistics(z, raw=True).sum == 3


def test_command(tmp_path: Path) -> None:
    packing = {"_FillValue": np.int16(-32767), "scale_factor": 0.5, "add_offset": 1.0}
    path = write("hdf5", tmp_path, np.array([[-32767, 2, 4]], "i2"), packing)

    def told(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "hyperslab", "stats", str(path), "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return json.loads(done.stdout)["v"]  # type: ignore[no-any-return]

    found = told()
    assert [found[name] for name in ("type", "count", "missing", "min", "max", "sum", "mean")] == [
        "int16 packed",
        2,
        1,
        2.0,
        3.0,
        5.0,
        2.5,
    ]
    assert told("--missing", "4")["max"] == 2.0
    raw = told("--raw")
    assert [raw[name] for name in ("type", "missing", "min", "sum")] == ["int16", 0, -32767, -32761]
