"""Filters of numcodecs that change elements, compared with numcodecs and zarr-python.

Both formats are tested.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NUMBERS, shapes_and_chunks
from support import assert_same, examples, scratch

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f2", "f4", "f8"]
MANTISSA = {"f2": 10, "f4": 23, "f8": 52}


def values(seed: int, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns integers from the whole range of their type, and floats near zero.

    C defines the conversion to integers only for small floats.
    """
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        found = rng.integers(0, 2, count)
    elif dtype.kind in "iu":
        info = np.iinfo(dtype.newbyteorder("="))
        found = rng.integers(info.min, info.max, count, info.dtype, endpoint=True)
        found[rng.random(count) < 0.5] %= 100
    else:
        found = (rng.normal(size=count) * 10.0 ** rng.integers(-3, 4, count)).round(rng.integers(0, 5))
        found[rng.random(count) < 0.1] = -0.0
    return found.astype(dtype)


@st.composite
def filters(draw: st.DrawFn, orders: str = "<>") -> tuple[Any, np.dtype[Any]]:
    """Draws a filter of numcodecs, and the element type that it is for."""

    def one_of(names: list[str]) -> np.dtype[Any]:
        return np.dtype(draw(st.sampled_from(names))).newbyteorder(draw(st.sampled_from(orders)))

    kind = draw(
        st.sampled_from(["delta", "delta", "fixedscaleoffset", "quantize", "bitround", "packbits", "astype"])
    )
    number = st.one_of(st.integers(-100, 100), st.floats(-100, 100, width=16))
    if kind == "delta":
        dtype = one_of([*NUMBERS, "b1"])
        wider = dtype
        if dtype.kind in "iu":
            # Integer differences that are stored as floats can add up to more than the type holds.
            # NumPy's result then depends on the machine.
            wider = draw(st.sampled_from([dtype, one_of(INTEGERS)]))
            # Older NumPy adds signed integers and u8 as floats, which are wrong where integers
            # wrap.
            if np.result_type(dtype, wider).kind == "f":
                wider = dtype
        elif dtype.kind == "f":
            wider = draw(st.sampled_from([dtype, one_of(FLOATS)]))
        return numcodecs.Delta(dtype.str, wider.str), dtype
    if kind == "fixedscaleoffset":
        dtype = one_of([*FLOATS, *FLOATS, *INTEGERS])
        if dtype.kind == "f":
            offset, scale, stored = draw(number), draw(number), one_of([*FLOATS, *INTEGERS])
        else:
            offset, scale, stored = draw(st.integers(0, 100)), draw(st.integers(1, 9)), one_of(INTEGERS)
        return numcodecs.FixedScaleOffset(offset, scale or 1, dtype.str, stored.str), dtype
    if kind == "quantize":
        dtype = one_of(FLOATS)
        return numcodecs.Quantize(draw(st.integers(-3, 4)), dtype.str, one_of(FLOATS).str), dtype
    if kind == "bitround":
        dtype = np.dtype(draw(st.sampled_from(FLOATS)))
        return numcodecs.BitRound(draw(st.integers(0, MANTISSA[dtype.str[1:]]))), dtype
    if kind == "packbits":
        return numcodecs.PackBits(), np.dtype("b1")
    dtype = one_of([*INTEGERS, *FLOATS, "b1"])
    return numcodecs.AsType(one_of([*INTEGERS, *FLOATS, "b1"]).str, dtype.str), dtype


def data_for(codec: Any, dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    data = values(seed, int(np.prod(shape)), dtype).reshape(shape)
    if codec.codec_id == "fixedscaleoffset" and dtype.kind in "iu":
        # An element that wraps is read back as a float that the type cannot hold. NumPy's result
        # then depends on the machine.
        data = np.maximum(data, np.asarray(np.iinfo(dtype).min + codec.offset, dtype))
    # numcodecs refuses a chunk if the type of the differences cannot hold its first element. Floats
    # cannot hold differences that wrap: numcodecs then reads other elements.
    if codec.codec_id != "delta" or dtype.kind not in "iu":
        return data
    if codec.astype.kind == "f" or not np.can_cast(dtype, codec.astype):
        data = np.asarray(data % 100, dtype)
    return data


def chunk_of(
    data: np.ndarray[Any, Any], chunks: tuple[int, ...], index: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Returns one chunk, padded with zeros at the edge."""
    part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
    chunk = np.zeros(chunks, data.dtype)
    chunk[tuple(slice(n) for n in part.shape)] = part
    return chunk


def expected(
    codec: Any, data: np.ndarray[Any, Any], chunks: tuple[int, ...], order: Any
) -> tuple[np.ndarray[Any, Any], dict[tuple[int, ...], bytes]]:
    """Returns the elements that numcodecs reads back, and the bytes of its chunks."""
    back, stored = data.copy(), {}
    grid = [range(-(-n // c)) for n, c in zip(data.shape, chunks, strict=True)]
    for index in itertools.product(*grid):
        chunk = chunk_of(data, chunks, index).astype(data.dtype, order=order)
        # BitRound of numcodecs returns arrays in C order, whatever the order of its input.
        encoded = codec.encode(chunk if codec.codec_id != "bitround" else chunk.copy())
        stored[index] = encoded.astype(encoded.dtype, order=order).tobytes(order="A")
        decoded = np.asarray(codec.decode(stored[index])).view(data.dtype).reshape(chunks, order=order)
        if codec.codec_id == "delta" and data.dtype.kind == "b":
            # numcodecs adds bools with "or", and so loses them.
            decoded = chunk
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        back[place] = decoded[tuple(slice(n) for n in back[place].shape)]
    return back, stored


def key(index: tuple[int, ...], zarr_format: int) -> str:
    if zarr_format == 2:
        return ".".join(map(str, index)) or "0"
    return "/".join(["c", *map(str, index)])


# zarr-python 3.1 misreads v3 filters that change the element type, even its own.
NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)


def is_odd(codec: Any, data: np.ndarray[Any, Any]) -> bool:
    """Returns whether numcodecs reads other elements than it was given."""
    return codec.codec_id == "delta" and data.dtype.kind == "b"


def grids() -> st.SearchStrategy[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Draws shapes and chunks with at least one axis.

    numcodecs stores arrays without axes in another byte order.
    """
    return shapes_and_chunks(3).filter(lambda grid: len(grid[0]) > 0)


@settings(max_examples=examples(150))
@given(filters(), grids(), st.integers(0, 2**32), st.sampled_from("CF"), st.booleans())
def test_v2(
    found: tuple[Any, np.dtype[Any]],
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    seed: int,
    order: Any,
    compressed: bool,
) -> None:
    """hyperslab writes the same bytes as numcodecs. All three libraries read the same elements."""
    (codec, dtype), (shape, chunks) = found, grid
    if codec.codec_id == "bitround" and len(shape) > 1:
        order = "C"  # zarr-python reorders the axes of arrays in F order.
    data = data_for(codec, dtype, shape, seed)
    back, stored = expected(codec, data, chunks, order)
    compressor = numcodecs.Zlib(1) if compressed else None
    with scratch() as path:
        z = hs.create_array(
            path / "a",
            data=data,
            chunks=chunks,
            filters=[codec],
            compressors=compressor,
            zarr_format=2,
            order=order,
            config={"write_empty_chunks": True},
        )
        assert_same(z[...], back)
        for index, encoded in stored.items():
            file = (path / "a" / key(index, 2)).read_bytes()
            assert (compressor.decode(file) if compressor else file) == encoded, index
        theirs: Any = zarr.open_array(path / "a", mode="r")
        if not is_odd(codec, data):
            np.testing.assert_array_equal(theirs[...], back)
        part = tuple(slice(n // 3, n - n // 4) for n in shape)
        assert_same(z[part], back[part])
        flipped = tuple(slice(None, None, -2) for _ in shape)
        assert_same(z[flipped], back[flipped])
        # Arrays that zarr-python has written.
        theirs = zarr.create_array(
            path / "b",
            data=data,
            chunks=chunks,
            filters=[codec],
            compressors=compressor,
            zarr_format=2,
            order=order,
            config={"write_empty_chunks": True},
        )
        assert_same(hs.open_array(path / "b", mode="r")[...], back)
        # Write a part of a chunk. The rest must keep the elements that were read.
        if 0 not in shape and not is_odd(codec, data):
            again = hs.open_array(path / "b")
            again[tuple(0 for _ in shape)] = data[tuple(-1 for _ in shape)]
            np.testing.assert_array_equal(zarr.open_array(path / "b", mode="r")[...], again[...])


@pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4")
@settings(max_examples=examples(150))
@given(
    filters("="),
    grids(),
    st.integers(0, 2**32),
    st.sampled_from(["little", "big"]),
    st.booleans(),
    st.booleans(),
)
def test_v3(
    found: tuple[Any, np.dtype[Any]],
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    seed: int,
    endian: Any,
    transposed: bool,
    sharded: bool,
) -> None:
    (codec, dtype), (shape, chunks) = found, grid
    data = data_for(codec, dtype, shape, seed)
    order = "F" if transposed and len(shape) > 1 else "C"
    back, stored = expected(codec, data, chunks, order)
    filters: list[Any] = [{"name": "transpose", "configuration": {"order": [*range(len(shape))][::-1]}}]
    config = {name: value for name, value in codec.get_config().items() if name != "id"}
    filters.append({"name": f"numcodecs.{codec.codec_id}", "configuration": config})
    more: dict[str, Any] = {"filters": filters[order == "C" :], "chunks": chunks}
    more |= {"serializer": {"name": "bytes", "configuration": {"endian": endian}}, "compressors": None}
    if sharded:
        more["shards"] = tuple(2 * c for c in chunks)
    with scratch() as path:
        z = hs.create_array(path / "a", data=data, config={"write_empty_chunks": True}, **more)
        assert_same(z[...], back)
        part = tuple(slice(n // 3, n - n // 4) for n in shape)
        assert_same(z[part], back[part])
        # zarr-python misinterprets elements that "bytes" has read in the other byte order.
        if endian == "big" and codec.codec_id != "packbits":
            return
        if not sharded:
            for index, encoded in stored.items():
                assert (path / "a" / key(index, 3)).read_bytes() == encoded, index
        # zarr-python cannot create arrays with PackBits, nor read Quantize with another stored
        # type.
        other = codec.codec_id == "quantize" and codec.astype != codec.dtype
        if codec.codec_id == "packbits" or other or is_odd(codec, data):
            return
        theirs: Any = zarr.open_array(path / "a", mode="r")
        np.testing.assert_array_equal(theirs[...], back)
        zarr.create_array(path / "b", data=data, config={"write_empty_chunks": True}, **more)
        assert_same(hs.open_array(path / "b", mode="r")[...], back)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_several_filters(tmp_path: Path, zarr_format: Any) -> None:
    """Filters run in the order of the list. Each one gets the output of the previous one."""
    data = np.linspace(1000, 1001, 600).reshape(20, 30)
    chain = [
        numcodecs.FixedScaleOffset(1000, 10**4, "f8", "i4"),
        numcodecs.Delta("i4", "i2"),
        numcodecs.AsType(">i4", "i2"),
    ]
    config: list[Any] = [codec.get_config() for codec in chain]
    if zarr_format == 3:
        config = [{"name": f"numcodecs.{c.pop('id')}", "configuration": c} for c in config]
    z = hs.create_array(
        tmp_path / "a", data=data, chunks=(5, 10), filters=config, compressors="auto", zarr_format=zarr_format
    )
    np.testing.assert_allclose(z[...], data, atol=6e-5)
    if NEWEST or zarr_format == 2:
        theirs: Any = zarr.open_array(tmp_path / "a", mode="r")
        np.testing.assert_array_equal(theirs[...], z[...])
    np.testing.assert_array_equal(z[3:17:2, ::-3], z[...][3:17:2, ::-3])


def test_names_of_types(tmp_path: Path) -> None:
    """zarr-python stores type names as they were given, or leaves them out."""
    data = np.arange(20, dtype="i4")
    codecs: Any = zarr.codecs.numcodecs
    for n, filters in enumerate(
        [
            [codecs.Delta(dtype="int32")],
            [codecs.Delta(dtype="int32", astype="int8")],
            [codecs.FixedScaleOffset(offset=1, scale=2)],
            [codecs.AsType(encode_dtype="uint8", decode_dtype="int32")],
            [codecs.AsType(encode_dtype="uint8")],
        ]
    ):
        zarr.create_array(tmp_path / str(n), data=data, filters=filters)
        np.testing.assert_array_equal(hs.open_array(tmp_path / str(n))[...], data)
        z = hs.create_array(tmp_path / f"ours{n}", data=data, filters=filters)
        theirs: Any = zarr.open_array(tmp_path / f"ours{n}")
        np.testing.assert_array_equal(theirs[...], z[...])


def test_bytes_taken_for_other_elements(tmp_path: Path) -> None:
    """In Zarr v2 a filter works on bytes, whatever the element type of the array."""
    data = np.random.default_rng(1).normal(size=(6, 10)).astype("f4")
    for n, codec in enumerate([numcodecs.Delta("<i4"), numcodecs.Delta(">i4"), numcodecs.Delta("u1")]):
        more: dict[str, Any] = {"chunks": (3, 5), "filters": [codec], "zarr_format": 2, "compressors": None}
        z = hs.create_array(tmp_path / f"a{n}", data=data, **more)
        zarr.create_array(tmp_path / f"b{n}", data=data, **more)
        for file in ("0.0", "1.1"):
            assert (tmp_path / f"a{n}" / file).read_bytes() == (tmp_path / f"b{n}" / file).read_bytes()
        assert_same(z[...], data)


def test_classes() -> None:
    ours, theirs = hs.codecs, numcodecs
    for codec, other in [
        (ours.Delta("i4", "i2"), theirs.Delta("i4", "i2")),
        (ours.Delta(np.int32), theirs.Delta(np.int32)),
        (ours.FixedScaleOffset(1000, 10, "f8", "u1"), theirs.FixedScaleOffset(1000, 10, "f8", "u1")),
        (ours.FixedScaleOffset(offset=1.5, scale=10, dtype=">f8"), theirs.FixedScaleOffset(1.5, 10, ">f8")),
        (ours.Quantize(3, "f8", astype="f4"), theirs.Quantize(3, "f8", "f4")),
        (ours.AsType("f4", "f8"), theirs.AsType("f4", "f8")),
        (ours.BitRound(5), theirs.BitRound(5)),
        (ours.PackBits(), theirs.PackBits()),
    ]:
        dtype = "b1" if codec == ours.PackBits() else "f8"
        assert codec.to_dict(2) == other.get_config()
        assert codec.to_dict(3)["name"] == f"numcodecs.{other.codec_id}"
        for zarr_format in (2, 3):
            z = hs.create_array(
                hs.MemoryStore(), shape=(8,), dtype=dtype, filters=[other], zarr_format=zarr_format
            )
            # Types in Zarr v3 have the byte order of the machine.
            kept = (
                ours.FixedScaleOffset(1.5, 10, "f8") if zarr_format == 3 and ">f8" in repr(codec) else codec
            )
            assert z.filters == (kept,)
    # Settings that were left out come from the array.
    for filter_, filled in [
        (ours.Delta(), ours.Delta("f4")),
        (ours.FixedScaleOffset(1, 2), ours.FixedScaleOffset(1, 2, "f4")),
        (ours.AsType("i2"), ours.AsType("i2", "f4")),
    ]:
        z = hs.create_array(hs.MemoryStore(), shape=(8,), dtype="f4", filters=filter_)
        assert z.filters == (filled,)


@pytest.mark.parametrize(
    ("codec", "dtype", "message"),
    [
        ({"id": "delta", "dtype": "|O"}, "f8", "dtype: element type"),
        ({"id": "delta", "dtype": "<M8[s]"}, "f8", "expected bool, integers, floats or complex numbers"),
        ({"id": "delta", "dtype": "<f8", "astype": "|S8"}, "f8", "found |S8"),
        ({"id": "delta", "dtype": "<c8", "astype": "<f4"}, "c8", "cannot convert between <c8 and <f4"),
        ({"id": "delta", "dtype": "<f8", "x": 1}, "f8", "unknown field `x`"),
        ({"id": "delta", "dtype": "<f8"}, "u1", "expected a whole number of elements of type <f8"),
        ({"id": "fixedscaleoffset", "offset": 1, "scale": 0}, "f8", "scale must not be 0"),
        ({"id": "fixedscaleoffset", "offset": "1", "scale": 1}, "f8", "fixedscaleoffset"),
        (
            {"id": "fixedscaleoffset", "offset": 1000, "scale": 1},
            "u1",
            "offset: expected a number of type |u1, found 1000",
        ),
        ({"id": "fixedscaleoffset", "offset": 1, "scale": 1}, "b1", "expected integers or floats"),
        ({"id": "quantize", "digits": 3}, "i4", "expected floats"),
        ({"id": "quantize", "digits": 400}, "f8", "digits: expected -300 to 300"),
        ({"id": "quantize", "digits": 1.5}, "f8", "quantize"),
        (
            {"id": "bitround", "keepbits": 24},
            "f4",
            "keepbits: expected at most 23 for elements of type <f4, found 24",
        ),
        ({"id": "bitround", "keepbits": -1}, "f4", "bitround"),
        ({"id": "bitround", "keepbits": 3}, "S4", "expected integers or floats"),
        ({"id": "packbits"}, "u1", "expected elements of type bool"),
        ({"id": "astype", "encode_dtype": "<U3", "decode_dtype": "<i4"}, "i4", "found <U3"),
        ({"id": "astype"}, "i4", "encode_dtype"),
    ],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_refused(tmp_path: Path, codec: dict[str, Any], dtype: str, message: str, zarr_format: Any) -> None:
    with pytest.raises(hs.HyperslabError) as caught:
        hs.create_array(tmp_path / "a", shape=(9,), dtype=dtype, filters=codec, zarr_format=zarr_format)
    assert message in str(caught.value)
    assert not (tmp_path / "a").exists()
    if zarr_format == 2:
        document: dict[str, Any] = {
            "zarr_format": 2,
            "shape": [9],
            "chunks": [9],
            "dtype": np.dtype(dtype).str,
        }
        document |= {"fill_value": None, "order": "C", "filters": [codec], "compressor": None}
        (tmp_path / "b").mkdir()
        (tmp_path / "b/.zarray").write_text(json.dumps(document))
        with pytest.raises(hs.HyperslabError) as caught:
            hs.open_array(tmp_path / "b")
        assert message in str(caught.value)


def test_an_array_without_axes() -> None:
    for filter_ in (
        hs.codecs.Delta(),
        hs.codecs.AsType(">i2"),
        hs.codecs.FixedScaleOffset(1, 2, astype="i4"),
    ):
        for zarr_format in (2, 3):
            z = hs.create_array(hs.MemoryStore(), data=7.0, filters=[filter_], zarr_format=zarr_format)
            assert z[()] == 7


def test_too_many_digits(tmp_path: Path) -> None:
    """numcodecs stores NaNs in this case. hyperslab raises an error."""
    with pytest.raises(hs.HyperslabError, match="elements of <f2 cannot hold 6 digits"):
        hs.create_array(tmp_path / "a", data=np.ones(5, "f2"), filters=[hs.codecs.Quantize(6)])


@settings(max_examples=examples(60))
@given(filters(), st.integers(0, 2**32), st.data())
def test_damage(found: tuple[Any, np.dtype[Any]], seed: int, data: st.DataObject) -> None:
    """Chunks of a wrong length are refused. Changed bytes are refused or read as other elements."""
    codec, dtype = found
    elements = values(seed, 55, dtype)
    with scratch() as path:
        z = hs.create_array(
            path / "a", data=elements, filters=[codec], compressors=None, zarr_format=2, fill_value=None
        )
        good = (path / "a/0").read_bytes()
        for bad in (good[:-1], good + b"\0", b"", good * 2, good[: len(good) // 2]):
            (path / "a/0").write_bytes(bad)
            with pytest.raises(hs.HyperslabError, match="0"):
                z[...]
            with pytest.raises(hs.HyperslabError, match="0"):
                z[3:5]
        at = data.draw(st.integers(0, len(good) - 1))
        (path / "a/0").write_bytes(good[:at] + data.draw(st.binary(min_size=1, max_size=1)) + good[at + 1 :])
        try:
            assert z[...].shape == (55,)
        except hs.HyperslabError:
            assert codec.codec_id == "packbits" and at == 0


def test_nans_stay_nans(tmp_path: Path) -> None:
    data = np.array([np.nan, -np.nan, np.inf, -np.inf, 3.4e38, 1.0], "f4")
    data.view("u4")[0] = 0xFFFFFFFF
    for keepbits in (0, 1, 7):
        z = hs.create_array(
            hs.MemoryStore(), data=data, filters=[hs.codecs.BitRound(keepbits)], compressors=None
        )
        np.testing.assert_array_equal(z[...], [np.nan, np.nan, np.inf, -np.inf, np.inf, 1.0])


@pytest.mark.parametrize("dtype", [*NUMBERS, "b1", ">i4", ">f8"])
def test_long_chunks(tmp_path: Path, dtype: str) -> None:
    """Elements are processed in blocks. These lengths leave a remainder."""
    for count in (1, 15, 16, 17, 33, 1023, 1025, 5003):
        data = values(count, count, np.dtype(dtype))
        # Differs from the fill value, so that the chunk is stored.
        data[-1] = 1
        codecs: list[dict[str, Any]] = [{"id": "delta", "dtype": data.dtype.str}]
        if data.dtype.kind == "f":
            codecs += [
                {"id": "quantize", "dtype": data.dtype.str, "digits": digits} for digits in (-2, 0, 1, 3)
            ]
        for codec in codecs:
            how: dict[str, Any] = {
                "filters": [codec],
                "compressors": None,
                "zarr_format": 2,
                "overwrite": True,
            }
            z = hs.create_array(tmp_path / "a", data=data, chunks=(count,), **how)
            found = np.frombuffer((tmp_path / "a" / "0").read_bytes(), data.dtype)
            theirs = np.asarray(numcodecs.get_codec(dict(codec)).encode(data)).view(data.dtype)
            assert_same(found, theirs)
            if data.dtype.kind in "iub":
                assert_same(z[...], data)
