"""Opening by a path: the short cut and the general way give the same result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hs.create_array(tmp_path / "a b", data=np.arange(6, dtype="i4").reshape(2, 3), chunks=(1, 3))
    return tmp_path / "a b"


@pytest.mark.parametrize("mode", [None, "r", "r+", "a"])
@pytest.mark.parametrize("opened", [hs.open_array, hs.open])
def test_every_form_of_a_path(place: Path, monkeypatch: pytest.MonkeyPatch, opened: Any, mode: Any) -> None:
    monkeypatch.chdir(place.parent)
    url = place.as_uri()
    for form in (place, str(place), f"{place}/", f"{place.parent}/./a b", "a b", "./a b", Path("a b"), url):
        z = opened(form, mode=mode)
        assert np.array_equal(z[:], [[0, 1, 2], [3, 4, 5]])
        assert (z.store.url, z.path, z.read_only) == (url, "", mode == "r")
        assert z.store == hs.LocalStore(place, read_only=mode == "r")


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    hs.create_array(place, data=np.arange(3))
    assert hs.open_array(place)[2] == 2


def test_what_is_no_array(place: Path) -> None:
    hs.create_group(place.parent / "g", attributes={"title": "ocean"})
    group = hs.open(place.parent / "g", mode="r")
    assert isinstance(group, hs.Group) and group.read_only and group.attrs["title"] == "ocean"
    with pytest.raises(hs.errors.NodeTypeValidationError):
        hs.open_array(place.parent / "g")
    with pytest.raises(hs.errors.ArrayNotFoundError):
        hs.open_array(place.parent / "missing")
    with pytest.raises(NotADirectoryError):
        hs.open_array(place / "zarr.json")
    with pytest.raises(NotADirectoryError):
        hs.open(place / "zarr.json", mode="r")
    with pytest.raises(hs.errors.InvalidArgumentError, match="Invalid mode"):
        hs.open_array(place, mode="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'mod'"):
        hs.open_array(place, mod="r")
    with pytest.raises(hs.errors.ArrayNotFoundError):
        hs.open_array(place, zarr_format=2)


def test_metadata_that_changed_is_seen(place: Path) -> None:
    before = hs.open_array(place)
    document = json.loads((place / "zarr.json").read_text())
    for fill in (1, 2, 1):
        (place / "zarr.json").write_text(json.dumps({**document, "fill_value": fill}))
        assert hs.open_array(place).fill_value == fill
    assert before.fill_value == 0
    (place / "zarr.json").write_text("{")
    with pytest.raises(hs.errors.MetadataValidationError):
        hs.open_array(place)


def test_settings_reach_the_store(place: Path) -> None:
    with hs.config.set(fsync=True):
        assert hs.open_array(place).store.fsync  # type: ignore[attr-defined]
    assert not hs.open_array(place).store.fsync  # type: ignore[attr-defined]
