"""Read-ahead and write-behind: values as in plain loops, bounded memory, errors in their place."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases, selections
from support import as_array, as_view, assert_same, assign, chunk_files, examples, scratch
from test_fork import in_child

ZSTD = {"name": "zstd", "configuration": {"level": 1}}
AHEAD = st.sampled_from([None, 0, 1000, "1 MiB"])


def ocean(store: Any, steps: int = 40, row: int = 100_000, chunk: int = 1, **arguments: Any) -> Any:
    """Returns an array of rows of 400 kB. The elements of each row are its number plus one."""
    z = hs.create_array(
        store, shape=(steps, row), chunks=(chunk, row), dtype="f4", compressors=ZSTD, **arguments
    )
    z[...] = np.arange(1, steps + 1, dtype="f4")[:, None]
    return z


def run_child(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


# ---- reading


@given(case=cases(), data=st.data())
@settings(max_examples=examples(200))
def test_rows_are_those_of_zarr_python(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        hs.create_array(root / "a", **case.arguments())[...] = case.data
        ours = hs.open_array(root / "a", mode="r")
        if ours.ndim == 0:
            with pytest.raises(TypeError):
                ours.stream()
            return
        theirs = zarr.open_array(str(root / "a"), mode="r")
        hs.config.threads = data.draw(st.integers(1, 3))
        axis = data.draw(st.integers(-ours.ndim, ours.ndim - 1))
        start, stop = data.draw(st.tuples(*[st.one_of(st.none(), st.integers(-45, 45))] * 2))
        rows = range(ours.shape[axis])[start:stop]
        stream = ours.stream(axis, start=start, stop=stop, ahead=data.draw(AHEAD))
        before = (slice(None),) * (axis % ours.ndim)
        found = list(stream)
        assert [index for index, _ in found] == list(rows)
        for index, row in found:
            assert type(row) is type(ours[(*before, index)])
            assert_same(row, case.values[(*before, index)], f"row {index}")
            assert_same(row, as_array(theirs[(*before, index)], case.opened_dtype), "zarr-python's")
        assert list(stream) == []


def test_axes() -> None:
    z = hs.array(np.arange(24).reshape(2, 3, 4), chunks=(1, 2, 3))
    assert [i for i, _ in z.stream(-1)] == [0, 1, 2, 3]
    assert next(z.stream(1))[1].tolist() == z[:, 0].tolist()
    for axis in (3, -4, 99, -99):
        with pytest.raises(hs.errors.InvalidArgumentError, match=f"axis {axis} is out of bounds"):
            z.stream(axis)
    with pytest.raises(ValueError):
        z.stream(3)
    with pytest.raises(TypeError):
        hs.array(5).stream()
    with pytest.raises(ValueError, match="number of bytes"):
        z.stream(ahead="many")
    assert list(hs.zeros((0, 3), chunks=(1, 3)).stream()) == []
    assert [row.shape for _, row in hs.zeros((2, 0), chunks=(1, 3)).stream()] == [(0,), (0,)]
    assert list(hs.zeros((2, 0), chunks=(1, 3)).stream(1)) == []


def test_an_iterator_that_knows_its_length() -> None:
    stream = ocean(hs.MemoryStore(), 10, 10).stream(start=2)
    assert iter(stream) is stream and stream.__length_hint__() == 8
    assert next(stream)[0] == 2 and stream.__length_hint__() == 7
    stream.close()
    assert stream.__length_hint__() == 0 and list(stream) == []


@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("row", [10, 10_000, 100_000])
def test_rows_are_the_users(chunk: int, row: int) -> None:
    """Rows may be kept and changed, and keep no other memory alive."""
    z = ocean(hs.MemoryStore(), 30, row, chunk)
    kept = []
    for index, values in z.stream():
        assert values.flags.writeable and values.flags.c_contiguous
        values += 1
        kept.append(values)
    assert all((values == index + 2).all() for index, values in enumerate(kept))
    assert (z[:, 0] == np.arange(1, 31)).all()
    # No two rows share memory, and no row's memory holds a neighbour.
    assert len({values.__array_interface__["data"][0] for values in kept}) == 30
    hs.config.recycler_bytes = 0
    hs.config.recycler_bytes = 64 << 20
    keep, values = kept[3], None
    del kept
    gc.collect()
    assert (keep == 5).all()


@pytest.mark.parametrize("place", [0, 13, 39])
@pytest.mark.parametrize("chunk", [1, 4])
def test_a_corrupt_chunk_is_an_error_in_its_place(tmp_path: Path, place: int, chunk: int) -> None:
    z = ocean(tmp_path / "a", chunk=chunk)
    (tmp_path / "a" / "c" / str(place // chunk) / "0").write_bytes(b"damaged")
    stream = z.stream()
    for index in range(place // chunk * chunk):
        found, row = next(stream)
        assert found == index and (row == index + 1).all()
    with pytest.raises(hs.errors.ChunkError, match=rf"chunk \[{place // chunk}, 0\]"):
        next(stream)
    assert list(stream) == []
    # The array itself is intact.
    after = place // chunk * chunk + chunk
    assert [index for index, _ in z.stream(start=after)] == list(range(after, 40))


def test_leaving_early(tmp_path: Path) -> None:
    z = ocean(tmp_path / "a")
    for _ in range(30):
        for index, row in z.stream():
            if index == 3:
                assert (row == 4).all()
                break
    assert (z[...] == np.arange(1, 41)[:, None]).all()


def test_many_streams_at_once() -> None:
    z = ocean(hs.MemoryStore(), 40, 20_000)
    streams = [z.stream(start=start) for start in range(20)]
    for step in range(20):
        for start, stream in enumerate(streams):
            index, row = next(stream)
            assert index == start + step and (row == index + 1).all()


def test_threads_with_streams_of_their_own_and_one_of_all() -> None:
    z = ocean(hs.MemoryStore(), 40, 20_000)
    shared = z.stream()
    seen: list[int] = []
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for index, row in z.stream():
                assert (row == index + 1).all()
            while True:
                try:
                    index, row = next(shared)
                except ValueError as error:
                    assert "by another thread" in str(error)
                    continue
                except StopIteration:
                    break
                assert (row == index + 1).all()
                seen.append(index)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and sorted(seen) == list(range(40))


PEAK = """
import sys
import numpy as np, hyperslab as hs

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) << 10

hs.config.recycler_bytes = "32 MiB"
hs.config.threads = 2
z = hs.create_array(sys.argv[1], shape=(200, 1 << 20), chunks=(1, 1 << 20), dtype="f4", compressors=None)
before = peak()
with z.writer(buffer="32 MiB") as w:
    for i in range(200):
        w[i] = np.full(1 << 20, i + 1, "f4")
count = 0
for i, row in z.stream(ahead="32 MiB"):
    assert row[0] == row[-1] == i + 1
    count += 1
assert count == 200
print((peak() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_bounded(tmp_path: Path) -> None:
    """800 MiB pass through. The buffer or read-ahead and the recycler take most of the memory."""
    done = run_child(PEAK, str(tmp_path / "a"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 120, f"{done.stdout.strip()} MiB"


# ---- writing


@given(case=cases(), data=st.data())
@settings(max_examples=examples(200))
def test_a_writer_stores_what_direct_writes_store(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        direct = hs.create_array(root / "direct", **case.arguments())
        behind = hs.create_array(root / "behind", **case.arguments())
        model = direct.read()
        hs.config.threads = data.draw(st.integers(1, 3))
        with behind.writer(buffer=data.draw(AHEAD)) as w:
            for number in range(data.draw(st.integers(0, 8))):
                # Overlapping and partial selections with any step.
                selection = data.draw(selections(case.shape))
                value = np.roll(case.values, number)[as_view(selection)].copy()
                if data.draw(st.booleans()):
                    # One element for the whole selection.
                    value = value.reshape(-1)[:1]
                if value.size == 0:
                    continue
                direct[selection] = value
                assign(model, selection, value)
                w[selection] = value
                value[...] = np.zeros((), value.dtype)
                if data.draw(st.integers(0, 4)) == 0:
                    w.flush()
                    assert_same(behind[...], model)
        assert_same(behind[...], model)
        assert_same(behind[...], direct[...])
        assert chunk_files(root / "behind") == chunk_files(root / "direct")
        theirs = zarr.open_array(str(root / "behind"), mode="r")
        assert_same(as_array(theirs[...], case.opened_dtype), model)


@pytest.mark.parametrize("value", [5, [[1], [2]], np.arange(12, dtype="f8").reshape(4, 3).T[:2]])
def test_values_are_converted_and_broadcast(value: Any) -> None:
    z = hs.zeros((3, 2, 4), chunks=(1, 2, 2), dtype="i4")
    with z.writer() as w:
        w[1] = value
        w[-1, ::-1] = value
    expected = np.zeros((3, 2, 4), "i4")
    expected[1] = value
    expected[-1, ::-1] = value
    assert_same(z[...], expected)


def test_rows_of_larger_chunks(rng: np.random.Generator) -> None:
    """The writer joins waiting neighbours.

    In any order, and with overlaps, values are as in a loop.
    """
    z = hs.create_array(hs.MemoryStore(), shape=(60, 7, 90), chunks=(8, 3, 50), dtype="i4", compressors=ZSTD)
    expected = np.zeros(z.shape, "i4")
    with z.writer() as w:
        for number in range(600):
            kind = number // 60 % 4
            row = number % 60 if kind < 2 else int(rng.integers(60))
            at = (row, slice(None, None, -1)) if kind % 2 else (slice(row, row + 1 + number % 3), ..., 5)
            expected[at] = number
            w[at] = number
    assert_same(z[...], expected)


def test_refusals_are_those_of_an_assignment(tmp_path: Path) -> None:
    z = ocean(tmp_path / "a", 4, 10)
    with z.writer() as w:
        with pytest.raises(hs.errors.BoundsCheckError, match="index 4"):
            w[4] = 1
        with pytest.raises(hs.errors.ArrayShapeError, match="could not broadcast"):
            w[0] = [1, 2, 3]
        with pytest.raises(ValueError):
            w[0] = "text"
        with pytest.raises(hs.errors.UnsupportedSelectionError):
            w[None] = 1
        w[0] = 9
    with pytest.raises(hs.errors.InvalidArgumentError, match="the writer is closed"):
        w[1] = 1
    w.flush()
    w.close()
    assert z[:, 0].tolist() == [9, 2, 3, 4]
    with pytest.raises(hs.errors.ReadOnlyError, match="read-only"):
        hs.open_array(tmp_path / "a", mode="r").writer()


def test_flush_is_a_barrier(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(60, 50_000), chunks=(1, 50_000), dtype="f4", compressors=ZSTD)
    w = z.writer()
    for row in range(60):
        w[row] = row + 1
        if row % 20 == 19:
            w.flush()
            assert len(chunk_files(tmp_path)) == row + 1
            assert (z[: row + 1] == np.arange(1, row + 2)[:, None]).all()


def test_chunks_of_fill_value_are_elided_as_ever(tmp_path: Path) -> None:
    for keep in (False, True):
        z = ocean(tmp_path / str(keep), 4, 10, config={"write_empty_chunks": keep})
        with z.writer() as w:
            w[1:3] = 0
        assert len(chunk_files(tmp_path / str(keep))) == (4 if keep else 2)


def test_an_array_that_grows_under_the_writer(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(0, 1000), chunks=(3, 1000), dtype="i4", compressors=ZSTD)
    with z.writer() as w:
        for row in range(50):
            z.resize((row + 1, 1000))
            w[row] = row
    assert_same(z[...], np.repeat(np.arange(50, dtype="i4")[:, None], 1000, axis=1))


def test_threads_share_a_writer() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(64, 500), chunks=(5, 500), dtype="i4", compressors=ZSTD)
    with z.writer(buffer=10_000) as w:

        def work(first: int) -> None:
            for row in range(first, 64, 4):
                w[row] = row
                w[row, ::2] = -row

        threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = np.repeat(np.arange(64, dtype="i4")[:, None], 500, axis=1)
    expected[:, ::2] *= -1
    assert_same(z[...], expected)


def obstruct(root: Path, row: int) -> None:
    """Puts a directory where a chunk's file should be. Not even root can replace it."""
    (root / "a" / "c" / str(row) / "0" / "in the way").mkdir(parents=True)


def test_an_error_is_raised_once_and_the_rest_is_stored(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(20, 1000), chunks=(1, 1000), dtype="f4", compressors=ZSTD)
    obstruct(tmp_path, 7)
    raised = []
    w = z.writer()
    for row in range(20):
        try:
            w[row] = row + 1
        except hs.errors.StoreError as error:
            raised.append(str(error))
            w[row] = row + 1
    try:
        w.flush()
    except hs.errors.StoreError as error:
        raised.append(str(error))
    assert len(raised) == 1 and str(tmp_path) in raised[0] and "chunk [7, 0]" in raised[0], raised
    w.close()
    for row in set(range(20)) - {7}:
        assert (z[row] == row + 1).all()


def test_leaving_the_block_raises_what_went_wrong(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(3, 1000), chunks=(1, 1000), dtype="f4", compressors=ZSTD)
    obstruct(tmp_path, 2)
    with pytest.raises(hs.errors.StoreError, match=r"chunk \[2, 0\]"), z.writer() as w:
        w[2] = 1
    with pytest.raises(ZeroDivisionError) as caught, z.writer() as w:
        w[0] = 1
        w[2] = 1
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert "chunk [2, 0]" in note
    # Elements written before the exception are stored.
    assert (z[0] == 1).all()
    with pytest.raises(ZeroDivisionError) as caught, z.writer() as w:
        w[1] = 1
        raise ZeroDivisionError
    assert not hasattr(caught.value, "__notes__") and (z[1] == 1).all()


def test_a_forgotten_writer_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    z = hs.create_array(tmp_path / "a", shape=(30, 1000), chunks=(1, 1000), dtype="f4", compressors=ZSTD)
    w = z.writer()
    for row in range(30):
        w[row] = row + 1
    del w
    gc.collect()
    assert (z[...] == np.arange(1, 31)[:, None]).all()
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_value))
    (tmp_path / "a/c/5/0").unlink()
    obstruct(tmp_path, 5)
    w = z.writer()
    w[5] = 1
    del w
    gc.collect()
    assert len(told) == 1 and isinstance(told[0], hs.errors.StoreError) and "chunk [5, 0]" in str(told[0])


def test_a_writer_left_open_at_exit(tmp_path: Path) -> None:
    # The remaining work takes longer than the interval at which signals are checked.
    code = """
        import sys
        import numpy as np, hyperslab as hs
        form = dict(shape=(50, 100_000), chunks=(1, 100_000), dtype="f4", compressors=hs.codecs.Gzip(level=9))
        z = hs.create_array(sys.argv[1], **form)
        w = z.writer()
        values = np.random.default_rng(0).integers(1, 20, 100_000)
        for row in range(50):
            w[row] = values + row
        s = z.stream()
        next(s)
    """
    done = run_child(code, str(tmp_path / "a"))
    assert (done.returncode, done.stderr) == (0, "")
    values = np.random.default_rng(0).integers(1, 20, 100_000)
    assert (hs.open_array(tmp_path / "a")[...] == values + np.arange(50)[:, None]).all()


# ---- both


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forks(tmp_path: Path) -> None:
    """A stream continues in a child.

    A writer there writes at once, and its parent keeps the queue.
    """
    hs.config.threads = 3
    z = ocean(tmp_path / "a")
    out = hs.create_array(
        tmp_path / "b", shape=(40, 100_000), chunks=(1, 100_000), dtype="f4", compressors=ZSTD
    )
    for after in (0, 1, 20):
        stream = z.stream()
        writer = out.writer()
        for _ in range(after):
            index, row = next(stream)
            writer[index] = row

        def child() -> bool:
            rows = [(index, (row == index + 1).all()) for index, row in stream]
            writer[39] = 7
            right = (out[39] == 7).all()
            writer.close()
            return bool(right and rows == [(index, True) for index in range(after, 40)])

        in_child(child)
        for index, row in stream:
            writer[index] = row
        writer.close()
        assert (out[...] == np.arange(1, 41)[:, None]).all()
    # Inherited by a child that never uses them.
    stream, writer = z.stream(), out.writer()
    writer[0] = 1
    in_child(lambda: True)
    assert next(stream)[0] == 0
    writer.close()


def test_interrupts(tmp_path: Path) -> None:
    code = """
        import os, signal, sys, threading
        import numpy as np, hyperslab as hs
        z = hs.create_array(hs.MemoryStore(), shape=(200, 100_000), chunks=(1, 100_000), dtype="f4")
        z[...] = np.arange(100_000, dtype="f4")
        values = np.random.default_rng(0).random(100_000, dtype="f4")

        def interrupted(work):
            threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                while True:
                    work()
            except KeyboardInterrupt:
                return True

        def read():
            for _ in z.stream(ahead=0):
                pass

        def write():
            with z.writer(buffer=1) as w:
                for row in range(200):
                    w[row] = values

        assert interrupted(read) and interrupted(write)
        z[...] = 1
        assert all((row == 1).all() for _, row in z.stream())
        print("done")
    """
    done = run_child(code)
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == 0
