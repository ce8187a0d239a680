"""Views: selections of an array that are not read yet."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab import _native
from hyperslab._elements.optional import check_out, is_optional, pack_optional, to_array
from hyperslab._elements.vlen import OBJECTS, kind_of
from hyperslab._index.explain import Explain
from hyperslab.errors import (
    ArrayShapeError,
    BoundsCheckError,
    InvalidArgumentError,
    UnsupportedSelectionError,
)

if TYPE_CHECKING:
    from hyperslab._core.array_common import AnyArray
    from hyperslab._index.cf import CF

__all__ = ["View"]

Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Range:
    """``first + step * i`` for index ``i`` of a view's axis ``dim``; without an axis, ``first``."""

    dim: int | None
    first: int
    step: int = 1


@dataclass(frozen=True, eq=False)
class _List:
    """An index from a table. The axes of the table are the axes ``dims`` of a view."""

    dims: tuple[int, ...]
    indices: Indices


_Source: TypeAlias = _Range | _List


class View:
    """A selection of an array that is not read yet. ``array.lazy`` is the whole array.

    Indexing a view returns another view, with NumPy's meaning: by slices of any step, integers,
    lists, masks, ``np.newaxis``. `oindex` and `vindex` work as for arrays. Only `read` and `write`
    (and NumPy's functions) access elements: each element and each chunk once.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.array([[1, 2, 3], [4, 5, 6]], dtype="i4")
    >>> view = z.lazy[:, ::-1].T[[0, 2]]
    >>> view.shape
    (2, 2)
    >>> view.read()
    array([[3, 6],
           [1, 4]], dtype=int32)
    >>> view[0].write(0)
    >>> z[...]
    array([[1, 2, 0],
           [4, 5, 0]], dtype=int32)
    """

    __slots__ = ("_sources", "array", "shape")

    array: AnyArray
    """The underlying array."""
    shape: tuple[int, ...]
    """Elements per axis."""
    _sources: tuple[_Source, ...]

    def __init__(self, array: AnyArray) -> None:
        self.array, self.shape = array, tuple(array.shape)
        self._sources = tuple(_Range(axis, 0) for axis in range(len(self.shape)))

    def _with(self, shape: Iterable[int], sources: Iterable[_Source]) -> View:
        other = object.__new__(View)
        other.array, other.shape, other._sources = self.array, tuple(shape), tuple(sources)
        return other

    # ---- what it is

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def cf(self) -> CF:
        """The values as the CF conventions mean them; see `hyperslab.Array.cf`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.array([[3, -1], [4, 5]], dtype="i2", attributes={"_FillValue": -1, "add_offset": 0.5})
        >>> z.lazy[::-1, 1].cf[...]
        array([5.5, nan])
        """
        from hyperslab._index.cf import CF

        return CF(self.array, self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a view without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<View of shape {self.shape} of {self.array!r}>"

    # ---- selecting

    def __getitem__(self, selection: Any) -> View:
        items = _items(selection, self.shape, newaxis=True)
        lists = [item for item in items if isinstance(item, np.ndarray)]
        if not lists:
            return self._take(items)
        # As in NumPy, lists and the integers beside them are coordinates of points.
        try:
            shape = np.broadcast_shapes(*(item.shape for item in lists))
        except ValueError:
            shapes = ", ".join(str(item.shape) for item in lists)
            raise BoundsCheckError(f"index lists of shapes {shapes} cannot be broadcast together") from None
        picked = [n for n, item in enumerate(items) if isinstance(item, (int, np.ndarray))]
        together = picked == list(range(picked[0], picked[-1] + 1)) and not _ellipsis_is_between(selection)
        items = [np.asarray(item) if isinstance(item, int) else item for item in items]
        return self._take(items, shape, picked[0] if together else 0)

    @property
    def oindex(self) -> _Orthogonal:
        """Select along each axis independently, like `hyperslab.Array.oindex`."""
        return _Orthogonal(self)

    @property
    def vindex(self) -> _Points:
        """Pick points by their coordinates or a mask, like `hyperslab.Array.vindex`."""
        return _Points(self)

    def transpose(self, *axes: Any) -> View:
        """Return the view with its axes in another order; without arguments, in reverse.

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.zeros((2, 3, 4)).lazy.transpose(1, 0, 2).shape
        (3, 2, 4)
        """
        given = axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes
        order = [operator.index(axis) for axis in given or ()] if given else list(range(self.ndim))[::-1]
        order = [axis + self.ndim if axis < 0 else axis for axis in order]
        if sorted(order) != list(range(self.ndim)):
            raise InvalidArgumentError(f"axes: expected each of {self.ndim} axes once, found {axes}")
        place = {old: new for new, old in enumerate(order)}
        sources: list[_Source] = []
        for source in self._sources:
            if isinstance(source, _List):
                sources.append(_List(tuple(place[dim] for dim in source.dims), source.indices))
            else:
                dim = None if source.dim is None else place[source.dim]
                sources.append(_Range(dim, source.first, source.step))
        return self._with((self.shape[axis] for axis in order), sources)

    @property
    def T(self) -> View:
        """The view with its axes in reverse order."""
        return self.transpose()

    def _take(self, items: list[Any], shape: tuple[int, ...] = (), at: int = -1) -> View:
        """Apply items: an integer, a slice or a list per axis, and None for a new axis.

        Lists are broadcast to ``shape``. Its axes come before the axes that item ``at`` leaves.
        """
        new: list[int] = []
        rules: list[_Source] = []
        dims = range(0)
        for n, item in enumerate(items):
            if n == at:
                dims = range(len(new), len(new) + len(shape))
                new.extend(shape)
            if item is None:
                new.append(1)
            elif isinstance(item, slice):
                start, stop, step = item.indices(self.shape[len(rules)])
                count = len(range(start, stop, step))
                # The step of a single element may be larger than any index. Replace it.
                rules.append(_Range(len(new), start, step if count > 1 else 1))
                new.append(count)
            elif isinstance(item, int):
                rules.append(_Range(None, item))
            else:
                # Their axes in the result are known after all items were seen.
                rules.append(_List((), np.broadcast_to(item, shape)))
        rules = [_List(tuple(dims), rule.indices) if isinstance(rule, _List) else rule for rule in rules]
        return self._follow(new, rules)

    def _follow(self, shape: list[int], rules: list[_Source]) -> View:
        """Return a view of another shape. ``rules`` map its indices to each axis of this view."""
        return self._with(shape, [_follow_source(source, rules, shape) for source in self._sources])

    # ---- reading and writing

    def read(self, *, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Read the elements.

        Parameters
        ----------
        out : numpy.ndarray, optional
            Memory to read into, with any strides, exactly the array's data type, and the view's
            shape.

        Returns
        -------
        numpy.ndarray
            An array of the view's shape, or ``out``.

        Examples
        --------
        >>> import hyperslab as hs
        >>> hs.array([[1, 2], [3, 4]], dtype="i4").lazy[1, None].read()
        array([[3, 4]], dtype=int32)
        """
        if out is not None and is_optional(self.dtype):
            check_out(out, self.dtype, self.shape)
            out[...] = self.read()
            return out
        request = _Request(self)
        place = None if out is None else request.place_of(out)
        if request.meaning is None:
            found = self.array.read(request.selection, place)
        else:
            found = self.array._get(request.meaning, request.selection, place)
        if out is None:
            return _by_parts(request.arranged, found)
        if place is None:
            out[...] = _by_parts(request.arranged, found)
        return out

    def write(self, values: Any) -> None:
        """Write elements. ``values`` are converted and broadcast as in NumPy.

        If the view contains an element more than once, one of its values stays.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.zeros((2, 3), dtype="i4")
        >>> z.lazy.T[1].write([5, 6])
        >>> z[...]
        array([[0, 5, 0],
               [0, 6, 0]], dtype=int32)
        """
        kind = kind_of(self.dtype)[0]
        if is_optional(self.dtype):
            given = pack_optional(values, self.dtype)
        elif kind in OBJECTS:
            given = _native.objects_array(values, self.ndim)
        else:
            given = np.asarray(self.array._unmasked(values), dtype=None if kind is None else object)
        while given.ndim > self.ndim and given.shape[0] == 1:
            given = given[0]
        try:
            given = np.broadcast_to(given, self.shape)
        except ValueError:
            raise ArrayShapeError(
                f"values of shape {np.shape(values)} cannot be broadcast to a view of shape {self.shape}"
            ) from None
        self.array._check_writable()
        if self.size == 0:
            return
        request = _Request(self)
        if request.meaning is None:
            self.array[request.selection] = request.stored(given)
        else:
            self.array._set(request.meaning, request.selection, request.stored(given))

    def explain(self, *, write: bool = False, tasks: int = 20) -> Explain:
        """Explain what reading (or writing) would do; see `hyperslab.Array.explain`.

        Examples
        --------
        >>> import hyperslab as hs
        >>> z = hs.create_array(hs.MemoryStore(), shape=(4, 6), chunks=(2, 3), dtype="f4")
        >>> z.lazy[:3][2:].explain().chunks
        2
        """
        request = _Request(self)
        return Explain._from(self.array._explain(request.selection, write, tasks, request.meaning))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("`copy=False` is not supported. This method always creates a copy.")
        values = self.read()
        if is_optional(self.dtype):
            return to_array(values, dtype, self.array.name)
        return values if dtype is None else values.astype(dtype, copy=False)


def _by_parts(work: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], found: Any) -> npt.NDArray[Any]:
    """Apply work to data and mask of read elements. NumPy would not do it on masked arrays."""
    if not isinstance(found, np.ma.MaskedArray):
        return work(np.asarray(found))
    masked: npt.NDArray[Any] = np.ma.MaskedArray(work(found.data), mask=work(np.ma.getmaskarray(found)))
    return masked


class _Orthogonal:
    """The indexer ``view.oindex[...]``."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __getitem__(self, selection: Any) -> View:
        view = self._view
        given = selection if isinstance(selection, tuple) else (selection,)
        for item in given:
            if isinstance(item, (list, np.ndarray)) and np.ndim(item) != 1:
                raise BoundsCheckError(f"expected lists and masks of one axis, found shape {np.shape(item)}")
        for axis, item in reversed(list(enumerate(_items(selection, view.shape)))):
            # Last axis first, so that the axes before it keep their numbers.
            view = view[(slice(None),) * axis + (item,)]
        return view


class _Points:
    """The indexer ``view.vindex[...]``."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __getitem__(self, selection: Any) -> View:
        items = _items(selection, self._view.shape)
        if any(isinstance(item, slice) for item in items):
            raise BoundsCheckError(f"expected coordinates for each of {self._view.ndim} axes, or a mask")
        return self._view[tuple(items)]


def _items(selection: Any, shape: tuple[int, ...], newaxis: bool = False) -> list[Any]:
    """Return the items of an index: one for each axis of ``shape``, and None for new axes.

    Integers and lists count from the start. A mask of several axes becomes a list for each.
    """
    parts = [_part(item) for item in (selection if isinstance(selection, tuple) else (selection,))]
    if not newaxis and any(part is None for part in parts):
        raise UnsupportedSelectionError("np.newaxis is not supported here")
    if sum(part is Ellipsis for part in parts) > 1:
        raise BoundsCheckError("an index can have only one ellipsis ('...')")
    named = sum(map(_axes_of, parts))
    if named > len(shape):
        raise BoundsCheckError(f"too many indices: the view has {len(shape)} axes, {named} were indexed")
    here = next((n for n, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[here : here + 1] = [slice(None)] * (len(shape) - named)
    axis, items = 0, []
    for part in parts:
        lengths = shape[axis : axis + _axes_of(part)]
        if isinstance(part, np.ndarray) and part.dtype == bool:
            if part.shape != lengths:
                raise BoundsCheckError(f"expected a mask of shape {lengths}, found shape {part.shape}")
            items += [indices.astype(np.int64) for indices in part.nonzero()]
        else:
            items.append(_check_item(part, axis, lengths[0]) if lengths else part)
        axis += len(lengths)
    return items


def _ellipsis_is_between(selection: Any) -> bool:
    """Return True if an ellipsis is between integers or lists, even if it stands for no axis."""
    parts = selection if isinstance(selection, tuple) else ()
    picked = [n for n, part in enumerate(parts) if not (part is None or isinstance(part, slice))]
    return any(parts[n] is Ellipsis for n in picked[1:-1])


def _axes_of(part: Any) -> int:
    """Return how many axes a part of an index is for."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1


def _part(item: Any) -> Any:
    """Return an index part as None, ``...``, a slice, an integer, an integer array or a mask."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if hasattr(item, "__index__") and not isinstance(item, (bool, np.ndarray)):
        return operator.index(item)
    found = np.asarray(item)
    if found.size == 0 and not isinstance(item, np.ndarray):
        found = found.astype(np.int64)
    if found.dtype == bool and found.ndim == 0:
        raise UnsupportedSelectionError("True and False are no indices")
    if found.dtype == bool:
        return found
    if found.dtype.kind not in "iu":
        raise UnsupportedSelectionError(
            f"an index is made of integers, slices, ..., np.newaxis, lists and masks, found {item!r}"
        )
    return int(found) if found.ndim == 0 else found.astype(np.int64)


def _check_item(item: Any, axis: int, length: int) -> Any:
    """Return an item counted from the start of the axis, after checking its bounds."""
    if isinstance(item, slice):
        return item
    wrong = [
        at for at in (np.min(item, initial=0), np.max(item, initial=-1)) if not -length <= at < max(length, 0)
    ]
    if wrong and np.size(item):
        raise BoundsCheckError(f"index {wrong[0]} is out of bounds for axis {axis} with size {length}")
    if isinstance(item, int):
        return item + length if item < 0 else item
    return np.where(item < 0, item + length, item)


def _follow_source(source: _Source, rules: list[_Source], shape: list[int]) -> _Source:
    """Return the source of an array axis for a new view. ``rules`` map its indices to the old."""
    if isinstance(source, _Range):
        if source.dim is None:
            return source
        rule = rules[source.dim]
        if isinstance(rule, _Range):
            return _Range(rule.dim, source.first + source.step * rule.first, source.step * rule.step)
        return _List(rule.dims, source.first + source.step * rule.indices)
    followed = [rules[dim] for dim in source.dims]
    dims = sorted({dim for rule in followed for dim in _dims_of(rule)})
    tables = [_table(rule, dims, shape) for rule in followed]
    indices = source.indices[tuple(tables)]
    return _List(tuple(dims), indices) if dims else _Range(None, int(indices))


def _dims_of(source: _Source) -> tuple[int, ...]:
    if isinstance(source, _List):
        return source.dims
    return () if source.dim is None else (source.dim,)


def _table(source: _Source, dims: list[int], shape: list[int] | tuple[int, ...]) -> Indices:
    """Return the indices of a source as a table with axes ``dims``, of length 1 where unused."""
    if isinstance(source, _Range):
        count = 1 if source.dim is None else shape[source.dim]
        own, indices = _dims_of(source), source.first + source.step * np.arange(count, dtype=np.int64)
    else:
        order = np.argsort(source.dims)
        own, indices = tuple(sorted(source.dims)), source.indices.transpose(order)
    lengths = [shape[dim] if dim in own else 1 for dim in dims]
    return indices.reshape(lengths)


class _Request:
    """A view as one selection of its array, with the conversion from the selection to the view."""

    def __init__(self, view: View) -> None:
        self.shape = view.shape
        sources = view._sources
        lists = {axis: source for axis, source in enumerate(sources) if isinstance(source, _List)}
        used = [dim for source in lists.values() for dim in source.dims]
        # Lists along one axis each are orthogonal. Other lists are coordinates of points.
        alone = all(len(source.dims) == 1 for source in lists.values()) and len(set(used)) == len(used)
        self.meaning: Literal["orthogonal"] | None = "orthogonal" if len(lists) > 1 and alone else None
        dims = sorted(set(used))
        # For each axis of the selection, its axis in the view. None: of length 1, not in the view.
        self.got: list[int | None] = []
        items: list[Any] = []
        for source in sources:
            if isinstance(source, _Range):
                count = 1 if source.dim is None else self.shape[source.dim]
                stop = source.first + source.step * count
                if count == 0:
                    items.append(slice(0, 0))
                else:
                    items.append(slice(source.first, stop if stop >= 0 else None, source.step))
                self.got.append(source.dim)
            elif alone:
                items.append(source.indices)
                self.got.append(source.dims[0])
            else:
                items.append(_table(source, dims, self.shape))
        if lists and not alone:
            axes = list(lists)
            together = axes == list(range(axes[0], axes[-1] + 1))
            at = axes[0] if together else 0
            self.got[at:at] = dims
        self.selection = tuple(items)

    def arranged(self, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return selected elements in the form of the view."""
        found = found[(*(0 if dim is None else slice(None) for dim in self.got), ...)]
        own = [dim for dim in self.got if dim is not None]
        found = found.transpose([own.index(dim) for dim in sorted(own)])
        full = found[(*(slice(None) if dim in own else None for dim in range(len(self.shape))), ...)]
        return full if full.shape == self.shape else np.broadcast_to(full, self.shape).copy()

    def stored(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements of the view in the form of the selection, the last of repeated ones."""
        own = [dim for dim in self.got if dim is not None]
        values = values[(*(slice(None) if dim in own else -1 for dim in range(len(self.shape))), ...)]
        values = values.transpose([sorted(own).index(dim) for dim in own])
        return values[(*(None if dim is None else slice(None) for dim in self.got), ...)]

    def place_of(self, out: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Return memory of the view in the form of the selection. ``None`` if elements repeat."""
        if not isinstance(out, np.ndarray) or out.shape != self.shape:
            raise ArrayShapeError(f"out: expected an array of shape {self.shape}, found {np.shape(out)}")
        own = [dim for dim in self.got if dim is not None]
        if any(self.shape[dim] != 1 for dim in range(len(self.shape)) if dim not in own):
            return None
        return self.stored(out)
