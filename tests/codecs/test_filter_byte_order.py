"""numcodecs filters that name one byte order, on arrays in the other.

zarr-python and numcodecs are the judges. Zarr v3 passes elements to the first filter by value, and
from the last filter to `bytes`. Between two filters, and in Zarr v2, a filter reinterprets the
bytes as the type that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as zarr_numcodecs
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import shapes_and_chunks
from support import examples, scratch
from test_numcodecs_arrays import data_for, expected, filters

pytestmark = pytest.mark.filterwarnings("ignore")

NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
CLASSES = {
    "delta": zarr_numcodecs.Delta,
    "astype": zarr_numcodecs.AsType,
    "fixedscaleoffset": zarr_numcodecs.FixedScaleOffset,
    "quantize": zarr_numcodecs.Quantize,
}
PIPELINE = {"codec_pipeline.path": "hyperslab.zarr.CodecPipeline"}


def in_orders(codec: Any, first: str, second: str) -> dict[str, Any]:
    """Returns a codec's settings with one byte order before the codec and one after it."""
    config = {name: value for name, value in codec.get_config().items() if name != "id"}
    for name, order in (
        ("dtype", first),
        ("decode_dtype", first),
        ("astype", second),
        ("encode_dtype", second),
    ):
        if name in config:
            config[name] = np.dtype(config[name]).newbyteorder(order).str
    return config


@pytest.fixture(autouse=True, scope="module")
def all_chunks() -> Iterator[None]:
    """Makes zarr-python store chunks of fill values, too: rounding filters change these values."""
    with zarr.config.set({"array.write_empty_chunks": True}):
        yield


ORDERS = st.sampled_from("<>")
WITH_AXES = shapes_and_chunks(3).filter(lambda grid: len(grid[0]) > 0)
TYPED = filters("=").filter(lambda found: found[0].codec_id in CLASSES and found[1].kind != "b")


@pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4")
@settings(max_examples=examples(150))
@given(TYPED, shapes_and_chunks(3), st.integers(0, 2**32), ORDERS, ORDERS, ORDERS, st.booleans(), st.data())
def test_v3(
    found: tuple[Any, np.dtype[Any]],
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    seed: int,
    order: str,
    first: str,
    second: str,
    sharded: bool,
    data: st.DataObject,
) -> None:
    (codec, dtype), (shape, chunks) = found, grid
    values = np.asarray(data_for(codec, dtype, shape, seed))
    back, _ = expected(codec, np.atleast_1d(values), chunks or (1,), "C")
    back = back.reshape(shape)
    # Sums of floats depend on a chunk's elements beyond the end. `expected` has zeros there.
    is_exact = codec.codec_id != "delta" or dtype.kind not in "fc"
    more: dict[str, Any] = {
        "data": values.astype(dtype.newbyteorder(order)),
        "chunks": chunks,
        "config": {"write_empty_chunks": True},
        "fill_value": data.draw(st.sampled_from([0, 1])) if is_exact else 0,
        "serializer": {
            "name": "bytes",
            "configuration": {"endian": data.draw(st.sampled_from(["little", "big"]))},
        },
    }
    if sharded:
        more["shards"] = tuple(2 * c for c in chunks)
    config = in_orders(codec, first, second)
    # zarr-python cannot read the output of `quantize` if it has another type.
    is_read = codec.codec_id != "quantize" or codec.astype == codec.dtype
    with scratch() as path:
        name = f"numcodecs.{codec.codec_id}"
        ours = hs.create_array(path / "a", **{**more, "filters": [{"name": name, "configuration": config}]})
        np.testing.assert_array_equal(ours[...], back)
        np.testing.assert_array_equal(hs.open_array(path / "a", mode="r")[...], back)
        if is_read:
            reopened: Any = zarr.open_array(path / "a")
            np.testing.assert_array_equal(reopened[...], back)
            if is_exact:
                reopened[...] = values
                np.testing.assert_array_equal(hs.open_array(path / "a", mode="r")[...], back)
        # The array object that zarr-python creates has the byte order of the data. A filter works
        # only with that order.
        config = in_orders(codec, order, second)
        given = [CLASSES[codec.codec_id](**config)]
        zarr.create_array(path / "b", **{**more, "filters": given})
        np.testing.assert_array_equal(hs.open_array(path / "b", mode="r")[...], back)
        with zarr.config.set(PIPELINE):
            made: Any = zarr.create_array(path / "c", **{**more, "filters": given})
            np.testing.assert_array_equal(made[...], back)
            again: Any = zarr.open_array(path / "c")
            np.testing.assert_array_equal(again[...], back)
            if is_exact:
                again[...] = values
                np.testing.assert_array_equal(again[...], back)
        np.testing.assert_array_equal(hs.open_array(path / "c", mode="r")[...], back)
        if is_read and codec.codec_id != "quantize":
            np.testing.assert_array_equal(zarr.open_array(path / "c", mode="r")[...], back)


@settings(max_examples=examples(100))
@given(TYPED, WITH_AXES, st.integers(0, 2**32), ORDERS, ORDERS, ORDERS)
def test_v2(
    found: tuple[Any, np.dtype[Any]],
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    seed: int,
    order: str,
    first: str,
    second: str,
) -> None:
    """hyperslab and zarr-python reinterpret the bytes alike."""
    (codec, dtype), (shape, chunks) = found, grid
    values = data_for(codec, dtype, shape, seed).astype(dtype.newbyteorder(order))
    if first != order and (codec.codec_id != "delta" or dtype.kind == "f"):
        return  # The results for reinterpreted numbers depend on the machine.
    config = in_orders(codec, first, second)
    if codec.codec_id == "delta":
        config["astype"] = config["dtype"]
    given = numcodecs.get_codec({"id": codec.codec_id, **config})
    with scratch() as path:
        more: dict[str, Any] = {"data": values, "chunks": chunks, "filters": [given], "zarr_format": 2}
        more["config"] = {"write_empty_chunks": True}
        ours = hs.create_array(path / "a", **more)
        theirs: Any = zarr.create_array(path / "b", **more)
        back = theirs[...]
        np.testing.assert_array_equal(ours[...], back)
        np.testing.assert_array_equal(zarr.open_array(path / "a", mode="r")[...], back)
        np.testing.assert_array_equal(hs.open_array(path / "b", mode="r")[...], back)


@pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4")
@pytest.mark.parametrize("second", ["<", ">"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_filters_after_filters(order: str, second: str) -> None:
    """A filter reinterprets the previous filter's bytes as the type that it names."""
    data = np.random.default_rng(3).integers(-3000, 3000, (7, 9)).astype(f"{order}i4")
    chain = [
        zarr_numcodecs.AsType(encode_dtype=">i2", decode_dtype=f"{order}i4"),
        zarr_numcodecs.Delta(dtype=f"{second}i2", astype="<i2"),
    ]
    with scratch() as path:
        zarr.create_array(path / "a", data=data, chunks=(3, 4), filters=chain)
        np.testing.assert_array_equal(zarr.open_array(path / "a", mode="r")[...], data)
        np.testing.assert_array_equal(hs.open_array(path / "a", mode="r")[...], data)
        ours = hs.create_array(path / "b", data=data, chunks=(3, 4), filters=chain)
        np.testing.assert_array_equal(ours[...], data)
        np.testing.assert_array_equal(zarr.open_array(path / "b", mode="r")[...], data)
        with zarr.config.set(PIPELINE):
            again: Any = zarr.open_array(path / "a")
            np.testing.assert_array_equal(again[...], data)
            if order == "<":
                again[2:5, 1:] = data[::-1][2:5, 1:]
                data[2:5, 1:] = data[::-1][2:5, 1:].copy()
        np.testing.assert_array_equal(zarr.open_array(path / "a", mode="r")[...], data)


def test_what_is_stored_names_the_order_of_the_machine() -> None:
    """zarr-python reinterprets the bytes of an opened array as the type that a filter names."""
    filters: Any = [
        {"name": "numcodecs.delta", "configuration": {"dtype": ">i4", "astype": ">i2"}},
        {"name": "numcodecs.astype", "configuration": {"encode_dtype": "int32"}},
    ]
    z = hs.create_array({}, shape=(8,), dtype=">i4", filters=filters)
    assert [codec.to_dict(3)["configuration"] for codec in z.filters] == [
        {"dtype": "<i4", "astype": "<i2"},
        {"encode_dtype": "<i4", "decode_dtype": "<i2"},
    ]
    # In Zarr v2 the settings mean something else.
    old: Any = [{"id": "delta", "dtype": ">i4", "astype": ">i2"}]
    z = hs.create_array({}, shape=(8,), dtype="<i4", filters=old, zarr_format=2)
    assert z.filters[0].to_dict(2) == {"id": "delta", "dtype": ">i4", "astype": ">i2"}


def test_to_zarr_with_kept_encodings() -> None:
    """Either engine writes encodings from a read back."""
    xr = pytest.importorskip("xarray")
    import hyperslab.xarray  # noqa: F401

    data = np.arange(12).astype(">i4")
    codec = zarr_numcodecs.Delta(dtype=">i4", astype=">i2")
    with scratch() as path:
        group = zarr.create_group(path / "a")
        group.create_array("v", data=data, filters=[codec], dimension_names=["x"])
        found = xr.open_dataset(path / "a", engine="hyperslab", consolidated=False)
        np.testing.assert_array_equal(found.v, data)
        hs.xarray.to_zarr(found.load(), path / "b")
        np.testing.assert_array_equal(hs.open(path / "b")["v"][...], data)
        again: Any = zarr.open_group(path / "b", mode="r")["v"]
        np.testing.assert_array_equal(again[...], data)


@pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4")
@settings(max_examples=examples(80))
@given(filters("<>"), WITH_AXES, st.integers(0, 2**32), st.sampled_from("CF"), st.booleans())
def test_copies_between_formats(
    found: tuple[Any, np.dtype[Any]],
    grid: tuple[tuple[int, ...], tuple[int, ...]],
    seed: int,
    order: Any,
    compressed: bool,
) -> None:
    """An array with filters copied to the other format has equal values, for zarr-python too."""
    (codec, dtype), (shape, chunks) = found, grid
    if codec.codec_id == "bitround" and len(shape) > 1:
        order = "C"
    data = np.asarray(data_for(codec, dtype, shape, seed)).astype(dtype)
    compressor = numcodecs.Zlib(1) if compressed else None
    with scratch() as path:
        old = hs.create_array(
            path / "v2",
            data=data,
            chunks=chunks,
            filters=[codec],
            compressors=compressor,
            zarr_format=2,
            order=order,
        )
        back = old[...]
        if not np.array_equal(
            expected(codec, back, chunks, order)[0], back, equal_nan=back.dtype.kind in "fc"
        ):
            return  # A copy rounds again, so the values may change.
        hs.copy(path / "v2", path / "v3", zarr_format=3, verify=False)
        new = hs.open_array(path / "v3", mode="r")
        np.testing.assert_array_equal(new[...], back)
        if codec.codec_id != "delta" or dtype.kind != "b":
            np.testing.assert_array_equal(zarr.open_array(path / "v3", mode="r")[...], back)
        hs.copy(path / "v3", path / "again", zarr_format=2, verify=False)
        again = hs.open_array(path / "again", mode="r")
        np.testing.assert_array_equal(again[...], back)
        if codec.codec_id != "delta" or dtype.kind != "b":
            np.testing.assert_array_equal(zarr.open_array(path / "again", mode="r")[...], back)
        kept = [c.to_dict(3)["name"] for c in new.filters if c.to_dict(3)["name"] != "transpose"]
        is_kept = codec.codec_id not in ("quantize", "packbits") or (
            codec.codec_id == "quantize" and codec.astype == codec.dtype
        )
        names = {f"numcodecs.{codec.codec_id}", codec.codec_id}
        assert len(kept) == is_kept and set(kept) <= names, kept
        assert [c.to_dict(2)["id"] for c in again.filters] == [codec.codec_id] * is_kept
        assert len(again.compressors) == len(new.compressors) == compressed


def test_copy_of_a_hierarchy_with_filters() -> None:
    """Filters that mean something else in Zarr v3 are skipped. Everything else is copied."""
    data = np.arange(6)
    with scratch() as path:
        group = hs.create_group(path / "v2", zarr_format=2)
        cases: dict[str, tuple[Any, str]] = {
            "delta": (numcodecs.Delta("<i4"), "<i4"),
            "scaled": (numcodecs.FixedScaleOffset(0, 10, "<f4", "<i2"), "<f4"),
            "quantized": (numcodecs.Quantize(2, "<f8"), "<f8"),
            "converted": (numcodecs.AsType("<i2", "<i4"), "<i4"),
            "other order": (numcodecs.Delta(">i4"), "<i4"),
            "other type": (numcodecs.Delta("<i4"), "<f4"),
            "pcodec": (numcodecs.get_codec({"id": "pcodec"}), "<i4")
            if "pcodec" in numcodecs.registry.codec_registry
            else (numcodecs.Delta("<i4"), "<i4"),
        }
        for name, (codec, dtype) in cases.items():
            group.create_array(name, data=data.astype(dtype), filters=[codec], compressors=None)
        hs.copy(path / "v2", path / "v3", zarr_format=3)
        theirs: Any = zarr.open_group(path / "v3", mode="r")
        for name in cases:
            np.testing.assert_array_equal(theirs[name][...], data, err_msg=name)
        assert not theirs["other order"].filters and not theirs["other type"].filters
        assert theirs["delta"].filters and theirs["scaled"].filters
        if "pcodec" in numcodecs.registry.codec_registry:
            assert "pcodec" in str(theirs["pcodec"].serializer).lower()
        hs.copy(path / "v3", path / "again", zarr_format=2)
        old: Any = zarr.open_group(path / "again", mode="r")
        for name in cases:
            np.testing.assert_array_equal(old[name][...], data, err_msg=name)
