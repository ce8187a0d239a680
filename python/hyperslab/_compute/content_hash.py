"""Hashes of values and attributes, as printed by `hyperslab hash`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hyperslab import _native
from hyperslab._base.progress import show_progress
from hyperslab._core.array_common import AnyArray
from hyperslab._core.group_common import AnyGroup
from hyperslab.errors import ArgumentTypeError

if TYPE_CHECKING:
    from hyperslab._core.array import Array
    from hyperslab._core.group import Group
    from hyperslab._hdf5.array import FileArray
    from hyperslab._hdf5.group import FileGroup
    from hyperslab._stores.store import StoreLike

__all__ = ["ContentHash", "content_hash"]

Progress: TypeAlias = Callable[[Literal["read"], int, int], object]


@dataclass(frozen=True)
class ContentHash:
    """The hash of an array or of a group; made by `hyperslab.content_hash`.

    Two are equal if their `hash` is.
    """

    hash: str
    """The hash of everything, in hexadecimal."""
    arrays: dict[str, str] = field(compare=False)
    """The hash of each array, by its path. An array that was hashed alone has the path ``""``."""
    groups: dict[str, str] = field(compare=False)
    """The hash of each group and everything below it, by its path; ``""`` is the group itself."""
    unreadable: dict[str, list[str]] = field(compare=False, repr=False)
    """Names of attributes that cannot be read, by the path of their node. They are not hashed."""
    _json: str = field(compare=False, repr=False)

    def __str__(self) -> str:
        """Return the hash in hexadecimal."""
        return self.hash

    def to_json(self) -> str:
        """Return everything as JSON, for `from_json`."""
        return self._json

    @classmethod
    def from_json(cls, text: str) -> ContentHash:
        """Read what `to_json` returned.

        Examples
        --------
        >>> found = hs.content_hash(hs.array([1, 2, 3]))
        >>> hs.ContentHash.from_json(found.to_json()) == found
        True
        """
        facts = json.loads(text)
        by_kind: dict[str, dict[str, str]] = {"array": {}, "group": {}}
        for node in facts["nodes"]:
            by_kind[node["kind"]][node["path"]] = node["hash"]
        unreadable = {node["path"]: node["unreadable"] for node in facts["nodes"] if "unreadable" in node}
        return cls(facts["hash"], by_kind["array"], by_kind["group"], unreadable, text)


def content_hash(
    source: Array | FileArray | Group | FileGroup | StoreLike,
    *,
    appended_to: ContentHash | None = None,
    max_memory: int | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> ContentHash:
    """Hash values and attributes of an array, or of a group and everything below it.

    The hash does not depend on format, chunks, shards, codecs, byte order or the number of threads.
    A NetCDF file and its copies in Zarr have one hash. The page `content-hash` defines the hash.

    Parameters
    ----------
    source : array, group, store, or path
        What to hash. Paths and stores are opened for reading.
    appended_to : ContentHash, optional
        The hash of an earlier state. Arrays that have got more rows since, along their first axis, are
        read from the first new row on. Their earlier elements are trusted to be as they were.
    max_memory : int, optional
        Bytes of elements in memory. Default: 512 MiB. With less, chunks may be decoded several times.
    threads : int, optional
        Default: ``config.threads``.
    progress : callable, or True, optional
        Called as ``progress("read", bytes_done, bytes_in_all)``. ``True`` shows a bar on standard
        error.

    Returns
    -------
    ContentHash
        The hash of everything, of each array and of each group.

    Examples
    --------
    >>> a = hs.create_array(hs.MemoryStore(), data=np.arange(6.0).reshape(2, 3), chunks=(1, 2))
    >>> b = hs.create_array(hs.MemoryStore(), data=a[:].astype(">f8"), chunks=(2, 3), zarr_format=2)
    >>> hs.content_hash(a) == hs.content_hash(b)
    True
    >>> before = hs.content_hash(a)
    >>> a.append([[6.0, 7.0, 8.0]])
    (3, 3)
    >>> hs.content_hash(a, appended_to=before) == hs.content_hash(a)
    True
    """
    node: Any = source
    if not isinstance(node, (AnyArray, AnyGroup)):
        from hyperslab._create.open import open

        node = open(os.fspath(node) if isinstance(node, os.PathLike) else node, mode="r")
    if appended_to is not None and not isinstance(appended_to, ContentHash):
        raise ArgumentTypeError(
            f"appended_to: expected a hash of hyperslab.content_hash, found {type(appended_to).__name__}"
        )
    earlier = None if appended_to is None else appended_to.to_json()
    with show_progress(progress) as callback:
        return ContentHash.from_json(
            _native.content_hash(node._handle, earlier, max_memory, threads, callback)
        )
