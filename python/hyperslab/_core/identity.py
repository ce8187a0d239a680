"""Identifies the content of nodes for dask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab._core.node import Node

__all__ = ["content_of"]


def content_of(node: Node) -> tuple[str, ...]:
    """Return a token for the content of an array or group. If contents may differ, tokens differ.

    Chunks change without a trace in the metadata, and looking at all of them would take long.
    Therefore:

    - A local HDF5 or NetCDF file is identified by its inode, size and time of change.
    - A node opened for reading is assumed not to change until it is opened again or refreshed.
    - A writable node gets a new token each time.
    """
    path = node.store._native.file_path
    if path is not None:
        found = Path(path).stat()
        return str(found.st_ino), str(found.st_size), str(found.st_mtime_ns)
    import uuid

    if not node.read_only:
        return (uuid.uuid4().hex,)
    state: dict[str, Any] = vars(node)
    return (state.setdefault("_opening", uuid.uuid4().hex),)
