"""Puts `hyperslab.h5` in place of h5py: `import h5py` then gives `hyperslab.h5`."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import sys
import types
from typing import Any

import hyperslab as hs

DRIVERS = ("sec2", "stdio", "core", "family", "mpio", "fileobj", "split")


def module(name: str, **contents: Any) -> Any:
    """Makes a module of h5py that has these names only."""
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(contents)
    return made


def put_in_place() -> None:
    """Lets `import h5py` give `hyperslab.h5`."""
    ours: Any = hs.h5
    # Here are h5py's tests, and modules without code of HDF5.
    found = importlib.util.find_spec("h5py")
    assert found is not None
    ours.__path__ = found.submodule_search_locations
    sys.modules["h5py"] = ours
    # h5netcdf looks at these names.
    ours.__name__ = "h5py"
    for kind, home in ((ours.File, "files"), (ours.Group, "group"), (ours.Dataset, "dataset")):
        kind.__module__ = f"h5py._hl.{home}"
    ours.Datatype.__module__ = "h5py._hl.datatype"
    for name in ("h5", "h5a", "h5d", "h5ds", "h5f", "h5g", "h5i", "h5o", "h5p", "h5r", "h5s", "h5t", "h5z"):
        sys.modules[f"h5py.{name}"] = getattr(ours, name)
    sys.modules["h5py.version"] = ours.version
    # What the tests import from h5py's private modules. `phil` is the lock around the library.
    module("h5py._objects", phil=contextlib.nullcontext())
    ours._hl = module("h5py._hl", __path__=[])
    ours._hl.dataset = module("h5py._hl.dataset", _LEGACY_GZIP_COMPRESSION_VALS=range(10))
    module(
        "h5py._hl.base",
        Empty=ours.Empty,
        is_hdf5=ours.is_hdf5,
        is_empty_dataspace=lambda low: low.get_space().shape is None,
        product=math.prod,
    )
    module("h5py._hl.files", direct_vfd=False, _drivers=dict.fromkeys(DRIVERS))
    module("h5py._hl.compat", filename_encode=os.fsencode)
    module("h5py._hl.vds", vds_support=True)
    sys.modules["h5py.h5py_warnings"] = ours.h5py_warnings
    sys.modules["h5py.filters"] = ours.filters
    module("h5py._selector", Selector=None)
    ours.get_config()._r_name, ours.get_config()._i_name = b"r", b"i"
    # Other parts of h5py that only its tests use.
    ours.Dataset._fast_reader = property(Reading)
    ours.SoftLink._path = ours.ExternalLink._path = property(lambda link: link.path)
    ours.ExternalLink._filename = property(lambda link: link.filename)


class Reading:
    """h5py's shortcut for reading."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def read(self, parts: Any) -> Any:
        return self.array[parts]
