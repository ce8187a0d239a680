"""Rectilinear chunk grids: chunks of different lengths along an axis, as in zarr-python 3.4."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

GRID = [[3, 4, 4, 1], [5, 5]]


@pytest.fixture(autouse=True, scope="module")
def enabled() -> Iterator[None]:
    """Switches on zarr-python's rectilinear grids."""
    if not hasattr(zarr.core.chunk_grids, "normalize_chunks_nd"):
        pytest.skip("this zarr-python has no rectilinear grids")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def stored(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


axes = st.lists(st.integers(1, 6), min_size=1, max_size=7) | st.tuples(st.integers(1, 20), st.integers(1, 6))
"""The lengths of an axis's chunks, or the axis length and one chunk length."""


@st.composite
def grids(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Any]]:
    """Draws a shape and its chunks. At least one axis lists the length of each chunk."""
    shape, chunks = [], []
    for axis in range(draw(st.integers(1, 3))):
        found = draw(axes if axis else axes.filter(lambda axis: isinstance(axis, list)))
        shape.append(sum(found) if isinstance(found, list) else found[0])
        chunks.append(found if isinstance(found, list) else found[1])
    order = draw(st.permutations(range(len(shape))))
    return tuple(shape[k] for k in order), [chunks[k] for k in order]


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Any]:
    kind = draw(st.sampled_from(["basic", "basic", "oindex", "vindex", "mask"]))
    if kind == "mask":
        seed = draw(st.integers(0, 2**32 - 1))
        return "mask", np.random.default_rng(seed).random(shape) < draw(st.sampled_from([0.1, 0.5, 0.95]))
    if kind == "vindex":
        count = draw(st.integers(0, 12))
        lists = [draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)) for n in shape]
        return kind, tuple(np.array(indices, int) for indices in lists)
    key: list[Any] = []
    for n in shape:
        which = draw(st.sampled_from(["slice", "slice", "at", "list"]))
        if which == "at":
            key.append(draw(st.integers(-n, n - 1)))
        elif which == "list" and kind == "oindex":
            key.append(np.array(draw(st.lists(st.integers(0, n - 1), unique=True, max_size=8)), int))
        else:
            start, stop = (draw(st.none() | st.integers(-n - 1, n + 1)) for _ in "ab")
            step = draw(st.sampled_from([None, 1, 1, 2, 3, 7]))
            if kind == "basic" and step is None:
                step = draw(st.sampled_from([None, -1, -2]))
            key.append(slice(start, stop, step))
    return kind, tuple(key)


def indexed(values: np.ndarray[Any, Any], kind: str, key: Any) -> Any:
    """Returns the key for NumPy."""
    if kind != "oindex":
        return key
    whole = [
        np.arange(n)[k] if not isinstance(k, int) else np.array([k % n])
        for n, k in zip(values.shape, key, strict=True)
    ]
    return np.ix_(*whole)


def shaped(values: np.ndarray[Any, Any], kind: str, key: Any) -> Any:
    """Returns NumPy's result in the shape that zarr returns."""
    found = values[indexed(values, kind, key)]
    if kind == "oindex":
        found = found.reshape([n for n, k in zip(found.shape, key, strict=True) if not isinstance(k, int)])
    return found


def of(array: Any, kind: str) -> Any:
    return {"basic": array, "oindex": array.oindex, "vindex": array.vindex, "mask": array.vindex}[kind]


def unique(shape: tuple[int, ...], kind: str, key: Any) -> Any:
    """Removes repeated points. hyperslab keeps the last value, zarr-python does not say which."""
    if kind != "vindex":
        return key
    points = {tuple(k % n for k, n in zip(p, shape, strict=True)) for p in zip(*key, strict=True)}
    return tuple(np.array([p[k] for p in sorted(points)], int) for k in range(len(shape)))


def write_both(data: st.DataObject, ours: Any, theirs: Any, model: np.ndarray[Any, Any], fill: int) -> None:
    """Writes values or the fill value to some selections."""
    for _ in range(data.draw(st.integers(0, 4))):
        kind, key = data.draw(selections(model.shape))
        key = unique(model.shape, kind, key)
        found = shaped(model, kind, key)
        new: Any = fill
        if data.draw(st.booleans()):
            new = np.arange(1, found.size + 1, dtype=model.dtype).reshape(found.shape)
        target = indexed(model, kind, key)
        model[target] = new if np.isscalar(new) else np.reshape(new, model[target].shape)
        of(ours, kind)[key] = new
        backwards = kind == "basic" and any(isinstance(k, slice) and (k.step or 1) < 0 for k in key)
        if backwards:
            theirs[...] = model
        else:
            of(theirs, kind)[key] = new


codecs = st.sampled_from(
    [
        {"compressors": None},
        {"compressors": ZstdCodec(level=1)},
        {"compressors": GzipCodec(level=1)},
        {"compressors": BloscCodec(typesize=4), "serializer": BytesCodec(endian="big")},
    ]
)


@settings(max_examples=examples(120))
@given(
    grids(), codecs, st.sampled_from(["u1", "i4", "f8"]), st.sampled_from([0, 7]), st.booleans(), st.data()
)
def test_both_ways(
    grid: tuple[tuple[int, ...], list[Any]],
    codecs: dict[str, Any],
    dtype: str,
    fill: int,
    transposed: bool,
    data: st.DataObject,
) -> None:
    shape, chunks = grid
    with scratch() as path:
        if dtype == "u1":
            codecs = {**codecs, "serializer": BytesCodec(endian=None)}
        if transposed:
            codecs = {**codecs, "filters": [TransposeCodec(order=tuple(reversed(range(len(shape)))))]}
        common: dict[str, Any] = dict(shape=shape, chunks=chunks, dtype=dtype, fill_value=fill, **codecs)
        ours = hs.create_array(path / "a", **common)
        theirs = zarr.create_array(path / "b", **common)
        assert json.loads((path / "a/zarr.json").read_text()) == json.loads(
            (path / "b/zarr.json").read_text()
        )
        assert ours.read_chunk_sizes == theirs.read_chunk_sizes
        assert ours.write_chunk_sizes == theirs.write_chunk_sizes
        assert (ours.cdata_shape, ours.nchunks) == (theirs.cdata_shape, theirs.nchunks)
        model = np.full(shape, fill, dtype)
        write_both(data, ours, theirs, model, fill)
        assert np.array_equal(ours[...], model)
        assert np.array_equal(zarr.open_array(path / "a")[...], model)
        again = hs.open_array(path / "b")
        assert np.array_equal(again[...], model)
        assert {k for k in stored(path / "a") if "/" in k} == {k for k in stored(path / "b") if "/" in k}
        if codecs["compressors"] is None:
            assert stored(path / "a").keys() == stored(path / "b").keys()
            assert all(v == stored(path / "b")[k] for k, v in stored(path / "a").items() if "/" in k)
        for _ in range(3):
            kind, key = data.draw(selections(shape))
            expected = shaped(model, kind, key)
            found = of(again, kind)[key]
            assert np.shape(found) == expected.shape
            assert np.array_equal(found, expected), (kind, key)


@settings(max_examples=examples(60))
@given(grids(), st.data())
def test_resize_and_append(grid: tuple[tuple[int, ...], list[Any]], data: st.DataObject) -> None:
    shape, chunks = grid
    with scratch() as path:
        model = np.arange(1, 1 + int(np.prod(shape)), dtype="i4").reshape(shape)
        ours = hs.create_array(path / "a", shape=shape, chunks=chunks, dtype="i4")
        theirs = zarr.create_array(path / "b", shape=shape, chunks=chunks, dtype="i4")
        ours[...] = model
        theirs[...] = model
        for _ in range(3):
            if data.draw(st.booleans()):
                new = tuple(data.draw(st.integers(0, n + 8)) for n in model.shape)
                ours.resize(new)
                theirs.resize(new)
                resized = np.zeros(new, "i4")
                same = tuple(slice(0, min(a, b)) for a, b in zip(model.shape, new, strict=True))
                resized[same] = model[same]
                model = resized
            else:
                more = np.full((data.draw(st.integers(1, 5)), *model.shape[1:]), 9, "i4")
                ours.append(more)
                theirs.append(more)
                model = np.concatenate([model, more])
            assert json.loads((path / "a/zarr.json").read_text()) == json.loads(
                (path / "b/zarr.json").read_text()
            )
            assert ours.read_chunk_sizes == theirs.read_chunk_sizes
            assert np.array_equal(ours[...], model)
            assert np.array_equal(zarr.open_array(path / "a")[...], model)
            theirs[...] = model  # in zarr-python, elements removed by a shrink come back
            assert np.array_equal(hs.open_array(path / "b")[...], model)


def test_what_the_array_says(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(12, 10), chunks=GRID, dtype="i2", fill_value=3)
    theirs = zarr.open_array(tmp_path / "a")
    for array in (z, theirs):
        with pytest.raises(NotImplementedError):
            _ = array.chunks
        assert array.shards is None
        assert array.read_chunk_sizes == ((3, 4, 4, 1), (5, 5))
    assert z.cdata_shape == (4, 2)
    assert z.metadata.chunk_grid.to_dict() == json.loads(json.dumps(theirs.metadata.chunk_grid.to_dict()))
    assert z.metadata.chunk_grid.chunk_shapes == theirs.metadata.chunk_grid.chunk_shapes
    assert "<variable>" in str(z.info) and "&lt;variable&gt;" in z._repr_html_()
    assert "0 of 8" in str(z.info_complete())
    z[...] = np.arange(120).reshape(12, 10)
    assert z.nchunks_initialized == 8
    assert np.array_equal(z.blocks[1, 1], z[3:7, 5:10])
    assert np.array_equal(z.blocks[1:3], theirs.blocks[1:3])
    told = z.explain((slice(2, 5), slice(None)))
    assert [task.chunk for task in told.tasks] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert np.array_equal([row for _, row in z.stream()], z[...])
    assert np.array_equal(list(z), z[...])
    with z.writer() as w:
        for k in range(12):
            w[k] = np.full(10, k)
    assert np.array_equal(theirs[...], np.repeat(np.arange(12), 10).reshape(12, 10))
    assert np.array_equal(hs.open_array(tmp_path / "a", cache="1 MiB")[::-1, 3], np.arange(12)[::-1])


def test_copies_keep_the_grid(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=np.arange(120).reshape(12, 10), chunks=GRID)
    hs.copy(z, tmp_path / "b")
    copied = hs.open_array(tmp_path / "b")
    assert copied.read_chunk_sizes == z.read_chunk_sizes
    assert np.array_equal(copied[...], z[...])
    hs.copy(z, tmp_path / "c", chunks=(4, 4))
    assert hs.open_array(tmp_path / "c").chunks == (4, 4)
    hs.copy(z, tmp_path / "d", zarr_format=2)
    assert np.array_equal(zarr.open_array(tmp_path / "d")[...], z[...])
    for like in (hs.from_array({}, data=z), hs.zeros_like(z), hs.array(z)):
        assert like.read_chunk_sizes == z.read_chunk_sizes
    theirs = zarr.open_array(tmp_path / "a")
    assert hs.from_array({}, data=theirs).read_chunk_sizes == z.read_chunk_sizes
    made = hs.create_array({}, shape=(12, 10), dtype="i4", chunks=theirs.metadata.chunk_grid)
    assert made.read_chunk_sizes == z.read_chunk_sizes


def test_text(tmp_path: Path) -> None:
    values = np.array([f"{'é' * (k % 7)}{k}" for k in range(23)], dtype=object)
    z = hs.create_array(tmp_path / "a", shape=(23,), chunks=[[2, 9, 9, 3]], dtype="string")
    z[...] = values
    z[5:7] = ["new", ""]
    values[5:7] = ["new", ""]
    assert list(zarr.open_array(tmp_path / "a")[:]) == list(values)
    assert list(z[::-2]) == list(values[::-2])
    assert list(z.oindex[[22, 0, 5, 11]]) == list(values[[22, 0, 5, 11]])
    assert z.read_ragged(slice(3, 20)).tolist() == list(values[3:20])


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([[3, 4], [5, 5]], "add up to 7"),
        ([[3, 9, 0], [5, 5]], "positive"),
        ([[], [5, 5]], "positive"),
        ([[12]], "dimensions"),
        ([[[6, 2]], [5, 5]], "length of each"),
        ([[6.5, 5.5], [5, 5]], "integer"),
    ],
)
def test_wrong_chunks(chunks: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        hs.create_array({}, shape=(12, 10), chunks=chunks, dtype="i4")
    with pytest.raises((ValueError, TypeError)):
        zarr.create_array({}, shape=(12, 10), chunks=chunks, dtype="i4")


def test_what_does_not_go_together() -> None:
    for library in (hs, zarr):
        with pytest.raises(ValueError, match="(?i)v2|format 2"):
            library.create_array({}, shape=(12, 10), chunks=GRID, dtype="i4", zarr_format=2)
        with pytest.raises(ValueError, match="shard"):
            library.create_array({}, shape=(12, 10), chunks=GRID, shards=(12, 10), dtype="i4")


BAD: list[tuple[Any, str]] = [
    ([[3, 4], 5], "cover 7 elements"),
    ([[3, -9, 18], 5], "integers from 1"),
    ([[[1, 2**63]], 5], "integers from 1"),
    ([[[2**62, 2**62]], 5], "more than"),
    ([[12, [1, 2, 3]], 5], "integers from 1"),
    ([[12]], "axes"),
    ([0, 5], "integers from 1"),
    ("12", "list"),
    ([[12], [1, "2"]], "integers from 1"),
]


@pytest.mark.parametrize(("shapes", "message"), BAD)
def test_hostile(tmp_path: Path, shapes: Any, message: str) -> None:
    hs.create_array(tmp_path / "a", shape=(12, 10), dtype="i4")
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}
    document["chunk_grid"] = grid
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        hs.open_array(tmp_path / "a")


def test_enormous_runs_take_no_memory(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", shape=(2**62,), chunks=(4,), dtype="u1")
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    document["chunk_grid"] = {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[3, [4, 2**60]]]},
    }
    (tmp_path / "a/zarr.json").write_text(json.dumps(document))
    z = hs.open_array(tmp_path / "a", mode="r+")
    z[2**61 : 2**61 + 9] = np.arange(9)
    assert z[2**61 - 1 : 2**61 + 10].tolist() == [0, *range(9), 0]
    assert z.nchunks == 2**60 + 1
    with pytest.raises(MemoryError):
        _ = z.read_chunk_sizes
    assert z.nchunks_initialized == 3
    assert z.vindex[[2**61 + 8, 5]].tolist() == [8, 0]


@settings(max_examples=examples(40))
@given(grids(), st.sampled_from([None, ZstdCodec(level=1)]), st.integers(0, 3))
def test_zarrs_reads_and_writes_them(
    grid: tuple[tuple[int, ...], list[Any]], compressor: Any, unwritten: int
) -> None:
    zarrista = pytest.importorskip("zarrista")
    shape, chunks = grid
    values = np.arange(1, 1 + np.prod(shape), dtype="i4").reshape(shape)
    values[: min(unwritten, shape[0] - 1)] = 0
    with scratch() as path:
        ours = hs.create_array(path / "a", data=values, chunks=chunks, compressors=compressor)
        theirs = zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), "/a")
        assert np.array_equal(np.asarray(theirs[...]), values)
        new = np.ascontiguousarray(values[::-1]) + 1
        theirs.store_array_subset(tuple(slice(0, n) for n in shape), zarrista.ArrayBytes(new.tobytes()))
        assert np.array_equal(ours[...], new)
