"""Bad metadata raises typed errors that name document and member. Nothing else happens."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest
from bad_input import DATA, damaged, written
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Case, cases
from support import assert_same, edit_json, examples, files_below, read_json, scratch

V3_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"shape": "10"}, "shape"),
    ({"shape": None}, "shape"),
    ({"shape": 10}, "shape"),
    ({"shape": {}}, "shape"),
    ({"shape": [10.5, 10]}, "shape"),
    ({"shape": ["10", 10]}, "shape"),
    ({"shape": [True, 10]}, "shape"),
    ({"shape": [-1, 10]}, "shape"),
    ({"shape": [2**63, 10]}, "shape"),
    ({"shape": [10**30, 10]}, "shape"),
    ({"shape": [10]}, "chunk_shape"),
    ({"shape": [10] * 1000}, ""),
    ({"shape": ...}, "shape"),
    ({"zarr_format": 4}, "zarr_format"),
    ({"zarr_format": "3"}, "zarr_format"),
    ({"zarr_format": ...}, "zarr_format"),
    ({"node_type": "dataset"}, "node_type"),
    ({"node_type": ...}, "node_type"),
    ({"data_type": "float128"}, "float128"),
    ({"data_type": 4}, "data_type"),
    ({"data_type": {}}, "data_type"),
    ({"data_type": {"name": "struct", "configuration": {}}}, "struct"),
    ({"data_type": {"name": "struct", "configuration": {"fields": []}}}, "at least one field"),
    ({"data_type": {"name": "struct", "configuration": {"fields": [["a", "string"]]}}}, "string"),
    ({"data_type": {"name": "struct", "configuration": {"fields": [["a", "int8"]]}}}, "fill_value"),
    ({"data_type": {"name": "struct", "configuration": {"fields": {"a": "int8"}}}}, "fields"),
    (
        {"data_type": {"name": "struct", "configuration": {"fields": [["a", "int8"], ["a", "int8"]]}}},
        "two fields have the name",
    ),
    ({"data_type": "r7"}, "data_type"),
    ({"data_type": "r99999999999999999999"}, "data_type"),
    ({"data_type": ...}, "data_type"),
    ({"fill_value": "zero"}, "fill_value"),
    ({"fill_value": [1]}, "fill_value"),
    ({"fill_value": {}}, "fill_value"),
    ({"fill_value": "0x"}, "fill_value"),
    ({"fill_value": "0x7fc0000000"}, "fill_value"),
    ({"fill_value": ...}, "fill_value"),
    ({"codecs": []}, "codecs"),
    ({"codecs": "zstd"}, "codecs"),
    ({"codecs": None}, "codecs"),
    ({"codecs": [3]}, "codec"),
    ({"codecs": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]}, ""),
    ({"codecs": [{"name": "bytes"}, {"name": "bytes"}]}, ""),
    ({"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]}, "middle"),
    ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "brotli"}]}, "brotli"),
    ({"codecs": [{"name": "sharding_indexed", "configuration": {}}]}, "sharding_indexed"),
    (
        {
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "gzip", "configuration": {"level": 99}},
            ]
        },
        "gzip",
    ),
    (
        {
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "gzip", "configuration": {"levels": 1}},
            ]
        },
        "levels",
    ),
    (
        {
            "codecs": [
                {"name": "transpose", "configuration": {"order": [0, 0]}},
                {"name": "bytes", "configuration": {"endian": "little"}},
            ]
        },
        "transpose",
    ),
    (
        {
            "codecs": [
                {"name": "transpose", "configuration": {"order": [1, 2]}},
                {"name": "bytes", "configuration": {"endian": "little"}},
            ]
        },
        "transpose",
    ),
    ({"codecs": ...}, "codecs"),
    ({"chunk_grid": "regular"}, "chunk"),
    ({"chunk_grid": {"name": "rectilinear", "configuration": {}}}, "rectilinear"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [-5, 5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5.5, 5]}}}, "chunk_shape"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**63, 2**63]}}}, "chunk"),
    ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**32, 2**32]}}}, "chunk"),
    ({"chunk_grid": {"name": "regular"}}, "chunk_shape"),
    ({"chunk_grid": ...}, "chunk_grid"),
    ({"chunk_key_encoding": {"name": "v4"}}, "v4"),
    ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": ":"}}}, "separator"),
    ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": 1}}}, "separator"),
    ({"chunk_key_encoding": ...}, "chunk_key_encoding"),
    ({"attributes": [1]}, "attributes"),
    ({"attributes": "x"}, "attributes"),
    ({"dimension_names": ["a"]}, "dimension_names"),
    ({"dimension_names": [1, 2]}, "dimension_names"),
    ({"dimension_names": "ab"}, "dimension_names"),
]


@pytest.mark.parametrize(("changes", "named"), V3_CHANGES, ids=repr)
def test_bad_v3_metadata(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    written(tmp_path, "zstd")
    edit_json(tmp_path / "ocean/t/zarr.json", **changes)
    refused(tmp_path, "ocean/t/zarr.json", named)


V2_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"shape": "10"}, "shape"),
    ({"shape": [-1, 10]}, "shape"),
    ({"shape": [1.5, 10]}, "shape"),
    ({"shape": [2**64, 10]}, "shape"),
    ({"shape": [10, 10, 10]}, "chunks"),
    ({"shape": ...}, "shape"),
    ({"chunks": [-5, 10]}, "chunks"),
    ({"chunks": [2**40, 2**40]}, "chunk"),
    ({"chunks": None}, "chunks"),
    ({"chunks": ...}, "chunks"),
    ({"dtype": "f4"}, "dtype"),
    ({"dtype": "<f3"}, ""),
    ({"dtype": "<f16"}, "<f16"),
    ({"dtype": "|O"}, "object"),
    ({"dtype": [["a", "<i4"]], "fill_value": "AAAA"}, "fill_value"),
    ({"dtype": [["a", "<i4"], ["a", "<i4"]]}, "two fields have the name"),
    ({"dtype": [["a", "|O"]]}, "object"),
    ({"dtype": [["a", "<i4", [2**31, 2**31]]]}, "bytes"),
    ({"dtype": [["a", "|V16777216"], ["b", "|V16777216"]]}, "bytes"),
    ({"dtype": [["a", "<i4", -1]]}, "list of integers"),
    ({"dtype": [[["title", "a"], "<i4"]]}, "titles"),
    ({"dtype": []}, "at least one field"),
    ({"dtype": ["a", "<i4"]}, "fields"),
    ({"dtype": "|S0"}, "dtype"),
    ({"dtype": "<U99999999999999999999"}, "dtype"),
    ({"dtype": "<M8[eon]"}, "dtype"),
    ({"dtype": 4}, "dtype"),
    ({"dtype": ...}, "dtype"),
    ({"fill_value": "x"}, "fill_value"),
    ({"fill_value": []}, "fill_value"),
    ({"order": "K"}, "order"),
    ({"order": 1}, "order"),
    ({"filters": "delta"}, "filters"),
    ({"filters": [{"id": "categorize", "labels": []}]}, "categorize"),
    ({"filters": [{"id": "delta", "dtype": "<q4"}]}, "delta"),
    ({"filters": [4]}, "filters"),
    ({"compressor": {"id": "pickle"}}, "pickle"),
    ({"compressor": {"level": 1}}, "compressor"),
    ({"compressor": {"id": 4}}, "compressor"),
    ({"compressor": []}, "compressor"),
    ({"compressor": {"id": "zlib", "level": "high"}}, "zlib"),
    ({"compressor": {"id": "blosc", "cname": "lz5"}}, "lz5"),
    ({"dimension_separator": "-"}, "dimension_separator"),
    ({"zarr_format": 3}, "zarr_format"),
    ({"zarr_format": ...}, "zarr_format"),
]


@pytest.mark.parametrize(("changes", "named"), V2_CHANGES, ids=repr)
def test_bad_v2_metadata(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    written(tmp_path, "zlib")
    edit_json(tmp_path / "ocean/t/.zarray", **changes)
    refused(tmp_path, "ocean/t/.zarray", named)


def refused(root: Path, key: str, named: str) -> None:
    """The array cannot be opened. The error names document and fault, and no file changes."""
    before = files_below(root)
    for mode in ["r", "r+", "a"]:
        for opened in (
            lambda: hs.open_array(root, path="ocean/t", mode=mode),
            lambda: hs.open_group(root, mode=mode)["ocean/t"],
        ):
            with pytest.raises(hs.HyperslabError) as caught:
                opened()
            assert isinstance(caught.value, ValueError)
            assert key in str(caught.value)
            assert named in str(caught.value)
    assert files_below(root) == before
    assert_same(hs.open_array(root, path="ocean/t-neighbour")[...], DATA)


DOCUMENTS: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"\xff\xfe",
    b"\0" * 100,
    b"{}" * 2,
    b'{"zarr_format": 3, "node_type": "array"',
    b'{"a": 1,}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"attributes": {"x": "\\ud800"}}',
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: repr(d[:20]))
@pytest.mark.parametrize("codec", ["zstd", "zlib"])
def test_documents_that_are_no_metadata(tmp_path: Path, codec: str, document: bytes) -> None:
    written(tmp_path, codec)
    name = "zarr.json" if codec == "zstd" else ".zarray"
    (tmp_path / "ocean/t" / name).write_bytes(document)
    refused(tmp_path, f"ocean/t/{name}", "")


@pytest.mark.parametrize("text", [b"[1]", b"{", b"3", b""])
def test_bad_v2_attributes(tmp_path: Path, text: bytes) -> None:
    written(tmp_path, "zlib")
    (tmp_path / "ocean/t/.zattrs").write_bytes(text)
    with pytest.raises(hs.errors.MetadataValidationError, match="zattrs|attributes"):
        hs.open_array(tmp_path, path="ocean/t")


def test_a_huge_array_is_no_burden(tmp_path: Path) -> None:
    """Metadata may describe more elements than fit in memory. Only the selected ones matter."""
    z = hs.create_array(tmp_path / "a", shape=(2**40, 2**20), chunks=(1000, 1000), dtype="f8")
    z[2**39, 5:8] = [1, 2, 3]
    assert z[2**39 - 1 : 2**39 + 1, 4:9].tolist() == [[0] * 5, [0, 1, 2, 3, 0]]
    assert z[-1, -1] == 0
    assert z.nchunks_initialized == 1
    for attempt in (lambda: z[...], lambda: z[:, 0], lambda: z.__array__()):
        with pytest.raises((MemoryError, hs.HyperslabError)) as caught:
            attempt()
        assert isinstance(caught.value, hs.HyperslabError)
    z.resize((10, 10))
    assert z[...].sum() == 0


ODD_VALUES = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**40,
    0.5,
    1e308,
    math.nan,
    math.inf,
    "",
    "x",
    "\0",
    [],
    {},
    [0],
    [[]],
    [None] * 40,
]


@given(case=cases(), data=st.data())
@settings(max_examples=examples(300))
def test_random_damage_of_metadata(case: Case, data: st.DataObject) -> None:
    """Any metadata gives an array or an error that names the document."""
    with scratch() as root:
        hs.create_array(root / "a", **case.arguments())[...] = case.data
        path = root / "a" / ("zarr.json" if case.zarr_format == 3 else ".zarray")
        good = path.read_bytes()
        for _ in range(8):
            if data.draw(st.booleans()):
                path.write_bytes(damaged(data, good))
            else:
                document = json.loads(good)
                place: Any = document
                # Walks down to some member and gives it a wrong value.
                while True:
                    names = list(place) if isinstance(place, dict) else list(range(len(place)))
                    if not names:
                        break
                    name = data.draw(st.sampled_from(names))
                    if isinstance(place[name], (dict, list)) and place[name] and data.draw(st.booleans()):
                        place = place[name]
                        continue
                    if data.draw(st.integers(0, 4)) == 0:
                        del place[name]
                    else:
                        place[name] = data.draw(st.sampled_from(ODD_VALUES))
                    break
                path.write_text(json.dumps(document))
            try:
                z = hs.open_array(root / "a", mode="r")
                # The metadata may be anything. A small read must be bounded.
                found = z[tuple(slice(0, 3) for _ in z.shape)]
            except hs.HyperslabError as error:
                assert isinstance(error, (ValueError, OSError, MemoryError)), repr(error)
                assert str(error)
            else:
                assert np.asarray(found).shape == tuple(min(3, n) for n in z.shape)
        path.write_bytes(good)
        assert_same(hs.open_array(root / "a", mode="r")[...], case.values)


CONSOLIDATED: list[Any] = [
    3,
    "x",
    [],
    {"metadata": 3},
    {"metadata": {"a": 3}},
    {"metadata": {"a": {}}},
    {"metadata": {"../a": {}}},
    {},
]


@pytest.mark.parametrize("value", CONSOLIDATED, ids=repr)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
def test_bad_consolidated_metadata(tmp_path: Path, zarr_format: Any, value: Any) -> None:
    group = hs.create_group(tmp_path, zarr_format=zarr_format)
    group.create_array("a", data=np.arange(3))
    hs.consolidate_metadata(tmp_path)
    if zarr_format == 3:
        edit_json(tmp_path / "zarr.json", consolidated_metadata=value)
    else:
        (tmp_path / ".zmetadata").write_text(json.dumps(value))
    try:
        found = hs.open_group(tmp_path, mode="r")
        list(found.members())
        for name in found:
            found[name]
    except hs.HyperslabError as error:
        assert "zarr.json" in str(error) or ".zmetadata" in str(error) or "path" in str(error)
    # Consolidated metadata can be ignored.
    assert hs.open_group(tmp_path, mode="r", use_consolidated=False)["a"][...].tolist() == [0, 1, 2]


def test_metadata_is_not_touched_by_reading(tmp_path: Path) -> None:
    written(tmp_path, "zlib")
    before = read_json(tmp_path / "ocean/t/.zarray")
    hs.open_array(tmp_path, path="ocean/t", mode="a")[...]
    assert read_json(tmp_path / "ocean/t/.zarray") == before
