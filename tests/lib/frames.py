"""Counts calls of Python functions of the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import hyperslab as hs

_PACKAGE = str(Path(hs.__file__).parent)


def frames(work: Callable[[], Any]) -> list[str]:
    """Functions of the package that a call runs, in order. Imports and caches are warm.

    A generator counts each time that it goes on. Calls of Rust do not count, nor do comprehensions:
    since Python 3.12 they are no functions.
    """
    work()
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        comprehends = code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>")
        if event == "call" and code.co_filename.startswith(_PACKAGE) and not comprehends:
            found.append(f"{Path(code.co_filename).name}:{code.co_qualname}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found
