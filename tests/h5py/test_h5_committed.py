"""Committed types that datasets and attributes refer to, beside h5py."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import numpy as np
import pytest
from hyperslab import h5
from servers import tool

LIBVERS = pytest.mark.parametrize("libver", ["earliest", "v110"])


def counts(path: Path) -> dict[str, Any]:
    """Returns what h5py finds: the links to types, and which types of others are committed."""
    found: dict[str, Any] = {}
    with h5py.File(path) as file:

        def visit(name: str, node: Any) -> None:
            if isinstance(node, h5py.Datatype):
                found[name] = h5py.h5o.get_info(node.id).rc
            if isinstance(node, h5py.Dataset):
                kind = node.id.get_type()
                found[name] = kind.committed(), h5py.h5o.get_info(kind).rc if kind.committed() else None
            for key in node.attrs:
                kind = node.attrs.get_id(key).get_type()
                rc = h5py.h5o.get_info(kind).rc if kind.committed() else None
                found[f"{name}@{key}"] = kind.committed(), rc, np.asarray(node.attrs[key]).tolist()

        visit("/", file)
        file.visititems(visit)
    return found


def write(m: Any, file: Any) -> None:
    file["t"] = np.dtype("i4")
    file["s"] = m.string_dtype()
    data = file.create_dataset("g/d", (3,), dtype=file["t"], chunks=(2,), maxshape=(None,))
    data[:] = [1, 2, 3]
    file.create_dataset("flat", data=[4, 5], dtype=file["t"])
    file.create_dataset("texts", data=["a", ""], dtype=file["s"])
    file.attrs.create("n", 7, dtype=file["t"])
    data.attrs.create("text", "é", dtype=file["s"])
    data.attrs.create("gone", [1, 2], dtype=file["t"])
    data.attrs.create("replaced", 1, dtype=file["t"])
    file["t"].attrs.create("own", 9, dtype=file["t"])


def change(m: Any, file: Any) -> None:
    data = file["g/d"]
    del data.attrs["gone"]
    data.attrs["replaced"] = 2.5
    file.attrs.modify("n", 8)
    data.attrs["more"] = "x"
    data.resize((5,))
    data[3:] = 6
    file["flat"][1] = 50
    file.move("flat", "g/flat")
    file["again"] = file["g/flat"]
    file.create_dataset("late", (2,), dtype=file["t"])
    del file["late"]


STEPS = {
    "write": [write],
    "change": [write, change],
    "copy in a file": [
        write,
        lambda m, file: file.copy("g", "h"),
        lambda m, file: file.copy("t", "u"),
    ],
    "delete names": [
        write,
        lambda m, file: file.__delitem__("t"),
        lambda m, file: file.__delitem__("g"),
        lambda m, file: file.__delitem__("texts"),
    ],
}


@LIBVERS
@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_as_h5py(tmp_path: Path, steps: Any, libver: str, is_reopened: bool) -> None:
    orders = {"ours": (h5, h5), "theirs": (h5py, h5py), "mixed": (h5py, h5), "turned": (h5, h5py)}
    found = {}
    for name, modules in orders.items():
        path = tmp_path / name
        file = modules[0].File(path, "w", libver=libver)
        for number, step in enumerate(steps):
            m = modules[min(number, 1)]
            if number and (is_reopened or m is not modules[0]):
                file.close()
                file = m.File(path, "r+", libver=libver)
            step(m, file)
        file.close()
        found[name] = counts(path)
        with h5.File(path) as ours, h5py.File(path) as theirs:
            assert committed(ours) == committed(theirs)
    for name in ("ours", "mixed", "turned"):
        assert found[name] == found["theirs"], name


def committed(file: Any) -> dict[str, bool]:
    found = {}

    def visit(name: str, node: Any) -> None:
        if hasattr(node, "chunks"):
            found[name] = bool(node.id.get_type().committed())
        for key in node.attrs:
            found[f"{name}@{key}"] = bool(node.attrs.get_id(key).get_type().committed())

    visit("/", file)
    file.visititems(visit)
    return found


@LIBVERS
def test_types_live_without_a_name(tmp_path: Path, libver: str) -> None:
    path = tmp_path / "a.h5"
    with h5.File(path, "w", libver=libver) as file:
        write(h5, file)
        del file["t"]
    with h5.File(path, "r+") as file:
        kind = file["flat"].id.get_type()
        assert kind.committed() and not kind.copy().committed()
        del file["flat"], file["g"]
        del file.attrs["n"]
    # The last one: its own attribute.
    with h5py.File(path) as file:
        assert list(file) == ["s", "texts"]
    assert hs.compact(path) is not None
    assert counts(path) == {"/": None, "s": 2, "texts": (True, 2)} or counts(path)["texts"] == (True, 2)


@LIBVERS
@pytest.mark.parametrize("m", [h5, h5py])
def test_compacting_and_copying_keep_the_types(tmp_path: Path, m: Any, libver: str) -> None:
    path = tmp_path / "a.h5"
    with m.File(path, "w", libver=libver) as file:
        write(m, file)
    before = counts(path)
    hs.compact(path)
    assert counts(path) == before
    found = []
    for n in (h5, h5py):
        into = tmp_path / n.__name__
        with n.File(path) as file, n.File(into, "w", libver=libver) as target:
            file.copy("g", target)
            file.copy(file["flat"], target, "flat")
            target.create_dataset("x", (2,), dtype=file["t"])
        found.append(counts(into))
    assert found[0] == found[1]
    assert found[0]["g/d"] == (True, 4) and found[0]["x"] == (False, None)


@LIBVERS
def test_h5dump(tmp_path: Path, libver: str) -> None:
    shown = []
    for name, m in (("ours", h5), ("theirs", h5py)):
        path = tmp_path / f"{name}.h5"
        with m.File(path, "w", libver=libver) as file:
            write(m, file)
        done = subprocess.run([tool("h5dump"), path], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout.partition("\n")[2])
    assert '"/t"' in shown[0]
    assert shown[0] == shown[1]


def test_failed_calls_leave_the_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5.File(path, "w") as file:
        file["t"] = np.dtype("i4")
        file["d"] = 1
        with pytest.raises(ValueError):
            file.create_dataset("d", (2,), dtype=file["t"])
        with pytest.raises(ValueError):
            file["d"].attrs.create("large", np.zeros(100_000), dtype=file["t"])
        file.create_dataset(None, (2,), dtype=file["t"])
        named = file.create_dataset(None, (2,), dtype=file["t"])
        named.attrs.create("a", 1, dtype=file["t"])
        file["named"] = named
    assert counts(path)["t"] == 3
