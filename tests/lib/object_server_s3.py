"""The contents of the test object server and its responses to S3 requests. No sockets, no waiting.

Addresses are path-style: ``/bucket/key``. A plain HTTP client sees the same objects as static
files.

If S3 allows several behaviours, the server uses the one that reveals more mistakes. Each write
changes the ETag, even if the bytes are the same. A part of an upload below 5 MiB is refused unless
it is the last.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import email.utils
import mmap
import random
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

KEPT_HEADERS = ("content-type", "content-encoding", "cache-control")


@dataclass
class Request:
    method: str
    bucket: str
    key: str
    query: dict[str, str]
    # Names are in lower case.
    headers: dict[str, str]
    body: bytes | bytearray = b""


@dataclass
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""
    # For HEAD: the length of the body that GET would return.
    length: int | None = None


class Refused(Exception):
    """An error of S3: status, code, message."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(status, code, message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


@dataclass
class Settings:
    """Behaviour of the server: "yes", "ignored" (as if the header were absent) or "no" (501)."""

    conditional_puts: str = "yes"
    ranges: str = "yes"
    suffix_ranges: str = "yes"
    etags: bool = True
    region: str = "us-east-1"
    # Answer requests signed for another region with 301.
    check_region: bool = False
    # Answer unsigned requests with 403.
    check_authorization: bool = False
    part_minimum: int = 5 << 20
    # Most seconds until listings show a change; the time is random. Requests for the object itself
    # show it at once.
    listing_lag: float = 0.0


class Object:
    """Bytes in memory, or a file."""

    def __init__(self, number: int, data: bytes | bytearray | Path, headers: dict[str, str]) -> None:
        self.data = data
        self.etag = f'"{number:032x}"'
        self.headers = {name: headers[name] for name in headers if name in KEPT_HEADERS}
        self.headers |= {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}
        # This encoding describes the streamed upload, not the object.
        encoding = self.headers.pop("content-encoding", "").removeprefix("aws-chunked").lstrip(", ")
        if encoding:
            self.headers["content-encoding"] = encoding
        self.modified = data.stat().st_mtime if isinstance(data, Path) else time.time()

    @property
    def size(self) -> int:
        return self.data.stat().st_size if isinstance(self.data, Path) else len(self.data)

    def view(self, start: int, stop: int) -> memoryview:
        """Returns the bytes of a range."""
        if isinstance(self.data, Path) and start < stop:
            with self.data.open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[start:stop]
        return memoryview(b"" if isinstance(self.data, Path) else self.data)[start:stop]


class Bucket:
    """Objects by key, and their keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.keys: list[str] = []
        # Changes that listings may not show yet: the time when they do, and the object before.
        self.unlisted: list[tuple[float, str, Object | None]] = []

    def copy(self) -> Bucket:
        """Returns another bucket with the same objects."""
        other = Bucket()
        other.objects, other.keys = self.objects.copy(), self.keys.copy()
        return other

    def put(self, key: str, object: Object) -> None:
        if key not in self.objects:
            bisect.insort(self.keys, key)
        self.objects[key] = object

    def delete(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect.bisect_left(self.keys, key)]

    def note_change(self, key: str, lag: float) -> None:
        """Hides a change that comes now from listings, for a random time."""
        if lag:
            self.unlisted.append((time.monotonic() + random.uniform(0, lag), key, self.objects.get(key)))

    def listed(self) -> Bucket:
        """Returns the objects that listings show now."""
        now = time.monotonic()
        self.unlisted = [each for each in self.unlisted if each[0] > now]
        if not self.unlisted:
            return self
        shown = self.copy()
        # The last assignment is the oldest hidden change, which also hides the later ones.
        for _, key, before in reversed(self.unlisted):
            if before is None:
                shown.delete(key)
            else:
                shown.put(key, before)
        return shown

    def page(self, prefix: str, delimiter: str, after: str, limit: int) -> tuple[list[str], bool]:
        """Returns keys and common prefixes after a key, and whether there are more.

        Common prefixes end in the delimiter.
        """
        found: list[str] = []
        at = max(bisect.bisect_left(self.keys, prefix), bisect.bisect_right(self.keys, after))
        while at < len(self.keys) and self.keys[at].startswith(prefix):
            key = self.keys[at]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                key = key[: cut + len(delimiter)]
                at = bisect.bisect_left(self.keys, key + chr(0x10FFFF), at)
            else:
                at += 1
            if key == after:
                continue
            if len(found) == limit:
                return found, True
            found.append(key)
        return found, False


@dataclass
class Upload:
    """An incomplete multipart upload."""

    bucket: str
    key: str
    headers: dict[str, str]
    parts: dict[int, tuple[str, bytes | bytearray]] = field(default_factory=dict)


class Storage:
    """All buckets."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.buckets: dict[str, Bucket] = {}
        self.uploads: dict[str, Upload] = {}
        self.count = 0

    def bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        return self.buckets[name]

    def find(self, bucket: str, key: str) -> Object:
        found = self.bucket(bucket).objects.get(key)
        if found is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        return found

    def put(
        self, bucket: str, key: str, data: bytes | bytearray | Path, headers: dict[str, str] | None = None
    ) -> Object:
        self.count += 1
        object = Object(self.count, data, headers or {})
        self.bucket(bucket).note_change(key, self.settings.listing_lag)
        self.bucket(bucket).put(key, object)
        return object

    def delete(self, bucket: str, key: str) -> None:
        self.bucket(bucket).note_change(key, self.settings.listing_lag)
        self.bucket(bucket).delete(key)

    def serve(self, bucket: str, directory: Path, prefix: str = "") -> None:
        """Adds the files of a directory to a bucket. They stay where they are."""
        self.buckets.setdefault(bucket, Bucket())
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + path.relative_to(directory).as_posix(), path)

    def answer(self, request: Request) -> Response:
        """Returns the response to a request."""
        try:
            self.authorize(request)
            response = self.route(request)
        except Refused as error:
            names = {
                "Code": error.code,
                "Message": error.message,
                "Resource": f"/{request.bucket}/{request.key}",
            }
            response = Response(error.status, {**error.headers}, xml("Error", elements(names)))
        if request.method == "HEAD" and response.length is None:
            response.length, response.body = len(response.body), b""
        if not self.settings.etags:
            response.headers.pop("etag", None)
        if self.settings.ranges == "yes" and response.status in (200, 206):
            response.headers["accept-ranges"] = "bytes"
        return response

    def authorize(self, request: Request) -> None:
        settings = self.settings
        signature = request.headers.get("authorization") or request.query.get("X-Amz-Credential")
        if settings.check_authorization and not signature:
            raise Refused(403, "AccessDenied", "Access Denied")
        scope = re.search(r"Credential=[^/,]+/\d+/([^/,]+)/s3", signature or "")
        if settings.check_region and scope and scope[1] != settings.region:
            message = (
                "The bucket you are attempting to access must be addressed using the specified endpoint."
            )
            raise Refused(301, "PermanentRedirect", message, **{"x-amz-bucket-region": settings.region})

    def route(self, request: Request) -> Response:
        method, query, key = request.method, request.query, request.key
        if not request.bucket:
            names = "".join(f"<Bucket>{elements({'Name': name})}</Bucket>" for name in self.buckets)
            return Response(200, {}, xml("ListAllMyBucketsResult", f"<Buckets>{names}</Buckets>"))
        if not key:
            return self.route_bucket(request)
        match method:
            case "GET" if "uploadId" in query:
                return self.list_parts(request)
            case "GET" | "HEAD":
                return self.get(request)
            case "PUT" if "uploadId" in query:
                return self.put_part(request)
            case "PUT" if "x-amz-copy-source" in request.headers:
                return self.copy(request)
            case "PUT":
                self.check_write(request)
                object = self.put(request.bucket, key, request.body, request.headers)
                return Response(200, {"etag": object.etag})
            case "POST" if "uploads" in query:
                return self.create_upload(request)
            case "POST" if "uploadId" in query:
                return self.complete_upload(request)
            case "DELETE" if "uploadId" in query:
                self.upload(request)
                del self.uploads[query["uploadId"]]
                return Response(204)
            case "DELETE":
                self.check_write(request)
                self.delete(request.bucket, key)
                return Response(204)
        raise Refused(405, "MethodNotAllowed", f"{method} is not allowed for objects")

    def route_bucket(self, request: Request) -> Response:
        match request.method:
            case "PUT":
                self.buckets.setdefault(request.bucket, Bucket())
                return Response(200)
            case "HEAD":
                region = {"x-amz-bucket-region": self.settings.region}
                if request.bucket not in self.buckets:
                    return Response(404)
                return Response(200, region)
            case "GET" if "location" in request.query:
                self.bucket(request.bucket)
                region = self.settings.region
                return Response(200, {}, xml("LocationConstraint", "" if region == "us-east-1" else region))
            case "GET" if "uploads" in request.query:
                found = [(id, u.key) for id, u in self.uploads.items() if u.bucket == request.bucket]
                text = (f"<Upload>{elements({'Key': key, 'UploadId': id})}</Upload>" for id, key in found)
                return Response(200, {}, xml("ListMultipartUploadsResult", "".join(text)))
            case "GET":
                return self.list_objects(request)
            case "POST" if "delete" in request.query:
                return self.delete_objects(request)
        raise Refused(405, "MethodNotAllowed", f"{request.method} is not allowed for buckets")

    # -------------------------------------------------------------------------------- reading

    def get(self, request: Request) -> Response:
        object = self.find(request.bucket, request.key)
        headers = {"etag": object.etag, "last-modified": email.utils.formatdate(object.modified, usegmt=True)}
        headers |= object.headers
        if self.settings.etags:
            if not matches(request.headers.get("if-match", "*"), object.etag):
                raise Refused(412, "PreconditionFailed", "At least one of the preconditions did not hold")
            if "if-none-match" in request.headers and matches(request.headers["if-none-match"], object.etag):
                return Response(304, headers)
        size, status = object.size, 200
        found = self.range(request.headers.get("range", ""), size)
        start, stop = found or (0, size)
        if found:
            status, headers["content-range"] = 206, f"bytes {start}-{stop - 1}/{size}"
        if request.method == "HEAD":
            return Response(status, headers, length=stop - start)
        return Response(status, headers, object.view(start, stop))

    def range(self, text: str, size: int) -> tuple[int, int] | None:
        """Returns the requested range. Ignores a malformed one, as HTTP requires."""
        parts = re.fullmatch(r"bytes=(\d+-\d*|-\d+)", text)
        if not parts:
            return None
        first, last = parts[1].split("-")
        supported = self.settings.ranges
        if not first and supported == "yes":
            supported = self.settings.suffix_ranges
        if supported == "no":
            raise Refused(501, "NotImplemented", "This kind of range is not supported")
        if supported == "ignored" or (first and last and int(last) < int(first)):
            return None
        start = int(first) if first else max(0, size - int(last))
        stop = min(size, int(last) + 1) if first and last else size
        if start >= size:
            headers = {"content-range": f"bytes */{size}"}
            raise Refused(416, "InvalidRange", "The requested range is not satisfiable", **headers)
        return start, stop

    def list_objects(self, request: Request) -> Response:
        query = request.query
        try:
            limit = min(int(query.get("max-keys", "1000")), 1000)
            token = base64.urlsafe_b64decode(query.get("continuation-token", "")).decode()
        except (ValueError, binascii.Error) as error:
            raise Refused(400, "InvalidArgument", str(error)) from None
        bucket = self.bucket(request.bucket)
        if "x-control" not in request.headers:
            bucket = bucket.listed()
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found, more = bucket.page(prefix, delimiter, token or query.get("start-after", ""), limit)
        encode = quote if query.get("encoding-type") == "url" else str
        text = []
        for key in found:
            object = bucket.objects.get(key)
            if delimiter and key.endswith(delimiter) and delimiter in key[len(prefix) :]:
                text.append(f"<CommonPrefixes>{elements({'Prefix': encode(key)})}</CommonPrefixes>")
            elif object is not None:
                modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(object.modified))
                names = {"Key": encode(key), "LastModified": modified, "ETag": object.etag}
                names |= {"Size": str(object.size), "StorageClass": "STANDARD"}
                text.append(f"<Contents>{elements(names)}</Contents>")
        names = {"Name": request.bucket, "Prefix": encode(prefix), "KeyCount": str(len(found))}
        names |= {"MaxKeys": str(limit), "IsTruncated": str(more and limit > 0).lower()}
        if delimiter:
            names["Delimiter"] = encode(delimiter)
        if "encoding-type" in query:
            names["EncodingType"] = query["encoding-type"]
        if more and found:
            names["NextContinuationToken"] = base64.urlsafe_b64encode(found[-1].encode()).decode()
        return Response(200, {}, xml("ListBucketResult", elements(names) + "".join(text)))

    # -------------------------------------------------------------------------------- writing

    def check_write(self, request: Request) -> None:
        """Refuses a write if its condition is false."""
        bucket = self.bucket(request.bucket)
        present, absent = request.headers.get("if-match"), request.headers.get("if-none-match")
        if (present is None and absent is None) or self.settings.conditional_puts == "ignored":
            return
        if self.settings.conditional_puts == "no" or absent not in (None, "*"):
            raise Refused(
                501, "NotImplemented", "A header you provided implies functionality that is not implemented"
            )
        object = bucket.objects.get(request.key)
        if present is not None and object is None:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        wrong = present is not None and object is not None and not matches(present, object.etag)
        if wrong or (absent is not None and object is not None):
            raise Refused(412, "PreconditionFailed", "At least one of the preconditions did not hold")

    def copy(self, request: Request) -> Response:
        bucket, _, key = unquote(request.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        source = self.find(bucket, key)
        self.check_write(request)
        object = self.put(request.bucket, request.key, source.data, source.headers)
        return Response(200, {}, xml("CopyObjectResult", elements({"ETag": object.etag})))

    def delete_objects(self, request: Request) -> Response:
        text = []
        for item in parse_xml(request.body).iterfind("{*}Object"):
            key = item.findtext("{*}Key", "")
            self.delete(request.bucket, key)
            text.append(f"<Deleted>{elements({'Key': key})}</Deleted>")
        return Response(200, {}, xml("DeleteResult", "".join(text)))

    # ------------------------------------------------------------------------ multipart uploads

    def upload(self, request: Request) -> Upload:
        found = self.uploads.get(request.query["uploadId"])
        if found is None or (found.bucket, found.key) != (request.bucket, request.key):
            raise Refused(404, "NoSuchUpload", "The specified upload does not exist.")
        return found

    def create_upload(self, request: Request) -> Response:
        self.bucket(request.bucket)
        self.count += 1
        id = f"upload-{self.count}"
        self.uploads[id] = Upload(request.bucket, request.key, request.headers)
        names = {"Bucket": request.bucket, "Key": request.key, "UploadId": id}
        return Response(200, {}, xml("InitiateMultipartUploadResult", elements(names)))

    def put_part(self, request: Request) -> Response:
        number = request.query.get("partNumber", "")
        if not number.isdecimal() or not 1 <= int(number) <= 10_000:
            raise Refused(
                400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive"
            )
        self.count += 1
        etag = f'"{self.count:032x}"'
        self.upload(request).parts[int(number)] = etag, request.body
        return Response(200, {"etag": etag})

    def list_parts(self, request: Request) -> Response:
        parts = sorted(self.upload(request).parts.items())
        named = ({"PartNumber": str(n), "ETag": etag, "Size": str(len(data))} for n, (etag, data) in parts)
        return Response(
            200, {}, xml("ListPartsResult", "".join(f"<Part>{elements(each)}</Part>" for each in named))
        )

    def complete_upload(self, request: Request) -> Response:
        upload = self.upload(request)
        wanted = [
            (int(part.findtext("{*}PartNumber", "0")), part.findtext("{*}ETag", "").strip('"'))
            for part in parse_xml(request.body).iterfind("{*}Part")
        ]
        if (
            any(n not in upload.parts or upload.parts[n][0].strip('"') != etag for n, etag in wanted)
            or not wanted
        ):
            raise Refused(400, "InvalidPart", "One or more of the specified parts could not be found.")
        if [n for n, _ in wanted] != sorted({n for n, _ in wanted}):
            raise Refused(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        parts = [upload.parts[n][1] for n, _ in wanted]
        if any(len(part) < self.settings.part_minimum for part in parts[:-1]):
            raise Refused(
                400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size"
            )
        self.check_write(request)
        object = self.put(request.bucket, request.key, b"".join(parts), upload.headers)
        del self.uploads[request.query["uploadId"]]
        names = {"Bucket": request.bucket, "Key": request.key, "ETag": object.etag}
        return Response(200, {}, xml("CompleteMultipartUploadResult", elements(names)))


def matches(condition: str, etag: str) -> bool:
    """Returns true if an ETag matches the value of `If-Match`."""
    return condition.strip() == "*" or etag.strip('"') in (each.strip(' "') for each in condition.split(","))


def elements(names: dict[str, str]) -> str:
    """Returns XML elements that contain text."""
    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in names.items())


def xml(root: str, content: str) -> bytes:
    """Returns an S3 document."""
    space = "" if root == "Error" else ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{space}>{content}</{root}>'.encode()


def parse_xml(body: bytes | bytearray) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(bytes(body))
    except ElementTree.ParseError as error:
        raise Refused(400, "MalformedXML", str(error)) from None


def decode_aws_chunked(body: bytes | bytearray) -> bytearray:
    """Decodes a streamed upload: `size[;chunk-signature=…]`, bytes, …, `0`, checksums."""
    found = bytearray()
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(bytes(body[at:end]).split(b";")[0], 16)
        if size == 0:
            return found
        found += memoryview(body)[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


def longest_chain(intervals: Iterable[tuple[float, float]]) -> int:
    """Returns the longest chain of intervals that do not overlap."""
    count, free = 0, float("-inf")
    for start, end in sorted(intervals, key=lambda interval: interval[1]):
        if start >= free:
            count, free = count + 1, end
    return count
