"""The low-level objects behind ``node.id``, as far as programs use them.

They give chunk positions, spaces, types and creation properties, under h5py's names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperslab._hdf5.external import directory_of
from hyperslab._hdf5.filters import library_name
from hyperslab._hdf5.names import text_of
from hyperslab._hdf5.type_ids import TypeID, type_id
from hyperslab._native import StoredType
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import Datatype, FileGroup
    from hyperslab._hdf5.node import FileNode

__all__ = [
    "CHUNK_CACHE",
    "AttrID",
    "DatasetID",
    "FileID",
    "GroupID",
    "NodeID",
    "PropDCID",
    "SpaceID",
    "StoreInfo",
    "node_of",
    "times_of",
]

_LAYOUTS = {"compact": 0, "contiguous": 1, "chunked": 2, "virtual": 3}
_UNLIMITED = 2**64 - 1
CHUNK_CACHE = (8191, 8 << 20, 0.75)
"""HDF5's settings for its cache of chunks: slots, bytes, and how soon read chunks are dropped."""


class StoreInfo(NamedTuple):
    """The position of a chunk."""

    chunk_offset: tuple[int, ...] | None
    """Index of the chunk's first element."""
    filter_mask: int
    """Bit i is set if the i-th filter was skipped."""
    byte_offset: int | None
    """Offset of the chunk's bytes in the file; ``None`` if it is not stored."""
    size: int
    """Stored bytes of the chunk."""


def times_of(node: Any) -> tuple[int, list[int]]:
    """Return the number of links to an object, and its times of access, modification, change, birth."""
    found: tuple[int, list[int]] | None = node._store._native.links_and_times(node._address)
    return found or (1, [0] * 4)


class SpaceID:
    """The extent of a dataset or attribute."""

    def __init__(self, shape: tuple[int, ...] | None, maxshape: tuple[int | None, ...] | None = None) -> None:
        self.shape = shape
        self._maxshape = shape if maxshape is None else maxshape
        # An index, if not all elements are selected.
        self._selection: tuple[Any, ...] | None = None

    def select_all(self) -> None:
        """Select all elements."""
        self._selection = None

    def select_none(self) -> None:
        """Select no elements."""
        self._selection = tuple(slice(0, 0) for _ in self.shape or ())

    def select_hyperslab(
        self,
        start: Sequence[int],
        count: Sequence[int],
        stride: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
        op: int = 0,
    ) -> None:
        """Select blocks of elements."""
        from hyperslab._hdf5.selections import MultiBlockSlice

        stride, block = stride or [1] * len(start), block or [1] * len(start)
        parts = zip(start, stride, count, block, strict=True)
        self._selection = tuple(
            slice(at, _UNLIMITED if n >= _UNLIMITED else at + n * step, step)
            if size == 1
            else MultiBlockSlice(at, max(step, size), n, size)
            for at, step, n, size in parts
        )

    def set_extent_simple(self, dims_tpl: Sequence[int], max_dims_tpl: Any = None) -> None:
        """Set the elements per axis."""
        self.shape = tuple(dims_tpl)
        self._maxshape = self.shape if max_dims_tpl is None else tuple(max_dims_tpl)

    def get_simple_extent_type(self) -> int:
        """Return 0 for one element without axes, 1 for axes, 2 for neither elements nor axes."""
        return 2 if self.shape is None else int(self.shape != ())

    def get_simple_extent_ndims(self) -> int:
        """Return the number of axes."""
        return len(self.shape or ())

    def get_simple_extent_dims(self, maxdims: int = False) -> tuple[int, ...] | None:
        """Return the elements per axis, or their maximum (2⁶⁴ - 1: no limit)."""
        if not maxdims or self._maxshape is None:
            return self.shape
        return tuple(_UNLIMITED if most is None else most for most in self._maxshape)

    def get_simple_extent_npoints(self) -> int:
        """Return the number of elements."""
        return 0 if self.shape is None else math.prod(self.shape)

    get_select_npoints = get_simple_extent_npoints

    def __repr__(self) -> str:
        return f"<SpaceID of shape {self.shape}>"


class AttrID:
    """An attribute."""

    def __init__(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None,
        attributes: Any = None,
        stored: StoredType | None = None,
    ) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self._attributes, self._stored = attributes, stored

    def get_type(self) -> TypeID:
        """Return the element type."""
        return type_id(self.dtype, self._stored)  # type: ignore[no-any-return]

    def get_space(self) -> SpaceID:
        """Return the extent."""
        return SpaceID(self.shape)

    def read(self, arr: np.ndarray[Any, Any], mtype: Any = None) -> None:
        """Read the value into an array."""
        arr[...] = self._attributes[self.name]

    def write(self, arr: Any, mtype: Any = None) -> None:
        """Change the value."""
        self._attributes.modify(self.name, arr)

    def close(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return f"<AttrID of {self.name!r}>"


class NodeID:
    """An object in a file."""

    def __init__(self, node: FileNode | Datatype) -> None:
        self._node = node

    @property
    def valid(self) -> int:
        """Nonzero if the file is open."""
        return int(bool(self._node))

    @property
    def name(self) -> bytes | None:
        """Path in the file; ``None`` for an object without a name."""
        name = self._node.name
        return None if name is None else name.encode("utf-8", "surrogateescape")

    def __bool__(self) -> bool:
        return bool(self._node)

    def __eq__(self, other: object) -> bool:
        return self._node == other._node if isinstance(other, NodeID) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._node!r}>"


def node_of(found: Any, kind: type[NodeID]) -> Any:
    """Return the object of a low-level object, which must be of a kind."""
    if not isinstance(found, kind):
        raise InvalidArgumentError(f"expected a {kind.__name__}, found {found!r}")
    return found._node


class GroupID(NodeID):
    """A group."""

    _node: FileGroup

    def get_num_objs(self) -> int:
        """Return the number of links."""
        return len(self._node)

    def get_create_plist(self) -> Any:
        """Return the creation properties."""
        from hyperslab._hdf5.low import h5p

        found = h5p.create(h5p.GROUP_CREATE)
        order = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED if self._node._tracks_order() else 0
        found.set_link_creation_order(order)
        found.set_attr_creation_order(order)
        return found

    def unlink(self, name: bytes) -> None:
        """Remove a name."""
        del self._node[name]

    def __contains__(self, name: bytes) -> bool:
        return text_of(name) in self._node

    def __iter__(self) -> Any:
        return (name.encode("utf-8", "surrogateescape") for name in self._node)

    def close(self) -> None:
        """Do nothing: the file closes with its last object."""

    _close = close


class FileID(GroupID):
    """A file."""

    @property
    def name(self) -> bytes:
        """The path or URL used to open the file."""
        return os.fsencode(self._file.filename)

    @property
    def _file(self) -> Any:
        return self._node

    def get_filesize(self) -> int:
        """Return the bytes of the file."""
        if self._file.driver in ("core", "fileobj"):
            return len(self.get_file_image())
        return Path(self._file.filename).stat().st_size

    def get_file_image(self) -> bytes:
        """Return the bytes of the file, after a flush."""
        if self._file.mode != "r":
            found: bytes = self._file.image()
            return found
        return Path(self._file.filename).read_bytes()

    def get_intent(self) -> int:
        """Return 1 if the file can be changed, otherwise 0."""
        return int(self._file.mode != "r")

    def get_access_plist(self) -> Any:
        """Return how the file was opened."""
        from hyperslab._hdf5.low import h5p

        found = h5p.create(h5p.FILE_ACCESS)
        found.set_cache(0, *self._file._as_opened("chunk_cache", CHUNK_CACHE))
        return found


class DatasetID(NodeID):
    """A dataset."""

    _node: FileArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return self._node.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self._node.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type in NumPy."""
        return self._node.dtype

    def get_type(self) -> TypeID:
        """Return the element type."""
        return type_id(self._node.dtype, self._node._stored_type)  # type: ignore[no-any-return]

    def get_space(self) -> SpaceID:
        """Return the extent."""
        return SpaceID(self._node.shape, self._node.maxshape)

    @property
    def space(self) -> SpaceID:
        """The extent."""
        return self.get_space()

    def _selected(self, fspace: Any) -> Any:
        """Return the index of a selection in the dataset; ``ALL``: everything."""
        selection = getattr(fspace, "_selection", None)
        return ... if selection is None else selection

    def read(self, mspace: Any, fspace: Any, arr_obj: Any, mtype: Any = None, dxpl: Any = None) -> None:
        """Read elements into an array."""
        place = getattr(mspace, "_selection", None)
        found = np.asarray(self._node[self._selected(fspace)])
        target = arr_obj if place is None else arr_obj[place]
        if place is None:
            arr_obj[...] = found.reshape(arr_obj.shape)
        else:
            arr_obj[place] = found.reshape(np.shape(target))

    def write(self, mspace: Any, fspace: Any, arr_obj: Any, mtype: Any = None, dxpl: Any = None) -> None:
        """Write elements from an array."""
        place = getattr(mspace, "_selection", None)
        values = arr_obj if place is None else arr_obj[place]
        selection = self._selected(fspace)
        values = np.asarray(values)
        if selection is ... and values.size == self._node.size and values.shape != self._node.shape:
            values = values.reshape(self._node.shape)
        self._node[selection] = values

    def set_extent(self, shape: Sequence[int]) -> None:
        """Change the shape."""
        self._node.resize(tuple(shape))

    def extend(self, shape: Sequence[int]) -> None:
        """Make axes longer."""
        self._node.resize(tuple(max(old, new) for old, new in zip(self._node.shape, shape, strict=True)))

    def flush(self) -> None:
        """See `FileArray.flush`."""
        self._node.flush()

    def close(self) -> None:
        """Do nothing: the file closes with its last object."""

    def write_direct_chunk(
        self, offsets: Sequence[int], data: Any, filter_mask: int = 0, dxpl: Any = None
    ) -> None:
        """Store the bytes of a chunk as they are.

        Parameters
        ----------
        offsets : sequence of int
            Index of the chunk's first element.
        data : buffer
            The bytes, after all filters.
        filter_mask : int, default 0
            Bit i is set if the i-th filter was skipped.
        """
        self._node._editor  # noqa: B018
        chunks = self._chunks()
        if len(offsets) != len(chunks):
            raise ArgumentTypeError(f"offset length ({len(offsets)}) must match dataset rank ({len(chunks)})")
        shape = self._node.shape
        wrong = [at % chunk or not 0 <= at < n for at, chunk, n in zip(offsets, chunks, shape, strict=True)]
        if any(wrong):
            raise InvalidArgumentError(
                f"Can't write unprocessed chunk data (no chunk begins at {tuple(offsets)})"
            )
        place = [at // chunk for at, chunk in zip(offsets, chunks, strict=True)]
        self._node._write_chunk(place, bytes(memoryview(data).cast("B")), int(filter_mask))

    def get_access_plist(self) -> Any:
        """Return how the dataset was opened: as every dataset."""
        from hyperslab._hdf5.low import h5p

        found = h5p.create(h5p.DATASET_ACCESS)
        found.set_chunk_cache(*CHUNK_CACHE)
        prefix = vars(self._node).get("_efile_prefix")
        found.set_efile_prefix(b"" if prefix is None else os.fsencode(directory_of(self._node, prefix)))
        found.set_virtual_prefix(b"")
        return found

    def get_create_plist(self) -> PropDCID:
        """Return the creation properties."""
        return PropDCID(self._node)

    def get_offset(self) -> int | None:
        """Return where the elements begin in the file, if they are one run of bytes."""
        found: int | None = self._node._facts.get("offset")
        return found if self._node.size else None

    def get_storage_size(self) -> int:
        """Return the stored bytes."""
        return self._node._stored()[1]

    def refresh(self) -> None:
        """See `FileArray.refresh`."""
        self._node.refresh()

    # ---- chunks

    def _chunks(self) -> tuple[int, ...]:
        if self._node.chunks is None:
            raise RuntimeError("Can't get number of chunks (not a chunked dataset)")
        return self._node.chunks

    def _info(self, row: Any) -> StoreInfo:
        place = np.unravel_index(int(row["number"]), self._node.cdata_shape)
        first = tuple(int(at) * chunk for at, chunk in zip(place, self._chunks(), strict=True))
        return StoreInfo(first, int(row["filter_mask"]), int(row["offset"]), int(row["size"]))

    def get_num_chunks(self, space: Any = None) -> int:
        """Return the number of stored chunks."""
        self._chunks()
        return len(self._node.chunk_index())

    def get_chunk_info(self, index: int, space: Any = None) -> StoreInfo:
        """Return the position of the ``index``-th stored chunk."""
        self._chunks()
        rows = self._node.chunk_index()
        if not 0 <= index < len(rows):
            raise InvalidArgumentError(f"Chunk index is out of range ({index} of {len(rows)})")
        return self._info(rows[index])

    def _row(self, chunk_offset: Sequence[int]) -> Any:
        """Return the row of the chunk index for the chunk of an element; ``None`` if not stored."""
        chunks, shape = self._chunks(), self._node.shape
        place = tuple(at // chunk for at, chunk in zip(chunk_offset, chunks, strict=True))
        if any(not 0 <= at < n for at, n in zip(chunk_offset, shape, strict=True)):
            return None
        rows = self._node.chunk_index()
        number = np.ravel_multi_index(place, self._node.cdata_shape)
        at = int(np.searchsorted(rows["number"], number))
        return rows[at] if at < len(rows) and rows["number"][at] == number else None

    def get_chunk_info_by_coord(self, chunk_offset: Sequence[int]) -> StoreInfo:
        """Return the position of the chunk that holds an element."""
        row = self._row(chunk_offset)
        if row is None:
            return StoreInfo(None, 0, None, 0)
        return StoreInfo(tuple(chunk_offset), *self._info(row)[1:])

    def chunk_iter(self, func: Callable[[StoreInfo], Any]) -> Any:
        """Call a function with each stored chunk until it returns something other than ``None``."""
        self._chunks()
        for row in self._node.chunk_index():
            answer = func(self._info(row))
            if answer is not None:
                return answer
        return None

    def _stored_chunk(self, offsets: Sequence[int]) -> tuple[int, bytes]:
        """Return the mask of skipped filters, and the stored bytes of a chunk."""
        missing = OSError(f"Can't read unprocessed chunk data (no chunk at {tuple(offsets)} is stored)")
        if self._node._store._native.is_edited:
            # The chunk may not be in the file yet.
            place = [at // chunk for at, chunk in zip(offsets, self._chunks(), strict=True)]
            found = self._node._read_chunk(place)
            if found is None:
                raise missing
            return found[1], found[0]
        row = self._row(offsets)
        if row is None:
            raise missing
        data = self._node._stored_bytes(int(row["offset"]), int(row["size"]))
        return int(row["filter_mask"]), data

    def read_direct_chunk(self, offsets: Sequence[int], dxpl: Any = None, out: Any = None) -> tuple[int, Any]:
        """Return the stored bytes of a chunk.

        Parameters
        ----------
        offsets : sequence of int
            Index of the chunk's first element.
        out : buffer, optional
            Buffer for the bytes.

        Returns
        -------
        tuple
            The mask of skipped filters, and the bytes.
        """
        if any(at % chunk for at, chunk in zip(offsets, self._chunks(), strict=True)):
            raise OSError(f"Can't read unprocessed chunk data (offset {offsets} is not that of a chunk)")
        mask, data = self._stored_chunk(offsets)
        if out is None:
            return mask, data
        view = memoryview(out)
        if view.readonly:
            raise BufferError("out: expected a buffer that can be written, found one that is read-only")
        if not view.c_contiguous:
            raise InvalidArgumentError("out: expected a buffer of consecutive bytes, found one with gaps")
        memory = view.cast("B")
        if len(memory) < len(data):
            raise InvalidArgumentError(f"out: {len(memory)} bytes are too few for a chunk of {len(data)}")
        memory[: len(data)] = data
        return mask, memory[: len(data)]


class PropDCID:
    """The creation properties of a dataset."""

    def __init__(self, node: FileArray) -> None:
        self._node = node

    def get_layout(self) -> int:
        """Return 0 for compact, 1 for contiguous, 2 for chunked, 3 for virtual."""
        return _LAYOUTS[self._node._facts["layout"]]

    def get_chunk(self) -> tuple[int, ...]:
        """Return the chunk shape."""
        if self._node.chunks is None:
            raise InvalidArgumentError("Not a chunked storage layout")
        return self._node.chunks

    def get_nfilters(self) -> int:
        """Return the number of filters."""
        return len(self._node.filter_ids)

    def get_filter(self, index: int) -> tuple[int, int, tuple[int, ...], bytes]:
        """Return number, flags (1: chunks may be stored without it), parameters and name of a filter."""
        number, name, parameters = self._node._facts["filters"][index]
        flags = int(self._node._facts["optional"][index])
        return number, flags, tuple(parameters), (name or library_name(number)).encode()

    def get_filter_by_id(self, filter_code: int) -> tuple[int, tuple[int, ...], bytes] | None:
        """Return flags, parameters and name of a filter; ``None`` if the dataset does not have it."""
        for index, number in enumerate(self._node.filter_ids):
            if number == filter_code:
                return self.get_filter(index)[1:]
        return None

    def get_fill_time(self) -> int:
        """Return 1 if elements that were never written have no value, otherwise 2."""
        return 1 if self._node._facts["unfilled"] else 2

    def fill_value_defined(self) -> int:
        """Return 2 if the dataset has a fill value of its own, otherwise 1."""
        return 1 if self._node._stored_fill is None else 2

    def get_fill_value(self, value: np.ndarray[Any, Any]) -> None:
        """Put the fill value into an array."""
        value[...] = self._node.fill_value

    def get_obj_track_times(self) -> bool:
        """Return True if the dataset keeps the time of its last change."""
        return any(times_of(self._node)[1])

    def get_external_count(self) -> int:
        """Return the number of external files with elements."""
        return len(self._node.external or ())

    def get_external(self, index: int = 0) -> tuple[bytes, int, int]:
        """Return name, offset and bytes of an external file."""
        name, offset, size = (self._node.external or [])[index]
        return name.encode(), offset, size

    def get_virtual_count(self) -> int:
        """Return the number of parts from other datasets."""
        return len(self._node.virtual_sources()) if self._node.is_virtual else 0

    def get_virtual_filename(self, index: int = 0) -> str:
        """Return the file of a part."""
        return self._node.virtual_sources()[index].file_name

    def get_virtual_dsetname(self, index: int = 0) -> str:
        """Return the dataset path of a part in its file."""
        return self._node.virtual_sources()[index].dset_name
