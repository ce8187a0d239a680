"""Stores of zarr-python without consolidated metadata: it is neither stored nor trusted."""

from __future__ import annotations

from typing import Any

import hyperslab as hs
import hyperslab.xarray
import numpy as np
import pytest
import xarray as xr
import zarr
from hyperslab.storage import ZarrStore
from zarr.storage import MemoryStore, WrapperStore

pytestmark = pytest.mark.filterwarnings("ignore")


class Plain(WrapperStore[Any]):
    supports_consolidated_metadata = False

    def with_read_only(self, read_only: bool = False) -> Any:
        return Plain(self._store.with_read_only(read_only))


@pytest.fixture(params=[2, 3])
def stores(request: Any) -> tuple[Plain, MemoryStore]:
    """Returns a store, and the one that it wraps, whose consolidated metadata is stale."""
    inner = MemoryStore()
    xr.Dataset({"a": ("x", [1, 2, 3])}).to_zarr(inner, consolidated=True, zarr_format=request.param)
    store = Plain(inner)
    zarr.open_group(store, mode="r+").create_array("b", data=np.arange(2))
    zarr.open_group(store, mode="r+")["a"].attrs["units"] = "m"
    return store, inner


def test_it_is_not_believed(stores: tuple[Plain, MemoryStore]) -> None:
    store, inner = stores
    assert sorted(hs.open_group(inner)) == ["a"]
    group = hs.open_group(store)
    assert sorted(group) == sorted(zarr.open_group(store)) == ["a", "b"]
    assert group["a"].attrs["units"] == "m"
    assert group.metadata.consolidated_metadata is None
    for use in (None, False):
        assert sorted(hs.open_group(store, use_consolidated=use)) == ["a", "b"]
    for opened in (
        lambda: hs.open_group(store, use_consolidated=True),
        lambda: hs.open_consolidated(store),
        lambda: zarr.open_group(store, use_consolidated=True),
    ):
        with pytest.raises(ValueError, match="consolidated metadata"):
            opened()


def test_it_is_not_stored(stores: tuple[Plain, MemoryStore]) -> None:
    store, inner = stores
    before = {key: value.to_bytes() for key, value in inner._store_dict.items()}
    for consolidate in (hs.consolidate_metadata, zarr.consolidate_metadata):
        with pytest.raises(TypeError, match="consolidated metadata"):
            consolidate(store)
    with pytest.raises(TypeError):
        hs.open_group(store).consolidate()
    assert {key: value.to_bytes() for key, value in inner._store_dict.items()} == before
    assert ZarrStore(store).supports_consolidated_metadata is False
    assert ZarrStore(inner).supports_consolidated_metadata is True


@pytest.mark.parametrize("consolidated", [None, True, False])
def test_xarray(stores: tuple[Plain, MemoryStore], consolidated: bool | None) -> None:
    store, _ = stores
    zarr.open_group(store, mode="r+").create_array("c", data=np.arange(3), overwrite=True)
    del zarr.open_group(store, mode="r+")["b"]
    del zarr.open_group(store, mode="r+")["c"]
    right = xr.open_dataset(store, engine="zarr", consolidated=consolidated).load()
    for given in (store, ZarrStore(store)):
        xr.testing.assert_identical(
            xr.open_dataset(given, engine="hyperslab", consolidated=consolidated).load(), right
        )
    assert right.a.attrs == {"units": "m"}


def test_to_zarr() -> None:
    inner = MemoryStore()
    dataset = xr.Dataset({"a": ("x", [1, 2, 3])})
    for given in (Plain(inner), ZarrStore(Plain(inner))):
        for consolidated in (None, True, False):
            hs.xarray.to_zarr(dataset, given, mode="w", consolidated=consolidated)
            xr.testing.assert_identical(xr.open_dataset(Plain(inner), engine="zarr").load(), dataset)
            assert b"consolidated" not in inner._store_dict["zarr.json"].to_bytes()
