"""What can go wrong, as exceptions.

Every exception that hyperslab raises on its own account is a :class:`HyperslabError`. Each is also the
built-in exception that people already catch for such a case, and where zarr-python has an exception for it,
has its name. Messages name the array, and where one is concerned, the chunk, its key and the cause.

The classes of ``zarr.errors`` that are never raised here are here for ``except`` and for filters of warnings;
each says so.
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
    """Anything that hyperslab refuses or fails to do."""

    def __new__(cls, *args: Any) -> Self:
        # Classes here have several bases. Whoever makes an exception without its class's call, as
        # dask's workers do (tblib), would find the `__new__` of one that is not safe to use.
        base: Any = cls
        while base.__module__ != "builtins":
            base = base.__base__
        made: Self = base.__new__(cls, *args)
        return made


class BaseZarrError(HyperslabError, ValueError):
    """Base of the errors that have this base in zarr-python."""


class NodeNotFoundError(BaseZarrError, FileNotFoundError):
    """There is no array or group at this path."""


class ArrayNotFoundError(NodeNotFoundError):
    """There is no array at this path."""


class GroupNotFoundError(NodeNotFoundError):
    """There is no group at this path."""


class ContainsArrayError(BaseZarrError, FileExistsError):
    """There is an array at this path where none may be."""


class ContainsGroupError(BaseZarrError, FileExistsError):
    """There is a group at this path where none may be."""


class ContainsArrayAndGroupError(BaseZarrError):
    """Never raised: of a path with documents of both, the array is opened."""


class MetadataValidationError(BaseZarrError):
    """Stored metadata is not valid."""


class NodeTypeValidationError(MetadataValidationError):
    """A group where an array is wanted."""


class UnsupportedError(HyperslabError, NotImplementedError, ValueError):
    """Something valid that hyperslab cannot do. The message names what is missing."""


class NoChunkShapeError(UnsupportedError, AttributeError):
    """``chunks`` or ``shards`` of an array whose chunks or shards have different shapes.

    Also an `AttributeError`: libraries such as dask, which ask whether there is such an attribute, take the
    array as one without.
    """


class UnknownCodecError(UnsupportedError, BaseZarrError):
    """A codec that hyperslab does not have."""


class PickleCodecDisabledError(UnknownCodecError):
    """Chunks hold pickled objects. To read them would run whatever code is in them: they never are."""


class DataTypeValidationError(HyperslabError, ValueError):
    """No element type, or none that hyperslab has: `DataTypeError`."""


class ConversionError(HyperslabError, OSError, TypeError, ValueError):
    """HDF5 does not convert elements of this type to the other."""


class DataTypeError(UnsupportedError, DataTypeValidationError, TypeError):
    """An element type that hyperslab does not have."""


class UnsupportedSelectionError(UnsupportedError, IndexError, TypeError):
    """A way to index that hyperslab does not have."""


class VindexInvalidSelectionError(HyperslabError, IndexError):
    """Neither coordinates for all axes nor a mask of the array's shape."""


class BoundsCheckError(HyperslabError, IndexError, ValueError):
    """An index outside the array, or too many of them."""


class ArrayIndexError(HyperslabError, IndexError):
    """Never raised: see `BoundsCheckError`."""


class NegativeStepError(HyperslabError, IndexError):
    """Never raised: steps may be negative."""


class ArrayShapeError(HyperslabError, ValueError):
    """Values, or memory for a result, that do not fit: another shape, another data type, not writable."""


class InvalidArgumentError(HyperslabError, ValueError):
    """An argument that no array or group can have."""


class NumberRangeError(InvalidArgumentError, OverflowError):
    """A number that the data type has no room for."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of a type that it cannot have, or one with an unknown name."""


class ClosedError(HyperslabError, ValueError):
    """The file was closed. Open it again to read it."""


class ReadOnlyError(HyperslabError, PermissionError, ValueError):
    """A change to something that was opened for reading."""


class BusyError(HyperslabError, RuntimeError):
    """This very thread is in the middle of changing what was to be changed.

    Raised in signal handlers and finalizers, which Python runs in the middle of other work: waiting for that
    work would never end. Let the handler set a flag, and make the change when the operation is over.
    """


class ChunkError(HyperslabError, ValueError):
    """The stored bytes of a chunk are truncated, corrupt, or not what the metadata says."""


class ChunkNotFoundError(BaseZarrError):
    """A chunk is not stored, and ``read_missing_chunks`` is off."""


class DestinationError(HyperslabError, FileExistsError, ValueError):
    """A copy cannot be made there: usually because something is there already."""


class SupersededError(DestinationError):
    """A task or a run of a planned copy came too late: another client has resumed the copy, finished it, or
    given it up. The late one changes nothing more.
    """


class ExternalFileError(HyperslabError, PermissionError, ValueError):
    """A file refers to another one that may not be read: see ``config.external_files``."""


class DamagedFileError(MetadataValidationError, OSError):
    """`hyperslab.File` cannot open a file: it is cut off, or damaged where it begins."""


class UnclosedFileError(HyperslabError, OSError, ValueError):
    """An HDF5 file is open for writing, or its writer was killed."""


class UnknownFormatError(HyperslabError, NotADirectoryError, ValueError):
    """A file is neither HDF5 nor NetCDF."""


class FileInTheWayError(UnknownFormatError, FileExistsError):
    """There is a file where a directory is to be created."""


class VerificationError(HyperslabError, ValueError):
    """A copy holds another value than its source."""


class OutOfMemoryError(HyperslabError, MemoryError):
    """A result or a chunk does not fit into memory."""


class StoreError(HyperslabError, OSError):
    """The operating system refused.

    ``errno`` says why; so does the built-in base where Python has one for it.
    """


class StorePermissionError(StoreError, PermissionError):
    """No permission."""


class StoreExistsError(StoreError, FileExistsError):
    """Something is in the way."""


class StoreNotFoundError(StoreError, FileNotFoundError):
    """Something is missing."""


class StoreNotADirectoryError(StoreError, NotADirectoryError):
    """A file where a directory should be."""


class StoreIsADirectoryError(StoreError, IsADirectoryError):
    """A directory where a file should be."""


class ZarrFutureWarning(FutureWarning):
    """Never raised: base of `UnstableSpecificationWarning`."""


class UnstableSpecificationWarning(ZarrFutureWarning):
    """Never raised: what Zarr does not specify yet is in the documentation."""


class ZarrDeprecationWarning(DeprecationWarning):
    """A name that zarr-python is going to remove."""


class ZarrUserWarning(UserWarning):
    """Something is probably not as the program wants it."""


class ZarrRuntimeWarning(RuntimeWarning):
    """An argument of zarr-python that has no effect."""


def __dir__() -> list[str]:
    return sorted(__all__)
