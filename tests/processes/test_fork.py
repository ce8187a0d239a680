"""A forked child works: the parent's threads are gone, and it starts its own."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    # Python warns about forks with threads, which this test does on purpose.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

SHAPE = (64, 128, 128)


@pytest.fixture
def z(tmp_path: Path) -> hs.Array:
    z = hs.create_array(tmp_path, shape=SHAPE, chunks=(4, 128, 128), dtype="f4")
    z[...] = np.arange(np.prod(SHAPE), dtype="f4").reshape(SHAPE)
    return z


def in_child(work: Callable[[], bool]) -> None:
    """Runs `work` in a forked child, which must end in time."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def test_reads_and_writes_after_a_fork(z: hs.Array) -> None:
    hs.config.threads = 4
    expected = z[:]
    held = z[:8]

    def work() -> bool:
        right = np.array_equal(z[:], expected) and np.array_equal(held, expected[:8])
        z[0] = -1
        return right and bool((z[0] == -1).all())

    in_child(work)
    assert (z[0] == -1).all() and np.array_equal(z[1:], expected[1:])
    assert np.array_equal(held, expected[:8])


def test_a_fork_while_other_threads_read(z: hs.Array) -> None:
    hs.config.threads = 4
    expected = z[:]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            z[:]

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(lambda: np.array_equal(z[:], expected))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_child_of_a_child(z: hs.Array) -> None:
    expected = z[:]

    def work() -> bool:
        in_child(lambda: np.array_equal(z[:], expected))
        return np.array_equal(z[:], expected)

    in_child(work)


PROGRAM = """
import multiprocessing, pickle, sys

def total(arguments):
    z, row = arguments
    return float(z[row].sum())

if __name__ == "__main__":
    method, path = sys.argv[1:]
    with open(path, "rb") as file:
        z = pickle.load(file)
    z[:]  # so that there are threads to lose
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(*pool.map(total, [(z, row) for row in range(4)]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(z: hs.Array, tmp_path: Path, method: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pickle").write_bytes(pickle.dumps(z))
    command = [sys.executable, "-W", "ignore", str(tmp_path / "program.py"), method, str(tmp_path / "pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert np.allclose([float(word) for word in done.stdout.split()], z[:4].sum(axis=(1, 2)))
