"""`hyperslab.zarr.Store`: our stores, and HDF5 and NetCDF files, for zarr-python."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
import pytest_asyncio
import zarr
from hyperslab.errors import UnsupportedError
from hyperslab.zarr import Store
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.testing.store import StoreTests


@pytest.mark.filterwarnings("ignore:.*is not an async function")
@pytest.mark.asyncio
class TestStore(StoreTests[Store, cpu.Buffer]):
    """zarr-python's own tests of stores."""

    store_cls = Store
    buffer_cls = cpu.Buffer

    @pytest.fixture(params=["directory", "memory", "below"])
    def store_kwargs(self, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
        """Returns a directory, a store in memory, or a path below a store."""
        places = {
            "directory": str(tmp_path / "a"),
            "memory": f"memory://{tmp_path.name}",
            "below": f"memory://below-{tmp_path.name}/a/b",
        }
        return {"store": places[request.param]}

    @pytest_asyncio.fixture
    async def store(self, open_kwargs: dict[str, Any]) -> Store:
        """Returns an open store."""
        return await Store.open(**open_kwargs)

    @pytest_asyncio.fixture
    async def store_not_open(self, store_kwargs: dict[str, Any]) -> Store:
        """Returns a store that is not open."""
        return Store(**store_kwargs)

    def _key(self, store: Store, key: str) -> str:
        return "/".join(part for part in (store._path, key) if part)

    async def set(self, store: Store, key: str, value: Any) -> None:
        """Writes without the store's own methods."""
        store._place.set(self._key(store, key), value.to_bytes())

    async def get(self, store: Store, key: str) -> Any:
        """Reads without the store's own methods."""
        return self.buffer_cls.from_bytes(store._place.get(self._key(store, key)) or b"")

    def test_store_repr(self, store: Store) -> None:
        """The text shows the location."""
        assert repr(store) == f"Store({str(store)!r})"

    def test_store_supports_writes(self, store: Store) -> None:
        """The store can be written."""
        assert store.supports_writes

    def test_store_supports_partial_writes(self, store: Store) -> None:
        """The store cannot be written in parts."""
        assert not store.supports_partial_writes

    def test_store_supports_listing(self, store: Store) -> None:
        """The store can be listed."""
        assert store.supports_listing


@pytest.fixture
def hdf5(tmp_path: Path) -> Path:
    """Writes a file with everything that Zarr can express, and some things that it cannot."""
    path = tmp_path / "x.h5"
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, (7, 10)).astype("i4")
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "Rhône"
        file.attrs["levels"] = np.array([1, 2, 3])
        group = file.create_group("a/b")
        group.create_dataset("plain", data=values)
        group.create_dataset("cut", data=values, chunks=(3, 4))
        group.create_dataset("deflate", data=values, chunks=(3, 4), compression="gzip", shuffle=True)
        group.create_dataset("zstd", data=values, chunks=(3, 4), **hdf5plugin.Zstd())
        group.create_dataset("blosc", data=values, chunks=(3, 4), **hdf5plugin.Blosc())
        group.create_dataset("checked", data=values.astype(">f8"), chunks=(3, 4), fletcher32=True)
        group.create_dataset("big", data=values.astype(">i2"), chunks=(3, 4), compression="gzip")
        sparse = group.create_dataset("sparse", (20, 20), "f4", chunks=(5, 5), fillvalue=7.5)
        sparse[6, 6] = 1
        file["scalar"] = 3.5
        file["texts"] = ["Rhône", "", "Rhein"]
        file["ascii"] = np.array([b"ab", b"c"])
        file["flags"] = [True, False]
        file["complex"] = np.array([1 + 2j])
        file["nothing"] = h5py.Empty("f4")
        file["to"] = np.array([file["a"].ref], h5py.ref_dtype)
        file["x"] = np.arange(10.0)
        file["x"].make_scale("x")
        group["round"] = file["a"]
        group["dangling"] = h5py.SoftLink("/nowhere")
        group["cut"].dims[1].attach_scale(file["x"])
        group["cut"].attrs["units"] = "m"
        group["cut"].attrs["missing"] = np.float32(-9.5)
        # This chunk is stored without its filters.
        group["deflate"].id.write_direct_chunk((0, 0), values[:3, :4].tobytes(), filter_mask=0b11)
    return path


def test_hdf5_for_zarr(hdf5: Path) -> None:
    """Values, types, attributes and dimension names are the same as in h5py."""
    store = Store(hdf5)
    root = zarr.open_group(store, mode="r")
    assert dict(root.attrs) == {"title": "Rhône", "levels": [1, 2, 3]}
    with h5py.File(hdf5) as file:
        names = [name for name in file["a/b"] if name not in ("round", "dangling")]
        assert list(root["a/b"].group_keys()) == []
        assert sorted(root["a/b"].array_keys()) == sorted(names)
        for name in names:
            found, expected = root[f"a/b/{name}"], file[f"a/b/{name}"]
            assert found.dtype == expected.dtype.newbyteorder("="), name
            np.testing.assert_array_equal(found[:], expected[:], err_msg=name)
            np.testing.assert_array_equal(found[1::2, 3], expected[1::2, 3], err_msg=name)
            if expected.chunks:
                assert found.chunks == expected.chunks
        cut = root["a/b/cut"]
        assert dict(cut.attrs) == {"units": "m", "missing": -9.5}
        # netCDF gives this name to an axis without a scale.
        assert cut.metadata.dimension_names == ("phony_dim_1", "x")
        assert root["a/b/sparse"].fill_value == 7.5
        assert root["scalar"][()] == 3.5
        assert root["texts"][:].tolist() == ["Rhône", "", "Rhein"]
        assert root["ascii"][:].tolist() == [b"ab", b"c"]
        assert root["flags"][:].tolist() == [True, False]
        assert root["complex"][:].tolist() == [1 + 2j]
        # Zarr cannot express these datasets, so they are not there.
        assert "nothing" not in root and "to" not in root


def test_bytes_of_chunks_stay(hdf5: Path) -> None:
    """Chunks are returned as stored if Zarr has their codecs."""
    store = Store(hdf5)
    with h5py.File(hdf5) as file:
        for name in ("cut", "deflate", "zstd", "big"):
            _, stored = file["a/b"][name].id.read_direct_chunk((3, 4))
            found = store.get_sync(f"a/b/{name}/c/1/1")
            assert found is not None and found.to_bytes() == stored, name
        # This chunk was not filtered: the metadata do not describe its stored bytes.
        _, stored = file["a/b/deflate"].id.read_direct_chunk((0, 0))
        found = store.get_sync("a/b/deflate/c/0/0")
        assert found is not None and found.to_bytes() != stored
    assert store.get_sync("a/b/sparse/c/0/0") is None
    assert store.get_sync("a/b/sparse/c/1/1") is not None


def test_keys_of_a_file(hdf5: Path) -> None:
    """Every listed key has bytes, and the right size. Other keys have none."""
    store = Store(hdf5)

    async def everything() -> dict[str, bytes]:
        found = {}
        async for key in store.list():
            buffer = await store.get(key, default_buffer_prototype())
            if buffer is not None:
                found[key] = buffer.to_bytes()
                assert await store.getsize(key) == len(found[key])
        return found

    import asyncio

    found = asyncio.run(everything())
    assert {"zarr.json", "a/zarr.json", "a/b/zarr.json", "a/b/cut/zarr.json", "a/b/cut/c/2/2"} <= set(found)
    assert "scalar/c" in found and "a/b/cut/c/3/0" not in found
    for key in (
        "c",
        "a/c/0",
        "a/b/cut/c/0",
        "a/b/cut/c/00/0",
        "a/b/cut/c/-1/0",
        "a/b/cut/c/3/0",
        "q/zarr.json",
        "",
    ):
        assert store.get_sync(key) is None, key


def test_a_file_is_read_only(hdf5: Path) -> None:
    """Nothing can be written. A pickled store reads the same."""
    store = Store(hdf5)
    assert store.read_only and not store.supports_writes
    with pytest.raises(UnsupportedError, match="read only"):
        store.with_read_only(False)
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_group(store, mode="r+").create_group("new")
    again = pickle.loads(pickle.dumps(store))
    assert again == store and zarr.open_group(again, mode="r")["scalar"][()] == 3.5


def test_zarr_of_ours(tmp_path: Path) -> None:
    """hyperslab reads what zarr-python writes through the store, and the reverse."""
    store = Store(tmp_path / "z.zarr")
    z = zarr.create_array(store, name="a", shape=(9, 9), chunks=(2, 3), shards=(4, 6), dtype="i4")
    z[:] = np.arange(81).reshape(9, 9)
    ours = hs.open_array(tmp_path / "z.zarr/a", mode="r+")
    np.testing.assert_array_equal(ours[:], np.arange(81).reshape(9, 9))
    ours[2:5, 1] = -1
    expected = np.arange(81).reshape(9, 9)
    expected[2:5, 1] = -1
    np.testing.assert_array_equal(zarr.open_array(store, path="a", mode="r")[:], expected)


def test_xarray_of_hdf5(tmp_path: Path) -> None:
    """xarray's engine "zarr" reads a NetCDF file as its engine "h5netcdf" does."""
    xr = pytest.importorskip("xarray")
    path = tmp_path / "x.nc"
    data = xr.Dataset(
        {"t": (("y", "x"), np.random.default_rng(0).normal(size=(6, 8)), {"units": "K"})},
        coords={"x": np.arange(8.0), "y": np.arange(6)},
        attrs={"title": "one"},
    )
    data.to_netcdf(path, engine="h5netcdf", encoding={"t": {"zlib": True, "chunksizes": (3, 4)}})
    found = xr.open_dataset(Store(path), engine="zarr", consolidated=False)
    xr.testing.assert_identical(found.load(), xr.open_dataset(path, engine="h5netcdf").load())


def test_dimensions_of_netcdf_without_values_are_no_arrays(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    path = tmp_path / "x.nc"
    xr.Dataset({"t": (("time", "x"), np.arange(6.0).reshape(2, 3))}, {"x": [1.0, 2.0, 3.0]}).to_netcdf(
        path, engine="h5netcdf"
    )
    root = zarr.open_group(Store(path), mode="r")
    assert sorted(root.array_keys()) == ["t", "x"]
    assert root["t"].metadata.dimension_names == ("time", "x")
    assert "time" not in root
