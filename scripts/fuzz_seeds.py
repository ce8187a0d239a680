"""Writes the files that fuzzing starts from: fuzz_seeds.py [FOLDER]

Each target of `fuzz/fuzz_targets` gets a folder `FOLDER/TARGET` (default: `fuzz/corpus`) of small valid
inputs, written by hyperslab, h5py, zarr-python, netCDF4-python and others. The seeds of `codec_*` are
written by the codecs themselves (`fuzz/examples/codec_seeds.rs`).
"""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pyarrow
import pyarrow.parquet
import zarr

ROOT = Path(__file__).resolve().parents[1]
Seeds = Iterator[bytes]

#: Between the parts of an input. No text has this byte.
SPLIT = b"\xff"
#: Longer files are left out: a fuzzer runs short inputs more often.
LONGEST = 1 << 14


def documents(folder: Path, zarr_format: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Writes arrays of many kinds. Returns their folders, and their documents."""
    values = np.arange(48).reshape(6, 8)
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"data": values.astype("<i2"), "compressors": None},
        "big": {"data": values.astype(">f8"), "chunks": (4, 4), "compressors": None},
        "bool": {"data": values % 2 == 0},
        "complex": {"data": values.astype("c8")},
        "text": {"data": np.array([f"é{n}" for n in range(7)]).astype("U3")},
        "time": {"data": values.astype("M8[s]")},
        "zero": {"data": np.array(5.5)},
        "empty": {"shape": (0, 3), "dtype": "u1", "chunks": (1, 3)},
        "attributes": {
            "data": values.astype("<i2"),
            "attributes": {
                "scale_factor": 0.1,
                "add_offset": 1,
                "_FillValue": -1,
                "units": "days since 2000-1-1",
            },
            "dimension_names": ("t", "x"),
        },
    }
    for name in ("gzip", "zstd", "blosc"):
        codec = {"gzip": hs.codecs.Gzip(), "zstd": hs.codecs.Zstd(), "blosc": hs.codecs.Blosc()}[name]
        kinds[name] = {"data": values.astype("<f4"), "chunks": (6, 8), "compressors": codec}
    if zarr_format == 3:
        kinds["shards"] = {"data": values.astype("<i2"), "chunks": (2, 4), "shards": (4, 8)}
        kinds["crc"] = {"data": values.astype("<i2"), "compressors": hs.codecs.Crc32c()}
        kinds["strings"] = {"data": np.array(["a", "bcd", ""], "T"), "chunks": (3,)}
    for name, how in kinds.items():
        place = folder / f"{zarr_format}-{name}"
        hs.create_array(str(place), zarr_format=zarr_format, **how)
        document = place / ("zarr.json" if zarr_format == 3 else ".zarray")
        yield place, json.loads(document.read_text())
    for name, dtype in (("bytes", "S3"), ("fields", [("a", "<i2"), ("b", "f4")])):
        place = folder / f"{zarr_format}-zarr-{name}"
        try:
            zarr.create_array(str(place), shape=(5,), dtype=np.dtype(dtype), zarr_format=zarr_format)
        except (TypeError, ValueError, NotImplementedError):
            continue
        yield place, json.loads((place / ("zarr.json" if zarr_format == 3 else ".zarray")).read_text())


def dump(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def of_zarr(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Documents, chunks and consolidated metadata."""
    for zarr_format, target in ((2, "zarr_v2"), (3, "zarr_v3")):
        for place, document in documents(folder, zarr_format):
            attributes = place / ".zattrs"
            text = attributes.read_bytes() if attributes.exists() else b"{}"
            yield target, dump(document) + (SPLIT + text if zarr_format == 2 else b"")
            yield "json", dump(document)
            for chunk in [path for path in place.rglob("*") if path.is_file() and path.name[0].isdigit()][:1]:
                yield "zarr_chunks", dump(document) + SPLIT + chunk.read_bytes()
            if zarr_format == 2:
                yield "dtypes", dump(document["dtype"]) + SPLIT + dump(document["fill_value"])
            else:
                yield "dtypes", dump(document["data_type"]) + SPLIT + dump(document["fill_value"])
                yield "chunk_keys", dump(document["chunk_key_encoding"]) + SPLIT + b"c/0/1"
    both: list[Any] = [2, 3]
    for zarr_format in both:
        group = hs.create_group(str(folder / f"group-{zarr_format}"), zarr_format=zarr_format)
        group.create_array("a", data=np.arange(6))
        group.create_group("g", attributes={"x": [1, "é"]}).create_array("b", data=np.zeros((2, 2)))
        hs.consolidate_metadata(str(folder / f"group-{zarr_format}"))
        name = "zarr.json" if zarr_format == 3 else ".zmetadata"
        yield "consolidated", (folder / f"group-{zarr_format}" / name).read_bytes()
    for key in ("c.0.1", "0/1", "c", "0"):
        for name, separator in (("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")):
            encoding = {"name": name, "configuration": {"separator": separator}}
            yield "chunk_keys", dump(encoding) + SPLIT + key.encode()
    for kind in ("suffix", "fanout"):
        configuration = {"suffix": ".x", "base-encoding": {"name": "default"}, "max_children": 11}
        yield "chunk_keys", dump({"name": kind, "configuration": configuration}) + SPLIT + b"c/0/1.x"
    for name, value in (
        ("<f4", "NaN"),
        (">i8", -5),
        ("|S3", "YWJj"),
        ("<U2", "ab"),
        ("<M8[10us]", 7),
        ("r16", [1, 2]),
    ):
        yield "dtypes", name.encode() + SPLIT + dump(value)
    yield "dtypes", b'[["a","<i2"],["b","|S3",[2]]]' + SPLIT + b'"AAA="'


def shard_document(choice: int) -> dict[str, Any]:
    """The document that `fuzz_targets/shard.rs` makes of its first byte."""
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = (
        [little, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
        if choice & 1
        else [little]
    )
    index = [little, {"name": "crc32c"}] if choice & 2 else [little]
    location = "start" if choice & 4 else "end"

    def shard(chunk: list[int], codecs: list[Any]) -> dict[str, Any]:
        settings = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": index, "index_location": location}
        return {"name": "sharding_indexed", "configuration": settings}

    codecs = [shard([4, 4], inner)]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8, 14],
        "data_type": "uint16",
        "fill_value": 9,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 16]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [shard([4, 8], codecs)] if choice & 8 else codecs,
    }


def shard(folder: Path) -> Seeds:
    for choice in range(16):
        place = folder / f"shard-{choice}"
        place.mkdir()
        (place / "zarr.json").write_bytes(dump(shard_document(choice)))
        array = hs.open_array(str(place), mode="r+")
        array[...] = np.arange(8 * 14, dtype="u2").reshape(8, 14)
        yield bytes([choice]) + (place / "c/0/0").read_bytes()
        array[4:, :8] = 9
        yield bytes([choice]) + (place / "c/0/0").read_bytes()


def write_h5py(path: Path, libver: str) -> None:
    values = np.arange(96, dtype="<i4").reshape(8, 12)
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["text"], file.attrs["number"] = "é", np.float32(1.5)
        file.attrs["lists"] = [1, 2, 3]
        file["contiguous"] = values


#: Filters, one of each.
FILTERS: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "scaleoffset": {"scaleoffset": 5},
    "plain": {},
}


def h5py_chunks(folder: Path) -> Seeds:
    """Files with one dataset each: every kind of chunk index, every filter."""
    values = np.arange(96, dtype="<i4").reshape(8, 12)
    for libver in ("earliest", "latest"):
        for name, options in FILTERS.items():
            for unlimited in range(3):
                path = folder / f"{libver}-{name}-{unlimited}.h5"
                maxshape = tuple(None if axis < unlimited else n for axis, n in enumerate(values.shape))
                with h5py.File(path, "w", libver=libver) as file:
                    file.create_dataset("a", data=values, chunks=(4, 4), maxshape=maxshape, **options)
                yield path.read_bytes()


def write_h5py_vlen(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("text", data=["a", "bcd"], dtype=h5py.string_dtype())
        file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i2"))
        file["lists"][0] = [1, 2, 3]
        file.attrs["text"] = "é"


def write_h5py_types(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file["fields"] = np.zeros(3, [("a", "<i2"), ("b", ">f8", (2,)), ("c", "S3")])
        file.create_dataset("enum", data=[0, 1], dtype=h5py.enum_dtype({"no": 0, "yes": 1}))
        file.create_dataset("complex", data=np.zeros(2, "c16"))
        file["type"] = np.dtype("f4")
        file.create_dataset("committed", (3,), dtype=file["type"], fillvalue=5)
        file["empty"] = h5py.Empty("f4")


def write_h5py_links(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file["a"] = np.arange(3.0)
        group = file.create_group("group")
        group["soft"], group["external"] = h5py.SoftLink("/a"), h5py.ExternalLink("other.h5", "/x")
        group["hard"] = file["a"]
        file.create_dataset("reference", data=[file["a"].ref], dtype=h5py.ref_dtype)
        region = file["a"].regionref[0:2]
        file.create_dataset("region", data=[region], dtype=h5py.regionref_dtype)
        file["scale"] = np.arange(3.0)
        file["scale"].make_scale("x")
        file["a"].dims[0].attach_scale(file["scale"])


def write_h5py_many(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        for number in range(12):
            file.attrs[f"attribute {number}"] = number
            file.create_group(f"group {number}", track_order=number % 2 == 0)


def write_h5py_virtual(path: Path, libver: str) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        file["a"] = np.arange(4)
        layout = h5py.VirtualLayout((2, 4), "i8")
        layout[0] = h5py.VirtualSource(".", "a", (4,))
        layout[1, 1:3] = h5py.VirtualSource("other.h5", "b", (2,))
        file.create_virtual_dataset("virtual", layout, fillvalue=-1)


def write_netcdf(path: Path, file_format: Any) -> None:
    with netCDF4.Dataset(path, "w", format=file_format) as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.title = "a title"
        time = file.createVariable("time", "i4", ("time",))
        time.units = "hours since 2000-01-01"
        packed = file.createVariable("packed", "i2", ("time", "x"), fill_value=-1)
        packed.scale_factor = 0.5
        packed.set_auto_maskandscale(False)
        time[:], packed[:] = [0, 6], np.arange(6).reshape(2, 3)


def write_hyperslab(path: Path, libver: str) -> None:
    with hs.h5.File(str(path), "w", libver=libver) as file:
        file.create_dataset("a", data=np.arange(24).reshape(4, 6), chunks=(2, 3), maxshape=(None, 6))
        file.create_dataset("g/b", data=np.zeros(3), compression="gzip", chunks=(3,))
        file["a"].attrs["units"] = "K"


def hdf5(folder: Path) -> Seeds:
    writers: list[Callable[[Path, str], None]] = [
        write_h5py,
        write_h5py_vlen,
        write_h5py_types,
        write_h5py_links,
        write_h5py_many,
        write_h5py_virtual,
        write_hyperslab,
    ]
    for writer in writers:
        for libver in ("earliest", "latest"):
            path = folder / f"{writer.__name__}-{libver}.h5"
            writer(path, libver)
            yield path.read_bytes()
    yield from h5py_chunks(folder)
    path = folder / "netcdf4.nc"
    write_netcdf(path, "NETCDF4")
    yield path.read_bytes()


def netcdf3(folder: Path) -> Seeds:
    for name in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        path = folder / f"{name}.nc"
        write_netcdf(path, name)
        yield path.read_bytes()


#: The numbers by which `crates/hdf5/src/fuzzing.rs` selects parsers, by the type of a message.
PARTS = {
    0x15: 0,
    0x0C: 1,
    0x08: 3,
    0x01: 4,
    0x07: 5,
    0x05: 6,
    0x04: 7,
    0x0B: 8,
    0x06: 9,
    0x02: 10,
    0x11: 11,
    0x03: 15,
}


def messages(file: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of the object headers of version 2 in a file."""
    at = file.find(b"OHDR")
    while at >= 0:
        flags = file[at + 5]
        width = 1 << (flags & 3)
        place = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        end = place + width + int.from_bytes(file[place : place + width], "little")
        place += width
        while place + 4 <= end:
            kind, size = struct.unpack_from("<BH", file, place)
            place += 4 + (2 if flags & 4 else 0)
            yield kind, file[place : place + size]
            place += size
        at = file.find(b"OHDR", at + 4)


def hdf5_parts(files: list[bytes]) -> Seeds:
    for file in files:
        yield bytes([16]) + file[:96]
        for kind, data in messages(file):
            if kind in PARTS:
                yield bytes([PARTS[kind]]) + data
    # A regular selection of version 1, and mappings of a virtual dataset.
    yield bytes([19]) + struct.pack("<IIIIIII", 2, 1, 0, 4 + 4 + 16, 1, 1, 0) + struct.pack("<II", 0, 3)
    for file in files:
        at = file.find(b"GCOL")
        if at >= 0:
            yield bytes([20]) + file[at + 32 : at + 400]
    yield bytes([21]) + b"HSREDO\x00\x00" + bytes(60)


def zips() -> Seeds:
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", kind) as archive:
            archive.comment = b"a comment"
            archive.writestr("zarr.json", b'{"zarr_format":3,"node_type":"group"}')
            archive.writestr("é/c/0", bytes(100))
            with archive.open("big", "w", force_zip64=True) as member:
                member.write(b"abc")
        yield buffer.getvalue()


ZARRAY = {
    "zarr_format": 2,
    "shape": [6],
    "chunks": [2],
    "dtype": "|u1",
    "compressor": None,
    "fill_value": 9,
    "filters": None,
    "order": "C",
}


def references_json(files: list[bytes], folder: Path) -> Seeds:
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "a/.zarray": json.dumps(ZARRAY),
        "a/0": ["data", 3, 2],
        "a/1": ["{{u}}"],
        "a/2": "base64:Bwg=",
    }
    yield dump(refs)
    generated = {
        "key": "a/{{i}}",
        "url": "{{u}}",
        "offset": "{{i * 2 + 1}}",
        "length": "2",
        "dimensions": {"i": {"start": 0, "stop": 3}, "j": [0]},
    }
    templates = {"u": "data", "f": "{{c}}x"}
    yield dump({"version": 1, "templates": templates, "gen": [generated], "refs": refs})
    for number, file in enumerate(files[:20]):
        path = folder / f"references-{number}"
        path.write_bytes(file)
        refs_json = folder / f"references-{number}.json"
        command = [sys.executable, "-m", "hyperslab", "index", str(path), "-o", str(refs_json)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode == 0 and refs_json.stat().st_size <= 1 << 12:
            yield refs_json.read_bytes()


def parquet_rows() -> Seeds:
    paths = ["data", None, "data", "other"] * 5
    for compression in ("NONE", "SNAPPY", "ZSTD"):
        for dictionary in (True, False):
            table = pyarrow.table(
                {
                    "path": pyarrow.array(paths, pyarrow.string()),
                    "offset": pyarrow.array(range(20), pyarrow.int64()),
                    "size": pyarrow.array([2] * 20, pyarrow.int64()),
                    "raw": pyarrow.array([None, b"ab"] * 10, pyarrow.binary()),
                }
            )
            buffer = io.BytesIO()
            pyarrow.parquet.write_table(table, buffer, compression=compression, use_dictionary=dictionary)
            yield buffer.getvalue()


def copy_plans(folder: Path) -> Seeds:
    """Plans of copies as their journals have them, and a range of tasks."""
    group = hs.create_group(str(folder / "plan.zarr"))
    group.create_array("a", data=np.arange(48).reshape(6, 8), chunks=(2, 4))
    group.create_array("b", data=np.arange(6.0), chunks=(2,))
    for how in ({"chunks": {"a": (6, 1)}}, {"zarr_format": 2}, {"max_memory": 4096, "chunks": {"a": (3, 8)}}):
        try:
            plan = hs.plan_copy(str(folder / "plan.zarr"), str(folder / "to.zarr"), **how)
        except (TypeError, ValueError):
            continue
        yield plan.to_json().encode()
    numbers = ("block", "parts", "from_start", "to_start", "shape")
    one = {
        "path": "a",
        "target": "a",
        "zarr_format": 3,
        "document": "{}",
        "from": None,
        "to": ["temporary/0/0", [2, 2]],
        "threads": 2,
        "requests": 2,
        "is_new": True,
        **{name: [2, 2] for name in numbers},
    }
    parts = [{"first": 0, "parts": [[0, 0, 4]], "each": 2}]
    yield dump(
        {"stage": 0, "first": 0, "end": 2, "records": ["0-2"], "parts": parts, "arrays": [[0, 0, one]]}
    )


def journals(folder: Path) -> Seeds:
    """Journals of a validation and of a repair."""
    store = folder / "journal.zarr"
    array = hs.create_array(str(store), data=np.arange(64.0), chunks=(16,))
    chunk = store / "c" / "1"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    del array
    journal = folder / "validate.journal"
    hs.validate(store, decode=True, resume=journal)
    yield journal.read_bytes()
    hs.repair(store, hs.repair(store))
    for made in folder.glob("journal.zarr.quarantine/*/journal.json"):
        yield made.read_bytes()
    changes = [
        {"change": "bytes", "offset": 9, "old": "00ff", "new": "0102"},
        {"change": "length", "old": 5, "new": 9},
    ]
    yield dump({"version": 1, "plan": "0a", "changes": changes})


def cache_entry() -> Seeds:
    payload = bytes(range(40))
    sums = struct.pack("<I", 0)
    for texts in (b'\x05\x00"tag"\xff\xff\xff\xff', b"\xff\xff\x01\x007\xff\xff"):
        head = struct.pack("<QQQq", 100, 10, 50, 1_700_000_000) + texts + sums
        yield struct.pack("<H", len(head)) + head + payload


TEXTS: dict[str, list[bytes]] = {
    "selections": [b"[0, :, ::2]", b"...", b"-1, 1:5:2, ::-1", b"[::-2, ...]", b"5", b""],
    "locations": [
        b"s3://bucket/prefix\xffkey=a\nsecret=b\nclient_kwargs.region_name=x\ncache_size=20 GiB",
        b"https://user:password@host:80/a%20b?x=y#z\xffheaders.a=b\ntimeout=5",
        b"abfss://container@account.dfs.core.windows.net/p\xffaccount_name=a",
        b"zip://a/b::gs://bucket/x.zip\xfftoken=anon\nrequester_pays=true",
        b"az://c\xff[default]\nregion = x ; y\ns3 =\n  addressing_style = path\n[profile a b]\n",
    ],
    "reference_options": [
        b"remote_protocol=s3\nremote_options.anon=true\nremote_options.key=a",
        b"target_protocol=file\ntarget_options.x=1\nlazy=true\ncache_size=7",
        b"remote_protocol=memory",
    ],
    "meaning": [
        bytes([kind]) + text
        for kind in range(11)
        for text in (
            b'{"scale_factor":0.1,"add_offset":5,"_FillValue":-1}',
            b'{"units":"days since 2000-01-01 00:00:00","calendar":"noleap"}',
            b'{"units":"microseconds since 1970-1-1T5:6:7.5+01:00","missing_value":[1,2],"_Unsigned":"true"}',
            b'{"dtype":"timedelta64[ns]","units":"hours"}',
            b'{"_FillValue":"AAAAAAAA+H8=","valid_range":[0,5]}',
        )
    ],
    "json": [b'{"a": [1.0, -5e3, NaN, Infinity, true, null, "\\u00e9\\ud83d\\ude00"]}', b"\xef\xbb\xbf[]"],
}


def seeds(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All seeds, with the names of their targets."""
    yield from of_zarr(folder)
    files = list(hdf5(folder))
    for target in ("hdf5", "hdf5_edit", "hdf5_check"):
        yield from ((target, file) for file in files)
    yield from (("hdf5_parts", seed) for seed in hdf5_parts(files))
    yield from (("shard", seed) for seed in shard(folder))
    yield from (("netcdf3", seed) for seed in netcdf3(folder))
    yield from (("zip", seed) for seed in zips())
    yield from (("references_json", seed) for seed in references_json(files, folder))
    metadata = {".zgroup": {"zarr_format": 2}, "a/.zarray": {**ZARRAY, "shape": [40]}}
    for rows in parquet_rows():
        yield "parquet_rows", rows
        yield "references_parquet", dump({"metadata": metadata, "record_size": 20}) + SPLIT + rows
    yield from (("cache_entry", seed) for seed in cache_entry())
    yield from (("copy_plans", seed) for seed in copy_plans(folder))
    yield from (("journals", seed) for seed in journals(folder))
    for target, texts in TEXTS.items():
        yield from ((target, text) for text in texts)


def main() -> None:
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "fuzz" / "corpus"
    counts: dict[str, int] = {}
    # zarr-python warns of types without a specification.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for target, seed in seeds(Path(folder)):
            if len(seed) > LONGEST:
                continue
            number = counts[target] = counts.get(target, 0) + 1
            (corpus / target).mkdir(parents=True, exist_ok=True)
            (corpus / target / f"seed-{number}").write_bytes(seed)
    print(f"{sum(counts.values())} seeds of {len(counts)} targets in {corpus}")


if __name__ == "__main__":
    main()
