"""An existing variable of a NetCDF file, as the checks of `checks` and `fits` see an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray import Variable

from hyperslab._hdf5.array import FileArray

__all__ = ["StoredVariable"]


class StoredVariable:
    """A variable of a file: its elements are as xarray reads them, before they are decoded."""

    def __init__(self, array: FileArray, variable: Variable) -> None:
        self._array, self._variable = array, variable
        self.path, self.store = array.path, array.store
        self.dtype: np.dtype[Any] = variable.dtype
        self.shape: tuple[int, ...] = variable.shape
        self.ndim = variable.ndim
        self.filters = array.filters
        self.zarr_format = None

    def __getitem__(self, selection: Any) -> Any:
        return np.asarray(self._variable[selection].values)

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return "hyperslab.StoredVariable", self.store.url, self.path
