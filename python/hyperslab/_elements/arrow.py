"""Results for libraries that take Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab import _native

__all__ = ["ArrowValues"]


class ArrowValues:
    """Fixed-size elements, possibly missing, as an Arrow array.

    For ``pyarrow.array``, ``polars.Series`` and everything that takes ``__arrow_c_array__``. Made
    by `hyperslab.Array.read_arrow`.
    """

    __slots__ = ("values",)

    values: Any
    """The elements as a NumPy array; a masked array if some may be missing."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_schema__(self) -> Any:
        """Return the Arrow type; each axis but the first is a ``fixed_size_list``."""
        return self.__arrow_c_array__()[0]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Return an Arrow array that shares the memory of the values."""
        values, valid = np.asarray(self.values), None
        if isinstance(self.values, np.ma.MaskedArray):
            valid = ~np.ma.getmaskarray(self.values).reshape(-1)
        return _native.arrow_of_values(values, valid)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"<ArrowValues of shape {self.values.shape} and type {self.values.dtype}>"
