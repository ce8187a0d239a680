"""System calls per chunk: open, read, close; or open, write, linkat, close, rename. No others.

Also every system call of the smallest requests.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest

CHILD = """
import os, sys
import numpy as np
import hyperslab as hs
action, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
z = hs.open_array(path, mode="r+")
data = np.random.default_rng(1).normal(size=(1, z.shape[1])).astype("f4")
# Warm: the pool is up, scratch and outputs are there.
z[:count]
z[:count] = data
z[:count]
os.path.exists("/hyperslab-mark-begin")
if action == "read":
    found = z[:count]
else:
    z[:count] = data
os.path.exists("/hyperslab-mark-end")
"""

# Memory from the system. A thread's first allocation may fall into any request.
ANONYMOUS = re.compile(r"mmap\(.*, -1, 0\)")
PLAIN = {
    "open": "open",
    "openat": "open",
    "openat2": "open",
    "read": "read",
    "pread64": "read",
    "preadv": "read",
    "readv": "read",
    "write": "write",
    "pwrite64": "write",
    "pwritev": "write",
    "writev": "write",
    "rename": "rename",
    "renameat": "rename",
    "renameat2": "rename",
    "newfstatat": "stat",
    "fstat": "stat",
    "statx": "stat",
}


def strace(trace: Path, what: str, *arguments: str) -> list[str]:
    """Returns the lines of system calls (of kind ``what``) of a Python program and its threads."""
    command = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "80",
        "-e",
        f"trace={what}",
        "-e",
        "signal=none",
        "-o",
        str(trace),
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    if "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]


def calls(folder: Path, action: str, count: int) -> Counter[str]:
    """Counts the calls about files that one request makes."""
    arguments = (CHILD, action, str(folder / "a"), str(count))
    found: Counter[str] = Counter()
    counting = False
    for call in strace(folder / f"{action}-{count}.trace", "file,desc", *arguments):
        if "/hyperslab-mark-begin" in call:
            counting = True
        elif "/hyperslab-mark-end" in call:
            return found
        elif counting and not ANONYMOUS.match(call) and "resumed>" not in call.split("(")[0]:
            name = call.split("(")[0]
            # In debug builds the standard library asserts with fcntl that a descriptor is open.
            if name != "fcntl":
                found[PLAIN.get(name, name)] += 1
    raise AssertionError("no end mark in the trace")


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "compressors", [None, {"name": "zstd", "configuration": {"level": 1}}], ids=["plain", "zstd"]
)
@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("read", {"open": 1, "read": 1, "close": 1}),
        # A new file gets a temporary name, from which it is renamed.
        ("write", {"open": 1, "write": 1, "linkat": 1, "close": 1, "rename": 1}),
    ],
)
def test_per_chunk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    expected: dict[str, int],
    compressors: object,
    threads: int,
) -> None:
    monkeypatch.setenv("HYPERSLAB_THREADS", str(threads))
    # Python's allocator sometimes maps another arena, possibly between the marks.
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    data = np.random.default_rng(0).normal(size=(64, 5000)).astype("f4")
    hs.create_array(tmp_path / "a", data=data, chunks=(1, 5000), compressors=compressors)
    runs = {count: calls(tmp_path, action, count) for count in (30, 60)}
    # How often a write tried first whether the object's own name is free. One in 16 does; at that
    # moment all threads may.
    free = {count: made.pop("linkat", 0) - count * expected.get("linkat", 0) for count, made in runs.items()}
    for count, tries in free.items():
        assert (1 <= tries <= threads * math.ceil(count / 16)) if action == "write" else tries == 0, free
    few, many = runs[30], runs[60]
    per_chunk = {name: (many[name] - few[name]) / 30 for name in many | few if many[name] != few[name]}
    assert per_chunk == {name: count for name, count in expected.items() if name != "linkat"}
    # Calls that a request makes besides those for its chunks.
    assert few.total() - 30 * sum(per_chunk.values()) <= 4, few


REQUESTS = """
import os, sys
import numpy as np
import hyperslab as hs
root = sys.argv[1]
v3, v2 = f"{root}/v3", f"{root}/v2"
hs.config.threads = 1
z = hs.open_array(v3)
hs.create_group(f"{root}/g").create_array("a", shape=(3,), dtype="i4")
row, block = np.ones((1, 300), "f4"), np.ones((10, 10), "f4")
def write_row(): w[1:2] = row
def write_block(): z[5:15, 5:15] = block
w = hs.create_array(f"{root}/w", shape=(4, 300), chunks=(1, 300), dtype="f4", compressors=None)
for name, request in {
    "scalar": lambda: z[5, 7],
    "block": lambda: z[0:10, 0:10],
    "chunk": lambda: z[0:100, 0:100],
    "four chunks": lambda: z[50:150, 50:150],
    "open v3": lambda: hs.open_array(v3),
    "open v3, read-only": lambda: hs.open(v3, mode="r"),
    "open v2": lambda: hs.open_array(v2),
    "open a group": lambda: hs.open_group(f"{root}/g"),
    "open by path": lambda: hs.open(f"{root}/g", path="a", mode="r"),
    "append": write_row,
    "partial write": write_block,
}.items():
    request(); request()
    os.path.exists(f"/hyperslab-mark/{name}")
    request()
    os.path.exists("/hyperslab-mark/")
"""
PART = ["open", "lseek", "read", "close"]
EXPECTED = {
    "scalar": PART,
    "block": PART,
    "chunk": ["open", "read", "close"],
    # The last call checks whether all chunks belong to one array.
    "four chunks": [*4 * PART, "stat"],
    # The first call identifies the directory of the metadata.
    "open v3": ["stat", "open", "read", "close"],
    "open v3, read-only": ["stat", "open", "read", "close"],
    "open a group": ["stat", "open", "read", "close"],
    "open by path": ["stat", "open", "read", "close"],
    # Documents of v3 are looked for first. Attributes are an object of their own.
    "open v2": ["stat", "open", "open", "read", "close", "open", "read", "close"],
    "append": ["open", "write", "linkat", "rename", "close"],
    # The lock is taken when the new file is complete, and held for a look and a rename.
    "partial write": [
        *["open", "stat", "read", "open", "write", "flock", "stat", "stat", "linkat", "rename", "flock"],
        *["close", "close"],
    ],
}


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_small_requests(tmp_path: Path) -> None:
    """Every system call of a warm request: no process id, no clock. Only a partial write locks."""
    data = np.random.default_rng(0).normal(size=(300, 300)).astype("f4")
    for zarr_format in (2, 3):
        place = tmp_path / f"v{zarr_format}"
        hs.create_array(place, data=data, chunks=(100, 100), compressors=None, zarr_format=zarr_format)
    found: dict[str, list[str]] = {}
    request = ""
    for call in strace(tmp_path / "trace", "all", REQUESTS, str(tmp_path)):
        mark = re.search(r'"/hyperslab-mark/(.*?)"', call)
        name = call.split("(")[0]
        if mark is not None:
            request = mark[1]
        elif request and not ANONYMOUS.match(call) and name not in ("munmap", "brk", "fcntl"):
            found.setdefault(request, []).append(PLAIN.get(name, name))
    assert found == EXPECTED


SMALL = """
import os, sys
import hyperslab as hs
hs.config.threads = 1
array = hs.open(sys.argv[1])["x"]
array[0], array[:]
os.path.exists("/hyperslab-mark-begin")
array[:]
os.path.exists("/hyperslab-mark-end")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_small_chunks_of_a_file(tmp_path: Path, compression: str | None) -> None:
    """10 000 chunks of 100 bytes are read 1024 at a time."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(250_000, dtype="i4"), chunks=(25,), compression=compression)
    lines = strace(tmp_path / "trace", "file,desc", SMALL, str(tmp_path / "a.h5"))
    begin, end = (
        next(n for n, line in enumerate(lines) if f"/hyperslab-mark-{which}" in line)
        for which in ("begin", "end")
    )
    reads = [line for line in lines[begin:end] if line.startswith("pread")]
    # Data between chunks (pieces of the file's index) may split a run.
    assert 10 <= len(reads) <= 20, reads
