"""Elements of variable length in HDF5: values against the written ones, counts of reads, damage."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hdf5_files import new_file
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch
from test_syscalls import strace

STRUCT = np.dtype([("a", "<i4"), ("b", "<f4"), ("c", "<i4")])
ITEMS = ["<i4", ">i2", "|u1", "<f8", ">f4", STRUCT]

#: Lengths of elements: as applications have them, and as they break readers.
LENGTHS: dict[str, Callable[[random.Random], int]] = {
    "tiny": lambda rng: rng.randint(0, 3),
    "empty": lambda rng: 0,
    "same": lambda rng: 5,
    "mixed": lambda rng: rng.choice([0, 1, 7, 100]),
    # "large" exceeds the smallest collection. "huge" exceeds the largest collection of many
    # objects.
    "large": lambda rng: 3000 if rng.random() < 0.05 else rng.randint(0, 4),
    "huge": lambda rng: 70_000 if rng.random() < 0.05 else rng.randint(0, 4),
}


def rows(seed: int, count: int, dtype: Any, lengths: str) -> list[np.ndarray[Any, Any]]:
    rng, dtype = random.Random(seed), np.dtype(dtype)
    made = []
    for _ in range(count):
        n = LENGTHS[lengths](rng)
        bits = np.frombuffer(rng.randbytes(n * dtype.itemsize), "u1") & 0x3F
        made.append(bits.view(dtype))
    return made


def texts(seed: int, count: int, lengths: str) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abcä水 ", k=LENGTHS[lengths](rng))) for _ in range(count)]


def fill_in(dataset: h5py.Dataset, values: list[Any], order: list[int]) -> None:
    """Writes elements one by one: the heap has their order, and rows of one length stay rows."""
    for number in order:
        dataset[number] = values[number]


def replaced(path: Path, seed: int, values: list[Any], new: Callable[[int], Any]) -> list[Any]:
    """Rewrites some elements after the file was closed, some of them more than once.

    Objects of the heap are freed, and their indices are used again.
    """
    rng, values = random.Random(seed), list(values)
    with h5py.File(path, "r+") as file:
        for n in rng.choices(range(len(values)), k=len(values)):
            values[n] = new(rng.randrange(10**6))
            file["d"][n] = values[n]
    return values


storages = st.sampled_from(["contiguous", "chunked", "gzip"])


def layout(storage: str, count: int) -> dict[str, Any]:
    if storage == "contiguous" or count == 0:
        return {}
    filters = {"compression": "gzip", "shuffle": True} if storage == "gzip" else {}
    return {"chunks": (max(1, count // 3),), **filters}


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 60),
    item=st.sampled_from(ITEMS),
    lengths=st.sampled_from(sorted(LENGTHS)),
    storage=storages,
    libver=st.sampled_from(["earliest", "latest"]),
    offsets=st.sampled_from([4, 8]),
    shuffled=st.booleans(),
    again=st.booleans(),
)
@settings(max_examples=examples(120))
def test_rows(
    seed: int,
    count: int,
    item: Any,
    lengths: str,
    storage: str,
    libver: str,
    offsets: int,
    shuffled: bool,
    again: bool,
) -> None:
    values, rng = rows(seed, count, item, lengths), random.Random(seed)
    order = list(range(count))
    if shuffled:
        rng.shuffle(order)
    # Some elements are never written: they are null.
    unwritten = set(order[: count // 8]) if rng.random() < 0.3 else set()
    with scratch() as root:
        with new_file(root / "a.h5", libver, offsets) as file:
            dataset = file.create_dataset(
                "d", (count,), h5py.vlen_dtype(np.dtype(item)), **layout(storage, count)
            )
            fill_in(dataset, values, [n for n in order if n not in unwritten])
        expected = [value[:0] if n in unwritten else value for n, value in enumerate(values)]
        if again:
            expected = replaced(
                root / "a.h5",
                seed,
                expected,
                lambda seed: rows(seed, 1, item, rng.choice(sorted(LENGTHS)))[0],
            )
            unwritten = {n for n in unwritten if not len(expected[n])}
        dset = hs.open(root / "a.h5")["d"]
        ragged = dset.read_ragged()
        lens = [len(value) for value in expected]
        assert ragged.offsets.tolist() == np.cumsum([0, *lens]).tolist()
        assert ragged.values.dtype == np.dtype(item)
        assert ragged.values.tobytes() == b"".join(value.tobytes() for value in expected)
        if unwritten and ragged.validity is not None:
            assert set(np.flatnonzero(~ragged.validity).tolist()) >= unwritten
        for found, row in zip(dset[...], expected, strict=True):
            assert found.dtype == row.dtype
            assert found.tobytes() == row.tobytes()
        for _ in range(3):
            start, stop = sorted((rng.randint(0, count), rng.randint(0, count)))
            step = rng.choice([1, 2, -1])
            window = slice(start, stop, step) if step > 0 else slice(stop, start or None, step)
            part = dset.read_ragged(window)
            assert [row.tobytes() for row in part] == [row.tobytes() for row in expected[window]]
        if count:
            for n in (0, count - 1, rng.randrange(count)):
                assert dset[n].tobytes() == expected[n].tobytes()
            picked = sorted(rng.sample(range(count), min(count, 5)))
            assert [row.tobytes() for row in dset.read_ragged(picked)] == [
                expected[n].tobytes() for n in picked
            ]


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(0, 80),
    lengths=st.sampled_from(sorted(LENGTHS)),
    storage=storages,
    charset=st.sampled_from(["utf-8", "ascii"]),
    offsets=st.sampled_from([4, 8]),
    shuffled=st.booleans(),
    again=st.booleans(),
)
@settings(max_examples=examples(80))
def test_texts(
    seed: int,
    count: int,
    lengths: str,
    storage: str,
    charset: str,
    offsets: int,
    shuffled: bool,
    again: bool,
) -> None:
    def made(seed: int, count: int, lengths: str) -> list[str]:
        encode = "ascii" if charset == "ascii" else "utf-8"
        return [value.encode(encode, "replace").decode() for value in texts(seed, count, lengths)]

    values = made(seed, count, lengths)
    order = list(range(count))
    if shuffled:
        random.Random(seed).shuffle(order)
    with scratch() as root:
        with new_file(root / "a.h5", "earliest", offsets) as file:
            dataset = file.create_dataset("d", (count,), h5py.string_dtype(charset), **layout(storage, count))
            fill_in(dataset, values, order)
        if again:
            values = replaced(root / "a.h5", seed, values, lambda seed: made(seed, 1, "mixed")[0])
        dset = hs.open(root / "a.h5")["d"]
        with h5py.File(root / "a.h5") as file:
            theirs = file["d"][...]
            assert dset[...].tolist() == theirs.tolist() == [value.encode() for value in values]
            assert dset.asstr()[...].tolist() == values
            wide = dset.astype("T")[...]
            assert wide.dtype == np.dtypes.StringDType()
            assert wide.tolist() == values
        assert dset.read_ragged().tolist() == values
        if count:
            n = random.Random(seed).randrange(count)
            assert dset[n] == values[n].encode()
            assert dset.asstr()[n] == values[n]


def test_very_many(tmp_path: Path) -> None:
    """Some hundred thousand tiny elements, which are more than one batch."""
    path, count = tmp_path / "a.h5", 600_000
    numbers = np.random.default_rng(3).integers(0, 1 << 20, count)
    with h5py.File(path, "w") as file:
        values = [f"{number:x}" if number % 7 else "" for number in numbers.tolist()]
        file.create_dataset("texts", data=values, dtype=h5py.string_dtype())
        made = np.empty(count // 2, object)
        made[:] = np.split(numbers.astype("<i4"), np.cumsum(numbers[1 : count // 2] % 4))
        file.create_dataset(
            "rows", data=made, dtype=h5py.vlen_dtype("<i4"), chunks=(10_000,), compression="gzip"
        )
    file = hs.open(path)
    assert file["texts"].read_ragged().tolist() == values
    assert file["texts"].asstr()[...].tolist() == values
    found = file["rows"].read_ragged()
    assert np.diff(found.offsets).tolist() == [len(row) for row in made]
    assert np.array_equal(found.values, np.concatenate(made))
    with h5py.File(path) as theirs:
        for part in (slice(0, 1000), slice(299_000, None), slice(None, None, 997)):
            assert file["texts"][part].tolist() == theirs["texts"][part].tolist()
            for ours, row in zip(file["rows"][part], theirs["rows"][part], strict=True):
                assert np.array_equal(ours, row)


def test_freed_objects(tmp_path: Path) -> None:
    """A collection whose indices have gaps, because objects in its middle were freed."""
    path, values = tmp_path / "a.h5", rows(1, 300, "<i4", "same")
    with h5py.File(path, "w") as file:
        fill_in(file.create_dataset("d", (300,), h5py.vlen_dtype("<i4")), values, list(range(300)))
    values = replaced(path, 5, values, lambda seed: rows(seed, 1, "<i4", "mixed")[0])
    with h5py.File(path) as file:
        offset = file["d"].id.get_offset()
        ids = [struct.unpack_from("<IQI", path.read_bytes(), offset + 16 * n) for n in range(300)]
        theirs = [row.tolist() for row in file["d"][...]]
    ((heap, _),) = heap_of(path.read_bytes())
    indices = {index for length, at, index in ids if length and at == heap}
    assert len(indices) < max(indices) - 20
    expected = [row.tolist() for row in values]
    assert hs.open(path)["d"].read_ragged().tolist() == expected == theirs
    dset = hs.open(path)["d"]
    assert [dset[n].tolist() for n in range(300)] == expected


def test_members_and_attributes(tmp_path: Path) -> None:
    """Members of structures, and attributes."""
    named = np.dtype([("id", "<i4"), ("name", h5py.string_dtype()), ("list", h5py.vlen_dtype("<u2"))])
    ids, names = list(range(200)), texts(5, 200, "mixed")
    lists = rows(6, 200, "<u2", "mixed")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = np.empty(200, named)
        values["id"], values["name"] = ids, names
        for n in range(200):
            values["list"][n] = lists[n]
        file.create_dataset("members", data=values, chunks=(64,), compression="gzip")
        file.attrs["one"] = names[3]
        file.attrs.create("many", names[:50], dtype=h5py.string_dtype())
        attribute = np.empty(50, object)
        attribute[:] = [np.asarray(row) for row in lists[:50]]
        file.attrs.create("rows", attribute, dtype=h5py.vlen_dtype("<u2"))
    file = hs.open(tmp_path / "a.h5")
    found = file["members"][...]
    assert found["id"].tolist() == ids
    assert [name.decode() for name in found["name"]] == names
    assert [row.tolist() for row in found["list"]] == [row.tolist() for row in lists]
    few = file["members"][10:190:7]
    assert [name.decode() for name in few["name"]] == names[10:190:7]
    assert file.attrs["one"] == names[3]
    assert list(file.attrs["many"]) == names[:50]
    assert [row.tolist() for row in file.attrs["rows"]] == [row.tolist() for row in lists[:50]]


def test_many_share_one_object(tmp_path: Path) -> None:
    """Two cells may have one heap id. The test copies ids in the file."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("d", (10,), h5py.vlen_dtype("<i4"))
        fill_in(dataset, rows(1, 10, "<i4", "same"), list(range(10)))
        offset = dataset.id.get_offset()
    content = bytearray(path.read_bytes())
    for n in range(1, 10, 2):
        content[offset + 16 * n : offset + 16 * n + 16] = content[offset : offset + 16]
    path.write_bytes(content)
    with h5py.File(path) as file:
        expected = [row.tolist() for row in file["d"][...]]
    assert [row.tolist() for row in hs.open(path)["d"].read_ragged()] == expected


def heap_of(content: bytes) -> list[tuple[int, int]]:
    """Returns the address and size of each collection."""
    found = [match.start() for match in re.finditer(b"GCOL\x01\0\0\0", content)]
    return [(at, int.from_bytes(content[at + 8 : at + 16], "little")) for at in found]


# ---- counts

TRACED = """
import os, sys
import hyperslab as hs
path, what = sys.argv[1], sys.argv[2]
dset = hs.open(path)["d"]
if "warm" in what:
    dset.read_ragged()
elif "open" not in what:
    dset.read_ragged(slice(0, 1))
os.path.exists("/hyperslab-mark-begin")
if "one" in what:
    n = int(sys.argv[3])
    dset.read_ragged(slice(n, n + 1))
else:
    dset.read_ragged()
os.path.exists("/hyperslab-mark-end")
"""


def reads(trace: Path, path: Path, what: str, cell: int = 0) -> tuple[int, int]:
    """Returns the number of calls that read the file, and their bytes.

    ``one`` reads the given cell.
    """
    count, total, counting = 0, 0, False
    for line in strace(trace, "file,desc", TRACED, str(path), what, str(cell)):
        if "/hyperslab-mark-begin" in line:
            counting = True
        elif "/hyperslab-mark-end" in line:
            break
        elif counting and (found := re.match(r"(pread64|preadv|read|readv)\(.*= (\d+)$", line)):
            count += 1
            total += int(found[2])
    return count, total


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_reads_of_a_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSLAB_THREADS", "1")
    path, count = tmp_path / "a.h5", 20_000
    values = rows(3, count, "<i4", "mixed")
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("d", (count,), h5py.vlen_dtype("<i4"))
        made = np.empty(count, object)
        made[:] = values
        dataset[...] = made
    heap = sum(value.nbytes for value in values)
    # Everything is read in long reads, with hardly more bytes than there are.
    calls, total = reads(tmp_path / "all", path, "all")
    size = os.path.getsize(path)
    assert total <= size * 1.1
    assert calls <= 4 + total // (128 << 10), (calls, total, heap)
    # One cell of a large heap takes its id and its collection.
    calls, total = reads(tmp_path / "one", path, "one", count // 2)
    assert calls <= 3
    assert total <= 80 << 10
    # Once more: parsed collections are kept (for a heap of this size), so only ids are read.
    calls, _ = reads(tmp_path / "again", path, "one warm", count // 2)
    assert calls <= 2


def spread(path: Path, dataset: str, gap: int, huge: bool) -> list[int]:
    """Moves the collections of a file apart, so that the file has holes.

    If ``huge``, each hole is a collection of one object, which becomes a cell. Returns these cells.
    """
    with h5py.File(path) as file:
        ids, cells = file[dataset].id.get_offset(), file[dataset].shape[0]
    content = bytearray(path.read_bytes())
    collections, end = heap_of(bytes(content)), -(-len(content) // 4096) * 4096
    moved, chosen = {}, []
    with path.open("r+b") as stream:
        for number, (at, size) in enumerate(collections):
            moved[at] = end + gap
            if huge:
                header = struct.pack("<4sIQHHIQ", b"GCOL", 1, gap, 1, 1, 0, gap - 32)
                stream.seek(end)
                stream.write(header + number.to_bytes(4, "little"))
                stream.seek(end + gap - 4)
                stream.write(number.to_bytes(4, "little"))
                chosen.append(number * (cells // len(collections)) + 1)
                struct.pack_into("<IQI", content, ids + 16 * chosen[-1], (gap - 32) // 4, end, 1)
            stream.seek(end + gap)
            stream.write(content[at : at + size])
            end += gap + size
        for n in range(cells):
            length, at, index = struct.unpack_from("<IQI", content, ids + 16 * n)
            struct.pack_into("<IQI", content, ids + 16 * n, length, moved.get(at, at), index)
        # The end of the file, as the superblock states it.
        struct.pack_into("<Q", content, 40, end)
        stream.seek(0)
        stream.write(content)
    return chosen


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("neighbours", ["huge", "holes"])
def test_one_cell_of_a_large_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, neighbours: str) -> None:
    """A heap of more than 1 GB, nearly all holes: reading one cell does not depend on its size."""
    monkeypatch.setenv("HYPERSLAB_THREADS", "1")
    path, cells, gap = tmp_path / "a.h5", 6000, 24 << 20
    made = np.empty(cells, object)
    made[:] = [np.arange(n, n + n % 250, dtype="<i4") for n in range(cells)]
    with h5py.File(path, "w", libver=("earliest", "v114")) as file:
        file.create_dataset("d", data=made, dtype=h5py.vlen_dtype("<i4"))
    huge = spread(path, "d", gap, neighbours == "huge")
    assert path.stat().st_size > 1 << 30
    small = [n for n in range(cells) if n % 250 and n not in huge]
    dset = hs.open(path)["d"]
    with h5py.File(path) as file:
        for n in [small[0], small[len(small) // 2], small[-1], *huge[-1:]]:
            assert np.array_equal(dset[n], file["d"][n])
    # The id of the cell, and its collection.
    for n in (small[len(small) // 2], small[-1]):
        calls, total = reads(tmp_path / "trace", path, "one", n)
        assert calls <= 3
        assert total <= 80 << 10
    # The id of the cell, the directory of its collection, and the object itself.
    for n in huge[-1:]:
        calls, total = reads(tmp_path / "trace", path, "one", n)
        assert calls <= 3
        assert gap <= total <= gap + (80 << 10)


# ---- damage


@pytest.mark.parametrize("kind", ["rows", "texts"])
def test_damaged_heaps(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        if kind == "rows":
            dataset = file.create_dataset("d", (12,), h5py.vlen_dtype("<i4"))
            fill_in(dataset, rows(1, 12, "<i4", "same"), list(range(12)))
        else:
            dataset = file.create_dataset("d", (12,), h5py.string_dtype())
            fill_in(dataset, texts(1, 12, "same"), list(range(12)))
        ids = dataset.id.get_offset()
    good = path.read_bytes()
    ((heap, _),) = heap_of(good)
    expected = [np.asarray(row).tolist() for row in hs.open(path)["d"].read_ragged()]
    rng = random.Random(7)
    places = [*range(ids, ids + 12 * 16), *range(heap, heap + 12 * 40)]
    errors = 0
    for at in places:
        for value in (0, 0xFF, good[at] ^ (1 << rng.randrange(8))):
            path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
            try:
                found = hs.open(path)["d"].read_ragged()
                assert len(found) == 12
                assert found.offsets[-1] == len(found.values)
                assert found.nbytes < 1 << 20
            except (OSError, ValueError) as error:
                assert isinstance(error, hs.errors.HyperslabError), repr(error)
                errors += 1
    assert errors > 100
    for cut in (heap + 8, heap + 20, heap + 100, ids + 3):
        path.write_bytes(good[:cut])
        with pytest.raises(hs.errors.HyperslabError):
            hs.open(path)["d"].read_ragged()
    path.write_bytes(good)
    assert [np.asarray(row).tolist() for row in hs.open(path)["d"].read_ragged()] == expected


def damaged(path: Path, change: Callable[[bytearray, int, int], None]) -> str:
    """Changes the heap or the ids of a file. Returns the error of reading the file."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("group/name", (12,), h5py.vlen_dtype("<i4"))
        fill_in(dataset, rows(1, 12, "<i4", "same"), list(range(12)))
        ids = dataset.id.get_offset()
    content = bytearray(path.read_bytes())
    ((heap, _),) = heap_of(bytes(content))
    change(content, ids, heap)
    path.write_bytes(content)
    with pytest.raises(hs.errors.HyperslabError) as caught:
        hs.open(path)["group/name"].read_ragged()
    return str(caught.value)


def test_errors_name_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_group("group").attrs["names"] = np.array(["Ada", "Grace"], object)
    content = path.read_bytes()
    ((heap, _),) = heap_of(content)
    # Ids are adjacent: length, address, index.
    one = b"[\x01-\x08]\0\0\0" + re.escape(struct.pack("<Q", heap)) + b"[\x01-\x08]\0\0\0"
    (ids,) = re.finditer(one * 2, content, re.DOTALL)
    path.write_bytes(content[: ids.end() - 4] + struct.pack("<I", 7) + content[ids.end() :])
    group = hs.open(path)["group"]
    where = f"attribute 'names': element 1, global heap collection at address {heap}: "
    with pytest.raises(hs.errors.HyperslabError, match=where + "the collection has no object 7"):
        group.attrs["names"]


def test_errors_name_dataset_cell_and_collection(tmp_path: Path) -> None:
    def put(content: bytearray, at: int, value: int, size: int) -> None:
        content[at : at + size] = value.to_bytes(size, "little")

    def third(content: bytearray, ids: int, heap: int, **fields: int) -> None:
        """Changes length, address or index of the third id."""
        for name, (at, size) in {"length": (0, 4), "address": (4, 8), "index": (12, 4)}.items():
            if name in fields:
                put(content, ids + 2 * 16 + at, fields[name], size)

    cases: dict[str, Callable[[bytearray, int, int], None]] = {
        "no such object": lambda c, ids, heap: third(c, ids, heap, index=77),
        "index 0": lambda c, ids, heap: third(c, ids, heap, index=0),
        "past the object": lambda c, ids, heap: third(c, ids, heap, length=6),
        "overflow": lambda c, ids, heap: third(c, ids, heap, length=2**32 - 1),
        "past the file": lambda c, ids, heap: third(c, ids, heap, address=1 << 40),
        "not a heap": lambda c, ids, heap: third(c, ids, heap, address=heap + 8),
    }
    for what, change in cases.items():
        message = damaged(tmp_path / "a.h5", change)
        assert "group/name" in message, f"{what}: {message}"
        assert re.search(r"(element|cell) 2\b", message), f"{what}: {message}"
        assert re.search(r"collection at (address )?\d+", message), f"{what}: {message}"
    # Damage that concerns the whole collection.
    for what, change in {
        "longer than the file": lambda c, ids, heap: put(c, heap + 8, 1 << 40, 8),
        "an object past its end": lambda c, ids, heap: put(c, heap + 16 + 8, 1 << 30, 8),
        # The free space begins in the middle.
        "index 0 in the middle": lambda c, ids, heap: put(c, heap + 16 + 2 * 40, 0, 2),
        "no bytes": lambda c, ids, heap: put(c, heap + 8, 0, 8),
    }.items():
        message = damaged(tmp_path / "a.h5", change)
        assert "group/name" in message, f"{what}: {message}"
        assert re.search(r"element \d+\b", message), f"{what}: {message}"
        assert re.search(r"collection at (address )?\d+", message), f"{what}: {message}"
