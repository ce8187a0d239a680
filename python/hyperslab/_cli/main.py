"""The command line."""

from __future__ import annotations

import sys

from hyperslab import _native, _start


def main() -> None:
    """Run ``hyperslab`` with the arguments of this process, then exit."""
    args = ["hyperslab", *sys.argv[1:]]
    try:
        _start.restore_interrupts()
        if (planned := _native.planned_copy(args)) is not None:
            from hyperslab._cli.copy import copy

            code = copy(planned)
        elif (planned := _native.planned_pyramid(args)) is not None:
            from hyperslab._cli.pyramid import make_pyramid

            code = make_pyramid(planned)
        else:
            code = _native.run_cli(args)
    except KeyboardInterrupt:
        # Ctrl-C before the command started or after it ended.
        code = 130
    sys.exit(code)
