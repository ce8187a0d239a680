"""Enumerations for settings of codecs, named as in zarr-python. Plain text works too."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BloscCname", "BloscShuffle", "Endian", "ShardingCodecIndexLocation"]


class BloscCname(StrEnum):
    """Compressors inside Blosc."""

    lz4 = "lz4"
    lz4hc = "lz4hc"
    blosclz = "blosclz"
    snappy = "snappy"
    zlib = "zlib"
    zstd = "zstd"


class BloscShuffle(StrEnum):
    """Shuffle modes of Blosc."""

    noshuffle = "noshuffle"
    shuffle = "shuffle"
    bitshuffle = "bitshuffle"


class Endian(StrEnum):
    """Byte orders."""

    big = "big"
    little = "little"


class ShardingCodecIndexLocation(StrEnum):
    """Position of the index in a shard."""

    start = "start"
    end = "end"
