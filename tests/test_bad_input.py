"""Bytes from outside are hostile: each fault is a typed error that says what and where; no more happens."""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases
from support import assert_same, edit_json, examples, files_below, read_json, scratch

DATA = np.arange(1, 101, dtype="<f4").reshape(10, 10)

CODECS: dict[str, tuple[int, Any]] = {
    "none": (3, None),
    "gzip": (3, [{"name": "gzip", "configuration": {"level": 5}}]),
    "zstd": (3, [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}]),
    "zstd-checksum": (3, [{"name": "zstd", "configuration": {"level": 3, "checksum": True}}]),
    "crc32c": (3, [{"name": "crc32c"}]),
    "zstd+crc32c": (3, [{"name": "zstd", "configuration": {"level": 3}}, {"name": "crc32c"}]),
    "blosc-lz4": (
        3,
        [
            {
                "name": "blosc",
                "configuration": {
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "shuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            }
        ],
    ),
    "blosc-zstd": (
        3,
        [
            {
                "name": "blosc",
                "configuration": {
                    "cname": "zstd",
                    "clevel": 5,
                    "shuffle": "bitshuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            }
        ],
    ),
    "zlib": (2, [{"id": "zlib", "level": 1}]),
    "lz4": (2, [{"id": "lz4", "acceleration": 1}]),
    "v2-none": (2, None),
}


def written(root: Path, codec: str, name: str = "ocean/t") -> Path:
    """A group with an array in it, and its neighbour; returns the path of chunk (1, 0)."""
    zarr_format, compressors = CODECS[codec]
    for node in (name, name + "-neighbour"):
        z = hs.create_array(
            root,
            name=node,
            shape=(10, 10),
            chunks=(5, 10),
            dtype="<f4",
            compressors=compressors,
            zarr_format=zarr_format,
        )
        z[...] = DATA
    return root / name / ("c/1/0" if zarr_format == 3 else "1.0")


def damage_truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def damage_short(data: bytes) -> bytes:
    return data[:-1]


def damage_empty(data: bytes) -> bytes:
    return b""


def damage_longer(data: bytes) -> bytes:
    return data + b"\0" * 16


def damage_garbage(data: bytes) -> bytes:
    return np.random.default_rng(1).bytes(len(data))


def damage_zeros(data: bytes) -> bytes:
    return bytes(len(data) + 1)


def damage_huge(data: bytes) -> bytes:
    return data * 1000


DAMAGES = [
    damage_truncated,
    damage_short,
    damage_empty,
    damage_longer,
    damage_garbage,
    damage_zeros,
    damage_huge,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__.removeprefix("damage_"))
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_chunks(tmp_path: Path, codec: str, damage: Callable[[bytes], bytes]) -> None:
    chunk = written(tmp_path, codec)
    good = chunk.read_bytes()
    bad = damage(good)
    if codec in ("none", "v2-none") and len(bad) == len(good):
        pytest.skip("bytes of the right length are values")
    chunk.write_bytes(bad)
    before = files_below(tmp_path)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    key = chunk.relative_to(tmp_path).as_posix()

    attempts: list[Callable[[], Any]] = [
        lambda: z[...],
        lambda: z[7, 3],
        lambda: z[::-2, ::3],
        lambda: z.read(out=np.empty((10, 10), "<f4")),
        # A partial write has to read first.
        lambda: z.__setitem__((7, slice(2, 5)), 0),
    ]
    for attempt in attempts:
        try:
            attempt()
        except hs.errors.ChunkError as error:
            assert isinstance(error, ValueError)
            told = str(error)
            assert "/ocean/t'" in told
            assert key in told
            assert "[1, 0]" in told
        else:
            # Uncompressed rows may lie where they should; and decoders may end before what comes after.
            assert codec in ("none", "v2-none") or damage in (damage_longer, damage_huge)
    if codec not in ("none", "v2-none"):
        assert files_below(tmp_path) == before or damage in (damage_longer, damage_huge)
    # The other chunk, and the neighbour, are there as before.
    assert_same(z[:5], DATA[:5])
    assert_same(hs.open_array(tmp_path, path="ocean/t-neighbour")[...], DATA)
    # A write of the whole chunk needs nothing of the old one.
    z[5:] = DATA[5:]
    assert_same(z[...], DATA)


@pytest.mark.parametrize("codec", ["none", "v2-none"])
@pytest.mark.parametrize(
    "damage",
    [damage_truncated, damage_short, damage_empty, damage_longer, damage_huge],
    ids=lambda f: f.__name__,
)
def test_uncompressed_chunks_have_their_size(
    tmp_path: Path, codec: str, damage: Callable[[bytes], bytes]
) -> None:
    chunk = written(tmp_path, codec)
    chunk.write_bytes(damage(chunk.read_bytes()))
    before = files_below(tmp_path)
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    with pytest.raises(hs.errors.ChunkError, match="200 bytes|are expected") as caught:
        z[...]
    assert chunk.relative_to(tmp_path).as_posix() in str(caught.value)
    with pytest.raises(hs.errors.ChunkError):
        z[7, 2:5] = 0
    assert files_below(tmp_path) == before


WRITTEN_BY: dict[str, Callable[[bytes], bytes]] = {
    "zlib": zlib.compress,
    "nothing": lambda data: data,
    "gzip": gzip.compress,
    "a larger array": lambda data: zlib.compress(data * 2),
    "a smaller array": lambda data: zlib.compress(data[:100]),
}


@pytest.mark.parametrize("codec", ["gzip", "zstd", "crc32c", "blosc-lz4", "zlib", "lz4"])
@pytest.mark.parametrize("writer", WRITTEN_BY)
def test_chunks_of_another_codec(tmp_path: Path, codec: str, writer: str) -> None:
    if codec == writer:
        pytest.skip("the right one")
    chunk = written(tmp_path, codec)
    chunk.write_bytes(WRITTEN_BY[writer](DATA[5:].tobytes()))
    with pytest.raises(hs.errors.ChunkError, match="ocean/t"):
        hs.open_array(tmp_path, path="ocean/t")[...]


def test_frames_that_claim_to_be_huge(tmp_path: Path) -> None:
    """Sizes in headers do not decide how much is allocated."""
    claims = {
        "lz4": struct.pack("<I", 0x7FFFFFFF) + b"\x00" * 20,
        "zstd": bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**62) + b"\x01\x00\x00",
        "blosc-lz4": bytes([2, 1, 1, 4]) + struct.pack("<III", 0x7FFFFFFF, 0x7FFFFFFF, 60) + b"\0" * 44,
        "gzip": zlib.compress(bytes(10**7), wbits=31),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for codec, claim in claims.items():
        chunk = written(tmp_path / codec, codec)
        chunk.write_bytes(claim)
        with pytest.raises(hs.errors.ChunkError):
            hs.open_array(tmp_path / codec, path="ocean/t")[...]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_checksums_can_be_left_unverified(tmp_path: Path) -> None:
    chunk = written(tmp_path, "crc32c")
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    z = hs.open_array(tmp_path, path="ocean/t")
    with pytest.raises(hs.errors.ChunkError, match="checksum"):
        z[...]
    with hs.config.set(verify_checksums=False):
        assert_same(z[...], DATA)
    with pytest.raises(hs.errors.ChunkError, match="checksum"):
        z[...]


@pytest.mark.parametrize("order", "<>")
def test_text_that_is_none(tmp_path: Path, order: str) -> None:
    """Numbers beyond the last character: NumPy has arrays of them, but no scalar."""
    z = hs.create_array(tmp_path, shape=(2,), dtype=f"{order}U1", compressors=None, zarr_format=2)
    z[...] = ["a", "b"]
    (tmp_path / "0").write_bytes(np.array([0x110000, ord("b")], f"{order}u4").tobytes())
    with pytest.raises(hs.errors.ChunkError, match="is not text"):
        z[0]
    assert z[1] == "b"
    assert z[...].view(f"{order}u4").tolist() == [0x110000, ord("b")]


V3_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"shape": "10"}, "shape"),
    ({"shape": None}, "shape"),
    ({"shape": 10}, "shape"),
    ({"shape": {}}, "shape"),
    ({"shape": [10.5, 10]}, "shape"),
    ({"shape": ["10", 10]}, "shape"),
    ({"shape": [True, 10]}, "shape"),
    ({"shape": [-1, 10]}, "shape"),
    ({"shape": [2**63, 10]}, "shape"),
    ({"shape": [10**30, 10]}, "shape"),
    ({"shape": [10]}, "chunk_shape"),
    ({"shape": [10] * 1000}, ""),
    ({"shape": ...}, "shape"),
    ({"zarr_format": 4}, "zarr_format"),
    ({"zarr_format": "3"}, "zarr_format"),
    ({"zarr_format": ...}, "zarr_format"),
    ({"node_type": "dataset"}, "node_type"),
    ({"node_type": ...}, "node_type"),
    ({"data_type": "float128"}, "float128"),
    ({"data_type": 4}, "data_type"),
    ({"data_type": {}}, "data_type"),
    ({"data_type": {"name": "struct", "configuration": {}}}, "struct"),
    ({"data_type": "r7"}, "data_type"),
    ({"data_type": "r99999999999999999999"}, "data_type"),
    ({"data_type": ...}, "data_type"),
    ({"fill_value": "zero"}, "fill_value"),
    ({"fill_value": [1]}, "fill_value"),
    ({"fill_value": {}}, "fill_value"),
    ({"fill_value": "0x"}, "fill_value"),
    ({"fill_value": "0x7fc0000000"}, "fill_value"),
    ({"fill_value": ...}, "fill_value"),
    ({"codecs": []}, "codecs"),
    ({"codecs": "zstd"}, "codecs"),
    ({"codecs": None}, "codecs"),
    ({"codecs": [3]}, "codec"),
    ({"codecs": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]}, ""),
    ({"codecs": [{"name": "bytes"}, {"name": "bytes"}]}, ""),
    ({"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]}, "middle"),
    ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "brotli"}]}, "brotli"),
    ({"codecs": [{"name": "sharding_indexed", "configuration": {}}]}, "sharding_indexed"),
    (
        {
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "gzip", "configuration": {"level": 99}},
            ]
        },
        "gzip",
    ),
    (
        {
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "gzip", "configuration": {"levels": 1}},
            ]
        },
        "levels",
    ),
    (
        {
            "codecs": [
                {"name": "transpose", "configuration": {"order": [0, 0]}},
                {"name": "bytes", "configuration": {"endian": "little"}},
            ]
        },
        "transpose",
    ),
    (
        {
            "codecs": [
                {"name": "transpose", "configuration": {"order": [1, 2]}},
                {"name": "bytes", "configuration": {"endian": "little"}},
            ]
        },
        "transpose",
    ),
    ({"codecs": ...}, "codecs"),
    ({"chunk_grid": "regular"}, "chunk"),
    ({"chunk_grid": {"name": "rectilinear", "configuration": {}}}, "rectilinear"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [-5, 5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5.5, 5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**63, 2**63]}}}, "chunk"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**32, 2**32]}}}, "chunk"),
    ({"chunk_grid": {"name": "regular"}}, "chunk_shape"),
    ({"chunk_grid": ...}, "chunk_grid"),
    ({"chunk_key_encoding": {"name": "v4"}}, "v4"),
    ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": ":"}}}, "separator"),
    ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": 1}}}, "separator"),
    ({"chunk_key_encoding": ...}, "chunk_key_encoding"),
    ({"attributes": [1]}, "attributes"),
    ({"attributes": "x"}, "attributes"),
    ({"dimension_names": ["a"]}, "dimension_names"),
    ({"dimension_names": [1, 2]}, "dimension_names"),
    ({"dimension_names": "ab"}, "dimension_names"),
]


@pytest.mark.parametrize(("changes", "named"), V3_CHANGES, ids=repr)
def test_bad_v3_metadata(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    written(tmp_path, "zstd")
    edit_json(tmp_path / "ocean/t/zarr.json", **changes)
    refused(tmp_path, "ocean/t/zarr.json", named)


V2_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"shape": "10"}, "shape"),
    ({"shape": [-1, 10]}, "shape"),
    ({"shape": [1.5, 10]}, "shape"),
    ({"shape": [2**64, 10]}, "shape"),
    ({"shape": [10, 10, 10]}, "chunks"),
    ({"shape": ...}, "shape"),
    ({"chunks": [0, 10]}, "chunks"),
    ({"chunks": [-5, 10]}, "chunks"),
    ({"chunks": [2**40, 2**40]}, "chunk"),
    ({"chunks": None}, "chunks"),
    ({"chunks": ...}, "chunks"),
    ({"dtype": "f4"}, "dtype"),
    ({"dtype": "<f3"}, ""),
    ({"dtype": "<f16"}, "<f16"),
    ({"dtype": "|O"}, "object"),
    ({"dtype": [["a", "<i4"]]}, "structured"),
    ({"dtype": "|S0"}, "dtype"),
    ({"dtype": "<U99999999999999999999"}, "dtype"),
    ({"dtype": "<M8[eon]"}, "dtype"),
    ({"dtype": 4}, "dtype"),
    ({"dtype": ...}, "dtype"),
    ({"fill_value": "x"}, "fill_value"),
    ({"fill_value": []}, "fill_value"),
    ({"order": "K"}, "order"),
    ({"order": 1}, "order"),
    ({"filters": "delta"}, "filters"),
    ({"filters": [{"id": "delta", "dtype": "<f4"}]}, "delta"),
    ({"filters": [4]}, "filters"),
    ({"compressor": {"id": "lzma"}}, "lzma"),
    ({"compressor": {"level": 1}}, "compressor"),
    ({"compressor": {"id": 4}}, "compressor"),
    ({"compressor": []}, "compressor"),
    ({"compressor": {"id": "zlib", "level": "high"}}, "zlib"),
    ({"compressor": {"id": "blosc", "cname": "lz5"}}, "lz5"),
    ({"dimension_separator": "-"}, "dimension_separator"),
    ({"zarr_format": 3}, "zarr_format"),
    ({"zarr_format": ...}, "zarr_format"),
]


@pytest.mark.parametrize(("changes", "named"), V2_CHANGES, ids=repr)
def test_bad_v2_metadata(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    written(tmp_path, "zlib")
    edit_json(tmp_path / "ocean/t/.zarray", **changes)
    refused(tmp_path, "ocean/t/.zarray", named)


def refused(root: Path, key: str, named: str) -> None:
    """The array cannot be opened; the error names the document and what is wrong in it. All is as it was."""
    before = files_below(root)
    for mode in ["r", "r+", "a"]:
        for opened in (
            lambda: hs.open_array(root, path="ocean/t", mode=mode),
            lambda: hs.open_group(root, mode=mode)["ocean/t"],
        ):
            with pytest.raises(hs.HyperslabError) as caught:
                opened()
            assert isinstance(caught.value, ValueError)
            assert key in str(caught.value)
            assert named in str(caught.value)
    assert files_below(root) == before
    assert_same(hs.open_array(root, path="ocean/t-neighbour")[...], DATA)


DOCUMENTS: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"\xff\xfe",
    b"\0" * 100,
    b"{}" * 2,
    b'{"zarr_format": 3, "node_type": "array"',
    b'{"a": 1,}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"attributes": {"x": "\\ud800"}}',
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: repr(d[:20]))
@pytest.mark.parametrize("codec", ["zstd", "zlib"])
def test_documents_that_are_no_metadata(tmp_path: Path, codec: str, document: bytes) -> None:
    written(tmp_path, codec)
    name = "zarr.json" if codec == "zstd" else ".zarray"
    (tmp_path / "ocean/t" / name).write_bytes(document)
    refused(tmp_path, f"ocean/t/{name}", "")


@pytest.mark.parametrize("text", [b"[1]", b"{", b"3", b""])
def test_bad_v2_attributes(tmp_path: Path, text: bytes) -> None:
    written(tmp_path, "zlib")
    (tmp_path / "ocean/t/.zattrs").write_bytes(text)
    with pytest.raises(hs.errors.MetadataValidationError, match="zattrs|attributes"):
        hs.open_array(tmp_path, path="ocean/t")


def test_a_huge_array_is_no_burden(tmp_path: Path) -> None:
    """Metadata may name more elements than there is memory: only what is asked for counts."""
    z = hs.create_array(tmp_path / "a", shape=(2**40, 2**20), chunks=(1000, 1000), dtype="f8")
    z[2**39, 5:8] = [1, 2, 3]
    assert z[2**39 - 1 : 2**39 + 1, 4:9].tolist() == [[0] * 5, [0, 1, 2, 3, 0]]
    assert z[-1, -1] == 0
    assert z.nchunks_initialized == 1
    for attempt in (lambda: z[...], lambda: z[:, 0], lambda: z.__array__()):
        with pytest.raises((MemoryError, hs.HyperslabError)) as caught:
            attempt()
        assert isinstance(caught.value, hs.HyperslabError)
    z.resize((10, 10))
    assert z[...].sum() == 0


def test_nothing_there(tmp_path: Path) -> None:
    for opened in (hs.open, hs.open_array, hs.open_group):
        with pytest.raises(FileNotFoundError, match="nothing"):
            opened(tmp_path / "nothing", mode="r")
        (tmp_path / "empty-nothing").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match="nothing"):
            opened(tmp_path / "empty-nothing", mode="r")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty-nothing"]


def test_the_other_kind_of_node(tmp_path: Path) -> None:
    written(tmp_path, "zstd")
    with pytest.raises(hs.HyperslabError, match="ocean"):
        hs.open_array(tmp_path, path="ocean", mode="r")
    with pytest.raises(hs.HyperslabError, match="ocean/t"):
        hs.open_group(tmp_path, path="ocean/t", mode="r")


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (
        lambda: hs.open(tmp_path / "file", mode="r"),
        lambda: hs.create_array(tmp_path / "file", shape=(3,), dtype="i4"),
        lambda: hs.create_group(tmp_path / "file"),
    ):
        with pytest.raises((hs.HyperslabError, OSError)) as caught:
            attempt()
        assert isinstance(caught.value, (NotADirectoryError, FileNotFoundError))
        assert "file" in str(caught.value)
    assert (tmp_path / "file").read_text() == "x"

    chunk = written(tmp_path / "g", "zstd")
    for path in chunk.parent.iterdir():
        path.unlink()
    chunk.parent.rmdir()
    chunk.parent.write_text("x")
    z = hs.open_array(tmp_path / "g", path="ocean/t", mode="r+")
    with pytest.raises(hs.errors.StoreError, match="ocean/t.*c/1/0") as written_into:
        z[5:] = 1
    assert isinstance(written_into.value, (NotADirectoryError, FileExistsError))
    assert chunk.parent.read_text() == "x"
    assert_same(z[:5], DATA[:5])
    assert_same(hs.open_array(tmp_path / "g", path="ocean/t-neighbour")[...], DATA)


def test_a_directory_where_a_chunk_should_be(tmp_path: Path) -> None:
    """A directory is no object: for zarr-python as for us there is no chunk. Nor can there be one."""
    chunk = written(tmp_path, "zstd")
    chunk.unlink()
    chunk.mkdir()
    (chunk / "inside").write_text("x")
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    assert_same(z[...], zarr.open_array(tmp_path, path="ocean/t", mode="r")[...])
    assert (z[5:] == 0).all()
    for attempt in (lambda: z.__setitem__(slice(5, 10), 1), lambda: z.__setitem__((7, 3), 1)):
        with pytest.raises(hs.errors.StoreError, match=r"chunk \[1, 0\].*ocean/t/c/1/0") as caught:
            attempt()
        assert isinstance(caught.value, IsADirectoryError)
    assert (chunk / "inside").read_text() == "x"
    assert_same(z[:5], DATA[:5])
    # No temporary file is left.
    assert sorted(path.name for path in chunk.parent.iterdir()) == ["0"]


def run_child(code: str, *arguments: Path | str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


NO_PERMISSION = """
import sys, os
import numpy as np
import hyperslab as hs
# Root is refused nothing: be nobody.
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
root = sys.argv[1]
z = hs.open_array(root, path="ocean/t", mode="r+")
def refused(do, key):
    try:
        do()
    except PermissionError as error:
        assert isinstance(error, hs.errors.StorePermissionError), type(error)
        assert key in str(error) and "ocean/t" in str(error), str(error)
        assert error.errno == 13, error.errno
    else:
        raise AssertionError(f"not refused: {key}")
refused(lambda: z[...], "ocean/t/c/1/0")
refused(lambda: z.__setitem__(7, 1), "ocean/t/c/1/0")
refused(lambda: z.__setitem__(slice(0, 5), 1), "ocean/t/c/0/0")
refused(lambda: z.attrs.update(a=1), "ocean/t/zarr.json")
refused(lambda: hs.create_array(root, name="ocean/t-new", shape=(1,), dtype="i4"), "ocean/t-new")
refused(lambda: hs.open_array(root, path="ocean/t-hidden", mode="r"), "ocean/t-hidden/zarr.json")
assert (z[:5] == np.arange(1, 51, dtype="f4").reshape(5, 10)).all()
print("done")
"""


def test_no_permission(tmp_path: Path) -> None:
    chunk = written(tmp_path / "g", "zstd")
    hs.create_array(tmp_path / "g", name="ocean/t-hidden", shape=(1,), dtype="i4")
    before = files_below(tmp_path)
    # Directories above are for their owner alone, as pytest makes them.
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    chunk.chmod(0)
    (tmp_path / "g/ocean/t-hidden/zarr.json").chmod(0)
    folders = [path for path in (tmp_path / "g").rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = run_child(NO_PERMISSION, tmp_path / "g")
        assert done.stdout == "done\n", done.stderr
    finally:
        for folder in folders:
            folder.chmod(0o755)
        chunk.chmod(0o644)
        (tmp_path / "g/ocean/t-hidden/zarr.json").chmod(0o644)
    assert files_below(tmp_path) == before


DISK_FULL = """
import sys, resource, signal, os
import numpy as np
import hyperslab as hs
root = sys.argv[1]
z = hs.open_array(root, path="ocean/t", mode="r+")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for do in (
    lambda: z.__setitem__(slice(5, 10), np.random.default_rng(1).normal(size=(5, 10))),
    lambda: z.__setitem__((7, 3), 1e9),
    lambda: hs.create_array(root, name="ocean/new", shape=(3,), dtype="i4"),
    lambda: z.attrs.update(text="x" * 1000),
):
    try:
        do()
    except OSError as error:
        assert isinstance(error, hs.errors.StoreError), type(error)
        assert error.errno == 27, error.errno
        assert "ocean/" in str(error) and "cannot write" in str(error), str(error)
    else:
        raise AssertionError("not refused")
assert (z[...] == np.arange(1, 101, dtype="f4").reshape(10, 10)).all()
print("done")
"""


def test_disk_full(tmp_path: Path) -> None:
    """No file may grow beyond 100 bytes: as on a full disk, a write fails half way."""
    written(tmp_path, "none")
    before = files_below(tmp_path)
    done = run_child(DISK_FULL, tmp_path)
    assert done.stdout == "done\n", done.stderr
    after = files_below(tmp_path)
    assert {name for name in after if not name.startswith("ocean/new")} == set(before)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if name.startswith("ocean/new") and name.endswith("zarr.json")]


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="only root can make a small file system"
)
def test_disk_really_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        z = hs.create_array(
            small, name="a", shape=(10, 10_000), chunks=(1, 10_000), dtype="f8", compressors=None
        )
        z[0] = 1.0
        with pytest.raises(hs.errors.StoreError, match=r"cannot write 'a/c/[1-9]/0'") as caught:
            z[1:] = 2.0
        assert caught.value.errno == errno.ENOSPC
        assert (z[0] == 1.0).all()
        for row in range(1, 10):
            assert (z[row] == z[row, 0]).all()
            assert z[row, 0] in (0.0, 2.0)
        assert {path.stat().st_size for path in (small / "a/c").rglob("*") if path.is_file()} == {80_000}
    finally:
        subprocess.run(["umount", str(small)], check=True)


@given(case=cases(), data=st.data())
@settings(max_examples=examples(150))
def test_random_damage_of_chunks(case: Case, data: st.DataObject) -> None:
    """Whatever bytes a chunk has: an array of the right shape, or an error; never more."""
    with scratch() as root:
        with hs.config.set(write_empty_chunks=True):
            hs.create_array(root / "a", **case.arguments())[...] = case.data
        files = [
            path
            for path in (root / "a").rglob("*")
            if path.is_file() and path.name not in ("zarr.json", ".zarray", ".zattrs")
        ]
        if not files:
            return
        for _ in range(8):
            path = data.draw(st.sampled_from(files))
            good = path.read_bytes()
            path.write_bytes(damaged(data, good))
            z = hs.open_array(root / "a", mode="r")
            try:
                found = z.read()
            except hs.HyperslabError as error:
                assert isinstance(error, (hs.errors.ChunkError, hs.errors.StoreError)), repr(error)
                assert path.name in str(error)
            else:
                assert (found.shape, found.dtype) == (case.shape, case.opened_dtype)
            path.write_bytes(good)
        assert_same(hs.open_array(root / "a", mode="r")[...], case.values)


def damaged(data: st.DataObject, good: bytes) -> bytes:
    bad = bytearray(good)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kind = data.draw(st.sampled_from(["flip", "flip", "flip", "cut", "insert", "header", "length"]))
    if kind == "flip":
        for _ in range(data.draw(st.integers(1, 4))):
            if bad:
                bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
    elif kind == "cut":
        del bad[int(rng.integers(len(bad) + 1)) :]
    elif kind == "insert":
        at = int(rng.integers(len(bad) + 1))
        bad[at:at] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == "header":
        bad[:16] = rng.bytes(min(16, len(bad)))
    elif len(bad) >= 4:
        # Where lengths and offsets are.
        at = int(rng.integers(max(1, min(len(bad) - 3, 64))))
        bad[at : at + 4] = struct.pack("<I", int(rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1])))
    return bytes(bad)


ODD_VALUES = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**40,
    0.5,
    1e308,
    math.nan,
    math.inf,
    "",
    "x",
    "\0",
    [],
    {},
    [0],
    [[]],
    [None] * 40,
]


@given(case=cases(), data=st.data())
@settings(max_examples=examples(300))
def test_random_damage_of_metadata(case: Case, data: st.DataObject) -> None:
    """Whatever the metadata says: an array, or an error that names the document."""
    with scratch() as root:
        hs.create_array(root / "a", **case.arguments())[...] = case.data
        path = root / "a" / ("zarr.json" if case.zarr_format == 3 else ".zarray")
        good = path.read_bytes()
        for _ in range(8):
            if data.draw(st.booleans()):
                path.write_bytes(damaged(data, good))
            else:
                document = json.loads(good)
                place: Any = document
                # Down to some member, which gets a value that it should not have.
                while True:
                    names = list(place) if isinstance(place, dict) else list(range(len(place)))
                    if not names:
                        break
                    name = data.draw(st.sampled_from(names))
                    if isinstance(place[name], (dict, list)) and place[name] and data.draw(st.booleans()):
                        place = place[name]
                        continue
                    if data.draw(st.integers(0, 4)) == 0:
                        del place[name]
                    else:
                        place[name] = data.draw(st.sampled_from(ODD_VALUES))
                    break
                path.write_text(json.dumps(document))
            try:
                z = hs.open_array(root / "a", mode="r")
                # What it says may be anything; reading a little of it must be bounded.
                found = z[tuple(slice(0, 3) for _ in z.shape)]
            except hs.HyperslabError as error:
                assert isinstance(error, (ValueError, OSError, MemoryError)), repr(error)
                assert str(error)
            else:
                assert np.asarray(found).shape == tuple(min(3, n) for n in z.shape)
        path.write_bytes(good)
        assert_same(hs.open_array(root / "a", mode="r")[...], case.values)


CONSOLIDATED: list[Any] = [
    3,
    "x",
    [],
    {"metadata": 3},
    {"metadata": {"a": 3}},
    {"metadata": {"a": {}}},
    {"metadata": {"../a": {}}},
    {},
]


@pytest.mark.parametrize("value", CONSOLIDATED, ids=repr)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
def test_bad_consolidated_metadata(tmp_path: Path, zarr_format: Any, value: Any) -> None:
    group = hs.create_group(tmp_path, zarr_format=zarr_format)
    group.create_array("a", data=np.arange(3))
    hs.consolidate_metadata(tmp_path)
    if zarr_format == 3:
        edit_json(tmp_path / "zarr.json", consolidated_metadata=value)
    else:
        (tmp_path / ".zmetadata").write_text(json.dumps(value))
    try:
        found = hs.open_group(tmp_path, mode="r")
        list(found.members())
        for name in found:
            found[name]
    except hs.HyperslabError as error:
        assert "zarr.json" in str(error) or ".zmetadata" in str(error) or "path" in str(error)
    # It can be left aside.
    assert hs.open_group(tmp_path, mode="r", use_consolidated=False)["a"][...].tolist() == [0, 1, 2]


def test_zarr_python_and_we_refuse_alike(tmp_path: Path) -> None:
    """Where zarr-python cannot read a chunk neither can we; it is not that we are too strict."""
    for codec in CODECS:
        chunk = written(tmp_path / codec, codec)
        chunk.write_bytes(damage_truncated(chunk.read_bytes()))
        for library in (hs, zarr):
            with pytest.raises(Exception):
                library.open_array(tmp_path / codec, path="ocean/t", mode="r")[...]


def test_signals_are_not_lost() -> None:
    """An interrupt during a long read arrives as KeyboardInterrupt."""
    code = """
import os, signal, threading
import numpy as np
import hyperslab as hs
z = hs.create_array(hs.MemoryStore(), shape=(200, 100_000), chunks=(1, 100_000), dtype="f4")
z[...] = np.arange(100_000, dtype="f4")
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        z[...]
except KeyboardInterrupt:
    print("interrupted")
assert (z[3] == np.arange(100_000)).all()
"""
    done = run_child(code)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0


def test_metadata_is_not_touched_by_reading(tmp_path: Path) -> None:
    written(tmp_path, "zlib")
    before = read_json(tmp_path / "ocean/t/.zarray")
    hs.open_array(tmp_path, path="ocean/t", mode="a")[...]
    assert read_json(tmp_path / "ocean/t/.zarray") == before
