"""The routes of h5grove: the same answers as h5grove for HDF5, and good ones for other formats."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest

RNG = np.random.default_rng(37)


def _make(path: Path) -> None:
    table = np.dtype(
        [("id", "<i4"), ("name", "S5"), ("at", [("x", "<f4"), ("y", ">f8")]), ("v", "<i2", (2,))]
    )
    color = h5py.enum_dtype({"RED": 0, "BLUE": -3}, basetype="i2")
    with h5py.File(path.with_name("other.h5"), "w") as other:
        other["there"] = np.arange(3)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["NX_class"] = "NXroot"
        file.attrs["fixed"] = np.bytes_("fixed")
        file.attrs["list"] = np.array([0.1, np.nan, np.inf], "f4")
        file.attrs["names"] = ["Ada", "Čapek"]
        file.attrs["flag"] = True
        file.attrs["empty"] = h5py.Empty("f4")
        file.attrs["complex"] = 1.5 - 2j
        file.attrs["row"] = np.array((1, b"one", (0.1, 2.0), (3, 4)), table)
        file.attrs.create("color", [0, -3], dtype=color)
        group = file.create_group("group/inner")
        group["i"] = np.arange(24, dtype="<i4").reshape(4, 6)
        group["u8"] = np.array([0, 2**64 - 1], "u8")
        packed = group.create_dataset("packed", shape=(20, 30), chunks=(7, 8), dtype=">f4", **FILTERS)
        packed[:] = RNG.normal(size=(20, 30))
        packed[3, 4] = np.nan
        packed.attrs["units"] = "m"
        file["half"] = np.array([[0.1, -2.5], [np.inf, 0]], "<f2")
        file["double"] = RNG.normal(size=(3, 4, 5))
        file["bool"] = np.array([True, False])
        file["complex"] = np.array([1 + 2j, np.nan - 0.5j], "<c8")
        file["text"] = ["a", "ü", ""]
        file["bytes"] = np.array([b"one", b"three"], "S5")
        file["scalar"] = 4.25
        file["name"] = "a name"
        file["null"] = h5py.Empty("f8")
        file.create_dataset("color", data=np.array([0, -3, 0], "i2"), dtype=color)
        rows = np.zeros(3, table)
        rows["id"], rows["name"], rows["at"]["x"] = [1, 2, 3], [b"a", b"bb", b""], [0.1, np.nan, 2]
        file["table"] = rows
        mixed = np.dtype([("n", "<i8"), ("word", h5py.string_dtype())])
        file.create_dataset("mixed", data=np.array([(1, "a"), (2, "ü")], mixed))
        file.create_dataset("opaque", data=np.array([b"abc", b"xyz"], "V3"))
        ragged = file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("<i4"))
        ragged[0], ragged[1] = [1, 2, 3], [4]
        file["type"] = np.dtype("<f8")
        file["type"].attrs["note"] = "committed"
        file["array"] = np.zeros(2, np.dtype(("<f4", (3,))))
        file["references"] = np.array([file["text"].ref], h5py.ref_dtype)
        file["soft"] = h5py.SoftLink("/group/inner/i")
        file["broken"] = h5py.SoftLink("/nowhere")
        file["outside"] = h5py.ExternalLink("other.h5", "/there")
        file["lost"] = h5py.ExternalLink("none.h5", "/there")
        file["again"] = file["group"]


FILTERS: dict[str, Any] = {"compression": "gzip", "shuffle": True, "fletcher32": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grove")
    _make(folder / "all.h5")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[hs.Server]:
    with hs.serve(folder, token="secret") as running:
        yield running


def _ask(server: hs.Server, route: str, **query: Any) -> tuple[int, bytes, str]:
    text = urllib.parse.urlencode(
        {key: value for key, value in query.items() if value is not None}, doseq=True
    )
    url = f"{server.url}/h5grove/{route}?{text}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer secret"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, answer.read(), answer.headers["Content-Type"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers["Content-Type"]


def _expected(file: Path, route: str, **query: Any) -> tuple[int, bytes, str]:
    """Return h5grove's own answer."""
    content = pytest.importorskip("h5grove.content")
    encoders = pytest.importorskip("h5grove.encoders")

    class Refused(Exception):
        pass

    def refuse(status: int, message: str) -> Exception:
        return Refused(status, message)

    resolve, path = query.pop("resolve_links", None), query.pop("path", "/")
    try:
        if route == "paths":
            with content.get_list_of_paths(file, path, refuse, resolve) as paths:
                made = encoders.encode(paths)
        else:
            with content.get_content_from_file(file, path, refuse, resolve) as found:
                if route == "meta":
                    made = encoders.encode(found.metadata())
                elif route == "attr":
                    made = encoders.encode(found.attributes(query.get("attr_keys")))
                elif route == "stats":
                    made = encoders.encode(found.data_stats(query.get("selection")))
                else:
                    data = found.data(query.get("selection"), bool(query.get("flatten")), query.get("dtype"))
                    made = encoders.encode(data, query.get("format"))
    except Refused as error:
        return error.args[0], json.dumps({"message": error.args[1]}).encode(), "application/json"
    return 200, made.content, made.headers["Content-Type"]


def _same(server: hs.Server, folder: Path, route: str, **query: Any) -> Any:
    """Compare the two answers, and return them."""
    wanted = {key: value for key, value in query.items() if value is not None}
    status, expected, media = _expected(folder / "all.h5", route, **wanted)
    found = _ask(server, route, file=f"{folder.name}/all.h5", **wanted)
    assert found[0] == status, found
    if "json" not in media:
        assert found[1:] == (expected, media)
        return found[1]
    assert json.loads(found[1]) == json.loads(expected)
    return json.loads(expected)


NODES = (
    "half double bool complex text bytes scalar name null color table mixed opaque ragged array type group "
    "soft broken outside lost again references group/inner group/inner/i group/inner/u8 group/inner/packed"
).split()


@pytest.mark.parametrize("node", ["", *NODES])
def test_metadata_and_attributes(server: hs.Server, folder: Path, node: str) -> None:
    found = _same(server, folder, "meta", path=f"/{node}")
    assert found["name"] == node.rsplit("/", 1)[-1]
    if found["kind"] not in {"soft_link", "external_link"}:
        _same(server, folder, "attr", path=f"/{node}")


@pytest.mark.parametrize("resolve", ["none", "only_valid", "all"])
def test_links(server: hs.Server, folder: Path, resolve: str) -> None:
    for path in ("/soft", "/broken", "/outside", "/lost", "/group", "/nothing", "/group/nothing/below"):
        _same(server, folder, "meta", path=path, resolve_links=resolve)


def test_keys_paths_and_errors(server: hs.Server, folder: Path) -> None:
    assert _same(server, folder, "attr", path="/", attr_keys=["flag", "fixed"]) == {
        "flag": True,
        "fixed": "fixed",
    }
    assert len(_same(server, folder, "paths", path="/", resolve_links="none")) > len(NODES)
    assert _same(server, folder, "paths", path="/group") == [
        "/group",
        *(f"/group/inner{n}" for n in ("", "/i", "/packed", "/u8")),
    ]
    assert _ask(server, "")[:2] == (200, b"ok")
    for route, query in [
        ("meta", {}),
        ("meta", {"file": "none.h5"}),
        ("meta", {"file": f"{folder.name}/../all.h5"}),
        ("attr", {"file": f"{folder.name}/all.h5", "attr_keys": "none"}),
        ("data", {"file": f"{folder.name}/all.h5", "path": "/group"}),
        ("data", {"file": f"{folder.name}/all.h5", "path": "/double", "selection": "0,0,0,0"}),
        ("data", {"file": f"{folder.name}/all.h5", "path": "/double", "selection": "9"}),
        ("data", {"file": f"{folder.name}/all.h5", "path": "/text", "dtype": "safe"}),
        ("other", {"file": f"{folder.name}/all.h5"}),
    ]:
        status, body, media = _ask(server, route, **query)
        assert status in {400, 404, 422}, (route, query)
        assert media == "application/json"
        assert json.loads(body)["message"]
        assert str(folder.parent) not in body.decode()


@pytest.mark.parametrize("flatten", [None, "true"])
@pytest.mark.parametrize(
    "node",
    [
        name
        for name in NODES
        if name.split("/")[-1] not in {"type", "group", "broken", "lost", "again", "inner", "references"}
    ],
)
def test_elements_as_json(server: hs.Server, folder: Path, node: str, flatten: str | None) -> None:
    if node == "group/inner/packed":
        # h5grove fails: orjson takes no big-endian numbers.
        found = _ask(server, "data", file=f"{folder.name}/all.h5", path=node, flatten=flatten)
        with h5py.File(folder / "all.h5") as file:
            expected = file[node][()] if flatten is None else file[node][()].ravel()
        np.testing.assert_array_equal(np.array(json.loads(found[1]), float).astype("f4"), expected)
        return
    _same(server, folder, "data", path=node, flatten=flatten)


def test_references_are_paths(server: hs.Server, folder: Path) -> None:
    found = _ask(server, "data", file=f"{folder.name}/all.h5", path="references")
    assert json.loads(found[1]) == ["/text"]


NUMBERS = [
    "half",
    "double",
    "bool",
    "complex",
    "scalar",
    "color",
    "soft",
    "group/inner/u8",
    "group/inner/packed",
]


@pytest.mark.parametrize("dtype", ["origin", "safe"])
@pytest.mark.parametrize("node", NUMBERS)
def test_numbers_as_bytes(server: hs.Server, folder: Path, node: str, dtype: str) -> None:
    for form in ("bin", "npy"):
        found = _same(server, folder, "data", path=node, format=form, dtype=dtype)
    with h5py.File(folder / "all.h5") as file:
        expected = file[node][()]
        np.testing.assert_array_equal(np.load(BytesIO(found)), expected)
    _same(server, folder, "data", path="opaque", format="bin")
    _same(server, folder, "data", path="bytes", format="bin")


@pytest.mark.parametrize("selection", ["0", "1:3", ":,2", "1:,::2,-1", "0:2,1:3", "2,3,4", "0:0"])
def test_selections(server: hs.Server, folder: Path, selection: str) -> None:
    for query in ({}, {"format": "bin", "dtype": "safe"}, {"format": "npy"}, {"flatten": "true"}):
        _same(server, folder, "data", path="/double", selection=selection, **query)
    assert _same(server, folder, "data", path="/text", selection="1") == "ü"
    assert _same(server, folder, "data", path="/table", selection="1:")[0][:2] == [2, "bb"]


@pytest.mark.parametrize(
    "node", ["half", "bool", "complex", "color", "soft", "group/inner/u8", "group/inner/packed"]
)
def test_csv(server: hs.Server, folder: Path, node: str) -> None:
    _same(server, folder, "data", path=node, format="csv")


@pytest.mark.parametrize("node", ["half", "soft", "group/inner/packed"])
def test_tiff(server: hs.Server, folder: Path, node: str) -> None:
    tifffile = pytest.importorskip("tifffile")
    status, body, media = _ask(server, "data", file=f"{folder.name}/all.h5", path=node, format="tiff")
    assert (status, media) == (200, "image/tiff")
    with h5py.File(folder / "all.h5") as file:
        np.testing.assert_array_equal(tifffile.imread(BytesIO(body)), file[node][()])


@pytest.mark.parametrize("node", ["half", "double", "bool", "scalar", "color", "soft", "group/inner/packed"])
@pytest.mark.parametrize("selection", [None, "0", "0:0"])
def test_statistics(server: hs.Server, folder: Path, node: str, selection: str | None) -> None:
    if node == "scalar" and selection is not None:
        return
    query = {} if selection is None else {"selection": selection}
    found = json.loads(_ask(server, "stats", file=f"{folder.name}/all.h5", path=node, **query)[1])
    expected = json.loads(_expected(folder / "all.h5", "stats", path=node, **query)[1])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # h5grove computes the moments of halves and singles with their precision.
        tolerance = 2e-3 if node == "half" else 1e-5
        assert found[name] == (value if value is None else pytest.approx(value, rel=tolerance)), name
    assert (found["min"], found["max"]) == (expected["min"], expected["max"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr(tmp_path: Path, zarr_format: Any) -> None:
    attributes = {"title": "tides", "levels": [1, 2.5], "nested": {"a": [1]}, "nan": float("nan"), "on": True}
    root = hs.create_group(tmp_path / "a.zarr", attributes=attributes, zarr_format=zarr_format)
    level = root.create_array(
        "deep/level", shape=(4, 6), dtype="f4", chunks=(2, 3), attributes={"units": "m"}
    )
    level[:] = values = np.arange(24, dtype="f4").reshape(4, 6)
    name = root.create_array("name", shape=(2,), dtype=str)
    name[:] = ["Ada", "ü"]
    with hs.serve(tmp_path / "a.zarr", token="secret") as server:

        def ask(route: str, **query: Any) -> Any:
            status, body, media = _ask(server, route, file="a.zarr", **query)
            assert status == 200, body
            return json.loads(body) if "json" in media else body

        found = ask("meta", path="/")
        assert [(child["name"], child["kind"]) for child in found["children"]] == [
            ("deep", "group"),
            ("name", "dataset"),
        ]
        shapes = {one["name"]: (one["shape"], one["type"]["dtype"]) for one in found["attributes"]}
        assert shapes == {
            "title": ([], "|O"),
            "levels": ([2], "<f8"),
            "nested": ([], "|O"),
            "nan": ([], "<f8"),
            "on": ([], "|b1"),
        }
        assert ask("attr", path="/") == {
            "title": "tides",
            "levels": [1, 2.5],
            "nested": '{"a": [1]}',
            "nan": None,
            "on": True,
        }
        found = ask("meta", path="/deep/level")
        assert (found["shape"], found["chunks"], found["type"]["dtype"]) == ([4, 6], [2, 3], "<f4")
        assert [one["name"] for one in found["filters"]] == ["zstd"]
        assert ask("data", path="/deep/level", selection="1") == values[1].tolist()
        assert ask("data", path="/deep/level", format="bin", dtype="safe") == values.tobytes()
        assert ask("data", path="/name") == ["Ada", "ü"]
        assert ask("stats", path="/deep/level")["strict_positive_min"] == 1.0
        assert ask("paths") == ["/", "/deep", "/deep/level", "/name"]
        for path in ("/none", "/../a.zarr", "/deep/../../b", "/deep/level/zarr.json"):
            assert _ask(server, "meta", file="a.zarr", path=path)[0] == 404, path
