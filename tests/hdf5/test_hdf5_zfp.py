"""Datasets stored by H5Z-ZFP, compared with h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
from support import assert_same

MODES: list[dict[str, Any]] = [
    {"reversible": True},
    {"rate": 12},
    {"precision": 20},
    {"accuracy": 0.01},
    {"minbits": 16, "maxbits": 900, "maxprec": 30, "minexp": -20},
    {},
]
SHAPES = [((100,), (33,)), ((20, 30), (7, 30)), ((9, 10, 11), (4, 1, 6)), ((3, 4, 5, 6, 2), (3, 1, 5, 6, 2))]


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_as_h5py(tmp_path: Path, rng: np.random.Generator, dtype: str, mode: dict[str, Any]) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for number, (shape, chunks) in enumerate(SHAPES):
            values = (rng.normal(size=shape).cumsum(-1) * 1000).astype(dtype)
            f.create_dataset(f"d{number}", data=values, chunks=chunks, **hdf5plugin.Zfp(**mode))
        summed = dict(hdf5plugin.Zfp(**mode))
        f.create_dataset("sum", data=values, chunks=SHAPES[-1][1], fletcher32=True, **summed)
    with h5py.File(path) as theirs, hs.open(path) as ours:
        for name in theirs:
            assert_same(ours[name][...], theirs[name][...], name)
            assert_same(ours[name][1:, ...], theirs[name][1:, ...], name)


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    data = (np.arange(63) ** 2 % 37).reshape(9, 7).astype("f4")
    with h5py.File(path, "w") as f:
        d = f.create_dataset("d", data=data, chunks=(9, 7), **hdf5plugin.Zfp(reversible=True))
        chunk = d.id.get_chunk_info(0)
    good = path.read_bytes()
    start, size = chunk.byte_offset, chunk.size
    for at in range(start, start + size):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
        with hs.open(path) as f:
            try:
                assert f["d"][...].shape == (9, 7)
            except hs.HyperslabError:
                pass
    # A chunk that is shorter than its elements need.
    with h5py.File(path, "w") as f:
        d = f.create_dataset("d", shape=(9, 7), dtype="f4", chunks=(9, 7), **hdf5plugin.Zfp(reversible=True))
    for end in (1, size // 2, size - 1):
        with h5py.File(path, "r+") as f:
            f["d"].id.write_direct_chunk((0, 0), good[start : start + end])
        with hs.open(path) as f, pytest.raises(hs.HyperslabError, match="truncated"):
            f["d"][...]
