"""Files and arguments of a few bytes that ask for gigabytes raise an error, not end the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from test_limits import limited

GIB = 1 << 30

# Defines `outcome`, which prints the class of the error that a call raises.
OUTCOME = """
import warnings
warnings.simplefilter("ignore")
def outcome(call):
    try:
        call()
        print("fine")
    except (hs.errors.HyperslabError, MemoryError) as error:
        print(type(error).__name__, str(error).replace(sys.argv[4], ""))
"""


# ---- references in Parquet


@pytest.mark.parametrize("kind", ["null", "path", "short", "long"])
def test_folders_of_references_for_millions_of_rows(tmp_path: Path, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = 10_000_000
    folder = tmp_path / "refs.parq"
    (folder / "a").mkdir(parents=True)
    array: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [rows],
        "chunks": [1],
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    metadata = {".zgroup": {"zarr_format": 2}, "a/.zarray": array}
    (folder / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": rows}))

    def same(value: bytes | str | None) -> Any:
        kind = pyarrow.string() if isinstance(value, str) else pyarrow.binary()
        return pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(np.zeros(rows, "i4")), pyarrow.array([value], kind)
        )

    raw = {"short": b"abcd", "long": b"x" * 1000}.get(kind)
    zeros = pyarrow.array(np.zeros(rows, "i8"))
    columns = {
        "path": same("file:///tmp/x") if kind == "path" else pyarrow.nulls(rows, pyarrow.string()),
        "offset": zeros,
        "size": zeros,
        "raw": pyarrow.nulls(rows, pyarrow.binary()) if raw is None else same(raw),
    }
    parquet.write_table(pyarrow.table(columns), folder / "a" / "refs.0.parq", compression="zstd")
    said = limited("RLIMIT_AS", 2 * GIB, OUTCOME + "outcome(lambda: hs.open(sys.argv[4])['a'][0:2])", folder)
    assert "bytes of memory: write files of fewer rows" in said, said


def test_many_rows_that_share_bytes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = 1_000_000
    folder = tmp_path / "refs.parq"
    folder.mkdir()
    array = {
        "zarr_format": 2,
        "shape": [rows, 250],
        "chunks": [1, 250],
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    document = {"metadata": {".zarray": array}, "record_size": rows}
    (folder / ".zmetadata").write_text(json.dumps(document))
    values = np.arange(250, dtype="<i4")
    raw = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(np.arange(rows, dtype="i4") % 2), pyarrow.array([values.tobytes(), bytes(1000)])
    )
    zeros = pyarrow.array(np.zeros(rows, "i8"))
    table = {"path": pyarrow.nulls(rows, pyarrow.string()), "offset": zeros, "size": zeros, "raw": raw}
    parquet.write_table(pyarrow.table(table), folder / "refs.0.parq")
    program = "print(hs.open(sys.argv[4])[rows - 4:].sum(axis=1).tolist())".replace("rows", str(rows))
    assert limited("RLIMIT_AS", 2 * GIB, program, folder) == f"[{values.sum()}, 0, {values.sum()}, 0]\n"


# ---- elements

ELEMENTS = """
for call in (
    lambda: hs.create_array({}, shape=(4,), dtype="V2000000000"),
    lambda: hs.create_array({}, shape=(4,), dtype="U500000000"),
    lambda: hs.create_array({}, shape=(4,), dtype="V2000000000", zarr_format=2),
    lambda: hs.full(3, "x", store={}, dtype="S1000000000"),
    lambda: hs.zeros(3, store={}, dtype="S1000000000"),
    lambda: hs.create_array({}, shape=(4,), dtype=[("a", "V2000000000")]),
):
    outcome(call)
"""


def test_elements_of_new_arrays(tmp_path: Path) -> None:
    said = limited("RLIMIT_AS", 3 * GIB, OUTCOME + ELEMENTS, tmp_path).splitlines()
    assert len(said) == 6
    for line in said:
        assert line.startswith("UnsupportedError") and "16777216" in line, line


# ---- chunks in references

INDEX = """
import runpy, sys
sys.argv = ["hyperslab", "index", sys.argv[1], "--inline", "100G"]
runpy.run_module("hyperslab", run_name="__main__")
"""


@pytest.mark.parametrize("kind", ["netcdf3", "hdf5"])
def test_chunks_that_references_cannot_hold(tmp_path: Path, kind: str) -> None:
    path, bytes_of_chunk = tmp_path / "big.nc", 1_800_000_000
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (bytes_of_chunk // 8,), "f8")[-1] = 1
    else:
        netcdf = pytest.importorskip("scipy.io").netcdf_file
        with netcdf(path, "w", version=2) as file:
            file.createDimension("n", 10)
            file.createVariable("x", "f8", ("n",))[:] = 1
        head = path.read_bytes()[:-80]
        # The length of the dimension, and the size of the variable in bytes.
        head = head.replace(
            b"\0\0\0\1n\0\0\0\0\0\0\n", b"\0\0\0\1n\0\0\0" + (bytes_of_chunk // 8).to_bytes(4, "big")
        )
        head = head.replace(b"\0\0\0\6\0\0\0\x50", b"\0\0\0\6" + bytes_of_chunk.to_bytes(4, "big"))
        path.write_bytes(head)
        with path.open("r+b") as stream:
            stream.truncate(len(head) + bytes_of_chunk)
    program = f"""
import subprocess
done = subprocess.run([sys.executable, "-c", {INDEX!r}, sys.argv[4]],
    capture_output=True, text=True)
print(done.returncode, done.stderr)
"""
    said = limited("RLIMIT_AS", 3 * GIB, program, path)
    assert said.startswith("1 ") and f"cannot get {bytes_of_chunk} bytes of memory" in said, said
    assert "smaller --inline" in said


# ---- codecs


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_small_integers_of_zfp(tmp_path: Path, dtype: str) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    count = 100_000_000
    (tmp_path / "c").mkdir()
    codecs = [
        {"name": "zfp", "configuration": {"mode": "reversible"}},
        {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    ]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [count],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [count]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": codecs,
        "fill_value": 0,
        "attributes": {},
    }
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    # A block of zeros takes six bits.
    stored = bytes(numcodecs.Zstd(1).encode(bytes(-(-(count // 4 * 6) // 64) * 8)))
    assert len(stored) < 1000
    (tmp_path / "c" / "0").write_bytes(stored)
    base = (
        "import resource; size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    )
    base += "resource.setrlimit(resource.RLIMIT_AS, (size + (640 << 20),) * 2)\n"
    said = limited(
        "RLIMIT_AS", 8 * GIB, OUTCOME + base + "outcome(lambda: hs.open(sys.argv[4])[0:1])", tmp_path
    )
    assert said == "fine\n" or "memory" in said, said


# ---- levels


@pytest.mark.parametrize(
    "codec",
    [
        {"id": "gzip", "level": 77},
        {"id": "zlib", "level": 77},
        {"id": "bz2", "level": 77},
        {"id": "blosc", "cname": "lz4", "clevel": 50, "shuffle": 1, "blocksize": 0},
        {
            "name": "blosc",
            "configuration": {
                "cname": "zstd",
                "clevel": 77,
                "shuffle": "shuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        },
    ],
)
def test_levels_that_encoders_do_not_have(tmp_path: Path, codec: dict[str, Any]) -> None:
    zarr = pytest.importorskip("zarr")
    zarr_format = 2 if "id" in codec else 3
    good: Any = json.loads(json.dumps(codec))
    settings = good.get("configuration", good)
    settings["level" if "level" in settings else "clevel"] = 5
    path = tmp_path / "a.zarr"
    data = np.arange(400, dtype="i4").reshape(20, 20)
    array = hs.create_array(
        path, shape=data.shape, chunks=(5, 5), dtype="i4", zarr_format=zarr_format, compressors=good
    )
    array[:] = data
    document = path / (".zarray" if zarr_format == 2 else "zarr.json")
    edited = json.loads(document.read_text())
    if zarr_format == 2:
        edited["compressor"] = codec
    else:
        edited["codecs"][-1] = codec
    document.write_text(json.dumps(edited))
    assert (zarr.open_array(path, mode="r")[:] == data).all()
    found = hs.open_array(path, mode="r+")
    assert (found[:] == data).all()
    with pytest.raises(hs.errors.HyperslabError, match="level"):
        found[:5] = 7
    assert (hs.open_array(path, mode="r")[:] == data).all()
    with pytest.raises(hs.errors.HyperslabError, match="level"):
        hs.create_array(
            tmp_path / "b.zarr", shape=(4,), dtype="i4", zarr_format=zarr_format, compressors=codec
        )
