"""We make no more requests of a zarr-python store than zarr-python itself, except for safety.

`SAFER` has the number of requests that make us safer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import hyperslab as hs
import numpy as np
import pytest
import zarr
from counting_store import CountingStore

Steps: TypeAlias = Iterator[None]

LAYOUTS = [(3, None), (3, (32, 32)), (2, None)]
VALUES = np.arange(64 * 64, dtype="f4").reshape(64, 64)

# Requests that we make beyond zarr-python's, by format.
SAFER: dict[str, dict[Any, int]] = {
    # A change of metadata reads it first, so that changes of other handles are not lost.
    "append": {3: 1, 2: 1},
    "append_to_a_part": {3: 1, 2: 1},
    "attribute": {3: 1, 2: 1},
    "shrink": {3: 1, 2: 1},
    # A listing looks for chunks that growing would reveal. (In sessions of Icechunk another one
    # follows: they show these chunks only afterwards.)
    "grow": {3: 2, 2: 2, "icechunk": 3},
    # Deleting what does not exist is an error.
    "delete_a_group": {3: 1, 2: 2},
    # The group is read again under its lock, and once more to return it.
    "consolidate": {3: 2, 2: 1},
    # v2: an array may be where a group is looked for.
    "replace_array": {2: 2},
    "open_group": {2: 1},
    "open_consolidated": {2: 1},
    "members": {2: 1},
}

OPERATIONS: dict[str, Callable[..., Steps]] = {}


def operation(steps: Callable[..., Steps]) -> Callable[..., Steps]:
    """Register an operation. Requests after `yield` are counted."""
    OPERATIONS[steps.__name__] = steps
    return steps


def make(lib: Any, store: Any, format: int, shards: Any, **more: Any) -> Any:
    given = {"name": "a", "shape": (64, 64), "chunks": (8, 16), "dtype": "f4"} | more
    return lib.create_array(store, shards=shards, zarr_format=format, **given)


def filled(lib: Any, store: Any, format: int, shards: Any) -> Any:
    array = make(lib, store, format, shards)
    array[...] = VALUES
    return array


def hierarchy(lib: Any, store: Any, format: int, shards: Any) -> Any:
    root = lib.create_group(store, zarr_format=format)
    made = {"shape": (64, 64), "chunks": (8, 16), "shards": shards, "dtype": "f4"}
    for name in ("p", "q"):
        group = root.create_group(name)
        for member in ("a", "b"):
            group.create_array(member, **made)[...] = 1
    root.create_array("c", **made)[...] = 1
    return root


@operation
def create_array(lib: Any, *at: Any) -> Steps:
    yield
    make(lib, *at)


@operation
def create_array_in_a_group(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    group = lib.create_group(store, zarr_format=format)
    yield
    group.create_array("a", shape=(64, 64), chunks=(8, 16), shards=shards, dtype="f4")


@operation
def create_array_below_missing_groups(lib: Any, *at: Any) -> Steps:
    yield
    make(lib, *at, name="x/y/z")


@operation
def create_array_with_data(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    yield
    lib.create_array(store, name="a", data=VALUES, chunks=(8, 16), shards=shards, zarr_format=format)


@operation
def replace_array(lib: Any, *at: Any) -> Steps:
    filled(lib, *at)
    yield
    make(lib, *at, overwrite=True)


@operation
def create_group(lib: Any, store: Any, format: int, _: Any) -> Steps:
    yield
    lib.create_group(store, zarr_format=format)


@operation
def create_group_in_a_group(lib: Any, store: Any, format: int, _: Any) -> Steps:
    group = lib.create_group(store, zarr_format=format)
    yield
    group.create_group("b")


@operation
def open_node(lib: Any, store: Any, *rest: Any) -> Steps:
    make(lib, store, *rest)
    yield
    lib.open(store, path="a", mode="r")


@operation
def open_array(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    make(lib, store, format, shards)
    yield
    lib.open_array(store, path="a", mode="r+", zarr_format=format)


@operation
def open_group(lib: Any, store: Any, format: int, _: Any) -> Steps:
    lib.create_group(store, zarr_format=format)
    yield
    lib.open_group(store, mode="r")


@operation
def open_or_create_group(lib: Any, store: Any, format: int, _: Any) -> Steps:
    yield
    lib.open_group(store, mode="a", zarr_format=format)


@operation
def member(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    group = lib.create_group(store, zarr_format=format)
    make(lib, store, format, shards)
    yield
    assert "a" in group and group["a"].shape == (64, 64)


@operation
def read_a_chunk(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    np.testing.assert_array_equal(array[8:16, 16:32], VALUES[8:16, 16:32])


@operation
def read_rows(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    np.testing.assert_array_equal(array[5:22], VALUES[5:22])


@operation
def read_all(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    np.testing.assert_array_equal(array[...], VALUES)


@operation
def read_chunks_that_are_missing(lib: Any, *at: Any) -> Steps:
    array = make(lib, *at)
    yield
    assert not array[...].any()


@operation
def write_a_chunk(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array[8:16, 16:32] = 3


@operation
def write_a_part_of_a_chunk(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array[9:12, 16:30] = 3


@operation
def write_all(lib: Any, *at: Any) -> Steps:
    array = make(lib, *at)
    yield
    array[...] = VALUES


@operation
def write_fill_value(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array[...] = 0


@operation
def append(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array.append(VALUES[:16])


@operation
def append_to_a_part(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    array.append(VALUES[:3])
    yield
    array.append(VALUES[:2])


@operation
def attribute(lib: Any, *at: Any) -> Steps:
    array = make(lib, *at)
    yield
    array.attrs["x"] = 1


@operation
def attributes(lib: Any, *at: Any) -> Steps:
    array = make(lib, *at)
    yield
    array.attrs.update({"x": 1, "y": 2})


@operation
def shrink(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array.resize((32, 64))


@operation
def grow(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    array.resize((128, 64))


@operation
def members(lib: Any, *at: Any) -> Steps:
    group = hierarchy(lib, *at)
    yield
    assert len(list(group.members())) == 3


@operation
def all_members(lib: Any, *at: Any) -> Steps:
    group = hierarchy(lib, *at)
    yield
    assert len(list(group.members(max_depth=None))) == 7


@operation
def names(lib: Any, *at: Any) -> Steps:
    group = hierarchy(lib, *at)
    yield
    assert sorted(group) == ["c", "p", "q"]


@operation
def tree(lib: Any, *at: Any) -> Steps:
    group = hierarchy(lib, *at)
    yield
    str(group.tree())


@operation
def delete_a_group(lib: Any, *at: Any) -> Steps:
    group = hierarchy(lib, *at)
    yield
    del group["p"]


@operation
def consolidate(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    hierarchy(lib, store, format, shards)
    yield
    lib.consolidate_metadata(store, zarr_format=format)


@operation
def open_consolidated(lib: Any, store: Any, format: int, shards: Any) -> Steps:
    hierarchy(lib, store, format, shards)
    lib.consolidate_metadata(store, zarr_format=format)
    yield
    assert lib.open_group(store, mode="r")["p/a"].shape == (64, 64)


@operation
def count_chunks(lib: Any, *at: Any) -> Steps:
    array = filled(lib, *at)
    yield
    assert array.nchunks_initialized == 32


def counted(lib: Any, steps: Callable[..., Steps], store: Any, format: int, shards: Any) -> CountingStore:
    """The store after an operation, with its requests."""
    counting = CountingStore(store)
    running = steps(lib, counting, format, shards)
    next(running)
    counting.clear_counts()
    assert next(running, "ended") == "ended"
    return counting


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("format", "shards"), LAYOUTS)
def test_requests(name: str, format: int, shards: Any) -> None:
    steps = OPERATIONS[name]
    theirs = counted(zarr, steps, zarr.storage.MemoryStore(), format, shards)
    ours = counted(hs, steps, zarr.storage.MemoryStore(), format, shards)
    most = theirs.requests + SAFER.get(name, {}).get(format, 0)
    assert ours.requests <= most, (ours.log, theirs.log)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("shards", [None, (32, 32)])
def test_requests_of_icechunk_sessions(name: str, shards: Any) -> None:
    icechunk = pytest.importorskip("icechunk")
    if name in ("consolidate", "open_consolidated"):
        pytest.skip("sessions have no consolidated metadata")

    def session() -> Any:
        repository = icechunk.Repository.create(icechunk.in_memory_storage())
        return repository.writable_session("main").store

    steps = OPERATIONS[name]
    theirs = counted(zarr, steps, session(), 3, shards)
    ours = counted(hs, steps, session(), 3, shards)
    more = SAFER.get(name, {})
    most = theirs.requests + more.get("icechunk", more.get(3, 0))
    assert ours.requests <= most, (ours.log, theirs.log)


def test_a_part_of_a_shard_takes_its_bytes_only() -> None:
    for lib in (zarr, hs):
        store = counted(lib, read_a_chunk, zarr.storage.MemoryStore(), 3, (32, 32))
        assert store.calls == {"get": 2}, store.log
        # The index of 8 chunks and the checksum, and one chunk.
        assert store.bytes["got"] < 500


def test_a_listing_reads_no_keys_of_chunks() -> None:
    store = counted(hs, all_members, zarr.storage.MemoryStore(), 3, None)
    assert set(store.calls) == {"list_dir", "get"}, store.log


@pytest.mark.parametrize("format", [2, 3])
def test_a_replaced_array_loses_its_document_before_its_chunks(format: Any) -> None:
    """A reader in between finds no array, rather than an array without its chunks."""
    store = CountingStore(zarr.storage.MemoryStore())
    filled(hs, store, format, None)
    store.clear_counts()
    make(hs, store, format, None, overwrite=True)[...] = 1
    document = {2: ".zarray", 3: "zarr.json"}[format]
    changes = [line.strip() for line in store.log if line.split()[0] in ("delete", "delete_dir", "set")]
    order = [changes.index(each) for each in (f"delete a/{document}", "delete_dir a", f"set a/{document}")]
    assert order == sorted(order), changes
