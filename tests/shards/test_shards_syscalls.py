"""Counts how often shards are opened and read, and how many bytes pass through the process."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from shards import Entry, Level, entries, shares_blocks, zstd
from test_syscalls import strace

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")

SIDE, COUNT = 4, 64
# Bytes of an inner chunk: more than any store reads needlessly.
CHUNK_BYTES = 1 << 18
LENGTH = CHUNK_BYTES // 4
SHAPE = (SIDE, SIDE, SIDE * LENGTH)
LEVEL = Level((1, 1, LENGTH))
INDEX_BYTES = 16 * COUNT + 4
# Seconds. A file that changed longer ago can no longer change unnoticed.
SETTLED = 2.5

PROGRAM = f"""
import os, sys
import numpy as np
import hyperslab as hs
path, first, counted, threads = sys.argv[1:]
hs.config.threads = int(threads)
z = hs.open_array(path, mode="r+")
LENGTH = {LENGTH}
exec(first)
os.path.exists("/hyperslab-mark-begin")
exec(counted)
os.path.exists("/hyperslab-mark-end")
"""

VALUES = f"values = np.random.default_rng(1).random({SHAPE}, 'f4')"
# Stores read at positions. `read` is used by other code: the standard library finds the number of
# cores with it.
READS = {"pread64", "preadv", "preadv2"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2"}
RESULT = re.compile(r"(?:<\.\.\. )?(\w+)(?:\(| resumed).*= (-?\d+)")


@dataclass
class Counted:
    """Calls of a request on a shard's file, and on the file that replaces it."""

    opens: int = 0
    renames: int = 0
    links: int = 0
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


def count(tmp_path: Path, path: Path, counted: str, *, first: str = "", threads: int = 1) -> Counted:
    """Returns the system calls of ``counted``, which runs after ``first``.

    Both may use the open array ``z``.
    """
    lines = strace(tmp_path / "trace", "file,desc", PROGRAM, str(path), first, counted, str(threads))
    found, counting = Counted(), False
    for line in lines:
        if "/hyperslab-mark-begin" in line:
            counting = True
        elif "/hyperslab-mark-end" in line:
            return found
        # Temporary files and directories are not counted. (strace may print the result of a call on
        # another line.)
        if counting and line.startswith("open"):
            found.opens += "/c/0/0/0" in line
        match = RESULT.match(line) if counting else None
        if match is None:
            continue
        name, result = match[1], int(match[2])
        if name.startswith("rename"):
            found.renames += 1
        elif name.startswith("link"):
            found.links += result == 0
        elif name in READS:
            found.reads.append(result)
        elif name in WRITES:
            found.writes.append(result)
    raise AssertionError("no end mark in the trace")


# Maximum length of a run in bytes. A run stays in memory until it is decoded.
LONGEST = 1 << 20


def stored(path: Path) -> list[Entry]:
    return entries(LEVEL, (SIDE,) * 3, (path / "c/0/0/0").read_bytes(), dead=None)


def runs(found: list[Entry], wanted: Callable[[tuple[int, ...]], bool]) -> int:
    """Returns the number of runs of at most `LONGEST` bytes that hold the wanted inner chunks."""
    count, begin, last = 0, 0, -1
    for start, end in sorted((e.offset, e.offset + e.length) for e in found if wanted(e.at)):
        if start != last or end - begin > LONGEST:
            count, begin = count + 1, start
        last = end
    return count


@pytest.fixture(scope="module", params=["plain", "zstd"])
def shuffled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One shard of 4³ inner chunks.

    They were written in random order, which is their order in the file.
    """
    path = tmp_path_factory.mktemp("shuffled") / "a"
    z = hs.create_array(
        path,
        shape=SHAPE,
        shards=SHAPE,
        chunks=LEVEL.inner,
        dtype="f4",
        compressors=None if request.param == "plain" else [zstd(-5)],
    )
    rng = np.random.default_rng(0)
    for number in rng.permutation(COUNT):
        i, j, k = np.unravel_index(number, (SIDE,) * 3)
        z[i, j, k * LENGTH : (k + 1) * LENGTH] = rng.normal(size=LENGTH)
    offsets = [entry.offset for entry in stored(path)]
    assert len(offsets) == COUNT and offsets != sorted(offsets)
    time.sleep(SETTLED)
    return path


# Each selection takes 48 of the 64 inner chunks.
SELECTIONS: dict[str, tuple[str, Callable[[tuple[int, ...]], bool]]] = {
    "rows": ("z[:3]", lambda at: at[0] < 3),
    "columns": ("z[:, 1:]", lambda at: at[1] > 0),
    "ranges": ("z[:, :, LENGTH:]", lambda at: at[2] > 0),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_48_of_64_inner_chunks(tmp_path: Path, shuffled: Path, selection: str, threads: int) -> None:
    request, wanted = SELECTIONS[selection]
    found = stored(shuffled)
    needed = sum(entry.length for entry in found if wanted(entry.at))
    most = runs(found, wanted)
    assert 2 < most < 48
    cold = count(tmp_path, shuffled, request, threads=threads)
    assert cold.opens == 1
    assert len(cold.reads) <= most + 1
    assert needed <= sum(cold.reads) <= needed + INDEX_BYTES + 48 * 4096
    # Repeat the read. The positions of the inner chunks are known now.
    warm = count(tmp_path, shuffled, request, first=request, threads=threads)
    assert warm.opens == 1
    assert len(warm.reads) <= most
    assert sum(warm.reads) <= sum(cold.reads) - INDEX_BYTES


def test_48_single_reads_of_a_settled_shard_read_its_index_once(tmp_path: Path, shuffled: Path) -> None:
    order = np.random.default_rng(1).permutation(COUNT)[:48].tolist()
    request = (
        f"for n in {order}:\n"
        "    i, j, k = np.unravel_index(n, (4, 4, 4))\n"
        "    z[int(i), int(j), int(k) * LENGTH : (int(k) + 1) * LENGTH]"
    )
    found = {np.ravel_multi_index(entry.at, (SIDE,) * 3): entry for entry in stored(shuffled)}
    needed = sum(found[n].length for n in order)
    counted = count(tmp_path, shuffled, request)
    assert (counted.opens, len(counted.reads)) == (48, 49)
    assert sum(counted.reads) == needed + INDEX_BYTES


def test_whole_and_absent_shards_are_opened_once(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(8, 4), shards=(4, 4), chunks=(1, 4), dtype="f4", compressors=None
    )
    z[:4] = 1
    text = "z[:]"
    traced = strace(tmp_path / "trace", "file", PROGRAM, str(tmp_path / "a"), "z[:]", text, "1")
    begin = next(n for n, line in enumerate(traced) if "/hyperslab-mark-begin" in line)
    opened = [line for line in traced[begin:] if "/c/" in line]
    assert len(opened) == 2 and all(line.startswith("open") for line in opened), opened


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a settled shard of inner chunks without codecs."""
    path = tmp_path_factory.mktemp("plain") / "a"
    data = np.random.default_rng(2).normal(size=SHAPE).astype("f4")
    hs.create_array(path, data=data, shards=SHAPE, chunks=LEVEL.inner, compressors=None)
    time.sleep(SETTLED)
    return path


def test_one_inner_chunk_without_codec_reads_its_bytes(tmp_path: Path, plain: Path) -> None:
    cold = count(tmp_path, plain, "z[1, 2, LENGTH : 2 * LENGTH]")
    assert (cold.opens, sum(cold.reads)) == (1, CHUNK_BYTES + INDEX_BYTES)
    assert len(cold.reads) == 2
    warm = count(tmp_path, plain, "z[1, 2, LENGTH : 2 * LENGTH]", first="z[0, 0, 0]")
    assert (warm.opens, sum(warm.reads)) == (1, CHUNK_BYTES)


@pytest.mark.parametrize("where", [0, 20_000, LENGTH - 100])
def test_a_part_of_an_inner_chunk_without_codec_reads_its_bytes(
    tmp_path: Path, plain: Path, where: int
) -> None:
    request = f"z[3, 0, 2 * LENGTH + {where} : 2 * LENGTH + {where} + 100]"
    warm = count(tmp_path, plain, request, first="z[0, 0, 0]")
    assert (warm.opens, warm.reads) == (1, [400])


def test_without_partial_reads_a_shard_is_read_at_once(tmp_path: Path, plain: Path) -> None:
    counted = count(tmp_path, plain, "z[3, 0, 5]", first="hs.config.partial_reads = False")
    assert counted.opens == 1
    assert sum(counted.reads) == (plain / "c/0/0/0").stat().st_size


def test_a_whole_shard_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    hs.create_array(path, shape=SHAPE, shards=SHAPE, chunks=LEVEL.inner, dtype="f4", compressors=[zstd(-5)])
    counted = count(
        tmp_path, path, "z[...] = values", first=f"values = np.random.default_rng(1).random({SHAPE}, 'f4')"
    )
    # A new object gets its name with a link, without a rename.
    assert (counted.renames, counted.links) == (0, 1)
    assert sum(counted.reads) == 0
    assert sum(counted.writes) <= (path / "c/0/0/0").stat().st_size + INDEX_BYTES


@pytest.mark.parametrize("threads", [1, 3])
def test_small_inner_chunks_are_written_together(tmp_path: Path, threads: int) -> None:
    """1024 inner chunks of 1 KiB, and their index."""
    path = tmp_path / "x.zarr"
    hs.create_array(
        path, shape=(1024, 256), dtype="f4", chunks=(1, 256), shards=(1024, 256), compressors=None
    )
    done = count(tmp_path, path, "z[...] = 1 + np.arange(z.size).reshape(z.shape)", threads=threads)
    assert sum(done.writes) == (1 << 20) + 16 * 1024 + 4
    assert len(done.writes) <= 5, done.writes
    assert np.array_equal(hs.open_array(path, mode="r")[...].ravel(), 1 + np.arange(1 << 18, dtype="f4"))


@pytest.mark.parametrize("threads", [1, 2])
def test_rewriting_one_inner_chunk_moves_its_bytes_only(tmp_path: Path, shuffled: Path, threads: int) -> None:
    path = tmp_path / "copy"
    shutil.copytree(shuffled, path)
    before = {entry.at: entry.length for entry in stored(path)}
    values = "values = np.random.default_rng(7).normal(size=LENGTH).astype('f4')"
    change = "z[1, 2, LENGTH : 2 * LENGTH] = values"
    counted = count(tmp_path, path, change, first=values, threads=threads)
    after = {entry.at: entry.length for entry in stored(path)}
    assert {at for at in before if before[at] != after[at]} <= {(1, 2, 1)}
    assert counted.renames == 1
    # The old inner chunk is not read, and the bytes of the others do not pass through this process.
    assert sum(counted.reads) <= INDEX_BYTES
    assert sum(counted.writes) <= after[1, 2, 1] + INDEX_BYTES
    size = (path / "c/0/0/0").stat().st_size
    if not shares_blocks():
        assert size == sum(after.values()) + INDEX_BYTES
    # A write of a part of an inner chunk also reads this inner chunk.
    part = count(tmp_path, path, "z[1, 2, LENGTH + 5 : LENGTH + 10] = 1", threads=threads)
    assert part.renames == 1
    assert sum(part.reads) <= after[1, 2, 1] + INDEX_BYTES
    again: dict[Any, int] = {entry.at: entry.length for entry in stored(path)}
    assert sum(part.writes) <= again[1, 2, 1] + INDEX_BYTES


def test_a_request_that_writes_many_parts_of_a_shard_replaces_it_once(tmp_path: Path, shuffled: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(shuffled, path)
    counted = count(tmp_path, path, "z[:, :, LENGTH // 2 : 3 * LENGTH] = 3", threads=2)
    assert counted.renames == 1


def test_dropping_the_last_inner_chunk_deletes_the_shard(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(4, 4), shards=(4, 4), chunks=(2, 2), dtype="i4")
    z[0, 0] = 1
    assert (tmp_path / "a/c/0/0").exists()
    z[0, 0] = 0
    assert not (tmp_path / "a/c/0/0").exists()
    assert not z[...].any()
