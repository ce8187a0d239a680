"""Hierarchies: groups, attributes, consolidated metadata, exchanged with zarr-python both ways."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_same, edit_json, examples, files_below, read_json, scratch

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])
LIBRARIES = {"ours": hs, "theirs": zarr}


def attributes_file(path: Path, zarr_format: int) -> Path:
    return path / (".zattrs" if zarr_format == 2 else "zarr.json")


def write_attributes(path: Path, zarr_format: int, attributes: Any) -> None:
    """Writes attributes like another program: with Python's ``json``."""
    if zarr_format == 2:
        (path / ".zattrs").write_text(json.dumps(attributes))
    else:
        edit_json(path / "zarr.json", attributes=attributes)


def build(library: Any, root: Path, zarr_format: int) -> Any:
    """Builds the same hierarchy with either library."""
    group = library.create_group(root, zarr_format=zarr_format, attributes={"title": "ocean", "version": 1})
    physics = group.create_group("physics", attributes={"kind": "model"})
    physics.create_group("deep/deeper")
    t = physics.create_array(
        "t", shape=(4, 5), chunks=(2, 2), dtype="f4", fill_value=np.nan, attributes={"units": "K"}
    )
    t[...] = np.arange(20, dtype="f4").reshape(4, 5)
    group.create_array("depth", shape=(3,), chunks=(3,), dtype=">i2" if zarr_format == 2 else "i2")[...] = [
        10,
        20,
        30,
    ]
    return group


NODES = {"depth", "physics", "physics/deep", "physics/deep/deeper", "physics/t"}


@FORMATS
@pytest.mark.parametrize("writer", LIBRARIES)
def test_hierarchies_are_exchanged(tmp_path: Path, zarr_format: Any, writer: str) -> None:
    build(LIBRARIES[writer], tmp_path / "g", zarr_format)
    for library in LIBRARIES.values():
        group = library.open_group(tmp_path / "g", mode="r")
        assert group.metadata.zarr_format == zarr_format
        assert group.attrs.asdict() == {"title": "ocean", "version": 1}
        assert {name for name, _ in group.members(max_depth=None)} == NODES
        assert {name for name, _ in group.members()} == {"depth", "physics"}
        assert sorted(group) == sorted(group.keys()) == ["depth", "physics"]
        assert set(group.array_keys()) == {"depth"}
        assert set(group.group_keys()) == {"physics"}
        assert {name for name, _ in group.arrays()} == {"depth"}
        assert {name for name, _ in group.groups()} == {"physics"}
        assert len(group) == group.nmembers() == 2
        assert group.nmembers(max_depth=None) == 5
        assert "physics/t" in group
        assert "physics/x" not in group
        t = group["physics/t"]
        assert (t.name, t.path, t.basename) == ("/physics/t", "physics/t", "t")
        assert t.attrs["units"] == "K"
        assert math.isnan(t.fill_value)
        assert_same(t[...], np.arange(20, dtype="f4").reshape(4, 5))
        assert_same(group["physics"]["t"][1:3], np.arange(20, dtype="f4").reshape(4, 5)[1:3])
        assert group["depth"][...].tolist() == [10, 20, 30]
        assert group["depth"].dtype == np.dtype(">i2" if zarr_format == 2 else "i2")
        with pytest.raises(KeyError):
            group["physics/x"]
        with pytest.raises(KeyError):
            group["nothing"]


@FORMATS
@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("consolidator", LIBRARIES)
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
def test_consolidated_metadata_is_exchanged(
    tmp_path: Path, zarr_format: Any, writer: str, consolidator: str
) -> None:
    root = tmp_path / "g"
    build(LIBRARIES[writer], root, zarr_format)
    LIBRARIES[consolidator].consolidate_metadata(root)
    if zarr_format == 2:
        assert set(read_json(root / ".zmetadata")["metadata"]) >= {
            ".zgroup",
            "depth/.zarray",
            "physics/t/.zarray",
            "physics/t/.zattrs",
        }
    else:
        found = read_json(root / "zarr.json")["consolidated_metadata"]
        assert found["kind"] == "inline"
        assert found["must_understand"] is False
        assert set(found["metadata"]) == NODES
    # Consolidated metadata suffices: the documents are not read.
    for name in ("zarr.json", ".zarray", ".zgroup", ".zattrs"):
        for path in list((root / "physics").rglob(name)):
            path.unlink()
    for library in LIBRARIES.values():
        group = library.open_group(root, mode="r")
        assert {name for name, _ in group.members(max_depth=None)} == NODES
        assert_same(group["physics/t"][...], np.arange(20, dtype="f4").reshape(4, 5))
        assert group["physics/t"].attrs["units"] == "K"
        assert group["physics"].attrs["kind"] == "model"
        assert group.attrs.asdict() == {"title": "ocean", "version": 1}
        group = library.open_group(root, mode="r", use_consolidated=False)
        assert {name for name, _ in group.members()} == {"depth"}
    assert hs.open_consolidated(root)["physics/t"].shape == (4, 5)


@FORMATS
def test_consolidated_metadata_may_be_demanded(tmp_path: Path, zarr_format: Any) -> None:
    build(hs, tmp_path / "g", zarr_format)
    for library in LIBRARIES.values():
        with pytest.raises((ValueError, FileNotFoundError)):
            library.open_group(tmp_path / "g", mode="r", use_consolidated=True)


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(2**200), 2**200),
        st.floats(),
        st.sampled_from(
            [0.1, 1.0, -0.0, 1e16, 1e-7, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf]
        ),
        st.text(),
        st.sampled_from(["naïve ☃ 😀", '"\\/\b\f\n\r\t', "\u2028", "\x7f", "NaN", ""]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)
ATTRIBUTES = st.dictionaries(st.text(), JSON_VALUES, max_size=5)


def exactly(value: Any) -> str:
    """Returns text that tells 1 from 1.0 and True, keeps the order of members, and equates NaNs."""
    return repr(value)


@given(attributes=ATTRIBUTES, zarr_format=st.sampled_from([2, 3]), kind=st.sampled_from(["array", "group"]))
@settings(max_examples=examples(150))
def test_attributes_come_back_exactly(attributes: dict[str, Any], zarr_format: Any, kind: str) -> None:
    with scratch() as root:
        for name, library in LIBRARIES.items():
            create = library.create_group if kind == "group" else library.create_array
            more = {} if kind == "group" else {"shape": (3,), "dtype": "i4", "chunks": (2,)}
            create(root / name, attributes=attributes, zarr_format=zarr_format, **more)
            for reader in LIBRARIES.values():
                assert exactly(reader.open(root / name, mode="r").attrs.asdict()) == exactly(attributes)
        # Changing one attribute keeps the others.
        node = hs.open(root / "theirs", mode="r+")
        node.attrs["new"] = 1
        expected = {**attributes, "new": 1}
        assert exactly(node.attrs.asdict()) == exactly(expected)
        for reader in LIBRARIES.values():
            assert exactly(reader.open(root / "theirs", mode="r").attrs.asdict()) == exactly(expected)


@FORMATS
def test_attributes_of_another_writer_survive_a_change(tmp_path: Path, zarr_format: Any) -> None:
    hs.create_group(tmp_path / "g", zarr_format=zarr_format)
    numbers = {
        "big": "123456789012345678901234567890",
        "one": "1.0",
        "exp": "1E5",
        "tiny": "1e-400",
        "long": "0.1000000000000000055511151231257827",
        "nan": "NaN",
        "inf": "-Infinity",
    }
    text = "{" + ", ".join(f'"{name}": {number}' for name, number in numbers.items()) + "}"
    file = attributes_file(tmp_path / "g", zarr_format)
    if zarr_format == 2:
        file.write_text(text)
    else:
        file.write_text(f'{{"zarr_format": 3, "node_type": "group", "attributes": {text}}}')
    group = hs.open_group(tmp_path / "g", mode="r+")
    group.attrs["more"] = [1, 2]
    written = file.read_text()
    for number in numbers.values():
        assert f": {number}" in written
    assert group.attrs["big"] == 123456789012345678901234567890


@FORMATS
@pytest.mark.parametrize("kind", ["array", "group"])
def test_changing_attributes(tmp_path: Path, zarr_format: Any, kind: str) -> None:
    if kind == "group":
        node: Any = hs.create_group(tmp_path / "n", zarr_format=zarr_format, attributes={"a": 1})
    else:
        node = hs.create_array(
            tmp_path / "n", shape=(3,), dtype="i4", zarr_format=zarr_format, attributes={"a": 1}
        )

    def stored() -> Any:
        return zarr.open(tmp_path / "n", mode="r").attrs.asdict()

    node.attrs["b"] = {"c": [1, None]}
    assert stored() == {"a": 1, "b": {"c": [1, None]}}
    del node.attrs["a"]
    assert stored() == {"b": {"c": [1, None]}}
    with pytest.raises(KeyError):
        node.attrs["a"]
    with pytest.raises(KeyError):
        del node.attrs["a"]
    node.attrs.update({"d": 4}, e=5)
    assert stored() == {"b": {"c": [1, None]}, "d": 4, "e": 5}
    node.attrs.put({"only": True})
    assert stored() == {"only": True}
    returned = node.update_attributes({"x": np.float64(1.5)})
    assert returned.attrs.asdict() == stored() == {"only": True, "x": 1.5}
    assert dict(node.attrs) == {"only": True, "x": 1.5}
    assert len(node.attrs) == 2
    assert "x" in node.attrs
    with pytest.raises(TypeError):
        node.attrs["bad"] = object()
    with pytest.raises(TypeError):
        node.attrs["bad"] = {1, 2}
    assert stored() == {"only": True, "x": 1.5}


@FORMATS
def test_modes(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "g"
    for mode in ["r", "r+"]:
        with pytest.raises(FileNotFoundError):
            hs.open_group(path, mode=mode, zarr_format=zarr_format)
    assert not path.exists() or not list(path.iterdir())
    group = hs.open_group(path, mode="a", zarr_format=zarr_format)
    group.create_array("x", data=np.arange(3))
    assert "x" in hs.open_group(path, mode="a")
    for mode in ["r", "r+", "a"]:
        assert hs.open_group(path, mode=mode)["x"][...].tolist() == [0, 1, 2]
    before = files_below(path)
    reading = hs.open_group(path, mode="r")
    assert reading.read_only
    for refused in [
        lambda: reading.create_array("y", shape=(1,), dtype="i4"),
        lambda: reading.create_group("y"),
        lambda: reading.attrs.update(a=1),
        lambda: reading["x"].__setitem__(..., 1),
        lambda: reading["x"].resize((5,)),
        lambda: reading["x"].append(np.arange(2)),
        lambda: reading["x"].attrs.update(a=1),
        lambda: reading.__delitem__("x"),
    ]:
        with pytest.raises(hs.errors.ReadOnlyError, match="read-only") as caught:
            refused()
        assert isinstance(caught.value, ValueError)
    assert files_below(path) == before
    with pytest.raises(FileExistsError):
        hs.open_group(path, mode="w-")
    assert files_below(path) == before
    assert list(hs.open_group(path, mode="w", zarr_format=zarr_format)) == []
    assert set(files_below(path)) <= {".zgroup", ".zattrs", "zarr.json"}
    assert list(hs.open_group(tmp_path / "new", mode="w-", zarr_format=zarr_format)) == []


@FORMATS
def test_modes_of_arrays(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "a"
    new = {"shape": (4,), "dtype": "i4", "chunks": (2,), "zarr_format": zarr_format}
    for mode in ["r", "r+"]:
        with pytest.raises(FileNotFoundError):
            hs.open_array(path, mode=mode)
    z = hs.open_array(path, mode="a", **new)
    z[...] = [1, 2, 3, 4]
    assert hs.open_array(path, mode="a", **new)[...].tolist() == [1, 2, 3, 4]
    assert hs.open_array(path)[...].tolist() == [1, 2, 3, 4]
    with pytest.raises(FileExistsError):
        hs.open_array(path, mode="w-", **new)
    with pytest.raises(FileExistsError):
        hs.create_array(path, **new)
    assert hs.open_array(path)[...].tolist() == [1, 2, 3, 4]
    z = hs.open_array(path, mode="w", **new)
    assert z[...].tolist() == [0, 0, 0, 0]
    z[...] = 5
    z = hs.create_array(path, **{**new, "shape": (2,)}, overwrite=True)
    assert z[...].tolist() == [0, 0]
    hs.open(path, mode="w", **new)[...] = 6
    assert zarr.open_array(path)[...].tolist() == [6] * 4
    with pytest.raises(ValueError):
        hs.open(path, mode="x")


@FORMATS
def test_deleting(tmp_path: Path, zarr_format: Any) -> None:
    group = build(hs, tmp_path / "g", zarr_format)
    neighbours = {
        name: data for name, data in files_below(tmp_path / "g").items() if not name.startswith("physics/t/")
    }
    del group["physics/t"]
    assert files_below(tmp_path / "g") == neighbours
    assert "physics/t" not in group
    assert not (tmp_path / "g/physics/t").exists()
    with pytest.raises(KeyError):
        del group["physics/t"]
    del group["physics"]
    assert list(group) == list(zarr.open_group(tmp_path / "g")) == ["depth"]


@FORMATS
def test_a_new_node_does_not_land_in_an_array(tmp_path: Path, zarr_format: Any) -> None:
    group = build(hs, tmp_path / "g", zarr_format)
    before = files_below(tmp_path)
    with pytest.raises(hs.errors.ContainsArrayError, match="depth"):
        group.create_array("depth/x", shape=(1,), dtype="i4")
    with pytest.raises(hs.errors.ContainsArrayError, match="depth"):
        group.create_group("depth")
    with pytest.raises(hs.errors.ContainsGroupError, match="physics"):
        group.create_array("physics", shape=(1,), dtype="i4")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "a/./b", "..", ".", "", "a\0b", "a\\..\\b", "zarr.json"]
)
def test_names_that_no_node_may_have(tmp_path: Path, name: str) -> None:
    group = hs.create_group(tmp_path / "g")
    before = files_below(tmp_path)
    with pytest.raises((hs.HyperslabError, ValueError)):
        group.create_array(name, shape=(1,), dtype="i4")
    with pytest.raises((hs.HyperslabError, ValueError)):
        group.create_group(name)
    assert files_below(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g"]


@given(
    shape=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    new=st.lists(st.integers(0, 9), min_size=3, max_size=3),
    chunks=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    zarr_format=st.sampled_from([2, 3]),
    fill=st.sampled_from([0, 7]),
)
@settings(max_examples=examples(120))
def test_resize(shape: list[int], new: list[int], chunks: list[int], zarr_format: Any, fill: int) -> None:
    """Kept elements keep their values, new ones have the fill value, outer chunks are deleted."""
    rank = len(shape)
    data = np.arange(1, math.prod(shape) + 1).reshape(shape)
    with scratch() as root:
        stored = {}
        for name, library in LIBRARIES.items():
            z = library.create_array(
                root / name,
                shape=data.shape,
                dtype=data.dtype,
                chunks=chunks[:rank],
                fill_value=fill,
                zarr_format=zarr_format,
            )
            z[...] = data
            z.resize(tuple(new[:rank]))
            assert z.shape == tuple(new[:rank])
            expected = np.full(new[:rank], fill)
            kept = tuple(slice(min(a, b)) for a, b in zip(shape, new))
            expected[kept] = data[kept]
            for reader in LIBRARIES.values():
                found = reader.open_array(root / name, mode="r")
                # zarr-python would show values of a chunk beyond the edge again. No chunk has any
                # yet.
                assert_same(found[...], expected)
            stored[name] = {key for key in files_below(root / name)}
        assert stored["ours"] == stored["theirs"]


@given(
    shape=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    small=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    new=st.lists(st.integers(0, 12), min_size=2, max_size=2),
    chunks=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    per_shard=st.sampled_from([None, 1, 2]),
    zarr_format=st.sampled_from([2, 3]),
    by=st.sampled_from(["ours", "theirs", "killed"]),
)
@settings(max_examples=examples(150))
def test_what_was_cut_off_does_not_come_back(
    shape: list[int],
    small: list[int],
    new: list[int],
    chunks: list[int],
    per_shard: int | None,
    zarr_format: Any,
    by: str,
) -> None:
    """Removed elements come back as the fill value, whichever library or kill cut them off."""
    data = np.arange(1, math.prod(shape) + 1).reshape(shape)
    shards = None if per_shard is None or zarr_format == 2 else [n * per_shard for n in chunks]
    with scratch() as root:
        z = hs.create_array(
            root / "a",
            shape=data.shape,
            dtype=data.dtype,
            chunks=chunks,
            shards=shards,
            fill_value=7,
            zarr_format=zarr_format,
        )
        z[...] = data
        if by == "ours":
            z.resize(tuple(small))
        elif by == "theirs":
            zarr.open_array(root / "a").resize(tuple(small))
        else:
            # The new shape is stored, but no chunk is deleted.
            edit_json(root / "a" / ("zarr.json" if zarr_format == 3 else ".zarray"), shape=small)
        z.resize(tuple(new))
        expected = np.full(new, 7)
        kept = tuple(slice(min(sizes)) for sizes in zip(shape, small, new, strict=True))
        expected[kept] = data[kept]
        for library in LIBRARIES.values():
            assert_same(library.open_array(root / "a", mode="r")[...], expected)


@FORMATS
def test_append(tmp_path: Path, zarr_format: Any) -> None:
    data = np.arange(12).reshape(3, 4)
    for name, library in LIBRARIES.items():
        z = library.create_array(tmp_path / name, data=data, chunks=(2, 3), zarr_format=zarr_format)
        assert z.append(data + 100) == (6, 4)
        assert_same(z[...], np.concatenate([data, data + 100]))
        wide = np.arange(18).reshape(6, 3)
        assert z.append(wide, axis=1) == (6, 7)
        expected = np.concatenate([np.concatenate([data, data + 100]), wide], axis=1)
        for reader in LIBRARIES.values():
            assert_same(reader.open_array(tmp_path / name)[...], expected)
        with pytest.raises(ValueError):
            z.append(np.zeros((2, 3)))
        assert z.shape == (6, 7)


@FORMATS
def test_dimension_names_of_xarray(tmp_path: Path, zarr_format: Any) -> None:
    """v3 has a field for the names, v2 has xarray's attribute."""
    z = hs.create_array(
        tmp_path / "a", shape=(2, 3), dtype="i4", dimension_names=("y", "x"), zarr_format=zarr_format
    )
    assert z.dimension_names == ("y", "x")
    if zarr_format == 2:
        assert zarr.open_array(tmp_path / "a").attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    else:
        assert zarr.open_array(tmp_path / "a").metadata.dimension_names == ("y", "x")
        assert "_ARRAY_DIMENSIONS" not in zarr.open_array(tmp_path / "a").attrs
    assert hs.open_array(tmp_path / "a").dimension_names == ("y", "x")


def test_both_formats_in_one_directory(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", data=np.full(3, 3), zarr_format=3)
    zarr.create_array(tmp_path / "b", data=np.full(3, 2), zarr_format=2)
    for path in (tmp_path / "b").iterdir():
        path.rename(tmp_path / "a" / path.name)
    assert hs.open_array(tmp_path / "a")[...].tolist() == [3, 3, 3]
    assert hs.open_array(tmp_path / "a", zarr_format=2)[...].tolist() == [2, 2, 2]
    assert hs.open_array(tmp_path / "a", zarr_format=3)[...].tolist() == [3, 3, 3]


def test_extensions_are_refused_unless_they_may_be_ignored(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(3))
    document = tmp_path / "a" / "zarr.json"
    edit_json(document, new_thing={"must_understand": False, "name": "new"})
    assert hs.open_array(tmp_path / "a")[...].tolist() == [0, 1, 2]
    for extension in [{"name": "new"}, {"must_understand": True}, 3, "x", None, []]:
        edit_json(document, new_thing=extension)
        with pytest.raises(hs.HyperslabError, match="new_thing"):
            hs.open_array(tmp_path / "a")
    edit_json(document, new_thing=..., storage_transformers=[{"name": "crypt"}])
    with pytest.raises(hs.errors.UnsupportedError, match="crypt"):
        hs.open_array(tmp_path / "a")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["local", "memory"])
@pytest.mark.parametrize(
    "name",
    [
        *["a b", " a", "a ", "é", "e\u0301", "A", "a/b c/ü", "/a//b/", "__x", "a/__b"],
        *["a\\b", "日本", "😀", "...", "x\ny", ".a", "%20"],
    ],
)
def test_names_as_zarr_python_has_them(tmp_path: Path, zarr_format: Any, kind: str, name: str) -> None:
    found = []
    for library in (hs, zarr):
        store: Any = tmp_path / library.__name__
        if kind == "memory":
            store = hs.MemoryStore() if library is hs else zarr.storage.MemoryStore()
        group = library.open_group(store, mode="a", zarr_format=zarr_format)
        array = group.create_array(name, shape=(2,), dtype="i4")
        array[:] = 1
        members = sorted(str(path) for path, _ in group.members(max_depth=None))
        again = library.open_group(store, mode="r")[name]
        found.append((array.path, array.name, array.basename, members, again.path, again[:].tolist()))
        # Names are case-sensitive.
        assert name.swapcase() == name or name.swapcase() not in group
    assert found[0] == found[1]
    if kind == "local":
        for path in ("hyperslab", "zarr"):
            for library in (hs, zarr):
                assert library.open_group(tmp_path / path, mode="r")[name][:].tolist() == [1, 1]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_update_checks_all_before_the_first_is_replaced(zarr_format: Any) -> None:
    store = hs.MemoryStore()
    group = hs.create_group(store, zarr_format=zarr_format)
    group["a"] = [1, 2]
    group["b/c"] = [3]
    before = {key: store.get(key) for key in store.list()}
    bad: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"a": [5], "q": None}, TypeError),
        ({"a": [5], "q": np.zeros(2, [("x", "O")])}, TypeError),
        ({"a": [5], "q/../r": [1]}, ValueError),
        ({"b/c": [5], "a/b": [1]}, hs.errors.ContainsArrayError),
        ({"a": [5], "q": [1], "q/r": [1]}, hs.errors.ContainsArrayError),
    ]
    for arrays, error in bad:
        with pytest.raises(error):
            group.update(arrays)
        assert {key: store.get(key) for key in store.list()} == before
    group.update({"a": [5], "d/e": np.array(["x", "yz"])}, f=np.float32(1))
    assert group["a"][...].tolist() == [5] and group["b/c"][...].tolist() == [3]
    assert group["d/e"][...].tolist() == ["x", "yz"] and group["f"].dtype == np.float32
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open_group(store, mode="r").update({"a": [1]})
