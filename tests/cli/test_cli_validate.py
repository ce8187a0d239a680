"""`hyperslab validate`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import xml.etree.ElementTree as ET
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest


@pytest.fixture(scope="module")
def command() -> str:
    """Returns the command that the wheel installed beside the interpreter."""
    found = shutil.which("hyperslab", path=sysconfig.get_path("scripts"))
    assert found is not None, "the command is not installed"
    return found


@pytest.fixture
def ocean(tmp_path: Path) -> Path:
    root = hs.create_group(tmp_path / "ocean.zarr")
    sst = root.create_array("sst", shape=(4, 6), chunks=(1, 3), dtype="f4")
    sst[:3] = np.arange(1, 19).reshape(3, 6)
    return tmp_path / "ocean.zarr"


def run(command: str, *arguments: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [command, "validate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    return done.returncode, done.stdout, done.stderr


def test_a_whole_store(command: str, ocean: Path) -> None:
    code, out, err = run(command, "--decode", ocean)
    assert (code, err) == (0, "")
    assert "Zarr v3, 1 array, 1 group, 8 objects" in out
    assert out.endswith("0 errors, 0 warnings, 0 notes\n")


def test_missing_chunks(command: str, ocean: Path) -> None:
    code, out, _ = run(command, "--missing", ocean)
    assert code == 0
    assert "/sst  2 of 8 chunks absent\n    ██\n    ██\n    ██\n    ··\n" in out
    assert "absent: [3, 0] [3, 1]" in out
    code, out, _ = run(command, "--expect-complete", ocean)
    assert code == 1
    assert "absent-chunks" in out


def test_damage(command: str, ocean: Path, tmp_path: Path) -> None:
    (ocean / "sst/c/1/1").write_bytes(b"\x1b[2J")
    (ocean / "notes").write_bytes(b"")
    assert run(command, "--strict", ocean)[0] == 0
    code, out, err = run(command, "--decode", "--junit", tmp_path / "report.xml", ocean)
    assert (code, err) == (1, "")
    assert "error    damaged-chunk         /sst, chunk [1, 1], key 'sst/c/1/1'" in out
    assert "1 error, 0 warnings, 1 note" in out
    report = ET.parse(tmp_path / "report.xml").getroot()
    assert [case.attrib["type"] for case in report.iter("failure")] == ["damaged-chunk"]
    code, out, _ = run(command, "--decode", "--json", ocean)
    assert code == 1
    found = json.loads(out)["findings"]
    assert [(one["kind"], one["chunk"]) for one in found] == [
        ("damaged-chunk", [1, 1]),
        ("unowned-key", None),
    ]


def test_strict(command: str, ocean: Path) -> None:
    (ocean / "sst/c/9").mkdir()
    (ocean / "sst/c/9/0").write_bytes(b"x")
    assert run(command, ocean)[0] == 0
    code, out, _ = run(command, "--strict", ocean)
    assert code == 1
    assert "outside-grid" in out


def test_what_cannot_be_looked_at(command: str, ocean: Path) -> None:
    code, out, err = run(command, ocean, ocean / "none", ocean.parent / "none.zarr")
    assert code == 2
    assert err.count("error:") == 2
    assert "ocean.zarr" in out
    code, _, err = run(command)
    assert code == 2
    assert "Usage" in err


def test_costs(command: str, ocean: Path) -> None:
    code, out, _ = run(command, "--explain", "--decode", ocean)
    assert code == 0
    assert "2 nodes, 6 stored objects" in out
    assert "decode     6 requests" in out
    code, out, _ = run(command, "--explain", "--json", ocean)
    assert json.loads(out)[0]["decode_requests"] == 0
    assert run(command, "--explain", ocean / "none")[0] == 2


def test_a_map_of_absent_chunks(command: str, ocean: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    code, out, err = run(command, "--missing", "--png", picture, ocean)
    assert (code, err) == (0, "")
    assert "2 of 8 chunks absent" in out
    pixels = np.asarray(pytest.importorskip("PIL.Image").open(picture).convert("RGB"))
    stored, absent = [33, 102, 172], [178, 24, 43]
    # Below the title: four rows of two cells.
    assert pixels[40, 20].tolist() == stored
    assert pixels[26 + 3 * 32 + 5, 20].tolist() == absent
    assert (pixels == stored).all(axis=2).sum() == 3 * (pixels == absent).all(axis=2).sum()
    hs.open_array(ocean / "sst", mode="r+")[3] = 1
    code, _, err = run(command, "--png", tmp_path / "none.png", ocean)
    assert (code, err) == (0, "hyperslab: no chunk is absent: no picture was written\n")
    assert not (tmp_path / "none.png").exists()
    assert run(command, "--png", tmp_path / "no/folder.png", ocean)[0] == 0


def test_a_run_goes_on(command: str, ocean: Path, tmp_path: Path) -> None:
    journal = tmp_path / "checked"
    assert run(command, "--resume", journal, ocean)[0] == 2
    (ocean / "sst/c/1/1").write_bytes(b"xyz")
    first = run(command, "--decode", "--resume", journal, ocean)
    assert first[0] == 1
    assert len(journal.read_text().splitlines()) == 2
    assert run(command, "--decode", "--resume", journal, ocean) == first
    assert len(journal.read_text().splitlines()) == 2
    code, _, err = run(command, "--decode", "--resume", ocean / "zarr.json", ocean)
    assert code == 2
    assert "no journal" in err
