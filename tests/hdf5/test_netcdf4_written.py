"""NetCDF-4 files that we write, beside files that netCDF4-python writes of the same data."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from netcdf_structure import differences, structure
from servers import tool
from support import examples

# Allowed differences from netCDF-C.
ALLOWED = {
    # It says who wrote the file.
    "_NCProperties",
}
# Attributes that netCDF-C adds when it closes a file, and we when a variable is made. Users do not see
# their order.
INNER = {
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_NCProperties",
}


def compared(ours: Path, theirs: Path) -> list[str]:
    """Return the differences between two files, with the order of attributes that users see."""
    found: list[Any] = []
    for path in (ours, theirs):
        described = structure(path)
        for one in described.values():
            if "CLASS" not in one["attributes"]:
                # netCDF-C gives variables the number of their first dimension if coordinate variables are
                # in another order than dimensions. Readers only want the numbers of dimensions.
                one["attributes"].pop("_Netcdf4Dimid", None)
            names = [name for name in one["attributes"] if name not in INNER]
            inner = sorted(name for name in one["attributes"] if name in INNER)
            one["attributes"] = {name: one["attributes"][name] for name in [*inner, *names]}
        # netCDF-C writes dimensions without variables first, and other objects in their order.
        alone = [path for path in described if _is_dimension_only(described[path])]
        found.append(
            {path: described[path] for path in [*sorted(alone), *sorted(set(described) - set(alone))]}
        )
    return differences(found[0], found[1], allowed=ALLOWED)


def _is_dimension_only(one: dict[str, Any]) -> bool:
    return b"This is a netCDF dimension" in bytes(str(one["attributes"].get("NAME")), "utf-8")


def test_a_file_is_as_netcdf_c_writes_it(tmp_path: Path) -> None:
    values = np.arange(12.0, dtype="f4").reshape(2, 2, 3)
    with netCDF4.Dataset(tmp_path / "theirs.nc", "w") as file:
        file.title, file.number, file.numbers = "an ocean", np.int32(5), np.array([1.0, 2.0])
        file.place, file.nothing, file.words = "Göteborg", "", ["a", "b"]
        file.createDimension("time", None)
        for name, size in [("x", 3), ("y", 2), ("free", 4), ("more", None)]:
            file.createDimension(name, size)
        t = file.createVariable("t", "f4", ("time", "y", "x"))
        t.units = "K"
        t[:] = values
        file.createVariable("x", "f8", ("x",))[:] = [1, 2, 3]
        file.createVariable("time", "i4", ("time",))[:] = [5, 6]
        file.createVariable("w", "i2", ("x", "x"), fill_value=-1, zlib=True)[:] = np.eye(3)
        file.createVariable("s", str, ("x",))[:] = np.array(["a", "b", "é"], object)
        file.createVariable("c", "S1", ("x",))[:] = np.array([b"a", b"b", b"c"])
        file.createVariable("scalar", "i8", ())[:] = 7
        file.createVariable("y", "f4", ("y", "x"))[:] = np.ones((2, 3))
        file.createVariable("along", "i1", ("more",))
        file.createVariable("free", "i2", ("x",))[:] = [1, 2, 3]
        group = file.createGroup("deep")
        group.createDimension("z", 2)
        group.createVariable("v", "u1", ("z", "x"), fill_value=False)[:] = np.ones((2, 3))
    with hs.File(tmp_path / "ours.nc", "w", netcdf=True) as made:
        made.attrs.update(title="an ocean", number=np.int32(5), numbers=np.array([1.0, 2.0]))
        made.attrs.update(place="Göteborg", nothing="", words=["a", "b"])
        for name, size in [("time", None), ("x", 3), ("y", 2), ("free", 4), ("more", None)]:
            made.create_dimension(name, size)
        warm = made.create_variable("t", ("time", "y", "x"), "f4", values)
        warm.attrs["units"] = "K"
        made.create_variable("x", "x", "f8", [1, 2, 3])
        made.create_variable("time", ("time",), "i4", [5, 6])
        made.create_variable("w", ("x", "x"), "i2", np.eye(3), fillvalue=-1, compression=4, shuffle=True)
        made.create_variable("s", ("x",), str, ["a", "b", "é"])
        made.create_variable("c", ("x",), "S1", np.array([b"a", b"b", b"c"]))
        made.create_variable("scalar", (), "i8", 7)
        made.create_variable("y", ("y", "x"), "f4", np.ones((2, 3)))
        made.create_variable("along", ("more",), "i1")
        made.create_variable("free", ("x",), "i2", [1, 2, 3])
        deep = made.create_group("deep")
        deep.create_dimension("z", 2)
        deep.create_variable("v", ("z", "x"), "u1", np.ones((2, 3)), fillvalue=False)
    assert compared(tmp_path / "ours.nc", tmp_path / "theirs.nc") == []
    with xr.open_dataset(tmp_path / "ours.nc") as ours, xr.open_dataset(tmp_path / "theirs.nc") as theirs:
        xr.testing.assert_identical(ours.load(), theirs.load())


TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1", str]


@st.composite
def files(draw: Any) -> dict[str, Any]:
    """Return a random description of a file: dimensions, variables and attributes of groups."""
    groups: dict[str, Any] = {}
    for path in ["", "a", "a/b"][: draw(st.integers(1, 3))]:
        dimensions: dict[str, int | None] = {
            name: draw(st.one_of(st.none(), st.integers(1, 5)))
            for name in draw(st.lists(st.sampled_from("tuvxyz"), unique=True, max_size=4))
        }
        groups[path] = {"dimensions": dimensions, "variables": {}}
        known: dict[str, int | None] = {}
        for above in groups:
            known |= groups[above]["dimensions"]
        for name in draw(st.lists(st.sampled_from("tuvxyzpqr"), unique=True, max_size=4)):
            along = draw(st.lists(st.sampled_from(sorted(known)), max_size=3)) if known else []
            if name in dimensions and name in along:
                # A dimension in a later place makes netCDF-C's coordinates, too.
                along = [name, *(one for one in along if one != name)]
            kind = draw(st.sampled_from(TYPES))
            groups[path]["variables"][name] = {
                "along": along,
                "shape": [known[one] or 3 for one in along],
                "type": kind,
                "filled": draw(st.booleans()) if kind not in ("S1", str) else False,
                "packed": draw(st.booleans()) if along and kind is not str else False,
                "attributes": draw(
                    st.dictionaries(
                        st.sampled_from(["units", "valid_min", "words", "Größe"]),
                        st.one_of(
                            st.text("abcé ", max_size=5),
                            st.integers(-100, 100),
                            st.floats(allow_nan=False),
                            st.lists(st.integers(0, 9), min_size=1, max_size=3),
                        ),
                        max_size=3,
                    )
                ),
                "seed": draw(st.integers(0, 1000)),
                "written": draw(st.booleans()),
            }
    return groups


def values(described: dict[str, Any]) -> Any:
    rng, kind, shape = np.random.default_rng(described["seed"]), described["type"], described["shape"]
    numbers = rng.integers(65, 91, shape or None, dtype="u1")
    if kind is str:
        return np.array(np.vectorize(chr)(numbers), object)
    if kind == "S1":
        return np.asarray(numbers).view("S1").reshape(shape)
    return np.asarray(numbers).astype(kind)


def write_theirs(path: Path, groups: dict[str, Any]) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for place, group in groups.items():
            at = file.createGroup(place) if place else file
            for name, size in group["dimensions"].items():
                at.createDimension(name, size)
            for name, one in group["variables"].items():
                fill = 77 if one["filled"] else None
                made = at.createVariable(name, one["type"], one["along"], fill_value=fill, zlib=one["packed"])
                made.setncatts(one["attributes"])
                if one["written"]:
                    made[...] = values(one)


def write_ours(path: Path, groups: dict[str, Any]) -> None:
    with hs.File(path, "w", netcdf=True) as file:
        for place, group in groups.items():
            at = file.create_group(place) if place else file
            for name, size in group["dimensions"].items():
                at.create_dimension(name, size)
            for name, one in group["variables"].items():
                fill = 77 if one["filled"] else None
                filters = {"compression": 4, "shuffle": True} if one["packed"] else {}
                data = values(one) if one["written"] else None
                made = at.create_variable(name, one["along"], one["type"], data, fillvalue=fill, **filters)
                made.attrs.update(one["attributes"])


@settings(max_examples=examples(30))
@given(files())
def test_any_file_is_as_netcdf_c_writes_it(tmp_path_factory: Any, groups: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("files")
    write_theirs(folder / "theirs.nc", groups)
    write_ours(folder / "ours.nc", groups)
    read = [contents(folder / name) for name in ("ours.nc", "theirs.nc")]
    assert read[0] == read[1]


def contents(path: Path) -> Any:
    """Return what netCDF4-python reads of a file."""

    def one(group: Any) -> Any:
        group.set_auto_maskandscale(False)
        dimensions = {name: (len(dim), dim.isunlimited()) for name, dim in group.dimensions.items()}
        variables = {
            name: (
                variable.dimensions,
                str(variable.dtype),
                {key: plain(variable.getncattr(key)) for key in variable.ncattrs()},
                # Along unlimited dimensions, netCDF-C's choice depends on their lengths at that moment.
                None if any(one.isunlimited() for one in variable.get_dims()) else variable.chunking(),
                variable.filters(),
                plain(variable[...]),
            )
            for name, variable in group.variables.items()
        }
        attributes = {key: plain(group.getncattr(key)) for key in group.ncattrs() if key != "_NCProperties"}
        return (
            list(dimensions),
            dimensions,
            list(variables),
            variables,
            attributes,
            {name: one(below) for name, below in group.groups.items()},
        )

    with netCDF4.Dataset(path) as file:
        return one(file)


def plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return str(value.dtype), np.asarray(value).tolist()
    return value


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file with an unlimited dimension, coordinates, and a dimension without them."""
    path = tmp_path / "written.nc"
    with hs.File(path, "w", netcdf=True) as file:
        file.create_dimension("time")
        file.create_dimension("x", 3)
        file.create_dimension("y", 2)
        file.create_variable("time", "time", "f8", [0, 1])
        file.create_variable("t", ("time", "y", "x"), "f4", np.arange(12).reshape(2, 2, 3))
        file.create_variable("v", ("y", "x"), "i2", np.ones((2, 3)), fillvalue=-9)
        file["t"].attrs["units"] = "K"
    return path


def test_netcdf_c_changes_our_files(written: Path) -> None:
    with netCDF4.Dataset(written, "a") as file:
        file.createDimension("z", 4)
        file.createVariable("z", "f4", ("z",))[:] = [1, 2, 3, 4]
        file.createVariable("w", "f4", ("time", "z"))[:] = np.ones((2, 4))
        # The coordinates of a dimension that was there.
        file.createVariable("x", "i4", ("x",))[:] = [7, 8, 9]
        file.variables["time"][2:4] = [2, 3]
        file.variables["t"][2:4] = 5
        file.variables["t"].long_name = "temperature"
        file.title = "changed"
        file.renameVariable("v", "v2")
    with xr.open_dataset(written, engine="netcdf4") as found, hs.File(written, "r") as file:
        assert dict(found.sizes) == {"time": 4, "y": 2, "x": 3, "z": 4}
        assert found.x.values.tolist() == [7, 8, 9]
        assert found.t.attrs == {"units": "K", "long_name": "temperature"}
        assert found.t.values[:2].tolist() == np.arange(12.0).reshape(2, 2, 3).tolist()
        assert (found.t.values[2:] == 5).all() and (found.w.values[:2] == 1).all()
        assert found.attrs == {"title": "changed"}
        assert "v2" in found and file["v2"][:].tolist() == [[1, 1, 1], [1, 1, 1]]
        assert list(file.dimensions) == ["time", "x", "y", "z"]


def test_we_change_files_of_netcdf_c(tmp_path: Path) -> None:
    path = tmp_path / "theirs.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("t", "f4", ("time", "x"))[:] = np.ones((2, 3))
    with hs.File(path, "r+", netcdf=True) as file:
        assert [(d.name, d.size, d.isunlimited()) for d in file.dimensions.values()] == [
            ("time", 2, True),
            ("x", 3, False),
        ]
        file.create_variable("x", "x", "i4", [1, 2, 3]).attrs["units"] = "m"
        file.create_variable("time", "time", "f8", [0, 1])
        file.create_dimension("z", 2)
        file.create_variable("w", ("z", "x"), "f8", np.zeros((2, 3)))
        file.resize_dimension("time", 4)
        file["t"][2:] = 7
        file["time"][2:] = [2, 3]
    with netCDF4.Dataset(path, "a") as file:
        assert {name: len(dim) for name, dim in file.dimensions.items()} == {"time": 4, "x": 3, "z": 2}
        assert file["t"][:].tolist() == [[1, 1, 1], [1, 1, 1], [7, 7, 7], [7, 7, 7]]
        assert file["time"][:].tolist() == [0, 1, 2, 3] and file["x"].units == "m"
        assert file["t"].dimensions == ("time", "x") and file["x"][:].tolist() == [1, 2, 3]
        file["t"][4] = 8
    with xr.open_dataset(path, engine="h5netcdf") as found:
        assert found.sizes["time"] == 5 and found.t.values[4].tolist() == [8, 8, 8]


def test_xarray_reads_the_same_with_both_engines(written: Path) -> None:
    with (
        xr.open_dataset(written, engine="netcdf4") as one,
        xr.open_dataset(written, engine="h5netcdf") as two,
    ):
        xr.testing.assert_identical(one.load(), two.load())


def test_tools_of_netcdf_read_our_files(written: Path, tmp_path: Path) -> None:
    header = subprocess.run(
        [tool("ncdump"), "-h", written], capture_output=True, text=True, check=True
    ).stdout
    assert "time = UNLIMITED ; // (2 currently)" in header
    assert "float t(time, y, x) ;" in header and 't:units = "K" ;' in header
    assert "short v(y, x) ;" in header and "v:_FillValue = -9s ;" in header
    copied = tmp_path / "copied.nc"
    subprocess.run([tool("nccopy"), "-k", "nc4", written, copied], check=True)
    assert contents(copied)[:5] == contents(written)[:5]


def test_nco_and_cdo_read_our_files(written: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.nc"
    subprocess.run([tool("ncrcat"), "-O", written, written, twice], check=True, capture_output=True)
    with netCDF4.Dataset(twice) as file:
        assert file["t"].shape == (4, 2, 3)
        assert file["t"][2:].tolist() == np.arange(12.0).reshape(2, 2, 3).tolist()
    shown = subprocess.run(
        [tool("cdo"), "-s", "showname", written], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["t", "v"]


def test_nco_changes_our_files(written: Path, tmp_path: Path) -> None:
    """NCO has netCDF-C 4.9 of Debian 12. It adds an attribute, a variable, and a dimension."""
    other = tmp_path / "other.nc"
    with netCDF4.Dataset(other, "w") as file:
        file.createDimension("z", 2)
        file.createVariable("w", "f8", ("z",))[:] = [1, 2]
    run = partial(subprocess.run, check=True, capture_output=True)
    run([tool("ncatted"), "-h", "-a", "title,global,o,c,changed", written])
    run([tool("ncks"), "-h", "-A", other, written])
    with netCDF4.Dataset(written) as file, hs.File(written) as ours:
        assert file.title == "changed" and ours.attrs["title"] == b"changed"
        assert file["w"][:].tolist() == ours["w"][:].tolist() == [1, 2]
        assert file["t"][:].tolist() == np.arange(12.0).reshape(2, 2, 3).tolist()
        assert [*ours.dimensions] == ["time", "x", "y", "z"]


def test_user_types_are_committed(tmp_path: Path) -> None:
    path = tmp_path / "types.nc"
    flags = h5py.enum_dtype({"no": 0, "yes": 1}, "u1")
    pair = np.dtype([("a", "i4"), ("b", "f8")], align=True)
    rows = h5py.vlen_dtype("i4")
    with hs.File(path, "w", netcdf=True) as file:
        file.create_dimension("x", 2)
        with pytest.raises(hs.errors.DataTypeError, match="commit it first"):
            file.create_variable("e", "x", flags)
        file["flags"], file["pair"], file["rows"] = flags, pair, rows
        file.create_variable("e", "x", flags, [0, 1])
        file.create_variable("p", "x", pair, np.array([(1, 2.5), (3, 4.5)], pair))
        value = np.empty(2, object)
        value[:] = [np.array([1, 2], "i4"), np.array([3], "i4")]
        file.create_variable("r", "x", rows, value)
    with netCDF4.Dataset(path) as file:
        assert set(file.enumtypes) == {"flags"} and set(file.cmptypes) == {"pair"}
        assert set(file.vltypes) == {"rows"}
        assert file["e"][:].tolist() == [0, 1]
        assert file["p"][:].tolist() == [(1, 2.5), (3, 4.5)]
        assert [row.tolist() for row in file["r"][:]] == [[1, 2], [3]]
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("more", "f4", ("x",))[:] = [1, 2]


def test_what_netcdf_cannot_say_is_refused(tmp_path: Path) -> None:
    with hs.File(tmp_path / "refused.nc", "w", netcdf=True) as file:
        file.create_dimension("x", 3)
        with pytest.raises(ValueError, match="there is a dimension of this name"):
            file.create_dimension("x", 4)
        with pytest.raises(ValueError, match="no dimension 'y'"):
            file.create_variable("v", "y", "f4")
        with pytest.raises(ValueError, match="dimension 'x' has 3 elements, and the data have 4"):
            file.create_variable("v", "x", "f4", [1, 2, 3, 4])
        with pytest.raises(ValueError, match="is not unlimited"):
            file.resize_dimension("x", 4)
        for dtype in ["?", "f2", "c8", "S5"]:
            with pytest.raises(hs.errors.DataTypeError, match="NetCDF"):
                file.create_variable("v", "x", dtype)
        file.create_variable("v", "x", "f4")
        with pytest.raises(ValueError, match="object of this name"):
            file.create_variable("v", "x", "f4")
        with pytest.raises(hs.errors.DataTypeError, match="Boolean"):
            file["v"].attrs["flag"] = True
        assert list(file) == ["x", "v"]
    with hs.File(tmp_path / "plain.h5", "w") as file:
        file["a"] = [1]
        with pytest.raises(ValueError, match="netcdf=True"):
            file.create_dimension("x", 3)
    with pytest.raises(ValueError, match="file_format='netcdf4'"):
        hs.File(tmp_path / "plain.h5", "r+", netcdf=True)


def test_thousands_of_variables_along_one_dimension(tmp_path: Path) -> None:
    path = tmp_path / "many.nc"
    with hs.File(path, "w", netcdf=True) as file:
        file.create_dimension("x", 2)
        for number in range(5000):
            file.create_variable(f"v{number}", "x", "f4")
        file.create_variable("x", "x", "i4", [1, 2])
    with h5py.File(path) as file:
        users = file["x"].attrs["REFERENCE_LIST"]
        assert len(users) == 5000 and file[users[4999][0]].name == "/v4999"
        assert file[file["v77"].attrs["DIMENSION_LIST"][0][0]].name == "/x"


def test_assignments_behind_the_end_grow_a_variable(written: Path) -> None:
    with hs.File(written, "r+", netcdf=True) as file:
        file["t"][2] = 7
        file["t"][3:5] = np.full((2, 2, 3), 8)
        file["t"][5:] = np.full((1, 2, 3), 9)
        assert file.dimensions["time"].size == 6 and file["time"].shape == (6,)
        with pytest.raises(Exception, match="out of"):
            file["v"][2] = 1
        # What is refused changes no length, and leaves no group.
        with pytest.raises((TypeError, ValueError)):
            file["t"][9] = np.zeros((5, 7))
        with pytest.raises(ValueError, match="no dimension 'nowhere'"):
            file.create_variable("new/group/w", ("nowhere",), "f4")
        with pytest.raises((TypeError, ValueError)):
            file.create_variable("new/w", ("time",), "f4", fillvalue="text")
        assert file["t"].shape == (6, 2, 3) and file.dimensions["time"].size == 6
        assert "new" not in file
    with netCDF4.Dataset(written) as file:
        assert file["t"][:, 0, 0].tolist() == [0, 6, 7, 8, 8, 9]
        assert file["time"][:].tolist() == [0, 1, None, None, None, None]


def test_several_unlimited_dimensions(tmp_path: Path) -> None:
    """netCDF-C reads other bytes where a variable is shorter than one of two unlimited dimensions."""
    path = tmp_path / "a.nc"
    empty, part = np.full((3, 3), -127, "i1"), np.full((3, 3), -127, "i1")
    part[:2, 1] = 5
    with hs.File(path, "w", netcdf=True) as file:
        file.create_dimension("u")
        file.create_dimension("y")
        file.create_variable("u", ("u",), "i1", [1, 2, 3])
        file.create_variable("early", ("u", "y"), "i1")
        file.create_variable("first", ("u", "y"), "i1")[:2, 1] = 5
        assert file["early"].shape == (0, 0) and file["first"].shape == (3, 2)
        file.resize_dimension("y", 3)
        file.create_variable("late", ("u", "y"), "i1")
        file.create_variable("given", ("y", "u"), "i1", part[:2, :2].T)
        expected = {"early": empty, "first": part, "late": empty, "given": part.T}
        assert {file[name].shape for name in expected} == {(3, 3)}
        for name, values in expected.items():
            np.testing.assert_array_equal(file[name][...], values)
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        for name, values in expected.items():
            np.testing.assert_array_equal(file[name][...], values)
    with xr.open_dataset(path, engine="h5netcdf", mask_and_scale=False) as found:
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name].values, values)


WRITER = """
import sys
import hyperslab as hs
path, mine = sys.argv[1:]
with hs.File(path, "r+", netcdf=True) as file:
    for number in range(12):
        file.create_variable(f"{mine}{number}", ("time", "x"), "f4", [[number] * 3])
        if number % 5 == 0:
            file.create_dimension(f"d{mine}{number}", 2)
"""


def test_processes_add_variables_along_one_dimension(written: Path) -> None:
    jobs = [subprocess.Popen([sys.executable, "-c", WRITER, str(written), mine]) for mine in "ab"]
    assert [job.wait(120) for job in jobs] == [0, 0]
    with h5py.File(written) as file:
        users = {(file[row[0]].name, int(row[1])) for row in file["x"].attrs["REFERENCE_LIST"]}
        assert users == {("/t", 2), ("/v", 1)} | {(f"/{one}{n}", 1) for one in "ab" for n in range(12)}
        ids = [file[name].attrs["_Netcdf4Dimid"] for name in file if "_Netcdf4Dimid" in file[name].attrs]
        assert len(set(ids)) == len(ids) == 9
    with netCDF4.Dataset(written, "a") as file:
        assert file["a3"][:].tolist() == [[3, 3, 3], [None] * 3] and len(file.dimensions) == 9


def zarr_dataset() -> xr.Dataset:
    return xr.Dataset(
        {
            "t": (("time", "x"), np.arange(6.0).reshape(2, 3), {"units": "K", "flag": 3}),
            "b": ("x", np.array([True, False, True])),
            "name": ("x", np.array(["a", "bé", ""], object)),
        },
        {"x": [1, 2, 3], "time": np.array(["2020-01-01", "2020-01-02"], "M8[ns]")},
        attrs={"title": "é"},
    )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_copies_of_zarr(tmp_path: Path, zarr_format: int) -> None:
    made = zarr_dataset()
    made.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=False)
    hs.copy(tmp_path / "a.zarr", tmp_path / "a.nc", compressors="gzip", verify=True)
    for engine in ("netcdf4", "h5netcdf", "hyperslab"):
        with xr.open_dataset(tmp_path / "a.nc", engine=engine) as found:
            xr.testing.assert_identical(found.load(), made)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file.createVariable("more", "f4", ("time",))[:] = 1
    # Back to Zarr: the same again.
    hs.copy(tmp_path / "a.nc", tmp_path / "b.zarr")
    with xr.open_zarr(tmp_path / "b.zarr", consolidated=False) as found:
        xr.testing.assert_identical(found.drop_vars("more").load(), made)


def test_copies_of_netcdf_4(tmp_path: Path, written: Path) -> None:
    copied = tmp_path / "copied.nc"
    hs.copy(written, copied, verify=True)
    assert compared(copied, written) == []
    hs.copy(written, copied, region={"time": slice(1, 2), "x": slice(0, 2)}, overwrite=True, verify=True)
    with netCDF4.Dataset(copied, "a") as file:
        assert {name: (len(one), one.isunlimited()) for name, one in file.dimensions.items()} == {
            "time": (1, True),
            "x": (2, False),
            "y": (2, False),
        }
        assert file["t"][:].tolist() == np.arange(12.0).reshape(2, 2, 3)[1:2, :, :2].tolist()
        file["t"][1] = 5
    hs.copy(written, copied, chunks=[2, 1, 3], compressors="zlib:1", overwrite=True, verify=True)
    with netCDF4.Dataset(copied) as file:
        assert file["t"].chunking() == [2, 1, 3] and file.dimensions["time"].isunlimited()
    one = tmp_path / "one.nc"
    hs.copy(hs.open(written)["t"], one, verify=True)
    assert {name: size for name, (size, _) in contents(one)[1].items()} == {"time": 2, "y": 2, "x": 3}
    assert contents(one)[1]["time"] == (2, True)


def test_copies_of_classic_files(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.cdf", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createDimension("unused", 5)
        file.title, file.number = "an ocean", np.array([1, 2], "i2")
        t = file.createVariable("t", "i2", ("time", "x"), fill_value=-9)
        t.valid_range = np.array([0, 9], "i2")
        t[:] = np.arange(6).reshape(2, 3)
        file.createVariable("time", "f8", ("time",))[:] = [0, 1]
    hs.copy(tmp_path / "a.cdf", tmp_path / "a.nc", verify=True)
    ours, theirs = contents(tmp_path / "a.nc"), contents(tmp_path / "a.cdf")
    assert ours[1] == theirs[1] and ours[0] == theirs[0] and ours[4] == theirs[4]
    for name in ("t", "time"):
        assert (ours[3][name][0], ours[3][name][5][1]) == (theirs[3][name][0], theirs[3][name][5][1])
        assert ours[3][name][2] == theirs[3][name][2]
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file["t"][2] = 1
        assert file.dimensions["time"].isunlimited()


def test_copies_of_plain_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.zeros((2, 3))
        file.create_dataset("u", data=np.ones(3), maxshape=(None,))
        file["k/c"] = np.ones((3, 3))
        file["flags"] = np.array([True, False])
        file["pairs"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
    report = hs.copy(tmp_path / "a.h5", tmp_path / "a.nc", verify=True)
    assert report.notes == ("types of elements got a name, which NetCDF wants: /flags_t, /pairs_t",)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        assert len(file.dimensions) == 3 and len(file["k"].dimensions) == 2
        assert file["u"].get_dims()[0].isunlimited() and not file["a"].get_dims()[1].isunlimited()
        assert file["a"].dimensions[1] == file["pairs"].dimensions[0]
        assert set(file.enumtypes) == {"flags_t"} and set(file.cmptypes) == {"pairs_t"}
        file["u"][3] = 4
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["half"], file["a"] = np.zeros(2, "f2"), np.zeros(2)
    with pytest.raises(hs.HyperslabError, match="NetCDF has no elements"):
        hs.copy(tmp_path / "b.h5", tmp_path / "b.nc")
    report = hs.copy(tmp_path / "b.h5", tmp_path / "b.nc", skip_unsupported=True)
    assert [path for path, _ in report.skipped] == ["/half"]


def test_one_name_with_two_lengths_is_refused(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a.zarr")
    group.create_array("a", data=np.zeros(2), dimension_names=["x"])
    group.create_array("b", data=np.zeros(3), dimension_names=["x"])
    with pytest.raises(hs.HyperslabError, match='dimension "x" has 3 elements, and 2 in another array'):
        hs.copy(tmp_path / "a.zarr", tmp_path / "a.nc")
    assert not (tmp_path / "a.nc").exists()


def test_formats_are_chosen_by_name_or_by_word(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a.zarr")
    group.create_array("a", data=np.zeros(2), dimension_names=["x"])
    for name, format_, is_netcdf in [
        ("a.nc", None, True),
        ("a.NC4", None, True),
        ("a.h5", None, False),
        ("b", "netcdf4", True),
        ("c", "NETCDF4", True),
        ("d.nc", "hdf5", False),
    ]:
        hs.copy(group, tmp_path / name, file_format=format_)
        with h5py.File(tmp_path / name) as file:
            assert ("_NCProperties" in file.attrs) == is_netcdf, name
    with pytest.raises(ValueError, match="expected hdf5, netcdf4"):
        hs.copy(group, tmp_path / "e", file_format="netcdf5")
    with pytest.raises(ValueError, match="is one file"):
        hs.copy(group, hs.MemoryStore(), file_format="netcdf4")


def test_the_command_copies(tmp_path: Path) -> None:
    zarr_dataset().to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    for name, more in [("a.nc", []), ("b", ["--format", "netcdf4"])]:
        command = [sys.executable, "-m", "hyperslab", "copy", "a.zarr", name, "--codec", "gzip", *more]
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
        with xr.open_dataset(tmp_path / name, engine="netcdf4") as found:
            xr.testing.assert_identical(found.load(), zarr_dataset())
    command = [sys.executable, "-m", "hyperslab", "copy", "a.zarr", "c", "--format", "netcdf4", "--resume"]
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert failed.returncode == 2 and "one file is not copied in tasks" in failed.stderr


@pytest.mark.parametrize("fillvalue", [None, -9, False])
def test_masked_elements_are_fill_values(tmp_path: Path, fillvalue: Any) -> None:
    data = np.ma.masked_equal(np.array([1, 2, 3], "i2"), 2)
    with hs.File(tmp_path / "a.nc", "w", netcdf=True) as file:
        file.create_dimension("x", 3)
        file.create_variable("a", "x", "i2", data, fillvalue=fillvalue)
        file.create_variable("b", "x", "i2", fillvalue=fillvalue)[:] = data
        assert file["a"][:].tolist() == [1, -9 if fillvalue else -32767, 3]
    with netCDF4.Dataset(tmp_path / "a.nc") as read:
        assert read["a"][:].tolist() == [1, None, 3]
        assert read["b"][:].tolist() == [1, None, 3]


@pytest.mark.parametrize("more", [{"compression": "gzip", "shuffle": True}, {}])
def test_chunks_longer_than_their_axis(tmp_path: Path, more: dict[str, Any]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(10), maxshape=(100,), chunks=(50,), **more)
        file.create_dataset("b", data=np.arange(20).reshape(10, 2), maxshape=(None, 8), chunks=(4, 7), **more)
    hs.copy(tmp_path / "a.h5", tmp_path / "a.nc", verify=True)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        assert file["a"][:].tolist() == [*range(10)] and file["a"].chunking() == [10]
        assert file["b"][:].tolist() == np.arange(20).reshape(10, 2).tolist()
        assert file["b"].get_dims()[0].isunlimited()
        file["b"][10] = 7
