"""New virtual datasets: `VirtualLayout` and `VirtualSource`, as in h5py."""

from __future__ import annotations

import copy
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab._hdf5.create import fill_bytes, resolved_type
from hyperslab._hdf5.selections import axes_of
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup
    from hyperslab._hdf5.ids import SpaceID

__all__ = ["VirtualLayout", "VirtualSource", "selection_of"]

_UNLIMITED = 2**64 - 1

# Kind, slabs, number of axes, and coordinates of points or corners of blocks.
_Selection = tuple[str, list[tuple[int, int, int | None, int | None]], int, list[int]]


def _maxshape(given: Any, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    if given is None:
        return shape
    most = (given,) if isinstance(given, int) else tuple(given)
    return tuple(None if n is None or n >= _UNLIMITED else int(n) for n in most)


def _selected(shape: tuple[int, ...], key: Any) -> tuple[_Selection, tuple[int, ...], bool]:
    """Return a selection, the shape of its elements, and whether it has no limit."""
    key = key if isinstance(key, tuple) else (key,)
    axes = axes_of(key, shape)
    found: list[list[tuple[int, int, int | None, int | None]]] = []
    lengths: list[int] = []
    is_free = False
    for part, n, slabs in axes:
        if isinstance(part, slice) and part.stop == _UNLIMITED:
            start, step = part.start or 0, part.step or 1
            found.append([(start, step, None, 1)])
            lengths.append(max(0, -(-(n - start) // step)))
            is_free = True
            continue
        found.append(list(slabs))
        if not np.ndim(part) and not isinstance(part, slice) and not hasattr(part, "indices"):
            continue
        lengths.append(sum(count * block for _, _, count, block in slabs))
    rank = len(shape)
    if any(not axis for axis in found):
        return ("none", [], rank, []), tuple(lengths), False
    if all(len(axis) == 1 for axis in found):
        return ("slabs", [axis[0] for axis in found], rank, []), tuple(lengths), is_free
    if is_free:
        raise InvalidArgumentError("an axis without limit cannot be combined with a list of indices")
    ranges = [
        [
            (start + k * stride, start + k * stride + (block or 0) - 1)
            for start, stride, count, block in axis
            for k in range(count or 0)
        ]
        for axis in found
    ]
    corners: list[int] = []
    for place in np.ndindex(*map(len, ranges)):
        corner = [ranges[axis][at] for axis, at in enumerate(place)]
        corners += [low for low, _ in corner]
        corners += [high for _, high in corner]
    return ("blocks", [], rank, corners), tuple(lengths), False


def selection_of(space: SpaceID) -> _Selection:
    """Return the elements that a low-level extent selects."""
    shape = space.shape or ()
    if space._selection is None:
        return ("all", [], len(shape), [])
    return _selected(shape, space._selection)[0]


class VirtualSource:
    """A dataset, or a part of one, that a virtual dataset is made of.

    Parameters
    ----------
    path_or_dataset : str, os.PathLike or FileArray
        The path of a file; or a dataset, which gives all other parameters.
    name : str, optional
        The path of the dataset in its file.
    shape : int or tuple of int, optional
        The shape of the dataset.
    dtype : data-type, optional
    maxshape : int or tuple of int and None, optional

    Examples
    --------
    >>> import hyperslab as hs
    >>> file = hs.File.in_memory()
    >>> file["a"] = [1, 2, 3]
    >>> layout = hs.h5.VirtualLayout(shape=(2, 3), dtype="i8")
    >>> layout[0] = hs.h5.VirtualSource(file["a"])
    >>> file.create_virtual_dataset("both", layout, fillvalue=-1).virtual_sources()[0].dset_name
    '/a'
    """

    def __init__(
        self,
        path_or_dataset: Any,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        maxshape: Any = None,
    ) -> None:
        if hasattr(path_or_dataset, "maxshape") and hasattr(path_or_dataset, "file"):
            given = {"name": name, "shape": shape, "dtype": dtype, "maxshape": maxshape}
            failed = {key: value for key, value in given.items() if value is not None}
            if failed:
                raise ArgumentTypeError(
                    "If a Dataset is passed as the first argument then no other arguments may be passed. You "
                    f"passed {failed}"
                )
            dataset = path_or_dataset
            self.path: Any = dataset.file.filename
            name, shape, dtype, maxshape = dataset.name, dataset.shape, dataset.dtype, dataset.maxshape
        else:
            self.path = os.fspath(path_or_dataset)
            for key, value in (("name", name), ("shape", shape)):
                if value is None:
                    raise ArgumentTypeError(
                        f"The {key} parameter is required when specifying a source by path"
                    )
        self.name, self.dtype = name, dtype
        self._extent = (shape,) if isinstance(shape, int) else tuple(shape)
        self.maxshape = _maxshape(maxshape, self._extent)
        self._selection: _Selection = ("all", [], len(self._extent), [])
        self._shape, self._is_free, self._is_whole = self._extent, False, True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selected elements."""
        return self._shape

    def __getitem__(self, key: Any) -> VirtualSource:
        if not self._is_whole:
            raise RuntimeError("VirtualSource objects can only be sliced once.")
        part = copy.copy(self)
        part._selection, part._shape, part._is_free = _selected(self._extent, key)
        part._is_whole = False
        return part


class VirtualLayout:
    """The parts of a virtual dataset: ``layout[selection] = source``.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : data-type
    maxshape : int or tuple of int and None, optional
    filename : str, optional
        The file of the virtual dataset. Sources in the same file are stored without its name.
    """

    def __init__(self, shape: Any, dtype: Any, maxshape: Any = None, filename: Any = None) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype
        self.maxshape = (maxshape,) if isinstance(maxshape, int) else maxshape
        self._filename = filename
        self._sources: list[tuple[_Selection, str, str, _Selection]] = []

    def __setitem__(self, key: Any, source: VirtualSource) -> None:
        target, shape, is_free = _selected(self.shape, key)
        if not (is_free or source._is_free) and math.prod(shape) != math.prod(source.shape):
            raise InvalidArgumentError(
                f"the selections have a different number of elements: {shape} in the virtual dataset, "
                f"{source.shape} in the source"
            )
        path = os.fsdecode(source.path)
        self._sources.append((target, path, str(source.name), source._selection))

    def _make(self, group: FileGroup, path: str, fillvalue: Any) -> FileArray:
        """Make the dataset without a name."""
        mine = os.fsdecode(group.file.filename)  # type: ignore[attr-defined]
        if self._filename is not None and os.fsdecode(self._filename) != mine:
            raise InvalidArgumentError(f"the layout is for the file {self._filename!r}, not {mine!r}")
        kind, stored = resolved_type(self.dtype)
        editor = group._editor
        fill = None
        if fillvalue is not None:
            fill = fill_bytes(fillvalue, kind, editor.element(stored), editor.values())
        most = None if self.maxshape is None else list(_maxshape(self.maxshape, self.shape))
        sources = [
            (target, "." if file == mine else file, name, source)
            for target, file, name, source in self._sources
        ]
        address = editor.create_dataset(
            path, stored, self.shape, most, "virtual", None, [], fill, False, False, sources
        )
        made: FileArray = group._node(editor.open(address, path))
        return made
