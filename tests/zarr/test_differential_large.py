"""Arrays of 0.1 to 20 MB compared with zarr-python, TensorStore and h5py.

They cover all paths of large requests. Cases differ on every run. HYPERSLAB_SEED repeats one.
HYPERSLAB_EXAMPLES sets their number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hyperslab as hs
import numpy as np
import pytest
import tensorstore
import zarr
from large import (
    Large,
    Values,
    array_of,
    as_ix,
    basic_of,
    dtype_of,
    grid_of,
    memory_of,
    one_of,
    orthogonal_of,
    shape_of,
    slice_of,
    values_of,
)
from seeds import SEED
from support import as_array, as_view, assert_same, examples

CASES = examples(72)


def check_reads(rng: np.random.Generator, ours: hs.Array, model: Values, what: str) -> None:
    """Reads parts in several ways. Checks values, memory order and that no other memory changes."""
    shape, dtype = model.shape, model.dtype
    whole = ours.read()
    assert_same(whole, model, f"{what}: whole")
    assert whole.flags.writeable and whole.flags.owndata | (whole.base is not None)
    for _ in range(3):
        selection = basic_of(rng, shape, negative=True)
        expected = model[selection]
        assert_same(ours[selection], expected, f"{what}: {selection}")
        out, memory = memory_of(rng, expected.shape, dtype)
        wanted, base = memory_of_the_same(out, memory)
        wanted[...] = expected
        ours.read(selection, out=out)
        assert memory.tobytes() == base.tobytes(), f"{what}: {selection} into strides {out.strides}"
    if not isinstance(ours, hs.FileArray):
        turned = ours.with_config(
            {"order": one_of(rng, "CF"), "cache": one_of(rng, [None, "1 MiB", "64 MiB"])}
        )
        selection = basic_of(rng, shape, negative=True)
        for _ in range(2):
            found = turned[selection]
            assert_same(found, model[selection], f"{what}: {selection} in order {turned.order}")
    items = orthogonal_of(rng, shape)
    assert_same(ours.oindex[items], model[as_ix(items, shape)], f"{what}: orthogonal")
    points = tuple(rng.integers(0, n, 2000) for n in shape)
    assert_same(ours.vindex[points], model[points], f"{what}: points")
    mask = rng.random(shape) < one_of(rng, [0.001, 0.5])
    assert_same(ours.vindex[mask], model[mask], f"{what}: mask")
    axis = int(rng.integers(len(shape)))
    mixed = (slice(None),) * axis + (items[axis],)
    assert_same(ours[mixed], model[mixed], f"{what}: one list, axis {axis}")


def memory_of_the_same(view: Values, memory: Values) -> tuple[Values, Values]:
    """Returns a copy of some memory, and the same view of the copy."""
    copied = memory.copy()
    if not view.size:
        return view.copy(), copied
    address = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    found: Values = np.ndarray(view.shape, view.dtype, copied, address, view.strides)
    return found, copied


def write_part(rng: np.random.Generator, array: Any, model: Values, seed_fill: Any) -> str:
    """Writes values with random strides to a part of an array and of its model."""
    shape, dtype = model.shape, model.dtype
    mine = isinstance(array, hs.Array)
    kind = one_of(rng, ["basic", "basic", "orthogonal", "points"])
    if kind == "basic":
        selection: Any = basic_of(rng, shape, negative=mine)
        into = as_view(selection)
        target = model[into].shape
    elif kind == "orthogonal":
        selection = tuple(
            np.sort(rng.choice(n, int(rng.integers(1, min(n, 500) + 1)), replace=False))
            if rng.random() < 0.5
            else slice_of(rng, n, negative=False)
            for n in shape
        )
        into = as_ix(selection, shape)
        target = model[into].shape
    else:
        flat = rng.choice(model.size, min(model.size, 500), replace=False)
        into = selection = np.unravel_index(flat, shape)
        target = flat.shape
    values, _ = memory_of(rng, target, dtype)
    values[...] = values_of(rng, target, dtype, seed_fill)
    model[into] = values
    if not values.size:
        return "nothing"
    if kind == "basic":
        array[selection] = values
    elif kind == "orthogonal":
        array.oindex[selection] = values
    else:
        array.vindex[selection] = values
    return f"{kind} by {'us' if mine else 'zarr-python'}"


def tensorstore_reads(path: Path, case: Large) -> Values | None:
    """Returns what TensorStore reads, or ``None`` if it lacks the type or codec."""
    arguments = case.arguments
    codecs = repr((arguments.get("filters"), arguments["compressors"])).lower()
    if case.values.dtype.kind not in "iufcb" or "crc32c" in codecs and arguments["zarr_format"] == 2:
        return None
    driver = "zarr" if arguments["zarr_format"] == 2 else "zarr3"
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, read=True).result().read().result()  # type: ignore[no-any-return]


@pytest.mark.skipif(
    tuple(int(part) for part in zarr.__version__.split(".")[:2]) < (3, 4),
    reason="older zarr-python cannot assign by some of these selections",
)
@pytest.mark.parametrize("number", range(CASES))
def test_zarr(tmp_path: Path, number: int) -> None:
    rng = np.random.default_rng([SEED, number])
    case = array_of(rng)
    native = case.values.dtype if case.arguments["zarr_format"] == 2 else case.values.dtype.newbyteorder("=")
    model = case.model.astype(native)
    maker = one_of(rng, [hs, zarr])
    maker.create_array(tmp_path / "a", **case.arguments)
    ours, theirs = hs.open_array(tmp_path / "a"), zarr.open_array(tmp_path / "a", mode="r+")
    # By default zarr-python omits chunks that equal the fill value. It takes -0.0 for 0.0.
    with zarr.config.set({"array.write_empty_chunks": True}):
        if rng.random() < 0.5:
            one_of(rng, [ours, theirs])[...] = case.values
            model[...] = case.values
        for step in range(4):
            done = write_part(rng, one_of(rng, [ours, ours, theirs]), model, case.fill)
            assert_same(as_array(theirs[...], native), model, f"step {step}, {done}: zarr-python's reading")
            if step in (0, 3):
                check_reads(rng, ours, model, f"step {step}, {done}")
    found = tensorstore_reads(tmp_path / "a", case)
    if found is not None:
        assert_same(np.asarray(found).astype(native), model, "TensorStore's reading")


FILTERS: list[dict[str, Any]] = [
    {},
    {"compression": "gzip", "compression_opts": 1},
    {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    {"compression": "lzf", "shuffle": True},
    {"compression": "lzf", "fletcher32": True},
    {"shuffle": True, "fletcher32": True},
    {**hdf5plugin.Blosc("lz4", 5, 1)},
    {**hdf5plugin.Zstd(1)},
]


@pytest.mark.parametrize("number", range(-(-CASES // 2)))
def test_hdf5(tmp_path: Path, number: int) -> None:
    rng = np.random.default_rng([SEED, number, 5])
    while True:
        dtype, fill = dtype_of(rng)
        if dtype.kind not in "UMm":
            break
    if dtype.kind in "iuf":
        dtype = dtype.newbyteorder(one_of(rng, "<>"))
    shape = shape_of(rng, int(10 ** rng.uniform(5, 7)) // dtype.itemsize)
    values = values_of(rng, shape, dtype, fill)
    layout: dict[str, Any] = {}
    if rng.random() < 0.75:
        filters = one_of(rng, FILTERS)
        layout = {"chunks": grid_of(rng, shape, one_of(rng, [1, 8, 60, 400])), **filters}
    with h5py.File(tmp_path / "a.h5", "w", libver=one_of(rng, ["earliest", "latest"])) as file:
        if dtype.kind == "V":
            layout |= {"dtype": dtype}
        made = file.create_dataset("d", shape=shape, fillvalue=None if dtype.kind == "V" else fill, **{
            "dtype": dtype, **layout})  # fmt: skip
        if rng.random() < 0.3 and layout.get("chunks"):
            # All other chunks are absent.
            part = slice_of(rng, shape[0], negative=False)
            made[part] = values[part]
        else:
            made[...] = values
        model = made[...]
    ours = hs.open(tmp_path / "a.h5")["d"]
    assert isinstance(ours, hs.FileArray)
    check_reads(rng, ours, model, f"{dtype}, {layout}")
