"""Arrays with many more chunks than objects: a listing replaces a look at each chunk."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from test_syscalls import strace

CHUNKS = 4000

CHILD = """
import os, sys
import hyperslab as hs
z = hs.open_array(sys.argv[1], mode="r+")
os.path.exists("/hyperslab-mark-begin")
if sys.argv[2] == "set":
    z[...] = 7
elif sys.argv[2] == "statistics":
    hs.statistics(z)
elif sys.argv[2] == "read":
    z[...]
else:
    hs.plan_copy(sys.argv[1], sys.argv[1] + "-copy").run()
os.path.exists("/hyperslab-mark-end")
"""


def make(path: Path, stored: range) -> np.ndarray:
    """Makes an array of fill value 7 with some chunks. Its directory is not touched for a while."""
    z = hs.create_array(path, shape=(10 * CHUNKS,), chunks=(10,), dtype="i4", fill_value=7)
    values = np.full(z.shape, 7, "i4")
    for n in stored:
        values[10 * n + 3] = z[10 * n + 3] = n
    # A directory that has just changed is not believed.
    time.sleep(2.3)
    return values


def calls(trace: Path, path: Path, what: str) -> int:
    """Counts the system calls with the name of a chunk."""
    count, counting = 0, False
    for line in strace(trace, "file", CHILD, str(path), what):
        if "/hyperslab-mark-begin" in line:
            counting = True
        elif "/hyperslab-mark-end" in line:
            break
        elif counting and '"c/' in line or counting and "/c/" in line:
            count += 1
    return count


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_only_stored_chunks_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a"
    values = make(path, range(5, 4000, 900))
    assert calls(tmp_path / "plan", path, "plan") < CHUNKS / 4
    assert np.array_equal(hs.open_array(f"{path}-copy")[...], values)
    assert calls(tmp_path / "statistics", path, "statistics") < CHUNKS / 4
    assert calls(tmp_path / "read", path, "read") < CHUNKS / 4
    # Each of the five stored chunks is locked, and deleted.
    assert calls(tmp_path / "set", path, "set") <= 5 * 4 + 4
    assert not list(path.glob("c/*"))


@pytest.mark.parametrize("stored", [range(0), range(3, 4000, 371), range(0, 4000, 2)])
def test_results_do_not_depend_on_the_listing(tmp_path: Path, stored: range) -> None:
    path = tmp_path / "a"
    values = make(path, stored)
    z = hs.open_array(path, mode="r+")
    found = hs.statistics(z)
    assert (found.count, found.min, found.max) == (values.size, values.min(), values.max())
    assert found.mean == values.mean()
    assert found.std == pytest.approx(values.std(), rel=1e-12)
    part = hs.statistics(z, region=np.s_[5:39_990])
    assert (part.count, part.mean) == (39_985, values[5:39_990].mean())
    z[15:39_985] = 7
    values[15:39_985] = 7
    assert np.array_equal(z[...], values)
    # Only the edges, which were written in part, may still be stored.
    assert {file.name for file in path.glob("c/*")} <= {"0", "1", "3998", "3999"}


CLEARED = """
import os, sys
import hyperslab as hs
z = hs.open_array(sys.argv[1], mode="r+")
for at in range(0, z.shape[0], z.shape[0] // 5):
    z[at] = 1
os.path.exists("/hyperslab-mark-begin")
z[...] = 0
os.path.exists("/hyperslab-mark-end")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("shards", [None, (40,)])
def test_ten_million_chunks_are_cleared_by_what_is_stored(tmp_path: Path, shards: Any) -> None:
    """Also right after a write, when the directory has just changed."""
    path = tmp_path / "a"
    hs.create_array(path, shape=(10_000_000 * (4 if shards else 1),), chunks=(1,), shards=shards, dtype="i1")
    count = 0
    for line in strace(tmp_path / "trace", "all", CLEARED, str(path)):
        if "/hyperslab-mark-begin" in line:
            count = 0
        elif "/hyperslab-mark-end" in line:
            break
        else:
            count += 1
    assert count < 300, count
    assert not list(path.glob("c/*"))


@pytest.mark.parametrize("shards", [None, (8, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_cleared_as_by_numpy(tmp_path: Path, shards: Any, seed: int) -> None:
    """Selections that cut chunks and shards, and steps, near and in a store in memory."""
    rng = np.random.default_rng(seed)
    for store in (tmp_path / "a", hs.MemoryStore()):
        z = hs.create_array(store, shape=(90, 85), chunks=(2, 2), shards=shards, dtype="i2", fill_value=3)
        expected = np.full(z.shape, 3, "i2")
        for _ in range(6):
            rows, columns = np.sort(rng.integers(0, 91, 2)), np.sort(rng.integers(0, 86, 2))
            at = np.s_[rows[0] : rows[1] : rng.integers(1, 4), columns[0] : columns[1]]
            few = rng.integers(0, 85, (5, 2))
            z[few[:, 0], few[:, 1]] = expected[few[:, 0], few[:, 1]] = rng.integers(4, 100)
            z[at] = expected[at] = 3
            assert np.array_equal(z[...], expected)
            z[at] = np.full_like(expected[at], 3)
            assert np.array_equal(z[...], expected)
        z[...] = 3
        assert (z[...] == 3).all()
