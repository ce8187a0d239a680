"""Views: selections of selections, against NumPy."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import assert_same

Step = tuple[str, Any]


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """Draws one selection of an array of a shape: the method, and its argument."""
    how = draw(st.sampled_from(["plain", "plain", "plain", "oindex", "vindex", "mask", "transpose"]))
    if how == "mask":
        return "plain", draw(masked(shape))
    if how == "transpose":
        return how, tuple(draw(st.permutations(range(len(shape)))))
    if how == "vindex" and shape and 0 not in shape:
        if draw(st.booleans()):
            return how, draw(hnp.arrays(bool, shape))
        points = draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
        return how, tuple(
            draw(hnp.arrays(np.int64, draw(st.sampled_from([points, ()])), elements=st.integers(-n, n - 1)))
            for n in shape
        )
    if how == "oindex" and shape:
        return how, tuple(draw(one_axis(n)) for n in shape)
    return "plain", draw(plain(shape))


def one_axis(length: int) -> st.SearchStrategy[Any]:
    """Draws a selection along one axis."""
    kinds: list[st.SearchStrategy[Any]] = [st.slices(length), hnp.arrays(bool, length)]
    if length:
        kinds += [
            st.integers(-length, length - 1),
            st.lists(st.integers(-length, length - 1), max_size=5),
        ]
    return st.one_of(kinds)


@st.composite
def plain(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Draws an index as NumPy takes it."""
    lists = draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
    items: list[Any] = []
    for length in shape:
        if draw(st.booleans()) and draw(st.booleans()):
            items.append(None)
        kind = draw(st.sampled_from(["slice", "slice", "integer", "list"]))
        if kind == "slice" or length == 0:
            items.append(draw(st.slices(length)))
        elif kind == "integer":
            items.append(draw(st.integers(-length, length - 1)))
        else:
            items.append(draw(hnp.arrays(np.int64, lists, elements=st.integers(-length, length - 1))))
    here, left = sorted((draw(st.integers(0, len(items))), draw(st.integers(0, len(items)))))
    return (*items[:here], ..., *items[left:]) if draw(st.booleans()) else tuple(items[:here])


@st.composite
def masked(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Draws a mask of some axes, and slices of the others."""
    first, end = sorted((draw(st.integers(0, len(shape))), draw(st.integers(0, len(shape)))))
    if first == end:
        return ...
    mask = draw(hnp.arrays(bool, shape[first:end]))
    behind = tuple(draw(st.slices(length)) for length in shape[end:])
    before = (...,) if draw(st.booleans()) else tuple(draw(st.slices(length)) for length in shape[:first])
    return (*before, mask, *behind)


def follow(view: Any, step: Step) -> Any:
    """Applies a step to one of our views."""
    how, selection = step
    if how == "transpose":
        return view.transpose(selection)
    return {"plain": view, "oindex": view.oindex, "vindex": view.vindex}[how][selection]


def expect(values: np.ndarray[Any, Any], step: Step) -> Any:
    """Applies the same step to a NumPy array."""
    how, selection = step
    if how == "transpose":
        return values.transpose(selection)
    if how == "oindex":
        for axis, item in reversed(list(enumerate(selection))):
            item = np.asarray(item, dtype=np.int64) if isinstance(item, list) else item
            values = values[(slice(None),) * axis + (item,)]
        return values
    return values[selection]


def test_steps_that_lead_nowhere() -> None:
    """A step may be larger than any machine integer if it takes at most one element."""
    ref = np.arange(6).reshape(1, 6)
    z = hs.create_array({}, data=ref, chunks=(1, 2))
    for first in (np.s_[:, :0], np.s_[:, 2:3], np.s_[[False], 1:]):
        for step in (2**63, 2**80, -(2**63)):
            view, wanted = z.lazy[first][::step, ::step], ref[first][::step, ::step]
            assert view.shape == wanted.shape and np.array_equal(view.read(), wanted)
            assert np.array_equal(view[::step].read(), wanted[::step])


@given(data=st.data())
def test_selections_of_selections(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, max_side=6))
    chunks = tuple(data.draw(st.integers(1, length)) for length in shape)
    numbers = np.arange(np.prod(shape, dtype=int), dtype="i4").reshape(shape)
    z = hs.create_array(hs.MemoryStore(), data=numbers, chunks=chunks)
    view, wanted = z.lazy, numbers
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(steps(wanted.shape))
        view, wanted = follow(view, step), np.asarray(expect(wanted, step))
        assert view.shape == wanted.shape
        if wanted.size > 5000:
            break
    found = view.read()
    assert found.dtype == wanted.dtype and np.array_equal(found, wanted), (found, wanted)
    assert np.array_equal(pickle.loads(pickle.dumps(view.shape)), view.shape)
    out = np.zeros(wanted.shape[::-1], "i4").T
    assert view.read(out=out) is out and np.array_equal(out, wanted)
    assert view.explain().shape is not None
    # Elements are written where they were read. If one element gets several values, one stays.
    values = -1 - np.arange(wanted.size, dtype="i4").reshape(wanted.shape)
    view.write(values)
    now = z[...]
    for number in np.unique(wanted):
        assert now[np.unravel_index(number, shape)] in values[wanted == number]
    untouched = ~np.isin(numbers, wanted)
    assert np.array_equal(now[untouched], numbers[untouched])


@given(data=st.data())
def test_new_axes_of_arrays(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=5))
    numbers = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    z = hs.create_array(hs.MemoryStore(), data=numbers, chunks=tuple(max(1, n // 2) for n in shape))
    selection = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    assert np.array_equal(z[selection], numbers[selection])
    copy = numbers.copy()
    copy[selection] = 7
    z[selection] = 7
    assert np.array_equal(z[...], copy)


def test_each_chunk_is_read_once(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path, shape=(100, 100), chunks=(10, 10), dtype="i4", compressors=None)
    z[...] = np.arange(10_000).reshape(100, 100)
    view = z.lazy[20:80][::2].T[[5, 6, 95]]
    told = view.explain()
    assert told.chunks == 2 * 6, "columns 5 and 6 share their chunks"
    assert np.array_equal(view, z[...][20:80][::2].T[[5, 6, 95]])


def test_other_elements(tmp_path: Path) -> None:
    words = np.array([["a", "bc"], ["", "def"], ["g", "hi"]], dtype=object)
    z = hs.create_array(tmp_path, shape=words.shape, chunks=(2, 1), dtype="string")
    z[...] = words
    assert z.lazy.T[::-1, [2, 0]].read().tolist() == words.T[::-1, [2, 0]].tolist()
    z.lazy.T[0, 1:].write(["x", "yz"])
    assert z[:, 0].tolist() == ["a", "x", "yz"]
    assert z[None, 0].shape == (1, 2)


def test_bad_selections() -> None:
    z = hs.zeros((3, 4), dtype="i4")
    view = z.lazy
    for wrong in (3, -4, (0, 4), [0, 3], (0, 0, 0), (..., ...), [[True, False]], True, ([0, 1], [0, 1, 2])):
        with pytest.raises(IndexError):
            view[wrong]
    for wrong in ("a", 1.5, [0.5]):
        with pytest.raises(IndexError):
            view[wrong]
    for wrong in ((slice(None), 0), (0,), None):
        with pytest.raises(IndexError):
            view.vindex[wrong]
    for wrong in ([[0, 1]], np.ones((3, 4), bool), None):
        with pytest.raises(IndexError):
            view.oindex[wrong]
    for axes in ((0,), (0, 0), (0, 2)):
        with pytest.raises(ValueError, match="each of 2 axes once"):
            view.transpose(axes)
    with pytest.raises(ValueError, match="out"):
        view[0].read(out=np.zeros(5, "i4"))
    with pytest.raises(ValueError, match="broadcast"):
        view[0].write(np.zeros(5, "i4"))
    assert not z[...].any()
    locked = hs.open_array(hs.create_array(hs.MemoryStore(), shape=(2,), dtype="i4").store, mode="r")
    with pytest.raises(hs.errors.ReadOnlyError):
        locked.lazy[:0].write(1)


def test_a_view_is_pickled(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path, data=np.arange(12).reshape(3, 4))
    view = pickle.loads(pickle.dumps(z.lazy[::-1, [0, 3]]))
    assert view.read().tolist() == [[8, 11], [4, 7], [0, 3]]
    assert len(view) == 3 and view.nbytes == 48


def test_an_ellipsis_of_no_axis_separates_lists() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    z = hs.array(data)
    rows = [0, 1, 2]
    for key in (
        (slice(None), rows, ..., rows),
        (..., rows, rows),
        (slice(None), rows, rows, ...),
        (slice(None), None, 0, ..., [0]),
        (slice(None), 0, ..., [0]),
        (0, ..., rows, rows),
    ):
        assert_same(z.lazy[key].read(), data[key])
    assert_same(z[:, None, 0, ..., [0]], data[:, None, 0, ..., [0]])
