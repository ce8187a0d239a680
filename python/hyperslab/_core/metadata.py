"""Metadata documents, with Python values."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hyperslab import _native
from hyperslab.codecs import Codec, Sharding, parse_codec
from hyperslab.errors import InvalidArgumentError, UnsupportedError

__all__ = [
    "ArrayV2Metadata",
    "ArrayV3Metadata",
    "ChunkKeyEncoding",
    "ConsolidatedMetadata",
    "DataType",
    "GroupMetadata",
    "Metadata",
    "OtherKeyEncoding",
    "RectilinearChunkGrid",
    "RegularChunkGrid",
    "codecs_of",
]


def codecs_of(metadata: Iterable[Any]) -> tuple[Codec | dict[str, Any], ...]:
    """Return the codecs of metadata; codecs without a class are dictionaries."""
    named = ({"name": codec} if isinstance(codec, str) else codec for codec in metadata)
    return tuple(parse_codec(codec) or codec for codec in named)


class Metadata(dict[str, Any]):
    """A metadata document, whose members are also attributes.

    If Python has a better type for a value than JSON, the attribute has that type.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a plain dictionary."""
        return copy.deepcopy(dict(self))

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name == "dimension_names":
            return None  # a document may leave it out
        raise AttributeError(f"metadata has no member {name!r}")


@dataclass(frozen=True)
class DataType:
    """An element type and its name in metadata."""

    native: np.dtype[Any]
    """NumPy's type."""
    json: Any
    """The name in metadata, or the object that describes the type."""
    zarr_format: Literal[2, 3]

    def to_native_dtype(self) -> np.dtype[Any]:
        """Return NumPy's type."""
        return self.native

    def to_json(self, zarr_format: Literal[2, 3]) -> Any:
        """Return the name in metadata of this format, which must be the array's format."""
        if zarr_format != self.zarr_format:
            raise InvalidArgumentError(
                f"zarr_format: the metadata is of format {self.zarr_format}, not {zarr_format}"
            )
        return copy.deepcopy(self.json)


@dataclass(frozen=True)
class RegularChunkGrid:
    """Chunks of one shape. In a sharded array, this is the grid of shards."""

    chunk_shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.chunk_shape)

    def to_dict(self) -> dict[str, Any]:
        """Return the Zarr v3 metadata."""
        return {"name": "regular", "configuration": {"chunk_shape": list(self.chunk_shape)}}


@dataclass(frozen=True)
class RectilinearChunkGrid:
    """Chunks of different lengths along each axis."""

    shapes: tuple[Any, ...]
    """In the form of the metadata: a number, or a list of numbers and of pairs (length, count)."""

    @property
    def chunk_shapes(self) -> tuple[int | tuple[int, ...], ...]:
        """Per axis, the length of all chunks or of each chunk."""
        return tuple(axis if isinstance(axis, int) else tuple(_lengths(axis)) for axis in self.shapes)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shapes)

    def to_dict(self) -> dict[str, Any]:
        """Return the Zarr v3 metadata."""
        shapes = copy.deepcopy(list(self.shapes))
        return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}}


def _lengths(axis: Iterable[Any]) -> Iterable[int]:
    for item in axis:
        yield from [item] if isinstance(item, int) else [item[0]] * item[1]


@dataclass(frozen=True)
class ChunkKeyEncoding:
    """The naming of objects that hold chunks (or shards)."""

    name: Literal["default", "v2"]
    separator: Literal["/", "."]

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        """Return the name of a chunk, relative to the array.

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.zeros((4, 4), chunks=(2, 2)).metadata.chunk_key_encoding.encode_chunk_key((0, 1))
        'c/0/1'
        """
        parts = [str(index) for index in chunk_coords]
        return self.separator.join(["c", *parts] if self.name == "default" else parts or ["0"])

    def decode_chunk_key(self, chunk_key: str) -> tuple[int, ...]:
        """Return the index of a chunk along each axis.

        ``"0"`` in ``v2`` may also mean a 0-d array. Raises `InvalidArgumentError` for text that
        does not name a chunk.
        """
        parts = chunk_key.split(self.separator)
        if self.name == "default":
            parts = parts[1:] if parts[0] == "c" else [""]
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise InvalidArgumentError(f"chunk_key: {chunk_key!r} names no chunk in encoding {self.name!r}")
        return tuple(map(int, parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the Zarr v3 metadata."""
        return {"name": self.name, "configuration": {"separator": self.separator}}


@dataclass(frozen=True)
class OtherKeyEncoding:
    """The naming of objects that hold chunks (or shards), by an extension encoding."""

    name: str
    configuration: Mapping[str, Any]
    ndim: int
    """Number of axes of the array."""

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        """Return the name of a chunk, relative to the array.

        Examples
        --------
        >>> import hyperslab as hs
        >>> keys = {"name": "suffix", "configuration": {"suffix": ".tiff"}}
        >>> z = hs.zeros((4, 4), chunks=(2, 2), chunk_key_encoding=keys)
        >>> z.metadata.chunk_key_encoding.encode_chunk_key((0, 1))
        'c/0/1.tiff'
        """
        return _native.chunk_key(json.dumps(self.to_dict()), list(chunk_coords))

    def decode_chunk_key(self, chunk_key: str) -> tuple[int, ...]:
        """Return the index of a chunk along each axis.

        Raises `InvalidArgumentError` for text that does not name a chunk.
        """
        found = _native.chunk_of_key(json.dumps(self.to_dict()), chunk_key, self.ndim)
        if found is None:
            raise InvalidArgumentError(f"chunk_key: {chunk_key!r} names no chunk in encoding {self.name!r}")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the Zarr v3 metadata."""
        return {"name": self.name, "configuration": copy.deepcopy(dict(self.configuration))}


class _ArrayMetadata(Metadata):
    """The members common to both formats."""

    def __init__(self, document: Mapping[str, Any], dtype: np.dtype[Any], fill_value: Any) -> None:
        super().__init__(document)
        # Set on the object, to keep them out of the document's members.
        object.__setattr__(self, "_native", dtype)
        object.__setattr__(self, "_fill", fill_value)

    _native: np.dtype[Any]
    _fill: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self._native, self._fill)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return tuple(self["shape"])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self["shape"])

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written, as in `Array.fill_value`."""
        return self._fill

    @property
    def attributes(self) -> dict[str, Any]:
        """A copy of the user's attributes. Changing it does not change the stored attributes."""
        return copy.deepcopy(self["attributes"])

    @property
    def chunk_key_encoding(self) -> ChunkKeyEncoding | OtherKeyEncoding:
        """The naming of objects that hold chunks."""
        raise NotImplementedError

    def encode_chunk_key(self, chunk_coords: tuple[int, ...]) -> str:
        """Return the name of a chunk's (or shard's) object, relative to the array."""
        return self.chunk_key_encoding.encode_chunk_key(chunk_coords)


class ArrayV2Metadata(_ArrayMetadata):
    """The metadata of a Zarr v2 array: ``.zarray`` and the attributes.

    Examples
    --------
    >>> import hyperslab as hs
    >>> metadata = hs.zeros((4, 6), chunks=(2, 3), dtype="<i2", zarr_format=2).metadata
    >>> metadata.chunks, metadata["chunks"], metadata.dtype.to_native_dtype(), metadata["dtype"]
    ((2, 3), [2, 3], dtype('int16'), '<i2')
    """

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return DataType(self._native, self["dtype"], 2)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Chunk length per axis in elements."""
        return tuple(self["chunks"])

    @property
    def shards(self) -> None:
        """Always ``None``: Zarr v2 has no shards."""
        return None

    @property
    def chunk_grid(self) -> RegularChunkGrid:
        """The chunk grid, as in Zarr v3."""
        return RegularChunkGrid(self.chunks)

    @property
    def dimension_separator(self) -> Literal["/", "."]:
        """The separator between indices in the name of a chunk."""
        return "/" if self.get("dimension_separator") == "/" else "."

    @property
    def chunk_key_encoding(self) -> ChunkKeyEncoding:
        return ChunkKeyEncoding("v2", self.dimension_separator)

    @property
    def filters(self) -> tuple[Codec | dict[str, Any], ...] | None:
        """Codecs before the compressor."""
        return codecs_of(self["filters"]) if self.get("filters") else None

    @property
    def compressor(self) -> Codec | dict[str, Any] | None:
        """The compressor."""
        found = self.get("compressor")
        return None if found is None else codecs_of([found])[0]


# Members of an array's `zarr.json` in the specification.
_MEMBERS = frozenset(
    [
        "zarr_format",
        "node_type",
        "data_type",
        "shape",
        "chunk_grid",
        "chunk_key_encoding",
        "fill_value",
        "codecs",
        "attributes",
        "storage_transformers",
        "dimension_names",
    ]
)


class ArrayV3Metadata(_ArrayMetadata):
    """The metadata of a Zarr v3 array: ``zarr.json``.

    Examples
    --------
    >>> import hyperslab as hs
    >>> metadata = hs.zeros((4, 6), chunks=(2, 3), dtype="i2").metadata
    >>> metadata.chunk_grid.chunk_shape, metadata["chunk_grid"]
    ((2, 3), {'name': 'regular', 'configuration': {'chunk_shape': [2, 3]}})
    >>> metadata.codecs[0], metadata.fill_value, metadata.encode_chunk_key((1, 0))
    (Bytes(endian='little'), np.int16(0), 'c/1/0')
    """

    @property
    def data_type(self) -> DataType:
        """The element type."""
        return DataType(self._native, self["data_type"], 3)

    dtype = data_type

    @property
    def chunk_grid(self) -> RegularChunkGrid | RectilinearChunkGrid:
        """The grid of chunks; in a sharded array, of shards."""
        found = self["chunk_grid"]
        if isinstance(found, dict) and found["name"] == "rectilinear":
            return RectilinearChunkGrid(tuple(found["configuration"]["chunk_shapes"]))
        return RegularChunkGrid(tuple(self["chunk_grid"]["configuration"]["chunk_shape"]))

    @property
    def chunk_key_encoding(self) -> ChunkKeyEncoding | OtherKeyEncoding:
        found = self["chunk_key_encoding"]
        name, settings = (
            (found, {}) if isinstance(found, str) else (found["name"], found.get("configuration"))
        )
        if name not in ("default", "v2"):
            return OtherKeyEncoding(name, settings or {}, self.ndim)
        separator = (settings or {}).get("separator", "." if name == "v2" else "/")
        return ChunkKeyEncoding("v2" if name == "v2" else "default", separator)

    @property
    def codecs(self) -> tuple[Codec | dict[str, Any], ...]:
        """All codecs, in the order applied to chunks (or shards)."""
        return codecs_of(self["codecs"])

    @property
    def sharding_codec(self) -> Sharding | None:
        """The codec that makes shards, if it is the only codec."""
        codecs = self.codecs
        return codecs[0] if len(codecs) == 1 and isinstance(codecs[0], Sharding) else None

    @property
    def inner_codecs(self) -> tuple[Codec | dict[str, Any], ...]:
        """The codecs of inner chunks; without shards, all codecs."""
        sharding = self.sharding_codec
        return self.codecs if sharding is None else sharding.codecs

    @property
    def chunks(self) -> tuple[int, ...]:
        """Chunk length per axis in elements; in a sharded array, of inner chunks."""
        sharding = self.sharding_codec
        if sharding is not None:
            return sharding.chunk_shape
        grid = self.chunk_grid
        if isinstance(grid, RectilinearChunkGrid):
            raise UnsupportedError("chunks: they have different shapes (a rectilinear chunk grid)")
        return grid.chunk_shape

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shard length per axis in elements; ``None`` without shards."""
        grid = self.chunk_grid
        if self.sharding_codec is None:
            return None
        if isinstance(grid, RectilinearChunkGrid):
            raise UnsupportedError("shards: they have different shapes (a rectilinear chunk grid)")
        return grid.chunk_shape

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Names of the axes."""
        found = self.get("dimension_names")
        return None if found is None else tuple(found)

    @property
    def storage_transformers(self) -> tuple[dict[str, Any], ...]:
        """Always empty: arrays with storage transformers are refused."""
        return tuple(self.get("storage_transformers") or ())

    @property
    def extra_fields(self) -> dict[str, Any]:
        """Members that are not in the specification."""
        return {name: value for name, value in self.items() if name not in _MEMBERS}


class ConsolidatedMetadata:
    """The metadata of all nodes below a group, stored with it."""

    def __init__(self, nodes: Mapping[str, Metadata]) -> None:
        self._nodes = dict(nodes)

    @property
    def flattened_metadata(self) -> dict[str, Metadata]:
        """Metadata of all nodes, by path."""
        return dict(self._nodes)

    @property
    def metadata(self) -> dict[str, Metadata]:
        """Metadata of the nodes directly below. A group's metadata includes the nodes below it."""
        found: dict[str, Metadata] = {}
        for path, node in self._nodes.items():
            if "/" in path:
                continue
            if isinstance(node, GroupMetadata):
                below = {
                    key[len(path) + 1 :]: item
                    for key, item in self._nodes.items()
                    if key.startswith(f"{path}/")
                }
                node = GroupMetadata(node, ConsolidatedMetadata(below))
            found[path] = node
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with all nodes by path."""
        nodes = {path: node.to_dict() for path, node in self._nodes.items()}
        return {"kind": "inline", "must_understand": False, "metadata": nodes}


class GroupMetadata(Metadata):
    """The metadata of a group: format, kind and attributes."""

    def __init__(self, document: Mapping[str, Any], consolidated: ConsolidatedMetadata | None = None) -> None:
        super().__init__(document)
        object.__setattr__(self, "_consolidated", consolidated)

    _consolidated: ConsolidatedMetadata | None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self._consolidated)

    @property
    def attributes(self) -> dict[str, Any]:
        """A copy of the user's attributes. Changing it does not change the stored attributes."""
        return copy.deepcopy(self["attributes"])

    @property
    def consolidated_metadata(self) -> ConsolidatedMetadata | None:
        """The metadata of all nodes below, if the group was opened with consolidated metadata."""
        return self._consolidated

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a plain dictionary."""
        found = super().to_dict()
        return (
            found
            if self._consolidated is None
            else {**found, "consolidated_metadata": self._consolidated.to_dict()}
        )
