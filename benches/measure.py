"""Measures one case: checks all contenders, then lets them take turns."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import common
from contenders import PEERS, Cannot, Contender
from operations import Operation, Place, Work, WrongValues
from rows import Case

# The most samples per contender. A case sets the fewest.
MOST_ROUNDS = 25
QUICK_ROUNDS = 2
# The least duration of one sample in seconds. Shorter work is repeated within it.
SAMPLE, QUICK_SAMPLE = 0.02, 0.001


def measure(
    case: Case, place: Place, contenders: list[Contender], *, quick: bool, fixed_rounds: int | None = None
) -> dict[str, Any]:
    """Times one case for all contenders that can do it. The result is ready for JSON."""
    works, cannot = prepare_all(case, place, contenders)
    drop_caches, cold = cache_dropper(place.source) if case.cold else (None, None)
    sample = QUICK_SAMPLE if quick else SAMPLE
    loops = {name: 1 if case.cold else loops_for(work, sample) for name, work in works.items()}
    samples: dict[str, list[float]] = {name: [] for name in works}
    least, most = (case.rounds, MOST_ROUNDS)
    if wanted := fixed_rounds or (QUICK_ROUNDS if quick else None):
        least = most = wanted
    rounds, start = least, time.perf_counter()
    gc.collect()
    gc.disable()
    for number, name in common.turns(works, most):
        if number >= rounds:
            break
        if number == -1:
            # The checks have already warmed everything up.
            continue
        if drop_caches:
            drop_caches()
        samples[name].append(one_sample(works[name], loops[name]) / loops[name])
        if number == 0:
            rounds = max(least, min(most, int(case.budget / (time.perf_counter() - start))))
    gc.enable()
    return {
        "row": case.row,
        "variant": case.variant,
        "about": case.about,
        "format": case.spec.format,
        "bytes": case.operation.size(case.spec),
        "calls": case.operation.calls(case.spec),
        "targets": [asdict(target) for target in case.targets],
        "series": case.series,
        "cold": cold,
        "seconds": samples,
        "cannot": cannot,
    }


def prepare_all(
    case: Case, place: Place, contenders: list[Contender]
) -> tuple[dict[str, Work], dict[str, str]]:
    """Returns the work of each contender, run and checked once, and why some cannot do it."""
    operation = case.operation
    makers: dict[str, Callable[[], dict[str, Work]]] = {}
    for contender in contenders:
        if case.spec.format not in contender.formats:
            continue
        makers[contender.name] = partial(work_of, operation, place, contender)
        if contender.name == "hyperslab":
            makers["extras"] = partial(operation.extras, place, contender)
    makers["limit"] = partial(operation.limits, place)

    works: dict[str, Work] = {}
    installed = {contender.name for contender in contenders}
    cannot = {name: "not installed" for name in PEERS[case.spec.format] if name not in installed}
    for name, make in makers.items():
        try:
            made = make()
            for work in made.values():
                run_once(work)
                work.check()
                work.clean_up()
            works |= made
        except WrongValues:
            raise
        except Cannot as error:
            cannot[name] = str(error)
        except Exception as error:
            if name in ("hyperslab", "extras", "limit"):
                raise
            cannot[name] = reason(error)
    return works, cannot


def work_of(operation: Operation, place: Place, contender: Contender) -> dict[str, Work]:
    """Returns the work of one contender by its name."""
    return {contender.name: operation.work(place, contender)}


def reason(error: Exception) -> str:
    """Describes an exception in a few words."""
    text = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:100].rstrip(": ")


def run_once(work: Work) -> float:
    """Runs the work once and returns the time."""
    state = work.prepare()
    start = time.perf_counter()
    work.once(state)
    return time.perf_counter() - start


def loops_for(work: Work, sample: float) -> int:
    """Returns how often the work must run to fill a sample."""
    if work.many is None:
        return 1
    taken = run_once(work)
    if taken < sample:
        # A second run predicts the later runs better.
        taken = min(taken, run_once(work))
    return max(1, int(sample / taken))


def one_sample(work: Work, loops: int) -> float:
    """Returns the time of `loops` runs."""
    try:
        if work.many is None:
            return run_once(work)
        start = time.perf_counter()
        work.many(loops)
        return time.perf_counter() - start
    finally:
        work.clean_up()


# --------------------------------------------------------------------------------------- cold files


def cache_dropper(source: Path) -> tuple[Callable[[], None], str]:
    """Returns a function that drops an array's files from the page cache, and how it does so."""
    os.sync()
    everything = Path("/proc/sys/vm/drop_caches")

    def drop_everything() -> None:
        everything.write_text("3\n")

    def drop_files() -> None:
        for path in source.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    try:
        drop_everything()
    except OSError:
        if not hasattr(os, "posix_fadvise"):
            return (lambda: None), "not cold: this system does not let its caches be dropped"
        return drop_files, "posix_fadvise per file"
    return drop_everything, "drop_caches"
