"""h5py's low-level modules: the same calls make the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5_writing import described
from hyperslab import h5


def classic_text(m: Any, file: Any) -> None:
    """The text of h5netcdf in the format NETCDF4_CLASSIC."""
    tid = m.h5t.C_S1.copy()
    tid.set_size(1)
    tid.set_strpad(m.h5t.STR_NULLTERM)
    did = m.h5d.create(file.id, b"scalar", tid, m.h5s.create(m.h5s.SCALAR))
    did.write(m.h5s.ALL, m.h5s.ALL, np.array(np.bytes_(b"a")), mtype=did.get_type())
    dcpl = m.h5p.create(m.h5p.DATASET_CREATE)
    dcpl.set_chunk((2, 3))
    m.h5d.create(file.id, b"chunked", tid, m.h5s.create_simple((2, 3), (m.h5s.UNLIMITED, 3)), dcpl=dcpl)


def filters(m: Any, file: Any) -> None:
    dcpl = m.h5p.create(m.h5p.DATASET_CREATE)
    dcpl.set_chunk((2, 4))
    dcpl.set_shuffle()
    dcpl.set_deflate(3)
    dcpl.set_fletcher32()
    dcpl.set_fill_value(np.array(7, "i4"))
    space = m.h5s.create_simple((4, 4))
    did = m.h5d.create(file.id, b"a", m.h5t.STD_I32BE, space, dcpl=dcpl)
    part = did.get_space()
    part.select_hyperslab((1, 0), (2, 2), (1, 2))
    did.write(m.h5s.create_simple((2, 2)), part, np.array([[1, 2], [3, 4]], "i4"))
    file.create_dataset("b", (4, 4), "f8", dcpl=dcpl)


def attributes(m: Any, file: Any) -> None:
    made = m.h5a.create(file.id, b"n", m.h5t.STD_I16LE, m.h5s.create_simple((2,)))
    made.write(np.array([5, 6], "i2"))
    m.h5a.create(file.id, b"gone", m.h5t.STD_I16LE, m.h5s.create(m.h5s.SCALAR))
    assert m.h5a.exists(file.id, b"gone")
    m.h5a.rename(file.id, b"gone", b"moved")
    m.h5a.delete(file.id, b"moved")
    assert m.h5a.get_num_attrs(file.id) == 1


def types(m: Any, file: Any) -> None:
    made = m.h5t.enum_create(m.h5t.STD_U8LE)
    for name, value in ((b"b", 2), (b"a", 1)):
        made.enum_insert(name, value)
    m.h5t.py_create(m.enum_dtype({"b": 2, "a": 1}), logical=True).commit(file.id, b"enum")
    pair = m.h5t.create(m.h5t.COMPOUND, 12)
    pair.insert(b"x", 0, m.h5t.IEEE_F64LE)
    pair.insert(b"y", 8, m.h5t.STD_I32LE)
    pair.commit(file.id, b"pair")
    assert file["pair"].id.get_class() == m.h5t.COMPOUND


def groups(m: Any, file: Any) -> None:
    gcpl = m.h5p.create(m.h5p.GROUP_CREATE)
    order = m.h5p.CRT_ORDER_TRACKED | m.h5p.CRT_ORDER_INDEXED
    gcpl.set_link_creation_order(order)
    gcpl.set_attr_creation_order(order)
    group = m.h5g.create(file.id, b"g", gcpl=gcpl)
    assert group.get_create_plist().get_attr_creation_order() == order
    m.h5g.create(group, b"z")
    m.h5g.create(group, b"a")
    m.h5o.link(m.h5g.open(file.id, b"g"), file.id, b"again")
    assert m.h5i.get_type(group) == m.h5i.GROUP and m.h5i.get_name(group) == b"/g"
    assert b"a" in group


def scales(m: Any, file: Any) -> None:
    a, x = file.create_dataset("a", (2, 3), "f4"), file.create_dataset("x", (3,), "f4")
    m.h5ds.set_scale(x.id, b"ex")
    m.h5ds.attach_scale(a.id, x.id, 1)
    m.h5ds.set_label(a.id, 0, b"first")
    assert m.h5ds.is_scale(x.id) and not m.h5ds.is_scale(a.id)
    assert m.h5ds.is_attached(a.id, x.id, 1) and m.h5ds.get_num_scales(a.id, 1) == 1
    assert m.h5ds.get_label(a.id, 0) == b"first" and m.h5ds.get_scale_name(x.id) == b"ex"


def stored_chunks(m: Any, file: Any) -> None:
    a = file.create_dataset("a", (4, 4), "u1", chunks=(2, 2), shuffle=True)
    a.id.write_direct_chunk((0, 2), bytes(range(4)), filter_mask=1)
    a.id.write_direct_chunk((2, 0), b"abcd")
    assert a[0].tolist() == [0, 0, 0, 1]
    assert a.id.read_direct_chunk((0, 2)) == (1, bytes(range(4)))
    assert a.id.get_num_chunks() == 2 and a.id.get_storage_size() == 8
    a.id.set_extent((4, 4))


def bits_and_complex_numbers(m: Any, file: Any) -> None:
    space = m.h5s.create_simple((3,))
    for name, tid in (
        (b"bits", m.h5t.STD_B16LE),
        (b"big bits", m.h5t.STD_B32BE),
        (b"complex", m.h5t.COMPLEX_IEEE_F32LE),
        (b"big complex", m.h5t.COMPLEX_IEEE_F64BE),
    ):
        made = m.Dataset(m.h5d.create(file.id, name, tid, space))
        made[:] = np.array([1, 2, 300], made.dtype)
        assert made[:].tolist() == [1, 2, 300]
        made.attrs.create("a", np.array(7, made.dtype), dtype=m.Datatype(tid))
        assert made.attrs["a"] == 7
        assert made.id.get_type().get_class() == made.attrs.get_id("a").get_type().get_class()
    assert file["bits"].id.get_type().get_class() == m.h5t.BITFIELD
    assert file["complex"].id.get_type().get_class() == m.h5t.COMPLEX


def virtual(m: Any, file: Any) -> None:
    source = file.create_dataset("source", data=np.arange(12, dtype="i4").reshape(3, 4))
    dcpl = m.h5p.create(m.h5p.DATASET_CREATE)
    dcpl.set_fill_value(np.array([-1]))
    part, whole = m.h5s.create_simple((3, 4)), m.h5s.create_simple((4, 4))
    for row in (0, 2):
        part.select_hyperslab((row, 0), (1, 1), block=(1, 4))
        whole.select_hyperslab((row + 1, 0), (1, 1), block=(1, 4))
        dcpl.set_virtual(whole, b".", b"/source", part)
    made = m.Dataset(m.h5d.create(file.id, b"virtual", m.h5t.STD_I32LE, whole, dcpl))
    assert made[:, 1].tolist() == [-1, source[0, 1], -1, source[2, 1]]


def members(m: Any, file: Any) -> None:
    inner = m.vlen_dtype("f4")
    kind = np.dtype([("a", "<i2"), ("b", ">f8", (2, 3)), ("c", inner), ("d", m.enum_dtype({"x": 3}, "u1"))])
    tid = file.create_dataset("a", (1,), kind).id.get_type()
    assert tid.get_nmembers() == 4 and tid.get_member_name(1) == b"b" and tid.get_member_index(b"c") == 2
    assert [tid.get_member_class(n) for n in range(4)] == [
        m.h5t.INTEGER,
        m.h5t.ARRAY,
        m.h5t.VLEN,
        m.h5t.ENUM,
    ]
    assert tid.get_member_type(1).get_array_dims() == (2, 3)
    assert tid.get_member_type(1).get_super().get_order() == m.h5t.ORDER_BE
    assert tid.get_member_type(0).get_order() == m.h5t.ORDER_LE and tid.get_member_type(0).get_sign() == 1
    assert tid.get_member_type(2).get_super().get_size() == 4
    assert tid.get_member_type(3).enum_nameof(3) == b"x" and tid.get_member_type(3).enum_valueof(b"x") == 3
    assert tid.detect_class(m.h5t.FLOAT) and not tid.detect_class(m.h5t.REFERENCE)


@pytest.mark.parametrize(
    "calls",
    [
        classic_text,
        filters,
        attributes,
        types,
        groups,
        scales,
        stored_chunks,
        bits_and_complex_numbers,
        virtual,
        members,
    ],
    ids=lambda f: f.__name__,
)
def test_low_level(tmp_path: Path, calls: Callable[[Any, Any], None]) -> None:
    for name, m in (("ours", h5), ("theirs", h5py)):
        with m.File(tmp_path / name, "w") as file:
            calls(m, file)
    with h5py.File(tmp_path / "ours") as ours, h5py.File(tmp_path / "theirs") as theirs:
        assert described(ours) == described(theirs)
        for name in theirs:
            if isinstance(theirs[name], h5py.Dataset):
                mine, its = ours[name].id.get_type(), theirs[name].id.get_type()
                assert mine == its, name
