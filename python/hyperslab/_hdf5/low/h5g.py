"""Groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from hyperslab._hdf5.ids import GroupID, times_of
from hyperslab._hdf5.names import text_of

__all__ = ["GroupID", "GroupStat", "create", "get_objinfo", "open"]


def create(loc: Any, name: bytes | None, lcpl: Any = None, gcpl: Any = None) -> GroupID:
    """Create a group."""
    order = gcpl.get_link_creation_order() if gcpl is not None else None
    made = loc._node.create_group(None if name is None else text_of(name), track_order=bool(order))
    return made.id  # type: ignore[no-any-return]


class GroupStat(NamedTuple):
    """Facts about an object."""

    fileno: tuple[int, int]
    objno: tuple[int, int]
    nlink: int
    type: int
    mtime: int
    linklen: int


def get_objinfo(obj: Any, name: bytes | None = None, follow_link: int = True) -> GroupStat:
    """Return facts about an object. ``mtime``: of its last change, if it keeps times."""
    node = obj._node if name is None else obj._node[text_of(name)]
    links, times = times_of(node)
    kind = 0 if isinstance(node.id, GroupID) else 1
    return GroupStat((0, 0), (node._address & 0xFFFFFFFF, node._address >> 32), links, kind, times[2], 0)


def open(loc: Any, name: bytes) -> GroupID:
    """Open a group."""
    found = loc._node[text_of(name)].id
    if not isinstance(found, GroupID):
        raise KeyError(f"{text_of(name)!r} is not a group")
    return found
