"""Views of arrays in files: as another type, as text, or with only some members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab._elements.hdf5_types import Empty
from hyperslab._elements.ragged import Ragged
from hyperslab._hdf5.convert import converted
from hyperslab._hdf5.values import ragged

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray

__all__ = ["Converted", "Fields", "Text", "View"]


class View:
    """A view that reads an array in another way."""

    def __init__(self, array: FileArray, dtype: np.dtype[Any]) -> None:
        self._array, self.dtype = array, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, selection: Any) -> Any:
        raise NotImplementedError

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("copy=False: memory allocation cannot be avoided on read")
        found = np.asarray(self[...])
        return found if dtype is None else found.astype(dtype, copy=False)


class Converted(View):
    def __getitem__(self, selection: Any) -> Any:
        if self.dtype.kind == "T":
            if self._array._is_vlen and not self._array._is_whole_scalar(selection):
                # ASCII text is also UTF-8.
                return self._array._text(selection, "utf-8", "strict", self.dtype)
            made = np.asarray(self._array.asstr()[selection], dtype=self.dtype)
        else:
            found = self._array[selection]
            if isinstance(found, Empty):
                return found
            made = converted(found, self.dtype, self._array.dtype)
        return made if self._array._is_whole_scalar(selection) else made[()]


def _packed(dtype: np.dtype[Any], names: str | list[str]) -> np.dtype[Any]:
    """Return the type of one member, or a packed type of several."""
    return dtype[names] if isinstance(names, str) else np.dtype([(name, dtype[name]) for name in names])


class Fields(View):
    def __init__(self, array: FileArray, names: str | Sequence[str]) -> None:
        self._names = names if isinstance(names, str) else list(names)
        known = array.dtype.names or ()
        for name in [self._names] if isinstance(self._names, str) else self._names:
            if name not in known:
                raise ValueError(f"Field {name!r} does not appear in this type.")
        super().__init__(array, _packed(array.dtype, self._names))

    def __getitem__(self, selection: Any) -> Any:
        found = self._array[selection]
        if isinstance(found, Empty):
            return found
        if isinstance(self._names, str):
            part = found[self._names]
            # For a 0-d array, NumPy's part is an array too.
            return part.copy() if isinstance(part, np.ndarray) else part
        made = np.empty(np.shape(found), self.dtype)
        for name in self._names:
            made[name] = found[name]
        return made if isinstance(found, np.ndarray) else made[()]

    def read_ragged(self, selection: Any = None) -> Ragged:
        """Read one member of variable length as it is in memory; see `Array.read_ragged`."""
        element = self._array._of_objects
        found = {} if element is None else {name: (at, field) for name, at, field in element.fields()}
        if element is None or not isinstance(self._names, str) or self._names not in found:
            raise TypeError(f"read_ragged: expected one member of variable length, found {self._names!r}")
        at, field = found[self._names]
        return ragged(field, self._array._raw(selection), at, element.size)


class Text(View):
    def __init__(self, array: FileArray, encoding: str, errors: str) -> None:
        super().__init__(array, np.dtype(object))
        self._encoding, self._errors = encoding, errors

    def __getitem__(self, selection: Any) -> Any:
        return self._array._decoded(selection, self._encoding, self._errors)
