"""Validation finds each kind of damage, names it, and blames nothing else."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from bad_input import CODECS, DATA, SHARD_INDEX, damaged, sharded, written
from hdf5_bad import everything
from hyperslab import _native
from hypothesis import given, settings
from hypothesis import strategies as st
from object_server_client import Server
from support import examples, scratch

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "short": lambda data: data[:-1],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0" * 16,
    "garbage": lambda data: np.random.default_rng(1).bytes(len(data)),
    "huge": lambda data: data * 1000,
}


def reads(root: Path, path: str) -> bool:
    """Returns whether all of an array can be read."""
    try:
        hs.open_array(root, path=path, mode="r")[...]
    except (hs.HyperslabError, ValueError, OSError):
        return False
    return True


def errors(report: hs.ValidationReport) -> list[tuple[str, tuple[int, ...] | None]]:
    """Returns the places of all errors."""
    assert not report.unreached
    return [(finding.path, finding.chunk) for finding in report.errors]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("codec", CODECS)
def test_damaged_chunks(tmp_path: Path, codec: str, damage: str) -> None:
    chunk = written(tmp_path, codec)
    assert hs.validate(tmp_path, decode=True).findings == []
    chunk.write_bytes(DAMAGES[damage](chunk.read_bytes()))
    report = hs.validate(tmp_path, decode=True, threads=2)
    if reads(tmp_path, "ocean/t"):
        assert errors(report) == []
        return
    assert errors(report) == [("/ocean/t", (1, 0))]
    [found] = report.findings
    assert found.kind in ("damaged-chunk", "wrong-size", "empty-object")
    assert found.key == chunk.relative_to(tmp_path).as_posix()
    assert found.advice and found.location == str(tmp_path)


@settings(max_examples=examples(60))
@given(data=st.data(), codec=st.sampled_from(sorted(CODECS)))
def test_generated_damage(data: st.DataObject, codec: str) -> None:
    """Validation fails where a read of everything does."""
    with scratch() as root:
        chunk = written(root, codec)
        chunk.write_bytes(damaged(data, chunk.read_bytes()))
        expected = [] if reads(root, "ocean/t") else [("/ocean/t", (1, 0))]
        assert errors(hs.validate(root, decode=True)) == expected


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    at_start=st.booleans(),
    kind=st.sampled_from(["index", "chunk", "cut", "entry"]),
)
def test_damaged_shards(seed: int, at_start: bool, kind: str) -> None:
    with scratch() as root:
        rng = np.random.default_rng(seed)
        shard, good, first = sharded(root, rng.normal(size=(20, 10)).astype("f4"), at_start)
        index = SHARD_INDEX
        assert errors(hs.validate(root, decode=True)) == []
        if kind == "index":
            good[first + int(rng.integers(index))] ^= 1 << int(rng.integers(8))
        elif kind == "chunk":
            at = int(rng.integers(len(good) - index)) + (index if at_start else 0)
            good[at] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del good[int(rng.integers(len(good))) :]
        else:
            entries = np.frombuffer(good, "<u8", 8, first).copy()
            entries[2] = len(good)
            good[first : first + 64] = entries.tobytes()
            import google_crc32c

            crc = google_crc32c.value(bytes(good[first : first + 64]))
            good[first + 64 : first + 68] = crc.to_bytes(4, "little")
        shard.write_bytes(good)
        report = hs.validate(root, decode=True)
        assert not report
        assert {finding.path for finding in report.errors} == {"/t"}
        if kind in ("index", "entry"):
            # Without decoding, too.
            assert [found.kind for found in hs.validate(root).errors] == ["shard-index"]
        if kind in ("chunk", "entry"):
            [found] = report.errors
            assert found.chunk is not None
            assert found.key == "t/c/1/0"
            with pytest.raises((hs.HyperslabError, ValueError, OSError)):
                hs.open_array(root, path="t")[tuple(slice(5 * at, 5 * at + 5) for at in found.chunk)]
        # The other shard is whole.
        assert all(found.chunk is None or found.chunk[0] >= 2 for found in report.errors)


def test_whole_stores_of_zarr_python(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        root = zarr.create_group(tmp_path / f"{zarr_format}.zarr", zarr_format=zarr_format)
        for name, dtype in [("f", "f8"), ("i", "i2"), ("b", "bool"), ("c", "c8"), ("s", "U5"), ("v", str)]:
            z = root.create_array(f"g/{name}", shape=(5, 4), chunks=(2, 3), dtype=dtype)
            if name == "f":
                z[...] = np.linspace(0, 1, 20).reshape(5, 4)
            elif name in "sv":
                z[...] = np.array([["a", "bb", "ccc", "d"]] * 5)
            else:
                z[:3] = 1
        root.create_array("scalar", shape=(), dtype="i4")[...] = 7
        root.create_array("none", shape=(0, 3), chunks=(1, 1), dtype="i4")
        zarr.consolidate_metadata(root.store)
        report = hs.validate(tmp_path / f"{zarr_format}.zarr", decode=True, missing=True)
        assert report.findings == []
        assert sum(one.absent for one in next(iter(report.missing.values()))) > 0


def test_whole_stores_of_tensorstore(tmp_path: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    for driver, codecs in [("zarr", None), ("zarr3", None)]:
        z = tensorstore.open(
            {"driver": driver, "kvstore": {"driver": "file", "path": str(tmp_path / driver)}},
            create=True,
            dtype=tensorstore.float32,
            shape=[10, 7],
            chunk_layout=tensorstore.ChunkLayout(chunk_shape=[4, 4]),
            codec=codecs,
        ).result()
        z[...] = np.arange(70, dtype="f4").reshape(10, 7)
        report = hs.validate(tmp_path / driver, decode=True, expect_complete=True)
        assert report.findings == []


def test_whole_files(tmp_path: Path) -> None:
    for libver in ("earliest", "latest"):
        with h5py.File(tmp_path / f"{libver}.h5", "w", libver=libver) as file:
            file.create_dataset("g/c", data=np.arange(100).reshape(10, 10), chunks=(3, 4), compression="gzip")
            file.create_dataset(
                "r", shape=(5, 7), maxshape=(None, 7), chunks=(2, 7), fletcher32=True, dtype="f4"
            )
            file["text"] = ["a", "bb"]
            file["g"].attrs["ref"] = file["g/c"].ref
            file["soft"] = h5py.SoftLink("/g/c")
            file["empty"] = h5py.Empty("f4")
            for number in range(40):
                file[f"many/{number}"] = number
        report = hs.validate(tmp_path / f"{libver}.h5", decode=True)
        assert [found for found in report if found.severity != "note"] == []
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("time", None)
        nc.createDimension("x", 5)
        time = nc.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(10)
        nc.createVariable("t", "i2", ("time", "x"), fill_value=-9, zlib=True)[:] = np.ones((10, 5))
        nc.createGroup("below").createVariable("u", "f4", ("x",))[:] = 1
    with netCDF4.Dataset(tmp_path / "classic.nc", "w", format="NETCDF3_CLASSIC") as nc:
        nc.createDimension("time", None)
        nc.createVariable("t", "i4", ("time",))[:] = np.arange(7)
    for name in ("a.nc", "classic.nc"):
        assert hs.validate(tmp_path / name, decode=True, expect_complete=True).findings == []
    assert len(hs.validate(tmp_path / "a.nc", tmp_path / "classic.nc").findings) == 0


def test_whole_datasets_of_xarray(tmp_path: Path) -> None:
    times = xr.date_range("2000-01-31", periods=30, freq="ME", use_cftime=False)
    ds = xr.Dataset(
        {"t": (("time", "y"), np.random.default_rng(1).normal(size=(30, 4))), "n": ("y", list("abcd"))},
        coords={"time": times, "y": [1.0, 2.0, 4.0, 8.0]},
    )
    ds.t.attrs["units"] = "K"
    for zarr_format in (2, 3):
        ds.to_zarr(tmp_path / f"{zarr_format}.zarr", zarr_format=zarr_format)
        report = hs.validate(tmp_path / f"{zarr_format}.zarr", decode=True, expect_complete=True)
        assert report.findings == []
    ds.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    assert hs.validate(tmp_path / "a.nc", decode=True).findings == []


def test_files_of_others(corpora: Path) -> None:
    """Files that h5py reads have no errors."""
    wrong: list[str] = []
    for path in sorted((corpora / "hdf5").rglob("*")):
        if not path.is_file() or not h5py.is_hdf5(path):
            continue
        _, failed = everything(path)
        report = hs.validate(path, decode=True)
        if not failed and not report:
            wrong += [f"{path.name}: {found}" for found in report.errors]
            wrong += [f"{path.name}: {why}" for why in report.unreached.values()]
    assert wrong == []


def file_to_damage(path: Path, libver: str) -> bytes:
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("g/c", data=np.arange(40, dtype="i4"), chunks=(10,), fletcher32=True)
        file["d"] = np.arange(3.0)
        file["d"].attrs["units"] = "K"
        file["s"] = h5py.SoftLink("/d")
    return path.read_bytes()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damaged_files(tmp_path: Path, libver: str) -> None:
    """Bytes that cannot be read are found."""
    path = tmp_path / "a.h5"
    good = file_to_damage(path, libver)
    rng = np.random.default_rng(7)
    for at in sorted(rng.choice(len(good), size=examples(150), replace=False)):
        bad = bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        _, failed = everything(path)
        report = hs.validate(path, decode=True)
        # A name may lead nowhere: that is a warning.
        found = report.findings or report.unreached
        assert found or not failed, (at, failed)
    for length in sorted(rng.choice(len(good), size=examples(20), replace=False)):
        path.write_bytes(good[:length])
        report = hs.validate(path)
        assert not report
        if length >= 96:
            assert [found.kind for found in report.errors] == ["truncated"], length


def test_files_that_were_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    good = bytearray(file_to_damage(path, "latest"))
    with h5py.File(path, "a", libver="latest") as file:
        file.flush()
        shutil.copy(path, tmp_path / "open.h5")
    report = hs.validate(tmp_path / "open.h5")
    assert [found.kind for found in report] == ["not-closed"]
    assert good


def test_links_and_references_that_lead_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["d"] = 1
        file["soft"] = h5py.SoftLink("/none")
        file["other"] = h5py.ExternalLink("none.h5", "/x")
        file["up/here"] = 2
        file["up"]["again"] = file["up"]
    found = {(finding.kind, finding.path) for finding in hs.validate(path)}
    assert ("dangling-link", "/soft") in found
    assert ("circle", "/up/again") in found
    assert {path for _, path in found} == {"/soft", "/other", "/up/again"}


def test_overlapping_chunks(tmp_path: Path) -> None:
    """Two chunks at one address: the second was lost."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        d = file.create_dataset("d", data=np.arange(8, dtype="i8"), chunks=(4,))
        offsets = [d.id.get_chunk_info(number).byte_offset for number in range(2)]
    data = path.read_bytes()
    changed = data.replace(offsets[1].to_bytes(8, "little"), offsets[0].to_bytes(8, "little"))
    assert changed != data
    path.write_bytes(changed)
    report = hs.validate(path)
    assert [(found.kind, found.path) for found in report.errors] == [("overlap", "/d")]
    assert report.errors[0].offset == offsets[0]


def test_references(tmp_path: Path) -> None:
    """A document of references is validated like the store that it describes."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        values = np.random.default_rng(1).integers(0, 1 << 30, 8000)
        d = file.create_dataset("d", data=values, chunks=(2000,), compression="gzip")
        info = d.id.get_chunk_info(2)
    assert _native.run_cli(["hyperslab", "index", str(path), "--output", str(tmp_path / "a.json")]) == 0
    assert errors(hs.validate(tmp_path / "a.json", decode=True)) == []
    data = bytearray(path.read_bytes())
    data[info.byte_offset : info.byte_offset + info.size] = bytes(info.size)
    path.write_bytes(data)
    [found] = hs.validate(tmp_path / "a.json", decode=True).errors
    assert (found.kind, found.path, found.chunk) == ("damaged-chunk", "/d", (2,))


def test_archives(tmp_path: Path) -> None:
    written(tmp_path / "a.zarr", "zstd")
    hs.copy(hs.open_group(tmp_path / "a.zarr"), tmp_path / "a.zip")
    assert hs.validate(tmp_path / "a.zip", decode=True).findings == []
    data = bytearray((tmp_path / "a.zip").read_bytes())
    at = data.index(b"ocean/t/c/1/0") + len(b"ocean/t/c/1/0") + 4
    data[at : at + 8] = b"\xee" * 8
    (tmp_path / "a.zip").write_bytes(data)
    report = hs.validate(tmp_path / "a.zip", decode=True)
    assert errors(report) == [("/ocean/t", (1, 0))]


def test_memory_and_nodes(tmp_path: Path) -> None:
    """Open nodes can be validated, in any store."""
    store = hs.MemoryStore()
    z = hs.create_array(store, name="a", shape=(10,), chunks=(5,), dtype="i4", compressors=None)
    z[:] = DATA[0, :10].astype("i4")
    assert errors(hs.validate(z, decode=True)) == []
    report = hs.validate(z, hs.open_group(store, mode="r"), expect_complete=True)
    assert report
    z.resize((12,))
    assert [found.kind for found in hs.validate(z, expect_complete=True)] == ["absent-chunks"]
    with pytest.raises(TypeError, match="found int"):
        hs.validate(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="at least one"):
        hs.validate()


def test_reports(tmp_path: Path) -> None:
    chunk = written(tmp_path, "zstd")
    chunk.write_bytes(b"x")
    seen: list[tuple[str, int, int]] = []
    report = hs.validate(
        tmp_path, tmp_path / "none.zarr", decode=True, progress=lambda *told: seen.append(told)
    )
    assert not report
    assert list(report.unreached) == [str(tmp_path / "none.zarr")]
    facts: dict[str, Any] = json.loads(report.to_json())
    assert facts["findings"][0]["chunk"] == [1, 0]
    assert facts["looked"][0]["arrays"] == 2
    assert seen
    assert seen[-1] == ("verify", 800, 800)
    text = str(report.findings[0])
    assert text.startswith("error: damaged-chunk: /ocean/t, chunk [1, 0], key 'ocean/t/c/1/0'"), text
    [cost] = hs.validation_cost(tmp_path, decode=True)
    assert (cost.objects, cost.nodes) == (4, 4)

    def stop(*_: object) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        hs.validate(tmp_path, decode=True, progress=stop)
    assert sys.getrefcount(stop) < 10


def test_a_store_on_a_server() -> None:
    """Damage, losses and foreign keys of a store on S3 are found, and nothing else."""
    with Server() as server:
        store = hs.storage.RemoteStore("s3://bucket/a.zarr", storage_options=server.s3_options)
        group = hs.create_group(store)
        options: dict[str, Any] = {"chunks": (10, 10)}
        group.create_array("a", data=np.arange(1000.0).reshape(20, 50), **options)
        group.create_array("below/b", data=np.arange(100.0).reshape(10, 10), shards=(10, 10), **options)
        assert hs.validate(group).findings == hs.validate(group, decode=True, missing=True).findings == []
        group.store.delete("a/c/0/1")
        group.store.set("a/c/1/2", group.store.get("a/c/1/2")[:-3])
        group.store.set("a/c/7/7", b"abc")
        report = hs.validate(group, decode=True, expect_complete=True)
        found = {(finding.kind, finding.path, finding.key) for finding in report.findings}
        assert found == {
            ("absent-chunks", "/a", None),
            ("damaged-chunk", "/a", "a/c/1/2"),
            ("outside-grid", "/a", "a/c/7/7"),
        }
