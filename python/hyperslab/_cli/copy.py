"""Implements ``hyperslab copy`` with ``--scheduler``."""

from __future__ import annotations

import re
import signal
import sys
from typing import Any

from hyperslab import _native
from hyperslab._base.config import config
from hyperslab._base.progress import bytes_text, show_progress
from hyperslab._base.tasks import workers
from hyperslab._copy.plan import CopyPlan
from hyperslab._copy.planning import plan_copy
from hyperslab.errors import InvalidArgumentError, VerificationError

__all__ = ["copy"]


def copy(wanted: dict[str, Any]) -> int:
    """Make the copy, print the messages for the user, and return the exit code."""
    before = signal.signal(signal.SIGTERM, _on_terminate)
    try:
        _copy(wanted)
    except KeyboardInterrupt:
        _tell("interrupted; what is copied stays: go on with --resume")
        return 130
    except _Terminated:
        _tell("interrupted; what is copied stays: go on with --resume")
        return 143
    except BrokenPipeError:
        return 0
    except Exception as error:
        # Names from outside may hold any character. Keep the message on one line.
        text = _in_options(" ".join([str(error) or repr(error), *getattr(error, "__notes__", ())]))
        _tell("error: " + "".join(c if c.isprintable() else " " for c in text))
        return (
            3 if isinstance(error, VerificationError) else 2 if isinstance(error, InvalidArgumentError) else 1
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


# Python terms in messages of plans, and their replacements for the command line.
_WORDS = (
    (r"^target_region: ", "--target-region: "),
    (r"^dest: ", "DST: "),
    (r"^source: ", "SRC: "),
    (r"say where: target_region$", "say where: --target-region"),
    (r"with target_region", "with --target-region"),
)


def _in_options(text: str) -> str:
    text = _native.in_options(text)
    for found, here in _WORDS:
        text = re.sub(found, here, text)
    return text


class _Terminated(BaseException):
    pass


def _on_terminate(*_: Any) -> None:
    raise _Terminated


def _tell(text: str) -> None:
    print(f"hyperslab: {text}", file=sys.stderr)


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
