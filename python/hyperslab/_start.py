"""Imported first: prepares the import of `_native`, and handles Ctrl-C during imports."""

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
    """Return True if this process runs ``hyperslab`` or ``python -m hyperslab``."""
    called = sys.argv[0] if sys.argv else ""
    if called == "-m":
        # Python uses this name for the program until it has imported the module's package.
        options = sys.orig_argv
        asked = dict(itertools.pairwise(options))
        return asked.get("-m") == "hyperslab" or "-mhyperslab" in options
    return PurePath(called).stem == "hyperslab"


def _end(number: int, frame: FrameType | None) -> Any:
    """End the command. It has not begun, so there is nothing to clean up."""
    os.write(2, b"hyperslab: interrupted\n")
    os._exit(130)


def restore_interrupts() -> None:
    """From here on, let Ctrl-C raise `KeyboardInterrupt`, as in any program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Importing takes 0.1 s. A `KeyboardInterrupt` during this time would print a traceback: the command
# cannot catch the exception before it is imported itself.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)

try:
    # Without NumPy, loading `_native` would panic.
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "numpy":
        raise
    raise ModuleNotFoundError(
        "hyperslab needs NumPy, which is not installed: pip install numpy", name="numpy"
    ) from None
