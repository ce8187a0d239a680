"""Caches of decoded chunks."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

from hyperslab import _native
from hyperslab._base.config import parse_size

__all__ = ["Cache", "CacheLike", "resolve_cache"]


class Cache(_native.CacheBase):
    """Keeps decoded chunks, so that repeated reads of small parts decode nothing.

    For one array or group, pass ``cache="64 MiB"`` when you open it. To share one cache, pass the
    same ``Cache`` to each of them.

    A read never returns outdated data. Before a cached chunk is used, one system call asks the
    store whether its object is still the same. Changes by this and other processes therefore show
    at once. Only chunks with codecs are cached. Chunks of a file are cached only if the file was
    last changed more than two seconds before the read. File systems with possibly stale metadata
    (NFS, SMB, FUSE) are excluded. A read that touches more than the cache can hold caches nothing.

    Parameters
    ----------
    limit : int or str
        Maximum bytes to keep: ``"64 MiB"``, ``1 << 26``. Each chunk counts as its size plus 512
        bytes.

    Examples
    --------
    >>> import hyperslab as hs, numpy as np
    >>> cache = hs.Cache("64 MiB")
    >>> store = hs.MemoryStore()
    >>> z = hs.create_array(store, name="sst", data=np.arange(60_000).reshape(200, 300), chunks=(100, 100))
    >>> z = hs.open_array(store, path="sst", cache=cache)
    >>> [int(z[0, column]) for column in (5, 7, 250)]
    [5, 7, 250]
    >>> cache.hits, cache.misses
    (1, 2)
    """

    def __new__(cls, limit: int | str) -> Self:
        return super().__new__(cls, parse_size(limit))

    def __repr__(self) -> str:
        return f"Cache({self.limit}, nbytes={self.nbytes}, hits={self.hits}, misses={self.misses})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Chunks are not pickled: another process gets an empty cache of the same size.
        return type(self), (self.limit,)


CacheLike: TypeAlias = Cache | int | str
"""Ways to give a cache: a `Cache`, or the size of a new one."""


def resolve_cache(cache: CacheLike | None) -> Cache | None:
    """Return the cache that an argument stands for."""
    if cache is None or isinstance(cache, Cache):
        return cache
    try:
        return Cache(cache)
    except (TypeError, ValueError) as error:
        raise type(error)(f"cache: {error}") from None
