"""Advice about chunks, from the ways an array is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._core.array_common import AnyArray
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._hdf5.array import FileArray

__all__ = ["AccessCost", "AccessLike", "Advice", "AdvisedLayout", "advise", "advised_grid"]

AccessLike: TypeAlias = str | Sequence[int | slice] | Iterable[str | Sequence[int | slice]]


@dataclass(frozen=True)
class AccessCost:
    """What one way to read costs with a layout. Counts are means where blocks may lie anywhere."""

    access: str
    """The way to read."""
    chunks: float
    """Chunks that are decoded."""
    objects: float
    """Objects that are opened."""
    requests: float
    """Requests to the store, with those for the indexes of shards. Far from a store, ranges that lie close
    together are one request; this counts as on a disk."""
    bytes_read: float
    """Bytes from the store."""
    bytes_decoded: float
    """Bytes that come out of decoders."""
    bytes_wanted: float
    """Bytes of the elements that were asked for."""
    seconds_disk: float
    """About how long that takes on a local disk."""
    seconds_object_store: float
    """About how long that takes on an object store."""


@dataclass(frozen=True)
class AdvisedLayout:
    """Chunks and shards, and what each way to read costs with them."""

    name: str
    """``now``; ``chunks``, the best without shards; ``shards``, the best with shards."""
    chunks: tuple[int, ...] | None
    """Elements of a chunk per axis; ``None``: the array has no chunks."""
    shards: tuple[int, ...] | None
    """Elements of a shard per axis; ``None``: no shards."""
    objects: float
    """Number of objects."""
    costs: tuple[AccessCost, ...]
    """Of each way to read."""


@dataclass(frozen=True, repr=False)
class Advice:
    """Layouts beside each other; made by `hyperslab.advise`. Printed, it is a table."""

    layouts: tuple[AdvisedLayout, ...]
    """How the array is stored now; the best chunks; the best chunks in shards."""
    text: str = field(compare=False)
    """All of this as text."""

    def __getitem__(self, name: Literal["now", "chunks", "shards"]) -> AdvisedLayout:
        for layout in self.layouts:
            if layout.name == name:
                return layout
        raise KeyError(name)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def advise(
    array: Array | FileArray, access: AccessLike, *, store: Literal["disk", "objects"] | None = None
) -> Advice:
    """Which chunks and shards would suit the ways an array is read.

    Parameters
    ----------
    array : Array or FileArray
    access : str, tuple, or list of these
        The ways to read it. All count the same: each by how much longer it takes than with the chunks that
        suit it best.

        - ``"time series"``: one point, all along the axis of time, which is the one named ``time`` or ``t``,
          otherwise the first.
        - ``"map"``: one time, everything else.
        - ``"all"``: everything.
        - A selection of integers and slices that go upwards: ``"[:, 10, 10]"``, or ``np.s_[:, 10, 10]``.
        - A block of this shape, anywhere: ``"(1, 64, 64)"``, or ``(1, 64, 64)``.
    store : {"disk", "objects"}, optional
        For which kind of store to choose. Default: that of the array.

    Returns
    -------
    Advice
        What is read now, with the best chunks, and with the best chunks in shards. Counts are exact, by
        geometry, as if all chunks were stored and compressed as much as those that are; times are estimates:
        requests wait 0.1 ms on a disk, 30 ms on an object store (64 at once), which give 2 GB/s and 125 MB/s;
        4 GB/s are decoded.

    Raises
    ------
    InvalidArgumentError
        For what is no way to read this array.

    Notes
    -----
    `create_array` takes the same ``access``. Stored arrays are changed by `copy`.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.create_array(hs.MemoryStore(), shape=(1000, 500, 500), chunks=(1, 500, 500), dtype="f4")
    >>> found = hs.advise(z, "time series")
    >>> found["now"].costs[0].requests, found["chunks"].costs[0].requests
    (1000.0, 1.0)
    """
    if not isinstance(array, AnyArray):
        raise ArgumentTypeError(f"array: expected an array of hyperslab, found {type(array).__name__}")
    if store not in (None, "disk", "objects"):
        raise InvalidArgumentError(f"store: expected 'disk' or 'objects', found {store!r}")
    far = None if store is None else store == "objects"
    return _advice(_native.advise_array(array._handle, _texts(access), far))


def advised_grid(
    shape: Sequence[int],
    itemsize: int,
    names: Iterable[str | None] | None,
    access: AccessLike,
    *,
    far: bool,
    shards: bool,
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Chunks, and shards where they are wanted, for an array that is to be made."""
    listed = None if names is None else list(names)
    found = _advice(_native.advise_shape(list(shape), itemsize, listed, _texts(access), far))
    best = found["shards" if shards else "chunks"]
    assert best.chunks is not None
    return best.chunks, best.shards


def _advice(found: dict[str, Any]) -> Advice:
    layouts = (
        AdvisedLayout(**{**layout, "costs": tuple(AccessCost(**cost) for cost in layout["costs"])})
        for layout in found["layouts"]
    )
    return Advice(tuple(layouts), found["text"])


def _texts(access: Any) -> list[str]:
    """Ways to read as text."""
    listed: list[Any] = list(access) if isinstance(access, list) else [access]
    if not listed:
        raise InvalidArgumentError("access: expected one or more ways to read, found none")
    return [each if isinstance(each, str) else _text(each) for each in listed]


def _text(access: Any) -> str:
    items = access if isinstance(access, tuple) else (access,)
    if all(isinstance(item, int) for item in items):
        return f"({', '.join(map(str, items))})"
    shown = []
    for item in items:
        if isinstance(item, slice):
            start, stop = ("" if end is None else str(end) for end in (item.start, item.stop))
            shown.append(f"{start}:{stop}" + ("" if item.step is None else f":{item.step}"))
        elif item is Ellipsis or hasattr(item, "__index__"):
            shown.append("..." if item is Ellipsis else str(int(item)))
        else:
            raise InvalidArgumentError(f"access: expected text, or integers and slices, found {access!r}")
    return f"[{', '.join(shown)}]"
