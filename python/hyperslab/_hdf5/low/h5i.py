"""Identifiers."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.ids import AttrID, DatasetID, GroupID, NodeID, SpaceID
from hyperslab._hdf5.type_ids import TypeID

__all__ = ["get_name", "get_type"]

BADID, FILE, GROUP, DATATYPE, DATASPACE, DATASET = -1, 1, 2, 3, 4, 5
ATTR = 7


def get_type(obj: Any) -> int:
    """Return the kind of an object: ``GROUP``, ``DATASET``, …"""
    for kind, number in (
        (DatasetID, DATASET),
        (GroupID, GROUP),
        (TypeID, DATATYPE),
        (SpaceID, DATASPACE),
        (AttrID, ATTR),
    ):
        if isinstance(obj, kind):
            return number
    return BADID


def get_name(obj: NodeID) -> bytes | None:
    """Return the path of an object."""
    return obj.name
