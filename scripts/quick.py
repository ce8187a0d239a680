"""Checks and tests near a change: quick.py [--base COMMIT] [--dry-run] [PATH ...]

Takes the files that differ from a commit (default: HEAD), or the given paths. Runs formatting, lints
and the tests of their rooms, with few generated cases. `make quick` builds the extension module first
if Rust changed. This is the everyday loop; `make test` runs everything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]

ROOMS = {
    "_aio": ["array/test_asyncio.py"],
    "_base": ["array/test_config.py", "compute/test_tasks.py", "cli"],
    "_codecs": ["codecs"],
    "_core": ["array", "groups"],
    "_create": ["array", "groups"],
    "_dask": ["dask"],
    "_display": ["array/test_shown.py", "groups"],
    "_elements": ["elements"],
    "_hdf5": ["hdf5", "h5py"],
    "_index": ["indexing"],
    "_stores": ["stores"],
    "codecs": ["codecs"],
    "errors": ["array"],
    "h5": ["h5py"],
    "storage": ["stores"],
}
"""Tests of a room of the package. Rooms that are not here have the tests of the same name."""

CRATES = {
    "array": ["array", "indexing", "shards"],
    "cli": ["cli"],
    "codec": ["codecs", "elements"],
    "hdf5": ["hdf5"],
    "hyperslab": ["array", "groups", "copy"],
    "netcdf": ["hdf5/test_hdf5_netcdf.py"],
    "python": ["array", "indexing", "elements"],
    "remote": ["remote"],
    "serve": ["serve"],
    "store": ["stores"],
    "zarr": ["array", "groups"],
}
"""Python tests near a crate."""


def run(title: str, *command: str, **environment: str) -> None:
    """Runs a step; ends the program if it fails."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    print(f"    {title}: {'ok' if done.returncode == 0 else 'FAILED'} ({time.monotonic() - begun:.0f} s)")
    if done.returncode:
        print(f"    {' '.join(command)}", file=sys.stderr)
        sys.exit(done.returncode)


def changed(base: str) -> list[str]:
    """The files that differ from a commit, new ones included."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    found = (subprocess.check_output(command, cwd=ROOT, text=True).splitlines() for command in commands)
    return sorted({path for paths in found for path in paths})


def changed_tests(paths: Iterable[str]) -> list[str]:
    """The files of tests among the changed files."""
    return sorted(path for path in paths if re.match(r"tests/\w+/test_\w+\.py$", path))


def tests_near(paths: Iterable[str]) -> list[str]:
    """Folders and files of Python tests near changes in the package and in Rust."""
    found: set[str] = set()
    for path in paths:
        parts = Path(path).parts
        if parts[:2] == ("python", "hyperslab"):
            room = parts[2].removesuffix(".py").removesuffix(".pyi")
            found |= set(ROOMS.get(room, [room.strip("_")]))
        elif parts[0] == "crates":
            found |= set(CRATES.get(parts[1], []))
    there = {f"tests/{name}" for name in found if (ROOT / "tests" / name).exists()}
    # A folder includes its files.
    return sorted(path for path in there if not any(str(above) in there for above in Path(path).parents))


def crates_of(paths: Iterable[str]) -> list[str]:
    """The names of crates with changed files."""
    found = {match[1] for path in paths if (match := re.match(r"crates/([\w-]+)/.*\.(rs|toml)$", path))}
    return sorted("hyperslab" if name == "hyperslab" else f"hyperslab-{name}" for name in found)


def main() -> None:
    """Runs the steps for what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="files to look at instead of the changed ones")
    parser.add_argument("--base", default="HEAD", help="the commit to compare with")
    parser.add_argument("--dry-run", action="store_true", help="print the tests, run nothing")
    options = parser.parse_args()
    paths = options.paths or changed(options.base)
    python = [path for path in paths if path.endswith((".py", ".pyi"))]
    crates, changes, near = crates_of(paths), changed_tests(paths), tests_near(paths)
    if options.dry_run:
        print(*crates, *changes, *near, sep="\n")
        return
    if not paths:
        print("    nothing changed")
        return
    tools = Path(sys.executable).parent
    source = {"PYTHONPATH": str(ROOT / "python")}
    if crates:
        run("format", "cargo", "fmt", "--all", "--check")
        named = ["--locked", "--quiet", *(f"--package={name}" for name in crates)]
        run("clippy", "cargo", "clippy", *named, "--all-targets", "--", "-D", "warnings")
        # nextest runs tests of all binaries side by side, each in its own process.
        nextest = ["nextest", "run", "--no-tests=pass"] if shutil.which("cargo-nextest") else ["test"]
        run("Rust tests", "cargo", *nextest, *named, PROPTEST_CASES="16")
    if python:
        run("format", str(tools / "ruff"), "format", "--check", "--quiet", *python)
        run("ruff", str(tools / "ruff"), "check", "--quiet", *python)
        run("layers", str(tools / "lint-imports"), "--no-cache", **source)
        run("mypy", str(tools / "mypy"), "--python-executable", sys.executable)
    pytest = [sys.executable, "-m", "pytest", "-q", "-x"]
    if changes:
        # All of their tests, whatever their lane.
        run("changed tests", *pytest, "-m", "", *changes, **source)
    if near:
        names = " ".join(path.removeprefix("tests/") for path in near)
        run(f"tests of {names}", *pytest, *near, HYPERSLAB_EXAMPLES="5", **source)


main()
