"""Appends to several arrays of a group that become visible at once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from hyperslab import _native
from hyperslab._core.group_common import AnyGroup
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["Transaction", "transaction"]

# Pause while other writers of a server have not published earlier rows.
_PAUSE = 0.05


@dataclass
class _Part:
    """The rows to append to one array."""

    path: str
    array: Any
    axis: int
    rows: list[Any] = field(default_factory=list)

    @property
    def values(self) -> Any:
        return self.rows[0] if len(self.rows) == 1 else np.concatenate(self.rows, self.axis)


class Member:
    """An array in a transaction."""

    def __init__(self, transaction: Transaction, path: str) -> None:
        self._transaction, self._path = transaction, path

    def append(self, data: Any, axis: int = 0) -> None:
        """Append data along one axis when the block ends, as `hyperslab.Array.append` does."""
        self._transaction._append(self._path, data, axis)

    def __setitem__(self, selection: Any, value: Any) -> None:
        """Overwrite elements when the block ends, before its rows become visible."""
        self._transaction._writes.append((self._path, selection, value))


class Transaction:
    """The changes of one block; made by `hyperslab.transaction`."""

    def __init__(self, group: AnyGroup, wait: float) -> None:
        self._group, self._wait = group, wait
        self._parts: dict[str, _Part] = {}
        self._writes: list[tuple[str, Any, Any]] = []
        self._appended: list[tuple[str, int, int, _native.ArrayHandle]] = []
        self._late: list[BaseException] = []
        self._published = False

    def __getitem__(self, path: str) -> Member:
        """Return the array at a path below the group."""
        return Member(self, path.strip("/"))

    def __enter__(self) -> Transaction:
        """Begin the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Store all changes, unless the block raised an error."""
        if kind is None:
            self._commit()

    def _append(self, path: str, data: Any, axis: int, array: Any = None) -> None:
        """Keep rows for the array at a path. ``array``: its handle, if that has settings of its own."""
        array = self._group[path] if array is None else array
        if isinstance(array, AnyGroup):
            raise InvalidArgumentError(f"append: expected the path of an array, found the group {path!r}")
        values, axis = array._rows(data, axis)
        part = self._parts.setdefault(path, _Part(path, array, axis))
        if part.rows and (part.axis != axis or not isinstance(values, np.ndarray)):
            raise InvalidArgumentError(
                f"append: {path!r} has rows along axis {part.axis} in this block already: "
                "append them together"
            )
        if values.shape[axis]:
            part.rows.append(values)

    def _commit(self) -> None:
        # All writers take the locks of arrays in this order.
        parts = [part for _, part in sorted(self._parts.items()) if part.rows]
        if self._group._handle.file is not None:
            self._commit_file(parts)
            return
        for part in parts:
            self._group._catch_up(part.path, part.axis)
        self._append_from(parts, 0)
        if self._late:
            raise self._late[0]

    def _append_from(self, parts: list[_Part], number: int) -> None:
        """Append to all parts from a number on, each while the one before is not yet longer."""
        if number == len(parts):
            self._overwrite()
            self._publish()
            return
        part = parts[number]

        def then(longer: _native.ArrayHandle, first: int) -> None:
            self._appended.append((part.path, part.axis, first, longer))
            if number + 1 < len(parts):
                # On a server, the writer of earlier rows of this array goes first with all arrays.
                end = time.monotonic() + self._wait
                while self._group._has_unpublished(part.path, part.axis, first):
                    self._pause(part.path, end)
            self._append_from(parts, number + 1)

        values = part.values
        try:
            part.array._append(values, list(values.shape), part.axis, then)
        except BaseException as error:
            if not self._published:
                raise
            # Readers see the rows. The arrays outside of this one must keep theirs.
            self._late.append(error)

    def _overwrite(self) -> None:
        for path, selection, value in self._writes:
            array: Any = self._group[path]
            array[selection] = value

    def _publish(self) -> None:
        """Replace the consolidated metadata, if there is any."""
        if not self._appended:
            return
        end = time.monotonic() + self._wait
        while True:
            waits = self._group._publish(self._appended)
            if not waits:
                self._published = waits is not None
                return
            self._pause(waits, end)

    def _pause(self, path: str, end: float) -> None:
        """Wait a moment for another writer, which has appended to the array at a path before us."""
        if time.monotonic() > end:
            raise TimeoutError(
                f"rows before those of this block have been appended to '{path}', and consolidated "
                f"metadata does not show them after {self._wait:g} s: their writer is still at work or "
                "was killed, or appended without a transaction. To show them, call consolidate_metadata"
            )
        time.sleep(_PAUSE)

    def _commit_file(self, parts: list[_Part]) -> None:
        """Append in an HDF5 file, and flush it once."""
        undo: list[Callable[[], object]] = []
        try:
            for part in parts:
                undo.append(functools.partial(part.array.resize, part.array.shape))
                values = part.values
                part.array._append(values, list(values.shape), part.axis)
            self._overwrite()
        except BaseException:
            for step in reversed(undo):
                step()
            raise
        for part in parts[-1:]:
            part.array.flush()


def transaction(group: Any, *, wait: float = 60.0) -> Transaction:
    """Append to several arrays so that readers see all of the rows or none.

    Changes in the block are kept until it ends. Then the rows of all arrays are stored, and one document
    is replaced last: the consolidated metadata of the group. Readers that use it see all arrays with
    their new rows, or none. After an error in the block, an error while the rows are stored, Ctrl-C or
    a kill they see none. Other changes of the same metadata are not lost.

    Readers that do not use consolidated metadata may see that one array is longer and another is not yet.
    Elements that are overwritten are not part of the promise: readers may see them early, and they stay
    after an error.

    Parameters
    ----------
    group : Group
        The group that has the consolidated metadata, see `hyperslab.consolidate_metadata`. Without
        consolidated metadata the arrays get longer one after the other, after all rows are stored. In an HDF5
        file the block is one flush.
    wait : float, default 60
        Seconds to wait on a server for other blocks whose rows come before these.

    Returns
    -------
    Transaction
        ``t[path].append(data, axis=0)`` and ``t[path][selection] = value``. The data must stay as they are
        until the block ends.

    Raises
    ------
    TimeoutError
        On a server: others have appended rows before these and not published them. Nothing is changed.

    Examples
    --------
    >>> g = hs.create_group(hs.MemoryStore())
    >>> time, sst = g.create_array("time", data=[0, 1]), g.create_array("sst", data=np.zeros((2, 3)))
    >>> g = hs.consolidate_metadata(g.store)
    >>> with hs.transaction(g) as t:
    ...     t["time"].append([2])
    ...     t["sst"].append([[1, 2, 3]])
    >>> reader = hs.open_consolidated(g.store)
    >>> reader["time"].shape, reader["sst"].shape
    ((3,), (3, 3))
    """
    if not isinstance(group, AnyGroup):
        raise ArgumentTypeError(f"group: expected a group of hyperslab, found {type(group).__name__}")
    group._check_writable()
    return Transaction(group, wait)
