"""A program that ends while daemon threads use arrays ends with its own exit status, and says nothing.

Up to Python 3.13 the interpreter ends such threads in the middle of what they do; from 3.14 on, they sleep.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

# `at_end` calls something while the interpreter ends. By default that gives every thread time to want the GIL.
PROGRAM = """
import atexit, functools, sys, threading, time, types

# Runs after the handlers that hyperslab registers when it is imported.
@atexit.register
def last():
    late()

def late(): pass

import numpy as np, hyperslab as hs
from numcodecs.abc import Codec

class Late:
    def __init__(self, work):
        self.work = work

    def __del__(self):
        self.work()

class Slow(Codec):
    codec_id = "t-slow"

    def encode(self, buf):
        time.sleep(0.001)
        return bytes(buf)

    def decode(self, buf, out=None):
        time.sleep(0.001)
        return bytes(buf)

class Mapping(dict):
    def __init__(self, delay=0.001):
        self.delay = delay

    def __getitem__(self, key):
        time.sleep(self.delay)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        time.sleep(self.delay)
        super().__setitem__(key, value)

hs.config.threads = 4
folder, delay = sys.argv[1], float(sys.argv[2])

def make(store, **options):
    return hs.create_array(store, shape=(40, 10_000), chunks=(1, 10_000), dtype="i4", overwrite=True, **options)

# What is kept here is freed at the end. What is in this module is not: the frames of threads need it.
freed = sys.modules["freed"] = types.ModuleType("freed")

def at_end(work):
    freed.late = Late(work)

at_end(functools.partial(time.sleep, 0.2))

def start(work, threads=3):
    def repeat():
        while True:
            work()
    for _ in range(threads):
        threading.Thread(target=repeat, daemon=True).start()
    time.sleep(delay)

"""

DELAYS = (0.0, 0.01, 0.03)

WORK = {
    "writes": "z = make(folder)\ndef work(): z[...] = 3",
    "parts of chunks": "z = make(folder)\ndef work(): z[:, 5:10] = 3",
    "writers": "z = make(folder)\ndef work():\n    with z.writer() as w: w[0] = 1; w[1] = 2",
    "one writer": "w = make(folder).writer(buffer=100_000)\nrow = np.arange(10_000)\ndef work(): w[3] = row; w[4, :100] = row[:100]",
    "creation": "def work(): hs.create_array(hs.MemoryStore(), data=np.arange(9))",
    "reads": "z = make(folder)\ndef work(): z[...]",
    "small reads": "z = make(folder)\ndef work(): z[3, 5:9]",
    "streams": "z = make(folder)\ndef work():\n    for row in z.stream(): pass",
    "attributes": "z = make(folder)\ndef work(): z.attrs['a'] = 1",
    "strings": "z = hs.create_array(hs.MemoryStore(), data=['a', 'bc'] * 500)\ndef work(): z[...] = z[...]",
    "a codec in Python": "z = make(folder, compressors=[Slow()])\ndef work(): z[...] = 3; z[...]",
    "a codec in Python, streams": "z = make(folder, compressors=[Slow()])\nz[...] = 3\n"
    "def work():\n    for row in z.stream(): pass",
    "a store in Python": "z = make(Mapping())\ndef work(): z[...] = 3; z[...]; z.attrs['a'] = 1",
    "a store in Python, writers": "z = make(Mapping())\n"
    "def work():\n    with z.writer() as w: w[0] = 1; w[1, :5] = 2",
    "a stream that is left": "z = make(Mapping(), compressors=[Slow()])\nz[...] = 3\ns = z.stream()\n"
    "def work(): z[...]\nnext(s)",
}


def begin(folder: Path, program: str, delay: float) -> subprocess.Popen[str]:
    folder.mkdir()
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM + program, str(folder), str(delay)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", WORK)
def test_daemon_threads_do_not_change_how_a_program_ends(tmp_path: Path, name: str) -> None:
    program = WORK[name] + "\nstart(work)\nprint('done')\nsys.exit(3)"
    running = [begin(tmp_path / str(n), program, delay) for n, delay in enumerate(DELAYS)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (3, "done\n", "")


# A thread sleeps in `Mapping`, and has what the end of the program waits for.
HELD = {
    "a turn": "z = make(Mapping(delay=0.1)); at_end(lambda: z.attrs.update(b=2))\n"
    "def work(): z.attrs['a'] = 1\nstart(work)\n",
    "jobs": "freed.w = make(Mapping(delay=0.1)).writer()\nrow = np.arange(10_000)\n"
    "def late(): freed.w[3] = row; freed.w[4] = row; time.sleep(0.05)\n",
}


def test_the_end_of_a_program_waits_for_no_thread(tmp_path: Path) -> None:
    programs = [
        work + "print('done')\nsys.exit(3)" for work in HELD.values()
    ]
    begun = time.monotonic()
    running = [begin(tmp_path / str(n), program, 0.05) for n, program in enumerate(programs)]
    for process in running:
        out, err = process.communicate(timeout=60)
        print(err)
        assert (process.returncode, out) == (3, "done\n")
    print(time.monotonic() - begun)
    assert 0
