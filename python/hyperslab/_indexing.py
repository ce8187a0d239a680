"""Other ways to index than ``array[...]``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hyperslab._explain import Explain
from hyperslab._ragged import Ragged
from hyperslab._vlen import kind_of

if TYPE_CHECKING:
    from hyperslab import _native
    from hyperslab._array import Array

__all__ = ["BlockIndex", "OIndex", "VIndex"]


class _Index:
    """An array, indexed in another way."""

    _meaning: ClassVar[_native._Meaning]

    def __init__(self, array: Array) -> None:
        self.array = array

    def explain(self, selection: Any, *, write: bool = False, tasks: int = 20) -> Explain:
        """What reading (or writing) what such an index selects would do; see `hyperslab.Array.explain`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4", compressors=None)
        >>> told = z.oindex.explain(([0, 3], [1, 2]))
        >>> told.shape, told.chunks
        ((2, 2), 2)
        >>> z.vindex.explain(([0, 3], [1, 2])).shape, z.blocks.explain((1, 0)).shape
        ((2,), (2, 3))
        """
        return Explain._from(self.array._explain(selection, write, tasks, self._meaning))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.array!r}>"


class OIndex(_Index):
    """``array.oindex[...]``: see `hyperslab.Array.oindex`."""

    _meaning = "orthogonal"

    def __getitem__(self, selection: Any) -> Any:
        return self.array.get_orthogonal_selection(selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array.set_orthogonal_selection(selection, value)


class VIndex(_Index):
    """``array.vindex[...]``: see `hyperslab.Array.vindex`."""

    _meaning = "points"

    def __getitem__(self, selection: Any) -> Any:
        return self.array._get("points", selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array._set("points", selection, flat_values(selection, value, self.array.dtype))


class BlockIndex(_Index):
    """``array.blocks[...]``: see `hyperslab.Array.blocks`."""

    _meaning = "blocks"

    def __getitem__(self, selection: Any) -> Any:
        return self.array.get_block_selection(selection)

    def __setitem__(self, selection: Any, value: Any) -> None:
        self.array.set_block_selection(selection, value)


def flat_values(selection: Any, value: Any, dtype: np.dtype[Any]) -> Any:
    """Values for coordinates, which zarr-python also takes one behind the other where the coordinates have
    several axes.
    """
    lists = [np.asarray(item) for item in (selection if isinstance(selection, tuple) else (selection,))]
    masked = any(item.dtype == bool for item in lists)
    if masked or max((item.ndim for item in lists), default=0) < 2:
        return value
    values = np.asarray(value) if kind_of(dtype)[0] is None else Ragged.of(value, dtype)
    if values.ndim != 1:
        return value
    shape = np.broadcast_shapes(*(item.shape for item in lists))
    return values.reshape(shape) if values.size == math.prod(shape) else value
