"""Programs as zarr-python's users write them give the same results when the import is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab
import numpy as np
import pytest
import zarr

Program = Callable[[Any, Path], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def facts(array: Any) -> tuple[Any, ...]:
    return array.shape, array.chunks, str(array.dtype), array.nchunks, array.ndim, array.size, array.nbytes


@program
def quickstart(zarr: Any, path: Path) -> Any:
    z = zarr.create_array(store=path / "example-1.zarr", shape=(100, 100), chunks=(10, 10), dtype="f4")
    z[:, :] = np.linspace(0, 1, 10_000, dtype="f4").reshape(100, 100)
    z[10:20] += 1
    z[5, 5] = np.nan
    assert zarr.open_array(path / "example-1.zarr", mode="r").read_only
    return facts(z), z[:], z[4], z[5, 4], z[::3, 1:50:7], z.nchunks_initialized


@program
def open_modes(zarr: Any, path: Path) -> Any:
    told: list[Any] = []
    for mode in ("r", "r+", "w-", "a", "r", "r+", "a", "w-", "w"):
        try:
            new = {"shape": (4,), "chunks": (2,), "dtype": "i4"} if mode in ("a", "w", "w-") else {}
            z = zarr.open_array(path / "data.zarr", mode=mode, **new)
            told.append((mode, z.read_only, z[:]))
            if not z.read_only:
                z[1] = len(told)
            else:
                with pytest.raises(ValueError, match=r"read.only"):
                    z[1] = 5
        except FileNotFoundError:
            told.append((mode, "missing"))
        except (ValueError, FileExistsError):
            told.append((mode, "exists"))
    for mode in ("r", "r+", "a", "w"):
        group = zarr.open_group(path / f"{mode if mode in 'aw' else 'a'}.zarr", mode="a")
        group = zarr.open(path / f"{mode if mode in 'aw' else 'a'}.zarr", mode=mode)
        told.append((mode, list(group), group.read_only))
    return told


@program
def save_and_load(zarr: Any, path: Path) -> Any:
    a, b = np.arange(20).reshape(4, 5), np.linspace(0, 1, 7)
    zarr.save(path / "one.zarr", a)
    zarr.save(path / "two.zarr", a, b)
    zarr.save(path / "three.zarr", a, foo=b)
    zarr.save_group(path / "two.zarr", x=b)
    zarr.save_array(path / "four.zarr", b, fill_value=1)
    with pytest.raises(ValueError, match="at least one"):
        zarr.save(path / "none.zarr")
    groups = [dict(zarr.open_group(path / f"{name}.zarr", mode="r").arrays()) for name in ("two", "three")]
    return [*groups, zarr.load(path / "one.zarr"), zarr.load(path / "four.zarr")]


@program
def groups(zarr: Any, path: Path) -> Any:
    root = zarr.create_group(store=path / "g.zarr", attributes={"title": "root"})
    foo = root.create_group("foo", attributes={"a": 1})
    bar = foo.create_group("bar")
    z1 = bar.create_array(name="baz", shape=(10, 8), chunks=(5, 4), dtype="i4", fill_value=3)
    z1[:3] = 42
    root.require_group("foo/deeper")
    root.require_array("q", shape=(3,), dtype="f8")[:] = [1, 2, 3]
    root["direct"] = np.arange(4)
    told = [
        sorted(root), "foo/bar/baz" in root, "foo/none" in root, len(root), sorted(root.group_keys()),
        sorted(root.array_keys()), sorted(name for name, _ in root.members(max_depth=None)),
        root["foo/bar/baz"][:], root["foo"]["bar"]["baz"].path, bar.name, z1.name, z1.basename, bar.basename,
        root.nmembers(), root.nmembers(max_depth=None), dict(foo.attrs), root.attrs["title"],
        sorted(name for name, _ in root.arrays()), sorted(name for name, _ in root.groups()),
    ]  # fmt: skip
    del root["q"]
    root["direct"] = np.arange(2)
    with pytest.raises(KeyError):
        root["q"]
    with pytest.raises(ValueError, match="."):
        root.create_group("foo")
    root.create_group("foo", overwrite=True)
    return [*told, sorted(root), root["direct"][:], sorted(root["foo"])]


@program
def attributes(zarr: Any, path: Path) -> Any:
    z = zarr.create_array(path / "a.zarr", shape=(2,), dtype="i4", attributes={"a": 1})
    z.attrs["foo"] = "bar"
    z.attrs.update({"n": [1, 2, {"x": None}], "f": 0.5})
    z.update_attributes({"u": True})
    del z.attrs["a"]
    again = zarr.open_array(path / "a.zarr", mode="r+")
    told = [
        dict(again.attrs),
        "foo" in again.attrs,
        len(again.attrs),
        sorted(again.attrs),
        again.attrs.asdict(),
    ]
    again.attrs.put({"only": 1})
    with pytest.raises(KeyError):
        again.attrs["foo"]
    return told, dict(zarr.open(path / "a.zarr", mode="r").attrs), again.attrs.get("foo", 5)


@program
def selections(zarr: Any, path: Path) -> Any:
    data = np.arange(1200).reshape(30, 40)
    z = zarr.array(data, chunks=(7, 9), store=path / "z.zarr")
    told = [
        z.oindex[[1, 4, 4], :], z.oindex[:, [0, 39]], z.oindex[[1, 4], [0, 2, 5]], z.oindex[3, [1, 2]],
        z.oindex[np.arange(30) % 2 == 0, 1:9:3], z.vindex[[0, 2, 29], [1, 3, 39]], z.vindex[data % 7 == 0],
        z.blocks[0], z.blocks[1, 2], z.blocks[1:3, 0], z.blocks[-1],
        z.get_basic_selection((slice(2, 5), 3)), z.get_orthogonal_selection(([0, 1], slice(2))),
        z.get_coordinate_selection(([0, 1], [2, 3])), z.get_mask_selection(data > 1190),
        z.get_block_selection((0, 1)), z[[1, 5], [2, 3]], z[..., 1], z[-1], z[-5:, -3], np.asarray(z),
    ]  # fmt: skip
    z.oindex[[0, 2], [1, 3]] = -1
    z.vindex[[5, 6], [7, 8]] = [-2, -3]
    z.blocks[2, 2] = -4
    z.set_basic_selection((slice(0, 1), slice(None)), 9)
    z.set_orthogonal_selection(([1], [2, 4]), 7)
    z.set_coordinate_selection(([9], [9]), [8])
    z.set_mask_selection(data == 100, -9)
    z[3, :] = np.arange(40)
    z[:, 5] = 6
    with pytest.raises(IndexError):
        z[30]
    with pytest.raises(IndexError):
        z[1, 2, 3]
    return *told, z[:]


@program
def resize_and_append(zarr: Any, path: Path) -> Any:
    z = zarr.create_array(path / "r.zarr", shape=(10, 10), chunks=(4, 4), dtype="i4", fill_value=-1)
    z[:] = np.arange(100).reshape(10, 10)
    told = [z.append(np.arange(20).reshape(2, 10)), z.append(np.full((12, 3), 5), axis=1), z[:]]
    # Resize to chunk borders: zarr-python keeps the elements outside of a chunk that is cut.
    z.resize((8, 8))
    z.resize((9, 16))
    with pytest.raises(ValueError, match="."):
        z.append(np.zeros((2, 3)))
    return *told, z.shape, z[:], zarr.open_array(path / "r.zarr", mode="r")[:]


@program
def conveniences(zarr: Any, path: Path) -> Any:
    made = [
        zarr.zeros((4, 4), chunks=(2, 2), dtype="i2"), zarr.ones((3,), dtype="f4"),
        zarr.full((3,), 7, dtype="u1"), zarr.empty((2, 2)), zarr.array([[1, 2], [3, 4]], chunks=(1, 2)),
        zarr.create((5,), chunks=(2,), dtype="f8", fill_value=3.5),
        zarr.create(3, zarr_format=2, dtype="<i2", dimension_separator="/", order="F"),
        zarr.zeros(shape=(2,), store=path / "s.zarr", path="deep/er", attributes={"a": 1}),
    ]  # fmt: skip
    return [(facts(z), z.fill_value, z.order, z.read_only, z[...], dict(z.attrs)) for z in made]


@program
def settings(zarr: Any, path: Path) -> Any:
    told = []
    with zarr.config.set({"array.order": "F", "array.write_empty_chunks": True, "default_zarr_format": 2}):
        z = zarr.zeros((4, 4), chunks=(2, 2), store=path / "c.zarr")
        z[:] = 0
        told += [z.order, z[:].flags.f_contiguous, z.nchunks_initialized, z.metadata.zarr_format]
        told += [zarr.config.get("default_zarr_format"), zarr.config.get("array.order")]
    z = zarr.create_array(path / "d.zarr", shape=(4, 4), chunks=(2, 2), dtype="i4")
    z[:] = 0
    told += [z.order, z.nchunks_initialized]
    z.with_config({"write_empty_chunks": True})[:] = 0
    return [*told, z.nchunks_initialized, zarr.config.get("array.write_empty_chunks")]


@program
def consolidated(zarr: Any, path: Path) -> Any:
    group = zarr.create_group(path / "k.zarr", zarr_format=2)
    group.create_array("a/b", shape=(3,), dtype="i4", attributes={"x": 1})
    group.create_group("c")
    zarr.consolidate_metadata(path / "k.zarr")
    opened = zarr.open_consolidated(path / "k.zarr")
    document = json.loads((path / "k.zarr" / ".zmetadata").read_text())
    return sorted(opened), opened["a/b"].shape, dict(opened["a/b"].attrs), sorted(document["metadata"])


@program
def shards_and_codecs(zarr: Any, path: Path) -> Any:
    told = []
    for number, codecs in enumerate([None, "auto", [{"name": "gzip", "configuration": {"level": 1}}]]):
        z = zarr.create_array(path / f"{number}.zarr", shape=(20, 20), chunks=(2, 5), shards=(10, 10),
                              dtype="u2", compressors=codecs, dimension_names=["y", "x"])  # fmt: skip
        z[3:17, ::2] = np.arange(140).reshape(14, 10)
        told.append((z.chunks, z.shards, z[:], z.nchunks, z.nchunks_initialized, z.metadata.dimension_names))
    return told


@program
def text_and_dates(zarr: Any, path: Path) -> Any:
    words = zarr.create_array(path / "w.zarr", shape=(4,), chunks=(2,), dtype="U5")
    words[:3] = ["Rhein", "", "Ä"]
    free = zarr.create_array(path / "v.zarr", shape=(3,), dtype=str)
    free[:] = ["a", "long text", "ü"]
    days = zarr.array(np.array(["2020-01-01", "NaT"], "M8[D]"), store=path / "t.zarr")
    return words[:], [str(text) for text in free[:]], days[:], words.fill_value, days.fill_value


@program
def numpy_meets(zarr: Any, path: Path) -> Any:
    z = zarr.array(np.arange(12.0).reshape(3, 4), store=path / "n.zarr")
    return (np.sum(z), np.mean(z[:], axis=0), np.asarray(z) + 1, bool(z), [row.sum() for row in z],
            np.array_equal(z, z[:]), z[()].shape)  # fmt: skip


def same(ours: Any, theirs: Any, where: str) -> None:
    """Checks for the same values, types and shapes, at any depth."""
    if isinstance(theirs, np.ndarray) and theirs.ndim == 0:
        # zarr-python returns one element as an array without axes. Ours is a NumPy scalar.
        ours, theirs = np.asarray(ours), theirs
    if isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray), where
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
        assert ours.flags.c_contiguous == theirs.flags.c_contiguous, where
    elif isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple)) and len(ours) == len(theirs), where
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            same(mine, other, f"{where}[{index}]")
    elif isinstance(theirs, dict) or hasattr(theirs, "items"):
        assert sorted(ours) == sorted(theirs), where
        for name in theirs:
            mine, other = (node[name] for node in (ours, theirs))
            if hasattr(other, "chunks"):
                mine, other = mine[...], other[...]
            same(mine, other, f"{where}[{name!r}]")
    else:
        assert repr(np.asarray(ours)[()]) == repr(np.asarray(theirs)[()]), where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_the_same_program(tmp_path: Path, run: Program) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    same(run(hyperslab, tmp_path / "ours"), run(zarr, tmp_path / "theirs"), run.__name__)
