"""Random arrays of 0.1 to 20 MB, and ways to read and write parts of them.

Small arrays never reach some paths: memory of the engine, several threads, chunks of 64 KiB and
more, parts of shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numcodecs
import numpy as np
from strategies import from_bits

Values = np.ndarray[Any, Any]

DTYPES = ["b1", "i1", "u2", "i4", "f4", "f8", "i8", "c8", "c16", "S5", "U3", "M8[ns]", "m8[s]", "V3"]


@dataclass
class Large:
    """An array: the arguments for both libraries, and its expected values."""

    arguments: dict[str, Any]
    values: Values
    fill: Any

    @property
    def model(self) -> Values:
        """Returns an array of fill values."""
        return np.full(self.values.shape, self.fill, self.values.dtype)


def one_of(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def shape_of(rng: np.random.Generator, elements: int) -> tuple[int, ...]:
    """Returns a shape of about `elements` elements: even, or with short and long axes."""
    rank = int(rng.integers(1, 5))
    weights = rng.dirichlet(np.full(rank, one_of(rng, [0.6, 2, 10])))
    return tuple(max(int(round(elements**weight)), 1) for weight in weights)


def grid_of(rng: np.random.Generator, shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Returns chunks, at most ``most``. Some divide the shape."""
    chunks = []
    for n in shape:
        count = int(rng.integers(1, max(int(most ** (1 / len(shape))), 1) + 1))
        chunk = -(-n // count)
        chunks.append(min(chunk + int(rng.integers(0, 3)), n) if rng.random() < 0.5 else chunk)
    return tuple(chunks)


def values_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any) -> Values:
    """Returns noise, runs, or few different values, often with a region of the fill value."""
    count = int(np.prod(shape))
    seed = int(rng.integers(2**32))
    kind = one_of(rng, ["noise", "runs", "few"])
    if kind == "noise":
        values = from_bits(seed, count, dtype)
    else:
        few = from_bits(seed, count // 50 + 2 if kind == "runs" else 5, dtype)
        index = np.arange(count) // 50 if kind == "runs" else rng.integers(0, 5, count)
        values = few[index]
    values = np.ascontiguousarray(values).reshape(shape)
    if rng.random() < 0.4:
        region = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in shape)
        values[region] = fill
    return values


def dtype_of(rng: np.random.Generator) -> tuple[np.dtype[Any], Any]:
    """Returns a data type and a fill value."""
    dtype = np.dtype(one_of(rng, DTYPES))
    fill: Any = np.zeros((), dtype)[()]
    if dtype.kind in "iufcb" and rng.random() < 0.5:
        fill = np.array([1], dtype)[0]
    return dtype, fill


BLOSC = [("lz4", 5, 1), ("zstd", 3, 2), ("blosclz", 5, 1), ("lz4hc", 3, 0), ("zlib", 1, 1)]


def array_of(rng: np.random.Generator) -> Large:
    """Returns a random Zarr array."""
    dtype, fill = dtype_of(rng)
    size = int(10 ** rng.uniform(5, 7.3 if rng.random() < 0.25 else 6.5))
    shape = shape_of(rng, size // dtype.itemsize)
    zarr_format = int(one_of(rng, [2, 3, 3]))
    chunks = grid_of(rng, shape, one_of(rng, [1, 8, 60, 200]))
    arguments: dict[str, Any] = {"zarr_format": zarr_format, "fill_value": fill}
    kind = one_of(rng, ["none", "zstd", "gzip", "blosc", "blosc", "crc32c"])
    cname, level, shuffle = one_of(rng, BLOSC)
    if zarr_format == 2:
        arguments["order"] = one_of(rng, "CF")
        dtype = dtype.newbyteorder(one_of(rng, "<>"))
        arguments["filters"] = [numcodecs.CRC32C()] if kind == "crc32c" else None
        arguments["compressors"] = {
            "zstd": numcodecs.Zstd(1),
            "gzip": numcodecs.GZip(1),
            "blosc": numcodecs.Blosc(cname, level, shuffle),
        }.get(kind)
    else:
        names = ["noshuffle", "shuffle", "bitshuffle"]
        configuration = {
            "zstd": {"level": 1, "checksum": bool(rng.integers(2))},
            "gzip": {"level": 1},
            "blosc": {
                "cname": cname,
                "clevel": level,
                "shuffle": names[shuffle],
                "typesize": dtype.itemsize,
                "blocksize": 0,
            },
        }
        codecs = [] if kind in ("none", "crc32c") else [{"name": kind, "configuration": configuration[kind]}]
        if kind == "crc32c" or rng.random() < 0.2:
            codecs.append({"name": "crc32c"})
        arguments["compressors"] = codecs or None
        if rng.random() < 0.4:
            order = [int(axis) for axis in rng.permutation(len(shape))]
            arguments["filters"] = [{"name": "transpose", "configuration": {"order": order}}]
        else:
            arguments["filters"] = None
        if dtype.itemsize > 1 and dtype.kind not in "SV" and rng.random() < 0.3:
            arguments["serializer"] = {"name": "bytes", "configuration": {"endian": "big"}}
        if rng.random() < 0.5:
            arguments["shards"] = tuple(int(chunk * rng.integers(1, 5)) for chunk in chunks)
    arguments |= {"shape": shape, "chunks": chunks, "dtype": dtype}
    return Large(arguments, values_of(rng, shape, dtype, fill), fill)


def slice_of(rng: np.random.Generator, n: int, *, negative: bool) -> slice:
    """Returns a slice of one axis, mostly long."""
    start, stop = sorted(int(k) for k in rng.integers(0, n + 1, 2))
    if rng.random() < 0.3:
        start, stop = 0, n
    step = int(one_of(rng, [1, 1, 1, 2, 3, 7, *([-1, -2, -5] if negative else [])]))
    if step > 0:
        return slice(start, stop, step)
    return slice(stop - 1 if stop else None, start - 1 if start else None, step)


def basic_of(rng: np.random.Generator, shape: tuple[int, ...], *, negative: bool) -> tuple[Any, ...]:
    """Returns a basic index that keeps an axis."""
    items: list[Any] = [
        int(rng.integers(n)) if rng.random() < 0.15 else slice_of(rng, n, negative=negative) for n in shape
    ]
    if not any(isinstance(item, slice) for item in items):
        items[0] = slice(None)
    return tuple(items)


def orthogonal_of(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns lists (in any order, with repetitions), masks and slices, each for its own axis."""
    items: list[Any] = []
    for n in shape:
        kind = one_of(rng, ["list", "sorted", "mask", "slice"])
        count = int(rng.integers(1, min(n, 2000) + 1))
        if kind == "list":
            items.append(rng.integers(0, n, count))
        elif kind == "sorted":
            items.append(np.sort(rng.choice(n, count, replace=False)))
        elif kind == "mask":
            items.append(rng.random(n) < 0.5)
        else:
            items.append(slice_of(rng, n, negative=False))
    return tuple(items)


def as_ix(items: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Returns NumPy's index for lists, masks and slices that each have their own axis."""
    return np.ix_(*(np.arange(n)[item] for item, n in zip(items, shape, strict=True)))


def memory_of(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Values, Values]:
    """Returns memory of a shape with random strides, and the whole buffer around it.

    Axes may be in any order, reversed, with gaps or unaligned.
    """
    steps = [int(one_of(rng, [1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    if np.prod(shape) * dtype.itemsize > 4_000_000:
        steps = [max(min(step, 1), -1) for step in steps]
    order = rng.permutation(len(shape))
    lengths = [shape[axis] * abs(steps[axis]) for axis in order]
    offset = int(one_of(rng, [0, 0, 1, dtype.itemsize]))
    size = int(np.prod(lengths)) * dtype.itemsize
    whole = rng.integers(0, 256, size + offset, dtype=np.uint8)
    if dtype.kind == "b":
        whole &= 1
    if dtype.kind == "U":
        whole[...] = 0
    base = whole[offset:].view(dtype).reshape(lengths) if size else np.zeros(lengths, dtype)
    view = base[tuple(slice(None, None, steps[axis]) for axis in order)].transpose(np.argsort(order))
    # With a step of 2, half of the memory is skipped.
    assert view.shape == shape, (view.shape, shape)
    return view, whole
