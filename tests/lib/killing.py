"""Kills processes of other people's clusters (dask, Ray) at random while they work."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["killing"]


@contextmanager
def killing(
    find: Callable[[], Iterable[int]],
    chance: random.Random,
    *,
    every: float,
    most: int = 10**9,
    when: Callable[[], bool] = lambda: True,
) -> Iterator[list[int]]:
    """Kills a process that `find` returns, about once in `every` seconds, while the block runs.

    Kills none before `when` is true, and `most` in all. Yields the list of killed processes.
    """
    killed: list[int] = []
    over = threading.Event()
    failed: list[BaseException] = []

    def kill() -> None:
        try:
            while len(killed) < most and not over.wait(chance.uniform(0, 2 * every)):
                found = sorted(find()) if when() else []
                if found and not over.is_set():
                    killed.append(chance.choice(found))
                    with suppress(ProcessLookupError):
                        os.kill(killed[-1], signal.SIGKILL)
        except BaseException as error:
            failed.append(error)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        over.set()
        killer.join()
    if failed:
        raise failed[0]
