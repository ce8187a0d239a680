"""Killed copies, and readers during a copy, find the old array or the new one, always whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest
from support import kills

SWAPS = """
import sys, hyperslab as hs
root = sys.argv[1]
print("begun", flush=True)
for number in range(10_000):
    hs.copy(f"{root}/s{number % 2 + 1}", f"{root}/d", overwrite=True)
"""


def sources(root: Path) -> None:
    for value in (1, 2):
        hs.create_array(root / f"s{value}", data=np.full((60, 50), value, "i8"), chunks=(3, 50))
    hs.copy(root / "s1", root / "d")


def swapping(root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", SWAPS, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_killed_copies_leave_the_old_or_the_new(tmp_path: Path, rng: np.random.Generator) -> None:
    sources(tmp_path)
    for _ in range(kills(12)):
        process = swapping(tmp_path)
        time.sleep(float(rng.uniform(0.0, 0.15)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = np.unique(hs.open_array(tmp_path / "d", mode="r")[:])
        assert found.tolist() in ([1], [2])
    # The next copy to the same place removes the remains of killed ones.
    hs.copy(tmp_path / "s1", tmp_path / "d", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["d", "s1", "s2"]


def test_killed_copies_to_hdf5_leave_the_old_or_the_new(tmp_path: Path, rng: np.random.Generator) -> None:
    for value in (1, 2):
        hs.create_array(tmp_path / f"s{value}", data=np.full((60, 50), value, "i8"), chunks=(3, 50))
    hs.copy(tmp_path / "s1", tmp_path / "d.h5")
    swaps = SWAPS.replace('/d"', '/d.h5"')
    met = set()
    for _ in range(kills(25)):
        command = [sys.executable, "-c", swaps, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(float(rng.uniform(0.0, 0.1)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with h5py.File(tmp_path / "d.h5") as file:
            found = np.unique(file["data"][:]).tolist()
        assert found in ([1], [2])
        met.update(found)
    assert met == {1, 2}
    # Temporary names exist only within the step that replaces the file.
    left = [name for name in os.listdir(tmp_path) if name not in ("d.h5", "s1", "s2")]
    assert all(name.endswith(".hyperslab-tmp") for name in left), left


@pytest.mark.parametrize("keep", [False, True], ids=["opened anew", "kept open"])
def test_readers_find_one_array(tmp_path: Path, keep: bool) -> None:
    """The array is never missing, never a mixture of old and new, never the fill value."""
    sources(tmp_path)
    kept = hs.open_array(tmp_path / "d", mode="r")
    process = swapping(tmp_path)
    met = set()
    try:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            array = kept if keep else hs.open_array(tmp_path / "d", mode="r")
            found = np.unique(array[:])
            assert found.tolist() in ([1], [2])
            met.add(int(found[0]))
    finally:
        process.kill()
        process.wait()
    assert met == {1, 2}


def test_readers_of_text_find_one_array(tmp_path: Path) -> None:
    for value in (1, 2):
        texts = np.full((60, 50), f"text {value}", np.dtypes.StringDType())
        hs.create_array(tmp_path / f"s{value}", data=texts, chunks=(3, 50))
    hs.copy(tmp_path / "s1", tmp_path / "d")
    process = swapping(tmp_path)
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            found = set(hs.open_array(tmp_path / "d", mode="r")[:].ravel().tolist())
            assert found in ({"text 1"}, {"text 2"})
    finally:
        process.kill()
        process.wait()


def test_an_array_that_is_not_the_one_that_was_opened_is_refused(tmp_path: Path) -> None:
    """Chunks of another array would be misinterpreted."""
    old = hs.create_array(tmp_path / "a", data=np.arange(8, dtype="<i4"), chunks=2)
    opened = hs.open_array(tmp_path / "a", mode="r")
    assert old[:].tolist() == opened[:].tolist() == list(range(8))
    # Compatible arrays are read, also longer ones and ones with other attributes.
    hs.create_array(tmp_path / "a", data=np.arange(8, dtype="<i4") + 1, chunks=2, overwrite=True)
    assert opened[:].tolist() == old[:].tolist() == list(range(1, 9))
    longer = np.arange(9, dtype="<i4") + 2
    hs.create_array(tmp_path / "a", data=longer, chunks=2, overwrite=True, attributes={"a": 1})
    assert opened[:].tolist() == old[:].tolist() == list(range(2, 10))
    # An array of the same size and another type.
    hs.create_array(tmp_path / "a", data=np.arange(8, dtype="<f4"), chunks=2, overwrite=True)
    for array in (old, opened):
        with pytest.raises(FileNotFoundError, match="replaced or deleted since it was opened"):
            array[:]
    del hs.open_group(tmp_path, mode="a")["a"]
    for array in (old, opened):
        with pytest.raises(hs.errors.ArrayNotFoundError, match="open it again"):
            array[1:6]


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="needs strace")
def test_flushed_before_the_swap(tmp_path: Path) -> None:
    """With ``fsync`` every file of the copy is on disk before the names are exchanged."""
    sources(tmp_path)
    log = tmp_path / "log"
    code = (
        f"import hyperslab as hs; hs.copy({str(tmp_path / 's2')!r}, {str(tmp_path / 'd')!r}, overwrite=True)"
    )
    subprocess.run(
        ["strace", "-f", "-y", "-qqq", "-o", log, "-e", "trace=fsync,rename,renameat,renameat2"]
        + [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "HYPERSLAB_FSYNC": "1"},
    )
    lines = log.read_text().splitlines()
    swap = next(number for number, line in enumerate(lines) if "RENAME_EXCHANGE" in line)
    flushed = [line for line in lines[:swap] if "fsync(" in line]
    # 20 chunks and a document, each with its directory.
    assert len(flushed) >= 21
    # The directory of the exchanged names.
    assert any("fsync(" in line and f"<{tmp_path}>" in line for line in lines[swap:])
