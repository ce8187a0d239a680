"""The content hash in plain NumPy, after `docs/content-hash.md`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from blake3_numpy import blake3


def canonical(value: Any) -> bytes:
    """Returns the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def power(n: int) -> int:
    """Returns the smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def brick_shape(shape: Sequence[int], size: int) -> list[int]:
    """Returns the elements per axis of a brick."""
    brick = [1] * len(shape)
    room = max(16384 // power(size), 1)
    for axis in reversed(range(len(shape))):
        most = room
        if axis > 0 and axis == len(shape) - 1:
            most = min(room, max(4096 // power(size), 1))
        brick[axis] = most if axis == 0 else min(most, power(shape[axis]))
        room = max(room // brick[axis], 1)
    return brick


def root(leaves: Sequence[bytes]) -> bytes:
    """Returns the root of the tree over slabs."""
    if len(leaves) < 2:
        return leaves[0] if leaves else blake3(b"")
    half = power(len(leaves)) // 2
    return blake3(root(leaves[:half]) + root(leaves[half:]))


def element_type(dtype: np.dtype[Any]) -> Any:
    """Returns the canonical name of a type that NumPy has."""
    if dtype.names:
        fields = []
        for name in dtype.names:
            base, shape = dtype[name].base, dtype[name].shape
            fields.append([name, element_type(base), *([list(shape)] if shape else [])])
        return fields
    return dtype.newbyteorder("<").str


def packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type without gaps, little-endian."""
    if not dtype.names:
        return dtype.newbyteorder("<")
    fields = ((name, packed(dtype[name].base), dtype[name].shape) for name in dtype.names)
    return np.dtype(list(fields))


def encoded(values: np.ndarray[Any, Any], kind: Any) -> bytes:
    """Returns the bytes of elements, in C order."""
    if kind != "text":
        # A view: casting changes the bytes of NaN on some machines.
        plain = values.astype(packed(values.dtype)) if values.dtype.names else _little(values)
        return plain.tobytes()
    texts = (str(text).encode() for text in values.ravel())
    return b"".join(len(text).to_bytes(8, "little") + text for text in texts)


def _little(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    swaps = values.dtype != values.dtype.newbyteorder("<")
    return values.byteswap() if swaps else values


def values_root(values: np.ndarray[Any, Any], kind: Any) -> bytes:
    """Returns the root of an array's elements."""
    size = 16 if kind == "text" else packed(values.dtype).itemsize
    brick = brick_shape(values.shape, size)
    if 0 in values.shape:
        return root([])
    slabs: dict[int, list[bytes]] = {}
    steps = [range(0, n, edge) for n, edge in zip(values.shape, brick, strict=True)]
    for start in itertools.product(*steps):
        box = tuple(slice(at, at + edge) for at, edge in zip(start, brick, strict=True))
        slabs.setdefault(start[0] if start else 0, []).append(blake3(encoded(values[(*box, ...)], kind)))
    return root([blake3(b"".join(bricks)) for bricks in slabs.values()])


def array_hash(
    values: np.ndarray[Any, Any],
    *,
    attributes: Mapping[str, Any] | None = None,
    dimensions: Sequence[str | None] | None = None,
    missing: Any = None,
) -> str:
    """Returns the hash of an array. Elements of type ``object`` and ``U`` are text."""
    kind = "text" if values.dtype.kind in "OU" else element_type(values.dtype)
    head = {
        "attributes": dict(attributes or {}),
        "dimensions": list(dimensions or [None] * values.ndim),
        "dtype": kind,
        "kind": "array",
        "missing": missing,
        "shape": list(values.shape),
        "values": values_root(values, kind).hex(),
        "version": 1,
    }
    return blake3(canonical(head)).hex()


def group_hash(members: Mapping[str, str], attributes: Mapping[str, Any] | None = None) -> str:
    """Returns the hash of a group, given the hashes of its members by name."""
    head = {"attributes": dict(attributes or {}), "kind": "group", "members": dict(members), "version": 1}
    return blake3(canonical(head)).hex()
