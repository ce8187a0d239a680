"""A signal stops a long read of a chunk index: a file of many chunks on a slow disk.

strace makes the disk slow: each read of the file takes 20 ms. The number of system calls shows how
far a read has come.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

h5py = pytest.importorskip("h5py")

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")

CHUNKS = 20_000
DEADLINE = 120.0

READ = """
import signal, sys
import hyperslab as hs
signal.signal(signal.SIGINT, signal.default_int_handler)
array = hs.open(sys.argv[1], mode="r")["d"]
try:
    # Needs the whole index.
    array.nchunks_initialized
    print("read")
except KeyboardInterrupt:
    with open(sys.argv[2]) as trace:
        print("interrupted", trace.read().count("read") < 200)
print(array[9000 * 4096 : 9000 * 4096 + 3].tolist(), array[5])
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a file with some 600 nodes of a version 1 B-tree and the chunks between them.

    Few chunks have values.
    """
    path: Path = tmp_path_factory.mktemp("many") / "many.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4096,))
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((CHUNKS * 4096,), (h5py.h5s.UNLIMITED,))
        dataset: Any = h5py.Dataset(h5py.h5d.create(file.id, b"d", h5py.h5t.STD_I32LE, space, properties))
        dataset[9000 * 4096 : 9000 * 4096 + 3] = [1, 2, 3]
        dataset[5] = 7
    return path


class Slow:
    """A program under strace. The process is the program's."""

    def __init__(self, folder: Path, file: Path, *program: str) -> None:
        self.trace = folder / "trace"
        delay = "inject=read,pread64,preadv,preadv2:delay_enter=20000"
        options = [
            "-D",
            "-f",
            "-qq",
            "-P",
            str(file),
            "-e",
            "signal=none",
            "-e",
            delay,
            "-o",
            str(self.trace),
        ]
        self.process = subprocess.Popen(
            ["strace", *options, sys.executable, *program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def reads(self) -> int:
        return self.trace.read_text().count("read") if self.trace.exists() else 0

    def stop(self, number: signal.Signals) -> tuple[int, str, str]:
        """Sends the signal in the middle of the index. Returns exit code and output."""
        end = time.monotonic() + DEADLINE
        while self.reads() < 60 and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if self.process.poll() is not None:
            told = self.process.communicate()[1]
            if "ptrace" in told.lower():
                pytest.skip(f"strace may not trace here: {told.strip()}")
            raise AssertionError(f"over before the signal came: {told}")
        self.process.send_signal(number)
        out, told = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, told


def test_the_file_takes_many_reads(many: Path, tmp_path: Path) -> None:
    slow = Slow(tmp_path, many, "-c", READ, str(many), str(tmp_path / "trace"))
    out, told = slow.process.communicate(timeout=DEADLINE)
    if "ptrace" in told.lower():
        pytest.skip(f"strace may not trace here: {told.strip()}")
    assert out.splitlines() == ["read", "[1, 2, 3] 7"], told
    assert slow.reads() > 250
    array: Any = hs.open(many, mode="r")["d"]
    np.testing.assert_array_equal(array[9000 * 4096 : 9000 * 4096 + 3], [1, 2, 3])


def test_keyboard_interrupt(many: Path, tmp_path: Path) -> None:
    """The read ends, and the next read through the same handle returns the stored values."""
    slow = Slow(tmp_path, many, "-c", READ, str(many), str(tmp_path / "trace"))
    code, out, told = slow.stop(signal.SIGINT)
    assert (code, told) == (0, "")
    assert out.splitlines() == ["interrupted True", "[1, 2, 3] 7"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["info", "copy", "index"])
def test_commands(many: Path, tmp_path: Path, command: str, number: signal.Signals, code: int) -> None:
    more = {"info": [], "copy": [str(tmp_path / "copy.zarr")], "index": ["-o", str(tmp_path / "refs.json")]}
    source = f"{many}/d" if command == "info" else str(many)
    slow = Slow(tmp_path, many, "-m", "hyperslab", command, source, *more[command])
    found, out, told = slow.stop(number)
    assert (found, out) == (code, "")
    assert told.startswith("hyperslab: interrupted") and told.count("\n") == 1
    # The index was not read completely.
    assert slow.reads() < 200
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]
