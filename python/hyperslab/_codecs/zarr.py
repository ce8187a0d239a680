"""Codecs of Zarr v3 and its extensions, except shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab._codecs.codec import Codec, ZarrFormat, as_stored, check_range
from hyperslab.errors import InvalidArgumentError

__all__ = [
    "Blosc",
    "Bytes",
    "CastValue",
    "Crc32c",
    "Gzip",
    "PackBitsCodec",
    "Reshape",
    "ScaleOffset",
    "Squeeze",
    "Transpose",
    "Zfp",
    "Zstd",
]

_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True)
class Bytes(Codec):
    """Elements as in memory, in a given byte order (Zarr v3's ``bytes``).

    Parameters
    ----------
    endian : {"little", "big"} or None, default "little"
        ``None`` for one-byte elements.
    """

    endian: Literal["little", "big"] | None = "little"

    _v3 = "bytes"

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Bytes:
        return cls(**{"endian": None, **settings})


@dataclass(frozen=True)
class Transpose(Codec):
    """Stores chunks with their axes in another order (Zarr v3's ``transpose``).

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

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Gzip:
        # The default level of numcodecs is 1.
        return cls(**({"level": 1, **settings} if v2 else settings))


@dataclass(frozen=True)
class Zstd(Codec):
    """Zstandard, the default codec: fast to read and small.

    Parameters
    ----------
    level : int, default 0
        -131072 (fastest) to 22 (smallest); 0 is the library's default, 3.
    checksum : bool, default False
        Store a checksum of the content.
    """

    level: int = 0
    checksum: bool = False

    _v2, _v3 = "zstd", "zstd"

    def __post_init__(self) -> None:
        check_range("zstd", "level", self.level, -131072, 22)

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Zstd:
        return as_stored(cls, settings)


@dataclass(frozen=True)
class Blosc(Codec):
    """Blosc: shuffles bytes or bits of elements, then compresses in blocks.

    Parameters
    ----------
    cname : {"zstd", "lz4", "lz4hc", "blosclz", "zlib"}, default "zstd"
        The inner compressor. (Also ``snappy``, for reading.)
    clevel : int, default 5
        0 (stored) to 9 (smallest).
    shuffle : {"noshuffle", "shuffle", "bitshuffle"}, optional
        ``None``: by bytes, or by bits for one-byte elements.
    typesize : int, optional
        Bytes per element; ``None``: the size of the array's elements.
    blocksize : int, default 0
        Bytes per block; 0 lets the encoder choose.
    """

    cname: str = "zstd"
    clevel: int = 5
    shuffle: Literal["noshuffle", "shuffle", "bitshuffle"] | None = None
    typesize: int | None = None
    blocksize: int = 0

    _v2, _v3 = "blosc", "blosc"

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Blosc:
        if v2:
            number = settings.get("shuffle", 1)
            word = next((word for word, its_number in _SHUFFLES.items() if its_number == number), None)
            settings = {"cname": "lz4", **settings, "shuffle": word}
        return cls(**settings)

    def __post_init__(self) -> None:
        # Replace members of zarr-python's enumerations by their values.
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
class Crc32c(Codec):
    """A CRC-32C checksum: detects corrupt chunks on reading."""

    _v2, _v3 = "crc32c", "crc32c"

    @classmethod
    def _parse(cls, settings: dict[str, Any], v2: bool) -> Crc32c:
        if v2 and settings.get("location") in (None, "end"):
            settings = {name: value for name, value in settings.items() if name != "location"}
        return cls(**settings)


@dataclass(frozen=True)
class Zfp(Codec):
    """zfp: lossy or lossless compression of integers and floats in blocks.

    Zarr v3's ``zfp``, a ``serializer``. Chunks have up to four axes.

    Parameters
    ----------
    mode : {"reversible", "fixed_accuracy", "fixed_rate", "fixed_precision", "expert"}, default "reversible"
        Each mode except ``reversible`` needs its own parameters, and takes no others.
    tolerance : float, optional
        Maximum error, for ``fixed_accuracy``.
    rate : float, optional
        Bits per element, for ``fixed_rate``.
    precision : int, optional
        Bits per zfp coefficient, for ``fixed_precision``.
    minbits, maxbits, maxprec, minexp : int, optional
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
class PackBitsCodec(Codec):
    """Elements packed into as few bits as they need, or into some of their bits.

    zarr-extensions' ``packbits``, a ``serializer``. Not the same codec as numcodecs' ``PackBits``.

    Parameters
    ----------
    padding_encoding : {"none", "first_byte", "last_byte"}, default "none"
        Where to store the number of unused bits.
    first_bit, last_bit : int, optional
        The bits of each number to store, counted from the lowest. Default: all.

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
    """Gives chunks another shape without reordering elements (zarr-extensions' ``reshape``).

    Parameters
    ----------
    shape : sequence
        One entry per new axis: its length; -1 for the rest; or a list of the old axes that it
        combines.

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
    """Removes axes of length 1 from chunks (zarrs' ``zarrs.squeeze``)."""

    _v3, _aliases = "zarrs.squeeze", ("squeeze",)


@dataclass(frozen=True)
class ScaleOffset(Codec):
    """``(element - offset) * scale``, in the element's own type.

    (zarr-extensions' ``scale_offset``.)

    Parameters
    ----------
    offset : int, float or str, default 0
        The offset to subtract first.
    scale : int, float or str, default 1
        The factor to multiply by.

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
    """Elements stored as numbers of another type (zarr-extensions' ``cast_value``).

    Parameters
    ----------
    data_type : str
        Type of the stored elements, as in Zarr v3: ``"uint8"``.
    rounding : str, default "nearest-even"
        How to round: ``"nearest-even"`` (to nearest, ties to even), ``"nearest-away"``,
        ``"towards-zero"``, ``"towards-positive"`` or ``"towards-negative"``.
    out_of_range : {"clamp", "wrap"} or None, default None
        How to store numbers that the type does not have. ``None``: raise an error.
    scalar_map : dict, optional
        Numbers to replace by others: ``{"encode": {"NaN": 0}, "decode": {0: "NaN"}}``, or lists of
        pairs.

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
