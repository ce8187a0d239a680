"""Arrays of files, read in another way: as another type, as text, only some members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab._hdf5_values import ragged
from hyperslab._ragged import Ragged

if TYPE_CHECKING:
    from hyperslab._hdf5_array import FileArray

__all__ = ["Converted", "Fields", "Text", "View"]


class View:
    """An array, read in another way."""

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
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        found = np.asarray(self[...])
        return found if dtype is None else found.astype(dtype, copy=False)


class Converted(View):
    def __getitem__(self, selection: Any) -> Any:
        if self.dtype.kind == "T":
            if self._array._is_vlen:
                # Text in ASCII is in UTF-8, too.
                return self._array._text(selection, "utf-8", "strict", self.dtype)
            return np.asarray(self._array.asstr()[selection], dtype=self.dtype)[()]
        return np.asarray(self._array[selection]).astype(self.dtype)[()]


class Fields(View):
    def __init__(self, array: FileArray, names: str | Sequence[str]) -> None:
        self._names = names if isinstance(names, str) else list(names)
        known = array.dtype.names or ()
        for name in [self._names] if isinstance(self._names, str) else self._names:
            if name not in known:
                raise ValueError(f"Field {name!r} does not appear in this type.")
        super().__init__(array, array.dtype[self._names])

    def __getitem__(self, selection: Any) -> Any:
        found = self._array[selection][self._names]
        return found.copy() if isinstance(found, np.ndarray) else found

    def read_ragged(self, selection: Any = None) -> Ragged:
        """Read one member, of variable length, as it is in memory; see `Array.read_ragged`."""
        element = self._array._of_objects
        found = {} if element is None else {name: (at, field) for name, at, field in element.fields()}
        if element is None or not isinstance(self._names, str) or self._names not in found:
            raise TypeError("read_ragged reads one member, of variable length")
        at, field = found[self._names]
        return ragged(field, self._array._raw(selection), at, element.size)


class Text(View):
    def __init__(self, array: FileArray, encoding: str, errors: str) -> None:
        super().__init__(array, np.dtype(object))
        self._encoding, self._errors = encoding, errors

    def __getitem__(self, selection: Any) -> Any:
        return self._array._decoded(selection, self._encoding, self._errors)
