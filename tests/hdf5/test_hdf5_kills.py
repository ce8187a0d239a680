"""Writers of HDF5 that are killed: each object is as at a flush, and the file opens everywhere.

A child changes a file and reports each flush that returned. The parent kills it at a random moment.
`HYPERSLAB_KILLS` is the number of kills of each case.
"""

from __future__ import annotations

import random
import shutil
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
from support import examples, kills

# Each flush has one number, which all changed objects show: rows, index and attribute together.
_WRITER = """
import random, sys
import numpy as np
import hyperslab as hs

path, libver, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(seed)
file = hs.File(path, "a", libver=libver)
if "rows" not in file:
    options = {"compression": "gzip"} if seed % 2 else {}
    file.create_dataset("rows", (0,), "i4", maxshape=(None,), chunks=(100,), **options)
    file.create_dataset("cells", (40, 40), "i4", chunks=(10, 10), **options)
    file.create_group("texts")
    file["rows"].attrs["count"] = file["cells"].attrs["value"] = file["texts"].attrs["flush"] = 0
    file.flush()
print("ready", flush=True)
rows, cells, texts = file["rows"], file["cells"], file["texts"]
for flush in range(int(texts.attrs["flush"]) + 1, 10**6):
    count = rows.shape[0]
    more = random.randrange(1, 150)
    rows.resize((count + more,))
    rows[count:] = np.arange(count, count + more)
    rows.attrs["count"] = count + more
    cells[...] = flush
    cells.attrs["value"] = flush
    texts.attrs["flush"] = flush
    texts.attrs["text"] = "x" * random.randrange(200)
    if flush % 3 == 0:
        texts.create_dataset(f"t{flush}", data=[f"text {flush}"] * 3)
    if flush % 7 == 0:
        del texts[f"t{flush - flush % 3 - 3}"]
    file.flush()
    print(flush, flush=True)
"""


def _killed(path: Path, libver: str, seed: int) -> int:
    """Run a writer, kill it, and return the number of its last flush that returned; 0: none."""
    command = [sys.executable, "-c", _WRITER, str(path), libver, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        threading.Timer(random.uniform(0, 0.12), child.send_signal, [signal.SIGKILL]).start()
        lines = child.stdout.read().split("\n")
    assert child.returncode == -signal.SIGKILL
    # The last line may be cut.
    return int(lines[-2]) if len(lines) > 1 else 0


def _states(file: Any) -> list[int]:
    """Check that each object agrees with itself, and return the number of the flush that each shows."""
    rows, cells, texts = file["rows"], file["cells"], file["texts"]
    count = int(rows.attrs["count"])
    assert rows.shape == (count,)
    np.testing.assert_array_equal(rows[...], np.arange(count))
    value = int(cells.attrs["value"])
    np.testing.assert_array_equal(cells[...], np.full((40, 40), value))
    flush = int(texts.attrs["flush"])
    for name in texts:
        assert [text.decode() for text in texts[name][...]] == [f"text {name[1:]}"] * 3
    return [value, flush]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_killed_writer_leaves_a_whole_file(libver: str, tmp_path: Path) -> None:
    seed = random.randrange(1000)
    print("seed", seed)
    path, flushed = tmp_path / "a.h5", 0
    for trial in range(kills(25)):
        flushed = max(flushed, _killed(path, libver, seed))
        # A copy, so that the next writer finds the file as the killed one left it.
        copy = tmp_path / "copy.h5"
        shutil.copy(path, copy)
        with h5py.File(copy, "r") as file:
            shown = _states(file)
            assert min(shown) >= flushed, f"trial {trial}: flush {flushed} returned, found {shown}"
        with hs.File(copy, "r") as file:
            value, flush = _states(file)
            assert value == flush >= flushed
        with h5py.File(copy, "r+") as file:
            file["rows"].resize((file["rows"].shape[0] + 200,))
            file["texts"].attrs["more"] = "text"
        with h5py.File(copy, "r") as file:
            assert (file["rows"][-200:] == 0).all()
    with hs.File(path, "r+") as file:
        assert _states(file)[1] >= flushed
    assert flushed > 0


def _read_by_h5py(path: Path) -> None:
    """Read the states. A reader that is so slow that the end of the file moves opens it again."""
    for _ in range(5):
        try:
            with h5py.File(path, "r") as file:
                _states(file)
                return
        except (KeyError, OSError) as error:
            if "addr overflow" not in str(error):
                raise
    pytest.fail("the end of the file moved in each of five attempts")


class _Returned:
    """The number of the last flush that the writer reported, read by a thread."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.last = 0
        self._lines = child.stdout
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._lines or ():
            # The last line may be cut.
            if line.endswith("\n"):
                self.last = int(line)


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    command = [sys.executable, "-c", _WRITER, str(path), "earliest", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        returned = _Returned(child)
        try:
            for _ in range(examples(25)):
                _read_by_h5py(path)
                before = returned.last
                with hs.File(path, "r") as file:
                    value, flush = _states(file)
                # An object is as at the opening or later. The objects are read one after another,
                # and one flush switches them one after another.
                assert before <= min(value, flush)
                assert value <= flush + 1
            with pytest.raises(BlockingIOError):
                h5py.File(path, "r+")
            with pytest.raises(BlockingIOError):
                hs.File(path, "w")
            assert returned.last > 0
        finally:
            child.kill()
