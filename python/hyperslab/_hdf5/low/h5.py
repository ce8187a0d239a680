"""The library."""

from __future__ import annotations

from hyperslab._hdf5.defaults import H5PYConfig, get_config

__all__ = ["H5PYConfig", "get_config", "get_libversion"]

INDEX_NAME, INDEX_CRT_ORDER = range(2)
ITER_INC, ITER_DEC, ITER_NATIVE = range(3)


def get_libversion() -> tuple[int, int, int]:
    """Return the version of HDF5 whose behaviour is followed."""
    return (2, 0, 0)
