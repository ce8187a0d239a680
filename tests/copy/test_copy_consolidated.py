"""A copy into a hierarchy keeps its consolidated metadata correct."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import hyperslab as hs
import numpy as np
import pytest
from copy_steps import once
from hyperslab import _native
from object_server_client import Server

zarr = pytest.importorskip("zarr")

Version = Literal[2, 3]
VERSIONS: tuple[Version, ...] = (2, 3)


def cli(*arguments: Any) -> int:
    return _native.run_cli(["hyperslab", *map(str, arguments)])


def source(path: Path, dtype: str, length: int = 4) -> Path:
    group = hs.create_group(path)
    group.create_array("a", data=np.arange(length, dtype=dtype), dimension_names=["x"])
    group.create_group("inner").create_array("b", data=np.arange(length, dtype=dtype))
    return path


def check(place: Path, path: str, want: np.ndarray[Any, Any]) -> None:
    """Checks that every reader of consolidated metadata sees the current array."""
    for found in (
        zarr.open_consolidated(place)[path],
        zarr.open_group(place, mode="r", use_consolidated=False)[path],
        hs.open_group(place, mode="r", use_consolidated=True)[path],
    ):
        assert found.dtype == want.dtype
        assert found[...].tolist() == want.tolist()


def document(place: Path, version: Version) -> Any:
    text = json.loads((place / ("zarr.json" if version == 3 else ".zmetadata")).read_text())
    return text["consolidated_metadata"]["metadata"] if version == 3 else text["metadata"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flag", [[], ["--no-consolidated"]])
def test_copies_into_a_copy(tmp_path: Path, version: Version, flag: list[str]) -> None:
    old, new, place = source(tmp_path / "old", "i4"), source(tmp_path / "new", "f4", 6), tmp_path / "q.zarr"
    want = np.arange(6, dtype="f4")
    options = ["--format", f"v{version}", "-q"]
    assert cli("copy", old, place, *options) == 0
    # Replaced and new nodes: an array and a group.
    assert cli("copy", new / "a", place / "a", "--overwrite", *options, *flag) == 0
    check(place, "a", want)
    assert cli("copy", new / "a", place / "inner" / "c", *options, *flag) == 0
    check(place, "inner/c", want)
    assert cli("copy", new, place / "sub", *options, *flag) == 0
    check(place, "sub/inner/b", want)
    ours = document(place, version)
    zarr.consolidate_metadata(place, zarr_format=version)
    assert ours.keys() == document(place, version).keys()
    inner = zarr.open_group(place / "inner", mode="r", zarr_format=version).metadata.consolidated_metadata
    assert inner is None


@pytest.mark.parametrize("version", VERSIONS)
def test_plans_and_stores(tmp_path: Path, version: Version) -> None:
    old, new, place = source(tmp_path / "old", "i4"), source(tmp_path / "new", "f4", 6), tmp_path / "q.zarr"
    want = np.arange(6, dtype="f4")
    hs.copy(old, place, zarr_format=version)
    hs.plan_copy(new / "a", place / "a", zarr_format=version, overwrite=True).run()
    check(place, "a", want)
    hs.plan_copy(new, place / "planned", zarr_format=version).run()
    check(place, "planned/inner/b", want)
    group = hs.open_group(place, mode="r+")
    hs.copy(hs.open_array(new / "a"), group, "w")
    assert "w" in group
    check(place, "w", want)
    store = hs.LocalStore(place)
    hs.copy(new, store, "deep/er", zarr_format=version)
    check(place, "deep/er/a", want)


def test_groups_without_stay_without(tmp_path: Path) -> None:
    old, new, place = source(tmp_path / "old", "i4"), source(tmp_path / "new", "f4"), tmp_path / "q.zarr"
    hs.copy(old, place, consolidated=False)
    hs.copy(new / "a", place / "c")
    hs.plan_copy(new / "a", place / "d").run()
    assert "consolidated_metadata" not in json.loads((place / "zarr.json").read_text())


def test_a_kill_before_the_exchange_shows_nothing_wrong(tmp_path: Path) -> None:
    """Consolidated metadata hides the array until the resumed copy is complete."""
    old, new, place = source(tmp_path / "old", "i4"), source(tmp_path / "new", "f4", 6), tmp_path / "q.zarr"
    hs.copy(old, place)
    plan = hs.plan_copy(new / "a", place / "a", overwrite=True)

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    with once("moved", kill), pytest.raises(Killed):
        plan.run()
    assert "a" not in hs.open_group(place, mode="r", use_consolidated=True)
    plan.run(resume=True)
    check(place, "a", np.arange(6, dtype="f4"))


def test_on_a_server(tmp_path: Path) -> None:
    old, new = source(tmp_path / "old", "i4"), source(tmp_path / "new", "f4", 6)
    want = np.arange(6, dtype="f4")
    with Server() as server:
        options = server.s3_options
        place = "s3://bucket/some/q"
        hs.copy(old, place, storage_options=options)
        hs.copy(new / "a", f"{place}/a", overwrite=True, storage_options=options)
        hs.plan_copy(new / "a", f"{place}/inner/c", storage_options=options).run()
        found = hs.open_group(place, mode="r", storage_options=options, use_consolidated=True)
        for path in ("a", "inner/c"):
            assert found[path].dtype == "f4" and found[path][...].tolist() == want.tolist()
