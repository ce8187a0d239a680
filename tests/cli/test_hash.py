"""`hyperslab hash`: lines, lists that are checked, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest


def run(folder: Path, *arguments: str, code: int = 0, text: str = "") -> tuple[str, str]:
    """Runs the command in a folder, and returns what it prints to both outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", "hash", *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = hs.create_group(tmp_path / "ocean.zarr", attributes={"title": "ocean"})
    root.create_array("sst", data=np.arange(12_000.0).reshape(60, 200), chunks=(7, 100))
    root.create_array("forcing/wind", data=np.arange(5))
    return tmp_path


def test_lines_are_hashes_and_paths(folder: Path) -> None:
    found = hs.content_hash(folder / "ocean.zarr")
    hs.copy(folder / "ocean.zarr", folder / "copy.zarr", zarr_format=2, chunks={})
    out, _ = run(folder, "ocean.zarr", "copy.zarr")
    assert out == f"{found.hash}  ocean.zarr\n{found.hash}  copy.zarr\n"
    out, _ = run(folder, "ocean.zarr/", "--all")
    listed = {**found.arrays, **found.groups}
    names = ["ocean.zarr/", "ocean.zarr/forcing", "ocean.zarr/forcing/wind", "ocean.zarr/sst"]
    paths = ["", "forcing", "forcing/wind", "sst"]
    assert out == "".join(f"{listed[path]}  {name}\n" for name, path in zip(names, paths, strict=True))
    out, _ = run(folder, "ocean.zarr/sst")
    assert out == f"{found.arrays['sst']}  ocean.zarr/sst\n"


@pytest.mark.parametrize("form", ["--all", "--json"])
def test_lists_are_checked(folder: Path, form: str) -> None:
    listed, _ = run(folder, "ocean.zarr", form)
    (folder / "list").write_text(listed)
    out, errors = run(folder, "--check", "list")
    names = ["ocean.zarr", "ocean.zarr/forcing", "ocean.zarr/forcing/wind", "ocean.zarr/sst"]
    assert (out.splitlines(), errors) == ([f"{name}: OK" for name in names], "")
    assert run(folder, "--check", "list", "--quiet") == ("", "")
    assert run(folder, "--check", "-", text=listed)[0] == out
    # Another value: the array and the groups above it differ.
    hs.open(folder / "ocean.zarr/sst", mode="r+")[3, 3] = -1
    out, errors = run(folder, "--check", "list", "-q", code=1)
    assert out.splitlines() == ["ocean.zarr: differs", "ocean.zarr/sst: differs"]
    assert errors == "hyperslab: error: 2 of 4 hashes differ\n"
    del hs.open_group(folder / "ocean.zarr", mode="r+")["forcing"]["wind"]
    out, _ = run(folder, "--check", "list", "-q", code=1)
    assert "ocean.zarr/forcing/wind: is no longer there\n" in out
    # Unreadable paths give another exit code.
    (folder / "ocean.zarr").rename(folder / "moved.zarr")
    out, errors = run(folder, "--check", "list", "-q", code=2)
    assert "ocean.zarr: could not look: there is no" in out
    assert errors == "hyperslab: error: 4 of 4 paths could not be read\n"


def test_what_is_no_list(folder: Path) -> None:
    _, errors = run(folder, "--check", "none", code=2)
    assert "cannot read 'none'" in errors
    (folder / "list").write_text("abc  ocean.zarr\n")
    _, errors = run(folder, "--check", "list", code=2)
    assert "cannot read 'list': line 1 is not a hash, two spaces and a path" in errors
    _, errors = run(folder, "none.zarr", code=2)
    assert "there is no 'none.zarr'" in errors
    run(folder, "--check", "list", "--json", code=2)


def test_damaged_data_is_not_a_difference(folder: Path) -> None:
    listed, _ = run(folder, "ocean.zarr")
    (folder / "ocean.zarr" / "sst" / "c" / "0" / "0").write_bytes(b"damaged")
    out, _ = run(folder, "--check", "-", text=listed, code=2)
    assert "ocean.zarr: could not look: " in out
    run(folder, "ocean.zarr", code=2)


def test_appended_rows(folder: Path) -> None:
    before, _ = run(folder, "ocean.zarr", "--json")
    (folder / "monday.json").write_text(before)
    sst = hs.open(folder / "ocean.zarr/sst", mode="r+")
    sst.append(np.ones((30, 200)))
    after, _ = run(folder, "ocean.zarr", "--json", "--appended-to", "monday.json")
    assert after == run(folder, "ocean.zarr", "--json")[0]
    assert json.loads(after)["hashes"][0]["hash"] == hs.content_hash(folder / "ocean.zarr").hash
    # Earlier chunks are not read.
    for chunk in (folder / "ocean.zarr/sst/c").glob("[0-5]"):
        for each in chunk.iterdir():
            each.write_bytes(b"damaged")
    assert run(folder, "ocean.zarr", "--json", "--appended-to", "monday.json")[0] == after
    _, errors = run(folder, "ocean.zarr/sst", "--appended-to", "monday.json", code=2)
    assert "'monday.json' has no hash of \"ocean.zarr/sst\"" in errors


def test_names_with_line_breaks(folder: Path) -> None:
    place = folder / "a\nb.zarr"
    hs.create_array(place, data=[1, 2])
    listed, _ = run(folder, place.name)
    assert listed == f"\\{hs.content_hash(place).hash}  a\\nb.zarr\n"
    run(folder, "--check", "-", text=listed)
