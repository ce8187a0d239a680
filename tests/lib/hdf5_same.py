"""Checks that hyperslab reads the same values as h5py."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from support import assert_same


def is_reference(value: Any) -> bool:
    return isinstance(value, h5py.Reference | h5py.RegionReference)


def same_values(ours: Any, theirs: Any, what: str = "") -> None:
    """Compares type, shape and bits. Compares objects element by element."""
    if isinstance(theirs, h5py.Empty):
        assert ours is None or ours == theirs, f"{what}: {ours!r}"
        return
    if is_reference(theirs):
        return  # targets of references are compared where they are followed
    if isinstance(theirs, np.void) and theirs.dtype.names is not None:
        # Members of a single structure are values, not arrays.
        ours = ours[()] if isinstance(ours, np.ndarray) else ours
        assert ours.dtype.names == theirs.dtype.names, what
        for name in theirs.dtype.names:
            same_values(ours[name], theirs[name], f"{what}, member {name}")
        return
    if isinstance(theirs, np.ndarray) and theirs.shape == () and theirs.dtype.kind == "O":
        # A single object may come without an array.
        one = isinstance(ours, np.ndarray) and ours.shape == () and ours.dtype.kind == "O"
        same_object(ours[()] if one else ours, theirs[()], what)
        return
    if isinstance(theirs, np.ndarray | np.generic) and theirs.dtype.hasobject:
        ours = np.asarray(ours, theirs.dtype) if not isinstance(ours, np.ndarray) else ours
        assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
        if theirs.dtype.names:
            assert ours.dtype.names == theirs.dtype.names, what
            for name in theirs.dtype.names:
                same_values(ours[name], theirs[name], f"{what}, member {name}")
            return
        for found, expected in zip(ours.reshape(-1), np.asarray(theirs).reshape(-1)):
            same_object(found, expected, what)
        return
    if isinstance(theirs, np.ndarray | np.generic) and theirs.dtype.names:
        # Member by member, because the padding between members is arbitrary.
        assert ours.dtype == theirs.dtype, f"{what}: {ours.dtype}, expected {theirs.dtype}"
        for name in theirs.dtype.names:
            same_values(ours[name], theirs[name], f"{what}, member {name}")
        return
    if isinstance(theirs, np.longdouble | np.clongdouble) or (
        isinstance(theirs, np.ndarray) and theirs.dtype.char in "gG"
    ):
        # The padding of long doubles is arbitrary.
        ours = np.asarray(ours)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, what
        assert np.array_equal(ours, theirs, equal_nan=True), what
        return
    if isinstance(theirs, bytes | str):
        same_object(ours, theirs, what)
        return
    assert_same(ours, theirs, what)


def same_object(found: Any, expected: Any, what: str) -> None:
    if is_reference(expected):
        return  # targets of references are compared where they are followed
    if isinstance(expected, np.ndarray):
        if expected.dtype.newbyteorder() == np.asarray(found).dtype:
            # h5py 3.16 takes the bytes of big-endian rows for native ones.
            expected = expected.view(expected.dtype.newbyteorder())
        same_values(found, expected, what)
        return
    assert type(found) is type(expected), f"{what}: {found!r}, expected {expected!r}"
    assert found == expected, f"{what}: {found!r}, expected {expected!r}"
