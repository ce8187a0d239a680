"""Runs idempotent tasks in this process, on executors of `concurrent.futures`, on dask, or on Ray.

1. A few more tasks than workers are handed over at a time. Even 10⁸ tasks never need more futures.
2. When a task ends, its result goes to the caller, and the next task is handed over.
3. A failed task is handed over again, a limited number of times. The same holds for a task whose
   worker was lost, if the executor continues without that worker. A superseded task is not
   repeated: another run does it.
4. When the caller stops or gets an error, tasks that have not begun are cancelled. Running tasks
   end on their own. Tasks are idempotent, so the next attempt may run beside them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import BrokenExecutor, CancelledError, Executor
from typing import Any, Protocol, TypeAlias, TypeVar

from hyperslab._base.shared import NotHereError, SharedArray
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError, SupersededError

__all__ = ["Progress", "run_tasks", "workers"]

# Pauses before attempts to send arrays to the workers of dask again, in seconds.
_PAUSES = (0.1, 0.3, 1.0, 3.0)

T = TypeVar("T")
R = TypeVar("R")

Progress: TypeAlias = Callable[[int, int | None], object]

# How long the number of a cluster's workers is reused, in seconds. Asking costs a round trip.
_BELIEVED = 5.0

# How often to check that a pool still exists while no task ends, in seconds.
_ASKED = 1.0


def run_tasks(
    function: Callable[..., R],
    items: Iterable[T],
    executor: Any = None,
    *,
    shared: Sequence[Any] = (),
    retries: int = 2,
    progress: Progress | None = None,
    in_flight: int | None = None,
    name: str = "hyperslab-task",
) -> Iterator[tuple[int, R]]:
    """Call ``function(item)`` for each item. Yields ``(index, result)`` as calls end, in any order.

    Nothing runs until the first result is requested.

    Parameters
    ----------
    function : callable
        Must be idempotent: after a lost worker it may run twice, even at the same time. For other
        processes it is pickled: pass a module-level function, or a `functools.partial` of one.
    items : iterable
        Items are taken one at a time as there is room, so a generator of very many works.
    executor : executor, optional
        Runs the tasks. ``None``: this process, one task at a time. Otherwise an executor of
        `concurrent.futures`; a `distributed.Client`; the module ``ray``; or anything with
        ``submit(function, item)`` that returns futures with ``add_done_callback`` and ``result``.
    shared : sequence of numpy.ndarray, optional
        Arrays that each call gets after its item: ``function(item, *shared)``. Each worker gets
        them once.
    retries : int, default 2
        How many times to rerun a failed task before its error is raised.
    progress : callable, optional
        Called as ``progress(tasks_done, tasks_in_all)``. The latter is ``None`` if ``items`` has no
        length.
    in_flight : int, optional
        Maximum number of tasks handed over at a time. Default: twice the workers, so that none
        waits.
    name : str
        The name of the tasks on a dashboard.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor() as executor:
    ...     sorted(run_tasks(abs, [-3, 4, -5], executor))
    [(0, 3), (1, 4), (2, 5)]
    """
    if retries < 0:
        raise InvalidArgumentError(f"retries: expected 0 or more, found {retries}")
    if in_flight is not None and in_flight < 1:
        raise InvalidArgumentError(f"in_flight: expected 1 or more, found {in_flight}")
    total = len(items) if isinstance(items, Sized) else None
    if executor is None:
        results = _run_here(lambda item: function(item, *shared), items, retries)
    else:
        results = _run_on_pool(function, items, _pool(executor, name), retries, in_flight, shared)
    return _report_progress(results, progress, total)


def workers(executor: Any) -> int:
    """Return how many tasks an executor runs at a time; 1 for ``None``."""
    return 1 if executor is None else _pool(executor, "").workers()


def _report_progress(
    results: Iterator[tuple[int, R]], progress: Progress | None, total: int | None
) -> Iterator[tuple[int, R]]:
    if progress is not None:
        progress(0, total)
    for done, result in enumerate(results, 1):
        if progress is not None:
            progress(done, total)
        yield result


def _run_here(function: Callable[[T], R], items: Iterable[T], retries: int) -> Iterator[tuple[int, R]]:
    for index, item in enumerate(items):
        for attempt in range(retries + 1):
            try:
                result = function(item)
            except Exception as error:
                if attempt == retries or isinstance(error, SupersededError):
                    raise _add_note(error, index, attempt + 1) from None
            else:
                yield index, result
                break


def _run_on_pool(
    function: Callable[..., R],
    items: Iterable[T],
    pool: _Pool,
    retries: int,
    in_flight: int | None,
    shared: Sequence[Any] = (),
) -> Iterator[tuple[int, R]]:
    waiting = enumerate(items)
    running: dict[Any, tuple[int, T, int]] = {}
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    most, asked = in_flight or 2 * pool.workers(), time.monotonic()
    if shared:
        pool.share(shared)

    def submit(index: int, item: T, attempt: int) -> None:
        future = pool.submit(function, item, f"{index}-{attempt}")
        running[future] = index, item, attempt
        future.add_done_callback(ended.put)

    try:
        while True:
            while len(running) < most and (following := next(waiting, None)) is not None:
                submit(*following, 0)
            if not running:
                return
            future = _next(ended, pool)
            index, item, attempt = running.pop(future)
            try:
                result = pool.result(future)
            except _LostError as lost:
                # dask cancels tasks that a restarted scheduler does not know, so try again. A
                # caller who cancels tasks on purpose also closes the client: then `submit` fails.
                if attempt == retries:
                    raise BrokenExecutor(f"task {index} was lost {attempt + 1} times: {lost}") from lost
                if shared:
                    # They may have been lost, too.
                    pool.share(shared)
                submit(index, item, attempt + 1)
                continue
            except NotHereError:
                # The worker is on another machine. Not a failure: it is told once.
                pool.send_shared()
                submit(index, item, attempt)
                continue
            except BrokenExecutor as error:
                error.add_note(
                    "The executor lost a worker and takes no more tasks. Run again with another one."
                )
                raise
            except Exception as error:
                if attempt == retries or isinstance(error, SupersededError):
                    raise _add_note(error, index, attempt + 1) from None
                submit(index, item, attempt + 1)
                continue
            yield index, result
            del future, result
            if in_flight is None and time.monotonic() - asked > _BELIEVED:
                most, asked = 2 * pool.workers(), time.monotonic()
    finally:
        pool.cancel(list(running))
        pool.drop_shared()


def _next(ended: queue.SimpleQueue[Any], pool: _Pool) -> Any:
    """Return the next future that has ended. Checks regularly that the pool still exists."""
    while True:
        try:
            return ended.get(timeout=_ASKED)
        except queue.Empty:
            pool.check()


def _add_note(error: Exception, index: int, times: int) -> Exception:
    error.add_note(f"Task {index} failed {times} times." if times > 1 else f"Task {index} failed.")
    return error


# ---- where tasks run


class _Pool(Protocol):
    """A backend that runs tasks. ``submit`` gets a unique name for each task."""

    def workers(self) -> int: ...
    def share(self, arrays: Sequence[Any]) -> None:
        """Give arrays to the workers. Tasks that are submitted later get them after their item."""

    def send_shared(self) -> None:
        """Send the arrays with each task, because a worker does not have them."""

    def drop_shared(self) -> None:
        """Release the arrays: no more tasks come."""

    def submit(self, function: Callable[..., Any], item: Any, name: str) -> Any: ...
    def result(self, future: Any) -> Any:
        """Return the result of a task. Raises the task's own error, or `_LostError`."""

    def cancel(self, futures: list[Any]) -> None: ...
    def check(self) -> None:
        """Raise an error if no more tasks will end."""


class _LostError(Exception):
    """The executor has no result for a task, although the task did not fail."""


def _pool(executor: Any, name: str) -> _Pool:
    distributed, ray = sys.modules.get("distributed"), sys.modules.get("ray")
    if distributed is not None and isinstance(executor, distributed.Client):
        return _Dask(executor, name)
    if ray is not None and executor is ray:
        return _Ray(executor, name)
    if isinstance(executor, Executor) or callable(getattr(executor, "submit", None)):
        return _Futures(executor)
    raise ArgumentTypeError(
        "executor: expected an executor of concurrent.futures, a distributed.Client, the module ray, or an"
        f" object with submit(), found {type(executor).__name__}"
    )


class _Futures:
    """An executor of `concurrent.futures`, or an object with the same methods."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._shared: list[SharedArray] = []

    def workers(self) -> int:
        return int(getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1)

    def share(self, arrays: Sequence[Any]) -> None:
        self.drop_shared()
        self._shared = [SharedArray(array) for array in arrays]

    def send_shared(self) -> None:
        for array in self._shared:
            array.send()

    def drop_shared(self) -> None:
        for array in self._shared:
            array.close()
        self._shared = []

    def submit(self, function: Callable[..., Any], item: Any, name: str) -> Any:
        if self._shared:
            return self._executor.submit(_call_shared, function, item, self._shared)
        return self._executor.submit(function, item)

    def result(self, future: Any) -> Any:
        return future.result()

    def cancel(self, futures: list[Any]) -> None:
        for future in futures:
            future.cancel()

    def check(self) -> None:
        """Do nothing: these futures always end."""


class _Dask:
    """A client of `distributed`. The scheduler itself reassigns tasks of lost workers.

    A lost scheduler shows up in many kinds of errors, depending on the step that meets it first.
    The client cannot connect, times out, is closed, or cancels its requests.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name, self._last = client, f"{name}-{uuid.uuid4().hex}", 0
        closed = getattr(sys.modules.get("distributed.client"), "ClosedClientError", CancelledError)
        # `CommClosedError` and `TimeoutError` are subclasses of `OSError`.
        self._away = (OSError, CancelledError, asyncio.CancelledError, closed)
        # Futures. The scheduler replaces them by the arrays, which workers get from each other.
        self._shared: list[Any] = []

    def workers(self) -> int:
        try:
            self._last = int(sum(self._client.nthreads().values()))
        except (Exception, asyncio.CancelledError) as error:
            # The client looks for its scheduler. If it gives up, `check` raises an error.
            self.check()
            if not isinstance(error, self._away):
                raise
        # While workers are starting, let a few tasks wait for them.
        return max(self._last, 4)

    def share(self, arrays: Sequence[Any]) -> None:
        def scatter() -> list[Any]:
            found: list[Any] = self._client.scatter(list(arrays), broadcast=True, hash=False)
            return found

        # Fails if a worker dies that is just getting the arrays, with a lost connection or a
        # `KeyError` of the scheduler. The scheduler notices the death soon.
        for pause in _PAUSES:
            try:
                self._shared = self._at_scheduler(scatter)
                return
            except (BrokenExecutor, KeyError):
                if self._client.status != "running":
                    raise
                time.sleep(pause)
        self._shared = self._at_scheduler(scatter)

    def send_shared(self) -> None:
        """Do nothing: the scheduler knows where arrays are."""

    def drop_shared(self) -> None:
        self._shared = []

    def submit(self, function: Callable[..., Any], item: Any, name: str) -> Any:
        key = f"{self._name}-{name}"
        return self._at_scheduler(
            lambda: self._client.submit(function, item, *self._shared, key=key, pure=False)
        )

    def _at_scheduler(self, work: Callable[[], R]) -> R:
        try:
            return work()
        except (Exception, asyncio.CancelledError) as error:
            self.check()
            if not isinstance(error, self._away):
                raise
            raise BrokenExecutor(_SCHEDULER_AWAY) from error

    def result(self, future: Any) -> Any:
        try:
            return future.result()
        except (Exception, asyncio.CancelledError) as error:
            # A failed task has the status "error". A task's own `OSError` does not mean a lost
            # scheduler.
            if future.status == "error":
                raise
            raise _LostError(_SCHEDULER_AWAY) from error

    def cancel(self, futures: list[Any]) -> None:
        # Tasks are usually cancelled because of an error. The caller must see that error.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            if futures and self._client.status == "running":
                self._client.cancel(futures, force=True)

    def check(self) -> None:
        if self._client.status in ("closing", "closed"):
            raise BrokenExecutor(_SCHEDULER_AWAY)


_SCHEDULER_AWAY = (
    "the scheduler of dask is gone, or its client was closed. Run again with another client; a plan of a "
    "copy goes on with resume=True: what is done stays"
)


def _call(function: Callable[..., R], *arguments: Any) -> R:
    return function(*arguments)


def _call_shared(function: Callable[..., R], item: Any, shared: Sequence[Any]) -> R:
    return function(item, *(array.get() for array in shared))


class _Ray:
    """Ray, given as its module. It reruns tasks of lost workers."""

    def __init__(self, ray: Any, name: str) -> None:
        self._ray, self._name = ray, name
        # Ray takes only functions, and our tasks are other callables.
        self._call = ray.remote(_call)
        self._references: dict[Any, Any] = {}
        self._shared: list[Any] = []

    def workers(self) -> int:
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def share(self, arrays: Sequence[Any]) -> None:
        self._shared = [self._ray.put(array) for array in arrays]

    def send_shared(self) -> None:
        """Do nothing: Ray knows where arrays are."""

    def drop_shared(self) -> None:
        self._shared = []

    def submit(self, function: Callable[..., Any], item: Any, name: str) -> Any:
        reference = self._call.options(name=f"{self._name}-{name}").remote(function, item, *self._shared)
        future = reference.future()
        self._references[future] = reference
        future.add_done_callback(self._forget)
        return future

    def result(self, future: Any) -> Any:
        return future.result()

    def _forget(self, future: Any) -> None:
        self._references.pop(future, None)

    def cancel(self, futures: list[Any]) -> None:
        for future in futures:
            reference = self._references.pop(future, None)
            if reference is not None:
                self._ray.cancel(reference)

    def check(self) -> None:
        """Do nothing: these futures always end."""
