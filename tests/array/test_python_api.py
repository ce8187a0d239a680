"""The Python package: names and meanings of zarr-python, errors, documentation."""

from __future__ import annotations

import array
import doctest
import importlib
import inspect
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

REF = np.arange(48, dtype="<i4").reshape(6, 8)


@pytest.fixture
def z() -> hs.Array:
    new = hs.create_array(hs.MemoryStore(), shape=(6, 8), chunks=(2, 3), dtype="<i4")
    new[...] = REF
    return new


def modules() -> list[str]:
    names = [module.name for module in pkgutil.iter_modules(hs.__path__)]
    return ["hyperslab", *(f"hyperslab.{name}" for name in names if name not in ("_native", "__main__"))]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", ["read", "write"])
def test_examples_of_methods_in_rust(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(getattr(hs.Array, name).__doc__, {}, name, None, None)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0


def test_signature_of_create_array() -> None:
    wanted = (
        "store name shape dtype data chunks shards filters compressors serializer "
        "object_codec fill_value order zarr_format attributes chunk_key_encoding dimension_names "
        "storage_options overwrite config write_data access"
    )
    parameters = inspect.signature(hs.create_array).parameters
    assert " ".join(parameters) == wanted
    for name in ("chunks", "filters", "compressors", "serializer"):
        assert parameters[name].default == "auto"


def test_public_names_are_documented() -> None:
    for name in hs.__all__:
        if not name.startswith("__") and name != "StoreLike":
            assert inspect.getdoc(getattr(hs, name)), name
    for kind in (hs.Array, hs.Group, hs.LocalStore, hs.MemoryStore):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{kind.__name__}.{name}"


def test_version() -> None:
    assert hs.__version__.count(".") == 2


# ---- properties of an array


def test_facts(z: hs.Array) -> None:
    assert (z.shape, z.ndim, z.size, z.nbytes, z.chunks, z.shards) == ((6, 8), 2, 48, 192, (2, 3), None)
    assert (z.cdata_shape, z.nchunks, z.nchunks_initialized) == ((3, 3), 9, 9)
    assert (z.dtype, z.order, z.zarr_format, z.read_only) == (np.dtype("<i4"), "C", 3, False)
    assert (z.path, z.name, z.basename) == ("", "/", "")
    assert z.fill_value == 0 and z.fill_value.dtype == z.dtype
    assert z.serializer == hs.codecs.Bytes("little")
    assert (z.filters, z.compressors) == ((), (hs.codecs.Zstd(),))
    assert z.metadata["codecs"] == [codec.to_dict() for codec in z.metadata.codecs]
    assert z.metadata.to_dict()["attributes"] == {}
    stored = sum(len(z.store.get(key) or b"") for key in z.store.list())
    assert z.nbytes_stored() == stored
    for text in (repr(z), str(z), repr(z.info), repr(z.info_complete()), z._repr_html_()):
        assert "(6, 8)" in text
    assert "9 of 9" in repr(z.info_complete())


def test_order_and_names_of_v2() -> None:
    z = hs.create_array(
        hs.MemoryStore(),
        name="a/b",
        shape=(2, 3),
        dtype=">f8",
        order="F",
        zarr_format=2,
        dimension_names=["y", "x"],
    )
    assert (z.order, z.serializer, z.dtype.str, z.path, z.basename) == ("F", None, ">f8", "a/b", "b")
    assert z.dimension_names == ("y", "x")
    assert z.attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((), ()),
        ((0,), (1,)),
        ((7,), (2,)),
        ((3, 4), (3, 4)),
        ((9, 50, 3), (1, 7, 3)),
        ((2, 3, 4, 10**6), (1, 1, 1, 10)),
    ],
)
def test_html_is_bounded_and_well_formed(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    from xml.etree import ElementTree

    z = hs.create_array(hs.MemoryStore(), shape=shape, chunks=chunks, dtype="<U3", fill_value="<&>")
    html = z._repr_html_()
    assert len(html) < 40_000 and "<script" not in html
    ElementTree.fromstring(html)


def test_html_names_are_escaped() -> None:
    g = hs.create_group(hs.MemoryStore())
    g.create_array("<b>&", shape=(1,), dtype="u1")
    assert "<b>&amp;" not in g.tree()._repr_html_().replace("&lt;b&gt;&amp;", "")
    assert "&lt;b&gt;&amp;" in g["<b>&"]._repr_html_()


def test_python_protocols(z: hs.Array) -> None:
    assert len(z) == 6 and bool(z)
    assert [row.tolist() for row in z] == REF.tolist()
    assert np.array_equal(np.asarray(z), REF)
    assert np.asarray(z, dtype="f4").dtype == np.float32
    assert np.array_equal(np.array(z, copy=True) + z, 2 * REF)
    with pytest.raises(ValueError, match="copy=False"):
        np.array(z, copy=False)
    nothing = hs.create_array(hs.MemoryStore(), shape=(), dtype="i4")
    assert bool(nothing)
    with pytest.raises(TypeError):
        len(nothing)
    with pytest.raises(TypeError):
        iter(nothing)
    assert list(hs.zeros((0, 3))) == []
    with pytest.raises(TypeError):
        hash(z)


def test_rows_do_not_share_memory(z: hs.Array) -> None:
    rows = list(z)
    rows[0][:] = -1
    assert rows[1].tolist() == REF[1].tolist() and rows[0].base is None


def test_equality() -> None:
    store = hs.MemoryStore()
    a = hs.create_array(store, name="a", shape=(3,), dtype="i4")
    assert a == hs.open_array(store, path="a") and a != hs.create_array(
        store, name="b", shape=(3,), dtype="i4"
    )
    assert a != 3 and a != hs.open(store)
    assert hs.open(store) == hs.open_group(store)


# ---- reading


def test_scalars(z: hs.Array) -> None:
    assert isinstance(z[0, 0], np.int32) and z[-1, -1] == 47
    assert isinstance(z[np.int64(1), np.array(2)], np.int32)
    assert z.read((0, 0)).shape == ()
    text = hs.array(np.array(["a", "bc"]))
    assert isinstance(text[1], np.str_) and text[1] == "bc"
    when = hs.array(np.array(["2020-01-01"], "M8[D]"))
    assert when[0] == np.datetime64("2020-01-01")


@pytest.mark.parametrize("index", [True, 1.5, "a", (0, None, "a"), {}, [0.5], [None]])
def test_indices_that_are_not_supported(z: hs.Array, index: Any) -> None:
    with pytest.raises(IndexError) as caught:
        z[index]
    assert isinstance(caught.value, (hs.errors.UnsupportedSelectionError, NotImplementedError))
    with pytest.raises(IndexError):
        z[index] = 0
    assert np.array_equal(z[:], REF)


@pytest.mark.parametrize("index", [6, -7, (0, 8), (0, 0, 0), (..., ...), 2**70])
def test_indices_out_of_bounds(z: hs.Array, index: Any) -> None:
    with pytest.raises(hs.errors.BoundsCheckError):
        z[index]
    with pytest.raises(IndexError):
        z[index] = 1


def test_results_are_ordinary_arrays(z: hs.Array) -> None:
    part = z[1:3]
    assert part.flags.writeable and part.flags.c_contiguous and part.flags.aligned
    part[:] = -1
    assert np.array_equal(z[:], REF)
    assert z[3:3].shape == (0, 8) and z[3:3].flags.writeable


@pytest.mark.parametrize(
    "out",
    [
        np.empty((6, 8), "i4"),
        np.empty((6, 8), "i4", order="F"),
        np.empty((6, 8), "i4")[::-1, ::-1],
        np.empty((12, 24), "i4")[::2, 1::3],
        np.zeros(48 * 4 + 1, "u1")[1:].view("i4").reshape(6, 8),
    ],
    ids=["C", "F", "reversed", "strided", "unaligned"],
)
def test_out(z: hs.Array, out: np.ndarray[Any, Any]) -> None:
    assert z.read(out=out) is out
    assert np.array_equal(out, REF)
    assert z.get_basic_selection((0, slice(None)), out=out[0]) is not None
    assert np.array_equal(out[0], REF[0])


def test_out_that_overlaps_itself(z: hs.Array) -> None:
    memory = np.zeros(6, "i4")
    z.read(out=np.lib.stride_tricks.as_strided(memory, (6, 8), (4, 0)))
    # Elements that share memory hold the last value that was assigned.
    assert memory.tolist() == REF[:, -1].tolist()


def test_out_that_is_a_buffer(z: hs.Array) -> None:
    numbers = array.array("i", [0] * 8)
    z.read(5, out=numbers)
    assert list(numbers) == REF[5].tolist()
    octets = bytearray(4)
    hs.array(np.arange(4, dtype="u1")).read(out=memoryview(octets))
    assert octets == b"\0\1\2\3"


def test_out_that_does_not_fit(z: hs.Array) -> None:
    with pytest.raises(ValueError, match=r"\[6, 7\].*\[6, 8\]"):
        z.read(out=np.empty((6, 7), "i4"))
    with pytest.raises(ValueError, match="<i8.*<i4"):
        z.read(out=np.empty((6, 8), "<i8"))
    with pytest.raises(ValueError, match=">i4.*<i4"):
        z.read(out=np.empty((6, 8), ">i4"))
    with pytest.raises(ValueError, match="read-only"):
        z.read(out=np.broadcast_to(np.zeros(8, "i4"), (6, 8)))
    with pytest.raises(ValueError, match="read-only|u1.*<i4"):
        z.read(out=b"0" * 192)
    with pytest.raises(TypeError, match="list"):
        z.read(out=[0])


def test_options_of_a_read(z: hs.Array) -> None:
    for threads in (1, 2, 7):
        assert np.array_equal(z.read((slice(None, None, -2), 1), threads=threads, verify=False), REF[::-2, 1])


# ---- writing


@pytest.mark.parametrize(
    "value", [5, 2.9, True, [1, 2, 3, 4, 5, 6, 7, 8], np.arange(6.0)[:, None], range(8), np.ones((1, 1, 8))]
)
def test_values_are_converted_as_numpy_does(z: hs.Array, value: Any) -> None:
    expected = REF.copy()
    expected[:] = value
    z[:] = value
    assert np.array_equal(z[:], expected)


def test_values_that_do_not_fit(z: hs.Array) -> None:
    with pytest.raises(
        ValueError, match=r"could not broadcast input array from shape \(2,8\) into shape \(3,8\)"
    ):
        z[:3] = np.zeros((2, 8))
    with pytest.raises(ValueError, match=r"from shape \(3,\) into shape \(8,\)"):
        z[0] = np.zeros(3)
    with pytest.raises(OverflowError):
        z[0] = 2**40
    with pytest.raises((ValueError, TypeError)):
        z[0] = "x"
    assert np.array_equal(z[:], REF)


def test_a_write_through_oneself(z: hs.Array) -> None:
    z[:] = z[::-1]
    assert np.array_equal(z[:], REF[::-1])
    z[...] = z
    assert np.array_equal(z[:], REF[::-1])


def test_write_with_options() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4,), chunks=(2,), dtype="i4")
    z.write(..., 0, threads=1, write_empty_chunks=True)
    assert z.nchunks_initialized == 2
    z.write(None, 0)
    assert z.nchunks_initialized == 0
    kept = z.with_config({"write_empty_chunks": True})
    kept[:2] = 0
    assert z.nchunks_initialized == 1
    with pytest.raises(ValueError, match="nonsense"):
        z.with_config({"nonsense": 1})


def test_append_and_resize(z: hs.Array) -> None:
    assert z.append(REF[:2]) == (8, 8)
    assert z.append(np.full((8, 1), 9), axis=-1) == (8, 9)
    assert np.array_equal(z[6:, :8], REF[:2]) and np.array_equal(z[:, 8], np.full(8, 9))
    with pytest.raises(ValueError, match="append"):
        z.append(np.zeros((2, 3)))
    with pytest.raises(ValueError):
        z.append(np.zeros((2, 9)), axis=5)
    with pytest.raises((TypeError, ValueError)):
        z.append([["x"] * 9])
    assert z.shape == (8, 9)
    z.resize((1, 2))
    assert z.shape == (1, 2) and z[:].tolist() == [[0, 1]]
    for bad in [(1,), (1, -1), (1, 2, 3), (1.5, 2)]:
        with pytest.raises((ValueError, TypeError)):
            z.resize(bad)
    assert hs.open_array(z.store).shape == (1, 2)


def test_resize_is_seen_by_other_objects_of_the_array(z: hs.Array) -> None:
    other = z.with_config({"write_empty_chunks": True})
    stranger = hs.open_array(z.store)
    z.resize((1, 1))
    assert other.shape == (1, 1) and stranger.shape == (6, 8)
    assert stranger.refresh().shape == (1, 1)


def test_read_only(z: hs.Array) -> None:
    r = hs.open_array(z.store, mode="r")
    assert r.read_only and np.array_equal(r[:], REF)
    changes = [
        lambda: r.__setitem__(0, 1),
        lambda: r.resize((1, 1)),
        lambda: r.append(REF),
        lambda: r.attrs.put({}),
        lambda: r.attrs.update(a=1),
        lambda: r.attrs.__delitem__("a"),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="read-only") as caught:
            change()
        assert isinstance(caught.value, (hs.errors.ReadOnlyError, PermissionError))
    g = hs.open_group(hs.create_group(hs.MemoryStore()).store, mode="r")
    for change in [
        lambda: g.create_group("a"),
        lambda: g.create_array("a", shape=1, dtype="u1"),
        g.consolidate,
    ]:
        with pytest.raises(hs.errors.ReadOnlyError):
            change()
    with pytest.raises(hs.errors.ReadOnlyError):
        hs.open(hs.MemoryStore(read_only=True), mode="w")


# ---- explaining


def test_explain(z: hs.Array) -> None:
    told = z.explain((slice(0, 2), slice(0, 4)))
    assert (told.chunks, told.objects, told.shape, told.bytes) == (2, 2, (2, 4), 32)
    assert sum(told.strategies.values()) == 2 and len(told.tasks) == 2
    assert told.tasks[0].key == "c/0/0" and told.tasks[0].elements == 6
    assert told.bytes_read == sum(task.bytes_read for task in told.tasks)
    assert "c/0/0" in repr(told) and told.to_dict()["tasks"][0]["chunk"] == [0, 0]
    assert z.explain(0, write=True).strategies == {"modify": 3}
    assert len(z.explain(tasks=1).tasks) == 1
    plain = hs.create_array(hs.MemoryStore(), shape=(4,), dtype="u1", compressors=None)
    assert plain.explain().strategies == {"fill": 1}
    plain[:] = 1
    assert plain.explain().strategies == {"read-into": 1}


# ---- copying


def test_copy(tmp_path: Path, z: hs.Array) -> None:
    g = hs.create_group(tmp_path / "src", attributes={"t": float("nan")})
    g["a/b"] = REF
    told: list[tuple[str, int, int]] = []
    report = hs.copy(
        g, tmp_path / "dst", chunks=(3, -1), compressors="gzip:1", zarr_format=2, verify=True,
        progress=lambda *now: told.append(now),
    )  # fmt: skip
    assert (report.groups, report.arrays, report.bytes) == (
        2,
        1,
        REF.nbytes,
    ) and report.seconds_verified is not None
    copied = hs.open_group(tmp_path / "dst", mode="r")
    array = copied.get_array("a/b")
    assert copied.zarr_format == 2 and array.chunks == (3, 8) and array.compressors == (hs.codecs.Gzip(1),)
    assert np.array_equal(array[:], REF)
    assert told[0] == ("copy", 0, REF.nbytes) and told[-1] == ("verify", REF.nbytes, REF.nbytes)
    with pytest.raises(FileExistsError):
        hs.copy(g, tmp_path / "dst")
    hs.copy(g["a/b"], tmp_path / "dst", overwrite=True, compressors=None)
    assert hs.open_array(tmp_path / "dst").compressors == ()
    hs.copy(z, g, "x/y")
    hs.copy(z, g, name="c")
    assert np.array_equal(g["x/y"][:], REF) and np.array_equal(g["c"][:], REF)
    memory = hs.MemoryStore()
    hs.copy(tmp_path / "src", memory)
    assert np.array_equal(hs.open(memory)["a/b"][:], REF)


def test_copy_is_stopped_by_its_progress(tmp_path: Path) -> None:
    def stop(*_: Any) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        hs.copy(hs.array(REF), tmp_path / "dst", progress=stop)
    assert list(tmp_path.iterdir()) == []


# ---- the process


def test_ctrl_c_stops_a_read(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path, shape=(2000, 1000), chunks=(1, 1000), dtype="f8", compressors=hs.codecs.Gzip(1)
    )
    z[...] = np.random.default_rng(0).random((2000, 1000))
    fired = []

    def interrupt(*_: Any) -> None:
        fired.append(time.monotonic())
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            while True:
                z.read(threads=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert fired and time.monotonic() - fired[0] < 2
    assert z[0].shape == (1000,)


def test_import_is_quick_and_needs_only_numpy() -> None:
    program = "import sys, hyperslab; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ
    )
    assert not {"zarr", "numcodecs", "dask", "pandas"} & set(done.stdout.split())
