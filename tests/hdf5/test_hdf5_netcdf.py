"""NetCDF files written by netCDF4-python, and read side by side with it."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from hdf5_same import same_values
from support import examples

CLASSIC = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
CLASSIC_TYPES = ["i1", "S1", "i2", "i4", "f4", "f8"]
TYPES = {
    "NETCDF3_CLASSIC": CLASSIC_TYPES,
    "NETCDF3_64BIT_OFFSET": CLASSIC_TYPES,
    "NETCDF3_64BIT_DATA": [*CLASSIC_TYPES, "u1", "u2", "u4", "i8", "u8"],
    "NETCDF4_CLASSIC": CLASSIC_TYPES,
    "NETCDF4": [*CLASSIC_TYPES, "u1", "u2", "u4", "i8", "u8", ">f4", ">i2"],
}


def values(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=int))
    # Letters are valid text in every type, and never NaN.
    return rng.integers(65, 91, count * dtype.itemsize, dtype="u1").view(dtype).reshape(shape)


def write(path: Path, kind: str, seed: int) -> None:
    """Writes a file of random dimensions and variables. Some are partly or fully unwritten."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        groups = [file]
        if kind == "NETCDF4":
            groups += [file.createGroup("a"), file.createGroup("a/b"), file.createGroup("empty")]
        free = ["t"] if kind != "NETCDF4" else ["t", "u"]
        for name in free:
            file.createDimension(name, None)
        names = [*free, "x", "y", "z"]
        for name in names[len(free) :]:
            file.createDimension(name, chance.randint(1, 6))
        if kind == "NETCDF4":
            groups[1].createDimension("x", 7)
            groups[2].createDimension("inner", 3)
        file.title = "été"
        file.numbers = np.array([1, 2, 3], "i2")
        file.one = 2.5
        records = chance.randint(0, 4)
        for number in range(chance.randint(1, 7)):
            group = chance.choice(groups[:3])
            dtype = chance.choice(TYPES[kind])
            known = [*names, "inner"] if group.path == "/a/b" else names
            dims = tuple(chance.sample(known, chance.randint(0, 3)))
            if kind != "NETCDF4":
                dims = tuple(sorted(dims, key=lambda name: name != "t"))
                if chance.random() < 0.2:
                    dims = (*dims, "y", "y")
            # Sometimes a coordinate variable.
            name = f"v{number}"
            if (
                chance.random() < 0.3
                and dims
                and dims[0] not in group.variables
                and dims[0] in group.dimensions
            ):
                name, dims = dims[0], dims[: chance.randint(1, len(dims))]
            more: dict[str, Any] = {}
            if kind.startswith("NETCDF4") and dims:
                more = chance.choice(
                    [{}, {"zlib": True}, {"fletcher32": True}, {"zlib": True, "shuffle": False}]
                )
            fill = chance.choice([None, None, False, values(rng, np.dtype(dtype), (1,))[0]])
            if dtype.startswith(">"):
                more = {**more, "endian": "big"}
            variable = group.createVariable(name, dtype, dims, fill_value=fill, **more)
            variable.set_auto_maskandscale(False)
            variable.set_auto_chartostring(False)
            variable.units = "K"
            shape = tuple(records if dim.isunlimited() else dim.size for dim in variable.get_dims())
            # Without a fill value, unwritten elements are arbitrary, so all are written.
            if (fill is False or chance.random() < 0.8) and 0 not in shape:
                variable[tuple(slice(0, n) for n in shape)] = values(rng, np.dtype(dtype), shape)


def groups_of(file: netCDF4.Dataset) -> list[netCDF4.Dataset]:
    found = [file]
    for group in found:
        found += group.groups.values()
    return found


def same_attributes(ours: Any, theirs: Any, skip: tuple[str, ...] = ()) -> None:
    expected = {}
    for name in theirs.ncattrs():
        # netCDF4-python cannot read attributes of user-defined types.
        with contextlib.suppress(KeyError):
            expected[name] = theirs.getncattr(name)
    for name in skip:
        expected.pop(name, None)
    assert {*expected} <= {*ours.attrs}, (sorted(expected), sorted(ours.attrs))
    for name, value in expected.items():
        found = ours.attrs[name]
        if isinstance(found, hs.Empty):
            found = ""
        if isinstance(found, bytes):
            found = found.decode(errors="replace")
        assert np.array_equal(np.squeeze(np.asarray(found)), np.asarray(value)), (name, found, value)


def same_variable(ours: hs.Array, theirs: netCDF4.Variable) -> None:
    assert tuple(ours.dimension_names or ()) == theirs.dimensions
    theirs.set_auto_maskandscale(False)
    theirs.set_auto_chartostring(False)
    expected = theirs[...]
    found = ours[...]
    # A variable may be shorter than its unlimited dimension. netCDF fills the rest.
    if found.shape != expected.shape:
        assert ours.shape == tuple(map(min, ours.shape, theirs.shape))
        expected = expected[tuple(slice(0, n) for n in ours.shape)]
    if theirs.dtype is str:
        assert [text.decode() if isinstance(text, bytes) else text for text in found.reshape(-1)] == [
            *expected.reshape(-1)
        ]
        return
    np.testing.assert_array_equal(found, expected)
    if isinstance(expected, np.ndarray) and not ours.dtype.names:
        assert ours.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
    unlimited = [theirs.get_dims()[i].isunlimited() for i in range(theirs.ndim)]
    # Unlimited dimensions, and only those, have no maximum.
    assert [most is None for most in ours.maxshape] == unlimited
    same_attributes(ours, theirs, ("_FillValue",))
    if "_FillValue" in theirs.ncattrs():
        fill = np.asarray(theirs.getncattr("_FillValue"))
        same_values(np.asarray(ours.fillvalue).astype(fill.dtype), fill.reshape(()), "fill value")


def same_file(path: Path) -> int:
    count = 0
    with netCDF4.Dataset(path) as theirs:
        ours = hs.open(path, mode="r")
        for their in groups_of(theirs):
            our = ours[their.path] if their.path != "/" else ours
            same_attributes(our, their)
            assert set(their.variables) <= {name.removeprefix("_nc4_non_coord_") for name in our}
            for name, variable in their.variables.items():
                same_variable(
                    our[f"_nc4_non_coord_{name}" if f"_nc4_non_coord_{name}" in our else name], variable
                )
                count += 1
    return count


@pytest.mark.parametrize("kind", TYPES)
def test_what_netcdf_writes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f.nc"
    count = 0
    for seed in range(examples(60)):
        write(path, kind, seed)
        try:
            count += same_file(path)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert count > 60


@pytest.mark.parametrize("kind", CLASSIC)
def test_padding_of_records(tmp_path: Path, kind: str) -> None:
    """A single record variable is not padded to four bytes. Several are."""
    path = tmp_path / "f.nc"
    for names in (["a"], ["a", "b"]):
        with netCDF4.Dataset(path, "w", format=kind) as file:
            file.createDimension("t", None)
            file.createDimension("x", 3)
            for name in names:
                variable = file.createVariable(name, "i1", ("t", "x"))
                variable[:5] = np.arange(15).reshape(5, 3) + len(name)
        assert same_file(path) == len(names)


def test_streamed_records(tmp_path: Path) -> None:
    """The number of records may be "streaming": the file size determines it."""
    path = tmp_path / "f.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createVariable("v", "i4", ("t",))[:7] = np.arange(7)
    data = bytearray(path.read_bytes())
    data[4:8] = b"\xff" * 4
    path.write_bytes(data)
    assert hs.open(path, mode="r")["v"][...].tolist() == list(range(7))


def test_user_types(tmp_path: Path) -> None:
    path = tmp_path / "f.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        colour = file.createEnumType("u1", "colour_t", {"red": 0, "blue": 7})
        file.createVariable("enum", colour, ("x",), fill_value=7)[:] = [0, 7, 0]
        pair = file.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "pair_t")
        file.createVariable("pair", pair, ("x",))[:] = np.array([(1, 2.5), (3, 4.5), (5, 6.5)], pair.dtype)
        ragged = file.createVLType("i2", "ragged_t")
        rows = np.empty(3, object)
        rows[:] = [np.arange(n, dtype="i2") for n in (2, 1, 4)]
        file.createVariable("ragged", ragged, ("x",))[:] = rows
        file.createVariable("text", str, ("x",))[:] = np.array(["a", "", "été"], object)
        file.createVariable("scalar", str, ())[...] = "alone"
    group = hs.open(path, mode="r")
    assert group["enum"][...].tolist() == [0, 7, 0]
    assert h5py.check_enum_dtype(group["enum"].dtype) == {"red": 0, "blue": 7}
    assert group["enum"].fillvalue == 7
    assert group["pair"][...].tolist() == [(1, 2.5), (3, 4.5), (5, 6.5)]
    assert [row.tolist() for row in group["ragged"][...]] == [[0, 1], [0], [0, 1, 2, 3]]
    assert [as_text(text) for text in group["text"][...]] == ["a", "", "été"]
    assert as_text(group["scalar"][()]) == "alone"
    for name in ("enum", "pair", "ragged", "text"):
        assert tuple(group[name].dimension_names) == ("x",)


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def test_a_variable_with_the_name_of_a_dimension_of_another_rank(tmp_path: Path) -> None:
    """netCDF renames the variable's dataset, because a dimension of another rank has the name."""
    path = tmp_path / "f.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        file.createDimension("y", 2)
        file.createVariable("x", "i4", ("y",))[:] = [5, 6]
        file.createVariable("y", "i4", ("y", "x"))[:] = np.arange(6).reshape(2, 3)
        file.createVariable("z", "i4", ("x", "y"))[:] = 1
    assert same_file(path) == 3


def test_dimensions_are_inherited(tmp_path: Path) -> None:
    path = tmp_path / "f.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 3)
        inner = file.createGroup("a").createGroup("b")
        inner.createDimension("y", 2)
        inner.createVariable("v", "i4", ("x", "y"))[:] = 1
        other = file.createGroup("other")
        other.createDimension("x", 4)
        other.createVariable("w", "i4", ("x", "x"))[:] = 2
    assert same_file(path) == 2
    assert tuple(hs.open(path, mode="r")["a/b/v"].dimension_names) == ("x", "y")


def test_scales_of_other_software(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        file["scales/time"] = np.arange(4)
        file["scales/time"].make_scale("anything")
        file["data/v"] = np.zeros((4, 3))
        file["data/v"].dims[0].attach_scale(file["scales/time"])
        file["data/w"] = np.zeros((4, 3))
        file["data/w"].dims[1].label = "level"
        file["data/plain"] = np.zeros((4, 3))
    group = hs.open(path, mode="r")
    assert tuple(group["data/v"].dimension_names) == ("time", None)
    assert tuple(group["data/w"].dimension_names) == (None, "level")
    assert tuple(group["scales/time"].dimension_names) == ("time",)
    assert group["data/plain"].dimension_names is None


def write_without_dimensions(path: Path, seed: int) -> None:
    """Writes nested groups, datasets of few lengths, some of them growing, and a few scales.

    It writes no arrays as elements: netCDF-C hides these datasets, but counts the axes of some.
    """
    chance = random.Random(seed)
    with h5py.File(path, "w", track_order=chance.choice([False, True])) as file:
        groups: list[h5py.Group] = [file]
        for number in range(chance.randint(0, 3)):
            groups.append(chance.choice(groups).create_group(f"{chance.choice('abxy')}{number}"))
        scales: list[h5py.Dataset] = []
        for number in range(chance.randint(1, 9)):
            group, name = chance.choice(groups), f"{chance.choice('mz')}{number}"
            shape = tuple(chance.choices([2, 3, 4], k=chance.randint(0, 3)))
            limits = tuple(chance.choice([n, n, None]) for n in shape)
            dtype = chance.choice(["i4", "f8", "f2", "S3", h5py.string_dtype(), h5py.ref_dtype, "?"])
            dataset = group.create_dataset(name, shape, dtype, maxshape=limits if shape else None)
            if len(shape) == 1 and dtype in ("i4", "f8") and chance.random() < 0.5:
                dataset.make_scale()
                scales.append(dataset)
            elif shape and dtype in ("i4", "f8"):
                fit = [scale for scale in scales if (scale.shape, scale.maxshape) == (shape[:1], limits[:1])]
                if fit and chance.random() < 0.5:
                    dataset.dims[0].attach_scale(chance.choice(fit))


@pytest.mark.filterwarnings("ignore")  # netCDF4-python warns about types that it lacks
def test_phony_dimensions(tmp_path: Path) -> None:
    path, count = tmp_path / "f.h5", 0
    for seed in range(examples(200)):
        write_without_dimensions(path, seed)
        found = hs.open(path, mode="r").phony_dimensions()
        with netCDF4.Dataset(path) as theirs:
            for group in groups_of(theirs):
                for name, variable in group.variables.items():
                    full = f"{group.path.rstrip('/')}/{name}"
                    if full in found:
                        assert found[full] == variable.dimensions, (seed, full)
                    else:
                        assert not any("phony" in name for name in variable.dimensions), (seed, full)
                    count += full in found
    assert count > 200


@pytest.mark.filterwarnings("ignore")  # netCDF4-python warns about skipped variables
def test_files_of_other_projects(corpora: Path) -> None:
    """Compares other projects' files with netCDF4-python."""
    count = 0
    for path in sorted(corpora.glob("hdf5/*/*.nc")):
        try:
            netCDF4.Dataset(path).close()
        except (OSError, TypeError):
            continue  # damaged on purpose, or of types that netCDF4-python lacks
        count += same_file(path)
    assert count > 100
