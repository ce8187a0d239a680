"""Codecs of zarr-extensions that change elements or shapes.

Compared with zarrs (through zarrista) and zarr-python.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import NUMBERS, from_bits
from support import assert_same, examples, scratch

try:
    import zarrista
except ImportError:
    zarrista = None
needs_zarrista = pytest.mark.skipif(
    zarrista is None, reason="zarrista is not installed: it needs Python 3.12"
)
# zarr-python's `cast_value` needs another package.
NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
CASTS = NEWEST and importlib.util.find_spec("cast_value_rs") is not None
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def zarrs(path: Path) -> Any:
    return zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), "/")


def stored_by_zarrs(path: Path, data: np.ndarray[Any, Any]) -> bytes:
    """Returns the chunk that zarrs writes for an array of one chunk."""
    zarrs(path).store_chunk([0] * data.ndim, zarrista.ArrayBytes(data.tobytes()))
    return (path / "c" / "/".join("0" * data.ndim)).read_bytes()


def one_chunk(path: Path, data: np.ndarray[Any, Any], **more: Any) -> bytes:
    hs.create_array(
        path, data=data, chunks=data.shape, compressors=None, config={"write_empty_chunks": True}, **more
    )
    return (path / "c" / "/".join("0" * data.ndim)).read_bytes()


@needs_zarrista
@settings(max_examples=examples(80))
@given(st.sampled_from([*NUMBERS, "b1"]), st.integers(0, 2**32), st.integers(1, 70), st.data())
def test_packbits(name: str, seed: int, count: int, data: st.DataObject) -> None:
    elements = from_bits(seed, count, np.dtype(name))
    width = 1 if name == "b1" else elements.itemsize * (4 if name[0] == "c" else 8)
    first, last = sorted([data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, width - 1))])
    padding: Any = data.draw(st.sampled_from(["none", "first_byte", "last_byte"]))
    # If the kept bits are whole bytes, zarrs cannot read its own padding.
    if (last - first + 1) % 8 == 0:
        padding = "none"
    codec = hs.codecs.PackBitsCodec(padding, first, last)
    if data.draw(st.booleans()) and (padding == "none" or name == "b1"):
        codec = hs.codecs.PackBitsCodec(padding)
    elements[0] = True
    with scratch() as path:
        ours = one_chunk(path / "a", elements, serializer=codec)
        back = hs.open_array(path / "a")
        assert back.serializer == codec
        if codec.first_bit is None:
            assert_same(back[...], elements)
        assert_same(back[count // 3 : count - 1], back[...][count // 3 : count - 1])
        # zarrs extends the sign of partial bits only to the end of their byte.
        if name[0] != "i" or codec.first_bit is None:
            assert np.asarray(zarrs(path / "a").retrieve_chunk([0])).tobytes() == back[...].tobytes()
        assert stored_by_zarrs(path / "a", elements) == ours
        for bad in (ours[:-1], ours + b"\0", b""):
            (path / "a/c/0").write_bytes(bad)
            with pytest.raises(hs.HyperslabError, match="c/0"):
                back[...]


@needs_zarrista
@settings(max_examples=examples(80))
@given(st.sampled_from(NUMBERS), st.integers(0, 2**32), st.integers(1, 60))
def test_bitround(name: str, seed: int, keepbits: int) -> None:
    elements = from_bits(seed, 50, np.dtype(name))
    with scratch() as path:
        ours = one_chunk(path / "a", elements, filters=[hs.codecs.BitRound(keepbits, numcodecs=False)])
        found = hs.open_array(path / "a")[...]
        assert found.tobytes() == ours
        assert np.asarray(zarrs(path / "a").retrieve_chunk([0])).tobytes() == ours
        theirs = np.frombuffer(stored_by_zarrs(path / "a", elements), elements.dtype)
    if elements.dtype.kind == "i":
        # zarrs makes some large integers negative.
        same = (theirs < 0) == (elements < 0)
        np.testing.assert_array_equal(found[same], theirs[same])
        assert np.array_equal(found < 0, elements < 0)
    else:
        # zarrs turns some NaNs into numbers.
        nan = np.isnan(elements)
        np.testing.assert_array_equal(found[~nan], theirs[~nan])
        assert np.isnan(found[nan]).all()


def test_bitround_of_small_numbers() -> None:
    ml_dtypes: Any = pytest.importorskip("ml_dtypes")
    data = np.array([1.0, 1.4, 100.3, -7.7, np.nan, np.inf]).astype(ml_dtypes.bfloat16)
    z = hs.create_array(hs.MemoryStore(), data=data, filters=[hs.codecs.BitRound(2, numcodecs=False)])
    np.testing.assert_array_equal(z[...].astype("f4"), [1.0, 1.5, 96.0, -8.0, np.nan, np.inf])


@pytest.mark.parametrize(
    "filters",
    [
        [hs.codecs.Reshape([[0, 1], 3, -1])],
        [hs.codecs.Reshape([-1])],
        [hs.codecs.Squeeze()],
        [hs.codecs.Transpose([3, 1, 0, 2]), hs.codecs.Squeeze()],
        [hs.codecs.Squeeze(), hs.codecs.Transpose([2, 0, 1])],
        [hs.codecs.Reshape([20, 6]), hs.codecs.Transpose([1, 0])],
        [hs.codecs.Transpose([3, 1, 0, 2]), hs.codecs.Reshape([[0, 1], -1]), hs.codecs.Transpose([1, 0])],
    ],
    ids=str,
)
@pytest.mark.parametrize("endian", ["little", "big"])
@needs_zarrista
def test_shapes(tmp_path: Path, filters: list[Any], endian: Any) -> None:
    data = np.arange(120, dtype="i4").reshape(4, 5, 1, 6)
    ours = one_chunk(tmp_path / "a", data, filters=filters, serializer=hs.codecs.Bytes(endian))
    z = hs.open_array(tmp_path / "a")
    assert_same(z[...], data)
    assert_same(z[1:3, ::-2, :, 4], data[1:3, ::-2, :, 4])
    assert z.filters == tuple(filters)
    np.testing.assert_array_equal(np.asarray(zarrs(tmp_path / "a").retrieve_chunk([0] * 4)), data)
    assert stored_by_zarrs(tmp_path / "a", data) == ours


numbers = st.integers(0, 2**32)


def near(seed: int, name: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if name.startswith("float"):
        found = rng.normal(size=40) * 10.0 ** rng.integers(-9, 7)
        found[:10] = rng.integers(-300, 300, 10) / 2
        return found.astype(name)
    info = np.iinfo(name)
    found = rng.integers(info.min, info.max, 40, name, endpoint=True)
    found[:20] = rng.integers(max(info.min, -300), min(info.max, 300), 20)
    return found


@pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4")
@settings(max_examples=examples(100))
@given(st.sampled_from([*INTEGERS, *FLOATS]), numbers, st.data())
def test_scale_offset(name: str, seed: int, data: st.DataObject) -> None:
    elements = near(seed, name)
    if name == "int64":
        elements %= 10**9  # zarr-python wraps integers of 64 bits
    if name.startswith("float"):
        offset: Any = data.draw(st.floats(-100, 100, width=16))
        scale: Any = data.draw(st.floats(-10, 10, width=16).filter(bool))
    else:
        info = np.iinfo(name)
        offset = data.draw(st.integers(max(info.min, -50), 50))
        scale = data.draw(st.integers(max(info.min, -3), 3).filter(bool))
    codec = hs.codecs.ScaleOffset(offset, scale)
    with scratch() as path:
        more: Any = {"filters": [codec], "compressors": None, "config": {"write_empty_chunks": True}}
        more["fill_value"] = max(offset, 0) if name.startswith("u") else offset
        try:
            theirs: Any = zarr.create_array(
                path / "b",
                data=elements,
                **{**more, "filters": [zarr.codecs.ScaleOffset(offset=offset, scale=scale)]},
            )
        except ValueError:
            with pytest.raises(hs.HyperslabError, match="scale_offset"):
                hs.create_array(path / "a", data=elements, **more)
            return
        z = hs.create_array(path / "a", data=elements, **more)
        assert (path / "a/c/0").read_bytes() == (path / "b/c/0").read_bytes()
        back = theirs[...]
        assert_same(z[...], back)
        assert_same(hs.open_array(path / "b", mode="r")[3:9], back[3:9])
        np.testing.assert_array_equal(zarr.open_array(path / "a", mode="r")[...], back)  # type: ignore[arg-type]


@pytest.mark.skipif(not CASTS, reason="cast-value-rs is not installed, or zarr-python is older than 3.4")
@settings(max_examples=examples(300))
@given(
    st.sampled_from([*INTEGERS, *FLOATS]),
    st.sampled_from([*INTEGERS, *FLOATS]),
    st.sampled_from(["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]),
    st.sampled_from([None, "clamp", "wrap"]),
    numbers,
)
def test_cast_value(name: str, target: str, rounding: Any, out_of_range: Any, seed: int) -> None:
    from cast_value_rs import cast_array  # type: ignore[import-not-found, unused-ignore]

    assume(not (out_of_range == "wrap" and target.startswith("float")))
    elements = near(seed, name)

    def cast(given: Any, to: str) -> Any:
        def theirs(given: Any) -> Any:
            return cast_array(given, target_dtype=to, rounding_mode=rounding, out_of_range_mode=out_of_range)

        infinite = np.isinf(given)
        if not (out_of_range == "clamp" and to in INTEGERS and infinite.any()):
            return theirs(given)
        # The specification clamps infinities, but cast-value-rs refuses them.
        limits = np.iinfo(to)
        clamped = np.where(given > 0, np.array(limits.max, to), np.array(limits.min, to))
        return np.where(infinite, clamped, theirs(np.where(infinite, 0, given).astype(given.dtype)))

    with scratch() as path:
        more: Any = {"compressors": None, "config": {"write_empty_chunks": True}}
        codec = hs.codecs.CastValue(target, rounding, out_of_range)
        try:
            expected = cast(elements, target)
        except ValueError:
            with pytest.raises(hs.HyperslabError, match="cast_value"):
                hs.create_array(path / "a", data=elements, filters=[codec], **more)
            return
        z = hs.create_array(path / "a", data=elements, filters=[codec], **more)
        assert_same(np.frombuffer((path / "a/c/0").read_bytes(), expected.dtype), expected)
        try:
            back = cast(expected, name)
        except ValueError:
            with pytest.raises(hs.HyperslabError, match="cast_value"):
                z[...]
            return
        assert_same(z[...], back)
        assert_same(z[5:9], back[5:9])
        if not np.isinf(expected).any():
            theirs: Any = zarr.open_array(path / "a", mode="r")
            np.testing.assert_array_equal(theirs[...], back)


def test_scalar_map(tmp_path: Path) -> None:
    data = np.array([1.5, 300.0, np.nan, -0.0, np.inf], "f4")
    pairs: Any = {"encode": {"NaN": 7, "Infinity": 8, 0: 9}, "decode": [[7, "NaN"], [8, "Infinity"]]}
    codec = hs.codecs.CastValue("uint8", out_of_range="clamp", scalar_map=pairs)
    z = hs.create_array(tmp_path / "a", data=data, filters=[codec], compressors=None)
    assert (tmp_path / "a/c/0").read_bytes() == bytes([2, 255, 7, 9, 8])
    np.testing.assert_array_equal(z[...], [2, 255, np.nan, 9, np.inf])
    assert z.filters == (codec,)
    if CASTS:
        theirs: Any = zarr.open_array(tmp_path / "a", mode="r")
        np.testing.assert_array_equal(theirs[...], z[...])


@pytest.mark.parametrize(
    ("codec", "dtype", "message"),
    [
        ({"name": "cast_value", "configuration": {"data_type": "bool"}}, "f8", "expected integers or floats"),
        ({"name": "cast_value", "configuration": {"data_type": "<i4"}}, "f8", "expected integers or floats"),
        ({"name": "cast_value", "configuration": {"data_type": "int8"}}, "S3", "expected integers or floats"),
        ({"name": "cast_value"}, "f8", "data_type"),
        (
            hs.codecs.CastValue("float32", out_of_range="wrap"),
            "f8",
            '"wrap" needs an integer data_type, found float32',
        ),
        (hs.codecs.CastValue("int8", rounding="up"), "f8", "unknown variant `up`"),
        (
            hs.codecs.CastValue("int8", scalar_map={"encode": [[1, 300]]}),
            "f8",
            "scalar_map: expected a number of type I8, found 300",
        ),
        (hs.codecs.ScaleOffset(offset=300), "u1", "offset: expected a number of type |u1, found 300"),
        (hs.codecs.ScaleOffset(scale=0), "u1", "scale must not be 0"),
        (hs.codecs.ScaleOffset(offset="x"), "f4", 'offset: expected a number of type <f4, found "x"'),
        (hs.codecs.ScaleOffset(), "b1", "expected integers or floats"),
        (hs.codecs.Reshape([2, 2]), "u1", "reshape"),
        (hs.codecs.Reshape([[1]]), "u1", "axis 1 does not exist"),
        (hs.codecs.BitRound(0, numcodecs=False), "u1", "keepbits: expected 1 or more"),
        ({"name": "zarrs.squeeze", "configuration": {"x": 1}}, "u1", "unknown field"),
    ],
)
def test_refused(tmp_path: Path, codec: Any, dtype: str, message: str) -> None:
    with pytest.raises(hs.HyperslabError) as caught:
        hs.create_array(tmp_path / "a", shape=(9,), chunks=(9,), dtype=dtype, filters=[codec])
    assert message in str(caught.value)
    assert not (tmp_path / "a").exists()


BEFORE = [hs.codecs.Squeeze(), hs.codecs.Reshape([-1]), hs.codecs.BitRound(9), hs.codecs.ScaleOffset(3, 2)]


@settings(max_examples=examples(40))
@given(
    st.sampled_from(BEFORE), st.sampled_from(["f4", "f8"]), st.integers(0, 2**32), st.booleans(), st.data()
)
def test_before_shards(codec: Any, dtype: str, seed: int, start: bool, data: st.DataObject) -> None:
    """Shards after codecs that change elements are read and written as a whole."""
    values = np.random.default_rng(seed).integers(0, 200, (1, 19, 14)).astype(dtype)
    values[:, :8] *= data.draw(st.booleans())
    name = codec.to_dict()["name"]
    inner = {"squeeze": (4, 2), "zarrs.squeeze": (4, 2), "reshape": (4,)}.get(name, (1, 4, 2))
    location: Any = "start" if start else "end"
    compressed: list[Any] = [hs.codecs.Bytes(endian="big"), hs.codecs.Zstd(level=1)]
    sharding = hs.codecs.Sharding(chunk_shape=inner, codecs=compressed, index_location=location)
    how: dict[str, Any] = {"filters": [codec], "serializer": sharding, "compressors": None}
    with scratch() as path:
        z = hs.create_array(path / "a", shape=values.shape, dtype=dtype, chunks=(1, 8, 6), **how)
        z[:, :16] = values[:, :16]
        z[:, 16:, 3:] = values[:, 16:, 3:]
        z[:, 16:, :3] = values[:, 16:, :3]
        back = hs.open_array(path / "a")
        assert back.chunks == (1, 8, 6) and back.shards is None and back.serializer == sharding
        assert_same(back[...], values)
        assert_same(back[0, 3:18:2, ::-1], values[0, 3:18:2, ::-1])
        readers = {"bitround": [read_by_zarrs], "scale_offset": [read_by_zarr_python]}
        for reader in readers.get(name, [read_by_zarrs]):
            reader(path / "a", values)


def read_by_zarrs(path: Path, values: Any) -> None:
    if zarrista is not None:
        found = zarrs(path).retrieve_array_subset(tuple(slice(0, n) for n in values.shape))
        assert_same(found.to_numpy(), values)


def read_by_zarr_python(path: Path, values: Any) -> None:
    if NEWEST:
        assert_same(zarr.open_array(path, mode="r")[...], values)


def test_damaged_shards_behind_codecs(tmp_path: Path) -> None:
    sharding = hs.codecs.Sharding(chunk_shape=(2,))
    data = np.arange(8, dtype="f4")
    hs.create_array(
        tmp_path / "a", data=data, chunks=(8,), filters=[hs.codecs.BitRound(9)], serializer=sharding
    )
    file = tmp_path / "a/c/0"
    stored = file.read_bytes()
    for bad in (b"", stored[:-1], stored[1:], stored[:-9] + b"\0" * 9, b"\xff" * len(stored)):
        file.write_bytes(bad)
        with pytest.raises(hs.HyperslabError, match="c/0"):
            hs.open_array(tmp_path / "a")[...]
    deep: Any = sharding
    for _ in range(8):
        deep = hs.codecs.Sharding(chunk_shape=(2,), codecs=[hs.codecs.BitRound(9), deep])
    with pytest.raises(hs.HyperslabError, match="more than 8 deep"):
        hs.create_array(
            tmp_path / "b",
            shape=(8,),
            chunks=(8,),
            dtype="f4",
            filters=[hs.codecs.BitRound(9)],
            serializer=deep,
        )


def test_names_that_are_read(tmp_path: Path) -> None:
    data = np.arange(6, dtype="f4").reshape(1, 6)
    one_chunk(tmp_path / "a", data, filters=[hs.codecs.Squeeze()])
    text = (tmp_path / "a/zarr.json").read_text()
    document = json.loads(text)
    document["codecs"][0] = "squeeze"
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    assert_same(hs.open_array(tmp_path / "a")[...], data)
