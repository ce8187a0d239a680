"""Consolidated groups of many members: only opened members are parsed, and a new one is cheap."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hyperslab.errors import MetadataValidationError
from test_syscalls import strace

MEMBERS = 3000


def make(path: Path, zarr_format: int) -> None:
    """Makes a consolidated hierarchy of arrays and groups with zarr-python."""
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format, attributes={"title": "röot"})  # type: ignore[arg-type]
    for n in range(40):
        group = root if n % 3 else root.create_group(f"group {n}", attributes={"n": n})
        for k in range(3):
            shape = (n % 5 + 1,)
            array = group.create_array(
                f"array {n} {k}", shape=shape, chunks=(2,), dtype="i4", fill_value=n % 2
            )
            if n % 4 == 0:
                array.attrs["units"] = {"node_type": "group", "zarr_format": 2, "text": 'a "b" \\ {['}
    zarr.consolidate_metadata(path, zarr_format=zarr_format)  # type: ignore[arg-type]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_members_are_those_of_zarr_python(tmp_path: Path, zarr_format: int) -> None:
    make(tmp_path / "a", zarr_format)
    judge = zarr.open_consolidated(tmp_path / "a")
    with_copy = hs.open_group(tmp_path / "a", mode="r", use_consolidated=True)
    without = hs.open_group(tmp_path / "a", mode="r", use_consolidated=False)
    theirs = dict(judge.members(max_depth=None))
    assert {name for name, _ in with_copy.members(max_depth=None)} == set(theirs)
    for name, node in theirs.items():
        for group in (with_copy, without):
            found: Any = group[name]
            assert found.attrs.asdict() == dict(node.attrs)
            if isinstance(node, zarr.Array):
                assert (found.shape, found.chunks, found.dtype) == (node.shape, node.chunks, node.dtype)
                assert found.fill_value == node.fill_value
                assert np.array_equal(found[...], node[...])
            else:
                assert sorted(found) == sorted(node)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_member_fails_alone(tmp_path: Path, zarr_format: int) -> None:
    make(tmp_path / "a", zarr_format)
    path = tmp_path / "a" / ("zarr.json" if zarr_format == 3 else ".zmetadata")
    document = json.loads(path.read_text())
    members = document["consolidated_metadata"]["metadata"] if zarr_format == 3 else document["metadata"]
    members["array 1 0" if zarr_format == 3 else "array 1 0/.zarray"]["shape"] = "many"
    path.write_text(json.dumps(document))
    group = hs.open_group(tmp_path / "a", mode="r", use_consolidated=True)
    assert "array 1 0" in group
    with pytest.raises(MetadataValidationError, match=r"array 1 0.*shape"):
        group["array 1 0"]
    assert group["array 1 1"].shape == (2,)
    # Faults of the whole, and the kinds of members, are found when the group is opened.
    text = json.dumps(document)
    broken = [text[:-20], text.replace('"shape": "many"', '"shape": many')]
    if zarr_format == 3:
        broken.append(text.replace('"node_type": "array"', '"node_type": "arry"', 1))
    for damaged in broken:
        assert damaged != text
        path.write_text(damaged)
        with pytest.raises(MetadataValidationError):
            hs.open_group(tmp_path / "a", mode="r", use_consolidated=True)


CREATE = """
import os, sys
import hyperslab as hs
group = hs.open_group(sys.argv[1], mode="r+", use_consolidated=True)
group.create_array("first", shape=(4,), dtype="i4")
os.path.exists("/hyperslab-mark-begin")
group.create_array("second", shape=(4,), dtype="i4")
os.path.exists("/hyperslab-mark-end")
assert "second" in group and group["second"].shape == (4,)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_new_member_does_not_read_the_others(tmp_path: Path, zarr_format: int) -> None:
    group = hs.open_group(tmp_path / "a", mode="w", zarr_format=zarr_format)
    group.create_array("one", shape=(4,), dtype="i4")
    hs.consolidate_metadata(tmp_path / "a")
    path = tmp_path / "a" / ("zarr.json" if zarr_format == 3 else ".zmetadata")
    document = json.loads(path.read_text())
    members = document["consolidated_metadata"]["metadata"] if zarr_format == 3 else document["metadata"]
    ending = "" if zarr_format == 3 else "/.zarray"
    members.update({f"many {n}{ending}": members[f"one{ending}"] for n in range(MEMBERS)})
    path.write_text(json.dumps(document))
    # The stamp of a file that has just changed proves nothing.
    time.sleep(2.3)
    total, counting = 0, False
    for line in strace(tmp_path / "trace", "file,desc", CREATE, str(tmp_path / "a")):
        if "/hyperslab-mark-begin" in line:
            counting = True
        elif "/hyperslab-mark-end" in line:
            break
        elif counting and (found := re.match(r".*?(pread64|preadv2?|read|readv)\(.*= (\d+)$", line)):
            total += int(found[2])
    assert os.path.getsize(path) > 500_000
    assert total <= 16 << 10, total
    # As with zarr-python, the stored copy does not have the new members until it is made anew.
    assert "second" not in hs.open_group(tmp_path / "a", mode="r", use_consolidated=True)
    assert "second" in hs.open_group(tmp_path / "a", mode="r", use_consolidated=False)
