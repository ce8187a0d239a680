"""Readers of consolidated metadata see rows of all variables, or of none."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import xarray as xr
from hyperslab._xarray import write
from hyperslab.xarray import BackendEntrypoint, to_zarr
from object_server_client import Server
from support import examples

pytest.importorskip("zarr")


def steps(first: int, count: int) -> xr.Dataset:
    values = np.arange(first, first + count)
    cells = np.broadcast_to(values[:, None], (count, 3))
    return xr.Dataset(
        {"sst": (("time", "x"), cells * 1.5), "n": ("time", values), "word": ("time", values.astype(str))},
        {"time": ("time", values, {"units": "days since 2000-01-01"}), "x": [1, 2, 3]},
    )


def shown(place: Any, **options: Any) -> xr.Dataset:
    """Returns what readers of consolidated metadata see."""
    return xr.open_dataset(
        place, engine=BackendEntrypoint, consolidated=True, decode_times=False, **options
    ).load()


def check(found: xr.Dataset, rows: int) -> None:
    assert dict(found.sizes) == {"time": rows, "x": 3}
    assert np.array_equal(found["n"], np.arange(rows))
    assert np.array_equal(found["sst"], np.arange(rows)[:, None] * 1.5 * np.ones(3))
    assert list(found["word"].values) == [str(n) for n in range(rows)]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("lazy", [False, True])
def test_rows_become_visible_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: Any, lazy: bool
) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(steps(0, 4), place, zarr_format=zarr_format)
    seen = []
    write = hs.Array.__setitem__

    def look(self: Any, *given: Any) -> None:
        seen.append(shown(place).sizes["time"])
        write(self, *given)
        seen.append(shown(place).sizes["time"])

    monkeypatch.setattr(hs.Array, "__setitem__", look)
    ds = steps(4, 3)
    to_zarr(ds.chunk(time=3) if lazy else ds, place, append_dim="time")
    assert set(seen) <= {4}
    check(shown(place), 7)
    check(xr.open_dataset(place, engine="zarr", decode_times=False).load(), 7)


@pytest.mark.parametrize("far", [False, True])
def test_an_error_leaves_nothing(tmp_path: Path, far: bool) -> None:
    with Server() if far else contextlib.nullcontext() as server:
        options: dict[str, Any] = {} if server is None else {"storage_options": server.s3_options}
        place = tmp_path / "a.zarr" if server is None else "s3://bucket/a.zarr"
        to_zarr(steps(0, 4), place, **options)

        def fail(block: Any) -> Any:
            raise RuntimeError("stop")

        ds = steps(4, 3).chunk(time=3)
        ds["sst"] = ds["sst"].copy(data=ds["sst"].data.map_blocks(fail, dtype="f8", meta=np.empty((0, 0))))
        with pytest.raises(RuntimeError, match="stop"):
            to_zarr(ds, place, append_dim="time", **options)
        check(shown(place, **options), 4)
        assert hs.open_group(place, **options, use_consolidated=False)["n"].shape == (4,)
        to_zarr(steps(4, 3), place, append_dim="time", **options)
        check(shown(place, **options), 7)


WRITER = """
import sys, warnings
sys.path[:0] = sys.argv[3:]
from test_to_zarr_appends import steps, to_zarr
print("ready", flush=True)
for first in range(int(sys.argv[2]), 10_000, 2):
    to_zarr(steps(first, 2), sys.argv[1], append_dim="time")
"""


def test_a_killed_writer(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(steps(0, 2), place)
    rng = np.random.default_rng()
    for _ in range(examples(6)):
        rows = shown(place).sizes["time"]
        arguments = [
            sys.executable,
            "-c",
            WRITER,
            str(place),
            str(rows),
            str(Path(__file__).parent),
            *sys.path,
        ]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=dict(os.environ)) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.0, 0.3))
            writer.send_signal(signal.SIGKILL)
        now = shown(place)
        check(now, now.sizes["time"])
        assert now.sizes["time"] >= rows
        # The next writer goes on, and nothing is lost.
        to_zarr(steps(now.sizes["time"], 2), place, append_dim="time")
        check(shown(place), now.sizes["time"] + 2)


def test_other_changes_are_consolidated(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(steps(0, 4), place)
    more = steps(4, 2).assign_attrs(title="more").assign(z=("x", [7, 8, 9]))
    to_zarr(more, place, append_dim="time")
    found = shown(place)
    assert found.attrs == {"title": "more"}
    assert np.array_equal(found["z"], [7, 8, 9])
    check(found.drop_vars("z"), 6)
    # Without consolidated metadata, and in a group of a larger store.
    to_zarr(steps(0, 3), tmp_path / "b.zarr", consolidated=False)
    to_zarr(steps(3, 2), tmp_path / "b.zarr", append_dim="time", consolidated=False)
    check(xr.open_dataset(tmp_path / "b.zarr", engine=BackendEntrypoint, decode_times=False).load(), 5)
    to_zarr(steps(0, 3), tmp_path / "c.zarr", group="in/it")
    to_zarr(steps(3, 2), tmp_path / "c.zarr", group="in/it", append_dim="time")
    check(shown(tmp_path / "c.zarr", group="in/it"), 5)


@pytest.mark.parametrize("lazy", [False, True])
def test_an_append_beside_another_one_loses_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lazy: bool
) -> None:
    place = tmp_path / "a.zarr"
    to_zarr(steps(0, 4), place)
    usual = write.read_first

    def after_somebody_else(plan: Any, compute: bool) -> None:
        monkeypatch.setattr(write, "read_first", usual)
        to_zarr(steps(4, 2), place, append_dim="time")
        usual(plan, compute)

    monkeypatch.setattr(write, "read_first", after_somebody_else)
    later = steps(6, 3).chunk() if lazy else steps(6, 3)
    if not lazy:
        # A transaction adds its rows behind those of the other.
        to_zarr(later, place, append_dim="time")
        check(shown(place), 9)
        return
    with pytest.raises(ValueError, match="append again"):
        to_zarr(later, place, append_dim="time")
    check(shown(place), 6)
