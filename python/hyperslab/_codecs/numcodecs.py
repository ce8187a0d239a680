"""Codecs of numcodecs. In Zarr v3 their names are ``numcodecs.…``, as in zarr-python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hyperslab._codecs.codec import Codec, ZarrFormat, as_stored, check_range

__all__ = [
    "BZ2",
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
        1 to 65537: larger is faster and compresses less.
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
        Hundreds of kilobytes per block, 1 to 9.
    """

    level: int = 1

    _v2, _v3 = "bz2", "numcodecs.bz2"


@dataclass(frozen=True)
class LZMA(Codec):
    """LZMA in the containers of Python's `lzma`: small, and slow to write and to read.

    The numbers are those of the constants in `lzma`.

    Parameters
    ----------
    format : int, default 1
        1 (xz), 2 (alone) or 3 (raw, which needs ``filters``).
    check : int, default -1
        The checksum of an xz stream: 0 (none), 1 (CRC-32), 4 (CRC-64) or 10 (SHA-256); -1 is CRC-64.
    preset : int, optional
        0 (fastest) to 9 (smallest); ``None``: 6.
    filters : sequence of dict, optional
        A chain of filters and their options instead of a preset.

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
    """pco: compresses integers and floats of 2, 4 and 8 bytes, lossless.

    In Zarr v3 it is a ``serializer``, in v2 a compressor.

    Parameters
    ----------
    level : int, default 8
        0 (fastest) to 12 (smallest).
    mode_spec : {"auto", "classic"}, default "auto"
        Whether a structure of the numbers, such as multiples of 0.1, is looked for.
    delta_spec : {"auto", "no_op", "none", "try_consecutive", "try_lookback"}, default "auto"
        Which differences are stored instead of the numbers. ``none`` is an old name of ``no_op``.
    paging_spec : {"equal_pages_up_to"}, default "equal_pages_up_to"
        How a chunk is cut into pages.
    delta_encoding_order : int, optional
        How often differences are taken of differences, 0 to 7, for ``try_consecutive`` and ``auto``.
    equal_pages_up_to : int, default 262144
        The most numbers of a page.

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

    In Zarr v3 it is a ``serializer``, in v2 a compressor. Chunks have up to four axes.

    Parameters
    ----------
    mode : int, default 4
        2 (fixed rate), 3 (fixed precision) or 4 (fixed accuracy). Without the parameter of the mode:
        lossless.
    tolerance : float, default -1
        The largest error, for mode 4.
    rate : float, default -1
        Bits of an element, for mode 2.
    precision : int, default -1
        Bits of each of zfp's coefficients, for mode 3.
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
    """The first bytes of all elements, then the second bytes, and so on: compressors after it find more.

    Parameters
    ----------
    elementsize : int, default 4
        Bytes of an element; chunks must be a multiple of it.
    """

    elementsize: int = 4

    _v2, _v3 = "shuffle", "numcodecs.shuffle"


@dataclass(frozen=True)
class CRC32(Codec):
    """A checksum, CRC-32 as in gzip.

    Parameters
    ----------
    location : {"start", "end"}, default "start"
        Where in the chunk it stands.
    """

    location: Literal["start", "end"] = "start"

    _v2, _v3 = "crc32", "numcodecs.crc32"


@dataclass(frozen=True)
class Adler32(Codec):
    """A checksum, Adler-32 as in zlib.

    Parameters
    ----------
    location : {"start", "end"}, default "start"
        Where in the chunk it stands.
    """

    location: Literal["start", "end"] = "start"

    _v2, _v3 = "adler32", "numcodecs.adler32"


@dataclass(frozen=True)
class Fletcher32(Codec):
    """A checksum, that of HDF5."""

    _v2, _v3 = "fletcher32", "numcodecs.fletcher32"


def _numpy_name(dtype: npt.DTypeLike) -> str:
    """NumPy's type string of a data type, as numcodecs writes it."""
    return np.dtype(dtype).str


class _Typed(Codec):
    """Codecs of numcodecs that name the type of the array's elements, ``dtype``, and of the stored ones,
    ``astype``. Where ``dtype`` is None, it is for the engine to choose: that of the array.
    """

    dtype: str | None
    astype: str | None

    def _set_types(self, dtype: npt.DTypeLike | None, astype: npt.DTypeLike | None) -> None:
        # NumPy takes None for float64.
        name = None if dtype is None else _numpy_name(dtype)
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "astype", name if astype is None else _numpy_name(astype))


@dataclass(frozen=True)
class Delta(_Typed):
    """Of each element, the difference from the one before it. (numcodecs' ``delta``.)

    Parameters
    ----------
    dtype : dtype, optional
        The type of the elements; default: that of the array.
    astype : dtype, optional
        The type of the differences; default: ``dtype``. What it cannot hold is lost.

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
    """``(element - offset) * scale``, rounded, as another type. (numcodecs' ``fixedscaleoffset``.)

    Parameters
    ----------
    offset, scale : int or float
        What is subtracted, and what the rest is multiplied with.
    dtype : dtype, optional
        The type of the elements; default: that of the array.
    astype : dtype, optional
        The type of what is stored; default: ``dtype``. What it cannot hold is lost.

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
    """Floats rounded to some decimal digits, by a power of two. (numcodecs' ``quantize``.)

    Parameters
    ----------
    digits : int
        Decimal digits to keep behind the point.
    dtype : dtype, optional
        The type of the elements; default: that of the array.
    astype : dtype, optional
        The type of what is stored; default: ``dtype``.

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
    """Elements stored as another type, with NumPy's conversions. (numcodecs' ``astype``.)

    Parameters
    ----------
    encode_dtype : dtype
        The type of what is stored. What it cannot hold is lost.
    decode_dtype : dtype, optional
        The type of the elements; default: that of the array.

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
    """Floats rounded to some bits of their mantissa, so that they compress better.

    Parameters
    ----------
    keepbits : int
        Bits to keep: of the mantissa, or of an integer from the highest that is set.
    numcodecs : bool, default True
        Whether the name in Zarr v3 is ``numcodecs.bitround``, which zarr-python reads, or ``bitround``, that
        of zarr-extensions.

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
    """Eight bools in a byte. (numcodecs' ``packbits``.)

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
    """Text out of a list of labels, stored as their numbers (Zarr v2).

    Text that is none of the labels, other than ``""``, cannot be written. (numcodecs writes it as ``""``.)

    Parameters
    ----------
    labels : sequence of str
        At most as many as ``astype`` has numbers, without 0.
    dtype : dtype, optional
        Of the text; default: the array's, which then has text of fixed length. ``object``: text of any
        length, of an array of ``dtype=object`` without another codec of objects.
    astype : dtype, default "u1"
        Integers that are stored.

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
    """Bytes as text of 64 characters (Zarr v2)."""

    _v2 = "base64"


@dataclass(frozen=True)
class JenkinsLookup3(Codec):
    """A checksum, Bob Jenkins' lookup3, that of HDF5's metadata.

    Parameters
    ----------
    initval : int, default 0
        What the sum starts with.
    prefix : bytes, optional
        Bytes that are summed before those of the chunk, and not stored. numcodecs cannot write a prefix to
        metadata: arrays that have one are read by hyperslab only.
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
