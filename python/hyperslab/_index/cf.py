"""Values of arrays as the CF conventions mean them. The description is Rust's (`meaning/`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab.errors import DataTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array_common import AnyArray
    from hyperslab._index.view import View

__all__ = ["CF", "as_times"]

# Nanoseconds of the units of NumPy's times that others are converted to.
_STEPS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class CF:
    """The values of an array, or of a view, as the CF conventions mean them.

    Made by `hyperslab.Array.cf` and `View.cf`. ``cf[...]`` reads values, and ``cf[...] = values``
    writes them, with the indices of the array or view. Attributes are followed as in xarray:

    - Elements equal to ``_FillValue`` or ``missing_value`` are missing: NaN, or not-a-time. The
      fill value of a Zarr v2 array with dimension names counts as ``_FillValue``.
    - Other numbers are multiplied by ``scale_factor``, then ``add_offset`` is added.
    - ``_Unsigned`` sets the sign of integers.
    - Units like ``"days since 1970-01-01"`` make dates: ``datetime64[ns]``, or the finest coarser
      unit if elements do not fit it. Calendars that NumPy does not have make objects of cftime,
      which must be installed for that; missing ones are ``None``.
    - A ``dtype`` of ``"timedelta64[ns]"`` beside units like ``"days"`` makes time differences.

    Values without a meaning in CF are the stored elements. The attributes are read when they are
    first needed: get ``array.cf`` again after you have changed them.

    Examples
    --------
    >>> import hyperslab as hs
    >>> packing = {"_FillValue": -1, "scale_factor": 0.5, "units": "m"}
    >>> z = hs.array([3, -1, 4], dtype="i2", attributes=packing)
    >>> z.cf[...]
    array([1.5, nan, 2. ])
    >>> z.cf[1:] = [7, float("nan")]
    >>> z[...]
    array([ 3, 14, -1], dtype=int16)
    >>> z.cf.attrs, z.cf.masked[2]
    ({'units': 'm'}, masked)
    >>> days = hs.array([0, 31], dtype="i4", attributes={"units": "days since 2000-01-01"})
    >>> days.cf[...].astype("M8[D]")
    array(['2000-01-01', '2000-02-01'], dtype='datetime64[D]')
    """

    __slots__ = ("_array", "_decoding", "_is_masked", "_source")

    _array: AnyArray
    _source: AnyArray | View

    def __init__(self, array: AnyArray, source: AnyArray | View, is_masked: bool = False) -> None:
        self._array, self._source, self._is_masked = array, source, is_masked
        self._decoding: _native.Decoding | None = None

    @property
    def _how(self) -> _native.Decoding:
        if self._decoding is None:
            self._decoding = _native.Decoding(self._array)
        return self._decoding

    # ---- what it is

    @property
    def masked(self) -> CF:
        """The same values as masked arrays, as netCDF4-python reads them.

        Missing integers keep their type. In addition to missing elements, these are masked: stored
        numbers outside ``valid_min``, ``valid_max`` and ``valid_range``, and in NetCDF files
        NetCDF's default fill value if there is no ``_FillValue``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([1, 2, 3], dtype="i2", attributes={"_FillValue": 1, "valid_max": 2})
        >>> z.cf.masked[...].tolist(), z.cf[...].tolist()
        ([None, 2, None], [nan, 2.0, 3.0])
        """
        return CF(self._array, self._source, True)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return tuple(self._source.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the values.

        Dates that do not fit ``datetime64[ns]`` are read in a coarser unit, and dates before
        1582-10-15 in the standard calendar as objects.
        """
        how = self._how
        name = how.number if self._keeps_integers else how.dtype
        return self._array.dtype if name is None else np.dtype(name)

    @property
    def units(self) -> str | None:
        """The attribute ``units``; ``None``: there is none."""
        found = self._how.units or self._array.attrs.get("units")
        return None if found is None else str(_single(found))

    @property
    def calendar(self) -> str | None:
        """The calendar of dates; ``None``: the values are no dates."""
        return self._how.calendar

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes without those that the values already follow, as in xarray."""
        found = self._array.attrs
        return {name: _single(found[name]) for name in self._how.shown(list(found))}

    @property
    def _keeps_integers(self) -> bool:
        how = self._how
        return self._is_masked and how.kind == "float" and not how.scales

    # ---- reading

    def __getitem__(self, selection: Any) -> Any:
        found: Any = self._source[selection]
        if not isinstance(found, (np.ndarray, np.generic)):
            # A view is read only now. Other objects are elements, or an HDF5 dataset without any.
            read = getattr(found, "read", None)
            if read is None:
                return found
            found = read()
        if self._how.kind == "other" or found.dtype.kind not in "iuf":
            return found
        values = self._values(np.asarray(found))
        return values if isinstance(found, np.ndarray) else values[()]

    def _values(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        how = self._how
        native = np.ascontiguousarray(stored, dtype=stored.dtype.newbyteorder("="))
        numbers = native.reshape(-1).view(how.number)
        elements = numbers.view("u1")
        if self._keeps_integers or how.kind == "stored":
            made = numbers
        elif how.kind == "bool":
            made = numbers.astype(bool)
        elif how.kind == "float":
            made = np.empty(numbers.shape, how.dtype)
            how.unpack(elements, made.view("u1"))
        else:
            made = self._times(elements, numbers.size)
        if not self._is_masked:
            return made.reshape(stored.shape)
        mask = np.zeros(numbers.size, "u1")
        how.mask(elements, mask, True)
        if made.dtype.kind in "mM":
            mask |= np.isnat(made)
        fill = numbers.dtype.type(np.frombuffer(how.missing, numbers.dtype)[0]) if how.missing else None
        return np.ma.MaskedArray(
            made.reshape(stored.shape),
            mask=mask.astype(bool).reshape(stored.shape),
            fill_value=fill if made.dtype == numbers.dtype else None,
        )

    def _times(self, elements: npt.NDArray[np.uint8], count: int) -> npt.NDArray[Any]:
        how = self._how
        made = np.empty(count, "i8")
        unit = how.times(elements, made)
        if unit is not None:
            return made.view(f"{'m' if how.kind == 'differences' else 'M'}8[{unit}]")
        numbers = np.empty(count, "f8")
        how.numbers(elements, numbers)
        return _dates_of_cftime(self._array, how, numbers)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        values = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of values without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<CF values of {self._source!r}>"

    # ---- writing

    def __setitem__(self, selection: Any, values: Any) -> None:
        stored = self._stored(values) if self._how.kind != "other" else values
        if self._source is self._array:
            self._array[selection] = stored
        else:
            view: Any = self._source[selection]
            view.write(stored)

    def _stored(self, values: Any) -> Any:
        how = self._how
        missing = None
        if isinstance(values, np.ma.MaskedArray):
            missing = np.ascontiguousarray(np.ma.getmaskarray(values)).reshape(-1)
            values = values.data
        given = np.asarray(values)
        number = np.dtype(how.number)
        packed = np.zeros(given.size * number.itemsize, "u1")
        if how.kind in ("dates", "differences"):
            problem = self._pack_times(given, packed, missing)
        elif given.dtype.kind not in "biuf":
            raise DataTypeError(
                f"array '{self._array.name}': expected numbers, found values of type {given.dtype}"
            )
        else:
            problem = _pack_numbers(how, given, packed, missing)
        if problem is not None:
            self._refuse(given, *problem)
        native = self._array.dtype.newbyteorder("=")
        return packed.view(native).reshape(given.shape)

    def _refuse(self, given: npt.NDArray[Any], at: int, why: str) -> None:
        place = tuple(int(index) for index in np.unravel_index(at, given.shape))
        raise InvalidArgumentError(
            f"array '{self._array.name}': cannot store {given[place]!r} at {place} of the values: {why}"
        )

    def _pack_times(
        self, given: npt.NDArray[Any], packed: npt.NDArray[np.uint8], missing: npt.NDArray[np.bool_] | None
    ) -> tuple[int, str] | None:
        how = self._how
        wanted = "m" if how.kind == "differences" else "M"
        flat = np.ascontiguousarray(given).reshape(-1)
        if flat.dtype.kind == "O" and wanted == "M":
            if any(hasattr(each, "calendar") for each in flat):
                return self._pack_cftime(flat, packed, missing)
            flat = flat.astype("M8[us]")
        elif flat.dtype.kind == "O":
            flat = flat.astype("m8[us]")
        if flat.dtype.kind != wanted:
            what = "dates (datetime64, or of cftime)" if wanted == "M" else "time differences (timedelta64)"
            raise DataTypeError(
                f"array '{self._array.name}': its units are '{how.units}': expected {what}, found values of "
                f"type {given.dtype}. To write stored numbers, assign to the array itself"
            )
        if how.dtype == "O":
            raise DataTypeError(
                f"array '{self._array.name}': its attribute calendar is '{how.calendar}', which datetime64 "
                "does not have: expected dates of cftime"
            )
        unit, count = np.datetime_data(flat.dtype)
        if unit not in _STEPS or count != 1:
            name = "ns" if unit in ("ps", "fs", "as") else "s" if unit not in _STEPS else unit
            converted = flat.astype(f"{wanted}8[{name}]")
            if not ((converted == flat) | np.isnat(flat)).all():
                raise InvalidArgumentError(
                    f"array '{self._array.name}': values of type {flat.dtype} do not fit {converted.dtype}"
                )
            flat, unit = converted, name
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        return how.pack_times(native.view("i8"), _STEPS[unit], packed, missing)

    def _pack_cftime(
        self, flat: npt.NDArray[Any], packed: npt.NDArray[np.uint8], missing: npt.NDArray[np.bool_] | None
    ) -> tuple[int, str] | None:
        how = self._how
        known = np.array([each is not None for each in flat], bool)
        if missing is not None:
            known &= ~missing
        cftime = _cftime(self._array, how, "write")
        found = np.asarray(cftime.date2num(flat[known], how.units, how.calendar, longdouble=False))
        is_whole = np.dtype(how.number).kind in "iu" and not how.scales
        if is_whole and found.dtype.kind == "f" and (found % 1 != 0).any():
            at = int(np.flatnonzero(known)[np.flatnonzero(found % 1)[0]])
            return at, f"'{how.units}' has no whole number for it"
        numbers = np.zeros(flat.shape, "i8" if found.dtype.kind == "i" else "f8")
        numbers[known] = found
        return _pack_numbers(how, numbers, packed, ~known)


def as_times(array: AnyArray, how: _native.Decoding, numbers: list[Any]) -> Any:
    """Return numbers in the units of an array as dates or time differences."""
    found = how.times_of(numbers)
    if found is None:
        return _dates_of_cftime(array, how, np.array(numbers, "f8"))
    unit, values = found
    return np.array(values, "i8").view(f"{'m' if how.kind == 'differences' else 'M'}8[{unit}]")


def _dates_of_cftime(
    array: AnyArray, how: _native.Decoding, numbers: npt.NDArray[np.float64]
) -> npt.NDArray[Any]:
    """Return dates that NumPy does not have, as objects. NaN becomes None."""
    known = ~np.isnan(numbers)
    dates = np.full(numbers.shape, None, object)
    if known.any():
        num2date = _cftime(array, how, "read").num2date
        dates[known] = num2date(numbers[known], how.units, how.calendar, only_use_cftime_datetimes=True)
    return dates


def _pack_numbers(
    how: _native.Decoding,
    given: npt.NDArray[Any],
    packed: npt.NDArray[np.uint8],
    missing: npt.NDArray[np.bool_] | None,
) -> tuple[int, str] | None:
    flat = np.ascontiguousarray(given).reshape(-1)
    if flat.dtype.kind == "f":
        return how.pack_floats(flat.astype("f8", copy=False), packed, missing)
    if flat.dtype.kind == "u":
        return how.pack_uints(flat.astype("u8", copy=False), packed, missing)
    return how.pack_ints(flat.astype("i8", copy=False), packed, missing)


def _cftime(array: AnyArray, how: _native.Decoding, what: str) -> Any:
    """Return the module cftime."""
    try:
        import cftime
    except ImportError:
        raise ImportError(
            f"cannot {what} array '{array.name}' as dates: in calendar '{how.calendar}' (units "
            f"'{how.units}') they are objects of cftime, which is not installed: pip install cftime. "
            "The stored numbers are in the array itself",
            name="cftime",
        ) from None
    return cftime


def _single(value: Any) -> Any:
    """Return an attribute as NetCDF shows it: a list of one value is the value, bytes are text."""
    one = value[0] if isinstance(value, np.ndarray) and value.shape == (1,) else value
    return one.decode("utf-8", "replace") if isinstance(one, bytes) else one
