"""Tries the promises of `docs/guarantees.md` for hours: soak.py [--hours H] [WORD ...]

Every test that the page names runs in rounds, with a fresh seed and more kills, trials and generated
cases than in `make test`. The test with the fewest seconds is next. `build/soak/state.json` keeps the
counts for the next call. WORDs choose tests by a part of their name.

At the end a table is printed. The exit status is 1 if a test failed in this call. A failure prints the
command that repeats its choices, and its output is in `build/soak/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "soak"
PAGE = ROOT / "docs" / "guarantees.md"

#: A test that takes longer hangs.
LONGEST = 3600

Record = dict[str, Any]


def promised() -> list[str]:
    """The Python tests that the page names, in its order."""
    found = re.findall(r"`([a-z0-9_]+/test_[a-z0-9_]+\.py::test_[a-z0-9_]+)`", PAGE.read_text())
    return list(dict.fromkeys(found))


class Stopped(Exception):
    """The user ends the run."""


def stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


class State:
    """Rounds, results and seconds by test, in a file."""

    def __init__(self) -> None:
        self.path = HOME / "state.json"
        self.tests: dict[str, Record] = {}
        if self.path.exists():
            self.tests = json.loads(self.path.read_text())

    def of(self, test: str) -> Record:
        empty = {"rounds": 0, "passed": 0, "skipped": 0, "failed": 0, "seconds": 0.0, "kills": 0}
        return self.tests.setdefault(test, empty)

    def add(self, test: str, told: str, seconds: float) -> None:
        known = self.of(test)
        known["rounds"] += 1
        known["seconds"] = round(known["seconds"] + seconds, 1)
        for kind in ("passed", "skipped", "failed"):
            known[kind] += sum(map(int, re.findall(rf"(\d+) {kind}", told.splitlines()[-1] if told else "")))
        known["kills"] += sum(map(int, re.findall(r"^kills: (\d+)$", told, re.MULTILINE)))
        self.keep()

    def keep(self) -> None:
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(self.tests, indent=1))
        partial.replace(self.path)


def settings(given: argparse.Namespace) -> dict[str, str]:
    """The environment of a round. Each round has another seed."""
    return {
        "HYPERSLAB_SEED": str(secrets.randbits(32)),
        "HYPERSLAB_TRIALS": str(given.trials),
        "HYPERSLAB_KILLS": str(given.kills),
        "HYPERSLAB_EXAMPLES": given.examples,
    }


def run(test: str, environment: dict[str, str], left: float) -> tuple[int, str]:
    """Runs a test once. Returns pytest's exit status, and what it said."""
    command = [sys.executable, "-m", "pytest", "-m", "", "-q", "-s", "-p", "no:cacheprovider", "--timeout=0"]
    process = subprocess.Popen(
        [*command, f"tests/{test}"],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=min(LONGEST, max(left, 1)))
    except subprocess.TimeoutExpired:
        # The hours are over, or the test hangs.
        os.killpg(process.pid, signal.SIGKILL)
        told, _ = process.communicate()
        if left < LONGEST:
            raise Stopped from None
        return 1, told + f"\nthe test hangs: it takes longer than {LONGEST} s\n1 failed"
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, told.rstrip()


def table(tests: list[str], state: State) -> str:
    """Returns the state as a table for people."""
    lines = [f"{'rounds':>6} {'passed':>7} {'failed':>6} {'kills':>8} {'seconds':>8}  test"]
    for test in tests:
        known = state.of(test)
        lines.append(
            f"{known['rounds']:>6,} {known['passed']:>7,} {known['failed']:>6,} {known['kills']:>8,} "
            f"{known['seconds']:>8,.0f}  {test}"
        )
    return "\n".join(lines)


def record(state: State) -> None:
    """Writes the counts into the last column of the page, except for tests that try all cases in each run."""
    lines = PAGE.read_text().splitlines()
    for at, line in enumerate(lines):
        cells = line.split(" | ")
        tests = re.findall(r"`([a-z0-9_]+/test_[a-z0-9_]+\.py::test_[a-z0-9_]+)`", line)
        if len(cells) != 3 or not tests or cells[2] == "each run |":
            continue
        known = state.of(tests[0])
        if known["passed"] + known["failed"] == 0:
            told = "not run long yet"
        else:
            kills = f"{known['kills']:,} kills" if known["kills"] else f"{known['passed']:,} cases"
            told = f"{kills} in {known['seconds']:,.0f} s, {known['failed']} failures"
        lines[at] = " | ".join([*cells[:2], f"{told} |"])
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only tests with a WORD in their name")
    parser.add_argument("--hours", type=float, default=1.0, help="how long (1)")
    parser.add_argument("--kills", type=int, default=100, help="killed processes in each test (100)")
    parser.add_argument("--trials", type=int, default=50, help="trials of copies by a plan (50)")
    parser.add_argument("--examples", default="500%", help="generated cases: 500%% of the usual")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--record", action="store_true", help="only write the counts into the page")
    given = parser.parse_args()
    tests = [test for test in promised() if not given.words or any(word in test for word in given.words)]
    if not tests:
        parser.error(f"no test of {PAGE.name} has one of these words in its name")
    HOME.mkdir(parents=True, exist_ok=True)
    state = State()
    if given.record:
        record(state)
        return 0
    if given.table:
        print(table(tests, state))
        return 0
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    end = time.monotonic() + given.hours * 3600
    failures = 0
    try:
        while (left := end - time.monotonic()) > 0:
            test = min(tests, key=lambda test: state.of(test)["seconds"])
            environment = settings(given)
            begun = time.monotonic()
            status, told = run(test, environment, left)
            seconds = time.monotonic() - begun
            state.add(test, told, seconds)
            print(f"{seconds:7.1f} s  {'ok    ' if status == 0 else 'FAILED'}  {test}", flush=True)
            if status:
                failures += 1
                log = HOME / f"failure-{test.split('::')[1]}-{environment['HYPERSLAB_SEED']}.log"
                log.write_text(told)
                words = " ".join(f"{name}={value}" for name, value in environment.items())
                print(f"  repeat: {words} pytest -m '' 'tests/{test}'\n  output: {log.relative_to(ROOT)}")
    except Stopped:
        print("stopped")
    print(table(tests, state))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
