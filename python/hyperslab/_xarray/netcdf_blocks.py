"""Blocks of dask, and the targets that write them: in this process, or in others."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._hdf5.changing import is_far
from hyperslab._hdf5.classic import Netcdf3Writer
from hyperslab._xarray.netcdf_workers import Gate, Mark, block_file, finish
from hyperslab._xarray.netcdf_writer import NetcdfWriter, Target
from hyperslab.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = [
    "PATIENCE",
    "ClassicBlocks",
    "Gate",
    "LocalBlocks",
    "SharedBlocks",
    "check_delayed",
    "computed",
    "gather",
    "settle_reads",
    "writing",
]

# Blocks of dask that are computed by other processes and written by this one, at a time.
_AT_ONCE = 64

# Seconds to wait for others that write a file.
PATIENCE = 10.0


# ---- targets


class LocalBlocks:
    """A variable of a file that this process is changing."""

    def __init__(self, array: Any, gate: Gate) -> None:
        self.array, self._gate = array, gate

    def write(self, region: Any, block: Any) -> None:
        """Write one block."""
        with self._gate.writing():
            self.array[region] = block


class SharedBlocks:
    """A variable of a NetCDF-4 file that several processes write. ``token``: of the graph of blocks."""

    def __init__(self, file: str, path: str, token: str) -> None:
        self.file, self.path, self.token = file, path, token

    def write(self, region: Any, block: Any) -> Mark | None:
        """Write one block. Returns a mark of the file if the block is not permanent yet."""
        with block_file(self.file, self.token) as (file, mark):
            file.write(self.path, region, block)
        return mark


class ClassicBlocks:
    """A variable of a NetCDF classic file that processes write one after the other."""

    def __init__(self, file: str, name: str) -> None:
        self.file, self.name = file, name

    def write(self, region: Any, block: Any) -> None:
        """Write one block, and make it permanent."""
        with _turn(), _classic(self.file) as writer:
            writer[self.name][region] = block


# Turns of the threads of a process. A forked child has a lock of its own.
_turns: dict[int, threading.Lock] = {}


def _turn() -> threading.Lock:
    return _turns.setdefault(os.getpid(), threading.Lock())


@contextmanager
def _classic(path: str) -> Iterator[Netcdf3Writer]:
    """Open a classic file for one block. Waits for other processes."""
    end = time.monotonic() + PATIENCE
    while True:
        writer = Netcdf3Writer(path, mode="a")
        try:
            writer.begin()
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    with writer:
        yield writer


# ---- tasks


def writing(lazy: Sequence[tuple[Any, Target]], targets: Sequence[Any]) -> list[Any]:
    """Return a dask array for each target. Its blocks write the target's blocks.

    ``targets``: what writes the blocks of each target.
    """
    return [
        source.map_blocks(
            partial(_written, target=blocks, starts=_edges(source, target.box)),
            dtype=object,
            chunks=tuple((1,) * n for n in source.numblocks),
            meta=np.empty((0,) * source.ndim, object),
            name=f"hyperslab-write-{uuid.uuid4().hex}",
        )
        for (source, target), blocks in zip(lazy, targets, strict=True)
    ]


def _written(block: Any, *, target: Any, starts: Sequence[Sequence[int]], block_id: Any) -> Any:
    """Write one block, where it belongs."""
    block = np.asarray(block)
    if not block.size:
        return None
    places = zip(starts, block_id, block.shape, strict=True)
    region = tuple(slice(ends[n], ends[n] + length) for ends, n, length in places)
    return target.write(region, block)


def gather(source: Any, target: Target) -> None:
    """Compute blocks elsewhere, some at a time, and write them here."""
    from dask.base import compute as compute_all

    starts = _edges(source, target.box)
    numbers = list(np.ndindex(*source.numblocks))
    for begin in range(0, len(numbers), _AT_ONCE):
        part = numbers[begin : begin + _AT_ONCE]
        for number, block in zip(part, compute_all(*(source.blocks[n] for n in part)), strict=True):
            target.array[tuple(slice(at[n], at[n + 1]) for at, n in zip(starts, number, strict=True))] = block


def _edges(source: Any, box: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return where blocks begin and end in the variable, along each axis."""
    axes = zip(box, source.chunks, strict=True)
    return [[first + at for at in (0, *itertools.accumulate(lengths))] for (first, _), lengths in axes]


def computed(files: Sequence[Any], compute: bool) -> Delayed | None:
    """Write the blocks of several files at the same time, and make them permanent."""
    arrays = [array for file in files for array in file.blocks(compute)]
    tokens = [file.token for file in files if getattr(file, "token", None) is not None]
    if compute and not arrays:
        return None
    from dask.base import optimize
    from dask.delayed import delayed

    # All at once, so that variables share the tasks from which they are made.
    arrays = [array.to_delayed(optimize_graph=False) for array in optimize(*arrays)]
    tasks = [task for array in arrays for task in array.ravel().tolist()]
    later: Delayed = delayed(finish, pure=False)(tasks, tokens)
    if compute:
        later.compute()
        return None
    return later


# ---- checks


def settle_reads(writer: NetcdfWriter, store: Any, is_new: bool, compute: bool, source: str) -> None:
    """Load blocks of dask that read what this call writes, or refuse them.

    ``is_new``: whether the file replaces the one that others see, so that blocks may still read that.
    """
    from dask.base import compute as compute_all

    from hyperslab._dask.blocks import UnsettledReads, Written, refusal, settle
    from hyperslab._dask.reads import reading_from

    lazy, in_memory = writer.lazy, writer.in_memory
    if is_new:
        if not compute and reading_from((values for values, _ in lazy), store, "") is not None:
            raise InvalidArgumentError(
                f"ds is read lazily from {source}, which compute=False replaces at once: load it "
                "first (ds.load()), or write it to another place"
            )
        return
    written = [Written(values, target.array, target.box) for values, target in [*lazy, *in_memory]]
    try:
        loaded = settle(written, compute_all if compute else None)
    except UnsettledReads as error:
        name = written[error.number].target.path
        raise InvalidArgumentError(refusal(error, f"variable {name!r}", "ds.load()")) from None
    in_memory += [(values, lazy[number][1]) for number, values in loaded.items()]
    writer.lazy = [each for number, each in enumerate(lazy) if number not in loaded]


def check_delayed(place: Any) -> None:
    """Refuse to write later what can only be written at once."""
    if place is None:
        raise NotImplementedError(
            "to_netcdf() with compute=False is not yet implemented when returning a memoryview"
        )
    if not isinstance(place, str) or is_far(place):
        raise InvalidArgumentError(
            f"compute=False: expected a path, found {place!r}: only files on the disk can be written later"
        )
