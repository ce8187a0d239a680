"""Information for bug reports."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from hyperslab._native import __version__

__all__ = ["print_debug_info"]

# Packages whose objects are used with hyperslab's.
_PACKAGES = ("numpy", "ml_dtypes", "numcodecs", "zarr", "h5py", "dask", "xarray", "pyarrow")


def print_debug_info() -> None:
    """Print all versions that matter in a bug report."""
    print(f"platform: {platform.platform()}")
    print(f"python: {platform.python_version()}")
    print(f"hyperslab: {__version__}")
    for package in _PACKAGES:
        try:
            print(f"{package}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package}: not installed")
