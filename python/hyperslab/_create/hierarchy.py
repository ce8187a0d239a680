"""Whole hierarchies: creating them from metadata, and moving nodes in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from hyperslab import _native
from hyperslab._core.group import Group, node_of
from hyperslab._create.place import join_path, place_of
from hyperslab._stores.store import LocalStore, MemoryStore, Store, StoreLike
from hyperslab.errors import (
    ContainsArrayError,
    ContainsGroupError,
    DestinationError,
    InvalidArgumentError,
    NodeNotFoundError,
)

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._core.group_common import AnyGroup

__all__ = ["create_below", "create_hierarchy", "move", "tree"]

Nodes = Mapping[str, Any]

# The objects that make nodes.
_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")


def create_hierarchy(
    *, store: StoreLike, nodes: Nodes, overwrite: bool = False
) -> Iterator[tuple[str, Array | Group]]:
    """Create arrays and groups from their metadata.

    All documents are checked before the first one is stored.

    Parameters
    ----------
    store : store
        As in `open`.
    nodes : mapping
        Metadata by path: ``array.metadata`` and ``group.metadata``, also zarr-python's, or
        documents as dictionaries. All must have the same format. The root is ``""``. Missing groups
        above a node are created.
    overwrite : bool, default False
        Whether to replace existing nodes.

    Yields
    ------
    tuple of str and Array or Group
        Paths and nodes, parents before children.

    Raises
    ------
    ContainsArrayError, ContainsGroupError
        If a node exists and ``overwrite`` is false.

    Examples
    --------
    >>> import hyperslab as hs
    >>> like = hs.zeros((4,), chunks=(2,), dtype="i4").metadata
    >>> made = dict(hs.create_hierarchy(store=hs.MemoryStore(), nodes={"ocean/sst": like}))
    >>> list(made), made["ocean/sst"].chunks
    (['', 'ocean', 'ocean/sst'], (2,))
    """
    place, base = place_of(store, None, "a")
    return iter(create_below(place, base, nodes, overwrite))


def create_below(place: Store, base: str, nodes: Nodes, overwrite: bool) -> list[tuple[str, Array | Group]]:
    """Implement `create_hierarchy` below a path of a store."""
    documents = {_normalize(path): _document(node) for path, node in nodes.items()}
    if len(documents) != len(nodes):
        raise InvalidArgumentError("nodes: two paths name the same node")
    if not documents:
        return []
    formats = {int(document.get("zarr_format", 0)) for document in documents.values()}
    if len(formats) != 1:
        raise InvalidArgumentError(f"nodes: expected one format, found {sorted(formats)}")
    zarr_format = formats.pop()
    given = list(documents)
    for path in given:
        for above in _parents(path):
            documents.setdefault(above, {"zarr_format": zarr_format, "node_type": "group", "attributes": {}})
            if _is_array(documents[above]):
                raise InvalidArgumentError(f"nodes: {path!r} is below the array {above!r}")
    texts = {path: _texts(document, zarr_format) for path, document in sorted(documents.items())}
    for path, named in texts.items():
        _check(path, named, zarr_format)
    kinds = {path: _kind_at(place, join_path(base, path)) for path in texts}
    implied = {path for path in texts if path not in given}
    for above in [*_parents(base), *(join_path(base, path) for path in implied)]:
        _check_above(place, above, zarr_format)
    if not overwrite:
        for path, kind in kinds.items():
            if kind == "array":
                raise ContainsArrayError(
                    f"there already is an array at {join_path(base, path)!r} in {place.url}"
                )
            if kind == "group" and path not in implied:
                raise ContainsGroupError(
                    f"there already is a group at {join_path(base, path)!r} in {place.url}"
                )
    made = []
    for path, named in texts.items():
        full = join_path(base, path)
        if kinds[path] is None:
            _store_new(place, full, named, must_be_new=not overwrite and path not in implied)
        elif path not in implied:
            _replace(place, full, named, zarr_format)
        made.append((path, node_of(_native.open_node(place._native, full, zarr_format, False), place)))
    return made


def _replace(place: Store, path: str, named: Mapping[str, bytes], zarr_format: int) -> None:
    """Replace an existing node by a node without elements, in one step."""
    place._writable()

    def fill(beside: _native.StoreHandle) -> None:
        # The new node is a group at first.
        if ".zarray" in named:
            beside.delete(".zgroup")
        for name, text in named.items():
            beside.set(name, text)

    _native.create_group(place._native, path, zarr_format, "{}", True, fill)


def _store_new(place: Store, path: str, named: Mapping[str, bytes], must_be_new: bool) -> None:
    """Store the documents of a new node.

    A concurrent writer loses nothing: the first document makes the node, and only one writer
    creates it.
    """
    (node, text), *rest = named.items()
    place._writable()
    if not place._native.set_new(join_path(path, node), text):
        kind = _kind_at(place, path)
        if must_be_new or kind == "array":
            error = ContainsArrayError if kind == "array" else ContainsGroupError
            raise error(f"there already is a node at {path!r} in {place.url}: it was made meanwhile")
        return
    for name, text in rest:
        place.set(join_path(path, name), text)


def _normalize(path: str) -> str:
    return "/".join(part for part in path.split("/") if part)


def _parents(path: str) -> list[str]:
    """Return the root and the groups on the way to a node."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))] if path else []


def _document(node: Any) -> dict[str, Any]:
    """Return a metadata document as a dictionary."""
    found = node.to_dict() if hasattr(node, "to_dict") else node
    if not isinstance(found, Mapping):
        raise TypeError(f"nodes: expected metadata, found {type(node).__name__}")
    plain: dict[str, Any] = json.loads(json.dumps(dict(found), default=_to_json))
    return {name: value for name, value in plain.items() if name != "consolidated_metadata"}


def _to_json(value: Any) -> Any:
    """Return JSON values for objects in zarr-python's dictionaries: codecs, enumerations."""
    for method in ("to_dict", "get_config"):
        if hasattr(value, method):
            return getattr(value, method)()
    if hasattr(value, "value"):
        return value.value
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"nodes: {type(value).__name__} is nothing that metadata can hold")


def _is_array(document: Mapping[str, Any]) -> bool:
    return "shape" in document or document.get("node_type") == "array"


def _texts(document: dict[str, Any], zarr_format: int) -> dict[str, bytes]:
    """Return the objects of a document with their texts. The first makes the node appear."""
    if zarr_format == 3:
        return {"zarr.json": _text(document)}
    attributes = document.pop("attributes", None) or {}
    document.pop("node_type", None)
    named = {".zarray" if _is_array(document) else ".zgroup": _text(document)}
    return {**named, ".zattrs": _text(attributes)} if attributes else named


def _text(document: Any) -> bytes:
    return json.dumps(document, indent=2, allow_nan=True).encode()


def _check(path: str, named: Mapping[str, bytes], zarr_format: int) -> None:
    """Open a node in a temporary memory store, to raise errors in its documents."""
    trial = MemoryStore()
    for name, text in named.items():
        trial.set(join_path(path, name), text)
    _native.open_node(trial._native, path, zarr_format, False)
    _check_name(path, zarr_format)


def _check_name(path: str, zarr_format: int) -> None:
    """Raise `InvalidArgumentError` if a path is not valid for a node."""
    if path:
        _native.create_group(MemoryStore()._native, path, zarr_format, "{}", False)


def _check_above(place: Store, path: str, zarr_format: int) -> None:
    """Refuse parents that cannot hold nodes of this format: arrays, groups of the other format."""
    kind = _kind_at(place, path)
    if kind == "array":
        raise ContainsArrayError(f"there is an array at {path!r} in {place.url}: it cannot hold other nodes")
    if kind is not None and _kind_at(place, path, zarr_format) is None:
        raise ContainsGroupError(
            f"the group at {path!r} in {place.url} cannot hold nodes of Zarr v{zarr_format}: it has another "
            "format"
        )


def _kind_at(place: Store, path: str, zarr_format: int | None = None) -> Literal["array", "group"] | None:
    try:
        found = _native.open_node(place._native, path, zarr_format, False)
    except NodeNotFoundError:
        return None
    return "array" if isinstance(found, _native.ArrayHandle) else "group"


def move(group: AnyGroup, source: str, dest: str) -> None:
    """Implement `Group.move`."""
    group._check_writable()
    old, new = group._path_of(source), group._path_of(dest)
    if source not in group:
        raise NodeNotFoundError(f"there is no array or group at {old!r} in {group.store.url}")
    if f"{new}/".startswith(f"{old}/"):
        raise InvalidArgumentError(f"dest: {dest!r} is {source!r} itself or below it")
    _check_name(new, group._zarr_format)
    if not group.store._native.is_empty(new):
        raise DestinationError(f"cannot move to {new!r} in {group.store.url}: something is there")
    parent = dest.strip("/").rpartition("/")[0]
    if parent:
        group.require_group(parent)
    store = group.store
    if isinstance(store, LocalStore) and not group._is_consolidated:
        (store.root / old).rename(store.root / new)
        return
    # Write the documents that make nodes appear last.
    for key in sorted(store.list(old), key=lambda key: key.rpartition("/")[2] in _DOCUMENTS):
        value = store.get(key)
        if value is not None:
            store.set(new + key[len(old) :], value)
    group._delete_child(source)
    group._notice(dest)


def tree(grp: Group, expand: bool | None = None, level: int | None = None) -> Any:
    """Same as `Group.tree`."""
    return grp.tree(expand=expand, level=level)
