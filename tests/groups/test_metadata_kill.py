"""Killed changes of metadata leave the old state or the new one, never a mixture."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import hyperslab as hs
import metadata_writers
import numpy as np
import pytest
import zarr
from support import kills

KINDS = pytest.mark.parametrize("kind", list(metadata_writers.KINDS))


def assert_tidy(tmp_path: Path) -> None:
    """Checks that zarr-python finds the array and nothing else in the group."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [name for name, _ in zarr.open_group(tmp_path / "g", mode="r").members()] == ["a"]


@KINDS
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_any_time(tmp_path: Path, kind: str, seed: int) -> None:
    path = tmp_path / "g"
    metadata_writers.begin(kind, path)
    program = [sys.executable, metadata_writers.__file__, "kill", kind, str(path), str(kills(60)), str(seed)]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert_tidy(tmp_path)
    metadata_writers.KINDS[kind](path)
    metadata_writers.check(kind, path)
    if kind == "overwrite" or kind in metadata_writers.WITH_DATA:
        # The next writer has removed the remains of killed ones.
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["g"]


#: The system calls that change directories. Other calls differ between library versions.
CALLS = ["rename", "renameat2", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "link", "linkat"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@KINDS
def test_kills_at_every_change_of_a_directory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "g"
    metadata_writers.begin(kind, path)
    metadata_writers.KINDS[kind](path)
    program = [sys.executable, "-B", metadata_writers.__file__, "once", kind, str(path)]
    log = tmp_path / "log"
    trace = ["strace", "-f", "-o", str(log), "-e", "trace=" + ",".join(f"?{call}" for call in CALLS)]
    subprocess.run([*trace, *program], check=True, timeout=120)
    counted = re.findall(r"^\d+ +(\w+)\(.*= ", log.read_text(), re.MULTILINE)
    assert counted
    log.unlink()
    killed = 0
    for call in sorted(set(counted)):
        # All removals of many entries are alike.
        for number in range(1, min(counted.count(call), 6) + 1):
            inject = ["-e", f"inject={call}:signal=KILL:when={number}"]
            subprocess.run([*trace, *inject, *program], check=False, timeout=120, capture_output=True)
            killed += 1
            metadata_writers.check(kind, path)
            assert_tidy(tmp_path)
    assert killed


def test_readers_during_overwrites_see_one_or_the_other(tmp_path: Path) -> None:
    """By name, a reader opens an array of one generation or of the next."""
    path = tmp_path / "g"
    metadata_writers.begin("overwrite", path)
    program = [sys.executable, metadata_writers.__file__, "kill", "overwrite", str(path), "30", "7"]
    writer = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    last = 0
    while writer.poll() is None:
        z = hs.open_array(path, path="a", mode="r")
        generation = z.attrs["generation"]
        assert generation >= last
        assert z.shape == metadata_writers.values(generation).shape
        last = generation
    assert writer.returncode == 0, writer.communicate()[1]


def test_a_root_is_overwritten_whole(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        hs.create_array(
            tmp_path / "a", data=np.arange(20), chunks=(2,), zarr_format=5 - zarr_format, overwrite=True
        )
        z = hs.create_array(
            tmp_path / "a", shape=(20,), dtype="i8", chunks=(2,), zarr_format=zarr_format, overwrite=True
        )
        assert not z[...].any() and z.nchunks_initialized == 0
        assert not zarr.open_array(tmp_path / "a")[...].any()
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a"]
    memory = hs.MemoryStore()
    hs.create_array(memory, data=np.arange(20), chunks=(2,))
    assert not hs.create_array(memory, shape=(20,), dtype="i8", chunks=(2,), overwrite=True)[...].any()


def test_the_directory_that_one_is_in_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it were exchanged for another, a process in it would lose its working directory."""
    monkeypatch.chdir(tmp_path)
    hs.create_array(".", data=np.arange(20), chunks=(2,))
    hs.create_array(".", data=np.ones(3), overwrite=True)
    assert hs.open_array(".")[...].tolist() == [1, 1, 1]
    assert not [entry.name for entry in tmp_path.iterdir() if entry.name.endswith("hyperslab-tmp")]
