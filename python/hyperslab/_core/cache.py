"""Caches of decoded chunks."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

from hyperslab import _native
from hyperslab._base.config import parse_size

__all__ = ["Cache", "CacheLike", "resolve_cache"]


class Cache(_native.CacheBase):
    """Keeps decoded chunks, so that reading small parts of the same chunks again decodes nothing.

    For one array or group, ``cache="64 MiB"`` is enough where it is opened. Several share the room of a
    ``Cache`` that is given to each of them.

    A read never gives what is outdated: before a kept chunk is used, the store is asked (one system call)
    whether its object is still the one that was read. Changes by this process and by others show at once.
    Only chunks with codecs are kept, and of files only those that were last changed more than two seconds
    before they were read, on file systems whose answers are current (not on NFS, SMB, FUSE). A read that
    touches more than the cache holds keeps nothing.

    Parameters
    ----------
    limit : int or str
        The most bytes that it keeps: ``"64 MiB"``, ``1 << 26``. Each chunk counts 512 bytes besides its own.

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
        # Chunks stay behind: another process gets an empty cache of the same size.
        return type(self), (self.limit,)


CacheLike: TypeAlias = Cache | int | str
"""What a cache can be given as: a `Cache`, or the size of a new one."""


def resolve_cache(cache: CacheLike | None) -> Cache | None:
    """The cache that an argument means."""
    if cache is None or isinstance(cache, Cache):
        return cache
    try:
        return Cache(cache)
    except (TypeError, ValueError) as error:
        raise type(error)(f"cache: {error}") from None
