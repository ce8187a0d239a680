"""References."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.ids import DatasetID, GroupID, SpaceID
from hyperslab._hdf5.names import text_of
from hyperslab._native import Reference, RegionReference
from hyperslab.errors import ArgumentTypeError

__all__ = ["Reference", "RegionReference", "create", "dereference", "get_name", "get_obj_type"]

OBJECT, DATASET_REGION = range(2)


def create(loc: Any, name: bytes, ref_type: int, space: SpaceID | None = None) -> Reference:
    """Return a reference to an object, or to the selected elements of a dataset (``DATASET_REGION``)."""
    node = loc._node if name == b"." else loc._node[text_of(name)]
    if ref_type == OBJECT:
        return node.ref  # type: ignore[no-any-return]
    if space is None:
        raise ArgumentTypeError("Dataspace ID is required for region references")
    if space._selection is None:
        return node.regionref[...]  # type: ignore[no-any-return]
    return node.regionref[space._selection]  # type: ignore[no-any-return]


def get_obj_type(ref: Reference, id: Any) -> int | None:
    """Return the kind of the object that a reference leads to: 0 group, 1 dataset, 2 type (h5o)."""
    if not ref:
        return None
    found = dereference(ref, id)
    return 0 if isinstance(found, GroupID) else 1 if isinstance(found, DatasetID) else 2


def dereference(ref: Reference, id: Any) -> Any:
    """Return the object that a reference leads to."""
    return id._node.file[ref].id if ref else None


def get_name(ref: Reference, loc: Any) -> bytes | None:
    """Return the path of the object that a reference leads to."""
    name = ref.name
    return None if name is None else name.encode()
