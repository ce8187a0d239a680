"""References."""

from __future__ import annotations

from typing import Any

from hyperslab._native import Reference, RegionReference

__all__ = ["Reference", "RegionReference", "dereference", "get_name"]

OBJECT, DATASET_REGION = range(2)


def dereference(ref: Reference, id: Any) -> Any:
    """Return the object that a reference leads to."""
    return id._node.file[ref].id if ref else None


def get_name(ref: Reference, loc: Any) -> bytes | None:
    """Return the path of the object that a reference leads to."""
    name = ref.name
    return None if name is None else name.encode()
