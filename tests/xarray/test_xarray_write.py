"""Datasets written by `hyperslab.xarray.to_zarr` and by xarray's own `to_zarr`.

Metadata, chunks, datasets, encodings and refusals are the same.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import METADATA, chunk_files, dask_cluster, files_below, read_json

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
pytest.importorskip("netCDF4")
da = pytest.importorskip("dask.array")

import dask  # noqa: E402
import numcodecs  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402
from hyperslab.xarray import to_zarr  # noqa: E402
from test_xarray import cases, dataset_of, same_dataset  # noqa: E402
from xarray.coding.strings import create_vlen_dtype  # noqa: E402

Write = Callable[..., Any]


def theirs(ds: Any, place: Any, *arguments: Any, **options: Any) -> Any:
    return ds.to_zarr(place, *arguments, **options)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silences the warnings of other libraries about formats and consolidated metadata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def consolidated_once(document: Any) -> Any:
    """Removes the (empty) consolidated metadata of groups in a document's consolidated metadata."""
    below = document if "metadata" in document else document.get("consolidated_metadata") or {}
    for each in below.get("metadata", {}).values():
        each.pop("consolidated_metadata", None)
    return document


def same_stores(ours: Path, expected: Path) -> None:
    """Checks for the same metadata and the same chunks (by key), and so the same datasets."""
    documents = [
        {
            key: consolidated_once(read_json(place / key))
            for key in files_below(place)
            if key.rsplit("/", 1)[-1] in METADATA
        }
        for place in (ours, expected)
    ]
    for key in {*documents[0], *documents[1]}:
        assert documents[0].get(key) == documents[1].get(key), key
    assert chunk_files(ours).keys() == chunk_files(expected).keys()
    found, right = (xr.open_groups(place, engine="zarr") for place in (ours, expected))
    own = xr.open_groups(ours, engine=Engine)
    assert {*found} == {*right} == {*own}
    for path in right:
        xr.testing.assert_identical(found[path].load(), right[path].load())
        same_dataset(own[path], found[path])


def both(folder: Path, write: Callable[[Write, Path], object]) -> bool:
    """Writes with both libraries and checks for the same outcome.

    Returns whether both succeeded.
    """
    errors: list[Exception | None] = []
    places = folder / "ours.zarr", folder / "theirs.zarr"
    for place, to in zip(places, (to_zarr, theirs)):
        try:
            write(to, place)
        except Exception as error:
            errors.append(error)
        else:
            errors.append(None)
    ours, expected = errors
    if expected is None:
        if ours is not None:
            raise ours
        same_stores(*places)
        return True
    assert isinstance(ours, builtin_of(expected)), (ours, expected)
    return False


def builtin_of(error: Exception) -> type:
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def chunked(ds: Any, chance: random.Random) -> Any:
    """Returns the dataset, or the same dataset in dask blocks."""
    if chance.random() < 0.4:
        return ds
    return ds.chunk({name: chance.randint(1, max(n, 1)) for name, n in ds.sizes.items()})


def generated(seed: int, zarr_format: int) -> Any:
    """Returns a dataset with compressors, because their default differs in Zarr v2."""
    ds, chance = dataset_of(seed, f"zarr{zarr_format}"), random.Random(seed)
    if zarr_format == 2:
        codecs: list[Any] = [None, numcodecs.Zlib(3), numcodecs.Blosc("zstd", 2), numcodecs.Zstd(1)]
    else:
        codecs = [
            None,
            [zarr.codecs.ZstdCodec(level=2), zarr.codecs.Crc32cCodec()],
            zarr.codecs.BloscCodec(typesize=1, cname="lz4", shuffle="shuffle"),
            {"name": "gzip", "configuration": {"level": 1}},
        ]
    for variable in ds.variables.values():
        variable.encoding["compressors"] = chance.choice(codecs)
    return ds


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_generated(zarr_format: int, seed: int) -> None:
    for number, folder in cases(seed, 8):
        chance = random.Random(number)
        ds = chunked(generated(number, zarr_format), chance)
        options: dict[str, Any] = {
            "zarr_format": zarr_format,
            "mode": chance.choice(["w", "w-", "a", None]),
            "group": chance.choice([None, "a/b"]),
            "consolidated": chance.choice([None, True, False]),
            "write_empty_chunks": chance.choice([None, True, False]),
            "align_chunks": chance.random() < 0.3,
        }

        def write(to: Write, place: Path, ds: Any = ds, options: Any = options) -> None:
            to(ds, place, **options)

        if both(folder, write) and options["group"] is None:
            found = xr.open_dataset(folder / "ours.zarr", engine=Engine)
            assert found.sizes == ds.sizes


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_appended(zarr_format: int, seed: int) -> None:
    for number, folder in cases(seed, 8):
        chance = random.Random(number)
        ds = generated(number, zarr_format)
        dim = chance.choice(sorted(ds.dims))
        cut = chance.randint(0, ds.sizes[dim])
        parts = [chunked(ds.isel({dim: part}), chance) for part in (slice(0, cut), slice(cut, None))]
        options = {"mode": chance.choice(["a", "a-", None]), "align_chunks": chance.random() < 0.5}

        def write(to: Write, place: Path, dim: str = dim, parts: Any = parts, options: Any = options) -> None:
            to(parts[0], place, zarr_format=zarr_format)
            to(parts[1], place, append_dim=dim, **options)

        try:
            both(folder, write)
        except hs.errors.InvalidArgumentError as error:
            # Times in finer units than the stored ones: xarray's own `to_zarr` writes other times.
            assert "needs units" in str(error)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_regions(zarr_format: int, seed: int) -> None:
    for number, folder in cases(seed, 8):
        chance = random.Random(number)
        ds = generated(number, zarr_format)
        regions = {}
        for dim in chance.sample(sorted(ds.dims), chance.randint(1, len(ds.dims))):
            start = chance.randint(0, ds.sizes[dim] - 1)
            regions[dim] = slice(start, chance.randint(start + 1, ds.sizes[dim]))
        other = ds.copy(
            data={name: v.values[..., ::-1] if v.ndim else v for name, v in ds.data_vars.items()}
        ).isel(regions)
        dropped = [name for name, v in other.variables.items() if not {*regions} & {*v.dims}]
        other = chunked(other.drop_vars(dropped), chance)
        options: dict[str, Any] = {
            "mode": chance.choice(["a", "r+", None]),
            "region": chance.choice([regions, regions, "auto"]),
            "write_empty_chunks": chance.choice([None, True]),
        }

        def write(to: Write, place: Path, ds: Any = ds, other: Any = other, options: Any = options) -> None:
            to(ds, place, zarr_format=zarr_format)
            given = options["region"]
            to(other, place, **(options | {"region": given if given == "auto" else dict(given)}))

        both(folder, write)


def test_blocks_of_text_stay_blocks(tmp_path: Path) -> None:
    whole = xr.Dataset({"s": ("t", np.array(["a", "bb", "c", "d"], object))})

    def blocks(values: list[object], length: int) -> Any:
        text = np.array(values, object).astype(create_vlen_dtype(str))
        return xr.Dataset({"s": ("t", da.from_array(text, chunks=length))})

    def write(to: Write, place: Path, length: int) -> None:
        to(whole, place)
        to(blocks(["x", "y"], length), place, mode="a", region={"t": slice(0, 2)})

    # Two blocks in one chunk of the array.
    assert not both(tmp_path / "apart", partial(write, length=1))
    assert both(tmp_path / "together", partial(write, length=2))
    place = tmp_path / "together" / "ours.zarr"
    with pytest.raises(hs.errors.DataTypeError, match="give it StringDType"):
        to_zarr(blocks(["z", 1], 2), place, mode="a", region={"t": slice(0, 2)})
    assert xr.open_dataset(place, engine="zarr").s.values.tolist() == ["x", "y", "c", "d"]


def test_blocks_that_do_not_fit_are_never_torn(seed: int) -> None:
    for number, folder in cases(seed, 6):
        chance = random.Random(number)
        shape = chance.randint(1, 40), chance.randint(1, 30)
        chunks = chance.randint(1, 5), chance.randint(1, 5)
        shards = tuple(n * chance.randint(1, 4) for n in chunks)
        ds = xr.Dataset({"v": (("t", "x"), np.arange(shape[0] * shape[1], dtype="f4").reshape(shape))})
        blocks = ds.chunk(t=chance.randint(1, 9), x=chance.randint(1, 9))
        encoding = {"v": {"chunks": chunks, "shards": chance.choice([None, shards])}}
        place = folder / "a.zarr"
        with dask.config.set(scheduler="threads", num_workers=8):
            to_zarr(blocks, place, encoding=encoding, safe_chunks=False)
        xr.testing.assert_equal(xr.open_dataset(place, engine="zarr").load(), ds)
        # Write a region in the middle, in blocks of other lengths.
        part = {"t": slice(shape[0] // 3, shape[0]), "x": slice(shape[1] // 4, shape[1])}
        negative = (-ds.isel(part)).chunk(t=chance.randint(1, 9), x=chance.randint(1, 9))
        with dask.config.set(scheduler="threads", num_workers=8):
            to_zarr(negative, place, region=part, safe_chunks=False)
        expected = ds.copy(deep=True)
        expected["v"][part] = negative["v"]
        xr.testing.assert_equal(xr.open_dataset(place, engine="zarr").load(), expected)


def example() -> Any:
    return xr.Dataset(
        {"v": (("t", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"}), "s": ("x", ["a", "bb", "c"])},
        {"t": np.arange(4)},
        {"title": "été", "one": np.float32(1.5), "list": np.arange(3), "missing": None},
    )


def _outcomes() -> dict[str, Callable[[Write, Path], object]]:
    ds = example()
    numbers = ds.drop_vars("s")
    return {
        "twice": lambda to, p: (to(ds, p), to(ds, p)),
        "replaced": lambda to, p: (to(ds, p), to(numbers, p, mode="w")),
        "positional": lambda to, p: to(ds, p, "w", "a/b", {"v": {"chunks": (2, 2)}}),
        "nothing there": lambda to, p: to(ds, p, mode="r+"),
        "no such mode": lambda to, p: to(ds, p, mode="x"),
        "new variable in r+": lambda to, p: (to(ds, p), to(ds.assign(z=ds.v), p, mode="r+")),
        "new variable in a": lambda to, p: (to(ds, p), to(ds.assign(z=ds.v).drop_attrs(), p, mode="a")),
        "another size": lambda to, p: (to(ds, p), to(ds.isel(t=[0]), p, mode="a")),
        "other dimensions": lambda to, p: (to(ds, p), to(ds.rename(x="y"), p, mode="a")),
        "transposed": lambda to, p: (to(ds, p), to(ds.transpose("x", "t") * 1, p, mode="a")),
        "encoding of what is there": lambda to, p: (
            to(ds, p),
            to(ds, p, mode="a", encoding={"v": {"chunks": (1, 1)}}),
        ),
        "encoding of netCDF": lambda to, p: to(ds, p, encoding={"v": {"zlib": True}}),
        "encoding of nothing": lambda to, p: to(ds, p, encoding={"q": {}}),
        "chunks no integers": lambda to, p: to(ds, p, encoding={"v": {"chunks": (1.5, 2)}}),
        "chunks one number": lambda to, p: to(ds, p, encoding={"v": {"chunks": 2, "shards": 4}}),
        "shards that do not fit": lambda to, p: to(ds, p, encoding={"v": {"chunks": 2, "shards": 3}}),
        "chunks of many lengths": lambda to, p: to(ds, p, encoding={"v": {"chunks": ((1, 3), 3)}}),
        "fill value": lambda to, p: to(ds, p, encoding={"v": {"fill_value": 3.5, "_FillValue": 2.0}}),
        "keys of version 2": lambda to, p: to(
            ds, p, encoding={"v": {"chunk_key_encoding": {"name": "v2", "separator": "."}}}
        ),
        "serializer": lambda to, p: to(
            ds, p, encoding={"v": {"serializer": zarr.codecs.BytesCodec(endian="big")}}
        ),
        "filters": lambda to, p: to(
            ds, p, encoding={"v": {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]}}
        ),
        "empty chunks, twice said": lambda to, p: to(
            ds, p, write_empty_chunks=False, encoding={"v": {"write_empty_chunks": True}}
        ),
        "empty chunks in the encoding": lambda to, p: to(
            numbers * np.nan, p, encoding={"v": {"write_empty_chunks": True}}
        ),
        "attribute": lambda to, p: to(ds.assign_attrs(q=object()), p),
        "attribute of a variable": lambda to, p: to(ds.assign(v=ds.v.assign_attrs(q=object())), p),
        "appended along nothing": lambda to, p: (to(ds, p), to(ds, p, append_dim="q")),
        "appended and replaced": lambda to, p: (to(ds, p), to(ds, p, append_dim="t", mode="w")),
        "appended": lambda to, p: (to(ds, p), to(ds, p, append_dim="t")),
        "appended along a nameless": lambda to, p: (to(ds, p), to(ds, p, append_dim="x")),
        "appended, too long": lambda to, p: (
            to(ds, p),
            to(ds.assign(s=("x", ["longer", "b", "c"])), p, append_dim="t"),
        ),
        "appended and region": lambda to, p: (
            to(ds, p),
            to(numbers, p, append_dim="t", region={"t": slice(0, 4)}),
        ),
        "region of all variables": lambda to, p: (to(ds, p), to(ds, p, region={"t": slice(0, 4)})),
        "region with a step": lambda to, p: (to(ds, p), to(numbers, p, region={"t": slice(0, 4, 2)})),
        "region of nothing": lambda to, p: (to(ds, p), to(numbers, p, region={"q": slice(0, 4)})),
        "region in w": lambda to, p: (to(ds, p), to(numbers, p, mode="w", region={"t": slice(0, 4)})),
        "region found": lambda to, p: (
            to(ds, p),
            to(numbers.isel(t=[1, 2]) * 2, p, region="auto"),
            to(numbers.isel(t=[3], x=[1]) * 3, p, region={"t": "auto", "x": slice(1, 2)}),
        ),
        "region with gaps": lambda to, p: (to(ds, p), to(numbers.isel(t=[1, 3]), p, region="auto")),
        "region not found": lambda to, p: (
            to(ds, p),
            to(numbers.assign_coords(t=[7, 8, 9, 10]), p, region="auto"),
        ),
        "blocks of many lengths": lambda to, p: to(numbers.chunk(t=(1, 3)), p),
        "blocks that share chunks": lambda to, p: to(
            numbers.chunk(t=3), p, encoding={"v": {"chunks": (2, 3)}}
        ),
        "blocks that share shards": lambda to, p: to(
            numbers.chunk(t=1), p, encoding={"v": {"chunks": (1, 3), "shards": (2, 3)}}
        ),
        "region that shares a chunk": lambda to, p: (
            to(numbers, p, encoding={"v": {"chunks": (2, 3)}, "t": {"chunks": (2,)}}),
            to(numbers.isel(t=[1, 2, 3]).chunk(t=2), p, region={"t": slice(1, 4)}),
        ),
        "two groups": lambda to, p: (
            to(ds, p, group="a"),
            to(numbers, p, group="a/b", mode="a"),
            to(numbers, p, group="a/b", mode="w"),
        ),
        "no name": lambda to, p: to(ds.rename(v=""), p),
        "a number as a name": lambda to, p: to(ds.rename(v=3), p),
        "a name of two parts": lambda to, p: to(ds.rename(v="a/b"), p),
        "no elements": lambda to, p: to(xr.Dataset({"e": ("t", np.zeros(0))}).chunk(), p),
        "nothing": lambda to, p: to(xr.Dataset(), p),
        "objects": lambda to, p: to(xr.Dataset({"e": ("t", np.array([1, "a"], object))}), p),
        "text in blocks": lambda to, p: to(ds.assign(s=ds.s.astype(object)).chunk(x=2), p),
        "text of fixed length in blocks": lambda to, p: to(ds.chunk(x=2), p),
        "not computed": lambda to, p: to(numbers.chunk(t=2), p, compute=False).compute(),
        "nothing to compute": lambda to, p: to(ds, p, compute=False).compute(),
        "options of no server": lambda to, p: to(ds, str(p), storage_options={"a": 1}),
    }


@pytest.mark.parametrize("what", _outcomes())
def test_outcome(what: str, tmp_path: Path) -> None:
    both(tmp_path, _outcomes()[what])


def test_torn_by_theirs_refused_by_both(tmp_path: Path) -> None:
    blocks = example().drop_vars("s").chunk(t=3)
    with pytest.raises(ValueError, match="would overlap multiple Dask chunks"):
        to_zarr(blocks, tmp_path / "a.zarr", encoding={"v": {"chunks": (2, 3)}})
    with pytest.raises(ValueError, match="would overlap multiple Dask chunks"):
        to_zarr(blocks, tmp_path / "b.zarr", encoding={"v": {"chunks": (1, 3), "shards": (2, 3)}})


def test_trees(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset(coords={"x": [1, 2]}, attrs={"title": "root"}),
            "/a/b": xr.Dataset({"v": ("x", [3.0, 4.0])}),
            "/c": xr.Dataset({"w": (("x", "y"), np.ones((2, 3)))}).chunk(y=1),
        }
    )
    encoding = {"/a/b": {"v": {"chunks": (1,)}}}
    options: list[dict[str, Any]] = [
        {},
        {"encoding": encoding},
        {"write_inherited_coords": True, "consolidated": False},
        {"zarr_format": 2, "encoding": {"/c": {"w": {"compressors": None}}}},
        {"encoding": {"/nowhere": {}}},
    ]
    for number, each in enumerate(options):
        if each.get("zarr_format") == 2:
            # The default compressor differs, so only the datasets are the same.
            to_zarr(tree, tmp_path / "v2.zarr", **each)
            xr.testing.assert_identical(xr.open_datatree(tmp_path / "v2.zarr", engine="zarr").load(), tree)
            continue
        folder = tmp_path / str(number)
        folder.mkdir()

        def write(to: Write, place: Path, each: Any = each) -> None:
            to(tree, place, **each)

        assert both(folder, write) == (number != 4)
    for wrong in ({"group": "a"}, {"append_dim": "x"}):
        with pytest.raises(ValueError):
            to_zarr(tree, tmp_path / "wrong.zarr", **wrong)
    below = to_zarr(tree["a"], tmp_path / "below.zarr")
    assert sorted(below) == ["b", "x"]


def test_what_is_returned(tmp_path: Path) -> None:
    ds = example()
    group = to_zarr(ds, tmp_path / "a.zarr", group="a")
    assert isinstance(group, hs.Group) and group.path == "a" and sorted(group) == ["s", "t", "v"]
    np.testing.assert_array_equal(group["v"][...], ds["v"].values)
    blocks = ds.drop_vars("s").chunk(t=2)
    delayed = to_zarr(blocks, tmp_path / "b.zarr", compute=False)
    opened = xr.open_dataset(tmp_path / "b.zarr", engine="zarr", consolidated=True)
    assert np.isnan(opened["v"].values).all() and opened["t"].values.tolist() == [0, 1, 2, 3]
    assert delayed.compute() is None
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "b.zarr", engine="zarr").load(), ds.drop_vars("s"))
    for other in (ds["v"], {"v": 1}, None):
        with pytest.raises(TypeError, match="expected a Dataset"):
            to_zarr(other, tmp_path / "c.zarr")
    assert not (tmp_path / "c.zarr").exists()


def test_consolidated(tmp_path: Path) -> None:
    ds = example()
    for zarr_format in (2, 3):
        place = tmp_path / f"a{zarr_format}.zarr"
        to_zarr(ds, place, zarr_format=zarr_format)
        assert sorted(zarr.open_consolidated(str(place)).array_keys()) == ["s", "t", "v"]
        to_zarr(ds, place, append_dim="t")
        assert zarr.open_consolidated(str(place))["v"].shape == (8, 3)
        to_zarr(ds, place, group="below", zarr_format=zarr_format)
        assert zarr.open_consolidated(str(place))["below/v"].shape == (4, 3)
        bare = tmp_path / f"b{zarr_format}.zarr"
        to_zarr(ds, bare, zarr_format=zarr_format, consolidated=False)
        with pytest.raises(ValueError):
            zarr.open_consolidated(str(bare))
        with pytest.raises(FileNotFoundError):
            to_zarr(ds.drop_vars("s"), bare, region={"t": slice(0, 4)}, consolidated=True)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_groups_are_changed(tmp_path: Path, zarr_format: Any) -> None:
    """The metadata of all groups is consolidated in the root."""
    given: dict[str, Any] = {"group": "a/b", "consolidated": True}
    for place, write in ((tmp_path / "theirs", xr.Dataset.to_zarr), (tmp_path / "ours", to_zarr)):
        write(xr.Dataset({"v": ("t", [1.0, 2.0, 3.0])}), place, zarr_format=zarr_format, **given)
        write(xr.Dataset({"v": ("t", [4.0])}), place, region={"t": slice(1, 2)}, **given)
        write(xr.Dataset({"v": ("t", [7.0, 8.0, 9.0])}), place, mode="r+", **given)
        with xr.open_dataset(place, engine="zarr", group="a/b", consolidated=True) as found:
            assert found["v"].values.tolist() == [7.0, 8.0, 9.0]


def test_computed_once(tmp_path: Path) -> None:
    calls = []

    def made(block: Any) -> Any:
        calls.append(block.shape)
        return block + 1

    base = da.zeros((8,), chunks=4).map_blocks(made, dtype="f8", meta=np.zeros(0))
    ds = xr.Dataset({"a": ("t", base * 2), "b": ("t", base * 3)})
    to_zarr(ds, tmp_path / "a.zarr")
    assert calls == [(4,), (4,)]
    opened = xr.open_dataset(tmp_path / "a.zarr", engine=Engine)
    assert opened["a"].values.tolist() == [2.0] * 8 and opened["b"].values.tolist() == [3.0] * 8


def test_from_here_to_there(tmp_path: Path) -> None:
    """Datasets opened by this engine, lazily and in blocks, are written to other chunks."""
    ds = example().drop_attrs()
    ds.to_zarr(tmp_path / "a.zarr", encoding={"v": {"chunks": (2, 2), "shards": (4, 2)}})
    ds.drop_vars("s").to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    for name in ("a.zarr", "a.nc"):
        for number, chunks in enumerate([None, {}, {"t": 2}]):
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()

            def write(to: Write, place: Path, name: str = name, chunks: Any = chunks) -> None:
                opened = xr.open_dataset(tmp_path / name, engine=Engine, chunks=chunks)
                to(opened, place)

            # Blocks of half a shard are refused.
            assert both(folder, write) == (name == "a.nc" or number < 2)


def test_stores(tmp_path: Path) -> None:
    ds = example().chunk(t=2)
    other = zarr.storage.MemoryStore()
    for store in (hs.MemoryStore(), hs.storage.ZipStore(tmp_path / "a.zip", mode="w"), other):
        to_zarr(ds, store)
        to_zarr(ds.drop_vars("s"), store, append_dim="t")
        opened = xr.open_dataset(store, engine="zarr" if store is other else Engine)
        assert opened["v"].values[:, 0].tolist() == [0, 3, 6, 9] * 2


def test_icechunk(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    ds = example()
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repository")))
    session = repository.writable_session("main")
    to_zarr(ds.drop_vars("s").chunk(t=2), session.store)
    to_zarr(ds.drop_vars("s"), session.store, append_dim="t")
    session.commit("two steps")
    store = repository.readonly_session("main").store
    opened = xr.open_dataset(store, engine="zarr", consolidated=False)
    assert opened["v"].values[:, 0].tolist() == [0, 3, 6, 9] * 2


def test_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from object_server_client import Server

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    ds = example()
    with Server() as server:
        options = {"endpoint_url": server.url, "region": "us-east-1"}
        url = "s3://bucket/a.zarr"

        def opened() -> Any:
            return xr.open_dataset(url, engine=Engine, storage_options=options, consolidated=True).load()

        encoding = {"v": {"chunks": (1, 3), "shards": (2, 3)}}
        to_zarr(ds.chunk(t=2), url, encoding=encoding, storage_options=options)
        xr.testing.assert_identical(opened(), ds)
        with pytest.raises(FileExistsError):
            to_zarr(ds, url, storage_options=options)
        to_zarr(ds, url, append_dim="t", storage_options=options)
        xr.testing.assert_equal(opened(), xr.concat([ds, ds], "t", data_vars="minimal"))
        part = ds.drop_vars(["s", "t"]).isel(t=[1, 2]) * 2
        to_zarr(part, url, region={"t": slice(1, 3)}, storage_options=options)
        assert opened()["v"].values[:4, 0].tolist() == [0, 6, 12, 9]
        to_zarr(ds, url, mode="w", storage_options=options)
        xr.testing.assert_identical(opened(), ds)


def test_many_variables_on_a_server() -> None:
    from object_server_client import Server

    ds = xr.Dataset({f"v{n:02}": ("x", np.arange(5.0) + n) for n in range(40)}, {"x": np.arange(5)})
    with Server() as server:
        url, options = "s3://bucket/a.zarr", server.s3_options

        def rounds(write: Callable[[], object], most: int) -> None:
            # Variables do not wait for each other, so rounds do not grow with the number of
            # variables.
            found, _, _ = server.asked(write, most)
            assert found <= most

        rounds(lambda: to_zarr(ds, url, mode="w", storage_options=options), 25)
        rounds(lambda: to_zarr(ds, url, append_dim="x", storage_options=options), 25)
        part = ds.drop_vars("x") * 2
        rounds(lambda: to_zarr(part, url, region={"x": slice(0, 5)}, storage_options=options), 12)
        opened = xr.open_dataset(url, engine=Engine, storage_options=options)
        assert opened.sizes["x"] % 5 == 0 and opened.sizes["x"] >= 10
        for n in range(40):
            values = (np.arange(5.0) + n).tolist()
            found = opened[f"v{n:02}"].values.tolist()
            assert found == [2 * value for value in values] + values * (len(found) // 5 - 1)
        # An error of one variable is raised.
        wrong = ds.assign(wrong=("x", np.arange(5.0)))
        with pytest.raises(ValueError) as caught:
            to_zarr(
                wrong, url, mode="w", storage_options=options, encoding={"wrong": {"chunks": 2, "shards": 3}}
            )
        assert "variable 'wrong'" in str(caught.value.__notes__)


def test_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    ds = xr.Dataset({"v": (("t", "x"), np.arange(600.0).reshape(30, 20))})
    with dask_cluster(threads=2) as cluster, distributed.Client(cluster):
        encoding = {"v": {"chunks": (2, 5), "shards": (8, 10)}}
        to_zarr(ds.chunk(t=7, x=3), tmp_path / "a.zarr", encoding=encoding, safe_chunks=False)
        xr.testing.assert_equal(xr.open_dataset(tmp_path / "a.zarr", engine="zarr").load(), ds)
        to_zarr(ds.chunk(t=7), tmp_path / "a.zarr", append_dim="t", align_chunks=True)
    found = xr.open_dataset(tmp_path / "a.zarr", engine="zarr").load()
    xr.testing.assert_equal(found, xr.concat([ds, ds], "t"))


def test_a_group_of_another_type(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="group must be a string or None, found 3"):
        to_zarr(xr.Dataset(), tmp_path / "a.zarr", group=3)  # type: ignore[arg-type]
    assert not (tmp_path / "a.zarr").exists()
