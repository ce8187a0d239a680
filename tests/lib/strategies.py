"""Arrays of every kind for generated tests.

A `Case` describes an array for hyperslab, zarr-python and TensorStore.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

MOST_ELEMENTS = 1500
MOST_CHUNKS = 60

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
TIMES = ["M8[ns]", "M8[D]", "M8[10us]", "M8[Y]", "m8[s]", "m8[ms]", "m8[3h]"]
TEXTS = ["S1", "S5", "U1", "U3", "V1", "V3", "V16"]


def objects(values: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns an array of these objects. They may be lists, which NumPy would take for axes."""
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made.reshape(shape)


@st.composite
def filled(draw: st.DrawFn, shape: tuple[int, ...], values: st.SearchStrategy[Any]) -> np.ndarray[Any, Any]:
    """Draws many elements from few values."""
    some = draw(st.lists(values, min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return objects([some[n] for n in rng.integers(0, len(some), math.prod(shape))], shape)


@st.composite
def dtypes(draw: st.DrawFn, names: list[str] | None = None) -> np.dtype[Any]:
    """Draws an element type in either byte order."""
    name = draw(st.sampled_from(names or ["b1", *NUMBERS, *NUMBERS, *TIMES, *TEXTS]))
    return np.dtype(name).newbyteorder(draw(st.sampled_from("<>")))


@st.composite
def shapes_and_chunks(draw: st.DrawFn, most_axes: int = 4) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draws a shape of 0 to 4 axes, maybe empty, and chunks of any size, maybe larger."""
    rank = draw(st.integers(0, most_axes))
    # Small sizes matter most, and zero more than its share of an interval.
    size = st.one_of(st.integers(1, 6), st.integers(1, 40), st.sampled_from([0, 1, 7, 16, 33]))
    shape: list[int] = []
    chunks: list[int] = []
    elements, count = 1, 1
    for _ in range(rank):
        n = min(draw(size), MOST_ELEMENTS // elements)
        kind = draw(st.sampled_from(["any", "divides", "one", "whole", "larger"]))
        if n == 0:
            c = draw(st.integers(1, 3))
        elif kind == "any":
            c = draw(st.integers(1, n))
        elif kind == "divides":
            c = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        elif kind == "one":
            c = 1
        elif kind == "whole":
            c = n
        else:
            c = n + draw(st.integers(1, 5))
        c = max(c, math.ceil(n / max(1, MOST_CHUNKS // count)))
        elements *= max(n, 1)
        count *= max(1, math.ceil(n / c))
        shape.append(n)
        chunks.append(c)
    return tuple(shape), tuple(chunks)


def from_bits(seed: int, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns elements of random bits: NaNs with payloads, denormals, every possible string."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.kind == "U":
        codes = rng.integers(0, 0xD800, (count, dtype.itemsize // 4), dtype=np.uint32)
        codes[rng.random(codes.shape) < 0.3] = 0
        codes[rng.random(codes.shape) < 0.1] = 0x1F600
        return codes.astype(np.dtype("u4").newbyteorder(dtype.byteorder)).view(dtype).reshape(count)
    bits = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if dtype.kind in "SV":
        bits[rng.random(bits.shape) < 0.3] = 0
    return bits.view(dtype)


@st.composite
def scalars(draw: st.DrawFn, dtype: np.dtype[Any]) -> Any:
    """Draws one element, often an extreme. NaNs have no payload: zarr-python loses it."""
    kind = dtype.kind
    seed = draw(st.integers(0, 2**16))
    if kind == "b":
        value: Any = draw(st.booleans())
    elif kind in "iu":
        info = np.iinfo(dtype)
        value = draw(
            st.one_of(st.sampled_from([0, 1, info.min, info.max]), st.integers(int(info.min), int(info.max)))
        )
    elif kind in "fc":
        width = dtype.itemsize * (4 if kind == "c" else 8)
        part = st.one_of(
            st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]),
            st.floats(width=width, allow_nan=False),
        )
        value = draw(part) if kind == "f" else complex(draw(part), draw(part))
    elif kind in "mM":
        ticks = draw(st.one_of(st.sampled_from([0, -(2**63), 2**63 - 1]), st.integers(-(2**40), 2**40)))
        moment = np.array([ticks], "i8").view(dtype.newbyteorder("="))[0]
        try:
            repr(moment)
        except OverflowError:
            # NumPy cannot print this value, but a failure must.
            moment = np.array([ticks >> 23], "i8").view(dtype.newbyteorder("="))[0]
        return moment
    elif kind == "U":
        value = draw(
            st.text(
                st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
                max_size=dtype.itemsize // 4,
            )
        )
    elif kind == "S":
        value = draw(st.binary(max_size=dtype.itemsize))
    else:
        value = from_bits(seed, 1, dtype)[0]
    return np.array([value], dtype.newbyteorder("="))[0]


BLOSC_NAMES = ["lz4", "lz4hc", "blosclz", "zlib", "zstd"]


@st.composite
def v2_compressors(draw: st.DrawFn) -> dict[str, Any] | None:
    kind = draw(st.sampled_from(["none", "zlib", "gzip", "zstd", "blosc", "blosc", "lz4"]))
    if kind == "none":
        return None
    if kind == "zlib":
        return {"id": "zlib", "level": draw(st.integers(0, 9))}
    if kind == "gzip":
        return {"id": "gzip", "level": draw(st.integers(0, 9))}
    if kind == "zstd":
        return {
            "id": "zstd",
            "level": draw(st.sampled_from([-5, 0, 1, 3, 9])),
            "checksum": draw(st.booleans()),
        }
    if kind == "lz4":
        return {"id": "lz4", "acceleration": draw(st.sampled_from([1, 10]))}
    return {
        "id": "blosc",
        "cname": draw(st.sampled_from(BLOSC_NAMES)),
        "clevel": draw(st.sampled_from([0, 1, 5, 9])),
        "shuffle": draw(st.sampled_from([0, 1, 2])),
        "blocksize": draw(st.sampled_from([0, 0, 64, 256])),
    }


@st.composite
def v3_compressors(draw: st.DrawFn, itemsize: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(["gzip", "zstd", "blosc", "blosc", "crc32c"]))
    if kind == "gzip":
        return {"name": "gzip", "configuration": {"level": draw(st.integers(0, 9))}}
    if kind == "zstd":
        level = draw(st.sampled_from([-5, 0, 1, 3, 9]))
        return {"name": "zstd", "configuration": {"level": level, "checksum": draw(st.booleans())}}
    if kind == "crc32c":
        return {"name": "crc32c"}
    return {
        "name": "blosc",
        "configuration": {
            "cname": draw(st.sampled_from(BLOSC_NAMES)),
            "clevel": draw(st.sampled_from([0, 1, 5, 9])),
            "shuffle": draw(st.sampled_from(["noshuffle", "shuffle", "bitshuffle"])),
            "typesize": itemsize,
            "blocksize": draw(st.sampled_from([0, 0, 64, 256])),
        },
    }


@dataclass(frozen=True)
class Case:
    """An array and its contents."""

    zarr_format: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Any
    data: np.ndarray[Any, Any] = field(repr=False)
    order: str = "C"
    filters: tuple[dict[str, Any], ...] = ()
    big_endian: bool = False
    compressors: tuple[dict[str, Any], ...] = ()
    keys: str = "default"
    separator: str = "/"
    attributes: dict[str, Any] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    seed: int = 0

    @property
    def opened_dtype(self) -> np.dtype[Any]:
        """Returns the element type of the opened array. v3 arrays have the machine's byte order."""
        return self.dtype if self.zarr_format == 2 else self.dtype.newbyteorder("=")

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """Returns the data in the byte order of the opened array."""
        return self.data.astype(self.opened_dtype)

    @property
    def has_byte_order(self) -> bool:
        return self.dtype.kind == "U" or (self.dtype.kind not in "SV" and self.dtype.itemsize > 1)

    def arguments(self) -> dict[str, Any]:
        """Returns keyword arguments for ``create_array`` of hyperslab and of zarr-python."""
        arguments: dict[str, Any] = {
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.dtype,
            "fill_value": self.fill,
            "zarr_format": self.zarr_format,
            "attributes": self.attributes,
            "chunk_key_encoding": {"name": self.keys, "separator": self.separator},
        }
        arguments["filters"] = list(self.filters) or None
        arguments["compressors"] = list(self.compressors) or None
        if self.zarr_format == 2:
            arguments["order"] = self.order
        else:
            arguments["dimension_names"] = self.dimension_names
            if self.has_byte_order:
                endian = "big" if self.big_endian else "little"
                arguments["serializer"] = {"name": "bytes", "configuration": {"endian": endian}}
        return arguments


@st.composite
def contents(
    draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Any
) -> np.ndarray[Any, Any]:
    """Draws random bits. Parts or all of them are the fill value."""
    count = math.prod(shape)
    kind = draw(st.sampled_from(["bits", "bits", "fill", "parts", "runs"]))
    seed = draw(st.integers(0, 2**32 - 1))
    filled = np.zeros(count, dtype)
    if fill is not None:
        filled[...] = np.asarray(fill, dtype)
    if kind == "fill":
        return filled.reshape(shape)
    bits = from_bits(seed, count, dtype)
    if kind == "runs" and count:
        # Compressible values.
        bits = np.repeat(bits[: count // 7 + 1], 7)[:count]
    if kind == "parts" and count:
        start, stop = sorted(draw(st.tuples(st.integers(0, count), st.integers(0, count))))
        bits = bits.copy()
        bits[start:stop] = filled[start:stop]
    return bits.reshape(shape)


ATTRIBUTES = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        # Other libraries parse JSON strictly. Infinities and NaN, as Python writes them, are tested
        # with zarr-python.
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.lists(st.integers()),
    ),
    max_size=3,
)


@st.composite
def cases(draw: st.DrawFn, zarr_format: int | None = None, names: list[str] | None = None) -> Case:
    zarr_format = zarr_format or draw(st.sampled_from([2, 3]))
    shape, chunks = draw(shapes_and_chunks())
    dtype = draw(dtypes(names))
    # `null` in v2. v3 always has a fill value.
    fill = None if zarr_format == 2 and draw(st.integers(0, 5)) == 0 else draw(scalars(dtype))
    data = draw(contents(shape, dtype, fill))
    attributes = draw(ATTRIBUTES)
    seed = draw(st.integers(0, 2**32 - 1))
    if zarr_format == 2:
        compressor = draw(v2_compressors())
        return Case(
            zarr_format=2,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            fill=fill,
            data=data,
            order=draw(st.sampled_from("CF")),
            filters=({"id": "crc32c"},) if draw(st.integers(0, 7)) == 0 else (),
            compressors=() if compressor is None else (compressor,),
            keys="v2",
            separator=draw(st.sampled_from("./")),
            attributes=attributes,
            seed=seed,
        )
    filters: tuple[dict[str, Any], ...] = ()
    if shape and draw(st.booleans()):
        filters = (
            {"name": "transpose", "configuration": {"order": draw(st.permutations(range(len(shape))))}},
        )
    keys = draw(st.sampled_from(["default", "v2"]))
    names_of_axes = None
    if shape and draw(st.booleans()):
        names_of_axes = tuple(draw(st.one_of(st.none(), st.text(max_size=3))) for _ in shape)
    return Case(
        zarr_format=3,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill=fill,
        data=data,
        filters=filters,
        big_endian=draw(st.booleans()),
        compressors=tuple(draw(st.lists(v3_compressors(dtype.itemsize), max_size=2))),
        keys=keys,
        separator=draw(st.sampled_from("./")),
        attributes=attributes,
        dimension_names=names_of_axes,
        seed=seed,
    )


@st.composite
def selections(
    draw: st.DrawFn, shape: tuple[int, ...], *, negative: bool = True, extra: bool = True
) -> tuple[Any, ...]:
    """Draws a basic index: integers, slices, maybe an ellipsis or missing items.

    With `negative`, slices have any step.
    """
    items: list[Any] = []
    for n in shape:
        kind = draw(st.sampled_from(["int", "slice", "slice", "all"]))
        if kind == "int" and n > 0:
            items.append(draw(st.integers(-n, n - 1) if negative else st.integers(0, n - 1)))
        elif kind == "all":
            items.append(slice(None))
        else:
            edge = st.one_of(st.none(), st.integers(-n - 2, n + 2) if negative else st.integers(0, n))
            step = st.sampled_from(
                [None, 1, 1, 2, 3, -1, -2, -5, 100, -100] if negative else [None, 1, 1, 2, 3, 100]
            )
            items.append(slice(draw(edge), draw(edge), draw(step)))
    kind = draw(st.integers(0, 3)) if extra else 3
    if kind == 0:
        # The missing items mean everything, with or without an ellipsis.
        items[draw(st.integers(0, len(items))) :] = draw(st.sampled_from([[], [...]]))
    elif kind == 1:
        start, stop = sorted(draw(st.tuples(st.integers(0, len(items)), st.integers(0, len(items)))))
        items[start:stop] = [...]
    return tuple(items)


@st.composite
def broadcastable(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Draws a shape that NumPy's assignment broadcasts to `shape`."""
    kept = shape[draw(st.integers(0, len(shape))) :] if draw(st.booleans()) else shape
    kept = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in kept)
    # Assignment, unlike arithmetic, also drops leading axes of length 1.
    return (1,) * draw(st.sampled_from([0, 0, 0, 1])) + kept if len(kept) == len(shape) else kept
