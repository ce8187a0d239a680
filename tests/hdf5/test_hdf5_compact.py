"""`compact`: a file becomes as small as a fresh copy, and h5py finds everything that it found before."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from h5_view import UNREADABLE, view
from h5_writing import Calls, cases
from hypothesis import given, settings

LIBVERS = ["earliest", ("v110", "v110"), ("v114", "v114")]

# A dataset of this many bytes leaves a hole when it is deleted.
HOLE = 200_000


def add_hole(file: Any) -> None:
    file.create_dataset("~hole", data=np.zeros(HOLE, "u1"))


def compacted(path: Path) -> hs.CompactReport:
    """Compact a file, and check that h5py finds the same."""
    before, size = view(path), path.stat().st_size
    expected = hs.compact(path, dry_run=True)
    assert expected.before == path.stat().st_size == size
    report = hs.compact(path)
    assert (report.before, report.after) == (size, path.stat().st_size)
    assert_same_view(view(path), before)
    with hs.File(path) as file:
        file.visititems(lambda name, node: None)
    return report


def assert_same_view(found: dict[bytes, Any], expected: dict[bytes, Any]) -> None:
    assert found.keys() == expected.keys()
    for path, facts in expected.items():
        if not isinstance(facts, dict):
            assert found[path] == facts, path
            continue
        for name, fact in facts.items():
            new = found[path][name]
            if name == "attributes":
                # A value that h5py could not read before may be readable now.
                assert len(new) == len(fact)
                pairs = zip(fact, new, strict=True)
                fact = [(*old[:-1], one[-1]) if old[-1] == UNREADABLE else old for old, one in pairs]
            assert new == fact, (path, name)


# ---- all kinds of objects


def fill_with_everything(file: h5py.File) -> None:
    """Make objects of all kinds that h5py can make."""
    rng = np.random.default_rng(0)
    text, numbers = h5py.string_dtype(), h5py.vlen_dtype("<i4")
    file.attrs["title"] = "žluťoučký"
    tracked = file.create_group("tracked", track_order=True)
    for name in ("b", "a", "é", "c"):
        tracked[name] = np.arange(3)
        tracked.attrs[name] = name
    many = file.create_group("many", track_order=True)
    for n in range(40):
        many.create_group(f"g{n * 7 % 40}")
        many.attrs[f"a{n * 7 % 40}"] = "text" * (n % 5)
    old = file.create_group("old")
    for n in range(40):
        old[f"d{n * 7 % 40}"] = n
        old.attrs[f"a{n * 7 % 40}"] = np.arange(n)
    del old["d3"], many["g4"], many.attrs["a5"]
    file["hard"] = file["tracked/a"]
    file["loop"] = file["/"]
    file["soft"] = h5py.SoftLink("/tracked/a")
    file["dangling"] = h5py.SoftLink("/nowhere")
    file["external"] = h5py.ExternalLink("other.h5", "/x")
    data = rng.integers(0, 99, (60, 70)).astype("<i4")
    file.create_dataset("contiguous", data=data)
    file.create_dataset("unwritten", (5, 5), "f8", fillvalue=7.5)
    file.create_dataset("scalar", data=3.5)
    file.create_dataset("null", data=h5py.Empty("f4"))
    file.create_dataset("empty", (0, 4), "i2", maxshape=(None, 4), chunks=(2, 4))
    file.create_dataset("gzip", data=data, chunks=(13, 17), compression="gzip", shuffle=True, fletcher32=True)
    file.create_dataset("one chunk", data=data, chunks=data.shape)
    file.create_dataset("one filtered chunk", data=data, chunks=data.shape, compression="lzf")
    file.create_dataset("one axis", data=data.ravel(), chunks=(50,), maxshape=(None,))
    file.create_dataset("one filtered axis", data=data.ravel(), chunks=(50,), maxshape=(None,), compression=1)
    file.create_dataset("two axes", data=data, chunks=(7, 7), maxshape=(None, None), compression="gzip")
    file.create_dataset("limited", data=data, chunks=(7, 7), maxshape=(90, 80))
    sparse = file.create_dataset("sparse", (10_000, 9), "f4", chunks=(3, 3), fillvalue=-1)
    sparse[5000, 5] = sparse[77, 1] = 3
    masked = file.create_dataset("masked", (4, 4), "u1", chunks=(2, 2), compression="gzip")
    masked.id.write_direct_chunk((0, 2), bytes([1, 2, 3, 4]), filter_mask=1)
    file.create_dataset("texts", data=["", "a", "bc" * 50, "é"] * 9, dtype=text)
    file.create_dataset(
        "zipped texts", data=["", "a", "bc" * 50] * 90, dtype=text, chunks=(20,), compression=4
    )
    file.create_dataset("text fill", (9,), text, chunks=(3,), fillvalue="fill")
    lists = file.create_dataset("lists", (5, 2), numbers)
    for n in range(9):
        lists[n // 2, n % 2] = np.arange(n)
    nested = file.create_dataset("nested", (3,), h5py.vlen_dtype(np.dtype([("t", text), ("n", "u2")])))
    nested[1] = np.array([("x", 1), ("yy", 2)], nested.dtype.metadata["vlen"])
    record = np.dtype([("n", "i4"), ("t", text), ("r", h5py.ref_dtype), ("l", numbers, (2,))])
    records = file.create_dataset("records", (3,), record, chunks=(2,), maxshape=(None,), shuffle=True)
    lists_of_two = np.empty(2, object)
    lists_of_two[:] = [np.arange(3, dtype="<i4"), np.arange(2, dtype="<i4")]
    value = np.empty((), record)
    value["n"], value["t"], value["r"], value["l"] = 5, "five", file["scalar"].ref, lists_of_two
    records[1] = value
    refs = file.create_dataset("references", (6,), h5py.ref_dtype)
    refs[0], refs[1], refs[3] = file["gzip"].ref, file["tracked"].ref, file["many/g3"].ref
    zipped = file.create_dataset("zipped references", (40,), h5py.ref_dtype, chunks=(7,), compression="gzip")
    zipped[:] = [file[f"many/g{n % 3}"].ref for n in range(40)]
    regions = file.create_dataset("regions", (4,), h5py.regionref_dtype)
    regions[0], regions[2] = file["gzip"].regionref[3:9, ::5], file["contiguous"].regionref[[1, 5], 7]
    file.attrs.create("reference", file["gzip"].ref, dtype=h5py.ref_dtype)
    file.attrs.create("region", file["gzip"].regionref[1:3], dtype=h5py.regionref_dtype)
    file.attrs["texts"] = np.array(["a", "bb"], object)
    file.attrs["large"] = (
        np.arange(9000)[:7000].astype("u1") if file.libver[0] == "earliest" else np.arange(20_000)
    )
    file["scale"] = np.arange(60.0)
    file["scale"].make_scale("x")
    file["contiguous"].dims[0].attach_scale(file["scale"])
    file["type"] = np.dtype([("a", "<i4"), ("b", "S3")])
    file["type"].attrs["about"] = "a type"
    file.create_dataset("typed", data=np.zeros(4, file["type"].dtype), dtype=file["type"])
    file["typed"].attrs.create("typed", np.zeros(2, file["type"].dtype), dtype=file["type"])
    # A committed type whose name is gone, but not its users.
    file["gone"] = np.dtype("<u4")
    file.create_dataset("of gone", data=np.arange(3, dtype="<u4"), dtype=file["gone"])
    del file["gone"]
    layout = h5py.VirtualLayout((60, 70), "<i4")
    layout[:30] = h5py.VirtualSource("source.h5", "x", (30, 70))
    layout[30:, ::2] = h5py.VirtualSource(file["contiguous"])[30:, ::2]
    file.create_virtual_dataset("virtual", layout, fillvalue=-5)
    file.create_dataset(
        "raw", (10,), "<i4", external=[("raw.bin", 0, 16), ("more.bin", 4, h5py.h5f.UNLIMITED)]
    )
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, h5py.h5s.create_simple((4,)), compact)
    file["compact"][:] = [1, 2, 3, 4]
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((5, 5))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    early.set_fill_time(h5py.h5d.FILL_TIME_ALLOC)
    h5py.h5d.create(file.id, b"early", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((12, 9)), early)
    file["early"][3:7, 2:8] = 9
    timed = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    timed.set_obj_track_times(True)
    h5py.h5d.create(file.id, b"timed", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((2,)), timed)


@pytest.mark.parametrize("user_block", [0, 1024])
@pytest.mark.parametrize("libver", LIBVERS)
def test_everything_is_kept(tmp_path: Path, libver: Any, user_block: int) -> None:
    np.arange(100, dtype="<i4").tofile(tmp_path / "raw.bin")
    np.arange(100, dtype="<i4").tofile(tmp_path / "more.bin")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["x"] = np.arange(30 * 70).reshape(30, 70)
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=user_block) as file:
        add_hole(file)
        fill_with_everything(file)
        del file["~hole"]
    if user_block:
        with path.open("r+b") as raw:
            raw.write(b"user block" * 100)
    version = path.read_bytes()[user_block + 8]
    report = compacted(path)
    assert report.after < report.before - HOLE // 2 and report.lost_references == 0
    assert path.read_bytes()[user_block + 8] == version
    # h5py changes the copy, and ours again.
    with h5py.File(path, "r+") as file:
        file["two axes"].resize((80, 80))
        file["two axes"][70:] = 5
        file["one axis"].resize((9000,))
        file["one axis"][5000:] = 6
        file["limited"].resize((80, 80))
        file["early"][:] = 4
        file["many"].create_group("new")
        file["old/new"] = 5
        file["texts"][3] = "changed"
        file["tracked"].attrs["new"] = 3
        del file["sparse"]
    again = compacted(path)
    assert again.after <= again.before
    with h5py.File(path) as file:
        assert np.all(file["two axes"][70:] == 5) and np.all(file["one axis"][5000:] == 6)
        assert list(file["many"])[-1] == "new" and file["texts"][3] == b"changed"


@given(cases)
@settings(max_examples=40)
def test_generated_hierarchies(tmp_path_factory: Any, calls: Calls) -> None:
    for module, libver in ((h5py, "earliest"), (h5py, "latest"), (hs.h5, "earliest"), (hs.h5, "latest")):
        path = tmp_path_factory.mktemp("compact") / "a.h5"
        with module.File(path, "w", libver=libver) as file:
            add_hole(file)
            calls.run(module, file)
            del file["~hole"]
        with module.File(path, "r+", libver=libver) as file:
            file.attrs["again"] = 1
        compacted(path)


def test_files_of_others(tmp_path: Path, corpora: Path) -> None:
    refused, done = [], 0
    for source in sorted((corpora / "hdf5").rglob("*")):
        if not source.is_file() or not h5py.is_hdf5(source):
            continue
        path = tmp_path / source.name
        shutil.copyfile(source, path)
        try:
            before = view(path)
        except (OSError, KeyError):
            continue
        # Without unused space there is nothing to do.
        with path.open("ab") as raw:
            raw.write(bytes(HOLE))
        content = path.read_bytes()
        try:
            report = hs.compact(path)
        except hs.errors.UnsupportedError as error:
            refused.append(str(error))
            assert path.read_bytes() == content
            continue
        assert path.stat().st_size == report.after < report.before
        assert_same_view(view(path), before)
        done += 1
    assert done > 120, refused
    known = ("addresses of", "pages", "shared messages", "B-tree nodes", "other nodes", "filter")
    assert all(any(word in why for word in known) for why in refused), refused


# ---- sizes


@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_as_small_as_a_fresh_copy(tmp_path: Path, libver: Any) -> None:
    path, fresh = tmp_path / "a.h5", tmp_path / "fresh.h5"
    rng = np.random.default_rng(1)
    versions = None if libver == "earliest" else (libver, libver)
    with hs.File(path, "w", libver=libver) as file:
        for n in range(30):
            file.create_dataset(f"d{n}", data=rng.random((100, 100)), chunks=(10, 10), compression="gzip")
        file.create_dataset("texts", data=["text" * (n % 9) for n in range(3000)], dtype=hs.h5.string_dtype())
    for n in range(20):
        with hs.File(path, "r+", libver=libver) as file:
            file[f"d{n}"][:] = rng.random((100, 100))
            file[f"d{n}"].attrs["n"] = n
            if n % 2:
                del file[f"d{n}"]
    with h5py.File(path) as file, h5py.File(fresh, "w", libver=versions) as copy:
        for name in file:
            file.copy(name, copy)
    report = compacted(path)
    assert report.after < 0.9 * report.before
    assert report.after <= 1.02 * fresh.stat().st_size
    again = hs.compact(path)
    assert again.before == again.after == report.after


def test_a_small_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with hs.File(path, "w") as file:
        add_hole(file)
        file["a"] = 1
        del file["~hole"]
    hs.compact(path)
    stamp = path.stat()
    assert hs.compact(path).after == stamp.st_size
    assert path.stat().st_ino == stamp.st_ino and path.stat().st_mtime_ns == stamp.st_mtime_ns


def test_netcdf(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 50)
        kind = file.createVLType(np.int32, "list")
        for n in range(20):
            variable = file.createVariable(f"v{n}", "f4", ("t", "x"), zlib=True)
            variable[:] = np.random.default_rng(n).random((30, 50))
            variable.units = "m"
        file.createVariable("lists", kind, ("x",))[3] = np.arange(5, dtype="i4")
        file.createVariable("names", str, ("x",))[2] = "name"
        file.createGroup("g").createVariable("y", "i2", ("x",))[:] = 5
    with h5py.File(path, "r+") as file:
        for n in range(10):
            del file[f"v{n}"]
    report = compacted(path)
    assert report.after < report.before
    with netCDF4.Dataset(path, "a") as file:
        assert file["names"][2] == "name" and file["lists"][3].tolist() == [0, 1, 2, 3, 4]
        assert file["g/y"][0] == 5 and file["v15"].units == "m"
        file["v15"][30:40] = 1
        file["names"][3] = "new"
    with netCDF4.Dataset(path) as file:
        assert file["v15"].shape == (40, 50) and file["names"][3] == "new"


# ---- references to deleted objects


def test_references_to_deleted_objects_become_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        add_hole(file)
        file["a"], file["b"] = np.arange(9), np.arange(9)
        refs = file.create_dataset("refs", (3,), h5py.ref_dtype)
        refs[0], refs[1] = file["a"].ref, file["b"].ref
        file.attrs.create("region", file["b"].regionref[2:4], dtype=h5py.regionref_dtype)
        del file["b"], file["~hole"]
    assert hs.compact(path, dry_run=True).lost_references == 2
    assert hs.compact(path).lost_references == 2
    with h5py.File(path) as file:
        assert file[file["refs"][0]].name == "/a"
        assert not file["refs"][1] and not file["refs"][2] and not file.attrs["region"]


# ---- the exchange


def holed(path: Path) -> dict[bytes, Any]:
    with h5py.File(path, "w") as file:
        add_hole(file)
        file["a"] = np.arange(1000)
        file["a"].attrs["units"] = "m"
        del file["~hole"]
    return view(path)


def test_readers_keep_the_old_file_and_writers_refuse(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    holed(path)
    content = path.read_bytes()
    for module in (h5py, hs):
        with module.File(path, "r+"), pytest.raises(BlockingIOError, match="lock"):
            hs.compact(path)
    assert path.read_bytes() == content
    with h5py.File(path) as theirs, hs.File(path) as ours, hs.File(path) as later:
        report = hs.compact(path)
        assert report.after < report.before
        assert theirs["a"][999] == ours["a"][999] == 999
        assert later["a"].attrs["units"] == "m"
    with hs.File(path, "r+") as file:
        file["a"][:] = 5
    with h5py.File(path) as file:
        assert file["a"][0] == 5


def test_names_permissions_and_links(tmp_path: Path) -> None:
    path, link, other = tmp_path / "a.h5", tmp_path / "link.h5", tmp_path / "other.h5"
    holed(path)
    path.chmod(0o640)
    link.symlink_to("a.h5")
    os.link(path, other)
    with pytest.raises(ValueError, match="2 names"):
        hs.compact(path)
    other.unlink()
    report = hs.compact(link)
    assert report.after < report.before and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "link.h5"]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hs.compact(tmp_path / "nothing.h5")
    (tmp_path / "text.h5").write_text("text" * 100)
    with pytest.raises(ValueError, match="neither HDF5 nor NetCDF"):
        hs.compact(tmp_path / "text.h5")
    with netCDF4.Dataset(tmp_path / "old.nc", "w", format="NETCDF3_CLASSIC"):
        pass
    with pytest.raises(ValueError, match="no unused space"):
        hs.compact(tmp_path / "old.nc")
    path = tmp_path / "nodes.h5"
    made = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    made.set_sizes(4, 4)
    h5py.File(h5py.h5f.create(bytes(path), fcpl=made)).close()
    content = path.read_bytes()
    for dry in (True, False):
        with pytest.raises(hs.errors.UnsupportedError, match="addresses of 4 bytes"):
            hs.compact(path, dry_run=dry)
    assert path.read_bytes() == content


def test_a_damaged_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    holed(path)
    content = bytearray(path.read_bytes())
    at = content.index(b"units")
    content[at - 6] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(hs.HyperslabError):
        hs.compact(path)
    assert path.read_bytes() == content and os.listdir(tmp_path) == ["a.h5"]


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    holed(path)
    content = path.read_bytes()
    program = (
        "import resource, signal, sys, hyperslab as hs\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try:\n    hs.compact(sys.argv[1])\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "27", done
    assert path.read_bytes() == content and os.listdir(tmp_path) == ["a.h5"]


def test_progress_and_interrupts(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    before = holed(path)
    told: list[tuple[str, int, int]] = []
    report = hs.compact(path, progress=lambda *step: told.append(step))
    assert told[0] == ("copy", 0, report.after) and told[-1][1] >= 8000
    holed(path)

    def stop(*step: Any) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        hs.compact(path, progress=stop)
    assert_same_view(view(path), before)
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.kill
def test_kills(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        add_hole(file)
        for n in range(300):
            file.create_dataset(f"d{n}", data=np.full((40, 40), n), chunks=(7, 7))
        del file["~hole"]
    before, content = view(path), path.read_bytes()
    rng = np.random.default_rng(seed)
    program = (
        "import sys, hyperslab as hs\nprint(flush=True)\nhs.compact(sys.argv[1])\nprint('done', flush=True)"
    )
    finished = 0
    for _ in range(12):
        path.write_bytes(content)
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.random() * 0.15)
        child.kill()
        finished += "done" in child.stdout.read()
        child.wait()
        assert_same_view(view(path), before)
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["a.h5"]
        hs.compact(path)
        assert path.stat().st_size < len(content)


# ---- the command


def test_the_command(tmp_path: Path, capfd: Any) -> None:
    from hyperslab import _native

    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    holed(one)
    holed(two)
    size = one.stat().st_size
    assert _native.run_cli(["hyperslab", "compact", "--dry-run", str(one), str(two)]) == 0
    out = capfd.readouterr().out
    assert out.count("to give back") == 2 and one.stat().st_size == size
    assert _native.run_cli(["hyperslab", "compact", str(one), str(two)]) == 0
    out = capfd.readouterr().out
    assert out.count("given back") == 2 and f"{one}  20" in out and " KiB → 1" in out
    assert one.stat().st_size < 20_000 and two.stat().st_size < 20_000
    with h5py.File(one, "r+"):
        assert _native.run_cli(["hyperslab", "compact", str(one)]) == 1
    assert "lock" in capfd.readouterr().err
