"""Files of other programs are changed through `hyperslab.h5`. Their own programs then read them and
change them again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5_compare import same_file
from hyperslab import h5


def compared(path: Path) -> None:
    with h5.File(path) as ours, h5py.File(path) as theirs:
        same_file(ours, theirs)


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_pytables(tmp_path: Path, rng: np.random.Generator, libver: str) -> None:
    tables = pytest.importorskip("tables")
    path = tmp_path / "tables.h5"
    with tables.open_file(str(path), "w", title="all kinds") as file:
        group = file.create_group("/", "group", "a group")
        file.create_array("/", "array", np.arange(12, dtype="i2").reshape(3, 4), title="an array")
        file.create_array("/", "gone", [1, 2, 3])
        grows = file.create_earray(
            group, "grows", tables.Float32Atom(), (0, 3), filters=tables.Filters(4, "zlib", shuffle=True)
        )
        grows.append(np.ones((5, 3), "f4"))
        rows = file.create_vlarray(group, "rows", tables.Int32Atom())
        for count in (3, 0, 2):
            rows.append(list(range(count)))
        kind = np.dtype([("id", "u4"), ("name", "S8"), ("place", "f8", (2,))])
        table = file.create_table(group, "table", kind, expectedrows=100)
        table.append(np.array([(n, f"row {n}", (n, -n)) for n in range(50)], kind))

    with h5.File(path, "r+", libver=libver) as file:
        file["array"][1, 2:] = [100, 200]
        file["group"].attrs["note"] = "changed"
        file["group/table"].attrs["TITLE"] = np.bytes_(b"a new title")
        file.move("group/grows", "group/longer")
        del file["gone"]
        longer = file["group/longer"]
        longer.resize(8, axis=0)
        longer[5:] = np.arange(9).reshape(3, 3)
        file["group/table"][3] = (300, b"third", (7, 8))
        file["group/table"][10:12, "name"] = [b"x", b"y"]
        file["group/rows"].resize(4, axis=0)
        file["group/rows"][3] = [7, 8, 9]

    with tables.open_file(str(path), "a") as file:
        assert sorted(node._v_pathname for node in file.walk_nodes("/", "Leaf")) == [
            "/array",
            "/group/longer",
            "/group/rows",
            "/group/table",
        ]
        assert file.root.array.read().tolist() == [[0, 1, 2, 3], [4, 5, 100, 200], [8, 9, 10, 11]]
        group = file.root.group
        assert str(group._v_attrs.note) == "changed" and group.table.title == "a new title"
        assert group.longer.read()[4:].tolist() == [[1, 1, 1], [0, 1, 2], [3, 4, 5], [6, 7, 8]]
        assert [row.tolist() for row in group.rows.read()] == [[0, 1, 2], [], [0, 1], [7, 8, 9]]
        found = group.table.read()
        assert found[3].tolist()[:2] == (300, b"third") and found[3]["place"].tolist() == [7, 8]
        assert found["name"][9:13].tolist() == [b"row 9", b"x", b"y", b"row 12"]
        assert found["id"].tolist() == [*range(3), 300, *range(4, 50)]
        assert [int(row["id"]) for row in group.table.where("id > 47")] == [300, 48, 49]
        # And PyTables goes on.
        group.table.append([(50, b"last", (0, 0))])
        group.longer.append(np.full((1, 3), 5, "f4"))
        group.rows.append([1])
        file.create_array("/", "new", [1.5])
        file.rename_node("/array", "renamed")
        group.table.remove_rows(0, 10)
    compared(path)
    with h5.File(path) as file:
        assert file["group/table"][-1].tolist()[:2] == (50, b"last") and len(file["group/table"]) == 41
        assert file["group/longer"][-1].tolist() == [5, 5, 5] and file["new"][:].tolist() == [1.5]
        assert file["renamed"][1].tolist() == [4, 5, 100, 200]


def test_pandas(tmp_path: Path, rng: np.random.Generator) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables", reason="pandas writes HDF5 by PyTables")
    path = tmp_path / "frame.h5"
    frame = pandas.DataFrame(
        {
            "number": rng.normal(size=50),
            "whole": rng.integers(0, 100, 50),
            "text": [f"text {n}" for n in range(50)],
        },
        index=pandas.date_range("2020-01-01", periods=50, freq="h"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame[["number", "whole"]].to_hdf(path, key="fixed", mode="w", format="fixed")
        frame.to_hdf(path, key="rows", format="table", data_columns=True)
        frame["number"].to_hdf(path, key="deep/series", complevel=5, complib="zlib")
        frame["number"].to_hdf(path, key="gone")

    with h5.File(path, "r+") as file:
        file.attrs["by"] = "hyperslab"
        file.move("deep/series", "moved/series")
        del file["gone"]
        file["fixed/block0_values"][3, 0] = 1234
        file["rows/table"][5:7, "number"] = [0.5, 0.25]
        file["rows/table"].attrs["note"] = [1, 2]

    expected = frame.copy()
    expected.iloc[5, 0], expected.iloc[6, 0] = 0.5, 0.25
    fixed = frame[["number", "whole"]].copy()
    with h5py.File(path) as theirs:
        column = theirs["fixed/block0_items"][0].decode()
    fixed[column] = fixed[column].astype(fixed[column].dtype)
    fixed.iloc[3, list(fixed.columns).index(column)] = 1234
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pandas.testing.assert_frame_equal(pandas.read_hdf(path, "rows"), expected)
        pandas.testing.assert_frame_equal(pandas.read_hdf(path, "fixed"), fixed, check_freq=False)
        pandas.testing.assert_series_equal(
            pandas.read_hdf(path, "moved/series"), frame["number"], check_freq=False
        )
        with pandas.HDFStore(path, "a") as store:
            assert sorted(store.keys()) == ["/fixed", "/moved/series", "/rows"]
            later = frame.copy()
            later.index = later.index + pandas.Timedelta("100h")
            store.append("rows", later, data_columns=True)
            store.put("new", frame["whole"])
            store.remove("fixed")
            assert len(store.select("rows", "whole >= 0")) == 100
    compared(path)
    with h5.File(path) as file:
        assert file["rows/table"]["number"].tolist() == [*expected["number"], *frame["number"]]
        assert file.attrs["by"] == "hyperslab" and "fixed" not in file


def test_netcdf(tmp_path: Path, rng: np.random.Generator) -> None:
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "ocean.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        file.title, file.gone = "an ocean", 1
        file.createVariable("x", "f8", ("x",))[:] = [1, 2, 3, 4]
        wind = file.createVariable("wind", "f4", ("time", "x"), zlib=True, fill_value=-1, chunksizes=(2, 4))
        wind.units = "m/s"
        wind[:] = np.arange(20).reshape(5, 4)
        file.createVariable("names", str, ("x",))[:] = np.array(["a", "bc", "été", ""], object)
        group = file.createGroup("deep")
        group.createVariable("temperature", "i2", ("x",))[:] = [4, 3, 2, 1]
        group.createVariable("other", "i2", ("x",))

    with h5.File(path, "r+") as file:
        file.attrs["title"] = "another ocean"
        file.attrs["history"] = np.array([1.5, 2.5])
        del file.attrs["gone"]
        file["wind"].attrs.rename("units", "unit")
        file["wind"][1, 1:3] = [100, 200]
        file["names"][1] = "longer"
        file["deep/temperature"].attrs["factor"] = np.float32(0.5)
        file["time"].resize((7,))
        file["wind"].resize(7, axis=0)
        file["wind"][6] = 9
        file["deep/temperature"][:2] = [-4, -3]

    with netCDF4.Dataset(path, "a") as file:
        file.set_auto_mask(False)
        assert (file.title, file.history.tolist()) == ("another ocean", [1.5, 2.5])
        assert "gone" not in file.ncattrs() and len(file.dimensions["time"]) == 7
        wind = file["wind"]
        assert wind.unit == "m/s" and wind.shape == (7, 4)
        assert wind[1].tolist() == [4, 100, 200, 7] and wind[5:].tolist() == [[-1] * 4, [9] * 4]
        assert file["names"][:].tolist() == ["a", "longer", "été", ""]
        assert file["deep/temperature"][:].tolist() == [-4, -3, 2, 1]
        assert file["deep/temperature"].factor == np.float32(0.5)
        # And netCDF goes on.
        wind[7] = [1, 2, 3, 4]
        file.renameVariable("names", "words")
        file["words"][3] = "new"
        file["deep"].note = "by netCDF"
        file.createVariable("added", "f8", ("time",))[:] = np.arange(8)
    compared(path)
    with h5.File(path, "r+") as file:
        assert file["wind"].shape == (8, 4) and file["wind"][7].tolist() == [1, 2, 3, 4]
        assert file["words"].asstr()[:].tolist() == ["a", "longer", "été", "new"]
        assert file["added"][:].tolist() == [*range(8)] and file["deep"].attrs["note"] == b"by netCDF"
        file["added"][0] = 5
    with netCDF4.Dataset(path) as file:
        assert file["added"][0] == 5


def test_anndata(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("anndata")
    from test_h5_programs import anndata_file

    path = tmp_path / "cells.h5ad"
    anndata_file(path, seed)
    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = anndata.read_h5ad(path)
        with h5.File(path, "r+") as file:
            file["X/data"][:3] = [7, 8, 9]
            file["layers/dense"][2, 1:4] = -1
            file["obs/count"][:] = np.arange(len(file["obs/count"]))
            file["uns/settings"].attrs["note"] = "kept"
            file["uns/settings/d"][()] = 2.5
            file.move("obsm/X_pca", "obsm/X_moved")
            del file["obsp/graph"]
        found = anndata.read_h5ad(path)
        x: Any = expected.X.copy()
        x.data[:3] = [7, 8, 9]
        dense = expected.layers["dense"].copy()
        dense[2, 1:4] = -1
        assert (found.X != x).nnz == 0 and np.array_equal(found.layers["dense"], dense)
        assert found.obs["count"].tolist() == list(range(found.n_obs))
        assert found.obs["kind"].equals(expected.obs["kind"]) and found.uns["settings"]["d"] == 2.5
        assert list(found.obsm) == ["X_moved"] and list(found.obsp) == []
        assert np.array_equal(found.obsm["X_moved"], expected.obsm["X_pca"])
        # And anndata goes on.
        backed = anndata.read_h5ad(path, backed="r+")
        backed.file.close()
        found.obs["new"] = np.arange(found.n_obs) * 0.5
        with h5py.File(path, "r+") as theirs:
            anndata.io.write_elem(theirs, "obs", found.obs)
        assert anndata.read_h5ad(path).obs["new"].tolist() == found.obs["new"].tolist()
    compared(path)


@pytest.mark.parametrize("strategy", ["fsm", "page"])
@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_a_list_of_free_space(tmp_path: Path, libver: str, strategy: str) -> None:
    """HDF5's list of free space is dropped: it does not know about the space that is used here."""
    path = tmp_path / "list.h5"
    options = {"fs_strategy": strategy, "fs_persist": True, "libver": (libver, "v110")}
    with h5py.File(path, "w", **options) as file:
        for number in range(20):
            file.create_dataset(f"d{number}", data=np.full(1000, number))
    with h5py.File(path, "r+") as file:
        for number in range(0, 20, 2):
            del file[f"d{number}"]
    with h5py.File(path) as file:
        assert file.id.get_create_plist().get_file_space_strategy()[1]
        assert file.id.get_freespace() > 0
    with h5.File(path, "r+") as file:
        file["d1"][:10] = 100
        file["new"] = np.arange(3000)
        file.attrs["note"] = "changed"
        file.flush()
        # Another program may read it now.
        with h5py.File(path) as read:
            assert read["new"][-1] == 2999 and read["d3"][7] == 3
    compared(path)
    with h5py.File(path, "r+") as file:
        assert not file.id.get_create_plist().get_file_space_strategy()[1]
        file["more"] = np.arange(5000)
        del file["d3"]
        file["d5"][...] = 55
    compared(path)
    with h5py.File(path) as file:
        assert file["d1"][:11].tolist() == [100] * 10 + [1]
        assert file["more"][-1] == 4999 and file["new"][7] == 7 and file["d5"][0] == 55
        assert sorted(file) == sorted([f"d{n}" for n in range(1, 20, 2) if n != 3] + ["more", "new"])
