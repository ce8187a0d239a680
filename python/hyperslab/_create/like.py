"""New arrays that are like others: what of a Zarr array is kept when it is given as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hyperslab._core.arguments import DEFAULT_FILL_VALUE
from hyperslab._core.array import Array

__all__ = ["described", "is_zarr_array", "layout_of"]


def is_zarr_array(data: Any) -> bool:
    """Whether it is a Zarr array, hyperslab's or zarr-python's."""
    if isinstance(data, Array):
        return not data.store._native.is_file
    return type(data).__module__.split(".")[0] == "zarr" and hasattr(data, "metadata")


def _format(data: Any) -> int:
    return int(data.metadata.zarr_format)


def described(data: Any, zarr_format: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a new array of some format takes from a Zarr array, as in zarr-python: fill value, attributes,
    names of dimensions, order and names of chunks; but for what is ``given``.
    """
    found = dict(given)
    if found["fill_value"] is DEFAULT_FILL_VALUE and not (data.fill_value is None and zarr_format == 3):
        found["fill_value"] = data.fill_value
    if found["attributes"] is None:
        # A copy: what is nested in it would be shared.
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
    """Chunks, shards and codecs of a Zarr array for a new one, where ``"keep"`` is given for them."""
    found = dict(given)
    same = zarr_format == _format(data)
    grid = data.metadata.chunk_grid if _format(data) == 3 else None
    # Of shards of different shapes the grid is that of shards, and their chunks have one shape.
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
