"""Datasets opened with hyperslab and with xarray's own engines.

Values, attributes and encodings are the same.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import examples, scratch

xr = pytest.importorskip("xarray")
pytest.importorskip("zarr")
pytest.importorskip("netCDF4")

from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silences the warnings of other libraries about formats and consolidated metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def same(left: Any, right: Any) -> bool:
    """Returns whether both are equal and of one type. NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return {*left} == {*right} and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and same(left.tolist(), right.tolist())
    if isinstance(left, np.dtype):
        return left == right and (left.metadata or {}) == (right.metadata or {})
    return bool(left == right) or bool(left != left and right != right)


def difference(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (left.get(name), right.get(name))
        for name in {*left, *right}
        if name not in left or name not in right or not same(left[name], right[name])
    }


def same_dataset(ours: Any, theirs: Any) -> None:
    assert {*ours.variables} == {*theirs.variables}
    assert not difference(dict(ours.attrs), dict(theirs.attrs))
    assert not difference(ours.encoding, theirs.encoding)
    for name, their in theirs.variables.items():
        our = ours.variables[name]
        assert our.dims == their.dims and our.dtype == their.dtype, name
        assert not difference(dict(our.attrs), dict(their.attrs)), name
        encoding = dict(our.encoding)
        if encoding.get("shards"):
            # zarr-python prefers chunks. hyperslab prefers shards, so that dask reads an object at
            # once.
            assert tuple(encoding["preferred_chunks"].values()) == encoding["shards"]
            encoding["preferred_chunks"] = dict(zip(our.dims, encoding["chunks"]))
        assert not difference(encoding, dict(their.encoding)), name
    xr.testing.assert_identical(ours.compute(), theirs.compute())


def same_tree(place: Any, engine: str, **options: Any) -> None:
    """Compares all groups. Unlike groups of a tree, they need not agree on dimensions."""
    theirs = xr.open_groups(place, engine=engine, **options)
    ours = xr.open_groups(place, engine=Engine, **options)
    assert {*ours} == {*theirs}
    for path in theirs:
        same_dataset(ours[path], theirs[path])


# ---- generated datasets

DTYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def values_of(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype in ("f4", "f8"):
        made = rng.normal(size=shape).astype(dtype)
        return np.where(rng.random(shape) < 0.2, np.nan, made).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def dataset_of(seed: int, kind: str) -> Any:
    """Returns a dataset of a few variables of all kinds.

    Its encodings are valid for ``kind`` (a format).
    """
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    sizes = {"t": chance.randint(1, 5), "x": chance.randint(1, 6), "y": chance.randint(1, 4)}
    variables: dict[str, Any] = {}
    types = ["i1", "i2", "i4", "f4", "f8"] if kind == "NETCDF3_64BIT" else DTYPES
    kinds = ["number", "number", "packed", "text", "bytes", "bool", "times", "deltas", "scalar"]
    if kind.startswith("zarr"):
        kinds += ["complex", "unicode"]
    for number in range(chance.randint(2, 7)):
        dims = tuple(sorted(chance.sample(["t", "x", "y"], chance.randint(1, 3))))
        shape = tuple(sizes[name] for name in dims)
        attributes = chance.choice(
            [
                {},
                {"units": "K", "long_name": "températur"},
                {"valid": [1, 2], "one": 1.5, "flag": 3, "empty": ""},
            ]
        )
        encoding: dict[str, Any] = {}
        what = chance.choice(kinds)
        if what == "number":
            dtype = chance.choice(types)
            made = values_of(rng, dtype, shape)
            if chance.random() < 0.4:
                encoding["_FillValue"] = np.dtype(dtype).type(chance.choice([7, 99]))
            if kind.startswith("zarr") or kind == "NETCDF4":
                chunks = tuple(chance.randint(1, n) for n in shape)
                if kind == "zarr3" and chance.random() < 0.5:
                    encoding["shards"] = tuple(n * chance.randint(1, 2) for n in chunks)
                encoding["chunks" if kind.startswith("zarr") else "chunksizes"] = chunks
                if kind == "NETCDF4":
                    encoding |= chance.choice(
                        [{}, {"zlib": True, "complevel": 3}, {"fletcher32": True}, {"compression": "zstd"}]
                    )
        elif what == "packed":
            made, attributes = rng.random(shape), {"units": "m"}
            encoding = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": np.int16(-9)}
        elif what == "text":
            made = rng.choice(np.array(["a", "été", "", "long text"], object), shape)
            attributes = {}
        elif what == "unicode":
            made = rng.choice(np.array(["a", "été", "longer"]), shape)
        elif what == "bytes":
            made = rng.choice(np.array([b"a", b"bc", b"def"]), shape)
            attributes = {}
        elif what == "bool":
            made = rng.random(shape) < 0.5
        elif what == "complex":
            made = rng.random(shape) + 1j
        elif what == "times":
            made = np.datetime64("2001-02-03", "ns") + rng.integers(0, 1000, shape) * np.timedelta64(1, "h")
            attributes = {"long_name": "when"}
        elif what == "deltas":
            made = rng.integers(0, 1000, shape) * np.timedelta64(1, "h")
            made = made.astype("m8[ns]")
            attributes = {"long_name": "how long"}
        else:
            dims, made = (), values_of(rng, "f8", ())
        variables[f"v{number}"] = xr.Variable(dims, made, attributes, encoding)
    coordinates: dict[str, Any] = {"x": ("x", np.arange(sizes["x"]) * 1.5, {"axis": "X"})}
    if chance.random() < 0.5:
        coordinates["t"] = np.datetime64("2000-01-01", "ns") + np.arange(sizes["t"]) * np.timedelta64(1, "D")
    if chance.random() < 0.5:
        coordinates["aux"] = (("x", "y"), rng.random((sizes["x"], sizes["y"])))
    found = xr.Dataset(variables, coordinates, {"title": "été", "numbers": [1, 2, 3], "version": 2})
    if not kind.startswith("zarr"):
        found.encoding["unlimited_dims"] = {"t"} & set(found.dims) if chance.random() < 0.5 else set()
    return found


def cases(seed: int, usual: int) -> Iterator[tuple[int, Path]]:
    """Yields seeds of generated cases, each with an empty directory."""
    for number in range(seed, seed + examples(usual)):
        print(f"seed {number}")
        with scratch() as folder:
            yield number, folder


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_generated_zarr(zarr_format: int, seed: int) -> None:
    for number, folder in cases(seed, 3):
        generated_zarr(folder / "a.zarr", zarr_format, number)


def generated_zarr(place: Path, zarr_format: int, seed: int) -> None:
    made = {path: dataset_of(seed + n, f"zarr{zarr_format}") for n, path in enumerate(["/", "/a", "/a/b"])}
    for path, dataset in made.items():
        dataset.to_zarr(place, group=path, mode="a", zarr_format=zarr_format, consolidated=bool(seed % 2))
    same_tree(place, "zarr")
    same_tree(place, "zarr", group="a")
    same_tree(place, "zarr", decode_cf=False)
    same_dataset(
        xr.open_dataset(place, engine=Engine, group="a/b"), xr.open_dataset(place, engine="zarr", group="a/b")
    )


@pytest.mark.parametrize("kind", ["NETCDF3_64BIT", "NETCDF4"])
def test_generated_netcdf(kind: str, seed: int) -> None:
    for number, folder in cases(seed, 3):
        generated_netcdf(folder / "a.nc", kind, number)


def generated_netcdf(place: Path, kind: str, seed: int) -> None:
    paths = ["/", "/a", "/a/b"] if kind == "NETCDF4" else ["/"]
    for number, path in enumerate(paths):
        dataset = dataset_of(seed + number, kind)
        dataset.to_netcdf(place, mode="a" if number else "w", group=path, format=kind, engine="netcdf4")
    same_tree(place, "netcdf4")
    same_tree(place, "netcdf4", decode_cf=False)
    if kind == "NETCDF4":
        same_tree(place, "netcdf4", group="a")
        theirs = xr.open_dataset(place, engine="h5netcdf")
        xr.testing.assert_identical(xr.open_dataset(place, engine=Engine).compute(), theirs.compute())


def test_round_trip(seed: int) -> None:
    """Datasets opened with hyperslab and with xarray's engine give the same when written."""
    for number, folder in cases(seed, 2):
        round_trip(folder, number)


def round_trip(tmp_path: Path, seed: int) -> None:
    place = tmp_path / "a.nc"
    dataset_of(seed, "NETCDF4").to_netcdf(place, engine="netcdf4")
    for name, engine in (("ours", Engine), ("theirs", "netcdf4")):
        opened = xr.open_dataset(place, engine=engine)
        opened.to_netcdf(tmp_path / f"{name}.nc", engine="netcdf4")
        for variable in opened.variables.values():
            variable.encoding.pop("chunksizes", None)
        opened.to_zarr(tmp_path / f"{name}.zarr")
    for ending, engine in (("nc", "netcdf4"), ("zarr", "zarr")):
        ours, theirs = (
            xr.open_dataset(tmp_path / f"{name}.{ending}", engine=engine) for name in ("ours", "theirs")
        )
        for dataset in (ours, theirs):
            for holder in (dataset, *dataset.variables.values()):
                holder.encoding.pop("source", None)
        same_dataset(ours, theirs)


# ---- files that netCDF4 and h5py write


def test_netcdf_of_all_kinds(tmp_path: Path) -> None:
    import netCDF4

    place = tmp_path / "a.nc"
    with netCDF4.Dataset(place, "w") as file:
        file.createDimension("t", None)
        for name, length in (("x", 4), ("s", 3)):
            file.createDimension(name, length)
        file.createVariable("short", "f4", ("t", "x"), fill_value=-9)[:] = np.ones((3, 4))
        file.createVariable("texts", str, ("t",))[0] = "hé"
        variable = file.createVariable("t", "f8", ("t",))
        variable.units = "days since 2000-01-01"
        variable[:5] = np.arange(5)
        # Has the name of a dimension, but is not its coordinate variable.
        file.createVariable("x", "f8", ("t", "x"))
        file.createVariable("chars", "S1", ("x", "s"), fill_value="-")[:] = "b"
        kind = file.createEnumType("u1", "kinds", {"a": 0, "b": 1})
        file.createVariable("enum", kind, ("x",))[:] = 1
        variable.texts = ["a", "b"]
        variable.numbers = np.array([1, 2], "i2")
        variable.least_significant_digit = 2
        group = file.createGroup("g")
        group.createDimension("u", None)
        group.createVariable("big", ">i4", ("t", "u"), endian="big", compression="bzip2", shuffle=False)
        group.createVariable("longer", "i2", ("t", "u"), fill_value=5)[:] = np.ones((5, 2))
    same_tree(place, "netcdf4")
    same_tree(place, "netcdf4", decode_cf=False)
    ours = xr.open_dataset(place, engine=Engine, decode_cf=False)
    theirs = xr.open_dataset(place, engine="netcdf4", decode_cf=False).load()
    # Elements that are not stored, with each kind of index.
    points = xr.DataArray([4, 0, 3], dims="p")
    for name in ("short", "texts"):
        for index in ({"t": 4}, {"t": slice(1, None, 2)}, {"t": [4, 1]}, {"t": points}, {"t": -1}):
            xr.testing.assert_identical(ours[name].isel(index).load(), theirs[name].isel(index))


def test_axes_without_dimensions(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    place = tmp_path / "a.h5"
    with h5py.File(place, "w") as file:
        file["a"] = np.arange(6).reshape(2, 3)
        file.create_dataset("grows", (4,), maxshape=(None,), dtype="i4")
    with xr.open_dataset(place, engine="h5netcdf", phony_dims="sort") as theirs:
        xr.testing.assert_identical(xr.open_dataset(place, engine=Engine).compute(), theirs.compute())
    # h5netcdf numbers unnamed dimensions of groups differently from netCDF.
    with h5py.File(place, "a") as file:
        file["g/b"] = np.arange(3.0)
    same_tree(place, "netcdf4")
    place = place.rename(tmp_path / "more.h5")
    # netCDF cannot open a dataset without elements, or types that it does not have.
    with h5py.File(place, "a") as file:
        file["nothing"] = h5py.Empty("f4")
        file["g/bits"] = np.array([True, False])
        file["g/half"] = np.zeros((2, 2), "f2")
    ours = xr.open_datatree(place, engine=Engine)
    assert "nothing" not in ours and ours["g/bits"].values.tolist() == [True, False]
    assert ours["g/half"].shape == (2, 2)


def test_no_names_of_axes(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        place = tmp_path / f"{zarr_format}.zarr"
        hs.create_group(place, zarr_format=zarr_format).create_array("a", shape=(2,), dtype="i4")
        for engine in (Engine, "zarr"):
            with pytest.raises(KeyError, match="missing|no dimension names"):
                xr.open_dataset(place, engine=engine)
        # A dropped variable need not be readable.
        assert not xr.open_dataset(place, engine=Engine, drop_variables="a").variables


# ---- uses of datasets


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Any, list[Path]]:
    """Returns a dataset, and its places in three formats."""
    rng = np.random.default_rng(0)
    made = xr.Dataset(
        {"v": (("t", "y", "x"), rng.random((8, 6, 10)).astype("f4"))}, {"x": np.arange(10.0)}, {"title": "a"}
    )
    places = [tmp_path / name for name in ("a.zarr", "a.nc", "classic.nc")]
    made.to_zarr(places[0], encoding={"v": {"chunks": (1, 3, 5), "shards": (4, 6, 5)}}, zarr_format=3)
    made.to_netcdf(places[1], encoding={"v": {"chunksizes": (2, 3, 5), "zlib": True}}, engine="netcdf4")
    made.to_netcdf(places[2], format="NETCDF3_64BIT", engine="netcdf4")
    return made, places


def test_every_kind_of_index(stored: Any) -> None:
    made, places = stored
    points = {"x": xr.DataArray([3, 1, 9, 1], dims="p"), "y": xr.DataArray([0, 5, 2, 2], dims="p")}
    indexes: list[dict[str, Any]] = [
        {"t": 3},
        {"t": -1, "x": slice(None, None, -2)},
        {"t": [5, 1, 1], "x": [9, 0], "y": slice(1, 4)},
        {"t": np.arange(8) % 3 == 0},
        points,
        {**points, "t": slice(1, 7, 2)},
        {**points, "t": 2},
        {"t": xr.DataArray([[0, 1], [7, 2]], dims=("p", "q")), "x": xr.DataArray([4, 5], dims="q")},
        {"t": slice(0, 0)},
    ]
    for place in places:
        opened = xr.open_dataset(place, engine=Engine)
        for index in indexes:
            lazy = opened["v"].isel(index)
            assert not lazy.variable._in_memory
            xr.testing.assert_identical(lazy.load(), made["v"].isel(index))
            # An index of an index.
            xr.testing.assert_identical(
                opened["v"][::2, 1:].isel(x=[1, 3]).isel(x=0).load(),
                made["v"][::2, 1:].isel(x=[1, 3]).isel(x=0),
            )


def test_pickled_and_closed(stored: Any) -> None:
    made, places = stored
    for place in places:
        opened = xr.open_dataset(place, engine=Engine)
        xr.testing.assert_identical(pickle.loads(pickle.dumps(opened)).load(), made)
        # As with xarray's engines, reading after closing opens the file again.
        opened.close()
        xr.testing.assert_identical(opened.load(), made)
        with xr.open_dataset(place, engine=Engine) as opened:
            first = opened["v"][0].load()
        xr.testing.assert_identical(first, made["v"][0])


def test_dask(stored: Any) -> None:
    pytest.importorskip("dask.array")
    made, places = stored
    chunks = [((4, 4), (6,), (5, 5)), ((2,) * 4, (3, 3), (5, 5)), ((8,), (6,), (10,))]
    for place, expected in zip(places, chunks):
        opened = xr.open_dataset(place, engine=Engine, chunks={})
        assert opened["v"].chunks == expected
        xr.testing.assert_identical(opened.compute(scheduler="threads"), made)
        xr.testing.assert_allclose(opened.mean("t").compute(), made.mean("t"))
        pickle.loads(pickle.dumps(opened))


def test_many_files(tmp_path: Path, stored: Any) -> None:
    pytest.importorskip("dask.array")
    made, _ = stored
    for start in (0, 4):
        made.isel(t=slice(start, start + 4)).to_netcdf(tmp_path / f"part{start}.nc", engine="netcdf4")
    opened = xr.open_mfdataset(
        str(tmp_path / "part*.nc"), engine=Engine, combine="nested", concat_dim="t", data_vars="minimal"
    )
    xr.testing.assert_identical(opened.compute(), made)


def test_async(stored: Any) -> None:
    made, places = stored
    if not hasattr(made, "load_async"):
        pytest.skip("this xarray has no async loads")
    for place in places:
        opened = xr.open_dataset(place, engine=Engine)

        async def loaded(opened: Any = opened) -> list[Any]:
            parts = [opened["v"][n].load_async() for n in range(8)]
            parts.append(opened["v"].isel(x=[1, 5]).load_async())
            parts.append(
                opened["v"]
                .isel(x=xr.DataArray([1, 5], dims="p"), t=xr.DataArray([0, 2], dims="p"))
                .load_async()
            )
            return await asyncio.gather(*parts)

        found = asyncio.run(loaded())
        xr.testing.assert_identical(found[3], made["v"][3])
        xr.testing.assert_identical(found[8], made["v"].isel(x=[1, 5]))
        assert found[9].sizes == {"p": 2, "y": 6}


def test_tree(tmp_path: Path) -> None:
    place = tmp_path / "a.nc"
    tree = xr.DataTree.from_dict(
        {"/": xr.Dataset(coords={"x": [1, 2]}), "/a/b": xr.Dataset({"v": ("x", [3, 4])}), "/c": xr.Dataset()}
    )
    tree.to_netcdf(place, engine="netcdf4")
    tree.to_zarr(tmp_path / "a.zarr")
    for each in (place, tmp_path / "a.zarr"):
        xr.testing.assert_identical(xr.open_datatree(each, engine=Engine).load(), tree)
        below = xr.open_datatree(each, engine=Engine, group="a")
        assert below.groups == ("/", "/b") and below["b/v"].values.tolist() == [3, 4]


def test_other_places(tmp_path: Path, stored: Any) -> None:
    made, places = stored
    for place in places:
        url = f"file://{place}"
        for given in (url, hs.open_group(place, mode="r")):
            xr.testing.assert_identical(xr.open_dataset(given, engine=Engine).load(), made)
    store = hs.MemoryStore()
    hs.create_group(store).create_array("a", data=[1, 2], dimension_names=["x"])
    assert xr.open_dataset(store, engine=Engine)["a"].values.tolist() == [1, 2]


def test_on_a_server(monkeypatch: pytest.MonkeyPatch, stored: Any) -> None:
    from object_server_client import Server

    made, places = stored
    with Server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        options = {"endpoint_url": server.url, "region": "us-east-1"}
        url = "s3://bucket/a.zarr"
        hs.copy(hs.open_group(places[0], mode="r"), url, storage_options=options)
        opened = xr.open_dataset(url, engine=Engine, storage_options=options)
        assert opened.encoding["source"] == url
        xr.testing.assert_identical(opened.compute(), made)
        opened = xr.open_mfdataset([url], engine=Engine, backend_kwargs={"storage_options": options})
        xr.testing.assert_identical(opened.compute(), made)


def test_what_is_not_there(tmp_path: Path, stored: Any) -> None:
    _, places = stored
    for place, error in zip(places, (OSError, OSError, OSError)):
        with pytest.raises(error):
            xr.open_dataset(place, engine=Engine, group="nowhere")
    with pytest.raises(FileNotFoundError):
        xr.open_dataset(tmp_path / "nowhere.zarr", engine=Engine)


def test_guesses(tmp_path: Path, stored: Any) -> None:
    _, places = stored
    guess = Engine().guess_can_open
    # Names that end in `.zarr` are left to xarray's engine.
    assert [guess(place) for place in places] == [False, True, True]
    plain = tmp_path / "plain"
    places[0].rename(plain)
    assert guess(plain) and guess(str(plain)) and guess(hs.open_group(plain))
    (tmp_path / "a.txt").write_text("CDF of a distribution")
    hs.create_array(tmp_path / "array", shape=(2,), dtype="i4")
    for other in ("a.txt", "array", "nowhere", "nowhere.nc"):
        assert not guess(tmp_path / other)
    # Contents of a file instead of its name.
    assert guess(b"CDF\x01") and guess(memoryview(b"\x89HDF\r\n\x1a\n")) and not guess(b"{}") and not guess(3)
    assert guess("s3://bucket/a.nc") and guess("https://example.org/a.h5?version=1")
    for url in (
        "https://example.org/a.zarr",
        "https://example.org/dodsC/a.nc",
        "https://example.org/",
        "ftp://a/b.nc",
    ):
        assert not guess(url)


def test_lazy_import() -> None:
    import subprocess
    import sys

    code = "import hyperslab, sys; assert not {'xarray', 'zarr', 'dask'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dropped_variables_do_not_change_others(tmp_path: Path) -> None:
    """Characters are not joined to text along a dimension of another variable, dropped or not."""
    netCDF4 = pytest.importorskip("netCDF4")
    for kind in ("NETCDF4", "NETCDF3_CLASSIC"):
        path = tmp_path / f"{kind}.nc"
        with netCDF4.Dataset(path, "w", format=kind) as file:
            file.createDimension("y", 2)
            file.createDimension("s", 3)
            file.createVariable("x", "i4", ("s", "y"))[:] = 1
            text = file.createVariable("text", "S1", ("y", "s"))
            text._Encoding = "utf-8"
            text[:] = np.array([[b"a", b"b", b"c"], [b"d", b"", b""]])
        for dropped in (None, "x"):
            with (
                xr.open_dataset(path, engine="netcdf4", drop_variables=dropped) as theirs,
                xr.open_dataset(path, engine="hyperslab", drop_variables=dropped) as ours,
            ):
                assert list(ours) == list(theirs)
                assert ours["text"].dims == theirs["text"].dims
                assert ours["text"].values.tolist() == theirs["text"].values.tolist()


def test_rows_beyond_the_end_of_a_ragged_variable(tmp_path: Path) -> None:
    """A variable may be shorter than its unlimited dimension. Its further rows are empty."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as f:
        f.createDimension("u", None)
        f.createDimension("x", 2)
        f.createVariable("long", "f4", ("u",))[:] = np.arange(7)
        rows = f.createVariable("rows", f.createVLType("f8", "r"), ("u", "x"))
        rows[0, 0], rows[1, 1] = np.array([1.0, 2.0]), np.array([3.0])
        ones = f.createVariable("ones", f.createVLType("i4", "o"), ("u",))
        ones[0], ones[1] = np.array([1]), np.array([2])
        text = f.createVariable("text", str, ("u",))
        text[0], text[1] = "a", "é"
        f.createVariable("numbers", "i2", ("u",))[:2] = [1, 2]
    ours, theirs = (xr.open_dataset(tmp_path / "a.nc", engine=engine) for engine in (Engine, "netcdf4"))
    points = xr.DataArray([0, 5, 1], dims="p")
    for where in ({}, {"u": [0, 5, 1]}, {"u": slice(1, 6, 2)}, {"u": points}, {"u": slice(4, 7)}):
        for name in ("rows", "ones", "text", "numbers"):
            found, right = (ds[name].isel(where).values for ds in (ours, theirs))
            assert found.shape == right.shape and found.dtype == right.dtype, (name, where)
            for one, other in zip(found.flat, right.flat, strict=True):
                assert same(one, other), (name, where)
    # A selected row is one element, and is not split into its elements.
    for at, right in ((0, [1]), (5, [])):
        row = ours["ones"].isel(u=at).values
        assert row.shape == () and row.item().dtype == np.int32 and row.item().tolist() == right
    assert ours["rows"].isel(u=5, x=1).values.item().tolist() == []
