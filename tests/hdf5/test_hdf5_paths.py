"""A flush writes the changed nodes of an index: h5py reads such indexes, and changes them afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import tool

# Chunks of 2 x 3 elements: 64 of them fill a node of a version 1 tree, about 65 one of version 2.
CHUNK = (2, 3)

LIBVERS = ["earliest", ("v110", "v110")]

# One change: its kind, and numbers for places and lengths.
_KINDS = ["append", "widen", "overwrite", "sparse", "shrink", "reopen"]
_STEP = st.tuples(st.sampled_from(_KINDS), st.integers(0, 10**6), st.integers(0, 10**6))


class Model:
    """A dataset, and the elements that it should have."""

    def __init__(self) -> None:
        self.values = np.zeros((2, 3), "i4")
        self.count = 0

    def number(self, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
        self.count += 1
        return np.arange(self.count, self.count + shape[0] * shape[1], dtype="i4").reshape(shape)

    def resize(self, dataset: Any, shape: tuple[int, int]) -> None:
        new = np.zeros(shape, "i4")
        rows, columns = (min(pair) for pair in zip(shape, self.values.shape, strict=True))
        new[:rows, :columns] = self.values[:rows, :columns]
        self.values = new
        dataset.resize(shape)

    def put(self, dataset: Any, rows: slice, columns: slice) -> None:
        values = self.number(self.values[rows, columns].shape)
        self.values[rows, columns] = values
        if values.size:
            dataset[rows, columns] = values

    def change(self, dataset: Any, step: tuple[str, int, int]) -> None:
        kind, one, two = step
        rows, columns = self.values.shape
        if kind == "append":
            more = one % 300 + 1
            self.resize(dataset, (min(rows + more, 900), columns))
            self.put(dataset, slice(rows, None), slice(None))
        elif kind == "widen":
            self.resize(dataset, (rows, min(columns + two % 9 + 1, 30)))
            self.put(dataset, slice(None), slice(columns, None))
        elif kind == "overwrite":
            start = one % rows
            self.put(dataset, slice(start, start + two % 40 + 1), slice(two % columns, None))
        elif kind == "sparse":
            # Rows without chunks, and some with them.
            self.resize(dataset, (min(rows + one % 400, 900), columns))
            for row in range(rows, self.values.shape[0], two % 37 + 7):
                self.put(dataset, slice(row, row + 1), slice(None))
        elif kind == "shrink":
            self.resize(dataset, (one % rows + 1, two % columns + 1))


def create(path: Path, libver: Any, compression: Any) -> None:
    with hs.File(path, "w", libver=libver) as file:
        file.create_dataset("d", (2, 3), "i4", maxshape=(None, None), chunks=CHUNK, compression=compression)
        # An index that is an array at first: all chunks have a place from the beginning.
        file.create_dataset("fixed", (900, 30), "i4", chunks=CHUNK, compression=compression)


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("compression", [None, "gzip"])
@settings(max_examples=6, deadline=None)
@given(steps=st.lists(_STEP, min_size=3, max_size=12), later=st.lists(_STEP, max_size=4))
def test_each_flush_is_read_and_changed_by_h5py(
    tmp_path_factory: pytest.TempPathFactory, libver: Any, compression: Any, steps: Any, later: Any
) -> None:
    path = tmp_path_factory.mktemp("paths") / "file.h5"
    create(path, libver, compression)
    model, fixed = Model(), np.zeros((900, 30), "i4")

    def check(file: Any) -> None:
        assert np.array_equal(file["d"][...], model.values)
        assert np.array_equal(file["fixed"][...], fixed)

    file = hs.File(path, "r+")
    for step in steps:
        if step[0] == "reopen":
            file.close()
            file = hs.File(path, "r+")
            continue
        model.change(file["d"], step)
        row = step[1] % 890
        fixed[row : row + 10] = model.count
        file["fixed"][row : row + 10] = model.count
        file.flush()
        check(file)
        for library in (h5py, hs):
            with library.File(path, "r") as stored:
                check(stored)
    file.close()
    # Another writer splits, shares out and removes nodes.
    for step in later:
        with h5py.File(path, "r+") as other:
            if step[0] != "reopen":
                model.change(other["d"], step)
        for library in (h5py, hs):
            with library.File(path, "r") as stored:
                check(stored)
    with h5py.File(path, "r+") as other:
        model.resize(other["d"], (900, 30))
        model.put(other["d"], slice(None), slice(None))
        model.resize(other["d"], (5, 4))
        check(other)
    # Nodes of the other writer are changed again here.
    with hs.File(path, "r+") as file:
        for step in steps:
            model.change(file["d"], step)
            file.flush()
            with h5py.File(path, "r") as stored:
                check(stored)
    with h5py.File(path, "r+") as other:
        del other["d"], other["fixed"]
    with hs.File(path) as stored:
        assert list(stored) == []


@pytest.mark.parametrize("libver", LIBVERS)
def test_20_variables_one_step_at_a_time(tmp_path: Path, libver: Any) -> None:
    """A flush writes new chunks, paths of the index and headers."""
    path = tmp_path / "file.h5"
    names = [f"v{number}" for number in range(20)]
    steps = 1000
    with hs.File(path, "w", libver=libver) as file:
        for name in names:
            file.create_dataset(name, (0, 8), "f4", maxshape=(None, 8), chunks=(1, 8))
        for step in range(steps):
            for name in names:
                file[name].resize(step + 1, 0)
                file[name][step] = step
            if step % 50 == 49:
                file.flush()
    found = path.stat().st_size
    # The first flush has one node. Others have about two new leaves and a root. With whole indexes, the
    # last flush alone has 16 leaves for each variable.
    flushes = steps // 50
    chunks, nodes = len(names) * steps * 32, len(names) * flushes * (3 * 2700 + 400)
    assert found < chunks + nodes + 100_000, found
    with h5py.File(path, "r") as file:
        expected = np.repeat(np.arange(steps, dtype="f4")[:, None], 8, 1)
        assert all(np.array_equal(file[name][...], expected) for name in names)


@pytest.mark.parametrize("libver", LIBVERS)
def test_tools_of_hdf5_read_paths(tmp_path: Path, libver: Any) -> None:
    """A tree of three levels that grew step by step."""
    path, packed = tmp_path / "file.h5", tmp_path / "packed.h5"
    expected = np.arange(10_000, dtype="i4")
    with hs.File(path, "w", libver=libver) as file:
        dataset = file.create_dataset("d", (0,), "i4", maxshape=(None,), chunks=(2,))
        for start in range(0, 10_000, 500):
            dataset.resize((start + 500,))
            dataset[start:] = expected[start : start + 500]
            file.flush()
    subprocess.run([tool("h5repack"), path, packed], check=True, timeout=60)
    shown = subprocess.run(
        [tool("h5dump"), "-y", "-w", "1", path], capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0
    lines = shown.stdout.partition("DATA {")[2].splitlines()
    numbers = [line.strip(" ,") for line in lines]
    assert [int(number) for number in numbers if number.isdigit()] == expected.tolist()
    for found in (path, packed):
        with h5py.File(found) as file:
            assert np.array_equal(file["d"][...], expected)
            assert file["d"].id.get_num_chunks() == 5000
