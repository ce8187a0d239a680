"""New arrays like existing ones, without their values."""

from __future__ import annotations

from typing import Any, Literal

from hyperslab._core.arguments import DEFAULT_FILL_VALUE, normalize_format
from hyperslab._core.array import Array
from hyperslab._create.convenience import create, ones, zeros
from hyperslab._create.like import is_zarr_array, layout_of
from hyperslab._create.open import open_array

__all__ = ["empty_like", "full_like", "ones_like", "open_like", "zeros_like"]

ZarrFormat = Literal[2, 3]

# Arguments of `create` that set codecs. If one is given, no codec of the other array is used.
_CODECS = ("codecs", "compressor", "compressors", "filters", "serializer")


def empty_like(a: Any, *, zarr_format: ZarrFormat | None = None, **kwargs: Any) -> Array:
    """Create an array of its fill value, like another array.

    Takes shape, data type and chunks from the other array. From a Zarr array also shards, order and
    fill value, and codecs if the format stays the same. Attributes are not copied.

    Parameters
    ----------
    a : array-like
        The other array: a NumPy or Zarr array, or anything with a shape and a data type.
    zarr_format : {2, 3}, optional
        Default: the format of a Zarr array, otherwise ``config.default_zarr_format``.
    **kwargs
        Arguments of `create`. They override the properties of ``a``.

    Examples
    --------
    >>> import hyperslab as hs
    >>> z = hs.full((4, 6), 7, chunks=(2, 3), dtype="i2")
    >>> like = hs.empty_like(z, shape=(8, 6))
    >>> like.shape, like.chunks, like.dtype, like[0, 0]
    ((8, 6), (2, 3), dtype('int16'), np.int16(7))
    """
    return create(**_arguments(a, zarr_format, kwargs))


def full_like(a: Any, *, zarr_format: ZarrFormat | None = None, **kwargs: Any) -> Array:
    """Create an array like another one, with a ``fill_value``; see `empty_like`.

    As in zarr-python, the default is a Zarr array's own fill value. For other arrays the argument
    is required.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> hs.full_like(np.zeros(3), fill_value=1.5)[:]
    array([1.5, 1.5, 1.5])
    """
    arguments = _arguments(a, zarr_format, kwargs)
    if "fill_value" not in arguments:
        raise TypeError("full_like() missing 1 required keyword-only argument: 'fill_value'")
    return create(**arguments)


def zeros_like(a: Any, *, zarr_format: ZarrFormat | None = None, **kwargs: Any) -> Array:
    """Create an array of zeros like another one; see `empty_like`."""
    return zeros(**_arguments(a, zarr_format, kwargs, fill=False))


def ones_like(a: Any, *, zarr_format: ZarrFormat | None = None, **kwargs: Any) -> Array:
    """Create an array of ones like another one; see `empty_like`."""
    return ones(**_arguments(a, zarr_format, kwargs, fill=False))


def open_like(a: Any, path: str, *, zarr_format: ZarrFormat | None = None, **kwargs: Any) -> Array:
    """Open the array at a path of ``store``, or create it like another one if it is missing.

    Parameters
    ----------
    a : array-like
        As in `empty_like`.
    path : str
        The path in ``store``.
    zarr_format : {2, 3}, optional
        As in `open_array`; for a new array as in `empty_like`.
    **kwargs
        Arguments of `open_array`, including ``store``. ``mode`` is ``a`` by default.

    Examples
    --------
    >>> import hyperslab as hs
    >>> store = hs.MemoryStore()
    >>> z = hs.open_like(hs.zeros((2, 3), dtype="u1"), "a", store=store)
    >>> z.shape, hs.open_like(z, "a", store=store) == z
    ((2, 3), True)
    """
    arguments = _arguments(a, zarr_format, kwargs)
    # An existing array may have either format.
    arguments["zarr_format"] = zarr_format
    if arguments.get("mode") is None:
        arguments["mode"] = "a"
    return open_array(path=path, **arguments)


def _arguments(
    a: Any, zarr_format: ZarrFormat | None, given: dict[str, Any], fill: bool = True
) -> dict[str, Any]:
    """Return arguments of `create` for an array like another one."""
    found: dict[str, Any] = {}
    chunks = None if is_zarr_array(a) else getattr(a, "chunks", None)
    for name in ("shape", "dtype"):
        if hasattr(a, name):
            found[name] = getattr(a, name)
    if is_zarr_array(a):
        zarr_format = normalize_format(zarr_format or a.metadata.zarr_format)
        wanted = {name: "keep" for name in ("chunks", "shards", "filters", "compressors", "serializer")}
        found |= layout_of(a, zarr_format, wanted)
        if fill and (a.fill_value is not None or zarr_format == 2):
            found["fill_value"] = a.fill_value
        if zarr_format == a.metadata.zarr_format == 2:
            found["order"] = a.order
        if any(name in given for name in _CODECS):
            found = {name: value for name, value in found.items() if name not in _CODECS}
    elif isinstance(chunks, tuple) and len(chunks) == len(found.get("shape", ())) and _are_sizes(chunks):
        found["chunks"] = chunks
    if "chunks" in given or "chunk_shape" in given:
        # Shards for other chunks may not fit.
        found = {name: value for name, value in found.items() if name not in ("chunks", "shards")}
    found["zarr_format"] = zarr_format
    if found.get("fill_value", 0) is DEFAULT_FILL_VALUE:
        del found["fill_value"]
    return {**found, **given}


def _are_sizes(chunks: tuple[Any, ...]) -> bool:
    return all(isinstance(n, int) for n in chunks)
