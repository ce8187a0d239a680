"""Writes the results of `make run` and `make bench` into docs/performance-tables.md.

The rows of SHORT also go into docs/performance.md. Run nothing else while measuring.

    make run | tee run.txt
    make bench
    scripts/update_performance.py --run run.txt --bench build/bench/results.json

Both options are optional. Without both, docs/performance.md is rebuilt from the tables. `make bench
DOCS=1` calls this script itself. Rows of one family (`hdf5-…`, `ragged-…`) have their own section
and may be measured alone, if all of them are: `make bench DOCS=1 ROW="…"`. The picture beside
results.json becomes docs/performance.png.
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

# Prefixes of rows that have their own section.
FAMILIES = ("hdf5", "ragged")

# The rows of docs/performance.md, and the number of summary columns shown.
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
    """Returns the machine and the summaries of the rows of SHORT, as in the tables."""
    about = re.search(r"<!-- bench: machine -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    lines = []
    for row in SHORT:
        # The first table that contains a row is the summary.
        found = re.search(rf"^\| {re.escape(row)} +\|.*$", text, re.M)
        if not (about and found):
            sys.exit(f"{DOCUMENT}: no row {row}")
        lines.append([cell.strip() for cell in found[0].split("|")[1 : COLUMNS + 1]])
    summary = common.table(report.SUMMARY_HEADER[:COLUMNS], lines, markdown=True)
    return f"{summary}\n\n{about[1] if about else ''}"


def replace(text: str, mark: str, block: str) -> str:
    """Replaces the text between `<!-- mark -->` and `<!-- end -->`."""
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
    """Returns the table that `make run` printed."""
    found = re.search(r"^hyperslab [^\n]*\n[^\n]*\n", output, re.M)
    timings = re.search(r"^4\. How fast.*?(?=\n\nEverything agrees)", output, re.DOTALL | re.M)
    if not (found and timings):
        sys.exit("this is not the output of make run")
    table = timings[0].split("\n", 2)[2]
    return f"```text\n{found[0]}\n{table}\n```"


def bench_blocks(results: report.Results) -> dict[str, str]:
    """Returns the sections about rows without a family."""
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
    """Returns the family of a row."""
    name = row.partition("-")[0]
    return name if name in FAMILIES else None


def family_blocks(results: report.Results) -> dict[str, str]:
    """Returns the sections of completely measured families."""
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
    """Returns the text of a section."""
    command = f'```sh\nmake bench ROW="{" ".join(members)}"\n```'
    (_, summary), *others = report.tables(results, markdown=True)
    parts = [command, machine.markdown(results["machine"]), summary]
    for title, table in [*others, ("Descriptions of the rows", report.rows_about(results))]:
        parts += [f"{title}:", table]
    return "\n\n".join(parts)


def main() -> None:
    """Rewrites the sections with new results."""
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
