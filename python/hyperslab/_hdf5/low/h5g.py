"""Groups."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.ids import GroupID
from hyperslab._hdf5.names import text_of

__all__ = ["GroupID", "create", "open"]


def create(loc: Any, name: bytes | None, lcpl: Any = None, gcpl: Any = None) -> GroupID:
    """Create a group."""
    order = gcpl.get_link_creation_order() if gcpl is not None else None
    made = loc._node.create_group(None if name is None else text_of(name), track_order=bool(order))
    return made.id  # type: ignore[no-any-return]


def open(loc: Any, name: bytes) -> GroupID:
    """Open a group."""
    found = loc._node[text_of(name)].id
    if not isinstance(found, GroupID):
        raise KeyError(f"{text_of(name)!r} is not a group")
    return found
