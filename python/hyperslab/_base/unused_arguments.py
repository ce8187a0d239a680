"""Arguments of zarr-python that have no effect."""

from __future__ import annotations

import warnings
from typing import Any

from hyperslab.errors import ZarrRuntimeWarning

__all__ = ["warn_unused"]


def warn_unused(**arguments: Any) -> None:
    """Warn of each argument that is not ``None``, as zarr-python does.

    Must be called by the function that users call, so that the warning shows their line.
    """
    for name, value in arguments.items():
        if value is not None:
            warnings.warn(f"{name} is not yet implemented: it has no effect", ZarrRuntimeWarning, 3)
