"""Datasets of xarray, written to Zarr.

What is written where is xarray's decision: modes, regions, checks and CF encoding are those of its
``ZarrStore``. Groups and arrays are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import xarray as xr
from xarray import Variable
from xarray.backends.common import ArrayWriter, _normalize_path
from xarray.backends.writers import _validate_dataset_names, dump_to_store
from xarray.backends.zarr import ZarrStore, _choose_default_mode
from xarray.coding.strings import check_vlen_dtype
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._array import Array
from hyperslab._create import DEFAULT_FILL_VALUE
from hyperslab._group import Group
from hyperslab._open import open_group
from hyperslab._unreadable import UnreadableArray
from hyperslab._xarray_zarr import ZarrReader
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["to_zarr"]

# Variables of a store far away that are created and written at the same time. Each waits for 2 to 5 requests,
# one after the other.
AT_ONCE = 32

# Larger variables in memory are written by themselves: the engine sends their chunks at the same time.
SMALL_BYTES = 1 << 20

WriteMode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]
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
    """Write a dataset, or a tree of them, to Zarr: `xarray.Dataset.to_zarr` with this engine.

    Arguments mean what they mean there. zarr-python must be installed, as for xarray's own.

    Parameters
    ----------
    ds : xarray.Dataset or xarray.DataTree
        Variables of dask arrays are written block by block, in parallel; others variable by variable.
    place : str, os.PathLike or store
        What `hyperslab.open_group` takes: also the URL of a server.
    mode : {"w", "w-", "a", "a-", "r+"}, optional
        ``w``: replace what is there; ``w-``: nothing may be there; ``a``: replace variables that are there;
        ``a-``: with ``append_dim``, leave those without that dimension; ``r+``: only variables that are
        there, of the same shape. Default: ``a`` with ``append_dim``, ``r+`` with ``region``, else ``w-``.
    group : str, optional
        The path of the group. Not for trees.
    encoding : mapping, optional
        For each new variable: ``chunks``, ``shards``, ``compressors``, ``filters``, ``serializer``,
        ``fill_value``, ``dtype``, ``scale_factor`` and so on. For a tree, for each path a mapping of those.
    compute : bool, default True
        If not, metadata and variables that are in memory are written at once, and what is returned writes the
        blocks of dask when it is computed.
    consolidated : bool, optional
        Whether the metadata of the whole store are consolidated. By default they are, unless mode is ``r+``.
    append_dim : hashable, optional
        The dimension along which variables are made longer. Not for trees.
    region : mapping or "auto", optional
        Where in existing variables to write: a slice for some dimensions, or ``"auto"`` for where the
        coordinates say.
    safe_chunks : bool, default True
        Whether blocks of dask that share a chunk (a shard, where there are shards) are refused. If not, their
        edges are moved to those of chunks or shards: nothing is torn in either case.
    align_chunks : bool, default False
        Whether xarray moves the edges of blocks first.
    storage_options : mapping, optional
        As in `hyperslab.open`.
    zarr_format : {2, 3}, optional
        Of a new hierarchy. Default: ``hyperslab.config.default_zarr_format``.
    write_empty_chunks : bool, optional
        Whether chunks of nothing but fill value are stored. Default: ``hyperslab.config.write_empty_chunks``.
    write_inherited_coords : bool, default False
        Of a tree: whether coordinates are written again in each group that inherits them.

    Returns
    -------
    Group
        What was written. With ``compute=False``, a ``dask.delayed.Delayed``.

    Raises
    ------
    ValueError
        For everything that xarray refuses, with its words.
    FileExistsError
        Where something is there and mode is ``w-``.

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
    encoding = dict(encoding or {})
    if isinstance(ds, xr.DataTree):
        if group is not None or append_dim is not None:
            what = "group" if group is not None else "append_dim"
            raise InvalidArgumentError(f"{what}: not with a tree; write its datasets one by one")
        if unknown := sorted({*encoding} - {*ds.groups}):
            raise InvalidArgumentError(f"encoding: expected paths of groups, found {unknown}")
    chosen: Any = _choose_default_mode(mode=mode, append_dim=append_dim, region=region)
    place = _normalize_path(place)
    if not getattr(place, "supports_consolidated_metadata", True):
        consolidated = False
    root = _opened(place, chosen, group, consolidated, storage_options, zarr_format)
    target = ZarrWriter(
        root,
        chosen,
        append_dim=append_dim,
        write_region=region,
        safe_chunks=safe_chunks,
        write_empty=write_empty_chunks,
        use_zarr_fill_value_as_mask=root.zarr_format == 2,
        align_chunks=align_chunks,
    )
    errands = _Errands() if root._is_far else None
    target.errands = errands
    writer = _BlockWriter(errands)
    try:
        if isinstance(ds, xr.DataTree):
            for path, node in ds.subtree_with_keys:
                at_root = node is ds
                below = target if at_root else target.get_child_store(path)
                part = node.to_dataset(inherit=write_inherited_coords or at_root)
                _dump(part, below, writer, encoding.get(node.path))
        else:
            _dump(ds, target, writer, encoding)
        if errands is not None:
            errands.wait()
    finally:
        if errands is not None:
            errands.close()
    if chosen != "r+" and consolidated in (None, True):
        # As xarray does: all of the store, which has the group somewhere in it.
        open_group(place, mode="r+", storage_options=storage_options, use_consolidated=False).consolidate()
    writing = writer.sync(compute)
    return root if compute else writing


def _opened(
    place: Any,
    mode: WriteMode,
    path: str | None,
    consolidated: bool | None,
    storage_options: Mapping[str, Any] | None,
    zarr_format: Literal[2, 3] | None,
) -> Group:
    """The group that is written."""
    if mode == "r+" and consolidated and path and path.strip("/"):
        # The root has the consolidated metadata.
        root = _opened(place, mode, None, consolidated, storage_options, zarr_format)
        return root.get_group(path.strip("/"))
    return open_group(
        place,
        mode="a" if mode == "a-" else mode,
        path=path,
        storage_options=storage_options,
        zarr_format=zarr_format,
        use_consolidated=consolidated if mode == "r+" else False if mode in ("a", "a-") else None,
    )


def _dump(ds: xr.Dataset, target: ZarrWriter, writer: _BlockWriter, encoding: Any) -> None:
    _validate_dataset_names(ds)
    if any(variable.size == 0 for variable in ds.variables.values()):
        # Blocks of dask without elements would be chunks without elements.
        ds = ds.copy()
        for variable in ds.variables.values():
            if variable.size == 0:
                variable.load()
    ds = target._validate_and_autodetect_region(ds)
    target._validate_encoding(encoding or {})
    dump_to_store(ds, target, writer, encoding=encoding)  # type: ignore[no-untyped-call]


class ZarrWriter(ZarrStore):
    """xarray's store of a Zarr group, where the group and its arrays are ours."""

    zarr_group: Any
    # Where the store is far away: what goes on beside each other.
    errands: _Errands | None = None

    def get_child_store(self, group: str) -> ZarrWriter:
        """The store of a group below."""
        child: ZarrWriter = super().get_child_store(group)
        child.errands = self.errands
        return child

    def _fetch_members(self) -> dict[str, Any]:
        # A new group is empty.
        return {} if self._mode in ("w", "w-") else dict(self.zarr_group.members())

    def arrays(self) -> tuple[tuple[str, Any], ...]:
        """Names and arrays that were there before."""
        return tuple((name, node) for name, node in self.members.items() if not isinstance(node, Group))

    def array_keys(self) -> tuple[str, ...]:
        """Names of arrays that were there before."""
        return tuple(name for name, _ in self.arrays())

    def open_store_variable(self, name: str) -> Variable:
        """An array that was there before, as xarray sees it."""
        reader = ZarrReader(self.zarr_group, (), self._use_zarr_fill_value_as_mask)
        return reader._variable(self._existing(name))

    def get_dimensions(self) -> dict[str, int]:
        """Dimensions of all arrays that were there before, with their lengths."""
        found: dict[str, int] = {}
        for name in self.array_keys():
            for dimension, length in self.open_store_variable(name).sizes.items():
                if found.setdefault(str(dimension), length) != length:
                    raise InvalidArgumentError(
                        f"arrays disagree on the length of dimension {dimension!r}: "
                        f"{found[str(dimension)]} and {length}"
                    )
        return found

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Replaces the attributes of the group."""
        if self.zarr_group.attrs.asdict() != attributes:
            self.zarr_group.attrs.put(attributes)

    def _open_existing_array(self, *, name: str) -> Any:
        found = self._existing(name)
        return found if self.errands is None else _Resized(found, self.errands)

    def _existing(self, name: str) -> Array:
        found: Any = self.members[name]
        if isinstance(found, UnreadableArray):
            raise found.error
        if self._write_empty is not None:
            found = found.with_config({"write_empty_chunks": self._write_empty})
        array: Array = found
        return array

    def _create_new_array(
        self,
        *,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        fill_value: Any,
        encoding: dict[str, Any],
        attrs: dict[str, Any],
    ) -> Any:
        own, given = encoding.pop("write_empty_chunks", None), self._write_empty
        if own is not None and given is not None and own != given:
            raise InvalidArgumentError(
                f"variable {name!r}: write_empty_chunks is {own} in the encoding and {given} as an argument"
            )
        own = given if own is None else own
        # The group was emptied before. zarr-python's handles have caches of metadata; ours have not.
        for useless in ("overwrite", "cache_metadata", "fill_value"):
            encoding.pop(useless, None)
        if fill_value is None and self.zarr_group.zarr_format == 3:
            fill_value = DEFAULT_FILL_VALUE
        # As zarr-python has it for scalars.
        encoding["dimension_names"] = encoding.get("dimension_names") or None
        text = check_vlen_dtype(dtype)  # type: ignore[no-untyped-call]
        arguments = dict(
            encoding,
            shape=shape,
            dtype=dtype if text is None else text,
            fill_value=fill_value,
            attributes=attrs,
            config=None if own is None else {"write_empty_chunks": own},
        )
        if self.errands is None:
            return self._created(name, arguments)
        return self.errands.add(self._created, name, arguments)

    def _created(self, name: str, arguments: dict[str, Any]) -> Array:
        try:
            array: Array = self.zarr_group.create_array(name, **arguments)
        except Exception as error:
            error.add_note(f"Raised while creating variable {name!r}")
            raise
        return array


class _Errands:
    """Calls that go on beside each other, because each waits for a server."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._pending: deque[Future[Any]] = deque()

    def add(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begins a call. It may wait for calls that began before, not for later ones."""
        if len(self._pending) >= 2 * AT_ONCE:
            self._pending.popleft().result()
        begun = self._pool.submit(call, *arguments)
        self._pending.append(begun)
        return begun

    def wait(self) -> None:
        """Until all is done. Raises what one of them raised."""
        while self._pending:
            self._pending.popleft().result()

    def close(self) -> None:
        """Begins nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Resized:
    """An array far away that is being resized. Like a `Future`, it has a `result`."""

    def __init__(self, array: Array, errands: _Errands) -> None:
        self._array, self._errands = array, errands
        self._resizing: Future[Any] | None = None
        self.shape = array.shape

    def resize(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._resizing = self._errands.add(self._array.resize, shape)

    def result(self) -> Array:
        if self._resizing is not None:
            self._resizing.result()
        return self._array


class _BlockWriter(ArrayWriter):
    """Writes what is in memory at once, and arrays of dask when all are known."""

    def __init__(self, errands: _Errands | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._errands = errands
        self._blocks: list[tuple[Any, Any, Any]] = []

    def add(self, source: Any, target: Any, region: Any = None) -> None:
        """Writes an array to a region of a target, or remembers it."""
        if is_chunked_array(source):
            if type(source).__module__.partition(".")[0] != "dask":
                raise ArgumentTypeError(f"chunked arrays: expected those of dask, found {type(source)!r}")
            self._blocks.append((source, target, region))
            return
        values = np.asarray(source)
        if self._errands is not None and values.nbytes <= SMALL_BYTES:
            self._errands.add(_write, target, region, values)
        else:
            _write(target, region, values)

    def sync(self, compute: bool = True, chunkmanager_store_kwargs: Any = None) -> Any:
        """Writes what was remembered, or returns what does."""
        if compute and not self._blocks:
            return None
        from hyperslab.dask import _store_all

        writing = _store_all((x, _array_of(target), region) for x, target, region in self._blocks)
        return writing.compute() if compute else writing


def _write(target: Any, region: Any, values: Any) -> None:
    _array_of(target)[region or ...] = values


def _array_of(target: Any) -> Array:
    array: Array = target if isinstance(target, Array) else target.result()
    return array
