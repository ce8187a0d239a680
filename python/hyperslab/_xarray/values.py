"""Writes the values of planned variables to Zarr arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._core.array import Array
from hyperslab._xarray.plan import PlannedArray, Write

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["Calls", "write_blocks", "write_loaded"]

# Variables of a remote store that are created and written at the same time. Each waits for 2 to 5
# requests in sequence.
AT_ONCE = 32

# Larger variables in memory are written one at a time: the engine sends their chunks concurrently.
SMALL_BYTES = 1 << 20


def write_loaded(writes: Iterable[Write], targets: Mapping[PlannedArray, Any], calls: Calls) -> None:
    """Write the variables that are in memory."""
    for write in writes:
        if write.is_lazy:
            continue
        values, target = np.asarray(write.source), targets[write.target]
        if values.nbytes <= SMALL_BYTES:
            calls.add(_write, target, write.region, values)
        else:
            _write(target, write.region, values)


def _write(target: Any, region: Any, values: Any) -> None:
    _array_of(target)[region or ...] = values


def write_blocks(
    writes: Iterable[Write], targets: Mapping[PlannedArray, Any], compute: bool
) -> Delayed | None:
    """Write blocks of dask, or return the object that writes them."""
    lazy = [write for write in writes if write.is_lazy]
    if compute and not lazy:
        return None
    from hyperslab.dask import _store_all

    writing = _store_all((each.source, _array_of(targets[each.target]), each.region) for each in lazy)
    if not compute:
        return writing
    writing.compute()
    return None


def _array_of(target: Any) -> Array:
    array: Array = target if isinstance(target, Array) else target.result()
    return array


class Calls:
    """Runs calls concurrently on a remote store, otherwise one after the other."""

    def __init__(self, is_far: bool) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE) if is_far else None
        self._pending: deque[Future[Any]] = deque()

    def add(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Begin a call and return its `Future`; without concurrency, return its result.

        A call may wait for earlier calls, but not for later ones.
        """
        if self._pool is None:
            return call(*arguments)
        if len(self._pending) >= 2 * AT_ONCE:
            self._pending.popleft().result()
        begun = self._pool.submit(call, *arguments)
        self._pending.append(begun)
        return begun

    def wait(self) -> None:
        """Wait until all calls are done. Raises their first error."""
        while self._pending:
            self._pending.popleft().result()

    def close(self, wait: bool = False) -> None:
        """Begin no more calls. ``wait``: return when the running ones have ended."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=True)
