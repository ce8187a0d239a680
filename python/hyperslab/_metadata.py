"""Metadata documents."""

from __future__ import annotations

from typing import Any

__all__ = ["Metadata"]


class Metadata(dict[str, Any]):
    """A metadata document; its members are attributes, too."""

    def to_dict(self) -> dict[str, Any]:
        """The document as a plain dictionary."""
        return dict(self)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name == "dimension_names":
            return None  # a document may leave it out
        raise AttributeError(f"metadata has no member {name!r}")
