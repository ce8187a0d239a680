"""`cache=` of remote stores: saved requests and bytes, and processes that share a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server
from test_fork import in_child

VALUES = np.random.default_rng(17).integers(0, 1 << 40, (40, 1000))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def create(server: Server, **how: Any) -> None:
    hs.create_array(
        "s3://bucket/a.zarr", data=VALUES, storage_options=server.s3_options, overwrite=True, **how
    )


def asked(server: Server, work: Callable[[], Any]) -> tuple[int, int]:
    """Returns the number of requests, and the bytes of all bodies."""
    server.reset()
    assert np.array_equal(work(), VALUES)
    return len(server.log()), sum(each["sent"] for each in server.log() if each["status"] in (200, 206))


def reading(server: Server, cache: Any, **more: Any) -> Callable[[], Any]:
    options = {**server.s3_options, "cache": cache, **more}
    return lambda: hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options)[:]


@pytest.mark.parametrize("how", [{"chunks": (2, 1000)}, {"chunks": (2, 100), "shards": (10, 1000)}])
def test_requests_and_bytes(server: Server, tmp_path: Path, how: Any) -> None:
    create(server, **how)
    read = reading(server, tmp_path / "cache")
    first, sent = asked(server, read)
    assert sent > 100_000
    again, sent = asked(server, read)
    # Objects are requested, but no bodies are sent. Inner chunks of a shard need no requests.
    assert sent == 0 and again <= first
    if "shards" in how:
        assert again < first
    never = reading(server, tmp_path / "cache", cache_check="never")
    requests, sent = asked(server, never)
    # The cache does not remember that objects are absent, as the documents of Zarr v2 are here.
    assert requests <= 4 and {each["status"] for each in server.log()} == {404}
    # Replace the array.
    create(server, **how, fill_value=7)
    server.put("bucket", "unrelated", b"x")
    _, sent = asked(server, read)
    assert sent > 100_000


def test_in_memory(server: Server) -> None:
    create(server, chunks=(2, 1000), compressors=None)
    options = {**server.s3_options, "cache": "1 MiB"}
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options)
    first = asked(server, lambda: array[:])
    assert first == (20, VALUES.nbytes)
    assert asked(server, lambda: array[:]) == (20, 0)
    small = hs.open_array("s3://bucket/a.zarr", storage_options={**server.s3_options, "cache": 50_000})
    assert asked(server, lambda: small[:]) == first
    assert asked(server, lambda: small[:])[1] > 0


def test_files(server: Server, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        # Longer than 1 MiB, the most that the first read returns.
        file.create_dataset("long", data=np.zeros(500_000))
        file.create_dataset("g/v", data=VALUES, chunks=(4, 500), compression="gzip")
    server.put("bucket", "x.h5", (tmp_path / "x.h5").read_bytes())
    options = {**server.s3_options, "cache": tmp_path / "cache"}

    def read() -> Any:
        return hs.open_array("s3://bucket/x.h5/g/v", mode="r", storage_options=options)[:]

    first, _ = asked(server, read)
    # Opening the file checks it with one request. Reads need no more.
    assert first > 1 and asked(server, read) == (1, 0)


def test_pipes_and_links_among_the_entries(server: Server, tmp_path: Path) -> None:
    create(server, chunks=(2, 1000), compressors=None)
    read = reading(server, tmp_path / "cache")
    first = asked(server, read)
    entries = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(entries) > 10
    for n, path in enumerate(entries):
        path.unlink()
        if n % 2:
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero" if n % 4 else tmp_path)
    assert asked(server, read) == first
    assert all(path.is_file() and not path.is_symlink() for path in entries)


PROGRAM = """
import sys, numpy as np, hyperslab as hs
url, cache, size = sys.argv[1:]
options = {"endpoint_url": url, "anon": True, "cache": cache, "cache_size": size, "cache_check": "never"}
array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options)
expected = np.random.default_rng(17).integers(0, 1 << 40, (40, 1000))
generator = np.random.default_rng(int(size.split()[0]))
for _ in range(60):
    start, stop = sorted(generator.integers(0, 41, 2))
    assert np.array_equal(array[start:stop], expected[start:stop])
"""


def test_many_processes_and_one_small_folder(server: Server, tmp_path: Path) -> None:
    create(server, chunks=(1, 500), compressors=None)
    cache = tmp_path / "cache"
    sizes = [100 + n for n in range(6)]
    processes = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, server.url, str(cache), f"{size} KiB"])
        for size in sizes
    ]
    assert [process.wait(120) for process in processes] == [0] * len(sizes)
    files = [file for file in cache.rglob("*") if file.is_file()]
    assert not [file for file in files if file.name.startswith("tmp-")]
    # Each process sweeps at random. Together they sweep once per 16th of the limit on average.
    assert 10_000 < sum(file.stat().st_size for file in files) < 2 * 105 * 1024


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_a_forked_child(server: Server, tmp_path: Path, kind: str) -> None:
    create(server, chunks=(2, 1000))
    options = {**server.s3_options, "cache": tmp_path / "cache" if kind == "folder" else 10_000_000}
    array = hs.open_array("s3://bucket/a.zarr", mode="r", storage_options=options)
    assert np.array_equal(array[:20], VALUES[:20])
    in_child(lambda: np.array_equal(array[:], VALUES))
    assert np.array_equal(array[:], VALUES)


def test_what_goes_wrong(server: Server, tmp_path: Path) -> None:
    create(server, chunks=(2, 1000))
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(RuntimeWarning, match=r"the cache '.*file' cannot be written") as warned:
        assert np.array_equal(reading(server, tmp_path / "file")(), VALUES)
    assert len(warned) == 1
    cases: list[tuple[dict[str, Any], str]] = [
        ({"cache": "s3://bucket/x"}, "'cache': expected a folder on the local disk"),
        ({"cache": "1 GiB", "cache_size": "2 GiB"}, "'cache_size' bounds a folder"),
        ({"cache": tmp_path, "cache_size": "many"}, "'cache_size': expected a size"),
        ({"cache": tmp_path, "cache_check": "maybe"}, "expected 'always' or 'never'"),
    ]
    for wrong, why in cases:
        with pytest.raises(NotImplementedError, match=why):
            hs.open_array("s3://bucket/a.zarr", storage_options={**server.s3_options, **wrong})
