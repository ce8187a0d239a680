"""Decoding in parts: journals that a second run goes on from, and plans that other processes execute."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import dask_cluster, examples, scratch


def ocean(path: Path, kind: str, seed: int = 0) -> None:
    """Writes `/a` and `/g/b`, with one damaged chunk in each."""
    rng = np.random.default_rng(seed)
    # Two blocks of 2 MiB and more for each array.
    values = rng.integers(0, 9, (2000, 600), "i4")
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            for name in ("a", "g/b"):
                d = file.create_dataset(
                    name, data=values, chunks=(250, 70), compression="gzip", fletcher32=True
                )
                info = d.id.get_chunk_info(3)
                file.flush()
                with path.open("r+b") as raw:
                    raw.seek(info.byte_offset + 5)
                    raw.write(b"\0\0\0")
        return
    group = zarr.create_group(path)
    for name in ("a", "g/b"):
        z = group.create_array(
            name,
            shape=values.shape,
            chunks=(250, 70),
            shards=(500, 140) if kind == "shards" else None,
            dtype="i4",
            compressors=zarr.codecs.ZstdCodec(checksum=True),
        )
        z[...] = values
        chunk = path / name / "c/1/1"
        chunk.write_bytes(chunk.read_bytes()[:-30] if kind == "zarr" else b"x" * 5 + chunk.read_bytes()[5:])


KINDS = ("zarr", "shards", "hdf5")


def short(report: hs.ValidationReport) -> list[Any]:
    assert not report.unreached
    return [(found.kind, found.path, found.chunk, found.key, found.offset) for found in report]


def settle(path: Path) -> None:
    """Gives all objects old times: a file of this moment could change without a trace."""
    for each in [path, *path.rglob("*")]:
        os.utime(each, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize("kind", KINDS)
def test_a_journal(tmp_path: Path, kind: str) -> None:
    path, journal = tmp_path / "ocean", tmp_path / "journal"
    ocean(path, kind)
    whole = hs.validate(path, decode=True)
    assert len(whole.errors) >= 2
    assert short(hs.validate(path, decode=True, resume=journal)) == short(whole)
    lines = journal.read_text().splitlines()
    assert json.loads(lines[0]) == {"hyperslab validate journal": 1}
    assert len(lines) == 3
    # Nothing is decoded again: progress comes in one piece for each array.
    told: list[tuple[str, int, int]] = []
    again = hs.validate(path, decode=True, resume=journal, progress=lambda *now: told.append(now))
    assert short(again) == short(whole)
    assert json.loads(again.to_json())["looked"] == json.loads(whole.to_json())["looked"]
    assert journal.read_text().splitlines() == lines
    # A change of one array is seen.
    if kind == "hdf5":
        with h5py.File(path, "r+") as file:
            file["a"][0, 0] = 77
    else:
        hs.open_array(path / "a", mode="r+")[39, 29] = 77
    assert short(hs.validate(path, decode=True, resume=journal)) == short(hs.validate(path, decode=True))
    assert len(journal.read_text().splitlines()) == (5 if kind == "hdf5" else 4)
    # A journal does not hide what has been mended.
    path.rename(tmp_path / "old")
    assert hs.validate(path, decode=True, resume=journal).unreached


def test_the_metadata_count(tmp_path: Path) -> None:
    """The same chunks under other codecs are other data."""
    path, journal = tmp_path / "ocean", tmp_path / "journal"
    z = hs.create_array(path, data=np.arange(100.0), chunks=10, compressors=None)
    assert z.shape == (100,)
    assert not hs.validate(path, decode=True, resume=journal).findings
    document = path / "zarr.json"
    text = json.loads(document.read_text())
    text["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    document.write_text(json.dumps(text))
    assert len(hs.validate(path, decode=True, resume=journal).errors) == 10


def test_an_interrupted_run(tmp_path: Path) -> None:
    path, journal = tmp_path / "ocean.zarr", tmp_path / "journal"
    group = hs.create_group(path)
    for number in range(20):
        group.create_array(f"a{number}", data=np.arange(1000.0), chunks=100)

    def stop(_: str, done: int, total: int) -> None:
        if done > total / 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        hs.validate(path, decode=True, resume=journal, progress=stop)
    before = len(journal.read_text().splitlines())
    assert 5 < before < 21
    assert hs.validate(path, decode=True, resume=journal)
    assert len(journal.read_text().splitlines()) == 21


def test_journals_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("important")
    hs.save_array(tmp_path / "z", np.arange(3))
    with pytest.raises(OSError, match="no journal"):
        hs.validate(tmp_path / "z", decode=True, resume=tmp_path / "thesis")
    assert (tmp_path / "thesis").read_text() == "important"
    with pytest.raises(OSError, match="none"):
        hs.validate(tmp_path / "z", decode=True, resume=tmp_path / "none/journal")


@pytest.fixture(scope="module")
def executors() -> Iterator[list[Any]]:
    distributed = pytest.importorskip("distributed")
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes,
        dask_cluster(workers=2, threads=1) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield [None, threads, processes, client]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan(tmp_path: Path, kind: str, executors: list[Any]) -> None:
    path = tmp_path / "ocean"
    ocean(path, kind)
    whole = hs.validate(path, decode=True, missing=True)
    for size, least in (("1 B", 4), ("3 MB", 4), ("1 GiB", 2)):
        plan = hs.plan_validation(path, missing=True, task_size=size)
        assert len(plan.parts) >= least
        assert {part.path for part in plan.parts} == {"a", "g/b"}
        for executor in executors:
            told: list[tuple[str, int, int]] = []
            report = pickle.loads(pickle.dumps(plan)).run(executor, progress=lambda *now: told.append(now))
            assert short(report) == short(whole)
            assert report.missing == whole.missing
            decoded = [json.loads(each.to_json())["looked"][0]["decoded"] for each in (report, whole)]
            assert decoded[0] == decoded[1]
            assert told[-1][1] == told[-1][2]


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), rank=st.integers(0, 3), sharded=st.booleans(), size=st.integers(1, 5000))
def test_parts_find_what_a_run_finds(data: st.DataObject, rank: int, sharded: bool, size: int) -> None:
    shape = tuple(data.draw(st.integers(1, 20)) for _ in range(rank))
    chunks = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
    with scratch() as root:
        z = zarr.create_array(
            root / "z",
            shape=shape,
            chunks=chunks or "auto",
            shards=tuple(2 * n for n in chunks) if sharded and rank else None,
            dtype="f4",
            compressors=zarr.codecs.ZstdCodec(checksum=True),
        )
        z[...] = np.random.default_rng(1).normal(size=shape)
        keys = sorted(path for path in (root / "z/c").rglob("*") if path.is_file()) or [root / "z/c"]
        for key in data.draw(st.lists(st.sampled_from(keys), max_size=3, unique=True)):
            key.write_bytes(key.read_bytes()[:-3])
        whole = hs.validate(root / "z", decode=True)
        plan = hs.plan_validation(root / "z", task_size=size)
        assert short(plan.run()) == short(whole)
        assert short(hs.validate(root / "z", decode=True, resume=root / "journal")) == short(whole)
        assert short(hs.validate(root / "z", decode=True, resume=root / "journal")) == short(whole)


def test_several_sources_and_open_nodes(tmp_path: Path) -> None:
    ocean(tmp_path / "one", "zarr")
    ocean(tmp_path / "two", "hdf5")
    sources = (
        tmp_path / "one",
        hs.open_group(tmp_path / "two", mode="r"),
        hs.storage.LocalStore(tmp_path / "one"),
    )
    plan = hs.plan_validation(*sources)
    assert {part.source for part in plan.parts} == {0, 1, 2}
    with ThreadPoolExecutor(2) as executor:
        assert short(plan.run(executor)) == short(hs.validate(*sources, decode=True))


def test_an_array_that_changed(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "z", data=np.arange(10), chunks=2)
    plan = hs.plan_validation(tmp_path / "z", task_size="1 B")
    z.resize((4_000_000,))
    with pytest.raises(ValueError, match="Make a new plan"):
        plan.run(retries=0)


def test_nested_shards(tmp_path: Path) -> None:
    """Shards within shards are looked into, without decoding."""
    inner = zarr.codecs.ShardingCodec(
        chunk_shape=(2,), codecs=[zarr.codecs.BytesCodec(), zarr.codecs.ZstdCodec(checksum=True)]
    )
    outer = zarr.codecs.ShardingCodec(chunk_shape=(8,), codecs=[inner])
    z = zarr.create_array(
        tmp_path / "z",
        shape=(64,),
        chunks=(32,),
        dtype="f8",
        serializer=outer,
        compressors=None,
        filters=None,
    )
    z[...] = np.random.default_rng(1).normal(size=64)
    assert hs.validate(tmp_path / "z", decode=True, expect_complete=True).findings == []
    shard = tmp_path / "z/c/1"
    good = shard.read_bytes()
    # The outer index: 4 entries and a checksum. The inner ones, too.
    entries = np.frombuffer(good[-68:-4], "<u8").reshape(4, 2)
    start, length = (int(n) for n in entries[2])
    bad = bytearray(good)
    bad[start + length - 20] ^= 1
    shard.write_bytes(bad)
    for decode in (False, True):
        [found] = hs.validate(tmp_path / "z", decode=decode).errors
        assert (found.kind, found.key, found.offset) == ("shard-index", "c/1", start)
        assert "element [48]" in found.found
    # A chunk in an inner shard.
    index = np.frombuffer(good[start + length - 68 : start + length - 4], "<u8").reshape(4, 2)
    bad = bytearray(good)
    bad[start + int(index[1, 0]) + 3] ^= 0xFF
    shard.write_bytes(bad)
    assert hs.validate(tmp_path / "z").errors == []
    [found] = hs.validate(tmp_path / "z", decode=True).errors
    assert (found.kind, found.chunk, found.offset) == ("damaged-chunk", (25,), start + int(index[1, 0]))
    report = hs.validate(tmp_path / "z", missing=True)
    [missing] = next(iter(report.missing.values()))
    assert (missing.unit, missing.total, missing.absent) == ("chunk", 32, 0)
