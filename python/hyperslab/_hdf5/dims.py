"""Labels and dimension scales of axes of HDF5 datasets, as in h5py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hyperslab._hdf5 import scales

if TYPE_CHECKING:
    from hyperslab._hdf5.array import FileArray

__all__ = ["Dimension", "Dimensions"]


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


class Dimension:
    """One axis: a mapping from names to the dimension scales that describe it."""

    def __init__(self, array: FileArray, axis: int) -> None:
        self._array, self._axis = array, axis

    @property
    def label(self) -> str:
        """The label of the axis, or an empty text."""
        labels = self._array.attrs.get("DIMENSION_LABELS")
        return "" if labels is None else _text(labels[self._axis])

    @label.setter
    def label(self, value: str | bytes) -> None:
        scales.set_label(self._array, self._axis, value)

    def attach_scale(self, dset: FileArray) -> None:
        """Attach a scale, or another dataset, which becomes a scale."""
        scales.attach(self._array, self._axis, dset)

    def detach_scale(self, dset: FileArray) -> None:
        """Remove a scale."""
        scales.detach(self._array, self._axis, dset)

    def values(self) -> list[Any]:
        """Return the scales."""
        found = self._array.attrs.get("DIMENSION_LIST")
        if found is None:
            return []
        file = self._array.file
        return [file[reference] for reference in found[self._axis]]

    def items(self) -> list[tuple[str, Any]]:
        """Return names and scales. The names are stored with the scales and often empty."""
        return [(_text(scale.attrs.get("NAME", "")), scale) for scale in self.values()]

    def keys(self) -> list[str]:
        """Return the names of the scales."""
        return [name for name, _ in self.items()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.values())

    def __getitem__(self, item: int | str) -> Any:
        if isinstance(item, int):
            found = self.values()
            if not found:
                raise RuntimeError(f"axis {self._axis} of array '{self._array.name}' has no scales")
            return found[item]
        for name, scale in self.items():
            if name == item:
                return scale
        raise KeyError(item)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dimension):
            return NotImplemented
        return (self._array, self._axis) == (other._array, other._axis)

    def __hash__(self) -> int:
        return hash((self._array, self._axis))

    def __repr__(self) -> str:
        return f'<"{self.label}" dimension {self._axis} of {self._array.name}>'


class Dimensions:
    """All axes of an array."""

    def __init__(self, array: FileArray) -> None:
        self._array = array

    def __getitem__(self, axis: int) -> Dimension:
        if not 0 <= axis < len(self):
            raise IndexError("Index out of range")
        return Dimension(self._array, axis)

    def __len__(self) -> int:
        return self._array.ndim

    def create_scale(self, dset: FileArray, name: str = "") -> None:
        """Make a dataset a scale; see `FileArray.make_scale`."""
        dset.make_scale(name)

    def __iter__(self) -> Iterator[Dimension]:
        return (Dimension(self._array, axis) for axis in range(len(self)))

    def __repr__(self) -> str:
        return f"<Dimensions of {self._array.name}>"
