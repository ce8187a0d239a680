"""Compares a copy with its source, both opened by xarray. Each difference is one sentence.

A copy may differ if the source written by xarray's own ``to_zarr`` differs in the same way: Zarr
cannot express everything.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from numpy.lib.recfunctions import repack_fields
from xarray.core.utils import equivalent

# Internal attributes of HDF5 and NetCDF.
BOOKKEEPING = {
    "CLASS",
    "NAME",
    "REFERENCE_LIST",
    "DIMENSION_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_NCProperties",
    "_nc3_strict",
    "_ARRAY_DIMENSIONS",
}
# Encodings that determine the meaning of stored values.
ENCODINGS = (
    "dtype",
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "_Unsigned",
    "_Encoding",
    "units",
    "calendar",
    "coordinates",
    "grid_mapping",
)
TEXT = "text"


class Seen:
    """One group as xarray opens it: a dataset, or on failure each variable on its own."""

    def __init__(self, place: Any, engine: Any, names: list[str] | None = None, **options: Any) -> None:
        self.failures: dict[str, str] = {}
        self.variables: dict[str, Any] = {}
        self.attrs: Mapping[str, Any] = {}
        self.coordinates: set[str] = set()
        try:
            self._take(xr.open_dataset(place, engine=engine, **options))
        except Exception as error:
            if names is None:
                raise
            for name in names:
                try:
                    others = [other for other in names if other != name]
                    self._take(xr.open_dataset(place, engine=engine, drop_variables=others, **options))
                except Exception as inner:
                    self.failures[name] = _said(inner)
            if not self.failures:
                self.failures["all variables together"] = _said(error)

    def _take(self, dataset: Any) -> None:
        with dataset:
            dataset.load()
            self.attrs = dataset.attrs
            self.variables |= dict(dataset.variables)
            self.coordinates |= {str(name) for name in dataset.coords}


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]


def kind_of(dtype: Any) -> Any:
    """Returns an element type without byte order and without the storage form of text."""
    if dtype is str or dtype is None:
        return TEXT
    dtype = np.dtype(dtype)
    if dtype.kind in "OUT":
        return TEXT
    if dtype.names:
        # Without gaps between fields.
        return repack_fields(dtype, recurse=True)
    return dtype.newbyteorder("=") if dtype.kind != "S" else dtype


def aspects(variable: Any) -> Iterator[tuple[str, Any]]:
    """Yields everything about a variable that must be the same."""
    yield "dims", variable.dims
    yield "shape", variable.shape
    yield "dtype", kind_of(variable.dtype)
    yield "values", np.asarray(variable.values)
    for name, value in variable.attrs.items():
        yield f"attribute {name!r}", value
    for name in ENCODINGS:
        if name in variable.encoding:
            value = variable.encoding[name]
            yield f"encoding {name!r}", kind_of(value) if name == "dtype" else value


def same(left: Any, right: Any) -> bool:
    """Compares values like xarray's ``identical``. NaN equals NaN."""
    if isinstance(left, np.ndarray) and left.ndim and isinstance(right, np.ndarray) and right.ndim:
        if left.shape != right.shape:
            return False
        if left.dtype.kind in "OUT" or right.dtype.kind in "OUT":
            pairs = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
            return all(_equal(one, other) for one, other in pairs)
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fcmM"))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.shape == right.shape and _equal(left.item(), right.item())
    if isinstance(left, list | tuple | np.ndarray) and isinstance(right, list | tuple | np.ndarray):
        one, other = list(left), list(right)
        return len(one) == len(other) and all(map(same, one, other))
    return _equal(left, right)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, str | bytes) != isinstance(right, str | bytes):
        return False
    return bool(equivalent(left, right)) or bool(left != left and right != right)


_ABSENT = object()


def differing(want: Any, found: Any) -> dict[str, tuple[Any, Any]]:
    """Returns the aspects in which two variables differ, as (expected, found)."""
    left, right = dict(aspects(want)), dict(aspects(found))
    names = [*left, *(name for name in right if name not in left)]
    pairs = {name: (left.get(name, _ABSENT), right.get(name, _ABSENT)) for name in names}
    return {
        name: pair
        for name, pair in pairs.items()
        if pair[0] is _ABSENT or pair[1] is _ABSENT or not same(*pair)
    }


def by_xarray(dataset: Any, version: int) -> Any:
    """Returns the dataset after xarray's own ``to_zarr``, or ``None`` if xarray refuses it."""
    store = zarr.storage.MemoryStore()
    try:
        dataset.to_zarr(store, zarr_format=version, consolidated=False)
        with xr.open_zarr(store, consolidated=False, zarr_format=version) as read:
            return read.load()
    except Exception:
        return None


def _own(want: Any, name: str, version: int) -> Any:
    if "_FillValue" not in want.encoding:
        # Without this, xarray adds NaN for missing floats.
        want = want.copy()
        want.encoding["_FillValue"] = None
    alone = xr.Dataset({name: want}) if name not in want.dims else xr.Dataset(coords={name: want})
    read = by_xarray(alone, version)
    return None if read is None else read.variables[name]


def differences(want: Seen, found: Seen, version: int) -> list[str]:
    """Describes all differences of a group. ``version`` is the Zarr format of the copy."""
    told = [f"{name}: cannot be opened: {why}" for name, why in found.failures.items()]
    for name in want.variables:
        if name not in found.variables and name not in found.failures:
            told.append(f"{name}: is not there")
    for name in found.variables:
        if name not in want.variables and name not in want.failures:
            told.append(f"{name}: is there, but not in the source")
    lost = want.coordinates - found.coordinates - {*found.failures}
    if lost or (not found.failures and found.coordinates - want.coordinates):
        told.append(f"coordinates {sorted(found.coordinates)}, expected {sorted(want.coordinates)}")
    for name, variable in want.variables.items():
        if name not in found.variables:
            continue
        other = found.variables[name]
        wrong = differing(variable, other)
        missing = variable.encoding.get("_FillValue")
        if isinstance(missing, str) and other.encoding.get("missing_value") == missing:
            # xarray refuses text in `_FillValue` of Zarr v3, but accepts it as `missing_value`.
            wrong.pop("encoding '_FillValue'", None)
            wrong.pop("encoding 'missing_value'", None)
        if wrong:
            own = _own(variable, name, version)
            if own is not None:
                wrong = {aspect: pair for aspect, pair in wrong.items() if aspect in differing(own, other)}
        for aspect, (expected, value) in wrong.items():
            told.append(f"{name}: {aspect} is {_shown(value)}, expected {_shown(expected)}")
    if want.attrs.keys() | found.attrs.keys():
        own_attrs = functools.cache(
            lambda: getattr(by_xarray(xr.Dataset(attrs=want.attrs), version), "attrs", {})
        )
        for key in want.attrs.keys() | found.attrs.keys():
            expected, value = want.attrs.get(key, _ABSENT), found.attrs.get(key, _ABSENT)
            is_same = expected is not _ABSENT and value is not _ABSENT and same(expected, value)
            if not is_same and not (value is not _ABSENT and same(own_attrs().get(key, _ABSENT), value)):
                told.append(f"attribute {key!r} is {_shown(value)}, expected {_shown(expected)}")
    return told


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = " ".join(repr(value).split())
    return f"{text[:157]}…" if len(text) > 160 else text


def bookkeeping(place: Path) -> list[str]:
    """Describes the HDF5-internal attributes in a Zarr hierarchy on disk."""
    told = []
    for path in sorted([*place.rglob(".zattrs"), *place.rglob("zarr.json")]):
        document = json.loads(path.read_text())
        attributes = document if path.name == ".zattrs" else document.get("attributes", {})
        for name in BOOKKEEPING & {*attributes}:
            # Zarr v2 names axes in this attribute. Only arrays have axes.
            is_array = path.name == ".zattrs" and path.with_name(".zarray").exists()
            if name != "_ARRAY_DIMENSIONS" or not is_array:
                told.append(f"{path.parent.relative_to(place)}: has the attribute {name!r}")
    return told
