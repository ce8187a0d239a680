"""Arrays of Python objects in Zarr v2: numcodecs and hyperslab read each other's chunks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import broadcastable, filled, objects, selections, shapes_and_chunks
from support import as_view, assign, chunk_files, edit_json, examples, read_json, scratch

Objects = np.ndarray[Any, np.dtype[np.object_]]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
#: Scalars for both encodings, including the numbers at which the encoding grows by a byte.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 127, 128, 255, 256, 65535, 65536, 2**32, 2**63, 2**64 - 1, -1, -32, -33, -129, -(2**63)]
    ),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    TEXT,
    st.sampled_from(["x" * 31, "x" * 32, "é" * 200, "\0", '"\\\n\x7f', "🌊"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
#: Also values that JSON can store and MessagePack cannot.
JSON_VALUES = st.one_of(VALUES, st.sampled_from([2**70, "\ud800"]))
JSON_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "ensure_ascii": st.booleans(),
        "sort_keys": st.booleans(),
        "indent": st.sampled_from([None, 0, 2, -1, True, "\t"]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : "), (",\n", ":")]),
        "strict": st.booleans(),
        "skipkeys": st.booleans(),
        "check_circular": st.booleans(),
    },
)


def plain(value: Any) -> Any:
    """Returns a form that is equal for values with equal types and contents. NaN equals NaN."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, dict):
        return ["dict", *([plain(key), plain(one)] for key, one in value.items())]
    return [type(value).__name__, repr(value)]


def same(found: Any, expected: Any, what: str = "") -> None:
    if isinstance(expected, np.ndarray) and expected.ndim == 0 and not isinstance(found, np.ndarray):
        # A single element is returned as itself, even with an ellipsis.
        expected = expected[()]
    if not isinstance(expected, np.ndarray):
        assert plain(found) == plain(expected), what
        return
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (np.dtype(object), expected.shape), what
    assert plain(found.ravel().tolist()) == plain(expected.ravel().tolist()), what


def sorted_keys(value: Any) -> Any:
    """Returns the value as a codec with `sort_keys` reads it back."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(one) for one in value] if isinstance(value, list) else value


def chunk_grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(np.ndindex(*(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))))


def whole_chunk(values: Objects, chunks: tuple[int, ...], at: tuple[int, ...], fill: Any) -> Objects:
    """Returns a chunk as it is stored: padded with the fill value beyond the end of the array."""
    made = objects([fill] * math.prod(chunks), chunks)
    place = tuple(slice(n * chunk, (n + 1) * chunk) for n, chunk in zip(at, chunks, strict=True))
    part = values[(*place, ...)]
    made[(*map(slice, part.shape), ...)] = part
    return made


def write_by_numcodecs(path: Path, values: Objects, chunks: tuple[int, ...], codec: Any, **more: Any) -> None:
    """Writes an array as zarr-python 2 does: numcodecs encodes the chunks."""
    path.mkdir()
    document = {
        "zarr_format": 2,
        "shape": values.shape,
        "chunks": chunks,
        "dtype": "|O",
        "fill_value": None,
        "order": "C",
        "compressor": None,
        "filters": [codec.get_config()],
        **more,
    }
    (path / ".zarray").write_text(json.dumps(document))
    for at in chunk_grid(values.shape, chunks):
        whole = whole_chunk(values, chunks, at, document["fill_value"])
        whole = np.asarray(whole, order=document["order"])
        (path / (".".join(map(str, at)) or "0")).write_bytes(bytes(codec.encode(whole)))


def read_by_numcodecs(path: Path) -> Objects:
    document = read_json(path / ".zarray")
    shape, chunks = tuple(document["shape"]), tuple(document["chunks"])
    codec = numcodecs.get_codec(document["filters"][0])
    values = objects([document["fill_value"]] * math.prod(shape), shape)
    for at in chunk_grid(shape, chunks):
        stored = path / (".".join(map(str, at)) or "0")
        if stored.exists():
            place = tuple(slice(n * chunk, (n + 1) * chunk) for n, chunk in zip(at, chunks, strict=True))
            whole = codec.decode(stored.read_bytes()).reshape(chunks, order=document["order"])
            part = values[(*place, ...)]
            part[...] = whole[(*map(slice, part.shape), ...)]
    return values


def msgpack_codec(**settings_: Any) -> Any:
    pytest.importorskip("msgpack")
    return numcodecs.MsgPack(**settings_)


@given(where=shapes_and_chunks(3), json_settings=JSON_SETTINGS, order=st.sampled_from("CF"), data=st.data())
@settings(max_examples=examples(40))
def test_numcodecs_writes_json_and_we_read(
    where: Any, json_settings: dict[str, Any], order: str, data: st.DataObject
) -> None:
    shape, chunks = where
    values = data.draw(filled(shape, VALUES))
    with scratch() as root:
        write_by_numcodecs(root / "a", values, chunks, numcodecs.JSON(**json_settings), order=order)
        ours = hs.open_array(root / "a", mode="r")
        expected = objects([sorted_keys(value) for value in values.ravel()], shape)
        if not json_settings.get("sort_keys", True):
            expected = values
        assert (ours.dtype, ours.fill_value, ours.order) == (np.dtype(object), None, order)
        same(ours[...], expected if shape else expected[()], "all")
        same(ours.read(), expected, "read")
        for _ in range(3):
            selection = data.draw(selections(shape))
            same(ours[selection], expected[selection], repr(selection))


@given(where=shapes_and_chunks(3), json_settings=JSON_SETTINGS, order=st.sampled_from("CF"), data=st.data())
@settings(max_examples=examples(40))
def test_we_write_json_and_numcodecs_reads(
    where: Any, json_settings: dict[str, Any], order: Any, data: st.DataObject
) -> None:
    shape, chunks = where
    # Text that UTF-8 cannot encode needs `ensure_ascii`.
    ascii_only = json_settings.get("ensure_ascii", True)
    values = data.draw(filled(shape, JSON_VALUES if ascii_only else VALUES))
    codec = numcodecs.JSON(**json_settings)
    with scratch() as root:
        z = hs.create_array(
            root / "a", shape=shape, chunks=chunks, dtype=object, zarr_format=2, order=order,
            object_codec=codec, compressors=None, config={"write_empty_chunks": True},
        )  # fmt: skip
        assert read_json(root / "a/.zarray")["filters"] == [json.loads(json.dumps(codec.get_config()))]
        z[...] = values
        for at in chunk_grid(shape, chunks):
            expected = bytes(codec.encode(whole_chunk(values, chunks, at, None)))
            stored = (root / "a" / (".".join(map(str, at)) or "0")).read_bytes()
            assert stored == expected, at
        for _ in range(3):
            selection = data.draw(selections(shape))
            more = data.draw(filled(data.draw(broadcastable(values[as_view(selection)].shape)), VALUES))
            z[selection] = more
            assign(values, selection, more)
        expected = objects([json.loads(json.dumps(value)) for value in values.ravel()], shape)
        if json_settings.get("sort_keys", True):
            expected = objects([sorted_keys(value) for value in expected.ravel()], shape)
        same(z.read(), expected, "ours")
        same(read_by_numcodecs(root / "a"), expected, "theirs")


@given(where=shapes_and_chunks(3), order=st.sampled_from("CF"), data=st.data())
@settings(max_examples=examples(40))
def test_messagepack_both_ways(where: Any, order: Any, data: st.DataObject) -> None:
    shape, chunks = where
    if not shape:
        shape, chunks = (1,), (1,)
    chosen = {"use_single_float": data.draw(st.booleans()), "use_bin_type": data.draw(st.booleans())}
    # In both libraries, numbers too large for 32-bit floats are an error.
    some = st.one_of(TEXT, st.floats(width=32)) if chosen["use_single_float"] else VALUES
    values = data.draw(filled(shape, some | st.binary(max_size=40)))
    # Without a type for bytes, bytes are stored as text that need not be UTF-8.
    codec = msgpack_codec(raw=not chosen["use_bin_type"], **chosen)
    with scratch() as root:
        write_by_numcodecs(root / "theirs", values, chunks, codec, order=order)
        theirs = hs.open_array(root / "theirs", mode="r")
        expected = read_by_numcodecs(root / "theirs")
        same(theirs.read(), expected, "theirs")
        selection = data.draw(selections(shape))
        same(theirs[selection], expected[selection], repr(selection))
        ours = hs.create_array(
            root / "ours", shape=shape, chunks=chunks, dtype=object, zarr_format=2, order=order,
            filters=[codec], compressors=None, config={"write_empty_chunks": True},
        )  # fmt: skip
        ours[...] = values
        assert chunk_files(root / "ours") == chunk_files(root / "theirs")
        more = data.draw(filled(values[as_view(selection)].shape, some))
        ours[selection] = more
        assign(values, selection, more)
        same(read_by_numcodecs(root / "ours"), ours.read(), "ours")


def test_messagepack_without_its_package(tmp_path: Path) -> None:
    values = objects(["a", None, {"b": [1.5, -3]}, b"\xff"], (4,))
    z = hs.create_array(
        tmp_path / "a",
        shape=(4,),
        dtype=object,
        filters=[{"id": "msgpack2"}],
        zarr_format=2,
        compressors=None,
    )
    z[...] = values
    assert z.filters == ({"id": "msgpack2", "raw": False, "use_single_float": False, "use_bin_type": True},)
    # numcodecs.MsgPack().encode(values)
    stored = b"\x96\xa1a\xc0\x81\xa1b\x92\xcb?\xf8\0\0\0\0\0\0\xfd\xc4\x01\xff\xa2|O\x91\x04"
    assert (tmp_path / "a/0").read_bytes() == stored
    same(z[...], values)
    edit_json(tmp_path / "a/.zarray", filters=[{**z.filters[0], "raw": True}])
    same(hs.open_array(tmp_path / "a")[2], {b"b": [1.5, -3]})
    for wrong, error in [
        (2**64, OverflowError),
        ({1, 2}, TypeError),
        (1j, TypeError),
        ("\ud800", UnicodeError),
    ]:
        with pytest.raises(error) as caught:
            z[1:3] = objects([1, wrong], (2,))
        assert "value 1 in C order" in caught.value.__notes__[0]
    single = hs.create_array(
        {}, shape=(1,), dtype=object, filters=[{"id": "msgpack2", "use_single_float": True}], zarr_format=2
    )
    with pytest.raises(OverflowError, match="32 bits"):
        single[0] = [1e300]
    single[0] = [math.inf, 0.1]
    same(single[0], [math.inf, float(np.float32(0.1))])
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    with pytest.raises(ValueError, match="nested more than 511 deep"):
        z[0] = deep
    same(z[...], values)


def test_extensions_are_those_of_the_package() -> None:
    msgpack = pytest.importorskip("msgpack")
    values = objects(
        [msgpack.ExtType(5, b"ab"), msgpack.Timestamp(1, 2), [msgpack.ExtType(1, b"x" * 300)]], (3,)
    )
    z = hs.create_array(
        hs.MemoryStore(), shape=(3,), dtype=object, filters=[{"id": "msgpack2"}], zarr_format=2
    )
    z[...] = values
    assert z[...].tolist() == values.tolist()


def test_extensions_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "msgpack", None)
    store: dict[str, bytes] = {}
    z = hs.create_array(
        store, shape=(1,), dtype=object, filters=[{"id": "msgpack2"}], zarr_format=2, compressors=None
    )
    store["0"] = b"\x93\xd4\x05a\xa2|O\x91\x01"
    with pytest.raises(NotImplementedError, match="package msgpack: install it"):
        z[0]


@given(where=shapes_and_chunks(3), order=st.sampled_from("CF"), data=st.data())
@settings(max_examples=examples(40))
def test_categories_both_ways(where: Any, order: Any, data: st.DataObject) -> None:
    shape, chunks = where
    labels = data.draw(st.lists(st.sampled_from(["Rhine", "Elbe", "ß", "", "水" * 9]), max_size=5))
    codec = numcodecs.Categorize(
        labels, dtype=object, astype=data.draw(st.sampled_from(["u1", "<i2", ">u4"]))
    )
    values = data.draw(filled(shape, st.sampled_from([*labels, ""])))
    with scratch() as root:
        z = hs.create_array(
            root / "ours", shape=shape, chunks=chunks, dtype=object, zarr_format=2, order=order,
            fill_value="", filters=[codec], compressors=None, config={"write_empty_chunks": True},
        )  # fmt: skip
        z[...] = values.astype(np.dtypes.StringDType())
        assert z.dtype == np.dtypes.StringDType()
        write_by_numcodecs(root / "theirs", values, chunks, codec, order=order, fill_value="")
        assert chunk_files(root / "ours") == chunk_files(root / "theirs")
        theirs = hs.open_array(root / "theirs", mode="r")
        assert np.array_equal(theirs.read(), values.astype(np.dtypes.StringDType()))
        selection = data.draw(selections(shape))
        assert np.array_equal(theirs[selection], np.asarray(values[selection], np.dtypes.StringDType()))
        same(read_by_numcodecs(root / "ours"), values)


def test_text_that_is_no_category() -> None:
    labels = hs.codecs.Categorize(["a"], dtype=object)
    z = hs.create_array({}, shape=(3,), dtype=object, zarr_format=2, filters=[labels], compressors=None)
    assert z.filters == (labels,)
    with pytest.raises(hs.errors.HyperslabError, match='expected one of the labels, found "b"'):
        z[1] = "b"
    z[0] = "a"
    assert z[...].tolist() == ["a", "", ""]
    # numcodecs writes 0 for text without a label. 0, and a number without a label, read as empty.
    store: dict[str, bytes] = {}
    z = hs.create_array(store, shape=(3,), dtype=object, zarr_format=2, filters=[labels], compressors=None)
    store["0"] = b"\x01\x00\x09"
    assert z[...].tolist() == ["a", "", ""]
    like = hs.from_array({}, data=z)
    assert like.filters == (labels,) and like[...].tolist() == ["a", "", ""]
    for wrong in ([labels, hs.codecs.Delta("u1")], [hs.codecs.Categorize(["a"] * 256, dtype=object)]):
        with pytest.raises((ValueError, NotImplementedError)):
            hs.create_array({}, shape=(3,), dtype=object, zarr_format=2, filters=wrong)


def make(values: Any = None, **more: Any) -> hs.Array:
    arguments: dict[str, Any] = {"dtype": object, "zarr_format": 2, "object_codec": numcodecs.JSON(), **more}
    if values is not None:
        arguments["shape"] = values.shape
    z = hs.create_array(arguments.pop("store", {}), **arguments)
    if values is not None:
        z[...] = values
    return z


def test_lists_are_elements_below_the_axes() -> None:
    z = make(shape=(2, 2), chunks=(1, 2))
    z[...] = [["a", [1]], [{}, [[2]]]]
    assert z[...].tolist() == [["a", [1]], [{}, [[2]]]]
    z[0] = [[1, 2], [3, 4]]
    assert z[0].tolist() == [[1, 2], [3, 4]] and z[0].shape == (2,)
    z[1, 1] = [5, [6]]
    z[1, 0] = ()
    assert z[1].tolist() == [[], [5, [6]]]
    z[:, 0] = {"a": 1}
    assert z[:, 0].tolist() == [{"a": 1}] * 2
    z[...] = np.arange(4).reshape(2, 2)
    assert plain(z[1].tolist()) == plain([2, 3])
    z[...] = np.array(["x", "y"])
    assert plain(z[1].tolist()) == plain(["x", "y"])
    z[0, 0] = np.float32(0.5)
    assert plain(z[0, 0]) == plain(0.5)
    z[...] = None
    assert z[...].tolist() == [[None] * 2] * 2
    zero = make(shape=())
    zero[...] = [1, 2]
    assert zero[()] == [1, 2] and zero[...] == [1, 2]
    assert zero.read().shape == ()
    for wrong, error in [([1, 2, 3], hs.errors.ArrayShapeError), ([[1, 2], [3]], ValueError)]:
        with pytest.raises(error):
            z[...] = wrong
    with pytest.raises(TypeError, match="masked objects"):
        z[0] = np.ma.MaskedArray([1, 2], [True, False])


def test_many_objects() -> None:
    """More objects than one call parses from JSON."""
    some = ["a", None, {"b": [1, 2.5]}, 7, "é,]", [[]], -0.0]
    values = objects([some[n % 7] for n in range(40_000)], (200, 200))
    z = make(values, chunks=(150, 170))
    same(z[...], values)
    same(z[::-1, 3:190:2], values[::-1, 3:190:2])
    values[130, 7] = {1, 2}
    with pytest.raises(TypeError, match="set") as caught:
        z[...] = values
    assert f"value {130 * 200 + 7} in C order" in caught.value.__notes__[-1]


def test_an_interrupt_is_not_lost() -> None:
    class Key(dict[str, Any]):
        def items(self) -> Any:
            raise KeyboardInterrupt

    z = make(shape=(2,), object_codec=numcodecs.JSON(sort_keys=False))
    with pytest.raises(KeyboardInterrupt):
        z[...] = objects(["a", Key(b=1)], (2,))


def test_what_is_no_json() -> None:
    z = make(objects([1, "a"], (2,)))
    loop: list[Any] = []
    loop.append(loop)
    for wrong, error in [({1, 2}, TypeError), (1j, TypeError), (np.arange(2), TypeError), (loop, ValueError)]:
        with pytest.raises(error) as caught:
            z[...] = objects([5, wrong], (2,))
        assert "value 1 in C order" in caught.value.__notes__[0]
    assert z[...].tolist() == [1, "a"]
    strict = make(shape=(2,), object_codec=numcodecs.JSON(allow_nan=False, skipkeys=True, sort_keys=False))
    with pytest.raises(ValueError, match="JSON compliant"):
        strict[0] = math.nan
    strict[0] = {"a": 1, (1, 2): 2}
    assert strict[0] == {"a": 1}


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
def test_fill_values(tmp_path: Path, codec: str) -> None:
    for at, fill in enumerate(
        [None, 0, 1.5, "", "é", True, math.nan, -5, *([[], {"a": [1]}] if codec == "json2" else [])]
    ):
        path = tmp_path / str(at)
        z = hs.create_array(
            path,
            shape=(4,),
            chunks=(2,),
            dtype=object,
            zarr_format=2,
            filters=[{"id": codec}],
            fill_value=fill,
        )
        document = read_json(path / ".zarray")
        assert plain(document["fill_value"]) == plain(fill)
        for opened in (z, hs.open_array(path, mode="a")):
            assert plain(opened.fill_value) == plain(fill)
            same(opened[...], objects([fill] * 4, (4,)))
        z[1] = "x"
        same(z[...], objects([fill, "x", fill, fill], (4,)))
        # A chunk that holds only the fill value is not stored.
        z[1] = fill
        assert chunk_files(path) == {}
        like = hs.full_like(z, fill_value="y") if fill is None else hs.empty_like(z)
        assert plain(like[0]) == plain("y" if fill is None else fill)
    zeros = hs.zeros(3, dtype=object, zarr_format=2, filters=[{"id": codec}])
    assert zeros[...].tolist() == [0, 0, 0] and zeros.fill_value == 0
    with pytest.raises(ValueError, match="fill_value"):
        hs.create(3, dtype=object, zarr_format=2, filters=[{"id": codec}], fill_value={1, 2})
    if codec == "msgpack2":
        with pytest.raises(ValueError, match="expected null, a Boolean, a number or text"):
            hs.create(3, dtype=object, zarr_format=2, filters=[{"id": codec}], fill_value=[])
        with pytest.raises((ValueError, NotImplementedError), match="without axes"):
            hs.create((), dtype=object, zarr_format=2, filters=[{"id": codec}])


def test_everywhere_else(tmp_path: Path) -> None:
    values = objects(["a", None, {"b": [1, 2]}, [1.5], 7, ""], (3, 2))
    z = make(values, chunks=(2, 2), store=tmp_path / "a")
    assert z.vindex[[0, 2], [1, 0]].tolist() == [None, 7]
    assert z.oindex[[2, 0], [1]].tolist() == [[""], ["a"] and [None]]
    assert z.blocks[1].tolist() == [[7, ""]]
    assert z[np.array([True, False, True])].tolist() == values[[0, 2]].tolist()
    view = z.lazy[::-1, 1]
    assert view.read().tolist() == ["", [1.5], None]
    view.write([1, [2], {"c": 3}])
    assert z[:, 1].tolist() == [{"c": 3}, [2], 1]
    z.vindex[[0, 2], [1, 0]] = [["x"], "y"]
    assert (z[0, 1], z[2, 0]) == (["x"], "y")
    out = np.empty((3, 2), object)
    assert z.read(out=out) is out and out.tolist() == z[...].tolist()
    assert [row.tolist() for row in z] == z[...].tolist()
    assert [row.tolist() for _, row in z.stream()] == z[...].tolist()
    with z.writer() as writer:
        writer[0] = ["p", ["q"]]
    assert z[0].tolist() == ["p", ["q"]]
    z.append([[1, [2, 3]]])
    assert z.shape == (4, 2) and z[3].tolist() == [1, [2, 3]]
    z.resize((5, 2))
    assert z[4].tolist() == [None, None]
    assert "decode" in str(z.explain(...)) and "dtype=object" in repr(z)
    assert "json2" in str(z.info)
    for masked in (lambda: z.read(masked=True), lambda: z.read_ragged()):
        with pytest.raises(TypeError, match="variable length|are objects"):
            masked()
    assert z.metadata["filters"][0]["id"] == "json2"


def test_in_groups() -> None:
    group = hs.create_group({}, zarr_format=2)
    how: dict[str, Any] = {"shape": (2,), "dtype": object, "object_codec": numcodecs.JSON()}
    group.create_array("a", **how)[...] = [{"k": 1}, [2]]
    for found in (
        group["a"],
        group.require_array("a", **how),
        group.require_array("a", shape=(2,), dtype="O"),
    ):
        assert found[...].tolist() == [{"k": 1}, [2]]
    assert group.require_array("b", **how)[...].tolist() == [None, None]
    assert "object" in str(group.tree())
    assert hs.zeros_like(group["a"])[...].tolist() == [0, 0]
    like = hs.full_like(group["a"], fill_value={"z": []})
    assert like.metadata["fill_value"] == {"z": []} and like[...].tolist() == [{"z": []}] * 2


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
def test_resizing(codec: str) -> None:
    values = objects([{"n": n} for n in range(30)], (6, 5))
    for fill in (None, 7):
        z = make(values, chunks=(4, 2), object_codec={"id": codec}, order="F", fill_value=fill)
        z.append(values)
        z.resize((12, 7))
        assert z[:, :5].tolist() == values.tolist() * 2 and z[:, 5:].tolist() == [[fill] * 2] * 12
        z.resize((3, 3))
        z.resize((5, 5))
        assert z[:3, :3].tolist() == values[:3, :3].tolist()
        assert z[3:].tolist() == [[fill] * 5] * 2 and z[:3, 3:].tolist() == [[fill] * 2] * 3


def test_copies(tmp_path: Path) -> None:
    values = objects(["a", None, {"b": [1, 2]}, [1.5]], (4,))
    codec = numcodecs.JSON(indent=2, sort_keys=False)
    z = make(values, chunks=(3,), store=tmp_path / "a", object_codec=codec, fill_value={"fill": 0})
    z.resize((6,))
    expected = objects([*values, {"fill": 0}, {"fill": 0}], (6,))
    hs.copy(tmp_path / "a", tmp_path / "b", zarr_format=2, chunks=(2,), verify=True)
    copied = hs.open_array(tmp_path / "b")
    assert (copied.chunks, copied.filters) == ((2,), z.filters)
    same(copied[...], expected)
    with pytest.raises(ValueError, match="objects, which Zarr v3 has not; copy to format Zarr v2"):
        hs.copy(tmp_path / "a", tmp_path / "c", zarr_format=3)
    like = hs.from_array(tmp_path / "d", data=z)
    assert (like.filters, like.fill_value) == (z.filters, {"fill": 0})
    same(like[...], expected)
    with pytest.raises(NotImplementedError, match="Zarr v3 has no objects"):
        hs.from_array(tmp_path / "e", data=z, zarr_format=3)
    # Create arrays from data.
    for made in (
        hs.array(values, object_codec=numcodecs.JSON(), zarr_format=2),
        hs.create_array({}, data=values, object_codec=numcodecs.JSON(), zarr_format=2),
        hs.create_array(
            {}, data=["a", None, {"b": [1, 2]}, [1.5]], filters=[numcodecs.JSON()], zarr_format=2
        ),
    ):
        same(made[...], values)
    labels = numcodecs.Categorize(["a", "b"], dtype=object)
    names = hs.create_array(
        tmp_path / "f", data=np.array(["a", "", "b"], "T"), filters=[labels], zarr_format=2
    )
    for zarr_format in (2, 3):
        hs.copy(tmp_path / "f", tmp_path / f"f{zarr_format}", zarr_format=zarr_format)
        copied = hs.open_array(tmp_path / f"f{zarr_format}")
        assert copied[...].tolist() == ["a", "", "b"]
        assert (copied.filters == names.filters) == (zarr_format == 2)


def test_what_cannot_be_created() -> None:
    for arguments, says in [
        ({"zarr_format": 3}, "Zarr v3 has no objects"),
        ({"object_codec": numcodecs.Pickle()}, "object_codec: expected"),
        ({"object_codec": None, "filters": [numcodecs.Pickle()]}, "runs code|nothing of what"),
        ({"dtype": "f8"}, "does not go with"),
        ({"dtype": str}, "does not go with"),
        ({"object_codec": numcodecs.JSON(encoding="utf-16")}, "encoding"),
        ({"object_codec": {"id": "json2", "separators": [";", ":"]}}, "separators"),
        ({"object_codec": {"id": "json2", "x": 1}}, "unknown field"),
        ({"object_codec": {"id": "msgpack2", "strict": True}}, "unknown field"),
    ]:
        with pytest.raises((ValueError, TypeError, NotImplementedError), match=says):
            make(shape=(3,), **arguments)


@pytest.mark.parametrize("codec", ["json2", "msgpack2"])
def test_damaged_chunks(tmp_path: Path, codec: str) -> None:
    values = objects(["a", None, {"b": [1, 2.5]}, ["é", -300]], (2, 2))
    z = make(values, store=tmp_path / "a", object_codec={"id": codec}, compressors=None)
    (name, good), *_ = chunk_files(tmp_path / "a").items()
    decode = numcodecs.JSON().decode
    if codec == "msgpack2":
        decode = msgpack_codec().decode
    rng = np.random.default_rng(7)
    read = 0
    for at in range(len(good)):
        for bad in (
            good[:at],
            good[:at] + rng.bytes(1) + good[at + 1 :],
            good[:at] + rng.bytes(2) + good[at:],
        ):
            (tmp_path / "a" / name).write_bytes(bad)
            try:
                found = z[:]
            except (hs.errors.HyperslabError, ValueError, TypeError):
                continue
            read += 1
            same(found, decode(bad))
    assert read > 0
    deep = b"[" * 100_000 if codec == "json2" else b"\x91" * 100_000
    (tmp_path / "a" / name).write_bytes(deep)
    with pytest.raises(hs.errors.HyperslabError):
        z[0, 0]
