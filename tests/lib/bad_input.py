"""Shared by the tests of bad input: an array to damage, and its neighbour."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import zarr
from hypothesis import strategies as st

DATA = np.arange(1, 101, dtype="<f4").reshape(10, 10)

CODECS: dict[str, tuple[int, Any]] = {
    "none": (3, None),
    "gzip": (3, [{"name": "gzip", "configuration": {"level": 5}}]),
    "zstd": (3, [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}]),
    "zstd-checksum": (3, [{"name": "zstd", "configuration": {"level": 3, "checksum": True}}]),
    "crc32c": (3, [{"name": "crc32c"}]),
    "zstd+crc32c": (3, [{"name": "zstd", "configuration": {"level": 3}}, {"name": "crc32c"}]),
    "blosc-lz4": (
        3,
        [
            {
                "name": "blosc",
                "configuration": {
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "shuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            }
        ],
    ),
    "blosc-zstd": (
        3,
        [
            {
                "name": "blosc",
                "configuration": {
                    "cname": "zstd",
                    "clevel": 5,
                    "shuffle": "bitshuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            }
        ],
    ),
    "zlib": (2, [{"id": "zlib", "level": 1}]),
    "lz4": (2, [{"id": "lz4", "acceleration": 1}]),
    "v2-none": (2, None),
}


def written(root: Path, codec: str, name: str = "ocean/t") -> Path:
    """Writes a group with an array and its neighbour. Returns the path of chunk (1, 0)."""
    zarr_format, compressors = CODECS[codec]
    for node in (name, name + "-neighbour"):
        z = hs.create_array(
            root,
            name=node,
            shape=(10, 10),
            chunks=(5, 10),
            dtype="<f4",
            compressors=compressors,
            zarr_format=zarr_format,
        )
        z[...] = DATA
    return root / name / ("c/1/0" if zarr_format == 3 else "1.0")


def damaged(data: st.DataObject, good: bytes) -> bytes:
    """Changes, cuts off or inserts a few bytes, or makes them claim other lengths."""
    bad = bytearray(good)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kind = data.draw(st.sampled_from(["flip", "flip", "flip", "cut", "insert", "header", "length"]))
    if kind == "flip":
        for _ in range(data.draw(st.integers(1, 4))):
            if bad:
                bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
    elif kind == "cut":
        del bad[int(rng.integers(len(bad) + 1)) :]
    elif kind == "insert":
        at = int(rng.integers(len(bad) + 1))
        bad[at:at] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == "header":
        bad[:16] = rng.bytes(min(16, len(bad)))
    elif len(bad) >= 4:
        # The region of lengths and offsets.
        at = int(rng.integers(max(1, min(len(bad) - 3, 64))))
        bad[at : at + 4] = struct.pack("<I", int(rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1])))
    return bytes(bad)


SHARD_INDEX = 4 * 16 + 4
"""Bytes of the index of a shard of four chunks."""


def sharded(root: Path, data: np.ndarray[Any, Any], at_start: bool) -> tuple[Path, bytearray, int]:
    """Write array t of shape (20, 10) in shards of four chunks.

    Returns the path and the bytes of shard (1, 0), and the offset of its index.
    """
    z = zarr.create_array(
        root,
        name="t",
        shape=(20, 10),
        chunks=(5, 5),
        shards={"shape": (10, 10), "index_location": "start" if at_start else "end"},
        dtype="f4",
        compressors=zarr.codecs.ZstdCodec(level=1, checksum=True),
    )
    z[...] = data
    zarr.open_group(root, mode="a")
    shard = root / "t/c/1/0"
    good = bytearray(shard.read_bytes())
    return shard, good, 0 if at_start else len(good) - SHARD_INDEX
