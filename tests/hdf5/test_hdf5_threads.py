"""Threads, and threads of several processes, change objects of their own in one HDF5 file.

Each makes, writes, resizes, reads and deletes datasets of all kinds, while flushes run beside. At the end the
file has what each of them did: read by h5py, and by us.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import own_objects
import pytest
from own_objects import Changes
from support import examples


def check(path: Path, models: dict[str, Any]) -> None:
    for package in (h5py, hs):
        with package.File(path, "r") as file:
            own_objects.check(file, models)


@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_threads_that_change_objects_of_their_own(libver: str, tmp_path: Path) -> None:
    for case in range(examples(6)):
        seed = random.randrange(10**9)
        print("seed", seed)
        path = tmp_path / f"{case}.h5"
        models: dict[str, Any] = {}
        # The first session makes the file, the second changes a file that is there.
        for session in range(2):
            with hs.File(path, "a", libver=libver) as file:
                changes = [Changes(file, f"s{session}g{number}", seed + number) for number in range(3)]
                own_objects.change(file, changes, flushes=seed % 4 != 0)
            models |= {one.name: one.model for one in changes}
            check(path, models)


@pytest.mark.parametrize("package", [h5py, hs], ids=["file of h5py", "our file"])
def test_threads_of_processes_that_change_objects_of_their_own(package: Any, tmp_path: Path) -> None:
    for case in range(examples(4)):
        seed = random.randrange(10**9)
        print("seed", seed)
        path = tmp_path / f"{case}.h5"
        package.File(path, "w").close()
        command = [sys.executable, own_objects.__file__, str(path)]
        processes = [
            subprocess.Popen([*command, name, str(seed + 100 * number), "2"], stdout=subprocess.PIPE)
            for number, name in enumerate("abc")
        ]
        models: dict[str, Any] = {}
        for process in processes:
            printed, _ = process.communicate(timeout=300)
            assert process.returncode == 0
            models |= pickle.loads(printed)
        check(path, models)
