"""Single calls of `hyperslab.h5` that write, beside the same calls of h5py: results and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5_writing import described
from hyperslab import h5


def prepared(m: Any, path: Path) -> Any:
    """Return a file with objects of all kinds."""
    file = m.File(path, "w")
    file.create_group("a/b")
    file["x"] = 1
    file["broken"], file["soft"] = m.SoftLink("/nowhere"), m.SoftLink("/a")
    file.create_dataset("line", data=np.arange(4), maxshape=(8,), chunks=(2,))
    file.create_dataset("grid", data=np.arange(20, dtype="i4").reshape(4, 5))
    file.create_dataset(
        "zip", data=np.arange(20, dtype="i4").reshape(4, 5), chunks=(3, 2), compression="gzip"
    )
    file.create_dataset("small", (3,), "i1")
    file.create_dataset("flags", (3,), bool)
    file.create_dataset("half", (3,), "f2")
    file.create_dataset("rows", (4,), "(3,)f4")
    file.create_dataset("text", (3,), m.string_dtype())
    file.create_dataset("ascii", (3,), m.string_dtype("ascii"))
    file.create_dataset("fixed", (3,), m.string_dtype("utf-8", 4))
    file.create_dataset("bytes", (3,), "S3")
    file.create_dataset("names", (3,), m.enum_dtype({"a": 1, "b": 2}))
    file.create_dataset("many", (3,), m.vlen_dtype("i4"))
    file.create_dataset("pairs", (3,), [("a", "i4"), ("b", "f8"), ("s", m.string_dtype())])
    file.create_dataset("plain", (3,), [("a", "i4"), ("b", "f8")])
    file.create_dataset("refs", (2,), m.ref_dtype)
    file.create_dataset("scalar", data=5)
    file.create_dataset("word", data="abc")
    file["none"] = m.Empty("f4")
    file["type"] = np.dtype("i2")
    file.attrs["i"], file.attrs["s"] = np.int8(3), np.bytes_(b"ab")
    file.attrs["text"], file.attrs["empty"] = "abc", m.Empty("i4")
    return file


def put(name: str, selection: Any, value: Any) -> Callable[[Any, Any], Any]:
    def call(m: Any, file: Any) -> Any:
        key = selection(m, file) if callable(selection) else selection
        file[name][key] = value(m, file) if callable(value) else value

    return call


mask = np.zeros((4, 5), bool)
mask[1, 2] = mask[3, 3] = True
pair = np.dtype([("a", "i4"), ("b", "f8")])

ASSIGNMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "one": put("grid", (1, 2), 7),
    "row": put("grid", 1, [1, 2, 3, 4, 5]),
    "all": put("grid", ..., 3),
    "steps": put("grid", np.s_[::2, 1::3], 9),
    "column": put("grid", np.s_[:, 1], [1, 2, 3, 4]),
    "ellipsis": put("grid", np.s_[..., 0], [1, 2, 3, 4]),
    "list": put("grid", np.s_[:, [1, 3]], np.arange(8).reshape(4, 2)),
    "mask": put("grid", mask, [100, 200]),
    "mask, one value": put("grid", mask, 7),
    "blocks": put("grid", lambda m, f: (0, m.MultiBlockSlice(0, 2, 2, 1)), 9),
    "leading axis": put("grid", 0, np.arange(5).reshape(1, 5)),
    "chunks": put("zip", np.s_[1:3, 1:4], np.arange(6).reshape(2, 3)),
    "fraction": put("grid", (0, 0), 1.9),
    "too large": put("grid", (0, 0), np.float64(1e12)),
    "cut": put("small", ..., np.array([300, -300, 5])),
    "flags": put("flags", ..., [1, 0, 1]),
    "flags of integers": put("flags", ..., np.array([1, 0, 1])),
    "half": put("half", ..., [1, 2.5, 60000]),
    "rows": put("rows", ..., np.ones((4, 3))),
    "a row": put("rows", 0, [1, 2, 3]),
    "text": put("text", ..., ["a", "é", ""]),
    "one text": put("text", 1, "xyz"),
    "text for all": put("text", ..., "xyz"),
    "bytes as text": put("text", 0, b"\xff"),
    "array of bytes": put("text", ..., np.array([b"a", b"bc", b""])),
    "NumPy's text": put("text", ..., np.array(["a", "bc", ""], object)),
    "ascii": put("ascii", ..., ["a", b"b", "c"]),
    "fixed": put("fixed", ..., ["äöüß", "ab", "cdefg"]),
    "bytes": put("bytes", ..., [b"a", b"bcd", b"efgh"]),
    "names": put("names", ..., [1, 2, 9]),
    "sequence": put("many", 0, [1, 2, 3]),
    "sequences": put("many", np.s_[0:2], [[1, 2, 3], [4]]),
    "equal sequences": put("many", np.s_[0:2], [[1, 2], [4, 5]]),
    "rows as sequences": put("many", np.s_[0:2], np.array([[1, 2, 7], [4, 5, 7]], "i8")),
    "one sequence for all": put("many", ..., [1.5, 2.5]),
    "structure": put("pairs", 0, (1, 2.5, "x")),
    "structures": put("pairs", np.s_[1:], [(1, 2.5, "x"), (3, 4, "yy")]),
    "member": put("pairs", ("a", 0), 7),
    "members": put("pairs", ("a", "b"), np.array([(1, 2), (3, 4), (5, 6)], pair)),
    "a member of all": put("plain", "b", [7, 8, 9]),
    "plain structures": put("plain", ..., np.array([(1, 2), (3, 4), (5, 6)], pair)),
    "other members": put("plain", ..., np.array([(1, 2), (3, 4), (5, 6)], [("b", "i2"), ("a", "f4")])),
    "reference": put("refs", 0, lambda m, f: f["a"].ref),
    "references": put("refs", ..., lambda m, f: np.array([f["a"].ref, f["x"].ref], m.ref_dtype)),
    "scalar": put("scalar", (), 6),
    "scalar by ellipsis": put("scalar", ..., 7),
    "word": put("word", (), "def"),
    "direct": lambda m, f: f["grid"].write_direct(np.arange(10, dtype="i4"), np.s_[2:7], np.s_[1, :]),
    "direct, all": lambda m, f: f["zip"].write_direct(np.ones((4, 5), "f8")),
    "longer": lambda m, f: f["line"].resize((7,)),
    "shorter": lambda m, f: f["line"].resize(1, axis=0),
    "shorter and longer": lambda m, f: (f["line"].resize((1,)), f["line"].resize((5,)))[0],
    "low-level": lambda m, f: f["grid"].id.write(m.h5s.ALL, m.h5s.ALL, np.ones((4, 5), "i4")),
    "attribute": lambda m, f: f.attrs.__setitem__("new", [1, 2, 3]),
    "modified": lambda m, f: f.attrs.modify("i", np.array(300)),
    "modified text": lambda m, f: f.attrs.modify("s", "hello"),
    "modified, new": lambda m, f: f.attrs.modify("new", [1, 2]),
    "array type": lambda m, f: f.attrs.create("new", np.ones((2, 3)), dtype="(3,)i4"),
    "shape": lambda m, f: f.attrs.create("new", [1, 2, 3], (3, 1)),
    "committed type": lambda m, f: f.attrs.create("new", 5, dtype=f["type"]),
    "no items": lambda m, f: f.attrs.__setitem__("new", []),
    "popped": lambda m, f: f.attrs.pop("i"),
    "update": lambda m, f: f.update({"u": 1, "v": [1, 2]}),
    "popped object": lambda m, f: f.pop("x") and None,
    "default": lambda m, f: f.setdefault("u", 4) and None,
    "through a link": lambda m, f: f.create_group("soft/new") and None,
    "like": lambda m, f: f.create_dataset_like("new", f["zip"]) and None,
    "required": lambda m, f: f.require_dataset("new", (3,), "i2") and None,
    "anonymous": lambda m, f: f.__setitem__("new", f.create_dataset(None, data=[1, 2])),
    "moved": lambda m, f: f.move("a", "n/e/w"),
    "copied": lambda m, f: f.copy("a", "c"),
    "copied dataset": lambda m, f: f.copy("zip", f["a"], name="z"),
    "virtual": lambda m, f: _virtual(m, f),
    "class of NumPy": lambda m, f: f.create_dataset("new", data=[1, 2], dtype=np.float32) and None,
    "attribute of a class of NumPy": lambda m, f: f.attrs.create("new", [1, 2**63], dtype=np.uint64),
    "objects as fixed text": put("fixed", ..., np.array(["é", "ab", "x"], object)),
    "NumPy's strings as fixed text": put("fixed", ..., np.array(["é", "ab", "x"], np.dtypes.StringDType())),
    "sequences of texts": lambda m, f: _texts(m, f),
    "fill of NumPy's strings": lambda m, f: f.create_dataset("new", (2,), "T", fillvalue="é") and None,
    "region of one element": lambda m, f: f.__setitem__("new", _region(m, f)),
}


def _texts(m: Any, file: Any) -> None:
    kind = m.vlen_dtype(m.string_dtype())
    new = file.create_dataset("new", (3,), kind)
    new[0] = np.array(["a", "é", "c"], kind)
    new[1] = ["x"]
    assert new[0].tolist() == [b"a", "é".encode(), b"c"]


def _region(m: Any, file: Any) -> Any:
    made = m.h5r.create(file["scalar"].id, b".", m.h5r.DATASET_REGION, m.h5s.create(m.h5s.SCALAR))
    assert file["scalar"][made] == 5
    return made


def _virtual(m: Any, file: Any) -> None:
    layout = m.VirtualLayout((2, 6), "i8", maxshape=(2, None))
    layout[0, :4] = m.VirtualSource(file["line"])
    layout[1, 1:3] = m.VirtualSource(file["line"])[2:4]
    layout[1, 4:] = m.VirtualSource("gone.h5", "x", (5,))[1:3]
    file.create_virtual_dataset("new", layout, fillvalue=-1)


@pytest.mark.parametrize("what", ASSIGNMENTS)
def test_results(tmp_path: Path, what: str) -> None:
    for name, m in (("ours", h5), ("theirs", h5py)):
        with prepared(m, tmp_path / name) as file:
            ASSIGNMENTS[what](m, file)
    with h5py.File(tmp_path / "ours") as ours, h5py.File(tmp_path / "theirs") as theirs:
        assert described(ours) == described(theirs)


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "group exists": lambda m, f: f.create_group("a"),
    "group below a dataset": lambda m, f: f.create_group("x/b"),
    "group at a broken link": lambda m, f: f.create_group("broken"),
    "group below a broken link": lambda m, f: f.create_group("broken/b"),
    "group without a name": lambda m, f: f.create_group(""),
    "group at the root": lambda m, f: f.create_group("/"),
    "name of another type": lambda m, f: f.create_group(3),
    "dataset exists": lambda m, f: f.create_dataset("x", data=1),
    "dataset below a dataset": lambda m, f: f.create_dataset("x/y", data=1),
    "assigned twice": lambda m, f: f.__setitem__("x", 2),
    "link exists": lambda m, f: f.__setitem__("x", f["a"]),
    "soft link exists": lambda m, f: f.__setitem__("x", m.SoftLink("/q")),
    "external link exists": lambda m, f: f.__setitem__("x", m.ExternalLink("f", "/q")),
    "nothing to delete": lambda m, f: f.__delitem__("zzz"),
    "delete below a dataset": lambda m, f: f.__delitem__("x/zzz"),
    "delete the root": lambda m, f: f.__delitem__("/"),
    "nothing to move": lambda m, f: f.move("zzz", "q"),
    "move to a name in use": lambda m, f: f.move("a", "x"),
    "nothing to copy": lambda m, f: f.copy("zzz", "q"),
    "copy to a name in use": lambda m, f: f.copy("a", "x"),
    "no attribute to delete": lambda m, f: f.attrs.__delitem__("zz"),
    "no attribute to read": lambda m, f: f.attrs["zz"],
    "required group": lambda m, f: f.require_group("x"),
    "required shape": lambda m, f: f.require_dataset("grid", (3, 3), "i4"),
    "required type": lambda m, f: f.require_dataset("grid", (4, 5), "f4", exact=True),
    "required cast": lambda m, f: f.require_dataset("grid", (4, 5), "S3"),
    "required dataset": lambda m, f: f.require_dataset("a", (4, 5), "f4"),
    "too long": lambda m, f: f["line"].resize((9,)),
    "other rank": lambda m, f: f["line"].resize((2, 2)),
    "no shape": lambda m, f: f["line"].resize(5),
    "no such axis": lambda m, f: f["line"].resize(5, axis=1),
    "no chunks": lambda m, f: f["grid"].resize((3, 3)),
    "outside": put("grid", (7, 0), 1),
    "other shape": put("grid", np.s_[0, 0:3], [1, 2]),
    "no number": put("grid", (0, 0), "abc"),
    "new axis": put("grid", (0, None), 1),
    "integer too large": put("grid", (0, 0), 2**40),
    "no such member": put("plain", "zz", 1),
    "member of numbers": put("grid", "a", 1),
    "row of another length": put("rows", 0, [1, 2]),
    "one for a row": put("rows", 0, 1),
    "NUL in text": put("text", 0, "a\0b"),
    "number as text": put("text", 0, 5),
    "letters in ASCII": put("ascii", 0, "é"),
    "region as reference": put("refs", 0, lambda m, f: f["line"].regionref[1:]),
    "text of NumPy as fixed text": put("fixed", ..., np.array(["a"])),
    "number as reference": put("refs", 0, 5),
    "chunks too large": lambda m, f: f.create_dataset("n", (4,), "i4", chunks=(5,)),
    "chunks of nothing": lambda m, f: f.create_dataset("n", (4,), "i4", chunks=(0,)),
    "chunks of other rank": lambda m, f: f.create_dataset("n", (4,), "i4", chunks=(2, 2)),
    "maxshape too small": lambda m, f: f.create_dataset("n", (4,), "i4", maxshape=(2,)),
    "negative": lambda m, f: f.create_dataset("n", (-4,), "i4"),
    "chunks of a scalar": lambda m, f: f.create_dataset("n", (), "i4", chunks=True),
    "scalar with maxshape": lambda m, f: f.create_dataset("n", (), "i4", maxshape=(3,)),
    "empty with chunks": lambda m, f: f.create_dataset("n", data=m.Empty("f4"), chunks=True),
    "nothing given": lambda m, f: f.create_dataset("n"),
    "shape and data": lambda m, f: f.create_dataset("n", (3,), data=[1, 2]),
    "keyword": lambda m, f: f.create_dataset("n", (3,), "i4", foo=1),
    "compression": lambda m, f: f.create_dataset("n", (3,), "i4", compression="foo"),
    "filter number": lambda m, f: f.create_dataset("n", (3,), "i4", compression=32099),
    "gzip level": lambda m, f: f.create_dataset("n", (3,), "i4", compression="gzip", compression_opts=10),
    "lzf option": lambda m, f: f.create_dataset("n", (3,), "i4", compression="lzf", compression_opts=1),
    "szip options": lambda m, f: f.create_dataset("n", (3,), "i4", compression="szip", compression_opts=1),
    "options alone": lambda m, f: f.create_dataset("n", (3,), "i4", compression_opts=1),
    "two levels": lambda m, f: f.create_dataset("n", (3,), "i4", compression=3, compression_opts=1),
    "no chunks for gzip": lambda m, f: f.create_dataset("n", (3,), "i4", chunks=False, compression="gzip"),
    "scaleoffset of text": lambda m, f: f.create_dataset("n", (3,), "S3", scaleoffset=1),
    "negative scaleoffset": lambda m, f: f.create_dataset("n", (3,), "i4", scaleoffset=-1),
    "scaleoffset of floats": lambda m, f: f.create_dataset("n", (3,), "f4", scaleoffset=True),
    "scaleoffset and checksums": lambda m, f: f.create_dataset(
        "n", (3,), "i4", scaleoffset=1, fletcher32=True
    ),
    "fill time": lambda m, f: f.create_dataset("n", (3,), "i4", fill_time="x"),
    "fill value": lambda m, f: f.create_dataset("n", (3,), "f4", fillvalue="xyz"),
    "fill value of structures": lambda m, f: f.create_dataset("n", (3,), pair, fillvalue=4),
    "negative filter": lambda m, f: f.create_dataset("n", (3,), "i4", compression=-3),
    "group as dataset": lambda m, f: m.Dataset(f["a"].id),
    "dataset as group": lambda m, f: m.Group(f["x"].id),
    "object without a name": lambda m, f: f.create_group(None).parent,
    "track_times": lambda m, f: f.create_dataset("n", data=1, track_times="x"),
    "track_order": lambda m, f: f.create_dataset("n", data=1, track_order="x"),
    "text of NumPy": lambda m, f: f.create_dataset("n", data=np.array(["a"])),
    "objects": lambda m, f: f.create_dataset("n", data=np.array([b"q", "x"], object)),
    "dates": lambda m, f: f.create_dataset("n", data=np.array(["2020"], "M8[s]")),
    "no bytes": lambda m, f: f.create_dataset("n", (2,), "S0"),
    "attribute of text of NumPy": lambda m, f: f.attrs.__setitem__("n", np.array(["a"])),
    "attribute of objects": lambda m, f: f.attrs.__setitem__("n", {"a": 1}),
    "ragged attribute": lambda m, f: f.attrs.__setitem__("n", [[1], [1, 2]]),
    "attribute of another shape": lambda m, f: f.attrs.create("n", [1, 2, 3], (4, 1)),
    "modified, too large": lambda m, f: f.attrs.modify("i", 300),
    "modified, other shape": lambda m, f: f.attrs.modify("i", [1, 2]),
    "modified, empty": lambda m, f: f.attrs.modify("empty", 1),
    "layout of another size": lambda m, f: m.VirtualLayout((2,), "i8").__setitem__(
        slice(0, 1), m.VirtualSource("f", "x", (5,))
    ),
    "source without a name": lambda m, f: m.VirtualSource("f"),
    "source sliced twice": lambda m, f: m.VirtualSource("f", "x", (5,))[1:][1:],
    "scale with scales": lambda m, f: (f["grid"].dims[0].attach_scale(f["line"]), f["grid"].make_scale("x")),
    "not attached": lambda m, f: f["grid"].dims[0].detach_scale(f["line"]),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(tmp_path: Path, what: str) -> None:
    """Our errors are of h5py's type. Nothing is left of what failed."""
    with prepared(h5py, tmp_path / "theirs") as file, pytest.raises(Exception) as theirs:
        ERRORS[what](h5py, file)
    with prepared(h5, tmp_path / "ours") as file, pytest.raises(theirs.type):
        ERRORS[what](h5, file)
    with h5py.File(tmp_path / "ours") as ours:
        assert "n" not in ours and "n" not in ours.attrs
