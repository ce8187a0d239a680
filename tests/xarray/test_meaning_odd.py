"""Copies and references of files with content that one of the formats cannot express."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from copy_steps import once
from hyperslab import _native
from hyperslab.errors import InvalidArgumentError, VerificationError

xr = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
netCDF4 = pytest.importorskip("netCDF4")
zarr = pytest.importorskip("zarr")

import hyperslab.zarr  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402

ENGINES = ("zarr", Engine)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def command(*arguments: object) -> int:
    return _native.run_cli(["hyperslab", *map(str, arguments)])


def opened(place: Any, engine: Any) -> Any:
    with xr.open_dataset(place, engine=engine, consolidated=False) as found:
        return found.load()


# ---- scalars


def test_scalars_without_other_arrays(tmp_path: Path) -> None:
    inner = xr.Dataset({"zero": ((), 0.0)})
    made = xr.Dataset({"height": ((), np.int32(0)), "name": ((), "a")})
    tree = xr.DataTree.from_dict({"/": made, "/inner": inner, "/named": xr.Dataset({"a": ("x", [1, 2])})})
    tree.to_zarr(tmp_path / "v3", zarr_format=3)
    for path, want in (("", made), ("inner", inner)):
        target = tmp_path / f"v2 {path}"
        hs.copy(tmp_path / "v3" / path, target, zarr_format=2, verify=True)
        for engine in ENGINES:
            xr.testing.assert_identical(opened(target, engine), want)
    hs.copy(tmp_path / "v3/height", tmp_path / "height", zarr_format=2, verify=True)
    assert json.loads((tmp_path / "height/.zattrs").read_text()) == {"_ARRAY_DIMENSIONS": []}
    assert json.loads((tmp_path / "height/.zarray").read_text())["fill_value"] is None


def test_scalars_beside_arrays_without_names_stay_plain(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "v3", mode="w")
    root.create_array("a", shape=(3,), dtype="i4")
    root.create_array("version", shape=(), dtype="i4", fill_value=5)
    hs.copy(tmp_path / "v3", tmp_path / "v2", zarr_format=2, verify=True)
    assert json.loads((tmp_path / "v2/version/.zarray").read_text())["fill_value"] == 5
    assert dict(hs.open_array(tmp_path / "v2/version", mode="r").attrs) == {}


# ---- missing values


def test_missing_text_of_fixed_length(tmp_path: Path) -> None:
    made = xr.Dataset({"t": ("x", np.array(["a", "none", "b"]))})
    made.to_zarr(tmp_path / "v2", zarr_format=2, encoding={"t": {"_FillValue": "none"}})
    hs.copy(tmp_path / "v2", tmp_path / "v3", zarr_format=3, verify=True)
    hs.copy(tmp_path / "v3", tmp_path / "back", zarr_format=2, verify=True)
    for name in ("v3", "back"):
        for engine in ENGINES:
            assert opened(tmp_path / name, engine).t.fillna("").values.tolist() == ["a", "", "b"]


@pytest.fixture
def other_fills(tmp_path: Path) -> Path:
    """Writes a file of integers with missing values that are not integers."""
    place = tmp_path / "fills.nc"
    values = {"nan": np.nan, "infinite": -np.inf, "fraction": 1.5, "whole": 2.0, "large": 1e9}
    with h5py.File(place, "w") as file:
        x = file.create_dataset("x", data=np.arange(3))
        x.make_scale("x")
        for name, value in values.items():
            variable = file.create_dataset(name, data=np.array([1, 2, 3], "i2"))
            variable.dims[0].attach_scale(x)
            variable.attrs["_FillValue"] = value
    return place


def test_missing_values_that_are_no_integers(other_fills: Path, tmp_path: Path) -> None:
    report = hs.copy(other_fills, tmp_path / "v3", zarr_format=3, verify=True)
    assert [note for note in report.notes if note.endswith(": /fraction, /infinite, /nan")]
    store = hyperslab.zarr.Store(other_fills)
    for place, engine in ((tmp_path / "v3", "zarr"), (tmp_path / "v3", Engine), (store, "zarr")):
        found = opened(place, engine)
        for name in ("nan", "infinite", "fraction", "large"):
            assert found[name].values.tolist() == [1, 2, 3]
        np.testing.assert_array_equal(found["whole"], [1, np.nan, 3])
        assert {name for name in found if "_FillValue" in found[name].encoding} == {"whole", "large"}


# ---- attributes


def test_names_of_others_are_verified(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("a", "i4", ("x",))[:] = 1
        file["a"].setncattr("_nc_user", "mine")
        file.setncattr("_nc_root", "mine")
    with h5py.File(tmp_path / "a.nc", "a") as file:
        file["a"].attrs["_ARRAY_DIMENSIONS"] = "kept for Zarr"
    for version in (2, 3):
        target = tmp_path / f"v{version}"
        hs.copy(tmp_path / "a.nc", target, zarr_format=version, verify=True)
        for engine in ENGINES:
            assert opened(target, engine).a.attrs == ({} if version == 2 else {"_nc_user": "mine"})
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as want:
        assert want.a.attrs == {"_nc_user": "mine"}


class Forgetful(dict[str, bytes]):
    """A store that changes the attributes of groups."""

    def __setitem__(self, key: str, value: bytes) -> None:
        super().__setitem__(key, bytes(value).replace(b"kept", b"lost"))


@pytest.mark.parametrize("version", [2, 3])
def test_attributes_of_groups_are_verified(version: int, tmp_path: Path) -> None:
    source = hs.create_group(tmp_path / "source", attributes={"title": "kept"})
    source.create_group("inner")
    hs.copy(source, Forgetful(), zarr_format=version)
    with pytest.raises(InvalidArgumentError, match=r"'/': the copy differs: attribute \"title\" has another"):
        hs.copy(source, Forgetful(), zarr_format=version, verify=True)


def test_plans_verify_meaning(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", [1, 2], {"units": "m"})}).to_zarr(tmp_path / "v3", zarr_format=3)
    plan = hs.plan_copy(tmp_path / "v3", tmp_path / "v2", zarr_format=2)
    assert plan.differs == ()
    assert hs.CopyPlan.from_json(plan.to_json()) == plan
    plan.run(verify=True)
    # Another program changes a document of the copy.
    shutil.rmtree(tmp_path / "v2")

    def change() -> None:
        (tmp_path / "v2/a/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')

    wrong = "the metadata there is not what was written"
    with once("finished", change), pytest.raises(VerificationError, match=wrong):
        plan.run(verify=True)


def test_digits_of_quantization_are_no_attribute(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("a", "f4", ("x",), least_significant_digit=2)[:] = [1.234, 2]
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["a"] = np.arange(2)
        file["a"].attrs["least_significant_digit"] = 2
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as want:
        want.load()
    hs.copy(tmp_path / "a.nc", tmp_path / "v3", zarr_format=3, verify=True)
    store = hyperslab.zarr.Store(tmp_path / "a.nc")
    for place, engine in ((tmp_path / "v3", "zarr"), (tmp_path / "v3", Engine), (store, "zarr")):
        xr.testing.assert_identical(opened(place, engine), want)
    assert opened(tmp_path / "a.nc", Engine).a.encoding["least_significant_digit"] == 2
    hs.copy(tmp_path / "plain.h5", tmp_path / "plain", zarr_format=3)
    assert dict(hs.open_array(tmp_path / "plain/a", mode="r").attrs) == {"least_significant_digit": 2}


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_text_in_other_encodings(form: str, tmp_path: Path) -> None:
    place = tmp_path / "a.nc"
    with netCDF4.Dataset(place, "w", format=form) as file:
        file.createDimension("x", 2)
        file.createVariable("a", "i4", ("x",))[:] = 1
        file["a"].setncattr("units", "°C".encode("latin-1"))
        file.setncattr("institution", "Météo".encode("latin-1"))
    if form == "NETCDF4":
        with h5py.File(place, "a") as file:
            file["a"].attrs["names"] = np.array([b"caf\xe9", "é".encode()], h5py.string_dtype())
    with xr.open_dataset(place, engine="netcdf4") as want:
        want.load()
    assert (want.attrs, want.a.attrs["units"]) == ({"institution": "M\ufffdt\ufffdo"}, "\ufffdC")
    places: list[tuple[Any, Any]] = [(place, Engine), (hyperslab.zarr.Store(place), "zarr")]
    for version in (2, 3):
        hs.copy(place, tmp_path / f"v{version}", zarr_format=version, verify=True)
        places += [(tmp_path / f"v{version}", engine) for engine in ENGINES]
    assert command("index", place, "-o", tmp_path / "refs.json") == 0
    for where, engine in [*places, (tmp_path / "refs.json", Engine)]:
        xr.testing.assert_identical(opened(where, engine), want)


def test_plain_files_keep_bytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(2)
        file["a"].attrs["units"] = np.bytes_("°C".encode("latin-1"))
    hs.copy(tmp_path / "a.h5", tmp_path / "v3", zarr_format=3)
    assert dict(hs.open_array(tmp_path / "v3/a", mode="r").attrs) == {"units": [0xB0, ord("C")]}


# ---- arrays that a format does not have


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Writes a file with a variable of lists of numbers."""
    place = tmp_path / "lists.nc"
    with netCDF4.Dataset(place, "w") as file:
        file.createDimension("x", 2)
        file.createVariable("a", "i4", ("x",))[:] = [1, 2]
        made = file.createVariable("lists", file.createVLType("i4", "list_t"), ("x",))
        made[:] = np.array([np.array([1, 2], "i4"), np.array([3], "i4")], object)
        file.createVariable("one", file.vltypes["list_t"], ())[...] = np.array([4, 5], "i4")
    return place


def test_lists_of_numbers(lists: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kerchunk")
    report = hs.copy(lists, tmp_path / "v2", zarr_format=2, verify=True)
    assert [
        note for note in report.notes if 'engine "zarr" refuses' in note and note.endswith(": /lists, /one")
    ]
    found = opened(tmp_path / "v2", Engine)
    assert [row.tolist() for row in found.lists.values] == [[1, 2], [3]]
    assert found.one.values.item().tolist() == [4, 5]
    assert found.lists[1].values.item().tolist() == [3]
    document = tmp_path / "refs.json"
    assert command("index", lists, "-o", document) == 1
    assert "/lists': its elements are lists of numbers" in capfd.readouterr().err
    assert command("index", lists, "-o", document, "--skip-unsupported") == 0
    assert "left out /lists: " in capfd.readouterr().err
    with xr.open_dataset(str(document), engine="kerchunk") as found:
        assert found.a.values.tolist() == [1, 2]


@pytest.fixture
def unsaid(tmp_path: Path) -> Path:
    """Writes a file with a dataset of 80-bit floats, and one without a shape."""
    place = tmp_path / "unsaid.h5"
    with h5py.File(place, "w") as file:
        file["a"] = np.arange(3)
        file.create_dataset("empty", data=h5py.Empty("f4"))
        file["inner/long"] = np.zeros(4, np.longdouble)
    return place


def test_datasets_without_a_shape_are_left_out(
    unsaid: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(unsaid, "a") as file:
        del file["inner/long"]
    report = hs.copy(unsaid, tmp_path / "v3", verify=True)
    assert report.skipped == (("/empty", "it has no shape, and no elements"),)
    assert sorted(hs.open_group(tmp_path / "v3", mode="r")) == ["a", "inner"]
    plan = hs.plan_copy(unsaid, tmp_path / "planned")
    assert plan.skipped == report.skipped
    assert command("index", unsaid, "-o", tmp_path / "refs.json") == 0
    assert "left out /empty: it has no shape" in capfd.readouterr().err
    assert sorted(hs.open_group(tmp_path / "refs.json", mode="r")) == ["a", "inner"]
    with pytest.raises(InvalidArgumentError, match="a dataset without a shape is not supported"):
        hs.copy(hs.open(f"{unsaid}/empty", mode="r"), tmp_path / "alone")


def test_refusals_say_how_to_go_on(unsaid: Path, tmp_path: Path) -> None:
    refused = r"'/inner/long': floats of 80 bits .*; to leave it out, pass "
    for make in (hs.copy, hs.plan_copy):
        with pytest.raises(InvalidArgumentError, match=refused + "skip_unsupported=True$"):
            make(unsaid, tmp_path / "v3")
    for arguments in (
        ["copy", unsaid, tmp_path / "v3"],
        ["copy", unsaid, tmp_path / "v3", "--resume"],
        ["index", unsaid, "-o", tmp_path / "refs.json"],
    ):
        program = [sys.executable, "-m", "hyperslab", *map(str, arguments)]
        run = subprocess.run(program, capture_output=True, text=True)
        assert run.returncode in (1, 2)
        assert run.stderr.endswith("; to leave it out, pass --skip-unsupported\n")
    assert command("copy", unsaid, tmp_path / "v3", "--skip-unsupported") == 0
