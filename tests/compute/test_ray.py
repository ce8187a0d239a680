"""Tasks on Ray itself, if it is installed. `test_tasks.py` has a stand-in for it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab._base.tasks import run_tasks
from killing import killing
from object_server_client import Server
from support import files_below, kills

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Runs two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def maps(tmp_path: Path) -> Any:
    z = hs.create_array(tmp_path / "maps.zarr", shape=(60, 100, 100), chunks=(1, 100, 100), dtype="f4")
    z[...] = np.random.default_rng(1).random(z.shape)
    return z


def test_a_copy_is_what_this_process_makes(maps: Any, tmp_path: Path) -> None:
    how: dict[str, Any] = {"chunks": (60, 20, 20), "max_memory": "8 MiB", "task_size": "512 KiB"}
    hs.plan_copy(tmp_path / "maps.zarr", tmp_path / "here.zarr", **how).run()
    hs.plan_copy(tmp_path / "maps.zarr", tmp_path / "there.zarr", **how).run(ray)
    for here in (tmp_path / "here.zarr").rglob("*"):
        there = tmp_path / "there.zarr" / here.relative_to(tmp_path / "here.zarr")
        assert here.is_dir() or here.read_bytes() == there.read_bytes(), here
    assert np.array_equal(hs.open_array(tmp_path / "there.zarr")[...], maps[...])


@pytest.mark.parametrize("where", ["disk", "server"])
def test_a_copy_while_workers_are_killed(maps: Any, tmp_path: Path, seed: int, where: str) -> None:
    """The copy is the same as an undisturbed one, byte for byte, and nothing is left beside it."""
    chance, killed, number = random.Random(seed), 0, 0
    how: dict[str, Any] = {"chunks": (5, 20, 20), "max_memory": "8 MiB", "task_size": "16 KiB"}
    hs.plan_copy(maps, tmp_path / "undisturbed", **how).run()
    expected = files_below(tmp_path / "undisturbed")
    with Server() as server:
        wanted = kills(5)
        while killed < wanted:
            number += 1
            place, options = str(tmp_path / "copies" / f"{number}"), None
            if where == "server":
                place, options = f"s3://bucket/{number}", server.s3_options
            plan = hs.plan_copy(maps, place, storage_options=options, **how)
            assert plan.tasks > 10
            with killing(ray_workers, chance, every=0.1, most=5) as pids:
                plan.run(ray, retries=20)
            killed += len(pids)
            assert number < 20 or killed, "no worker was found"
            if where == "server":
                keys = server.list("bucket", f"{number}/")
                found = {key.partition("/")[2]: server.get("bucket", key) for key in keys}
            else:
                found = files_below(Path(place))
                assert sorted(os.listdir(tmp_path / "copies")) == sorted(map(str, range(1, number + 1)))
            assert found == expected, f"seed {seed}, run {number}"


def ray_workers() -> list[int]:
    """Returns the workers of this cluster that run our tasks at the moment: Ray names them so."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cmdline").read_bytes().startswith(b"ray::hyperslab") and is_ours(int(path.name)):
                found.append(int(path.name))
    return found


def is_ours(pid: int) -> bool:
    """Returns true if a process descends from this one."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid == os.getpid():
            return True
    return False


def test_functions_over_chunks_and_statistics(maps: Any, tmp_path: Path) -> None:
    roots = hs.map_chunks(np.sqrt, maps, tmp_path / "roots.zarr", executor=ray)
    assert np.array_equal(roots[...], np.sqrt(maps[...]))
    found = hs.statistics(maps, executor=ray)
    assert (found.count, found.min, found.max) == (maps.size, maps[...].min(), maps[...].max())


def test_tasks_of_a_killed_worker_are_run_again(tmp_path: Path) -> None:
    def once(number: int) -> int:
        mark = tmp_path / str(number)
        if number % 5 == 0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    assert sorted(run_tasks(once, range(12), ray)) == [(n, n * n) for n in range(12)]
    assert len(list(tmp_path.iterdir())) == 3


def test_an_error_comes_after_the_retries() -> None:
    def fails(number: int) -> None:
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match="no 7"):
        list(run_tasks(fails, [7], ray, retries=1))
