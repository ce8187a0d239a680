"""A forked child continues with HDF5 and NetCDF files that threads of its parent were reading."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import hyperslab as hs
import netCDF4
import numpy as np
import pytest
from numpy.testing import assert_equal
from support import kills

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    # Python warns about forks with threads, which this test does on purpose.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

N = 20_000
FORKS = 24
TEXTS = [f"text {n}" * (n % 7) for n in range(3000)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with three kinds of chunk indexes, many attributes, heaps, groups and references.

    It also has each kind of link.
    """
    folder = tmp_path_factory.mktemp("fork")
    with h5py.File(folder / "other.h5", "w") as other:
        other["x"] = np.arange(10)
    path = folder / "file.h5"
    with h5py.File(path, "w", libver="latest", track_order=True) as file:
        file.create_dataset("array", data=np.arange(N), chunks=(1,), maxshape=(None,))
        file.create_dataset("fixed", data=np.arange(N // 2), chunks=(1,))
        file.create_dataset(
            "tree", data=np.arange(4000).reshape(40, 100), chunks=(1, 2), maxshape=(None, None)
        )
        file["text"] = TEXTS
        ragged = file.create_dataset("ragged", (500,), h5py.vlen_dtype("i4"))
        for n in range(500):
            ragged[n] = np.arange(n % 11)
        group = file.create_group("group", track_order=True)
        for n in range(300):
            group[f"member {n}"] = n
            group.attrs[f"attribute {n}"] = f"value {n}"
        file["soft"], file["external"] = h5py.SoftLink("/group"), h5py.ExternalLink("other.h5", "/x")
        file.create_dataset("reference", data=group["member 7"].ref, dtype=h5py.ref_dtype)
        layout = h5py.VirtualLayout((10,), "i8")
        layout[:] = h5py.VirtualSource("other.h5", "x", (10,))
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(folder / "old.h5", "w") as file:
        file.create_dataset("tree", data=np.arange(N), chunks=(1,), maxshape=(None,))
        for n in range(300):
            file[f"group/member {n}"] = n
            file["group"].attrs[f"attribute {n}"] = n
    return path


def texts(file: Any) -> None:
    assert file["text"].asstr()[...].tolist() == TEXTS


def one_text(file: Any) -> None:
    for n in range(0, 3000, 301):
        assert file["text"][n] == TEXTS[n].encode()


def members(file: Any) -> None:
    group = file["group"]
    assert len(list(group)) == 300 and int(group["member 123"][()]) == 123


def reference(file: Any) -> None:
    # Finding an object's path walks the whole file.
    found = file[file["reference"][()]]
    assert (found.name, int(found[()])) == ("/group/member 7", 7)


LATEST: dict[str, Callable[[Any], None]] = {
    "extensible array": lambda file: assert_equal(file["array"][5000:5010], np.arange(5000, 5010)),
    "fixed array": lambda file: assert_equal(file["fixed"][77], 77),
    "tree of version 2": lambda file: assert_equal(file["tree"][7, :5], np.arange(700, 705)),
    "texts": texts,
    "one text": one_text,
    "ragged": lambda file: assert_equal(file["ragged"][21], np.arange(10)),
    "members": members,
    "attributes": lambda file: assert_equal(file["group"].attrs["attribute 299"], "value 299"),
    "soft link": lambda file: assert_equal(file["soft/member 5"][()], 5),
    "external link": lambda file: assert_equal(file["external"][...], np.arange(10)),
    "virtual": lambda file: assert_equal(file["virtual"][...], np.arange(10)),
    "reference": reference,
}
OLD: dict[str, Callable[[Any], None]] = {
    "tree of version 1": lambda file: assert_equal(file["tree"][5000:5010], np.arange(5000, 5010)),
    "members": members,
    "attributes": lambda file: assert_equal(file["group"].attrs["attribute 299"], 299),
}


@contextmanager
def busy(works: list[Callable[[], None]]) -> Iterator[None]:
    """Runs threads that repeat the works until the block ends."""
    stop, wrong = threading.Event(), []

    def forever(work: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=forever, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


def in_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != -signal.SIGALRM, "the child hangs"
    assert code == 0


@pytest.mark.parametrize("name, works", [("file.h5", LATEST), ("old.h5", OLD)])
def test_children_go_on_with_what_threads_are_reading(path: Path, name: str, works: Any) -> None:
    shared = [hs.open(path.with_name(name))]

    def opening() -> None:
        # A new file for all threads, completely unread.
        shared[0] = hs.open(path.with_name(name))

    def each(offset: int) -> Callable[[], None]:
        kinds = list(works.values())
        kinds = kinds[offset % len(kinds) :] + kinds[: offset % len(kinds)]

        def work() -> None:
            file = shared[0]
            for kind in kinds:
                kind(file)

        return work

    with busy([opening, each(0), each(2), each(5)]):
        for n in range(kills(FORKS)):
            file = shared[0]

            def child(file: Any = file, n: int = n) -> None:
                kinds = list(works.values())
                for kind in kinds[n % len(kinds) :] + kinds[: n % len(kinds)]:
                    kind(file)

            in_child(child)


@pytest.mark.parametrize("name, dataset", [("file.h5", "array"), ("file.h5", "tree"), ("old.h5", "tree")])
def test_children_while_an_index_is_read(path: Path, name: str, dataset: str) -> None:
    """Forks at many moments of the very first read."""
    for n in range(kills(FORKS)):
        array = hs.open(path.with_name(name))[dataset]
        expected = 3
        place = 3 if array.ndim == 1 else (0, 3)
        reader = threading.Thread(target=lambda array=array, place=place: array[place])
        reader.start()
        time.sleep(n % 12 * 0.0003)

        def child(array: Any = array, place: Any = place, expected: int = expected) -> None:
            assert int(array[place]) == expected

        in_child(child)
        reader.join()


def test_children_while_a_path_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "deep.h5"
    with h5py.File(path, "w") as file:
        for n in range(400):
            file[f"a/{n}/b/c"] = n
        file.create_dataset("reference", data=file["a/399/b/c"].ref, dtype=h5py.ref_dtype)
    for n in range(kills(FORKS)):
        file = hs.open(path)
        reference = file["reference"][()]
        reader = threading.Thread(target=lambda reference=reference: reference.name)
        reader.start()
        time.sleep(n % 12 * 0.0005)

        def child(reference: Any = reference) -> None:
            assert reference.name == "/a/399/b/c", reference.name

        in_child(child)
        reader.join()
        assert reference.name == "/a/399/b/c"


def test_netcdf(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        for name in ("a", "b"):
            variable = file.createVariable(name, "i4", ("t",))
            variable[:] = np.arange(1000)
            variable.units = name
    shared = hs.open(path)

    def work() -> None:
        for file in (shared, hs.open(path)):
            assert file["b"][900] == 900 and dict(file["a"].attrs) == {"units": "a"}

    with busy([work, work]):
        for _ in range(kills(FORKS)):
            in_child(work)
