"""Virtual datasets with other types than their sources: what h5py reads, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

h5py = pytest.importorskip("h5py")
h5t: Any = h5py.h5t


@dataclass
class Stored:
    """A stored type, which also makes elements. ``what`` names its class, to tell types apart."""

    what: str
    type_id: Any
    parts: tuple[Stored, ...] = ()
    names: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return int(self.type_id.get_size())

    def elements(self, rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        """Returns `count` stored elements, each as one row of bytes."""
        made = rng.integers(0, 256, (count, self.size), dtype="u1")
        if self.what == "bool":
            return made & 1
        if self.what == "text":
            return np.asarray(rng.choice(np.frombuffer(b"ab  \0", "u1"), made.shape))
        if self.what in ("integer", "float", "extended"):
            return self.numbers(rng, count)
        if self.what == "array":
            inner = self.parts[0]
            return inner.elements(rng, count * (self.size // inner.size)).reshape(count, self.size)
        for part, offset in zip(self.parts, self.offsets, strict=True):
            made[:, offset : offset + part.size] = part.elements(rng, count)
        return made

    def numbers(self, rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        """Returns small and large numbers, fractions, and numbers that no integer can be."""
        dtype = self.type_id.dtype
        if self.what == "integer":
            info = np.iinfo(dtype)
            small = rng.integers(max(info.min, -300), min(info.max, 300), count, endpoint=True)
            values = np.where(rng.random(count) < 0.3, rng.choice([info.min, info.max], count), small)
        else:
            with np.errstate(over="ignore"):
                odd = [
                    np.nan,
                    np.inf,
                    -np.inf,
                    65504.0,
                    1e30,
                    -1e30,
                    -0.0,
                    2.0**31,
                    2.0**32,
                    2.0**63,
                    2.0**64,
                ]
                values = rng.normal(0, 300, count)
                # The HDF5 library turns some fractions between -0.5 and 0 into the smallest
                # integer.
                values[(values > -1) & (values < 0)] = 0.25
                values = np.where(rng.random(count) < 0.3, rng.choice(odd, count), values)
        with np.errstate(over="ignore", invalid="ignore"):
            made = np.ascontiguousarray(values.astype(dtype))
        return made.view("u1").reshape(count, self.size)


def number(name: str) -> Stored:
    dtype = np.dtype(name)
    what = "extended" if dtype.itemsize == 16 else "integer" if dtype.kind in "iu" else "float"
    return Stored(what, h5t.py_create(dtype))


def text(size: int, padding: int, utf8: bool) -> Stored:
    made = h5t.C_S1.copy()
    made.set_size(size)
    made.set_strpad(padding)
    made.set_cset(h5t.CSET_UTF8 if utf8 else h5t.CSET_ASCII)
    return Stored("text", made)


def enumeration(base: str, names: dict[str, int]) -> Stored:
    return Stored("enum", h5t.py_create(h5py.enum_dtype(names, basetype=base), logical=True))


def compound(names: list[str], parts: list[Stored], gap: int) -> Stored:
    at, offsets = 0, []
    for part in parts:
        offsets.append(at)
        at += part.size + gap
    made = h5t.create(h5t.COMPOUND, at)
    for name, part, offset in zip(names, parts, offsets, strict=True):
        made.insert(name.encode(), offset, part.type_id)
    return Stored("compound", made, tuple(parts), tuple(names), tuple(offsets))


def array(base: Stored, shape: tuple[int, ...]) -> Stored:
    return Stored("array", h5t.array_create(base.type_id, shape), (base,))


PADDINGS = (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD)
NUMBERS = [
    *(f"{order}{kind}{size}" for order in "<>" for kind in "iu" for size in (1, 2, 4, 8)),
    *(f"{order}f{size}" for order in "<>" for size in (2, 4, 8)),
    "g",
]

simple = st.one_of(
    st.sampled_from(NUMBERS).map(number),
    st.just(Stored("bool", h5t.py_create(np.dtype("?"), logical=True))),
    st.builds(text, st.integers(1, 7), st.sampled_from(PADDINGS), st.sampled_from([False, False, True])),
    st.builds(
        enumeration,
        st.sampled_from(["i1", "u1", ">i2", "<i4"]),
        st.sampled_from([{"A": 1, "B": 3}, {"B": 0, "C": 7, "D": 5}]),
    ),
    st.sampled_from(["STD_B8LE", "STD_B16LE", "STD_B16BE", "STD_B32LE"]).map(
        lambda name: Stored("bits", getattr(h5t, name))
    ),
    st.sampled_from(["V3", "V8"]).map(lambda name: Stored("opaque", h5t.py_create(np.dtype(name)))),
)


def nested(inner: st.SearchStrategy[Stored]) -> st.SearchStrategy[Stored]:
    names = st.lists(st.sampled_from("abri"), min_size=1, max_size=3, unique=True)
    compounds = names.flatmap(
        lambda names: st.builds(
            compound,
            st.just(names),
            st.lists(inner, min_size=len(names), max_size=len(names)),
            st.sampled_from([0, 0, 3]),
        )
    )
    return compounds | st.builds(array, inner, st.sampled_from([(2,), (2, 3)]))


stored = st.recursive(simple, nested, max_leaves=5)


@st.composite
def related(draw: st.DrawFn, given: Stored) -> Stored:
    """Draws a type that the given type can be converted to, or almost."""
    if draw(st.integers(0, 9)) == 0:
        return draw(stored)
    if given.what == "text":
        utf8 = given.type_id.get_cset() == h5t.CSET_UTF8
        return text(draw(st.integers(1, 7)), draw(st.sampled_from(PADDINGS)), utf8)
    if given.what == "array":
        return array(draw(related(given.parts[0])), given.type_id.get_array_dims())
    if given.what == "compound":
        members = dict(zip(given.names, given.parts, strict=True))
        names = draw(st.lists(st.sampled_from("abri"), min_size=1, max_size=3, unique=True))
        parts = [draw(related(members[name]) if name in members else simple) for name in names]
        return compound(names, parts, draw(st.sampled_from([0, 0, 3])))
    return draw(simple)


def names_as_booleans(source: Stored, target: Stored) -> bool:
    """Returns whether an enumeration would become a Boolean.

    The HDF5 library then looks for its names among FALSE and TRUE, finds none, and makes
    meaningless values.
    """
    if source.what == "compound" and target.what == "compound":
        members = dict(zip(source.names, source.parts, strict=True))
        pairs = zip(target.names, target.parts, strict=True)
        return any(name in members and names_as_booleans(members[name], part) for name, part in pairs)
    if source.what == target.what == "array":
        return names_as_booleans(source.parts[0], target.parts[0])
    return source.what == "enum" and target.what == "bool"


def create(file: Any, name: bytes, made: Stored, shape: tuple[int, ...], properties: Any) -> Any:
    return h5py.h5d.create(file.id, name, made.type_id, h5py.h5s.create_simple(shape), properties)


def assert_same(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    if theirs.dtype.names is None:
        assert ours.dtype.itemsize == theirs.dtype.itemsize
        np.testing.assert_array_equal(ours, theirs)
        return
    assert ours.dtype.names == theirs.dtype.names
    for name in theirs.dtype.names:
        assert_same(ours[name], theirs[name])


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(150))
def test_as_h5py_reads_them(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = data.draw(stored)
    target = data.draw(related(source))
    folder = tmp_path_factory.mktemp("virtual")
    storage = data.draw(st.sampled_from(["contiguous", "chunked", "gzip"]))
    elsewhere, fill = data.draw(st.booleans()), data.draw(st.booleans())
    step = data.draw(st.sampled_from([1, 3]))
    count, written = 40, data.draw(st.sampled_from([40, 40, 13]))
    with h5py.File(folder / "s.h5", "w") as other, h5py.File(folder / "v.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if storage != "contiguous":
            properties.set_chunk((7,))
        if storage == "gzip":
            properties.set_shuffle()
            properties.set_deflate(4)
        holder = other if elsewhere else file
        dataset = create(holder, b"s", source, (count,), properties)
        elements = source.elements(rng, written).reshape(-1).view(f"V{source.size}")
        some = h5py.h5s.create_simple((count,))
        some.select_hyperslab((0,), (written,))
        dataset.write(h5py.h5s.create_simple((written,)), some, elements, source.type_id)
        # From 5 on, every `step`-th element is one of the source. After them come elements of a
        # missing file, and elements without a source.
        shape = (5 + count * step + 20,)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        space, gone = h5py.h5s.create_simple(shape), h5py.h5s.create_simple(shape)
        space.select_hyperslab((5,), (count,), (step,))
        all_of_it = h5py.h5s.create_simple((count,))
        properties.set_virtual(space, b"s.h5" if elsewhere else b".", b"s", all_of_it)
        gone.select_hyperslab((5 + count * step,), (10,))
        properties.set_virtual(gone, b"gone.h5", b"s", h5py.h5s.create_simple((10,)))
        if fill and target.what in ("integer", "float"):
            properties.set_fill_value(np.array(7, target.type_id.dtype))
        create(file, b"v", target, shape, properties)
    selections: list[Any] = [..., slice(3, 70, 4), slice(6, 6 + count), slice(5 + count * step - 1, None)]
    with h5py.File(folder / "v.h5") as theirs, hs.open(folder / "v.h5", mode="r") as ours:
        if names_as_booleans(source, target):
            with pytest.raises(hs.HyperslabError, match="conversion of elements"):
                ours["v"][...]
            return
        for selection in selections:
            try:
                expected = theirs["v"][selection]
            except (OSError, ValueError, TypeError):
                with pytest.raises(hs.HyperslabError, match="conversion of elements"):
                    ours["v"][selection]
                continue
            assert_same(ours["v"][selection], expected)


def test_sources_that_are_virtual_are_converted_once(tmp_path: Path) -> None:
    """The intermediate type has no effect, but its fill value has."""
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["s"] = np.array([1000, -5, 3], "i4")
        layout = h5py.VirtualLayout((4,), "u1")
        layout[:3] = h5py.VirtualSource(".", "s", (3,))
        file.create_virtual_dataset("between", layout, fillvalue=7)
        layout = h5py.VirtualLayout((5,), "i4")
        layout[:4] = h5py.VirtualSource(".", "between", (4,))
        file.create_virtual_dataset("v", layout, fillvalue=-9)
    with h5py.File(tmp_path / "v.h5") as theirs, hs.open(tmp_path / "v.h5", mode="r") as ours:
        assert theirs["v"][...].tolist() == ours["v"][...].tolist() == [1000, -5, 3, 7, -9]
        assert theirs["between"][...].tolist() == ours["between"][...].tolist() == [255, 0, 3, 7]


def test_members_that_no_source_has_are_zero_and_others_filled(tmp_path: Path) -> None:
    source = np.dtype([("a", "i2"), ("x", "f4")])
    target = np.dtype([("x", "f8"), ("none", "i4"), ("a", "i4")])
    with h5py.File(tmp_path / "v.h5", "w") as file:
        options: Any = {"chunks": (2,), "compression": "gzip", "fillvalue": np.array((5, 1.5), source)}
        file.create_dataset("s", (4,), source, **options)[:2] = (1, 2.5)
        layout = h5py.VirtualLayout((8,), target)
        layout[:4] = h5py.VirtualSource(".", "s", (4,))
        layout[4:6] = h5py.VirtualSource("gone.h5", "s", (2,))
        file.create_virtual_dataset("v", layout, fillvalue=np.array((9, 8, 7), target))
    expected = [(2.5, 0, 1), (2.5, 0, 1), (1.5, 0, 5), (1.5, 0, 5), *[(9.0, 8, 7)] * 4]
    with h5py.File(tmp_path / "v.h5") as theirs, hs.open(tmp_path / "v.h5", mode="r") as ours:
        assert theirs["v"][...].tolist() == ours["v"][...].tolist() == expected
        assert ours["v"]["x"].tolist() == [row[0] for row in expected]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.zeros(3, "f4"), np.dtype("?")),
        (np.zeros(3, "S3"), np.dtype("i4")),
        (np.zeros(3, "i4"), np.dtype([("a", "i4")])),
        (np.zeros(3, [("a", "S3")]), np.dtype([("a", "i4")])),
        (np.zeros(3, "c8"), np.dtype("f4")),
    ],
    ids=str,
)
def test_what_h5py_refuses(tmp_path: Path, source: np.ndarray[Any, Any], target: np.dtype[Any]) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["s"] = source
        layout = h5py.VirtualLayout((3,), target)
        layout[:] = h5py.VirtualSource(".", "s", (3,))
        file.create_virtual_dataset("v", layout)
        with pytest.raises(OSError):
            file["v"][...]
    refused = "'s': conversion of elements from .* to .*, the type of the virtual dataset, is not supported"
    with hs.open(tmp_path / "v.h5", mode="r") as ours, pytest.raises(hs.HyperslabError, match=refused):
        ours["v"][...]
