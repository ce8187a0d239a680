"""Files that several processes write. A process opens a file once for all blocks of a graph.

Threads of a process write their blocks side by side, and the last task of the graph flushes the file
once in each process. Each block returns a `Mark` of the open file. dask computes a block again if the
process that has its mark ends. The last task checks that each marked file was flushed.

The file is closed without a flush when nobody refers to its marks any more: after an error, or when the
client is gone.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hyperslab._hdf5.file import File
from hyperslab._stores.edited_file import EditedFile
from hyperslab.errors import ClosedError, HyperslabError

__all__ = ["Gate", "Kept", "Mark", "block_file", "drop", "drop_blocks", "finish"]


class Gate:
    """Lets threads write until it is closed. `close` waits for threads inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing, self._is_closed = 0, False

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            if self._is_closed:
                raise ClosedError("the file was dropped, because another block could not be written")
            self._writing += 1
        try:
            yield
        finally:
            with self._changed:
                self._writing -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._writing)


def drop(file: File) -> None:
    """Close a file without its changes since the last flush."""
    store = file._store
    if isinstance(store, EditedFile) and store._native.is_open:
        store._finisher.detach()
        store._native.close()


# ---- files of this process


class Kept:
    """A file that this process keeps open while it writes the blocks of a graph."""

    def __init__(self, path: str, token: str) -> None:
        self.token, self.id = token, uuid.uuid4().hex
        self._gate, self._arrays = Gate(), dict[str, Any]()
        self._file = File(path, "r+")
        store: Any = self._file._store
        # A process that ends does not flush: the graph is not complete.
        store._finisher.detach()
        weakref.finalize(self, _drop, self._file, os.getpid())

    def write(self, path: str, region: Any, block: Any) -> None:
        """Write one block of a variable."""
        with self._gate.writing():
            array = self._arrays.get(path)
            if array is None:
                array = self._arrays[path] = self._file[path]
            array[region] = block

    def flush(self) -> None:
        """Make all blocks permanent, and close the file."""
        self._gate.close()
        self._file.close()

    def drop(self) -> None:
        """Close the file without its blocks."""
        self._gate.close()
        drop(self._file)


def _drop(file: File, process: int) -> None:
    # A forked child has a copy of its parent's file.
    if os.getpid() == process:
        drop(file)


class Mark:
    """Says that a block is written to a file that is not flushed yet, and keeps the file open.

    In another process a mark is only the name of the file there.
    """

    def __init__(self, kept: Kept) -> None:
        self.id, self._kept = kept.id, kept

    def __reduce__(self) -> tuple[Any, ...]:
        # The pickled mark does not keep the file open.
        here = _here()
        with here.lock:
            here.pinned[self._kept.token] = self._kept
        return str, (self.id,)


class _Process:
    """The files that a process keeps open, by the tokens of their graphs."""

    def __init__(self) -> None:
        self.lock, self.turn = threading.Lock(), threading.Lock()
        self.kept: weakref.WeakValueDictionary[str, Kept] = weakref.WeakValueDictionary()
        self.pinned: dict[str, Kept] = {}
        # Graphs that have failed. Some of their tasks may still run.
        self.failed: set[str] = set()

    def of(self, path: str, token: str) -> Kept:
        """Return the file of a graph. Opens it for the first block."""
        with self.lock:
            if token in self.failed:
                raise ClosedError("the file was dropped, because another block could not be written")
            found = self.kept.get(token)
            if found is None:
                found = self.kept[token] = Kept(path, token)
            return found

    def take(self, token: str) -> Kept | None:
        """Return the file of a graph. The caller closes it."""
        with self.lock:
            self.pinned.pop(token, None)
            return self.kept.pop(token, None)


# A forked child starts without its parent's files.
_processes: dict[int, _Process] = {}


def _here() -> _Process:
    return _processes.setdefault(os.getpid(), _Process())


@contextmanager
def block_file(path: str, token: str) -> Iterator[tuple[Kept, Mark | None]]:
    """Open a file for one block. Without a mark, the block is permanent in the end."""
    here = _here()
    if _is_worker():
        kept = here.of(path, token)
        yield kept, Mark(kept)
        return
    # Threads and processes of a pool do not hear of the end of the graph, nor of its failure.
    with here.turn:
        kept = Kept(path, token)
        try:
            yield kept, None
        except BaseException:
            kept.drop()
            raise
        kept.flush()


def _is_worker() -> bool:
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


# ---- the end of a graph


def finish(marks: Sequence[Mark | str | None], tokens: Sequence[str]) -> None:
    """Make all blocks permanent, in all processes that have written some."""
    wanted = {mark if isinstance(mark, str) else mark.id for mark in marks if mark is not None}
    if not wanted:
        return
    answers = _everywhere(_flush_here, _flush_there, tokens)
    flushed = {one for answer in answers if isinstance(answer, list) for one in answer}
    if wanted <= flushed:
        return
    error = next((one for one in answers if isinstance(one, HyperslabError | OSError)), None)
    raise HyperslabError(
        "a worker ended before its blocks were on the disk, so the file is not complete: write it again"
    ) from error


def drop_blocks(token: str) -> None:
    """Close the file of a graph that has failed, in all processes."""
    _everywhere(_drop_here, _drop_there, [token])


def _everywhere(here: Any, there: Any, tokens: Sequence[str]) -> list[Any]:
    """Call a function in this process and on all workers. Errors of workers are returned."""
    answers = [here(tokens)]
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            client = distributed.get_client()
        except ValueError:
            return answers
        if not client.asynchronous:
            answers += client.run(there, tokens, on_error="return").values()
    return answers


def _flush_here(tokens: Sequence[str]) -> list[str]:
    """Flush and close files. Returns the names of the files that were open."""
    files = [kept for token in tokens if (kept := _here().take(token)) is not None]
    for kept in files:
        kept.flush()
    return [kept.id for kept in files]


def _drop_here(tokens: Sequence[str]) -> list[str]:
    here = _here()
    with here.lock:
        here.failed.update(tokens)
    files = [kept for token in tokens if (kept := here.take(token)) is not None]
    for kept in files:
        kept.drop()
    return [kept.id for kept in files]


# Workers run these beside their own work: they wait for the disk.


async def _flush_there(tokens: Sequence[str]) -> list[str]:
    import asyncio

    return await asyncio.to_thread(_flush_here, tokens)


async def _drop_there(tokens: Sequence[str]) -> list[str]:
    import asyncio

    return await asyncio.to_thread(_drop_here, tokens)
