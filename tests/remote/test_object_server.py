"""The object server of the tests, checked with third-party clients."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import obstore
import pytest
import zarr
from object_server_client import PROGRAM, Server
from object_server_s3 import decode_aws_chunked, longest_chain
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PermissionDeniedError, PreconditionError
from obstore.store import HTTPStore, S3Store

botocore_session = pytest.importorskip("botocore.session")
s3fs = pytest.importorskip("s3fs")
tensorstore = pytest.importorskip("tensorstore")

MIB = 1 << 20


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


def s3_store(server: Server, **more: Any) -> S3Store:
    return S3Store("bucket", config={**server.s3_options, **more})


def boto_client(server: Server, **config: Any) -> Any:
    from botocore.config import Config

    return botocore_session.get_session().create_client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}, **config),
    )


def file_system(server: Server) -> Any:
    return s3fs.S3FileSystem(
        key="key",
        secret="secret",
        endpoint_url=server.url,
        skip_instance_cache=True,
        use_listings_cache=False,
    )


# ------------------------------------------------------------------------------------- functions


def test_rounds_are_the_longest_chain() -> None:
    assert longest_chain([]) == 0
    assert longest_chain([(0, 1)]) == 1
    # All at once.
    assert longest_chain([(0, 3), (0.1, 3.1), (2.9, 6)]) == 1
    # The second begins when the first ends.
    assert longest_chain([(0, 1), (1, 2)]) == 2
    # Rounds of several requests. Each begins before the previous one has ended.
    assert longest_chain([(0, 1), (0, 2), (0, 1.5), (1, 2), (2, 3), (2.5, 4)]) == 3
    # One long request beside a chain.
    assert longest_chain([(0, 10), (1, 2), (3, 4), (5, 6)]) == 3
    assert longest_chain([(5, 6), (3, 4), (0, 10), (1, 2)]) == 3


def test_streamed_bodies_are_decoded() -> None:
    end = b"0;chunk-signature=11\r\nx-amz-checksum-crc32:aa==\r\n\r\n"
    body = b"5;chunk-signature=00ff\r\nhello\r\n3\r\n yo\r\n" + end
    assert decode_aws_chunked(body) == b"hello yo"


# --------------------------------------------------------------------------------------- objects


def test_objects_of_botocore(server: Server) -> None:
    client = boto_client(server)
    # botocore streams the body, with a checksum at the end, wherever it can.
    put = client.put_object(Bucket="bucket", Key="a/ü b+c?", Body=b"0123456789", Metadata={"unit": "K"})
    got = client.get_object(Bucket="bucket", Key="a/ü b+c?")
    assert got["Body"].read() == b"0123456789"
    assert (got["ETag"], got["Metadata"], got["ContentLength"]) == (put["ETag"], {"unit": "K"}, 10)
    assert client.head_object(Bucket="bucket", Key="a/ü b+c?")["ContentLength"] == 10
    ranged = client.get_object(Bucket="bucket", Key="a/ü b+c?", Range="bytes=2-4")
    assert (ranged["Body"].read(), ranged["ContentRange"]) == (b"234", "bytes 2-4/10")
    assert client.head_bucket(Bucket="bucket")["BucketRegion"] == "us-east-1"
    assert client.get_bucket_location(Bucket="bucket")["LocationConstraint"] is None
    client.copy_object(Bucket="bucket", Key="copy", CopySource={"Bucket": "bucket", "Key": "a/ü b+c?"})
    assert server.get("bucket", "copy") == b"0123456789"
    deleted = client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "copy"}, {"Key": "none"}]})
    assert [each["Key"] for each in deleted["Deleted"]] == ["copy", "none"]
    client.delete_object(Bucket="bucket", Key="a/ü b+c?")
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(Bucket="bucket", Key="a/ü b+c?")
    with pytest.raises(client.exceptions.NoSuchBucket):
        client.list_objects_v2(Bucket="other")


def test_bodies_signed_in_pieces(server: Server, tmp_path: Any) -> None:
    """A body that can be read only once is sent in signed pieces.

    The body of a file waits for `100 Continue`.
    """
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 5000)
    client = boto_client(server)
    with path.open("rb") as file:
        client.put_object(Bucket="bucket", Key="file", Body=file, ChecksumAlgorithm="SHA256")
    assert server.get("bucket", "file") == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "status", "bytes_"),
    [
        ("bytes=0-0", 206, b"0"),
        ("bytes=2-4", 206, b"234"),
        ("bytes=8-100", 206, b"89"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-30", 206, b"0123456789"),
        ("bytes=0-9", 206, b"0123456789"),
        ("bytes=4-2", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
        ("bytes=10-", 416, None),
        ("bytes=-0", 416, None),
    ],
)
def test_ranges(server: Server, text: str, status: int, bytes_: bytes | None) -> None:
    server.put("bucket", "key", b"0123456789")
    found, headers, body = server.request("GET", "/bucket/key", range=text)
    assert found == status
    if bytes_ is None:
        assert headers["content-range"] == "bytes */10"
    else:
        assert body == bytes_
        start = b"0123456789".index(bytes_)
        expected = f"bytes {start}-{start + len(bytes_) - 1}/10" if status == 206 else None
        assert headers.get("content-range") == expected


def test_ranges_of_object_store(server: Server) -> None:
    store = s3_store(server)
    data = np.random.default_rng(0).bytes(100_000)
    obstore.put(store, "key", data)
    assert obstore.get_range(store, "key", start=10, length=500) == data[10:510]
    assert bytes(obstore.get(store, "key", options={"range": {"suffix": 77}}).bytes()) == data[-77:]
    assert bytes(obstore.get(store, "key", options={"range": {"offset": 99_000}}).bytes()) == data[99_000:]
    parts = obstore.get_ranges(store, "key", starts=[0, 50_000, 99_999], lengths=[5, 7, 1])
    assert [bytes(part) for part in parts] == [data[:5], data[50_000:50_007], data[99_999:]]


def test_ranges_that_are_not_supported(server: Server) -> None:
    server.put("bucket", "key", b"0123456789")
    server.control(suffix_ranges="no")
    assert server.request("GET", "/bucket/key", range="bytes=-3")[0] == 501
    assert server.request("GET", "/bucket/key", range="bytes=1-3")[0] == 206
    server.control(suffix_ranges="ignored")
    assert server.request("GET", "/bucket/key", range="bytes=-3")[::2] == (200, b"0123456789")
    server.control(ranges="ignored")
    status, headers, body = server.request("GET", "/bucket/key", range="bytes=1-3")
    assert (status, body, "accept-ranges" in headers) == (200, b"0123456789", False)


def test_plain_http(server: Server) -> None:
    server.put("bucket", "folder/key", b"0123456789")
    store = HTTPStore(f"{server.url}/bucket", client_options={"allow_http": True})
    assert bytes(obstore.get_range(store, "folder/key", start=3, end=5)) == b"34"
    assert obstore.head(store, "folder/key")["size"] == 10
    kv = tensorstore.KvStore.open({"driver": "http", "base_url": f"{server.url}/bucket/"}).result()
    assert kv.read("folder/key").result().value == b"0123456789"
    assert kv.read("none").result().state == "missing"


def test_files_of_a_directory(server: Server, tmp_path: Any) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "key").write_bytes(b"0123456789")
    (tmp_path / "empty").touch()
    server.control(serve={"files": str(tmp_path)})
    store = S3Store("files", config=server.s3_options)
    assert [each["path"] for each in obstore.list(store).collect()] == ["empty", "sub/key"]
    assert bytes(obstore.get(store, "empty").bytes()) == b""
    assert bytes(obstore.get_range(store, "sub/key", start=2, end=4)) == b"23"
    obstore.put(store, "sub/key", b"new")
    assert bytes(obstore.get(store, "sub/key").bytes()) == b"new"
    assert (tmp_path / "sub" / "key").read_bytes() == b"0123456789"


# ------------------------------------------------------------------------------------ conditions


def test_conditional_reads(server: Server) -> None:
    store = s3_store(server)
    old = obstore.put(store, "key", b"one")["e_tag"]
    new = obstore.put(store, "key", b"one")["e_tag"]
    assert old != new
    assert bytes(obstore.get(store, "key", options={"if_match": new}).bytes()) == b"one"
    with pytest.raises(PreconditionError):
        obstore.get(store, "key", options={"if_match": old})
    with pytest.raises(NotModifiedError):
        obstore.get(store, "key", options={"if_none_match": new})
    assert bytes(obstore.get(store, "key", options={"if_none_match": old}).bytes()) == b"one"


def test_conditional_puts(server: Server) -> None:
    store = s3_store(server)
    first = obstore.put(store, "key", b"one", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "key", b"two", mode="create")
    obstore.put(store, "key", b"two", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "key", b"three", mode={"e_tag": first["e_tag"]})
    assert server.get("bucket", "key") == b"two"
    # Like S3: no object exists that could match the condition.
    assert server.request("PUT", "/bucket/none", b"x", if_match='"1"')[0] == 404
    assert server.request("DELETE", "/bucket/key", if_match='"1"')[0] == 412


def test_conditional_puts_that_are_not_supported(server: Server) -> None:
    server.put("bucket", "key", b"old")
    server.control(conditional_puts="no")
    assert server.request("PUT", "/bucket/key", b"new", if_match='"1"')[0] == 501
    assert server.get("bucket", "key") == b"old"
    server.control(conditional_puts="ignored")
    assert server.request("PUT", "/bucket/key", b"new", if_match='"1"')[0] == 200
    assert server.get("bucket", "key") == b"new"


def test_etags_off(server: Server) -> None:
    server.put("bucket", "key", b"old")
    server.control(etags=False)
    status, headers, body = server.request("GET", "/bucket/key", if_match='"nothing"')
    assert (status, body, headers.get("etag")) == (200, b"old", None)
    assert headers["last-modified"]


def test_no_update_is_lost(server: Server) -> None:
    """Eight threads add to one number, on condition that it has not changed."""
    server.put("bucket", "sum", b"0")
    server.control(latency=0.001)

    def add(_: int) -> int:
        store, refused, done = s3_store(server), 0, 0
        while done < 20:
            got = obstore.get(store, "sum")
            value = str(int(bytes(got.bytes())) + 1).encode()
            try:
                obstore.put(store, "sum", value, mode={"e_tag": got.meta["e_tag"]})
                done += 1
            except PreconditionError:
                refused += 1
        return refused

    with ThreadPoolExecutor(8) as pool:
        refused = sum(pool.map(add, range(8)))
    assert server.get("bucket", "sum") == b"160"
    # Otherwise the threads did not run concurrently.
    assert refused > 0


# ----------------------------------------------------------------------------- lists and uploads


def test_lists(server: Server) -> None:
    keys = [f"a/{number:04}" for number in range(2500)] + ["b", "c/1", "c/2/x", "d e/ü", "ä"]
    store = s3_store(server)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: obstore.put(store, key, b"x", use_multipart=False), keys))
    server.reset()
    assert [each["path"] for each in obstore.list(store).collect()] == keys
    assert len(server.log()) == 3
    found = obstore.list_with_delimiter(store, "")
    assert found["common_prefixes"] == ["a", "c", "d e"]
    assert [(each["path"], each["size"]) for each in found["objects"]] == [("b", 1), ("ä", 1)]
    assert [each["path"] for each in obstore.list(store, "c/").collect()] == ["c/1", "c/2/x"]
    after = obstore.list(store, "a", offset="a/2497").collect()
    assert [each["path"] for each in after] == ["a/2498", "a/2499"]
    files = file_system(server)
    assert files.ls("bucket") == ["bucket/a", "bucket/b", "bucket/c", "bucket/d e", "bucket/ä"]
    assert len(files.find("bucket/a")) == 2500


def test_pages_with_common_prefixes(server: Server) -> None:
    for key in ("a/1", "a/2", "b", "c/1", "c/2", "d"):
        server.put("bucket", key, b"")
    client = boto_client(server)
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="bucket", Delimiter="/", PaginationConfig={"PageSize": 1}
    )
    found = [
        [each["Prefix"] for each in page.get("CommonPrefixes", [])]
        + [each["Key"] for each in page.get("Contents", [])]
        for page in pages
    ]
    assert found == [["a/"], ["b"], ["c/"], ["d"]]


def test_multipart_uploads(server: Server) -> None:
    data = np.random.default_rng(0).bytes(12 * MIB + 5)
    store = s3_store(server)
    server.reset()
    obstore.put(store, "key", data, use_multipart=True, chunk_size=5 * MIB)
    assert server.get("bucket", "key") == data
    methods = [each["method"] for each in server.log()]
    assert (methods[0], sorted(methods[1:-1]), methods[-1]) == ("POST", ["PUT"] * 3, "POST")
    assert file_system(server).cat("bucket/key") == data


def test_multipart_uploads_by_hand(server: Server) -> None:
    client = boto_client(server)
    how = {"Bucket": "bucket", "Key": "key"}
    how["UploadId"] = client.create_multipart_upload(Bucket="bucket", Key="key", Metadata={"a": "b"})[
        "UploadId"
    ]
    first = client.upload_part(**how, PartNumber=1, Body=b"1" * 5 * MIB)["ETag"]
    small = client.upload_part(**how, PartNumber=2, Body=b"2")["ETag"]
    last = client.upload_part(**how, PartNumber=3, Body=b"3")["ETag"]
    assert [each["PartNumber"] for each in client.list_parts(**how)["Parts"]] == [1, 2, 3]
    assert server.control()["uploads"] == [["bucket", "key"]]

    def complete(*parts: tuple[int, str], **more: Any) -> Any:
        listed = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        return client.complete_multipart_upload(**how, MultipartUpload={"Parts": listed}, **more)

    for parts, code in (
        ([(1, first), (2, small), (3, last)], "EntityTooSmall"),
        ([(3, last), (1, first)], "InvalidPartOrder"),
        ([(1, last)], "InvalidPart"),
    ):
        with pytest.raises(client.exceptions.ClientError, match=code):
            complete(*parts)
    server.put("bucket", "key", b"there")
    with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
        complete((1, first), (3, last), IfNoneMatch="*")
    assert server.get("bucket", "key") == b"there"
    complete((1, first), (3, last))
    assert server.get("bucket", "key") == b"1" * 5 * MIB + b"3"
    assert client.head_object(Bucket="bucket", Key="key")["Metadata"] == {"a": "b"}

    id = client.create_multipart_upload(Bucket="bucket", Key="other")["UploadId"]
    client.abort_multipart_upload(Bucket="bucket", Key="other", UploadId=id)
    assert server.control()["uploads"] == []
    with pytest.raises(client.exceptions.NoSuchUpload):
        client.upload_part(Bucket="bucket", Key="other", UploadId=id, PartNumber=1, Body=b"")


# ------------------------------------------------------------------------------- whole libraries


def test_arrays_of_zarr_python(server: Server) -> None:
    values = np.random.default_rng(0).integers(0, 100, (70, 50))
    stores = (
        zarr.storage.ObjectStore(S3Store("bucket", prefix="one", config=server.s3_options)),
        zarr.storage.FsspecStore(file_system_async(server), path="bucket/two"),
    )
    for store in stores:
        array = zarr.create_array(store, shape=(70, 50), chunks=(10, 10), shards=(20, 50), dtype="i8")
        array[:] = values
        array.attrs["unit"] = "K"
        array[5:8] = values[5:8] = -1
        found = zarr.open_array(store, mode="r")
        assert np.array_equal(found[:], values)
        assert np.array_equal(found[33:35, 7], values[33:35, 7])
        assert found.attrs["unit"] == "K"


def file_system_async(server: Server) -> Any:
    return s3fs.S3FileSystem(
        key="key", secret="secret", endpoint_url=server.url, asynchronous=True, skip_instance_cache=True
    )


def test_arrays_of_tensorstore(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    values = np.random.default_rng(0).integers(0, 100, (70, 50))
    kvstore = {"driver": "s3", "bucket": "bucket", "path": "three/", "endpoint": server.url}
    kvstore |= {"aws_region": "us-east-1", "aws_credentials": {"type": "environment"}}
    grid = {"name": "regular", "configuration": {"chunk_shape": [20, 20]}}
    metadata = {"shape": [70, 50], "data_type": "int64", "chunk_grid": grid}
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
    array = tensorstore.open(spec, create=True).result()
    array[...].write(values).result()
    # Write a part of a chunk: tensorstore reads it and writes it under a condition.
    array[5:8].write(-1).result()
    values[5:8] = -1
    # Read through plain HTTP, too.
    http = {"driver": "http", "base_url": f"{server.url}/bucket/three/"}
    for kind in (kvstore, http):
        found = tensorstore.open({"driver": "zarr3", "kvstore": kind}, read=True).result()
        assert np.array_equal(found.read().result(), values)


# --------------------------------------------------------------------------- pace, faults, counts


def test_requests_are_counted(server: Server) -> None:
    server.put("bucket", "key", b"0123456789")
    server.reset()
    assert (server.log(), server.rounds()) == ([], 0)
    # Eight requests begin within this time even on a busy machine.
    server.control(latency=0.25)
    store = s3_store(server)
    obstore.get_range(store, "key", start=2, end=5)
    (entry,) = server.log()
    assert (entry["method"], entry["key"], entry["range"]) == ("GET", "key", "bytes=2-4")
    assert (entry["status"], entry["sent"], entry["number"]) == (206, 3, 1)
    assert entry["end"] - entry["start"] >= 0.25
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: obstore.get(store, "key").bytes(), range(8)))
    obstore.put(store, "new", b"1234", use_multipart=False)
    assert [each[0] for each in server.requests()] == ["GET"] * 9 + ["PUT"]
    assert server.log()[-1]["received"] == 4
    assert server.rounds() == 3
    server.get("bucket", "key")
    assert len(server.log()) == 10


def test_pace(server: Server) -> None:
    """Requests are never faster than configured.

    How much slower they are depends on the machine.
    """
    server.put("bucket", "key", bytes(2 * MIB))

    def seconds(connections: int) -> float:
        start = time.monotonic()
        with ThreadPoolExecutor(connections) as pool:
            for status, _, body in pool.map(
                lambda _: server.request("GET", "/bucket/key"), range(connections)
            ):
                assert (status, len(body)) == (200, 2 * MIB)
        return time.monotonic() - start

    server.control(latency=0.1)
    assert seconds(4) >= 0.1
    server.control(latency=0, per_connection=20e6)
    assert seconds(1) >= 0.1
    server.control(in_all=40e6)
    # 8 MiB at 40 MB/s take 0.21 s.
    assert seconds(4) >= 0.19
    start = time.monotonic()
    server.request("PUT", "/bucket/new", bytes(2 * MIB))
    assert time.monotonic() - start >= 0.09


def test_faults(server: Server) -> None:
    server.put("bucket", "key", b"0123456789")
    server.fault("reset", at=1)
    with pytest.raises(ConnectionError):
        server.request("GET", "/bucket/key")
    assert server.request("GET", "/bucket/key")[0] == 200
    server.reset()

    server.fault("status", method="GET", key="k.*", times=2, status=503, retry_after=7)
    assert server.request("GET", "/bucket/other")[0] == 404
    for _ in range(2):
        status, headers, _ = server.request("GET", "/bucket/key")
        assert (status, headers["retry-after"]) == (503, "7")
    assert server.request("GET", "/bucket/key")[0] == 200
    assert [each["fault"] for each in server.log()] == [None, "status", "status", None]

    server.control(
        buckets=["b1"], copy={"b2": "bucket"}, faults=[{"do": "status", "bucket": "b2", "skip": 1}]
    )
    found = [server.request("GET", f"/{bucket}/key")[0] for bucket in ("b1", "b2", "b2", "b2")]
    assert found == [404, 200, 503, 200]

    server.fault("cut", method="GET", after=4)
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=10) as raw:
        raw.sendall(b"GET /bucket/key HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = b""
        while more := raw.recv(1000):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (b"content-length: 10" in head, body) == (True, b"0123")

    server.fault("stall", method="GET", seconds=0.2, after=4)
    start = time.monotonic()
    assert server.request("GET", "/bucket/key")[2] == b"0123456789"
    assert time.monotonic() - start >= 0.2

    _, headers, _ = server.request("HEAD", "/bucket/key")
    server.fault("change", method="GET", data=b"other")
    assert server.request("GET", "/bucket/key", if_match=headers["etag"])[0] == 412
    assert server.get("bucket", "key") == b"other"

    # The put succeeds, but its response is lost.
    server.fault("reset", method="PUT", late=True)
    with pytest.raises(ConnectionError):
        server.request("PUT", "/bucket/key", b"late")
    assert server.get("bucket", "key") == b"late"


def test_listings_lag(server: Server) -> None:
    """Listings show objects as they were. Requests for an object show it as it is."""

    def shown() -> dict[str, str]:
        found = obstore.list(s3_store(server)).collect()
        return {each["path"]: each["e_tag"] for each in found}

    tags = {name: server.put("bucket", name, b"old") for name in ("changed", "deleted", "same")}
    server.control(listing_lag=1e9)
    for name in ("changed", "new", "passing"):
        server.put("bucket", name, b"new")
    for name in ("deleted", "passing"):
        assert server.request("DELETE", f"/bucket/{name}")[0] == 204
    server.put("bucket", "changed", b"again")
    assert shown() == tags
    assert server.list("bucket") == ["changed", "new", "same"]
    assert server.get("bucket", "changed") == b"again" and server.get("bucket", "new") == b"new"
    assert server.request("GET", "/bucket/deleted")[0] == 404
    # A lag that has passed.
    server.clear()
    server.control(listing_lag=0.01)
    server.put("bucket", "new", b"new")
    until = time.monotonic() + 30
    while list(shown()) != ["new"]:
        assert time.monotonic() < until


def test_retries_of_object_store(server: Server) -> None:
    """A good client recovers from these faults."""
    data = np.random.default_rng(0).bytes(300_000)
    server.put("bucket", "key", data)
    server.control(
        faults=[{"do": "reset", "at": [1]}, {"do": "status", "at": [2]}, {"do": "cut", "at": [3], "after": 9}]
    )
    assert bytes(obstore.get(s3_store(server), "key").bytes()) == data
    assert [each["fault"] for each in server.log()] == ["reset", "status", "cut", None]


def test_access(server: Server) -> None:
    server.put("bucket", "key", b"")
    server.control(check_authorization=True)
    with pytest.raises(PermissionDeniedError):
        obstore.get(s3_store(server, skip_signature="true"), "key")
    assert obstore.get(s3_store(server), "key").meta["size"] == 0
    server.control(check_authorization=True, check_region=True, region="eu-central-1")
    assert obstore.get(s3_store(server, region="eu-central-1"), "key").meta["size"] == 0
    sign = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"
    status, headers, body = server.request("GET", "/bucket/key", authorization=sign)
    assert (status, headers["x-amz-bucket-region"], b"PermanentRedirect" in body) == (
        301,
        "eu-central-1",
        True,
    )


def test_wrong_settings_are_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="no setting 'latecy'"):
        server.control(latecy=1)
    with pytest.raises(ValueError, match="yes, ignored or no, not False"):
        server.control(suffix_ranges=False)
    with pytest.raises(ValueError, match="unexpected keyword"):
        server.control(faults=[{"do": "reset", "when": 3}])


def test_it_ends_with_its_parent() -> None:
    """The server ends even if its parent is killed, and with connections open."""
    code = "import object_server_client as c, time; print(c.Server().url, flush=True); time.sleep(60)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=PROGRAM.parent
    )
    assert parent.stdout is not None
    port = int(parent.stdout.readline().rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        parent.kill()
        parent.wait()
        # The server has closed its end.
        assert raw.recv(1) == b""
