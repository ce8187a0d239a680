"""Files of other programs read through `hyperslab.h5` as through h5py.

The programs are pandas, PyTables, anndata, MATLAB, Keras and h5netcdf. anndata and h5netcdf read
through `hyperslab.h5` themselves.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from h5_compare import registered, same_file


def compared(path: Path) -> int:
    with hs.File(path, "r") as ours, h5py.File(path, "r") as theirs:
        return same_file(ours, theirs)


def test_pandas(tmp_path: Path, seed: int) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables", reason="pandas writes HDF5 by PyTables")
    rng = np.random.default_rng(seed)
    dates = pandas.date_range("2020-01-01", periods=50, freq="h", tz="Europe/Zurich")
    frame = pandas.DataFrame(
        {
            "number": rng.normal(size=50),
            "whole": rng.integers(0, 100, 50),
            "flag": rng.random(50) > 0.5,
            "text": [f"text {n}" for n in range(50)],
            "kind": pandas.Categorical(rng.choice(["a", "b", "été"], 50)),
        },
        index=dates,
    )
    path = tmp_path / "frame.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame.drop(columns="kind").to_hdf(path, key="fixed", mode="w", format="fixed")
        frame.to_hdf(path, key="table", format="table", data_columns=True)
        frame["number"].to_hdf(path, key="deep/series", complevel=5, complib="zlib")
        frame[["number", "whole"]].to_hdf(path, key="blosc", format="table", complevel=3, complib="blosc")
    assert compared(path) > 20
    with hs.File(path) as file:
        assert file["table/table"]["number"].tolist() == frame["number"].tolist()
        assert file["fixed"].attrs["pandas_type"] == b"frame"
        assert file["blosc/table"].compression == "unknown"


def test_pytables(tmp_path: Path) -> None:
    tables = pytest.importorskip("tables")
    path = tmp_path / "tables.h5"
    with tables.open_file(str(path), "w", title="all kinds") as file:
        file.create_array("/", "array", np.arange(12, dtype="i2").reshape(3, 4), title="an array")
        file.create_array("/", "text", ["ab", "cde"])
        file.create_array("/", "scalar", 2.5)
        group = file.create_group("/", "group", "a group")
        group._v_attrs.pair = (1, "two")
        file.create_carray(
            group, "compressed", obj=np.arange(1000.0), filters=tables.Filters(4, "zlib", fletcher32=True)
        )
        file.create_carray(
            group, "shuffled", obj=np.arange(1000), filters=tables.Filters(4, "blosc", bitshuffle=True)
        )
        grows = file.create_earray(group, "grows", tables.Float32Atom(), (0, 3))
        grows.append(np.ones((5, 3), "f4"))
        rows = file.create_vlarray(group, "rows", tables.Int32Atom())
        for count in (3, 0, 2):
            rows.append(list(range(count)))
        texts = file.create_vlarray(group, "texts", tables.VLUnicodeAtom())
        texts.append("été")
        description: Any = {
            "id": tables.UInt32Col(pos=0),
            "name": tables.StringCol(8, pos=1),
            "place": {"x": tables.Float64Col(), "y": tables.Float64Col()},
            "vector": tables.Float32Col(shape=(3,)),
            "flag": tables.BoolCol(),
            "phase": tables.ComplexCol(16),
            "kind": tables.EnumCol({"red": 0, "blue": 1}, "red", "uint8"),
        }
        table = file.create_table(group, "table", description, "a table", chunkshape=7)
        row = table.row
        for number in range(20):
            row["id"], row["name"], row["place/x"], row["flag"] = number, f"n{number}", number / 2, number % 2
            row.append()
        table.flush()
        table.cols.id.create_index()
        file.create_soft_link("/", "soft", "/group/table")
        file.create_hard_link("/", "hard", "/array")
    assert compared(path) > 12
    with hs.File(path) as file:
        assert file["group/table"][3]["name"] == b"n3" and file["soft"] == file["group/table"]


def anndata_file(path: Path, seed: int) -> Any:
    """Writes a file with anndata. Returns anndata's reading of it."""
    anndata = pytest.importorskip("anndata")
    import pandas
    import scipy.sparse

    rng = np.random.default_rng(seed)
    cells, genes = 40, 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = anndata.AnnData(
            X=scipy.sparse.csr_matrix(rng.poisson(0.5, (cells, genes)).astype("f4")),
            obs=pandas.DataFrame(
                {
                    "kind": pandas.Categorical(rng.choice(["a", "b"], cells)),
                    "count": rng.integers(0, 9, cells),
                    "text": [f"x{n}" for n in range(cells)],
                    "maybe": pandas.array([True, None] * (cells // 2), dtype="boolean"),
                    "perhaps": pandas.array([1, None] * (cells // 2), dtype="Int64"),
                },
                index=[f"cell{n}" for n in range(cells)],
            ),
            var=pandas.DataFrame(index=[f"gene{n}" for n in range(genes)]),
        )
        made.layers["dense"] = rng.normal(size=(cells, genes))
        made.obsm["X_pca"] = rng.normal(size=(cells, 3))
        made.obsp["graph"] = scipy.sparse.csc_matrix(rng.poisson(0.2, (cells, cells)).astype("f8"))
        made.uns["settings"] = {"a": 1, "b": "text", "c": np.array(["x", "été"], object), "d": 0.5}
        made.raw = made.copy()
        made.write_h5ad(path, compression="gzip")
        return anndata.read_h5ad(path)


def test_anndata(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "cells.h5ad"
    anndata_file(path, seed)
    assert compared(path) > 40


def test_anndata_reads_through_it(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "cells.h5ad"
    expected = anndata_file(path, seed)
    import pandas
    from anndata.io import read_elem, sparse_dataset

    with registered(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with hs.File(path) as file:
            found = read_elem(file)
            for name in ("obs", "var"):
                pandas.testing.assert_frame_equal(getattr(found, name), getattr(expected, name))
            for name in ("layers", "obsm", "obsp"):
                for key, value in getattr(expected, name).items():
                    mine = getattr(found, name)[key]
                    assert type(mine) is type(value) and mine.dtype == value.dtype, (name, key)
                    assert abs(mine - value).max() == 0, (name, key)
            assert repr(found.uns) == repr(expected.uns) and repr(found) == repr(expected)
            assert (found.raw.X != expected.raw.X).nnz == 0 and (found.X != expected.X).nnz == 0
            pandas.testing.assert_frame_equal(expected.obs, read_elem(file["obs"]))
            assert np.array_equal(read_elem(file["layers/dense"]), expected.layers["dense"])
            assert np.array_equal(sparse_dataset(file["X"])[3:9].toarray(), expected.X[3:9].toarray())


def test_h5netcdf_reads_through_it(tmp_path: Path) -> None:
    h5netcdf = pytest.importorskip("h5netcdf")
    path = tmp_path / "ocean.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 3, "y": 2}
        variable = file.create_variable("group/v", ("x", "y"), float, compression="gzip")
        variable[...] = [[1, 2], [3, 4], [5, 6]]
        variable.attrs["units"] = "K"
        file.create_variable("x", ("x",), "i4")[:] = [1, 2, 3]
        file.attrs["title"] = "été"
    assert compared(path) > 4
    with registered(), hs.File(path) as ours, h5netcdf.File(ours, "r") as file:
        assert file["group/v"][...].tolist() == [[1, 2], [3, 4], [5, 6]]
        assert file["group/v"].dimensions == ("x", "y") and file["group/v"].dtype == np.dtype("f8")
        assert dict(file["group/v"].attrs) == {"units": "K"} and file.attrs["title"] == "été"
        assert {name: axis.size for name, axis in file.dimensions.items()} == {"x": 3, "y": 2}


def test_matlab(tmp_path: Path) -> None:
    """A MAT file of version 7.3 in MATLAB's layout."""
    path = tmp_path / "workspace.mat"
    with h5py.File(path, "w", userblock_size=512) as file:

        def put(where: Any, name: str, value: Any, kind: str, **attributes: Any) -> Any:
            made = where.create_dataset(name, data=value)
            made.attrs["MATLAB_class"] = np.bytes_(kind)
            for key, given in attributes.items():
                made.attrs[key] = given
            return made

        put(file, "matrix", np.arange(12.0).reshape(4, 3), "double")
        put(file, "text", np.array([[ord(c)] for c in "été"], "u2"), "char", MATLAB_int_decode=np.int32(2))
        put(file, "flags", np.array([[1], [0]], "u1"), "logical", MATLAB_int_decode=np.int32(1))
        put(file, "complex", np.array([(1.0, 2.0)], [("real", "f8"), ("imag", "f8")]), "double")
        put(file, "nothing", np.array([0, 0], "u8"), "double", MATLAB_empty=np.uint8(1))
        structure = file.create_group("structure")
        structure.attrs["MATLAB_class"] = np.bytes_(b"struct")
        fields = np.empty(2, object)
        fields[:] = [np.array([b"a"], "S1"), np.array([b"b", b"c"], "S1")]
        structure.attrs.create("MATLAB_fields", fields, dtype=h5py.vlen_dtype(np.dtype("S1")))
        put(structure, "a", [[1.0]], "double")
        put(structure, "bc", [[2.0, 3.0]], "double")
        refs = file.create_group("#refs#")
        cells = np.empty((2, 1), h5py.ref_dtype)
        cells[0, 0] = put(refs, "a", [[1.0, 2.0]], "double").ref
        cells[1, 0] = put(refs, "b", np.array([[104], [105]], "u2"), "char").ref
        made = file.create_dataset("cell", data=cells, dtype=h5py.ref_dtype)
        made.attrs["MATLAB_class"] = np.bytes_(b"cell")
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Nov 23 2026".ljust(124)
    with open(path, "r+b") as raw:
        raw.write(header + b"\x00\x02IM")
    assert compared(path) > 12
    with hs.File(path) as file:
        assert file.userblock_size == 512
        assert [file[reference][()].ravel().tolist() for reference in file["cell"][:, 0]] == [
            [1, 2],
            [104, 105],
        ]


def test_keras(tmp_path: Path) -> None:
    """Weights in both of Keras's layouts."""
    path = tmp_path / "model.weights.h5"
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"dense", b"lstm"]
        file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.15.0"
        file.attrs["model_config"] = '{"class_name": "Sequential"}'
        for layer, names in {"dense": ["kernel:0", "bias:0"], "lstm": ["kernel:0"]}.items():
            group = file.create_group(layer)
            group.attrs["weight_names"] = [f"{layer}/{name}".encode() for name in names]
            for name in names:
                group.create_dataset(f"{layer}/{name}", data=rng.normal(size=(4, 3)).astype("f4"))
        variables = file.create_group("layers/dense/vars")
        variables["0"], variables["1"] = rng.normal(size=(4, 3)), rng.normal(size=3).astype("f2")
        file.create_group("optimizer/vars")["0"] = np.int64(7)
    assert compared(path) > 12
