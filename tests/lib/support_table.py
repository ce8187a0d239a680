"""Writes docs/support.md: the arrays that hyperslab writes, and their readers.

    python tests/lib/support_table.py

For each row hyperslab writes an array with different values. Then hyperslab and three peers open it
and read all of it. The table shows the observed results, not intentions.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import hyperslab as hs
import ml_dtypes
import numpy as np
import tensorstore
import zarr
import zarr.dtype
import zarr.registry
import zarrista
from numcodecs.registry import codec_registry

# A vertical bar inside a table cell.
BAR = chr(92) + "|"
SHAPE = (7, 10)
CHUNKS = (4, 5)
PEERS = {"zarr-python": zarr, "TensorStore": tensorstore, "zarrista": zarrista}


@dataclass
class Row:
    """An array: its name in the table, its values, and how to create it."""

    name: str
    values: np.ndarray[Any, Any]
    how: dict[str, Any]
    # For lossy codecs: the allowed difference.
    within: float = 0
    # Changes to the members of its document.
    document: dict[str, Any] = field(default_factory=dict)


def numbers(dtype: Any) -> np.ndarray[Any, Any]:
    """Returns small numbers that the type can represent."""
    dtype = np.dtype(dtype)
    few = {"uint2": 4, "int2": 2, "int4": 8, "float8_e8m0fnu": 0}.get(dtype.name, 12)
    values = np.arange(math.prod(SHAPE)).reshape(SHAPE) % few if few else np.full(SHAPE, 2)
    return values.astype("i1").astype(dtype)


def words(dtype: Any) -> np.ndarray[Any, Any]:
    return np.array([f"w{n % 13}" for n in range(math.prod(SHAPE))], dtype).reshape(SHAPE)


def objects(make: Callable[[int], Any]) -> np.ndarray[Any, Any]:
    values = np.empty(math.prod(SHAPE), object)
    values[:] = [make(n) for n in range(values.size)]
    return values.reshape(SHAPE)


def bits(name: str) -> np.dtype[Any]:
    other = {"complex_bfloat16": "bcomplex32", "complex_float16": "complex32"}.get(name, name)
    return np.dtype(getattr(ml_dtypes, other))


FIELDS = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", [("d", "<u2"), ("e", "S3")])])


def fields(dtype: Any) -> np.ndarray[Any, Any]:
    values = np.zeros(SHAPE, dtype)
    values["a"], values["b"] = numbers("i4"), numbers("f8") / 4
    return values


SMALL = """bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2
    float8_e5m2fnuz float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn int2 int4 uint2 uint4
    complex_float16 complex_bfloat16""".split()


def element_types() -> Iterator[Row]:
    plain: dict[str, Any] = {"compressors": None}
    v2 = {"zarr_format": 2, **plain}
    for name in "b1 i1 <i2 >i4 <i8 u1 <u2 >u4 <u8 <f2 >f4 <f8 <c8 >c16".split():
        yield Row(f"`{np.dtype(name).str}`", numbers(name), v2)
    yield Row("`|S5`", words("S5"), v2)
    yield Row("`<U5`", words("<U5"), v2)
    yield Row("`|V5`", words("S5").view("V5"), v2)
    yield Row("`<M8[us]`", numbers("i8").astype("<M8[us]"), v2)
    yield Row("`<m8[3h]`", numbers("i8").astype("<m8[3h]"), v2)
    yield Row("structure, nested", fields(FIELDS), v2)
    yield Row(
        "structure with a field that is an array",
        fields([("a", "<i4"), ("b", "<f8"), ("f", "<i2", (2,))]),
        v2,
    )
    yield Row("`|O`, `vlen-utf8`", words(object), v2 | {"dtype": str})
    yield Row("`|O`, `vlen-bytes`", words("S5").astype(object), v2 | {"dtype": bytes})
    rows = objects(lambda n: np.arange(n % 5, dtype="<i4"))
    yield Row("`|O`, `vlen-array`", rows, v2 | {"dtype": hs.vlen_dtype("<i4")})
    yield Row(
        "`|O`, `json2`",
        objects(lambda n: [n, {"a": None}]),
        v2 | {"dtype": object, "object_codec": {"id": "json2"}},
    )
    yield Row(
        "`|O`, `msgpack2`",
        objects(lambda n: [n, {"a": None}]),
        v2 | {"dtype": object, "object_codec": {"id": "msgpack2"}},
    )
    labels = {"id": "categorize", "labels": [f"w{n}" for n in range(13)], "dtype": "|O", "astype": "|u1"}
    yield Row("`|O`, `categorize`", words(object), v2 | {"dtype": object, "object_codec": labels})
    v3 = {"zarr_format": 3, **plain}
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
        yield Row(f"`{name}`", numbers(name), v3)
    for name in ("complex64", "complex128"):
        yield Row(f"`{name}`", numbers(name), v3)
    for name in SMALL:
        yield Row(f"`{name}`", numbers(bits(name)), v3)
    yield Row("`r40`", words("S5").view("V5"), v3, document={"data_type": "r40"})
    yield Row("`raw_bytes`", words("S5").view("V5"), v3)
    yield Row("`null_terminated_bytes`", words("S5"), v3)
    yield Row("`fixed_length_utf32`", words("<U5"), v3)
    yield Row("`numpy.datetime64`", numbers("i8").astype("<M8[us]"), v3)
    yield Row("`numpy.timedelta64`", numbers("i8").astype("<m8[3h]"), v3)
    yield Row("`struct`", fields(FIELDS), v3)
    yield Row("`string`", words(object), v3 | {"dtype": str})
    missing = np.ma.MaskedArray(numbers("i4"), numbers("i4") == 3)
    yield Row("`zarrs.optional`", missing, v3 | {"dtype": hs.optional_dtype("i4")})
    yield Row("`variable_length_bytes`", words("S5").astype(object), v3 | {"dtype": bytes})


def grids() -> Iterator[Row]:
    values = numbers("i4")
    for name, how in {
        "v2, separator `.`": {"zarr_format": 2},
        "v2, separator `/`": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "v2, `order` F": {"zarr_format": 2, "order": "F"},
        "v3, `default`": {},
        "v3, `default`, separator `.`": {"chunk_key_encoding": key("default", separator=".")},
        "v3, `v2`": {"chunk_key_encoding": key("v2", separator=".")},
        "v3, `suffix`": {"chunk_key_encoding": key("suffix", suffix=".bin")},
        "v3, `prefix`": {"chunk_key_encoding": key("prefix", prefix="x/", base_encoding="v2")},
        "v3, `template`": {"chunk_key_encoding": key("template", template="{1}_{0}.png")},
        "v3, `fanout`": {"chunk_key_encoding": key("fanout", max_children=4)},
        "v3, big-endian": {"serializer": hs.codecs.Bytes(endian="big")},
        "v3, `transpose`": {"filters": [hs.codecs.Transpose(order=(1, 0))]},
        "v3, `rectilinear`": {"chunks": [[3, 4], [5, 3, 2]]},
        "v3, `rectilinear`, shards": {"chunks": (1, 1), "shards": [[3, 4], [5, 3, 2]]},
        "v3, shards": {"shards": (8, 10)},
        "v3, shards, index at the start": {
            "chunks": (8, 10),
            "serializer": hs.codecs.Sharding(chunk_shape=CHUNKS, index_location="start"),
        },
        "v3, shards within shards": {
            "chunks": (8, 10),
            "serializer": hs.codecs.Sharding(
                chunk_shape=CHUNKS, codecs=[hs.codecs.Sharding(chunk_shape=(2, 5))]
            ),
        },
        "v3, shards behind `zarrs.squeeze`": {
            "chunks": (1, 10),
            "filters": [hs.codecs.Squeeze()],
            "serializer": hs.codecs.Sharding(chunk_shape=(5,)),
        },
    }.items():
        yield Row(name, values, {"compressors": None, **how})


def key(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def codecs() -> Iterator[Row]:
    values, floats = numbers("<i4"), numbers("<f4")
    for name, values_, how in [
        ("gzip", values, {"level": 5}),
        ("zlib", values, {"level": 1}),
        ("zstd", values, {"level": 3}),
        ("blosc", values, {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        ("lz4", values, {"acceleration": 1}),
        ("bz2", values, {"level": 1}),
        ("lzma", values, {"format": 1, "check": -1, "preset": None, "filters": None}),
        ("pcodec", floats, {"level": 8}),
        ("zfpy", floats, {"mode": 5, "tolerance": -1, "rate": -1, "precision": -1}),
        ("base64", values, {}),
        ("shuffle", values, {"elementsize": 4}),
        ("crc32", values, {}),
        ("adler32", values, {}),
        ("crc32c", values, {}),
        ("fletcher32", values, {}),
        ("jenkins_lookup3", values, {}),
    ]:
        how = {"id": name, **how}
        yield Row(f"v2 `{name}`", values_, {"zarr_format": 2, "compressors": how})
    for name, values_, how, within in filters():
        for zarr_format in (2, 3):
            codec = {"id": name, **how} if zarr_format == 2 else key(f"numcodecs.{name}", **how)
            label = f"v2 `{name}`" if zarr_format == 2 else f"v3 `numcodecs.{name}`"
            if zarr_format == 3 and name in ("categorize", "base64"):
                continue
            more: dict[str, Any] = {"zarr_format": zarr_format, "filters": [codec], "compressors": None}
            yield Row(label, values_, more, within)
    for name, values_, configuration in [
        ("gzip", values, {"level": 5}),
        ("zstd", values, {"level": 3, "checksum": True}),
        (
            "blosc",
            values,
            {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        ),
        ("crc32c", values, {}),
        ("numcodecs.gzip", values, {"level": 1}),
        ("numcodecs.zstd", values, {"level": 1}),
        ("numcodecs.blosc", values, {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        ("numcodecs.crc32c", values, {"location": "end"}),
        ("numcodecs.zlib", values, {"level": 1}),
        ("numcodecs.lz4", values, {"acceleration": 1}),
        ("numcodecs.bz2", values, {"level": 1}),
        ("numcodecs.lzma", values, {"format": 1, "check": -1, "preset": None, "filters": None}),
        ("numcodecs.shuffle", values, {"elementsize": 4}),
        ("numcodecs.crc32", values, {}),
        ("numcodecs.adler32", values, {}),
        ("numcodecs.fletcher32", values, {}),
        ("numcodecs.jenkins_lookup3", values, {}),
    ]:
        yield Row(f"v3 `{name}`", values_, {"compressors": key(name, **configuration)})
    for name, values_, configuration in [
        ("packbits", numbers("b1"), {}),
        ("zfp", floats, {"mode": "reversible"}),
        ("numcodecs.pcodec", floats, {"level": 8}),
        ("numcodecs.zfpy", floats, {"mode": 5, "tolerance": -1, "rate": -1, "precision": -1}),
    ]:
        yield Row(f"v3 `{name}`", values_, {"serializer": key(name, **configuration), "compressors": None})
    for name, values_, configuration, within in [
        ("bitround", floats, {"keepbits": 8}, 0.0),
        ("scale_offset", floats, {"scale": 2.0, "offset": 1.0}, 0.0),
        ("cast_value", floats, {"data_type": "int16"}, 0.0),
        ("reshape", values, {"shape": [[0, 1]]}, 0.0),
        ("zarrs.squeeze", values, {}, 0.0),
    ]:
        more = {"filters": [key(name, **configuration)], "compressors": None}
        yield Row(f"v3 `{name}`", values_, more, within)


def filters() -> Iterator[tuple[str, Any, dict[str, Any], float]]:
    values, floats = numbers("<i4"), numbers("<f4")
    yield "delta", values, {"dtype": "<i4", "astype": "<i4"}, 0
    scaled = {"offset": 0, "scale": 10, "dtype": "<f4", "astype": "<i2"}
    yield "fixedscaleoffset", floats, scaled, 1e-6
    yield "quantize", floats, {"digits": 2, "dtype": "<f4", "astype": "<f4"}, 0.01
    yield "astype", floats, {"encode_dtype": "<i4", "decode_dtype": "<f4"}, 0
    yield "bitround", floats, {"keepbits": 8}, 0
    yield "packbits", numbers("b1"), {}, 0
    labels = [f"w{n}" for n in range(13)]
    yield "categorize", words("<U3"), {"labels": labels, "dtype": "<U3", "astype": "|u1"}, 0


def by_hyperslab(path: Path, _: Row) -> Any:
    return hs.open_array(path)[...]


def by_zarr_python(path: Path, _: Row) -> Any:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(path, mode="r")[...]


def by_tensorstore(path: Path, row: Row) -> Any:
    driver = "zarr" if row.how.get("zarr_format") == 2 else "zarr3"
    spec = {"driver": driver, "kvstore": f"file://{path}/"}
    found = tensorstore.open(spec).result().read().result()
    if not found.dtype.itemsize:
        raise TypeError("its Python arrays of raw bytes have no bytes")
    return found


def by_zarrista(path: Path, row: Row) -> Any:
    array = zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), "/")
    found = array.retrieve_array_subset(tuple(slice(0, n) for n in SHAPE))
    if not isinstance(row.values, np.ma.MaskedArray):
        return found.to_numpy()
    valid = np.frombuffer(found.mask.buffer(), bool).reshape(SHAPE)
    return np.ma.MaskedArray(np.frombuffer(found.data.buffer(), row.values.dtype).reshape(SHAPE), ~valid)


READERS = {
    "hyperslab": by_hyperslab,
    "zarr-python": by_zarr_python,
    "TensorStore": by_tensorstore,
    "zarrista": by_zarrista,
}


def same(found: Any, row: Row) -> bool:
    """Compares values. Types may differ in byte order and in the library that defines them."""
    if isinstance(row.values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(row.values)
        return bool(np.array_equal(np.ma.getmaskarray(found), mask) and (found == row.values).all())
    found, wanted = np.asarray(found), row.values
    if found.shape != wanted.shape:
        return False
    if row.within:
        return bool(np.allclose(found, wanted, rtol=0, atol=row.within))
    if isinstance(wanted.flat[0], np.ndarray):
        return all(map(np.array_equal, found.flat, wanted.flat))
    if wanted.dtype.kind in "OUST":
        return bool((found.astype(object) == wanted.astype(object)).all())
    if wanted.dtype.name in SMALL and wanted.dtype.kind == "V" and found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind == "V" and wanted.dtype.names is None and found.dtype != wanted.dtype:
        return found.tobytes() == wanted.tobytes()
    try:
        return bool((found == wanted).all())
    except TypeError:
        return False


def verdict(read: Callable[[Path, Row], Any], path: Path, row: Row) -> str:
    """Returns the result of a reader: the same values, others, or an error."""
    try:
        found = read(path, row)
    except Exception:
        return "–"
    return "yes" if same(found, row) else "other values"


def verdicts(row: Row, readers: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="hyperslab-") as path, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = Path(path) / "a"
        how = {"chunks": CHUNKS, "zarr_format": 3, **row.how}
        if "dtype" in how:
            hs.create_array(here, shape=SHAPE, **how)[...] = row.values
        else:
            hs.create_array(here, data=row.values, **how)
        if row.document:
            document = json.loads((here / "zarr.json").read_text())
            (here / "zarr.json").write_text(json.dumps(document | row.document))
        return [verdict(READERS[name], here, row) for name in readers]


TABLES = {"Element types": element_types, "Grids, keys, shards": grids, "Codecs": codecs}


def text() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    lines = [
        "# Who reads what",
        "",
        f"hyperslab writes; hyperslab, {versions} read. “yes”: the same values; “–”: an error.",
        "`python tests/lib/support_table.py` makes this page, and a test compares it with what it finds.",
        "[Formats](formats.md) explains the names. zarr-python reads `zfpy` with the package zfpy, which",
        "was missing.",
    ]
    for title, rows in TABLES.items():
        lines += ["", f"## {title}", "", f"| | {' | '.join(READERS)} |", "|---" * (len(READERS) + 1) + "|"]
        lines += [
            f"| {row.name.replace('|', BAR)} | {' | '.join(verdicts(row, list(READERS)))} |" for row in rows()
        ]
    return "\n".join(lines) + "\n"


def version(name: str) -> str:
    package = {"zarr-python": "zarr"}.get(name, name.lower())
    return metadata.version(package)


def found() -> dict[str, Any]:
    """Returns all results. The test runs this in another process: its own may have more codecs."""
    rows = {
        title: {row.name: verdicts(row, list(READERS)) for row in rows()} for title, rows in TABLES.items()
    }
    names = {*codec_registry, *zarr.dtype.data_type_registry.contents, *zarr.registry._codec_registries}
    return {"versions": [version(name) for name in PEERS], "rows": rows, "names": sorted(names)}


if __name__ == "__main__":
    # A failing reader must not print a backtrace.
    os.environ.setdefault("RUST_BACKTRACE", "0")
    if sys.argv[1:] == ["--json"]:
        sys.stdout.write(json.dumps(found()))
        sys.exit()
    target = Path(__file__).parents[2] / "docs" / "support.md"
    target.write_text(text())
    sys.stdout.write(f"{target}\n")
