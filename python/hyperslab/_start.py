"""Imported before all else: what `_native` needs, and Ctrl-C while the command is being imported."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import PurePath
from types import FrameType
from typing import Any

__all__ = ["restore_interrupts"]


def _is_command() -> bool:
    """Tells if this process runs ``hyperslab`` or ``python -m hyperslab``."""
    called = sys.argv[0] if sys.argv else ""
    if called == "-m":
        # Python has this name for the program until it has imported the module's package.
        options = sys.orig_argv
        asked = dict(itertools.pairwise(options))
        return asked.get("-m") == "hyperslab" or "-mhyperslab" in options
    return PurePath(called).stem == "hyperslab"


def _end(number: int, frame: FrameType | None) -> Any:
    """Ends the command, which has not begun: there is nothing to put away."""
    os.write(2, b"hyperslab: interrupted\n")
    os._exit(130)


def restore_interrupts() -> None:
    """From here on Ctrl-C raises `KeyboardInterrupt`, as in any program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Importing takes 0.1 s. A `KeyboardInterrupt` would be shown with a traceback, because the command
# cannot catch it before it is imported itself.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)

try:
    # `_native` cannot be loaded without NumPy, and would panic.
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "numpy":
        raise
    raise ModuleNotFoundError(
        "hyperslab needs NumPy, which is not installed: pip install numpy", name="numpy"
    ) from None
