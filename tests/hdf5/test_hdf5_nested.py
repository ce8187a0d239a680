"""Sequences of sequences, of text and of structures in HDF5, compared with the HDF5 library."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5_nested as library
import hyperslab as hs
import numpy as np
import pytest
from hdf5_files import new_file
from hdf5_nested import Kind, Number, Sequence, Structure, Text
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch

pytestmark = pytest.mark.skipif(
    library.loaded() is None, reason="the HDF5 library that h5py uses cannot be called here"
)

ROWS = Sequence(Number("<i4"))
MEMBERS: dict[str, Kind] = {"n": Number("<i2"), "row": Sequence(Number("<f4")), "name": Text()}
KINDS: dict[str, Kind] = {
    "rows": Sequence(ROWS),
    "rows, big-endian": Sequence(Sequence(Number(">i4"))),
    "three levels": Sequence(Sequence(Sequence(Number(">f8")))),
    "texts": Sequence(Text()),
    "sequences of texts": Sequence(Sequence(Text())),
    "empty": Sequence(Sequence(Number("<i8"), (0,)), (0, 3)),
    # More than a collection of the usual size can hold.
    "long": Sequence(Sequence(Number("<i2"), (0, 1, 3000)), (0, 1, 6)),
    "structures": Sequence(Structure(MEMBERS)),
    "structures in structures": Sequence(
        Structure({"a": Structure(MEMBERS), "b": Sequence(Structure(MEMBERS), (0, 2))})
    ),
    "members": Structure({**MEMBERS, "rows": Sequence(Sequence(Number(">u2"))), "names": Sequence(Text())}),
}


def plain(value: Any) -> Any:
    """Returns lists, tuples and Python numbers. Missing text becomes empty text."""
    if isinstance(value, np.void):
        assert value.dtype.names is not None
        return tuple(plain(value[name]) for name in value.dtype.names)
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, (list, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    if value is None:
        return ""
    return value.item() if isinstance(value, np.generic) else value


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 40),
    name=st.sampled_from(sorted(KINDS)),
    storage=st.sampled_from(["contiguous", "chunked", "gzip"]),
    libver=st.sampled_from(["earliest", "latest"]),
    offsets=st.sampled_from([4, 8]),
)
@settings(max_examples=examples(100))
def test_as_the_library(seed: int, count: int, name: str, storage: str, libver: str, offsets: int) -> None:
    rng, kind = random.Random(seed), KINDS[name]
    values = [kind.made(rng) for _ in range(count)]
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if storage != "contiguous":
        dcpl.set_chunk((rng.randint(1, max(count, 1)),))
    if storage == "gzip":
        dcpl.set_shuffle()
        dcpl.set_deflate(1)
    with scratch() as root:
        path = root / "a.h5"
        with new_file(path, libver, offsets) as file:
            library.write(file, "d", kind, values, dcpl)
        with h5py.File(path) as file:
            assert library.read(file, "d", kind) == values
        dset = hs.open(path)["d"]
        expected = [plain(value) for value in values]
        assert plain(dset[...]) == expected
        start, stop = sorted((rng.randint(0, count), rng.randint(0, count)))
        windows = [slice(start, stop), slice(start, stop, 3), slice(None, None, -1)]
        for window in windows:
            assert plain(dset[window]) == expected[window]
        if count:
            n = rng.randrange(count)
            assert plain(dset[n]) == expected[n]
            picked = sorted(rng.sample(range(count), min(count, 4)))
            assert plain(dset[picked]) == [expected[n] for n in picked]
        if not isinstance(kind, Sequence):
            return
        found = dset.read_ragged()
        assert np.diff(found.offsets).tolist() == [len(value) for value in values]
        assert plain(found.tolist()) == expected
        for window in windows:
            assert plain(dset.read_ragged(window).tolist()) == expected[window]
        if "structures" not in name:
            # Missing text differs from empty text.
            assert found.tolist() == values


def test_byte_order_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        library.write(file, "d", KINDS["rows, big-endian"], [[[1, -2], []], [], [[3]]])
    inner = hs.open(path)["d"].read_ragged().values
    assert inner.values.dtype == np.dtype(">i4")
    assert inner.offsets.tolist() == [0, 2, 2, 3]
    assert hs.open(path)["d"][0][0].dtype == np.dtype(">i4")


def test_very_many(tmp_path: Path) -> None:
    """200 000 inner sequences, most of them tiny."""
    path, rng = tmp_path / "a.h5", random.Random(5)
    kind = Sequence(Sequence(Number("<i4"), (0, 1, 1, 2)), (90, 110))
    values = [kind.made(rng) for _ in range(2000)]
    with h5py.File(path, "w") as file:
        library.write(file, "d", kind, values)
    found = hs.open(path)["d"].read_ragged()
    assert found.tolist() == values
    assert len(found.values) > 190_000


# ------------------------------------------------------------------------------------------- damage

VALUES = [[[1, 2], [3, 4, 5]], [[6]], [[7, 8, 9, 10], [], [11]]]


def damaged(path: Path, **inner: int) -> hs.Array:
    """Returns a dataset whose last cell has a damaged first item.

    `inner` sets the item's length, address or index. By default they equal the enclosing
    sequence's.
    """
    with h5py.File(path, "w") as file:
        library.write(file, "d", Sequence(ROWS), VALUES)
        at = file["d"].id.get_offset()
    content = bytearray(path.read_bytes())
    length, heap, index = struct.unpack_from("<IQI", content, at + 2 * 16)
    held = object_at(content, heap, index)
    own = {"length": length, "address": heap, "index": index} | inner
    struct.pack_into("<IQI", content, held, own["length"], own["address"], own["index"])
    path.write_bytes(content)
    dset = hs.open(path)["d"]
    assert isinstance(dset, hs.Array)
    return dset


def object_at(content: bytes, heap: int, index: int) -> int:
    """Returns the offset of an object's bytes in a collection."""
    at = heap + 16
    while (found := int.from_bytes(content[at : at + 2], "little")) != index:
        assert found, f"there is no object {index}"
        at += 16 + (int.from_bytes(content[at + 8 : at + 16], "little") + 7) // 8 * 8
    return at + 16


READS: dict[str, Callable[[Any], Any]] = {
    "values": lambda dset: dset[...],
    "one": lambda dset: dset[2],
    "ragged": lambda dset: dset.read_ragged().tolist(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_sequences_that_hold_themselves(tmp_path: Path, read: Callable[[Any], Any]) -> None:
    """A loop ends with the nested type: its items are the object's bytes. The library agrees."""
    dset = damaged(tmp_path / "a.h5", length=3 * 16 // 4)
    with h5py.File(tmp_path / "a.h5") as file:
        expected = library.read(file, "d", Sequence(ROWS))
    assert expected[2][0][:1] == [12] and expected[2][1:] == VALUES[2][1:]
    found = plain(read(dset))
    assert found in (expected, expected[2])


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize(
    ("inner", "what"),
    [
        ({"length": 13}, "13 elements of 4 bytes"),
        ({"length": 2**32 - 1}, "4294967295 elements of 4 bytes"),
        ({"index": 0}, "no object 0"),
        ({"index": 77}, "no object 77"),
        ({"address": 1 << 40}, "the file has only"),
    ],
    ids=str,
)
def test_damaged_inner_ids(tmp_path: Path, inner: dict[str, int], what: str, way: str) -> None:
    with pytest.raises(hs.errors.HyperslabError, match=what) as caught:
        READS[way](damaged(tmp_path / "a.h5", **inner))
    # The error counts only the selected elements.
    cell = 0 if way == "one" else 2
    where = rf"'/d': element {cell}, item 0, global heap collection at address \d+: "
    assert re.search(where, str(caught.value))


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_loops_ask_for_no_memory(tmp_path: Path, depth: int) -> None:
    """Each of 3000 items contains all 3000 again. Every level multiplies their number by 3000."""
    path, count = tmp_path / "a.h5", 3000
    kind: Kind = Sequence(ROWS)
    for _ in range(depth - 1):
        kind = Sequence(kind)
    with h5py.File(path, "w") as file:
        library.write(file, "d", kind, [[[]] * count])
        at = file["d"].id.get_offset()
    content = bytearray(path.read_bytes())
    own = bytes(content[at : at + 16])
    _, heap, index = struct.unpack("<IQI", own)
    held = object_at(content, heap, index)
    content[held : held + count * 16] = own * count
    path.write_bytes(content)
    with pytest.raises(hs.errors.HyperslabError, match=r"'/d'.* have \d+ bytes, more than 1024 times"):
        hs.open(path)["d"].read_ragged()
    with pytest.raises(hs.errors.HyperslabError, match=r"'/d'.* have \d+ bytes, more than 1024 times"):
        hs.open(path)["d"][...]
