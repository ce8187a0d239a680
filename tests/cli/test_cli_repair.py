"""`hyperslab repair`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest


def run(*arguments: object) -> tuple[int, str, str]:
    """Runs the command that the wheel installed beside the interpreter."""
    command = shutil.which("hyperslab", path=sysconfig.get_path("scripts"))
    assert command is not None, "the command is not installed"
    done = subprocess.run(
        [command, "repair", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A file whose writer was killed."""
    path = tmp_path / "torn.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = np.arange(10)
        file.flush()
        state = path.read_bytes()
    path.write_bytes(state)
    return path


def test_a_plan_and_its_way_back(torn: Path) -> None:
    before = torn.read_bytes()
    code, _, error = run(torn)
    assert code == 2
    assert "--dry-run" in error
    code, out, _ = run("--dry-run", torn)
    assert code == 1
    assert "marked as open for writing" in out
    found = re.search(r"--plan ([0-9a-f]{12})", out)
    assert found is not None
    code, _, error = run(torn, "--plan", "0" * 12)
    assert code == 2
    assert found[1] in error
    assert torn.read_bytes() == before
    code, _, _ = run(torn, "--plan", found[1])
    assert code == 0
    with h5py.File(torn, "r") as file:
        assert file["x"][9] == 9
    code, out, _ = run("--dry-run", torn)
    assert (code, "nothing to repair" in out) == (0, True)
    code, out, _ = run("--undo", torn)
    assert (code, "as it was" in out) == (0, True)
    assert torn.read_bytes() == before
    code, out, _ = run("--undo", torn)
    assert (code, "nothing to undo" in out) == (0, True)


def test_json(torn: Path) -> None:
    code, out, _ = run("--dry-run", "--json", torn)
    assert code == 1
    plan = json.loads(out)
    assert plan["hash"] == hs.repair(torn).hash
    assert plan["actions"][-1]["kind"] == "superblock"
    assert (plan["lost"], plan["needs_target"]) == ([], False)


def test_a_new_file(torn: Path) -> None:
    torn.write_bytes(torn.read_bytes()[:-30])
    code, out, _ = run("--dry-run", torn)
    assert code == 1
    assert "--to NEW" in out
    assert "lost" in out
    found = re.search(r"--plan ([0-9a-f]{12})", out)
    assert found is not None
    new = torn.with_name("new.h5")
    assert run(torn, "--plan", found[1])[0] == 2
    assert run(torn, "--plan", found[1], "--to", new)[0] == 0
    with h5py.File(new, "r") as file:
        assert set(file) <= {"x"}
