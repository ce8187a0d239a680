"""Progress bars for ``progress=True``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["bytes_text", "show_progress"]

_WIDTH: Final = 24
# Minimum time between two drawings. More frequent drawing costs more than it tells.
_SECONDS: Final = 0.1


@contextmanager
def show_progress(progress: bool | Callable[..., object] | None, *, stays: bool = True) -> Iterator[Any]:
    """Yield the function to call with the phase, the bytes done, and the bytes in all.

    Yields ``None`` if the caller wants no progress. ``True`` draws a bar on standard error, which
    notebooks also show. ``stays``: leave the bar's last state on the screen.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    else:
        bar = _Bar()
        try:
            yield bar
        finally:
            bar.end(stays)


class _Bar:
    """A bar: ``copy [########                ] 33 %, 1.2 GiB of 3.6 GiB, 410.0 MiB/s``."""

    def __init__(self) -> None:
        self._begun = self._drawn = 0.0
        self._phase: str | None = None
        self._text = ""

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self._phase:
            if self._phase is not None:
                self._draw(self._text + "\n")
            self._phase, self._begun, self._drawn = phase, now, 0.0
        share = done / total if total else 1.0
        full = round(_WIDTH * share)
        speed = bytes_text(round(done / max(now - self._begun, 1e-3)))
        self._text = (
            f"{phase} [{'#' * full}{' ' * (_WIDTH - full)}] {share:.0%}, "
            f"{bytes_text(done)} of {bytes_text(total)}, {speed}/s"
        )
        if now - self._drawn >= _SECONDS or done >= total:
            self._drawn = now
            self._draw(self._text)

    @staticmethod
    def _draw(text: str) -> None:
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def end(self, stays: bool) -> None:
        if self._phase is not None:
            self._draw(f"{self._text}\n" if stays else "")


def bytes_text(n: int) -> str:
    """Return a size as text, like ``1.5 GiB``."""
    value, units = float(n), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{n} bytes" if units[0] == "bytes" else f"{value:.1f} {units[0]}"
