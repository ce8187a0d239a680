"""hyperslab and zarr-python read each other's arrays: values bit for bit, and all metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, broadcastable, cases, from_bits, selections
from support import as_array, assert_same, assign, examples, read_json, same_scalar, scratch


def everything_stored() -> Any:
    """Makes zarr-python store all chunks.

    By default it omits chunks that equal the fill value, and takes -0.0 for 0.0.
    """
    return zarr.config.set({"array.write_empty_chunks": True})


def zarr_arguments(case: Case) -> dict[str, Any]:
    arguments = case.arguments()
    if case.zarr_format == 2:
        for name in ("filters", "compressors"):
            if arguments[name] is not None:
                arguments[name] = [numcodecs.get_codec(dict(codec)) for codec in arguments[name]]
    return arguments


def zarr_create(path: Path, case: Case) -> zarr.Array:
    return zarr.create_array(str(path), **zarr_arguments(case))


def same_described(ours: hs.Array, theirs: zarr.Array, case: Case) -> None:
    """Checks that both libraries describe an array alike."""
    assert ours.shape == theirs.shape == case.shape
    assert ours.chunks == theirs.chunks == case.chunks
    assert ours.dtype == theirs.dtype == case.opened_dtype
    assert ours.metadata.zarr_format == theirs.metadata.zarr_format == case.zarr_format
    assert ours.ndim == theirs.ndim
    assert ours.size == theirs.size
    assert ours.nchunks == theirs.nchunks
    assert ours.attrs.asdict() == theirs.attrs.asdict() == case.attributes
    if case.fill is not None:
        assert same_scalar(ours.fill_value, theirs.fill_value, case.opened_dtype), (
            ours.fill_value,
            theirs.fill_value,
        )
        assert same_scalar(ours.fill_value, case.fill, case.opened_dtype), (ours.fill_value, case.fill)
    elif case.zarr_format == 2:
        assert ours.fill_value is None
        assert theirs.fill_value is None
    if case.zarr_format == 2:
        assert ours.order == theirs.order == case.order
    else:
        assert ours.dimension_names == theirs.metadata.dimension_names == case.dimension_names


@given(case=cases(), data=st.data())
@settings(max_examples=examples(350))
def test_zarr_python_writes_and_we_read(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        with everything_stored():
            zarr_create(root / "a", case)[...] = case.data
        theirs = zarr.open_array(str(root / "a"), mode="r")
        ours = hs.open_array(root / "a", mode="r")
        same_described(ours, theirs, case)
        assert_same(ours[...], case.values, "all")
        assert_same(ours[...], as_array(theirs[...], case.opened_dtype), "zarr-python's own reading")
        for _ in range(4):
            selection = data.draw(selections(case.shape))
            assert_same(ours[selection], case.values[selection], repr(selection))


@given(case=cases(), data=st.data())
@settings(max_examples=examples(280))
def test_we_write_and_zarr_python_reads(case: Case, data: st.DataObject) -> None:
    with scratch() as root:
        ours = hs.create_array(root / "a", **case.arguments())
        ours[...] = case.data
        theirs = zarr.open_array(str(root / "a"), mode="r")
        same_described(hs.open_array(root / "a", mode="r"), theirs, case)
        assert_same(as_array(theirs[...], case.opened_dtype), case.values, "whole")
        assert_same(hs.open_array(root / "a")[...], case.values, "read back")

        model = case.values.copy()
        for number in range(4):
            selection = data.draw(selections(case.shape))
            shape = data.draw(broadcastable(model[selection].shape))
            value = from_bits(case.seed + number, int(np.prod(shape)), case.dtype).reshape(shape)
            assign(model, selection, value)
            ours[selection] = value
        assert_same(as_array(theirs[...], case.opened_dtype), model, "parts")
        assert_same(ours[...], as_array(model, ours.dtype).astype(ours.dtype), "parts read back")


@given(case=cases(), data=st.data())
@settings(max_examples=examples(150))
def test_both_write_parts_of_one_array(case: Case, data: st.DataObject) -> None:
    with scratch() as root, everything_stored():
        if data.draw(st.booleans()):
            zarr_create(root / "a", case)
        else:
            hs.create_array(root / "a", **case.arguments())
        ours = hs.open_array(root / "a", mode="r+")
        theirs = zarr.open_array(str(root / "a"), mode="r+")
        same_described(ours, theirs, case)
        # Nothing is stored yet, so all elements have the fill value.
        model = np.zeros(case.shape, case.opened_dtype)
        if case.fill is not None:
            model[...] = np.asarray(case.fill, case.opened_dtype)
        elif case.dtype.kind in "mM":
            model[...] = np.array(-(2**63)).view(case.opened_dtype.newbyteorder("="))
        assert_same(ours[...], model, "empty")
        assert_same(as_array(theirs[...], case.opened_dtype), model, "empty, zarr-python")
        for number in range(4):
            selection = data.draw(selections(case.shape, negative=False))
            target = model[selection]
            value = from_bits(case.seed + number, target.size, case.opened_dtype).reshape(target.shape)
            model[selection] = value
            (ours if data.draw(st.booleans()) else theirs)[selection] = value
            assert_same(ours[...], model, f"after {number}")
            assert_same(as_array(theirs[...], case.opened_dtype), model, f"after {number}, zarr-python")


def without_defaults(document: Any) -> Any:
    """Returns metadata without optional members: empty configurations and lists."""
    if isinstance(document, dict):
        kept = {name: without_defaults(value) for name, value in document.items()}
        return {name: value for name, value in kept.items() if value not in (None, {}, [])}
    if isinstance(document, list):
        return [without_defaults(value) for value in document]
    return document


@given(case=cases())
@settings(max_examples=examples(160))
def test_the_same_arguments_give_the_same_metadata(case: Case) -> None:
    with scratch() as root:
        hs.create_array(root / "ours", **case.arguments())
        zarr_create(root / "theirs", case)
        for name in ("zarr.json", ".zarray", ".zattrs"):
            assert (root / "ours" / name).exists() == (root / "theirs" / name).exists(), name
            if (root / "ours" / name).exists():
                ours, theirs = (read_json(root / who / name) for who in ("ours", "theirs"))
                assert without_defaults(ours) == without_defaults(theirs)
        seen = [zarr.open_array(str(root / who)).metadata.to_dict() for who in ("ours", "theirs")]
        assert without_defaults(repr(seen[0])) == without_defaults(repr(seen[1]))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_defaults_are_understood(tmp_path: Path, zarr_format: Any, rng: np.random.Generator) -> None:
    data = rng.normal(size=(300, 200)).astype("f4")
    for name, library in [("ours", hs), ("theirs", zarr)]:
        library.create_array(tmp_path / name, data=data, zarr_format=zarr_format)
        assert_same(hs.open_array(tmp_path / name)[...], data)
        assert_same(zarr.open_array(tmp_path / name)[...], data)
    ours, theirs = (zarr.open_array(tmp_path / name) for name in ("ours", "theirs"))
    assert ours.compressors == theirs.compressors
    assert ours.filters == theirs.filters
    assert ours.fill_value == theirs.fill_value


@pytest.mark.parametrize("payload", ["0x7fc00001", "0xffc12345", "0x7fc00000"])
def test_nan_fill_values_given_by_bits(tmp_path: Path, payload: str) -> None:
    fill = np.array([int(payload, 16)], "u4").view("f4")
    ours = hs.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype="f4", fill_value=fill[0])
    assert read_json(tmp_path / "a" / "zarr.json")["fill_value"] == (
        "NaN" if payload == "0x7fc00000" else payload
    )
    assert_same(ours[...], np.repeat(fill, 5))
    assert_same(hs.open_array(tmp_path / "a")[...], np.repeat(fill, 5))
    assert np.isnan(zarr.open_array(tmp_path / "a")[...]).all()
