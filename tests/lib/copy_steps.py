"""Intervenes in planned copies: calls a function right before a step of a run in this process.

Steps: plan, planned (the journal was read), begin, take_over, delete, part, record, finish, move, moved,
remove_journal, finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hyperslab import _native

__all__ = ["once"]


@contextmanager
def once(step: str, other: Callable[[], object]) -> Iterator[None]:
    """Calls `other` before the first such step. Steps of the runs that it makes itself are not told."""
    pending = True

    def hook(name: str) -> None:
        nonlocal pending
        if name == step and pending:
            pending = False
            _native.on_copy_step(None)
            other()

    _native.on_copy_step(hook)
    try:
        yield
    finally:
        _native.on_copy_step(None)
    assert not pending, f"there was no step {step!r}"
