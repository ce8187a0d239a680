"""Results in memory that others take over, results in others' memory, and notebook displays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import ml_dtypes
import numpy as np
import pytest
from support import assert_same


def data() -> np.ndarray[Any, Any]:
    return np.arange(60 * 50, dtype="i4").reshape(60, 50)


@pytest.fixture
def z(tmp_path: Path) -> hs.Array:
    return hs.create_array(tmp_path / "a", data=data(), shards=(24, 20), chunks=(6, 5))


def in_file(path: Path) -> Any:
    with h5py.File(path, "w") as file:
        file.create_dataset("z", data=data(), chunks=(7, 9))
    return hs.open(path)["z"]


# ---- __array__


@pytest.mark.parametrize("kind", ["array", "view", "file"])
def test_array_has_numpys_meaning(z: hs.Array, tmp_path: Path, kind: str) -> None:
    given: Any = {"array": z, "view": z.lazy, "file": in_file(tmp_path / "a.h5")}[kind]
    for copy in (None, True):
        made = np.array(given, copy=copy)
        assert_same(made, data())
        assert made.flags.writeable
        assert_same(np.array(given, dtype="f8", copy=copy), data().astype("f8"))
        assert_same(given.__array__(np.dtype(">i4"), copy=copy), data().astype(">i4"))
    assert_same(np.asarray(given, dtype="i2"), data().astype("i2"))
    for dtype in (None, "i4", "f4"):
        with pytest.raises(ValueError, match="copy"):
            np.asarray(given, dtype=dtype, copy=False)
    # Each conversion has its own memory.
    first = np.asarray(given)
    first[...] = 0
    assert_same(np.asarray(given), data())


def test_functions_of_numpy_take_arrays(z: hs.Array) -> None:
    assert np.sum(z) == data().sum()  # type: ignore[call-overload]
    assert_same(np.concatenate([z, z])[60:], data())  # type: ignore[arg-type]
    assert_same(data() + np.asarray(z), data() * 2)


# ---- results


@pytest.mark.parametrize("shape", [(3, 4), (300, 400)])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c8", "?"])
def test_results_are_buffers_and_have_dlpack(shape: tuple[int, ...], dtype: str) -> None:
    z = hs.array(np.ones(shape, dtype), chunks=(2, 100))
    for result in (z[...], z[::-1, 1:], z.oindex[[1, 2], [0, 3]], z.lazy[1].read()):
        shared = np.from_dlpack(result)
        assert np.shares_memory(shared, result)
        assert_same(shared, result)
        view = memoryview(result)
        assert (view.shape, view.readonly, view.itemsize) == (result.shape, False, result.itemsize)
        result[...] = 0
        assert not shared.any()
        assert result.ctypes.data % result.itemsize == 0


def test_types_of_ml_dtypes() -> None:
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        dtype = np.dtype(getattr(ml_dtypes, name))
        values = np.arange(8).astype(dtype).reshape(2, 4)
        z = hs.create_array(hs.MemoryStore(), data=values, chunks=(1, 4))
        assert z.dtype == dtype
        assert_same(z[1, ::-1], values[1, ::-1])
        out = np.empty((2, 4), dtype)
        assert_same(z.read(out=out), values)
        # DLPack knows the bits, though not the type.
        assert_same(np.from_dlpack(z[...].view(f"u{dtype.itemsize}")), values.view(f"u{dtype.itemsize}"))


def test_arrow_takes_text_and_ragged_rows() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    text = hs.create_array(hs.MemoryStore(), shape=(3,), dtype="string")
    text[...] = ["a", "", "é"]
    assert pyarrow.array(text.read_arrow()).to_pylist() == ["a", "", "é"]
    ragged = hs.create_array(hs.MemoryStore(), shape=(3,), dtype=hs.vlen_dtype("f4"), zarr_format=2)
    ragged[...] = [[1, 2], [], [3]]
    assert pyarrow.array(ragged.read_arrow(slice(None, None, -1))).to_pylist() == [[3.0], [], [1.0, 2.0]]
    assert pyarrow.array(hs.array([1, 2]).read_arrow()).to_pylist() == [1, 2]


# ---- out=


def outs(shape: tuple[int, ...]) -> list[tuple[str, Any, np.ndarray[Any, Any]]]:
    """Returns memory of several kinds: the object to pass, and the array over it."""
    plain = np.full(shape, -1, "i4")
    backwards = np.full(shape[::-1], -1, "i4").T
    apart = np.full([2 * n + 1 for n in shape], -1, "i4")[tuple(slice(1, None, 2) for _ in shape)]
    memory = bytearray(4 * int(np.prod(shape)))
    over = np.frombuffer(memory, "i4").reshape(shape)
    return [
        ("C", plain, plain),
        ("F", backwards, backwards),
        ("strided", apart, apart),
        ("memoryview", memoryview(memory).cast("B").cast("i", shape) if shape else over, over),
    ]


@pytest.mark.parametrize("kind", ["array", "file"])
def test_out_of_every_kind_of_selection(z: hs.Array, tmp_path: Path, kind: str) -> None:
    array: Any = z if kind == "array" else in_file(tmp_path / "a.h5")
    expected, mask = data(), data() % 7 == 0
    ways: list[tuple[str, Any, Any]] = [
        ("all", lambda out: array.read(out=out), expected),
        (
            "basic",
            lambda out: array.read((slice(5, 50, 3), slice(None, None, -4)), out),
            expected[5:50:3, ::-4],
        ),
        ("one axis", lambda out: array.read(7, out), expected[7]),
        ("lists", lambda out: array.read(([5, 1, 1], slice(0, 9)), out), expected[[5, 1, 1], :9]),
        ("get_basic", lambda out: array.get_basic_selection(slice(3, 9), out=out), expected[3:9]),
        (
            "orthogonal",
            lambda out: array.get_orthogonal_selection(([9, 2], [4, 4, 1]), out=out),
            expected[np.ix_([9, 2], [4, 4, 1])],
        ),
        (
            "coordinates",
            lambda out: array.get_coordinate_selection(([9, 2, 2], [4, 4, 1]), out=out),
            expected[[9, 2, 2], [4, 4, 1]],
        ),
        ("mask", lambda out: array.get_mask_selection(mask, out=out), expected[mask]),
        ("view", lambda out: array.lazy[4:, ::2][[3, 1]].T.read(out=out), expected[4:, ::2][[3, 1]].T),
    ]
    if kind == "array":
        blocks = expected[24:48, 20:40]
        ways.append(("blocks", lambda out: array.get_block_selection((1, 1), out=out), blocks))
    for name, read, right in ways:
        for memory, out, over in outs(right.shape):
            if name == "view" and memory == "memoryview":
                continue
            read(out)
            assert_same(over, right, f"{name} into {memory}")
        wrong = np.empty((*right.shape, 1), "i4")
        with pytest.raises((hs.errors.ArrayShapeError, ValueError)):
            read(wrong)
        frozen = np.empty(right.shape, "i4")
        frozen.flags.writeable = False
        with pytest.raises((hs.errors.ArrayShapeError, ValueError)):
            read(frozen)


def test_out_of_fields() -> None:
    values = np.zeros((6,), [("a", "i4"), ("b", "f8")])
    values["a"], values["b"] = np.arange(6), np.arange(6) / 2
    z = hs.create_array(hs.MemoryStore(), data=values, chunks=(4,))
    out = np.empty(3, "i4")
    assert z.get_basic_selection(slice(1, 4), fields="a", out=out) is out
    assert_same(out, values["a"][1:4])
    out8 = np.empty(2)
    z.get_coordinate_selection([5, 0], fields="b", out=out8)
    assert_same(out8, values["b"][[5, 0]])
    both = np.empty(6, values.dtype)
    z.get_basic_selection(fields=["a", "b"], out=both)
    assert_same(both, values)


def test_out_of_what_may_be_missing() -> None:
    z = hs.array([1, None, 3], dtype=hs.optional_dtype("i4"))
    out = np.ma.masked_all(3, "i4")
    z.read(out=out)
    assert out.tolist() == [1, None, 3]


# ---- notebooks


def test_completions(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "g", attributes={"title": 1})
    group.create_array("x", shape=(3,), dtype=[("a", "i4"), ("b", "f8")])
    group.create_group("y")
    assert sorted(group._ipython_key_completions_()) == ["x", "y"]
    assert group["x"]._ipython_key_completions_() == ["a", "b"]
    assert group.attrs._ipython_key_completions_() == ["title"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["z"], file.attrs["units"] = 1, "m"
    with hs.open(tmp_path / "a.h5") as opened:
        assert opened._ipython_key_completions_() == ["z"]
        assert opened.attrs._ipython_key_completions_() == ["units"]
        assert opened["z"]._ipython_key_completions_() == []


def test_drawings_show_shards(z: hs.Array) -> None:
    shown = z._repr_html_()
    assert shown.count("<svg") == 1
    assert 'stroke-width="2"' in shown
    plain = hs.zeros((60, 50), chunks=(6, 5))._repr_html_()
    assert 'stroke-width="2"' not in plain
    # Lines: 9 + 9 for chunks, and 2 + 2 more for shards.
    assert (plain.count("<line"), shown.count("<line")) == (18, 22)
    many = hs.create_array(
        hs.MemoryStore(), shape=(10**6, 10**6), shards=(10**5, 10**5), chunks=(100, 100), dtype="u1"
    )
    assert many._repr_html_().count("<line") == 18
