"""Names and paths of objects, links and attributes."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["text_of"]


def text_of(name: Any) -> str:
    """Return a name or path as text. Bytes that are not UTF-8 become lone surrogates."""
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    if isinstance(name, os.PathLike):
        return text_of(os.fspath(name))
    if not isinstance(name, str):
        raise TypeError(f"A name should be string or bytes, not {type(name)}")
    return name
