"""`hyperslab.Ragged`: the class, NumPy's types, Arrow."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pyarrow as pa
import pytest
from hyperslab import Ragged
from hypothesis import given
from hypothesis import strategies as st

# Lone surrogates are not text.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
# Text for NumPy's fixed-length types, which end at the last character that is not NUL.
NO_NUL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5)

KINDS = {
    "text": (TEXT, str, pa.large_string()),
    "bytes": (st.binary(max_size=30), bytes, pa.large_binary()),
    "items": (NUMBERS, hs.vlen_dtype("i4"), pa.large_list(pa.int32())),
}


@st.composite
def lists(draw: st.DrawFn, null: bool = True, one: str | None = None) -> tuple[list[Any], Any, Any]:
    """Draws a list, its type, and its Arrow type."""
    values, dtype, arrow = KINDS[one or draw(st.sampled_from(sorted(KINDS)))]
    return draw(st.lists(st.none() | values if null else values, max_size=12)), dtype, arrow


def as_list(element: Any) -> Any:
    return element.tolist() if isinstance(element, np.ndarray) else element


def same(found: Any, expected: Any) -> None:
    assert as_list(found) == expected, (found, expected)


# ---- from lists, and back


@given(lists())
def test_lists(case: tuple[list[Any], Any, Any]) -> None:
    values, dtype, _ = case
    r = Ragged.of(values, dtype)
    assert r.tolist() == values and len(r) == r.size == len(values) and r.shape == (len(values),)
    assert [as_list(element) for element in r] == values
    assert [as_list(element) for element in r.astype(object)] == values
    assert r == Ragged.of(r) == pickle.loads(pickle.dumps(r)) == copy.deepcopy(r)
    assert r.dtype == np.dtype(object) if dtype is not str else r.dtype == np.dtypes.StringDType()
    if any(value is not None for value in values):
        assert Ragged.of(values) == r or dtype not in (str, bytes)
    encoded = [v.encode() if isinstance(v, str) else v or () for v in values]
    assert r.lengths.tolist() == [len(value) for value in encoded]


@given(lists(), st.data())
def test_indices(case: tuple[list[Any], Any, Any], data: st.DataObject) -> None:
    values, dtype, _ = case
    r, reference = Ragged.of(values, dtype), np.empty(len(values), object)
    for index, value in enumerate(values):
        reference[index] = value
    key = data.draw(st.slices(len(values)))
    assert r[key].tolist() == reference[key].tolist()
    if values:
        at = data.draw(st.integers(-len(values), len(values) - 1))
        same(r[at], values[at])
        same(r[np.int64(at)], values[at])
        picked = data.draw(st.lists(st.integers(-len(values), len(values) - 1), max_size=5))
        assert r[picked].tolist() == [values[i] for i in picked]
        assert r[key][0:2].tolist() == reference[key][0:2].tolist()
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), bool)
    assert r[mask].tolist() == reference[mask].tolist()
    for wrong in (len(values), -len(values) - 1):
        with pytest.raises(IndexError):
            r[wrong]


@pytest.mark.parametrize("values", [["a", "bb", None, "", "c", "dd"], [b"a", b"", None, b"x", b"y", b"zz"]])
def test_axes(values: list[Any]) -> None:
    reference = np.array(values, object).reshape(2, 3)
    r = Ragged.of(reference)
    assert r.shape == (2, 3) and r.ndim == 2 and len(r) == 2 and r == Ragged.of(reference.tolist())
    for key in [
        0,
        (1, 2),
        (slice(None), 1),
        (slice(None, None, -1), [2, 0]),
        ...,
        (0, ...),
        slice(1, 2),
        ([0, 1], [1, 2]),
    ]:
        found, expected = r[key], reference[key]
        assert (found.tolist() if isinstance(found, Ragged) else found) == (
            expected.tolist() if isinstance(expected, np.ndarray) else expected
        ), key
    assert r.reshape(3, 2).tolist() == reference.reshape(3, 2).tolist() and r.reshape(-1).shape == (6,)
    assert r.to_numpy().shape == (2, 3) and pickle.loads(pickle.dumps(r[1:])) == r[1:]
    scalar = r.reshape(-1)[:1].reshape(())
    assert scalar.shape == () and scalar[()] == values[0]
    with pytest.raises(TypeError):
        len(scalar)


def test_views_and_copies() -> None:
    r = Ragged.of([[1, 2, 3], [], [4, 5]], hs.vlen_dtype("i4"))
    view = r[1:]
    assert np.shares_memory(view.values, r.values) and np.shares_memory(view.offsets, r.offsets)
    r[2][0] = 40
    assert view[1].tolist() == [40, 5] and r.astype(object)[2][0] == 40
    assert not np.shares_memory(r[[2]].values, r.values)
    assert len(pickle.dumps(Ragged.of([b"x" * 100_000, b"y"])[1:])) < 1000
    assert view.nbytes == view.offsets.nbytes + 8
    with pytest.raises(ValueError, match="read-only"):
        r.offsets[0] = 1
    # An element keeps the memory that it is a view of.
    cells = Ragged.of([np.arange(1000), np.arange(5)]).astype(object)
    last = cells[1]
    del cells
    gc.collect()
    assert last.tolist() == [0, 1, 2, 3, 4]


def test_equality() -> None:
    of = Ragged.of
    assert of(["a", None]) == of(["a", None]) != of(["a", ""])
    assert of(["a"]) != of([b"a"]) and of(["a", "b"]) != of([["a", "b"]])
    assert of(["ab", "c"]) != of(["a", "bc"])
    assert of([[1], [2]]) == of([[1.0], [2.0]]) != of([[1], [3]])
    hidden = Ragged([0, 1, 2], np.frombuffer(b"ab", "u1"), [True, False], dtype=bytes)
    assert hidden == of([b"a", None]) and hidden[1] is None and (of(["a"]) == 3) is False
    with pytest.raises(TypeError):
        hash(hidden)


def test_repr() -> None:
    assert repr(Ragged.of(["a", None])) == "Ragged(['a', None], dtype=str)"
    assert (
        repr(Ragged.of([b"a"] * 9))
        == "Ragged([b'a', b'a', b'a', ..., b'a', b'a', b'a'], shape=(9,), dtype=bytes)"
    )
    assert repr(Ragged.of([[1, 2], []])) == "Ragged([[1, 2], []], item dtype=int64)"
    assert repr(Ragged.of([["a", "b"], ["c", "d"]])) == "Ragged([['a', 'b'], ['c', 'd']], dtype=str)"
    assert len(repr(Ragged.of([["x" * 1000] * 4] * 2))) < 200


@pytest.mark.parametrize(
    "arguments",
    [
        ([], b""), ([[0]], b""), ([1, 0], b"ab"), ([-1, 0], b"ab"), ([0, 3], b"ab"),
        ([0, 1], b"ab", [True, False]), ([0, 1], b"a", None, (2,)), ([0, 2], b"\xc3\xa4\xff"[1:]),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(arguments: tuple[Any, ...]) -> None:
    offsets, values, validity, shape = (*arguments, None, None)[:4]
    with pytest.raises(ValueError):
        Ragged(offsets, np.frombuffer(values, "u1"), validity, dtype=str, shape=shape)


def test_parts() -> None:
    r = Ragged([1, 3, 3], np.array([9.0, 1, 2, 8]), [True, False])
    assert r.tolist() == [[1, 2], None] and r.values.dtype == np.float64
    nested = Ragged([0, 2, 2], r)
    assert nested[0].tolist() == [[1, 2], None] and nested == pickle.loads(pickle.dumps(nested))
    assert Ragged.of([[[1, 2], None], []], hs.vlen_dtype(hs.vlen_dtype("f8"))) == nested
    with pytest.raises(ValueError, match="uint8"):
        Ragged([0, 1], np.array([1.0]), dtype=str)
    with pytest.raises(ValueError, match="vlen_dtype"):
        Ragged([0, 1], np.array([1.0]), dtype="f8")


# ---- NumPy's types


@given(st.lists(NO_NUL, max_size=12))
def test_numpy_text(values: list[str]) -> None:
    r, strings = Ragged.of(values, str), np.array(values, "T")
    for dtype in ("T", np.dtypes.StringDType(), object, "U", "U30"):
        found = r.astype(dtype)
        assert found.tolist() == values and Ragged.of(found, str) == r
    assert r.to_numpy().dtype == strings.dtype and np.asarray(r).tolist() == values
    assert r.astype("S").tolist() == [value.encode() for value in values]
    assert Ragged.of(r.astype("S"), str) == r and Ragged.of(strings) == r
    assert Ragged.of(strings[::-1]).tolist() == values[::-1]
    swapped = np.array(values, "U").astype(np.array(values, "U").dtype.newbyteorder())
    assert Ragged.of(swapped, str) == r
    assert r.encode().tolist() == [value.encode() for value in values] and r.encode().decode() == r


@given(st.lists(st.none() | TEXT, max_size=12))
def test_null_in_numpy(values: list[str | None]) -> None:
    r, dtype = Ragged.of(values, str), np.dtypes.StringDType(na_object=None)
    assert r.to_numpy().tolist() == values == r.astype(dtype).tolist()
    assert Ragged.of(r.astype(dtype)) == r or not any(values)
    assert r.astype("T").tolist() == [value or "" for value in values]
    assert r.astype("U100").tolist() == [(value or "").rstrip("\0") for value in values]


@given(st.lists(st.binary(max_size=12), max_size=12))
def test_numpy_bytes(values: list[bytes]) -> None:
    r = Ragged.of(values, bytes)
    assert r.to_numpy().tolist() == values and r.to_numpy().dtype.kind == "O"
    assert r.astype("S12").tolist() == [value.rstrip(b"\0") for value in values]
    assert Ragged.of(r.astype("S")).tolist() == [value.rstrip(b"\0") for value in values]
    assert Ragged.of([bytearray(value) for value in values], bytes) == r
    assert Ragged.of([memoryview(value) for value in values], bytes) == r


def test_long_strings() -> None:
    # NumPy stores short strings in the array, longer ones in an arena with a length of one or eight
    # bytes.
    values = ["x" * n for n in (0, 1, 14, 15, 16, 17, 254, 255, 256, 257, 70_000)] * 3
    assert Ragged.of(Ragged.of(values).to_numpy()).tolist() == values


def test_what_has_no_such_type() -> None:
    with pytest.raises(ValueError, match="only 3 fit"):
        Ragged.of(["abcd"]).astype("S3")
    with pytest.raises(ValueError, match="4 characters"):
        Ragged.of(["äöüß"]).astype("U3")
    with pytest.raises(TypeError):
        Ragged.of(["1"]).astype("i4")
    with pytest.raises(TypeError, match="use dtype=object"):
        Ragged.of([[1]]).astype("U")
    wrong = Ragged.of([b"fine", b"\xff\xfe"])
    for refused in (wrong.decode, lambda: wrong.astype("T"), lambda: wrong.astype("U")):
        with pytest.raises(UnicodeDecodeError) as caught:
            refused()
        assert "element 1" in "".join(caught.value.__notes__)
    assert wrong.decode("latin-1").tolist() == ["fine", "ÿþ"]
    assert wrong.decode(errors="replace").tolist() == ["fine", "\ufffd\ufffd"]
    # A character that is split between two elements is invalid, although all bytes together are
    # text.
    cut = Ragged([0, 1, 2], np.frombuffer("ä".encode(), "u1"), dtype=bytes)
    with pytest.raises(UnicodeDecodeError):
        cut.decode()


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "<i4", ">i4", "<f8", "c16", "M8[s]", "S3", "i4,f8"])
def test_items(dtype: str) -> None:
    kind = np.dtype(dtype)
    cells = [
        np.arange(n).astype("i4").astype(kind) if kind.names is None else np.zeros(n, kind) for n in (3, 0, 1)
    ]
    if kind.kind == "M":
        cells = [np.arange(n).astype("i8").astype(kind) for n in (3, 0, 1)]
    r = Ragged.of(cells, hs.vlen_dtype(kind))
    assert r.values.dtype == kind
    assert kind.kind == "S" or Ragged.of(cells) == r
    for found, expected in zip(r.to_numpy(), cells, strict=True):
        assert found.dtype == kind and np.array_equal(found, expected)
    objects = np.empty(3, object)
    objects[:] = cells
    assert Ragged.of(objects) == r == Ragged.of(tuple(cells), r.dtype)
    assert r[[2, 1, 0]][2].tolist() == cells[0].tolist()


def test_rows_are_elements() -> None:
    array = np.arange(24, dtype="i2").reshape(2, 3, 4)
    r = Ragged.of(array[:, ::-1])
    assert r.shape == (2, 3) and r.tolist() == array[:, ::-1].tolist()
    array[:] = 0
    assert r[1, 0].tolist() == [20, 21, 22, 23]
    assert Ragged.of([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert Ragged.of([[[1, 2], [3]], [[], [4]]]).shape == (2, 2)
    assert Ragged.of([[1], [2.5]]).values.dtype == np.float64
    assert Ragged.of([[], []], hs.vlen_dtype("i4")).shape == (2,)
    assert Ragged.of([None, None], hs.vlen_dtype("i4")).tolist() == [None, None]
    assert Ragged.of([None, [1, 2]], hs.vlen_dtype("i4")).tolist() == [None, [1, 2]]
    assert Ragged.of([[1, 2], np.array([3])], hs.vlen_dtype("f4")).values.dtype == np.float32
    assert Ragged.of([], str).shape == Ragged.of([], bytes).shape == (0,)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["a", 1], None), (["a", b"b"], None), ([b"a", "b"], bytes), (["a", ["b"]], str),
        ([["a"], ["b", "c"]], str), (5, str), (5.0, None), ([1, 2], str), (np.arange(3), bytes),
        (np.array(["a"], "T"), bytes), (["\ud800"], str),
        ([[1], "a"], None), ([[[1, 2], [3]], [[4]]], hs.vlen_dtype("i4")), (np.array([b"\xff"]), str),
        ([object()], None), (Ragged.of(["a"]), bytes), (Ragged.of([[1]]), str), ("a", hs.vlen_dtype("i4")),
        (pa.array([1, 2]), None), (pa.array([["a"]]), None), (pa.array([[1, None]]), None),
        (pa.array(["a", "b"]).dictionary_encode(), None), (pa.array([{"a": 1}]), None),
    ],
)  # fmt: skip
def test_values_that_are_refused(values: Any, dtype: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Ragged.of(values, dtype)


# ---- Arrow


@given(lists(), st.integers(0, 3))
def test_to_arrow(case: tuple[list[Any], Any, Any], start: int) -> None:
    values, dtype, arrow = case
    r = Ragged.of(values, dtype)
    found = pa.array(r[start:])
    found.validate(full=True)
    assert found.type == arrow and found.to_pylist() == values[start:]
    assert found.null_count == values[start:].count(None)
    assert Ragged.of(found, dtype) == r[start:] and Ragged.of(found) == r[start:]
    assert pa.DataType._import_from_c_capsule(r.__arrow_c_schema__()) == arrow


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_arrow_shares_memory(kind: str) -> None:
    values = {"text": ["ä", "", "bc"], "bytes": [b"x", b"", b"yz"], "items": [[1], [], [2, 3]]}[kind]
    r = Ragged.of(values, KINDS[kind][1])
    array = pa.array(r)
    buffers = [buffer.address for buffer in array.buffers() if buffer is not None]
    assert buffers == [r.offsets.ctypes.data, r.values.ctypes.data]
    view = pa.array(r[1:])
    assert view.buffers()[1].address == r.offsets.ctypes.data + 8
    del r
    gc.collect()
    junk = [np.full(3, 255, "u1") for _ in range(1000)]
    assert array.to_pylist() == values and view.to_pylist() == values[1:] and len(junk) == 1000


def test_arrow_lets_memory_go() -> None:
    values = np.arange(5)
    r, gone = Ragged([0, 5], values), weakref.ref(values)
    array = pa.array(r)
    del r, values
    gc.collect()
    assert gone() is not None and array.to_pylist() == [[0, 1, 2, 3, 4]]
    del array
    gc.collect()
    assert gone() is None
    # Capsules that nobody consumes release their memory.
    values = np.arange(5)
    r, gone = Ragged([0, 5], values), weakref.ref(values)
    del values
    capsules = r.__arrow_c_array__()
    del r, capsules
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["a", None], pa.string()), ([b"a"], pa.binary()), ([[1], [2]], pa.list_(pa.int64())),
        ([["a", "b"], ["c", None]], pa.list_(pa.string(), 2)),
    ],
)  # fmt: skip
def test_small_types_where_they_are_asked_for(values: Any, wanted: Any) -> None:
    schema = pa.array(values, wanted).type.__arrow_c_schema__()
    found = pa.Array._import_from_c_capsule(*Ragged.of(values).__arrow_c_array__(schema))
    found.validate(full=True)
    assert found.type == wanted and found.to_pylist() == values


def test_arrow_of_other_shapes() -> None:
    nested = [[[1, 2], None], None, []]
    r = Ragged.of(nested, hs.vlen_dtype(hs.vlen_dtype("i2")))
    found = pa.array(r)
    found.validate(full=True)
    assert found.type == pa.large_list(pa.large_list(pa.int16())) and found.to_pylist() == nested
    axes = pa.array(Ragged.of([[["a", "b"]], [["c", None]], [["", "d"]]]))
    axes.validate(full=True)
    assert axes.type == pa.list_(pa.list_(pa.large_string(), 2), 1)
    assert axes.to_pylist() == [[["a", "b"]], [["c", None]], [["", "d"]]]
    empty = pa.array(Ragged.of(np.empty((3, 0), object), str))
    empty.validate(full=True)
    assert empty.to_pylist() == [[], [], []]
    text = Ragged.of([b"\xff"])
    text._kind = "text"
    with pytest.raises(UnicodeDecodeError):
        pa.array(text)


NUMBER_TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4"]


@pytest.mark.parametrize("dtype", [*NUMBER_TYPES, "M8[s]", "M8[ns]", "m8[ms]", "S4"])
def test_arrow_items(dtype: str) -> None:
    cells = [np.array([0, 1, 2]), np.array([1] * 9), np.array([], "i8")]
    cells = [cell.astype("i8" if dtype[0] in "Mm" else "i4").astype(dtype) for cell in cells]
    array = pa.array(Ragged.of(cells, hs.vlen_dtype(dtype)))
    array.validate(full=True)
    native = np.dtype(dtype).newbyteorder("=")
    assert array.type.value_type == (pa.binary(4) if dtype == "S4" else pa.from_numpy_dtype(native))
    if dtype[0] not in "MmS":
        assert array.to_pylist() == [cell.tolist() for cell in cells]
    if dtype != "S4":
        back = Ragged.of(array[1:])
        assert back.tolist() == Ragged.of(cells[1:]).tolist()
        assert back.values.dtype == native
    with pytest.raises(TypeError, match="complex"):
        pa.array(Ragged.of([np.zeros(2, "c8")]))


@given(lists(), st.integers(0, 4), st.integers(0, 12), st.booleans())
def test_from_arrow(case: tuple[list[Any], Any, Any], start: int, count: int, small: bool) -> None:
    values, dtype, arrow = case
    smaller = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(
        arrow, pa.list_(pa.int32())
    )
    array = pa.array(values, smaller if small else arrow).slice(start, count)
    expected = Ragged.of(values[start : start + count], dtype)
    assert Ragged.of(array) == expected == Ragged.of(array, dtype)
    chunked = pa.chunked_array([array, array.slice(1), array.slice(0, 0)])
    assert Ragged.of(chunked).tolist() == chunked.to_pylist()
    if dtype in (str, bytes):
        view = array.cast(pa.string_view() if dtype is str else pa.binary_view())
        assert Ragged.of(view) == expected and Ragged.of(view.slice(1)) == expected[1:]


def test_arrow_views() -> None:
    values = ["x" * n for n in (0, 4, 11, 12, 13, 14, 100)] + [None, "ä" * 50]
    assert Ragged.of(pa.array(values, pa.string_view())).tolist() == values


def test_polars() -> None:
    import polars as pl

    for values in (["a", None, "long enough not to be inline"], [[1], [2, 3], []]):
        r = Ragged.of(values)
        assert pl.Series(r).to_list() == values and Ragged.of(pl.Series(values)) == r
    assert pl.DataFrame({"a": pl.Series(Ragged.of([b"x", b""]))})["a"].to_list() == [b"x", b""]


# ---- elements of files


@pytest.fixture
def file(tmp_path: Any) -> tuple[Any, Any]:
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as made:
        made["text"] = ["Rhône", "", "x" * 500]
        made.create_dataset("never", (3,), h5py.string_dtype())
        made.create_dataset(
            "two axes", data=np.array([["a", "b"], ["c", "d"]], object), dtype=h5py.string_dtype()
        )
        rows = made.create_dataset("rows", (4,), h5py.vlen_dtype("<i4"))
        structure = np.dtype([("a", "f4"), ("b", "u2")])
        structures = made.create_dataset("structures", (3,), h5py.vlen_dtype(structure))
        for index in range(3):
            rows[index] = np.arange(2 * index)
            structures[index] = np.ones(index, structure)
        nested = made.create_dataset("nested", (2,), h5py.vlen_dtype(h5py.vlen_dtype("i2")))
        cells = np.empty(2, object)
        cells[:] = [np.array([1, 2], "i2"), np.array([3], "i2")]
        nested[0] = cells
        texts = made.create_dataset("texts", (2,), h5py.vlen_dtype(h5py.string_dtype()))
        texts[0] = np.array(["ä", "b"], object)
        kind = [("n", "i2"), ("name", h5py.string_dtype()), ("row", h5py.vlen_dtype("f8"))]
        compound = made.create_dataset("compound", (2,), kind)
        compound[0] = (1, "ä", np.array([1.5, 2]))
    return hs.open(path), h5py.File(path)


def test_datasets(file: Any) -> None:
    ours, theirs = file
    assert ours["text"].read_ragged().tolist() == ["Rhône", "", "x" * 500]
    assert ours["text"].read_ragged([2, 0])[1] == "Rhône" and ours["text"].read_ragged(0)[()] == "Rhône"
    assert ours["never"].read_ragged().tolist() == [None] * 3 and ours["never"][0] == b""
    assert ours["two axes"].read_ragged().tolist() == [["a", "b"], ["c", "d"]]
    assert ours["rows"].read_ragged().tolist() == [[], [0, 1], [0, 1, 2, 3], []]
    assert ours["rows"].read_ragged().values.dtype == "<i4"
    assert ours["structures"].read_ragged()[2].tolist() == [(1, 1), (1, 1)]
    assert ours["nested"].read_ragged().tolist() == [[[1, 2], [3]], []]
    assert ours["texts"].read_ragged().tolist() == [["ä", "b"], []]
    assert ours["compound"].fields("name").read_ragged().tolist() == ["ä", None]
    assert ours["compound"].fields("row").read_ragged(slice(0, 1)).tolist() == [[1.5, 2]]
    with pytest.raises(TypeError, match="one size"):
        ours["compound"].read_ragged()
    with pytest.raises(TypeError, match="member|one size"):
        ours["compound"].fields("n").read_ragged()


def test_datasets_as_h5py_reads_them(file: Any) -> None:
    ours, theirs = file
    for name in ("text", "never", "two axes", "rows", "structures", "nested", "texts", "compound"):
        found, expected = ours[name][...], theirs[name][...]
        assert found.dtype == expected.dtype and found.shape == expected.shape
        assert str(found) == str(expected), name
        for key in (0, -1, slice(1, None), [0, 1]):
            assert str(ours[name][key]) == str(theirs[name][key]), (name, key)
            assert type(ours[name][key]) is type(theirs[name][key])
        assert str(ours[name].oindex[[1, 0]]) == str(expected[[1, 0]])
        assert str(ours[name].read(slice(0, 2))) == str(expected[:2])
        out = np.empty(expected.shape, expected.dtype)
        ours[name].read(out=out)
        assert str(out) == str(expected)
        assert [str(row) for _, row in ours[name].stream()] == [str(row) for row in expected]
        assert [str(row) for row in ours[name]] == [str(row) for row in expected]
    rows = ours["rows"][...]
    rows[2][0] = 9
    assert rows[2].flags.writeable and rows[2].tolist() == [9, 1, 2, 3] and ours["rows"][2][0] == 0
    assert ours["rows"][2].dtype == theirs["rows"][2].dtype
    strings = ours["text"].astype("T")[...]
    assert strings.dtype == np.dtypes.StringDType() and strings.tolist() == ["Rhône", "", "x" * 500]
    assert ours["text"].astype("T")[0] == ours["text"].asstr()[0] == "Rhône"
    assert ours["never"].astype("T")[:].tolist() == ["", "", ""]
    assert ours["text"].asstr("latin-1")[0] == "Rhône".encode().decode("latin-1")
    with pytest.raises(UnicodeDecodeError):
        ours["text"].asstr("ascii")[0]
    assert ours["text"].asstr("ascii", "replace")[0] == "Rh\ufffd\ufffdne"


def test_offsets_of_others_are_not_touched() -> None:
    offsets = np.array([0, 1, 2])
    r = Ragged(offsets, np.arange(2))
    assert offsets.flags.writeable and not r.offsets.flags.writeable and r.tolist() == [[0], [1]]
    # The offsets were copied, so later changes have no effect.
    offsets[2] = 99
    assert pa.array(r).to_pylist() == r[[0, 1]].tolist() == r.tolist() == [[0], [1]]


def test_index_of_a_member(file: Any) -> None:
    ours, theirs = file
    assert ours["compound"]["name"].tolist() == theirs["compound"]["name"].tolist()
    assert ours["compound"]["n", 0] == 1 and ours["compound"][0]["name"] == "ä".encode()
    assert ours["compound"][("n", "name")].tolist() == theirs["compound"][("n", "name")].tolist()


@pytest.mark.parametrize("bad", [[-1, 2], [0, 4], [2, 1]])
def test_offsets_that_were_changed_behind_its_back_are_not_exported(bad: list[int]) -> None:
    """A consumer of these offsets would read outside of the values."""
    ragged = hs.Ragged([0, 2], np.array([1, 2, 3], "i4"))
    ragged._offsets = np.array(bad)
    with pytest.raises(ValueError, match="offsets: expected numbers that ascend"):
        ragged.__arrow_c_array__()


# ---- memory shared with others


def test_parts_are_not_changed_from_outside() -> None:
    offsets, values, valid = (
        np.array([0, 3, 6]),
        np.frombuffer(b"abcdef", "u1").copy(),
        np.array([True, True]),
    )
    r = Ragged(offsets, values, valid, dtype=bytes)
    lent = pa.array(r)
    offsets[1:], values[:], valid[:] = 10**10, 0, False
    assert lent.to_pylist() == r.tolist() == [b"abc", b"def"]
    for name in ("offsets", "values", "validity", "shape"):
        with pytest.raises(AttributeError):
            setattr(r, name, getattr(r, name))
    for part in (r.offsets, r.values, r.validity, r.offsets[1:], r.offsets.view("u8"), r[1:].values):
        assert not part.flags.writeable
        with pytest.raises(ValueError):
            part.flags.writeable = True


def test_what_was_read_is_lent_without_a_copy(tmp_path: Any) -> None:
    z = hs.create_array(tmp_path / "text", shape=(1000,), chunks=(100,), dtype=str)
    z[:] = [f"row {n}" for n in range(1000)]
    r = z.read_ragged()
    lent = pa.array(r)
    assert lent.buffers()[2].address == r.values.ctypes.data and not r.values.flags.writeable
    assert lent.buffers()[1].address == r.offsets.ctypes.data
    assert lent[7].as_py() == "row 7"


def test_parts_that_were_put_in_are_copied_and_checked() -> None:
    # Changing private attributes must not lead to reads outside of the memory either.
    r = Ragged([0, 3, 6], np.frombuffer(b"abcdef", "u1"), dtype=bytes)
    r._values = np.arange(64, dtype="u1")[::-1][:6]
    assert pa.array(r).to_pylist() == r.tolist() == [bytes([63, 62, 61]), bytes([60, 59, 58])]
    for name, part in (
        ("_offsets", np.array([0, 3, 7])),
        ("_offsets", np.array([0, -3, 6])),
        ("_offsets", np.array([0, 6])),
        ("_values", np.zeros(5, "u1")),
        ("_validity", np.ones(3, bool)),
        ("_shape", (10**6,)),
    ):
        bad = r[:]
        setattr(bad, name, part)
        with pytest.raises(ValueError):
            pa.array(bad)
    text = Ragged.of(["ab", "cd"])
    text._values = np.full(4, 0xFF, "u1")
    with pytest.raises(UnicodeDecodeError):
        pa.array(text)
    # A read-only view of memory that others can write does not protect it.
    mine = np.array([0, 3, 6])
    view = mine[:]
    view.flags.writeable = False
    lent = pa.array(Ragged(view, np.frombuffer(b"abcdef", "u1"), dtype=bytes))
    mine[1] = 10**10
    assert lent.to_pylist() == [b"abc", b"def"]


def test_booleans_of_other_bytes() -> None:
    valid = np.array([2, 0, 255], "u1").view(bool)
    r = Ragged([0, 1, 2, 3], np.frombuffer(b"abc", "u1"), valid, dtype=bytes)
    assert r.tolist() == pa.array(r).to_pylist() == r.astype(object).tolist() == [b"a", None, b"c"]
    assert r.validity.view("u1").tolist() == [1, 0, 1]
    flags = np.array([2, 0, 4, 1], "u1").view(bool)
    assert pa.array(Ragged([0, 2, 4], flags)).to_pylist() == [[True, False], [True, True]]
