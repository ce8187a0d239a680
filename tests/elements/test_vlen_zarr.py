"""Elements of variable length in Zarr: hyperslab, zarr-python, numcodecs read each other's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import broadcastable, filled, objects, selections, shapes_and_chunks
from support import as_view, assign, chunk_files, edit_json, examples, read_json, scratch

Objects = np.ndarray[Any, np.dtype[np.object_]]

#: Short and long texts, ASCII and others, with NULs, and the fill values.
TEXTS = st.one_of(
    st.sampled_from(["", "x", "n/a", "Rhône", "\0", "a\0b", "水" * 40]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
BYTES = st.one_of(st.sampled_from([b"", b"x", b"n/a", b"\0\xff"]), st.binary(max_size=20))
COMPRESSORS: dict[int, list[Any]] = {
    2: [None, {"id": "zstd", "level": 1}, {"id": "gzip", "level": 1}, {"id": "zlib", "level": 1}],
    3: [
        None,
        [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
        [{"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}],
    ],
}


@st.composite
def kinds(draw: st.DrawFn, zarr_format: int | None = None) -> dict[str, Any]:
    """Draws the arguments of an array, except its type."""
    shape, chunks = draw(shapes_and_chunks(3))
    zarr_format = zarr_format or draw(st.sampled_from([2, 3]))
    compressors = draw(st.sampled_from(COMPRESSORS[zarr_format]))
    made: dict[str, Any] = {"shape": shape, "chunks": chunks, "zarr_format": zarr_format}
    made["compressors"] = compressors
    if zarr_format == 3 and shape and draw(st.booleans()):
        made["shards"] = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks)
    if draw(st.booleans()):
        made["order"] = "F" if zarr_format == 2 else "C"
    return made


def for_zarr(kind: dict[str, Any]) -> dict[str, Any]:
    made = dict(kind)
    if kind["zarr_format"] == 2 and kind["compressors"] is not None:
        made["compressors"] = numcodecs.get_codec(dict(kind["compressors"]))
    return made


def same(found: Any, expected: Objects, what: str = "") -> None:
    """Compares elements, whatever type NumPy gives them."""
    if not isinstance(expected, np.ndarray):
        assert found == expected, f"{what}: {found!r}, expected {expected!r}"
        return
    # Not as `U`, which drops NULs at the end of a text.
    found = np.asarray(found, object if isinstance(found, str | bytes) else None)
    assert found.shape == expected.shape, what
    ours, theirs = found.astype(object).ravel().tolist(), expected.ravel().tolist()
    for at, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(other, np.ndarray):
            assert np.asarray(one).dtype == other.dtype, f"{what}: element {at}"
            assert np.array_equal(one, other), f"{what}: element {at}: {one!r}, expected {other!r}"
        else:
            assert one == other, f"{what}: element {at}: {one!r}, expected {other!r}"


def same_by_zarr(theirs: zarr.Array, expected: Objects, what: str) -> None:
    """Compares with what zarr-python reads. Older versions drop the last NULs of a scalar text."""
    is_older = tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4)
    if is_older and np.ndim(expected) == 0:
        assert str(theirs[...]).rstrip("\0") == str(np.asarray(expected)[()]).rstrip("\0"), what
    else:
        same(theirs[...], expected, what)


@given(kind=kinds(), data=st.data())
@settings(max_examples=examples(120))
def test_zarr_python_writes_text_and_we_read(kind: dict[str, Any], data: st.DataObject) -> None:
    fill = data.draw(st.sampled_from(["", "n/a"]))
    values = data.draw(filled(kind["shape"], TEXTS))
    with scratch() as root:
        theirs = zarr.create_array(str(root / "a"), dtype=str, fill_value=fill, **for_zarr(kind))
        theirs[...] = values.astype(np.dtypes.StringDType())
        ours = hs.open_array(root / "a", mode="r")
        assert ours.dtype == theirs.dtype == np.dtypes.StringDType()
        assert (ours.shape, ours.chunks, ours.shards) == (theirs.shape, theirs.chunks, theirs.shards)
        assert ours.fill_value == theirs.fill_value == fill
        same(ours[...], values, "all")
        ragged = ours.read_ragged()
        assert ragged.shape == values.shape
        same(np.asarray(ragged), values, "ragged")
        for _ in range(3):
            selection = data.draw(selections(kind["shape"]))
            same(ours[selection], values[selection], repr(selection))
            assert ours[selection].dtype == ours.dtype if np.ndim(values[selection]) else True


@given(kind=kinds(), data=st.data())
@settings(max_examples=examples(120))
def test_we_write_text_and_zarr_python_reads(kind: dict[str, Any], data: st.DataObject) -> None:
    fill = data.draw(st.sampled_from(["", "n/a"]))
    values = data.draw(filled(kind["shape"], TEXTS))
    with scratch() as root:
        ours = hs.create_array(root / "a", dtype=str, fill_value=fill, **kind)
        how = data.draw(st.sampled_from(["StringDType", "object", "list", "ragged"]))
        given_: Any = values
        if how == "StringDType":
            given_ = values.astype(np.dtypes.StringDType())
        elif how == "list":
            given_ = values.tolist()
        elif how == "ragged":
            given_ = hs.Ragged.of(values)
        if how != "list" or values.size:
            ours[...] = given_
        theirs = zarr.open_array(str(root / "a"), mode="r")
        model = values.copy()
        same_by_zarr(theirs, model, how)
        for _ in range(3):
            selection = data.draw(selections(kind["shape"]))
            shape = data.draw(broadcastable(np.shape(model[as_view(selection)])))
            value = data.draw(filled(shape, TEXTS))
            assign(model, selection, value)
            ours[selection] = value if shape else value[()]
        same(ours[...], model, "parts")
        same_by_zarr(theirs, model, "parts, zarr-python")


def test_metadata_is_that_of_zarr_python(tmp_path: Path) -> None:
    for zarr_format, name in ((2, ".zarray"), (3, "zarr.json")):
        for dtype, theirs in ((str, str), ("variable_length_bytes", "variable_length_bytes")):
            if zarr_format == 2 and dtype is not str:
                continue  # zarr-python writes no bytes of variable length in v2
            for more in ({}, {"fill_value": "n/a"}) if dtype is str else ({},):
                for root in ("ours", "theirs"):
                    (tmp_path / root).mkdir(exist_ok=True)
                arguments = {"shape": (50, 3), "chunks": (10, 2), "zarr_format": zarr_format, **more}
                hs.create_array(tmp_path / "ours", dtype=dtype, overwrite=True, **arguments)
                zarr.create_array(str(tmp_path / "theirs"), dtype=theirs, overwrite=True, **arguments)
                assert read_json(tmp_path / "ours" / name) == read_json(tmp_path / "theirs" / name)


# zarr-python cannot encode bytes in an array without axes.
@given(kind=kinds(3).filter(lambda kind: kind["shape"] != ()), data=st.data())
@settings(max_examples=examples(60))
def test_bytes_both_ways(kind: dict[str, Any], data: st.DataObject) -> None:
    values = data.draw(filled(kind["shape"], BYTES))
    with scratch() as root:
        theirs = zarr.create_array(str(root / "theirs"), dtype="variable_length_bytes", **for_zarr(kind))
        theirs[...] = values
        same(hs.open_array(root / "theirs")[...], values, "theirs")
        ours = hs.create_array(root / "ours", dtype="variable_length_bytes", **kind)
        assert ours.dtype == object
        ours[...] = values
        same(zarr.open_array(str(root / "ours"))[...], values, "ours")


@given(
    kind=kinds(2).filter(lambda kind: kind["shape"] != ()),
    dtype=st.sampled_from(["<i4", ">f8", "|u1", "<c8"]),
    data=st.data(),
)
@settings(max_examples=examples(60))
def test_ragged_rows_and_bytes_of_v2(kind: dict[str, Any], dtype: str, data: st.DataObject) -> None:
    """zarr-python 3 no longer has these types, so numcodecs checks each chunk."""
    rows = st.builds(
        lambda n, seed: np.random.default_rng(seed).integers(0, 100, n).astype(dtype),
        st.sampled_from([0, 1, 2, 2, 7]),
        st.integers(0, 100),
    )
    is_bytes = data.draw(st.booleans())
    values = data.draw(filled(kind["shape"], BYTES if is_bytes else rows))
    codec: Any = numcodecs.VLenBytes() if is_bytes else numcodecs.VLenArray(dtype)
    made = bytes if is_bytes else hs.vlen_dtype(dtype)
    with scratch() as root:
        ours = hs.create_array(root / "a", dtype=hs.vlen_dtype(made) if is_bytes else made, **kind)
        ours[...] = values
        document = read_json(root / "a" / ".zarray")
        assert document["dtype"] == "|O"
        assert document["filters"][0] == codec.get_config()
        fill: Any = b"" if is_bytes else np.empty(0, dtype)
        stored = chunk_files(root / "a")
        counts = [-(-n // chunk) for n, chunk in zip(kind["shape"], kind["chunks"], strict=True)]
        for place in np.ndindex(*counts):
            name = ".".join(map(str, place)) or "0"
            encoded = stored.get(name)
            inside = tuple(
                slice(at * c, min((at + 1) * c, n))
                for at, c, n in zip(place, kind["chunks"], kind["shape"], strict=True)
            )
            if encoded is None:
                assert all(len(value) == 0 for value in values[inside].ravel())
                continue
            if kind["compressors"] is not None:
                encoded = numcodecs.get_codec(dict(kind["compressors"])).decode(encoded)
            chunk = np.full(kind["chunks"], None, object)
            decoded = codec.decode(encoded)
            chunk = decoded.reshape(kind["chunks"], order=kind.get("order", "C"))
            same(chunk[tuple(slice(0, s.stop - s.start) for s in inside)], values[inside], name)
        same(hs.open_array(root / "a")[...], values, "read back")
        # Chunks that numcodecs encodes.
        for name in stored:
            padded = objects([fill] * int(np.prod(kind["chunks"])), kind["chunks"])
            encoded = codec.encode(padded.ravel())
            if kind["compressors"] is not None:
                encoded = numcodecs.get_codec(dict(kind["compressors"])).encode(encoded)
            (root / "a" / name).write_bytes(bytes(encoded))
        found = hs.open_array(root / "a")[...]
        assert all(len(value) == 0 for value in np.asarray(found, object).ravel())


def test_rows_of_one_length_stay_rows(tmp_path: Path) -> None:
    """h5py takes rows of one length for another axis."""
    z = hs.create_array(tmp_path / "a", shape=(3,), chunks=(2,), dtype=hs.vlen_dtype("i4"), zarr_format=2)
    z[:] = [[1, 2], [3, 4], [5, 6]]
    z[1] = np.array([7, 8, 9])
    assert [row.tolist() for row in z[:]] == [[1, 2], [7, 8, 9], [5, 6]]
    assert z.read_ragged().offsets.tolist() == [0, 2, 5, 7]
    assert z.read_ragged().values.tolist() == [1, 2, 7, 8, 9, 5, 6]


def test_ragged_rows_need_v2(tmp_path: Path) -> None:
    with pytest.raises((hs.errors.UnsupportedError, hs.errors.InvalidArgumentError), match="v2"):
        hs.create_array(tmp_path / "a", shape=(3,), dtype=hs.vlen_dtype("i4"), zarr_format=3)


@pytest.mark.parametrize("kind", [str, "variable_length_bytes"])
def test_lists_masks_and_points(tmp_path: Path, kind: Any) -> None:
    values = objects([("ä" * (n % 7)) + str(n) for n in range(600)], (20, 30))
    if kind is not str:
        values = objects([text.encode() for text in values.ravel()], (20, 30))
    z = hs.create_array(tmp_path / "a", shape=(20, 30), chunks=(7, 11), shards=(14, 22), dtype=kind)
    z[...] = values
    rng = np.random.default_rng(0)
    mask = rng.random((20, 30)) < 0.2
    same(z[mask], values[mask])
    rows, columns = rng.integers(0, 20, 40), rng.integers(0, 30, 40)
    same(z.vindex[rows, columns], values[rows, columns])
    same(z.oindex[[3, 1, 19, 1], ::-3], values[[3, 1, 19, 1]][:, ::-3])
    same(z[:, [5, 2, 2]], values[:, [5, 2, 2]])
    same(z.blocks[1, 0], values[7:14, 0:11] if z.shards is None else values[14:20, 0:22])
    z.vindex[rows, columns] = values[columns % 20, rows]
    model = values.copy()
    for row, column in zip(rows, columns, strict=True):
        model[row, column] = values[column % 20, row]
    same(z[...], model)


def test_the_end_of_text(tmp_path: Path) -> None:
    """Text keeps its end: NULs, spaces, or nothing."""
    texts = ["a\0", "\0", "", " ", "b \0 "]
    z = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype=str)
    z[:] = texts
    assert list(z[:]) == texts
    assert list(zarr.open_array(str(tmp_path / "a"))[:]) == texts
    assert z.read_ragged().tolist() == texts


def test_none_is_empty(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(3,), dtype=str)
    z[:] = np.array(["a", None, "b"], object)
    assert list(z[:]) == ["a", "", "b"]


def test_resize_and_append(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(3,), chunks=(2,), dtype=str, fill_value="-")
    z[:] = ["a", "bb", "ccc"]
    z.resize((5,))
    assert list(z[:]) == ["a", "bb", "ccc", "-", "-"]
    z.append(np.array(["d", "e"], np.dtypes.StringDType()))
    assert list(hs.open_array(tmp_path / "a")[:]) == ["a", "bb", "ccc", "-", "-", "d", "e"]
    z.resize((1,))
    assert list(z[:]) == ["a"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_damaged_chunks(tmp_path: Path, zarr_format: int) -> None:
    """A chunk with a changed byte, or cut off anywhere, is an error or text, and nothing worse."""
    path = tmp_path / "a"
    z = hs.create_array(path, shape=(4,), chunks=(4,), dtype=str, compressors=None, zarr_format=zarr_format)
    z[:] = ["ab", "", "ü", "longer"]
    (name,) = chunk_files(path)
    good = (path / name).read_bytes()
    expected = b"".join(
        [(4).to_bytes(4, "little")]
        + [len(t.encode()).to_bytes(4, "little") + t.encode() for t in ("ab", "", "ü", "longer")]
    )
    assert good == expected
    for at in range(len(good)):
        for bad in (good[:at], *(good[:at] + bytes([v]) + good[at + 1 :] for v in (0, 1, 0x7F, 0x80, 0xFF))):
            (path / name).write_bytes(bad)
            try:
                found = z[:]
            except (hs.errors.ChunkError, hs.errors.StoreError) as error:
                assert name in str(error) or "chunk" in str(error), error
            else:
                decoded = numcodecs.VLenUTF8().decode(bad)
                same(found, objects(list(decoded), (4,)))
    (path / name).write_bytes(good + b"\0")
    with pytest.raises(hs.errors.HyperslabError):
        z[:]


def test_object_codecs_that_are_not_known(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", shape=(4,), dtype=str, zarr_format=2)
    for filters in ([{"id": "json3"}], [{"id": "pickle"}], None, []):
        edit_json(tmp_path / "a" / ".zarray", filters=filters)
        with pytest.raises(hs.errors.HyperslabError):
            hs.open_array(tmp_path / "a")


@pytest.mark.parametrize("seed", range(4))
def test_numpy_strings_of_every_kind(tmp_path: Path, seed: int) -> None:
    """NumPy keeps short strings in the array, longer ones in its arena, some on the heap.

    Threads read parts of the array.
    """
    rng = np.random.default_rng(seed)
    some = ["", "a", "é" * 7, "x" * 15, "y" * 16, "ž" * 200, "z" * 70_000, "nul\0inside"]
    chosen = rng.choice(len(some), 100_003, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.0998, 0.0001, 0.0001])
    values = np.array([some[n] for n in chosen], np.dtypes.StringDType())
    expected = values.astype(object)
    z = hs.create_array(tmp_path / "a", shape=values.shape, chunks=(9_000,), dtype="string")
    z[...] = values
    assert (z[...] == values).all()
    assert (zarr.open_array(tmp_path / "a")[...].astype(object) == expected).all()
    # Strings that are not adjacent in memory, and broadcast strings.
    z[::2] = values[::-1][: len(values) // 2 + 1]
    expected[::2] = expected[::-1].copy()[: len(values) // 2 + 1]
    assert (z[...] == expected.astype(np.dtypes.StringDType())).all()
    z[5:40_005] = values[-1:]
    z[50_000:] = np.broadcast_to(values[-2], (50_003,))
    expected[5:40_005], expected[50_000:] = values[-1], values[-2]
    assert (z[...] == expected.astype(np.dtypes.StringDType())).all()
    # Null becomes empty text.
    missing = np.array(expected, np.dtypes.StringDType(na_object=None))
    missing[rng.integers(0, len(missing), 100)] = None
    z[...] = missing
    assert z[...].tolist() == [text or "" for text in missing.tolist()]


@pytest.mark.parametrize("seed", range(2))
def test_python_strings_of_every_kind(tmp_path: Path, seed: int) -> None:
    """Lists, and arrays of objects in any memory order.

    The first thousand elements are not typical.
    """
    rng = np.random.default_rng(seed)
    some = ["", "a", "é" * 7, "x" * 15, "水" * 16, "\U0001f30a", "nul\0inside\0", "y" * 70_000]
    chosen = rng.choice(len(some), 12_000, p=[0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.199, 0.001])
    chosen[:1500] = rng.integers(0, 2, 1500)
    expected = np.array([some[n] for n in chosen], object)
    z = hs.create_array(tmp_path / "a", shape=(60, 200), chunks=(7, 200), dtype="string")
    table = expected.reshape(60, 200)
    for values in (table, np.asfortranarray(table), table[::-1][::-1], table.tolist()):
        z[...] = ""
        z[...] = values
        assert (zarr.open_array(tmp_path / "a")[...].astype(object) == table).all()
    flat = hs.create_array(tmp_path / "b", shape=(12_000,), chunks=(5_000,), dtype="string")
    for written in (expected.tolist(), tuple(expected), expected):
        flat[...] = ""
        flat[...] = written
        assert (zarr.open_array(tmp_path / "b")[...].astype(object) == expected).all()
    flat[...] = expected[::-1]
    assert (flat[...].astype(object) == expected[::-1]).all()
    # Broadcast a row to all rows, and one text to all elements.
    z[...] = some[:4] * 50
    assert z[...].tolist() == [some[:4] * 50] * 60
    z[...] = [some[4]]
    assert (z[...].astype(object) == some[4]).all()
    flat[:0] = []
    # Elements other than `str`: null, text of a subclass, other objects.
    flat[:3] = ["a", None, np.str_("b")]
    assert flat[:3].tolist() == ["a", "", "b"]
    before = flat[...].tolist()
    for bad, error in (
        (["a", b"b"], TypeError),
        (["a", 1], TypeError),
        (["a", "\ud800"], UnicodeEncodeError),
    ):
        for values in (bad, np.array(bad, object)):
            with pytest.raises(error):
                flat[:2] = values
    for values in (["a"] * 3, np.array(["a"] * 3, object)):
        with pytest.raises(ValueError):
            flat[:2] = values
    assert flat[...].tolist() == before
