"""Arrays of files, read in another way: as another type, as text, only some members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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


class Text(View):
    def __init__(self, array: FileArray, encoding: str, errors: str) -> None:
        super().__init__(array, np.dtype(object))
        self._encoding, self._errors = encoding, errors

    def __getitem__(self, selection: Any) -> Any:
        return self._array._decoded(selection, self._encoding, self._errors)
