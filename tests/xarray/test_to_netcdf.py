"""`to_netcdf` beside xarray's engines netcdf4 and h5netcdf, with generated datasets.

Each of the three writes a file, and each reads all files.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from object_server_client import Server
from support import examples, scratch

xr = pytest.importorskip("xarray")
pytest.importorskip("netCDF4")
pytest.importorskip("h5netcdf")

from hyperslab.errors import DataTypeError, InvalidArgumentError  # noqa: E402
from hyperslab.xarray import BackendEntrypoint, save_mfdataset, to_netcdf  # noqa: E402

READERS: dict[str, Any] = {"hyperslab": BackendEntrypoint, "netcdf4": "netcdf4", "h5netcdf": "h5netcdf"}
SIZES = {"t": 3, "x": 4, "y": 2, "none": 0}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def load(place: Any, reader: str = "hyperslab", **options: Any) -> Any:
    with xr.open_dataset(place, engine=READERS[reader], **options) as found:
        loaded = found.load()
        loaded.encoding = dict(found.encoding)
        return loaded


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
ASCII = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=5)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["title", "history", "n", "values", "names"]),
    st.one_of(
        TEXT,
        st.integers(-(2**40), 2**40),
        st.floats(allow_nan=False),
        st.lists(st.integers(-9, 9), min_size=2, max_size=3),
        st.lists(ASCII, min_size=2, max_size=3),
        st.sampled_from([np.float32(1.5), np.int16(-3), np.uint8(200), np.arange(3, dtype="f4")]),
    ),
    max_size=3,
)


@st.composite
def values(draw: Any, shape: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """Returns elements and an encoding."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(
        st.sampled_from(["int", "float", "bool", "text", "bytes", "chars", "time", "delta", "packed"])
    )
    encoding: dict[str, Any] = {}
    if kind == "int":
        dtype = draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"]))
        found: Any = random.integers(0, 100, shape).astype(dtype)
    elif kind == "float":
        found = random.random(shape).astype(draw(st.sampled_from(["f4", "f8", ">f8"])))
        if found.size and draw(st.booleans()):
            found.flat[0] = np.nan
        fill = draw(st.sampled_from(["none", "absent", -999.0]))
        if fill != "absent":
            encoding["_FillValue"] = None if fill == "none" else fill
    elif kind == "bool":
        found = random.integers(0, 2, shape).astype(bool)
    elif kind in ("text", "chars"):
        made = [draw(TEXT if kind == "text" else ASCII) for _ in range(int(np.prod(shape)))]
        found = np.array([*made, None], object)[:-1].reshape(shape)
        if not found.size:
            found = found.astype("U1")
        if kind == "chars":
            encoding["dtype"] = "S1"
    elif kind == "bytes":
        found = np.array([draw(ASCII).encode() for _ in range(int(np.prod(shape)))], "S5").reshape(shape)
    elif kind == "time":
        found = np.datetime64("2000-01-01", "ns") + random.integers(0, 999, shape) * np.timedelta64(1, "h")
        encoding["units"] = draw(st.sampled_from(["hours since 1999-01-01", "seconds since 1970-01-01"]))
        encoding["dtype"] = draw(st.sampled_from(["i4", "i8", "f8"]))
    elif kind == "delta":
        found = random.integers(0, 99, shape) * np.timedelta64(1, "D").astype("m8[ns]")
    else:
        found = random.integers(-50, 50, shape) * 0.5
        encoding.update(dtype="i2", scale_factor=0.5, add_offset=draw(st.sampled_from([0.0, 10.0])))
        encoding["_FillValue"] = -1000
    if shape and draw(st.booleans()):
        encoding.update(draw(st.sampled_from(STORAGE)))
    return found, encoding


STORAGE: list[dict[str, Any]] = [
    {"zlib": True},
    {"zlib": True, "complevel": 1, "shuffle": False},
    {"compression": "zstd", "complevel": 3},
    {"fletcher32": True},
    {"contiguous": True},
]


@st.composite
def datasets(draw: Any) -> Any:
    ds = xr.Dataset(attrs=draw(ATTRIBUTES))
    dimensions = st.lists(st.sampled_from([*SIZES]), unique=True, max_size=2)
    for number in range(draw(st.integers(0, 3))):
        dims = draw(dimensions)
        found, encoding = draw(values(tuple(SIZES[name] for name in dims)))
        if encoding.get("contiguous") and draw(st.booleans()):
            encoding.pop("contiguous")
        ds[f"v{number}"] = (dims, found, draw(ATTRIBUTES), encoding)
    for name in draw(st.lists(st.sampled_from([*SIZES]), unique=True)):
        if name == "t" or name not in ds.dims:
            ds = ds.assign_coords({name: (name, np.arange(SIZES[name]) * 2)})
    if "x" in ds.dims and draw(st.booleans()):
        ds = ds.assign_coords(aux=("x", np.arange(SIZES["x"]) / 4))
    candidates = [name for name in ("t", "y") if name in ds.dims]
    if candidates and draw(st.booleans()):
        unlimited = draw(st.sets(st.sampled_from(candidates), min_size=1))
        if not any(v.encoding.get("contiguous") and unlimited & {*v.dims} for v in ds.variables.values()):
            ds.encoding["unlimited_dims"] = unlimited
    return ds


def plain(encoding: Any) -> Any:
    """An encoding without what depends on the name and the chunks chosen by default."""
    left = {key: value for key, value in encoding.items() if key not in ("source", "preferred_chunks")}
    return {key: _comparable(value) for key, value in left.items()}


def _comparable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    # Not-a-number is unlike itself.
    return "nan" if isinstance(value, (float, np.floating)) and np.isnan(value) else value


def vlen_with_checksums(ds: Any) -> bool:
    # The HDF5 library and hyperslab have no checksums of text of variable length.
    return any(v.dtype.kind in "OU" and v.encoding.get("fletcher32") for v in ds.variables.values())


def has_text_without_elements(ds: Any) -> bool:
    # xarray's engines do not agree on it, and h5netcdf's fails to decode it.
    return any(v.dtype.kind in "OSU" and not v.size for v in ds.variables.values())


@given(datasets(), st.booleans(), st.sampled_from([None, "a", "a/b"]))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_beside_other_engines(ds: Any, chunked: bool, group: str | None) -> None:
    if vlen_with_checksums(ds) or has_text_without_elements(ds):
        return
    given_ = ds.chunk({name: 2 for name in ds.dims if ds.sizes[name]}) if chunked else ds
    with scratch() as folder:
        theirs: dict[str, Path | Exception] = {}
        for engine in ("netcdf4", "h5netcdf"):
            try:
                given_.to_netcdf(folder / f"{engine}.nc", engine=engine, group=group)
                theirs[engine] = folder / f"{engine}.nc"
            except Exception as error:
                theirs[engine] = error
        if isinstance(theirs["netcdf4"], Exception) and isinstance(theirs["h5netcdf"], Exception):
            with pytest.raises(type(theirs["netcdf4"])):
                to_netcdf(given_, folder / "ours.nc", group=group)
            return
        to_netcdf(given_, folder / "ours.nc", group=group)
        for reader in READERS:
            ours = load(folder / "ours.nc", reader, group=group)
            for engine, path in theirs.items():
                if isinstance(path, Exception):
                    continue
                found = load(path, reader, group=group)
                if engine == "netcdf4" and dict(found.sizes) != dict(ds.sizes):
                    # It forgets the length of an unlimited dimension without elements.
                    continue
                xr.testing.assert_identical(ours, found)
                if engine == "netcdf4":
                    assert [*ours.variables] == [*found.variables]
                    for name in ours.variables:
                        assert plain(ours[name].encoding) == plain(found[name].encoding), (reader, name)
                    assert ours.encoding.get("unlimited_dims") == found.encoding.get("unlimited_dims")


# ---- places


def simple(start: int = 0, count: int = 3) -> Any:
    t = np.arange(start, start + count)
    return xr.Dataset(
        {"sst": (("t", "x"), np.stack([t + 0.25, t + 0.75], 1)), "flag": ("t", t.astype("i2"))},
        {"t": t, "x": [10, 20]},
        {"title": "an ocean"},
    )


def test_places(tmp_path: Path) -> None:
    ds = simple()
    assert to_netcdf(ds, tmp_path / "a.nc") is None
    assert to_netcdf(ds, f"file://{tmp_path}/b.nc") is None
    buffer = io.BytesIO()
    assert to_netcdf(ds, buffer) is None
    held = to_netcdf(ds)
    assert isinstance(held, memoryview)
    for place in (tmp_path / "a.nc", tmp_path / "b.nc", bytes(held), buffer.getvalue()):
        xr.testing.assert_identical(load(place), ds)
    with pytest.raises(NotImplementedError, match="compute=False is not yet implemented"):
        to_netcdf(ds, compute=False)
    with pytest.raises(InvalidArgumentError, match="only files on the disk can be written later"):
        to_netcdf(ds, io.BytesIO(), compute=False)


def test_arrays_and_trees(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    for array in (xr.DataArray([1, 2], dims="x"), xr.DataArray([1, 2], dims="x", name="x"), simple()["sst"]):
        to_netcdf(array, path)
        with xr.open_dataarray(path, engine=BackendEntrypoint) as found:
            xr.testing.assert_identical(found, array)
    tree = xr.DataTree.from_dict({"/": simple(), "/a": simple()[["flag"]], "/a/b": xr.Dataset({"z": 1})})
    to_netcdf(tree, path, encoding={"/a": {"flag": {"zlib": True}}}, unlimited_dims={"/": ["t"]})
    for engine in READERS.values():
        with xr.open_datatree(path, engine=engine) as found:
            xr.testing.assert_identical(found.load(), tree)
            assert found["/a/flag"].encoding["zlib"] is True
            assert found.encoding["unlimited_dims"] == {"t"}
    with pytest.raises(InvalidArgumentError, match="unexpected encoding group name"):
        to_netcdf(tree, path, encoding={"/c": {}})
    with pytest.raises(InvalidArgumentError, match="only supports the NETCDF4 format"):
        to_netcdf(tree, path, format="NETCDF4_CLASSIC")
    with pytest.raises(NotImplementedError, match="root group for the tree"):
        to_netcdf(tree, path, group="a")


def test_many_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.nc" for n in range(3)]
    parts = [simple(n).chunk(t=1) for n in range(3)]
    assert save_mfdataset(parts, paths) is None
    for n, path in enumerate(paths):
        xr.testing.assert_identical(load(path), simple(n))
    later = save_mfdataset(parts[::-1], paths, compute=False)
    assert later is not None
    later.compute()
    for n, path in enumerate(paths):
        xr.testing.assert_identical(load(path), simple(2 - n))
    with pytest.raises(InvalidArgumentError, match="multiple datasets to the same path"):
        save_mfdataset(parts, [paths[0]] * 3)
    save_mfdataset(parts, [paths[0]] * 3, groups=["a", "b", "c"], mode="a")
    xr.testing.assert_identical(load(paths[0], group="b"), simple(1))
    # One that fails leaves all files as they were.
    before = [path.read_bytes() for path in paths]
    with pytest.raises(ValueError, match="unable to infer dtype"):
        save_mfdataset([*parts[:2], xr.Dataset({"a": ("x", np.array([object()]))})], paths)
    assert [path.read_bytes() for path in paths] == before


# ---- existing files


def test_appends_equal_one_write(tmp_path: Path) -> None:
    path, whole = tmp_path / "a.nc", tmp_path / "b.nc"
    encoding = {"sst": {"dtype": "i4", "scale_factor": 0.25, "_FillValue": -1, "zlib": True}}
    to_netcdf(simple(0, 1), path, unlimited_dims="t", encoding=encoding)
    for start in range(1, 12):
        to_netcdf(simple(start, 1), path, append_dim="t")
    to_netcdf(simple(0, 12), whole, unlimited_dims="t", encoding=encoding)
    for reader in READERS:
        ours, once = load(path, reader), load(whole, reader)
        xr.testing.assert_identical(ours, once)
        xr.testing.assert_identical(ours, simple(0, 12))
        for name in ours.variables:
            assert plain(ours[name].encoding) == plain(once[name].encoding)


def times(start: int) -> Any:
    return np.datetime64("2000-01-01", "ns") + np.arange(start, start + 3) * np.timedelta64(1, "D")


def test_appended_rows_keep_their_meaning(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    text = np.array(["a", "bb", "ccc"], object)
    first = xr.Dataset({"name": ("t", text), "code": ("t", text.astype("S3"))}, {"t": times(0)})
    to_netcdf(first, path, unlimited_dims="t", encoding={"t": {"units": "days since 1999-12-31"}})
    later = xr.Dataset(
        {"name": ("t", text[::-1]), "code": ("t", text[[0, 0, 1]].astype("S2"))}, {"t": times(3)}
    )
    to_netcdf(later, path, append_dim="t")
    expected = xr.concat([first, later.assign(code=later.code.astype("S3"))], "t")
    for reader in READERS:
        found = load(path, reader)
        xr.testing.assert_equal(found, expected)
        assert found.t.encoding["units"] == "days since 1999-12-31"
    before = path.read_bytes()
    half_days = later.assign_coords(t=times(3) + np.timedelta64(12, "h"))
    with pytest.raises(InvalidArgumentError, match="round its times"):
        to_netcdf(half_days, path, append_dim="t")
    with pytest.raises(DataTypeError, match="room for 3"):
        to_netcdf(later.assign(code=("t", np.array([b"long", b"a", b"b"]))), path, append_dim="t")
    with pytest.raises(InvalidArgumentError, match="is stored, has dimension 't'"):
        to_netcdf(later.drop_vars("name"), path, append_dim="t")
    assert [*hs.File(path)["t"][:]] == [1, 2, 3, 4, 5, 6]
    assert len(path.read_bytes()) >= len(before)
    xr.testing.assert_equal(load(path), expected)


def test_refusals_leave_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    to_netcdf(simple(), path, encoding={"flag": {"_FillValue": -1}})
    before = path.read_bytes()
    refused: list[tuple[dict[str, Any], Any, str]] = [
        ({"append_dim": "t"}, simple(3), "the dimension is fixed to 3 elements"),
        ({"append_dim": "q"}, simple(3), "does not match any existing dataset dimensions"),
        ({"append_dim": "t", "mode": "w"}, simple(3), "cannot set append_dim unless mode='a'"),
        ({"region": {"t": slice(0, 1)}, "mode": "w"}, simple(3), "cannot set region unless"),
        ({"region": {"t": slice(0, 2)}}, simple(0, 1), "to_netcdf"),
        ({"region": {"t": slice(0, 3, 2)}}, simple(0, 2), "step on all slices"),
        ({"mode": "r+"}, simple().assign(new=1), "non-pre-existing variables"),
        ({"mode": "a"}, simple(0, 2), "Unable to update size for existing dimension"),
        ({"mode": "a"}, simple().assign(flag=("t", [1.5, np.nan, 9e9])), "does not fit"),
        ({"mode": "q"}, simple(), "only supported options for mode"),
        ({"format": "NETCDF5"}, simple(), "unexpected format"),
        ({"encoding": {"sst": {"level": 3}}}, simple(), "unexpected encoding parameters"),
        ({"encoding": {"sst": {"chunksizes": (9, 9)}}}, simple(), "Chunk|chunk"),
        ({"unlimited_dims": ["q"]}, simple(), "Unlimited dimension"),
        ({}, xr.Dataset({1: 2}), "Invalid name"),
        ({}, xr.Dataset({"a/b": 2}), "Forward slashes"),
        ({}, xr.Dataset(attrs={"a": {}}), "Invalid value for attr"),
    ]
    for arguments, ds, why in refused:
        with pytest.raises((ValueError, TypeError), match=why):
            to_netcdf(ds, path, **arguments)
        assert path.read_bytes() == before, arguments
    with pytest.raises(FileExistsError):
        to_netcdf(simple(), path, mode="w-")
    assert [*tmp_path.iterdir()] == [path]


def test_regions(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    to_netcdf(simple(0, 6), path)
    part = simple(0, 6).isel(t=slice(2, 4)) * 10
    to_netcdf(part.drop_vars(["t", "x"]), path, region={"t": slice(2, 4)})
    expected = simple(0, 6)
    expected["sst"][2:4] *= 10
    expected["flag"][2:4] *= 10
    xr.testing.assert_identical(load(path), expected)
    to_netcdf(simple(0, 6).isel(t=slice(2, 4)), path, region="auto")
    xr.testing.assert_identical(load(path, "netcdf4"), simple(0, 6))
    with pytest.raises(KeyError, match="Not all values of coordinate 't'"):
        to_netcdf(simple(9, 2), path, region={"t": "auto"})


def test_variables_are_added_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    packed = {"sst": {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -5}}
    to_netcdf(simple(), path, encoding=packed)
    to_netcdf(xr.Dataset({"new": ("x", [1.5, 2.5])}, {"depth": 3}), path, mode="a")
    found = load(path, "netcdf4")
    np.testing.assert_array_equal(found.new, [1.5, 2.5])
    np.testing.assert_array_equal(found.sst, simple().sst)
    # Other numbers have no meaning of the old ones.
    raw = xr.Dataset({"sst": (("t", "x"), np.array([[-5, 1], [2, 3], [4, 5]], "i2"), {"units": "K"})})
    to_netcdf(raw, path, mode="a")
    for reader in READERS:
        found = load(path, reader)
        np.testing.assert_array_equal(found.sst, raw.sst)
        assert found.sst.dtype == "i2" and found.sst.attrs["units"] == "K"
    # A variable may be written from the file itself.
    with xr.open_dataset(path, engine=BackendEntrypoint) as lazy:
        to_netcdf(lazy.assign(flag=lazy.t.variable, t=lazy.t), path, mode="a")
    np.testing.assert_array_equal(load(path).flag, [0, 1, 2])
    with xr.open_dataset(path, engine=BackendEntrypoint) as lazy:
        to_netcdf(lazy.isel(t=[0]), path)
    assert load(path).sizes["t"] == 1


def test_static_variables_of_appends(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    to_netcdf(simple().assign(depth=("x", [1.0, 2.0])), path, unlimited_dims="t")
    with pytest.raises(InvalidArgumentError, match="variable 'depth' differs from what is stored"):
        to_netcdf(simple(3).assign(depth=("x", [1.0, 3.0])), path, append_dim="t")
    with pytest.raises(InvalidArgumentError, match="coordinate 'x' differs"):
        to_netcdf(simple(3).assign_coords(x=[10, 30]), path, append_dim="t")
    to_netcdf(simple(3).assign(depth=("x", [1.0, 3.0])), path, append_dim="t", mode="a-")
    found = load(path, "netcdf4")
    np.testing.assert_array_equal(found.t, range(6))
    np.testing.assert_array_equal(found.depth, [1, 2])


# ---- encodings


def test_rounded_numbers_equal_those_of_netcdf(tmp_path: Path) -> None:
    values_ = np.random.default_rng(2).normal(0, 100, 50)
    for dtype in ("f4", "f8"):
        ds = xr.Dataset({"a": ("x", values_.astype(dtype))})
        for encoding in (
            {"least_significant_digit": 2},
            {"significant_digits": 3},
            {"significant_digits": 3, "quantize_mode": "BitGroom"},
            {"significant_digits": 9, "quantize_mode": "BitRound"},
        ):
            ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding={"a": encoding})
            to_netcdf(ds, tmp_path / "b.nc", encoding={"a": encoding})
            theirs, ours = load(tmp_path / "a.nc", "netcdf4"), load(tmp_path / "b.nc", "netcdf4")
            xr.testing.assert_identical(ours, theirs)
    with pytest.raises(hs.errors.UnsupportedError, match="quantize_mode"):
        encoding = {"significant_digits": 3, "quantize_mode": "GranularBitRound"}
        to_netcdf(ds, tmp_path / "b.nc", encoding={"a": encoding})


def test_complex_numbers(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": ("x", np.array([1 + 2j, 3])), "b": ("x", np.array([1j, 2], "c8"))})
    to_netcdf(ds, tmp_path / "a.nc")
    for reader in ("netcdf4", "h5netcdf", "hyperslab"):
        options = {"auto_complex": True} if reader == "netcdf4" else {}
        xr.testing.assert_identical(load(tmp_path / "a.nc", reader, **options), ds)
    with pytest.raises(InvalidArgumentError, match="has data type complex128"):
        to_netcdf(ds, tmp_path / "b.nc", auto_complex=False)
    assert not (tmp_path / "b.nc").exists()


def test_two_unlimited_dimensions_one_of_them_empty(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": (("t", "none"), np.empty((3, 0), "i1")), "b": ("t", [1, 2, 3])})
    to_netcdf(ds, tmp_path / "a.nc", unlimited_dims=["t", "none"])
    assert dict(load(tmp_path / "a.nc").sizes) == {"t": 3, "none": 0}
    np.testing.assert_array_equal(load(tmp_path / "a.nc", "netcdf4")["b"], [1, 2, 3])


def test_classic_model(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": ("x", [1, 2]), "s": ("x", ["ab", "c"])}, attrs={"n": 5, "t": "text"})
    to_netcdf(ds, tmp_path / "a.nc", format="NETCDF4_CLASSIC")
    ds.to_netcdf(tmp_path / "b.nc", format="NETCDF4_CLASSIC", engine="netcdf4")
    for reader in READERS:
        xr.testing.assert_identical(load(tmp_path / "a.nc", reader), load(tmp_path / "b.nc", reader))
    import netCDF4

    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.data_model == "NETCDF4_CLASSIC"
    with pytest.raises(InvalidArgumentError, match="Cannot create sub-groups"):
        to_netcdf(ds, tmp_path / "a.nc", format="NETCDF4_CLASSIC", group="a")


@pytest.mark.parametrize("format_", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("chunked", [False, True])
def test_classic_files(format_: Any, chunked: bool, tmp_path: Path) -> None:
    ds = simple().assign(text=("x", ["ab", "c"]), scalar=2.5, day=("t", times(0)))
    ds.day.encoding.update(units="days since 1999-12-31", dtype="i4")
    given_ = ds.chunk(t=2) if chunked else ds
    to_netcdf(given_, tmp_path / "a.nc", format=format_, unlimited_dims="t")
    ds.to_netcdf(tmp_path / "b.nc", format=format_, engine="netcdf4", unlimited_dims=["t"])
    assert (tmp_path / "a.nc").read_bytes()[:4] == (tmp_path / "b.nc").read_bytes()[:4]
    for reader in ("hyperslab", "netcdf4"):
        ours, theirs = load(tmp_path / "a.nc", reader), load(tmp_path / "b.nc", reader)
        xr.testing.assert_identical(ours, theirs)
        assert ours.encoding["unlimited_dims"] == {"t"}
    held: Any = to_netcdf(given_, format=format_)
    xr.testing.assert_identical(load(bytes(held)), load(tmp_path / "a.nc"))
    to_netcdf(xr.Dataset({"new": ("x", [1, 2])}), tmp_path / "a.nc", mode="a")
    found = load(tmp_path / "a.nc", "netcdf4")
    xr.testing.assert_identical(found.drop_vars("new"), load(tmp_path / "b.nc", "netcdf4"))
    np.testing.assert_array_equal(found.new, [1, 2])
    before = (tmp_path / "a.nc").read_bytes()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"group": "a"}, "have no groups"),
        ({"unlimited_dims": ["t", "x"]}, "have one unlimited dimension"),
    ]
    for arguments, why in refused:
        with pytest.raises(InvalidArgumentError, match=why):
            to_netcdf(ds, tmp_path / "a.nc", format=format_, **arguments)
    with pytest.raises((OverflowError, ValueError)):
        to_netcdf(xr.Dataset({"a": ("x", [2**40])}), tmp_path / "a.nc", format=format_)
    assert (tmp_path / "a.nc").read_bytes() == before


@pytest.mark.parametrize("format_", ["NETCDF4", "NETCDF3_64BIT"])
def test_new_files_on_a_server(format_: Any) -> None:
    with Server() as server:
        options = {"storage_options": server.s3_options}
        url = "s3://bucket/ocean.nc"
        for ds in (simple(), simple(5).chunk(t=1)):
            to_netcdf(ds, url, format=format_, **options)
            found = load(url, **options)
            xr.testing.assert_equal(found, ds)
        broken = xr.Dataset({"a": ("x", np.array([{}]))})
        with pytest.raises(ValueError, match="unable to infer dtype"):
            to_netcdf(broken, url, format=format_, **options)
        xr.testing.assert_equal(load(url, **options), simple(5))
        refused: list[tuple[dict[str, Any], str]] = [
            ({"append_dim": "t"}, "on servers are not changed"),
            ({"compute": False}, "only files on the disk"),
        ]
        for arguments, why in refused:
            with pytest.raises((hs.errors.UnsupportedError, InvalidArgumentError), match=why):
                to_netcdf(simple(5), url, format=format_, **options, **arguments)
