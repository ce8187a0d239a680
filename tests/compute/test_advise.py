"""Compares `advise` with `explain` on real arrays, and with the results of `create_array`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples


@given(data=st.data())
@settings(max_examples=examples(100))
def test_counts_are_those_of_explain(data: st.DataObject) -> None:
    """Compares chunks, objects and decoded bytes of selections."""
    shape = tuple(data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    shards = data.draw(st.sampled_from([None, tuple(c * data.draw(st.integers(1, 3)) for c in chunks)]))
    z = hs.create_array(hs.MemoryStore(), shape=shape, chunks=chunks, shards=shards, dtype="f4")
    z[...] = np.random.default_rng(1).random(shape)
    items: list[Any] = []
    for n in shape:
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))
        step = data.draw(st.integers(1, 5))
        items.append(data.draw(st.sampled_from([start % n, slice(start, stop, step), slice(None)])))
    selection = tuple(items)
    hs.config.partial_decode = False
    # A tuple of integers would be the shape of a block.
    given = str(list(selection)) if all(isinstance(item, int) for item in selection) else selection
    cost = hs.advise(z, given)["now"].costs[0]
    plan = z.explain(selection)
    assert (cost.chunks, cost.objects) == (plan.chunks, plan.objects)
    assert cost.bytes_decoded == plan.bytes_decoded
    assert cost.bytes_wanted == plan.bytes
    if shards is None:
        assert cost.requests == plan.ranges


def test_bytes_are_those_that_are_stored(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(64, 64), chunks=(8, 64), dtype="i4")
    z[...] = np.arange(4096).reshape(64, 64)
    stored = sum(path.stat().st_size for path in (tmp_path / "a" / "c").rglob("*") if path.is_file())
    assert hs.advise(z, "all")["now"].costs[0].bytes_read == pytest.approx(stored)


def test_ways_to_read() -> None:
    z = hs.create_array(
        hs.MemoryStore(), shape=(20, 30, 40), chunks=(5, 5, 5), dtype="u1", dimension_names=("y", "Time", "x")
    )
    found = hs.advise(z, ["time series", "map", "all", np.s_[3, ..., 2:9], (1, 2, 3), "[:, 1]"])
    costs = found["now"].costs
    assert [cost.access for cost in costs] == [
        "time series",
        "map",
        "all",
        "[3, ..., 2:9]",
        "(1, 2, 3)",
        "[:, 1]",
    ]
    assert [cost.bytes_wanted for cost in costs] == [30, 800, 24000, 210, 6, 800]
    assert [cost.chunks for cost in costs[:4]] == [6, 32, 192, 12]
    # Share of all positions along an axis where blocks of two and of three cross a chunk edge.
    assert costs[4].chunks == pytest.approx((1 + 5 / 29) * (1 + 14 / 38))
    assert str(found).splitlines()[0] == "now     chunks (5, 5, 5): 192 objects"
    assert [layout.name for layout in found.layouts] == ["now", "chunks", "shards"]
    with pytest.raises(KeyError):
        found["never"]  # type: ignore[index]


def test_better_chunks_are_better() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4000, 300, 300), chunks=(1, 300, 300), dtype="f4")
    found = hs.advise(z, ["time series", "map"])
    now, better = found["now"].costs, found["chunks"].costs
    assert (now[0].requests, now[1].requests) == (4000, 1)
    assert better[0].requests < 200 and better[0].seconds_disk < now[0].seconds_disk / 10
    assert better[1].requests < 1000
    sharded = found["shards"]
    assert sharded.chunks is not None and sharded.shards is not None
    assert all(n % c == 0 for n, c in zip(sharded.shards, sharded.chunks, strict=True))
    assert hs.advise(z, "map", store="objects")["chunks"].costs[0].requests == 1
    assert hs.advise(z, "time series")["chunks"].costs[0].requests == 1


def test_new_arrays(tmp_path: Path) -> None:
    shape = (4000, 300, 300)
    series = hs.create_array(hs.MemoryStore(), shape=shape, dtype="f4", access="time series")
    assert series.chunks[0] == 4000 and series.shards is None
    maps = hs.create_array(hs.MemoryStore(), shape=shape, dtype="f4", access=["map"])
    assert maps.chunks == (1, 300, 300)
    both = hs.create_array(
        hs.MemoryStore(), shape=shape, dtype="f4", access=["time series", "map"], shards="auto"
    )
    assert 1 < both.chunks[0] < 4000 and both.shards is not None
    found = hs.advise(both, ["time series", "map"])
    assert (found["now"].chunks, found["now"].shards) == (found["shards"].chunks, found["shards"].shards)
    group = hs.create_group(tmp_path / "g")
    named = group.create_array(
        "a", shape=(500, 4000), dtype="f8", dimension_names=("x", "time"), access="map"
    )
    assert named.chunks == (500, 1) or named.chunks[0] == 500
    data = hs.create_array(hs.MemoryStore(), data=np.ones((100, 100)), access="all")
    assert data[...].sum() == 10000
    with pytest.raises(hs.errors.InvalidArgumentError, match="have to be 'auto'"):
        hs.create_array(hs.MemoryStore(), shape=shape, dtype="f4", chunks=(1, 1, 1), access="map")


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("maps", "expected 'time series', 'map', 'all'"),
        ([], "found none"),
        ((1, 2, 3), "a length for each of 2 axes"),
        ("[9]", "index 9 is outside"),
        ("[::-1]", "go upwards"),
        ((1.5, 2), "integers and slices"),
    ],
)
def test_what_is_no_way_to_read(access: Any, message: str) -> None:
    with pytest.raises(hs.errors.InvalidArgumentError, match=message):
        hs.advise(hs.zeros((4, 4)), access)


def test_arguments() -> None:
    with pytest.raises(hs.errors.InvalidArgumentError, match="store"):
        hs.advise(hs.zeros((4,)), "all", store="tape")  # type: ignore[arg-type]
    with pytest.raises(hs.errors.ArgumentTypeError, match="array of hyperslab"):
        hs.advise(np.zeros(3), "all")  # type: ignore[arg-type]


def test_files_without_chunks(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.zeros((100, 50))
    found = hs.advise(hs.open(tmp_path / "a.h5", mode="r")["a"], ["[:, 3]", "map"])["now"]
    assert found.chunks is None
    assert [(cost.requests, cost.bytes_read, cost.bytes_decoded) for cost in found.costs] == [
        (1, 800, 0),
        (1, 400, 0),
    ]


# ---- the command


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hyperslab", "advise", *map(str, arguments)]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_command(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(100, 60, 60), chunks=(1, 60, 60), dtype="f4")
    done = run(tmp_path / "a", "--access", "time series", "--access", "[0]")
    assert (done.returncode, done.stderr) == (0, "")
    advice = hs.advise(z, ["time series", "[0]"])
    table, commands = str(advice) + "\n\n", []
    for layout in (advice["chunks"], advice["shards"]):
        options = [
            f"--{kind} {','.join(map(str, n))}"
            for kind in ("chunks", "shards")
            if (n := getattr(layout, kind))
        ]
        commands.append(f"{layout.name}: hyperslab copy {tmp_path / 'a'} NEW.zarr {' '.join(options)}")
    assert done.stdout.startswith(table)
    assert done.stdout.removeprefix(table).strip().split("\n\n") == commands
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[4] == "access requests read decoded wanted disk object store".split()
    assert rows[5][:6] == ["now", "time", "series", "100", "1.4", "MiB"]
    found = json.loads(run(tmp_path / "a", "--access", "map", "--json").stdout)
    assert found["now"]["chunks"] == [1, 60, 60] and found["now"]["access"][0]["requests"] == 1.0
    assert set(found) == {"now", "chunks", "shards"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--access", "maps"], 2, "expected 'time series'"),
        ([], 2, "--access"),
        (["--access", "[7]"], 2, "index 7"),
    ],
)
def test_wrong_commands(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    hs.create_array(tmp_path / "a", shape=(5,), dtype="f4")
    done = run(tmp_path / "a", *arguments)
    assert done.returncode == code and message in done.stderr
