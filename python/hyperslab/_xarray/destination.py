"""The destination of a dataset that is written to Zarr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from hyperslab._core.arguments import ZarrFormat, normalize_format
from hyperslab._core.group import Group
from hyperslab._create.open import open_group
from hyperslab._create.place import check_empty, place_of
from hyperslab.errors import GroupNotFoundError

__all__ = ["Destination", "WriteMode", "join"]

WriteMode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]


class Destination:
    """The destination of a dataset, and the node that exists there."""

    def __init__(
        self,
        place: Any,
        mode: WriteMode,
        group: str | None,
        consolidated: bool | None,
        storage_options: Mapping[str, Any] | None,
        zarr_format: Literal[2, 3] | None,
    ) -> None:
        known: Any = "a" if mode == "a-" else mode
        self.store, self.base = place_of(place, None, known, storage_options)
        self.path = join(self.base, group or "")
        self.mode: Any = known
        self.consolidates = mode != "r+" and consolidated in (None, True)
        self.given_format: ZarrFormat | None = zarr_format
        self.existing: Group | None = None
        if mode == "w-":
            check_empty(self.store, self.path)
        elif mode == "r+":
            self.existing = self._to_change(consolidated)
        elif mode != "w":
            try:
                self.existing = self.open()
            except GroupNotFoundError:
                self.existing = None
        present = self.existing
        self.zarr_format: ZarrFormat = normalize_format(
            zarr_format if present is None else present.zarr_format
        )

    def _to_change(self, consolidated: bool | None) -> Group:
        if consolidated and self.path != self.base:
            # The consolidated metadata is at the root.
            root = self.open(self.base, use_consolidated=True)
            return root.get_group(self.path[len(self.base) :].strip("/"))
        return self.open(use_consolidated=consolidated)

    def open(self, path: str | None = None, use_consolidated: bool | None = False) -> Group:
        """Return an existing group. Default: the group to write."""
        return open_group(
            self.store,
            mode="r+",
            path=self.path if path is None else path,
            zarr_format=self.given_format,
            use_consolidated=use_consolidated,
        )

    def create(self) -> Group:
        """Return the group, creating it if it is missing."""
        return open_group(
            self.store,
            mode=self.mode,
            path=self.path,
            zarr_format=self.given_format,
            use_consolidated=False if self.mode == "a" else None,
        )

    def consolidate(self) -> None:
        """Consolidate the metadata of the whole store, as xarray does. The group is part of it."""
        open_group(self.store, mode="r+", path=self.base, use_consolidated=False).consolidate()


def join(*parts: str) -> str:
    return "/".join(part for path in parts for part in path.split("/") if part)
