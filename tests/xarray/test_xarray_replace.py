"""`to_zarr(mode="w")`: the old dataset stays until the new one is complete.

If the new one is refused or fails, the old one stays for good.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import dask_cluster, files_below

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
pytest.importorskip("dask.array")

from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402
from hyperslab.xarray import to_zarr  # noqa: E402

KINDS = ["disk", "memory", "zip", "dictionary", "mapping", "zarr-python"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Recorded(UserDict[str, bytes]):
    """A mapping that is no dictionary. Records the stored objects in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[str] = []

    def __setitem__(self, key: str, value: bytes) -> None:
        self.stored.append(key)
        super().__setitem__(key, value)


def place_of(kind: str, folder: Path) -> Any:
    return {
        "disk": lambda: folder / "a.zarr",
        "memory": hs.MemoryStore,
        "zip": lambda: hs.storage.ZipStore(folder / "a.zip", mode="w"),
        "dictionary": dict,
        "mapping": Recorded,
        "zarr-python": zarr.storage.MemoryStore,
    }[kind]()


def objects(place: Any) -> dict[str, Any]:
    """Returns all objects of a place, byte for byte."""
    if isinstance(place, Path):
        return dict(files_below(place))
    if isinstance(place, dict | Recorded):
        return dict(place)
    store = hs.open_group(place, mode="r").store
    return {key: store.get(key) for key in store.list()}


OLD = {"v": ("x", np.ones(10)), "w": ("y", [1, 2])}


def old() -> Any:
    return xr.Dataset(OLD, attrs={"old": True})


def failing(block: Any) -> Any:
    raise ZeroDivisionError("a task that fails")


def _refused() -> dict[str, tuple[Any, dict[str, Any], type[Exception]]]:
    new = xr.Dataset({"a": ("x", np.zeros(10)), "v": ("x", np.zeros(10))})
    lazy = new.chunk(x=5)
    tree = xr.DataTree.from_dict({"/": new, "/below": new.assign_attrs(a={1})})
    return {
        "unknown encoding": (new, {"encoding": {"v": {"bogus": 1}}}, ValueError),
        "encoding of nothing": (new, {"encoding": {"q": {}}}, KeyError),
        "blocks that share chunks": (new.chunk(x=3), {"encoding": {"v": {"chunks": (4,)}}}, ValueError),
        "compressor": (new, {"encoding": {"v": {"compressors": "nonsense"}}}, TypeError),
        "shards": (new, {"encoding": {"v": {"chunks": (2,), "shards": (3,)}}}, ValueError),
        "attribute": (new.assign_attrs(a={1, 2}), {}, TypeError),
        "attribute of a variable": (new.assign(v=new.v.assign_attrs(a=object())), {}, TypeError),
        "objects": (new.assign(o=("x", np.array([1, "a"] * 5, object))), {}, ValueError),
        "name": (new.rename(v=""), {}, ValueError),
        "attribute of a group below": (tree, {}, TypeError),
        "task": (lazy.map_blocks(failing, template=lazy), {}, ZeroDivisionError),
        "read only": (new, {"mode": "w", "place": "read only"}, ValueError),
    }


@pytest.mark.parametrize("what", _refused())
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_destroys_nothing(kind: str, what: str, tmp_path: Path) -> None:
    place = place_of(kind, tmp_path)
    to_zarr(old(), place, mode="w")
    before = objects(place)
    ds, options, error = _refused()[what]
    target = place
    if options.pop("place", None):
        target = hs.open_group(place, mode="r").store
    with pytest.raises(error):
        to_zarr(ds, target, **{"mode": "w", **options})
    assert objects(place) == before
    if kind == "disk":
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("gathered", [32 << 20, 0])
def test_replaced(
    kind: str, zarr_format: Any, gathered: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", gathered)
    place = place_of(kind, tmp_path)
    to_zarr(old(), place, zarr_format=zarr_format)
    new = xr.Dataset(
        {"v": (("t", "x"), np.arange(12.0).reshape(4, 3)), "s": ("x", ["a", "b", "c"])},
        {"t": np.array(["2025-01-01", "2025-01-03", "2025-02-01", "2025-02-02"], "M8[ns]")},
        {"title": "new"},
    )
    for ds in (new.chunk(t=2), new):
        group = to_zarr(ds, place, mode="w", zarr_format=zarr_format, encoding={"v": {"chunks": (2, 3)}})
        assert sorted(group) == ["s", "t", "v"] and dict(group.attrs) == {"title": "new"}
        assert group["v"].chunks == (2, 3) and group.zarr_format == zarr_format
        opened = place
        if kind in ("dictionary", "mapping"):
            opened = hs.MemoryStore(place)
        found = xr.open_dataset(opened, engine=Engine, consolidated=True)
        xr.testing.assert_identical(found.load(), new)
        assert not [key for key in objects(place) if key.startswith("w")]
    if kind == "disk":
        xr.testing.assert_identical(xr.open_dataset(place, engine="zarr").load(), new)


@pytest.mark.parametrize("chunks", [None, {}, {"x": 2}])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [None, "below/it"])
def test_over_itself(kind: str, chunks: Any, group: str | None, tmp_path: Path) -> None:
    place = place_of(kind, tmp_path)
    ds = xr.Dataset({"v": (("y", "x"), np.arange(70.0).reshape(10, 7))}, {"x": np.arange(7) * 2})
    to_zarr(old(), place)
    to_zarr(ds, place, group=group, mode="w", encoding={"v": {"chunks": (5, 2)}})
    opened = hs.MemoryStore(place) if kind in ("dictionary", "mapping") else place
    lazy = xr.open_dataset(opened, engine=Engine, chunks=chunks, group=group)
    to_zarr(lazy, place, group=group, mode="w")
    found = xr.open_dataset(opened, engine=Engine, group=group).load()
    xr.testing.assert_identical(found, ds)
    if group:
        xr.testing.assert_identical(xr.open_dataset(opened, engine=Engine).load(), old())


@pytest.mark.parametrize("engine", ["hyperslab", "zarr"])
def test_blocks_that_would_be_read_too_late(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that would read the old dataset after its deletion is refused before the deletion."""
    source, other = tmp_path / "a.zarr", tmp_path / "b.zarr"
    ds = xr.Dataset({"v": (("y", "x"), np.arange(70.0).reshape(10, 7))})
    for place in (source, other):
        to_zarr(ds, place, group="g")
        to_zarr(ds, place, mode="a")
    before = objects(source)
    for group in (None, "g"):
        lazy = xr.open_dataset(source, engine=engine, chunks={}, group=group)
        made = (lazy * 2).isel(x=[0, 1]).map_blocks(lambda block: block + 1)
        with pytest.raises(ValueError, match="read lazily"):
            to_zarr(made, source, mode="w", compute=False)
        assert objects(source) == before
    # The source is another group. The group above is not replaced.
    above = xr.open_dataset(source, engine=engine, chunks={})
    to_zarr(above, source, group="g", mode="w", compute=False).compute()
    xr.testing.assert_identical(xr.open_dataset(source, engine="zarr", group="g").load(), ds)
    elsewhere = xr.open_dataset(other, engine=engine, chunks={})
    to_zarr(elsewhere, source, mode="w", compute=False).compute()
    xr.testing.assert_identical(xr.open_dataset(source, engine="zarr").load(), ds)
    # Also in stores that delete the old dataset first.
    monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", 0)
    store = zarr.storage.MemoryStore()
    to_zarr(ds, store)
    kept = objects(store)
    with pytest.raises(ValueError, match="read lazily"):
        to_zarr(xr.open_dataset(store, engine=engine, chunks={}), store, mode="w")
    assert objects(store) == kept


def test_not_computed(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(old(), place)
    new = xr.Dataset({"v": ("x", np.arange(6.0)), "s": ("x", np.arange(6))}).chunk(x=2)
    new["s"].load()
    writing = to_zarr(new, place, mode="w", compute=False)
    # The new dataset is a template, to which regions are written.
    found = xr.open_dataset(place, engine="zarr").load()
    assert {*found.variables} == {"v", "s"} and np.isnan(found["v"]).all()
    assert found["s"].values.tolist() == [0, 1, 2, 3, 4, 5]
    part = new.isel(x=slice(2, 4)) * 10
    to_zarr(part[["v"]], place, region={"x": slice(2, 4)})
    assert xr.open_dataset(place, engine="zarr")["v"].values.tolist()[2:4] == [20.0, 30.0]
    assert writing.compute() is None
    xr.testing.assert_identical(xr.open_dataset(place, engine="zarr").load(), new.compute())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_group_appears_when_it_is_complete(zarr_format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no objects are held back, checks come first and the group's own document last."""
    monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", 0)
    place = Recorded()
    to_zarr(old(), place, zarr_format=zarr_format)
    before = dict(place)
    new = xr.Dataset({"v": ("x", np.arange(10.0)), "u": ("x", np.arange(10))}).chunk(x=5)
    with pytest.raises(ValueError):
        to_zarr(new, place, mode="w", zarr_format=zarr_format, encoding={"u": {"chunks": (4,)}})
    assert dict(place) == before
    place.stored.clear()
    to_zarr(new, place, mode="w", zarr_format=zarr_format)
    own = [key for key in place.stored if "/" not in key]
    assert own and place.stored[-len(own) :] == own
    assert {"zarr.json"} == {*own} if zarr_format == 3 else {".zgroup", ".zmetadata"} <= {*own}
    # A failed task leaves no group, so that nobody takes it for a complete one.
    with pytest.raises(ZeroDivisionError):
        to_zarr(new.map_blocks(failing, template=new), place, mode="w", zarr_format=zarr_format)
    with pytest.raises(FileNotFoundError):
        hs.open_group(place, mode="r")
    to_zarr(new, place, mode="w", zarr_format=zarr_format)
    xr.testing.assert_identical(xr.open_dataset(hs.MemoryStore(place), engine=Engine).load(), new.compute())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_dictionary_keeps_the_old_one(zarr_format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary keeps the old dataset, however large the new one is."""
    monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", 0)
    place: dict[str, bytes] = {}
    to_zarr(old(), place, zarr_format=zarr_format)
    before = dict(place)
    new = xr.Dataset({"v": ("x", np.arange(10.0)), "u": ("x", np.arange(10))}).chunk(x=5)
    for written, options in (
        (new.map_blocks(failing, template=new), {}),
        (new, {"encoding": {"u": {"chunks": (4,)}}}),
    ):
        with pytest.raises((ZeroDivisionError, ValueError)):
            to_zarr(written, place, mode="w", zarr_format=zarr_format, **options)
        assert place == before
    lazy = xr.open_dataset(hs.MemoryStore(place), engine=Engine, chunks={"x": 5}).isel(
        x=slice(None, None, -1)
    )
    to_zarr(lazy * 2, place, mode="w", zarr_format=zarr_format)
    found = xr.open_dataset(hs.MemoryStore(place), engine=Engine).load()
    xr.testing.assert_equal(found, old().isel(x=slice(None, None, -1)) * 2)


def test_other_groups_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for gathered, kind in ((32 << 20, "disk"), (32 << 20, "mapping"), (0, "mapping")):
        monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", gathered)
        place = place_of(kind, tmp_path)
        to_zarr(old(), place, mode="w")
        to_zarr(old(), place, group="a/b")
        to_zarr(old(), place, group="a/c")
        kept = {key: value for key, value in objects(place).items() if key.startswith("a/c")}
        new = xr.Dataset({"n": ("x", np.arange(4))}).chunk(x=2)
        to_zarr(new, place, group="a/b", mode="w")
        opened = hs.MemoryStore(place) if kind in ("dictionary", "mapping") else place
        root = hs.open_group(opened, mode="r", use_consolidated=True)
        assert {path for path, _ in root.members(max_depth=None)} == {
            *("a", "a/b", "a/b/n", "a/c", "a/c/v", "a/c/w", "v", "w")
        }
        assert root["a/b/n"][...].tolist() == [0, 1, 2, 3]
        after = {key: value for key, value in objects(place).items() if key.startswith("a/c")}
        assert after == kept
        # An array is in the way, or the format differs.
        before = objects(place)
        with pytest.raises(ValueError):
            to_zarr(new, place, group="v/b", mode="w")
        with pytest.raises(ValueError):
            to_zarr(new, place, group="a/d", mode="w", zarr_format=2)
        assert objects(place) == before


def test_killed(tmp_path: Path) -> None:
    """The old dataset stays. The next write removes the files that were left beside it."""
    place = tmp_path / "a.zarr"
    to_zarr(old(), place)
    before = objects(place)
    program = """
        import os, sys
        import numpy as np, xarray as xr
        from hyperslab.xarray import to_zarr

        def killed(block):
            if block.size and block[0] >= 4:
                os.kill(os.getpid(), 9)
            return block

        ds = xr.Dataset({"v": ("x", np.arange(8.0)), "big": ("x", np.arange(8))}).chunk(x=4)
        ds["v"] = ds["v"].copy(data=ds["v"].data.map_blocks(killed, dtype="f8", meta=np.zeros(0)))
        to_zarr(ds, sys.argv[1], mode="w")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(place)], timeout=300)
    assert done.returncode == -9
    assert objects(place) == before
    assert len([name for name in os.listdir(tmp_path) if name.startswith(".stage")]) == 1
    to_zarr(old() * 2, place, mode="w")
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert xr.open_dataset(place, engine="zarr")["v"].values.tolist() == [2.0] * 10


def test_workers_of_a_cluster_write_beside(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    place = tmp_path / "a.zarr"
    ds = xr.Dataset({"v": (("t", "x"), np.arange(600.0).reshape(30, 20))})
    with dask_cluster() as cluster, distributed.Client(cluster):
        to_zarr(ds, place, encoding={"v": {"chunks": (3, 5)}})
        before = objects(place)
        lazy = xr.open_dataset(place, engine=Engine, chunks={"t": 6})
        with pytest.raises(ZeroDivisionError):
            to_zarr(lazy.map_blocks(failing, template=lazy), place, mode="w")
        assert objects(place) == before and os.listdir(tmp_path) == ["a.zarr"]
        to_zarr(lazy * 2, place, mode="w")
    xr.testing.assert_equal(xr.open_dataset(place, engine="zarr").load(), ds * 2)
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from object_server_client import Server

    new = xr.Dataset({"v": (("t", "x"), np.arange(40.0).reshape(8, 5)), "n": ("t", np.arange(8))})
    with Server() as server:
        url, options = "s3://bucket/a.zarr", server.s3_options

        def stored() -> dict[str, bytes]:
            return {key: server.get("bucket", key) for key in server.list("bucket")}

        for gathered in (32 << 20, 0):
            monkeypatch.setattr("hyperslab._xarray.write.GATHERED_BYTES", gathered)
            to_zarr(old(), url, mode="w", storage_options=options)
            before = stored()
            for what, (ds, given, error) in _refused().items():
                if what not in ("read only", "task"):
                    with pytest.raises(error):
                        to_zarr(ds, url, mode="w", storage_options=options, **given)
                    assert stored() == before, what
            lazy = xr.open_dataset(url, engine=Engine, storage_options=options, chunks={})
            if gathered:
                with pytest.raises(ZeroDivisionError):
                    to_zarr(lazy.map_blocks(failing, template=lazy), url, mode="w", storage_options=options)
                assert stored() == before
                to_zarr(lazy, url, mode="w", storage_options=options)
            else:
                with pytest.raises(ValueError, match="read lazily"):
                    to_zarr(lazy, url, mode="w", storage_options=options)
            found = xr.open_dataset(url, engine=Engine, storage_options=options).load()
            xr.testing.assert_identical(found, old())
            to_zarr(new.chunk(t=4), url, mode="w", storage_options=options)
            found = xr.open_dataset(url, engine=Engine, storage_options=options, consolidated=True).load()
            xr.testing.assert_identical(found, new)
            assert not [key for key in stored() if "/w/" in key]
            writing = to_zarr(new.chunk(t=4) * 2, url, mode="w", storage_options=options, compute=False)
            found = xr.open_dataset(url, engine=Engine, storage_options=options).load()
            assert np.isnan(found["v"].values).all()
            writing.compute()
            found = xr.open_dataset(url, engine=Engine, storage_options=options).load()
            xr.testing.assert_identical(found, new * 2)


def test_a_cluster_writes_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    from object_server_client import Server

    # Workers have only the secrets in their environment.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    url = "s3://bucket/a.zarr"
    ds = xr.Dataset({"v": (("t", "x"), np.arange(600.0).reshape(30, 20))})
    with Server() as server, dask_cluster() as cluster, distributed.Client(cluster):
        options = {"endpoint_url": server.url, "region": "us-east-1"}
        to_zarr(old(), url, storage_options=options)
        to_zarr(ds.chunk(t=6), url, mode="w", storage_options=options)
        found = xr.open_dataset(url, engine=Engine, storage_options=options)
        xr.testing.assert_identical(found.load(), ds)
        assert not [key for key in server.list("bucket") if "/w/" in key]
