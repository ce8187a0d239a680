"""Several processes change attributes, shapes and rows on a server.

Also what creating and copying leave there.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

WRITERS, TIMES = 3, 8


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def _change(url: str, options: dict[str, str], writer: int) -> None:
    array = hs.open_array(f"{url}/a", mode="r+", storage_options=options)
    group = hs.open_group(url, mode="r+", storage_options=options)
    for n in range(TIMES):
        array.attrs[f"{writer}.{n}"] = n
        group.attrs[f"{writer}.{n}"] = n
        array.append(np.full((2, 3), 100 * writer + n, "i4"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_changes_of_all_processes_stay(server: Server, zarr_format: Any) -> None:
    url, options = "s3://bucket/g.zarr", server.s3_options
    group = hs.create_group(url, zarr_format=zarr_format, storage_options=options)
    group.create_array("a", shape=(0, 3), chunks=(5, 3), dtype="i4", fill_value=-1)
    group.consolidate()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_change, args=(url, options, n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    names = {f"{writer}.{n}" for writer in range(WRITERS) for n in range(TIMES)}
    array = hs.open_array(f"{url}/a", mode="r", storage_options=options)
    assert set(array.attrs) == names
    assert set(hs.open_group(url, mode="r", storage_options=options).attrs) == names
    rows = array[:].reshape(-1, 6)
    assert (rows == rows[:, :1]).all()
    expected = [100 * writer + n for writer in range(WRITERS) for n in range(TIMES)]
    assert sorted(rows[:, 0].tolist()) == expected


def test_a_failed_append_gives_its_rows_back(server: Server) -> None:
    url, options = "s3://bucket/a.zarr", server.s3_options
    array = hs.create_array(url, data=np.arange(4), chunks=(3,), storage_options=options)
    server.fault("status", status=403, method="PUT", key=".*c/1")
    with pytest.raises(PermissionError):
        array.append(np.arange(4))
    again = hs.open_array(url, mode="r+", storage_options=options)
    assert again[:].tolist() == [0, 1, 2, 3]
    again.resize((8,))
    assert again[:].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def asked(server: Server, work: Callable[[], Any]) -> tuple[int, int, Any]:
    server.control(latency=0.1)
    server.reset()
    made = work()
    found = server.rounds(), len(server.log()), made
    server.control(latency=0)
    return found


def test_creating_takes_few_rounds_and_no_old_chunks(server: Server) -> None:
    url, options = "s3://bucket/new.zarr", server.s3_options
    # Chunks without metadata, as a killed copy leaves them.
    hs.create_array(url, data=np.arange(10), chunks=(5,), storage_options=options)
    store = hs.storage.RemoteStore(url, storage_options=options)
    store.delete("zarr.json")

    def create() -> hs.Array:
        return hs.create_array(url, shape=(10,), chunks=(5,), dtype="i8", storage_options=options)

    array = create()
    assert array[:].tolist() == [0] * 10
    store.delete("zarr.json")
    rounds, requests, array = asked(server, create)
    assert rounds <= 3 and requests <= 7, (rounds, requests)
    with pytest.raises(FileExistsError):
        create()


def test_growing_and_shrinking_take_few_rounds(server: Server) -> None:
    url, options = "s3://bucket/long.zarr", server.s3_options
    values = np.arange(400)
    array = hs.create_array(url, data=values, chunks=(2,), storage_options=options)
    rounds, requests, _ = asked(server, lambda: array.resize((100,)))
    # The document, its condition, a list of the chunks outside, a look at them, and their deletion.
    assert rounds <= 9, (rounds, requests)
    rounds, requests, _ = asked(server, lambda: array.resize((1000,)))
    assert rounds <= 13, (rounds, requests)
    assert np.array_equal(array[:], np.r_[values[:100], np.zeros(900, "i8")])


def test_copies_write_documents_last(server: Server, tmp_path: Path) -> None:
    url, options = "s3://bucket/copy.zarr", server.s3_options
    source = hs.create_group(tmp_path / "s.zarr")
    rng = np.random.default_rng(0)
    values = {f"g{n}/a": rng.integers(0, 1000, (30, 40)) for n in range(3)}
    for name, data in values.items():
        source.create_array(name, data=data, chunks=(10, 40), attributes={"n": name})
    server.reset()
    hs.copy(source, url, storage_options=options)
    found = hs.open_group(url, mode="r", storage_options=options)
    for name, data in values.items():
        assert np.array_equal(found[name][:], data) and found[name].attrs["n"] == name
    written = [line["key"] for line in server.log() if line["method"] == "PUT"]
    documents = [n for n, path in enumerate(written) if path.endswith("zarr.json")]
    chunks = [n for n, path in enumerate(written) if "/c/" in path]
    assert chunks and max(chunks) < min(documents) and written[-1].endswith("copy.zarr/zarr.json")

    # Another copy replaces it. A folder that is no array or group is not replaced.
    with pytest.raises(FileExistsError):
        hs.copy(source, url, storage_options=options)
    hs.copy(source["g1"], url, storage_options=options, overwrite=True, verify=True)
    again = hs.open_group(url, mode="r", storage_options=options)
    assert list(again) == ["a"] and np.array_equal(again["a"][:], values["g1/a"])
    store = hs.storage.RemoteStore("s3://bucket/notes", storage_options=options)
    store.set("notes.txt", b"mine")
    for overwrite in (False, True):
        with pytest.raises(hs.errors.HyperslabError, match="no array or group"):
            hs.copy(source, "s3://bucket/notes", storage_options=options, overwrite=overwrite)
    assert store.get("notes.txt") == b"mine"


def test_a_copy_does_not_replace_its_source(server: Server) -> None:
    url, options = "s3://bucket/all.zarr", server.s3_options
    group = hs.create_group(url, storage_options=options)
    group.create_array("g/a", data=np.arange(10), chunks=(3,))
    for source, dest in [
        (f"{url}/g", url),
        (f"{url}/g/a", "s3a://bucket/all.zarr"),
        (url, f"{url}/g"),
        (url, url),
        (f"{url}/g/a", "s3a://bucket/all.zarr/g/a"),
    ]:
        for overwrite in (False, True):
            with pytest.raises(hs.errors.HyperslabError, match="inside the other"):
                hs.copy(source, dest, storage_options=options, overwrite=overwrite)
    array = hs.open_array(f"{url}/g/a", mode="r", storage_options=options)
    assert array[:].tolist() == list(range(10))
    # Copies beside the source, and to names that have the same end or start.
    hs.copy(f"{url}/g", "s3://bucket/other/all.zarr/g", storage_options=options)
    hs.copy(f"{url}/g", "s3://bucket/all.zarr2", storage_options=options)
    assert hs.open("s3://bucket/all.zarr2", storage_options=options)["a"][:].tolist() == list(range(10))
