"""`to_zarr` into existing arrays (append, region, mode "a").

Stored values mean what the dataset says. Values that cannot be stored are refused before anything
changes.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import edit_json, files_below

xr = pytest.importorskip("xarray")
pytest.importorskip("zarr")
pytest.importorskip("dask.array")

import numcodecs  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402
from hyperslab.xarray import to_zarr  # noqa: E402

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def refused(ds: Any, place: Path, error: type[Exception], words: str, **options: Any) -> None:
    """Checks that `to_zarr` fails and changes no byte."""
    before = files_below(place)
    with pytest.raises(error, match=words):
        to_zarr(ds, place, **options)
    assert files_below(place) == before


def opened(place: Path, **options: Any) -> Any:
    """Returns the dataset that xarray's own engine reads."""
    return xr.open_dataset(place, engine="zarr", **options).load()


def of(values: Any, dim: str = "t", **coords: Any) -> Any:
    return xr.Dataset({"v": (dim, values)}, coords)


def dates(*texts: str, unit: str = "ns") -> Any:
    return np.array(texts, f"M8[{unit}]")


# ---- dates


@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("lazy", [False, True])
@FORMATS
def test_native_dates(zarr_format: Any, lazy: bool, kind: str, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    units = ["W", "D", "h", "m", "s", "ms", "us", "ns"]
    for number in range(6):
        place = tmp_path / f"{number}.zarr"
        stored, given = chance.choice(units), chance.choice(["s", "ms", "us", "ns"])
        order = chance.choice("<>")
        # Whole units of both the stored and the given type.
        coarser = min(stored, given, key=units.index)
        weeks = np.array([chance.randint(-400, 400) for _ in range(7)], "m8[W]").astype(f"m8[{coarser}]")
        values = (weeks if kind == "m" else weeks + np.datetime64(0, coarser)).copy()
        values[3] = "NaT"
        first = values[:4].astype(f"{order}{kind}8[{stored}]")
        group = hs.create_group(place, zarr_format=zarr_format)
        group.create_array("v", data=first, chunks=(2,), dimension_names=["t"])
        part = of(values[4:].astype(f"{kind}8[{given}]"))
        to_zarr(part.chunk(t=2) if lazy else part, place, append_dim="t", safe_chunks=False)
        stored_as = hs.open_array(place, path="v").dtype
        assert (stored_as.kind, np.datetime_data(stored_as)) == (kind, np.datetime_data(first.dtype))
        found = hs.open_array(place, path="v")[...]
        np.testing.assert_array_equal(found, values.astype(first.dtype))
        changed = of(values[::-1].astype(f"{kind}8[{given}]"))
        to_zarr(changed.chunk() if lazy else changed, place, mode="a")
        np.testing.assert_array_equal(hs.open_array(place, path="v")[...], values[::-1].astype(first.dtype))
        region = {"t": slice(2, 4)}
        to_zarr(changed.isel(t=[6, 5]), place, region=region)
        np.testing.assert_array_equal(hs.open_array(place, path="v")[2:4], values[:2].astype(first.dtype))
        # Open the array with xarray and write it back.
        before = hs.open_array(place, path="v")[...]
        to_zarr(xr.open_dataset(place, engine=Engine).load(), place, mode="a")
        np.testing.assert_array_equal(hs.open_array(place, path="v")[...], before)


@FORMATS
def test_dates_that_do_not_fit(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    group = hs.create_group(place, zarr_format=zarr_format)
    group.create_array("v", data=dates("2025-01-01", "2025-01-02", unit="s"), dimension_names=["t"])
    late = of(dates("2025-01-01T00:00:00.5", "2025-01-01", unit="ms"))
    for options in ({"append_dim": "t"}, {"mode": "a"}, {"region": {"t": slice(0, 2)}}):
        refused(late, place, TypeError, "00.500 does not fit", **options)
        refused(of([5, 6]), place, TypeError, "int64", **options)
        refused(of(np.array([1, 2], "m8[s]")), place, TypeError, "timedelta64", **options)
    fine = tmp_path / "b.zarr"
    group = hs.create_group(fine, zarr_format=zarr_format)
    group.create_array("v", data=dates("2025-01-01", unit="ns"), dimension_names=["t"])
    refused(of(dates("2900-01-01", unit="s")), fine, TypeError, "does not fit", append_dim="t")


@FORMATS
def test_dates_and_numbers(zarr_format: Any, tmp_path: Path) -> None:
    """Numbers in an existing array keep its units."""
    numbers, days = tmp_path / "numbers.zarr", tmp_path / "days.zarr"
    to_zarr(of([1, 2]), numbers, zarr_format=zarr_format)
    to_zarr(of(dates("2000-01-01", "2000-01-02")), days, zarr_format=zarr_format)
    refused(of(dates("2000-01-03")), numbers, ValueError, "without units", append_dim="t")
    refused(of([7]), days, ValueError, "without units", append_dim="t")
    # xarray's own `to_zarr` writes 2000-02-18 for 2000-01-03, because it stores hours.
    refused(of(dates("2000-01-03", "2000-01-03T12")), days, ValueError, "hours since", append_dim="t")
    other = of([7])
    other["v"].attrs["units"] = "days since 1999-01-01"
    refused(other, days, ValueError, "1999", append_dim="t")
    to_zarr(of(dates("2001-01-01", "1990-01-01")), days, append_dim="t")
    to_zarr(of(dates("2001-01-02")).chunk(), days, append_dim="t")
    wanted = dates("2000-01-01", "2000-01-02", "2001-01-01", "1990-01-01", "2001-01-02")
    assert (opened(days)["v"].values == wanted).all()
    spans = tmp_path / "spans.zarr"
    to_zarr(of(np.array([24, 48], "m8[h]")), spans, zarr_format=zarr_format)
    refused(of(np.array([1], "m8[h]")), spans, ValueError, "hours", append_dim="t")
    refused(of(np.array([1], "m8[D]")), numbers, ValueError, "without units", append_dim="t")
    to_zarr(of(np.array([72], "m8[h]")), spans, append_dim="t")
    found = xr.open_dataset(spans, engine="zarr", decode_timedelta=True)["v"].values
    assert found.astype("m8[h]").astype(int).tolist() == [24, 48, 72]


# ---- text and numbers


@pytest.mark.parametrize("kind", ["U", "S"])
@FORMATS
def test_longer_text(zarr_format: Any, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    texts: Any = ["foo", "b"] if kind == "U" else [b"foo", b"b"]
    long, short = texts[0] * 2, texts[1]
    to_zarr(of(np.array(texts)), place, zarr_format=zarr_format)
    for made in (of(np.array([long, short], object)), of(np.array([long, short], object)).chunk(t=1)):
        for options in ({"append_dim": "t"}, {"mode": "a"}, {"region": {"t": slice(0, 2)}}):
            refused(made, place, TypeError, "has 6", safe_chunks=False, **options)
    refused(of(np.array([long, short])), place, ValueError, "dtype", append_dim="t")
    for made in (of(np.array([short, texts[0]], object)), of(np.array([short, short], object)).chunk()):
        to_zarr(made, place, append_dim="t")
    expected = [*texts, short, texts[0], short, short]
    assert opened(place)["v"].values.tolist() == expected


def test_text_has_room_for_bytes(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    group = hs.create_group(place)
    group.create_array("v", data=np.array([b"foo"]), attributes={"_Encoding": "utf-8"}, dimension_names=["t"])
    refused(of(np.array(["fé" * 2], object)), place, TypeError, "6 bytes", append_dim="t")


@FORMATS
def test_numbers_that_do_not_fit(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(of(np.array([1, 2], "i1")), place, zarr_format=zarr_format)
    for wrong in ([300, 1], [1, -129], [1.5, 1e6]):
        refused(of(wrong), place, TypeError, "does not fit", append_dim="t")
    # Blocks are checked when they are written.
    with pytest.raises(TypeError, match="300 does not fit"):
        to_zarr(of([300, 1]).chunk(), place, mode="a")
    assert opened(place)["v"].values.tolist() == [1, 2]
    to_zarr(of([127, -128]).chunk(), place, append_dim="t", safe_chunks=False)
    assert opened(place)["v"].values.tolist() == [1, 2, 127, -128]
    flags = tmp_path / "b.zarr"
    to_zarr(of([True, False]), flags, zarr_format=zarr_format)
    refused(of([5]), flags, TypeError, "holds bool", append_dim="t")
    to_zarr(of([True]), flags, append_dim="t")
    assert opened(flags)["v"].values.tolist() == [True, False, True]


WAYS: list[dict[str, Any]] = [
    {"append_dim": "t"},
    {"mode": "a"},
    {"mode": "r+"},
    {"region": {"t": slice(0, 2)}},
]


@pytest.mark.parametrize("kind", ["U", "S", "T"])
@FORMATS
def test_numbers_are_no_text(zarr_format: Any, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    first: Any = {
        "U": np.array(["ab", "c"]),
        "S": np.array([b"ab", b"c"]),
        "T": np.array(["ab", "c"], object),
    }
    to_zarr(of(first[kind]), place, zarr_format=zarr_format)
    stored = str(hs.open_array(place, path="v").dtype)
    numbers: list[Any] = [[1234, 5], [1.5, 2.0], [1j, 2], [True, False], dates("2000-01-01", "2000-01-02")]
    for given in [*(np.asarray(each) for each in numbers), np.array([1234, 5], object)]:
        for options in WAYS:
            words = rf"^variable 'v' has data type {re.escape(str(given.dtype))}.* holds {re.escape(stored)}"
            refused(of(given), place, hs.errors.DataTypeError, words, **options)
    refused(of([1234, 5]).chunk(), place, TypeError, "int64", append_dim="t")
    for missing in (None, np.nan):
        given = np.array([first["S" if kind == "S" else "U"][1], missing], object)
        refused(of(given), place, TypeError, "missing elements", append_dim="t")


def test_missing_text_with_a_fill_value(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    first = of(np.array(["ab", "c"]))
    to_zarr(first, place, encoding={"v": {"_FillValue": "-"}}, zarr_format=2)
    to_zarr(of(np.array(["d", None], object)), place, append_dim="t")
    assert hs.open_array(place, path="v")[...].tolist() == ["ab", "c", "d", "-"]


# First values, their encoding, values that do not fit, values that do, and these as read back.
NUMBERS: dict[str, tuple[Any, dict[str, Any], list[Any], list[Any], list[Any]]] = {
    "i2": (
        np.array([1, 2], "i2"),
        {},
        [[1.5, np.nan], [np.inf, 1], [1 + 2j, 3], [2**40, 1]],
        [1.5, 3 + 0j],
        [2, 3],
    ),
    "i8": (np.array([1, 2]), {}, [[np.nan, 1.0], [2.0**63, 1]], [-(2.0**63), 2.0], [-(2**63), 2]),
    "u8": (np.array([1, 2], "u8"), {}, [[-1, 1], [2.0**64, 1]], [2**63, 2], [2**63, 2]),
    "f4": (np.array([1, 2], "f4"), {}, [[1e300, 1.0], [1j, 1]], [np.inf, np.nan], [np.inf, np.nan]),
    "c8": (np.array([1, 2], "c8"), {}, [[1e300, 1], [1, 1e300j]], [1.5, 2j], [1.5, 2j]),
    "bool": (np.array([True, False]), {}, [[1, 0], [1.0, 2.0]], [True, True], [True, True]),
    "filled": (
        np.array([1.0, 2.0]),
        {"dtype": "i2", "_FillValue": -1},
        [[np.inf, 1], [4e4, 1]],
        [np.nan, 3],
        [np.nan, 3],
    ),
    "packed": (
        np.array([1.0, 2.0]),
        {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -1},
        [[5000.0, np.nan], [-np.inf, 1], [1.5 + 1j, 1]],
        [3276.7, np.nan],
        [3276.7, np.nan],
    ),
    "moved": (
        np.array([1001.0, 1002.0]),
        {"dtype": "u1", "add_offset": 1000.0},
        [[1001.0, np.nan], [999.0, 1001.0], [1256.0, 1001.0]],
        [1255.0, 1000.0],
        [1255.0, 1000.0],
    ),
    "unsigned": (
        np.array([1.0, 2.0]),
        {"dtype": "i1", "_Unsigned": "true", "_FillValue": -1},
        [[-1.0, 1.0], [256.0, 1.0]],
        [254.0, 0.0],
        [254.0, 0.0],
    ),
}


@pytest.mark.parametrize("kind", NUMBERS)
@FORMATS
def test_values_that_the_array_cannot_hold(zarr_format: Any, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    first, encoding, wrong, right, found = NUMBERS[kind]
    to_zarr(of(first), place, zarr_format=zarr_format, encoding={"v": encoding} if encoding else None)
    before = opened(place)["v"].values.tolist()
    for values in wrong:
        for options in WAYS:
            refused(of(values), place, hs.errors.DataTypeError, "^variable 'v'", **options)
        # Blocks are checked when they are written.
        with pytest.raises(hs.errors.DataTypeError, match="^variable 'v'"):
            to_zarr(of(values).chunk(), place, mode="r+")
        assert opened(place)["v"].values.tolist() == before
    refused(of(np.array(["12", "x"], object)), place, TypeError, "'12'", append_dim="t")
    to_zarr(of(right), place, append_dim="t")
    assert np.allclose(opened(place)["v"].values[2:], found, equal_nan=True)


@FORMATS
def test_stored_encodings_are_used(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    encoding = {"v": {"scale_factor": 0.5, "add_offset": 10.0, "dtype": "i2", "_FillValue": -1}}
    to_zarr(of([1.5, 2.5]), place, zarr_format=zarr_format, encoding=encoding)
    other = of([3.5, np.nan])
    other["v"].encoding = {"scale_factor": 0.1, "dtype": "i4", "_FillValue": 7}
    to_zarr(other, place, append_dim="t")
    np.testing.assert_array_equal(opened(place)["v"], [1.5, 2.5, 3.5, np.nan])
    raw = of(np.array([3], "i2"))
    raw["v"].attrs["scale_factor"] = 0.5
    refused(raw, place, ValueError, "scale_factor", append_dim="t")
    plain = tmp_path / "b.zarr"
    to_zarr(of(np.array([3, 4], "i2")), plain, zarr_format=zarr_format)
    refused(raw, plain, ValueError, "scale_factor", append_dim="t")
    refused(of([1]), plain, ValueError, "encoding", append_dim="t", encoding={"v": {"chunks": (1,)}})


# ---- stored rows


def table(columns: str, first: int = 0, rows: int = 1, **variables: Any) -> Any:
    values = first + np.arange(rows * len(columns), dtype=float).reshape(rows, -1)
    return xr.Dataset({"v": (("t", "x"), values), **variables}, {"x": list(columns)})


@FORMATS
def test_coordinates_of_stored_rows(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(table("abc").assign_coords(h=2.0), place, zarr_format=zarr_format)
    for mode in ("a", "a-", None):
        refused(table("cab", 3), place, ValueError, r"coordinate 'x' .*\[0\]", append_dim="t", mode=mode)
        refused(table("cab", 3).chunk(), place, ValueError, "coordinate 'x'", append_dim="t", mode=mode)
    refused(table("abc", 3).assign_coords(h=3.0), place, ValueError, "coordinate 'h'", append_dim="t")
    to_zarr(table("abc", 3).assign_coords(h=2.0), place, append_dim="t")
    to_zarr(table("cab", 6).sel(x=["a", "b", "c"]), place, append_dim="t")
    to_zarr(table("abc", 9).drop_vars("x"), place, append_dim="t")
    to_zarr(table("abc", 12).assign_coords(h=5.0), place, append_dim="t", mode="a-")
    found = opened(place)
    assert found["v"].values.tolist() == [[0, 1, 2], [3, 4, 5], [7, 8, 6], [9, 10, 11], [12, 13, 14]]
    assert found["x"].values.tolist() == ["a", "b", "c"] and float(found["h"]) == 2.0


@FORMATS
def test_variables_of_stored_rows(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(table("abc", m=("x", [1.0, np.nan, 3.0])), place, zarr_format=zarr_format)
    other = table("abc", 3, m=("x", [1.0, np.nan, 4.0]))
    for made in (other, other.chunk(x=1)):
        refused(made, place, ValueError, "variable 'm'", append_dim="t", safe_chunks=False)
    to_zarr(other, place, append_dim="t", mode="a-")
    for made in (
        other.assign(m=("x", [1.0, np.nan, 3.0])),
        other.assign(m=("x", [1.0, np.nan, 3.0])).chunk(),
    ):
        to_zarr(made, place, append_dim="t")
    # Written alone, the variable is replaced.
    to_zarr(other[["m"]], place, mode="a")
    found = opened(place)
    np.testing.assert_array_equal(found["m"], [1.0, np.nan, 4.0])
    assert found["v"].values.tolist() == [[0, 1, 2], [3, 4, 5], [3, 4, 5], [3, 4, 5]]


def test_coordinates_that_codecs_round(tmp_path: Path) -> None:
    """A filter has rounded the stored coordinates.

    Writing the same coordinates again is allowed.
    """
    place = tmp_path / "a.zarr"
    rounds = numcodecs.FixedScaleOffset(offset=0, scale=10, dtype="<f8", astype="<i4")
    ds = of([1.0]).assign_coords(x=("x", [0.123, 0.456]))
    to_zarr(ds, place, zarr_format=2, encoding={"x": {"filters": [rounds]}})
    assert opened(place)["x"].values.tolist() == [0.1, 0.5]
    to_zarr(ds, place, append_dim="t")
    refused(ds.assign_coords(x=[0.456, 0.123]), place, ValueError, "coordinate 'x'", append_dim="t")
    assert opened(place)["v"].values.tolist() == [1.0, 1.0]


@FORMATS
def test_all_that_has_the_dimension_grows(zarr_format: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    both = table("ab", rows=2, n=("t", [1, 2]))
    to_zarr(both, place, zarr_format=zarr_format)
    refused(table("ab", 4), place, ValueError, "variable 'n' is stored", append_dim="t")
    refused(both.assign(z=("t", [1.0, 2.0])), place, ValueError, "'z' is new", append_dim="t")
    refused(both.assign(z=("t", [1.0, 2.0])).isel(t=[0])[["z"]], place, ValueError, "'z' is new", mode="a")
    part = both.isel(t=[1]).assign(z=("t", [1.0]))
    refused(part.drop_vars("x"), place, ValueError, "'z' is new", mode="a", region={"t": slice(1, 2)})
    # A variable without the dimension may be new.
    to_zarr(both.assign(z=("x", [5.0, 6.0])), place, append_dim="t")
    to_zarr(both.transpose("x", "t"), place, append_dim="t")
    found = opened(place)
    assert found["v"].values.tolist() == [[0, 1], [2, 3]] * 3
    assert found["n"].values.tolist() == [1, 2] * 3 and found["z"].values.tolist() == [5, 6]
    # One variable is already shorter than the others.
    hs.open_array(place, path="n").resize((5,))
    refused(both, place, ValueError, "disagree on the length", append_dim="t")


def test_unreadable_neighbours(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(table("ab", n=("t", [1]), m=("x", [1, 2])), place, consolidated=False)
    edit_json(place / "m" / "zarr.json", data_type="who knows")
    to_zarr(table("ab", 2, n=("t", [2])), place, append_dim="t", consolidated=False)
    assert hs.open_array(place, path="v")[...].tolist() == [[0, 1], [2, 3]]
    edit_json(place / "n" / "zarr.json", data_type="who knows")
    refused(table("ab", 2), place, ValueError, "who knows", append_dim="t", consolidated=False)


@pytest.mark.parametrize("options", [{"append_dim": "t"}, {"mode": "a"}, {"mode": "r+"}])
def test_the_last_variable_is_checked_before_the_first_is_changed(options: Any, tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    ds = xr.Dataset({name: ("t", np.arange(4.0)) for name in "abc"})
    to_zarr(ds, place, encoding={name: {"chunks": (4,)} for name in "abc"})
    blocks = (ds + 1).assign(c=(ds["c"] + 1).chunk(t=3))
    refused(blocks, place, ValueError, "overlap multiple Dask", **options)
    refused(ds.assign_attrs(a={1}) if options != {"mode": "r+"} else blocks, place, Exception, "", **options)


def test_nothing_is_made_where_it_is_refused(tmp_path: Path) -> None:
    wrong = of([1]).assign_attrs(a={1})
    for mode in ("a", "w-", "w", None):
        with pytest.raises(TypeError):
            to_zarr(wrong, tmp_path / "a.zarr", mode=mode)
        with pytest.raises(TypeError):
            to_zarr(
                xr.DataTree.from_dict({"/": of([1]), "/b": wrong}), tmp_path / "a.zarr", mode=mode or "w-"
            )
    assert list(tmp_path.iterdir()) == []
    # A group is in the way, then an array.
    place = tmp_path / "b.zarr"
    to_zarr(of([1]), place)
    to_zarr(of([1]), place, group="g")
    refused(xr.Dataset({"v": ("t", [7]), "g": ("t", [1])}), place, ValueError, "group", mode="a")
    tree = xr.DataTree.from_dict({"/": xr.Dataset({"w": ("t", [2])}), "/v/b": of([1])})
    refused(tree, place, TypeError, "is an array", mode="a")
