"""HDF5 and NetCDF files as Zarr v3 objects: documents, and chunks in Zarr's encoding."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hyperslab._base.once import Once
from hyperslab._core.array import Array
from hyperslab._create.open import open_array
from hyperslab._elements.hdf5_types import is_text
from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.group import FileGroup
from hyperslab._native import FileMeaning
from hyperslab._stores.store import MemoryStore
from hyperslab.errors import HyperslabError, UnsupportedError

__all__ = ["ArrayObjects", "FileObjects"]

_DOCUMENT = "zarr.json"
_DEFLATE, _SHUFFLE, _ZSTD = 1, 2, 32015
# Bytes per chunk when data without chunks are cut up.
_CUT = 8 << 20


class FileObjects:
    """The objects that a file would have as a Zarr v3 directory.

    ``cut``: cut data without chunks into chunks. ``names_all``: give all axes names, as netCDF
    does.
    """

    def __init__(self, root: FileGroup, *, cut: bool = True, names_all: bool = False) -> None:
        self._root, self._cut = root, cut
        self._meaning = FileMeaning(root, names_all)
        self._arrays: dict[str, ArrayObjects] = {}

    def part(self, key: str, start: int, stop: int | None) -> bytes | None:
        found = self._get(key)
        return None if found is None else found[start:stop]

    def size(self, key: str) -> int | None:
        found = self._get(key)
        return None if found is None else len(found)

    def _get(self, key: str) -> bytes | None:
        path, _, name = key.rpartition("/")
        if name == _DOCUMENT:
            node = self.node(path)
            if isinstance(node, ArrayObjects):
                return node.document
            return None if node is None else self._meaning.group_document(node).encode()
        path, found, chunk = _cut(key)
        node = self.node(path) if found else None
        return node.chunk(chunk) if isinstance(node, ArrayObjects) else None

    def node(self, path: str) -> FileGroup | ArrayObjects | None:
        """Return the group or array at a path; ``None`` if Zarr has no such node."""
        known = self._arrays.get(path)
        if known is not None:
            return known
        node = self._dataset(path) if path else self._root
        if node is None or isinstance(node, FileGroup):
            return node
        if not isinstance(node, FileArray) or node.shape is None:
            return None
        try:
            if self._meaning.variable(node) is None:
                return None
            return self._arrays.setdefault(path, ArrayObjects(node, self._meaning, self._cut))
        except HyperslabError:
            # Zarr lacks this element type: references, opaque types.
            return None

    def _dataset(self, path: str) -> Any:
        """Return the dataset of the variable with this path, or a group."""
        group, _, name = path.rpartition("/")
        for stored in self._meaning.dataset_names(name):
            try:
                return self._root[f"{group}/{stored}" if group else stored]
            except KeyError:
                continue
        return None

    def names(self, prefix: str) -> list[str]:
        node = self.node(prefix)
        if isinstance(node, FileGroup):
            names = dict.fromkeys(self._meaning.variable_name(name) for name in node)
            return [_DOCUMENT, *(name for name in names if self._has(prefix, name))]
        if isinstance(node, ArrayObjects):
            return [_DOCUMENT, *node.folder]
        path, found, within = _cut(prefix)
        node = self.node(path) if found else None
        if not isinstance(node, ArrayObjects):
            return []
        return node.names(within)

    def _has(self, prefix: str, name: str) -> bool:
        """Return True if Zarr has this member. Excludes groups already on the path (cycles)."""
        node = self.node(f"{prefix}/{name}" if prefix else name)
        if not isinstance(node, FileGroup):
            return node is not None
        parts = prefix.split("/") if prefix else []
        above = (self._root["/".join(parts[:n])] if n else self._root for n in range(len(parts) + 1))
        address = node._hdf5_address()
        return address is None or all(group._hdf5_address() != address for group in above)

    def keys(self, prefix: str) -> list[str]:
        return sorted(self._keys(prefix))

    def _keys(self, prefix: str) -> Iterator[str]:
        for name in self.names(prefix):
            key = f"{prefix}/{name}" if prefix else name
            below = self._keys(key) if name != _DOCUMENT else iter(())
            first = next(below, None)
            if first is None:
                yield key
            else:
                yield first
                yield from below


def _cut(key: str) -> tuple[str, bool, str]:
    """Return the path of an array and the part of the key after its ``c``."""
    path, found, chunk = f"/{key}/".rpartition("/c/")
    return path.strip("/"), bool(found), chunk.rstrip("/")


class ArrayObjects:
    """A dataset as Zarr objects."""

    def __init__(self, array: FileArray, meaning: FileMeaning, cut: bool) -> None:
        self._array = array
        self._is_text = is_text(array.dtype)
        # A variable may be shorter than its unlimited dimension. The missing part reads as the fill
        # value of the document. The fill value of the file may differ: it is zero if the file
        # defines none.
        self._own_shape = array.shape
        self._fills_differ = meaning.fills_differ(array)
        if array.dtype.hasobject and not self._is_text:
            raise UnsupportedError(f"array {array.name!r} has elements of a type that Zarr v3 does not have")
        element = max(array.dtype.itemsize, 1)
        whole = tuple(max(n, 1) for n in array.shape)
        self._chunks = array.chunks or (_cut_up(array.shape, element) if cut else whole)
        # Chunks keep their bytes if Zarr has all codecs.
        codecs = _codecs(array) if array._facts.get("layout") == "chunked" else None
        self._keeps_bytes = codecs is not None
        self.document = meaning.document(array, self._chunks, json.dumps(codecs or [])).encode()
        self.shape = tuple(json.loads(self.document)["shape"])
        self.counts = self._counts(self.shape)

    def _counts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(-(-n // step) for n, step in zip(shape, self._chunks, strict=True))

    @Once
    def _stored_positions(self) -> npt.NDArray[Any]:
        """The positions of the stored chunks, in C order."""
        return self._array.chunk_index()

    def chunk(self, name: str) -> bytes | None:
        """Return the bytes of a chunk, by a name like ``0/1``."""
        try:
            index = tuple(int(part) for part in name.split("/") if part)
        except ValueError:
            return None
        own = self._counts(self._own_shape)
        if "/".join(map(str, index)) != name or len(index) != len(own):
            return None
        if not all(0 <= at < count for at, count in zip(index, own, strict=True)):
            return None
        start = tuple(at * step for at, step in zip(index, self._chunks, strict=True))
        if self._keeps_bytes:
            number = np.ravel_multi_index(index, own)
            at = int(np.searchsorted(self._stored_positions["number"], number))
            is_stored = at < len(self._stored_positions) and self._stored_positions["number"][at] == number
            if not is_stored and not self._fills_differ:
                return None
            row = self._stored_positions[at] if is_stored else None
            if row is not None and not row["filter_mask"] and not self._is_padded(index):
                return self._array._stored_bytes(int(row["offset"]), int(row["size"]))
        return self._encode_chunk(start)

    def _is_padded(self, index: tuple[int, ...]) -> bool:
        """Return True if stored elements past the array's end are not the document's fill value."""
        if not self._fills_differ:
            return False
        axes = zip(index, self._chunks, self._own_shape, self.shape, strict=True)
        return any(min((at + 1) * step, n) > own for at, step, own, n in axes)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self._own_shape) * self._array.dtype.itemsize

    def places(self) -> tuple[npt.NDArray[Any], ...] | None:
        """Return the positions of the stored chunks.

        These are numbers in C order, offsets and sizes in the file, and whether the bytes are in
        Zarr's encoding. ``None``: the stored bytes do not form chunks.
        """
        if self._keeps_bytes:
            found, own = self._stored_positions, self._counts(self._own_shape)
            numbers, offsets, sizes = found["number"], found["offset"], found["size"]
            is_plain = found["filter_mask"] == 0
            if self._fills_differ:
                # Absent chunks are copied, and chunks at the end.
                all_of_them = np.arange(math.prod(own))
                offsets, sizes = (_scatter(values, numbers, all_of_them) for values in (offsets, sizes))
                is_plain = _scatter(is_plain, numbers, all_of_them)
                numbers = all_of_them
                padded = [self._is_padded(index) for index in np.ndindex(own)]
                is_plain &= ~np.array(padded, bool)
            if own != self.counts:
                numbers = np.ravel_multi_index(np.unravel_index(numbers, own), self.counts)
            return numbers, offsets, sizes, is_plain
        offset = self._array._facts.get("offset")
        # Contiguous data can be one chunk.
        if offset is None or self._array.dtype.kind not in "biufc" or math.prod(self.counts) != 1:
            return None
        return np.array([0]), np.array([offset]), np.array([self.nbytes]), np.array([True])

    def _encode_chunk(self, start: tuple[int, ...]) -> bytes | None:
        """Decode a chunk, and encode it in the encoding of the metadata."""
        stop = (min(a + b, n) for a, b, n in zip(start, self._chunks, self._own_shape, strict=True))
        place = tuple(slice(a, b) for a, b in zip(start, stop, strict=True))
        store = MemoryStore()
        one_chunk = {**json.loads(self.document), "shape": self._chunks, "attributes": {}}
        store.set(_DOCUMENT, json.dumps(one_chunk).encode())
        one: Array = open_array(store, mode="r+", config={"write_empty_chunks": True})
        source = self._array.asstr() if self._is_text else self._array
        values = source[place]
        one[tuple(slice(0, n) for n in np.shape(values))] = values
        key = "/".join(["c", *("0" for _ in self._chunks)])
        return store.get(key)

    @property
    def folder(self) -> list[str]:
        """The names beside the document."""
        return ["c"] if math.prod(self.counts) else []

    def names(self, within: str) -> list[str]:
        """Return the names in a folder of chunks, such as ``0`` for ``c/0``."""
        given = [part for part in within.split("/") if part]
        if len(given) >= len(self.counts) or not self.folder:
            return []
        if not all(
            part.isdecimal() and int(part) < count for part, count in zip(given, self.counts, strict=False)
        ):
            return []
        return [str(n) for n in range(self.counts[len(given)])]


def _scatter(values: npt.NDArray[Any], numbers: npt.NDArray[Any], of: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values at the indices ``numbers``, and zeros elsewhere."""
    found = np.zeros(len(of), values.dtype)
    found[numbers] = values
    return found


def _cut_up(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    """Return chunks of about 8 MiB for data without chunks: whole rows, last axes first."""
    left = max(_CUT // element, 1)
    chunks = []
    for n in reversed(shape):
        step = max(min(n, left), 1)
        chunks.append(step)
        left = max(left // step, 1)
    return tuple(reversed(chunks))


def _codecs(array: FileArray) -> list[dict[str, Any]] | None:
    """Return HDF5's filters as Zarr codecs; ``None`` if Zarr lacks one of them."""
    if array.dtype.kind not in "biufc":
        return None
    found = []
    for number, _, parameters in array._facts["filters"]:
        if number == _SHUFFLE:
            found.append(
                {"name": "numcodecs.shuffle", "configuration": {"elementsize": array.dtype.itemsize}}
            )
        elif number == _DEFLATE:
            level = parameters[0] if parameters else 1
            found.append({"name": "numcodecs.zlib", "configuration": {"level": level}})
        elif number == _ZSTD:
            level = parameters[0] if parameters else 3
            found.append({"name": "zstd", "configuration": {"level": level, "checksum": False}})
        else:
            return None
    return found
