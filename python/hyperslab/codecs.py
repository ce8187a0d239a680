"""Codecs: how the elements of a chunk become its stored bytes.

They are given to `hyperslab.create_array` as ``filters``, ``serializer`` and ``compressors``. What they are
called in metadata differs between Zarr v2 and v3; `Codec.to_dict` gives either. zarr-python's class names
(``ZstdCodec`` …) are here too. Everywhere a codec is expected, a metadata dictionary of either format, a
codec of zarr-python or one of numcodecs will do.

Examples
--------
>>> import hyperslab as hs
>>> z = hs.create_array(
...     hs.MemoryStore(), shape=(4, 6), dtype="i4", compressors=[hs.codecs.Zstd(level=3), hs.codecs.Crc32c()]
... )
>>> z.compressors
(Zstd(level=3, checksum=False), Crc32c())
>>> hs.codecs.Zstd(level=3).to_dict(zarr_format=2)
{'id': 'zstd', 'level': 3, 'checksum': False}
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from hyperslab._codec_words import BloscCname, BloscShuffle, Endian, ShardingCodecIndexLocation
from hyperslab._vlen import Kind, type_of
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

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
    "Blosc",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "Bytes",
    "BytesCodec",
    "CastValue",
    "Codec",
    "CodecLike",
    "CodecsLike",
    "Crc32c",
    "Crc32cCodec",
    "Delta",
    "Endian",
    "FixedScaleOffset",
    "Fletcher32",
    "Gzip",
    "GzipCodec",
    "JenkinsLookup3",
    "PCodec",
    "PackBits",
    "PackBitsCodec",
    "Quantize",
    "Reshape",
    "ScaleOffset",
    "Sharding",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "Shuffle",
    "Squeeze",
    "Transpose",
    "TransposeCodec",
    "Zfp",
    "Zlib",
    "Zstd",
    "ZstdCodec",
]

ZarrFormat: TypeAlias = Literal[2, 3]


class Codec:
    """What all codecs have in common. Codecs are immutable, and equal where their settings are."""

    _v2: ClassVar[str | None] = None
    _v3: ClassVar[str | None] = None
    # Other names in Zarr v3.
    _aliases: ClassVar[tuple[str, ...]] = ()

    def to_dict(self, zarr_format: ZarrFormat = 3) -> dict[str, Any]:
        """The metadata of this codec.

        Parameters
        ----------
        zarr_format : {2, 3}, default 3

        Raises
        ------
        InvalidArgumentError
            Where the format has no such codec.
        """
        name = self._v3 if zarr_format == 3 else self._v2
        if name is None:
            raise InvalidArgumentError(f"Zarr v{zarr_format} has no codec {type(self).__name__}")
        settings = self._settings(zarr_format)
        if zarr_format == 2:
            return {"id": name, **settings}
        # zarr-python wants the configuration of numcodecs' codecs, also where it is empty.
        has_settings = bool(settings) or name.startswith("numcodecs.")
        return {"name": name, "configuration": settings} if has_settings else {"name": name}

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        """The settings as metadata has them. Other than None: that is for the engine to choose."""
        return {name: value for name, value in vars(self).items() if value is not None}

    # ---- as numcodecs' codecs are used

    @property
    def codec_id(self) -> str:
        """Its name in Zarr v2, which is numcodecs' name."""
        return str(self.get_config()["id"])

    def get_config(self) -> dict[str, Any]:
        """Its metadata in Zarr v2. numcodecs makes a codec of that, and compares codecs by it."""
        return self.to_dict(2)

    def encode(self, buf: Any) -> Any:
        """Encode some bytes, with numcodecs, which must be installed. (Arrays need no numcodecs.)"""
        return self._of_numcodecs().encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode some bytes, with numcodecs, which must be installed. (Arrays need no numcodecs.)"""
        return self._of_numcodecs().decode(buf, out)

    def _of_numcodecs(self) -> Any:
        return importlib.import_module("numcodecs").get_codec(self.get_config())


@dataclass(frozen=True)
class Bytes(Codec):
    """Elements as they are in memory, in a stated byte order (Zarr v3's ``bytes``).

    Parameters
    ----------
    endian : {"little", "big"} or None, default "little"
        ``None`` for elements of one byte.
    """

    endian: Literal["little", "big"] | None = "little"

    _v3 = "bytes"


@dataclass(frozen=True)
class Transpose(Codec):
    """The axes of the stored chunk are those of the array in another order (Zarr v3's ``transpose``).

    Parameters
    ----------
    order : sequence of int
        Axis ``i`` of the stored chunk is axis ``order[i]`` of the array.
    """

    order: tuple[int, ...]

    _v3 = "transpose"

    def __init__(self, order: Iterable[int]) -> None:
        object.__setattr__(self, "order", tuple(int(axis) for axis in order))

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        return {"order": list(self.order)}


@dataclass(frozen=True)
class Gzip(Codec):
    """DEFLATE in a gzip frame.

    Parameters
    ----------
    level : int, default 5
        0 (stored) to 9 (smallest).
    """

    level: int = 5

    _v2, _v3 = "gzip", "gzip"


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
class Zstd(Codec):
    """Zstandard: the default, fast to read and small.

    Parameters
    ----------
    level : int, default 0
        -131072 (fastest) to 22 (smallest); 0 is the library's own default, 3.
    checksum : bool, default False
        Whether a checksum of the content is stored.
    """

    level: int = 0
    checksum: bool = False

    _v2, _v3 = "zstd", "zstd"


_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True)
class Blosc(Codec):
    """Blosc: shuffles bytes or bits of elements, then compresses block by block.

    Parameters
    ----------
    cname : {"zstd", "lz4", "lz4hc", "blosclz", "zlib"}, default "zstd"
        The compressor inside. (Also ``snappy``, for reading.)
    clevel : int, default 5
        0 (stored) to 9 (smallest).
    shuffle : {"noshuffle", "shuffle", "bitshuffle"} or None
        ``None``: by bytes, or by bits for elements of one byte.
    typesize : int or None
        Bytes of one element; ``None``: what the array's elements have.
    blocksize : int, default 0
        0 lets the encoder choose.
    """

    cname: str = "zstd"
    clevel: int = 5
    shuffle: Literal["noshuffle", "shuffle", "bitshuffle"] | None = None
    typesize: int | None = None
    blocksize: int = 0

    _v2, _v3 = "blosc", "blosc"

    def __post_init__(self) -> None:
        # Members of an enumeration (zarr-python's) mean their values.
        for name in ("cname", "shuffle"):
            object.__setattr__(self, name, getattr(getattr(self, name), "value", getattr(self, name)))
        if self.shuffle is not None and self.shuffle not in _SHUFFLES:
            raise InvalidArgumentError(
                f"blosc: shuffle: expected one of {', '.join(_SHUFFLES)}, found {self.shuffle!r}"
            )

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        settings = super()._settings(zarr_format)
        if zarr_format == 2:
            settings.pop("typesize", None)
            # numcodecs' AUTOSHUFFLE is -1.
            settings["shuffle"] = _SHUFFLES.get(self.shuffle or "", -1)
        return settings


@dataclass(frozen=True)
class LZ4(Codec):
    """LZ4 in numcodecs' frame.

    Parameters
    ----------
    acceleration : int, default 1
        Larger is faster and compresses less.
    """

    acceleration: int = 1

    _v2, _v3 = "lz4", "numcodecs.lz4"


@dataclass(frozen=True)
class Crc32c(Codec):
    """A checksum: finds corrupt chunks on reading."""

    _v2, _v3 = "crc32c", "crc32c"


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
    preset : int or None
        0 (fastest) to 9 (smallest); ``None``: 6.
    filters : sequence of dict or None
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
    delta_encoding_order : int or None
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
class Zfp(Codec):
    """zfp: compresses integers and floats in blocks, lossy or lossless (Zarr v3's ``zfp``, a ``serializer``).

    Chunks have up to four axes.

    Parameters
    ----------
    mode : {"reversible", "fixed_accuracy", "fixed_rate", "fixed_precision", "expert"}, default "reversible"
        Each other than ``reversible`` has its parameters, and no others.
    tolerance : float
        The largest error, for ``fixed_accuracy``.
    rate : float
        Bits of an element, for ``fixed_rate``.
    precision : int
        Bits of each of zfp's coefficients, for ``fixed_precision``.
    minbits, maxbits, maxprec, minexp : int
        All four, for ``expert``.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.codecs.Zfp("fixed_accuracy", tolerance=0.5).to_dict()
    {'name': 'zfp', 'configuration': {'mode': 'fixed_accuracy', 'tolerance': 0.5}}
    """

    mode: Literal["reversible", "fixed_accuracy", "fixed_rate", "fixed_precision", "expert"] = "reversible"
    tolerance: float | None = None
    rate: float | None = None
    precision: int | None = None
    minbits: int | None = None
    maxbits: int | None = None
    maxprec: int | None = None
    minexp: int | None = None

    _v3 = "zfp"


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
class PackBitsCodec(Codec):
    """Elements in as few bits as they have, or in some of their bits (zarr-extensions' ``packbits``): a
    ``serializer``. The ``PackBits`` of numcodecs is another codec.

    Parameters
    ----------
    padding_encoding : {"none", "first_byte", "last_byte"}, default "none"
        Where the number of unused bits is stored.
    first_bit, last_bit : int, optional
        The bits of each number that are stored, counted from the lowest; default: all.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), data=[True, False, True], serializer=hs.codecs.PackBitsCodec(), compressors=None
    ... )
    >>> z[...]
    array([ True, False,  True])
    """

    padding_encoding: Literal["none", "first_byte", "last_byte"] = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    _v3 = "packbits"


@dataclass(frozen=True)
class Reshape(Codec):
    """Another shape for the same elements, in the same order (zarr-extensions' ``reshape``).

    Parameters
    ----------
    shape : sequence
        The length of each new axis: a number, -1 for what the others leave, or a list of the axes that it is
        made of.

    Examples
    --------
    >>> import hyperslab as hs
    >>> filters = [hs.codecs.Reshape([[0, 1], 3]), hs.codecs.Transpose([1, 0])]
    >>> hs.create_array(hs.MemoryStore(), shape=(4, 5, 3), dtype="u1", filters=filters).filters
    (Reshape(shape=((0, 1), 3)), Transpose(order=(1, 0)))
    """

    shape: tuple[int | tuple[int, ...], ...]

    _v3 = "reshape"

    def __init__(self, shape: Iterable[int | Iterable[int]]) -> None:
        lengths = [
            tuple(int(axis) for axis in length) if isinstance(length, Iterable) else int(length)
            for length in shape
        ]
        object.__setattr__(self, "shape", tuple(lengths))

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        return {"shape": [list(n) if isinstance(n, tuple) else n for n in self.shape]}


@dataclass(frozen=True)
class Squeeze(Codec):
    """Leaves axes of length 1 out of chunks (zarrs' ``zarrs.squeeze``)."""

    _v3, _aliases = "zarrs.squeeze", ("squeeze",)


@dataclass(frozen=True)
class ScaleOffset(Codec):
    """``(element - offset) * scale``, in the element's own type (zarr-extensions' ``scale_offset``).

    Parameters
    ----------
    offset, scale : int, float or str, default 0 and 1
        What is subtracted, and what the rest is multiplied with.

    Examples
    --------
    >>> import hyperslab as hs
    >>> filters = [hs.codecs.ScaleOffset(offset=1000, scale=10), hs.codecs.CastValue(data_type="uint8")]
    >>> z = hs.create_array(hs.MemoryStore(), data=[1000.0, 1000.11, 1000.27], filters=filters)
    >>> z[...]
    array([1000. , 1000.1, 1000.3])
    """

    offset: float | str = 0
    scale: float | str = 1

    _v3 = "scale_offset"


@dataclass(frozen=True)
class CastValue(Codec):
    """Elements as numbers of another type (zarr-extensions' ``cast_value``).

    Parameters
    ----------
    data_type : str
        The type of what is stored, as in Zarr v3: ``"uint8"``.
    rounding : {"nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"}
        How numbers are rounded; default: to the nearest, of two the even one.
    out_of_range : {"clamp", "wrap"} or None, default None
        What becomes of numbers that the type does not have. ``None``: an error.
    scalar_map : dict, optional
        Numbers that become certain others: ``{"encode": {"NaN": 0}, "decode": {0: "NaN"}}``, or pairs in
        lists.

    Examples
    --------
    >>> import hyperslab as hs
    >>> cast = hs.codecs.CastValue(data_type="uint8", out_of_range="clamp")
    >>> z = hs.create_array(hs.MemoryStore(), data=[-3.0, 2.5, 300.0], filters=[cast])
    >>> z[...]
    array([  0.,   2., 255.])
    """

    data_type: str
    rounding: str = "nearest-even"
    out_of_range: Literal["clamp", "wrap"] | None = None
    scalar_map: Mapping[str, Any] | None = None

    _v3 = "cast_value"

    def __post_init__(self) -> None:
        found = self.scalar_map
        if found is not None:
            pairs = {
                way: [list(pair) for pair in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
                for way, pairs in found.items()
                if pairs is not None
            }
            object.__setattr__(self, "scalar_map", pairs)

    def __hash__(self) -> int:
        return hash((self.data_type, self.rounding, self.out_of_range))


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
    prefix : bytes or None
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


@dataclass(frozen=True)
class Sharding(Codec):
    """Cuts a chunk (now a shard) into inner chunks, and stores an index of where each lies (Zarr v3's
    ``sharding_indexed``).

    Usually ``shards=`` of `hyperslab.create_array` is enough. This, as ``serializer``, is for what that
    cannot say: shards within shards, an index in other codecs, codecs for the shard as a whole. The argument
    ``chunks`` is then the shape of the shards.

    Parameters
    ----------
    chunk_shape : sequence of int
        Elements of an inner chunk per axis, as the axes are after the filters; divides the shards.
    codecs : sequence of codecs, default Bytes()
        What inner chunks go through; may end in another `Sharding`.
    index_codecs : sequence of codecs, default Bytes(), Crc32c()
        What the index goes through; its size must stay fixed.
    index_location : {"end", "start"}, default "end"
        Where in the shard the index is.

    Examples
    --------
    >>> import hyperslab as hs
    >>> sharding = hs.codecs.Sharding((2, 2), [hs.codecs.Bytes(), hs.codecs.Gzip()], index_location="start")
    >>> z = hs.create_array(
    ...     hs.MemoryStore(), shape=(8, 8), chunks=(4, 4), dtype="i4", serializer=sharding, compressors=None
    ... )
    >>> z.chunks, z.shards
    ((2, 2), (4, 4))
    """

    chunk_shape: tuple[int, ...]
    codecs: tuple[Codec | dict[str, Any], ...] = (Bytes(),)
    index_codecs: tuple[Codec | dict[str, Any], ...] = (Bytes(), Crc32c())
    index_location: Literal["end", "start"] = "end"

    _v3 = "sharding_indexed"

    def __init__(
        self,
        chunk_shape: Iterable[int],
        codecs: CodecsLike = (Bytes(),),
        index_codecs: CodecsLike = (Bytes(), Crc32c()),
        index_location: Literal["end", "start"] = "end",
    ) -> None:
        location = getattr(index_location, "value", index_location)
        if location not in ("end", "start"):
            raise InvalidArgumentError(
                f"sharding: index_location: expected 'start' or 'end', found {index_location!r}"
            )
        object.__setattr__(self, "chunk_shape", tuple(int(length) for length in chunk_shape))
        lists: dict[str, CodecsLike] = {"codecs": codecs, "index_codecs": index_codecs}
        for name, given in lists.items():
            found = codecs_metadata(given, 3)
            if not found:
                raise InvalidArgumentError(f"sharding: {name}: expected a list of codecs, found {given!r}")
            parsed = tuple(parse_codec(codec) or codec for codec in found)
            object.__setattr__(self, name, parsed)
        object.__setattr__(self, "index_location", location)

    def _settings(self, zarr_format: ZarrFormat) -> dict[str, Any]:
        return {
            "chunk_shape": list(self.chunk_shape),
            "codecs": codecs_metadata(self.codecs, 3),
            "index_codecs": codecs_metadata(self.index_codecs, 3),
            "index_location": self.index_location,
        }


BytesCodec = Bytes
TransposeCodec = Transpose
GzipCodec = Gzip
ZstdCodec = Zstd
BloscCodec = Blosc
Crc32cCodec = Crc32c
ShardingCodec = Sharding


@runtime_checkable
class _HasToDict(Protocol):
    """A codec of zarr-python."""

    def to_dict(self) -> Mapping[str, Any]: ...


@runtime_checkable
class _HasConfig(Protocol):
    """A codec of numcodecs."""

    def get_config(self) -> Mapping[str, Any]: ...


CodecLike: TypeAlias = Codec | Mapping[str, Any] | _HasToDict | _HasConfig
"""A codec of ours, of zarr-python or of numcodecs, or its metadata."""

CodecsLike: TypeAlias = CodecLike | Iterable[CodecLike] | Literal["auto"] | None

_CLASSES: tuple[type[Codec], ...] = (
    Bytes,
    Transpose,
    Gzip,
    Zlib,
    Zstd,
    Blosc,
    LZ4,
    BZ2,
    LZMA,
    PCodec,
    Zfp,
    ZFPY,
    Shuffle,
    Crc32c,
    CRC32,
    Adler32,
    Fletcher32,
    JenkinsLookup3,
    Base64,
    Delta,
    FixedScaleOffset,
    Quantize,
    AsType,
    BitRound,
    PackBits,
    PackBitsCodec,
    Reshape,
    Squeeze,
    ScaleOffset,
    CastValue,
    Sharding,
)


def _metadata(codec: CodecLike) -> dict[str, Any]:
    """The metadata of a foreign codec, in whichever format it has."""
    if isinstance(codec, Mapping):
        return dict(codec)
    if isinstance(codec, _HasConfig):
        return dict(codec.get_config())
    if isinstance(codec, _HasToDict):
        found = dict(codec.to_dict())
        # zarr-python fills these in when the codec meets its array; until then they mean nothing.
        open_settings = getattr(codec, "_tunable_attrs", ())
        if open_settings and isinstance(found.get("configuration"), Mapping):
            configuration = dict(found["configuration"])
            for name in open_settings:
                configuration.pop(name, None)
            found["configuration"] = configuration
        return found
    raise ArgumentTypeError(
        "expected a codec of hyperslab, zarr-python or numcodecs, a dictionary, a list of these, None or "
        f"'auto', found {codec!r}"
    )


def _plain(value: Any) -> Any:
    """Metadata as JSON has it: enumerations as their values, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "value"):
        return _plain(value.value)
    return int(value) if hasattr(value, "__index__") else value


# Those that make bytes of objects, and what objects they are for.
_OBJECT_CODECS: dict[str, Kind] = {"vlen-utf8": "text", "vlen-bytes": "bytes", "vlen-array": "items"}


def object_codec(codec: CodecLike) -> np.dtype[Any] | None:
    """The data type of the elements of variable length that a codec makes bytes of; ``None``: it is another
    codec.
    """
    if isinstance(codec, Codec):
        return None
    found = cast("dict[str, Any]", _plain(_metadata(codec)))
    name = str(found.get("id", found.get("name"))).removeprefix("numcodecs.")
    if name not in _OBJECT_CODECS:
        return None
    item = found.get("dtype", (found.get("configuration") or {}).get("dtype"))
    if name == "vlen-array" and item is None:
        raise InvalidArgumentError("vlen-array: dtype is missing")
    return type_of(_OBJECT_CODECS[name], None if item is None else np.dtype(item))


def codec_metadata(codec: CodecLike, zarr_format: ZarrFormat) -> dict[str, Any]:
    """The metadata of a codec of any origin in the given format.

    What is not known here is passed on as it is, for the engine to refuse.
    """
    if isinstance(codec, Codec):
        return codec.to_dict(zarr_format)
    found = cast("dict[str, Any]", _plain(_metadata(codec)))
    if zarr_format == 3 and "id" in found:
        name = found["id"]
        known = parse_codec(found)
        settings = {key: value for key, value in found.items() if key != "id"}
        return {"name": f"numcodecs.{name}", "configuration": settings} if known is None else known.to_dict(3)
    if zarr_format == 2 and "name" in found:
        known = parse_codec(found)
        if known is None:
            name = str(found["name"]).removeprefix("numcodecs.")
            return {"id": name, **found.get("configuration", {})}
        return known.to_dict(2)
    return found


def codecs_metadata(codecs: CodecsLike, zarr_format: ZarrFormat) -> list[dict[str, Any]] | None:
    """The metadata of a codec argument; ``None`` for ``"auto"``."""
    if isinstance(codecs, str):
        if codecs == "auto":
            return None
        raise ArgumentTypeError(f"expected a codec, a list of codecs, None or 'auto', found {codecs!r}")
    if codecs is None:
        return []
    if isinstance(codecs, Iterable) and not isinstance(codecs, Mapping):
        return [codec_metadata(codec, zarr_format) for codec in codecs]
    return [codec_metadata(cast(CodecLike, codecs), zarr_format)]


def parse_codec(metadata: Mapping[str, Any]) -> Codec | None:
    """The codec of metadata of either format; ``None`` where there is no such class here, or it has no
    such setting.
    """
    v2 = "id" in metadata
    name = metadata["id"] if v2 else metadata.get("name")
    settings = dict(metadata if v2 else metadata.get("configuration") or {})
    settings.pop("id", None)
    if isinstance(name, str) and name.startswith("numcodecs."):
        # zarr-python's names for numcodecs' codecs: configured as in v2.
        name, v2 = name.removeprefix("numcodecs."), True
    if name == "bitround":
        settings["numcodecs"] = v2
    for kind in _CLASSES:
        if name == kind._v2 if v2 else name in (kind._v3, *kind._aliases):
            break
    else:
        return None
    if kind is Blosc and v2:
        shuffle = settings.get("shuffle", 1)
        settings["shuffle"] = next((word for word, number in _SHUFFLES.items() if number == shuffle), None)
        settings.setdefault("cname", "lz4")
    if kind is Gzip and v2:
        settings.setdefault("level", 1)
    if kind is Bytes:
        settings.setdefault("endian", None)
    if kind is ZFPY:
        settings.pop("compression_kwargs", None)
    if kind is Crc32c and v2 and settings.get("location") in (None, "end"):
        settings.pop("location", None)
    try:
        return kind(**settings)
    except TypeError:
        return None
