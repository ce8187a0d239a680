"""The command line."""

from __future__ import annotations

import sys

from hyperslab import _native


def main() -> None:
    """Run ``hyperslab`` with the arguments of this process, and end it."""
    try:
        code = _native.run_cli(["hyperslab", *sys.argv[1:]])
    except KeyboardInterrupt:
        # Before the command has begun, or after its end.
        code = 130
    sys.exit(code)
