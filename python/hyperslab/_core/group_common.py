"""The methods that groups of all formats share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._core.arguments import (
    DEFAULT_FILL_VALUE,
    DEFAULT_ZERO,
    ChunksLike,
    ShapeLike,
    ShardsLike,
    ZarrFormat,
    array_like,
    normalize_dtype,
    normalize_shape,
)
from hyperslab._core.array import Array
from hyperslab._core.cache import Cache
from hyperslab._core.info import Info
from hyperslab._core.node import Node
from hyperslab._core.unreadable import UNREADABLE, UnreadableArray, reason_text
from hyperslab._stores.store import Store
from hyperslab.codecs import CodecLike, CodecsLike
from hyperslab.errors import (
    ArrayNotFoundError,
    ContainsArrayError,
    ContainsGroupError,
    GroupNotFoundError,
    InvalidArgumentError,
    NodeNotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from hyperslab._copy.copy import CopyReport
    from hyperslab._core.group import Group
    from hyperslab._create.advise import AccessLike
    from hyperslab._display.tree import Tree

__all__ = ["AnyGroup"]


class _Items(ItemsView[str, Any]):
    """Pairs of name and node, as `Group.get` returns it."""

    _mapping: AnyGroup

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._mapping._each()

    def __contains__(self, item: object) -> bool:
        name, value = cast("tuple[Any, Any]", item)
        return name in self._mapping and bool(self._mapping.get(name) == value)


class _Values(ValuesView[Any]):
    """Nodes, as `Group.get` returns them."""

    _mapping: AnyGroup

    def __iter__(self) -> Iterator[Any]:
        return (found for _, found in self._mapping._each())

    def __contains__(self, value: object) -> bool:
        return any(found is value or found == value for found in self)


class AnyGroup(_native.GroupBase, Node, MutableMapping[str, "Array | Group"]):
    """A group of any format: access to its nodes, and changes if the format can be written."""

    def __new__(cls, handle: Any, store: Store | None = None, cache: Cache | None = None) -> Self:
        if store is None:
            return cls._of_id(handle)
        self = super().__new__(cls, handle, store._read_only)
        self._store = store
        if cache is not None:
            self._cache = cache
        return self

    # ---- what it is

    @property
    def info(self) -> Info:
        """A description of the group, one fact per line."""
        raise NotImplementedError

    def info_complete(self) -> Info:
        """Return `info` plus the number of nodes below. Lists the store."""
        kinds = [kind for _, kind in self._walk(None)]
        counts = {
            "No. members": len(kinds),
            "No. arrays": kinds.count("array"),
            "No. groups": kinds.count("group"),
        }
        return Info({**self.info.to_dict(), **counts})

    # ---- nodes in it

    def _node(self, handle: Any) -> Any:
        """Return the node for a handle from this group."""
        raise NotImplementedError

    def __getitem__(self, path: str) -> Array | Group:
        try:
            return cast("Array | Group", self._node(self._child(path)))
        except NodeNotFoundError:
            raise KeyError(path) from None

    def __setitem__(self, path: str, value: Any) -> None:
        """Create an array from values, replacing an existing node.

        Raises `TypeError` for values that cannot become an array: a group, a dictionary, ``None``.
        """
        from hyperslab._create import new

        self.create_array(path, data=new.with_type(array_like(path, value)), overwrite=True)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Create several arrays, as ``group[path] = values`` does.

        All names, data types and layouts are checked before the first array is created.
        """
        from hyperslab._create import new

        self._check_writable()
        new.create_each(self, dict(*args, **kwargs))

    def __delitem__(self, path: str) -> None:
        try:
            self._delete_child(path)
        except NodeNotFoundError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        return iter([path for path, _ in self._walk(1)])

    def __len__(self) -> int:
        return len(self._walk(1))

    def __bool__(self) -> bool:
        return True

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        try:
            return self._child_kind(path) is not None
        except InvalidArgumentError:
            return False

    def get(self, path: str, default: Any = None) -> Any:
        """Return the node at a path, or ``default`` if there is none.

        A node that cannot be opened is returned as an `UnreadableArray`.
        """
        try:
            return self._member(path)
        except (KeyError, InvalidArgumentError):
            return default

    def items(self) -> ItemsView[str, Any]:
        """Return the names and nodes directly below, as `get` returns them."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """Return the nodes directly below, as `get` returns them."""
        return _Values(self)

    def _each(self) -> Iterator[tuple[str, Any]]:
        return ((name, self._member(name)) for name in self)

    def get_array(self, path: str) -> Array:
        """Return the array at a path.

        Raises `ArrayNotFoundError` (a ``FileNotFoundError``) if there is nothing, and
        `ContainsGroupError` (a ``ValueError``) if there is a group.
        """
        node = self._found(path, "array", ArrayNotFoundError)
        if not isinstance(node, Array):
            raise ContainsGroupError(f"{path!r} in {self!r} is a group, not an array")
        return node

    def get_group(self, path: str) -> Group:
        """Return the group at a path.

        Raises `GroupNotFoundError` (a ``FileNotFoundError``) if there is nothing, and
        `ContainsArrayError` (a ``ValueError``) if there is an array.
        """
        node = self._found(path, "group", GroupNotFoundError)
        if not isinstance(node, AnyGroup):
            raise ContainsArrayError(f"{path!r} in {self!r} is an array, not a group")
        return cast("Group", node)

    def _found(self, path: str, what: str, missing: type[NodeNotFoundError]) -> Any:
        try:
            return self[path]
        except KeyError:
            raise missing(f"there is no {what} {path!r} in {self!r}") from None

    def members(
        self, max_depth: int | None = 0, *, use_consolidated_for_children: bool = True
    ) -> tuple[tuple[str, Array | Group], ...]:
        """Return the nodes below, with their paths relative to this group.

        A node that cannot be opened is returned as an `UnreadableArray`.

        Parameters
        ----------
        max_depth : int or None, default 0
            0: the direct children; ``None``: all nodes.
        use_consolidated_for_children : bool, default True
            Whether groups below may show their own consolidated metadata. (Groups below a
            consolidated group always show its metadata.)
        """
        fresh = not use_consolidated_for_children and not self._is_consolidated
        return tuple((path, node()) for path, _, node in self._listed(_levels(max_depth), fresh))

    def _listed(self, depth: int | None, fresh: bool = False) -> list[tuple[str, str, Callable[[], Any]]]:
        """Return path, kind and opener of each node below. Remote listings hold the nodes."""
        if not self._is_far:
            return [
                (path, kind, partial(self._member, path, fresh and kind == "group"))
                for path, kind in self._walk(depth)
            ]
        return [
            (path, kind, partial(self._as_found, path, handle, error, fresh and kind == "group"))
            for path, kind, handle, error in self._opened(depth)
        ]

    def _children(self, kind: str, names: Callable[[], Iterator[str]]) -> Iterator[tuple[str, Any]]:
        """Yield names and nodes of one kind directly below."""
        if not self._is_far:
            return ((name, self._member(name)) for name in names())
        return ((name, node()) for name, found, node in self._listed(1) if found == kind)

    def _as_found(self, path: str, handle: Any, error: Exception | None, fresh: bool) -> Any:
        if isinstance(error, UNREADABLE):
            return UnreadableArray(self, path, error)
        return self._member(path, fresh) if fresh or error else self._node(handle)

    def _member(self, path: str, fresh: bool = False) -> Any:
        """Return the node at a listed path, or an `UnreadableArray` if it cannot be opened.

        ``fresh``: ignore consolidated metadata.
        """
        try:
            if fresh:
                return self._node(_native.open_node(self._store._native, self._path_of(path), None, False))
            return self[path]
        except UNREADABLE as error:
            return UnreadableArray(self, path, error)

    def nmembers(self, max_depth: int | None = 0) -> int:
        """Return the number of nodes below; ``max_depth`` is as in `members`."""
        return len(self._walk(_levels(max_depth)))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield names and arrays directly below; an `UnreadableArray` if one cannot be opened."""
        return self._children("array", self.array_keys)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield names and groups directly below; an `UnreadableArray` if one cannot be opened."""
        return self._children("group", self.group_keys)

    def array_keys(self) -> Iterator[str]:
        """Yield the names of arrays directly below."""
        return iter([path for path, kind in self._walk(1) if kind == "array"])

    def group_keys(self) -> Iterator[str]:
        """Yield the names of groups directly below."""
        return iter([path for path, kind in self._walk(1) if kind == "group"])

    def array_values(self) -> Iterator[Array]:
        """Yield the arrays directly below."""
        return (node for _, node in self.arrays())

    def group_values(self) -> Iterator[Group]:
        """Yield the groups directly below."""
        return (node for _, node in self.groups())

    def tree(
        self, expand: object = None, level: int | None = None, *, max_nodes: int = 500, plain: bool = True
    ) -> Tree:
        """Return the hierarchy below as a printable tree.

        Parameters
        ----------
        expand
            Refused, as in zarr-python.
        level : int, optional
            Levels to show below the direct children; 0: only these. Default: all.
        max_nodes : int, default 500
            Maximum number of nodes to show. A note says if there are more.
        plain : bool, default True
            Whether to print plain text. Otherwise names are bold, for terminals.
        """
        from hyperslab._display.tree import Tree

        if expand is not None:
            raise UnsupportedError("expand: trees are always shown in full, down to 'level'")
        nodes = self._listed(_levels(level, "level"))
        note = (
            f"Truncated at max_nodes={max_nodes}, some nodes and their children may be missing"
            if len(nodes) > max_nodes
            else ""
        )
        facts = []
        for path, kind, found in nodes[:max_nodes]:
            node = found() if kind == "array" else None
            if isinstance(node, UnreadableArray):
                facts.append((path, f"unreadable: {reason_text(node.error)}"))
            else:
                facts.append((path, f"{node.shape} {node._shown_dtype}" if isinstance(node, Array) else ""))
        return Tree(self.name, facts, note, plain)

    # ---- changing

    def create_group(
        self, name: str, *, overwrite: bool = False, attributes: Mapping[str, Any] | None = None
    ) -> Group:
        """Create a group below this one; see `hyperslab.create_group`."""
        from hyperslab._create import new

        self._check_writable()
        created = new.create_group(
            self._store,
            path=self._path_of(name),
            zarr_format=cast(ZarrFormat, self._zarr_format),
            overwrite=overwrite,
            attributes=attributes,
        )
        if self._is_consolidated:
            self._notice(name)
            return self.get_group(name)
        return cast("Group", self._node(created._handle))

    def create_array(
        self,
        name: str,
        *,
        shape: ShapeLike | None = None,
        dtype: npt.DTypeLike | None = None,
        data: Any = None,
        chunks: ChunksLike = "auto",
        shards: ShardsLike = None,
        filters: CodecsLike = "auto",
        compressors: CodecsLike = "auto",
        compressor: CodecsLike = "auto",
        serializer: CodecLike | Literal["auto"] = "auto",
        object_codec: CodecLike | None = None,
        fill_value: Any = DEFAULT_FILL_VALUE,
        order: Literal["C", "F"] | None = None,
        attributes: Mapping[str, Any] | None = None,
        chunk_key_encoding: Any = None,
        dimension_names: Iterable[str | None] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        config: Any = None,
        write_data: bool = True,
        access: AccessLike | None = None,
    ) -> Array:
        """Create an array below this group.

        Takes the arguments of `hyperslab.create_array`. The format is the group's. ``compressor``
        is an older name of ``compressors``.
        """
        from hyperslab._create import new

        self._check_writable()
        if not (isinstance(compressor, str) and compressor == "auto"):
            if not (isinstance(compressors, str) and compressors == "auto"):
                raise InvalidArgumentError("compressor and compressors: give one of them, not both")
            compressors = compressor
        created = new.create_array(
            self._store,
            name=self._path_of(name),
            shape=shape,
            dtype=dtype,
            data=data,
            chunks=chunks,
            shards=shards,
            filters=filters,
            compressors=compressors,
            serializer=serializer,
            object_codec=object_codec,
            fill_value=fill_value,
            order=order,
            zarr_format=cast(ZarrFormat, self._zarr_format),
            attributes=attributes,
            chunk_key_encoding=chunk_key_encoding,
            dimension_names=dimension_names,
            storage_options=storage_options,
            overwrite=overwrite,
            config=config,
            write_data=write_data,
            access=access,
        )
        self._notice(name, created._handle)
        return created if created.cache or not self._cache else created.with_config({"cache": self._cache})

    create = create_array

    def require_group(
        self, name: str, *, overwrite: bool = False, attributes: Mapping[str, Any] | None = None
    ) -> Group:
        """Return the group of this name, creating it if it is missing.

        Raises `TypeError` if there is an array.
        """
        if name not in self or overwrite:
            return self.create_group(name, overwrite=overwrite, attributes=attributes)
        node = self[name]
        if not isinstance(node, AnyGroup):
            raise TypeError(f"{name!r} is an array, not a group")
        return node

    def require_groups(self, *names: str) -> tuple[Group, ...]:
        """Call `require_group` for several names."""
        return tuple(self.require_group(name) for name in names)

    def require_array(
        self,
        name: str,
        *,
        shape: Any,
        dtype: npt.DTypeLike | None = None,
        exact: bool = False,
        config: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Return the array of this name, creating it if it is missing.

        Raises
        ------
        TypeError
            If there is a group, or an array with another shape, or one whose type cannot be cast
            safely to ``dtype`` (with ``exact``: one with another type).
        """
        unknown = sorted(set(kwargs) - set(inspect.signature(self.create_array).parameters))
        if unknown:
            raise TypeError(f"require_array() got an unexpected keyword argument {unknown[0]!r}")
        if name not in self:
            dtype = "f8" if dtype is None and kwargs.get("object_codec") is None else dtype
            return self.create_array(name, shape=shape, dtype=dtype, config=config, **kwargs)
        found = self[name]
        if not isinstance(found, Array):
            raise TypeError(f"{name!r} is a group, not an array")
        if config is not None:
            found = found.with_config(config)
        wanted = normalize_shape(shape)
        if found.shape != wanted:
            raise TypeError(f"Incompatible shape ({found.shape} vs {wanted})")
        # zarr-python 2 uses object for any kind of objects.
        if dtype is not None and not (dtype in (object, "O", "|O") and found.dtype == object):
            dtype = normalize_dtype(dtype)
            fits = found.dtype == dtype if exact else np.can_cast(found.dtype, dtype)
            if not fits:
                raise TypeError(f"Incompatible dtype ({found.dtype} vs {dtype})")
        return found

    def empty(self, *, name: str, shape: Any, **kwargs: Any) -> Array:
        """Create an array of its fill value (default: zeros) below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, **kwargs)

    def zeros(self, *, name: str, shape: Any, **kwargs: Any) -> Array:
        """Create an array of zeros (the fill value) below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=DEFAULT_ZERO, **kwargs)

    def ones(self, *, name: str, shape: Any, **kwargs: Any) -> Array:
        """Create an array of ones (the fill value) below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=1, **kwargs)

    def full(self, *, name: str, shape: Any, fill_value: Any, **kwargs: Any) -> Array:
        """Create an array with this fill value below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=fill_value, **kwargs)

    def empty_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """Same as `hyperslab.empty_like`, below this group."""
        return self._like("empty_like", name, data, kwargs)

    def zeros_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """Same as `hyperslab.zeros_like`, below this group."""
        return self._like("zeros_like", name, data, kwargs)

    def ones_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """Same as `hyperslab.ones_like`, below this group."""
        return self._like("ones_like", name, data, kwargs)

    def full_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """Same as `hyperslab.full_like`, below this group."""
        return self._like("full_like", name, data, kwargs)

    def _like(self, function: str, name: str, data: Any, arguments: dict[str, Any]) -> Array:
        from hyperslab._create import new_like

        self._check_writable()
        self._check_format(arguments.pop("zarr_format", None))
        created: Array = getattr(new_like, function)(
            data,
            store=self._store,
            path=self._path_of(name),
            zarr_format=self._zarr_format,
            **arguments,
        )
        self._notice(name, created._handle)
        return created

    def create_hierarchy(
        self, nodes: Mapping[str, Any], *, overwrite: bool = False
    ) -> Iterator[tuple[str, Array | Group]]:
        """Create arrays and groups below from metadata; see `hyperslab.create_hierarchy`."""
        from hyperslab._create import hierarchy

        self._check_writable()
        if any(not path.strip("/") for path in nodes):
            raise InvalidArgumentError("nodes: expected paths below this group, found the group itself")
        made = hierarchy.create_below(self._store, self.path, nodes, overwrite)
        for path, _ in made:
            if path:
                self._notice(path)
        return ((path, node) for path, node in made if path)

    def copy(self, source: str, dest: AnyGroup | str, name: str | None = None, **options: Any) -> CopyReport:
        """Copy a node of this group; see `hyperslab.copy`.

        Parameters
        ----------
        source : str
            The node's path.
        dest : str or Group
            The path of the copy in this group, or another group.
        name : str, optional
            The path of the copy in the other group. Default: the node's name.
        **options
            As in `hyperslab.copy`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> g = hs.create_group(hs.MemoryStore())
        >>> g["a"] = [1, 2]
        >>> g.copy("a", "b/c").arrays, g["b/c"][:]
        (1, array([1, 2]))
        """
        from hyperslab._copy.copy import copy

        if isinstance(dest, str):
            if name is not None:
                raise InvalidArgumentError("name: for another group; dest is a path already")
            target, name = self, dest
        else:
            target = dest
        target._check_writable()
        report = copy(self[source], cast("Group", target), name, **options)
        target._notice(self[source].basename if name is None else name)
        return report

    def move(self, source: str, dest: str) -> None:
        """Move a node and everything below it to another path in this group.

        On disk, a directory is renamed. In other stores, and in a group with consolidated metadata,
        each object is copied. Nobody may write to the node meanwhile. Arrays opened before the move
        keep the old path.

        Parameters
        ----------
        source, dest : str
            Paths in this group. Missing groups above ``dest`` are created.

        Raises
        ------
        NodeNotFoundError
            If there is nothing at ``source``.
        DestinationError
            If there is something at ``dest``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> g = hs.create_group(hs.MemoryStore())
        >>> g["a"] = [1, 2]
        >>> g.move("a", "b/c")
        >>> list(g), g["b/c"][:]
        (['b'], array([1, 2]))
        """
        from hyperslab._create import hierarchy

        hierarchy.move(self, source, dest)

    def consolidate(self) -> Self:
        """Store the metadata of all nodes below with this group. Returns the group.

        Opening the group and all its nodes then needs one read.
        """
        self._consolidate()
        return self

    def _check_format(self, zarr_format: int | None) -> None:
        """Refuse a format that is not the group's."""
        if zarr_format is not None and zarr_format != self._zarr_format:
            raise InvalidArgumentError(
                f"zarr_format: a group of format {self._zarr_format} has no arrays of format {zarr_format}"
            )

    def _path_of(self, name: str) -> str:
        relative = "/".join(part for part in str(name).split("/") if part)
        if not relative:
            raise InvalidArgumentError(f"name: a node needs a name, found {name!r}")
        return f"{self.path}/{relative}" if self.path else relative

    # ---- Python protocols

    def __repr__(self) -> str:
        return f"<Group {self._store.url}/{self.path}>" if self.path else f"<Group {self._store.url}>"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def _repr_html_(self) -> str:
        from hyperslab._core.group_facts import html_of

        return html_of(self)


def _levels(most: int | None, name: str = "max_depth") -> int | None:
    """Convert a depth that counts from 0 to a number of levels."""
    if most is None:
        return None
    if most < 0:
        raise InvalidArgumentError(f"{name}: expected 0 or more, or None, found {most}")
    return most + 1
