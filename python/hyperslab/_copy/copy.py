"""Copies of arrays and hierarchies."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from hyperslab import _native
from hyperslab._base.config import config, parse_size
from hyperslab._base.progress import show_progress
from hyperslab._copy.joined import Joined, join, places_of, variable_names
from hyperslab._core.arguments import CopyRegion, CopySpec, normalize_format
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create.open import open
from hyperslab._stores.store import LocalStore, Store, StoreLike, resolve_store
from hyperslab.codecs import CodecsLike, codecs_metadata
from hyperslab.errors import InvalidArgumentError, ReadOnlyError

__all__ = ["CopyReport", "RegionLike", "check_into", "copy", "copy_region", "existing_target", "wanted_copy"]

Progress: TypeAlias = Callable[[Literal["copy", "verify"], int, int], object]
RegionLike: TypeAlias = "slice | tuple[slice, ...] | Mapping[str, slice]"


@dataclass(frozen=True)
class CopyReport:
    """The result of a copy."""

    groups: int
    """Number of groups."""
    arrays: int
    """Number of arrays."""
    bytes: int
    """Bytes of all elements in memory."""
    stored_before: int
    """Bytes of the source's chunks; 0 if the store cannot list them, like web servers."""
    stored_after: int
    """Bytes of the copy's chunks."""
    seconds: float
    """Time taken by copying."""
    seconds_verified: float | None
    """Time taken by verification; ``None`` if the copy was not verified."""
    notes: tuple[str, ...]
    """Differences from the source that the caller did not ask for."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Paths of nodes that could not be copied, each with the reason."""


def copy(
    source: Array | Group | StoreLike | Iterable[Array | Group | StoreLike],
    dest: Array | Group | StoreLike,
    name: str | None = None,
    *,
    concat: str | None = None,
    sort: bool = False,
    split: Mapping[str, int] | None = None,
    variables: Iterable[str] | None = None,
    region: RegionLike | None = None,
    target_region: RegionLike | None = None,
    chunks: Iterable[int | None] | Mapping[str, int | None] | None = None,
    shards: Iterable[int | None] | Literal["keep", "auto"] | None = "keep",
    compressors: CodecsLike | str = "keep",
    order: Literal["C", "F"] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    file_format: str | None = None,
    threads: int | None = None,
    max_memory: int | str = "256 MiB",
    verify: bool = False,
    skip_unsupported: bool = False,
    consolidated: bool = True,
    overwrite: bool = False,
    libver: Literal["earliest", "v110"] = "earliest",
    layout: Literal["plain", "cloud"] = "plain",
    progress: Progress | bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CopyReport:
    """Copy an array or a group, optionally with other chunks, codecs, order or format.

    A group is copied with everything below it. A destination path or URL that ends in ``.h5``,
    ``.hdf5`` or ``.he5`` becomes an HDF5 file, one that ends in ``.nc`` or ``.nc4`` a NetCDF-4 file,
    any other destination Zarr. A file on a server appears in one step, when the copy is complete.

    A destination on disk is either complete or, after an error, Ctrl-C or a kill, as it was before.
    With ``overwrite``, the finished copy replaces the old node in one step: the destination is
    never missing or half-written. (Readers that opened the old node find the chunks of the new one
    from then on.) The cost depends only on stored chunks. If one of 10⁹ chunks is stored, one is
    copied.
    Parameters
    ----------
    source : Array, Group, or store
        The node to copy, or a path, a ``file://`` URL or a store. With ``concat``: a list of these,
        or a pattern of paths (``"ocean-*.nc"``).
    dest : Group, store, or Array
        The destination: a path, a ``file://`` URL, a store or a group. With ``target_region``, an
        existing array.
    name : str, optional
        Name of the copy in a group or store.
    concat : str, optional
        The dimension along which to join many sources, of any formats. Variables with the dimension
        must have the same elements, other axes, packing, fill value and units in all sources.
        Variables without it must be equal. Attributes come from the first source. At most 32
        sources are open at a time.
    sort : bool, default False
        Whether to join in the order of the first value of the dimension's coordinate. Otherwise the
        sources keep the order of the list, or of the names that match a pattern.
    split : mapping of a name to int, optional
        A dimension, and a number of steps: ``{"time": 365}`` makes a copy of every 365 steps. ``dest``
        is a pattern: ``{}`` becomes the number of the copy, ``{start}`` and ``{stop}`` its range. Each
        copy is complete, or absent. The report is about all copies.
    variables : list of str, optional
        The variables to copy, with the coordinates, bounds and grid mappings that they name.
    region : slice, tuple of slices, or mapping of names to slices, optional
        The part of an array to copy, in elements: ``np.s_[0:10, :50]``. For arrays and groups also
        by dimension name: ``{"time": slice(0, 10)}``. Arrays without that dimension are copied
        whole. The copy has the shape of the region, and its chunks begin where the region begins.
    target_region : slice, tuple of slices, or mapping of names to slices, optional
        The part of an existing array to copy to. Its shape must be the shape of the copied
        elements. The array keeps its chunks and codecs, so do not pass any. The region must begin
        and end at chunk (or shard) boundaries or at the array's end, because others may be writing
        the rest of a chunk. After an error, some chunks are new and the others are unchanged.
    chunks : sequence of int or None, or mapping, optional
        Chunk shape for arrays with this number of axes (``None`` or -1: the whole axis). Other
        arrays keep their chunks. Or lengths by dimension: ``{"time": 24}``. Along other dimensions,
        and in coordinates, chunks stay.
    shards : sequence of int or None, "keep", "auto" or None, default "keep"
        Shard shape for arrays with this number of axes, in multiples of their chunks (``None`` or
        -1: the whole axis). ``"auto"``: chosen by size. ``None``: each chunk is its own object.
    compressors : codecs, default "keep"
        As in `create_array`, or as text: ``"zstd:5"``, ``"blosc:lz4"``.
    order : {"C", "F"}, optional
        Order of elements in stored chunks. Default: as in the source.
    zarr_format : {2, 3}, optional
        Default: the format of the destination group, otherwise ``config.default_zarr_format``.
    file_format : str, optional
        Format of a copy that becomes one file, whatever its name: ``"hdf5"``, ``"netcdf4"``,
        ``"netcdf3"``, ``"netcdf3_64bit_offset"``, ``"netcdf3_64bit_data"``, or one of xarray's names
        (``"NETCDF4"``). Default: by the ending of the name.
    threads : int, optional
        Default: ``config.threads``.
    max_memory : int or str, default "256 MiB"
        Approximate memory to use.
    verify : bool, default False
        Whether to read the copy back and compare every bit.
    skip_unsupported : bool, default False
        Whether to leave out arrays that Zarr cannot hold (such as HDF5 compound elements) and
        arrays that cannot be read, and list them in the report. If false, the first such array is
        an error, before anything is written.
    consolidated : bool, default True
        Whether to give the copy of a group consolidated metadata: one document for all nodes below
        it, which saves requests to remote stores. Groups above the copy that have consolidated
        metadata are always updated, also with ``False``.
    overwrite : bool, default False
        Whether to replace an array or group at a destination on disk or on a server. On a server,
        the old metadata is deleted first if there is more than 64 MiB of new data.
    libver : {"earliest", "v110"}, default "earliest"
        Structures of a new HDF5 file, as in h5py: the oldest possible ones, or structures of HDF5 1.10.
    layout : {"plain", "cloud"}, default "plain"
        Order of the parts of a new HDF5 file. ``"cloud"``: all metadata in front, in pages, and then
        the chunks in the order of their arrays. Readers far away open such a file with few requests.
        The file is written twice on the local disk.
    progress : callable, or True, optional
        Called as ``progress("copy" or "verify", bytes_done, bytes_in_all)``. ``True`` shows a bar
        on standard error.
    storage_options : mapping, optional
        Server options for ``source`` and ``dest`` if they are URLs of a server (see `open`). If the
        two servers need different options, open the source first.

    Returns
    -------
    CopyReport

    Raises
    ------
    DestinationError
        If something already exists at the destination (a ``FileExistsError``), or it cannot be
        copied to.
    VerificationError
        If verification finds a different value.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g = hs.create_group(hs.MemoryStore())
    >>> g["a"] = [1, 2, 3]
    >>> copied = hs.MemoryStore()
    >>> hs.copy(g, copied, zarr_format=2, verify=True).arrays
    1
    >>> hs.open(copied)["a"][:]
    array([1, 2, 3])

    A part of an array, into a part of another:

    >>> target = hs.array([0] * 6, chunks=2)
    >>> hs.copy(g["a"], target, region=slice(1, 3), target_region=slice(2, 4)).bytes
    16
    >>> target[:]
    array([0, 0, 2, 3, 0, 0])
    """
    names = variable_names(variables)
    node = _source(source, concat, sort, names, threads, storage_options)
    if split is not None:
        given = dict(
            region=region, chunks=chunks, shards=shards, compressors=compressors, order=order,
            zarr_format=zarr_format, file_format=file_format, threads=threads, max_memory=max_memory,
            verify=verify, skip_unsupported=skip_unsupported, consolidated=consolidated,
            overwrite=overwrite, libver=libver, layout=layout, progress=progress, variables=names,
            storage_options=storage_options,
        )  # fmt: skip
        if target_region is not None or name is not None:
            raise InvalidArgumentError(
                "split: each copy has a place of its own; leave out name and target_region"
            )
        return _copy_parts(node, dest, split, given)
    if zarr_format is None and isinstance(dest, Group):
        zarr_format = dest.zarr_format
    wanted = wanted_copy(chunks, shards, compressors, order, zarr_format, threads, max_memory, region, names)
    wanted["verify"] = bool(verify)
    wanted["skip_unsupported"] = bool(skip_unsupported)
    wanted["consolidated"] = bool(consolidated)
    wanted["overwrite"] = bool(overwrite)
    wanted["libver"] = libver
    wanted["file_format"] = file_format
    wanted["layout"] = layout
    if target_region is not None and layout != "plain":
        raise InvalidArgumentError(
            "layout: only a new HDF5 file has one; target_region is in an array that exists"
        )
    if target_region is not None:
        check_into(chunks, shards, compressors, order, overwrite)
        if name is not None:
            raise InvalidArgumentError("name: with target_region, dest is the array itself")
        target = existing_target(dest, storage_options)
        if not isinstance(node, Array):
            raise InvalidArgumentError("source: with target_region it has to be an array, found a group")
        place = copy_region(target_region, "target_region") or []
        with show_progress(progress) as callback:
            facts = _native.copy_into(node._handle, target._handle, place, wanted, callback)
        return _report(facts)
    if isinstance(dest, Array):
        raise InvalidArgumentError("dest: to copy into an array that exists, say where: target_region")
    # The setting of a destination store decides about flushing.
    wanted["fsync"] = config.fsync if not isinstance(dest, (Store, Group)) else _flushes(dest)
    where, path = _destination(node, dest, name, file_format, storage_options)
    is_far_file = isinstance(where, str) and _is_far_file(where, file_format)
    if is_far_file:
        from hyperslab._stores.remote import flat_options

        wanted["storage"] = flat_options(storage_options)
    if overwrite and not isinstance(where, str) and (path or not where.is_far()):
        raise InvalidArgumentError(
            "overwrite: only a whole directory or the root of a server can be replaced; delete the node first"
        )
    # The engine updates groups within the store. On a server there may be more groups above it.
    with show_progress(progress) as callback:
        if _is_remote(dest) and not is_far_file:
            facts = _copy_below_groups(
                lambda: groups_above(str(dest), path, storage_options, False),
                lambda: _native.copy(node._handle, where, path, wanted, callback),
                bool(overwrite),
            )
        else:
            facts = _native.copy(node._handle, where, path, wanted, callback)
    if isinstance(dest, Group):
        dest._notice(node.basename if name is None else name)
    return _report(facts)


def _source(
    source: Any,
    concat: str | None,
    sort: bool,
    variables: list[str] | None,
    threads: int | None,
    storage_options: Mapping[str, Any] | None,
) -> Any:
    """Return the node to copy, or the joined sources."""
    if isinstance(source, Joined):
        return source
    if concat is not None:
        return join(places_of(source), concat, bool(sort), variables, storage_options, threads)
    if isinstance(source, (list, tuple)):
        raise InvalidArgumentError("source: to join a list, name the dimension: concat='time'")
    if sort:
        raise InvalidArgumentError("sort: only the sources of concat have an order")
    if isinstance(source, (Array, Group)):
        return source
    return open(source, mode="r", storage_options=storage_options if _is_remote(source) else None)


def _copy_parts(node: Any, dest: Any, split: Mapping[str, int], given: dict[str, Any]) -> CopyReport:
    """Make a copy of each part of a source along a dimension, one after the other."""
    if len(split) != 1:
        raise InvalidArgumentError(f"split: expected one dimension and a number of steps, found {split!r}")
    [(dimension, steps)] = split.items()
    if not isinstance(dest, (str, os.PathLike)):
        raise InvalidArgumentError(
            "dest: with split it has to be a pattern of paths or URLs, as 'out-{}.zarr'"
        )
    region = given.pop("region")
    if region is not None and (not isinstance(region, Mapping) or dimension in region):
        raise InvalidArgumentError(
            f"region: the source is split along {dimension!r}; a region may name other dimensions"
        )
    from hyperslab._stores.remote import flat_options

    pattern, steps = os.fspath(dest), operator.index(steps)
    if steps < 1:
        raise InvalidArgumentError(f"split: a part has at least 1 step, found {steps}")
    storage = flat_options(given["storage_options"]) if _is_remote(pattern) else []
    parts = _native.split_parts(node._handle, dimension, steps, pattern, bool(given["overwrite"]), storage)
    reports = [
        copy(node, place, region={**(region or {}), dimension: slice(start, stop)}, **given)
        for place, start, stop in parts
    ]
    verified = [report.seconds_verified for report in reports if report.seconds_verified is not None]
    return CopyReport(
        **{
            name: sum(getattr(report, name) for report in reports)
            for name in ("groups", "arrays", "bytes", "stored_before", "stored_after", "seconds")
        },
        seconds_verified=sum(verified) if verified else None,
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
        skipped=tuple(dict.fromkeys(pair for report in reports for pair in report.skipped)),
    )


def _copy_below_groups(
    look: Callable[[], _native.GroupsAbove], work: Callable[[], dict[str, Any]], overwrite: bool
) -> dict[str, Any]:
    """Copy, and update the consolidated metadata of the groups above.

    The groups are looked for meanwhile: a look waits for the server. If old contents are replaced,
    they are looked for before, because nobody may read the new chunks by an old description.
    """
    from concurrent.futures import ThreadPoolExecutor

    def forget() -> _native.GroupsAbove:
        above = look()
        above.forget()
        return above

    with ThreadPoolExecutor(1) as pool:
        forgetting = pool.submit(forget)
        if overwrite:
            forgetting.result()
        try:
            facts = work()
        except Exception:
            # The old node may still be there, and belongs to the metadata. The failure is the error to
            # report.
            with suppress(Exception):
                forgetting.result().renew()
            raise
        above = forgetting.result()
    above.renew()
    return facts


def groups_above(
    location: str, path: str, options: Mapping[str, Any] | None, fsync: bool
) -> _native.GroupsAbove:
    """Return the groups above a location that have consolidated metadata."""
    from hyperslab._stores.remote import flat_options

    storage = flat_options(options) if _is_remote(location) else []
    return _native.GroupsAbove(location, path, fsync, storage)


def _report(facts: dict[str, Any]) -> CopyReport:
    return CopyReport(**{**facts, "notes": tuple(facts["notes"]), "skipped": tuple(facts["skipped"])})


def wanted_copy(
    chunks: Iterable[int | None] | Mapping[str, int | None] | None,
    shards: Iterable[int | None] | Literal["keep", "auto"] | None,
    compressors: CodecsLike | str,
    order: Literal["C", "F"] | None,
    zarr_format: Literal[2, 3] | None,
    threads: int | None,
    max_memory: int | str,
    region: RegionLike | None = None,
    variables: list[str] | None = None,
) -> CopySpec:
    """Return the wanted copy as the engine takes it."""
    if order not in (None, "C", "F"):
        raise InvalidArgumentError(f"order: expected 'C' or 'F', found {order!r}")
    lens, named = None, None
    if isinstance(chunks, Mapping):
        named = _named_chunks(cast("Mapping[str, int | None]", chunks))
    elif chunks is not None:
        lens = _shape(chunks)
    return {
        "chunks": lens,
        "named_chunks": named,
        "variables": variables,
        "shards": _shards(shards),
        "compressors": _compressors(compressors),
        "fortran_order": None if order is None else order == "F",
        "zarr_format": normalize_format(zarr_format),
        "file_format": None,
        "threads": threads,
        "max_memory": parse_size(max_memory),
        "verify": False,
        "skip_unsupported": False,
        "consolidated": True,
        "overwrite": False,
        "fsync": False,
        "libver": "earliest",
        "layout": "plain",
        "storage": [],
        "region": copy_region(region, "region"),
    }


def check_into(
    chunks: Any, shards: Any, compressors: Any, order: Any, overwrite: bool, zarr_format: Any = None
) -> None:
    """Refuse options that would change the existing array."""
    given = {
        "chunks": chunks is not None,
        "shards": shards != "keep",
        "compressors": compressors != "keep",
        "order": order is not None,
        "zarr_format": zarr_format is not None,
        "overwrite": overwrite,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgumentError(
                f"{name}: with target_region the copy goes into an array that exists, and stays as it is"
            )


def existing_target(dest: Any, storage_options: Mapping[str, Any] | None) -> Array:
    """Return the existing array to copy to."""
    found = (
        dest
        if isinstance(dest, (Array, Group))
        else open(dest, mode="r+", storage_options=storage_options if _is_remote(dest) else None)
    )
    if not isinstance(found, Array):
        raise InvalidArgumentError("dest: with target_region it has to be an array, found a group")
    if found.read_only:
        raise ReadOnlyError(f"{found.store.url}/{found.path} was opened to be read; open it with mode='r+'")
    return found


def copy_region(region: RegionLike | None, what: str) -> CopyRegion | None:
    """Return a region as the engine takes it."""

    def bounds(one: Any) -> tuple[int | None, int | None]:
        if not isinstance(one, slice) or one.step not in (None, 1):
            raise InvalidArgumentError(f"{what}: expected slices of step 1, found {region!r}")
        start, stop = (None if at is None else operator.index(at) for at in (one.start, one.stop))
        return start, stop

    if region is None:
        return None
    if isinstance(region, Mapping):
        return [(str(name), bounds(one)) for name, one in region.items()]
    given = region if isinstance(region, tuple) else (region,)
    everything: Any = Ellipsis
    return [bounds(one) for one in (given[:-1] if given and given[-1] is everything else given)]


def _is_far_file(location: str, file_format: str | None) -> bool:
    """Return whether a copy to a location becomes one file on a server."""
    if file_format is not None:
        return _native.takes_storage_options(location)
    return _native.is_file_url(location)


def _is_remote(place: Any) -> bool:
    return isinstance(place, str) and _native.takes_storage_options(place)


def _destination(
    node: Array | Group,
    dest: Group | StoreLike,
    name: str | None,
    file_format: str | None,
    options: Mapping[str, Any] | None,
) -> tuple[str | _native.StoreHandle, str]:
    """Return where to copy to.

    Either a new directory, which appears when the copy is complete, or a store and a path in it.
    """
    if (
        isinstance(dest, (str, os.PathLike))
        and name is None
        and (not _is_remote(dest) or _is_far_file(os.fspath(dest), file_format))
    ):
        return os.fspath(dest), ""
    if isinstance(dest, Group):
        name = node.basename if name is None else name
        store, base = dest.store, dest.path
        if not name:
            raise InvalidArgumentError("name: the copy needs one in the group")
    else:
        store, base = resolve_store(dest, options if _is_remote(dest) else None)
    if store.read_only:
        raise ReadOnlyError(f"store {store.url} was opened in read-only mode and does not support writing")
    path = "/".join(part for part in f"{base}/{name or ''}".split("/") if part)
    # In an existing group, create nothing but the copy itself.
    if isinstance(store, LocalStore) and (not path or (isinstance(dest, Group) and "/" not in (name or ""))):
        return str(store.root / path), ""
    return store._native, path


def _flushes(dest: Group | Store) -> bool:
    store = dest.store if isinstance(dest, Group) else dest
    return isinstance(store, LocalStore) and store._fsync


def _shape(sizes: Iterable[int | None]) -> list[int | None]:
    return [None if n in (None, -1) else int(n) for n in sizes]


def _named_chunks(lens: Mapping[str, int | None]) -> list[tuple[str, int | None]]:
    named = [(str(name), None if n in (None, -1) else operator.index(n)) for name, n in lens.items()]
    for name, n in named:
        if n is not None and n < 1:
            raise InvalidArgumentError(f"chunks: expected at least 1 along {name!r}, found {n}")
    return named


def _shards(
    given: Iterable[int | None] | Literal["keep", "auto"] | None,
) -> list[int | None] | Literal["keep", "none", "auto"]:
    if given is None:
        return "none"
    if isinstance(given, str):
        if given not in ("keep", "auto"):
            raise InvalidArgumentError(f"shards: expected integers, 'keep', 'auto' or None, found {given!r}")
        return given
    return _shape(given)


def _compressors(given: CodecsLike | str) -> str | None:
    """Return metadata or a short form (``"zstd:5"``); ``None``: keep the source's compressors."""
    if given == "keep":
        return None
    if isinstance(given, str) and given != "auto":
        return given
    found = codecs_metadata(cast(CodecsLike, given), 3)
    return json.dumps([{"name": "zstd"}] if found is None else found)
