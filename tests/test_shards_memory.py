"""Peak memory of writing and of reading a shard of 256 MiB: a few inner chunks, never the shard."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux")

MIB = 1 << 20
PLANE = 4 * MIB
PLANES = 64
INDEX_BYTES = 16 * PLANES + 4
# What allocators keep beside what is asked for, and contexts of compressors.
SLACK = 16 * MIB

PROGRAM = """
import json, sys
import numpy as np
import hyperslab as hs
path, planes, threads, flight = sys.argv[1], *map(int, sys.argv[2:])
hs.config.set(threads=threads, decodes_in_flight=flight, recycler_bytes=0)
zstd = {"name": "zstd", "configuration": {"level": -5}}
shape = (planes, 1024, 1024)
z = hs.create_array(path, shape=shape, shards=shape, chunks=(1, 1024, 1024), dtype="f4", compressors=[zstd])
# As long compressed as not.
data = np.random.default_rng(0).integers(0, 2**32, shape, dtype="u4").view("f4")
eighth = max(1, planes // 8)
out = np.ones((eighth, 1024, 1024), "f4")

def resident(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what)) << 10

# What threads keep for the next request counts, too.
base = resident("VmRSS")

def peak(work):
    open("/proc/self/clear_refs", "w").write("5")
    work()
    return resident("VmHWM") - base

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

def change_one():
    z[planes // 2, 3] = 1

works = (write_in_pieces, read_in_pieces, read_columns, change_one, write_all)
found = {work.__name__: peak(work) for work in works}
assert np.array_equal(z[planes - 1].view("u4"), data[planes - 1].view("u4"))
print(json.dumps(found))
"""


def peaks(path: Path, planes: int, threads: int, flight: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(planes), str(threads), str(flight)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("threads", "flight"), [(2, 2), (4, 2), (2, 8)])
def test_a_shard_is_never_in_memory(tmp_path: Path, threads: int, flight: int) -> None:
    found = peaks(tmp_path / "a", PLANES, threads, flight)
    for what, bytes_ in found.items():
        assert bytes_ <= 2 * flight * PLANE + INDEX_BYTES + SLACK, (what, found)
    # In the end nothing is left that nobody names: every inner chunk as it was encoded, and an index.
    assert (tmp_path / "a/c/0/0/0").stat().st_size < 1.01 * PLANES * PLANE
