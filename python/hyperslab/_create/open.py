"""Opening nodes: `open` and related functions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, cast

from hyperslab import _native
from hyperslab._base.unused_arguments import warn_unused
from hyperslab._core.array import Array
from hyperslab._core.array_config import parse_cache, parse_config
from hyperslab._core.cache import CacheLike, resolve_cache
from hyperslab._core.group import Group, node_of
from hyperslab._create.new import create_array, create_group
from hyperslab._create.place import CREATING, KEEPING, Mode, ZarrFormat, open_place, place_of
from hyperslab._stores.store import Store, StoreLike
from hyperslab.errors import InvalidArgumentError

__all__ = [
    "consolidate_metadata",
    "group",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
]

# Arguments of `open…` functions for existing nodes. All others are for new nodes.
_FOR_OPENING = ("use_consolidated",)


def _only_for_new(mode: Mode | None, given: Mapping[str, Any]) -> None:
    """Refuse arguments of a new node if the mode only opens existing nodes."""
    named = [name for name, value in given.items() if name not in _FOR_OPENING and value is not None]
    if mode != "a" and named:
        raise InvalidArgumentError(
            f"{named[0]}: an argument of a new array or group, but mode {mode!r} opens what is there; "
            "pass mode='a', 'w' or 'w-'"
        )


def _check_keywords(function: str, given: Mapping[str, Any]) -> None:
    """Refuse unknown keywords.

    Otherwise they would be ignored for an existing node, and so would a mistyped ``mode``.
    """
    if not given:
        return
    from hyperslab._create.convenience import create

    known: set[str] = set()
    for called in (create_array, open_group, create):
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
    storage_options: Mapping[str, Any] | None = None,
    config: Any = None,
    cache: CacheLike | None = None,
    **kwargs: Any,
) -> Array | Group:
    """Open the array or group that is stored at a place.

    Parameters
    ----------
    store : StoreLike, optional
        A path, a URL, a store, a mapping that holds objects, or a file object that reads HDF5 or
        NetCDF. ``None``: a new `MemoryStore`. A path may lead to a Zarr directory, to an HDF5 or
        NetCDF file, or to a node in either (``"ocean.h5/forcing/wind"``).
    mode : {"r", "r+", "a", "w", "w-"}, optional
        ``r``: read only. ``r+``: read and write, must exist. ``a``: create if missing. ``w``:
        create, deleting an existing node. ``w-``: create, must not exist. Default: ``r+``, or ``r``
        if the store is read-only. By default, nothing is created, unlike in zarr-python, where the
        default is ``a``. Without a ``store``, or with a mapping as store, the default is ``a`` here
        too. HDF5 and NetCDF files can only be read so far: ``r``.
    zarr_format : {2, 3}, optional
        Open only this format. Default: the stored format.
    path : str, optional
        The path of the node in the store.
    storage_options : mapping, optional
        Server options, if ``store`` is the URL of a server: see `hyperslab.storage.RemoteStore`.
    cache : Cache, int or str, optional
        A cache of decoded chunks, for repeated reads of small parts: a `Cache`, or the size of a
        new one, ``"64 MiB"``. Arrays of a group share the group's cache. Default: no cache.
    config : mapping, optional
        Settings of an array, as in `Array.with_config`.
    **kwargs
        Arguments of `create` for a new array (including ``shape``), or of `open_group` for a new
        group.

    Raises
    ------
    NodeNotFoundError
        If there is no node (a ``FileNotFoundError``).
    InvalidArgumentError
        For a new node with the name extension of a file: ``.h5``, ``.hdf5``, ``.he5``, ``.nc``,
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
    if mode in CREATING and ("shape" in kwargs or "data" in kwargs):
        return open_array(
            store,
            path=path or "",
            mode=mode,
            zarr_format=zarr_format,
            storage_options=storage_options,
            config=config,
            cache=cache,
            **kwargs,
        )
    if mode in KEEPING:
        use_consolidated = kwargs.get("use_consolidated")
        place, full, handle = open_place(
            store, path, mode, storage_options, zarr_format, None, use_consolidated
        )
        if handle is not None:
            if kwargs:
                _only_for_new(mode, kwargs)
            return _opened(handle, place, cache, config)
    else:
        place, full = place_of(store, path, mode, storage_options)
    if config is not None:
        raise TypeError("config: groups have no settings; a new array needs a shape")
    return open_group(place, path=full, mode=mode, zarr_format=zarr_format, cache=cache, **kwargs)


def _default_mode(store: Any, mode: Mode | None) -> Mode | None:
    """Return mode ``a`` without a store or with a mapping as store: there is no name to mistype."""
    return "a" if mode is None and (store is None or isinstance(store, MutableMapping)) else mode


def _opened(
    handle: _native.ArrayHandle | _native.GroupHandle, place: Store, cache: CacheLike | None, config: Any
) -> Array | Group:
    """Return the node that was found, with the settings that the caller wants."""
    if isinstance(handle, _native.ArrayHandle):
        chunk_cache, own = parse_cache(config, given=cache), parse_config(config)
        if config is not None and place._native.is_file:
            return cast(Array, node_of(handle, place, chunk_cache)).with_config(config)
        return node_of(handle, place, chunk_cache, own)
    if config is not None:
        raise TypeError("config: groups have no settings, and there is a group")
    return node_of(handle, place, resolve_cache(cache))


def open_array(
    store: StoreLike | None = None,
    *,
    zarr_format: ZarrFormat | None = None,
    path: str = "",
    storage_options: Mapping[str, Any] | None = None,
    config: Any = None,
    mode: Mode | None = None,
    cache: CacheLike | None = None,
    **kwargs: Any,
) -> Array:
    """Open an array, or create one.

    Parameters
    ----------
    store, mode, zarr_format, path, storage_options, cache
        As in `open`.
    config : mapping, optional
        Settings of this array, as in `Array.with_config`: ``{"order": "F", "cache": "64 MiB"}``.
    **kwargs
        Arguments of `create` for a new array (modes ``a``, ``w``, ``w-``).

    Raises
    ------
    ArrayNotFoundError
        If there is no array (a ``FileNotFoundError``).
    NodeTypeValidationError
        If there is a group.

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
    place, full, handle = open_place(store, path, mode, storage_options, zarr_format, "array")
    if handle is not None:
        if kwargs:
            _only_for_new(mode, kwargs)
        return cast(Array, _opened(handle, place, cache, config))
    from hyperslab._create.convenience import create

    chunk_cache = parse_cache(config, given=cache)
    created = create(
        store=place, path=full, overwrite=mode == "w", zarr_format=zarr_format, config=config, **kwargs
    )
    return created if chunk_cache is None else created.with_config({"cache": chunk_cache})


def open_group(
    store: StoreLike | None = None,
    *,
    mode: Mode | None = None,
    cache_attrs: bool | None = None,
    synchronizer: Any = None,
    path: str | None = None,
    chunk_store: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: ZarrFormat | None = None,
    meta_array: Any = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    cache: CacheLike | None = None,
) -> Group:
    """Open a group, or create one.

    Parameters
    ----------
    store, mode, zarr_format, path, storage_options, cache
        As in `open`.
    attributes : mapping, optional
        Attributes of a new group.
    use_consolidated : bool, optional
        ``True``: require consolidated metadata; ``False``: ignore it. Default: use it if there is
        any.
    cache_attrs, synchronizer, chunk_store, meta_array
        Arguments of zarr-python. They only produce a warning, as in zarr-python.

    Raises
    ------
    GroupNotFoundError
        If there is no group (a ``FileNotFoundError``).
    ContainsArrayError
        If there is an array.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.open_group(hs.MemoryStore(), mode="w", attributes={"title": "ocean"})
    >>> dict(g.attrs)
    {'title': 'ocean'}
    """
    if not (cache_attrs is synchronizer is chunk_store is meta_array is None):
        warn_unused(
            cache_attrs=cache_attrs, synchronizer=synchronizer, chunk_store=chunk_store, meta_array=meta_array
        )
    if mode is None:
        mode = _default_mode(store, None)
    if use_consolidated and mode in ("w", "w-"):
        raise InvalidArgumentError(f"use_consolidated: mode {mode!r} makes a new group, which has none")
    place, full, handle = open_place(
        store, path, mode, storage_options, zarr_format, "group", use_consolidated
    )
    chunk_cache = None if cache is None else resolve_cache(cache)
    if handle is not None:
        if attributes is not None:
            _only_for_new(mode, {"attributes": attributes})
        return cast(Group, node_of(handle, place, chunk_cache))
    created = create_group(
        place, path=full, overwrite=mode == "w", zarr_format=zarr_format, attributes=attributes
    )
    return created if chunk_cache is None else Group(created._handle, place, chunk_cache)


def open_consolidated(store: StoreLike, *, use_consolidated: Literal[True] = True, **kwargs: Any) -> Group:
    """Same as `open_group` with ``use_consolidated=True``."""
    if use_consolidated is not True:
        raise InvalidArgumentError("use_consolidated: open_consolidated opens with consolidated metadata")
    return open_group(store, use_consolidated=True, **kwargs)


def consolidate_metadata(
    store: StoreLike, path: str | None = None, zarr_format: ZarrFormat | None = None
) -> Group:
    """Store the metadata of all nodes below a group with the group.

    Opening the hierarchy then needs one read.

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


def group(
    store: StoreLike | None = None,
    *,
    overwrite: bool = False,
    chunk_store: Any = None,
    cache_attrs: bool | None = None,
    synchronizer: Any = None,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    meta_array: Any = None,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Same as `open_group` with mode ``a``, or ``w`` with ``overwrite``."""
    warn_unused(
        cache_attrs=cache_attrs, synchronizer=synchronizer, chunk_store=chunk_store, meta_array=meta_array
    )
    return open_group(
        store,
        mode="w" if overwrite else "a",
        path=path,
        zarr_format=zarr_format,
        attributes=attributes,
        storage_options=storage_options,
    )
