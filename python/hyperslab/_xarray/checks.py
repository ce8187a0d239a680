"""Checks before the first existing array is changed by a write from xarray.

Stored values must mean the same as in the dataset, and stored rows must keep their meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from xarray import Variable
from xarray.coding.times import _cleanup_netcdf_time_units
from xarray.core.common import contains_cftime_datetimes
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab import _native
from hyperslab._core.array import Array
from hyperslab._core.unreadable import UnreadableArray
from hyperslab._create.new import from_array
from hyperslab._stores.store import MemoryStore
from hyperslab.errors import DataTypeError, InvalidArgumentError

__all__ = [
    "check_dimensions",
    "check_meaning",
    "check_raw",
    "check_same",
    "check_unreadable",
    "dates_as_stored",
]

# Attributes of packed numbers.
_SCALES = tuple(_native.number_attributes(True))

# Calendars with the same dates since 1582. NumPy's calendar is one of them.
_MODERN = (None, "standard", "gregorian", "proleptic_gregorian")


# ---- types


def dates_as_stored(name: Any, variable: Variable, array: Array) -> Variable:
    """Return dates or time differences in the data type of an array that stores NumPy's dates.

    Raises `DataTypeError` if that would change a value. Blocks of dask raise it when they are
    written.
    """
    stored = array.dtype
    if variable.dtype.kind != stored.kind:
        raise DataTypeError(
            f"variable {name!r} has data type {variable.dtype}, the array {array.path!r} in "
            f"{array.store.url} has {stored}: give it {stored} (astype), or write it to another array"
        )
    cast = partial(_cast_dates, name=str(name), stored=stored)
    data: Any = variable.data if is_chunked_array(variable.data) else variable.values
    if not is_chunked_array(data):
        made = cast(data)
    elif data.dtype == stored:
        made = data
    else:
        made = data.map_blocks(cast, dtype=stored, meta=np.empty((0,) * data.ndim, stored))
    return Variable(variable.dims, made, {}, variable.encoding, fastpath=True)


def _cast_dates(values: Any, *, name: str, stored: np.dtype[Any]) -> Any:
    try:
        cast = values.astype(stored)
        back = cast.astype(values.dtype)
    except (TypeError, OverflowError) as error:
        raise DataTypeError(f"variable {name!r}: {values.dtype} does not fit {stored}: {error}") from error
    # Values that overflow do not convert back to themselves.
    wrong = (back != values) & ~np.isnat(values)
    if wrong.any():
        found = values[wrong].flat[0]
        raise DataTypeError(
            f"variable {name!r}: {found} does not fit the data type of the stored array, {stored}: round it "
            f"(dt.floor), or write it to another array"
        )
    return cast


# ---- meaning


def check_raw(name: Any, variable: Variable, array: Array) -> None:
    """Raise `InvalidArgumentError` for numbers that would be encoded twice.

    The variable and the array both have an encoding attribute: the numbers are already encoded.
    """
    for key in _SCALES:
        if key in variable.attrs and key in variable.encoding:
            raise InvalidArgumentError(
                f"variable {name!r} has an attribute {key!r}, as the array {array.path!r} in "
                f"{array.store.url}: its values are encoded already. Decode the dataset first (xr.decode_cf)"
            )


def check_meaning(
    name: Any, given: Variable, encoded: Variable, encoding: Mapping[str, Any], array: Array
) -> None:
    """Raise `InvalidArgumentError` if the array's attributes would give numbers another meaning.

    The attributes of an existing array do not change. ``encoding``: the array's, as xarray reads
    it.
    """
    if array.dtype.kind in "mM":
        return
    where = f"the array {array.path!r} in {array.store.url}"
    for key in _SCALES:
        ours, theirs = encoded.attrs.get(key), encoding.get(key)
        if not _are_equal(ours, theirs):
            raise InvalidArgumentError(
                f"variable {name!r}: {key} is {ours!r}, {where} has {theirs!r}: decode the dataset first "
                "(xr.decode_cf), so that its values are those of the array"
            )
    units, stored = encoded.attrs.get("units"), encoding.get("units")
    if stored is None:
        if given.dtype.kind in "mM" or contains_cftime_datetimes(given):
            raise InvalidArgumentError(
                f"variable {name!r} has data type {given.dtype}, {where} has {array.dtype} without units of "
                "time: give it numbers, or write it to another array"
            )
    elif units is None:
        raise InvalidArgumentError(
            f"variable {name!r} is {given.dtype} without units of time, {where} has times in {stored!r}: "
            "give it dates or time differences, or write it to another array"
        )
    elif _plain_units(units) != _plain_units(stored):
        raise InvalidArgumentError(
            f"variable {name!r} needs units {units!r}, {where} has {stored!r} and data type {array.dtype}: "
            "round its times to what these hold, or write all of it anew with other units"
        )
    calendar, other = encoded.attrs.get("calendar"), encoding.get("calendar")
    if stored is not None and calendar != other and not {calendar, other} <= {*_MODERN}:
        raise InvalidArgumentError(f"variable {name!r}: calendar is {calendar!r}, {where} has {other!r}")


def _are_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _plain_units(units: Any) -> Any:
    """Return units of time in one spelling."""
    try:
        return _cleanup_netcdf_time_units(units)
    except Exception:
        return units


# ---- shapes


def check_dimensions(
    variables: Mapping[Any, Variable], stored: Mapping[str, Mapping[Any, int]], append_dim: Any
) -> None:
    """Raise `InvalidArgumentError` if dimensions would differ in length between arrays of a group.

    The group could then not be opened as a dataset. ``stored``: dimension lengths of existing
    arrays.
    """
    lengths: dict[Any, dict[int, str]] = {}
    for name, sizes in stored.items():
        for dimension, length in sizes.items():
            lengths.setdefault(dimension, {}).setdefault(length, name)
        if append_dim in sizes and name not in variables:
            raise InvalidArgumentError(
                f"variable {name!r} is stored, has dimension {append_dim!r}, and is not in the dataset: it "
                f"would be shorter than the others. Add it, or delete it from the store first"
            )
    if len(unlike := lengths.get(append_dim, {})) > 1:
        found = ", ".join(f"{name!r} has {length}" for length, name in unlike.items())
        raise InvalidArgumentError(
            f"append_dim: stored arrays disagree on the length of dimension {append_dim!r}: {found}. Resize "
            "them first"
        )
    for name, variable in variables.items():
        if name in stored:
            continue
        for dimension, length in variable.sizes.items():
            known = lengths.get(dimension, {})
            if len(known) != 1:
                continue
            ((before, other),) = known.items()
            added = _added(variables, dimension) if dimension == append_dim else 0
            if length != before + added:
                raise InvalidArgumentError(
                    f"variable {name!r} is new, and its dimension {dimension!r} has length {length}; the "
                    f"stored {other!r} has length {before + added} there. Rename the dimension, write all of "
                    "the variable, or write it to another group"
                )


def _added(variables: Mapping[Any, Variable], dimension: Any) -> int:
    return next(v.sizes[dimension] for v in variables.values() if dimension in v.dims)


def check_unreadable(array: UnreadableArray, append_dim: Any) -> None:
    """Raise the error of an unreadable array if it has this dimension: it cannot be lengthened."""
    names = array.attrs.get("_ARRAY_DIMENSIONS")
    if names is None:
        text = array._group.store.get(f"{array.path}/zarr.json")
        document = json.loads(text) if text is not None else {}
        names = document.get("dimension_names") if isinstance(document, dict) else None
    if not isinstance(names, list) or append_dim in names:
        raise array.error


# ---- values


def check_same(name: Any, variable: Variable, array: Array, append_dim: Any, is_coordinate: bool) -> None:
    """Raise `InvalidArgumentError` if a variable without `append_dim` differs from the stored one.

    The stored rows belong to the stored variable.
    """
    at = ""
    if is_chunked_array(variable.data):
        if _blocks_are_same(variable.data, array):
            return
    else:
        given: Any = variable.values
        stored: Any = array[...]
        index = _difference(given, stored)
        if index is not None and _may_round(array):
            trial = from_array(MemoryStore(), data=array, write_data=False)
            trial[...] = given
            index = _difference(trial[...], stored)
        if index is None:
            return
        if index:
            found = np.asarray(stored)[index]
            at = f" (first at {list(index)}: stored {str(found)!r}, given {str(given[index])!r})"
    kind = "coordinate" if is_coordinate else "variable"
    along = f"rows along {append_dim!r} that are stored belong to the stored values"
    if is_coordinate:
        advice = f"Bring the dataset into their order (reindex, sel), or leave it out (drop_vars({name!r}))"
        if not variable.ndim:
            advice = f"Leave it out (drop_vars({name!r})), or give it this dimension (expand_dims)"
    else:
        advice = f"Leave it out (drop_vars({name!r}) or mode='a-'), or write it by itself, without append_dim"
    raise InvalidArgumentError(
        f"{kind} {name!r} differs from what is stored in {array.store.url}{at}; {along}. {advice}"
    )


def _may_round(array: Array) -> bool:
    """Return True if codecs may change the values that are written."""
    return bool(array.filters) or array.zarr_format == 3


def _blocks_are_same(blocks: Any, array: Array) -> bool:
    from hyperslab.dask import from_array as blocks_of

    def same(one: Any, other: Any) -> Any:
        return np.full((1,) * one.ndim, _difference(one, other) is None)

    stored = blocks_of(array, blocks.chunks)
    checked = blocks.map_blocks(same, stored, dtype=bool, chunks=tuple((1,) * n for n in blocks.numblocks))
    return bool(checked.all().compute())


def _difference(one: Any, other: Any) -> tuple[int, ...] | None:
    """Return where two arrays of one shape first differ. Not-a-number equals itself here."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind in "OUSTV" or other.dtype.kind in "OUSTV":
        one, other = one.astype(object), other.astype(object)
        unlike = np.asarray(one != other, bool)
    else:
        unlike = (one != other) & ~((one != one) & (other != other))
    if not unlike.any():
        return None
    return tuple(int(axis[0]) for axis in np.nonzero(np.atleast_1d(unlike)))[: one.ndim]
