"""The xarray engine: ``xarray.open_dataset(path_or_url, engine="hyperslab")``.

It opens Zarr, HDF5 and NetCDF. Datasets have the same variables, attributes and encodings as with
xarray's engines "zarr", "netcdf4" and "h5netcdf". Decoding is xarray's own.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import xarray as xr
from xarray.backends import BackendEntrypoint as _XarrayEntrypoint
from xarray.backends.common import (
    AbstractDataStore,
    _is_likely_dap_url,
    _normalize_path,
    datatree_from_dict_with_io_cleanup,
)
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core.utils import is_remote_uri, strip_uri_params

from hyperslab._base.regular_file import open_regular
from hyperslab._core.group import Group
from hyperslab._core.group_common import AnyGroup
from hyperslab._create.open import open_group
from hyperslab._hdf5.group import FileGroup
from hyperslab._stores.store import Store
from hyperslab._xarray.files import FileReader, FileTree
from hyperslab._xarray.many import AHEAD, OpenedAhead, flat
from hyperslab._xarray.netcdf import save_mfdataset, to_netcdf
from hyperslab._xarray.write import to_zarr
from hyperslab._xarray.zarr import ZarrReader, zarr_groups
from hyperslab.errors import NodeNotFoundError

__all__ = ["BackendEntrypoint", "open_mfdataset", "save_mfdataset", "to_netcdf", "to_zarr"]

_MAGIC = (b"\x89HDF\r\n\x1a\n", b"CDF\x01", b"CDF\x02", b"CDF\x05")
_FILES = frozenset({".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5"})
# Parameters of `open_dataset`. xarray finds them itself only for engines that have a name.
_PARAMETERS = (
    "filename_or_obj",
    "mask_and_scale",
    "decode_times",
    "concat_characters",
    "decode_coords",
    "drop_variables",
    "use_cftime",
    "decode_timedelta",
    "group",
    "storage_options",
    "consolidated",
    "zarr_format",
    "use_zarr_fill_value_as_mask",
)
_SCHEMES = frozenset({"file", "s3", "gs", "gcs", "az", "abfs", "abfss", "http", "https"})


class BackendEntrypoint(_XarrayEntrypoint):
    """The engine "hyperslab" of xarray: Zarr v2 and v3, HDF5, NetCDF 3 and 4, local and remote.

    If hyperslab is installed, ``engine="hyperslab"`` stands for this class.

    Examples
    --------
    >>> import hyperslab as hs, tempfile, xarray as xr
    >>> from hyperslab.xarray import BackendEntrypoint
    >>> path = tempfile.mkdtemp() + "/example.zarr"
    >>> group = hs.create_group(path)
    >>> z = group.create_array("sst", data=[1.5, 2.5], dimension_names=["x"])
    >>> xr.open_dataset(path, engine=BackendEntrypoint)["sst"].values
    array([1.5, 2.5])
    """

    description: ClassVar[str] = "Open Zarr, HDF5 and NetCDF with hyperslab"
    url: ClassVar[str] = "https://github.com/hyperslab/hyperslab/blob/main/docs/xarray.md"
    supports_groups: ClassVar[bool] = True
    open_dataset_parameters: ClassVar[tuple[str, ...] | None] = _PARAMETERS

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True if xarray may choose this engine when the user names none.

        For local files, this checks the first bytes or the metadata; for URLs, the name. If
        zarr-python is installed, files for xarray's engine "zarr" are left to it.
        """
        if isinstance(filename_or_obj, Store | AnyGroup):
            return True
        if isinstance(filename_or_obj, bytes | memoryview):
            return bytes(filename_or_obj[:8]).startswith(_MAGIC)
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj)
        if not isinstance(name, str):
            return False
        remote = is_remote_uri(name)
        plain = strip_uri_params(name) if remote else name
        ending = PurePosixPath(plain).suffix
        if ending == ".zarr" and importlib.util.find_spec("zarr") is not None:
            return False
        if remote:
            known = name.partition("://")[0].lower() in _SCHEMES and not _is_likely_dap_url(name)
            return known and (ending == ".zarr" or ending in _FILES)
        return _is_readable(Path(name).expanduser())

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        consolidated: bool | None = None,
        zarr_format: Any = None,
        use_zarr_fill_value_as_mask: bool | None = None,
    ) -> xr.Dataset:
        """Open one group as a dataset. Called by ``xarray.open_dataset``.

        Parameters
        ----------
        filename_or_obj : str, os.PathLike, hyperslab.Store, hyperslab.Group, bytes or memoryview
            Anything that `hyperslab.open_group` takes, or the contents of a file.
        mask_and_scale, decode_times, concat_characters, decode_coords
            As in ``xarray.open_dataset``.
        drop_variables, use_cftime, decode_timedelta
            As in ``xarray.open_dataset``.
        group : str, optional
            The path of the group.
        storage_options, zarr_format
            As in `hyperslab.open`.
        consolidated : bool, optional
            ``True``: require consolidated metadata; ``False``: ignore it. Default: use it if there
            is any.
        use_zarr_fill_value_as_mask : bool, optional
            Whether elements equal to a Zarr array's fill value are missing. Default: only in Zarr
            v2.
        """
        place = _Place(filename_or_obj, group, storage_options, consolidated, zarr_format)
        dropped = _names(drop_variables) if drop_variables else frozenset[str]()
        reader = place.reader(dropped, use_zarr_fill_value_as_mask)
        return _dataset(
            reader,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_datatree(self, filename_or_obj: Any, **kwargs: Any) -> xr.DataTree:
        """Open all groups as a tree. Called by ``xarray.open_datatree``.

        Takes the arguments of `open_dataset`.
        """
        return datatree_from_dict_with_io_cleanup(self.open_groups_as_dict(filename_or_obj, **kwargs))

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        consolidated: bool | None = None,
        zarr_format: Any = None,
        use_zarr_fill_value_as_mask: bool | None = None,
    ) -> dict[str, xr.Dataset]:
        """Open all groups as datasets. Called by ``xarray.open_groups``.

        Takes the arguments of `open_dataset`.
        """
        place = _Place(filename_or_obj, group, storage_options, consolidated, zarr_format)
        readers = place.readers(_names(drop_variables), use_zarr_fill_value_as_mask)
        return {
            path: _dataset(
                reader,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=concat_characters,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )
            for path, reader in readers
        }


class _Ahead(BackendEntrypoint):
    """Gives datasets that threads have opened.

    A class of a module, because dask derives the names of its tasks from it.
    """

    def open_dataset(self, filename_or_obj: Any, **arguments: Any) -> xr.Dataset:
        """Return the dataset of a file. Called by ``xarray.open_dataset``."""
        return AHEAD.get().open(filename_or_obj, arguments)


def open_mfdataset(paths: Any, *, concurrency: int = 64, **kwargs: Any) -> xr.Dataset:
    """Open many files as one dataset, many at a time: ``xarray.open_mfdataset`` with this engine.

    xarray opens one file after the other, and waits for a server each time. Here threads open
    the files, so that 64 files take about the time of one.

    Parameters
    ----------
    paths : str, or a nested sequence of str, os.PathLike, hyperslab.Store or hyperslab.Group
        As in ``xarray.open_mfdataset``. URLs have no wildcards.
    concurrency : int, default 64
        Number of files to open at a time.
    **kwargs
        The arguments of ``xarray.open_mfdataset``, such as ``combine``, ``data_vars`` or
        ``storage_options``, without ``engine`` and ``parallel``.

    Returns
    -------
    xarray.Dataset
        A dataset of dask arrays.

    Examples
    --------
    >>> import tempfile, xarray as xr
    >>> from hyperslab.xarray import open_mfdataset, to_zarr
    >>> paths = [f"{tempfile.mkdtemp()}/{n}.zarr" for n in range(3)]
    >>> for n, path in enumerate(paths):
    ...     group = to_zarr(xr.Dataset({"a": ("x", [n, n])}, {"x": [2 * n, 2 * n + 1]}), path)
    >>> open_mfdataset(paths)["a"].values
    array([0, 0, 1, 1, 2, 2])
    """
    for name in ("engine", "parallel"):
        if name in kwargs:
            raise TypeError(f"open_mfdataset takes no {name!r}: call xarray.open_mfdataset to choose it")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ValueError(f"concurrency must be a positive integer, found {concurrency!r}")
    # xarray's own function: it must find the same places. Not above, as xarray may move it.
    from xarray.backends.common import _find_absolute_paths

    places = _find_absolute_paths(paths, engine="hyperslab")
    indexed = bool(kwargs.get("create_default_indexes", True))
    with OpenedAhead(BackendEntrypoint, flat(places), concurrency, indexed):
        opened: xr.Dataset = xr.open_mfdataset(places, engine=_Ahead, **kwargs)
    return opened


class _Place:
    """The root of a file, or the Zarr group at a path."""

    def __init__(
        self,
        given: Any,
        path: str | None,
        storage_options: Mapping[str, Any] | None,
        consolidated: bool | None,
        zarr_format: Any,
    ) -> None:
        # Bytes are the contents of a file, as in xarray's own engines.
        place: Any = io.BytesIO(given) if isinstance(given, bytes | memoryview) else _normalize_path(given)
        self._source = place if isinstance(place, str) else None
        self._start = "/" if path is None else _absolute(path)
        inner = (path or "").strip("/")
        # As in xarray, the store's own attribute takes precedence.
        known = getattr(given, "supports_consolidated_metadata", True)
        options: dict[str, Any] = {
            "mode": "r",
            "storage_options": storage_options,
            "use_consolidated": consolidated if known else False,
            "zarr_format": zarr_format,
        }
        root: Any = place
        if not isinstance(place, AnyGroup):
            try:
                root = open_group(place, **options)
            except NodeNotFoundError:
                # A Zarr group may exist without a group above it.
                if not inner:
                    raise
                root, inner = open_group(place, path=path, **options), ""
        if inner and not isinstance(root, FileGroup):
            # Open it through the root, which may have consolidated metadata.
            root = root.get_group(inner)
        self._found: Group | FileGroup = root

    def reader(self, dropped: frozenset[str], fill_value_is_missing: bool | None) -> AbstractDataStore:
        """Return the reader of the group."""
        if isinstance(self._found, FileGroup):
            return FileReader(FileTree(self._found, self._source), self._start, dropped)
        return ZarrReader(self._found, dropped, fill_value_is_missing)

    def readers(
        self, dropped: frozenset[str], fill_value_is_missing: bool | None
    ) -> Iterator[tuple[str, AbstractDataStore]]:
        """Yield a reader for the group and all groups below, with their tree paths."""
        start, found = self._start, self._found
        if isinstance(found, FileGroup):
            tree = FileTree(found, self._source)
            for each in tree.groups(start):
                yield _key(each, start), FileReader(tree, each, dropped)
            return
        for each, group in zarr_groups(found):
            whole = f"{start.rstrip('/')}{each}".rstrip("/") or "/"
            yield _key(whole, start), ZarrReader(group, dropped, fill_value_is_missing)


def _absolute(path: str) -> str:
    if not isinstance(path, str):
        # This is the error that xarray's own engines for files raise.
        raise ValueError(f"group must be a string or None, found {path!r}")
    return "/" + "/".join(part for part in path.split("/") if part)


def _key(path: str, start: str) -> str:
    """Return a group's path in the tree: as in xarray, ``/a/b`` from the root, otherwise ``b``."""
    if start == "/":
        return path
    return path.removeprefix(start).lstrip("/") or "."


def _names(dropped: str | Iterable[str] | None) -> frozenset[str]:
    return frozenset([dropped] if isinstance(dropped, str) else dropped or ())


def _dataset(reader: AbstractDataStore, **decoding: Any) -> xr.Dataset:
    try:
        return StoreBackendEntrypoint().open_dataset(reader, **decoding)
    except BaseException:
        reader.close()  # type: ignore[no-untyped-call]
        raise


def _is_readable(path: Path) -> bool:
    """Return True for files that begin like HDF5 or NetCDF, and for directories of Zarr groups."""
    try:
        if path.is_dir():
            document = path / "zarr.json"
            if document.is_file():
                with open_regular(document) as file:
                    return b'"group"' in (file.read() or b"")
            return (path / ".zgroup").is_file()
        with open_regular(path) as file:
            return (file.read(8) or b"").startswith(_MAGIC)
    except OSError:
        return False


def __dir__() -> list[str]:
    return sorted(__all__)
