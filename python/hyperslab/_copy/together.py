"""Copying many nodes, or many objects, at once."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from hyperslab._copy.copy import CopyReport, copy
from hyperslab._core.group import Group
from hyperslab._create.open import open_group
from hyperslab._create.place import join_path, place_of
from hyperslab._stores.store import StoreLike
from hyperslab.errors import DestinationError, InvalidArgumentError

__all__ = ["copy_all", "copy_store"]


def copy_all(source: Group | StoreLike, dest: Group | StoreLike, **options: Any) -> CopyReport:
    """Copy all nodes of a group into another group, beside its existing nodes.

    Parameters
    ----------
    source : Group or store
    dest : Group or store
        The group to copy into. It must exist.
    **options
        As in `copy`.

    Returns
    -------
    CopyReport
        The report of all copies together.

    Examples
    --------
    >>> import hyperslab as hs
    >>> g, h = hs.create_group(hs.MemoryStore()), hs.create_group(hs.MemoryStore())
    >>> g["a"] = g["b/c"] = [1, 2]
    >>> hs.copy_all(g, h).arrays, sorted(h)
    (2, ['a', 'b'])
    """
    group = source if isinstance(source, Group) else open_group(source, mode="r")
    target = dest if isinstance(dest, Group) else open_group(dest, mode="r+")
    # Check all names before the first copy.
    for name in group:
        if name in target:
            raise DestinationError(f"cannot copy {name!r}: {target!r} has a node of this name")
    total = CopyReport(0, 0, 0, 0, 0, 0.0, None, ())
    for name, node in group.members():
        report = copy(node, target, name, **options)
        sums = {
            field: getattr(total, field) + getattr(report, field)
            for field in (
                "groups",
                "arrays",
                "bytes",
                "stored_before",
                "stored_after",
                "seconds",
                "notes",
                "skipped",
            )
        }
        if report.seconds_verified is not None:
            sums["seconds_verified"] = (total.seconds_verified or 0.0) + report.seconds_verified
        total = replace(total, **sums)
    return total


def copy_store(
    source: StoreLike,
    dest: StoreLike,
    source_path: str = "",
    dest_path: str = "",
    excludes: str | Iterable[str] = (),
    includes: str | Iterable[str] = (),
    if_exists: Literal["raise", "replace", "skip"] = "raise",
) -> tuple[int, int, int]:
    """Copy objects from one store to another unchanged.

    Unlike `copy`, this does not decode or change anything. Each object is held in memory as a
    whole. Until the end, the destination holds an incomplete copy.

    Parameters
    ----------
    source, dest : store
        As in `open`.
    source_path, dest_path : str, default ""
        Copy only the objects below ``source_path``, to ``dest_path``.
    excludes, includes : str or sequence of str, default ()
        Shell patterns of keys: ``"*.json"``. Keys that match an exclude are left out, unless they
        also match an include.
    if_exists : {"raise", "replace", "skip"}, default "raise"
        What to do with an existing object. ``"raise"`` checks all keys before copying anything.

    Returns
    -------
    tuple of int
        Objects copied, objects skipped, bytes copied.

    Examples
    --------
    >>> import hyperslab as hs
    >>> source, dest = hs.MemoryStore(), hs.MemoryStore()
    >>> z = hs.create_array(source, name="a", data=[1, 2, 3])
    >>> hs.copy_store(source, dest)[0], hs.open_array(dest, path="a")[:]
    (3, array([1, 2, 3]))
    """
    if if_exists not in ("raise", "replace", "skip"):
        raise InvalidArgumentError(f"if_exists: expected 'raise', 'replace' or 'skip', found {if_exists!r}")
    from_store, from_path = place_of(source, source_path, "r")
    to_store, to_path = place_of(dest, dest_path, "a")
    wanted = []
    for key in from_store.list(from_path):
        relative = key[len(from_path) :].lstrip("/")
        if _matches(relative, excludes) and not _matches(relative, includes):
            continue
        wanted.append((key, join_path(to_path, relative)))
    there = set() if if_exists == "replace" else set(to_store.list(to_path))
    if if_exists == "raise":
        for _, key in wanted:
            if key in there:
                raise DestinationError(f"cannot copy to {key!r} in {to_store.url}: there is an object")
    copied = skipped = size = 0
    for key, target in wanted:
        value = None if target in there else from_store.get(key)
        if value is None:
            skipped += 1
            continue
        to_store.set(target, value)
        copied, size = copied + 1, size + len(value)
    return copied, skipped, size


def _matches(key: str, patterns: str | Iterable[str]) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in every)
