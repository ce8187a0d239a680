"""What groups of all formats have."""

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
from hyperslab._core.unreadable import UNREADABLE, UnreadableArray, why
from hyperslab._display.tree import Tree
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

__all__ = ["AnyGroup"]


class _Items(ItemsView[str, Any]):
    """Names and what `Group.get` has for them."""

    _mapping: AnyGroup

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._mapping._each()

    def __contains__(self, item: object) -> bool:
        name, value = cast("tuple[Any, Any]", item)
        return name in self._mapping and bool(self._mapping.get(name) == value)


class _Values(ValuesView[Any]):
    """What `Group.get` has for each name."""

    _mapping: AnyGroup

    def __iter__(self) -> Iterator[Any]:
        return (found for _, found in self._mapping._each())

    def __contains__(self, value: object) -> bool:
        return any(found is value or found == value for found in self)


class AnyGroup(_native.GroupBase, Node, MutableMapping[str, "Array | Group"]):
    """A group of any format: what is below it, and changing that where the format is written."""

    def __new__(cls, handle: _native.GroupHandle, store: Store, cache: Cache | None = None) -> Self:
        self = super().__new__(cls, handle, store.read_only)
        self._store = store
        if cache is not None:
            self._cache = cache
        return self

    # ---- what it is

    @property
    def info(self) -> Info:
        """What it is, one fact per line."""
        raise NotImplementedError

    def info_complete(self) -> Info:
        """`info`, and how many nodes are below. Lists the store."""
        kinds = [kind for _, kind in self._walk(None)]
        counts = {
            "No. members": len(kinds),
            "No. arrays": kinds.count("array"),
            "No. groups": kinds.count("group"),
        }
        return Info({**self.info.to_dict(), **counts})

    # ---- nodes in it

    def _node(self, handle: Any) -> Any:
        """What a handle of something below is for."""
        raise NotImplementedError

    def __getitem__(self, path: str) -> Array | Group:
        try:
            return cast("Array | Group", self._node(self._child(path)))
        except NodeNotFoundError:
            raise KeyError(path) from None

    def __setitem__(self, path: str, value: Any) -> None:
        """Create an array of these values, in the place of what is there.

        Raises `TypeError` for what is no array and does not make one: a group, a dictionary, ``None``.
        """
        from hyperslab._core.arguments import new

        self.create_array(path, data=new.with_type(array_like(path, value)), overwrite=True)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Create several arrays, as ``group[path] = values`` does.

        Names, data types and layouts of all are checked before the first is created.
        """
        from hyperslab._core.arguments import new

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
        """The node at a path, ``default`` where there is nothing; an `UnreadableArray` where there is a node
        that cannot be opened.
        """
        try:
            return self._member(path)
        except (KeyError, InvalidArgumentError):
            return default

    def items(self) -> ItemsView[str, Any]:
        """Names and nodes directly below, as `get` has them."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """Nodes directly below, as `get` has them."""
        return _Values(self)

    def _each(self) -> Iterator[tuple[str, Any]]:
        return ((name, self._member(name)) for name in self)

    def get_array(self, path: str) -> Array:
        """The array at a path.

        Raises `ArrayNotFoundError` (a ``FileNotFoundError``) where there is nothing, `ContainsGroupError` (a
        ``ValueError``) where there is a group.
        """
        node = self._found(path, "array", ArrayNotFoundError)
        if not isinstance(node, Array):
            raise ContainsGroupError(f"{path!r} in {self!r} is a group, not an array")
        return node

    def get_group(self, path: str) -> Group:
        """The group at a path.

        Raises `GroupNotFoundError` (a ``FileNotFoundError``) where there is nothing, `ContainsArrayError` (a
        ``ValueError``) where there is an array.
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
        """Nodes below, with their paths relative to this group.

        A node that cannot be opened is among them as an `UnreadableArray`.

        Parameters
        ----------
        max_depth : int or None, default 0
            0: the direct children; ``None``: all nodes.
        use_consolidated_for_children : bool, default True
            Whether groups below may show their own consolidated metadata. (Those of a consolidated group
            always show what that says.)
        """
        fresh = not use_consolidated_for_children and not self._is_consolidated
        return tuple((path, node()) for path, _, node in self._listed(_levels(max_depth), fresh))

    def _listed(self, depth: int | None, fresh: bool = False) -> list[tuple[str, str, Callable[[], Any]]]:
        """Paths and kinds of nodes below, and what opens each. In a far store nodes come with the listing."""
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
        """Names and nodes directly below, of one kind."""
        if not self._is_far:
            return ((name, self._member(name)) for name in names())
        return ((name, node()) for name, found, node in self._listed(1) if found == kind)

    def _as_found(self, path: str, handle: Any, error: Exception | None, fresh: bool) -> Any:
        if isinstance(error, UNREADABLE):
            return UnreadableArray(self, path, error)
        return self._member(path, fresh) if fresh or error else self._node(handle)

    def _member(self, path: str, fresh: bool = False) -> Any:
        """The node at a path that was listed; of one that cannot be read, what is known of it. ``fresh``:
        without consolidated metadata.
        """
        try:
            if fresh:
                return self._node(_native.open_node(self._store._native, self._path_of(path), None, False))
            return self[path]
        except UNREADABLE as error:
            return UnreadableArray(self, path, error)

    def nmembers(self, max_depth: int | None = 0) -> int:
        """How many nodes are below; ``max_depth`` as in `members`."""
        return len(self._walk(_levels(max_depth)))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Names and arrays directly below; an `UnreadableArray` for each that cannot be opened."""
        return self._children("array", self.array_keys)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Names and groups directly below; an `UnreadableArray` for each that cannot be opened."""
        return self._children("group", self.group_keys)

    def array_keys(self) -> Iterator[str]:
        """Names of arrays directly below."""
        return iter([path for path, kind in self._walk(1) if kind == "array"])

    def group_keys(self) -> Iterator[str]:
        """Names of groups directly below."""
        return iter([path for path, kind in self._walk(1) if kind == "group"])

    def array_values(self) -> Iterator[Array]:
        """Arrays directly below."""
        return (node for _, node in self.arrays())

    def group_values(self) -> Iterator[Group]:
        """Groups directly below."""
        return (node for _, node in self.groups())

    def tree(
        self, expand: object = None, level: int | None = None, *, max_nodes: int = 500, plain: bool = True
    ) -> Tree:
        """The hierarchy below as a tree, to be printed.

        Parameters
        ----------
        expand
            Refused, as in zarr-python.
        level : int, optional
            How many levels below the direct children, for which it is 0; all by default.
        max_nodes : int, default 500
            Further nodes are left out, with a note.
        plain : bool, default True
            Whether to print plain text; otherwise names are bold, for terminals.
        """
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
                facts.append((path, f"unreadable: {why(node.error)}"))
            else:
                facts.append((path, f"{node.shape} {node._shown_dtype}" if isinstance(node, Array) else ""))
        return Tree(self.name, facts, note, plain)

    # ---- changing

    def create_group(
        self, name: str, *, overwrite: bool = False, attributes: Mapping[str, Any] | None = None
    ) -> Group:
        """Create a group below this one; see `hyperslab.create_group`."""
        from hyperslab._core.arguments import new

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

        Arguments are those of `hyperslab.create_array`; the format is the group's. ``compressor`` is an older
        name of ``compressors``.
        """
        from hyperslab._core.arguments import new

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
        """The group of this name, created where it is missing. Raises `TypeError` where there is an array."""
        if name not in self or overwrite:
            return self.create_group(name, overwrite=overwrite, attributes=attributes)
        node = self[name]
        if not isinstance(node, AnyGroup):
            raise TypeError(f"{name!r} is an array, not a group")
        return node

    def require_groups(self, *names: str) -> tuple[Group, ...]:
        """`require_group` for several names."""
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
        """The array of this name, created where it is missing.

        Raises
        ------
        TypeError
            Where there is a group, or an array of another shape, or of a type to which ``dtype`` cannot be
            cast safely (``exact``: of another type).
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
        # Any objects, as zarr-python 2 says it.
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
        """Create an array of zeros (as its fill value) below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=DEFAULT_ZERO, **kwargs)

    def ones(self, *, name: str, shape: Any, **kwargs: Any) -> Array:
        """Create an array of ones (as its fill value) below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=1, **kwargs)

    def full(self, *, name: str, shape: Any, fill_value: Any, **kwargs: Any) -> Array:
        """Create an array with this fill value below this group."""
        self._check_format(kwargs.pop("zarr_format", None))
        kwargs.setdefault("dtype", "f8")
        return self.create_array(name, shape=shape, fill_value=fill_value, **kwargs)

    def empty_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """`hyperslab.empty_like`, below this group."""
        return self._like("empty_like", name, data, kwargs)

    def zeros_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """`hyperslab.zeros_like`, below this group."""
        return self._like("zeros_like", name, data, kwargs)

    def ones_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """`hyperslab.ones_like`, below this group."""
        return self._like("ones_like", name, data, kwargs)

    def full_like(self, *, name: str, data: Any, **kwargs: Any) -> Array:
        """`hyperslab.full_like`, below this group."""
        return self._like("full_like", name, data, kwargs)

    def _like(self, function: str, name: str, data: Any, arguments: dict[str, Any]) -> Array:
        from hyperslab._core.arguments import new_like

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
        """Create arrays and groups below this one from their metadata; see `hyperslab.create_hierarchy`."""
        from hyperslab._core.arguments import hierarchy

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
            Its path.
        dest : str or Group
            The path of the copy in this group, or another group.
        name : str, optional
            The path of the copy in another group. Default: its name here.
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
        """Move a node, with all below it, to another path in this group.

        On disk a directory gets another name; in other stores, and in a group that shows consolidated
        metadata, each object is copied. Nobody may write to it meanwhile; arrays that were opened before have
        the old path.

        Parameters
        ----------
        source, dest : str
            Paths in this group. Groups that are missing above ``dest`` are created.

        Raises
        ------
        NodeNotFoundError
            Where nothing is at ``source``.
        DestinationError
            Where something is at ``dest``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> g = hs.create_group(hs.MemoryStore())
        >>> g["a"] = [1, 2]
        >>> g.move("a", "b/c")
        >>> list(g), g["b/c"][:]
        (['b'], array([1, 2]))
        """
        from hyperslab._core.arguments import hierarchy

        hierarchy.move(self, source, dest)

    def consolidate(self) -> Self:
        """Store the metadata of all nodes below with this group, so that opening needs one read; returns
        the group.
        """
        self._consolidate()
        return self

    def _check_format(self, zarr_format: int | None) -> None:
        """Refuses another format than that of this group."""
        if zarr_format is not None and zarr_format != self._zarr_format:
            raise InvalidArgumentError(
                f"zarr_format: a group of format {self._zarr_format} has no arrays of format {zarr_format}"
            )

    def _path_of(self, name: str) -> str:
        relative = "/".join(part for part in str(name).split("/") if part)
        if not relative:
            raise InvalidArgumentError(f"name: a node needs a name, found {name!r}")
        return f"{self.path}/{relative}" if self.path else relative

    # ---- what Python asks

    def __repr__(self) -> str:
        return f"<Group {self._store.url}/{self.path}>" if self.path else f"<Group {self._store.url}>"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def _repr_html_(self) -> str:
        return self.tree(max_nodes=100)._repr_html_()


def _levels(most: int | None, name: str = "max_depth") -> int | None:
    """How many levels to walk, of a number that is 0 for one."""
    if most is None:
        return None
    if most < 0:
        raise InvalidArgumentError(f"{name}: expected 0 or more, or None, found {most}")
    return most + 1
