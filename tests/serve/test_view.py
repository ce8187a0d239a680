"""`hs.view`: frames for notebooks, and the servers behind them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab.errors import ArgumentTypeError, InvalidArgumentError


def _api(viewer: hs.Viewer, what: str) -> Any:
    parts = urlsplit(viewer.url)
    path = parts.path.replace("/view/", f"/api/{what}/", 1)
    token = parse_qs(parts.query)["token"][0]
    with urllib.request.urlopen(f"http://{parts.netloc}{path}?token={token}", timeout=60) as answer:  # noqa: S310
        return json.load(answer)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    array = hs.create_array(tmp_path / "a.zarr", shape=(3, 4), dtype="i4")
    array[:] = np.arange(12).reshape(3, 4)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["inner/x"] = [1.5, 2.5]
    group = hs.create_group(tmp_path / "c d.zarr")
    group.create_array("x/y", shape=(2,), dtype="f4")
    return tmp_path


def test_arrays_groups_and_paths(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with hs.view(hs.open(files / "a.zarr")) as viewer:
        assert capsys.readouterr().out.strip() == viewer.url
        assert urlsplit(viewer.url).path == "/view/a.zarr"
        assert _api(viewer, "data") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    with hs.view(files / "b.h5" / "inner" / "x") as viewer:
        assert urlsplit(viewer.url).path == "/view/b.h5/inner/x"
        assert _api(viewer, "data") == [1.5, 2.5]
    with hs.view(hs.open(files / "c d.zarr")["x"]) as viewer:
        assert urlsplit(viewer.url).path == "/view/c%20d.zarr/x"
        assert list(_api(viewer, "tree")["members"]) == ["y"]


def test_the_address_is_the_view(files: Path) -> None:
    with hs.view(files / "a.zarr", "1:, ::2", map="magma", range=(0, 1.5), width=300, height=200) as viewer:
        query = parse_qs(urlsplit(viewer.url).query)
        assert (query["select"], query["map"], query["range"]) == (["1:, ::2"], ["magma"], ["0,1.5"])
        frame = viewer._repr_html_()
        assert 'width="300" height="200"' in frame
        assert viewer.url.replace("&", "&amp;") in frame
    assert "closed" in viewer._repr_html_()


def test_views_share_a_server(files: Path) -> None:
    one, other = hs.view(files / "a.zarr"), hs.view(files / "a.zarr")
    assert urlsplit(one.url).netloc == urlsplit(other.url).netloc
    one.close()
    one.close()
    assert _api(other, "info")["shape"] == [3, 4]
    other.close()
    with pytest.raises(urllib.error.URLError):
        _api(other, "info")
    with hs.view(files / "a.zarr") as again:
        assert _api(again, "info")["shape"] == [3, 4]


def test_others_need_the_token(files: Path) -> None:
    with hs.view(files / "a.zarr") as viewer:
        address = urlsplit(viewer.url)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://{address.netloc}/api/info/a.zarr", timeout=60)  # noqa: S310


def test_what_cannot_be_viewed() -> None:
    with pytest.raises(InvalidArgumentError, match="Store it first"):
        hs.view(hs.array(np.arange(3)))
    with pytest.raises(ArgumentTypeError, match="view: expected an array"):
        hs.view(3)
