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

# Number of elements that `repr` shows at each end.
_SHOWN = 3


class Ragged:
    """An array of elements of variable length: text, bytes, or arrays.

    Elements are not separate objects. As in Arrow, memory has two or three blocks: the offsets of
    the elements, the contents of all elements, and optionally their validity.

    Made by ``array.read_ragged()`` and `Ragged.of`. An element ``ragged[i]`` is `str`, `bytes`, or
    an array that is a view; ``None`` if it is null. Slices along the first axis are views too.
    Lists, masks and other slices copy the selected elements. All have NumPy's meaning. Only the
    items of arrays can be changed. Offsets, validity, text and bytes are read-only, and copies of
    the arrays they were made from.

    Parameters
    ----------
    offsets : array of int64
        One more than the number of elements (in C order): element ``i`` holds
        ``values[offsets[i]:offsets[i + 1]]``.
    values : numpy.ndarray or Ragged
        The contents of all elements in sequence; for text and bytes as ``uint8`` (text in UTF-8).
    validity : array of bool, optional
        True for elements that are not null. Default: all.
    dtype : data type, optional
        `str` (or ``StringDType``): text; `bytes`: bytes. Default: arrays with the type of
        ``values``.
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
        # First copy what others could change, so that the checks below stay valid.
        ends = np.asarray(offsets, dtype=np.int64)
        held: Any = values if isinstance(values, Ragged) else np.ascontiguousarray(values)
        valid = None if validity is None else np.asarray(validity, dtype=np.bool_)
        if ends.ndim == 1:
            ends = _native.frozen(ends)
        count = ends.size - 1
        if ends.ndim != 1 or count < 0:
            raise InvalidArgumentError(
                f"offsets: expected one axis, and one number more than elements, found shape {ends.shape}"
            )
        if ends[0] < 0 or (ends[1:] < ends[:-1]).any() or ends[-1] > len(held):
            raise InvalidArgumentError(
                f"offsets: expected numbers that ascend from 0 or more to at most {len(held)}, "
                "the length of values"
            )
        if kind != "items" and (isinstance(held, Ragged) or held.dtype != np.uint8 or held.ndim != 1):
            raise InvalidArgumentError(
                "values: expected a uint8 array of one axis with the bytes of all elements, "
                "found another array"
            )
        if valid is not None and valid.shape != (count,):
            raise InvalidArgumentError(f"validity: expected {count} Booleans, found shape {valid.shape}")
        axes = (count,) if shape is None else tuple(int(n) for n in shape)
        if math.prod(axes) != count:
            raise InvalidArgumentError(f"shape: expected a shape of {count} elements, found {axes}")
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
        """Make a ragged array of parts that are known to fit. Copies parts that can change."""
        self = object.__new__(cls)
        # Arrow consumers get this memory without a copy, and trust its contents.
        self._kind, self._shape, self._offsets = kind, shape, _native.frozen(offsets)
        self._values = values if kind == "items" else _native.frozen(cast(_Array, values))
        self._validity = None if validity is None else _native.frozen(validity)
        return self

    @classmethod
    def of(cls, values: Any, dtype: npt.DTypeLike | None = None) -> Ragged:
        """Make a ragged array from other values.

        Parameters
        ----------
        values : array-like
            Lists (nested lists for several axes) of `str`, of `bytes`, or of arrays and lists of
            numbers; ``None`` is null. Arrays of objects, of ``StringDType``, of ``S`` and ``U``.
            Arrays of numbers: each row along the last axis is an element. Arrow data that are text,
            bytes or lists of numbers: anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``
            (pyarrow, polars, pandas).
        dtype : data type, optional
            `str`, `bytes`, or ``hyperslab.vlen_dtype(item)``. Default: inferred from the values.

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
            return _from_nested(values, item)
        return _native.ragged_of(values, kind, item)

    # ---- what it is

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start and end of each element in `values`; read-only."""
        return self._offsets

    @property
    def values(self) -> _Array | Ragged:
        """The contents of all elements; read-only for text and bytes."""
        return self._values

    @property
    def validity(self) -> npt.NDArray[np.bool_] | None:
        """True for elements that are not null, read-only; ``None`` if none is null."""
        return self._validity

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per axis."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of an array of the elements.

        ``StringDType()``, or ``object`` with metadata as in `hyperslab.vlen_dtype`.
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
        """Bytes of memory: offsets, contents of the elements, validity."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        valid = 0 if self.validity is None else self.validity.nbytes
        return self.offsets.nbytes + self.values[first:last].nbytes + valid

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of items in each element (for text and bytes: of bytes)."""
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
        # NumPy finds out which elements any other index selects.
        places = np.arange(self.size, dtype=np.int64).reshape(self.shape)[key]
        if not isinstance(places, np.ndarray):
            return self._element(int(places))
        return self._take(places)

    def _element(self, index: int) -> Any:
        if self.validity is not None and not self.validity[index]:
            return None
        held = self.values[self.offsets[index] : self.offsets[index + 1]]
        if self._kind == "items":
            return held
        found = cast(_Array, held).tobytes()
        return found.decode() if self._kind == "text" else found

    def _rows(self, start: int, stop: int) -> Ragged:
        """Return a view of consecutive rows along the first axis."""
        step = math.prod(self.shape[1:])
        first, last = start * step, stop * step
        valid = None if self.validity is None else self.validity[first:last]
        shape = (stop - start, *self.shape[1:])
        return self._made(self._kind, shape, self.offsets[first : last + 1], self.values, valid)

    def _take(self, places: npt.NDArray[np.int64]) -> Ragged:
        """Return a copy of the elements at these positions."""
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
        """Return a view of the same elements in another shape; -1: as many as fit."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        axes = np.empty(self.size, np.bool_).reshape(given).shape
        return self._made(self._kind, axes, self.offsets, self.values, self.validity)

    # ---- as other things

    def to_numpy(self) -> _Array:
        """Return a NumPy array: text as ``StringDType``, bytes and arrays as objects.

        Null stays null (``None``).

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
        """Return a NumPy array of another type.

        Parameters
        ----------
        dtype : data type
            ``"T"`` or a ``StringDType`` (null becomes its ``na_object``, or the empty string);
            ``object`` (null becomes ``None``); ``"S"`` or ``"U"``: as long as the longest element,
            null becomes empty; ``"S10"`` or ``"U10"``: longer elements are an error.

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
            raise TypeError(f"arrays of variable length cannot become type {wanted}: use dtype=object")
        if wanted.kind == "T":
            return _native.ragged_strings(self, wanted)
        if wanted.kind not in "SU":
            raise TypeError(f"{self._kind} of variable length cannot become type {wanted}")
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
        """Return nested lists of `str`, `bytes` or lists of numbers; null becomes ``None``."""
        if self._kind != "items":
            return self._objects(np.dtype(object)).tolist()
        made = np.empty(self.size, object)
        for index in range(self.size):
            found = self._element(index)
            made[index] = None if found is None else found.tolist()
        return made.reshape(self.shape).tolist()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Ragged:
        """Decode bytes to text, as in `bytes.decode`. Without a copy if they are UTF-8."""
        if self._kind == "items":
            raise TypeError("decode: expected bytes, found arrays of variable length")
        if encoding.lower().replace("-", "") == "utf8" and errors == "strict":
            _native.ragged_check_text(self)
            return self._made("text", self.shape, self.offsets, self.values, self.validity)
        found = _native.ragged_objects(self, np.dtype(object), encoding, errors)
        return _native.ragged_of(found, "text")

    def encode(self) -> Ragged:
        """Return text as UTF-8 bytes, without a copy."""
        if self._kind == "items":
            raise TypeError("encode: expected text, found arrays of variable length")
        return self._made("bytes", self.shape, self.offsets, self.values, self.validity)

    def _with_items(self, item: np.dtype[Any]) -> Ragged:
        """Return the same arrays with items of another type."""
        values = cast(_Array, self.values).astype(item)
        return self._made(self._kind, self.shape, self.offsets, values, self.validity)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> _Array:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        return self.to_numpy() if dtype is None else self.astype(dtype)

    def __arrow_c_schema__(self) -> Any:
        """Return the Arrow type: ``large_string``, ``large_binary`` or ``large_list``.

        Each axis but the first is a ``fixed_size_list`` of these.
        """
        return _native.arrow_schema(self)

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """Return an Arrow array that shares the memory: ``pyarrow.array(ragged)``."""
        return _native.arrow_array(self, requested_schema)

    # ---- Python protocols

    def __eq__(self, other: object) -> bool:
        """Return True if shape, kind and all elements are equal."""
        if not isinstance(other, Ragged):
            return NotImplemented
        if self.shape != other.shape or self._kind != other._kind:
            return False
        valid, others_valid = self._valid_mask(), other._valid_mask()
        if not np.array_equal(valid, others_valid):
            return False
        ours, theirs = self, other
        if not valid.all():
            # Ignore the contents of null elements.
            there = np.flatnonzero(valid)
            ours, theirs = self.reshape(-1)[there], other.reshape(-1)[there]
        if not np.array_equal(np.diff(ours.offsets), np.diff(theirs.offsets)):
            return False
        held, others = ours._contents(), theirs._contents()
        if isinstance(held, Ragged) or isinstance(others, Ragged):
            return bool(held == others)
        return np.array_equal(held, others)

    def _valid_mask(self) -> npt.NDArray[np.bool_]:
        return np.ones(self.size, np.bool_) if self.validity is None else self.validity

    def _contents(self) -> Any:
        """Return the contents of this array's elements. `values` may hold more."""
        return self.values[int(self.offsets[0]) : int(self.offsets[-1])]

    def __reduce__(self) -> tuple[Any, ...]:
        offsets = self.offsets - self.offsets[0]
        return _restored, (self._kind, self.shape, offsets, self._contents(), self.validity)

    def __repr__(self) -> str:
        if len(self.shape) == 1 and self.size > 2 * _SHOWN:
            first = [_element_text(self[index]) for index in range(_SHOWN)]
            last = [_element_text(self[index]) for index in range(self.size - _SHOWN, self.size)]
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


def _element_text(element: Any) -> str:
    if isinstance(element, np.ndarray):
        return np.array2string(element, separator=", ", threshold=6, edgeitems=2, max_line_width=200)
    if isinstance(element, (str, bytes)) and len(element) > 40:
        return f"{element[:37]!r}..."
    return repr(element)


def _nested_repr(ragged: Ragged) -> str:
    if not ragged.shape:
        return _element_text(ragged[()])
    inner = ragged.ndim > 1
    return f"[{', '.join(_nested_repr(row) if inner else _element_text(row) for row in ragged)}]"


def _restored(
    kind: Kind, shape: tuple[int, ...], offsets: npt.NDArray[np.int64], values: Any, validity: Any
) -> Ragged:
    """Unpickle a ragged array."""
    return Ragged._made(kind, shape, offsets, values, validity)


def _kind_given(dtype: npt.DTypeLike | None) -> Kind:
    """Return the kind of elements for a type that a caller gives."""
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


def _from_nested(values: Any, inner: np.dtype[Any]) -> Ragged:
    """Make a ragged array of lists whose elements have variable length too."""
    lengths = [0 if element is None else len(element) for element in values]
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    held = Ragged.of([part for element in values if element is not None for part in element], inner)
    validity = np.array([element is not None for element in values], np.bool_)
    valid = None if validity.all() else validity
    return Ragged._made("items", (len(lengths),), offsets, held, valid)


_native.set_ragged_class(Ragged)
