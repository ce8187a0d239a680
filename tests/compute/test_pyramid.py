"""Pyramids: levels against NumPy, window by window, and metadata against its specifications."""

from __future__ import annotations

import base64
import itertools
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab._compute.downsample import downsample
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import from_bits
from support import assert_same, examples


def windows(values: Any, factors: tuple[int, ...]) -> Any:
    """Yields each window of an array: its index, and its elements."""
    shape = [-(-n // factor) for n, factor in zip(values.shape, factors, strict=True)]
    for at in np.ndindex(*shape):
        place = tuple(slice(i * f, (i + 1) * f) for i, f in zip(at, factors, strict=True))
        yield at, values[place]


def rounded(total: int, count: int) -> int:
    """Rounds halves to the even number, as Python rounds fractions."""
    return round(Fraction(total, count))


def expected(values: Any, factors: tuple[int, ...], method: str, missing: Any) -> Any:
    dtype = values.dtype
    result = np.zeros([-(-n // f) for n, f in zip(values.shape, factors, strict=True)], dtype)
    for at, window in windows(values, factors):
        if method == "nearest":
            middle = tuple(min((f - 1) // 2, n - 1) for f, n in zip(factors, window.shape, strict=True))
            result[at] = window[middle]
            continue
        kept = window[(window == window) & (window != missing if missing is not None else True)]
        if not kept.size:
            result[at] = (
                missing if missing is not None else np.array("NaT" if dtype.kind in "mM" else np.nan, dtype)
            )
        elif method == "mean" and dtype.kind == "f":
            result[at] = np.float64(sum(float(each) for each in kept)) / kept.size
        elif method == "mean":
            result[at] = rounded(sum(int(each) for each in kept), kept.size)
        elif method == "mode":
            found, counts = np.unique(kept, return_counts=True)
            result[at] = found[np.argmax(counts)]
        else:
            result[at] = getattr(kept, method)()
    return result


@given(data=st.data())
@settings(max_examples=examples(300))
def test_windows_are_those_of_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    factors = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    method: Any = data.draw(st.sampled_from(["mean", "nearest", "min", "max", "mode"]))
    names = [
        "u1",
        "i2",
        ">i4",
        "i8",
        "u8",
        "f4",
        ">f8",
        *(["M8[D]", "m8[s]", "b1"] if method != "mean" else []),
    ]
    dtype = np.dtype(data.draw(st.sampled_from(names)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    count = int(np.prod(shape))
    if dtype.kind == "f":
        # Sums of these values are exact in any order.
        values = rng.integers(0, 5, count).astype(dtype)
        values[rng.random(count) < 0.3] = np.nan
    elif data.draw(st.booleans()) or dtype.kind == "b":
        values = rng.integers(0, 2, count).astype(dtype)
    else:
        values = from_bits(int(rng.integers(1000)), count, dtype)
    values = values.reshape(shape)
    missing = None
    if dtype.kind in "iuf" and data.draw(st.booleans()):
        missing = np.array(data.draw(st.sampled_from([0, 1])), dtype)
    found = downsample(values.copy(), factors, method, missing)
    assert_same(found, expected(values, factors, method, missing), method)


@given(data=st.data())
@settings(max_examples=examples(50))
def test_levels_are_made_block_by_block(data: st.DataObject) -> None:
    """For any chunks, shards and memory, a level equals the level of the whole array at once."""
    shape = tuple(data.draw(st.integers(1, 40)) for _ in range(2))
    factors = tuple(data.draw(st.sampled_from([(2, 2), (1, 3), (4, 2)])))
    chunks = tuple(data.draw(st.integers(1, 9)) for _ in shape)
    shards = data.draw(st.sampled_from([None, tuple(2 * c for c in chunks)]))
    values = np.random.default_rng(3).integers(0, 255, shape).astype("u1")
    z = hs.create_array(hs.MemoryStore(), shape=shape, chunks=chunks, shards=shards, dtype="u1", fill_value=7)
    z[...] = values
    told: list[tuple[str, int, int]] = []
    group = hs.pyramid(
        z,
        hs.MemoryStore(),
        factors,
        levels=4,
        max_memory=data.draw(st.sampled_from(["4 KiB", "1 MiB"])),
        progress=lambda *done: told.append(done),
    )
    assert sorted(group.array_keys()) == ["0", "1", "2", "3"]
    total = 0
    for path in "0123":
        level = group[path]
        assert_same(level[...], values)
        assert (level.chunks, level.shards, level.fill_value) == (chunks, shards, 7)
        total += values.nbytes
        values = expected(values, factors, "mean", None)
    assert told[-1] == ("pyramid", total, total)


def test_what_is_missing() -> None:
    z = hs.array(np.array([[1, -9, -9, -9], [3, 3, -9, -9]], "i2"), chunks=(2, 2))
    assert hs.pyramid(z, hs.MemoryStore(), missing=-9, levels=2)["1"][...].tolist() == [[2, -9]]
    optional = hs.array(
        [[1, None, None, None], [4, 4, None, 8]], dtype=hs.optional_dtype("i4"), chunks=(2, 2)
    )
    level = hs.pyramid(optional, hs.MemoryStore(), levels=3)
    assert level["1"][...].tolist() == [[3, 8]]
    assert level["2"][...].tolist() == [[6]]
    most = hs.pyramid(optional, hs.MemoryStore(), method="max", levels=2)
    assert most["1"][...].tolist() == [[4, 8]]


def test_an_array_of_the_group_stays(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "g")
    z = group.create_array(
        "full", data=np.arange(64.0).reshape(8, 8), chunks=(4, 4), dimension_names=("y", "x")
    )
    hs.pyramid(z, group, name="image", scale=(2, 0.5), translation=(10, 0), metadata=("ome", "geozarr"))
    assert sorted(group.array_keys()) == ["1", "full"]
    ome = group.attrs["ome"]
    assert ome["version"] == "0.5"
    (image,) = ome["multiscales"]
    assert (image["name"], image["type"]) == ("image", "mean")
    assert image["axes"] == [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    assert image["datasets"] == [
        {
            "path": "full",
            "coordinateTransformations": [
                {"type": "scale", "scale": [2.0, 0.5]},
                {"type": "translation", "translation": [10.0, 0.0]},
            ],
        },
        {
            "path": "1",
            "coordinateTransformations": [
                {"type": "scale", "scale": [4.0, 1.0]},
                {"type": "translation", "translation": [11.0, 0.25]},
            ],
        },
    ]
    assert group.attrs["multiscales"] == {
        "layout": [
            {"asset": "full", "transform": {"scale": [1.0, 1.0]}},
            {
                "asset": "1",
                "derived_from": "full",
                "transform": {"scale": [2.0, 2.0], "translation": [0.5, 0.5]},
                "resampling_method": "average",
            },
        ],
        "resampling_method": "average",
    }
    assert [each["name"] for each in group.attrs["zarr_conventions"]] == ["multiscales"]
    with pytest.raises(hs.errors.DestinationError, match="'1' exists already in"):
        hs.pyramid(z, group)


def test_the_middle_of_what_an_element_stands_for(tmp_path: Path) -> None:
    """Levels of a ramp lie on the ramp, at the positions in the metadata."""
    ramp = np.add.outer(100.0 * np.arange(27), np.arange(27.0))
    for method, factor in itertools.product(("mean", "nearest"), (2, 3)):
        z = hs.array(ramp, chunks=(5, 5))
        group = hs.pyramid(z, hs.MemoryStore(), factor, method=method, levels=3)  # type: ignore[arg-type]
        for dataset in group.attrs["ome"]["multiscales"][0]["datasets"]:
            size, place = dataset["coordinateTransformations"]
            level = group[dataset["path"]][...]
            whole = tuple(slice(0, int(27 // size["scale"][0])) for _ in range(2))
            y, x = (place["translation"][k] + size["scale"][k] * np.arange(level.shape[k]) for k in range(2))
            np.testing.assert_allclose(level[whole], np.add.outer(100 * y, x)[whole])


def test_axes_and_factors(tmp_path: Path) -> None:
    z = hs.zeros((3, 4, 16, 16), chunks=(1, 1, 4, 4), dtype="u1")
    group = hs.pyramid(z, tmp_path / "a", axes=["t", "channel", "y", {"name": "x", "unit": "micrometer"}])
    image = group.attrs["ome"]["multiscales"][0]
    assert [axis["type"] for axis in image["axes"]] == ["time", "channel", "space", "space"]
    assert image["axes"][3]["unit"] == "micrometer"
    assert [group[path].shape for path in "012"] == [(3, 4, 16, 16), (3, 4, 8, 8), (3, 4, 4, 4)]
    assert group["1"].dimension_names == ("t", "channel", "y", "x")
    volume = hs.zeros((8, 8, 8), chunks=(4, 4, 4), dtype="u1")
    assert hs.pyramid(volume, hs.MemoryStore())["1"].shape == (4, 4, 4)
    assert hs.pyramid(volume, hs.MemoryStore(), {"z": 4, -1: 2}, levels=2)["1"].shape == (2, 8, 4)
    assert hs.pyramid(volume, hs.MemoryStore(), (1, 1, 3), levels=2)["1"].shape == (8, 8, 3)
    line = hs.pyramid(hs.zeros((9,), chunks=(2,)), hs.MemoryStore(), metadata="geozarr")
    assert "ome" not in line.attrs and len(line.attrs["multiscales"]["layout"]) == 4


def test_files_and_other_codecs(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(64, dtype="i2").reshape(8, 8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(4, 4), compression="gzip")
    array = hs.open(tmp_path / "a.h5", mode="r")["a"]
    group = hs.pyramid(array, tmp_path / "b", method="max", compressors=hs.codecs.Gzip())
    assert_same(group["0"][...], values)
    assert_same(group["1"][...], values[1::2, 1::2])
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["a"] = np.ones((600, 40), "f4")
    group = hs.pyramid(hs.open(tmp_path / "c.h5", mode="r")["a"], tmp_path / "d")
    assert [group[path].shape for path in "012"] == [(600, 40), (300, 20), (150, 10)] and "3" not in group


def test_executors(tmp_path: Path) -> None:
    values = np.random.default_rng(2).random((64, 64))
    z = hs.create_array(tmp_path / "a", data=values, chunks=(8, 8))
    with ThreadPoolExecutor(2) as executor:
        group = hs.pyramid(z, tmp_path / "b", executor=executor, levels=3)
    mean = values.reshape(32, 2, 32, 2).mean((1, 3))
    np.testing.assert_allclose(group["1"][...], mean, rtol=1e-14)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"method": "median"}, ValueError, "method: expected one of mean, nearest"),
        ({"metadata": "tiles"}, ValueError, "metadata"),
        ({"levels": 0}, ValueError, "levels: expected one or more"),
        ({"factors": 1}, ValueError, "one of them 2 or more"),
        ({"factors": (2,)}, ValueError, "each of 2 axes"),
        ({"factors": {"q": 2}}, ValueError, "no axis 'q'"),
        ({"axes": ["x"]}, ValueError, "each of 2 axes"),
        ({"axes": ["x", "x"]}, ValueError, "expected different names"),
        ({"axes": ["x", "t"]}, ValueError, "OME-Zarr needs two to five"),
        ({"scale": (1,)}, ValueError, "scale: expected a number"),
        ({"max_memory": 3}, ValueError, "bytes for one block"),
    ],
)
def test_arguments(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        hs.pyramid(hs.zeros((8, 8), chunks=(2, 2)), hs.MemoryStore(), **options)


def test_element_types() -> None:
    text = hs.array(np.array([["a", "b"], ["c", "d"]]), chunks=(1, 1))
    assert hs.pyramid(text, hs.MemoryStore(), method="nearest")["1"][...].tolist() == [["a"]]
    for dtype, method in (("U2", "mean"), ("b1", "mean"), ("c8", "max"), ("M8[D]", "mean")):
        with pytest.raises(hs.errors.DataTypeError, match=f"method '{method}' does not support"):
            hs.pyramid(hs.zeros((4, 4), dtype=dtype), hs.MemoryStore(), method=method)  # type: ignore[arg-type]
    with pytest.raises(hs.errors.ArgumentTypeError):
        hs.pyramid(np.zeros((4, 4)), hs.MemoryStore())


def test_broken_chunks_are_named(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=np.ones((8, 8)), chunks=(4, 4))
    (tmp_path / "a" / "c" / "1" / "0").write_bytes(b"no chunk")
    with pytest.raises(hs.errors.ChunkError) as caught:
        hs.pyramid(z, tmp_path / "b")
    assert caught.value.__notes__[0].startswith("in map_chunks, block (")
    # The failed call leaves nothing.
    assert os.listdir(tmp_path) == ["a"]
    (tmp_path / "a" / "c" / "1" / "0").unlink()
    assert hs.pyramid(z, tmp_path / "b").attrs["ome"]["version"] == "0.5"


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "g", attributes={"title": "x"})
    values = np.arange(64.0).reshape(8, 8)
    group.create_array("0", data=values, chunks=(2, 2))

    class Stopped(BaseException):
        pass

    def stop(_: str, done: int, total: int) -> None:
        if done > total // 2:
            raise Stopped

    with pytest.raises(Stopped):
        hs.pyramid(group["0"], group, progress=stop)
    assert list(group) == ["0"] and group.attrs.asdict() == {"title": "x"}
    assert_same(group["0"][...], values)
    # Levels that a killed call marked as unfinished are made again. Other levels are refused.
    for name in ("1", "2"):
        group.create_array(name, data=np.ones(3), attributes={"hyperslab:unfinished": "x"})
    hs.pyramid(group["0"], group)
    assert group["1"].shape == (4, 4) and group["1"].attrs.asdict() == {}
    assert group["2"].attrs.asdict() == {}
    with pytest.raises(hs.errors.DestinationError, match="'1' exists already in"):
        hs.pyramid(group["0"], group)
    made = hs.pyramid(group["0"], hs.MemoryStore(), attributes={"a": 1})
    assert made["1"].attrs.asdict() == {"a": 1}


def test_ome_zarr_of_version_2(tmp_path: Path) -> None:
    values = np.arange(64, dtype="u2").reshape(8, 8)
    group = hs.pyramid(hs.array(values, chunks=(4, 4)), tmp_path / "a", zarr_format=2, name="image")
    assert "ome" not in group.attrs
    (image,) = group.attrs["multiscales"]
    assert (image["version"], image["name"], image["type"]) == ("0.4", "image", "mean")
    assert [each["path"] for each in image["datasets"]] == ["0", "1"]
    assert image["datasets"][1]["coordinateTransformations"] == [
        {"type": "scale", "scale": [2.0, 2.0]},
        {"type": "translation", "translation": [0.5, 0.5]},
    ]
    assert (tmp_path / "a" / "0" / "1" / "1").is_file()
    zarr = pytest.importorskip("zarr")
    theirs = zarr.open_group(tmp_path / "a", mode="r", zarr_format=2)
    assert_same(theirs["0"][...], values)
    assert_same(theirs["1"][...], expected(values, (2, 2), "mean", None))
    assert theirs["1"].metadata.dimension_separator == "/"
    with pytest.raises(hs.errors.InvalidArgumentError, match="zarr_format: expected 2"):
        hs.pyramid(hs.array(values), group, zarr_format=3)
    other = hs.create_group(tmp_path / "b", zarr_format=2)
    z = other.create_array("0", data=values, chunks=(4, 4))
    with pytest.raises(hs.errors.InvalidArgumentError, match="chunks with keys like 0.0"):
        hs.pyramid(z, other)
    assert hs.pyramid(z, other, metadata="geozarr")["1"].shape == (4, 4)


def test_packed_numbers_keep_their_meaning() -> None:
    packing = {"_FillValue": -9, "scale_factor": 0.5, "units": "K"}
    z = hs.array(np.array([[1, -9], [3, -9]], "i2"), chunks=(1, 1), attributes=packing)
    level = hs.pyramid(z, hs.MemoryStore(), levels=2)["1"]
    assert level[...].tolist() == [[2]] and level.attrs.asdict() == packing
    assert hs.pyramid(z, hs.MemoryStore(), levels=2, missing=())["1"][...].tolist() == [[-4]]
    unsigned = {"_Unsigned": "true", "_FillValue": -1}
    z = hs.array(np.array([[1, -3], [-1, -1]], "i1"), chunks=(1, 1), attributes=unsigned)
    # The mean of 1 and 253 is 127.
    assert hs.pyramid(z, hs.MemoryStore(), levels=2)["1"][...].tolist() == [[127]]


def test_levels_of_netcdf_have_its_attributes_in_the_words_of_their_format(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    values = np.arange(16, dtype="f4").reshape(4, 4)
    values[0, :2] = values[1, :2] = np.nan
    given = xr.Dataset({"t": (("y", "x"), values, {"units": "K"}), "x": ("x", np.arange(4.0))})
    given.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding={"t": {"_FillValue": np.float32(-9)}})
    with hs.File(tmp_path / "a.nc") as file:
        for zarr_format, fill in ((2, None), (3, base64.b64encode(struct.pack("<d", -9.0)).decode())):
            group = hs.pyramid(
                file["t"], tmp_path / f"{zarr_format}", axes=("y", "x"), levels=2, zarr_format=zarr_format
            )
            attributes = group["1"].attrs.asdict()
            attributes.pop("_ARRAY_DIMENSIONS", None)
            assert attributes == {"units": "K"} | ({"_FillValue": fill} if fill else {})
            shown = xr.open_zarr(tmp_path / f"{zarr_format}", consolidated=False, drop_variables=["0"])["1"]
            assert shown.attrs == {"units": "K"}
            assert_same(shown.to_numpy(), np.array([[np.nan, 4.5], [10.5, 12.5]], "f4"))
