"""Signals stop commands and long calls: one line, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import hyperslab as hs
import numpy as np
import pytest

# Generous, because the machine may be busy. Without a check for signals the commands would run much
# longer than a signal takes to arrive. The tests ensure this by sending it right after the start.
DEADLINE = 60.0


def run_cli(*args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hyperslab", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a hierarchy of 20 000 small arrays by hand, which is faster."""
    root = tmp_path_factory.mktemp("wide") / "wide.zarr"
    hs.create_group(root)
    hs.create_array(root / "a0", data=np.arange(4, dtype="i4"), chunks=(2,))
    document = (root / "a0/zarr.json").read_bytes()
    for number in range(1, 20_000):
        array = root / f"a{number}"
        array.mkdir()
        (array / "zarr.json").write_bytes(document)
    return root


def is_catching(pid: int) -> bool:
    """Returns true if the command's handler of SIGTERM is installed.

    Python itself installs no such handler.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Sends the signal when the command has begun, and waits for its end."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end and process.poll() is None and not is_catching(process.pid):
        time.sleep(0.005)
    time.sleep(0.1)
    assert process.poll() is None, "the command was over before the signal came"
    process.send_signal(number)
    out, told = process.communicate(timeout=DEADLINE)
    return process.returncode, out, told


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["tree", "info"])
def test_listings_stop(wide: Path, command: str, number: signal.Signals, code: int) -> None:
    found, out, told = stop(run_cli(command, wide), number)
    assert (found, out, told) == (code, "", "hyperslab: interrupted\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_copy_of_many_arrays_stops(wide: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    found, out, told = stop(run_cli("copy", wide, tmp_path / "copy.zarr"), number)
    assert (found, out) == (code, "")
    assert told == "hyperslab: interrupted; the destination is as it was\n"
    assert list(tmp_path.iterdir()) == []


def test_index_stops(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "many.h5", "w") as file:
        for number in range(20_000):
            file.create_dataset(f"d{number}", data=np.arange(4), chunks=(1,))
    found, out, told = stop(
        run_cli("index", tmp_path / "many.h5", "-o", tmp_path / "refs.json"), signal.SIGINT
    )
    assert (found, out, told) == (130, "", "hyperslab: interrupted\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.h5"]


@pytest.mark.parametrize(
    "call",
    [
        lambda root: hs.open_group(root).tree(),
        lambda root: hs.open_group(root).info_complete(),
        lambda root: hs.open_group(root).members(),
        lambda root: hs.consolidate_metadata(hs.LocalStore(root)),
        lambda root: list(hs.open_group(root)),
    ],
    ids=["tree", "info_complete", "members", "consolidate", "list"],
)
def test_calls_raise_keyboard_interrupt(wide: Path, call: Callable[[Path], object]) -> None:
    """The handler's exception comes out of the call long before its end."""
    before = (wide / "zarr.json").read_bytes()
    start = time.monotonic()
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            call(wide)
    assert time.monotonic() - start < DEADLINE
    timer.join()
    assert "consolidated_metadata" in json.loads(before) or (wide / "zarr.json").read_bytes() == before
