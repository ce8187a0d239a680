"""Shards of different lengths along an axis (rectilinear grids), as in zarr-python 3.4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch
from test_grids import codecs, enabled, indexed, of, selections, shaped, write_both
from zarr.codecs import BytesCodec, ShardingCodec, TransposeCodec, ZstdCodec

__all__ = ["enabled"]  # a fixture

SHARDS = [[4, 8], [5, 5]]


def document(path: Path) -> Any:
    return json.loads((path / "zarr.json").read_text())


def keys(path: Path) -> set[str]:
    return {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and f.name != "zarr.json"}


@st.composite
def sharded(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[Any]]:
    """Draws a shape, chunks and shards. At least one axis lists the length of each shard."""
    shape, chunks, shards = [], [], []
    for axis in range(draw(st.integers(1, 3))):
        inner = draw(st.integers(1, 3))
        lengths = draw(st.lists(st.integers(1, 4).map(lambda n: n * inner), min_size=1, max_size=5))  # noqa: B023
        chunks.append(inner)
        if axis and draw(st.booleans()):
            shape.append(draw(st.integers(1, 20)))
            shards.append(lengths[0])
        else:
            shape.append(sum(lengths))
            shards.append(lengths)
    order = draw(st.permutations(range(len(shape))))
    return tuple(shape[k] for k in order), tuple(chunks[k] for k in order), [shards[k] for k in order]


@settings(max_examples=examples(120))
@given(
    sharded(),
    codecs,
    st.sampled_from(["u1", "i4", "f8"]),
    st.sampled_from([0, 7]),
    st.booleans(),
    st.sampled_from(["start", "end"]),
    st.data(),
)
def test_both_ways(
    grid: tuple[tuple[int, ...], tuple[int, ...], list[Any]],
    codecs: dict[str, Any],
    dtype: str,
    fill: int,
    transposed: bool,
    location: str,
    data: st.DataObject,
) -> None:
    shape, chunks, shards = grid
    with scratch() as path:
        if dtype == "u1":
            codecs = {**codecs, "serializer": BytesCodec(endian=None)}
        if transposed:
            codecs = {**codecs, "filters": [TransposeCodec(order=tuple(reversed(range(len(shape)))))]}
        common: dict[str, Any] = dict(shape=shape, chunks=chunks, dtype=dtype, fill_value=fill, **codecs)
        common["shards"] = {"shape": shards, "index_location": location}
        ours = hs.create_array(path / "a", **common)
        theirs = zarr.create_array(path / "b", **common)
        assert document(path / "a") == document(path / "b")
        assert ours.chunks == theirs.chunks == chunks
        for array in (ours, theirs):
            with pytest.raises(NotImplementedError, match="write_chunk_sizes"):
                _ = array.shards
        assert ours.read_chunk_sizes == theirs.read_chunk_sizes
        assert ours.write_chunk_sizes == theirs.write_chunk_sizes
        assert (ours.cdata_shape, ours.nchunks) == (theirs.cdata_shape, theirs.nchunks)
        model = np.full(shape, fill, dtype)
        write_both(data, ours, theirs, model, fill)
        assert np.array_equal(ours[...], model)
        assert np.array_equal(zarr.open_array(path / "a")[...], model)
        again = hs.open_array(path / "b", mode="r+")
        assert np.array_equal(again[...], model)
        assert keys(path / "a") == keys(path / "b")
        assert ours.nchunks_initialized == zarr.open_array(path / "a").nchunks_initialized
        for _ in range(3):
            kind, key = data.draw(selections(shape))
            expected = shaped(model, kind, key)
            found = of(again, kind)[key]
            assert np.shape(found) == expected.shape
            assert np.array_equal(found, expected), (kind, key)
        # Overwrites a part of zarr-python's stored values.
        kind, key = data.draw(selections(shape))
        model[indexed(model, kind, key)] = 3
        of(again, kind)[key] = 3
        again.compact()
        assert np.array_equal(theirs[...], model)


@settings(max_examples=examples(60))
@given(sharded(), st.data())
def test_resize_and_append(
    grid: tuple[tuple[int, ...], tuple[int, ...], list[Any]], data: st.DataObject
) -> None:
    shape, chunks, shards = grid
    with scratch() as path:
        model = np.arange(1, 1 + int(np.prod(shape)), dtype="i4").reshape(shape)
        ours = hs.create_array(path / "a", shape=shape, chunks=chunks, shards=shards, dtype="i4")
        theirs = zarr.create_array(path / "b", shape=shape, chunks=chunks, shards=shards, dtype="i4")
        ours[...] = model
        theirs[...] = model
        for _ in range(3):
            if data.draw(st.booleans()):
                new = tuple(data.draw(st.integers(0, n + 8)) for n in model.shape)
                outcomes = [outcome(lambda array=array: array.resize(new)) for array in (ours, theirs)]
                if outcomes[1] is None:
                    resized = np.zeros(new, "i4")
                    same = tuple(slice(0, min(a, b)) for a, b in zip(model.shape, new, strict=True))
                    resized[same] = model[same]
                    model = resized
            else:
                more = np.full((data.draw(st.integers(1, 5)), *model.shape[1:]), 9, "i4")
                outcomes = [outcome(lambda array=array: array.append(more)) for array in (ours, theirs)]
                if outcomes[1] is None:
                    model = np.concatenate([model, more])
            assert outcomes[0] is outcomes[1]
            assert document(path / "a") == document(path / "b")
            assert ours.shape == model.shape
            assert ours.write_chunk_sizes == theirs.write_chunk_sizes
            assert np.array_equal(ours[...], model)
            assert np.array_equal(zarr.open_array(path / "a")[...], model)
            theirs[...] = model  # in zarr-python, elements removed by a shrink come back
            assert np.array_equal(hs.open_array(path / "b")[...], model)


def outcome(work: Any) -> type[Exception] | None:
    """Returns the type of the error, if any."""
    try:
        work()
    except ValueError:
        return ValueError
    return None


def test_a_resize_takes_whole_chunks(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(12, 10), chunks=(2, 5), shards=SHARDS, dtype="i4")
    before = document(tmp_path / "a")
    for work in (lambda: z.resize((15, 10)), lambda: z.append(np.zeros((3, 10)))):
        with pytest.raises(
            ValueError, match=r"axis 0 would need one more shard of 3 elements.*whole inner chunks of 2"
        ):
            work()
    assert (document(tmp_path / "a"), z.shape) == (before, (12, 10))
    z.append(np.ones((6, 10), "i4"))
    assert z.write_chunk_sizes == ((4, 8, 6), (5, 5))
    z.resize((7, 10))
    z.resize((14, 10))
    assert z.write_chunk_sizes == ((4, 8, 2), (5, 5))
    assert not z[7:].any()


@pytest.mark.parametrize(
    "layout", [{"chunks": [[4, 8], 5]}, {"chunks": (2, 5), "shards": SHARDS}], ids=["chunks", "shards"]
)
def test_what_was_opened_before_a_resize_still_reads(tmp_path: Path, layout: dict[str, Any]) -> None:
    z = hs.create_array(tmp_path / "a", shape=(12, 10), dtype="i4", **layout)
    z[...] = 7
    before = hs.open_array(tmp_path / "a", mode="r+")
    z.append(np.ones((4, 10), "i4"))
    assert (before[...] == 7).all()
    before[3:9] = 5
    assert (z[3:9] == 5).all() and (z[12:] == 1).all()
    z.resize((3, 10))
    assert (before[:3] == 7).all()
    z.resize((20, 10))
    assert (z[:3] == 7).all() and not z[3:].any()


def test_what_the_array_says(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(12, 10), chunks=(2, 5), shards=SHARDS, dtype="i2", fill_value=3
    )
    theirs = zarr.open_array(tmp_path / "a")
    assert "<variable>" in str(z.info) and "&lt;variable&gt;" in z._repr_html_()
    assert "0 of 4" in str(z.info_complete())
    for metadata in (z.metadata, theirs.metadata):
        assert metadata.chunks == (2, 5)
        with pytest.raises(NotImplementedError):
            _ = metadata.shards
    z[:4] = np.arange(40).reshape(4, 10)
    assert (z.nchunks_initialized, theirs.nchunks_initialized) == (4, 4)
    z[...] = np.arange(120).reshape(12, 10)
    assert z.nchunks_initialized == theirs.nchunks_initialized == 12
    assert np.array_equal(z.blocks[1, 1], z[4:12, 5:10])
    assert np.array_equal(z.blocks[:1], theirs.blocks[:1])
    told = z.explain((slice(3, 7), slice(2, 3)))
    assert [(task.chunk, task.key) for task in told.tasks] == [
        ((1, 0), "c/0/0"),
        ((2, 0), "c/1/0"),
        ((3, 0), "c/1/0"),
    ]
    assert told.objects == 2
    assert np.array_equal([row for _, row in z.stream()], z[...])
    assert np.array_equal(list(z), z[...])
    with z.writer() as w:
        for k in range(12):
            w[k] = np.full(10, k)
    assert np.array_equal(theirs[...], np.repeat(np.arange(12), 10).reshape(12, 10))
    assert np.array_equal(hs.open_array(tmp_path / "a", cache="1 MiB")[::-1, 3], np.arange(12)[::-1])
    z[5] = 3  # fill values
    z[4] = 3
    assert np.array_equal(theirs[4:6], np.full((2, 10), 3))
    # Missing inner chunks.
    (tmp_path / "a/c/0/0").unlink()
    assert (z[:4, :5] == 3).all() and (z[3, 5:] == 3).all()
    strict = z.with_config({"read_missing_chunks": False})
    with pytest.raises(hs.errors.ChunkNotFoundError, match="c/0/0"):
        _ = strict[3:9, 2]
    assert (strict[4:, 2] == z[4:, 2]).all()


def test_copies_keep_the_shards(tmp_path: Path) -> None:
    values = np.arange(120).reshape(12, 10)
    z = hs.create_array(tmp_path / "a", data=values, chunks=(2, 5), shards=SHARDS)
    for name, options in {
        "same": {},
        "codec": {"compressors": None},
        "order": {"order": "F"},
    }.items():
        hs.copy(z, tmp_path / name, **options)
        copied = hs.open_array(tmp_path / name)
        assert (copied.write_chunk_sizes, copied.chunks) == (z.write_chunk_sizes, (2, 5)), name
        assert np.array_equal(zarr.open_array(tmp_path / name)[...], values)
    hs.copy(z, tmp_path / "other", chunks=(3, 5))
    assert (hs.open_array(tmp_path / "other").chunks, hs.open_array(tmp_path / "other").shards) == (
        (3, 5),
        (9, 5),
    )
    hs.copy(z, tmp_path / "none", shards=None)
    assert hs.open_array(tmp_path / "none").read_chunk_sizes == z.read_chunk_sizes
    assert hs.open_array(tmp_path / "none").shards is None
    hs.copy(z, tmp_path / "two", zarr_format=2)
    for name in ("other", "none", "two"):
        assert np.array_equal(zarr.open_array(tmp_path / name)[...], values)
    theirs = zarr.open_array(tmp_path / "a")
    for data in (z, theirs):
        for like in (hs.from_array({}, data=data), hs.zeros_like(data), hs.array(data)):
            assert (like.write_chunk_sizes, like.chunks) == (z.write_chunk_sizes, (2, 5))
    made = hs.create_array({}, shape=(12, 10), dtype="i4", chunks=(2, 5), shards=theirs.metadata.chunk_grid)
    assert made.write_chunk_sizes == z.write_chunk_sizes
    made = zarr.create_array({}, shape=(12, 10), dtype="i4", chunks=(2, 5), shards=theirs.metadata.chunk_grid)
    assert made.write_chunk_sizes == z.write_chunk_sizes


def test_chunks_are_chosen_that_divide_the_shards(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(36, 4), shards=[[6, 12, 18], -1], dtype="i4")
    assert z.chunks == (6, 4)
    z[...] = 5
    assert (zarr.open_array(tmp_path / "a")[...] == 5).all()


def test_an_array_that_is_mostly_missing(tmp_path: Path) -> None:
    lengths = [(1 + k % 3) << 20 for k in range(12)]
    shape = sum(lengths)
    z = hs.create_array(tmp_path / "a", shape=(shape,), chunks=(1 << 18,), shards=[lengths], dtype="u1")
    z[5_000_000:5_000_010] = 1
    z[-1] = 2
    assert keys(tmp_path / "a") == {"c/2", "c/11"}
    found = z[...]
    assert (found.sum(), found[5_000_000:5_000_010].sum(), found[-1]) == (12, 10, 2)
    picked = np.sort(np.random.default_rng(0).choice(shape, 50_000, replace=False))
    assert np.array_equal(z.oindex[picked], found[picked])
    z.oindex[picked] = 7
    found[picked] = 7
    assert np.array_equal(zarr.open_array(tmp_path / "a")[...], found)


def test_shards_in_shards_and_other_orders(tmp_path: Path) -> None:
    values = np.arange(24 * 9).reshape(24, 9)
    inner = ShardingCodec(chunk_shape=(1, 3), codecs=[BytesCodec(), ZstdCodec()], index_location="start")
    outer = ShardingCodec(chunk_shape=(2, 3), codecs=[inner])
    common: dict[str, Any] = dict(shape=(24, 9), chunks=[[4, 12, 8], 9], dtype="i8", serializer=outer)
    common |= {"compressors": None, "filters": None}
    z = hs.create_array(tmp_path / "a", **common)
    theirs = zarr.create_array(tmp_path / "b", **common)
    assert document(tmp_path / "a") == document(tmp_path / "b")
    z[...] = values
    theirs[...] = values
    z[5:19:2, 1:4] = -1
    theirs[5:19:2, 1:4] = -1
    values[5:19:2, 1:4] = -1
    for name in "ab":
        assert np.array_equal(hs.open_array(tmp_path / name)[...], values)
        assert np.array_equal(zarr.open_array(tmp_path / name)[...], values)
    assert z.write_chunk_sizes == theirs.write_chunk_sizes
    # Transposed before it is cut into inner chunks, so their shape has the transposed axis order.
    # zarr-python compares it with the array's order. These lengths fit both.
    turned = {
        **common,
        "shape": (24, 6),
        "chunks": [[6, 12, 6], 6],
        "filters": [TransposeCodec(order=(1, 0))],
    }
    turned["serializer"] = ShardingCodec(chunk_shape=(3, 2), codecs=[BytesCodec()])
    values = values[:, :6].copy()
    z = hs.create_array(tmp_path / "c", **turned)
    z[...] = values
    z[3:17] = 8
    values[3:17] = 8
    assert np.array_equal(hs.open_array(tmp_path / "c")[...], values)
    assert np.array_equal(zarr.open_array(tmp_path / "c")[...], values)


def test_text_and_fields(tmp_path: Path) -> None:
    words = np.array([f"{'é' * (k % 7)}{k}" for k in range(24)], dtype=object)
    z = hs.create_array(tmp_path / "a", shape=(24,), chunks=(2,), shards=[[2, 10, 8, 4]], dtype="string")
    z[...] = words
    z[5:7] = ["new", ""]
    words[5:7] = ["new", ""]
    assert list(zarr.open_array(tmp_path / "a")[:]) == list(words)
    assert list(z[::-2]) == list(words[::-2])
    assert list(z.oindex[[22, 0, 5, 11]]) == list(words[[22, 0, 5, 11]])
    assert z.read_ragged(slice(3, 20)).tolist() == list(words[3:20])
    dtype = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "<i2")])
    rows = np.zeros(24, dtype)
    rows["a"], rows["b"], rows["c"] = np.arange(24), np.arange(24) / 2, 7
    z = hs.create_array(tmp_path / "b", shape=(24,), chunks=(2,), shards=[[2, 10, 8, 4]], dtype=dtype)
    z[...] = rows
    assert np.array_equal(z["b"], rows["b"])
    z["a", 3:15] = -1
    rows["a"][3:15] = -1
    assert np.array_equal(z[...], rows)
    assert np.array_equal(z["a", 2:23:3], rows["a"][2:23:3])
    assert np.array_equal(zarr.open_array(tmp_path / "b")[...], rows)


def test_what_does_not_go_together() -> None:
    for library in (hs, zarr):
        with pytest.raises(ValueError, match="(?i)v2|format 2"):
            library.create_array({}, shape=(12,), chunks=(2,), shards=[[4, 8]], dtype="i4", zarr_format=2)
        with pytest.raises(ValueError, match="(?i)shard"):
            library.create_array({}, shape=(12,), chunks=[[4, 8]], shards=[[4, 8]], dtype="i4")


WRONG: list[tuple[Any, str]] = [
    ([[3, 9]], "whole inner chunks of 2 elements, found a shard of 3"),
    ([[4, 9]], "add up to 13"),
    ([[4, 8, 0]], "positive"),
    ([[]], "positive"),
    ([[4, 8], [2]], "dimensions"),
    ([[[4, 2], 4]], "length of each shard"),
    ([[4.5, 7.5]], "integer"),
]


@pytest.mark.parametrize(("shards", "message"), WRONG)
def test_wrong_shards(shards: Any, message: str) -> None:
    for asked in (shards, {"shape": shards, "index_location": "start"}):
        with pytest.raises((ValueError, TypeError), match=message):
            hs.create_array({}, shape=(12,), chunks=(2,), shards=asked, dtype="i4")
        with pytest.raises((ValueError, TypeError)):
            zarr.create_array({}, shape=(12,), chunks=(2,), shards=asked, dtype="i4")


BAD: list[tuple[Any, str]] = [
    ([[4, 7, 2]], "a shard of 7|do not divide shards"),
    # This also holds for shards beyond the end.
    ([[4, 8, 3]], "found a shard of 3"),
    ([5], "do not divide shards"),
    ([[4, 4]], "cover 8 elements, the array has 12"),
    ([[4, 0, 8]], "integers from 1"),
    ([[[4, 2**63]]], "integers from 1"),
    ([[[2**62, 8]]], "more than"),
    ([[4, [8, -1]]], "integers from 1"),
    ([[4, 8], [2]], "axes"),
    # Too many inner chunks for an index in memory.
    ([[4, 2**62]], "index"),
]


@pytest.mark.parametrize(("shapes", "message"), BAD)
def test_hostile(tmp_path: Path, shapes: Any, message: str) -> None:
    hs.create_array(tmp_path / "a", shape=(12,), chunks=(2,), shards=(4,), dtype="i4")
    changed = document(tmp_path / "a")
    changed["chunk_grid"] = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": shapes},
    }
    (tmp_path / "a/zarr.json").write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=message):
        hs.open_array(tmp_path / "a")


def test_enormous_runs_take_no_memory(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", shape=(2**62,), chunks=(2,), shards=(4,), dtype="u1")
    changed = document(tmp_path / "a")
    changed["chunk_grid"] = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[2, [4, 2**60]]]},
    }
    (tmp_path / "a/zarr.json").write_text(json.dumps(changed))
    z = hs.open_array(tmp_path / "a", mode="r+")
    z[2**61 : 2**61 + 9] = np.arange(9)
    assert z[2**61 - 1 : 2**61 + 10].tolist() == [0, *range(9), 0]
    with pytest.raises(MemoryError):
        _ = z.write_chunk_sizes
    assert z.vindex[[2**61 + 8, 5]].tolist() == [8, 0]
    assert z.nchunks_initialized == 6


@settings(max_examples=examples(40))
@given(sharded(), st.sampled_from([None, ZstdCodec(level=1)]), st.integers(0, 3))
def test_zarrs_reads_and_writes_them(
    grid: tuple[tuple[int, ...], tuple[int, ...], list[Any]], compressor: Any, unwritten: int
) -> None:
    zarrista = pytest.importorskip("zarrista")
    shape, chunks, shards = grid
    values = np.arange(1, 1 + np.prod(shape), dtype="i4").reshape(shape)
    values[: min(unwritten, shape[0] - 1)] = 0
    with scratch() as path:
        ours = hs.create_array(path / "a", data=values, chunks=chunks, shards=shards, compressors=compressor)
        theirs = zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), "/a")
        assert np.array_equal(np.asarray(theirs[...]), values)
        new = np.ascontiguousarray(values[::-1]) + 1
        theirs.store_array_subset(tuple(slice(0, n) for n in shape), zarrista.ArrayBytes(new.tobytes()))
        assert np.array_equal(ours[...], new)
