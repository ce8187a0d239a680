"""zarr-python on this engine: a codec pipeline for its arrays, and a store that it reads."""

from __future__ import annotations

from hyperslab._zarr_front import Store
from hyperslab._zarr_pipeline import CodecPipeline, Fallback, fallbacks

__all__ = ["CodecPipeline", "Fallback", "Store", "fallbacks"]
