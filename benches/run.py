"""`make bench`: the same work in hyperslab, in other libraries, and in plain Rust loops.

First each contender runs every case once, and every value is checked. Then the contenders take
turns in rounds of changing order, so that other load on the machine hits all alike. Medians are
reported.

    python benches/run.py                       everything
    python benches/run.py --row scan-zstd --quick
    python benches/run.py --list

Add new rows to rows.py and new kinds of work to operations.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import limits
import machine
import memory
import plot
import report
from common import bytes_text
from contenders import CONTENDERS, Cannot, Contender, contenders
from measure import measure
from operations import Place, WrongValues, make_source
from rows import Case, cases, rows_of


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="append", help="measure only this row (may be given again)")
    parser.add_argument("--quick", action="store_true", help="small data, few rounds: does it work?")
    parser.add_argument("--rounds", type=int, help="samples of each contender (default: as many as fit)")
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument(
        "--contender",
        action="append",
        choices=[name for name in CONTENDERS if name != "hyperslab"],
        help="measure only hyperslab and this one (may be given again)",
    )
    parser.add_argument("--cold", action="store_true", help="drop the caches before each sample of all rows")
    parser.add_argument("--dir", type=Path, default=Path("build/bench"), help="where data goes (%(default)s)")
    parser.add_argument(
        "--output", type=Path, help="directory of results.json, results.md and results.png (default: --dir)"
    )
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    arguments = parser.parse_args()
    rows = rows_of(cases(arguments.quick))
    if unknown := set(arguments.row or ()) - set(rows):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(rows)}")
    return arguments


def measure_cases(
    chosen: list[Case], directory: Path, found: list[Contender], arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Measures the cases in order. Consecutive cases with the same array share its data."""
    results = []
    # Only one array at a time is on disk. Consecutive cases reuse it.
    place, made_of = Place(chosen[0].spec, Path(), Path()), None
    for number, case in enumerate(chosen):
        start = time.perf_counter()
        if number == 0 or chosen[number - 1].row != case.row:
            print(f"\n{case.row}", flush=True)
        if made_of != (case.spec, case.fill):
            place, made_of = make_data(case, directory / "data"), (case.spec, case.fill)
        result = measure(case, place, found, quick=arguments.quick, fixed_rounds=arguments.rounds)
        if case.memory and not arguments.no_memory:
            result["memory"] = peaks(case, place, found, arguments.quick)
        common.remove(place.scratch)
        # Includes making the data and all checks: shows which case makes a run slow.
        result["took"] = round(time.perf_counter() - start, 2)
        results.append(result)
        print(progress_line(result), flush=True)
    common.remove(directory / "data")
    return results


def make_data(case: Case, directory: Path) -> Place:
    """Replaces the data of an earlier case by the array of this case."""
    common.remove(directory)
    place = Place(case.spec, directory / "source", directory / "scratch", case.fill(case.spec))
    if not case.operation.writes_parts():
        make_source(place)
    return place


def peaks(case: Case, place: Place, found: list[Contender], quick: bool) -> dict[str, int | str]:
    """Returns peak memory by contender. The quick run measures hyperslab only.

    Each contender needs its own process.
    """
    names = [contender.name for contender in found if not quick or contender.name == "hyperslab"]
    measured = {}
    for name in names:
        common.remove(place.scratch)
        measured[name] = memory.peak(case, place, name, quick=quick)
    return measured


def progress_line(result: report.Result) -> str:
    """Returns one line about a finished case."""
    _, seconds, rate, peer, limit, beside, target, met = report.summary_line(result)
    peak = (result.get("memory") or {}).get("hyperslab")
    parts = [
        f"  {result['variant']:<22} {seconds:>10}",
        f"{rate:>6} GB/s" if rate != "–" else " " * 11,
        f"peer {peer:<18} limit {limit:>7} {beside:<15}",
        f"{target} {met}",
        f"peak {bytes_text(peak)}" if isinstance(peak, int) else "",
    ]
    return " ".join(parts).rstrip()


def main() -> None:
    """Measures the rows named on the command line, or all."""
    arguments = parse_arguments()
    chosen = [case for case in cases(arguments.quick) if not arguments.row or case.row in arguments.row]
    if arguments.list:
        print(common.table(("row", "what"), [(case.key, case.about) for case in chosen], left=2))
        return
    if arguments.cold:
        chosen = [replace(case, cold=True) for case in chosen]
    directory: Path = arguments.dir
    output: Path = arguments.output or directory
    directory.mkdir(parents=True, exist_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    found = contenders(["hyperslab", *(arguments.contender or [n for n in CONTENDERS if n != "hyperslab"])])
    described = machine.describe(directory)
    try:
        described["memcpy"] = f"{limits.copy_speed() / 1e9:.1f} GB/s"
    except Cannot as error:
        described["memcpy"] = str(error)
    print(machine.markdown(described))

    start = time.perf_counter()
    try:
        measured = measure_cases(chosen, directory, found, arguments)
    except WrongValues as error:
        sys.exit(f"wrong values: {error}")
    results = {
        "machine": described,
        # "earnest": full size, all contenders, default caches. "complete": all rows. Results that
        # are both may represent the project.
        "earnest": not (arguments.quick or arguments.contender or arguments.cold),
        "complete": not arguments.row,
        "duration": time.perf_counter() - start,
        "cases": measured,
    }
    for title, text in report.tables(results, markdown=False):
        print(f"\n{title}\n\n{text}")
    print(f"\n{plot.terminal(results)}")
    (output / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    sections = [f"## {title}\n\n{text}\n" for title, text in report.tables(results, markdown=True)]
    (output / "results.md").write_text("\n".join([machine.markdown(described), "", *sections]))
    try:
        plot.picture(results, output / "results.png")
    except ImportError:
        print("\nwithout a picture: matplotlib is not installed (requirements/bench.txt)")
    print(f"\nTook {results['duration']:.0f} s. All samples: {output / 'results.json'}")


if __name__ == "__main__":
    main()
