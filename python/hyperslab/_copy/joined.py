"""Many sources of a copy that are joined along a dimension."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any

from hyperslab import _native
from hyperslab._copy.locations import is_remote, location, location_of_node
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create.open import open
from hyperslab.errors import InvalidArgumentError, NodeNotFoundError

__all__ = ["Joined", "join", "locations_of", "places_of", "variable_names"]


class Joined:
    """Joined sources: what a copy needs of a node.

    Files are opened when their elements are needed, and only a few at a time stay open.
    """

    basename = ""
    zarr_format = None

    def __init__(self, handle: _native.ArrayHandle | _native.GroupHandle) -> None:
        self._handle = handle

    def __getitem__(self, path: str) -> Joined:
        assert isinstance(self._handle, _native.GroupHandle)
        return Joined(_native.GroupBase(self._handle)._child(path))


def places_of(source: Any, sort: bool = False) -> list[Any]:
    """Return the sources to join: the items of a list, or the paths that match a pattern, sorted."""
    if isinstance(source, (Array, Group)):
        return [source]
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if isinstance(text, str) and glob.has_magic(text) and not os.path.lexists(text):
            if "://" in text:
                raise InvalidArgumentError(
                    f"concat: {text!r} is a pattern of a URL; give the list of the URLs"
                )
            found = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
            if not found:
                raise NodeNotFoundError(f"no file or directory matches {text!r}")
            return list(found)
        return [source]
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        return list(source)
    return [source]


def locations_of(places: list[Any]) -> list[Any]:
    """Return the sources as other processes find them."""
    return [
        location_of_node(place) if isinstance(place, (Array, Group)) else location(place) for place in places
    ]


def join(
    places: list[Any],
    dimension: str,
    sort: bool,
    variables: list[str] | None,
    storage_options: Mapping[str, Any] | None,
    threads: int | None = None,
) -> Joined:
    """Join sources along a dimension."""
    if not places:
        raise InvalidArgumentError("concat: there is no source")
    from hyperslab._stores.remote import flat_options

    options = flat_options(storage_options)

    def one(place: Any) -> Any:
        if isinstance(place, (Array, Group)):
            return place._handle
        if isinstance(place, (str, os.PathLike)):
            text = os.fspath(place)
            return text, options if is_remote(text) else []
        return open(place, mode="r")._handle

    sources = [one(place) for place in places]
    return Joined(_native.joined(sources, dimension, sort, variables, threads))


def variable_names(variables: Iterable[str] | None) -> list[str] | None:
    """Return the names of variables to copy."""
    if variables is None:
        return None
    if isinstance(variables, str):
        raise InvalidArgumentError(f"variables: expected a list of names, found {variables!r}")
    found = [str(name) for name in variables]
    if not found:
        raise InvalidArgumentError("variables: the list is empty; leave it out to copy all")
    return found
