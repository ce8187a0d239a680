"""Faults at every request of an operation in turn: the result is right, or an error says what failed. Never a
wrong value, never half an array.

Each case has a bucket of its own, a copy of `origin`, so that many run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab.storage import RemoteStore
from object_server_client import Server

OLD = np.arange(1, 1201, dtype="i4").reshape(40, 30)
NEW = -OLD
CHUNK, SHARD = (10, 10), (20, 15)
PART = np.s_[3:25, 2:28:3]
LONG = np.random.default_rng(0).integers(0, 255, 11_000_000, dtype="u1")


@dataclass
class Place:
    """A bucket."""

    server: Server
    bucket: str
    more: dict[str, str]

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/g.zarr"

    @property
    def options(self) -> dict[str, str]:
        return {**self.server.s3_options, **self.more}

    def array(self, name: str, mode: Any = "r") -> hs.Array:
        return hs.open_array(f"{self.url}/{name}", mode=mode, storage_options=self.options)

    def group(self, name: str = "", mode: Any = "r", **more: Any) -> hs.Group:
        url = f"{self.url}/{name}" if name else self.url
        return hs.open_group(url, mode=mode, storage_options=self.options, **more)

    def store(self, name: str) -> RemoteStore:
        return RemoteStore(f"{self.url}/{name}", storage_options=self.options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    h5py = pytest.importorskip("h5py")
    with Server() as server:
        server.control(buckets=["origin"])
        origin = Place(server, "origin", {})
        root = hs.create_group(origin.url, storage_options=origin.options)
        for version, shards in ((3, None), (3, SHARD), (2, None)):
            name = f"{'s' if shards else 'v'}{version}"
            chunks = (5, 5) if shards else CHUNK
            array = hs.create_array(
                f"{origin.url}/{name}",
                data=OLD,
                chunks=chunks,
                shards=shards,
                zarr_format=version,
                attributes={"units": "K"},
                storage_options=origin.options,
            )
            assert array.attrs["units"] == "K"
        sparse = root.create_array("sparse", shape=(400,), chunks=(5,), dtype="i4")
        sparse[::50] = np.arange(1, 9)
        inner = root.create_group("inner")
        for n in range(3):
            inner.create_array(f"a{n}", data=np.arange(n + 1), attributes={"n": n})
        inner.consolidate()
        file = tmp_path_factory.mktemp("faults") / "x.h5"
        with h5py.File(file, "w") as made:
            made.create_dataset("g/v", data=OLD, chunks=CHUNK, compression="gzip")
            made["pad"] = np.zeros(100_000, "u1")
            made.create_dataset("h/w", data=OLD, chunks=(1, 30))
        server.put("origin", "g.zarr/x.h5", file.read_bytes())
        yield server


# What is read. Values are checked here: a wrong one is a failure, not an error.


def opens_an_array(place: Place) -> None:
    array = place.array("v3")
    assert array.shape == (40, 30) and dict(array.attrs) == {"units": "K"}


def opens_a_consolidated_group(place: Place) -> None:
    group = place.group("inner")
    assert [(name, array.attrs["n"]) for name, array in sorted(group.arrays())] == [
        ("a0", 0),
        ("a1", 1),
        ("a2", 2),
    ]


def walks_a_group(place: Place) -> None:
    found = place.group(use_consolidated=False).members(max_depth=None)
    names = ["inner", "inner/a0", "inner/a1", "inner/a2", "s3", "sparse", "v3"]
    assert sorted(name for name, _ in found) == names


def finds_nothing(place: Place) -> None:
    with pytest.raises(hs.errors.NodeNotFoundError):
        place.array("none")


def reads_chunks(place: Place) -> None:
    for name in ("v3", "v2"):
        array = place.array(name)
        assert np.array_equal(array[PART], OLD[PART])
        assert array[7, 8] == OLD[7, 8]


def reads_shards(place: Place) -> None:
    array = place.array("s3")
    assert np.array_equal(array[1::7, 4], OLD[1::7, 4])
    assert np.array_equal(array[:], OLD)


def reads_sparse(place: Place) -> None:
    wanted = np.zeros(400, "i4")
    wanted[::50] = np.arange(1, 9)
    assert np.array_equal(place.array("sparse")[:], wanted)


def reads_hdf5(place: Place) -> None:
    group = place.group("x.h5")
    assert sorted(group) == ["g", "h", "pad"]
    assert np.array_equal(group["g/v"][PART], OLD[PART])
    assert np.array_equal(group["h/w"][:, 3], OLD[:, 3])


READS = [
    opens_an_array,
    opens_a_consolidated_group,
    walks_a_group,
    finds_nothing,
    reads_chunks,
    reads_shards,
    reads_sparse,
    reads_hdf5,
]

# What is changed, and what may be there afterwards: `done` tells whether an error was raised.
Check = Callable[[Place, bool], None]


def old_or_new(found: Any, new: Any, done: bool, chunk: tuple[int, ...], old: Any = OLD) -> None:
    """Each chunk has the old values or the new ones."""
    if done:
        assert np.array_equal(found, new)
        return
    assert found.shape == new.shape
    for start in np.ndindex(*(-(-n // c) for n, c in zip(new.shape, chunk, strict=True))):
        box = tuple(slice(s * c, s * c + c) for s, c in zip(start, chunk, strict=True))
        assert np.array_equal(found[box], old[box]) or np.array_equal(found[box], new[box]), (start, found)


def writing(name: str, chunk: tuple[int, ...], where: Any, values: Any) -> tuple[Any, Check]:
    def write(place: Place) -> None:
        place.array(name, "r+")[where] = values

    def check(place: Place, done: bool) -> None:
        new = OLD.copy()
        new[where] = values
        old_or_new(place.array(name)[:], new, done, chunk)

    return write, check


def creates(place: Place) -> None:
    hs.create_array(f"{place.url}/new", data=OLD, chunks=CHUNK, storage_options=place.options)


def creates_v2(place: Place) -> None:
    hs.create_array(
        f"{place.url}/new",
        data=OLD,
        chunks=CHUNK,
        zarr_format=2,
        attributes={"a": 1},
        storage_options=place.options,
    )


def created(place: Place, done: bool) -> None:
    try:
        array = place.array("new")
    except hs.errors.NodeNotFoundError:
        assert not done
    else:
        old_or_new(array[:], OLD, done, CHUNK, np.zeros_like(OLD))


def overwrites(place: Place) -> None:
    hs.create_array(
        f"{place.url}/v3", data=NEW[:20], chunks=CHUNK, overwrite=True, storage_options=place.options
    )


def overwritten(place: Place, done: bool) -> None:
    try:
        array = place.array("v3")
    except hs.errors.NodeNotFoundError:
        assert not done
    else:
        new = array.shape == (20, 30)
        assert new or not done
        assert np.array_equal(array[:], NEW[:20] if new else OLD)


def deletes(place: Place) -> None:
    del place.group(mode="r+")["v3"]


def deleted(place: Place, done: bool) -> None:
    try:
        array = place.array("v3")
    except hs.errors.NodeNotFoundError:
        left = place.server.list(place.bucket, "g.zarr/v3/")
        assert not (done and left), left
    else:
        assert not done and np.array_equal(array[:], OLD)


def shrinks(place: Place) -> None:
    place.array("v3", "r+").resize((15, 30))


def shrunk(place: Place, done: bool) -> None:
    array = place.array("v3")
    if array.shape == (15, 30):
        assert np.array_equal(array[:], OLD[:15])
    else:
        assert not done and array.shape == (40, 30)
        # What is to go may be gone.
        old_or_new(array[:], np.vstack([OLD[:20], np.zeros_like(OLD[20:])]), False, CHUNK)


def appends(place: Place) -> None:
    place.array("v3", "r+").append(NEW[:7])


def appended(place: Place, done: bool) -> None:
    array = place.array("v3")
    assert array.shape == (47, 30) or (not done and array.shape == (40, 30))
    assert np.array_equal(array[:40], OLD)
    if array.shape == (47, 30):
        old_or_new(array[40:], NEW[:7], done, CHUNK, np.zeros_like(OLD))


def changes_attributes(place: Place) -> None:
    for name in ("v3", "v2"):
        place.array(name, "r+").attrs.update(units="m", n=1)


def attributes_changed(place: Place, done: bool) -> None:
    for name in ("v3", "v2"):
        found = dict(place.array(name).attrs)
        assert found == {"units": "m", "n": 1} or (not done and found == {"units": "K"})
        assert np.array_equal(place.array(name)[:], OLD)


def consolidates(place: Place) -> None:
    place.group("inner", "r+").create_array("b", data=[1])
    place.group("inner", "r+", use_consolidated=False).consolidate()


def consolidated(place: Place, done: bool) -> None:
    names = sorted(place.group("inner"))
    assert names == ["a0", "a1", "a2", "b"] or (not done and names == ["a0", "a1", "a2"])


def writes_long_objects(place: Place) -> None:
    hs.create_array(
        f"{place.url}/long",
        data=LONG,
        chunks=LONG.shape,
        compressors=None,
        storage_options={**place.options, "part_size": "5242880"},
    )


def long_object_written(place: Place, done: bool) -> None:
    try:
        found = place.array("long")[:]
    except hs.errors.NodeNotFoundError:
        assert not done
    else:
        assert np.array_equal(found, LONG) or (not done and not np.any(found))


def copies(place: Place) -> None:
    hs.copy(place.array("v3"), place.store("copy"))


def copied(place: Place, done: bool) -> None:
    try:
        array = place.array("copy")
    except hs.errors.NodeNotFoundError:
        assert not done
    else:
        assert np.array_equal(array[:], OLD)


CHANGES: dict[str, tuple[Callable[[Place], None], Check]] = {
    "writes chunks": writing("v3", CHUNK, np.s_[:], NEW),
    "writes shards": writing("s3", SHARD, np.s_[:], NEW),
    "writes parts of chunks": writing("v3", CHUNK, np.s_[5:15, 3:27], 7),
    "writes parts of shards": writing("s3", SHARD, np.s_[5:25, 3:27], 7),
    "fills a part": writing("v2", CHUNK, np.s_[0:20, 0:15], 0),
    "creates": (creates, created),
    "creates v2": (creates_v2, created),
    "overwrites": (overwrites, overwritten),
    "deletes": (deletes, deleted),
    "shrinks": (shrinks, shrunk),
    "appends": (appends, appended),
    "attributes": (changes_attributes, attributes_changed),
    "consolidates": (consolidates, consolidated),
    "long objects": (writes_long_objects, long_object_written),
    "copies": (copies, copied),
}


@dataclass
class Case:
    """One fault at one request."""

    place: Place
    fault: dict[str, Any]
    error: Exception | None = None

    def __str__(self) -> str:
        return f"{self.fault}: {type(self.error).__name__}: {self.error}"


def inject(
    server: Server, work: Callable[[Place], None], faults: list[dict[str, Any]], **options: str
) -> list[Case]:
    """Does the work with each fault at each request."""
    server.reset()
    server.control(copy={"plain": "origin"})
    work(Place(server, "plain", {}))
    requests = len(server.log())
    cases = []
    for at in range(requests):
        for fault in faults:
            bucket = f"case{len(cases)}"
            cases.append(Case(Place(server, bucket, options), {**fault, "bucket": bucket, "skip": at}))
    server.control(
        faults=[case.fault for case in cases], copy={case.place.bucket: "origin" for case in cases}
    )

    def run(case: Case) -> None:
        try:
            work(case.place)
        except hs.errors.HyperslabError as error:
            case.error = error

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(run, cases))
    # Without the faults that were not met.
    server.control(faults=[])
    return cases


def is_clear(case: Case) -> bool:
    """Whether an error names what failed, and where."""
    kind, text = type(case.error), str(case.error)
    return issubclass(kind, hs.errors.StoreError) and f"s3://{case.place.bucket}/g.zarr" in text


ONCE = [
    {"do": "reset"},
    {"do": "reset", "late": True},
    {"do": "status", "status": 500},
    {"do": "status", "status": 503, "retry_after": 0},
    {"do": "status", "status": 429},
    {"do": "cut", "after": 2},
]
FROM_THEN_ON = [
    {"do": "reset", "times": 10**9},
    {"do": "reset", "late": True, "times": 10**9},
    {"do": "status", "status": 500, "times": 10**9},
    {"do": "status", "status": 403, "times": 10**9},
    {"do": "cut", "after": 2, "times": 10**9},
]


@pytest.mark.parametrize("work", READS, ids=lambda work: work.__name__)
def test_reads(server: Server, work: Callable[[Place], None]) -> None:
    cases = inject(server, work, ONCE)
    failed = [str(case) for case in cases if case.error]
    assert not failed, "one fault is healed by another attempt"
    for case in inject(server, work, FROM_THEN_ON, max_retries="1"):
        assert case.error is None or is_clear(case), case


@pytest.mark.parametrize("name", CHANGES)
def test_changes(server: Server, name: str) -> None:
    work, check = CHANGES[name]
    cases = inject(server, work, ONCE)
    failed = [str(case) for case in cases if case.error]
    assert not failed, "one fault is healed by another attempt"
    for case in cases:
        check(case.place, True)
    for case in inject(server, work, FROM_THEN_ON, max_retries="1"):
        assert case.error is None or is_clear(case), case
        check(case.place, case.error is None)
