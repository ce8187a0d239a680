"""Puts what `make run` and `make bench` measured into docs/performance.md. Nothing else should run meanwhile.

    make run | tee run.txt
    make bench
    scripts/update_performance.py --run run.txt --bench build/bench/results.json

Either may be left out. `make bench DOCS=1` does its part itself. The picture of the measurements, which lies
beside results.json, becomes docs/performance.png.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "performance.md"
sys.path.insert(0, str(ROOT / "benches"))

import machine  # noqa: E402
import report  # noqa: E402


def replace(text: str, mark: str, block: str) -> str:
    """Replaces what is between `<!-- mark -->` and `<!-- end -->`."""
    changed, count = re.subn(
        f"<!-- {mark} -->\n.*?<!-- end -->",
        lambda _: f"<!-- {mark} -->\n{block}\n<!-- end -->",
        text,
        flags=re.DOTALL,
    )
    if count != 1:
        sys.exit(f"{DOCUMENT}: {count} marks of {mark}")
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
    """The sections that are made of the measurements."""
    return {
        "bench: machine": machine.markdown(results["machine"]),
        "bench: summary": report.summary(results, markdown=True),
        "bench: series": report.series(results, markdown=True),
        "bench: everybody": report.everybody(results, markdown=True),
        "bench: memory": report.memory(results, markdown=True),
        "bench: rows": report.rows_about(results),
    }


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
        if not results["complete"]:
            sys.exit("these are the results of a quick run, or of some rows only")
        for mark, block in bench_blocks(results).items():
            text = replace(text, mark, block)
        picture = arguments.bench.with_name("results.png")
        if picture.exists():
            shutil.copyfile(picture, DOCUMENT.with_name("performance.png"))
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
