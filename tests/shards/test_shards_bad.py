"""Damaged shards: errors name the damage and its place.

All intact parts can be read, and nothing changes.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from bad_input import damaged
from hypothesis import given, settings
from hypothesis import strategies as st
from shards import (
    ABSENT,
    BYTES,
    Level,
    ShardCase,
    TensorStore,
    entries,
    shard_cases,
    shard_files,
    stored_index,
    zstd,
)
from support import assert_same, examples, files_below, scratch

SHAPE, SHARDS, INNER = (8, 12), (4, 6), (2, 3)
COUNTS = (2, 2)
DATA = np.arange(1, 97, dtype="<i4").reshape(SHAPE)
# Shard (1, 0): rows 4 to 7, columns 0 to 5.
KEY = "c/1/0"
INNER_BYTES = 4 * math.prod(INNER)

Numbers = np.ndarray[Any, Any]


def case_of(level: Level, codecs: tuple[dict[str, Any], ...] = (BYTES,)) -> ShardCase:
    return ShardCase(SHAPE, SHARDS, (level,), np.dtype("i4"), 0, DATA, codecs)


LEVELS = {
    "end": Level(INNER),
    "start": Level(INNER, location="start"),
    "no checksum": Level(INNER, index_checksums=0),
    "start, no checksum": Level(INNER, location="start", index_checksums=0),
    "big-endian, transposed": Level(INNER, index_endian="big", index_order=(2, 1, 0)),
}


def elements(at: tuple[int, ...]) -> tuple[slice, slice]:
    """Returns the elements of an inner chunk of shard (1, 0)."""
    row, column = 4 + 2 * at[0], 3 * at[1]
    return slice(row, row + 2), slice(column, column + 3)


def compose(level: Level, change: Callable[[Numbers, int], None] | None = None) -> bytes:
    """Returns shard (1, 0) with inner chunks of raw bytes, and an index that `change` modifies."""
    index_bytes = 16 * math.prod(COUNTS) + 4 * level.index_checksums
    first = index_bytes if level.location == "start" else 0
    numbers = np.zeros((*COUNTS, 2), "u8")
    parts = []
    for number, at in enumerate(product(*map(range, COUNTS))):
        numbers[at] = first + INNER_BYTES * number, INNER_BYTES
        parts.append(DATA[elements(at)].tobytes())
    if change is not None:
        change(numbers, index_bytes + INNER_BYTES * len(parts))
    index = stored_index(level, numbers)
    assert len(index) == index_bytes
    return b"".join([index, *parts] if level.location == "start" else [*parts, index])


def make(root: Path, case: ShardCase, shard: bytes | None = None, name: str = "ocean/t") -> Path:
    """Writes an array with zarr-python and replaces one shard. Returns the path of that shard."""
    case.create(root / name)
    zarr.open_array(root / name)[...] = DATA
    file = root / name / KEY
    if shard is not None:
        file.write_bytes(shard)
    return file


def test_what_is_composed_here_is_a_shard(tmp_path: Path) -> None:
    for number, level in enumerate(LEVELS.values()):
        make(tmp_path, case_of(level), compose(level), str(number))
        for read in (lambda path: hs.open_array(path)[...], lambda path: TensorStore(path).read()):
            assert_same(read(tmp_path / str(number)), DATA)


# ---- bad entries


def set_entry(offset: int | None, length: int | None) -> Callable[[Numbers, int], None]:
    """Changes the entry of inner chunk (0, 1)."""

    def change(numbers: Numbers, size: int) -> None:
        for place, number in enumerate((offset, length)):
            if number is not None:
                # A negative number counts from the end of the shard.
                numbers[0, 1, place] = number if number >= 0 else size + number

    return change


def in_the_index(level: Level) -> Callable[[Numbers, int], None]:
    return set_entry(0 if level.location == "start" else -8, 8)


# Wrong entries for inner chunk (0, 1).
ENTRIES: dict[str, Callable[[Level], Callable[[Numbers, int], None]]] = {
    "behind the end": lambda _: set_entry(1000, 24),
    "past the end": lambda _: set_entry(-10, 24),
    "huge length": lambda _: set_entry(None, 2**40),
    "longest length": lambda _: set_entry(None, 2**63),
    "huge offset": lambda _: set_entry(2**63, None),
    # zarrs adds these numbers, and the sum wraps around.
    "wraps around": lambda _: set_entry(2**64 - 24, 24),
    "wraps around to the middle": lambda _: set_entry(2**64 - 10, 34),
    "wraps around by length": lambda _: set_entry(100, 2**64 - 90),
    "absent offset only": lambda _: set_entry(ABSENT, None),
    "absent length only": lambda _: set_entry(None, ABSENT),
    "in the index": in_the_index,
    "too short": lambda _: set_entry(None, 20),
    "empty": lambda _: set_entry(None, 0),
}


# These entries lie within the shard. Only the codecs find fewer bytes than they expect.
LENGTHS = ("too short", "empty")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("level", LEVELS)
def test_an_entry_that_cannot_be_right(tmp_path: Path, level: str, entry: str) -> None:
    how = LEVELS[level]
    make(tmp_path, case_of(how), compose(how, ENTRIES[entry](how)))
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    before = files_below(tmp_path)
    bad = elements((0, 1))
    attempts: list[Callable[[], Any]] = [
        lambda: z[...],
        lambda: z[4:8],
        lambda: z[bad],
        lambda: z[5, 4],
        lambda: z[::-1, ::2],
        lambda: z.read(bad, out=np.empty(INNER, "i4")),
        # A partial write reads the inner chunk first.
        lambda: z.__setitem__((4, 4), 0),
    ]
    for attempt in attempts:
        with pytest.raises(hs.errors.ChunkError) as caught:
            attempt()
        told = str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert "ocean/t'" in told
        assert KEY in told
        # Errors name the inner chunk of the array, or of the index if any wrong entry prevents a
        # write.
        assert "inner chunk [2, 1]" in told or "inner chunk number 1 " in told or entry in LENGTHS, told
    if entry not in LENGTHS:
        # A write cannot keep an inner chunk that is not in the shard, so it does not rewrite the
        # shard.
        with pytest.raises(hs.errors.ChunkError, match=KEY):
            z[6:8, 3:6] = 1
    assert files_below(tmp_path) == before
    # The other inner chunks can be read.
    for at in product(*map(range, COUNTS)):
        if at != (0, 1):
            assert_same(z[elements(at)], DATA[elements(at)], f"inner chunk {at}")
    assert_same(z[:4], DATA[:4])
    assert_same(z[:, 6:], DATA[:, 6:])
    # A write of the whole shard needs nothing from the old shard.
    z[4:, :6] = DATA[4:, :6]
    assert_same(z[...], DATA)
    assert_same(zarr.open_array(tmp_path, path="ocean/t", mode="r")[...], DATA)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("by", ["one byte", "all of it"])
def test_entries_that_overlap(tmp_path: Path, level: str, by: str) -> None:
    """The two entries cannot be trusted, and rewriting one inner chunk would change the other."""
    how = LEVELS[level]

    def change(numbers: Numbers, size: int) -> None:
        numbers[0, 1, 0] = numbers[0, 0, 0] + (INNER_BYTES - 1 if by == "one byte" else 0)

    make(tmp_path, case_of(how), compose(how, change))
    before = files_below(tmp_path)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    for at, name in (((0, 1), "[2, 1]"), ((0, 0), "[2, 0]")):
        with pytest.raises(hs.errors.ChunkError) as caught:
            z[elements(at)]
        assert KEY in str(caught.value) and name in str(caught.value)
    with pytest.raises(hs.errors.ChunkError, match=KEY):
        z[7, 5] = 0
    assert files_below(tmp_path) == before
    for at in ((1, 0), (1, 1)):
        assert_same(z[elements(at)], DATA[elements(at)])


def test_inner_chunks_may_lie_anywhere(tmp_path: Path) -> None:
    """Inner chunks may be in any order, have gaps between them, and be absent."""
    level = LEVELS["end"]
    parts = [DATA[elements(at)].tobytes() for at in product(*map(range, COUNTS))]
    numbers = np.full((*COUNTS, 2), ABSENT, "u8")
    numbers[1, 1] = 5, 24
    numbers[0, 0] = 100, 24
    shard = b"junk!" + parts[3] + bytes(100 - 29) + parts[0] + b"more" + stored_index(level, numbers)
    make(tmp_path, case_of(level), shard)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    expected = DATA.copy()
    expected[elements((0, 1))] = expected[elements((1, 0))] = 0
    assert_same(z[...], expected)
    z[5, 4] = expected[5, 4] = 3
    assert_same(z[...], expected)
    assert_same(TensorStore(tmp_path / "ocean/t").read(), expected)


# ---- bad bytes of indexes


def refused(z: hs.Array, *, where: Any = (4, 0)) -> str:
    """Checks that a read and a partial write of shard (1, 0) fail.

    Returns the error of the read.
    """
    with pytest.raises(hs.errors.ChunkError) as caught:
        z[where]
    with pytest.raises(hs.errors.ChunkError, match=KEY):
        z[where] = 1
    assert KEY in str(caught.value)
    assert "ocean/t'" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("level", ["end", "start", "big-endian, transposed"])
def test_every_bit_of_an_index_with_a_checksum(tmp_path: Path, level: str) -> None:
    how = LEVELS[level]
    good = compose(how)
    index_bytes = 16 * math.prod(COUNTS) + 4
    first = 0 if how.location == "start" else len(good) - index_bytes
    file = make(tmp_path, case_of(how))
    rng = np.random.default_rng(4)
    for at in range(first, first + index_bytes):
        bad = bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(bad)
        z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
        assert "checksum" in refused(z)
        assert file.read_bytes() == bad
    with hs.config.set(verify_checksums=False):
        # The last changed byte is part of the checksum, so all entries are right.
        if how.location == "end":
            assert_same(hs.open_array(tmp_path, path="ocean/t")[...], DATA)


@pytest.mark.parametrize("level", LEVELS)
def test_every_length(tmp_path: Path, level: str) -> None:
    """A shard that is cut off anywhere is refused, or its remaining inner chunks are read."""
    how = LEVELS[level]
    good = compose(how)
    file = make(tmp_path, case_of(how))
    index_bytes = len(good) - 4 * INNER_BYTES
    for length in range(len(good)):
        file.write_bytes(good[:length])
        z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
        if length < index_bytes or (how.location == "end" and how.index_checksums):
            refused(z)
        elif how.location == "start":
            whole = (length - index_bytes) // INNER_BYTES
            for number, at in enumerate(product(*map(range, COUNTS))):
                if number < whole:
                    assert_same(z[elements(at)], DATA[elements(at)])
                else:
                    with pytest.raises(hs.errors.ChunkError, match=KEY):
                        z[elements(at)]
        else:
            # Other bytes are taken for the index. The result is an error or some numbers, and
            # nothing worse.
            try:
                assert z[4:8, :6].shape == SHARDS
            except hs.errors.ChunkError as error:
                assert KEY in str(error)
        assert file.stat().st_size == length
        assert_same(z[:4], DATA[:4])


def test_a_directory_in_the_place_of_a_shard(tmp_path: Path) -> None:
    """A directory is no object: hyperslab and zarr-python see no shard. None can be written."""
    file = make(tmp_path, case_of(LEVELS["end"]))
    file.unlink()
    file.mkdir()
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    assert (z[4:8, :6] == 0).all()
    for where in ((4, 0), np.s_[4:8, :6]):
        with pytest.raises(hs.errors.StoreError, match=KEY):
            z[where] = 1
    assert file.is_dir()
    assert_same(z[:4], DATA[:4])


def test_a_nested_index(tmp_path: Path) -> None:
    """A damaged index of a shard in a shard affects only the inner chunks of that index."""
    levels = (Level((2, 3)), Level((1, 3)))
    case = ShardCase(SHAPE, SHARDS, levels, np.dtype("i4"), 0, DATA)
    file = make(tmp_path, case)
    shard = bytearray(file.read_bytes())
    # Two inner chunks of 12 bytes, then 2 × 16 + 4 bytes of index.
    (inner,) = (e.offset for e in entries(levels[0], COUNTS, bytes(shard), dead=None) if e.at == (0, 1))
    shard[inner + 24] ^= 1
    file.write_bytes(shard)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    told = refused(z, where=(4, 4))
    assert "checksum" in told
    for at in ((0, 0), (1, 0), (1, 1)):
        assert_same(z[elements(at)], DATA[elements(at)])
    # An offset in the inner index that is beyond the inner shard, but within the outer shard.
    good = make(tmp_path, case, name="other").read_bytes()
    numbers = np.array([[[40, 12]], [[12, 12]]], "u8")
    bad = good[: inner + 24] + stored_index(levels[1], numbers) + good[inner + 60 :]
    assert len(bad) == len(good)
    file.write_bytes(bad)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    assert "[4, 1]" in refused(z, where=(4, 4))
    assert_same(z[5, 3:6], DATA[5, 3:6])


# ---- false sizes


HUNGRY = """
import resource, sys
import numpy as np
import hyperslab as hs
z = hs.open_array(sys.argv[1], mode="r+")
z[:1]
status = dict(line.split(":") for line in open("/proc/self/status"))
before = int(status["VmPeak"].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (before + (256 << 20),) * 2)
errors = 0
for attempt in (lambda: z[...], lambda: z[4, 4], lambda: z[4:8], lambda: z.__setitem__((4, 4), 1)):
    try:
        attempt()
    except hs.errors.ChunkError as error:
        errors += 1
    except MemoryError as error:
        sys.exit(f"out of memory: {error}")
# Not `ru_maxrss`: that of the process that started this one counts there.
status = dict(line.split(":") for line in open("/proc/self/status"))
print(errors, int(status["VmHWM"].split()[0]) << 10)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux")
@pytest.mark.parametrize("what", ["length", "decoded length", "shard through zstd"])
def test_no_more_memory_than_a_shard_has(tmp_path: Path, what: str) -> None:
    """Numbers in files do not determine how much memory is allocated."""
    level, codecs = LEVELS["end"], (BYTES, zstd())
    if what == "length":
        make(tmp_path, case_of(level), compose(level, set_entry(None, 2**35)))
    elif what == "decoded length":
        # An inner chunk that decodes to 1 GiB of zeros, far more than allowed.
        bomb = bytes(numcodecs.Zstd(level=1).encode(bytes(1 << 30)))
        numbers = np.full((*COUNTS, 2), ABSENT, "u8")
        numbers[0, 1] = 0, len(bomb)
        make(tmp_path, case_of(level, codecs), bomb + stored_index(level, numbers))
    else:
        bomb = bytes(numcodecs.Zstd(level=1).encode(bytes(1 << 30)))
        make(tmp_path, case_of(Level(INNER, after=(zstd(),))), bomb)
    before = files_below(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", HUNGRY, str(tmp_path / "ocean/t")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    errors, resident = map(int, done.stdout.split())
    assert errors == 4
    assert resident < 200 << 20
    assert files_below(tmp_path) == before


def test_an_index_that_no_memory_could_hold(tmp_path: Path) -> None:
    """Metadata that promises more inner chunks than memory can hold entries for."""
    case = case_of(LEVELS["end"])
    path = tmp_path / "a"
    case.create(path)
    document = case.document()
    document["shape"] = document["chunk_grid"]["configuration"]["chunk_shape"] = [2**31, 2**31]
    document["codecs"][0]["configuration"]["chunk_shape"] = [1, 1]
    (path / "zarr.json").write_text(json.dumps(document))
    (path / "c/0").mkdir(parents=True)
    (path / "c/0/0").write_bytes(bytes(1000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(hs.HyperslabError):
        hs.open_array(path, mode="r")[5, 5]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


# ---- random damage


@given(case=shard_cases(), data=st.data())
@settings(max_examples=examples(100))
def test_random_damage_of_shards(case: ShardCase, data: st.DataObject) -> None:
    """Any bytes in a shard yield an array of the right shape or an error, and nothing worse."""
    with scratch() as root:
        case.create(root / "a")
        hs.open_array(root / "a", mode="r+")[...] = case.data
        files = list(shard_files(root / "a"))
        if not files:
            return
        for _ in range(6):
            path = data.draw(st.sampled_from(files))
            good = path.read_bytes()
            bad = damaged(data, good)
            path.write_bytes(bad)
            z = hs.open_array(root / "a", mode="r+")
            key = path.relative_to(root / "a").as_posix()
            try:
                found = z.read()
            except hs.HyperslabError as error:
                assert isinstance(error, (hs.errors.ChunkError, hs.errors.StoreError)), repr(error)
                assert key in str(error)
            else:
                assert (found.shape, found.dtype) == (case.shape, case.dtype)
            if case.shape:
                region = tuple(slice(0, 1) for _ in case.shape)
                try:
                    z[region] = case.data[region]
                except hs.HyperslabError as error:
                    assert isinstance(error, (hs.errors.ChunkError, hs.errors.StoreError)), repr(error)
                    assert path.read_bytes() == bad
            assert [file for file in shard_files(root / "a") if file.name.startswith(".")] == []
            path.write_bytes(good)
            for file in files:
                assert file.exists() or file == path
        z = hs.open_array(root / "a", mode="r+")
        z[...] = case.data
        assert_same(z[...], case.data)
