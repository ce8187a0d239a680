"""Starts the test object server (object_server.py) and sends requests to it."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

PROGRAM = Path(__file__).with_name("object_server.py")


class Server:
    """An object server that ends with the block. Its settings are `Pace` and `Settings`.

    with Server(latency=0.02) as server:
        server.put("bucket", "key", b"bytes")
    """

    def __init__(self, **settings: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, "--child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the object server ended with status {self.process.wait()}")
        self.control(buckets=["bucket"], **settings)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def s3_options(self) -> dict[str, str]:
        """Returns the options under the names of the `object_store` crate."""
        return {
            "endpoint": self.url,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region": "us-east-1",
            "allow_http": "true",
            "virtual_hosted_style_request": "false",
        }

    def request(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers (in lower case) and body of one request on its own connection."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, named)
            response = connection.getresponse()
            content = response.read()
            return response.status, {n.lower(): value for n, value in response.getheaders()}, content
        finally:
            connection.close()

    def control(self, **what: Any) -> dict[str, Any]:
        """Changes settings and returns all of them.

        Besides fields of `Pace` and `Settings`: `buckets` to create, `drop` for buckets to delete
        before that, `copy={new bucket: existing bucket}`, `serve={bucket: directory}`,
        `faults=[…]`, `seed` of random faults, `clear=True`.
        """
        status, _, body = self.request("POST", "/_control", json.dumps(what).encode())
        found: dict[str, Any] = json.loads(body)
        if status != 200:
            raise ValueError(found["error"])
        return found

    def fault(self, do: str, **how: Any) -> None:
        """Replaces all faults by one. See `Fault` of the server."""
        if isinstance(how.get("data"), bytes):
            how["data"] = base64.b64encode(how["data"]).decode()
        if isinstance(how.get("at"), int):
            how["at"] = [how["at"]]
        self.control(faults=[{"do": do, **how}])

    def reset(self) -> None:
        """Empties the log, counts from 1 again and drops all faults."""
        self.control(reset=True)

    def clear(self) -> None:
        """Restores the initial state."""
        self.control(clear=True, reset=True, buckets=["bucket"])

    def log(self) -> list[dict[str, Any]]:
        """Returns the requests since `reset` in order of arrival."""
        return self._log()["requests"]

    def asked(self, work: Callable[[], Any], most: int, latency: float = 0.15) -> tuple[int, int, Any]:
        """Returns rounds, requests and result of some work that only reads.

        On a busy machine simultaneous requests may follow one another. The work is repeated if it
        takes more than `most` rounds.
        """
        self.control(latency=latency)
        try:
            for _ in range(5):
                self.reset()
                made = work()
                rounds = self.rounds()
                if rounds <= most:
                    break
            return rounds, len(self.log()), made
        finally:
            self.control(latency=0)

    def rounds(self) -> int:
        """Returns the longest chain of requests that each began after the previous one ended.

        Counts since `reset`. The chain shows how often a client waits only if sending independent
        requests takes the client less time than the latency. It takes some 10 ms.
        """
        return self._log()["rounds"]

    def requests(self) -> list[tuple[str, str]]:
        """Returns methods and keys of the log."""
        return [(each["method"], each["key"]) for each in self.log()]

    def _log(self) -> dict[str, Any]:
        return json.loads(self.request("GET", "/_control/log")[2])

    def put(self, bucket: str, key: str, data: bytes) -> str:
        """Stores an object without logging. Returns its ETag."""
        status, headers, body = self.request("PUT", f"/{bucket}/{quote(key)}", data, x_control="1")
        assert status == 200, body
        return headers.get("etag", "")

    def get(self, bucket: str, key: str) -> bytes:
        """Returns an object without logging."""
        status, _, body = self.request("GET", f"/{bucket}/{quote(key)}", x_control="1")
        if status != 200:
            raise KeyError(key)
        return body

    def list(self, bucket: str, prefix: str = "") -> list[str]:
        """Returns at most 1000 keys that begin with a prefix, without logging and without lag."""
        import xml.etree.ElementTree as ElementTree

        path = f"/{bucket}?list-type=2&prefix={quote(prefix, safe='')}"
        _, _, body = self.request("GET", path, x_control="1")
        return [each.text or "" for each in ElementTree.fromstring(body).iterfind("{*}Contents/{*}Key")]
