"""Forks under threads of every kind of work: no child hangs or sees broken values."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from support import kills

LIMIT = 60


def child(work: Callable[[], None]) -> int | str:
    """Returns the exit code of a forked child that runs `work`, or ``"hangs"``."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


@pytest.fixture(params=["memory", "local"])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> hs.Group:
    return hs.create_group(hs.MemoryStore() if request.param == "memory" else tmp_path / "g")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forks_under_every_kind_of_work(group: hs.Group) -> None:
    values = np.arange(4000, dtype="i4").reshape(40, 100) + 1
    plain = group.create_array("plain", shape=(40, 100), chunks=(2, 100), dtype="i4")
    shards = group.create_array("shards", shape=(40, 100), chunks=(2, 100), shards=(20, 100), dtype="i4")
    many = group.create_array("many", shape=(3000,), chunks=(1,), dtype="i4", compressors=None)
    mine = group.create_array("mine", shape=(40, 100), chunks=(4, 50), shards=(8, 100), dtype="i4")
    plain[:], shards[:], many[:], mine[:] = values, values, 1, values
    cache = hs.Cache("1 MiB")
    cached = group["plain"]

    def write_behind() -> None:
        with plain.writer() as w:
            for row in range(40):
                w[row] = values[row]

    def stream() -> None:
        for index, row in plain.stream():
            assert (row == values[index]).all()

    def partial(array: Any) -> None:
        array[3:5, 7:90] = values[3:5, 7:90]

    def memory() -> None:
        store = hs.MemoryStore()
        hs.create_array(store, data=values, chunks=(5, 20))

    jobs: list[Callable[[], Any]] = [
        lambda: plain[:],
        lambda: plain.__setitem__(slice(None), values),
        lambda: shards.__setitem__(slice(None), values),
        lambda: partial(plain),
        lambda: partial(shards),
        lambda: shards[5:30, 10],
        lambda: list(group),
        lambda: many.nchunks_initialized,
        lambda: cached[3, 4],
        write_behind,
        stream,
        memory,
    ]
    del cache
    stop, failed = threading.Event(), []

    def loop(job: Callable[[], Any]) -> None:
        while not stop.is_set() and not failed:
            try:
                job()
            except BaseException as error:
                failed.append(error)

    rows: Iterator[tuple[int, Any]] = iter(plain.stream())
    next(rows)
    writer = plain.writer()

    def work() -> None:
        assert (mine[:] == values).all()
        assert (shards[:] == values).all()
        many[7] = 1
        partial(mine)
        mine[:] = values
        index, row = next(rows)
        assert (row == values[index]).all()
        writer[1] = values[1]
        writer.flush()
        assert len(list(group)) == 4
        assert many.nchunks_initialized == 3000
        memory()

    threads = [threading.Thread(target=loop, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills(40)):
            assert child(work) == 0
            assert not failed, failed
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    writer.close()
