"""Writes datasets of xarray to NetCDF files: `to_netcdf`, `save_mfdataset`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import xarray as xr
from xarray.backends.api import DATAARRAY_NAME, DATAARRAY_VARIABLE
from xarray.backends.common import _normalize_path
from xarray.backends.locks import get_dask_scheduler
from xarray.backends.writers import _sanitize_unlimited_dims, _validate_attrs, _validate_dataset_names
from xarray.backends.zarr import _choose_default_mode

from hyperslab._xarray.classic import ClassicOutput, ClassicStore
from hyperslab._xarray.netcdf_blocks import check_delayed, computed
from hyperslab._xarray.netcdf_file import NetcdfFile
from hyperslab._xarray.netcdf_store import NetcdfStore
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from dask.delayed import Delayed

__all__ = ["save_mfdataset", "to_netcdf"]

NetcdfMode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]
NetcdfFormat: TypeAlias = Literal[
    "NETCDF4",
    "NETCDF4_CLASSIC",
    "NETCDF3_CLASSIC",
    "NETCDF3_64BIT",
    "NETCDF3_64BIT_OFFSET",
    "NETCDF3_64BIT_DATA",
]
Region: TypeAlias = Mapping[str, "slice | Literal['auto']"] | Literal["auto"]

_NETCDF4 = ("NETCDF4", "NETCDF4_CLASSIC")
_NETCDF3 = ("NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA")


def to_netcdf(
    ds: xr.Dataset | xr.DataArray | xr.DataTree,
    path: Any = None,
    mode: NetcdfMode | None = None,
    format: NetcdfFormat | None = None,
    group: str | None = None,
    encoding: Mapping[Any, Any] | None = None,
    unlimited_dims: Any = None,
    compute: bool = True,
    *,
    append_dim: Hashable | None = None,
    region: Region | None = None,
    invalid_netcdf: bool = False,
    auto_complex: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    write_inherited_coords: bool = False,
) -> memoryview | Delayed | None:
    """Write a dataset, an array or a tree to a NetCDF file: `xarray.Dataset.to_netcdf` on all cores.

    Arguments have the same meaning as in xarray, and the file has the same contents. netCDF4 and
    h5netcdf are not needed.

    Parameters
    ----------
    ds : xarray.Dataset, xarray.DataArray or xarray.DataTree
        Variables with dask arrays are written block by block, in parallel.
    path : str, os.PathLike or file object, optional
        A path or a URL (``s3://``, …, new files only), or an object with ``write``. Default: return
        the bytes of the file.
    mode : {"w", "w-", "a", "a-", "r+"}, optional
        ``w``: a new file, which may replace another one. ``w-``: a new file, and nothing may exist.
        ``a``: add variables to a file, or replace the values of variables; make the file if there is
        none. ``a-``: with ``append_dim``, leave variables without that dimension.
        ``r+``: only existing variables. Default: ``a`` with ``append_dim``, ``r+`` with ``region``,
        otherwise ``w``.
    format : str, optional
        ``NETCDF4`` (default), ``NETCDF4_CLASSIC``, ``NETCDF3_CLASSIC``, ``NETCDF3_64BIT`` (or
        ``NETCDF3_64BIT_OFFSET``) or ``NETCDF3_64BIT_DATA``.
    group : str, optional
        The path of the group. Not for trees.
    encoding : mapping, optional
        For each variable, an encoding of xarray's engines "netcdf4" or "h5netcdf": ``dtype``,
        ``scale_factor``, ``_FillValue``, ``zlib``, ``complevel``, ``shuffle``, ``compression``,
        ``chunksizes``, ``units`` and so on. For a tree, such a mapping for each path.
    unlimited_dims : str, iterable of hashable, or mapping, optional
        Dimensions that can be appended to. Default: ``ds.encoding["unlimited_dims"]``. For a tree, a
        mapping from paths.
    compute : bool, default True
        Whether to write blocks of dask now. If false, everything else is written now, and the
        returned object writes the blocks when it is computed.
    append_dim : hashable, optional
        The unlimited dimension along which all variables that have it are lengthened. The stored
        encodings and attributes stay. Variables without the dimension must equal the stored ones,
        unless mode is ``a-``. Not for trees.
    region : mapping or "auto", optional
        Where to write in existing variables: a slice for some dimensions, or ``"auto"`` to derive
        it from the coordinates.
    invalid_netcdf : bool, default False
        Whether attributes may be booleans. Other programs may not read such a file.
    auto_complex : bool, optional
        Complex numbers are written as pairs of numbers, as netCDF4-python and h5netcdf do. ``False``
        refuses them.
    storage_options : mapping, optional
        As in `hyperslab.open`.
    write_inherited_coords : bool, default False
        For a tree: whether to write coordinates again in each group that inherits them.

    Returns
    -------
    None
        With ``path=None``, a ``memoryview`` of the file. With ``compute=False``, a
        ``dask.delayed.Delayed``.

    Raises
    ------
    ValueError
        For everything that xarray refuses, with the same messages, and for changes to the meaning
        of stored rows.
    DataTypeError
        For numbers, dates and text that do not fit the data type of an existing variable.

    Notes
    -----
    An error leaves the file as it was. A new file replaces the old one when it is complete, also if
    the process is killed. Changes of an existing file become visible together.

    On a cluster, the threads of all workers write their blocks side by side into one file, which all of
    them can reach. Each worker flushes once, in the end. A new file is written beside the old one and
    replaces it. If a task fails, its file stays as it was, and an appended dimension gets its old length
    back.

    NetCDF classic files get records and regions in place. A program that is killed leaves the old number
    of records, but elements of a region that are written by then stay, as after an error.

    Examples
    --------
    >>> import hyperslab.xarray, tempfile, xarray as xr
    >>> path = tempfile.mkdtemp() + "/example.nc"
    >>> first = xr.Dataset({"sst": ("time", [1.5, 2.5])}, {"time": [0, 1]})
    >>> hyperslab.xarray.to_netcdf(first, path, unlimited_dims="time")
    >>> later = xr.Dataset({"sst": ("time", [3.5])}, {"time": [2]})
    >>> hyperslab.xarray.to_netcdf(later, path, append_dim="time")
    >>> xr.open_dataset(path, engine=hyperslab.xarray.BackendEntrypoint)["sst"].values
    array([1.5, 2.5, 3.5])
    """
    file = _begun(
        ds,
        path,
        mode,
        format,
        group,
        encoding,
        unlimited_dims,
        compute,
        append_dim,
        region,
        invalid_netcdf,
        auto_complex,
        storage_options,
        write_inherited_coords,
    )
    writing, found = _finished([file], compute)
    return found[0] if compute else writing


def save_mfdataset(
    datasets: Sequence[xr.Dataset],
    paths: Sequence[str | os.PathLike[str]],
    mode: NetcdfMode = "w",
    format: NetcdfFormat | None = None,
    groups: Sequence[str] | None = None,
    compute: bool = True,
    **kwargs: Any,
) -> Delayed | None:
    """Write datasets to one NetCDF file each, all at the same time: `xarray.save_mfdataset`.

    Parameters
    ----------
    datasets : list of xarray.Dataset
    paths : list of str or os.PathLike
        A path for each dataset.
    mode, format, compute
        As in `to_netcdf`.
    groups : list of str, optional
        A group for each dataset.
    **kwargs
        Other arguments of `to_netcdf`.

    Returns
    -------
    None
        With ``compute=False``, a ``dask.delayed.Delayed``.

    Examples
    --------
    >>> import hyperslab.xarray, tempfile, xarray as xr
    >>> folder = tempfile.mkdtemp()
    >>> years = [xr.Dataset({"sst": ("time", [1.5, year])}) for year in (2024, 2025)]
    >>> hyperslab.xarray.save_mfdataset(years, [f"{folder}/2024.nc", f"{folder}/2025.nc"])
    """
    if mode == "w" and len({os.fspath(path) for path in paths}) < len(paths):
        raise InvalidArgumentError("cannot use mode='w' when writing multiple datasets to the same path")
    for each in datasets:
        if not isinstance(each, xr.Dataset):
            raise ArgumentTypeError(
                f"save_mfdataset only supports writing Dataset objects, received type {type(each)}"
            )
    names = [None] * len(datasets) if groups is None else list(groups)
    if len({len(datasets), len(paths), len(names)}) > 1:
        raise InvalidArgumentError(
            "must supply lists of the same length for the datasets, paths and groups arguments to "
            "save_mfdataset"
        )
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        # One file after the other: each writer sees what the one before has written.
        for ds, path, name in zip(datasets, paths, names, strict=True):
            to_netcdf(ds, path, mode, format, name, **kwargs)
        return None
    files: list[Any] = []
    try:
        for ds, path, name in zip(datasets, paths, names, strict=True):
            files.append(_begun_with(ds, path, mode, format, name, compute, **kwargs))
    except BaseException:
        for file in files:
            file.fail()
        raise
    writing, _ = _finished(files, compute)
    return writing


def _begun_with(ds: Any, path: Any, mode: Any, format: Any, group: Any, compute: bool, **kwargs: Any) -> Any:
    options: dict[str, Any] = {
        "encoding": None,
        "unlimited_dims": None,
        "append_dim": None,
        "region": None,
        "invalid_netcdf": False,
        "auto_complex": None,
        "storage_options": None,
        "write_inherited_coords": False,
    }
    for key in kwargs:
        if key not in options:
            raise TypeError(f"save_mfdataset() got an unexpected keyword argument {key!r}")
    options.update(kwargs)
    return _begun(ds, path, mode, format, group, compute=compute, **options)


def _finished(files: Sequence[Any], compute: bool) -> tuple[Delayed | None, list[Any]]:
    """Write all values and complete the files."""
    try:
        for file in files:
            file.write(compute)
        writing = computed(files, compute)
        return writing, [file.complete() for file in files]
    except BaseException:
        for file in files:
            file.fail()
        raise


def _begun(
    ds: Any,
    path: Any,
    mode: Any,
    format: Any,
    group: Any,
    encoding: Any,
    unlimited_dims: Any,
    compute: bool,
    append_dim: Any,
    region: Any,
    invalid_netcdf: bool,
    auto_complex: Any,
    storage_options: Any,
    write_inherited_coords: bool,
) -> Any:
    """Open a file, and make everything but the values."""
    if isinstance(ds, xr.DataArray):
        ds = _as_dataset(ds)
    if not isinstance(ds, xr.Dataset | xr.DataTree):
        raise ArgumentTypeError(
            f"ds: expected a Dataset, a DataArray or a DataTree, found {type(ds).__name__}"
        )
    is_tree = isinstance(ds, xr.DataTree)
    if invalid_netcdf:
        warnings.warn(
            "You are writing invalid netcdf features to file: NetCDF programs may not read it", stacklevel=3
        )
    format = _checked_format(format, is_tree)
    if isinstance(ds, xr.DataTree):
        _check_tree(ds, group, append_dim, encoding, unlimited_dims)
    if group is not None and not isinstance(group, str):
        raise InvalidArgumentError("group must be a string or None")
    chosen, keeps = _mode_of(mode, append_dim, region)
    place = _normalize_path(path)
    if not compute:
        check_delayed(place)
    parts = _parts(ds, group, write_inherited_coords, encoding, unlimited_dims)
    sanitized = []
    for at, part, encodings, unlimited in parts:
        _validate_dataset_names(part)
        engine = "h5netcdf" if invalid_netcdf else "netcdf4"
        _validate_attrs(part, engine, invalid_netcdf)  # type: ignore[no-untyped-call]
        if not is_tree:
            unlimited = _sanitize_unlimited_dims(part, unlimited)  # type: ignore[no-untyped-call]
        sanitized.append((at, part, encodings, unlimited))
    chunked = any(v.chunks is not None for _, part, *_ in parts for v in part.variables.values())
    shared = chunked and get_dask_scheduler() in ("distributed", "multiprocessing")
    if format in _NETCDF3 or (chosen not in ("w", "w-") and _is_classic(place)):
        format = format if format in _NETCDF3 else _NETCDF3[0]
        if is_tree or group not in (None, "", "/"):
            asked = "ds is a tree" if is_tree else f"group={group!r}"
            raise InvalidArgumentError(f"{asked}: NetCDF classic files have no groups: use 'NETCDF4'")
        output = ClassicOutput(place, chosen, format, keeps, shared, storage_options)
        try:
            for _, part, encodings, unlimited in sanitized:
                classic = ClassicStore(
                    output,
                    format,
                    keeps=keeps,
                    append_dim=append_dim,
                    region=dict(region) if isinstance(region, Mapping) else region,
                )
                classic.dump(part, output.writer, encodings, unlimited)
        except BaseException:
            output.fail()
            raise
        return output
    file = NetcdfFile(place, chosen, shared, storage_options)
    try:
        if compute:
            file.share()
        store: NetcdfStore | None = None
        for at, part, encodings, unlimited in sanitized:
            if store is None:
                store = NetcdfStore(
                    file.tree,
                    at,
                    file.mode,
                    format=format,
                    keeps=keeps and file.mode != "w",
                    append_dim=append_dim,
                    # Pass a copy: xarray adds what it finds.
                    region=dict(region) if isinstance(region, Mapping) else region,
                    has_complex=auto_complex is not False,
                    is_invalid=invalid_netcdf,
                )
            elif at != "/":
                store = store.child(at)
            store.dump(part, file.writer, encodings, unlimited)
        if store is not None and append_dim is not None:
            file.undo = store.undo
    except BaseException:
        file.fail()
        raise
    return file


def _checked_format(format: Any, is_tree: bool) -> str:
    if is_tree and format not in (None, "NETCDF4"):
        raise InvalidArgumentError("DataTree.to_netcdf only supports the NETCDF4 format")
    found = "NETCDF4" if format is None else str(format).upper()
    if found not in _NETCDF4 + _NETCDF3:
        raise InvalidArgumentError(f"unexpected {format=}: expected one of {', '.join(_NETCDF4 + _NETCDF3)}")
    return found


def _check_tree(ds: xr.DataTree, group: Any, append_dim: Any, encoding: Any, unlimited_dims: Any) -> None:
    if group is not None:
        raise NotImplementedError("specifying a root group for the tree has not been implemented")
    if append_dim is not None:
        raise InvalidArgumentError("append_dim: expected None with a tree: write its datasets one by one")
    if unknown := {*(encoding or {})} - {*ds.groups}:
        raise InvalidArgumentError(f"unexpected encoding group name(s) provided: {unknown}")
    if unlimited_dims is not None and not isinstance(unlimited_dims, Mapping):
        raise InvalidArgumentError(
            f"unlimited_dims: expected a mapping from paths of groups, found {unlimited_dims!r}"
        )


def _mode_of(mode: Any, append_dim: Any, region: Any) -> tuple[Any, bool]:
    """Return the mode, and whether existing variables keep their encoding."""
    if append_dim is None and region is None and mode in (None, "w", "a"):
        return mode or "w", False
    chosen: Any = _choose_default_mode(mode=mode, append_dim=append_dim, region=region)
    return chosen, chosen not in ("w", "w-")


def _parts(
    ds: Any, group: Any, write_inherited_coords: bool, encoding: Any, unlimited_dims: Any
) -> list[tuple[str, xr.Dataset, Any, Any]]:
    """Return paths of groups with their datasets, encodings and unlimited dimensions."""
    if isinstance(ds, xr.Dataset):
        path = "/" + "/".join(part for part in (group or "").split("/") if part)
        return [(path, ds, dict(encoding or {}), unlimited_dims)]
    found: list[tuple[str, xr.Dataset, Any, Any]] = []
    for node in ds.subtree:
        is_top = node is ds
        part = node.to_dataset(inherit=write_inherited_coords or is_top)
        # A tree is written from its own root, also if it is a part of a larger one.
        at = "/" if is_top else node.path
        found.append((at, part, (encoding or {}).get(node.path), (unlimited_dims or {}).get(node.path)))
    return found


def _is_classic(place: Any) -> bool:
    """Return True for the path of a NetCDF classic file."""
    path = Path(place) if isinstance(place, str) else None
    if path is None or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(3) == b"CDF"


def _as_dataset(array: xr.DataArray) -> xr.Dataset:
    """Return an array as a dataset, as ``DataArray.to_netcdf`` does."""
    if not array.name:
        return array.to_dataset(name=DATAARRAY_VARIABLE)
    if array.name in array.coords or array.name in array.dims:
        ds = array.to_dataset(name=DATAARRAY_VARIABLE)
        ds.attrs[DATAARRAY_NAME] = array.name
        return ds
    return array.to_dataset()
