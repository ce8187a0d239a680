"""Runs calls of the engine on threads, for event loops to await.

The number of threads is bounded. Calls that a loop makes in one tick are handed over together.
Results that arrive within one tick wake the loop once.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from hyperslab._base.config import config
from hyperslab._native import Stopper

if TYPE_CHECKING:
    from hyperslab._core.node import Node
    from hyperslab._stores.store import Store

__all__ = ["FAR", "awaited", "awaited_of"]

T = TypeVar("T")

# Default and maximum number of threads that wait for one server: one per concurrent request of its
# store. (``in_all`` of the settings in the crate ``remote``.)
FAR, _MOST_FAR = 340, 1024
# Maximum number of calls that one thread takes at a time. Handing over calls costs as much as
# reading some small chunks.
_TOGETHER = 32


class _Job:
    """A call, and the future for its result."""

    __slots__ = ("args", "call", "ended", "error", "future", "is_over", "is_started", "result", "stopper")

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]) -> None:
        self.call, self.args, self.future = call, args, future
        self.stopper = Stopper()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_started = self.is_over = False
        # Set by a cancelled caller that waits until the thread is done.
        self.ended: asyncio.Future[None] | None = None

    def run(self) -> None:
        """Run the call. Called on a thread of the pool."""
        self.is_started = True
        if self.stopper.is_stopped:
            return
        try:
            self.result = self.stopper.run(self.call, *self.args)
        except BaseException as error:
            self.error = error

    def deliver(self) -> None:
        """Hand the result to the future. Called on the thread of the event loop."""
        self.is_over = True
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)
        self.error = self.result = None


class _Lane:
    """Carries calls from one event loop to the threads, and results back."""

    def __init__(self, threads: ThreadPoolExecutor, together: int) -> None:
        # A lane lives as long as its loop, so it must not hold a reference to the loop.
        self.threads, self.together = threads, together
        self.asked: list[_Job] = []
        self.done: deque[_Job] = deque()
        self.is_woken = False

    def add(self, job: _Job) -> None:
        self.asked.append(job)
        if len(self.asked) == 1:
            job.future.get_loop().call_soon(self.start)

    def start(self) -> None:
        """Hand over the calls of this tick."""
        jobs, self.asked = self.asked, []
        step = max(min(self.together, math.ceil(len(jobs) / self.threads._max_workers)), 1)
        for at in range(0, len(jobs), step):
            self.threads.submit(self.work, jobs[at : at + step])

    def work(self, jobs: Sequence[_Job]) -> None:
        """Run jobs. Called on a thread of the pool."""
        for job in jobs:
            job.run()
            self.done.append(job)
            # `deliver` clears the flag before it empties `done`, so no job is missed.
            if not self.is_woken:
                self.is_woken = True
                try:
                    job.future.get_loop().call_soon_threadsafe(self.deliver)
                except RuntimeError:
                    # The loop was closed: nobody waits for results.
                    return

    def deliver(self) -> None:
        self.is_woken = False
        while self.done:
            self.done.popleft().deliver()


class _Process:
    """The threads of one process. A forked child has threads of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # Keyed by the number of requests that a store makes at once; 0: stores that are not remote.
        self.threads: dict[int, ThreadPoolExecutor] = {}
        self.lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Lane]] = WeakKeyDictionary()

    def lane(self, loop: asyncio.AbstractEventLoop, requests: int) -> _Lane:
        lanes = self.lanes.setdefault(loop, {})
        lane = lanes.get(requests)
        if lane is None:
            count = requests or config.threads or os.cpu_count() or 1
            made = ThreadPoolExecutor(count, f"hyperslab-async-{requests or 'near'}")
            threads = self.threads.setdefault(requests, made)
            lane = lanes[requests] = _Lane(threads, 1 if requests else _TOGETHER)
        return lane


_process: _Process | None = None


def _this_process() -> _Process:
    global _process
    process = _process
    if process is None or process.pid != os.getpid():
        process = _process = _Process()
    return process


async def awaited(call: Callable[..., T], *args: Any, requests: int = FAR) -> T:
    """Run ``call(*args)`` on a thread.

    There are as many threads as ``requests``; with 0, as many as cores. Cancelling stops the call.
    The cancelled ``await`` returns only when the thread is done, so nothing writes to the caller's
    memory afterwards.
    """
    loop = asyncio.get_running_loop()
    job = _Job(call, args, loop.create_future())
    _this_process().lane(loop, requests).add(job)
    try:
        return await job.future  # type: ignore[no-any-return]
    except asyncio.CancelledError:
        job.stopper.stop()
        if job.is_started and not job.is_over:
            job.ended = loop.create_future()
            await job.ended
        raise


def awaited_of(node: Node, call: Callable[..., T], *args: Any) -> Any:
    """`awaited` for a call that reads or writes data of a node."""
    return awaited(call, *args, requests=_requests(node.store) if node.store._native.is_far() else 0)


def _requests(store: Store) -> int:
    """Return how many requests a store makes at once."""
    options: list[tuple[str, str]] = getattr(store, "_options", [])
    given = next((value for name, value in options if name in ("concurrency", "max_concurrency")), FAR)
    return min(max(int(given), 1), _MOST_FAR)
