"""Opening and reading run few Python functions. Their number is the same on every machine."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

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
    assert frames(lambda: z[[0, 2], :]) == []
    assert frames(lambda: z[np.array([True, False, True])]) == []


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
def test_objects_run_no_python_of_the_package(codec: str) -> None:
    """Python's `json` runs once for all elements of a request."""
    values = [{"a": n, "b": [None, 1.5]} for n in range(1000)]
    array = np.empty(1000, object)
    array[:] = values
    z = hs.create_array(hs.MemoryStore(), shape=(1000,), dtype=object, zarr_format=2, filters=[{"id": codec}])
    for value in (values, array):
        assert frames(lambda value=value: z.__setitem__(..., value)) == []  # type: ignore[misc]
    assert frames(lambda: z[...]) == [] and z[...].tolist() == values

    used: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).parent.name == "json":
            used.append(frame.f_code.co_name)

    sys.setprofile(note)
    z[...] = values
    z[...]
    sys.setprofile(None)
    assert used == (["encode", "iterencode", "raw_decode"] if codec == "json2" else [])


def test_missing_elements_run_no_python_of_the_package() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4,), dtype=hs.optional_dtype("i4"))
    plain = hs.create_array(hs.MemoryStore(), shape=(4,), dtype="i4", fill_value=7)
    masked = np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 1])
    for value in ([1, None, 3, None], masked):
        assert frames(lambda value=value: z.__setitem__(..., value)) == []  # type: ignore[misc]
        assert frames(lambda: z[...]) == [] and z[...].tolist() == [1, None, 3, None]
    assert frames(lambda: plain.__setitem__(..., masked)) == []
    assert frames(lambda: plain.read(masked=True)) == []
    assert plain[...].tolist() == [1, 7, 3, 7] and plain.read(masked=True).tolist() == [1, None, 3, None]
