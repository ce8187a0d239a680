"""Filters of chunks: which can be read (`decode`) and written (`encode`)."""

from __future__ import annotations

from hyperslab._hdf5.new_filters import FilterRefBase, Gzip
from hyperslab._native import encodes_filter

__all__ = ["FilterRefBase", "Gzip", "decode", "encode"]

_NUMBERS = {"gzip": 1, "szip": 4, "lzf": 32000, "shuffle": 2, "fletcher32": 3, "scaleoffset": 6}

DEFAULT_GZIP = 4
DEFAULT_SZIP = ("nn", 8)

decode = tuple(_NUMBERS)
"""Names of filters that can be read."""
encode = tuple(name for name, number in _NUMBERS.items() if encodes_filter(number))
"""Names of filters that can be written."""
