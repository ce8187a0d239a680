"""Elements with fields: hyperslab, zarr-python and TensorStore read each other's arrays.

Also single fields, which are read and written alone, and wrong metadata.
"""

from __future__ import annotations

import base64
import json
import math
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import tensorstore as ts
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NUMBERS, from_bits, selections, shapes_and_chunks
from support import as_view, assert_same, assign, examples, scratch

# Older zarr-python has another name for structures in Zarr v3.
needs_newest_zarr = pytest.mark.skipif(
    tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4),
    reason="zarr-python is older than 3.4",
)
PLAIN = ["b1", *NUMBERS, *NUMBERS, "S1", "S5", "U3", "V3"]


@st.composite
def structures(
    draw: st.DrawFn, subarrays: bool = False, deep: int = 2, names: tuple[str, ...] = tuple(PLAIN)
) -> np.dtype[Any]:
    """Draws a structure of one to four fields.

    Some fields are structures. Each number has either byte order.
    """
    fields: list[Any] = []
    for number in range(draw(st.integers(1, 4))):
        if deep and draw(st.integers(0, 3)) == 0:
            kind = draw(structures(subarrays, deep - 1, names))
        else:
            kind = np.dtype(draw(st.sampled_from(names))).newbyteorder(draw(st.sampled_from("<>")))
        name = draw(st.sampled_from("abcxyz é")) + str(number)
        if subarrays and draw(st.integers(0, 2)) == 0:
            fields.append((name, kind, tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))))
        else:
            fields.append((name, kind))
    return np.dtype(fields)


def random_values(seed: int, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns structures of random bits."""
    found = np.zeros(count, dtype)
    for number, name in enumerate(dtype.names or ()):
        field = dtype[name]
        base, each = field.base, math.prod(field.shape)
        make = from_bits if base.names is None else random_values
        found[name] = make(seed + number, count * each, base).reshape(count, *field.shape)
    return found


@dataclass(frozen=True)
class Case:
    zarr_format: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    dtype: np.dtype[Any]
    compressor: str | None
    big: bool
    order: str
    fill: Any
    seed: int

    @property
    def opened_dtype(self) -> np.dtype[Any]:
        """The type that hyperslab shows. It has the stored byte order."""
        return self.dtype if self.zarr_format == 2 else self.dtype.newbyteorder("><"[not self.big])

    @property
    def values(self) -> np.ndarray[Any, Any]:
        return random_values(self.seed, math.prod(self.shape), self.dtype).reshape(self.shape)

    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.dtype,
            "zarr_format": self.zarr_format,
        }
        if self.fill is not None:
            found["fill_value"] = self.fill
        if self.zarr_format == 3:
            found["serializer"] = {
                "name": "bytes",
                "configuration": {"endian": "big" if self.big else "little"},
            }
            found["shards"] = self.shards
            if self.order == "F" and len(self.shape) > 1:
                reversed_axes = list(range(len(self.shape)))[::-1]
                found["filters"] = [{"name": "transpose", "configuration": {"order": reversed_axes}}]
        else:
            found["order"] = self.order
        return found | {"compressors": self.codecs(theirs=False)}

    def codecs(self, theirs: bool) -> Any:
        if self.compressor is None:
            return None
        if self.zarr_format == 2:
            config = {"zstd": {"id": "zstd"}, "gzip": {"id": "gzip", "level": 1}, "blosc": {"id": "blosc"}}
            return numcodecs.get_codec(config[self.compressor]) if theirs else [config[self.compressor]]
        blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
        named = {
            "zstd": {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
            "gzip": {"name": "gzip", "configuration": {"level": 1}},
            "blosc": {"name": "blosc", "configuration": {**blosc, "typesize": min(self.dtype.itemsize, 255)}},
        }
        return [named[self.compressor]]

    def zarr_create(self, path: Path) -> zarr.Array:
        arguments = self.arguments() | {"compressors": self.codecs(theirs=True)}
        return zarr.create_array(str(path), **arguments)


@st.composite
def cases(
    draw: st.DrawFn, subarrays: bool = False, names: tuple[str, ...] = tuple(PLAIN), formats: str = "23"
) -> Case:
    zarr_format = int(draw(st.sampled_from(formats)))
    shape, chunks = draw(shapes_and_chunks(3))
    dtype = draw(structures(subarrays and zarr_format == 2, names=names))
    shards = None
    if zarr_format == 3 and shape and draw(st.booleans()):
        shards = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks)
    seed = draw(st.integers(0, 2**16))
    fill = draw(st.sampled_from([None, "zeros", "bits"]))
    return Case(
        zarr_format=zarr_format,
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        compressor=draw(st.sampled_from([None, "zstd", "gzip", "blosc"])),
        big=draw(st.booleans()),
        order=draw(st.sampled_from("CF")),
        fill=None
        if fill is None
        else np.zeros((), dtype)[()]
        if fill == "zeros"
        else plain_fill(seed, dtype),
        seed=seed,
    )


def plain_fill(seed: int, dtype: np.dtype[Any]) -> Any:
    """Returns a fill value without NaNs, because zarr-python loses their payloads."""
    found = random_values(seed + 7, 1, dtype)

    def tame(part: np.ndarray[Any, Any]) -> None:
        for name in part.dtype.names or ():
            if part[name].dtype.names is not None:
                tame(part[name])
            elif part[name].dtype.kind in "fc":
                part[name] = 2.5

    tame(found)
    return found[0]


def same_elements(found: Any, expected: np.ndarray[Any, Any], what: str = "") -> None:
    """Checks for the same values in any byte order."""
    found = np.asarray(found)
    assert found.dtype.newbyteorder("<") == expected.dtype.newbyteorder("<"), what
    assert_same(found.astype(expected.dtype), expected, what)


@needs_newest_zarr
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@given(case=cases(), data=st.data())
@settings(max_examples=examples(150))
def test_zarr_python_writes_and_we_read(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        values = case.values
        with zarr.config.set({"array.write_empty_chunks": True}):
            theirs = case.zarr_create(root / "a")
            if values.size:
                theirs[...] = values
        ours = hs.open_array(root / "a", mode="r")
        assert ours.dtype == case.opened_dtype
        assert ours.shape == case.shape and ours.chunks == case.chunks and ours.shards == case.shards
        same_elements(ours.fill_value, np.asarray(theirs.fill_value), "fill value")
        same_elements(ours[...], values, "all")
        for _ in range(3):
            selection = data.draw(selections(case.shape))
            same_elements(ours[selection], values[selection], repr(selection))


@needs_newest_zarr
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@given(case=cases(), data=st.data())
@settings(max_examples=examples(150))
def test_we_write_and_zarr_python_reads(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        values = case.values
        ours = hs.create_array(root / "a", **case.arguments())
        ours[...] = values
        theirs = zarr.open_array(str(root / "a"), mode="r")
        same_elements(theirs.fill_value, np.asarray(ours.fill_value), "fill value")
        same_elements(theirs[...], values, "all")
        for number in range(3):
            selection = data.draw(selections(case.shape))
            value = random_values(case.seed + number, 1, case.dtype)[0]
            assign(values, selection, value)
            ours[selection] = value
        same_elements(theirs[...], values, "parts")
        same_elements(ours[...], values, "parts read back")


@needs_newest_zarr
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@given(case=cases(), data=st.data())
@settings(max_examples=examples(60))
def test_metadata_is_that_of_zarr_python(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        case.zarr_create(root / "a")
        hs.create_array(root / "b", **case.arguments())
        name = ".zarray" if case.zarr_format == 2 else "zarr.json"
        theirs = json.loads((root / "a" / name).read_text())
        ours = json.loads((root / "b" / name).read_text())
        for member in ("dtype", "data_type", "fill_value"):
            assert json.dumps(ours.get(member)) == json.dumps(theirs.get(member)), member


@given(case=cases(subarrays=True, formats="2"), data=st.data())
@settings(max_examples=examples(60))
def test_fields_that_are_arrays(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        values = case.values
        ours = hs.create_array(root / "a", **case.arguments())
        ours[...] = values
        opened = hs.open_array(root / "a", mode="r")
        document = json.loads((root / "a" / ".zarray").read_text())
        listed = [
            tuple(tuple(x) if isinstance(x, list) and n == 2 else x for n, x in enumerate(f))
            for f in document["dtype"]
        ]
        if all(isinstance(field[1], str) for field in listed):
            assert np.dtype(listed) == case.dtype
        assert opened.dtype == case.dtype
        same_elements(opened[...], values)
        if document["fill_value"] is not None:
            assert base64.b64decode(document["fill_value"]) == np.asarray(opened.fill_value).tobytes()


def part_of(draw: st.DataObject, dtype: np.dtype[Any]) -> str:
    return draw.draw(st.sampled_from(dtype.names or ()))


@given(case=cases(subarrays=True), data=st.data())
@settings(max_examples=examples(200))
def test_one_field_is_read_and_written_by_itself(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        model = case.values.astype(case.opened_dtype)
        ours = hs.create_array(root / "a", **case.arguments())
        assert ours.fields == case.dtype.names
        if data.draw(st.booleans()):
            ours[...] = model
        else:
            # In absent chunks the other fields have fill values, too.
            model[...] = ours.fill_value if ours.fill_value is not None else 0
        for number in range(5):
            name = part_of(data, case.dtype)
            selection = data.draw(selections(case.shape))
            index = (name, *selection) if data.draw(st.booleans()) else (*selection, name)
            whole = model[as_view(selection)][name]
            assert_same(ours[index], whole, repr(index))
            base = case.opened_dtype[name].base
            new = random_values if base.names is not None else from_bits
            value = new(case.seed + number, whole.size, base).reshape(whole.shape)
            model[as_view(selection)][name] = value
            ours[index] = value
            assert_same(ours[name], model[name], f"after {number}: {index!r}")
        same_elements(hs.open_array(root / "a", mode="r")[...], model, "all fields")
        names = (
            data.draw(st.lists(st.sampled_from(case.dtype.names), min_size=2, unique=True))
            if len(case.dtype.names or ()) > 1
            else []
        )
        if names:
            expected = np.empty(case.shape, [(name, case.opened_dtype[name]) for name in names])
            for name in names:
                expected[name] = model[name]
            assert_same(ours[tuple(names)], expected, repr(names))


@given(case=cases(), data=st.data())
@settings(max_examples=examples(80))
def test_one_field_of_other_selections(case: Case, data: st.DataObject) -> None:
    if not case.shape or 0 in case.shape:
        return
    ours = hs.create_array(hs.MemoryStore(), **case.arguments())
    model = case.values.astype(case.opened_dtype)
    ours[...] = model
    name = part_of(data, case.dtype)
    lists = [data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5)) for n in case.shape]
    grid = np.ix_(*lists)
    assert_same(ours.oindex[(name, *lists)], model[name][grid], "orthogonal")
    assert_same(ours.get_orthogonal_selection(tuple(lists), fields=name), model[name][grid], "orthogonal")
    count = min(map(len, lists))
    points = tuple(items[:count] for items in lists)
    assert_same(ours.vindex[(*points, name)], model[name][points], "points")
    assert_same(ours.get_coordinate_selection(points, fields=[name])[name], model[name][points], "points")
    mask = np.random.default_rng(case.seed).random(case.shape) < 0.4
    assert_same(ours.get_mask_selection(mask, fields=name), model[name][mask], "mask")
    assert_same(
        ours.blocks[(0, name)],
        model[name][: case.chunks[0] if case.shards is None else case.shards[0]],
        "blocks",
    )
    base = case.opened_dtype[name]
    new = random_values if base.names is not None else from_bits
    value = new(case.seed, 1, base)[0]
    model[name][mask] = value
    ours.set_mask_selection(mask, value, fields=name)
    assert_same(ours[name], model[name], "mask written")
    model[name][grid] = value
    ours.oindex[(name, *lists)] = value
    out = np.empty(case.shape, base)
    assert ours.get_basic_selection(fields=name, out=out) is out
    assert_same(out, model[name], "orthogonal written")
    same_elements(ours[...], model, "all fields")


def test_names_of_fields_that_are_not_there() -> None:
    z = hs.zeros((3,), dtype=[("a", "i4"), ("b", "f8")])
    plain = hs.zeros((3,), dtype="i4")
    assert plain.fields is None
    for read in (
        lambda: z["c"], lambda: z["a", "c"], lambda: z.get_basic_selection(fields="c"), lambda: plain["a"],
        lambda: plain.get_basic_selection(fields="a"), lambda: z.get_basic_selection(fields=3),
        lambda: z.set_basic_selection(..., 1, fields=["a", "b"]), lambda: z.explain("c"),
        lambda: z["a", 3], lambda: z.oindex["c", [0]],
    ):  # fmt: skip
        with pytest.raises(IndexError):
            read()
    with pytest.raises(ValueError):
        z["a"] = [1, 2]
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open_array(z.store, mode="r")["a"] = 1
    assert z.get_basic_selection(fields=[]).dtype == z.dtype


def test_newaxis_beside_a_name_is_refused() -> None:
    z = hs.zeros((3, 4), dtype=[("a", "i4"), ("b", "f8")])
    for key in [("a", None), (None, "a"), ("a", 1, None), ("a", "b", None, ...)]:
        with pytest.raises(IndexError, match=r"np\.newaxis beside the name"):
            z[key]
        with pytest.raises(IndexError, match=r"np\.newaxis beside the name"):
            z[key] = 1
    assert not z["a"].any()
    assert z["a"][None].shape == (1, 3, 4)


def test_a_field_of_chunks_without_codecs_is_read_by_itself() -> None:
    dtype = [("head", "u1"), ("wide", "V20000"), ("tail", "<f4")]
    z = hs.create_array(hs.MemoryStore(), shape=(64,), chunks=(16,), dtype=dtype, compressors=None)
    z["tail"] = np.arange(64)
    assert np.array_equal(z["tail"], np.arange(64, dtype="f4"))
    told = z.explain("tail")
    assert told.bytes_read < 64 * 4096 and told.bytes_decoded == 0
    assert set(told.strategies) == {"read-rows"}
    assert np.array_equal(z["tail", 5:60:7], np.arange(64, dtype="f4")[5:60:7])
    assert not z["head"].any()


@given(case=cases(subarrays=True), data=st.data())
@settings(max_examples=examples(60))
def test_copies_of_zarr_arrays(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        ours = hs.create_array(root / "a", **case.arguments())
        ours[...] = case.values
        to = data.draw(st.sampled_from([2, 3]))
        if to == 3 and has_arrays(case.dtype):
            with pytest.raises(hs.errors.InvalidArgumentError, match="is an array"):
                hs.copy(root / "a", root / "b", zarr_format=to)
            return
        hs.copy(root / "a", root / "b", zarr_format=to, verify=True)
        copied = hs.open_array(root / "b")
        same_elements(copied[...], case.values)
        assert copied.fields == ours.fields
        if case.zarr_format == 3 and to == 2 and not case.shape:
            # A scalar of v3 is a variable. Its fill value does not mark missing elements, so v2
            # gets none.
            assert copied.fill_value is None
        elif ours.fill_value is not None:
            same_elements(copied.fill_value, np.asarray(ours.fill_value))


def has_arrays(dtype: np.dtype[Any]) -> bool:
    fields = [dtype[name] for name in dtype.names or ()]
    return any(field.shape or has_arrays(field.base) for field in fields)


@given(
    dtype=structures(subarrays=True, names=("i1", "i2", "u4", "f4", "f8", "c8", "S3", "V3")),
    align=st.booleans(),
    to=st.sampled_from([2, 3]),
    shape=shapes_and_chunks(2),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=examples(60))
def test_copies_of_compounds_of_hdf5(
    dtype: np.dtype[Any], align: bool, to: int, shape: tuple[Any, Any], seed: int
) -> None:
    stored = aligned(dtype) if align else dtype
    values = random_values(seed, math.prod(shape[0]), stored).reshape(shape[0])
    with scratch() as root:
        with h5py.File(root / "a.h5", "w") as file:
            chunked = {"chunks": True, "compression": "gzip"} if shape[0] and 0 not in shape[0] else {}
            # Elements that are not stored have a value other than zero.
            fill = {"fillvalue": random_values(seed + 1, 1, stored)[0]} if seed % 2 else {}
            data = file.create_dataset("a", shape[0], stored, **chunked, **fill)
            if seed % 3:
                data[...] = values
            expected = data[...]
        if to == 3 and has_arrays(dtype):
            with pytest.raises(hs.errors.InvalidArgumentError, match="is an array"):
                hs.copy(root / "a.h5", root / "b", zarr_format=to)
            return
        hs.copy(root / "a.h5", root / "b", zarr_format=to, verify=True)
        copied = hs.open(root / "b")["a"]
        same_elements(copied[...], expected.astype(without_gaps(expected.dtype)))


def without_gaps(dtype: np.dtype[Any]) -> np.dtype[Any]:
    fields = [(name, dtype[name].base, dtype[name].shape) for name in dtype.names or ()]
    return np.dtype(
        [(name, without_gaps(base) if base.names else base, shape) for name, base, shape in fields]
    )


def aligned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    fields: list[Any] = []
    for name in dtype.names or ():
        base = dtype[name].base
        kind = base if base.names is None else aligned(base)
        fields.append((name, kind, dtype[name].shape) if dtype[name].shape else (name, kind))
    return np.dtype(fields, align=True)


def test_fields_of_hdf5_by_zarrs_names(tmp_path: Path) -> None:
    values = random_values(5, 6, np.dtype([("a", "<i4"), ("b", "<f8")]))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = values
    found = hs.open(tmp_path / "a.h5")["a"]
    assert_same(found.get_basic_selection(slice(1, 4), fields="b"), values["b"][1:4])
    assert_same(found.oindex["a", [4, 1]], values["a"][[4, 1]])
    with pytest.raises(hs.errors.ReadOnlyError):
        found.set_basic_selection(..., 3, fields="a")


def test_compounds_that_zarr_has_not(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("text", (2,), [("a", "i4"), ("b", h5py.string_dtype())])
        kind = np.dtype([("a", h5py.enum_dtype({"NO": 0, "YES": 1}, "i2")), ("b", bool)])
        file.create_dataset("flags", data=np.array([(1, True), (0, False)], kind))
    with pytest.raises(hs.errors.InvalidArgumentError, match="variable length"):
        hs.copy(tmp_path / "a.h5", tmp_path / "b")
    report = hs.copy(tmp_path / "a.h5", tmp_path / "b", skip_unsupported=True)
    assert report.arrays == 1
    copied = hs.open(tmp_path / "b")["flags"]
    assert copied.dtype == np.dtype([("a", "<i2"), ("b", "?")])
    assert copied["a"].tolist() == [1, 0] and copied["b"].tolist() == [True, False]


@given(case=cases(subarrays=False, names=tuple(NUMBERS), formats="2"), data=st.data())
@settings(max_examples=examples(60))
def test_fields_with_tensorstore(case: Case, data: st.DataObject) -> None:
    plain = [name for name in case.dtype.names or () if case.dtype[name].names is None]
    if any(case.dtype[name].names is not None for name in case.dtype.names or ()) or case.fill is None:
        return
    with scratch() as root:
        model = case.values
        ours = hs.create_array(root / "a", **case.arguments())
        ours[...] = model
        name = data.draw(st.sampled_from(plain))
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{root}/a/"}, "field": name}
        theirs = ts.open(spec, context=ts.Context({"file_io_sync": False})).result()
        native = case.dtype[name].newbyteorder("=")
        assert_same(np.asarray(theirs.read().result()), model[name].astype(native), "TensorStore reads")
        new = from_bits(case.seed + 1, model.size, native).reshape(case.shape)
        if model.size:
            theirs[...] = new
        model[name] = new
        assert_same(ours[name], model[name], "TensorStore wrote a field")
        same_elements(ours[...], model, "the others stayed")


def test_what_is_told_of_the_type(tmp_path: Path) -> None:
    dtype = np.dtype([("id", "<i4"), ("at", [("x", ">f8"), ("y", ">f8", (2,))])])
    z = hs.create_array(tmp_path / "a", shape=(3,), dtype=dtype, zarr_format=2, fill_value=(1, (2, 3)))
    assert z.dtype == dtype and str(dtype) in repr(z) and "id" in str(z.info)
    assert z.metadata.dtype.to_native_dtype() == dtype
    assert z.metadata.dtype.to_json(2) == [["id", "<i4"], ["at", [["x", ">f8"], ["y", ">f8", [2]]]]]
    assert z.metadata.fill_value == z.fill_value == np.array((1, (2, 3)), dtype)[()]
    assert "{id: int32, at: {x: >f8, y: >f8(2,)}}" in cli("info", tmp_path / "a")
    group = hs.create_group(tmp_path / "g")
    v3 = group.create_array("a", shape=(3,), dtype=[("id", "i4"), ("wide", "M8[ns]")])
    assert v3.metadata.data_type.to_json(3)["name"] == "struct"
    assert v3.metadata.codecs[0].endian == "little"
    assert "id" in str(group.tree()) and "{id: int32" in cli("tree", tmp_path / "g")
    assert pickle.loads(pickle.dumps(v3)).dtype == v3.dtype
    with pytest.raises(hs.errors.UnsupportedError, match="is an array"):
        hs.create_array(hs.MemoryStore(), shape=(3,), dtype=dtype)
    with pytest.warns(hs.errors.ZarrUserWarning, match="gaps"):
        packed = hs.create_array(hs.MemoryStore(), shape=(3,), dtype=np.dtype("u1,f8", align=True))
    inner = np.dtype([("a", np.dtype("u1,f8", align=True), (2,))])
    with pytest.warns(hs.errors.ZarrUserWarning, match="gaps"):
        deep = hs.full((2,), ([(1, 2.0), (3, 4.0)],), dtype=inner, zarr_format=2)
    assert deep.dtype == np.dtype([("a", "u1,f8", (2,))]) and deep[0]["a"].tolist() == [(1, 2.0), (3, 4.0)]
    packed[...] = np.array([(1, 2.0)] * 3, np.dtype("u1,f8", align=True))
    assert packed.dtype.itemsize == 9 and packed[1].tolist() == (1, 2.0)


def cli(*arguments: Any) -> str:
    command = [sys.executable, "-m", "hyperslab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_streams_writers_and_appends() -> None:
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    values = random_values(3, 20, dtype)
    z = hs.create_array(hs.MemoryStore(), shape=(10,), chunks=(3,), dtype=dtype)
    with z.writer() as w:
        w[:5] = values[:5]
        w[5:10] = values[5:10]
    z.append(values[10:])
    assert_same(z[...], values)
    assert_same(np.array([row for _, row in z.stream()]), values)
    assert_same(hs.array(values)[...], values)
    assert_same(hs.zeros_like(z)[...], np.zeros(20, dtype))
    assert_same(hs.full((2,), (1, 2.5), dtype=dtype)[...], np.array([(1, 2.5)] * 2, dtype))
    assert z[3].dtype == dtype and isinstance(z[3], np.void)


@pytest.mark.parametrize("fill", [0, (3, 1.5)])
@pytest.mark.parametrize("shards", [None, (64,)])
def test_two_threads_write_two_fields_of_the_same_chunks(shards: Any, fill: Any) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    for _ in range(5):
        z = hs.create_array(
            hs.MemoryStore(), shape=(512,), chunks=(16,), shards=shards, dtype=dtype, fill_value=fill
        )

        def write(name: str, z: hs.Array = z) -> None:
            for start in range(0, 512, 8):
                z[name, start : start + 8] = np.arange(start, start + 8)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, ("a", "b")))
        assert z["a"].tolist() == z["b"].tolist() == list(range(512))


def test_fields_by_way_of_a_cache(tmp_path: Path) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "S3")])
    values = random_values(9, 60, dtype).reshape(6, 10)
    for order in "CF":
        z = hs.create_array(
            tmp_path / order, shape=(6, 10), chunks=(4, 4), dtype=dtype, zarr_format=2, order=order
        )
        z[...] = values
    # A cache does not keep chunks that were just written: they could change without a new time.
    time.sleep(2.5)
    for order in "CF":
        cached = hs.open_array(tmp_path / order).with_config({"cache": "1 MiB"})
        for _ in range(2):
            for name in dtype.names or ():
                assert_same(cached[name, 1:, ::-2], values[name][1:, ::-2], name)
            assert_same(np.ascontiguousarray(cached[...]), values)
        assert cached.cache is not None and cached.cache.hits > 0
        cached["b"] = 3
        assert (cached["b"] == 3).all() and (cached[...]["b"] == 3).all()
