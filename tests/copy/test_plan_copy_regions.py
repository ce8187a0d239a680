"""Copies of parts of arrays, and into parts of arrays: `hyperslab.plan_copy` and `hyperslab.copy`."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
import zarr
from object_server_client import Server
from support import assert_same, examples, scratch
from test_plan_copy import Counting, Stopped, data, files, stop_after

Slices = tuple[slice, ...]


def part_of(chance: random.Random, n: int) -> slice:
    start = chance.randint(0, n)
    return slice(start, chance.randint(start, n))


# ---- regions of the source


def test_values_and_counts_as_planned(seed: int) -> None:
    hs.codecs.register_codec(Counting)
    chance = random.Random(seed)
    cut = 0
    for case in range(examples(150)):
        rank = chance.choice([1, 2, 2, 3])
        shape = tuple(chance.randint(1, 40 if rank < 3 else 16) for _ in range(rank))
        source, chunks = (tuple(chance.randint(1, n + 1) for n in shape) for _ in range(2))
        region = tuple(part_of(chance, n) for n in shape)
        shards = tuple(n * chance.randint(1, 5) for n in chunks) if chance.random() < 0.5 else None
        wanted: dict[str, Any] = {
            "chunks": chunks,
            "shards": shards,
            "region": region,
            "max_memory": chance.choice([200, 1000, 5000, 1 << 20]),
            "threads": chance.choice([1, 2]),
            "compressors": "zstd:1",
        }
        what = f"seed {seed}, case {case}: {shape} {source} {wanted}"
        with scratch() as root:
            z = hs.create_array(
                root / "a", shape=shape, chunks=source, dtype="i4", zarr_format=2, compressors=Counting()
            )
            z[...] = data(shape)
            expected = data(shape)[region]
            task_size = chance.choice([1, 100, 1000])
            plan = hs.plan_copy(root / "a", root / "b", task_size=task_size, workers=1, **wanted)
            Counting.decoded = 0
            plan.run()
            assert Counting.decoded == plan.chunks_decoded, what
            touched = [
                len({at // n for at in range(each.start, each.stop)})
                for each, n in zip(region, source, strict=True)
            ]
            assert plan.chunks == np.prod(touched), what
            found = zarr.open_array(root / "b", mode="r")
            assert found.chunks == chunks and found.shards == shards, what
            assert_same(np.asarray(found[...]), expected, what)
            hs.copy(root / "a", root / "c", **wanted, verify=True)
            assert files(root / "b") == files(root / "c"), what
            cut += plan.chunks_decoded > plan.chunks > 0
    assert cut


def test_by_names_in_all_arrays_that_have_them(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a", attributes={"title": "x"})
    names = ("time", "lat")
    group.create_array("v", data=data((30, 20)), chunks=(7, 6), dimension_names=names)
    group.create_array("g/time", data=data((30,)), chunks=(8,), dimension_names=("time",))
    group.create_array("other", data=data((5,)))
    text = np.array([f"{n}" * (n % 3) for n in range(30)], np.dtypes.StringDType())
    group.create_array("names", data=text, chunks=(4,), dimension_names=("time",))
    region = {"time": slice(5, -4), "lat": slice(None, 9)}
    hs.plan_copy(group, tmp_path / "b", region=region, task_size=100).run(verify=True)
    hs.copy(group, tmp_path / "c", region=region, verify=True)
    assert files(tmp_path / "b") == files(tmp_path / "c")
    found = hs.open_group(tmp_path / "b", mode="r")
    assert_same(found["v"][...], data((30, 20))[5:-4, :9])
    assert_same(found["g/time"][...], data((30,))[5:-4])
    assert_same(found["other"][...], data((5,)))
    assert found["names"][:].tolist() == text[5:-4].tolist()
    assert found["v"].chunks == (7, 6) and found.attrs["title"] == "x"
    text = str(hs.plan_copy(group, tmp_path / "d", region=region))
    assert "/v[5:26, 0:9]" in text


def test_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data((60, 50)), chunks=(7, 50), compression="gzip")
        file.create_dataset("whole", data=data((60, 50)))
    for name in ("x", "whole"):
        source = f"{tmp_path}/a.h5/{name}"
        wanted: dict[str, Any] = {"chunks": (10, 5), "shards": (20, 40), "max_memory": 5000}
        plan = hs.plan_copy(source, tmp_path / name, region=np.s_[3:50, 10:], task_size=500, **wanted)
        assert plan.tasks > 1
        plan.run()
        assert_same(hs.open_array(tmp_path / name, mode="r")[...], data((60, 50))[3:50, 10:])


def test_of_chunks_of_different_lengths(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((30, 30)), chunks=[[7, 3, 20], [30]])
    hs.plan_copy(z, tmp_path / "b", region=np.s_[5:12], task_size=1).run(verify=True)
    found = hs.open_array(tmp_path / "b", mode="r")
    assert found.chunks == (20, 30)
    assert_same(found[...], data((30, 30))[5:12])


def test_of_what_is_mostly_missing(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(10**9, 10**9), chunks=(10, 10), dtype="i2", fill_value=7, zarr_format=2
    )
    place = 10**8 + 3
    z[place : place + 2, 5] = 1
    region = np.s_[10**8 : 10**8 + 5000, :50_000]
    hs.copy(z, tmp_path / "b", region=region, verify=True)
    found = hs.open_array(tmp_path / "b", mode="r")
    assert found.shape == (5000, 50_000) and found.nchunks_initialized == 1
    assert found[2:6, 5].tolist() == [7, 1, 1, 7]


def test_regions_that_cannot_be(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a")
    z = group.create_array("v", data=data((9, 9)), dimension_names=("y", "x"))
    for source, region, why in (
        (z, np.s_[::2], "step 1"),
        (z, np.s_[3], "slices"),
        (z, np.s_[:, :, :], "3 axes are given.*has 2"),
        (z, {"z": slice(3)}, 'no array has a dimension named "z"'),
        (group, np.s_[0:3], "name dimensions"),
    ):
        for copy in (hs.copy, lambda *args, **more: hs.plan_copy(*args, **more).run()):
            with pytest.raises(hs.errors.InvalidArgumentError, match=why):
                copy(source, tmp_path / "b", region=region)
    assert os.listdir(tmp_path) == ["a"]


# ---- into an existing array


def test_into_parts_of_an_array(seed: int) -> None:
    chance = random.Random(seed)
    for case in range(examples(100)):
        rank = chance.choice([1, 2, 2, 3])
        shape = tuple(chance.randint(1, 40 if rank < 3 else 16) for _ in range(rank))
        chunks = tuple(chance.randint(1, 6) for _ in shape)
        shards = tuple(n * chance.randint(1, 3) for n in chunks) if chance.random() < 0.5 else None
        objects = shards or chunks
        counts = [-(-n // each) for n, each in zip(shape, objects, strict=True)]
        cells = [part_of(chance, n) for n in counts]
        place = tuple(
            slice(cell.start * each, min(cell.stop * each, n)) if cell.stop > cell.start else slice(0, 0)
            for cell, each, n in zip(cells, objects, shape, strict=True)
        )
        sizes = tuple(each.stop - each.start for each in place)
        # The source is longer at both ends. A part of it was never written.
        before = [chance.randint(0, 5) for _ in shape]
        long = tuple(n + start + chance.randint(0, 5) for n, start in zip(sizes, before, strict=True))
        region = tuple(slice(start, start + n) for start, n in zip(before, sizes, strict=True))
        what = f"seed {seed}, case {case}: {shape} {chunks} {shards} {place} of {long} {region}"
        wanted: dict[str, Any] = {
            "region": region,
            "target_region": place,
            "max_memory": chance.choice([200, 1000, 1 << 20]),
        }
        with scratch() as root:
            source_chunks = tuple(chance.randint(1, 9) for _ in shape)
            z = hs.create_array(root / "a", shape=long, chunks=source_chunks, dtype="i4", fill_value=-3)
            half = tuple(slice(0, n // 2 + 1) for n in long)
            z[half] = data(long)[half]
            source = z[...]
            expected = data(shape).copy()
            expected[place] = source[region]
            for how in ("plan", "copy"):
                target = hs.create_array(
                    root / how, data=data(shape), chunks=chunks, shards=shards, compressors="auto"
                )
                document = (root / how / "zarr.json").read_bytes()
                if how == "plan":
                    plan = hs.plan_copy(z, root / how, task_size=chance.choice([1, 200]), **wanted)
                    with ThreadPoolExecutor(2) as pool:
                        plan.run(pool, verify=True)
                else:
                    hs.copy(z, target, verify=True, **wanted)
                assert_same(np.asarray(zarr.open_array(root / how, mode="r")[...]), expected, what)
                assert (root / how / "zarr.json").read_bytes() == document, what
            assert sorted(os.listdir(root)) == ["a", "copy", "plan"], what


def test_into_arrays_of_other_formats(tmp_path: Path) -> None:
    """Other byte orders, axis orders and codecs, and variable length."""
    z = hs.create_array(tmp_path / "a", data=data((12, 10), "f8"), chunks=(5, 5))
    target = hs.create_array(
        tmp_path / "b", shape=(20, 10), chunks=(4, 10), dtype=">f8", zarr_format=2, order="F", fill_value=-1
    )
    hs.copy(z, target, region=np.s_[2:10], target_region=np.s_[8:16])
    found = np.asarray(zarr.open_array(tmp_path / "b", mode="r")[...])
    assert_same(found[8:16].astype("f8"), data((12, 10), "f8")[2:10])
    assert (found[:8] == -1).all() and (found[16:] == -1).all()
    text = np.array(["a", "", "ccc", "dd"], np.dtypes.StringDType())
    names = hs.create_array(tmp_path / "names", data=text)
    into = hs.create_array(tmp_path / "into", shape=(6,), dtype=str, chunks=(2,))
    hs.plan_copy(names, into, region=np.s_[:], target_region=np.s_[2:6], task_size=1).run(verify=True)
    assert into[:].tolist() == ["", "", *text.tolist()]


def test_borders_between_chunks_are_refused(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((100,)))
    target = hs.create_array(tmp_path / "b", data=data((95,)), chunks=(5,), shards=(20,))
    for place, aligned in ((slice(0, 10), "0:20"), (slice(10, 40), "0:40"), (slice(85, 95), "80:95")):
        region = slice(0, place.stop - place.start)
        for copy in (hs.copy, hs.plan_copy):
            with pytest.raises(
                hs.errors.InvalidArgumentError, match=f"With whole ones it is \\[{aligned}\\]"
            ):
                copy(z, target, region=region, target_region=place)
    assert_same(target[:], data((95,)))
    # A chunk that the end of the array cuts off counts as whole.
    hs.copy(z, target, region=slice(0, 15), target_region=slice(80, 95))
    assert_same(target[80:], data((100,))[:15])


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((10,)))
    hs.create_group(tmp_path / "g").create_array("v", data=data((10,), "f4"))
    whole = slice(None)
    for place, wanted, why in (
        ("g/v", {}, "elements are float32, those of the source int32"),
        ("g", {}, "found a group"),
        ("a", {}, "it is the source"),
        ("g/v", {"region": slice(0, 3)}, "what is copied has \\[3\\]"),
        ("g/v", {"chunks": (3,)}, "chunks: with target_region"),
        ("g/v", {"overwrite": True}, "overwrite: with target_region"),
        ("g/v", {"compressors": "zstd"}, "compressors: with target_region"),
    ):
        for copy in (hs.copy, lambda *args, **more: hs.plan_copy(*args, **more).run()):
            with pytest.raises((ValueError, FileExistsError), match=why):
                copy(z, tmp_path / place, target_region=whole, **wanted)
    with pytest.raises(hs.errors.InvalidArgumentError, match="say where: target_region"):
        hs.copy(z, hs.open_array(tmp_path / "g/v"))
    with pytest.raises(hs.errors.ReadOnlyError, match="mode='r\\+'"):
        hs.plan_copy(z, hs.open_array(tmp_path / "g/v", mode="r"), target_region=whole)
    with pytest.raises(FileNotFoundError):
        hs.plan_copy(z, tmp_path / "nowhere", target_region=whole)


def test_going_on_into_a_part(tmp_path: Path) -> None:
    """Stops and resumes a copy that needs temporary arrays."""
    values = data((256, 64, 64))
    hs.create_array(tmp_path / "a", data=values, chunks=(1, 64, 64))
    target = hs.create_array(tmp_path / "b", shape=(512, 64, 64), chunks=(256, 4, 4), dtype="i4")
    target[:] = -1

    def plan() -> hs.CopyPlan:
        return hs.plan_copy(
            tmp_path / "a",
            tmp_path / "b",
            target_region=slice(256, 512),
            max_memory="256 KiB",
            task_size="100 KiB",
        )

    stages = plan().depth
    assert stages > 1
    done = 0
    while True:
        try:
            run = plan().run(resume=True, check="contents", progress=stop_after(done + 5))
        except Stopped:
            done += 5
            continue
        break
    assert run.skipped > 0 and done > 5
    found = target[:]
    assert_same(found[256:], values)
    assert (found[:256] == -1).all()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    # Discarding a copy keeps all that was written. The target is a valid array at all times.
    with pytest.raises(Stopped):
        plan().run(progress=stop_after(10))
    assert plan().discard()
    assert_same(target[:][256:], values)
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_parts_of_one_array_at_the_same_time(tmp_path: Path) -> None:
    values = data((40, 30))
    hs.create_array(tmp_path / "a", data=values, chunks=(7, 30))
    hs.create_array(tmp_path / "b", shape=(40, 30), chunks=(10, 10), shards=(10, 30), dtype="i4")

    def copy(start: int) -> None:
        part = slice(start, start + 10)
        hs.copy(tmp_path / "a", tmp_path / "b", region=part, target_region=part, threads=1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(copy, range(0, 40, 10)))
    assert_same(hs.open_array(tmp_path / "b", mode="r")[...], values)


def test_to_a_server(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", data=data((64, 32)), chunks=(1, 32))
    with Server() as server:
        options = server.s3_options
        place = "s3://bucket/b"
        hs.plan_copy(z, place, region=np.s_[4:20], chunks=(8, 8), storage_options=options).run()
        part = np.s_[8:16]
        plan = hs.plan_copy(
            z, place, region=np.s_[:8], target_region=part, task_size=100, storage_options=options
        )
        assert plan.tasks > 1
        plan.run(verify=True)
        expected = data((64, 32))[4:20].copy()
        expected[part] = data((64, 32))[:8]
        assert_same(hs.open_array(place, mode="r", storage_options=options)[...], expected)
        assert not [key for key in server.list("bucket") if ".hyperslab-copy" in key]
