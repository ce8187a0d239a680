"""HDF5 and NetCDF files presented as Zarr: each object beside h5py, netCDF4-python and zarr-python."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
import zarr
from hyperslab.errors import HyperslabError, InvalidArgumentError
from hyperslab.zarr import Store
from object_server_client import Server

netCDF4 = pytest.importorskip("netCDF4")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # Codecs and types that Zarr v3 does not specify.
        warnings.simplefilter("ignore")
        yield


def write_hdf5(path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, (7, 10)).astype("i4")
    chunked: dict[str, Any] = {"data": values, "chunks": (3, 4)}
    with h5py.File(path, "w", userblock_size=512) as file:
        file.attrs["title"] = "Rhône"
        for name, options in {
            "plain": {},
            "deflate": {"compression": "gzip"},
            "shuffled": {"compression": "gzip", "compression_opts": 7, "shuffle": True},
            "zstd": dict(hdf5plugin.Zstd()),
            "blosc": dict(hdf5plugin.Blosc()),
            "lzf": {"compression": "lzf"},
            "checked": {"fletcher32": True},
            "scaled": {"scaleoffset": 0},
        }.items():
            file.create_dataset(f"chunks/{name}", **chunked, **options)
        for dtype in ("i1", "u2", ">i2", "f2", ">f4", "f8", "c8", ">c16", "?", "S3"):
            of = values % 2 == 0 if dtype == "?" else values.astype(dtype)
            name = dtype.replace(">", "big-").replace("?", "bool")
            file.create_dataset(f"types/chunks/{name}", data=of, chunks=(3, 4), compression="gzip")
            file.create_dataset(f"types/whole/{name}", data=of)
        pair = np.zeros(5, [("a", "<i2"), ("b", ">f8")])
        pair["a"], pair["b"] = np.arange(5), np.arange(5) / 2
        file["pairs"] = pair
        file["enum"] = np.array([1, 2, 1], h5py.enum_dtype({"one": 1, "two": 2}, "u1"))
        # One piece of 8 MiB, and the rest.
        file["long"] = np.arange((8 << 20) // 8 + 5)
        file["wide"] = np.arange(3 * (5 << 18), dtype="i4").reshape(3, 5, 1 << 18)
        file["scalar"] = 3.5
        file["texts"] = ["Rhône", "", "Rhein"]
        file["text"] = "one"
        file.create_dataset("cut-texts", data=["a", "bc", "", "d", "e"], chunks=(2,))
        file.create_dataset("none", (0, 3), "f4")
        file.create_dataset("unwritten", (4, 5), "i4", fillvalue=9)
        sparse = file.create_dataset("sparse", (1000, 1000, 1000), "f4", chunks=(10, 10, 10), fillvalue=7.5)
        sparse[6, 6, 6] = 1
        sparse[999, 0, 500] = 2
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, space, compact)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype=">i4"))
        # Numbers of 12 bits in two bytes.
        odd = h5py.h5t.STD_I16LE.copy()
        odd.set_precision(12)
        odd.set_offset(2)
        in_chunks = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        in_chunks.set_chunk((2,))
        for name, storage in {b"twelve-bits": None, b"twelve-bits-in-chunks": in_chunks}.items():
            made = h5py.h5d.create(file.id, name, odd, space, storage)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([-3, 5, 2047, -2048], "<i2"))
        layout = h5py.VirtualLayout((2, 7, 10), "i4")
        for row in range(2):
            layout[row] = h5py.VirtualSource(".", "chunks/deflate", (7, 10))
        file.create_virtual_dataset("virtual", layout)
        deflated = file["chunks/deflate"].id
        deflated.write_direct_chunk((0, 0), values[:3, :4].tobytes(), filter_mask=1)
        # Zarr does not have these.
        file["nothing"] = h5py.Empty("f4")
        file["references"] = np.array([file["chunks"].ref], h5py.ref_dtype)
        file["chunks/above"] = file["/"]
        file["chunks/dangling"] = h5py.SoftLink("/nowhere")
        file["soft"] = h5py.SoftLink("/chunks/lzf")


def write_netcdf4(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createDimension("valueless", 2)
        file.title = "ocean"
        file.createVariable("x", "f8", ("x",))[:] = [1, 2, 3]
        long = file.createVariable("long", "i4", ("t", "x"), zlib=True, shuffle=True, chunksizes=(2, 2))
        long[:] = np.arange(21).reshape(7, 3)
        for kind in ("i2", "f4", "S1", str):
            for fill in (None, False):
                if kind is str and fill is False:
                    continue
                name = f"short-{getattr(kind, '__name__', kind)}-{fill}"
                options = {} if fill is None else {"fill_value": False}
                short = file.createVariable(name, kind, ("t",), chunksizes=(2,), **options)
                short[:3] = np.array(["a", "b", "c"], object) if kind in ("S1", str) else np.arange(3)
        file.createVariable("marked", "i4", ("t", "x"), fill_value=-9)[2] = 5
        group = file.createGroup("g").createGroup("h")
        group.createVariable("flags", "u1", ("x", "valueless"))[:] = np.arange(6).reshape(3, 2)
        group.units = "m"


def write_classic(path: Path) -> None:
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("t", None)
        file.createDimension("x", 5)
        file.createVariable("fixed", "f8", ("x",))[:] = np.arange(5) / 4
        file.createVariable("record", "i2", ("t", "x"), fill_value=-1)[:] = np.arange(20).reshape(4, 5)
        file.createVariable("other", "i4", ("t",))[:] = np.arange(4)
        file.createVariable("letters", "S1", ("x",))[:] = np.array(list("abcde"), "S1")
        file.createVariable("scalar", "f4", ())[...] = 1.5


def write_single_record(path: Path) -> None:
    """All elements of the only variable with records are in one range."""
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createVariable("t", "i4", ("t",))[:] = np.arange(9)


FILES = {
    "a.h5": write_hdf5,
    "a.nc": write_netcdf4,
    "b.nc": write_classic,
    "c.nc": write_single_record,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes all files."""
    found = tmp_path_factory.mktemp("presented")
    for name, write in FILES.items():
        write(found / name)
    return found


def keys_of(store: Store) -> list[str]:
    async def collect() -> list[str]:
        return [key async for key in store.list()]

    return asyncio.run(collect())


def get(store: Store, key: str, part: Any = None) -> bytes | None:
    found = store.get_sync(key, byte_range=part)
    return None if found is None else found.to_bytes()


def expected_of(path: Path) -> dict[str, Any]:
    """Returns the values of each array as h5py or netCDF4-python reads them."""
    found: dict[str, Any] = {}
    if path.suffix == ".nc":
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)

            def collect(group: Any, above: str) -> None:
                for name, variable in group.variables.items():
                    found[f"{above}{name}"] = variable[...]
                for name, below in group.groups.items():
                    collect(below, f"{above}{name}/")

            collect(file, "")
        return found
    with h5py.File(path) as file:

        def add(name: str, node: Any) -> None:
            if isinstance(node, h5py.Dataset) and node.size is not None and node.size < 1 << 25:
                is_text = h5py.check_string_dtype(node.dtype) and node.dtype.kind == "O"
                found[name] = node.asstr()[...] if is_text else node[...]

        file.visititems(add)
        found["soft"] = file["soft"][...]
        del found["references"]
    return found


# Older versions of zarr-python do not know "struct", the name of structures in Zarr v3.
KNOWS_STRUCTURES = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_the_file(name: str, folder: Path) -> None:
    path = folder / name
    expected = expected_of(path)
    for pipeline in ("zarr.core.codec_pipeline.BatchedCodecPipeline", "hyperslab.zarr.CodecPipeline"):
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            root = zarr.open_group(Store(path), mode="r")
            if KNOWS_STRUCTURES:
                members = root.members(max_depth=None)
                arrays = {key: node for key, node in members if isinstance(node, zarr.Array)}
                assert set(arrays) - {"sparse"} == set(expected)
            else:
                expected = {key: each for key, each in expected.items() if np.asarray(each).dtype.kind != "V"}
                arrays = {key: root[key] for key in expected}
            for key, values in expected.items():
                found = arrays[key]
                if np.asarray(values).dtype.kind == "O":
                    assert np.asarray(found[...]).tolist() == np.asarray(values).tolist(), key
                    continue
                np.testing.assert_array_equal(found[...], values, err_msg=key)
                if found.ndim:
                    np.testing.assert_array_equal(found[1::2], values[1::2], err_msg=key)


@pytest.mark.parametrize("name", FILES)
def test_every_listed_object_is_there(name: str, folder: Path) -> None:
    store = Store(folder / name)
    keys = keys_of(store)
    assert keys == sorted(set(keys)) and "zarr.json" in keys
    Range, Suffix = zarr.abc.store.RangeByteRequest, zarr.abc.store.SuffixByteRequest

    async def size(key: str) -> int:
        return await store.getsize(key)

    for key in keys:
        whole = get(store, key)
        assert whole is not None and asyncio.run(size(key)) == len(whole), key
        assert get(store, key, Range(3, 11)) == whole[3:11], key
        assert get(store, key, Suffix(5)) == whole[-5:], key
        if key.endswith("zarr.json"):
            assert json.loads(whole)["zarr_format"] == 3


def test_chunks_are_as_stored(folder: Path) -> None:
    """Chunks whose stored bytes are a chunk of Zarr are returned as they are stored."""
    store = Store(folder / "a.h5")
    with h5py.File(folder / "a.h5") as file:
        for name in ("plain", "deflate", "shuffled", "zstd"):
            dataset = file["chunks"][name].id
            for number in range(dataset.get_num_chunks()):
                info = dataset.get_chunk_info(number)
                at = "/".join(str(n // step) for n, step in zip(info.chunk_offset, (3, 4), strict=True))
                _, stored = dataset.read_direct_chunk(info.chunk_offset)
                # One chunk was stored without its filter.
                assert (get(store, f"chunks/{name}/c/{at}") == stored) == (info.filter_mask == 0), (name, at)
    assert get(store, "long/c/0") == np.arange(1 << 20).tobytes()
    assert get(store, "long/c/1") == np.arange(1 << 20, (1 << 20) + 5).tobytes() + bytes((8 << 20) - 40)
    assert get(store, "wide/c/1/0/0") == np.arange(5 << 18, 10 << 18, dtype="i4").tobytes()


def test_only_stored_chunks_are_listed(folder: Path) -> None:
    """Of a million chunks, two are stored."""
    store = Store(folder / "a.h5")
    found = [key for key in keys_of(store) if key.startswith("sparse/")]
    assert found == ["sparse/c/0/0/0", "sparse/c/99/0/50", "sparse/zarr.json"]
    assert zarr.open_array(store, path="sparse", mode="r")[999, 0, 498:502].tolist() == [7.5, 7.5, 2, 7.5]
    assert get(store, "sparse/c/1/1/1") is None and get(store, "unwritten/c/0/0") is None
    assert zarr.open_array(store, path="unwritten", mode="r")[3].tolist() == [9] * 5


class Counted(dict[str, bytes]):
    """Objects that count the bytes that are read."""

    read = 0

    def size_of(self, key: str) -> int:
        return len(self[key])

    def ranges(self, key: str, ranges: Any) -> list[bytes]:
        self.read += sum(length for _, length in ranges)
        return [self[key][start : start + length] for start, length in ranges]


def test_a_range_reads_no_more(folder: Path) -> None:
    objects = Counted({"a.h5": (folder / "a.h5").read_bytes()})
    root = hs.open_group(objects, path="a.h5", mode="r")
    store = Store(root)
    assert get(store, "long/zarr.json") is not None
    before = objects.read
    part = get(store, "long/c/0", zarr.abc.store.RangeByteRequest(4 << 20, (4 << 20) + 80))
    assert part == np.arange(1 << 19, (1 << 19) + 10).tobytes()
    assert objects.read - before == 80
    # The sizes of chunks are known without reading them.
    before = objects.read
    assert asyncio.run(store.getsize("long/c/1")) == 8 << 20
    assert objects.read == before


@pytest.mark.servers
def test_chunks_of_a_distant_file_are_requested_together(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 200, (1000, 1000), "i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(100, 100), compression="gzip", shuffle=True)
        file["whole"] = values
    with Server() as server:
        server.request("PUT", "/bucket/a.h5", (tmp_path / "a.h5").read_bytes())
        store = Store("s3://bucket/a.h5", storage_options=server.s3_options)
        with zarr.config.set({"codec_pipeline.path": "hyperslab.zarr.CodecPipeline"}):
            for name in ("a", "whole"):
                array = zarr.open_array(store, path=name, mode="r")
                rounds, _, found = server.asked(lambda array=array: array[...], 12)
                np.testing.assert_array_equal(found, values)
                # One chunk after the other would take a hundred.
                assert rounds <= 12, name


def test_names_that_are_no_keys(folder: Path, tmp_path: Path) -> None:
    store = Store(folder / "a.h5")
    for key in (
        "",
        "/",
        "c",
        "//zarr.json",
        "./zarr.json",
        "chunks/./lzf/zarr.json",
        "chunks//lzf/zarr.json",
    ):
        assert get(store, key) is None, key
    for key in (
        "chunks/lzf/c/0/00",
        "chunks/lzf/c/0",
        "chunks/lzf/c/0/0/0",
        "chunks/lzf/c/-1/0",
        "scalar/c/0",
    ):
        assert get(store, key) is None, key
    # A dataset may have the name of the folder of chunks.
    path = tmp_path / "c.h5"
    with h5py.File(path, "w") as file:
        file["c/c"] = [1, 2]
        file["c/d"] = 5
    found = Store(path)
    assert [key for key in keys_of(found) if "/c/" in key or key.endswith("c")] == [
        "c/c/c/0",
        "c/c/zarr.json",
        "c/d/c",
    ]
    assert zarr.open_array(found, path="c/c", mode="r")[:].tolist() == [1, 2]


def test_a_damaged_chunk_is_an_error_of_our_own(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", data=np.arange(100), chunks=(50,), fletcher32=True)
        at = made.id.get_chunk_info(1).byte_offset
    with path.open("r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff")
    assert get(Store(path), "a/c/0") is not None
    with pytest.raises(HyperslabError, match=r"'/a'.*chunk \[1\]"):
        get(Store(path), "a/c/1")
    with (
        zarr.config.set({"codec_pipeline.path": "hyperslab.zarr.CodecPipeline"}),
        pytest.raises(HyperslabError, match=r"chunk \[1\]"),
    ):
        zarr.open_array(Store(path), path="a", mode="r")[:]


def test_only_files_are_presented(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "z.zarr")
    with pytest.raises(InvalidArgumentError, match="only files of HDF5 and NetCDF"):
        hs._native.PresentedFile(group)
