"""Programs of npm that read every format through the server: zarrita, and H5Web in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from browser import Browser, browser
from node_clients import bundle, run_in_node

VALUES = np.arange(60, dtype="f4").reshape(6, 10) / 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clients")
    for zarr_format in (2, 3):
        group = hs.create_group(
            folder / f"v{zarr_format}.zarr", attributes={"title": "a tide"}, zarr_format=zarr_format
        )
        shards = {"shards": (4, 10)} if zarr_format == 3 else {}
        level = group.create_array("inner/level", shape=VALUES.shape, dtype="f4", chunks=(2, 5), **shards)
        level.attrs["units"] = "metre"
        level[:] = VALUES
    with h5py.File(folder / "plain.h5", "w") as file:
        file.attrs["title"] = "a tide"
        level = file.create_dataset(
            "inner/level", data=VALUES, chunks=(2, 5), compression="gzip", shuffle=True
        )
        level.attrs["units"] = "metre"
    with netCDF4.Dataset(folder / "four.nc", "w") as file:
        file.title = "a tide"
        inner = file.createGroup("inner")
        inner.createDimension("t", 6)
        inner.createDimension("x", 10)
        level = inner.createVariable("level", "f4", ("t", "x"), zlib=True)
        level.units, level[:] = "metre", VALUES
    return folder


FILES = ["v2.zarr", "v3.zarr", "plain.h5", "four.nc"]


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[hs.Server]:
    with hs.serve(folder, cors="*") as running:
        yield running


@pytest.fixture(scope="module")
def zarrita(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle("zarrita.mjs", tmp_path_factory.mktemp("zarrita"), "--platform=node", "--format=esm")


@pytest.mark.parametrize("file", FILES)
def test_zarrita(server: hs.Server, folder: Path, zarrita: Path, file: str) -> None:
    found = json.loads(run_in_node(zarrita, f"{server.url}/zarr/{folder.name}/{file}/inner/level"))
    assert (found["shape"], found["dtype"]) == ([6, 10], "float32")
    assert found["attributes"]["units"] == "metre"
    np.testing.assert_array_equal(np.array(found["data"], "f4").reshape(6, 10), VALUES)
    np.testing.assert_array_equal(np.array(found["part"], "f4").reshape(2, 10), VALUES[1:3])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page with H5Web."""
    folder = tmp_path_factory.mktemp("page")
    script = bundle("h5web.jsx", folder, "--minify", "--jsx=automatic")
    style = f'<link rel="stylesheet" href="{script.stem}.css"><style>#root, body {{ height: 100vh }}</style>'
    body = f'<div id="root"></div><script src="{script.name}"></script>'
    # Browsers ask for an icon if the page names none.
    icon = '<link rel="icon" href="data:,">'
    (folder / "index.html").write_text(f'<!doctype html><meta charset="utf-8">{icon}{style}{body}')

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}/"
    http.shutdown()
    http.server_close()


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.mark.parametrize("file", FILES)
def test_h5web(server: hs.Server, folder: Path, page: str, window: Browser, file: str) -> None:
    query = urlencode({"url": f"{server.url}/h5grove", "file": f"{folder.name}/{file}"})
    window.open(f"{page}?{query}")
    # Groups open in the tree, and arrays are drawn.
    window.run('await page.getByRole("treeitem", { name: "inner" }).click()')
    window.run('await page.getByRole("treeitem", { name: "level" }).click()')
    window.run('await page.getByRole("tab", { name: "Heatmap" }).click()')
    window.run('await page.getByRole("figure").first().waitFor()')
    window.run('await page.getByRole("tab", { name: "Matrix" }).click()')
    window.run('await page.getByText("1.375e+1", { exact: true }).first().waitFor()')
    window.screenshot(f"h5web-{file}")
    # The page about the array has its attributes.
    window.run('await page.getByRole("tab", { name: "Inspect" }).click()')
    window.run('await page.getByText("metre").first().waitFor()')
    assert window.problems == []
