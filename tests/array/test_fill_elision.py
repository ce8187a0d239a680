"""A chunk with only the fill value is not stored. A stored one is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases, selections
from support import as_view, assert_same, chunk_files, examples, scratch


def expected_chunks(
    case: Case, values: np.ndarray[Any, Any], fill: np.ndarray[Any, Any]
) -> set[tuple[int, ...]]:
    """Returns the chunks with any bit that differs from the fill value."""
    grid = [-(-n // c) for n, c in zip(case.shape, case.chunks)]
    wanted = set()
    for index in np.ndindex(*grid):
        part = values[(*(slice(i * c, (i + 1) * c) for i, c in zip(index, case.chunks)), ...)]
        if part.tobytes() != fill.tobytes() * part.size:
            wanted.add(index)
    return wanted


def key_of(case: Case, index: tuple[int, ...]) -> str:
    if not index:
        return "c" if case.keys == "default" else "0"
    path = case.separator.join(map(str, index))
    return f"c{case.separator}{path}" if case.keys == "default" else path


@given(case=cases(), data=st.data())
@settings(max_examples=examples(300))
def test_chunks_on_disk(case: Case, data: st.DataObject) -> None:
    fill = np.zeros((), case.opened_dtype)
    if case.fill is not None:
        fill[...] = np.asarray(case.fill, case.opened_dtype)
    elif case.dtype.kind in "mM":
        fill = (
            np.array([-(2**63)], "i8")
            .astype(np.dtype("i8").newbyteorder(case.opened_dtype.byteorder))
            .view(case.opened_dtype)[0:1]
            .reshape(())
        )
    with scratch() as root:
        z = hs.create_array(root / "a", **case.arguments())
        model = np.broadcast_to(fill, case.shape).copy()
        assert chunk_files(root) == {}
        assert_same(z[...], model, "empty")
        for _ in range(4):
            selection = data.draw(selections(case.shape))
            value = data.draw(st.sampled_from(["fill", "data"]))
            part = fill if value == "fill" else case.values[as_view(selection)]
            model[selection] = part
            z[selection] = part
            stored = {f"a/{key_of(case, index)}" for index in expected_chunks(case, model, fill)}
            assert set(chunk_files(root)) == stored
            assert z.nchunks_initialized == len(stored)
        assert_same(z[...], model)
        z[...] = fill
        assert chunk_files(root) == {}
        assert z.nchunks_initialized == 0
        assert_same(z[...], np.broadcast_to(fill, case.shape))


def bits(text: str, dtype: str) -> Any:
    return np.array([int(text, 16)], f"u{np.dtype(dtype).itemsize}").view(dtype)[0]


ALIKE: list[tuple[str, Any, Any]] = [
    ("f4", 0.0, -0.0),
    ("f4", -0.0, 0.0),
    ("f8", np.nan, bits("7ff8000000000001", "f8")),
    ("f4", bits("7fc00001", "f4"), np.nan),
    ("f4", bits("7fc00001", "f4"), bits("7fc00002", "f4")),
    ("f2", bits("fe00", "f2"), bits("7e00", "f2")),
    ("c8", complex(0.0, -0.0), complex(0.0, 0.0)),
    ("c16", complex(np.nan, 0.0), complex(np.nan, -0.0)),
]


@pytest.mark.parametrize(
    "compressors", [None, [{"name": "zstd", "configuration": {"level": 1}}]], ids=["plain", "zstd"]
)
@pytest.mark.parametrize(("dtype", "fill", "other"), ALIKE)
def test_values_that_look_equal_are_not_the_fill_value(
    tmp_path: Path, dtype: str, fill: Any, other: Any, compressors: Any
) -> None:
    fill, other = np.array([fill], dtype), np.array([other], dtype)
    assert fill.tobytes() != other.tobytes()
    z = hs.create_array(
        tmp_path / "a", shape=(40,), chunks=(20,), dtype=dtype, fill_value=fill[0], compressors=compressors
    )
    z[...] = fill[0]
    assert chunk_files(tmp_path) == {}
    z[3] = other[0]
    assert set(chunk_files(tmp_path)) == {"a/c/0"}
    again = hs.open_array(tmp_path / "a", mode="r+")
    expected = np.repeat(fill, 40)
    expected[3] = other[0]
    assert_same(again[...], expected)
    assert np.asarray(again.fill_value, dtype).tobytes() == fill.tobytes()
    again[:] = other[0]
    assert set(chunk_files(tmp_path)) == {"a/c/0", "a/c/1"}
    assert_same(again[...], np.repeat(other, 40))
    again[:20] = np.repeat(fill, 20)
    assert set(chunk_files(tmp_path)) == {"a/c/1"}


def write_empty_everywhere(tmp_path: Path, z: hs.Array, **options: Any) -> set[str]:
    z.write(..., 0, **options) if options else z.__setitem__(..., 0)
    return set(chunk_files(tmp_path))


def test_write_empty_chunks_of_a_call(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype="i4")
    assert write_empty_everywhere(tmp_path, z, write_empty_chunks=True) == {"a/c/0", "a/c/1", "a/c/2"}
    assert_same(z[...], np.zeros(5, "i4"))
    assert z.nchunks_initialized == 3
    assert write_empty_everywhere(tmp_path, z, write_empty_chunks=False) == set()


def test_write_empty_chunks_of_the_settings(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype="i4")
    for name in ("write_empty_chunks", "array.write_empty_chunks"):
        with hs.config.set({name: True}):
            opened = hs.open_array(tmp_path / "a", mode="r+")
        assert write_empty_everywhere(tmp_path, opened) == {"a/c/0", "a/c/1", "a/c/2"}
        # An argument of the call takes precedence.
        assert write_empty_everywhere(tmp_path, opened, write_empty_chunks=False) == set()
        assert write_empty_everywhere(tmp_path, z) == set()


def test_write_empty_chunks_of_an_array(tmp_path: Path) -> None:
    """zarr-python's ``config`` argument."""
    stored = {"a/c/0", "a/c/1", "a/c/2"}
    z = hs.create_array(
        tmp_path / "a", shape=(5,), chunks=(2,), dtype="i4", config={"write_empty_chunks": True}
    )
    assert write_empty_everywhere(tmp_path, z) == stored
    # The setting belongs to the handle, not to the stored array.
    assert write_empty_everywhere(tmp_path, hs.open_array(tmp_path / "a", mode="r+")) == set()
    opened = hs.open_array(tmp_path / "a", mode="r+", config={"write_empty_chunks": True})
    assert write_empty_everywhere(tmp_path, opened) == stored


def test_part_of_a_chunk_becomes_the_fill_value(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(6,), chunks=(4,), dtype="i4", fill_value=5)
    z[:] = [1, 5, 5, 5, 2, 3]
    assert set(chunk_files(tmp_path)) == {"a/c/0", "a/c/1"}
    z[0] = 5
    assert set(chunk_files(tmp_path)) == {"a/c/1"}
    z[4:] = 5
    assert chunk_files(tmp_path) == {}


def test_beyond_the_edge_a_chunk_may_hold_what_others_wrote(tmp_path: Path) -> None:
    """Outside the array, an edge chunk may hold rows that somebody else has appended."""
    z = hs.create_array(tmp_path / "a", shape=(8,), chunks=(4,), dtype="i4", compressors=None)
    z[:] = np.arange(1, 9)
    other = hs.open_array(tmp_path / "a", mode="r+")
    z.resize((6,))
    z[4:] = 0
    assert set(chunk_files(tmp_path)) == {"a/c/0", "a/c/1"}
    # Removed elements do not come back, and a chunk with only the fill value is deleted.
    z.resize((8,))
    assert z[4:].tolist() == other[4:].tolist() == [0] * 4
    z[4:] = 0
    assert set(chunk_files(tmp_path)) == {"a/c/0"}
    assert_same(z[...], np.array([1, 2, 3, 4, 0, 0, 0, 0], "i4"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_stores_the_same_chunks(
    tmp_path: Path, zarr_format: Any, rng: np.random.Generator
) -> None:
    data = rng.integers(0, 3, (20, 30)).astype("i4") * (rng.random((20, 30)) < 0.02)
    for name, library in [("ours", hs), ("theirs", zarr)]:
        z = library.create_array(
            tmp_path / name, shape=data.shape, chunks=(4, 5), dtype="i4", zarr_format=zarr_format
        )
        z[...] = 1
        z[...] = data
    ours, theirs = (set(chunk_files(tmp_path / name)) for name in ("ours", "theirs"))
    assert ours == theirs
    assert 0 < len(ours) < 30
