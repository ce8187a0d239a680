"""Copies by a plan from and to sessions of Icechunk, on a cluster of dask whose workers are killed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from killing import killing
from support import dask_cluster, files_below, kills

distributed = pytest.importorskip("distributed")
icechunk = pytest.importorskip("icechunk")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    settings = {
        "distributed.scheduler.allowed-failures": 10_000,
        # A worker that is killed twice within this time is not replaced.
        "distributed.deploy.lost-worker-timeout": "1 day",
    }
    with dask_cluster(settings=settings) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def repository(tmp_path: Path) -> Any:
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repository")))


def hierarchy(place: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Makes a group. Returns the values of its arrays."""
    values = np.random.default_rng(0).integers(0, 1000, (64, 96, 96), "i4")
    group = hs.create_group(place, attributes={"title": "x"})
    group.create_array("a", data=values, chunks=(1, 96, 96))
    group.create_array("g/b", data=values[:32] + 1, chunks=(16, 16, 16), shards=(32, 32, 32))
    return {"a": values, "g/b": values[:32] + 1}


def check(group: Any, expected: dict[str, np.ndarray[Any, Any]]) -> None:
    for path, values in expected.items():
        np.testing.assert_array_equal(group[path][...], values)


def worker_ids(client: Any) -> list[int]:
    found = client.run(os.getpid, on_error="ignore").values()
    return [pid for pid in found if pid is not None]


def test_into_a_session(client: Any, repository: Any, tmp_path: Path, seed: int) -> None:
    chance, killed, number = random.Random(seed), 0, 0
    expected = hierarchy(tmp_path / "x")
    most = kills(2)
    while killed < most:
        number += 1
        session = repository.writable_session("main")
        place = hs.storage.StorePath(hs.storage.ZarrStore(session.store), "y")
        plan = hs.plan_copy(tmp_path / "x", place, chunks=(32, 16, 16), task_size="32 KiB", overwrite=True)
        assert plan.tasks > 10
        with killing(lambda: worker_ids(client), chance, every=0.3, most=2) as pids:
            plan.run(client, retries=20, verify=number % 2 == 0)
        killed += len(pids)
        session.commit("copy")
        check(zarr.open_group(repository.readonly_session("main").store, path="y", mode="r"), expected)


@pytest.mark.parametrize("committed", [True, False])
def test_from_a_session(client: Any, repository: Any, tmp_path: Path, seed: int, committed: bool) -> None:
    chance, killed, number = random.Random(seed), 0, 0
    session = repository.writable_session("main")
    expected = hierarchy(session.store)
    if committed:
        session.commit("all")
    store = repository.readonly_session("main").store if committed else session.store
    wanted: dict[str, Any] = {"chunks": (32, 16, 16), "task_size": "32 KiB"}
    hs.plan_copy(store, tmp_path / "undisturbed", **wanted).run()
    most = kills(2)
    while killed < most:
        number += 1
        plan = hs.plan_copy(store, tmp_path / f"y{number}", **wanted)
        with killing(lambda: worker_ids(client), chance, every=0.3, most=2) as pids:
            plan.run(client, retries=20)
        killed += len(pids)
        assert files_below(tmp_path / f"y{number}") == files_below(tmp_path / "undisturbed"), f"seed {seed}"
        check(zarr.open_group(tmp_path / f"y{number}", mode="r"), expected)


def test_from_a_session_into_another(client: Any, repository: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    session = repository.writable_session("main")
    expected = hierarchy(session.store)
    session.commit("all")
    other = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "other")))
    target = other.writable_session("main")
    plan = hs.plan_copy(repository.readonly_session("main").store, target.store, task_size="32 KiB")
    with killing(lambda: worker_ids(client), chance, every=0.3, most=kills(2)):
        plan.run(client, retries=20, verify=True)
    target.commit("copy")
    check(zarr.open_group(other.readonly_session("main").store, mode="r"), expected)
