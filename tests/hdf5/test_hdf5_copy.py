"""HDF5 and NetCDF as sources: copies to Zarr and indexes of chunks, read by others."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from hyperslab import _native


@pytest.fixture
def ocean(tmp_path: Path) -> Path:
    """Writes a NetCDF-4 file with a group, dimensions, an enumeration and text."""
    path = tmp_path / "ocean.nc"
    rng = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w") as file:
        file.title = "an ocean"
        file.numbers = np.array([1, 2], "i2")
        for name, n in (("time", None), ("lat", 20), ("lon", 30)):
            file.createDimension(name, n)
        sst = file.createVariable(
            "sst", "f4", ("time", "lat", "lon"), zlib=True, fill_value=-9, chunksizes=(1, 10, 30)
        )
        sst.units = "K"
        sst[:4] = rng.random((4, 20, 30))
        file.createVariable("lat", "f8", ("lat",))[:] = np.arange(20)
        cloud = file.createEnumType("u1", "cloud_t", {"clear": 0, "cloudy": 1})
        file.createVariable("cloud", cloud, ("lat",), fill_value=1)[:10] = 0
        file.createVariable("label", str, ("lat",))[0] = "here"
        file.createGroup("deep").createVariable("mask", "i2", ("lat", "lon"))[:] = 7
        file["deep"].depth = 2.5
    return path


def cli(*args: Any) -> int:
    return _native.run_cli(["hyperslab", *map(str, args)])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_copy_says_what_the_file_says(ocean: Path, tmp_path: Path, zarr_format: Any) -> None:
    report = hs.copy(ocean, tmp_path / "copy.zarr", verify=True, zarr_format=zarr_format)
    assert not report.skipped and report.arrays == 5 and report.groups == 2
    assert any("/cloud_t" in note for note in report.notes)

    copied = zarr.open_group(tmp_path / "copy.zarr", mode="r")
    assert dict(copied.attrs) == {"title": "an ocean", "numbers": [1, 2]}
    assert dict(copied["deep"].attrs) == {"depth": 2.5}
    with netCDF4.Dataset(ocean) as file:
        file.set_auto_maskandscale(False)
        for path in ("sst", "lat", "cloud", "deep/mask"):
            assert np.array_equal(copied[path][...], file[path][...]), path
            ours = hs.open(tmp_path / "copy.zarr" / path)
            assert ours.dimension_names == file[path].dimensions
        assert copied["label"][...].tolist() == file["label"][...].tolist() == ["here"] + [""] * 19
        # A dataset that stands for a dimension without a variable is not copied.
        assert set(copied) == {"sst", "lat", "cloud", "label", "deep"}
    sst = copied["sst"]
    assert sst.chunks == (1, 10, 30) and sst.fill_value == -9
    attributes = {name: value for name, value in sst.attrs.items() if name != "_ARRAY_DIMENSIONS"}
    # xarray's conventions: in v2 the fill value marks missing elements, in v3 base 64 of -9.0 does.
    assert attributes == {"units": "K", **({} if zarr_format == 2 else {"_FillValue": "AAAAAAAAIsA="})}
    assert (copied["cloud"].fill_value, copied["lat"].fill_value) == (
        1,
        None if zarr_format == 2 else netCDF4.default_fillvals["f8"],
    )
    xr.testing.assert_identical(
        xr.open_dataset(tmp_path / "copy.zarr", engine="zarr").load(),
        xr.open_dataset(ocean, engine="netcdf4").load(),
    )


def test_notes_of_what_is_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a"] = np.arange(5)
        file["a"].attrs["where"] = file["a"].ref
        file["a"].attrs["nothing"] = h5py.Empty("f4")
        file["soft"] = h5py.SoftLink("/a")
        file["type"] = np.dtype("i4")
        file["g/self"] = file["/"]
        file.create_dataset("pairs", (3,), [("a", "i4"), ("b", h5py.string_dtype())])
        file["nothing"] = h5py.Empty("f4")
        file.create_dataset("huge", (10, 1000, 1000), "f8")
    report = hs.copy(tmp_path / "f.h5", tmp_path / "f.zarr", skip_unsupported=True, verify=True)
    assert {path for path, _ in report.skipped} == {"/pairs", "/nothing"}
    notes = "\n".join(report.notes)
    assert "/soft → /a" in notes and "/g/self → /" in notes and "/type" in notes
    copied = hs.open(tmp_path / "f.zarr")
    assert copied["a"].attrs.asdict() == {"where": "/a", "nothing": None}
    # One piece in the file, chunks in the copy. Absent data stays absent.
    assert copied["huge"].chunks != (10, 1000, 1000) and copied["huge"].nchunks_initialized == 0
    with pytest.raises(hs.errors.InvalidArgumentError, match="members of variable length"):
        hs.copy(hs.open(tmp_path / "f.h5")["pairs"], hs.MemoryStore())


@pytest.mark.parametrize("options", [{}, {"chunks": [7, None]}, {"shards": "auto"}, {"order": "F"}])
def test_arrays_of_every_layout(tmp_path: Path, options: Any) -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, 100, (40, 30)).astype(">i4")
    with h5py.File(tmp_path / "f.h5", "w", libver="latest") as file:
        file["contiguous"] = values
        file.create_dataset("chunked", data=values, chunks=(16, 16), compression="gzip", fletcher32=True)
        file.create_dataset("grows", data=values, chunks=(8, 30), maxshape=(None, None))
        file.create_dataset("lzf", data=values, chunks=(40, 7), compression="lzf", scaleoffset=0)
        sparse = file.create_dataset("sparse", (40, 30), ">i4", chunks=(4, 4), fillvalue=3)
        sparse[5, 5] = 1
        layout = h5py.VirtualLayout((40, 30), ">i4")
        layout[:] = h5py.VirtualSource(file["chunked"])
        file.create_virtual_dataset("virtual", layout)
        file["scalar"] = 5
    report = hs.copy(tmp_path / "f.h5", tmp_path / "f.zarr", verify=True, max_memory="100 KiB", **options)
    assert report.arrays == 7 and not report.skipped
    with h5py.File(tmp_path / "f.h5") as file:
        for name, dataset in file.items():
            assert np.array_equal(hs.open(tmp_path / "f.zarr")[name][...], dataset[...]), name


def test_classic_netcdf(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 5)
        for name in ("a", "b"):
            file.createVariable(name, "i2", ("t", "x"), fill_value=-1)[:4] = np.arange(20).reshape(4, 5)
        file.title = "old"
    ours = hs.open(tmp_path / "f.nc")
    assert list(ours) == ["a", "b"] and dict(ours.attrs) == {"title": "old"}
    a = ours["a"]
    assert (a.maxshape, a.chunks, a.fillvalue, a.dimension_names) == ((None, 5), (1, 5), -1, ("t", "x"))
    assert a.attrs["_FillValue"] == -1 and repr(a.info)
    hs.copy(tmp_path / "f.nc", tmp_path / "f.zarr", verify=True)
    copied = zarr.open_group(tmp_path / "f.zarr", mode="r")
    assert copied["a"][...].tolist() == np.arange(20).reshape(4, 5).tolist()
    assert dict(copied["a"].attrs) == {"_FillValue": -1} and dict(copied.attrs) == {"title": "old"}


def read_references(document: dict[str, Any], key: str) -> bytes | None:
    """Returns the bytes that fsspec's reference file system reads."""
    value = document["refs"].get(key)
    if value is None:
        return None
    if isinstance(value, list):
        url, offset, length = value
        with open(url.removeprefix("file://"), "rb") as file:
            file.seek(offset)
            return file.read(length)
    return base64.b64decode(value[7:]) if value.startswith("base64:") else value.encode()


def decode(document: dict[str, Any], path: str) -> np.ndarray[Any, Any]:
    """Reads a Zarr v2 array by its specification, with numcodecs."""
    meta = json.loads(read_references(document, f"{path}/.zarray") or b"")
    dtype = np.dtype(meta["dtype"])
    result = np.full(meta["shape"], 0 if meta["fill_value"] is None else meta["fill_value"], dtype)
    grid = [-(-n // chunk) for n, chunk in zip(meta["shape"], meta["chunks"])]
    for place in np.ndindex(*grid):
        data: Any = read_references(document, f"{path}/{'.'.join(map(str, place)) or '0'}")
        if data is None:
            continue
        for codec in [meta["compressor"], *reversed(meta["filters"] or [])]:
            if codec:
                data = numcodecs.get_codec(codec).decode(data)
        chunk = np.frombuffer(data, dtype).reshape(meta["chunks"])
        box = tuple(slice(at * n, (at + 1) * n) for at, n in zip(place, meta["chunks"]))
        result[box] = chunk[tuple(slice(0, n) for n in result[box].shape)]
    return result


def test_references_for_others(tmp_path: Path, capfd: Any) -> None:
    values = np.arange(1200, dtype="f4").reshape(40, 30)
    with h5py.File(tmp_path / "f.h5", "w", userblock_size=1024) as file:
        file.attrs["title"] = "t"
        file.create_dataset(
            "g/deflate", data=values, chunks=(16, 16), compression=5, shuffle=True, fletcher32=True
        )
        file.create_dataset("zstd", data=values, chunks=(16, 30), **hdf5plugin.Zstd())
        file.create_dataset("blosc", data=values, chunks=(16, 30), **hdf5plugin.Blosc(cname="zstd"))
        file.create_dataset("bz2", data=values, chunks=(16, 30), **hdf5plugin.BZip2())
        large = np.tile(values, (30, 10))
        file.create_dataset("lzf", data=large, chunks=(160, 300), compression="lzf")
        file.create_dataset("small_lzf", data=values, chunks=(16, 30), compression="lzf")
        file["contiguous"] = values.astype(">f8")
        file["scalar"] = 7
        file["names"] = ["a", "b"]
        sparse = file.create_dataset("sparse", (40, 30), "i4", chunks=(8, 8), fillvalue=4)
        sparse[9, 9] = 1
        masked = file.create_dataset("masked", (8,), "i4", chunks=(4,), compression="gzip")
        masked.id.write_direct_chunk((0,), np.arange(4, dtype="i4").tobytes(), filter_mask=1)
    assert cli("index", tmp_path / "f.h5", "-o", tmp_path / "refs.json") == 1
    assert "'/lzf': filter 32000 (lzf) has no equal in numcodecs" in capfd.readouterr().err
    assert cli("index", tmp_path / "f.h5", "-o", tmp_path / "refs.json", "--skip-unsupported") == 0
    skipped = capfd.readouterr().err
    assert "/lzf" in skipped and skipped.count("\n") == 1
    document = json.loads((tmp_path / "refs.json").read_text())
    assert document["version"] == 1 and json.loads(document["refs"][".zattrs"]) == {"title": "t"}
    with h5py.File(tmp_path / "f.h5") as file:
        for path in ("g/deflate", "zstd", "blosc", "bz2", "contiguous", "scalar", "sparse"):
            assert np.array_equal(decode(document, path), file[path][()]), path
        # The document contains small arrays that are no ranges of the file.
        inside = zarr.open_group(f"reference::{tmp_path / 'refs.json'}", mode="r", zarr_format=2)
        for path in ("small_lzf", "masked"):
            assert np.array_equal(inside[path][...], file[path][()]), path
        assert inside["names"][...].tolist() == ["a", "b"]
    assert document["refs"]["scalar/0"].startswith("base64:")
    assert document["refs"]["contiguous/0.0"][2] == 9600

    assert cli("index", tmp_path / "f.h5/zstd", "--url", "s3://b/f.h5", "--inline", "0") == 0
    refs = json.loads(capfd.readouterr().out)["refs"]
    assert refs["0.0"][0] == "s3://b/f.h5" and ".zarray" in refs and ".zgroup" not in refs
    assert cli("index", tmp_path) == 1


def test_a_plain_index(tmp_path: Path, capfd: Any) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        masked = file.create_dataset("masked", (8,), "i4", chunks=(4,), compression="gzip")
        masked.id.write_direct_chunk((0,), np.arange(4, dtype="i4").tobytes(), filter_mask=1)
        masked[4:] = 9
        file["names"] = ["a"]
    assert cli("index", "--json", tmp_path / "f.h5") == 0
    found = json.loads(capfd.readouterr().out)["datasets"]
    assert found["/names"]["element"] == {"vlen_string": True} and len(found["/names"]["chunks"]) == 1
    assert found["/masked"]["chunk_shape"] == [4] and found["/masked"]["filters"][0]["name"] == "gzip"
    with h5py.File(tmp_path / "f.h5") as file:
        infos = [file["masked"].id.get_chunk_info(n) for n in range(2)]
    expected = [[[i.chunk_offset[0] // 4], i.byte_offset, i.size, i.filter_mask] for i in infos]
    assert found["/masked"]["chunks"] == expected and expected[0][3] == 1


def test_the_command_line_shows_files(ocean: Path, capfd: Any) -> None:
    assert cli("tree", ocean) == 0
    tree = capfd.readouterr().out
    assert "group, HDF5" in tree and "enum of uint8" in tree and "cloud_t" in tree
    assert "shuffle gzip" in tree and "string" in tree
    assert cli("info", ocean / "sst") == 0
    info = capfd.readouterr().out
    for line in (
        "array, HDF5",
        "dimensions   time, lat, lon",
        "found by a B-tree of version 1",
        "fill value   -9.0",
    ):
        assert line in info, info
    assert cli("info", "--json", ocean / "deep/mask") == 0
    assert json.loads(capfd.readouterr().out)["storage"] == "contiguous"
    assert cli("explain", ocean / "sst", "0, :5") == 0
    assert "1 in 1 object" in capfd.readouterr().out
    assert cli("info", ocean) == 0
    assert "7 arrays, 1 group" in capfd.readouterr().out
    assert cli("compact", "--dry-run", ocean) == 0 and "to give back" in capfd.readouterr().out


def test_links_and_policies_on_the_command_line(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "a").mkdir()
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["x"] = 1
    with h5py.File(tmp_path / "a/f.h5", "w") as file:
        file["link"] = h5py.ExternalLink("../out.h5", "/x")
        file["soft"] = h5py.SoftLink("/nowhere")
    assert cli("tree", tmp_path / "a/f.h5") == 0
    tree = capfd.readouterr().out
    assert "→ ../out.h5:/x" in tree and "→ /nowhere" in tree
    assert cli("info", tmp_path / "a/f.h5/link") == 1
    assert "--external-files" in capfd.readouterr().err
    assert cli("--external-files", "anywhere", "info", tmp_path / "a/f.h5/link") == 0
    hs.config.external_files = "same-directory"


@pytest.mark.parametrize("place", ["b.zip", "below/b.zip"])
def test_into_an_archive_beside_the_file(ocean: Path, place: str) -> None:
    target = ocean.parent / place
    target.parent.mkdir(exist_ok=True)
    assert _native.run_cli(["hyperslab", "copy", str(ocean), str(target), "-q"]) == 0
    with netCDF4.Dataset(ocean) as file:
        np.testing.assert_array_equal(hs.open_group(target, mode="r")["lat"][...], file["lat"][...])


def test_statistics_leave_out_dimensions_without_variable(
    ocean: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _native.run_cli(["hyperslab", "stats", str(ocean), "--json", "-q"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert "sst" in told and "lat" in told
    # The file has no values for these dimensions.
    assert "lon" not in told and "time" not in told


def test_attributes_of_nczarr_stay_in_v2(tmp_path: Path) -> None:
    kept = {
        "_nczarr_group": {"dimensions": {"x": 2}},
        "_NCZARR_SUPERBLOCK": {"version": "2.0.0"},
        "title": "t",
    }
    group = hs.create_group(tmp_path / "a", zarr_format=2, attributes=kept)
    group.create_group("inner", attributes=kept)
    for version in (2, 3):
        hs.copy(group, tmp_path / f"v{version}", zarr_format=version)
        copied = hs.open_group(tmp_path / f"v{version}", mode="r")
        want = kept if version == 2 else {"title": "t"}
        assert dict(copied.attrs) == want and dict(copied["inner"].attrs) == want
