"""h5py's names: programs for h5py can import ``hyperslab.h5`` instead.

>>> import hyperslab.h5 as h5py
>>> h5py.check_string_dtype(h5py.string_dtype("ascii", 3))
StringInfo(encoding='ascii', length=3)
"""

from hyperslab._elements.hdf5_types import Empty
from hyperslab._hdf5.array import FileArray as Dataset
from hyperslab._hdf5.attrs import FileAttributes as AttributeManager
from hyperslab._hdf5.defaults import get_config
from hyperslab._hdf5.dtypes import (
    check_complex_dtype,
    check_dtype,
    check_enum_dtype,
    check_opaque_dtype,
    check_ref_dtype,
    check_string_dtype,
    check_vlen_dtype,
    complex_compat_dtype,
    enum_dtype,
    opaque_dtype,
    ref_dtype,
    regionref_dtype,
    special_dtype,
    string_dtype,
    vlen_dtype,
)
from hyperslab._hdf5.file import File, is_hdf5
from hyperslab._hdf5.group import Datatype
from hyperslab._hdf5.group import FileGroup as Group
from hyperslab._hdf5.links import ExternalLink, HardLink, SoftLink
from hyperslab._hdf5.low import (
    filters,
    h5,
    h5a,
    h5d,
    h5ds,
    h5f,
    h5g,
    h5i,
    h5o,
    h5p,
    h5py_warnings,
    h5r,
    h5s,
    h5t,
    h5z,
    version,
)
from hyperslab._hdf5.new_filters import FilterRefBase, Gzip
from hyperslab._hdf5.node import FileNode as HLObject
from hyperslab._hdf5.register import register
from hyperslab._hdf5.selections import MultiBlockSlice
from hyperslab._hdf5.virtual import VirtualLayout, VirtualSource
from hyperslab._native import Reference, RegionReference

UNLIMITED = 2**64 - 1
__version__ = version.version

__all__ = [
    "UNLIMITED",
    "AttributeManager",
    "Dataset",
    "Datatype",
    "Empty",
    "ExternalLink",
    "File",
    "FilterRefBase",
    "Group",
    "Gzip",
    "HLObject",
    "HardLink",
    "MultiBlockSlice",
    "Reference",
    "RegionReference",
    "SoftLink",
    "VirtualLayout",
    "VirtualSource",
    "check_complex_dtype",
    "check_dtype",
    "check_enum_dtype",
    "check_opaque_dtype",
    "check_ref_dtype",
    "check_string_dtype",
    "check_vlen_dtype",
    "complex_compat_dtype",
    "enum_dtype",
    "filters",
    "get_config",
    "h5",
    "h5a",
    "h5d",
    "h5ds",
    "h5f",
    "h5g",
    "h5i",
    "h5o",
    "h5p",
    "h5py_warnings",
    "h5r",
    "h5s",
    "h5t",
    "h5z",
    "is_hdf5",
    "opaque_dtype",
    "ref_dtype",
    "regionref_dtype",
    "register",
    "special_dtype",
    "string_dtype",
    "version",
    "vlen_dtype",
]


def __dir__() -> list[str]:
    return sorted(__all__)
