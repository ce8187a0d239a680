"""What `Array.info` and `Group.info` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Info", "human_size"]


def human_size(size: int) -> str:
    """``824633720832`` as ``768.0 GiB``."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024 or unit == "EiB":
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


class Info:
    """Facts, one per line when printed; ``to_dict()`` gives them by name."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def to_dict(self) -> dict[str, Any]:
        """The facts by name."""
        return dict(self._facts)

    def __repr__(self) -> str:
        width = max(map(len, self._facts))
        return "\n".join(f"{name:<{width}} : {value}" for name, value in self._facts.items())

    def _repr_html_(self) -> str:
        from hyperslab._html import facts_table

        return facts_table(self._facts)
