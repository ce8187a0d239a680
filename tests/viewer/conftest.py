"""A server with files that look like real ones, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hyperslab as hs
import pytest
from browser import Browser, browser
from viewer_data import write_all


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files of the tests."""
    folder = tmp_path_factory.mktemp("viewer")
    write_all(folder)
    return folder


@pytest.fixture(scope="session")
def url(data: Path) -> Iterator[str]:
    """The address of a server for these files."""
    names = ("ocean.nc", "cells.zarr", "huge.zarr", "station.h5")
    with hs.serve(*(data / name for name in names)) as server:
        yield server.url


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """A browser."""
    with browser() as one:
        yield one
