"""The shorter ways to make, save and load arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab._api import create_array, open, open_group, with_type, write_blocks
from hyperslab._array import Array
from hyperslab._create import DEFAULT_FILL_VALUE, ChunksLike, ShapeLike, ShardsLike, normalize_format
from hyperslab._group import Group
from hyperslab._store import MemoryStore, StoreLike
from hyperslab.codecs import CodecsLike, codec_metadata
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
    filters: CodecsLike = "auto",
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
    **more: Any,
) -> Array:
    """Create an array, with zarr-python's older names for some arguments.

    As `create_array`, except: ``store`` may be left out (a new `MemoryStore`), ``path`` is the name,
    ``dtype`` is float64 by default, ``compressor`` is one codec, ``codecs`` is the list of all codecs of a
    Zarr v3 array, ``dimension_separator`` the separator of chunk keys, and ``data`` is written to an array of
    the given shape and type.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.create((2, 3), dtype="i4", chunks=(1, 3))[:]
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    zarr_format = normalize_format(zarr_format)
    arguments: dict[str, Any] = {"filters": filters, "compressors": compressors}
    if compressor != "auto":
        arguments["compressors"] = compressor
    if codecs is not None:
        if zarr_format == 2:
            raise InvalidArgumentError("codecs: Zarr v2 arrays have filters and a compressor")
        arguments |= split_codecs(codecs)
    if dimension_separator is not None:
        chunk_key_encoding = ("v2" if zarr_format == 2 else "default", dimension_separator)
    if write_empty_chunks is not None:
        config = {"write_empty_chunks": write_empty_chunks}
    if shape is None:
        if data is None:
            raise InvalidArgumentError("shape is needed where there is no data")
        shape = np.shape(data)
    new = create_array(
        MemoryStore() if store is None else store,
        name=path,
        shape=shape,
        dtype="f8" if dtype is None and "object_codec" not in more else dtype,
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
        **arguments,
        **more,
    )
    if data is not None:
        new[...] = data
    return new


def split_codecs(codecs: Any) -> dict[str, Any]:
    """The codecs of a Zarr v3 array in one list, by role: those before the serializer, it, those after it."""
    found = [codec_metadata(codec, 3) for codec in codecs]
    serializers = ("bytes", "sharding_indexed")
    at = [index for index, codec in enumerate(found) if codec["name"] in serializers]
    if len(at) != 1:
        raise InvalidArgumentError("codecs: expected exactly one 'bytes' or 'sharding_indexed' codec")
    return {"filters": found[: at[0]], "serializer": found[at[0]], "compressors": found[at[0] + 1 :]}


def array(data: Any, **kwargs: Any) -> Array:
    """Create an array filled with some data; arguments as in `create`.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.array([1, 2, 3], dtype="u1")[:]
    array([1, 2, 3], dtype=uint8)
    """
    data = with_type(data, kwargs.get("dtype"))
    chunks = getattr(data, "chunks", None)
    if (
        isinstance(chunks, tuple)
        and len(chunks) == len(data.shape)
        and all(isinstance(n, int) for n in chunks)
    ):
        kwargs.setdefault("chunks", chunks)
    new = create(data.shape, **{"dtype": data.dtype, **kwargs})
    write_blocks(new, data)
    return new


def zeros(shape: ShapeLike, **kwargs: Any) -> Array:
    """Create an array of zeros: its fill value, nothing is stored. Arguments as in `create`."""
    return create(shape, **kwargs)


def empty(shape: ShapeLike, **kwargs: Any) -> Array:
    """`zeros`: nothing is ever undefined."""
    return create(shape, **kwargs)


def ones(shape: ShapeLike, **kwargs: Any) -> Array:
    """Create an array of ones: its fill value, nothing is stored. Arguments as in `create`."""
    return create(shape, **{"fill_value": 1, **kwargs})


def full(shape: ShapeLike, fill_value: Any, **kwargs: Any) -> Array:
    """Create an array of one value: its fill value, nothing is stored. Arguments as in `create`."""
    return create(shape, fill_value=fill_value, **kwargs)


def save_array(
    store: StoreLike,
    arr: Any,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    **kwargs: Any,
) -> None:
    """Store one array; an array or group that is there is an error. Further arguments as in `create`.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> store = hs.MemoryStore()
    >>> hs.save_array(store, np.arange(3))
    >>> hs.load(store)
    array([0, 1, 2])
    """
    array(arr, store=store, path=path, zarr_format=zarr_format, **kwargs)


def save_group(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    **kwargs: Any,
) -> None:
    """Store several arrays as a group in the place of what is there: ``arr_0``, ``arr_1`` …, and those
    given by name.
    """
    if not args and not kwargs:
        raise InvalidArgumentError("at least one array must be provided")
    arrays = {**{f"arr_{index}": value for index, value in enumerate(args)}, **kwargs}
    values = {name: value if hasattr(value, "dtype") else np.asarray(value) for name, value in arrays.items()}
    group = open_group(store, mode="w", path=path, zarr_format=zarr_format)
    for name, value in values.items():
        group.create_array(name, data=value)


def save(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    **kwargs: Any,
) -> None:
    """`save_array` for one array, `save_group` for several."""
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], path=path, zarr_format=zarr_format)
    else:
        save_group(store, *args, path=path, zarr_format=zarr_format, **kwargs)


def load(store: StoreLike, path: str | None = None, zarr_format: ZarrFormat | None = None) -> Any:
    """Read an array, or all arrays directly in a group (as a dictionary), into memory."""
    node = open(store, path=path, zarr_format=zarr_format, mode="r")
    if isinstance(node, Group):
        return {name: found.read() for name, found in node.arrays()}
    return node.read()
