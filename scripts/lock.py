"""Pins the development dependencies: writes requirements/*.txt from pyproject.toml's groups.

Each file is pip's solution in a fresh virtual environment of one Python:

    python3.13 scripts/lock.py newest > requirements/py312.txt
    python3.11 scripts/lock.py oldest > requirements/py311.txt
    python3.13 scripts/lock.py bench > requirements/bench.txt
    python3.11 scripts/lock.py servers > requirements/servers.txt
    python3.11 scripts/lock.py docs > requirements/docs.txt
    python3.11 scripts/lock.py release > requirements/release.txt

`bench` is installed on top of `newest`. It has only the additional packages, in compatible
versions. `servers`, `docs` and `release` are separate environments of any Python.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BASE = ROOT / "requirements" / "py312.txt"
HEADER = """\
# {purpose}
# Written by scripts/lock.py on Python 3.{minor} from the dependency groups in pyproject.toml; do not edit.
"""
PURPOSE = {
    "newest": "Pinned development dependencies for CPython 3.12 and newer.",
    "oldest": "Pinned development dependencies for CPython 3.11, with the oldest NumPy that is supported.",
    "bench": "Pinned dependencies of the measurements alone, for CPython 3.12 and newer with py312.txt.",
    "servers": "Pinned dependencies of moto, the S3 server of the tests, for an environment of its own.",
    "docs": "Pinned dependencies of the site of the documentation, for an environment of its own.",
    "release": "Pinned tools that build the published wheels, for an environment of their own.",
}


def flatten(groups: dict[str, Any], name: str) -> list[str]:
    """Returns the requirements of one dependency group and of the groups that it includes."""
    requirements: list[str] = []
    for entry in groups[name]:
        requirements += flatten(groups, entry["include-group"]) if isinstance(entry, dict) else [entry]
    return requirements


def main() -> None:
    """Resolves the group named on the command line and prints the lock file."""
    group = sys.argv[1]
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = flatten(pyproject["dependency-groups"], group)
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        constraint = ["--constraint", str(BASE)] if group == "bench" else []
        install = [*pip, "install", "--quiet", *constraint, *wanted]
        subprocess.run(install, check=True, stdout=sys.stderr, env=os.environ)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    # `name @ file:///...` would be a path of this machine.
    if "@" in frozen:
        sys.exit(f"not installed from a package index:\n{frozen}")
    # Fresh environments of Python 3.11 contain setuptools, which is not a dependency.
    pins = [line for line in frozen.splitlines() if not line.startswith(("pip==", "setuptools=="))]
    if group == "bench":
        pins = [pin for pin in pins if pin not in BASE.read_text().splitlines()]
    print(HEADER.format(purpose=PURPOSE[group], minor=sys.version_info.minor) + "\n".join(pins))


if __name__ == "__main__":
    main()
