"""zarr-python on this engine: a codec pipeline for its arrays."""

from __future__ import annotations

from hyperslab._zarr_pipeline import CodecPipeline, Fallback, fallbacks

__all__ = ["CodecPipeline", "Fallback", "fallbacks"]
