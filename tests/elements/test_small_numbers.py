"""Numbers smaller than NumPy's own, from ml_dtypes, compared with TensorStore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import ml_dtypes
import numpy as np
import pytest
import tensorstore as ts

FLOATS = [
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
]
INTEGERS = {"int2": (-2, 2), "int4": (-8, 8), "uint2": (0, 4), "uint4": (0, 16)}
COMPLEX = {"complex_bfloat16": "bcomplex32", "complex_float16": "complex32"}
NAMES = [*FLOATS, *INTEGERS, *COMPLEX]
# The types that TensorStore stores in Zarr v3.
TENSORSTORE = ["bfloat16", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "int4"]


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, COMPLEX.get(name, name)))


def values(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Returns random bits that are valid values of the type."""
    dtype = numpy_type(name)
    if name in INTEGERS:
        return rng.integers(*INTEGERS[name], shape).astype("i1").astype(dtype)
    bits = {"float6_e2m3fn": 64, "float6_e3m2fn": 64, "float4_e2m1fn": 16}.get(name, 256)
    raw = rng.integers(0, bits, (*shape, dtype.itemsize)).astype("u1")
    return raw.view(dtype)[..., 0]


def raw(array: Any) -> bytes:
    """Returns the bits of floats, and the values of integers, whose bytes have unused bits."""
    found = np.asarray(array)
    if found.dtype.name in INTEGERS:
        found = found.astype("i1")
    return np.ascontiguousarray(found).view(np.uint8).tobytes()


@pytest.mark.parametrize("shards", [None, (20, 16)])
@pytest.mark.parametrize("name", NAMES)
def test_round_trip(tmp_path: Path, rng: np.random.Generator, name: str, shards: Any) -> None:
    data = values(name, (37, 19), rng)
    z = hs.create_array(tmp_path / "a", data=data, chunks=(10, 8), shards=shards)
    document = json.loads((tmp_path / "a" / "zarr.json").read_text())
    assert document["data_type"] == name
    for array in (z, hs.open_array(tmp_path / "a")):
        assert array.dtype == numpy_type(name)
        found = array[...]
        assert found.dtype == data.dtype and raw(found) == raw(data)
        assert raw(array[3:30:4, ::-3]) == raw(data[3:30:4, ::-3])
        assert raw(array[5, 7]) == raw(data[5, 7]) and type(array[5, 7]) is type(data[5, 7])
        assert raw(array.oindex[[5, 1, 5], 2:9]) == raw(data[[5, 1, 5], 2:9])
        out = np.zeros_like(data)
        array.read(out=out)
        assert raw(out) == raw(data)
    z[2:5, 1:3] = 1
    data[2:5, 1:3] = 1
    assert raw(z[...]) == raw(data)
    with pytest.raises(hs.HyperslabError, match="out has elements of type"):
        z.read(out=np.zeros(data.shape, f"V{data.itemsize}"))
    assert hs.copy(tmp_path / "a", tmp_path / "b", chunks=(7, 19), verify=True).arrays == 1
    assert raw(hs.open_array(tmp_path / "b")[...]) == raw(data)
    assert f"dtype={numpy_type(name)}" in repr(hs.open_array(tmp_path / "b"))


@pytest.mark.parametrize("name", TENSORSTORE)
def test_tensorstore(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    data = values(name, (37, 19), rng)
    fill = data[0, 0]
    hs.create_array(tmp_path / "a", shape=(37, 19), dtype=name, chunks=(10, 8), fill_value=fill)[:30] = data[
        :30
    ]
    data[30:] = fill
    theirs = ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path}/a"}).result()
    assert raw(theirs.read().result()) == raw(data)
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/b"}
    new = ts.open(
        spec,
        create=True,
        dtype=theirs.dtype,
        shape=(37, 19),
        fill_value=fill,
        chunk_layout=ts.ChunkLayout(chunk_shape=(9, 9)),
    ).result()
    new[:20] = data[:20]
    data[20:] = fill
    ours = hs.open_array(tmp_path / "b")
    assert ours.dtype == data.dtype and raw(ours[...]) == raw(data)


@pytest.mark.parametrize("name", NAMES)
def test_fill_values(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    """Every value of the type is read back as it was written, also NaNs with a payload."""
    for n, fill in enumerate(values(name, (40,), rng)):
        z = hs.create_array(tmp_path / str(n), shape=(2,), dtype=numpy_type(name), fill_value=fill)
        assert raw(z[...]) == 2 * raw(fill)
        assert raw(hs.open_array(tmp_path / str(n)).fill_value) == raw(fill)
    # e8m0 has no zero: NumPy turns zero into NaN.
    z = hs.create_array(tmp_path / "default", shape=(2,), dtype=name)
    assert raw(z[...]) == bytes(2 * z.dtype.itemsize)


@pytest.mark.parametrize("name", FLOATS)
def test_fill_values_are_those_of_ml_dtypes(tmp_path: Path, name: str) -> None:
    """Numbers in metadata are rounded as in ml_dtypes."""
    dtype = numpy_type(name)
    largest = float(ml_dtypes.finfo(dtype).max)
    hs.create_array(tmp_path / "a", shape=(1,), dtype=dtype, fill_value=1)
    path = tmp_path / "a" / "zarr.json"
    document = json.loads(path.read_text())
    for fraction in (1.0, 0.7, 0.3, 0.11, 1e-3, 3e-5):
        document["fill_value"] = largest * fraction
        path.write_text(json.dumps(document))
        assert raw(hs.open_array(tmp_path / "a")[0]) == raw(np.array(largest * fraction, dtype))


def test_zarr_v2_has_none(tmp_path: Path) -> None:
    with pytest.raises(hs.HyperslabError, match=r"bfloat16.*Zarr v2"):
        hs.create_array(tmp_path / "a", shape=(3,), dtype="bfloat16", zarr_format=2)
    assert not (tmp_path / "a").exists()


def test_types_that_zarr_lacks(tmp_path: Path) -> None:
    with pytest.raises(hs.errors.DataTypeError, match="int1"):
        hs.create_array(tmp_path / "a", data=np.zeros(3, ml_dtypes.int1))
    assert not (tmp_path / "a").exists()


def test_the_package_is_imported_only_for_them(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(3).astype(ml_dtypes.bfloat16))
    hs.create_array(tmp_path / "b", data=np.arange(3))
    program = """
import sys, hyperslab as hs
hs.open_array(sys.argv[1] + "/b")[:]
assert "ml_dtypes" not in sys.modules
sys.modules["ml_dtypes"] = None
try:
    hs.open_array(sys.argv[1] + "/a")[:]
except ImportError as error:
    assert "bfloat16" in str(error) and "install" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
