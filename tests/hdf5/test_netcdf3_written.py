"""NetCDF classic files that are written here, and read by netCDF4-python, SciPy and xarray."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hyperslab._hdf5.classic import Netcdf3Writer
from support import examples

netcdf_file: Any = pytest.importorskip("scipy.io", reason="SciPy is another judge").netcdf_file

FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
TYPES = {
    "NETCDF3_CLASSIC": ["i1", "S1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_OFFSET": ["i1", "S1", "i2", "i4", "f4", "f8"],
    "NETCDF3_64BIT_DATA": ["i1", "S1", "i2", "i4", "f4", "f8", "u1", "u2", "u4", "i8", "u8"],
}
NAMES = ["a", "température", "B c", "_x", "n+1", "lat", "日本"]


def elements(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    found = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    # Letters are text, and never NaN.
    return rng.integers(65, 91, count * found.itemsize, dtype="u1").view(found).reshape(shape)


def generated(kind: str, seed: int) -> dict[str, Any]:
    """A description of a file: dimensions, attributes, variables with their values."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    dims: dict[str, int | None] = {}
    if chance.random() < 0.7:
        dims["time"] = None
    # (netCDF-C leaves a page of zeros behind a file without dimensions.)
    for name in chance.sample(NAMES, chance.randint(1, 4)):
        dims[name] = chance.randint(1, 5)
    if chance.random() < 0.3:
        # The unlimited dimension is not always the first.
        dims = dict(sorted(dims.items()))
    records = chance.randint(0, 4)

    def attributes() -> dict[str, Any]:
        made: dict[str, Any] = {}
        for number in range(chance.randint(0, 3)):
            dtype = chance.choice([one for one in TYPES[kind] if one != "S1"])
            # (netCDF4-python stores empty text as NUL, SciPy and hyperslab as nothing.)
            value = chance.choice(
                [elements(rng, dtype, (chance.randint(1, 3),)), "text é" * (number + 1), 2.5]
            )
            made[f"{chance.choice(NAMES)}{number}"] = value
        return made

    variables: dict[str, Any] = {}
    for name in chance.sample(NAMES, chance.randint(0, 5)):
        dtype = chance.choice(TYPES[kind])
        free = [dim for dim, size in dims.items() if size is not None]
        axes = chance.sample(free, chance.randint(0, min(3, len(free))))
        if "time" in dims and chance.random() < 0.6:
            axes.insert(0, "time")
        shape = tuple(records if dims[axis] is None else dims[axis] for axis in axes)
        fill = elements(rng, dtype, (1,))[0] if chance.random() < 0.3 else None
        variables[name] = (
            dtype,
            axes,
            attributes(),
            elements(rng, dtype, shape),
            fill,
            chance.random() < 0.8,
        )
    return {"dims": dims, "records": records, "attributes": attributes(), "variables": variables}


def write_with_netcdf4(path: Path, kind: str, case: dict[str, Any]) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.set_auto_mask(False)
        for name, size in case["dims"].items():
            file.createDimension(name, size)
        file.setncatts(case["attributes"])
        made = {}
        for name, (dtype, axes, attributes, _, fill, _) in case["variables"].items():
            made[name] = file.createVariable(name, dtype, axes, fill_value=fill)
            made[name].setncatts(attributes)
        for name, (_, axes, _, values, _, is_written) in case["variables"].items():
            # Records exist if someone writes them.
            if is_written or axes[:1] == ["time"]:
                made[name].set_auto_maskandscale(False)
                made[name][...] = values


def write_here(path: Path | None, kind: str, case: dict[str, Any]) -> bytes | None:
    writer = Netcdf3Writer(path, kind)
    for name, size in case["dims"].items():
        writer.dimension(name, size)
    for name, value in case["attributes"].items():
        writer.attribute(None, name, value)
    for name, (dtype, axes, attributes, _, fill, _) in case["variables"].items():
        writer.variable(name, dtype, axes, fill)
        for key, value in attributes.items():
            writer.attribute(name, key, value)
    has_records = any(axes[:1] == ["time"] for _, axes, *_ in case["variables"].values())
    writer.begin(records=case["records"] if has_records else 0)
    for name, (_, axes, _, values, _, is_written) in case["variables"].items():
        if is_written or axes[:1] == ["time"]:
            writer[name][...] = values
    return writer.close()


@pytest.mark.parametrize("number", range(examples(40)))
def test_files_have_the_bytes_that_netcdf_c_writes(tmp_path: Path, seed: int, number: int) -> None:
    seed += number
    for kind in FORMATS:
        case = generated(kind, seed)
        expected, found = tmp_path / "expected.nc", tmp_path / "found.nc"
        write_with_netcdf4(expected, kind, case)
        write_here(found, kind, case)
        assert found.read_bytes() == expected.read_bytes(), (seed, kind)
        assert write_here(None, kind, case) == found.read_bytes()


@pytest.mark.parametrize("number", range(examples(20)))
def test_copies_have_the_bytes_of_their_source(tmp_path: Path, seed: int, number: int) -> None:
    seed += number
    for kind in FORMATS:
        source, copied = tmp_path / "source.nc", tmp_path / "copied.nc"
        case = generated(kind, seed)
        write_with_netcdf4(source, kind, case)
        hs.copy(source, copied, file_format=kind, overwrite=True, verify=True)
        assert copied.read_bytes() == source.read_bytes(), (seed, kind)


def climate() -> xr.Dataset:
    return xr.Dataset(
        {
            "t": (
                ("time", "lat", "lon"),
                np.arange(60, dtype="f4").reshape(3, 4, 5),
                {"units": "K", "valid_range": np.array([0, 100], "f4")},
            ),
            "count": ("lat", np.array([1, 2, 3, 4], "i8")),
            "station": ("lat", np.array(["Zürich", "", "b", "a longer name"], object)),
            "flag": ("lon", np.array([True, False, True, True, False])),
            "byte": ("lon", np.array([0, 1, 2, 127, 5], "u1")),
        },
        coords={"time": [0, 1, 2], "lat": [1.5, 2.5, 3.5, 4.5]},
        attrs={"title": "été", "levels": [1, 2, 3], "scale": 0.5},
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_datasets_from_other_formats(tmp_path: Path, kind: str, suffix: str) -> None:
    ds, source, path = climate(), tmp_path / f"source.{suffix}", tmp_path / "copied.nc"
    if suffix == "zarr":
        ds.to_zarr(source, zarr_format=3, consolidated=False)
    else:
        ds.to_netcdf(source, unlimited_dims=["time"], engine="netcdf4")
    report = hs.copy(source, path, file_format=kind, verify=True)
    assert report.arrays == 7
    with netCDF4.Dataset(path) as file:
        assert file.data_model == kind
        assert file.dimensions["time"].isunlimited() == (suffix == "nc")
        assert file["t"].dtype == "f4"
        assert file["t"].ncattrs() == [*dict.fromkeys([*file["t"].ncattrs()])]
        assert file["count"].dtype == ("i8" if kind.endswith("DATA") else "i4")
        assert file["byte"].dtype == ("u1" if kind.endswith("DATA") else "i1")
        assert file["station"].dimensions == ("lat", "string13")
    engines = ["netcdf4", "hyperslab"] + ([] if kind.endswith("DATA") else ["scipy"])
    for engine in engines:
        with xr.open_dataset(path, engine=engine) as found:
            for name in ("t", "count", "flag", "byte", "time", "lat"):
                np.testing.assert_array_equal(found[name], ds[name], err_msg=name)
            assert found["station"].values.tolist() == ds["station"].values.tolist()
            assert found["flag"].dtype == bool
            assert found.attrs["title"] == "été"
            assert np.array(found.attrs["levels"]).tolist() == [1, 2, 3]
            assert found["t"].attrs["valid_range"].dtype.name == "float32"


@pytest.mark.parametrize("kind", FORMATS[:2])
def test_scipy_reads_each_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.nc"
    case = generated(kind, 5)
    write_here(path, kind, case)
    with netcdf_file(path, "r", mmap=False) as file:
        # SciPy takes names for Latin-1.
        def shown(names: Iterable[str]) -> list[str]:
            return [name.encode().decode("latin1") for name in names]

        assert [*file.dimensions] == shown(case["dims"])
        for name, (_, axes, _, values, _, is_written) in case["variables"].items():
            found = file.variables[shown([name])[0]]
            assert [*found.dimensions] == shown(axes)
            if is_written:
                np.testing.assert_array_equal(found[...], values)


def test_fill_values_of_elements_that_nobody_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    array = hs.create_array(
        tmp_path / "z", shape=(40, 3), chunks=(10, 3), dtype="f4", fill_value=7, dimension_names=("t", "x")
    )
    array[12] = 1
    hs.copy(tmp_path / "z", path, file_format="netcdf3", verify=True)
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        np.testing.assert_array_equal(file["data"][:], array[:])


def test_what_a_classic_file_cannot_hold(tmp_path: Path) -> None:
    root = hs.create_group(tmp_path / "g.zarr")
    root.create_array("large", data=np.array([1 << 40, 0]), dimension_names=["x"])
    root.create_array("small", data=np.array([1, 2], "i2"), dimension_names=["x"])
    with pytest.raises(hs.HyperslabError, match=r"large.*1099511627776.*netcdf3_64bit_data"):
        hs.copy(root, tmp_path / "a.nc", file_format="netcdf3")
    assert not (tmp_path / "a.nc").exists()
    report = hs.copy(root, tmp_path / "a.nc", file_format="netcdf3", skip_unsupported=True)
    assert [name for name, _ in report.skipped] == ["/large"]
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert [*file.variables] == ["small"]
    hs.copy(root, tmp_path / "b.nc", file_format="NETCDF3_64BIT_DATA", verify=True)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["large"][:].tolist() == [1 << 40, 0]
    root.create_group("inner")
    with pytest.raises(hs.HyperslabError, match=r"inner.*is a group, and NetCDF classic files have none"):
        hs.copy(root, tmp_path / "c.nc", file_format="NETCDF3_64BIT_DATA")
    complex_ = hs.create_array(tmp_path / "c.zarr", data=np.array([1j]))
    with pytest.raises(hs.HyperslabError, match="NetCDF classic files have not"):
        hs.copy(complex_, tmp_path / "c.nc", file_format="netcdf3")
    for option, value in [("chunks", (1,)), ("compressors", "zstd"), ("shards", "auto"), ("layout", "cloud")]:
        with pytest.raises(hs.HyperslabError, match="NetCDF classic files"):
            hs.copy(root["small"], tmp_path / "c.nc", file_format="netcdf3", **{option: value})
    assert sorted(os.listdir(tmp_path)) == ["a.nc", "b.nc", "c.zarr", "g.zarr"]


def test_names_lengths_and_sizes_are_checked_before_a_file_is_made(tmp_path: Path) -> None:
    def made(describe: Any, kind: str = "NETCDF3_CLASSIC") -> None:
        writer = Netcdf3Writer(tmp_path / "a.nc", kind)
        describe(writer)
        writer.begin()

    for name in ("a/b", "", " a", "a ", "a\n", "a" * 257):
        with pytest.raises(hs.HyperslabError, match="name"):
            made(lambda writer, name=name: writer.dimension(name, 3))

    def large(writer: Netcdf3Writer) -> None:
        writer.dimension("x", 1 << 29)
        for name in ("a", "b"):
            writer.variable(name, "f8", ["x"])

    with pytest.raises(hs.HyperslabError, match=r"'/a'.*NETCDF3_64BIT_OFFSET, NETCDF3_64BIT_DATA or NETCDF4"):
        made(large)
    with pytest.raises(hs.HyperslabError, match="NETCDF3_64BIT_DATA or NETCDF4"):
        made(large, "NETCDF3_64BIT_OFFSET")
    with pytest.raises(hs.HyperslabError, match="second unlimited"):
        made(lambda writer: [writer.dimension(name, None) for name in "ab"])
    with pytest.raises(hs.HyperslabError, match="length 0"):
        made(lambda writer: writer.dimension("x", 0))
    with pytest.raises(hs.HyperslabError, match="unsigned int"):
        made(lambda writer: writer.variable("v", "u4"))
    with pytest.raises(hs.HyperslabError, match=r"2⁶³"):

        def huge(writer: Netcdf3Writer) -> None:
            writer.dimension("x", 1 << 40)
            writer.variable("v", "f8", ["x", "x"])

        made(huge, "NETCDF3_64BIT_DATA")
    assert not os.listdir(tmp_path)


def test_variables_beyond_four_gigabytes(tmp_path: Path) -> None:
    """netCDF-C finds them. Unwritten zeros take no room on the disk."""
    path = tmp_path / "a.nc"
    with Netcdf3Writer(path, "NETCDF3_64BIT_OFFSET") as writer:
        writer.dimension("x", 1 << 30)
        for name in ("a", "b", "c"):
            writer.variable(name, "i2", ["x"], fill=0)
        writer.begin()
        writer["c"][-2:] = [7, 8]
    assert path.stat().st_size > 6 << 30
    assert path.stat().st_blocks * 512 < 64 << 20
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert file["c"][-3:].tolist() == [0, 7, 8]
        assert file["b"][-3:].tolist() == [0, 0, 0]


def test_records_are_appended_in_place(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    ds = climate()[["t"]].drop_vars("lat")
    ds.to_netcdf(path, unlimited_dims=["time"], format="NETCDF3_64BIT", engine="scipy")
    inode = path.stat().st_ino
    for step in range(3, 6):
        writer = Netcdf3Writer(path, mode="a")
        assert (writer.format, writer.unlimited) == ("NETCDF3_64BIT_OFFSET", "time")
        writer.begin(records=step + 1)
        writer["time"][step] = step
        writer["t"][step] = np.full((4, 5), step, "f4")
        # Nobody sees the record before it is complete.
        with netCDF4.Dataset(path) as file:
            assert file.dimensions["time"].size == step
        writer.close()
    assert path.stat().st_ino == inode
    with xr.open_dataset(path, engine="scipy", decode_times=False) as found:
        assert found["time"].values.tolist() == [0, 1, 2, 3, 4, 5]
        np.testing.assert_array_equal(found["t"][:3], ds["t"])
        np.testing.assert_array_equal(found["t"][5], np.full((4, 5), 5, "f4"))


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_file_that_somebody_else_has_changed_stays(rewrites: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    climate()[["t"]].to_netcdf(path, unlimited_dims=["time"], format="NETCDF3_64BIT", engine="scipy")
    writer = Netcdf3Writer(path, mode="a")
    if rewrites:
        writer.attribute(None, "title", "new")
    with netCDF4.Dataset(path, "a") as file:
        file["t"][3] = 9
    image = path.read_bytes()
    with pytest.raises(BlockingIOError, match="changed by another program"):
        writer.begin(records=4)
    assert path.read_bytes() == image and [*tmp_path.iterdir()] == [path]
    with Netcdf3Writer(path, mode="a") as writer:
        writer.attribute(None, "title", "new")
    with netCDF4.Dataset(path) as file:
        assert file.title == "new" and (file["t"][3] == 9).all()


def test_new_variables_and_attributes_rewrite_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    ds = climate()[["t"]].drop_vars("lat")
    ds.to_netcdf(path, unlimited_dims=["time"], format="NETCDF3_CLASSIC", engine="netcdf4")
    writer = Netcdf3Writer(path, mode="a")
    writer.attribute(None, "history", "changed")
    writer.variable("more", "f8", ["time"], fill=-1)
    writer.begin(records=4)
    writer["more"][1] = 2.5
    writer.close()
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert file.history == "changed"
        assert file["more"][:].tolist() == [-1, 2.5, -1, -1]
        np.testing.assert_array_equal(file["t"][:3], ds["t"])
        assert file["t"].units == "K"


def test_fill_values_of_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with Netcdf3Writer(path) as writer:
        writer.dimension("x", 3)
        for name, fill in [("nul", b"\0"), ("letter", b"z"), ("none", None)]:
            writer.variable(name, "S1", ["x"], fill)
        writer.begin()
        writer["letter"][1] = b"a"
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        assert file["letter"][:].tolist() == [b"z", b"a", b"z"]
        assert file["letter"].getncattr("_FillValue") == b"z"
        assert file["nul"][:].tobytes() == file["none"][:].tobytes() == bytes(3)


def test_threads_write_blocks_of_one_variable() -> None:
    writer = Netcdf3Writer(None, "NETCDF3_64BIT_DATA")
    writer.dimension("time", None)
    writer.dimension("x", 100_000)
    for name in ("a", "b"):
        writer.variable(name, "f4", ["time", "x"])
    writer.begin(records=8)
    values = np.random.default_rng(1).random((8, 100_000)).astype("f4")

    def write(record: int) -> None:
        for start in range(0, 100_000, 7_000):
            writer["a"][record, start : start + 7_000] = values[record, start : start + 7_000]

    threads = [threading.Thread(target=write, args=(record,)) for record in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    image = writer.close()
    with netCDF4.Dataset("a.nc", memory=image) as file:
        np.testing.assert_array_equal(file["a"][:], values)
        assert file["b"][:].mask.all()


def test_a_file_that_is_not_closed_is_never_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(b"CDF\1" + bytes(28))
    with pytest.raises(ZeroDivisionError), Netcdf3Writer(path) as writer:
        writer.variable("v", "i4")
        writer.begin()
        writer["v"][...] = 1
        raise ZeroDivisionError
    assert path.read_bytes() == b"CDF\1" + bytes(28)
    assert os.listdir(tmp_path) == ["a.nc"]
    with pytest.raises(hs.errors.StoreError), Netcdf3Writer(path, mode="x") as writer:
        writer.begin()


SWAPS = """
import sys, hyperslab as hs
root = sys.argv[1]
print("begun", flush=True)
for number in range(10_000):
    hs.copy(f"{root}/s{number % 2 + 1}", f"{root}/d.nc", file_format="netcdf3", overwrite=True)
"""


@pytest.mark.kill
def test_killed_copies_leave_the_old_or_the_new_file(tmp_path: Path, rng: np.random.Generator) -> None:
    for value in (1, 2):
        hs.create_array(tmp_path / f"s{value}", data=np.full((60, 50), value, "i4"), chunks=(3, 50))
    hs.copy(tmp_path / "s1", tmp_path / "d.nc", file_format="netcdf3")
    for _ in range(12):
        command = [sys.executable, "-c", SWAPS, str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(float(rng.uniform(0.0, 0.15)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        with netCDF4.Dataset(tmp_path / "d.nc") as file:
            (name,) = file.variables
            assert np.unique(file[name][:]).tolist() in ([1], [2])
