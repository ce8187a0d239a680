"""Objects."""

from __future__ import annotations

from typing import Any

from hyperslab._hdf5.names import text_of

__all__ = ["copy", "exists_by_name", "link", "open"]

TYPE_GROUP, TYPE_DATASET, TYPE_NAMED_DATATYPE = range(3)


def open(loc: Any, name: bytes, lapl: Any = None) -> Any:
    """Open an object of a group."""
    return loc._node[text_of(name)].id


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
