"""The engine, in Rust. Everything here is internal, other than what `hyperslab.Array` inherits."""

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, final

import numpy as np
import numpy.typing as npt

from hyperslab._create import ArraySpec, CopySpec
from hyperslab._ragged import Ragged
from hyperslab._vlen import Kind

__all__ = [
    "ArrayBase",
    "ArrayHandle",
    "AttributeHandle",
    "CacheBase",
    "DatatypeHandle",
    "ElementHandle",
    "GroupBase",
    "GroupHandle",
    "Reference",
    "RegionReference",
    "StoreHandle",
    "StoredAttributes",
    "Stream",
    "Writer",
    "__version__",
    "arrow_array",
    "arrow_schema",
    "chunk_key",
    "chunk_of_key",
    "copy",
    "create_array",
    "create_group",
    "end_user_codecs",
    "explain_field",
    "finish_writers",
    "frozen",
    "is_reserved_codec",
    "open_node",
    "open_root",
    "ragged_check_text",
    "ragged_fixed",
    "ragged_objects",
    "ragged_of",
    "ragged_strings",
    "ragged_take",
    "ragged_views",
    "read_field",
    "recycled_bytes",
    "run_cli",
    "set_decodes_in_flight",
    "set_external_files",
    "set_file_locks",
    "set_fortran_results",
    "set_partial_decode",
    "set_partial_reads",
    "set_recycler_bound",
    "set_shard_index_bound",
    "set_threads",
    "set_verify_checksums",
    "set_vlen_chunk_bound",
    "set_write_empty_chunks",
    "small_numbers",
    "write_field",
]

__version__: str

_Item = TypeVar("_Item", bound=np.generic)

def run_cli(args: list[str]) -> int: ...
def set_threads(count: int) -> None: ...
def set_recycler_bound(bytes: int) -> None: ...
def set_decodes_in_flight(count: int) -> None: ...
def set_partial_reads(on: bool) -> None: ...
def set_partial_decode(on: bool) -> None: ...
def set_shard_index_bound(bytes: int) -> None: ...
def set_vlen_chunk_bound(bytes: int) -> None: ...
def set_verify_checksums(on: bool) -> None: ...
def finish_writers() -> None: ...
def set_file_locks(on: bool) -> None: ...
def set_external_files(policy: str) -> None: ...
def set_write_empty_chunks(on: bool) -> None: ...
def set_fortran_results(on: bool) -> None: ...
def set_read_missing_chunks(on: bool) -> None: ...
def recycled_bytes() -> int: ...
def small_numbers() -> dict[str, str]: ...
def end_user_codecs() -> None: ...
def is_reserved_codec(name: str, v2: bool) -> bool: ...
def open_node(
    store: StoreHandle, path: str, zarr_format: int | None = None, consolidated: bool | None = None
) -> ArrayHandle | GroupHandle: ...
def open_root(
    location: str, fsync: bool, zarr_format: int | None = None
) -> tuple[StoreHandle, ArrayHandle | GroupHandle] | None: ...
def chunk_key(encoding: str, chunk: Sequence[int]) -> str: ...
def chunk_of_key(encoding: str, key: str, rank: int) -> list[int] | None: ...
def create_array(
    store: StoreHandle,
    path: str,
    spec: ArraySpec,
    overwrite: bool,
    fill: Callable[[ArrayHandle], object] | None = None,
) -> ArrayHandle: ...
def create_group(
    store: StoreHandle,
    path: str,
    zarr_format: int,
    attributes: str,
    overwrite: bool,
    fill: Callable[[StoreHandle], object] | None = None,
) -> GroupHandle: ...
def copy(
    source: ArrayHandle | GroupHandle,
    destination: StoreHandle | str,
    path: str,
    wanted: CopySpec,
    progress: Callable[[Literal["copy", "verify"], int, int], object] | None = None,
) -> dict[str, Any]: ...
def read_field(array: ArrayBase, name: str, selection: Any, meaning: _Meaning | None = None) -> Any: ...
def write_field(
    array: ArrayBase, name: str, selection: Any, value: Any, meaning: _Meaning | None = None
) -> None: ...
def explain_field(array: ArrayBase, name: str, selection: Any, write: bool, tasks: int) -> dict[str, Any]: ...
def frozen(array: npt.NDArray[_Item]) -> npt.NDArray[_Item]: ...
def object_bytes(object: Any, codec: str) -> bytes: ...
def ragged_of(values: Any, kind: Kind | None = None, item: np.dtype[Any] | None = None) -> Ragged: ...
def ragged_strings(ragged: Ragged, dtype: np.dtype[Any]) -> npt.NDArray[Any]: ...
def ragged_objects(
    ragged: Ragged, dtype: np.dtype[Any], encoding: str | None = None, errors: str = "strict"
) -> npt.NDArray[Any]: ...
def ragged_fixed(ragged: Ragged, wide: bool, len: int | None = None) -> npt.NDArray[Any]: ...
def ragged_views(ragged: Ragged, dtype: np.dtype[Any]) -> npt.NDArray[Any]: ...
def convert_elements(
    src: npt.NDArray[np.uint8], from_: str, dst: npt.NDArray[np.uint8], to: str, /
) -> bool: ...
def ragged_check_text(ragged: Ragged) -> None: ...
def ragged_take(
    offsets: npt.NDArray[np.int64],
    values: npt.NDArray[np.uint8],
    size: int,
    places: npt.NDArray[np.int64],
    lasting: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]: ...
def arrow_schema(ragged: Ragged) -> Any: ...
def arrow_array(ragged: Ragged, requested: Any = None) -> tuple[Any, Any]: ...
def arrow_of_values(values: npt.NDArray[Any], valid: npt.NDArray[Any] | None = None) -> tuple[Any, Any]: ...
def arrow_values(object: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]: ...
def v3_data_type(text: str) -> tuple[str, bool]: ...

@final
class StoreHandle:
    @staticmethod
    def reach(location: str, fsync: bool) -> tuple[StoreHandle, str]: ...
    @staticmethod
    def local(location: str, fsync: bool) -> StoreHandle: ...
    @staticmethod
    def memory() -> StoreHandle: ...
    @staticmethod
    def mapping(mapping: Any, url: str | None = None) -> StoreHandle: ...
    def file_at(self, path: str) -> tuple[StoreHandle, str] | None: ...
    def refuse_file_name(self) -> None: ...
    @property
    def is_file(self) -> bool: ...
    @property
    def is_local(self) -> bool: ...
    @property
    def file_format(self) -> str | None: ...
    @property
    def file_path(self) -> os.PathLike[str] | None: ...
    def is_file_of(self, node: ArrayHandle | GroupHandle) -> bool: ...
    def close(self) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def check_open(self) -> None: ...
    @property
    def url(self) -> str: ...
    @property
    def root(self) -> os.PathLike[str] | None: ...
    def same(self, other: StoreHandle) -> bool: ...
    def is_empty(self, path: str) -> bool: ...
    def list(self, prefix: str) -> list[str]: ...
    def get(self, key: str) -> bytes | None: ...
    def set(self, key: str, value: bytes) -> None: ...
    def set_new(self, key: str, value: bytes) -> bool: ...
    def delete(self, key: str) -> bool: ...

@final
class ArrayHandle:
    @staticmethod
    def deferred(store: StoreHandle, path: str, zarr_format: int | None) -> ArrayHandle: ...
    @property
    def file(self) -> StoreHandle | None: ...

@final
class StoredAttributes:
    def text(self) -> str: ...
    def set(self, text: str) -> None: ...
    def update(self, text: str, keep: bool = False) -> None: ...
    def delete(self, name: str) -> bool: ...

class CacheBase:
    def __new__(cls, limit: int) -> Self: ...
    @property
    def limit(self) -> int:
        """The most bytes that it keeps."""
    @property
    def nbytes(self) -> int:
        """Bytes kept now."""
    @property
    def hits(self) -> int:
        """How often a chunk was found in it, unchanged."""
    @property
    def misses(self) -> int:
        """How often a chunk was not found, or had changed."""
    def clear(self) -> None:
        """Drop all chunks; the counts stay."""

_Meaning = Literal["orthogonal", "points", "coordinates", "mask", "blocks"]

class ArrayBase:
    def __new__(
        cls,
        handle: ArrayHandle,
        read_only: bool = False,
        write_empty_chunks: bool | None = None,
        cache: CacheBase | None = None,
        fortran: bool | None = None,
        read_missing: bool | None = None,
    ) -> Self: ...
    def _check_stored(self, selection: Any) -> None: ...
    @property
    def _handle(self) -> ArrayHandle: ...
    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
    @property
    def path(self) -> str:
        """The path in the store; empty for the root."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
    @property
    def ndim(self) -> int:
        """Number of axes."""
    @property
    def size(self) -> int:
        """Number of elements."""
    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
    @property
    def _largest_chunk(self) -> tuple[int, ...]:
        """Elements of a chunk per axis; of chunks of different shapes, of the longest along each axis."""
    def _chunk_lengths(self) -> list[list[int]] | None:
        """Lengths of chunks along each axis; ``None``: all chunks have one shape."""
    def _object_lengths(self) -> list[list[int]] | None:
        """Lengths of objects along each axis; ``None``: all objects have one shape."""
    @property
    def _object_counts(self) -> tuple[int, ...]:
        """Number of objects per axis, stored or not: shards, or chunks where there are none."""
    @property
    def _largest_shard(self) -> tuple[int, ...] | None:
        """Elements of a shard per axis; of shards of different shapes, of the longest along each axis."""
    def _chunks_stored(self) -> int:
        """How many chunks the stored objects have in all."""
    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements of a chunk per axis."""
    @property
    def shards(self) -> tuple[int, ...] | None:
        """Elements of a shard per axis; ``None``: the array has no shards."""
    @property
    def cdata_shape(self) -> tuple[int, ...]:
        """Number of chunks per axis."""
    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Names of the axes."""
    def _check_writable(self) -> None: ...
    @property
    def _zarr_format(self) -> int: ...
    @property
    def _fortran_order(self) -> bool: ...
    @property
    def _fill(self) -> bytes | None: ...
    @property
    def _fill_object(self) -> Any: ...
    @property
    def _codecs(self) -> tuple[str, str | None, str]: ...
    @property
    def _document(self) -> str: ...
    @property
    def _stored_attributes(self) -> StoredAttributes: ...
    def _compact(self, dry_run: bool) -> int: ...
    def _virtual_sources(self) -> list[tuple[tuple[Any, ...], str, str, tuple[Any, ...]]]: ...
    @property
    def _memory_dtype(self) -> np.dtype[Any]: ...
    @property
    def _objects(self) -> ElementHandle | None: ...
    @property
    def _is_vlen(self) -> bool: ...
    def _text(
        self, selection: Any, encoding: str, errors: str, dtype: np.dtype[Any] | None = None
    ) -> Any: ...
    def _raw(
        self,
        selection: Any = None,
        meaning: _Meaning | None = None,
        threads: int | None = None,
        verify: bool | None = None,
    ) -> npt.NDArray[Any]: ...
    def _file_attributes(self) -> list[AttributeHandle]: ...
    def _chunk_columns(self) -> tuple[npt.NDArray[Any], ...] | None: ...
    def _file_facts(self) -> dict[str, Any]: ...
    def _stored(self) -> tuple[int, int]: ...
    def _resize(self, shape: list[int]) -> None: ...
    def _append(self, values: Any, like: list[int], axis: int) -> tuple[int, ...]: ...
    def _refresh(self) -> None: ...
    def _explain(
        self, selection: Any = None, write: bool = False, tasks: int = 20, meaning: _Meaning | None = None
    ) -> dict[str, Any]: ...
    def read(
        self,
        selection: Any = None,
        out: Any = None,
        threads: int | None = None,
        verify: bool | None = None,
        *,
        masked: bool = False,
    ) -> npt.NDArray[Any]:
        """Read a selection, by default everything, into a new array or into ``out``; ``masked``: a masked
        array.
        """
    def read_ragged(
        self, selection: Any = None, *, threads: int | None = None, verify: bool | None = None
    ) -> Ragged:
        """Read elements of variable length as they are in memory: offsets and values."""
    def write(
        self,
        selection: Any,
        value: Any,
        threads: int | None = None,
        write_empty_chunks: bool | None = None,
    ) -> None:
        """``array[selection] = value``, with options; ``selection`` ``None``: everything."""
    def _get(self, meaning: _Meaning, selection: Any, out: Any = None) -> Any: ...
    def _set(self, meaning: _Meaning, selection: Any, value: Any) -> None: ...
    def __getitem__(self, selection: Any, /) -> Any: ...
    def __setitem__(self, selection: Any, value: Any, /) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class Stream:
    """Pairs of an index and what is there, along one axis. Made by `Array.stream`."""

    def __new__(
        cls,
        handle: ArrayHandle,
        axis: int = 0,
        start: int | None = None,
        stop: int | None = None,
        ahead: int | None = None,
        threads: int | None = None,
        verify: bool | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, Any]: ...
    def __length_hint__(self) -> int:
        """How many rows are still to come."""
    def close(self) -> None:
        """Stop reading ahead; there are no further rows."""

@final
class Writer:
    """Writes that return before they are done. Made by `Array.writer`."""

    def __new__(
        cls,
        handle: ArrayHandle,
        buffer: int | None = None,
        threads: int | None = None,
        write_empty_chunks: bool | None = None,
    ) -> Self: ...
    def __setitem__(self, selection: Any, value: Any, /) -> None: ...
    def flush(self) -> None:
        """Wait until everything written so far is stored."""
    def close(self) -> None:
        """`flush`, and take no more."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class GroupHandle:
    @staticmethod
    def deferred(store: StoreHandle, path: str, zarr_format: int | None) -> GroupHandle: ...
    @property
    def file(self) -> StoreHandle | None: ...

class GroupBase:
    def __new__(cls, handle: GroupHandle, read_only: bool = False) -> Self: ...
    @property
    def _handle(self) -> GroupHandle: ...
    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
    @property
    def path(self) -> str:
        """The path in the store; empty for the root."""
    def _check_writable(self) -> None: ...
    @property
    def _zarr_format(self) -> int: ...
    @property
    def _is_consolidated(self) -> bool: ...
    @property
    def _stored_attributes(self) -> StoredAttributes: ...
    def _walk(self, depth: int | None = None) -> list[tuple[str, str]]: ...
    def _child(self, path: str) -> Any: ...
    def _file_attributes(self) -> list[AttributeHandle]: ...
    def _file_links(self) -> list[tuple[str, tuple[str, int, str, str]]]: ...
    def _file_link(self, name: str) -> tuple[str, int, str, str] | None: ...
    def _file_object(self, address: int, name: str) -> Any: ...
    def _phony_dimensions(self) -> dict[str, list[str]]: ...
    def _hdf5_address(self) -> int | None: ...
    def _child_kind(self, path: str) -> str | None: ...
    def _delete_child(self, path: str) -> None: ...
    def _consolidate(self) -> None: ...
    def _notice(self, path: str, array: ArrayHandle | None = None) -> None: ...
    def _refresh(self) -> None: ...

@final
class ElementHandle:
    @property
    def json(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_made_of_objects(self) -> bool: ...
    @property
    def file(self) -> StoreHandle: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def fields(self) -> list[tuple[str, int, ElementHandle]]: ...
    def base(self) -> ElementHandle | None: ...
    def strings(
        self,
        memory: npt.NDArray[np.uint8],
        offset: int,
        stride: int,
        count: int,
        outer: Sequence[npt.NDArray[np.int64]],
        encoding: str | None = None,
        errors: str = "strict",
    ) -> npt.NDArray[Any]: ...
    def references(
        self, memory: npt.NDArray[np.uint8], offset: int, stride: int, count: int
    ) -> list[Reference]: ...
    def sequences(
        self,
        memory: npt.NDArray[np.uint8],
        offset: int,
        stride: int,
        count: int,
        outer: Sequence[npt.NDArray[np.int64]],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None]: ...

@final
class AttributeHandle:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def element(self) -> ElementHandle | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def dtype(self) -> np.dtype[Any] | None: ...
    def data(self) -> npt.NDArray[np.uint8]: ...

@final
class DatatypeHandle:
    @property
    def path(self) -> str: ...
    @property
    def file(self) -> StoreHandle: ...
    @property
    def element(self) -> ElementHandle: ...
    @property
    def address(self) -> int: ...
    def _file_attributes(self) -> list[AttributeHandle]: ...

class Reference:
    """A reference to an object of an HDF5 file; false where it leads nowhere. ``file[reference]`` is the
    object.
    """

    def __bool__(self) -> bool: ...
    @property
    def name(self) -> str | None:
        """The path of the object from the root; ``None``: it leads nowhere, into another file, or no link
        leads to it.
        """
    @property
    def filename(self) -> str | None:
        """The other file that it leads into, as it is called there."""
    @property
    def attribute(self) -> str | None:
        """The attribute that it leads to."""
    def _open(self) -> Any: ...

class RegionReference(Reference):
    """A reference to elements of a dataset of an HDF5 file. ``file[reference]`` is the dataset,
    ``dataset[reference]`` the elements.
    """

    def _selection(self) -> tuple[Any, ...]: ...
