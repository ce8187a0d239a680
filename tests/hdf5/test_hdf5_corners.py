"""Corner cases of HDF5, compared with h5py.

Conversions, fill values, dangling links, and incomplete files.
"""

from __future__ import annotations

import ctypes
import glob
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hdf5_files import new_file
from hyperslab import errors

Pair = tuple[h5py.File, Any]


def both(path: Path) -> Pair:
    return h5py.File(path), hs.open(path)


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return error


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    path = tmp_path_factory.mktemp("corners") / "values.h5"
    compound = np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2")])
    with h5py.File(path, "w") as file:
        file["i4"] = np.array([300, -5, 70000], "i4")
        file["u8"] = np.array([2**64 - 1, 0], "u8")
        file["f8"] = np.array([1e20, np.nan, -3.7, 2.5, np.inf, -np.inf, 1e300])
        file["big"] = np.array([1e20, np.nan, -3.7], ">f8")
        file["f4"] = np.array([1.5, 70000], "f4")
        file["bool"], file["c8"] = np.array([True, False]), np.array([1 + 2j, 3], "c8")
        file["S3"] = np.array([b"ab", b"abc"])
        file["comp"] = np.array([(1, 2.5, 3), (300, -1e10, 4)], compound)
        file["scalar"], file["text"] = 5, "one"
        file["structure"] = np.array((1, 2.5, 3), compound)[()]
        file.create_dataset("enum", data=[0, 1, 300], dtype=h5py.enum_dtype({"A": 0, "B": 1, "C": 300}, "i4"))
        nested = np.dtype([("x", "i4", (3,)), ("y", [("p", "f4"), ("q", "i2")])])
        file["nested"] = np.array([([1, 2, 300], (1.5, -3))], nested)
        file.create_dataset("arrays", (2,), np.dtype(("i4", (3,))))[...] = np.array([[1, 2, 300], [4, 5, 6]])
        file["empty"] = h5py.Empty("f4")
        file["type"] = compound
        file["alias"] = file["type"]
        file["other type"] = np.dtype("f8")
        for name, kind, fill in (
            ("fill text", h5py.string_dtype(), "abc"),
            ("fill UTF-8", h5py.string_dtype(), "é€"),
            ("fill ASCII", h5py.string_dtype("ascii"), b"xy"),
            ("no fill", h5py.string_dtype(), None),
            ("fill fixed", "S5", b"ab"),
        ):
            file.create_dataset(name, (3,), kind, fillvalue=fill)
    return both(path)


INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u2", ">i8"]
CONVERSIONS: list[tuple[str, Any]] = [
    *(
        (name, kind)
        for name in ("i4", "u8", "f8", "big", "f4", "bool", "enum")
        for kind in [*INTEGERS, "f2", "f4", ">f8"]
    ),
    *((name, "c16") for name in ("c8",)),
    *((name, kind) for name in ("c8", "S3", "comp") for kind in ("f4", "i4")),
    *((name, "bool") for name in ("i4", "bool", "enum", "f8", "c8")),
    *((name, kind) for name in ("i4", "f8", "bool") for kind in ("S3", "V4", "M8[s]", [("a", "i4")])),
    *(("S3", kind) for kind in ("S2", "S6", "V3", "S1")),
    *(
        ("comp", kind)
        for kind in ([("a", "f8")], [("c", "i4"), ("a", "u1")], [("z", "i4")], [("a", "i4"), ("z", "f4")])
    ),
    *(("c8", kind) for kind in ([("r", "f8")], [("r", "f8"), ("i", "f4")])),
    *(("nested", kind) for kind in ([("y", [("q", "i4")])], [("x", "u1", (3,))], [("x", "f4", (2,))])),
    ("arrays", np.dtype(("u1", (3,)))),
    ("arrays", np.dtype(("u1", (2,)))),
    ("text", "S2"),
    ("fill text", "T"),
]


# For 2⁶⁴ - 1 the library returns -1 as a big-endian 64-bit integer, but 2⁶³ - 1 as a native one.
CONVERSIONS.remove(("u8", ">i8"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name, kind", CONVERSIONS, ids=str)
def test_astype_converts_as_hdf5_does(values: Pair, name: str, kind: Any) -> None:
    dtype = np.dtype(kind)
    reads: list[Callable[[Any], Any]] = [lambda file: file[name].astype(dtype)[...]]
    if dtype.subdtype is None and dtype.kind != "T":
        reads.append(lambda file: np.asarray(file[name], dtype=dtype))
    for read in reads:
        expected, found = (outcome(lambda file=file: read(file)) for file in values)
        if isinstance(expected, Exception):
            assert isinstance(found, errors.ConversionError) and isinstance(found, type(expected)), (
                expected,
                found,
            )
        else:
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), (expected, found)
            np.testing.assert_array_equal(found, expected)


def test_what_has_no_elements_stays_empty(values: Pair) -> None:
    expected, found = (file["empty"].astype("i4")[...] for file in values)
    assert isinstance(found, hs.Empty) and found.dtype == expected.dtype


def test_a_scalar_dataset_is_an_array_where_dots_ask_for_it(values: Pair) -> None:
    for name in ("scalar", "text", "structure"):
        for selection in (..., (...,), ()):
            expected, found = (file[name][selection] for file in values)
            assert type(found) is type(expected) and found == expected, (name, selection)
            if isinstance(expected, np.ndarray):
                assert (found.shape, found.dtype) == ((), expected.dtype)
    ours, theirs = values[1], values[0]
    for read in (
        lambda file: file["scalar"].astype("f4")[...],
        lambda file: file["scalar"].astype("f4")[()],
        lambda file: file["text"].asstr()[...],
        lambda file: file["text"].asstr()[()],
        lambda file: file["structure"]["a"],
        lambda file: file["structure"].fields(["a", "c"])[()],
    ):
        expected, found = read(theirs), read(ours)
        assert type(found) is type(expected) and found == expected


def test_members_are_packed(values: Pair) -> None:
    for read in (
        lambda file: file["comp"]["a", "c"],
        lambda file: file["comp"]["c", "a", 1:],
        lambda file: file["comp"].fields(["a", "c"])[...],
        lambda file: file["comp"].fields(["c", "b"])[0],
        lambda file: file["comp"]["b"],
        lambda file: file["nested"].fields(["y"])[...],
    ):
        expected, found = (read(file) for file in values)
        assert found.dtype == expected.dtype and found.dtype.itemsize == expected.dtype.itemsize
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("offsets", [4, 8])
def test_members_are_where_h5py_has_them(tmp_path: Path, offsets: int) -> None:
    """Text takes 8 bytes less than in the file. Objects may take more: with addresses of 4 bytes."""
    text, items, reference = h5py.string_dtype(), h5py.vlen_dtype("f4"), h5py.ref_dtype
    types: dict[str, list[Any]] = {
        "texts": [("t", text), ("n", "i2"), ("a", text, (3,)), ("b", "S3")],
        "objects": [("v", items), ("e", h5py.enum_dtype({"x": 1}, "u1")), ("q", h5py.regionref_dtype)],
        "references": [("a", reference), ("n", "i4"), ("c", reference)],
        "nested": [("i", [("t", text), ("n", "i4")]), ("r", reference), ("z", "f8")],
    }
    if offsets == 4:
        # h5py leaves gaps after these objects, which its own file does not have.
        del types["objects"]
    with new_file(tmp_path / "a.h5", "latest", offsets) as file:
        for name, members in types.items():
            file.create_dataset(name, shape=(2,), dtype=members)
    with h5py.File(tmp_path / "a.h5") as theirs, hs.File(tmp_path / "a.h5") as ours:
        for name in types:
            found, expected = ours[name].dtype, theirs[name].dtype
            assert found == expected and found.itemsize == expected.itemsize, name
            assert {key: field[1] for key, field in found.fields.items()} == {
                key: field[1] for key, field in expected.fields.items()
            }, name


def test_a_committed_type_equals_itself(values: Pair) -> None:
    _, file = values
    assert file["type"] == file["type"] == file["alias"] != file["other type"]
    assert hash(file["type"]) == hash(file["alias"]) and file["type"] != "type"


def test_fill_values_of_texts(values: Pair) -> None:
    for name in ("fill text", "fill UTF-8", "fill ASCII", "no fill", "fill fixed"):
        expected, found = (file[name].fillvalue for file in values)
        assert type(found) is type(expected) and found == expected, name
        assert (values[1][name][...] == values[0][name][...]).all()


# ---- links that lead nowhere, and data that is not there


@pytest.fixture
def dangling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    path = folder / "dangling.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)
        file["soft"], file["outside"] = h5py.SoftLink("/nowhere"), h5py.ExternalLink("gone.h5", "/x")
        file["inside"] = h5py.ExternalLink("dangling.h5", "/nothing")
        raw = [("missing.bin", 0, 12)]
        file.create_dataset("raw", (3,), "i4", external=raw)
        file.create_dataset("group/raw", (2, 2), "i2", external=[("gone.bin", 4, 8)], fillvalue=7)
        file["z"] = 1
    return path


def test_links_that_lead_nowhere_break_nothing(dangling: Path) -> None:
    theirs, ours = both(dangling)
    assert list(ours) == list(theirs)
    seen: list[list[str]] = [[], []]
    for number, file in enumerate((theirs, ours)):
        assert [name for name, node in file.items() if node is None] == ["inside", "outside", "soft"]
        assert [node is None for node in file.values()] == [
            name in ("inside", "outside", "soft") for name in file
        ]
        for name in ("soft", "outside", "inside"):
            assert file.get(name) is None and file.get(name, 5) == 5 and name in file
            with pytest.raises(KeyError):
                file[name]
        file.visititems(lambda name, node, number=number: seen[number].append(f"{name} {node.name}"))
    assert seen[0] == seen[1]
    assert [name for name, _ in ours.members()] == ["a", "group", "raw", "z"]
    assert [name for name, _ in ours.members(None)] == ["a", "group", "group/raw", "raw", "z"]
    assert len(ours.items()) == len(ours.values()) == len(theirs)
    assert "raw" in str(ours.tree())


def test_missing_raw_data_leaves_the_facts(dangling: Path) -> None:
    theirs, ours = both(dangling)
    for name in ("raw", "group/raw"):
        a, b = theirs[name], ours[name]
        assert (b.shape, b.dtype, b.external, b.fillvalue) == (a.shape, a.dtype, a.external, a.fillvalue)
        assert b.nchunks == 1 and b.chunks is None and str(b.info)
        for array in (a, b):
            with pytest.raises(OSError):
                array[...]
    with pytest.raises(FileNotFoundError, match=r"its external file 'missing\.bin' does not exist"):
        ours["raw"][0]


def test_raw_data_is_found_where_hdf5_looks(dangling: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (dangling.parent / "missing.bin").write_bytes(np.arange(3, dtype="i4").tobytes())
    # Found beside the file. The HDF5 library looks only in the working directory.
    assert hs.open(dangling)["raw"][...].tolist() == [0, 1, 2]
    monkeypatch.chdir(dangling.parent)
    (dangling.parent / "missing.bin").write_bytes(np.arange(5, 8, dtype="i4").tobytes())
    theirs, ours = both(dangling)
    assert ours["raw"][...].tolist() == theirs["raw"][...].tolist() == [5, 6, 7]
    # The working directory comes first if the setting allows it.
    above = dangling.parent.parent
    (above / "missing.bin").write_bytes(np.full(3, 9, "i4").tobytes())
    monkeypatch.chdir(above)
    assert hs.open(dangling)["raw"][...].tolist() == [5, 6, 7]
    with hs.config.set(external_files="anywhere"):
        assert hs.open(dangling)["raw"][...].tolist() == h5py.File(dangling)["raw"][...].tolist() == [9, 9, 9]


PREFIXES = """
import sys, h5py, hyperslab as hs
for open in (h5py.File, hs.open):
    file = open(sys.argv[1])
    print(file["raw"][...].tolist(), file["outside"][...].tolist(), file["virtual"][...].tolist())
"""


def test_prefixes_of_the_environment(dangling: Path, tmp_path: Path) -> None:
    for name in ("raw", "link", "virtual"):
        (dangling.parent / name).mkdir()
    (dangling.parent / "raw/missing.bin").write_bytes(np.arange(3, dtype="i4").tobytes())
    with h5py.File(dangling.parent / "link/gone.h5", "w") as file:
        file["x"] = [4, 5]
    with h5py.File(dangling.parent / "virtual/source.h5", "w") as file:
        file["y"] = [6, 7, 8]
    with h5py.File(dangling, "a") as file:
        layout = h5py.VirtualLayout((3,), "i8")
        layout[:] = h5py.VirtualSource("source.h5", "y", (3,))
        file.create_virtual_dataset("virtual", layout)
    folder = dangling.parent
    prefixes = {
        "HDF5_EXTFILE_PREFIX": "${ORIGIN}/raw",
        "HDF5_EXT_PREFIX": f"/nowhere:{folder}/link",
        "HDF5_VDS_PREFIX": f"{folder}/virtual",
    }
    command = [sys.executable, "-c", PREFIXES, str(dangling)]
    done = subprocess.run(
        command, env={**os.environ, **prefixes}, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["[0, 1, 2] [4, 5] [6, 7, 8]"] * 2, done.stderr


def test_facts_of_chunks_that_cannot_be_decoded(tmp_path: Path) -> None:
    path = tmp_path / "filter.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("known", data=np.arange(70).reshape(7, 10), chunks=(3, 4), compression="gzip")
    data = path.read_bytes()
    # Replaces filter 1 by an unknown filter. The filter's name follows its number.
    at = data.index(b"deflate\0") - 8
    assert data[at : at + 2] == b"\1\0"
    path.write_bytes(data[:at] + (32_767).to_bytes(2, "little") + data[at + 2 :])
    theirs, ours = both(path)
    a, b = theirs["known"], ours["known"]
    assert (b.shape, b.dtype, b.chunks, b.maxshape) == (a.shape, a.dtype, a.chunks, a.maxshape)
    assert b.cdata_shape == (3, 3) and b.nchunks == 9 and b.nchunks_initialized == a.id.get_num_chunks() == 9
    starts = [
        [[(axis.start, axis.stop) for axis in chunk] for chunk in array.iter_chunks()] for array in (a, b)
    ]
    assert starts[0] == starts[1]
    assert "(3, 4)" in str(b.info) and "9 of 9" in str(b.info_complete())
    with pytest.raises(NotImplementedError, match="filter"):
        b[...]


# ---- files that change, or are not whole


def test_refresh_of_one_dataset(tmp_path: Path) -> None:
    path = tmp_path / "swmr.h5"
    with h5py.File(path, "w", libver="latest") as writer:
        x = writer.create_dataset("x", (0,), "i4", maxshape=(None,), chunks=(4,))
        writer.swmr_mode = True
        file = hs.open(path)
        held = file["x"]
        for size in (10, 25):
            x.resize((size,))
            x[...] = np.arange(size)
            x.flush()
            assert file["x"].refresh().shape == (size,)
            # A refresh applies to the file, not to one handle.
            assert file["x"].shape == (size,) and file["x"][...].tolist() == list(range(size))
        assert held.shape == (0,) and held.refresh()[...].tolist() == list(range(25))
    # Another file with the same name.
    path.unlink()
    with h5py.File(path, "w") as writer:
        writer["x"] = np.array([7], "i4")
    assert held.refresh()[...].tolist() == [7]
    with h5py.File(path, "w", userblock_size=512) as writer:
        writer["x"] = np.array([8, 9], "i4")
    assert held.refresh()[...].tolist() == [8, 9]
    # Values of another type would be misread as the old type.
    path.unlink()
    with h5py.File(path, "w") as writer:
        writer["x"] = [1.5]
    with pytest.raises(ValueError, match="open it again"):
        held.refresh()
    assert held[...].tolist() == [8, 9] and hs.open(path)["x"][...].tolist() == [1.5]


def test_a_file_that_its_writer_left_open(tmp_path: Path) -> None:
    path = tmp_path / "left.h5"
    program = """
import h5py, os, sys
file = h5py.File(sys.argv[1], "w", libver="latest")
file["x"] = [1, 2]
file.flush()
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=120)
    assert isinstance(outcome(lambda: h5py.File(path)), OSError)
    with pytest.raises(OSError, match="writer was killed") as raised:
        hs.open(path)
    assert isinstance(raised.value, errors.UnclosedFileError) and isinstance(raised.value, ValueError)
    with hs.config.set(verify_checksums=False):
        assert hs.open(path)["x"][...].tolist() == [1, 2]


@pytest.mark.parametrize("content", [b"hello, world\n", b"", b"PK", b"\x89HDF\r\n\x1a"])
def test_a_file_of_another_format(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.h5"
    path.write_bytes(content)
    assert isinstance(outcome(lambda: h5py.File(path)), OSError)
    for place in (path, path / "inside"):
        with pytest.raises(errors.UnknownFormatError, match="neither HDF5 nor NetCDF") as raised:
            hs.open(place)
        assert isinstance(raised.value, OSError) and "other.h5" in str(raised.value)
    assert path.read_bytes() == content


class _ImageConfig(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("generate", ctypes.c_bool),
        ("resize", ctypes.c_bool),
        ("age", ctypes.c_int),
    )


def test_metadata_in_a_cache_image(tmp_path: Path) -> None:
    libraries = glob.glob(os.path.join(os.path.dirname(h5py.__file__), "..", "h5py.libs", "libhdf5-*.so*"))
    if not libraries:
        pytest.skip("the library of h5py is not where wheels have it")
    library = ctypes.CDLL(libraries[0])
    library.H5Pset_mdc_image_config.argtypes = [ctypes.c_int64, ctypes.POINTER(_ImageConfig)]
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    assert library.H5Pset_mdc_image_config(access.id, ctypes.byref(_ImageConfig(1, True, False, -1))) >= 0
    path = tmp_path / "image.h5"
    with h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, fapl=access)) as file:
        file["x"] = np.arange(100)
        file.create_dataset("c", data=np.arange(1000), chunks=(10,), maxshape=(None,))
        for n in range(50):
            file[f"group/{n}"] = n
        file.attrs["a"], file["group"].attrs["b"] = "hello", np.arange(20)
    data = path.read_bytes()
    at = data.index(b"MDCI")
    file = hs.open(path)
    assert list(file) == ["c", "group", "x"] and file["x"][...].tolist() == list(range(100))
    assert file["c"][...].tolist() == list(range(1000)) and dict(file.attrs) == {"a": "hello"}
    assert [int(file[f"group/{n}"][()]) for n in range(50)] == list(range(50))
    assert file["group"].attrs["b"].tolist() == list(range(20))
    path.write_bytes(data[: at + 40] + b"\xff" + data[at + 41 :])
    with pytest.raises(errors.MetadataValidationError, match="metadata cache image"):
        hs.open(path)


# ---- many and deep


def test_groups_2000_deep(tmp_path: Path) -> None:
    path = tmp_path / "deep.h5"
    names = [f"group {n}" for n in range(2000)]
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for name in names:
            group = group.create_group(name)
        group["x"] = 5
    file = hs.open(path)
    deepest = "/".join(names)
    begin = time.monotonic()
    assert file[f"{deepest}/x"][()] == 5
    seen: list[str] = []
    file.visititems(lambda name, node: seen.append(name))
    assert len(seen) == 2001 and seen[-1] == f"{deepest}/x"
    assert len(file.members(None)) == 2001
    # Much more time than needed. Quadratic cost would exceed it.
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    "work",
    [
        "for _ in iter(int, 1): hs.open(path)['d'].nchunks_initialized",
        "for _ in iter(int, 1): hs.open(path).visititems(f)",
    ],
)
def test_long_work_hears_ctrl_c(tmp_path: Path, work: str) -> None:
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("d", shape=(200_000,), chunks=(1,), dtype="i1", maxshape=(None,))[:] = 1
        for n in range(500):
            file[f"g/{n}"] = n
    program = f"""
import sys
import hyperslab as hs
path, f = sys.argv[1], lambda name, node: None
print("begin", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("stopped")
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "begin\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        killer = threading.Timer(60, child.kill)
        killer.start()
        assert child.stdout.read() == "stopped\n"
        killer.cancel()
