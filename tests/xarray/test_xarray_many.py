"""Many files of xarray on a server: they share rounds of requests. Counts, not times."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from support import dask_cluster

xr = pytest.importorskip("xarray")
pytest.importorskip("netCDF4")
dask = pytest.importorskip("dask")
pytest.importorskip("dask.array")

from hyperslab.xarray import BackendEntrypoint, open_mfdataset  # noqa: E402

FILES = 20
FAST: dict[str, Any] = {
    "combine": "nested",
    "concat_dim": "time",
    "data_vars": "minimal",
    "coords": "minimal",
    "compat": "override",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose metadata is spread between their data, so that each takes several rounds."""
    folder = tmp_path_factory.mktemp("many")
    for n in range(FILES):
        rng = np.random.default_rng(n)
        variables = {f"v{k}": (("time", "y", "x"), rng.random((2, 128, 128))) for k in range(8)}
        coordinates = {"time": np.arange(2.0) + 2 * n, "y": np.arange(128.0), "x": np.arange(128.0)}
        made = xr.Dataset(variables, coordinates, {"title": "many"})
        made.to_netcdf(folder / f"{n:02}.nc", engine="netcdf4")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with Server() as server:
        server.control(serve={"files": str(folder)})
        yield server


def urls(bucket: str = "files") -> list[str]:
    return [f"s3://{bucket}/{n:02}.nc" for n in range(FILES)]


def test_files_share_rounds(server: Server) -> None:
    options = {"storage_options": server.s3_options}
    single, requests, _ = server.asked(
        lambda: xr.open_dataset(urls()[0], engine=BackendEntrypoint, **options), 1
    )
    for how in ({}, FAST):
        rounds, all_requests, found = server.asked(
            lambda how=how: open_mfdataset(urls(), **options, **how), single + 1
        )
        # The files take as many rounds as one file.
        assert rounds <= single + 1 and all_requests == FILES * requests
        assert found.sizes["time"] == 2 * FILES
    # One after the other, each file takes its own rounds.
    rounds, all_requests, expected = server.asked(
        lambda: xr.open_mfdataset(urls(), engine=BackendEntrypoint, **options), FILES * single
    )
    assert rounds >= FILES and all_requests == FILES * requests
    xr.testing.assert_identical(open_mfdataset(urls(), **options), expected)


def test_the_dataset_is_xarrays(server: Server, folder: Path) -> None:
    options = {"storage_options": server.s3_options}
    expected = xr.open_mfdataset(urls(), engine=BackendEntrypoint, chunks={"y": 32}, **options, **FAST)
    found = open_mfdataset(urls(), chunks={"y": 32}, concurrency=3, **options, **FAST)
    again = open_mfdataset(urls(), chunks={"y": 32}, **options, **FAST)
    assert found.encoding == expected.encoding
    for name, variable in expected.variables.items():
        assert str(found[name].encoding) == str(variable.encoding)
        assert found[name].chunks == variable.chunks
    # The names of dask's tasks tell equal data.
    assert found["v3"].data.name == again["v3"].data.name
    xr.testing.assert_identical(found, expected)
    # Local files: a pattern, a list, nested lists, and no indexes.
    several = [str(folder / "00.nc"), folder / "01.nc"]
    local = open_mfdataset(str(folder / "*.nc"), **FAST)
    xr.testing.assert_identical(local, expected)
    some = open_mfdataset([[several[0]], [several[1]]], **{**FAST, "concat_dim": ["time", None]})
    xr.testing.assert_identical(some, expected.isel(time=slice(0, 4)))
    bare = open_mfdataset(several, create_default_indexes=False, **{**FAST, "join": "override"})
    assert not bare.xindexes
    # A file may be named twice; `preprocess` and `attrs_file` are xarray's.
    twice = open_mfdataset([several[0]] * 2, preprocess=lambda each: each[["v0"]], **FAST)
    assert list(twice.data_vars) == ["v0"] and twice.sizes["time"] == 4
    named = open_mfdataset([str(each) for each in several], attrs_file=several[1], **FAST)
    assert named.attrs == {"title": "many"}


def test_errors(server: Server, folder: Path) -> None:
    options = {"storage_options": server.s3_options}
    missing = [*urls()[:3], "s3://files/nowhere.nc", *urls()[3:]]
    with pytest.raises(FileNotFoundError):
        open_mfdataset(missing, **options, **FAST)
    with pytest.warns(UserWarning, match="nowhere"):
        found = open_mfdataset(missing, errors="warn", **options, **FAST)
    assert found.sizes["time"] == 2 * FILES
    with pytest.raises(OSError, match="no files"):
        open_mfdataset([])
    for wrong in ({"engine": "netcdf4"}, {"parallel": True}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            open_mfdataset(urls(), **wrong)
    for concurrency in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="concurrency"):
            open_mfdataset(urls(), concurrency=concurrency)  # type: ignore[arg-type]
    found = open_mfdataset(str(folder / "*.nc"), **FAST)
    found.close()


def test_threads_of_dask_share_rounds(server: Server) -> None:
    options = {"storage_options": server.s3_options}
    single, _, _ = server.asked(lambda: xr.open_dataset(urls()[0], engine=BackendEntrypoint, **options), 1)

    def opened() -> Any:
        with dask.config.set(scheduler="threads", num_workers=FILES):
            return xr.open_mfdataset(urls(), engine=BackendEntrypoint, parallel=True, **options, **FAST)

    rounds, _, found = server.asked(opened, single + 1)
    assert rounds <= single + 1 and found.sizes["time"] == 2 * FILES


def test_clusters(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    # Secrets do not go into messages: each process finds them itself.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = {"storage_options": {"endpoint_url": server.url, "region": "us-east-1"}}
    server.reset()
    one = xr.open_dataset(urls()[0], engine=BackendEntrypoint, chunks={}, **options)
    requests = len(server.log())
    # Messages with opened files are small.
    assert len(pickle.dumps(one)) < 200_000 < one.nbytes
    expected = xr.open_mfdataset(urls(), engine=BackendEntrypoint, **options, **FAST)
    part = expected["v3"].isel(x=0).compute()
    with dask_cluster(workers=2, threads=5) as cluster, distributed.Client(cluster):
        # The cluster computes what threads of this process have opened.
        server.reset()
        ours = open_mfdataset(urls(), **options, **FAST)
        assert len(server.log()) == FILES * requests
        xr.testing.assert_identical(ours["v3"].isel(x=0).compute(), part)
        # Workers can open the files, too. This process then opens only files that it reads itself.
        server.reset()
        found = xr.open_mfdataset(urls(), engine=BackendEntrypoint, parallel=True, **options, **FAST)
        assert len(server.log()) == FILES * requests
        xr.testing.assert_identical(found["v3"].isel(x=0).compute(), part)
        found.close()


def test_unpickled_files_are_opened_on_first_use(server: Server) -> None:
    opened = xr.open_dataset(
        urls()[0], engine=BackendEntrypoint, chunks={}, storage_options=server.s3_options
    )
    values = opened["v3"].values
    server.reset()
    with hs.config.set(pickle_credentials=True):
        for _ in range(2):
            opened = pickle.loads(pickle.dumps(opened))
            close = pickle.loads(pickle.dumps(opened._close))
        # There is nothing to close yet.
        close()
        assert server.log() == []
        np.testing.assert_array_equal(opened["v3"].values, values)
        first = len(server.log())
        assert opened["v2"].values.shape == values.shape
        # The second variable needs no second opening.
        assert 0 < len(server.log()) - first < first
        opened.close()
        np.testing.assert_array_equal(opened["v3"].values, values)


def test_secrets_are_asked_about_in_each_pickle(server: Server) -> None:
    opened = xr.open_dataset(urls()[0], engine=BackendEntrypoint, storage_options=server.s3_options)
    with hs.config.set(pickle_credentials=True):
        message = pickle.dumps(opened)
        unpickled = pickle.loads(message)
    assert server.s3_options["secret_access_key"].encode() in message
    # Both have been pickled before, with permission. Now there is none.
    for each in (opened, unpickled):
        with pytest.raises(TypeError, match="cannot pickle a store with secrets"):
            pickle.dumps(each)
    unpickled["v3"].load()
    with pytest.raises(TypeError, match="cannot pickle a store with secrets"):
        pickle.dumps(unpickled.drop_vars("v3"))
