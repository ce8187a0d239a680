"""The command line."""

from __future__ import annotations

import sys

from hyperslab import _native


def main() -> None:
    """Run ``hyperslab`` with the arguments of this process, and end it."""
    sys.exit(_native.run_cli(["hyperslab", *sys.argv[1:]]))
