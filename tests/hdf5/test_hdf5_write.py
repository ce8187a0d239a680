"""New HDF5 files: h5py, h5dump, xarray, netCDF4 and anndata read the values of the source."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
from hdf5_files import write_cases
from hdf5_same import same_values
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases
from support import assert_same

LIBVERS = ["earliest", "v110"]


def is_read_by_tools(path: Path, datasets: list[str] | None = None) -> None:
    """The tools of HDF5 1.10 read all of a file, or some datasets of it, if they are installed."""
    if shutil.which("h5dump"):
        # h5dump finds the filters of hdf5plugin.
        env = os.environ | {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH}
        chosen = [argument for name in datasets or () for argument in ("-d", name)]
        for command in (["h5dump", *chosen, str(path)], ["h5stat", str(path)]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
            assert done.returncode == 0 and "error" not in done.stderr.lower(), done.stderr


def copied(source: Any, path: Path, tools: bool = True, **options: Any) -> hs.CopyReport:
    report = hs.copy(source, path, verify=True, **options)
    if tools:
        is_read_by_tools(path)
    return report


@pytest.mark.parametrize("libver", LIBVERS)
def test_a_hierarchy(tmp_path: Path, libver: Any) -> None:
    root = hs.create_group(tmp_path / "a.zarr", attributes={"title": "žluť", "empty": None})
    values = np.arange(70, dtype="<i2").reshape(10, 7)
    root.create_array("x", data=values, chunks=(3, 4), compressors=[{"id": "zlib", "level": 4}])
    inner = root.create_group("g/h")
    inner.create_array("y", data=np.linspace(0, 1, 5), chunks=2, fill_value=7.5)
    inner["y"].attrs.update({"n": 3, "f": [1.5, 2], "on": True, "names": ["a", "é"], "d": {"k": 1}, "e": []})
    inner.create_array("scalar", data=np.float32(3))
    report = copied(root, tmp_path / "a.h5", libver=libver)
    assert (report.groups, report.arrays, report.skipped) == (3, 3, ())
    assert [note for note in report.notes if "JSON text" in note] == [
        'attributes stored as JSON text, because HDF5 has no such values: /g/h/y, "d"'
    ]
    with h5py.File(tmp_path / "a.h5") as file:
        assert dict(file.attrs) == {"title": "žluť", "empty": h5py.Empty("f4")}
        x, y = file["x"], file["g/h/y"]
        assert_same(x[:], values)
        assert (x.chunks, x.compression, x.compression_opts, x.shuffle) == ((3, 4), "gzip", 4, False)
        assert_same(y[:], np.linspace(0, 1, 5))
        assert (y.chunks, y.fillvalue, y.maxshape) == ((2,), 7.5, (5,))
        attributes = dict(y.attrs)
        assert attributes["n"] == 3 and attributes["n"].dtype == "<i8"
        assert_same(attributes["f"], np.array([1.5, 2]))
        assert attributes["on"] == np.True_ and attributes["on"].dtype == bool
        assert list(attributes["names"]) == ["a", "é"] and attributes["d"] == '{"k": 1}'
        assert attributes["e"].shape == (0,)
        assert_same(file["g/h/scalar"][()], np.float32(3))
        assert file["g/h/scalar"].chunks is None


TYPES = ["?", "i1", "<u2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "S5", "V6"]


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("name", TYPES)
def test_types(tmp_path: Path, rng: np.random.Generator, name: str, libver: Any) -> None:
    dtype = np.dtype(name)
    bits = rng.integers(
        1 if dtype.kind == "S" else 0, 2 if dtype.kind == "b" else 255, 23 * dtype.itemsize, "u1"
    )
    data = bits.view(dtype)
    array = hs.create_array(tmp_path / "a", data=data, chunks=4, zarr_format=2)
    copied(array, tmp_path / "a.h5", libver=libver)
    with h5py.File(tmp_path / "a.h5") as file:
        assert_same(file["data"][:], data)


def test_structures(tmp_path: Path) -> None:
    dtype = np.dtype([("a", "<i4"), ("b", [("c", ">f8"), ("d", "S3")], (2,)), ("e", "?")])
    data = np.zeros(9, dtype)
    data["a"], data["b"]["c"] = np.arange(9), np.arange(18).reshape(9, 2)
    hs.create_array(tmp_path / "a", data=data, chunks=4, zarr_format=2)
    copied(tmp_path / "a", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        same_values(file["data"][:], data)


@pytest.mark.parametrize("libver", LIBVERS)
def test_text(tmp_path: Path, libver: Any) -> None:
    texts = np.array(["", "a", "žluť", "x" * 100_000] * 50, np.dtypes.StringDType())
    root = hs.create_group(tmp_path / "a.zarr")
    root.create_array("text", data=texts, chunks=30)
    root.create_array("fixed", data=np.array([["a", "žluť"], ["", "🙂"]], "<U6"))
    report = copied(root, tmp_path / "a.h5", libver=libver)
    assert any("UTF-32: /fixed" in note for note in report.notes)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["text"].asstr()[:].tolist() == texts.tolist()
        assert file["fixed"].asstr()[:].tolist() == [["a", "žluť"], ["", "🙂"]]
        assert file["text"].chunks == (30,)
    root.create_array("nul", data=np.array(["a\0b"], np.dtypes.StringDType()))
    with pytest.raises(hs.HyperslabError, match="'/nul': a text contains a NUL"):
        hs.copy(root, tmp_path / "b.h5")
    report = hs.copy(root, tmp_path / "b.h5", skip_unsupported=True, verify=True)
    assert [path for path, _ in report.skipped] == ["/nul"]
    assert sorted(h5py.File(tmp_path / "b.h5")) == ["fixed", "text"]


def test_sequences(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        lists = file.create_dataset("lists", (40,), h5py.vlen_dtype("<i4"), chunks=(7,))
        for number in range(0, 40, 2):
            lists[number] = np.arange(number * 100)
        file.create_dataset("latin", data=np.array([b"\xe9", b"x"], object), dtype=h5py.string_dtype("ascii"))
    copied(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5") as new:
        for expected, found in zip(old["lists"][:], new["lists"][:], strict=True):
            assert_same(found, expected)
        assert new["latin"][:].tolist() == [b"\xe9", b"x"]


COMPRESSORS: list[tuple[Any, list[Any]]] = [
    ("none", []),
    ("gzip:7", [(1, (7,))]),
    ("zstd:5", [(32015, (5,))]),
    ("lz4", [(32004, (0,))]),
    ("blosc:zstd:3:bitshuffle", [(32001, (2, 2, 4, 400, 3, 2, 5))]),
    (
        [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}, {"id": "fletcher32"}],
        [(2, (4,)), (1, (1,)), (3, ())],
    ),
    ([{"id": "bz2", "level": 2}], [(307, (2,))]),
]


@pytest.mark.parametrize(("compressors", "filters"), COMPRESSORS)
def test_compressors(tmp_path: Path, compressors: Any, filters: list[Any]) -> None:
    """Filters that hdf5plugin gives h5py, and HDF5's own."""

    data = (np.arange(1000, dtype="<i4") // 7).reshape(10, 100)
    hs.create_array(tmp_path / "a", data=data, chunks=(3, 100))
    hs.copy(tmp_path / "a", tmp_path / "a.h5", compressors=compressors, chunks=(1, 100), verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        plist = file["data"].id.get_create_plist()
        found = [plist.get_filter(number) for number in range(plist.get_nfilters())]
        assert [(filter_[0], filter_[2]) for filter_ in found] == filters
        assert_same(file["data"][:], data)


def test_shards_become_chunks(tmp_path: Path) -> None:
    data = np.arange(4000, dtype="<u4").reshape(40, 100)
    hs.create_array(
        tmp_path / "a", data=data, chunks=(4, 10), shards=(20, 50), compressors={"id": "zstd", "level": 2}
    )
    copied_to = tmp_path / "a.h5"
    hs.copy(tmp_path / "a", copied_to, verify=True)
    with h5py.File(copied_to) as file:
        assert file["data"].chunks == (4, 10) and file["data"].id.get_num_chunks() == 100
    for shards, why in (("auto", "HDF5 has no shards"), ((20, 50), "HDF5 has no shards")):
        with pytest.raises(hs.HyperslabError, match=why):
            hs.copy(tmp_path / "a", tmp_path / "b.h5", shards=shards)
    with pytest.raises(hs.HyperslabError, match="order"):
        hs.copy(tmp_path / "a", tmp_path / "b.h5", order="F")


def test_absent_chunks_stay_absent(tmp_path: Path) -> None:
    array = hs.create_array(tmp_path / "a", shape=10**12, dtype="<f4", chunks=1000, fill_value=5)
    array[5_000_000:5_000_010] = 1
    hs.copy(array, tmp_path / "a.h5", verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["data"].id.get_num_chunks() == 1
        assert file["data"][10**12 - 1] == 5 and file["data"][5_000_000:5_000_011].tolist() == [1] * 10 + [5]


@pytest.mark.parametrize("count", [0, 1, 8, 9, 300, 6000])
@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("tracked", [False, True])
def test_large_groups(tmp_path: Path, count: int, libver: Any, tracked: bool) -> None:
    """Symbol tables and heaps of links, with B-trees of several levels."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("g", track_order=tracked)
        for number in range(count):
            group[f"link {number * 7919 % 100_003}"] = (
                h5py.SoftLink(f"/{number}") if number % 5 == 0 else file
            )
    # h5dump takes minutes for many links.
    copied(tmp_path / "a.h5", tmp_path / "b.h5", count < 1000, libver=libver)
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5", "r+") as new:
        assert list(new["g"]) == list(old["g"])
        for name in list(old["g"])[:: max(count // 50, 1)]:
            link = old["g"].get(name, getlink=True)
            assert type(new["g"].get(name, getlink=True)) is type(link)
            if isinstance(link, h5py.SoftLink):
                assert new["g"].get(name, getlink=True).path == link.path
        # The library changes what we have written.
        new["g"]["zz new"] = 3
        for name in list(old["g"])[::3]:
            del new["g"][name]
        assert len(new["g"]) == count - len(list(old["g"])[::3]) + 1


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("tracked", [False, True])
def test_many_and_large_attributes(tmp_path: Path, libver: Any, tracked: bool) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        group = file.create_group("g", track_order=tracked)
        for number in range(40):
            group.attrs[f"n {number * 7 % 40}"] = number
        group.attrs["large"] = np.arange(20_000)
        file["d"] = 3
        file["d"].attrs["text"] = "x" * 100_000
        file["d"].attrs["large"] = np.arange(20_000)
    copied(tmp_path / "a.h5", tmp_path / "b.h5", libver=libver)
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5", "r+") as new:
        for name in ("g", "d"):
            assert list(new[name].attrs) == list(old[name].attrs)
            for attribute, expected in old[name].attrs.items():
                same_values(new[name].attrs[attribute], expected, attribute)
        # The library changes what we have written.
        new["g"].attrs["new"] = 5
        del new["g"].attrs["n 7"]
        new["g"].attrs["large"] = 1
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["g"].attrs["new"] == 5 and len(file["g"].attrs) == 41


@pytest.mark.parametrize("maxshape", [(10, 9), (20, 9), (None, 9), (None, None)])
@pytest.mark.parametrize("chunks", [(10, 9), (3, 4), (1, 1)])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunk_indexes(tmp_path: Path, maxshape: Any, chunks: Any, compression: Any) -> None:
    """Each kind of index, which the library reads and changes."""
    data = np.arange(90, dtype=">i2").reshape(10, 9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=data, chunks=chunks, maxshape=maxshape, compression=compression)
        sparse = file.create_dataset("sparse", (90, 90), "i4", chunks=(2, 2), compression=compression)
        sparse[40:44, 5:9] = 7
    copied(tmp_path / "a.h5", tmp_path / "b.h5", libver="v110")
    with h5py.File(tmp_path / "b.h5", "r+") as file:
        assert_same(file["a"][:], data)
        assert file["sparse"].id.get_num_chunks() == 6 and file["sparse"][43, 8] == 7
        file["a"][4:6] = 5
        file["sparse"][0, 0] = 3
        if maxshape[0] != 10:
            file["a"].resize(15, axis=0)
            file["a"][12:] = 6
    with h5py.File(tmp_path / "b.h5") as file:
        expected = data.copy()
        expected[4:6] = 5
        assert_same(file["a"][:10], expected)
        assert file["a"].shape[0] == 10 or (file["a"][12:] == 6).all()
        assert file["sparse"][0, 0] == 3


@pytest.mark.parametrize("count", [1, 64, 65, 5000])
@pytest.mark.parametrize("libver", LIBVERS)
def test_many_chunks(tmp_path: Path, count: int, libver: Any) -> None:
    """B-trees of chunks with several levels, which the library changes."""
    data = np.arange(count * 2, dtype="<u2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=data, chunks=(2,), maxshape=(None,), compression="gzip")
    copied(tmp_path / "a.h5", tmp_path / "b.h5", libver=libver)
    with h5py.File(tmp_path / "b.h5", "r+") as file:
        dataset = file["a"]
        assert dataset.maxshape == (None,) and dataset.id.get_num_chunks() == count
        assert_same(dataset[:], data)
        dataset.resize((count * 2 + 100,))
        dataset[count * 2 :] = 7
        dataset[::3] = 9
    with h5py.File(tmp_path / "b.h5") as file:
        expected = np.concatenate([data, np.full(100, 7, "<u2")])
        expected[::3] = 9
        assert_same(file["a"][:], expected)


def test_the_oldest_structures(tmp_path: Path) -> None:
    """HDF5 1.8 reads superblock 0, headers of version 1, B-trees of version 1, symbol tables."""
    root = hs.create_group(tmp_path / "a.zarr", attributes={"text": "a", "list": [1, 2]})
    for number in range(20):
        root.create_array(f"g/a{number}", data=np.arange(40), chunks=3, dimension_names=["x"])
        root["g"].attrs[f"n{number}"] = number
    new = [b"OHDR", b"OCHK", b"BTHD", b"FRHP", b"FAHD", b"EAHD"]
    for libver in LIBVERS:
        hs.copy(root, tmp_path / f"{libver}.h5", libver=libver, compressors="none")  # type: ignore[arg-type]
    old = (tmp_path / "earliest.h5").read_bytes()
    assert old[8] == 0 and not [one for one in new if one in old]
    # Layout message (8) of version 3, with chunks.
    assert all(structure in old for structure in (b"TREE", b"SNOD", b"HEAP", b"GCOL", b"\x03\x02\x02"))
    v110 = (tmp_path / "v110.h5").read_bytes()
    assert v110[8] == 3 and [one for one in new if one in v110] == [b"OHDR", b"BTHD", b"FRHP", b"FAHD"]
    assert b"TREE" not in v110 and b"SNOD" not in v110


def same_objects(old: h5py.File, new: h5py.File, skipped: set[str]) -> int:
    """Compares everything in two files, as h5py sees it."""
    names = ["/"]
    old.visit(names.append)
    count = 0
    for name in names:
        if f"/{name}" in skipped:
            assert name not in new
            continue
        theirs, ours = old[name], new[name]
        assert type(ours) is type(theirs), name
        assert list(ours.attrs) == list(theirs.attrs), name
        for attribute, expected in theirs.attrs.items():
            same_values(ours.attrs[attribute], expected, f"{name}, {attribute}")
        if isinstance(theirs, h5py.Group):
            left = [
                key
                for key in theirs
                if f"/{name}/{key}".replace("//", "/").strip("/") not in {path.strip("/") for path in skipped}
            ]
            assert list(ours) == left, name
        if isinstance(theirs, h5py.Dataset):
            count += 1
            assert ours.shape == theirs.shape, name
            try:
                expected = theirs[()]
            except OSError:
                continue  # h5py cannot read some files of its own
            same_values(ours[()], expected, name)
            if ours.dtype == theirs.dtype:
                same_values(ours.fillvalue, theirs.fillvalue, f"{name}, fill value")
            if ours.chunks is not None:
                assert (ours.chunks, ours.maxshape) == (theirs.chunks, theirs.maxshape), name
                plists = [one.id.get_create_plist() for one in (ours, theirs)]
                ids = [[plist.get_filter(n)[0] for n in range(plist.get_nfilters())] for plist in plists]
                assert ids[0] == ids[1], name
    return count


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("source", ["earliest", "v110", "latest"])
def test_generated_files(tmp_path: Path, seed: int, source: str, libver: Any) -> None:
    """Files of many types, layouts and filters, as h5py writes them."""
    write_cases(tmp_path / "a.h5", source, seed)
    report = hs.copy(tmp_path / "a.h5", tmp_path / "b.h5", libver=libver, skip_unsupported=True, verify=True)
    allowed = ("references", "variable length", "can be read, but not written", "not supported")
    for path, why in report.skipped:
        assert any(word in why for word in allowed), (path, why)
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5") as new:
        assert same_objects(old, new, {path for path, _ in report.skipped}) > 200
        known: list[str] = []

        def add(name: str, node: Any) -> None:
            if isinstance(node, h5py.Dataset) and not uses_lzf(node):
                known.append(name)

        new.visititems(add)
    assert len(known) > 200
    is_read_by_tools(tmp_path / "b.h5", known)


def uses_lzf(dataset: h5py.Dataset) -> bool:
    """LZF is a part of h5py: no other program has it."""
    plist = dataset.id.get_create_plist()
    return any(plist.get_filter(n)[0] == h5py.h5z.FILTER_LZF for n in range(plist.get_nfilters()))


def test_links_and_attributes_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        group = file.create_group("z")
        group["data"] = np.arange(3)
        file["again"] = group
        file["soft"] = h5py.SoftLink("/z/data")
        file["outside"] = h5py.ExternalLink("other.h5", "/x")
        file["né"] = 5
        file["type"] = np.dtype([("a", "<i4"), ("b", h5py.string_dtype())])
        file["null"] = h5py.Empty("<f8")
        group.attrs["reference"] = group["data"].ref
        group.attrs["region"] = group["data"].regionref[1:]
        group.attrs["references"] = np.array([file.ref, group.ref], h5py.ref_dtype)
        group.attrs["texts"] = np.array(["a", "", "é"], h5py.string_dtype())
        group.attrs["mixed"] = np.array([(1, "x"), (2, "yy")], [("n", "<i2"), ("s", h5py.string_dtype())])
        group.attrs["é"] = np.float16(2)
    report = copied(tmp_path / "a.h5", tmp_path / "b.h5")
    assert report.skipped == ()
    with h5py.File(tmp_path / "b.h5") as file:
        assert list(file) == ["z", "again", "soft", "outside", "né", "type", "null"]
        assert file["again"] == file["z"]
        assert file.get("outside", getlink=True).filename == "other.h5"
        assert file["soft"][:].tolist() == [0, 1, 2]
        assert file["type"].dtype["a"] == np.dtype("<i4")
        attributes = file["z"].attrs
        assert file[attributes["reference"]] == file["z/data"]
        assert file["z/data"][attributes["region"]].tolist() == [1, 2]
        assert [file[one] for one in attributes["references"]] == [file["/"], file["z"]]
        assert list(attributes["texts"]) == ["a", "", "é"]
        assert [tuple(one) for one in attributes["mixed"]] == [(1, b"x"), (2, b"yy")]
        assert attributes["é"] == 2
        assert isinstance(file["null"][()], h5py.Empty)


def test_scales_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["d"] = np.arange(3), np.zeros((3, 2))
        file["x"].make_scale("x name")
        file["d"].dims[0].attach_scale(file["x"])
        file["d"].dims[1].label = "y"
    copied(tmp_path / "a.h5", tmp_path / "b.h5", chunks=(2, 2))
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["d"].dims[0][0].name == "/x" and file["d"].dims[1].label == "y"
        assert file["x"].is_scale and file["d"].chunks == (2, 2)


@pytest.mark.parametrize("libver", LIBVERS)
def test_xarray_reads_it(tmp_path: Path, libver: Any) -> None:
    import xarray as xr

    data = xr.Dataset(
        {
            "t": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K", "valid": [1, 2]}),
            "flag": (("x",), np.array([True, False, True])),
            "name": (("x",), np.array(["a", "bb", "é"], object)),
            "zero": ((), 3),
        },
        {"time": np.arange("2020-01-01", "2020-01-05", dtype="M8[D]").astype("M8[ns]"), "x": [1, 2, 3]},
        {"title": "test"},
    )
    data["t"][0, 0] = np.nan
    data.drop_vars("x").to_zarr(tmp_path / "a.zarr", consolidated=False, encoding={"t": {"_FillValue": -9.0}})
    copied(tmp_path / "a.zarr", tmp_path / "a.h5", libver=libver)
    for engine in ("h5netcdf", "netcdf4", "hyperslab"):
        with xr.open_dataset(tmp_path / "a.h5", engine=engine) as found:
            xr.testing.assert_identical(
                found.load(), xr.open_zarr(tmp_path / "a.zarr", consolidated=False).load()
            )


def test_regions(tmp_path: Path) -> None:
    data = np.arange(200).reshape(20, 10)
    hs.create_array(tmp_path / "a", data=data, chunks=(7, 4), dimension_names=["y", "x"])
    hs.copy(tmp_path / "a", tmp_path / "a.h5", region={"y": slice(3, 15)}, verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert_same(file["data"][:], data[3:15])
    hs.copy(tmp_path / "a.h5/data", tmp_path / "b.h5", region=np.s_[2:, 3:5], compressors="gzip", verify=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert_same(file["data"][:], data[5:15, 3:5])


def test_the_same_bytes_on_any_threads(tmp_path: Path, rng: np.random.Generator) -> None:
    root = hs.create_group(tmp_path / "a.zarr")
    root.create_array("a", data=rng.integers(0, 50, (300, 200, 5), "i4"), chunks=(7, 50, 5))
    root.create_array(
        "b", data=np.array([str(n) * (n % 9) for n in range(3000)], np.dtypes.StringDType()), chunks=100
    )
    written = []
    for number, (threads, memory) in enumerate([(1, "256 MiB"), (4, "256 MiB"), (4, "256 MiB")]):
        path = tmp_path / f"{number}.h5"
        hs.copy(root, path, threads=threads, max_memory=memory)
        written.append(path.read_bytes())
    assert written[0] == written[1] == written[2]


def test_what_is_refused(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "a.zarr")
    hs.create_array(tmp_path / "lzma", data=np.arange(3), zarr_format=2, compressors={"id": "lzma"})
    with pytest.raises(
        hs.HyperslabError, match="'/data': HDF5 has no filter like the codec \"lzma\"; choose comp"
    ):
        hs.copy(tmp_path / "lzma", tmp_path / "a.h5")
    assert hs.copy(tmp_path / "lzma", tmp_path / "a.h5", compressors=[hs.codecs.Gzip()]).arrays == 1
    with pytest.raises(hs.errors.DestinationError, match="exists already"):
        hs.copy(root, tmp_path / "a.h5")
    before = (tmp_path / "a.h5").read_bytes()
    with pytest.raises(hs.errors.DestinationError, match="it is the source"):
        hs.copy(tmp_path / "a.h5", tmp_path / "a.h5", overwrite=True)
    assert (tmp_path / "a.h5").read_bytes() == before
    (tmp_path / "thesis.h5").write_text("years of work")
    with pytest.raises(hs.errors.DestinationError, match="no HDF5 file"):
        hs.copy(root, tmp_path / "thesis.h5", overwrite=True)
    assert (tmp_path / "thesis.h5").read_text() == "years of work"
    with pytest.raises(hs.HyperslabError, match="libver"):
        hs.copy(root, tmp_path / "b.h5", libver="v999")  # type: ignore[arg-type]
    with pytest.raises(hs.HyperslabError, match=r"ends in '\.cdf'"):
        hs.copy(root, tmp_path / "b.cdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "a.zarr", "lzma", "thesis.h5"]
    assert hs.copy(root, tmp_path / "a.h5", overwrite=True).groups == 1
    assert list(h5py.File(tmp_path / "a.h5")) == []


def test_failures_leave_no_trace(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(10_000), chunks=100)
    (tmp_path / "a" / "c" / "50").write_bytes(b"damaged")
    with pytest.raises(hs.HyperslabError):
        hs.copy(tmp_path / "a", tmp_path / "x.h5")

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    (tmp_path / "a" / "c" / "50").unlink()
    with pytest.raises(Stop):
        hs.copy(tmp_path / "a", tmp_path / "x.h5", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_generated_arrays(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    case: Case = data.draw(cases())
    root = tmp_path_factory.mktemp("generated")
    array = hs.create_array(root / "a", **case.arguments())
    if case.shape or case.data.size:
        array[...] = case.values
    libver = data.draw(st.sampled_from(LIBVERS))
    compressors = data.draw(st.sampled_from(["none", "gzip", "zstd", "blosc", "lz4"]))
    # Text of HDF5 ends at a NUL.
    is_cut = case.dtype.kind == "U" and any("\0" in text for text in case.data.flat)
    if case.dtype.itemsize == 0 or is_cut or any("\0" in name or not name for name in case.attributes):
        with pytest.raises(hs.HyperslabError):
            hs.copy(array, root / "a.h5", compressors="none")
        return
    hs.copy(array, root / "a.h5", libver=libver, compressors=compressors, verify=True)
    with h5py.File(root / "a.h5") as file:
        found = file["data"][()]
        if case.dtype.kind == "U":
            found = np.asarray(file["data"].asstr()[()], case.opened_dtype)
        if case.dtype.kind in "mM":
            found = found.astype(case.opened_dtype)
        # An array without axes gives a scalar, which has this machine's byte order.
        expected = np.asarray(array[...], case.opened_dtype if case.dtype.kind == "U" else None)
        assert_same(np.asarray(found), expected)


FULL = """
import resource, signal, sys
import hyperslab as hs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
hs.copy(sys.argv[1], sys.argv[2], overwrite=True)
"""


@pytest.mark.parametrize("limit", [50, 50_000, 790_000, 800_100])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, limit: int) -> None:
    """The file has 800 000 bytes of elements, and some hundred bytes of structures."""
    hs.create_array(tmp_path / "a", data=np.arange(100_000), chunks=5000, compressors=None)
    hs.copy(tmp_path / "a", tmp_path / "a.h5", region=np.s_[:5])
    before = (tmp_path / "a.h5").read_bytes()
    command = [sys.executable, "-c", FULL, str(tmp_path / "a"), str(tmp_path / "a.h5"), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "File too large" in done.stderr, done.stderr
    assert (tmp_path / "a.h5").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a", "a.h5"]


def test_the_command(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(100), chunks=10)
    command = [sys.executable, "-m", "hyperslab", "copy", str(tmp_path / "a")]
    options = ["--codec", "gzip:4", "--verify", "--libver", "v110", "--chunks", "20"]
    done = subprocess.run(
        [*command, str(tmp_path / "a.h5"), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "copied 1 array" in done.stdout, done
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["data"].compression_opts, file["data"].chunks) == (4, (20,))
        assert_same(file["data"][:], np.arange(100))
    done = subprocess.run(
        [*command, str(tmp_path / "b.h5"), "--explain"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("/data: copy 800 bytes in one pass"), done
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize("libver", LIBVERS)
@pytest.mark.parametrize("source", ["v2", "v3", "h5ad"])
@pytest.mark.filterwarnings("ignore")
def test_anndata_reads_the_source(tmp_path: Path, source: str, libver: Any) -> None:
    anndata = pytest.importorskip("anndata")
    helpers = pytest.importorskip("anndata.tests.helpers")
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    names = [f"cell {n}" for n in range(50)]
    obs = {
        "kind": pandas.Categorical(list("ab") * 25),
        "n": np.arange(50),
        "on": [True, False] * 25,
        "s": names,
    }
    made = anndata.AnnData(
        X=sparse.random(50, 20, 0.2, format="csr", dtype="f4", random_state=1),
        obs=pandas.DataFrame(obs, index=names),
        var=pandas.DataFrame(index=[f"gene {n}" for n in range(20)]),
        uns={"title": "žluť", "list": np.arange(3), "inner": {"k": 1.5}},
        obsm={"pca": np.linspace(0, 1, 100).reshape(50, 2)},
        layers={"raw": np.ones((50, 20))},
    )
    if source == "h5ad":
        made.write_h5ad(tmp_path / "a")
    else:
        with anndata.settings.override(zarr_write_format=int(source[1])):
            made.write_zarr(tmp_path / "a")
    report = copied(tmp_path / "a", tmp_path / "b.h5", libver=libver)
    assert any("hdf5plugin" in note for note in report.notes) == (source != "h5ad")
    helpers.assert_equal(made, anndata.read_h5ad(tmp_path / "b.h5"))


def test_filters_of_the_library_need_no_note(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(100), chunks=50)
    assert copied(tmp_path / "a", tmp_path / "a.h5", compressors="gzip").notes == ()
    hs.create_array(tmp_path / "b", data=np.arange(100), chunks=50, compressors=[hs.codecs.Gzip()])
    assert copied(tmp_path / "b", tmp_path / "b.h5").notes == ()


def test_flush_every(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(ValueError, match="expected a number of seconds"):
        hs.File(path, "w", flush_every=-1)
    with pytest.raises(ValueError, match="expected a file on the disk"):
        hs.File(io.BytesIO(), "w", flush_every=1)
    assert not path.exists()
    with hs.File(path, "w", flush_every=3600) as file:
        file["a"] = 1
        file["a"][...] = 2
        file.attrs["b"] = 3
        assert not path.exists()
    with hs.File(path, "r+", flush_every=0) as file:
        file["a"][...] = 5
        file["c"] = np.arange(4)
        file.attrs["b"] = 6
        with h5py.File(path, "r") as read:
            assert (read["a"][()], read["c"][()].tolist(), read.attrs["b"]) == (5, [0, 1, 2, 3], 6)
        more = file.create_dataset("more", (0,), "i4", maxshape=(None,), chunks=(10,), compression="gzip")
        for number in range(25):
            more.append([number])
            with h5py.File(path, "r") as read:
                assert read["more"][()].tolist() == list(range(number + 1))
