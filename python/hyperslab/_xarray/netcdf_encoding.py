"""Encodings of xarray's variables, as keywords for variables of NetCDF-4 files.

Names and defaults come from xarray's engine "netcdf4". Names of "h5netcdf" work, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
from xarray import Variable
from xarray.backends.netCDF4_ import _extract_nc4_variable_encoding
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._xarray.files import BLOSC, COMPRESSORS
from hyperslab.errors import InvalidArgumentError, UnsupportedError

__all__ = ["Storage", "storage_of"]

# netCDF4-python's default.
_LEVEL = 4
_BLOSC_SHUFFLE = 1
_QUANTIZERS = ("BitGroom", "BitRound")
# netCDF-C's attributes that say how numbers were rounded.
_QUANTIZED = {
    "BitGroom": "_QuantizeBitGroomNumberOfSignificantDigits",
    "BitRound": "_QuantizeBitRoundNumberOfSignificantBits",
}


class Storage:
    """How a new variable is stored."""

    def __init__(self) -> None:
        self.keywords: dict[str, Any] = {}
        """Arguments of `create_variable`."""
        self.attributes: dict[str, Any] = {}
        """Attributes that describe how numbers were rounded."""
        self.rounding: partial[Any] | None = None
        """Rounds numbers before they are written."""

    def rounded(self, data: Any) -> Any:
        """Return the values to write."""
        if self.rounding is None:
            return data
        if is_chunked_array(data):
            return data.map_blocks(self.rounding, dtype=data.dtype, meta=data._meta)
        return self.rounding(np.asarray(data))


def storage_of(
    variable: Variable, check: bool, unlimited_dims: Collection[Any] | None, fill: Any = None
) -> Storage:
    """Return how a variable is stored, by its encoding.

    ``check``: whether to raise a `ValueError` for encodings that do not exist. ``fill``: the value of
    missing elements, which is never rounded.
    """
    given = dict(variable.encoding)
    encoding: dict[str, Any] = _extract_nc4_variable_encoding(
        variable,
        raise_on_invalid=check,
        lsd_okay=True,
        h5py_okay=True,
        backend="hyperslab",
        unlimited_dims=unlimited_dims,
    )
    made = Storage()
    # netCDF-C has no chunks and no filters of scalars.
    if variable.ndim:
        made.keywords = _filters(encoding, given, check)
        chunks = encoding.get("chunksizes")
        if chunks is not None:
            made.keywords["chunks"] = tuple(int(n) for n in chunks)
    _set_rounding(made, encoding, variable.dtype, fill)
    return made


def _filters(encoding: Mapping[str, Any], given: Mapping[str, Any], check: bool) -> dict[str, Any]:
    kind, options = encoding.get("compression"), encoding.get("compression_opts")
    level = encoding.get("complevel")
    if check and given.get("zlib") and given.get("compression") not in (None, "gzip", "zlib"):
        raise InvalidArgumentError("'zlib' and 'compression' encodings mismatch")
    if check and None not in (level, options) and level != options:
        raise InvalidArgumentError("'complevel' and 'compression_opts' encodings mismatch")
    found: dict[str, Any] = {}
    # Only deflate is shuffled by default, as in netCDF4-python.
    shuffle = encoding.get("shuffle", kind == "zlib")
    if kind == "blosc" and isinstance(blosc := given.get("blosc"), Mapping):
        # As xarray's engines read it.
        kind = blosc.get("compressor", "blosc_lz")
        encoding = {"blosc_shuffle": blosc.get("shuffle", _BLOSC_SHUFFLE), **encoding}
    if kind in ("zlib", "gzip"):
        found = {"compression": "gzip", "compression_opts": _first(options, level, _LEVEL)}
    elif kind == "szip":
        szip = given.get("szip")
        szip = szip if isinstance(szip, Mapping) else {}
        coding = _first(encoding.get("szip_coding"), szip.get("coding"), "nn")
        pixels = _first(encoding.get("szip_pixels_per_block"), szip.get("pixels_per_block"), 8)
        found = {"compression": "szip", "compression_opts": options or (coding, pixels)}
    elif kind in ("zstd", "bzip2"):
        level = _first(options, level, _LEVEL)
        found = {"compression": COMPRESSORS[kind], "compression_opts": (int(level),)}
    elif kind in BLOSC:
        parameters = (
            0,
            0,
            0,
            0,
            int(_first(level, _LEVEL)),
            int(_first(encoding.get("blosc_shuffle"), _BLOSC_SHUFFLE)),
            BLOSC.index(kind),
        )
        found = {"compression": COMPRESSORS["blosc"], "compression_opts": parameters}
    elif kind is not None:
        found = {"compression": kind}
        if options is not None:
            found["compression_opts"] = options
    for name, value in (("shuffle", shuffle), ("fletcher32", encoding.get("fletcher32"))):
        if value:
            found[name] = True
    return found


def _first(*values: Any) -> Any:
    """Return the first value that is given."""
    return next((value for value in values if value is not None), None)


# ---- rounded numbers


def _set_rounding(made: Storage, encoding: Mapping[str, Any], dtype: np.dtype[Any], fill: Any) -> None:
    digits = encoding.get("least_significant_digit")
    significant = encoding.get("significant_digits")
    if dtype.kind != "f":
        return
    if digits is not None:
        made.rounding = partial(_round_to_digit, digit=int(digits))
        made.attributes["least_significant_digit"] = digits
    if significant is not None:
        mode = encoding.get("quantize_mode") or "BitGroom"
        if mode not in _QUANTIZERS:
            raise UnsupportedError(
                f"quantize_mode: expected one of {', '.join(_QUANTIZERS)}, found {mode!r}: choose one of them"
            )
        made.rounding = partial(_quantized, digits=int(significant), mode=mode, fill=fill)
        made.attributes[_QUANTIZED[mode]] = np.int32(significant)


def _round_to_digit(values: Any, *, digit: int) -> Any:
    """Round as netCDF4-python does: to the power of two that keeps a decimal digit."""
    values = np.asarray(values)
    bits = np.ceil(np.log2(10.0**digit)) if digit else 0.0
    if digit < 0:
        bits = -np.ceil(np.log2(10.0**-digit))
    scale = 2.0**bits
    return (np.around(scale * values.astype("f8")) / scale).astype(values.dtype)


def _quantized(values: Any, *, digits: int, mode: str, fill: Any) -> Any:
    """Round as netCDF-C does: bits that carry no significant digit become alike.

    BitGroom clears and sets these bits in turn. BitRound rounds to the nearest number.
    """
    values = np.ascontiguousarray(values)
    double = values.dtype.itemsize == 8
    if values.dtype.itemsize not in (4, 8):
        raise UnsupportedError(f"significant_digits: expected float32 or float64, found {values.dtype}")
    most = (15 if double else 7) if mode == "BitGroom" else (52 if double else 23)
    if not 1 <= digits <= most:
        raise InvalidArgumentError(f"significant_digits: expected 1 to {most} with {mode}, found {digits}")
    mantissa = 52 if double else 23
    kept = digits
    if mode == "BitGroom":
        kept = int(np.ceil(digits * np.log(10) / np.log(2))) + 1
    dropped = max(mantissa - kept, 0)
    unsigned = np.uint64 if double else np.uint32
    bits = values.reshape(-1).view(unsigned).copy()
    ones = unsigned((1 << dropped) - 1)
    is_number = np.isfinite(values.reshape(-1))
    if fill is not None:
        is_number &= values.reshape(-1) != fill
    if mode == "BitGroom":
        even = np.arange(bits.size) % 2 == 0
        cleared, filled = bits & ~ones, bits | ones
        made = np.where(even, cleared, np.where(bits != 0, filled, bits))
    else:
        half = ones & ~(ones >> unsigned(1))
        made = (bits + half) & ~ones
    return np.where(is_number, made, bits).astype(unsigned).view(values.dtype).reshape(values.shape)
