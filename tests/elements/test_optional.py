"""Elements that may be missing (Zarr v3 ``zarrs.optional``).

Compared with NumPy arrays of values and masks, and with zarrs, through zarrista.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import hyperslab as hs
import ml_dtypes
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import NUMBERS, TIMES, from_bits, scalars, selections, shapes_and_chunks
from support import as_array, examples, scratch
from test_views import expect, follow, steps

try:
    import zarrista
except ImportError:
    zarrista = None
needs_zarrista = pytest.mark.skipif(
    zarrista is None, reason="zarrista is not installed: it needs Python 3.12"
)

TYPES = ["b1", *NUMBERS, *TIMES, "S1", "S5", "U3", "V3"]
# The types that zarrs also supports.
ZARRS_TYPES = ["b1", *NUMBERS, "M8[10us]", "m8[s]", "U2"]


def data_codecs(dtype: np.dtype[Any]) -> st.SearchStrategy[list[Any]]:
    """Draws codecs for the values."""
    bytes_ = st.sampled_from(["little", "big"]).map(
        lambda endian: {"name": "bytes", "configuration": {"endian": endian}}
    )
    serializers: list[Any] = [bytes_]
    if dtype.kind in "biufc":
        serializers.append(st.just({"name": "packbits"}))
    behind = st.lists(
        st.sampled_from(
            [
                {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
                {"name": "gzip", "configuration": {"level": 5}},
                {"name": "crc32c"},
            ]
        ),
        max_size=2,
    )
    return st.tuples(st.one_of(serializers), behind).map(lambda parts: [parts[0], *parts[1]])


def mask_codecs(rank: int) -> st.SearchStrategy[list[Any]]:
    """Draws codecs for the mask. The mask has the axes of the chunk."""
    order = st.permutations(range(rank)).map(
        lambda order: [{"name": "transpose", "configuration": {"order": order}}]
    )
    before = st.one_of(st.just([]), order) if rank else st.just([])
    serializer = st.sampled_from([{"name": "packbits"}, {"name": "bytes"}])
    behind = st.lists(
        st.sampled_from([{"name": "crc32c"}, {"name": "gzip", "configuration": {"level": 1}}]), max_size=1
    )
    return st.tuples(before, serializer, behind).map(lambda parts: [*parts[0], parts[1], *parts[2]])


@dataclass
class Model:
    """The array as NumPy arrays. Missing elements are zero."""

    values: np.ndarray[Any, Any]
    missing: np.ndarray[Any, Any]

    def masked(self) -> Any:
        return np.ma.MaskedArray(self.values.copy(), self.missing.copy())

    def check(self, found: Any, what: str = "") -> None:
        """Checks for the same values (bit for bit) and the same missing elements."""
        assert isinstance(found, np.ma.MaskedArray), what
        assert found.dtype == self.values.dtype and found.dtype.metadata is None, what
        assert found.shape == self.values.shape, what
        assert np.array_equal(np.ma.getmaskarray(found), self.missing), what
        assert np.ascontiguousarray(found.data).tobytes() == self.values.tobytes(), what


def model_of(values: np.ndarray[Any, Any], missing: Any) -> Model:
    values, missing = np.array(values), np.broadcast_to(missing, values.shape).copy()
    values[missing] = np.zeros((), values.dtype)
    return Model(values, missing)


@st.composite
def models(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Model:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = int(np.prod(shape))
    values = from_bits(int(rng.integers(2**32)), count, dtype).reshape(shape)
    chance = draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    return model_of(values, rng.random(shape) < chance)


@st.composite
def arguments(draw: st.DrawFn, dtype: np.dtype[Any], zarrs: bool = False) -> dict[str, Any]:
    """Draws arguments of a new array.

    zarrs supports neither shards nor `transpose` for these elements.
    """
    shape, chunks = draw(shapes_and_chunks(3 if zarrs else 4))
    found: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": hs.optional_dtype(dtype)}
    found["fill_value"] = draw(st.one_of(st.none(), scalars(dtype)))
    if not zarrs and draw(st.booleans()):
        found["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    if shape and not zarrs and draw(st.booleans()):
        order = draw(st.permutations(range(len(shape))))
        found["filters"] = [{"name": "transpose", "configuration": {"order": order}}]
    found["compressors"] = draw(st.sampled_from(["auto", None]))
    if draw(st.booleans()):
        configuration = {
            "mask_codecs": draw(mask_codecs(len(shape))),
            "data_codecs": draw(data_codecs(dtype)),
        }
        found["serializer"] = {"name": "zarrs.optional", "configuration": configuration}
    return found


def filled(given: dict[str, Any]) -> Model:
    """Returns the model of a new array."""
    dtype = np.dtype(given["dtype"].str)
    fill = given["fill_value"]
    values = np.full(given["shape"], np.zeros((), dtype) if fill is None else fill, dtype)
    return model_of(values, fill is None)


@settings(max_examples=examples(150))
@given(data=st.data())
def test_selections_are_those_of_numpy(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(TYPES)))
    given_ = data.draw(arguments(dtype))
    shape, model = given_["shape"], filled(given_)
    with scratch() as path:
        z = hs.create_array(path / "a", **given_)
        assert z.dtype == dtype and z.dtype.metadata == {"optional": True}
        model.check(z.read(), "new")
        for _ in range(data.draw(st.integers(1, 4))):
            selection = data.draw(selections(shape))
            part = data.draw(models(np.zeros(shape)[selection].shape, dtype))
            z[selection] = part.masked()
            model.values[selection], model.missing[selection] = part.values, part.missing
        z = hs.open_array(path / "a")
        model.check(z.read(), "all")
        model.check(z.read(masked=True), "masked")
        out = np.ma.MaskedArray(np.zeros(shape[::-1], dtype).T)
        assert z.read(out=out) is out
        model.check(out, "out")
        selection = data.draw(selections(shape))
        part = Model(np.array(model.values[selection], dtype), np.array(model.missing[selection]))
        found = z[selection]
        if part.values.shape or isinstance(found, np.ma.MaskedArray) and found is not np.ma.masked:
            part.check(found, "part")
        else:
            assert (found is np.ma.masked) == bool(part.missing)
            assert part.missing or as_array(found, dtype).tobytes() == part.values.tobytes()
        # A chunk that holds only the fill value is not stored.
        z[...] = None if given_["fill_value"] is None else np.full(shape, given_["fill_value"], dtype)
        assert z.nchunks_initialized == 0
        filled(given_).check(z.read(), "filled again")


@settings(max_examples=examples(100))
@given(data=st.data())
def test_views_points_and_lists(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    chunks = tuple(data.draw(st.integers(1, length)) for length in shape)
    model = data.draw(models(shape, np.dtype("i4")))
    z = hs.create_array(hs.MemoryStore(), shape=shape, chunks=chunks, dtype=hs.optional_dtype("i4"))
    z.write(None, model.masked())
    view, values, missing = z.lazy, model.values, model.missing
    for _ in range(data.draw(st.integers(1, 3))):
        step = data.draw(steps(values.shape))
        view = follow(view, step)
        values, missing = np.asarray(expect(values, step)), np.asarray(expect(missing, step))
        if values.size > 5000:
            break
    wanted = Model(np.ascontiguousarray(values).reshape(values.shape), np.asarray(missing))
    wanted.check(view.read())
    out = np.ma.MaskedArray(np.zeros(values.shape, "i4"))
    wanted.check(view.read(out=out))
    # Select each element once, so that the expected result is known.
    once = np.arange(z.size).reshape(shape)
    for index in data.draw(st.sampled_from(["orthogonal", "points", "mask"])), "points":
        picked = data.draw(hnp.arrays(bool, shape))
        points = picked.nonzero()
        part = data.draw(models((int(picked.sum()),), np.dtype("i4")))
        if index == "orthogonal":
            rows = np.unique(points[0])
            part = data.draw(models((len(rows), *shape[1:]), np.dtype("i4")))
            z.oindex[rows] = part.masked()
            model.values[rows], model.missing[rows] = part.values, part.missing
            part.check(z.oindex[rows])
        elif index == "points":
            z.vindex[points] = part.masked()
            model.values[points], model.missing[points] = part.values, part.missing
            part.check(z.vindex[points])
        else:
            z.set_mask_selection(picked, part.masked())
            model.values[picked], model.missing[picked] = part.values, part.missing
            part.check(z.get_mask_selection(picked))
    model.check(z[...])
    rows = once[:, None].reshape(shape[0], -1)[:, 0] // max(int(np.prod(shape[1:])), 1)
    z.lazy[rows[::-1]].write(model.masked()[::-1])
    model.check(z[...])


def zarrs(path: Path) -> Any:
    return zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), "/")


@needs_zarrista
@settings(max_examples=examples(150))
@given(data=st.data())
def test_zarrs_reads_what_is_written(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(ZARRS_TYPES)))
    given_ = data.draw(arguments(dtype, zarrs=True))
    model = data.draw(models(given_["shape"], dtype))
    with scratch() as path:
        z = hs.create_array(path / "a", **given_)
        z[...] = model.masked()
        found = zarrs(path / "a")
        assert found.shape == list(model.values.shape)
        if 0 in given_["shape"]:
            return
        tensor = found[...]
        valid = np.frombuffer(tensor.mask.buffer(), bool).reshape(model.values.shape)
        values = np.frombuffer(tensor.data.buffer(), dtype).reshape(model.values.shape)
        # The values that zarrs returns for missing elements do not matter.
        model.check(np.ma.MaskedArray(np.where(valid, values, np.zeros((), dtype)), ~valid))


@needs_zarrista
@settings(max_examples=examples(150))
@given(data=st.data())
def test_what_zarrs_writes_is_read(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(ZARRS_TYPES)))
    given_ = data.draw(arguments(dtype, zarrs=True))
    shape, chunks = given_["shape"], given_["chunks"]
    model = data.draw(models(shape, dtype))
    with scratch() as path:
        # hyperslab writes only the metadata, and zarrs rewrites it.
        hs.create_array(path / "a", **given_)
        theirs = zarrs(path / "a")
        theirs.store_metadata()
        grid = [range(-(-n // chunk)) for n, chunk in zip(shape, chunks, strict=True)]
        for chunk in itertools.product(*grid):
            place = tuple(slice(i * n, (i + 1) * n) for i, n in zip(chunk, chunks, strict=True))
            whole = filled({**given_, "shape": chunks})
            inside = tuple(slice(0, n) for n in model.values[place].shape)
            whole.values[inside], whole.missing[inside] = model.values[place], model.missing[place]
            stored = zarrista.ArrayBytes(whole.values.tobytes(), mask=(~whole.missing).tobytes())
            theirs.store_chunk(list(chunk), stored)
        z = hs.open_array(path / "a")
        assert z.dtype == dtype
        model.check(z.read())
        said = json.dumps(given_.get("serializer"))
        if given_["compressors"] is None and "gzip" not in said and "zstd" not in said:
            # The bytes are equal unless a compressor may choose them.
            z = hs.create_array(path / "b", **given_)
            z[...] = model.masked()
            for chunk in itertools.product(*grid):
                key = "/".join(map(str, ("c", *chunk)))
                if (path / "b" / key).exists():
                    assert (path / "b" / key).read_bytes() == (path / "a" / key).read_bytes()


@needs_zarrista
def test_arrays_that_zarrs_creates(tmp_path: Path) -> None:
    store = zarrista.store.FilesystemStore(str(tmp_path))
    inner = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 5}}
    for name, base, fill, wanted in [
        ("a", {"name": "int32", "configuration": {}}, b"\0", np.ma.masked),
        ("b", {"name": "int32", "configuration": {}}, b"\7\0\0\0\1", np.int32(7)),
        ("c", {"name": "bool", "configuration": {}}, b"\1\1", np.True_),
        ("d", inner, (8).to_bytes(8, "little") + b"\1", np.datetime64(40, "s")),
    ]:
        grid = zarrista.ChunkGrid.regular([5, 4], chunk_shape=[2, 3])
        dtype = zarrista.DataType.from_metadata({"name": "zarrs.optional", "configuration": base})
        zarrista.ArrayBuilder(grid, dtype, zarrista.FillValue(fill)).create(store, f"/{name}")
        z = hs.open_array(tmp_path / name)
        assert z.fill_value is wanted or z.fill_value == wanted
        found = z[...]
        assert np.ma.getmaskarray(found).all() == (wanted is np.ma.masked)
        assert wanted is np.ma.masked or (found.data == wanted).all()
        # And back: hyperslab writes the same metadata.
        again = hs.create_array(
            tmp_path / f"{name}2", shape=(5, 4), chunks=(2, 3), dtype=z.dtype, fill_value=z.fill_value
        )
        ours, theirs = (json.loads((tmp_path / n / "zarr.json").read_text()) for n in (f"{name}2", name))
        assert ours["data_type"] == theirs["data_type"] and ours["fill_value"] == theirs["fill_value"]
        assert zarrs(tmp_path / f"{name}2").metadata["data_type"] == ours["data_type"]
        assert again.fill_value is wanted or again.fill_value == wanted


def new(shape: Any = (6,), dtype: Any = "i4", **more: Any) -> hs.Array:
    return hs.create_array(hs.MemoryStore(), shape=shape, dtype=hs.optional_dtype(dtype), **more)


class Numbers(list[Any]):
    """A subclass of list."""


def listed(found: Any) -> Any:
    return found.tolist()


@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<f8", ">f8", "<M8[s]", ">M8[s]"])
def test_new_arrays_of_lists_in_both_byte_orders(dtype: str) -> None:
    found = hs.array([1, None, 3], dtype=hs.optional_dtype(dtype))[:]
    assert np.ma.getmaskarray(found).tolist() == [False, True, False]
    assert found.data[[0, 2]].tolist() == np.array([1, 3], dtype).tolist()


def test_what_may_be_written() -> None:
    z = new()
    wanted = [1, None, 3, 4, None, 6]
    masked = np.ma.MaskedArray([1, 99, 3, 4, 99, 6], mask=[0, 1, 0, 0, 1, 0])
    floats = np.ma.MaskedArray([1, np.nan, 3, 4, np.inf, 6], mask=[0, 1, 0, 0, 1, 0])
    for values in (
        wanted,
        tuple(wanted),
        [1, np.ma.masked, 3, 4, np.ma.masked, 6],
        np.array(wanted, object),
        masked,
        masked.astype("i8"),
        floats,
        pa.array(wanted),
        pa.array([0, *wanted, 7])[1:-1],
        pa.chunked_array([wanted[:2], [], wanted[2:]], type=pa.int16()),
        pl.Series(wanted),
    ):
        z[...] = 0
        z[...] = values
        assert listed(z[...]) == wanted, values
    other = new()
    other[...] = z
    assert listed(other[...]) == wanted
    other[::-1] = z.lazy[:]
    assert listed(other[...]) == wanted[::-1]
    z[:3] = None
    z[3] = np.ma.masked
    z[4] = 7
    assert listed(z[...]) == [None] * 4 + [7, 6]
    assert z[0] is np.ma.masked and z[4] == 7 and type(z[4]) is np.int32
    z[...] = np.arange(6)
    assert listed(z[...]) == list(range(6)) and not np.ma.is_masked(z[...])
    with z.writer() as writer:
        writer[1:3] = [None, 5]
    assert listed(z[...]) == [0, None, 5, 3, 4, 5]
    with pytest.raises(OverflowError):
        z[0] = 2**40
    with pytest.raises(ValueError, match="broadcast"):
        z[...] = [None, 1]
    with pytest.raises(hs.errors.DataTypeError, match="Arrow arrays of numbers"):
        z[...] = pa.array(["a"] * 6)
    for values in (wanted, masked, pa.array(wanted), np.array(wanted, object)):
        assert listed(hs.array(values, dtype=hs.optional_dtype("i2"))[...]) == wanted
    square = new((2, 2))
    square[...] = [np.ma.MaskedArray([1, 2], mask=[0, 1]), (None, 4)]
    assert listed(square[...]) == [[1, None], [None, 4]]
    square[...] = [pl.Series([5, None]), np.array([6, None], object)]
    assert listed(square[...]) == [[5, None], [6, None]]
    square[...] = [[1, 2], np.array([3, 4])]
    assert listed(square[...]) == [[1, 2], [3, 4]]
    for ragged in ([1, [2, None]], [[1, None], [2]], [None, [1, 2]]):
        with pytest.raises(ValueError):
            square[...] = ragged
    z[...] = da.ma.masked_equal(da.from_array(np.arange(6), chunks=2), 3)
    assert listed(z[...]) == [0, 1, 2, None, 4, 5]
    z[:2] = Numbers([7, None])
    assert listed(z[:3]) == [7, None, 2]
    square.vindex[[[0, 0], [1, 1]], [[0, 1], [0, 1]]] = [1, None, np.ma.masked, 4]
    assert listed(square[...]) == [[1, None], [None, 4]]


@pytest.mark.parametrize("kind", ["bool", "i1", "u2", "i8", "f2", "f4", "f8", "M8[s]", "M8[ns]", "m8[ms]"])
def test_arrow_both_ways(kind: str) -> None:
    """An array that pyarrow makes of a masked array is written, and read back unchanged."""
    values = from_bits(3, 40, np.dtype(kind))
    if kind[0] == "f":
        values = np.nan_to_num(values)
    if kind[0] in "Mm":
        values = np.arange(40).view(kind)
    model = model_of(values, np.random.default_rng(3).random(40) < 0.4)
    z = new(40, kind, chunks=7)
    z[...] = pa.array(model.masked())
    model.check(z[...])
    assert pa.array(z[...]).equals(pa.array(model.masked()))
    assert pa.array(z.read_arrow()).equals(pa.array(model.masked()))
    assert pa.array(z.read_arrow(slice(30, 3, -2))).equals(pa.array(model.masked()[30:3:-2]))
    assert pa.array(z.read_arrow()).null_count == model.missing.sum()
    z[5:30] = pa.array(model.masked())[10:35]
    model.values[5:30], model.missing[5:30] = model.values[10:35].copy(), model.missing[10:35].copy()
    model.check(z[...])


def test_arrow_of_other_arrays() -> None:
    square = new((2, 3), "f4", chunks=(1, 2), order="F")
    square[...] = [[1, None, 3], [None, 5, 6]]
    told = square.read_arrow()
    assert pa.array(told).to_pylist() == [[1, None, 3], [None, 5, 6]] and len(told) == 2
    assert str(pa.array(told).type) == "fixed_size_list<item: float>[3]"
    assert pl.Series(new(3).read_arrow()).to_list() == [None] * 3
    assert pa.array(hs.array([1, 2, 3]).read_arrow()).to_pylist() == [1, 2, 3]
    text = hs.array(np.array(["a", "b"], "T"))
    assert pa.array(text.read_arrow()).to_pylist() == ["a", "b"]
    assert pa.array(square.read_arrow((1, 2))).to_pylist() == [6]
    for dtype in ("c8", "U3", "M8[D]"):
        with pytest.raises(TypeError, match="Arrow has no type"):
            pa.array(new(3, dtype).read_arrow())


def test_nobody_forgets_what_is_missing() -> None:
    z = new(chunks=4)
    z[:4] = [1, 2, None, 4]
    for work in (np.asarray, np.sum, np.ma.asarray, lambda z: z.lazy[2:].__array__()):
        with pytest.raises(TypeError, match="elements are missing"):
            work(z)
    assert np.asarray(z.lazy[:2]).tolist() == [1, 2]
    z[...] = range(6)
    assert np.asarray(z, "f4").tolist() == [0, 1, 2, 3, 4, 5] and np.sum(z) == 15
    z[2] = None
    for out, why in (
        (np.zeros(6, "i4"), "expected a numpy.ma.MaskedArray"),
        (np.ma.zeros(6, "i8"), "elements of type"),
        (np.ma.zeros(5, "i4"), "has shape"),
        (np.ma.MaskedArray(np.zeros(6, "i4"), hard_mask=True), "a read-only array or a hard mask"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            z.read(out=out)
        with pytest.raises((TypeError, ValueError), match=why):
            z.lazy[:].read(out=out)


def test_fill_values() -> None:
    for fill in (None, np.ma.masked):
        assert new(fill_value=fill).fill_value is np.ma.masked
    assert new(fill_value=0).fill_value == 0
    assert new().metadata["fill_value"] is None and new().metadata.fill_value is np.ma.masked
    assert new(fill_value=5).metadata["fill_value"] == [5]
    assert listed(hs.zeros((2,), dtype=hs.optional_dtype("i4"))[...]) == [0, 0]
    assert listed(hs.ones((2,), dtype=hs.optional_dtype("f4"))[...]) == [1, 1]
    z = hs.full((3,), 7, dtype=hs.optional_dtype("i4"), chunks=(1,))
    assert z.nchunks_initialized == 0
    z[1] = None
    assert listed(z[...]) == [7, None, 7] and z.nchunks_initialized == 1
    z[1] = 7
    assert z.nchunks_initialized == 0
    with pytest.raises(ValueError, match="fill_value"):
        new(fill_value="x")


def test_growing_and_shrinking() -> None:
    z = new((2, 3), chunks=(2, 2), fill_value=9)
    assert z.append([[1, None, 3]]) == (3, 3)
    assert z.append(np.ma.MaskedArray([[5], [6], [7]], mask=[[0], [1], [0]]), axis=1) == (3, 4)
    assert listed(z[...]) == [[9, 9, 9, 5], [9, 9, 9, None], [1, None, 3, 7]]
    z.resize((2, 4))
    z.resize((3, 4))
    assert listed(z[2]) == [9] * 4
    with pytest.raises(ValueError, match="not compatible"):
        z.append([1, None])
    z[...] = None
    assert z.shape == (3, 4) and np.ma.getmaskarray(z[...]).all()


def test_rows() -> None:
    z = new((5, 2), chunks=(2, 2))
    z[...] = [[n, None] for n in range(5)]
    wanted = [[n, None] for n in range(5)]
    assert [listed(row) for row in z] == wanted
    assert [(n, listed(row)) for n, row in z.stream(start=1)] == list(enumerate(wanted))[1:]
    assert [listed(column) for _, column in z.stream(axis=1)] == [list(range(5)), [None] * 5]
    assert [one is np.ma.masked or int(one) for one in z.lazy[0].read()] == [0, True]


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(4, 6), chunks=(2, 3), dtype=hs.optional_dtype("f4"))
    assert "dtype=optional float32" in repr(z) and "optional float32" in str(z.info)
    assert "optional float32" in z._repr_html_()
    assert z.metadata.data_type.to_native_dtype() == np.dtype("f4")
    assert z.metadata["data_type"] == {
        "name": "zarrs.optional",
        "configuration": {"name": "float32", "configuration": {}},
    }
    assert z.serializer["name"] == "zarrs.optional"
    z[...] = 1
    told = z.explain()
    assert told.strategies == {"decode-scatter": 4}
    assert "No. bytes stored" in str(z.info_complete())


@pytest.mark.parametrize("shards", [None, (4, 8)])
def test_copies(tmp_path: Path, shards: Any) -> None:
    rng = np.random.default_rng(7)
    model = model_of(rng.integers(0, 99, (9, 11)).astype("i2"), rng.random((9, 11)) < 0.3)
    serializer = {
        "name": "optional",
        "configuration": {
            "mask_codecs": ["bytes", "crc32c"],
            "data_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        },
    }
    z = hs.create_array(
        tmp_path / "a",
        shape=(9, 11),
        chunks=(2, 4),
        shards=shards,
        dtype=hs.optional_dtype("i2"),
        fill_value=3,
        serializer=serializer,
    )
    z[...] = model.masked()
    assert hs.copy(tmp_path / "a", tmp_path / "b", verify=True).arrays == 1
    same = hs.open_array(tmp_path / "b")
    model.check(same[...])
    assert same.metadata["codecs"] == z.metadata["codecs"] and same.fill_value == 3
    hs.copy(
        tmp_path / "a",
        tmp_path / "c",
        chunks=(5, 11),
        shards=None,
        order="F",
        compressors="gzip",
        verify=True,
    )
    other = hs.open_array(tmp_path / "c")
    model.check(other[...])
    assert other.serializer == z.serializer and other.order == "F" and other.chunks == (5, 11)
    with pytest.raises(hs.HyperslabError, match="may be missing, which Zarr v2 has no word for"):
        hs.copy(tmp_path / "a", tmp_path / "d", zarr_format=2)
    like = hs.from_array(tmp_path / "e", data=z)
    model.check(like[...])
    assert like.metadata["codecs"] == z.metadata["codecs"]
    assert hs.empty_like(z).fill_value == 3 and hs.empty_like(z).dtype.metadata == z.dtype.metadata
    kept = hs.create_array(tmp_path / "f", data=z, chunks=(9, 9), fill_value=None)
    model.check(kept[...])
    assert kept.fill_value is np.ma.masked


def test_data_types() -> None:
    inner = {"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 1}}
    for name in ("optional", "zarrs.optional"):
        dtype = {"name": name, "configuration": inner}
        z = hs.create_array(hs.MemoryStore(), shape=3, dtype=dtype)
        assert z.dtype == "M8[ms]" and z.dtype.metadata == {"optional": True}
    z[1] = np.datetime64("NaT", "ms")
    assert np.ma.getmaskarray(z[...]).tolist() == [True, False, True] and np.isnat(z[1])
    # The same type without `optional`.
    assert hs.create_array(hs.MemoryStore(), shape=3, dtype=inner).dtype == "M8[ms]"
    small = new(4, ml_dtypes.bfloat16)
    small[:2] = [1.5, None]
    assert small.dtype == ml_dtypes.bfloat16 and listed(small[:2].astype("f4")) == [1.5, None]
    assert listed(hs.create_array(hs.MemoryStore(), shape=1, dtype=small.dtype)[...]) == [None]
    for bad, why in (
        (np.dtype([("a", "i4")]), "without fields"),
        ("T", "only elements of one size"),
        ({"name": "optional", "configuration": {"name": "string"}}, "of variable length"),
        ({"name": "optional", "configuration": dtype}, "not supported"),
        ({"name": "optional"}, "lacks name"),
    ):
        with pytest.raises(hs.errors.DataTypeError, match=why):
            hs.create_array(
                hs.MemoryStore(), shape=3, dtype=bad if isinstance(bad, dict) else hs.optional_dtype(bad)
            )
    with pytest.raises(hs.errors.UnsupportedError, match="Zarr v2 has no elements that may be missing"):
        new(zarr_format=2)
    for codec in ({"name": "bytes", "configuration": {"endian": "little"}}, {"name": "packbits"}):
        with pytest.raises(hs.HyperslabError, match='put it in "data_codecs"'):
            new(serializer=codec)
    with pytest.raises(hs.HyperslabError, match='put it in "data_codecs"'):
        new(filters=[{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}])


def test_damaged_chunks(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "a", shape=(8,), chunks=(8,), dtype=hs.optional_dtype("i2"), compressors=None
    )
    z[...] = [1, None, 3, None, 5, 6, 7, 8]
    key = tmp_path / "a" / "c" / "0"
    whole = key.read_bytes()
    assert len(whole) == 16 + 1 + 12
    for damaged in (
        whole[:-1],
        whole + b"\0",
        whole[:15],
        b"",
        b"\xff" * 16 + whole[16:],
        bytes([2]) + whole[1:],
        whole[:8] + bytes([14]) + whole[9:] + b"\0\0",
        whole[:16] + b"\xff" + whole[17:],
        whole[:16] + b"\0" + whole[17:],
    ):
        key.write_bytes(damaged)
        with pytest.raises(hs.errors.ChunkError, match="zarrs.optional|bytes|object"):
            z[...]
    key.write_bytes(whole)
    assert listed(z[...]) == [1, None, 3, None, 5, 6, 7, 8]


def test_other_forms_of_metadata(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path / "a", shape=(3,), dtype=hs.optional_dtype("i2"), fill_value=7)
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    z[0] = None
    for change in (
        {"fill_value": 7},
        {"data_type": {"name": "optional", "configuration": {"name": "int16"}}},
        {"codecs": [{**document["codecs"][0], "name": "optional"}, *document["codecs"][1:]]},
    ):
        (tmp_path / "a" / "zarr.json").write_text(json.dumps({**document, **change}))
        assert listed(hs.open_array(tmp_path / "a")[...]) == [None, 7, 7]
    for change in (
        {"fill_value": "x"},
        {"fill_value": []},
        {"fill_value": [1, 2]},
        {"data_type": "int16"},
        {"data_type": "zarrs.optional"},
        {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]},
        # A different codec of the same name, from a draft of zarr-extensions.
        {"codecs": [*document["codecs"], {"name": "optional", "configuration": {"codecs": []}}]},
    ):
        (tmp_path / "a" / "zarr.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(hs.HyperslabError):
            hs.open_array(tmp_path / "a")
