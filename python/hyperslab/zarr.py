"""zarr-python on this engine: a codec pipeline, a store, and a parser for VirtualiZarr."""

from __future__ import annotations

from hyperslab._zarr.front import Store
from hyperslab._zarr.pipeline import CodecPipeline, Fallback, fallbacks
from hyperslab._zarr.virtual import VirtualizarrParser

__all__ = ["CodecPipeline", "Fallback", "Store", "VirtualizarrParser", "fallbacks"]


def __dir__() -> list[str]:
    return sorted(__all__)
