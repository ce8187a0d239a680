"""Explains what a request would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Explain", "ExplainTask"]


@dataclass(frozen=True)
class ExplainTask:
    """One chunk's share of a request."""

    chunk: tuple[int, ...]
    """The chunk's index along each axis."""
    key: str
    """Key of the chunk's object."""
    strategy: str
    """The strategy: ``read-into``, ``decode-scatter``, ``fill`` …"""
    ranges: tuple[tuple[int, int], ...]
    """Byte ranges to read: offset and length."""
    elements: int
    """Selected elements of the chunk."""
    bytes_read: int
    """Bytes read from the store."""
    bytes_decoded: int
    """Bytes that decoders produce."""


@dataclass(frozen=True, repr=False)
class Explain:
    """A preview of a read or write: chunks, objects, bytes, strategies. Prints as a table."""

    array: str
    """The array's name."""
    write: bool
    """True for a write."""
    shape: tuple[int, ...]
    """Shape of the selection."""
    bytes: int
    """Bytes of the selection in memory."""
    chunks: int
    """Number of touched chunks."""
    examined: int
    """Number of chunks examined for the following facts: all, up to 100 000."""
    objects: int
    """Number of objects with these chunks."""
    threads: int
    """Maximum number of threads."""
    strategies: Mapping[str, int]
    """Number of chunks per strategy."""
    ranges: int
    """Byte ranges to read: runs of neighbouring chunks, and the ranges of other chunks."""
    bytes_read: int
    """Total bytes read from the store, without shard indexes."""
    gap_bytes: int
    """Bytes of these between chunks. Reading them costs less than another request."""
    index_bytes: int
    """Bytes of shard indexes that were read for this explanation."""
    bytes_copied: int
    """Bytes of other chunks that a write to parts of shards copies from old objects to new ones.

    No bytes move if the file system lets files share them.
    """
    bytes_decoded: int
    """Total bytes that decoders produce."""
    foreign_codecs: tuple[tuple[str, str], ...]
    """Codecs that run outside hyperslab, which is slow: names, and the language (``"Python"``)."""
    tasks: tuple[ExplainTask, ...]
    """The first chunks individually."""
    text: str
    """The explanation as text."""

    @classmethod
    def _from(cls, facts: Mapping[str, Any]) -> Explain:
        return cls(**{**facts, "tasks": tuple(ExplainTask(**task) for task in facts["tasks"])})

    def to_dict(self) -> dict[str, Any]:
        """Return all facts as dictionaries, lists and numbers."""
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
