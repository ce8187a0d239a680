"""A result that Python holds never changes, whatever is read later into recycled pages."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import hyperslab as hs
import numpy as np
import pytest
from hyperslab import _native

N = 1 << 18


@pytest.fixture
def arrays() -> list[hs.Array]:
    """Returns arrays that differ in every element. Their size is one that the recycler provides."""
    made = []
    for number in range(4):
        z = hs.create_array(hs.MemoryStore(), shape=(N,), chunks=(N // 4,), dtype="u4", compressors=None)
        z[:] = np.arange(N, dtype="u4") + number * N
        made.append(z)
    return made


def expected(number: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.arange(number * N, number * N + N, dtype="u4")


def churn(arrays: list[hs.Array]) -> None:
    """Reads and drops results of the same size."""
    for _ in range(3):
        for z in arrays[1:]:
            z[:]
    gc.collect()


@pytest.mark.parametrize(
    "keep",
    [
        lambda result: result,
        lambda result: result[::-3],
        lambda result: result[5:6],
        lambda result: result.reshape(2, -1).T,
        lambda result: result.view("u1"),
        lambda result: memoryview(result),
        lambda result: np.frombuffer(result.data, "u4"),
        lambda result: result[:, None],
        lambda result: np.lib.stride_tricks.sliding_window_view(result, 3),
    ],
    ids=["itself", "slice", "element", "transposed", "bytes", "memoryview", "buffer", "axis", "windows"],
)
def test_views_keep_the_pages(arrays: list[hs.Array], keep: Callable[[np.ndarray], np.ndarray]) -> None:
    result = arrays[0][:]
    view = keep(result)
    copy = np.array(view)
    del result
    gc.collect()
    churn(arrays)
    assert np.array_equal(np.asarray(view), copy)


def test_pages_are_used_again(arrays: list[hs.Array]) -> None:
    hs.config.recycler_bytes = 0
    hs.config.recycler_bytes = 64 << 20
    result = arrays[0][:]
    place = result.ctypes.data
    held = arrays[1][:]
    assert held.ctypes.data != place
    del result
    assert _native.recycled_bytes() >= 4 * N
    again = arrays[2][:]
    assert again.ctypes.data == place
    assert np.array_equal(again, expected(2)) and np.array_equal(held, expected(1))


def test_the_bound_holds(arrays: list[hs.Array]) -> None:
    hs.config.recycler_bytes = 5 * N
    results = [z[:] for z in arrays]
    del results
    gc.collect()
    assert 0 < _native.recycled_bytes() <= 5 * N
    hs.config.recycler_bytes = 0
    assert _native.recycled_bytes() == 0
    result = arrays[0][:]
    del result
    assert _native.recycled_bytes() == 0


def test_absent_chunks_are_zero_in_recycled_pages(arrays: list[hs.Array]) -> None:
    empty = hs.create_array(hs.MemoryStore(), shape=(N,), chunks=(N // 16,), dtype="u4")
    filled = hs.create_array(hs.MemoryStore(), shape=(N,), chunks=(N // 16,), dtype="u4", fill_value=7)
    for _ in range(3):
        churn(arrays)
        assert not empty[:].any()
        churn(arrays)
        assert (filled[:] == 7).all()


def test_results_can_be_written(arrays: list[hs.Array]) -> None:
    first, second = arrays[0][:], arrays[0][:]
    first[:] = 0
    assert np.array_equal(second, expected(0)) and np.array_equal(arrays[0][:], expected(0))


def test_threads(arrays: list[hs.Array]) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        held = []
        for turn in range(30):
            held.append(arrays[number][turn:])
            if len(held) > 3:
                held.pop(turn % 3)
        for result in held:
            if not np.array_equal(result, expected(number)[N - len(result) :]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number % 4,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_failed_read_gives_its_pages_back(arrays: list[hs.Array]) -> None:
    hs.config.recycler_bytes = 64 << 20
    broken = hs.create_array(hs.MemoryStore(), shape=(N,), chunks=(N // 4,), dtype="u4", compressors=None)
    broken[:] = 1
    broken.store.set("c/2", b"short")
    before = _native.recycled_bytes()
    with pytest.raises(hs.errors.ChunkError):
        broken[:]
    assert _native.recycled_bytes() >= before
    assert np.array_equal(arrays[3][:], expected(3))
