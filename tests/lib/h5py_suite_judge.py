"""A pytest plugin: h5py's own tests, with `hyperslab.h5` in place of h5py.

The tests themselves are h5py's. The real h5py reads the files that a test wrote, in a process of its
own (`python h5py_suite_judge.py`). A test fails if h5py finds other objects, attributes or values than
hyperslab.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hyperslab as hs
import pytest
from h5py_stand_in import put_in_place

hs.config.external_files = "anywhere"

# Number of files that h5py read, too.
compared = 0
outcomes: dict[str, str] = {}
# The files that the present test opened for writing.
written: list[Path] = []


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
    """Return true if no writer has the file open."""
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
        # No test has written some external files.
        missing = any(not os.path.exists(name) for name, *_ in theirs.external or ())
        if (theirs.size or 0) <= 1 << 20 and not never and not missing:
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
    written_by(hs.File)
