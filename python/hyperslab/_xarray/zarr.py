"""Zarr hierarchies as data stores of xarray."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Collection, Iterator
from typing import Any, cast

from xarray import Variable
from xarray.backends.common import AbstractDataStore
from xarray.backends.zarr import FillValueCoder
from xarray.core import indexing

from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._core.metadata import codecs_of
from hyperslab._native import user_attributes
from hyperslab._xarray.array import StoredArray

__all__ = ["ZarrReader", "zarr_groups"]


class ZarrReader(AbstractDataStore):
    """One group's arrays as variables, with attributes and encodings as in the engine "zarr"."""

    def __init__(self, group: Group, dropped: Collection[str], fill_value_is_missing: bool | None) -> None:
        self._group = group
        self._dropped = dropped
        is_v3 = group._zarr_format == 3
        self._is_v3 = is_v3
        self._masks = not is_v3 if fill_value_is_missing is None else fill_value_is_missing

    def get_attrs(self) -> dict[str, Any]:
        found = self._group._stored_attributes.asdict()
        return {name: value for name, value in found.items() if not name.lower().startswith("_nc")}

    def get_variables(self) -> dict[str, Variable]:
        found = {}
        for name, kind, handle, error in self._group._opened(1):
            if kind != "array":
                continue
            try:
                if error is not None:
                    raise error
                found[name] = self._variable(cast(Array, self._group._node(handle)))
            except Exception:
                # xarray drops variables itself, but only after looking at their dimensions.
                if name not in self._dropped:
                    raise
        return found

    def _variable(self, array: Array) -> Variable:
        attributes = user_attributes(array)
        dimensions = array.dimension_names if array.ndim else ()
        if dimensions is None:
            place = "`dimension_names` in its metadata" if self._is_v3 else "attribute `_ARRAY_DIMENSIONS`"
            raise KeyError(
                f"array {array.path!r} has no dimension names ({place}), which xarray needs; open it with "
                "hyperslab.open"
            )
        dtype = array.dtype
        several = array._chunk_lengths()
        chunks: tuple[Any, ...] = array._largest_chunk if several is None else _grid(several)
        shards: tuple[Any, ...] | None = array._largest_shard
        if shards is not None:
            several = array._object_lengths()
            shards = shards if several is None else _grid(several)
        encoding: dict[str, Any] = {
            "chunks": chunks,
            # One block of dask is one stored object.
            "preferred_chunks": dict(zip(dimensions, shards or chunks, strict=True)),
        }
        if dtype.kind == "T":
            encoding["dtype"] = dtype
        codecs = _codecs(array._zarr_format, array._codecs)
        encoding["compressors"], encoding["filters"] = codecs["compressors"], codecs["filters"]
        encoding["shards"] = shards
        if self._is_v3:
            encoding["serializer"] = codecs["serializer"]
        if self._masks:
            fill_value = array.fill_value
            if fill_value is not None:
                attributes["_FillValue"] = fill_value
        else:
            if self._is_v3:
                encoding["fill_value"] = array.fill_value
            if "_FillValue" in attributes:
                attributes["_FillValue"] = FillValueCoder.decode(attributes["_FillValue"], dtype)
        data = indexing.LazilyIndexedArray(StoredArray(array, dtype))
        return Variable(dimensions, data, attributes, encoding, fastpath=True)


def _grid(lengths: list[list[int]]) -> tuple[Any, ...]:
    """Return chunks as in xarray: a length for each axis; if chunks differ, all their lengths."""
    return tuple(
        (0,) if not axis else axis[0] if len(set(axis[:-1])) <= 1 and axis[-1] <= axis[0] else tuple(axis)
        for axis in lengths
    )


@functools.lru_cache(maxsize=256)
def _codecs(zarr_format: int, texts: tuple[str, str | None, str]) -> dict[str, Any]:
    """Return codecs for encodings, cached: many arrays have the same.

    These are zarr-python's objects, which `Dataset.to_zarr` takes; without zarr-python, our own.
    """
    filters, serializer, compressors = texts
    documents = {
        "filters": json.loads(filters),
        "compressors": json.loads(compressors),
        "serializer": [] if serializer is None else [json.loads(serializer)],
    }
    found: dict[str, Any] = {}
    for kind, each in documents.items():
        made = (
            _zarr_codecs(zarr_format, each)
            if importlib.util.find_spec("zarr") is not None
            else codecs_of(each)
        )
        found[kind] = made
    found["serializer"] = next(iter(found["serializer"]), None)
    return found


def _zarr_codecs(zarr_format: int, documents: list[Any]) -> tuple[Any, ...]:
    if zarr_format == 2:
        import numcodecs

        return tuple(numcodecs.get_codec(document) for document in documents)
    from zarr.registry import get_codec_class

    named: list[dict[str, Any]] = [
        {"name": document} if isinstance(document, str) else document for document in documents
    ]
    made = []
    for document in named:
        kind: Any = get_codec_class(document["name"])
        # One-byte elements have no byte order. Older zarr-python would use a default instead.
        one_byte = document["name"] == "bytes" and not document.get("configuration")
        made.append(kind(endian=None) if one_byte else kind.from_dict(document))
    return tuple(made)


def zarr_groups(group: Group) -> Iterator[tuple[str, Group]]:
    """Yield a group and all groups below it, with their relative paths."""
    yield "/", group
    for path, node in group.members(max_depth=None):
        if isinstance(node, Group):
            yield f"/{path}", node
