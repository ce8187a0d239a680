"""Obstacles, no permission, a full disk, interrupts: typed errors, and files stay unchanged."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
import zarr
from bad_input import DATA, written
from support import assert_same, files_below


def test_nothing_there(tmp_path: Path) -> None:
    for opened in (hs.open, hs.open_array, hs.open_group):
        with pytest.raises(FileNotFoundError, match="nothing"):
            opened(tmp_path / "nothing", mode="r")
        (tmp_path / "empty-nothing").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match="nothing"):
            opened(tmp_path / "empty-nothing", mode="r")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty-nothing"]


def test_the_other_kind_of_node(tmp_path: Path) -> None:
    written(tmp_path, "zstd")
    with pytest.raises(hs.HyperslabError, match="ocean"):
        hs.open_array(tmp_path, path="ocean", mode="r")
    with pytest.raises(hs.HyperslabError, match="ocean/t"):
        hs.open_group(tmp_path, path="ocean/t", mode="r")


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (
        lambda: hs.open(tmp_path / "file", mode="r"),
        lambda: hs.create_array(tmp_path / "file", shape=(3,), dtype="i4"),
        lambda: hs.create_group(tmp_path / "file"),
    ):
        with pytest.raises((hs.HyperslabError, OSError)) as caught:
            attempt()
        assert isinstance(caught.value, (NotADirectoryError, FileNotFoundError))
        assert "file" in str(caught.value)
    assert (tmp_path / "file").read_text() == "x"

    chunk = written(tmp_path / "g", "zstd")
    for path in chunk.parent.iterdir():
        path.unlink()
    chunk.parent.rmdir()
    chunk.parent.write_text("x")
    z = hs.open_array(tmp_path / "g", path="ocean/t", mode="r+")
    with pytest.raises(hs.errors.StoreError, match="ocean/t.*c/1/0") as written_into:
        z[5:] = 1
    assert isinstance(written_into.value, (NotADirectoryError, FileExistsError))
    assert chunk.parent.read_text() == "x"
    assert_same(z[:5], DATA[:5])
    assert_same(hs.open_array(tmp_path / "g", path="ocean/t-neighbour")[...], DATA)


def test_a_directory_where_a_chunk_should_be(tmp_path: Path) -> None:
    """A directory is not an object: zarr-python and hyperslab see no chunk and write none."""
    chunk = written(tmp_path, "zstd")
    chunk.unlink()
    chunk.mkdir()
    (chunk / "inside").write_text("x")
    z = hs.open_array(tmp_path, path="ocean/t", mode="r+")
    assert_same(z[...], zarr.open_array(tmp_path, path="ocean/t", mode="r")[...])
    assert (z[5:] == 0).all()
    for attempt in (lambda: z.__setitem__(slice(5, 10), 1), lambda: z.__setitem__((7, 3), 1)):
        with pytest.raises(hs.errors.StoreError, match=r"chunk \[1, 0\].*ocean/t/c/1/0") as caught:
            attempt()
        assert isinstance(caught.value, IsADirectoryError)
    assert (chunk / "inside").read_text() == "x"
    assert_same(z[:5], DATA[:5])
    # No temporary file remains.
    assert sorted(path.name for path in chunk.parent.iterdir()) == ["0"]


def run_child(code: str, *arguments: Path | str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


NO_PERMISSION = """
import sys, os
import numpy as np
import hyperslab as hs
# Root is refused nothing: be nobody.
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
root = sys.argv[1]
z = hs.open_array(root, path="ocean/t", mode="r+")
def refused(do, key):
    try:
        do()
    except PermissionError as error:
        assert isinstance(error, hs.errors.StorePermissionError), type(error)
        assert key in str(error) and "ocean/t" in str(error), str(error)
        assert error.errno == 13, error.errno
    else:
        raise AssertionError(f"not refused: {key}")
refused(lambda: z[...], "ocean/t/c/1/0")
refused(lambda: z.__setitem__(7, 1), "ocean/t/c/1/0")
refused(lambda: z.__setitem__(slice(0, 5), 1), "ocean/t/c/0/0")
refused(lambda: z.attrs.update(a=1), "ocean/t/zarr.json")
refused(lambda: hs.create_array(root, name="ocean/t-new", shape=(1,), dtype="i4"), "ocean/t-new")
refused(lambda: hs.open_array(root, path="ocean/t-hidden", mode="r"), "ocean/t-hidden/zarr.json")
assert (z[:5] == np.arange(1, 51, dtype="f4").reshape(5, 10)).all()
print("done")
"""


def test_no_permission(tmp_path: Path) -> None:
    chunk = written(tmp_path / "g", "zstd")
    hs.create_array(tmp_path / "g", name="ocean/t-hidden", shape=(1,), dtype="i4")
    before = files_below(tmp_path)
    # pytest creates parent directories for their owner alone.
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    chunk.chmod(0)
    (tmp_path / "g/ocean/t-hidden/zarr.json").chmod(0)
    folders = [path for path in (tmp_path / "g").rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        done = run_child(NO_PERMISSION, tmp_path / "g")
        assert done.stdout == "done\n", done.stderr
    finally:
        for folder in folders:
            folder.chmod(0o755)
        chunk.chmod(0o644)
        (tmp_path / "g/ocean/t-hidden/zarr.json").chmod(0o644)
    assert files_below(tmp_path) == before


DISK_FULL = """
import sys, resource, signal, os
import numpy as np
import hyperslab as hs
root = sys.argv[1]
z = hs.open_array(root, path="ocean/t", mode="r+")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for do in (
    lambda: z.__setitem__(slice(5, 10), np.random.default_rng(1).normal(size=(5, 10))),
    lambda: z.__setitem__((7, 3), 1e9),
    lambda: hs.create_array(root, name="ocean/new", shape=(3,), dtype="i4"),
    lambda: z.attrs.update(text="x" * 1000),
):
    try:
        do()
    except OSError as error:
        assert isinstance(error, hs.errors.StoreError), type(error)
        assert error.errno == 27, error.errno
        assert "ocean/" in str(error) and "cannot write" in str(error), str(error)
    else:
        raise AssertionError("not refused")
assert (z[...] == np.arange(1, 101, dtype="f4").reshape(10, 10)).all()
print("done")
"""


def test_disk_full(tmp_path: Path) -> None:
    """Files are limited to 100 bytes: like on a full disk, a write fails half way."""
    written(tmp_path, "none")
    before = files_below(tmp_path)
    done = run_child(DISK_FULL, tmp_path)
    assert done.stdout == "done\n", done.stderr
    after = files_below(tmp_path)
    assert {name for name in after if not name.startswith("ocean/new")} == set(before)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if name.startswith("ocean/new") and name.endswith("zarr.json")]


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="only root can make a small file system"
)
def test_disk_really_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        z = hs.create_array(
            small, name="a", shape=(10, 10_000), chunks=(1, 10_000), dtype="f8", compressors=None
        )
        z[0] = 1.0
        with pytest.raises(hs.errors.StoreError, match=r"cannot write 'a/c/[1-9]/0'") as caught:
            z[1:] = 2.0
        assert caught.value.errno == errno.ENOSPC
        assert (z[0] == 1.0).all()
        for row in range(1, 10):
            assert (z[row] == z[row, 0]).all()
            assert z[row, 0] in (0.0, 2.0)
        assert {path.stat().st_size for path in (small / "a/c").rglob("*") if path.is_file()} == {80_000}
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_signals_are_not_lost() -> None:
    """An interrupt during a long read arrives as KeyboardInterrupt."""
    code = """
import os, signal, threading
import numpy as np
import hyperslab as hs
z = hs.create_array(hs.MemoryStore(), shape=(200, 100_000), chunks=(1, 100_000), dtype="f4")
z[...] = np.arange(100_000, dtype="f4")
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        z[...]
except KeyboardInterrupt:
    print("interrupted")
assert (z[3] == np.arange(100_000)).all()
"""
    done = run_child(code)
    assert done.stdout == "interrupted\n", done.stderr
    assert done.returncode == 0
