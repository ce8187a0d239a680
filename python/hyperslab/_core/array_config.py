"""Settings of one array, as passed to ``config=`` and `Array.with_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from hyperslab._base.config import config as settings
from hyperslab._core.cache import Cache, CacheLike, resolve_cache
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["NO_CONFIG", "ArrayConfig", "clear_named", "parse_cache", "parse_config", "resolve_config"]

_NAMES = ("order", "read_missing_chunks", "write_empty_chunks", "cache")
# Accepted because zarr-python's ArrayConfig has them. They only change how shards are read over a
# network, never the result.
_OF_REMOTE_STORES = ("sharding_coalesce_max_bytes", "sharding_coalesce_max_gap_bytes")


@dataclass(frozen=True)
class ArrayConfig:
    """Settings of one array; ``None``: as in `hyperslab.config` when the array was opened."""

    write_empty_chunks: bool | None = None
    order: Literal["C", "F"] | None = None
    read_missing_chunks: bool | None = None

    @property
    def fortran(self) -> bool | None:
        """True if the first axis of results varies fastest; ``None`` if not set."""
        return None if self.order is None else self.order == "F"

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return dict(vars(self))


# The configuration of an array opened without settings.
NO_CONFIG = ArrayConfig()


@lru_cache
def _defaults(write_empty_chunks: bool, order: Literal["C", "F"], read_missing_chunks: bool) -> ArrayConfig:
    return ArrayConfig(write_empty_chunks, order, read_missing_chunks)


def resolve_config(own: ArrayConfig, before: ArrayConfig = NO_CONFIG) -> ArrayConfig:
    """Return the settings of an array opened now.

    In order of precedence: its own settings, its earlier settings, the values of
    `hyperslab.config`.
    """
    values = settings._values
    found = _defaults(values["write_empty_chunks"], values["order"], values["read_missing_chunks"])
    if own is NO_CONFIG and before is NO_CONFIG:
        return found
    now = dict(vars(found))
    for config in (before, own):
        now |= {name: value for name, value in vars(config).items() if value is not None}
    return ArrayConfig(**now)


def clear_named(config: Any) -> dict[str, None]:
    """Return ``None`` for each setting that the caller named, to clear earlier values."""
    return {name: None for name in _settings(config) if name in vars(NO_CONFIG)}


def _settings(config: Any) -> Mapping[str, Any]:
    """Return the settings that a caller gave as a mapping or as zarr-python's ``ArrayConfig``."""
    if config is None:
        return {}
    if isinstance(config, Mapping):
        unknown = sorted(set(config) - {*_NAMES, *_OF_REMOTE_STORES}, key=str)
        if unknown:
            raise ArgumentTypeError(f"config: unknown settings {unknown} (settings: {', '.join(_NAMES)})")
        return {name: value for name, value in config.items() if name not in _OF_REMOTE_STORES}
    found = config.to_dict() if hasattr(config, "to_dict") else None
    if not isinstance(found, Mapping):
        raise TypeError(f"config: expected a mapping, found {type(config).__name__}")
    return _settings(found)


def parse_config(config: Any, default: ArrayConfig | None = None) -> ArrayConfig:
    """Parse an array's own settings; settings not given come from ``default``."""
    if config is None:
        return default or NO_CONFIG
    changes: dict[str, Any] = {}
    for name, value in _settings(config).items():
        if name == "order":
            if not (value is None or (isinstance(value, str) and value in ("C", "F"))):
                raise InvalidArgumentError(f"config: order: expected 'C' or 'F', found {value!r}")
            changes[name] = value
        elif name != "cache":
            if value is not None and not isinstance(value, bool):
                raise InvalidArgumentError(f"config: {name}: expected True, False or None, found {value!r}")
            changes[name] = value
    return replace(default or NO_CONFIG, **changes)


def parse_cache(config: Any, default: Cache | None = None, given: CacheLike | None = None) -> Cache | None:
    """Return the cache given in an array's settings or as argument ``cache``, but not both."""
    if config is None and given is None:
        return default
    settings = _settings(config)
    if given is not None:
        if settings.get("cache") is not None:
            raise InvalidArgumentError("cache: given twice, also in config")
        return resolve_cache(given)
    return resolve_cache(settings["cache"]) if "cache" in settings else default
