"""Settings of one array, as ``config=`` and `Array.with_config` have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab._cache import Cache, resolve_cache
from hyperslab.errors import InvalidArgumentError

__all__ = ["parse_cache", "parse_config"]


def parse_config(config: Any, default: bool | None = None) -> bool | None:
    """``write_empty_chunks`` of an array's own settings."""
    if config is None:
        return default
    if not isinstance(config, Mapping):
        # zarr-python's ArrayConfig.
        config = {"write_empty_chunks": getattr(config, "write_empty_chunks", None)}
    unknown = set(config) - {"write_empty_chunks", "cache", "order", "read_missing_chunks"}
    if unknown:
        raise InvalidArgumentError(
            f"config: unknown settings {sorted(unknown)} (settings: write_empty_chunks, cache)"
        )
    value = config.get("write_empty_chunks", default)
    return None if value is None else bool(value)


def parse_cache(config: Any, default: Cache | None = None) -> Cache | None:
    """``cache`` of an array's own settings."""
    if isinstance(config, Mapping) and "cache" in config:
        return resolve_cache(config["cache"])
    return default
