"""New datasets from h5py's arguments."""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._elements.hdf5_types import Empty
from hyperslab._hdf5.defaults import get_config
from hyperslab._hdf5.dtypes import StringInfo, check_string_dtype, string_dtype
from hyperslab._hdf5.encode import encoded
from hyperslab._hdf5.external import check_external, check_prefix, external_files
from hyperslab._hdf5.low.h5py_warnings import H5pyDeprecationWarning
from hyperslab._hdf5.new_arrays import array_of, is_empty, numpy_type
from hyperslab._hdf5.new_filters import Options, filters_of
from hyperslab._native import NewValues, StoredType
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup

__all__ = ["fill_bytes", "new_dataset", "resolved_type", "time_of"]

_FILL_TIMES = ("alloc", "never", "ifset")
# Keywords of h5py for reading the dataset later. They do not affect the file.
_FOR_ACCESS = ("dapl", "efile_prefix", "virtual_prefix", "rdcc_nslots", "rdcc_nbytes", "rdcc_w0")


def resolved_type(dtype: Any) -> tuple[np.dtype[Any], StoredType]:
    """Return the NumPy type and the stored type for a NumPy type, a committed or a low-level type."""
    stored = getattr(dtype, "_stored_type", None)
    if stored is not None:
        return dtype.dtype, stored
    kind = np.dtype(dtype)
    if kind.itemsize == 0 and kind.kind in "SV":
        raise InvalidArgumentError(f"Size must be positive: elements of type {kind!r} have no bytes")
    return kind, StoredType(kind)


def time_of(track_times: Any, choices: str = "True or False") -> int | None:
    """Return the time of a new object in seconds since 1970; ``None`` if it keeps no times."""
    if track_times not in (None, True, False):
        raise ArgumentTypeError(f"track_times must be either {choices}")
    return int(time.time()) if track_times else None


def _checked_order(track_order: Any) -> bool:
    if track_order is None:
        return bool(get_config().track_order)
    if track_order is not True and track_order is not False:
        raise ArgumentTypeError("track_order must be either True or False")
    return bool(track_order)


def _shape_of(shape: Any) -> tuple[int, ...]:
    found = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    made = tuple(int(n) for n in found)
    if any(n < 0 for n in made):
        raise OverflowError(f"can't convert negative value to hsize_t: shape {made}")
    return made


def _maxshape_of(maxshape: Any, shape: tuple[int, ...]) -> tuple[int | None, ...] | None:
    if maxshape is None:
        return None
    if maxshape is True:
        return (None,) * len(shape)
    most = tuple(None if n is None or n >= 2**64 - 1 else int(n) for n in maxshape)
    if any(m is not None and m < n for m, n in zip(most, shape, strict=True)):
        raise InvalidArgumentError(
            f"Maxdims is smaller than dims: maxshape is {tuple(maxshape)}, shape is {shape}"
        )
    return most


def fill_bytes(fillvalue: Any, dtype: np.dtype[Any], element: Any, values: NewValues) -> np.ndarray[Any, Any]:
    """Return the stored bytes of a fill value."""
    text = StringInfo("utf-8", None) if dtype.kind == "T" else check_string_dtype(dtype)
    if text is not None:
        # Text may be longer than the elements: it is cut, as in h5py.
        made = np.array(fillvalue, string_dtype(text.encoding))
        if text.length is not None:
            raw = made.reshape(-1)[0]
            raw = raw.encode() if isinstance(raw, str) else bytes(raw)
            made = np.array(raw[: text.length], dtype)
    elif (
        dtype.names is not None
        and np.asarray(fillvalue).dtype.names is None
        and not isinstance(fillvalue, (tuple, list))
    ):
        raise InvalidArgumentError(
            f"fillvalue: expected a structure or a tuple for elements of type {dtype}, found {fillvalue!r}"
        )
    elif dtype.kind == "O" or (dtype.names is not None and not isinstance(fillvalue, np.ndarray)):
        made = np.empty((), dtype)
        made[()] = fillvalue
    else:
        made = np.asarray(fillvalue)
        if made.dtype.kind in "USO":
            raise ArgumentTypeError(f"No conversion path for dtype: {made.dtype!r}")
    inner = dtype.shape
    made = np.broadcast_to(made, inner) if inner else made.reshape(-1)[:1].reshape(())
    raw_fill: np.ndarray[Any, Any] = encoded(element, made, values).reshape(1).view(np.uint8)
    return raw_fill


def new_dataset(
    group: FileGroup,
    path: str,
    shape: Any = None,
    dtype: Any = None,
    data: Any = None,
    chunks: Any = None,
    compression: Any = None,
    shuffle: bool | None = None,
    fletcher32: bool | None = None,
    maxshape: Any = None,
    compression_opts: Any = None,
    fillvalue: Any = None,
    scaleoffset: Any = None,
    track_times: bool | None = False,
    external: Any = None,
    track_order: bool | None = None,
    dcpl: Any = None,
    allow_unknown_filter: bool = False,
    *,
    fill_time: str | None = None,
    **access: Any,
) -> FileArray:
    """Make a dataset without a name. The arguments are those of `FileGroup.create_dataset`.

    ``path``: its future path, for messages and `FileArray.name`.
    """
    for key in access:
        if key not in _FOR_ACCESS:
            raise TypeError(f"create_dataset() got an unexpected keyword argument {key!r}")
    if data is not None and not is_empty(data):
        data = array_of(data, numpy_type(dtype))
    if shape is None:
        if data is None:
            if dtype is None:
                raise ArgumentTypeError("One of data, shape or dtype must be specified")
            data = Empty(numpy_type(dtype))
        extent = data.shape
        inner = np.dtype(numpy_type(dtype)).shape if dtype is not None and extent else ()
        if inner and not is_empty(data) and extent[-len(inner) :] == inner:
            # The last axes of the values are those of the elements.
            extent = extent[: -len(inner)]
    else:
        extent = _shape_of(shape)
        if data is not None and not is_empty(data):
            inner = np.dtype(numpy_type(dtype)).shape if dtype is not None else ()
            if math.prod(extent) * math.prod(inner) != math.prod(data.shape):
                raise InvalidArgumentError("Shape tuple is incompatible with data")
    if isinstance(maxshape, (int, np.integer)) and not isinstance(maxshape, bool):
        maxshape = (maxshape,)
    if isinstance(chunks, (int, np.integer)) and not isinstance(chunks, (bool, np.bool_)):
        chunks = (int(chunks),)
    if isinstance(chunks, (tuple, list)):
        within = maxshape if isinstance(maxshape, (tuple, list)) else extent
        if any(n is not None and chunk > n for n, chunk in zip(within or (), chunks, strict=False)):
            raise InvalidArgumentError(
                "Chunk shape must not be greater than data shape in any dimension. "
                f"{tuple(chunks)} is not compatible with {extent}"
            )
    if dtype is None and data is None:
        warnings.warn(
            "Creating a dataset without passing data or dtype is deprecated. Pass an explicit dtype. Using "
            "dtype='f4' will keep the current default behaviour.",
            H5pyDeprecationWarning,
            stacklevel=4,
        )
        dtype = "=f4"
    # Without data there is a type by now.
    kind, stored = resolved_type(getattr(data, "dtype", None) if dtype is None else dtype)

    if dcpl is not None:
        chunks, fillvalue, fill_time, layout = dcpl._over(chunks, fillvalue, fill_time)
    else:
        layout = "contiguous"
    if compression is True:
        compression, compression_opts = "gzip", 4 if compression_opts is None else compression_opts
    if isinstance(compression, int) and compression is not False and compression in range(10):
        if compression_opts is not None:
            raise ArgumentTypeError("Conflict in compression options")
        compression, compression_opts = "gzip", compression
    files = external_files(external)
    options = Options(
        chunks,
        compression,
        compression_opts,
        shuffle,
        fletcher32,
        maxshape,
        scaleoffset,
        files,
        allow_unknown_filter,
        fillvalue,
    )
    if chunks is False and (options.needs_chunks or maxshape):
        raise InvalidArgumentError("Chunked format required for given storage options")
    chunk: tuple[int, ...] | None = None
    filters: list[Any] = []
    if extent is None or extent == ():
        name = "Empty" if extent is None else "Scalar"
        if any((chunks, compression, compression_opts, shuffle, fletcher32, scaleoffset is not None)):
            raise ArgumentTypeError(f"{name} datasets don't support chunk/filter options")
        if maxshape and maxshape != ():
            raise ArgumentTypeError(f"{name} datasets cannot be extended")
        maxshape = None
    else:
        chunk, filters = filters_of(extent, kind, stored.size, options)
        if fill_time is not None and fill_time not in _FILL_TIMES:
            raise InvalidArgumentError(
                "fill_time must be one of the following choices: 'alloc', 'never' or 'ifset', but it is "
                f"{fill_time}."
            )
        if dcpl is not None:
            filters = [*dcpl._filters_for(kind, stored.size, chunk), *filters]
    if files:
        check_external(group, path, files, stored, extent, maxshape, chunk)
        check_prefix(group, access.get("efile_prefix"), files)
    made_at = time_of(track_times)
    tracks_order = _checked_order(track_order)
    most = None if extent is None else _maxshape_of(maxshape, extent)

    editor = group._editor
    fill = None
    if fillvalue is not None:
        fill = fill_bytes(fillvalue, kind, editor.element(stored), editor.values())
    address = editor.create_dataset(
        path,
        stored,
        extent,
        most,
        layout,
        chunk,
        filters,
        fill,
        fill_time == "never",
        tracks_order,
        None,
        made_at,
        files,
    )
    made: FileArray = group._node(editor.open(address, path))
    if files:
        vars(made)["_efile_prefix"] = access.get("efile_prefix")
    if data is not None and not is_empty(data):
        made._write_new(data)
    return made
