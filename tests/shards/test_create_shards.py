"""Metadata of arrays with shards: created, shown and copied like in zarr-python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
import zarr.codecs
from hyperslab import errors
from shards import OLD_ZARR

END = {"name": "bytes", "configuration": {"endian": "little"}}


def create(**given: Any) -> hs.Array:
    arguments: dict[str, Any] = {"shape": (20, 30), "dtype": "<i4", **given}
    return hs.create_array(hs.MemoryStore(), **arguments)


def sharding(array: hs.Array) -> dict[str, Any]:
    (codec,) = array.metadata["codecs"]
    assert codec["name"] == "sharding_indexed"
    return dict(codec["configuration"])


@pytest.mark.parametrize(
    ("given", "chunks", "shards"),
    [
        ({"chunks": (2, 5), "shards": (10, 15)}, (2, 5), (10, 15)),
        ({"chunks": (2, 5), "shards": (-1, 10)}, (2, 5), (20, 10)),
        ({"chunks": (3, 7), "shards": -1}, (3, 7), (21, 35)),
        ({"chunks": (3, 7), "shards": False}, (3, 7), (21, 35)),
        ({"chunks": 5, "shards": 10}, (5, 5), (10, 10)),
        ({"chunks": (2, 5), "shards": np.array([4, 5])}, (2, 5), (4, 5)),
        ({"chunks": (2, 5), "shards": {"shape": (4, 5), "index_location": "start"}}, (2, 5), (4, 5)),
        ({"chunks": (2, 5), "shards": "auto"}, (2, 5), (32, 40)),
        ({"shards": (10, 15)}, (10, 15), (10, 15)),
        ({"shape": (4000, 3000), "shards": (4000, 1500)}, (500, 375), (4000, 1500)),
        ({"chunks": (2, 5), "shards": None}, (2, 5), None),
    ],
)
def test_shapes(given: dict[str, Any], chunks: tuple[int, ...], shards: tuple[int, ...] | None) -> None:
    z = create(**given)
    assert (z.chunks, z.shards) == (chunks, shards)
    assert z.cdata_shape == tuple(-(-n // c) for n, c in zip(z.shape, chunks, strict=True))
    if shards is not None:
        location = "start" if isinstance(given["shards"], dict) else "end"
        assert sharding(z)["index_location"] == location
        assert sharding(z)["index_codecs"] == [END, {"name": "crc32c"}]
        assert z.nchunks_initialized == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"chunks": (2, 5), "shards": (5, 5)}, r"multiples of the chunks \[2, 5\], found \[5, 5\]"),
        ({"chunks": (2, 5), "shards": (5,)}, "shards has 1 dimensions but shape has 2"),
        ({"chunks": (2, 5), "shards": (0, 5)}, "shards: expected positive integers"),
        ({"chunks": (2, 5), "shards": "all"}, "shards: expected integers, 'auto' or None"),
        ({"chunks": (2, 5), "shards": True}, "shards: True is not a shape"),
        ({"chunks": (2, 5), "shards": {"shape": (4, 5), "index_location": "middle"}}, "index_location"),
        ({"chunks": (2, 5), "shards": {"shape": (4, 5), "codecs": []}}, "shape and index_location"),
        ({"chunks": (2, 5), "shards": (4, 5), "zarr_format": 2}, "shards: Zarr v2"),
        ({"shards": "auto", "zarr_format": 2}, "shards: Zarr v2"),
        ({"chunks": (4, 5), "serializer": hs.codecs.Sharding((3, 5))}, r"\[3, 5\] do not divide .*\[4, 5\]"),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        create(**given)


def test_several_sizes_add_up() -> None:
    # test_grids_shards.py tests the valid ones.
    with pytest.raises(errors.InvalidArgumentError, match="shards: axis 0: the lengths add up to 10"):
        create(chunks=(2, 5), shards=[[4, 6], [5, 5]])


def test_codecs_are_those_of_the_chunks() -> None:
    z = create(
        chunks=(2, 5), shards=(10, 15), order="F", serializer=hs.codecs.Bytes("big"),
        compressors=[hs.codecs.Gzip(3), hs.codecs.Crc32c()],
    )  # fmt: skip
    assert z.order == "F"
    assert z.filters == (hs.codecs.Transpose((1, 0)),)
    assert z.serializer == hs.codecs.Bytes("big")
    assert z.compressors == (hs.codecs.Gzip(3), hs.codecs.Crc32c())
    assert [codec["name"] for codec in sharding(z)["codecs"]] == ["transpose", "bytes", "gzip", "crc32c"]


def test_sharding_codec() -> None:
    inner = hs.codecs.Sharding((1, 5), [hs.codecs.Bytes(), hs.codecs.Zstd(1)], hs.codecs.Bytes("big"))
    outer = hs.codecs.Sharding((2, 15), [inner], index_location="start")
    z = create(chunks=(10, 15), serializer=outer)
    assert z.metadata["codecs"] == [outer.to_dict()]
    # As in zarr-python, `chunks` are the chunks of the outermost shards.
    assert (z.chunks, z.shards, z.serializer, z.compressors) == ((2, 15), (10, 15), inner, ())
    assert inner.index_codecs == (hs.codecs.Bytes("big"),)
    assert hs.codecs.ShardingCodec is hs.codecs.Sharding
    with pytest.raises(errors.InvalidArgumentError, match="no codec Sharding"):
        outer.to_dict(zarr_format=2)
    for bad in ({"index_location": "middle"}, {"codecs": None}, {"index_codecs": []}):
        with pytest.raises(errors.InvalidArgumentError, match=next(iter(bad))):
            hs.codecs.Sharding((1, 1), **bad)  # type: ignore[arg-type]


def test_codecs_around_shards_are_the_arrays() -> None:
    z = create(
        chunks=(10, 15), filters=hs.codecs.Transpose((1, 0)), serializer=hs.codecs.Sharding((5, 2)),
        compressors=hs.codecs.Crc32c(),
    )  # fmt: skip
    assert (z.chunks, z.shards) == ((2, 5), (10, 15))
    assert z.filters == (hs.codecs.Transpose((1, 0)),)
    assert isinstance(z.serializer, hs.codecs.Sharding)
    assert z.compressors == (hs.codecs.Crc32c(),)


def test_older_functions_take_shards() -> None:
    assert hs.zeros((8, 8), chunks=(2, 2), shards=(4, 8)).shards == (4, 8)
    codecs = [hs.codecs.Sharding((2, 2))]
    assert hs.create((8, 8), chunks=(4, 4), codecs=codecs, dtype="u1").shards == (4, 4)
    group = hs.create_group(hs.MemoryStore())
    assert group.create_array("a", shape=(8,), chunks=(2,), shards=(4,), dtype="u1").shards == (4,)


@pytest.mark.parametrize("location", ["start", "end"])
def test_zarr_python_says_the_same(tmp_path: Path, location: Any) -> None:
    inner = zarr.codecs.ShardingCodec(chunk_shape=(1, 5))
    codec = zarr.codecs.ShardingCodec(chunk_shape=(2, 5), codecs=[inner], index_location=location)
    for name, given in {
        "plain": {"chunks": (2, 5), "shards": (10, 15)},
        "located": {"chunks": (2, 5), "shards": {"shape": (10, 15), "index_location": location}},
        "nested": {"chunks": (10, 15), "serializer": codec, "compressors": None},
        "whole": {"chunks": (2, 7), "shards": -1},  # not in zarr-python 3.1
    }.items():
        if name == "whole" and OLD_ZARR:
            continue
        theirs = zarr.create_array(tmp_path / "theirs" / name, shape=(20, 30), dtype="int32", **given)
        ours = hs.create_array(tmp_path / "ours" / name, shape=(20, 30), dtype="int32", **given)
        for seen in (hs.open_array(tmp_path / "theirs" / name), zarr.open_array(tmp_path / "ours" / name)):
            assert (seen.chunks, seen.shards) == (theirs.chunks, theirs.shards) == (ours.chunks, ours.shards)
            assert (seen.nchunks, seen.cdata_shape) == (theirs.nchunks, theirs.cdata_shape)
            assert seen.nchunks_initialized == 0
        documents = [
            json.loads((tmp_path / who / name / "zarr.json").read_text()) for who in ("ours", "theirs")
        ]
        for member in ("chunk_grid", "codecs"):
            assert documents[0][member] == documents[1][member], name


def test_chunks_of_stored_shards_are_counted(tmp_path: Path) -> None:
    theirs = zarr.create_array(tmp_path, shape=(20, 30), dtype="int32", chunks=(2, 5), shards=(10, 15))
    theirs[0, 0] = 1
    ours = hs.open_array(tmp_path)
    assert ours.nchunks_initialized == theirs.nchunks_initialized == 15
    facts = ours.info_complete().to_dict()
    assert facts["Shard shape"] == (10, 15)
    assert facts["Chunks per shard"] == 15
    assert facts["Shard index"] == "at the end"
    assert facts["Shards Initialized"] == "1 of 4"
    assert "Shards" in ours._repr_html_()
    ours.resize((20, 10))
    assert ours.nchunks_initialized == 15
    hs.open_array(tmp_path, mode="r+").resize((0, 0))
    assert hs.open_array(tmp_path).nchunks_initialized == 0


def test_copies_keep_shards_unless_told_otherwise() -> None:
    nested = hs.codecs.Sharding((2, 5), [hs.codecs.Sharding((1, 5))])
    z = create(chunks=(10, 15), serializer=nested)

    def copied(**given: Any) -> tuple[Any, ...]:
        store = hs.MemoryStore()
        report = hs.copy(z, store, "a", **given)
        found = hs.open_array(store, path="a")
        return found.chunks, found.shards, found.metadata.get("codecs"), report.notes

    assert copied() == ((2, 5), (10, 15), z.metadata["codecs"], ())
    chunks, shards, _, notes = copied(chunks=(4, -1))
    assert (chunks, shards) == ((4, 30), (12, 30))
    assert [note.split(",")[0] for note in notes] == [
        "larger shards than in the source",
        "shards of one level",
    ]
    assert copied(shards=None)[:2] == ((1, 5), None)
    assert copied(shards="auto")[:2] == ((1, 5), (32, 40))
    assert copied(chunks=(2, 5), shards=(20, None))[:2] == ((2, 5), (20, 30))
    assert copied(zarr_format=2)[:2] == ((1, 5), None)
    for given, message in [
        ({"shards": (3, 7)}, r"shards of \[3, 7\] are no multiples of its chunks \[1, 5\]"),
        ({"shards": (3,)}, "shards: 1 sizes are given, but the source has arrays of 2 axes"),
        ({"shards": "most"}, "shards: expected integers, 'keep', 'auto' or None"),
        ({"shards": (10, 15), "zarr_format": 2}, "Zarr v2 has no shards"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=message):
            copied(**given)


def test_compact() -> None:
    store = hs.MemoryStore()
    z = hs.create_array(store, name="a", shape=(8,), chunks=(2,), shards=(4,), dtype="u1")
    assert z.compact() == z.compact(dry_run=True) == 0
    read_only = hs.open_array(store, path="a", mode="r")
    assert read_only.compact(dry_run=True) == 0
    with pytest.raises(errors.ReadOnlyError):
        read_only.compact()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_shape": [3, 5]}, r'"sharding_indexed": chunk_shape: .*\[3, 5\] do not divide .*\[10, 15\]'),
        ({"chunk_shape": [2]}, "chunk_shape: expected 2 axes"),
        ({"index_location": "middle"}, 'index_location: expected "start" or "end", found "middle"'),
        ({"index_codecs": [END, {"name": "gzip", "configuration": {"level": 1}}]}, "index_codecs: .*gzip"),
        ({"index_codecs": []}, "index_codecs: expected a codec from array to bytes"),
        ({"codecs": [{"name": "bytes"}]}, 'codecs: "bytes" needs "endian"'),
        ({"extra": 1}, 'unknown member "extra"'),
    ],
)
def test_bad_metadata(change: dict[str, Any], message: str) -> None:
    store = hs.MemoryStore()
    hs.create_array(store, shape=(20, 30), dtype="<i4", chunks=(2, 5), shards=(10, 15))
    document = json.loads(store.get("zarr.json") or b"")
    document["codecs"][0]["configuration"] |= change
    store.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(errors.MetadataValidationError, match=message):
        hs.open_array(store)
