"""The server: chunks beside nginx and h5grove, and the answers that a viewer waits for.

    python benches/serve.py [--quick] [--row NAME] [--program hyperslab] [--folder DIR]

| row | what is asked | beside |
|---|---|---|
| chunk | 1 MiB of a stored chunk, 64 clients | nginx on the same files |
| transcoded | a chunk of an HDF5 file with gzip: re-encoded for Zarr | h5grove (PyPI), the same slice |
| plane | 1000 × 1000 float32 of a plain array | |
| slider | the next step of an array of three axes, in chunks of one step | |
| map-hdf5, map-shards, map-files | the chunk map of 10⁶ chunks, from an index or a listing | |
| first | the first picture of a sparse array of 1 TB: describe, plane, histogram | |

Each row but the chunk map is measured again with 500 idle clients and 50 that read slowly beside: `beside`
is the time with them as a multiple of the time without. Files are in the page cache. Times are medians, for
the client: the server's own time is `server`.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import h5py
import hyperslab as hs
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
import servers

CLIENTS = 64
CHUNK = 1 << 20
IDLE, SLOW = 500, 50

_H5GROVE = (
    "import sys, tornado.ioloop, tornado.web\n"
    "from h5grove.tornado_utils import get_handlers\n"
    'handlers = get_handlers(sys.argv[2], allow_origin="*")\n'
    'tornado.web.Application(handlers).listen(int(sys.argv[1]), "127.0.0.1")\n'
    "tornado.ioloop.IOLoop.current().start()\n"
)


def make(folder: Path, chunks: int) -> None:
    """Makes the files, unless they exist."""
    random = np.random.default_rng(0)
    if not (folder / "plain.zarr").exists():
        plain = hs.create_array(
            folder / "plain.zarr", shape=(64, 512, 512), dtype="f4", chunks=(1, 512, 512), compressors=None
        )
        plain[:] = random.random(plain.shape, "f4")
        picture = hs.create_array(
            folder / "picture.zarr", shape=(1000, 1000), dtype="f4", chunks=(250, 500), compressors=None
        )
        picture[:] = random.random(picture.shape, "f4")
        film = hs.create_array(folder / "film.zarr", shape=(50, 1000, 1000), dtype="f4", chunks=(1, 500, 500))
        wave = np.sin(np.arange(1000) / 40)[:, None] + np.cos(np.arange(1000) / 70)
        for step in range(50):
            film[step] = (wave * (1 + step / 50)).astype("f4")
        with h5py.File(folder / "gzip.h5", "w") as file:
            data = (random.integers(0, 50, (32, 512, 512)) / 8 + wave[:512, :512]).astype("f4")
            file.create_dataset("a", data=data, chunks=(1, 512, 512), compression="gzip", shuffle=True)
        # 2^19 × 2^20 × 2 bytes are 1 TiB, in 2^19 chunks, of which 1000 are stored.
        sparse = hs.create_array(
            folder / "sparse.zarr", shape=(1 << 19, 1 << 20), dtype="u2", chunks=(1024, 1024), fill_value=0
        )
        for number in range(1000):
            row, column = (number * 7919 % 512) << 10, (number * 104729 % 1024) << 10
            sparse[row : row + 2, column : column + 2] = number
    side = round(chunks**0.5)
    if not (folder / f"map-{side}.h5").exists():
        values = np.ones((side, side * 16), "u1")
        with hs.File(folder / f"map-{side}.h5", "w", libver="latest") as file:
            file.create_dataset("a", data=values, chunks=(1, 16))
        shards = hs.create_array(
            folder / f"map-shards-{side}.zarr",
            shape=values.shape,
            dtype="u1",
            chunks=(1, 16),
            shards=(100, 1600),
        )
        shards[:] = values
        files = hs.create_array(
            folder / f"map-files-{side}.zarr", shape=values.shape, dtype="u1", chunks=(1, 16)
        )
        files[:] = values


@contextmanager
def serving(program: list[str], folder: Path) -> Iterator[str]:
    """Starts the server in a process of its own."""
    command = [*program, "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        while line and "http://" not in line:
            line = process.stdout.readline()
        url = line[line.index("http://") :].split()[0]
        parts = urlsplit(url)
        yield f"{parts.scheme}://{parts.netloc}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def h5grove(folder: Path) -> Iterator[str | None]:
    """Starts h5grove, if it is installed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", _H5GROVE, str(port), str(folder)], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                yield f"http://127.0.0.1:{port}"
                return
            except OSError:
                if process.poll() is not None:
                    break
                time.sleep(0.05)
        yield None
    finally:
        process.terminate()
        process.wait()


def throughput(url: str, paths: list[str], requests: int, clients: int = CLIENTS) -> float:
    """Returns bytes per second of bodies, of clients that ask again and again on their connections."""
    place = urlsplit(url)
    selector = selectors.DefaultSelector()
    left = requests
    received = 0
    buffer = bytearray(CHUNK)

    def ask(connection: socket.socket, state: dict[str, Any]) -> None:
        path = paths[left % len(paths)]
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        state.update(head=b"", body=None)

    for _ in range(clients):
        connection = socket.create_connection((place.hostname, place.port))
        state: dict[str, Any] = {}
        selector.register(connection, selectors.EVENT_READ, state)
        ask(connection, state)
        left -= 1
    start = time.perf_counter()
    busy = clients
    while busy:
        for key, _ in selector.select():
            peer, state = key.fileobj, key.data
            assert isinstance(peer, socket.socket)
            count = peer.recv_into(buffer)
            assert count, "the server closed a connection"
            if state["body"] is None:
                head, end, rest = (state["head"] + bytes(buffer[:count])).partition(b"\r\n\r\n")
                if not end:
                    state["head"] = head
                    continue
                assert head.startswith(b"HTTP/1.1 200"), head
                lines = head.lower().split(b"\r\n")
                (length,) = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")]
                state["body"], count = length, len(rest)
            received += count
            state["body"] -= count
            if state["body"] > 0:
                continue
            if left > 0:
                ask(peer, state)
                left -= 1
            else:
                selector.unregister(peer)
                peer.close()
                busy -= 1
    return received / (time.perf_counter() - start)


def seconds(url: str, paths: Iterator[str] | list[str], rounds: int) -> tuple[float, float | None]:
    """Returns the median time of requests on one connection, and the server's own."""
    place = urlsplit(url)
    found, own = [], []
    with socket.create_connection((place.hostname, place.port)) as connection:
        for _, path in zip(range(rounds + 1), paths, strict=False):
            start = time.perf_counter()
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 20)
            head, _, rest = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), data[:2000]
            headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
            left = int(headers["content-length"]) - len(rest)
            while left:
                left -= len(connection.recv(min(left, 1 << 20)))
            found.append(time.perf_counter() - start)
            if "server-timing" in headers:
                own.append(float(headers["server-timing"].split("dur=")[1]) / 1000)
    return statistics.median(found[1:]), statistics.median(own[1:]) if own[1:] else None


@contextmanager
def crowd(url: str, path: str) -> Iterator[None]:
    """Idle clients, and clients that read a few bytes of a large answer each second."""
    place = urlsplit(url)
    open_ = [socket.create_connection((place.hostname, place.port)) for _ in range(IDLE)]
    slow = []
    for _ in range(SLOW):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((place.hostname, place.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        slow.append(connection)
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(1):
            for connection in slow:
                connection.setblocking(False)
                try:
                    connection.recv(100)
                except OSError:
                    continue

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
        for connection in open_ + slow:
            connection.close()


def report(row: str, **figures: Any) -> None:
    """Prints a line of JSON."""
    rounded = {
        name: round(value, 5) if isinstance(value, float) else value for name, value in figures.items()
    }
    print(json.dumps({"row": row, **rounded}), flush=True)


def main() -> None:
    """Measures the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests, and maps of 40 000 chunks")
    parser.add_argument("--row", action="append", help="measure rows whose names begin so")
    parser.add_argument("--program", default=f"{sys.executable} -m hyperslab", help="the command")
    parser.add_argument("--folder", type=Path, help="keep the files here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        chunks = 40_000 if given.quick else 1_000_000
        make(folder, chunks)
        measure(folder.resolve(), chunks, given)


def measure(folder: Path, chunks: int, given: argparse.Namespace) -> None:
    """Starts the servers, and asks them."""

    def wanted(row: str) -> bool:
        return not given.row or any(row.startswith(one) for one in given.row)

    requests, rounds = (500, 5) if given.quick else (4000, 21)
    with serving(given.program.split(), folder) as url:
        api, zarr = f"/api/{{}}/{folder.name}", f"/zarr/{folder.name}"
        stored = [f"/plain.zarr/c/{step}/0/0" for step in range(64)]
        large = f"{api.format('data')}/picture.zarr?format=raw"

        def timed(row: str, paths: Callable[[], Iterator[str]], most: float | None) -> None:
            if not wanted(row):
                return
            alone, own = seconds(url, paths(), rounds)
            with crowd(url, large):
                beside, _ = seconds(url, paths(), rounds)
            report(row, seconds=alone, server=own, most=most, beside=beside / alone)

        def again(path: str) -> Callable[[], Iterator[str]]:
            return lambda: iter([path] * (rounds + 1))

        if wanted("chunk"):
            paths = [zarr + path for path in stored]
            rates, others, crowded = [], [], []
            with servers.running("nginx") as nginx:
                for number in range(64):
                    target = nginx.folder / stored[number].lstrip("/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes((folder / stored[number].lstrip("/")).read_bytes())
                for _ in range(3):
                    rates.append(throughput(url, paths, requests))
                    others.append(throughput(nginx.url, stored, requests))
            with crowd(url, large):
                crowded = [throughput(url, paths, requests) for _ in range(3)]
            rate, other = statistics.median(rates), statistics.median(others)
            beside = rate / statistics.median(crowded)
            report("chunk", gigabytes=rate / 1e9, nginx=other / 1e9, share=rate / other, beside=beside)
        if wanted("transcoded"):
            paths = [f"{zarr}/gzip.h5/a/c/{step}/0/0" for step in range(32)]
            with h5grove(folder) as grove:
                few = requests // 5
                rate = throughput(url, paths, few, 8)
                slices = [f"/data?file=gzip.h5&path=/a&format=bin&selection={step},:,:" for step in range(32)]
                per_second = rate / size_of(url, paths[0])
                theirs = throughput(grove, slices, few // 5, 8) / CHUNK if grove else None
                report(
                    "transcoded",
                    chunks_per_second=per_second,
                    h5grove=theirs or "not installed",
                    share=per_second / theirs if theirs else None,
                )
        plane = api.format("plane")
        timed("plane", again(f"{plane}/picture.zarr?width=1000&height=1000"), 0.1)
        timed(
            "slider",
            lambda: (f"{plane}/film.zarr?select={n % 50}&width=1000&height=1000" for n in range(99)),
            0.05,
        )
        timed("first-describe", again(f"{api.format('describe')}/sparse.zarr"), 0.5)
        timed("first-plane", again(f"{plane}/sparse.zarr?width=1000&height=800"), 0.5)
        timed("first-histogram", again(f"{api.format('histogram')}/sparse.zarr"), 0.5)
        side = round(chunks**0.5)
        for row, path in (
            ("map-hdf5", f"map-{side}.h5/a"),
            ("map-shards", f"map-shards-{side}.zarr"),
            ("map-files", f"map-files-{side}.zarr"),
        ):
            if wanted(row):
                map_path = f"{api.format('chunks')}/{path}?format=raw"
                own, _ = seconds(url, [map_path] * 4, 3)
                report(row, seconds=own, chunks=size_of(url, map_path) // 8, most=1.0)


def size_of(url: str, path: str) -> int:
    """Returns the length of an answer."""
    with urllib.request.urlopen(url + path) as answer:
        return len(answer.read())


if __name__ == "__main__":
    main()
