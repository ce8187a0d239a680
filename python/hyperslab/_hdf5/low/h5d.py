"""Datasets."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.ids import DatasetID, SpaceID, StoreInfo
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.type_ids import TypeID
from hyperslab._hdf5.virtual import VirtualLayout

__all__ = ["DatasetID", "StoreInfo", "create", "open"]

COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = range(4)
ALLOC_TIME_DEFAULT, ALLOC_TIME_LATE, ALLOC_TIME_EARLY, ALLOC_TIME_INCR = 0, 2, 1, 3
FILL_TIME_ALLOC, FILL_TIME_NEVER, FILL_TIME_IFSET = range(3)


def create(
    loc: Any,
    name: bytes | None,
    tid: TypeID,
    space: SpaceID,
    dcpl: Any = None,
    lcpl: Any = None,
    dapl: Any = None,
    gcpl: Any = None,
) -> DatasetID:
    """Create a dataset in a group."""
    from hyperslab._elements.hdf5_types import Empty

    group = loc._node
    path = None if name is None else text_of(name)
    if space.shape is None:
        return group.create_dataset(path, data=Empty(tid.dtype), dtype=tid, dcpl=dcpl).id  # type: ignore[no-any-return]
    if dcpl is not None and dcpl._sources:
        layout = VirtualLayout(space.shape, tid, space._maxshape)
        layout._sources = dcpl._sources
        return group.create_virtual_dataset(path, layout, dcpl._values.get("fill_value")).id  # type: ignore[no-any-return]
    most = space._maxshape if space._maxshape != space.shape else None
    made = group.create_dataset(path, space.shape, tid, maxshape=most, dcpl=dcpl)
    return made.id  # type: ignore[no-any-return]


def open(loc: Any, name: bytes, dapl: Any = None) -> DatasetID:
    """Open a dataset of a group."""
    found = loc._node[text_of(name)].id
    if not isinstance(found, DatasetID):
        raise KeyError(f"{text_of(name)!r} is not a dataset")
    return found
