"""Copies on a cluster whose processes are killed at random times: workers, and the client."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from killing import killing
from support import dask_cluster, kills

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")


# Needs two passes and writes shards.
WANTED: dict[str, Any] = {"chunks": (256, 4, 4), "shards": (256, 16, 16), "max_memory": "640 KiB"}


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with 16 MB in maps, and a copy of them that was not disturbed."""
    root = tmp_path_factory.mktemp("source")
    values = np.random.default_rng(1).integers(0, 1000, (256, 128, 128), "i4")
    group = hs.create_group(root / "a", attributes={"title": "x"})
    group.create_array("v", data=values, chunks=(1, 128, 128))
    for n in range(20):
        group.create_array(f"small/{n}", data=values[n, :20, :20], chunks=(7, 7))
    hs.copy(root / "a", root / "undisturbed", **WANTED)
    return root


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    settings = {
        "distributed.scheduler.allowed-failures": 10_000,
        # A worker that is killed twice within this time is not replaced.
        "distributed.deploy.lost-worker-timeout": "1 day",
    }
    with dask_cluster(settings=settings) as cluster:
        yield cluster


def plan_to(source: Path, place: Path) -> hs.CopyPlan:
    plan = hs.plan_copy(source / "a", place, task_size="500 kB", **WANTED)
    assert plan.depth > 1 and plan.tasks > 30
    return plan


def test_in_peace(cluster: Any, source: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    plan = plan_to(source, tmp_path / "b")
    with distributed.Client(cluster) as client:
        run = plan.run(client, progress=lambda *args: told.append(args))
    assert run.tasks == plan.tasks
    assert told[-1] == ("copy", plan.bytes, plan.bytes)
    assert files(tmp_path / "b") == files(source / "undisturbed")
    assert os.listdir(tmp_path) == ["b"]


def worker_ids(client: Any) -> list[int]:
    found = client.run(os.getpid, on_error="ignore").values()
    return [pid for pid in found if pid is not None]


def test_workers_are_killed(cluster: Any, source: Path, tmp_path: Path, seed: int) -> None:
    """The run continues with the remaining workers and with replacements for killed ones."""
    chance, killed = random.Random(seed), 0
    expected = files(source / "undisturbed")
    with distributed.Client(cluster) as client:
        number = 0
        wanted = kills(5)
        while killed < wanted:
            number += 1
            place = tmp_path / f"b{number}"
            plan = plan_to(source, place)
            with killing(lambda: worker_ids(client), chance, every=0.6, most=5) as pids:
                plan.run(client, retries=20)
            killed += len(pids)
            assert files(place) == expected, f"seed {seed}, run {number}"
            assert sorted(os.listdir(tmp_path)) == [place.name], f"seed {seed}, run {number}"
            subprocess.run(["rm", "-r", place], check=True)


CLIENT = """
import sys
import hyperslab as hs
plan = hs.CopyPlan.from_json(sys.stdin.read())
address = sys.argv[1]
if address == "here":
    plan.run(resume=True)
else:
    import distributed
    with distributed.Client(address) as client:
        plan.run(client, resume=True)
"""


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_the_client_is_killed(cluster: Any, source: Path, tmp_path: Path, seed: int, where: str) -> None:
    """Each client resumes where the previous one was killed, until one finishes."""
    chance, killed = random.Random(seed), 0
    expected = files(source / "undisturbed")
    address = "here" if where == "here" else cluster.scheduler_address
    number, longest = 0, 1.0
    wanted = kills(5)
    while killed < wanted:
        number += 1
        place = tmp_path / f"b{number}"
        plan = plan_to(source, place)
        while not place.exists():
            client = subprocess.Popen(
                [sys.executable, "-c", CLIENT, address], stdin=subprocess.PIPE, text=True
            )
            assert client.stdin is not None
            client.stdin.write(plan.to_json())
            client.stdin.close()
            begun = time.monotonic()
            try:
                client.wait(chance.uniform(0.3, longest))
            except subprocess.TimeoutExpired:
                client.kill()
                client.wait()
                killed += 1
                # The destination never has half a copy.
                assert not place.exists() or files(place) == expected, f"seed {seed}, run {number}"
                # A slow machine does nothing in less time.
                longest = min(longest * 1.1, 20)
            else:
                assert client.returncode == 0, f"seed {seed}, run {number}"
                longest = max(time.monotonic() - begun, 0.6)
        assert files(place) == expected, f"seed {seed}, run {number}"
        # If the client was killed after the rename, the journal still exists.
        plan.discard()
        assert sorted(os.listdir(tmp_path)) == [place.name], f"seed {seed}, run {number}"
        subprocess.run(["rm", "-r", place], check=True)
