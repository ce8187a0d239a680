"""Arrays with few stored chunks: a listing tells which exist, and is never wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

SIDE, CHUNK = 2048, 32
# Seconds. A directory that has changed within this time is not trusted.
SETTLED = 2.3

KEYS: list[dict[str, Any]] = [
    {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "."}},
    {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    {"zarr_format": 3, "chunk_key_encoding": {"name": "default", "separator": "."}},
    {"zarr_format": 3, "chunk_key_encoding": {"name": "default", "separator": "/"}},
]


def make(path: Path, fill: float, keys: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Writes an array of 4096 chunks and stores five of them. Returns its values."""
    group = zarr.create_group(path, zarr_format=keys["zarr_format"])
    array = group.create_array(
        "a",
        shape=(SIDE, SIDE),
        chunks=(CHUNK, CHUNK),
        dtype="f4",
        fill_value=fill,
        chunk_key_encoding=keys["chunk_key_encoding"],
    )
    values = np.full((SIDE, SIDE), fill, "f4")
    for n, (i, j) in enumerate([(0, 0), (5, 1000), (1030, 3), (2047, 2047), (700, 701)]):
        where = tuple(slice(at // CHUNK * CHUNK, at // CHUNK * CHUNK + CHUNK) for at in (i, j))
        values[where] = np.arange(n, n + CHUNK * CHUNK, dtype="f4").reshape(CHUNK, CHUNK)
        array[where] = values[where]
    return values


@pytest.mark.parametrize("fill", [0.0, 1.5])
def test_values_now_and_later(tmp_path: Path, fill: float) -> None:
    expected = [make(tmp_path / str(n), fill, keys) for n, keys in enumerate(KEYS)]
    arrays = [hs.open_array(tmp_path / str(n) / "a") for n in range(len(KEYS))]
    groups = [hs.open_group(tmp_path / str(n)) for n in range(len(KEYS))]
    for wait in (0, SETTLED):
        time.sleep(wait)
        for values, array, group in zip(expected, arrays, groups, strict=True):
            np.testing.assert_array_equal(array[:], values)
            np.testing.assert_array_equal(group["a"][::-1, 3:], values[::-1, 3:])


def appears_late(path: Path) -> None:
    zarr.open_array(path)[64:96, 128:160] = 7


def goes(path: Path) -> None:
    (path / "c/0/0").unlink()


def lies_elsewhere(path: Path) -> None:
    (path / "c/60").symlink_to(path / "c/0")


@pytest.mark.parametrize("change", [appears_late, goes, lies_elsewhere])
def test_changes_show_at_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    make(tmp_path, 0, KEYS[3])
    array = hs.open_array(tmp_path / "a")
    time.sleep(SETTLED)
    array[:]
    change(tmp_path / "a")
    for wait in (0, SETTLED):
        time.sleep(wait)
        np.testing.assert_array_equal(array[:], zarr.open_array(tmp_path / "a")[:])
