"""Several processes append to arrays on a failing server.

Each acknowledged row is stored exactly once. Only killed appends leave rows without values.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

FOR_EVER = 10**9
CHANCE = 0.12
# Faults by the name of the array whose requests they hit.
FAULTS: dict[str, list[dict[str, Any]]] = {
    "s500": [{"do": "status", "status": 500}],
    "late500": [{"do": "status", "status": 500, "late": True}],
    "s503": [{"do": "status", "status": 503, "retry_after": 0}],
    "late503": [{"do": "status", "status": 503, "retry_after": 0, "late": True}],
    "s409": [{"do": "status", "status": 409, "method": "PUT"}],
    "reset": [{"do": "reset"}],
    "latereset": [{"do": "reset", "late": True}],
}
FAULTS["mixed"] = [
    {**fault, "chance": CHANCE / len(FAULTS)} for faults in list(FAULTS.values()) for fault in faults
]
WRITERS, KILLED, TIMES = 3, 2, 6


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def _url(name: str) -> str:
    return f"s3://bucket/{name}.zarr"


def _append(server: str, writer: int, times: int, told: Path) -> None:
    """Appends rows with unique values, and records which appends were begun and done."""
    options = {**_options(server), "timeout": "20"}
    with told.open("w") as file:
        arrays = {name: hs.open_array(_url(name), mode="r+", storage_options=options) for name in FAULTS}
        for n in range(1, times + 1):
            for name, array in arrays.items():
                value = writer * 1_000_000 + n
                print("try", name, value, file=file, flush=True)
                # Append one row, or five rows: a chunk and a part of the next.
                array.append(np.full(1 if n % 3 else 5, value))
                print("done", name, value, file=file, flush=True)


def _options(server: str) -> dict[str, str]:
    return {"endpoint_url": server, "key": "key", "secret": "secret", "region": "us-east-1"}


def _told(path: Path, word: str) -> Iterator[tuple[str, int]]:
    for line in path.read_text().splitlines():
        found, name, value = line.split()
        if found == word:
            yield name, int(value)


def test_each_row_is_there_once(server: Server, tmp_path: Path) -> None:
    options = server.s3_options
    for n, name in enumerate(FAULTS):
        hs.create_array(
            _url(name),
            shape=(0,),
            chunks=(2,) if n % 4 == 3 else (4,),
            shards=(4,) if n % 4 == 3 else None,
            dtype="i8",
            fill_value=-1,
            zarr_format=2 if n % 4 == 1 else 3,
            storage_options=options,
        )
    faults = [
        {"chance": CHANCE, "times": FOR_EVER, "key": f"{name}.zarr/.*", **fault}
        for name, faults in FAULTS.items()
        for fault in faults
    ]
    server.control(faults=faults)
    context = multiprocessing.get_context("spawn")
    told = [tmp_path / str(n) for n in range(WRITERS + KILLED)]
    writers = [
        context.Process(target=_append, args=(server.url, n, TIMES if n < WRITERS else FOR_EVER, told[n]))
        for n in range(WRITERS + KILLED)
    ]
    for writer in writers:
        writer.start()
    for n, writer in enumerate(writers[WRITERS:], WRITERS):
        # Kill the writer in the middle of an append.
        while not told[n].exists() or len(told[n].read_text().splitlines()) < 20 * (n - WRITERS + 1):
            assert writer.is_alive()
            time.sleep(0.01)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    for writer in writers[:WRITERS]:
        writer.join()
        assert writer.exitcode == 0
    server.control(faults=[])
    tried = {pair for path in told for pair in _told(path, "try")}
    done = {pair for path in told for pair in _told(path, "done")}
    assert len(done) >= WRITERS * TIMES * len(FAULTS)
    for name in FAULTS:
        found = Counter(hs.open_array(_url(name), mode="r", storage_options=options)[:].tolist())
        # Appends that were killed between reserving their rows and writing their values.
        killed = [value for of, value in tried - done if of == name]
        nobodys = found.pop(-1, 0)
        for value in (value for of, value in done if of == name):
            assert found.pop(value, 0) == (1 if value % 1_000_000 % 3 else 5), (name, value)
        assert set(found) <= set(killed), (name, found)
        assert nobodys <= 5 * len(killed), (name, nobodys)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_append_that_fails_leaves_no_rows(server: Server, zarr_format: Any) -> None:
    """The append reserves rows, but the server does not confirm it."""
    options = {**server.s3_options, "max_retries": "0"}
    document = "zarr.json" if zarr_format == 3 else ".zarray"
    array = hs.create_array(
        _url("a"), data=np.arange(4), chunks=(4,), zarr_format=zarr_format, storage_options=options
    )
    for late in (False, True):
        faults = [
            {"do": "status", "status": 500, "method": "PUT", "key": f".*{document}", "late": late},
            # The request that checks whether the change was made.
            {"do": "status", "status": 500, "method": "HEAD", "key": f".*{document}"},
        ]
        server.control(faults=faults)
        with pytest.raises(hs.errors.StoreError, match="Nobody knows" if late else None):
            array.append(np.arange(3))
        again = hs.open_array(_url("a"), mode="r+", storage_options=options)
        assert again[:].tolist() == [0, 1, 2, 3]
    array.append(np.arange(3))
    assert hs.open_array(_url("a"), storage_options=options)[:].tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_appends_take_as_many_requests_as_before(server: Server) -> None:
    array = hs.create_array(_url("a"), shape=(0,), chunks=(4,), dtype="i8", storage_options=server.s3_options)
    for _ in range(2):
        server.reset()
        array.append(np.arange(4))
        assert [(method, key.rpartition(".zarr/")[2][:4]) for method, key in server.requests()] == [
            ("GET", "zarr"),
            ("PUT", "zarr"),
            ("PUT", "c/" + str(len(array) // 4 - 1)[:2]),
        ]
    # Two writers on one machine: the second does not know the new rows of the first.
    other = hs.open_array(_url("a"), mode="r+", storage_options=server.s3_options)
    array.append(np.arange(4))
    other.append(np.arange(4))
    assert len(other) == 16


def test_consolidating_says_what_became_of_it(server: Server) -> None:
    """The server loses responses to completed changes of documents."""
    url, options = "s3://bucket/g.zarr", server.s3_options
    server.control(
        faults=[
            {"do": "status", "status": 500, "late": True, "method": "PUT", "chance": 0.5, "times": FOR_EVER}
        ]
    )
    group = hs.create_group(url, storage_options=options)
    for n in range(4):
        array = group.create_array(f"a{n}", data=np.arange(n + 1), chunks=(2,), attributes={"n": n})
        array.attrs["m"] = n
        group.attrs[f"g{n}"] = n
    group.consolidate()
    del group["a3"]
    server.control(faults=[])
    found = hs.open_group(url, mode="r", storage_options=options, use_consolidated=True)
    assert sorted(found) == ["a0", "a1", "a2"]
    assert dict(found.attrs) == {f"g{n}": n for n in range(4)}
    assert [dict(found[f"a{n}"].attrs) for n in range(3)] == [{"n": n, "m": n} for n in range(3)]
    assert [found[f"a{n}"][:].tolist() for n in range(3)] == [[0], [0, 1], [0, 1, 2]]
