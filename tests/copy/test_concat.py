"""Copies that join many sources along a dimension, beside xarray's ``open_mfdataset``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import xarray as xr
from hyperslab.errors import DestinationError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import dask_cluster

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ["netcdf4", "h5netcdf", "netcdf3", "zarr2", "zarr3"]


def dataset(length: int, start: int, seed: int = 0, dtype: str = "f4", **more: Any) -> xr.Dataset:
    """Returns a dataset of some steps."""
    rng = np.random.default_rng(seed + start)
    values = rng.integers(-100, 100, (length, 3, 4)).astype(dtype)
    found = xr.Dataset(
        {
            "v": (("time", "lat", "lon"), values, {"units": "K"}),
            "series": (("time",), np.arange(start, start + length, dtype="i4")),
            "mask": (("lat", "lon"), np.arange(12, dtype="i2").reshape(3, 4), {"kind": "land"}),
            "depth": ((), np.float64(7.5)),
        },
        coords={
            "time": ("time", np.arange(start, start + length, dtype="f8"), {"axis": "T"}),
            "lat": ("lat", np.array([-10.0, np.nan, 10.0])),
        },
        attrs={"title": "parts", "part": start},
    )
    return found.assign(**more)


def write(found: xr.Dataset, path: Path, kind: str, **more: Any) -> Path:
    if kind.startswith("zarr"):
        path = path.with_suffix(".zarr")
        found.to_zarr(path, zarr_format=int(kind[-1]), consolidated=False, **more)
        return path
    path = path.with_suffix(".nc")
    if kind == "netcdf3":
        found.to_netcdf(path, engine="netcdf4", format="NETCDF3_64BIT", **more)
    else:
        found.to_netcdf(path, engine=kind, **more)  # type: ignore[call-overload]
    return path


def parts(tmp_path: Path, lengths: list[int], kind: str = "netcdf4", **more: Any) -> list[Path]:
    made, start = list[Path](), 0
    for number, length in enumerate(lengths):
        made.append(write(dataset(length, start, **more), tmp_path / f"in{number:03}", kind))
        start += length
    return made


def engine(path: Path) -> str:
    return "zarr" if path.suffix == ".zarr" else "h5netcdf" if path.suffix == ".h5" else "netcdf4"


def opened(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine=engine(path)) as found:
        return found.load()


def joined_by_xarray(paths: list[Path], dimension: str = "time") -> xr.Dataset:
    """Returns what ``open_mfdataset`` returns, with its arguments that check the most."""
    datasets = [opened(path) for path in paths]
    with xr.set_options(use_new_combine_kwarg_defaults=False):
        return xr.combine_nested(
            datasets,
            concat_dim=dimension,
            data_vars="minimal",
            coords="minimal",
            compat="equals",
            join="exact",
            combine_attrs="override",
        )


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 5))
    kinds = draw(st.lists(st.sampled_from(FORMATS), min_size=count, max_size=count))
    if draw(st.booleans()):
        kinds = [kinds[0]] * count
    return {
        "kinds": kinds,
        "lengths": draw(st.lists(st.integers(0, 6), min_size=count, max_size=count)),
        "dtype": draw(st.sampled_from(["i1", "i2", "i4", "f4", "f8"])),
        "packed": draw(st.booleans()),
        "fill": draw(st.sampled_from([None, -99])),
        "unlimited": draw(st.booleans()),
        "chunks": draw(st.sampled_from([None, 1, 2, 4])),
        "text": draw(st.booleans()),
        "destination": draw(st.sampled_from(["zarr2", "zarr3", "shards", "h5", "nc"])),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(), seed=st.integers(0, 1 << 30))
def test_the_result_is_that_of_xarray(
    case: dict[str, Any], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("concat")
    paths, start = list[Path](), 0
    for number, (kind, length) in enumerate(zip(case["kinds"], case["lengths"], strict=True)):
        # A fixed dimension of NetCDF-3 has at least one step.
        length = max(length, 1) if kind == "netcdf3" else length
        found = dataset(length, start, seed)
        start += length
        # xarray writes no text into Zarr that all of its readers read, and an empty one as numbers.
        has_text = case["text"] and 0 not in case["lengths"]
        if has_text and not {"netcdf3", "zarr2", "zarr3"}.intersection(case["kinds"]):
            found["name"] = ("time", np.array([f"n{n}" * (n % 3) for n in range(length)], dtype=object))
        for variable in found.variables.values():
            variable.encoding["_FillValue"] = None
        encoding: dict[str, Any] = found["v"].encoding
        encoding["dtype"] = case["dtype"]
        if case["packed"]:
            encoding |= {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -999}
        elif case["fill"] is not None:
            encoding["_FillValue"] = np.dtype(case["dtype"]).type(case["fill"])
        more: dict[str, Any] = {}
        if not kind.startswith("zarr") and case["unlimited"]:
            more["unlimited_dims"] = ["time"]
        if case["chunks"] and kind != "netcdf3" and length >= case["chunks"]:
            encoding["chunks" if kind.startswith("zarr") else "chunksizes"] = (case["chunks"], 3, 2)
        paths.append(write(found, folder / f"in{number}", kind, **more))
    wanted: dict[str, Any] = {}
    one_file = case["destination"] in ("h5", "nc")
    target = folder / (f"out.{case['destination']}" if one_file else "out.zarr")
    if case["destination"] == "zarr2":
        wanted["zarr_format"] = 2
    elif case["destination"] == "shards":
        wanted |= {"chunks": (2, 3, 2), "shards": (4, 3, 4)}
    hs.copy(paths, target, concat="time", verify=True, **wanted)
    xr.testing.assert_identical(opened(target), joined_by_xarray(paths))


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_to_each(kind: str, tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 3, 1], kind)
    expected = joined_by_xarray(paths)
    for name, wanted in [
        ("a.zarr", {}),
        ("b.zarr", {"zarr_format": 2}),
        ("c.zarr", {"chunks": {"time": 2}, "compressors": "zstd"}),
        ("d.h5", {"compressors": "gzip:1", "layout": "cloud"}),
    ]:
        report = hs.copy(paths, tmp_path / name, concat="time", verify=True, **wanted)
        assert report.arrays == 6
        xr.testing.assert_identical(opened(tmp_path / name), expected)
    assert hs.open(tmp_path / "c.zarr")["v"].chunks[0] == 2


def test_patterns_lists_and_nodes(tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 3], "zarr3")
    expected = joined_by_xarray(paths)
    hs.copy(str(tmp_path / "in*.zarr"), tmp_path / "a.zarr", concat="time")
    hs.copy([hs.open(path, mode="r") for path in paths], tmp_path / "b.zarr", concat="time")
    for name in "ab":
        xr.testing.assert_identical(opened(tmp_path / f"{name}.zarr"), expected)
    arrays = [hs.open(path, mode="r")["v"] for path in paths]
    hs.copy(arrays, tmp_path / "v.zarr", concat="time")
    np.testing.assert_array_equal(hs.open(tmp_path / "v.zarr")[:], expected["v"])
    with pytest.raises(FileNotFoundError, match="no file or directory matches"):
        hs.copy(str(tmp_path / "none*.nc"), tmp_path / "c.zarr", concat="time")
    with pytest.raises(ValueError, match="concat='time'"):
        hs.copy(paths, tmp_path / "c.zarr")


def test_the_order_is_as_given_or_by_the_coordinate(tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 2, 2])
    mixed = [paths[1], paths[2], paths[0]]
    report = hs.copy(mixed, tmp_path / "a.zarr", concat="time")
    [note] = [note for note in report.notes if "coordinate" in note]
    assert f"time at {paths[0]}" in note
    xr.testing.assert_identical(opened(tmp_path / "a.zarr"), joined_by_xarray(mixed))
    report = hs.copy(mixed, tmp_path / "b.zarr", concat="time", sort=True)
    assert not [note for note in report.notes if "coordinate" in note]
    xr.testing.assert_identical(opened(tmp_path / "b.zarr"), joined_by_xarray(paths))


def test_groups_below_are_joined_too(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.nc"
        dataset(2, number * 2).to_netcdf(path)
        dataset(2, number * 2, 9).to_netcdf(path, group="deep/er", mode="a")
        paths.append(path)
    hs.copy(paths, tmp_path / "a.zarr", concat="time")
    for group in (None, "deep/er"):
        expected = xr.concat(
            [xr.open_dataset(path, group=group).load() for path in paths],
            "time",
            data_vars="minimal",
            coords="minimal",
            compat="equals",
            join="exact",
            combine_attrs="override",
        )
        xr.testing.assert_identical(
            xr.open_zarr(tmp_path / "a.zarr", group=group, consolidated=False).load(), expected
        )


def damaged(second: xr.Dataset, kind: str) -> xr.Dataset:
    """Returns a second part that does not fit the first one."""
    match kind:
        case "values":
            second["mask"][0, 0] = 99
        case "attributes":
            second["mask"].attrs["kind"] = "sea"
        case "coordinate":
            second["lat"] = [1.0, 2.0, 3.0]
        case "length":
            second = second.isel(lon=slice(0, 2))
        case "type":
            second["series"] = second["series"].astype("f8")
        case "units":
            second["v"].attrs["units"] = "degC"
        case "fill":
            second["v"].encoding["_FillValue"] = np.float32(5)
        case "packing":
            second["v"].encoding |= {"dtype": "i2", "scale_factor": 2.0}
        case "missing":
            second = second.drop_vars("series")
        case "more":
            second["other"] = second["v"] + 1
        case "dimension":
            second["series"] = ("lat", np.zeros(3, "i4"))
        case "order":
            second["v"] = second["v"].transpose("lat", "time", "lon")
    return second


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("values", "'time': .*in001.nc: variable \"mask\" .*its values are not those"),
        ("attributes", 'in001.nc: variable "mask" .*attribute "kind" is "sea", and "land"'),
        ("coordinate", 'in001.nc: variable "lat" .*its values are not those'),
        ("length", "in001.nc: variable .* has the shape"),
        ("type", 'in001.nc: variable "series" has elements float64, and int32'),
        ("units", 'in001.nc: variable "v" has units "degC", and "K"'),
        ("fill", 'in001.nc: variable "v" has the fill value 5, and NaN'),
        ("packing", 'in001.nc: variable "v" '),
        ("missing", 'in001.nc: it does not have the variable "series"'),
        ("more", 'in001.nc: it has the variable "other"'),
        ("dimension", 'in001.nc: variable "series" has the dimensions \\(lat\\), and \\(time\\)'),
        ("order", 'in001.nc: variable "v" has the dimensions'),
    ],
)
def test_sources_that_do_not_fit(kind: str, message: str, tmp_path: Path) -> None:
    write(dataset(2, 0), tmp_path / "in000", "netcdf4")
    write(damaged(dataset(2, 2), kind), tmp_path / "in001", "netcdf4")
    hs.create_array(tmp_path / "out.zarr", data=[1, 2, 3])
    before = files(tmp_path)
    for overwrite in (True, False):
        with pytest.raises(ValueError, match=message):
            hs.copy(
                [tmp_path / "in000.nc", tmp_path / "in001.nc"], tmp_path / "out.zarr",
                concat="time", overwrite=overwrite,
            )  # fmt: skip
    assert files(tmp_path) == before


def test_what_cannot_be_joined_is_left_out_by_name(tmp_path: Path) -> None:
    write(dataset(2, 0), tmp_path / "in000", "netcdf4")
    write(damaged(dataset(2, 2), "units"), tmp_path / "in001", "netcdf4")
    paths = [tmp_path / "in000.nc", tmp_path / "in001.nc"]
    hs.copy(paths, tmp_path / "a.zarr", concat="time", variables=["series"])
    xr.testing.assert_identical(
        opened(tmp_path / "a.zarr"), joined_by_xarray(paths)[["series"]].drop_vars("lat", errors="ignore")
    )


def test_other_mistakes(tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 2])
    out = tmp_path / "out.zarr"
    with pytest.raises(
        ValueError, match="no array has a dimension named 'tim'; its dimensions are lat, lon, time"
    ):
        hs.copy(paths, out, concat="tim")
    with pytest.raises(ValueError, match="is given twice"):
        hs.copy([*paths, paths[0]], out, concat="time")
    with pytest.raises(ValueError, match="there is no source"):
        hs.copy([], out, concat="time")
    with pytest.raises(FileNotFoundError):
        hs.copy([*paths, tmp_path / "missing.nc"], out, concat="time")
    with pytest.raises(DestinationError, match="one of the sources"):
        hs.copy(parts(tmp_path, [2, 2], "zarr3"), tmp_path / "in001.zarr", concat="time", overwrite=True)
    with pytest.raises(ValueError, match='no array has a dimension named "tim"'):
        hs.copy(paths, out, concat="time", chunks={"tim": 3})
    assert not out.exists()


def test_one_file_and_no_steps(tmp_path: Path) -> None:
    paths = parts(tmp_path, [3, 0, 2, 0])
    hs.copy(paths[:1], tmp_path / "one.zarr", concat="time", verify=True)
    xr.testing.assert_identical(opened(tmp_path / "one.zarr"), joined_by_xarray(paths[:1]))
    hs.copy(paths, tmp_path / "all.zarr", concat="time", verify=True)
    xr.testing.assert_identical(opened(tmp_path / "all.zarr"), joined_by_xarray(paths))
    hs.copy([paths[1], paths[3]], tmp_path / "none.zarr", concat="time", verify=True)
    assert hs.open(tmp_path / "none.zarr")["v"].shape == (0, 3, 4)


def test_attributes_that_differ_are_told(tmp_path: Path) -> None:
    one, other = dataset(2, 0), dataset(2, 2)
    one["v"].attrs["comment"], other["v"].attrs["comment"] = "a", "b"
    paths = [write(one, tmp_path / "in0", "netcdf4"), write(other, tmp_path / "in1", "netcdf4")]
    report = hs.copy(paths, tmp_path / "out.zarr", concat="time")
    assert any('/v, "comment"' in note for note in report.notes)
    assert hs.open(tmp_path / "out.zarr")["v"].attrs["comment"] == "a"


def test_regions_of_joined_sources(tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 3, 4])
    hs.copy(paths, tmp_path / "out.zarr", concat="time", region={"time": slice(1, 6), "lat": slice(1, 3)})
    expected = joined_by_xarray(paths).isel(time=slice(1, 6), lat=slice(1, 3))
    xr.testing.assert_identical(opened(tmp_path / "out.zarr"), expected)


def test_plans_of_joined_sources(tmp_path: Path) -> None:
    paths = parts(tmp_path, [40, 50, 60])
    expected = joined_by_xarray(paths)
    plan = hs.plan_copy(
        paths, tmp_path / "out.zarr", concat="time", chunks={"time": 7}, task_size="1 kB", max_memory="100 kB"
    )
    assert plan.sources == tuple(map(str, paths)) and plan.concat == "time"
    assert "join 3 sources along time" in str(plan)
    again = hs.CopyPlan.from_json(plan.to_json())
    assert again == plan and again.id == plan.id
    run = again.run(verify=True)
    assert run.tasks > 3
    xr.testing.assert_identical(opened(tmp_path / "out.zarr"), expected)
    with pytest.raises(DestinationError, match="exists already"):
        plan.run()


@pytest.mark.filterwarnings("ignore")
def test_a_plan_of_joined_sources_on_a_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    paths = parts(tmp_path, [24] * 6 + [10])
    plan = hs.plan_copy(paths, tmp_path / "out.zarr", concat="time", chunks={"time": 4}, task_size="1 kB")
    with dask_cluster(workers=2, threads=2) as cluster, distributed.Client(cluster) as client:
        run = plan.run(client, verify=True)
    assert run.tasks > 3
    xr.testing.assert_identical(opened(tmp_path / "out.zarr"), joined_by_xarray(paths))


def test_a_plan_is_resumed_after_a_kill(tmp_path: Path) -> None:
    paths = parts(tmp_path, [300, 300, 300])
    code = """
        import sys, hyperslab as hs
        plan = hs.plan_copy(sys.argv[1:-1], sys.argv[-1], concat="time", chunks={"time": 3}, task_size="1 kB")
        print("begins", flush=True)
        plan.run(resume=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, paths), str(tmp_path / "out.zarr")]
    for number in range(20):
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"begins\n"
        time.sleep(0.01 * number)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if (tmp_path / "out.zarr").exists():
            break
    subprocess.run(command, check=True, stdout=subprocess.PIPE) if not (
        tmp_path / "out.zarr"
    ).exists() else None
    xr.testing.assert_identical(opened(tmp_path / "out.zarr"), joined_by_xarray(paths))


def test_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    paths = parts(tmp_path, [1] * 150)
    code = """
        import resource, sys, hyperslab as hs
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
        hs.copy(sys.argv[1:-1], sys.argv[-1], concat="time", chunks={"time": 50}, verify=True)
    """
    target = tmp_path / "out.zarr"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), *map(str, paths), str(target)], check=True)
    xr.testing.assert_identical(opened(target), joined_by_xarray(paths))


def test_a_source_that_changes_is_an_error(tmp_path: Path) -> None:
    paths = parts(tmp_path, [2, 2])
    plan = hs.plan_copy(paths, tmp_path / "out.zarr", concat="time")
    write(dataset(3, 2), tmp_path / "in001", "netcdf4")
    with pytest.raises(ValueError, match="in001.nc has 3 steps, and had 2 when the copy was planned"):
        plan.run()
    assert not (tmp_path / "out.zarr").exists()


def times(
    path: Path, units: str, values: list[float], dtype: str = "f8", step: int = 1, **attributes: Any
) -> Path:
    bounds = np.array([[value, value + step] for value in values], dtype).reshape(-1, 2)
    xr.Dataset(
        {"v": ("time", np.arange(len(values))), "time_bnds": (("time", "nv"), bounds)},
        {"time": ("time", np.array(values, dtype), {"units": units, "bounds": "time_bnds", **attributes})},
    ).to_netcdf(path)
    return path


@pytest.mark.parametrize("dtype", ["i4", "f8", "f4"])
def test_times_since_another_date(dtype: str, tmp_path: Path) -> None:
    paths = [
        times(tmp_path / "a.nc", "days since 2000-01-01", [0, 1], dtype),
        times(tmp_path / "b.nc", "days since 2000-02-01", [0, 1], dtype),
        times(tmp_path / "c.nc", "hours since 2001-01-01 12:00", [12, 36], dtype, step=24),
        times(tmp_path / "d.nc", "days since 2002-01-01 00:00:00", [0], dtype, calendar="standard"),
    ]
    report = hs.copy(paths, tmp_path / "out.zarr", concat="time", verify=True)
    assert not [note for note in report.notes if "coordinate" in note]
    found = hs.open(tmp_path / "out.zarr")
    assert found["time"].dtype == np.dtype(dtype)
    assert found["time"][:].tolist() == [0, 1, 31, 32, 367, 368, 731]
    assert found["time_bnds"][:, 1].tolist() == [1, 2, 32, 33, 368, 369, 732]
    expected = joined_by_xarray(paths)
    np.testing.assert_array_equal(opened(tmp_path / "out.zarr")["time"], expected["time"])
    mixed = [paths[-1], paths[0], *paths[2:-1], paths[1]]
    hs.copy(mixed, tmp_path / "sorted.zarr", concat="time", sort=True)
    np.testing.assert_array_equal(opened(tmp_path / "sorted.zarr")["time"], expected["time"])


def test_times_without_exact_numbers_are_refused(tmp_path: Path) -> None:
    paths = [
        times(tmp_path / "a.nc", "days since 2000-01-01", [0, 1], "i4"),
        times(tmp_path / "b.nc", "hours since 2000-02-01", [1], "i4"),
    ]
    with pytest.raises(ValueError, match='b.nc: variable "time" has units .*no exact numbers'):
        hs.copy(paths, tmp_path / "out.zarr", concat="time")
    other = times(tmp_path / "c.nc", "days since 2000-02-01", [1], "i4", calendar="360_day")
    with pytest.raises(ValueError, match='c.nc: variable "time" has units '):
        hs.copy([paths[0], other], tmp_path / "out.zarr", concat="time")


# ---- one to many, and repacking


def test_one_to_many_and_back(tmp_path: Path) -> None:
    source = write(dataset(23, 0), tmp_path / "in", "zarr3")
    report = hs.copy(source, str(tmp_path / "part-{}.zarr"), split={"time": 10}, verify=True)
    assert report.arrays == 18 and report.seconds_verified is not None
    expected = opened(source)
    for number, part in enumerate([slice(0, 10), slice(10, 20), slice(20, 23)]):
        xr.testing.assert_identical(opened(tmp_path / f"part-{number}.zarr"), expected.isel(time=part))
    hs.copy(str(tmp_path / "part-*.zarr"), tmp_path / "back.zarr", concat="time")
    xr.testing.assert_identical(opened(tmp_path / "back.zarr"), expected)
    hs.copy(source, str(tmp_path / "{start}-{stop}.h5"), split={"time": 20})
    assert sorted(path.name for path in tmp_path.glob("*.h5")) == ["00-20.h5", "20-23.h5"]


def test_mistakes_of_splits_write_nothing(tmp_path: Path) -> None:
    source = write(dataset(4, 0), tmp_path / "in", "zarr3")
    hs.create_array(tmp_path / "part-1.zarr", data=[1])
    before = files(tmp_path)
    for wanted, message in [
        ({"split": {"time": 2}}, "exists already"),
        ({"split": {"tim": 2}}, "no array has a dimension named 'tim'"),
        ({"split": {"time": 0}}, "at least 1 step"),
        ({"split": {"time": 2}, "region": {"time": slice(1)}}, "split along 'time'"),
    ]:
        with pytest.raises((ValueError, FileExistsError), match=message):
            hs.copy(source, str(tmp_path / "part-{}.zarr"), **wanted)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="need names of their own"):
        hs.copy(source, str(tmp_path / "same.zarr"), split={"time": 2})
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("kind", "target"), [("zarr3", "out.zarr"), ("netcdf4", "out.zarr"), ("netcdf4", "out.h5")]
)
def test_one_variable_with_what_it_needs(kind: str, target: str, tmp_path: Path) -> None:
    found = dataset(4, 0).set_coords("mask")
    found["cells"] = ("time", np.arange(4.0), {"bounds": "limits"})
    found["limits"] = (("time", "nv"), np.zeros((4, 2)))
    source = write(found, tmp_path / "in", kind)
    hs.copy(source, tmp_path / target, variables=["v", "cells"], verify=True)
    expected = opened(source)[["v", "cells", "limits", "mask"]]
    xr.testing.assert_identical(opened(tmp_path / target).reset_coords(), expected.reset_coords())
    with pytest.raises(ValueError, match='there is no "w"; there are '):
        hs.copy(source, tmp_path / f"other-{target}", variables=["w"])
    with pytest.raises(ValueError, match="expected a list"):
        hs.copy(source, tmp_path / f"other-{target}", variables="v")


@pytest.mark.parametrize("target", ["out.zarr", "out.h5"])
def test_chunks_by_name(target: str, tmp_path: Path) -> None:
    source = write(dataset(8, 0), tmp_path / "in", "netcdf4")
    hs.copy(source, tmp_path / target, chunks={"time": 4, "lon": -1}, compressors="gzip:1")
    found = hs.open(tmp_path / target, mode="r")
    assert tuple(found["v"].chunks) == (4, 3, 4) and tuple(found["series"].chunks) == (4,)
    assert tuple(found["mask"].chunks) == (3, 4)
    xr.testing.assert_identical(opened(tmp_path / target), opened(source))


# ---- the command


def run(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", "copy", *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_command_joins_and_splits(tmp_path: Path) -> None:
    paths = parts(tmp_path, [3, 4, 5])
    expected = joined_by_xarray(paths)
    out = tmp_path / "out.zarr"
    text = run(*reversed(paths), out, "--concat", "time", "--sort", "--chunks", "time=6", "--verify")
    assert "copied 6 arrays in 1 group" in text and "verified" in text
    xr.testing.assert_identical(opened(out), expected)
    assert tuple(hs.open(out)["v"].chunks) == (6, 3, 4)
    text = run(out, tmp_path / "part-{}.zarr", "--split", "time=6", "--variables", "v,series")
    assert text.count("copied 4 arrays") == 2
    for number in range(2):
        found = opened(tmp_path / f"part-{number}.zarr")
        np.testing.assert_array_equal(found["v"], expected["v"][6 * number : 6 * number + 6])
        assert sorted(found.variables) == ["lat", "series", "time", "v"]
    run(*paths, tmp_path / "tasks.zarr", "--concat", "time", "--resume")
    xr.testing.assert_identical(opened(tmp_path / "tasks.zarr"), expected)
    assert "/v: " in run(*paths, tmp_path / "none.zarr", "--concat", "time", "--explain")


def test_mistakes_of_the_command(tmp_path: Path) -> None:
    paths = parts(tmp_path, [3, 4])
    out = tmp_path / "out.zarr"
    assert "--concat time" in run(*paths, out, code=2)
    assert "no array has a dimension named 'tim'" in run(*paths, out, "--concat", "tim", code=1)
    assert "expected a dimension and a number of steps" in run(paths[0], out, "--split", "time", code=2)
    assert "need names of their own" in run(paths[0], out, "--split", "time=1", code=2)
    assert not out.exists()
    assert json.loads(json.dumps(sorted(path.name for path in tmp_path.iterdir()))) == [
        "in000.nc",
        "in001.nc",
    ]
