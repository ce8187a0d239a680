"""The facts that `Array.info` and `Group.info` print."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hyperslab.errors import UnsupportedError

if TYPE_CHECKING:
    from hyperslab._core.array import Array

__all__ = ["Info", "array_facts", "chunks_per_object", "human_size", "shown_chunks", "shown_shards"]


def human_size(size: int) -> str:
    """Return ``824633720832`` as ``768.0 GiB``."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024 or unit == "EiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


class Info:
    """Facts, printed one per line; ``to_dict()`` returns them by name."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        return dict(self._facts)

    def __repr__(self) -> str:
        width = max(map(len, self._facts))
        return "\n".join(f"{name:<{width}} : {value}" for name, value in self._facts.items())

    def _repr_html_(self) -> str:
        from hyperslab._display.html import facts_table

        return facts_table(self._facts)


def chunks_per_object(array: Array) -> Any:
    """Return the chunks per shard (``"<variable>"`` if it varies); 1 without shards."""
    shards = shown_shards(array)
    if shards is None or isinstance(shards, str):
        return shards or 1
    return math.prod(shard // chunk for shard, chunk in zip(shards, array.chunks, strict=True))


def shown_chunks(array: Array) -> Any:
    """Return the chunk shape, if there is only one."""
    try:
        return array.chunks
    except UnsupportedError:
        return "<variable>"


def shown_shards(array: Array) -> Any:
    """Return the shard shape, if there is only one; ``None`` without shards."""
    try:
        return array.shards
    except UnsupportedError:
        return "<variable>"


def array_facts(array: Array) -> dict[str, Any]:
    """Return the facts about an array that need no look at stored chunks."""
    facts: dict[str, Any] = {
        "Type": "Array",
        "Zarr format": array.zarr_format,
        "Data type": array._shown_dtype,
        "Fill value": array.fill_value,
        "Shape": array.shape,
        "Chunk shape": shown_chunks(array),
    }
    shards = shown_shards(array)
    if shards is not None:
        codecs = (codec for codec in array.metadata["codecs"] if isinstance(codec, dict))
        sharding = next(codec["configuration"] for codec in codecs if codec["name"] == "sharding_indexed")
        facts["Shard shape"] = shards
        facts["Chunks per shard"] = chunks_per_object(array)
        facts["Shard index"] = f"at the {sharding.get('index_location', 'end')}"
    facts |= {
        "Order": array.order,
        "Read-only": array.read_only,
        "Store type": type(array.store).__name__,
        "Filters": array.filters,
    }
    if array.serializer is not None:
        facts["Serializer"] = array.serializer
    facts["Compressors"] = array.compressors
    facts["No. bytes"] = f"{array.nbytes} ({human_size(array.nbytes)})"
    if array.dimension_names is not None:
        facts["Dimension names"] = array.dimension_names
    return facts
