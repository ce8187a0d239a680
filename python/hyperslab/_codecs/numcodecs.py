"""Codecs of numcodecs. Their Zarr v3 names are ``numcodecs.…``, as in zarr-python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab._codecs.codec import Codec, ZarrFormat, as_stored, check_range

__all__ = [
    "BZ2",
    "CLASSES",
    "CRC32",
    "LZ4",
    "LZMA",
    "ZFPY",
    "Adler32",
    "AsType",
    "Base64",
    "BitRound",
    "Categorize",
    "Delta",
    "FixedScaleOffset",
    "Fletcher32",
    "JenkinsLookup3",
    "PCodec",
    "PackBits",
    "Quantize",
    "Shuffle",
    "Zlib",
]


@dataclass(frozen=True)
class Zlib(Codec):
    """DEFLATE in a zlib frame.

    Parameters
    ----------
    level : int, default 1
        0 (stored) to 9 (smallest).
    """

    level: int = 1

    _v2, _v3 = "zlib", "numcodecs.zlib"


@dataclass(frozen=True)
class LZ4(Codec):
    """LZ4 in numcodecs' frame.

    Parameters
    ----------
    acceleration : int, default 1
        1 to 65537. Larger is faster and compresses less.
    """

    acceleration: int = 1

    _v2, _v3 = "lz4", "numcodecs.lz4"

    def __post_init__(self) -> None:
        check_range("lz4", "acceleration", self.acceleration, 1, 65537)

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> LZ4:
        return as_stored(cls, settings)


@dataclass(frozen=True)
class BZ2(Codec):
    """bzip2.

    Parameters
    ----------
    level : int, default 1
        Block size in hundreds of kilobytes, 1 to 9.
    """

    level: int = 1

    _v2, _v3 = "bz2", "numcodecs.bz2"


@dataclass(frozen=True)
class LZMA(Codec):
    """LZMA in the containers of Python's `lzma`: small, but slow to write and to read.

    Numbers are the values of the constants in `lzma`.

    Parameters
    ----------
    format : int, default 1
        1 (xz), 2 (alone) or 3 (raw, which needs ``filters``).
    check : int, default -1
        Checksum of an xz stream: 0 (none), 1 (CRC-32), 4 (CRC-64) or 10 (SHA-256); -1 is CRC-64.
    preset : int, optional
        0 (fastest) to 9 (smallest); ``None``: 6.
    filters : sequence of dict, optional
        A chain of filters with their options, instead of a preset.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.codecs.LZMA(format=3, filters=[{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]).to_dict(2)
    {'id': 'lzma', 'format': 3, 'check': -1, 'filters': [{'id': 3, 'dist': 4}, {'id': 33, 'preset': 1}]}
    """

    format: int = 1
    check: int = -1
    preset: int | None = None
    filters: tuple[dict[str, int], ...] | None = None

    _v2, _v3 = "lzma", "numcodecs.lzma"

    def __init__(
        self,
        format: int = 1,
        check: int = -1,
        preset: int | None = None,
        filters: Iterable[Mapping[str, int]] | None = None,
    ) -> None:
        chain = None if filters is None else tuple(dict(options) for options in filters)
        for name, value in {"format": format, "check": check, "preset": preset, "filters": chain}.items():
            object.__setattr__(self, name, value)

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        settings = super()._settings(zarr_format)
        if self.filters is not None:
            settings["filters"] = [dict(options) for options in self.filters]
        return settings


@dataclass(frozen=True)
class PCodec(Codec):
    """pco: lossless compression of integers and floats of 2, 4 and 8 bytes.

    A ``serializer`` in Zarr v3, a compressor in v2.

    Parameters
    ----------
    level : int, default 8
        0 (fastest) to 12 (smallest).
    mode_spec : {"auto", "classic"}, default "auto"
        ``auto`` looks for a structure in the numbers, such as multiples of 0.1.
    delta_spec : {"auto", "no_op", "none", "try_consecutive", "try_lookback"}, default "auto"
        The differences to store instead of the numbers. ``none`` is an old name of ``no_op``.
    paging_spec : {"equal_pages_up_to"}, default "equal_pages_up_to"
        How to cut a chunk into pages.
    delta_encoding_order : int, optional
        Order of differences, 0 to 7, for ``try_consecutive`` and ``auto``: 2 takes differences of
        differences.
    equal_pages_up_to : int, default 262144
        Maximum numbers per page.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), data=[1.0, 2.5, 4.0], serializer=hs.codecs.PCodec(level=4), compressors=None
    ... )
    >>> z[...]
    array([1. , 2.5, 4. ])
    """

    level: int = 8
    mode_spec: Literal["auto", "classic"] = "auto"
    delta_spec: Literal["auto", "no_op", "none", "try_consecutive", "try_lookback"] = "auto"
    paging_spec: Literal["equal_pages_up_to"] = "equal_pages_up_to"
    delta_encoding_order: int | None = None
    equal_pages_up_to: int = 262144

    _v2, _v3 = "pcodec", "numcodecs.pcodec"


@dataclass(frozen=True)
class ZFPY(Codec):
    """zfp in numcodecs' frame: for signed integers and floats of 4 and 8 bytes.

    A ``serializer`` in Zarr v3, a compressor in v2. Chunks have up to four axes.

    Parameters
    ----------
    mode : int, default 4
        2 (fixed rate), 3 (fixed precision) or 4 (fixed accuracy). Lossless without the parameter of
        the mode.
    tolerance : float, default -1
        Maximum error, for mode 4.
    rate : float, default -1
        Bits per element, for mode 2.
    precision : int, default -1
        Bits per zfp coefficient, for mode 3.
    """

    mode: int = 4
    tolerance: float = -1
    rate: float = -1
    precision: int = -1

    _v2, _v3 = "zfpy", "numcodecs.zfpy"

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> ZFPY:
        return cls(**{name: value for name, value in settings.items() if name != "compression_kwargs"})


@dataclass(frozen=True)
class Shuffle(Codec):
    """Stores the first bytes of all elements, then the second bytes, …, to help later compressors.

    Parameters
    ----------
    elementsize : int, default 4
        Bytes per element. The chunk must be a multiple of it.
    """

    elementsize: int = 4

    _v2, _v3 = "shuffle", "numcodecs.shuffle"


@dataclass(frozen=True)
class CRC32(Codec):
    """A CRC-32 checksum, as in gzip.

    Parameters
    ----------
    location : {"start", "end"}, default "start"
        Position of the checksum in the chunk.
    """

    location: Literal["start", "end"] = "start"

    _v2, _v3 = "crc32", "numcodecs.crc32"


@dataclass(frozen=True)
class Adler32(Codec):
    """An Adler-32 checksum, as in zlib.

    Parameters
    ----------
    location : {"start", "end"}, default "start"
        Position of the checksum in the chunk.
    """

    location: Literal["start", "end"] = "start"

    _v2, _v3 = "adler32", "numcodecs.adler32"


@dataclass(frozen=True)
class Fletcher32(Codec):
    """HDF5's Fletcher-32 checksum."""

    _v2, _v3 = "fletcher32", "numcodecs.fletcher32"


def _numpy_name(dtype: npt.DTypeLike) -> str:
    """Return NumPy's type string of a data type, as numcodecs writes it."""
    return np.dtype(dtype).str


class _Typed(Codec):
    """Codecs of numcodecs that name the array's element type and the stored type.

    These are ``dtype`` and ``astype``. If ``dtype`` is None, the engine uses the array's type.
    """

    dtype: str | None
    astype: str | None

    def _set_types(self, dtype: npt.DTypeLike | None, astype: npt.DTypeLike | None) -> None:
        # Pass no None to NumPy: np.dtype(None) is float64.
        name = None if dtype is None else _numpy_name(dtype)
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "astype", name if astype is None else _numpy_name(astype))


@dataclass(frozen=True)
class Delta(_Typed):
    """Differences between consecutive elements. (numcodecs' ``delta``.)

    Parameters
    ----------
    dtype : dtype, optional
        Type of the elements. Default: the array's.
    astype : dtype, optional
        Type of the differences. Default: ``dtype``. Values that do not fit are lost.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), data=[5, 7, 8], filters=[hs.codecs.Delta("i8", astype="i1")])
    >>> z[1:]
    array([7, 8])
    """

    dtype: str | None = None
    astype: str | None = None

    _v2, _v3 = "delta", "numcodecs.delta"

    def __init__(self, dtype: npt.DTypeLike | None = None, astype: npt.DTypeLike | None = None) -> None:
        self._set_types(dtype, astype)


@dataclass(frozen=True)
class FixedScaleOffset(_Typed):
    """``(element - offset) * scale``, rounded, stored as another type.

    (numcodecs' ``fixedscaleoffset``.)

    Parameters
    ----------
    offset, scale : int or float
        The offset to subtract first, and the factor to multiply by.
    dtype : dtype, optional
        Type of the elements. Default: the array's.
    astype : dtype, optional
        Type of the stored elements. Default: ``dtype``. Values that do not fit are lost.

    Examples
    --------
    >>> import hyperslab as hs
    >>> tenths = hs.codecs.FixedScaleOffset(offset=1000, scale=10, dtype="f8", astype="u1")
    >>> z = hs.create_array(hs.MemoryStore(), data=[1000.0, 1000.11, 1000.27], filters=[tenths])
    >>> z[...]
    array([1000. , 1000.1, 1000.3])
    """

    offset: float
    scale: float
    dtype: str | None = None
    astype: str | None = None

    _v2, _v3 = "fixedscaleoffset", "numcodecs.fixedscaleoffset"

    def __init__(
        self,
        offset: float,
        scale: float,
        dtype: npt.DTypeLike | None = None,
        astype: npt.DTypeLike | None = None,
    ) -> None:
        for name, value in {"offset": offset, "scale": scale}.items():
            object.__setattr__(self, name, value.item() if isinstance(value, np.generic) else value)
        self._set_types(dtype, astype)


@dataclass(frozen=True)
class Quantize(_Typed):
    """Floats rounded to a number of decimal digits, in steps of a power of two.

    (numcodecs' ``quantize``.)

    Parameters
    ----------
    digits : int
        Decimal digits to keep after the point.
    dtype : dtype, optional
        Type of the elements. Default: the array's.
    astype : dtype, optional
        Type of the stored elements. Default: ``dtype``.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), data=[0.111, 0.77777], filters=[hs.codecs.Quantize(1)])
    >>> z[...]
    array([0.125, 0.75 ])
    """

    digits: int
    dtype: str | None = None
    astype: str | None = None

    _v2, _v3 = "quantize", "numcodecs.quantize"

    def __init__(
        self, digits: int, dtype: npt.DTypeLike | None = None, astype: npt.DTypeLike | None = None
    ) -> None:
        object.__setattr__(self, "digits", digits)
        self._set_types(dtype, astype)


@dataclass(frozen=True)
class AsType(Codec):
    """Elements stored as another type, converted as NumPy does. (numcodecs' ``astype``.)

    Parameters
    ----------
    encode_dtype : dtype
        Type of the stored elements. Values that do not fit are lost.
    decode_dtype : dtype, optional
        Type of the elements. Default: the array's.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), data=[100, 102], filters=[hs.codecs.AsType("i1")])
    >>> z[...]
    array([100, 102])
    """

    encode_dtype: str
    decode_dtype: str | None = None

    _v2, _v3 = "astype", "numcodecs.astype"

    def __init__(self, encode_dtype: npt.DTypeLike, decode_dtype: npt.DTypeLike | None = None) -> None:
        object.__setattr__(self, "encode_dtype", _numpy_name(encode_dtype))
        object.__setattr__(self, "decode_dtype", None if decode_dtype is None else _numpy_name(decode_dtype))


@dataclass(frozen=True)
class BitRound(Codec):
    """Floats with their mantissa rounded to fewer bits, so that they compress better.

    Parameters
    ----------
    keepbits : int
        Bits to keep: of the mantissa, or for integers from the highest bit set.
    numcodecs : bool, default True
        True: the Zarr v3 name is ``numcodecs.bitround``, which zarr-python reads. False: it is
        ``bitround``, from zarr-extensions.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), data=[1.2345, 100.7], filters=[hs.codecs.BitRound(3)])
    >>> z[...]
    array([  1.25, 104.  ])
    """

    keepbits: int
    numcodecs: bool = True

    _v2, _aliases = "bitround", ("bitround",)

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> BitRound:
        return cls(**settings, numcodecs=v2)

    def to_dict(self, zarr_format: ZarrFormat = 3) -> dict[str, Any]:
        if zarr_format == 2:
            return {"id": "bitround", "keepbits": self.keepbits}
        name = "numcodecs.bitround" if self.numcodecs else "bitround"
        return {"name": name, "configuration": {"keepbits": self.keepbits}}


@dataclass(frozen=True)
class PackBits(Codec):
    """Bools packed eight to a byte. (numcodecs' ``packbits``.)

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), data=[True, False, True], filters=[hs.codecs.PackBits()])
    >>> z[...]
    array([ True, False,  True])
    """

    _v2, _v3 = "packbits", "numcodecs.packbits"


@dataclass(frozen=True)
class Categorize(Codec):
    """Text from a list of labels, stored as label numbers (Zarr v2).

    Writing text that is not a label fails, except for ``""``. (numcodecs writes such text as
    ``""``.)

    Parameters
    ----------
    labels : sequence of str
        Labels. ``astype`` limits their number: each needs a number other than 0.
    dtype : dtype, optional
        Type of the text. Default: the array's, which then has fixed-length text. ``object``: text
        of any length, for an array of ``dtype=object`` without another object codec.
    astype : dtype, default "u1"
        Integer type to store.

    Examples
    --------
    >>> import hyperslab as hs
    >>> rivers = hs.codecs.Categorize(["Rhine", "Elbe"])
    >>> z = hs.create_array({}, shape=(3,), dtype="U5", zarr_format=2, filters=[rivers])
    >>> z[...] = ["Elbe", "Rhine", "Elbe"]
    >>> z[...]
    array(['Elbe', 'Rhine', 'Elbe'], dtype='<U5')
    """

    labels: tuple[str, ...]
    dtype: str | None = None
    astype: str = "|u1"

    _v2 = "categorize"

    def __init__(
        self, labels: Iterable[str], dtype: npt.DTypeLike | None = None, astype: npt.DTypeLike = "u1"
    ) -> None:
        object.__setattr__(self, "labels", tuple(str(label) for label in labels))
        object.__setattr__(self, "dtype", None if dtype is None else _numpy_name(dtype))
        object.__setattr__(self, "astype", _numpy_name(astype))

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        return {**super()._settings(zarr_format), "labels": list(self.labels)}


@dataclass(frozen=True)
class Base64(Codec):
    """Bytes as Base64 text (Zarr v2)."""

    _v2 = "base64"


@dataclass(frozen=True)
class JenkinsLookup3(Codec):
    """A Bob Jenkins lookup3 checksum, as in HDF5's metadata.

    Parameters
    ----------
    initval : int, default 0
        Initial value of the sum.
    prefix : bytes, optional
        Bytes to sum before the chunk's bytes. They are not stored. numcodecs cannot write a prefix
        to metadata, so only hyperslab reads arrays that have one.
    """

    initval: int = 0
    prefix: bytes | None = None

    _v2, _v3 = "jenkins_lookup3", "numcodecs.jenkins_lookup3"

    def __post_init__(self) -> None:
        if self.prefix is not None:
            object.__setattr__(self, "prefix", bytes(self.prefix))

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        settings = super()._settings(zarr_format)
        if self.prefix is not None:
            settings["prefix"] = list(self.prefix)
        return settings


CLASSES: tuple[type[Codec], ...] = (
    Zlib,
    LZ4,
    BZ2,
    LZMA,
    PCodec,
    ZFPY,
    Shuffle,
    CRC32,
    Adler32,
    Fletcher32,
    JenkinsLookup3,
    Base64,
    Categorize,
    Delta,
    FixedScaleOffset,
    Quantize,
    AsType,
    BitRound,
    PackBits,
)
