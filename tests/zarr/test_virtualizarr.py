"""Our parser for VirtualiZarr makes the same manifests as VirtualiZarr's own parser.

Runs only if VirtualiZarr is installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab.zarr
import numpy as np
import pytest
import xarray as xr
import zarr
from hyperslab.errors import UnsupportedError

virtualizarr = pytest.importorskip("virtualizarr")
obspec_registry = pytest.importorskip("obspec_utils.registry")
obstore = pytest.importorskip("obstore.store")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # Codecs and types that Zarr v3 does not specify.
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def registry() -> Any:
    return obspec_registry.ObjectStoreRegistry({"file://": obstore.LocalStore()})


def parsed(path: Path, registry: Any, **keywords: Any) -> Any:
    return hyperslab.zarr.VirtualizarrParser(**keywords)(f"file://{path}", registry)


def make(path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        "plain": rng.integers(0, 99, (6, 4)).astype("i4"),
        "chunks": rng.random((7, 5)),
        "gzip": rng.integers(0, 9, (20, 30)).astype("i2"),
        "big": rng.integers(0, 9, (5, 5)).astype(">f4"),
        "scalar": np.float64(2.5),
    }
    options: dict[str, dict[str, Any]] = {
        "chunks": {"chunks": (3, 2)},
        "gzip": {"chunks": (8, 8), "compression": "gzip", "shuffle": True},
        "big": {"chunks": (2, 5)},
    }
    with h5py.File(path, "w") as file:
        group = file.create_group("g")
        for name, value in values.items():
            group.create_dataset(name, data=value, **options.get(name, {}))
        group["gzip"].attrs["units"] = "m/s"
        group.attrs["title"] = "test"
        sparse = group.create_dataset("sparse", (10,), "i4", chunks=(2,), fillvalue=7)
        sparse[4:6] = 1
        values["sparse"] = sparse[:]
    return values


def test_chunks_stay_where_they_are(tmp_path: Path, registry: Any) -> None:
    values = make(tmp_path / "a.h5")
    store = parsed(tmp_path / "a.h5", registry)
    theirs = virtualizarr.parsers.HDFParser()(f"file://{tmp_path / 'a.h5'}", registry)
    group, same = store._group["g"], theirs._group["g"]
    assert sorted(group) == sorted(same) == sorted(values)
    for name in values:
        ours, expected = group[name].manifest, same[name].manifest
        assert ours.dict() == expected.dict(), name
        assert not ours._inlined
        assert group[name].shape == same[name].shape
        assert group[name].metadata.chunks == same[name].metadata.chunks
    read = zarr.open_group(store, mode="r")["g"]
    assert read.attrs["title"] == "test"
    assert read["gzip"].attrs["units"] == "m/s"
    for name, value in values.items():
        np.testing.assert_array_equal(read[name][...], value, name)


def test_what_zarr_has_not_is_copied_or_refused(tmp_path: Path, registry: Any) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["names"] = np.array(["Rhine", "", "Rhône"], dtype=object)
        file.create_dataset("lzf", data=np.arange(5000), chunks=(1000,), compression="lzf")
    read = zarr.open_group(parsed(path, registry), mode="r")
    assert read["names"][:].tolist() == ["Rhine", "", "Rhône"]
    np.testing.assert_array_equal(read["lzf"][:], np.arange(5000))
    with pytest.raises(UnsupportedError, match="'lzf'.*40000 bytes.*inline=30000"):
        parsed(path, registry, inline=30000)
    assert list(parsed(path, registry, inline=30000, drop_variables=["lzf"])._group) == ["names"]


def test_files_of_netcdf_as_xarray_opens_them(tmp_path: Path, registry: Any) -> None:
    ds = xr.Dataset(
        {"t": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"})},
        {"x": [1.0, 2.0, 3.0]},
        {"title": "ocean"},
    )
    for engine, format in (("h5netcdf", None), ("netcdf4", "NETCDF4"), ("netcdf4", "NETCDF3_CLASSIC")):
        path = tmp_path / f"{format}.nc"
        ds.to_netcdf(path, engine=engine, format=format, unlimited_dims=["time"])
        parser = hyperslab.zarr.VirtualizarrParser()
        with virtualizarr.open_virtual_dataset(f"file://{path}", registry, parser=parser) as virtual:
            assert dict(virtual.sizes) == {"time": 4, "x": 3}
            assert virtual.attrs["title"] == "ocean"
        found = xr.open_zarr(parser(f"file://{path}", registry), consolidated=False, zarr_format=3)
        xr.testing.assert_identical(found.load(), xr.load_dataset(path, engine=engine))


def test_what_is_no_file_is_refused(tmp_path: Path, registry: Any) -> None:
    make(tmp_path / "a.h5")
    zarr.create_group(tmp_path / "x.zarr")
    with pytest.raises(UnsupportedError, match="ZarrParser"):
        parsed(tmp_path / "x.zarr", registry)
    with pytest.raises(UnsupportedError, match="no group 'nothing'"):
        parsed(tmp_path / "a.h5", registry, group="nothing")
    assert "gzip" in parsed(tmp_path / "a.h5", registry, group="/g")._group


def test_virtual_chunks_in_icechunk(tmp_path: Path, registry: Any) -> None:
    icechunk = pytest.importorskip("icechunk")
    values = make(tmp_path / "a.h5")
    parser = hyperslab.zarr.VirtualizarrParser(group="g", drop_variables=["big", "scalar"])
    virtual = parser(f"file://{tmp_path / 'a.h5'}", registry).to_virtual_dataset(loadable_variables=[])
    config = icechunk.RepositoryConfig.default()
    prefix = f"file://{tmp_path}/"
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path)))
    config.set_virtual_chunk_container(container)
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={prefix: None}
    )
    session = repository.writable_session("main")
    virtual.vz.to_icechunk(session.store)
    session.commit("virtual")
    found = hyperslab.open(repository.readonly_session("main").store)
    for name in ("plain", "chunks", "gzip", "sparse"):
        np.testing.assert_array_equal(found[name][:], values[name], name)
