"""Property lists."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hyperslab._hdf5.names import text_of
from hyperslab.errors import InvalidArgumentError, UnsupportedError

__all__ = ["PropDCID", "PropID", "create"]

CRT_ORDER_TRACKED, CRT_ORDER_INDEXED = 1, 2
DEFAULT = None
_CLASSES = (
    "FILE_CREATE",
    "FILE_ACCESS",
    "DATASET_CREATE",
    "DATASET_ACCESS",
    "DATASET_XFER",
    "GROUP_CREATE",
    "LINK_CREATE",
    "LINK_ACCESS",
    "OBJECT_COPY",
    "OBJECT_CREATE",
    "ATTRIBUTE_CREATE",
)
(
    FILE_CREATE,
    FILE_ACCESS,
    DATASET_CREATE,
    DATASET_ACCESS,
    DATASET_XFER,
    GROUP_CREATE,
    LINK_CREATE,
    LINK_ACCESS,
    OBJECT_COPY,
    OBJECT_CREATE,
    ATTRIBUTE_CREATE,
) = _CLASSES

_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL = range(4)


class PropID:
    """A property list that keeps what is set: ``set_x(value)``, ``get_x()``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._values: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        prefix, _, key = name.partition("_")
        if prefix == "set" and key:

            def put(*values: Any, **named: Any) -> None:
                found = (*values, *named.values())
                self._values[key] = found[0] if len(found) == 1 else found

            return put
        if prefix == "get" and key:
            return lambda: self._values.get(key)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def copy(self) -> PropID:
        """Return a copy."""
        made = PropID(self.kind)
        made._values = dict(self._values)
        return made

    def close(self) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} {self._values}>"


class PropDCID(PropID):
    """The properties of a new dataset."""

    def __init__(self, kind: str = DATASET_CREATE) -> None:
        super().__init__(kind)
        # Number, whether a chunk may be stored without it, and parameters (`None`: by the dataset).
        self._filters: list[tuple[int, bool, tuple[int, ...] | None]] = []
        # The parts of a virtual dataset.
        self._sources: list[Any] = []

    def copy(self) -> PropDCID:
        """Return a copy."""
        made = PropDCID(self.kind)
        made._values, made._filters = dict(self._values), list(self._filters)
        made._sources = list(self._sources)
        return made

    def set_chunk(self, chunksize: Any) -> None:
        """Set the shape of chunks."""
        chunk = tuple(int(n) for n in chunksize)
        if any(n < 1 for n in chunk):
            raise InvalidArgumentError("All chunk dimensions must be positive")
        self._values["chunk"], self._values["layout"] = chunk, _CHUNKED

    def get_chunk(self) -> tuple[int, ...]:
        """Return the shape of chunks."""
        found: tuple[int, ...] | None = self._values.get("chunk")
        if found is None:
            raise InvalidArgumentError("Not a chunked storage layout")
        return found

    def get_layout(self) -> int:
        """Return 0 for compact, 1 for contiguous, 2 for chunked."""
        found: int = self._values.get("layout", _CONTIGUOUS)
        return found

    def set_filter(self, filter_code: int, flags: int = 0, values: Any = ()) -> None:
        """Add a filter by its number."""
        self._filters.append((int(filter_code), bool(flags), tuple(values or ())))

    def set_deflate(self, level: int = 5) -> None:
        """Add gzip."""
        self._filters.append((1, True, (int(level),)))

    def set_shuffle(self) -> None:
        """Add shuffling of bytes."""
        self._filters.append((2, True, None))

    def set_fletcher32(self) -> None:
        """Add checksums."""
        self._filters.append((3, False, ()))

    def get_nfilters(self) -> int:
        """Return the number of filters."""
        return len(self._filters)

    def get_filter(self, index: int) -> tuple[int, int, tuple[int, ...], bytes]:
        """Return number, flags, parameters and name of a filter."""
        from hyperslab import _native

        number, optional, parameters = self._filters[index]
        return number, int(optional), parameters or (), (_native.filter_name(number) or "").encode()

    def set_fill_value(self, value: Any) -> None:
        """Set the fill value."""
        self._values["fill_value"] = value

    def set_external(self, *_: Any) -> None:
        """Fail: elements in other files are not written."""
        raise UnsupportedError("set_external: elements in other files are read, but not written")

    def set_virtual(self, vspace: Any, src_file: bytes, src_dset: bytes, src_space: Any) -> None:
        """Add a part of another dataset. `h5d.create` then makes a virtual dataset."""
        from hyperslab._hdf5.virtual import selection_of

        files = os.fsdecode(src_file), text_of(src_dset)
        self._sources.append((selection_of(vspace), *files, selection_of(src_space)))

    def _over(self, chunks: Any, fillvalue: Any, fill_time: Any) -> tuple[Any, Any, Any, str]:
        """Return chunks, fill value, fill time and layout. Arguments of h5py come first."""
        chunks = self._values.get("chunk") if chunks is None else chunks
        fillvalue = self._values.get("fill_value") if fillvalue is None else fillvalue
        if fill_time is None:
            fill_time = {0: "alloc", 1: "never", 2: "ifset"}.get(self._values.get("fill_time", 2))
        return chunks, fillvalue, fill_time, "compact" if self.get_layout() == _COMPACT else "contiguous"

    def _filters_for(
        self, dtype: np.dtype[Any], size: int, chunk: tuple[int, ...] | None
    ) -> list[tuple[int, bool, tuple[int, ...]]]:
        """Return the filters with their parameters for a dataset."""
        from hyperslab._hdf5.new_filters import completed

        if self._filters and chunk is None:
            raise InvalidArgumentError("filters need chunks: set_chunk")
        return [
            (number, optional, completed(number, parameters or (), dtype, size, chunk or ()))
            for number, optional, parameters in self._filters
        ]


def create(cls: str) -> Any:
    """Return a new property list of a class, such as ``DATASET_CREATE``."""
    return PropDCID() if cls == DATASET_CREATE else PropID(cls)
