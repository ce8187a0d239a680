"""As in zarr-python, an array takes its settings when it is opened.

Later changes do not affect it.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
LIBRARIES = [hs, pytest.param(zarr, marks=pytest.mark.skipif(not NEWEST, reason="zarr-python is older"))]
DATA = np.arange(12.0).reshape(3, 4)


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.__name__)
def library(request: Any) -> Any:
    return request.param


def test_order(library: Any) -> None:
    store: dict[str, Any] = {}
    made = library.create_array(store, data=DATA, chunks=(2, 2))
    with library.config.set({"array.order": "F"}):
        inside = library.open_array(store)
        assert made[:].flags.c_contiguous and made.order == "C"
    assert inside[:].flags.f_contiguous and inside.order == "F"
    assert library.open_array(store)[:].flags.c_contiguous
    assert inside.with_config({"write_empty_chunks": True})[:].flags.f_contiguous
    assert copy.copy(inside)[:].flags.f_contiguous


def test_order_of_members(library: Any) -> None:
    group = library.create_group({})
    group.create_array("a", data=DATA)
    with library.config.set({"array.order": "F"}):
        inside = group["a"]
        assert library.create_array({}, data=DATA)[:].flags.f_contiguous
    assert inside[:].flags.f_contiguous and group["a"][:].flags.c_contiguous


def test_empty_chunks(library: Any) -> None:
    with library.config.set({"array.write_empty_chunks": True}):
        inside = library.create_array({}, shape=4, chunks=2, dtype="i4", fill_value=0)
    inside[:] = 0
    assert inside.nchunks_initialized == 2
    outside = library.create_array({}, shape=4, chunks=2, dtype="i4", fill_value=0)
    with library.config.set({"array.write_empty_chunks": True}):
        outside[:] = 0
    assert outside.nchunks_initialized == 0


def test_missing_chunks(library: Any) -> None:
    with library.config.set({"array.read_missing_chunks": False}):
        inside = library.create_array({}, shape=4, chunks=2, dtype="i4")
    outside = library.create_array({}, shape=4, chunks=2, dtype="i4")
    error = hs.errors.ChunkNotFoundError if library is hs else zarr.errors.ChunkNotFoundError
    with pytest.raises(error):
        inside[:]
    with library.config.set({"array.read_missing_chunks": False}):
        assert outside[:].tolist() == [0] * 4
    assert inside.with_config({"read_missing_chunks": True})[:].tolist() == [0] * 4


def test_configs(tmp_path: Path) -> None:
    z = hs.create_array(tmp_path, data=DATA)
    with hs.config.set(order="F", write_empty_chunks=True, read_missing_chunks=False):
        assert z.config.to_dict() == {"write_empty_chunks": False, "order": "C", "read_missing_chunks": True}
        inside = hs.open_array(z.store)
        # A setting given as `None` is taken from the configuration again. The others stay.
        assert z.with_config({"order": None}).config.to_dict() == {
            "write_empty_chunks": False,
            "order": "F",
            "read_missing_chunks": True,
        }
    assert inside.config.to_dict() == {"write_empty_chunks": True, "order": "F", "read_missing_chunks": False}
    assert inside.with_config({"order": "C"}).config.write_empty_chunks is True
    again = pickle.loads(pickle.dumps(inside))
    assert again.config == inside.config and again[:].flags.f_contiguous
    assert hs.open_array(z.store, config=inside.config).config == inside.config


def test_v2_keeps_the_order_that_is_stored() -> None:
    z = hs.create_array({}, data=DATA, zarr_format=2)
    with hs.config.set(order="F"):
        again = hs.open_array(z.store)
        assert again[:].flags.c_contiguous and again.order == "C"
        assert hs.create_array({}, data=DATA, zarr_format=2)[:].flags.f_contiguous
    assert hs.open_array(z.store, config={"order": "F"})[:].flags.f_contiguous


def test_views_and_awaited_arrays() -> None:
    z = hs.create_array({}, data=DATA)
    with hs.config.set(order="F"):
        inside = hs.open_array(z.store)
        assert z.lazy[:, 1:].read().flags.c_contiguous
    assert inside.lazy[:, 1:].read().flags.f_contiguous
    assert inside.oindex[[0, 2], [1, 2]].flags.f_contiguous

    async def read() -> Any:
        return await inside.async_array.getitem(...)

    assert asyncio.run(read()).flags.f_contiguous
