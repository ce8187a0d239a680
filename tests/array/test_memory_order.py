"""Results have zarr-python's memory order: Fortran order if Zarr v2 metadata says so."""

from __future__ import annotations

from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest
import zarr

SELECTIONS = [
    ...,
    0,
    (slice(None), 1),
    (slice(1, 3), slice(None, None, 2)),
    (slice(None, None, -1), 0),
    (slice(0, 0),),
]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("zarr_format", [2, 3])
# Small results use NumPy's own memory, large ones the engine's.
@pytest.mark.parametrize("shape", [(4, 5, 6), (40, 50, 60), (7,), ()])
def test_order_as_zarr_python(tmp_path: Path, zarr_format: int, order: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype="f8").reshape(shape)
    made = zarr.create_array(
        tmp_path,
        shape=shape,
        chunks=tuple(-(-n // 2) for n in shape),
        dtype="f8",
        zarr_format=zarr_format,  # type: ignore[arg-type]
        order=order if zarr_format == 2 else None,  # type: ignore[arg-type]
        compressors=None,
    )
    made[...] = values
    array, theirs = hs.open_array(tmp_path, mode="r"), zarr.open_array(tmp_path, mode="r")
    for selection in SELECTIONS:
        if isinstance(selection, tuple) and len(selection) > len(shape) or selection == 0 and not shape:
            continue
        # zarr-python does not support negative steps.
        backwards = isinstance(selection, tuple) and selection[0] == slice(None, None, -1)
        found, expected = np.asarray(array[selection]), values[selection]
        np.testing.assert_array_equal(found, expected)
        if not backwards:
            assert found.flags.f_contiguous == np.asarray(theirs[selection]).flags.f_contiguous
            assert found.flags.c_contiguous == np.asarray(theirs[selection]).flags.c_contiguous
        # The caller may change the result.
        if found.ndim:
            found += 1
            np.testing.assert_array_equal(found, expected + 1)
