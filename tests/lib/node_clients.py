"""Programs of npm that read from the server: zarrita in Node.js, and H5Web in a page.

`scripts/test-servers.sh` installs the packages. esbuild makes one file of a program and its packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from servers import INSTALLED, require

__all__ = ["bundle", "run_in_node"]

PACKAGES = INSTALLED / "clients" / "node_modules"


def bundle(source: str, folder: Path, *options: str) -> Path:
    """Make one file of a program of this folder. Skips the test if the packages are missing."""
    esbuild = PACKAGES / ".bin" / "esbuild"
    require("clients of npm", esbuild)
    made = folder / Path(source).with_suffix(".mjs" if source.endswith(".mjs") else ".js").name
    subprocess.run(
        [
            str(esbuild),
            str(Path(__file__).with_name(source)),
            "--bundle",
            "--log-level=warning",
            "--log-override:file-size=silent",
            f"--outfile={made}",
            *options,
        ],
        check=True,
        timeout=120,
        env={**os.environ, "NODE_PATH": str(PACKAGES)},
    )
    return made


def run_in_node(program: Path, *arguments: str) -> str:
    """Run a program and return what it prints."""
    node = shutil.which("node") or "node"
    run = subprocess.run(
        [node, str(program), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
