"""Words that settings of codecs take, as enumerations: zarr-python's names. The text alone will do, too."""

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
    """What Blosc shuffles."""

    noshuffle = "noshuffle"
    shuffle = "shuffle"
    bitshuffle = "bitshuffle"


class Endian(StrEnum):
    """Orders of bytes."""

    big = "big"
    little = "little"


class ShardingCodecIndexLocation(StrEnum):
    """Where in a shard its index is."""

    start = "start"
    end = "end"
