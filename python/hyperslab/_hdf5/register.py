"""Support for programs that check for h5py's classes: `register`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from hyperslab._elements.hdf5_types import Empty
from hyperslab._hdf5.array import FileArray
from hyperslab._hdf5.attrs import FileAttributes
from hyperslab._hdf5.file import File
from hyperslab._hdf5.group import Datatype, FileGroup

__all__ = ["register"]


def register() -> None:
    """Make `isinstance` take our objects for h5py's, in the whole process.

    These are files, groups, datasets, datatypes, attributes and `Empty`. If anndata was imported,
    it can read and write them too. Needs h5py. May be called any number of times: call it again after
    importing anndata.

    Examples
    --------
    >>> import h5py, hyperslab as hs, tempfile
    >>> path = tempfile.mkdtemp() + "/example.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["a"] = [1, 2, 3]
    >>> hs.h5.register()
    >>> isinstance(hs.File(path)["a"], h5py.Dataset)
    True
    """
    h5py: Any = importlib.import_module("h5py")
    # Abstract classes can register ours. For the other classes see `Kin`.
    h5py.Group.register(FileGroup)
    h5py.File.register(File)
    h5py.AttributeManager.register(FileAttributes)
    FileArray._kin = h5py.Dataset
    Datatype._kin = h5py.Datatype
    Empty._kin = h5py.Empty
    registry = sys.modules.get("anndata._io.specs.registry")
    if registry is not None:
        _let_anndata_use(registry)


def _let_anndata_use(registry: ModuleType) -> None:
    """Register anndata's readers and writers for our types: anndata looks them up by exact type."""
    h5py: Any = sys.modules["h5py"]
    kin = {h5py.File: (File,), h5py.Group: (FileGroup, File), h5py.Dataset: (FileArray,)}
    for name in ("_REGISTRY", "_LAZY_REGISTRY"):
        found: Any = getattr(registry, name, None)
        for readers in (getattr(found, "read", {}), getattr(found, "read_partial", {})):
            for (kind, *rest), read in list(readers.items()):
                for ours in kin.get(kind, ()):
                    readers.setdefault((ours, *rest), read)
        writers: dict[Any, Any] = getattr(found, "write", {})
        for (into, what, *rest), write in list(writers.items()):
            for ours in (into, *kin.get(into, ())):
                for values in (what, *(kin.get(what, ()) if isinstance(what, type) else ())):
                    writers.setdefault((ours, values, *rest), write)
