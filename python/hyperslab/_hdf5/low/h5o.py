"""Objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from hyperslab._hdf5.ids import times_of
from hyperslab._hdf5.names import text_of

__all__ = ["ObjInfo", "copy", "exists_by_name", "get_info", "link", "open"]

TYPE_GROUP, TYPE_DATASET, TYPE_NAMED_DATATYPE = range(3)


def open(loc: Any, name: bytes, lapl: Any = None) -> Any:
    """Open an object of a group."""
    return loc._node[text_of(name)].id


class ObjInfo(NamedTuple):
    """Facts about an object. Times are seconds since 1970; 0: the object does not keep the time."""

    addr: int
    type: int
    rc: int
    atime: int
    mtime: int
    ctime: int
    btime: int


def get_info(loc: Any, name: bytes | None = None, index: int = -1, **_: Any) -> ObjInfo:
    """Return facts about an object: address, kind, number of links, times."""
    node = loc._node if name is None else loc._node[text_of(name)]
    links, times = times_of(node)
    kind = TYPE_GROUP if hasattr(node, "create_group") else TYPE_DATASET
    return ObjInfo(node._address, kind, links, *times)


def link(obj: Any, loc: Any, name: bytes, **_: Any) -> None:
    """Give an object a name."""
    loc._node[text_of(name)] = obj._node


def copy(src_loc: Any, src_name: bytes, dst_loc: Any, dst_name: bytes, **_: Any) -> None:
    """Copy an object."""
    name = text_of(src_name)
    source = src_loc._node if name == "." else src_loc._node[name]
    dst_loc._node.copy(source, text_of(dst_name))


def exists_by_name(loc: Any, name: bytes, lapl: Any = None) -> bool:
    """Return True if a name leads to an object."""
    return loc._node.get(text_of(name)) is not None
