"""Dimension scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperslab._hdf5 import scales

__all__ = [
    "attach_scale",
    "detach_scale",
    "get_label",
    "get_num_scales",
    "get_scale_name",
    "is_attached",
    "is_scale",
    "iterate",
    "set_label",
    "set_scale",
]


def set_scale(dset: Any, dimname: bytes = b"") -> None:
    """Make a dataset a scale."""
    scales.make_scale(dset._node, dimname)


def is_scale(dset: Any) -> bool:
    """Return True if a dataset is a scale."""
    return dset._node.is_scale  # type: ignore[no-any-return]


def attach_scale(dset: Any, dscale: Any, idx: int) -> None:
    """Attach a scale to an axis."""
    scales.attach(dset._node, idx, dscale._node)


def detach_scale(dset: Any, dscale: Any, idx: int) -> None:
    """Detach a scale from an axis."""
    scales.detach(dset._node, idx, dscale._node)


def is_attached(dset: Any, dscale: Any, idx: int) -> bool:
    """Return True if a scale is attached to an axis."""
    return scales.is_attached(dset._node, idx, dscale._node)


def get_num_scales(dset: Any, dim: int) -> int:
    """Return the number of scales of an axis."""
    return len(dset._node.dims[dim])


def set_label(dset: Any, idx: int, label: bytes) -> None:
    """Set the label of an axis."""
    scales.set_label(dset._node, idx, label)


def get_label(dset: Any, idx: int) -> bytes:
    """Return the label of an axis."""
    label: str = dset._node.dims[idx].label
    return label.encode("utf-8", "surrogateescape")


def iterate(dset: Any, dim: int, func: Callable[[Any], Any], startidx: int = 0) -> Any:
    """Call a function with each scale of an axis, until it returns something other than ``None``."""
    for scale in dset._node.dims[dim].values()[startidx:]:
        found = func(scale.id)
        if found is not None:
            return found
    return None


def get_scale_name(dscale: Any) -> bytes:
    """Return the name of a scale."""
    found = dscale._node.attrs.get("NAME", b"")
    return bytes(found) if isinstance(found, bytes) else str(found).encode()
