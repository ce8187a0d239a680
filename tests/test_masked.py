"""Masked arrays: missing elements are those that equal the fill value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

KINDS = ["i1", "u2", "i4", "u8", "f2", "f4", "f8", ">f4", ">i4", "c8", "?", "M8[s]", "m8[ms]", "S3", "U2"]


def missing(values: np.ndarray[Any, Any], fill: Any) -> np.ndarray[Any, Any]:
    """What numpy.ma would mask, with not-a-number and not-a-time."""
    return (values == fill) | ((values != values) & (fill != fill))


@given(data=st.data())
def test_what_equals_the_fill_value_is_masked(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(KINDS)))
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=6))
    elements = hnp.from_dtype(dtype)
    fill = data.draw(elements)
    values = data.draw(hnp.arrays(dtype, shape, elements=st.one_of(elements, st.just(fill))))
    z = hs.create_array(
        hs.MemoryStore(),
        data=values,
        chunks=tuple(max(1, n // 2) for n in shape),
        fill_value=fill,
        zarr_format=2,
    )
    selection = data.draw(hnp.basic_indices(shape, min_dims=1, allow_ellipsis=False))
    found = z.read(selection, masked=True)
    assert isinstance(found, np.ma.MaskedArray) and found.dtype == dtype
    wanted = values[selection]
    assert np.array_equal(np.ma.getmaskarray(found), missing(wanted, np.asarray(fill, dtype)))
    assert found.data.tobytes() == np.ascontiguousarray(wanted).tobytes()
    out = np.zeros(wanted.shape, dtype)
    into = z.read(selection, out=out, masked=True)
    assert np.array_equal(np.ma.getmaskarray(into), np.ma.getmaskarray(found))
    assert np.shares_memory(into.data, out) or out.size == 0
    # And back.
    mask = data.draw(hnp.arrays(bool, shape))
    z[...] = np.ma.MaskedArray(values, mask)
    stored = np.where(mask, np.asarray(fill, dtype), values)
    assert z[...].tobytes() == stored.astype(dtype).tobytes()


def test_masked_values_of_views_and_coordinates() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(2, 2), dtype="i4", fill_value=9)
    values = np.ma.MaskedArray([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
    z.lazy.T.write(values)
    assert z[...].tolist() == [[1, 3], [9, 4]]
    z.vindex[[[0, 0], [1, 1]], [[0, 1], [0, 1]]] = values.reshape(4)
    assert z[...].tolist() == [[1, 9], [3, 4]]


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_results(dtype: str, order: Any) -> None:
    values = np.random.default_rng(0).integers(0, 5, (700, 1000)).astype(dtype)
    z = hs.create_array(
        hs.MemoryStore(), data=values, chunks=(100, 300), fill_value=3, order=order, zarr_format=2
    )
    found = z.read(masked=True)
    assert np.array_equal(np.ma.getmaskarray(found), values == 3)
    assert found.mean() == pytest.approx(values[values != 3].mean())
    assert found.fill_value == 3


def test_not_a_number_masks_every_one() -> None:
    values = np.array([1, np.nan, -np.nan, np.inf, 0], "f8")
    z = hs.create_array(hs.MemoryStore(), data=values, fill_value=np.nan)
    assert np.ma.getmaskarray(z.read(masked=True)).tolist() == [False, True, True, False, False]
    z[...] = np.ma.MaskedArray([1, 2, 3, 4, 5], [0, 1, 0, 1, 0], dtype="u1")
    assert np.array_equal(z[...], [1, np.nan, 3, np.nan, 5], equal_nan=True)
    with z.writer() as writer:
        writer[:2] = np.ma.MaskedArray([7.0, 8.0], [True, False])
    assert np.array_equal(z[:2], [np.nan, 8], equal_nan=True)
    z.append(np.ma.MaskedArray([9.0, 10.0], [False, True]))
    assert np.array_equal(z[5:], [9, np.nan], equal_nan=True)


def test_no_fill_value(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path, shape=(3,), dtype="i4", fill_value=None, zarr_format=2)
    assert not np.ma.getmaskarray(z.read(masked=True)).any()
    with pytest.raises(ValueError, match="no fill value"):
        z[...] = np.ma.MaskedArray([1, 2, 3], [0, 1, 0])
    z[...] = np.ma.MaskedArray([1, 2, 3])
    assert z[...].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "make", [hs.array, lambda data, **how: hs.create_array(hs.MemoryStore(), data=data, **how)]
)
def test_arrays_of_masked_arrays(make: Any) -> None:
    z = make(np.ma.MaskedArray([1, 2, 3], [0, 1, 0], dtype="i4"), fill_value=-1)
    assert z[...].tolist() == [1, -1, 3]


def test_other_arrays(tmp_path: Path) -> None:
    text = hs.array(np.array(["a", "b"], dtype=np.dtypes.StringDType()))
    with pytest.raises(TypeError, match="variable length"):
        text.read(masked=True)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("d", data=np.array([1, 2, 9], "i2"), fillvalue=9)
        file.create_dataset("v", data=np.array([True, False]))
    assert np.ma.getmaskarray(hs.open(tmp_path / "a.h5")["d"].read(masked=True)).tolist() == [
        False,
        False,
        True,
    ]
    assert hs.zeros((), dtype="i4").read(masked=True).mask.all()
