"""`array.cf`, compared with xarray and netCDF4-python."""

from __future__ import annotations

import datetime
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch
from test_statistics_packed import FORMATS, write

xr = pytest.importorskip("xarray")
netCDF4 = pytest.importorskip("netCDF4")
cftime = pytest.importorskip("cftime")

SELECTIONS: list[Any] = [..., (1, 2), (slice(None, None, -2), 3), ([3, 0], slice(1, 9, 3))]


def decoded(path: Path, selection: Any = ...) -> np.ndarray[Any, Any]:
    """Returns the values that xarray reads."""
    engine = "zarr" if path.suffix == ".zarr" else "netcdf4"
    options = {"consolidated": False} if engine == "zarr" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xr.open_dataset(path, engine=engine, **options) as ds:
            return np.asarray(ds["v"].values)[selection]


def opened(path: Path, mode: Any = "r") -> Any:
    return hs.open_group(path, mode=mode)["v"]


def same(found: Any, wanted: Any) -> bool:
    """Returns True if values are equal to the last bit, with equal types."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    return np.array_equal(found, wanted, equal_nan=found.dtype.kind in "fmM")


def dtypes_of(form: str) -> list[str]:
    if form == "netcdf3":
        return ["i1", "i2", "i4", "f4", "f8"]
    return ["i1", "u1", "i2", ">i2", "u2", "i4", "u4", "i8", "u8", "f4", ">f8"]


@st.composite
def packed(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any], dict[str, Any]]:
    """A format, stored numbers, and attributes."""
    form = draw(st.sampled_from(list(FORMATS)))
    dtype = np.dtype(draw(st.sampled_from(dtypes_of(form))))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = rng.integers(0 if dtype.kind == "u" else -100, 100, (5, 9)).astype(dtype)
    native = dtype.newbyteorder("=").type
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        fills = [0, 7, 99] + ([np.nan] if dtype.kind == "f" else [])
        attributes["_FillValue"] = native(draw(st.sampled_from(fills)))
    if draw(st.booleans()):
        missing = np.array(draw(st.sampled_from([5, 7, [5, 6]])), dtype.newbyteorder("="))
        attributes["missing_value"] = missing.tolist() if form in ("v2", "v3") else missing
    # In JSON all floats are alike.
    kinds = [float] if form in ("v2", "v3") else [np.float32, np.float64]
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from(kinds))(draw(st.sampled_from([0.01, -2.5, 1e4])))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from(kinds))(draw(st.sampled_from([273.15, -1.0])))
    sign = draw(st.sampled_from([None, "true", "false"]))
    # xarray does not convert `missing_value` to the other sign, and swaps the bytes of `_FillValue`.
    if sign is not None and "missing_value" not in attributes and dtype.kind in "iu" and dtype.isnative:
        attributes["_Unsigned"] = sign
    return form, values, attributes


@given(case=packed(), selection=st.sampled_from(SELECTIONS))
@settings(max_examples=examples(150), deadline=None)
def test_numbers_are_those_of_xarray(case: Any, selection: Any) -> None:
    form, values, attributes = case
    with scratch() as folder:
        path = write(form, folder, values, attributes)
        v = opened(path)
        whole = decoded(path)
        assert same(v.cf[...], whole)
        assert v.cf.dtype == whole.dtype
        assert same(v.cf[selection], whole[selection])
        assert same(v.lazy[selection].cf[...], whole[selection])
        assert same(v.lazy.cf[selection], whole[selection])
        assert same(np.asarray(v.lazy.T[2:].cf), whole.T[2:])
        assert isinstance(v.cf[1, 2], np.generic)
        assert "scale_factor" not in v.cf.attrs


UNITS = ["days", "hours", "Minute", "seconds", "milliseconds", "microseconds", "h", "secs", "d"]
REFERENCES = [
    "1970-01-01",
    "2000-1-1 00:00:0.0",
    "1900-01-01T12:30:00Z",
    "1950-06-15 06:00:00 -06:00",
    "1-1-1",
    "1600-02-29 12:00",
]


@st.composite
def times(draw: st.DrawFn) -> tuple[str, np.ndarray[Any, Any], dict[str, Any]]:
    form = draw(st.sampled_from(list(FORMATS)))
    dtype = np.dtype(draw(st.sampled_from(["i2", "i4", "f4", "f8"])))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = rng.integers(-20000, 30000, (5, 9)).astype(dtype)
    if dtype.kind == "f":
        values += rng.choice([0, 0.5, 0.125, 0.1], values.shape).astype(dtype)
    attributes: dict[str, Any] = {
        "units": f"{draw(st.sampled_from(UNITS))} since {draw(st.sampled_from(REFERENCES))}"
    }
    calendar = draw(
        st.sampled_from([None, "standard", "gregorian", "proleptic_gregorian", "noleap", "360_day"])
    )
    if calendar is not None:
        attributes["calendar"] = calendar
    # xarray gets missing elements wrong where it uses cftime.
    if calendar not in ("noleap", "360_day") and draw(st.booleans()):
        attributes["_FillValue"] = dtype.type(values[0, 0])
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.5, 0.1]))
    return form, values, attributes


@given(case=times(), selection=st.sampled_from(SELECTIONS))
@settings(max_examples=examples(150), deadline=None)
def test_dates_are_those_of_xarray(case: Any, selection: Any) -> None:
    form, values, attributes = case
    with scratch() as folder:
        path = write(form, folder, values, attributes)
        cf = opened(path).cf
        try:
            wanted = decoded(path)
        except ValueError:
            if attributes.get("calendar") == "noleap" and "02-29" in attributes["units"]:
                with pytest.raises(hs.errors.InvalidArgumentError, match="calendar noleap has no such day"):
                    cf[...]
            else:
                # With cftime, xarray fails if elements are missing.
                assert "_FillValue" in attributes
            return
        with warnings.catch_warnings():
            # cftime warns of the year zero.
            warnings.simplefilter("ignore")
            found = cf[...]
        assert cf.units == attributes["units"] and "units" not in cf.attrs
        if wanted.dtype.kind == "O" and found.dtype.kind == "M":
            # NumPy has these dates, but not in nanoseconds.
            assert found.dtype == "M8[us]" and attributes.get("calendar") not in ("noleap", "360_day")
            known = ~np.isnat(found)
            numbers = [
                cftime.date2num(each, "microseconds since 1970-01-01", each.calendar)
                for each in wanted[known]
            ]
            assert found[known].astype("i8").tolist() == numbers
            return
        if wanted.dtype.kind == "O":
            missing = values == attributes.get("_FillValue", np.nan)
            assert (found[~missing] == wanted[~missing]).all()
            assert all(each is None for each in found[missing])
        else:
            missing = np.isnat(found)
            # xarray shows the reference for missing elements if its dates come from cftime.
            assert same(found[~missing], wanted[~missing])
            if not missing.any() or np.isnat(wanted).any():
                assert same(found, wanted)
                assert same(cf[selection], wanted[selection])


@pytest.mark.parametrize("form", list(FORMATS))
@pytest.mark.parametrize("unit", ["days", "hours", "seconds", "milliseconds"])
@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
def test_time_differences_are_those_of_xarray(form: str, unit: str, resolution: str, tmp_path: Path) -> None:
    for number, values in enumerate(([[1, -7]], [[1.5, 2.25]], [[1 / 3, np.nan]])):
        folder = tmp_path / str(number)
        folder.mkdir()
        attributes = {"units": unit, "dtype": f"timedelta64[{resolution}]"}
        path = write(form, folder, np.array(values, "i4" if number == 0 else "f8"), attributes)
        cf = opened(path).cf
        assert same(cf[...], decoded(path)), values
        assert (cf.dtype, cf.attrs) == (np.dtype(f"m8[{resolution}]"), {})


def test_units_of_differences_alone_are_numbers(tmp_path: Path) -> None:
    """xarray reads the smallest integer for missing ones."""
    v = opened(
        write("hdf5", tmp_path, np.array([[1, -9]], "i4"), {"units": "days", "_FillValue": np.int32(-9)})
    )
    assert v.cf[...].tolist()[0][0] == 1.0 and np.isnan(v.cf[0, 1])
    assert v.cf.attrs == {"units": "days"}


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_masked_arrays_are_those_of_netcdf4_python(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(["NETCDF4", "NETCDF3_64BIT_DATA", "NETCDF3_CLASSIC"]))
    types = ["i1", "i2", "i4", "f4", "f8"] + ([] if form == "NETCDF3_CLASSIC" else ["u1", "u2", "i8"])
    dtype = np.dtype(data.draw(st.sampled_from(types)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    values = rng.integers(0, 100, (4, 6)).astype(dtype)
    # netCDF4-python's comments say that bytes have no default, but its code masks it.
    if dtype.itemsize > 1:
        values[0, 0] = netCDF4.default_fillvals[dtype.str[1:]]
    with scratch() as folder:
        path = folder / "a.nc"
        with netCDF4.Dataset(path, "w", format=form) as file:
            file.createDimension("y", 4)
            file.createDimension("x", 6)
            fill = data.draw(st.sampled_from([None, 7, 99]))
            v = file.createVariable("v", dtype, ("y", "x"), fill_value=fill)
            v.set_auto_maskandscale(False)
            for name in ("valid_min", "valid_max", "missing_value"):
                if data.draw(st.booleans()):
                    v.setncattr(name, dtype.type(data.draw(st.integers(5, 95))))
            if data.draw(st.booleans()):
                v.valid_range = np.array([10, 80], dtype)
            if data.draw(st.booleans()):
                v.scale_factor, v.add_offset = 0.5, 3.0
            v[:] = values
        with netCDF4.Dataset(path) as file:
            wanted = np.ma.asarray(file["v"][:])
        found = opened(path).cf.masked[...]
        assert isinstance(found, np.ma.MaskedArray)
        assert np.ma.getmaskarray(found).tolist() == np.ma.getmaskarray(wanted).tolist()
        assert found.dtype == wanted.dtype
        assert found.compressed().tolist() == wanted.compressed().tolist()


def test_masked_times_and_single_elements() -> None:
    attributes = {"units": "days since 2000-01-01", "_FillValue": -1}
    z = hs.array([0, -1], dtype="i4", attributes=attributes)
    found = z.cf.masked[...]
    assert found.mask.tolist() == [False, True] and found[0] == np.datetime64("2000-01-01")
    assert z.cf.masked[1] is np.ma.masked and z.cf.masked[0] == np.datetime64("2000-01-01")


@given(case=packed(), seed=st.integers(0, 1000))
@settings(max_examples=examples(100), deadline=None)
def test_written_numbers_are_read_by_xarray(case: Any, seed: int) -> None:
    form, stored, attributes = case
    if form == "netcdf3":
        form = "hdf5"
    if stored.dtype.itemsize >= 4:
        # Floats of 32 bits do not have all of these large numbers.
        attributes.pop("_Unsigned", None)
    with scratch() as folder:
        path = write(form, folder, stored, attributes)
        # The values of the stored numbers in another order, so that all of them fit.
        wanted = np.random.default_rng(seed).permutation(decoded(path).ravel()).reshape(stored.shape)
        group: Any = hs.open_group(path, mode="r+") if form in ("v2", "v3") else hs.File(path, "r+")
        group["v"].cf[...] = wanted
        if seed % 2:
            group["v"].lazy[1:].cf[::2] = wanted[1::2]
        if isinstance(group, hs.File):
            group.close()
        found = decoded(path)
        assert found.dtype == wanted.dtype
        assert np.array_equal(np.isnan(found), np.isnan(wanted))
        if "scale_factor" in attributes or "add_offset" in attributes:
            step = abs(attributes.get("scale_factor", 1.0))
            assert np.nanmax(abs(found - wanted), initial=0) <= max(
                step * 1e-3, 1e-4 * abs(np.nanmax(abs(wanted), initial=1)) if stored.dtype.kind == "f" else 0
            )
        else:
            assert same(found, wanted)


def test_written_values_are_read_by_netcdf4_python(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", 4)
        v = file.createVariable("v", "i2", ("t",), fill_value=-99)
        v.scale_factor, v.add_offset = 0.25, 10.0
        time = file.createVariable("time", "i4", ("t",), fill_value=-1)
        time.units, time.calendar = "hours since 1990-01-01 00:00:00 +01:00", "gregorian"
        leap = file.createVariable("leap", "f8", ("t",))
        leap.units, leap.calendar = "days since 1990-01-01", "noleap"
    dates = np.array(["1990-01-01T05", "NaT", "2020-02-29", "1989-12-31"], "M8[h]")
    models = [cftime.DatetimeNoLeap(2000, 3, 1, 6), None, cftime.DatetimeNoLeap(1989, 12, 31), None]
    with hs.File(path, "r+") as group:
        group["v"].cf[...] = np.ma.array([1.0, 10.3, 10.375, 5], mask=[1, 0, 0, 0])
        group["time"].cf[...] = dates
        group["leap"].cf[...] = np.array(models, object)
    with netCDF4.Dataset(path) as file:
        assert file["v"][:].tolist() == [None, 10.25, 10.5, 5.0]
        found = netCDF4.num2date(file["time"][:], file["time"].units, file["time"].calendar)
        assert [None if each is None else each.isoformat() for each in found.tolist()] == [
            "1990-01-01T05:00:00",
            None,
            "2020-02-29T00:00:00",
            "1989-12-31T00:00:00",
        ]
        assert file["leap"][:].filled(np.nan)[[0, 2]].tolist() == [10 * 365 + 59.25, -1.0]
    group = hs.open_group(path, mode="r")
    assert same(group["time"].cf[...], dates.astype("M8[ns]"))
    assert group["leap"].cf[...].tolist() == models


def test_rounding_is_half_to_even() -> None:
    z = hs.array([0] * 4, dtype="i2")
    z.cf[...] = [0.5, 1.5, 2.5, -0.5]
    assert z[...].tolist() == [0, 2, 2, 0]


@pytest.mark.parametrize(
    ("dtype", "attributes", "values", "words"),
    [
        ("i2", {}, [1.0, np.nan], "at (1,) of the values: it is missing, and the array has no _FillValue"),
        ("i2", {"scale_factor": 0.5}, [0, 20000], "cannot store np.int64(20000) at (1,)"),
        ("u1", {}, [-1], "|u1 does not have it"),
        ("f4", {}, [1e300], "not one of <f4"),
        ("i2", {"scale_factor": 0.5, "_FillValue": 4}, [2.0], "marks missing elements"),
        ("i4", {"units": "days since 2000-01-01"}, np.array(["2000-01-01T12"], "M8[h]"), "no whole number"),
        ("i4", {"units": "days since 2000-01-01"}, np.array(["NaT"], "M8[ns]"), "_FillValue"),
        ("i4", {"units": "days since 2000-01-01"}, np.array(["1500-01-01"], "M8[D]"), "1582-10-15"),
    ],
)
def test_refused_values(dtype: str, attributes: dict[str, Any], values: Any, words: str) -> None:
    z = hs.array([0] * len(values), dtype=dtype, attributes=attributes)
    with pytest.raises(hs.errors.InvalidArgumentError) as error:
        z.cf[...] = values
    assert words in str(error.value) and "array '/'" in str(error.value)
    assert not z[...].any()


def test_values_of_other_types_are_refused() -> None:
    days = hs.array([0], dtype="i4", attributes={"units": "days since 2000-01-01"})
    with pytest.raises(hs.errors.DataTypeError, match="expected dates"):
        days.cf[...] = [1]
    model = hs.array([0], dtype="i4", attributes={"units": "days since 2000-01-01", "calendar": "noleap"})
    with pytest.raises(hs.errors.DataTypeError, match="expected dates of cftime"):
        model.cf[...] = np.array(["2000-01-01"], "M8[D]")
    with pytest.raises(hs.errors.DataTypeError, match="expected numbers"):
        hs.array([0], dtype="i4").cf[...] = ["x"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"units": "days since birth"}, "its attribute units is 'days since birth': 'birth' is not a date"),
        ({"units": "days since 2000-01-01", "calendar": "lunar"}, "its attribute calendar is 'lunar'"),
        ({"scale_factor": "x"}, 'its attribute scale_factor is "x", not a number'),
    ],
)
def test_attributes_without_a_meaning(attributes: dict[str, Any], words: str) -> None:
    z = hs.array([0], dtype="i4", attributes=attributes)
    with pytest.raises(hs.errors.InvalidArgumentError) as error:
        z.cf[...]
    assert words in str(error.value)


def test_cftime_is_only_needed_for_its_calendars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cftime", None)
    old = hs.array([719164], dtype="i4", attributes={"units": "days since 1-1-1"})
    assert old.cf[0] == np.datetime64("1970-01-01")
    model = hs.array([0], dtype="i4", attributes={"units": "days since 2000-01-01", "calendar": "noleap"})
    with pytest.raises(ImportError, match="array '/' as dates: in calendar 'noleap'.*cftime, which is not"):
        model.cf[...]
    assert model.cf.dtype == object


def test_elements_without_numbers_stay_what_they_are() -> None:
    words = hs.array(["a", "b"], dtype=str, attributes={"units": "m", "_FillValue": "b"})
    assert words.cf[...].tolist() == ["a", "b"]
    words.cf[0] = "c"
    assert words[0] == "c"
    flags = hs.array([0, 1], dtype="i1", attributes={"dtype": "bool"})
    assert flags.cf[...].tolist() == [False, True] and flags.cf.dtype == bool
    flags.cf[...] = [True, False]
    assert flags[...].tolist() == [1, 0]
    assert hs.array([2 + 1j], dtype="c8").cf[...].tolist() == [2 + 1j]
    assert "CF values of" in repr(flags.cf) and len(flags.cf) == flags.cf.size == 2


def test_statistics_of_times() -> None:
    attributes = {"units": "days since 2000-01-01", "_FillValue": -1}
    z = hs.array([0, 31, -1, 2], dtype="i4", attributes=attributes)
    found = hs.statistics(z)
    assert (found.min, found.max) == (np.datetime64("2000-01-01"), np.datetime64("2000-02-01"))
    assert found.mean == np.datetime64("2000-01-12") and found.sum is None
    assert found.std / np.timedelta64(1, "D") == pytest.approx(np.std([0, 31, 2]))
    raw = hs.statistics(z, raw=True)
    assert (raw.min, raw.max, raw.sum) == (-1, 31, 32)
    model = hs.array([0, 59], dtype="f8", attributes={"units": "days since 2000-01-01", "calendar": "noleap"})
    assert hs.statistics(model).max == cftime.DatetimeNoLeap(2000, 3, 1)
    spans = hs.array([1, 2], dtype="i4", attributes={"units": "hours", "dtype": "timedelta64[s]"})
    assert hs.statistics(spans).sum == np.timedelta64(3, "h")
    wrong = hs.array([1, 2], dtype="i4", attributes={"units": "days since birth"})
    assert hs.statistics(wrong).max == 2


def test_command_shows_dates(tmp_path: Path) -> None:
    z: Any = hs.create_array(
        tmp_path / "a.zarr",
        data=np.array([0, 59, 60], "f8"),
        attributes={"units": "days since 2001-01-01", "calendar": "360_day"},
    )
    assert z.cf.calendar == "360_day"

    def told(*arguments: str) -> str:
        command = [sys.executable, "-m", "hyperslab", "stats", str(tmp_path / "a.zarr"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    shown = told()
    assert "2001-01-01" in shown and "2001-03-01" in shown and " days" in shown
    assert '"max": "2001-03-01"' in told("--json") and '"units": "days since 2001-01-01"' in told("--json")
    assert '"max": 60.0' in told("--json", "--raw") and "2001" not in told("--raw").splitlines()[1][40:]


def test_dates_of_other_kinds_are_written() -> None:
    packing = {"units": "hours since 2000-01-01", "scale_factor": 0.5, "_FillValue": -1}
    half = hs.array([0] * 3, dtype="i2", attributes=packing)
    half.cf[...] = np.ma.array(["2000-01-01T01:30", "2000-01-02", "2000-01-03"], "M8[m]", mask=[0, 0, 1])
    assert half[...].tolist() == [3, 48, -1]
    half.cf[0] = datetime.datetime(2000, 1, 1, 12)
    assert half[0] == 24 and half.cf[0] == np.datetime64("2000-01-01T12")
    old = hs.array([0] * 2, dtype="i4", attributes={"units": "days since 1582-10-15", "_FillValue": 9})
    old.cf[...] = np.array([cftime.DatetimeGregorian(1582, 10, 4), None], object)
    assert old[...].tolist() == [-1, 9] and old.cf[0] == cftime.DatetimeGregorian(1582, 10, 4)
    with pytest.raises(hs.errors.InvalidArgumentError, match="no whole number"):
        old.cf[0] = cftime.DatetimeGregorian(1582, 10, 4, 12)
    spans = hs.array([0.0], dtype="f8", attributes={"units": "days", "dtype": "timedelta64[s]"})
    spans.cf[...] = np.array([36], "m8[h]")
    assert spans[0] == 1.5 and spans.cf[0] == np.timedelta64(36, "h")
