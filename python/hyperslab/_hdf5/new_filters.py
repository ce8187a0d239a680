"""Filters and chunks of new datasets, from h5py's arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab._native import encodes_filter, filter_name
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, UnknownCodecError

__all__ = ["Filter", "FilterRefBase", "Gzip", "Options", "completed", "filters_of", "guessed_chunk"]

_GZIP, _SHUFFLE, _FLETCHER32, _SZIP, _SCALEOFFSET, _LZF = 1, 2, 3, 4, 6, 32000
# The largest number of a filter.
_LAST = 65535
_NAMED = {"gzip": _GZIP, "lzf": _LZF, "szip": _SZIP}
_DEFAULT_GZIP = 4
_DEFAULT_SZIP = ("nn", 8)

# Bytes of automatic chunks: the scale, the smallest, the largest.
_BASE, _SMALLEST, _LARGEST = 16 << 10, 8 << 10, 1 << 20

# A filter: its number, whether a chunk may be stored without it, and its parameters.
Filter = tuple[int, bool, tuple[int, ...]]


class FilterRefBase(Mapping[str, Any]):
    """A filter with its options, for the argument ``compression`` (or as ``**keywords``).

    Subclasses define ``filter_id`` and may define ``filter_options``.
    """

    filter_id: int | None = None
    filter_options: tuple[int, ...] = ()

    def _keywords(self) -> dict[str, Any]:
        return {"compression": self.filter_id, "compression_opts": self.filter_options}

    def __getitem__(self, key: str) -> Any:
        return self._keywords()[key]

    def __iter__(self) -> Any:
        return iter(self._keywords())

    def __len__(self) -> int:
        return len(self._keywords())

    def __hash__(self) -> int:
        return hash((self.filter_id, self.filter_options))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FilterRefBase):
            return NotImplemented
        return (self.filter_id, self.filter_options) == (other.filter_id, other.filter_options)


class Gzip(FilterRefBase):
    """The filter gzip with its level."""

    filter_id = _GZIP

    def __init__(self, level: int = _DEFAULT_GZIP) -> None:
        self.filter_options = (level,)


class Options(NamedTuple):
    """h5py's arguments for the storage of a dataset."""

    chunks: Any = None
    compression: Any = None
    compression_opts: Any = None
    shuffle: bool | None = None
    fletcher32: bool | None = None
    maxshape: Any = None
    scaleoffset: Any = None
    external: Any = None
    allow_unknown_filter: bool = False
    fillvalue: Any = None

    @property
    def needs_chunks(self) -> bool:
        """True if only chunks can be stored so."""
        return any(
            (
                self.shuffle,
                self.fletcher32,
                self.compression,
                self.maxshape and not self.external,
                self.scaleoffset is not None,
            )
        )


def guessed_chunk(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return h5py's chunk shape for a shape.

    A chunk is 8 KiB to 1 MiB large, larger for larger arrays. The axes are halved in turn until the
    chunk is small enough. An axis of length 0 counts as 1024.
    """
    if not shape:
        raise InvalidArgumentError("Chunks not allowed for scalar datasets.")
    chunk = [float(n or 1024) for n in shape]
    total = math.prod(chunk) * itemsize
    target = _BASE * 2 ** math.log10(total / (1 << 20)) if total else _SMALLEST
    target = min(max(target, _SMALLEST), _LARGEST)
    axis = 0
    while True:
        elements = math.prod(chunk)
        size = elements * itemsize
        is_near = size < target or abs(size - target) / target < 0.5
        if (is_near and size < _LARGEST) or elements == 1:
            return tuple(int(n) for n in chunk)
        chunk[axis % len(chunk)] = math.ceil(chunk[axis % len(chunk)] / 2.0)
        axis += 1


def _checked_rank(given: Any, name: str, rank: int) -> None:
    if given is None or given is True:
        return
    try:
        found = len(tuple(given))
    except TypeError:
        raise ArgumentTypeError(f"{name!r} argument must be None or a sequence object") from None
    if found != rank:
        raise InvalidArgumentError(f"{name!r} must have same rank as dataset shape")


def _compression(options: Options) -> tuple[int, tuple[int, ...]] | None:
    """Return number and parameters of the compression filter."""
    kind, given = options.compression, options.compression_opts
    if kind is None or kind is False:
        if given is not None:
            raise ArgumentTypeError("Compression method must be specified")
        return None
    if isinstance(kind, Mapping):
        # Objects of hdf5plugin, h5py and `FilterRefBase`.
        given = kind.get("compression_opts", ())
        kind = kind["compression"]
    if isinstance(kind, np.integer):
        kind = int(kind)
    if kind not in _NAMED and not isinstance(kind, int):
        raise InvalidArgumentError(f'Compression filter "{kind}" is unavailable')
    if kind == "gzip":
        level = _DEFAULT_GZIP if given is None else given
        if level not in range(10):
            raise InvalidArgumentError(f"GZIP setting must be an integer from 0-9, not {level!r}")
        return _GZIP, (int(level),)
    if kind == "lzf":
        if given is not None:
            raise InvalidArgumentError("LZF compression filter accepts no options")
        return _LZF, ()
    if kind == "szip":
        return _SZIP, _szip(_DEFAULT_SZIP if given is None else given)
    if not 0 <= kind <= _LAST:
        raise InvalidArgumentError(f"Invalid filter number {kind}: expected 1 to {_LAST}")
    try:
        return int(kind), tuple(int(number) & 0xFFFFFFFF for number in given or ())
    except TypeError:
        raise ArgumentTypeError(
            f"compression_opts: expected a tuple of integers for filter {kind}, found {given!r}"
        ) from None


def _szip(given: Any) -> tuple[int, ...]:
    wrong = "SZIP options must be a 2-tuple ('ec'|'nn', even integer 0-32)"
    try:
        method, pixels = given
    except TypeError:
        raise ArgumentTypeError(wrong) from None
    if method not in ("ec", "nn") or not (0 < pixels <= 32 and pixels % 2 == 0):
        raise InvalidArgumentError(wrong)
    return (4 if method == "ec" else 32, pixels)


def _scaleoffset(given: Any, dtype: np.dtype[Any], options: Options) -> int | None:
    """Return the digits or bits of the scale-offset filter."""
    if given is None:
        return None
    if given < 0:
        raise InvalidArgumentError("scale factor must be >= 0")
    if dtype.kind == "f":
        if given is True:
            raise InvalidArgumentError("integer scaleoffset must be provided for floating point types")
    elif dtype.kind in "ui":
        given = 0 if given is True else given
    else:
        raise ArgumentTypeError("scale/offset filter only supported for integer and floating-point types")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        raise InvalidArgumentError(f"scaleoffset: expected floats of 4 or 8 bytes, found {dtype}")
    if dtype.kind in "ui" and given > 8 * dtype.itemsize:
        raise InvalidArgumentError(
            f"scaleoffset: expected at most {8 * dtype.itemsize} bits for elements of type {dtype}, "
            f"found {given}"
        )
    if options.fletcher32:
        raise InvalidArgumentError("fletcher32 cannot be used with potentially lossy scale/offset filter")
    return int(given)


def filters_of(
    shape: tuple[int, ...], dtype: np.dtype[Any], size: int, options: Options
) -> tuple[tuple[int, ...] | None, list[Filter]]:
    """Return the chunk shape (``None``: no chunks) and the filters, in the order of writing.

    ``size``: stored bytes of an element.
    """
    _checked_rank(options.chunks, "chunks", len(shape))
    _checked_rank(options.maxshape, "maxshape", len(shape))
    compression = _compression(options)
    scaleoffset = _scaleoffset(options.scaleoffset, dtype, options)
    chunk: tuple[int, ...] | None
    if options.chunks is True or (options.chunks is None and options.needs_chunks):
        chunk = guessed_chunk(shape, dtype.itemsize)
    elif options.chunks is None or options.chunks is False:
        chunk = None
    else:
        chunk = tuple(int(n) for n in options.chunks)
        if any(n < 1 for n in chunk):
            raise InvalidArgumentError("All chunk dimensions must be positive")
    filters: list[Filter] = []
    if chunk is None:
        return None, filters
    bytes_ = math.prod(chunk) * size
    if bytes_ >= 1 << 32:
        raise InvalidArgumentError(
            f"a chunk of shape {chunk} has {bytes_} bytes, but HDF5 stores less than 4 GiB in a chunk"
        )
    # The order is h5py's. Scale-offset makes integers of elements, shuffling helps compression.
    if scaleoffset is not None:
        parameters = _scaleoffset_parameters(dtype, scaleoffset, math.prod(chunk), options.fillvalue)
        filters.append((_SCALEOFFSET, True, parameters))
    if options.shuffle:
        filters.append((_SHUFFLE, True, (size,)))
    if compression is not None:
        number, parameters = compression
        filters.append((number, True, completed(number, parameters, dtype, size, chunk)))
    if options.fletcher32:
        if metadata_entry(dtype, "vlen") is not None or dtype.kind == "T":
            raise InvalidArgumentError("fletcher32: HDF5 has no checksums of elements of variable length")
        filters.append((_FLETCHER32, False, ()))
    _check_available(filters, options.allow_unknown_filter)
    return chunk, filters


def _check_available(filters: Iterable[Filter], allow_unknown: bool) -> None:
    for number, *_ in filters:
        if allow_unknown or encodes_filter(number):
            continue
        name = filter_name(number)
        if name is None:
            raise InvalidArgumentError(f"Unknown compression filter number: {number}")
        raise UnknownCodecError(
            f"filter {name!r} ({number}) can be read, but not written: choose gzip, lzf, szip, "
            "scaleoffset, or blosc, zstd, lz4, bitshuffle or bzip2 of hdf5plugin"
        )


def _scaleoffset_parameters(
    dtype: np.dtype[Any], factor: int, elements: int, fillvalue: Any
) -> tuple[int, ...]:
    """Return the 20 parameters of the scale-offset filter as the HDF5 library computes them."""
    is_float = dtype.kind == "f"
    order = 1 if dtype.byteorder == ">" else 0
    sign = int(dtype.kind == "i")
    # Method, factor, elements, class, size, sign, byte order, and whether there is a fill value. A dataset
    # without one of its own has zero.
    head = (0 if is_float else 2, factor, elements, int(is_float), dtype.itemsize, sign, order, 1)
    fill = np.asarray(0 if fillvalue is None else fillvalue).reshape(-1)[:1].astype(dtype.newbyteorder("<"))
    words = np.frombuffer(fill.tobytes().ljust(8, b"\0"), "<u4")
    return (*head, *map(int, words), *[0] * (20 - len(head) - len(words)))


def completed(
    number: int, given: tuple[int, ...], dtype: np.dtype[Any], size: int, chunk: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the parameters of a filter as it completes them for a dataset."""
    bytes_ = math.prod(chunk) * size
    if number == _SHUFFLE:
        return (size,)
    if number == _LZF:
        # Versions of the filter and of LZF, and bytes of a chunk.
        return (4, 0x0105, bytes_)
    if number == 32001:
        # blosc: versions, bytes of an element and of a chunk; then level, shuffle and compressor.
        element = size if size < 256 else 1
        return (2, 2, element, bytes_, *given[4:])
    if number == 32008:
        # bitshuffle: version, bytes of an element; then block size, compressor and its level.
        return (0, 5, size, *given)
    if number == _SZIP:
        return _szip_parameters(given, dtype, size, chunk)
    return given


def _szip_parameters(
    given: tuple[int, ...], dtype: np.dtype[Any], size: int, chunk: tuple[int, ...]
) -> tuple[int, ...]:
    """Return options, pixels per block, bits per pixel and pixels per scan line."""
    if dtype.kind not in "biuf" or size not in (1, 2, 4, 8):
        raise InvalidArgumentError(
            f"szip: expected numbers of 1, 2, 4 or 8 bytes, found elements of type {dtype}"
        )
    mask, pixels = given
    line = chunk[-1]
    total = math.prod(chunk)
    if total < pixels:
        raise InvalidArgumentError(
            f"szip: a chunk of {total} elements is smaller than {pixels} pixels per block"
        )
    line = min(total, 128 * pixels) if line < pixels else min(line, 128 * pixels)
    order = 16 if dtype.byteorder == ">" else 8
    # 128: raw mode, without a header. 1: the HDF5 library sets it, and decoders ignore it.
    return (mask | order | 128 | 1, pixels, size * 8, line)
