"""Lists, masks, coordinates and blocks: as in NumPy, or as in zarr-python for its own ways."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from shards import OLD_ZARR, ShardCase, shard_cases
from strategies import Case, cases, from_bits, selections
from support import assert_same, examples, scratch

Values = np.ndarray[Any, Any]


def created(case: Case) -> hs.Array:
    z = hs.create_array(hs.MemoryStore(), **case.arguments())
    z[...] = case.data
    return z


# ---------------------------------------------------------------------------------------- generated


@st.composite
def lists(draw: st.DrawFn, length: int, count: int | None = None) -> Any:
    """Draws indices of an axis: a list or an array of any type, in any order."""
    n = max(length, 1)
    size = draw(st.integers(0, 8)) if count is None else count
    found = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size)) if length else []
    kind = draw(st.sampled_from(["list", "array", "sorted", "small", "unsigned", "strided"]))
    if kind == "sorted":
        return sorted(found)
    if kind == "array":
        return np.array(found, np.int64)
    if kind == "small":
        return np.array(found, np.int8 if n <= 128 else np.int16)
    if kind == "unsigned":
        return np.array([n + i if i < 0 else i for i in found], draw(st.sampled_from(["u1", ">u2", "u8"])))
    if kind == "strided":
        return np.repeat(np.array(found, np.int64), 2)[::2]
    return found if found else np.array([], int)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    mask = rng.random(shape) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    if draw(st.booleans()):
        mask = np.asfortranarray(mask)
    return mask.tolist() if mask.ndim == 1 and mask.size and draw(st.booleans()) else mask


@st.composite
def one_axis(draw: st.DrawFn, length: int) -> Any:
    return draw(st.one_of(lists(length), masks((length,))))


@st.composite
def with_one_list(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draws slices and one list or mask, for which NumPy, h5py and zarr-python agree."""
    axis = draw(st.integers(0, len(shape) - 1))
    basic = [draw(selections((n,))) for n in shape]
    items = [item[0] if len(item) == 1 and isinstance(item[0], slice) else slice(None) for item in basic]
    return (*items[:axis], draw(one_axis(shape[axis])), *items[axis + 1 :])


@st.composite
def with_lists(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draws several broadcast lists with slices and integers: coordinates of points in NumPy."""
    dims = draw(st.sampled_from([(1,), (5,), (2, 3), (9,), (0,)]))
    if 0 in shape:
        dims = (0,)
    items: list[Any] = []
    several = 0
    for n in shape:
        kind = draw(st.sampled_from(["list", "list", "slice", "one"]))
        if kind == "one" and n:
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            items.append(slice(draw(st.integers(0, max(n - 1, 0))), None, draw(st.sampled_from([1, 2, -1]))))
        else:
            part = draw(st.sampled_from([dims, dims, dims[-1:], (1,) * len(dims)]))
            part = (0,) if n == 0 else part
            found = draw(lists(n, math.prod(part)))
            items.append(np.asarray(found, int if not len(found) else None).reshape(part))
            several += 1
    # With a single list, libraries disagree about the place of its axis.
    while several < 2:
        axis = next(k for k, item in enumerate(items) if not isinstance(item, np.ndarray))
        items[axis] = np.zeros((1,) if shape[axis] else (0,), int)
        several += 1
    return tuple(items)


def written(draw: Callable[[Any], Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
    """Draws values that broadcast to a shape."""
    part = tuple(draw(st.sampled_from([n, n, 1])) for n in shape)
    part = part[draw(st.integers(0, len(part))) if len(part) and draw(st.booleans()) else 0 :]
    return from_bits(draw(st.integers(0, 2**16)), math.prod(part), dtype).reshape(part)


def check(
    z: Any,
    model: Values,
    read: Any,
    write: Any,
    data: st.DataObject,
    wanted: Values,
    put: Callable[[Values, Values], None],
    what: str,
) -> None:
    """Checks a read's values, and that a write changes the same elements as in NumPy."""
    assert_same(read(), wanted, what)
    values = written(data.draw, wanted.shape, model.dtype)
    put(model, values)
    write(values)
    assert_same(z[...], model, f"after writing {what}")


def check_all(z: hs.Array, model: Values, data: st.DataObject) -> None:
    """Checks every kind of index on the same array."""
    shape = model.shape
    for _ in range(2):
        selection = data.draw(with_one_list(shape))
        check(
            z,
            model,
            lambda s=selection: z[s],
            lambda v, s=selection: z.__setitem__(s, v),
            data,
            model[selection],
            lambda m, v, s=selection: m.__setitem__(s, v),
            repr(selection),
        )
        selection = tuple(data.draw(one_axis(n)) for n in shape)
        grid = np.ix_(*(np.asarray(s, None if len(s) else int) for s in selection))
        check(
            z,
            model,
            lambda s=selection: z.oindex[s],
            lambda v, s=selection: z.oindex.__setitem__(s, v),
            data,
            model[grid],
            lambda m, v, s=grid: m.__setitem__(s, v),
            f"oindex {selection!r}",
        )
        mask = data.draw(masks(shape))
        for read, write in [
            (z.__getitem__, z.__setitem__),
            (z.get_mask_selection, z.set_mask_selection),
            (z.vindex.__getitem__, z.vindex.__setitem__),
        ]:
            if isinstance(mask, list) and read != z.get_mask_selection:
                mask = np.array(mask)
            check(
                z,
                model,
                lambda m=mask, r=read: r(m),
                lambda v, m=mask, w=write: w(m, v),
                data,
                model[np.asarray(mask)],
                lambda m, v, s=np.asarray(mask): m.__setitem__(s, v),
                f"mask {mask!r}",
            )
        if len(shape) < 2:
            continue
        selection = data.draw(with_lists(shape))
        check(
            z,
            model,
            lambda s=selection: z[s],
            lambda v, s=selection: z.__setitem__(s, v),
            data,
            model[selection],
            lambda m, v, s=selection: m.__setitem__(s, v),
            repr(selection),
        )
        first = data.draw(masks(shape[:2]))
        if len(shape) > 2:
            check(
                z,
                model,
                lambda s=first: z[s],
                lambda v, s=first: z.__setitem__(s, v),
                data,
                model[first],
                lambda m, v, s=first: m.__setitem__(s, v),
                f"mask of two axes {first!r}",
            )


@given(case=cases().filter(lambda case: case.shape), data=st.data())
@settings(max_examples=examples(80))
def test_every_kind_of_array(case: Case, data: st.DataObject) -> None:
    z = created(case)
    check_all(z, case.data.astype(z.dtype), data)


@given(case=shard_cases().filter(lambda case: case.shape), data=st.data())
@settings(max_examples=examples(60))
def test_every_kind_of_shards(case: ShardCase, data: st.DataObject) -> None:
    with scratch() as path:
        case.create(path / "a")
        z = hs.open_array(path / "a")
        z[...] = case.data
        check_all(z, case.data.copy(), data)


@st.composite
def zarrs(draw: st.DrawFn) -> tuple[Values, hs.Array, Any]:
    """Draws the same values in an array of hyperslab and one of zarr-python."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    shards = tuple(c * draw(st.integers(1, 3)) for c in chunks) if draw(st.booleans()) else None
    values = np.arange(math.prod(shape), dtype="i4").reshape(shape)
    options: dict[str, Any] = {"shape": shape, "chunks": chunks, "shards": shards, "dtype": "i4"}
    ours, theirs = hs.create_array(hs.MemoryStore(), **options), zarr.create_array({}, **options)
    ours[...] = theirs[...] = values
    return values, ours, theirs


@given(arrays=zarrs(), data=st.data())
@settings(max_examples=examples(80))
def test_zarr_python_says_the_same(arrays: tuple[Values, hs.Array, Any], data: st.DataObject) -> None:
    values, ours, theirs = arrays
    shape = values.shape
    counts = [-(-n // c) for n, c in zip(shape, ours.shards or ours.chunks)]
    orthogonal = tuple(
        data.draw(
            st.one_of(
                st.integers(-n, n - 1),
                st.builds(slice, st.integers(0, n), st.integers(0, n), st.integers(1, 3)),
                st.lists(st.integers(-n, n - 1), min_size=1, max_size=6),
                masks((n,)).map(np.asarray),
            )
        )
        for n in shape
    )
    count = data.draw(st.integers(1, 8))
    points = tuple(
        data.draw(
            st.one_of(
                st.integers(-n, n - 1), st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)
            )
        )
        for n in shape
    )
    mask = np.asarray(data.draw(masks(shape)))
    blocks = tuple(
        data.draw(
            st.one_of(st.integers(-n, n - 1), st.integers(0, n - 1).map(lambda start: slice(start, None)))
        )
        for n in counts
    )
    # One list, or lists for all axes: zarr-python accepts these without the kind of index.
    axis = data.draw(st.integers(0, len(shape) - 1))
    plain = tuple(
        data.draw(
            st.lists(st.integers(-n, n - 1), min_size=1, max_size=6)
            if k == axis
            else st.sampled_from([0, slice(1, None), -1])
        )
        for k, n in enumerate(shape)
    )
    for ways, selection in [
        (lambda z: z.oindex, orthogonal),
        (lambda z: z.vindex, points),
        (lambda z: z.vindex, (mask,)),
        (lambda z: z.blocks, blocks),
        (lambda z: z, plain),
        (lambda z: z, tuple([p] if isinstance(p, int) else p for p in points)),
    ]:
        expected = np.asarray(ways(theirs)[selection])
        assert_same(np.asarray(ways(ours)[selection]), expected, repr(selection))
        new = np.arange(expected.size, dtype="i4").reshape(expected.shape) + 1000
        ways(ours)[selection] = new
        # For elements named twice, zarr-python's order differs from NumPy's. An older one cannot
        # write lists to shards.
        if ways(ours)[selection].tolist() == new.tolist() and not (OLD_ZARR and ours.shards):
            ways(theirs)[selection] = new
            assert_same(ours[...], theirs[...], f"after writing {selection!r}")
        ours[...] = theirs[...] = values


# ------------------------------------------------------------------------------------------ by hand


@pytest.fixture(params=[None, (4, 6)], ids=["chunks", "shards"])
def grid(request: pytest.FixtureRequest) -> tuple[hs.Array, Values]:
    model = np.arange(7 * 11).reshape(7, 11)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(2, 3), shards=request.param)
    return z, model.copy()


def test_reading_into_memory_of_the_caller(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    rows, columns = [3, 0, 3], [10, 2]
    for out in (np.empty((3, 2), int), np.empty((2, 3), int).T, np.empty((6, 8), int)[::2, ::4]):
        assert z.get_orthogonal_selection((rows, columns), out=out) is out
        assert_same(np.ascontiguousarray(out), model[np.ix_(rows, columns)])
    points = (np.array([[0, 1], [6, 3]]), np.array([[1], [2]]))
    for out in (np.empty((2, 2), int), np.empty((2, 2), int).T, np.empty((2, 4), int)[:, ::-2]):
        z.get_coordinate_selection(points, out=out)
        assert_same(np.ascontiguousarray(out), model[points])
    mask = model % 3 == 0
    out = np.empty(mask.sum(), int)
    assert_same(z.get_mask_selection(mask, out=out), model[mask])
    out = np.empty((2, 3), int)
    if z.shards is None:
        assert_same(z.get_block_selection((1, 2), out=out), model[2:4, 6:9])
    assert_same(z.read([5, 1, 1]), model[[5, 1, 1]])
    assert_same(z.read([5, 1, 1], out=np.empty((3, 11), int), threads=1), model[[5, 1, 1]])
    with pytest.raises(hs.errors.ArrayShapeError, match="shape"):
        z.get_orthogonal_selection((rows, columns), out=np.empty((2, 2), int))


def test_what_is_written_last_stays(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    rows, columns = [5, 1, 5, 5], [3, 3, 3, 9]
    z[rows, columns] = model[rows, columns] = [1, 2, 3, 4]
    assert_same(z[...], model)
    z[[2, 2, 1, 2]] = model[[2, 2, 1, 2]] = np.arange(44).reshape(4, 11)
    assert_same(z[...], model)
    z.oindex[[0, 0], [4, 5, 4]] = model[np.ix_([0, 0], [4, 5, 4])] = [[1, 2, 3], [4, 5, 6]]
    assert_same(z[...], model)


def test_coordinates_with_values_one_behind_the_other(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    rows, columns = np.array([[0, 1], [2, 3]]), np.array([[5, 6], [7, 8]])
    z.set_coordinate_selection((rows, columns), [1, 2, 3, 4])
    model[rows, columns] = [[1, 2], [3, 4]]
    assert_same(z[...], model)
    z.vindex[rows, columns] = 9
    model[rows, columns] = 9
    assert_same(z[...], model)
    with pytest.raises(hs.errors.ArrayShapeError):
        z.vindex[rows, columns] = [1, 2, 3]


def test_lists_of_every_kind(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    for index in [[2, 0], (2, 0), range(5, 1, -2), np.array([2, 0], "u8"), np.array([2, 0], ">i4")]:
        assert_same(z[index, :], model[np.asarray(index)])
    assert_same(z[[]], model[[]])
    assert_same(z[[], 1], model[[], 1])
    assert_same(z[[True, False] * 3 + [True]], model[::2])
    assert_same(z[hs.array([3, 1])], model[[3, 1]])
    assert_same(z[[[1, 2], [3, 4]]], model[[[1, 2], [3, 4]]])
    assert_same(z[np.array(3), [1, 2]], model[3, [1, 2]])
    assert_same(z[..., [1, 2]], model[..., [1, 2]])
    assert_same(z[[1], ...], model[[1]])
    # NumPy booleans with bytes other than 0 and 1 are true.
    mask = np.frombuffer(bytes([2, 0, 255, 0, 0, 1, 0]), bool)
    assert_same(z[mask], model[[0, 2, 5]])


def test_an_integer_beside_one_list_stays_where_it_is() -> None:
    """As in h5py and zarr-python. NumPy moves the list's axis forward if a slice is between."""
    model = np.arange(24).reshape(2, 3, 4)
    z = hs.create_array(hs.MemoryStore(), data=model, chunks=(1, 2, 2))
    assert_same(z[0, :, [1, 3]], model[0][:, [1, 3]])
    assert_same(z[0, :, [1, 3]], np.asarray(zarr.array(model)[0, :, [1, 3]]))
    assert_same(z[0, [1, 2]], model[0, [1, 2]])
    # Several lists behave as in NumPy.
    assert_same(z[[0, 1], :, [1, 3]], model[[0, 1], :, [1, 3]])
    assert_same(z[:, [0, 1], [1, 3]], model[:, [0, 1], [1, 3]])


def test_arrays_without_axes() -> None:
    z = hs.create_array(hs.MemoryStore(), data=np.array(5))
    for index in ([0], np.array([0]), (..., [0])):
        with pytest.raises(hs.errors.BoundsCheckError, match="too many indices"):
            z[index]
    for index in (np.array(True), True, np.True_):
        with pytest.raises(IndexError):
            z[index]
        with pytest.raises(IndexError):
            z.vindex[index]
    assert z.oindex[...] == 5 and z.oindex[()] == 5
    with pytest.raises(IndexError):
        z.vindex[()]
    with pytest.raises(IndexError):
        z.get_mask_selection(np.array(True))


REFUSED: list[Any] = [
    [7],
    [-8],
    [0, 2**62],
    [2**63],
    [2**70],
    np.array([7], "u1"),
    [1.0],
    [math.nan],
    np.array([1.0]),
    np.array([]),
    np.array([0, 1], object),
    [None],
    ["a"],
    np.array(["2020"], "M8[Y]"),
    [True] * 6,
    np.ones((7, 10), bool),
    np.ones((11, 7), bool),
    np.ones((7, 11, 1), bool),
    (0, [True]),
    ([0, 1], [0, 1, 2]),
    ([0], [0], [0]),
    (slice(None), [11]),
    {"a": 1},
    {1, 2},
]


@pytest.mark.parametrize("index", REFUSED, ids=lambda index: repr(index)[:40])
def test_what_numpy_refuses_is_refused(grid: tuple[hs.Array, Values], index: Any) -> None:
    z, model = grid
    with pytest.raises(IndexError):
        model[index]
    for attempt in (
        lambda: z[index],
        lambda: z.__setitem__(index, 0),
        lambda: z.read(index),
        lambda: z.vindex[index],
        lambda: z.explain(index),
    ):
        with pytest.raises(IndexError) as caught:
            attempt()
        assert isinstance(caught.value, hs.errors.HyperslabError)
    assert_same(z[...], model)


@pytest.mark.parametrize("index", [True, np.True_, (np.False_,), b"ab"], ids=repr)
def test_what_has_another_meaning_is_refused(grid: tuple[hs.Array, Values], index: Any) -> None:
    with pytest.raises(hs.errors.UnsupportedSelectionError):
        grid[0][index]


def test_a_mask_beside_a_list_is_refused_by_name(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    mask = np.array([True, True] + [False] * 5)
    for index in [(mask, [1, 2]), (mask, np.ones(11, bool)), ([0, 1], np.ones(11, bool))]:
        with pytest.raises(hs.errors.UnsupportedSelectionError, match="oindex .* or vindex"):
            z[index]
    assert_same(z.oindex[mask, [1, 2]], model[:2, 1:3])


def test_what_the_other_ways_refuse(grid: tuple[hs.Array, Values]) -> None:
    z, _ = grid
    for index in [(slice(None), [1]), [1, 2], (0,), ([1], [2], [3])]:
        with pytest.raises(hs.errors.VindexInvalidSelectionError):
            z.vindex[index]
        with pytest.raises(IndexError):
            z.get_coordinate_selection(index)
    for index in [([1.0], [2]), np.ones(7, bool)]:
        with pytest.raises(IndexError):
            z.vindex[index]
        with pytest.raises(IndexError):
            z.get_coordinate_selection(index)
    with pytest.raises(hs.errors.VindexInvalidSelectionError, match="mismatch"):
        z.vindex[[0, 1], [0, 1, 2]]
    for index in [np.ones((7, 11), bool), ([[0]], [0]), [7], None]:
        with pytest.raises(IndexError):
            z.oindex[index]
    for index in [np.ones(77, bool), np.ones((7, 10), bool), np.ones((7, 11), int)]:
        with pytest.raises(IndexError):
            z.get_mask_selection(index)
        with pytest.raises(IndexError):
            z.set_mask_selection(index, 0)
    for index in [9, -9, slice(None, None, 2), [0], (0, 0, 0), slice(None, None, -1), None]:
        with pytest.raises(IndexError):
            z.blocks[index]
    for kind in ("get_orthogonal_selection", "get_coordinate_selection", "get_mask_selection"):
        with pytest.raises(hs.errors.UnsupportedError):
            getattr(z, kind)(([0], [0]), fields="a")


def test_numbers_beyond_64_bits_are_out_of_bounds(grid: tuple[hs.Array, Values]) -> None:
    """NumPy takes 2⁶⁴ - 1 for -1. zarr-python does not."""
    z, _ = grid
    index = np.array([2**64 - 1, 2], "u8")
    for attempt in (lambda: z[index], lambda: z.oindex[index], lambda: z.vindex[index, index]):
        with pytest.raises(hs.errors.BoundsCheckError, match="18446744073709551615 is out of bounds"):
            attempt()


def test_blocks(grid: tuple[hs.Array, Values]) -> None:
    z, model = grid
    assert_same(z.blocks[0], model[:4] if z.shards else model[:2])
    assert_same(z.blocks[-1, -1], model[4:, 6:] if z.shards else model[6:, 9:])
    assert_same(z.blocks[...], model)
    assert_same(z.blocks[1:, :1], model[4:, :6] if z.shards else model[2:, :3])
    assert_same(z.blocks[1:1], model[:0])
    assert_same(z.blocks[0:99], model)
    for beyond in (np.s_[5:], np.s_[:, 9:10], np.s_[-9:]):
        # As in zarr-python.
        with pytest.raises(IndexError, match="out of bounds"):
            z.blocks[beyond]
        with pytest.raises(IndexError, match="out of bounds"):
            z.blocks[beyond] = 5
    z.blocks[..., 1] = -1
    model[:, slice(6, 12) if z.shards else slice(3, 6)] = -1
    assert_same(z[...], model)


def test_only_what_is_wanted_is_read_and_decoded() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(1000, 1000), chunks=(10, 1000), dtype="f4")
    z[...] = 1
    told = z.explain(([5, 1, 5, 999], [1, 1, 500, 3]))
    assert (told.chunks, told.bytes_decoded) == (2, 2 * 40_000)
    plain = hs.create_array(
        hs.MemoryStore(), shape=(1000, 10_000), chunks=(10, 10_000), dtype="f4", compressors=None
    )
    plain[...] = 1
    told = plain.explain(([5, 1, 5, 999], [1, 1, 5000, 3]))
    assert (told.chunks, told.bytes_read, told.strategies) == (2, 16, {"read-into": 1, "read-rows": 1})


def test_explain_of_every_kind_of_index() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(8, 12), chunks=(2, 3), dtype="f4")
    z[...] = 1
    mask = np.zeros(z.shape, bool)
    mask[1, 2] = mask[7, 0] = True
    cases = [
        (z.oindex, ([1, 7], [0, 5, 11])),
        (z.oindex, (slice(None, None, 3), np.arange(12) % 5 == 0)),
        (z.vindex, ([1, 7, 1], [0, 5, 2])),
        (z.vindex, mask),
        (z.blocks, (slice(1, 3), 2)),
    ]
    for index, selection in cases:
        told = index.explain(selection)
        assert told.shape == index[selection].shape, selection
        assert sum(task.elements for task in told.tasks) == index[selection].size
        assert not told.write and index.explain(selection, write=True, tasks=1).write
        assert len(index.explain(selection, tasks=1).tasks) == 1
    assert (z.oindex.explain(cases[0][1]).chunks, z.vindex.explain(cases[2][1]).chunks) == (6, 2)
    with pytest.raises(IndexError):
        z.vindex.explain(slice(2))


def test_large_requests(tmp_path: Any) -> None:
    """Several threads, results in the engine's own memory, absent chunks."""
    rng = np.random.default_rng(3)
    model = np.zeros((40, 300, 200), "f4")
    model[:10] = rng.random((10, 300, 200))
    for shards in (None, (16, 100, 100)):
        z = hs.create_array(
            tmp_path / f"{shards}", shape=model.shape, chunks=(8, 50, 50), shards=shards, dtype="f4"
        )
        z[:10] = model[:10]
        points = tuple(rng.integers(-n, n, 400_000) for n in model.shape)
        assert_same(z.vindex[points], model[points])
        mask = rng.random(model.shape) < 0.5
        assert_same(z[mask], model[mask])
        rows, columns = rng.integers(0, 300, 250), rng.integers(0, 200, 150)
        wanted = model[:, rows][:, :, columns]
        assert_same(z.oindex[:, rows, columns], wanted)
        z[mask] = 2
        changed = np.where(mask, np.float32(2), model)
        assert_same(z[...], changed)


def test_threads_that_change_an_index_meanwhile(grid: tuple[hs.Array, Values]) -> None:
    """The index is copied: a read may see either content, but stays within the array."""
    z, _ = grid
    index, stop = np.zeros(5000, int), threading.Event()

    def change() -> None:
        while not stop.is_set():
            index[...] = 10**15
            index[...] = 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            try:
                assert z[index].shape == (5000, 11)
            except IndexError:
                pass
    finally:
        stop.set()
        thread.join()


def test_writers_take_lists(tmp_path: Any) -> None:
    z = hs.create_array(tmp_path / "a", shape=(10, 4), chunks=(2, 4), dtype="i4")
    with z.writer() as w:
        w[...] = 1
        w[[7, 0, 3]] = [[2], [3], [4]]
        w[3:5] = 5
    assert z[:, 0].tolist() == [3, 1, 1, 5, 5, 1, 1, 2, 1, 1]


def test_read_only_arrays(tmp_path: Any) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(5))
    z = hs.open_array(tmp_path / "a", mode="r")
    for way, index in [(z, [1, 2]), (z.oindex, [1, 2]), (z.vindex, [1, 2]), (z.blocks, 0)]:
        with pytest.raises(hs.errors.ReadOnlyError):
            way[index] = 0
