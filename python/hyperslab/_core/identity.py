"""What tells dask that two arrays hold the same."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperslab._core.node import Node

__all__ = ["content_of"]


def content_of(node: Node) -> tuple[str, ...]:
    """Stands for the content of an array or a group: whenever contents may differ, so do the results.

    Chunks change without a trace in the metadata, and looking at all of them would take long. So

    - a local HDF5 or NetCDF file is told by its inode, size and time of change;
    - what was opened for reading is taken to stay as it is until it is opened anew or refreshed;
    - what may be written has another content each time.
    """
    path = node.store._native.file_path
    if path is not None:
        found = Path(path).stat()
        return str(found.st_ino), str(found.st_size), str(found.st_mtime_ns)
    if not node.read_only:
        return (uuid.uuid4().hex,)
    state: dict[str, Any] = vars(node)
    return (state.setdefault("_opening", uuid.uuid4().hex),)
