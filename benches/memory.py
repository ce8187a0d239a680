"""Peak memory of one contender in one case, measured in its own process.

The process imports the library, opens the array and notes its resident memory. Then it does the
work once and asks the system for the peak since. It reports the difference.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from contenders import CONTENDERS, Cannot
from measure import reason
from operations import Place
from rows import Case, cases


def peak(case: Case, place: Place, contender: str, *, quick: bool) -> int | str:
    """Returns the bytes that the work adds, or why they are unknown."""
    place.scratch.mkdir(parents=True, exist_ok=True)
    values = place.scratch / "values.npy"
    if case.operation.writes_parts():
        np.save(values, place.parts[0][1])
    command: list[str] = [sys.executable, str(Path(__file__)), case.key, contender]
    command += [str(place.source), str(place.scratch / "child"), str(values), *(["--quick"] if quick else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["?"])[-1][:100]
    answer: int | str = json.loads(done.stdout.splitlines()[-1])
    return answer


def resident(field: str) -> int:
    """Returns a field of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise Cannot(f"the system does not tell {field}")


def forget_peak() -> None:
    """Resets the peak of resident memory, so that imports do not count."""
    Path("/proc/self/clear_refs").write_text("5\n")


def measure_here(case: Case, place: Place, name: str) -> int | str:
    """Does the work of one contender in this process."""
    try:
        contender = CONTENDERS[name]()
        work = case.operation.work(place, contender)
        state: Any = work.prepare()
        forget_peak()
        before = resident("VmRSS")
        work.once(state)
        return resident("VmHWM") - before
    except Exception as error:
        return str(error) if isinstance(error, Cannot) else reason(error)


def main() -> None:
    """Runs in the child process."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("case", "contender"):
        parser.add_argument(name)
    for name in ("source", "scratch", "values"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    case = next(case for case in cases(arguments.quick) if case.key == arguments.case)
    place = Place(case.spec, arguments.source, arguments.scratch)
    if case.operation.writes_parts():
        values = np.load(arguments.values)
        whole = values.shape == case.spec.shape
        places = [Ellipsis] if whole else range(case.spec.shape[0])
        place.parts = [(where, values) for where in places]
    print(json.dumps(measure_here(case, place, arguments.contender)))


if __name__ == "__main__":
    main()
