"""Calls of the engine that an event loop awaits.

A call runs on a thread, of which there is a bounded number. What a loop asks for in one tick is handed over
together, and what comes back within one tick wakes the loop once.
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

# Threads that wait for a server: as many as its store makes requests at once, which is this by
# default, and at most. (``in_all`` of the settings in the crate ``remote``.)
FAR, _MOST_FAR = 340, 1024
# Calls that one thread does before another may take the rest. Handing over costs as much as reading
# some small chunks.
_TOGETHER = 32


class _Job:
    """A call, and the future for what comes of it."""

    __slots__ = ("args", "call", "ended", "error", "future", "is_over", "is_started", "result", "stopper")

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], future: asyncio.Future[Any]) -> None:
        self.call, self.args, self.future = call, args, future
        self.stopper = Stopper()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_started = self.is_over = False
        # Who was cancelled, and waits until the thread is done.
        self.ended: asyncio.Future[None] | None = None

    def run(self) -> None:
        """On a thread of the pool."""
        self.is_started = True
        if self.stopper.is_stopped:
            return
        try:
            self.result = self.stopper.run(self.call, *self.args)
        except BaseException as error:
            self.error = error

    def deliver(self) -> None:
        """On the thread of the event loop."""
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
    """What goes from one event loop to the threads, and back."""

    def __init__(self, threads: ThreadPoolExecutor, together: int) -> None:
        # A lane lives as long as its loop, and so must not hold it.
        self.threads, self.together = threads, together
        self.asked: list[_Job] = []
        self.done: deque[_Job] = deque()
        self.is_woken = False

    def add(self, job: _Job) -> None:
        self.asked.append(job)
        if len(self.asked) == 1:
            job.future.get_loop().call_soon(self.start)

    def start(self) -> None:
        """Hands over what was asked in this tick."""
        jobs, self.asked = self.asked, []
        step = max(min(self.together, math.ceil(len(jobs) / self.threads._max_workers)), 1)
        for at in range(0, len(jobs), step):
            self.threads.submit(self.work, jobs[at : at + step])

    def work(self, jobs: Sequence[_Job]) -> None:
        """On a thread of the pool."""
        for job in jobs:
            job.run()
            self.done.append(job)
            # The loop takes what is done after it has unset the flag: nothing is forgotten.
            if not self.is_woken:
                self.is_woken = True
                try:
                    job.future.get_loop().call_soon_threadsafe(self.deliver)
                except RuntimeError:
                    # The loop was closed: nobody waits any more.
                    return

    def deliver(self) -> None:
        self.is_woken = False
        while self.done:
            self.done.popleft().deliver()


class _Process:
    """The threads of one process. A forked child has threads of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        # By the number of requests that stores make at once; 0: those that are near.
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
    """``call(*args)`` on a thread, of which there are as many as requests at once; 0: as cores.

    Cancelling stops the call. This returns when the thread is done with it, so that memory of the caller is
    not written to any more.
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
    """`awaited`, of a call that reads or writes what belongs to a node."""
    return awaited(call, *args, requests=_requests(node.store) if node.store._native.is_far() else 0)


def _requests(store: Store) -> int:
    """How many requests a store makes at once."""
    options: list[tuple[str, str]] = getattr(store, "_options", [])
    given = next((value for name, value in options if name in ("concurrency", "max_concurrency")), FAR)
    return min(max(int(given), 1), _MOST_FAR)
