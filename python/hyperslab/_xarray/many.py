"""Opens many files at the same time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint

__all__ = ["AHEAD", "OpenedAhead", "flat"]

AHEAD: ContextVar[OpenedAhead] = ContextVar("hyperslab_opened_ahead")
"""The datasets of the call of ``open_mfdataset`` that this thread is in."""


class OpenedAhead:
    """Datasets that threads open before xarray asks for them, one after the other.

    Each thread waits for its own file, so the files share rounds of requests to a server. The
    ``with`` block closes unused files at its end.

    Parameters
    ----------
    engine : type
        The engine that opens the files.
    places : iterable
        The places that xarray will open. Each is opened once.
    concurrency : int
        Number of files to open at a time.
    with_indexes : bool
        Whether to read the coordinates of dimensions, too.
    """

    def __init__(
        self,
        engine: type[BackendEntrypoint],
        places: Iterable[Any],
        concurrency: int,
        with_indexes: bool,
    ) -> None:
        self._engine, self._places, self._with_indexes = engine, list(places), with_indexes
        self._pool = ThreadPoolExecutor(concurrency, "hyperslab-open")
        self._opening: dict[Any, deque[Future[xr.Dataset]]] | None = None

    def __enter__(self) -> OpenedAhead:
        self._token = AHEAD.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        AHEAD.reset(self._token)
        # After an error or Ctrl-C nobody waits for requests that are still under way.
        self._pool.shutdown(wait=False, cancel_futures=True)
        for left in (self._opening or {}).values():
            for future in left:
                future.add_done_callback(_close)

    def open(self, place: Any, arguments: dict[str, Any]) -> xr.Dataset:
        """Return the dataset of one place. The first call starts to open all places."""
        if self._opening is None:
            self._opening = {}
            for each in self._places:
                future = self._pool.submit(self._open, each, arguments)
                self._opening.setdefault(_key(each), deque()).append(future)
        waiting = self._opening.get(_key(place))
        return waiting.popleft().result() if waiting else self._open(place, arguments)

    def _open(self, place: Any, arguments: dict[str, Any]) -> xr.Dataset:
        opened = self._engine().open_dataset(place, **arguments)
        if not self._with_indexes:
            return opened
        try:
            # As xarray does it, which then finds nothing left to do.
            missing = {
                name: coordinate.variable
                for name, coordinate in opened.coords.items()
                if coordinate.dims == (name,) and name not in opened.xindexes
            }
            indexed = opened.assign_coords(xr.Coordinates(missing)) if missing else opened
        except BaseException:
            opened.close()
            raise
        indexed.set_close(opened._close)
        return indexed


def flat(places: Any) -> Iterator[Any]:
    """Yield the places in nested lists."""
    if isinstance(places, list | tuple):
        for each in places:
            yield from flat(each)
    else:
        yield places


def _key(place: Any) -> Any:
    return os.fspath(place) if isinstance(place, str | os.PathLike) else id(place)


def _close(future: Future[xr.Dataset]) -> None:
    if not future.cancelled():
        with suppress(Exception):
            future.result().close()
