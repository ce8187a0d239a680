"""Adds the parts of Google Cloud Storage's XML interface that fake-gcs-server lacks.

The `object_store` crate, and so obstore and hyperslab, use only the XML interface. fake-gcs-server
supports its downloads, deletions and lists. It has puts and copies only in the JSON interface, so
these are translated. The parts of an upload are kept here until it is complete and then sent as one
put. Conditional reads are checked here. Missing buckets are distinguished from missing objects.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit

PASSED = ("range", "content-type", "cache-control")


class Front(ThreadingHTTPServer):
    """A server on its own port."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        # The port of fake-gcs-server.
        self.port = port
        self.uploads: dict[str, dict[int, bytes]] = {}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Front

    def log_message(self, *_: object) -> None:
        """Logs nothing."""

    def do_GET(self) -> None:
        self.handle_request()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        url = urlsplit(self.path)
        bucket, _, key = url.path.lstrip("/").partition("/")
        bucket, key = unquote(bucket), unquote(key)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        uploads = self.server.uploads
        match self.command:
            case "POST" if "uploads" in query:
                id = f"upload-{len(uploads)}"
                uploads[id] = {}
                names = f"<Bucket>{bucket}</Bucket><UploadId>{id}</UploadId>"
                self.answer(
                    200, f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>".encode()
                )
            case "PUT" if "uploadId" in query:
                number = int(query["partNumber"])
                uploads[query["uploadId"]][number] = body
                self.answer(200, etag=f'"part-{number}"')
            case "DELETE" if "uploadId" in query:
                del uploads[query["uploadId"]]
                self.answer(204)
            case "POST" if "uploadId" in query:
                numbers = ElementTree.fromstring(body).iterfind("{*}Part/{*}PartNumber")
                parts = uploads[query["uploadId"]]
                self.put(
                    bucket, key, b"".join(parts[int(each.text or "")] for each in numbers), complete=True
                )
            case "PUT" if "x-goog-copy-source" in self.headers:
                source_bucket, _, source = (
                    unquote(self.headers["x-goog-copy-source"]).lstrip("/").partition("/")
                )
                target = f"rewriteTo/b/{bucket}/o/{quote(key, safe='')}"
                path = f"/storage/v1/b/{source_bucket}/o/{quote(source, safe='')}/{target}?{self.condition()}"
                status, _, found = self.ask("POST", path)
                self.answer(status, found)
            case "PUT":
                self.put(bucket, key, body)
            case method:
                status, headers, found = self.ask(method, self.path, body)
                if status in (404, 500) and self.ask("GET", f"/storage/v1/b/{bucket}")[0] == 404:
                    status, found = 404, b"<Error><Code>NoSuchBucket</Code></Error>"
                if status in (200, 206) and not self.is_wanted(headers.get("etag", "")):
                    status, found = (412 if "if-match" in self.headers else 304), b""
                self.answer(status, found, **headers)

    def is_wanted(self, etag: str) -> bool:
        """Checks the conditions of a read, which fake-gcs-server ignores."""
        present, absent = self.headers.get("if-match"), self.headers.get("if-none-match")
        return (present is None or present == etag) and (absent is None or absent != etag)

    def condition(self) -> str:
        """Returns the condition of a write for the JSON interface."""
        generation = self.headers.get("x-goog-if-generation-match")
        return "" if generation is None else f"ifGenerationMatch={generation}"

    def put(self, bucket: str, key: str, body: bytes, complete: bool = False) -> None:
        path = (
            f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}&{self.condition()}"
        )
        status, _, found = self.ask("POST", path, body)
        if status != 200:
            self.answer(status, found)
            return
        resource = json.loads(found)
        etag = json.dumps(resource["etag"].strip('"'))
        text = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        self.answer(
            200, text.encode() if complete else b"", etag=etag, x_goog_generation=str(resource["generation"])
        )

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Returns the response of fake-gcs-server."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() in PASSED}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, {n.lower(): value for n, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        length = headers.pop("content-length", str(len(body)))
        if status not in (204, 304):
            self.send_header("content-length", length if self.command == "HEAD" else str(len(body)))
        for name, value in headers.items():
            if not re.fullmatch("date|connection|transfer-encoding", name):
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def front(port: int) -> Iterator[int]:
    """Starts the server in front of fake-gcs-server. Yields its port."""
    server = Front(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
