"""`diff`, `hyperslab diff` and `hyperslab.testing` against NumPy, numpy.testing and h5diff."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from hyperslab.testing import assert_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from object_server_client import Server
from servers import tool
from strategies import from_bits, shapes_and_chunks
from support import examples, scratch

NUMBERS = ["i1", "u1", "i2", ">u2", "i4", "u4", ">i8", "u8", "f2", "f4", ">f4", "f8", "c8", ">c16", "b1"]
OTHERS = ["S3", "U2", "M8[s]"]


def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hyperslab", "diff", *map(str, arguments)]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment, **options
    )


def stored(kind: str, root: Path, name: str, values: Any, chunks: tuple[int, ...], level: int) -> Any:
    """Stores values in a format."""
    if kind == "hdf5":
        path = root / f"{name}.h5"
        with h5py.File(path, "w") as file:
            fitting = tuple(map(min, chunks, values.shape))
            options = {"chunks": fitting, "compression": "gzip"} if chunks and values.size else {}
            file.create_dataset("a", data=values, **options)
        return hs.open(path)["a"]
    shards = tuple(2 * n for n in chunks) if kind == "shards" and chunks else None
    z = hs.create_array(
        hs.MemoryStore(),
        shape=values.shape,
        dtype=values.dtype,
        chunks=chunks,
        shards=shards,
        zarr_format=2 if kind == "v2" else 3,
        compressors={"id": "zlib", "level": level} if kind == "v2" else "auto",
    )
    z[...] = values
    return z


def changed(values: Any, share: float, random: np.random.Generator) -> Any:
    """Returns a copy with some other elements."""
    other = values.copy()
    where = random.random(values.shape) < share
    other[where] = np.roll(values.ravel(), 1).reshape(values.shape)[where]
    if values.dtype.kind in "fc":
        other[random.random(values.shape) < share / 2] = np.nan
    return other


def is_close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """Returns which elements are close, as in NumPy, exactly for integers."""
    if a.dtype.kind not in "fc":
        distance = np.abs(a.astype(object) - b.astype(object)) if a.dtype.kind in "iub" else None
        if distance is None:
            return a == b
        limit = atol + rtol * np.abs(b.astype("f8"))
        return distance.astype("f8") <= limit if a.size else np.zeros(a.shape, bool)
    wide = "c16" if a.dtype.kind == "c" else "f8"
    with np.errstate(all="ignore"):
        return np.isclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan)


@given(
    grid=shapes_and_chunks(3),
    kinds=st.tuples(*[st.sampled_from(["v2", "v3", "shards", "hdf5"])] * 2),
    name=st.sampled_from(NUMBERS),
    share=st.sampled_from([0.0, 0.05, 1.0]),
    tolerance=st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 3.0)]),
    equal_nan=st.booleans(),
    seed=st.integers(0, 1000),
    data=st.data(),
)
@settings(max_examples=examples(150), deadline=None)
def test_counts_and_largest_differences_are_those_of_numpy(
    grid: Any,
    kinds: Any,
    name: str,
    share: float,
    tolerance: Any,
    equal_nan: bool,
    seed: int,
    data: st.DataObject,
) -> None:
    (shape, chunks), (rtol, atol) = grid, tolerance
    random = np.random.default_rng(seed)
    values = random.integers(0, 20, shape).astype(name)
    if values.dtype.kind in "fc":
        values[random.random(shape) < 0.2] = np.nan
    other = changed(values, share, random)
    others = data.draw(st.sampled_from([chunks, tuple(min(n + 1, 9) for n in chunks)]))
    with scratch() as root:
        a = stored(kinds[0], root, "a", values, chunks, 1)
        b = stored(kinds[1], root, "b", other, others, 9)
        found = hs.diff(
            a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, first=3, threads=data.draw(st.integers(1, 3))
        )
    close = is_close(values, other, rtol, atol, equal_nan)
    where = np.argwhere(~close)
    if len(where) == 0:
        assert not found.arrays and not found.failures, str(found)
        return
    array = found.arrays[0]
    assert (array.compared, array.different) == (values.size, len(where))
    assert [each.index for each in array.first] == [tuple(each) for each in where[:3].tolist()]
    wide = "c16" if values.dtype.kind == "c" else "f8"
    distances = np.abs(values.astype(wide) - other.astype(wide))[~close]
    known = distances[np.isfinite(distances)]
    if len(known):
        assert array.largest_absolute == pytest.approx(known.max(), rel=1e-12)
        at = array.largest_absolute_at
        assert at is not None
        assert abs(values.astype(wide)[at.index] - other.astype(wide)[at.index]) == known.max()
        assert array.rms == pytest.approx(np.sqrt(np.mean(known**2)), rel=1e-9)
    else:
        assert array.largest_absolute is None


@given(
    grid=shapes_and_chunks(2),
    name=st.sampled_from(NUMBERS + OTHERS),
    kinds=st.tuples(*[st.sampled_from(["v2", "v3", "shards"])] * 2),
    seed=st.integers(0, 1000),
)
@settings(max_examples=examples(100), deadline=None)
def test_any_elements_equal_themselves_in_another_format(grid: Any, name: str, kinds: Any, seed: int) -> None:
    shape, chunks = grid
    values = from_bits(seed, int(np.prod(shape)), np.dtype(name)).reshape(shape)
    if values.dtype.kind == "U":
        values = np.resize(np.array(["", "a", "éb"], name), shape)
    with scratch() as root:
        a, b = (stored(kind, root, kind, values, chunks, 1) for kind in kinds)
        assert not hs.diff(a, b), str(hs.diff(a, b))
        if values.size and name != "b1":
            last = (-1,) * values.ndim
            b[last] = np.zeros((), name) if values[last] != np.zeros((), name) else np.ones((), name)
            if b[last].tobytes() != values[last].tobytes():
                assert hs.diff(a, b).arrays[0].different == 1


def test_structures_are_compared_by_members(tmp_path: Path) -> None:
    padded = np.dtype(
        {"names": ["a", "b"], "formats": ["i2", ("f4", (2,))], "offsets": [0, 8], "itemsize": 24}
    )
    values = np.zeros(3, padded)
    values["a"], values["b"] = [1, 2, 3], np.arange(6).reshape(3, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = values
    packed = values.astype([("a", ">i2"), ("b", "<f4", (2,))])
    z = hs.create_array(hs.MemoryStore(), data=packed, zarr_format=2)
    a = hs.open(tmp_path / "a.h5")["x"]
    assert not hs.diff(a, z).arrays
    packed["b"][1, 1] += 0.5
    z[...] = packed
    array = hs.diff(a, z).arrays[0]
    assert (array.different, array.first[0].index) == (1, (1,))
    assert array.first[0].b == {"a": 2, "b": [2.0, 3.5]}
    assert not hs.diff(a, z, atol=0.5).arrays


def test_members_of_variable_length_are_read(tmp_path: Path) -> None:
    kind = np.dtype([("name", h5py.string_dtype()), ("n", "i4")])
    for name, text, pad in (("a", "x", 0), ("b", "x", 3), ("c", "y", 0)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            # Other texts come first, so that equal texts have other places in the heap.
            for n in range(pad):
                file.create_dataset(f"pad{n}", data=["long text"] * 5, dtype=h5py.string_dtype())
            file.create_dataset("t", data=np.array([(text, 1), ("z", 2)], kind))
            file.create_dataset("s", data=[text, "z"], dtype=h5py.string_dtype())
            file["link"] = file["t"].ref
    a, b, c = (hs.open(tmp_path / f"{name}.h5") for name in "abc")
    assert not hs.diff(a["t"], b["t"]) and not hs.diff(a["s"], b["s"]) and not hs.diff(a["link"], b["link"])
    assert hs.diff(a["t"], c["t"]).arrays[0].first[0].b == {"name": "y", "n": 1}
    assert [each.path for each in hs.diff(a, b).metadata] == ["pad0", "pad1", "pad2"]
    assert [each.path for each in hs.diff(a, c).arrays] == ["s", "t"]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs of a model that differ in two elements, written by netCDF4-python."""
    paths = [tmp_path / "run1.nc", tmp_path / "run2.nc"]
    for number, path in enumerate(paths):
        with netCDF4.Dataset(path, "w") as nc:
            nc.title = "a run"
            nc.createDimension("time", None)
            nc.createDimension("x", 4)
            time = nc.createVariable("time", "f8", ("time",))
            time.units = "days since 2000-01-01"
            time[:] = np.arange(3)
            x = nc.createVariable("x", "f4", ("x",))
            x[:] = [0.5, 1.5, 2.5, 3.5]
            sst = nc.createVariable("sst", "i2", ("time", "x"), zlib=True, fill_value=-999)
            sst.scale_factor = 0.01
            sst.units = "degC"
            values = np.ma.masked_equal(np.arange(12.0).reshape(3, 4), 5)
            values[1, 2] += number / 4
            if number:
                values[2, 0] = np.ma.masked
            sst[:] = values
    return paths


def test_the_command_says_what_differs_and_where(runs: list[Path], tmp_path: Path) -> None:
    one, other = runs
    done = run(one, other)
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "sst: 2 of 12 elements differ (16.67 %)",
        f"  1 of them missing in {other} only",
        "  largest difference  0.25 at (1, 2) [time=2000-01-02, x=2.5]: 6.0 | 6.25",
        "  largest relative    0.04 at (1, 2) [time=2000-01-02, x=2.5]: 6.0 | 6.25",
        "  RMS                 0.25",
        "  (1, 2) [time=2000-01-02, x=2.5]: 6.0 | 6.25",
        "  (2, 0) [time=2000-01-03, x=0.5]: 8.0 | missing",
    ]
    assert run(one, one).stdout == "" and run(one, one).returncode == 0
    hs.copy(one, tmp_path / "copy.zarr")
    assert run(one, tmp_path / "copy.zarr").stdout == ""
    assert run(one, other, "--atol", 0.3).stdout.startswith("sst: 1 of 12")
    found = json.loads(run(one, other, "--json").stdout)
    assert found["arrays"][0]["first"][0]["coordinates"] == {"time": "2000-01-02", "x": 2.5}
    assert not found["equal"]
    raw = json.loads(run(one, other, "--json", "--raw").stdout)["arrays"][0]
    assert (raw["different"], raw["largest_absolute"]["value"]) == (2, 1799.0)
    assert "stopped at the first difference" in run(one, other, "--brief").stdout
    assert run(one, tmp_path / "nothing.nc").returncode == 2
    assert "nothing.nc" in run(one, tmp_path / "nothing.nc").stderr
    assert run(one).returncode == 2 and run(one, other, "--rtol", -1).returncode == 2


def test_git_asks_for_differences(runs: list[Path], tmp_path: Path) -> None:
    one, other = runs
    done = run("--git", "sst.nc", one, "1" * 40, "100644", other, "2" * 40, "100644")
    assert (done.returncode, done.stdout.splitlines()[:2]) == (
        0,
        ["hyperslab diff a/sst.nc b/sst.nc", "sst: 2 of 12 elements differ (16.67 %)"],
    )
    new = run("--git", "sst.nc", "/dev/null", ".", ".", other, "2" * 40, "100644")
    assert (new.returncode, new.stdout.splitlines()[-1]) == (0, "new file")
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    home = tmp_path / "repository"
    home.mkdir()

    def call(*arguments: str) -> str:
        environment = {**os.environ, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1"}
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            [git, *who, *arguments], cwd=home, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call("init", "-q")
    (home / ".gitattributes").write_text("*.nc diff=hyperslab\n")
    call("config", "diff.hyperslab.command", f"{sys.executable} -m hyperslab diff --git")
    shutil.copy(one, home / "sst.nc")
    call("add", ".")
    call("commit", "-q", "-m", "one")
    shutil.copy(other, home / "sst.nc")
    assert "sst: 2 of 12 elements differ" in call("diff")


def png_pixels(png: bytes) -> Any:
    """Decodes a PNG without filters."""
    file = io.BytesIO(png)
    assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    parts: dict[bytes, bytes] = {}
    while (size := file.read(4)) != b"":
        kind, body = file.read(4), file.read(int.from_bytes(size, "big"))
        assert zlib.crc32(kind + body) == int.from_bytes(file.read(4), "big")
        parts[kind] = body
    width, height = (int.from_bytes(parts[b"IHDR"][at : at + 4], "big") for at in (0, 4))
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), "u1").reshape(height, 1 + 3 * width)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 3)


def test_pictures_show_the_first_slice_that_differs() -> None:
    a = np.add.outer(np.zeros(3), np.add.outer(np.arange(40.0), np.arange(60.0)))
    b = a.copy()
    b[1, 10, 20] += 7
    b[1, 30, 50] -= 7
    b[1, 5, 5] = np.nan
    found = hs.diff(a, b, png=True)
    assert found.png is not None
    pixels = png_pixels(found.png)
    colors = {tuple(color) for color in pixels.reshape(-1, 3).tolist()}
    # The largest and the smallest difference, no difference, and an element missing in one.
    assert {(103, 0, 31), (5, 48, 97), (247, 247, 247), (0, 0, 0)} <= colors
    red = np.argwhere((pixels == [103, 0, 31]).all(-1))
    zoom = 300 // 60
    # The element, as a square, and the end of the bar of colours.
    assert len(red) >= zoom * zoom
    assert hs.diff(a, a, png=True).png is None


def test_assertions(tmp_path: Path, runs: list[Path]) -> None:
    values = np.arange(6.0).reshape(2, 3)
    z = hs.create_array(hs.MemoryStore(), data=values, attributes={"units": "K"})
    assert_equal(z, values)
    assert_equal(z, values.astype("f4"))
    assert_equal(values, z)
    assert_equal(z, z[...].tolist())
    assert_equal(z, values + 1e-9, atol=1e-8)
    with pytest.raises(AssertionError, match=r"units"):
        assert_equal(z, hs.array(values))
    assert_equal(z, hs.array(values), metadata=False)
    with pytest.raises(AssertionError, match=r"shape: \[2, 3\] \| \[3\]"):
        assert_equal(z, np.arange(3.0))
    with pytest.raises(AssertionError) as caught:
        assert_equal(z, values + [0, 0, 1], err_msg="the model")
    assert str(caught.value).splitlines()[:2] == ["the model", "/: 2 of 6 elements differ (33.33 %)"]
    with pytest.raises(AssertionError, match="6 of 6 elements differ"):
        assert_equal(z, np.full((2, 3), "x"))
    assert_equal(runs[0], str(runs[0]))
    with pytest.raises(AssertionError, match="missing in"):
        assert_equal(*runs)


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0000001, np.nan, np.inf, -np.inf, 1e300]), max_size=6),
    others=st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0000001, np.nan, np.inf, -np.inf, 1e300]), max_size=6),
    rtol=st.sampled_from([0.0, 1e-6, 1.0]),
    equal_nan=st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_verdicts_are_those_of_numpy(
    values: list[float], others: list[float], rtol: float, equal_nan: bool
) -> None:
    n = min(len(values), len(others))
    a, b = np.array(values[:n], "f8"), np.array(others[:n], "f8")

    def raises(check: Any) -> bool:
        try:
            check()
        except AssertionError:
            return True
        return False

    ours = raises(lambda: assert_equal(a, b, rtol=rtol, equal_nan=equal_nan))
    assert ours == raises(lambda: np.testing.assert_allclose(a, b, rtol, 0, equal_nan=equal_nan))


@pytest.mark.parametrize("change", [None, "value", "attribute", "member"])
def test_verdicts_are_those_of_h5diff(tmp_path: Path, change: str | None) -> None:
    paths = [tmp_path / "a.h5", tmp_path / "b.h5"]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            values = np.arange(20.0).reshape(4, 5)
            values[1, 1] = np.nan
            if number and change == "value":
                values[2, 3] += 1
            file.create_dataset("g/a", data=values, chunks=(2, 5), compression="gzip")
            file.attrs["title"] = "y" if number and change == "attribute" else "x"
            if number and change == "member":
                file["more"] = 1
    theirs = subprocess.run([tool("h5diff"), *paths], capture_output=True, timeout=60, check=False).returncode
    assert run(*paths).returncode == theirs == (change is not None)


def test_stored_bytes_decide_before_decoding(tmp_path: Path, rng: np.random.Generator) -> None:
    values = rng.integers(0, 9, (16, 16))
    for shards in (None, (8, 8)):
        a, b = (hs.array(values, chunks=(4, 4), shards=shards) for _ in range(2))
        found = hs.diff(a, b, threads=1)
        assert (found.chunks_skipped, found.chunks_decoded) == (16, 0)
        b[0, 0] += 1
        found = hs.diff(a, b, threads=1)
        assert found.chunks_decoded == (1 if shards is None else 4)
        assert found.arrays[0].different == 1


def test_progress_and_interruptions() -> None:
    z = hs.array(np.arange(1000), chunks=10)
    told: list[tuple[str, int, int]] = []
    hs.diff(z, z, progress=lambda *each: told.append(each), threads=1)
    assert told[-1] == ("compare", 8000, 8000)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hs.diff(z, z, progress=stop)
    with pytest.raises(ValueError, match="rtol: expected a number that is not negative"):
        hs.diff(z, z, rtol=-1)


def test_stores_on_a_server(tmp_path: Path) -> None:
    values = np.arange(1000.0).reshape(20, 50)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(7, 7))
    with Server() as server:
        options = server.s3_options
        group = hs.create_group(hs.storage.RemoteStore("s3://bucket/a.zarr", storage_options=options))
        group.create_array("a", data=values, chunks=(10, 10))
        assert hs.diff(tmp_path / "a.h5", "s3://bucket/a.zarr", storage_options=options).lines == ()
        group["a"][3, 4] = -1
        found = hs.diff(tmp_path / "a.h5", "s3://bucket/a.zarr", storage_options=options)
        [array] = found.arrays
        assert (array.path, array.different, array.largest_absolute) == ("a", 1, 155.0)
