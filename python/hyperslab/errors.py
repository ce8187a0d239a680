"""The exceptions of hyperslab.

Every exception that hyperslab itself raises is a :class:`HyperslabError`. Each is also the built-in
exception that people already catch for such a case. If zarr-python has an exception for the case,
the name is the same. Messages name the array and, if a chunk is concerned, the chunk, its key and
the cause.

Classes of ``zarr.errors`` that are never raised here exist for ``except`` clauses and filters of
warnings. Their docstrings say so.
"""

from __future__ import annotations

from typing import Any, Self

__all__ = [
    "ArgumentTypeError",
    "ArrayIndexError",
    "ArrayNotFoundError",
    "ArrayShapeError",
    "BaseZarrError",
    "BoundsCheckError",
    "BusyError",
    "ChunkError",
    "ChunkNotFoundError",
    "ClosedError",
    "ContainsArrayAndGroupError",
    "ContainsArrayError",
    "ContainsGroupError",
    "ConversionError",
    "DamagedFileError",
    "DataTypeError",
    "DataTypeValidationError",
    "DestinationError",
    "ExternalFileError",
    "FileInTheWayError",
    "GroupNotFoundError",
    "HyperslabError",
    "InvalidArgumentError",
    "MetadataValidationError",
    "NameExistsError",
    "NegativeStepError",
    "NoChunkShapeError",
    "NodeNotFoundError",
    "NodeTypeValidationError",
    "NumberRangeError",
    "OutOfMemoryError",
    "PickleCodecDisabledError",
    "ReadOnlyError",
    "StoreError",
    "StoreExistsError",
    "StoreIsADirectoryError",
    "StoreLockedError",
    "StoreNotADirectoryError",
    "StoreNotFoundError",
    "StorePermissionError",
    "SupersededError",
    "UnclosedFileError",
    "UnknownCodecError",
    "UnknownFormatError",
    "UnstableSpecificationWarning",
    "UnsupportedError",
    "UnsupportedSelectionError",
    "VerificationError",
    "VindexInvalidSelectionError",
    "ZarrDeprecationWarning",
    "ZarrFutureWarning",
    "ZarrRuntimeWarning",
    "ZarrUserWarning",
]


class HyperslabError(Exception):
    """The base of all errors of hyperslab."""

    def __new__(cls, *args: Any) -> Self:
        # Classes here have several bases. Code that calls `__new__` directly, as dask's workers do
        # (tblib), would find the `__new__` of a base that is not safe to use.
        base: Any = cls
        while base.__module__ != "builtins":
            base = base.__base__
        made: Self = base.__new__(cls, *args)
        return made


class BaseZarrError(HyperslabError, ValueError):
    """The base of errors that have this base in zarr-python."""


class NodeNotFoundError(BaseZarrError, FileNotFoundError):
    """There is no array or group at this path."""


class ArrayNotFoundError(NodeNotFoundError):
    """There is no array at this path."""


class GroupNotFoundError(NodeNotFoundError):
    """There is no group at this path."""


class ContainsArrayError(BaseZarrError, FileExistsError):
    """There is an array at a path where none is allowed."""


class ContainsGroupError(BaseZarrError, FileExistsError):
    """There is a group at a path where none is allowed."""


class ContainsArrayAndGroupError(BaseZarrError):
    """Never raised: if a path has documents of both, the array is opened."""


class MetadataValidationError(BaseZarrError):
    """Stored metadata is not valid."""


class NodeTypeValidationError(MetadataValidationError):
    """There is a group where an array is expected."""


class UnsupportedError(HyperslabError, NotImplementedError, ValueError):
    """Valid input that hyperslab does not support. The message names the missing feature."""


class NoChunkShapeError(UnsupportedError, AttributeError):
    """``chunks`` or ``shards`` of an array whose chunks or shards have different shapes.

    Also an `AttributeError`: libraries such as dask, which check for the attribute, then treat the
    array as having none.
    """


class UnknownCodecError(UnsupportedError, BaseZarrError):
    """A codec that hyperslab does not have."""


class PickleCodecDisabledError(UnknownCodecError):
    """Chunks hold pickled objects. They are never read: unpickling would run the code in them."""


class DataTypeValidationError(HyperslabError, ValueError):
    """A type that is not an element type, or that hyperslab does not support: `DataTypeError`."""


class ConversionError(HyperslabError, OSError, TypeError, ValueError):
    """HDF5 does not convert elements between these types."""


class DataTypeError(UnsupportedError, DataTypeValidationError, TypeError):
    """An element type that hyperslab does not support."""


class UnsupportedSelectionError(UnsupportedError, IndexError, TypeError):
    """A kind of index that hyperslab does not support."""


class VindexInvalidSelectionError(HyperslabError, IndexError):
    """An index that is neither coordinates for all axes nor a mask of the array's shape."""


class BoundsCheckError(HyperslabError, IndexError, ValueError):
    """An index outside the array, or too many indices."""


class ArrayIndexError(HyperslabError, IndexError):
    """Never raised: see `BoundsCheckError`."""


class NegativeStepError(HyperslabError, IndexError):
    """Never raised: steps may be negative."""


class ArrayShapeError(HyperslabError, ValueError):
    """Values or result memory that do not fit: other shape, other data type, or not writable."""


class InvalidArgumentError(HyperslabError, ValueError):
    """An invalid argument."""


class NumberRangeError(InvalidArgumentError, OverflowError):
    """A number that does not fit the data type."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of an invalid type, or one with an unknown name."""


class ClosedError(HyperslabError, ValueError):
    """The file was closed. Open it again to read it."""


class ReadOnlyError(HyperslabError, PermissionError, ValueError):
    """A change to a node that was opened for reading."""


class BusyError(HyperslabError, RuntimeError):
    """The same thread is already in the middle of changing this node.

    Raised in signal handlers and finalizers, which Python runs in the middle of other work: waiting
    for that work would never end. In the handler, set a flag, and make the change after the
    operation.
    """


class ChunkError(HyperslabError, ValueError):
    """The stored bytes of a chunk are truncated, corrupt, or not what the metadata says."""


class ChunkNotFoundError(BaseZarrError):
    """A chunk is not stored, and ``read_missing_chunks`` is off."""


class DestinationError(HyperslabError, FileExistsError, ValueError):
    """A copy cannot be made there, usually because something exists there already."""


class NameExistsError(HyperslabError, FileExistsError, ValueError, RuntimeError):
    """A group of an HDF5 file has an object of this name already."""


class SupersededError(DestinationError):
    """A task or run of a planned copy came too late.

    Another client has resumed the copy, finished it, or given it up. The late one changes nothing
    more.
    """


class ExternalFileError(HyperslabError, PermissionError, ValueError):
    """A file refers to another file that may not be read: see ``config.external_files``."""


class DamagedFileError(MetadataValidationError, OSError):
    """`hyperslab.File` cannot open a file: it is truncated, or its beginning is damaged."""


class UnclosedFileError(HyperslabError, OSError, ValueError):
    """An HDF5 file is open for writing, or its writer was killed."""


class UnknownFormatError(HyperslabError, NotADirectoryError, ValueError):
    """A file is neither HDF5 nor NetCDF."""


class FileInTheWayError(UnknownFormatError, FileExistsError):
    """There is a file where a directory should be created."""


class VerificationError(HyperslabError, ValueError):
    """A copy has a different value than its source."""


class OutOfMemoryError(HyperslabError, MemoryError):
    """A result or a chunk does not fit into memory."""


class StoreError(HyperslabError, OSError):
    """The operating system refused an operation.

    ``errno`` has the reason. If Python has a built-in exception for it, that is a base too.
    """


class StorePermissionError(StoreError, PermissionError):
    """Permission was denied."""


class StoreExistsError(StoreError, FileExistsError):
    """Something exists already."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """Something is missing."""


class StoreNotADirectoryError(StoreError, NotADirectoryError):
    """There is a file where a directory should be."""


class StoreIsADirectoryError(StoreError, IsADirectoryError):
    """There is a directory where a file should be."""


class StoreLockedError(StoreError, BlockingIOError):
    """Another program has a file open for writing."""


class ZarrFutureWarning(FutureWarning):
    """Never raised: base of `UnstableSpecificationWarning`."""


class UnstableSpecificationWarning(ZarrFutureWarning):
    """Never raised: the documentation lists features that Zarr does not specify yet."""


class ZarrDeprecationWarning(DeprecationWarning):
    """A name that zarr-python will remove."""


class ZarrUserWarning(UserWarning):
    """Something is probably not as the program intends."""


class ZarrRuntimeWarning(RuntimeWarning):
    """An argument of zarr-python that has no effect."""


def __dir__() -> list[str]:
    return sorted(__all__)
