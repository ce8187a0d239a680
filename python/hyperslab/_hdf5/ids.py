"""The low-level objects behind ``node.id``, as far as programs that read use them: where chunks are, spaces,
types, creation properties. Names are h5py's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperslab._elements.hdf5_types import noted
from hyperslab._hdf5.dtypes import check_string_dtype
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import Datatype
    from hyperslab._hdf5.node import FileNode

__all__ = ["AttrID", "DatasetID", "NodeID", "PropDCID", "SpaceID", "StoreInfo", "TypeID"]

_INTEGER, _FLOAT, _STRING, _OPAQUE, _COMPOUND, _REFERENCE, _ENUM, _VLEN, _ARRAY = 0, 1, 3, 5, 6, 7, 8, 9, 10
_LAYOUTS = {"compact": 0, "contiguous": 1, "chunked": 2, "virtual": 3}
_UNLIMITED = 2**64 - 1


class StoreInfo(NamedTuple):
    """Where a chunk is."""

    chunk_offset: tuple[int, ...] | None
    """Its first element."""
    filter_mask: int
    """Bit i: the i-th filter was left out."""
    byte_offset: int | None
    """Where its bytes begin in the file; ``None``: it is not stored."""
    size: int
    """How many bytes."""


class TypeID:
    """An element type."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def get_class(self) -> int:
        """The class: 0 integer, 1 float, 3 string, 5 opaque, 6 compound, 7 reference, 8 enumeration, 9
        sequence of variable length, 10 array.
        """
        dtype = self.dtype
        if dtype.subdtype is not None:
            return _ARRAY
        if noted(dtype, "enum") is not None or dtype.kind == "b":
            return _ENUM
        if noted(dtype, "ref") is not None:
            return _REFERENCE
        if check_string_dtype(dtype) is not None:
            return _STRING
        if noted(dtype, "vlen") is not None:
            return _VLEN
        if dtype.names is not None or dtype.kind == "c":
            return _COMPOUND
        return {"i": _INTEGER, "u": _INTEGER, "f": _FLOAT}.get(dtype.kind, _OPAQUE)

    def get_size(self) -> int:
        """Bytes of an element; of references and sequences, of h5py's."""
        return self.dtype.itemsize

    def is_variable_str(self) -> bool:
        """Whether elements are text of variable length."""
        found = check_string_dtype(self.dtype)
        return found is not None and found.length is None

    def get_cset(self) -> int:
        """The character set of text: 0 ASCII, 1 UTF-8."""
        found = check_string_dtype(self.dtype)
        if found is None:
            raise ArgumentTypeError(f"elements of type {self.dtype} are not text")
        return int(found.encoding == "utf-8")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeID):
            return NotImplemented
        return self.dtype == other.dtype and self.dtype.metadata == other.dtype.metadata

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"<TypeID of {self.dtype}>"


class SpaceID:
    """The extent of a dataset or attribute."""

    def __init__(self, shape: tuple[int, ...] | None, maxshape: tuple[int | None, ...] | None = None) -> None:
        self.shape = shape
        self._maxshape = shape if maxshape is None else maxshape

    def get_simple_extent_type(self) -> int:
        """0: one element without axes, 1: axes, 2: neither elements nor axes."""
        return 2 if self.shape is None else int(self.shape != ())

    def get_simple_extent_ndims(self) -> int:
        """Number of axes."""
        return len(self.shape or ())

    def get_simple_extent_dims(self, maxdims: int = False) -> tuple[int, ...] | None:
        """Elements per axis, or the most that there may be (2⁶⁴ - 1: no limit)."""
        if not maxdims or self._maxshape is None:
            return self.shape
        return tuple(_UNLIMITED if most is None else most for most in self._maxshape)

    def get_simple_extent_npoints(self) -> int:
        """Number of elements."""
        return 0 if self.shape is None else math.prod(self.shape)

    get_select_npoints = get_simple_extent_npoints

    def __repr__(self) -> str:
        return f"<SpaceID of shape {self.shape}>"


class AttrID:
    """An attribute."""

    def __init__(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape

    def get_type(self) -> TypeID:
        """The element type."""
        return TypeID(self.dtype)

    def get_space(self) -> SpaceID:
        """The extent."""
        return SpaceID(self.shape)

    def __repr__(self) -> str:
        return f"<AttrID of {self.name!r}>"


class NodeID:
    """An object of a file."""

    def __init__(self, node: FileNode | Datatype) -> None:
        self._node = node

    @property
    def valid(self) -> int:
        """Whether its file is open."""
        return int(bool(self._node))

    @property
    def name(self) -> bytes:
        """The path in the file."""
        return self._node.name.encode("utf-8", "surrogateescape")

    def __bool__(self) -> bool:
        return bool(self._node)

    def __eq__(self, other: object) -> bool:
        return self._node == other._node if isinstance(other, NodeID) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._node)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._node!r}>"


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
        """The element type."""
        return TypeID(self._node.dtype)

    def get_space(self) -> SpaceID:
        """The extent."""
        return SpaceID(self._node.shape, self._node.maxshape)

    def get_create_plist(self) -> PropDCID:
        """How it was created."""
        return PropDCID(self._node)

    def get_offset(self) -> int | None:
        """Where its elements begin in the file, if they are one run of bytes."""
        found: int | None = self._node._facts.get("offset")
        return found if self._node.size else None

    def get_storage_size(self) -> int:
        """Bytes that are stored."""
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
        """Number of chunks that are stored."""
        self._chunks()
        return len(self._node.chunk_index())

    def get_chunk_info(self, index: int, space: Any = None) -> StoreInfo:
        """Where the ``index``-th of the chunks that are stored is."""
        self._chunks()
        rows = self._node.chunk_index()
        if not 0 <= index < len(rows):
            raise InvalidArgumentError(f"Chunk index is out of range ({index} of {len(rows)})")
        return self._info(rows[index])

    def _row(self, chunk_offset: Sequence[int]) -> Any:
        """The row of the chunk index for the chunk of an element; ``None``: it is not stored."""
        chunks, shape = self._chunks(), self._node.shape
        place = tuple(at // chunk for at, chunk in zip(chunk_offset, chunks, strict=True))
        if any(not 0 <= at < n for at, n in zip(chunk_offset, shape, strict=True)):
            return None
        rows = self._node.chunk_index()
        number = np.ravel_multi_index(place, self._node.cdata_shape)
        at = int(np.searchsorted(rows["number"], number))
        return rows[at] if at < len(rows) and rows["number"][at] == number else None

    def get_chunk_info_by_coord(self, chunk_offset: Sequence[int]) -> StoreInfo:
        """Where the chunk of an element is."""
        row = self._row(chunk_offset)
        if row is None:
            return StoreInfo(None, 0, None, 0)
        return StoreInfo(tuple(chunk_offset), *self._info(row)[1:])

    def chunk_iter(self, func: Callable[[StoreInfo], Any]) -> Any:
        """Call a function with each chunk that is stored, until it returns something else than ``None``."""
        self._chunks()
        for row in self._node.chunk_index():
            answer = func(self._info(row))
            if answer is not None:
                return answer
        return None

    def read_direct_chunk(self, offsets: Sequence[int], dxpl: Any = None, out: Any = None) -> tuple[int, Any]:
        """The bytes of a chunk as they are stored.

        Parameters
        ----------
        offsets : sequence of int
            Its first element.
        out : buffer, optional
            Where to put them.

        Returns
        -------
        tuple
            Filters that were left out, and the bytes.
        """
        if any(at % chunk for at, chunk in zip(offsets, self._chunks(), strict=True)):
            raise OSError(f"Can't read unprocessed chunk data (offset {offsets} is not that of a chunk)")
        row = self._row(offsets)
        if row is None:
            raise OSError(f"Can't read unprocessed chunk data (no chunk at {tuple(offsets)} is stored)")
        mask = int(row["filter_mask"])
        data = self._node._stored_bytes(int(row["offset"]), int(row["size"]))
        if out is None:
            return mask, data
        memory = memoryview(out).cast("B")
        if len(memory) < len(data):
            raise InvalidArgumentError(f"out: {len(memory)} bytes are too few for a chunk of {len(data)}")
        memory[: len(data)] = data
        return mask, memory[: len(data)]


class PropDCID:
    """How a dataset was created."""

    def __init__(self, node: FileArray) -> None:
        self._node = node

    def get_layout(self) -> int:
        """0: compact, 1: contiguous, 2: chunked, 3: virtual."""
        return _LAYOUTS[self._node._facts["layout"]]

    def get_chunk(self) -> tuple[int, ...]:
        """Elements of a chunk per axis."""
        if self._node.chunks is None:
            raise InvalidArgumentError("Not a chunked storage layout")
        return self._node.chunks

    def get_nfilters(self) -> int:
        """Number of filters."""
        return len(self._node.filter_ids)

    def get_filter(self, index: int) -> tuple[int, int, tuple[int, ...], bytes]:
        """Number, flags (of which nothing is known), parameters and name of a filter."""
        number, name, parameters = self._node._facts["filters"][index]
        return number, 0, tuple(parameters), name.encode()

    def get_fill_value(self, value: np.ndarray[Any, Any]) -> None:
        """Put the fill value into an array."""
        value[...] = self._node.fill_value

    def get_external_count(self) -> int:
        """Number of files with its elements."""
        return len(self._node.external or ())

    def get_external(self, index: int = 0) -> tuple[bytes, int, int]:
        """Name, offset and bytes of one of them."""
        name, offset, size = (self._node.external or [])[index]
        return name.encode(), offset, size

    def get_virtual_count(self) -> int:
        """Number of parts of other datasets."""
        return len(self._node.virtual_sources()) if self._node.is_virtual else 0

    def get_virtual_filename(self, index: int = 0) -> str:
        """The file of one of them."""
        return self._node.virtual_sources()[index].file_name

    def get_virtual_dsetname(self, index: int = 0) -> str:
        """Its path there."""
        return self._node.virtual_sources()[index].dset_name
