"""Files close at once with `close` and `with`, otherwise with the last reference.

The garbage collector is not needed.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest

listed = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are not listed here")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("close")
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.arange(3)
    path = folder / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.arange(100.0).reshape(10, 10), chunks=(5, 5), compression="gzip")
        file["a"].attrs["unit"], file.attrs["title"] = "m", "a file"
        file["text"], file["group/b"] = ["x", "y"], 5
        file["type"] = np.dtype([("x", "i4"), ("y", "f8")])
        file["type"].attrs["note"] = "committed"
        file.create_dataset("reference", data=file["a"].ref, dtype=h5py.ref_dtype)
        file["scale"] = np.arange(10)
        file["scale"].make_scale("x")
        file["a"].dims[0].attach_scale(file["scale"])
        file["external"], file["gone"] = h5py.ExternalLink("other.h5", "/x"), h5py.SoftLink("/nowhere")
        layout = h5py.VirtualLayout((3,), "i8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
        file.create_virtual_dataset("virtual", layout)
    return path


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors(path: Path) -> int:
    """Returns how many descriptors of this process belong to the directory of `path`."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(path.parent))
        except OSError:
            pass
    return found


USES: dict[str, Callable[[Path], Any]] = {
    "open": hs.open,
    "open an array": lambda path: hs.open(path / "a")[...],
    "attributes": lambda path: dict(hs.open(path).attrs),
    "attributes of an array": lambda path: hs.open(path)["a"].attrs["unit"],
    "attributes, twice": lambda path: [list(node.attrs) for node in [hs.open(path)] * 2],
    "attributes of a type": lambda path: dict(hs.open(path)["type"].attrs),
    "a dictionary": lambda path: hs.open(path)["a"].attrs.asdict(),
    "a missing attribute": lambda path: hs.open(path).attrs.get("no"),
    "file and parent": lambda path: hs.open(path)["group/b"].parent.file.name,
    "items": lambda path: list(hs.open(path).items()),
    "members": lambda path: hs.open(path).members(None),
    "visititems": lambda path: hs.open(path).visititems(lambda name, node: None),
    "dimensions": lambda path: [list(axis) for axis in hs.open(path)["a"].dims],
    "phony dimensions": lambda path: hs.open(path).phony_dimensions(),
    "info": lambda path: (str(hs.open(path).info), str(hs.open(path)["a"].info_complete())),
    "metadata": lambda path: (hs.open(path).metadata, hs.open(path)["a"].metadata),
    "tree": lambda path: str(hs.open(path).tree()),
    "text": lambda path: hs.open(path)["text"].asstr()[...],
    "ragged": lambda path: hs.open(path)["text"].read_ragged(),
    "views": lambda path: (hs.open(path)["a"].astype("i4")[...], hs.open(path)["a"].oindex[[1, 2], [3]]),
    "blocks": lambda path: hs.open(path)["a"].blocks[0, 0],
    "reference": lambda path: (lambda file: file[file["reference"][()]].shape)(hs.open(path)),
    "external link": lambda path: hs.open(path)["external"][...],
    "virtual": lambda path: hs.open(path)["virtual"][...],
    "refresh": lambda path: (hs.open(path).refresh(), hs.open(path)["a"].refresh()),
    "pickle": lambda path: pickle.loads(pickle.dumps(hs.open(path)["a"]))[...],
    "explain": lambda path: str(hs.open(path)["a"].explain()),
    "refused": lambda path: [pytest.raises(KeyError, hs.open(path).__getitem__, "no").type for _ in range(2)],
}


@listed
@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("use", USES)
def test_no_use_keeps_a_file_open(path: Path, use: str) -> None:
    for _ in range(3):
        USES[use](path)
    assert descriptors(path) == 0


@listed
@pytest.mark.usefixtures("collector_off")
def test_with_closes_at_once(path: Path) -> None:
    with hs.open(path) as file:
        array, group, text, kind = file["a"], file["group"], file["text"], file["type"]
        attributes, reference = array.attrs, file["reference"][()]
        assert bool(file) and bool(array) and array.shape == (10, 10) and attributes["unit"] == "m"
        assert file["external"][0] == 0 and file["virtual"][2] == 2
        assert descriptors(path) >= 1
    assert descriptors(path) == 0
    uses: list[Callable[[], Any]] = [
        lambda: file["a"],
        lambda: list(file),
        lambda: len(file),
        lambda: list(file.keys()),
        lambda: file.attrs["title"],
        lambda: group["b"],
        lambda: file[reference],
        lambda: array[0],
        lambda: array[...],
        lambda: array.read(),
        lambda: array.shape,
        lambda: array.dtype,
        lambda: np.asarray(array),
        lambda: array.attrs["unit"],
        lambda: attributes["unit"],
        lambda: list(array.stream()),
        lambda: text[0],
        lambda: text.asstr()[...],
        lambda: text.read_ragged(),
        lambda: array.astype("i4")[0],
        lambda: array.refresh(),
        lambda: file.refresh(),
        lambda: kind.attrs["note"],
        lambda: list(file.values()),
    ]
    for number, use in enumerate(uses):
        try:
            result = use()
        except ValueError as error:
            assert isinstance(error, hs.errors.ClosedError), (number, error)
            assert "file.h5" in str(error) and "is closed" in str(error), (number, error)
        else:
            raise AssertionError(f"{number}: {result!r}")
    assert not file and not array and not group
    assert (
        repr(array) == f"<Closed file://{path}/a>"
        and "Closed" in repr(file)
        and "Closed" in array._repr_html_()
    )
    assert repr(attributes) == "FileAttributes(of a closed file)"
    # A pickled node opens its file again.
    assert pickle.loads(pickle.dumps(array))[0, 1] == 1
    file.close()


def test_each_open_file_is_closed_for_itself(path: Path) -> None:
    first, second = hs.open(path), hs.open(path)
    array = first["a"]
    # The target of an external link is in another file.
    linked = first["external"]
    first["a"].close()
    assert not first and not array and second and second["a"][0, 1] == 1
    assert linked and linked[2] == 2
    with pytest.raises(hs.errors.ClosedError):
        first["group"]


def test_closing_while_others_read(path: Path) -> None:
    """Each read is complete or refused."""
    for _ in range(20):
        file = hs.open(path)
        array, wrong = file["a"], []

        def read(array: Any = array, wrong: list[Any] = wrong) -> None:
            try:
                while True:
                    if not np.array_equal(array[...], np.arange(100.0).reshape(10, 10)):
                        wrong.append("values")
            except hs.errors.ClosedError:
                pass
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        array[0]
        file.close()
        for thread in threads:
            thread.join()
        assert not wrong


def test_netcdf_files_close_too(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createVariable("v", "i4", ("t",))[:] = np.arange(4)
    with hs.open(path) as opened:
        variable = opened["v"]
        assert variable[...].tolist() == [0, 1, 2, 3]
    for use in (
        lambda: variable[...],
        lambda: opened["v"],
        lambda: list(opened),
        lambda: dict(variable.attrs),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_loop_over_many_files(tmp_path: Path) -> None:
    """Opens more files than a process may have open at once."""
    for n in range(80):
        with h5py.File(tmp_path / f"{n}.h5", "w") as file:
            file["x"] = n
            file.attrs["n"] = n
    program = """
import gc, resource, sys
import hyperslab as hs
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
gc.disable()
for n in range(80):
    file = hs.open(f"{sys.argv[1]}/{n}.h5")
    assert file.attrs["n"] == n and file["x"][()] == n
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
