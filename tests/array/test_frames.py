"""Opening and reading run few Python functions. Their number is the same on every machine."""

from __future__ import annotations

from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest
from frames import frames


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(10.0)
    return path


@pytest.mark.parametrize("kind", [str, Path])
def test_open_look_up_close(path: Path, kind: type) -> None:
    place = kind(path)

    def work() -> None:
        file = hs.File(place)
        file["a"]
        file.close()

    def work_with() -> None:
        with hs.File(place) as file:
            file["a"]

    assert len(frames(work)) <= 11
    assert len(frames(work_with)) <= (12 if kind is str else 13)


def test_a_read_of_one_chunk_runs_no_python(path: Path) -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.arange(12).reshape(3, 4), chunks=(3, 4))
    array = hs.File(path)["a"]
    assert frames(lambda: z[...]) == []
    assert frames(lambda: z[1:, 2]) == []
    assert frames(lambda: array[...]) == []
    assert frames(lambda: array[3]) == []
