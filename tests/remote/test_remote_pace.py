"""Requests to one host: how many per second, and what follows when it refuses them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import hyperslab as hs
import numpy as np
import pytest
from object_server_client import Server

FOR_EVER = 10**9
VALUES = np.arange(3000, dtype="i4").reshape(300, 10)


@pytest.fixture
def server() -> Iterator[Server]:
    """Returns a server with an array of 300 chunks. Each test has another host."""
    with Server() as server:
        hs.create_array(
            "s3://bucket/a", data=VALUES, chunks=(1, 10), compressors=None, storage_options=server.s3_options
        )
        server.reset()
        yield server


def opened(server: Server, **options: str) -> hs.Array:
    array = hs.open_array("s3://bucket/a", mode="r", storage_options={**server.s3_options, **options})
    server.reset()
    return array


def refused(server: Server) -> int:
    return sum(each["fault"] is not None for each in server.log())


def test_an_overloaded_server_is_left_alone(server: Server) -> None:
    """It answers eight requests at a time, and up to 128 are sent before the first is refused."""
    array = opened(server)
    server.control(latency=0.02, at_once=8)
    assert np.array_equal(array[:], VALUES)
    served = [each["key"] for each in server.log() if each["fault"] is None]
    assert len(served) == len(set(served)) == 300
    assert refused(server) <= 128 + 100


def test_a_server_that_is_out_of_order(server: Server) -> None:
    """One request after the other finds out that nothing has changed, for all that wait."""
    array = opened(server, max_retries="4")
    server.fault("status", status=503, times=FOR_EVER)
    with pytest.raises(hs.errors.StoreError, match=r"fewer requests.*HTTP status 503"):
        array[:]
    # Up to 128 are sent before the first is refused. Alone, each of them would be sent five times.
    assert 4 < len(server.log()) <= 128 + 8
    server.fault("status", status=429, times=1)
    assert array[7, 8] == VALUES[7, 8], "it works again"
    assert np.array_equal(array[:], VALUES)


def test_all_stores_at_a_host_wait(server: Server) -> None:
    """While a store waits as long as the server says, another one does not ask."""
    first, second = opened(server), opened(server, concurrency="3")
    server.fault("status", status=503, retry_after=2, times=1)
    readers = [threading.Thread(target=lambda array=array: array[0, 0]) for array in (first, second)]
    readers[0].start()
    while not refused(server):
        time.sleep(0.01)
    time.sleep(0.1)
    readers[1].start()
    for reader in readers:
        reader.join()
    (refusal, *later) = server.log()
    assert len(later) == 2
    assert all(each["start"] - refusal["end"] >= 1.9 for each in later)


@pytest.mark.parametrize("by", ["option", "setting"])
def test_requests_per_second(server: Server, by: str) -> None:
    """The deadline of a request does not run while it waits for its turn."""
    rate = 200
    options = {"requests_per_second": str(rate)} if by == "option" else {}
    arrays = [opened(server, timeout="1", **options) for _ in range(2)]
    with hs.config.set(requests_per_second=None if by == "option" else rate):
        readers = [threading.Thread(target=lambda array=array: array[:]) for array in arrays]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    log = server.log()
    assert len(log) == 600 and not refused(server)
    # A tenth of a second's tokens may have been there at the beginning.
    assert log[-1]["start"] - log[0]["start"] >= (600 - rate / 10) / rate - 0.1
    # Nobody starves: both stores advance alike.
    keys = [each["key"] for each in log]
    assert all(0.5 < 2 * len(set(keys[:n])) / n <= 2 for n in (100, 300, 500))
    with hs.config.set(requests_per_second=0.5):
        fast = opened(server, requests_per_second="1000")
        assert np.array_equal(fast[:], VALUES), "the option counts"


def test_interrupts_while_waiting_for_a_turn(server: Server) -> None:
    array = opened(server)
    begun = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with hs.config.set(requests_per_second=0.01), pytest.raises(KeyboardInterrupt):
        array[:]
    assert time.monotonic() - begun < 60, "the second request would wait 100 seconds"
    assert len(server.log()) <= 1
    # Requests that gave up took no tokens.
    assert np.array_equal(opened(server, requests_per_second="1000000")[:3], VALUES[:3])
