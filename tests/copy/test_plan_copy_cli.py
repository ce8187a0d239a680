"""``hyperslab copy --resume`` and ``--scheduler``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest
from support import dask_cluster

CHUNKS = ["--chunks", "-1,4,4", "--max-memory", "640KiB"]


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "hyperslab", "copy", *map(str, args)]


def run(*args: str | Path, code: int = 0) -> str:
    done = subprocess.run(command(*args), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    values = np.random.default_rng(1).integers(0, 1000, (256, 128, 128), "i4")
    hs.create_array(tmp_path / "a", data=values, chunks=(1, 128, 128))
    return tmp_path / "a"


def test_as_without_tasks(source: Path, tmp_path: Path) -> None:
    said = run(source, tmp_path / "b", *CHUNKS, "--resume", "--codec", "zstd:1", "--shards", "-1,16,16")
    assert said.startswith("copied 1 array: 16.0 MiB in ")
    run(source, tmp_path / "c", *CHUNKS, "--codec", "zstd:1", "--shards", "-1,16,16")
    assert files(tmp_path / "b") == files(tmp_path / "c")
    assert run(source, tmp_path / "d", *CHUNKS, "--resume", "--quiet", "--format", "v2", "--order", "F") == ""
    assert hs.open_array(tmp_path / "d", mode="r").zarr_format == 2
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_going_on(source: Path, tmp_path: Path, number: signal.Signals) -> None:
    work, place = tmp_path / ".b.hyperslab-copy", tmp_path / "b"
    process = subprocess.Popen(
        command(source, place, *CHUNKS, "--resume", "--threads", "1"), stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not any(work.glob("journal/done/*/*")):
        time.sleep(0.001)
    process.send_signal(number)
    _, said = process.communicate()
    if process.returncode != 0:
        assert not place.exists() and work.exists()
        if number != signal.SIGKILL:
            assert process.returncode == 128 + number
            assert "go on with --resume" in said
        assert "the journal beside it is that of another copy" in run(source, place, "--resume", code=1)
        assert "done before" in run(source, place, *CHUNKS, "--resume")
    run(source, tmp_path / "c", *CHUNKS)
    assert files(place) == files(tmp_path / "c")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.filterwarnings("ignore")
def test_on_a_cluster(source: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with dask_cluster() as cluster:
        to = ["--scheduler", cluster.scheduler_address]
        assert "stage" not in run(source, tmp_path / "b", *CHUNKS, *to, "--explain")
        assert not (tmp_path / "b").exists()
        said = run(source, tmp_path / "b", *CHUNKS, *to)
        assert said.startswith("copied 1 array: 16.0 MiB in ")
        assert "it exists already" in run(source, tmp_path / "b", *CHUNKS, *to, code=1)
    run(source, tmp_path / "c", *CHUNKS)
    assert files(tmp_path / "b") == files(tmp_path / "c")


def test_flushed_by_the_environment(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERSLAB_FSYNC", "1")
    run(source, tmp_path / "b", *CHUNKS, "--resume")
    run(source, tmp_path / "c", *CHUNKS)
    assert files(tmp_path / "b") == files(tmp_path / "c")


def test_replaced_and_verified(source: Path, tmp_path: Path) -> None:
    hs.create_array(tmp_path / "b", data=np.arange(9))
    assert "pass --overwrite" in run(source, tmp_path / "b", "--resume", code=1)
    said = run(source, tmp_path / "b", *CHUNKS, "--resume", "--overwrite", "--verify", "--check-contents")
    assert "; verified in " in said
    run(source, tmp_path / "c", *CHUNKS)
    assert files(tmp_path / "b") == files(tmp_path / "c")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_regions(source: Path, tmp_path: Path, more: list[str]) -> None:
    values = hs.open_array(source, mode="r")[...]
    run(source, tmp_path / "b", "--region", "3:-200, 5:", "--chunks=-1,16,16", "--verify", *more)
    found = hs.open_array(tmp_path / "b")
    assert np.array_equal(found[...], values[3:-200, 5:]) and found.chunks == (53, 16, 16)
    into = ["--region", "0:53, 16:32, -32:", "--target-region", ":, 32:48, 16:48", "--verify", *more]
    run(source, tmp_path / "b", *into)
    expected = values[3:-200, 5:].copy()
    expected[:, 32:48, 16:48] = values[:53, 16:32, -32:]
    assert np.array_equal(found[...], expected)
    into[3] = ":, 33:49, 16:48"
    assert "With whole ones it is [0:53, 32:64, 16:48]" in run(source, tmp_path / "b", *into, code=2)
    group = hs.create_group(tmp_path / "g")
    group.create_array("v", data=np.arange(20), dimension_names=["time"], chunks=3)
    run(tmp_path / "g", tmp_path / "h", "--region", "time=5:9", *more)
    assert hs.open_array(tmp_path / "h/v")[:].tolist() == [5, 6, 7, 8]
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "g", "h"]


def test_explained(source: Path, tmp_path: Path) -> None:
    said = run(source, tmp_path / "b", *CHUNKS, "--resume", "--explain")
    assert said.startswith(f"copy {source} to {tmp_path / 'b'}\n")
    assert "decodes  256 chunks: each of 256 once" in said
    said = run(source, tmp_path / "b", "--explain")
    assert "decodes  256 chunks once\n" in said
    assert os.listdir(tmp_path) == ["a"]


def test_wrong_usage(source: Path, tmp_path: Path) -> None:
    for other in ("--overwrite", "--chunks=1,1,1", "--codec=zstd"):
        said = run(source, tmp_path / "b", "--target-region", "0:9", other, code=2)
        assert "cannot be used with" in said
    assert "--resume" in run(source, tmp_path / "b", "--check-contents", code=2)
    for wrong in ("::2", "3", "time=1", "x"):
        assert "region" in run(source, tmp_path / "b", "--region", wrong, code=2)
    for wrong in ("time=0:3", "0:1,0:1,0:1,0:1"):
        for more in ([], ["--resume"]):
            assert "region" in run(source, tmp_path / "b", "--region", wrong, *more, code=2)
    assert "there is no" in run(tmp_path / "none", tmp_path / "b", "--resume", code=1)
    assert os.listdir(tmp_path) == ["a"]
