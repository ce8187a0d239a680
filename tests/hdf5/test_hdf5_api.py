"""HDF5 through `hyperslab.open` behaves as in h5py."""

from __future__ import annotations

import pickle
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest

PAIR = np.dtype([("a", "i4"), ("b", "f8", (2,))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Writes a file with one of each kind."""
    path = tmp_path / "all.h5"
    with h5py.File(path, "w", track_order=False) as file:
        file.attrs["title"] = "été"
        file.attrs["fixed"] = np.bytes_(b"abc")
        file.attrs["numbers"] = np.arange(6, dtype=">i2").reshape(2, 3)
        file.attrs["words"] = ["one", "zwei"]
        file.attrs["nothing"] = h5py.Empty("f4")
        file.attrs["flag"] = True
        file.attrs["pair"] = np.array((1, (2.5, 3.5)), PAIR)
        file.attrs["complex"] = 1 + 2j
        field = file.create_dataset(
            "g/field",
            data=np.arange(60, dtype="f4").reshape(5, 12),
            chunks=(2, 5),
            maxshape=(None, 12),
            compression="gzip",
            compression_opts=7,
            shuffle=True,
            fletcher32=True,
            fillvalue=-1,
        )
        field.attrs["units"] = "K"
        file["plain"] = np.arange(10)
        file["scalar"] = 2.5
        file["empty"] = h5py.Empty("i8")
        file["zero"] = np.zeros((0, 3))
        file["text"] = np.array(["a", "", "été", "x" * 300], object)
        file["one text"] = "alone"
        file["fixed"] = np.array([b"ab", b"c"])
        file["utf8"] = np.array(["é".encode(), b"c"], dtype=h5py.string_dtype("utf-8", 4))
        file["pairs"] = np.array([(n, (n, -n)) for n in range(4)], PAIR)
        file["enum"] = np.array([0, 5], dtype=h5py.enum_dtype({"red": 0, "blue": 5}, "i2"))
        file["flags"] = np.array([True, False])
        ragged = file.create_dataset("ragged", (3,), h5py.vlen_dtype("i4"))
        ragged[:] = [np.arange(n) for n in (2, 0, 3)]
        nested = file.create_dataset("nested", (2,), np.dtype([("n", "i4"), ("text", h5py.string_dtype())]))
        nested[:] = [(1, "one"), (2, "zwei")]
        file["type"] = PAIR
        references = file.create_dataset("references", (3,), h5py.ref_dtype)
        references[:2] = [file["g/field"].ref, file["g"].ref]
        regions = file.create_dataset("regions", (2,), h5py.regionref_dtype)
        regions[0] = field.regionref[1:4:2, 3:9]
        regions[1] = field.regionref[[0, 3, 4], 2]
        file["soft"] = h5py.SoftLink("/g/field")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["other"] = h5py.ExternalLink("other.h5", "/x")
        file["g/self"] = file["g"]
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3)
    return path


def test_a_group_is_a_mapping(path: Path) -> None:
    file = hs.open(path)
    with h5py.File(path) as theirs:
        assert list(file) == list(file.keys()) == list(theirs)
        assert len(file) == len(theirs)
        for name in (
            "g",
            "g/field",
            "/g/field",
            "soft",
            "dangling",
            "other",
            "none",
            "g/none",
            "none/x",
            "/",
            "",
        ):
            assert (name in file) == (name in theirs), name
        ours, expected = [], []
        file.visititems(lambda name, node: ours.append((name, isinstance(node, hs.Array))))
        theirs.visititems(lambda name, node: expected.append((name, isinstance(node, h5py.Dataset))))
        assert ours == expected
        assert file.visit(lambda name: name if "ra" in name else None) == "ragged"
    assert isinstance(file, hs.Group) and isinstance(file, hs.FileGroup)
    assert isinstance(file["g/field"], hs.Array) and isinstance(file["type"], hs.Datatype)
    assert (file["g"].name, file["g/field"].name, file["g/field"].basename) == ("/g", "/g/field", "field")
    assert file["g/field"].parent == file["g"] and file["g"].file == file
    assert file["type"].dtype == PAIR
    assert file["g"] == file["g/self"]
    assert {name for name, _ in file.groups()} == {"g"}
    assert "dangling" not in dict(file.arrays()) and "soft" in dict(file.arrays())
    assert [name for name, _ in file["g"].members()] == ["field", "self"]


def test_links(path: Path) -> None:
    file = hs.open(path)
    assert file["soft"] == file["g/field"]
    assert file["other"][:].tolist() == [0, 1, 2]
    assert file["other"].store.url.endswith("other.h5")
    for name in ("dangling", "none", "g/none"):
        with pytest.raises(KeyError):
            file[name]
    assert file.get("dangling") is None and file.get("none", 5) == 5
    assert isinstance(file.get("g", getlink=True), hs.HardLink)
    assert file.get("soft", getlink=True).path == "/g/field"
    assert file.get("dangling", getclass=True, getlink=True) is hs.SoftLink
    external = file.get("other", getlink=True)
    assert (external.filename, external.path) == ("other.h5", "/x")
    assert file.get("none", getlink=True) is None
    assert file.get("g", getclass=True) is hs.FileGroup


@pytest.mark.parametrize("policy", ["same-directory", "anywhere", "refuse"])
def test_files_elsewhere(tmp_path: Path, policy: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("outside.h5", "a/beside.h5", "a/b/below.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["x"] = 1
    with h5py.File(tmp_path / "a/b/below.h5", "a") as file:
        file["up"] = h5py.ExternalLink("../beside.h5", "/x")
        file["here"] = h5py.ExternalLink("below.h5", "/x")
    with h5py.File(tmp_path / "a/main.h5", "w") as file:
        file["beside"] = h5py.ExternalLink("beside.h5", "/x")
        file["below"] = h5py.ExternalLink("b/below.h5", "/up")
        file["twice"] = h5py.ExternalLink("b/below.h5", "/here")
        file["outside"] = h5py.ExternalLink("../outside.h5", "/x")
    hs.config.external_files = policy
    file = hs.open(tmp_path / "a/main.h5")
    allowed = {"same-directory": 3, "anywhere": 4, "refuse": 0}[policy]
    for name in ["beside", "below", "twice", "outside"][:allowed]:
        assert file[name][()] == 1
    for name in ["beside", "below", "twice", "outside"][allowed:]:
        with pytest.raises(hs.errors.ExternalFileError, match="external_files"):
            file[name]
        assert file.get(name) is None


def test_attributes(path: Path) -> None:
    attrs = hs.open(path).attrs
    with h5py.File(path) as file:
        assert list(attrs) == list(file.attrs)
        for name, value in file.attrs.items():
            found = attrs[name]
            if isinstance(value, h5py.Empty):
                assert found == hs.Empty("f4") and found.shape is None
                continue
            assert type(found) is type(value), name
            if isinstance(value, np.ndarray | np.generic):
                assert (found.dtype, found.shape) == (value.dtype, value.shape)
                assert repr(found.tolist()) == repr(value.tolist())
            else:
                assert found == value
    assert attrs["title"] == "été" and attrs["words"].tolist() == ["one", "zwei"]
    assert attrs.asdict().keys() == {*attrs} and "none" not in attrs and attrs.get("none") is None
    with pytest.raises(KeyError):
        attrs["none"]
    with pytest.raises(hs.errors.ReadOnlyError, match="opened for reading"):
        attrs["title"] = 1


def test_properties(path: Path) -> None:
    file = hs.open(path)
    names = (
        *(
            "shape",
            "maxshape",
            "chunks",
            "size",
            "nbytes",
            "ndim",
            "dtype",
            "compression",
            "compression_opts",
        ),
        *("shuffle", "fletcher32", "scaleoffset", "is_virtual", "external", "fillvalue", "name"),
    )
    with h5py.File(path) as theirs:
        for dataset in ("g/field", "plain", "scalar", "empty", "zero", "fixed", "pairs", "enum", "flags"):
            for name in names:
                assert getattr(file[dataset], name) == getattr(theirs[dataset], name), (dataset, name)
        for name in ("g/field", "text", "zero"):
            assert len(file[name]) == len(theirs[name])
    field = file["g/field"]
    assert field.filter_ids == (2, 1, 3) and field.fill_value == -1 and field.cdata_shape == (3, 3)
    assert field.nchunks_initialized == 9 and field.read_only
    assert len(list(field.iter_chunks())) == 9
    with pytest.raises(AttributeError):
        field.zarr_format


def test_types_are_described_for_h5py(path: Path) -> None:
    file = hs.open(path)
    assert h5py.check_string_dtype(file["text"].dtype) == h5py.h5t.string_info("utf-8", None)
    assert h5py.check_string_dtype(file["fixed"].dtype) == h5py.h5t.string_info("ascii", 2)
    assert h5py.check_string_dtype(file["utf8"].dtype) == h5py.h5t.string_info("utf-8", 4)
    assert h5py.check_enum_dtype(file["enum"].dtype) == {"red": 0, "blue": 5}
    assert h5py.check_vlen_dtype(file["ragged"].dtype) == np.dtype("i4")
    assert h5py.check_ref_dtype(file["references"].dtype) is hs.Reference
    assert h5py.check_ref_dtype(file["regions"].dtype) is hs.RegionReference
    assert file["flags"].dtype == bool


def test_text(path: Path) -> None:
    file = hs.open(path)
    words = ["a", "", "été", "x" * 300]
    assert file["text"][:].tolist() == [word.encode() for word in words]
    assert file["text"][2] == "été".encode() and file["one text"][()] == b"alone"
    assert file["text"].asstr()[:].tolist() == words and file["text"].asstr()[2] == "été"
    assert file["text"].asstr("latin-1")[2] == "été".encode().decode("latin-1")
    assert file["text"][::-2].tolist() == [word.encode() for word in words[::-2]]
    assert file["utf8"].asstr()[:].tolist() == ["é", "c"] and file["one text"].asstr()[()] == "alone"
    typed = file["text"].astype("T")[:]
    assert typed.dtype == np.dtypes.StringDType() and typed.tolist() == words
    assert np.asarray(file["text"].asstr()).tolist() == words
    with pytest.raises(TypeError, match="asstr"):
        file["plain"].asstr()
    with pytest.raises(UnicodeDecodeError):
        file["text"].asstr("ascii")[2]
    assert file["text"].asstr("ascii", "replace")[0] == "a"


def test_objects(path: Path) -> None:
    file = hs.open(path)
    rows = file["ragged"][...]
    assert [row.tolist() for row in rows] == [[0, 1], [], [0, 1, 2]] and rows[1].dtype == np.dtype("i4")
    assert file["ragged"][2].tolist() == [0, 1, 2]
    assert file["nested"][:].tolist() == [(1, b"one"), (2, b"zwei")]
    assert file["nested"][1].item() == (2, b"zwei")
    assert file["nested"]["text", 0] == b"one"
    into = np.empty(3, object)
    assert file["ragged"].read(out=into) is into and into[0].tolist() == [0, 1]
    assert [row.tolist() for _, row in file["ragged"].stream()] == [[0, 1], [], [0, 1, 2]]
    assert file["ragged"][0:0].shape == (0,)


def test_every_kind_of_index(path: Path) -> None:
    file = hs.open(path)
    field, text = file["g/field"], file["text"]
    with h5py.File(path) as theirs:
        values, words = theirs["g/field"][...], theirs["text"][...]
    mask = values % 3 == 0
    for key in ([0, 3], (slice(None), [1, 1, 7]), mask, ([4, 0], slice(2, 5)), (..., [True, False] * 6)):
        assert np.array_equal(field[key], values[key])
    assert np.array_equal(field.vindex[[0, 4], [11, 0]], values[[0, 4], [11, 0]])
    assert np.array_equal(field.oindex[[0, 4], [11, 0]], values[np.ix_([0, 4], [11, 0])])
    assert np.array_equal(field.blocks[1, 0], values[2:4, :5])
    assert text[[3, 0]].tolist() == words[[3, 0]].tolist()
    assert text[words == b"a"].tolist() == [b"a"]
    assert text.oindex[[2, 1]].tolist() == text.vindex[[2, 1]].tolist() == words[[2, 1]].tolist()
    assert text.asstr()[[2]].tolist() == ["été"]


def test_members(path: Path) -> None:
    pairs = hs.open(path)["pairs"]
    with h5py.File(path) as file:
        theirs = file["pairs"]
        for key in ("a", "b", ("a", "b"), ("b", slice(1, 3)), (slice(0, 2), "a"), ("a", 2), ("a", "b", 0)):
            found, expected = pairs[key], theirs[key]
            assert found.dtype == expected.dtype and repr(found.tolist()) == repr(expected.tolist()), key
        assert pairs.fields("b")[1:].tolist() == theirs.fields("b")[1:].tolist()
        assert repr(pairs.fields(["b"])[0].tolist()) == repr(theirs.fields(["b"])[0].tolist())
    with pytest.raises(ValueError, match="'c'"):
        pairs["c"]
    assert pairs[2]["a"] == 2 and isinstance(pairs[2], np.void)
    assert pairs.astype("V20").dtype == np.dtype("V20")
    assert hs.open(path)["plain"].astype("f4")[3:5].tolist() == [3.0, 4.0]


def test_nothing(path: Path) -> None:
    empty = hs.open(path)["empty"]
    assert empty[()] == empty[...] == hs.Empty("i8")
    assert (empty.shape, empty.size, empty.ndim) == (None, None, 0)
    with pytest.raises(ValueError, match="cannot be sliced"):
        empty[0]
    assert hs.open(path)["zero"][...].shape == (0, 3)


def test_types_that_numpy_has_not(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3, 4)))
        file["time"].attrs["a"] = 5
        file["other"] = [1, 2]
    ours = hs.open(path)
    assert sorted(ours) == ["other", "time"] and ours["other"][:].tolist() == [1, 2]
    array = ours["time"]
    with h5py.File(path) as file:
        theirs = file["time"]
        assert (array.shape, array.ndim, array.maxshape) == (theirs.shape, theirs.ndim, theirs.maxshape)
        assert dict(array.attrs) == dict(theirs.attrs) == {"a": 5}
        for read in [lambda a: a.dtype, lambda a: a[...], lambda a: a[0, 1:], lambda a: a.fillvalue]:
            with pytest.raises(TypeError, match="TypeTimeID"):
                read(theirs)
            with pytest.raises(TypeError, match="the datatype class 'time' is not supported"):
                read(array)


def test_what_cannot_be_read_does_not_hide_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"], group = np.arange(3), file.create_group("g")
        for node in (file, file["x"], group):
            node.attrs["a"] = 1
            h5py.h5a.create(node.id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))
            node.attrs["z"] = "text"
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))
    root = hs.open(path)
    for node in (root, root["x"], root["g"]):
        assert list(node.attrs) == ["a", "when", "z"]
        assert (node.attrs["a"], node.attrs["z"]) == (1, "text")
        with pytest.raises(
            hs.errors.UnsupportedError, match=r"the datatype class 'time' \(attribute 'when'\)"
        ):
            node.attrs["when"]
        shown = node.metadata["attributes"]
        assert (shown["a"], shown["z"]) == (1, "text")
        assert "the datatype class 'time'" in shown["when"]["unsupported"]
        assert "Read-only" in repr(node.info)
    unknown = "(the datatype class 'time' is not supported: NumPy has no such elements)"
    time = root["time"]
    assert f"shape=(3,) dtype={unknown}" in repr(time)
    facts = time.info.to_dict()
    assert (facts["Data type"], facts["Fill value"], facts["Shape"]) == (unknown, None, (3,))
    assert time.info_complete().to_dict()["Storage ratio"] == "-"
    assert (time.metadata["dtype"], time.metadata["shape"]) == (unknown, (3,))
    assert escape(unknown) in time._repr_html_()
    assert f"time (3,) {unknown}" in repr(root.tree()) and "x (3,) int64" in repr(root.tree())
    for place, wanted in [("", "2 arrays"), ("/x", "int64"), ("/g", "text"), ("/time", "12 bytes")]:
        command = [sys.executable, "-m", "hyperslab", "info", f"{path}{place}"]
        said = subprocess.run(command, capture_output=True, text=True)
        assert (said.returncode, said.stderr) == (0, "") and wanted in said.stdout, said
        assert place == "/time" or '{"unsupported": "the datatype class \'time\'"}' in said.stdout
    said = subprocess.run([sys.executable, "-m", "hyperslab", "tree", path], capture_output=True, text=True)
    assert said.returncode == 0 and "time" in said.stdout and "int64" in said.stdout


def test_references(path: Path) -> None:
    file = hs.open(path)
    field, group, nothing = file["references"][:]
    assert field and group and not nothing
    assert (field.name, group.name, nothing.name) == ("/g/field", "/g", None)
    assert file[field] == file["g/field"] and file[group] == file["g"]
    assert field == file["references"][0] and field != group
    with pytest.raises(ValueError, match="nowhere"):
        file[nothing]
    with h5py.File(path) as theirs:
        for ours, region in zip(file["regions"][:], theirs["regions"][:]):
            assert isinstance(ours, hs.RegionReference) and file[ours] == file["g/field"]
            found, expected = file["g/field"][ours], theirs["g/field"][region]
            assert found.shape == expected.shape and found.tolist() == expected.tolist()


def test_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "scales.h5"
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = np.arange(3), np.arange(4)
        file["x"].make_scale("the x")
        file["y"].make_scale()
        file["v"] = np.zeros((3, 4))
        file["v"].dims[0].attach_scale(file["x"])
        file["v"].dims[1].attach_scale(file["y"])
        file["v"].dims[1].label = "length"
    v = hs.open(path)["v"]
    with h5py.File(path) as file:
        theirs = file["v"]
        assert [(axis.label, axis.keys(), len(axis)) for axis in v.dims] == [
            (axis.label, axis.keys(), len(axis)) for axis in theirs.dims
        ]
    assert v.dims[0]["the x"] == v.dims[0][0] == v.file["x"]
    assert v.dimension_names == ("x", "y") and v.file["x"].is_scale and not v.is_scale
    with pytest.raises(IndexError):
        v.dims[2]


def test_virtual_datasets(tmp_path: Path) -> None:
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        for number in range(3):
            file[f"part{number}"] = np.full(4, number)
        layout = h5py.VirtualLayout((3, 4), "i8")
        for number in range(3):
            layout[number] = h5py.VirtualSource(file[f"part{number}"])
        file.create_virtual_dataset("all", layout, fillvalue=-1)
        elsewhere = h5py.VirtualLayout((8,), "i8")
        elsewhere[2:6] = h5py.VirtualSource("missing.h5", "x", (4,))
        file.create_virtual_dataset("missing", elsewhere, fillvalue=-1)
    file = hs.open(path)
    assert file["all"].is_virtual and file["all"][:, 1].tolist() == [0, 1, 2]
    with h5py.File(path) as theirs:
        for name in ("all", "missing"):
            assert file[name][...].tolist() == theirs[name][...].tolist()
            ours, expected = file[name].virtual_sources(), theirs[name].virtual_sources()
            assert [s[1:3] for s in ours] == [s[1:3] for s in expected]
    assert ours[0].vspace == ("slabs", [(2, 4, 1, 4)])
    with pytest.raises(RuntimeError, match="Not a virtual"):
        file["part0"].virtual_sources()


def test_ways_to_open(path: Path) -> None:
    for place in (path, str(path), path.as_uri(), hs.FileStore(path)):
        assert hs.open(place)["plain"][3] == 3
        assert hs.open_group(place)["plain"][3] == 3
        assert hs.open_array(place, path="plain")[3] == 3
    assert hs.open(path / "g/field").shape == (5, 12)
    assert hs.open(path, path="g")["field"].shape == (5, 12)
    assert hs.open(f"{path.as_uri()}/g/field", mode="r").shape == (5, 12)
    for mode in ("r+", "a", "w", "w-"):
        with pytest.raises(hs.errors.UnsupportedError, match="expected mode 'r' .* use hyperslab.File"):
            hs.open(path, mode=mode)
    with pytest.raises(FileNotFoundError):
        hs.open(path / "none")
    with pytest.raises(FileNotFoundError):
        hs.open(path, zarr_format=3)
    with pytest.raises(NotADirectoryError):
        (path.parent / "words").write_text("no HDF5")
        hs.open(path.parent / "words", mode="r")
    with pytest.raises(hs.errors.UnsupportedError):
        hs.create_array(path, name="new", shape=(3,), dtype="i4")


def test_what_cannot_be_changed(path: Path) -> None:
    file = hs.open(path)
    for change in (
        lambda: file.__setitem__("new", [1]),
        lambda: file.__delitem__("plain"),
        lambda: file.create_group("new"),
        lambda: file.create_array("new", shape=(3,), dtype="i4"),
        lambda: file["plain"].__setitem__(0, 1),
        lambda: file["plain"].resize((3,)),
        lambda: file["plain"].append([1]),
        lambda: file["plain"].writer(),
    ):
        with pytest.raises(hs.errors.ReadOnlyError):
            change()


def test_what_else_arrays_do(path: Path) -> None:
    file = hs.open(path, cache="1 MiB")
    field = file["g/field"]
    for name in file:
        node = file.get(name)
        repr(node), node and node.attrs
        if isinstance(node, hs.Array):
            assert pickle.loads(pickle.dumps(node)) == node
            node._repr_html_(), repr(node.info), repr(node.info_complete())
    assert pickle.loads(pickle.dumps(file["g"])) == file["g"]
    assert field[0, 0] == field[0, 0] == 0 and field.cache is file.cache
    told = field.explain((0, slice(None)))
    assert (told.chunks, told.objects) == (3, 1) and "all.h5" in str(told)
    assert np.array_equal(np.asarray(field), field[...]) and field.refresh() == field
    assert np.array_equal(np.stack([row for _, row in field.stream()]), field[...])
    assert field.with_config({"cache": None}).cache is None
    assert "└── " in repr(file.tree()) and {field: 1}[field] == 1


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "log.h5"
    with h5py.File(path, "w", libver="latest") as writer:
        log = writer.create_dataset("log", (2,), "i4", chunks=(2,), maxshape=(None,))
        writer.swmr_mode = True
        log[:] = [1, 2]
        log.flush()
        ours = hs.open(path)["log"]
        assert ours[:].tolist() == [1, 2]
        log.resize((4,))
        log[2:] = [3, 4]
        log.flush()
        assert ours.refresh()[:].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("data", [b"", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(200)])
def test_files_that_are_cut_off(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises((hs.HyperslabError, NotADirectoryError)):
        hs.open(tmp_path / "f.h5", mode="r")


def test_the_package_does_not_need_h5py(path: Path) -> None:
    import subprocess
    import sys

    code = (
        f"import sys, hyperslab; hyperslab.open({str(path)!r})['text'][:]; assert 'h5py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_many_threads(path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def read(_: int) -> Any:
        file = hs.open(path)
        return file["g/field"][...].sum(), file["text"][:].tolist(), dict(file.attrs)["title"]

    with ThreadPoolExecutor(8) as pool:
        assert len({repr(found) for found in pool.map(read, range(50))}) == 1


@pytest.mark.parametrize(
    "enum_of",
    [
        lambda path: hs.File(path)["v"].dtype.metadata["enum"],
        lambda path: hs.open(path)["v"].dtype.metadata["enum"],
        lambda path: hs.open(path)["nested"].dtype["inner"].metadata["enum"],
        lambda path: hs.open(path).attrs.get_id("which").dtype.metadata["enum"],
        lambda path: hs.open(path)["type"].dtype.metadata["enum"],
        lambda path: h5py.check_enum_dtype(hs.File(path)["v"].dtype),
        lambda path: xarray_encoding(path),
    ],
    ids=["File", "open", "member", "attribute", "type", "check", "xarray"],
)
def test_the_dictionary_of_an_enumeration_is_the_callers(tmp_path: Path, enum_of: Any) -> None:
    """Deriving another enumeration from one changes no other file's enumeration."""
    for name in "ab":
        kind = h5py.enum_dtype({"clear": 0, "cloudy": 1}, "u1")
        with h5py.File(tmp_path / f"{name}.nc", "w") as file:
            file.create_dataset("v", data=np.uint8([0, 1]), dtype=kind)
            file.create_dataset("nested", shape=(2,), dtype=np.dtype([("inner", kind)]))
            file["type"] = kind
            file.attrs.create("which", 1, dtype=kind)
    enum_of(tmp_path / "a.nc")["fog"] = 2
    for name in "ab":
        assert dict(enum_of(tmp_path / f"{name}.nc")) == {"clear": 0, "cloudy": 1}


def xarray_encoding(path: Path) -> Any:
    dataset = pytest.importorskip("xarray").open_dataset(path, engine="hyperslab", drop_variables=["nested"])
    return dataset.v.encoding["dtype"].metadata["enum"]
