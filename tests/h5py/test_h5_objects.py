"""Times of objects, deleted objects, and copies of what references lead to, beside h5py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import h5

LIBVERS = pytest.mark.parametrize("libver", ["earliest", "v110"])
MODULES = pytest.mark.parametrize("m", [h5, h5py], ids=["hyperslab", "h5py"])


# ---- text without letters


@LIBVERS
@pytest.mark.parametrize("count", [1, 5000])
def test_text_without_letters_has_no_bytes(tmp_path: Path, libver: str, count: int) -> None:
    """The element has a place in a heap, where no bytes are: as h5py writes it."""
    for m in (h5, h5py):
        path = tmp_path / m.__name__
        with m.File(path, "w", libver=libver) as file:
            file.attrs["text"] = ""
            kind = m.string_dtype()
            file.create_dataset("texts", data=["", "ab", ""] * count, dtype=kind)
            pair = np.array([("", 1)], [("name", kind), ("n", "i4")])
            file.create_dataset("pairs", data=pair)
        check_empty(path, count)
        hs.compact(path)
        check_empty(path, count)


def check_empty(path: Path, count: int) -> None:
    with h5py.File(path) as file:
        first, pairs = file["texts"].id.get_offset(), file["pairs"].id.get_offset()
    image = path.read_bytes()
    for place in (first, first + 48 * (count - 1), pairs):
        length, address, index = np.frombuffer(image[place : place + 16], "<u4,<u8,<u4")[0]
        assert length == 0 and image[address : address + 4] == b"GCOL" and index > 0
    for m in (h5, h5py):
        with m.File(path) as file:
            assert file.attrs["text"] == "" and file["texts"][:3].tolist() == [b"", b"ab", b""]
            assert file["pairs"][0].tolist() == (b"", 1)


# ---- times


@LIBVERS
def test_times(tmp_path: Path, libver: str) -> None:
    before = int(time.time())
    found = {}
    for m in (h5, h5py):
        path = tmp_path / m.__name__
        with m.File(path, "w", libver=libver) as file:
            file.create_dataset("timed", data=[1], track_times=True)
            file.create_dataset("ordered", data=[1], track_times=True, track_order=True)
            file.create_dataset("plain", data=[1])
            file.create_group("group", track_times=True)
            file.create_dataset_like("like", file["timed"])
            file.copy("timed", "copy")
        for n in (h5, h5py):
            with n.File(path) as file:
                infos = {name: n.h5o.get_info(file[name].id) for name in file}
                times = {
                    name: [bool(getattr(info, key)) for key in ("atime", "mtime", "ctime", "btime")]
                    for name, info in infos.items()
                }
                for name, info in infos.items():
                    assert info.rc == 1
                    if any(times[name]):
                        assert before <= info.ctime <= time.time()
                        assert info.ctime == n.h5g.get_objinfo(file[name].id).mtime
                found[m, n] = times
    assert len({str(times) for times in found.values()}) == 1
    assert found[h5, h5]["timed"][2] and not any(found[h5, h5]["plain"])


@LIBVERS
@MODULES
def test_changes_are_dated(tmp_path: Path, libver: str, m: Any) -> None:
    path = tmp_path / "a.h5"
    with m.File(path, "w", libver=libver) as file:
        for name in ("data", "attrs", "still"):
            file.create_dataset(name, data=[1, 2], track_times=True)

    def infos() -> dict[str, Any]:
        with h5py.File(path) as file:
            return {name: h5py.h5o.get_info(file[name].id) for name in file}

    before = infos()
    while int(time.time()) == before["still"].ctime:
        time.sleep(0.02)
    with h5.File(path, "r+") as file:
        file["data"][0] = 5
        file["attrs"].attrs["a"] = 1
    after = infos()
    assert after["still"].ctime == before["still"].ctime
    assert after["data"].btime == before["data"].btime
    assert after["attrs"].ctime > before["attrs"].ctime


# ---- references


@LIBVERS
def test_references_to_deleted_objects(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5.File(path, "w", libver=libver) as file:
        group = file.create_group("g")
        file["d"] = [1, 2]
        file["refs"] = np.array([group.ref, file["d"].ref], h5.ref_dtype)
        file["regions"] = np.array([file["d"].regionref[1:]], h5.regionref_dtype)
        nameless = file.create_dataset(None, data=[5])
        assert file[nameless.ref][:].tolist() == [5]
        del file["g"], file["d"]
        check_deleted(file)
        file["back"] = group
        assert file[file["refs"][0]].name == "/back"
        del file["back"]
        file.flush()
        check_deleted(file)
    for mode in ("r", "r+"):
        with h5.File(path, mode) as file:
            check_deleted(file)


def check_deleted(file: Any) -> None:
    for reference in (*file["refs"][:], *file["regions"][:]):
        with pytest.raises((KeyError, ValueError), match="deleted"):
            file[reference]


@LIBVERS
def test_objects_that_references_lead_to_are_copied(tmp_path: Path, libver: str) -> None:
    """The copies have HDF5's names in the root group of the target."""
    found = []
    for m in (h5, h5py):
        with m.File(tmp_path / "from.h5", "w", libver=libver) as file:
            file["out"], file["other"] = [1, 2], [5]
            file.create_group("deep")["x"] = [9]
            file["deep"].attrs["ref"] = file["other"].ref
            group = file.create_group("g")
            group["aa"] = [3]
            references = [file["out"].ref, group["aa"].ref, file["deep"].ref, group.ref]
            group["refs"] = np.array(references, m.ref_dtype)
            group.attrs["ref"] = file["other"].ref
            file["regions"] = np.array([file["out"].regionref[1:]], m.regionref_dtype)
            with m.File(tmp_path / "to.h5", "w", libver=libver) as target:
                file.copy("g", target, "c", expand_refs=True)
            file.copy("g", "same")
        with h5py.File(tmp_path / "to.h5") as target:
            names = [target[one].name for one in target["c/refs"][:]]
            kept = names[1], names[3]
            beyond = [target[one] for one in target["c/refs"][:]]
            assert [name.startswith("/~obj_pointed_by_") for name in names] == [True, False, True, False]
            for node in beyond[::2]:
                assert node.name == f"/~obj_pointed_by_{h5py.h5o.get_info(node.id).addr}"
            below = target[target["c"].attrs["ref"]], target[beyond[2].attrs["ref"]]
            content = [beyond[0][:].tolist(), beyond[2]["x"][:].tolist(), *(one[:].tolist() for one in below)]
        with h5py.File(tmp_path / "from.h5") as file:
            inside = [file[one].name for one in file["same/refs"][:]]
        found.append((kept, content, inside))
    assert found[0] == found[1]
