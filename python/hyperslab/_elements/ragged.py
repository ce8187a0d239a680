"""Ragged arrays: elements of variable length in contiguous memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.vlen import Kind, kind_of, type_of
from hyperslab.errors import InvalidArgumentError

__all__ = ["Ragged"]

_Array = npt.NDArray[Any]

# `repr` shows so many elements at each end.
_SHOWN = 3


class Ragged:
    """An array of elements of variable length: text, bytes, or arrays. In memory it is not one object for
    each element, but two or three blocks, as in Arrow: where each element begins, what all of them hold, and
    perhaps which of them are there.

    Made by ``array.read_ragged()`` and `Ragged.of`. An element ``ragged[i]`` is `str`, `bytes`, or an array
    that is a view; ``None`` where it is null. Slices along the first axis are views, too; lists, masks and
    other slices copy what they select, each with NumPy's meaning. Ragged arrays are not changed, but for the
    items of arrays: offsets, validity, text and bytes are read-only, and copies of the arrays that they are
    made of.

    Parameters
    ----------
    offsets : array of int64
        One more than there are elements (in C order): the ``i``-th holds
        ``values[offsets[i]:offsets[i + 1]]``.
    values : numpy.ndarray or Ragged
        What the elements hold, one behind the other; of text and bytes as ``uint8`` (text in UTF-8).
    validity : array of bool, optional
        Which elements are not null. Default: all.
    dtype : data type, optional
        `str` (or ``StringDType``): text; `bytes`: bytes. Default: arrays of what ``values`` are.
    shape : tuple of int, optional
        Default: one axis.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> r = hs.Ragged.of([[1, 2, 3], [], [4, 5]])
    >>> r
    Ragged([[1, 2, 3], [], [4, 5]], item dtype=int64)
    >>> r.offsets, r.values, r[2]
    (array([0, 3, 3, 5]), array([1, 2, 3, 4, 5]), array([4, 5]))
    >>> r[1:].tolist(), r[[2, 0]].tolist()
    ([[], [4, 5]], [[4, 5], [1, 2, 3]])
    >>> hs.Ragged.of(["Rhine", None]).to_numpy()
    array(['Rhine', None], dtype=StringDType(na_object=None))
    """

    __slots__ = ("_kind", "_offsets", "_shape", "_validity", "_values")
    __hash__: ClassVar[None]  # type: ignore[assignment]

    _kind: Kind
    _offsets: npt.NDArray[np.int64]
    _values: _Array | Ragged
    _validity: npt.NDArray[np.bool_] | None
    _shape: tuple[int, ...]

    def __new__(
        cls,
        offsets: npt.ArrayLike,
        values: npt.ArrayLike | Ragged,
        validity: npt.ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> Self:
        kind = _kind_given(dtype)
        # Copies of what others could change come first: what is checked here stays as it is.
        ends = np.asarray(offsets, dtype=np.int64)
        held: Any = values if isinstance(values, Ragged) else np.ascontiguousarray(values)
        valid = None if validity is None else np.asarray(validity, dtype=np.bool_)
        if ends.ndim == 1:
            ends = _native.frozen(ends)
        count = ends.size - 1
        if ends.ndim != 1 or count < 0:
            raise InvalidArgumentError(
                "offsets: expected one axis, and one number more than there are elements"
            )
        if ends[0] < 0 or (ends[1:] < ends[:-1]).any() or ends[-1] > len(held):
            raise InvalidArgumentError(
                f"offsets: expected numbers that ascend from 0 or more to at most {len(held)}, "
                "the length of values"
            )
        if kind != "items" and (isinstance(held, Ragged) or held.dtype != np.uint8 or held.ndim != 1):
            raise InvalidArgumentError("values: expected uint8 of one axis: the bytes of all elements")
        if valid is not None and valid.shape != (count,):
            raise InvalidArgumentError(f"validity: expected {count} Booleans, found shape {valid.shape}")
        axes = (count,) if shape is None else tuple(int(n) for n in shape)
        if math.prod(axes) != count:
            raise InvalidArgumentError(f"shape: {axes} does not have {count} elements")
        made = cls._made(kind, axes, ends, held, valid)
        if kind == "text":
            _native.ragged_check_text(made)
        return made

    @classmethod
    def _made(
        cls,
        kind: Kind,
        shape: tuple[int, ...],
        offsets: npt.NDArray[np.int64],
        values: _Array | Ragged,
        validity: npt.NDArray[np.bool_] | None,
    ) -> Self:
        """Of parts that are known to fit. Those that somebody could change are copied."""
        self = object.__new__(cls)
        # Others are given the memory without a copy (Arrow), and trust what is in it.
        self._kind, self._shape, self._offsets = kind, shape, _native.frozen(offsets)
        self._values = values if kind == "items" else _native.frozen(cast(_Array, values))
        self._validity = None if validity is None else _native.frozen(validity)
        return self

    @classmethod
    def of(cls, values: Any, dtype: npt.DTypeLike | None = None) -> Ragged:
        """A ragged array of other values.

        Parameters
        ----------
        values : array-like
            Lists (nested ones: of several axes) of `str`, of `bytes`, or of arrays and lists of numbers;
            ``None`` is null. Arrays of objects, of ``StringDType``, of ``S`` and ``U``. Arrays of numbers:
            each row along the last axis is an element. Everything of Arrow's that is text, bytes or lists of
            numbers: whatever has ``__arrow_c_array__`` or ``__arrow_c_stream__`` (pyarrow, polars, pandas).
        dtype : data type, optional
            `str`, `bytes`, or ``hyperslab.vlen_dtype(item)``. Default: found out.

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.Ragged.of([[1], [2, 3]], dtype=hs.vlen_dtype("f4")).values
        array([1., 2., 3.], dtype=float32)
        """
        if dtype is None:
            return _native.ragged_of(values)
        kind, item = _kind_given(dtype), kind_of(np.dtype(dtype))[1] if dtype not in (str, bytes) else None
        if item is not None and kind_of(item)[0] is not None:
            return _nested(values, item)
        return _native.ragged_of(values, kind, item)

    # ---- what it is

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where elements begin and end in `values`; read-only."""
        return self._offsets

    @property
    def values(self) -> _Array | Ragged:
        """What all elements hold; of text and bytes read-only."""
        return self._values

    @property
    def validity(self) -> npt.NDArray[np.bool_] | None:
        """Which elements are not null, read-only; ``None``: all."""
        return self._validity

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of an array of its elements: ``StringDType()``, or ``object`` with metadata as
        `hyperslab.vlen_dtype` gives it.
        """
        return type_of(self._kind, self.values.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.offsets.size - 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory: offsets, what the elements hold, validity."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        valid = 0 if self.validity is None else self.validity.nbytes
        return self.offsets.nbytes + self.values[first:last].nbytes + valid

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Items of each element (of text and bytes: bytes)."""
        return cast("npt.NDArray[np.int64]", np.diff(self.offsets).reshape(self.shape))

    # ---- elements

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a ragged array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a ragged array without axes")
        return (self[index] for index in range(self.shape[0]))

    def __getitem__(self, key: Any, /) -> Any:
        if type(key) is int and len(self.shape) == 1:
            index = key + self.shape[0] if key < 0 else key
            if 0 <= index < self.shape[0]:
                return self._element(index)
            raise IndexError(f"index {key} is out of bounds for axis 0 with size {self.shape[0]}")
        if isinstance(key, slice) and self.shape:
            start, stop, step = key.indices(self.shape[0])
            if step == 1:
                return self._rows(start, max(start, stop))
        # NumPy knows which elements any other index selects.
        places = np.arange(self.size, dtype=np.int64).reshape(self.shape)[key]
        if not isinstance(places, np.ndarray):
            return self._element(int(places))
        return self._taken(places)

    def _element(self, index: int) -> Any:
        if self.validity is not None and not self.validity[index]:
            return None
        held = self.values[self.offsets[index] : self.offsets[index + 1]]
        if self._kind == "items":
            return held
        found = cast(_Array, held).tobytes()
        return found.decode() if self._kind == "text" else found

    def _rows(self, start: int, stop: int) -> Ragged:
        """A view of neighbours along the first axis."""
        step = math.prod(self.shape[1:])
        first, last = start * step, stop * step
        valid = None if self.validity is None else self.validity[first:last]
        shape = (stop - start, *self.shape[1:])
        return self._made(self._kind, shape, self.offsets[first : last + 1], self.values, valid)

    def _taken(self, places: npt.NDArray[np.int64]) -> Ragged:
        """A copy of the elements at these places."""
        flat = np.ascontiguousarray(places).reshape(-1)
        valid = None if self.validity is None else self.validity[flat]
        if isinstance(self.values, Ragged) or self.values.ndim != 1 or self.values.dtype.hasobject:
            lengths = np.diff(self.offsets)[flat]
            ends = np.concatenate(([0], np.cumsum(lengths)))
            wanted = np.arange(ends[-1]) + np.repeat(self.offsets[flat] - ends[:-1], lengths)
            return self._made(self._kind, places.shape, ends, self.values[wanted], valid)
        values = np.ascontiguousarray(self.values)
        size = values.dtype.itemsize
        memory = values.view(np.uint8) if values.size and size else np.empty(0, np.uint8)
        lasting = self._kind != "items"
        offsets, taken = _native.ragged_take(self.offsets, memory, size, flat, lasting)
        return self._made(self._kind, places.shape, offsets, taken.view(values.dtype), valid)

    def reshape(self, *shape: Any) -> Ragged:
        """The same elements in another shape, a view; -1: as many as fit."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        axes = np.empty(self.size, np.bool_).reshape(given).shape
        return self._made(self._kind, axes, self.offsets, self.values, self.validity)

    # ---- as other things

    def to_numpy(self) -> _Array:
        """A NumPy array of the elements: text as ``StringDType``, bytes and arrays as objects. Null stays
        null (``None``).

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.Ragged.of(["a", "bc"]).to_numpy()
        array(['a', 'bc'], dtype=StringDType())
        """
        if self._kind != "text":
            return self.astype(self.dtype)
        has_null = self.validity is not None and not self.validity.all()
        return self.astype(np.dtypes.StringDType(na_object=None) if has_null else np.dtypes.StringDType())

    def astype(self, dtype: npt.DTypeLike) -> _Array:
        """A NumPy array of another type.

        Parameters
        ----------
        dtype : data type
            ``"T"`` or a ``StringDType`` (null is its ``na_object``; without one, the empty string);
            ``object`` (null is ``None``); ``"S"``, ``"U"``: as long as the longest, null is empty; ``"S10"``,
            ``"U10"``: what is longer is an error.

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.Ragged.of([b"ab", b"c"]).astype("S")
        array([b'ab', b'c'], dtype='|S2')
        """
        wanted = np.dtype(dtype)
        if wanted.kind == "O":
            return self._objects(wanted)
        if self._kind == "items":
            raise TypeError(f"arrays of variable length cannot be of type {wanted}: object can hold them")
        if wanted.kind == "T":
            return _native.ragged_strings(self, wanted)
        if wanted.kind not in "SU":
            raise TypeError(f"{self._kind} of variable length cannot be of type {wanted}")
        wide = wanted.kind == "U"
        unit = 4 if wide else 1
        return _native.ragged_fixed(self, wide, wanted.itemsize // unit or None)

    def _objects(self, dtype: np.dtype[Any]) -> _Array:
        if self._kind != "items":
            return _native.ragged_objects(self, dtype, "utf-8" if self._kind == "text" else None)
        held = self.values
        if (
            isinstance(held, np.ndarray)
            and held.ndim == 1
            and held.flags.writeable
            and not held.dtype.hasobject
        ):
            return _native.ragged_views(self, dtype)
        made = np.empty(self.size, dtype)
        for index in range(self.size):
            made[index] = self._element(index)
        return made.reshape(self.shape)

    def tolist(self) -> Any:
        """Nested lists of `str`, `bytes` or lists of numbers; null is ``None``."""
        if self._kind != "items":
            return self._objects(np.dtype(object)).tolist()
        made = np.empty(self.size, object)
        for index in range(self.size):
            found = self._element(index)
            made[index] = None if found is None else found.tolist()
        return made.reshape(self.shape).tolist()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Ragged:
        """Bytes as text; without a copy where they are in UTF-8. As `bytes.decode`."""
        if self._kind == "items":
            raise TypeError("only bytes can be decoded")
        if encoding.lower().replace("-", "") == "utf8" and errors == "strict":
            _native.ragged_check_text(self)
            return self._made("text", self.shape, self.offsets, self.values, self.validity)
        found = _native.ragged_objects(self, np.dtype(object), encoding, errors)
        return _native.ragged_of(found, "text")

    def encode(self) -> Ragged:
        """Text as bytes in UTF-8, without a copy."""
        if self._kind == "items":
            raise TypeError("only text can be encoded")
        return self._made("bytes", self.shape, self.offsets, self.values, self.validity)

    def _with_items(self, item: np.dtype[Any]) -> Ragged:
        """The same arrays, of items of another type."""
        values = cast(_Array, self.values).astype(item)
        return self._made(self._kind, self.shape, self.offsets, values, self.validity)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> _Array:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        return self.to_numpy() if dtype is None else self.astype(dtype)

    def __arrow_c_schema__(self) -> Any:
        """Arrow's type of it: ``large_string``, ``large_binary`` or ``large_list``; each axis but the first
        is a ``fixed_size_list`` of these.
        """
        return _native.arrow_schema(self)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """It as an array of Arrow's, which shares its memory: ``pyarrow.array(ragged)``."""
        return _native.arrow_array(self, requested_schema)

    # ---- what Python asks

    def __eq__(self, other: object) -> bool:
        """Whether shape, kind and all elements are equal."""
        if not isinstance(other, Ragged):
            return NotImplemented
        if self.shape != other.shape or self._kind != other._kind:
            return False
        valid, others_valid = self._valid(), other._valid()
        if not np.array_equal(valid, others_valid):
            return False
        ours, theirs = self, other
        if not valid.all():
            # What null ones hold does not matter.
            there = np.flatnonzero(valid)
            ours, theirs = self.reshape(-1)[there], other.reshape(-1)[there]
        if not np.array_equal(np.diff(ours.offsets), np.diff(theirs.offsets)):
            return False
        held, others = ours._held(), theirs._held()
        if isinstance(held, Ragged) or isinstance(others, Ragged):
            return bool(held == others)
        return np.array_equal(held, others)

    def _valid(self) -> npt.NDArray[np.bool_]:
        return np.ones(self.size, np.bool_) if self.validity is None else self.validity

    def _held(self) -> Any:
        """What its own elements hold, of what others may share."""
        return self.values[int(self.offsets[0]) : int(self.offsets[-1])]

    def __reduce__(self) -> tuple[Any, ...]:
        offsets = self.offsets - self.offsets[0]
        return _restored, (self._kind, self.shape, offsets, self._held(), self.validity)

    def __repr__(self) -> str:
        if len(self.shape) == 1 and self.size > 2 * _SHOWN:
            first = [_shown(self[index]) for index in range(_SHOWN)]
            last = [_shown(self[index]) for index in range(self.size - _SHOWN, self.size)]
            elements = f"[{', '.join(first)}, ..., {', '.join(last)}], shape={self.shape}"
        elif self.size <= 2 * _SHOWN:
            elements = _nested_repr(self)
        else:
            elements = f"..., shape={self.shape}"
        if isinstance(self.values, Ragged):
            return f"Ragged({elements})"
        if self._kind == "items":
            return f"Ragged({elements}, item dtype={self.values.dtype})"
        return f"Ragged({elements}, dtype={'str' if self._kind == 'text' else 'bytes'})"


def _shown(element: Any) -> str:
    if isinstance(element, np.ndarray):
        return np.array2string(element, separator=", ", threshold=6, edgeitems=2, max_line_width=200)
    if isinstance(element, (str, bytes)) and len(element) > 40:
        return f"{element[:37]!r}..."
    return repr(element)


def _nested_repr(ragged: Ragged) -> str:
    if not ragged.shape:
        return _shown(ragged[()])
    inner = ragged.ndim > 1
    return f"[{', '.join(_nested_repr(row) if inner else _shown(row) for row in ragged)}]"


def _restored(
    kind: Kind, shape: tuple[int, ...], offsets: npt.NDArray[np.int64], values: Any, validity: Any
) -> Ragged:
    """An unpickled ragged array."""
    return Ragged._made(kind, shape, offsets, values, validity)


def _kind_given(dtype: npt.DTypeLike | None) -> Kind:
    """What elements of a type that somebody gives are."""
    if dtype is None:
        return "items"
    if dtype is str or dtype is bytes:
        return "text" if dtype is str else "bytes"
    kind, _ = kind_of(np.dtype(dtype))
    if kind is None:
        raise InvalidArgumentError(
            f"dtype: expected str, bytes, StringDType or hyperslab.vlen_dtype(…), found {dtype!r}"
        )
    return kind


def _nested(values: Any, inner: np.dtype[Any]) -> Ragged:
    """Of lists whose elements are of variable length themselves."""
    lengths = [0 if element is None else len(element) for element in values]
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    held = Ragged.of([part for element in values if element is not None for part in element], inner)
    validity = np.array([element is not None for element in values], np.bool_)
    valid = None if validity.all() else validity
    return Ragged._made("items", (len(lengths),), offsets, held, valid)
