"""A plugin of pytest: xarray's own tests, with hyperslab as writer (and reader) of NetCDF.

`HYPERSLAB_XARRAY_RUN` is ``W`` (our writer, xarray's readers) or ``RW`` (our writer and reader). Reports
outcomes to ``report.json``.
"""

from __future__ import annotations

import functools
import json
import os
from typing import Any

import hyperslab.xarray as ours
import pytest
import xarray as xr
from xarray.backends import common, writers

_outcomes: dict[str, str] = {}
_ENGINES = ("netcdf4", "h5netcdf")


def _replaced(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def to_netcdf(self: Any, *args: Any, **kwargs: Any) -> Any:
        engine = kwargs.get("engine")
        format_ = kwargs.get("format")
        if engine not in (None, *_ENGINES) or str(format_).startswith("NETCDF3"):
            return theirs(self, *args, **kwargs)
        kwargs.pop("engine", None)
        if engine == "h5netcdf" and isinstance(self, xr.Dataset | xr.DataTree):
            # Attributes that only this engine refuses.
            if isinstance(self, xr.Dataset):
                validate: Any = writers._validate_attrs
                validate(self, engine, kwargs.get("invalid_netcdf", False))
        return ours.to_netcdf(self, *args, **kwargs)

    return to_netcdf


def pytest_configure(config: pytest.Config) -> None:
    kind: Any
    for kind in (xr.Dataset, xr.DataArray, xr.DataTree):
        kind.to_netcdf = _replaced(kind.to_netcdf)
    theirs: Any = xr.save_mfdataset

    def save_mfdataset(*args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("engine", None) not in (None, *_ENGINES):
            return theirs(*args, **kwargs)
        return ours.save_mfdataset(*args, **kwargs)

    xr.save_mfdataset = save_mfdataset
    if os.environ["HYPERSLAB_XARRAY_RUN"] == "RW":

        class Engine(ours.BackendEntrypoint):
            """Our engine, for arguments that only xarray's own engines have."""

            def open_dataset(self, filename_or_obj: Any, **kwargs: Any) -> Any:
                return super().open_dataset(filename_or_obj, **_known(kwargs))

            def open_groups_as_dict(self, filename_or_obj: Any, **kwargs: Any) -> Any:
                return super().open_groups_as_dict(filename_or_obj, **_known(kwargs))

        for name in _ENGINES:
            common.BACKEND_ENTRYPOINTS[name] = (None, Engine)


def _known(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in kwargs.items()
        if key not in ("format", "lock", "phony_dims", "auto_complex", "invalid_netcdf", "mode", "autoclose")
    }


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.partition("::")[2].replace("::", ".")
    if report.failed:
        _outcomes[name] = "failed"
    elif report.when == "call" or report.skipped:
        _outcomes.setdefault(name, report.outcome)


def pytest_sessionfinish() -> None:
    with open("report.json", "w") as file:
        json.dump(_outcomes, file)
