"""Writes datasets of xarray to Zarr.

xarray's ``ZarrStore`` decides where everything is written: modes, regions, checks, CF encoding.
Groups and arrays are ours.

1. Plan everything (`_xarray_plan`): encode and check all variables, change nothing.
2. Carry out the plan. Mode ``w`` builds the new group where nobody sees it, then replaces the old
   one. The other modes change the existing group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

import numpy as np
import xarray as xr
from xarray.backends.common import _normalize_path
from xarray.backends.writers import _validate_dataset_names
from xarray.backends.zarr import _choose_default_mode

from hyperslab import _native
from hyperslab._core.array import Array
from hyperslab._core.group import Group, node_of
from hyperslab._core.transaction import transaction
from hyperslab._create.new import replace_group
from hyperslab._create.open import open_group
from hyperslab._dask.reads import reading_from
from hyperslab._stores.store import LocalStore, MemoryStore, Store
from hyperslab._stores.zip import ZipStore
from hyperslab._xarray.destination import Destination, WriteMode, join
from hyperslab._xarray.plan import Plan, PlannedArray, Write, ZarrPlanner
from hyperslab._xarray.reads import read_first
from hyperslab._xarray.values import Calls, write_blocks, write_loaded
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["to_zarr"]

# A dataset of at most this many bytes is encoded in memory before the old group on a server is
# deleted.
GATHERED_BYTES = 32 << 20

Region: TypeAlias = Mapping[str, "slice | Literal['auto']"] | Literal["auto"]


@overload
def to_zarr(
    ds: xr.Dataset | xr.DataTree,
    place: Any,
    mode: WriteMode | None = None,
    group: str | None = None,
    encoding: Mapping[str, Any] | None = None,
    *,
    compute: Literal[True] = True,
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Region | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    write_empty_chunks: bool | None = None,
    write_inherited_coords: bool = False,
) -> Group: ...


@overload
def to_zarr(
    ds: xr.Dataset | xr.DataTree,
    place: Any,
    mode: WriteMode | None = None,
    group: str | None = None,
    encoding: Mapping[str, Any] | None = None,
    *,
    compute: Literal[False],
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Region | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    write_empty_chunks: bool | None = None,
    write_inherited_coords: bool = False,
) -> Delayed: ...


def to_zarr(
    ds: xr.Dataset | xr.DataTree,
    place: Any,
    mode: WriteMode | None = None,
    group: str | None = None,
    encoding: Mapping[str, Any] | None = None,
    *,
    compute: bool = True,
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Region | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    write_empty_chunks: bool | None = None,
    write_inherited_coords: bool = False,
) -> Group | Delayed:
    """Write a dataset or a tree of datasets to Zarr: `xarray.Dataset.to_zarr` with this engine.

    Arguments have the same meaning as in xarray. zarr-python must be installed, as for xarray's own
    method.

    Parameters
    ----------
    ds : xarray.Dataset or xarray.DataTree
        Variables with dask arrays are written block by block, in parallel. Others are written
        variable by variable.
    place : str, os.PathLike or store
        Anything that `hyperslab.open_group` takes, including the URL of a server.
    mode : {"w", "w-", "a", "a-", "r+"}, optional
        ``w``: replace an existing node (see Notes). ``w-``: nothing may exist. ``a``: replace
        existing variables. ``a-``: with ``append_dim``, leave variables without that dimension.
        ``r+``: only existing variables of the same shape. Default: ``a`` with ``append_dim``,
        ``r+`` with ``region``, otherwise ``w-``.
    group : str, optional
        The path of the group. Not for trees.
    encoding : mapping, optional
        For each new variable: ``chunks``, ``shards``, ``compressors``, ``filters``, ``serializer``,
        ``fill_value``, ``dtype``, ``scale_factor`` and so on. For a tree, such a mapping for each
        path.
    compute : bool, default True
        Whether to write blocks of dask now. If false, metadata and variables in memory are written
        now, and the returned object writes the blocks when it is computed.
    consolidated : bool, optional
        Whether to consolidate the metadata of the whole store. Default: yes, unless mode is ``r+``.
    append_dim : hashable, optional
        The dimension along which all variables that have it are lengthened. Coordinates without it
        must equal the stored ones, in their order. Other variables without it must, too, unless
        mode is ``a-``. Not for trees.
    region : mapping or "auto", optional
        Where to write in existing variables: a slice for some dimensions, or ``"auto"`` to derive
        it from the coordinates.
    safe_chunks : bool, default True
        Whether to refuse blocks of dask that share a chunk (or a shard). If false, the edges of the
        blocks are moved to the edges of chunks or shards. Either way, no chunk is torn.
    align_chunks : bool, default False
        Whether xarray moves the edges of blocks first.
    storage_options : mapping, optional
        As in `hyperslab.open`.
    zarr_format : {2, 3}, optional
        Format of a new hierarchy. Default: ``hyperslab.config.default_zarr_format``.
    write_empty_chunks : bool, optional
        Whether to store chunks that hold only the fill value. Default:
        ``hyperslab.config.write_empty_chunks``.
    write_inherited_coords : bool, default False
        For a tree: whether to write coordinates again in each group that inherits them.

    Returns
    -------
    Group
        The written group. With ``compute=False``, a ``dask.delayed.Delayed``.

    Raises
    ------
    ValueError
        For everything that xarray refuses, with the same messages, and for changes to the meaning
        of stored rows.
    DataTypeError
        For dates, text and numbers that do not fit the data type of an existing array (a
        ``TypeError``). For blocks of dask, it is raised when they are written. Fractions are
        rounded to integers, as in xarray.
    FileExistsError
        If something exists and mode is ``w-``.

    Notes
    -----
    Everything is checked before anything is changed.

    In modes other than ``w``, ``ds`` may be read lazily from the place that is written. A block
    that reads only the elements that it replaces (``ds + 1``) is computed and written normally.
    Variables with other blocks are loaded before the first write, up to 32 MiB in total. More are
    refused, and with ``compute=False`` all of them are.

    Mode ``w`` on disk, in memory (also in a dictionary) and in zip archives builds the new group
    beside the old one, which needs space for both. The old group stays until the new one is
    complete. It is kept if a task of dask fails or the process is killed. ``ds`` may be read lazily
    from the place that it replaces. With ``compute=False``, the new group replaces the old one at
    once, and ``ds`` may not be read from there.

    Mode ``w`` on servers and in other stores first encodes up to 32 MiB (uncompressed) in memory.
    Larger data are written in place: after all checks have passed, the old group is deleted, and
    the document of the new group is stored last. A failure in between, for instance of a task of
    dask, leaves no group and incomplete arrays. In this case ``ds`` may not be read from there.

    Examples
    --------
    >>> import hyperslab as hs, hyperslab.xarray, xarray as xr
    >>> store = hs.MemoryStore()
    >>> first = xr.Dataset({"sst": ("time", [1.5, 2.5])}, {"time": [0, 1]})
    >>> group = hyperslab.xarray.to_zarr(first, store, encoding={"sst": {"chunks": (2,), "shards": (4,)}})
    >>> later = xr.Dataset({"sst": ("time", [3.5])}, {"time": [2]})
    >>> group = hyperslab.xarray.to_zarr(later, store, append_dim="time")
    >>> group["sst"][...]
    array([1.5, 2.5, 3.5])
    """
    if not isinstance(ds, xr.Dataset | xr.DataTree):
        raise ArgumentTypeError(
            f"ds: expected a Dataset or a DataTree, found {type(ds).__name__}"
            + ("; call its to_dataset() before" if isinstance(ds, xr.DataArray) else "")
        )
    if not isinstance(group, str | None):
        raise InvalidArgumentError(f"group must be a string or None, found {group!r}")
    encoding = dict(encoding or {})
    if isinstance(ds, xr.DataTree):
        if group is not None or append_dim is not None:
            what = "group" if group is not None else "append_dim"
            raise InvalidArgumentError(f"{what}: expected None with a tree: write its datasets one by one")
        if unknown := sorted({*encoding} - {*ds.groups}):
            raise InvalidArgumentError(f"encoding: expected paths of groups, found {unknown}")
    chosen: Any = _choose_default_mode(mode=mode, append_dim=append_dim, region=region)
    place = _normalize_path(place)
    if not getattr(place, "supports_consolidated_metadata", True):
        consolidated = False
    destination = Destination(place, chosen, group, consolidated, storage_options, zarr_format)
    plan = Plan(destination.existing, destination.zarr_format)
    planner = ZarrPlanner(
        plan,
        plan.root,
        chosen,
        append_dim=append_dim,
        # Pass a copy: xarray adds what it finds.
        region=dict(region) if isinstance(region, Mapping) else region,
        safe_chunks=safe_chunks,
        align_chunks=align_chunks,
        write_empty=write_empty_chunks,
    )
    if isinstance(ds, xr.DataTree):
        for path, node in ds.subtree_with_keys:
            at_root = node is ds
            part = node.to_dataset(inherit=write_inherited_coords or at_root)
            _plan(part, planner if at_root else planner.child(path), encoding.get(node.path))
    else:
        _plan(ds, planner, encoding)
    if chosen == "w":
        root, writing = _replace(plan, destination, compute)
    else:
        root, writing = _change(plan, destination, compute)
    return root if compute else cast("Delayed", writing)


def _plan(ds: xr.Dataset, planner: ZarrPlanner, encoding: Any) -> None:
    _validate_dataset_names(ds)
    if any(variable.size == 0 for variable in ds.variables.values()):
        # Load empty variables: blocks of dask without elements would be chunks without elements.
        ds = ds.copy()
        for variable in ds.variables.values():
            if variable.size == 0:
                variable.load()
    ds = planner._validate_and_autodetect_region(ds)
    planner._validate_encoding(encoding or {})
    planner.plan(ds, encoding)


# ---- changing an existing group


def _change(plan: Plan, destination: Destination, compute: bool) -> tuple[Group, Delayed | None]:
    """Create missing groups and arrays, lengthen arrays, and write."""
    read_first(plan, compute)
    root = destination.create() if destination.existing is None else destination.existing
    groups = {"": root}
    calls = Calls(root._is_far)
    together = _appended_together(plan, root)
    later = {array for array, _ in together}
    changed = False
    try:
        for group in plan.groups:
            at = group.at
            groups[at] = found = groups.get(at) or group.existing or root.require_group(at)
            if group.attributes is not None and found.attrs.asdict() != group.attributes:
                found.attrs.put(group.attributes)
                changed = True
        arrays = [array for array in plan.arrays if array not in later]
        changed |= any(array.existing is None or array.existing.shape != array.shape for array in arrays)
        targets = {array: _made(array, groups[array.group.at], calls) for array in arrays}
        writes = [write for write in plan.writes if write.target not in later]
        write_loaded(writes, targets, calls)
        calls.wait()
        if compute:
            write_blocks(writes, targets, True)
    except BaseException:
        # A call that is still running would lengthen its array afterwards.
        calls.close(wait=True)
        _shorten(plan, later)
        raise
    finally:
        calls.close()
    # Readers that use consolidated metadata see new rows from here on, of all variables or of none.
    published = _commit(root, together)
    if destination.consolidates and (changed or not published or destination.path != destination.base):
        destination.consolidate()
    return root, None if compute else write_blocks(writes, targets, False)


def _appended_together(plan: Plan, root: Group) -> list[tuple[PlannedArray, Write]]:
    """Return the arrays to lengthen in one transaction, with their rows. None, if it does not fit.

    On a server a transaction sends the requests of one array after the other, which takes long.
    """
    found = []
    for array in plan.arrays:
        there = array.existing
        if there is None or there.shape == array.shape:
            continue
        writes = [write for write in plan.writes if write.target is array]
        if root._is_far or len(writes) != 1 or writes[0].is_lazy:
            return []
        found.append((array, writes[0]))
    return found


def _commit(root: Group, together: list[tuple[PlannedArray, Write]]) -> bool:
    """Append to arrays in one transaction. Returns True if the consolidated metadata show the rows."""
    if not together:
        return False
    with transaction(root) as step:
        for array, write in together:
            there = cast(Any, array.existing).shape
            [axis] = [n for n, (old, new) in enumerate(zip(there, array.shape, strict=True)) if old != new]
            step._append(array.path, np.asarray(write.source), axis, array.existing)
    return step._published


def _shorten(plan: Plan, later: Collection[PlannedArray]) -> None:
    """After an error, make arrays as short as they were, unless somebody else has lengthened them."""
    for array in plan.arrays:
        there = array.existing
        if there is None or array in later or not array.is_lengthened:
            continue
        # The first error is the one to raise.
        with contextlib.suppress(Exception):
            if there.refresh().shape == array.shape:
                there.resize(array.old_shape)


def _made(array: PlannedArray, group: Group, calls: Calls) -> Any:
    """Return the array as planned, or the errand that makes it."""
    there = array.existing
    if there is None:
        return calls.add(_created, group, array)
    if there.shape == array.shape:
        return there
    return calls.add(_resized, array)


def _created(group: Group, array: PlannedArray) -> Array:
    try:
        return group.create_array(array.name, **cast(Any, array.arguments))
    except Exception as error:
        error.add_note(f"Raised while creating variable {array.name!r}")
        raise


def _resized(array: PlannedArray) -> Array:
    there = cast(Array, array.existing)
    found = there.refresh().shape
    if found != array.old_shape:
        raise InvalidArgumentError(
            f"variable {array.path!r}: expected shape {array.old_shape}, found {found}: somebody else has "
            "changed it since; append again"
        )
    array.is_lengthened = True
    there.resize(array.shape)
    return there


# ---- replacing an existing group


def _replace(plan: Plan, destination: Destination, compute: bool) -> tuple[Group, Delayed | None]:
    """Replace the old node by a new group."""
    trial = plan.root.trial
    if destination.consolidates and destination.path == destination.base:
        trial.consolidate()
    blocks = [write.source for write in plan.writes if write.is_lazy]
    at_once = [write.source for write in plan.writes if compute or not write.is_lazy]
    size = sum(source.nbytes for source in at_once)
    if _exchanges(destination.store):
        fill: Callable[[Group], None] = _built_beside(plan, destination.store, compute)
    elif getattr(destination.store, "_has_dict", False) or (
        size <= GATHERED_BYTES and (not compute or not blocks or _are_threads())
    ):
        # The objects of a dictionary are in memory anyway.
        fill = _built_in_memory(plan, compute)
    else:
        _refuse_reading(blocks, destination)
        return _written_in_place(plan, destination, compute)
    if not compute:
        _refuse_reading(blocks, destination)
    attributes = plan.root.attributes
    root = replace_group(
        destination.store, destination.path, destination.zarr_format, fill, attributes=attributes
    )
    if destination.consolidates and destination.path != destination.base:
        destination.consolidate()
    writing = (
        None
        if compute
        else write_blocks(plan.writes, _opened(plan, destination.store, destination.path), False)
    )
    return root, writing


def _exchanges(store: Store) -> bool:
    """Return True if a store can replace a group of any size in one step."""
    if isinstance(store, MemoryStore):
        return not store._has_mapping
    return isinstance(store, (LocalStore, ZipStore))


def _are_threads() -> bool:
    """Return True if dask computes in this process."""
    import dask.local
    import dask.threaded
    from dask.base import get_scheduler

    return get_scheduler() in (None, dask.threaded.get, dask.local.get_sync)


def _refuse_reading(blocks: Iterable[Any], destination: Destination) -> None:
    """Refuse blocks of dask that would be read after their source is deleted."""
    found = reading_from(blocks, destination.store, destination.path)
    if found is not None:
        raise InvalidArgumentError(
            f"ds is read lazily from {found}, which mode='w' replaces: load it first (ds.load()), or write "
            "it to another place"
        )


def _built_beside(plan: Plan, store: Store, compute: bool) -> Callable[[Group], None]:
    def fill(beside: Group) -> None:
        _send(plan, beside.store, "", _keys(plan))
        targets = _opened(plan, beside.store, "")
        calls = Calls(False)
        write_loaded(plan.writes, targets, calls)
        if compute:
            write_blocks(plan.writes, targets, True)

    return fill


def _built_in_memory(plan: Plan, compute: bool) -> Callable[[Group], None]:
    def fill(beside: Group) -> None:
        targets: dict[PlannedArray, Any] = {array: array.trial for array in plan.arrays}
        write_loaded(plan.writes, targets, Calls(False))
        if compute:
            write_blocks(plan.writes, targets, True)
        _send(plan, beside.store, "", _keys(plan))

    return fill


def _written_in_place(plan: Plan, destination: Destination, compute: bool) -> tuple[Group, Delayed | None]:
    """Delete the old group, write the arrays, and write the group's own document last.

    For stores that cannot keep the old group meanwhile.
    """
    store, path = destination.store, destination.path
    above = path.rpartition("/")[0]
    if path:
        # Fails if the parent cannot hold the group.
        open_group(store, path=above, mode="a", zarr_format=destination.zarr_format, use_consolidated=False)
    _native.remove_below(store._native, path)
    keys = _keys(plan)
    own = [key for key in keys if "/" not in key]
    calls = Calls(store._native.is_far())
    try:
        for key in keys:
            if "/" in key:
                calls.add(_send, plan, store, path, [key])
        calls.wait()
        targets: dict[PlannedArray, Any] = {
            array: calls.add(_open, array, store, path) for array in plan.arrays
        }
        write_loaded(plan.writes, targets, calls)
        calls.wait()
    finally:
        calls.close()
    if compute:
        write_blocks(plan.writes, targets, True)
    _send(plan, store, path, own)
    if destination.consolidates and path != destination.base:
        destination.consolidate()
    root = destination.open()
    return root, None if compute else write_blocks(plan.writes, targets, False)


def _keys(plan: Plan) -> list[str]:
    """Return the keys of the new group, with the documents that make it a group last."""
    return sorted(plan.root.trial.store.list(), key=lambda key: ("/" not in key, key))


def _send(plan: Plan, store: Store, path: str, keys: Iterable[str]) -> None:
    """Copy objects of the new group to a path of a store."""
    trial = plan.root.trial.store
    for key in keys:
        value = trial.get(key)
        if value is not None:
            store.set(join(path, key), value)


def _opened(plan: Plan, store: Store, path: str) -> dict[PlannedArray, Any]:
    return {array: _open(array, store, path) for array in plan.arrays}


def _open(array: PlannedArray, store: Store, path: str) -> Array:
    zarr_format = array.group.trial.zarr_format
    handle = _native.open_node(store._native, join(path, array.path), zarr_format, False)
    found = cast(Array, node_of(handle, store))
    config = array.arguments.get("config")
    return found if config is None else found.with_config(config)
