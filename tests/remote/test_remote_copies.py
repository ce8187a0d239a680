"""How many requests copies, fills and deletions send to a server. Counts, not times.

A copy costs its objects: one request for each that is read or written, none for absent ones, and a
few for metadata and the journal.
"""

from __future__ import annotations

from collections import Counter
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


def requests(server: Server, work: Callable[[], Any]) -> Counter[str]:
    """Return how often each kind of request is sent. Listings are "LIST", not "GET"."""
    server.reset()
    work()
    kinds = (
        ("LIST" if not each["key"] and each["method"] == "GET" else each["method"]) for each in server.log()
    )
    return Counter(kinds)


def numbers(count: int, width: int = 50) -> np.ndarray[Any, Any]:
    return np.arange(1, count * width + 1, dtype="i4").reshape(count, width)


def local(path: Path, values: np.ndarray[Any, Any]) -> hs.Array:
    return hs.create_array(path / "source.zarr", data=values, chunks=(1, values.shape[1]))


def sparse(server: Server, name: str = "sparse.zarr") -> hs.Array:
    """Make an array of 3000 chunks on the server, of which five are stored."""
    array = hs.create_array(
        f"s3://bucket/{name}", shape=(3000, 50), chunks=(1, 50), dtype="i4", storage_options=server.s3_options
    )
    for at in range(0, 3000, 600):
        array[at] = at + 1
    return array


def sparse_values() -> np.ndarray[Any, Any]:
    values = np.zeros((3000, 50), "i4")
    values[::600] = np.arange(1, 3000, 600)[:, None]
    return values


# Documents and listings of a whole copy: where it goes, and whether anything is there.
MORE = 16


def test_a_copy_to_a_server_writes_each_object_once(server: Server, tmp_path: Path) -> None:
    values, options = numbers(300), server.s3_options
    source = local(tmp_path, values)
    for again in (False, True):
        found = requests(
            server, lambda: hs.copy(source, "s3://bucket/c", overwrite=again, storage_options=options)
        )
        assert found["PUT"] == 301 and not found["HEAD"] and not found["DELETE"]
        assert found["GET"] + found["LIST"] + found["POST"] <= (MORE if again else 3)
        assert np.array_equal(hs.open_array("s3://bucket/c", storage_options=options)[...], values)


def test_writes_of_a_copy_are_on_their_way_together(server: Server, tmp_path: Path) -> None:
    """300 objects take at least 5 rounds of 64 requests. With few threads it would be 150."""
    source, options = local(tmp_path, numbers(300)), server.s3_options
    number = iter(range(100))

    def plan() -> hs.CopyPlan:
        return hs.plan_copy(source, f"s3://bucket/p{next(number)}", storage_options=options)

    for work in (
        lambda: hs.copy(source, f"s3://bucket/c{next(number)}", storage_options=options),
        lambda: plan().run(),
    ):
        rounds, _, _ = server.asked(work, 45)
        assert rounds <= 45


def test_a_copy_to_a_server_waits_for_few_rounds(server: Server, tmp_path: Path) -> None:
    """A copy looks at the destination, writes four chunks, and writes the document."""
    source, options = local(tmp_path, numbers(4)), server.s3_options
    number = iter(range(100))

    def copy() -> None:
        hs.copy(source, f"s3://bucket/c{next(number)}", storage_options=options)

    def plan() -> None:
        hs.plan_copy(source, f"s3://bucket/p{next(number)}", storage_options=options).run()

    assert server.asked(copy, 3)[0] <= 3
    # A plan also makes and deletes its journal, and looks at it before metadata and the last mark.
    assert server.asked(plan, 9)[0] <= 9


def test_a_plan_to_a_server_writes_each_object_once(server: Server, tmp_path: Path) -> None:
    """The answers to the writes tell the tags that the journal needs."""
    values, options = numbers(300), server.s3_options
    source = local(tmp_path, values)
    plan = hs.plan_copy(source, "s3://bucket/p", storage_options=options)
    found = requests(server, plan.run)
    # The journal: its claim, the plan, the mark at the end. And a document. (A record of the last task
    # would only be deleted.)
    assert found["PUT"] == 300 + 3 + 1 and not found["HEAD"] and found["POST"] == 1
    assert found["GET"] + found["LIST"] <= 2 * MORE
    assert np.array_equal(hs.open_array("s3://bucket/p", storage_options=options)[...], values)


def test_a_plan_from_server_to_server_reads_each_object_once(server: Server, tmp_path: Path) -> None:
    values, options = numbers(300), server.s3_options
    hs.copy(local(tmp_path, values), "s3://bucket/a", storage_options=options)
    plan = hs.plan_copy("s3://bucket/a", "s3://bucket/b", storage_options=options)
    found = requests(server, lambda: plan.run(verify=True))
    assert found["PUT"] == 305 and not found["HEAD"]
    # To copy, and to compare source and copy.
    assert found["GET"] + found["LIST"] <= 3 * 300 + 2 * MORE


def test_absent_chunks_cost_nothing(server: Server) -> None:
    array, options = sparse(server), server.s3_options
    values = sparse_values()
    plan = hs.plan_copy(array, "s3://bucket/p", storage_options=options)
    found = requests(server, plan.run)
    # The journal: its claim, the plan, the end, and three looks. The source: its document, and a listing.
    # The destination: two listings, its document, and two documents above. One request deletes the journal.
    assert sum(found.values()) <= 2 * 5 + 14 and found["HEAD"] == found["DELETE"] == 0, found
    assert np.array_equal(hs.open_array("s3://bucket/p", storage_options=options)[...], values)
    found = requests(server, lambda: hs.copy(array, "s3://bucket/c", storage_options=options))
    assert sum(found.values()) <= 2 * 5 + MORE + 6, found
    assert np.array_equal(hs.open_array("s3://bucket/c", storage_options=options)[...], values)
    found = requests(server, lambda: hs.statistics(array))
    assert found == {"LIST": 1, "GET": 5}
    # Eight requests are a sample, which shows that a listing pays off.
    assert requests(server, lambda: array[...]) == {"GET": 8 + 5, "LIST": 1}


def test_absent_chunks_of_a_target_cost_nothing(server: Server) -> None:
    """Chunks of only fill value are deleted, if there are any: a listing tells."""
    array, options = sparse(server), server.s3_options
    target = sparse(server, "target.zarr")
    target[1] = 7
    plan = hs.plan_copy(array, "s3://bucket/target.zarr", target_region=np.s_[:3000], storage_options=options)
    found = requests(server, plan.run)
    # A chunk that exists is looked at before it is replaced: 412, HEAD, PUT.
    assert sum(found.values()) <= 5 + 4 * 5 + 2 * MORE, found
    assert np.array_equal(target[...], sparse_values())
    assert len(server.list("bucket", "target.zarr/c/")) == 5


def test_blank_chunks_of_a_write_are_deleted_together(server: Server) -> None:
    options = server.s3_options
    array = hs.create_array(
        "s3://bucket/a", shape=(150, 55), chunks=(1, 10), dtype="i4", storage_options=options
    )
    values = numbers(150, 55)
    values[::2] = 0

    def write() -> None:
        array[...] = values

    def clear() -> None:
        array[:, :50] = 0

    # 450 chunks are written. Of the 450 others, 75 reach past the array's end.
    assert requests(server, write) == {"PUT": 450, "LIST": 1}
    assert np.array_equal(array[...], values)
    array[...] = 1
    assert len(server.list("bucket", "a/c/")) == 900
    assert requests(server, clear) == {"LIST": 1, "POST": 1}
    assert len(server.list("bucket", "a/c/")) == 150 and array[:, 50:].min() == 1 and not array[:, :50].any()


def test_blank_shards_are_deleted_together(server: Server) -> None:
    options = server.s3_options
    array = hs.create_array(
        "s3://bucket/s",
        shape=(400, 8),
        chunks=(1, 4),
        shards=(4, 8),
        dtype="i4",
        storage_options=options,
    )
    assert requests(server, lambda: array.__setitem__(..., 0)) == {"LIST": 1}
    array[...] = numbers(400, 8)
    assert requests(server, lambda: array.__setitem__(np.s_[:396], 0)) == {"LIST": 1, "POST": 1}
    assert len(server.list("bucket", "s/c/")) == 1 and np.array_equal(array[396:], numbers(400, 8)[396:])


def test_a_shorter_array_deletes_its_chunks_together(server: Server) -> None:
    options = server.s3_options
    array = hs.create_array("s3://bucket/r", data=numbers(300), chunks=(1, 50), storage_options=options)
    found = requests(server, lambda: array.resize((100, 50)))
    assert found["LIST"] <= 1 and found["POST"] == 1 and sum(found.values()) <= 8, found
    assert len(server.list("bucket", "r/c/")) == 100
    array.resize((300, 50))
    assert not array[100:].any()


def test_an_array_is_deleted_by_listings(server: Server) -> None:
    options = server.s3_options
    group = hs.create_group("s3://bucket/g", storage_options=options)
    group.create_array("a", data=numbers(300), chunks=(1, 50))
    found = requests(server, lambda: group.__delitem__("a"))
    assert found["POST"] <= 2 and sum(found.values()) <= 12, found
    assert server.list("bucket", "g/") == ["g/zarr.json"]


class Stop(Exception):
    pass


@pytest.mark.parametrize("check", ["stamps", "contents"])
def test_a_plan_is_resumed_by_a_listing(server: Server, tmp_path: Path, check: Any) -> None:
    values, options = numbers(300, 1000), server.s3_options
    source = local(tmp_path, values)
    plan = hs.plan_copy(source, "s3://bucket/r", storage_options=options, task_size="40 kB")
    assert plan.tasks == 30

    def stop(phase: str, done: int, total: int) -> None:
        if done >= total / 2:
            raise Stop

    with pytest.raises(Stop):
        plan.run(progress=stop)
    done = len([key for key in server.list("bucket", "r/") if "/done/" in key])
    # Somebody changes a chunk meanwhile.
    server.put("bucket", "r/c/3/0", b"other")
    run = plan.run
    found = requests(server, lambda: run(resume=True, check=check))
    left = 30 - done + 1
    # The ten objects of the changed task exist. Their first writes are refused, and they are looked
    # at. (So is the object after them.)
    assert found["HEAD"] <= 12 and found["PUT"] <= 10 * left + 10 + left + 6, found
    read = 10 * done if check == "contents" else 0
    # A task looks at the journal before and after it writes.
    assert found["GET"] + found["LIST"] <= read + 2 * left + 2 * MORE, found
    assert np.array_equal(hs.open_array("s3://bucket/r", storage_options=options)[...], values)


def test_a_lost_answer_costs_one_look(server: Server, tmp_path: Path) -> None:
    """If the answer to a write is lost, the tag is asked for."""
    values, options = numbers(40), server.s3_options
    plan = hs.plan_copy(local(tmp_path, values), "s3://bucket/l", storage_options=options)
    server.fault("status", status=500, late=True, method="PUT", key="l/c/7/0")
    plan.run()
    assert np.array_equal(hs.open_array("s3://bucket/l", storage_options=options)[...], values)


def test_a_refused_copy_changes_no_group_above(server: Server, tmp_path: Path) -> None:
    source, options = local(tmp_path, numbers(4)), server.s3_options
    group = hs.create_group("s3://bucket/above", storage_options=options)
    for name in ("x", "y"):
        group.create_array(name, data=[1, 2, 3])
    group.consolidate()
    before = server.get("bucket", "above/zarr.json")
    with pytest.raises(hs.errors.ContainsArrayError):
        hs.copy(source, "s3://bucket/above/x", storage_options=options)
    with pytest.raises(hs.errors.DestinationError):
        hs.plan_copy(source, "s3://bucket/above/x", storage_options=options).run()
    assert server.get("bucket", "above/zarr.json") == before
    hs.copy(source, "s3://bucket/above/z", storage_options=options)
    found = hs.open_group("s3://bucket/above", mode="r", storage_options=options)
    assert sorted(found) == ["x", "y", "z"]
