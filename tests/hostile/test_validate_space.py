"""References in elements, and the space of HDF5 files: faults are named, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples, scratch

LIBVERS = ("earliest", "latest")


def kinds(path: Path, **options: Any) -> list[tuple[str, str]]:
    report = hs.validate(path, **options)
    assert not report.unreached
    return [(found.kind, found.path) for found in report]


@settings(max_examples=examples(25), deadline=None)
@given(
    libver=st.sampled_from(LIBVERS),
    chunks=st.sampled_from([None, (3,), (7,)]),
    compound=st.booleans(),
    broken=st.sets(st.integers(0, 9), max_size=4),
    region=st.booleans(),
)
def test_references_in_elements(
    libver: str, chunks: tuple[int] | None, compound: bool, broken: set[int], region: bool
) -> None:
    """References to objects and regions in datasets: those that lead nowhere are counted."""
    with scratch() as root:
        path = root / "a.h5"
        with h5py.File(path, "w", libver=libver) as file:
            target = file.create_dataset("target", data=np.arange(20), maxshape=(None,), chunks=(5,))
            kind = h5py.regionref_dtype if region else h5py.ref_dtype
            dtype = np.dtype([("n", "i4"), ("ref", kind)]) if compound else np.dtype(kind)
            refs = file.create_dataset("refs", shape=(12,), dtype=dtype, chunks=chunks)
            for number in range(10):
                if region:
                    # Regions beyond element 10 are cut off below.
                    start = 12 if number in broken else 3
                    one: Any = target.regionref[start : start + 4]
                elif number in broken:
                    gone = file.create_group(f"gone{number}")
                    one = gone.ref
                    del file[f"gone{number}"]
                else:
                    one = target.ref
                refs[number] = (number, one) if compound else one
            if region:
                target.resize((10,))
        found = hs.validate(path, decode=True)
        assert [(each.kind, each.path) for each in found] == [("dangling-reference", "/refs")] * bool(broken)
        for each in found:
            assert each.severity == "warning"
            first = f"element {min(broken)}"
            assert (f"{len(broken)} references" in each.found or len(broken) == 1) and first in each.found


@pytest.mark.parametrize("libver", LIBVERS)
def test_references_in_attributes_and_sequences(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["d"] = np.arange(4)
        gone = file.create_group("gone")
        lists = file.create_dataset("lists", shape=(3,), dtype=h5py.vlen_dtype(h5py.ref_dtype))
        lists[0] = np.array([file["d"].ref], dtype=h5py.ref_dtype)
        lists[2] = np.array([file["d"].ref, gone.ref], dtype=h5py.ref_dtype)
        file["d"].attrs["both"] = np.array([file["d"].ref, gone.ref], dtype=h5py.ref_dtype)
        file["d"].attrs["fine"] = file["lists"].ref
        del file["gone"]
    assert sorted(kinds(path)) == [("dangling-reference", "/d"), ("dangling-reference", "/lists")]
    found = {each.path: each.found for each in hs.validate(path)}
    assert "in attribute 'both' (element 1)" in found["/d"]
    assert "element 2" in found["/lists"]


@pytest.mark.parametrize("libver", LIBVERS)
def test_types_without_a_name_are_no_lost_objects(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["type"] = np.dtype([("x", "f4")])
        d = file.create_dataset("d", shape=(2,), dtype=file["type"])
        file["ref"] = np.array([file["type"].ref, d.ref], dtype=h5py.ref_dtype)
        del file["type"]
    assert kinds(path, decode=True) == []


@pytest.mark.parametrize("libver", LIBVERS)
def test_unreferenced_space(tmp_path: Path, libver: str) -> None:
    """Space of deleted datasets is a note, until the file is compacted."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["big"] = np.ones(400_000, "u1")
        file["small"] = np.arange(20_000)
    assert kinds(path) == []
    with h5py.File(path, "a", libver=libver) as file:
        del file["big"]
    [found] = hs.validate(path)
    assert (found.kind, found.severity, found.path) == ("dead-space", "note", "/")
    assert int(found.found.split()[0]) >= 400_000
    assert int(found.found.split()[2]) == path.stat().st_size
    assert "compact" in found.advice
    hs.compact(path)
    assert kinds(path) == []


def test_free_space_lists_are_known_space(tmp_path: Path) -> None:
    """Bytes in the lists that the library keeps are not lost."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", fs_strategy="fsm", fs_persist=True) as file:
        file["big"] = np.ones(400_000, "u1")
        file["small"] = np.arange(20_000)
    with h5py.File(path, "a") as file:
        del file["big"]
    assert kinds(path) == []


def test_lists_of_hyperslab_are_known_space(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        file["big"] = np.ones(400_000, "u1")
        file["small"] = np.arange(20_000)
    with hs.File(path, "r+") as file:
        del file["big"]
    assert kinds(path) == []


@settings(max_examples=examples(25), deadline=None)
@given(
    libver=st.sampled_from(LIBVERS),
    groups=st.integers(1, 30),
    attributes=st.integers(0, 20),
    texts=st.integers(0, 3000),
    track=st.booleans(),
)
def test_whole_files_have_no_lost_space(
    libver: str, groups: int, attributes: int, texts: int, track: bool
) -> None:
    """All structures and heaps of a file that was written once are known."""
    with scratch() as root:
        path = root / "a.h5"
        with h5py.File(path, "w", libver=libver, track_order=track) as file:
            for number in range(groups):
                group = file.create_group(f"g{number}", track_order=track)
                for index in range(attributes):
                    group.attrs[f"a{index}"] = np.arange(40)
                group.create_dataset("d", data=np.arange(300), chunks=(7,), maxshape=(None,))
            file.create_dataset(
                "text", data=["x" * (n % 50) for n in range(texts)], dtype=h5py.string_dtype()
            )
        assert kinds(path, decode=True) == []


def test_elements_over_a_structure(tmp_path: Path) -> None:
    """A dataset whose elements are at the place of an index."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        a = file.create_dataset("a", data=np.arange(64, dtype="i8"))
        file.create_dataset("b", data=np.arange(64, dtype="i8"), chunks=(4,), maxshape=(None,))
        place = a.id.get_offset()
    data = path.read_bytes()
    index = data.index(b"TREE\x01")
    message = place.to_bytes(8, "little") + (512).to_bytes(8, "little")
    assert data.count(message) == 1
    path.write_bytes(data.replace(message, index.to_bytes(8, "little") + message[8:]))
    report = hs.validate(path)
    found = [(found.kind, found.path) for found in report.errors]
    assert ("overlap", "/a") in found and {kind for kind, _ in found} == {"overlap"}
    assert any("version 1 B-tree node of '/b'" in found.found for found in report.errors)
