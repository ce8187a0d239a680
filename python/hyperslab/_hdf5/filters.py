"""Filters of HDF5 by the names that h5py has for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["filters_by_name", "library_name", "shown_name"]

_NAMES = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 6: "scaleoffset", 32000: "lzf"}


# Names that the HDF5 library has for its own filters: newer files leave them out.
_OF_LIBRARY = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}


def library_name(number: int) -> str:
    """The name that the HDF5 library has for a filter of its own; empty: it is none of them."""
    return _OF_LIBRARY.get(number, "")


def shown_name(number: int, stored: str | None) -> str:
    """The name of a filter that users of h5py know, else that in the file, else its number."""
    return _NAMES.get(number) or stored or library_name(number) or f"filter {number}"


def filters_by_name(filters: Iterable[tuple[int, str, Iterable[int]]]) -> dict[str, Any]:
    """Names (of others numbers, as text) and settings: gzip's level, szip's method and pixels per block, the
    parameters of others; ``None``: there are none.
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
