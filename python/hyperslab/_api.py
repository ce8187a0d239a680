"""Opening and creating: the functions of `hyperslab`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._array import Array
from hyperslab._array_config import parse_cache, parse_config
from hyperslab._attrs import attributes_text
from hyperslab._cache import CacheLike, resolve_cache
from hyperslab._create import (
    DEFAULT_FILL_VALUE,
    ChunksLike,
    ShapeLike,
    ShardsLike,
    array_spec,
    normalize_dtype,
    normalize_format,
    normalize_shape,
    take_object_codec,
)
from hyperslab._group import Group, node_of
from hyperslab._like import check_apart, described, is_zarr_array, layout_of
from hyperslab._ragged import Ragged
from hyperslab._store import (
    FileStore,
    Store,
    StoreLike,
    open_root,
    refuse_file_name,
    resolve_store,
)
from hyperslab._vlen import kind_of
from hyperslab.codecs import CodecLike, CodecsLike
from hyperslab.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    DataTypeError,
    GroupNotFoundError,
    InvalidArgumentError,
    NodeNotFoundError,
    NodeTypeValidationError,
    ReadOnlyError,
    StoreExistsError,
    UnsupportedError,
)

__all__ = [
    "consolidate_metadata",
    "create_array",
    "create_group",
    "from_array",
    "group",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]
ZarrFormat: TypeAlias = Literal[2, 3]

_MODES = ("r", "r+", "a", "w", "w-")
# Those in which a node that is there is opened.
_KEEPING = (None, "r", "r+", "a")
# Those in which what is missing is created.
_CREATING = ("a", "w", "w-")
# What an `open…` function does with a node that is there; its other arguments are for a new one.
_FOR_OPENING = ("config", "use_consolidated")
# Data that is not in memory is copied in blocks of about so many bytes.
_BLOCK_BYTES = 64 << 20
_LARGEST_BLOCK_BYTES = 512 << 20


def _place(
    store: Any, path: str | None, mode: Mode | None, storage_options: object = None
) -> tuple[Store, str, Mode | None]:
    """Store, path and mode of the arguments of an ``open…`` function."""
    if mode is not None and mode not in _MODES:
        raise InvalidArgumentError(f"Invalid mode: {mode}, expected one of {_MODES}")
    found, base = resolve_store(store, storage_options)
    if mode in _CREATING:
        refuse_file_name(store, found)
    if isinstance(found, FileStore) and mode not in (None, "r"):
        raise UnsupportedError(
            f"{found.url}: {found._native.file_format} files are read only so far; "
            f"mode is {mode!r} instead of 'r'"
        )
    if found.read_only:
        if mode not in (None, "r"):
            raise ReadOnlyError(
                f"Store is read-only but mode is {mode!r}. Create a writable store or use 'r' mode."
            )
        mode = "r"
    elif mode == "r":
        found = found.with_read_only(True)
    if not base and not path:
        return found, "", mode
    parts = [part for part in f"{base}/{path or ''}".split("/") if part]
    return found, "/".join(parts), mode


def must_be_empty(store: StoreLike | None, path: str | None) -> None:
    """Refuses a place where anything is."""
    place, full, _ = _place(store, path, "a")
    _must_be_empty(place, full)


def _must_be_empty(store: Store, path: str) -> None:
    if not store._native.is_empty(path):
        raise StoreExistsError(
            f"Cannot create '{path}' in {store.url} with mode 'w-' because it already contains data. "
            "Use mode 'w' to overwrite or 'a' to append."
        )


def _missing(found: NodeNotFoundError, store: Store, path: str, mode: Mode | None, what: str) -> str:
    """What to tell where nothing is there: what was looked for, and how it is created."""
    kinds = {"array": "no array", "group": "no group", "node": "no array or group"}
    where = f"'{path}' in {store.url}" if path else store.url
    message = f"there is {kinds[what]} at {where}"
    if isinstance(store, FileStore):
        return str(found)
    if mode == "r" or store.read_only:
        return message
    create = "create_array or create_group" if what == "node" else f"create_{what}"
    return f"{message}; to create one, pass mode='a' (or 'w-', 'w'), or use {create}"


def _only_for_new(mode: Mode | None, given: Mapping[str, Any]) -> None:
    """Refuses arguments of a new node where one that is there was opened, and only that could happen."""
    named = [name for name, value in given.items() if name not in _FOR_OPENING and value is not None]
    if mode != "a" and named:
        raise InvalidArgumentError(
            f"{named[0]}: an argument of a new array or group, but mode {mode!r} opens what is there; "
            "pass mode='a', 'w' or 'w-'"
        )


def _check_keywords(function: str, given: Mapping[str, Any]) -> None:
    """Refuses keywords that mean nothing: of a node that exists they would be ignored, and so would a
    mistyped ``mode``.
    """
    if not given:
        return
    from hyperslab import _convenience

    known: set[str] = set()
    for called in (create_array, open_group, _convenience.create):
        known |= set(inspect.signature(called).parameters)
    unknown = sorted(set(given) - known)
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")


def open(
    store: StoreLike | None = None,
    *,
    mode: Mode | None = None,
    zarr_format: ZarrFormat | None = None,
    path: str | None = None,
    storage_options: None = None,
    cache: CacheLike | None = None,
    **kwargs: Any,
) -> Array | Group:
    """Open an array or group, whichever is stored.

    Parameters
    ----------
    store : str, os.PathLike, LocalStore or MemoryStore, optional
        A path, a ``file://`` URL or a store. ``None``: a new `MemoryStore`. A path may lead to a directory of
        Zarr, to a file of HDF5 or NetCDF, or to a node in either (``"ocean.h5/forcing/wind"``).
    mode : {"r", "r+", "a", "w", "w-"}, optional
        ``r``: read only; ``r+``: read and write, must exist; ``a``: create where missing; ``w``: create,
        deleting what is there; ``w-``: create, must not exist. Default: as ``r+``, or ``r`` where the store
        is read-only. So nothing is created without being asked for (in zarr-python the default is ``a``);
        only without a ``store`` the default is ``a``. Files of HDF5 and NetCDF are read only so far: ``r``.
    zarr_format : {2, 3}, optional
        Only this format; by default the one that is stored.
    path : str, optional
        The path of the node in the store.
    cache : Cache, int or str, optional
        Where decoded chunks are kept, for reading small parts of them again and again: a `Cache`, or the size
        of a new one, ``"64 MiB"``. Arrays of a group share the group's. Default: nowhere.
    **kwargs
        Arguments of `create` for a new array (``shape`` among them), of `open_group` for a new group; also
        ``config`` of an array.

    Raises
    ------
    NodeNotFoundError
        Where nothing is stored (a ``FileNotFoundError``).
    InvalidArgumentError
        For a new node under a name that ends as those of files do: ``.h5``, ``.hdf5``, ``.he5``, ``.nc``,
        ``.nc4``, ``.cdf``. (`LocalStore` takes any name.)

    Examples
    --------
    >>> import hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> z = hs.create_array(store, name="a", shape=(3,), dtype="i2")
    >>> hs.open(store, mode="r")["a"].dtype
    dtype('int16')
    """
    _check_keywords("open", kwargs)
    mode = _default_mode(store, mode)
    if not (path or kwargs) and storage_options is None and mode in _KEEPING:
        found = open_root(store, mode == "r", zarr_format)
        if found is not None:
            return node_of(found[1], found[0], resolve_cache(cache))
    place, full, mode = _place(store, path, mode, storage_options)
    if mode in _CREATING and ("shape" in kwargs or "data" in kwargs):
        return open_array(place, path=full, mode=mode, zarr_format=zarr_format, cache=cache, **kwargs)
    config, use_consolidated = kwargs.get("config"), kwargs.get("use_consolidated")
    if mode in _KEEPING:
        try:
            handle = _native.open_node(place._native, full, zarr_format, use_consolidated)
        except NodeNotFoundError as error:
            if mode != "a" or use_consolidated:
                raise type(error)(_missing(error, place, full, mode, "node")) from error
        else:
            _only_for_new(mode, kwargs)
            return _opened(handle, place, cache, config)
    if config is not None:
        raise TypeError("config: groups have no settings; a new array needs a shape")
    return open_group(place, path=full, mode=mode, zarr_format=zarr_format, cache=cache, **kwargs)


def _default_mode(store: Any, mode: Mode | None) -> Mode | None:
    """``a`` where there is no store: nothing is in a new one, and no name can be mistyped."""
    return "a" if store is None and mode is None else mode


def _opened(
    handle: _native.ArrayHandle | _native.GroupHandle, place: Store, cache: CacheLike | None, config: Any
) -> Array | Group:
    """The node that was found, with the settings that the caller wants."""
    if isinstance(handle, _native.ArrayHandle):
        kept, own = parse_cache(config, given=cache), parse_config(config)
        if config is not None and place._native.is_file:
            return cast(Array, node_of(handle, place, kept)).with_config(config)
        return node_of(handle, place, kept, own)
    if config is not None:
        raise TypeError("config: groups have no settings, and there is a group")
    return node_of(handle, place, resolve_cache(cache))


def open_array(
    store: StoreLike | None = None,
    *,
    zarr_format: ZarrFormat | None = None,
    path: str = "",
    storage_options: None = None,
    config: Any = None,
    mode: Mode | None = None,
    cache: CacheLike | None = None,
    **kwargs: Any,
) -> Array:
    """Open an array, or create one.

    Parameters
    ----------
    store, mode, zarr_format, path, cache
        As in `open`.
    config : mapping, optional
        Settings of this array, as in `Array.with_config`: ``{"order": "F", "cache": "64 MiB"}``.
    **kwargs
        Arguments of `create` for a new array (modes ``a``, ``w``, ``w-``).

    Raises
    ------
    ArrayNotFoundError
        Where there is no array (a ``FileNotFoundError``).
    NodeTypeValidationError
        Where there is a group.

    Examples
    --------
    >>> import hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> hs.open_array(store, mode="w", shape=(3,), dtype="i4").shape
    (3,)
    """
    _check_keywords("open_array", kwargs)
    if "use_consolidated" in kwargs:
        raise TypeError("open_array() got an unexpected keyword argument 'use_consolidated'")
    mode = _default_mode(store, mode)
    if not (path or kwargs) and storage_options is None and mode in _KEEPING:
        found = open_root(store, mode == "r", zarr_format)
        if found is not None and isinstance(found[1], _native.ArrayHandle):
            return cast(Array, _opened(found[1], found[0], cache, config))
    place, full, mode = _place(store, path, mode, storage_options)
    if mode == "w-":
        _must_be_empty(place, full)
    elif mode != "w":
        try:
            handle = _native.open_node(place._native, full, zarr_format)
        except NodeNotFoundError as error:
            if mode != "a":
                raise ArrayNotFoundError(_missing(error, place, full, mode, "array")) from error
        else:
            if not isinstance(handle, _native.ArrayHandle):
                raise NodeTypeValidationError(f"'{full}' in {place.url} is a group where an array is wanted")
            _only_for_new(mode, kwargs)
            return cast(Array, _opened(handle, place, cache, config))
    from hyperslab._convenience import create

    kept = parse_cache(config, given=cache)
    created = create(
        store=place, path=full, overwrite=mode == "w", zarr_format=zarr_format, config=config, **kwargs
    )
    return created if kept is None else created.with_config({"cache": kept})


def open_group(
    store: StoreLike | None = None,
    *,
    mode: Mode | None = None,
    path: str | None = None,
    storage_options: None = None,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    cache: CacheLike | None = None,
) -> Group:
    """Open a group, or create one.

    Parameters
    ----------
    store, mode, zarr_format, path, cache
        As in `open`.
    attributes : mapping, optional
        Attributes of a new group.
    use_consolidated : bool, optional
        ``True``: only with consolidated metadata; ``False``: without; by default, if there is any.

    Raises
    ------
    GroupNotFoundError
        Where there is no group (a ``FileNotFoundError``).
    ContainsArrayError
        Where there is an array.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.open_group(hs.MemoryStore(), mode="w", attributes={"title": "ocean"})
    >>> dict(g.attrs)
    {'title': 'ocean'}
    """
    place, full, mode = _place(store, path, _default_mode(store, mode), storage_options)
    kept = resolve_cache(cache)
    if use_consolidated and mode in ("w", "w-"):
        raise InvalidArgumentError(f"use_consolidated: mode {mode!r} makes a new group, which has none")
    if mode == "w-":
        _must_be_empty(place, full)
    elif mode != "w":
        try:
            handle = _native.open_node(place._native, full, zarr_format, use_consolidated)
        except NodeNotFoundError as error:
            if mode != "a" or use_consolidated:
                why = str(error) if use_consolidated else _missing(error, place, full, mode, "group")
                raise GroupNotFoundError(why) from error
        else:
            if not isinstance(handle, _native.GroupHandle):
                raise ContainsArrayError(f"'{full}' in {place.url} is an array where a group is wanted")
            _only_for_new(mode, {"attributes": attributes})
            return cast(Group, node_of(handle, place, kept))
    created = create_group(
        place, path=full, overwrite=mode == "w", zarr_format=zarr_format, attributes=attributes
    )
    return created if kept is None else Group(created._handle, place, kept)


def open_consolidated(store: StoreLike, **kwargs: Any) -> Group:
    """`open_group` with ``use_consolidated=True``."""
    if kwargs.pop("use_consolidated", True) is not True:
        raise InvalidArgumentError("use_consolidated: open_consolidated opens with consolidated metadata")
    return open_group(store, use_consolidated=True, **kwargs)


def consolidate_metadata(
    store: StoreLike, path: str | None = None, zarr_format: ZarrFormat | None = None
) -> Group:
    """Store the metadata of all nodes below a group with it, so that opening the hierarchy needs one read.

    Parameters
    ----------
    store, path, zarr_format
        As in `open`.

    Returns
    -------
    Group
        The group, with its consolidated metadata.

    Examples
    --------
    >>> import hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> z = hs.create_group(store).create_array("a", shape=(3,), dtype="i4")
    >>> list(hs.consolidate_metadata(store))
    ['a']
    """
    return open_group(
        store, path=path, zarr_format=zarr_format, mode="r+", use_consolidated=False
    ).consolidate()


def create_group(
    store: StoreLike,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
    attributes: Mapping[str, Any] | None = None,
    storage_options: None = None,
) -> Group:
    """Create a group, and missing groups above it.

    Parameters
    ----------
    store : str, os.PathLike, LocalStore or MemoryStore
        A path, a ``file://`` URL or a store.
    path : str, optional
        The path of the group in the store.
    zarr_format : {2, 3}, optional
        Default: ``hyperslab.config.default_zarr_format``.
    overwrite : bool, default False
        Whether it takes the place of what is there, which stays until the new one is there.
    attributes : mapping, optional

    Raises
    ------
    ContainsArrayError, ContainsGroupError
        Where something is there and ``overwrite`` is false.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.create_group(hs.MemoryStore(), attributes={"title": "ocean"})
    >>> len(g)
    0
    """
    place, full, _ = _place(store, path, "a", storage_options)
    handle = _native.create_group(
        place._native, full, normalize_format(zarr_format), attributes_text(attributes), overwrite
    )
    return Group(handle, place)


def group(
    store: StoreLike | None = None,
    *,
    overwrite: bool = False,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Group:
    """`open_group` with mode ``a``, or ``w`` with ``overwrite``."""
    return open_group(
        store, mode="w" if overwrite else "a", path=path, zarr_format=zarr_format, attributes=attributes
    )


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
    storage_options: None = None,
    overwrite: bool = False,
    config: Any = None,
    write_data: bool = True,
) -> Array:
    """Create an array, and missing groups above it.

    Parameters
    ----------
    store : str, os.PathLike, LocalStore or MemoryStore
        A path, a ``file://`` URL or a store.
    name : str, optional
        The path of the array in the store.
    shape : int or sequence of int
        Elements per axis.
    dtype : data type
        Anything that NumPy makes a data type of: bool, integers, floats, complex numbers, ``S``, ``U``,
        ``V``, dates and time differences. Of variable length: `str`, ``"T"``, ``StringDType()`` or
        ``"string"`` (text); `bytes` or ``"variable_length_bytes"``; `hyperslab.vlen_dtype` (arrays, only in
        Zarr v2), and h5py's types of the kind.
    data : array-like, optional
        Gives shape and data type, and is written. Also all that `Ragged.of` takes, where it is a `Ragged`, of
        Arrow, or an array of objects. A Zarr array, also zarr-python's, gives fill value, attributes and
        dimension names too (and in Zarr v2 the order); chunks and codecs are kept by `from_array`.
    chunks : int, sequence of int or "auto", default "auto"
        Elements of a chunk per axis; -1: the whole axis; ``False``: one chunk.
    shards : int, sequence of int, "auto" or None, default None
        Elements of a shard per axis, multiples of the chunks; -1: the whole axis. Chunks of a shard lie in
        one object, and are read and replaced one by one. With ``chunks="auto"`` chunks are chosen that divide
        the shards; ``"auto"``: shards of up to 64 MiB. As in zarr-python also a dictionary of ``shape`` and
        ``index_location``. ``None``: each chunk is an object. Not in Zarr v2.
    filters : codecs, default "auto"
        Codecs from array to array (`hyperslab.codecs.Transpose`). Auto: none.
    compressors : codecs, default "auto"
        A codec or a list of codecs of `hyperslab.codecs`, zarr-python or numcodecs, or metadata; ``None``:
        none. Auto: `Zstd`.
    serializer : codec, default "auto"
        `hyperslab.codecs.Bytes`, for stored elements in another byte order; `hyperslab.codecs.Sharding`, for
        shards within shards or with an index in other codecs. Auto: `Bytes`.
    object_codec : codec, optional
        For data type `object`: what the objects are, as zarr-python 2 says it (``numcodecs.VLenUTF8()``,
        ``VLenBytes()``, ``VLenArray("<i4")``). It may be the first of the filters, too.
    fill_value : scalar, optional
        What elements never written hold. Default: zero, the empty string, not-a-time. ``None`` in Zarr v2:
        ``null``.
    order : {"C", "F"}, optional
        Order of elements in stored chunks. In Zarr v3, ``"F"`` is a transpose codec.
    zarr_format : {2, 3} or None, default 3
        ``None``: ``hyperslab.config.default_zarr_format``.
    attributes : mapping, optional
        The user's attributes.
    chunk_key_encoding : optional
        ``("default", "/")``, ``("v2", ".")``, or metadata: how chunks are named. In Zarr v2 the separator
        alone counts.
    dimension_names : sequence of str or None, optional
        Names of the axes. In Zarr v2 they are stored as xarray does, in the attribute ``_ARRAY_DIMENSIONS``.
    overwrite : bool, default False
        Whether it takes the place of what is there, which stays until the new one is there.
    config : mapping, optional
        Settings of this array object, as in `Array.with_config`: ``{"order": "F", "cache": "64 MiB"}``.
    write_data : bool, default True
        Whether ``data`` is written.

    Returns
    -------
    Array

    Raises
    ------
    ContainsArrayError, ContainsGroupError
        Where something is there and ``overwrite`` is false.
    DataTypeError
        For element types that are not supported.
    InvalidArgumentError, UnsupportedError
        For arguments that no array can have, and for what is missing here.

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
        data = with_type(data)
        shape, dtype = data.shape, data.dtype
    zarr_format = normalize_format(zarr_format)
    dtype, filters, serializer = take_object_codec(dtype, filters, serializer, object_codec)
    place, full, _ = _place(store, name, "a", storage_options)
    described_by = {
        "fill_value": fill_value,
        "order": order,
        "attributes": attributes,
        "chunk_key_encoding": chunk_key_encoding,
        "dimension_names": dimension_names,
    }
    if is_zarr_array(data):
        described_by = described(data, zarr_format, described_by)
        if overwrite and write_data:
            check_apart(data, place, full)
    own, kept = parse_config(config), parse_cache(config)
    spec = array_spec(
        zarr_format=zarr_format,
        shape=normalize_shape(cast(ShapeLike, shape)),
        dtype=normalize_dtype(dtype),
        chunks=chunks,
        shards=shards,
        filters=filters,
        compressors=compressors,
        serializer=serializer,
        **described_by,
    )
    handle = _native.create_array(place._native, full, spec, overwrite)
    array = Array(handle, place, own, kept)
    if data is not None and write_data:
        write_blocks(array, data)
    return array


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
    storage_options: None = None,
    overwrite: bool = False,
    config: Any = None,
) -> Array:
    """Create an array like another one, with its values.

    Parameters
    ----------
    data : array-like
        What to copy. Of a Zarr array, also zarr-python's, everything is kept that no argument says otherwise;
        its codecs only where the format stays. Of other data, as in `create_array`.
    write_data : bool, default True
        Whether the values are copied, too.
    zarr_format : {2, 3}, optional
        Default: that of ``data``, 3 of other data.

    Notes
    -----
    All other arguments are those of `create_array`. `copy` is faster for whole arrays and groups.

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
        kept = {name for name, value in layout.items() if isinstance(value, str) and value == "keep"}
        layout |= {name: None if name == "shards" else "auto" for name in kept}
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


def with_type(data: Any, dtype: Any = None) -> Any:
    """Data with a shape and a data type: this one, if that is of variable length."""
    if dtype is not None and kind_of(normalize_dtype(dtype))[0] is not None:
        return Ragged.of(data, normalize_dtype(dtype))
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        try:
            return Ragged.of(data)
        except DataTypeError:
            pass  # of one size, for NumPy
    if not (hasattr(data, "shape") and hasattr(data, "dtype")):
        data = np.asarray(data)
    # Objects are text, bytes or arrays; looking at them tells.
    return Ragged.of(data) if isinstance(data, np.ndarray) and data.dtype == object else data


def write_blocks(array: Array, data: Any) -> None:
    """Write an array's worth of data, which need not be in memory: block by block along the first axis."""
    if isinstance(data, (np.ndarray, Ragged)) or array.ndim == 0:
        array[...] = data
        return
    row = max(array.nbytes // max(len(array), 1), 1)
    # Whole shards, or chunks, so that none is written twice; but not at any cost in memory.
    unit = array.chunks[0]
    if array.shards is not None and array.shards[0] * row <= _LARGEST_BLOCK_BYTES:
        unit = array.shards[0]
    step = max(_BLOCK_BYTES // row // unit, 1) * unit
    for start in range(0, len(array), step):
        array[start : start + step] = data[start : start + step]
