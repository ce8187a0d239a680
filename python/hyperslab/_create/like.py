"""New arrays like existing ones: decides what to keep of a Zarr array that is given as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hyperslab._core.arguments import DEFAULT_FILL_VALUE
from hyperslab._core.array import Array

__all__ = ["describe_like", "is_zarr_array", "layout_of"]


def is_zarr_array(data: Any) -> bool:
    """Return True for a Zarr array, hyperslab's or zarr-python's."""
    if isinstance(data, Array):
        return not data.store._native.is_file
    return type(data).__module__.split(".")[0] == "zarr" and hasattr(data, "metadata")


def _format(data: Any) -> int:
    return int(data.metadata.zarr_format)


def describe_like(data: Any, zarr_format: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in arguments of a new array from a Zarr array, as in zarr-python.

    These are fill value, attributes, dimension names, order and chunk key encoding. Arguments in
    ``given`` take precedence.
    """
    found = dict(given)
    if found["fill_value"] is DEFAULT_FILL_VALUE and not (data.fill_value is None and zarr_format == 3):
        found["fill_value"] = data.fill_value
    if found["attributes"] is None:
        # Copy, so that nested values are not shared.
        found["attributes"] = json.loads(json.dumps(dict(data.attrs)))
    if found["dimension_names"] is None:
        names = getattr(data, "dimension_names", None)
        if names is None:
            names = getattr(data.metadata, "dimension_names", None)
        found["dimension_names"] = names
    if found["order"] is None and zarr_format == 2:
        found["order"] = data.order
    if found["chunk_key_encoding"] is None and zarr_format == _format(data):
        if zarr_format == 3:
            found["chunk_key_encoding"] = data.metadata.chunk_key_encoding
        else:
            found["chunk_key_encoding"] = ("v2", data.metadata.dimension_separator)
    return found


def layout_of(data: Any, zarr_format: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in chunks, shards and codecs from a Zarr array where ``"keep"`` is given."""
    found = dict(given)
    same = zarr_format == _format(data)
    grid = data.metadata.chunk_grid if _format(data) == 3 else None
    # If shards differ in shape, the grid describes the shards, and their chunks have one shape.
    several = None
    if hasattr(grid, "chunk_shapes"):
        several = "chunks" if data.metadata.sharding_codec is None else "shards"
    for name in ("chunks", "shards"):
        if _is_keep(found[name]):
            if several is None or name == several:
                found[name] = getattr(data, name) if several is None else grid
            else:
                found[name] = data.chunks if name == "chunks" else None
    for name in ("filters", "compressors"):
        if _is_keep(found[name]):
            found[name] = (list(getattr(data, name)) or None) if same else "auto"
    if _is_keep(found["serializer"]):
        found["serializer"] = data.serializer if same and zarr_format == 3 else "auto"
    return found


def _is_keep(value: Any) -> bool:
    return isinstance(value, str) and value == "keep"
