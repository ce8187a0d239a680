"""Implements ``hyperslab copy`` with ``--scheduler``."""

from __future__ import annotations

import sys
from typing import Any

from hyperslab._base.config import config
from hyperslab._base.progress import bytes_text, show_progress
from hyperslab._base.tasks import workers
from hyperslab._cli.guard import guarded
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.planning import plan_copy
from hyperslab.errors import InvalidArgumentError

__all__ = ["copy"]


def copy(wanted: dict[str, Any]) -> int:
    """Make the copy, print the messages for the user, and return the exit code."""
    return guarded(lambda: _copy(wanted), "what is copied stays: go on with --resume")


def _copy(wanted: dict[str, Any]) -> None:
    sources, destination = wanted.pop("sources"), wanted.pop("destination")
    source = sources[0] if len(sources) == 1 and wanted["concat"] is None else sources
    if isinstance(wanted["chunks"], list) and wanted["chunks"] and isinstance(wanted["chunks"][0], tuple):
        wanted["chunks"] = dict(wanted["chunks"])
    scheduler, resume = wanted.pop("scheduler"), wanted.pop("resume")
    explain, quiet = wanted.pop("explain"), wanted.pop("quiet")
    fsync, verify = wanted.pop("fsync"), wanted.pop("verify")
    memory_is_limit = wanted.pop("memory_is_limit")
    check = "contents" if wanted.pop("check_contents") else "stamps"
    config.fsync = config.fsync or fsync
    wanted["storage_options"] = dict(wanted["storage_options"]) or None
    if wanted["compressors"] is None:
        wanted["compressors"] = "keep"
    for name in ("region", "target_region"):
        wanted[name] = _slices(wanted[name])
    if wanted["target_region"] is not None:
        # The existing array has its own format.
        wanted["zarr_format"] = None
    with _client(scheduler) as client:
        plan = plan_copy(source, destination, workers=workers(client), **wanted)
        most = wanted["max_memory"]
        if memory_is_limit and plan.memory > most:
            raise InvalidArgumentError(
                f"--max-memory: {most} bytes are less than the {plan.memory} that a task needs"
            )
        if explain:
            print(plan)
            return
        _run(plan, client, quiet, resume=resume, check=check, verify=verify)


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidArgumentError("--scheduler needs dask: pip install distributed") from error
    return Client(address)


def _slices(region: list[Any] | None) -> Any:
    """Return a region from the command line as `plan_copy` takes it."""
    if region and isinstance(region[0][0], str):
        return {name: slice(*bounds) for name, bounds in region}
    return None if region is None else tuple(slice(*bounds) for bounds in region)


def _run(plan: CopyPlan, client: Any, quiet: bool, **wanted: Any) -> None:
    shows = sys.stderr.isatty() and not quiet
    with show_progress(shows, stays=False) as progress:
        run = plan.run(client, progress=progress, **wanted)
    if quiet:
        return
    for note in plan.notes:
        print(f"note: {note}")
    for path, why in plan.skipped:
        print(f"left out {path}: {why}")
    groups = f" in {_count(run.groups, 'group')}" if run.groups else ""
    done = f", {run.skipped:,} done before" if run.skipped else ""
    verified = "" if run.seconds_verified is None else f"; verified in {run.seconds_verified:.2f} s"
    print(
        f"copied {_count(run.arrays, 'array')}{groups}: {bytes_text(run.bytes)} in "
        f"{_count(run.tasks, 'task')}{done}, {run.seconds:.2f} s{verified}"
    )


def _count(n: int, noun: str) -> str:
    """Return a count as text, like ``3 tasks``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
