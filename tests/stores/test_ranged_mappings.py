"""Mappings that read ranges of objects, used as stores by the engine: their results are checked."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab import _native
from hyperslab._stores.store import Store, store_beside


class Ranged(MutableMapping[str, bytes]):
    """Holds objects in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, list[tuple[int, int]]]] = []

    def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Any:
        self.asked.append((key, list(ranges)))
        value = self.objects[key]
        return [value[start : start + length] for start, length in ranges]

    def size_of(self, key: str) -> Any:
        return len(self.objects[key])

    def __getitem__(self, key: str) -> bytes:
        return self.objects[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.objects[key] = value

    def __delitem__(self, key: str) -> None:
        del self.objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.objects)

    def __len__(self) -> int:
        return len(self.objects)


def store_of(mapping: Any) -> Store:
    return store_beside(_native.StoreHandle.mapping(mapping, "test://ranged"))


def test_sizes_and_parts_of_objects() -> None:
    mapping = Ranged()
    store = _native.StoreHandle.mapping(mapping)
    store.set("a/b", b"0123456789")
    assert mapping.objects == {"a/b": b"0123456789"}
    assert (store.size("a/b"), store.size("a"), store.size("a/c")) == (10, None, None)
    parts = [store.part("a/b", *bounds) for bounds in ((0, 4), (3, None), (-3, None), (4, 99), (10, None))]
    assert parts == [b"0123", b"3456789", b"789", b"456789", b""]
    assert store.part("a/c", 0, 4) is None
    assert store.delete("a/b")
    assert not store.delete("a/b")


def test_part_of_a_shard_takes_its_index_and_its_chunk() -> None:
    mapping = Ranged()
    z = hs.create_array(
        store_of(mapping), shape=(64, 100), chunks=(1, 100), shards=(64, 100), dtype="i4", compressors=None
    )
    values = np.arange(6400, dtype="i4").reshape(64, 100)
    z[:] = values
    mapping.asked.clear()
    np.testing.assert_array_equal(z[5], values[5])
    index = 64 * 16 + 4
    size = len(mapping.objects["c/0/0"])
    assert [key for key, _ in mapping.asked] == ["c/0/0"] * len(mapping.asked)
    asked = [each for _, ranges in mapping.asked for each in ranges if each[1]]
    assert sum(length for _, length in asked) <= index + 400
    assert asked[0][0] >= size - index
    np.testing.assert_array_equal(z[:], values)
    assert z[5:7, 3].tolist() == [503, 603]


def test_absent_objects_are_fill_value() -> None:
    mapping = Ranged()
    z = hs.create_array(
        store_of(mapping), shape=(8,), chunks=(2,), dtype="i4", fill_value=7, compressors=None
    )
    z[2:4] = 1
    assert z[:].tolist() == [7, 7, 1, 1, 7, 7, 7, 7]
    assert z[3:5].tolist() == [1, 7]


def shard(mapping: Ranged) -> hs.Array:
    """Returns an array of one shard. The engine reads ranges of this shard."""
    z = hs.create_array(
        store_of(mapping), shape=(8, 4), chunks=(2, 4), shards=(8, 4), dtype="i4", compressors=None
    )
    z[:] = 1
    return z


@pytest.mark.parametrize("wrong", [lambda parts: [], lambda parts: [part[1:] for part in parts]])
def test_answers_of_another_length_are_errors(wrong: Any) -> None:
    class Wrong(Ranged):
        def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Any:
            return wrong(super().ranges(key, ranges))

    with pytest.raises(hs.errors.HyperslabError, match="c/0"):
        shard(Wrong())[0]


@pytest.mark.parametrize("answer", [None, 5, ["text"], [None]])
def test_answers_that_are_no_bytes_are_errors(answer: Any) -> None:
    class Wrong(Ranged):
        def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Any:
            return answer

    with pytest.raises(hs.errors.HyperslabError, match="c/0") as caught:
        shard(Wrong())[0]
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("answer", [-1, 1 << 70, "many", None])
def test_sizes_that_are_no_sizes_are_errors(answer: Any) -> None:
    class Wrong(Ranged):
        def size_of(self, key: str) -> Any:
            return answer

    mapping = Wrong()
    store = _native.StoreHandle.mapping(mapping)
    store.set("a", b"0123")
    with pytest.raises(hs.errors.HyperslabError, match="a"):
        store.size("a")


def test_what_it_raises_is_the_cause() -> None:
    class Broken(Ranged):
        def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Any:
            raise PermissionError("no entry")

    with pytest.raises(OSError, match="c/0") as caught:
        shard(Broken())[0]
    assert isinstance(caught.value.__cause__, PermissionError)


def test_an_object_that_goes_while_it_is_read_is_an_error() -> None:
    class Going(Ranged):
        def ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Any:
            raise KeyError(key)

    with pytest.raises(hs.errors.HyperslabError, match="c/0/0.* deleted while it was read"):
        shard(Going())[0]
