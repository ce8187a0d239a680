"""Puts what `make run` and `make bench` measured into docs/performance-tables.md, and the rows of SHORT
into docs/performance.md. Nothing else should run meanwhile.

    make run | tee run.txt
    make bench
    scripts/update_performance.py --run run.txt --bench build/bench/results.json

Either may be left out; without both, the page is made of the tables again. `make bench DOCS=1` does its part
itself. Rows of one family (`hdf5-…`, `ragged-…`) have a section of their own, and may be measured by
themselves, all of them: `make bench DOCS=1 ROW="…"`. The picture of the measurements, which lies beside
results.json, becomes docs/performance.png.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "performance-tables.md"
PAGE = ROOT / "docs" / "performance.md"
sys.path.insert(0, str(ROOT / "benches"))

import common  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402

# Rows that have a section of their own, by what their names begin with.
FAMILIES = ("hdf5", "ragged")

# The rows of docs/performance.md, and how many columns of their summary it shows.
SHORT = (
    "append-plain: v3 1 MiB",
    "append-zstd: v3 1 MiB",
    "scan-plain: v3 8 MiB",
    "scan-zstd: v3 1 MiB",
    "multi-2d: none 4×4",
    "multi-2d: gzip-5 4×4",
    "multi-2d: zstd-3 4×4",
    "multi-2d: blosc-lz4 4×4",
    "threads: zstd-3 16×16, 4",
    "latency: scalar",
    "latency: open",
    "strided: [::2, ::3]",
    "layout: v3 transpose f4",
    "partial-write: none",
    "repeat: cache",
    "shard-time: one inner chunk",
    "shard-cube: [i]",
    "shard-rewrite: one inner chunk",
    "hdf5-read: gzip all",
    "hdf5-points: 1 of 1000",
    "ragged-text: arrow",
    "ragged-zarr: StringDType",
)
COLUMNS = 5


def short_block(text: str) -> str:
    """The machine, and the summaries of the rows of SHORT, as they stand in the tables."""
    about = re.search(r"<!-- bench: machine -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    lines = []
    for row in SHORT:
        # The first table with a row is the summary.
        found = re.search(rf"^\| {re.escape(row)} +\|.*$", text, re.M)
        if not (about and found):
            sys.exit(f"{DOCUMENT}: no row {row}")
        lines.append([cell.strip() for cell in found[0].split("|")[1 : COLUMNS + 1]])
    summary = common.table(report.SUMMARY_HEADER[:COLUMNS], lines, markdown=True)
    return f"{summary}\n\n{about[1] if about else ''}"


def replace(text: str, mark: str, block: str) -> str:
    """Replaces what is between `<!-- mark -->` and `<!-- end -->`."""
    changed, count = re.subn(
        f"<!-- {mark} -->\n.*?<!-- end -->",
        lambda _: f"<!-- {mark} -->\n{block}\n<!-- end -->",
        text,
        flags=re.DOTALL,
    )
    if count != 1:
        sys.exit(f"{count} marks of {mark}")
    return changed


def run_block(output: str) -> str:
    """The table that `make run` printed."""
    found = re.search(r"^hyperslab [^\n]*\n[^\n]*\n", output, re.M)
    timings = re.search(r"^4\. How fast.*?(?=\n\nEverything agrees)", output, re.DOTALL | re.M)
    if not (found and timings):
        sys.exit("this is not the output of make run")
    table = timings[0].split("\n", 2)[2]
    return f"```text\n{found[0]}\n{table}\n```"


def bench_blocks(results: report.Results) -> dict[str, str]:
    """The sections that are made of measurements of all rows."""
    others = {**results, "cases": [case for case in results["cases"] if family(case["row"]) is None]}
    return {
        "bench: machine": machine.markdown(results["machine"]),
        "bench: summary": report.summary(others, markdown=True),
        "bench: series": report.series(others, markdown=True),
        "bench: everybody": report.everybody(others, markdown=True),
        "bench: memory": report.memory(others, markdown=True),
        "bench: rows": report.rows_about(others),
    }


def family(row: str) -> str | None:
    """The family that a row is of."""
    name = row.partition("-")[0]
    return name if name in FAMILIES else None


def family_blocks(results: report.Results) -> dict[str, str]:
    """The sections of the families all rows of which were measured."""
    known = rows.rows_of(rows.cases(False))
    measured = {case["row"] for case in results["cases"]}
    blocks = {}
    for name in FAMILIES:
        members = [row for row in known if family(row) == name]
        if measured.issuperset(members):
            found = {**results, "cases": [case for case in results["cases"] if case["row"] in members]}
            blocks[f"bench: {name}"] = family_block(found, members)
    return blocks


def family_block(results: report.Results, members: list[str]) -> str:
    """What a section says."""
    command = f'```sh\nmake bench ROW="{" ".join(members)}"\n```'
    (_, summary), *others = report.tables(results, markdown=True)
    parts = [command, machine.markdown(results["machine"]), summary]
    for title, table in [*others, ("What the rows are", report.rows_about(results))]:
        parts += [f"{title}:", table]
    return "\n\n".join(parts)


def main() -> None:
    """Rewrites the sections whose results are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="what make run printed")
    parser.add_argument("--bench", type=Path, help="results.json of make bench")
    arguments = parser.parse_args()
    text = DOCUMENT.read_text()
    if arguments.run:
        text = replace(text, "make run", run_block(arguments.run.read_text()))
    if arguments.bench:
        results = json.loads(arguments.bench.read_text())
        blocks = family_blocks(results)
        if results["complete"]:
            blocks |= bench_blocks(results)
        if not (results["earnest"] and blocks):
            sys.exit("these are the results of a quick run, or not of all rows of anything")
        for mark, block in blocks.items():
            text = replace(text, mark, block)
        picture = arguments.bench.with_name("results.png")
        if results["complete"] and picture.exists():
            shutil.copyfile(picture, DOCUMENT.with_name("performance.png"))
    DOCUMENT.write_text(text)
    PAGE.write_text(replace(PAGE.read_text(), "short", short_block(text)))


if __name__ == "__main__":
    main()
