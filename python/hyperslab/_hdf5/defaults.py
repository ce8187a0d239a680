"""h5py's settings for a process: `get_config`."""

from __future__ import annotations

from hyperslab.errors import ArgumentTypeError, UnsupportedError

__all__ = ["get_config"]


class H5PYConfig:
    """Settings for new files, as in h5py."""

    track_order = False
    """True: new groups and datasets keep the order of their links and attributes."""
    default_file_mode = "r"
    """The mode of `File` without an argument: always ``"r"``."""
    bool_names = (b"FALSE", b"TRUE")
    """Names of the values of Booleans."""
    mpi = False
    ros3 = True
    direct_vfd = False
    has_native_complex = True
    swmr_min_hdf5_version = (1, 9, 178)
    vds_min_hdf5_version = (1, 9, 233)

    @property
    def complex_names(self) -> tuple[str, str]:
        """Names of the members of complex numbers. Other names are not supported."""
        return ("r", "i")

    @complex_names.setter
    def complex_names(self, names: tuple[str, str]) -> None:
        if len(names) != 2:
            raise ArgumentTypeError(f"complex_names must be a length-2 tuple, found {names!r}")
        if tuple(names) != ("r", "i"):
            raise UnsupportedError(f"complex_names: {names!r} are not supported, only ('r', 'i')")

    def __repr__(self) -> str:
        return f"<H5PYConfig track_order={self.track_order}>"


_CONFIG = H5PYConfig()


def get_config() -> H5PYConfig:
    """Return the settings. Assign to their attributes to change them."""
    return _CONFIG
