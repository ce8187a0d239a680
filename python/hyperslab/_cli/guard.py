"""Commands that run in Python: their messages, signals and exit codes."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from typing import Any

from hyperslab import _native
from hyperslab.errors import InvalidArgumentError, VerificationError

__all__ = ["guarded"]

# Python terms in messages of plans, and their replacements for the command line.
_WORDS = (
    (r"^target_region: ", "--target-region: "),
    (r"^dest: ", "DST: "),
    (r"^source: ", "SRC: "),
    (r"^array: ", "ARRAY: "),
    (r"^factors: ", "--factor: "),
    (r"^levels: ", "--levels: "),
    (r"^method: ", "--method: "),
    (r"say where: target_region$", "say where: --target-region"),
    (r"with target_region", "with --target-region"),
    (r"Pass axes, or metadata=\"geozarr\"", "Pass --metadata geozarr"),
    (r", or pass metadata=\"geozarr\"", ", or pass --metadata geozarr"),
)


def guarded(work: Callable[[], object], interrupted: str) -> int:
    """Do the work of a command and return the exit code. ``interrupted``: what is left after Ctrl-C."""
    before = signal.signal(signal.SIGTERM, _on_terminate)
    try:
        work()
    except KeyboardInterrupt:
        _tell(f"interrupted; {interrupted}")
        return 130
    except _Terminated:
        _tell(f"interrupted; {interrupted}")
        return 143
    except BrokenPipeError:
        return 0
    except Exception as error:
        # Names from outside may hold any character. Keep the message on one line.
        text = _in_options(" ".join([str(error) or repr(error), *getattr(error, "__notes__", ())]))
        _tell("error: " + "".join(c if c.isprintable() else " " for c in text))
        return (
            3 if isinstance(error, VerificationError) else 2 if isinstance(error, InvalidArgumentError) else 1
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _in_options(text: str) -> str:
    text = _native.in_options(text)
    for found, here in _WORDS:
        text = re.sub(found, here, text)
    return text


class _Terminated(BaseException):
    pass


def _on_terminate(*_: Any) -> None:
    raise _Terminated


def _tell(text: str) -> None:
    print(f"hyperslab: {text}", file=sys.stderr)
