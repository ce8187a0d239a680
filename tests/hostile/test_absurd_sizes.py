"""Arrays whose metadata claims far more than is stored: the cost depends on the stored amount."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

SHAPES: dict[str, dict[str, Any]] = {
    "2^62 chunks": {"shape": (1 << 62,), "chunks": (1,)},
    "10^9 chunks": {"shape": (10**9,), "chunks": (1,)},
    "2^40, chunks of 1000": {"shape": (1 << 40,), "chunks": (1000,)},
    "64 axes of 2": {"shape": (2,) * 64, "chunks": (1,) * 64},
    "63 axes of 2": {"shape": (2,) * 63, "chunks": (1,) * 63},
    "63 axes of 2^62": {"shape": (1 << 62,) * 63, "chunks": (1,) * 63},
    "shards": {"shape": (1 << 62,), "chunks": (1,), "shards": (4096,)},
}


@pytest.fixture(params=list(SHAPES))
def sparse(request: pytest.FixtureRequest, tmp_path: Path) -> hs.Array:
    """Returns an array with one stored chunk (or shard), at its end."""
    array = hs.create_array(tmp_path / "a", dtype="u1", **SHAPES[request.param])
    array[tuple(n - 1 for n in array.shape)] = 7
    return array


def last(array: hs.Array) -> int:
    return int(array[tuple(n - 1 for n in array.shape)])


def test_facts(sparse: hs.Array) -> None:
    assert sparse.nchunks_initialized == (4096 if sparse.shards else 1)
    assert sparse.nbytes_stored() > 0
    assert " of " in repr(sparse.info_complete())
    assert repr(sparse) and sparse._repr_html_()
    assert "(" in repr(hs.open_group(_group_with(sparse)).tree())


def _group_with(array: hs.Array) -> Path:
    root = array.store.root.parent  # type: ignore[attr-defined]
    hs.create_group(root, overwrite=False)
    return Path(root)


def test_explain(sparse: hs.Array) -> None:
    for write in (False, True):
        told = sparse.explain(write=write)
        assert told.chunks > told.examined or sparse.shards
        assert told.examined <= 100_000
        one = sparse.explain((0,) * sparse.ndim, write=write)
        assert (one.chunks, one.examined) == (1, 1)


def test_copy(sparse: hs.Array, tmp_path: Path) -> None:
    report = hs.copy(sparse, tmp_path / "b", verify=True)
    copied = hs.open_array(tmp_path / "b")
    assert last(copied) == 7
    assert int(copied[(0,) * copied.ndim]) == 0
    assert copied.nchunks_initialized == sparse.nchunks_initialized
    assert report.stored_after == report.stored_before


def test_copy_to_larger_chunks(tmp_path: Path) -> None:
    """A chunk of the copy covers a million chunks of the source. Three of them are stored."""
    source = hs.create_array(tmp_path / "a", shape=(1 << 40,), chunks=(1,), dtype="i4", fill_value=-1)
    for at in (5, 6, (1 << 39) + 1):
        source[at] = at % 1000
    hs.copy(source, tmp_path / "b", chunks=[1_000_000], verify=True)
    copied = hs.open_array(tmp_path / "b")
    assert copied.nchunks_initialized == 2
    np.testing.assert_array_equal(copied[4:8], [-1, 5, 6, -1])
    np.testing.assert_array_equal(copied[(1 << 39) : (1 << 39) + 3], [-1, ((1 << 39) + 1) % 1000, -1])


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations([(3, 7), (5, 2), (30, 30)], 2)))
def test_copy_of_scattered_chunks(
    tmp_path: Path, rng: np.random.Generator, source: tuple[int, int], target: tuple[int, int]
) -> None:
    """Copies few stored chunks between grids that do not divide each other."""
    array = hs.create_array(tmp_path / "a", shape=(900, 801), chunks=source, dtype="i2", fill_value=9)
    expected: dict[tuple[int, int], int] = {}
    for row, column in rng.integers(0, (900, 801), size=(40, 2)).tolist():
        expected[row, column] = int(rng.integers(100, 200))
        array[row, column] = expected[row, column]
    hs.copy(array, tmp_path / "b", chunks=target, verify=True)
    copied = hs.open_array(tmp_path / "b")
    for at, value in expected.items():
        assert copied[at] == value
    np.testing.assert_array_equal(copied[:], array[:])


def test_copy_of_chunks_that_fit_no_memory(tmp_path: Path) -> None:
    """Nothing is stored, so no memory is needed."""
    source = hs.create_array(tmp_path / "a", shape=(1 << 62,), chunks=(1 << 40,), dtype="u1")
    hs.copy(source, tmp_path / "b", verify=True)
    assert hs.open_array(tmp_path / "b").nchunks_initialized == 0


def test_links_in_circles(tmp_path: Path) -> None:
    root = tmp_path / "g"
    group = hs.create_group(root)
    group.create_array("x/a", shape=(2,), dtype="i4")[:] = [1, 2]
    for name in ("one", "two"):
        os.symlink(".", root / name)
    os.symlink("x", root / "again")
    group = hs.open_group(root)
    names = [path for path, _ in group.members(max_depth=None)]
    assert sorted(names) == ["again", "again/a", "one", "two", "x", "x/a"]
    assert "again" in repr(group.tree())
    assert group.info_complete().to_dict()["No. arrays"] == 2
    assert hs.copy(root, tmp_path / "copy").arrays == 2
    np.testing.assert_array_equal(hs.open(tmp_path / "copy")["again/a"][:], [1, 2])
    group.consolidate()
    assert len(hs.open_consolidated(root).members(max_depth=None)) == 6


@pytest.fixture
def deep_path(tmp_path: Path) -> Iterator[Path]:
    """Returns a folder for deep trees of folders.

    Before Python 3.13 ``shutil.rmtree``, which pytest uses to remove old folders, fails on such
    trees, because it is recursive.
    """
    yield tmp_path
    for tree in tmp_path.iterdir():
        subprocess.run(["rm", "-rf", str(tree)], check=True)


def deep_file(path: Path, depth: int, name: str = "g") -> Path:
    """Writes an HDF5 file of nested groups. The innermost has an array ``a``."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(depth):
            group = group.create_group(name)
        group["a"] = np.arange(3)
    return path


def test_deep_hdf5_groups(deep_path: Path) -> None:
    depth = 1950
    path = deep_file(deep_path / "deep.h5", depth)
    hs.copy(path, deep_path / "deep.zarr")
    inner = "/".join(["g"] * depth) + "/a"
    np.testing.assert_array_equal(hs.open_array(deep_path / "deep.zarr", path=inner)[:], [0, 1, 2])
    assert len(hs.open_group(deep_path / "deep.zarr").members(max_depth=None)) == depth + 1
    with hs.open(path, mode="r") as file:
        members: Any = file.members(max_depth=None)
        assert len(members) == depth + 1
        name, array = members[-1]
        assert name == inner and array.name == f"/{inner}" and array[:].tolist() == [0, 1, 2]


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_copies_of_deep_groups_cost_what_they_are_deep(deep_path: Path) -> None:
    """System calls and bytes read grow with the depth, not with its square."""

    def cost(depth: int, consolidated: bool = True) -> tuple[int, int]:
        folder = deep_path / f"{depth}-{consolidated}"
        folder.mkdir()
        path, trace = deep_file(folder / "deep.h5", depth), folder / "trace"
        strace = [
            "strace",
            "-f",
            "-qq",
            "-s",
            "0",
            "-e",
            "trace=file,desc",
            "-e",
            "signal=none",
            "-o",
            str(trace),
        ]
        program = (
            f"import sys, hyperslab; hyperslab.copy(sys.argv[1], sys.argv[2], consolidated={consolidated})"
        )
        command = [*strace, sys.executable, "-c", program, str(path), str(folder / "copy.zarr")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if "ptrace" in done.stderr.lower():
            pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        lines = trace.read_text().splitlines()
        # On a busy machine more calls are interrupted, and have a second line with their result.
        calls = [line for line in lines if "resumed>" not in line]
        read = [
            re.search(r" (?:<\.\.\. )?p?read(?:64|v|v2)?(?:\(| resumed>).*= ([0-9]+)$", line)
            for line in lines
        ]
        return len(calls), sum(int(found[1]) for found in read if found)

    few, more, many = (np.array(cost(depth)) for depth in (200, 400, 800))
    # The second step adds twice as many levels, so it costs twice as much. Quadratic cost would be
    # four times.
    assert ((many - more) < 2.5 * (more - few) + 100_000 * np.array([0, 1])).all(), (few, more, many)
    # Consolidated metadata reads all documents again.
    assert cost(800, consolidated=False)[0] < 20 * 800


@pytest.mark.parametrize(("depth", "name"), [(1000, "group"), (1, "n" * 256)])
def test_paths_longer_than_the_system_takes(deep_path: Path, depth: int, name: str) -> None:
    path = deep_file(deep_path / "deep.h5", depth, name)
    with pytest.raises(hs.HyperslabError) as error:
        hs.copy(path, deep_path / "copy.zarr")
    text = str(error.value)
    assert re.search(
        "its name has 256 bytes|levels deep, and its files would have paths of 4[0-9]+ bytes", text
    )
    assert len(text) < 500 and ".stage." not in text
    assert [path.name for path in deep_path.iterdir()] == ["deep.h5"]
    report = hs.copy(path, deep_path / "copy.zarr", skip_unsupported=True)
    assert report.groups < depth + 1 and report.skipped
    # A store in memory accepts any path.
    memory = hs.MemoryStore()
    assert hs.copy(path, memory).groups == depth + 1
    inner = "/".join([name] * depth) + "/a"
    np.testing.assert_array_equal(hs.open_array(memory, path=inner)[:], [0, 1, 2])


BROKEN: dict[str, dict[str, Any]] = {
    "codec": {"codecs": [{"name": "nobody.knows", "configuration": {}}]},
    "type": {"data_type": "float7"},
    "grid": {"chunk_grid": {"name": "spiral"}},
}


def _with_unreadable(root: Path) -> hs.Group:
    group = hs.create_group(root, attributes={"who": "me"})
    group.create_array("good", shape=(3,), dtype="i4")[:] = [1, 2, 3]
    for name, change in BROKEN.items():
        group.create_array(name, shape=(3,), dtype="i4", attributes={"units": "m"})
        document = json.loads((root / name / "zarr.json").read_text())
        (root / name / "zarr.json").write_text(json.dumps(document | change))
    (root / "torn").mkdir()
    (root / "torn/zarr.json").write_text('{"zarr_format": 3, "node_ty')
    return hs.open_group(root)


def test_unreadable_members_are_listed_and_refused(tmp_path: Path) -> None:
    group = _with_unreadable(tmp_path / "g")
    names = sorted([*BROKEN, "good", "torn"])
    assert sorted(group) == names
    assert group.attrs["who"] == "me"
    members = dict(group.members())
    assert sorted(members) == names == sorted(name for name, _ in group.arrays())
    np.testing.assert_array_equal(members["good"][:], [1, 2, 3])
    text = repr(group.tree())
    assert text.count("unreadable: ") == 4
    for name in (*BROKEN, "torn"):
        bad = members[name]
        assert isinstance(bad, hs.UnreadableArray)
        assert bad.name == f"/{name}"
        assert bad.attrs == ({"units": "m"} if name in BROKEN else {})
        with pytest.raises(hs.HyperslabError):
            bad[:]
        with pytest.raises(hs.HyperslabError):
            _ = bad.shape
        with pytest.raises(hs.HyperslabError):
            group[name]
        assert not hasattr(bad, "nonsense")
    with pytest.warns(hs.UnreadableNodeWarning) as warned:
        loaded = hs.load(tmp_path / "g")
    assert list(loaded) == ["good"]
    assert len(warned) == 4
    assert group.info_complete().to_dict()["No. arrays"] == 5


def test_whatever_lists_members_marks_the_unreadable_alike(tmp_path: Path) -> None:
    group = _with_unreadable(tmp_path / "g")
    # This group cannot be opened either.
    group.create_group("inner/below")
    inner = tmp_path / "g/inner/zarr.json"
    inner.write_text(json.dumps(json.loads(inner.read_text()) | {"attributes": 5}))
    for opened in (group, hs.open_group(tmp_path / "g", mode="r")):
        members = dict(opened.members())
        listings = [
            dict(opened.items()),
            dict(zip(opened, opened.values(), strict=True)),
            {name: opened.get(name) for name in opened},
            dict(opened.arrays()) | dict(opened.groups()),
            dict(zip(opened.array_keys(), opened.array_values(), strict=True))
            | dict(zip(opened.group_keys(), opened.group_values(), strict=True)),
        ]
        assert len(members) == 6 == len(opened.items()) == len(opened.values())
        for found in listings:
            assert found == members
            bad = {name for name, node in found.items() if isinstance(node, hs.UnreadableArray)}
            assert bad == {*BROKEN, "torn", "inner"}
        for name, node in members.items():
            assert (name, node) in opened.items() and node in opened.values()
            assert (name, 5) not in opened.items() and ("none", node) not in opened.items()
            if name != "good":
                for read in (opened.__getitem__, opened.get_array, opened.get_group):
                    with pytest.raises(hs.HyperslabError):
                        read(name)
        assert opened.get("none") is None and opened.get("none", 5) == 5
        assert opened.get("..", 5) == 5 and opened.get("good/below") is None
        assert opened.get("good") == opened["good"]
    # Unreadable members can be deleted and replaced.
    del group["codec"], group["torn"]
    group["type"] = [7]
    assert "codec" not in group and "torn" not in group and group["type"][...].tolist() == [7]


def test_copy_refuses_unreadable_members_before_it_begins(tmp_path: Path) -> None:
    group = _with_unreadable(tmp_path / "g")
    with pytest.raises(hs.HyperslabError, match="codec/zarr.json"):
        hs.copy(group, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    report = hs.copy(group, tmp_path / "copy", skip_unsupported=True)
    assert (report.arrays, sorted(path for path, _ in report.skipped)) == (
        1,
        ["/codec", "/grid", "/torn", "/type"],
    )
