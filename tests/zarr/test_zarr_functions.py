"""Functions and errors with zarr-python's names: arrays like others, hierarchies, copies, moves."""

from __future__ import annotations

import inspect
import json
import logging
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import hyperslab as hs
import numpy as np
import pytest
import zarr

REF = np.arange(48, dtype="i2").reshape(6, 8)
# The reference is the newest zarr-python. The version on the oldest Python lacks some names.
needs_newest_zarr = pytest.mark.skipif(
    tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4),
    reason="zarr-python is older than 3.4",
)
LIKES = ["empty_like", "zeros_like", "ones_like", "full_like"]


def facts(z: Any) -> tuple[Any, ...]:
    return (
        z.shape,
        z.chunks,
        z.shards,
        z.dtype,
        z.metadata.zarr_format,
        z.fill_value,
        np.asarray(z[...]).tolist(),
    )


def make(library: Any, zarr_format: int, **more: Any) -> Any:
    store = library.storage.MemoryStore()
    arguments = {"shape": (6, 8), "dtype": "i2", "chunks": (3, 4), "fill_value": 5, **more}
    return library.create_array(store, zarr_format=zarr_format, attributes={"a": 1}, **arguments)


@needs_newest_zarr
@pytest.mark.parametrize("name", LIKES)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "given", [{}, {"shape": (3, 3)}, {"dtype": "f4"}, {"fill_value": 2}, {"zarr_format": 2}]
)
def test_arrays_like_others_are_those_of_zarr_python(name: str, zarr_format: Any, given: Any) -> None:
    if name in ("zeros_like", "ones_like") and "fill_value" in given:
        for library in (hs, zarr):
            with pytest.raises(TypeError):
                getattr(library, name)(make(library, zarr_format), **given)
        return
    ours, theirs = (getattr(library, name)(make(library, zarr_format), **given) for library in (hs, zarr))
    assert facts(ours) == facts(theirs)
    assert dict(ours.attrs) == dict(theirs.attrs) == {}
    assert ours.metadata.codecs == make(hs, 3).metadata.codecs if ours.metadata.zarr_format == 3 else True


@pytest.mark.parametrize("name", LIKES)
def test_arrays_like_those_of_numpy(name: str) -> None:
    given = {"fill_value": 3} if name == "full_like" else {}
    ours, theirs = (getattr(library, name)(REF, **given) for library in (hs, zarr))
    assert facts(ours) == facts(theirs)
    with pytest.raises(TypeError, match="fill_value"):
        hs.full_like(REF)


def test_codecs_and_shards_of_the_other_array() -> None:
    other = make(
        hs, 3, shards=(6, 8), compressors=hs.codecs.Gzip(level=1), filters=hs.codecs.Transpose((1, 0))
    )
    like = hs.zeros_like(other)
    assert like.metadata["codecs"] == other.metadata["codecs"] and like.shards == (6, 8)
    assert hs.zeros_like(other, compressors=None).compressors == ()
    assert hs.zeros_like(other, chunks=(2, 2)).shards is None
    v2 = make(hs, 2, compressors=hs.codecs.Zlib(level=3), order="F")
    like = hs.empty_like(v2)
    assert like.metadata.to_dict() == {**v2.metadata.to_dict(), "attributes": {}}
    assert hs.empty_like(v2, zarr_format=3).compressors == (hs.codecs.Zstd(),)


@pytest.mark.parametrize("name", LIKES)
def test_methods_of_groups(name: str, tmp_path: Path) -> None:
    group = hs.open_group(tmp_path, mode="w", zarr_format=2)
    z = getattr(group, name)(name="x/y", data=make(hs, 3), dtype="f8")
    assert (z.path, z.zarr_format, z.dtype, z[0, 0]) == (
        "x/y", 2, np.dtype("f8"), {"zeros_like": 0, "ones_like": 1}.get(name, 5))  # fmt: skip
    assert group["x/y"] == z
    consolidated = group.consolidate()
    getattr(consolidated, name)(name="new", data=z)
    assert "new" in consolidated


def test_open_like(tmp_path: Path) -> None:
    other = make(hs, 3)
    z = hs.open_like(other, "a", store=tmp_path)
    assert facts(z) == facts(other)
    z[:] = 1
    assert hs.open_like(REF, "a", store=tmp_path)[0, 0] == 1
    with pytest.raises(FileNotFoundError):
        hs.open_like(other, "b", store=tmp_path, mode="r")


# ---- hierarchies


@pytest.mark.parametrize("library", [hs, zarr])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_create_hierarchy(tmp_path: Path, library: Any, zarr_format: Any) -> None:
    """The metadata may be ours or zarr-python's."""
    like = make(library, zarr_format).metadata
    group = library.create_group(library.storage.MemoryStore(), zarr_format=zarr_format, attributes={"g": 1})
    nodes = {"a/b": like, "/c/": group.metadata, "c/d": like}
    made = dict(hs.create_hierarchy(store=tmp_path, nodes=nodes))
    assert sorted(made) == ["", "a", "a/b", "c", "c/d"]
    assert facts(made["a/b"])[:-1] == facts(make(hs, zarr_format))[:-1]
    assert dict(made["c"].attrs) == {"g": 1} and dict(made["a/b"].attrs) == {"a": 1}
    theirs = zarr.open_group(tmp_path, mode="r", zarr_format=zarr_format)
    assert sorted(path for path, _ in theirs.members(max_depth=None)) == ["a", "a/b", "c", "c/d"]
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.create_hierarchy(store=tmp_path, nodes={"a/b": like})
    with pytest.raises(hs.errors.ContainsGroupError):
        hs.create_hierarchy(store=tmp_path, nodes={"c": group.metadata})
    # Groups on the way to a new node stay as they are.
    made["a/b"][:] = 7
    made = dict(hs.create_hierarchy(store=tmp_path, nodes={"c/e": like}))
    assert dict(made["c"].attrs) == {"g": 1} and sorted(made["c"]) == ["d", "e"]
    made = dict(hs.create_hierarchy(store=tmp_path, nodes={"a/b": group.metadata, "c": like}, overwrite=True))
    assert list(made["a/b"]) == [] and made["c"].shape == (6, 8)
    assert sorted(path for path, _ in hs.open_group(tmp_path).members(None)) == ["a", "a/b", "c"]


def test_hierarchies_that_cannot_be_change_nothing(tmp_path: Path) -> None:
    like = make(hs, 3).metadata
    bad = {**like.to_dict(), "data_type": "nonsense"}
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"a": like, "b": bad}, NotImplementedError),
        ({"a": like, "a/b": like}, ValueError),
        ({"a": like, "/a": like}, ValueError),
        ({"a": like, "b": make(hs, 2).metadata}, ValueError),
        ({"a": like, "b": 5}, TypeError),
        ({"a": like, "b": {}}, ValueError),
        ({"a": like, "..": like}, ValueError),
    ]
    for nodes, error in wrong:
        with pytest.raises(error):
            hs.create_hierarchy(store=tmp_path, nodes=nodes)
        assert list(tmp_path.iterdir()) == []
    assert list(hs.create_hierarchy(store=tmp_path, nodes={})) == []


def test_hierarchies_below_a_group() -> None:
    root = hs.create_group(hs.MemoryStore())
    root.create_group("g").create_array("old", shape=(2,), dtype="i4")
    root = root.consolidate()
    made = dict(root["g"].create_hierarchy({"x/y": make(hs, 3).metadata}))  # type: ignore[union-attr]
    assert sorted(made) == ["x", "x/y"] and made["x/y"].path == "g/x/y"
    assert sorted(hs.open_group(root.store, use_consolidated=False)["g"]) == ["old", "x"]  # type: ignore[arg-type]


# ---- copies and moves


@pytest.mark.parametrize("kind", ["local", "memory", "dict"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_move(tmp_path: Path, kind: str, zarr_format: Any) -> None:
    store: Any = {"local": tmp_path, "memory": hs.MemoryStore(), "dict": {}}[kind]
    root = hs.create_group(store, zarr_format=zarr_format)
    root.create_array("a/b", data=REF, chunks=(2, 3), attributes={"x": 1})
    root.create_array("a/c", data=REF + 1, chunks=(6, 8))
    root.move("a/b", "new/place")
    assert np.array_equal(root["new/place"][...], REF) and dict(root["new/place"].attrs) == {"x": 1}
    assert "a/b" not in root and sorted(path for path, _ in root.members(None)) == [
        "a", "a/c", "new", "new/place"]  # fmt: skip
    root.move("a", "new/a")
    assert np.array_equal(root["new/a/c"][...], REF + 1) and list(root) == ["new"]
    for source, dest, error in [
        ("none", "x", FileNotFoundError),
        ("new/a", "new/place", FileExistsError),
        ("new", "new/a/b", ValueError),
        ("new", "new", ValueError),
        ("new", "", ValueError),
    ]:
        before = root.store.list()
        with pytest.raises(error):
            root.move(source, dest)
        assert root.store.list() == before
    consolidated = root.consolidate()
    consolidated.move("new/place", "p")
    assert np.array_equal(consolidated["p"][...], REF) and "new/place" not in consolidated
    with pytest.raises(PermissionError):
        hs.open_group(store, mode="r").move("p", "q")


def test_copy_in_groups(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "a")
    root.create_array("x", data=REF, attributes={"a": 1})
    assert root.copy("x", "y/z").arrays == 1
    assert np.array_equal(root["y/z"][...], REF) and dict(root["y/z"].attrs) == {"a": 1}
    other = hs.create_group(tmp_path / "b", zarr_format=2)
    root.copy("y", other)
    root.copy("x", other, "renamed")
    assert sorted(path for path, _ in other.members(None)) == ["renamed", "y", "y/z"]
    with pytest.raises(KeyError):
        root.copy("none", other)
    with pytest.raises(FileExistsError):
        hs.copy_all(root, other)
    last = hs.create_group(hs.MemoryStore())
    report = hs.copy_all(root, last, verify=True)
    assert (report.arrays, report.seconds_verified is not None, sorted(last)) == (2, True, ["x", "y"])


def test_copy_store(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "a")
    root.create_array("x", data=REF, chunks=(3, 8))
    objects: dict[str, bytes] = {}
    assert hs.copy_store(tmp_path / "a", objects)[:2] == (4, 0)
    assert np.array_equal(hs.open_group(objects)["x"][...], REF)
    with pytest.raises(FileExistsError):
        hs.copy_store(tmp_path / "a", objects)
    assert hs.copy_store(tmp_path / "a", objects, if_exists="skip") == (0, 4, 0)
    assert hs.copy_store(tmp_path / "a", objects, if_exists="replace")[0] == 4
    part: dict[str, bytes] = {}
    copied = hs.copy_store(objects, part, "x", "deep/y", excludes="*", includes=["*.json", "c/0/*"])
    assert copied[0] == 2 and sorted(part) == ["deep/y/c/0/0", "deep/y/zarr.json"]
    with pytest.raises(ValueError, match="if_exists"):
        hs.copy_store(objects, part, if_exists="maybe")  # type: ignore[arg-type]


# ---- groups


def test_groups_are_listed_in_one_pass() -> None:
    class Asked(dict[str, bytes]):
        asked: Counter[str]

        def __getitem__(self, key: str) -> bytes:
            self.asked[key] += 1
            return super().__getitem__(key)

    objects = Asked()
    objects.asked = Counter()
    root = hs.create_group(objects)
    like = make(hs, 3).metadata
    list(root.create_hierarchy({f"a{number}": like for number in range(10_000)}))

    def asked(work: Any) -> Counter[str]:
        objects.asked.clear()
        assert len(work()) == 10_000
        return Counter(objects.asked.values())

    # Each document is read once to list the names, and once more to open the array.
    assert asked(lambda: list(root.array_keys())) == {1: 10_000}
    assert asked(lambda: [dict(z.attrs) for z in root.array_values()]) == {2: 10_000}
    consolidated = root.consolidate()
    assert not asked(lambda: [dict(z.attrs) for z in consolidated.array_values()])


def test_members_without_consolidated_metadata_of_children(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path)
    root.create_group("g")
    hs.consolidate_metadata(tmp_path / "g")
    root["g"].create_array("new", shape=(2,), dtype="i4")  # type: ignore[union-attr]
    group = hs.open_group(tmp_path, mode="r")
    for fresh, names in ((False, []), (True, ["new"])):
        shown = dict(group.members(use_consolidated_for_children=not fresh))
        assert list(shown["g"]) == names
    # A consolidated group shows only what its consolidated metadata lists.
    group = hs.consolidate_metadata(tmp_path)
    group.store.delete("g/new/zarr.json")
    assert len(group.members(None, use_consolidated_for_children=False)) == 2


def test_classmethods_and_small_properties(tmp_path: Path, capsys: Any) -> None:
    group = hs.Group.from_store(tmp_path, attributes={"a": 1})
    assert hs.Group.open(tmp_path) == group and group.get(path="x", default=3) == 3
    z = group.create_array("x", shape=(7, 4), chunks=(2, 4), dtype="i4", compressor=hs.codecs.Gzip())
    assert z.compressors == (hs.codecs.Gzip(),)
    assert hs.Array.open(tmp_path / "x", config={"order": "F"}).config.order == "F"
    assert z.read_chunk_sizes == ((2, 2, 2, 1), (4,)) == z.write_chunk_sizes
    z.shape = (3, 4)
    assert hs.open_array(tmp_path / "x").shape == (3, 4)
    with pytest.raises(ValueError, match="axes"):
        z.shape = 5
    with hs.config.set(write_empty_chunks=True):
        assert z.config.to_dict()["write_empty_chunks"] is False
        assert hs.open_array(tmp_path / "x").config.to_dict()["write_empty_chunks"] is True
        assert z.with_config({"write_empty_chunks": False}).config.write_empty_chunks is False
    assert repr(hs.tree(group)) == repr(group.tree()) and "\x1b" not in repr(group.tree())
    assert "\x1b[1mx\x1b[0m (3, 4) int32" in repr(group.tree(plain=False))
    group.create_group("g").create_group("h")
    assert repr(group.tree(level=0)).count("\n") == 3 < repr(group.tree(level=1)).count("\n")
    with pytest.raises(ValueError, match="level"):
        group.tree(level=-1)
    hs.print_debug_info()
    assert f"hyperslab: {hs.__version__}" in capsys.readouterr().out


def test_formats_of_new_members() -> None:
    group = hs.group({}, zarr_format=2)
    assert group.zeros(name="a", shape=(2,), zarr_format=2).zarr_format == 2
    for attempt in (
        lambda: group.ones(name="b", shape=(2,), zarr_format=3),
        lambda: group.empty_like(name="b", data=REF, zarr_format=3),
    ):
        with pytest.raises(ValueError, match="zarr_format"):
            attempt()
    assert "b" not in group


def test_stores_are_context_managers(tmp_path: Path) -> None:
    with hs.storage.LocalStore(tmp_path) as store:
        hs.create_array(store, name="a", data=REF)
    with hs.storage.LocalStore(tmp_path, read_only=True) as store, pytest.raises(PermissionError):
        hs.create_array(store, name="b", data=REF)


def test_a_mapping_without_mode() -> None:
    objects: dict[str, bytes] = {}
    assert hs.open_group(objects).read_only is False and list(objects) == ["zarr.json"]
    assert hs.open_array({}, shape=(2,), dtype="i4").shape == (2,)
    with pytest.raises(FileNotFoundError):
        hs.open_group({}, mode="r")


# ---- arguments and errors


@needs_newest_zarr
def test_data_types_of_zarr_python() -> None:
    types = {
        zarr.dtype.Int16(endianness="big"): ">i2", zarr.dtype.Bool(): "?", zarr.dtype.Complex64(): "c8",
        zarr.dtype.FixedLengthUTF32(length=3): "U3", zarr.dtype.NullTerminatedBytes(length=2): "S2",
        zarr.dtype.DateTime64(unit="s", scale_factor=10): "M8[10s]", zarr.dtype.RawBytes(length=4): "V4",
        zarr.dtype.VariableLengthUTF8(): str, zarr.dtype.VariableLengthBytes(): bytes,
    }  # fmt: skip
    for theirs, dtype in types.items():
        for zarr_format in (2, 3):
            made = [
                hs.create_array({}, shape=(2,), dtype=given, zarr_format=zarr_format)
                for given in (theirs, dtype)
            ]
            assert made[0].metadata == made[1].metadata
    z = hs.create_array({}, shape=(2,), dtype=hs.zeros(2, dtype="f4").metadata.dtype)
    assert z.dtype == "f4" == hs.group({}).require_array("a", shape=(2,), dtype=zarr.dtype.Float32()).dtype


def test_arguments_without_effect_warn() -> None:
    unused: dict[str, dict[str, Any]] = {
        "create": {"shape": (2,), "synchronizer": 1, "chunk_store": {}, "cache_metadata": True,
                   "cache_attrs": False, "read_only": False, "meta_array": np.empty(1)},
        "group": {"synchronizer": 1, "chunk_store": {}, "cache_attrs": False, "meta_array": 1},
        "open_group": {"synchronizer": 1, "chunk_store": {}, "cache_attrs": False, "meta_array": 1},
    }  # fmt: skip
    for name, arguments in unused.items():
        needed = {"shape": arguments.pop("shape")} if "shape" in arguments else {}
        for argument, value in arguments.items():
            with pytest.warns(hs.errors.ZarrRuntimeWarning, match=argument) as warned:
                getattr(hs, name)(**needed, **{argument: value})
            assert warned[0].filename == __file__


def test_errors_are_caught_where_those_of_zarr_python_are() -> None:
    for name, theirs in inspect.getmembers(zarr.errors, inspect.isclass):
        ours = getattr(hs.errors, name, None)
        if theirs.__module__ == "zarr.errors":
            assert ours is not None, name
            assert {base.__name__ for base in theirs.__mro__} <= {base.__name__ for base in ours.__mro__}, (
                name
            )


@needs_newest_zarr
def test_programs_catch_the_same_errors(tmp_path: Path) -> None:
    for library in (hs, zarr):
        path = tmp_path / library.__name__
        errors, group = library.errors, library.open_group(path, mode="w")
        group.create_array("a", shape=(3,), dtype="i4")
        group.create_group("g")
        (path / "file").touch()
        raised: list[tuple[Any, Any]] = [
            (errors.ArrayNotFoundError, lambda group=group: group.get_array("x")),
            (errors.GroupNotFoundError, lambda group=group: group.get_group("x")),
            (errors.ContainsGroupError, lambda group=group: group.get_array("g")),
            (errors.ContainsArrayError, lambda group=group: group.get_group("a")),
            (KeyError, lambda group=group: group["x"]),
            (TypeError, lambda group=group: group.require_group("a")),
            (TypeError, lambda group=group: group.require_array("g", shape=(3,))),
            (errors.UnknownCodecError, lambda group=group: group.create_array(
                "n", shape=(3,), dtype="i4", compressors={"name": "nonsense", "configuration": {}})),
            (errors.BaseZarrError, lambda group=group: group.create_array("a", shape=(3,), dtype="i4")),
            (TypeError, lambda group=group: group.create_array("n", shape=(3,), dtype="i4", compressors=[5])),
            (TypeError, lambda group=group: group.create_array("n", shape=(3,), dtype="i4", filters="x")),
            (TypeError, lambda group=group: group.create_array("n", shape=(3,), dtype="i4", config={"x": 1})),
            (FileExistsError, lambda library=library, path=path: library.open_group(path / "file", mode="w")),
            (FileNotFoundError, lambda library=library, path=path: library.open(path / "none", mode="r")),
            (ValueError, lambda library=library, path=path: library.open_array(path, mode="r")),
        ]  # fmt: skip
        for number, (error, attempt) in enumerate(raised):
            with pytest.raises(error):
                pytest.fail(f"{library.__name__}: number {number} was accepted: {attempt()!r}")


def test_settings(capsys: Any) -> None:
    config = hs.config
    assert config["array.order"] == config.order == "C" and config["default_zarr_format"] == 3
    with pytest.raises(KeyError):
        config["codecs"]
    with config.set({"array": {"order": "F"}, "async.concurrency": 5}):
        assert config["array.order"] == "F" and config.get("async.concurrency") == 5
    assert config["async.concurrency"] == 10
    with config.set(array__write_empty_chunks=True):
        assert config.write_empty_chunks
    config.threads = 3
    config.refresh()
    assert config.threads is None and config.defaults[0]["order"] == "C"
    config.pprint()
    assert "'order': 'C'" in capsys.readouterr().out
    assert logging.getLogger("hyperslab").handlers == []


def test_buffers_of_zarr_python_as_out() -> None:
    z = hs.array(REF, chunks=(3, 4))
    out = zarr.core.buffer.cpu.NDBuffer.create(shape=(2, 8), dtype=np.dtype("i2"))
    z.get_basic_selection(slice(1, 3), out=out)
    assert np.array_equal(out.as_numpy_array(), REF[1:3])
    z.get_orthogonal_selection(([0, 5],), out=out)
    assert np.array_equal(out.as_numpy_array(), REF[[0, 5]])


def test_pickled_objects_are_refused() -> None:
    objects: dict[str, bytes] = {}
    z = hs.create_array(objects, shape=(3,), dtype="i4", zarr_format=2, compressors=None)
    document = {**z.metadata.to_dict(), "dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}]}
    objects[".zarray"] = json.dumps(document).encode()
    with pytest.raises(hs.errors.PickleCodecDisabledError, match="pickle"):
        hs.open_array(objects)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_of_two_that_create_a_node_one_loses_and_nothing_is_lost(
    tmp_path: Path, zarr_format: Literal[2, 3]
) -> None:
    like = hs.zeros((4,), chunks=(2,), dtype="i4", zarr_format=zarr_format).metadata.to_dict()
    start = threading.Barrier(2)

    def create(round_: int, who: int) -> bool:
        start.wait()
        nodes = {f"g/{round_}": {**like, "attributes": {"who": who}}}
        try:
            dict(hs.create_hierarchy(store=tmp_path, nodes=nodes))
        except hs.errors.ContainsArrayError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for round_ in range(30):
            made = list(pool.map(create, (round_, round_), (0, 1)))
            assert sum(made) == 1, made
            assert hs.open_array(tmp_path, path=f"g/{round_}").attrs["who"] == made.index(True)
