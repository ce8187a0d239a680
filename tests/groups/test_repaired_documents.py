"""Documents that older zarr-python wrote, and that zarr-python 3.4 repairs when it reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
import zarr

NEWEST = tuple(int(part) for part in zarr.__version__.split(".")[:2]) >= (3, 4)
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not NEWEST, reason="zarr-python is older than 3.4"),
]
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def v3(shape: Any, chunks: Any, codecs: Any = None) -> dict[str, Any]:
    return grid(shape, {"name": "regular", "configuration": {"chunk_shape": chunks}}, codecs)


def grid(shape: Any, chunk_grid: Any, codecs: Any = None) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "int16",
        "fill_value": 7,
        "attributes": {"a": 1},
        "chunk_grid": chunk_grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": codecs or [BYTES],
    }


def v2(shape: Any, chunks: Any) -> dict[str, Any]:
    document = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i2", "fill_value": 7}
    return document | {"order": "C", "filters": None, "compressor": None}


def sharding(inner: Any) -> list[Any]:
    configuration = {"chunk_shape": inner, "codecs": [BYTES], "index_codecs": [BYTES, {"name": "crc32c"}]}
    return [{"name": "sharding_indexed", "configuration": configuration}]


DOCUMENTS: dict[str, dict[str, Any]] = {
    "v2 chunk 0, grown": v2([8], [0]),
    "v2 chunk 0, empty": v2([0, 3], [0, 3]),
    "v2 chunk true": v2([8], [True]),
    "v2 chunk false": v2([8], [False]),
    "v3 chunk 0, grown": v3([8], [0]),
    "v3 chunk 0, empty": v3([0, 3], [0, 3]),
    "v3 chunk true": v3([8, 3], [True, 2]),
    "v3 edges in a regular grid": v3([6, 20], [2, [5, 10, 5]]),
    "v3 edges and 0": v3([6, 20], [0, [5, 10, 5]]),
    "v3 shard 0, empty": v3([0, 4], [0, 4], sharding([3, 2])),
    "v3 shard 0, grown": v3([7], [0], sharding([3])),
    "v3 inner chunk true": v3([8], [4], sharding([True])),
    "v3 edges as floats": grid(
        [6], {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[True, 4.0, 1]]}}
    ),
    "v3 runs of floats": grid(
        [6], {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[2.0, 3]]]}}
    ),
}
MOVES = [name for name in DOCUMENTS if "true" not in name and "float" not in name]


@pytest.fixture(params=list(DOCUMENTS))
def stored(request: Any, tmp_path: Path) -> tuple[str, Path]:
    document = DOCUMENTS[request.param]
    name = ".zarray" if document["zarr_format"] == 2 else "zarr.json"
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        path.mkdir()
        (path / name).write_text(json.dumps(document))
    return request.param, tmp_path / "ours" / name


def theirs(path: Path, mode: Any = "r") -> Any:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(path.parent, mode=mode)


def lengths(array: Any) -> Any:
    return array.read_chunk_sizes, array.write_chunk_sizes


def test_reading_and_writing(stored: tuple[str, Path]) -> None:
    name, path = stored
    before = path.read_bytes()
    right = theirs(path)
    ours = hs.open_array(path.parent)
    np.testing.assert_array_equal(ours[...], right[...])
    assert lengths(ours) == lengths(right)
    assert path.read_bytes() == before
    data = np.arange(ours.size, dtype="i2").reshape(ours.shape)
    ours[...] = data
    if ours.size:
        # The write also repaired the document, so that readers without repairs find the chunks.
        assert (path.read_bytes() != before) == (name in MOVES)
    np.testing.assert_array_equal(theirs(path)[...], data)
    np.testing.assert_array_equal(hs.open_array(path.parent, mode="r")[...], data)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        other = zarr.open_array(path.parents[1] / "theirs", mode="r+")
        other[...] = data
    np.testing.assert_array_equal(hs.open_array(path.parents[1] / "theirs", mode="r")[...], data)


def test_changes(stored: tuple[str, Path]) -> None:
    _, path = stored
    ours = hs.open_array(path.parent)
    ours.attrs["units"] = "m"
    ours.resize(tuple(n + 5 for n in ours.shape))
    added = ours.shape[0]
    ours.append(np.ones((2, *ours.shape[1:]), "i2"))
    for opened in (theirs(path), hs.open_array(path.parent, mode="r")):
        assert opened.shape[0] == added + 2 and opened.attrs["units"] == "m"
        assert (opened[added:] == 1).all() and (opened[:added] == 7).all()
    with zarr.config.set({"array.rectilinear_chunks": True}):
        np.testing.assert_array_equal(theirs(path, "r+")[...], ours[...])


def test_in_consolidated_metadata(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path)
    group.create_array("a", shape=(8,), chunks=(1,), dtype="i2", fill_value=7)
    (tmp_path / "a" / "zarr.json").write_text(json.dumps(DOCUMENTS["v3 chunk 0, grown"]))
    zarr.consolidate_metadata(tmp_path)
    assert hs.open_group(tmp_path, use_consolidated=True)["a"][...].tolist() == [7] * 8
    hs.consolidate_metadata(tmp_path)
    right: Any = zarr.open_consolidated(tmp_path)["a"]
    assert right[...].tolist() == [7] * 8


@pytest.mark.parametrize(
    "document",
    [
        v2([8], [-1]),
        v2([8], [0.5]),
        v2([8], [[4, 4]]),
        v2([8], ["0"]),
        v3([8], [[4, 4]]),
        v3([8, 8], [[4, 4], [8]]),
        v3([8, 8], [[[4, 2]], 4]),
        v3([8, 8], [[], 4]),
        v3([8, 8], [[3, 3], 4]),
        v3([8], [4], sharding([0])),
        v3([8], [0], sharding([0])),
        v3([8], [True], sharding([3])),
        grid([6], {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2.5, 4]]}}),
        grid([6], {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[False, 6]]}}),
        grid([6], {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": True}}),
    ],
)
def test_others_are_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / (".zarray" if document["zarr_format"] == 2 else "zarr.json")
    path.write_text(json.dumps(document))
    with pytest.raises(Exception):  # noqa: B017
        theirs(path)[...]
    with pytest.raises(hs.HyperslabError):
        hs.open_array(tmp_path)
