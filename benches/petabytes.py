"""The price of copies of a petabyte between servers: requests, dollars and hours, by the planner.

    python benches/petabytes.py

Nothing is copied. The sources are arrays without chunks on the test server
(tests/lib/object_server.py), so the planner knows their shapes and that servers are far away.
Chunks are assumed not to compress. Prints the table of docs/cluster.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hyperslab as hs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lib"))
from object_server_client import Server


@dataclass(frozen=True)
class Job:
    """A copy of one petabyte."""

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    wanted: dict[str, Any]
    dtype: str = "f4"


JOBS = (
    Job(
        "maps → full time series",
        (1_000_000, 16_000, 16_000),
        (1, 2000, 2000),
        {"chunks": (1_000_000, 8, 8)},
    ),
    Job(
        "maps → series of 400 in shards",
        (100_000_000, 1600, 1600),
        (1, 1600, 1600),
        {"chunks": (400, 40, 40), "shards": (400, 1600, 1600), "max_memory": "8 GiB"},
    ),
    Job(
        "slices → cubes",
        (98_304, 98_304, 98_304),
        (1, 4096, 4096),
        {"chunks": (256, 256, 256)},
        "u1",
    ),
    Job(
        "other codec",
        (1_000_000, 16_000, 16_000),
        (1, 2000, 2000),
        {"compressors": "zstd:9"},
    ),
)


def plan(server: Server, job: Job, workers: int) -> hs.CopyPlan:
    options, place = server.s3_options, f"s3://bucket/{JOBS.index(job)}"
    hs.create_array(place, shape=job.shape, chunks=job.chunks, dtype=job.dtype, storage_options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hs.errors.ZarrUserWarning)
        return hs.plan_copy(
            place, f"{place}-copy", workers=workers, task_size="1 GiB", storage_options=options, **job.wanted
        )


def row(job: Job, plan: hs.CopyPlan) -> str:
    cells = (
        job.name,
        f"{plan.bytes / 1e15:.2f}",
        f"{len(plan.stages)}",
        f"{plan.memory / 2**30:.1f} GiB",
        f"{plan.tasks:,}",
        f"{plan.gets / 1e6:,.0f}",
        f"{plan.gets / plan.chunks:.1f}",
        f"{plan.puts / 1e6:,.0f}",
        f"${plan.dollars:,.0f}",
        f"{plan.hours:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--plans", action="store_true", help="also print the plans")
    given = parser.parse_args()
    print("| job | PB | stages | memory | tasks | 10⁶ GET | GET a chunk | 10⁶ PUT | price | hours |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with Server() as server:
        plans = [(job, plan(server, job, given.workers)) for job in JOBS]
    for job, made in plans:
        print(row(job, made))
    if given.plans:
        for _, made in plans:
            print(f"\n{made}")


if __name__ == "__main__":
    main()
