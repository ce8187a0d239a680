"""Thousands of datasets written by h5py, each stored differently, compared with h5py."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hdf5_files import LIBVERS, ODD, Case, write_cases, write_odd
from hdf5_same import same_values
from support import examples

#: Number of sweeps. HYPERSLAB_EXAMPLES=5000 makes ten.
TIMES = max(1, examples(500) // 500)


def selections(rng: random.Random, shape: tuple[int, ...]) -> list[Any]:
    """Returns NumPy's basic indices, and one index of each other kind."""

    def axis(n: int) -> Any:
        match rng.randrange(5):
            case 0 if n:
                return rng.randrange(-n, n)
            case 1:
                return slice(None)
            case 2:
                return slice(rng.randint(-n - 1, n + 1), None, rng.choice([1, 2, 5]))
            case 3:
                return slice(None, None, rng.choice([-1, -3]))
            case _:
                start = rng.randint(0, n)
                return slice(start, rng.randint(start, n))

    return [tuple(axis(n) for n in shape) for _ in range(3)]


def same_dataset(ours: hs.Array, theirs: h5py.Dataset, rng: random.Random) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert h5py.check_enum_dtype(ours.dtype) == h5py.check_enum_dtype(theirs.dtype)
    assert ours.chunks == theirs.chunks
    assert ours.maxshape == theirs.maxshape
    assert ours.compression == theirs.compression
    if theirs.dtype.kind != "O":
        same_values(ours.fillvalue, theirs.fillvalue, "fill value")
    try:
        expected = theirs[...]
    except (OSError, ValueError, TypeError):
        return  # h5py cannot read it, for example unwritten heap ids
    same_values(ours[...], expected, "all")
    for selection in selections(rng, theirs.shape):
        same_values(ours[(*selection, ...)], expected[(*selection, ...)], repr(selection))


@pytest.mark.parametrize("libver", LIBVERS)
def test_what_h5py_writes(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "sweep.h5"
    seed = LIBVERS.index(libver)
    cases = write_cases(path, libver, seed, TIMES)
    assert len(cases) > 850
    ours = hs.open(path, mode="r")
    failures: list[tuple[Case, str]] = []
    with h5py.File(path) as theirs:
        assert sorted(ours) == sorted(theirs)
        for name, case in cases.items():
            try:
                same_dataset(ours[name], theirs[name], random.Random(case.seed))
            except Exception as error:
                failures.append((case, f"{type(error).__name__}: {error}"))
    report = "\n".join(f"{case}\n    {why[:400]}" for case, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(cases)} differ, these first:\n{report}"


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_types_that_numpy_does_not_have(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w", libver=libver) as file:
        write_odd(file)
    ours = hs.open(path, mode="r")
    with h5py.File(path) as theirs:
        assert len(theirs) >= 2 * len(ODD)
        for name, dataset in theirs.items():
            try:
                expected = dataset[...]
            except TypeError:
                # NumPy has no integers of three bytes, and h5py fails. HDF5 reads them as larger
                # ones.
                size = 1 << (dataset.id.get_type().get_size() - 1).bit_length()
                expected = np.empty(dataset.shape, f"{'u' if name.startswith('uint') else 'i'}{size}")
                dataset.read_direct(expected)
                assert ours[name].dtype.kind == expected.dtype.kind
                np.testing.assert_array_equal(ours[name][...], expected, name)
                continue
            same_values(ours[name][...], expected, name)
            same_values(ours[name][2:9:3], expected[2:9:3], name)
