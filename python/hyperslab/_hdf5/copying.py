"""Copies of objects within a file and between files: `FileGroup.copy`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab import _native
from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab._hdf5.encode import encoded
from hyperslab._hdf5.links import ExternalLink, SoftLink, link_of
from hyperslab._hdf5.node import FileNode
from hyperslab._hdf5.values import attribute_array
from hyperslab._native import Reference, RegionReference
from hyperslab.errors import UnsupportedError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup

__all__ = ["Copying"]

# Bytes of elements that are copied at once.
_AT_ONCE = 64 << 20


def refers(dtype: np.dtype[Any]) -> bool:
    """Return True if values are references, or contain some."""
    if dtype.names is not None:
        return any(refers(dtype[name]) for name in dtype.names)
    if dtype.subdtype is not None:
        return refers(dtype.base)
    item = metadata_entry(dtype, "vlen")
    if item is not None and item not in (str, bytes):
        return refers(np.dtype(item))
    return metadata_entry(dtype, "ref") is not None


class Copying:
    """One copy: its options, and the objects that were copied so far.

    Objects come first, then their attributes and the elements that may refer to other objects.
    """

    def __init__(
        self,
        into: FileGroup,
        shallow: bool,
        expand_soft: bool,
        expand_external: bool,
        expand_refs: bool,
        without_attrs: bool,
    ) -> None:
        self._into, self._editor = into, into._editor
        self._shallow, self._without_attrs = shallow, without_attrs
        self._expand_soft, self._expand_external = expand_soft, expand_external
        self._expand_refs = expand_refs
        # The new objects, by file and address of the old ones.
        self._made: dict[tuple[str, int], Any] = {}
        self._later: list[Callable[[], None]] = []

    def run(self, source: Any, path: str) -> None:
        """Copy an object to a path below the group."""
        group, above, last = self._into._free(path)
        place = group._path_to("/".join([*above, last]))
        made = self._copy(source, place, 0)
        while self._later:
            self._later.pop(0)()
        group = group._enter(group, above, True)
        self._editor.link(group._hdf5_address(), last, made._address)

    def _key(self, node: Any) -> tuple[str, int]:
        return node._store.url, node._address

    def _is_same_file(self, node: Any) -> bool:
        same: bool = node._store._native.is_same_file(self._into._store._native)
        return same

    def _copy(self, source: Any, path: str, depth: int) -> Any:
        """Return the copy of an object. It has no name yet."""
        node: Any = source
        key = self._key(node)
        if key in self._made:
            return self._made[key]
        editor = self._editor
        if hasattr(source, "_stored_type") and not isinstance(source, FileNode):
            made = self._open(editor.commit(path, node._stored_type), path)
        elif isinstance(source, _group_class()):
            tracks = node._tracks_order()
            made = self._open(editor.create_group(path, tracks, _made(node)), path)
            self._made[key] = made
            if depth == 0 or not self._shallow:
                self._copy_links(node, made, path, depth)
        else:
            made = self._dataset(node, path)
        self._made[key] = made
        if not self._without_attrs:
            self._later.append(lambda: self._copy_attributes(node, made))
        return made

    def _open(self, address: int, path: str) -> Any:
        return self._into._node(self._editor.open(address, path))

    def _copy_links(self, source: FileGroup, made: FileGroup, path: str, depth: int) -> None:
        address = made._hdf5_address()
        for name, found in source._file_links():
            link, below = link_of(found), f"{path}/{name}"
            if isinstance(link, SoftLink) and not self._expands(source, name, self._expand_soft):
                self._editor.link_soft(address, name, link.path)
            elif isinstance(link, ExternalLink) and not self._expands(source, name, self._expand_external):
                self._editor.link_external(address, name, link.filename, link.path)
            elif found[0] == "user-defined":
                raise UnsupportedError(
                    f"copy: link '{name}' of '{source.name}' is of a kind that only its writer knows"
                )
            else:
                node = self._copy(source[name], below, depth + 1)
                self._editor.link(address, name, node._address)

    @staticmethod
    def _expands(group: FileGroup, name: str, wanted: bool) -> bool:
        """Return True if what a link leads to is copied. Broken links stay links."""
        return wanted and group.get(name) is not None

    def _type(self, stored: _native.StoredType) -> _native.StoredType:
        """Return the type for a copy. A committed type is copied once, and needs no name."""
        if not stored.is_committed:
            return stored
        made: _native.StoredType = self._copy(self._into._node(stored._open()), "", 0)._stored_type
        return made

    # ---- datasets

    def _dataset(self, source: FileArray, path: str) -> FileArray:
        facts = source._facts
        if facts["external"]:
            raise UnsupportedError(f"copy: the elements of '{source.name}' are in other files")
        stored = source._stored_type
        if stored is None:
            raise UnsupportedError("copy: arrays of NetCDF-3 are copied by hyperslab.copy")
        editor, stored = self._editor, self._type(stored)
        fill = None
        raw_fill = source._stored_fill
        if raw_fill is not None:
            element = editor.element(stored)
            if element.is_made_of_objects:
                made = np.empty((), element.dtype)
                made[()] = source.fill_value
                fill = encoded(element, made, editor.values()).reshape(1).view(np.uint8)
            else:
                fill = np.frombuffer(raw_fill, np.uint8).copy()
        sources = None
        if source.is_virtual:
            sources = [_source_of(found) for found in source._virtual_sources()]
        address = editor.create_dataset(
            path,
            stored,
            source.shape,
            None if source.maxshape is None else list(source.maxshape),
            facts["layout"],
            None if facts["chunks"] is None else list(facts["chunks"]),
            [(number, number != 3, tuple(parameters)) for number, _, parameters in facts["filters"]],
            fill,
            False,
            False,
            sources,
            _made(source),
        )
        copy: FileArray = self._open(address, path)
        if source.shape is not None and not source.is_virtual and source.size:
            if refers(source.dtype):
                self._later.append(lambda: self._copy_elements(source, copy))
            else:
                self._copy_elements(source, copy)
        return copy

    def _copy_elements(self, source: FileArray, copy: FileArray) -> None:
        # As in HDF5: elements keep their references within a file.
        has_references = refers(source.dtype) and not self._is_same_file(source)
        for selection in _slabs(source):
            values = source.read(selection)
            copy._write_values(selection, self._mapped(values) if has_references else values)

    # ---- attributes and references

    def _copy_attributes(self, source: Any, made: Any) -> None:
        for name in source.attrs:
            attribute: _native.AttributeHandle = source.attrs._found(name)
            stored, element = attribute.stored_type, attribute.element
            if stored is None or element is None:
                raise UnsupportedError("copy: attributes of NetCDF-3 are copied by hyperslab.copy")
            stored, values = self._type(stored), self._editor.values()
            if attribute.shape is None:
                raw = np.empty(0, np.uint8)
            else:
                array = attribute_array(attribute)
                if refers(element.dtype):
                    array = self._mapped(array)
                found = encoded(self._editor.element(stored), array, values)
                raw = (
                    np.ascontiguousarray(found).reshape(-1).view(np.uint8)
                    if found.size
                    else np.empty(0, np.uint8)
                )
            shape = None if attribute.shape is None else list(attribute.shape)
            self._editor.set_attribute(made._address, name, stored, shape, raw)

    def _mapped(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return values with references to the copies."""
        dtype = values.dtype
        made: np.ndarray[Any, Any]
        if dtype.names is not None:
            made = values.copy()
            for name in dtype.names:
                if refers(dtype[name]):
                    made[name] = self._mapped(values[name])
            return made
        if dtype.kind != "O":
            return values
        made = np.empty(values.shape, dtype)
        flat, into = values.reshape(-1), made.reshape(-1)
        for number, value in enumerate(flat):
            into[number] = self._mapped(value) if isinstance(value, np.ndarray) else self._reference(value)
        return made

    def _reference(self, reference: Any) -> Reference | RegionReference | None:
        if not isinstance(reference, Reference) or not reference:
            return None
        node = self._into._node(reference._open())
        made = self._made.get(self._key(node))
        if made is None and self._expand_refs:
            made = self._copy(node, node.path, 0)
            # HDF5's name for it.
            root = self._into.file._address
            self._editor.link(root, f"~obj_pointed_by_{made._address}", made._address)
        if made is None:
            # Other references stay, and lead nowhere in another file.
            return reference if self._is_same_file(node) else None
        return self._editor.moved_reference(reference, made._address)


def _made(node: Any) -> int | None:
    """Return the time of an object's last change; ``None`` if it keeps no times."""
    return (node._store._native.links_and_times(node._address) or (0, [0] * 4))[1][2] or None


def _source_of(found: tuple[Any, ...]) -> tuple[Any, str, str, Any]:
    target, file, name, source = found
    return _selection(target), file, name, _selection(source)


def _selection(found: tuple[Any, ...]) -> tuple[str, list[Any], int, list[int]]:
    """Return a selection as new sources have it."""
    kind, *rest = found
    if kind == "slabs":
        return kind, list(rest[0]), len(rest[0]), []
    if kind == "points":
        points = rest[0]
        return kind, [], len(points[0]) if points else 1, [n for point in points for n in point]
    if kind == "blocks":
        blocks = rest[0]
        rank = len(blocks[0][0]) if blocks else 1
        return kind, [], rank, [n for first, last in blocks for n in (*first, *last)]
    return kind, [], 1, []


def _group_class() -> Any:
    from hyperslab._hdf5.group_writing import GroupWriting

    return GroupWriting


def _slabs(array: FileArray) -> Iterator[Any]:
    """Yield selections of whole rows of chunks, of a bounded number of bytes."""
    shape = array.shape
    if not shape:
        yield ()
        return
    row = math.prod(shape[1:]) * max(array.dtype.itemsize, 1)
    step = max(1, _AT_ONCE // max(row, 1))
    if array.chunks:
        step = max(array.chunks[0], step - step % array.chunks[0])
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])),)
