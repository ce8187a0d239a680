"""Warnings."""

from __future__ import annotations

__all__ = ["H5pyDeprecationWarning", "H5pyWarning"]


class H5pyWarning(UserWarning):
    """A warning of h5py's names."""


class H5pyDeprecationWarning(H5pyWarning):
    """A use that h5py advises against."""
