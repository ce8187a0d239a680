"""Variables shorter than their unlimited dimension: the rest is filled as in netCDF4-python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import _native

xr = pytest.importorskip("xarray")
netCDF4 = pytest.importorskip("netCDF4")
zarr = pytest.importorskip("zarr")

import hyperslab.zarr  # noqa: E402
from hyperslab.xarray import BackendEntrypoint as Engine  # noqa: E402

# netCDF4-python's element types.
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1", "str")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def one(name: str) -> Any:
    return {"S1": np.array([b"a"]), "str": np.array(["a"], object)}.get(name, np.array([1]))


def netcdf(path: Path) -> None:
    """Writes variables of one element on a dimension of five."""
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("t", None)
        f.createDimension("x", 2)
        f.createVariable("long", "i4", ("t",))[:] = np.arange(5)
        for name in TYPES:
            of = str if name == "str" else name
            for fill, options in ((None, {}), (False, {"fill_value": False})):
                if name == "str" and fill is False:
                    continue
                for chunk in (2, 16):
                    made = f"{name}_{fill}_{chunk}"
                    f.createVariable(made, of, ("t",), chunksizes=(chunk,), **options)[:1] = one(name)
        f.createVariable("big", "f4", ("t",), endian="big", fill_value=False)[:1] = [1]
        f.createVariable("zlib", "i4", ("t", "x"), zlib=True, chunksizes=(2, 1), fill_value=False)[:1] = [
            1,
            2,
        ]
        f.createVariable("never", "i4", ("t",), fill_value=False)
        f.createVariable("marked", "i4", ("t",), fill_value=7)[:1] = [1]


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as f:
        f.create_dataset("t", data=np.arange(5.0), maxshape=(None,))
        f["t"].make_scale()
        for name in TYPES:
            of = h5py.string_dtype() if name == "str" else name
            made = f.create_dataset(name, (1,), of, maxshape=(None,), chunks=(2,))
            made[:] = one(name)
            made.dims[0].attach_scale(f["t"])


def values(ds: Any) -> dict[str, Any]:
    return {str(name): np.asarray(ds[name]).tolist() for name in ds.variables}


def paths_of(source: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    """Yields the dataset on every path."""
    options: dict[str, Any] = {"decode_cf": False}
    yield "engine", xr.open_dataset(source, engine=Engine, **options)
    store = hyperslab.zarr.Store(source)
    yield "store", xr.open_dataset(store, engine="zarr", consolidated=False, **options)
    refs = folder / "refs.json"
    assert _native.run_cli(["hyperslab", "index", str(source), "-o", str(refs)]) == 0
    yield "references", xr.open_dataset(refs, engine=Engine, **options)
    formats: tuple[Literal[2, 3], ...] = (2, 3)
    for version in formats:
        copied = folder / f"copy-v{version}.zarr"
        hs.copy(source, copied, zarr_format=version, verify=True)
        yield f"copy to v{version}", xr.open_dataset(copied, engine="zarr", **options)
        planned = folder / f"plan-v{version}.zarr"
        plan = hs.plan_copy(source, planned, zarr_format=version, task_size=1)
        with ThreadPoolExecutor(2) as executor:
            plan.run(executor, verify=True)
        yield f"plan to v{version}", xr.open_dataset(planned, engine="zarr", **options)


def differing(want: dict[str, Any], source: Path, folder: Path) -> list[str]:
    told = []
    for path, ds in paths_of(source, folder):
        with ds:
            found = values(ds)
        assert found.keys() == want.keys(), path
        told += [f"{path}: {name}: {found[name]}" for name in want if found[name] != want[name]]
    return told


@pytest.mark.parametrize("write", [netcdf, hdf5])
def test_the_rest_is_the_fill_value_of_netcdf(write: Any, tmp_path: Path) -> None:
    source = tmp_path / "short.nc"
    write(source)
    with xr.open_dataset(source, engine="netcdf4", decode_cf=False) as ds:
        want = values(ds)
    # The values of netcdf.h.
    name = "i4_False_2" if write is netcdf else "i4"
    assert want[name] == [1] + 4 * [-2147483647]
    assert differing(want, source, tmp_path) == []


def test_elements_that_netcdf4_does_not_read(tmp_path: Path) -> None:
    source = tmp_path / "short.h5"
    aligned = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "aligned": (aligned, np.array((5, 1.5), aligned), (5, 1.5)),
        "packed": (np.dtype([("a", "i1"), ("b", "f8")]), None, (0, 0.0)),
        "text": (h5py.string_dtype(), "zz", "zz"),
        "bytes": ("S3", b"abc", b"abc"),
        "bool": (bool, True, True),
        "half": (">f2", 1.5, 1.5),
        "complex": ("c8", 1 + 2j, 1 + 2j),
    }
    if tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4):
        del kinds["aligned"], kinds["packed"]  # Older versions have no structures in Zarr v3.
    with h5py.File(source, "w") as f:
        f.create_dataset("t", data=np.arange(5.0), maxshape=(None,))
        f["t"].make_scale()
        for name, (of, fill, _) in kinds.items():
            for rows in (0, 2):
                made = f.create_dataset(
                    f"{name}{rows}", (rows,), of, maxshape=(None,), chunks=(2,), fillvalue=fill
                )
                made.dims[0].attach_scale(f["t"])
    want = {f"{name}{rows}": [rest] * 5 for name, (*_, rest) in kinds.items() for rows in (0, 2)}
    for place, ds in (
        ("engine", xr.open_dataset(source, engine=Engine, decode_cf=False)),
        *((path, node) for path, node in read_by_zarr(source, tmp_path)),
    ):
        for name, rest in want.items():
            found = np.asarray(ds[name][...]).tolist()
            assert found == rest, (place, name)


def read_by_zarr(source: Path, folder: Path) -> Iterator[tuple[str, Any]]:
    for version in (2, 3):
        copied, planned = folder / f"copy-v{version}", folder / f"plan-v{version}"
        hs.copy(source, copied, zarr_format=version, verify=True)
        yield f"copy to v{version}", zarr.open_group(copied, mode="r")
        hs.plan_copy(source, planned, zarr_format=version, task_size=1).run(verify=True)
        yield f"plan to v{version}", zarr.open_group(planned, mode="r")
    assert _native.run_cli(["hyperslab", "index", str(source), "-o", str(folder / "refs.json")]) == 0
    yield "references", hs.open_group(folder / "refs.json", mode="r")


def test_inlined_references_have_the_rest(tmp_path: Path) -> None:
    source = tmp_path / "szip.nc"
    with netCDF4.Dataset(source, "w") as f:
        f.createDimension("t", None)
        f.createDimension("x", 8)
        f.createVariable("long", "i4", ("t",))[:] = np.arange(4)
        for of in ("i4", "f4"):
            made = f.createVariable(of, of, ("t", "x"), chunksizes=(2, 4), compression="szip")
            made[:2] = 1
    with xr.open_dataset(source, engine="netcdf4", decode_cf=False) as ds:
        want = values(ds)
    assert want["i4"][2:] == 2 * [8 * [-2147483647]]
    assert differing(want, source, tmp_path) == []


def test_chunks_that_nobody_has_written(tmp_path: Path) -> None:
    """Within the dataset HDF5 returns zeros. Beyond its end NetCDF has its default fill value."""
    source = tmp_path / "holes.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("t", data=np.arange(9), maxshape=(None,)).make_scale()
        made = f.create_dataset("v", (6,), "i4", maxshape=(None,), chunks=(2,))
        made[4] = 1
        made.dims[0].attach_scale(f["t"])
    want = {"t": list(range(9)), "v": [0, 0, 0, 0, 1, 0] + 3 * [-2147483647]}
    assert differing(want, source, tmp_path) == []
    parser = pytest.importorskip("virtualizarr").__name__ and hyperslab.zarr.VirtualizarrParser()
    registry = pytest.importorskip("obspec_utils.registry").ObjectStoreRegistry(
        {"file://": pytest.importorskip("obstore.store").LocalStore()}
    )
    ds = xr.open_dataset(
        parser(str(source), registry), engine="zarr", consolidated=False, zarr_format=3, decode_cf=False
    )
    assert values(ds)["v"] == want["v"]


def test_going_on_with_a_plan_writes_the_rest_again(tmp_path: Path) -> None:
    source, target = tmp_path / "short.nc", tmp_path / "b.zarr"
    with netCDF4.Dataset(source, "w") as f:
        f.createDimension("t", None)
        f.createVariable("long", "i4", ("t",), chunksizes=(2,))[:] = np.arange(9)
        f.createVariable("short", "i4", ("t",), chunksizes=(2,))[:3] = 1

    def stop(phase: str, done: int, total: int) -> None:
        if done == total:
            raise InterruptedError

    plan = hs.plan_copy(source, target, zarr_format=2, task_size=1)
    with pytest.raises(InterruptedError):
        plan.run(progress=stop)
    (chunk,) = tmp_path.glob(".b.zarr.hyperslab-copy/new-*/short/3")
    chunk.unlink()
    run = plan.run(resume=True)
    assert run.tasks == 1 and run.skipped == plan.tasks - 1
    assert hs.open_array(target / "short", mode="r")[...].tolist() == 3 * [1] + 6 * [-2147483647]
