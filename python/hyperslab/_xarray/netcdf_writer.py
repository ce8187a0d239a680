"""The values that xarray gives to write, and where they go."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.backends.common import ArrayWriter
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._hdf5.array import FileArray
from hyperslab.errors import ArgumentTypeError

__all__ = ["NetcdfWriter", "Target"]


class Target:
    """A variable of a file, and the part of it to write."""

    def __init__(self, array: FileArray, region: tuple[slice, ...] | None = None) -> None:
        self.array, self.region = array, region

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """Start and end of the part to write, along each axis."""
        shape = self.array.shape
        region = self.region or (slice(None),) * len(shape)
        return tuple(each.indices(n)[:2] for each, n in zip(region, shape, strict=True))


class NetcdfWriter(ArrayWriter):
    """Collects the values to write. xarray uses it as its writer of arrays."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.in_memory: list[tuple[Any, Target]] = []
        self.lazy: list[tuple[Any, Target]] = []

    def add(self, source: Any, target: Any, region: Any = None) -> None:
        """Keep values for `write`."""
        if is_chunked_array(source):
            if type(source).__module__.partition(".")[0] != "dask":
                raise ArgumentTypeError(f"expected chunked arrays of dask, found {type(source)!r}")
            self.lazy.append((source, target))
        else:
            self.in_memory.append((source, target))

    def write(self, load_first: bool) -> None:
        """Write the values that are no blocks of dask.

        ``load_first``: whether to load lazy values before the first write, because they may be read
        from the file that is written.
        """
        if load_first:
            self.in_memory = [(np.asarray(source), target) for source, target in self.in_memory]
        for source, target in self.in_memory:
            values = np.asarray(source)
            # A variable along several unlimited dimensions may be shorter than values without elements.
            if values.size:
                target.array[target.region or ...] = values
