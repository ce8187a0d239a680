"""After a repair, validation finds no error, whole chunks are unchanged, and undo gives the old bytes."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from bad_input import CODECS, DATA, SHARD_INDEX, damaged, sharded, written
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch


def contents(root: Path) -> dict[str, bytes]:
    """Returns all files of a store."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def repaired(root: Path, **options: Any) -> hs.RepairPlan:
    """Repairs a store, and checks what every repair promises."""
    before = contents(root)
    plan = hs.repair(root, **options)
    assert contents(root) == before
    done = hs.repair(root, plan, **options)
    assert done == plan
    report = hs.validate(root, decode=True)
    assert report.errors == [] or plan.left
    after = contents(root)
    touched = {action.key for action in plan.actions}
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    # An action may move a folder.
    assert all(any(f"{key}/".startswith(f"{path}/") for path in touched) for key in changed)
    if plan:
        assert hs.undo_repair(root)
        assert contents(root) == before
        again = hs.repair(root, **options)
        assert again.hash == plan.hash
        hs.repair(root, again, **options)
        assert contents(root) == after
    return plan


@settings(max_examples=examples(40))
@given(data=st.data(), codec=st.sampled_from(sorted(CODECS)), fill=st.booleans())
def test_damaged_chunks(data: st.DataObject, codec: str, fill: bool) -> None:
    with scratch() as root:
        chunk = written(root, codec)
        chunk.write_bytes(damaged(data, chunk.read_bytes()))
        is_damaged = not hs.validate(root, decode=True)
        plan = repaired(root, fill=fill)
        kinds = [action.kind for action in plan.actions]
        assert kinds == ([("fill" if fill else "absent")] if is_damaged else [])
        if is_damaged:
            [lost] = plan.lost
            assert (lost.path, lost.chunk) == ("/ocean/t", (1, 0))
            assert lost.region is not None
            found = hs.open_array(root, path="ocean/t")[...]
            expected = DATA.copy()
            expected[lost.region] = hs.open_array(root, path="ocean/t").fill_value
            np.testing.assert_array_equal(found, expected)
            assert chunk.exists() == fill


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    at_start=st.booleans(),
    kind=st.sampled_from(["index", "chunk", "cut", "entry", "two"]),
)
def test_damaged_shards(seed: int, at_start: bool, kind: str) -> None:
    with scratch() as root:
        rng = np.random.default_rng(seed)
        data = rng.normal(size=(20, 10)).astype("f4") + 10
        shard, good, first = sharded(root, data, at_start)
        index = SHARD_INDEX
        entries = np.frombuffer(good, "<u8", 8, first).copy()
        if kind == "index":
            good[first + int(rng.integers(index))] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del good[int(rng.integers(len(good))) :]
        elif kind == "entry":
            entries[2] = len(good)
            good[first : first + 64] = entries.tobytes()
            import google_crc32c

            crc = google_crc32c.value(bytes(good[first : first + 64]))
            good[first + 64 : first + 68] = crc.to_bytes(4, "little")
        else:
            for number in (1, 3) if kind == "two" else (2,):
                good[int(entries[2 * number]) + int(rng.integers(int(entries[2 * number + 1])))] ^= 0x55
        shard.write_bytes(good)
        if hs.validate(root, decode=True):
            # A flipped bit of a zstd frame may be unused.
            return
        plan = repaired(root)
        assert len(plan.actions) == 1
        assert plan.actions[0].key == "t/c/1/0"
        found = hs.open_array(root, path="t")[...]
        expected = data.copy()
        for lost in plan.lost:
            expected[lost.region if lost.region is not None else slice(10, 20)] = 0
        np.testing.assert_array_equal(found, expected)
        assert (found[:10] == data[:10]).all()
        if kind in ("chunk", "entry", "two"):
            assert shard.exists()
            assert len(plan.lost) == (2 if kind == "two" else 1)


def test_leftovers_and_consolidated(tmp_path: Path) -> None:
    root = tmp_path / "s.zarr"
    group = hs.create_group(root)
    group.create_array("a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    hs.consolidate_metadata(root)
    document = root / "a/zarr.json"
    document.write_text(document.read_text().replace('"fill_value": 0', '"fill_value": 7'))
    young, old = root / "a/c/0.partial", root / "a/c/1.partial"
    for path in (young, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 1000,) * 2)
    plan = repaired(root)
    kinds = {action.kind: action.key for action in plan.actions}
    assert kinds == {"leftover": "a/c/1.partial", "consolidate": "zarr.json"}
    assert any("0.partial" in left for left in plan.left)
    array = hs.open_consolidated(root)["a"]
    assert isinstance(array, hs.Array)
    assert array.fill_value == 7


def test_dead_space(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "d.zarr", shape=(8,), chunks=(2,), shards=(8,), dtype="i8")
    z[:] = np.arange(8)
    shard = tmp_path / "d.zarr/c/0"
    good = shard.read_bytes()
    index = 4 * 16 + 4
    import google_crc32c

    entries = np.frombuffer(good[-index:-4], "<u8").copy()
    dead = bytes(200)
    entries[0::2] += len(dead)
    body = dead + good[:-index] + entries.tobytes()
    shard.write_bytes(body + google_crc32c.value(entries.tobytes()).to_bytes(4, "little"))
    plan = repaired(tmp_path / "d.zarr")
    assert [action.kind for action in plan.actions] == ["dead-space"]
    assert shard.stat().st_size < len(body)
    np.testing.assert_array_equal(hs.open_array(tmp_path / "d.zarr")[...], np.arange(8))


@pytest.mark.parametrize("kind", ["chunk", "index", "all"])
def test_nested_shards(tmp_path: Path, kind: str) -> None:
    """Shards within shards: the other chunks come back."""
    root = tmp_path / "n.zarr"
    inner = hs.codecs.Sharding((2, 5), [hs.codecs.Bytes(), hs.codecs.Crc32c()])
    z = hs.create_array(
        root, shape=(20, 30), chunks=(10, 15), dtype="i4", serializer=inner, shards=(20, 30), compressors=None
    )
    data = np.arange(600, dtype="i4").reshape(20, 30) + 1
    z[...] = data
    shard = root / "c/0/0"
    bad = bytearray(shard.read_bytes())
    first = bytes(data[:2, :5].tobytes())
    at = bad.index(first)
    if kind == "chunk":
        bad[at] ^= 1
    elif kind == "index":
        # The index of the first inner shard lies behind its 15 chunks of 44 bytes.
        bad[at + 15 * 44] ^= 1
    else:
        bad[:] = bytes(len(bad) - 4 * 16 - 4) + bad[-4 * 16 - 4 :]
    shard.write_bytes(bad)
    plan = repaired(root)
    assert not plan.left
    found = hs.open_array(root)[...]
    expected = data.copy()
    for lost in plan.lost:
        assert lost.region is not None
        expected[lost.region] = 0
    np.testing.assert_array_equal(found, expected)
    assert len(plan.lost) == {"chunk": 1, "index": 15, "all": 60}[kind]
    assert shard.exists() == (kind != "all")


def test_the_folder_of_a_killed_writer(tmp_path: Path) -> None:
    root = tmp_path / "s.zarr"
    hs.create_group(root).create_array("a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    stage = root / "a/.stage.00ff.0.hyperslab-tmp"
    (stage / "c").mkdir(parents=True)
    (stage / "c/0").write_bytes(b"new")
    plan = repaired(root)
    assert [(action.kind, action.key) for action in plan.actions] == [("leftover", "a/" + stage.name)]
    assert not stage.exists()
    assert hs.undo_repair(root)
    assert (stage / "c/0").read_bytes() == b"new"


def test_a_group_below_a_store(tmp_path: Path) -> None:
    """Its quarantine lies beside the store: in the store, no array would own its files."""
    root = tmp_path / "s.zarr"
    group = hs.create_group(root).create_group("g")
    group.create_array("a", shape=(4,), chunks=(2,), dtype="i4")[:] = 1
    chunk = root / "g/a/c/0"
    torn = chunk.read_bytes()[:-3]
    chunk.write_bytes(torn)
    plan = hs.repair(root / "g")
    hs.repair(root / "g", plan)
    assert not chunk.exists()
    assert [path.name for path in (tmp_path / "s.zarr.quarantine").iterdir()] == ["%2Fg"]
    assert hs.validate(root, decode=True).findings == []
    assert not hs.undo_repair(root)
    assert hs.undo_repair(root / "g")
    assert chunk.read_bytes() == torn
    assert not (tmp_path / "s.zarr.quarantine").exists()


def test_others_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "s.zarr"
    z = hs.create_array(root, shape=(4,), chunks=(2,), dtype="i4")
    z[:] = 1
    chunk = root / "c/0"
    whole, torn = chunk.read_bytes(), chunk.read_bytes()[:-3]
    chunk.write_bytes(torn)
    plan = hs.repair(root)
    chunk.write_bytes(whole)
    with pytest.raises(hs.HyperslabError, match="--dry-run"):
        hs.repair(root, plan)
    chunk.write_bytes(torn)
    hs.repair(root, plan)
    assert not chunk.exists()
    # Somebody writes the chunk again: undo must not replace it.
    z[:] = 2
    new = contents(root)
    with pytest.raises(hs.HyperslabError, match="undo would lose"):
        hs.undo_repair(root)
    assert contents(root) == new
    shutil.rmtree(tmp_path / "s.zarr.quarantine")
