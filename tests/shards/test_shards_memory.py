"""Peak memory when writing and reading a shard of 256 MiB: a few inner chunks, never the shard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux")

MIB = 1 << 20
PLANE = 4 * MIB
PLANES = 64
INDEX_BYTES = 16 * PLANES + 4
# Memory that allocators keep, and contexts of compressors.
SLACK = 12 * MIB

PROGRAM = """
import sys
import numpy as np
import hyperslab as hs
path, work, planes, threads, flight = *sys.argv[1:3], *map(int, sys.argv[3:])
hs.config.set(threads=threads, decodes_in_flight=flight, recycler_bytes=0)
zstd = {"name": "zstd", "configuration": {"level": -5}}
shape = (planes, 1024, 1024)
if work.startswith("write"):
    hs.create_array(path, shape=shape, shards=shape, chunks=(1, 1024, 1024), dtype="f4", compressors=[zstd])
z = hs.open_array(path, mode="r+")
# As long compressed as not.
data = np.random.default_rng(0).integers(0, 2**32, shape, dtype="u4").view("f4")
eighth = max(1, planes // 8)
out = np.ones((eighth, 1024, 1024), "f4")

def resident(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what)) << 10

def peak(work):
    # Beside what was there before.
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    work()
    return resident("VmHWM") - before

def write_in_pieces():
    for first in range(0, planes, eighth):
        z[first : first + eighth] = data[first : first + eighth]

def read_in_pieces():
    for first in range(0, planes, eighth):
        z.read(slice(first, first + eighth), out=out)

def read_columns():
    z[:, 5, ::7]

def write_all():
    z[...] = data

def read_all():
    # Into memory that is there.
    z.read(out=data)

def change_one():
    z[planes // 2, 3] = 1

print(peak(globals()[work]))
"""


def peak(path: Path, work: str, threads: int, flight: int) -> int:
    """Returns the bytes that one kind of work needs, measured in its own process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), work, str(PLANES), str(threads), str(flight)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


WORKS = ("write_in_pieces", "read_in_pieces", "read_columns", "change_one", "write_all", "read_all")


@pytest.mark.parametrize(("threads", "flight"), [(2, 2), (2, 8), (16, 2), (16, 8)])
def test_a_shard_is_never_in_memory(tmp_path: Path, threads: int, flight: int) -> None:
    path = tmp_path / "a"
    found = {work: peak(path, work, threads, flight) for work in WORKS[:-2]}
    found["write_all"] = peak(tmp_path / "b", "write_all", threads, flight)
    found["read_all"] = peak(path, "read_all", threads, flight)
    for work, bytes_ in found.items():
        assert bytes_ <= 2 * flight * PLANE + INDEX_BYTES + SLACK, (work, found)
    # The shard holds the encoded inner chunks and an index, and almost no unused bytes.
    for name in ("a", "b"):
        assert (tmp_path / name / "c/0/0/0").stat().st_size < 1.01 * PLANES * PLANE
