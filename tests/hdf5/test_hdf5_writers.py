"""Several processes that write one HDF5 file: nothing that one of them flushed is lost.

`HYPERSLAB_KILLS` is the number of writers that are killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from support import kills

WRITERS = 4
ROUNDS = 40
ROWS = 20

# The numbers of rounds are what each writer has flushed. `cells` has rows of all writers in each
# chunk, `rows` grows by the appends of all.
_WRITER = """
import sys
import numpy as np
import hyperslab as hs

path, writer, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = hs.File(path, "r+")
own = file.require_group(f"w{writer}")
if "values" not in own:
    own.create_dataset("values", (0,), "i8", maxshape=(None,), chunks=(64,), compression="gzip")
    file.flush()
first = own["values"].shape[0]
print("ready", flush=True)
for number in range(first, first + rounds):
    if number % 10 == 0:
        # A new name is flushed at once, before its attribute: a round counts after both, so that
        # the writer after a killed one makes up for it.
        own.require_group(f"g{number}").attrs["text"] = "x" * number
    values = own["values"]
    values.resize((number + 1,))
    values[number] = number
    values.attrs["count"] = number + 1
    file["cells"][writer::4] = number
    file.attrs[f"round{writer}"] = number
    file["rows"].append(np.full(20, 10**6 * writer + number, "i4"))
    file.flush()
    print(number, flush=True)
file.close()
"""


def _create(path: Path, libver: str, compression: str | None) -> None:
    with hs.File(path, "w", libver=libver) as file:
        file.create_dataset("cells", (40, 50), "i4", chunks=(10, 50), compression=compression)
        file.create_dataset("rows", (0,), "i4", maxshape=(None,), chunks=(50,), compression=compression)


def _started(path: Path, writer: int, rounds: int = ROUNDS) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(path), str(writer), str(rounds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return child


def _check(file: Any, rounds: dict[int, int]) -> None:
    """Check that a file has all rounds of each writer up to a number, and at most one more."""
    found = file["rows"][...].reshape(-1, ROWS)
    assert (found == found[:, :1]).all(), "an append is not in one piece"
    for writer, last in rounds.items():
        own = file[f"w{writer}"]
        values = own["values"][...]
        count = len(values)
        assert count in (last + 1, last + 2)
        np.testing.assert_array_equal(values, np.arange(count))
        assert own["values"].attrs["count"] == count
        cells = file["cells"][writer::4]
        assert (cells == cells[0, 0]).all() and cells[0, 0] in (last, last + 1)
        assert file.attrs[f"round{writer}"] in (last, last + 1)
        # An append of a round is flushed before the round is.
        appended = found[found[:, 0] // 10**6 == writer, 0] % 10**6
        assert set(range(last + 1)) <= set(appended.tolist()), writer
        for number in range(0, last + 1, 10):
            assert own[f"g{number}"].attrs["text"] == "x" * number


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_processes_that_write_one_file(libver: str, compression: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    _create(path, libver, compression)
    children = [_started(path, writer) for writer in range(WRITERS)]
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors
    for package in (h5py, hs):
        with package.File(path, "r") as file:
            _check(file, dict.fromkeys(range(WRITERS), ROUNDS - 1))
            assert file["rows"].shape == (WRITERS * ROUNDS * ROWS,)
    # The last one has cut the file off, and HDF5 changes it.
    with h5py.File(path, "r+") as file:
        file["rows"].resize((10,))
        file.attrs["changed"] = 1
    with hs.File(path, "r") as file:
        assert file["rows"].shape == (10,) and file.attrs["changed"] == 1


def _check_objects(file: Any) -> None:
    """Check that each object is as of one flush."""
    for writer in range(WRITERS):
        values = file[f"w{writer}/values"]
        np.testing.assert_array_equal(values[...], np.arange(values.shape[0]))
        assert values.attrs.get("count", 0) == values.shape[0]
    found = file["rows"][...].reshape(-1, ROWS)
    assert (found == found[:, :1]).all()


def test_readers_beside_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    _create(path, "earliest", "gzip")
    children = [_started(path, writer) for writer in range(WRITERS)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    complete = 0
    while any(child.poll() is None for child in children):
        for package in (h5py, hs):
            try:
                with package.File(path, "r") as file:
                    _check_objects(file)
                complete += 1
            except (KeyError, OSError) as error:
                # The end of the file moved since this slow reader opened it.
                if "addr overflow" not in str(error):
                    raise
    assert complete > 0
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors


@pytest.mark.kill
def test_writers_that_are_killed(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chosen = random.Random(seed)
    path = tmp_path / "a.h5"
    _create(path, chosen.choice(["earliest", "latest"]), "gzip")
    last: dict[int, int] = {}
    for _ in range(max(kills(25) // WRITERS, 1)):
        children = {writer: _started(path, writer, 10**6) for writer in range(WRITERS)}
        for child in children.values():
            # Some are killed while they begin. The others have begun, also on a busy machine.
            if chosen.random() < 0.8:
                assert child.stdout is not None
                # Without a buffer: the other lines are read later.
                line = b""
                while not line.endswith(b"\n"):
                    byte = os.read(child.stdout.fileno(), 1)
                    assert byte, "the writer ended"
                    line += byte
                assert line == b"ready\n"
            delay = chosen.uniform(0.1, 0.8)
            threading.Timer(delay, child.send_signal, [signal.SIGKILL]).start()
        for writer, child in children.items():
            out, errors = child.communicate(timeout=120)
            assert child.returncode == -signal.SIGKILL, errors
            # The last line may be cut.
            done = [int(line) for line in out.split("\n")[:-1] if line != "ready"]
            if done:
                last[writer] = done[-1]
        for package in (h5py, hs):
            with package.File(path, "r") as file:
                _check(file, last)
    assert last


def test_what_one_process_does_is_seen_by_another(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    _create(path, "earliest", None)
    with hs.File(path, "r+") as one, hs.File(path, "r+") as other:
        one["rows"].append([1, 2, 3])
        assert one["rows"].shape == (3,)
        assert other.refresh()["rows"][...].tolist() == [1, 2, 3]
        other["rows"].append([4])
        other.create_group("new")
        assert one.refresh()["rows"][...].tolist() == [1, 2, 3, 4] and "new" in one
        with pytest.raises(ValueError, match="name already exists"):
            one.create_group("new")
        # Elements of one chunk, changed by both.
        one["cells"][0, :25] = 1
        other["cells"][0, 25:] = 2
        one.flush()
        other.flush()
        assert one.refresh()["cells"][0].tolist() == [1] * 25 + [2] * 25
    # A new file does not replace one that somebody writes.
    with hs.File(path, "r+"), pytest.raises(BlockingIOError):
        hs.File(path, "w")
    with hs.File(path, "r+"), pytest.raises(BlockingIOError):
        h5py.File(path, "r+")
    with h5py.File(path, "r+"), pytest.raises(BlockingIOError):
        hs.File(path, "r+")


@pytest.mark.parametrize("package", [hs, h5py])
def test_a_reader_stays_open_while_writers_come_and_go(package: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        file.create_dataset("a", (4, 4096), "i2", chunks=(1, 4096), data=np.full((4, 4096), 1))
    with package.File(path, "r") as reader:
        old = reader["a"]
        assert old[0, 0] == 1
        # The second writer of a chunk replaces what the reader sees. The others need space.
        for value in range(2, 8):
            for row in (3, 0, 1, 2):
                with hs.File(path, "r+") as file:
                    file["a"][row] = np.random.default_rng(value).integers(2, 99, 4096)
        np.testing.assert_array_equal(old[...], 1)
    size = path.stat().st_size
    with hs.File(path, "r+") as file:
        file["a"][...] = 9
    with hs.File(path, "r+") as file:
        file["a"][...] = 10
    # Without a reader, the space is used again.
    assert path.stat().st_size <= size


def test_a_name_that_two_processes_make(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    _create(path, "earliest", None)
    with hs.File(path, "r+") as one:
        one.create_group("g")
        with hs.File(path, "r+") as other:
            other.create_group("g").attrs["mine"] = 1
        with pytest.raises(hs.errors.HyperslabError, match="also made by another process"):
            one.flush()
        del one["g"]
    with h5py.File(path, "r") as file:
        assert dict(file["g"].attrs) == {"mine": 1}


# Each thread writes every sixth element, and checks that it finds them after each flush.
_THREADS = """
import sys, threading
import numpy as np
import hyperslab as hs

path, first, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = hs.File(path, "r+")
print("ready", flush=True)
sys.stdin.readline()
errors = []

def write(own):
    try:
        for number in range(rounds):
            for name in ("chunks", "run", "long"):
                file[name][own::6] = 1000 * own + number
            file.flush()
            for name in ("chunks", "run", "long"):
                found = file[name][own::6]
                assert (found == 1000 * own + number).all(), (name, number, own, np.unique(found))
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=write, args=(own,)) for own in range(first, first + 3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file.close()
assert not errors, errors
"""


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_threads_of_several_processes(compression: str | None, tmp_path: Path) -> None:
    path, rounds = tmp_path / "a.h5", 25
    with hs.File(path, "w") as file:
        file.create_dataset("chunks", (3000,), "i4", chunks=(500,), compression=compression)
        file.create_dataset("run", (3000,), "i4")
        file.create_dataset("long", (60_000,), "i4")
    command = [sys.executable, "-c", _THREADS, str(path)]
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen([*command, str(first), str(rounds)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for first in (0, 3)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, errors = child.communicate(timeout=200)
        assert child.returncode == 0, errors
    for package in (h5py, hs):
        with package.File(path, "r") as file:
            for name in ("chunks", "run", "long"):
                expected = np.arange(file[name].size) % 6 * 1000 + rounds - 1
                np.testing.assert_array_equal(file[name][...], expected)
