"""Tasks on Ray itself, if it is installed. `test_tasks.py` has a stand-in for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from hyperslab._base.tasks import run_tasks

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
