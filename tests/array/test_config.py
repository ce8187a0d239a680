"""Settings: as attributes, temporarily, by environment variable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest


def test_defaults() -> None:
    hs.config.reset()
    assert hs.config.to_dict() == {
        "threads": None,
        "recycler_bytes": 256 << 20,
        "verify_checksums": True,
        "write_empty_chunks": False,
        "decodes_in_flight": 8,
        "partial_reads": True,
        "partial_decode": True,
        "shard_index_bound": 64 << 20,
        "vlen_chunk_bound": 256 << 20,
        "external_files": "same-directory",
        "requests_per_second": None,
        "fsync": False,
        "file_locks": True,
        "default_zarr_format": 3,
        "order": "C",
        "read_missing_chunks": True,
        "pickle_credentials": False,
    }


def test_set_for_a_while() -> None:
    hs.config.threads = 3
    with hs.config.set({"threads": 1, "array.write_empty_chunks": True}, fsync=True) as inner:
        assert (inner.threads, inner.write_empty_chunks, inner.fsync) == (1, True, True)
        assert hs.config.get("threading.max_workers") == 1
    assert (hs.config.threads, hs.config.write_empty_chunks, hs.config.fsync) == (3, False, False)
    assert hs.config.set(threads="auto").threads is None
    assert hs.config.get("nothing", 5) == 5
    with pytest.raises(KeyError, match="nothing"):
        hs.config.get("nothing")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0),
        ("0", 0),
        (4096, 4096),
        ("64 MiB", 64 << 20),
        ("1.5 KiB", 1536),
        ("2gb", 2 * 10**9),
        ("1GiB", 1 << 30),
        (np.int64(7), 7),
    ],
)
def test_sizes(size: Any, expected: int) -> None:
    hs.config.recycler_bytes = size
    assert hs.config.recycler_bytes == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", -1), ("threads", 5000), ("threads", "many"), ("threads", 1.5),
        ("decodes_in_flight", 0), ("decodes_in_flight", "many"), ("shard_index_bound", -1),
        ("partial_reads", 2), ("partial_decode", "perhaps"),
        ("recycler_bytes", "64 apples"), ("recycler_bytes", -1), ("recycler_bytes", None),
        ("verify_checksums", "perhaps"), ("verify_checksums", 2), ("fsync", None), ("external_files", "here"),
        ("order", "A"), ("order", None), ("read_missing_chunks", "perhaps"), ("default_zarr_format", 4),
         ("default_zarr_format", True), ("requests_per_second", -1), ("requests_per_second", "nan"),
        ("requests_per_second", True), ("requests_per_second", 1e99),
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_name_and_changes_nothing(name: str, value: Any) -> None:
    before = hs.config.to_dict()
    with pytest.raises((ValueError, TypeError), match=name):
        hs.config.set({"write_empty_chunks": True, name: value})
    with pytest.raises((ValueError, TypeError), match=name):
        setattr(hs.config, name, value)
    assert hs.config.to_dict() == before


def test_unknown_settings() -> None:
    with pytest.raises(KeyError, match="thread"):
        hs.config.set(thread=1)
    with pytest.raises(AttributeError):
        hs.config.thread = 1


def test_write_empty_chunks() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4,), chunks=(2,), dtype="i4")
    z[:] = 0
    assert z.nchunks_initialized == 0
    with hs.config.set(write_empty_chunks=True):
        z[:] = 0
        assert z.nchunks_initialized == 0
        again = hs.open_array(z.store)
    again[:] = 0
    assert z.nchunks_initialized == 2
    kept = hs.create_array(
        hs.MemoryStore(), shape=(4,), chunks=(2,), dtype="i4", config={"write_empty_chunks": True}
    )
    kept[:] = 0
    assert kept.nchunks_initialized == 2


def test_verify_checksums() -> None:
    z = hs.create_array(hs.MemoryStore(), shape=(4,), dtype="u1", compressors=hs.codecs.Crc32c())
    z[:] = [1, 2, 3, 4]
    stored = bytearray(z.store.get("c/0") or b"")
    stored[0] = 9
    z.store.set("c/0", bytes(stored))
    with pytest.raises(hs.errors.ChunkError, match="c/0"):
        z[:]
    assert z.read(verify=False).tolist() == [9, 2, 3, 4]
    with hs.config.set(verify_checksums=False):
        assert z[:].tolist() == [9, 2, 3, 4]
        with pytest.raises(ValueError):
            z.read(verify=True)


def test_default_zarr_format(tmp_path: Path) -> None:
    with hs.config.set(default_zarr_format=2):
        assert hs.open_group(tmp_path / "a", mode="w").zarr_format == 2
        assert hs.create_array(tmp_path / "b", shape=1, dtype="u1", zarr_format=None).zarr_format == 2
        assert hs.create_array(tmp_path / "c", shape=1, dtype="u1").zarr_format == 3


def test_fsync_is_that_of_the_time_of_opening(tmp_path: Path) -> None:
    with hs.config.set(fsync=True):
        assert hs.LocalStore(tmp_path).fsync and not hs.LocalStore(tmp_path, fsync=False).fsync
        z = hs.create_array(tmp_path, shape=3, dtype="u1")
    z[:] = 1
    assert z.store.fsync and not hs.LocalStore(tmp_path).fsync and hs.open_array(tmp_path)[0] == 1


def run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    program = "import hyperslab as hs; print(hs.config.to_dict())"
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


def test_environment() -> None:
    done = run(
        {
            "HYPERSLAB_THREADS": "3",
            "HYPERSLAB_RECYCLER": "64 MiB",
            "HYPERSLAB_VERIFY_CHECKSUMS": "no",
            "HYPERSLAB_WRITE_EMPTY_CHUNKS": "1",
            "HYPERSLAB_DECODES_IN_FLIGHT": "3",
            "HYPERSLAB_PARTIAL_READS": "no",
            "HYPERSLAB_PARTIAL_DECODE": "off",
            "HYPERSLAB_SHARD_INDEX_BOUND": "1 MiB",
            "HYPERSLAB_EXTERNAL_FILES": "refuse",
            "HYPERSLAB_REQUESTS_PER_SECOND": "2.5",
            "HYPERSLAB_FSYNC": "TRUE",
            "HYPERSLAB_FILE_LOCKS": "no",
            "HYPERSLAB_ZARR_FORMAT": "2",
            "HYPERSLAB_ORDER": "F",
            "HYPERSLAB_READ_MISSING_CHUNKS": "no",
        }
    )
    assert done.stderr == ""
    assert done.stdout.strip() == str(
        {
            "threads": 3,
            "recycler_bytes": 64 << 20,
            "verify_checksums": False,
            "write_empty_chunks": True,
            "decodes_in_flight": 3,
            "partial_reads": False,
            "partial_decode": False,
            "shard_index_bound": 1 << 20,
            "vlen_chunk_bound": 256 << 20,
            "external_files": "refuse",
            "requests_per_second": 2.5,
            "fsync": True,
            "file_locks": False,
            "default_zarr_format": 2,
            "order": "F",
            "read_missing_chunks": False,
            "pickle_credentials": False,
        }
    )


def test_nonsense_in_the_environment_is_a_warning() -> None:
    done = run({"HYPERSLAB_THREADS": "lots", "HYPERSLAB_RECYCLER": "-5", "HYPERSLAB_FSYNC": ""})
    assert "'threads': None" in done.stdout and f"'recycler_bytes': {256 << 20}" in done.stdout
    assert "HYPERSLAB_THREADS" in done.stderr and "HYPERSLAB_RECYCLER" in done.stderr
    assert "HYPERSLAB_FSYNC" not in done.stderr
