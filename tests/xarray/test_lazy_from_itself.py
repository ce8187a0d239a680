"""Lazy values written to the place they are read from.

Each task writes the right elements, or the first write is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import files_below

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")
da = pytest.importorskip("dask.array")

import hyperslab.dask as hd  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402
from hyperslab.xarray import to_zarr  # noqa: E402

ENGINES = pytest.mark.parametrize("engine", [Engine, "zarr"])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab._dask.blocks.LOADED_BYTES", 0)


def made(folder: Path, zarr_format: Any = 3) -> Path:
    place = folder / "m.zarr"
    packed = {"chunks": (2,), "dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    ds = xr.Dataset({"a": ("y", np.arange(8.0)), "b": ("y", np.arange(8.0) * 10), "c": ("y", np.ones(8))})
    encoding = {"a": {"chunks": (2,)}, "b": packed, "c": {"chunks": (2,)}}
    to_zarr(ds, place, encoding=encoding, zarr_format=zarr_format)
    return place


def lazy(place: Path, engine: Any = Engine, **chunks: int) -> Any:
    return xr.open_dataset(place, engine=engine, chunks=chunks or {"y": 2})


def values(place: Path, name: str) -> list[float]:
    return list(xr.open_dataset(place, engine=Engine)[name].values)


UP = [0.0, 1, 2, 3, 4, 5, 6, 7]
TENS = [0.0, 10, 20, 30, 40, 50, 60, 70]


@ENGINES
def test_blocks_of_others_are_read_first(engine: Any, tmp_path: Path) -> None:
    place = made(tmp_path)
    to_zarr(lazy(place, engine).isel(y=slice(None, None, -1)), place, mode="r+")
    assert values(place, "a") == UP[::-1] and values(place, "b") == TENS[::-1]


@ENGINES
def test_names_that_change_places(engine: Any, tmp_path: Path) -> None:
    place = made(tmp_path)
    to_zarr(lazy(place, engine).rename(a="c", c="a"), place, mode="a")
    assert values(place, "a") == [1.0] * 8 and values(place, "c") == UP and values(place, "b") == TENS


def test_regions(tmp_path: Path) -> None:
    place = made(tmp_path)
    part = lazy(place)[["a"]].isel(y=slice(2, 8))
    to_zarr(part.drop_vars("y", errors="ignore"), place, region={"y": slice(0, 6)})
    assert values(place, "a") == [2, 3, 4, 5, 6, 7, 6, 7]


def test_values_in_memory_are_written_after_the_lazy_ones_are_read(tmp_path: Path) -> None:
    place = made(tmp_path)
    ds = lazy(place)
    to_zarr(xr.Dataset({"a": ds.c + 1, "c": ("y", np.zeros(8))}), place, mode="r+")
    assert values(place, "a") == [2.0] * 8 and values(place, "c") == [0.0] * 8


def test_new_variables_read_old_values(tmp_path: Path) -> None:
    place = made(tmp_path)
    ds = lazy(place)
    to_zarr(xr.Dataset({"new": ds.a.isel(y=slice(None, None, -1)), "a": ds.a + 1}), place, mode="a")
    assert values(place, "new") == UP[::-1] and values(place, "a") == [each + 1 for each in UP]


def test_all_blocks_are_read_by_each(tmp_path: Path) -> None:
    place = made(tmp_path)
    ds = lazy(place)
    to_zarr(ds - ds.mean(), place, mode="r+")
    assert values(place, "a") == [each - 3.5 for each in UP]


@ENGINES
@pytest.mark.usefixtures("nothing_is_loaded")
def test_what_would_be_torn_is_refused(engine: Any, tmp_path: Path) -> None:
    place = made(tmp_path)
    before = files_below(place)
    ds = lazy(place, engine)
    back = ds.isel(y=slice(None, None, -1))
    cases: list[tuple[Any, dict[str, Any]]] = [
        (back, {"mode": "r+"}),
        (back[["b"]], {"mode": "a"}),
        (ds.rename(a="c", c="a"), {"mode": "a"}),
        (ds[["a"]].isel(y=slice(2, 8)), {"region": {"y": slice(0, 6)}}),
        (ds - ds.mean(), {"mode": "r+"}),
        (xr.Dataset({"a": ds.c, "c": ds.a + 1}), {"mode": "r+"}),
        (lazy(place, engine, y=3) + 1, {"mode": "r+", "safe_chunks": False}),
    ]
    for each, options in cases:
        with pytest.raises(
            hs.errors.InvalidArgumentError, match=r"variable '.' is read lazily from .*m\.zarr"
        ):
            to_zarr(each, place, **options)
        assert files_below(place) == before


def test_nothing_is_read_first_where_nothing_is_computed(tmp_path: Path) -> None:
    place = made(tmp_path)
    before = files_below(place)
    with pytest.raises(hs.errors.InvalidArgumentError, match="With compute=False nothing is read"):
        to_zarr(lazy(place).isel(y=slice(None, None, -1)), place, mode="r+", compute=False)
    assert files_below(place) == before
    to_zarr(lazy(place) + 1, place, mode="r+", compute=False).compute()
    assert values(place, "a") == [each + 1 for each in UP]


@ENGINES
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.usefixtures("nothing_is_loaded")
def test_blocks_that_replace_what_they_read(engine: Any, zarr_format: Any, tmp_path: Path) -> None:
    place = made(tmp_path, zarr_format)
    ds = lazy(place, engine)
    ds["a"] = ds.a + 1
    to_zarr(ds, place, mode="r+")
    assert values(place, "a") == [each + 1 for each in UP] and values(place, "b") == TENS
    # All tasks may read variables that are stored unchanged.
    ds = lazy(place, engine, y=4)
    ds["d"] = ds.a + ds.b.isel(y=slice(None, None, -1))
    to_zarr(ds, place, mode="a")
    assert values(place, "d") == [a + 1 + b for a, b in zip(UP, TENS[::-1], strict=True)]
    ds = lazy(place, engine)
    part = ds[["b"]].isel(y=slice(2, 6)) * 2
    to_zarr(part, place, region={"y": slice(2, 6)})
    assert values(place, "b") == [0, 10, 40, 60, 80, 100, 60, 70]


@pytest.mark.usefixtures("nothing_is_loaded")
def test_selections_before_blocks(tmp_path: Path) -> None:
    place = made(tmp_path)
    part = xr.open_dataset(place, engine=Engine)[["b"]].isel(y=slice(2, 6)).chunk(y=2)
    to_zarr(part + 1, place, region={"y": slice(2, 6)})
    assert values(place, "b") == [0, 10, 21, 31, 41, 51, 60, 70]
    with pytest.raises(hs.errors.InvalidArgumentError, match="is read lazily"):
        to_zarr(part + 1, place, region={"y": slice(4, 8)})


@ENGINES
@pytest.mark.usefixtures("nothing_is_loaded")
def test_rows_of_itself_are_appended(engine: Any, tmp_path: Path) -> None:
    place = made(tmp_path)
    to_zarr(lazy(place, engine).isel(y=slice(None, None, -1)), place, append_dim="y")
    assert values(place, "a") == UP + UP[::-1] and values(place, "b") == TENS + TENS[::-1]


# ---- hyperslab.dask.store


def numbers(**changes: Any) -> hs.Array:
    return hs.create_array({}, data=np.arange(8), **{"chunks": (2,), **changes})


@pytest.mark.parametrize("inline", [True, False])
def test_store(inline: bool) -> None:
    a = numbers()
    hd.store(hd.from_array(a, chunks=2, inline_array=inline)[::-1], a)
    assert list(a[...]) == [7, 6, 5, 4, 3, 2, 1, 0]
    hd.store(da.from_array(a, chunks=2)[2:], a, region=slice(0, 6), align="serialize")
    assert list(a[...]) == [5, 4, 3, 2, 1, 0, 1, 0]


@pytest.mark.usefixtures("nothing_is_loaded")
def test_store_in_place() -> None:
    a = numbers()
    x = hd.from_array(a, chunks=2)
    hd.store(x + 1, a)
    assert list(a[...]) == [1, 2, 3, 4, 5, 6, 7, 8]
    hd.store(hd.from_array(a, chunks=4, threads=1)[4:] * 2, a, region=slice(4, 8))
    assert list(a[...]) == [1, 2, 3, 4, 10, 12, 14, 16]
    for torn, region in ((x[::-1], None), (x[2:], slice(0, 6)), (hd.from_array(a, chunks=3) + 1, None)):
        with pytest.raises(hs.errors.InvalidArgumentError, match=r"^x is read lazily from memory://"):
            hd.store(torn, a, region=region)
    # The task reads everything, but writes only a part that no other task reads.
    hd.store(hd.from_array(a, chunks=8)[2:4] + 1, a, region=slice(2, 4))
    assert list(a[...]) == [1, 2, 4, 5, 10, 12, 14, 16]


def test_store_that_is_not_computed_yet() -> None:
    a = numbers()
    with pytest.raises(hs.errors.InvalidArgumentError, match="compute=False"):
        hd.store(hd.from_array(a, chunks=2)[::-1], a, compute=False)
    hd.store(hd.from_array(a, chunks=2) + 1, a, compute=False).compute()
    assert list(a[...]) == [1, 2, 3, 4, 5, 6, 7, 8]
