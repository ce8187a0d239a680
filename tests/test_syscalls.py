"""System calls per chunk: open, read, close for a read; open, write, close, rename for a write. No others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

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

PLAIN = {
    "openat": "open",
    "openat2": "open",
    "pread64": "read",
    "preadv": "read",
    "readv": "read",
    "pwrite64": "write",
    "pwritev": "write",
    "writev": "write",
    "renameat": "rename",
    "renameat2": "rename",
    "newfstatat": "stat",
    "fstat": "stat",
    "statx": "stat",
}


def calls(folder: Path, action: str, count: int) -> Counter[str]:
    """The calls about files that one request makes."""
    trace = folder / f"{action}-{count}.trace"
    strace = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "80",
        "-e",
        "trace=file,desc",
        "-e",
        "signal=none",
        "-o",
        str(trace),
    ]
    done = subprocess.run(
        [*strace, sys.executable, "-c", CHILD, action, str(folder / "a"), str(count)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found: Counter[str] = Counter()
    counting = False
    for line in trace.read_text().splitlines():
        call = line.split(maxsplit=1)[1]
        if "/hyperslab-mark-begin" in call:
            counting = True
        elif "/hyperslab-mark-end" in call:
            return found
        elif counting and "resumed>" not in call.split("(")[0]:
            name = call.split("(")[0]
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
        ("write", {"open": 1, "write": 1, "close": 1, "rename": 1}),
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
    # Python's own allocator maps another arena now and then: by chance between the marks.
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    data = np.random.default_rng(0).normal(size=(64, 5000)).astype("f4")
    hs.create_array(tmp_path / "a", data=data, chunks=(1, 5000), compressors=compressors)
    few, many = calls(tmp_path, action, 30), calls(tmp_path, action, 60)
    per_chunk = {name: (many[name] - few[name]) / 30 for name in many | few if many[name] != few[name]}
    assert per_chunk == expected
    # What a request costs besides its chunks.
    assert sum(few.values()) - 30 * sum(expected.values()) <= 2, few
