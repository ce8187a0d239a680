"""Filters."""

from __future__ import annotations

from hyperslab import _native

__all__ = ["filter_avail", "get_filter_info"]

FILTER_NONE, FILTER_DEFLATE, FILTER_SHUFFLE, FILTER_FLETCHER32, FILTER_SZIP = range(5)
FILTER_NBIT, FILTER_SCALEOFFSET, FILTER_LZF = 5, 6, 32000
FLAG_MANDATORY, FLAG_OPTIONAL = range(2)
FILTER_CONFIG_ENCODE_ENABLED, FILTER_CONFIG_DECODE_ENABLED = 1, 2
SZIP_EC_OPTION_MASK, SZIP_NN_OPTION_MASK = 4, 32
SO_FLOAT_DSCALE, SO_FLOAT_ESCALE, SO_INT = range(3)
SO_INT_MINBITS_DEFAULT = 0


def filter_avail(filter_code: int) -> bool:
    """Return True if chunks can be written with a filter."""
    return _native.encodes_filter(filter_code)


def get_filter_info(filter_code: int) -> int:
    """Return whether a filter encodes (1), decodes (2), or both (3)."""
    if _native.encodes_filter(filter_code):
        return FILTER_CONFIG_ENCODE_ENABLED | FILTER_CONFIG_DECODE_ENABLED
    return FILTER_CONFIG_DECODE_ENABLED
