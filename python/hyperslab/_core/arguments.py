"""Converts the arguments of new arrays to the form that the engine takes."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, cast

import numpy as np

from hyperslab._base.config import config as settings
from hyperslab._core.attrs import attributes_text
from hyperslab._elements.optional import is_optional, optional_dtype, value_dtype
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import OBJECTS, Kind, kind_of, type_of
from hyperslab._index.structure import pack_structure, structure_text
from hyperslab._native import largest_element, object_bytes, small_numbers, v3_data_type
from hyperslab.codecs import CodecLike, CodecsLike, codec_metadata, codecs_metadata
from hyperslab.codecs import object_codec as object_codec_type
from hyperslab.errors import (
    ArgumentTypeError,
    DataTypeError,
    InvalidArgumentError,
    NumberRangeError,
    UnsupportedError,
)

__all__ = [
    "DEFAULT_FILL_VALUE",
    "DEFAULT_ZERO",
    "ArraySpec",
    "ChunksLike",
    "CopyCrew",
    "CopySpec",
    "ShapeLike",
    "ShardsLike",
    "ZarrFormat",
    "array_like",
    "array_spec",
    "normalize_dtype",
    "normalize_format",
    "normalize_shape",
    "take_object_codec",
]

ZarrFormat: TypeAlias = Literal[2, 3]
ShapeLike: TypeAlias = int | Iterable[int]
ChunksLike: TypeAlias = int | Iterable[int | Iterable[int]] | Literal["auto"] | bool | None


ShardsLike: TypeAlias = (
    int | Iterable[int | Iterable[int]] | Mapping[str, Any] | Literal["auto", False] | None
)


# Zarr's names for types of variable length.
_VLEN_NAMES: dict[str, Kind] = {"string": "text", "variable_length_bytes": "bytes"}

# Numbers smaller than NumPy's own: names in the package ml_dtypes, and in Zarr.
_SMALL = small_numbers()


class ArraySpec(TypedDict):
    """A new array as the engine takes it.

    Codecs and attributes are JSON texts, the data type is NumPy's type string.
    """

    zarr_format: int
    shape: list[int]
    dtype: str
    vlen: str | None
    optional: bool
    object_codec: str | None
    structure: str | None
    chunks: list[int] | None
    rectilinear: str | None
    rectilinear_shards: str | None
    shards: list[int] | None
    choose_shards: bool
    index_at_start: bool
    filters: str | None
    compressors: str | None
    serializer: str | None
    fill: bytes | None
    fortran_order: bool
    attributes: str
    dimension_names: list[str | None] | None
    key_encoding: str | None


class CopySpec(TypedDict):
    """A wanted copy as the engine takes it."""

    chunks: list[int | None] | None
    named_chunks: list[tuple[str, int | None]] | None
    variables: list[str] | None
    shards: list[int | None] | Literal["keep", "none", "auto"]
    compressors: str | None
    fortran_order: bool | None
    zarr_format: int
    file_format: str | None
    threads: int | None
    max_memory: int
    verify: bool
    skip_unsupported: bool
    consolidated: bool
    overwrite: bool
    fsync: bool
    libver: str
    layout: str
    storage: list[tuple[str, str]]
    region: CopyRegion | None


# Start and end of each axis: by name, or in order.
Bounds: TypeAlias = tuple[int | None, int | None]
CopyRegion: TypeAlias = list[tuple[str, Bounds]] | list[Bounds]


class CopyCrew(TypedDict):
    """The workers of a planned copy, as the engine takes them: `plan_copy` and `CopyPrices`."""

    workers: int
    size: int
    put: float
    get: float
    storage: float
    egress: float
    worker: float


class _DefaultFillValue:
    """Marks a fill value as not given. ``None`` is a fill value in Zarr v2 (``null``)."""

    def __repr__(self) -> str:
        return "DEFAULT_FILL_VALUE"


DEFAULT_FILL_VALUE = _DefaultFillValue()


class _Zero(_DefaultFillValue):
    """A zero of any type. For times it is the epoch or zero, where the default is not-a-time."""


DEFAULT_ZERO = _Zero()


def normalize_format(zarr_format: int | None) -> ZarrFormat:
    """Return 2 or 3; ``None`` stands for the default in the settings."""
    if zarr_format is None:
        return settings.default_zarr_format
    if zarr_format not in (2, 3):
        raise InvalidArgumentError(f"zarr_format: expected 2 or 3, found {zarr_format!r}")
    return cast(ZarrFormat, int(zarr_format))


def array_like(what: str, value: Any) -> Any:
    """Check that a value is an array or makes one: numbers, text, and lists of them.

    Raises `TypeError` for values that NumPy would wrap in an object array: groups, dictionaries,
    ``None``.
    """
    is_array = hasattr(value, "shape") and hasattr(value, "dtype")
    is_arrow = hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__")
    if not (is_array or is_arrow) and (value is None or isinstance(value, (Mapping, Set))):
        raise TypeError(f"{what}: expected an array or what makes one, found {type(value).__name__}")
    return value


def _length(what: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{what}: expected integers, found {value!r}")
    return int(value.__index__())


def normalize_shape(shape: ShapeLike) -> tuple[int, ...]:
    """Return a shape as a tuple; an integer is one axis."""
    axes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    lengths = tuple(_length("shape", axis) for axis in axes)
    for length in lengths:
        if not 0 <= length < 2**63:
            raise InvalidArgumentError(f"shape: expected lengths from 0 to 2**63 - 1, found {lengths}")
    return lengths


def _rectilinear_lengths(
    what: str, chunks: Any, shape: tuple[int, ...], whole: tuple[int, ...]
) -> list[Any] | None:
    """Return the chunks (or shards) along each axis, or ``None`` if all have one shape.

    In the form of the metadata: an integer, or a list of integers (and of pairs: length, count).
    ``whole``: the length that covers each axis.
    """
    if hasattr(chunks, "chunk_shapes") and hasattr(chunks, "to_dict"):
        # The metadata of another array. It may have chunks past the array's end.
        return list(chunks.to_dict()["configuration"]["chunk_shapes"])
    is_one = isinstance(chunks, (str, bool, Mapping)) or getattr(chunks, "ndim", 1) == 0
    if is_one or not isinstance(chunks, Iterable):
        return None
    items: list[Any] = list(chunks)
    if not any(_is_list(item) for item in items):
        return None
    if len(items) != len(shape):
        raise InvalidArgumentError(
            f"{what} has {len(items)} dimensions but shape has {len(shape)} dimensions"
        )
    axes: list[Any] = []
    for axis, (item, extent) in enumerate(zip(items, shape, strict=True)):
        if not _is_list(item):
            length = _length(what, item)
            axes.append(whole[axis] if length == -1 else length)
            continue
        if any(_is_list(length) for length in item):
            raise ArgumentTypeError(
                f"{what}: axis {axis}: expected the length of each {what[:-1]}, found {item!r}"
            )
        lengths = [_length(what, length) for length in item]
        if not lengths or min(lengths) < 1:
            raise InvalidArgumentError(f"{what}: axis {axis}: expected positive lengths, found {lengths}")
        if extent > 0 and sum(lengths) != extent:
            raise InvalidArgumentError(
                f"{what}: axis {axis}: the lengths add up to {sum(lengths)}, the array has {extent} elements"
            )
        axes.append(lengths)
    return axes


def _is_list(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return True
    return isinstance(item, Iterable) and not isinstance(item, (str, bytes)) and np.ndim(cast(Any, item)) > 0


def _normalize_chunks(chunks: ChunksLike, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the chunk shape; ``None``: the engine chooses it."""
    if chunks is None or isinstance(chunks, str):
        if chunks not in (None, "auto"):
            raise InvalidArgumentError(f"chunks: expected integers or 'auto', found {chunks!r}")
        return None
    return _sizes("chunks", chunks, tuple(max(length, 1) for length in shape))


def _sizes(what: str, chunks: Any, whole: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of chunks or shards. ``whole``: the length that covers each axis."""
    if chunks is True:
        raise InvalidArgumentError(f"{what}: True is not a shape; use 'auto'")
    if chunks is False:
        return whole
    # NumPy scalars and 0-d arrays have `__iter__` too.
    if isinstance(chunks, Iterable) and getattr(chunks, "ndim", 1) != 0:
        items: list[Any] = list(chunks)
    else:
        items = [chunks] * len(whole)
    if len(items) != len(whole):
        raise InvalidArgumentError(
            f"{what} has {len(items)} dimensions but shape has {len(whole)} dimensions"
        )
    lengths = tuple(_length(what, item) for item in items)
    for length in lengths:
        if length < 1 and length != -1:
            raise InvalidArgumentError(
                f"{what}: expected positive integers, or -1 for the whole axis, found {lengths}"
            )
    return tuple(full if length == -1 else length for length, full in zip(lengths, whole, strict=True))


class _Shards(NamedTuple):
    """The requested shards."""

    shape: tuple[int, ...] | None
    """The shape of all shards, if they have one shape."""
    several: list[Any] | None
    """The lengths along each axis in the form of the metadata, if shards have different shapes."""
    choose: bool
    """True if the engine chooses the shape."""
    at_start: bool
    """True if the indexes are at the start."""


def _normalize_shards(shards: Any, shape: tuple[int, ...], chunks: tuple[int, ...] | None) -> _Shards:
    """Return the requested shards for chunks of this shape (``None``: chosen later)."""
    location: Any = "end"
    if isinstance(shards, Mapping):
        if "shape" not in shards or set(shards) - {"shape", "index_location"}:
            raise InvalidArgumentError(
                f"shards: expected a dictionary with shape and index_location, found {shards!r}"
            )
        location, shards = shards.get("index_location", "end"), shards["shape"]
        location = getattr(location, "value", location)
    if location not in ("start", "end"):
        raise InvalidArgumentError(f"shards: index_location: expected 'start' or 'end', found {location!r}")
    at_start = location == "start"
    if shards is None:
        return _Shards(None, None, False, at_start)
    if isinstance(shards, str):
        if shards != "auto":
            raise InvalidArgumentError(f"shards: expected integers, 'auto' or None, found {shards!r}")
        return _Shards(None, None, True, at_start)
    # A shard that covers the axis holds whole chunks.
    whole = tuple(
        max(-(-length // chunk), 1) * chunk
        for length, chunk in zip(shape, chunks or (1,) * len(shape), strict=True)
    )
    several = _rectilinear_lengths("shards", shards, shape, whole)
    shape_of_all = None if several is not None else _sizes("shards", shards, whole)
    return _Shards(shape_of_all, several, False, at_start)


def normalize_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a data type that arrays can have. Raises `DataTypeError` for other types."""
    if hasattr(dtype, "to_native_dtype"):
        # A type of zarr-python. NumPy has no type for bytes of variable length.
        name = getattr(dtype, "_zarr_v3_name", None)
        dtype = name if name in _VLEN_NAMES else dtype.to_native_dtype()
    if dtype is str or dtype is bytes:
        return type_of("text" if dtype is str else "bytes")
    if hasattr(dtype, "keys") and "name" in dtype:
        # Zarr v3 metadata.
        name, optional = v3_data_type(json.dumps(dtype))
        value = normalize_dtype(name)
        return optional_dtype(value) if optional else value
    if isinstance(dtype, str) and dtype in _VLEN_NAMES:
        return type_of(_VLEN_NAMES[dtype])
    if isinstance(dtype, str) and dtype in _SMALL.values():
        small: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), _python_name(dtype)))
        return small
    found: np.dtype[Any] = np.dtype(dtype)
    if is_optional(found):
        return optional_dtype(normalize_dtype(value_dtype(found)))
    if _small_type_name(found) is not None:
        return found
    kind, item = kind_of(found)
    if kind == "text":
        return type_of(kind)
    if kind is not None:
        if item is not None and kind_of(normalize_dtype(item))[0] is not None:
            raise DataTypeError(f"dtype {found}: arrays of variable length of {item} are not supported")
        if item is not None and item.names is not None:
            raise DataTypeError(f"dtype {found}: arrays of variable length of structures are not supported")
        return type_of(kind, item)
    if found.kind == "O":
        raise DataTypeError(
            "dtype object says nothing of what the objects are: give str, bytes or hyperslab.vlen_dtype(…), "
            "in Zarr v2 also object_codec (numcodecs.JSON() is for any objects that are JSON)"
        )
    if found.names is not None:
        return pack_structure(found, normalize_dtype)
    if found.subdtype is not None:
        raise DataTypeError(
            f"dtype {found}: only fields of structures are arrays; give the array itself more axes"
        )
    if found.kind not in "biufcSUVMm" or (found.kind in "fc" and found.itemsize not in (2, 4, 8, 16)):
        raise DataTypeError(f"dtype {found} is not supported")
    if found.kind == "f" and found.itemsize > 8:
        raise DataTypeError(
            f"dtype {found} (long double) is not supported: its layout differs between machines"
        )
    if found.itemsize == 0:
        raise DataTypeError(f"dtype {found!r}: a length is needed: '{found.kind}10'")
    return found


def _small_type_name(dtype: np.dtype[Any]) -> str | None:
    """Return Zarr's name of a type in the package ml_dtypes; ``None`` for NumPy's own types."""
    if dtype.type.__module__ != "ml_dtypes":
        return None
    if dtype.name not in _SMALL:
        # NumPy treats these types as raw bytes.
        raise DataTypeError(f"dtype {dtype} is not supported: Zarr has no such type")
    return _SMALL[dtype.name]


def _python_name(small: str) -> str:
    return next(name for name, zarr in _SMALL.items() if zarr == small)


def _fill_bytes(fill_value: Any, dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of a fill value."""
    if dtype.names is not None and isinstance(fill_value, list):
        fill_value = tuple(fill_value)
    if dtype.names is not None and isinstance(fill_value, bytes) and len(fill_value) == dtype.itemsize:
        return fill_value
    try:
        element = np.array(fill_value, dtype=dtype)
    except OverflowError as error:
        # NumPy's message does not name the argument or, for large numbers, the data type.
        raise NumberRangeError(
            f"fill_value: {fill_value!r} does not fit data type {dtype}: give a value in its range, or "
            "another dtype"
        ) from error
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"fill_value: {fill_value!r} is no value of type {dtype}: {error}"
        ) from error
    if element.shape != ():
        raise InvalidArgumentError(f"fill_value: expected one value, found shape {element.shape}")
    return element.tobytes()


def _optional_fill(fill_value: Any, dtype: np.dtype[Any]) -> bytes | None:
    """Return the bytes of a fill value and a byte that marks it as present. ``None``: missing."""
    if fill_value is None or fill_value is np.ma.masked or fill_value is DEFAULT_FILL_VALUE:
        return None
    zero = fill_value is DEFAULT_ZERO
    return (bytes(dtype.itemsize) if zero else _fill_bytes(fill_value, dtype)) + b"\1"


def _vlen_fill(fill_value: Any, dtype: np.dtype[Any], codec: dict[str, Any] | None) -> bytes | None:
    """Return the bytes of a fill value of variable length; ``None``: not specified."""
    kind, _ = kind_of(dtype)
    if kind in OBJECTS:
        if fill_value is None or fill_value is DEFAULT_FILL_VALUE:
            return None
        if fill_value is DEFAULT_ZERO:
            fill_value = 0
        elif isinstance(fill_value, np.generic):
            fill_value = fill_value.item()
        try:
            return object_bytes(fill_value, json.dumps(codec or {"id": kind}))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"fill_value: {fill_value!r}: {error}") from error
    if isinstance(fill_value, _DefaultFillValue) or fill_value is None:
        return None if fill_value is None else b""
    if not isinstance(fill_value, (str, bytes)) and np.ndim(fill_value) == 0:
        # 0 was zarr-python's default for all of them.
        if isinstance(fill_value, (int, np.integer)) and fill_value == 0:
            return b""
        raise InvalidArgumentError(f"fill_value: {fill_value!r} is no {kind}")
    try:
        element = Ragged.of(fill_value, dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"fill_value: {fill_value!r} is no {kind}: {error}") from error
    if element.size != 1:
        raise InvalidArgumentError(f"fill_value: expected one value, found shape {element.shape}")
    return np.asarray(element.values).tobytes()


def take_object_codec(
    dtype: Any, filters: CodecsLike, serializer: Any, object_codec: Any
) -> tuple[Any, CodecsLike, Any, dict[str, Any] | None]:
    """Take the codec that turns objects into bytes out of the given codecs. It belongs to the type.

    Returns the data type, the other filters, the serializer, and the metadata of the object codec
    if it has settings. If the type is only ``object``, the codec determines it.
    """
    said = None
    if object_codec is not None:
        said = object_codec_type(object_codec)
        if said is None:
            raise UnsupportedError(
                "object_codec: expected vlen-utf8, vlen-bytes, vlen-array, json2, msgpack2 or categorize of "
                f"objects, found {object_codec!r}"
            )
    if filters is not None and not isinstance(filters, str):
        rest: list[CodecLike] = []
        for codec in as_list(filters):
            found = object_codec_type(codec)
            if found is None:
                rest.append(codec)
            else:
                said = found
        filters = rest
    if serializer is not None and not isinstance(serializer, str):
        found = object_codec_type(serializer)
        if found is not None:
            said, serializer = found, "auto"
    if said is None:
        return dtype, filters, serializer, None
    said_type, metadata = said
    if hasattr(dtype, "to_native_dtype"):
        dtype = normalize_dtype(dtype)
    is_named = dtype in (str, bytes) or (isinstance(dtype, str) and dtype in _VLEN_NAMES)
    if dtype is None or (not is_named and _is_any_object(np.dtype(dtype))):
        return said_type, filters, serializer, metadata
    if kind_of(normalize_dtype(dtype)) != kind_of(said_type):
        raise InvalidArgumentError(f"dtype {dtype} does not go with the codec, which is for {said_type}")
    return dtype, filters, serializer, metadata


def as_list(codecs: CodecsLike) -> list[CodecLike]:
    """Return a codec argument as a list. (``"auto"`` gives an empty list.)"""
    if codecs is None or isinstance(codecs, str):
        return []
    if isinstance(codecs, Iterable) and not isinstance(codecs, Mapping):
        return list(codecs)
    return [cast("CodecLike", codecs)]


def _is_any_object(dtype: np.dtype[Any]) -> bool:
    """Return True if the type does not say what the objects are."""
    return dtype.kind == "O" and kind_of(dtype)[0] in (None, *OBJECTS)


def _key_encoding(given: Any) -> dict[str, Any] | None:
    """Return the metadata of a chunk key encoding.

    Takes ``("v2", ".")``, ``{"name": "default", "separator": "/"}``,
    ``{"name": "suffix", "configuration": {"suffix": ".tiff"}}``, a name, or zarr-python's objects.
    """
    if given is None:
        return None
    if hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, str):
        return {"name": given}
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        found = dict(given)
        if found.get("separator", "") is None:
            del found["separator"]
        return found
    if isinstance(given, Sequence) and len(given) == 2:
        name, separator = given
        return {"name": name} if separator is None else {"name": name, "separator": separator}
    raise InvalidArgumentError(
        f"chunk_key_encoding: expected a name as 'default' or 'v2', or its metadata, found {given!r}"
    )


def array_spec(
    *,
    zarr_format: ZarrFormat,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: ChunksLike,
    shards: ShardsLike,
    filters: CodecsLike,
    compressors: CodecsLike,
    serializer: CodecLike | Literal["auto"] | None,
    fill_value: Any,
    order: Literal["C", "F"] | None,
    attributes: Mapping[str, Any] | None,
    chunk_key_encoding: Any,
    dimension_names: Iterable[str | None] | None,
    object_codec: dict[str, Any] | None = None,
) -> ArraySpec:
    """Check the arguments of a new array as far as Python can. The engine checks the rest.

    ``object_codec``: the metadata of the codec that turns objects into bytes, if ``dtype`` does not
    determine it.
    """
    if order not in (None, "C", "F"):
        raise InvalidArgumentError(f"order: expected 'C' or 'F', found {order!r}")
    if zarr_format == 2 and serializer not in (None, "auto"):
        raise InvalidArgumentError("serializer: Zarr v2 arrays have none; the byte order is part of dtype")
    kind, item = kind_of(dtype)
    if zarr_format == 3 and (kind == "items" or kind in OBJECTS or object_codec is not None):
        what = "arrays of variable length" if kind == "items" else "objects with a codec of their own"
        raise UnsupportedError(f"dtype {dtype}: Zarr v3 has no {what}; use Zarr v2: zarr_format=2")
    key_encoding = _key_encoding(chunk_key_encoding)
    if zarr_format == 2 and key_encoding is not None and key_encoding["name"] != "v2":
        raise InvalidArgumentError(
            f"chunk_key_encoding: expected 'v2' for a Zarr v2 array, found {key_encoding['name']!r}"
        )
    if zarr_format == 2 and order is None:
        order = settings.order
    fill: bytes | None
    optional = is_optional(dtype)
    if optional and zarr_format == 2:
        raise UnsupportedError("dtype: Zarr v2 has no elements that may be missing; use Zarr v3")
    if optional:
        dtype = value_dtype(dtype)
    # Check the size before making a fill value of that size.
    if kind is None and dtype.itemsize > largest_element():
        raise UnsupportedError(
            f"dtype: elements of {dtype.itemsize} bytes are not supported (at most {largest_element()})"
        )
    if optional:
        fill = _optional_fill(fill_value, dtype)
    elif kind is not None:
        fill = _vlen_fill(fill_value, dtype, object_codec)
    elif fill_value is DEFAULT_ZERO:
        fill = bytes(dtype.itemsize)
    elif fill_value is DEFAULT_FILL_VALUE:
        fill = bytes(dtype.itemsize) if zarr_format == 2 and dtype.kind not in "Mm" else None
        if zarr_format == 2 and dtype.kind in "Mm":
            fill = _fill_bytes("NaT", dtype)
    else:
        fill = None if fill_value is None else _fill_bytes(fill_value, dtype)
    names = (
        None if dimension_names is None else [None if name is None else str(name) for name in dimension_names]
    )
    filters_found, compressors_found = (
        codecs_metadata(filters, zarr_format),
        codecs_metadata(compressors, zarr_format),
    )
    rectilinear = _rectilinear_lengths("chunks", chunks, shape, tuple(max(length, 1) for length in shape))
    if rectilinear is not None and zarr_format == 2:
        raise InvalidArgumentError("chunks: Zarr v2 has no chunks of several sizes (rectilinear)")
    if rectilinear is not None and shards is not None:
        raise InvalidArgumentError(
            "chunks: chunks of several sizes (rectilinear) do not go with shards; give the chunks in shards "
            "one shape, and the shards several sizes: chunks=(2, 2), shards=[[4, 8], [6, 6]]"
        )
    chunk_shape = None if rectilinear is not None else _normalize_chunks(chunks, shape)
    found_shards = _normalize_shards(shards, shape, chunk_shape)
    if zarr_format == 2 and found_shards[:3] != (None, None, False):
        raise InvalidArgumentError(f"shards: Zarr v2 arrays have none, found {shards!r}")
    return {
        "zarr_format": zarr_format,
        "shape": list(shape),
        "dtype": "|V16" if kind is not None else _small_type_name(dtype) or dtype.str,
        "vlen": kind if item is None else item.str,
        "optional": optional,
        "object_codec": None if object_codec is None else json.dumps(object_codec),
        "structure": structure_text(dtype, _small_type_name),
        "chunks": None if chunk_shape is None else list(chunk_shape),
        "rectilinear": None if rectilinear is None else json.dumps(rectilinear),
        "shards": None if found_shards.shape is None else list(found_shards.shape),
        "rectilinear_shards": None if found_shards.several is None else json.dumps(found_shards.several),
        "choose_shards": found_shards.choose,
        "index_at_start": found_shards.at_start,
        "filters": None if filters_found is None else json.dumps(filters_found),
        "compressors": None if compressors_found is None else json.dumps(compressors_found),
        "serializer": None
        if serializer is None or serializer == "auto"
        else json.dumps(codec_metadata(serializer, zarr_format)),
        "fill": fill,
        "fortran_order": order == "F",
        "attributes": attributes_text(attributes),
        "dimension_names": names,
        "key_encoding": None if key_encoding is None else json.dumps(key_encoding),
    }
