"""Small documents and chunks that claim to be large are refused and cost no memory."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

# Runs `code` with `path` and prints the growth of peak memory in MB.
MEASURED = """
import re, sys
import hyperslab as hs
path = sys.argv[1]
# Not by getrusage: that begins with what the parent had.
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) >> 10
before = peak()
try:
    exec(sys.argv[2])
    print("no error")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
print(peak() - before)
"""


def measured(path: Path, code: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *said, peak = done.stdout.strip().splitlines()
    return "\n".join(said), int(peak)


def changed(path: Path, change: Any) -> None:
    document = json.loads((path / "zarr.json").read_bytes())
    change(document)
    (path / "zarr.json").write_text(json.dumps(document))


def zstd_of_zeros(count: int) -> bytes:
    """Returns a frame without content size that decodes to `count` zeros.

    Each block of 128 KiB takes four bytes.
    """
    block = 1 << 17
    one, last = (struct.pack("<I", block << 3 | 2 | end)[:3] + b"\0" for end in (0, 1))
    return bytes.fromhex("28b52ffd0058") + one * (count // block - 1) + last


def test_text_that_decodes_to_gigabytes(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path,
        shape=(1000,),
        chunks=(1000,),
        dtype=str,
        compressors={"name": "zstd", "configuration": {"level": 1}},
    )
    z[...] = "x"
    (tmp_path / "c/0").write_bytes(zstd_of_zeros(4 << 30))
    said, peak = measured(tmp_path, "hs.open_array(path, mode='r')[0]")
    assert said.startswith("ChunkError") and "vlen_chunk_bound" in said and "268435456" in said
    assert peak < 700, peak


def test_text_that_compresses_well_is_read(tmp_path: Path) -> None:
    """24 MiB of one letter, stored in some KiB."""
    zstd = {"name": "zstd", "configuration": {"level": 3}}
    z = hs.create_array(tmp_path / "text", shape=(24,), chunks=(24,), dtype=str, compressors=zstd)
    z[...] = "y" * (1 << 20)
    assert (tmp_path / "text/c/0").stat().st_size < 16 << 10
    assert [len(text) for text in z[...]] == [1 << 20] * 24
    # The setting limits writes like reads.
    with hs.config.set(vlen_chunk_bound="1 MiB"):
        with pytest.raises(hs.HyperslabError, match="vlen_chunk_bound"):
            z[0]
        with pytest.raises(hs.HyperslabError, match="vlen_chunk_bound"):
            z[...] = "z" * (1 << 20)
        z[...] = "short"
        assert z[23] == "short"


@pytest.mark.parametrize("log2", [25, 27, 40])
def test_shards_of_too_many_inner_chunks(tmp_path: Path, log2: int) -> None:
    hs.create_array(tmp_path, shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": [1], "codecs": [{"name": "bytes"}], "index_codecs": [little]},
    }

    def claim(document: dict[str, Any]) -> None:
        document["shape"] = [1 << 52]
        document["chunk_grid"]["configuration"]["chunk_shape"] = [1 << log2]
        document["codecs"] = [sharding]

    changed(tmp_path, claim)
    for code in ("hs.open_array(path, mode='r+')[5] = 1", "hs.open_array(path, mode='r')[5]"):
        said, peak = measured(tmp_path, code)
        assert said.startswith("MetadataValidationError") and str(1 << log2) in said and "16777216" in said, (
            said
        )
        assert str(tmp_path) in said and "smaller shards" in said and peak < 300


def test_too_many_codecs(tmp_path: Path) -> None:
    z = hs.create_array(
        tmp_path / "three", shape=(4,), chunks=(4,), dtype="u1", compressors=[{"name": "crc32c"}] * 60
    )
    z[:] = 7
    assert np.array_equal(hs.open_array(tmp_path / "three", mode="r")[:], np.full(4, 7, "u1"))
    changed(tmp_path / "three", lambda document: document["codecs"].extend([{"name": "crc32c"}] * 100_000))
    with pytest.raises(hs.HyperslabError, match="codecs: at most 64 codecs are supported, found 100061"):
        hs.open_array(tmp_path / "three", mode="r")
    hs.create_array(tmp_path / "two", shape=(4,), chunks=(4,), dtype="u1", zarr_format=2)
    document = json.loads((tmp_path / "two/.zarray").read_bytes())
    document["filters"] = [{"id": "crc32c"}] * 100_000
    (tmp_path / "two/.zarray").write_text(json.dumps(document))
    with pytest.raises(hs.HyperslabError, match="filters: at most 64 codecs are supported, found 100000"):
        hs.open_array(tmp_path / "two", mode="r")


def test_results_between_codecs_take_what_is_there(tmp_path: Path) -> None:
    """A chunk claims 2³² bytes behind two compressors. The intermediate result stays small."""
    both = [{"name": "zstd", "configuration": {"level": 1}}, {"name": "gzip", "configuration": {"level": 1}}]
    z = hs.create_array(tmp_path, shape=(8,), chunks=(8,), dtype="u1", compressors=both)
    z[:] = np.arange(8)

    def claim(document: dict[str, Any]) -> None:
        document["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 32]

    changed(tmp_path, claim)
    said, peak = measured(tmp_path, "hs.open_array(path, mode='r')[5]")
    assert said.startswith("ChunkError") and peak < 700, (said, peak)
