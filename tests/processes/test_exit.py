"""A program that ends while daemon threads use arrays keeps its exit status and prints nothing.

Up to Python 3.13 the interpreter ends such threads in the middle of their work. From 3.14 on they
sleep.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """
import atexit, functools, sys, threading, time, types

def late():
    pass

# Registered before hyperslab is imported: it runs after the handlers of hyperslab.
atexit.register(lambda: late())

import numpy as np, hyperslab as hs
from numcodecs.abc import Codec
from numcodecs.registry import register_codec

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

class Last:
    def __init__(self, work):
        self.work = work

    def __del__(self):
        self.work()

# Freed while the interpreter ends. `__main__` may stay: frames of threads need it.
freed = sys.modules["freed"] = types.ModuleType("freed")

def at_end(work):
    freed.last = Last(work)

# Every thread wants the GIL meanwhile.
at_end(functools.partial(time.sleep, 0.2))

register_codec(Slow)
hs.config.threads = 4
# Python code gives the GIL up all the time.
sys.setswitchinterval(1e-6)
folder, delay = sys.argv[1], float(sys.argv[2])
row = np.arange(10_000)

def make(store, **options):
    shape, chunks = (40, 10_000), (1, 10_000)
    return hs.create_array(store, shape=shape, chunks=chunks, dtype="i4", overwrite=True, **options)

def start(*works):
    def repeat(work):
        while True:
            work()
    for work in works * 2:
        threading.Thread(target=repeat, args=(work,), daemon=True).start()
    time.sleep(delay)

"""

END = "\nprint('done')\nsys.exit(3)"

WORK = {
    "writes": """
z = make(folder)
def whole(): z[...] = 3
def parts(): z[:, 5:10] = 3
start(whole, parts)
""",
    "writers": """
z = make(folder)
w = z.writer(buffer=100_000)
def own():
    with z.writer() as own: own[0] = row; own[1] = row
def one(): w[3] = row; w[4, :100] = row[:100]
start(own, one)
""",
    "creation": """
z = make(folder)
def create(): hs.create_array(hs.MemoryStore(), data=np.arange(9))
def attributes(): z.attrs['a'] = 1
start(create, attributes)
""",
    "reads": """
z = make(folder)
def large(): z[...]
def small(): z[3, 5:9]
start(large, small)
""",
    "streams": """
z = make(folder)
def stream():
    for row in z.stream(): pass
start(stream)
""",
    "strings": """
z = hs.create_array(hs.MemoryStore(), data=['a', 'bc'] * 500)
def strings(): z[...] = z[...]
start(strings)
""",
    "a codec in Python": """
z = make(folder, compressors=[Slow()])
def whole(): z[...] = 3; z[...]
def stream():
    for row in z.stream(): pass
start(whole, stream)
""",
    "a store in Python": """
z = make(Mapping())
def whole(): z[...] = 3; z[...]; z.attrs['a'] = 1
def writer():
    with z.writer() as w: w[0] = row; w[1, :5] = row[:5]
start(whole, writer)
""",
    "a stream that is left": """
z = make(Mapping(), compressors=[Slow()])
z[...] = 3
freed.s = z.stream()
next(freed.s)
def read(): z[...]
start(read)
""",
}


@contextmanager
def begun(folder: Path, program: str, delay: float) -> Iterator[subprocess.Popen[str]]:
    """Starts the program. It ends with the test."""
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM + program + END, str(folder), str(delay)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", WORK)
def test_daemon_threads_do_not_change_how_a_program_ends(tmp_path: Path, name: str) -> None:
    early, later = begun(tmp_path / "a", WORK[name], 0.0), begun(tmp_path / "b", WORK[name], 0.02)
    with early as one, later as two:
        for process in (one, two):
            out, err = process.communicate(timeout=100)
            assert (process.returncode, out, err) == (3, "done\n", "")


def test_nothing_waits_for_ever_for_a_thread_that_was_ended(tmp_path: Path) -> None:
    """A thread is ended inside `Mapping` while it holds what the end of the program waits for."""
    turn = """
z = make(Mapping(delay=0.1))
at_end(lambda: z.attrs.update(b=2))
def work(): z.attrs['a'] = 1
start(work)
"""
    job = """
freed.w = make(Mapping(delay=0.1)).writer()
def late(): freed.w[3] = row; time.sleep(0.05)
"""
    with begun(tmp_path / "a", turn, 0.05) as one, begun(tmp_path / "b", job, 0.05) as two:
        for process, what in ((one, "''"), (two, "'memory://mapping-")):
            out, err = process.communicate(timeout=100)
            assert (process.returncode, out) == (3, "done\n")
            assert what in err and "is left as it is: another thread was stopped" in err


def test_handlers_of_the_end_use_codecs_in_python(tmp_path: Path) -> None:
    program = """
z = make(folder, compressors=[Slow()])
def late():
    z[...] = row
    print(z[...].sum())
"""
    with begun(tmp_path / "a", program, 0.0) as process:
        assert process.communicate(timeout=100) == ("done\n1999800000\n", "")
        assert process.returncode == 3
