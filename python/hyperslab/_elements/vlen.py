"""Variable-length element types: text, bytes, arrays, objects."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab._elements.hdf5_types import metadata_entry
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

__all__ = ["OBJECTS", "Kind", "kind_of", "objects_array", "vlen_dtype"]

Kind: TypeAlias = Literal["text", "bytes", "items", "json2", "msgpack2"]

# Kinds of objects, by the names of their codecs.
OBJECTS = ("json2", "msgpack2")


def vlen_dtype(base: npt.DTypeLike | type[str] | type[bytes]) -> np.dtype[Any]:
    """Return the data type of variable-length arrays, as in h5py.

    It is ``object`` with ``base`` in its metadata.

    Parameters
    ----------
    base : data type
        Type of the arrays' items. The classes `str` and `bytes` stand for elements of text or
        bytes.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.vlen_dtype("i4").metadata["vlen"]
    dtype('int32')
    """
    inner = base if base is str or base is bytes else np.dtype(base)
    return np.dtype("O", metadata={"vlen": inner})


def kind_of(dtype: np.dtype[Any]) -> tuple[Kind | None, np.dtype[Any] | None]:
    """Return the kind of the elements, and the item type of arrays.

    The kind is ``None`` for elements of fixed size, and for objects of unknown kind.
    """
    if dtype.kind == "T":
        return "text", None
    if dtype.kind == "O" and (kind := metadata_entry(dtype, "objects")) in OBJECTS:
        return kind, None
    inner = metadata_entry(dtype, "vlen") if dtype.kind == "O" else None
    if inner is str:
        return "text", None
    if inner is bytes:
        return "bytes", None
    return (None, None) if inner is None else ("items", np.dtype(inner))


def type_of(kind: Kind, item: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the data type of elements of a kind."""
    if kind == "text":
        return np.dtypes.StringDType()
    if kind in OBJECTS:
        return np.dtype("O", metadata={"objects": kind})
    return vlen_dtype(bytes if kind == "bytes" or item is None else item)


def objects_array(values: Any, ndim: int) -> npt.NDArray[Any]:
    """Return values as an array of objects. The outer ``ndim`` levels of lists become axes."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ArgumentTypeError("masked objects have no value to write: fill them before: values.filled(…)")
    if isinstance(values, (list, tuple)):
        shape: list[int] = []
        level: Any = values
        while isinstance(level, (list, tuple)) and len(shape) < ndim:
            shape.append(len(level))
            level = level[0] if level else None
        made = np.empty(shape, object)
        _place(made, values, ())
        return made
    if isinstance(values, np.generic):
        values = values.item()
    elif hasattr(values, "__array__"):
        return np.asarray(np.asarray(values).astype(object))
    made = np.empty((), object)
    made[()] = values
    return made


def _place(made: npt.NDArray[Any], values: Any, at: tuple[int, ...]) -> None:
    """Put the values of nested lists into an array of their shape."""
    depth = len(at)
    if depth == made.ndim:
        made[at] = values
        return
    if not isinstance(values, (list, tuple)) or len(values) != made.shape[depth]:
        raise InvalidArgumentError(f"lists of level {depth} differ in length: they make no array")
    for index, value in enumerate(values):
        _place(made, value, (*at, index))
