"""``hyperslab pyramid``, and ``--dry-run`` of commands that write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest

VALUES = np.arange(64 * 48, dtype="f4").reshape(64, 48)


def _run(*arguments: str | Path, code: int = 0) -> str:
    command = [sys.executable, "-m", "hyperslab", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == code, run.stderr
    return run.stdout if code == 0 else run.stderr


@pytest.fixture
def image(tmp_path: Path) -> Path:
    group = hs.create_group(tmp_path / "image.zarr")
    array = group.create_array(
        "0", shape=VALUES.shape, dtype="f4", chunks=(16, 16), dimension_names=("y", "x")
    )
    array[:] = VALUES
    return tmp_path / "image.zarr"


def test_levels_beside_the_array(image: Path) -> None:
    expected = hs.pyramid(hs.open(image / "0"), hs.MemoryStore())
    shown = _run("pyramid", image / "0", "--dry-run")
    assert shown.splitlines() == [
        "would write level 1 to the array's group: (32, 24), 3.0 KiB decoded",
        "would write level 2 to the array's group: (16, 12), 768 bytes decoded",
    ]
    assert list(hs.open_group(image)) == ["0"]
    assert _run("pyramid", image / "0").startswith("wrote 2 levels to file://")
    group = hs.open_group(image, mode="r")
    for level in ("0", "1", "2"):
        np.testing.assert_array_equal(group[level][:], expected[level][:])
    assert group.attrs["ome"]["multiscales"][0]["datasets"][2]["path"] == "2"
    assert "exists already" in _run("pyramid", image / "0", code=1)


def test_levels_of_a_file_in_another_group(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["inner/x"] = VALUES
    target = tmp_path / "levels.zarr"
    _run(
        "pyramid",
        tmp_path / "a.h5/inner/x",
        target,
        "--factor",
        "4,2",
        "--levels",
        "2",
        "--method",
        "max",
        "-q",
    )
    group = hs.open_group(target, mode="r")
    np.testing.assert_array_equal(group["0"][:], VALUES)
    np.testing.assert_array_equal(group["1"][:], VALUES.reshape(16, 4, 24, 2).max((1, 3)))
    assert "expected a group of Zarr" in _run("pyramid", tmp_path / "a.h5/inner/x", code=2)


def test_factors_by_name_and_geozarr(image: Path, tmp_path: Path) -> None:
    target = tmp_path / "geo.zarr"
    _run("pyramid", image / "0", target, "--factor", "x=3", "--levels", "2", "--metadata", "geozarr")
    group = hs.open_group(target, mode="r")
    assert group["1"].shape == (64, 16)
    assert "multiscales" in group.attrs
    assert "ome" not in group.attrs
    assert "--factor: " in _run("pyramid", image / "0", target, "--factor", "z=3", code=2)
    assert "lat=2,lon=2" in _run("pyramid", image / "0", target, "--factor=-1", code=2)


def test_an_index_that_is_not_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = VALUES
    index = tmp_path / "a.json"
    assert _run("index", tmp_path / "a.h5", "-o", index, "--dry-run").startswith(f"would write '{index}': ")
    assert not index.exists()
    _run("index", tmp_path / "a.h5", "-o", index)
    assert "would replace" in _run("index", tmp_path / "a.h5", "-o", index, "-n")
