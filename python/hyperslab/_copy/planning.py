"""Makes plans of copies: `plan_copy`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal

from hyperslab import _native
from hyperslab._base.config import parse_size
from hyperslab._copy.copy import RegionLike, check_into, copy_region, existing_target, wanted_copy
from hyperslab._copy.joined import join, locations_of, places_of, variable_names
from hyperslab._copy.locations import (
    is_remote,
    location,
    location_of_node,
    readable,
    session_location,
    session_place,
)
from hyperslab._copy.plan import CopyPlan, CopyPrices, plan_of
from hyperslab._core.arguments import CopyCrew
from hyperslab._core.array import Array
from hyperslab._core.group import Group
from hyperslab._create.open import open
from hyperslab._stores.store import LocalStore, StoreLike, resolve_store
from hyperslab.codecs import CodecsLike
from hyperslab.errors import InvalidArgumentError, UnsupportedError, ZarrUserWarning

__all__ = ["plan_copy"]


def plan_copy(
    source: Array | Group | StoreLike | Iterable[Array | Group | StoreLike],
    dest: Array | StoreLike,
    *,
    concat: str | None = None,
    sort: bool = False,
    variables: Iterable[str] | None = None,
    region: RegionLike | None = None,
    target_region: RegionLike | None = None,
    chunks: Iterable[int | None] | Mapping[str, int | None] | None = None,
    shards: Iterable[int | None] | Literal["keep", "auto"] | None = "keep",
    compressors: CodecsLike | str = "keep",
    order: Literal["C", "F"] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    threads: int | None = None,
    max_memory: int | str = "2 GiB",
    workers: int = 8,
    task_size: int | str = "128 MiB",
    skip_unsupported: bool = False,
    consolidated: bool = True,
    overwrite: bool = False,
    prices: CopyPrices | Mapping[str, float] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CopyPlan:
    """Plan a copy by many processes, of an array or of a group with everything below it.

    Reads only metadata and writes nothing. The plan lists the tasks, what they read, decode and
    write, and their memory. `CopyPlan.run` executes it in this process, on an executor or on a
    cluster.

    Parameters
    ----------
    source : Array, Group, or store
        The node to copy, or a path or URL. All processes must reach it by that path or URL. Or a
        node in a session of Icechunk, with the session's changes so far.
    dest : store, or Array
        The destination: a path, or the URL of a server. Nothing may exist there, unless
        ``overwrite`` is set. With ``target_region``, an existing array. Or the store of a writable
        session of Icechunk, or a `StorePath` in it: commit the session yourself after the run.
    concat, sort, variables
        As in `copy`. All processes must reach all sources. They are compared once, here.
    region, target_region
        As in `copy`. Any number of plans may work on one array at a time: regions begin and end at
        chunk boundaries, so they share no chunk.
    chunks, shards, compressors, order, zarr_format, skip_unsupported, consolidated
        As in `copy`.
    threads : int, optional
        Maximum threads per task. Default: ``config.threads``.
    max_memory : int or str, default "2 GiB"
        Approximate memory per task. A worker that runs several tasks at a time uses it several
        times.
    workers : int, default 8
        Number of tasks that run at a time. Blocks of a small array are made smaller than memory
        allows, so that each worker has one. This is done if it is faster, even though chunks are
        decoded more often.
    task_size : int or str, default "128 MiB"
        Minimum bytes of elements per task. Small tasks have more overhead; large tasks mean more
        work to redo when a worker dies. A worker gets at most one 50 000th of a stage at a time (at
        least a task), and notes its progress every half minute.
    overwrite : bool, default False
        Whether to replace an array or group at the destination. On disk, the finished copy replaces
        it in one step. On a server, it is deleted when the run begins, metadata first.
    prices : CopyPrices or mapping, optional
        What requests to a server and workers cost. The cheapest plan is taken.
    storage_options : mapping, optional
        Server options for ``source`` and ``dest`` if they are URLs of a server (see `open`). They
        are sent to workers, but not written to the journal.

    Returns
    -------
    CopyPlan

    Warns
    -----
    ZarrUserWarning
        If the plan is ten times dearer than another one, which needs more memory or space. The
        message names it.

    Examples
    --------
    >>> import hyperslab as hs, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> shape = (100_000, 1000, 1000)
    >>> z = hs.create_array(f"{folder}/a.zarr", shape=shape, chunks=(1, 1000, 1000), dtype="f4")
    >>> plan = hs.plan_copy(z, f"{folder}/b.zarr", chunks=(100, 100, 100), compressors="zstd")
    >>> plan.tasks, plan.chunks_decoded / plan.chunks
    (1000, 1.0)
    """
    names = variable_names(variables)
    source_place = session_place(source) if concat is None else None
    session = session_place(dest)
    node: Any
    if concat is not None:
        places = locations_of(places_of(source))
        node = join(places, concat, bool(sort), names, storage_options, threads)
        sources = [place for place, _ in _native.joined_sources(node._handle)]
        origin = sources[0] if len(sources) == 1 else f"{sources[0]} … {sources[-1]}"
    elif isinstance(source, (list, tuple)):
        raise InvalidArgumentError("source: to join a list, name the dimension: concat='time'")
    elif source_place is not None:
        source_place = readable(source_place)
        origin = session_location(source_place)
        node = source if isinstance(source, (Array, Group)) else open(source_place, mode="r")
    else:
        given: Any = source
        origin = location_of_node(given) if isinstance(given, (Array, Group)) else location(given)
        node = (
            source
            if isinstance(source, (Array, Group))
            else open(origin, mode="r", storage_options=storage_options if is_remote(origin) else None)
        )
    target = None
    if target_region is not None:
        check_into(chunks, shards, compressors, order, overwrite, zarr_format)
        target = existing_target(dest, storage_options)
        destination = location_of_node(target)
    elif isinstance(dest, Array):
        raise InvalidArgumentError("dest: to copy into an array that exists, say where: target_region")
    elif session is not None:
        destination = session_location(session)
        if zarr_format == 2:
            raise UnsupportedError("zarr_format: sessions of Icechunk hold Zarr v3")
        zarr_format, consolidated = 3, False
    else:
        destination = location(dest)
    wanted = wanted_copy(chunks, shards, compressors, order, zarr_format, threads, max_memory, region, names)
    wanted["overwrite"] = bool(overwrite)
    wanted["skip_unsupported"] = bool(skip_unsupported)
    wanted["consolidated"] = bool(consolidated)
    # A directory, a server, or None for a session.
    site: Any = None
    if session is None and is_remote(destination):
        site = resolve_store(destination, storage_options)[0]._native
    elif session is None:
        store, path = resolve_store(destination)
        if not isinstance(store, LocalStore):
            raise UnsupportedError(
                f"dest: a cluster writes to a directory or a server, found {store.url}; use hyperslab.copy"
            )
        destination = site = str(store.root / path) if path else str(store.root)
    least = parse_size(task_size)
    if least < 1:
        raise InvalidArgumentError(f"task_size: expected at least 1 byte, found {task_size!r}")
    if workers < 1:
        raise InvalidArgumentError(f"workers: expected at least 1, found {workers}")
    if not isinstance(prices, CopyPrices):
        prices = _prices(prices)
    crew: CopyCrew = {
        "workers": workers,
        "size": least,
        "put": prices.put,
        "get": prices.get,
        "storage": prices.storage,
        "egress": prices.egress,
        "worker": prices.worker,
    }
    into = None if target is None else (target._handle, copy_region(target_region, "target_region") or [])
    ends = (origin, destination, concat)
    plan = plan_of(
        _native.plan_tasks(node._handle, ends, into, site, crew, wanted),
        storage_options,
        source_place,
        session,
    )
    for array in [array for array in plan.arrays if array.advice][:3]:
        warnings.warn(f"/{array.path}: {array.advice}", ZarrUserWarning, stacklevel=2)
    return plan


def _prices(given: Mapping[str, float] | None) -> CopyPrices:
    unknown = set(given or ()) - {each.name for each in fields(CopyPrices)}
    if unknown:
        names = ", ".join(each.name for each in fields(CopyPrices))
        raise InvalidArgumentError(f"prices: expected some of {names}, found {sorted(unknown)}")
    return CopyPrices(**(given or {}))
