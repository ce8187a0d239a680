"""Runs the fuzz targets, each for a bounded time: fuzz.py [--seconds N] [TARGET ...]

Builds the targets of `fuzz/` with the coverage of libFuzzer, makes the seeds (`fuzz_seeds.py`), and
runs the targets one after the other, the one with the fewest executions first. `build/fuzz` keeps
the results for the next run:

    corpus/TARGET     inputs that reach new code
    artifacts/TARGET  findings: inputs that crash, hang, or take too much memory
    logs/TARGET.log   output of the last run
    state.json        executions, seconds and coverage of each target

At the end a table is printed. The exit status is 1 if there are findings. An old finding that does
not fail any more is removed. Ctrl-C, or SIGTERM, ends the run and keeps the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "fuzz"
SEEDS = ROOT / "fuzz" / "corpus"
#: Ends with the table of targets.
PAGE = ROOT / "docs" / "guarantees.md"

#: The flags of `cargo fuzz build --sanitizer none`. Wrong arithmetic is a finding.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
    "-Ccodegen-units=16",
    "-Cdebug-assertions=on",
    "-Coverflow-checks=on",
]

#: Longest inputs in bytes. Files need room; most documents do not, and short ones run faster.
LONG = {"hdf5": 1 << 14, "hdf5_edit": 1 << 14, "hdf5_check": 1 << 14, "parquet_rows": 1 << 13}
MAX_LEN = 1 << 12

#: An input that takes longer is a finding.
TIMEOUT = 20
#: An input that makes the process larger than this many MB is a finding.
MOST_MEMORY = 2048


def targets() -> list[str]:
    """The names of all targets."""
    settings = tomllib.loads((ROOT / "fuzz" / "Cargo.toml").read_text())
    return [each["name"] for each in settings["bin"]]


def host() -> str:
    """The name of this machine's platform. Only with `--target`, flags spare build scripts."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    (name,) = re.findall(r"^host: (\S+)", told, re.MULTILINE)
    return str(name)


def build() -> Path:
    """Builds all targets. Returns their folder."""
    command = [
        "cargo",
        "build",
        "--locked",
        "--manifest-path",
        str(ROOT / "fuzz" / "Cargo.toml"),
        "--release",
    ]
    command += ["--target", host(), "--target-dir", str(HOME / "target"), "--bins", "--examples"]
    subprocess.run(command, check=True, env=os.environ | {"RUSTFLAGS": " ".join(FLAGS)})
    return HOME / "target" / host() / "release"


def make_seeds(built: Path) -> None:
    """Makes the seeds, unless they are newer than what makes them."""
    sources = [ROOT / "scripts" / "fuzz_seeds.py", ROOT / "fuzz" / "examples" / "codec_seeds.rs"]
    stamp = SEEDS / ".stamp"
    if stamp.exists() and all(source.stat().st_mtime < stamp.stat().st_mtime for source in sources):
        return
    SEEDS.mkdir(parents=True, exist_ok=True)
    subprocess.run([built / "examples" / "codec_seeds", SEEDS], check=True)
    subprocess.run([sys.executable, sources[0], SEEDS], check=True)
    stamp.touch()


class Stopped(Exception):
    """The user ends the run."""


def stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


class State:
    """Executions, seconds and coverage by target, in a file."""

    def __init__(self) -> None:
        self.path = HOME / "state.json"
        self.targets: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            self.targets = json.loads(self.path.read_text())

    def of(self, target: str) -> dict[str, Any]:
        empty = {"executions": 0, "seconds": 0.0, "edges": 0, "features": 0}
        return self.targets.setdefault(target, empty)

    def add(self, target: str, log: str, seconds: float) -> None:
        """Adds a run, as libFuzzer tells it."""
        known = self.of(target)
        executed = re.findall(r"^stat::number_of_executed_units: (\d+)", log, re.MULTILINE)
        executed = executed or re.findall(r"^#(\d+)", log, re.MULTILINE) or ["0"]
        known["executions"] += int(executed[-1])
        known["seconds"] = round(known["seconds"] + seconds, 1)
        for edges, features in re.findall(r" cov: (\d+) ft: (\d+)", log)[-1:]:
            known["edges"], known["features"] = int(edges), int(features)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(self.targets, indent=1, sort_keys=True))
        partial.replace(self.path)


def findings(target: str) -> list[Path]:
    """The findings that are kept."""
    return sorted(path for path in (HOME / "artifacts" / target).glob("*") if path.is_file())


def check_findings(binary: Path, target: str) -> None:
    """Removes findings that do not fail any more."""
    for path in findings(target):
        command = [str(binary), str(path), f"-timeout={TIMEOUT}", f"-rss_limit_mb={MOST_MEMORY}"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            path.unlink()


def run(binary: Path, target: str, seconds: int, state: State) -> None:
    """Runs one target."""
    corpus, artifacts, seeds = HOME / "corpus" / target, HOME / "artifacts" / target, SEEDS / target
    for folder in (corpus, artifacts, seeds, HOME / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(binary),
        str(corpus),
        str(seeds),
        f"-artifact_prefix={artifacts}/",
        f"-max_total_time={seconds}",
    ]
    command += [
        f"-timeout={TIMEOUT}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-max_len={LONG.get(target, MAX_LEN)}",
    ]
    command += ["-print_final_stats=1", "-reload=0"]
    log = HOME / "logs" / f"{target}.log"
    begun = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=HOME)
        try:
            process.wait()
        except Stopped:
            # libFuzzer then prints its counts.
            process.send_signal(signal.SIGUSR1)
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        finally:
            state.add(target, log.read_text(errors="replace"), time.monotonic() - begun)


def table(names: list[str], state: State) -> str:
    """Returns the state as a table for people."""
    head = (
        f"{'target':<20} {'executions':>12} {'seconds':>9} {'per s':>8} {'edges':>7} {'features':>9} findings"
    )
    lines = [head]
    for name in names:
        known = state.of(name)
        rate = known["executions"] / known["seconds"] if known["seconds"] else 0
        lines.append(
            f"{name:<20} {known['executions']:>12,} {known['seconds']:>9,.0f} {rate:>8,.0f} "
            f"{known['edges']:>7,} {known['features']:>9,} {len(findings(name))}"
        )
    return "\n".join(lines)


def record(names: list[str], state: State) -> None:
    """Writes the table into the page of promises."""
    rows = ["| target | executions | seconds | edges | features | findings |", "|---|---|---|---|---|---|"]
    for name in names:
        known = state.of(name)
        rows.append(
            f"| `{name}` | {known['executions']:,} | {known['seconds']:,.0f} | {known['edges']:,} | "
            f"{known['features']:,} | {len(findings(name))} |"
        )
    before, *_ = PAGE.read_text().split("| target |")
    PAGE.write_text(before + "\n".join(rows) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--executions", type=int, help="leave out targets with this many executions")
    parser.add_argument("--no-build", action="store_true", help="run what was built before")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--record", action="store_true", help="only write the table into the page")
    given = parser.parse_args()
    known = targets()
    if unknown := sorted(set(given.targets) - set(known)):
        parser.error(f"unknown targets {', '.join(unknown)}; there are {', '.join(known)}")
    names = given.targets or known
    HOME.mkdir(parents=True, exist_ok=True)
    state = State()
    if given.record:
        record(known, state)
        return 0
    if given.table:
        print(table(names, state))
        return 0
    built = HOME / "target" / host() / "release" if given.no_build else build()
    make_seeds(built)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        for name in sorted(names, key=lambda name: state.of(name)["executions"]):
            check_findings(built / name, name)
            if given.executions and state.of(name)["executions"] >= given.executions:
                continue
            run(built / name, name, given.seconds, state)
            print(table([name], state).splitlines()[1], flush=True)
    except Stopped:
        print("stopped")
    print(table(names, state))
    found = [path for name in names for path in findings(name)]
    for path in found:
        print(f"finding: {path.relative_to(ROOT)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
