"""Pyramids: arrays at several resolutions, for viewers."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._base.progress import show_progress
from hyperslab._codecs.codec import ZarrFormat
from hyperslab._compute.blocks import Blocks, Input, Region, plan_blocks, run_blocks
from hyperslab._compute.downsample import METHODS, Downsampling, Method, check_method
from hyperslab._compute.map import map_chunks, object_units, run_elsewhere
from hyperslab._core.array import Array
from hyperslab._core.array_common import AnyArray
from hyperslab._core.group import Group
from hyperslab._core.iteration import chunk_hint
from hyperslab._core.node import ZarrNode
from hyperslab._create.new import create_group
from hyperslab._elements.optional import is_optional, value_dtype
from hyperslab._stores.store import LocalStore, StoreLike
from hyperslab.errors import ArgumentTypeError, DestinationError, InvalidArgumentError

__all__ = ["level_shapes", "pyramid"]

Progress: TypeAlias = Callable[[Literal["pyramid"], int, int], object]
Metadata: TypeAlias = Literal["ome", "geozarr"]

# Default names of axes by their number, as in OME-Zarr.
_NAMES = {1: "x", 2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
_TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel", "band": "channel"}
# Maximum length of an axis of the last level, for arrays without chunks.
_FITS = 256
# Names of methods in GeoZarr's convention.
_RESAMPLING = {"mean": "average", "nearest": "nearest", "min": "min", "max": "max", "mode": "mode"}
# Attribute that marks an incomplete level.
_UNFINISHED = "hyperslab:unfinished"
_CONVENTION = {
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v1/README.md",
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "name": "multiscales",
    "description": "Multiscale layout of zarr datasets",
}


def pyramid(
    array: Any,
    target: Group | StoreLike,
    factors: int | Sequence[int] | Mapping[int | str, int] = 2,
    *,
    method: Method = "mean",
    levels: int | None = None,
    missing: Any = None,
    metadata: Metadata | Sequence[Metadata] = "ome",
    axes: Sequence[str | Mapping[str, str]] | None = None,
    scale: Sequence[float] | None = None,
    translation: Sequence[float] | None = None,
    name: str | None = None,
    zarr_format: ZarrFormat | None = None,
    max_memory: int | str = "256 MiB",
    executor: Any = None,
    progress: Progress | bool | None = None,
    **create: Any,
) -> Group:
    """Make an array at several resolutions, with metadata for viewers.

    Each level is made from the one before.

    Parameters
    ----------
    array : Array
        Level 0. A member of ``target`` stays as it is; any other array is copied there as ``"0"``.
    target : Group, or store
        A group, or where to create one. Levels are its members ``"0"``, ``"1"``, … .
    factors : int, sequence of int, or mapping, default 2
        Number of elements that become one from level to level, per axis. A number applies to the
        axes named ``x``, ``y`` and ``z``; if none has such a name, to the last two. A mapping is by
        axis or by name.
    method : {"mean", "nearest", "min", "max", "mode"}, default "mean"
        How to combine elements into one. ``"mean"``: exact for integers, rounded to nearest with
        ties to even; in 64 bits for floats. ``"nearest"``: the middle element (of two, the first).
        ``"mode"``: the most frequent element (the smallest if there are several), for labels. At
        the upper edges, fewer elements are combined.
    levels : int, optional
        Number of levels, including level 0. Default: until a level fits one chunk along all axes
        with a factor.
    missing : scalar or sequence of scalar, optional
        Stored values that do not count, like not-a-number, not-a-time and missing elements. (With
        ``"nearest"`` all count.) If no element counts, the result is the first of these values.
        Default: the values of the attributes ``_FillValue`` and ``missing_value``, as in
        `statistics`; ``()``: none.
    metadata : "ome", "geozarr", or both, default "ome"
        ``"ome"``: ``multiscales`` of OME-Zarr 0.5, or in Zarr v2 of OME-Zarr 0.4, whose chunk keys
        have ``/``. ``"geozarr"``: the ``multiscales`` convention that GeoZarr uses.
    axes : sequence of str or mapping, optional
        Axes of OME-Zarr: names, or ``{"name": "x", "type": "space", "unit": "micrometer"}``.
        Default: the array's dimension names, otherwise the last letters of ``tczyx``.
    scale, translation : sequence of float, optional
        Size of an element of level 0 per axis, and position of the middle of the first element.
        Default: 1, and 0.
    name : str, optional
        The image's name in the metadata.
    zarr_format : {2, 3}, optional
        The format of a new group. Default: the format of the given group, or 3.
    max_memory, executor
        As in `map_chunks`.
    progress : callable, or True, optional
        Called as ``progress("pyramid", bytes_done, bytes_in_all)``, in bytes of the new levels.
        ``True`` shows a bar on standard error.
    **create
        Arguments of `create_array` for the levels. Default: chunks, shards, codecs, fill value and
        attributes of level 0.

    Returns
    -------
    Group

    Raises
    ------
    DestinationError
        If a level exists already.
    DataTypeError
        If the method does not take this element type.

    Notes
    -----
    The metadata is written when all levels are complete. After an error, the new levels are
    deleted. If a call is killed, the next call to the same place replaces what it left.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> z = hs.array(np.arange(24.0).reshape(4, 6), chunks=(2, 2))
    >>> g = hs.pyramid(z, hs.MemoryStore())
    >>> {name: level.shape for name, level in sorted(g.arrays())}
    {'0': (4, 6), '1': (2, 3), '2': (1, 2)}
    >>> g["1"][...]
    array([[ 3.5,  5.5,  7.5],
           [15.5, 17.5, 19.5]])
    >>> [each["path"] for each in g.attrs["ome"]["multiscales"][0]["datasets"]]
    ['0', '1', '2']
    """
    if not isinstance(array, AnyArray):
        raise ArgumentTypeError(f"array: expected an array of hyperslab, found {type(array).__name__}")
    if method not in METHODS:
        raise InvalidArgumentError(f"method: expected one of {', '.join(METHODS)}, found {method!r}")
    wanted = {metadata} if isinstance(metadata, str) else set(metadata)
    if not wanted <= {"ome", "geozarr"}:
        raise InvalidArgumentError(f"metadata: expected 'ome' or 'geozarr', found {metadata!r}")
    dtype = value_dtype(array.dtype) if is_optional(array.dtype) else array.dtype
    check_method(method, dtype)
    described = _axes(array, axes, strict="ome" in wanted)
    steps = _factors(factors, [axis["name"] for axis in described])
    sizes = _numbers("scale", scale, array.ndim, 1.0)
    places = _numbers("translation", translation, array.ndim, 0.0)
    shapes = _shapes(array.shape, steps, chunk_hint(array) or (_FITS,) * array.ndim, levels)
    stored, skipped = _missing_elements(array, dtype, missing)
    made_group = not isinstance(target, Group)
    if isinstance(target, Group):
        group = target
        if zarr_format not in (None, group.zarr_format):
            raise InvalidArgumentError(
                f"zarr_format: expected {group.zarr_format}, which the group has, found {zarr_format!r}"
            )
    else:
        group = create_group(target, zarr_format=3 if zarr_format is None else zarr_format)
    own = _is_in(array, group)
    nested = "ome" in wanted and group.zarr_format == 2
    keys = array.metadata.chunk_key_encoding if own and isinstance(array, Array) else None
    if nested and keys is not None and getattr(keys, "separator", None) != "/":
        raise InvalidArgumentError(
            f"array '{array.name}' has chunks with keys like 0.0, which OME-Zarr 0.4 does not allow: "
            'create it with chunk_key_encoding=("v2", "/"), or pass metadata="geozarr"'
        )
    paths = [array.basename if own else "0", *map(str, range(1, len(shapes)))]
    for path in paths[own:]:
        if path in group and _UNFINISHED not in group[path].attrs:
            raise DestinationError(f"'{path}' exists already in {group.store.url}/{group.path}")
    names: list[str] | None = [axis["name"] for axis in described]
    if group.zarr_format == 2 and array.dimension_names is None:
        # With names, xarray would treat the fill value as missing.
        names = None
    arguments = {"dimension_names": names, **create}
    if nested:
        arguments.setdefault("chunk_key_encoding", ("v2", "/"))
    if group.zarr_format == 2 and getattr(array, "zarr_format", None) != 2:
        # xarray treats the fill value of Zarr v2 as missing.
        arguments.setdefault("fill_value", skipped[0] if skipped else None)
    given = dict(create.get("attributes") or _native.carried_attributes(array._handle, group.zarr_format))
    # Marks the levels as incomplete. If this call is killed, the next one replaces them.
    arguments["attributes"] = {**given, _UNFINISHED: "hyperslab.pyramid was interrupted: make it again"}
    arguments["overwrite"] = True
    total = sum(math.prod(shape) for shape in shapes[int(own) :]) * array.dtype.itemsize
    done = 0

    def advance(bytes_: int) -> None:
        nonlocal done
        done += bytes_
        if progress_bar is not None:
            progress_bar("pyramid", done, total)

    def make() -> None:
        level: Any = array
        if not own:
            level = _new(group, "0", array, array.shape, arguments)
            before = 0

            def copied(_: str, bytes_: int, __: int) -> None:
                nonlocal before
                advance(bytes_ - before)
                before = bytes_

            map_chunks(
                _unchanged_block, array, level, max_memory=max_memory, executor=executor, progress=copied
            )
        for path, shape in zip(paths[1:], shapes[1:], strict=True):
            made = _new(group, path, level, shape, arguments)
            work = Downsampling(steps, method, stored, skipped)
            _fill(made, level, work, parse_size(max_memory), executor, advance)
            level = made

    progress_bar: Any = None
    try:
        with show_progress(progress) as progress_bar:
            make()
    except BaseException:
        _undo(group, paths[own:], made_group)
        raise
    attributes: dict[str, Any] = {}
    image = _ome(paths, described, steps, method, sizes, places, name)
    if nested:
        attributes["multiscales"] = [{"version": "0.4", **image}]
    elif "ome" in wanted:
        attributes["ome"] = {
            **group.attrs.asdict().get("ome", {}),
            "version": "0.5",
            "multiscales": [image],
        }
    if "geozarr" in wanted:
        others = [
            each
            for each in group.attrs.asdict().get("zarr_conventions", [])
            if each.get("uuid") != _CONVENTION["uuid"]
        ]
        attributes["zarr_conventions"] = [*others, _CONVENTION]
        attributes["multiscales"] = _geozarr(paths, steps, method)
    for path in paths[own:]:
        del group[path].attrs[_UNFINISHED]
    group.attrs.update(attributes)
    return group


def _undo(group: Group, paths: Sequence[str], made_group: bool) -> None:
    """Delete incomplete levels, and the group that was made for them.

    Suppresses its own errors, so that the first error is raised.
    """
    with contextlib.suppress(Exception):
        for path in paths:
            if path in group and _UNFINISHED in group[path].attrs:
                del group[path]
        if made_group:
            for name in ("zarr.json", ".zgroup", ".zattrs"):
                group.store.delete("/".join(part for part in (group.path, name) if part))
            if isinstance(group.store, LocalStore):
                (group.store.root / group.path).rmdir()


def _unchanged_block(block: Any) -> Any:
    return block


# ---- levels


def _shapes(
    shape: Sequence[int], steps: Sequence[int], chunk: Sequence[int], levels: int | None
) -> list[tuple[int, ...]]:
    if levels is not None and levels < 1:
        raise InvalidArgumentError(f"levels: expected one or more, found {levels}")
    found = [tuple(shape)]
    while True:
        last = found[-1]
        if levels is not None:
            if len(found) == levels:
                return found
        elif all(n <= c or step == 1 for n, c, step in zip(last, chunk, steps, strict=True)):
            return found
        found.append(tuple(-(-n // step) for n, step in zip(last, steps, strict=True)))


def level_shapes(array: Any, factors: Any, levels: int | None, *, strict: bool) -> list[tuple[int, ...]]:
    """Return the shapes of the levels of a pyramid, and make none. ``strict``: as OME-Zarr needs."""
    steps = _factors(factors, [axis["name"] for axis in _axes(array, None, strict=strict)])
    return _shapes(array.shape, steps, chunk_hint(array) or (_FITS,) * array.ndim, levels)


def _is_in(array: Any, group: Group) -> bool:
    """Return True if an array is a member of a group."""
    if not isinstance(array, Array) or array.store != group.store or not array.path:
        return False
    return array.path.rpartition("/")[0] == group.path.strip("/")


def _new(
    group: Group, path: str, like: AnyArray, shape: tuple[int, ...], arguments: Mapping[str, Any]
) -> Array:
    """Create an empty level like another array."""
    given: dict[str, Any] = {"dtype": like.dtype, "shape": shape, **arguments}
    stored: Any = like if isinstance(like, ZarrNode) else None
    if stored is not None:
        given.setdefault("fill_value", stored.fill_value)
        if stored.zarr_format == group.zarr_format:
            for what in ("filters", "compressors"):
                given.setdefault(what, getattr(stored, what) or None)
    chunks = chunk_hint(like)
    if chunks is not None and not {"chunks", "shards"} & set(given):
        given |= {"chunks": chunks, "shards": None if stored is None else stored._largest_shard}
    return group.create_array(path, **given)


def _fill(
    target: Array,
    source: Any,
    how: Downsampling,
    budget: int,
    executor: Any,
    advance: Callable[[int], None],
) -> None:
    """Make a level from the one before."""
    steps = how.steps
    hint = chunk_hint(source)
    chunk = hint and tuple(max(n // step, 1) for n, step in zip(hint, steps, strict=True))
    reads = Input(source.dtype.itemsize, chunk, (0,) * target.ndim, tuple(steps))
    everything: Region = tuple(slice(0, n) for n in target.shape)
    workers = None if executor is None else 1
    units = object_units(target)
    blocks = plan_blocks(everything, units, target.dtype.itemsize, [reads], budget, workers)
    work = _Level(source, target, blocks, how)
    if executor is None:
        run_blocks(blocks, work, "pyramid", advance)
    else:
        run_elsewhere(blocks, work, "pyramid", executor, advance)


@dataclass(frozen=True)
class _Level:
    """The work on one block of a level."""

    source: Any
    target: Array
    blocks: Blocks
    how: Downsampling

    def __call__(self, number: int) -> int:
        """Make one block; return its bytes in the target."""
        region = self.blocks.region(number)
        axes = zip(region, self.how.steps, self.source.shape, strict=True)
        wanted = tuple(slice(axis.start * step, min(axis.stop * step, n)) for axis, step, n in axes)
        self.target.write(region, self.how(self.source.read(wanted)))
        return int(self.target.dtype.itemsize * math.prod(axis.stop - axis.start for axis in region))


# ---- arguments and metadata


def _missing_elements(
    array: AnyArray, dtype: np.dtype[Any], given: Any
) -> tuple[np.dtype[Any], tuple[Any, ...]]:
    """Return the type to read stored elements as, and the elements that do not count."""
    stored, named = _native.packing(array._handle)
    read = dtype if is_optional(array.dtype) or array._is_vlen else np.dtype(stored).newbyteorder("=")
    if given is None:
        return read, tuple(np.frombuffer(element, read)[0] for element in named)
    values = given if isinstance(given, (list, tuple, np.ndarray)) and np.ndim(given) else [given]
    return read, tuple(np.asarray(value).astype(read)[()] for value in (() if given == () else values))


def _axes(array: Any, given: Any, *, strict: bool) -> list[dict[str, str]]:
    """Return the axes as OME-Zarr describes them."""
    names = array.dimension_names
    if given is None and names is not None and all(names):
        given = names
    if given is None:
        given = _NAMES.get(array.ndim) or [f"dim_{n}" for n in range(array.ndim)]
    listed: list[Any] = list(given)
    if len(listed) != array.ndim:
        raise InvalidArgumentError(f"axes: expected one for each of {array.ndim} axes, found {len(listed)}")
    found = []
    for each in listed:
        axis = {"name": each} if isinstance(each, str) else dict(each)
        axis.setdefault("type", _TYPES.get(axis["name"].lower(), "space"))
        found.append(axis)
    if len({axis["name"] for axis in found}) < len(found):
        raise InvalidArgumentError(
            f"axes: expected different names, found {[axis['name'] for axis in found]}"
        )
    kinds = [axis["type"] for axis in found]
    spaces = kinds.count("space")
    ordered = sorted(kinds, key=lambda kind: (kind == "space") + (kind != "time"))
    if strict and (not 2 <= len(found) <= 5 or not 2 <= spaces <= 3 or kinds != ordered):
        raise InvalidArgumentError(
            "axes: OME-Zarr needs two to five axes: time, then channels, then two or three of space; found "
            f'{kinds}. Pass axes, or metadata="geozarr".'
        )
    return found


def _factors(given: Any, names: Sequence[str]) -> tuple[int, ...]:
    rank = len(names)
    if isinstance(given, Mapping):
        found = [1] * rank
        for axis, factor in given.items():
            if isinstance(axis, str) and axis in names:
                found[names.index(axis)] = factor
            elif isinstance(axis, int) and -rank <= axis < rank:
                found[axis] = factor
            else:
                raise InvalidArgumentError(f"factors: there is no axis {axis!r}")
    elif isinstance(given, Iterable):
        found = list(given)
    else:
        chosen = [n for n, name in enumerate(names) if name.lower() in ("x", "y", "z")]
        found = [given if n in (chosen or range(rank)[-2:]) else 1 for n in range(rank)]
    whole = all(isinstance(factor, (int, np.integer)) and factor >= 1 for factor in found)
    if len(found) != rank or not whole or max(found, default=1) < 2:
        raise InvalidArgumentError(
            f"factors: expected a positive integer for each of {rank} axes, one of them 2 or more; "
            f"found {given!r}"
        )
    return tuple(int(factor) for factor in found)


def _numbers(what: str, given: Sequence[float] | None, rank: int, usual: float) -> list[float]:
    found = [usual] * rank if given is None else [float(number) for number in given]
    if len(found) != rank or not np.isfinite(found).all():
        raise InvalidArgumentError(f"{what}: expected a number for each of {rank} axes, found {given!r}")
    return found


def _shift(step: int, method: Method) -> float:
    """Return how far the middle of the first element moves at the next level, in elements."""
    return float((step - 1) // 2) if method == "nearest" else (step - 1) / 2


def _ome(
    paths: Sequence[str],
    axes: Sequence[Mapping[str, str]],
    steps: Sequence[int],
    method: Method,
    scale: Sequence[float],
    translation: Sequence[float],
    name: str | None,
) -> dict[str, Any]:
    """Return an image of ``multiscales``, as in OME-Zarr 0.4 and 0.5."""
    sizes, places, datasets = list(scale), list(translation), []
    for path in paths:
        transforms = [
            {"type": "scale", "scale": list(sizes)},
            {"type": "translation", "translation": list(places)},
        ]
        datasets.append({"path": path, "coordinateTransformations": transforms})
        places = [
            at + _shift(step, method) * size for at, size, step in zip(places, sizes, steps, strict=True)
        ]
        sizes = [size * step for size, step in zip(sizes, steps, strict=True)]
    found: dict[str, Any] = {} if name is None else {"name": name}
    return {**found, "axes": [dict(axis) for axis in axes], "datasets": datasets, "type": method}


def _geozarr(paths: Sequence[str], steps: Sequence[int], method: Method) -> dict[str, Any]:
    """Return the ``multiscales`` of the convention that GeoZarr uses."""
    layout: list[dict[str, Any]] = [{"asset": paths[0], "transform": {"scale": [1.0] * len(steps)}}]
    transform = {
        "scale": [float(step) for step in steps],
        "translation": [_shift(step, method) for step in steps],
    }
    for before, path in itertools.pairwise(paths):
        layout.append(
            {
                "asset": path,
                "derived_from": before,
                "transform": transform,
                "resampling_method": _RESAMPLING[method],
            }
        )
    return {"layout": layout, "resampling_method": _RESAMPLING[method]}
