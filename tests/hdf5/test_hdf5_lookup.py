"""One of many chunks, and one of many attributes: only the way to it is read."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
import pytest
from test_syscalls import strace

#: Number of chunks, each of 2 elements.
CHUNKS = 100_000

#: The kinds of chunk indexes: version of the library, filters, largest shape.
INDEXES = {
    "b-tree 1": ("earliest", {}, (None,)),
    "b-tree 1 filtered": ("earliest", {"fletcher32": True}, (None,)),
    "b-tree 2": ("latest", {}, (None, None)),
    "b-tree 2 filtered": ("latest", {"fletcher32": True}, (None, None)),
    "fixed array": ("latest", {}, None),
    "fixed array filtered": ("latest", {"fletcher32": True}, None),
    "extensible array": ("latest", {}, (None,)),
    "extensible array filtered": ("latest", {"fletcher32": True}, (None,)),
}

READS = """
import os, sys
import hyperslab as hs
d = hs.open(sys.argv[1])["d"]
places = eval(sys.argv[2])
os.path.exists("/hyperslab-mark-begin")
found = [d[place] for place in places]
os.path.exists("/hyperslab-mark-end")
"""


def bytes_read(trace: Path, program: str, *arguments: str) -> int:
    """Returns how many bytes the program reads between its marks."""
    total, counting = 0, False
    for line in strace(trace, "file,desc", program, *arguments):
        if "/hyperslab-mark-begin" in line:
            counting = True
        elif "/hyperslab-mark-end" in line:
            break
        elif counting and (found := re.match(r".*?(pread64|preadv2?|read|readv)\(.*= (\d+)$", line)):
            total += int(found[2])
    return total


def make_chunks(path: Path, kind: str) -> tuple[int, ...]:
    """Writes a dataset of many chunks whose values count up. Returns its shape."""
    libver, filters, maxshape = INDEXES[kind]
    shape: tuple[int, ...] = (2 * CHUNKS,)
    chunks: tuple[int, ...] = (2,)
    if maxshape is not None and len(maxshape) == 2:
        shape, chunks = (2, CHUNKS), (2, 1)
    with h5py.File(path, "w", libver=libver) as file:
        data = np.arange(2 * CHUNKS, dtype="<i4").reshape(shape)
        file.create_dataset("d", data=data, chunks=chunks, maxshape=maxshape, **filters)
    return shape


def many_places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    numbers = np.random.default_rng(5).integers(0, 2 * CHUNKS, 12).tolist()
    return [tuple(int(n) for n in np.unravel_index(n, shape)) for n in [0, 2 * CHUNKS - 1, *numbers]]


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("kind", INDEXES)
def test_one_of_many_chunks(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSLAB_THREADS", "1")
    path = tmp_path / "a.h5"
    shape = make_chunks(path, kind)
    with h5py.File(path) as judge, hs.open(path) as file:
        for place in many_places(shape):
            assert file["d"][place] == judge["d"][place]
    # A page of 64 KiB for each level of a tree or block of an array.
    middle = tuple(n // 2 for n in shape)
    one = bytes_read(tmp_path / "one", READS, str(path), repr([middle]))
    assert 0 < one <= 6 * (64 << 10)
    # Few more for others. Each node is near others of its level.
    some = bytes_read(tmp_path / "some", READS, str(path), repr(many_places(shape)))
    assert some <= 24 * (64 << 10)
    # Whole reads load the index once. An element of the index has 8 to 40 bytes, and chunks may lie
    # between its nodes.
    everything = bytes_read(tmp_path / "all", READS, str(path), "[()]")
    assert 8 * CHUNKS <= everything <= 1.5 * os.path.getsize(path)


@pytest.mark.parametrize("kind", INDEXES)
def test_absent_chunks(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.h5"
    libver, filters, maxshape = INDEXES[kind]
    two = maxshape is not None and len(maxshape) == 2
    shape = (3, 1 << 20) if two else (1 << 20,)
    with h5py.File(path, "w", libver=libver) as file:
        d = file.create_dataset(
            "d", shape, "<i4", chunks=(1,) * len(shape), maxshape=maxshape, fillvalue=9, **filters
        )
        for n in (5, 300_000, 900_001):
            d[(1, n) if two else (n,)] = n
    with hs.open(path) as file, h5py.File(path) as judge:
        for n in (0, 4, 5, 6, 299_999, 300_000, 300_001, 900_001, (1 << 20) - 1):
            for row in range(3) if two else (None,):
                place = (n,) if row is None else (row, n)
                assert file["d"][place] == judge["d"][place], place
        # After many lookups the index is read.
        whole = file["d"][...]
        assert whole.shape == shape
        # h5py takes milliseconds and 4 KiB of memory for each chunk of a selection.
        for start in (0, 299_000, 900_000, (1 << 20) - 5000):
            part = np.s_[..., start : start + 5000]
            assert np.array_equal(whole[part], judge["d"][part])
        assert np.count_nonzero(whole != 9) == 3
        assert file["d"][(1, 5) if two else (5,)] == 5


ATTRIBUTE = """
import os, sys
import hyperslab as hs
file = hs.open(sys.argv[1])
node = file[sys.argv[2]]
os.path.exists("/hyperslab-mark-begin")
if sys.argv[3] == "value":
    assert node.attrs["n123"] == 123
elif sys.argv[3] == "absent":
    assert "nothing" not in node.attrs
elif sys.argv[3] == "present":
    assert "n123" in node.attrs
else:
    assert len(node.attrs) == 20_000
os.path.exists("/hyperslab-mark-end")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("node", ["/", "d"])
@pytest.mark.parametrize("tracked", [False, True])
def test_one_of_many_attributes(tmp_path: Path, node: str, tracked: bool) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest", track_order=tracked) as file:
        file.create_dataset("d", data=[1, 2], track_order=tracked)
        for n in range(20_000):
            file[node].attrs[f"n{n}"] = n
    read = {
        what: bytes_read(tmp_path / what, ATTRIBUTE, str(path), node, what)
        for what in ("value", "present", "absent", "all")
    }
    # Nodes of the B-tree of names, and blocks of the heap.
    assert max(read["value"], read["present"], read["absent"]) <= 8 * (64 << 10), read
    assert read["all"] > 1 << 20, read


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_by_name(tmp_path: Path, count: int, tracked: bool, libver: str) -> None:
    """Few attributes are in the header, many in a heap. Their names are found one by one."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, track_order=tracked) as file:
        group = file.create_group("g", track_order=tracked)
        for n in range(count):
            group.attrs[f"näme {n}" if n % 2 else f"n{n}"] = np.arange(n % 5, dtype="<i2")
        group.attrs["text"] = "größer"
        group.attrs["empty"] = h5py.Empty("f8")
    with h5py.File(path) as judge, hs.open(path) as file:
        theirs, ours = judge["g"].attrs, file["g"].attrs
        for name in [*theirs, "n", "", "näme", "n0 ", "N0", "\ud800", "n\\x00"]:
            assert (name in ours) == (name in list(theirs)), name
            if name not in list(theirs):
                with pytest.raises(KeyError, match="can't locate attribute"):
                    ours[name]
                assert ours.get(name) is None
                continue
            found, expected = ours[name], theirs[name]
            if isinstance(expected, h5py.Empty):
                assert found.dtype == expected.dtype
            else:
                assert np.array_equal(found, expected) and type(found) is type(expected)
        assert list(ours) == list(theirs)
        assert "n0" in ours and "n" not in ours


def test_names_of_attributes_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for n in range(50):
            file.attrs[f"n{n}"] = n
    with hs.open(path) as file:
        assert file.attrs["n7"] == 7
        assert b"n8" in file.attrs and file.attrs[b"n8"] == 8
        assert 7 not in file.attrs
