"""h5py's settings for a process: `get_config`."""

from __future__ import annotations

__all__ = ["get_config"]


class H5PYConfig:
    """Settings for new files, as in h5py."""

    track_order = False
    """True: new groups and datasets keep the order of their links and attributes."""
    default_file_mode = "r"
    """The mode of `File` without an argument: always ``"r"``."""
    complex_names = ("r", "i")
    """Names of the members of complex numbers."""
    bool_names = (b"FALSE", b"TRUE")
    """Names of the values of Booleans."""
    mpi = False
    has_native_complex = True
    swmr_min_hdf5_version = (1, 9, 178)
    vds_min_hdf5_version = (1, 9, 233)

    def __repr__(self) -> str:
        return f"<H5PYConfig track_order={self.track_order}>"


_CONFIG = H5PYConfig()


def get_config() -> H5PYConfig:
    """Return the settings. Assign to their attributes to change them."""
    return _CONFIG
