"""Compares `hyperslab.h5` and its objects with h5py under the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from h5_compare import registered
from hdf5_same import same_values
from hyperslab import h5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w", track_order=True) as file:
        for name in ("z", "b", "a"):
            group = file.create_group(name, track_order=True)
            for inner in ("2", "10", "1"):
                group[inner] = 5
        file["z/again"] = file["a"]
        file["soft"], file["gone"] = h5py.SoftLink("/a"), h5py.SoftLink("/nowhere")
        file["other"] = h5py.ExternalLink("other.h5", "/x")
        file.create_dataset("grid", data=np.arange(60).reshape(5, 12), chunks=(2, 5), compression="lzf")
        file["line"], file["scalar"] = np.arange(10.0), 2.5
        file["pairs"] = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
        file["empty"] = h5py.Empty("S10")
        file["type"] = np.dtype([("x", "f4")])
        file.attrs["one"], file["grid"].attrs["units"] = 1, "K"
    return path


DTYPES = [
    lambda m: m.string_dtype(),
    lambda m: m.string_dtype("ascii"),
    lambda m: m.string_dtype("UTF_8", 5),
    lambda m: m.string_dtype("ascii", 7),
    lambda m: m.vlen_dtype("f4"),
    lambda m: m.vlen_dtype(m.vlen_dtype("i2")),
    lambda m: m.enum_dtype({"a": 1, "b": 2}),
    lambda m: m.enum_dtype({"a": -1}, "i4"),
    lambda m: m.opaque_dtype("M8[s]"),
    lambda m: m.special_dtype(vlen=str),
    lambda m: m.special_dtype(vlen=bytes),
    lambda m: m.special_dtype(vlen=np.dtype("f8")),
    lambda m: m.special_dtype(enum=("i2", {"a": 1})),
    lambda m: np.dtype("f4"),
    lambda m: np.dtype("S7"),
]


@pytest.mark.parametrize("make", DTYPES)
def test_data_types(make: Any) -> None:
    ours, theirs = make(h5), make(h5py)
    assert ours == theirs and ours.metadata == theirs.metadata
    for check in ("string", "vlen", "enum", "ref", "opaque"):
        name = f"check_{check}_dtype"
        assert getattr(h5, name)(ours) == getattr(h5py, name)(theirs), name
    for key in ("vlen", "enum", "ref"):
        assert h5.check_dtype(**{key: ours}) == h5py.check_dtype(**{key: theirs})


def test_data_types_of_references() -> None:
    assert h5.check_ref_dtype(h5.ref_dtype) is h5.check_dtype(ref=h5.ref_dtype) is h5.Reference
    assert h5.check_ref_dtype(h5.special_dtype(ref=h5.RegionReference)) is h5.RegionReference
    assert h5.regionref_dtype.metadata == {"ref": h5.RegionReference}


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.string_dtype("latin-1"),
        lambda m: m.string_dtype("ascii", "3"),
        lambda m: m.enum_dtype({"a": 1}, "f4"),
        lambda m: m.special_dtype(),
        lambda m: m.special_dtype(vlen=str, ref=m.Reference),
        lambda m: m.special_dtype(ref=int),
        lambda m: m.special_dtype(enum=3),
        lambda m: m.special_dtype(other=3),
        lambda m: m.check_dtype(vlen=np.dtype("f4"), ref=np.dtype("f4")),
        lambda m: m.MultiBlockSlice(start=-1),
        lambda m: m.MultiBlockSlice(stride=0),
        lambda m: m.MultiBlockSlice(block=3, stride=2),
        lambda m: m.MultiBlockSlice(start=5, count=6).indices(10),
    ],
)
def test_refusals(make: Any) -> None:
    with pytest.raises(Exception) as theirs:
        make(h5py)
    with pytest.raises(theirs.type):
        make(h5)


def test_visits_are_in_the_order_of_names(path: Path) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        assert list(ours) == list(theirs) and list(ours)[0] == "z"
        for method in ("visit", "visit_links"):
            found: list[str] = []
            expected: list[str] = []
            getattr(ours, method)(found.append)
            getattr(theirs, method)(expected.append)
            assert found == expected, method
        assert "z/again" in found and "gone" in found
        for function in ("visititems", "visititems_links"):
            assert getattr(ours, function)(lambda name, _: name if "1" in name else None) == "a/1"
        links: dict[str, Any] = {}
        ours.visititems_links(links.__setitem__)
        assert links["other"].filename == "other.h5" and links["soft"].path == "/a"


def test_mappings(path: Path) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        for mine, expected in ((ours, theirs), (ours["a"], theirs["a"]), (ours.attrs, theirs.attrs)):
            assert repr(mine.keys()) == repr(expected.keys())
            assert list(reversed(mine.keys())) == list(reversed(list(expected)))
            assert len(mine.values()) == len(expected.values()) == len(mine.items())
            assert [name for name, _ in mine.items()] == [name for name, _ in expected.items()]
            assert [name for name, _ in reversed(mine.items())] == list(reversed(list(expected)))
        assert ours["z"] in ours.values() and ("line", ours["line"]) in ours.items()
        assert ours.get("other", elink_mode="r") is None
        assert ours.attrs[b"one"] == 1 and b"one" in ours.attrs
        with pytest.raises(KeyError, match="can't locate attribute: 'none'"):
            ours.attrs["none"]
        with pytest.raises(TypeError):
            ours.attrs[1]


BLOCKS = [{"start": 1, "stride": 4, "block": 2}, {"count": 3}, {"start": 2, "count": 2, "stride": 3}, {}]


@pytest.mark.parametrize("given", BLOCKS)
def test_blocks(path: Path, given: dict[str, int]) -> None:
    ours, theirs = h5.MultiBlockSlice(**given), h5py.MultiBlockSlice(**given)
    assert repr(ours) == repr(theirs)
    assert ours.indices(12) == theirs.indices(12)
    with hs.File(path) as file, h5py.File(path) as expected:
        same_values(file["line"][ours], expected["line"][theirs])
        same_values(file["grid"][1, ours], expected["grid"][1, theirs])
        same_values(file["grid"][..., ours], expected["grid"][..., theirs])
        mine, other = h5.MultiBlockSlice(1, 2, 2, 1), h5py.MultiBlockSlice(1, 2, 2, 1)
        same_values(file["grid"][mine, ours], expected["grid"][other, theirs])


@pytest.mark.parametrize("given", BLOCKS)
def test_blocks_of_h5py(path: Path, given: dict[str, int]) -> None:
    """An index of h5py's own class reads the same as in h5py."""
    blocks, few = h5py.MultiBlockSlice(**given), h5py.MultiBlockSlice(1, 2, 2, 1)
    with hs.File(path) as file, h5py.File(path) as expected:
        same_values(file["line"][blocks], expected["line"][blocks])
        for index in ((1, blocks), (..., blocks), (few, blocks), (slice(1, 3), blocks)):
            same_values(file["grid"][index], expected["grid"][index])
        same_values(file["line"].astype("i2")[blocks], expected["line"].astype("i2")[blocks])
        for made in (h5, h5py):
            ours, theirs = np.zeros((2, 12), "f4"), np.zeros((2, 12), "f4")
            chosen = made.MultiBlockSlice(1, 2, 2, 1)
            file["grid"].read_direct(ours, (chosen, slice(None)))
            expected["grid"].read_direct(theirs, (few, slice(None)))
            same_values(ours, theirs)
        region = file["line"].regionref[blocks]
        same_values(file["line"][region], expected["line"][blocks])


def test_blocks_that_do_not_fit(path: Path) -> None:
    blocks = h5py.MultiBlockSlice(start=5, count=6, stride=3)
    with hs.File(path) as file, h5py.File(path) as expected:
        with pytest.raises(ValueError) as theirs:
            expected["line"][blocks]
        with pytest.raises(ValueError, match="beyond maximum index") as ours:
            file["line"][blocks]
        assert str(ours.value) == str(theirs.value)


def test_blocks_of_another_class_are_refused(path: Path) -> None:
    other = type("MultiBlockSlice", (), {})()
    with hs.File(path) as file, pytest.raises(hs.errors.UnsupportedSelectionError, match="not understood"):
        file["line"][other]


REGIONS: list[Any] = [
    None,
    np.s_[1:4, 3:11],
    np.s_[0:5, 4:6],
    np.s_[2, 5:7],
    np.s_[:, 3:],
    np.s_[2:2, :],
    np.s_[0:9, :],
    np.s_[1:2],
]


@pytest.mark.parametrize("region", REGIONS)
def test_chunks_of_a_region(path: Path, region: Any) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        try:
            expected = list(theirs["grid"].iter_chunks(region))
        except ValueError:
            with pytest.raises(ValueError, match="Invalid selection"):
                ours["grid"].iter_chunks(region)
            return
        assert list(ours["grid"].iter_chunks(region)) == expected
        with pytest.raises(TypeError, match="Chunked"):
            ours["line"].iter_chunks()


@pytest.mark.parametrize("dtype", ["i8", "f4", "i2", ">u4"])
@pytest.mark.parametrize(
    ("shape", "source", "dest"),
    [
        ((5, 12), None, None),
        ((2, 3), np.s_[1:3, 4:7], None),
        ((9, 12), np.s_[1:3], np.s_[4:6]),
        ((12,), np.s_[3], None),
        ((4, 12), np.s_[3], np.s_[2]),
        ((1, 12), np.s_[3], None),
        ((2, 2, 6), np.s_[0:2, 0:6], np.s_[1]),
        ((3, 12), np.s_[3], None),
        ((5, 13), None, None),
    ],
)
def test_read_direct(path: Path, dtype: str, shape: tuple[int, ...], source: Any, dest: Any) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        found, expected = np.zeros(shape, dtype), np.zeros(shape, dtype)
        try:
            theirs["grid"].read_direct(expected, source, dest)
        except TypeError:
            with pytest.raises(TypeError, match="broadcast"):
                ours["grid"].read_direct(found, source, dest)
            return
        ours["grid"].read_direct(found, source, dest)
        same_values(found, expected)
        with pytest.raises(TypeError, match="Empty"):
            ours["empty"].read_direct(found)


def test_references(path: Path, tmp_path: Path) -> None:
    # h5py needs a writable file to create region references.
    (tmp_path / "theirs.h5").write_bytes(path.read_bytes())
    with hs.File(path) as ours:
        for name in ("a", "grid", "type", "/"):
            reference = ours[name].ref
            assert isinstance(reference, h5.Reference) and ours[reference] == ours[name]
        grid = ours["grid"]
        assert grid.ref == grid.ref != ours["line"].ref
        with h5py.File(tmp_path / "theirs.h5", "r+") as theirs:
            for key in (
                np.s_[1:4:2, 3:9],
                np.s_[2],
                np.s_[..., 5],
                np.s_[[0, 3, 4], 2],
                np.s_[[0, 3], [1, 5, 6]],
                np.s_[1:1, :],
                theirs["grid"][...] % 7 == 0,
                (slice(0, 2), h5py.MultiBlockSlice(1, 4, 2, 2)),
            ):
                mine = key
                if isinstance(key, tuple) and isinstance(key[1], h5py.MultiBlockSlice):
                    mine = (key[0], h5.MultiBlockSlice(1, 4, 2, 2))
                if isinstance(key, tuple) and all(isinstance(part, list) for part in key):
                    # h5py zips lists. hyperslab takes them as a grid.
                    expected = theirs["grid"][...][np.ix_(*key)]
                else:
                    region = theirs["grid"].regionref[key]
                    expected = theirs["grid"][region]
                    assert grid.regionref.selection(grid.regionref[mine]) == np.shape(expected)
                reference = grid.regionref[mine]
                assert isinstance(reference, h5.RegionReference) and ours[reference] == grid
                same_values(np.asarray(grid[reference]), np.asarray(expected), str(key))
                assert grid.regionref.shape(reference) == (5, 12)


def test_low_level(path: Path) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        for ask in (
            lambda file: file["line"].id.get_num_chunks(),
            lambda file: file["grid"].id.get_chunk_info(99),
            lambda file: file["grid"].id.read_direct_chunk((1, 0)),
        ):
            with pytest.raises(Exception) as expected:
                ask(theirs)
            with pytest.raises(expected.type):
                ask(ours)
        info = ours["grid"].id.get_chunk_info_by_coord((99, 0))
        assert (info.chunk_offset, info.byte_offset, info.size) == (None, None, 0)
        into = bytearray(1000)
        mask, data = ours["grid"].id.read_direct_chunk((2, 5), out=into)
        assert (mask, bytes(data)) == theirs["grid"].id.read_direct_chunk((2, 5))
        assert into[: len(data)] == data
        with pytest.raises(ValueError, match="too few"):
            ours["grid"].id.read_direct_chunk((2, 5), out=bytearray(3))
        assert ours["grid"].id == ours["grid"].id != ours["line"].id
        assert {ours["grid"].id: 1}[ours["grid"].id] == 1 and ours["grid"].id.name == b"/grid"
        assert theirs["grid"]._filters == ours["grid"]._filters == {"lzf": None}
        offset = ours["line"].id.get_offset()
        assert np.frombuffer(path.read_bytes()[offset : offset + 80]).tolist() == ours["line"][:].tolist()


def test_register(path: Path) -> None:
    with registered(), hs.File(path) as file:
        h5.register()
        for name, kind in (
            ("grid", h5py.Dataset),
            ("a", h5py.Group),
            ("type", h5py.Datatype),
            ("/", h5py.Group),
        ):
            assert isinstance(file[name], kind), name
        assert isinstance(file, h5py.File) and not isinstance(file["a"], h5py.File | h5py.Dataset)
        assert isinstance(file.attrs, h5py.AttributeManager) and isinstance(file["empty"][()], h5py.Empty)
        assert file["empty"][()] == h5py.Empty("S10") and h5py.Empty("S10") == file["empty"][()]
        assert isinstance(file["grid"], hs.FileArray | hs.Array) and type(file["grid"]) is hs.FileArray
        assert not isinstance(hs.zeros((2,), chunks=(1,)), h5py.Dataset)
    assert isinstance(hs.zeros((2,), chunks=(1,)), hs.Array)


def test_paths(path: Path) -> None:
    with hs.File(path) as ours, h5py.File(path) as theirs:
        for name in (
            ".",
            "./",
            ".///",
            "/",
            "./a",
            "a/./1",
            "/./a//1/",
            "a/1/",
            "a/..",
            "none/.",
            "soft/1",
            "gone/1",
            "",
        ):
            assert (name in ours) == (name in theirs), name
            assert (name.encode() in ours) == (name in theirs), name
            if name in theirs:
                assert (
                    ours[name].name.strip("/").split("/")[-1] == theirs[name].name.strip("/").split("/")[-1]
                )


def test_what_would_change_the_file(path: Path) -> None:
    with hs.File(path) as file:
        assert file.require_dataset("grid", (5, 12), "i4") == file["grid"]
        assert file.require_group("a") == file["a"]
        for wrong in (((5, 11), "i4", False), ((5, 12), "i4", True), ((5, 12), "f8", False)):
            with pytest.raises(TypeError, match="match|cast"):
                file.require_dataset("grid", *wrong)
        for change in (
            lambda: file.require_dataset("new", (1,), "i4"),
            lambda: file.create_dataset("new", data=1),
            lambda: file["grid"].write_direct(np.zeros((5, 12))),
            lambda: file["grid"].make_scale("x"),
            lambda: file.attrs.create("x", 1),
            lambda: file.attrs.modify("one", 2),
            lambda: setattr(file, "swmr_mode", True),
        ):
            with pytest.raises(hs.errors.ReadOnlyError, match="no write intent"):
                change()
