"""Faults at each request of an operation: the result is right, or an error says what failed.

The result is never a wrong value or half an array. Each case has its own bucket, a copy of
`origin`, so that many cases run at the same time.
"""

from __future__ import annotations

import base64
import multiprocessing
import os
import random
import re
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
from support import examples

OLD = np.arange(1, 1201, dtype="i4").reshape(40, 30)
NEW = -OLD
# Encodes to fewer bytes, so that all chunks move.
SPARSE_NEW = np.where(OLD < 600, -OLD, 3).astype("i4")
# No server listens there.
NOBODY = "http://127.0.0.1:9"
CHUNK, SHARD = (10, 10), (20, 15)
PART = np.s_[3:25, 2:28:3]
# Long enough for the store to list the chunks before reading.
SPARSE = np.zeros(2_000_000, "i4")
SPARSE[::500_000] = 1, 2, 3, 4
LONG = np.random.default_rng(0).integers(0, 255, 6_000_000, dtype="u1")


@dataclass
class Place:
    """A bucket on the server."""

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
        server.control(buckets=["origin", "other"])
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
        sparse = root.create_array("sparse", shape=SPARSE.shape, chunks=(40_000,), dtype="i4")
        sparse[::500_000] = SPARSE[::500_000]
        inner = root.create_group("inner")
        for n in range(3):
            inner.create_array(f"a{n}", data=np.arange(n + 1), attributes={"n": n})
        inner.consolidate()
        for bucket, raw, values in (("origin", OLD, OLD), ("other", NEW, SPARSE_NEW)):
            place = Place(server, bucket, {})
            root = place.group(mode="a")
            root.create_array("raw", data=raw, chunks=raw.shape, compressors=None)
            root.create_array("one", data=values, chunks=(5, 5), shards=values.shape)
            file = tmp_path_factory.mktemp("faults") / "x.h5"
            with h5py.File(file, "w") as made:
                made.create_dataset("g/v", data=values, chunks=CHUNK, compression="gzip")
                made["pad"] = np.zeros(1_000_000, "u1")
                made.create_dataset("h/w", data=values, chunks=(1, 30), compression="gzip")
                made["more"] = np.zeros(1_000_000, "u1")
                made["x"] = values
            server.put(bucket, "g.zarr/x.h5", file.read_bytes())
        yield server


# Reads. They check values: a wrong value fails the test, and does not count as an error.


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
    found = dict(place.group(use_consolidated=False).members(max_depth=None))
    for node in found.values():
        # An array that cannot be read is listed, and holds its error.
        if isinstance(node, hs.UnreadableArray):
            raise node.error
    assert sorted(found) == ["inner", "inner/a0", "inner/a1", "inner/a2", "one", "raw", "s3", "sparse", "v3"]


def finds_nothing(place: Place) -> None:
    with pytest.raises(hs.errors.NodeNotFoundError):
        place.array("none")


def reads_chunks(place: Place) -> None:
    for name in ("v3", "v2"):
        array = place.array(name)
        assert np.array_equal(array[PART], OLD[PART])
        assert array[7, 8] == OLD[7, 8]


def reads_raw(place: Place) -> None:
    array = place.array("raw")
    assert np.array_equal(array[PART], OLD[PART]) and np.array_equal(array[:], OLD)


def reads_shards(place: Place) -> None:
    array = place.array("s3")
    assert np.array_equal(array[1::7, 4], OLD[1::7, 4])
    assert np.array_equal(array[:], OLD)


def reads_sparse(place: Place) -> None:
    assert np.array_equal(place.array("sparse")[:], SPARSE)


def reads_hdf5(place: Place) -> None:
    group = place.group("x.h5")
    assert sorted(group) == ["g", "h", "more", "pad", "x"]
    for name in ("x", "g/v", "h/w"):
        assert np.array_equal(group[name][PART], OLD[PART])


READS = [
    opens_an_array,
    opens_a_consolidated_group,
    walks_a_group,
    finds_nothing,
    reads_chunks,
    reads_raw,
    reads_shards,
    reads_sparse,
    reads_hdf5,
]

# Changes, and checks of the state after them. `done` is true if no error was raised.
Check = Callable[[Place, bool], None]


def old_or_new(found: Any, new: Any, done: bool, chunk: tuple[int, ...], old: Any = OLD) -> None:
    """Checks that each chunk has its old or its new values. If `done`, all are new."""
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
        # Chunks beyond the new shape may already be deleted.
        old_or_new(array[:], np.vstack([OLD[:20], np.zeros_like(OLD[20:])]), False, CHUNK)


def appends(place: Place) -> None:
    place.array("v3", "r+").append(NEW[:7])


def appended(place: Place, done: bool) -> None:
    array = place.array("v3")
    assert array.shape == (47, 30) or (not done and array.shape == (40, 30))
    assert np.array_equal(array[:40], OLD)
    if array.shape == (47, 30):
        old_or_new(array[40:], NEW[:7], done, CHUNK, np.zeros_like(NEW[:7]))


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
    server: Server, work: Callable[[Place], None], faults: list[dict[str, Any]], seed: int, **options: str
) -> list[Case]:
    """Runs the work with each fault at each request, or at a sample if there are many requests."""
    server.reset()
    server.control(copy={"plain": "origin"})
    work(Place(server, "plain", {}))
    key = faults[0].get("key", ".*")
    requests = sum(bool(re.fullmatch(key, each["key"])) for each in server.log())
    some = random.Random(seed).sample(range(requests), min(requests, examples(10)))
    cases = []
    # The first one is always there: mostly it is healed in another way than later ones.
    for at in sorted({0, *some}):
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
    # Remove the faults that no request has triggered.
    server.control(faults=[])
    return cases


def is_clear(case: Case) -> bool:
    """Returns whether the error names what failed, and where."""
    kind, text = type(case.error), str(case.error)
    return issubclass(kind, hs.errors.StoreError) and f"s3://{case.place.bucket}/g.zarr" in text


ONCE: list[dict[str, Any]] = [
    {"do": "reset"},
    {"do": "reset", "late": True},
    {"do": "status", "status": 500},
    {"do": "status", "status": 500, "late": True},
    {"do": "status", "status": 503, "retry_after": 0},
    {"do": "status", "status": 429},
    {"do": "cut", "after": 2},
]
FOR_EVER = 10**9
FROM_THEN_ON: list[dict[str, Any]] = [
    {"do": "reset", "times": FOR_EVER},
    {"do": "reset", "late": True, "times": FOR_EVER},
    {"do": "status", "status": 500, "times": FOR_EVER},
    {"do": "status", "status": 500, "late": True, "times": FOR_EVER},
    {"do": "status", "status": 403, "times": FOR_EVER},
    {"do": "cut", "after": 2, "times": FOR_EVER},
]


@pytest.mark.parametrize("work", READS, ids=lambda work: work.__name__)
def test_reads(server: Server, work: Callable[[Place], None], seed: int) -> None:
    failed = [str(case) for case in inject(server, work, ONCE, seed) if case.error]
    assert not failed, "one fault is healed by another attempt"
    for case in inject(server, work, FROM_THEN_ON, seed, max_retries="0"):
        assert case.error is None or is_clear(case), case


@pytest.mark.parametrize("work", [reads_chunks, reads_raw, reads_shards, reads_hdf5])
def test_bodies_that_are_compressed_on_the_way(server: Server, work: Any, seed: int) -> None:
    """The headers state the right range, but the body has other bytes and another length."""
    for times in (1, FOR_EVER):
        cases = inject(server, work, [{"do": "compress", "times": times}], seed)
        assert all(isinstance(case.error, hs.errors.HyperslabError) for case in cases if case.error)
        assert times == 1 or all(case.error for case in cases)


@pytest.mark.parametrize("name", CHANGES)
def test_changes(server: Server, name: str, seed: int) -> None:
    work, check = CHANGES[name]
    cases = inject(server, work, ONCE, seed)
    failed = [str(case) for case in cases if case.error]
    assert not failed, "one fault is healed by another attempt"
    for case in cases:
        check(case.place, True)
    for case in inject(server, work, FROM_THEN_ON, seed, max_retries="0"):
        assert case.error is None or is_clear(case), case
        check(case.place, case.error is None)


@pytest.mark.parametrize("work", [reads_shards, reads_hdf5], ids=lambda work: work.__name__)
def test_silence(server: Server, work: Callable[[Place], None], seed: int) -> None:
    """The server sends no response, or half of one."""
    faults = [{"do": "stall", "seconds": 3}, {"do": "stall", "seconds": 3, "after": 5}]
    cases = inject(server, work, faults, seed, timeout="0.5", max_retries="0")
    for case in cases:
        assert case.error is None or is_clear(case), case
    assert any("did not answer in time" in str(case.error) for case in cases)


# Objects that are replaced between two requests of one reader.


def reads_long_chunks(place: Place) -> None:
    """Reads each chunk with several requests."""
    found = place.array("raw")[:]
    assert np.array_equal(found, OLD) or np.array_equal(found, NEW), found


def reads_changing_shards(place: Place) -> None:
    array = place.array("one")
    for where in (np.s_[1::7, 4], np.s_[:]):
        found = array[where]
        assert np.array_equal(found, OLD[where]) or np.array_equal(found, SPARSE_NEW[where]), found


def reads_changing_hdf5(place: Place) -> None:
    group = place.group("x.h5")
    for name in ("x", "h/w", "g/v"):
        found = group[name][:]
        assert np.array_equal(found, OLD) or np.array_equal(found, SPARSE_NEW), found


@pytest.mark.parametrize(
    "work", [reads_long_chunks, reads_changing_shards, reads_changing_hdf5], ids=lambda work: work.__name__
)
def test_objects_that_change(server: Server, work: Callable[[Place], None], seed: int) -> None:
    """Replaced objects are read again or refused. Results are never mixed."""
    key = {reads_long_chunks: "raw/c/0/0", reads_changing_shards: "one/c/0/0", reads_changing_hdf5: "x.h5"}
    key = f"g.zarr/{key[work]}"
    data = base64.b64encode(server.get("other", key)).decode()
    fault = {"do": "change", "key": key}
    faults = [{**fault, "data": data}, {**fault}, {**fault, "data": data, "times": FOR_EVER}]
    cases = inject(server, work, faults, seed, max_request_size="4096")
    for case in cases:
        assert case.error is None or (is_clear(case) and "was replaced" in str(case.error)), case
    assert {case.fault["do"] for case in cases if case.error is None}, "some are read anew"


def _write(url: str, options: dict[str, str], writer: int) -> None:
    array = hs.open_array(url, mode="r+", storage_options=options)
    for n in range(writer, 30, 3):
        array[n] = n + 1


def test_writers_lose_nothing(server: Server, seed: int) -> None:
    """Several processes write to one shard on a server that fails now and then."""
    place = Place(server, "bucket", {})
    url, options = f"{place.url}/n", place.options
    hs.create_array(url, shape=(30,), dtype="i4", chunks=(10,), shards=(30,), storage_options=options)
    chance = random.Random(seed)
    server.reset()
    server.control(
        faults=[{**chance.choice(ONCE), "at": [at]} for at in range(1, 1000) if chance.random() < 0.15]
    )
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(url, options, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    server.reset()
    assert np.array_equal(place.array("n")[:], np.arange(1, 31))


# Error messages.


def errors_of(place: Place) -> Iterator[str]:
    """Yields the errors of reading, creating and listing."""
    works: list[Callable[[], Any]] = [
        lambda: place.array("v3")[:],
        lambda: hs.create_array(f"{place.url}/new", data=[1], storage_options=place.options),
        lambda: list(place.group()),
    ]
    for work in works:
        with pytest.raises(hs.errors.StoreError) as raised:
            work()
        yield str(raised.value)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "access is denied: Forbidden: Fault (HTTP status 403)"),
        (500, "the server failed: InternalServerError: Fault (HTTP status 500)"),
        (503, "the server asks for fewer requests: ServiceUnavailable: Fault (HTTP status 503)"),
        (429, "the server asks for fewer requests: TooManyRequests: Fault (HTTP status 429)"),
    ],
)
def test_errors_name_status_and_request(server: Server, status: int, says: str) -> None:
    server.reset()
    server.fault("status", status=status, times=FOR_EVER)
    advice = {403: "Check the permissions of the credentials", 500: ""}.get(status, "try again later")
    for text in errors_of(Place(server, "origin", {"max_retries": "0"})):
        assert "s3://origin/g.zarr" in text and "[request request-" in text and advice in text, text
        # Responses to HEAD have no body.
        assert says in text or f"HTTP status {status}" in text, text


def test_errors_say_what_to_do(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.reset()
    for text in errors_of(Place(server, "nowhere", {})):
        assert "s3://nowhere/g.zarr" in text and "here is no such bucket" in text, text
    server.control(check_region=True, region="eu-north-1")
    for text in errors_of(Place(server, "origin", {})):
        assert "HTTP status 301" in text and 'storage_options={"region": "eu-north-1"}' in text, text
    place = Place(server, "origin", {"region": "eu-north-1"})
    assert place.array("v3")[0, 0] == 1
    server.control(check_region=False, region="us-east-1", check_authorization=True)

    class Anonymous(Place):
        @property
        def options(self) -> dict[str, str]:
            return {"endpoint_url": server.url, **self.more}

    for text in errors_of(Anonymous(server, "origin", {"anon": "True"})):
        assert "HTTP status 403" in text and "The request was anonymous" in text, text
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ValueError, match=r"no credentials were found\. Set the environment.*anon"):
        Anonymous(server, "origin", {}).array("v3")
    server.control(check_authorization=False)
    dead = Anonymous(server, "origin", {"anon": "True", "max_retries": "0", "endpoint_url": NOBODY})
    for text in errors_of(dead):
        assert "s3://origin/g.zarr" in text and "refused" in text, text
