"""Filters of HDF5 by the names that h5py has for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["filters_by_name"]

_NAMES = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 6: "scaleoffset", 32000: "lzf"}


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
