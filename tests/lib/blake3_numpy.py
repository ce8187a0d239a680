"""BLAKE3 in NumPy, after the paper: https://github.com/BLAKE3-team/BLAKE3-specs.

All chunks of a message are compressed side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint32]]

START = np.array(
    [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19], "u4"
)
ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
# The rows of a state are turned by 0 to 3 words. Indices take a third of the time of `numpy.roll`.
TURNS = [[(at + shift) % 4 for at in range(4)] for shift in range(4)]
TURNS_BACK = [TURNS[-shift % 4] for shift in range(4)]
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8


def _rotated(words: Words, bits: int) -> Words:
    return (words >> np.uint32(bits)) | (words << np.uint32(32 - bits))


def _mixed(v: list[Words], first: Words, second: Words) -> None:
    v[0] = v[0] + v[1] + first
    v[3] = _rotated(v[3] ^ v[0], 16)
    v[2] = v[2] + v[3]
    v[1] = _rotated(v[1] ^ v[2], 12)
    v[0] = v[0] + v[1] + second
    v[3] = _rotated(v[3] ^ v[0], 8)
    v[2] = v[2] + v[3]
    v[1] = _rotated(v[1] ^ v[2], 7)


def _compressed(chaining: Words, block: Words, counter: Words, length: int, flags: int) -> Words:
    """Returns the chaining values of many compressions. The last axis counts them."""
    count = block.shape[-1]
    tail = np.zeros((4, count), "u4")
    tail[0], tail[2], tail[3] = counter, length, flags
    start = np.repeat(START[:4, None], count, 1)
    v = [chaining[:4], chaining[4:], start, tail]
    for _ in range(7):
        _mixed(v, block[0:8:2], block[1:8:2])
        v = [row[turn] for turn, row in zip(TURNS, v, strict=True)]
        _mixed(v, block[8:16:2], block[9:16:2])
        v = [row[turn] for turn, row in zip(TURNS_BACK, v, strict=True)]
        block = block[ORDER]
    return np.concatenate([v[0] ^ v[2], v[1] ^ v[3]])


def _chunks(data: bytes, first: int, root: int) -> Words:
    """Returns the chaining values of chunks of one length, at most 1024 bytes each."""
    size = min(len(data), 1024)
    count = max(-(-len(data) // 1024), 1)
    numbers = np.arange(first, first + count, dtype="u4")
    chaining = np.repeat(START[:, None], count, 1)
    blocks = max(-(-size // 64), 1)
    rows = np.frombuffer(data, "u1").reshape(count, size)
    rows = np.pad(rows, [(0, 0), (0, blocks * 64 - size)])
    for at in range(blocks):
        words = np.ascontiguousarray(rows[:, at * 64 : at * 64 + 64]).view("<u4").T
        last = at == blocks - 1
        flags = (CHUNK_START if at == 0 else 0) | (CHUNK_END | root if last else 0)
        chaining = _compressed(chaining, words, numbers, size - at * 64 if last else 64, flags)
    return chaining


def blake3(data: bytes) -> bytes:
    """Returns the digest of 32 bytes."""
    whole = max(len(data) - 1, 0) // 1024
    last = _chunks(data[whole * 1024 :], whole, ROOT if whole == 0 else 0)
    nodes = last if whole == 0 else np.concatenate([_chunks(data[: whole * 1024], 0, 0), last], 1)
    while nodes.shape[1] > 1:
        pairs = nodes.shape[1] // 2
        block = np.concatenate([nodes[:, 0 : 2 * pairs : 2], nodes[:, 1 : 2 * pairs : 2]])
        flags = PARENT | (ROOT if nodes.shape[1] == 2 else 0)
        chaining = np.repeat(START[:, None], pairs, 1)
        parents = _compressed(chaining, block, np.zeros(pairs, "u4"), 64, flags)
        nodes = np.concatenate([parents, nodes[:, 2 * pairs :]], 1)
    return nodes[:, 0].astype("<u4").tobytes()
