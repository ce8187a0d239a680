"""A VirtualiZarr parser: chunk locations of HDF5 and NetCDF files as a Zarr hierarchy."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from zarr.core.metadata import ArrayV3Metadata

from hyperslab._create.open import open_group
from hyperslab._hdf5.group import FileGroup
from hyperslab._native import PresentedFile
from hyperslab.errors import UnsupportedError

__all__ = ["VirtualizarrParser"]


class VirtualizarrParser:
    """Reads metadata of HDF5 and NetCDF files for ``virtualizarr.open_virtual_dataset(parser=…)``.

    Chunks stay in the file if Zarr has their codecs: none, shuffle, deflate, Zstandard. Data that
    Zarr stores in another form (text, other filters) are copied into the manifest, up to `inline`
    bytes per array.

    Parameters
    ----------
    group : str, default ""
        The group to use as root.
    drop_variables : iterable of str, default ()
        Names of arrays and groups to leave out.
    inline : int, default 16 << 20
        Maximum bytes of an array that is copied. A larger one raises
        `hyperslab.errors.UnsupportedError`.
    storage_options : mapping, optional
        As in `hyperslab.open`. The registry only serves VirtualiZarr's own reads of chunks.

    Examples
    --------
    >>> from virtualizarr import open_virtual_dataset  # doctest: +SKIP
    >>> open_virtual_dataset(url, registry, parser=hyperslab.zarr.VirtualizarrParser())  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        group: str = "",
        drop_variables: Iterable[str] = (),
        inline: int = 16 << 20,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.group = group.strip("/")
        self.drop_variables = frozenset(drop_variables)
        self.inline = inline
        self.storage_options = None if storage_options is None else dict(storage_options)

    def __call__(self, url: str, registry: Any) -> Any:
        """Return the ``ManifestStore`` of a file."""
        manifests = _manifests()
        root = open_group(url, mode="r", storage_options=self.storage_options)
        if not isinstance(root, FileGroup):
            raise UnsupportedError(
                f"{url} is not an HDF5 or NetCDF file; for Zarr use VirtualiZarr's ZarrParser"
            )
        objects = PresentedFile(root, cut=False, all=True)
        if objects.is_array(self.group) is not False:
            raise UnsupportedError(f"{url} has no group {self.group!r}")
        return manifests.ManifestStore(self._group(objects, self.group, url), registry=registry)

    def _group(self, objects: PresentedFile, path: str, url: str) -> Any:
        arrays, groups = {}, {}
        for name in objects.names(path):
            if name == "zarr.json" or name in self.drop_variables:
                continue
            full = f"{path}/{name}" if path else name
            if objects.is_array(full):
                arrays[name] = self._array(objects, full, url)
            else:
                groups[name] = self._group(objects, full, url)
        document = objects.part(f"{path}/zarr.json" if path else "zarr.json", 0, None) or b"{}"
        return _manifests().ManifestGroup(arrays, groups, json.loads(document).get("attributes"))

    def _array(self, objects: PresentedFile, path: str, url: str) -> Any:
        manifests = _manifests()
        metadata = ArrayV3Metadata.from_dict(json.loads(objects.part(f"{path}/zarr.json", 0, None) or b"{}"))
        counts = tuple(-(-n // step) for n, step in zip(metadata.shape, metadata.chunks, strict=True))
        count = math.prod(counts)
        paths = np.full(count, "", np.dtypes.StringDType())
        offsets, lengths = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        inlined = {}
        chunks = objects.chunks(path)
        if chunks is None:
            nbytes = objects.nbytes(path)
            if nbytes > self.inline:
                raise UnsupportedError(
                    f"{url}: Zarr has no codecs for array {path!r}, and its {nbytes} bytes are more "
                    f"than inline={self.inline} allows to copy: raise inline"
                )
            copied = range(count)
        else:
            numbers, starts, sizes, is_stored = chunks
            paths[numbers], offsets[numbers], lengths[numbers] = url, starts, sizes
            copied = numbers[~is_stored].tolist()
        for number in copied:
            index = tuple(int(at) for at in np.unravel_index(number, counts)) if counts else ()
            data = objects.part("/".join([path, "c", *map(str, index)]), 0, None)
            if data:
                inlined[index] = data
                paths[number], offsets[number], lengths[number] = "__inlined__", 0, len(data)
        manifest = manifests.ChunkManifest.from_arrays(
            paths=paths.reshape(counts),
            offsets=offsets.reshape(counts),
            lengths=lengths.reshape(counts),
            inlined=inlined,
        )
        return manifests.ManifestArray(metadata, manifest)


def _manifests() -> Any:
    return importlib.import_module("virtualizarr.manifests")


# Shown under its public name.
VirtualizarrParser.__module__ = "hyperslab.zarr"
