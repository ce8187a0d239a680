"""Names to import, messages, and tables of the command line, as users see them."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hyperslab as hs
import numpy as np
import pytest

MODULES = ("codecs", "errors", "h5", "storage", "zarr", "xarray", "dask")


def run(*arguments: object, code: int = 0, **environment: str) -> str:
    command = [sys.executable, "-m", "hyperslab", *map(str, arguments)]
    told = {**os.environ, "NO_COLOR": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=told)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_names_are_those_that_users_import() -> None:
    shown = dir(hs)
    assert set(hs.__all__) <= set(shown)
    assert [name for name in shown if name.startswith("_") and not name.startswith("__")] == []
    for name in hs.__all__:
        assert getattr(hs, name) is not None
    for name in MODULES:
        module = importlib.import_module(f"hyperslab.{name}")
        assert dir(module) == sorted(module.__all__), name


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        ("zstd:99", "level must be -131072 to 22, found 99"),
        ("gzip:10", "level must be -1 to 9, found 10"),
        ("lz4:0", "acceleration must be 1 to 65537, found 0"),
        ("blosc:lz4:10", "level must be 0 to 9, found 10"),
        ('{"id": "zstd", "level": 99}', "level must be -131072 to 22, found 99"),
    ],
)
def test_levels_out_of_range_are_refused(tmp_path: Path, codec: str, message: str) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(3))
    assert message in run("copy", tmp_path / "a", tmp_path / "b", "--codec", codec, code=2)
    if not codec.startswith("{"):
        with pytest.raises(ValueError, match=message):
            hs.copy(tmp_path / "a", tmp_path / "b", compressors=codec)
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_new_codecs_have_settings_in_range() -> None:
    with pytest.raises(ValueError, match="zstd: level must be -131072 to 22, found 99"):
        hs.codecs.Zstd(level=99)
    with pytest.raises(ValueError, match="lz4: acceleration must be 1 to 65537, found 0"):
        hs.codecs.LZ4(acceleration=0)
    # numcodecs stores any level and uses the nearest valid one.
    z: Any = hs.create_array(
        hs.MemoryStore(), data=np.arange(3), zarr_format=2, compressors={"id": "zstd", "level": 99}
    )
    assert z.compressors[0].level == 99 and z[:].tolist() == [0, 1, 2]


def test_chunks_that_do_not_fit_the_axes(tmp_path: Path) -> None:
    group = hs.create_group(tmp_path / "a")
    group.create_array("field", data=np.zeros((4, 4, 4)), chunks=(1, 4, 4))
    said = run("copy", tmp_path / "a", tmp_path / "b", "--chunks", 10, code=2)
    assert "--chunks: 1 sizes are given, but the source has arrays of 3 axes" in said
    group.create_array("x", data=np.zeros(20), chunks=(5,))
    said = run("copy", tmp_path / "a", tmp_path / "b", "--chunks", 10)
    assert "note: chunks as in the source" in said and "/field" in said
    copied: Any = hs.open_group(tmp_path / "b", mode="r")
    assert copied["x"].chunks == (10,) and copied["field"].chunks == (1, 4, 4)


def test_memory_that_holds_no_block_is_refused(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.zeros((64, 64)), chunks=(64, 64))
    said = run("copy", tmp_path / "a", tmp_path / "b", "--max-memory", "1K", code=2)
    assert "--max-memory: 1024 bytes are less than the " in said and not (tmp_path / "b").exists()
    least = said.split("less than the ")[1].split()[0]
    said = run("copy", tmp_path / "a", tmp_path / "b", "--max-memory", "1K", "--resume", code=2)
    assert "--max-memory: 1024 bytes are less than the " in said and not (tmp_path / "b").exists()
    run("copy", tmp_path / "a", tmp_path / "b", "--max-memory", least)
    run("copy", tmp_path / "a", tmp_path / "c", "--max-memory", int(least) - 1, code=2)
    assert (hs.open_array(tmp_path / "b", mode="r")[...] == 0).all()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Returns an archive like one from ``zip -r x.zarr.zip x.zarr``: the store is in a folder."""
    group = hs.create_group(tmp_path / "source")
    group.create_array("a", data=np.arange(3))
    path = tmp_path / "x.zarr.zip"
    with zipfile.ZipFile(path, "w") as file:
        for folder, _, names in os.walk(tmp_path / "source"):
            for name in names:
                where = Path(folder, name)
                file.write(where, Path("x.zarr") / where.relative_to(tmp_path / "source"))
    return path


def test_an_archive_with_a_folder_names_it(archive: Path) -> None:
    inside = f"try '{archive}/x.zarr'"
    for command in ("tree", "info", "stats"):
        assert inside in run(command, archive, code=1)
    for opened in (hs.open, hs.open_group):
        with pytest.raises(FileNotFoundError, match="try ") as caught:
            opened(archive, mode="r")
        assert inside in str(caught.value)
    assert hs.open_array(f"{archive}/x.zarr/a", mode="r")[:].tolist() == [0, 1, 2]


def test_an_archive_with_a_folder_in_xarray(archive: Path) -> None:
    xr = pytest.importorskip("xarray")
    from hyperslab.xarray import BackendEntrypoint

    with pytest.raises(FileNotFoundError) as caught:
        xr.open_dataset(archive, engine=BackendEntrypoint)
    assert f"try '{archive}/x.zarr'" in str(caught.value)


def test_what_a_web_server_does_not_list_is_not_known(tmp_path: Path) -> None:
    hs.create_array(tmp_path / "a", data=np.arange(6), chunks=(2,))
    group = hs.create_group(tmp_path / "g")
    group.create_array("b", data=np.arange(3))
    hs.consolidate_metadata(tmp_path / "g")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        assert "not known, of 3 chunks" in run("info", f"{url}/a")
        found = json.loads(run("info", "--json", f"{url}/a"))
        assert (found["chunks_stored"], found["bytes_stored"], found["shape"]) == (None, None, [6])
        assert "not known" in run("info", f"{url}/g")
        server.shutdown()


def test_long_element_types_do_not_break_lines(tmp_path: Path) -> None:
    dtype = np.dtype([(f"field{n}", "f8") for n in range(20)])
    hs.create_group(tmp_path / "a").create_array("table", data=np.zeros(10, dtype))
    lines = run("tree", tmp_path / "a").splitlines()[1:]
    assert max(map(len, lines)) <= 80 and "…" in lines[-1]
    assert "field19: float64}" in run("tree", tmp_path / "a", COLUMNS="1000")


def test_filters_have_their_names_without_them_in_the_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("a", data=np.arange(20), chunks=(5,), compression="gzip", shuffle=True)
        names = file["a"].filter_names if hasattr(file["a"], "filter_names") else ("shuffle", "deflate")
    found: Any = hs.open(tmp_path / "a.h5", mode="r")["a"]
    assert "shuffle, gzip" in str(found.info) and found.filter_names == names
    assert "shuffle gzip" in run("tree", tmp_path / "a.h5")
    assert [codec["name"] for codec in json.loads(run("info", "--json", tmp_path / "a.h5/a"))["codecs"]] == [
        "shuffle",
        "gzip",
    ]
