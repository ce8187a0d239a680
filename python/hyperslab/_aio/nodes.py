"""Arrays and groups for asyncio: the same nodes with awaitable calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from hyperslab._base.awaiting import awaited, awaited_of
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create import open as opening

if TYPE_CHECKING:
    from hyperslab._stores.store import StoreLike

__all__ = ["AsyncArray", "AsyncGroup", "open_async"]


async def open_async(store: StoreLike | None = None, **options: Any) -> AsyncArray | AsyncGroup:
    """Awaitable `hyperslab.open`. Returns an `AsyncArray` or an `AsyncGroup`.

    Examples
    --------
    >>> import asyncio, hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> _ = hs.save(store, [1, 2, 3])
    >>> async def total():
    ...     array = await hs.open_async(store, mode="r")
    ...     return int((await array.getitem(slice(1, None))).sum())
    >>> asyncio.run(total())
    5
    """
    made = await awaited(lambda: opening.open(store, **options))
    return cast("AsyncArray | AsyncGroup", _front(made))


def _front(node: Any) -> Any:
    """Wrap a node for asyncio."""
    if isinstance(node, Array):
        return AsyncArray(node)
    return AsyncGroup(node) if isinstance(node, Group) else node


def _fact(name: str) -> Any:
    """Make a property that needs no access to the store."""
    return property(lambda self: getattr(self._node, name), doc=f"As `hyperslab.Array.{name}`.")


class _Front:
    """A node with awaitable calls."""

    __slots__ = ("_node",)

    _node: Any

    name: str = _fact("name")
    path: str = _fact("path")
    basename: str = _fact("basename")
    store: Any = _fact("store")
    read_only: bool = _fact("read_only")
    attrs: Any = _fact("attrs")
    metadata: Any = _fact("metadata")
    info: Any = _fact("info")

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call a method of the node on a thread."""
        method = getattr(self._node, name)
        return awaited_of(self._node, partial(method, **options) if options else method, *args)

    async def _same(self, name: str, *args: Any, **options: Any) -> Self:
        await self._call(name, *args, **options)
        return self

    async def info_complete(self) -> Any:
        """Return `info` plus facts about the stored objects."""
        return await self._call("info_complete")

    async def update_attributes(self, new_attributes: Mapping[str, Any]) -> Self:
        """Add or replace attributes in one change; returns the array or group."""
        return await self._same("update_attributes", new_attributes)

    async def refresh(self) -> Self:
        """Read the metadata again; returns the array or group."""
        return await self._same("refresh")

    def __repr__(self) -> str:
        return f"<Async{repr(self._node)[1:]}"

    def __eq__(self, other: object) -> bool:
        return self._node == other._node if isinstance(other, _Front) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._node,)


class AsyncArray(_Front):
    """An array with awaitable reads and writes.

    Made by `hyperslab.open_async`, from an `Array`, and by an `AsyncGroup`.

    Concurrent calls share a bounded number of threads, with as many requests at once as the server
    may get. Results are the same as with `Array`. Cancelling an ``await`` stops its call within 100
    ms or one chunk; chunks already written stay.

    Examples
    --------
    >>> import asyncio, hyperslab as hs
    >>> array = hs.AsyncArray(hs.array([[1, 2], [3, 4]]))
    >>> async def columns():
    ...     return await asyncio.gather(*(array.getitem((slice(None), k)) for k in range(2)))
    >>> asyncio.run(columns())
    [array([1, 3]), array([2, 4])]
    """

    __slots__ = ()

    def __init__(self, array: Array) -> None:
        self._node = array

    @property
    def array(self) -> Array:
        """The underlying `Array`."""
        return cast(Array, self._node)

    @classmethod
    async def open(cls, store: StoreLike, **options: Any) -> AsyncArray:
        """Open an existing array, as `hyperslab.open_array` does."""
        return cls(await awaited(lambda: opening.open_array(store, **options)))

    shape: tuple[int, ...] = _fact("shape")
    ndim: int = _fact("ndim")
    size: int = _fact("size")
    dtype: Any = _fact("dtype")
    nbytes: int = _fact("nbytes")
    chunks: tuple[int, ...] = _fact("chunks")
    shards: tuple[int, ...] | None = _fact("shards")
    nchunks: int = _fact("nchunks")
    cdata_shape: tuple[int, ...] = _fact("cdata_shape")
    read_chunk_sizes: tuple[tuple[int, ...], ...] = _fact("read_chunk_sizes")
    write_chunk_sizes: tuple[tuple[int, ...], ...] = _fact("write_chunk_sizes")
    dimension_names: tuple[str | None, ...] | None = _fact("dimension_names")
    fill_value: Any = _fact("fill_value")
    order: Any = _fact("order")
    filters: Any = _fact("filters")
    serializer: Any = _fact("serializer")
    compressors: Any = _fact("compressors")
    zarr_format: Any = _fact("zarr_format")
    fields: Any = _fact("fields")

    # ---- reading and writing

    async def getitem(self, selection: Any) -> Any:
        """Awaitable ``array[selection]``."""
        return await self._call("__getitem__", selection)

    async def setitem(self, selection: Any, value: Any) -> None:
        """Awaitable ``array[selection] = value``."""
        await self._call("__setitem__", selection, value)

    async def read(self, selection: Any = None, out: Any = None, **options: Any) -> Any:
        """Awaitable `Array.read`."""
        return await self._call("read", selection, out, **options)

    async def write(self, selection: Any, value: Any, **options: Any) -> None:
        """Awaitable `Array.write`."""
        await self._call("write", selection, value, **options)

    async def read_ragged(self, selection: Any = None, **options: Any) -> Any:
        """Awaitable `Array.read_ragged`."""
        return await self._call("read_ragged", selection, **options)

    async def read_arrow(self, selection: Any = None, **options: Any) -> Any:
        """Awaitable `Array.read_arrow`."""
        return await self._call("read_arrow", selection, **options)

    async def get_basic_selection(self, selection: Any = ..., *, out: Any = None, fields: Any = None) -> Any:
        """Awaitable `Array.get_basic_selection`."""
        return await self._call("get_basic_selection", selection, out=out, fields=fields)

    async def get_orthogonal_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Awaitable `Array.get_orthogonal_selection`."""
        return await self._call("get_orthogonal_selection", selection, out=out, fields=fields)

    async def get_coordinate_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Awaitable `Array.get_coordinate_selection`."""
        return await self._call("get_coordinate_selection", selection, out=out, fields=fields)

    async def get_mask_selection(self, mask: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Awaitable `Array.get_mask_selection`."""
        return await self._call("get_mask_selection", mask, out=out, fields=fields)

    async def get_block_selection(self, selection: Any, *, out: Any = None, fields: Any = None) -> Any:
        """Awaitable `Array.get_block_selection`."""
        return await self._call("get_block_selection", selection, out=out, fields=fields)

    @property
    def oindex(self) -> AsyncIndex:
        """Like `Array.oindex`: ``await array.oindex.getitem(selection)``."""
        return AsyncIndex(self.array, "oindex")

    @property
    def vindex(self) -> AsyncIndex:
        """Like `Array.vindex`: ``await array.vindex.getitem(selection)``."""
        return AsyncIndex(self.array, "vindex")

    @property
    def blocks(self) -> AsyncIndex:
        """Like `Array.blocks`: ``await array.blocks.getitem(selection)``."""
        return AsyncIndex(self.array, "blocks")

    # ---- changing

    async def resize(self, new_shape: Any) -> None:
        """Awaitable `Array.resize`."""
        await self._call("resize", new_shape)

    async def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Awaitable `Array.append`."""
        return cast(tuple[int, ...], await self._call("append", data, axis))

    # ---- stored data

    async def nchunks_initialized(self) -> int:
        """Number of stored chunks. Lists the store."""
        return cast(int, await awaited_of(self._node, lambda: self._node.nchunks_initialized))

    async def nbytes_stored(self) -> int:
        """Bytes of all stored objects of the array. Lists the store."""
        return cast(int, await self._call("nbytes_stored"))

    def with_config(self, config: Mapping[str, Any]) -> AsyncArray:
        """Return the same array with its own settings; see `Array.with_config`."""
        return AsyncArray(self.array.with_config(config))


class AsyncIndex:
    """Another way to index an array: ``oindex``, ``vindex`` or ``blocks``."""

    __slots__ = ("_array", "_kind")

    def __init__(self, array: Array, kind: str) -> None:
        self._array, self._kind = array, kind

    async def getitem(self, selection: Any) -> Any:
        """Read a selection."""
        return await awaited_of(self._array, getattr(self._array, self._kind).__getitem__, selection)

    async def setitem(self, selection: Any, value: Any) -> None:
        """Write to a selection."""
        await awaited_of(self._array, getattr(self._array, self._kind).__setitem__, selection, value)


class AsyncGroup(_Front):
    """A group with awaitable calls.

    Made by `hyperslab.open_async`, from a `Group`, and by an `AsyncGroup`. Members are `AsyncArray`
    and `AsyncGroup`.

    Examples
    --------
    >>> import asyncio, hyperslab as hs
    >>> group = hs.AsyncGroup(hs.create_group(hs.MemoryStore()))
    >>> async def names():
    ...     await group.create_array("a/b", shape=(2,), dtype="i4")
    ...     return [path async for path, _ in group.members(max_depth=None)]
    >>> asyncio.run(names())
    ['a', 'a/b']
    """

    __slots__ = ()

    def __init__(self, group: Group) -> None:
        self._node = group

    @property
    def group(self) -> Group:
        """The underlying `Group`."""
        return cast(Group, self._node)

    @classmethod
    async def open(cls, store: StoreLike, **options: Any) -> AsyncGroup:
        """Open an existing group, as `hyperslab.open_group` does."""
        return cls(await awaited(lambda: opening.open_group(store, **{"mode": "r+", **options})))

    zarr_format: Any = _fact("zarr_format")

    async def _made(self, name: str, *args: Any, **options: Any) -> Any:
        return _front(await self._call(name, *args, **options))

    async def _each(self, name: str, **options: Any) -> AsyncGenerator[Any, None]:
        """Yield what the node's iterator yields. One call lists everything."""
        method = getattr(self._node, name)
        for item in await awaited_of(self._node, lambda: list(method(**options))):
            yield (item[0], _front(item[1])) if isinstance(item, tuple) else _front(item)

    # ---- members

    async def getitem(self, path: str) -> AsyncArray | AsyncGroup:
        """Awaitable ``group[path]``."""
        return cast("AsyncArray | AsyncGroup", await self._made("__getitem__", path))

    async def setitem(self, path: str, value: Any) -> None:
        """Awaitable ``group[path] = value``."""
        await self._call("__setitem__", path, value)

    async def delitem(self, path: str) -> None:
        """Awaitable ``del group[path]``."""
        await self._call("__delitem__", path)

    async def contains(self, path: str) -> bool:
        """Awaitable ``path in group``."""
        return cast(bool, await self._call("__contains__", path))

    async def get(self, path: str, default: Any = None) -> Any:
        """Awaitable `Group.get`."""
        return await self._made("get", path, default)

    async def get_array(self, path: str) -> AsyncArray:
        """Awaitable `Group.get_array`."""
        return cast(AsyncArray, await self._made("get_array", path))

    async def get_group(self, path: str) -> AsyncGroup:
        """Awaitable `Group.get_group`."""
        return cast(AsyncGroup, await self._made("get_group", path))

    async def nmembers(self, max_depth: int | None = 0) -> int:
        """Awaitable `Group.nmembers`."""
        return cast(int, await self._call("nmembers", max_depth))

    def members(
        self, max_depth: int | None = 0, **options: Any
    ) -> AsyncGenerator[tuple[str, AsyncArray | AsyncGroup], None]:
        """Async iterator over `Group.members`."""
        return self._each("members", max_depth=max_depth, **options)

    def keys(self) -> AsyncGenerator[str, None]:
        """Async iterator over the names of all members."""
        return self._each("keys")

    def arrays(self) -> AsyncGenerator[tuple[str, AsyncArray], None]:
        """Async iterator over `Group.arrays`."""
        return self._each("arrays")

    def groups(self) -> AsyncGenerator[tuple[str, AsyncGroup], None]:
        """Async iterator over `Group.groups`."""
        return self._each("groups")

    def array_keys(self) -> AsyncGenerator[str, None]:
        """Async iterator over `Group.array_keys`."""
        return self._each("array_keys")

    def group_keys(self) -> AsyncGenerator[str, None]:
        """Async iterator over `Group.group_keys`."""
        return self._each("group_keys")

    def array_values(self) -> AsyncGenerator[AsyncArray, None]:
        """Async iterator over `Group.array_values`."""
        return self._each("array_values")

    def group_values(self) -> AsyncGenerator[AsyncGroup, None]:
        """Async iterator over `Group.group_values`."""
        return self._each("group_values")

    async def tree(self, **options: Any) -> Any:
        """Awaitable `Group.tree`."""
        return await self._call("tree", **options)

    # ---- changing

    async def create_array(self, name: str, **options: Any) -> AsyncArray:
        """Awaitable `Group.create_array`."""
        return cast(AsyncArray, await self._made("create_array", name, **options))

    async def create_group(self, name: str, **options: Any) -> AsyncGroup:
        """Awaitable `Group.create_group`."""
        return cast(AsyncGroup, await self._made("create_group", name, **options))

    async def require_array(self, name: str, **options: Any) -> AsyncArray:
        """Awaitable `Group.require_array`."""
        return cast(AsyncArray, await self._made("require_array", name, **options))

    async def require_group(self, name: str, **options: Any) -> AsyncGroup:
        """Awaitable `Group.require_group`."""
        return cast(AsyncGroup, await self._made("require_group", name, **options))

    async def require_groups(self, *names: str) -> tuple[AsyncGroup, ...]:
        """Awaitable `Group.require_groups`."""
        return tuple(_front(group) for group in await self._call("require_groups", *names))

    async def move(self, source: str, dest: str) -> None:
        """Awaitable `Group.move`."""
        await self._call("move", source, dest)

    async def consolidate(self) -> AsyncGroup:
        """Awaitable `Group.consolidate`."""
        return await self._same("consolidate")
