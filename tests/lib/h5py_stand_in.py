"""A pytest plugin: h5py's own tests, with `hyperslab.h5` in place of h5py.

`import h5py` gives `hyperslab.h5`. The tests themselves are h5py's. The real h5py reads the files that
a test wrote, in a process of its own (`python h5py_stand_in.py`). There is a difference if it finds
other objects, attributes or values than hyperslab.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib.util
import json
import math
import os
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest

hs.config.external_files = "anywhere"

DRIVERS = ("sec2", "stdio", "core", "family", "mpio", "fileobj", "split")
# Number of files that h5py read, too.
compared = 0
outcomes: dict[str, str] = {}
# The files that the present test opened for writing.
written: list[Path] = []


def module(name: str, **contents: Any) -> Any:
    """Makes a module of h5py that has these names only."""
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(contents)
    return made


def put_in_place() -> None:
    """Lets `import h5py` give `hyperslab.h5`."""
    ours: Any = hs.h5
    # Here are h5py's tests, and modules without code of HDF5.
    found = importlib.util.find_spec("h5py")
    assert found is not None
    ours.__path__ = found.submodule_search_locations
    sys.modules["h5py"] = ours
    for name in ("h5", "h5a", "h5d", "h5ds", "h5f", "h5g", "h5i", "h5o", "h5p", "h5r", "h5s", "h5t", "h5z"):
        sys.modules[f"h5py.{name}"] = getattr(ours, name)
    sys.modules["h5py.version"] = ours.version
    # What the tests import from h5py's private modules. `phil` is the lock around the library.
    module("h5py._objects", phil=contextlib.nullcontext())
    ours._hl = module("h5py._hl", __path__=[])
    ours._hl.dataset = module("h5py._hl.dataset", _LEGACY_GZIP_COMPRESSION_VALS=range(10))
    module(
        "h5py._hl.base",
        Empty=ours.Empty,
        is_hdf5=ours.is_hdf5,
        is_empty_dataspace=lambda low: low.get_space().shape is None,
        product=math.prod,
    )
    module("h5py._hl.files", direct_vfd=False, _drivers=dict.fromkeys(DRIVERS))
    module("h5py._hl.compat", filename_encode=os.fsencode)
    module("h5py._hl.vds", vds_support=True)
    sys.modules["h5py.h5py_warnings"] = ours.h5py_warnings
    sys.modules["h5py.filters"] = ours.filters
    module("h5py._selector", Selector=None)
    ours.get_config()._r_name, ours.get_config()._i_name = b"r", b"i"
    # Other parts of h5py that only its tests use.
    ours.Dataset._fast_reader = property(Reading)
    ours.SoftLink._path = ours.ExternalLink._path = property(lambda link: link.path)
    ours.ExternalLink._filename = property(lambda link: link.filename)
    written_by(hs.File)


class Reading:
    """h5py's shortcut for reading."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def read(self, parts: Any) -> Any:
        return self.array[parts]


def written_by(kind: Any) -> None:
    """Notes the files that are opened for writing."""
    new: Callable[..., Any] = kind.__new__

    def noted(cls: Any, name: Any, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        made = new(cls, name, mode, *arguments, **keywords)
        if made.mode != "r" and isinstance(name, (str, bytes, os.PathLike)):
            written.append(Path(os.fsdecode(name)))
        return made

    kind.__new__ = noted


def is_closed(path: Path) -> bool:
    """Returns true if nobody has the file open for writing."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


class Reader:
    """A process in which the real h5py reads."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def differs(self, path: Path) -> str:
        """Returns how the contents differ; empty if they are the same."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(os.fspath(path)) + "\n")
        self.process.stdin.flush()
        found: str = json.loads(self.process.stdout.readline())
        return found


def compare() -> None:
    """Compares the files that a test wrote with what h5py reads."""
    global compared
    found = {path for path in written if hs.h5.is_hdf5(path)}
    written.clear()
    if not all(map(is_closed, found)):
        # A file is open until its last object is dropped.
        gc.collect()
    paths = {path for path in found if is_closed(path)}
    for path in paths:
        compared += 1
        found = READER.differs(path)
        assert not found, f"h5py reads other contents in {path.name}: {found}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Compares what the test wrote."""
    written.clear()
    yield
    compare()


def pytest_runtest_logreport(report: Any) -> None:
    # Ids of tests outside of the working directory lack the file.
    name = f"{Path(report.location[0]).name}::{report.nodeid.partition('::')[2]}"
    if report.failed or (report.when == "call" and outcomes.get(name) != "failed"):
        outcomes[name] = report.outcome


def pytest_sessionfinish() -> None:
    """Writes the outcome of each test for `test_h5py_suite.py`."""
    found = {"compared": compared, "outcomes": outcomes}
    Path(os.environ["H5PY_JUDGE"]).write_text(json.dumps(found))


def main() -> None:
    """Compares files whose paths come line by line."""
    import h5_compare
    import h5py

    compare_dataset = h5_compare.same_dataset

    def same_dataset(ours: Any, theirs: Any, what: str) -> None:
        # Some tests make datasets that are larger than the memory, or elements without a value.
        never = theirs.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
        if (theirs.size or 0) <= 1 << 20 and not never:
            compare_dataset(ours, theirs, what)

    h5_compare.same_dataset = same_dataset

    for line in sys.stdin:
        found = ""
        try:
            path = json.loads(line)
            with hs.File(path) as ours, h5py.File(path) as theirs:
                h5_compare.same_file(ours, theirs)
        except BaseException as error:
            found = f"{type(error).__name__}: {error}" + "".join(
                traceback.format_tb(error.__traceback__)[-2:]
            )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
else:
    READER = Reader()
    put_in_place()
