"""Element types of variable length: text, bytes, arrays."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyperslab._hdf5_types import noted

__all__ = ["Kind", "kind_of", "vlen_dtype"]

Kind: TypeAlias = Literal["text", "bytes", "items"]


def vlen_dtype(base: npt.DTypeLike | type[str] | type[bytes]) -> np.dtype[Any]:
    """The data type of arrays of variable length, as in h5py: ``object``, with ``base`` in its metadata.

    Parameters
    ----------
    base : data type
        Of what the arrays hold. `str` and `bytes` (the classes): elements are text, or bytes.

    Examples
    --------
    >>> import hyperslab as hs
    >>> hs.vlen_dtype("i4").metadata["vlen"]
    dtype('int32')
    """
    inner = base if base is str or base is bytes else np.dtype(base)
    return np.dtype("O", metadata={"vlen": inner})


def kind_of(dtype: np.dtype[Any]) -> tuple[Kind | None, np.dtype[Any] | None]:
    """What elements of this type are, and the type of the items of arrays. ``None``: they have one size, or
    are objects of which nothing is said.
    """
    if dtype.kind == "T":
        return "text", None
    inner = noted(dtype, "vlen") if dtype.kind == "O" else None
    if inner is str:
        return "text", None
    if inner is bytes:
        return "bytes", None
    return (None, None) if inner is None else ("items", np.dtype(inner))


def type_of(kind: Kind, item: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The data type of elements of a kind."""
    if kind == "text":
        return np.dtypes.StringDType()
    return vlen_dtype(bytes if kind == "bytes" or item is None else item)
