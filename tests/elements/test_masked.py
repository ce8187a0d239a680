"""Masked arrays: elements that equal the fill value are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

KINDS = ["i1", "u2", "i4", "u8", "f2", "f4", "f8", ">f4", ">i4", "c8", "?", "M8[s]", "m8[ms]", "S3", "U2"]


def missing(values: np.ndarray[Any, Any], fill: Any) -> np.ndarray[Any, Any]:
    """Returns numpy.ma's mask, extended to not-a-number and not-a-time."""
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
    # And back again.
    mask = data.draw(hnp.arrays(bool, shape))
    z[...] = np.ma.MaskedArray(values, mask)
    # Metadata does not keep the sign of a NaN.
    stored = np.where(mask, np.asarray(z.fill_value, dtype), values)
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


@settings(max_examples=60)
@given(data=st.data())
def test_large_results_of_every_strategy(data: st.DataObject) -> None:
    """Above 64 KiB, elements are compared chunk by chunk while reading."""
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "i2", "f4", "f8", "i8", ">i4", "M8[s]"])))
    shape = data.draw(st.sampled_from([(700, 900), (60, 70, 150), (1_300_000,), (3, 400_000)]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, shape).astype(dtype)
    divisor = data.draw(st.sampled_from([1, 2, 5, 20]))
    chunks = tuple(max(1, n // divisor) for n in shape)
    how: dict[str, Any] = {"compressors": data.draw(st.sampled_from([None, hs.codecs.Zstd(level=1)]))}
    if data.draw(st.booleans()):
        how |= {"zarr_format": 3, "shards": tuple(2 * n for n in chunks)}
        dtype = dtype.newbyteorder("=")
    else:
        how |= {"zarr_format": 2, "order": data.draw(st.sampled_from("CF"))}
    fill = data.draw(st.sampled_from([0, 3, 9]))
    z = hs.create_array(
        hs.MemoryStore(),
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        fill_value=np.asarray(fill, dtype)[()],
        **how,
    )
    wanted = np.full(shape, fill, dtype)
    part = data.draw(st.sampled_from([slice(None), slice(0, shape[0] // 20 + 1), slice(0, 0)]))
    z[part] = wanted[part] = values[part]
    parts = [
        slice(None),
        slice(None, None, -1),
        slice(3, -2),
        slice(None, None, 2),
        rng.permutation(shape[0]),
    ]
    selection = (
        data.draw(st.sampled_from(parts)),
        *(data.draw(st.sampled_from(parts[:4])) for _ in shape[1:]),
    )
    found = z.read(selection, masked=True)
    wanted = wanted[selection]
    assert np.array_equal(found.data, wanted), seed
    assert np.array_equal(np.ma.getmaskarray(found), wanted == np.asarray(fill, dtype)), seed


@pytest.mark.parametrize("chunks", [None, (50, 300)])
def test_hdf5_and_mosaics(tmp_path: Path, chunks: Any) -> None:
    values = np.random.default_rng(0).integers(0, 5, (700, 1000)).astype("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunks, fillvalue=3)
        layout = h5py.VirtualLayout((1400, 1000), "f4")
        layout[::2] = h5py.VirtualSource(tmp_path / "a.h5", "x", (700, 1000))
        file.create_virtual_dataset("v", layout, fillvalue=3)
    wanted = np.full((1400, 1000), 3, "f4")
    wanted[::2] = values
    with hs.open(tmp_path / "a.h5") as file:
        found = file["x"].read((slice(None, None, -1), slice(5, None)), masked=True)
        assert np.array_equal(found.data, values[::-1, 5:])
        assert np.array_equal(np.ma.getmaskarray(found), values[::-1, 5:] == 3)
        found = file["v"].read(masked=True)
        assert np.array_equal(found.data, wanted)
        assert np.array_equal(np.ma.getmaskarray(found), wanted == 3)


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


def test_every_way_to_write() -> None:
    masked = np.ma.MaskedArray([1, 2, 3], [0, 1, 0], dtype="i4")
    z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="i4", fill_value=-1)
    row = np.array([[0], [1], [2]])
    for write in (
        lambda: z.__setitem__(slice(None), masked),
        lambda: z.__setitem__(None, masked[None]),
        lambda: z.lazy.write(masked),
        lambda: z.lazy[::-1].write(masked[::-1]),
        lambda: z.oindex.__setitem__([0, 1, 2], masked),
        lambda: z.vindex.__setitem__([0, 1, 2], masked),
        lambda: z.vindex.__setitem__(row, masked),
        lambda: z.set_coordinate_selection(row, masked),
        lambda: z.set_mask_selection([True] * 3, masked),
        lambda: z.blocks.__setitem__(0, masked),
    ):
        z[...] = 0
        write()
        assert z[...].tolist() == [1, -1, 3]
    z[1] = 5
    z[1] = np.ma.masked
    assert z[1] == -1


@pytest.mark.parametrize("fill", [0, (7, 7.5, [8, 9])])
def test_fields(fill: Any) -> None:
    dtype = np.dtype([("a", "i4"), ("b", "f8"), ("c", "u1", (2,))])
    z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype=dtype, fill_value=fill, zarr_format=2)
    z["a"] = np.ma.MaskedArray([1, 2, 3], [0, 1, 0])
    z["c", 1:] = np.ma.MaskedArray([[1, 2], [3, 4]], [[0, 1], [1, 0]])
    missing = z.fill_value
    assert z["a"].tolist() == [1, missing["a"], 3]
    assert z["c"].tolist() == [missing["c"].tolist(), [1, missing["c"][1]], [missing["c"][0], 4]]
    whole = np.ma.zeros(3, dtype)
    whole[:] = [(1, 2.0, [3, 4])] * 3
    whole.mask[1] = (True, False, True)
    z[...] = whole
    assert z[...].tolist()[0][:2] == (1, 2.0)
    assert z["a"].tolist() == [1, missing["a"], 1] and z["b"].tolist() == [2, 2, 2]


def test_text() -> None:
    words = np.ma.MaskedArray(["a", "b", "c"], [0, 1, 0])
    z = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="string")
    for write in (lambda: z.__setitem__(slice(None), words), lambda: z.lazy.write(words)):
        z[:] = "x"
        write()
        assert z[:].tolist() == ["a", "", "c"]
    z.append(words)
    assert z[3:].tolist() == ["a", "", "c"]


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
