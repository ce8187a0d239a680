"""Attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab._elements.hdf5_types import Empty
from hyperslab._hdf5.ids import AttrID, SpaceID
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.type_ids import TypeID

__all__ = ["AttrID", "create", "delete", "exists", "get_num_attrs", "open", "rename"]


def create(loc: Any, name: bytes, tid: TypeID, space: SpaceID, **_: Any) -> AttrID:
    """Create an attribute. Its elements are zero until they are written."""
    attrs, name_ = loc._node.attrs, text_of(name)
    if space.shape is None:
        attrs.create(name_, Empty(tid.dtype), dtype=tid)
    else:
        blank = np.zeros((*space.shape, *tid.dtype.shape), tid.dtype.base)
        if blank.dtype.kind == "O":
            blank[...] = b"" if tid.is_variable_str() else None
        attrs.create(name_, blank, space.shape, tid)
    return attrs.get_id(name_)  # type: ignore[no-any-return]


def open(loc: Any, name: bytes | None = None, **_: Any) -> AttrID:
    """Open an attribute."""
    return loc._node.attrs.get_id(text_of(name))  # type: ignore[no-any-return]


def exists(loc: Any, name: bytes, **_: Any) -> bool:
    """Return True if there is an attribute of this name."""
    return text_of(name) in loc._node.attrs


def delete(loc: Any, name: bytes, **_: Any) -> None:
    """Delete an attribute."""
    del loc._node.attrs[text_of(name)]


def rename(loc: Any, name: bytes, new_name: bytes, **_: Any) -> None:
    """Give an attribute another name."""
    loc._node.attrs.rename(text_of(name), text_of(new_name))


def get_num_attrs(loc: Any) -> int:
    """Return the number of attributes."""
    return len(loc._node.attrs)
