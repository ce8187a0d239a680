"""Arrays with elements of variable length are created, read and written as in NumPy.

zarr-python checks the stored data.
"""

from __future__ import annotations

import pickle
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pyarrow as pa
import pytest
import zarr
from hyperslab import Ragged
from hypothesis import given
from hypothesis import strategies as st

STRINGS = np.dtypes.StringDType()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def as_lists(found: Any) -> Any:
    """Converts arrays to lists, at any depth."""
    if isinstance(found, np.ndarray) and found.dtype == object:
        return [as_lists(element) for element in found]
    if isinstance(found, list):
        return [as_lists(element) for element in found]
    return found.tolist() if isinstance(found, np.ndarray) else found


def make(kind: Any, shape: Any = (6,), **more: Any) -> hs.Array:
    return hs.create_array(
        hs.MemoryStore(), **{"shape": shape, "dtype": kind, "chunks": (2,) * len(shape), **more}
    )


# ---- creating


@pytest.mark.parametrize(
    "dtype", [str, "T", STRINGS, "string", hs.vlen_dtype(str), np.dtype("O", metadata={"vlen": str})]
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_text(dtype: Any, zarr_format: Any) -> None:
    z = make(dtype, zarr_format=zarr_format)
    assert z.dtype == STRINGS and z.fill_value == "" and z[...].tolist() == [""] * 6
    z[1:3] = ["é", "bc"]
    assert z[:3].dtype == STRINGS and z[:3].tolist() == ["", "é", "bc"]
    assert type(z[1]) is str and z[1] == "é" and isinstance(z.read(1), np.ndarray) and z.read(1).shape == ()
    assert (
        z.nbytes == 6 * 16 and "StringDType" in repr(z) and "StringDType" in z._repr_html_() and str(z.info)
    )


@pytest.mark.parametrize("dtype", [bytes, "variable_length_bytes", hs.vlen_dtype(bytes)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_bytes(dtype: Any, zarr_format: Any) -> None:
    z = make(dtype, zarr_format=zarr_format, fill_value=b"\0f")
    assert z.dtype == object and z.dtype.metadata["vlen"] is bytes and z.fill_value == b"\0f"
    z[::2] = [b"a\0", b"", None]
    assert z[...].tolist() == [b"a\0", b"\0f", b"", b"\0f", b"", b"\0f"] and z[0] == b"a\0"


def test_arrays() -> None:
    z = make(hs.vlen_dtype("<i4"), zarr_format=2)
    assert z.dtype == object and z.dtype.metadata["vlen"] == "<i4"
    assert z.fill_value.tolist() == [] and z.fill_value.dtype == "<i4"
    z[:3] = [[1, 2], [], [3]]
    z[3] = [4, 5, 6]
    z[4:6] = np.array([[7, 8], [9, 10]])
    assert as_lists(z[...]) == [[1, 2], [], [3], [4, 5, 6], [7, 8], [9, 10]]
    assert z[0].dtype == "<i4" and z[-1].tolist() == [9, 10]
    z[0] = []
    z[4:] = [1]
    assert as_lists(z[...]) == [[], [], [3], [4, 5, 6], [1], [1]]
    for equal in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]], "f8"), (np.array([1, 2]), [3, 4])):
        z[:2] = equal
        assert as_lists(z[:2]) == [[1, 2], [3, 4]]
    with pytest.raises(NotImplementedError, match="zarr_format=2"):
        make(hs.vlen_dtype("<i4"))


@pytest.mark.parametrize(
    ("arguments", "dtype"),
    [
        ({"object_codec": numcodecs.VLenUTF8()}, STRINGS), ({"filters": [numcodecs.VLenUTF8()]}, STRINGS),
        ({"filters": numcodecs.VLenUTF8()}, STRINGS),
        ({"filters": [{"id": "vlen-bytes"}]}, hs.vlen_dtype(bytes)),
        ({"object_codec": numcodecs.VLenBytes()}, hs.vlen_dtype(bytes)),
        ({"object_codec": numcodecs.VLenArray("<i4")}, hs.vlen_dtype("<i4")),
        ({"filters": [numcodecs.VLenArray("<f8"), numcodecs.CRC32C()]}, hs.vlen_dtype("<f8")),
    ],
)  # fmt: skip
def test_as_zarr_python_2_says_it(arguments: Any, dtype: Any) -> None:
    store = hs.MemoryStore()
    for kind in (object, "O"):
        z = hs.create_array(
            store, shape=(3,), chunks=(2,), dtype=kind, zarr_format=2, overwrite=True, **arguments
        )
        assert z.dtype == dtype and z.dtype.metadata == dtype.metadata
        assert z.filters[0]["id"].startswith("vlen-") and z.metadata["dtype"] == "|O"
    assert hs.create(3, dtype=object, zarr_format=2, **arguments).dtype == dtype
    assert hs.create_group(hs.MemoryStore(), zarr_format=2).create_array(
        "a", shape=3, dtype=object, **arguments
    ).dtype == dtype  # fmt: skip
    if dtype == STRINGS:
        assert hs.create(3, zarr_format=3, dtype=str, serializer={"name": "vlen-utf8"}).dtype == STRINGS
        assert (
            hs.create(3, zarr_format=3, dtype=object, serializer=zarr.codecs.VLenUTF8Codec()).dtype == STRINGS
        )


def test_what_cannot_be_created() -> None:
    for arguments, says in [
        ({"dtype": object}, "vlen_dtype"), ({"dtype": hs.vlen_dtype(hs.vlen_dtype("i4"))}, "not supported"),
        ({"dtype": str, "fill_value": 5}, "no text"), ({"dtype": str, "fill_value": b"a"}, "no text"),
        ({"dtype": bytes, "fill_value": "a"}, "no bytes"),
        ({"dtype": str, "fill_value": ["a", "b"]}, "one value"),
        ({"dtype": object, "zarr_format": 2, "object_codec": numcodecs.Pickle()}, "vlen-utf8"),
        ({"dtype": bytes, "zarr_format": 2, "object_codec": numcodecs.VLenUTF8()}, "does not go with"),
        ({"dtype": hs.vlen_dtype("<i4"), "zarr_format": 2, "fill_value": [1]}, "empty"),
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError, NotImplementedError), match=says):
            hs.create_array(hs.MemoryStore(), shape=(3,), **arguments)


def test_data() -> None:
    texts, blobs = ["a", "ü", ""], [b"x", b"", b"yz"]
    for data in (
        np.array(texts, "T"),
        np.array(texts, object),
        Ragged.of(texts),
        pa.array(texts),
        pa.chunked_array([texts]),
    ):
        z = hs.create_array(hs.MemoryStore(), data=data)
        assert z.dtype == STRINGS and z[...].tolist() == texts
        assert hs.array(data)[...].tolist() == texts and hs.array(data, zarr_format=2)[1] == "ü"
    assert hs.array(texts).dtype == "U1" and hs.array(texts, dtype=str)[...].tolist() == texts
    for data in (np.array(blobs, object), pa.array(blobs)):
        assert hs.array(data)[...].tolist() == blobs
    assert hs.array(pa.array([1, 2])).dtype == "i8" and hs.array(np.array([["a"], ["b"]], object)).shape == (
        2,
        1,
    )
    z = hs.array([[1], [2, 3]], dtype=hs.vlen_dtype("i2"), zarr_format=2)
    assert as_lists(z[...]) == [[1], [2, 3]] and as_lists(hs.array(z, zarr_format=2)[...]) == [[1], [2, 3]]
    assert as_lists(hs.array(pa.array([[1], []]), zarr_format=2)[...]) == [[1], []]
    group = hs.create_group(hs.MemoryStore())
    group["a"] = np.array(texts, object)
    assert group["a"][...].tolist() == texts and hs.full(2, "x", dtype=str)[...].tolist() == ["x", "x"]
    store = hs.MemoryStore()
    hs.save(store, np.array(texts, "T"))
    assert hs.load(store).tolist() == texts
    assert hs.empty((2,), dtype=bytes)[...].tolist() == [b"", b""]


# ---- reading and writing as NumPy


@given(st.data(), st.sampled_from([2, 3]), st.sampled_from(["C", "F"]))
def test_as_numpy(data: st.DataObject, zarr_format: Any, order: Any) -> None:
    shape, chunks = (5, 4), data.draw(st.sampled_from([(5, 4), (2, 3), (1, 1)]))
    texts = data.draw(st.lists(TEXT, min_size=20, max_size=20))
    fill = data.draw(TEXT)
    z = make(str, shape, chunks=chunks, zarr_format=zarr_format, order=order, fill_value=fill)
    # The reference holds objects: NumPy 2.0 loses its own strings when lists pick them. `np.full`
    # would strip NULs from the end of a text.
    reference = np.empty(shape, object)
    reference.fill(fill)
    values = np.array(texts, STRINGS).reshape(shape)
    for _ in range(3):
        rows, columns = data.draw(st.slices(5)), data.draw(st.slices(4))
        z[rows, columns] = values[rows, columns]
        reference[rows, columns] = values[rows, columns]
    z[2] = "ä"
    reference[2] = "ä"
    z[:, [3, 0]] = values[:, :1]
    reference[:, [3, 0]] = values[:, :1]
    assert z[...].tolist() == reference.tolist()
    for key in [
        (rows, columns),
        (-1, 2),
        ([3, 1], slice(None)),
        (slice(None, None, -2), [2, 2]),
        reference == "ä",
    ]:
        found, expected = z[key], reference[key]
        assert found == expected if isinstance(found, str) else found.tolist() == expected.tolist()
        assert z.read_ragged(key).to_numpy().tolist() == np.asarray(expected, object).tolist()
    assert z.oindex[[4, 0], [1, 2]].tolist() == reference[np.ix_([4, 0], [1, 2])].tolist()
    assert z.vindex[[4, 0], [1, 2]].tolist() == reference[[4, 0], [1, 2]].tolist()
    assert z.blocks[0, 0].tolist() == reference[: chunks[0], : chunks[1]].tolist()
    assert [row.tolist() for row in z] == reference.tolist() == np.asarray(z).tolist()
    assert [(i, row.tolist()) for i, row in z.stream()] == list(enumerate(reference.tolist()))
    assert [row.tolist() for _, row in z.stream(axis=1, start=1)] == reference.T[1:].tolist()
    out = np.empty(shape, STRINGS)
    assert z.read(out=out) is out and out.tolist() == reference.tolist()


VALUES: dict[str, Any] = {
    "list": ["a", "bü", None], "objects": np.array(["a", "bü", None], object), "tuple": ("a", "bü", ""),
    "T": np.array(["a", "bü", ""], "T"), "U": np.array(["a", "bü", ""]),
    "T with null": np.array(["a", "bü", None], np.dtypes.StringDType(na_object=None)),
    "S": np.array([b"a", "bü".encode(), b""]), "arrow": pa.array(["a", "bü", None]),
    "small arrow": pa.array(["x", "a", "bü", None], pa.string())[1:], "ragged": Ragged.of(["a", "bü", None]),
    "view": Ragged.of(["x", "a", "bü", None])[1:], "chunked": pa.chunked_array([["a"], ["bü", None]]),
    "reversed": np.array(["", "bü", "a"], "T")[::-1], "np.str_": [np.str_("a"), np.str_("bü"), None],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_kinds_of_values(name: str, zarr_format: Any) -> None:
    z = make(str, zarr_format=zarr_format, fill_value="f")
    z[1:6:2] = VALUES[name]
    assert z[...].tolist() == ["f", "a", "f", "bü", "f", ""]
    with z.writer() as writer:
        writer[:3] = VALUES[name]
    z.oindex[[5, 4, 3],] = VALUES[name]
    assert z[...].tolist() == ["a", "bü", "", "", "bü", "a"]
    z.write(slice(0, 3), VALUES[name], threads=1)
    z.vindex[[3, 4, 5]] = VALUES[name]
    assert z[...].tolist() == ["a", "bü", ""] * 2
    assert z.append(VALUES[name]) == (9,) and z[6:].tolist() == ["a", "bü", ""]
    z.resize(10)
    assert z[9] == "f"


def test_broadcasting() -> None:
    z = make(bytes, (2, 3))
    z[...] = b"x"
    z[0] = [b"a", b"b", None]
    z[:, 1:2] = [[b"c"], [b"d"]]
    assert z[...].tolist() == [[b"a", b"c", b""], [b"x", b"d", b"x"]]
    z[...] = None
    assert z[...].tolist() == [[b""] * 3] * 2
    z.vindex[[[0, 1], [1, 0]], [[0, 0], [1, 1]]] = [b"1", b"2", b"3", b"4"]
    assert z[...].tolist() == [[b"1", b"4", b""], [b"2", b"3", b""]]
    for wrong in ([b"a", b"b"], np.array([b"a"] * 4)):
        with pytest.raises(ValueError, match=r"shape|broadcast"):
            z[0] = wrong
    for refused in ("text", 5, [1, 2, 3], np.arange(3)):
        with pytest.raises(TypeError):
            z[0] = refused
    with pytest.raises(IndexError):
        z[5]
    with pytest.raises(TypeError, match="one size"):
        hs.zeros(3).read_ragged()
    with pytest.raises(TypeError, match="NumPy array"):
        z.read(out=bytearray(6))
    with pytest.raises(ValueError, match="shape"):
        z.read(out=np.empty(5, object))
    with pytest.raises(ValueError, match="type"):
        z.read(out=np.empty((2, 3), "S5"))


def test_wrong_text_is_refused() -> None:
    store = hs.MemoryStore()
    z = hs.create_array(store, shape=(2,), dtype=str, compressors=None)
    z[...] = ["ab", "c"]
    (key,) = (key for key in store.list("") if key.startswith("c/"))
    store.set(key, store.get(key).replace(b"ab", b"\xffb"))
    for read in (lambda: z[...], lambda: z[0], z.read_ragged):
        with pytest.raises((hs.HyperslabError, UnicodeDecodeError)):
            read()


@pytest.mark.parametrize(
    "dtype", [str, "variable_length_bytes", hs.vlen_dtype("f8"), hs.optional_dtype("f8")]
)
def test_lists_nested_without_end_are_refused(dtype: Any) -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    deep: Any = [None]
    for _ in range(100_000):
        deep = [deep]
    sequences = isinstance(dtype, np.dtype) and dtype.kind == "O"
    z = hs.create_array(hs.MemoryStore(), shape=(2,), dtype=dtype, zarr_format=2 if sequences else 3)
    before = as_lists(z[...])
    for values in (endless, deep):
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            z[...] = values
    assert as_lists(z[...]) == before


# ---- zarr-python


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["text", "bytes", "arrays"])
def test_both_ways_with_zarr_python(tmp_path: Any, zarr_format: Any, kind: str) -> None:
    if kind == "arrays":
        if zarr_format == 3:
            pytest.skip("Zarr v3 has no arrays of variable length")
        z = hs.create_array(
            tmp_path / "a", shape=(3,), chunks=(2,), dtype=hs.vlen_dtype("<i4"), zarr_format=2
        )
        z[:2] = [[1, 2], []]
        stored = (tmp_path / "a" / "0").read_bytes()
        assert as_lists(numcodecs.VLenArray("<i4").decode(numcodecs.Zstd().decode(stored))) == [[1, 2], []]
        objects = np.empty(2, object)
        objects[:] = [np.array([7], "<i4"), np.array([8, 9], "<i4")]
        (tmp_path / "a" / "1").write_bytes(
            numcodecs.Zstd().encode(numcodecs.VLenArray("<i4").encode(objects))
        )
        assert as_lists(z[...]) == [[1, 2], [], [7]]
        return
    values = ["a", "ü" * 100, "", "d"] if kind == "text" else [b"a", b"\xff" * 100, b"", b"d"]
    dtype: Any = str if kind == "text" else "variable_length_bytes"
    z = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype=dtype, zarr_format=zarr_format)
    z[:4] = values
    theirs = zarr.open_array(str(tmp_path / "a"))
    assert theirs[...].tolist()[:4] == values and theirs.shape == (5,)
    theirs[1:3] = np.array(["x", "yy"], theirs.dtype) if kind == "text" else np.array([b"x", b"yy"], object)
    assert z[...].tolist()[:4] == [values[0], *theirs[1:3].tolist(), values[3]]
    if kind == "bytes" and zarr_format == 2:
        return  # zarr-python has no name for this type
    options: Any = {"dtype": str} if kind == "text" else {"dtype": "variable_length_bytes"}
    made = zarr.create_array(str(tmp_path / "b"), shape=(4,), chunks=(3,), zarr_format=zarr_format, **options)
    made[...] = np.array(values, made.dtype)
    ours = hs.open(tmp_path / "b")
    assert ours[...].tolist() == values and ours.read_ragged().tolist() == values and ours.dtype == made.dtype


def test_pickling(tmp_path: Any) -> None:
    z = hs.create_array(tmp_path / "a", shape=(3,), dtype=str, fill_value="é")
    assert pickle.loads(pickle.dumps(z))[1] == "é" and pickle.loads(pickle.dumps(z)).dtype == STRINGS


def test_shards() -> None:
    z = make(str, (12,), chunks=(2,), shards=(6,))
    z[1:9] = [str(n) * n for n in range(1, 9)]
    assert z[...].tolist() == ["", *(str(n) * n for n in range(1, 9)), "", "", ""]
    z[3] = None
    assert z[[3, 4]].tolist() == ["", "4444"] and z.nchunks_initialized >= 0


def test_dask() -> None:
    z = make(str)
    z[...] = list("abcdef")
    import dask.array

    assert dask.array.from_array(z, chunks=(2,))[1:4].compute().tolist() == ["b", "c", "d"]
