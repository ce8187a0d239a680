"""How many requests follow one another, on a server far away. Counts, not times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

# Long enough that requests which do not wait for each other overlap on a busy machine.
LATENCY = 0.15


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def asked(server: Server, work: Callable[[], Any]) -> tuple[int, int, Any]:
    """Rounds, requests, and what came of the work."""
    server.control(latency=LATENCY)
    server.reset()
    made = work()
    found = server.rounds(), len(server.log()), made
    server.control(latency=0)
    return found


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_opening(server: Server, zarr_format: Any) -> None:
    url, options = "s3://bucket/g.zarr", server.s3_options
    root = hs.create_group(url, zarr_format=zarr_format, storage_options=options)
    for n in range(30):
        root.create_array(f"a{n:02}", shape=(4,), dtype="i4", attributes={"n": n})
    root.create_group("sub").create_array("b", shape=(4,), dtype="i4")
    rounds, _, array = asked(server, lambda: hs.open_array(f"{url}/a07", mode="r", storage_options=options))
    assert rounds == 1 and array.attrs["n"] == 7
    rounds, _, _ = asked(server, lambda: hs.open_array(f"{url}/a07", mode="r", storage_options=options)[:])
    assert rounds == 2

    # A hierarchy: for each level what is there, and what it is; nodes are open then.
    def walk() -> list[int]:
        found = hs.open_group(url, mode="r", storage_options=options, use_consolidated=False)
        return [node.attrs.get("n", -1) for _, node in found.members(max_depth=None)]

    rounds, _, found = asked(server, walk)
    assert sorted(found) == [-1, -1, *range(30)]
    # One more for the consolidated metadata that a group of version 2 might have.
    assert rounds <= 1 + 3 * 2 + (zarr_format == 2)

    root.consolidate()

    def consolidated() -> list[int]:
        found = hs.open_group(url, mode="r", storage_options=options)
        return [array.attrs["n"] for _, array in found.arrays()]

    rounds, _, found = asked(server, consolidated)
    assert rounds == 1 and found == list(range(30))


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_many_chunks(server: Server, compressors: Any) -> None:
    url, options = "s3://bucket/t.zarr", server.s3_options
    values = np.arange(60_000, dtype="i4").reshape(60, 1000)
    array = hs.create_array(
        url, data=values, chunks=(1, 1000), compressors=compressors, storage_options=options
    )
    rounds, requests, found = asked(server, lambda: array[:, 7])
    assert np.array_equal(found, values[:, 7])
    # The first request may stand alone: it makes the connection.
    assert requests == 60 and rounds <= 2
    if compressors is None:
        assert sum(each["sent"] for each in server.log()) == 60 * 4
