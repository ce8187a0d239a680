"""Limits of a process (descriptors and memory), special files, and incomplete HDF5 files."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest

LIMITED = """
import resource, sys
import hyperslab as hs
name, soft, hard = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(getattr(resource, name), (soft, hard))
"""


def limited(limit: str, value: int, program: str, *arguments: str | Path) -> str:
    """Runs a program in a process with a limit. Returns its output."""
    command = [sys.executable, "-c", LIMITED + program, limit, str(value), str(value), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# ---- descriptors

MANY = """
import xarray as xr
files = sys.argv[4:]
data = xr.open_mfdataset(files, engine="hyperslab", combine="nested", concat_dim="time")
print(dict(data.sizes)["time"], int(data["x"].sum()), int(data["x"][-1]))
open_files = [hs.open(file, mode="r") for file in files]
print(sum(int(file["x"][0]) for file in open_files))
"""


@pytest.mark.parametrize(("engine", "kind"), [("h5netcdf", "NETCDF4"), ("netcdf4", "NETCDF3_CLASSIC")])
def test_more_files_than_descriptors(tmp_path: Path, engine: Any, kind: Any) -> None:
    xr = pytest.importorskip("xarray")
    files = [tmp_path / f"{n:03}.nc" for n in range(200)]
    for n, file in enumerate(files):
        xr.Dataset({"x": ("time", np.array([n], "i4"))}).to_netcdf(file, engine=engine, format=kind)
    said = limited("RLIMIT_NOFILE", 150, MANY, *files).split()
    assert said == ["200", str(sum(range(200))), "199", str(sum(range(200)))]


def test_a_file_that_gave_way_and_changed(tmp_path: Path) -> None:
    files = [tmp_path / f"{n:03}.h5" for n in range(140)]
    for n, path in enumerate(files):
        with h5py.File(path, "w") as new:
            new["x"] = np.full(3, n)
    held = [hs.File(path) for path in files]
    os.replace(files[-1], files[0])
    with pytest.raises(OSError, match="since it was opened: open it again"):
        held[0]["x"][:]
    assert hs.File(files[0])["x"][:].tolist() == [139] * 3
    assert held[1]["x"][:].tolist() == [1] * 3


# ---- memory

HUGE_ELEMENTS = """
group = hs.open(sys.argv[4], mode="r")
for name in ("plain", "chunked"):
    try:
        print(group[name][...].nbytes)
    except MemoryError as error:
        print("MemoryError", "2130706444" in str(error))
"""


def test_elements_that_memory_cannot_hold(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        for name in ("plain", "chunked"):
            kind = h5py.h5t.create(h5py.h5t.OPAQUE, 2_130_706_444)
            settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if name == "chunked":
                settings.set_layout(h5py.h5d.CHUNKED)
                settings.set_chunk((1,))
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((1,)), settings)
    said = limited("RLIMIT_AS", 3 << 30, HUGE_ELEMENTS, tmp_path / "huge.h5").splitlines()
    assert said == ["MemoryError True"] * 2


LARGE_CHUNKS = """
import numpy as np
for path in sys.argv[4:]:
    array = hs.open_array(path, mode="r+")
    try:
        array[0] = 1
        print("written")
    except MemoryError as error:
        print("MemoryError")
    try:
        print(array[0])
    except MemoryError as error:
        print("MemoryError")
"""


def test_chunks_that_memory_cannot_hold(tmp_path: Path) -> None:
    codecs = {
        "plain": None,
        "zstd": {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        "blosc": {
            "name": "blosc",
            "configuration": {"typesize": 1, "cname": "lz4", "clevel": 1, "shuffle": "shuffle"},
        },
        "gzip": {"name": "gzip", "configuration": {"level": 1}},
    }
    paths = []
    for name, codec in codecs.items():
        paths.append(tmp_path / name)
        hs.create_array(
            paths[-1], shape=(1,), chunks=(1_900_000_000,), dtype="u1", compressors=codec, fill_value=7
        )
    said = limited("RLIMIT_AS", 1500 << 20, LARGE_CHUNKS, *paths).splitlines()
    assert said == ["MemoryError", "7"] * len(paths)


# ---- pipes and devices


def special(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe")
    (folder / "device").symlink_to("/dev/zero")
    (folder / "null").symlink_to("/dev/null")
    return {"a named pipe": folder / "pipe", "a device": folder / "device"}


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    array = hs.create_array(tmp_path / "a", data=np.arange(4), chunks=(2,), compressors=None)
    chunk = tmp_path / "a" / "c" / "0"
    for what, path in special(tmp_path).items():
        chunk.unlink()
        chunk.symlink_to(path)
        for read in (lambda: array[:], lambda: array[0], lambda: array[:2]):
            with pytest.raises(OSError, match=f"{what}, and only regular files are read"):
                read()
        assert array[2:].tolist() == [2, 3]
        document = tmp_path / "a" / "zarr.json"
        text = document.read_text()
        document.unlink()
        document.symlink_to(path)
        with pytest.raises(OSError, match=what):
            hs.open_array(tmp_path / "a", mode="r")
        document.unlink()
        document.write_text(text)
        with pytest.raises(OSError):
            hs.File(path)
        with pytest.raises(OSError):
            hs.open(path, mode="r")
        assert not hs.h5.is_hdf5(path)
    # Overwriting a whole chunk reads nothing.
    array[:2] = [8, 9]
    assert array[:].tolist() == [8, 9, 2, 3]


def test_the_kernel_is_not_waited_for() -> None:
    path = Path("/proc/kmsg")
    if not os.access(path, os.R_OK):
        return
    program = 'import hyperslab as hs\ntry: hs.open("/proc/kmsg", mode="r")\nexcept OSError: print("refused")'
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "refused\n"


# ---- HDF5 files that are not whole

KINDS: dict[str, Any] = {
    "numbers": "<i4",
    "other order": ">f8",
    "texts": "S5",
    "gaps": np.dtype({"names": ["c", "x"], "formats": ["S1", "<f4"], "offsets": [0, 4], "itemsize": 8}),
    "packed": np.dtype([("c", "S1"), ("x", "<f4")]),
}


@pytest.mark.parametrize("how", ["plain", "gzip", "shuffled", "summed"])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_that_end_with_the_array(tmp_path: Path, kind: str, how: str) -> None:
    dtype = np.dtype(KINDS[kind])
    data = np.zeros(15, dtype)
    if dtype.names:
        data["x"], data["c"] = np.arange(15), b"c"
    else:
        data[:] = np.arange(15).astype("S5") if dtype.kind == "S" else np.arange(15)
    options: dict[str, Any] = {
        "gzip": {"compression": "gzip"},
        "shuffled": {"shuffle": True, "compression": "gzip"},
    }.get(how, {"fletcher32": True} if how == "summed" else {})
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        short = file.create_dataset("d", (15,), dtype, chunks=(10,), **options)
        # The bytes that the library stores for an array that ends there.
        whole = file.create_dataset("w", data=data[10:], chunks=(5,), **options)
        for start in (0, 10):
            stored = data[start : start + 10].tobytes()
            if how == "gzip":
                stored = zlib.compress(stored)
            elif how != "plain" and start == 10:
                stored = whole.id.read_direct_chunk((0,))[1]
            elif how != "plain":
                short[:10] = data[:10]
                continue
            short.id.write_direct_chunk((start,), stored)
    with h5py.File(path) as file, hs.File(path) as ours:
        for selection in (np.s_[:], np.s_[12:14], np.s_[10:], np.s_[14], np.s_[::-3], np.s_[[1, 11, 14]]):
            found = ours["d"][selection]
            assert found.tolist() == data[selection].tolist(), selection
        assert ours["d"][12:14].tolist() == file["d"][12:14].tolist()


def test_chunks_that_end_within_the_array(tmp_path: Path) -> None:
    path = tmp_path / "short.h5"
    data = np.arange(20, dtype="i4")
    with h5py.File(path, "w") as file:
        for name, options in (("plain", {}), ("gzip", {"compression": "gzip"})):
            short = file.create_dataset(name, (20,), "i4", chunks=(10,), **options)
            stored = data[:7].tobytes()
            short.id.write_direct_chunk((0,), zlib.compress(stored) if options else stored)
    with hs.File(path) as file:
        for name in ("plain", "gzip"):
            assert file[name][2:7].tolist() == [2, 3, 4, 5, 6]
            with pytest.raises(hs.errors.ChunkError, match="28 bytes where 40 are expected"):
                file[name][5:9]


def test_sources_of_virtual_datasets_that_shrank(tmp_path: Path) -> None:
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as file:
        file["line"], file["plane"] = np.arange(4), np.arange(12).reshape(3, 4)
        for name, source, shape in (("v", "line", (6,)), ("n", "plane", (5, 4))):
            layout = h5py.VirtualLayout(shape, "i8")
            layout[...] = h5py.VirtualSource(".", source, shape)
            file.create_virtual_dataset(name, layout, fillvalue=-1)
    with h5py.File(path) as theirs, hs.File(path) as ours:
        for name, count in (("v", 4), ("n", 3)):
            assert ours[name][:count].tolist() == theirs[name][:count].tolist()
            # The library refuses a source that is shorter than its target.
            with pytest.raises(OSError):
                theirs[name][:]
            source = ours["line" if name == "v" else "plane"][:]
            assert ours[name][:].tolist() == np.append(source, np.zeros_like(source[:2]), axis=0).tolist()


@pytest.mark.parametrize("dtype", ["i8", "f4"])
@pytest.mark.parametrize("fill", [None, 77])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (2, 2), (1, 1), (0, 0), (4, 2), (3, 3)])
def test_parts_of_virtual_datasets_that_shrank(tmp_path: Path, shape: Any, fill: Any, dtype: Any) -> None:
    data = np.arange(1, 10).reshape(3, 3)
    for first in (0, 1):
        path = tmp_path / f"{first}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("d", data=data, maxshape=(None, None), chunks=(2, 2), fillvalue=fill)
            layout = h5py.VirtualLayout((5, 5), dtype)
            layout[1 : 4 - first, 1 : 4 - first] = h5py.VirtualSource(".", "d", (3, 3))[first:, first:]
            file.create_virtual_dataset("v", layout, fillvalue=-1)
            file["d"].resize(shape)
        source = np.full((3, 3), fill or 0)
        source[: shape[0], : shape[1]] = data[: shape[0], : shape[1]]
        expected = np.full((5, 5), -1)
        expected[1 : 4 - first, 1 : 4 - first] = source[first:, first:]
        with h5py.File(path) as theirs, hs.File(path) as ours:
            answers = 0
            for selection in (np.s_[...], np.s_[1:3], np.s_[1:3, 1:3], np.s_[::2], np.s_[2]):
                found = ours["v"][selection]
                assert found.dtype == np.dtype(dtype)
                assert found.tolist() == expected[selection].tolist(), selection
                try:
                    judge = theirs["v"][selection]
                except OSError:
                    continue
                answers += 1
                assert found.tolist() == judge.tolist(), selection
            assert answers or first


def test_external_data_is_storage(tmp_path: Path) -> None:
    (tmp_path / "r.bin").write_bytes(bytes(60))
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file.create_dataset("raw", (15,), "i4", external=[("r.bin", 0, 60)])
    with h5py.File(tmp_path / "e.h5") as theirs, hs.File(tmp_path / "e.h5") as ours:
        assert ours["raw"].id.get_storage_size() == theirs["raw"].id.get_storage_size() == 60


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_file_that_is_being_written(tmp_path: Path, libver: Any) -> None:
    path = tmp_path / "open.h5"
    with h5py.File(path, "w", libver=libver) as writer:
        writer["x"] = np.arange(5)
        with pytest.raises(OSError, match="writ"):
            hs.File(path)["x"][:]
        writer.flush()
        if libver == "earliest":
            assert hs.File(path)["x"][:].tolist() == [0, 1, 2, 3, 4]
        else:
            with pytest.raises(hs.errors.UnclosedFileError, match="open for writing"):
                hs.File(path)
    assert hs.File(path)["x"][:].tolist() == [0, 1, 2, 3, 4]
