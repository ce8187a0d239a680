"""Files that killed programs of h5py left come back, or their losses are named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
import torn_files
from support import examples

LIBVERS: dict[str, Any] = {"earliest": "earliest", "v110": ("earliest", "v110"), "latest": "latest"}


@pytest.mark.parametrize("libver", LIBVERS)
def test_killed_at_any_write(tmp_path: Path, libver: str) -> None:
    """After each write of the HDF5 library."""
    sums = torn_files.run(range(examples(6)), LIBVERS[libver], tmp_path, 40)
    print(libver, {name: value for name, value in sums.items() if name != "wrong"})
    assert sums["wrong"] == []
    assert sums["after"] == sums["files"] > 0


@pytest.mark.parametrize("libver", LIBVERS)
def test_power_cut(tmp_path: Path, libver: str) -> None:
    """Without some of the writes since the last flush, h5py reads what comes back."""
    sums = torn_files.run(range(100, 100 + examples(4)), LIBVERS[libver], tmp_path, 25, torn_files.unordered)
    print(libver, sums)
    assert sums["after"] == sums["files"] > 0
    assert sums["wrong"] == []


def test_a_file_that_looks_closed(tmp_path: Path) -> None:
    """Only the user knows that its program was killed: two chunks may have changed places."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("x", data=np.arange(40), chunks=(10,), compression="gzip")
        file["plain"] = np.arange(10)
    assert not hs.repair(path).doubtful
    assert [loss.path for loss in hs.repair(path, killed=True).doubtful] == ["/x"]


KILLED = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w", libver=sys.argv[2]) as file:
    options = {"maxshape": (None, 64), "chunks": (16, 64), "compression": "gzip"}
    rows = file.create_dataset("rows", (0, 64), "i8", **options)
    for number in range(100_000):
        rows.resize(len(rows) + 16, axis=0)
        rows[-16:] = np.arange(16 * 64).reshape(16, 64) + number * 1024
        file.require_group(f"g{number % 50}").attrs["last"] = number
        if number % 20 == 0:
            file.flush()
            print(number, flush=True)
"""


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_really_killed(tmp_path: Path, libver: str) -> None:
    for number in range(examples(2)):
        path, new = tmp_path / f"{number}.h5", tmp_path / f"{number}.new.h5"
        with subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), libver], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            flushed = [int(writer.stdout.readline()) for _ in range(2 + number % 5)][-1]
            time.sleep(0.001 * (number % 7))
            os.kill(writer.pid, signal.SIGKILL)
            flushed = max([flushed, *(int(line) for line in writer.stdout.read().split())])
        plan = hs.repair(path)
        hs.repair(path, plan, to=new if plan.needs_target else None)
        with h5py.File(new if plan.needs_target else path, "r") as file:
            found = file["rows"][: 16 * (flushed + 1)]
        expected = np.arange(16 * 64 * (flushed + 1)).reshape(-1, 64)
        lost = {loss.chunk[0] for loss in plan.lost if loss.path == "/rows" and loss.chunk is not None}
        for chunk in range(flushed + 1):
            rows = slice(16 * chunk, 16 * chunk + 16)
            if chunk in lost:
                assert not found[rows].any()
            else:
                np.testing.assert_array_equal(found[rows], expected[rows])


def test_plans(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = np.arange(10)
        file.flush()
        open_state = path.read_bytes()
    whole = path.read_bytes()
    assert not hs.repair(path)
    path.write_bytes(open_state)
    with pytest.raises(OSError):
        h5py.File(path, "r")
    plan = hs.repair(path)
    assert [action.kind for action in plan.actions][-1] == "superblock"
    assert not plan.lost and not plan.needs_target
    with pytest.raises(hs.HyperslabError, match="--dry-run"):
        hs.repair(path, "000000000000")
    assert path.read_bytes() == open_state
    hs.repair(path, plan)
    assert hs.validate(path)
    with h5py.File(path, "r") as file:
        np.testing.assert_array_equal(file["x"][...], np.arange(10))
    assert (tmp_path / "a.h5.quarantine").is_dir()
    assert hs.undo_repair(path)
    assert path.read_bytes() == open_state
    assert not hs.undo_repair(path)
    assert not (tmp_path / "a.h5.quarantine").exists()
    # A copy that was cut has lost something.
    path.write_bytes(whole[: len(whole) - 40])
    plan = hs.repair(path)
    assert plan.needs_target and plan.lost
    with pytest.raises(hs.HyperslabError, match="--to NEW"):
        hs.repair(path, plan)
    hs.repair(path, plan, to=tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5", "r") as file:
        assert set(file) <= {"x"}
    assert path.read_bytes() == whole[: len(whole) - 40]


def test_files_of_hyperslab_need_no_repair(tmp_path: Path) -> None:
    """A file in any moment of a write of hyperslab is whole."""
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        file.create_dataset("rows", (0,), "f8", maxshape=(None,), chunks=(10,))
        for number in range(20):
            file["rows"].append(np.full(7, number, "f8"))
            file.flush()
            (tmp_path / "b.h5").write_bytes(path.read_bytes())
            plan = hs.repair(tmp_path / "b.h5")
            assert not plan and not plan.lost
