"""`to_netcdf` with blocks of dask: from threads, from processes, and killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import dask_cluster

xr = pytest.importorskip("xarray")
pytest.importorskip("dask.array")

from hyperslab.xarray import BackendEntrypoint, to_netcdf  # noqa: E402


def dataset(start: int = 0, count: int = 20) -> Any:
    random = np.random.default_rng(start)
    ds = xr.Dataset(
        {
            "packed": (("t", "x"), random.random((count, 30))),
            "plain": (("t", "x"), random.integers(0, 9, (count, 30)).astype("i2")),
            "run": ("x", np.arange(30.0)),
            "name": ("t", np.array([f"row {n}" for n in range(start, start + count)], "U8")),
        },
        {"t": np.arange(start, start + count)},
    )
    # Chunks that blocks of 3 x 7 share.
    ds.packed.encoding.update(zlib=True, chunksizes=(7, 30))
    ds.plain.encoding.update(chunksizes=(8, 8))
    return ds


def blocks(ds: Any) -> Any:
    return ds.chunk(t=3, x=7)


def load(path: Path) -> Any:
    with xr.open_dataset(path, engine=BackendEntrypoint) as found:
        return found.load()


def failing(ds: Any) -> Any:
    """Returns a dataset with a block that fails."""
    last = float(ds.packed[-1, -1])
    ds = blocks(ds)

    def fail(block: Any) -> Any:
        if block.size and block.flat[-1] == last:
            raise RuntimeError("this block fails")
        return block

    made = ds.packed.data.map_blocks(fail, dtype="f8", meta=np.empty((0, 0)))
    return ds.assign(packed=ds.packed.copy(data=made))


def check_all(path: Path) -> None:
    """Writes, appends, writes a region, and fails, with the present scheduler."""
    to_netcdf(blocks(dataset()), path, unlimited_dims="t")
    xr.testing.assert_identical(load(path), dataset())
    to_netcdf(blocks(dataset(20).drop_vars("run")), path, append_dim="t", mode="a-")
    expected = xr.concat(
        [dataset(), dataset(20)], "t", data_vars="minimal", coords="minimal", compat="override"
    )
    xr.testing.assert_equal(load(path), expected)
    part = dataset(99, 6)[["packed"]].drop_vars("t")
    to_netcdf(part.chunk(t=1, x=4), path, region={"t": slice(17, 23)})
    expected["packed"][17:23] = part["packed"]
    xr.testing.assert_equal(load(path), expected)
    cases: list[dict[str, Any]] = [{}, {"append_dim": "t", "mode": "a-"}]
    for arguments in cases:
        with pytest.raises(RuntimeError, match="this block fails"):
            to_netcdf(failing(dataset(40).drop_vars("run")), path, **arguments)
        xr.testing.assert_equal(load(path), expected)
    assert [*path.parent.iterdir()] == [path]
    later: Any = to_netcdf(blocks(dataset()), path, compute=False)
    later.compute()
    xr.testing.assert_identical(load(path), dataset())


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_threads(scheduler: str, tmp_path: Path) -> None:
    import dask

    with dask.config.set(scheduler=scheduler):
        check_all(tmp_path / "a.nc")


@pytest.mark.filterwarnings("ignore")
def test_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with dask_cluster(workers=2, threads=2) as cluster, distributed.Client(cluster):
        check_all(tmp_path / "a.nc")
        # One process writes what workers compute, where workers cannot write.
        held: Any = to_netcdf(blocks(dataset()))
        (tmp_path / "b.nc").write_bytes(held)
        xr.testing.assert_identical(load(tmp_path / "b.nc"), dataset())
        # The file is closed everywhere.
        with hs.File(tmp_path / "a.nc", "w") as file:
            file["a"] = 1


@pytest.mark.filterwarnings("ignore")
def test_workers_flush_once(tmp_path: Path) -> None:
    """Each flush leaves structures in the file that only the next writer uses again."""
    distributed = pytest.importorskip("distributed")
    random = np.random.default_rng(5)
    ds = xr.Dataset({f"v{n}": (("t", "x"), random.integers(0, 9, (60, 50))) for n in range(5)})
    for name in ds.variables:
        # Blocks of all workers share chunks.
        ds[name].encoding.update(zlib=True, chunksizes=(7, 50))
    to_netcdf(ds.chunk(t=1), tmp_path / "here.nc")
    with dask_cluster(workers=2, threads=2) as cluster, distributed.Client(cluster) as client:
        to_netcdf(ds.chunk(t=1), tmp_path / "a.nc")
        assert not any(client.run(_open_files).values())
    xr.testing.assert_identical(load(tmp_path / "a.nc"), ds)
    assert (tmp_path / "a.nc").stat().st_size < 2 * (tmp_path / "here.nc").stat().st_size


def _open_files() -> list[str]:
    from hyperslab._xarray.netcdf_workers import _here

    return [*_here().kept]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arguments", [{}, {"append_dim": "t"}, {"compute": False}])
def test_blocks_of_a_killed_worker_are_written_again(arguments: dict[str, Any], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    path, killed = tmp_path / "a.nc", tmp_path / "killed"
    old = xr.Dataset({"a": (("t", "x"), np.full((3, 40), -1.0))})
    to_netcdf(old, path, unlimited_dims="t")

    def kill(block: Any) -> Any:
        if block.size and block[0, 0] == 12 * 40 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    new = xr.Dataset({"a": (("t", "x"), np.arange(800.0).reshape(20, 40))})
    with dask_cluster(workers=2, threads=1) as cluster, distributed.Client(cluster):
        lazy = new.chunk(t=1)
        deadly = lazy.a.data.map_blocks(kill, dtype="f8", meta=np.empty((0, 0)))
        later: Any = to_netcdf(lazy.assign(a=lazy.a.copy(data=deadly)), path, **arguments)
        if later is not None:
            later.compute()
    assert killed.exists()
    expected = xr.concat([old, new], "t") if "append_dim" in arguments else new
    xr.testing.assert_equal(load(path), expected)


def test_a_lost_worker_is_noticed() -> None:
    from hyperslab._xarray.netcdf_workers import finish

    finish([None, None], ["token"])
    with pytest.raises(hs.HyperslabError, match="a worker ended before its blocks were on the disk"):
        finish([None, "the file of a process that is gone"], ["token"])


_CLIENT = """
import sys, dask.array as da, distributed, numpy as np, xarray as xr
from hyperslab.xarray import to_netcdf

def slow(block):
    __import__("time").sleep(0.2)
    return block

if __name__ == "__main__":
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with distributed.Client(cluster):
        print("begun", flush=True)
        x = da.zeros((1000, 10), chunks=(1, 10)).map_blocks(slow, dtype="f8", meta=np.empty((0, 0)))
        to_netcdf(xr.Dataset({"a": (("t", "x"), x)}), sys.argv[1])
"""


@pytest.mark.filterwarnings("ignore")
def test_what_a_killed_client_leaves_is_removed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    folder = tmp_path / "files"
    folder.mkdir()
    path = folder / "a.nc"
    (tmp_path / "client.py").write_text(_CLIENT)
    child = subprocess.Popen(
        [sys.executable, tmp_path / "client.py", path], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    while not (parts := [*folder.iterdir()]):
        time.sleep(0.05)
    (part,) = parts
    assert part.name.startswith(".part.") and part.name.endswith(".hyperslab-tmp")
    ds = dataset()
    with dask_cluster(workers=1, threads=1) as cluster, distributed.Client(cluster):
        time.sleep(2.5)
        to_netcdf(blocks(ds), path)
        # The client and its workers have it open.
        assert sorted(folder.iterdir()) == sorted([part, path])
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        # Its workers end by themselves.
        end = time.monotonic() + 60
        while part.exists() and time.monotonic() < end:
            time.sleep(0.5)
            to_netcdf(blocks(ds), path)
    assert [*folder.iterdir()] == [path]
    xr.testing.assert_identical(load(path), ds)


def test_small_blocks_of_many_threads_are_all_kept(tmp_path: Path) -> None:
    """Each thread opens the variables by itself."""
    ds = xr.Dataset({f"v{n}": ("x", np.arange(5.0) + n) for n in range(30)})
    for _ in range(5):
        later: Any = to_netcdf(ds.chunk(x=2), tmp_path / "a.nc", compute=False)
        later.compute(scheduler="threads", num_workers=4)
        xr.testing.assert_identical(load(tmp_path / "a.nc"), ds)


_ENDLESS = """
import sys
import dask.array as da, numpy as np, xarray as xr
from hyperslab.xarray import to_netcdf

def slow(block):
    __import__("os").write(1, b"block\\n")
    __import__("time").sleep(0.05)
    return block

x = da.zeros((100, 1000), chunks=(1, 1000)).map_blocks(slow, dtype="f8", meta=np.empty((0, 0)))
ds = xr.Dataset({"a": (("t", "x"), x)}, {"t": np.arange(100) + 1000})
to_netcdf(ds, sys.argv[1], **eval(sys.argv[2]))
"""


@pytest.mark.parametrize("arguments", [{}, {"append_dim": "t"}])
def test_a_killed_writer_leaves_the_old_file(arguments: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    old = xr.Dataset({"a": (("t", "x"), np.ones((3, 1000)))}, {"t": [0, 1, 2]})
    to_netcdf(old, path, unlimited_dims="t")
    command = [sys.executable, "-c", textwrap.dedent(_ENDLESS), str(path), repr(arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(10):
        assert child.stdout.readline() == "block\n"
    time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    xr.testing.assert_identical(load(path), old)
    assert [*tmp_path.iterdir()] == [path]
    to_netcdf(old.assign_coords(t=[3, 4, 5]), path, append_dim="t")
    assert load(path).sizes["t"] == 6


def test_blocks_that_are_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    old = xr.Dataset({"a": ("x", np.arange(40_000.0)), "b": ("x", np.arange(40_000.0)[::-1])})
    to_netcdf(old, path)
    with xr.open_dataset(path, engine=BackendEntrypoint, chunks={"x": 10_000}) as lazy:
        # Each block reads what another one writes.
        to_netcdf(xr.Dataset({"a": lazy.b, "b": lazy.a}), path, mode="a")
    swapped = xr.Dataset({"a": old.b, "b": old.a})
    xr.testing.assert_identical(load(path), swapped)
    with xr.open_dataset(path, engine=BackendEntrypoint, chunks={"x": 10_000}) as lazy:
        to_netcdf(lazy + 1, path, mode="a")
    xr.testing.assert_identical(load(path), swapped + 1)
    with xr.open_dataset(path, engine=BackendEntrypoint, chunks={"x": 10_000}) as lazy:
        with pytest.raises(hs.errors.InvalidArgumentError, match="which compute=False replaces"):
            to_netcdf(lazy + 1, path, compute=False)
        to_netcdf(lazy - 1, path)
    xr.testing.assert_identical(load(path), swapped)
