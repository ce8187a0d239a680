"""The filter scale-offset: our chunks have the same bytes as h5py's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import h5
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = ["i1", "u1", "i2", ">u2", "<i4", ">i4", "u4", "i8", ">i8", "u8"]


def stored(m: Any, values: np.ndarray[Any, Any], **keywords: Any) -> tuple[Any, ...]:
    """Returns the parameters of the filter, the stored chunks, and the elements that h5py reads."""
    with m.File.in_memory() as file:
        made = file.create_dataset("a", values.shape, values.dtype, chunks=(min(7, len(values)),), **keywords)
        made[...] = values
        file.flush()
        image = file.id.get_file_image()
    with h5py.File.in_memory(image) as file:
        made = file["a"]
        chunks = [made.id.read_direct_chunk((at,)) for at in range(0, len(values), 7)]
        return made.id.get_create_plist().get_filter(0), chunks, made[...].tobytes()


def check(values: np.ndarray[Any, Any], **keywords: Any) -> None:
    ours, theirs = (stored(m, values, **keywords) for m in (h5, h5py))
    assert ours == theirs


@settings(max_examples=150)
@given(data=st.data())
def test_integers(data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(INTEGERS)))
    info = np.iinfo(dtype)
    low = data.draw(st.integers(info.min, info.max))
    high = data.draw(st.sampled_from([low, min(low + 9, info.max), min(low + 700, info.max), info.max]))
    length = data.draw(st.integers(1, 20))
    values = data.draw(st.lists(st.integers(low, high), min_size=length, max_size=length))
    fill = data.draw(st.sampled_from([None, 0, low, high, values[0]]))
    bits = data.draw(st.one_of(st.just(0), st.just(True), st.integers(1, 8 * dtype.itemsize)))
    check(np.array(values, dtype), scaleoffset=bits, fillvalue=fill)


@settings(max_examples=150)
@given(data=st.data())
def test_floats(data: Any) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(["f4", ">f4", "f8", ">f8"])))
    width = 8 * dtype.itemsize
    scale = data.draw(st.sampled_from([1.0, 100.0, 1e5]))
    number = st.floats(-scale, scale, width=32 if width == 32 else 64)
    values = data.draw(st.lists(number, min_size=1, max_size=20))
    fill = data.draw(st.sampled_from([None, 0.0, values[0], 1e6]))
    check(np.array(values, dtype), scaleoffset=data.draw(st.integers(0, 4)), fillvalue=fill)


@pytest.mark.parametrize("dtype", ["f4", ">f8"])
def test_numbers_that_cannot_be_scaled_stay(dtype: str) -> None:
    values = np.array([1.5, np.nan, np.inf, -2.25, 1e30, 0, 7, 3], dtype)
    _, _, found = stored(h5, values, scaleoffset=2)
    assert np.array_equal(np.frombuffer(found, dtype), values, equal_nan=True)


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_other_filters_and_parts(tmp_path: Path, libver: str) -> None:
    values = np.arange(1000, dtype="i4").reshape(20, 50) % 37
    for m in (h5, h5py):
        with m.File(tmp_path / m.__name__, "w", libver=libver) as file:
            made = file.create_dataset(
                "a", values.shape, "i4", chunks=(8, 16), scaleoffset=True, shuffle=True, compression="gzip"
            )
            made[:, 3:40] = values[:, 3:40]
            made[5] = values[5]
            file.create_dataset_like("like", made)
            assert made.scaleoffset == 0
    expected = np.zeros_like(values)
    expected[:, 3:40], expected[5] = values[:, 3:40], values[5]
    for m in (h5, h5py):
        for n in (h5, h5py):
            with n.File(tmp_path / m.__name__) as file:
                assert np.array_equal(file["a"][:], expected)
                assert file["like"].scaleoffset == 0


def test_what_is_refused() -> None:
    with h5.File.in_memory() as file, pytest.raises(ValueError, match="at most 32 bits"):
        file.create_dataset("a", (5,), "i4", scaleoffset=40)
    for m in (h5, h5py):
        with m.File.in_memory() as file:
            for dtype, scaleoffset, error in (
                ("i4", -1, ValueError),
                ("f4", True, ValueError),
                ("f2", 2, ValueError),
                ("S3", 2, TypeError),
                ("?", 2, TypeError),
            ):
                with pytest.raises(error):
                    file.create_dataset("a", (5,), dtype, scaleoffset=scaleoffset)[...] = 0
                if "a" in file:
                    del file["a"]


@pytest.mark.parametrize("chunks", [(5, 4), (16, 30)])
def test_copies_with_other_chunks(chunks: tuple[int, int], tmp_path: Path) -> None:
    values = np.arange(480, dtype="i4").reshape(16, 30)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(8, 16), scaleoffset=True, shuffle=True)
    hs.copy(tmp_path / "a.h5", tmp_path / "b.h5", chunks=chunks)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["a"].chunks == chunks and file["a"].scaleoffset == 0
        np.testing.assert_array_equal(file["a"][...], values)
