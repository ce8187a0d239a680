"""What was read, for libraries that take arrays of Arrow's."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab import _native

__all__ = ["ArrowValues"]


class ArrowValues:
    """Elements of one size, some of which may be missing, as an array of Arrow's: for ``pyarrow.array``,
    ``polars.Series`` and all that take ``__arrow_c_array__``. Made by `hyperslab.Array.read_arrow`.
    """

    __slots__ = ("values",)

    values: Any
    """The elements, as NumPy has them; a masked array where some may be missing."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_schema__(self) -> Any:
        """Arrow's type of it; each axis but the first is a ``fixed_size_list``."""
        return self.__arrow_c_array__()[0]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """It as an array of Arrow's, which shares the memory of the values."""
        values, valid = np.asarray(self.values), None
        if isinstance(self.values, np.ma.MaskedArray):
            valid = ~np.ma.getmaskarray(self.values).reshape(-1)
        return _native.arrow_of_values(values, valid)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"<ArrowValues of shape {self.values.shape} and type {self.values.dtype}>"
