"""Nested elements of variable length, written and read by the HDF5 library itself.

h5py can write few of them. This module builds the memory as the C library expects it (`hvl_t`,
``char *``) and calls the library's functions, which it finds through h5py.
"""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np


class Number:
    """A number that NumPy has a type for."""

    def __init__(self, name: str) -> None:
        self.dtype = np.dtype(name)
        self.size = self.dtype.itemsize

    def type_id(self) -> Any:
        return h5py.h5t.py_create(self.dtype)

    def made(self, rng: random.Random) -> Any:
        return np.array(rng.randrange(-30_000, 30_000)).astype(self.dtype).item()

    def encode(self, value: Any, _: list[Any]) -> bytes:
        return np.array(value, self.dtype).tobytes()

    def decode(self, memory: bytes) -> Any:
        return np.frombuffer(memory, self.dtype)[0].item()


class Text:
    """A ``char *``. `None` is a null pointer, which differs from empty text."""

    size = 8

    def type_id(self) -> Any:
        return h5py.h5t.py_create(h5py.string_dtype(), logical=True)

    def made(self, rng: random.Random) -> str | None:
        if rng.random() < 0.1:
            return None
        return "".join(rng.choices("abcä水 ", k=rng.choice([0, 1, 5, 40])))

    def encode(self, value: str | None, keep: list[Any]) -> bytes:
        if value is None:
            return bytes(self.size)
        keep.append(ctypes.create_string_buffer(value.encode()))
        return struct.pack("P", ctypes.addressof(keep[-1]))

    def decode(self, memory: bytes) -> str | None:
        (at,) = struct.unpack("P", memory)
        return ctypes.string_at(at).decode() if at else None


@dataclass
class Sequence:
    """An ``hvl_t``: a count and a pointer to the first item."""

    item: Number | Text | Sequence | Structure
    lengths: tuple[int, ...] = (0, 0, 1, 2, 7)
    size = 16

    def type_id(self) -> Any:
        return h5py.h5t.vlen_create(self.item.type_id())

    def made(self, rng: random.Random) -> list[Any]:
        return [self.item.made(rng) for _ in range(rng.choice(self.lengths))]

    def encode(self, value: list[Any], keep: list[Any]) -> bytes:
        items = b"".join(self.item.encode(item, keep) for item in value)
        keep.append(ctypes.create_string_buffer(items, len(items) + 1))
        return struct.pack("nP", len(value), ctypes.addressof(keep[-1]) if value else 0)

    def decode(self, memory: bytes) -> list[Any]:
        count, at = struct.unpack("nP", memory)
        size = self.item.size
        items = ctypes.string_at(at, count * size) if count else b""
        return [self.item.decode(items[n * size : (n + 1) * size]) for n in range(count)]


@dataclass
class Structure:
    """Consecutive members."""

    members: dict[str, Number | Text | Sequence | Structure]

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members.values())

    def type_id(self) -> Any:
        made, offset = h5py.h5t.create(h5py.h5t.COMPOUND, self.size), 0
        for name, member in self.members.items():
            made.insert(name.encode(), offset, member.type_id())
            offset += member.size
        return made

    def made(self, rng: random.Random) -> tuple[Any, ...]:
        return tuple(member.made(rng) for member in self.members.values())

    def encode(self, value: tuple[Any, ...], keep: list[Any]) -> bytes:
        members = self.members.values()
        return b"".join(member.encode(item, keep) for member, item in zip(members, value, strict=True))

    def decode(self, memory: bytes) -> tuple[Any, ...]:
        found: list[Any] = []
        for member in self.members.values():
            found.append(member.decode(memory[: member.size]))
            memory = memory[member.size :]
        return tuple(found)


Kind = Number | Text | Sequence | Structure


def loaded() -> Any:
    """Returns the library that h5py calls, or `None` if its functions are not reachable."""
    found = ctypes.CDLL(h5py.h5d.__file__)
    try:
        for call in (found.H5Dwrite, found.H5Dread):
            call.argtypes = [ctypes.c_int64] * 5 + [ctypes.c_void_p]
        found.H5Dvlen_reclaim.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    except AttributeError:
        return None
    return found


def write(file: h5py.File, name: str, kind: Kind, values: list[Any], dcpl: Any = None) -> None:
    """Creates and writes a dataset with one axis."""
    stored, count = kind.type_id(), len(values)
    dataset = h5py.h5d.create(file.id, name.encode(), stored, h5py.h5s.create_simple((count,)), dcpl)
    keep: list[Any] = []
    memory = b"".join(kind.encode(value, keep) for value in values)
    if loaded().H5Dwrite(dataset.id, stored.id, 0, 0, 0, memory) < 0:
        raise OSError(f"the library did not write {name}")


def read(file: h5py.File, name: str, kind: Kind) -> list[Any]:
    """Returns all elements of a dataset, read by the library."""
    dataset, stored, size = file[name], kind.type_id(), kind.size
    count = dataset.shape[0]
    memory = ctypes.create_string_buffer(count * size + 1)
    if loaded().H5Dread(dataset.id.id, stored.id, 0, 0, 0, memory) < 0:
        raise OSError(f"the library did not read {name}")
    found = [kind.decode(memory.raw[n * size : (n + 1) * size]) for n in range(count)]
    loaded().H5Dvlen_reclaim(stored.id, dataset.id.get_space().id, 0, memory)
    return found
