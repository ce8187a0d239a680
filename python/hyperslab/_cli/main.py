"""The command line."""

from __future__ import annotations

import sys

from hyperslab import _native, _start


def main() -> None:
    """Run ``hyperslab`` with the arguments of this process, then exit."""
    args = ["hyperslab", *sys.argv[1:]]
    try:
        _start.restore_interrupts()
        planned = _native.planned_copy(args)
        if planned is None:
            code = _native.run_cli(args)
        else:
            from hyperslab._cli.copy import copy

            code = copy(planned)
    except KeyboardInterrupt:
        # Ctrl-C before the command started or after it ended.
        code = 130
    sys.exit(code)
