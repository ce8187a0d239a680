"""What every array and group says of its place."""

from __future__ import annotations

__all__ = ["Named"]


class Named:
    """Something with a path."""

    __slots__ = ()

    @property
    def path(self) -> str:
        """The path in the store."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """``/`` and the path in the store."""
        return f"/{self.path}"

    @property
    def basename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]
