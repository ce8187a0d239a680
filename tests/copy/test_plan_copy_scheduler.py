"""Copies on a cluster of real processes whose scheduler is killed, and restarted or not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from test_plan_copy import files

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")

SCHEDULER = """
import asyncio, sys
from distributed import Scheduler
async def main():
    async with Scheduler(host="127.0.0.1", port=int(sys.argv[1]), dashboard=False) as scheduler:
        await scheduler.finished()
asyncio.run(main())
"""
WORKER = """
import asyncio, sys
from distributed import Worker
async def main():
    async with Worker(sys.argv[1], nthreads=1, memory_limit=0, dashboard=False) as worker:
        await worker.finished()
asyncio.run(main())
"""

# Needs two passes and writes shards.
WANTED: dict[str, Any] = {"chunks": (256, 4, 4), "shards": (256, 16, 16), "max_memory": "640 KiB"}


class Cluster:
    """A scheduler and two workers.

    Workers end with their scheduler, so `start` starts all three.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._running: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        def run(code: str, argument: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, "-c", code, argument], stderr=subprocess.DEVNULL)

        self._running = [run(SCHEDULER, str(self._port)), *(run(WORKER, self.address) for _ in range(2))]

    def kill_scheduler(self) -> None:
        self._running[0].kill()
        self._running[0].wait()

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.stop()


def planned(root: Path) -> hs.CopyPlan:
    if not (root / "a").exists():
        values = np.random.default_rng(1).integers(0, 1000, (256, 128, 128), "i4")
        hs.create_array(root / "a", data=values, chunks=(1, 128, 128))
    plan = hs.plan_copy(root / "a", root / "b", task_size="500 kB", **WANTED)
    assert plan.depth > 1 and plan.tasks > 30
    return plan


def undisturbed(root: Path) -> dict[str, bytes]:
    hs.copy(root / "a", root / "c", **WANTED)
    return files(root / "c")


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_the_scheduler_is_restarted(cluster: Cluster, tmp_path: Path, share: float) -> None:
    """The client reconnects. Tasks that the old scheduler had handed out are handed out again."""
    plan, killed = planned(tmp_path), 0

    def progress(_: str, done: int, total: int) -> None:
        nonlocal killed
        if done > total * share and not killed:
            killed = done
            assert not (tmp_path / "b").exists()
            cluster.kill_scheduler()
            cluster.stop()
            cluster.start()

    with distributed.Client(cluster.address, timeout=60) as client:
        client.wait_for_workers(2)
        run = plan.run(client, progress=progress)
    assert killed and run.tasks == plan.tasks
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_the_scheduler_does_not_come_back(cluster: Cluster, tmp_path: Path) -> None:
    """The client raises an error with advice, and does not wait forever.

    Another cluster resumes.
    """
    plan, killed = planned(tmp_path), 0

    def progress(_: str, done: int, total: int) -> None:
        nonlocal killed
        # At once: on a busy machine the workers may be far ahead of this client.
        if done and not killed:
            killed = done
            cluster.kill_scheduler()

    with distributed.Client(cluster.address, timeout=60) as client:
        client.wait_for_workers(2)
        # Seconds for which the client looks for its scheduler.
        client._timeout = 3
        with pytest.raises(BrokenExecutor, match="resume=True"):
            plan.run(client, progress=progress)
    assert killed
    assert sorted(os.listdir(tmp_path)) == [".b.hyperslab-copy", "a"]
    cluster.stop()
    cluster.start()
    with distributed.Client(cluster.address, timeout=60) as client:
        client.wait_for_workers(2)
        run = plan.run(client, resume=True, check="contents", verify=True)
    assert run.skipped > 0 and run.skipped + run.tasks == plan.tasks
    assert files(tmp_path / "b") == undisturbed(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]
