"""Documents of references with invalid members: reading one fails, and all others can be read."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

GROUP = '{"zarr_format": 2}'


def array_of(shape: list[int], chunks: list[int], dtype: str = "|u1") -> str:
    meta = {"shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": 255}
    return json.dumps(meta | {"zarr_format": 2, "compressor": None, "filters": None, "order": "C"})


# Values that are no references, with the error messages for them.
ODD_VALUES: list[tuple[Any, str]] = [
    (None, "expected text"),
    (True, "expected text"),
    (7, "expected text"),
    ([], "expected \\[url\\]"),
    ([None, 0, 4], "expected \\[url\\]"),
    (["data.bin", 0], "expected \\[url\\]"),
    (["data.bin", -1, 4], "expected \\[url\\]"),
    (["data.bin", 0, 1.5], "expected \\[url\\]"),
    (["data.bin", 0, 4, 4], "expected \\[url\\]"),
    (["data.bin", 2**63 - 1, 4], "more than"),
    (["{{nothing}}", 0, 4], "there is no 'nothing'"),
    ("base64:===", "not base 64"),
]
ODD_KEYS = ["./q", "../q", "/q", "a//0", "", "/", "a/./1", "q\\r", "a/.hidden.hyperslab-tmp"]


def document() -> dict[str, Any]:
    refs: dict[str, Any] = {".zgroup": GROUP, "good/.zarray": array_of([8], [4])}
    refs |= {"good/0": ["data.bin", 0, 4], "good/1": "base64:" + base64.b64encode(b"wxyz").decode()}
    refs |= {"odd/.zarray": array_of([4 * len(ODD_VALUES)], [4])}
    refs |= {f"odd/{n}": value for n, (value, _) in enumerate(ODD_VALUES)}
    refs |= {key: ["data.bin", 0, 4] for key in ODD_KEYS}
    refs |= {"s/.zarray": array_of([], [], "<f8"), "s/": ["data.bin", 8, 8]}
    refs |= {"t/.zarray": array_of([], []), "t/": None}
    # Some writers list folders. A folder is no chunk.
    refs |= {"good/": "", "deep/.zgroup": GROUP, "deep/": ""}
    return {"version": 1, "templates": {"u": "x"}, "refs": refs}


DATA = bytes(range(8)) + np.float64(3.5).tobytes()


def check(group: Any) -> None:
    np.testing.assert_array_equal(group["good"][...], [0, 1, 2, 3, *b"wxyz"])
    assert group["s"][()] == 3.5
    assert sorted(group) == ["deep", "good", "odd", "s", "t"]
    for n, (_, why) in enumerate(ODD_VALUES):
        with pytest.raises(hs.HyperslabError, match=f"odd/{n}' .* is no reference, but .*{why}"):
            group["odd"][4 * n]
    with pytest.raises(hs.HyperslabError, match="t/0' .* is no reference, but null"):
        group["t"][()]
    assert group["good"].nchunks_initialized == 2


@pytest.mark.parametrize("version", [0, 1])
def test_a_document(tmp_path: Path, version: int) -> None:
    (tmp_path / "data.bin").write_bytes(DATA)
    found = document()
    if version == 0:
        found = found["refs"]
        # Version 0 has no templates: this is the name of an object.
        number = next(n for n, (_, why) in enumerate(ODD_VALUES) if "nothing" in why)
        found[f"odd/{number}"] = ["{{nothing}}", 0, -1]
    (tmp_path / "refs.json").write_text(json.dumps(found))
    group: Any = hs.open(tmp_path / "refs.json")
    if version == 1:
        check(group)
        return
    np.testing.assert_array_equal(group["good"][...], [0, 1, 2, 3, *b"wxyz"])
    assert group["s"][()] == 3.5
    with pytest.raises(hs.HyperslabError, match="odd/0' .* is no reference, but null"):
        group["odd"][0]


def test_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("data.bin", DATA)
        archive.writestr("refs.json", json.dumps(document()))
    check(hs.open(f"zip://refs.json::{tmp_path / 'x.zip'}"))
    np.testing.assert_array_equal(
        hs.open(f"zip://refs.json/good::{tmp_path / 'x.zip'}")[...], [0, 1, 2, 3, *b"wxyz"]
    )


def test_xarray_reads_the_others(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    import hyperslab.xarray  # noqa: F401

    (tmp_path / "data.bin").write_bytes(DATA)
    found = document()
    for name, dims in (("good", ["x"]), ("odd", ["y"]), ("s", []), ("t", [])):
        found["refs"][f"{name}/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": dims})
    (tmp_path / "refs.json").write_text(json.dumps(found))
    opened = xr.open_dataset(tmp_path / "refs.json", engine="hyperslab")
    np.testing.assert_array_equal(opened.good, [0, 1, 2, 3, *b"wxyz"])
    assert float(opened.s) == 3.5
    with pytest.raises(hs.HyperslabError, match="no reference"):
        opened.odd.load()


def test_a_folder_of_parquet(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    (tmp_path / "data.bin").write_bytes(DATA)
    folder = tmp_path / "refs.parq"
    metadata = {
        ".zgroup": json.loads(GROUP),
        "good/.zarray": json.loads(array_of([24], [4])),
        "s/.zarray": json.loads(array_of([], [], "<f8")),
        "../q": {},
        "./q/.zarray": json.loads(array_of([4], [4])),
        "shapeless/.zarray": {"zarr_format": 2},
    }
    for name, rows in {
        "good": [("data.bin", 0, 4), ("data.bin", -1, 4), ("data.bin", 2**62, 2**62), ("data.bin", 4, 4)],
        "s": [("data.bin", 8, 8)],
    }.items():
        (folder / name).mkdir(parents=True)
        path, offset, size = zip(*rows, strict=True)
        raw = [None] * len(rows)
        frame = pd.DataFrame({"path": path, "offset": offset, "size": size, "raw": raw})
        buffer = io.BytesIO()
        frame.to_parquet(buffer)
        (folder / name / "refs.0.parq").write_bytes(buffer.getvalue())
    (folder / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": 100}))
    group: Any = hs.open(folder)
    good = group["good"]
    np.testing.assert_array_equal(good[:4], [0, 1, 2, 3])
    np.testing.assert_array_equal(good[12:16], [4, 5, 6, 7])
    np.testing.assert_array_equal(good[16:], [255] * 8)
    with pytest.raises(hs.HyperslabError, match="good/1' .* is no reference, but 4 bytes at -1 .*negative"):
        good[4]
    with pytest.raises(hs.HyperslabError, match="good/2' .* is no reference, but .* more than"):
        good[8]
    assert group["s"][()] == 3.5
    assert sorted(name for name in group if name != "shapeless") == ["good", "s"]
    with pytest.raises(hs.HyperslabError, match="shapeless"):
        group["shapeless"]


def test_scalars_of_virtualizarr(tmp_path: Path) -> None:
    """VirtualiZarr calls the only chunk of a scalar `s/`. (It writes no scalars to Parquet.)"""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("virtualizarr")
    import hyperslab.zarr
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr import open_virtual_dataset

    source = tmp_path / "b.nc"
    xr.Dataset({"t": ("x", np.arange(4.0)), "s": 3.5}).to_netcdf(source, engine="netcdf4")
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    virtual = open_virtual_dataset(
        f"file://{os.path.abspath(source)}", registry, parser=hyperslab.zarr.VirtualizarrParser()
    )
    target = tmp_path / "b.json"
    virtual.vz.to_kerchunk(str(target), format="json")
    group: Any = hs.open(target)
    assert group["s"][()] == 3.5
    np.testing.assert_array_equal(group["t"][...], np.arange(4.0))
    found = xr.open_dataset(target, engine="hyperslab").load()
    assert float(found.s) == 3.5
