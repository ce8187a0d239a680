"""Checks that numbers and text fit existing arrays. Only rounding may change their values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from xarray import Variable
from xarray.coding.strings import check_vlen_dtype
from xarray.core.duck_array_ops import isnull
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab._core.array import Array
from hyperslab.errors import DataTypeError

__all__ = ["numbers_that_fit", "text_that_fits"]


def numbers_that_fit(name: Any, variable: Variable, array: Array) -> Variable:
    """Return a variable with numbers that the array can hold, packed if the array's are.

    Raises `DataTypeError` for other numbers; for blocks of dask, when they are written. Fractions
    are rounded to integers.
    """
    stored = array.dtype
    if stored.kind not in "biufc":
        return variable
    if variable.dtype == object and variable.size:
        variable = _inferred(name, variable, array)
    given, encoding = variable.dtype, variable.encoding
    if encoding.get("dtype") in ("bool", np.dtype(bool)) or stored.kind == "b":
        if given.kind in "iufc":
            raise _unlike(name, given, array, "bool")
        return variable
    scales = any(key in encoding for key in ("scale_factor", "add_offset"))
    if given.kind not in "biufc" or "units" in encoding:
        return variable
    limits = _as_unsigned(stored, encoding.get("_Unsigned"))
    if not scales and np.can_cast(given, limits, "safe"):
        return variable
    check = partial(
        _check_numbers,
        name=str(name),
        stored=stored,
        limits=limits,
        scale=encoding.get("scale_factor"),
        offset=encoding.get("add_offset"),
        has_fill=_has_fill(encoding),
    )
    if not is_chunked_array(variable.data):
        check(variable.values)
        return variable
    data: Any = variable.data
    return variable.copy(data=data.map_blocks(check, dtype=given, meta=data._meta))


def _as_unsigned(stored: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    """Return the integer type that stored integers stand for, by the attribute ``_Unsigned``."""
    if unsigned == "true" and stored.kind == "i":
        return np.dtype(f"u{stored.itemsize}")
    if unsigned == "false" and stored.kind == "u":
        return np.dtype(f"i{stored.itemsize}")
    return stored


def _has_fill(encoding: Any) -> bool:
    return any(encoding.get(key) is not None for key in ("_FillValue", "missing_value"))


def _check_numbers(
    values: Any,
    *,
    name: str,
    stored: np.dtype[Any],
    limits: np.dtype[Any],
    scale: Any,
    offset: Any,
    has_fill: bool,
) -> Any:
    def refuse(wrong: Any, why: str) -> None:
        if wrong.any():
            raise DataTypeError(
                f"variable {name!r}: {np.asarray(values)[wrong].flat[0]} does not fit the data type of the "
                f"stored array, {stored}{why}: write the variable to another array"
            )

    numbers = np.asarray(values)
    if numbers.dtype.kind == "c" and limits.kind != "c":
        refuse(numbers.imag != 0, "")
        numbers = numbers.real
    with np.errstate(all="ignore"):
        if offset is not None:
            numbers = numbers - np.asarray(offset, float)
        if scale is not None:
            numbers = numbers / np.asarray(scale, float)
        packed = "" if scale is None and offset is None else ", in which it is packed"
        if limits.kind in "fc":
            refuse(np.isfinite(numbers) & ~np.isfinite(numbers.astype(limits)), packed)
            return values
    info = np.iinfo(limits)
    if numbers.dtype.kind == "f":
        if not has_fill:
            refuse(np.isnan(numbers), ", which has no _FillValue for missing elements")
        # xarray rounds. The largest integers are not floats, but the next number is.
        rounded = np.around(numbers)
        refuse((rounded < float(info.min)) | (rounded >= float(info.max) + 1.0), packed)
    else:
        # NumPy compares values across integer types, not bits.
        refuse((numbers < info.min) | (numbers > info.max), packed)
    return values


def _inferred(name: Any, variable: Variable, array: Array) -> Variable:
    """Convert a variable of Python objects to numbers, if they are numbers.

    Raises `DataTypeError` for text.
    """
    values: Any = variable.values
    for each in values.flat:
        if isinstance(each, (str, bytes)):
            raise _unlike(name, f"object ({each!r})", array)
    try:
        found = np.array(values.tolist())
    except (TypeError, ValueError):
        return variable
    fits = found.dtype.kind in "biufc" and found.shape == variable.shape
    return variable.copy(data=found) if fits else variable


def text_that_fits(name: Any, variable: Variable, array: Array) -> Variable:
    """Return a variable with text or bytes that the array can hold.

    Raises `DataTypeError` for other elements, and for numbers. For blocks of dask, it is raised when
    xarray loads them or when they are written.
    """
    stored, given = array.dtype, variable.dtype
    fixed = stored.kind in "US"
    if not (fixed or stored.kind == "T" or check_vlen_dtype(stored) is str):  # type: ignore[no-untyped-call]
        return variable
    if given.kind in "biufcmM":
        raise _unlike(name, given, array)
    fits = given.kind == stored.kind and given.itemsize <= stored.itemsize
    if given.kind not in "USTO" or (fits and given.kind != "O") or not (fixed or given.kind == "O"):
        return variable
    where = f"the array {array.path!r} in {array.store.url}"
    check = partial(
        _check_text, name=str(name), stored=stored, where=where, has_fill=_has_fill(variable.encoding)
    )
    if not is_chunked_array(variable.data):
        return variable.copy(data=check(variable.values))
    data: Any = variable.data
    return variable.copy(data=data.map_blocks(check, dtype=given, meta=data._meta))


def _check_text(values: Any, *, name: str, stored: np.dtype[Any], where: str, has_fill: bool) -> Any:
    given = values.dtype
    missing: Any = np.asarray(isnull(values))  # type: ignore[no-untyped-call]
    for each, is_missing in zip(values.flat, missing.flat, strict=True):
        if isinstance(each, (str, bytes)):
            if stored.kind in "US":
                _check_length(name, each, stored, where)
        elif is_missing:
            if not has_fill:
                raise DataTypeError(
                    f"variable {name!r} has data type {given} with missing elements ({each!r}), {where} "
                    f"holds {stored} without a _FillValue for them: replace them by text (fillna('')), or "
                    "write the variable to another array"
                )
        else:
            raise _does_not_hold(name, f"object ({each!r})", stored, where)
    return values


def _check_length(name: str, text: str | bytes, stored: np.dtype[Any], where: str) -> None:
    room = stored.itemsize // 4 if stored.kind == "U" else stored.itemsize
    stored_as = text.encode() if stored.kind == "S" and isinstance(text, str) else text
    if len(stored_as) > room:
        unit = "characters" if stored.kind == "U" else "bytes"
        raise DataTypeError(
            f"variable {name!r}: {text!r} has {len(stored_as)} {unit}, {where} has room for {room} "
            f"({stored}): shorten it, or write all of the variable anew"
        )


def _unlike(name: Any, given: Any, array: Array, held: Any = None) -> DataTypeError:
    held = array.dtype if held is None else held
    return _does_not_hold(name, given, held, f"the array {array.path!r} in {array.store.url}")


def _does_not_hold(name: Any, given: Any, held: Any, where: str) -> DataTypeError:
    return DataTypeError(
        f"variable {name!r} has data type {given}, {where} holds {held}: give it {held} (astype), or write "
        "it to another array"
    )
