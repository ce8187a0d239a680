"""`map_chunks` compared with NumPy: values, reads and decodes, memory, errors."""

from __future__ import annotations

import math
import os
import pickle
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab._base.shared import SharedArray
from hyperslab._compute.blocks import Input, plan_blocks
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

PADDED = {"nearest": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    """Draws chunks of an array, some in shards, some of several lengths."""
    chunks = tuple(draw(st.integers(1, n + 1)) for n in shape)
    kind = draw(st.sampled_from(["chunks", "shards", "several"]))
    if kind == "shards":
        return {"chunks": chunks, "shards": tuple(c * draw(st.integers(1, 3)) for c in chunks)}
    if kind == "several" and shape and all(shape):
        lengths = []
        for n in shape:
            cuts = sorted(draw(st.sets(st.integers(1, n), max_size=3)) | {n})
            lengths.append([b - a for a, b in zip([0, *cuts], cuts, strict=False)])
        return {"chunks": lengths}
    return {"chunks": chunks}


def largest_object(shape: tuple[int, ...], grid: dict[str, Any]) -> int:
    """Returns the number of elements in the largest object of a grid."""
    lengths = [n if isinstance(n, int) else max(n) for n in grid.get("shards", grid["chunks"])]
    return math.prod(map(min, lengths, shape))


SHAPES = st.lists(st.one_of(st.integers(1, 12), st.sampled_from([0, 1, 20])), max_size=3).map(tuple)


def new(shape: tuple[int, ...], dtype: str, grid: dict[str, Any]) -> hs.Array:
    return hs.create_array(hs.MemoryStore(), shape=shape, dtype=dtype, **grid)


@given(shape=SHAPES, data=st.data())
@settings(max_examples=examples(150))
def test_values_are_those_of_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    dtypes = st.sampled_from(["i2", "f4", "f8", "u1"])
    hs.config.threads = data.draw(st.integers(1, 3))
    values = []
    for _ in range(data.draw(st.integers(1, 3))):
        own = tuple(data.draw(st.sampled_from([n, n, 1])) for n in shape)
        own = own[data.draw(st.integers(0, len(own))) :]
        seed = data.draw(st.integers(0, 1000))
        values.append(np.random.default_rng(seed).integers(0, 100, own).astype(data.draw(dtypes)))
    sources = []
    for each in values:
        if data.draw(st.booleans()):
            sources.append(each)
            continue
        z = new(each.shape, each.dtype.str, data.draw(grids(each.shape)))
        z[...] = each
        sources.append(z.lazy if data.draw(st.booleans()) else z)
    grid = data.draw(grids(shape))
    target = new(shape, "f8", grid)
    # A block needs three sources at most, the result, and a copy of it.
    memory = max(64 << 10, largest_object(shape, grid) * 5 * 8)
    region = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in shape)
    region = data.draw(st.sampled_from([None, region]))
    total = 8 * int(np.zeros(shape)[region or ...].size)

    def add(*blocks: Any) -> Any:
        assert all(type(block) is np.ndarray and block.flags.writeable for block in blocks)
        result = np.zeros(np.broadcast_shapes(*(block.shape for block in blocks)))
        for n, block in enumerate(blocks, 1):
            result = result + n * block
        return np.broadcast_to(
            result, np.broadcast_shapes(result.shape, wanted.get(threading.get_ident(), ()))
        )

    def with_shape(*blocks: Any, block_info: hs.BlockInfo) -> Any:
        wanted[threading.get_ident()] = tuple(axis.stop - axis.start for axis in block_info.region)
        return add(*blocks)

    wanted: dict[int, tuple[int, ...]] = {}
    told: list[tuple[str, int, int]] = []
    assert (
        hs.map_chunks(
            with_shape,
            sources,
            target,
            region=region,
            max_memory=data.draw(st.sampled_from(["256 MiB", memory])),
            progress=lambda *done: told.append(done),
        )
        is target
    )
    expected = np.zeros(shape)
    chosen = region or ...
    summed = np.broadcast_to(sum((n * each for n, each in enumerate(values, 1)), np.zeros(())), shape)
    expected[chosen] = summed[chosen]
    np.testing.assert_array_equal(target[...], expected)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    if total:
        assert told[-1] == ("map", total, total)
    else:
        assert not told


@given(shape=SHAPES.filter(lambda shape: all(shape)), data=st.data())
@settings(max_examples=examples(150))
def test_halos_are_those_of_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    values = np.random.default_rng(7).integers(1, 1000, shape).astype("i8")
    depths = tuple(data.draw(st.integers(0, 3)) for _ in shape)
    edges = tuple(data.draw(st.sampled_from(["clip", *PADDED, 5])) for _ in shape)
    source = new(shape, "i8", data.draw(grids(shape)))
    source[...] = values
    target = new(shape, "i8", data.draw(grids(shape)))
    keep = data.draw(st.booleans())

    def window(block: Any, block_info: hs.BlockInfo) -> Any:
        """Returns the sum of everything in reach along each axis."""
        result = np.zeros(tuple(axis.stop - axis.start for axis in block_info.region), "i8")
        for at in np.ndindex(result.shape):
            reach = tuple(
                slice(max(i + before - depth, 0), i + before + depth + 1)
                for i, (before, _), depth in zip(at, block_info.halo, depths, strict=True)
            )
            result[at] = block[reach].sum()
        return np.pad(result, block_info.halo) if keep and shape else result

    hs.map_chunks(window, source, target, halo=depths, boundary=edges)
    padded, first = values, []
    for axis, (depth, edge) in enumerate(zip(depths, edges, strict=True)):
        widths = [(depth, depth) if k == axis else (0, 0) for k in range(len(shape))]
        first.append(0 if edge == "clip" else depth)
        if edge in PADDED:
            padded = np.pad(padded, widths, PADDED[str(edge)])  # type: ignore[call-overload]
        elif edge == 5:
            padded = np.pad(padded, widths, constant_values=5)
    expected = np.zeros(shape, "i8")
    for at in np.ndindex(shape):
        reach = tuple(
            slice(max(i + f - d, 0), i + f + d + 1) for i, f, d in zip(at, first, depths, strict=True)
        )
        expected[at] = padded[reach].sum()
    np.testing.assert_array_equal(target[...], expected)


def test_a_new_array_is_like_its_source(tmp_path: Path) -> None:
    z = hs.create_array(
        hs.MemoryStore(), shape=(8, 6), chunks=(2, 3), shards=(4, 6), dtype="f4", dimension_names=("y", "x")
    )
    z[...] = np.arange(48).reshape(8, 6)
    made = hs.map_chunks(np.sqrt, z, tmp_path / "a")
    assert (made.shape, made.chunks, made.shards, made.dtype) == ((8, 6), (2, 3), (4, 6), np.float32)
    assert made.dimension_names == ("y", "x")
    np.testing.assert_array_equal(hs.open(tmp_path / "a")[...], np.sqrt(z[...]))
    other = hs.map_chunks(np.add, [z, np.float64(1)], tmp_path / "b", chunks=(8, 1), fill_value=3)
    assert (other.chunks, other.shards, other.dtype, other.fill_value) == ((8, 1), None, np.float64, 3)
    np.testing.assert_array_equal(other[...], z[...] + 1)
    several = hs.create_array(hs.MemoryStore(), shape=(5,), chunks=[[2, 3]], dtype="i4")
    assert hs.map_chunks(np.negative, several, hs.MemoryStore()).read_chunk_sizes == ((2, 3),)


def test_sources_of_files(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(60.0).reshape(6, 10)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["whole"] = values
        file.create_dataset("cut", data=values, chunks=(2, 5), compression="gzip")
    group = hs.open(tmp_path / "a.h5", mode="r")
    made = hs.map_chunks(np.add, [group["cut"], group["whole"]], hs.MemoryStore())
    assert made.chunks == (2, 5)
    np.testing.assert_array_equal(made[...], 2 * values)
    # Data without chunks is read one block at a time.
    few = hs.map_chunks(np.negative, group["whole"], hs.MemoryStore(), chunks=(1, 10), max_memory=3 * 80)
    np.testing.assert_array_equal(few[...], -values)


def test_an_old_array_is_replaced_when_the_new_one_is_complete(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(4), chunks=(2,))

    def fail(block: Any) -> Any:
        if block[0] == 2:
            raise RuntimeError("no")
        return block

    with pytest.raises(RuntimeError, match="no"):
        hs.map_chunks(fail, hs.open_array(tmp_path / "a"), tmp_path / "a", overwrite=True)
    assert hs.open(tmp_path / "a")[...].tolist() == [0, 1, 2, 3]
    hs.map_chunks(np.negative, hs.open_array(tmp_path / "a"), tmp_path / "a", overwrite=True)
    assert hs.open(tmp_path / "a")[...].tolist() == [0, -1, -2, -3]
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.map_chunks(np.negative, np.arange(4), tmp_path / "a")
    for again in (False, True):
        made = hs.map_chunks(
            np.sqrt, np.ones((3, 90000)), tmp_path / "b", access="time series", overwrite=again
        )
        assert made.chunks[0] == 3


def test_in_place() -> None:
    z = hs.array(np.arange(10.0), chunks=(3,))
    hs.map_chunks(np.square, z, z)
    assert z[...].tolist() == [n * n for n in range(10)]
    for options in ({"halo": 1}, {"executor": object()}):
        with pytest.raises(hs.errors.InvalidArgumentError, match="is the target"):
            hs.map_chunks(np.square, z, z, **options)
    with pytest.raises(hs.errors.InvalidArgumentError, match="is the target"):
        hs.map_chunks(np.square, z.lazy[::-1], z)


def test_missing_elements_text_and_dates() -> None:
    z = hs.array([1, None, 3], dtype=hs.optional_dtype("i4"), chunks=(2,))
    made = hs.map_chunks(lambda block: block + 1, z, hs.MemoryStore(), dtype=hs.optional_dtype("i4"))
    assert made[...].tolist() == [2, None, 4]
    text = hs.array(["a", "bc", "def"], dtype=str, chunks=(2,))
    assert hs.map_chunks(np.strings.upper, text, hs.MemoryStore())[...].tolist() == ["A", "BC", "DEF"]
    dates = hs.array(np.array(["2020-01-01", "2020-01-02"], "M8[D]"), chunks=(1,))
    made = hs.map_chunks(lambda block: block + np.timedelta64(1, "D"), dates, hs.MemoryStore())
    assert made[...].tolist() == (dates[...] + np.timedelta64(1, "D")).tolist()


# ---- blocks


def test_blocks_are_whole_objects_of_the_target() -> None:
    shape = (40, 64, 64)
    source = hs.create_array(hs.MemoryStore(), shape=shape, chunks=(1, 64, 64), dtype="f8", fill_value=1)
    target = hs.create_array(hs.MemoryStore(), shape=shape, chunks=(5, 8, 8), shards=(10, 16, 16), dtype="f8")
    seen = []

    def note(block: Any, block_info: hs.BlockInfo) -> Any:
        seen.append(block_info)
        return block

    hs.map_chunks(note, source, target)
    # Source chunks span the last two axes. Blocks that do too decode each chunk once.
    assert {info.counts for info in seen} == {(4, 1, 1)}
    assert sorted(info.index[0] for info in seen) == [0, 1, 2, 3]
    assert all(info.region[0].start % 10 == 0 for info in seen)
    seen.clear()
    # With less memory, blocks are as large as possible.
    hs.map_chunks(note, source, target, max_memory=4 * 3 * 8 * 10 * 16 * 16)
    assert all(
        axis.start % step == 0 for info in seen for axis, step in zip(info.region, (10, 16, 16), strict=True)
    )
    assert len({info.index for info in seen}) == len(seen) > 4


@given(data=st.data())
@settings(max_examples=examples(300))
def test_plans(data: st.DataObject) -> None:
    """Blocks cover the region once, split no object and fit the memory."""
    rank = data.draw(st.integers(0, 3))
    spans = [sorted(data.draw(st.tuples(*[st.integers(0, 60)] * 2))) for _ in range(rank)]
    region = tuple(slice(*span) for span in spans)
    units = [data.draw(st.integers(1, 20)) for _ in range(rank)]
    inputs = [
        Input(
            data.draw(st.sampled_from([1, 8])),
            data.draw(st.sampled_from([None, tuple(data.draw(st.integers(1, 30)) for _ in range(rank))])),
            tuple(data.draw(st.integers(0, 2)) for _ in range(rank)),
            tuple(data.draw(st.integers(0, 2)) for _ in range(rank)),
        )
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    budget = data.draw(st.integers(1, 2_000_000))
    workers = data.draw(st.integers(1, 4))
    inside = [min(unit, stop - start) for unit, (start, stop) in zip(units, spans, strict=True)]
    least = sum(each.bytes(inside) for each in inputs) + 2 * 4 * int(np.prod(inside))
    if least > budget:
        with pytest.raises(hs.errors.InvalidArgumentError, match=f"at least {least} bytes for one block"):
            plan_blocks(region, units, 4, inputs, budget, workers)
        return
    blocks = plan_blocks(region, units, 4, inputs, budget, workers)
    assert 1 <= blocks.workers <= workers
    assert blocks.workers * blocks.block_bytes <= budget
    count = np.zeros([60] * rank, int)
    for number in range(len(blocks)):
        place = blocks.region(number)
        count[place] += 1
        for axis, unit, (start, stop) in zip(place, units, spans, strict=True):
            assert axis.start == start or axis.start % unit == 0
            assert axis.stop == stop or axis.stop % unit == 0
    expected = np.zeros_like(count)
    expected[region] = 1
    assert (count == expected).all()


def test_few_blocks_are_at_hand_at_a_time() -> None:
    hs.config.threads = 3
    z = hs.zeros((60, 100), chunks=(1, 100), dtype="f8")
    now, most, turn = 0, 0, threading.Lock()

    def count(block: Any) -> Any:
        nonlocal now, most
        with turn:
            now += 1
            most = max(most, now)
        result = block + 1
        with turn:
            now -= 1
        return result

    # The memory of a block of one row: read, result, and result again.
    hs.map_chunks(count, z, hs.MemoryStore(), max_memory=2 * 2400)
    assert 1 <= most <= 2
    with pytest.raises(
        hs.errors.InvalidArgumentError, match=r"at least 2400 bytes .* \(1, 100\).* found 2399 bytes"
    ):
        hs.map_chunks(count, z, hs.MemoryStore(), max_memory=2399)


# ---- executors


def plus(block: Any, by: Any, block_info: hs.BlockInfo) -> Any:
    if "fail" in os.environ.get("HYPERSLAB_TEST", "") and block_info.index == (1, 0):
        raise ZeroDivisionError("by zero")
    return block + by


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors(kind: Any, tmp_path: Path) -> None:
    values = np.arange(48.0).reshape(8, 6)
    z = hs.create_array(tmp_path / "a", shape=(8, 6), dtype="f8", chunks=(2, 3))
    z[...] = values
    told = []
    with kind(2, **({"mp_context": get_context("spawn")} if kind is ProcessPoolExecutor else {})) as executor:
        made = hs.map_chunks(
            plus,
            [z, np.arange(6.0)],
            tmp_path / "b",
            chunks=(2, 6),
            max_memory=400,
            executor=executor,
            progress=lambda *done: told.append(done),
        )
    np.testing.assert_array_equal(made[...], values + np.arange(6))
    assert [done for _, done, _ in told] == [96, 192, 288, 384]


def test_errors_of_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSLAB_TEST", "fail")
    with ThreadPoolExecutor(2) as executor, pytest.raises(ZeroDivisionError) as caught:
        hs.map_chunks(
            plus, [np.ones((4, 6)), 1], tmp_path / "b", chunks=(2, 6), max_memory=400, executor=executor
        )
    notes = caught.value.__notes__
    assert notes[0] == "in map_chunks, block (1, 0): [2:4, 0:6] of the target"
    assert notes[-1] == "Task 1 failed 3 times."
    with pytest.raises(hs.errors.ArgumentTypeError, match="executor"):
        hs.map_chunks(plus, np.ones(3), hs.MemoryStore(), executor=3)


# ---- errors


def test_errors_name_the_block(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(4, 6), chunks=(2, 3), dtype="f8", fill_value=1)

    def fails(block: Any, block_info: hs.BlockInfo) -> Any:
        if block_info.region[0].start == 2:
            raise ZeroDivisionError("by zero")
        return block

    hs.config.threads = 2
    with pytest.raises(ZeroDivisionError) as caught:
        hs.map_chunks(fails, z, hs.MemoryStore(), chunks=(2, 6), max_memory=300)
    assert caught.value.__notes__ == ["in map_chunks, block (1, 0): [2:4, 0:6] of the target"]
    z[...] = 2
    (tmp_path / "a" / "c" / "0" / "1").write_bytes(b"no chunk")
    with pytest.raises(hs.errors.ChunkError) as broken:
        hs.map_chunks(np.sqrt, z, hs.MemoryStore(), max_memory=300)
    assert broken.value.__notes__ == ["in map_chunks, block (0, 1): [0:2, 3:6] of the target"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda block: block[:-1], r"returned shape \(3,\), expected \(4,\)"),
        (lambda block: 7, r"returned shape \(\), expected \(4,\)"),
        (
            lambda block: block * 1j,
            r"returned complex128, which casting='same_kind' does not cast to the target's float64",
        ),
    ],
)
def test_results_that_do_not_fit(function: Any, message: str) -> None:
    with pytest.raises(hs.errors.ArrayShapeError, match=message):
        hs.map_chunks(function, hs.ones((4,)), hs.MemoryStore())


def test_results_are_cast() -> None:
    z = hs.array(np.array([4, 9], "i4"))
    with pytest.raises(hs.errors.ArrayShapeError, match="pass dtype for a new array"):
        hs.map_chunks(np.sqrt, z, hs.MemoryStore())
    assert hs.map_chunks(np.sqrt, z, hs.MemoryStore(), dtype="f4")[...].tolist() == [2, 3]
    assert hs.map_chunks(np.sqrt, z, hs.MemoryStore(), casting="unsafe").dtype == np.int32


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"halo": -1}, hs.errors.InvalidArgumentError, "halo"),
        ({"halo": (1, 1)}, hs.errors.InvalidArgumentError, "halo: expected one for each of 1 axes"),
        ({"halo": {1: 1}}, hs.errors.InvalidArgumentError, "no axis 1"),
        ({"boundary": "mirror"}, hs.errors.InvalidArgumentError, "boundary: expected 'clip'"),
        ({"region": 3}, hs.errors.InvalidArgumentError, "region"),
        ({"region": slice(None, None, 2)}, hs.errors.InvalidArgumentError, "step 1"),
        ({"max_memory": "many"}, ValueError, "number of bytes"),
        ({"data": 3}, TypeError, "data"),
        ({"chunk": 3}, TypeError, "chunk"),
    ],
)
def test_arguments(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        hs.map_chunks(np.sqrt, hs.ones((4,)), hs.MemoryStore(), **options)


def test_sources_that_do_not_fit() -> None:
    target = hs.zeros((4, 3))
    with pytest.raises(hs.errors.ArrayShapeError, match=r"sources\[1\] of shape \(4,\) cannot be broadcast"):
        hs.map_chunks(np.add, [np.ones(3), np.ones(4)], target)
    with pytest.raises(hs.errors.ArrayShapeError, match="cannot be broadcast together"):
        hs.map_chunks(np.add, [np.ones(3), np.ones(4)], hs.MemoryStore())
    with pytest.raises(hs.errors.InvalidArgumentError, match="sources"):
        hs.map_chunks(np.add, [], target)
    with pytest.raises(hs.errors.ArgumentTypeError, match="expected a function"):
        hs.map_chunks(3, target, target)  # type: ignore[arg-type]
    with pytest.raises(hs.errors.ArgumentTypeError, match="the target exists"):
        hs.map_chunks(np.sqrt, target, hs.zeros((4, 3)), dtype="f4")
    with pytest.raises(TypeError, match=r"sources\[0\]: expected an array"):
        hs.map_chunks(np.sqrt, object(), target)


def test_the_state_of_numpy_is_that_of_the_caller() -> None:
    hs.config.threads = 2
    z = hs.full((8,), -1.0, chunks=(1,))
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        hs.map_chunks(np.sqrt, z, hs.MemoryStore(), max_memory=48)
    with np.errstate(invalid="ignore"):
        assert np.isnan(hs.map_chunks(np.sqrt, z, hs.MemoryStore(), max_memory=48)[...]).all()


class Pickling(ThreadPoolExecutor):
    """Sends tasks through pickle, as to other processes, and counts the bytes."""

    def __init__(self, sees_files: bool = True) -> None:
        super().__init__(1)
        self.sent: list[int] = []
        self.sees_files = sees_files

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        task = pickle.dumps((function, args))
        self.sent.append(len(task))
        if not self.sees_files:
            # As on another machine.
            task = task.replace(b"/hyperslab-", b"/elsewhere-")
        function, args = pickle.loads(task)
        return super().submit(function, *args)


def subtract(block: Any, mean: Any) -> Any:
    return block - mean


def test_large_sources_go_to_workers_once(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((16, 256, 256)).astype("f4")
    z = hs.create_array(tmp_path / "a", data=values, chunks=(1, 256, 256))
    mean = np.asfortranarray(values.mean(axis=0))
    before = set(Path(tempfile.gettempdir()).glob("hyperslab-*.array"))
    with Pickling() as executor:
        made = hs.map_chunks(subtract, [z, mean], tmp_path / "b", executor=executor, max_memory="1 MiB")
    np.testing.assert_array_equal(made[...], values - mean)
    assert len(executor.sent) == 16 and max(executor.sent) < 10_000
    assert set(Path(tempfile.gettempdir()).glob("hyperslab-*.array")) == before


def test_workers_without_our_files_get_the_elements(tmp_path: Path) -> None:
    mean = np.arange(1 << 16, dtype="f4").reshape(256, 256)
    ones = np.ones((3, 256, 256), "f4")
    with Pickling(sees_files=False) as executor:
        made = hs.map_chunks(
            subtract,
            [ones, mean],
            tmp_path / "b",
            chunks=(1, 256, 256),
            executor=executor,
            max_memory="1 MiB",
        )
    np.testing.assert_array_equal(made[...], ones - mean)
    assert sum(sent > mean.nbytes for sent in executor.sent) == 3


@pytest.mark.parametrize("dtype", ["f8", "M8[s]", "S5", "i4,f8", "?"])
def test_shared_arrays_keep_their_elements(dtype: Any) -> None:
    values = np.zeros((300, 50, 10), dtype)
    values.reshape(-1)[::7] = np.ones(1, dtype)[0]
    shared = SharedArray(values[::2, 5:])
    again = pickle.loads(pickle.dumps(shared)).get()
    assert type(again) is np.ndarray and again.dtype == values.dtype
    np.testing.assert_array_equal(again, values[::2, 5:])
    shared.close()
    # Sent with its elements from now on.
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(shared)).get(), values[::2, 5:])
