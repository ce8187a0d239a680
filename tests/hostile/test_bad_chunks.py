"""Damaged chunks raise typed errors that name the place and the damage. Nothing else happens."""

from __future__ import annotations

import gzip
import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from bad_input import CODECS, DATA, damaged, written
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases
from support import assert_same, examples, files_below, scratch


def damage_truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def damage_short(data: bytes) -> bytes:
    return data[:-1]


def damage_empty(data: bytes) -> bytes:
    return b""


def damage_longer(data: bytes) -> bytes:
    return data + b"\0" * 16


def damage_garbage(data: bytes) -> bytes:
    return np.random.default_rng(1).bytes(len(data))


def damage_zeros(data: bytes) -> bytes:
    return bytes(len(data) + 1)


def damage_huge(data: bytes) -> bytes:
    return data * 1000


DAMAGES = [
    damage_truncated,
    damage_short,
    damage_empty,
    damage_longer,
    damage_garbage,
    damage_zeros,
    damage_huge,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__.removeprefix("damage_"))
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_chunks(tmp_path: Path, codec: str, damage: Callable[[bytes], bytes]) -> None:
    chunk = written(tmp_path, codec)
    good = chunk.read_bytes()
    bad = damage(good)
    if codec in ("none", "v2-none") and len(bad) == len(good):
        pytest.skip("bytes of the right length are values")
    chunk.write_bytes(bad)
    before = files_below(tmp_path)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    key = chunk.relative_to(tmp_path).as_posix()

    attempts: list[Callable[[], Any]] = [
        lambda: z[...],
        lambda: z[7, 3],
        lambda: z[::-2, ::3],
        lambda: z.read(out=np.empty((10, 10), "<f4")),
        # A partial write must read first.
        lambda: z.__setitem__((7, slice(2, 5)), 0),
    ]
    for attempt in attempts:
        try:
            attempt()
        except hs.errors.ChunkError as error:
            assert isinstance(error, ValueError)
            told = str(error)
            assert "/ocean/t'" in told
            assert key in told
            assert "[1, 0]" in told
        else:
            # Shifted uncompressed rows may still be in place, and a decoder may stop before the
            # added bytes.
            assert codec in ("none", "v2-none") or damage in (damage_longer, damage_huge)
    if codec not in ("none", "v2-none"):
        assert files_below(tmp_path) == before or damage in (damage_longer, damage_huge)
    # The other chunk and the neighbour are unchanged.
    assert_same(z[:5], DATA[:5])
    assert_same(hs.open_array(tmp_path, path="ocean/t-neighbour")[...], DATA)
    # Writing the whole chunk does not need the old one.
    z[5:] = DATA[5:]
    assert_same(z[...], DATA)


@pytest.mark.parametrize("codec", ["none", "v2-none"])
@pytest.mark.parametrize(
    "damage",
    [damage_truncated, damage_short, damage_empty, damage_longer, damage_huge],
    ids=lambda f: f.__name__,
)
def test_uncompressed_chunks_have_their_size(
    tmp_path: Path, codec: str, damage: Callable[[bytes], bytes]
) -> None:
    chunk = written(tmp_path, codec)
    chunk.write_bytes(damage(chunk.read_bytes()))
    before = files_below(tmp_path)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    with pytest.raises(hs.errors.ChunkError, match="200 bytes|are expected") as caught:
        z[...]
    assert chunk.relative_to(tmp_path).as_posix() in str(caught.value)
    with pytest.raises(hs.errors.ChunkError):
        z[7, 2:5] = 0
    assert files_below(tmp_path) == before


WRITTEN_BY: dict[str, Callable[[bytes], bytes]] = {
    "zlib": zlib.compress,
    "nothing": lambda data: data,
    "gzip": gzip.compress,
    "a larger array": lambda data: zlib.compress(data * 2),
    "a smaller array": lambda data: zlib.compress(data[:100]),
}


@pytest.mark.parametrize("codec", ["gzip", "zstd", "crc32c", "blosc-lz4", "zlib", "lz4"])
@pytest.mark.parametrize("writer", WRITTEN_BY)
def test_chunks_of_another_codec(tmp_path: Path, codec: str, writer: str) -> None:
    if codec == writer:
        pytest.skip("the right one")
    chunk = written(tmp_path, codec)
    chunk.write_bytes(WRITTEN_BY[writer](DATA[5:].tobytes()))
    with pytest.raises(hs.errors.ChunkError, match="ocean/t"):
        hs.open_array(tmp_path, path="ocean/t")[...]


def test_frames_that_claim_to_be_huge(tmp_path: Path) -> None:
    """Sizes in headers do not decide how much is allocated."""
    claims = {
        "lz4": struct.pack("<I", 0x7FFFFFFF) + b"\x00" * 20,
        "zstd": bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**62) + b"\x01\x00\x00",
        "blosc-lz4": bytes([2, 1, 1, 4]) + struct.pack("<III", 0x7FFFFFFF, 0x7FFFFFFF, 60) + b"\0" * 44,
        "gzip": zlib.compress(bytes(10**7), wbits=31),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for codec, claim in claims.items():
        chunk = written(tmp_path / codec, codec)
        chunk.write_bytes(claim)
        with pytest.raises(hs.errors.ChunkError):
            hs.open_array(tmp_path / codec, path="ocean/t")[...]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_checksums_can_be_left_unverified(tmp_path: Path) -> None:
    chunk = written(tmp_path, "crc32c")
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    z = hs.open_array(tmp_path, path="ocean/t")
    with pytest.raises(hs.errors.ChunkError, match="checksum"):
        z[...]
    with hs.config.set(verify_checksums=False):
        assert_same(z[...], DATA)
    with pytest.raises(hs.errors.ChunkError, match="checksum"):
        z[...]


@pytest.mark.parametrize("order", "<>")
def test_text_that_is_none(tmp_path: Path, order: str) -> None:
    """Code points beyond the last character: NumPy has arrays of them, but no scalars."""
    z = hs.create_array(tmp_path, shape=(2,), dtype=f"{order}U1", compressors=None, zarr_format=2)
    z[...] = ["a", "b"]
    (tmp_path / "0").write_bytes(np.array([0x110000, ord("b")], f"{order}u4").tobytes())
    with pytest.raises(hs.errors.ChunkError, match="is not text"):
        z[0]
    assert z[1] == "b"
    assert z[...].view(f"{order}u4").tolist() == [0x110000, ord("b")]


@given(case=cases(), data=st.data())
@settings(max_examples=examples(150))
def test_random_damage_of_chunks(case: Case, data: st.DataObject) -> None:
    """Any bytes in a chunk give an array of the right shape or an error, nothing else."""
    with scratch() as root:
        with hs.config.set(write_empty_chunks=True):
            hs.create_array(root / "a", **case.arguments())[...] = case.data
        files = [
            path
            for path in (root / "a").rglob("*")
            if path.is_file() and path.name not in ("zarr.json", ".zarray", ".zattrs")
        ]
        if not files:
            return
        for _ in range(8):
            path = data.draw(st.sampled_from(files))
            good = path.read_bytes()
            path.write_bytes(damaged(data, good))
            z = hs.open_array(root / "a", mode="r")
            try:
                found = z.read()
            except hs.HyperslabError as error:
                assert isinstance(error, (hs.errors.ChunkError, hs.errors.StoreError)), repr(error)
                assert path.name in str(error)
            else:
                assert (found.shape, found.dtype) == (case.shape, case.opened_dtype)
            path.write_bytes(good)
        assert_same(hs.open_array(root / "a", mode="r")[...], case.values)


def test_zarr_python_and_we_refuse_alike(tmp_path: Path) -> None:
    """zarr-python refuses the same chunks: we are not too strict."""
    for codec in CODECS:
        chunk = written(tmp_path / codec, codec)
        chunk.write_bytes(damage_truncated(chunk.read_bytes()))
        for library in (hs, zarr):
            with pytest.raises(Exception):
                library.open_array(tmp_path / codec, path="ocean/t", mode="r")[...]
