"""How many requests follow one another on a distant server. Counts, not times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_opening(server: Server, zarr_format: Any) -> None:
    url, options = "s3://bucket/g.zarr", server.s3_options
    root = hs.create_group(url, zarr_format=zarr_format, storage_options=options)
    for n in range(30):
        root.create_array(f"a{n:02}", shape=(4,), dtype="i4", attributes={"n": n})
    root.create_group("sub").create_array("b", shape=(4,), dtype="i4")
    rounds, _, array = server.asked(lambda: hs.open_array(f"{url}/a07", mode="r", storage_options=options), 1)
    assert rounds == 1 and array.attrs["n"] == 7
    rounds, _, _ = server.asked(lambda: hs.open_array(f"{url}/a07", mode="r", storage_options=options)[:], 2)
    assert rounds == 2

    # A hierarchy takes two rounds for each level: the names of nodes, and the nodes, which are open
    # then.
    def walk() -> list[int]:
        found = hs.open_group(url, mode="r", storage_options=options, use_consolidated=False)
        return [node.attrs.get("n", -1) for _, node in found.members(max_depth=None)]

    # One more for the consolidated metadata that a group of version 2 might have.
    most = 1 + 3 * 2 + (zarr_format == 2)
    rounds, _, found = server.asked(walk, most)
    assert sorted(found) == [-1, -1, *range(30)]
    assert rounds <= most

    root.consolidate()

    def consolidated() -> list[int]:
        found = hs.open_group(url, mode="r", storage_options=options)
        return [array.attrs["n"] for _, array in found.arrays()]

    rounds, _, found = server.asked(consolidated, 1)
    assert rounds == 1 and found == list(range(30))


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_many_chunks(server: Server, compressors: Any) -> None:
    url, options = "s3://bucket/t.zarr", server.s3_options
    values = np.arange(60_000, dtype="i4").reshape(60, 1000)
    array = hs.create_array(
        url, data=values, chunks=(1, 1000), compressors=compressors, storage_options=options
    )
    rounds, requests, found = server.asked(lambda: array[:, 7], 2)
    assert np.array_equal(found, values[:, 7])
    # The first request may be alone, because it opens the connection.
    assert requests == 60 and rounds <= 2
    if compressors is None:
        assert sum(each["sent"] for each in server.log()) == 60 * 4


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_chunks_of_many_shards(server: Server, compressors: Any) -> None:
    """One round reads the indexes of all shards, the next all chunks.

    Joined ranges save requests.
    """
    url, options = "s3://bucket/s.zarr", server.s3_options
    values = np.random.default_rng(0).integers(0, 1 << 30, (20, 512, 512), "i4")
    hs.create_array(
        url,
        data=values,
        chunks=(1, 64, 64),
        shards=(1, 512, 512),
        compressors=compressors,
        storage_options=options,
    )
    # Eight of the 64 inner chunks of each shard.
    rng = np.random.default_rng(1)
    shards = np.repeat(np.arange(20), 8)
    rows, columns = (64 * rng.integers(0, 8, (2, 160))).tolist()

    def points() -> np.ndarray[Any, Any]:
        array = hs.open_array(url, mode="r", storage_options=options)
        found: np.ndarray[Any, Any] = array.vindex[shards, rows, columns]
        return found

    rounds, requests, found = server.asked(points, 3)
    assert np.array_equal(found, values[shards, rows, columns])
    # The other round reads the metadata.
    assert rounds == 3 and requests <= 5 + 20 + 64


def test_sparse_arrays_take_few_requests(server: Server) -> None:
    """A listing tells which of many chunks exist, so that few absent chunks are requested."""
    url, options = "s3://bucket/sparse.zarr", server.s3_options
    array = hs.create_array(url, shape=(2000, 1000), chunks=(1, 1000), dtype="i4", storage_options=options)
    array[7] = 7
    array[1234] = 8
    rounds, requests, found = server.asked(lambda: array[:], 6)
    assert found[7, 0] == 7 and found[1234, 999] == 8 and found.sum() == 15_000
    assert rounds <= 6 and requests <= 8 + 2 + 4, (rounds, requests)


def writing(
    server: Server, work: Callable[[], Any], most: int, latency: float = 0.15
) -> tuple[int, list[str]]:
    """Returns the number of rounds, and the methods of all requests.

    Like `Server.asked`, for work that can be repeated.
    """
    for _ in range(5):
        server.clear()
        server.control(latency=latency)
        work()
        rounds, methods = server.rounds(), [method for method, _ in server.requests()]
        server.control(latency=0)
        if rounds <= most:
            break
    return rounds, methods


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_creating(server: Server, zarr_format: Any) -> None:
    """One listing looks for a node and for leftovers.

    Then writes the document, then the chunks.
    """
    options, values = server.s3_options, np.arange(4000, dtype="i4").reshape(40, 100)
    how: dict[str, Any] = {"zarr_format": zarr_format, "storage_options": options}

    def create() -> None:
        hs.create_array("s3://bucket/a.zarr", shape=(10,), dtype="i4", **how)

    rounds, methods = writing(server, create, 2)
    assert rounds == 2 and sorted(methods) == ["GET", "PUT"]

    # In Zarr v2 attributes are an object of their own. They are written before the array appears.
    def with_attributes() -> None:
        hs.create_array("s3://bucket/a.zarr", shape=(10,), dtype="i4", attributes={"n": 1}, **how)

    own = zarr_format == 2
    rounds, methods = writing(server, with_attributes, 2 + own)
    assert rounds == 2 + own and sorted(methods) == ["GET"] + ["PUT"] * (1 + own)
    assert hs.open_array("s3://bucket/a.zarr", storage_options=options).attrs["n"] == 1
    rounds, methods = writing(server, lambda: hs.create_group("s3://bucket/g/h", **how), 2)
    assert rounds == 2 and sorted(methods) == ["GET", "PUT"]

    def write() -> None:
        hs.create_array("s3://bucket/b.zarr", data=values, chunks=(1, 100), **how)

    rounds, methods = writing(server, write, 3)
    assert rounds == 3 and sorted(methods) == ["GET"] + ["PUT"] * 41
    assert np.array_equal(hs.open_array("s3://bucket/b.zarr", storage_options=options)[:], values)
    if zarr_format == 2:
        return

    def shards() -> None:
        hs.create_array(
            "s3://bucket/c.zarr", data=values, chunks=(1, 100), shards=(4, 100), storage_options=options
        )

    rounds, methods = writing(server, shards, 4)
    assert rounds <= 4 and methods.count("PUT") == 11
    assert np.array_equal(hs.open_array("s3://bucket/c.zarr", storage_options=options)[:], values)


def test_leftovers_go_before_an_array_is_created(server: Server) -> None:
    options = server.s3_options
    server.put("bucket", "x.zarr/c/0", b"left")
    array = hs.create_array(
        "s3://bucket/x.zarr", shape=(10,), chunks=(5,), dtype="i4", storage_options=options
    )
    assert array[:].sum() == 0 and server.list("bucket", "x.zarr/") == ["x.zarr/zarr.json"]
    array[:] = 1
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.create_array("s3://bucket/x.zarr", shape=(10,), chunks=(5,), dtype="i4", storage_options=options)
    assert array[:].sum() == 10


def test_attributes_that_a_killed_creation_left_are_replaced(server: Server) -> None:
    how: dict[str, Any] = {"storage_options": server.s3_options, "zarr_format": 2}
    for name, attributes in (("x", {}), ("y", {"new": 1})):
        server.put("bucket", f"{name}.zarr/.zattrs", b'{"old": 1}')
        hs.create_array(f"s3://bucket/{name}.zarr", shape=(4,), dtype="i4", attributes=attributes, **how)
        array = hs.open_array(f"s3://bucket/{name}.zarr", mode="r+", storage_options=server.s3_options)
        assert dict(array.attrs) == attributes
        array.attrs["later"] = 2
        assert dict(hs.open_array(f"s3://bucket/{name}.zarr", storage_options=server.s3_options).attrs) == {
            **attributes,
            "later": 2,
        }


def test_copying_asks_for_no_sizes(server: Server, tmp_path: Path) -> None:
    options, values = server.s3_options, np.arange(4000, dtype="i4").reshape(40, 100)
    array = hs.create_array(
        "s3://bucket/s.zarr", data=values, chunks=(1, 100), compressors=None, storage_options=options
    )
    numbers = iter(range(100))
    rounds, requests, _ = server.asked(
        lambda: hs.copy("s3://bucket/s.zarr", tmp_path / f"{next(numbers)}.zarr", storage_options=options), 4
    )
    assert np.array_equal(hs.open_array(tmp_path / "0.zarr")[:], values)
    # Metadata, two listings, the chunks.
    assert rounds <= 4 and requests <= 5 + 2 + 40
    assert {method for method, _ in server.requests()} == {"GET"}
    rounds, requests, found = server.asked(array.nbytes_stored, 2)
    assert found >= values.nbytes and requests <= 2 and rounds <= 2


def test_what_becomes_empty_is_not_asked_for(server: Server) -> None:
    options = server.s3_options
    array = hs.create_array(
        "s3://bucket/z.zarr", shape=(500, 1000), chunks=(1, 1000), dtype="i4", storage_options=options
    )
    for new in (0, np.zeros((500, 1000), "i4")):
        array[7], array[400] = 7, 8
        server.control(latency=0.15)
        server.reset()
        array[:] = new
        requests = server.requests()
        rounds = server.rounds()
        server.control(latency=0)
        # A listing, and a request for both chunks that exist.
        assert sorted(method for method, _ in requests) == ["GET", "POST"], requests
        assert rounds <= 2 and server.list("bucket", "z.zarr/") == ["z.zarr/zarr.json"]
    array[3] = 3
    array[:] = 5
    assert array[:].min() == 5
