"""Zip archives of zarr-python, Python's zipfile and hyperslab: read by all; kills, forks."""

from __future__ import annotations

import io
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest
import zarr
from hyperslab.errors import ReadOnlyError, StoreError, UnsupportedError
from hyperslab.storage import ZipStore
from support import kills
from zarr.storage import ZipStore as TheirStore

VALUES = np.arange(600, dtype="i4").reshape(20, 30)


def objects() -> dict[str, bytes]:
    """Returns the objects of a group with arrays of chunks, compressed chunks and shards."""
    found: dict[str, bytes] = {}
    group = hs.create_group(found, attributes={"title": "ocean"})
    group.create_array("plain", data=VALUES, chunks=(7, 30), compressors=None)
    group.create_array("g/packed", data=VALUES, chunks=(7, 8))
    group.create_array("g/shards", data=VALUES, chunks=(2, 5), shards=(10, 15))
    return found


def check(location: str | ZipStore) -> None:
    group = hs.open_group(location, mode="r")
    assert group.attrs["title"] == "ocean"
    for name in ("plain", "g/packed", "g/shards"):
        array = group[name]
        np.testing.assert_array_equal(array[:], VALUES)
        np.testing.assert_array_equal(array[3:17:5, 29], VALUES[3:17:5, 29])


class Unseekable(io.RawIOBase):
    """A file that zipfile cannot seek in, so that it writes sizes after the data."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return self.file.write(data)  # type: ignore[arg-type]


def plain(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in objects().items():
            archive.writestr(name, value)


def deflated(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("g")
        for name, value in objects().items():
            archive.writestr(name, value)


def forced_zip64(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in objects().items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(value)


def commented(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in objects().items():
            info = zipfile.ZipInfo(name)
            info.comment = b"of a member"
            archive.writestr(info, value)
        archive.comment = b"ends with a comment" * 30


def streamed(path: Path) -> None:
    with zipfile.ZipFile(Unseekable(path), "w", zipfile.ZIP_DEFLATED) as archive:
        for n, (name, value) in enumerate(objects().items()):
            archive.writestr(name, value, zipfile.ZIP_STORED if n % 2 else zipfile.ZIP_DEFLATED)


def prefixed(path: Path) -> None:
    path.write_bytes(b"#!/bin/sh\nexit 1\n")
    with zipfile.ZipFile(path, "a") as archive:
        for name, value in objects().items():
            archive.writestr(name, value)


def shifted(path: Path) -> None:
    """Writes an archive whose offsets do not count the bytes in front of it."""
    plain(path)
    path.write_bytes(b"something before" * 9 + path.read_bytes())


def replaced(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "w") as archive:
        for value in (b"old", b""):
            for name in objects():
                archive.writestr(name, value)
        for name, value in objects().items():
            archive.writestr(name, value)


def many(path: Path) -> None:
    """Writes more members than the end record of an archive can count."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(66_000):
            archive.writestr(f"other/{number}", b"")
        for name, value in objects().items():
            archive.writestr(name, value)


def of_zarr(path: Path) -> None:
    store = TheirStore(path, mode="w")
    group = zarr.create_group(store, attributes={"title": "ocean"})
    for name in ("plain", "g/packed", "g/shards"):
        shards = (10, 15) if name == "g/shards" else None
        group.create_array(name, data=VALUES, chunks=(2, 5), shards=shards)
    store.close()


WRITERS = [plain, deflated, forced_zip64, commented, streamed, prefixed, shifted, replaced, many, of_zarr]


@pytest.mark.parametrize("write", WRITERS)
def test_archives_of_others(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "x.zip"
    write(path)
    check(str(path))
    check(path.as_uri())
    check(f"zip://::{path.as_uri()}")
    with ZipStore(path) as store:
        check(store)
        assert store.path == path and store.read_only
    # hyperslab appends to the archive. Both hyperslab and zarr-python then read all of it.
    hs.create_array(f"{path}/new", data=VALUES + 1)
    check(str(path))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"ends" if write is commented else b"")
    theirs = zarr.open_group(TheirStore(path, read_only=True), mode="r")
    np.testing.assert_array_equal(theirs["new"][:], VALUES + 1)
    np.testing.assert_array_equal(theirs["g/shards"][:], VALUES)


def test_ours_are_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        group = hs.create_group(store, attributes={"title": "ocean"})
        group.create_array("plain", data=VALUES, chunks=(7, 30), compressors=None)
        group.create_array("g/packed", data=VALUES, chunks=(7, 8))
        shards = group.create_array(
            "g/shards", shape=VALUES.shape, dtype="i4", chunks=(2, 5), shards=(10, 15)
        )
        for row in range(0, 20, 5):
            shards[row : row + 5] = VALUES[row : row + 5]
        check(store)
        store.set("ü/é", b"name")
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == [], "not yet"
    check(str(path))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("ü/é") == b"name"
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    theirs = zarr.open_group(TheirStore(path), mode="r")
    for name in ("plain", "g/packed", "g/shards"):
        np.testing.assert_array_equal(theirs[name][:], VALUES)
    assert dict(theirs.attrs) == {"title": "ocean"}
    unzip = subprocess.run(["unzip", "-tq", path], capture_output=True) if has_unzip() else None
    assert unzip is None or unzip.returncode == 0, unzip.stdout


def has_unzip() -> bool:
    return any((Path(folder) / "unzip").exists() for folder in os.environ["PATH"].split(":"))


def test_modes_and_arguments(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with pytest.raises(FileNotFoundError):
        ZipStore(path)
    with pytest.raises(FileNotFoundError):
        hs.open(path)
    with ZipStore(path, mode="x") as store:
        store.set("a", b"1")
    with pytest.raises(FileExistsError):
        ZipStore(path, mode="x")
    with ZipStore(path) as store:
        assert store.get("a") == b"1"
        with pytest.raises(ReadOnlyError):
            store.set("b", b"")
        with pytest.raises(UnsupportedError, match="mode='a'"):
            store.with_read_only(False)
        again = pickle.loads(pickle.dumps(store))
        assert again == store and again.get("a") == b"1"
    with pytest.raises(hs.errors.ClosedError):
        store.get("a")
    with ZipStore(path, mode="a") as store:
        store.set("b", b"2")
        store.flush()
        assert zipfile.ZipFile(path).namelist() == ["a", "b"]
        assert store.delete("a")
        with pytest.raises(ReadOnlyError, match="one writer"):
            pickle.dumps(store)
    assert zipfile.ZipFile(path).namelist() == ["b"]
    with ZipStore(path, mode="w") as store:
        assert store.list() == []
    assert zipfile.ZipFile(path).namelist() == []
    with pytest.raises(ValueError, match="mode"):
        ZipStore(path, mode="r+")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="ZIP_STORED"):
        ZipStore(path, mode="w", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(TypeError):
        ZipStore(io.BytesIO())  # type: ignore[arg-type]


def test_places(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    group = hs.open_group(path, mode="a")
    assert isinstance(group.store, ZipStore)
    group.create_array("a", data=VALUES)
    hs.save(f"{path}/b", VALUES)
    np.testing.assert_array_equal(hs.open(f"{path}/a")[:], VALUES)
    del group
    np.testing.assert_array_equal(hs.open(f"zip://b::{path.as_uri()}")[:], VALUES)
    assert run(f"import hyperslab as hs; print(hs.open('{path}/a').shape)") == "(20, 30)"
    array = hs.open(f"{path}/a", mode="r")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[:], VALUES)
    # An archive in another store can be read, but not written.
    inner = hs.MemoryStore()
    inner.set("d/x.zip", path.read_bytes())
    np.testing.assert_array_equal(hs.open(f"zip://a::{inner.url}/d/x.zip")[:], VALUES)
    with pytest.raises((ReadOnlyError, PermissionError)):
        hs.create_array(f"zip://c::{inner.url}/d/x.zip", data=VALUES)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_processes_append_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for number in range(4):
        run(f"import hyperslab as hs; hs.create_array({str(path)!r} + '/a{number}', data=[{number}] * 5)")
    # The end of a program closes archives, even if they are still in use.
    run(
        "import hyperslab as hs\n"
        f"cycle = [hs.create_array({str(path)!r} + '/last', data=[9])]\n"
        "cycle.append(cycle)"
    )
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    for number in range(4):
        assert hs.open(f"{path}/a{number}")[:].tolist() == [number] * 5
    assert hs.open(f"{path}/last")[:].tolist() == [9]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with ZipStore(path, mode="w") as store:
        store.set("a", b"1")
        said = run(
            "from hyperslab.storage import ZipStore\n"
            f"try: ZipStore({str(path)!r}, mode='a').set('b', b'')\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        assert "StoreError" in said and "another process" in said
    assert zipfile.ZipFile(path).namelist() == ["a"]
    # A writer that has not seen another process's change does not change the archive.
    with ZipStore(path, mode="a") as store:
        run(
            "from hyperslab.storage import ZipStore\n"
            f"with ZipStore({str(path)!r}, mode='a') as s: s.set('c', b'3')"
        )
        assert store.get("a") == b"1"
        with pytest.raises(StoreError, match="changed since it was opened"):
            store.set("d", b"4")
    with ZipStore(path) as store:
        assert store.list() == ["a", "c"]


KILLED = """
import sys, hyperslab as hs, numpy as np
from hyperslab.storage import ZipStore
store = ZipStore(sys.argv[1], mode="a")
print("go", flush=True)
number = 0
while True:
    for _ in range(20):
        hs.create_array(store, name=f"new/{number}", data=np.full(20_000, number), compressors=None)
        number += 1
    store.flush()
"""


def test_a_killed_writer_leaves_an_archive(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    path = tmp_path / "x.zip"
    plain(path)
    for _ in range(kills(12)):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"go\n"
        time.sleep(chance.random() * 0.3)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
        check(str(path))
        group = hs.open_group(path, mode="r")
        complete = list(group["new"]) if "new" in group else []
        assert len(complete) % 20 == 0
        for name in complete[:3]:
            assert (group[f"new/{name}"][:] == int(name)).all()
        assert [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")] == ["x.zip"]
        plain(path)


def test_forked_children(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    plain(path)
    store = ZipStore(path, mode="a")
    hs.create_array(store, name="mine", data=VALUES)

    def in_child(work: Callable[[], None]) -> int:
        child = os.fork()
        if child == 0:
            try:
                work()
                code = 0
            except BaseException:
                code = 1
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def read() -> None:
        assert (hs.open_array(store, path="mine")[:] == VALUES).all()
        assert (hs.open_array(store, path="g/packed")[:] == VALUES).all()
        store.flush()
        store.close()

    def write() -> None:
        with pytest.raises(StoreError, match="another process"):
            store.set("of a child", b"")

    for work in (read, write, lambda: None):
        assert in_child(work) == 0
        assert "mine/zarr.json" not in zipfile.ZipFile(path).namelist(), "a child completes nothing"
    hs.create_array(store, name="later", data=VALUES)
    store.close()
    names = zipfile.ZipFile(path).namelist()
    assert "mine/zarr.json" in names and "later/zarr.json" in names and "of a child" not in names
    check(str(path))

    def write_after() -> None:
        with ZipStore(path, mode="a") as own:
            own.set("of a child", b"1")

    assert in_child(write_after) == 0
    assert "of a child" in zipfile.ZipFile(path).namelist()


def test_threads_read_and_write(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    deflated(path)
    store = ZipStore(path, mode="a")
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round in range(10):
                check(store)
                array = hs.create_array(store, name=f"t/{number}/{round}", data=VALUES + round, chunks=(3, 7))
                array[4:9, 3:] = number
                assert (array[4:9, 3:] == number).all() and (array[9:] == VALUES[9:] + round).all()
                if round % 3 == 0:
                    store.flush()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed and not any(thread.is_alive() for thread in threads)
    store.close()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    for number in range(4):
        for round in range(10):
            assert (hs.open(f"{path}/t/{number}/{round}")[4:9, 3:] == number).all()


def test_bad_archives(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    path = tmp_path / "x.zip"
    streamed(path)
    good = path.read_bytes()
    errors = 0
    for round in range(300):
        bad = bytearray(good)
        if round % 3 == 0:
            del bad[chance.randrange(len(bad)) :]
        else:
            # Mostly change the directory.
            low = 0 if round % 3 == 1 else len(bad) * 3 // 4
            for _ in range(chance.randrange(1, 4)):
                bad[chance.randrange(low, len(bad))] = chance.randrange(256)
        path = tmp_path / f"{round}.zip"
        path.write_bytes(bad)
        try:
            for _, node in hs.open_group(path, mode="r").members(max_depth=None):
                if isinstance(node, hs.Array):
                    node[:]
        except (hs.HyperslabError, ValueError, KeyError, OSError):
            errors += 1
        path.unlink()
    assert errors > 100


def test_errors_say_why(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("zarr.json", b"{}" * 100)
    with pytest.raises(UnsupportedError, match="method 12 \\(bzip2\\)"):
        hs.open(path)
    path.write_bytes(b"this is no zip archive")
    with pytest.raises(StoreError, match="is no zip archive"):
        hs.open(path)


def cli(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hyperslab", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    of_zarr(path)
    tree = cli("tree", path)
    assert "plain" in tree and "shards" in tree
    assert "i4" in cli("info", path / "g/packed") or "int32" in cli("info", path / "g/packed")
    cli("copy", path, tmp_path / "dir.zarr", "--verify")
    check(str(tmp_path / "dir.zarr"))
    cli("copy", tmp_path / "dir.zarr", tmp_path / "copy.zip", "--verify")
    check(str(tmp_path / "copy.zip"))
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        assert archive.testzip() is None
    cli("copy", tmp_path / "copy.zip" / "g", f"{path}/of/another")
    check(str(path))
    np.testing.assert_array_equal(hs.open(f"{path}/of/another/packed")[:], VALUES)
