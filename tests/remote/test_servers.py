"""The real servers that tests use answer. What they do not do right was found by trying, with obstore:

- moto (S3): a suffix range of an empty object is answered with 200 and nothing (S3: 416). Completing an
  upload heeds If-None-Match, but not If-Match. Signatures are not checked. ETags are sums of the bytes, as
  those of S3: the same bytes have the same again.
- azurite (Azure): no suffix ranges, and no ranges of an empty object (416), as Azure. Deleting what is not
  there is an error, as on Azure.
- fake-gcs-server (GCS): no puts, copies and uploads of the XML interface, and no conditional reads: all of
  that is in gcs_front.py. A suffix range of an empty object has a header that means nothing (``bytes
  0--1/0``). Lists do not begin where they are asked to (``start-after``), and have one page. A copy
  overwrites even under the condition that it must not. The ETag is a sum of the bytes; each write has another
  generation.
- nginx (HTTP): ranges of an empty file are ignored (200). The ETag is made of the time (in seconds) and the
  size of a file: one that is written twice within a second keeps it.

The `object_store` crate completes an upload without a condition, whatever the server can do.

No lost update was seen on any of the first three: eight threads that add to one number, under a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError
from obstore.store import AzureStore, HTTPStore
from servers import KINDS, Running, obstore_of, started

WRITABLE = ("moto", "azurite", "fake-gcs-server")


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[[str], Running]]:
    with started() as start:
        yield start


@pytest.fixture
def server(request: pytest.FixtureRequest, start: Callable[[str], Running]) -> Running:
    return start(request.param)


@pytest.fixture
def store(request: pytest.FixtureRequest, server: Running) -> Any:
    return obstore_of(request.node.callspec.params["server"], server)


def put(server: Running, store: Any, key: str, data: bytes) -> None:
    if isinstance(store, HTTPStore):
        (server.folder / key).parent.mkdir(parents=True, exist_ok=True)
        (server.folder / key).write_bytes(data)
    else:
        obstore.put(store, key, data)


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_reads(server: Running, store: Any) -> None:
    data = np.random.default_rng(0).bytes(100_000)
    put(server, store, "folder/key", data)
    assert bytes(obstore.get(store, "folder/key").bytes()) == data
    assert obstore.head(store, "folder/key")["size"] == 100_000
    assert bytes(obstore.get_range(store, "folder/key", start=10, end=500)) == data[10:500]
    assert bytes(obstore.get_range(store, "folder/key", start=99_990, end=100_500)) == data[99_990:]
    assert (
        bytes(obstore.get(store, "folder/key", options={"range": {"offset": 99_000}}).bytes())
        == data[99_000:]
    )
    if not isinstance(store, AzureStore):
        assert (
            bytes(obstore.get(store, "folder/key", options={"range": {"suffix": 77}}).bytes()) == data[-77:]
        )
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "none")


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_conditional_reads(server: Running, store: Any) -> None:
    put(server, store, "condition", b"bytes")
    etag = obstore.head(store, "condition")["e_tag"]
    assert bytes(obstore.get(store, "condition", options={"if_match": etag}).bytes()) == b"bytes"
    with pytest.raises(PreconditionError):
        obstore.get(store, "condition", options={"if_match": '"other"'})
    with pytest.raises(NotModifiedError):
        obstore.get(store, "condition", options={"if_none_match": etag})


@pytest.mark.parametrize("server", WRITABLE, indirect=True)
def test_lists_and_deletions(server: Running, store: Any) -> None:
    for key in ("list/a/1", "list/a/2", "list/b", "list/ü c+d"):
        obstore.put(store, key, b"12345")
    found = [(each["path"], each["size"]) for each in obstore.list(store, "list").collect()]
    assert found == [("list/a/1", 5), ("list/a/2", 5), ("list/b", 5), ("list/ü c+d", 5)]
    level = obstore.list_with_delimiter(store, "list")
    assert level["common_prefixes"] == ["list/a"]
    assert [each["path"] for each in level["objects"]] == ["list/b", "list/ü c+d"]
    obstore.delete(store, ["list/a/1", "list/b"])
    assert [each["path"] for each in obstore.list(store, "list").collect()] == ["list/a/2", "list/ü c+d"]


@pytest.mark.parametrize("server", WRITABLE, indirect=True)
def test_multipart_uploads(server: Running, store: Any) -> None:
    data = np.random.default_rng(0).bytes(11_000_000)
    obstore.put(store, "large", data, use_multipart=True)
    assert bytes(obstore.get(store, "large").bytes()) == data


@pytest.mark.parametrize("server", WRITABLE, indirect=True)
def test_conditional_puts(server: Running, store: Any) -> None:
    obstore.put(store, "new", b"one", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "new", b"two", mode="create")

    def version(found: Any) -> Any:
        return {name: found[name] for name in ("e_tag", "version") if found.get(name)}

    obstore.put(store, "sum", b"0")

    def add(_: int) -> None:
        done = 0
        while done < 5:
            got = obstore.get(store, "sum")
            value, seen = str(int(bytes(got.bytes())) + 1).encode(), version(got.meta)
            try:
                obstore.put(store, "sum", value, mode=seen)
                done += 1
            except PreconditionError:
                pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert bytes(obstore.get(store, "sum").bytes()) == b"40"
