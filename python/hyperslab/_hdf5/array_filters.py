"""The filters of datasets, under the names of h5py and of Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab._hdf5.filters import filters_by_name, library_name

__all__ = ["ArrayFilters"]

_NAMES = {1: "gzip", 4: "szip", 32000: "lzf"}
# The filters above, plus shuffle, fletcher32 and scale-offset.
_FILTERS = frozenset({*_NAMES, 2, 3, 6})


class ArrayFilters:
    """How the chunks of a dataset are filtered."""

    if TYPE_CHECKING:

        @property
        def _facts(self) -> dict[str, Any]: ...

    @property
    def filter_ids(self) -> tuple[int, ...]:
        """Numbers of the filters, in the order applied when writing."""
        return tuple(number for number, _, _ in self._facts["filters"])

    @property
    def filter_names(self) -> tuple[str, ...]:
        """Names of the filters: as stored, or as in the HDF5 library."""
        return tuple(name or library_name(number) for number, name, _ in self._facts["filters"])

    @property
    def _filters(self) -> dict[str, Any]:
        """Names and settings of the filters, for kerchunk, which expects h5py's attribute."""
        return filters_by_name(self._facts["filters"])

    def _filter(self, number: int) -> tuple[int, ...] | None:
        for found, _, parameters in self._facts["filters"]:
            if found == number:
                return tuple(parameters)
        return None

    @property
    def compression(self) -> str | None:
        """``"gzip"``, ``"lzf"``, ``"szip"``, ``"unknown"`` or ``None``.

        ``"unknown"`` stands for filters that h5py does not know; `filter_ids` identifies them.
        """
        for number, name in _NAMES.items():
            if number in self.filter_ids:
                return name
        return "unknown" if set(self.filter_ids) - _FILTERS else None

    @property
    def compression_opts(self) -> Any:
        """gzip's level, or szip's method and pixels per block."""
        name = self.compression
        if name == "gzip":
            parameters = self._filter(1)
            return parameters[0] if parameters else None
        if name == "szip":
            options = self._filter(4) or (0, 0)
            return ("ec" if options[0] & 4 else "nn", options[1])
        return None

    @property
    def shuffle(self) -> bool:
        """True if bytes of elements are shuffled before compression."""
        return 2 in self.filter_ids

    @property
    def fletcher32(self) -> bool:
        """True if chunks have checksums."""
        return 3 in self.filter_ids

    @property
    def scaleoffset(self) -> int | None:
        """Digits or bits that the scale-offset filter keeps; ``None`` without this filter."""
        parameters = self._filter(6)
        return parameters[1] if parameters else None

    @property
    def filters(self) -> tuple[Any, ...]:
        """The filters in the order applied when writing, as dictionaries.

        The keys are ``id``, ``name`` and ``parameters``.
        """
        return tuple(
            {"id": number, "name": name, "parameters": tuple(parameters)}
            for number, name, parameters in self._facts["filters"]
        )

    @property
    def serializer(self) -> None:
        """Only for Zarr: always ``None``."""
        return None

    @property
    def compressors(self) -> tuple[Any, ...]:
        """Only for Zarr: always empty. See `filters`."""
        return ()
