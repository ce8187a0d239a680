"""Damaged and hostile files raise errors in bounded time and memory.

They never cause a crash or a hang, nor a wrong value where there is a checksum.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from hdf5_files import FILTERS
from support import examples

ERRORS = (hs.HyperslabError, ValueError, OSError, KeyError)

#: Approximate number of damaged copies of a file. HYPERSLAB_EXAMPLES=100000 damages every byte.
COPIES = examples(2000)


def small(path: Path, libver: str) -> None:
    """Writes a small file with every structure."""
    with h5py.File(path, "w", libver=libver, track_order=False) as file:
        file.attrs["title"] = "a small file"
        file.attrs["numbers"] = np.arange(5, dtype=">i2")
        group = file.create_group("group")
        group["soft"] = h5py.SoftLink("/chunked")
        group.create_dataset("compact", data=np.arange(3, dtype="<u2"))
        chunked = file.create_dataset(
            "chunked", (7, 5), "<f4", chunks=(3, 2), compression="gzip", shuffle=True, fletcher32=True
        )
        chunked[...] = np.arange(35).reshape(7, 5)
        grows = group.create_dataset("grows", (6,), "<i4", chunks=(2,), maxshape=(None,), fletcher32=True)
        grows[...] = range(6)
        both = group.create_dataset(
            "both", (3, 3), "i1", chunks=(2, 2), maxshape=(None, None), fletcher32=True
        )
        both[...] = 5
        file.create_dataset("text", data=["a", "", "three"], dtype=h5py.string_dtype())
        file.create_dataset("kinds", data=np.zeros(2, [("a", "i4"), ("b", "S3", (2,))]))
        file["enum"] = np.array([0, 1], h5py.enum_dtype({"no": 0, "yes": 1}, "i1"))
        file["type"] = np.dtype([("x", "f8")])


def checked(path: Path) -> None:
    """Writes a file in which everything has a checksum: HDF5 1.10 structures, fletcher32 data."""
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["numbers"] = np.arange(5, dtype=">i2")
        for name, max_shape in [("single", None), ("fixed", None), ("one", (None, 4)), ("two", (None, None))]:
            chunks = (4, 4) if name == "single" else (2, 3)
            dataset = file.create_dataset(
                f"g/{name}", (4, 4), "<i4", chunks=chunks, maxshape=max_shape, fletcher32=True
            )
            dataset[...] = np.arange(16).reshape(4, 4)
        many = file.create_group("many")
        for i in range(12):  # a fractal heap
            many[f"link {i}"] = h5py.SoftLink("/g")


def run(tmp_path: Path, good: Path, how: str) -> dict[str, Any]:
    # Each place is damaged in about four ways. An odd step reaches all bytes of consecutive fields.
    step = good.stat().st_size * (1 if how == "cut" else 4) // COPIES | 1
    script = Path(__file__).parents[1] / "lib" / "hdf5_bad.py"
    out = tmp_path / "bad.h5"
    command = [sys.executable, str(script), str(good), str(out), how, str(step)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    where = (tmp_path / "last").read_text() if (tmp_path / "last").exists() else "the beginning"
    assert done.returncode == 0, f"exit {done.returncode}, soon after {where}:\n{done.stderr[-3000:]}"
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["never"] == []
    return report


@pytest.mark.parametrize("how", ["bytes", "loose", "cut"])
@pytest.mark.parametrize("libver", ["earliest", "v110", "latest"])
def test_any_damage(tmp_path: Path, libver: str, how: str) -> None:
    good = tmp_path / "good.h5"
    small(good, libver)
    report = run(tmp_path, good, how)
    assert report["errors"] > 100
    if how == "cut":
        # Missing bytes never become values: a cut file can only lose unused bytes.
        assert report.get("different", 0) == 0, report["at"]


@pytest.mark.parametrize("how", ["bytes", "cut"])
@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def test_any_damage_of_classic_netcdf(tmp_path: Path, kind: str, how: str) -> None:
    good = tmp_path / "good.nc"
    with netCDF4.Dataset(good, "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.title = "a small file"
        file.createVariable("fixed", "f8", ("x",))[:] = 1.5
        file.createVariable("letters", "S1", ("t", "x"))[:4] = b"x"
        file.createVariable("records", "i2", ("t",))[:4] = range(4)
        file.createVariable("scalar", "i4", ())[...] = 7
    report = run(tmp_path, good, how)
    assert report["errors"] > 50
    if how == "cut":
        assert report.get("different", 0) == 0, report["at"]


def test_checksums_tell(tmp_path: Path) -> None:
    """If all relevant bytes have checksums, a damaged file gives an error or the right values."""
    good = tmp_path / "good.h5"
    checked(good)
    report = run(tmp_path, good, "bytes")
    assert report.get("different", 0) == 0, report["at"]
    assert report["errors"] > 500


def read(path: Path, name: str = "d") -> Any:
    return hs.open(path, mode="r")[name][...]


def edited(path: Path, find: bytes, at: int, new: bytes) -> None:
    """Overwrites bytes, relative to the first occurrence of ``find``."""
    data = bytearray(path.read_bytes())
    start = data.index(find) + at
    data[start : start + len(new)] = new
    path.write_bytes(data)


def test_a_group_tree_that_leads_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file["a"] = 1
    at = path.read_bytes().index(b"TREE")
    # Level 1. Its first child is itself.
    edited(path, b"TREE", 5, b"\1")
    edited(path, b"TREE", 32, struct.pack("<Q", at))
    with pytest.raises(ERRORS):
        list(hs.open(path, mode="r"))


def test_a_chunk_tree_that_leads_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("d", data=np.arange(10), chunks=(3,))
    find = b"TREE\1"
    at = path.read_bytes().index(find)
    edited(path, find, 5, b"\1")
    # The first key has 4 + 4 + 2 × 8 bytes.
    edited(path, find, 24 + 24, struct.pack("<Q", at))
    with pytest.raises(ERRORS):
        read(path)


def test_a_chunk_tree_with_a_shared_node(tmp_path: Path) -> None:
    """Without a record of visited nodes the walk never ends: each level leads twice to the next."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("d", data=np.arange(1000), chunks=(1,))
    data = bytearray(path.read_bytes())
    nodes = [i for i in range(len(data)) if data[i : i + 5] == b"TREE\1"]
    leaves = [i for i in nodes if data[i + 5] == 0]
    inner = [i for i in nodes if data[i + 5] > 0]
    assert leaves and inner
    for node in inner:
        for entry in range(struct.unpack_from("<H", data, node + 6)[0]):
            struct.pack_into("<Q", data, node + 24 + entry * 32 + 24, leaves[0])
    path.write_bytes(data)
    with pytest.raises(ERRORS):
        read(path)


def test_links_in_circles(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("a/b")
        group["up"] = file["a"]
        group["root"] = file["/"]
        file["one"] = h5py.SoftLink("/two")
        file["two"] = h5py.SoftLink("/one")
        file["deep"] = h5py.SoftLink("/deep/deep")
        file["other"] = h5py.ExternalLink("f.h5", "/other")
        file["d"] = 5
    group = hs.open(path, mode="r")
    assert group["a/b/up/b/up/b/root/d"][()] == 5
    for name in ("one", "deep", "other"):
        with pytest.raises(ERRORS):
            group[name]


def test_deep_nesting(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    depth = 3000
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for _ in range(depth):
            group = group.create_group("g")
        group["d"] = 5
    assert hs.open(path, mode="r")["g/" * depth + "d"][()] == 5
    # Nested types.
    dtype: Any = np.dtype("i1")
    for _ in range(20):
        dtype = np.dtype([("x", dtype)])
    with h5py.File(path, "w") as file:
        file["d"] = np.zeros(1, dtype)
    assert read(path).tobytes() == b"\0"


def bomb(zeros: int) -> bytes:
    return zlib.compress(bytes(zeros), 9)


@pytest.mark.parametrize("size", [0, 39, 41, 1000, 1 << 28])
def test_chunks_that_are_not_as_large_as_they_should_be(tmp_path: Path, size: int) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("d", (10,), "<i4", chunks=(10,), compression="gzip")
        dataset.id.write_direct_chunk((0,), bomb(size))
    with pytest.raises(ERRORS):
        read(path)


@pytest.mark.parametrize(
    "name",
    [
        "lzf",
        "szip-nn",
        "scaleoffset",
        "nbit",
        "blosc-lz4",
        "blosc2-lz4",
        "zstd",
        "lz4",
        "bitshuffle-lz4",
        "bzip2",
    ],
)
def test_chunks_of_garbage(tmp_path: Path, name: str) -> None:
    """Changed bytes of a good chunk: every decoder stays within its bounds."""
    path = tmp_path / "f.h5"
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as file:

        def made(dataset: str) -> h5py.Dataset:
            arguments = dict(FILTERS[name])
            dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if arguments.pop("nbit", False):
                dcpl.set_chunk((64,))
                dcpl.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
            return file.create_dataset(dataset, (64,), "<i4", chunks=(64,), dcpl=dcpl, **arguments)

        good = made("good")
        good[...] = rng.integers(0, 9, 64).cumsum()
        mask, chunk = good.id.read_direct_chunk((0,))
        for number in range(300):
            bad = bytearray(chunk)
            match number % 4:
                case 0:
                    del bad[rng.integers(len(bad)) :]
                case 1:
                    bad += rng.bytes(9)
                case 2:
                    bad[: rng.integers(1, 20)] = rng.bytes(16)
                case _:
                    for _ in range(rng.integers(1, 4)):
                        bad[rng.integers(len(bad))] = rng.integers(256)
            dataset = made(str(number))
            dataset.id.write_direct_chunk((0,), bytes(bad), mask)
    group = hs.open(path, mode="r")
    errors = 0
    for number in range(300):
        try:
            assert group[str(number)][...].shape == (64,)
        except ERRORS:
            errors += 1
    assert errors > 20


def test_filter_masks(tmp_path: Path) -> None:
    """A mask bit without a filter is ignored, as in the HDF5 library."""
    path = tmp_path / "f.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("d", (4,), "<i4", chunks=(4,), compression="gzip", shuffle=True)
        dataset.id.write_direct_chunk((0,), np.arange(4, dtype="<i4").tobytes(), 0b11)
        other = file.create_dataset("other", (4,), "<i4", chunks=(4,), compression="gzip")
        other.id.write_direct_chunk((0,), np.arange(4, dtype="<i4").tobytes(), 0b11)
    np.testing.assert_array_equal(read(path), np.arange(4))
    np.testing.assert_array_equal(read(path, "other"), np.arange(4))


def test_huge_claims_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("d", (1 << 40,), "<i8", chunks=(1 << 16,), maxshape=(None,))
        file.create_dataset("c", (1 << 40,), "<i8")
        file.create_dataset("m", (1 << 20, 1 << 20), "i1", chunks=(1, 1), maxshape=(None, None), fillvalue=7)
    group = hs.open(path, mode="r")
    assert group["d"][1 << 39 : (1 << 39) + 3].tolist() == [0, 0, 0]
    assert group["m"][-1, -1] == 7
    assert group["c"][-1] == 0


def outside(tmp_path: Path) -> tuple[Path, Path]:
    """Creates a directory with a file in it, and a secret file beside the directory."""
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["d"] = np.arange(5)
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / "link.h5").symlink_to(secret)
    return inside / "f.h5", secret


WAYS_OUT: list[Callable[[Path], str]] = [
    lambda secret: "../secret.h5",
    lambda secret: str(secret),
    lambda secret: "./../data/../secret.h5",
    lambda secret: "link.h5",
]


@pytest.mark.parametrize("way", range(len(WAYS_OUT)))
def test_no_way_out_of_the_directory(tmp_path: Path, way: int) -> None:
    path, secret = outside(tmp_path)
    target = WAYS_OUT[way](secret)
    with h5py.File(path, "w") as file:
        file["d"] = h5py.ExternalLink(target, "/d")
        file.create_dataset("raw", (10,), "u1", external=[(target, 0, 10)])
        layout = h5py.VirtualLayout((5,), "<i8")
        layout[...] = h5py.VirtualSource(target, "d", (5,))
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)
    group = hs.open(path, mode="r")
    for name in ("d", "raw", "virtual"):
        with pytest.raises(ERRORS) as caught:
            group[name][...]
        assert "secret" in str(caught.value) or "link" in str(caught.value), caught.value


def test_special_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(path, "w") as file:
        file["pipe"] = h5py.ExternalLink("pipe", "/d")
        file["zero"] = h5py.ExternalLink("/dev/zero", "/d")
        file["directory"] = h5py.ExternalLink(".", "/d")
    group = hs.open(path, mode="r")
    for name in ("pipe", "zero", "directory"):
        with pytest.raises(ERRORS):
            group[name][...]
