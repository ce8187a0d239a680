"""The text of copy plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hyperslab._base.progress import bytes_text
from hyperslab._copy.locations import is_remote

if TYPE_CHECKING:
    from hyperslab._copy.plan import CopyPlan

__all__ = ["count_text", "lines"]


def lines(plan: CopyPlan) -> Iterator[str]:
    tasks = ", then ".join(count_text(len(stage), "task") for stage in plan.stages) or "no tasks"
    if plan.concat is not None:
        yield f"join {count_text(len(plan.sources), 'source')} along {plan.concat}"
    yield f"copy {plan.source} {'into' if plan.is_into else 'to'} {plan.destination}"
    for array in [one for one in plan.arrays if any(one.from_start) or any(one.to_start)][:5]:
        ends = zip(array.from_start, array.shape, strict=True)
        part = ", ".join(f"{start}:{start + n}" for start, n in ends)
        place = ", ".join(f"{start}:" for start in array.to_start)
        yield f"  region   /{array.path}[{part}]" + (f" to [{place}]" if plan.is_into else "")
    groups = count_text(plan.groups, "group")
    yield f"  arrays   {len(plan.arrays)} in {groups}, {bytes_text(plan.bytes)} in memory"
    yield f"  tasks    {tasks}; then metadata"
    yield f"  reads    at most {bytes_text(plan.bytes_read)}"
    yield f"  writes   at most {bytes_text(plan.bytes_written)}"
    if plan.chunks:
        times = plan.chunks_decoded / plan.chunks
        yield f"  decodes  {plan.chunks_decoded:,} chunks: each of {plan.chunks:,} {_times(times)}"
    yield f"  memory   at most {bytes_text(plan.memory)} a task"
    if plan.temporary_bytes:
        where = "on its server" if is_remote(plan.destination) else "beside the destination"
        yield f"  through  temporary arrays of {bytes_text(plan.temporary_bytes)} {where}"
    if plan.gets or plan.puts:
        yield f"  requests about {plan.gets:,} reads and {plan.puts:,} writes: ${plan.dollars:,.2f}"
    yield f"  takes    about {_hours(plan.hours)} with {count_text(plan.workers, 'worker')}"
    reasons: dict[str, list[str]] = {}
    for array in plan.arrays:
        reasons.setdefault(array.why, []).append(f"/{array.path}")
    for why, paths in list(reasons.items())[:5]:
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        yield f"  why      {', '.join(paths[:3])}{more}: {why}"
    for array in [array for array in plan.arrays if array.advice][:3]:
        yield f"  advice   /{array.path}: {array.advice}"
    for note in plan.notes:
        yield f"  note     {note}"
    for path, why in plan.skipped:
        yield f"  leaves out {path}: {why}"


def count_text(n: int, what: str) -> str:
    """Return a count as text, like ``3 tasks``."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _hours(hours: float) -> str:
    seconds = hours * 3600
    return (
        f"{seconds:.1f} s" if seconds < 120 else f"{hours * 60:.0f} min" if hours < 2 else f"{hours:,.0f} h"
    )


def _times(times: float) -> str:
    return "once" if times == 1 else f"{times:.1f} times on average"
