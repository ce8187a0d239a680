"""A property that is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """A property that is computed on first access and kept.

    `functools.cached_property` has a lock before Python 3.12. A process that is forked while
    another thread holds the lock would wait for it forever. Without a lock, two threads may both
    compute the property, with the same result.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        found = self._make(instance)
        # From now on, Python finds the instance's own attribute first.
        instance.__dict__[self._name] = found
        return found
