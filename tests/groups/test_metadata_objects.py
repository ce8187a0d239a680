"""``array.metadata`` and ``group.metadata`` are objects with the same types as zarr-python's."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from strategies import Case, cases


@given(cases())
def test_values_are_typed_as_in_zarr_python(case: Case) -> None:
    ours = hs.create_array(hs.MemoryStore(), **case.arguments()).metadata
    objects: dict[str, Any] = {}
    hs.create_array(objects, **case.arguments())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = zarr.storage.MemoryStore(
            {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in objects.items()}
        )
        theirs = zarr.open_array(store, mode="r").metadata
        for name in ("shape", "ndim", "chunks", "shards", "attributes", "zarr_format"):
            mine, other = getattr(ours, name), getattr(theirs, name)
            assert mine == other and type(mine) is type(other), name
        for coordinates in (tuple(range(len(case.shape))), (0,) * len(case.shape)):
            assert ours.encode_chunk_key(coordinates) == theirs.encode_chunk_key(coordinates)
        assert ours.dtype.to_native_dtype() == theirs.dtype.to_native_dtype()
        assert repr(np.asarray(ours.fill_value)) == repr(np.asarray(theirs.fill_value))
        if case.zarr_format == 2:
            names = ("order", "dimension_separator")
            assert (ours.filters is None) == (theirs.filters is None)
            assert (ours.compressor is None) == (theirs.compressor is None)
            assert ours.compressor is None or ours.compressor == theirs.compressor
        else:
            names = ("dimension_names", "node_type", "storage_transformers", "extra_fields")
            assert ours.chunk_grid.chunk_shape == theirs.chunk_grid.chunk_shape
            assert ours.chunk_key_encoding.to_dict() == theirs.chunk_key_encoding.to_dict()
            assert len(ours.codecs) == len(theirs.codecs) == len(ours.inner_codecs)
            assert ours.data_type.to_json(3) == theirs.data_type.to_json(zarr_format=3)
            coordinates = tuple(range(len(case.shape)))
            key = ours.encode_chunk_key(coordinates)
            if coordinates:
                assert ours.chunk_key_encoding.decode_chunk_key(key) == coordinates
        for name in names:
            assert getattr(ours, name) == getattr(theirs, name), name
    for same in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert same == ours and type(same) is type(ours) and same.to_dict() == ours.to_dict()
        assert repr(same.fill_value) == repr(ours.fill_value)


def test_shards() -> None:
    z = hs.create_array(
        hs.MemoryStore(), shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="i4", compressors=hs.codecs.Gzip()
    )
    metadata = z.metadata
    assert (metadata.chunks, metadata.shards, metadata.chunk_grid.chunk_shape) == ((2, 2), (4, 4), (4, 4))
    assert (
        isinstance(metadata.codecs[0], hs.codecs.Sharding) and metadata.sharding_codec == metadata.codecs[0]
    )
    assert metadata.inner_codecs == (hs.codecs.Bytes(), hs.codecs.Gzip())
    assert metadata["codecs"][0]["name"] == "sharding_indexed"


def test_changing_an_attribute_of_the_metadata_changes_nothing() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", attributes={"a": [1]})
    z.metadata.attributes["a"].append(2)
    z.metadata.to_dict()["attributes"]["a"].append(2)
    assert z.metadata.attributes == {"a": [1]} == z.metadata.to_dict()["attributes"]
    with pytest.raises(AttributeError, match="nonsense"):
        _ = z.metadata.nonsense


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata(zarr_format: Any, tmp_path: Path) -> None:
    root = hs.create_group(tmp_path, zarr_format=zarr_format, attributes={"a": 1})
    root.create_array("x", shape=(3,), dtype="i4", attributes={"b": 2})
    root.create_array("g/h/y", shape=(4,), dtype="f4")
    assert root.metadata.consolidated_metadata is None
    assert root.metadata.to_dict() == {
        "attributes": {"a": 1},
        "zarr_format": zarr_format,
        "node_type": "group",
    }
    hs.consolidate_metadata(tmp_path)
    ours = hs.open_group(tmp_path, mode="r").metadata.consolidated_metadata
    theirs = zarr.open_group(tmp_path, mode="r").metadata.consolidated_metadata
    assert ours is not None and theirs is not None
    assert sorted(ours.metadata) == sorted(theirs.metadata) == ["g", "x"]
    assert sorted(ours.flattened_metadata) == sorted(theirs.flattened_metadata) == ["g", "g/h", "g/h/y", "x"]
    assert ours.metadata["x"].shape == theirs.metadata["x"].shape == (3,)
    inner = ours.metadata["g"].consolidated_metadata.metadata["h"].consolidated_metadata.metadata
    assert list(inner) == ["y"] and inner["y"].attributes == {}
    assert sorted(ours.to_dict()["metadata"]) == ["g", "g/h", "g/h/y", "x"]


def test_codecs_are_used_as_those_of_numcodecs() -> None:
    z = hs.create_array(
        hs.MemoryStore(), shape=(3,), dtype="i4", zarr_format=2, compressors=numcodecs.Zstd(level=3)
    )
    codec = z.compressors[0]
    assert isinstance(codec, hs.codecs.Zstd) and codec == numcodecs.Zstd(level=3) != numcodecs.Zstd(level=4)
    assert numcodecs.get_codec(codec.get_config()) == codec and codec.codec_id == "zstd"
    assert codec.decode(codec.encode(b"abc" * 20)) == b"abc" * 20
    with pytest.warns(hs.errors.ZarrDeprecationWarning):
        assert z.compressor == codec == z.metadata.compressor
    with pytest.raises(TypeError):
        _ = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4").compressor


def test_words_of_codecs() -> None:
    codecs = hs.codecs
    blosc = codecs.Blosc(cname=codecs.BloscCname.lz4, shuffle=codecs.BloscShuffle.bitshuffle)
    assert blosc == codecs.Blosc(cname="lz4", shuffle="bitshuffle")
    z = hs.create_array(
        hs.MemoryStore(), shape=(4,), chunks=(4,), dtype="i4", compressors=None,
        serializer=codecs.Sharding(
            (2,), codecs.Bytes(codecs.Endian.big), index_location=codecs.ShardingCodecIndexLocation.start
        ),
    )  # fmt: skip
    assert z.metadata["codecs"][0]["configuration"]["index_location"] == "start"
    assert z.metadata.inner_codecs == (codecs.Bytes("big"),)
