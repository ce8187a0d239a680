"""Advises on chunks and shards from the ways an array is read."""

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
    """The cost of one access pattern with one layout.

    If the position of a block is free, counts are averages over all positions.
    """

    access: str
    """The access pattern."""
    chunks: float
    """Chunks decoded."""
    objects: float
    """Objects opened."""
    requests: float
    """Requests to the store, including requests for shard indexes.

    Counted as on a disk. A remote store joins neighbouring ranges into one request.
    """
    bytes_read: float
    """Bytes read from the store."""
    bytes_decoded: float
    """Bytes that decoders produce."""
    bytes_wanted: float
    """Bytes of the selected elements."""
    seconds_disk: float
    """Estimated seconds on a local disk."""
    seconds_object_store: float
    """Estimated seconds on an object store."""


@dataclass(frozen=True)
class AdvisedLayout:
    """Chunks and shards, and the cost of each access pattern with them."""

    name: str
    """``now``: as stored. ``chunks``: the best without shards. ``shards``: the best with shards."""
    chunks: tuple[int, ...] | None
    """Chunk length per axis in elements; ``None``: the array has no chunks."""
    shards: tuple[int, ...] | None
    """Shard length per axis in elements; ``None``: no shards."""
    objects: float
    """Number of objects."""
    costs: tuple[AccessCost, ...]
    """The cost of each access pattern."""


@dataclass(frozen=True, repr=False)
class Advice:
    """A comparison of layouts, made by `hyperslab.advise`. Prints as a table."""

    layouts: tuple[AdvisedLayout, ...]
    """The current layout, the best chunks, and the best chunks in shards."""
    text: str = field(compare=False)
    """The comparison as text."""

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
    """Recommend chunks and shards for the ways an array is read.

    Parameters
    ----------
    array : Array or FileArray
    access : str, tuple, or list of these
        The access patterns. All have the same weight: each is compared with the chunks that suit it
        best, by how much longer it takes.

        - ``"time series"``: one point at all times. The time axis is the one named ``time`` or
          ``t``, otherwise the first.
        - ``"map"``: one time, everything else.
        - ``"all"``: everything.
        - A selection of integers and slices with positive steps: ``"[:, 10, 10]"`` or
          ``np.s_[:, 10, 10]``.
        - A block of this shape at any position: ``"(1, 64, 64)"`` or ``(1, 64, 64)``.
    store : {"disk", "objects"}, optional
        The kind of store to optimize for. Default: the kind that holds the array.

    Returns
    -------
    Advice
        The costs now, with the best chunks, and with the best chunks in shards. Counts follow from
        the geometry and are exact. They assume that every chunk is stored and compresses as well as
        the stored chunks do. Times are estimates. They assume a disk with 0.1 ms per request and 2
        GB/s, or an object store with 30 ms per request, 64 requests at once and 125 MB/s. Decoding
        is assumed to run at 4 GB/s.

    Raises
    ------
    InvalidArgumentError
        If ``access`` holds something that is not a way to read this array.

    Notes
    -----
    `create_array` takes the same ``access``. To change a stored array, use `copy`.

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
    """Recommend chunks, and shards if wanted, for an array that does not exist yet."""
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
    """Return access patterns as text."""
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
