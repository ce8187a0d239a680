"""The `hyperslab` command that the wheel installs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

import hyperslab as hs
import numcodecs
import numpy as np
import pytest
import zarr
from support import assert_same, chunk_files, files_below


@pytest.fixture(scope="module")
def command() -> str:
    """Returns the command that the wheel installed beside the interpreter."""
    found = shutil.which("hyperslab", path=sysconfig.get_path("scripts"))
    assert found is not None, "the command is not installed"
    return found


@pytest.fixture
def ocean(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Writes a hierarchy with zarr-python."""
    root = tmp_path / "ocean.zarr"
    group = zarr.create_group(root, zarr_format=2, attributes={"title": "ocean"})
    sst = group.create_array(
        "sst",
        shape=(6, 20, 30),
        chunks=(1, 20, 30),
        dtype="f4",
        compressors=numcodecs.Zstd(level=1),
        fill_value=-1.0,
        attributes={"units": "K"},
    )
    sst[:5] = rng.normal(size=(5, 20, 30))
    group.create_array("forcing/wind", shape=(40,), chunks=(7,), dtype=">i2")[...] = np.arange(40)
    return root


def run(command: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        [command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        **options,
    )


def succeed(command: str, *arguments: object) -> str:
    done = run(command, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(command: str, *arguments: object, code: int = 1) -> str:
    done = run(command, *arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    return done.stderr


def test_help_and_version(command: str) -> None:
    told = succeed(command, "--help")
    for word in ["info", "tree", "explain", "copy", "Exit codes", "Examples"]:
        assert word in told
    assert succeed(command, "--version") == f"hyperslab {hs.__version__}\n"
    for sub in ["info", "tree", "explain", "copy"]:
        assert "Example" in succeed(command, sub, "--help")


def test_python_m_is_the_same_command(ocean: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", "info", "--json", str(ocean / "sst")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == succeed(command, "info", "--json", ocean / "sst")


def test_info(command: str, ocean: Path) -> None:
    info = json.loads(succeed(command, "info", "--json", ocean / "sst"))
    z = hs.open_array(ocean, path="sst")
    assert info["shape"] == list(z.shape)
    assert info["chunks"] == list(z.chunks)
    assert info["attributes"] == {"units": "K"}
    assert info["fill_value"] == -1.0
    assert "<f4" in json.dumps(info)
    text = succeed(command, "info", ocean / "sst")
    for word in ["Zarr v2", "6, 20, 30", "float32", "zstd", "5 of 6 chunks", "units", "K", "-1.0"]:
        assert word in text, text
    group = json.loads(succeed(command, "info", "--json", ocean))
    assert group["attributes"] == {"title": "ocean"}


def test_tree(command: str, ocean: Path) -> None:
    told = succeed(command, "tree", ocean)
    lines = [line for line in told.splitlines() if "──" in line]
    for line, words in zip(lines, [["forcing"], ["wind", "(40,)", ">i2"], ["sst", "float32"]], strict=True):
        for word in words:
            assert word in line, told
    assert "wind" not in succeed(command, "tree", "--depth", "1", ocean)


def test_explain(command: str, ocean: Path) -> None:
    told = json.loads(succeed(command, "explain", "--json", ocean / "sst", "4:, 5, ::2"))
    assert told["chunks"] == 2
    text = succeed(command, "explain", ocean / "sst")
    assert "decode-into" in text
    assert "fill" in text
    assert "0.0.0" in text
    assert "write" in succeed(command, "explain", "--write", ocean / "sst", "0")


@pytest.mark.parametrize("codec", ["zstd:5", "blosc:lz4:5:bitshuffle", "gzip", "none"])
def test_copy_to_v3(command: str, ocean: Path, tmp_path: Path, codec: str) -> None:
    new = tmp_path / "deep" / "new.zarr"
    succeed(command, "copy", ocean, new, "--codec", codec, "--verify")
    group = zarr.open_group(new, mode="r")
    assert group.metadata.zarr_format == 3
    assert group.attrs.asdict() == {"title": "ocean"}
    old = zarr.open_group(ocean, mode="r")
    for path in ["sst", "forcing/wind"]:
        assert_same(group[path][...], old[path][...].astype(old[path].dtype.newbyteorder("=")), path)
        assert group[path].attrs.asdict() == old[path].attrs.asdict()
        assert group[path].chunks == old[path].chunks
        assert group[path].fill_value == old[path].fill_value
    assert len(group["sst"].compressors) == (0 if codec == "none" else 1)
    assert len(chunk_files(new / "sst")) == 5, "what was not stored is not stored"


def test_copy_back_to_v2_with_other_chunks(command: str, ocean: Path, tmp_path: Path) -> None:
    succeed(
        command,
        "copy",
        ocean / "sst",
        tmp_path / "a.zarr",
        "--chunks",
        "-1,5,7",
        "--format",
        "v2",
        "--order",
        "F",
        "--codec",
        "lz4",
    )
    z = zarr.open_array(tmp_path / "a.zarr", mode="r")
    assert (z.metadata.zarr_format, z.chunks, z.order) == (2, (6, 5, 7), "F")
    assert z.compressors[0].codec_id == "lz4"
    assert_same(z[...], zarr.open_array(ocean, path="sst", mode="r")[...])


def test_copy_does_not_overwrite_unasked(command: str, ocean: Path, tmp_path: Path) -> None:
    succeed(command, "copy", "--quiet", ocean / "sst", tmp_path / "a.zarr")
    before = files_below(tmp_path)
    told = fail(command, "copy", ocean / "forcing/wind", tmp_path / "a.zarr")
    assert "a.zarr" in told
    assert files_below(tmp_path) == before
    succeed(command, "copy", "--overwrite", ocean / "forcing/wind", tmp_path / "a.zarr")
    assert hs.open_array(tmp_path / "a.zarr").shape == (40,)


def test_interrupted_copy_leaves_nothing(command: str, tmp_path: Path, rng: np.random.Generator) -> None:
    data = rng.normal(size=(300, 60_000)).astype("f4")
    hs.create_array(tmp_path / "big.zarr", data=data, chunks=(1, 60_000), compressors=None)
    (tmp_path / "out").mkdir()
    before = files_below(tmp_path)
    copy = subprocess.Popen(
        [
            command,
            "copy",
            str(tmp_path / "big.zarr"),
            str(tmp_path / "out/new.zarr"),
            "--codec",
            "zstd:15",
            "--threads",
            "1",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    # Interrupts while writing: the whole copy takes long.
    end = time.monotonic() + 60
    while not list((tmp_path / "out").rglob("*")) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.2)
    copy.send_signal(signal.SIGINT)
    _, told = copy.communicate(timeout=60)
    assert copy.returncode == 130, told
    assert "interrupted" in told
    assert files_below(tmp_path) == before
    assert list((tmp_path / "out").iterdir()) == []


def test_errors_are_one_line(command: str, ocean: Path, tmp_path: Path) -> None:
    told = fail(command, "info", tmp_path / "nothing")
    assert told.count("\n") == 1
    assert "error: " in told
    assert "nothing" in told
    chunk = ocean / "sst/3.0.0"
    chunk.write_bytes(chunk.read_bytes()[:50])
    told = fail(command, "copy", "--quiet", ocean, tmp_path / "new.zarr")
    assert told.count("\n") == 1
    assert "sst/3.0.0" in told
    assert "[3, 0, 0]" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ocean.zarr"]
    told = fail(command, "explain", ocean / "sst", "9")
    assert "out of bounds" in told


def test_wrong_usage(command: str, ocean: Path) -> None:
    for arguments in [
        ["frobnicate"],
        ["copy", ocean],
        ["info"],
        ["copy", ocean, "x", "--chunks", "0"],
        ["copy", ocean, "x", "--codec", "zip"],
    ]:
        assert "error" in fail(command, *arguments, code=2)
    assert not Path("x").exists()


def test_output_that_nobody_reads(command: str, ocean: Path) -> None:
    done = subprocess.run(
        f"'{command}' tree '{ocean}' | true", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_difference_found_by_verify(command: str, ocean: Path) -> None:
    """NaNs are compared by their bits. Nothing here changes the source."""
    z = zarr.open_array(ocean, path="sst", mode="r+")
    z[0, 0, :2] = np.array([0x7FC00001, 0xFFC00000], "u4").view("f4")
    before = files_below(ocean)
    succeed(command, "copy", "--verify", ocean, ocean.parent / "new.zarr")
    assert files_below(ocean) == before
    assert_same(
        hs.open_array(ocean.parent / "new.zarr", path="sst")[...], hs.open_array(ocean, path="sst")[...]
    )
