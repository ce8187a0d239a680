"""HDF5 filters by their h5py names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["filters_by_name", "library_name", "shown_name"]

_NAMES = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 6: "scaleoffset", 32000: "lzf"}


# The HDF5 library's names for its own filters. Newer files leave these names out.
_OF_LIBRARY = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}


def library_name(number: int) -> str:
    """Return the HDF5 library's name for its own filter; empty for other filters."""
    return _OF_LIBRARY.get(number, "")


def shown_name(number: int, stored: str | None) -> str:
    """Return the name of a filter in h5py, otherwise the name in the file, otherwise its number."""
    return _NAMES.get(number) or stored or library_name(number) or f"filter {number}"


def filters_by_name(filters: Iterable[tuple[int, str, Iterable[int]]]) -> dict[str, Any]:
    """Return filters by name (or by number, as text) with their settings.

    The settings are gzip's level, szip's method and pixels per block, or the parameters of other
    filters; ``None`` if a filter has no parameters.
    """
    found: dict[str, Any] = {}
    for number, _, given in filters:
        parameters: Any = tuple(given) or None
        if number == 1 and parameters:
            parameters = parameters[0]
        elif number == 4 and parameters:
            parameters = ("ec" if parameters[0] & 4 else "nn", parameters[1])
        elif number == 32000:
            parameters = None
        found[_NAMES.get(number, str(number))] = parameters
    return found
