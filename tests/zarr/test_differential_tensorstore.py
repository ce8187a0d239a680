"""hyperslab and TensorStore read each other's arrays, for TensorStore's types and codecs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import tensorstore as ts
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NUMBERS, Case, cases, from_bits, selections
from support import assert_same, examples, scratch

# No text and no dates. TensorStore's Python arrays of bytes do not work with current NumPy.
NUMERIC = ["b1", *NUMBERS]

CONTEXT = ts.Context(
    {"file_io_sync": False, "data_copy_concurrency": {"limit": 1}, "file_io_concurrency": {"limit": 1}}
)


def supported(case: Case) -> bool:
    if case.zarr_format == 3:
        return True
    if case.filters:
        return False
    return not any(codec["id"] == "lz4" or codec.get("checksum") for codec in case.compressors)


def open_with_tensorstore(path: Path, case: Case, **more: Any) -> ts.TensorStore:
    spec = {
        "driver": "zarr" if case.zarr_format == 2 else "zarr3",
        "kvstore": {"driver": "file", "path": f"{path}/"},
        "store_data_equal_to_fill_value": True,
        "recheck_cached_data": True,
        "recheck_cached_metadata": True,
    }
    return ts.open(spec, context=CONTEXT, **more).result()


def native(values: Any, case: Case) -> np.ndarray[Any, Any]:
    return np.asarray(values).astype(case.dtype.newbyteorder("="))


def with_names_of_its_kind(case: Case) -> Case:
    """TensorStore's axis labels must be unique, and none may be missing."""
    names = case.dimension_names
    fine = names is None or (None not in names and len(set(names)) == len(names))
    return case if fine else replace(case, dimension_names=None)


tensorstore_cases = cases(names=NUMERIC).filter(supported).map(with_names_of_its_kind)


def without_gaps(selection: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Turns empty slices that begin after their end into slices that end at their beginning."""
    if ... in selection:
        at = selection.index(...)
        rest = (slice(None),) * (len(shape) - len(selection) + 1)
        selection = selection[:at] + rest + selection[at + 1 :]
    plain = []
    for item, n in zip(selection, shape, strict=False):
        if isinstance(item, slice):
            start, stop, step = item.indices(n)
            item = slice(start, max(start, stop), step)
        plain.append(item)
    return tuple(plain)


@given(case=tensorstore_cases, data=st.data())
@settings(max_examples=examples(220))
def test_tensorstore_writes_and_we_read(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        # TensorStore opens our metadata, so it must understand it.
        ours = hs.create_array(root / "a", **case.arguments())
        theirs = open_with_tensorstore(root / "a", case)
        assert theirs.shape == case.shape
        assert theirs.chunk_layout.write_chunk.shape == (case.chunks or None)
        if case.fill is not None:
            assert_same(native(theirs.fill_value, case), native(case.fill, case), "fill value")
        theirs.write(native(case.data, case)).result()
        ours = hs.open_array(root / "a", mode="r+")
        assert_same(ours[...], case.values, "all")
        model = case.values.copy()
        for number in range(3):
            selection = data.draw(selections(case.shape, negative=False))
            target = model[selection]
            value = from_bits(case.seed + number, target.size, case.dtype).reshape(target.shape)
            model[selection] = value
            if data.draw(st.booleans()):
                theirs[without_gaps(selection, case.shape)].write(native(value, case)).result()
            else:
                ours[selection] = value
            assert_same(ours[...], model, f"after {number}")
            assert_same(
                native(theirs.read().result(), case), native(model, case), f"after {number}, TensorStore"
            )


@given(case=tensorstore_cases)
@settings(max_examples=examples(180))
def test_tensorstore_creates_and_both_agree(case: Case) -> None:
    """TensorStore writes its own metadata, from the settings in ours."""
    with scratch() as root:
        hs.create_array(root / "ours", **case.arguments())
        metadata = hs.open_array(root / "ours").metadata.to_dict()
        metadata.pop("attributes", None)
        if len(case.shape) < 2 and "order" in metadata:
            # With fewer than two axes both orders are equal. TensorStore accepts only C.
            metadata["order"] = "C"
        spec = {
            "driver": "zarr" if case.zarr_format == 2 else "zarr3",
            "kvstore": {"driver": "file", "path": f"{root / 'theirs'}/"},
            "metadata": metadata,
            "create": True,
        }
        theirs = ts.open(spec, context=CONTEXT).result()
        theirs.write(native(case.data, case)).result()
        found = hs.open_array(root / "theirs", mode="r")
        assert found.chunks == case.chunks
        if case.zarr_format == 3 or case.fill is not None:
            # TensorStore omits chunks that equal the fill value. Like us it distinguishes -0.0 and
            # NaNs.
            assert_same(found[...], case.values, "all")
        hs.open_array(root / "ours", mode="r+")[...] = case.data
        ours = open_with_tensorstore(root / "ours", case)
        assert_same(native(ours.read().result(), case), native(case.data, case), "ours")
