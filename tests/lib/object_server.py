"""An object store for tests and measurements, in its own process: S3's protocol and plain HTTP.

    python tests/lib/object_server.py --port 8000 --latency 0.03 --per-connection 100e6 --in-all 1e9 \\
        --serve bench=DIR

Tests start it with `Server` of object_server_client.py. It can be slow on purpose (`Pace`), spoil
chosen requests (`Fault`) and lack features (`Settings` of object_server_s3.py). It logs requests.
JSON in ``POST /_control`` changes all of this while the server runs. ``GET /_control/log`` returns
the log and the number of rounds. Requests with the header ``x-control`` prepare data: they are
neither slowed, spoiled nor logged.

There is one thread. Requests take effect one after the other, when they are answered.

Measured with a raw-socket client on a cloud machine with 2 cores, both also busy with other work:

- Objects of 8 MB: 1.6 GB/s through 1 or 8 connections, 2.3 GB/s through 64. Files: 1.4 to 1.5 GB/s.
0.2 s of CPU time per GB.
- Small requests: 11 000 to 15 000 per second. Files: 2 000 to 5 000.
- With 100 MB/s per connection and 1 GB/s in all: 98 MB/s through one connection, 0.97 GB/s through
10, 1.00 GB/s through 64.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from object_server_s3 import (
    Bucket,
    Refused,
    Request,
    Response,
    Settings,
    Storage,
    decode_aws_chunked,
    longest_chain,
)

HEAD_LIMIT = 64 << 10
KINDS_OF_SUPPORT = ("conditional_puts", "ranges", "suffix_ranges")
# A body is sent in blocks of about 5 ms, so that connections share the bandwidth. asyncio timers
# are up to 1 ms late. After a late block the next ones may catch up by at most `SLACK`.
BLOCK_SECONDS = 0.005
SMALLEST_BLOCK, LARGEST_BLOCK = 4 << 10, 512 << 10
SLACK = 0.004


@dataclass
class Pace:
    """How slow the server is. Bandwidths are bytes per second in each direction."""

    # From the end of the request to the first byte of the response.
    latency: float = 0.0
    per_connection: float | None = None
    in_all: float | None = None
    # Requests that are answered at a time. The server refuses others with 503.
    at_once: int | None = None


@dataclass
class Fault:
    """A fault in chosen requests.

    `at` chooses requests by number; the first since `reset` is 1. Without `at`, the fault hits
    `times` requests that match method, bucket and key, after skipping the first `skip` matches.
    Each of them is hit with the probability `chance`.

    `do` is one of
    - "reset": the connection is reset before the request takes effect, or with `late` after that.
    - "status": the answer is `status`. The request has no effect, or with `late` takes effect
      first.
    - "compress": the body is compressed, as by a proxy that leaves the other headers unchanged.
    - "cut": the connection closes after `after` bytes of the body.
    - "stall": nothing is sent for `seconds`, at the beginning or after `after` bytes.
    - "change": the object becomes `data` (base64), or gets another ETag, just before the answer.
    """

    do: str
    at: list[int] | None = None
    method: str = "[A-Z]+"
    bucket: str = ".*"
    key: str = ".*"
    skip: int = 0
    times: int = 1
    chance: float = 1.0
    late: bool = False
    status: int = 503
    retry_after: int | None = None
    after: int | None = None
    seconds: float = 0.0
    data: str | None = None

    def takes(self, number: int, method: str, bucket: str, key: str) -> bool:
        """Returns true if the fault hits this request."""
        if self.at is not None:
            return number in self.at
        patterns = ((self.method, method), (self.bucket, bucket), (self.key, key))
        if self.times == 0 or not all(re.fullmatch(pattern, text) for pattern, text in patterns):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.chance < 1 and random.random() >= self.chance:
            return False
        self.times -= 1
        return True


class Line:
    """A line with a rate in bytes per second. Computes when bytes sent now have passed."""

    def __init__(self, rate: float | None, free: float = 0.0) -> None:
        self.rate, self.free = rate, free

    def reserve(self, count: int, now: float) -> float:
        if not self.rate:
            return now
        self.free = max(self.free, now - SLACK) + count / self.rate
        return self.free


class Closed(Exception):
    """The connection must be closed."""


class Connection:
    """Reads requests and writes responses."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray()

    async def more(self) -> None:
        data = await self.loop.sock_recv(self.sock, 64 << 10)
        if not data:
            raise Closed
        self.buffer += data

    async def until(self, mark: bytes) -> bytes:
        """Returns the bytes before a mark and drops the mark."""
        while (end := self.buffer.find(mark)) < 0:
            if len(self.buffer) > HEAD_LIMIT:
                raise Closed
            await self.more()
        found = bytes(self.buffer[:end])
        del self.buffer[: end + len(mark)]
        return found

    async def exactly(self, count: int, pace: Pacing) -> bytearray:
        """Returns exactly `count` bytes."""
        body = bytearray(count)
        view = memoryview(body)
        have = min(count, len(self.buffer))
        view[:have] = memoryview(self.buffer)[:have]
        del self.buffer[:have]
        await pace.passed(have)
        while have < count:
            got = await self.loop.sock_recv_into(self.sock, view[have : have + pace.block])
            if not got:
                raise Closed
            have += got
            await pace.passed(got)
        return body

    async def head(self) -> tuple[str, str, dict[str, str]]:
        """Returns method, target and headers of the next request."""
        lines = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        try:
            method, target, _ = lines[0].split(" ")
        except ValueError:
            raise Closed from None
        named = (line.partition(":") for line in lines[1:])
        return method, target, {name.strip().lower(): value.strip() for name, _, value in named}

    async def body(self, headers: dict[str, str], pace: Pacing) -> bytearray:
        """Returns the body of the request."""
        if headers.get("expect", "").lower() == "100-continue":
            await self.loop.sock_sendall(self.sock, b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = bytearray()
            while size := int((await self.until(b"\r\n")).split(b";")[0], 16):
                body += await self.exactly(size, pace)
                await self.until(b"\r\n")
            while await self.until(b"\r\n"):
                pass
        else:
            body = await self.exactly(int(headers.get("content-length", "0")), pace)
        if "aws-chunked" in headers.get("content-encoding", "") or headers.get(
            "x-amz-content-sha256", ""
        ).startswith("STREAMING-"):
            return decode_aws_chunked(body)
        return body

    def reset(self) -> None:
        """Closes so that the other side sees a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Pacing:
    """Slows one body down to the bandwidth of its connection and its share of the total."""

    def __init__(self, pace: Pace, shared: Line) -> None:
        rate = min(pace.per_connection or float("inf"), pace.in_all or float("inf"))
        self.limited = rate != float("inf")
        self.own, self.shared = Line(pace.per_connection, time.monotonic()), shared
        block = rate * BLOCK_SECONDS if self.limited else LARGEST_BLOCK
        self.block = int(min(max(block, SMALLEST_BLOCK), LARGEST_BLOCK))

    async def passed(self, count: int) -> None:
        """Returns when `count` bytes have passed."""
        if self.limited and count:
            now = time.monotonic()
            done = max(self.own.reserve(count, now), self.shared.reserve(count, now))
            if done > now:
                await asyncio.sleep(done - now)


class ObjectServer:
    """All connections and their log."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.pace = Pace()
        self.up, self.down = Line(None), Line(None)
        self.faults: list[Fault] = []
        self.log: list[dict[str, Any]] = []
        self.connections = 0
        self.serving = 0

    async def run(self, listener: socket.socket) -> None:
        """Accepts connections forever."""
        loop = asyncio.get_running_loop()
        tasks = set()
        while True:
            sock, _ = await loop.sock_accept(listener)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            task = loop.create_task(self.connection(Connection(sock, self.connections)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def connection(self, connection: Connection) -> None:
        with connection.sock, suppress(Closed, OSError):
            while True:
                await self.request(connection)

    async def request(self, connection: Connection) -> None:
        """Reads one request and answers it."""
        method, target, headers = await connection.head()
        start = time.monotonic()
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if bucket == "_control":
            await self.control(connection, method, key, headers)
            return
        quiet = "x-control" in headers
        entry: dict[str, Any] = {"method": method, "bucket": bucket, "key": key, "query": url.query}
        entry |= {"range": headers.get("range"), "number": len(self.log) + 1, "connection": connection.number}
        entry |= {"authorization": headers.get("authorization"), "token": headers.get("x-amz-security-token")}
        entry |= {"status": 0, "received": 0, "sent": 0, "fault": None, "start": start, "end": None}
        fault = None
        if not quiet:
            self.log.append(entry)
            number = entry["number"]
            fault = next((each for each in self.faults if each.takes(number, method, bucket, key)), None)
            entry["fault"] = fault and fault.do
        pace = Pace() if quiet else self.pace
        if pace.at_once is not None and self.serving >= pace.at_once and fault is None:
            fault = Fault("status", status=503)
            entry["fault"] = "overload"
        self.serving += 1
        try:
            if fault and fault.do == "reset" and not fault.late:
                connection.reset()
                raise Closed
            body = await connection.body(headers, Pacing(pace, self.up))
            entry["received"] = len(body)
            request = Request(
                method, bucket, key, dict(parse_qsl(url.query, keep_blank_values=True)), headers, body
            )
            delay = pace.latency + (fault.seconds if fault and fault.do == "stall" and not fault.after else 0)
            if delay:
                await asyncio.sleep(delay)
            response = self.answer(request, fault)
            if fault and fault.do == "reset":
                connection.reset()
                raise Closed
            await self.send(connection, response, entry, fault, Pacing(pace, self.down))
            if headers.get("connection", "").lower() == "close":
                raise Closed
        finally:
            self.serving -= 1
            entry["end"] = entry["end"] or time.monotonic()

    def answer(self, request: Request, fault: Fault | None) -> Response:
        if fault and fault.do == "status":
            if fault.late:
                self.storage.answer(request)
            headers = {"retry-after": str(fault.retry_after)} if fault.retry_after is not None else {}
            phrase = HTTPStatus(fault.status).phrase
            text = f"<Error><Code>{phrase.title().replace(' ', '')}</Code><Message>Fault</Message></Error>"
            return Response(fault.status, headers, b"" if request.method == "HEAD" else text.encode())
        if fault and fault.do == "change":
            with suppress(Refused):
                object = self.storage.find(request.bucket, request.key)
                data = object.data if fault.data is None else base64.b64decode(fault.data)
                self.storage.put(request.bucket, request.key, data, object.headers)
        response = self.storage.answer(request)
        if fault and fault.do == "compress" and response.body and response.status < 300:
            response.body = gzip.compress(bytes(response.body))
            response.headers["content-encoding"] = "gzip"
        return response

    async def send(
        self,
        connection: Connection,
        response: Response,
        entry: dict[str, Any],
        fault: Fault | None,
        pace: Pacing,
    ) -> None:
        loop, sock, body = connection.loop, connection.sock, memoryview(response.body)
        entry["status"] = response.status
        length = len(body) if response.length is None else response.length
        headers = {"x-amz-request-id": f"request-{entry['number']}", **response.headers}
        if response.status not in (204, 304):
            headers["content-length"] = str(length)
        if response.status >= 400 and "content-type" not in headers:
            headers["content-type"] = "application/xml"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n{lines}\r\n".encode(
            "latin-1"
        )

        after = fault.after or 0 if fault and fault.do in ("cut", "stall") else None
        if fault and fault.do == "cut":
            body = body[:after]
        # Send small bodies together with the head.
        together = after is None and len(body) <= pace.block
        if not together:
            await loop.sock_sendall(sock, head)
            if fault and fault.do == "stall" and after:
                await loop.sock_sendall(sock, body[:after])
                await asyncio.sleep(fault.seconds)
                body = body[after:]
        # Without a bandwidth limit, the kernel takes as much as it can.
        step = pace.block if pace.limited else max(len(body), 1)
        for at in range(0, max(len(body), 1), step):
            block = body[at : at + step]
            await pace.passed(len(block))
            if at + step >= len(body):
                # Set before the client has the last block, so that its next request starts after
                # `end`.
                entry["end"] = time.monotonic()
            await loop.sock_sendall(sock, head + block if together else block)
            entry["sent"] += len(block)
        if fault and fault.do == "cut":
            raise Closed

    # ------------------------------------------------------------------------------- control

    async def control(self, connection: Connection, method: str, what: str, headers: dict[str, str]) -> None:
        """Changes settings and reports them."""
        body = await connection.body(headers, Pacing(Pace(), Line(None)))
        status, found = 200, None
        try:
            if method == "POST":
                self.change(json.loads(body))
            if what == "log":
                ended = [(each["start"], each["end"]) for each in self.log if each["end"] is not None]
                found = {"requests": self.log, "rounds": longest_chain(ended)}
            else:
                found = {
                    **asdict(self.pace),
                    **asdict(self.storage.settings),
                    "connections": self.connections,
                }
                found["uploads"] = [[each.bucket, each.key] for each in self.storage.uploads.values()]
        except (TypeError, ValueError, AttributeError) as error:
            status, found = 400, {"error": str(error)}
        text = json.dumps(found).encode()
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-length: {len(text)}\r\n\r\n"
        await connection.loop.sock_sendall(connection.sock, head.encode() + text)

    def change(self, wanted: dict[str, Any]) -> None:
        """Applies a control document: fields of `Pace` and `Settings`, and the words below."""
        if wanted.pop("clear", False):
            count = self.storage.count
            self.storage = Storage()
            # Keep the counter, so that no ETag repeats.
            self.storage.count = count
            self.pace = Pace()
        if wanted.pop("reset", False):
            self.log, self.faults = [], []
        if "seed" in wanted:
            # For faults that have a chance, and for listings that lag.
            random.seed(wanted.pop("seed"))
        if "faults" in wanted:
            self.faults = [Fault(**each) for each in wanted.pop("faults")]
        for bucket in wanted.pop("drop", []):
            self.storage.buckets.pop(bucket, None)
        for bucket in wanted.pop("buckets", []):
            self.storage.buckets.setdefault(bucket, Bucket())
        for bucket, source in wanted.pop("copy", {}).items():
            self.storage.buckets[bucket] = self.storage.bucket(source).copy()
        for bucket, directory in wanted.pop("serve", {}).items():
            self.storage.serve(bucket, Path(directory))
        for name, value in wanted.items():
            if name in KINDS_OF_SUPPORT and value not in ("yes", "ignored", "no"):
                raise ValueError(f"{name} is yes, ignored or no, not {value!r}")
            for target in (self.pace, self.storage.settings):
                if name in {field.name for field in fields(target)}:
                    setattr(target, name, value)
                    break
            else:
                raise ValueError(f"no setting {name!r}")
        if (self.up.rate, self.down.rate) != (self.pace.in_all, self.pace.in_all):
            self.up, self.down = Line(self.pace.in_all), Line(self.pace.in_all)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=0, help="0: any that is free; the first line tells which")
    parser.add_argument("--bucket", action="append", default=[], help="make a bucket (may be given again)")
    parser.add_argument(
        "--serve",
        action="append",
        default=[],
        metavar="BUCKET=DIR",
        help="a bucket of the files of a directory",
    )
    parser.add_argument("--child", action="store_true", help="end when the standard input ends")
    for kind in (Pace, Settings):
        for field in fields(kind):
            flag = "--" + field.name.replace("_", "-")
            if isinstance(field.default, bool):
                parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
            else:
                to = str if isinstance(field.default, str) else int if field.name == "part_minimum" else float
                parser.add_argument(flag, type=to, default=field.default)
    return parser.parse_args()


async def main() -> None:
    """Serves until stopped."""
    arguments = parse_arguments()
    server = ObjectServer()
    names = [field.name for kind in (Pace, Settings) for field in fields(kind)]
    server.change(
        {
            "buckets": arguments.bucket,
            "serve": dict(each.split("=", 1) for each in arguments.serve),
            **{name: getattr(arguments, name) for name in names},
        }
    )
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=512)
    listener.setblocking(False)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)

    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    if arguments.child:
        loop.add_reader(sys.stdin.fileno(), lambda: os.read(sys.stdin.fileno(), 1024) or done.set())
    running = loop.create_task(server.run(listener))
    await done.wait()
    running.cancel()


if __name__ == "__main__":
    asyncio.run(main())
