"""Codecs: they convert the elements of a chunk to its stored bytes.

Pass them to `hyperslab.create_array` as ``filters``, ``serializer`` and ``compressors``. Their
names in metadata differ between Zarr v2 and v3; `Codec.to_dict` returns either form. zarr-python's
class names (``ZstdCodec`` …) work too. A codec argument can also be a metadata dictionary of either
format, a codec of zarr-python or numcodecs, or your own: `register_codec`.

Examples
--------
>>> import hyperslab as hs
>>> z = hs.create_array(
...     hs.MemoryStore(), shape=(4, 6), dtype="i4", compressors=[hs.codecs.Zstd(level=3), hs.codecs.Crc32c()]
... )
>>> z.compressors
(Zstd(level=3, checksum=False), Crc32c())
>>> hs.codecs.Zstd(level=3).to_dict(zarr_format=2)
{'id': 'zstd', 'level': 3, 'checksum': False}
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from hyperslab._codecs import user
from hyperslab._codecs.codec import Codec, ZarrFormat, plain_json
from hyperslab._codecs.user import register_codec
from hyperslab._codecs.words import BloscCname, BloscShuffle, Endian, ShardingCodecIndexLocation
from hyperslab._codecs.zarr import (
    Blosc,
    Bytes,
    CastValue,
    Crc32c,
    Gzip,
    PackBitsCodec,
    Reshape,
    ScaleOffset,
    Squeeze,
    Transpose,
    Zfp,
    Zstd,
)
from hyperslab._elements.vlen import OBJECTS, Kind, kind_of, type_of
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._codecs.numcodecs import (
        BZ2,
        CRC32,
        LZ4,
        LZMA,
        ZFPY,
        Adler32,
        AsType,
        Base64,
        BitRound,
        Categorize,
        Delta,
        FixedScaleOffset,
        Fletcher32,
        JenkinsLookup3,
        PackBits,
        PCodec,
        Quantize,
        Shuffle,
        Zlib,
    )

__all__ = [
    "BZ2",
    "CRC32",
    "LZ4",
    "LZMA",
    "ZFPY",
    "Adler32",
    "AsType",
    "Base64",
    "BitRound",
    "Blosc",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "Bytes",
    "BytesCodec",
    "CastValue",
    "Categorize",
    "Codec",
    "CodecLike",
    "CodecsLike",
    "Crc32c",
    "Crc32cCodec",
    "Delta",
    "Endian",
    "FixedScaleOffset",
    "Fletcher32",
    "Gzip",
    "GzipCodec",
    "JenkinsLookup3",
    "PCodec",
    "PackBits",
    "PackBitsCodec",
    "Quantize",
    "Reshape",
    "ScaleOffset",
    "Sharding",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "Shuffle",
    "Squeeze",
    "Transpose",
    "TransposeCodec",
    "Zfp",
    "Zlib",
    "Zstd",
    "ZstdCodec",
    "register_codec",
]


@dataclass(frozen=True)
class Sharding(Codec):
    """Splits a chunk, which becomes a shard, into inner chunks with an index.

    Zarr v3's ``sharding_indexed``. Usually ``shards=`` of `hyperslab.create_array` is enough. Use
    this class as ``serializer`` for more: shards within shards, other codecs for the index, or
    codecs for the shard as a whole. The argument ``chunks`` is then the shape of the shards.

    Parameters
    ----------
    chunk_shape : sequence of int
        Inner chunk length per axis in elements, for the axes after the filters; must divide the
        shards.
    codecs : sequence of codecs, default (Bytes(),)
        Codecs for inner chunks. The last may be another `Sharding`.
    index_codecs : sequence of codecs, default (Bytes(), Crc32c())
        Codecs for the index. They must keep its size fixed.
    index_location : {"end", "start"}, default "end"
        Position of the index in the shard.

    Examples
    --------
    >>> import hyperslab as hs
    >>> sharding = hs.codecs.Sharding((2, 2), [hs.codecs.Bytes(), hs.codecs.Gzip()], index_location="start")
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), shape=(8, 8), chunks=(4, 4), dtype="i4", serializer=sharding, compressors=None
    ... )
    >>> z.chunks, z.shards
    ((2, 2), (4, 4))
    """

    chunk_shape: tuple[int, ...]
    codecs: tuple[Codec | dict[str, Any], ...] = (Bytes(),)
    index_codecs: tuple[Codec | dict[str, Any], ...] = (Bytes(), Crc32c())
    index_location: Literal["end", "start"] = "end"

    _v3 = "sharding_indexed"

    def __init__(
        self,
        chunk_shape: Iterable[int],
        codecs: CodecsLike = (Bytes(),),
        index_codecs: CodecsLike = (Bytes(), Crc32c()),
        index_location: Literal["end", "start"] = "end",
    ) -> None:
        location = getattr(index_location, "value", index_location)
        if location not in ("end", "start"):
            raise InvalidArgumentError(
                f"sharding: index_location: expected 'start' or 'end', found {index_location!r}"
            )
        object.__setattr__(self, "chunk_shape", tuple(int(length) for length in chunk_shape))
        lists: dict[str, CodecsLike] = {"codecs": codecs, "index_codecs": index_codecs}
        for name, given in lists.items():
            found = codecs_metadata(given, 3)
            if not found:
                raise InvalidArgumentError(f"sharding: {name}: expected a list of codecs, found {given!r}")
            parsed = tuple(parse_codec(codec) or codec for codec in found)
            object.__setattr__(self, name, parsed)
        object.__setattr__(self, "index_location", location)

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        return {
            "chunk_shape": list(self.chunk_shape),
            "codecs": codecs_metadata(self.codecs, 3),
            "index_codecs": codecs_metadata(self.index_codecs, 3),
            "index_location": self.index_location,
        }


BytesCodec = Bytes
TransposeCodec = Transpose
GzipCodec = Gzip
ZstdCodec = Zstd
BloscCodec = Blosc
Crc32cCodec = Crc32c
ShardingCodec = Sharding


@runtime_checkable
class _HasToDict(Protocol):
    """A codec of zarr-python."""

    def to_dict(self) -> Mapping[str, Any]: ...


@runtime_checkable
class _HasConfig(Protocol):
    """A codec of numcodecs."""

    def get_config(self) -> Mapping[str, Any]: ...


@runtime_checkable
class _HasEncode(Protocol):
    """A user's own codec."""

    def encode(self, buf: Any) -> Any: ...
    def decode(self, buf: Any) -> Any: ...


CodecLike: TypeAlias = Codec | Mapping[str, Any] | _HasToDict | _HasConfig | _HasEncode
"""A codec of hyperslab, zarr-python, numcodecs or your own, or its metadata."""

CodecsLike: TypeAlias = CodecLike | Iterable[CodecLike] | Literal["auto"] | None
"""A codec, a list of codecs, or ``"auto"``; ``None``: no codec."""

# numcodecs' codecs are in `_codecs.numcodecs`, which is imported when one is needed.
_CLASSES: tuple[type[Codec], ...] = (
    Bytes,
    Transpose,
    Gzip,
    Zstd,
    Blosc,
    Zfp,
    Crc32c,
    PackBitsCodec,
    Reshape,
    Squeeze,
    ScaleOffset,
    CastValue,
    Sharding,
)


def _metadata(codec: CodecLike) -> dict[str, Any]:
    """Return the metadata of a foreign codec, in its own format."""
    if isinstance(codec, Mapping):
        return dict(codec)
    if isinstance(codec, _HasConfig):
        return dict(codec.get_config())
    if isinstance(codec, _HasToDict):
        found = dict(codec.to_dict())
        # zarr-python sets these only when the codec is used for an array. Their defaults mean
        # nothing.
        open_settings = getattr(codec, "_tunable_attrs", ())
        if open_settings and isinstance(found.get("configuration"), Mapping):
            configuration = dict(found["configuration"])
            for name in open_settings:
                configuration.pop(name, None)
            found["configuration"] = configuration
        return found
    raise ArgumentTypeError(
        "expected a codec of hyperslab, zarr-python or numcodecs, a dictionary, a list of these, None or "
        f"'auto', found {codec!r}"
    )


# Codecs that turn objects into bytes, with the kind of the objects.
_OBJECT_CODECS: dict[str, Kind] = {
    "vlen-utf8": "text",
    "vlen-bytes": "bytes",
    "vlen-array": "items",
    "json2": "json2",
    "msgpack2": "msgpack2",
    "categorize": "text",
}


def object_codec(codec: CodecLike) -> tuple[np.dtype[Any], dict[str, Any] | None] | None:
    """Return the data type of the variable-length elements that a codec turns into bytes.

    Also returns the codec's metadata if the type does not determine it. Returns ``None`` for other
    codecs.
    """
    if isinstance(codec, Codec):
        if codec._v2 != "categorize":
            return None
    elif user.is_user_codec(codec):
        return None
    found = cast(
        "dict[str, Any]", codec.to_dict(2) if isinstance(codec, Codec) else plain_json(_metadata(codec))
    )
    name = str(found.get("id", found.get("name"))).removeprefix("numcodecs.")
    if name not in _OBJECT_CODECS:
        return None
    item = found.get("dtype", (found.get("configuration") or {}).get("dtype"))
    kind = _OBJECT_CODECS[name]
    if name == "categorize":
        # For text of fixed length, it is an ordinary filter.
        return (type_of(kind), found) if item in ("|O", "O", "object") else None
    if kind in OBJECTS:
        return type_of(kind), found
    if name == "vlen-array" and item is None:
        raise InvalidArgumentError("vlen-array: dtype is missing")
    return type_of(kind, None if item is None else np.dtype(item)), None


def makes_objects(codecs: Iterable[Any]) -> bool:
    """Return True if a codec among these is for any objects: ``json2`` or ``msgpack2``."""
    found = [object_codec(codec) for codec in codecs if codec is not None]
    return any(said is not None and kind_of(said[0])[0] in OBJECTS for said in found)


def codec_metadata(codec: CodecLike, zarr_format: ZarrFormat) -> dict[str, Any]:
    """Return the metadata of a codec of any origin in the given format.

    Unknown codecs are passed on unchanged, and the engine refuses them.
    """
    if isinstance(codec, Codec):
        return codec.to_dict(zarr_format)
    if user.is_user_codec(codec):
        return user.metadata_of(codec, zarr_format)
    found = cast("dict[str, Any]", plain_json(_metadata(codec)))
    if zarr_format == 3 and "id" in found:
        name = found["id"]
        known = _parse(found)
        settings = {key: value for key, value in found.items() if key != "id"}
        return {"name": f"numcodecs.{name}", "configuration": settings} if known is None else known.to_dict(3)
    if zarr_format == 2 and "name" in found:
        known = _parse(found)
        if known is None:
            name = str(found["name"]).removeprefix("numcodecs.")
            return {"id": name, **found.get("configuration", {})}
        return known.to_dict(2)
    return found


def codecs_metadata(codecs: CodecsLike, zarr_format: ZarrFormat) -> list[dict[str, Any]] | None:
    """Return the metadata of a codec argument; ``None`` for ``"auto"``."""
    if isinstance(codecs, str):
        if codecs == "auto":
            return None
        raise ArgumentTypeError(f"expected a codec, a list of codecs, None or 'auto', found {codecs!r}")
    if codecs is None:
        return []
    if isinstance(codecs, Iterable) and not isinstance(codecs, Mapping):
        return [codec_metadata(codec, zarr_format) for codec in codecs]
    return [codec_metadata(cast(CodecLike, codecs), zarr_format)]


def parse_codec(metadata: Mapping[str, Any]) -> Any:
    """Return the codec for metadata of either format, ours or a user's.

    Returns ``None`` for an unknown codec or an unknown setting.
    """
    known = _parse(metadata)
    name = metadata.get("id", metadata.get("name"))
    if known is not None or not isinstance(name, str):
        return known
    v2 = "id" in metadata
    return user.parse(name, metadata if v2 else metadata.get("configuration"), v2)


def _parse(metadata: Mapping[str, Any]) -> Codec | None:
    """Return hyperslab's codec for metadata, or ``None``."""
    v2 = "id" in metadata
    name = metadata["id"] if v2 else metadata.get("name")
    settings = dict(metadata if v2 else metadata.get("configuration") or {})
    settings.pop("id", None)
    if isinstance(name, str) and name.startswith("numcodecs."):
        # zarr-python's names for numcodecs' codecs. Their settings are as in v2.
        name, v2 = name.removeprefix("numcodecs."), True
    kind = _class_of(name, v2, _CLASSES)
    if kind is None:
        from hyperslab._codecs.numcodecs import CLASSES

        kind = _class_of(name, v2, CLASSES)
    if kind is None:
        return None
    try:
        return kind._parse(settings, v2)
    except TypeError:
        return None


def _class_of(name: Any, v2: bool, classes: Iterable[type[Codec]]) -> type[Codec] | None:
    named = (kind for kind in classes if (name == kind._v2 if v2 else name in (kind._v3, *kind._aliases)))
    return next(named, None)


def __getattr__(name: str) -> Any:
    """Import numcodecs' codecs on first access, and keep them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module("hyperslab._codecs.numcodecs"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
