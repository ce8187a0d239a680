"""Shorthands for making, saving and loading arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab._base.unused_arguments import warn_unused
from hyperslab._core.arguments import (
    DEFAULT_FILL_VALUE,
    DEFAULT_ZERO,
    ChunksLike,
    ShapeLike,
    ShardsLike,
    array_like,
    as_list,
    normalize_dtype,
    normalize_format,
)
from hyperslab._core.array import Array
from hyperslab._core.array_config import parse_cache, parse_config
from hyperslab._core.group import Group
from hyperslab._core.unreadable import UnreadableArray, UnreadableNodeWarning
from hyperslab._create.like import describe_like, is_zarr_array, layout_of
from hyperslab._create.new import new_array, replace_group, with_type, write_all
from hyperslab._create.open import open
from hyperslab._create.place import must_be_empty
from hyperslab._stores.store import MemoryStore, StoreLike
from hyperslab.codecs import CodecLike, CodecsLike, codec_metadata
from hyperslab.errors import InvalidArgumentError

__all__ = ["array", "create", "empty", "full", "load", "ones", "save", "save_array", "save_group", "zeros"]

ZarrFormat = Literal[2, 3]


def create(
    shape: ShapeLike | None = None,
    *,
    chunks: ChunksLike = None,
    shards: ShardsLike = None,
    dtype: npt.DTypeLike | None = None,
    compressor: Any = "auto",
    compressors: CodecsLike = "auto",
    fill_value: Any = DEFAULT_FILL_VALUE,
    order: Literal["C", "F"] | None = None,
    store: StoreLike | None = None,
    overwrite: bool = False,
    path: str | None = None,
    filters: CodecsLike = None,
    dimension_separator: Literal[".", "/"] | None = None,
    write_empty_chunks: bool | None = None,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_shape: ChunksLike = None,
    chunk_key_encoding: Any = None,
    codecs: Any = None,
    dimension_names: Any = None,
    config: Any = None,
    data: Any = None,
    mode: Literal["r+", "a", "w", "w-"] | None = None,
    serializer: CodecLike | Literal["auto"] = "auto",
    object_codec: CodecLike | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_data: bool = True,
    synchronizer: Any = None,
    chunk_store: Any = None,
    cache_metadata: bool | None = None,
    cache_attrs: bool | None = None,
    read_only: bool | None = None,
    meta_array: Any = None,
) -> Array:
    """Create an array, accepting zarr-python's older names for some arguments.

    Works like `create_array`, with these differences:

    - ``store`` may be left out (a new `MemoryStore`), and ``path`` is the name.
    - ``dtype`` is float64 by default.
    - ``compressor`` is one codec; ``codecs`` lists all codecs of a Zarr v3 array.
    - ``dimension_separator`` is the separator of chunk keys; ``chunk_shape`` is the same as
      ``chunks``.
    - ``data`` is written to an array of the given shape and type.
    - ``mode="w"`` deletes an existing node; ``"w-"`` fails if one exists.

    Giving both names of one argument is an error. ``synchronizer``, ``chunk_store``,
    ``cache_metadata``, ``cache_attrs``, ``read_only`` and ``meta_array`` only produce a warning, as
    in zarr-python.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.create((2, 3), dtype="i4", chunks=(1, 3))[:]
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    warn_unused(
        synchronizer=synchronizer,
        chunk_store=chunk_store,
        cache_metadata=cache_metadata,
        cache_attrs=cache_attrs,
        read_only=read_only,
        meta_array=meta_array,
    )
    zarr_format = normalize_format(zarr_format)
    if filters is None:
        filters = "auto"
    given = {
        "chunks": chunks is not None,
        "chunk_shape": chunk_shape is not None,
        "compressor": not _is_auto(compressor),
        "compressors": not _is_auto(compressors),
        "filters": not _is_auto(filters),
        "serializer": not _is_auto(serializer),
        "codecs": codecs is not None,
        "dimension_separator": dimension_separator is not None,
        "chunk_key_encoding": chunk_key_encoding is not None,
        "write_empty_chunks": write_empty_chunks is not None,
        "config": parse_config(config).write_empty_chunks is not None,
    }
    for pair in _EXCLUSIVE:
        if given[pair[0]] and given[pair[1]]:
            raise InvalidArgumentError(f"{pair[0]} and {pair[1]}: give one of them, not both")
    arguments: dict[str, Any] = {"filters": filters, "compressors": compressors, "serializer": serializer}
    if not _is_auto(compressor):
        arguments["compressors"] = compressor
    if codecs is not None:
        if zarr_format == 2:
            raise InvalidArgumentError("codecs: Zarr v2 arrays have filters and a compressor")
        arguments |= split_codecs(codecs)
    if dimension_separator is not None:
        chunk_key_encoding = ("v2" if zarr_format == 2 else "default", dimension_separator)
    own, cache = parse_config(config), parse_cache(config)
    if write_empty_chunks is not None:
        own = parse_config({"write_empty_chunks": write_empty_chunks}, own)
    config = {**vars(own), "cache": cache}
    if mode is not None:
        if mode not in ("r+", "a", "w", "w-"):
            raise InvalidArgumentError(
                f"mode: expected 'r+', 'a', 'w' or 'w-' for a new array, found {mode!r}"
            )
        if overwrite and mode == "w-":
            raise InvalidArgumentError("mode and overwrite: 'w-' fails where something is there")
        overwrite = overwrite or mode == "w"
    if mode == "w-":
        must_be_empty(store, path)
    if shape is None:
        if data is None:
            raise InvalidArgumentError("shape is needed where there is no data")
        shape = np.shape(data)
    return new_array(
        MemoryStore() if store is None else store,
        fill=None if data is None or not write_data else lambda new: write_all(new, data),
        name=path,
        shape=shape,
        dtype="f8" if dtype is None and object_codec is None else dtype,
        object_codec=object_codec,
        chunks=chunks if chunk_shape is None else chunk_shape,
        shards=shards,
        fill_value=fill_value,
        order=order,
        zarr_format=zarr_format,
        attributes=attributes,
        chunk_key_encoding=chunk_key_encoding,
        dimension_names=dimension_names,
        overwrite=overwrite,
        config=config,
        storage_options=storage_options,
        **arguments,
    )


# Pairs of arguments that exclude each other.
_EXCLUSIVE = (
    ("chunks", "chunk_shape"),
    ("compressor", "compressors"),
    ("codecs", "compressor"),
    ("codecs", "compressors"),
    ("codecs", "filters"),
    ("codecs", "serializer"),
    ("dimension_separator", "chunk_key_encoding"),
    ("write_empty_chunks", "config"),
)


def _is_auto(codecs: Any) -> bool:
    return isinstance(codecs, str) and codecs == "auto"


def split_codecs(codecs: Any) -> dict[str, Any]:
    """Split a list of Zarr v3 codecs into filters, serializer and compressors."""
    found = [codec_metadata(codec, 3) for codec in codecs]
    serializers = ("bytes", "sharding_indexed", "numcodecs.pcodec", "numcodecs.zfpy", "zfp")
    at = [index for index, codec in enumerate(found) if codec["name"] in serializers]
    if len(at) != 1:
        raise InvalidArgumentError("codecs: expected exactly one codec from array to bytes, such as 'bytes'")
    return {"filters": found[: at[0]], "serializer": found[at[0]], "compressors": found[at[0] + 1 :]}


def array(data: Any, **kwargs: Any) -> Array:
    """Create an array from data. Takes the arguments of `create`.

    From a Zarr array, everything is kept that no argument overrides, as in `from_array`.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.array([1, 2, 3], dtype="u1")[:]
    array([1, 2, 3], dtype=uint8)
    """
    for name in ("shape", "data"):
        if name in kwargs:
            raise TypeError(f"array() got an unexpected keyword argument {name!r}")
    codecs = [*as_list(kwargs.get("filters")), kwargs.get("object_codec")]
    data = with_type(data, kwargs.get("dtype"), codecs)
    if is_zarr_array(data):
        kwargs = _arguments_like(data, kwargs)
    chunks = None if is_zarr_array(data) else getattr(data, "chunks", None)
    if (
        isinstance(chunks, tuple)
        and len(chunks) == len(data.shape)
        and all(isinstance(n, int) for n in chunks)
        and kwargs.get("chunk_shape") is None
    ):
        kwargs.setdefault("chunks", chunks)
    if kwargs.get("dtype") is None:
        kwargs["dtype"] = data.dtype
    return create(data.shape, data=data, **kwargs)


def _arguments_like(data: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `create` that keep what they can of a Zarr array."""
    zarr_format = normalize_format(given.get("zarr_format") or data.metadata.zarr_format)
    wanted: dict[str, Any] = {
        "fill_value": DEFAULT_FILL_VALUE,
        **dict.fromkeys(("order", "attributes", "chunk_key_encoding", "dimension_names")),
        **dict.fromkeys(("chunks", "shards", "filters", "compressors", "serializer"), "keep"),
    }
    layout = layout_of(data, zarr_format, describe_like(data, zarr_format, {**wanted, **given}))
    # Drop layout values that the caller gave under another name.
    none_says = ("compressor", "compressors", "filters")
    said = {
        name
        for name, value in given.items()
        if not _is_auto(value) and (value is not None or name in none_says)
    }
    for pair in _EXCLUSIVE:
        for name, other in (pair, pair[::-1]):
            if name in said and other not in given:
                layout.pop(other, None)
    return {**layout, "zarr_format": zarr_format}


def zeros(shape: ShapeLike, **kwargs: Any) -> Array:
    """Create an array of zeros: the fill value is zero, and nothing is stored.

    Takes the arguments of `create` except ``fill_value``, for which there is `full`.
    """
    return create(shape, fill_value=DEFAULT_ZERO, **kwargs)


def empty(shape: ShapeLike, **kwargs: Any) -> Array:
    """Create an array that holds its fill value: no element is undefined.

    Takes the arguments of `create`.
    """
    return create(shape, **kwargs)


def ones(shape: ShapeLike, **kwargs: Any) -> Array:
    """Create an array of ones: the fill value is one, and nothing is stored.

    Takes the arguments of `create` except ``fill_value``, for which there is `full`.
    """
    return create(shape, fill_value=1, **kwargs)


def full(shape: ShapeLike, fill_value: Any, **kwargs: Any) -> Array:
    """Create an array of one value: it is the fill value, and nothing is stored.

    Takes the arguments of `create`.
    """
    return create(shape, fill_value=fill_value, **kwargs)


def save_array(
    store: StoreLike,
    arr: Any,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array. Takes further arguments of `create`.

    Fails if there is an array or group already, unless ``mode="w"`` is given.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> store = hs.MemoryStore()
    >>> hs.save_array(store, np.arange(3))
    >>> hs.load(store)
    array([0, 1, 2])
    """
    values = _values("arr", arr)
    array(values, store=store, path=path, zarr_format=zarr_format, storage_options=storage_options, **kwargs)


def _values(name: str, value: Any) -> Any:
    """Return a value that can become an array. Raises `TypeError` for other values."""
    checked = array_like(name, value)
    return with_type(checked if hasattr(checked, "dtype") else np.asarray(checked))


def save_group(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store several arrays as a group, replacing an existing node.

    Positional arrays become ``arr_0``, ``arr_1``, …; keywords name the others. There are no
    options: every other keyword is the name of an array.
    """
    if not args and not kwargs:
        raise InvalidArgumentError("at least one array must be provided")
    for name, value in kwargs.items():
        # A value without a type may be a mistyped option: fail before anything is deleted.
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            raise TypeError(f"{name}: expected a NumPy array or alike, found {type(value).__name__}")
        if name in (f"arr_{index}" for index in range(len(args))):
            raise TypeError(f"{name}: the name of an array that is given without one")
    arrays = {**{f"arr_{index}": value for index, value in enumerate(args)}, **kwargs}
    values = {name: _values(name, value) for name, value in arrays.items()}
    for value in values.values():
        normalize_dtype(value.dtype)

    def fill(group: Group) -> None:
        for name, value in values.items():
            group.create_array(name, data=value)

    nbytes = sum(math.prod(value.shape) * value.dtype.itemsize for value in values.values())
    replace_group(store, path, zarr_format, fill, storage_options, nbytes=nbytes)


def save(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Store one array with `save_array`, or several with `save_group`."""
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], path=path, zarr_format=zarr_format, storage_options=storage_options)
    else:
        save_group(
            store, *args, path=path, zarr_format=zarr_format, storage_options=storage_options, **kwargs
        )


def load(store: StoreLike, path: str | None = None, zarr_format: ZarrFormat | None = None) -> Any:
    """Read an array into memory, or all direct member arrays of a group as a dictionary.

    Member arrays that cannot be opened are left out with an `UnreadableNodeWarning`.
    """
    node = open(store, path=path, zarr_format=zarr_format, mode="r")
    if isinstance(node, Group):
        found = {}
        for name, array in node.arrays():
            if isinstance(array, UnreadableArray):
                warnings.warn(f"left out {array.name!r}: {array.error}", UnreadableNodeWarning, stacklevel=2)
            else:
                found[name] = array.read()
        return found
    return node.read()
