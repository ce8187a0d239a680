"""A fill value outside the range of its data type."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest

MAKERS: dict[str, Callable[..., Any]] = {
    "create_array": lambda store, **options: hs.create_array(store, **options),
    "create": lambda store, **options: hs.create(store=store, **options),
    "open_array": lambda store, **options: hs.open_array(store, mode="w", **options),
    "group": lambda store, **options: hs.open_group(store, mode="a").create_array("x", **options),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_numbers_out_of_range(maker: str, zarr_format: Any, tmp_path: Path) -> None:
    for value, dtype, name in (
        (10**30, "i4", "int32"),
        (300, "i1", "int8"),
        (-1, "u1", "uint8"),
        (10**400, "f8", "float64"),
    ):
        options = {} if maker == "group" else {"zarr_format": zarr_format}
        with pytest.raises(hs.errors.NumberRangeError) as caught:
            MAKERS[maker](tmp_path / "a.zarr", shape=(2,), dtype=dtype, fill_value=value, **options)
        # The classes that users catch, including zarr-python's.
        assert isinstance(caught.value, hs.errors.InvalidArgumentError)
        assert isinstance(caught.value, OverflowError) and isinstance(caught.value, ValueError)
        words = rf"^fill_value: {value} does not fit data type {name}"
        assert re.match(words, str(caught.value))
        assert not (tmp_path / "a.zarr" / "zarr.json").exists() or maker == "group"
