"""Writers of parts of a shard are killed at random while others read: inner chunks are old or new.

A process that has imported everything forks children that write inner chunks in a loop. It kills
them one after the other, each after a random time. Meanwhile threads here and another process read.
Each read value must be one that a child has written, and never older than the value read before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import killed_writers
import numpy as np
import pytest
import zarr
from killed_writers import CHUNKS, LENGTH, SHAPE, SHARDS, value_of, watch
from shards import BYTES, Level, ShardCase, TensorStore, check_shard, shard_files, shares_blocks, zstd
from support import assert_same, kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def program(*arguments: str) -> list[str]:
    # Python warns if a process with threads forks. The test does this on purpose.
    return [sys.executable, "-W", "ignore", killed_writers.__file__, *arguments]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("location", ["end", "start"])
def test_killed_writers_leave_old_or_new(tmp_path: Path, location: str, threads: int) -> None:
    nothing: Any = np.zeros(SHAPE, "i8")
    level = Level(CHUNKS, location=location)
    case = ShardCase(SHAPE, SHARDS, (level,), np.dtype("i8"), 0, nothing, (BYTES, zstd(1)))
    path = tmp_path / "a"
    hs.create_group(tmp_path)
    case.create(path)

    count = kills(150)
    done = threading.Event()
    pipe = subprocess.PIPE
    with (
        ThreadPoolExecutor(2) as pool,
        subprocess.Popen(
            program("read", str(path)), stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as reader,
    ):
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        watchers = [pool.submit(watch, path, seed, lambda: not done.is_set()) for seed in range(2)]
        try:
            killer = subprocess.run(
                program("kill", str(path), str(count), str(threads), str(threads)),
                capture_output=True,
                text=True,
                check=False,
                timeout=200 + count,
            )
        finally:
            done.set()
            told, complaints = reader.communicate("x", timeout=60)
        assert all(watcher.result() > 0 for watcher in watchers)
    assert killer.returncode == 0, killer.stderr
    assert reader.returncode == 0, complaints
    # The children have written and the reader has read. (On a busy machine some children are killed
    # before they begin.)
    assert int(killer.stdout) > count // 3
    assert int(told) > 0

    # All libraries can read the array, and it can still be written.
    ours = hs.open_array(path, mode="r+")
    found = ours[...]
    for row in found.reshape(-1, LENGTH):
        value_of(row)
    assert_same(zarr.open_array(path, mode="r")[...], found)
    assert_same(TensorStore(path).read(), found)
    ours[::3, LENGTH // 2 : 2 * LENGTH] = 5
    found[::3, LENGTH // 2 : 2 * LENGTH] = 5
    assert_same(ours[...], found)
    assert_same(zarr.open_array(path, mode="r")[...], found)

    # Temporary files that killed writers have left are not listed as keys.
    assert list(hs.open_group(tmp_path, mode="r")) == ["a"]
    keys = {"zarr.json", "a/zarr.json", "a/c/0/0", "a/c/1/0"}
    assert set(hs.LocalStore(tmp_path).list()) == keys
    for file in shard_files(path):
        if file.relative_to(tmp_path).as_posix() in keys:
            check_shard(case, file.read_bytes(), dead=None if shares_blocks() else 0)
