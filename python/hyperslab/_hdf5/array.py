"""Arrays of HDF5 and NetCDF files: `Array` with additions from h5py."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._base.once import Once
from hyperslab._core.array import Array
from hyperslab._core.array_common import AnyArray
from hyperslab._core.array_config import ArrayConfig, parse_cache, parse_config
from hyperslab._core.cache import Cache
from hyperslab._core.identity import content_of
from hyperslab._core.info import Info, human_size
from hyperslab._core.metadata import Metadata
from hyperslab._elements.hdf5_types import Empty, is_text, metadata_entry
from hyperslab._elements.ragged import Ragged
from hyperslab._hdf5.array_filters import ArrayFilters
from hyperslab._hdf5.array_views import Converted, Fields, Text, View
from hyperslab._hdf5.array_writing import ArrayWriting
from hyperslab._hdf5.convert import converted
from hyperslab._hdf5.dims import Dimensions
from hyperslab._hdf5.filters import shown_name
from hyperslab._hdf5.ids import DatasetID, node_of
from hyperslab._hdf5.node import FileNode
from hyperslab._hdf5.regions import read_region
from hyperslab._hdf5.selections import Regions, chunks_of, has_blocks, without_blocks
from hyperslab._hdf5.values import decoded, ragged, values
from hyperslab._native import RegionReference
from hyperslab._stores.store import Store
from hyperslab.errors import ArgumentTypeError, DataTypeError, UnsupportedError

__all__ = ["FileArray", "VirtualSource", "reopen_array"]


class VirtualSource(NamedTuple):
    """A part of a virtual dataset: elements that come from another dataset."""

    vspace: tuple[Any, ...]
    """The elements in the virtual dataset.

    ``("all",)``; ``("slabs", [(start, stride, count, block), …])`` with one entry per axis, in
    which a count or block of ``None`` means as many as there are; ``("points", …)``;
    ``("blocks", …)``; or ``("none",)``.
    """
    file_name: str
    """The file of the other dataset; ``"."``: the same file."""
    dset_name: str
    """Path of the other dataset."""
    src_space: tuple[Any, ...]
    """The elements in the other dataset."""


if TYPE_CHECKING:
    # For type checkers: to `isinstance`, this class is an `Array`.
    _Base = Array
else:
    _Base = AnyArray


def _without_objects(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return one element of zeros, with ``None`` in place of objects."""
    made = np.empty(1, dtype)
    for name in dtype.names or ():
        kind = made[name].dtype
        if kind.names:
            made[name] = _without_objects(kind)
        elif kind.kind != "O":
            made[name] = np.zeros((), kind)
    return made


class FileArray(ArrayFilters, ArrayWriting, FileNode, _Base):  # type: ignore[misc]
    """An array of an HDF5 or NetCDF file: a dataset or variable.

    Made by `hyperslab.open` and groups. It is read like any `Array`. Features that HDF5 has and
    Zarr lacks work as in h5py. Text of variable length is read as `bytes` (`asstr` decodes it).
    Sequences of variable length are read as an object array of arrays, references as `Reference`,
    and members of structures by name (``array["a"]``). If the file was opened for writing, elements
    are assigned as in h5py.

    Examples
    --------
    >>> import h5py, hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with h5py.File(path, "w") as file:
    ...     _ = file.create_dataset("t", data=[1.5, 2.5, 3.5], chunks=(2,), compression="gzip")
    ...     file["names"] = ["Rhône", "Rhein"]
    >>> file = hs.open(path)
    >>> file["t"][1:], file["t"].chunks, file["t"].compression
    (array([2.5, 3.5]), (2,), 'gzip')
    >>> file["names"][0], file["names"].asstr()[0]
    (b'Rh\\xc3\\xb4ne', 'Rhône')
    """

    _settles = False

    @classmethod
    def _of_id(cls, low_id: Any) -> Self:
        # As in h5py, `Dataset(id)` is the dataset of a low-level object.
        found: Self = node_of(low_id, DatasetID)
        return found

    if TYPE_CHECKING:
        _stored_shape: tuple[int, ...]
    else:
        # The engine's own property, without the Python around `shape`.
        _stored_shape = _native.ArrayBase.shape

    @Once
    def _of_objects(self) -> _native.ElementHandle | None:
        """The element type, if Python must make objects of elements; ``None``: the engine does."""
        return None if self._is_vlen else self._objects

    @property
    def _facts(self) -> dict[str, Any]:
        """Facts about the dataset. They are kept until a change."""
        version = self._version
        kept: tuple[int, dict[str, Any]] | None = self.__dict__.get("_kept_facts")
        if kept is None or kept[0] != version:
            kept = version, self._file_facts()
            vars(self)["_kept_facts"] = kept
        return kept[1]

    @property
    def _address(self) -> int:
        return self._facts["address"]  # type: ignore[no-any-return]

    # ---- what it is

    @property
    def _is_null(self) -> bool:
        return bool(self._facts["null"])

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis; ``None`` if the dataset has no elements and no shape."""
        found = self._stored_shape
        return None if found == (0,) and self._is_null else found  # type: ignore[return-value]

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self.resize(shape)

    @property
    def size(self) -> int:
        """Number of elements; ``None`` if the dataset has no elements and no shape."""
        return None if self.shape is None else super().size  # pyright: ignore[reportReturnType]

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape or ())

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return (self.size or 0) * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        """Chunk length per axis in elements; ``None`` if the dataset is not chunked."""
        return self._facts["chunks"]  # type: ignore[no-any-return]

    @property
    def maxshape(self) -> tuple[int | None, ...] | None:
        """Maximum elements per axis; ``None`` for an axis without limit."""
        return None if self._is_null else self._facts["maxshape"]

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written.

        Zero if the file does not give one; ``None`` for sequences and references.
        """
        dtype = self.dtype
        if dtype.subdtype is None and dtype.kind != "O" and not (dtype.names and self._of_objects):
            fill = self._fill
            return np.zeros((), dtype)[()] if fill is None else np.frombuffer(fill, dtype)[0]
        if dtype.subdtype is not None:
            fill = self._fill
            base, shape = dtype.subdtype
            whole = self._of_objects is None and fill is not None
            return np.frombuffer(fill, base).reshape(shape) if whole and fill else np.zeros(shape, base)
        if dtype.kind == "O":
            fill, element = self._fill, self._objects
            if not is_text(dtype) or fill is None or element is None:
                return b"" if is_text(dtype) else None
            return values(element, np.frombuffer(fill, f"V{element.size}"))[0]
        return _without_objects(dtype)[0]

    @property
    def fillvalue(self) -> Any:
        """Same as `fill_value`, under h5py's name."""
        return self.fill_value

    @property
    def external(self) -> list[tuple[str, int, int]] | None:
        """External files with elements: name, offset, bytes; ``None`` if all are in this file."""
        unlimited = 2**64 - 1
        found = self._facts["external"]
        return [(name, at, unlimited if n is None else n) for name, at, n in found] or None

    @property
    def is_virtual(self) -> bool:
        """True if the dataset is made of parts of other datasets."""
        return bool(self._facts["virtual"])

    def virtual_sources(self) -> list[VirtualSource]:
        """Return the parts of a virtual dataset (`is_virtual`); raise `RuntimeError` for others."""
        if not self.is_virtual:
            raise RuntimeError("Not a virtual dataset")
        return [VirtualSource(*source) for source in self._virtual_sources()]

    @property
    def is_scale(self) -> bool:
        """True if the dataset is a dimension scale."""
        return self.attrs.get("CLASS", b"") in (b"DIMENSION_SCALE", "DIMENSION_SCALE")

    @property
    def dims(self) -> Dimensions:
        """Labels and dimension scales of the axes."""
        return Dimensions(self)

    @property
    def metadata(self) -> Metadata:  # type: ignore[override]
        """The facts about the dataset in the file."""
        fill = self.fill_value if self._has_dtype else None
        facts = {"shape": self.shape, "dtype": self._shown_dtype, "fill_value": fill, **self._facts}
        return Metadata({**facts, "attributes": self.attrs.shown()})

    @property
    def _shown_dtype(self) -> Any:
        try:
            return self.dtype
        except DataTypeError as error:
            # NumPy lacks this type, so elements cannot be read, but other facts can be shown.
            return f"({error})"

    @property
    def _has_dtype(self) -> bool:
        return isinstance(self._shown_dtype, np.dtype)

    @property
    def order(self) -> Any:
        """Always ``"C"``."""
        return "C"

    @property
    def nchunks(self) -> int:
        """Number of chunks, stored or not; 1 if the dataset is not chunked."""
        return 1 if self.chunks is None else math.prod(self.cdata_shape)

    @property
    def nchunks_initialized(self) -> int:
        """Number of stored chunks."""
        return self._stored()[0]

    def nbytes_stored(self) -> int:
        """Bytes of all stored chunks."""
        return self._stored()[1]

    def _array_facts(self) -> dict[str, Any]:
        names = [shown_name(number, name) for number, name, _ in self._facts["filters"]]
        facts = {
            "Type": "Array",
            "Format": self._store._native.file_format,
            "Data type": self._shown_dtype,
            "Fill value": self.fill_value if self._has_dtype else None,
            "Shape": self.shape,
            "Largest shape": self.maxshape,
            "Chunk shape": self.chunks,
            "Read-only": self.read_only,
            "Store type": type(self._store).__name__,
            "Filters": ", ".join(names) or "none",
        }
        if self._has_dtype:
            facts["No. bytes"] = f"{self.nbytes} ({human_size(self.nbytes)})"
        names_of_axes = self.dimension_names
        if names_of_axes is not None:
            facts["Dimension names"] = names_of_axes
        return facts

    @property
    def info(self) -> Info:
        """A description of the array, one fact per line."""
        return Info(self._array_facts())

    def info_complete(self) -> Info:
        """Return `info` plus facts about the stored chunks."""
        chunks, stored = self._stored()
        facts = self._array_facts()
        facts["No. bytes stored"] = f"{stored} ({human_size(stored)})"
        facts["Storage ratio"] = f"{self.nbytes / stored:.1f}" if stored and self._has_dtype else "-"
        facts["Chunks Initialized"] = f"{chunks} of {self.nchunks}"
        return Info(facts)

    # ---- reading

    def _is_whole_scalar(self, selection: Any) -> bool:
        """Return True for ``array[...]`` of a scalar dataset, which is a 0-d array as in h5py.

        ``array[()]`` is a scalar instead.
        """
        if isinstance(selection, tuple):
            return len(selection) == 1 and selection[0] is Ellipsis and self.shape == ()
        return selection is Ellipsis and self.shape == ()

    def _nothing(self, selection: Any) -> Empty:
        if selection is not Ellipsis and selection != ():
            raise ValueError("Empty datasets cannot be sliced")
        return Empty(self.dtype)

    def _read_members(self, names: str | list[str], rest: tuple[Any, ...]) -> Any:
        """Read ``array["a", 0:3]``: names of members, and the other items of the index."""
        return self.fields(names)[rest or (() if self.shape == () else ...)]

    def _read_region(self, region: RegionReference) -> Any:
        return read_region(self, region)

    def _read_objects(self, selection: Any) -> Any:
        """Read ``array[selection]`` if more than the engine is needed.

        The elements are Python objects, there is only one element or none, or the selection has
        a `MultiBlockSlice`.
        """
        if self._is_null:
            return self._nothing(selection)
        if self.shape == ():
            made = self.read(selection)
            return made if self._is_whole_scalar(selection) else made[()]
        parts = selection if isinstance(selection, tuple) else (selection,)
        if has_blocks(parts):
            return self.get_orthogonal_selection(without_blocks(parts, self.shape))
        if self._of_objects is None:
            return super().__getitem__(selection)
        return values(self._of_objects, self._raw(selection))[()]

    def _get(
        self, meaning: _native._Meaning, selection: Any, out: Any = None, threads: int | None = None
    ) -> Any:
        if self._of_objects is None:
            return super()._get(meaning, selection, out, threads)
        made = values(self._of_objects, self._raw(selection, meaning))
        if out is None:
            return made[()]
        out[...] = made
        return out

    def _decoded(self, selection: Any, encoding: str, errors: str) -> Any:
        if self.dtype.kind == "S":
            return decoded(self[selection], encoding, errors)
        found = self._text(selection, encoding, errors)
        return np.asarray(found, object) if self._is_whole_scalar(selection) else found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("copy=False: memory allocation cannot be avoided on read")
        if dtype is None:
            return self.read()
        wanted = np.dtype(dtype)
        if wanted.kind == "T":
            return np.asarray(self.astype(wanted)[...])
        return converted(self.read(), wanted, self.dtype)

    def read(
        self,
        selection: Any = None,
        out: Any = None,
        threads: int | None = None,
        verify: bool | None = None,
        *,
        masked: bool = False,
    ) -> npt.NDArray[Any]:
        """Read a selection into a new array or into the caller's memory; see `Array.read`."""
        if self._is_null:
            raise ValueError(f"array '{self.name}' has no elements and no shape: nothing can be read")
        if self._of_objects is None:
            return super().read(selection, out, threads, verify, masked=masked)
        if masked:
            raise ArgumentTypeError(
                f"array '{self.name}': masked=True is not supported for values that are Python objects"
            )
        raw = self._raw(selection, None, threads, verify)
        made: npt.NDArray[Any] = values(self._of_objects, raw)
        if out is None:
            return made
        if not isinstance(out, np.ndarray) or out.shape != made.shape:
            raise UnsupportedError(
                f"out: expected a NumPy array of shape {made.shape}, found {type(out).__name__} "
                f"of shape {getattr(out, 'shape', None)}"
            )
        out[...] = made
        return out

    def read_ragged(
        self, selection: Any = None, *, threads: int | None = None, verify: bool | None = None
    ) -> Ragged:
        """Read elements of variable length as they are in memory: offsets and values.

        See `Array.read_ragged`. Items of sequences may have variable length too.
        """
        if self._of_objects is None:
            return super().read_ragged(selection, threads=threads, verify=verify)
        if self._is_null:
            raise ValueError(f"array '{self.name}' has no elements and no shape: nothing can be read")
        return ragged(self._of_objects, self._raw(selection, None, threads, verify))

    def asstr(self, encoding: str | None = None, errors: str = "strict") -> Text:
        """Return a view of the array that reads text as `str`.

        Parameters
        ----------
        encoding : str, optional
            Default: UTF-8 or ASCII, as stored in the file.
        errors : str, default "strict"
            As in `bytes.decode`.

        Raises
        ------
        TypeError
            If elements are not text.
        """
        dtype = self.dtype
        if dtype.kind != "S" and not is_text(dtype):
            raise TypeError("dset.asstr() can only be used on datasets with an HDF5 string datatype")
        if encoding is None:
            is_ascii = (
                metadata_entry(dtype, "vlen") is bytes or metadata_entry(dtype, "h5py_encoding") == "ascii"
            )
            encoding = "ascii" if is_ascii else "utf-8"
        return Text(self, encoding, errors)

    def astype(self, dtype: npt.DTypeLike) -> View:
        """Return a view that reads another type. ``"T"``: text, as NumPy's ``StringDType``."""
        wanted = np.dtype(dtype)
        if wanted.kind == "T" and self.dtype.kind != "S" and not is_text(self.dtype):
            raise TypeError(
                f"dset.astype({wanted}) can only be used on datasets with an HDF5 string datatype"
            )
        return Converted(self, wanted)

    _reads_fields = False

    def fields(self, names: str | Sequence[str]) -> Fields:  # type: ignore[override]
        """Return a view that reads only some members of the structures."""
        return Fields(self, names)

    def chunk_index(self) -> npt.NDArray[Any]:
        """Return the positions of the stored chunks.

        Returns
        -------
        numpy.ndarray
            One record per stored chunk, in C order of the chunks: ``number`` (`numpy.unravel_index`
            over ``cdata_shape`` gives the position in the grid), ``offset`` in the file, ``size``
            in bytes, and ``filter_mask`` (bit i: the i-th filter was skipped).

        Examples
        --------
        >>> import h5py, hyperslab as hs, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "a.h5")
        >>> with h5py.File(path, "w") as file:
        ...     file["a"] = file.create_dataset("b", data=[1, 2, 3], chunks=(2,), dtype="i4")
        >>> hs.open(path)["b"].chunk_index()["size"]
        array([8, 8], dtype=uint64)
        """
        columns = self._chunk_columns()
        if columns is None:
            raise TypeError("Chunked dataset required")
        fields = [("number", "u8"), ("offset", "u8"), ("size", "u8"), ("filter_mask", "u4")]
        index: npt.NDArray[Any] = np.empty(len(columns[0]), fields)
        for (name, _), column in zip(fields, columns, strict=True):
            index[name] = column
        return index

    def iter_chunks(self, sel: Any = None) -> Iterator[tuple[slice, ...]]:
        """Iterate over the selections of the chunks.

        Parameters
        ----------
        sel : int, slice or tuple of them, optional
            Restrict the chunks to this region.
        """
        return chunks_of(self, sel)

    def read_direct(self, dest: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read into an array or a part of it, converting elements to its type.

        Parameters
        ----------
        dest : numpy.ndarray
        source_sel, dest_sel : index, optional
            What to read, and where to put it. Default: everything.
        """
        if self._is_null:
            raise TypeError("Empty datasets have no numpy representation")
        into = dest if dest_sel is None else dest[dest_sel]
        blocks = has_blocks(source_sel)
        shares = not blocks and isinstance(into, np.ndarray) and np.may_share_memory(into, dest)
        if shares and into.dtype == self.dtype and self._of_objects is None and dest_sel is None:
            wanted = self.shape if source_sel is None else self.lazy[source_sel].shape
            if wanted == into.shape:
                self.read(source_sel, out=into)
                return
        read = self[source_sel] if blocks else self.read(source_sel)
        found = converted(read, dest.dtype, self.dtype)
        target = np.shape(into)
        if found.shape != target and [n for n in found.shape if n != 1] == [n for n in target if n != 1]:
            found = found.reshape(target)
        try:
            dest[... if dest_sel is None else dest_sel] = found
        except ValueError:
            raise ArgumentTypeError(f"Can't broadcast {np.shape(found)} -> {target}") from None

    @property
    def regionref(self) -> Regions:
        """An object that makes references to elements: ``array.regionref[selection]``."""
        return Regions(self)

    @property
    def id(self) -> DatasetID:
        """h5py's low-level object: chunk positions, space, type, creation properties."""
        return DatasetID(self)

    def stream(
        self,
        axis: int = 0,
        *,
        start: int | None = None,
        stop: int | None = None,
        ahead: int | str | None = None,
    ) -> Any:
        """Iterate over one axis while other threads read ahead; see `Array.stream`."""
        rows = super().stream(axis, start=start, stop=stop, ahead=ahead)
        element = self._of_objects
        if element is None:
            return rows
        return ((index, values(element, np.asarray(row))[()]) for index, row in rows)

    # ---- Python protocols

    def len(self) -> int:
        """Return the number of elements along the first axis."""
        if not self.shape:
            raise TypeError("Attempt to take len() of scalar dataset")
        return self.shape[0]

    def __len__(self) -> int:
        return self.len()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileArray):
            return NotImplemented
        return self._store == other._store and self._facts["address"] == other._facts["address"]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self._store.url, self._facts["address"]))

    def with_config(self, config: Mapping[str, Any]) -> Array:
        """Return the same array with its own settings; see `Array.with_config`."""
        if parse_config(config) != ArrayConfig():
            raise UnsupportedError("config: an array of an HDF5 or NetCDF file has only the setting 'cache'")
        return FileArray(self._handle, self._store, None, parse_cache(config, self._cache))

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen_array, (self._store, self.path, self._cache)

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return "hyperslab.Array", self._store.url, self.path, *content_of(self)

    def _repr_html_(self) -> str:
        from hyperslab._display.html import array_html

        if not self:
            return f"<pre>{html.escape(repr(self))}</pre>"
        title = f"Array {self._store.url}{self.name}"
        return array_html(title, self._array_facts(), self.shape or (), self.chunks or self.shape or ())


# To users it is an array like any other. It lacks the members that only Zarr has.
Array.register(FileArray)


def reopen_array(store: Store, path: str, cache: Cache | None) -> FileArray:
    """Unpickle an array."""
    return FileArray(_native.ArrayHandle.deferred(store._native, path, None), store, None, cache)
