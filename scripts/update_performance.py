"""Puts what `make run` and `make bench` print into docs/performance.md. The machine should do nothing else.


update_performance.py RUN_OUTPUT BENCH_OUTPUT
"""

import re
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "performance.md"


def replace(text: str, command: str, block: str) -> str:
    """Replaces what follows the mark of a command, up to the next heading."""
    mark = f"<!-- {command} -->"
    changed, count = re.subn(
        f"{mark}\n.*?(?=^## |\\Z)", lambda _: f"{mark}\n{block}\n\n", text, flags=re.DOTALL | re.M
    )
    if count != 1:
        sys.exit(f"{DOCUMENT}: {count} marks of {command}")
    return changed


def main() -> None:
    """Reads both outputs and rewrites the document."""
    run, bench = (Path(argument).read_text() for argument in sys.argv[1:])
    found = re.search(r"^hyperslab [^\n]*\n[^\n]*\n", run, re.M)
    timings = re.search(r"^4\. How fast.*?(?=\n\nEverything agrees)", run, re.DOTALL | re.M)
    table = re.search(r"^\|.*^\|[^\n]*", bench, re.DOTALL | re.M)
    if not (found and timings and table):
        sys.exit("these are not the outputs of make run and make bench")
    run_table = timings[0].split("\n", 2)[2]
    text = replace(DOCUMENT.read_text(), "make run", f"```text\n{found[0]}\n{run_table}\n```")
    DOCUMENT.write_text(replace(text, "make bench", table[0]))


if __name__ == "__main__":
    main()
