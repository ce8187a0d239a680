"""Members of groups that cannot be opened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from hyperslab._core.node import Named
from hyperslab.errors import (
    ChunkError,
    HyperslabError,
    MetadataValidationError,
    StorePermissionError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from hyperslab._core.group_common import AnyGroup

__all__ = ["UNREADABLE", "UnreadableArray", "UnreadableNodeWarning", "reason_text"]

# Errors of a single node that do not affect other nodes. (`ChunkError`: a metadata document is too
# large.)
UNREADABLE = (MetadataValidationError, UnsupportedError, StorePermissionError, ChunkError)


class UnreadableNodeWarning(UserWarning):
    """A node was left out because it cannot be read."""


def reason_text(error: Exception) -> str:
    """Return the reason, short enough for a line of a tree."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) <= 200 else f"{text[:199]}…"


class UnreadableArray(Named):
    """A member of a group that cannot be opened.

    Its codec or type is not known, or its metadata is damaged. Groups list it among their members,
    so that the other members can be used. It has a name and, if its document is intact, attributes.
    Any other access raises the error with the reason; so does ``group[name]``.
    """

    def __init__(self, group: AnyGroup, path: str, error: HyperslabError) -> None:
        self._group, self._relative, self.error = group, path, error

    error: HyperslabError
    """The reason why it cannot be opened."""

    @property
    def path(self) -> str:
        """The path in the store."""
        return f"{self._group.path}/{self._relative}" if self._group.path else self._relative

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the user's attributes, as far as they can be read."""
        for name, member in (("zarr.json", "attributes"), (".zattrs", None)):
            try:
                text = self._group.store.get(f"{self.path}/{name}")
                found = json.loads(text) if text is not None else None
            except (HyperslabError, ValueError):
                continue
            if member is not None and isinstance(found, dict):
                found = found.get(member, {})
            if isinstance(found, dict):
                return found
        return {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnreadableArray):
            return NotImplemented
        return self._group.store == other._group.store and self.path == other.path

    __hash__ = None  # type: ignore[assignment]

    def _refuse(self) -> NoReturn:
        raise self.error

    def __getattr__(self, name: str) -> Any:
        from hyperslab._core.array import Array

        # Tools probe objects for names that arrays do not have. These are normal AttributeErrors.
        if not name.startswith("_") and hasattr(Array, name):
            self._refuse()
        raise AttributeError(f"unreadable array {self.name!r} has no attribute {name!r}")

    def __getitem__(self, selection: Any) -> NoReturn:
        self._refuse()

    def __setitem__(self, selection: Any, value: Any) -> NoReturn:
        self._refuse()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def __repr__(self) -> str:
        return f"<UnreadableArray {self._group.store.url}{self.name}: {reason_text(self.error)}>"
