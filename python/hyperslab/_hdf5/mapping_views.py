"""Mapping views for groups and attributes of HDF5 files."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, cast

__all__ = ["Items", "Keys", "Values"]


class Keys(KeysView[str]):
    """The names of a mapping. Printing the view lists them."""

    _mapping: Any

    def __reversed__(self) -> Iterator[str]:
        names: Iterator[str] = reversed(self._mapping)
        return names

    def __repr__(self) -> str:
        return f"<KeysViewHDF5 {list(self)}>"


class Values(ValuesView[Any]):
    """The values of a mapping, as `get` returns them."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        return (found for _, found in self._mapping._each())

    def __reversed__(self) -> Iterator[Any]:
        return (self._mapping.get(name) for name in reversed(self._mapping))

    def __contains__(self, value: object) -> bool:
        return any(found is value or found == value for found in self)


class Items(ItemsView[str, Any]):
    """Pairs of name and value, as `get` returns them."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self._mapping._each())

    def __reversed__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self._mapping.get(name)) for name in reversed(self._mapping))

    def __contains__(self, item: object) -> bool:
        name, value = cast("tuple[Any, Any]", item)
        return name in self._mapping and bool(self._mapping.get(name) == value)
