"""Basic indexing works as in NumPy: reads, assignments and errors."""

from __future__ import annotations

import math
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, broadcastable, cases, from_bits, selections
from support import assert_same, assign, examples


def created(case: Case) -> hs.Array:
    """Creates the array in memory, because storage is not tested here."""
    z = hs.create_array(hs.MemoryStore(), **case.arguments())
    z[...] = case.data
    return z


@given(case=cases(), data=st.data())
@settings(max_examples=examples(450))
def test_reading(case: Case, data: st.DataObject) -> None:
    z = created(case)
    assert_same(z[...], case.data.astype(z.dtype))
    expected = case.data.astype(z.dtype)
    for _ in range(5):
        selection = data.draw(selections(case.shape))
        found = z[selection]
        wanted = expected[selection]
        assert_same(found, wanted, repr(selection))
        assert isinstance(found, np.ndarray) == (wanted.ndim > 0), type(found)
        if len(selection) == 1:
            assert_same(z[selection[0]], wanted, repr(selection))
        if isinstance(found, np.ndarray):
            fortran = case.zarr_format == 2 and case.order == "F"
            assert found.flags.f_contiguous if fortran else found.flags.c_contiguous
            assert found.flags.aligned
            assert found.flags.writeable


@st.composite
def memory(
    draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Draws a large array and a view of it: strided, reversed, transposed, at any offset."""
    steps = [draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in shape]
    before = [draw(st.integers(0, 2)) for _ in shape]
    after = [draw(st.integers(0, 2)) for _ in shape]
    axes = draw(st.permutations(range(len(shape))))
    sizes = [
        b + max(0, (n - 1) * abs(s) + 1 if n else 0) + a for n, s, b, a in zip(shape, steps, before, after)
    ]
    base = from_bits(7, math.prod(sizes), dtype).reshape([sizes[axis] for axis in axes])
    view = base.transpose(np.argsort(axes)) if axes else base
    for axis, (n, s, b) in enumerate(zip(shape, steps, before)):
        picked = b + np.arange(n) * abs(s)
        if n == 0:
            part = slice(0, 0)
        elif s > 0:
            part = slice(picked[0], picked[-1] + 1, s)
        else:
            first = picked[0] - 1
            part = slice(picked[-1], None if first < 0 else first, s)
        view = view[(slice(None),) * axis + (part,)]
    assert view.shape == shape
    return base, view


@given(case=cases(), data=st.data())
@settings(max_examples=examples(350))
def test_reading_into_memory_of_any_layout(case: Case, data: st.DataObject) -> None:
    z = created(case)
    expected = case.data.astype(z.dtype)
    selection = data.draw(selections(case.shape))
    wanted = np.asarray(expected[selection]).astype(z.dtype)
    base, view = data.draw(memory(wanted.shape, z.dtype))
    model = base.copy()
    # The same view of the copy, from its offset and strides.
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0] if view.size else 0
    np.ndarray(view.shape, view.dtype, model, offset, view.strides)[...] = wanted
    assert z.read(selection, out=view) is view
    assert_same(view, wanted, repr(selection))
    assert_same(base, model, f"memory around {selection!r}")


def test_reading_into_buffers_that_are_not_arrays() -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.arange(6, dtype="u1"), chunks=(4,))
    buffer = bytearray(6)
    assert z.read(out=buffer) is buffer
    assert buffer == bytes(range(6))
    memory = memoryview(bytearray(12))[::2]
    z.read(np.s_[:], out=memory)
    assert memory.tolist() == list(range(6))


def test_memory_that_cannot_be_read_into() -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.arange(6.0), chunks=(4,))
    with pytest.raises(ValueError, match="f4.*f8"):
        z.read(out=np.zeros(6, "f4"))
    with pytest.raises(ValueError, match=">f8.*<f8"):
        z.read(out=np.zeros(6, ">f8"))
    for shape in [(5,), (6, 1), (1, 6), ()]:
        with pytest.raises(hs.errors.ArrayShapeError, match="shape"):
            z.read(out=np.zeros(shape))
    fixed = np.zeros(6)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        z.read(out=fixed)
    with pytest.raises(ValueError, match="read-only"):
        hs.create_array(hs.MemoryStore(), data=np.zeros(48, "u1")).read(out=bytes(48))
    with pytest.raises(TypeError):
        z.read(out=[0.0] * 6)


def test_out_with_elements_that_share_memory() -> None:
    """Writes elements one after another, like `np.copyto`."""
    z = hs.create_array(hs.MemoryStore(), data=np.arange(12.0).reshape(3, 4), chunks=(2, 2))
    base = np.zeros(6)
    view = np.lib.stride_tricks.as_strided(base, (3, 4), (8, 8), writeable=True)
    z.read(out=view)
    assert set(base) <= set(np.arange(12.0))
    assert base[0] == 0
    assert base[5] == 11


@given(case=cases(), data=st.data())
@settings(max_examples=examples(450))
def test_assignment(case: Case, data: st.DataObject) -> None:
    z = created(case)
    model = case.data.astype(z.dtype)
    for number in range(4):
        selection = data.draw(selections(case.shape))
        target = model[selection].shape
        shape = data.draw(broadcastable(target))
        value = from_bits(case.seed + number, math.prod(shape), z.dtype).reshape(shape)
        if data.draw(st.booleans()):
            # The caller's memory may have any layout.
            _, view = data.draw(memory(shape, z.dtype))
            view[...] = value
            value = view
        before = value.copy()
        assign(model, selection, value)
        z[selection] = value
        assert_same(value, before, "the caller's array")
        assert_same(z[...], model, repr(selection))


@given(case=cases(names=["b1", "i1", "u2", "i4", "f2", "f4", "f8", "c8"]), data=st.data())
@settings(max_examples=examples(250))
def test_assigned_values_are_converted_as_numpy_does(case: Case, data: st.DataObject) -> None:
    z = created(case)
    model = case.data.astype(z.dtype)
    selection = data.draw(selections(case.shape))
    target = model[selection].shape
    numbers = st.integers(0, 100)
    value: Any = data.draw(
        st.one_of(
            numbers,
            st.booleans(),
            st.floats(-100, 100, width=16) if z.dtype.kind in "fc" else numbers,
            st.sampled_from([np.int8(3), np.float32(2), np.array(5), np.array([7])]),
            st.just(np.arange(math.prod(target), dtype="u1").reshape(target)),
            st.just(np.arange(math.prod(target), dtype="u1").reshape(target).tolist()),
            st.just((np.arange(math.prod(target)).reshape(target) % 128).astype(">i8")),
        )
    )
    before = model.copy()
    try:
        assign(model, selection, value)
    except (ValueError, OverflowError, TypeError) as refused:
        with pytest.raises(type(refused)):
            z[selection] = value
        # NumPy stops half way. hyperslab writes nothing.
        assert_same(z[...], before)
        return
    z[selection] = value
    assert_same(z[...], model, repr((selection, value)))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("M8[s]", np.datetime64("2024-02-29T12:00")),
        ("M8[D]", "2024-02-29"),
        ("m8[ms]", np.timedelta64(3, "s")),
        ("M8[ns]", np.datetime64("NaT", "ns")),
        ("U5", "naïve"),
        ("U3", "too long"),
        ("S4", b"ab"),
        ("S4", "ab"),
        ("V3", b"abc"),
        ("U5", ["a", "bc", "def"]),
        ("f4", "1.5"),
        ("i4", True),
        ("f8", None),
        ("c16", 1 + 2j),
        ("?", 7),
    ],
)
def test_assigning_scalars_of_other_kinds(dtype: str, value: Any) -> None:
    model = np.zeros((2, 3), dtype)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(1, 2))
    model[:, ::-1] = value
    z[:, ::-1] = value
    assert_same(z[...], model)


NOT_BROADCAST = [
    ((4,), (3,)),
    ((4, 5), (4,)),
    ((4, 5), (5, 4)),
    ((4, 5), (2, 4, 5)),
    ((3,), (0,)),
    ((0,), (2,)),
    ((), (2,)),
]


@pytest.mark.parametrize(("shape", "value"), NOT_BROADCAST)
def test_values_that_do_not_broadcast(shape: tuple[int, ...], value: tuple[int, ...]) -> None:
    model = np.ones(shape)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=tuple(max(1, n // 2) for n in shape))
    with pytest.raises(ValueError, match="broadcast"):
        model[...] = np.zeros(value)
    with pytest.raises(hs.errors.ArrayShapeError, match="could not broadcast"):
        z[...] = np.zeros(value)
    assert_same(z[...], np.ones(shape))


REFUSED: list[tuple[Any, type[Exception]]] = [
    (3, IndexError),
    (-4, IndexError),
    ((0, 4), IndexError),
    ((0, -5), IndexError),
    (2**62, IndexError),
    ((0, 0, 0), IndexError),
    ((..., ...), IndexError),
    ((0, 0, 0, ...), IndexError),
    (1.0, IndexError),
    ("a", IndexError),
    (slice(None, None, 0), ValueError),
    (slice(0.5, 2), TypeError),
    (slice("a", None), TypeError),
]


@pytest.mark.parametrize(("selection", "kind"), REFUSED, ids=repr)
def test_errors_are_of_numpys_kinds(selection: Any, kind: type[Exception]) -> None:
    model = np.arange(12).reshape(3, 4)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(2, 2))
    with pytest.raises(kind):
        model[selection]
    with pytest.raises(kind):
        z[selection]
    with pytest.raises(kind):
        z[selection] = 1
    with pytest.raises(kind):
        z.read(selection)
    assert_same(z[...], model)


@pytest.mark.parametrize("index", [2**63, -(2**63) - 1, 2**100, -(2**100)])
def test_integers_beyond_64_bits_are_out_of_bounds(index: int) -> None:
    """NumPy raises IndexError for some and OverflowError for others."""
    z = hs.create_array(hs.MemoryStore(), data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    for selection in [index, (0, index)]:
        with pytest.raises(hs.errors.BoundsCheckError, match="out of bounds"):
            z[selection]


@pytest.mark.parametrize("selection", [True, (0, True), np.True_, np.array(False)], ids=repr)
def test_single_truth_values_are_no_indices(selection: Any) -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    with pytest.raises(hs.errors.UnsupportedSelectionError) as caught:
        z[selection]
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(hs.errors.UnsupportedSelectionError):
        z[selection] = 1


def test_bounds_are_named() -> None:
    z = hs.create_array(hs.MemoryStore(), name="ocean/t", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    with pytest.raises(
        hs.errors.BoundsCheckError, match="ocean/t.*index 7 is out of bounds for axis 1 with size 4"
    ):
        z[0, 7]
    with pytest.raises(
        hs.errors.BoundsCheckError, match="too many indices: the array has 2 axes, 3 were indexed"
    ):
        z[0, 0, 0]


def test_integers_of_every_kind_are_indices() -> None:
    model = np.arange(12).reshape(3, 4)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(2, 2))
    for index in [1, np.int8(1), np.uint64(1), np.array(1), -2, np.int64(-2)]:
        assert_same(z[index], model[index])
        assert_same(z[index, np.int16(2)], model[index, 2])
        assert_same(z[np.int8(0) : index], model[np.int8(0) : index])


def test_huge_bounds_are_clamped() -> None:
    model = np.arange(12).reshape(3, 4)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(2, 2))
    for selection in np.s_[-(2**100) : 2**100, 2**63 :: -(2**63), : 2**63 - 1 : 2**63 - 1, :: -(2**63) + 1]:
        assert_same(z[selection], model[selection], repr(selection))


def test_arrays_without_axes() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(), dtype="i4", fill_value=7)
    assert z[()] == 7
    assert z[...] == 7
    z[()] = 8
    assert z[...] == 8
    z[...] = np.array([[9]])
    assert z[()] == 9
    out = np.zeros((), "i4")
    z.read((), out=out)
    assert out == 9
    with pytest.raises(IndexError):
        z[0]
    with pytest.raises(TypeError):
        len(z)


def test_the_value_may_be_the_array_itself() -> None:
    model = np.arange(30).reshape(5, 6)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(2, 4))
    z[:, ::-1] = z
    assert_same(z[...], model[:, ::-1])


class Used:
    """An integer that counts its conversions."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0

    def __index__(self) -> int:
        self.count += 1
        return self.number


@pytest.mark.parametrize(
    "rest", [(), ([0, 2],), (np.array([0, 2]),), (None, slice(1, 3)), (slice(None), None), (None, [0, 2])]
)
@pytest.mark.parametrize("first", [True, False])
def test_each_item_of_an_index_is_converted_once(rest: tuple[Any, ...], first: bool) -> None:
    data = np.arange(9).reshape(3, 3)
    z = hs.array(data)
    assert_same(z[1, *rest], data[1, *rest])
    for work in (lambda key: z[key], lambda key: z.__setitem__(key, z[0, 0])):
        item = Used(1)
        key = (item, *rest) if first else (*rest, item)
        work(key)
        assert item.count == 1
