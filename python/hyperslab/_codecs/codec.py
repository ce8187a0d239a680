"""The base of all codecs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import numpy as np

from hyperslab.errors import InvalidArgumentError

__all__ = ["Codec", "ZarrFormat", "as_stored", "check_range", "plain_json"]

ZarrFormat: TypeAlias = Literal[2, 3]
_C = TypeVar("_C", bound="Codec")


class Codec:
    """The base of all codecs. Codecs are immutable, and equal if their settings are equal."""

    _v2: ClassVar[str | None] = None
    _v3: ClassVar[str | None] = None
    # Other names in Zarr v3.
    _aliases: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Codec:
        """Make a codec from settings in metadata. ``v2``: the settings follow numcodecs."""
        return cls(**settings)

    def to_dict(self, zarr_format: ZarrFormat = 3) -> dict[str, Any]:
        """Return the metadata of this codec.

        Parameters
        ----------
        zarr_format : {2, 3}, default 3

        Raises
        ------
        InvalidArgumentError
            If the format has no such codec.
        """
        name = self._v3 if zarr_format == 3 else self._v2
        if name is None:
            raise InvalidArgumentError(f"Zarr v{zarr_format} has no codec {type(self).__name__}")
        settings = self._settings(zarr_format)
        if zarr_format == 2:
            return {"id": name, **settings}
        # zarr-python requires the configuration of numcodecs codecs even if it is empty.
        has_settings = bool(settings) or name.startswith("numcodecs.")
        return {"name": name, "configuration": settings} if has_settings else {"name": name}

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        """Return the settings for the metadata, without None: the engine chooses those."""
        return {name: value for name, value in vars(self).items() if value is not None}

    # ---- the interface of numcodecs' codecs

    @property
    def codec_id(self) -> str:
        """The codec's name in Zarr v2, which is numcodecs' name."""
        return str(self.get_config()["id"])

    def get_config(self) -> dict[str, Any]:
        """Return the Zarr v2 metadata. numcodecs makes and compares codecs by it."""
        return self.to_dict(2)

    def encode(self, buf: Any) -> Any:
        """Encode bytes with numcodecs, which must be installed. (Arrays do not need numcodecs.)"""
        return self._of_numcodecs().encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode bytes with numcodecs, which must be installed. (Arrays do not need numcodecs.)"""
        return self._of_numcodecs().decode(buf, out)

    def _of_numcodecs(self) -> Any:
        return importlib.import_module("numcodecs").get_codec(self.get_config())


def check_range(codec: str, name: str, value: Any, least: int, most: int) -> None:
    """Refuse a setting of a new codec that the codec's library would clamp."""
    if isinstance(value, (int, np.integer)) and not least <= value <= most:
        raise InvalidArgumentError(f"{codec}: {name} must be {least} to {most}, found {value}")


def as_stored(kind: type[_C], settings: Mapping[str, Any]) -> _C:
    """Make a codec from metadata, allowing settings that are refused for a new codec."""
    names = [field.name for field in dataclasses.fields(cast(Any, kind))]
    unknown = set(settings) - set(names)
    if unknown:
        raise TypeError(f"{kind.__name__} has no setting {unknown.pop()!r}")
    found = object.__new__(kind)
    for name in names:
        object.__setattr__(found, name, settings.get(name, getattr(kind, name)))
    return found


def plain_json(value: Any) -> Any:
    """Return metadata as plain JSON values: enumerations as their values, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "value"):
        return plain_json(value.value)
    return int(value) if hasattr(value, "__index__") else value
