"""hyperslab, zarr-python and TensorStore read each other's shards, also after partial writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import shards
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from shards import (
    JUDGES,
    ShardCase,
    check_shard,
    judges,
    present_in_grid,
    regions,
    shard_cases,
    shard_files,
    shares_blocks,
    zstd,
)
from strategies import from_bits, selections
from support import as_array, assert_same, examples, read_json, scratch
from test_differential_zarr import without_defaults


def contents_of(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in shard_files(path)}


def check_changed(case: ShardCase, path: Path, before: dict[Path, bytes]) -> None:
    """Checks changed shards: they are valid, and hold no bytes that no index names."""
    for file, stored in contents_of(path).items():
        if before.get(file) != stored:
            # If files can share blocks, unused bytes may stay until there are many.
            check_shard(case, stored, dead=None if shares_blocks() else 0)


def values_for(case: ShardCase, data: st.DataObject, seed: int, target: Any) -> np.ndarray[Any, Any]:
    """Returns new values for a region: any bits, or the fill value."""
    shape = np.shape(target)
    if data.draw(st.sampled_from(["bits", "bits", "fill"])) == "fill":
        return np.full(shape, case.fill, case.dtype)
    return from_bits(seed, int(np.prod(shape)), case.dtype).reshape(shape)


def assert_all_read(case: ShardCase, path: Path, model: np.ndarray[Any, Any], what: str) -> None:
    """Checks that every library that can read the array finds the same elements."""
    assert_same(shards.open_ours(path)[...], model, f"{what}: we")
    for judge in judges(case):
        assert_same(as_array(judge(path).read(), case.dtype), model, f"{what}: {judge.__name__}")


def rewrite_parts(case: ShardCase, data: st.DataObject, path: Path, model: np.ndarray[Any, Any]) -> None:
    """Makes several partial writes with hyperslab. All libraries check each one."""
    ours = shards.open_ours(path)
    for number in range(3):
        region = data.draw(regions(case))
        value = values_for(case, data, case.seed + number, model[region])
        before = contents_of(path)
        model[region] = value
        ours[region] = value
        check_changed(case, path, before)
        assert_all_read(case, path, model, f"after part {number}, {region}")


@pytest.mark.parametrize("judge", JUDGES)
@given(data=st.data())
@settings(max_examples=examples(110))
def test_they_write_and_we_read_and_rewrite(judge: str, data: st.DataObject) -> None:
    kind, cases = JUDGES[judge]
    case = data.draw(cases)
    with scratch() as root:
        path = root / "a"
        case.create(path)
        theirs = kind(path, stored=data.draw(st.booleans()))
        theirs.write(..., case.data)
        # The other library does not store elements that it takes for the fill value. Its own read
        # shows them.
        model = as_array(theirs.read(), case.dtype).copy()
        ours = shards.open_ours(path)
        assert_same(ours[...], model, "all")
        for _ in range(3):
            selection = data.draw(selections(case.shape))
            assert_same(ours[selection], model[selection], repr(selection))
        for number in range(2):
            # Write some inner chunks later, so that their order in the shard changes.
            region = data.draw(regions(case))
            value = values_for(case, data, case.seed + 7 + number, model[region])
            theirs.write(region, value)
            model = as_array(theirs.read(), case.dtype).copy()
            assert_same(ours[...], model, f"after they wrote {region}")
        rewrite_parts(case, data, path, model)


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(150))
def test_we_write_and_they_read(case: ShardCase, data: st.DataObject) -> None:
    with scratch() as root:
        path = root / "a"
        case.create(path)
        ours = shards.open_ours(path)
        assert_same(ours[...], case.empty, "empty")
        ours[...] = case.data
        assert_all_read(case, path, case.data, "all")
        stored = sum(check_shard(case, shard) for shard in contents_of(path).values())
        assert stored == present_in_grid(case, case.data)
        rewrite_parts(case, data, path, case.data.copy())
        ours[...] = np.full(case.shape, case.fill, case.dtype)
        assert contents_of(path) == {}


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(60))
def test_parts_of_nothing(case: ShardCase, data: st.DataObject) -> None:
    """Shards grow inner chunk by inner chunk.

    A shard that holds only the fill value is not stored.
    """
    with scratch() as root:
        path = root / "a"
        case.create(path)
        ours = shards.open_ours(path)
        model = case.empty.copy()
        for number in range(3):
            region = data.draw(regions(case))
            model[region] = values_for(case, data, case.seed + number, model[region])
            ours[region] = model[region]
            dead = None if shares_blocks() else 0
            stored = sum(check_shard(case, shard, dead=dead) for shard in contents_of(path).values())
            assert stored == present_in_grid(case, model)
            assert_all_read(case, path, model, f"after {number}")


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(60))
def test_empty_inner_chunks_are_stored_where_asked_for(case: ShardCase, data: st.DataObject) -> None:
    with scratch() as root, hs.config.set(write_empty_chunks=True):
        path = root / "a"
        case.create(path)
        ours = shards.open_ours(path)
        ours[...] = case.data
        assert_all_read(case, path, case.data, "all")
        grid = [-(-n // c) for n, c in zip(case.shape, case.inner_chunks, strict=True)]
        stored = sum(check_shard(case, shard) for shard in contents_of(path).values())
        # Inner chunks beyond the array's end may be absent.
        assert stored >= int(np.prod(grid))
        rewrite_parts(case, data, path, case.data.copy())


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(50))
def test_everybody_writes_parts_of_one_array(case: ShardCase, data: st.DataObject) -> None:
    writers: list[Any] = [*judges(case)]
    with scratch() as root:
        path = root / "a"
        case.create(path)
        model = case.empty.copy()
        for number in range(5):
            region = data.draw(regions(case))
            value = values_for(case, data, case.seed + number, model[region])
            model[region] = value
            writer = data.draw(st.sampled_from([None, *writers]))
            if writer is None:
                shards.open_ours(path)[region] = value
            else:
                writer(path).write(region, value)
            assert_all_read(case, path, model, f"after {number}")


@pytest.mark.parametrize("shape", [(), (7,), (7, 9), (5, 6, 7)], ids=str)
def test_the_same_arguments_give_the_same_metadata(tmp_path: Path, shape: tuple[int, ...]) -> None:
    arguments: dict[str, Any] = {
        "shape": shape,
        "chunks": (2,) * len(shape),
        "shards": (4,) * len(shape),
        "dtype": "f4",
        "fill_value": 1.5,
        "compressors": [zstd(1)],
    }
    hs.create_array(tmp_path / "ours", **arguments)
    zarr.create_array(str(tmp_path / "theirs"), **arguments)
    found, expected = (read_json(tmp_path / who / "zarr.json") for who in ("ours", "theirs"))
    assert without_defaults(found) == without_defaults(expected)
    ours, theirs = hs.open_array(tmp_path / "theirs"), zarr.open_array(tmp_path / "theirs")
    assert (ours.shards, ours.chunks) == (theirs.shards, theirs.chunks)
    assert ours.shards == (4,) * len(shape)
    assert hs.open_array(tmp_path / "ours").metadata.to_dict() == ours.metadata.to_dict()
