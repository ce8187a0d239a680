"""What a request would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Explain", "ExplainTask"]


@dataclass(frozen=True)
class ExplainTask:
    """One chunk's share of a request."""

    chunk: tuple[int, ...]
    """The chunk's index per axis."""
    key: str
    """The object that holds it."""
    strategy: str
    """How it is executed: ``read-into``, ``decode-scatter``, ``fill`` …"""
    ranges: tuple[tuple[int, int], ...]
    """The byte ranges that are read: offset and length."""
    elements: int
    """Selected elements of the chunk."""
    bytes_read: int
    """Bytes read from the store."""
    bytes_decoded: int
    """Bytes that come out of decoders."""


@dataclass(frozen=True, repr=False)
class Explain:
    """What a read or write would do: which chunks, which objects, which bytes, and how. Printed, it is a
    table.
    """

    array: str
    """The array's name."""
    write: bool
    """Whether it is a write."""
    shape: tuple[int, ...]
    """Shape of the selection."""
    bytes: int
    """Bytes of the selection in memory."""
    chunks: int
    """Number of chunks touched."""
    examined: int
    """How many of them were looked at for what follows: all, up to 100 000."""
    objects: int
    """Number of objects that they lie in."""
    threads: int
    """Threads that would work on it, at most."""
    strategies: Mapping[str, int]
    """How many chunks are executed by which strategy."""
    ranges: int
    """Byte ranges that are read of objects: runs of chunks that lie close together, and what is read of
    others."""
    bytes_read: int
    """Bytes read from the store, in all; without the indexes of shards."""
    gap_bytes: int
    """How many of these lie between chunks: reading them costs less than another request."""
    index_bytes: int
    """Bytes of indexes of shards that had to be read to tell this."""
    bytes_copied: int
    """Of a write to a part of shards: bytes of their other chunks, which go from the old object to the new
    one. Where a file system lets files share bytes, none are moved."""
    bytes_decoded: int
    """Bytes that come out of decoders, in all."""
    foreign_codecs: tuple[tuple[str, str], ...]
    """Codecs that do not run in hyperslab, which is slow: their names, and the language (``"Python"``)."""
    tasks: tuple[ExplainTask, ...]
    """The first chunks, one by one."""
    text: str
    """All of this as text."""

    @classmethod
    def _from(cls, facts: Mapping[str, Any]) -> Explain:
        return cls(**{**facts, "tasks": tuple(ExplainTask(**task) for task in facts["tasks"])})

    def to_dict(self) -> dict[str, Any]:
        """All facts as dictionaries, lists and numbers."""
        facts = {name: value for name, value in vars(self).items() if name not in ("text", "tasks")}
        facts["shape"] = list(self.shape)
        facts["foreign_codecs"] = [list(codec) for codec in self.foreign_codecs]
        facts["strategies"] = dict(self.strategies)
        facts["tasks"] = [
            {**vars(task), "chunk": list(task.chunk), "ranges": [list(pair) for pair in task.ranges]}
            for task in self.tasks
        ]
        return facts

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text
