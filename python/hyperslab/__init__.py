"""Chunked N-dimensional arrays at the speed of the disk and the codec: Zarr v2 and v3, HDF5.

Names and meanings follow zarr-python 3.

>>> import hyperslab as hs
>>> z = hs.create_array(hs.MemoryStore(), shape=(100, 200), chunks=(10, 100), dtype="f4")
>>> z[20:30, ::2] = 1.5
>>> float(z[:].sum())
1500.0
"""

import atexit as _atexit
import importlib as _importlib
import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from hyperslab import _start as _start  # isort: split

from hyperslab import _native as _native
from hyperslab import codecs, errors
from hyperslab._base.config import Config, config
from hyperslab._core.array import Array
from hyperslab._core.attrs import Attributes
from hyperslab._core.cache import Cache, CacheLike
from hyperslab._core.group import Group
from hyperslab._core.unreadable import UnreadableArray, UnreadableNodeWarning
from hyperslab._create.new import create_array, create_group, from_array
from hyperslab._create.open import (
    consolidate_metadata,
    group,
    open,
    open_array,
    open_consolidated,
    open_group,
)
from hyperslab._elements.hdf5_types import Empty
from hyperslab._elements.optional import optional_dtype
from hyperslab._elements.ragged import Ragged
from hyperslab._elements.vlen import vlen_dtype
from hyperslab._index.explain import Explain, ExplainTask
from hyperslab._index.view import View
from hyperslab._native import Reference, RegionReference, Stream, Writer, __version__
from hyperslab._stores.store import FileStore, LocalStore, MemoryStore, Store, StoreLike
from hyperslab.errors import HyperslabError

if _TYPE_CHECKING:
    from hyperslab import h5, storage, testing
    from hyperslab._aio.nodes import AsyncArray, AsyncGroup, open_async
    from hyperslab._base.debug import print_debug_info
    from hyperslab._compute.content_hash import ContentHash, content_hash
    from hyperslab._compute.diff import (
        ArrayDifference,
        Difference,
        ElementDifference,
        MetadataDifference,
        diff,
    )
    from hyperslab._compute.map import BlockInfo, map_chunks
    from hyperslab._compute.pyramid import pyramid
    from hyperslab._compute.repair import RepairAction, RepairLoss, RepairPlan, repair, undo_repair
    from hyperslab._compute.statistics import Statistics, statistics
    from hyperslab._compute.validate import (
        Finding,
        MissingChunks,
        ValidationCost,
        ValidationReport,
        validate,
        validation_cost,
    )
    from hyperslab._compute.validation_plan import ValidationPart, ValidationPlan, plan_validation
    from hyperslab._compute.view import Viewer, view
    from hyperslab._copy.copy import CopyReport, copy
    from hyperslab._copy.plan import CopyPlan, CopyPrices
    from hyperslab._copy.planning import plan_copy
    from hyperslab._copy.run import CopyRun
    from hyperslab._copy.together import copy_all, copy_store
    from hyperslab._core.transaction import Transaction, transaction
    from hyperslab._create.advise import AccessCost, Advice, AdvisedLayout, advise
    from hyperslab._create.convenience import (
        array,
        create,
        empty,
        full,
        load,
        ones,
        save,
        save_array,
        save_group,
        zeros,
    )
    from hyperslab._create.hierarchy import create_hierarchy, tree
    from hyperslab._create.new_like import empty_like, full_like, ones_like, open_like, zeros_like
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.attrs import FileAttributes
    from hyperslab._hdf5.compact import CompactReport, compact
    from hyperslab._hdf5.file import File
    from hyperslab._hdf5.group import Datatype, FileGroup
    from hyperslab._hdf5.links import ExternalLink, HardLink, SoftLink
    from hyperslab._index.cf import CF
    from hyperslab._serve.server import Server, serve

# Names that are imported on first access, by module. Importing all of them here would take three
# times as long. Type checkers see the names above.
_LAZY = {
    "h5": ("h5",),
    "storage": ("storage",),
    "testing": ("testing",),
    "_aio.nodes": ("AsyncArray", "AsyncGroup", "open_async"),
    "_base.debug": ("print_debug_info",),
    "_compute.diff": (
        "ArrayDifference",
        "Difference",
        "ElementDifference",
        "MetadataDifference",
        "diff",
    ),
    "_compute.content_hash": ("ContentHash", "content_hash"),
    "_compute.map": ("BlockInfo", "map_chunks"),
    "_compute.pyramid": ("pyramid",),
    "_compute.repair": ("RepairAction", "RepairLoss", "RepairPlan", "repair", "undo_repair"),
    "_compute.statistics": ("Statistics", "statistics"),
    "_compute.validate": (
        "Finding",
        "MissingChunks",
        "ValidationCost",
        "ValidationReport",
        "validate",
        "validation_cost",
    ),
    "_compute.validation_plan": ("ValidationPart", "ValidationPlan", "plan_validation"),
    "_compute.view": ("Viewer", "view"),
    "_copy.copy": ("CopyReport", "copy"),
    "_copy.plan": ("CopyPlan", "CopyPrices"),
    "_copy.planning": ("plan_copy",),
    "_copy.run": ("CopyRun",),
    "_copy.together": ("copy_all", "copy_store"),
    "_core.transaction": ("Transaction", "transaction"),
    "_create.advise": ("AccessCost", "Advice", "AdvisedLayout", "advise"),
    "_create.convenience": (
        "array",
        "create",
        "empty",
        "full",
        "load",
        "ones",
        "save",
        "save_array",
        "save_group",
        "zeros",
    ),
    "_create.hierarchy": ("create_hierarchy", "tree"),
    "_create.new_like": ("empty_like", "full_like", "ones_like", "open_like", "zeros_like"),
    "_hdf5.array": ("FileArray",),
    "_hdf5.attrs": ("FileAttributes",),
    "_hdf5.compact": ("CompactReport", "compact"),
    "_hdf5.file": ("File",),
    "_hdf5.group": ("Datatype", "FileGroup"),
    "_hdf5.links": ("ExternalLink", "HardLink", "SoftLink"),
    "_index.cf": ("CF",),
    "_serve.server": ("Server", "serve"),
}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names}
# Late modules that these do not load, but methods do.
_LATER = ("_base.awaiting", "_codecs.numcodecs", "_display.html", "_display.tree")


def _load_before_fork() -> None:
    """Load the late modules if other threads may be loading them.

    A child that is forked in the middle of an import would wait forever for the lock of the module.
    """
    if len(_sys._current_frames()) > 1:
        for module in (*_LAZY, *_LATER):
            _importlib.import_module(f"{__name__}.{module}")


_os.register_at_fork(before=_load_before_fork)

# Background threads store what a dropped writer still held, and they end with the process. Finish
# the writers first: they may write into archives. `atexit` runs the last registered function first.
_atexit.register(_native.finish_archives)
_atexit.register(_native.finish_writers)

__all__ = [
    "CF",
    "AccessCost",
    "Advice",
    "AdvisedLayout",
    "Array",
    "ArrayDifference",
    "AsyncArray",
    "AsyncGroup",
    "Attributes",
    "BlockInfo",
    "Cache",
    "CacheLike",
    "CompactReport",
    "Config",
    "ContentHash",
    "CopyPlan",
    "CopyPrices",
    "CopyReport",
    "CopyRun",
    "Datatype",
    "Difference",
    "ElementDifference",
    "Empty",
    "Explain",
    "ExplainTask",
    "ExternalLink",
    "File",
    "FileArray",
    "FileAttributes",
    "FileGroup",
    "FileStore",
    "Finding",
    "Group",
    "HardLink",
    "HyperslabError",
    "LocalStore",
    "MemoryStore",
    "MetadataDifference",
    "MissingChunks",
    "Ragged",
    "Reference",
    "RegionReference",
    "RepairAction",
    "RepairLoss",
    "RepairPlan",
    "Server",
    "SoftLink",
    "Statistics",
    "Store",
    "StoreLike",
    "Stream",
    "Transaction",
    "UnreadableArray",
    "UnreadableNodeWarning",
    "ValidationCost",
    "ValidationPart",
    "ValidationPlan",
    "ValidationReport",
    "View",
    "Viewer",
    "Writer",
    "__version__",
    "advise",
    "array",
    "codecs",
    "compact",
    "config",
    "consolidate_metadata",
    "content_hash",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "diff",
    "empty",
    "empty_like",
    "errors",
    "from_array",
    "full",
    "full_like",
    "group",
    "h5",
    "load",
    "map_chunks",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_async",
    "open_consolidated",
    "open_group",
    "open_like",
    "optional_dtype",
    "plan_copy",
    "plan_validation",
    "print_debug_info",
    "pyramid",
    "repair",
    "save",
    "save_array",
    "save_group",
    "serve",
    "statistics",
    "storage",
    "testing",
    "transaction",
    "tree",
    "undo_repair",
    "validate",
    "validation_cost",
    "view",
    "vlen_dtype",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> object:
    """Import a name of `_LAZY` on first access, and keep it."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    found: object = module if _MODULE_OF[name] == name else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the names that users import, without the modules of the package."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
