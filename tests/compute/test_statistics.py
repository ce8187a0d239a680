"""`statistics` and `hyperslab stats` against NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import from_bits, shapes_and_chunks
from support import examples

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i2", ">u8"]
TIMES = ["M8[D]", "m8[ms]", ">M8[ns]"]


def exact(values: Any) -> tuple[int, int | None, int | None, float | None, float | None]:
    """Returns sum, smallest, largest, mean and standard deviation of integers, computed exactly."""
    listed = [int(value) for value in values.ravel()]
    if not listed:
        return 0, None, None, None, None
    total, count = sum(listed), len(listed)
    # n² times the variance is an integer.
    spread = count * sum(value * value for value in listed) - total * total
    return total, min(listed), max(listed), total / count, (spread / count**2) ** 0.5


@given(grid=shapes_and_chunks(), data=st.data())
@settings(max_examples=examples(200))
def test_statistics_are_those_of_numpy(
    grid: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    shape, chunks = grid
    dtype = np.dtype(data.draw(st.sampled_from(["b1", *INTEGERS, *TIMES, "f2", "f4", ">f4", "f8", ">f8"])))
    seed = data.draw(st.integers(0, 1000))
    count = int(np.prod(shape))
    if dtype.kind == "f":
        values = np.random.default_rng(seed).normal(1e3, 3, count)
        values[np.random.default_rng(seed).random(count) < 0.2] = np.nan
        values = values.astype(dtype)
    else:
        values = from_bits(seed, count, dtype)
        if dtype.kind in "mM":
            values[np.random.default_rng(seed).random(count) < 0.2] = np.array("NaT", dtype)
    values = values.reshape(shape)
    shards = data.draw(st.sampled_from([None, tuple(2 * n for n in chunks)]))
    z = hs.create_array(hs.MemoryStore(), shape=shape, dtype=dtype, chunks=chunks, shards=shards)
    z[...] = values
    region = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in shape)
    region = data.draw(st.sampled_from([None, region]))
    found = hs.statistics(z, region=region, threads=data.draw(st.integers(1, 3)))
    chosen = values[region or ...]
    known = (
        ~np.isnan(chosen)
        if dtype.kind == "f"
        else ~np.isnat(chosen)
        if dtype.kind in "mM"
        else chosen == chosen
    )
    kept = chosen[known]
    assert (found.count, found.missing) == (kept.size, chosen.size - kept.size)
    if not kept.size:
        assert (found.min, found.max, found.mean, found.std) == (None, None, None, None)
        return
    assert (found.min, found.max) == (kept.min(), kept.max())
    if dtype.kind != "b":
        assert found.min.dtype == dtype.newbyteorder("=")
    if dtype.kind == "f":
        wide = kept.astype("f8")
        assert found.sum == pytest.approx(float(wide.sum()), rel=1e-14)
        assert found.mean == pytest.approx(float(wide.mean()), rel=1e-14)
        assert found.std == pytest.approx(float(wide.std()), rel=1e-9, abs=1e-11)
        return
    total, _, _, mean, std = exact(
        kept.view(dtype.str.replace("M", "i").replace("m", "i")[:3]) if dtype.kind in "mM" else kept
    )
    assert mean is not None and std is not None
    if dtype.kind in "mM":
        mean_int = int(found.mean.astype("i8"))
        assert abs(2 * (mean_int * kept.size - total)) <= kept.size
        assert int(found.std.astype("i8")) == pytest.approx(std, abs=0.5, rel=1e-12)
        if dtype.kind == "m":
            assert found.sum is None if abs(total) >= 2**63 else int(found.sum.astype("i8")) == total
        return
    assert (found.sum, found.mean) == (total, mean)
    assert found.std == pytest.approx(std, rel=1e-13)


@given(data=st.data())
@settings(max_examples=examples(100))
def test_histograms_are_those_of_numpy(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["f4", "f8", "i2", "u1"]))
    values = (
        np.random.default_rng(data.draw(st.integers(0, 1000))).normal(50, 20, 300).clip(0, 255).astype(dtype)
    )
    z = hs.create_array(hs.MemoryStore(), data=values.reshape(20, 15), chunks=(3, 15))
    bins: Any = data.draw(st.sampled_from([1, 7, 100, [0, 10, 10.5, 90], np.arange(0.0, 256.0)]))
    between = data.draw(st.sampled_from([None, (0, 50), (10.5, 300.25)])) if isinstance(bins, int) else None
    found = hs.statistics(z, bins=bins, range=between)
    counts, edges = np.histogram(values.astype("f8"), bins, between)
    assert found.histogram is not None and found.bin_edges is not None
    np.testing.assert_array_equal(found.histogram, counts)
    np.testing.assert_array_equal(found.bin_edges, edges)


def test_histograms_of_few_elements() -> None:
    for values, expected in (([], [0, 0]), ([3.0], [0, 1]), ([3.0, 3.0], [0, 2])):
        found = hs.statistics(hs.array(np.array(values)), bins=2)
        assert found.histogram is not None and found.histogram.tolist() == expected
    dates = hs.array(np.array(["1970-01-02", "1970-01-05", "NaT"], "M8[D]"))
    found = hs.statistics(dates, bins=np.array(["1970-01-01", "1970-01-03", "1970-01-05"], "M8[D]"))
    assert found.histogram is not None and found.histogram.tolist() == [1, 1]
    with pytest.raises(hs.errors.InvalidArgumentError, match="pass range or the edges"):
        hs.statistics(hs.array([1.0, np.inf]), bins=2)


def test_what_is_missing() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(3, 4), chunks=(2, 2), dtype="f4", fill_value=-1)
    z[0] = [1, 2, np.nan, -9]
    assert hs.statistics(z).missing == 1
    assert hs.statistics(z, missing="fill").missing == 9
    found = hs.statistics(z, missing=["-9", -1])
    assert (found.missing, found.count, found.sum) == (10, 2, 3.0)
    whole = hs.array(np.array([1, 2, 255], "u1"))
    # No element can have these values.
    assert hs.statistics(whole, missing=[-1, 256, 2.5]).missing == 0
    assert hs.statistics(whole, missing=255).max == 2
    optional = hs.array([1, None, 5, None], dtype=hs.optional_dtype("i4"), chunks=(3,))
    found = hs.statistics(optional, missing=5)
    assert (found.count, found.missing, found.sum) == (1, 3, 1)
    dates = hs.array(np.array(["2020-01-01", "NaT"], "M8[D]"))
    assert hs.statistics(dates, missing=np.datetime64("2020-01-01")).missing == 2
    with pytest.raises(hs.errors.InvalidArgumentError, match="missing: 'x' is not of type"):
        hs.statistics(z, missing=["x"])
    with pytest.raises(hs.errors.InvalidArgumentError, match="or 'fill'"):
        hs.statistics(z, missing="fills")


def test_large_numbers_keep_their_digits() -> None:
    """A sum of squares in 64-bit floats would have no correct digits here."""
    base = 2**62
    found = hs.statistics(hs.array(np.array([base, base + 2, base + 4], "i8"), chunks=(1,)))
    assert (found.sum, found.std) == (3 * base + 6, (8 / 3) ** 0.5)
    many = np.full(1000, 1e9) + np.arange(1000) % 2
    assert hs.statistics(hs.array(many, chunks=(7,))).std == 0.5
    top = hs.array(np.full(5, 2**64 - 1, "u8"), chunks=(2,))
    assert (hs.statistics(top).sum, hs.statistics(top).std) == (5 * (2**64 - 1), 0)


def test_what_is_not_finite() -> None:
    found = hs.statistics(hs.array([1.0, np.inf]))
    assert (found.mean, found.max, found.sum) == (np.inf, np.inf, np.inf) and np.isnan(found.std)
    assert np.isnan(hs.statistics(hs.array([-np.inf, np.inf], chunks=(1,))).mean)
    assert str(hs.statistics(hs.array([-0.0])).min) == "0.0"


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors_and_threads_give_the_same(kind: Any, tmp_path: Path) -> None:
    values = np.random.default_rng(5).normal(1e6, 1, (300, 300))
    z = hs.create_array(tmp_path / "a", data=values, chunks=(10, 300))
    wanted = hs.statistics(z, bins=11)
    assert hs.statistics(z, bins=11, threads=1) == wanted
    told = []
    with kind(2, **({"mp_context": get_context("spawn")} if kind is ProcessPoolExecutor else {})) as executor:
        found = hs.statistics(
            z, bins=11, range=(0, 2e6), executor=executor, progress=lambda *done: told.append(done)
        )
    assert found == wanted
    assert told[-1] == ("read", values.nbytes, values.nbytes)
    told.clear()
    hs.statistics(z, progress=lambda *done: told.append(done))
    assert told[-1] == ("read", values.nbytes, values.nbytes)


def test_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["contiguous"] = np.arange(100000.0)
        file.create_dataset("chunked", data=np.arange(7, dtype=">i2"), chunks=(3,), compression="gzip")
    group = hs.open(tmp_path / "a.h5", mode="r")
    assert hs.statistics(group["contiguous"]).sum == np.arange(100000.0).sum()
    assert hs.statistics(group["chunked"]).sum == 21


@pytest.mark.parametrize("dtype", ["c8", "S3", "U2", "V4", str, [("a", "i4")]])
def test_elements_that_are_no_numbers(dtype: Any) -> None:
    with pytest.raises(hs.errors.DataTypeError, match="statistics are of bools, integers"):
        hs.statistics(hs.create_array(hs.MemoryStore(), shape=(2,), dtype=dtype))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 0}, "bins: expected one or more"),
        ({"bins": [1]}, "two or more finite edges"),
        ({"bins": [2, 1]}, "edges that ascend"),
        ({"bins": "auto"}, "expected a number of bins"),
        ({"bins": 3, "range": (1, 1)}, "range"),
        ({"range": (0, 1)}, "expected bins for the range"),
        ({"bins": [0, 1], "range": (0, 1)}, "expected no range, since bins gives the edges"),
        ({"region": slice(None, None, 2)}, "step 1"),
    ],
)
def test_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hs.errors.InvalidArgumentError, match=message):
        hs.statistics(hs.ones((3,)), **options)


def test_errors_name_the_chunk_and_stop(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=np.arange(8.0), chunks=(2,))
    (tmp_path / "a" / "c" / "2").write_bytes(b"no chunk")
    with pytest.raises(hs.errors.ChunkError, match=r"chunk.*2"):
        hs.statistics(z)
    with pytest.raises(hs.errors.ArgumentTypeError, match="expected an array of hyperslab"):
        hs.statistics(np.arange(3))  # type: ignore[arg-type]

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hs.statistics(hs.ones((3,)), progress=fail)


# ---- the command


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hyperslab", "stats", *map(str, arguments)]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


@pytest.fixture
def ocean(tmp_path: Path) -> Path:
    group = hs.create_group(tmp_path / "ocean.zarr")
    group.create_array("sst", data=np.array([[1.5, np.nan, -999], [2, 3, 4]], "f4"), chunks=(1, 3))
    group.create_array("deep/day", data=np.array([0, 3, "NaT"], "M8[D]"))
    group.create_array("name", data=np.array(["a", "b"]))
    return tmp_path / "ocean.zarr"


def test_command(ocean: Path) -> None:
    done = run(ocean)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["type", "count", "missing", "min", "max", "mean", "std"],
        ["deep/day", "datetime64[D]", "2", "1", "0", "3", "1.5", "1.5"],
        ["sst", "float32", "5", "1", "-999", "4", "-197.7", "400.651"],
    ]
    done = run(f"{ocean}/sst", "1, :", "--missing", -999, "--bins", 2, "--range", "2,4")
    assert done.stdout.splitlines()[-3:] == [
        f"{ocean}/sst",
        "  2 to 3  1  ████████████████████",
        "  3 to 4  2  ████████████████████████████████████████",
    ]


def test_command_as_json(ocean: Path) -> None:
    found = json.loads(run(ocean, "--json", "--missing", -999, "--bins", 3).stdout)
    assert set(found) == {"sst", "deep/day"}
    values = np.array([1.5, 2, 3, 4])
    sst = found["sst"]
    assert sst["std"] == pytest.approx(values.std())
    del sst["std"]
    assert sst == {
        "type": "float32",
        "count": 4,
        "missing": 2,
        "min": 1.5,
        "max": 4.0,
        "sum": 10.5,
        "mean": 2.625,
        "histogram": np.histogram(values, 3)[0].tolist(),
        "bin_edges": np.histogram(values, 3)[1].tolist(),
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing"], 1, "there is no"),
        (["name"], 2, "elements of type"),
        (["sst", "::2"], 2, "slices of step 1"),
        (["sst", "9"], 1, "index 9"),
        (["sst", "--missing", "x"], 2, "not a number"),
        (["sst", "--bins", "0"], 2, "--bins"),
        (["sst", "--bins", "2", "--range", "3,1"], 2, "not less"),
        (["", "0"], 2, "of an array, not of a group"),
    ],
)
def test_wrong_commands(ocean: Path, arguments: list[str], code: int, message: str) -> None:
    done = run(f"{ocean}/{arguments[0]}".rstrip("/"), *arguments[1:])
    assert done.returncode == code and message in done.stderr and "panicked" not in done.stderr, done.stderr


def test_command_leaves_out_what_cannot_be_read(ocean: Path) -> None:
    (ocean / "sst" / "c" / "0" / "0").write_bytes(b"no chunk")
    done = run(ocean)
    assert done.returncode == 0 and "left out sst:" in done.stderr and "deep/day" in done.stdout
