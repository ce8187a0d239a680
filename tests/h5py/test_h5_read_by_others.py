"""Files that `hyperslab.h5` writes are read by other programs: HDF5's tools, PyTables, netCDF4-python,
pyfive, xarray and anndata."""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5_compare import same_file
from h5_writing import Calls, cases, described
from hdf5_same import same_values
from hyperslab import h5
from hypothesis import given, settings
from servers import tool

LIB = Path(__file__).resolve().parents[1] / "lib"


def output(*command: Any) -> tuple[str, int]:
    """Runs a program. Returns its output and code."""
    done = subprocess.run(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=30,
    )
    return done.stdout, done.returncode


def run(*command: Any) -> None:
    """Runs a program, which must succeed."""
    shown, code = output(*command)
    assert code == 0, (command, shown[-2000:])


def with_lzf(path: Path) -> set[str]:
    """Returns the paths of datasets with h5py's filter lzf, which other programs lack."""
    found: set[str] = set()

    def look(name: str, node: Any) -> None:
        if h5py.h5z.FILTER_LZF in getattr(node, "filter_ids", ()):
            found.add(f"/{name}")

    with h5py.File(path) as file:
        file.visititems(look)
    return found


def compared(path: Path) -> None:
    with h5.File(path) as ours, h5py.File(path) as theirs:
        same_file(ours, theirs)


@settings(max_examples=15)
@given(case=cases, later=cases)
def test_tools_of_hdf5(tmp_path_factory: Any, case: Calls, later: Calls) -> None:
    """HDF5's tools print and copy the same as of h5py's file."""
    folder = tmp_path_factory.mktemp("files")
    found = []
    for name, m in (("ours.h5", h5), ("theirs.h5", h5py)):
        path, packed = folder / name, folder / f"packed-{name}"
        with m.File(path, "w") as file:
            case.run(m, file)
        with m.File(path, "r+") as file:
            later.run(m, file)
        run(tool("h5stat"), path)
        if with_lzf(path):
            # h5repack crashes without this filter, also with h5py's files.
            return
        run(tool("h5repack"), path, packed)
        # The first line is the name. h5dump shows text that was never written as NULL, and a copy of it
        # by us as text without letters.
        shown, code = output(tool("h5dump"), path)
        with h5py.File(packed) as file:
            found.append((shown.partition("\n")[2].replace("NULL", '""'), code, described(file)))
    assert found[0] == found[1]


@settings(max_examples=15)
@given(case=cases)
def test_pytables(tmp_path_factory: Any, case: Calls) -> None:
    """PyTables reads the same from our file as from h5py's.

    Without lzf: libraries skip this filter for some short chunks, and PyTables reads only those.
    """
    tables = pytest.importorskip("tables")
    folder = tmp_path_factory.mktemp("files")
    found = []
    for name, m in (("ours.h5", h5), ("theirs.h5", h5py)):
        with m.File(folder / name, "w") as file:
            case.run(m, file)
        lzf = with_lzf(folder / name)
        with warnings.catch_warnings(), tables.open_file(str(folder / name)) as file:
            warnings.simplefilter("ignore")
            nodes = [node for node in file.walk_nodes("/") if node._v_pathname not in lzf]
            found.append({node._v_pathname: content(node) for node in nodes})
    assert found[0] == found[1]


def content(node: Any) -> Any:
    """Returns what PyTables reads of a node, or its error."""
    try:
        value = node.read()
    except Exception as error:
        return type(node).__name__, type(error).__name__
    return (
        type(node).__name__,
        str(getattr(value, "dtype", "")),
        repr(getattr(value, "tolist", lambda: value)()),
    )


@settings(max_examples=20)
@given(case=cases)
def test_pyfive(tmp_path_factory: Any, case: Calls) -> None:
    """pyfive reads the same from our file as from h5py's. (It lists committed types as groups.)"""
    pyfive = pytest.importorskip("pyfive")
    folder = tmp_path_factory.mktemp("files")
    found = []
    for name, m in (("ours.h5", h5), ("theirs.h5", h5py)):
        with m.File(folder / name, "w") as file:
            case.run(m, file)
        names: list[str] = []
        wanted: dict[str, list[str]] = {}
        with h5py.File(folder / name) as real:
            real.visit(names.append)
            for path in names:
                node = real[path]
                if isinstance(node, h5py.Dataset) and is_readable(node.dtype, node.filter_ids):
                    wanted[path] = [one for one in node.attrs if is_readable(node.attrs.get_id(one).dtype)]
        try:
            with pyfive.File(folder / name) as file:
                found.append({path: five(file, path, attributes) for path, attributes in wanted.items()})
        except (AssertionError, UnicodeDecodeError):
            # It does not read external links in groups that keep the order of links, and reads only
            # ASCII letters in messages of soft links.
            return
    assert found[0] == found[1]


def is_readable(dtype: np.dtype[Any], filters: tuple[int, ...] = ()) -> bool:
    """Returns false for what pyfive does not read, or reads as objects that crash the interpreter."""
    return not (dtype.hasobject and (filters or dtype.names)) and h5py.h5z.FILTER_LZF not in filters


def five(file: Any, path: str, attributes: list[str]) -> Any:
    """Returns what pyfive reads of a dataset, or its error."""
    try:
        node = file[path]
        value = np.asarray(node[()])
        shown = {name: repr(node.attrs[name]) for name in attributes}
    except Exception as error:
        return type(error).__name__
    return value.shape, str(value.dtype), repr(value.tolist()), repr(shown)


# Prints everything that Octave makes of a file.
OCTAVE = """
function show(name, value)
  printf("%s %s %s\\n", name, class(value), mat2str(size(value)));
  if isstruct(value)
    for [inner, key] = value
      show([name "." key], inner);
    end
  elseif ischar(value)
    disp(value);
  elseif iscell(value)
    cellfun(@(one) show([name "{}"], one), value);
  elseif isnumeric(value) || islogical(value)
    printf(" %.17g", double(value(:)));
    printf("\\n");
  end
end
found = load("-hdf5", argv(){end});
show("file", found);
"""


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_octave(tmp_path: Path, libver: str) -> None:
    """Octave loads the same from our file as from h5py's."""
    octave = shutil.which("octave-cli")
    if octave is None:
        pytest.skip("Octave is not installed")
    script = tmp_path / "show.m"
    script.write_text(OCTAVE)
    shown = []
    for name, m in (("ours.h5", h5), ("theirs.h5", h5py)):
        path = tmp_path / name
        with m.File(path, "w", libver=libver) as file:
            for kind in ("f8", "f4", "i1", "u2", ">i4", "u8"):
                file[f"all/{kind[-2:]}"] = np.arange(6).reshape(2, 3).astype(kind)
            big = np.arange(1000.0).reshape(100, 10)
            file.create_dataset("big", data=big, chunks=(7, 3), compression="gzip", shuffle=True)
            file.create_dataset("scaled", data=big, chunks=(50, 10), scaleoffset=2)
            file["one"], file["text"] = 5.5, np.bytes_("abc")
            file["flags"] = [True, False]
            table = file.create_dataset("table", (0, 3), "i4", maxshape=(None, 3), chunks=(4, 3))
            for number in range(9):
                table.resize(number + 1, axis=0)
                table[number] = number
            file["t"] = np.dtype("f8")
            file.create_dataset("typed", data=[1.5, 2.5], dtype=file["t"])
            del file["t"]
        with m.File(path, "r+") as file:
            file["all/f8"][1] = -1
            file["all"].create_group("deep")["late"] = [1, 2, 3]
            file["big"].attrs["unit"] = "m"
        out, code = output(octave, "--no-init-file", "-q", script, path)
        assert code == 0, out
        shown.append(out)
    assert "file.all.deep.late double [1 3]" in shown[0] or "file.all.deep.late int64 [1 3]" in shown[0]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_netcdf(tmp_path: Path, libver: str) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "ocean.nc"
    with h5.File(path, "w", libver=libver, track_order=True) as file:
        # netCDF changes only groups that keep the order of their members.
        file.create_group("deep", track_order=True)
        file.attrs["title"] = "été"
        file.attrs["numbers"] = np.array([1, 2, 3], "i4")
        for name, length, most in (("time", 3, None), ("x", 4, 4)):
            scale = file.create_dataset(
                name, data=np.arange(length, dtype="f8"), maxshape=(most,), chunks=(4,)
            )
            scale.make_scale(name)
        wind = file.create_dataset(
            "wind",
            data=np.arange(12, dtype="f4").reshape(3, 4),
            maxshape=(None, 4),
            chunks=(2, 4),
            compression="gzip",
            shuffle=True,
            fillvalue=-1,
        )
        wind.attrs["_FillValue"], wind.attrs["units"] = np.array([-1], "f4"), "m/s"
        names = file.create_dataset("deep/names", data=["a", "bc", "été", ""], dtype=h5.string_dtype())
        for array, scales in ((wind, ("time", "x")), (names, ("x",))):
            for axis, name in enumerate(scales):
                array.dims[axis].attach_scale(file[name])
    with netCDF4.Dataset(path, "a") as file:
        assert file.title == "été" and file.numbers.tolist() == [1, 2, 3]
        assert {name: (len(one), one.isunlimited()) for name, one in file.dimensions.items()} == {
            "time": (3, True),
            "x": (4, False),
        }
        wind = file["wind"]
        assert wind.dimensions == ("time", "x") and wind.units == "m/s" and wind.dtype == "f4"
        assert wind[:].tolist() == np.arange(12.0).reshape(3, 4).tolist()
        assert file["deep/names"][:].tolist() == ["a", "bc", "été", ""]
        wind[4] = [1, 2, 3, 4]
        file["time"][3:] = [30, 40]
        file["deep/names"][1] = "changed"
        file["deep"].note = "by netCDF"
    compared(path)
    with h5.File(path) as file:
        assert file["wind"][3:].tolist() == [[-1] * 4, [1, 2, 3, 4]]
        assert file["time"][:].tolist() == [0, 1, 2, 30, 40]
        assert file["deep/names"].asstr()[1] == "changed" and file["deep"].attrs["note"] == b"by netCDF"


def in_place(code: str, *arguments: Any) -> None:
    """Runs code in a process in which `import h5py` gives `hyperslab.h5`."""
    start = "from h5py_stand_in import put_in_place\nput_in_place()\n"
    ready = f"import sys, warnings\nwarnings.simplefilter('ignore')\nsys.path.insert(0, {str(LIB)!r})\n"
    run(sys.executable, "-c", ready + start + code, *arguments)


def test_xarray_writes_through_it(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    pytest.importorskip("netCDF4")
    code = """
import h5py, numpy as np, xarray as xr
assert h5py.File.__mro__[-2].__module__ != "h5py._objects" and hasattr(h5py.Dataset, "lazy")
rng = np.random.default_rng(4)
data = xr.Dataset(
    {
        "t": (("time", "x"), rng.normal(size=(6, 5)), {"units": "K"}),
        "count": (("time",), rng.integers(0, 9, 6).astype("i2")),
        "name": (("x",), np.array(["a", "bc", "été", "", "e"], object)),
        "flag": (("x",), np.array([True, False, True, True, False])),
        "when": (("time",), np.arange("2020-01", "2020-07", dtype="M8[M]").astype("M8[ns]")),
    },
    coords={"x": np.arange(5) * 0.5},
    attrs={"title": "an ocean", "numbers": np.array([1.5, 2.5])},
)
data.to_netcdf(sys.argv[1], engine="h5netcdf", unlimited_dims=["time"], encoding={
    "t": {"zlib": True, "complevel": 4, "shuffle": True, "chunksizes": (2, 5), "_FillValue": -9.0},
})
data.isel(x=[0]).to_netcdf(sys.argv[1], mode="a", group="part", engine="h5netcdf")
assert xr.open_dataset(sys.argv[1], engine="h5netcdf").load().identical(
    xr.open_dataset(sys.argv[1], engine="netcdf4").load()
)
data.to_netcdf(sys.argv[2], engine="netcdf4", unlimited_dims=["time"])
"""
    ours, theirs = tmp_path / "ours.nc", tmp_path / "theirs.nc"
    in_place(code, ours, theirs)
    expected = xarray.load_dataset(theirs, engine="netcdf4")
    for engine in ("h5netcdf", "netcdf4"):
        found = xarray.load_dataset(ours, engine=engine)
        xarray.testing.assert_identical(found, expected)
        assert found["t"].encoding["complevel"] == 4 and found.encoding["unlimited_dims"] == {"time"}
        part = xarray.load_dataset(ours, engine=engine, group="part")
        xarray.testing.assert_identical(part, expected.isel(x=[0]))
    compared(ours)


def test_anndata_writes_through_it(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    import pickle

    source, ours = tmp_path / "source.h5ad", tmp_path / "ours.h5ad"
    from test_h5_programs import anndata_file

    anndata_file(source, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = anndata.read_h5ad(source)
    (tmp_path / "data.pickle").write_bytes(pickle.dumps(expected))
    in_place(
        """
import pickle, anndata, h5py
assert hasattr(h5py.Dataset, "lazy")
data = pickle.loads(open(sys.argv[1], "rb").read())
data.write_h5ad(sys.argv[2], compression="gzip")
again = anndata.read_h5ad(sys.argv[2])
assert repr(again) == repr(data) and (again.X != data.X).nnz == 0
""",
        tmp_path / "data.pickle",
        ours,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = anndata.read_h5ad(ours)
    assert repr(found) == repr(expected)
    compared(ours)
    with h5py.File(ours) as mine, h5py.File(source) as theirs:
        names: list[str] = []
        theirs.visit(names.append)
        for name in names:
            assert dict(mine[name].attrs).keys() == dict(theirs[name].attrs).keys(), name
            for key, value in theirs[name].attrs.items():
                same_values(mine[name].attrs[key], value, f"{name}, {key}")
            if isinstance(theirs[name], h5py.Dataset):
                same_values(mine[name][()], theirs[name][()], name)
                assert mine[name].dtype == theirs[name].dtype and mine[name].chunks == theirs[name].chunks
