"""The versions of h5py and HDF5 whose names and behaviour `hyperslab.h5` follows."""

from __future__ import annotations

__all__ = ["hdf5_version", "hdf5_version_tuple", "info", "version", "version_tuple"]

version = "3.16.0"
version_tuple = (3, 16, 0, "", "", "")
hdf5_version = "2.0.0"
hdf5_version_tuple = (2, 0, 0)
api_version = "1.8"
api_version_tuple = (1, 8)
info = f"hyperslab.h5, with the names of h5py {version} and HDF5 {hdf5_version}"
