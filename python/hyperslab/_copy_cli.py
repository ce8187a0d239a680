"""``hyperslab copy`` with ``--resume`` or ``--scheduler``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from hyperslab._config import config
from hyperslab._copy_plan import CopyPlan, bytes_text, count_text, plan_copy
from hyperslab._tasks import workers
from hyperslab.errors import InvalidArgumentError

__all__ = ["copy"]


def copy(wanted: dict[str, Any]) -> int:
    """Make the copy; return the exit code. Prints what the user is to see."""
    before = signal.signal(signal.SIGTERM, _terminated)
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
        # Names from outside may hold anything; a message stays one line.
        text = " ".join([str(error) or repr(error), *getattr(error, "__notes__", ())])
        _tell("error: " + "".join(c if c.isprintable() else " " for c in text))
        return 2 if isinstance(error, InvalidArgumentError) else 1
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


class _Terminated(BaseException):
    pass


def _terminated(*_: Any) -> None:
    raise _Terminated


def _tell(text: str) -> None:
    print(f"hyperslab: {text}", file=sys.stderr)


def _copy(wanted: dict[str, Any]) -> None:
    source, destination = wanted.pop("source"), wanted.pop("destination")
    scheduler, resume = wanted.pop("scheduler"), wanted.pop("resume")
    explain, quiet = wanted.pop("explain"), wanted.pop("quiet")
    fsync = wanted.pop("fsync")
    config.fsync = config.fsync or fsync
    if wanted["compressors"] is None:
        wanted["compressors"] = "keep"
    with nullcontext() if scheduler is None else _client(scheduler) as client:
        plan = plan_copy(source, destination, workers=workers(client), **wanted)
        if explain:
            print(plan)
            return
        _run(plan, client, resume, quiet)


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidArgumentError("--scheduler needs dask: pip install distributed") from error
    return Client(address)


def _run(plan: CopyPlan, client: Any, resume: bool, quiet: bool) -> None:
    shows = sys.stderr.isatty() and not quiet
    try:
        run = plan.run(client, resume=resume, progress=_bar() if shows else None)
    finally:
        if shows:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    if quiet:
        return
    for note in plan.notes:
        print(f"note: {note}")
    for path, why in plan.skipped:
        print(f"left out {path}: {why}")
    groups = f" in {count_text(run.groups, 'group')}" if run.groups else ""
    done = f", {run.skipped:,} done before" if run.skipped else ""
    print(
        f"copied {count_text(run.arrays, 'array')}{groups}: {bytes_text(run.bytes)} in "
        f"{count_text(run.tasks, 'task')}{done}, {run.seconds:.2f} s"
    )


def _bar() -> Callable[..., None]:
    def show(_: str, done: int, total: int) -> None:
        share = done / total if total else 1.0
        text = f"copying {bytes_text(done)} of {bytes_text(total)}, {share:.0%}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    return show
