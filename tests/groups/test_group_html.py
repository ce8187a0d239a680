"""Groups in notebooks."""

from __future__ import annotations

from pathlib import Path

import h5py
import hyperslab as hs
import numpy as np
from hyperslab._display.group import codec_name


def test_sections_of_a_group(tmp_path: Path) -> None:
    g = hs.create_group(tmp_path / "a.zarr", attributes={"title": "<b>"})
    names = ("time", "x")
    g.create_array(
        "sst", shape=(4, 5), chunks=(1, 5), dtype="f4", dimension_names=names, attributes={"units": "K"}
    )
    g.create_array("deep/er/wind", shape=(7,), dtype="i2", dimension_names=("x",))
    html = g._repr_html_()
    for words in [
        "Dimensions (2)",
        "<b>time</b>: 4, <b>x</b>: 5 or 7",
        "Arrays (1)",
        "(time: 4, x: 5)",
        "float32",
        "(1, 5)",
        "zstd",
        "units",
        "Groups (1)",
        "<b>er</b>",
        "<b>wind</b>",
        "Attributes (1)",
        "&lt;b&gt;",
    ]:
        assert words in html, words
    assert html.count("<details") == html.count("</details>") == 10
    assert html.index("<b>deep</b>") < html.index("<b>er</b>") < html.index("<b>wind</b>")


def test_filters_of_hdf5_have_names(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(100), chunks=(10,), compression="gzip", shuffle=True)
    html = hs.open_group(tmp_path / "a.h5")._repr_html_()
    assert "shuffle gzip" in html
    assert "(100,)" in html
    assert codec_name({"id": 32015}) == "zstd"
    assert codec_name({"id": 9999}) == "filter 9999"
    assert codec_name({"id": "blosc", "cname": "lz4"}) == "blosc"


def test_large_groups_are_cut(tmp_path: Path) -> None:
    g = hs.create_group(tmp_path / "a.zarr")
    for number in range(101):
        g.create_group(f"g{number:03}")
    assert "The first 100 of 101 nodes" in g._repr_html_()
    assert "<b>g100</b>" not in g._repr_html_()
