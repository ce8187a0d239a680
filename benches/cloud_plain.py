"""The practical limit: threads that each fetch a whole object and decode it with one libzstd call.

Connections stay open. The code knows the stored layout and handles no errors.

Client, decoder and server share the processors, so bandwidth and latency alone do not show the
reachable speed.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from cloud_libraries import Cannot, Library, Server
from common import Array
from numcodecs import Zstd

THREADS = 64


class Plain(Library):
    """Arrays without shards, whose chunks are one plane of the first axis each."""

    def open(self, server: Server, path: str) -> Any:
        """Returns the address and the shape of an array."""
        if path == "shards":
            raise Cannot("reads no shards")
        place = urlsplit(server.url)
        connection = http.client.HTTPConnection(place.netloc)
        connection.request("GET", f"/{server.bucket}/{path}/zarr.json")
        shape = json.loads(connection.getresponse().read())["shape"]
        connection.close()
        return place.netloc, f"/{server.bucket}/{path}", tuple(shape)

    def read(self, array: Any, selection: tuple[int | slice, ...]) -> Array:
        netloc, path, shape = array
        first, *inner = selection
        planes: Iterable[int] = range(*first.indices(shape[0])) if isinstance(first, slice) else [first]
        whole = all(at == slice(None) for at in inner)
        out = np.empty((shape[0], *shape[1:]) if whole else shape[0], "f4")
        local = threading.local()

        def one(plane: int) -> None:
            if not hasattr(local, "chunk"):
                local.chunk = np.empty(shape[1:], "f4")
            chunk = out[plane] if whole else local.chunk
            Zstd().decode(get(local, netloc, f"{path}/c/{plane}" + "/0" * len(inner)), chunk)
            if not whole:
                out[plane] = chunk[tuple(inner)]

        in_threads(one, planes)
        return out if isinstance(first, slice) else np.asarray(out[first])

    def write(self, server: Server, path: str, values: Array, chunks: tuple[int, ...]) -> None:
        netloc, local = urlsplit(server.url).netloc, threading.local()

        def one(plane: int) -> None:
            name = f"/{server.bucket}/{path}/c/{plane}" + "/0" * (values.ndim - 1)
            answer(local, netloc, "PUT", name, Zstd(level=1).encode(values[plane]))

        in_threads(one, range(len(values)))


def in_threads(one: Callable[[int], None], planes: Iterable[int]) -> None:
    """Calls `one` for each plane, in many threads."""
    planes = list(planes)
    with ThreadPoolExecutor(min(THREADS, len(planes))) as pool:
        for done in pool.map(one, planes):
            del done


def get(local: Any, netloc: str, name: str) -> memoryview:
    """Returns the bytes of an object, in a buffer that the thread reuses."""
    found = answer(local, netloc, "GET", name)
    size = int(found.headers["content-length"])
    if len(getattr(local, "body", b"")) < size:
        local.body = bytearray(2 * size)
    view, done = memoryview(local.body), 0
    while done < size:
        done += found.readinto(view[done:size])
    found.read()
    return view[:size]


def answer(local: Any, netloc: str, method: str, name: str, body: Any = None) -> http.client.HTTPResponse:
    """Returns the response to a request, on the thread's open connection."""
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection(netloc)
    local.connection.request(method, name, body)
    found: http.client.HTTPResponse = local.connection.getresponse()
    if found.status >= 300:
        raise OSError(f"{method} {name}: {found.status}")
    if method == "PUT":
        found.read()
    return found
