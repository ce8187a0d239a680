"""Creation of nodes: `create_array`, `create_group`, `from_array`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._core.arguments import (
    DEFAULT_FILL_VALUE,
    ChunksLike,
    ShapeLike,
    ShardsLike,
    array_like,
    array_spec,
    as_list,
    normalize_dtype,
    normalize_format,
    normalize_shape,
    take_object_codec,
)
from hyperslab._core.array import Array
from hyperslab._core.array_config import parse_cache, parse_config
from hyperslab._core.attrs import attributes_text
from hyperslab._core.group import Group, node_of
from hyperslab._create.like import describe_like, is_zarr_array, layout_of
from hyperslab._create.place import ZarrFormat, place_of
from hyperslab._dask.reads import refuse_early_loss
from hyperslab._elements.optional import is_optional, pack_optional
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import OBJECTS, kind_of
from hyperslab._stores.store import MemoryStore, StoreLike, store_beside
from hyperslab.codecs import CodecLike, CodecsLike, makes_objects
from hyperslab.errors import ArgumentTypeError, ContainsArrayError, DataTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._create.advise import AccessLike

__all__ = [
    "create_array",
    "create_each",
    "create_filled",
    "create_group",
    "from_array",
    "new_array",
    "replace_group",
    "with_type",
    "write_all",
]

# Data outside memory is copied in blocks of about this many bytes.
_BLOCK_BYTES = 64 << 20
_LARGEST_BLOCK_BYTES = 512 << 20


def create_group(
    store: StoreLike,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group, and missing groups above it.

    Parameters
    ----------
    store : StoreLike
        A path, a URL, a store, or a mapping that holds objects.
    path : str, optional
        The path of the group in the store.
    zarr_format : {2, 3}, optional
        Default: ``hyperslab.config.default_zarr_format``.
    overwrite : bool, default False
        Whether to replace an existing node, which stays until the new one is complete.
    attributes : mapping, optional
        The user's attributes.
    storage_options : mapping, optional
        As in `open`.

    Raises
    ------
    ContainsArrayError, ContainsGroupError
        If a node exists and ``overwrite`` is false.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.create_group(hs.MemoryStore(), attributes={"title": "ocean"})
    >>> len(g)
    0
    """
    place, full = place_of(store, path, "a", storage_options)
    handle = _native.create_group(
        place._native, full, normalize_format(zarr_format), attributes_text(attributes), overwrite
    )
    return Group(handle, place)


def replace_group(
    store: StoreLike,
    path: str | None,
    zarr_format: ZarrFormat | None,
    fill: Callable[[Group], None],
    storage_options: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    nbytes: int = 0,
) -> Group:
    """Create a group that replaces an existing node.

    ``fill`` creates its members, of ``nbytes`` bytes in total, before the group takes its place.
    """
    place, full = place_of(store, path, "w", storage_options)
    refuse_early_loss(place, full, nbytes, fill)

    def filled(handle: _native.StoreHandle) -> None:
        fill(cast(Group, node_of(_native.open_node(handle, ""), store_beside(handle, place))))

    handle = _native.create_group(
        place._native, full, normalize_format(zarr_format), attributes_text(attributes), True, filled
    )
    return Group(handle, place)


def create_array(
    store: StoreLike,
    *,
    name: str | None = None,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    data: Any = None,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    filters: CodecsLike = "auto",
    compressors: CodecsLike = "auto",
    serializer: CodecLike | Literal["auto"] = "auto",
    object_codec: CodecLike | None = None,
    fill_value: Any = DEFAULT_FILL_VALUE,
    order: Literal["C", "F"] | None = None,
    zarr_format: ZarrFormat | None = 3,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: Any = None,
    dimension_names: Iterable[str | None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    config: Any = None,
    write_data: bool = True,
    access: AccessLike | None = None,
) -> Array:
    """Create an array, and missing groups above it.

    Parameters
    ----------
    store : StoreLike
        A path, a URL, a store, or a mapping that holds objects.
    name : str, optional
        The path of the array in the store.
    shape : int or sequence of int, optional
        Elements per axis. Needed without ``data``.
    dtype : data type, optional
        Anything that NumPy converts to a data type: bool, integers, floats, complex numbers, ``S``,
        ``U``, ``V``, dates and time differences. For variable length: `str`, ``"T"``,
        ``StringDType()`` or ``"string"`` (text); `bytes` or ``"variable_length_bytes"``;
        `hyperslab.vlen_dtype` (arrays, only in Zarr v2); or the corresponding types of h5py. Needed
        without ``data`` and ``object_codec``.
    data : array-like, optional
        Sets shape and data type, and is written. Also accepts everything that `Ragged.of` takes, if
        it is a `Ragged`, Arrow data, or an object array. A Zarr array, also zarr-python's, also
        sets fill value, attributes and dimension names (and in Zarr v2 the order). To keep its
        chunks and codecs, use `from_array`.
    chunks : int, sequence, "auto" or False, default "auto"
        Chunk length per axis in elements; -1: the whole axis; ``False``: one chunk. In Zarr v3
        without shards, an axis may also list the length of each chunk: ``[[3, 4, 3], [5, 5]]`` (a
        rectilinear grid).
    shards : int, sequence, mapping, "auto" or None, default None
        Shard length per axis in elements, a multiple of the chunk length; -1: the whole axis. The
        chunks of a shard are in one object, and are read and replaced individually. With
        ``chunks="auto"``, chunks are chosen that divide the shards. ``"auto"``: shards of up to 64
        MiB. An axis may also list the length of each shard: ``[[4, 8], [6, 6]]`` (a rectilinear
        grid). As in zarr-python, a dictionary of ``shape`` and ``index_location`` works too.
        ``None``: each chunk is an object. Not in Zarr v2.
    filters : codecs, default "auto"
        Array-to-array codecs (`hyperslab.codecs.Transpose`). Auto: none.
    compressors : codecs, default "auto"
        One or several codecs of `hyperslab.codecs`, zarr-python or numcodecs, or metadata;
        ``None``: none. Auto: `Zstd`.
    serializer : codec, default "auto"
        `hyperslab.codecs.Bytes`, to store elements in another byte order;
        `hyperslab.codecs.Sharding`, for shards within shards or for other codecs of the index.
        Auto: `Bytes`.
    object_codec : codec, optional
        For data type `object`: the kind of the objects, as in zarr-python 2.
        ``numcodecs.VLenUTF8()``, ``VLenBytes()`` or ``VLenArray("<i4")``. In Zarr v2 also
        ``JSON()`` and ``MsgPack()``, for objects with such a form, and
        ``Categorize(labels, dtype=object)``. It may also be the first of the filters.
    fill_value : scalar, optional
        The value of elements that were never written. Default: zero, the empty string, not-a-time.
        ``None`` in Zarr v2: ``null``.
    order : {"C", "F"}, optional
        Order of elements in stored chunks. In Zarr v3, ``"F"`` is a transpose codec.
    zarr_format : {2, 3} or None, default 3
        ``None``: ``hyperslab.config.default_zarr_format``.
    attributes : mapping, optional
        The user's attributes.
    chunk_key_encoding : tuple or mapping, optional
        The naming of chunks: ``("default", "/")``, ``("v2", ".")``, or metadata. In Zarr v2, only
        the separator counts.
    dimension_names : sequence of str or None, optional
        Names of the axes. In Zarr v2, they are stored as in xarray, in the attribute
        ``_ARRAY_DIMENSIONS``.
    storage_options : mapping, optional
        As in `open`.
    overwrite : bool, default False
        Whether to replace an existing node. With ``data``, the old array stays until the new one is
        complete, and is kept if anything fails. ``data`` may be the old array, or derived from it.
    config : mapping, optional
        Settings of this array object, as in `Array.with_config`: ``{"order": "F", "cache": "64 MiB"}``.
    write_data : bool, default True
        Whether to write ``data``.
    access : str, tuple, or list of these, optional
        With ``chunks="auto"``: the ways the array will be read, as in `advise` (``"time series"``,
        ``"map"``, ``(1, 64, 64)``, …). Chunks (and with ``shards="auto"`` also shards) are then the
        best that `advise` finds.

    Returns
    -------
    Array

    Raises
    ------
    ContainsArrayError, ContainsGroupError
        If a node exists and ``overwrite`` is false.
    DataTypeError
        For element types that are not supported.
    InvalidArgumentError, UnsupportedError
        For invalid arguments, and for features that are not supported.

    Examples
    --------
    >>> import hyperslab as hs
    >>> lz4 = hs.codecs.Blosc(cname="lz4")
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), shape=(100, 200), chunks=(10, 200), dtype="f4", compressors=lz4
    ... )
    >>> z[5] = 1.5
    >>> z[4:7, 0]
    array([0. , 1.5, 0. ], dtype=float32)
    """
    if data is None:
        if shape is None or (dtype is None and object_codec is None):
            missing = "shape" if shape is None else "dtype"
            raise InvalidArgumentError(f"{missing} is needed where there is no data")
    else:
        if shape is not None or dtype is not None:
            given = "shape" if shape is not None else "dtype"
            raise InvalidArgumentError(f"data gives the {given}: give one of them, not both")
        data = with_type(data, codecs=[*as_list(filters), object_codec])
        shape, dtype = data.shape, data.dtype
    zarr_format = normalize_format(zarr_format)
    described_by = {
        "fill_value": fill_value,
        "order": order,
        "attributes": attributes,
        "chunk_key_encoding": chunk_key_encoding,
        "dimension_names": dimension_names,
    }
    if is_zarr_array(data):
        described_by = describe_like(data, zarr_format, described_by)
    if access is not None:
        chunks, shards = _advised_chunks(
            store, storage_options, shape, dtype, described_by["dimension_names"], access, chunks, shards
        )
    return new_array(
        store,
        fill=None if data is None or not write_data else lambda new: write_all(new, data),
        name=name,
        shape=cast(ShapeLike, shape),
        dtype=dtype,
        object_codec=object_codec,
        filters=filters,
        serializer=serializer,
        zarr_format=zarr_format,
        storage_options=storage_options,
        overwrite=overwrite,
        config=config,
        chunks=chunks,
        shards=shards,
        compressors=compressors,
        **described_by,
    )


def _advised_chunks(
    store: StoreLike,
    storage_options: Mapping[str, Any] | None,
    shape: Any,
    dtype: Any,
    names: Iterable[str | None] | None,
    access: AccessLike,
    chunks: ChunksLike,
    shards: ShardsLike,
) -> tuple[ChunksLike, ShardsLike]:
    """Return chunks and shards that suit the ways an array will be read."""
    from hyperslab._create.advise import advised_grid

    if chunks != "auto" or shards not in (None, "auto"):
        raise InvalidArgumentError("access: chooses chunks; chunks (and shards) have to be 'auto' (or None)")
    element = normalize_dtype(dtype).itemsize if dtype is not None else 16
    place = place_of(store, None, "a", storage_options)[0]
    return advised_grid(
        normalize_shape(shape),
        element,
        names,
        access,
        far=place._native.is_far(),
        shards=shards is not None,
    )


def create_each(group: Any, arrays: Mapping[str, Any]) -> None:
    """Create arrays of these values in a group, replacing existing ones.

    All are first created in memory, without their elements, to check them.
    """
    trial = create_group(MemoryStore(), zarr_format=group._zarr_format)
    data = {path: with_type(array_like(path, values)) for path, values in arrays.items()}
    for path, values in data.items():
        trial.create_array(path, data=values, write_data=False)
        parts = path.strip("/").split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        if found := next((each for each in above if group._child_kind(each) == "array"), None):
            raise ContainsArrayError(f"{path!r}: there is an array at {found!r} in {group!r}")
    for path, values in data.items():
        group.create_array(path, data=values, overwrite=True)


def create_filled(store: StoreLike, fill: Callable[[Array], None], **arguments: Any) -> Array:
    """Create an array that replaces an existing node, with the arguments of `create_array`.

    ``fill`` writes the elements before the array takes its place.
    """
    known = inspect.signature(create_array).parameters
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise ArgumentTypeError(f"create_array has no argument {unknown[0]!r}")
    own = ("store", "data", "write_data", "access")
    filled = {name: each.default for name, each in known.items() if name not in own} | arguments
    access = filled.pop("access", None)
    if access is not None:
        filled["chunks"], filled["shards"] = _advised_chunks(
            store,
            filled["storage_options"],
            filled["shape"],
            filled["dtype"],
            filled["dimension_names"],
            access,
            filled["chunks"],
            filled["shards"],
        )
    return new_array(store, fill=fill, **filled)


def new_array(
    store: StoreLike,
    *,
    fill: Callable[[Array], None] | None,
    name: str | None,
    shape: ShapeLike,
    dtype: npt.DTypeLike | None,
    object_codec: CodecLike | None,
    filters: CodecsLike,
    serializer: CodecLike | Literal["auto"],
    zarr_format: ZarrFormat | None,
    storage_options: Mapping[str, Any] | None,
    overwrite: bool,
    config: Any,
    **others: Any,
) -> Array:
    """Create an array, and let ``fill`` write its elements.

    Takes the arguments of `create_array`. With ``overwrite``, ``fill`` writes to an array beside
    the old one. It replaces the old one when it is complete.
    """
    zarr_format = normalize_format(zarr_format)
    dtype, filters, serializer, codec = take_object_codec(dtype, filters, serializer, object_codec)
    place, full = place_of(store, name, "a", storage_options)
    own, chunk_cache = parse_config(config), parse_cache(config)
    spec = array_spec(
        zarr_format=zarr_format,
        shape=normalize_shape(shape),
        dtype=normalize_dtype(dtype),
        filters=filters,
        serializer=serializer,
        object_codec=codec,
        **others,
    )
    if overwrite and fill is not None:
        nbytes = normalize_dtype(dtype).itemsize
        for length in spec["shape"]:
            nbytes *= length
        refuse_early_loss(place, full, nbytes, fill)
    filled = None if fill is None else lambda handle: fill(Array(handle, place, own))
    return Array(_native.create_array(place._native, full, spec, overwrite, filled), place, own, chunk_cache)


def from_array(
    store: StoreLike,
    *,
    data: Any,
    write_data: bool = True,
    name: str | None = None,
    chunks: ChunksLike | Literal["keep"] = "keep",
    shards: ShardsLike | Literal["keep"] = "keep",
    filters: CodecsLike | Literal["keep"] = "keep",
    compressors: CodecsLike | Literal["keep"] = "keep",
    serializer: CodecLike | Literal["auto", "keep"] = "keep",
    fill_value: Any = DEFAULT_FILL_VALUE,
    order: Literal["C", "F"] | None = None,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: Any = None,
    dimension_names: Iterable[str | None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    config: Any = None,
) -> Array:
    """Create an array like another one, with its values.

    Parameters
    ----------
    store, name
        As in `create_array`.
    data : array-like
        The values to copy. From a Zarr array, also zarr-python's, everything is kept that no
        argument overrides; codecs are kept only if the format stays the same. Other data are
        treated as in `create_array`.
    write_data : bool, default True
        Whether to copy the values too.
    chunks, shards, filters, compressors, serializer
        As in `create_array`. Default: as in ``data``.
    zarr_format : {2, 3}, optional
        Default: the format of ``data``, or 3 if it is not a Zarr array.
    fill_value, order, attributes, chunk_key_encoding, dimension_names
        As in `create_array`. Default: as in ``data``.
    storage_options, overwrite, config
        As in `create_array`.

    Notes
    -----
    `copy` is faster for whole arrays and groups.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.array([1, 2, 3], chunks=(2,), attributes={"unit": "m"})
    >>> like = hs.from_array(hs.MemoryStore(), data=z)
    >>> like.chunks, dict(like.attrs), like[:]
    ((2,), {'unit': 'm'}, array([1, 2, 3]))
    """
    layout: dict[str, Any] = {
        "chunks": chunks,
        "shards": shards,
        "filters": filters,
        "compressors": compressors,
        "serializer": serializer,
    }
    if is_zarr_array(data):
        zarr_format = zarr_format or data.metadata.zarr_format
        layout = layout_of(data, normalize_format(zarr_format), layout)
    else:
        kept_names = {name for name, value in layout.items() if isinstance(value, str) and value == "keep"}
        layout |= {name: None if name == "shards" else "auto" for name in kept_names}
    return create_array(
        store,
        name=name,
        data=data,
        fill_value=fill_value,
        order=order,
        zarr_format=zarr_format or 3,
        attributes=attributes,
        chunk_key_encoding=chunk_key_encoding,
        dimension_names=dimension_names,
        storage_options=storage_options,
        overwrite=overwrite,
        config=config,
        write_data=write_data,
        **layout,
    )


def with_type(data: Any, dtype: Any = None, codecs: Iterable[Any] = ()) -> Any:
    """Return data with a shape and a data type.

    ``dtype`` applies if it has variable length, or if its elements may be missing. ``codecs`` may
    say that the elements are arbitrary objects.
    """
    is_array = hasattr(data, "shape") and str(getattr(data, "dtype", None)) != "object"
    if dtype is not None and not is_array and is_optional(normalize_dtype(dtype)):
        return pack_optional(data, normalize_dtype(dtype))
    if not is_zarr_array(data) and (
        makes_objects(codecs) or (isinstance(dtype, np.dtype) and kind_of(dtype)[0] in OBJECTS)
    ):
        return np.asarray(data, dtype=object)
    if dtype is not None and kind_of(normalize_dtype(dtype))[0] is not None:
        return Ragged.of(data, normalize_dtype(dtype))
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        try:
            return Ragged.of(data)
        except DataTypeError:
            pass  # of one size, for NumPy
    if not (hasattr(data, "shape") and hasattr(data, "dtype")):
        data = np.asarray(data)
    # Object arrays hold text, bytes or arrays. `Ragged.of` looks at the objects to find out.
    return Ragged.of(data) if isinstance(data, np.ndarray) and data.dtype == object else data


def write_all(array: Array, data: Any) -> None:
    """Write all elements of an array.

    Data outside memory, if it has the array's shape, is written block by block along the first
    axis.
    """
    # Slices of pandas objects select labels, so write these objects as a whole.
    is_whole = isinstance(data, (np.ndarray, Ragged)) or hasattr(data, "iloc") or not hasattr(data, "dtype")
    if is_whole or array.ndim == 0 or tuple(getattr(data, "shape", ())) != array.shape:
        array[...] = data
        return
    row = max(array.nbytes // max(len(array), 1), 1)
    # Use whole shards or chunks, so that none is written twice, unless this takes too much memory.
    unit = array._largest_chunk[0]
    shard = array._largest_shard
    if shard is not None and shard[0] * row <= _LARGEST_BLOCK_BYTES:
        unit = shard[0]
    step = max(_BLOCK_BYTES // row // unit, 1) * unit
    for start in range(0, len(array), step):
        array[start : start + step] = data[start : start + step]
