"""Partial reads, partial decoding, threads, decodes in flight: the results are always the same."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import shards
from hypothesis import given, settings
from hypothesis import strategies as st
from shards import ShardCase, check_shard, regions, shard_cases, shard_files, zstd
from strategies import from_bits, selections
from support import assert_same, examples, scratch

COMBINATIONS = [
    dict(zip(("partial_reads", "partial_decode", "threads", "decodes_in_flight"), values, strict=True))
    for values in product([True, False], [True, False], [1, 4], [1, 8])
]


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(40))
def test_small_arrays(case: ShardCase, data: st.DataObject) -> None:
    with scratch() as root:
        case.create(root / "a")
        shards.open_ours(root / "a")[...] = case.data
        asked: list[Any] = [..., *(data.draw(selections(case.shape)) for _ in range(4))]
        asked += [data.draw(regions(case)) for _ in range(2)]
        for combination in COMBINATIONS:
            with hs.config.set(combination):
                ours = shards.open_ours(root / "a")
                for selection in asked:
                    assert_same(ours[selection], case.data[selection], f"{combination}, {selection}")


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(30))
def test_writes(case: ShardCase, data: st.DataObject) -> None:
    """Each write has a combination of settings.

    The stored shard is read with another combination.
    """
    with scratch() as root:
        case.create(root / "a")
        model = case.empty.copy()
        for number in range(6):
            region = data.draw(regions(case))
            target = model[region]
            model[region] = from_bits(case.seed + number, target.size, case.dtype).reshape(target.shape)
            combinations = data.draw(st.tuples(st.sampled_from(COMBINATIONS), st.sampled_from(COMBINATIONS)))
            with hs.config.set(combinations[0]):
                shards.open_ours(root / "a")[region] = model[region]
            with hs.config.set(combinations[1]):
                assert_same(shards.open_ours(root / "a")[...], model, f"{combinations}, {region}")


BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 4096},
}
CHAINS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "zstd": [zstd(1)],
    "gzip": [{"name": "gzip", "configuration": {"level": 1}}],
    "blosc": [BLOSC],
    "zstd, crc32c": [zstd(1), {"name": "crc32c"}],
    "crc32c, zstd": [{"name": "crc32c"}, zstd(1)],
}
# Large enough for several threads, and for partial decoding of inner chunks to pay off.
SHAPE, SHARDS, CHUNKS = (24, 70_000), (8, 60_000), (2, 20_000)


@pytest.fixture(scope="module")
def large() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    values = np.cumsum(rng.integers(-3, 4, SHAPE), axis=1).astype("i4")
    # Absent inner chunks, and an absent shard.
    values[2:4, 20_000:40_000] = 0
    values[16:, :60_000] = 0
    return values


@pytest.mark.parametrize("place", ["memory", "local"])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_large_arrays(
    tmp_path: Path, large: np.ndarray[Any, Any], chain: str, endian: Any, place: str, rng: np.random.Generator
) -> None:
    store: Any = hs.MemoryStore() if place == "memory" else tmp_path / "a"
    z = hs.create_array(
        store,
        shape=SHAPE,
        shards=SHARDS,
        chunks=CHUNKS,
        dtype="i4",
        serializer={"name": "bytes", "configuration": {"endian": endian}},
        compressors=CHAINS[chain],
    )
    z[...] = large
    asked: list[Any] = [
        np.s_[:],
        np.s_[3],
        np.s_[:, 20_003],
        np.s_[:, 69_999:20_000:-777],
        # The start of an inner chunk, its end, and one row of two.
        np.s_[0, 20_000:20_100],
        np.s_[1, 100:200],
        np.s_[4:6, 59_990:60_010],
        np.s_[1::2, 5:15_000],
        np.s_[7:9, 19_000:21_000],
        np.s_[20, 5],
    ]
    for _ in range(4):
        low, high = np.sort(rng.integers(0, np.array([SHAPE, SHAPE]) + 1, (2, 2)), axis=0)
        asked.append(tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True)))
    for combination in COMBINATIONS:
        with hs.config.set(combination):
            for selection in asked:
                assert_same(z[selection], large[selection], f"{combination}, {selection}")
            out = np.full((8, 70_000), -1, "i4")
            assert_same(z.read(np.s_[4:12], out=out), large[4:12], f"{combination}, out")


def test_streams_and_caches(tmp_path: Path, large: np.ndarray[Any, Any]) -> None:
    hs.create_array(tmp_path, data=large, shards=SHARDS, chunks=CHUNKS, compressors=CHAINS["zstd"])
    z = hs.open_array(tmp_path, cache="32 MiB")
    for _ in range(2):
        assert_same(np.stack([values for _, values in z.stream(axis=0)]), large)
        assert_same(z[5, 100:50_000:7], large[5, 100:50_000:7])
    # Changed elements are read again, with or without a cache.
    ours = hs.open_array(tmp_path, mode="r+")
    for number in range(3):
        ours[4:6, 20_000:40_000] = number
        assert int(z[5, 30_000]) == number
        assert_same(z[6:8], large[6:8])


def test_a_writer_fills_shards(tmp_path: Path, large: np.ndarray[Any, Any]) -> None:
    """Write-behind fills shards row by row."""
    z = hs.create_array(tmp_path / "a", shape=SHAPE, shards=SHARDS, chunks=CHUNKS, dtype="i4")
    with z.writer() as writer:
        for row in range(SHAPE[0]):
            writer[row] = large[row]
    assert_same(z[...], large)
    assert len(list(shard_files(tmp_path / "a"))) == 5


def test_memory_stores_hold_the_same_bytes(tmp_path: Path, rng: np.random.Generator) -> None:
    """A shard in memory is put together from its parts like a shard in a file."""
    store = hs.MemoryStore()
    for place in (store, tmp_path / "a"):
        z = hs.create_array(place, shape=(8, 8), shards=(8, 8), chunks=(2, 2), dtype="i4")
        data = np.random.default_rng(1).integers(1, 100, (8, 8)).astype("i4")
        z[...] = data
        z[2:5, 1:7] = 7
        z[4:6, 4:6] = 0
    case = ShardCase((8, 8), (8, 8), (shards.Level((2, 2)),), np.dtype("i4"), 0, data)
    stored = (tmp_path / "a/c/0/0").read_bytes()
    dead = None if shards.shares_blocks() else 0
    assert check_shard(case, stored, dead=dead) == check_shard(case, store.get("c/0/0"), dead=0) == 15
    if not shards.shares_blocks():
        assert store.get("c/0/0") == stored
