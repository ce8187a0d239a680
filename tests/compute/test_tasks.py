"""`hyperslab._base.tasks`: tasks on executors of several kinds."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from functools import partial
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
from hyperslab._base import tasks
from hyperslab._base.tasks import run_tasks, workers
from support import dask_cluster

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    settings = {"distributed.scheduler.allowed-failures": 1}
    with dask_cluster(settings=settings) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(params=["here", "threads", "spawn", "forkserver", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "here":
        yield None
    elif request.param == "threads":
        with ThreadPoolExecutor(3) as pool:
            yield pool
    elif request.param == "dask":
        yield request.getfixturevalue("client")
    else:
        with ProcessPoolExecutor(2, multiprocessing.get_context(request.param)) as processes:
            yield processes


def square(n: int) -> int:
    return n * n


def fails(folder: Path, times: int, n: int) -> int:
    """Fails `times` times for each number. Each attempt leaves a file."""
    attempt = len(list(folder.glob(f"{n}-*")))
    (folder / f"{n}-{attempt}").touch()
    if attempt < times:
        raise hs.errors.ChunkError(f"attempt {attempt} of {n}")
    return n


def test_results(executor: Any) -> None:
    assert sorted(run_tasks(square, range(20), executor)) == [(n, n * n) for n in range(20)]
    assert list(run_tasks(square, [], executor)) == []
    assert list(run_tasks(square, iter([7]), executor)) == [(0, 49)]


def test_retries(executor: Any, tmp_path: Path) -> None:
    task = partial(fails, tmp_path, 2)
    assert sorted(run_tasks(task, range(4), executor, retries=2)) == [(n, n) for n in range(4)]
    attempts = Counter(path.name.split("-")[0] for path in tmp_path.iterdir())
    assert attempts == {str(n): 3 for n in range(4)}


def test_errors(executor: Any, tmp_path: Path) -> None:
    with pytest.raises(hs.errors.ChunkError, match="attempt 1 of 0") as caught:
        list(run_tasks(partial(fails, tmp_path, 5), [0], executor, retries=1))
    assert "Task 0 failed 2 times." in caught.value.__notes__


def test_progress(executor: Any) -> None:
    told: list[tuple[int, int | None]] = []
    list(run_tasks(square, range(3), executor, progress=lambda *args: told.append(args)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    told.clear()
    list(run_tasks(square, iter(range(2)), executor, progress=lambda *args: told.append(args)))
    assert told == [(0, None), (1, None), (2, None)]


class Counting(Executor):
    """Runs tasks once five of them wait. Records the highest number of waiting tasks."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.most = 0

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, partial(function, *args, **kwargs)))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) == 5:
            for future, task in self.waiting:
                future.set_result(task())
            self.waiting = []
        return future


def test_few_are_in_flight() -> None:
    executor, taken = Counting(), 0

    def items() -> Iterator[int]:
        nonlocal taken
        while True:
            yield taken
            taken += 1

    results = run_tasks(square, items(), executor, in_flight=5)
    assert taken == 0
    for _ in range(1000):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert executor.most <= 5
    assert taken <= 1010


def test_what_has_not_begun_is_cancelled() -> None:
    begun, go = Counter[int](), threading.Event()

    def task(n: int) -> int:
        begun[n] += 1
        if n == 0:
            raise ValueError("0")
        go.wait(30)
        return n

    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ValueError, match="0"):
            list(run_tasks(task, range(50), executor, retries=0, in_flight=50))
        go.set()
    assert len(begun) <= 2


def die_once(folder: Path, n: int) -> int:
    try:
        (folder / str(n)).touch(exist_ok=False)
    except FileExistsError:
        return n
    os.kill(os.getpid(), signal.SIGKILL)
    return -1


def test_lost_workers_of_dask(client: Any, tmp_path: Path) -> None:
    assert sorted(run_tasks(partial(die_once, tmp_path), range(3), client)) == [(n, n) for n in range(3)]


class Away:
    """A dask client whose scheduler is gone. Each method fails as in a real client."""

    def __init__(self, error: Exception, begun: int) -> None:
        self.error, self.left, self.status = error, begun, "running"

    def nthreads(self) -> dict[str, int]:
        raise self.error

    def submit(self, function: Any, item: Any, key: str, pure: bool) -> Any:
        if not self.left:
            raise self.error
        self.left -= 1
        future = Future[Any]()
        future.status = "cancelled"
        future.set_exception(self.error)
        return future

    def cancel(self, futures: Any, force: bool) -> None:
        raise self.error


def away() -> list[Exception]:
    client = pytest.importorskip("distributed.client")
    comm = pytest.importorskip("distributed.comm.core")
    return [
        client.ClosedClientError("Client is closed. Can't send update-graph message."),
        client.FutureCancelledError(key="x", reason="scheduler-connection-lost"),
        comm.CommClosedError("in <TCP (closed)>: Stream is closed"),
        CancelledError(),
        TimeoutError(),
        OSError("Timed out trying to connect to tcp://127.0.0.1:8786 after 30 s"),
    ]


@pytest.mark.parametrize("begun", [0, 1, 3, 4, 9])
def test_the_scheduler_of_dask_is_away(begun: int) -> None:
    """The error has one type, whichever step fails first."""
    for error in away():
        pool = tasks._Dask(Away(error, begun), "x")
        with pytest.raises(BrokenExecutor, match="scheduler of dask is gone.*resume=True") as caught:
            list(tasks._run_on_pool(abs, range(3), pool, 2, None))
        assert error in (caught.value.__cause__, getattr(caught.value.__cause__, "__cause__", None))


def test_errors_of_tasks_on_dask_are_their_own(client: Any) -> None:
    """Tasks may raise errors of the types that a lost scheduler causes."""
    with pytest.raises(TimeoutError, match="its own"):
        list(run_tasks(own_timeout, range(2), client, retries=0))


def own_timeout(n: int) -> int:
    raise TimeoutError("its own")


def test_lost_workers_of_a_pool(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        with pytest.raises(BrokenExecutor) as caught:
            list(run_tasks(partial(die_once, tmp_path), range(3), executor))
    assert "another one" in caught.value.__notes__[0]


class Ray:
    """The parts of the module ``ray`` that tasks need. `test_ray.py` uses Ray itself."""

    def __init__(self) -> None:
        self.pool, self.names = ThreadPoolExecutor(2), list[str]()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, function: Any) -> Any:
        if not inspect.isfunction(function):
            raise TypeError("the real one takes functions only")
        ray = self

        class Remote:
            def options(self, name: str) -> Any:
                ray.names.append(name)
                return self

            def remote(self, *items: Any) -> Any:
                future = ray.pool.submit(function, *items)
                return type("ObjectRef", (), {"future": lambda self: future})()

        return Remote()

    def cancel(self, reference: Any) -> None:
        reference.future().cancel()


def test_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    ray = Ray()
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    found = run_tasks(partial(pow, exp=2), range(9), ray, name="copy")
    assert sorted(found) == [(n, n * n) for n in range(9)]
    assert len(set(ray.names)) == 9
    assert ray.names[0] == "copy-0-0"
    ray.pool.shutdown()


def test_workers(client: Any) -> None:
    assert workers(None) == 1
    assert workers(client) == 4
    with ThreadPoolExecutor(3) as pool:
        assert workers(pool) == 3


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="executor: expected"):
        list(run_tasks(square, [1], 4))
    with pytest.raises(ValueError, match="retries"):
        list(run_tasks(square, [1], retries=-1))
    with pytest.raises(ValueError, match="in_flight"):
        list(run_tasks(square, [1], in_flight=0))
